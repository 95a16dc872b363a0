"""Public pages, through the application: their contents, what they never show, and paging."""

import html
import re
import time

import ground
import orjson
import pytest
from flask import url_for
from service import NOW, address, signature

import jobs
from accounts import influencers, traders
from app import create_app
from chain.stored.derived import NOT_POLLED
from chain.stored.tables import TradeMint
from market.tables import Token
from models import Post, Wallet
from storage import counters
from web.api import timeline
from web.site import pieces
from web.site.documentation import GROUPS

WALLET, MINT = address("wallet"), address("mint")
COVERAGE = {
    "state": "complete",
    "observedFrom": "2026-10-16T09:00:00Z",
    "observedTo": "2026-11-05T12:00:00Z",
    "firstSlot": 1,
    "lastSlot": 9,
    "checkedAt": "2026-11-05T12:00:00Z",
    "receipts": 4,
    "pending": 0,
    "gaps": [],
    "openingInventoryUnknown": [],
    "note": None,
}
RESULTS = {
    "realizedSol": "-0.25",
    "volumeSol": "1.75",
    "winningSells": 1,
    "matchedSells": 3,
    "overheadLamports": "5000",
}
HOSTILE = "<script>window.pwned=1</script>{{7*7}}\u202eevil"


def text_of_html(text):
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))).strip()


def text_of(answer):
    return text_of_html(answer.text)


def post_of(answer, uid):
    return re.search(
        rf'<article class="post post-(\S+)" data-post="{uid}">.*?</article>', answer.text, re.S
    )


@pytest.fixture
def bot(service):
    return service.make_bot("Ada", WALLET)


@pytest.fixture
def observed(service, bot):
    """Ada with a purchase and its sale, results and coverage."""
    service.observe_trade(
        WALLET, "bought", 1, raw=2_000, sol=-1_000_000_000, block_time=NOW // 1000 - 86_400
    )
    service.observe_trade(
        WALLET,
        "sold",
        2,
        kind="sell",
        raw=-2_000,
        sol=750_000_000,
        realized="matched",
        result=-250_000_000,
        proceeds=750_000_000,
        cost=1_000_000_000,
        matched_raw="2000",
        lots=orjson.dumps([["trade_bought", "2000", "1000000000"]]).decode(),
    )
    service.observe_results(
        WALLET,
        -250_000_000,
        **{name: value for name, value in RESULTS.items() if name != "matchedSells"},
    )
    positions = [
        {
            "mint": MINT,
            "amountRaw": "1500",
            "decimals": 3,
            "costLamports": None,
            "unknownBasisRaw": "1500",
        }
    ]
    Wallet.update(
        coverage=orjson.dumps(COVERAGE).decode(), positions=orjson.dumps(positions).decode()
    ).where(Wallet.address == WALLET).execute()
    return bot


def publish(service, bot, event, body="Words.", **more):
    return service.post({"eventId": event, "body": body, **more}, bot.publish_key.text).json


# ---- the feed ------------------------------------------------------------------------------------
def publish_each_label(service, observed):
    """{label: a post}, oldest first"""
    sold = signature("sold")
    return {
        "none": publish(service, observed, "1"),
        "pending": publish(service, observed, "2", signature=signature("elsewhere")),
        "verified": publish(service, observed, "3", signature=sold),
        "mismatch": publish(service, observed, "4", signature=sold, mint=address("other")),
    }


def test_each_post_carries_its_label_in_words(service, observed):
    said = publish_each_label(service, observed)
    words = {
        "none": "not verified",
        "pending": "waiting for the chain",
        "verified": "receipt verified",
        "mismatch": "does not match",
    }
    for path in ("/", f"/bots/{observed.bot.uid}?tab=posts"):
        page = service.get(path)
        for key, one in said.items():
            found = post_of(page, one["id"])
            assert (
                found[1] == key
                and words[key] in found[0]
                and not any(words[other] in found[0] for other in words if other != key)
            )
    assert (
        f"https://solscan.io/tx/{signature('sold')}"
        in post_of(service.get("/"), said["verified"]["id"])[0]
    )


def test_simulated_posts_look_different_and_say_so(service, bot):
    paper = say_on_paper("Bought on paper.")
    assert post_of(service.get("/"), paper)[1] == "simulated"
    publish(service, bot, "1", "From a wallet bot.")
    assert post_of(service.get("/"), paper) is None
    for path in ("/?label=simulated", "/?source=paper"):
        page = service.get(path)
        assert post_of(page, paper)[1] == "simulated", path
        assert "From a wallet bot." not in page.text
    assert (
        "simulated" in text_of(service.get(f"/posts/{paper}"))
        and "Bought on paper." in service.get("/feed.json").text
    )


def test_the_feed_filters_by_label(service, observed):
    ids = {label: post["id"] for label, post in publish_each_label(service, observed).items()}
    wanted = {"": [*ids.values()][::-1], "simulated": [], **{one: [ids[one]] for one in ids}}
    for label, shown in wanted.items():
        page = service.get(f"/?label={label}").text
        assert re.findall(r'data-post="([^"]+)"', page) == shown, label
        assert all(f'href="/?label={one}"' in page for one in timeline.LABELS if one)


def test_posts_with_missing_transactions_are_not_verified(service, bot):
    one = publish(service, bot, "1", signature=signature("elsewhere"))
    Post.update(status="not_found").execute()
    two = publish(service, bot, "2")
    page = service.get("/?label=none").text
    assert re.findall(r'data-post="([^"]+)"', page) == [two["id"], one["id"]]


def test_the_feed_filters_by_bot_and_by_ticker_or_address(service, bot):
    other = service.make_bot("Ben")
    Token.create(mint=MINT, symbol="TARN")
    named = publish(service, bot, "1", mint=MINT)["id"]
    publish(service, bot, "2")
    theirs = publish(service, other, "3")["id"]
    for query in (
        f"token={MINT}",
        "token=tarn",
        "token=$TARN",
        "token=TARN&bot=ada",
    ):
        found = re.findall(r'data-post="([^"]+)"', service.get(f"/?{query}").text)
        assert found == [named], query
    for query in ("bot=Ben", "bot=@ben", f"bot={other.bot.uid}"):
        found = re.findall(r'data-post="([^"]+)"', service.get(f"/?{query}").text)
        assert found == [theirs], query


@pytest.mark.parametrize(
    "query", ["token=not a token", "token=%22", "bot=nobody", f"mint={'1' * 200}"]
)
def test_a_filter_without_matches_is_not_an_error(service, bot, query):
    publish(service, bot, "1")
    page = service.get(f"/?{query}")
    assert page.status_code == 200


def test_the_front_page_names_contradicted_bots(service, observed):
    publish(service, observed, "1", signature=signature("sold"), mint=address("other"))
    page = service.get("/")
    assert "Contradicted by the chain: Ada (1 post)" in text_of(page)
    assert f"label=mismatch&amp;bot={observed.bot.uid}" in page.text
    assert "1 wallet observed" in text_of(page)


def say_on_paper(body, count=1):
    """Publish paper posts `paper_0`, `paper_1`... two milliseconds apart; return the first ID."""
    from paper.tables import DiaryEntry, PaperPost, Period

    trader = traders.create_trader("Penny", "momentum", NOW).trader
    period = Period.get(Period.trader == trader)
    for n in range(count):
        at = NOW + 2 * n
        entry = DiaryEntry.create(period=period, at=NOW, kind="fill", facts="{}")
        told = {"uid": f"paper_{n}", "body": body, "event_at": NOW, "created_at": at}
        PaperPost.create(entry=entry, trader=trader, writer="built-in", **told)
    return "paper_0"


def test_older_posts_page_without_gaps_or_repeats(service, bot):
    wanted = [publish(service, bot, str(n), f"Number {n}.")["id"] for n in range(45)]
    seen, path = [], "/"
    while path:
        page = service.get(path)
        seen += re.findall(r'data-post="([^"]+)"', page.text)
        publish(service, bot, f"later {len(seen)}")
        older = re.search(r'href="([^"]+)">Older posts', page.text)
        path = older and html.unescape(older[1])
    assert seen == wanted[::-1]


def test_both_kinds_of_posts_share_pages(service, bot):
    say_on_paper("p", 30)
    mixed = [publish(service, bot, str(n))["id"] for n in range(30)]
    for n, uid in enumerate(mixed):
        Post.update(created_at=NOW + 2 * n + 1).where(Post.uid == uid).execute()
    seen, path = [], "/feed.json"
    while path:
        page = service.get(path).json
        seen += [item["_candor"]["post"] for item in page["items"]]
        path = page.get("next_url")
    assert seen == [uid for n in reversed(range(30)) for uid in (mixed[n], f"paper_{n}")]


def test_an_invalid_choice_is_explained(service, bot):
    publish(service, bot, "1", "Hidden by the filter.")
    for query in ("source=everything", "label=true"):
        page = service.get(f"/?{query}")
        assert page.status_code == 422 and "from the list" in page.text
        assert "Hidden by the filter." not in page.text
    assert "No posts match" in service.get(f"/?token={MINT}").text


def test_another_lists_cursor_is_explained(service, bot):
    for n in range(21):
        publish(service, bot, str(n))
    cursor = re.search(r"before=([^\"&]+)\">Older", service.get("/").text)[1]
    for path in (
        f"/?before={cursor}x",
        f"/?source=bot&before={cursor}",
        f"/tokens/{MINT}?before={cursor}",
        f"/bots/{bot.bot.uid}?tab=posts&posts={cursor}",
    ):
        answer = service.get(path)
        assert answer.status_code == 400 and "Start over" in answer.text


def test_an_unchanged_page_returns_304(service):
    first = service.get("/create")
    assert (
        service.get("/create", headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
    )


# ---- bots ----------------------------------------------------------------------------------------
def test_a_profile_shows_its_result_and_its_basis(service, observed):
    page = text_of(service.get(f"/bots/{observed.bot.uid}"))
    assert "Realized PnL −0.2500 SOL worst case −0.2500 SOL ; from 1 sale" in page
    assert (
        "We have all 4 transactions of this wallet since its first on Oct 16, 2026" in page
        and "claimed, not proven" in page
    )


def test_a_sale_shows_its_matched_purchases(service, observed):
    page = service.get(f"/bots/{observed.bot.uid}?tab=trades")
    sale = re.search(r'<details class="trade trade-sell">.*?</details>', page.text, re.S)[0]
    assert f"https://solscan.io/tx/{signature('bought')}" in sale and "Nov 4, 2026" in sale
    shown = re.search(rf'<code id="(\S+)">{signature("sold")}</code>', sale)
    assert f'data-copy="#{shown[1]}"' in sale
    assert "Proceeds of these lots 0.75 SOL, less their cost 1 SOL: −0.25 SOL" in html.unescape(
        re.sub(r"<[^>]+>", "", sale)
    ).replace("\n", " ")


def test_the_curve_has_its_numbers_as_text(service, observed):
    page = service.get(f"/bots/{observed.bot.uid}")
    figure = re.search(r'<figure class="chart">.*?</figure>', page.text, re.S)[0]
    assert '<path class="down"' in figure and '<path class="up"' not in figure
    # Bought for 1 SOL, sold for 0.75: a day with one trade, and another with the loss.
    assert text_of_html(figure).endswith(
        "Nov 5, 2026 −0.2500 −0.2500 0.750 1 1 Nov 4, 2026 0.0000 0.0000 1.000 1 0"
    )


def test_open_positions_of_unknown_cost_say_so(service, observed):
    page = service.get(f"/bots/{observed.bot.uid}?tab=holdings")
    assert "1.5 all at unknown cost unknown no price –" in text_of(page)


def test_each_profile_tab_is_a_page(service, observed):
    said = [publish(service, observed, str(n), f"Remark {n}.") for n in range(5)]
    path = f"/bots/{observed.bot.uid}"
    overview = service.get(path).text
    for tab in ("trades", "holdings", "posts", "record"):
        page = service.get(f"{path}?tab={tab}")
        assert f'href="{path}?tab={tab}"' in overview and page.status_code == 200
        assert f'href="{path}?tab={tab}" aria-current="page"' in page.text
        assert page.text.count("<h1") == 1 and "Ada" in page.text
    # The overview has the three latest, the tab all of them.
    assert re.findall(r'data-post="(\w+)"', overview) == [one["id"] for one in said[:1:-1]]
    tab = service.get(f"{path}?tab=posts").text
    assert re.findall(r'data-post="(\w+)"', tab) == [one["id"] for one in said[::-1]]
    assert service.get(f"{path}?tab=luck").status_code == 400


def test_results_say_when_they_start(service, observed):
    """The board counts since the wallet was connected, a profile all known history."""
    standing = {"realized": 5 * 10**8, "trades": 4, "matched": 3}
    service.observe_span(WALLET, **standing)
    front = text_of(service.get("/"))
    assert "Top bots SOL, last 7 days, since connected" in front
    whole = "All known history, after costs. Not a balance."
    assert whole in text_of(service.get(f"/bots/{observed.bot.uid}"))
    embedded = text_of(service.get(f"/embed/bots/{observed.bot.uid}"))
    assert "Realized PnL, all known history, from 1 sale −0.2500 SOL" in embedded


def test_an_embedded_card_is_the_main_part_of_its_page(service, observed):
    told = publish(service, observed, "e")
    for path in (f"bots/{observed.bot.uid}", told["id"]):
        assert re.search(
            r"<main>.*<article.*</article>\s*</main>", service.get(f"/embed/{path}").text, re.S
        )


def test_a_win_rate_names_its_base(service, bot):
    service.observe_results(WALLET, 1, positions=3, positionsWon=1)
    assert "Win rate 33% 1 of 3 positions" in text_of(service.get(f"/bots/{bot.bot.uid}"))
    board = text_of(service.get("/leaderboard?record=all"))
    assert "Return Win rate Trades" in board and "33% 1 of 3 positions" in board


def test_observation_of_a_retired_bot_has_ended(service, observed):
    influencers.retire_bot(observed.bot, NOW)
    for path in ("", "?tab=record"):
        page = text_of(service.get(f"/bots/{observed.bot.uid}{path}"))
        assert "Observing ended. The wallet was disconnected on Nov 5, 2026." in page
        assert "Not observed" not in page
    embedded = text_of(service.get(f"/embed/bots/{observed.bot.uid}"))
    assert "No results: it was retired on Nov 5, 2026. Observing ended" in embedded
    # A bot without a wallet was never observed.
    mute = service.make_bot("Mute").bot
    influencers.retire_bot(mute, NOW)
    assert "Observing ended" not in service.get(f"/bots/{mute.uid}").text


def test_a_bot_without_a_wallet_claims_nothing(service):
    page = text_of(service.get(f"/bots/{service.make_bot('Words Only').bot.uid}"))
    assert "No wallet is connected" in page and "Realized PnL" not in page and "SOL" not in page


def test_the_leaderboard_explains_missing_ranks(service, observed):
    service.make_bot("Quiet")
    service.make_bot("Fresh", address("fresh"))
    page = text_of(service.get("/leaderboard?record=all"))
    assert (
        "−0.25" in page
        and "not ranked: no wallet connected" in page
        and "not ranked: not observed yet" in page
        and "complete history" in page
    )
    assert all(
        service.get(f"/leaderboard?sort={sort}&window={window}").status_code == 200
        for sort in ("pnl", "volume", "trades")
        for window in ("24h", "7d", "30d", "all")
    )
    assert service.get("/leaderboard?sort=luck").status_code == 400


def test_a_token_page_shows_buyers_and_sellers(service, observed):
    page = service.get(f"/tokens/{MINT}")
    assert (
        "Of the 1 wallet observed here, 1 bought it and 1 sold it, swaps included." in text_of(page)
        and page.text.count("<rect") == 2
    )
    assert re.search(r"Sale.*Ada.*2.*\+0\.7500 SOL.*Purchase.*Ada.*2.*−1\.000 SOL", text_of(page))


def test_a_token_swap_shows_both_sides_and_is_not_a_purchase(service, bot):
    """2.5 of the token for 40 of another; 5,000 lamports are its fee, not a price."""
    changes = [[MINT, "-2500", 3], [address("other"), "4000", 2]]
    service.observe_trade(
        WALLET, "swap", slot=5, kind="swap", mint=MINT, token_changes=orjson.dumps(changes).decode()
    )
    TradeMint.update(side="sell").execute()
    Token.create(mint=address("other"), symbol="FERN")
    page = service.get(f"/tokens/{MINT}")
    assert re.search(r"Swap .*Ada −2\.5 \+40 FERN", text_of(page))
    assert not re.search(r"Sale|Purchase |0\.000005", text_of(page))
    assert "No purchases, no sales and 1 swap on" in text_of(page) and 'class="gave"' in page.text


@pytest.mark.parametrize("base", ["http://127.0.0.1:8000", "http://127.0.0.1:8000/candor"])
def test_page_links_match_their_routes(tmp_path, base):
    said = "a b&c=d?e#f/g:h@i,j;k+l!m'n(o)*$p%q\"<é\u202e"
    config = ground.change(ground.settings_of(tmp_path / "data"), base_url=base)
    one = create_app(config)
    root = "/candor" if base.endswith("/candor") else ""
    with one.test_request_context("/", base_url=base):
        assert pieces.link_to("/") == f"{root}/" == url_for("front.show_feed")
        for asked in ({"bot": said}, {"bot": said, "token": said}, {"bot": "é", "token": None}):
            assert pieces.link_to("/", **asked) == url_for("front.show_feed", **asked), asked
        board = {"record": "all", "window": "7d", "ownership": None}
        assert (
            pieces.link_to("/leaderboard", **board)
            == url_for("board.show_leaderboard", **board)
            == f"{root}/leaderboard?record=all&window=7d"
        )
        assert pieces.asset("candor.css").startswith(f"{root}/static/candor.css?v=")


@pytest.mark.parametrize(
    "broken, said", [("scout", "attention"), ("allowance", "attention"), ("", "works")]
)
def test_pages_and_health_agree_on_the_status(service, monkeypatch, broken, said):
    now = time.time_ns() // 1_000_000
    for name in ("observer", "scout", "paper"):
        jobs.note_job(name, "ok", now, "no price service answers" if broken == name else None)
    if broken == "allowance":
        monkeypatch.setattr(counters, "find_problem", lambda *_: "OperationalError")
    status = "ok" if said == "works" else "degraded"
    words = f"{'everything' if said == 'works' else 'something needs'} {said}"
    assert service.get("/api/health").json["status"] == status
    assert f">{words.capitalize()}</a>:" in service.get("/").text
    assert words.capitalize() in service.get("/status").text


def test_an_empty_feed_suggests_a_next_step(service, bot):
    publish(service, bot, "e")
    assert "No posts match. Show the whole feed ." in text_of(service.get("/?label=pending"))
    assert "or show the whole feed" in text_of(service.get("/?token=NONE"))


# ---- the rest ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/leaderboard",
        "/market",
        "/traders",
        "/strategies",
        "/create",
        "/status",
        "/log/",
        "/docs",
        "/docs/errors",
        "/docs/fields",
        *(f"/docs/fields/{group}" for group in GROUPS),
        "/connect",
        f"/tokens/{MINT}",
    ],
)
def test_every_page_works_on_an_empty_instance(service, path):
    answer = service.get(path)
    assert (
        answer.status_code == 200
        and answer.text.count("<h1") == 1
        and '<html lang="en">' in answer.text
        and len(answer.data) < 40_000
    )
    assert "style=" not in answer.text and not re.search(
        r"<script(?! src=\"/static/)|\son\w+=", answer.text
    )


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/bots/bot_none",
        "/posts/post_none",
        "/traders/trader_none",
        "/traders/trader_none/closes/close_none",
        "/tokens/short",
        "/docs/fields/none",
        "/bots/bot_none/feed.json",
    ],
)
def test_a_missing_page_says_what_to_do(service, path):
    answer = service.get(path)
    assert answer.status_code == 404 and (
        path.endswith(".json") or ("<h1" in answer.text and "leaderboard" in answer.text)
    )


def test_a_paper_trader_has_a_record_and_a_label(service):
    trader = traders.create_trader("Penny", "momentum", NOW).trader
    page = text_of(service.get(f"/traders/{trader.uid}"))
    assert "simulated" in page and "0/20 closes" in page and "Coverage is not proof" in page
    traders.open_review(trader, "the price jumped", NOW)
    page = text_of(service.get(f"/traders/{trader.uid}"))
    assert "Under review" in page and "withheld" in page and "Win rate –" in page
    page = text_of(service.get("/traders"))
    assert "Penny" in page and "Under review" in page and "withheld" in page


def test_the_invitation_contains_nobodys_data(service, observed):
    with service.client.session_transaction() as cookie:
        cookie["creator"] = "somebody"
    page = service.get("/create").text
    assert (
        "Ada" not in page
        and WALLET not in page
        and observed.bot.uid not in page
        and "csrf" not in page
    )


def test_a_wallet_without_transactions_is_not_called_complete(service, bot):
    coverage = {**NOT_POLLED, "state": "complete", "receipts": 0, "note": None}
    Wallet.update(coverage=orjson.dumps(coverage).decode()).execute()
    page = service.get(f"/bots/{bot.bot.uid}")
    assert "No transactions yet." in page.text and "Complete history" not in page.text
    assert "coverage-complete" not in page.text and '<dl class="tiles' not in page.text
    publish(service, bot, "hello")
    assert "No claims yet." in service.get(f"/bots/{bot.bot.uid}").text


def test_only_gains_and_losses_have_a_color(service, observed):
    """0.75 SOL came in from a sale that lost 0.25, and 1 SOL went out for a purchase."""
    page = service.get(f"/bots/{observed.bot.uid}?tab=trades").text
    flows = re.findall(r'<span class="sol">(.*?)</span>', page)
    assert [re.sub(r"<[^>]+>", "", flow) for flow in flows][:2] == ["+0.750 SOL", "−1.000 SOL"]
    assert not re.search(r"amount (up|down)", "".join(flows))
    assert re.search(r'<span class="result"><data class="amount down"', page)
    token = service.get(f"/tokens/{MINT}").text
    assert not re.search(r"amount (up|down)", token)


def test_a_win_rate_needs_three_positions(service, bot):
    service.observe_results(WALLET, 1, positions=2, positionsWon=2)
    page = text_of(service.get(f"/bots/{bot.bot.uid}"))
    assert "Win rate – 2 of 2 positions" in page


def test_a_post_links_to_its_trade(service, observed):
    said = publish(service, observed, "t", signature=signature("sold"))
    page = service.get(f"/posts/{said['id']}").text
    link = html.unescape(re.search(r'href="([^"]+)">Its lots and costs', page)[1])
    trades, _, trade = link.partition("#")
    assert f'id="{trade}"' in service.get(trades).text
    assert "<summary>Check this post yourself</summary>" in page
