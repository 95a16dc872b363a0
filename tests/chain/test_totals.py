"""Positions, the worst case and warning signs: small handmade ledgers, deceptive histories with
honest twins, and an oracle that reads the whole history at once.
"""

from collections import Counter
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from sampling import examples
from teller import FEE, STEP, USDC, Teller, name_accounts, play, rebuild
from test_views import Seer

from chain.addresses import WRAPPED_SOL
from chain.ledger.inventory import SOL, UNDATED
from chain.ledger.ledger import Ledger
from chain.ledger.totals import (
    ALL_HISTORY,
    FLAT_ROUND_TRIPS,
    NOTHING,
    ONE_TOKEN,
    Span,
    Spans,
    Sums,
    add_up,
    find_drawdown,
    list_signs,
    round_down,
)

A_SOL = 10**9


def read(teller, money=SOL, view=ALL_HISTORY):
    return teller.ledger.accounts[money, view].sums


def count(teller, money=SOL, view=ALL_HISTORY):
    """(positions with a sale, won positions, open positions)"""
    sums = read(teller, money, view)
    return sums.positions, sums.positions_won, sums.held


# ---- positions -----------------------------------------------------------------------------------


def test_breaking_even_is_not_a_win():
    t = Teller().buy("A", 10, 100).sell("A", 10, 100).buy("A", 10, 100).sell("A", 10, 101)
    assert count(t) == (2, 1, 0)


@pytest.mark.parametrize("left, is_open", [(100, True), (99, False), (1, False), (0, False)])
def test_a_position_ends_below_one_percent_of_its_peak(left, is_open):
    """10,000 units: 100 are one percent. The next purchase belongs to the position or starts
    another.
    """
    t = Teller().buy("A", 10_000, 100).sell("A", 10_000 - left, 50)
    assert count(t) == (1, 0, is_open)
    assert count(t.buy("A", 5_000, 100).sell("A", 5_000 + left, 200))[0] == (1 if is_open else 2)


def test_a_remainder_carries_its_cost_into_the_next_position():
    """99 of 10,000@1,000,000 are left: 9,900. Sold with 1@1 for 9,901 they gain nothing."""
    t = Teller().buy("A", 10_000, 10**6).sell("A", 9_901, 500_000)
    assert count(t.buy("A", 1, 1).sell("A", 100, 9_901)) == (2, 0, 0)
    t = Teller().buy("A", 10_000, 10**6).sell("A", 9_901, 500_000)
    assert count(t.buy("A", 1, 1).sell("A", 100, 9_902)) == (2, 1, 0)


def test_units_in_an_order_are_held():
    t = Teller().buy("A", 10, 100).sell("A", 4, 60)
    t.write("order_open", -FEE, FEE, [("A", -6)], orders=[("escrow", "A", 6)])
    assert (count(t), read(t).open_cost) == ((1, 0, 1), 60)
    t.write("order_cancel", -FEE, FEE, [("A", 6)], orders=[("escrow", "A", -6)])
    assert count(t.sell("A", 6, 50)) == (1, 1, 0)


def test_a_round_trip_is_a_separate_position():
    """It won 20 while 10@100 are held."""
    t = Teller().buy("A", 10, 100).write("round_trip", 20, FEE, mint="A")
    assert count(t) == (1, 1, 1)
    assert count(t.write("round_trip", -FEE, FEE, mint="A")) == (2, 1, 1)


def test_a_sale_after_a_gap_does_not_close_its_position():
    assert count(Teller().buy("A", 10, 100).slip("A", -3).sell("A", 7, 200)) == (0, 0, 0)


def test_stablecoin_positions_have_their_expected_results():
    """10@100 Q sold for 130 Q are a position in Q; their cost in SOL is unknown."""
    t = Teller().gain("Q", 100).swap("Q", 100, "A", 10).swap("A", 10, "Q", 130)
    assert (count(t, USDC), count(t)) == ((1, 1, 0), (0, 0, 0))
    assert (read(t, USDC).worst_case, read(t, USDC).return_points) == (30, 3_000)


def test_a_view_counts_positions_that_began_in_it():
    """A from before is sold in it; B won, and C, bought in it, is open."""
    t = Teller().buy("A", 10, 100)
    begins = (t.entries[-1].block_time + 1) * 1000
    t.sell("A", 10, 500).buy("B", 1, 10).sell("B", 1, 30).buy("C", 2, 100).sell("C", 1, 40)
    ledger, _ = rebuild(t.entries, spans=Spans((Span(1, begins, None),)))
    sums = ledger.accounts[SOL, 1].sums
    assert (sums.positions, sums.positions_won, sums.held) == (2, 1, 1)
    # 30 - 10 + 40 - 50, and 50 are held.
    assert (sums.realized, sums.worst_case) == (10, -40)
    assert ledger.accounts[SOL, 1].positions.find_ends() == (20, -10)


def test_best_worst_and_holding_time_are_per_position():
    """The Teller's transactions are 10 seconds apart. A: 60 + 30 - 100 = -10 after 20 seconds; B:
    50 after 10; C is open, with one of two sold for 20 less than its cost.
    """
    t = Teller().buy("A", 10, 100).sell("A", 4, 60).sell("A", 6, 30)
    t.buy("B", 1, 10).sell("B", 1, 60).buy("C", 2, 100).sell("C", 1, 30)
    positions = t.ledger.accounts[SOL, ALL_HISTORY].positions
    assert positions.find_ends() == (50, -20)
    assert positions.holdings == {20: 1, 10: 1}


def test_holding_times_keep_two_digits():
    times = (0, 7, 99, 100, 109, 3_725, 86_399)
    assert [round_down(one) for one in times] == [0, 7, 99, 100, 100, 3_700, 86_000]


# ---- histories made to deceive, and their honest twins -------------------------------------------
def buy_winner(t):
    """0.1 SOL becomes 0.7: +0.6."""
    return t.buy("W", 1_000, A_SOL // 10).sell("W", 1_000, 7 * A_SOL // 10)


def park(t, lamports):
    """Deposit lamports at a venue, or return them (a negative number)."""
    t.write("other", -lamports, FEE)
    t.entries[-1] = t.entries[-1]._replace(parked=(("market", WRAPPED_SOL, lamports),))
    return t


def test_parked_money_counts_in_the_worst_case_until_returned():
    """0.6 realized, 8 SOL parked, 3 of them returned. An attachment that began in between has
    nothing at stake, and then the 2 parked since.
    """
    t = park(park(buy_winner(Teller()), 8 * A_SOL), -3 * A_SOL)
    begins = (t.entries[-1].block_time + 1) * 1000
    for parked, whole, since in ((0, 5, 0), (2, 7, 2), (-4, 3, 0), (-3, 0, 0)):
        park(t, parked * A_SOL).buy("B", 1, 7).sell("B", 1, 7)
        ledger, _ = rebuild(t.entries, spans=Spans((Span(1, begins, None),)))
        worst = [ledger.accounts[SOL, view].sums.worst_case for view in (ALL_HISTORY, 1)]
        assert worst == [6 * A_SOL // 10 - whole * A_SOL, -since * A_SOL]


# ---- return --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "cost, proceeds, points",
    [
        (10_000, 9_586, -414),
        (3, 4, 3_333),
        (6, 10, 6_667),
        (2 * 10**4, 10**4, -5_000),
        (0, 5, None),
    ],
)
def test_return_is_relative_to_the_cost_of_sold_units(cost, proceeds, points):
    """In hundredths of a percent: 1 of 3 is 33.33%, 4 of 6 is 66.67%."""
    assert Sums(cost=cost, proceeds=proceeds).return_points == points


def test_round_trips_are_not_in_the_return():
    """10@100 sold for 150, and 1,000 from a round trip."""
    t = Teller().buy("A", 10, 100).sell("A", 10, 150).write("round_trip", 1_000, FEE, mint="A")
    assert (read(t).realized, read(t).return_points) == (1_050, 5_000)


def test_a_return_excludes_units_of_unknown_cost():
    """5 of unknown cost and 5@50 are sold for 200: 100 on 50."""
    assert read(Teller().gain("A", 5).buy("A", 5, 50).sell("A", 10, 200)).return_points == 10_000


# ---- signs ---------------------------------------------------------------------------------------
def find_signs(teller):
    account = teller.ledger.accounts[SOL, ALL_HISTORY]
    best = max((one.realized for one in account.tokens.values()), default=0)
    return list_signs(account.sums, best)


@pytest.mark.parametrize(
    "results, is_one",
    [
        ((81, 19), True),
        ((80, 20), False),
        ((100, -50), True),
        ((30, 30, 40), False),
        ((-5, -1), False),
        ((50, -60), False),
    ],
)
def test_a_result_mostly_from_one_token_is_flagged(results, is_one):
    """More than four fifths of a positive total."""
    t = Teller()
    for number, result in enumerate(results):
        t.buy(f"T{number}", 10, 1_000).sell(f"T{number}", 10, 1_000 + result)
    assert (ONE_TOKEN in find_signs(t)) == is_one


def churn(t, times, net, pause=0):
    for _ in range(times):
        t.buy("A", 10, 1_000)
        t.slot += pause
        t.sell("A", 10, 1_000 + net)
    return t


@pytest.mark.parametrize(
    "times, net, pause, is_flat",
    [
        (10, -2 * FEE, 0, True),
        (10, 2 * FEE, 0, True),
        (10, 0, 50, True),
        (9, 0, 0, False),
        (10, -2 * FEE - 1, 0, False),
        (10, 2 * FEE + 1, 0, False),
        (10, 0, 51, False),
    ],
)
def test_ten_quick_pairs_below_their_fees_are_flagged(times, net, pause, is_flat):
    """The Teller's transactions are 10 seconds apart, and each has a fee of 5."""
    assert (FLAT_ROUND_TRIPS in find_signs(churn(Teller(), times, net, pause))) == is_flat


def test_split_pairs_and_pairs_behind_older_lots_count():
    t = Teller().buy("A", 10, 50)
    t.slot += 100
    for _ in range(5):
        t.buy("A", 5, 500).buy("A", 5, 500).sell("A", 4, 400).sell("A", 6, 600)
    churn(t, 5, -3)
    assert read(t).flat_pairs == 10


def test_sales_without_a_purchase_shortly_before_are_no_pairs():
    """Each of the ten sales brings less than its fee of 5."""
    t = Teller().buy("A", 100, 1_000)
    t.slot += 100
    for _ in range(10):
        t.sell("A", 10, 3)
    assert read(t).flat_pairs == 0


# ---- drawdown ------------------------------------------------------------------------------------
def test_drawdown_is_the_deepest_drop_of_the_curve():
    """0, 50, 30, 70, -20, 0: the deepest is from 70 to -20. 0, -40, -30: from the beginning."""
    assert find_drawdown([50, -20, 40, -90, 20]) == 90
    assert find_drawdown([-40, 10]) == 40
    assert find_drawdown([10, 0, 5]) == find_drawdown([]) == 0


@given(st.lists(st.integers(-5, 5), max_size=12))
def test_drawdown_is_the_largest_of_all_drops(changes):
    sums = [0, *accumulate(changes)]
    falls = [high - low for at, high in enumerate(sums) for low in sums[at:]]
    assert find_drawdown(after - before for before, after in pairwise(sums)) == max(falls)


# ---- windows -------------------------------------------------------------------------------------
def test_a_window_counts_only_increases_of_held_cost():
    """100 were held before it; then 60 of them sold for 90 and 30@30 bought: it fell by 30."""
    before = Sums(open_cost=100)
    assert Sums(realized=30, open_cost=70).minus(before).worst_case == 30
    assert Sums(realized=30, open_cost=130).minus(before).worst_case == 0
    assert Sums(realized=30, open_cost=130, cost_left=5).minus(before).worst_case == -5


def test_open_positions_count_in_every_window():
    before = Sums(ended=4, ended_won=1, held=9, held_sold=2, held_won=2)
    now = Sums(ended=7, ended_won=3, held=3, held_sold=1, held_won=1)
    window = now.minus(before)
    assert (window.positions, window.positions_won, window.held) == (4, 3, 3)


def test_disconnecting_moves_holdings_to_cost_left_and_ends_positions():
    sums = Sums(realized=10, cost_left=3, open_cost=40, ended=2, held=3, held_sold=1, held_won=1)
    given_up = sums.give_up()
    assert (given_up.cost_left, given_up.open_cost) == (43, 0)
    assert (given_up.positions, given_up.positions_won, given_up.held) == (3, 1, 0)
    assert given_up.worst_case == sums.worst_case == 10 - 3 - 40


LEVELS = {"held", "held_sold", "held_won"}


@effort(max_examples=examples(40), deadline=None)
@given(steps=st.lists(STEP, max_size=30), cuts=st.lists(st.integers(0, 30), max_size=3).map(sorted))
def test_windows_add_up_to_the_total(steps, cuts):
    """Each begins where the previous one ended; currently open cost is a level."""
    t, seen = Teller(), []
    for _ in play(steps, t, Silent()):
        seen.append(read(t))
    marks = [NOTHING, *[seen[cut] for cut in cuts if cut < len(seen)], read(t)]
    windows = [after.minus(before) for before, after in pairwise(marks)]
    whole, last = add_up(windows)._asdict(), read(t)._asdict()
    assert {n: v for n, v in whole.items() if n not in LEVELS} == {
        n: v for n, v in last.items() if n not in LEVELS
    }


class Silent:
    """An oracle that checks nothing."""

    def __getattr__(self, name):
        return lambda *_: None


# ---- an oracle -----------------------------------------------------------------------------------
class Reader(Seer):
    """Records what every step did to each mint: cost that arrived, known proceeds of a sale (None:
    no sale), and known units held afterwards. Positions are derived from it at the end.
    """

    def begin(self, begins):
        self.begins, self.story, self.bought, self.sales = begins, [], Counter(), {}
        self.counts, self.in_sol = True, True
        return self

    def put(self, mint, amount, cost):
        super().put(mint, amount, cost)
        if cost is not None and self.when >= self.begins:
            self.bought[mint] += cost
        self.note()

    def take(self, mint, amount):
        super().take(mint, amount)
        self.note()

    def sell(self, mint, amount, proceeds):
        before = self.sums["realized"] + self.sums["cost"]
        super().sell(mint, amount, proceeds)
        if self.counts:
            self.sales[mint] = self.sums["realized"] + self.sums["cost"] - before
        self.note()

    def swap(self, mint, amount, other, got, spent):
        there = len(self.piles)
        super().swap(mint, amount, other, got, spent)
        for pile in self.piles[there:]:
            if pile[2] is not None and pile[5] >= self.begins:
                self.bought[other] += pile[2]
        self.note()

    def note(self):
        units, cost = Counter(), Counter()
        for mint, _, known, left, left_cost, since in self.piles:
            if known is not None and since >= self.begins:
                units[mint] += left
                cost[mint] += left_cost
        self.story.append((dict(self.bought), self.sales, units, cost))
        self.bought, self.sales = Counter(), {}

    def list_positions(self, mint):
        """(cost, proceeds or None, whether it is open) of a mint's positions."""
        found, peak = [], 0
        for bought, sales, units, cost in self.story:
            is_open = bool(found) and found[-1][2]
            if mint in bought and not is_open:
                found.append([max(cost[mint], bought[mint]), None, True])
                peak, is_open = 0, True
            elif mint in bought:
                found[-1][0] += bought[mint]
            if mint in sales and is_open:
                found[-1][1] = (found[-1][1] or 0) + sales[mint]
            peak = max(peak, units[mint])
            if is_open and units[mint] < peak / 100:
                found[-1][2] = False
        return found

    def find_sums(self):
        """(positions, won, open, worst case)"""
        found = [one for mint in "ABC" for one in self.list_positions(mint)]
        sold = [one for one in found if one[1] is not None]
        worst = self.sums["realized"] - self.sums["cost_left"] - max(0, self.sum_open_cost())
        won = sum(proceeds > cost for cost, proceeds, _ in sold)
        return len(sold), won, sum(one[2] for one in found), worst


class Both:
    """Feeds a Teller's steps and times to Readers."""

    def __init__(self, teller, *readers):
        self.teller, self.readers = teller, readers

    def __getattr__(self, verb):
        def tell(*how):
            when = self.teller.entries[-1].block_time * 1000
            for reader in self.readers:
                reader.when, reader.counts = when, when >= reader.begins
                getattr(reader, verb)(*how)

        return tell


@effort(max_examples=examples(150), deadline=None)
@given(
    steps=st.lists(STEP, min_size=4, max_size=40),
    at=st.integers(100, 400),
)
def test_positions_and_worst_case_match_the_oracle(steps, at):
    """Over all history and since an attachment, after each step."""
    spans = Spans((Span(1, at * 1000, None),))
    teller = Teller(Ledger(spans=spans))
    readers = Reader(UNDATED).begin(UNDATED), Reader(at * 1000).begin(at * 1000)
    for _ in play(steps, teller, Both(teller, *readers)):
        for view, reader in enumerate(readers):
            account = teller.ledger.accounts.get((SOL, view))
            sums = account.sums if account else NOTHING
            told = (sums.positions, sums.positions_won, sums.held, sums.worst_case)
            assert told == reader.find_sums()


@effort(max_examples=examples(60), deadline=None)
@given(steps=st.lists(STEP, min_size=4, max_size=40), choices=st.lists(st.booleans(), min_size=120))
def test_incremental_holdings_match_a_recount(steps, choices):
    """In lots and per mint, on two accounts each; reapplied, the ledger is the same."""
    teller, picks = Teller(), iter(choices)
    for _ in play(name_accounts(teller, steps, picks), teller, Silent()):
        pass
    ledger, _ = rebuild(teller.entries, spans=Spans((Span(1, 200_000, None),)))
    for inventory in ledger.inventories.values():
        for known in inventory.known_costs:
            counted = inventory.count_held(known.begins)
            assert (known.cost, known.held) == (counted.cost, counted.held)
    again, _ = rebuild(teller.entries, spans=Spans((Span(1, 200_000, None),)))
    assert again.accounts == ledger.accounts
