"""Hostile text in every column and field that any page shows: it stays text. Checked by a parser,
payload by payload, and by running it in Chromium.
"""

import json
from html.parser import HTMLParser

import orjson
import pytest
import story
from node import FakeNode, connect
from service import NOW, Service, address, signature
from test_browser import CHROMIUM, Site
from test_legacy import closed, said
from test_studio import Browser

import jobs
from accounts import traders
from accounts.fields import has_control
from chain.symbols import clean_text
from market.tables import Token
from models import Bot, Job, Key, Post, Wallet
from observer import Observer
from paper import tables as paper_tables
from paper.tables import PaperPost, Review, Trader
from storage import store_arrival

# A page with such an element treated untrusted text as its own.
MARK = "<x-pwned>"
CORPUS = {
    "script": f"{MARK}<script>pwned(1)</script>",
    "image": f"{MARK}<img src=x onerror=pwned(2)>",
    "svg": f"{MARK}<svg onload=pwned(3)><animate onbegin=pwned(3)>",
    "a double-quoted attribute": f'" autofocus onfocus=pwned(4) x="{MARK}',
    "a quoted attribute": f"' autofocus onfocus=pwned(5) x='{MARK}",
    "an unquoted attribute": f"x onmouseover=pwned(6) {MARK}",
    "the end of a textarea": f"</textarea>{MARK}<script>pwned(7)</script>",
    "the end of a title": f"</title>{MARK}<script>pwned(8)</script>",
    "the end of a script": f"</script>{MARK}<script>pwned(9)</script>",
    "a comment": f"<!-->{MARK}<script>pwned(10)</script>-->",
    "cdata": f"]]>{MARK}<![CDATA[",
    "an address": "javascript:pwned(11)//",
    "a data address": f"data:text/html,{MARK}<script>pwned(12)</script>",
    "a style": f"</style>{MARK}<style>*{{background:url(//evil.example)}}",
    "a base": (
        f"{MARK}<base href=//evil.example><meta http-equiv=refresh content=0;url=//evil.example>"
    ),
    "a form": f"{MARK}<form action=//evil.example><button formaction=javascript:pwned(13)>",
    "entities": "&lt;x-pwned&gt;&#60;x-pwned&#62;",
    "jinja": f"{{{{ 1000003*1000033 }}}}{{% raw %}}{{{{ config }}}}{MARK}",
    "other templates": (
        f"${{1000003*1000033}} #{{1000003*1000033}} <%= 1000003*1000033 %>"
        f" %(pwned)s {{0.__class__}} {{name}}{MARK}"
    ),
    "bidi": f"\u202etxt.{MARK}\u2066\u2069\u200f",
    "zero width": f"a\u200bb\u200c\u2060c\ufeff\U000e0041{MARK}",
    "line separators": f"one\u2028pwned(14)\u2029{MARK}\x85",
    "four bytes": f"\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467\U0010fffd{MARK}",
    "nul and controls": f"\x00\x07\x1b[31m\x7f{MARK}",
    "no characters": f"\ufffe\uffff\ufdd0{MARK}",
    "marks": f"Z{chr(0x300 + 26) * 60}algo{MARK}",
    "long": "w" * 3000 + MARK,
}
MINT = address("mint")


def fill(service, text):
    """An instance whose every free text is `text`, bypassing all checks, and its pages: {path:
    whether `text` is on it}; `browser` owns everything.
    """
    wallet = address("w")
    browser = Browser(service)
    _, uid, _, _ = browser.create("Nell", wallet=wallet)
    browser.send("/connect/keys", label="reading")
    bot = Bot.get()
    service.observe_trade(
        wallet,
        "t",
        10,
        mint=MINT,
        kind="sell",
        raw=-5,
        realized="matched",
        result=1,
        proceeds=5,
        cost=4,
        lots='[["trade_t","5",4],[null,"5",null]]',
        flags=orjson.dumps([text]).decode(),
        venue=text,
    )
    service.observe_results(wallet, 5, realizedSol="0.000000005", volumeSol="0.0000001")
    coverage = {
        "state": "partial",
        "observedFrom": None,
        "observedTo": None,
        "firstSlot": 1,
        "lastSlot": 9,
        "checkedAt": None,
        "receipts": 1,
        "pending": 0,
        "openingInventoryUnknown": [],
        "note": text,
        "gaps": [{"fromSlot": 1, "toSlot": 2, "reason": text}],
    }
    position = {
        "mint": MINT,
        "amountRaw": "5",
        "decimals": 0,
        "costLamports": "4",
        "unknownBasisRaw": "0",
    }
    Wallet.update(
        coverage=orjson.dumps(coverage).decode(), positions=orjson.dumps([position]).decode()
    ).execute()
    voice = orjson.dumps(
        {
            "tone": text,
            "style": [text],
            "adjectives": [text],
            "topics": [text],
            "catchphrases": [text],
            "emoji": text,
        }
    ).decode()
    Bot.update(name=text, bio=text, voice=voice, avatar_url=text).execute()
    Key.update(name=text, last4=text[:4]).execute()
    post = Post.create(
        uid="post_1",
        bot=bot,
        source="bot",
        channel="api",
        event_id=text,
        body=text,
        symbol=text,
        reason=text,
        mint=MINT,
        signature=signature("t"),
        status="mismatch",
        status_reason=text,
        event_at=NOW,
        created_at=NOW,
        wallet=Wallet.get(),
    )
    store_arrival("post", post=post)
    Token.update(symbol=text, name=text).execute()
    checks = [{"key": "supply", "label": text, "status": "warn", "detail": text, "checkedAt": None}]
    Token.delete().where(Token.mint == MINT).execute()
    Token.insert(
        mint=MINT,
        symbol=text,
        name=text,
        found_by="dexscreener",
        discovered_at=NOW,
        tracked_at=NOW,
        pair_url=text,
        checks=orjson.dumps(checks).decode(),
        quoted_at=NOW,
        absurd=text,
        source="dexscreener",
    ).execute()
    trader = traders.create_trader("Penny", "momentum", NOW).trader
    Trader.update(name=text, bio=text, voice=voice).execute()
    closed(
        trader,
        1,
        5,
        symbol=text,
        mint=MINT,
        reason=text,
        marks=orjson.dumps([text]).decode(),
        pipeline=text,
    )
    closed(trader, 2, 5, symbol=text, mint=MINT, closed_at=None, reason=None, raw="5")
    said(trader, "paper", text, {"what": "not_filled", "symbol": text, "why": text})
    PaperPost.update(symbol=text, mint=MINT).execute()
    Review.create(
        period=paper_tables.Period.get(),
        state="under_review",
        reasons=orjson.dumps(
            [{"key": "k", "code": "code", "detail": text, "symbol": text, "at": NOW}]
        ).decode(),
        opened_at=NOW,
        decision=text,
    )
    for job in ("observer", "scout", "paper"):
        jobs.note_job(job, "failing", NOW, text, '{"safety": {"state": "failing"}}')
    assert Job.select().count() == 3
    return browser, {
        "/": True,
        f"/bots/{uid}": True,
        "/posts/post_1": True,
        "/embed/post_1": True,
        "/posts/post_paper": True,
        f"/tokens/{MINT}": True,
        "/market": True,
        "/leaderboard": True,
        "/traders": True,
        f"/traders/{trader.uid}": True,
        "/strategies": False,
        "/status": True,
        f"/bots/{uid}/manage": True,
        "/connect": True,
        "/docs": False,
        "/create": False,
        "/?source=paper": True,
    }


class Reading(HTMLParser):
    """A page's elements and attributes."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.text += " ".join(value or "" for name, value in attributes if name == "value")

    def handle_data(self, text):
        self.text += text

    def find_intruders(self):
        """Elements and attributes that none of our templates write."""
        for tag, given in self.elements:
            addresses = [
                given[name]
                for name in ("href", "src", "action", "formaction", "data-samples")
                if given.get(name)
            ]
            if (
                tag in ("x-pwned", "img", "iframe", "base", "object", "embed")
                or any(name.startswith("on") for name in given)
                or (tag == "script" and not given.get("src", "").startswith("/static/"))
            ):
                yield tag, given
            if any(
                text.strip().lower().startswith(("javascript:", "data:", "//"))
                for text in addresses
            ) or (tag == "meta" and "http-equiv" in given):
                yield tag, given


@pytest.mark.parametrize("first", range(0, len(CORPUS), 4))
def test_every_page_escapes_it(tmp_path, first):
    """Four payloads at a time; each text begins with a different one."""
    service, text = Service(tmp_path / "data"), "\n".join(list(CORPUS.values())[first : first + 4])
    browser, paths = fill(service, text)
    for path, holds_it in paths.items():
        page = browser.get(path)
        reading = Reading(page.text)
        assert page.status_code == 200 and not list(reading.find_intruders()), path
        assert (
            # 1000003 * 1000033, as computed by a template
            "1000036000099" not in page.text
            and "SECRET_KEY" not in page.text
            and ("x-pwned" in reading.text) >= holds_it
        ), path
    for path in (
        "/feed.json",
        "/api/traders",
        "/api/feed",
        "/api/market",
        "/api/health",
        "/openapi.json",
    ):
        answer = browser.get(path)
        assert (
            answer.status_code == 200
            and answer.json
            and answer.headers["X-Content-Type-Options"] == "nosniff"
            and answer.mimetype.endswith("json")
        ), path
    service.close()


def test_injected_code_would_be_detected():
    for page in (
        MARK,
        "<p onclick=x>",
        "<script>x</script>",
        "<script src=//evil.example></script>",
        '<a href=" JavaScript:x">',
        "<img src=x>",
        "<meta http-equiv=refresh>",
        "<form action=//evil.example>",
    ):
        assert list(Reading(page).find_intruders()), page


@pytest.mark.parametrize("name", CORPUS)
def test_hostile_input_is_refused_or_escaped(service, name):
    """Through the API, in every field; removed characters are reported."""
    text, key = CORPUS[name], service.make_bot().publish_key.text
    for field, longest in (("eventId", 128), ("body", 4000), ("symbol", 32), ("reason", 4000)):
        answer = service.post(
            {"eventId": f"e-{field}", "body": "words", field: text[-longest:]}, key
        )
        if has_control(text[-longest:]):
            assert (answer.status_code, answer.json["errors"][0]["field"]) == (422, field)
            continue
        kept = clean_text(text[-longest:]).strip()
        assert (
            answer.status_code == 201
            and answer.json[field] == kept
            and answer.json["sanitized"] == (kept != text[-longest:])
        )
        assert (
            answer.headers["Content-Type"] == "application/json"
            and answer.headers["X-Content-Type-Options"] == "nosniff"
        )
    lone = service.post(
        b'{"eventId": "e", "body": "' + json.dumps(text)[1:-1].encode() + b'\\ud800"}', key
    )
    assert (lone.status_code, lone.json["code"]) == (400, "invalid_json")


def test_a_memo_is_shown_nowhere(service):
    """A stranger's text in a transaction with a wallet: in the instruction, the log, and the node's
    list.
    """
    told, text = story.Story(), "\n".join(CORPUS.values())
    told.fund("nell", 10**10)
    sale = told.buy("nell", "CAT", 5_000_000, 10**9)
    receipt = told.rows[-1].receipt
    receipt["transaction"]["message"]["instructions"].append(
        {
            "programId": "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr",
            "program": "spl-memo",
            "parsed": text,
            "stackHeight": None,
        }
    )
    receipt["meta"]["logMessages"] = [f"Program log: Memo (len {len(text)}): {text}"]
    made = service.make_bot("Nell", story.address("nell"))
    observer = Observer(service.config, connect(FakeNode(told.chain())))
    for turn in range(6):
        observer.run_tick(NOW + turn * 120_000)
    service.post({"eventId": "e", "body": "b", "signature": sale}, made.publish_key.text)
    (trade,) = service.get(
        "/api/v1/trades?mint=" + story.address("CAT"), made.publish_key.text
    ).json["data"]
    assert (trade["signature"], trade["kind"]) == (sale, "buy")
    for path in (
        "/",
        f"/bots/{made.bot.uid}",
        f"/tokens/{story.address('CAT')}",
        "/api/v1/trades",
        "/api/v1/feed",
        f"/api/v1/bots/{made.bot.uid}",
    ):
        answer = service.get(path, made.publish_key.text)
        assert answer.status_code == 200 and "pwned" not in answer.text


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium: apt-get install chromium")
def test_chromium_executes_none_of_it(tmp_path):
    """Every page with such text, including forms: nothing runs or tries to, and nothing is
    requested from another host.
    """
    from playwright.sync_api import sync_playwright

    with Site(tmp_path / "data") as site, sync_playwright() as driver:
        browser, paths = fill(site, " ".join(CORPUS.values()))
        chromium = driver.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        context = chromium.new_context(base_url=site.url)
        context.add_cookies(
            [
                {
                    "name": "session",
                    "value": browser.client.get_cookie("session").value,
                    "url": site.url,
                }
            ]
        )
        page, wrong = context.new_page(), []
        page.expose_function("pwned", lambda *seen: wrong.append(("ran", seen)))
        page.on("console", lambda seen: wrong.append(seen.text) if seen.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on(
            "request",
            lambda request: (
                wrong.append(request.url)
                if not request.url.startswith((site.url, "data:image/"))
                else None
            ),
        )
        for path, holds_it in paths.items():
            assert page.goto(path).status == 200
            page.evaluate(
                "document.querySelectorAll('details').forEach(one => { one.open = true })"
            )
            page.mouse.move(200, 300)
            assert (
                page.locator(
                    "x-pwned, img, iframe, [onclick], [onerror], [onfocus], [onmouseover], [onload]"
                ).count()
                == 0
            ), path
            assert not holds_it or "x-pwned" in page.content(), path
        page.goto("/connect")
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        # Shown again while typing.
        for label in ("Name", "Bio", "Tone", "Catchphrases"):
            page.get_by_label(label, exact=True).fill(CORPUS["image"][:60])
        page.wait_for_timeout(600)
        assert page.locator("x-pwned, img").count() == 0 and not wrong
        # It would have been detected.
        page.set_content("<script>pwned(0)</script>")
        page.wait_for_timeout(100)
        assert wrong
        context.close(), chromium.close()
