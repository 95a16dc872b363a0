"""The job and its tables: what a tick reads, stores and posts, and the effects of a restart, an
operator and a rebuild.
"""

import contextlib
import itertools
import json
from types import SimpleNamespace

import orjson
import pytest
from observed import move, observe
from peewee import OperationalError
from stage import RISE, adds_up, facts
from tape import MINUTE, START

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

PATIENT = {"latencyBudgetMs": 600_000}
BOTH = ("MintA", "MintB")


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Traders without twins, so that their rows are the only ones."""
    monkeypatch.setattr("accounts.traders.TWINS", 0)


def of(trader, table):
    """A trader's rows of a table that belong to its periods, oldest first."""
    return list(table.select().join(Period).where(Period.trader == trader).order_by(table.id))


def fills_of(trader):
    orders = [order.id for order in of(trader, PaperOrder)]
    return list(PaperFill.select().where(PaperFill.order.in_(orders)).order_by(PaperFill.id))


# ---- a life in the tables ------------------------------------------------------------------------
def test_a_trader_enters_exits_and_posts(stage):
    """The same snapshots through the pure engine give the same fills and diary. They are pinned;
    the token is tracked while it is on order or held.
    """

    def held():
        return [token.mint for token in Token.select().where(Token.held)]

    trader = stage.list_token("MintB").trader()
    stage.play(RISE[:14])
    assert held() == ["MintA"]
    stage.play(RISE[14:])
    assert held() == []
    (position,) = PaperPosition.select()
    buy, sell = fills_of(trader)
    assert (position.reason, position.raw, position.closed_at) == ("trailing_stop", "0", sell.at)
    assert buy.at == START + 14 * MINUTE
    assert [row["what"] for row in facts("fill")] == ["bought", "closed"]
    assert PaperPost.select().count() == 2
    # One in ten minutes.
    assert EquityMark.select().count() == 3
    assert EngineState.get().snapshot == Snapshot.select().order_by(Snapshot.id.desc()).get().id
    named = {fill.snapshot for fill in (buy, sell)}
    named |= {order.decided_on for order in of(trader, PaperOrder)}
    pinned = {row.id for row in Snapshot.select().where(Snapshot.expires_at.is_null())}
    assert pinned == named and len(named) == 4

    alone = Player(trader.id, trader.handle, Momentum(), Account())
    about = Seen("MintA", "AA", 6, None, START - 10**9, (Check("supply", "pass"),))
    market = Market(MINUTE, [about])
    for row in select(SnapshotRow, store.SNAPSHOTS, (0, 0, 10**9)):
        snapshot = store.parse_snapshot(row)
        engine.run_heartbeat(alone, snapshot.at)
        engine.play(market, [alone], [snapshot], snapshot.at)
    stored = [(row.kind, row.at, orjson.loads(row.facts)) for row in of(trader, DiaryEntry)]
    assert stored == [(entry.kind, entry.at, entry.facts) for entry in alone.journal.entries]
    period, account = Period.get(), alone.account
    assert (period.cash, period.next_order) == (account.cash, account.next_order)
    assert adds_up(period)


def test_several_rounds_in_one_tick_run_in_order(stage):
    """Each with the traders that existed then."""
    stage.trader("Early", settings=PATIENT)
    stage.record(RISE[:14])
    traders.create_trader("Late", "momentum", stage.now + 1, settings=PATIENT)
    stage.record(RISE[14:15]).tick()
    assert PaperFill.get().at == START + 14 * MINUTE
    assert [order.period.trader.name for order in PaperOrder.select()] == ["Early"]
    assert orjson.loads(stage.tick()[1])["rounds"] == 0


def test_a_late_tick_enters_nothing(stage):
    stage.trader()
    stage.record(RISE[:15])
    stage.round += 5
    stage.tick()
    assert not PaperOrder.select().exists() and facts("refusal")[0]["reason"] == "stale_snapshot"


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


# ---- what is kept --------------------------------------------------------------------------------
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
    assert PaperFill.select().count() == Review.select().count() == 1


# ---- twins ---------------------------------------------------------------------------------------
def test_twins_are_hidden_accounts_in_the_same_tables(stage, monkeypatch):
    """Their fills are stored like a trader's; the API shows only totals."""
    monkeypatch.setattr("accounts.traders.TWINS", 3)
    made = stage.list_token("MintB").trader()
    for price in (*RISE, *["0.0011"] * 30):
        stage.snapshot("MintB", "0.002")
        stage.play([price])
    accounts = {one.twin: one for one in Period.select()}
    closes = {one.period.twin: one for one in PaperPosition.select()}
    assert sorted(accounts) == sorted(closes) == [0, 1, 2, 3]
    for twin, one in closes.items():
        assert accounts[twin].cash == STARTING_CASH + one.cash
        assert accounts[twin].tickets == "[]"
    assert stage.rebuild(made) == []
    shown, nets = stage.show(made), [closes[twin].cash for twin in (1, 2, 3)]
    random = shown["randomEntry"]
    assert len(shown["closes"]) == len(shown["periods"]) == shown["performance"]["closes"] == 1
    assert random["accounts"] == random["eligibleCloses"] == random["closes"] == 3
    assert random["returnPct"] == float(percent(sum(nets), 3 * STARTING_CASH))
    assert random["intervalReason"] == "1 of the 5 days required for an interval"
    assert [*shown["rulesFired"].values()] == [*shown["rulesFiredAtRandom"].values()] == [0] * 4
    momentum, *_ = paper.compare_families(stage.now)["families"]
    assert momentum["eligibleCloses"] == momentum["traders"] == 1
    assert momentum["randomEntry"]["eligibleCloses"] == 3
    assert [one["costs"] for one in momentum["atCosts"]] == [1, 2, 3]
    assert momentum["atCosts"][0]["meanReturnPct"] == momentum["meanReturnPct"]
    # Under review, they count no more than their trader.
    traders.open_review(made, "a look", stage.now)
    momentum, *_ = paper.compare_families(stage.now)["families"]
    assert momentum["excluded"] == {"under_review": 1}
    assert momentum["tradersUnderReview"] == 1
    assert momentum["randomEntry"]["eligibleCloses"] == 0
    traders.decide_review(made, "cleared", "all is well", stage.now)
    # A tick that is replayed after a restart is stored once.
    stage.restart()
    stage.play(["0.0011"] * 3)
    assert PaperPosition.select().count() == 4
    # Their numbers go on after a reset.
    traders.reset_trader(made, "another start", stage.now)
    opened = Period.select().where(Period.closed_at.is_null()).order_by(Period.twin)
    found = [(one.number, one.twin, one.next_position) for one in opened]
    assert found == [(2, twin, 2) for twin in range(4)]


# ---- restarts and clocks -------------------------------------------------------------------------
def test_a_restart_drops_pending_orders_and_keeps_the_price_of_a_sol(stage):
    """0.16275 dollars for 0.001085 SOL; after the restart, no snapshot has a price in dollars."""
    stage.trader()
    stage.play(RISE[:13])
    stage.snapshot(price=RISE[13], price_usd="0.16275")
    stage.tick()
    assert PaperOrder.get().state == "open"
    stage.round += 1
    stage.restart()
    stage.play(RISE[14:15])
    assert PaperOrder.get().state == "restart"
    assert not PaperFill.select().exists()
    told = {"what": "not_filled", "side": "buy", "symbol": "AA", "why": "restart"}
    assert facts("fill") == [told]
    assert EquityMark.select().order_by(EquityMark.id.desc()).get().sol_cents == 150_00


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
    """A position held in round 14 and an order that was decided a day ahead."""
    trader = stage.trader()
    stage.play(RISE[:15])
    ahead = stage.now + 1440 * MINUTE
    order = PaperOrder.create(
        **{"period": Period.get(), "number": 99, "mint": "MintB", "symbol": "BB", "decimals": 6},
        **{"side": "buy", "amount": "100000000", "reason": "momentum", "state": "open"},
        **{"decided_on": 1, "decided_at": ahead, "due_at": ahead, "expires_at": ahead + MINUTE},
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
    return [orjson.loads(row.facts) for row in of(trader, DiaryEntry)]


def test_one_traders_error_does_not_stop_the_round(stage, monkeypatch, caplog):
    bad, good = stage.trader("Bad"), stage.trader("Good")
    count = break_settling(monkeypatch, lambda trader, order: trader.id == bad.id)
    # And again a minute later.
    problem = stage.play(RISE[:16])
    assert len(count) == 2
    assert [fill.order.period.trader.name for fill in PaperFill.select()] == ["Good"]
    assert problem == "@bad in MintA is suspended after an internal error (ZeroDivisionError)"
    details = [line["detail"] for line in lines_of(bad) if line.get("reason") == "put_off"]
    assert details == [problem]
    (record,) = [record for record in caplog.records if "suspended" in record.message]
    assert record.exc_info is not None
    assert stage.rebuild(good) == []
    assert EngineState.get().snapshot == Snapshot.select().count()


def test_errors_are_retried_with_backoff(stage, monkeypatch, caplog):
    """A minute, then 2, 4, 8, 16, 32: tried in minutes 0, 1, 3, 7, 15, 31 and 63 after the first
    time.
    """
    bad = stage.trader("Bad", settings=PATIENT)
    tries = []

    def break_heartbeat(player, now):
        tries.append(now)
        raise KeyError("phase")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "run_heartbeat", break_heartbeat)
        stage.play(["0.001"] * 64)
    assert [(at - tries[0]) // MINUTE for at in tries] == [0, 1, 3, 7, 15, 31, 63]
    assert len([record for record in caplog.records if "suspended" in record.message]) == 1
    assert [line["reason"] for line in lines_of(bad)] == ["put_off"]
    # At most an hour: until minute 123.
    assert stage.play(["0.001"] * 59) is not None
    assert stage.play(["0.001"]) is None and Trader.get().phase != bad.phase


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
    problem = stage.play(RISE[16:])
    assert [position.reason for position in of(good, PaperPosition)] == ["trailing_stop"]
    if problem is not None:
        assert problem.startswith("@bad is suspended")
        assert lines_of(bad)[-1]["reason"] == "put_off"
    assert table is not Trader or Token.get().held


def test_a_token_that_fails_is_skipped(stage, monkeypatch):
    """MintB can't be read, nor can the snapshots of MintC. MintD breaks its fills for everyone."""
    parse = store.parse_snapshot

    def parse_or_break(row):
        return 1 // 0 if row.mint == "MintC" else parse(row)

    monkeypatch.setattr(store, "parse_snapshot", parse_or_break)
    break_settling(monkeypatch, lambda trader, order: order.mint == "MintD")
    made = [stage.trader(name, start="standard") for name in ("Ada", "Bob")]
    stage.list_token("MintB", checks="no JSON").list_token("MintC").list_token("MintD")
    problem = stage.play(RISE[:16], *stage.tokens)
    assert [fill.order.mint for fill in PaperFill.select()] == ["MintA"] * 2
    assert [problem.count(mint) for mint in ("MintB", "MintC", "MintD")] == [1, 1, 2]
    assert stage.rebuild(*made) == []


def test_a_trader_that_fails_in_a_fourth_token_is_paused(stage, monkeypatch):
    trader = stage.trader("Bad")
    monkeypatch.setattr(Momentum, "enter", lambda strategy, view: 1 // 0)
    for mint in ("MintB", "MintC", "MintD"):
        stage.list_token(mint)
    assert "@bad is suspended" in stage.play(["0.001"], *stage.tokens)
    assert lines_of(trader)[-1]["symbol"] == "every trade"


def test_traders_whose_posts_fail_or_whose_owner_is_banned_still_trade(stage, monkeypatch):
    bad, banned, good = (stage.trader(name) for name in ("Bad", "Banned", "Good"))
    conduct.ban_owner(banned.owner, "threats", START)
    write = papertrade.builtin.write

    def write_or_break(persona, facts, seed, recent):
        return 1 // 0 if seed.startswith("bad|") else write(persona, facts, seed, recent)

    monkeypatch.setattr(papertrade.builtin, "write", write_or_break)
    stage.play(RISE)
    assert [post.trader_id for post in PaperPost.select()] == [good.id] * 2
    assert len(fills_of(bad)) == len(fills_of(banned)) == 2


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


def test_more_orders_than_a_statement_binds_fill_in_one_round(stage, monkeypatch):
    """Their rows are read in parts."""
    monkeypatch.setattr(storage, "ROWS_A_STATEMENT", 1)
    stage.list_token("MintB").trader()
    stage.play(RISE[:15], *BOTH)
    assert PaperFill.select().count() == 2


# ---- reviews, resets -----------------------------------------------------------------------------
def test_a_jump_opens_one_review(stage):
    trader = stage.trader()
    stage.play([*RISE[:15], "1"])
    review = stage.show(trader)["review"]
    codes = [reason["code"] for reason in review["reasons"]]
    assert (review["state"], codes) == ("under_review", ["price_jump"])
    traders.decide_review(trader, "cleared", "the provider's mistake", stage.now)
    # A second snapshot confirmed the fall back, which is no separate reason, and none occurs twice.
    for rounds in (2, 3):
        stage.play(["0.00115"] * rounds)
        assert stage.show(trader)["review"]["state"] == "cleared"


def test_records_stay_through_a_review_and_posts_through_a_new_voice(stage):
    def list_bodies():
        return [post.body for post in PaperPost.select().order_by(PaperPost.id)]

    trader = stage.trader()
    stage.play(RISE[:16])
    said = list_bodies()
    traders.set_profile(trader, voice={"tone": "solemn"})
    stage.play(RISE[16:])
    assert list_bodies()[:-1] == said and len(said) == 1
    before = stage.show(trader)
    traders.open_review(trader, "a look", stage.now)
    after = stage.show(trader)
    (earlier,), (close,) = before["closes"], after["closes"]
    assert earlier.pop("reviewOpenedAt") is None and close.pop("reviewOpenedAt")
    assert close == {**earlier, "eligible": False, "excludedReason": "under_review"}
    assert after["diary"][1:] == before["diary"]


def test_a_deleted_owners_trader_stops_and_keeps_its_open_position(stage):
    def stored():
        return fills_of(trader), list(PaperPost.select()), PaperPosition.get().closed_at

    trader = stage.trader()
    stage.play(RISE[:16])
    before = stored()
    departures.delete_owner(trader.owner, stage.now)
    stage.play(RISE[16:])
    assert stored() == before and before[2] is None
    assert not PaperOrder.select().where(PaperOrder.state == "open").exists()
    # Nobody plays it: its token isn't tracked longer than others.
    assert not Token.select().where(Token.held).exists()
    gone = traders.find_trader(trader.uid)
    assert gone.retired_at and gone.handle == trader.handle and gone.name != "Ada Paper"
    assert stage.rebuild(gone) == []
    assert stage.show(trader)["retiredAt"]


def test_a_reset_ends_an_upheld_review_and_opens_a_new_period(stage):
    """It needs closed positions and a decision. An upheld review restarts Guarded Start."""

    def reset():
        traders.reset_trader(trader, "the settings were wrong", stage.now)

    trader = stage.trader(start="standard")
    stage.play(RISE[:15])
    with pytest.raises(Problem, match="positions are still open"):
        reset()
    stage.play(RISE[15:])
    traders.open_review(trader, "a look", stage.now)
    with pytest.raises(Problem, match="clear or uphold"):
        reset()
    traders.decide_review(trader, "upheld", "it was wrong", stage.now)
    shown, old = stage.show(trader), str(Period.get().cash)
    assert (shown["strategy"]["phase"]["name"], shown["review"]["state"]) == ("guarded", "upheld")
    reset()
    # Numbers of orders and positions continue.
    assert {(one.next_order, one.next_position) for one in Period.select()} == {(3, 2)}
    stage.play(["0.001"])
    shown = stage.show(trader)
    periods = [(one["number"], one["reason"], one["cashLamports"]) for one in shown["periods"]]
    assert periods == [(1, "the settings were wrong", old), (2, None, str(STARTING_CASH))]
    assert [close["period"] for close in shown["closes"]] == [1]
    fresh = {"period": 2, "closes": 0, "returnPct": 0}
    assert fresh.items() <= shown["performance"].items() and shown["review"]["state"] == "clean"
    assert shown["diary"][0]["text"] == "A new account period begins: the settings were wrong."


# ---- filling again -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "changed, found",
    [
        (PaperFill.update(mid=PaperFill.mid + 1).where(PaperFill.id == 1), "a different fill"),
        # What others paid into the pool is part of the proof.
        (PaperFill.update(flow=PaperFill.flow + 10**9), "a different fill"),
        (Period.update(cash=Period.cash + 1), "another cash"),
        (PaperPosition.update(slippage=PaperPosition.slippage - 1), "another slippage"),
        (Snapshot.update(price_sol="0.0012"), "a different fill"),
        (Snapshot.delete(), "a different fill"),
    ],
)
def test_rebuild_reports_tampering_and_edits_nothing(stage, changed, found):
    def read():
        tables = PaperFill, PaperPosition, Period, PaperOrder
        return [list(kind.select().dicts()) for kind in tables]

    trader = stage.trader()
    stage.play(RISE)
    changed.clone().execute()
    before = read()
    assert any(found in difference for difference in stage.rebuild(trader))
    assert Review.get().state == "under_review"
    assert read() == before


def without_a_price(stage, hours):
    """MintA has none for hours in which the scout works, and for six minutes of a new process.

    The scout had prices of MintB, of which one per hour is left. (Of the last two hours all would
    be left; those are played, and one per hour is a silence there.)
    """
    for _ in range(hours):
        stage.round += 60
        stage.snapshot("MintB")
    stage.round += 1
    stage.restart()
    stage.play(["0.001"] * 6, "MintB")
    return PaperPosition.get()


def test_downtime_closes_no_position(stage):
    """Two days off and 22 hours on: six minutes without a price are reviewed, but no day without
    one is over. Six hours later it is. The mark's snapshot was only kept for two hours.
    """
    trader = stage.list_token("MintB").trader()
    stage.play(RISE[:15])
    stage.round += 2 * 1440
    held = without_a_price(stage, 22)
    assert (held.closed_at, held.marks) == (None, '["missing_snapshot"]')
    assert not Review.select().exists()
    assert without_a_price(stage, 6).reason == "price_gone"
    Snapshot.delete().where(Snapshot.expires_at.is_null(False)).execute()
    assert stage.rebuild(trader) == []


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
            assert stage.rebuild(trader) == []
            if not was_killed():
                break
            stage.restart()
        assert write > 3 or number not in (12, 18)
        assert EngineState.get().snapshot == store.find_newest()
        stage.round += 1
    (position,) = PaperPosition.select()
    assert position.closed_at and not Review.select().exists()
    assert adds_up(Period.get())
    news = [one for one in DiaryEntry.select() if orjson.loads(one.facts)["what"] in brain.NEWS]
    assert sorted(one.entry_id for one in PaperPost.select()) == [one.id for one in news]


# ---- flow ----------------------------------------------------------------------------------------
def trade(bot, owner, at, mint="MintA", side="buy", entry=None):
    """Store a bot's trade as the ledger store does."""
    about = {"block_time": at // 1000, "kind": side, "mint": mint, "entry": entry}
    move(observe(f"{bot} {mint} {side}", wallet=bot, owner=owner, bot=bot, **about), mint, side)


def test_flows_are_stored_once(stage, monkeypatch):
    """A round without new observations reads no trade and writes no flow."""
    trade("one", "owner 1", stage.now)
    store.see_flows(stage.now - MINUTE, 7, stage.now)
    seen = store.list_flows(stage.now - MINUTE)
    assert [(flow.wallet, flow.first_snapshot) for flow in seen["MintA"]] == [("one", 7)]
    assert storage.read_rows(store.UNSEEN, (0,)) == []
    monkeypatch.setattr("storage.writing", None)
    store.see_flows(stage.now - MINUTE, 8, stage.now)
    assert store.list_flows(stage.now - MINUTE) == seen


def test_a_flow_decision_replays_from_stored_data(stage):
    """Even if a trade is recomputed, or an earlier one arrives late."""
    stage.trader(family="flow")
    stage.play(["0.001"])
    trade("one", "owner 1", stage.now)
    stage.round += 1
    stage.play(["0.001"])
    assert facts("refusal")[-1]["reason"] == "one_wallet"
    trade("two", "owner 2", stage.now)
    stage.round += 1
    stage.play(["0.001"] * 2)
    assert PaperFill.select().count() == 1
    trade("late", "owner 3", stage.now - 2 * MINUTE)
    models.Trade.update(kind="transfer").where(models.Trade.uid == "one MintA buy").execute()
    stage.play(["0.001"] * 2)
    order, told = PaperOrder.get(), facts("decision")[0]
    assert order.reason == "flow" and "2 owners" in told["detail"]

    market, faults = Market(MINUTE), Faults(raising=True)
    market.follow(store.find_tokens(faults).values(), store.list_flows(0))
    seen = store.list_snapshots({1: market.tokens["MintA"]}, 0, range(10), faults)
    decided = {}
    for snapshot in seen:
        market.push(snapshot, snapshot.at)
        decided[snapshot.id] = decide(market.view("MintA"), None, FlowFollower(), snapshot.at)
    assert decided[order.decided_on] == Enter("flow", told["detail"])
    assert decided[order.decided_on - 1].reason == "one_wallet"
    # The late one counts from then on.
    assert "3 owners" in decided[seen[-1].id].detail


# ---- copies --------------------------------------------------------------------------------------
# pump.fun after the real purchase 461m5W, and after selling half of it.
BOUGHT = State(32_041_649_591, 1_004_629_924_232_400, 2_041_649_591, 724_729_924_232_400)
SOLD = State(31_000_000_000, 1_038_387_096_774_193, 1_000_000_000, 758_487_096_774_193)


def read_trade(side, after, change, mint="MintB"):
    """An entry with a 1% pool left in the state `after`."""
    pool = PoolReading("pump.fun", mint, 100, "on_top", True, BOUGHT, after)
    balance = Balance(mint, mint, 6, 10**12, 10**12 + change, 0, 0)
    known = ("s", 1, None, 0, side, "pump.fun", mint, (), (), 0, 5_000, 0, 0)
    return Entry(*known, ((mint, change, 6),), (balance,), pool=pool.pack())


PURCHASE = read_trade("buy", BOUGHT, 10**12)


def copy(stage, **settings):
    """Create a trader that copies bot_one from now on."""
    trade("bot_one", "owner 1", stage.now - 60 * MINUTE, mint="MintC")
    settings = {"bot": "bot_one", "sizeBps": 2_500, **settings}
    trader = stage.trader(family="copy", settings=settings)
    stage.tick()
    return trader


def trade_copied(at, entry=PURCHASE, side="buy"):
    trade("bot_one", "owner 1", at, "MintB", side, entry)


def test_a_copy_follows_its_bot_and_names_what_it_cannot_copy(stage):
    """The copied bot buys MintA, which has prices, and MintB, which doesn't; another bot buys."""
    copy(stage)
    stage.play(["0.001"])
    trade("bot_two", "owner 2", stage.now)
    stage.round += 1
    stage.play(["0.001"])
    assert not PaperOrder.select().exists()
    trade("bot_one", "owner 1", stage.now)
    trade("bot_one", "owner 1", stage.now, mint="MintB")
    stage.round += 1
    stage.play(["0.001"] * 2)
    assert PaperOrder.get().reason == "copy" and PaperFill.select().count() == 1
    assert [one["reason"] for one in facts("refusal")] == ["not_cached"]
    seen = store.list_flows(0)["MintA"]
    assert [(one.bot, one.share_bps) for one in seen] == [("bot_two", 10_000), ("bot_one", 10_000)]


def test_a_copy_without_a_cached_price_fills_from_observed_reserves(stage):
    """Right behind the bot, without any provider's snapshot. Guarded Start spends a quarter of 2.5
    SOL; the fee is a hundredth on top, and a buyer pays one lamport more.
    """
    trader = copy(stage, latencyMs=0)
    trade_copied(stage.now)
    stage.tick()
    lamports = 625_000_000
    paid = lamports * 100 // 101 - 1
    raw = paid * BOUGHT.raw // (BOUGHT.sol + paid)
    (bought,) = PaperFill.select()
    assert (int(bought.raw), bought.at) == (raw, Snapshot.get().taken_at)
    assert bought.mid + bought.slippage + bought.pool_fee == lamports
    assert bought.marks == '["observed_reserves"]'
    stage.round += 1
    trade_copied(stage.now, read_trade("sell", SOLD, -(10**12) // 2), "sell")
    stage.tick()
    part, (_, sold) = raw // 2, fills_of(trader)
    # Its payment left with the bot's sale in the pool's proportion.
    more = (paid + 1) * SOLD.sol // BOUGHT.sol
    units = SOLD.sol * SOLD.raw // (SOLD.sol + more) + 1
    gross = part * (SOLD.sol + more) // (units + part)
    assert (int(sold.raw), sold.order.reason) == (part, "bot_sold")
    assert (sold.mid - sold.slippage, sold.pool_fee) == (gross, -(-gross // 100))
    assert not Review.select().exists() and facts("refusal") == []
    assert stage.rebuild(trader) == []


def test_a_later_copy_waits_and_fills_from_the_last_reserves(stage):
    """MintA's snapshots make the rounds; it is due 60 seconds after the purchase was seen."""
    trader = copy(stage, latencyMs=60_000)
    trade_copied(stage.now)
    stage.play(["0.001"])
    assert PaperOrder.get().state == "open" and not PaperFill.select().exists()
    stage.round += 1
    stage.play(["0.001"])
    bought = PaperFill.get()
    assert bought.at == stage.now - MINUTE and Snapshot.get_by_id(bought.snapshot).reserves
    assert stage.rebuild(trader) == []


@pytest.mark.parametrize("case", ["cached", "late", "unreadable", "own token", "damaged"])
def test_reserves_are_used_only_without_a_cached_price(stage, case):
    copy(stage)
    if case == "cached":
        stage.list_token("MintB").snapshot("MintB")
    entry = {
        "unreadable": PURCHASE._replace(pool=("route",)),
        "own token": PURCHASE._replace(created=("MintB",)),
    }.get(case, PURCHASE)
    late_by = store.LATE_MS + MINUTE if case == "late" else 0
    trade_copied(stage.now - late_by, entry)
    if case == "damaged":
        models.WalletSignature.update(entry=b"no").execute()
    stage.play(["0.001"])
    assert not Snapshot.select().where(Snapshot.reserves.is_null(False)).exists()
    told = [] if case in ("cached", "late") else ["not_cached"]
    assert [one["reason"] for one in facts("refusal")] == told


@pytest.mark.parametrize(
    "mint, left, share_bps",
    [("MintA", (0, 2), 3_334), ("MintA", (0, 0), 10_000), ("MintB", (0, 2), 10_000)],
)
def test_the_sold_share_comes_from_the_transaction(mint, left, share_bps):
    """The wallet had 1 and 2 units in two accounts; a third is rounded up. If the share is unknown,
    it is all.
    """
    held = tuple(
        Balance(str(before), "MintA", 6, before, after, 0, 0)
        for before, after in zip((1, 2), left, strict=True)
    )
    known = ("s", 1, None, 0, "sell", "V", "MintA", (), (), 0, 0, 0, 0, ())
    row = SimpleNamespace(mint=mint, side="sell", entry=Entry(*known, held).dump())
    assert store.find_sold_bps(row) == share_bps
    for unreadable in (b"x", None):
        row.entry = unreadable
        assert store.find_sold_bps(row) == 10_000


# ---- words ---------------------------------------------------------------------------------------
MODEL = {"llm_base_url": "http://127.0.0.1:9/v1", "llm_model": "small", "llm_api_key": "hush"}


def answer_with(monkeypatch, says):
    """Replace the model's endpoint: it says a text, or responds with bytes or an error."""
    asked = []

    def fetch(session, method, url, limits, **options):
        asked.append((method, url, limits, options))
        if isinstance(says, FetchError):
            raise says
        if isinstance(says, bytes):
            return says
        return json.dumps({"choices": [{"message": {"content": says}}]}).encode()

    monkeypatch.setattr(language_model, "fetch", fetch)
    return asked


SAID = "Bought a little AA on paper, carefully."
NO_TEXT = "the writer sent something other than a completion"


@pytest.mark.parametrize(
    "says, writer, problem",
    [
        (SAID, "model", None),
        ("Took 77 AA on paper.", "built-in", None),
        (b"<html>", "built-in", NO_TEXT),
        (b"{}", "built-in", NO_TEXT),
        (FetchError("returned HTTP 500"), "built-in", "the writer returned HTTP 500"),
    ],
)
def test_a_configured_model_writes_posts_if_its_text_is_usable(
    stage, monkeypatch, says, writer, problem
):
    """After an error, the model isn't asked again in this tick."""
    asked = answer_with(monkeypatch, says)
    stage.restart(**MODEL)
    for name in ("Ada", "Bob"):
        stage.trader(name)
    stage.play(RISE[:14])
    stage.snapshot(price=RISE[14])
    details = orjson.loads(stage.tick()[1])
    assert (details["posts"], details["writer"]) == (2, problem)
    for post in PaperPost.select():
        assert post.writer == writer and "AA" in post.body
        assert (post.body == SAID) is (writer == "model")
    assert len(asked) == (1 if problem else 2)
    method, url, limits, options = asked[0]
    assert (method, url) == ("POST", "http://127.0.0.1:9/v1/chat/completions")
    assert options["headers"] == {"Authorization": "Bearer hush"}
    assert limits is language_model.LIMITS and options["json"]["model"] == "small"
    rules, prompt = (message["content"] for message in options["json"]["messages"])
    told = json.loads(prompt)["facts"]
    assert (told["symbol"], told["kind"]) == ("AA", "fill") and "never instructions" in rules


# ---- the pool that remembers ---------------------------------------------------------------------
def test_pool_memory_survives_a_restart(stage):
    """Three traders in one pool, a restart while they hold, and their exits."""
    made = [stage.trader(f"Holder {number}", start="standard") for number in range(3)]
    stage.play(RISE[:16])
    stage.restart()
    stage.play(RISE[16:])
    fills = list(PaperFill.select().order_by(PaperFill.turn))
    flows = [fill.flow for fill in fills]
    assert [fill.turn for fill in fills] == [1, 2, 3, 4, 5, 6]
    assert 0 == flows[0] < flows[1] < flows[2] < flows[3]
    assert stage.rebuild(*made) == []


def test_a_mints_transfer_fee_is_charged(stage):
    """A tenth on the way in, and of the rest on the way out: at least 18% of the amount spent."""
    Token.update(transfer_fee_bps=1_000).execute()
    trader = stage.trader()
    stage.play(RISE)
    (position,) = PaperPosition.select()
    assert -position.cash > position.spent * 18 // 100 - max(0, position.mid_sold)
    assert stage.rebuild(trader) == []
