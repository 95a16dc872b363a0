"""The risk of realized results: small ledgers worked out by hand, and an oracle written apart that
knows all sales at once.
"""

from collections import Counter
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from teller import FEE, STEP, USDC, Silent, Teller, name_accounts, play

from chain.ledger.inventory import SOL
from chain.ledger.ledger import WHOLE, Ledger
from chain.ledger.risk import (
    ALL,
    Period,
    PositionSoFar,
    RiskBook,
    Stretch,
    find_drawdown,
    join_stretches,
    round_down,
)
from chain.ledger.views import ALL_HISTORY, Span, Spans

DAY = 24


def keep(entries, *spans, view=ALL_HISTORY):
    """The RiskBook of these entries."""
    ledger = Ledger(spans=Spans(spans))
    for entry in entries:
        ledger.apply(entry)
    return ledger.accounts[SOL, view].risk


def whole(teller):
    return keep(teller.entries).rows.get(ALL, Stretch())


def read_positions(stretch):
    """(closed, won, uncounted)"""
    return stretch.closed, stretch.won, stretch.uncounted


# ---- the curve -----------------------------------------------------------------------------------
def sell_for(*results):
    """A ledger whose sales, of a token each, have these results. Each lot costs 1,000."""
    t = Teller()
    for number, result in enumerate(results):
        t.buy(f"T{number}", 10, 1_000).sell(f"T{number}", 10, 1_000 + result)
    return t


def test_the_deepest_fall_of_the_curve():
    """0, 50, 30, 70, -20, 0: the deepest fall is from 70 to -20."""
    assert find_drawdown([50, -20, 40, -90, 20]) == 90
    told = whole(sell_for(50, -20, 40, -90, 20))
    assert (told.best, told.worst, told.sales, told.winning) == (50, -90, 5, 3)


def test_a_loss_from_the_beginning_is_a_fall_from_zero():
    """0, -40, -30: 40 below the beginning."""
    assert find_drawdown([-40, 10]) == 40


def test_gains_alone_have_no_drawdown():
    assert find_drawdown([10, 0, 5]) == find_drawdown([]) == 0
    told = whole(sell_for(10, 0, 5))
    assert (told.worst, told.winning) == (0, 2)


@given(st.lists(st.integers(-5, 5), max_size=12))
def test_a_drawdown_is_the_greatest_of_all_falls(changes):
    sums = [0, *accumulate(changes)]
    falls = [high - low for at, high in enumerate(sums) for low in sums[at:]]
    assert find_drawdown(after - before for before, after in pairwise(sums)) == max(falls)


def test_nothing_sold_is_nothing_known():
    told = whole(Teller().buy("A", 10, 100))
    assert (told.best, told.worst, told.median_holding, told.sales) == (None, None, None, 0)


def test_what_has_no_result_is_no_sale():
    """10@? sold for 70; half of 10@? and 10@100 sold for 60, 30 of them for 10@100: -70."""
    t = Teller().gain("A", 10).sell("A", 10, 70).gain("B", 10).buy("B", 10, 100).sell("B", 20, 60)
    told = whole(t)
    assert (told.sales, told.best, told.worst) == (1, -70, -70)


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.one_of(
            st.tuples(st.just("sale"), st.integers(-5, 5), st.none() | st.integers(0, 3)),
            st.tuples(st.just("position"), st.integers(-2, 2), st.booleans(), st.booleans()),
            st.tuples(st.just("trade")),
        ),
    ),
    max_size=12,
)


def live(events):
    """The Stretch of events: (day, what happened)..."""
    stretch = Stretch()
    for day, (what, *how) in events:
        if what == "sale":
            stretch.add_sale(*how)
        elif what == "position":
            stretch.add_position(PositionSoFar(*how))
        else:
            stretch.add_day(day)
    return stretch


def count(events):
    """The same, each field by itself."""
    told = [how for _, how in events]
    sales, ended = ([how[1:] for how in told if how[0] == what] for what in ("sale", "position"))
    days = [day for day, how in events if how[0] == "trade"]
    counting = [result for result, sold, unknown in ended if sold and not unknown]
    return Stretch(
        sales=len(sales),
        winning=sum(result > 0 for result, _ in sales),
        best=max((result for result, _ in sales), default=None),
        worst=min((result for result, _ in sales), default=None),
        closed=len(counting),
        won=sum(result > 0 for result in counting),
        uncounted=len(ended) - len(counting),
        days=len(set(days)),
        first_day=min(days, default=None),
        last_day=max(days, default=None),
        holdings=Counter(held for _, held in sales if held is not None),
    )


@given(EVENTS, st.integers(0, 12), st.integers(0, 12))
@effort(max_examples=50, deadline=None)
def test_every_field_of_joined_parts_is_that_of_the_whole(drawn, one, other):
    """Days never fall; a trade before and after a cut may be of one day."""
    events = sorted(drawn, key=lambda event: event[0])
    first, second = sorted((one, other))
    parts = events[:first], events[first:second], events[second:]
    assert join_stretches(map(live, parts)) == live(events) == count(events)


# ---- holding times -------------------------------------------------------------------------------
def holdings(teller):
    counted = whole(teller).holdings.items()
    return sorted(seconds for seconds, count in counted for _ in range(count))


def wait(teller, seconds):
    """So that the next transaction comes so many seconds after the last one; a multiple of 10."""
    teller.slot += seconds - 10
    return teller


def test_a_sale_was_held_since_its_purchase():
    """The Teller's transactions are 10 seconds apart."""
    t = wait(Teller().buy("A", 10, 100), 60).sell("A", 5, 60)
    assert holdings(wait(t, 30).sell("A", 5, 60)) == [60, 90]


def test_the_middle_unit_of_a_sale_decides():
    """3 held 40 s, 3 held 20 s: of an even number the shorter. With 4 and 3 it is the longer."""
    t = wait(Teller().buy("A", 3, 30), 20).buy("A", 3, 30)
    assert holdings(wait(t, 20).sell("A", 6, 60)) == [20]
    t = wait(Teller().buy("A", 4, 40), 20).buy("A", 3, 30)
    assert holdings(wait(t, 20).sell("A", 7, 70)) == [40]


def test_what_a_swap_brought_is_held_since_the_swap():
    t = wait(Teller().buy("A", 10, 100), 500).swap("A", 10, "B", 5)
    assert holdings(wait(t, 70).sell("B", 5, 60)) == [70]


def test_a_round_trip_was_held_for_no_time():
    t = Teller().write("round_trip", 20, FEE, mint="A")
    told = whole(t)
    assert (holdings(t), read_positions(told), told.best) == ([0], (1, 1, 0), 20)


def test_without_a_time_nothing_is_told_of_it():
    t = Teller().buy("A", 10, 100).sell("A", 10, 150)
    t.entries[-1] = t.entries[-1]._replace(block_time=None)
    told = whole(t)
    assert (told.median_holding, told.best) == (None, 50)


def test_two_digits_of_a_holding_time_are_kept():
    times = (0, 7, 99, 100, 109, 3_725, 86_399)
    assert [round_down(one) for one in times] == [0, 7, 99, 100, 100, 3_700, 86_000]


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
def test_the_median_of_an_even_number_is_the_lower_one(times):
    told = Stretch()
    for one in times:
        told.add_sale(0, round_down(one))
    rounded = sorted(int(str(one)[:2] + "0" * len(str(one)[2:])) for one in times)
    assert told.median_holding == rounded[(len(times) - 1) // 2]


# ---- positions -----------------------------------------------------------------------------------
def test_a_position_ends_when_nothing_is_held():
    """10@100: 4 for 60 and 6 for 30, -10 in all, though one of two sales gained."""
    t = Teller().buy("A", 10, 100).sell("A", 4, 60)
    assert read_positions(whole(t)) == (0, 0, 0)
    told = whole(t.sell("A", 6, 30))
    assert (read_positions(told), told.winning, told.sales) == ((1, 0, 0), 1, 2)


def test_the_next_purchase_begins_another_position():
    t = Teller().buy("A", 10, 100).sell("A", 10, 90).buy("A", 10, 100).sell("A", 10, 120)
    assert read_positions(whole(t)) == (2, 1, 0)


def test_what_left_unsold_is_lost_by_its_position():
    """10@100: 5 sold for 80 is a gain of 30, but 5@50 left: 30 - 50."""
    t = Teller().buy("A", 10, 100).sell("A", 5, 80).lose("A", 5)
    assert read_positions(whole(t)) == (1, 0, 0)


def test_a_position_with_a_sale_of_unknown_cost_does_not_count():
    t = Teller().gain("A", 5).buy("A", 5, 50).sell("A", 10, 200)
    assert read_positions(whole(t)) == (0, 0, 1)


def test_a_position_that_left_without_a_sale_does_not_count():
    t = Teller().buy("A", 10, 100).lose("A", 10)
    assert read_positions(whole(t)) == (0, 0, 1)


def test_what_was_swapped_away_was_not_closed():
    """Its cost goes on: 10@100 A become 5@100 B, sold for 130."""
    t = Teller().buy("A", 10, 100).swap("A", 10, "B", 5)
    assert read_positions(whole(t)) == (0, 0, 0)
    assert read_positions(whole(t.sell("B", 5, 130))) == (1, 1, 0)


def test_what_lies_in_an_order_is_held():
    """4 of 10@100 sold for 60, 6 put into an order, taken back, sold for 20: 20 and -40."""
    t = Teller().buy("A", 10, 100).sell("A", 4, 60)
    t.write("order_open", -FEE, FEE, [("A", -6)], orders=[("escrow", "A", 6)])
    assert read_positions(whole(t)) == (0, 0, 0)
    t.write("order_cancel", -FEE, FEE, [("A", 6)], orders=[("escrow", "A", -6)])
    assert read_positions(whole(t.sell("A", 6, 20))) == (1, 0, 0)


def test_a_gap_takes_the_position_too():
    """3 of A were gone before the sale: no sale after it has a result."""
    t = Teller().buy("A", 10, 100).slip("A", -3).sell("A", 7, 200)
    assert read_positions(whole(t)) == (0, 0, 1)


# ---- by time and by token ------------------------------------------------------------------------
def at(entry, hour):
    return entry._replace(block_time=hour * 3600)


def test_each_hour_and_day_has_its_own_sales():
    """Results 50 in hour 30, -20 in hour 47, -90 in hour 49: days 1 and 2."""
    t = sell_for(50, -20, -90)
    hours = [0, 30, 30, 47, 47, 49, 49]
    book = keep([at(entry, hour) for entry, hour in zip(t.entries, hours, strict=True)])
    worst = {period: one.worst for period, one in book.rows.items()}
    assert worst == {
        ALL: -90,
        Period(DAY, 24): -20,
        Period(DAY, 48): -90,
        Period(1, 30): 50,
        Period(1, 47): -20,
        Period(1, 49): -90,
    }
    days = {period: (one.days, one.first_day, one.last_day) for period, one in book.rows.items()}
    assert (days[ALL], days[Period(DAY, 24)], days[Period(1, 49)]) == (
        (2, 1, 2),
        (1, 1, 1),
        (1, 2, 2),
    )


def test_results_by_token():
    """A: 50 and -20, B: 30."""
    t = Teller().buy("A", 10, 100).sell("A", 5, 100).sell("A", 5, 30)
    book = keep(t.buy("B", 1, 10).sell("B", 1, 40).entries)
    told = {mint: (one.realized, one.sales, one.winning) for mint, one in book.tokens.items()}
    assert told == {"A": (30, 2, 1), "B": (30, 1, 1)}


def test_one_lamport_is_a_gain_and_none_is_not():
    """Of tokens of 1,000 lamports each, one sold for 1,001, one for 1,000, one for 999."""
    t = sell_for(1, 0, -1)
    book = keep(t.entries)
    assert [book.tokens[f"T{number}"].winning for number in range(3)] == [1, 0, 0]
    told = book.rows[ALL]
    assert (told.winning, told.sales, read_positions(told)) == (1, 3, (3, 1, 0))
    assert t.ledger.totals.winning == 1


def test_the_hour_never_falls():
    """50 in hour 30; -20 in hour 29 by a clock that stepped back, and 5 at no known time."""
    t = sell_for(50, -20, 5)
    entries = [
        at(entry, hour) for entry, hour in zip(t.entries, [0, 30, 30, 29, 29, 29, 29], strict=True)
    ]
    entries[-1] = entries[-1]._replace(block_time=None)
    rows = keep(entries).rows
    assert {period: (one.sales, one.best, one.worst) for period, one in rows.items()} == {
        ALL: (3, 50, -20),
        Period(DAY, 24): (3, 50, -20),
        Period(1, 30): (3, 50, -20),
    }


def test_the_risk_of_a_wallet_is_that_of_sol_alone():
    """10@100 Q are sold for 130 Q."""
    t = Teller().gain("Q", 100).swap("Q", 100, "A", 10).swap("A", 10, "Q", 130)
    assert t.ledger.accounts[USDC, ALL_HISTORY].totals.realized == 30
    assert t.ledger.accounts[USDC, ALL_HISTORY].risk == RiskBook()
    assert whole(t).sales == 0


# ---- since an attachment -------------------------------------------------------------------------
def test_a_span_has_a_risk_of_its_own():
    """Before: +900. In the span: 5 of 10@100 from before at unknown cost, then B from 10 to 30 and
    C from 100 to 40. The position in A began before and does not count.
    """
    t = Teller().buy("Z", 1, 100).sell("Z", 1, 1_000).buy("A", 10, 100)
    begin = t.entries[-1].block_time + 1
    t.sell("A", 10, 500).buy("B", 1, 10).sell("B", 1, 30).buy("C", 1, 100).sell("C", 1, 40)
    book = keep(t.entries, Span(1, begin * 1000, None), view=1)
    told = book.rows[ALL]
    assert (told.sales, told.best, told.worst) == (2, 20, -60)
    assert read_positions(told) == (2, 1, 1)
    assert {mint: one.realized for mint, one in book.tokens.items()} == {"B": 20, "C": -60}


# ---- an oracle -----------------------------------------------------------------------------------
def judge(entries):
    """(closed, won, uncounted) by a second reading: for each token, all that happened to it from
    empty to empty.
    """
    ledger, held, story, told = Ledger(), {}, {}, [0, 0, 0]
    for entry in entries:
        booked = ledger.apply(entry)[WHOLE]
        for balance in entry.balances:
            if balance.mint:
                held[balance.mint, balance.address] = balance.after
        if booked.sold:
            story.setdefault(booked.sold, []).append(("sold", booked.status, booked.result))
        for mint, cost in booked.left:
            story.setdefault(mint, []).append(("left", "", cost))
        for mint in [m for m in story if not any(n for (one, _), n in held.items() if one == m)]:
            told[judge_story(story.pop(mint))] += 1
    won, lost, uncounted = told
    return won + lost, won, uncounted


def judge_story(story):
    """0 won, 1 lost, 2 does not count."""
    sales = [(status, result) for what, status, result in story if what == "sold"]
    if not sales or any(status != "matched" for status, _ in sales):
        return 2
    left = sum(cost for what, _, cost in story if what == "left")
    return 0 if sum(result for _, result in sales) > left else 1


@effort(max_examples=80, deadline=None)
@given(steps=st.lists(STEP, min_size=4, max_size=40), choices=st.lists(st.booleans(), min_size=120))
def test_positions_are_those_of_the_oracle(steps, choices):
    teller, picks = Teller(), iter(choices)
    steps = name_accounts(teller, steps, picks)
    for _ in play(steps, teller, Silent()):
        pass
    book = keep(teller.entries)
    assert read_positions(book.rows.get(ALL, Stretch())) == judge(teller.entries)
