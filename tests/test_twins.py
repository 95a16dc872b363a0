"""The controls: a twin that enters at random beside each trader."""

from collections import Counter
from dataclasses import asdict, replace
from hashlib import sha256

import pytest
from tape import MINUTE, START, Tape, Told, adds_up, quote, trader

from paper import engine, twin_store, twins
from paper.account import PIPELINE, Account, Close, Position
from paper.faults import Faults
from paper.fills import Fill, NetworkCosts, Order
from paper.guard import Pause
from paper.load import LoadedTrader
from paper.market import CheckedSnapshot
from paper.pools import Memory
from paper.trader import DiaryLine, Trader
from paper.twin_store import TwinCloseRow, read_twin_close
from paper.twins import Twin

# Two entries, each left five rounds later.
PLAN = {"enter_at": (2, 20), "leave_at": (60,), "mints": ("A",), "time_stop": 5}
MINTS = "ABCDEFGH"


@pytest.fixture(autouse=True)
def lucky(monkeypatch):
    monkeypatch.setattr("paper.fills.FAILURE_BPS", 0)


class Patient(Told):
    """Told when to enter; leaves by its time stop."""

    def leave(self, view, position):
        return super().leave(view, position) or self.leave_late(view, position)


def with_twin(ident=1, **settings):
    one = trader(ident, Patient(**{**PLAN, **settings}))
    own = Trader(ident, twins.name_twin(one.handle), one.strategy, Account())
    one.twin = Twin(own)
    return one


def play(one, rounds=61):
    return Tape([one], MINTS).play(rounds)


def entries(player):
    return [order for order in player.journal.orders.values() if order.side == "buy"]


def test_a_twin_buys_as_often_as_large_and_at_a_seeded_moment_of_its_own():
    one = with_twin()
    play(one)
    ordered, drawn = entries(one), entries(one.twin.player)
    assert [order.amount for order in drawn] == [order.amount for order in ordered]
    assert {order.mint for order in ordered} == {"A"}
    for real, random in zip(ordered, drawn, strict=True):
        assert 0 <= random.decided_at - real.decided_at <= 14 * MINUTE
    assert all(order.state == "filled" for order in drawn)


def test_tokens_and_moments_differ_from_trader_to_trader_and_all_come_up():
    """Of 40 traders' 80 entries in eight tokens each token is drawn; that one is not would happen
    once in 5,000 times (8 x (7/8)**80), and the mean delay of 0 to 14 rounds is 7, give or take 3
    x 4.3 / sqrt(80).
    """
    delays, drawn = [], set()
    for ident in range(1, 41):
        one = with_twin(ident)
        play(one, 40)
        drawn |= {order.mint for order in entries(one.twin.player)}
        delays += [twins.draw_delay(one.twin.player.handle, n) for n in (1, 3)]
    assert drawn == set(MINTS)
    assert 7 - 1.5 < sum(delays) / len(delays) < 7 + 1.5 and set(delays) <= set(range(15))


def test_a_twin_leaves_by_the_exits_of_its_trader_and_pays_by_the_same_model():
    one = with_twin()
    play(one)
    own = one.twin.player
    closed = [done for done in own.journal.positions.values() if done.closed_at is not None]
    assert [done.reason for done in closed] == ["time_stop"] * 2
    assert all(done.fees > 0 and done.cash < done.gross for done in closed)
    # Raydium takes 25 basis points of what goes in and of what comes out.
    assert all(
        abs(fill.pool_fee - (fill.mid + fill.slippage) * 25 // 9_975) <= 2
        for fill, _ in own.journal.fills
        if fill.side == "buy"
    )
    assert adds_up(own) and adds_up(one)


def test_nobody_feels_a_twin():
    alone, beside = with_twin(), with_twin()
    alone.twin = None
    first, second = play(alone), play(beside)
    assert alone.journal == beside.journal and alone.account.cash == beside.account.cash
    assert first.market.memories == second.market.memories


def test_the_same_snapshots_give_the_same_twin():
    one, other = with_twin(), with_twin()
    play(one)
    play(other)
    assert one.twin.player.journal == other.twin.player.journal
    assert twin_store.show_state(one.twin) == twin_store.show_state(other.twin)


def test_a_twin_is_read_as_it_was_stored():
    one = with_twin()
    play(one, 24)
    twin, text = one.twin, twin_store.show_state(one.twin)
    twin.fired, twin.lessons = Counter(cool_down=2), 3
    twin.sol_cents_first, twin.sol_cents_last = 15_000, 18_000
    columns = twin_store.show_twin(twin, text, 7)
    row = twin_store.StateRow(**{name: columns[name] for name in twin_store.StateRow._fields})
    found = twin_store.read_twin(one, row)
    assert found.fired == {"cool_down": 2} and found.lessons == 3 and found.started_at == START
    assert (found.sol_cents_first, found.sol_cents_last) == (15_000, 18_000)
    assert twin_store.show_state(found) == text and not found.is_news(text)
    kept = found.player.account
    assert [asdict(one) for one in kept.positions.values()] == [
        asdict(one) for one in twin.player.account.positions.values()
    ]
    assert found.tickets == twin.tickets and found.memories == twin.memories


@pytest.mark.parametrize(
    "pipeline, marks, excluded",
    [
        (PIPELINE, [], None),
        (PIPELINE, ["stale_price", "under_review"], "under_review"),
        (PIPELINE, ["stale_price"], "stale_price"),
        ("paper/0", ["stale_price"], "old_pipeline"),
    ],
)
def test_a_close_of_a_twin_is_left_out_as_any_other(pipeline, marks, excluded):
    figures = {"gross": 9, "net": 8, "spent": 7, "pipeline": pipeline, "marks": "unread"}
    about = {"mint": "A", "symbol": "AA", "opened_at": 1, "closed_at": 2, "reason": "stop"}
    row = TwinCloseRow(period=7, number=3, trader_id=1, family="told", **about, **figures)
    read = read_twin_close("close_x", row, marks)
    assert read == Close("close_x", "A", "AA", 1, 2, "stop", 9, 8, 7, excluded)


def test_a_ticket_that_finds_no_room_is_void():
    """Four positions are the limit; tickets wait 28 intervals and no longer."""
    one = with_twin(enter_at=tuple(range(2, 30)), mints=tuple(MINTS), leave_at=(), time_stop=2_000)
    tape = play(one, 60)
    own = one.twin.player
    assert len(own.account.positions) == 4 == len(one.account.positions)
    tape.play(30)
    assert one.twin.tickets == [] and len(own.account.positions) == 4


def test_a_position_that_a_review_would_ask_about_does_not_count():
    """A price that jumps thirty times: what the twin earned by it is no evidence."""
    one = with_twin(mints=("A",), enter_at=(2,), time_stop=12)
    tape = Tape([one], "A").play(18)
    assert list(one.twin.player.account.positions) == ["A"]
    tape.play(A={"price": "0.03", "pool": "30000"})
    tape.play(20, A={"price": "0.03", "pool": "30000"})
    assert one.twin.doubted == {1} and not one.twin.player.reviewed
    done = one.twin.player.journal.positions[1]
    columns = twin_store.show_close(one.twin, done, 7)
    assert columns["marks"] == '["under_review"]' and done.closed_at is not None


def test_rows_of_twins_name_their_snapshots():
    one = with_twin()
    play(one)
    written = twin_store.show_twins([LoadedTrader(one, FakeRow(7))])
    assert [row["position"] for row in written.fills] == [1, 1, 2, 2]
    assert {row["snapshot"] for row in written.fills} < written.named
    assert [row["number"] for row in written.closes] == [1, 2] and len(written.states) == 1
    assert sum(row["net"] for row in written.closes) == one.twin.player.account.cash - 10 * 10**9


def test_what_a_twin_did_is_shown_column_by_column():
    one = with_twin()
    journal = one.twin.player.journal
    journal.orders[4] = Order(
        *("h", 4, "A", "AA", 6, "buy", 41, "random", 42, 43, 44, 45), least=46, transfer_bps=47
    )
    done = Position(
        *(5, "A", "AA", 6, 51, None, 52, 53, 54, 55),
        **{"mid_bought": 56, "mid_sold": 58, "cash": 57, "spent": 59, "pipeline": "paper/0"},
        **{"marks": ("uncalibrated",), "closed_at": 60, "reason": "stop"},
    )
    journal.positions[5] = done
    fill = Fill(
        *(4, "A", "buy", 61, 62, 42, 43, 2**64, 63, 64, 65, 66, 67, True, "random"),
        *(("uncalibrated",), -68, 69, NetworkCosts(1, 2, 3)),
    )
    assert twin_store.show_fill(fill, 5, 7) == {
        **{"period": 7, "order_number": 4, "position": 5, "mint": "A", "side": "buy"},
        **{"decided_on": 42, "snapshot": 61, "at": 62, "raw": str(2**64), "mid": 63},
        **{"slippage": 64, "pool_fee": 65, "network_fee": 66, "rent": 67, "failed": True},
        **{"reason": "random", "model": "amm-cp/2"},
    }
    making = {
        **{"decided_at": 43, "amount": "41", "least": "46", "decimals": 6, "transfer_bps": 47},
        **{"mark": "52", "marks": '["uncalibrated"]', "flow": -68, "turn": 69, "costs": "[1,2,3]"},
    }
    assert twin_store.show_making(fill, journal, 5) == making
    # Before there is a position, and of a model before this one.
    early = twin_store.show_making(replace(fill, costs=None), journal, None)
    assert early == {**making, "mark": None, "costs": None}
    close = {
        **{"period": 7, "number": 5, "mint": "A", "symbol": "AA", "opened_at": 51},
        **{"closed_at": 60, "reason": "stop", "gross": 2, "net": 57, "spent": 59},
        "pipeline": "paper/0",
    }
    assert twin_store.show_close(one.twin, done, 7) == {**close, "marks": '["uncalibrated"]'}
    one.twin.doubted = {5}
    doubted = '["uncalibrated","under_review"]'
    assert twin_store.show_close(one.twin, done, 7) == {**close, "marks": doubted}
    one.twin.started_at, one.twin.lessons, one.twin.fired = 70, 71, Counter(b=1, a=2)
    one.twin.sol_cents_first, one.twin.sol_cents_last = 72, 73
    account = one.twin.player.account
    account.positions["A"] = replace(done, closed_at=None, worth=74)
    account.cash = 75
    assert twin_store.show_twin(one.twin, "state", 7) == {
        **{"period": 7, "state": "state", "mints": '["A"]', "fired": '{"a":2,"b":1}'},
        **{"lessons": 71, "cash": 75, "worth": 74, "sol_cents_first": 72, "sol_cents_last": 73},
        "started_at": 70,
    }


class FakeRow:
    def __init__(self, period):
        self.period = period


def test_a_trader_without_a_stored_twin_gets_one_that_begins_now(db):
    one = trader(strategy=Patient(**PLAN))
    one.account.next_order = 9
    twin_store.load_twins([LoadedTrader(one, FakeRow(1))], START, Faults(raising=True))
    assert one.twin.next_order == 9 and one.twin.player.account.cash == one.starting_cash


def test_closes_of_periods_that_are_not_played_are_left_aside(monkeypatch):
    close = TwinCloseRow(1, 5, 1, "told", "A", "AA", 1, 2, "time_stop", 9, 8, 7, PIPELINE, "[]")
    found = {twin_store.STATES: [], twin_store.SINCE: [close, close._replace(period=2)]}
    monkeypatch.setattr(twin_store, "select", lambda kind, sql, *asked: found[sql])
    one = trader(strategy=Patient(**PLAN))
    twin_store.load_twins([LoadedTrader(one, FakeRow(1))], START, Faults(raising=True))
    (read,) = one.twin.player.closes
    assert (read.gross, read.net, read.spent, read.excluded) == (9, 8, 7, None)


def test_a_ticket_waits_while_the_twin_has_all_that_it_may_have():
    one = with_twin()
    own, tape = one.twin.player, Tape([one], "A").play(3)
    tickets, limit = twins.Ticket(1, 10**8, 0, 9**15), own.strategy.max_positions
    for number in range(limit):
        own.account.orders[number] = Waiting(f"M{number}")
    seen = engine.check_snapshots(tape.market, [quote(4)], tape.now + MINUTE, Faults())
    more = (tape.market, seen, tape.now + MINUTE, tape.now + MINUTE)
    assert not twins.spend_ticket(one.twin, tickets, one, *more)
    del own.account.orders[0]
    own.account.orders = {}
    assert twins.spend_ticket(one.twin, tickets, one, *more)
    (order,) = own.account.orders.values()
    assert (order.mint, order.side, order.amount) == ("A", "buy", 10**8)


class Waiting:
    def __init__(self, mint):
        self.mint = mint


def test_what_rules_and_lessons_said_is_counted_and_forgotten():
    """Of three pauses two only observed; a pause that is over goes."""
    one = with_twin()
    own = one.twin.player
    for what in ("observed", "begun", "observed"):
        facts = {"what": what, "rule": "cool_down"}
        own.journal.entries.append(DiaryLine("pause", START, facts))
    own.journal.entries.append(DiaryLine("lesson", START, {"what": "lesson"}))
    until = Pause("p", "cool_down", "pause", None, START, START + 1, True, 8, 5, {})
    own.pauses = [until, replace(until, id="q", until=START + 2)]
    twins.note_round(one.twin, START + 1)
    assert one.twin.fired == {"cool_down": 2} and one.twin.lessons == 1
    assert own.journal.entries == [] and [pause.id for pause in own.pauses] == ["q"]


def test_a_twin_remembers_pools_for_an_hour_and_those_it_holds_or_ordered_longer():
    one = with_twin()
    own, now = one.twin.player, START + 5 * 60 * MINUTE
    own.account.orders[1] = Waiting("D")
    ages = {"A": 60 * MINUTE - 1, "B": 60 * MINUTE, "C": 0, "D": 60 * MINUTE}
    one.twin.memories = {
        f"pool {mint}": Memory(7, replace(quote(0, mint), at=now - age))
        for mint, age in ages.items()
    }
    one.twin.memories["never"] = Memory(7)
    twins.note_round(one.twin, now)
    assert list(one.twin.memories) == ["pool A", "pool C", "pool D"]


def test_a_twin_enters_nothing_that_it_has_or_had_just_now():
    """A cool-down of five minutes; after it, and only then, the token may be entered again."""
    one = with_twin(cooldown_seconds=300, mints=("A",))
    tape, own = Tape([one], "A").play(), one.twin.player
    shown = tape.market.view("A")

    def may(view=shown, late=0):
        return twins.may_enter(own, view, START, START + late)

    assert may() and not may(replace(shown, token=replace(shown.token, decimals=None)))
    # Its snapshot is a ms too old.
    assert may(late=90_000) and not may(late=90_001)
    for name, put in (("put_off", frozenset("A")), ("closes", [done_at(START - 5 * MINUTE + 1)])):
        had = getattr(own, name)
        setattr(own, name, put)
        assert not may()
        setattr(own, name, had)
    for there in (own.account.orders, own.account.positions):
        there["A"] = Waiting("A")
        assert not may()
        there.clear()
    own.closes = [done_at(START - 5 * MINUTE), done_at(START, "B")]
    assert may()


def done_at(at, mint="A"):
    return Close("c", mint, "AA", at - 1, at, "stop", 1, 1, 1)


def test_what_a_sol_costs_is_the_middle_of_what_is_told():
    def cents(*told):
        seen = {
            str(number): CheckedSnapshot(replace(quote(0), sol_cents=one), "told")
            for number, one in enumerate(told)
        }
        return twins.find_sol_cents(seen)

    assert (cents(), cents(None, 0), cents(7), cents(9, 7, 8)) == (None, None, 7, 8)
    # Of an even number the higher one.
    assert cents(7, None, 9) == 9 and cents(4, 1, 3, 2) == 3
    twin = with_twin().twin
    for number, told in enumerate((None, 5, 6, None)):
        twins.note_sol(twin, told, START + number)
    assert (twin.sol_cents_first, twin.sol_cents_last, twin.started_at) == (5, 6, START)


def test_tickets_are_of_purchases_alone_and_due_by_chance():
    """For orders 1 to 3, of which the second is a sale: due so many minutes after their decision
    and void 28 minutes later.
    """
    one = with_twin()
    tape = Tape([one], "A").play(3)
    (order,) = one.journal.orders.values()
    for number, side in ((2, "sell"), (3, "buy")):
        one.journal.orders[number] = replace(order, number=number, side=side, amount=number)
    one.account.next_order, one.twin.tickets, one.twin.next_order = 4, [], 1
    twins.issue_tickets(one.twin, one, MINUTE)
    delays = [
        int.from_bytes(sha256(f"trader-1|random|ticket|{n}|delay".encode()).digest()[:8]) % 15
        for n in (1, 3)
    ]
    due = [order.decided_at + delay * MINUTE for delay in delays]
    assert one.twin.tickets == [
        twins.Ticket(1, order.amount, due[0], due[0] + 28 * MINUTE),
        twins.Ticket(3, 3, due[1], due[1] + 28 * MINUTE),
    ]
    assert one.twin.next_order == 4 and tape.number == 2
    twins.issue_tickets(one.twin, one, MINUTE)
    assert len(one.twin.tickets) == 2


def test_a_sol_one_percent_off_what_was_stored_is_news():
    """Of 200.00 USD 1 % is 2.00; of nothing stored every cent is."""
    twin = replace(with_twin().twin, stored="same", sol_cents_stored=20_000)
    told = {19_800: True, 19_801: False, 20_000: False, 20_199: False, 20_200: True}
    assert {cents: replace(twin, sol_cents_last=cents).is_news("same") for cents in told} == told
    assert replace(twin, sol_cents_last=20_000).is_news("other")
    unpriced = replace(twin, sol_cents_stored=None)
    assert not unpriced.is_news("same") and replace(unpriced, sol_cents_last=1).is_news("same")
