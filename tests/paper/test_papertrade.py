"""The job and its tables: what a tick reads, stores and posts, and the effects of a restart, an
operator and a rebuild.
"""

import contextlib
import itertools
import json
from types import SimpleNamespace

import ground
import orjson
import pytest
from observed import move, observe
from peewee import OperationalError

import models
import papertrade
import storage
from accounts import conduct, departures, traders
from accounts.problem import Problem
from chain.reading.entries import Entry
from chain.reading.flows import Balance
from chain.reading.pools import PoolReading, State
from market.failures import FetchError
from market.tables import Snapshot, Token
from paper import brain, engine, store
from paper.account import STARTING_CASH, Account
from paper.engine import Market
from paper.market import Check, SnapshotRow, percent
from paper.market import Token as Seen
from paper.player import Faults, Player
from paper.strategies import Enter, FlowFollower, Momentum, decide
from paper.tables import (
    DiaryEntry,
    EngineState,
    EquityMark,
    PaperFill,
    PaperOrder,
    PaperPosition,
    PaperPost,
    Period,
    Review,
    Trader,
)
from storage.rows import select
from voice import language_model
from web.api import paper

MINUTE = 60_000
START = 1_800_000_000_000
# Momentum enters in round 13, and its stop sells.
RISE = (
    ["0.001"] * 12
    + [f"0.00{number}" for number in (1040, 1085, 1130, 1180, 1230, 1280)]
    + ["0.0011"] * 4
)
CHECKS = orjson.dumps(
    [{"key": "supply", "label": "", "status": "pass", "detail": "", "checkedAt": START}]
).decode()


@pytest.fixture(autouse=True)
def lucky(monkeypatch):
    monkeypatch.setattr("paper.fills.FAILURE_BPS", 0)


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Traders without twins, so that their rows are the only ones."""
    monkeypatch.setattr("accounts.traders.TWINS", 0)


@pytest.fixture
def with_twins(monkeypatch):
    monkeypatch.setattr("accounts.traders.TWINS", 3)


class Stage:
    """A market in the tables and a job that plays it minute by minute."""

    def __init__(self, settings):
        self.config, self.round, self.tokens = settings, 0, {}
        self.job = papertrade.PaperJob(settings)

    def trader(self, name="Ada Paper", family="momentum", **more):
        return traders.create_trader(name, family, START - MINUTE, **more).trader

    def list_token(self, mint="MintA", **more):
        self.tokens[mint] = Token.create(
            mint=mint,
            symbol=mint[-1] * 2,
            name=mint,
            **{
                "decimals": 6,
                "discovered_at": START - 10**9,
                "tracked_at": START - 10**9,
                "checks": CHECKS,
                **more,
            },
        )
        return self

    @property
    def now(self):
        return START + self.round * MINUTE

    def snapshot(self, mint="MintA", price="0.001", pool="1000", liquidity="300000", volume=None):
        return Snapshot.create(
            token=self.tokens[mint],
            taken_at=self.now,
            expires_at=self.now + 10**7,
            source="dexscreener",
            price_sol=price,
            pool_sol=pool,
            liquidity_usd=liquidity,
            volume24h_usd=volume or str(50_000 + self.round * 100),
            volume5m_usd=volume or str(50_000 + self.round * 100),
            venue="raydium",
        )

    def play(self, prices, **more):
        """Add a snapshot and run a tick for each price, a minute apart."""
        for price in prices:
            self.snapshot(price=price, **more)
            self.tick()
            self.round += 1
        return self

    def play_everywhere(self, prices):
        """Play prices of all tokens. Return the last tick's problem."""
        for price in prices:
            for mint in self.tokens:
                self.snapshot(mint, price)
            problem, _ = self.tick()
            self.round += 1
        return problem

    def record(self, prices):
        """Add a snapshot for each price, a minute apart, without a tick."""
        for price in prices:
            self.snapshot(price=price)
            self.round += 1

    def tick(self):
        return self.job.run_tick(self.now + 5_000)


@pytest.fixture
def stage(db, settings):
    return Stage(settings).list_token()


def facts(kind):
    return [
        orjson.loads(row.facts)
        for row in DiaryEntry.select().where(DiaryEntry.kind == kind).order_by(DiaryEntry.id)
    ]


def adds_up(period):
    period = Period.get_by_id(period.id)
    return (
        period.cash
        == period.starting_cash
        + sum(row.cash for row in PaperPosition.select().where(PaperPosition.period == period))
        - period.lost_fees
    )


# ---- a life in the tables ------------------------------------------------------------------------
def test_a_trader_enters_exits_and_posts(stage):
    trader = stage.trader()
    stage.play(RISE)
    (position,) = PaperPosition.select()
    buy, sell = PaperFill.select().order_by(PaperFill.id)
    assert (position.reason, position.raw, position.closed_at) == ("trailing_stop", "0", sell.at)
    assert buy.at == START + 14 * MINUTE
    assert buy.snapshot != PaperOrder.get_by_id(buy.order_id).decided_on
    assert adds_up(traders.find_period(trader))
    assert [row["what"] for row in facts("fill")] == ["bought", "closed"]
    assert PaperPost.select().count() == 2
    assert EngineState.get().snapshot == Snapshot.select().order_by(Snapshot.id.desc()).get().id


def test_tables_match_the_engine(stage):
    """The same snapshots through the pure engine give the same fills and diary."""
    trader = stage.trader()
    stage.play(RISE)
    alone = Player(trader.id, trader.handle, Momentum(), Account())
    market = Market(
        MINUTE, [Seen("MintA", "AA", 6, None, START - 10**9, (Check("supply", "pass"),))]
    )
    for row in select(SnapshotRow, store.SNAPSHOTS, (0, 0, 10**9)):
        snapshot = store.parse_snapshot(row)
        engine.run_heartbeat(alone, snapshot.at)
        engine.play(market, [alone], [snapshot], snapshot.at)
    stored = [
        (row.kind, row.at, orjson.loads(row.facts))
        for row in DiaryEntry.select().order_by(DiaryEntry.id)
    ]
    assert stored == [(entry.kind, entry.at, entry.facts) for entry in alone.journal.entries]
    assert len(stored) >= 4
    assert Period.get().cash == alone.account.cash
    assert Period.get().next_order == alone.account.next_order


def test_several_rounds_in_one_tick_run_in_order(stage):
    """A late tick plays the same rounds, but doesn't enter on late snapshots."""
    trader = stage.trader(settings={"latencyBudgetMs": 600_000})
    stage.record(RISE[:15])
    stage.tick()
    assert PaperFill.get().at == START + 14 * MINUTE
    assert orjson.loads(stage.tick()[1])["rounds"] == 0
    assert trader


def test_without_trades_a_tick_only_records_its_progress(stage, monkeypatch):
    stored, store_round = [], store.store_round
    monkeypatch.setattr(store, "store_round", lambda *all: stored.append(all) or store_round(*all))
    stage.tick()
    assert (len(stored), store.find_cursor()) == (0, 0)
    price = stage.snapshot()
    for _ in range(2):
        stage.tick()
        assert (len(stored), store.find_cursor()) == (1, price.id)
    stage.trader()
    stage.tick()
    assert len(stored) == 2
    Trader.update(retired_at=stage.now).execute()
    stage.tick()
    assert len(stored) == 2


def test_a_late_tick_enters_nothing(stage):
    stage.trader()
    stage.record(RISE[:15])
    stage.round += 5
    stage.tick()
    assert not PaperOrder.select().exists() and facts("refusal")[0]["reason"] == "stale_snapshot"


def test_a_trader_ignores_earlier_snapshots(stage):
    stage.trader("Early", settings={"latencyBudgetMs": 600_000})
    stage.record(RISE[:14])
    late = traders.create_trader(
        "Late", "momentum", stage.now, settings={"latencyBudgetMs": 600_000}
    ).trader
    stage.tick()
    assert [order.period.trader.name for order in PaperOrder.select()] == ["Early"]
    assert late.created_at == stage.now


# ---- what is kept --------------------------------------------------------------------------------
def test_referenced_snapshots_are_pinned_and_held_tokens_tracked(stage):
    stage.trader()
    stage.list_token("MintB").play(RISE[:14])
    # On order
    assert Token.get(Token.mint == "MintA").held and not Token.get(Token.mint == "MintB").held
    stage.play(RISE[14:])
    named = {fill.snapshot for fill in PaperFill.select()} | {
        order.decided_on for order in PaperOrder.select()
    }
    pinned = {row.id for row in Snapshot.select().where(Snapshot.expires_at.is_null())}
    assert pinned == named and len(named) == 4
    assert not Token.get(Token.mint == "MintA").held


def test_operator_changes_win_over_a_running_tick(stage):
    """The snapshot is played again by the next tick."""
    trader, read = stage.trader(), store.load_traders
    stage.play(RISE[:14])

    def read_and_review(now, *more):
        loaded = read(now, *more)
        traders.open_review(trader, "a look", now)
        return loaded

    newest = stage.snapshot(price=RISE[14])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "load_traders", read_and_review)
        stage.tick()
    assert not PaperFill.select().exists() and EngineState.get().snapshot < newest.id
    stage.tick()
    assert PaperFill.select().count() == 1 and Review.select().count() == 1


def test_twins_are_hidden_accounts_in_the_same_tables(stage, with_twins):
    """Random entries with the trader's sizes and holding times; the API shows only totals."""
    made = stage.list_token("MintB").trader()
    for price in (*RISE, *["0.0011"] * 70):
        stage.snapshot("MintB", "0.002")
        stage.play([price])
    accounts = {one.twin: one for one in Period.select()}
    assert sorted(accounts) == [0, 1, 2, 3]
    orders = {one.period.twin: one for one in PaperOrder.select().where(PaperOrder.side == "buy")}
    closes = {one.period.twin: one for one in PaperPosition.select()}
    assert len(orders) == len(closes) == 4
    assert {one.amount for one in orders.values()} == {orders[0].amount}
    held = {twin: one.closed_at - one.opened_at for twin, one in closes.items()}
    assert all(abs(time - held[0]) <= MINUTE for time in held.values())
    for twin, one in closes.items():
        assert accounts[twin].cash == STARTING_CASH + one.cash
        assert accounts[twin].tickets == "[]"
    assert papertrade.rebuild_trader(made, stage.now) == []
    shown = paper.find_trader(made.uid, stage.now)
    random, nets = shown["randomEntry"], [closes[twin].cash for twin in (1, 2, 3)]
    assert len(shown["closes"]) == len(shown["periods"]) == shown["performance"]["closes"] == 1
    assert random["accounts"] == random["eligibleCloses"] == random["closes"] == 3
    assert random["returnPct"] == float(percent(sum(nets), 3 * STARTING_CASH))
    assert random["intervalReason"] == "1 of the 5 days required for an interval"
    assert [*shown["rulesFired"].values()] == [*shown["rulesFiredAtRandom"].values()] == [0] * 4
    compared = paper.compare_families(stage.now)
    momentum, *_ = compared["families"]
    assert momentum["eligibleCloses"] == momentum["traders"] == 1
    assert momentum["randomEntry"]["eligibleCloses"] == 3
    assert [one["costs"] for one in momentum["atCosts"]] == [1, 2, 3]
    assert momentum["atCosts"][0]["meanReturnPct"] == momentum["meanReturnPct"]
    # A tick that is replayed after a restart is stored once.
    stage.job = papertrade.PaperJob(stage.config)
    stage.play(["0.0011"] * 3)
    assert PaperPosition.select().count() == 4


def test_twins_of_a_reviewed_trader_count_no_more_than_it(stage, with_twins):
    made = stage.trader()
    stage.play([*RISE, *["0.0011"] * 60])
    traders.open_review(made, "a look", stage.now)
    momentum, *_ = paper.compare_families(stage.now)["families"]
    assert momentum["excluded"] == {"under_review": 1}
    assert momentum["randomEntry"]["eligibleCloses"] == 0


def test_restart_and_reset_keep_twins_tickets_and_numbers(stage, with_twins):
    made = stage.trader()
    stage.play(RISE[:16])
    waiting = [orjson.loads(one.tickets) for one in Period.select().where(Period.twin > 0)]
    assert [len(tickets) for tickets in waiting] == [1, 1, 1]
    stage.job = papertrade.PaperJob(stage.config)
    stage.play([*RISE[16:], *["0.0011"] * 60])
    assert PaperPosition.select().where(PaperPosition.closed_at.is_null(False)).count() == 4
    traders.reset_trader(made, "another start", stage.now)
    opened = list(Period.select().where(Period.closed_at.is_null()).order_by(Period.twin))
    assert [(one.number, one.twin, one.next_position) for one in opened] == [
        (2, twin, 2) for twin in range(4)
    ]


def test_a_restart_drops_pending_orders(stage):
    stage.trader()
    stage.play(RISE[:14])
    assert PaperOrder.get().state == "open"
    stage.job = papertrade.PaperJob(stage.config)
    stage.play(RISE[14:15])
    assert PaperOrder.get().state == "restart"
    assert not PaperFill.select().exists()
    assert facts("fill")[0]["why"] == "restart"


def test_the_price_of_a_sol_is_known_after_a_restart(stage):
    """0.15 dollars for 0.001 SOL; the first snapshot after the restart has no price in dollars."""
    stage.trader()
    Snapshot.update(price_usd="0.15").where(Snapshot.id == stage.snapshot().id).execute()
    stage.tick()
    stage.job = papertrade.PaperJob(stage.config)
    stage.round += 1
    stage.play(["0.001"])
    assert {mark.sol_cents for mark in EquityMark.select()} == {150_00}


def go_astray(stage):
    """The clock is a day ahead for a round, then correct again."""
    stage.round += 1440
    stage.play(["0.00136"])
    stage.round -= 1440


def test_a_clock_set_back_stops_no_trader(stage):
    """Otherwise it would take a day until snapshots were later than the last one seen."""
    stage.trader()
    stage.play(["0.001"] * 8)
    go_astray(stage)
    stage.play(RISE)
    assert PaperPosition.get().reason == "trailing_stop" and not Review.select().exists()


def test_marks_and_orders_from_a_fast_clock_are_reviewed_and_dropped(stage):
    """In round 14 MintA is held; in the round ahead, MintB, which rises as A did, is ordered."""
    trader = stage.trader()
    stage.list_token("MintB")
    for number, price in enumerate(RISE[:15]):
        stage.snapshot("MintB", price if number < 12 else "0.001")
        stage.play([price])
    (held,) = PaperPosition.select()
    assert held.closed_at is None
    stage.snapshot("MintA", "0.00118")
    order = PaperOrder.create(
        **dict(period=held.period, number=99, mint="MintB", symbol="BB", decimals=6, side="buy"),
        **dict(amount="100000000", reason="momentum", decided_on=1, state="open"),
        decided_at=stage.now + 1440 * MINUTE,
        due_at=stage.now + 1440 * MINUTE,
        expires_at=stage.now + 1441 * MINUTE,
    )
    Period.update(next_order=100).execute()
    go_astray(stage)
    stage.play(["0.00118"])
    assert PaperOrder.get_by_id(order.id).state == "cancelled"
    # A day after the previous mark, and then ahead of the clock.
    codes = [one["code"] for one in orjson.loads(Review.get().reasons)]
    assert codes == ["clock_skew"] and "stale_price" in PaperPosition.get().marks
    assert PaperPosition.get().marked_at == stage.now - MINUTE and adds_up(trader.periods.get())


# ---- one's trouble is not the others' ------------------------------------------------------------
def break_settling(monkeypatch, is_broken):
    """Make orders with `is_broken(trader, order)` divide by zero; return how often they did."""
    settle, count = engine.settle, []

    def settle_or_break(trader, order, snapshot, usage):
        if is_broken(trader, order):
            count.append(snapshot.at)
            raise ZeroDivisionError
        settle(trader, order, snapshot, usage)

    monkeypatch.setattr(engine, "settle", settle_or_break)
    return count


def lines_of(trader):
    query = (
        DiaryEntry.select().join(Period).where(Period.trader == trader.id).order_by(DiaryEntry.id)
    )
    return [orjson.loads(row.facts) for row in query]


def test_one_traders_error_does_not_stop_the_round(stage, monkeypatch, caplog):
    bad, good = stage.trader("Bad"), stage.trader("Good")
    count = break_settling(monkeypatch, lambda trader, order: trader.id == bad.id)
    stage.play(RISE[:15])
    stage.snapshot(price=RISE[15])
    # And again a minute later.
    problem, _ = stage.tick()
    assert len(count) == 2
    assert [fill.order.period.trader.name for fill in PaperFill.select()] == ["Good"]
    assert problem == "@bad in MintA is suspended after an internal error (ZeroDivisionError)"
    details = [line["detail"] for line in lines_of(bad) if line.get("reason") == "put_off"]
    assert details == [problem]
    (record,) = [record for record in caplog.records if "suspended" in record.message]
    assert record.exc_info is not None
    assert papertrade.rebuild_trader(good, stage.now) == []
    assert EngineState.get().snapshot == Snapshot.select().count()


def test_errors_are_retried_with_backoff(stage, monkeypatch, caplog):
    """A minute, then 2, 4, 8, 16, 32: tried in minutes 0, 1, 3, 7, 15, 31 and 63 after the first
    time.
    """
    bad = stage.trader("Bad", settings={"latencyBudgetMs": 600_000})
    heartbeat, tries = engine.run_heartbeat, []

    def break_heartbeat(player, now):
        tries.append(now)
        raise KeyError("phase")

    monkeypatch.setattr(engine, "run_heartbeat", break_heartbeat)
    stage.play(["0.001"] * 64)
    assert [(at - tries[0]) // MINUTE for at in tries] == [0, 1, 3, 7, 15, 31, 63]
    assert len([record for record in caplog.records if "suspended" in record.message]) == 1
    assert [line["reason"] for line in lines_of(bad)] == ["put_off"]
    monkeypatch.setattr(engine, "run_heartbeat", heartbeat)
    stage.play(["0.001"] * 58)
    # At most an hour: until minute 123.
    assert stage.play_everywhere(["0.001"]) is not None
    assert stage.play_everywhere(["0.001"]) is None and Trader.get().phase != bad.phase


@pytest.mark.parametrize(
    "table, changes",
    [
        (Trader, {"settings": '{"riseBps": 1}'}),
        (Trader, {"phase": "no JSON"}),
        (PaperPosition, {"price": "much"}),
        (Period, {"cash": 2**63 - 1}),
    ],
)
def test_only_a_trader_with_unreadable_rows_is_paused(stage, table, changes):
    """Its token stays tracked."""
    bad, good = stage.trader("Bad"), stage.trader("Good")
    stage.play(RISE[:16])
    period = traders.find_period(bad).id
    owner = {Trader: Trader.id == bad.id, PaperPosition: PaperPosition.period == period}
    table.update(changes).where(owner.get(table, Period.id == period)).execute()
    problem = stage.play_everywhere(RISE[16:])
    closed = PaperPosition.select().join(Period).where(Period.trader == good.id)
    assert [position.reason for position in closed] == ["trailing_stop"]
    assert problem is None or (
        problem.startswith("@bad is suspended") and lines_of(bad)[-1]["reason"] == "put_off"
    )
    assert table is not Trader or Token.get().held


def test_a_token_that_breaks_everyone_is_skipped(stage, monkeypatch):
    made = [stage.trader(f"Trader {number}", start="standard") for number in range(3)]
    stage.list_token("MintB")
    count = break_settling(monkeypatch, lambda trader, order: order.mint == "MintA")
    problem = stage.play_everywhere(RISE[:16])
    assert [fill.order.mint for fill in PaperFill.select()] == ["MintB"] * 3
    assert len(count) >= 3 and problem.count("MintA") == 3
    assert [papertrade.rebuild_trader(trader, stage.now) for trader in made] == [[], [], []]


def test_a_trader_failing_everywhere_is_paused(stage, monkeypatch):
    stage.trader("Bad")
    monkeypatch.setattr(Momentum, "enter", lambda strategy, view: 1 // 0)
    for mint in ("MintB", "MintC", "MintD", "MintE"):
        stage.list_token(mint)
    assert "@bad is suspended" in stage.play_everywhere(["0.001"])
    assert lines_of(Trader.get())[-1]["symbol"] == "every trade"


def test_an_unreadable_token_or_snapshot_is_skipped(stage, monkeypatch):
    parse = store.parse_snapshot

    def parse_or_break(row):
        return 1 // 0 if row.mint == "MintC" else parse(row)

    monkeypatch.setattr(store, "parse_snapshot", parse_or_break)
    stage.list_token("MintB", checks="no JSON").list_token("MintC").trader()
    problem = stage.play_everywhere(RISE)
    assert [position.reason for position in PaperPosition.select()] == ["trailing_stop"]
    assert {order.mint for order in PaperOrder.select()} == {"MintA"}
    assert "MintB is suspended" in problem and "MintC is suspended" in problem


def test_a_failing_post_does_not_block_others(stage, monkeypatch):
    bad, good = stage.trader("Bad"), stage.trader("Good")
    write = papertrade.builtin.write

    def write_or_break(persona, facts, seed, recent):
        return 1 // 0 if seed.startswith("bad|") else write(persona, facts, seed, recent)

    monkeypatch.setattr(papertrade.builtin, "write", write_or_break)
    stage.play(RISE)
    assert [post.trader_id for post in PaperPost.select()] == [good.id] * 2
    assert count_fills(bad) == 2


def count_fills(trader):
    of_trader = PaperFill.select().join(PaperOrder).join(Period)
    return of_trader.where(Period.trader == trader.id).count()


def test_a_banned_owners_trader_trades_without_posting(stage):
    loud, silent = stage.trader("Loud"), stage.trader("Silent")
    conduct.ban_owner(silent.owner, "threats", START)
    stage.play(RISE)
    assert {post.trader_id for post in PaperPost.select()} == {loud.id}
    assert count_fills(silent) == 2


def test_a_busy_database_loses_no_post(stage):
    def refuse(*_):
        raise OperationalError("locked")

    stage.trader()
    stage.play(RISE[:14])
    stage.snapshot(price=RISE[14])
    with pytest.MonkeyPatch.context() as patch, pytest.raises(OperationalError):
        patch.setattr(store, "read_post_history", refuse)
        stage.tick()
    stage.tick()
    assert PaperPost.select().count() == 1


# ---- reviews, resets -----------------------------------------------------------------------------
def test_a_jump_opens_a_review_and_withholds_the_headline(stage):
    trader = stage.trader()

    def show():
        return paper.find_trader(trader.uid, stage.now)

    stage.play(RISE[:15]).play(["1"])
    review, shown = show()["review"], show()["performance"]
    assert review["state"] == "under_review"
    assert [reason["code"] for reason in review["reasons"]] == ["price_jump"]
    assert shown["headlineSuppressed"] and shown["cashSol"]
    assert all(post["headlineSuppressed"] and post["warning"] for _, post in paper.list_posts(10))
    families = {one["family"]: one for one in paper.compare_families(stage.now)["families"]}
    assert families["momentum"]["tradersUnderReview"] == 1
    traders.decide_review(trader, "cleared", "the provider's mistake", stage.now)
    # A second snapshot confirmed the fall back, which is no separate reason, and none occurs twice.
    for rounds in (2, 3):
        stage.play(["0.00115"] * rounds)
        assert show()["review"]["state"] == "cleared"


def test_records_stay_through_a_review(stage):
    trader = stage.trader()
    stage.play(RISE)
    before = paper.find_trader(trader.uid, stage.now)
    traders.open_review(trader, "a look", stage.now)
    after = paper.find_trader(trader.uid, stage.now)
    free = {"reviewOpenedAt": None, "eligible": True, "excludedReason": None}
    assert [{**close, **free} for close in after["closes"]] == before["closes"]
    assert after["diary"][1:] == before["diary"]
    (close,) = after["closes"]
    assert close["excludedReason"] == "under_review" and close["reviewOpenedAt"]
    assert before["brain"]["reviewed"]["eligibleCloses"] == 1
    reviewed = after["brain"]["reviewed"]
    assert (reviewed["excluded"], reviewed["netLamports"]) == ({"under_review": 1}, None)


def test_an_upheld_review_restarts_and_only_a_reset_ends_it(stage):
    trader = stage.trader(start="standard")
    traders.open_review(trader, "a look", stage.now)
    with pytest.raises(Problem, match="clear or uphold"):
        traders.reset_trader(trader, "again", stage.now)
    with pytest.raises(Problem, match="already"):
        traders.open_review(trader, "a look", stage.now)
    traders.decide_review(trader, "upheld", "it was wrong", stage.now)
    shown = paper.find_trader(trader.uid, stage.now)
    assert (shown["strategy"]["phase"]["name"], shown["review"]["state"]) == ("guarded", "upheld")
    assert shown["performance"]["headlineSuppressed"]
    with pytest.raises(Problem, match="no open review"):
        traders.decide_review(trader, "cleared", "no", stage.now)
    traders.reset_trader(trader, "a fresh start", stage.now)
    fresh = paper.find_trader(trader.uid, stage.now)
    assert fresh["review"]["state"] == "clean"
    assert (fresh["performance"]["period"], fresh["performance"]["returnPct"]) == (2, 0)


def test_a_deleted_owners_trader_stops_and_keeps_its_open_position(stage):
    trader = stage.trader()
    stage.play(RISE[:16])
    assert PaperPosition.get().closed_at is None
    departures.delete_owner(trader.owner, stage.now)
    filled, said = PaperFill.select().count(), PaperPost.select().count()
    stage.play(RISE[16:])
    assert (PaperFill.select().count(), PaperPost.select().count()) == (filled, said)
    assert PaperPosition.get().closed_at is None
    assert not PaperOrder.select().where(PaperOrder.state == "open").exists()
    # Nobody plays it: its token isn't tracked longer than others.
    assert not Token.select().where(Token.held).exists()
    gone = traders.find_trader(trader.uid)
    assert gone.retired_at and gone.handle == trader.handle and gone.name != "Ada Paper"
    assert papertrade.rebuild_trader(gone, stage.now) == []
    assert paper.find_trader(trader.uid, stage.now)["retiredAt"]


def test_a_reset_opens_a_new_period_and_keeps_the_old_one(stage):
    trader, why = stage.trader(), "the settings were wrong"
    stage.play(RISE[:15])
    with pytest.raises(Problem, match="positions are still open"):
        traders.reset_trader(trader, why, stage.now)
    stage.play(RISE[15:])
    old = Period.get().cash
    traders.reset_trader(trader, why, stage.now)
    stage.play(["0.001"])
    shown = paper.find_trader(trader.uid, stage.now)
    periods = [(one["number"], one["reason"], one["cashLamports"]) for one in shown["periods"]]
    assert periods == [(1, why, str(old)), (2, None, str(STARTING_CASH))]
    assert [close["period"] for close in shown["closes"]] == [1]
    assert shown["performance"]["closes"] == 0
    assert shown["diary"][0]["text"] == "A new account period begins: the settings were wrong."


# ---- filling again -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed, found",
    [
        (PaperFill.update(mid=PaperFill.mid + 1).where(PaperFill.id == 1), "a different fill"),
        (Period.update(cash=Period.cash + 1), "another cash"),
        (PaperPosition.update(slippage=PaperPosition.slippage - 1), "another slippage"),
        (Snapshot.update(price_sol="0.0012"), "a different fill"),
        (Snapshot.delete(), "a different fill"),
    ],
)
def test_rebuild_reports_tampering_and_edits_nothing(stage, changed, found):
    def read():
        return [list(kind.select().dicts()) for kind in (PaperFill, PaperPosition, Period)]

    trader = stage.trader()
    stage.play(RISE)
    changed.clone().execute()
    before = read(), list(PaperOrder.select().dicts())
    assert any(found in difference for difference in papertrade.rebuild_trader(trader, stage.now))
    assert Review.get().state == "under_review"
    assert (read(), list(PaperOrder.select().dicts())) == before


def stay_awake(stage, hours):
    """Meanwhile the scout had prices of another token, of which one per hour is left. (Of the last
    two hours all would be left; those are played, and one per hour is a silence there.)
    """
    for _ in range(hours):
        stage.round += 60
        stage.snapshot("MintB")
    stage.round += 1


def go_on_without(stage):
    """A new process, and six minutes in which only the other token has prices."""
    stage.job = papertrade.PaperJob(stage.config)
    for _ in range(6):
        stage.snapshot("MintB")
        stage.tick()
        stage.round += 1


def test_downtime_closes_no_position(stage):
    """Two days off and 22 hours on: six minutes without a price are reviewed, but no day without
    one is over. Six hours later it is.
    """
    stage.trader()
    stage.list_token("MintB").play(RISE[:15])
    stage.round += 2 * 1440
    stay_awake(stage, 22)
    go_on_without(stage)
    (position,) = PaperPosition.select()
    assert position.closed_at is None
    assert orjson.loads(position.marks) == ["missing_snapshot"] and not Review.select().exists()
    stay_awake(stage, 6)
    go_on_without(stage)
    (position,) = PaperPosition.select()
    assert position.reason == "price_gone"


def test_a_write_off_needs_no_expired_snapshot(stage):
    """The mark's snapshot is kept for two hours, and nothing pins it before the position is written
    off a day later.
    """
    trader = stage.trader()
    stage.list_token("MintB").play(RISE[:15])
    stay_awake(stage, 27)
    go_on_without(stage)
    (position,) = PaperPosition.select()
    Snapshot.delete().where(Snapshot.expires_at.is_null(False)).execute()
    assert position.closed_at and papertrade.rebuild_trader(trader, stage.now) == []


class Killed(BaseException):
    """The process ends here."""


def kill_at(monkeypatch, number):
    """End the process before its nth write; return a function that tells whether it got there."""
    left = [number]

    def count(real):
        def run(*values, **more):
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            return real(*values, **more)

        return run

    monkeypatch.setattr(storage, "write_rows", count(storage.write_rows))
    for name in ("_store_trader", "_pin_snapshots", "thin_out", "store_posts"):
        monkeypatch.setattr(store, name, count(getattr(store, name)))
    return lambda: left[0] <= 0


def test_a_kill_between_any_two_writes_loses_nothing(stage):
    """The ticks that decide an entry and a sale, killed before each write in turn. Each new process
    plays the snapshot again.
    """
    trader = stage.trader()
    for number, price in enumerate(RISE):
        stage.snapshot(price=price)
        for write in itertools.count(1):
            with pytest.MonkeyPatch.context() as patch:
                was_killed = kill_at(patch, write if number in (12, 18) else 10**6)
                with contextlib.suppress(Killed):
                    stage.tick()
            assert papertrade.rebuild_trader(trader, stage.now) == []
            if not was_killed():
                break
            stage.job = papertrade.PaperJob(stage.config)
        assert write > 3 or number not in (12, 18)
        assert EngineState.get().snapshot == store.find_newest()
        stage.round += 1
    (position,) = PaperPosition.select()
    assert position.closed_at and not Review.select().exists()
    signs = {"buy": -1, "sell": 1}
    moved = (
        signs[one.order.side] * one.mid - one.slippage - one.pool_fee - one.network_fee - one.rent
        for one in PaperFill.select()
    )
    assert Period.get().cash == STARTING_CASH + sum(moved)
    news = [one for one in DiaryEntry.select() if orjson.loads(one.facts)["what"] in brain.NEWS]
    assert sorted(one.entry_id for one in PaperPost.select()) == [one.id for one in news]


# ---- flow ----------------------------------------------------------------------------------------
def test_flow_reads_observed_trades(stage, service_trades):
    stage.trader(family="flow")
    stage.play(["0.001"])
    service_trades("one", "owner 1", stage.now)
    stage.round += 1
    stage.play(["0.001"])
    assert facts("refusal")[-1]["reason"] == "one_wallet"
    service_trades("two", "owner 2", stage.now)
    stage.round += 1
    stage.play(["0.001"] * 2)
    assert PaperOrder.get().reason == "flow" and PaperFill.select().count() == 1


def test_flows_are_stored_once(stage, service_trades, monkeypatch):
    """A round without new observations reads no trade and writes no flow."""
    service_trades("one", "owner 1", stage.now)
    store.see_flows(stage.now - MINUTE, 7, stage.now)
    seen = store.list_flows(stage.now - MINUTE)
    assert [(flow.wallet, flow.first_snapshot) for flow in seen["MintA"]] == [("one", 7)]
    assert storage.read_rows(store.UNSEEN, (0,)) == []
    monkeypatch.setattr("storage.writing", None)
    store.see_flows(stage.now - MINUTE, 8, stage.now)
    assert store.list_flows(stage.now - MINUTE) == seen


def test_a_copy_follows_its_bot_and_names_what_it_cannot_copy(stage, service_trades):
    """The copied bot buys MintA, which has prices, and MintB, which doesn't; another bot buys."""
    service_trades("bot_one", "owner 1", stage.now - 60 * MINUTE, mint="MintC")
    stage.trader(family="copy", settings={"bot": "bot_one"})
    stage.play(["0.001"])
    service_trades("bot_two", "owner 2", stage.now)
    stage.round += 1
    stage.play(["0.001"])
    assert not PaperOrder.select().exists()
    service_trades("bot_one", "owner 1", stage.now)
    service_trades("bot_one", "owner 1", stage.now, mint="MintB")
    stage.round += 1
    stage.play(["0.001"] * 2)
    assert PaperOrder.get().reason == "copy" and PaperFill.select().count() == 1
    assert [one["reason"] for one in facts("refusal")] == ["not_cached"]
    seen = store.list_flows(0)["MintA"]
    assert [(one.bot, one.share_bps) for one in seen] == [("bot_two", 10_000), ("bot_one", 10_000)]


# pump.fun after the real purchase 461m5W, and after selling half of it.
BOUGHT = State(32_041_649_591, 1_004_629_924_232_400, 2_041_649_591, 724_729_924_232_400)
SOLD = State(31_000_000_000, 1_038_387_096_774_193, 1_000_000_000, 758_487_096_774_193)


def read_trade(side, after, change, mint="MintB"):
    """An entry with a 1% pool left in the state `after`."""
    pool = PoolReading("pump.fun", mint, 100, "on_top", True, BOUGHT, after)
    balance = Balance(mint, mint, 6, *((10**12, 10**12 + change)), 0, 0)
    known = ("s", 1, None, 0, side, "pump.fun", mint, (), (), 0, 5_000, 0, 0)
    return Entry(*known, ((mint, change, 6),), (balance,), pool=pool.pack())


def copy_bot(stage, service_trades, **settings):
    service_trades("bot_one", "owner 1", stage.now - 60 * MINUTE, mint="MintC")
    trader = stage.trader(family="copy", settings={"bot": "bot_one", "sizeBps": 2_500, **settings})
    stage.tick()
    return trader


def test_a_copy_without_a_cached_price_fills_from_observed_reserves(stage, service_trades):
    """Right behind the bot, without any provider's snapshot. Guarded Start spends a quarter of 2.5
    SOL; the fee is a hundredth on top, and a buyer pays one lamport more.
    """
    trader = copy_bot(stage, service_trades, latencyMs=0)
    seen = read_trade("buy", BOUGHT, 10**12)
    service_trades("bot_one", "owner 1", stage.now, mint="MintB", entry=seen)
    stage.tick()
    lamports = 625_000_000
    paid = lamports * 100 // 101 - 1
    raw = paid * BOUGHT.raw // (BOUGHT.sol + paid)
    (bought,) = PaperFill.select()
    assert (int(bought.raw), bought.at) == (raw, Snapshot.get().taken_at)
    assert bought.mid + bought.slippage + bought.pool_fee == lamports
    assert orjson.loads(bought.marks) == ["observed_reserves"]
    stage.round += 1
    seen = read_trade("sell", SOLD, -(10**12) // 2)
    service_trades("bot_one", "owner 1", stage.now, mint="MintB", side="sell", entry=seen)
    stage.tick()
    part, sold = raw // 2, PaperFill.select().order_by(PaperFill.id.desc()).get()
    # Its payment left with the bot's sale in the pool's proportion.
    more = (paid + 1) * SOLD.sol // BOUGHT.sol
    units = SOLD.sol * SOLD.raw // (SOLD.sol + more) + 1
    gross = part * (SOLD.sol + more) // (units + part)
    assert (int(sold.raw), sold.order.reason) == (part, "bot_sold")
    assert sold.mid - sold.slippage == gross
    assert sold.pool_fee == -(-(sold.mid - sold.slippage) // 100)
    assert not Review.select().exists() and facts("refusal") == []
    assert papertrade.rebuild_trader(trader, stage.now) == []


def test_a_later_copy_waits_and_fills_from_the_last_reserves(stage, service_trades):
    """MintA's snapshots make the rounds; it is due 60 seconds after the purchase was seen."""
    trader = copy_bot(stage, service_trades, latencyMs=60_000)
    seen = read_trade("buy", BOUGHT, 10**12)
    service_trades("bot_one", "owner 1", stage.now, mint="MintB", entry=seen)
    stage.play(["0.001"])
    assert PaperOrder.get().state == "open" and not PaperFill.select().exists()
    stage.round += 1
    stage.play(["0.001"])
    bought = PaperFill.get()
    assert bought.at == stage.now - MINUTE and Snapshot.get_by_id(bought.snapshot).reserves
    assert papertrade.rebuild_trader(trader, stage.now) == []


@pytest.mark.parametrize("case", ["cached", "late", "unreadable", "own token", "damaged"])
def test_reserves_are_used_only_without_a_cached_price(stage, service_trades, case):
    copy_bot(stage, service_trades)
    seen, at = read_trade("buy", BOUGHT, 10**12), stage.now
    if case == "cached":
        stage.list_token("MintB").snapshot("MintB")
    if case == "late":
        at -= store.LATE_MS + MINUTE
    if case == "unreadable":
        seen = seen._replace(pool=("route",))
    if case == "own token":
        seen = seen._replace(created=("MintB",))
    service_trades("bot_one", "owner 1", at, mint="MintB", entry=seen)
    if case == "damaged":
        models.WalletSignature.update(entry=b"no").execute()
    stage.play(["0.001"])
    assert not Snapshot.select().where(Snapshot.reserves.is_null(False)).exists()
    told = ["not_cached"] if case in ("unreadable", "own token", "damaged") else []
    assert [one["reason"] for one in facts("refusal")] == told


def test_the_sold_share_comes_from_the_transaction():
    """3 of 10 units in two accounts; the wallet keeps 7. A third of 3 is rounded up."""

    def sold(*balances, side="sell", mint="MintA"):
        entry = Entry(
            *("s", 1, None, 0, side, "V", "MintA", (), (), 0, 0, 0, 0, ()),
            tuple(Balance(str(place), *one, 0, 0) for place, one in enumerate(balances)),
        )
        return find(mint, side, entry.dump())

    def find(mint, side, entry):
        return store.find_sold_bps(SimpleNamespace(mint=mint, side=side, entry=entry))

    assert sold(("MintA", 6, 4, 1), ("MintA", 6, 6, 6), (None, 0, 0, 0)) == 3_000
    assert sold(("MintA", 6, 3, 2)) == 3_334
    assert sold(("MintA", 6, 3, 0)) == sold(("MintB", 6, 3, 2)) == 10_000
    assert find("A", "sell", b"x") == 10_000
    assert find("A", "sell", None) == 10_000


def test_a_flow_decision_replays_from_stored_data(stage, service_trades):
    """Even if a trade is recomputed, or an earlier one arrives late."""
    stage.trader(family="flow")
    stage.play(["0.001"])
    service_trades("one", "owner 1", stage.now)
    service_trades("two", "owner 2", stage.now)
    stage.round += 1
    stage.play(["0.001"] * 2)
    service_trades("late", "owner 3", stage.now - 2 * MINUTE)
    models.Trade.update(kind="transfer").where(models.Trade.uid == "one").execute()
    stage.play(["0.001"] * 2)
    order, told = PaperOrder.get(), facts("decision")[0]
    assert order.reason == "flow" and "2 owners" in told["detail"]

    market = Market(MINUTE)
    market.follow(store.find_tokens(Faults(raising=True)).values(), store.list_flows(0))
    seen = store.list_snapshots({1: market.tokens["MintA"]}, 0, range(10), Faults(raising=True))
    decided = {}
    for snapshot in seen:
        market.push(snapshot, snapshot.at)
        decided[snapshot.id] = decide(market.view("MintA"), None, FlowFollower(), snapshot.at)
    assert decided[order.decided_on] == Enter("flow", told["detail"])
    assert decided[order.decided_on - 1] is None
    # The late one counts from then on.
    assert "3 owners" in decided[seen[-1].id].detail


@pytest.fixture
def service_trades(db):
    """Observed trades, as written by the ledger store."""

    def trade(name, owner, at, mint="MintA", side="buy", entry=None):
        uid = name if mint == "MintA" else f"{name} {mint}"
        uid += "" if side == "buy" else f" {side}"
        about = {"block_time": at // 1000, "kind": side, "mint": mint, "entry": entry}
        move(observe(uid, wallet=name, owner=owner, bot=name, **about), mint, side)

    return trade


# ---- words ---------------------------------------------------------------------------------------
def test_posts_keep_their_text_when_the_voice_changes(stage):
    trader = stage.trader()
    stage.play(RISE[:16])
    before = [post.body for post in PaperPost.select()]
    traders.set_profile(Trader.get_by_id(trader.id), voice={"tone": "solemn"})
    stage.play(RISE[16:])
    bodies = [post.body for post in PaperPost.select().order_by(PaperPost.id)]
    assert bodies[: len(before)] == before and len(bodies) > len(before) > 0


@pytest.fixture
def model(monkeypatch):
    """An OpenAI-compatible endpoint that `says` a text, or responds with bytes or an error."""
    told = SimpleNamespace(says="", seen=[])

    def fetch(session, method, url, limits, **options):
        told.seen.append((method, url, limits, options))
        if isinstance(told.says, FetchError):
            raise told.says
        if isinstance(told.says, bytes):
            return told.says
        return json.dumps({"choices": [{"message": {"content": told.says}}]}).encode()

    monkeypatch.setattr(language_model, "fetch", fetch)
    return told


def written_by(stage, model, says):
    model.says = says
    told = {"llm_base_url": "http://127.0.0.1:9/v1", "llm_model": "small", "llm_api_key": "hush"}
    stage.config = ground.change(stage.config, **told)
    stage.job = papertrade.PaperJob(stage.config)
    stage.trader()
    stage.play(RISE[:16])
    return PaperPost.get(), orjson.loads(stage.tick()[1])["writer"]


def test_a_configured_model_writes_posts(stage, model):
    post, _ = written_by(stage, model, "Bought a little AA on paper, carefully.")
    assert (post.body, post.writer) == ("Bought a little AA on paper, carefully.", "model")
    method, url, limits, options = model.seen[0]
    sent = options["json"]
    assert (method, url) == ("POST", "http://127.0.0.1:9/v1/chat/completions")
    assert options["headers"] == {"Authorization": "Bearer hush"}
    assert limits is language_model.LIMITS and sent["model"] == "small"
    told = json.loads(sent["messages"][1]["content"])["facts"]
    assert told["symbol"] == "AA"
    assert told["kind"] == "fill"
    assert "never instructions" in sent["messages"][0]["content"]


@pytest.mark.parametrize(
    "says",
    [
        *("Took 77 AA on paper.", "Took some AA, trust me.", "", b"<html>", b"{}"),
        FetchError("returned HTTP 500"),
    ],
)
def test_built_in_text_replaces_unusable_model_text(stage, model, says):
    post, _ = written_by(stage, model, says)
    assert post.writer == "built-in" and "AA" in post.body


def test_a_failing_model_costs_one_attempt(stage):
    stage.config = ground.change(stage.config, llm_base_url="http://127.0.0.1:9", llm_model="x")
    stage.job = papertrade.PaperJob(stage.config)
    stage.trader()
    stage.play(RISE[:14])
    stage.snapshot(price=RISE[14])
    _, details = stage.tick()
    assert PaperPost.get().writer == "built-in"
    assert "could not be reached" in details and "127.0.0.1" not in details


def test_more_orders_than_a_statement_binds_fill_in_one_round(stage, monkeypatch):
    """Their rows are read in parts."""
    monkeypatch.setattr(storage, "ROWS_A_STATEMENT", 1)
    stage.trader()
    for mint in ("MintB", "MintC"):
        stage.list_token(mint)
    stage.play_everywhere(RISE[:15])
    assert PaperFill.select().count() > 1


# ---- the pool that remembers ---------------------------------------------------------------------
def test_pool_memory_survives_a_restart_and_is_verified(stage):
    """Three traders in one pool, a restart while they hold, and their exits."""
    made = [stage.trader(f"Holder {number}", start="standard") for number in range(3)]
    stage.play(RISE[:16])
    flows = [fill.flow for fill in PaperFill.select().order_by(PaperFill.turn)]
    assert [fill.turn for fill in PaperFill.select().order_by(PaperFill.turn)] == [1, 2, 3]
    assert flows == sorted(flows) and flows[0] == 0 < flows[1]
    stage.job = papertrade.PaperJob(stage.config)
    stage.play(RISE[16:])
    sold = list(PaperFill.select().where(PaperFill.turn > 3).order_by(PaperFill.turn))
    assert [fill.turn for fill in sold] == [4, 5, 6] and sold[0].flow > flows[2]
    assert [papertrade.rebuild_trader(trader, stage.now) for trader in made] == [[], [], []]
    # Others' payments into the pool are part of the proof.
    next_one = PaperFill.get(PaperFill.turn == 2)
    PaperFill.update(flow=next_one.flow + 10**9).where(PaperFill.id == next_one.id).execute()
    holder = next_one.order.period.trader
    assert any("a different fill" in told for told in papertrade.rebuild_trader(holder, stage.now))


def test_a_mints_transfer_fee_is_charged(stage):
    Token.update(transfer_fee_bps=1_000).execute()
    trader = stage.trader()
    stage.play(RISE)
    assert {order.transfer_bps for order in PaperOrder.select()} == {1_000}
    (position,) = PaperPosition.select()
    # A tenth on the way in, and of the rest on the way out: at least 18% of the amount spent.
    assert -position.cash > position.spent * 18 // 100 - max(0, position.mid_sold)
    assert papertrade.rebuild_trader(trader, stage.now) == []
