"""Where value came from and where money went, as readers see it: API, board, health, pages."""

import html
import re
import time

import orjson
import pytest
from service import NOW, address, signature
from test_pages import COVERAGE

from chain.reading.currencies import STABLECOINS
from chain.stored.derived import NOT_POLLED
from models import Post, Wallet
from web.api.serialize import show_share

W, M, POOL = address("w"), address("m"), address("pool")
# 10 SOL at first, 12 at last: 3 earned, 1 from sales of unknown cost, 2 spent on holdings, 1 on
# tokens that left, 5 received, 3 sent, 0.5 and 0.25 in fees, and 0.25 less through other
# transactions.
BOOKS = {
    "openingLamports": "10000000000",
    "closingLamports": "12000000000",
    "realizedLamports": "3000000000",
    "unmatchedProceedsLamports": "1000000000",
    "openCostLamports": "2000000000",
    "costLeftLamports": "1000000000",
    "costLeftReceipts": 2,
    "receivedLamports": "5000000000",
    "sentLamports": "3000000000",
    "overheadLamports": "500000000",
    "failedCostLamports": "250000000",
    "otherLamports": "-250000000",
    "differenceLamports": "0",
    "gapLamports": "0",
}
# No ledger derived it, so stablecoins are unknown.
SHOWN = {**BOOKS, "byCurrency": None}
AVERAGE = {"realizedLamports": "2900000000", "matchedSells": 3}


def observe_books(wallet=W, **changes):
    """Write a wallet's reconciliation as the ledger store does."""
    columns = {
        "reconciliation": orjson.dumps({**BOOKS, **changes}).decode(),
        "average_cost": orjson.dumps(AVERAGE).decode(),
        "coverage": orjson.dumps(COVERAGE).decode(),
    }
    Wallet.update(columns).where(Wallet.address == wallet).execute()


def show_bot(service, bot, key):
    return service.get(f"/api/v1/bots/{bot.bot.uid}", key).json


# ---- trades --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "percent, share", [(None, None), (0, "0.00"), (7, "0.07"), (98, "0.98"), (100, "1.00")]
)
def test_a_share_has_two_decimals(percent, share):
    assert show_share(percent) == share


def test_token_activity_shows_outside_value(service, bot, key):
    service.observe_trade(
        W,
        "gifted",
        1,
        kind="sell",
        mint=M,
        raw=-1_000,
        sol=10_000_100_000,
        beside_sol=10_000_000_000,
        explained=99,
    )
    (row,) = service.get(f"/api/v1/activity?mint={M}", key).json["data"]
    assert (row["kind"], row["explainedShare"], row["flags"]) == ("sell", "0.99", [])
    assert row["outsideVenue"] == {"solLamports": "10000000000", "tokenChanges": []}


# ---- bots ----------------------------------------------------------------------------------------
def test_a_bot_shows_where_its_money_went(service, bot, key):
    service.observe_results(W, 3_000_000_000, costLeftLamports="1000000000", costLeftReceipts=2)
    observe_books()
    shown = show_bot(service, bot, key)
    assert shown["reconciliation"] == SHOWN
    assert (shown["reconciliationReason"], shown["averageCost"]) == (None, AVERAGE)
    assert (shown["results"]["costLeftLamports"], shown["results"]["costLeftReceipts"]) == (
        "1000000000",
        2,
    )


def set_state(state):
    coverage = orjson.dumps({**NOT_POLLED, "state": state, "note": None}).decode()
    Wallet.update(coverage=coverage).where(Wallet.address == W).execute()


@pytest.mark.parametrize(
    "state, reason",
    [("backfilling", "backfilling"), ("complete", "damaged")],
)
def test_a_missing_reconciliation_has_a_reason(service, bot, key, state, reason):
    service.observe_results(W, 1)
    set_state(state)
    shown = show_bot(service, bot, key)
    assert (shown["reconciliation"], shown["reconciliationReason"]) == (None, reason)
    assert shown["averageCost"] is None


def test_an_unobserved_wallet_has_no_reconciliation(service, bot, key):
    assert show_bot(service, bot, key)["reconciliationReason"] == "not_observed"
    mute = service.make_bot("Mute")
    assert show_bot(service, mute, key)["reconciliationReason"] == "no_wallet"


def test_a_claim_of_a_proven_wallet_has_no_reconciliation(service, bot, key):
    service.observe_results(W, 1)
    observe_books()
    Wallet.update(bot_since=NOW).where(Wallet.address == W).execute()
    shown = show_bot(service, bot, key)
    assert (shown["reconciliation"], shown["averageCost"]) == (None, None)
    assert shown["reconciliationReason"] == "held_by_another"


# ---- the leaderboard -----------------------------------------------------------------------------
def board(service, key, query):
    return [
        (row["name"], row["rank"], row["costLeftLamports"], row["unrankedReason"])
        for row in service.get(f"/api/v1/leaderboard?record=all&{query}", key).json["data"]
    ]


def test_the_floor_ranks_by_result_minus_cost_left(service, bot, key):
    for name, realized, cost_left, matched in (
        # 900 - 800 = 100, 500 - 0 = 500, 400 - 300 = 100, -5 - 0 = -5
        ("Hider", 900, "800", 3),
        ("Plain", 500, "0", 3),
        ("Twin", 400, "300", 3),
        ("Poor", -5, "0", 3),
        ("Lucky", 10_000, "0", 2),
    ):
        service.make_bot(name, address(name))
        service.observe_results(address(name), realized, matched, costLeftLamports=cost_left)
    service.observe_results(W, 50)
    assert board(service, key, "sort=pnl_floor") == [
        ("Plain", 1, "0", None),
        ("Hider", 2, "800", None),
        ("Twin", 2, "300", None),
        ("Ada", 4, "0", None),
        ("Poor", 5, "0", None),
        ("Lucky", None, "0", "too_few_sells"),
    ]
    # hidden losses keep their rank by result
    assert [row[:2] for row in board(service, key, "sort=pnl")][:2] == [("Hider", 1), ("Plain", 2)]


# Half an hour's trades are added one by one; the rest uses running totals.
@pytest.mark.parametrize("minutes", [0, 25, 35, 55])
def test_unexplained_trades_are_in_no_total(service, bot, key, minutes):
    at = int(time.time()) // 3600 * 3600 - 86_400 + 3600 + minutes * 60
    service.observe_results(W, 45)
    unexplained = {
        "kind": "sell",
        "realized": "unmatched",
        "flags": '["value_unexplained"]',
        "explained": 3,
    }
    service.observe_trade(W, "fake", 1, sol=9_000, cost_left=4, block_time=at, **unexplained)
    trip = {"kind": "round_trip", "realized": "matched", "result": 6, "explained": 100}
    service.observe_trade(W, "trip", 2, sol=6, block_time=at, **trip)
    # sold for 30, and 70 arrived from outside: the volume is 30
    sale = {"kind": "sell", "realized": "matched", "result": 1, "explained": 100}
    service.observe_trade(W, "sale", 3, sol=100, beside_sol=70, block_time=at, **sale)
    (row,) = service.get("/api/v1/leaderboard?record=all&window=24h", key).json["data"]
    shown = {name: row[name] for name in ("observedTrades", "matchedSells", "unmatchedSells")}
    assert shown == {"observedTrades": 2, "matchedSells": 2, "unmatchedSells": 0}
    assert (row["realizedLamports"], row["volumeLamports"], row["costLeftLamports"]) == (
        "7",
        "30",
        "4",
    )


# ---- health --------------------------------------------------------------------------------------
def test_health_names_unreconciled_wallets_and_keeps_its_status(service, bot):
    usdc_mint, usdt_mint = (one.mint for one in STABLECOINS[:2])
    left_over = orjson.dumps({usdt_mint: 2, usdc_mint: -1_500_000}).decode()
    before = service.get("/api/health").json
    Wallet.update(imbalance=-7, stablecoin_imbalance=left_over).where(Wallet.address == W).execute()
    after = service.get("/api/health").json
    assert before["walletObserver"]["differences"] == []
    by_currency = {"USDC": "-1.5", "USDT": "0.000002"}
    assert after["walletObserver"]["differences"] == [
        {"wallet": W, "differenceLamports": "-7", "byCurrency": by_currency}
    ]
    assert after["walletObserver"]["walletsWithDifference"] == 1
    assert after["status"] == before["status"]


# ---- pages ---------------------------------------------------------------------------------------
def text_of(answer):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def profile(service, bot):
    tabs = ("", "?tab=trades", "?tab=record")
    return " ".join(text_of(service.get(f"/bots/{bot.bot.uid}{tab}")) for tab in tabs)


def test_the_profile_shows_where_the_money_went(service, bot):
    service.observe_results(
        W,
        3_000_000_000,
        unmatchedSells=1,
        carriedLots=2,
        realizedSol="3",
        volumeSol="1",
        costLeftLamports="1000000000",
        costLeftReceipts=2,
    )
    observe_books()
    page = profile(service, bot)
    assert "Cost moved out unsold – 1.000 SOL" in page
    assert "Every lamport is accounted for." in page
    lines = (
        "before the first transaction 10 ",
        "Realized PnL +3 ",
        "Proceeds of sales with unknown cost +1 ",
        "Cost of tokens still held −2 ",
        "Cost of tokens moved out unsold −1 ",
        "Received +5 ",
        "Sent −3 ",
        "Fees and tips outside of trades −0.5 ",
        "Fees of failed transactions −0.25 ",
        "tokens without a price −0.25 ",
        "after the last transaction 12 ",
        "Unaccounted for: must be zero 0 ",
    )
    table = page[page.index("Balance before") :]
    places = [table.index(line) for line in lines]
    assert places == sorted(places) and "Moved by missing transactions" not in page
    # 3 matched sales and 1 unmatched one
    assert "from 3 sales; 1 more sale is left out: purchase price unknown" in page
    assert "its sales made +2.900 SOL (3 sales with a known cost)" in page
    assert "1.000 SOL of cost moved out unsold" in service.get(f"/bots/{bot.bot.uid}").text


@pytest.mark.parametrize(
    "difference, gaps, said, rest",
    [
        (-1_200_000_000, -1_200_000_000, "Gaps in the history moved −1.200 SOL", "zero 0 "),
        (
            7,
            0,
            "+0.000000007 SOL is unaccounted for. This is a bug",
            "zero +0.000000007 ",
        ),
        (-3, -10, "+0.000000007 SOL is unaccounted for", "zero +0.000000007 "),
    ],
)
def test_an_imbalance_is_named(service, bot, difference, gaps, said, rest):
    service.observe_results(W, 1, realizedSol="1", volumeSol="1")
    observe_books(differenceLamports=str(difference), gapLamports=str(gaps))
    page = profile(service, bot)
    assert said in page and rest in page
    assert ("Moved by missing transactions" in page) == bool(gaps)


def test_a_profile_without_a_reconciliation_says_why(service, bot):
    service.observe_results(W, 1, realizedSol="1", volumeSol="1")
    coverage = orjson.dumps({**COVERAGE, "state": "backfilling"}).decode()
    Wallet.update(coverage=coverage).execute()
    assert "Not available: its history is still loading" in profile(service, bot)


def test_the_board_shows_cost_left_and_sorts_by_the_rest(service, bot):
    service.observe_results(W, 3_000_000_000, costLeftLamports="1000000000")
    page = service.get("/leaderboard?record=all&sort=pnl_floor")
    # Realized PnL minus the cost that left, as stored by the ledger.
    assert "+3.000 worst case +2.000" in text_of(page)
    assert re.search(r'sort=pnl_floor&amp;window=all" aria-current="true">worst case', page.text)


def observe_sale(service, name, **more):
    given = {"kind": "sell", "mint": M, "raw": -1_000, "sol": 10_000_100_000, "realized": "matched"}
    service.observe_trade(W, name, 1, **{**given, "result": 1, **more})


def test_a_trade_page_shows_where_its_value_came_from(service, bot):
    observe_sale(
        service,
        "gifted",
        explained=98,
        counterparties=orjson.dumps([POOL, *map(address, "abcd")]).decode(),
        beside_sol=10_000_000_000,
        beside_tokens=orjson.dumps([[M, "500", 3]]).decode(),
        flags='["counterparty_signed"]',
    )
    page = profile(service, bot)
    a, b = (f"{one[:4]}…{one[-4:]}" for one in map(address, "ab"))
    assert (
        f"98% of what it received left accounts its venue trades with: {POOL[:4]}…{POOL[-4:]}, {a},"
        f" {b} and 2 more." in page
    )
    # 10.0001 SOL and -1 token in all, with 10 SOL and +0.5 outside the venue: the trade is the rest
    assert (
        f"not part of the trade: +10.00 SOL, +0.5 {M[:4]}…{M[-4:]}. The trade itself moved"
        " +0.0001 SOL." in page
    )
    assert f"Sale −1.5 {M[:4]}…{M[-4:]} +0.0001 SOL" in page
    assert "The other side signed this transaction itself" in page
    assert "+0.0001 SOL" in text_of(service.get(f"/tokens/{M}"))


def observe_sent_on(service):
    """2 of a token with 3 decimals were bought for 0.5 SOL and sent on in the same transaction."""
    beside = orjson.dumps([[M, "-2000", 3]]).decode()
    more = {"kind": "buy", "mint": M, "sol": -500_000_000, "explained": 100}
    service.observe_trade(W, "sent", 1, token_changes="[]", beside_tokens=beside, **more)


def test_tokens_bought_and_sent_on_at_once_were_bought(service, bot, key):
    observe_sent_on(service)
    (row,) = service.get(f"/api/v1/activity?mint={M}", key).json["data"]
    assert (row["side"], row["amountRaw"], row["amount"], row["decimals"]) == (
        "buy",
        "2000",
        "2",
        3,
    )
    (gone,) = row["outsideVenue"]["tokenChanges"]
    assert (gone["changeRaw"], row["solChangeLamports"]) == ("-2000", "-500000000")
    page = profile(service, bot)
    assert f"Purchase +2 {M[:4]}…{M[-4:]} −0.5000 SOL" in page
    assert f"not part of the trade: −2 {M[:4]}…{M[-4:]}." in page
    assert f'href="/tokens/{M}"' in service.get(f"/bots/{bot.bot.uid}?tab=trades").text
    assert "2 −0.5000 SOL" in text_of(service.get(f"/tokens/{M}"))


def test_csv_files_show_outside_value(service, bot, key):
    observe_sent_on(service)
    table = service.get(f"/bots/{bot.bot.uid}/trades.csv").text.splitlines()
    row = dict(zip(*(line.split(",") for line in table), strict=True))
    assert (row["solChangeLamports"], row["outsideLamports"]) == ("-500000000", "0")
    assert (row["tokenChanges"], row["outsideTokenChanges"]) == ("", f"{M} -2")


def test_lots_of_a_sale_with_a_larger_gift_are_in_token_units(service, bot):
    """1.5 sold, 5 arrived from outside, so the balance rose."""
    lots = orjson.dumps([[None, "1500", None]]).decode()
    gift = orjson.dumps([[M, "5000", 3]]).decode()
    observe_sale(service, "small", raw=3_500, beside_tokens=gift, lots=lots)
    assert "held before observation began 1.5 unknown" in profile(service, bot)


def test_a_token_page_counts_purchases_without_gifts(service, bot):
    """1 bought for 0.5 SOL, 5 arrived from outside."""
    gift = orjson.dumps([[M, "5000", 3]]).decode()
    service.observe_trade(W, "b", 1, mint=M, raw=6_000, sol=-500_000_000, beside_tokens=gift)
    assert "1 −0.5000 SOL" in text_of(service.get(f"/tokens/{M}"))


def test_an_unexplained_trade_counts_nowhere(service, bot):
    observe_sale(
        service,
        "fake",
        realized="unmatched",
        result=None,
        explained=3,
        flags='["value_unexplained"]',
    )
    page = profile(service, bot)
    assert "Only 3% of what it gave and received passed through the venue." in page
    assert "no result: value not explained" in page and "so it is left out" in page


@pytest.mark.parametrize(
    "kind, flag, said",
    [
        ("round_trip", None, "Round trip"),
        ("other", "fee_income", "Only a fee or a reward from someone else’s trade was received"),
        ("other", "tip_only", "Only a tip to block producers was paid"),
    ],
)
def test_kinds_and_flags_have_plain_words(service, bot, kind, flag, said):
    service.observe_trade(
        W, "one", 1, kind=kind, flags=orjson.dumps([flag] if flag else []).decode()
    )
    assert said in profile(service, bot)


def test_a_post_about_unexplained_value_says_so(service, bot, key):
    service.post({"eventId": "1", "body": "Sold.", "signature": signature("fake")}, key)
    Post.update(status="none", status_reason="value_unexplained").execute()
    page = text_of(service.get("/"))
    assert "not verified" in page and "came from the venue, so it can't verify the post." in page


def test_the_status_page_names_unreconciled_wallets(service, bot):
    assert "don’t balance" not in text_of(service.get("/status"))
    Wallet.update(imbalance=-7).execute()
    page = text_of(service.get("/status"))
    assert "The books of 1 wallet don’t balance to the last lamport" in page
    assert f"{W} by −0.000000007 SOL." in page
    Wallet.update(
        stablecoin_imbalance=orjson.dumps({STABLECOINS[0].mint: -1_500_000}).decode()
    ).execute()
    assert f"{W} by −0.000000007 SOL and −1.5 USDC." in text_of(service.get("/status"))
    Wallet.update(imbalance=0).execute()
    assert f"{W} by −1.5 USDC." in text_of(service.get("/status"))
