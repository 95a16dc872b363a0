"""The engine: what a round does with orders and positions. Tests each rule of the fill model that
spans rounds.
"""

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
    trader,
)

from chain.amounts import exact, sol
from paper import engine, rules
from paper.account import PIPELINE, STARTING_CASH, Account, Close, find_exclusion
from paper.engine import Market
from paper.fills import RENT, Order
from paper.market import Flow, View, percent
from paper.player import DiaryLine, FaultKey, Faults, ReviewReason, refuse
from paper.rules import Phase
from paper.strategies import FAMILIES, Exit, Momentum, Refusal

SOL, HOUR = 10**9, 3_600_000


def told(*enter, leave=(), ident=1, phase="standard", **more):
    """A trader that enters and exits at these rounds; its first ten orders don't fail."""
    chances = {key: more.pop(key) for key in ("adaptive", "reviewed") if key in more}
    return trader(ident, Told(enter_at=enter, leave_at=tuple(leave), **more), phase, **chances)


def why_excluded(one, position):
    about = position.pipeline, position.marks, position.reason
    return find_exclusion(*about, reviewed=one.reviewed)


@pytest.fixture(autouse=True)
def lucky(monkeypatch):
    """No attempt fails by chance; test_fills covers the chance, test_failed_attempts its
    effects.
    """
    monkeypatch.setattr("paper.fills.FAILURE_BPS", 0)


# ---- when orders fill ----------------------------------------------------------------------------
def test_no_order_fills_on_its_deciding_snapshot():
    one = told(0)
    tape = Tape([one]).play()
    assert not fills(one) and one.account.orders
    tape.play()
    (done,) = fills(one)
    assert done.snapshot != done.decided_on and done.at - done.decided_at == MINUTE


def test_an_order_fills_on_the_first_snapshot_at_or_after_the_latency():
    """At 60,000 ms in round 1; a millisecond later would be too late for it."""
    for latency, filled in ((60_000, 1), (60_001, 2)):
        one = told(0, latency_ms=latency)
        tape = Tape([one]).play()
        order = one.account.orders[1]
        due = START + latency
        assert (order.due_at, order.expires_at) == (due, due + 3 * MINUTE)
        tape.play(2)
        assert fills(one)[0].at == START + filled * MINUTE


def test_a_window_counts_intervals_whatever_lies_between():
    """One minute each: a snapshot less than 45 s after the previous one is replaced by the next."""
    market, kept = Market(MINUTE, [token()]), []
    for at in (0, 44_999, 60_000, 105_000, 150_000, 165_000, 170_000):
        market.push(quote(at // 1_000, at=START + at), START + at)
        kept.append([one.at - START for one in market.windows["A"]])
    assert kept == [
        *([0], [0, 44_999], [0, 60_000], [0, 60_000, 105_000]),
        [0, 60_000, 105_000, 150_000],
        [0, 60_000, 105_000, 150_000, 165_000],
        [0, 60_000, 105_000, 150_000, 170_000],
    ]


@pytest.mark.parametrize("latency_ms, filled", [(60_000, True), (59_999, False)])
def test_an_order_fills_up_to_three_intervals_after_its_latency(latency_ms, filled):
    """No snapshot in rounds 1 to 3; round 4 is 240 s after the decision: 60 s of latency and 180 s,
    or a millisecond too late.
    """
    one = told(0, latency_ms=latency_ms, mints=("A",))
    Tape([one], mints="AB").play().play(3, A=None).play()
    facts = {"what": "not_filled", "side": "buy", "symbol": "AA", "why": "expired"}
    assert len(fills(one)) == filled and not one.account.orders
    assert said(one, "fill", "not_filled") == ([] if filled else [facts])
    line = one.journal.entries[-1]
    assert (line.mint, line.order_number) == ("A", 1)


@pytest.mark.parametrize(
    "quoted, reason",
    [
        ({"pair": "first", "pool": "0", "liquidity": "0"}, "liquidity_gone"),
        ({"pair": "second"}, "pair_changed"),
    ],
)
def test_a_purchase_is_refused_without_liquidity_or_in_another_pair(quoted, reason):
    one = told(0)
    Tape([one], quiet={"pair": "first"}).play().play(A=quoted)
    detail = f"the fill was refused: {reason.replace('_', ' ')}"
    assert not fills(one)
    assert said(one, "refusal") == [{"reason": reason, "detail": detail, "symbol": "AA"}]


def test_an_order_has_eight_attempts(monkeypatch):
    """Ten minutes between passes, so that it doesn't expire."""
    monkeypatch.setattr("paper.fills.is_failing", lambda order: True)
    one = told(0)
    Tape([one], market=Market(10 * MINUTE, [token()])).play(14)
    assert [fill.failed for fill in fills(one)] == [True] * 8
    assert one.journal.orders[1].state == "failed" and not one.account.orders


def test_fills_before_the_eighth_attempt_remain(monkeypatch):
    """With unknown liquidity, one SOL of 2.5 is filled first, and then nothing."""
    monkeypatch.setattr("paper.fills.is_failing", lambda order: order.attempts > 0)
    one = told(0, size_bps=2_500)
    unknown = {"pool": None, "liquidity": None}
    Tape([one], market=Market(10 * MINUTE, [token()]), quiet=unknown).play(14)
    assert [fill.failed for fill in fills(one)] == [False] + [True] * 7
    assert one.journal.orders[1].state == "part_filled" and not one.account.orders
    assert not said(one, "fill", "not_filled") and adds_up(one)


# ---- costs and the pool --------------------------------------------------------------------------
def test_a_round_trip_has_its_stated_cost():
    one = told(0, leave=(3,))
    Tape([one]).play(6)
    position = one.journal.positions[1]
    # The purchase's cost and network fee, without rent and the sale's fee.
    spent = SOL + fills(one)[0].network_fee
    assert position.spent == spent
    assert said(one, "fill", "closed")[0]["returnPct"] == percent(position.cash, spent)
    assert position.closed_at == START + 4 * MINUTE
    assert position.cash < position.gross == position.mid_sold - position.mid_bought
    assert [fill.rent for fill in fills(one)] == [RENT, -RENT] and adds_up(one)
    assert said(one, "fill", "closed")[0]["resultSol"].startswith("-0.0")


def test_failed_attempts_pay_and_are_retried(monkeypatch):
    monkeypatch.setattr("paper.fills.is_failing", lambda order: order.attempts < 2)
    one = told(0)
    tape = Tape([one]).play(2)
    paid = network_fees(one)
    assert one.account.cash == STARTING_CASH - paid < STARTING_CASH
    assert one.account.lost_fees == paid and adds_up(one)
    tape.play(2)
    position = one.account.positions["A"]
    assert [fill.failed for fill in fills(one)] == [True, True, False]
    # The order, and each of its attempts.
    assert position.spent == SOL + network_fees(one)
    # 0.25% of 1 SOL and three attempts.
    assert one.account.lost_fees == 0 and position.fees == network_fees(one) + 2_500_000
    assert adds_up(one)


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


def test_an_entry_uses_at_most_a_fiftieth_of_the_pool():
    one = told(0)
    Tape([one], quiet={"pool": "20", "liquidity": "6000"}).play()
    assert one.account.orders[1].amount == 400_000_000


def test_a_remainder_waits_and_expires():
    """With unknown liquidity, 1 SOL moves per snapshot: of 2.475 SOL (1% is the fee), two and a
    part.
    """
    one = told(0, size_bps=2_500)
    tape = Tape([one], quiet={"pool": None, "liquidity": None}).play(2)
    position = one.account.positions["A"]
    assert position.mid_bought + position.slippage == SOL
    tape.play(4)
    assert len(fills(one)) == 3 and sum(fill.gross for fill in fills(one)) == 2_500_000_000
    small = told(0, size_bps=2_500, mints=("A",))
    Tape([small], mints="AB", quiet={"pool": None, "liquidity": None}).play(3).play(3, A=None)
    assert len(fills(small)) == 2 and not small.account.orders
    assert small.journal.orders[1].state == "part_filled"


# ---- liquidity gone ------------------------------------------------------------------------------
GONE = {"price": "0.00007", "pool": "0", "liquidity": "0"}


def test_gone_liquidity_closes_the_position_at_once():
    one = told(0)
    Tape([one]).play(3).play(A=GONE)
    position = one.journal.positions[1]
    assert not one.account.positions
    assert position.reason == "liquidity_gone"
    assert position.closed_at == START + 3 * MINUTE
    # Everything, and the closing fee.
    assert position.cash == -SOL - network_fees(one) and adds_up(one)
    # It is a loss and needs no review.
    assert not one.journal.review_reasons


def test_gone_liquidity_precedes_absurd_prices_and_pending_sales():
    one = told(0, leave=(3,))
    Tape([one]).play(4).play(A={**GONE, "price": "900000"})
    assert one.journal.positions[1].reason == "liquidity_gone"
    assert not one.journal.review_reasons
    assert adds_up(one)
    assert one.journal.orders[2].state == "cancelled" and one.account.cash < STARTING_CASH


def test_a_vanished_token_is_doubted_and_closed_at_zero_after_a_day():
    """Its mark is from round 2: rounds 3 to 5 are the three intervals, round 6 doubts it, round
    1442 is a day after the mark, 1443 is later. The loss counts.
    """
    one = told(0, mints=("A",))
    tape = Tape([one], mints="AB").play(3).play(3, A=None)
    assert one.account.positions["A"].marks == ()
    tape.play(1, A=None)
    doubted = one.account.positions["A"]
    assert doubted.marks == ("missing_snapshot",) == one.journal.positions[1].marks
    assert why_excluded(one, doubted) == "missing_snapshot"
    tape.play(1443 - 7, A=None)
    assert tape.number == 1442 and one.account.positions
    tape.play(1, A=None)
    position = one.journal.positions[1]
    assert position.reason == "price_gone" and not one.account.positions and adds_up(one)
    assert position.mid_sold == position.slippage - fills(one)[0].slippage
    assert why_excluded(one, position) is None and not one.journal.review_reasons


@pytest.mark.parametrize(
    "price, pool, code",
    [
        (None, "1000", "missing_price"),
        (None, None, "missing_price"),
        ("0", None, "non_positive_price"),
        ("NaN", "1000", "non_positive_price"),
    ],
)
def test_a_token_without_a_usable_price_closes_after_a_day_and_counts(price, pool, code):
    """It is quoted in every round, but never in SOL, so all of it is lost."""
    one, unusable = told(0), {"price": price, "pool": pool}
    Tape([one]).play(3).play(4, A=unusable)
    assert set(one.account.positions["A"].marks) == {code, "missing_price"}
    Tape([one], market=Market(MINUTE, [token()]), number=6).play(1440, A=unusable)
    position = one.journal.positions[1]
    assert (position.reason, position.closed_at) == ("price_gone", START + 1443 * MINUTE)
    assert position.cash == -SOL - network_fees(one) and adds_up(one)
    assert "stale_price" not in position.marks
    assert why_excluded(one, position) is None and not one.journal.review_reasons


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
    position = one.journal.positions[1]
    assert (position.reason, position.closed_at) == ("price_gone", tape.now)


def test_a_future_snapshot_closes_nothing():
    one = told(0, mints=("A",))
    tape = Tape([one], mints="AB").play(3)
    engine.play(tape.market, [one], [quote(3, "B", at=START + 10 * DAY)], tape.now)
    assert one.account.positions and not one.journal.review_reasons


def test_a_recovering_price_excludes_only_its_position():
    """0, then usable again; trades in another token still count."""
    one = told(0, 9, leave=(12,), mints=("A", "B"))
    Tape([one], mints="AB").play(3).play(A={"price": "0", "pool": None}).play(30)
    excluded = {close.mint: close.excluded for close in one.closes}
    assert excluded["A"] == "non_positive_price" and excluded["B"] is None
    assert not one.reviewed


# ---- prices that are not believable --------------------------------------------------------------
ABSURD = {"price": "1"}
JUMPED = "the price moved more than the limit between adjacent snapshots"
SKEWED = "a snapshot's time contradicts the clock or an adjacent snapshot"


def test_an_absurd_jump_is_reviewed_once_and_affects_no_later_snapshot():
    """The sale is refused, the position isn't marked at it, and it isn't in the window."""
    one = told(0, leave=(3,))
    tape = Tape([one]).play(4).play(A=ABSURD)
    held = one.account.positions["A"]
    assert one.reviewed and held.price == held.high and one.account.equity < STARTING_CASH
    assert one.journal.orders[2].state == "refused"
    assert said(one, "refusal")[-1]["reason"] == "price_jump"
    # One review for both directions.
    window = tape.play(2).market.windows["A"]
    assert [alarm.key for alarm in one.journal.review_reasons] == ["price_jump:position 1:31 up"]
    assert len({snapshot.price for snapshot in window}) == 1
    assert [(snapshot.at - START) // MINUTE for snapshot in window] == [0, 1, 2, 3, 6]


@pytest.mark.parametrize(
    "quoted, key, minute, detail",
    [
        ({"price": "1"}, "price_jump:position 1:21 up", 3, JUMPED),
        ({"at": START}, "clock_skew:position 1:21", 0, SKEWED),
    ],
)
def test_a_review_reason_is_described_completely(quoted, key, minute, detail):
    """Bought in round 1 and marked in round 2, whose snapshot has number 21."""
    one = told(0)
    Tape([one]).play(3).play(A=quoted)
    expected = ReviewReason(key, key.split(":")[0], detail, START + minute * MINUTE, "AA")
    assert one.journal.review_reasons == [expected]


def test_only_traders_with_an_order_are_reviewed():
    watching, ordering = told(9), told(3, ident=2)
    Tape([watching, ordering]).play(4).play(A=ABSURD)
    assert not watching.journal.review_reasons
    assert [alarm.code for alarm in ordering.journal.review_reasons] == ["price_jump"]
    assert not fills(ordering)


# ---- a restart -----------------------------------------------------------------------------------


# ---- Guarded Start -------------------------------------------------------------------------------
def test_guarded_start_uses_a_quarter_of_the_size_and_two_positions():
    one = told(0, phase="guarded")
    Tape([one], mints="ABCD").play(2)
    assert [fill.mid + fill.slippage + fill.pool_fee for fill in fills(one)] == [SOL // 4] * 2
    assert len(one.account.positions) == 2
    assert {facts["reason"] for facts in said(one, "refusal")} == {"position_limit"}
    free = told(0)
    Tape([free], mints="ABCD").play(2)
    assert len(free.account.positions) == 4 and fills(free)[0].gross == SOL


def test_guarded_start_stops_for_the_day_after_a_loss():
    one = told(0, 5, 1440, phase="guarded", mints=("A", "B"), size_bps=2500)
    tape = Tape([one], mints="AB").play(2).play(A=GONE, B=GONE).play(3)
    assert one.account.cash < STARTING_CASH * 95 // 100
    assert said(one, "refusal")[-1]["reason"] == "daily_loss"
    # The next UTC day.
    tape.skip(1440 - 6).play(2)
    assert len(fills(one)) == 6


def test_a_clock_set_back_over_midnight_starts_no_new_day():
    """A second after midnight, a second before it again, and after it: that is two days, and the
    second day's first equity stays.
    """
    one, midnight = trader(phase="guarded"), (START // DAY + 5) * DAY
    for cash, at in ((10, -60_000), (9, 1_000), (8, -1_000), (7, 2_000)):
        one.account.cash = cash * SOL
        engine.run_heartbeat(one, midnight + at)
    assert one.phase.days == 2 and one.phase.last_day == midnight // DAY
    assert (one.account.day, one.account.day_equity) == (midnight // DAY, 9 * SOL)
    # Two days back: the clock was wrong, and that day counts.
    engine.run_heartbeat(one, midnight - 2 * DAY)
    assert one.phase.days == 3
    assert (one.account.day, one.account.day_equity) == (midnight // DAY - 2, 7 * SOL)


def test_ineligible_closes_are_not_progress():
    one = told(0, leave=(3,), phase="guarded")
    Tape([one], quiet={"pool": None, "liquidity": None}).play(6)
    assert one.journal.positions[1].closed_at
    assert one.closes[0].excluded == "liquidity_unknown"
    assert one.phase.closes == 0
    two = told(0, leave=(3,), phase="guarded")
    Tape([two]).play(6)
    assert two.phase.closes == 1


# ---- cash ----------------------------------------------------------------------------------------
def test_cash_covers_the_worst_case_of_open_orders():
    """Ten positions at once with 10 SOL, each with rent and eight attempts of 5,000,000 lamports:
    0.02 SOL remain whatever fails.
    """
    one = told(0, size_bps=2_500, max_positions=10)
    mints = "ABCDEFGHIJ"
    one.strategy = replace(one.strategy, mints=tuple(mints))
    tape = Tape([one], mints=mints).play()
    wanted = [order.amount for order in one.account.orders.values()]
    worst = sum(wanted) + len(wanted) * (RENT + 8 * 5_000_000)
    # 3 of 2.5 SOL; the fourth gets the rest.
    assert len(wanted) == 4 and STARTING_CASH - worst == 20_000_000
    assert one.account.free_cash == 20_000_000
    tape.play(2)
    assert one.account.cash == STARTING_CASH - sum(wanted) - 4 * RENT - network_fees(one)
    assert adds_up(one)
    # No orders are pending.
    assert one.account.free_cash == one.account.cash


def test_a_token_pause_halves_entries_in_that_token():
    """A tenth of 10 SOL, and half of that in A."""
    one = told(0, mints=("A", "B"))
    one.pauses = [replace(pause("half_size", "A"), since=START)]
    Tape([one], mints="AB").play()
    assert {order.mint: order.amount for order in one.account.orders.values()} == {
        "A": SOL // 2,
        "B": SOL,
    }


def test_an_entry_is_at_least_a_hundredth_of_a_sol():
    """A tenth of 0.1 SOL; a lamport less is too little."""
    for cash, ordered in ((10**8, [10_000_000]), (10**8 - 1, [])):
        one = told(0)
        one.account = Account(cash, cash, peak=cash, day_equity=cash)
        Tape([one]).play()
        assert [order.amount for order in one.account.orders.values()] == ordered
        refused = {"reason": "no_cash", "detail": "not enough cash for an entry", "symbol": "AA"}
        assert said(one, "refusal") == ([] if ordered else [refused])


def test_a_cost_equal_to_the_cash_fills_and_one_lamport_more_is_refused(monkeypatch):
    """A purchase of 1 SOL, 55,000 lamports for the network, and rent."""
    monkeypatch.setattr("paper.fills.draw_network_fee", lambda order, costs: 55_000)
    for spare, filled in ((0, True), (-1, False)):
        one = told(0)
        tape = Tape([one]).play()
        one.account.cash = SOL + 55_000 + RENT + spare
        tape.play()
        assert one.account.cash == (0 if filled else SOL + 54_999 + RENT)
        assert one.journal.orders[1].state == ("filled" if filled else "refused")
        reason = {"reason": "no_cash_for_fees", "detail": "the fill was refused: no cash for fees"}
        assert said(one, "refusal") == ([] if filled else [{**reason, "symbol": "AA"}])


def test_an_account_with_one_fee_left_can_sell():
    """The cheaper half of all swaps pays at most 25,000 lamports."""
    one = told(0, leave=(3,))
    tape = Tape([one]).play(3)
    one.account.cash = 25_000
    tape.play()
    assert one.journal.orders[2].side == "sell" and not said(one, "refusal")


def test_an_account_without_a_fee_says_so_hourly_and_orders_nothing():
    one = told(0, leave=tuple(range(3, 70)))
    tape = Tape([one]).play(3)
    # Less than the median swap pays.
    one.account.cash = 24_999
    tape.play(65)
    detail = "not enough cash for the network fee, so it can't be sold"
    told_once = {"reason": "no_cash_for_fees", "detail": detail, "symbol": "AA"}
    assert said(one, "refusal") == [told_once] * 2 and len(one.journal.orders) == 1


# ---- limits, refusals, pauses --------------------------------------------------------------------
def test_a_closed_token_has_a_cool_down():
    one = told(0, 4, 5, 6, leave=(2,), cooldown_seconds=180)
    # Closed in round 3.
    Tape([one]).play(8)
    assert [fill.decided_at for fill in fills(one) if fill.side == "buy"] == [
        START,
        START + 6 * MINUTE,
    ]
    assert said(one, "refusal")[0]["reason"] == "cooldown"


def test_a_refusal_concerns_its_token_or_the_account():
    """Two tokens without decimals are both refused; without cash, only the first is."""
    one, other = told(0), told(0)
    other.account.cash = 1
    unread = [replace(token(mint), decimals=None) for mint in "AB"]
    Tape([one], mints="AB", market=Market(MINUTE, unread)).play()
    Tape([other], mints="AB").play()
    assert sorted(facts["symbol"] for facts in said(one, "refusal")) == ["AA", "BB"]
    assert [facts["reason"] for facts in said(other, "refusal")] == ["no_cash"]


def test_a_partial_sale_reduces_and_the_rest_closes():
    one = told(0, leave=(3, 6), share=5_000)
    tape = Tape([one]).play(6)
    one.strategy = replace(one.strategy, share=10_000)
    tape.play(4)
    bought, reduced, closed = said(one, "fill")
    first, second, _ = fills(one)
    assert (reduced["what"], closed["what"]) == ("reduced", "closed")
    assert reduced["amount"] == exact(first.raw // 2, 6)
    assert reduced["sol"] == sol(second.mid - second.slippage - second.pool_fee)
    # 1,000 of 10,000 parts of 10 SOL.
    assert bought == {
        **{"what": "bought", "side": "buy", "symbol": "AA", "reason": "told", "sol": "1"},
        **{"amount": exact(first.raw, 6), "slippageSol": sol(first.slippage), "marks": []},
        "feesSol": sol(first.pool_fee + first.network_fee),
        # The reason, the stop below the entry, and 1 of 10 SOL.
        **{"detail": "told to", "stopPct": "10", "sharePct": "10"},
    }


def test_ten_different_refusals_are_noted_per_hour():
    """One a minute from START on: the eleventh and twelfth aren't noted; an hour after the first
    there is room for one, but not a ms earlier.
    """
    one = told()
    for number in range(12):
        refuse(one, token(f"M{number}"), Refusal("thin", "told"), START + number * MINUTE)
    assert [line.mint for line in one.journal.entries] == [f"M{number}" for number in range(10)]
    for at, lines in ((START + HOUR - 1, 10), (START + HOUR, 11), (START + HOUR, 11)):
        refuse(one, token("M0"), Refusal("thin", "told"), at)
        assert len(one.journal.entries) == lines
    last = one.journal.entries[-1]
    facts = {"reason": "thin", "detail": "told", "symbol": "M0M0"}
    assert (last.kind, last.at, last.mint, last.facts) == ("refusal", START + HOUR, "M0", facts)
    assert len(one.refused) == 10 and one.refused["thin", "M0"] == START + HOUR
    # The account has one, whatever the token.
    one.refused.clear()
    for mint in "AB":
        refuse(one, token(mint), Refusal("no_cash", "told"), START)
    assert one.refused == {("no_cash", None): START}


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
    reason, line = one.journal.review_reasons[-1], one.journal.entries[-1]
    assert one.reviewed
    assert reason == ReviewReason("price_jump:position 1:9", "price_jump", "told", START, "AA")
    told_as = {"what": "under_review", "code": "price_jump", "detail": "told", "symbol": "AA"}
    assert (line.kind, line.at, line.facts) == ("review", START, told_as)
    assert [one.key for one in one.journal.review_reasons[2:4]] == [
        *("stale_snapshot:8", "stale_snapshot:9")
    ]


def test_tokens_count_as_active_since_the_last_global_pause():
    """Pauses of a minute, or of three intervals if these are longer, don't count."""
    for interval, patience in ((1_000, 60_000), (MINUTE, 3 * MINUTE)):
        market = Market(interval, [token("A"), token("B")])
        seen = []
        for at in (0, patience, 2 * patience + 1, patience, 2 * patience + 2):
            market.push(quote(at, "AB"[len(seen) % 2], at=START + at), START + DAY)
            seen.append((market.awake_since - START, market.newest_at - START))
        assert market.patience_ms == 3 * interval and market.horizon_ms == 28 * interval
        pause = 2 * patience + 1
        assert market.silences == [(START + patience, START + pause)]
        # Two milliseconds before it, and one after.
        assert market.count_awake_ms(START + patience - 2, START + pause + 1) == 3
        assert market.count_awake_ms(START + patience + 5, START + pause - 5) == 0
        assert seen == [
            *((0, 0), (0, patience), (pause, pause), (pause, pause)),
            (pause, pause + 1),
        ]


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


def pause(effect, mint=None):
    return rules.Pause("p", "rule", effect, mint, START - 1, START + 1, True, 8, DAY, "")


@pytest.mark.parametrize(
    "changes, refusal",
    [
        ({}, None),
        (
            {"token": {"decimals": None}},
            ("decimals_unknown", "its mint account hasn't been read yet"),
        ),
        ({"pauses": [pause("pause_family")]}, ("paused", "entries are paused for now")),
        ({"pauses": [pause("pause_mint", "A")]}, ("paused", "entries are paused for now")),
        ({"pauses": [pause("pause_mint", "B"), pause("half_size")]}, None),
        (
            {"phase": Phase("guarded"), "equity": 11 * SOL},
            ("daily_loss", "the daily loss stop of Guarded Start"),
        ),
        ({"strategy": Told(max_positions=2)}, ("position_limit", "2 positions are open already")),
        ({"strategy": Told(max_positions=3)}, None),
    ],
)
def test_reasons_against_a_token_are_recorded(changes, refusal):
    """It has pending orders for two others."""
    one = told(0, mints=("B", "C"))
    Tape([one], mints="BC").play()
    assert len(one.account.orders) == 2
    about = replace(token("A"), **changes.pop("token", {}))
    one.account.day_equity = changes.pop("equity", one.account.equity)
    for name, value in changes.items():
        setattr(one, name, value)
    found = engine.find_limit(one, about, START)
    assert found == (refusal and engine.Refusal(*refusal))


def test_orders_and_decisions_are_complete():
    """1 SOL buys 996,505,985 raw units of a million tokens against 1,000 SOL, as in test_measured;
    95% of that is required. Gone liquidity is sold at once, at any price.
    """
    one = told(0, leave=(3,))
    tape = Tape([one]).play(4)
    about = {"handle": "trader-1", "mint": "A", "symbol": "AA", "decimals": 6, "transfer_bps": 0}
    due, line = START + 6_000, {"symbol": "AA", "reason": "told"}
    bought = Order(
        **{**about, "number": 1, "side": "buy", "amount": SOL, "reason": "told"},
        **{"decided_on": 1, "decided_at": START, "due_at": due},
        **{"expires_at": due + 3 * MINUTE, "least": 996_505_985 * 95 // 100},
        **{"done": SOL, "attempts": 1, "state": "filled", "detail": "told to"},
    )
    assert one.journal.orders[1] == bought
    raw, at = one.account.positions["A"].raw, START + 3 * MINUTE
    (sold,) = one.account.orders.values()
    assert replace(sold, least=0) == Order(
        **{**about, "number": 2, "side": "sell", "amount": raw, "reason": "told"},
        **{"decided_on": 31, "decided_at": at, "due_at": at + 6_000},
        expires_at=at + 6_000 + 3 * MINUTE,
    )
    # Minus 5%: 1 SOL minus a quarter percent twice if its own purchase still moves the pool;
    # otherwise 1,000 SOL * raw / (10**12 + raw) minus a quarter percent.
    most, rest = SOL * 9_975**2 // 10**8, 1_000 * SOL * raw // (10**12 + raw) * 9_975 // 10_000
    assert rest * 95 // 100 < sold.least < most * 95 // 100
    decisions = [entry for entry in one.journal.entries if entry.kind == "decision"]
    assert decisions == [
        DiaryLine(
            "decision", START, {"what": "buy", **line, "detail": "told to", "sol": "1"}, "A", 1
        ),
        DiaryLine(
            *("decision", at),
            {"what": "sell", **line, "detail": "told", "amount": exact(raw, 6)},
            *("A", 2),
        ),
    ]
    tape.play(A=GONE)
    at += MINUTE
    assert one.journal.orders[2].state == "cancelled"
    (line,) = [entry for entry in one.journal.entries if entry.facts["what"] == "not_filled"]
    facts = {"what": "not_filled", "side": "sell", "symbol": "AA", "why": "cancelled"}
    assert line == DiaryLine("fill", at, facts, "A", 2)
    assert one.journal.orders[3] == Order(
        **{**about, "number": 3, "side": "sell", "amount": raw, "reason": "liquidity_gone"},
        **{"decided_on": 41, "decided_at": at, "due_at": at, "expires_at": at},
        **{"done": raw, "attempts": 1, "state": "filled"},
    )


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
    first = quote(0, pair="P")
    market.push(first, START)
    then = quote(1, **{"pair": "P", **changes})
    assert market.push(then, START + DAY) == (then, flaw)
    assert market.newest_at == (then.at if time else START)
    assert market.before == {"A": then if compared else first}
    window = [one.id for one in market.windows.get("A", ())]
    assert window == [(first, then)[place - 1].id for place in kept]
    assert market.quoted_at == {"A": then.at if served else START}


def losses(count, mint="A", at=START - MINUTE, reason="stop", apart=0):
    """Losing closes, oldest first, the newest at `at`."""
    ends = [at - (count - 1 - n) * apart for n in range(count)]
    return [
        Close(f"{n}", mint, mint * 2, end - MINUTE, end, reason, -SOL // 100, -SOL // 100, SOL)
        for n, end in enumerate(ends)
    ]


@pytest.mark.parametrize(
    "adaptive, entered, begun", [("on", 0, "begun"), ("observe", 1, "observed"), ("off", 1, None)]
)
def test_only_adaptive_on_stops_entries(adaptive, entered, begun):
    """The last of 13 losses is in a different six-hour period than START; the fourteenth closes in
    round 3.
    """
    one = told(0, 4, leave=(2,), adaptive=adaptive)
    one.closes = losses(13, at=START - 2 * HOUR - 1, apart=HOUR + 1)
    Tape([one]).play(6)
    assert sum(fill.side == "buy" for fill in fills(one)) == 1 + entered
    found = {(facts["what"], facts["rule"], facts["n"]) for facts in said(one, "pause")}
    rules_found = ("cool_down", "stop_cluster", "poor_mint") if begun else ()
    assert found == {(begun, rule, 14) for rule in rules_found}
    assert adds_up(one)


def test_a_pause_never_stops_an_exit():
    one = told(0, leave=(3,))
    tape = Tape([one]).play(3)
    one.pauses = [replace(pause("pause_family"), until=START + DAY)]
    tape.play(3)
    assert not one.account.positions


def test_a_restart_drops_orders_and_keeps_marks():
    one = told(0, 4, mints=("A",))
    tape = Tape([one], mints="AB").play(4)
    held = dict(one.account.positions)
    one.strategy = replace(one.strategy, mints=("B",))
    tape.play(A=None)
    engine.drop_orders(one, tape.now)
    tape.play(2, A=None)
    assert not one.account.orders and one.account.positions == held and len(fills(one)) == 1
    assert said(one, "fill", "not_filled") == [
        {"what": "not_filled", "side": "buy", "symbol": "BB", "why": "restart"}
    ]


def test_changed_cash_opens_a_review_and_a_changed_pipeline_excludes_the_position():
    one = told(0)
    Tape([one]).play(3)
    one.account.positions["A"] = replace(one.account.positions["A"], pipeline="paper/0")
    one.account.starting_cash = 1
    at = START + 2 * MINUTE
    engine.check_account(one, at)
    engine.check_account(one, at)
    assert one.journal.review_reasons == [
        ReviewReason(
            *(f"starting_cash_changed:{10 * SOL}", "starting_cash_changed"),
            *("the starting cash has changed", at),
        )
    ]
    assert find_exclusion("paper/0", (), "stop", reviewed=False) == "old_pipeline"
    assert find_exclusion(PIPELINE, (), "stop", reviewed=False) is None


def test_selling_nothing_is_a_double_exit():
    one = told(0, leave=(3,))
    tape = Tape([one]).play(4)
    one.account.positions.clear()
    tape.play()
    detail, at = "a sale was due for a position that was closed", START + 4 * MINUTE
    assert one.journal.review_reasons == [
        ReviewReason("double_exit:2", "double_exit", detail, at, "AA")
    ]
    assert len(fills(one)) == 1 and one.journal.orders[2].state == "refused"
    refusal = {"reason": "double_exit", "detail": "the fill was refused: double exit"}
    assert said(one, "refusal") == [{**refusal, "symbol": "AA"}]
    assert said(one, "fill", "not_filled")[-1] == {
        **{"what": "not_filled", "side": "sell", "symbol": "AA", "why": "refused"}
    }


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
    for one in traders:
        for fill in fills(one):
            assert fill.reason in ("liquidity_gone", "price_gone") or (
                fill.at >= fill.decided_at + 6_000 and fill.snapshot != fill.decided_on
            )


@settings(max_examples=examples(10), deadline=None)
@given(st.lists(ROUND, min_size=5, max_size=30))
def test_equal_snapshots_give_equal_diaries(rounds):
    def journal():
        told = [
            (one.journal.entries, one.journal.fills, one.journal.positions) for one in play(rounds)
        ]
        return repr(told)

    assert journal() == journal()


# ---- what the second model added -----------------------------------------------------------------
def test_a_repeated_quote_fills_nothing():
    """Price, liquidity and volume as at the decision aren't a later quote, however late."""
    one = told(0)
    tape = Tape([one], quiet={"volume": "50000"}).play(3)
    assert not fills(one)
    tape.play(A={"volume": "50001"})
    assert len(fills(one)) == 1 and fills(one)[0].at == START + 3 * MINUTE


def test_another_pair_is_another_market_and_not_a_loss():
    """The most liquid pair changes to one with a thirtieth of the liquidity: nothing is gone."""
    one = told(0, leave=(4,))
    tape = Tape([one], quiet={"pair": "first"}).play(3)
    shallow = {"pair": "second", "pool": "30", "liquidity": "9000"}
    tape.play(A=shallow)
    position = one.account.positions["A"]
    assert (position.pair, position.liquidity) == ("second", 9_000_00)
    assert not one.journal.review_reasons and position.marked_at == START + 2 * MINUTE
    tape.play(3, A=shallow)
    assert one.journal.positions[1].reason == "told" and adds_up(one)


def test_a_token_that_changes_pairs_constantly_has_no_usable_price():
    """Two pools alternate as the most liquid, with a tenth of the price difference: nothing marks
    the position, so round 6 doubts it and round 1443 closes it, as if there were no price.
    """
    one = told(0, mints=("A",))
    tape = Tape([one], mints="AB", quiet={"pair": "first"}).play(3)
    fallen = {"price": "0.0001", "pool": "100", "liquidity": "30000"}
    while tape.number < 1442:
        doubted = one.account.positions.get("A")
        assert tape.number < 6 or "missing_price" in doubted.marks
        tape.play(A={**fallen, "pair": "first" if tape.number % 2 else "second"})
    assert one.account.positions
    tape.play(A={**fallen, "pair": "first" if tape.number % 2 else "second"})
    position = one.journal.positions[1]
    assert (position.reason, position.closed_at) == ("price_gone", START + 1443 * MINUTE)
    assert position.cash == -SOL - network_fees(one) and adds_up(one)


def test_strategies_see_one_pairs_prices_only():
    tape = Tape([], quiet={"pair": "one"}).play(5)
    tape.quiet = {"pair": "another"}
    tape.play(3)
    # The first of them reported the change.
    assert [one.pair for one in tape.market.view("A").window] == ["another"] * 2


FALLING = ["0.0008", "0.00064", "0.00051", "0.00041", "0.00033", "0.00026"]


def test_a_stop_works_in_a_fast_fall():
    """20% a minute: with a limit of 5% it would never sell."""
    one = trader(1, Momentum(cooldown_seconds=86_400))
    held = Tape([one]).play(12)
    for number in range(6):
        held.play(A={"price": f"0.00{104 + number * 3}", "volume": f"{60_000 + number * 999}"})
    assert one.account.positions
    for price in FALLING:
        held.play(A={"price": price})
    (close,) = [one for one in one.journal.positions.values() if one.closed_at is not None]
    assert close.reason in ("stop", "trailing_stop") and not one.account.positions
    # Decided at the first snapshot of the fall, filled at the next one.
    assert close.closed_at == held.now - 4 * MINUTE
    assert all(fill.side == "buy" or not fill.failed for fill in fills(one)) and adds_up(one)


class Worried(Told):
    """Wants to exit in round 4, and has a stop from round 5 on."""

    def leave(self, view, position):
        reasons = {4: "told", 5: "stop", 6: "stop"}
        reason = reasons.get(number_of(view.last))
        return Exit(reason) if reason else None


def test_a_stop_replaces_a_limited_sale_but_no_other_stop():
    one = trader(1, Worried(enter_at=(0,), latency_ms=60_000 * 5 // 2))
    Tape([one]).play(8)
    sales = [order for order in one.journal.orders.values() if order.side == "sell"]
    assert [(sale.reason, sale.state) for sale in sales] == [
        ("told", "cancelled"),
        ("stop", "open"),
    ]
    limited, stop = sales
    assert limited.least > 0 == stop.least


def test_equity_is_what_the_pools_would_pay():
    """1 SOL in a pool of 1,000: selling it returns less than two fees and the price impact."""
    one = told(0)
    Tape([one]).play(3)
    position = one.account.positions["A"]
    assert one.account.equity == one.account.cash + position.worth
    assert SOL * 9_930 // 10_000 < position.worth < SOL * 9_955 // 10_000


@pytest.mark.parametrize(
    "broken, found",
    [
        ("expire_orders", FaultKey(1, None)),
        ("leave", FaultKey(1, None)),
        ("check_drawdown", FaultKey(1, None)),
        ("Market.push", FaultKey(None, "A")),
    ],
)
def test_errors_are_assigned_to_the_trader_or_the_token(monkeypatch, broken, found):
    """One of two traders fails; the other one continues."""
    first, second = told(0, ident=1), told(0, ident=2)
    market = Market(MINUTE, [token("A"), token("B")])
    work = market.push if broken == "Market.push" else getattr(engine, broken)

    def fail(about, *rest):
        if getattr(about, "mint", about) == "A" or about is first:
            raise ArithmeticError("as told")
        return work(about, *rest)

    monkeypatch.setattr(market if broken == "Market.push" else engine, broken.split(".")[-1], fail)
    faults, snapshots = Faults(), [quote(0, "A"), quote(0, "B")]
    engine.play(market, [first, second], snapshots, START, faults)
    assert list(faults.found) == [found] and second.account.orders
    assert faults.skip_faulty([first, second]) == ([second] if found.trader else [first, second])
    with pytest.raises(ArithmeticError, match="as told"):
        engine.play(Market(MINUTE, [token("A")]) if found.trader else market, [first], snapshots, 0)


def test_a_token_missing_from_the_market_is_not_traded():
    market, faults = Market(MINUTE, [token("A")]), Faults()
    seen = engine.check_snapshots(market, [quote(0, "Z"), quote(0, "A")], START, faults)
    assert list(seen) == ["A"] and faults.found == {}
