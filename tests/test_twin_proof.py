"""A rebuild fills the decisions of random-entry twins again: each row of theirs is proved."""

from dataclasses import replace

import pytest
from peewee import fn
from test_papertrade import RISE, Stage

import papertrade
import storage
from market.tables import Snapshot, Token
from paper import twin_proof
from paper.fills import Fill, NetworkCosts, Order
from paper.market import Snapshot as Snapshotted
from paper.tables import Review, TwinClose, TwinFill, TwinState

PRICES = RISE + ["0.0011"] * 90


@pytest.fixture
def stage(db, settings, monkeypatch):
    monkeypatch.setattr("paper.fills.FAILURE_BPS", 0)
    return Stage(settings).list_token().list_token("MintB")


def play(stage, prices):
    """Rounds in which one token does what it is told and the other stands still."""
    for price in prices:
        stage.snapshot("MintB", "0.002")
        stage.play([price])


def play_until(stage, table):
    while not table.select().exists():
        play(stage, [PRICES[stage.round]])


def load(trader):
    return twin_proof.load_twin(trader.periods.get().id, 10 * 10**9, trader.handle)


def test_a_twin_is_filled_again_after_a_restart_and_with_transfer_fees(stage):
    Token.update(transfer_fee_bps=100).execute()
    trader = stage.trader()
    play(stage, RISE[:16])
    stage.job = papertrade.PaperJob(stage.config)
    play_until(stage, TwinClose)
    assert {row.transfer_bps for row in TwinFill.select()} == {100}
    assert papertrade.rebuild_trader(trader, stage.now) == []
    assert papertrade.count_taken(trader) == 0


def test_an_open_position_of_a_twin_is_proved_and_a_difference_opens_a_review(stage):
    trader = stage.trader()
    play_until(stage, TwinFill)
    assert papertrade.rebuild_trader(trader, stage.now) == []
    (held,) = load(trader).account.positions.values()
    state = TwinState.get().state.replace(f'"spent":{held.spent}', '"spent":1')
    TwinState.update(state=state).execute()
    assert papertrade.rebuild_trader(trader, stage.now) == [
        "period 1, random entries, position 1: another spent"
    ]
    assert Review.get().state == "under_review" and TwinState.get().state == state


DAMAGES = (
    (lambda: TwinFill.update(mid=TwinFill.mid + 1), "order 1, attempt 1: another fill"),
    (lambda: TwinFill.update(costs="[1,2,3]"), "order 1, attempt 1: another fill"),
    (lambda: TwinFill.update(amount="1"), "order 1, attempt 1: another fill"),
    (lambda: TwinFill.update(turn=9), "order 1, attempt 1: another fill"),
    (lambda: TwinFill.update(decided_at=1), "order 1: decided at another time than its snapshot"),
    (lambda: TwinFill.delete().where(TwinFill.side == "sell"), "close 1: another net"),
    (lambda: TwinClose.update(net=TwinClose.net + 1), "close 1: another net"),
    (lambda: TwinClose.update(opened_at=1), "close 1: another opened_at"),
    (lambda: TwinClose.delete(), "close 1: another gross"),
    (lambda: TwinState.update(state=fn.REPLACE(TwinState.state, '"cash":', '"cash":1')), "cash"),
    (lambda: Snapshot.update(price_sol="0.0012"), "order 1, attempt 1: another fill"),
    (lambda: Snapshot.delete(), "order 1, attempt 1: another fill"),
)


def test_what_was_tampered_with_is_named(stage):
    trader = stage.trader()
    play_until(stage, TwinClose)
    for damage, found in DAMAGES:
        with storage.database.atomic() as tried:
            damage().execute()
            told = twin_proof.find_twin_differences(load(trader))
            assert any(found in one for one in told), (found, told)
            tried.rollback()
    assert twin_proof.find_twin_differences(load(trader)) == []


def test_a_fill_by_another_model_is_taken_as_stored(stage):
    trader = stage.trader()
    play_until(stage, TwinClose)
    TwinFill.update(model="amm-cp/9", turn=9).execute()
    assert twin_proof.find_twin_differences(load(trader)) == []
    assert papertrade.count_taken(trader) == TwinFill.select().count() == 2
    TwinFill.update(mid=TwinFill.mid + 1).where(TwinFill.side == "buy").execute()
    assert "another cash" in twin_proof.find_twin_differences(load(trader))


def test_a_write_off_of_a_twin_is_filled_again(stage):
    trader = stage.trader()
    play_until(stage, TwinFill)
    stage.snapshot(TwinFill.get().mint, price="0.00001", pool="0", liquidity="0")
    stage.tick()
    assert TwinClose.get().reason == "liquidity_gone"
    assert papertrade.rebuild_trader(trader, stage.now) == []


def test_a_pool_may_be_forgotten_an_hour_after_its_last_trade():
    last = Snapshotted(1, "A", 5_000, 10**21)
    memory = twin_proof.Memory(7, last, 2)
    ordered_at = 5_000 + twin_proof.HOUR_MS
    assert twin_proof.may_forget(memory, ordered_at)
    assert not twin_proof.may_forget(memory, ordered_at - 1)
    assert not twin_proof.may_forget(twin_proof.NEVER_TRADED, ordered_at)


# ---- without tables ------------------------------------------------------------------------------
def row(**more):
    """A fill of order 1: a purchase of 5 lamports, decided on snapshot 3 at 1,000."""
    told = dict.fromkeys(twin_proof.TwinFillRow._fields)
    told |= dict(order_number=1, mint="A", side="buy", decided_on=3, snapshot=4, at=2_000, raw="7")
    told |= dict(mid=5, slippage=0, pool_fee=0, network_fee=9, rent=0, failed=0, reason="random")
    told |= dict(decided_at=1_000, amount="5", least="6", decimals=6, transfer_bps=0, turn=1)
    told |= dict(marks="[]")
    return twin_proof.TwinFillRow(**{**told, "flow": 0, "model": "amm-cp/2", **more})


def test_fills_of_one_order_tell_of_one_order():
    known = {3: Snapshotted(3, "A", 1_000, 10**21)}

    def doubts(one, snapshots=known):
        return list(twin_proof.doubt_order(one, {1: twin_proof.read_order(row(), "")}, snapshots))

    assert doubts(row()) == []
    assert doubts(row(amount="6")) == ["order 1: its fills tell of several"]
    late = "order 1: decided at another time than its snapshot"
    assert doubts(row(), {}) == [late]
    assert doubts(row(), {3: replace(known[3], at=999)}) == [late]


def test_orders_and_fills_are_read_column_by_column():
    told = row(
        position=8, side="sell", slippage=10, pool_fee=11, rent=12, failed=1, transfer_bps=13
    )
    told = told._replace(mark="14", marks='["stale_price"]', flow=-15, turn=16, costs="[17,18,19]")
    assert twin_proof.read_order(told, "ada|random") == Order(
        *("ada|random", 1, "A", "", 6, "sell", 5, "random", 3, 1_000, 0, 0),
        least=6,
        transfer_bps=13,
    )
    assert twin_proof.read_fill(told) == Fill(
        *(1, "A", "sell", 4, 2_000, 3, 1_000, 7, 5, 10, 11, 9, 12, True, "random"),
        *(("stale_price",), -15, 16, NetworkCosts(17, 18, 19)),
    )
    (attempt,) = twin_proof._list_attempts([told], {})
    assert (attempt.mark, attempt.model, attempt.snapshot) == (14, "amm-cp/2", None)


def test_a_pool_that_a_twin_forgot_begins_again():
    """The purchase of an hour later says that it was the first."""
    early, late = (
        Snapshotted(number, "A", at, 10**21)
        for number, at in ((4, 2_000), (5, 2_000 + twin_proof.HOUR_MS))
    )
    rows = [row(), row(snapshot=5, at=late.at, decided_at=late.at, turn=1)]
    first, second = twin_proof._list_attempts(rows, {4: early, 5: late})
    assert first.memory == second.memory == twin_proof.NEVER_TRADED
    soon = rows[1]._replace(decided_at=late.at - 1)
    assert list(twin_proof._list_attempts([row(), soon], {4: early, 5: late}))[1].memory == (
        # What it put in: 5 lamports.
        twin_proof.Memory(5, early, 1)
    )


@pytest.mark.parametrize("ordered_after, begins_again", [(twin_proof.HOUR_MS, True), (0, False)])
def test_a_pool_may_be_forgotten_before_the_purchase_of_what_is_sold_there(
    ordered_after, begins_again
):
    """Bought in pool X, and again in pool Y, an hour later or at once; then the token's pair is X
    again, and the sale there says that it was the first.
    """
    pools = {4: "X", 5: "Y", 6: "X"}
    times = {4: 2_000, 5: 2_000 + ordered_after, 6: 3_000 + twin_proof.HOUR_MS}
    known = {
        number: Snapshotted(number, "A", times[number], 10**21, pair=pool)
        for number, pool in pools.items()
    }
    rows = [
        row(position=1),
        row(order_number=2, position=2, snapshot=5, at=times[5], decided_at=times[5]),
        row(
            **dict(order_number=3, position=2, side="sell", snapshot=6),
            **dict(at=times[6], decided_at=times[6]),
        ),
    ]
    sold = list(twin_proof._list_attempts(rows, known))[2]
    assert (sold.memory == twin_proof.NEVER_TRADED) is begins_again
