"""What readers see of where value came from and where money went: interface, board, health."""

import time

import orjson
import pytest
from service import NOW, address

from models import Wallet
from web.api.serialize import show_share

W, M, POOL = address("w"), address("m"), address("pool")
# 10 SOL at first, 12 at last: 3 earned, 1 brought by what had no known cost, 2 spent on what is
# held, 1 on what left, 5 received, 3 sent, 0.5 and 0.25 in fees, and 0.25 less by what is no trade.
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
AVERAGE = {"realizedLamports": "2900000000", "matchedSells": 3}


@pytest.fixture
def bot(service):
    return service.make_bot("Ada", W)


@pytest.fixture
def key(bot):
    return bot.publish_key.text


def observe_books(wallet=W, **changes):
    """Where a wallet's money went, as the fold writes it."""
    columns = {
        "reconciliation": orjson.dumps({**BOOKS, **changes}).decode(),
        "average_cost": orjson.dumps(AVERAGE).decode(),
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


def test_the_activity_of_a_token_tells_what_was_not_the_trade(service, bot, key):
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
    assert row["beside"] == {"solLamports": "10000000000", "tokenChanges": []}


# ---- bots ----------------------------------------------------------------------------------------
def test_a_bot_shows_where_its_money_went(service, bot, key):
    service.observe_results(W, 3_000_000_000, costLeftLamports="1000000000", costLeftReceipts=2)
    observe_books()
    shown = show_bot(service, bot, key)
    assert (shown["reconciliation"], shown["reconciliationReason"]) == (BOOKS, None)
    assert shown["averageCost"] == AVERAGE
    assert (shown["results"]["costLeftLamports"], shown["results"]["costLeftReceipts"]) == (
        "1000000000",
        2,
    )
    assert service.get("/api/v1/bots", key).json["data"][0]["reconciliation"] == BOOKS


def set_state(state):
    coverage = orjson.dumps({"state": state, "gaps": []}).decode()
    Wallet.update(coverage=coverage).where(Wallet.address == W).execute()


@pytest.mark.parametrize(
    "state, reason",
    [("backfilling", "backfilling"), ("complete", "reading_again"), ("partial", "reading_again")],
)
def test_no_reconciliation_says_why(service, bot, key, state, reason):
    service.observe_results(W, 1)
    set_state(state)
    shown = show_bot(service, bot, key)
    assert (shown["reconciliation"], shown["reconciliationReason"]) == (None, reason)
    assert shown["averageCost"] is None


def test_what_was_never_observed_has_no_reconciliation(service, bot, key):
    assert show_bot(service, bot, key)["reconciliationReason"] == "not_observed"
    mute = service.make_bot("Mute")
    assert show_bot(service, mute, key)["reconciliationReason"] == "no_wallet"


def test_a_claim_of_a_wallet_that_another_proved_has_no_books(service, bot, key):
    service.observe_results(W, 1)
    observe_books()
    Wallet.update(bot_since=NOW).where(Wallet.address == W).execute()
    shown = show_bot(service, bot, key)
    assert (shown["reconciliation"], shown["averageCost"]) == (None, None)
    assert shown["reconciliationReason"] == "proven_by_another"


# ---- the leaderboard -----------------------------------------------------------------------------
def board(service, key, query):
    return [
        (row["name"], row["rank"], row["costLeftLamports"], row["unrankedReason"])
        for row in service.get(f"/api/v1/leaderboard?{query}", key).json["data"]
    ]


def test_the_floor_ranks_by_the_result_less_the_cost_that_left(service, bot, key):
    for name, realized, cost_left, matched in (
        # 900 - 800 = 100, 500 - 0 = 500, 400 - 300 = 100, -5 - 0 = -5
        ("Hider", 900, "800", 3),
        ("Plain", 500, "0", 3),
        ("Twin", 400, "300", 3),
        ("Poor", -5, "0", 3),
        ("Lucky", 10_000, "0", 2),
        ("Upgraded", 700, None, 3),
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
        ("Upgraded", None, None, "reading_again"),
    ]
    # by the result alone both hidden losses and what an upgrade has yet to read keep their rank
    assert [row[:2] for row in board(service, key, "sort=pnl")][:3] == [
        ("Hider", 1),
        ("Upgraded", 2),
        ("Plain", 3),
    ]


def test_a_gap_takes_the_rank_of_the_floor_too(service, bot, key):
    gap = {"fromSlot": 1, "toSlot": 2, "reason": "x"}
    service.observe_results(W, 900, gaps=[gap])
    assert board(service, key, "sort=pnl_floor") == [("Ada", None, "0", "open_gap")]


@pytest.mark.parametrize(
    "window, realized, cost_left",
    [("24h", "30", "5"), ("7d", "37", "11"), ("30d", "45", "18"), ("all", "45", "18")],
)
def test_the_floor_of_a_window(service, bot, key, window, realized, cost_left):
    now = int(time.time())
    service.observe_results(W, 45, costLeftLamports="18")
    # (days ago, result, cost that left): 24 h 30 and 5; 7 d +7 and +6; 30 d +8 and +7
    for n, (days, result, left) in enumerate(((0.1, 30, 5), (3, 7, 6), (20, 8, 7))):
        at = now - int(days * 86_400)
        sold = {"kind": "sell", "realized": "matched", "result": result}
        service.observe_trade(W, f"sold {n}", 10 - 2 * n, **sold, block_time=at)
        service.observe_trade(
            W, f"left {n}", 11 - 2 * n, kind="transfer_out", cost_left=left, block_time=at + 1
        )
    (row,) = service.get(f"/api/v1/leaderboard?sort=pnl_floor&window={window}", key).json["data"]
    assert (row["realizedLamports"], row["costLeftLamports"]) == (realized, cost_left)


# Half an hour's trades are added up one by one, the rest is of running totals.
@pytest.mark.parametrize("minutes", [0, 25, 35, 55])
def test_what_is_unexplained_is_in_no_total(service, bot, key, minutes):
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
    # sold for 30, and 70 came beside it: the volume is 30
    sale = {"kind": "sell", "realized": "matched", "result": 1, "explained": 100}
    service.observe_trade(W, "sale", 3, sol=100, beside_sol=70, block_time=at, **sale)
    (row,) = service.get("/api/v1/leaderboard?window=24h", key).json["data"]
    shown = {name: row[name] for name in ("observedTrades", "matchedSells", "unmatchedSells")}
    assert shown == {"observedTrades": 2, "matchedSells": 2, "unmatchedSells": 0}
    assert (row["realizedLamports"], row["volumeLamports"], row["costLeftLamports"]) == (
        "7",
        "30",
        "4",
    )


# ---- health --------------------------------------------------------------------------------------
def test_health_names_books_that_do_not_close_and_keeps_its_status(service, bot):
    before = service.get("/api/health").json
    Wallet.update(imbalance=-7).where(Wallet.address == W).execute()
    after = service.get("/api/health").json
    assert before["walletObserver"]["differences"] == []
    assert after["walletObserver"]["differences"] == [{"wallet": W, "differenceLamports": "-7"}]
    assert after["walletObserver"]["walletsWithDifference"] == 1
    assert after["status"] == before["status"]
