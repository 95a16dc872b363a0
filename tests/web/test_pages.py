"""Public pages, through the application: their contents, what they never show, and paging."""

import html
import re
import time

import orjson
import pytest
from flask import url_for
from service import NOW, address, signature

import jobs
from accounts import influencers, traders
from chain.stored.derived import NOT_POLLED
from chain.stored.tables import TradeMint
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
@pytest.fixture
def labeled(observed, publish):
    """{label: a post}, oldest first"""
    sold = signature("sold")
    return {
        "none": publish("1"),
        "pending": publish("2", signature=signature("elsewhere")),
        "verified": publish("3", signature=sold),
        "mismatch": publish("4", signature=sold, mint=OTHER),
    }


WORDS = {
    "none": "not verified",
    "pending": "waiting for the chain",
    "verified": "receipt verified",
    "mismatch": "does not match",
}


def test_each_post_carries_its_label_in_words(service, labeled, path):
    for page in (service.get("/"), service.get(f"{path}?tab=posts")):
        for label, uid in labeled.items():
            found = post_of(page, uid)
            assert found[1] == label
            assert [one for one in WORDS if WORDS[one] in found[0]] == [label]
    explorer = f"https://solscan.io/tx/{signature('sold')}"
    assert explorer in post_of(service.get("/"), labeled["verified"])[0]


def test_the_feed_filters_by_label(service, labeled):
    filters = {"": list(labeled.values())[::-1], "simulated": []}
    for label, wanted in {**filters, **{one: [uid] for one, uid in labeled.items()}}.items():
        page = service.get(f"/?label={label}")
        assert posts_of(page) == wanted, label
        assert all(f'href="/?label={one}"' in page.text for one in timeline.LABELS if one)


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
    assert "Bought on paper." in service.get("/feed.json").text


def test_posts_with_missing_transactions_are_not_verified(service, publish):
    one = publish("1", signature=signature("elsewhere"))
    Post.update(status="not_found").execute()
    two = publish("2")
    assert posts_of(service.get("/?label=none")) == [two, one]


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
    publish("1")
    for query in ("label=pending", "bot=nobody"):
        page = text_of(service.get(f"/?{query}"))
        assert "No posts match. Show the whole feed ." in page, query
    for query in ("token=NONE", "token=not a token", "token=%22", f"token={MINT}"):
        page = text_of(service.get(f"/?{query}"))
        assert "No posts match. Search for" in page and "or show the whole feed" in page, query
    assert service.get(f"/?mint={'1' * 200}").status_code == 200


def test_an_invalid_choice_is_explained(service, publish):
    publish("1", "Hidden by the filter.")
    for query in ("source=everything", "label=true"):
        page = service.get(f"/?{query}")
        assert page.status_code == 422 and "from the list" in page.text
        assert "Hidden by the filter." not in page.text


def test_the_front_page_names_contradicted_bots(service, observed, publish, bot):
    publish("1", signature=signature("sold"), mint=OTHER)
    page = service.get("/")
    assert "Contradicted by the chain: Ada (1 post)" in text_of(page)
    assert f"label=mismatch&amp;bot={bot.bot.uid}" in page.text
    assert "1 wallet observed" in text_of(page)


def say_on_paper(body, count=1):
    """Publish paper posts `paper_0`, `paper_1`... two milliseconds apart; return the first ID."""
    trader = traders.create_trader("Penny", "momentum", NOW).trader
    period = Period.get(Period.trader == trader)
    for n in range(count):
        entry = DiaryEntry.create(period=period, at=NOW, kind="fill", facts="{}")
        told = {"uid": f"paper_{n}", "body": body, "event_at": NOW, "created_at": NOW + 2 * n}
        PaperPost.create(entry=entry, trader=trader, writer="built-in", **told)
    return "paper_0"


def test_older_posts_page_without_gaps_or_repeats(service, publish, monkeypatch):
    monkeypatch.setattr(front, "PAGE_SIZE", 4)
    wanted = [publish(str(n)) for n in range(9)]
    seen, path = [], "/"
    while path:
        page = service.get(path)
        seen += posts_of(page)
        publish(f"later {len(seen)}")
        older = re.search(r'href="([^"]+)">Older posts', page.text)
        path = older and html.unescape(older[1])
    assert seen == wanted[::-1]


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


def test_another_lists_cursor_is_explained(service, publish, path, monkeypatch):
    monkeypatch.setattr(front, "PAGE_SIZE", 1)
    publish("1"), publish("2")
    cursor = re.search(r"before=([^\"&]+)\">Older", service.get("/").text)[1]
    for wrong in (
        f"/?before={cursor}x",
        f"/?source=bot&before={cursor}",
        f"/tokens/{MINT}?before={cursor}",
        f"{path}?tab=posts&posts={cursor}",
    ):
        answer = service.get(wrong)
        assert answer.status_code == 400 and "Start over" in answer.text


# ---- bots ----------------------------------------------------------------------------------------
def test_a_profile_shows_its_result_and_its_basis(service, observed, path):
    page = text_of(service.get(path))
    assert "Realized PnL −0.2500 SOL worst case −0.2500 SOL ; from 1 sale" in page
    assert "We have all 4 transactions of this wallet since its first on Oct 16, 2026" in page
    assert "claimed, not proven" in page
    holdings = text_of(service.get(f"{path}?tab=holdings"))
    assert "1.5 all at unknown cost unknown no price –" in holdings


def test_a_sale_shows_its_matched_purchases(service, observed, path):
    page = service.get(f"{path}?tab=trades").text
    sale = re.search(r'<details class="trade trade-sell">.*?</details>', page, re.S)[0]
    assert f"https://solscan.io/tx/{signature('bought')}" in sale and "Nov 4, 2026" in sale
    code = re.search(rf'<code id="(\S+)">{signature("sold")}</code>', sale)
    assert f'data-copy="#{code[1]}"' in sale
    lots = "Proceeds of these lots 0.75 SOL, less their cost 1 SOL: −0.25 SOL"
    assert lots in text_of_html(sale)


def test_the_curve_has_its_numbers_as_text(service, observed, path):
    page = service.get(path).text
    figure = re.search(r'<figure class="chart">.*?</figure>', page, re.S)[0]
    assert '<path class="down"' in figure and '<path class="up"' not in figure
    # Bought for 1 SOL, sold for 0.75: a day with one trade, and another with the loss.
    assert text_of_html(figure).endswith(
        "Nov 5, 2026 −0.2500 −0.2500 0.750 1 1 Nov 4, 2026 0.0000 0.0000 1.000 1 0"
    )


def test_each_profile_tab_is_a_page(service, publish, observed, path):
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


def test_results_say_when_they_start(service, observed, path):
    """The board counts since the wallet was connected, a profile all known history."""
    service.observe_span(WALLET, realized=5 * 10**8, trades=4, matched=3)
    assert "Top bots SOL, last 7 days, since connected" in text_of(service.get("/"))
    assert "All known history, after costs. Not a balance." in text_of(service.get(path))
    embedded = text_of(service.get(f"/embed{path}"))
    assert "Realized PnL, all known history, from 1 sale −0.2500 SOL" in embedded


def test_an_embedded_card_is_the_main_part_of_its_page(service, publish, observed, path):
    for embedded in (path, f"/{publish('e')}"):
        page = service.get(f"/embed{embedded}").text
        assert re.search(r"<main>.*<article.*</article>\s*</main>", page, re.S)


def test_a_win_rate_names_its_base_of_at_least_three_positions(service, bot, path):
    service.observe_results(WALLET, 1, positions=2, positionsWon=2)
    assert "Win rate – 2 of 2 positions" in text_of(service.get(path))
    service.observe_results(WALLET, 1, positions=3, positionsWon=1)
    assert "Win rate 33% 1 of 3 positions" in text_of(service.get(path))
    board = text_of(service.get("/leaderboard?record=all"))
    assert "Return Win rate Trades" in board and "33% 1 of 3 positions" in board


def test_observation_of_a_retired_bot_has_ended(service, observed, path):
    influencers.retire_bot(observed.bot, NOW)
    for tab in ("", "?tab=record"):
        page = text_of(service.get(path + tab))
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


def test_the_leaderboard_explains_missing_ranks(service, observed):
    service.make_bot("Quiet")
    service.make_bot("Fresh", address("fresh"))
    page = text_of(service.get("/leaderboard?record=all"))
    assert "−0.25" in page and "complete history" in page
    for reason in ("no wallet connected", "not observed yet"):
        assert f"not ranked: {reason}" in page
    for sort in ("pnl", "volume", "trades"):
        for window in ("24h", "7d", "30d", "all"):
            assert service.get(f"/leaderboard?sort={sort}&window={window}").status_code == 200
    assert service.get("/leaderboard?sort=luck").status_code == 400


def test_a_post_links_to_its_trade(service, publish, observed):
    uid = publish("t", signature=signature("sold"))
    page = service.get(f"/posts/{uid}").text
    link = html.unescape(re.search(r'href="([^"]+)">Its lots and costs', page)[1])
    trades, _, trade = link.partition("#")
    assert f'id="{trade}"' in service.get(trades).text
    assert "<summary>Check this post yourself</summary>" in page


# ---- tokens --------------------------------------------------------------------------------------
def test_a_token_page_shows_buyers_and_sellers(service, observed):
    page = service.get(f"/tokens/{MINT}")
    said = "Of the 1 wallet observed here, 1 bought it and 1 sold it, swaps included."
    assert said in text_of(page) and page.text.count("<rect") == 2
    assert re.search(r"Sale.*Ada.*2.*\+0\.7500 SOL.*Purchase.*Ada.*2.*−1\.000 SOL", text_of(page))


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


def test_only_gains_and_losses_have_a_color(service, observed, path):
    """0.75 SOL came in from a sale that lost 0.25, and 1 SOL went out for a purchase."""
    page = service.get(f"{path}?tab=trades").text
    flows = re.findall(r'<span class="sol">(.*?)</span>', page)
    assert [re.sub(r"<[^>]+>", "", flow) for flow in flows][:2] == ["+0.750 SOL", "−1.000 SOL"]
    assert re.search(r'<span class="result"><data class="amount down"', page)
    for colorless in ("".join(flows), service.get(f"/tokens/{MINT}").text):
        assert not re.search(r"amount (up|down)", colorless)


# ---- the rest ------------------------------------------------------------------------------------
@pytest.mark.parametrize("root", ["", "/candor"])
def test_page_links_match_their_routes(serve, root):
    said = "a b&c=d?e#f/g:h@i,j;k+l!m'n(o)*$p%q\"<é\u202e"
    base = f"http://127.0.0.1:8000{root}"
    with serve(base_url=base).app.test_request_context("/", base_url=base):
        assert pieces.link_to("/") == f"{root}/" == url_for("front.show_feed")
        for asked in ({"bot": said}, {"bot": said, "token": said}, {"bot": "é", "token": None}):
            assert pieces.link_to("/", **asked) == url_for("front.show_feed", **asked), asked
        board = {"record": "all", "window": "7d", "ownership": None}
        link = pieces.link_to("/leaderboard", **board)
        assert link == f"{root}/leaderboard?record=all&window=7d"
        assert link == url_for("board.show_leaderboard", **board)
        assert pieces.asset("candor.css").startswith(f"{root}/static/candor.css?v=")


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
/connect
""".split()


@pytest.mark.parametrize(
    "path", [*EMPTY, *(f"/docs/fields/{group}" for group in GROUPS), f"/tokens/{MINT}"]
)
def test_every_page_works_on_an_empty_instance(service, path):
    answer = service.get(path)
    assert answer.status_code == 200 and len(answer.data) < 40_000
    assert answer.text.count("<h1") == 1 and '<html lang="en">' in answer.text
    assert not re.search(r"style=|<script(?! src=\"/static/)|\son\w+=", answer.text)


MISSING = """
/nowhere /bots/bot_none /posts/post_none /traders/trader_none
/traders/trader_none/closes/close_none /tokens/short /docs/fields/none
"""


def test_a_missing_page_says_what_to_do(service):
    for path in MISSING.split():
        answer = service.get(path)
        assert answer.status_code == 404, path
        assert "<h1" in answer.text and "leaderboard" in answer.text, path


def test_a_paper_trader_has_a_record_and_a_label(service):
    trader = traders.create_trader("Penny", "momentum", NOW).trader
    page = text_of(service.get(f"/traders/{trader.uid}"))
    for said in ("simulated", "0/20 closes", "Coverage is not proof"):
        assert said in page
    traders.open_review(trader, "the price jumped", NOW)
    page, listed = (text_of(service.get(path)) for path in (f"/traders/{trader.uid}", "/traders"))
    assert "Win rate –" in page and "Penny" in listed
    for said in ("Under review", "withheld"):
        assert said in page and said in listed


def test_the_invitation_is_the_same_for_everybody(service, observed):
    first = service.get("/create").headers["ETag"]
    assert service.get("/create", headers={"If-None-Match": first}).status_code == 304
    with service.client.session_transaction() as cookie:
        cookie["creator"] = "somebody"
    page = service.get("/create").text
    for private in ("Ada", WALLET, observed.bot.uid, "csrf"):
        assert private not in page
