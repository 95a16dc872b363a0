"""A wallet's holdings in detail: lots and slices, escrows, costs carried over by swaps, and average
cost. Each ledger shows its arithmetic.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from teller import SOL_STEP, write_sol_steps
from textledgers import list_ledgers

from chain.ledger.inventory import (
    UNDATED,
    AverageCost,
    Inventory,
    Lot,
    Opening,
    Pool,
    Portion,
    Position,
    find_lower_median,
    is_dust,
)

LEDGERS = list_ledgers("""
# the oldest lot leaves first; by average, 20 cost 300 and 15 of them 225
buy 10 A for 100
buy 10 A for 200
lose 15 A                           => left A 100+100 | A 5@100 | pool A 5@75
lose 5 A                            => left A 100 | A -

# opening inventory precedes all lots
before 500 4 A/2
buy 10 A for 100
sell 6 A/2 for 60                   => partial 20-20 [opening_inventory_unknown] | A 8@80
                                     | pool A 5@50 3@?

# each slice carries its cost and its part of the 7 lamports spent, 2 and 2 and 3
buy 10 A for 100
gain 10 A
buy 5 A for 70
swap 25 A for 50 B plus 7           => B 20@102 20@? 10@73 | pool B 30@174 20@? | its other -2

# a slice too small for a unit joins the previous one
buy 6 A for 60
buy 1 A for 10
swap 7 A for 3 B                    => B 3@70

# of three, only the last is too small: 6 and 7 of 13 are 2 and 4 of 6
buy 6 A for 60
buy 6 A for 60
buy 1 A for 10
swap 13 A for 6 B                   => B 2@60 4@70

# two slices are enough together: 2 and 6 of 8 are 1 and 3 of 4
buy 1 A for 10
buy 1 A for 10
buy 6 A for 60
swap 8 A for 4 B                    => B 1@20 3@60

# an order keeps its units at their cost, and uses the oldest first
buy 10 A for 100
buy 10 A for 200
order_open -15 A at e 15 A          => A 5@100 | open_cost 300 | pool A 5@75
order_open -2 A at e 2 A            => A 3@60 | open_cost 300
order_fill 24 B at e -12 A          => B 20@100 4@40 | pool B 24@180
order_fill 10 B at e -5 A           => B 20@100 4@40 6@60 4@40 | escrows - | open_cost 300

# units in an order that the ledger doesn't know have an unknown cost
buy 10 A for 100
order_open -10 A at e 10 A
order_fill 50 B at e -100 A         => B 5@100 45@? | escrows - | pool B 5@100 45@?

# an order without a change keeps all units; unknown costs stay unknown
gain 10 A
order_open -10 A at e 10 A
order_fill 0 B at e 4 A             => escrows e
order_cancel 3 A at e -4 A          => A 3@? | escrows e

# returned units regain their place, after those of their lot that stayed: 1 of 2@40 is lost
buy 10 A for 100
buy 10 A for 200
order_open -15 A at e 15 A
order_cancel 11 A at e -12 A        => A 10@100 5@100 1@20 | left A 20 | pool A 16@240

# units from several orders are sold together
buy 10 A for 100
gain 10 A
order_open -8 A at e 8 A
order_open -8 A at f 8 A
order_fill 90 at e -8 A at f -8 A   => partial 56-100 | average 45-80 in 0 | escrows -

# a sale costs the average of all purchases: 10 of 20 cost 150, and 100 first in, first out
buy 10 A for 100
buy 10 A for 200
sell 10 A for 180                   => matched 180-100 | average 180-150 in 1 | pool A 10@150

# a sale uses known and unknown units proportionally: 3 and 1 of 4, for a quarter of the proceeds
gain 6 A
buy 2 A for 40
sell 4 A for 100                    => average 25-20 in 0 | pool A 1@20 3@?

# less than a thousandth of unknown cost keeps a sale matched, for 4002 * 2000 // 2001
gain 1 A
buy 2000 A for 2000
sell 2001 A for 4002                => average 4000-2000 in 1

# orders keep the average cost
buy 10 A for 100
buy 10 A for 200
order_open -4 A at e 4 A
order_fill 3 B at e -3 A
order_cancel 1 A at e -1 A          => pool B 3@45 | pool A 17@255

# a sale without a result counts nowhere
buy 10 A for 100
sell 90 -4 A of A [value_unexplained]   => average 0 in 0 | pool A 6@60
slip -1 A
sell 2 A for 90                     => unmatched [incomplete_history] | average 0 in 0
""")


@pytest.mark.parametrize("title", LEDGERS)
def test_each_small_ledger_holds_the_written_lots(title):
    LEDGERS[title].check()


def read(slices):
    return [(one.amount, one.cost, one.lot.origin) for one in slices]


def test_units_beyond_the_holdings_have_no_origin():
    inventory = Inventory()
    inventory.put("A", "x", 4, 40)
    slices, portion = inventory.cut("A", 6)
    assert read(slices) == [(4, 40, "x"), (2, None, None)] and portion == Portion(4, 40, 2)
    nowhere = slices[1].lot
    assert (nowhere.number, nowhere.amount, nowhere.left) == ((0,), 2, 0)
    slices, portion = inventory.cut("B", 3)
    assert read(slices) == [(3, None, None)] and portion == Portion(0, 0, 3)


def test_a_lot_knows_when_its_cost_became_known_and_is_never_empty():
    inventory = Inventory()
    inventory.put("A", "x", 0, 0)
    assert inventory.lots == {}
    inventory.put("A", "y", 5, 50, 1_699_999_999_000)
    assert inventory.lots["A"] == [Lot((1, 1), "y", 5, 50, 5, 50, 1_699_999_999_000)]
    inventory.lay(Opening((0, 5, 0, "an account"), "A", 4, 6))
    assert inventory.lots["A"][0] == Lot((0, 5, 0, "an account"), None, 4, None, 4, None)
    assert inventory.average.pools["A"] == Pool(5, 50, 4)


def test_a_currency_has_no_lots_of_itself():
    inventory = Inventory("Q")
    inventory.put("Q", "x", 5)
    inventory.lay(Opening((0, 5, 0, "an account"), "Q", 4, 6))
    assert inventory.cut("Q", 9) == ([], Portion(0, 0, 0)) and inventory == Inventory("Q")


def test_all_cost_is_unknown_in_an_unused_currency():
    """5 of x and 5 of y are in the order, 5 of y and 10 of x are left, and 3 Q, which are the
    currency.
    """
    inventory = Inventory()
    for amount, cost, origin in ((5, 50, "x"), (10, 200, "y"), (10, None, "x")):
        inventory.put("A", origin, amount, cost)
    inventory.put("Q", "z", 3, 30)
    inventory.hold("e", "A", inventory.cut("A", 10))
    other = inventory.convert("Q")
    assert other.lots == {
        "A": [Lot((1, 2), "y", 10, None, 5, None), Lot((1, 3), "x", 10, None, 10, None)]
    }
    assert read(other.escrows["e"].slices) == [(5, None, "x"), (5, None, "y")]
    assert {one.since for one in other.escrows["e"].slices} == {UNDATED}
    assert other.escrows["e"].pool == Pool(0, 0, 10)
    assert other.average == AverageCost(pools={"A": Pool(0, 0, 15)})
    assert (inventory.count_held().cost, other.count_held().cost) == (50 + 200 + 30, 0)
    # Units put into one inventory are in no other and come next in both.
    other.put("A", "w", 1, 9)
    assert other.lots["A"][-1].number == (1, 5) and len(inventory.lots["A"]) == 2
    assert read(inventory.cut("A", 5).slices) == [(5, 100, "y")] and other.lots["A"][0].left == 5


def test_a_swap_for_nothing_leaves_no_lot():
    inventory = Inventory()
    inventory.put("A", "x", 2, 20)
    inventory.put("A", "y", 3, 30)
    inventory.carry(inventory.cut("A", 5), "B", "swap", 0, 99_000, 0)
    assert inventory.lots == {"A": []}


@pytest.mark.parametrize("quantity", [0, -4])
def test_an_empty_fill_keeps_all_units(quantity):
    inventory = Inventory()
    inventory.put("A", "x", 10, 100)
    inventory.hold("e", "A", inventory.cut("A", 10))
    assert inventory.release("e", "A", quantity) == ("A", [], Portion(0, 0, 0))
    assert [one.cost for one in inventory.escrows["e"].slices] == [100]


def test_less_than_a_thousandth_is_dust():
    assert [is_dust(1, 1_000), is_dust(1, 1_001), is_dust(0, 1)] == [False, True, True]


# ---- since when a cost is known ------------------------------------------------------------------
def test_a_carried_cost_starts_at_the_earliest_purchase():
    """2 from 1_000 and 4 from 3_000 are swapped at 5_000 for 6 B: lots from 1_000 and 3_000.
    Swapped for 1 C they are one lot from 1_000. Undated lots stay undated.
    """
    inventory = Inventory()
    for amount, since in ((2, 1_000), (4, 3_000)):
        inventory.put("A", "x", amount, 10, since)
    inventory.carry(inventory.cut("A", 6), "B", "swap", 6, 5_000, 0)
    assert [lot.since for lot in inventory.lots["B"]] == [1_000, 3_000]
    inventory.carry(inventory.cut("B", 6), "C", "swap", 1, 7_000, 0)
    assert [(lot.left_cost, lot.since) for lot in inventory.lots["C"]] == [(20, 1_000)]
    inventory.carry(inventory.cut("C", 1), "D", "swap", 1, UNDATED, 0)
    assert [(lot.left_cost, lot.since) for lot in inventory.lots["D"]] == [(20, UNDATED)]


def test_a_view_leaves_out_earlier_costs():
    """3@30 from 1_000, 1@10 of which is in an order, and 4@80 from 2_000."""
    inventory = Inventory()
    inventory.put("A", "x", 3, 30, 1_000)
    inventory.put("A", "y", 4, 80, 2_000)
    inventory.hold("e", "A", inventory.cut("A", 1))
    begins = (UNDATED, 1_000, 2_000, 2_001)
    assert [inventory.count_held(one).cost for one in begins] == [110, 110, 80, 0]
    shown = [inventory.list_positions({"A": 6}, one)[0] for one in begins]
    known = [(100, 0), (100, 0), (80, 2), (None, 6)]
    assert shown == [Position("A", 6, 6, *one) for one in known]
    inventory.put_back(inventory.release("e", "A", 1), 1)
    found = [(lot.amount, lot.cost, lot.left, lot.since) for lot in inventory.lots["A"]]
    assert found == [(3, 30, 2, 1_000), (1, 10, 1, 1_000), (4, 80, 4, 2_000)]


def test_returned_units_of_a_mint_no_longer_held_are_restored():
    inventory = Inventory()
    inventory.put("A", "x", 10, 100)
    inventory.hold("e", "A", inventory.cut("A", 10))
    inventory.lots.clear()
    inventory.put_back(inventory.release("e", "A", 10), 10)
    assert inventory.lots == {"A": [Lot((1, 1), "x", 10, 100, 10, 100)]}


def test_positions_show_their_known_cost():
    inventory = Inventory()
    put = ("A", 5, 100), ("A", 4, None), ("C", 3, None), ("B", 2, 0), ("D", 1, 1)
    for mint, amount, cost in put:
        inventory.put(mint, "z", amount, cost)
    inventory.cut("D", 1)
    assert inventory.list_positions({"A": 6, "B": 0, "C": 9, "D": 1}) == [
        Position("A", 9, 6, 100, 4),
        Position("B", 2, 0, 0, 0),
        Position("C", 3, 9, None, 3),
    ]


@pytest.mark.parametrize(
    "counted, middle",
    [
        ([], None),
        ([(4, 1)], 4),
        ([(1, 1), (5, 1)], 1),
        ([(1, 2), (5, 2)], 1),
        ([(1, 1), (5, 2)], 5),
        ([(1, 1), (2, 1), (3, 1), (9, 2)], 3),
    ],
)
def test_the_lower_median_is_used(counted, middle):
    assert find_lower_median(counted) == middle


def test_untouched_balances_sort_after_touched_ones():
    opening = Opening.untouched("an account", "A", 5, 6)
    assert opening == Opening((0, 2**63, 0, "an account"), "A", 5, 6)
    assert opening.rank > (0, 2**62, 9, "z")


def test_an_undated_cost_counts_only_over_all_history():
    lot = Lot((1, 1), "x", 7, 70, 7, 70)
    assert (lot.since, lot.see_cost(UNDATED), lot.see_cost(0)) == (UNDATED, 70, None)
    assert lot.cut(7).see_cost(0) is None and lot.left_cost == 0


# ---- average cost --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "held, amount, taken, left",
    [
        ((3, 100, 1), 0, (0, 0, 0), (3, 100, 1)),
        # 1 of 4 includes a quarter of 1 of unknown cost, rounded to none: 1 of 3 for 100 // 3.
        ((3, 100, 1), 1, (1, 33, 0), (2, 67, 1)),
        # 3 of 4 include 3 // 4 of unknown cost, rounded to none: all 3 known units leave with their
        # whole cost.
        ((3, 100, 1), 3, (3, 100, 0), (0, 0, 1)),
        ((3, 100, 1), 4, (3, 100, 1), (0, 0, 0)),
        ((3, 100, 1), 5, (3, 100, 2), (0, 0, 0)),
        ((0, 0, 2), 1, (0, 0, 1), (0, 0, 1)),
        ((0, 0, 0), 7, (0, 0, 7), (0, 0, 0)),
    ],
)
def test_taken_and_remaining_units_add_up(held, amount, taken, left):
    pool = Pool(*held)
    assert pool.take(amount) == taken and pool == Pool(*left)


@pytest.mark.parametrize(
    "sold, proceeds, realized, matched",
    [
        ((0, 0, 4), 100, 0, 0),
        # 100 * 3 // 4 - 20, 100 * 999 // 1000 - 20 and 2002 * 2000 // 2001 - 20.
        ((3, 20, 1), 100, 55, 0),
        ((999, 20, 1), 100, 79, 0),
        ((2_000, 20, 1), 2_002, 1_980, 1),
        ((4, 20, 0), 15, -5, 1),
    ],
)
def test_a_sale_counts_units_of_known_cost(sold, proceeds, realized, matched):
    average = AverageCost(realized=1, matched=1)
    average.sell(Portion(*sold), proceeds)
    assert (average.realized, average.matched) == (1 + realized, 1 + matched)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(SOL_STEP, max_size=40))
def test_both_methods_hold_the_same_units(drawn):
    """Units match exactly. Costs are known to both or neither if all of a mint was bought."""
    inventory = write_sol_steps(drawn).inventory
    for mint, held in inventory.average.pools.items():
        lots = inventory.lots.get(mint, [])
        assert held.known + held.unknown == sum(lot.left for lot in lots)
        assert min(held.known, held.unknown) >= 0 and bool(held.known) >= bool(held.cost)
    bought = [step for step in drawn if step[0] == "buy" and not step[5]]
    only = write_sol_steps(bought)
    costs = [pool.cost for pool in only.inventory.average.pools.values()]
    assert sum(costs) == only.ledger.reconcile().open_cost
