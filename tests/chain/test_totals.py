"""Positions, the worst case, returns, warning signs and windows: small ledgers, and an oracle that
reads the whole history at once.
"""

from collections import Counter
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import All, Oracle, Watched
from sampling import examples
from teller import ANY_STEP, FEE, STEP, Silent, Teller, play, rebuild, write_steps
from textledgers import list_ledgers

from chain.addresses import WRAPPED_SOL
from chain.ledger.inventory import SOL
from chain.ledger.totals import (
    ALL_HISTORY,
    FLAT_ROUND_TRIPS,
    NOTHING,
    ONE_TOKEN,
    Account,
    Span,
    Spans,
    Sums,
    add_up,
    find_drawdown,
    list_signs,
    round_down,
)

LEDGERS = list_ledgers("""
# breaking even is no win, and a lamport more is one
buy 10 A for 100
sell 10 A for 100                   => positions 1 | won 0
buy 10 A for 100
sell 10 A for 101                   => positions 2 | won 1

# a position with one percent of its peak left is open
buy 10000 A for 100
sell 9900 A for 50                  => positions 1 | won 0 | open 1
buy 5000 A for 100
sell 5100 A for 200                 => positions 1

# below one percent it is closed, and the next purchase starts another
buy 10000 A for 100
sell 9901 A for 50                  => positions 1 | won 0 | open 0
buy 5000 A for 100
sell 5099 A for 200                 => positions 2

# the remainder's cost of 9,900 belongs to the next position, which gains nothing
buy 10000 A for 1000000
sell 9901 A for 500000
buy 1 A for 1
sell 100 A for 9901                 => positions 2 | won 0
buy 10000 A for 1000000
sell 9901 A for 500000
buy 1 A for 1
sell 100 A for 9902                 => positions 4 | won 1

# units in an order are held
buy 10 A for 100
sell 4 A for 60
order_open -5 -6 A at e 6 A         => positions 1 | won 0 | open 1 | at_risk 60
order_cancel -5 6 A at e -6 A
sell 6 A for 50                     => positions 1 | won 1 | open 0

# a round trip is a position of its own
buy 10 A for 100
round_trip 20 of A                  => positions 1 | won 1 | open 1
round_trip -5 of A                  => positions 2 | won 1 | open 1

# a sale after a gap closes no position
buy 10 A for 100
slip -3 A
sell 7 A for 200                    => positions 0 | won 0 | open 0

# a position in a stablecoin is none in SOL
gain 100 Q
swap 100 Q for 10 A
swap 10 A for 130 Q                 => Q: positions 1 | Q: won 1 | Q: worst 30 | Q: return 3000
                                     | positions 0 | open 0

# an attachment counts the positions that began in it
buy 10 A for 100
attach
sell 10 A for 500
buy 1 B for 10
sell 1 B for 30
buy 2 C for 100
sell 1 C for 40                     => since: positions 2 | since: won 1 | since: open 1
                                     | since: realized 20-10 | since: worst 10-50

# a purchase and sale in parts are one quick pair, also behind older lots
buy 10 A for 50
dated 300 buy 5 A for 500
dated 300 buy 5 A for 500
dated 310 sell 4 A for 400          => flat_pairs 0
dated 310 sell 6 A for 600          => flat_pairs 1
dated 310 buy 10 A for 1000
dated 320 sell 10 A for 997         => flat_pairs 2

# a pair is quick within a minute, and flat if it brings or costs no more than its fees of 10
dated 300 buy 10 A for 1000
dated 360 sell 10 A for 1010        => flat_pairs 1
dated 400 buy 10 A for 1000
dated 410 sell 10 A for 990         => flat_pairs 2
dated 500 buy 10 A for 1000
dated 561 sell 10 A for 1000        => flat_pairs 2
dated 600 buy 10 A for 1000
dated 610 sell 10 A for 1011        => flat_pairs 2
dated 700 buy 10 A for 1000
dated 710 sell 10 A for 989         => flat_pairs 2

# each token has its result and its won sales
buy 20 A for 100
sell 10 A for 80                    => tokens A 30 1/1
sell 10 A for 50
buy 10 B for 100
sell 10 B for 70                    => tokens A 30 1/2 B -30 0/1

# sales without a purchase shortly before are no pairs, even if they bring less than their fee
buy 100 A for 1000
dated 300 sell 10 A for 3
dated 310 sell 10 A for 3           => flat_pairs 0
""")


@pytest.mark.parametrize("title", LEDGERS)
def test_each_small_ledger_has_the_written_sums(title):
    LEDGERS[title].check()


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


def test_parked_money_counts_in_the_worst_case_until_returned():
    """8 SOL parked, 3 of them returned. An attachment that began in between has nothing at stake,
    and then the 2 parked since.
    """
    t = Teller()

    def park(sol):
        lamports = sol * 10**9
        t.write("other", -lamports, FEE)
        t.entries[-1] = t.entries[-1]._replace(parked=(("market", WRAPPED_SOL, lamports),))

    park(8)
    park(-3)
    begins = (t.entries[-1].block_time + 1) * 1000
    for sol, whole, since in ((0, 5, 0), (2, 7, 2), (-4, 3, 0), (-3, 0, 0)):
        park(sol)
        t.buy("B", 1, 7).sell("B", 1, 7)
        ledger, _ = rebuild(t.entries, spans=Spans((Span(1, begins, None),)))
        worst = [ledger.accounts[SOL, view].sums.worst_case for view in (ALL_HISTORY, 1)]
        assert worst == [-whole * 10**9, -since * 10**9]


def test_return_is_relative_to_the_cost_of_sold_units():
    """In hundredths of a percent: 1 of 3 is 33.33%, 4 of 6 is 66.67%."""
    returns = {(10_000, 9_586): -414, (3, 4): 3_333, (6, 10): 6_667, (20, 10): -5_000, (0, 5): None}
    for (cost, proceeds), points in returns.items():
        assert Sums(cost=cost, proceeds=proceeds).return_points == points


SIGNS = {(100, 80, 9): [], (100, 81, 9): [ONE_TOKEN], (50, 100, 0): [ONE_TOKEN], (-1, 50, 0): []}
SIGNS |= {(0, 0, 10): [FLAT_ROUND_TRIPS], (10, 9, 11): [ONE_TOKEN, FLAT_ROUND_TRIPS]}


def test_more_than_four_fifths_from_one_token_and_ten_flat_pairs_are_signs():
    for (realized, best_token, pairs), signs in SIGNS.items():
        assert list_signs(Sums(realized=realized, flat_pairs=pairs), best_token) == signs


# ---- drawdown and windows ------------------------------------------------------------------------
@given(st.lists(st.integers(-5, 5), max_size=12))
def test_drawdown_is_the_largest_of_all_drops(changes):
    sums = [0, *accumulate(changes)]
    falls = [high - low for at, high in enumerate(sums) for low in sums[at:]]
    assert find_drawdown(changes) == max(falls)


def test_a_window_counts_only_increases_of_held_cost():
    """100 were held before it; then 60 of them sold for 90 and 30@30 bought: it fell by 30."""
    before = Sums(open_cost=100)
    assert Sums(realized=30, open_cost=70).minus(before).worst_case == 30
    assert Sums(realized=30, open_cost=130).minus(before).worst_case == 0
    assert Sums(realized=30, open_cost=130, cost_left=5).minus(before).worst_case == -5


def test_open_positions_count_in_every_window():
    before = Sums(ended=4, ended_won=1, held=9, held_sold=2, held_won=2)
    window = Sums(ended=7, ended_won=3, held=3, held_sold=1, held_won=1).minus(before)
    assert (window.positions, window.positions_won, window.held) == (4, 3, 3)


def test_disconnecting_moves_holdings_to_cost_left_and_ends_positions():
    sums = Sums(realized=10, cost_left=3, open_cost=40, ended=2, held=3, held_sold=1, held_won=1)
    given_up = sums.give_up()
    assert (given_up.cost_left, given_up.open_cost) == (43, 0)
    assert (given_up.positions, given_up.positions_won, given_up.held) == (3, 1, 0)
    assert given_up.worst_case == sums.worst_case == 10 - 3 - 40


@settings(max_examples=examples(40), deadline=None)
@given(steps=st.lists(STEP, max_size=30), cuts=st.lists(st.integers(0, 30), max_size=3).map(sorted))
def test_windows_add_up_to_the_total(steps, cuts):
    """Each begins where the previous one ended; currently open positions count in all of them."""
    teller = Teller()
    account = teller.ledger.accounts[SOL, ALL_HISTORY]
    seen = [account.sums for _ in play(steps, teller, Silent())]
    marks = [NOTHING, *[seen[cut] for cut in cuts if cut < len(seen)], account.sums]
    whole = add_up(after.minus(before) for before, after in pairwise(marks))
    levels = {name: getattr(account.sums, name) for name in ("held", "held_sold", "held_won")}
    assert whole._replace(**levels) == account.sums


# ---- an oracle -----------------------------------------------------------------------------------
class PositionOracle(Oracle):
    """Notes after each step what it did to each mint: cost that arrived, known proceeds of a sale
    (None: no sale), and known units held afterwards. Positions are derived from it at the end.
    """

    def __init__(self, *how):
        super().__init__(*how)
        self.story, self.bought, self.sales = [], Counter(), {}

    def add(self, mint, amount, cost, since=None, tag=None):
        super().add(mint, amount, cost, since, tag)
        if cost is not None and self.piles[-1][5] >= self.begins:
            self.bought[mint] += cost

    def sell(self, mint, amount, proceeds):
        before = self.sums["proceeds"]
        super().sell(mint, amount, proceeds)
        if self.counts:
            self.sales[mint] = self.sums["proceeds"] - before

    def note(self):
        units, cost = Counter(), Counter()
        for mint, _, _, left, left_cost, *_ in self.list_known():
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


@settings(max_examples=examples(150), deadline=None)
@given(steps=st.lists(STEP, min_size=4, max_size=40), at=st.integers(100, 400))
def test_positions_and_worst_case_match_the_oracle(steps, at):
    """Over all history and since an attachment, after each step."""
    teller = Watched((Span(1, at * 1000, None),), oracle=PositionOracle)
    for _ in play(steps, teller, All(teller)):
        for view, oracle in teller.oracles.items():
            oracle.note()
            sums = teller.ledger.accounts.get((SOL, view), Account()).sums
            told = (sums.positions, sums.positions_won, sums.held, sums.worst_case)
            assert told == oracle.find_sums()


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(ANY_STEP, min_size=4, max_size=40))
def test_incremental_holdings_match_a_recount(drawn):
    """In lots and orders of every currency; reapplied, the ledger is the same."""
    entries = write_steps(drawn, Teller(lamports=10**12, Q=90, A=20)).entries
    ledger, again = [rebuild(entries, spans=Spans((Span(1, 200_000, None),)))[0] for _ in range(2)]
    for inventory in ledger.inventories.values():
        for known in inventory.known_costs:
            counted = inventory.count_held(known.begins)
            assert (known.cost, known.held) == (counted.cost, counted.held)
    assert again.accounts == ledger.accounts
