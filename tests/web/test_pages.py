"""Public pages, through the application: their contents, what they never show, and paging."""

import html
import re
import time

import orjson
import pytest
from flask import url_for
from service import NOW, add_risk, address, signature

import jobs
from accounts import influencers, traders
from chain.ledger.inventory import SOL
from chain.stored.derived import NOT_POLLED
from chain.stored.tables import TokenTotal, TradeMint
from market.tables import Token
from models import Post, Wallet
from paper.tables import DiaryEntry, PaperPost, Period
from storage import counters
from web.api import timeline
from web.site import front, pieces
from web.site.documentation import GROUPS

WALLET, MINT, OTHER = address("wallet"), address("mint"), address("other")
COVERAGE = {
    **NOT_POLLED,
    "state": "complete",
    "observedFrom": "2026-10-16T09:00:00Z",
    "observedTo": "2026-11-05T12:00:00Z",
    "firstSlot": 1,
    "lastSlot": 9,
    "checkedAt": "2026-11-05T12:00:00Z",
    "receipts": 4,
    "note": None,
}
HOSTILE = "<script>window.pwned=1</script>{{7*7}}\u202eevil"


def text_of_html(text):
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))).strip()


def text_of(answer):
    return text_of_html(answer.text)


def post_of(answer, uid):
    """(the article, its label) of a post on a page, or None."""
    article = rf'<article class="post post-(\S+)" data-post="{uid}">.*?</article>'
    return re.search(article, answer.text, re.S)


def posts_of(answer):
    """The posts on a page, from top to bottom."""
    return re.findall(r'data-post="([^"]+)"', answer.text)


@pytest.fixture
def bot(service):
    return service.make_bot("Ada", WALLET)


@pytest.fixture
def path(bot):
    """The bot's page."""
    return f"/bots/{bot.bot.uid}"


@pytest.fixture
def read(service, path):
    """read("trades") -> the text of this tab of the bot's page"""
    return lambda tab="": text_of(service.get(f"{path}?tab={tab}" if tab else path))


def store(**columns):
    """Store derived data of the only wallet."""
    dumped = {name: orjson.dumps(value).decode() for name, value in columns.items()}
    Wallet.update(dumped).execute()


@pytest.fixture
def observed(service, bot):
    """Ada with a purchase and its sale, results and coverage."""
    bought = {"raw": 2_000, "sol": -1_000_000_000, "block_time": NOW // 1000 - 86_400}
    service.observe_trade(WALLET, "bought", 1, **bought)
    sold = {"kind": "sell", "raw": -2_000, "sol": 750_000_000, "realized": "matched"}
    sums = {"result": -250_000_000, "proceeds": 750_000_000, "cost": 1_000_000_000}
    lots = orjson.dumps([["trade_bought", "2000", "1000000000"]]).decode()
    service.observe_trade(WALLET, "sold", 2, **sold, **sums, matched_raw="2000", lots=lots)
    service.observe_results(WALLET, -250_000_000, volumeSol="1.75", overheadLamports="5000")
    position = {"mint": MINT, "amountRaw": "1500", "decimals": 3}
    unknown = {"costLamports": None, "unknownBasisRaw": "1500"}
    store(coverage=COVERAGE, positions=[{**position, **unknown}])
    return bot


@pytest.fixture
def publish(service, bot):
    """publish(event ID, body, **more) -> the post's ID"""

    def send(event, body="Words.", **more):
        key = more.pop("key", bot.publish_key.text)
        return service.post({"eventId": event, "body": body, **more}, key).json["id"]

    return send


# ---- the feed ------------------------------------------------------------------------------------
LABELS = {
    "none": "not verified",
    "pending": "waiting for the chain",
    "verified": "receipt verified",
    "mismatch": "does not match",
}


def test_each_post_has_one_label_by_which_the_feed_can_be_filtered(
    service, observed, publish, path
):
    sold = signature("sold")
    posts = {
        "none": publish("1"),
        "pending": publish("2", signature=signature("elsewhere")),
        "verified": publish("3", signature=sold),
        "mismatch": publish("4", signature=sold, mint=OTHER),
    }
    for page in (service.get("/"), service.get(f"{path}?tab=posts")):
        for label, uid in posts.items():
            article, shown = post_of(page, uid).group(0, 1)
            assert shown == label and [one for one in LABELS if LABELS[one] in article] == [label]
    front_page = service.get("/")
    assert f"https://solscan.io/tx/{sold}" in post_of(front_page, posts["verified"])[0]
    assert "1 wallet observed" in text_of(front_page)
    assert "Contradicted by the chain: Ada (1 post)" in text_of(front_page)
    assert f"label=mismatch&amp;bot={observed.bot.uid}" in front_page.text
    filters = {"": list(posts.values())[::-1], "simulated": []}
    for label, wanted in {**filters, **{one: [uid] for one, uid in posts.items()}}.items():
        page = service.get(f"/?label={label}")
        assert posts_of(page) == wanted, label
        assert all(f'href="/?label={one}"' in page.text for one in timeline.LABELS if one)
    # A transaction that was not found verifies nothing.
    Post.update(status="not_found").where(Post.uid == posts["pending"]).execute()
    assert posts_of(service.get("/?label=none")) == [posts["pending"], posts["none"]]


def test_simulated_posts_look_different_and_say_so(service, publish):
    paper = say_on_paper("Bought on paper.")
    assert post_of(service.get("/"), paper)[1] == "simulated"
    publish("1", "From a wallet bot.")
    assert post_of(service.get("/"), paper) is None
    for path in ("/?label=simulated", "/?source=paper"):
        page = service.get(path)
        assert post_of(page, paper)[1] == "simulated", path
        assert "From a wallet bot." not in page.text
    assert "simulated" in text_of(service.get(f"/posts/{paper}"))


def test_the_feed_filters_by_bot_and_by_ticker_or_address(service, publish):
    ben = service.make_bot("Big Ben")
    Token.create(mint=MINT, symbol="TARN")
    named = publish("1", mint=MINT)
    publish("2")
    theirs = publish("3", key=ben.publish_key.text)
    for wanted, queries in (
        (named, (f"token={MINT}", "token=tarn", "token=$TARN", "token=TARN&bot=ada")),
        (theirs, ("bot=Big ben", f"bot=@{ben.bot.handle}", f"bot={ben.bot.uid}")),
    ):
        for query in queries:
            assert posts_of(service.get(f"/?{query}")) == [wanted], query


def test_a_filter_without_matches_suggests_a_next_step(service, publish):
    publish("1", "Hidden by the filter.")
    searched = "No posts match. Search for"
    for query, status, said in (
        ("label=pending", 200, "No posts match. Show the whole feed ."),
        ("bot=nobody", 200, "No posts match. Show the whole feed ."),
        ("token=NONE", 200, searched),
        ("token=not a token", 200, searched),
        ("token=%22", 200, searched),
        (f"token={MINT}", 200, searched),
        ("source=everything", 422, "from the list"),
        ("label=true", 422, "from the list"),
    ):
        page = service.get(f"/?{query}")
        assert page.status_code == status and said in text_of(page), query
        assert "Hidden by the filter." not in page.text
    assert service.get(f"/?mint={'1' * 200}").status_code == 200


def say_on_paper(body, count=1):
    """Publish paper posts `paper_0`, `paper_1`... two milliseconds apart; return the first ID."""
    trader = traders.create_trader("Penny", "momentum", NOW).trader
    period = Period.get(Period.trader == trader)
    for n in range(count):
        entry = DiaryEntry.create(period=period, at=NOW, kind="fill", facts="{}")
        told = {"uid": f"paper_{n}", "body": body, "event_at": NOW, "created_at": NOW + 2 * n}
        PaperPost.create(entry=entry, trader=trader, writer="built-in", **told)
    return "paper_0"


def find_older(page):
    older = re.search(r'href="([^"]+)">Older posts', page.text)
    return older and html.unescape(older[1])


def test_older_posts_page_without_gaps_or_repeats(service, publish, path, monkeypatch):
    monkeypatch.setattr(front, "PAGE_SIZE", 4)
    wanted = [publish(str(n)) for n in range(9)]
    cursor = find_older(service.get("/")).partition("before=")[2]
    seen, place = [], "/"
    while place:
        page = service.get(place)
        seen += posts_of(page)
        publish(f"later {len(seen)}")
        place = find_older(page)
    assert seen == wanted[::-1]
    for wrong in (
        f"/?before={cursor}x",
        f"/?source=bot&before={cursor}",
        f"/tokens/{MINT}?before={cursor}",
        f"{path}?tab=posts&posts={cursor}",
    ):
        answer = service.get(wrong)
        assert answer.status_code == 400 and "Start over" in answer.text


def test_both_kinds_of_posts_share_pages(service, publish):
    say_on_paper("p", 30)
    ours = [publish(str(n)) for n in range(30)]
    for n, uid in enumerate(ours):
        Post.update(created_at=NOW + 2 * n + 1).where(Post.uid == uid).execute()
    seen, path = [], "/feed.json"
    while path:
        page = service.get(path).json
        seen += [item["_candor"]["post"] for item in page["items"]]
        path = page.get("next_url")
    assert seen == [uid for n in reversed(range(30)) for uid in (ours[n], f"paper_{n}")]


# ---- bots ----------------------------------------------------------------------------------------
def test_a_profile_shows_its_result_and_its_basis(service, observed, read):
    page = read()
    assert "Realized PnL −0.2500 SOL worst case −0.2500 SOL ; from 1 sale" in page
    assert "We have all 4 transactions of this wallet since its first on Oct 16, 2026" in page
    assert "claimed, not proven" in page
    # The board counts since the wallet was connected, a profile all known history.
    assert "All known history, after costs. Not a balance." in page
    service.observe_span(WALLET, realized=5 * 10**8, trades=4, matched=3)
    assert "Top bots SOL, last 7 days, since connected" in text_of(service.get("/"))
    assert "1.5 all at unknown cost unknown no price –" in read("holdings")


def test_a_sale_shows_its_matched_purchases(service, observed, publish, path):
    page = service.get(f"{path}?tab=trades").text
    sale = re.search(r'<details class="trade trade-sell">.*?</details>', page, re.S)[0]
    assert f"https://solscan.io/tx/{signature('bought')}" in sale and "Nov 4, 2026" in sale
    code = re.search(rf'<code id="(\S+)">{signature("sold")}</code>', sale)
    assert f'data-copy="#{code[1]}"' in sale
    lots = "Proceeds of these lots 0.75 SOL, less their cost 1 SOL: −0.25 SOL"
    assert lots in text_of_html(sale)
    # A post about it links to it.
    post = service.get(f"/posts/{publish('t', signature=signature('sold'))}").text
    link = html.unescape(re.search(r'href="([^"]+)">Its lots and costs', post)[1])
    trades, _, trade = link.partition("#")
    assert f'id="{trade}"' in service.get(trades).text
    assert "<summary>Check this post yourself</summary>" in post


def test_only_gains_and_losses_have_a_color(service, observed, path):
    """0.75 SOL came in from a sale that lost 0.25, and 1 SOL went out for a purchase."""
    page = service.get(f"{path}?tab=trades").text
    flows = re.findall(r'<span class="sol">(.*?)</span>', page)
    assert [text_of_html(flow) for flow in flows][:2] == ["+0.750 SOL", "−1.000 SOL"]
    assert re.search(r'<span class="result"><data class="amount down"', page)
    for colorless in ("".join(flows), service.get(f"/tokens/{MINT}").text):
        assert not re.search(r"amount (up|down)", colorless)


def test_each_profile_tab_is_a_page(service, publish, path):
    said = [publish(str(n)) for n in range(5)][::-1]
    overview = service.get(path)
    for tab in ("trades", "holdings", "posts", "record"):
        page = service.get(f"{path}?tab={tab}")
        assert f'href="{path}?tab={tab}"' in overview.text and page.status_code == 200
        assert f'href="{path}?tab={tab}" aria-current="page"' in page.text
        assert page.text.count("<h1") == 1 and "Ada" in page.text
    # The overview has the three latest, the tab all of them.
    assert posts_of(overview) == said[:3]
    assert posts_of(service.get(f"{path}?tab=posts")) == said
    assert service.get(f"{path}?tab=luck").status_code == 400


def test_a_win_rate_names_its_base_of_at_least_three_positions(service, bot, read):
    service.observe_results(WALLET, 1, positions=2, positionsWon=2)
    assert "Win rate – 2 of 2 positions" in read()
    service.observe_results(WALLET, 1, positions=3, positionsWon=1)
    assert "Win rate 33% 1 of 3 positions" in read()
    board = text_of(service.get("/leaderboard?record=all"))
    assert "Return Win rate Trades" in board and "33% 1 of 3 positions" in board


def test_observation_of_a_retired_bot_has_ended(service, observed, path, read):
    influencers.retire_bot(observed.bot, NOW)
    for page in (read(), read("record")):
        assert "Observing ended. The wallet was disconnected on Nov 5, 2026." in page
        assert "Not observed" not in page
    embedded = text_of(service.get(f"/embed{path}"))
    assert "No results: it was retired on Nov 5, 2026. Observing ended" in embedded


def test_a_bot_without_a_wallet_claims_nothing(service):
    mute = service.make_bot("Words Only").bot
    page = text_of(service.get(f"/bots/{mute.uid}"))
    assert "No wallet is connected" in page and "Realized PnL" not in page and "SOL" not in page
    influencers.retire_bot(mute, NOW)
    assert "Observing ended" not in service.get(f"/bots/{mute.uid}").text


def test_a_wallet_without_transactions_is_not_called_complete(service, publish, path):
    store(coverage={**NOT_POLLED, "state": "complete", "note": None})
    page = service.get(path).text
    assert "No transactions yet." in page and "Complete history" not in page
    assert "coverage-complete" not in page and '<dl class="tiles' not in page
    publish("hello")
    assert "No claims yet." in service.get(path).text


# ---- results by token, and a history that is still loading ---------------------------------------
def observe_tokens(service, results):
    """Write the results of tokens, in lamports, and a partial history with them."""
    service.observe_results(WALLET, sum(results))
    Wallet.update(forward_realized=sum(results)).execute()
    add_risk(Wallet.get(), 0, results)
    for number, realized in enumerate(results):
        earned = {"realized": realized, "sales": 1, "winning": int(realized > 0)}
        mint = address(f"m{number}")
        TokenTotal.create(wallet=Wallet.get(), money=SOL, view=0, mint=mint, **earned)


def find_tokens(service, path):
    """The list of results by token on the trades tab."""
    page = service.get(f"{path}?tab=trades").text
    return re.search(r'aria-labelledby="by-token".*?</section>', page, re.S)[0]


def test_tokens_are_listed_once_best_first(service, path):
    observe_tokens(service, [n * 10**9 for n in (3, -2, 1, -4, 5, -6, 7)])
    shown = re.findall(r'value="(-?\d+)"', find_tokens(service, path))
    assert shown == ["7", "5", "3", "1", "-2", "-4", "-6"]


def test_a_loading_profile_has_a_bar_updates_itself_and_decides_nothing(service, path):
    observe_tokens(service, [250_000_000])
    loading = {**NOT_POLLED, "receipts": 20, "pending": 216, "note": None}
    store(coverage={**loading, "state": "backfilling"})
    page = service.get(path).text
    assert '<progress id="progress" max="236" value="20">' in page
    assert '<noscript><meta http-equiv="refresh"' in page
    assert "Realized PnL so far" in page and "so-far" in page
    # No color, because nothing is decided yet.
    tiles = re.search(r'<dl class="tiles.*?</dl>', page, re.S)[0]
    by_token = find_tokens(service, path)
    assert 'class="amount up"' not in tiles + by_token
    assert "Result per token so far" in by_token and "made a profit so far." in by_token
    assert "0.2500" in by_token and "so-far" in by_token
    store(coverage={**loading, "state": "complete"})
    page, by_token = service.get(path).text, find_tokens(service, path)
    assert "<progress" not in page and "http-equiv" not in page and 'class="amount up"' in page
    assert "so far" not in by_token and "+0.2500" in by_token
    # Sales after a gap have no result.
    for gaps, count in (([], 1), ([{"fromSlot": 1, "toSlot": 9}], 0)):
        store(coverage={**loading, "state": "partial", "gaps": gaps})
        assert service.get(path).text.count("It can still be ranked") == count


# ---- spam: unknown tokens that arrived without a purchase ----------------------------------------
JUP = "JUPyiwrYJFskUPiHa7hkeR8VUtAeFoSYbKedZNsDvCN"
PRICE = {"price_sol": "0.001", "source": "dexscreener", "quoted_at": NOW, "held": True}


@pytest.fixture
def hold(service, path):
    """hold(mints, **more) -> the mints in the table of 1.5 of each, and the folded ones."""

    def show(*mints, **more):
        held = {"amountRaw": "1500", "decimals": 3, "costLamports": None, "unknownBasisRaw": "1500"}
        store(positions=[{"mint": mint, **held, **more} for mint in mints])
        page = service.get(f"{path}?tab=holdings").text
        section = re.search(r'<section aria-labelledby="holdings">.*?</section>', page, re.S)[0]
        table, _, folded = section.partition("<details")
        assert ("unknown tokens that arrived without a purchase" in folded) == (len(mints) > 1)
        return [re.findall(r"/tokens/(\w+)", part) for part in (table, folded)]

    return show


def test_spam_is_folded_away_and_stays_in_the_api(hold, service, bot):
    assert hold(OTHER, MINT) == [[], [OTHER, MINT]]
    shown = service.get(f"/api/v1/bots/{bot.bot.uid}", bot.publish_key.text).json
    assert [one["mint"] for one in shown["openPositions"]] == [OTHER, MINT]


def test_bought_traded_known_and_priced_tokens_are_not_spam(hold, service):
    for unknown in ("1500", "0"):
        assert hold(MINT, costLamports="90", unknownBasisRaw=unknown) == [[MINT], []]
    # Another bot's trades don't matter.
    service.make_bot("Bob", address("b"))
    traded, priced, absurd = map(address, ("traded", "priced", "absurd"))
    service.observe_trade(address("b"), "theirs", 1, mint=MINT)
    service.observe_trade(WALLET, "mine", 1, mint=traded)
    Token.create(mint=priced, **PRICE)
    Token.create(mint=absurd, **PRICE, absurd="jump")
    assert hold(JUP, traded, priced, absurd, MINT) == [[JUP, traded, priced], [absurd, MINT]]


# ---- tokens --------------------------------------------------------------------------------------
def test_a_token_page_shows_buyers_and_sellers(service, observed):
    page = service.get(f"/tokens/{MINT}")
    text = text_of(page)
    assert "Of the 1 wallet observed here, 1 bought it and 1 sold it, swaps included." in text
    assert re.search(r"Sale.*Ada.*2.*\+0\.7500 SOL.*Purchase.*Ada.*2.*−1\.000 SOL", text)
    assert page.text.count("<rect") == 2


def test_a_token_swap_shows_both_sides_and_is_not_a_purchase(service, bot):
    """2.5 of the token for 40 of another; 5,000 lamports are its fee, not a price."""
    changes = orjson.dumps([[MINT, "-2500", 3], [OTHER, "4000", 2]]).decode()
    service.observe_trade(WALLET, "swap", slot=5, kind="swap", mint=MINT, token_changes=changes)
    TradeMint.update(side="sell").execute()
    Token.create(mint=OTHER, symbol="FERN")
    page = service.get(f"/tokens/{MINT}")
    assert re.search(r"Swap .*Ada −2\.5 \+40 FERN", text_of(page))
    assert not re.search(r"Sale|Purchase |0\.000005", text_of(page))
    assert "No purchases, no sales and 1 swap on" in text_of(page) and 'class="gave"' in page.text


# ---- the rest ------------------------------------------------------------------------------------
def test_page_links_match_their_routes(service):
    """Below a path: test_prefix.py."""
    said = "a b&c=d?e#f/g:h@i,j;k+l!m'n(o)*$p%q\"<é\u202e"
    with service.app.test_request_context("/"):
        for asked in ({}, {"bot": said, "token": said}, {"bot": "é", "token": None}):
            assert pieces.link_to("/", **asked) == url_for("front.show_feed", **asked), asked
        board = {"record": "all", "window": "7d", "ownership": None}
        link = pieces.link_to("/leaderboard", **board)
        assert link == "/leaderboard?record=all&window=7d"
        assert link == url_for("board.show_leaderboard", **board)


@pytest.mark.parametrize("broken", ["scout", "allowance", None])
def test_pages_and_health_agree_on_the_status(service, monkeypatch, broken):
    now = time.time_ns() // 1_000_000
    for name in ("observer", "scout", "paper"):
        jobs.note_job(name, "ok", now, "no price service answers" if broken == name else None)
    if broken == "allowance":
        monkeypatch.setattr(counters, "find_problem", lambda *_: "OperationalError")
    words = "Something needs attention" if broken else "Everything works"
    assert service.get("/api/health").json["status"] == ("degraded" if broken else "ok")
    assert f">{words}</a>:" in service.get("/").text
    assert words in service.get("/status").text


EMPTY = """
/ /leaderboard /market /traders /strategies /create /status /log/ /docs /docs/errors /docs/fields
/connect /seasons
"""


def test_every_page_works_on_an_empty_instance(service):
    for path in (*EMPTY.split(), *(f"/docs/fields/{group}" for group in GROUPS), f"/tokens/{MINT}"):
        answer = service.get(path)
        assert answer.status_code == 200 and len(answer.data) < 40_000, path
        assert answer.text.count("<h1") == 1 and '<html lang="en">' in answer.text, path
        # The invitation is the same for everybody.
        assert ("csrf" in answer.text) == (path == "/connect"), path
        inline = r"style=|<script(?! src=\"/static/)|\son\w+="
        assert not re.search(inline, answer.text), path


MISSING = """
/nowhere /bots/bot_none /posts/post_none /traders/trader_none
/traders/trader_none/closes/close_none /tokens/short /docs/fields/none
"""


def test_a_missing_page_says_what_to_do(service):
    for path in MISSING.split():
        answer = service.get(path)
        assert answer.status_code == 404 and "<h1" in answer.text, path
        assert "leaderboard" in answer.text, path


# ---- files that browsers and search engines request from every host ------------------------------
FILES = {
    "/robots.txt": "text/plain",
    "/favicon.ico": "image/x-icon",
    "/manifest.webmanifest": "application/manifest+json",
}


def test_each_file_has_its_type_and_is_cached_for_a_day(service):
    for path, kind in FILES.items():
        with service.get(path) as answer:
            assert (answer.status_code, answer.mimetype) == (200, kind)
            assert re.search(r"\bmax-age=86400\b", answer.headers["Cache-Control"])
        with service.get(path, headers={"If-None-Match": answer.headers["ETag"]}) as again:
            assert again.status_code == 304


def test_crawlers_are_kept_from_the_api_and_owner_pages_only(service):
    lines = service.get("/robots.txt").text.splitlines()
    assert lines[0] == "User-agent: *" and "Disallow: /" not in lines
    assert {"Disallow: /api/", "Disallow: /connect"} <= set(lines)


def test_pages_link_the_manifest_and_its_icons_are_valid(service):
    page = service.get("/")
    assert '<link rel="manifest" href="/manifest.webmanifest">' in page.text
    assert "manifest-src 'self'" in page.headers["Content-Security-Policy"]
    icon = service.get("/manifest.webmanifest").json["icons"][0]
    with service.get(icon["src"]) as drawn:
        assert drawn.mimetype == icon["type"]
    with service.get("/favicon.ico") as answer:
        assert answer.data[:6] == b"\0\0\1\0\2\0" and answer.data.count(b"\x89PNG") == 2


def test_a_paper_traders_pages_withhold_a_reviewed_record(service):
    trader = traders.create_trader("Penny", "momentum", NOW).trader
    path = f"/traders/{trader.uid}"
    assert "0/20 closes" in text_of(service.get(path))
    traders.open_review(trader, "the price jumped", NOW)
    for page in (path, "/traders"):
        text = text_of(service.get(page))
        assert "Under review" in text and "withheld" in text
