"""The controls: three accounts with random entries, for comparison with a trader."""

from dataclasses import replace

from tape import MINUTE, START, Tape, Told, adds_up, trader

from paper import engine
from paper.account import Account
from paper.player import Leg, Player, Ticket

# Two entries, each left five rounds later.
PLAN = {"enter_at": (2, 20), "leave_at": (60,), "mints": ("A",), "time_stop": 5}
MINTS = "ABCDEFGH"


class Patient(Told):
    """Enters when told; exits by its time stop."""

    def leave(self, view, position):
        return super().leave(view, position) or self.leave_late(view, position)


class Swift(Told):
    """Enters as told and sells half after two rounds, the rest by its time stop; exits anything
    else immediately.
    """

    def leave(self, view, position):
        late = self.leave_late(view, position)
        return late or (None if position.reduced else super().leave(view, position))


def with_twins(ident=1, made=Patient, **settings):
    one = trader(ident, made(**{**PLAN, **settings}))
    names = [engine.name_twin(one.handle, number) for number in (1, 2, 3)]
    one.twins = [Player(ident, name, one.strategy, Account()) for name in names]
    return one


def play(one, rounds=61):
    return Tape([one], MINTS).play(rounds)


def entries(player):
    return [order for order in player.journal.orders.values() if order.side == "buy"]


def closes(player):
    done = [one for one in player.journal.positions.values() if one.closed_at is not None]
    return sorted(done, key=lambda one: one.number)


def test_a_twin_buys_the_same_amounts_at_its_own_random_times():
    one = with_twins()
    play(one)
    ordered, moments = entries(one), set()
    for twin in one.twins:
        drawn = entries(twin)
        assert [order.amount for order in drawn] == [order.amount for order in ordered]
        for real, random in zip(ordered, drawn, strict=True):
            assert 0 <= random.decided_at - real.decided_at <= 16 * MINUTE
        assert all(order.state == "filled" for order in drawn) and adds_up(twin)
        moments.add(tuple(order.decided_at for order in drawn))
    assert len(moments) == 3


def test_a_twin_holds_as_long_as_its_trader_and_sells_the_same_parts():
    one = with_twins(made=Swift, leave_at=(4, 22), share=5_000)
    play(one, 90)
    held = [done.closed_at - done.opened_at for done in closes(one)]
    assert len(held) == 2
    for twin in one.twins:
        assert [done.closed_at - done.opened_at for done in closes(twin)] == held
        sold = [fill.raw for fill, _ in twin.journal.fills if fill.side == "sell"]
        assert len(sold) == 4 and abs(sold[0] - sold[1]) <= sold[0] // 1_000


def test_tokens_and_times_vary_by_trader_and_all_occur():
    """In 40 traders' 240 entries in eight tokens, each token is drawn, and the mean delay of 0 to
    14 rounds is 7, within 3 x 4.3 / sqrt(240).
    """
    delays, drawn = [], set()
    for ident in range(1, 41):
        one = with_twins(ident)
        play(one, 40)
        for twin in one.twins:
            drawn |= {order.mint for order in entries(twin)}
            delays += [engine.draw_delay(twin.handle, n) for n in (1, 2)]
    assert drawn == set(MINTS)
    assert abs(sum(delays) / len(delays) - 7) < 3 * 4.33 / 240**0.5
    assert set(delays) == set(range(15))


def test_a_twin_affects_nobody_and_does_the_same_again():
    alone, beside, again = with_twins(), with_twins(), with_twins()
    alone.twins = []
    for one in (alone, beside, again):
        play(one)
    for first, second in zip(beside.twins, again.twins, strict=True):
        assert first.journal == second.journal and first.tickets == second.tickets
    beside.journal.followed = alone.journal.followed
    assert alone.journal == beside.journal and alone.account.cash == beside.account.cash


def test_a_ticket_without_a_token_expires():
    """All tokens except the trader's own are below the liquidity floor."""
    one = with_twins(enter_at=(2,))
    tape = Tape([one], "A")
    tape.play(4)
    assert [len(twin.tickets) for twin in one.twins] == [1, 1, 1]
    tape.play(60, A={"liquidity": "200"})
    assert all(twin.tickets == [] and closes(twin) == [] for twin in one.twins)


def test_a_ticket_of_an_unfilled_order_is_used_again():
    one = with_twins().twins[0]
    ticket = Ticket(1, 10**9, START, START + 60 * MINUTE, mint="A", ordered_at=START)
    assert engine.has_missed(one, ticket)
    assert not engine.is_over(one, ticket, START + 60 * MINUTE)
    assert engine.is_over(one, ticket, START + 60 * MINUTE + 1)
    assert not engine.has_missed(one, replace(ticket, mint=None))


def test_a_written_off_position_exits_as_by_a_stop():
    """A twin's own token still exists."""
    one = with_twins(enter_at=(2,), time_stop=90)
    tape = Tape([one], MINTS)
    tape.play(8)
    tape.play(1, A={"liquidity": "0", "pool": "0"})
    assert closes(one)[0].reason == "liquidity_gone"
    legs = [ticket.legs for twin in one.twins for ticket in twin.tickets]
    assert legs and all(leg == (Leg(5 * MINUTE, 10_000, "stop"),) for leg in legs)
