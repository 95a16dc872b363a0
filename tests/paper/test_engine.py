"""The engine: what a round does with orders and positions. Tests each rule of the fill model that
spans rounds.
"""

import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from tape import (
    DAY,
    MINUTE,
    START,
    Tape,
    Told,
    adds_up,
    fills,
    network_fees,
    number_of,
    quote,
    said,
    token,
    told,
    trader,
    why_excluded,
)

from chain.amounts import exact, sol
from paper import engine, rules
from paper.account import STARTING_CASH, Account
from paper.engine import Market
from paper.fills import RENT, Order
from paper.market import Flow, View, percent
from paper.player import DiaryLine, FaultKey, Faults, ReviewReason, refuse
from paper.rules import Phase
from paper.strategies import FAMILIES, Exit, Refusal

SOL, HOUR = 10**9, 3_600_000
# Depth unknown: one SOL moves per snapshot.
BLIND = {"pool": None, "liquidity": None}


GONE = {"price": "0.00007", "pool": "0", "liquidity": "0"}
ABSURD = {"price": "1"}


def fallen(second):
    """A hundredth of the price, and a second provider's price."""
    check = {"before": "0.001", "price_sol": second, "problem": None}
    return {"price": "0.00001", "fall_check": json.dumps(check)}


# ---- stories -------------------------------------------------------------------------------------
QUOTES = {
    "none": None,
    "blind": BLIND,
    "same": {"volume": "50000"},
    "louder": {"volume": "50001"},
    "gone": GONE,
    "absurd": ABSURD,
    "absurd-and-gone": {**GONE, "price": "900000"},
    "zero": {"price": "0", "pool": None},
    "first": {"pair": "first"},
    "emptied": {"pair": "first", "pool": "0", "liquidity": "0"},
    "other": {"pair": "second"},
    # Another pair with a thirtieth of the liquidity.
    "shallow": {"pair": "second", "pool": "30", "liquidity": "9000"},
    "low": {"price": "0.0000101"},
    "fallen": fallen(None),
    "confirmed": fallen("0.000011"),
    "denied": fallen("0.001"),
    # Exactly a twentieth, not below it.
    "bound": fallen("0.00005"),
    "nonsense": fallen("0"),
}
# A trader's settings | rounds: so many usual ones, or A's quote in one | what happened. An order:
# its round, side, state and the rounds of its fills.
STORIES = """
An order fills on the first snapshot at or after its latency of 60 s, and up to 3 minutes later:
latency_ms=60000 | 3 | 0 buy filled 1, held
latency_ms=60001 | 3 | 0 buy filled 2, held
latency_ms=60000 | 1 none none none 1 | 0 buy filled 4, held
latency_ms=59999 | 1 none none none 1 | 0 buy expired
A quote as at the decision isn't a later one, however late:
quiet=same | 3 | 0 buy open
quiet=same | 3 louder | 0 buy filled 3, held
A purchase is refused without liquidity, or in another pair:
quiet=first | 1 emptied | 0 buy refused, refused: liquidity_gone
quiet=first | 1 other | 0 buy refused, refused: pair_changed
Of an unknown depth, one SOL is filled per snapshot. The rest waits, and expires:
quiet=blind size_bps=2500 | 6 | 0 buy filled 1 2 3, held (liquidity_unknown)
quiet=blind size_bps=2500 | 3 none none none | 0 buy part_filled 1 2, held (liquidity_unknown)
Gone liquidity closes a position at once, before absurd prices and pending sales:
| 3 gone | 0 buy filled 1, 3 sell filled 3, closed: liquidity_gone
leave=3 | 4 absurd-and-gone | 0 buy filled 1, 3 sell cancelled, 4 sell filled 4, \
closed: liquidity_gone
Only an eligible close is progress in Guarded Start:
phase=guarded leave=3 | 6 | 0 buy filled 1, 3 sell filled 4, closed: told, progress: 1
phase=guarded leave=3 quiet=blind | 6 | 0 buy filled 1, 3 sell filled 4, \
closed: told (liquidity_unknown), progress: 0
A fall counts at once if a second provider confirms it, otherwise with the next snapshot:
leave=3 | 3 confirmed low | 0 buy filled 1, 3 sell filled 4, closed: told
leave=3 | 3 fallen low | 0 buy filled 1, held
leave=3 | 3 denied low | 0 buy filled 1, held
leave=3 | 3 bound low | 0 buy filled 1, held
leave=3 | 3 nonsense low | 0 buy filled 1, held
leave=4 | 3 fallen low low | 0 buy filled 1, 4 sell filled 5, closed: told
It is reviewed if the next snapshot denies it. A limited sale waits for it, and fails:
| 3 denied 1 | 0 buy filled 1, held (under_review), reviewed: price_jump:position 1:21
leave=2 | 3 confirmed | 0 buy filled 1, 2 sell failed 3, held
leave=2 | 3 fallen low | 0 buy filled 1, 2 sell failed 4, held
In another pair, nothing is gone:
quiet=first leave=4 | 3 shallow shallow shallow | 0 buy filled 1, 4 sell filled 5, closed: told
A position or an order is reviewed once, for both directions. A trader without any isn't:
enter=9 | 4 absurd |
enter=3 | 4 absurd | 3 buy refused, refused: price_jump, reviewed: price_jump:order 1:1
leave=3 | 4 absurd 2 | 0 buy filled 1, 3 sell refused, held (under_review), refused: price_jump, \
reviewed: price_jump:position 1:31 up
A closed token has a cool-down of three minutes:
enter=0,4,5,6 leave=2 cooldown_seconds=180 | 8 | 0 buy filled 1, 2 sell filled 3, 6 buy filled 7, \
closed: told, held, refused: cooldown
A price of 0 excludes its position, and no other:
enter=0,9 leave=12 mints=A,B | 3 zero 30 | 0 buy B filled 1, 0 buy filled 1, 12 sell B filled 13, \
12 sell filled 13, B closed: told, closed: told (non_positive_price)
"""


def read_setting(text):
    name, _, value = text.partition("=")
    if name == "phase":
        return name, value
    if name == "mints":
        return name, tuple(value.split(","))
    if name in ("enter", "leave"):
        return name, tuple(map(int, value.split(",")))
    return name, QUOTES[value] if name == "quiet" else int(value)


def outcome(one):
    lines = []
    for order in one.journal.orders.values():
        minutes = [(fill.at - START) // MINUTE for fill in fills(one) if fill.order == order.number]
        begun, mint = (order.decided_at - START) // MINUTE, order.mint.replace("A", "")
        lines.append((begun, order.side, mint, order.state, *minutes))
    for position in one.journal.positions.values():
        end, why = "held", why_excluded(one, position)
        if position.closed_at:
            end = f"closed: {position.reason}"
        lines.append((position.mint.replace("A", ""), end, f"({why})" if why else ""))
    lines += [("refused:", facts["reason"]) for facts in said(one, "refusal")]
    lines += [("reviewed:", reason.key) for reason in one.journal.review_reasons]
    if one.phase.name == "guarded":
        lines.append(("progress:", one.phase.closes))
    return ", ".join(" ".join(str(word) for word in line if word != "") for line in lines)


@pytest.mark.parametrize("row", [row for row in STORIES.split("\n") if "|" in row])
def test_a_story_has_its_outcome(row):
    """The market quotes A and B. Unless told otherwise, the trader buys A in round 0."""
    about, script, expected = (part.strip() for part in row.split("|"))
    settings = {"enter": (0,), "mints": ("A",), **dict(map(read_setting, about.split()))}
    quiet = settings.pop("quiet", {})
    one = told(*settings.pop("enter"), **settings)
    tape = Tape([one], mints="AB", quiet=quiet)
    for word in script.split():
        if word.isdigit():
            tape.play(int(word))
        else:
            tape.play(A=QUOTES[word])
    assert outcome(one) == expected and adds_up(one)


# ---- when orders fill ----------------------------------------------------------------------------
@pytest.mark.parametrize("filled, state", [(0, "failed"), (1, "part_filled")])
def test_an_order_has_eight_attempts_and_keeps_what_was_filled(monkeypatch, filled, state):
    """Ten minutes between passes, so that it doesn't expire. Of 2.5 SOL, one is filled at once."""
    monkeypatch.setattr("paper.fills.is_failing", lambda order: order.attempts >= filled)
    one = told(0, size_bps=2_500)
    Tape([one], market=Market(10 * MINUTE, [token()]), quiet=BLIND).play(14)
    assert [fill.failed for fill in fills(one)] == [False] * filled + [True] * (8 - filled)
    assert one.journal.orders[1].state == state and not one.account.orders
    assert len(said(one, "fill", "not_filled")) == 1 - filled
    # The position pays for all attempts. Without one, they are lost.
    assert adds_up(one) and one.account.lost_fees == (0 if filled else network_fees(one))


# ---- costs and the pool --------------------------------------------------------------------------
def test_a_round_trip_has_its_stated_cost():
    """Until it is sold, a position is worth what its pool would pay: less than two fees and the
    price impact. Half of it is sold first.
    """
    one = told(0, leave=(3, 6), share=5_000)
    tape = Tape([one]).play(3)
    held = one.account.positions["A"]
    assert one.account.equity == one.account.cash + held.worth
    assert SOL * 9_930 // 10_000 < held.worth < SOL * 9_955 // 10_000
    tape.play(3)
    one.strategy = replace(one.strategy, share=10_000)
    tape.play(4)
    position, (first, second, last) = one.journal.positions[1], fills(one)
    # The purchase's cost and network fee, without rent and the sales' fees.
    spent = SOL + first.network_fee
    assert (position.spent, position.closed_at) == (spent, START + 7 * MINUTE)
    assert position.cash < position.gross == position.mid_sold - position.mid_bought
    assert (first.rent, second.rent, last.rent) == (RENT, 0, -RENT) and adds_up(one)
    bought, reduced, closed = said(one, "fill")
    assert bought == {
        **{"what": "bought", "side": "buy", "symbol": "AA", "reason": "told", "sol": "1"},
        **{"amount": exact(first.raw, 6), "slippageSol": sol(first.slippage), "marks": []},
        "feesSol": sol(first.pool_fee + first.network_fee),
        # The reason, the stop below the entry, and 1 of 10 SOL.
        **{"detail": "told to", "stopPct": "10", "sharePct": "10"},
    }
    assert (reduced["what"], reduced["amount"]) == ("reduced", exact(first.raw // 2, 6))
    assert reduced["sol"] == sol(second.mid - second.slippage - second.pool_fee)
    assert (closed["what"], closed["returnPct"]) == ("closed", percent(position.cash, spent))
    assert closed["resultSol"].startswith("-0.0")


def test_liquidity_is_never_used_twice():
    """A pool of 50 SOL and 50,000 tokens: later traders find it as the others left it. Earlier
    decisions, then older traders come first. The third would pay 7.5% more than quoted.
    """
    traders = [told(0, ident=number) for number in (1, 2, 3)]
    Tape(traders, quiet={"pool": "50", "liquidity": "15000"}).play(2)
    bought = [fills(one)[0].raw for one in traders]
    # 1 SOL each, 0.25 % less.
    sides = [Fraction(2_500_000) / (50 + n * Fraction(9975, 10_000)) for n in range(3)]
    expected = [(before - after) * 10**6 for before, after in pairwise(sides)]
    assert all(0 <= exact - got < 3 for exact, got in zip(expected, bought, strict=False))
    assert bought[2] == 0 and said(traders[2], "fill", "slipped")


# ---- without a price -----------------------------------------------------------------------------
def lost(one, reason, minute):
    """Check that all of position 1 was lost in this round: it counts, and needs no review."""
    position = one.journal.positions[1]
    assert (position.reason, position.closed_at) == (reason, START + minute * MINUTE)
    # Everything, and the closing fee.
    assert position.cash == -SOL - network_fees(one) and adds_up(one)
    assert why_excluded(one, position) is None and not one.journal.review_reasons
    return not one.account.positions


def alternate(number):
    """Two pools alternate as the most liquid, with a tenth of the price difference."""
    pair = "first" if number % 2 else "second"
    return {"price": "0.0001", "pool": "100", "liquidity": "30000", "pair": pair}


@pytest.mark.parametrize(
    "quoted, mark",
    [
        (lambda number: None, "missing_snapshot"),
        (lambda number: {"price": None}, "missing_price"),
        (lambda number: {"price": None, "pool": None}, "missing_price"),
        (lambda number: {"price": "0", "pool": None}, "non_positive_price"),
        (lambda number: {"price": "NaN"}, "non_positive_price"),
        (alternate, "missing_price"),
    ],
    ids=["vanished", "no price", "neither price nor pool", "zero", "NaN", "changing pairs"],
)
def test_a_token_without_a_usable_price_is_doubted_and_lost_after_a_day(quoted, mark):
    """Its mark is from round 2: rounds 3 to 5 are the three intervals, round 6 doubts it, round
    1442 is a day after the mark, 1443 is later.
    """
    one = told(0, mints=("A",))
    tape = Tape([one], mints="AB", quiet={"pair": "first"}).play(3)
    for _ in range(4):
        held = one.account.positions["A"]
        assert not {"missing_snapshot", "missing_price"} & set(held.marks)
        tape.play(A=quoted(tape.number))
    doubted = one.account.positions["A"]
    assert mark in doubted.marks and doubted == one.journal.positions[1]
    assert why_excluded(one, doubted) in doubted.marks
    while tape.number < 1443:
        # Up to three minutes without any snapshot don't count as silence.
        tape.skip(2 if tape.number < 1440 else 0).play(A=quoted(tape.number))
    assert lost(one, "price_gone", 1443)
    assert "stale_price" not in one.journal.positions[1].marks


def test_times_without_any_snapshots_are_not_gaps():
    """The scout was silent for two days; the first round afterwards has one of the two tokens. The
    mark is from round 2: a day in which others were quoted ends 1440 rounds after the silence.
    """
    one = told(0, mints=("A",))
    tape = Tape([one], mints="AB").play(3).skip(2 * 1440).play(4, A=None)
    # Three intervals to be quoted again.
    assert one.account.positions["A"].marks == ()
    tape.play(1, A=None)
    assert one.account.positions["A"].marks == ("missing_snapshot",)
    tape.play(1440 - 4, A=None)
    assert one.account.positions
    tape.play(1, A=None)
    assert lost(one, "price_gone", tape.number)


def test_a_future_snapshot_closes_nothing():
    one = told(0, mints=("A",))
    tape = Tape([one], mints="AB").play(3)
    engine.play(tape.market, [one], [quote(3, "B", at=START + 10 * DAY)], tape.now)
    assert one.account.positions and not one.journal.review_reasons


# ---- prices that are not believable --------------------------------------------------------------
def test_an_absurd_jump_affects_no_later_snapshot():
    """The position isn't marked at it, and it isn't in the window."""
    one = told(0)
    tape = Tape([one]).play(4).play(A=ABSURD)
    held = one.account.positions["A"]
    assert held.price == held.high and one.account.equity < STARTING_CASH
    window = tape.play(2).market.windows["A"]
    assert len({snapshot.price for snapshot in window}) == 1
    assert [number_of(snapshot) for snapshot in window] == [0, 1, 2, 3, 6]


@pytest.mark.parametrize(
    "changes, flaw, time, compared, kept, served",
    [
        ({"price": "0.0011"}, None, True, True, [1, 2], True),
        # The same quote is returned again.
        ({"volume": "50000.00"}, None, True, True, [1, 2], False),
        ({"price": "0.03"}, "price_jump", True, True, [1], True),
        ({"price": "0.00001"}, "price_fall", True, True, [1], True),
        ({"pair": "Q"}, "pair_changed", True, True, [], True),
        ({"price": None}, "missing_price", True, False, [1], False),
        ({"price": "0"}, "non_positive_price", True, False, [1], False),
        ({"at": START - 1}, "clock_skew", False, False, [1], False),
    ],
)
def test_a_snapshots_flaw_decides_its_effect(changes, flaw, time, compared, kept, served):
    """Whether it advances time, is compared with the next, enters the window, and counts as a new
    quote.
    """
    market = Market(MINUTE, [token("A")])
    first, then = quote(0, pair="P"), quote(1, **{"pair": "P", **changes})
    market.push(first, START)
    assert market.push(then, START + DAY) == (then, flaw)
    assert market.newest_at == (then.at if time else START)
    assert market.before == {"A": then if compared else first}
    window = [one.id for one in market.windows.get("A", ())]
    assert window == [(first, then)[place - 1].id for place in kept]
    assert market.quoted_at == {"A": then.at if served else START}


# ---- Guarded Start -------------------------------------------------------------------------------
def test_guarded_start_stops_for_the_day_after_a_loss():
    one = told(0, 5, 1440, phase="guarded", mints=("A", "B"), size_bps=2500)
    tape = Tape([one], mints="AB").play(2).play(A=GONE, B=GONE).play(3)
    assert one.account.cash < STARTING_CASH * 95 // 100
    detail = "the daily loss stop of Guarded Start"
    assert said(one, "refusal")[-1] == {"reason": "daily_loss", "detail": detail, "symbol": "BB"}
    # The next UTC day.
    tape.skip(1440 - 6).play(2)
    assert len(fills(one)) == 6


def test_a_clock_set_back_over_midnight_starts_no_new_day():
    """A day's first ms, the one before it again, and the day's last: that is two days, and the
    second day's first equity stays.
    """
    one, midnight = trader(phase="guarded"), (START // DAY + 5) * DAY
    for cash, at in ((10, -60_000), (9, 0), (8, -1), (7, DAY - 1)):
        one.account.cash = cash * SOL
        engine.run_heartbeat(one, midnight + at)
    assert one.phase == Phase("guarded", START, 0, 2, midnight // DAY)
    assert (one.account.day, one.account.day_equity) == (midnight // DAY, 9 * SOL)
    # Two days back: the clock was wrong, and that day counts.
    engine.run_heartbeat(one, midnight - 2 * DAY)
    assert one.phase.days == 3
    assert (one.account.day, one.account.day_equity) == (midnight // DAY - 2, 7 * SOL)


def pause(effect, mint=None, until=START + 1, applied=True):
    return rules.Pause("p", "rule", effect, mint, START - 9, until, applied, 8, DAY, "")


# ---- cash ----------------------------------------------------------------------------------------
def test_cash_covers_the_worst_case_of_open_orders():
    """Ten positions at once with 10 SOL, each with rent and eight attempts of 5,000,000 lamports:
    0.02 SOL remain whatever fails.
    """
    mints = "ABCDEFGHIJ"
    one = told(0, size_bps=2_500, max_positions=10, mints=tuple(mints))
    tape = Tape([one], mints=mints).play()
    wanted = [order.amount for order in one.account.orders.values()]
    # 3 of 2.5 SOL; the fourth gets the rest.
    worst = sum(wanted) + 4 * (RENT + 8 * 5_000_000)
    assert len(wanted) == 4
    assert STARTING_CASH - worst == one.account.free_cash == 20_000_000
    tape.play(2)
    assert one.account.cash == STARTING_CASH - sum(wanted) - 4 * RENT - network_fees(one)
    # No orders are pending.
    assert one.account.free_cash == one.account.cash and adds_up(one)


def account_of(cash):
    return Account(cash, cash, peak=cash, day_equity=cash)


@pytest.mark.parametrize(
    "changes, quiet, amount",
    [
        ({}, {}, SOL),
        # At most a fiftieth of the pool.
        ({}, {"pool": "20", "liquidity": "6000"}, 400_000_000),
        ({"phase": Phase("guarded")}, {}, SOL // 4),
        ({"pauses": [pause("half_size", "A")]}, {}, SOL // 2),
        ({"pauses": [pause("half_size", "B")]}, {}, SOL),
        ({"pauses": [pause("half_size", until=START)]}, {}, SOL),
        ({"pauses": [pause("half_size", applied=False)]}, {}, SOL),
        ({"pauses": [pause("half_size")], "phase": Phase("guarded")}, {}, SOL // 8),
        # At least a hundredth of a SOL.
        ({"account": account_of(10**8)}, {}, 10_000_000),
        ({"account": account_of(10**8 - 1)}, {}, None),
    ],
)
def test_an_entry_is_a_tenth_of_the_cash_within_limits(changes, quiet, amount):
    one = replace(told(0), **changes)
    Tape([one], quiet=quiet).play()
    assert [order.amount for order in one.account.orders.values()] == [amount] * bool(amount)
    refused = {"reason": "no_cash", "detail": "not enough cash for an entry", "symbol": "AA"}
    assert said(one, "refusal") == ([] if amount else [refused])


@pytest.mark.parametrize("spare, state", [(0, "filled"), (-1, "refused")])
def test_a_cost_equal_to_the_cash_fills_and_one_lamport_more_is_refused(monkeypatch, spare, state):
    """A purchase of 1 SOL, 55,000 lamports for the network, and rent."""
    monkeypatch.setattr("paper.fills.draw_network_fee", lambda order, costs: 55_000)
    one, cost = told(0), SOL + 55_000 + RENT
    tape = Tape([one]).play()
    one.account.cash = cost + spare
    tape.play()
    assert one.journal.orders[1].state == state
    assert one.account.cash == (0 if state == "filled" else cost - 1)
    reason = {"reason": "no_cash_for_fees", "detail": "the fill was refused: no cash for fees"}
    assert said(one, "refusal") == ([] if state == "filled" else [{**reason, "symbol": "AA"}])


@pytest.mark.parametrize("cash, orders", [(25_000, 2), (24_999, 1)])
def test_an_account_without_the_median_fee_says_so_hourly_and_sells_nothing(cash, orders):
    """The cheaper half of all swaps pays at most 25,000 lamports."""
    one = told(0, leave=tuple(range(3, 70)))
    tape = Tape([one]).play(3)
    one.account.cash = cash
    tape.play(1 if orders == 2 else 65)
    detail = "not enough cash for the network fee, so it can't be sold"
    refusal = {"reason": "no_cash_for_fees", "detail": detail, "symbol": "AA"}
    assert said(one, "refusal") == ([] if orders == 2 else [refusal] * 2)
    assert len(one.journal.orders) == orders


# ---- limits, refusals, pauses --------------------------------------------------------------------
FULL = ("position_limit", "2 positions are open already")
PAUSED = ("paused", "entries are paused for now")


@pytest.mark.parametrize(
    "changes, refusal",
    [
        ({}, None),
        ({"pauses": [pause("pause_family")]}, PAUSED),
        ({"pauses": [pause("pause_mint", "A")]}, PAUSED),
        ({"pauses": [pause("pause_mint", "B"), pause("half_size")]}, None),
        ({"phase": Phase("guarded")}, FULL),
        ({"strategy": Told(max_positions=2)}, FULL),
        ({"strategy": Told(max_positions=3)}, None),
    ],
)
def test_pauses_and_positions_limit_entries(changes, refusal):
    """It has pending orders for two other tokens."""
    one = told(0, mints=("B", "C"))
    Tape([one], mints="BC").play()
    found = engine.find_limit(replace(one, **changes), token("A"), START)
    assert found == (refusal and Refusal(*refusal))


def test_a_refusal_concerns_its_token_or_the_account():
    """Two tokens without decimals are both refused; without cash, only the first is."""
    one, other = told(0), told(0)
    other.account.cash = 1
    unread = [replace(token(mint), decimals=None) for mint in "AB"]
    Tape([one], mints="AB", market=Market(MINUTE, unread)).play()
    Tape([other], mints="AB").play()
    unread = {"reason": "decimals_unknown", "detail": "its mint account hasn't been read yet"}
    refused = {facts["symbol"]: facts for facts in said(one, "refusal")}
    assert refused == {symbol: {**unread, "symbol": symbol} for symbol in ("AA", "BB")}
    assert [facts["reason"] for facts in said(other, "refusal")] == ["no_cash"]


def test_ten_different_refusals_are_noted_per_hour():
    """One a minute from START on: the eleventh and twelfth aren't noted; an hour after the first
    there is room for one, but not a ms earlier.
    """
    one, thin = told(), Refusal("thin", "told")
    for number in range(12):
        refuse(one, token(f"M{number}"), thin, START + number * MINUTE)
    assert [line.mint for line in one.journal.entries] == [f"M{number}" for number in range(10)]
    for at, lines in ((START + HOUR - 1, 10), (START + HOUR, 11), (START + HOUR, 11)):
        refuse(one, token("M0"), thin, at)
        assert len(one.journal.entries) == lines
    facts = {"reason": "thin", "detail": "told", "symbol": "M0M0"}
    assert one.journal.entries[-1] == DiaryLine("refusal", START + HOUR, facts, "M0")
    assert len(one.refused) == 10 and one.refused["thin", "M0"] == START + HOUR


def test_review_reasons_are_recorded_once_each():
    one = told()
    more = {"detail": "told", "at": START, "symbol": "AA"}
    for code, subject, about, reasons in (
        ("price_jump", 7, "position 1", 1),
        ("price_jump", 7, "position 1", 1),
        # The same topic again while the review is open; another position, another code.
        ("price_jump", 8, "position 1", 1),
        ("price_jump", 8, "position 2", 2),
        ("stale_snapshot", 8, None, 3),
        ("stale_snapshot", 9, None, 4),
        ("stale_snapshot", 9, None, 4),
    ):
        one.open_review(code, subject, about=about, **more)
        assert len(one.journal.review_reasons) == reasons == len(one.journal.entries)
    one.reviewed = False
    one.open_review("price_jump", 9, about="position 1", **more)
    *_, third, fourth, reason = one.journal.review_reasons
    assert one.reviewed and (third.key, fourth.key) == ("stale_snapshot:8", "stale_snapshot:9")
    assert reason == ReviewReason("price_jump:position 1:9", "price_jump", "told", START, "AA")
    facts = {"what": "under_review", "code": "price_jump", "detail": "told", "symbol": "AA"}
    assert one.journal.entries[-1] == DiaryLine("review", START, facts)


# ---- what strategies see -------------------------------------------------------------------------
def test_a_window_counts_intervals_whatever_lies_between():
    """One minute each: a snapshot less than 45 s after the previous one is replaced by the next."""
    market = Market(MINUTE, [token()])
    for at, kept in (
        (0, [0]),
        (44_999, [0, 44_999]),
        (60_000, [0, 60_000]),
        (105_000, [0, 60_000, 105_000]),
        (150_000, [0, 60_000, 105_000, 150_000]),
        (165_000, [0, 60_000, 105_000, 150_000, 165_000]),
        (170_000, [0, 60_000, 105_000, 150_000, 170_000]),
    ):
        market.push(quote(at // 1_000, at=START + at), START + at)
        assert [one.at - START for one in market.windows["A"]] == kept


@pytest.mark.parametrize("interval, patience", [(1_000, 60_000), (MINUTE, 3 * MINUTE)])
def test_tokens_count_as_active_since_the_last_global_pause(interval, patience):
    """Pauses of a minute, or of three intervals if these are longer, don't count."""
    market, pause = Market(interval, [token("A"), token("B")]), 2 * patience + 1
    for number, (at, awake_since, newest_at) in enumerate(
        (
            (0, 0, 0),
            (patience, 0, patience),
            (pause, pause, pause),
            (patience, pause, pause),
            (pause + 1, pause, pause + 1),
        )
    ):
        market.push(quote(at, "AB"[number % 2], at=START + at), START + DAY)
        assert (market.awake_since - START, market.newest_at - START) == (awake_since, newest_at)
    assert market.patience_ms == 3 * interval and market.horizon_ms == 28 * interval
    assert market.silences == [(START + patience, START + pause)]
    # Two milliseconds before it, and one after.
    assert market.count_awake_ms(START + patience - 2, START + pause + 1) == 3
    assert market.count_awake_ms(START + patience + 5, START + pause - 5) == 0


def test_strategies_see_what_the_snapshot_shows():
    """Flows up to then that were seen with it or earlier."""
    snapshot = quote(3)
    flows = tuple(
        Flow(1, "w", "buy", snapshot.at + later, snapshot.id + seen)
        for later, seen in ((0, 0), (1, 0), (0, 1), (-1, -1))
    )
    market = Market(MINUTE, [token("A"), token("B")], {"A": flows})
    for mint in "AB":
        market.push(quote(3, mint), snapshot.at)
    assert market.view("A") == View(token("A"), (snapshot,), (flows[0], flows[3]))
    assert market.view("B").flows == ()
    market.follow([token("B")], {})
    assert list(market.windows) == ["B"] == list(market.before) == list(market.tokens)


def test_a_token_missing_from_the_market_is_not_traded():
    market, faults = Market(MINUTE, [token("A")]), Faults()
    seen = engine.check_snapshots(market, [quote(0, "Z"), quote(0, "A")], START, faults)
    assert list(seen) == ["A"] and faults.found == {}


# ---- what is written down ------------------------------------------------------------------------
def test_orders_and_decisions_are_complete():
    """1 SOL buys 996,505,985 raw units of a million tokens against 1,000 SOL, as in test_measured;
    95% of that is required. Gone liquidity is sold at once, at any price.
    """
    one = told(0, leave=(3,))
    tape = Tape([one]).play(4)
    about = {"handle": "trader-1", "mint": "A", "symbol": "AA", "decimals": 6, "transfer_bps": 0}
    line = {"symbol": "AA", "reason": "told"}

    def times(at, latency=6_000, patience=3 * MINUTE):
        due = at + latency
        return {"decided_at": at, "due_at": due, "expires_at": due + patience}

    assert one.journal.orders[1] == Order(
        **{**about, "number": 1, "side": "buy", "amount": SOL, "reason": "told"},
        **{"decided_on": 1, **times(START), "least": 996_505_985 * 95 // 100},
        **{"done": SOL, "attempts": 1, "state": "filled", "detail": "told to"},
    )
    raw, at = one.account.positions["A"].raw, START + 3 * MINUTE
    (sold,) = one.account.orders.values()
    assert replace(sold, least=0) == Order(
        **{**about, "number": 2, "side": "sell", "amount": raw, "reason": "told"},
        **{"decided_on": 31, **times(at)},
    )
    # Minus 5%: 1 SOL minus a quarter percent twice if its own purchase still moves the pool;
    # otherwise 1,000 SOL * raw / (10**12 + raw) minus a quarter percent.
    most, rest = SOL * 9_975**2 // 10**8, 1_000 * SOL * raw // (10**12 + raw) * 9_975 // 10_000
    assert rest * 95 // 100 < sold.least < most * 95 // 100
    bought = {"what": "buy", **line, "detail": "told to", "sol": "1"}
    selling = {"what": "sell", **line, "detail": "told", "amount": exact(raw, 6)}
    decisions = [entry for entry in one.journal.entries if entry.kind == "decision"]
    assert decisions == [
        DiaryLine("decision", START, bought, "A", 1),
        DiaryLine("decision", at, selling, "A", 2),
    ]
    tape.play(A=GONE)
    at += MINUTE
    assert one.journal.orders[2].state == "cancelled"
    (line,) = [entry for entry in one.journal.entries if entry.facts["what"] == "not_filled"]
    facts = {"what": "not_filled", "side": "sell", "symbol": "AA", "why": "cancelled"}
    assert line == DiaryLine("fill", at, facts, "A", 2)
    assert one.journal.orders[3] == Order(
        **{**about, "number": 3, "side": "sell", "amount": raw, "reason": "liquidity_gone"},
        **{"decided_on": 41, **times(at, 0, 0), "done": raw, "attempts": 1, "state": "filled"},
    )


# ---- exits ---------------------------------------------------------------------------------------
class Worried(Told):
    """Wants to exit in round 4, and has a stop from round 5 on."""

    def leave(self, view, position):
        reasons = {4: "told", 5: "stop", 6: "stop"}
        reason = reasons.get(number_of(view.last))
        return Exit(reason) if reason else None


def test_a_stop_replaces_a_limited_sale_but_no_other_stop():
    one = trader(1, Worried(enter_at=(0,), latency_ms=60_000 * 5 // 2))
    Tape([one]).play(8)
    _, limited, stop = one.journal.orders.values()
    assert [(sale.reason, sale.state) for sale in (limited, stop)] == [
        *(("told", "cancelled"), ("stop", "open"))
    ]
    assert limited.least > 0 == stop.least


def test_a_pause_never_stops_an_exit():
    one = told(0, leave=(3,))
    tape = Tape([one]).play(3)
    one.pauses = [pause("pause_family", until=START + DAY)]
    tape.play(3)
    assert one.journal.positions[1].reason == "told"


# ---- what must not happen ------------------------------------------------------------------------
def test_each_doubt_opens_one_review_that_describes_it():
    """Bought in round 1 and marked in round 2, whose snapshot has number 21."""
    jumped, skewed, changed, doubled = told(0), told(0), told(0), told(0, leave=(3,))
    Tape([jumped]).play(3).play(A=ABSURD)
    Tape([skewed]).play(3).play(A={"at": START})
    Tape([changed]).play(3)
    changed.account.starting_cash = 1
    for _ in range(2):
        engine.check_account(changed, START + 2 * MINUTE)
    tape = Tape([doubled]).play(4)
    doubled.account.positions.clear()
    tape.play()
    limit, clock = "the limit between adjacent snapshots", "the clock or an adjacent snapshot"
    cash, sale = "the starting cash has changed", "a sale was due for a position that was closed"
    for one, key, detail, minute, symbol in (
        (jumped, "price_jump:position 1:21 up", f"the price moved more than {limit}", 3, "AA"),
        (skewed, "clock_skew:position 1:21", f"a snapshot's time contradicts {clock}", 0, "AA"),
        (changed, f"starting_cash_changed:{10 * SOL}", cash, 2, None),
        (doubled, "double_exit:2", sale, 4, "AA"),
    ):
        about = key, key.split(":")[0], detail, START + minute * MINUTE, symbol
        assert one.journal.review_reasons == [ReviewReason(*about)]
    # Nothing was sold.
    assert len(fills(doubled)) == 1 and doubled.journal.orders[2].state == "refused"
    refusal = {"reason": "double_exit", "detail": "the fill was refused: double exit"}
    assert said(doubled, "refusal") == [{**refusal, "symbol": "AA"}]
    told_as = {"what": "not_filled", "side": "sell", "symbol": "AA", "why": "refused"}
    assert said(doubled, "fill", "not_filled")[-1] == told_as


@pytest.mark.parametrize("broken", ["expire_orders", "leave", "check_drawdown", "push"])
def test_errors_are_assigned_to_the_trader_or_the_token(monkeypatch, broken):
    """One of two traders fails, or one of two tokens; the others continue."""
    first, second = told(0, ident=1), told(0, ident=2)
    market = Market(MINUTE, [token("A"), token("B")])
    place = market if broken == "push" else engine
    work = getattr(place, broken)

    def fail(about, *rest):
        if about is first or getattr(about, "mint", None) == "A":
            raise ArithmeticError("as told")
        return work(about, *rest)

    monkeypatch.setattr(place, broken, fail)
    faults, snapshots = Faults(), [quote(0, "A"), quote(0, "B")]
    engine.play(market, [first, second], snapshots, START, faults)
    (key,) = faults.found
    assert key == (FaultKey(None, "A") if broken == "push" else FaultKey(1, None))
    assert second.account.orders
    working = faults.skip_faulty([first, second])
    assert working == ([first, second] if broken == "push" else [second])
    with pytest.raises(ArithmeticError, match="as told"):
        engine.play(market, [first], snapshots, 0)


# ---- what always holds ---------------------------------------------------------------------------
# Ordinary prices, and any from 1e-15 to 1e11 SOL; values that aren't numbers.
PRICES = st.one_of(
    st.none(),
    st.sampled_from("0.001 0.00105 0.0011 0.0012 0.0014 0.0009 0.0008 0.0005 0.01 0.5".split()),
    st.sampled_from(["0", "NaN", "-1", "Infinity", "nonsense", "1e-15", "100000000000"]),
    st.builds(lambda digit, power: f"{digit}e{power}", st.integers(1, 9), st.integers(-15, 10)),
)
# In proportion to the price of SOL, or any.
POOLS = st.one_of(
    st.sampled_from([(pool, str(int(float(pool) * 300))) for pool in ("1000", "200", "5", "0.3")]),
    st.tuples(
        st.one_of(
            st.sampled_from(["1000", "0", "NaN", None]),
            st.decimals("0.01", "1000000", places=9).map(str),
        ),
        st.sampled_from(["200000", "72000", "99", None, "NaN", "90000000"]),
    ),
)
VOLUMES = st.sampled_from(["50000", "120000", "400000", "900000", None, "NaN"])
QUOTE = st.builds(
    lambda price, pool, volume: {
        **{"price": price, "pool": pool[0], "liquidity": pool[1], "volume": volume}
    },
    *(PRICES, POOLS, VOLUMES),
)
ROUND = st.fixed_dictionaries({mint: st.one_of(st.none(), QUOTE) for mint in "AB"})


def play(rounds, decimals=6, repeats=1):
    """Play a calm quarter of an hour, then these rounds, each several times."""
    phases = ("standard", "guarded") * 2
    traders = [
        trader(number, strategy(), phase)
        for number, (strategy, phase) in enumerate(zip(FAMILIES.values(), phases, strict=True))
    ]
    often = Told(enter_at=tuple(range(0, 80, 3)), leave_at=tuple(range(2, 80, 5)), share=7_000)
    always = Told(enter_at=tuple(range(80)), leave_at=tuple(range(80)))
    traders += [trader(9, often), trader(10, always), trader(11, replace(always, leave_at=()))]
    market = Market(MINUTE, [replace(token("A"), decimals=decimals), token("B")])
    tape = Tape(traders, mints="AB", market=market, quiet={"liquidity": "200000"}).play(14)
    for quotes in rounds:
        for _ in range(repeats):
            tape.play(**quotes)
        assert all(adds_up(one) and one.account.equity >= 0 for one in traders)
    return traders


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(ROUND, min_size=4, max_size=40),
    st.integers(0, 18),
    st.sampled_from((1, 3)),
    st.booleans(),
)
def test_every_lamport_is_accounted_for(rounds, decimals, repeats, failing):
    """In any market. A repeated quote is one to trade on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("paper.fills.FAILURE_BPS", 3_000 if failing else 0)
        traders = play(rounds, decimals, repeats)
    for fill in [fill for one in traders for fill in fills(one)]:
        assert fill.reason in ("liquidity_gone", "price_gone") or (
            fill.at >= fill.decided_at + 6_000 and fill.snapshot != fill.decided_on
        )


@settings(max_examples=examples(10), deadline=None)
@given(st.lists(ROUND, min_size=5, max_size=30))
def test_equal_snapshots_give_equal_diaries(rounds):
    def journal():
        journals = [one.journal for one in play(rounds)]
        return repr([(one.entries, one.fills, one.positions) for one in journals])

    assert journal() == journal()
