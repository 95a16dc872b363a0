"""A wallet's holdings in detail: lots and slices, escrows, costs carried over by swaps, and average
cost. `(10, 100, "x")` is ten units that cost 100 lamports and arrived in x. Each test shows its
arithmetic.
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
    Carried,
    Cut,
    Inventory,
    Lot,
    Opening,
    Pool,
    Portion,
    Position,
    Slice,
    find_lower_median,
    is_dust,
    join_released,
)


def hold(*lots, mint="A"):
    """An Inventory of a mint's lots, given as (amount, cost, origin)."""
    inventory = Inventory()
    for amount, cost, origin in lots:
        inventory.put(mint, origin, amount, cost)
    return inventory


def read(slices):
    return [(one.amount, one.cost, one.lot.origin) for one in slices]


def lost_cost(slices):
    return sum(one.cost for one in slices)


def read_lots(inventory, mint="A"):
    return [(one.left, one.left_cost, one.origin) for one in inventory.lots.get(mint, [])]


# ---- in and out
def test_the_oldest_lot_leaves_first():
    """15 of 10@100 10@200: the first whole and half of the second. By average, 20 cost 300: 300 *
    15 // 20 = 225.
    """
    inventory = hold((10, 100, "x"), (10, 200, "y"))
    assert [lot.number for lot in inventory.lots["A"]] == [(1, 1), (1, 2)]
    slices, portion = inventory.cut("A", 15)
    assert read(slices) == [(10, 100, "x"), (5, 100, "y")] and portion == Portion(15, 225, 0)
    assert read_lots(inventory) == [(5, 100, "y")]
    slices, portion = inventory.cut("A", 5)
    assert read(slices) == [(5, 100, "y")] and portion == Portion(5, 75, 0)
    assert inventory.lots == {"A": []}


def test_units_beyond_the_holdings_have_no_origin():
    inventory = hold((4, 40, "x"))
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
    (lot,) = inventory.lots["A"]
    assert lot == Lot((1, 1), "y", 5, 50, 5, 50, 1_699_999_999_000)
    assert inventory.average.pools["A"] == Pool(5, 50, 0)


def test_opening_inventory_precedes_all_lots():
    """4 of unknown cost before 10@100. By average, 4 of 14 are 4 * 4 // 14 = 1 unknown and 3 known,
    which cost 100 * 3 // 10 = 30.
    """
    inventory = hold((10, 100, "x"))
    inventory.lay(Opening((0, 5, 0, "an account"), "A", 4, 6))
    assert inventory.lots["A"][0] == Lot((0, 5, 0, "an account"), None, 4, None, 4, None)
    slices, portion = inventory.cut("A", 4)
    assert read(slices) == [(4, None, None)] and portion == Portion(3, 30, 1)
    inventory.lay(Opening((0, 6, 0, "another"), "B", 2, 0))
    assert read_lots(inventory, "B") == [(2, None, None)]


def test_a_currency_has_no_lots_of_itself():
    inventory = Inventory("Q")
    inventory.put("Q", "x", 5)
    inventory.lay(Opening((0, 5, 0, "an account"), "Q", 4, 6))
    assert inventory.cut("Q", 9) == ([], Portion(0, 0, 0)) and inventory == Inventory("Q")


def test_all_cost_is_unknown_in_an_unused_currency():
    """5 of x and 5 of y are in the order, 5 of y and 10 of x are left, and 3 Q, which are the
    currency.
    """
    inventory = hold((5, 50, "x"), (10, 200, "y"), (10, None, "x"))
    inventory.put("Q", "z", 3, 30)
    inventory.hold("e", "A", inventory.cut("A", 10))
    other = inventory.convert("Q")
    assert read_lots(other) == [(5, None, "y"), (10, None, "x")]
    assert [lot.number for lot in other.lots["A"]] == [(1, 2), (1, 3)]
    assert {lot.since for lot in other.lots["A"]} == {UNDATED}
    assert read(other.escrows["e"].slices) == [(5, None, "x"), (5, None, "y")]
    assert other.escrows["e"].pool == Pool(0, 0, 10) and "Q" not in other.lots
    assert other.average == AverageCost(pools={"A": Pool(0, 0, 15)})
    assert (inventory.count_held().cost, other.count_held().cost) == (50 + 200 + 30, 0)
    # Units put into one order are in no other and come next in both.
    other.put("A", "w", 1, 9)
    assert other.lots["A"][-1].number == (1, 5) and len(inventory.lots["A"]) == 2
    assert read(inventory.cut("A", 5).slices) == [(5, 100, "y")] and other.lots["A"][0].left == 5


def test_less_than_a_thousandth_is_dust():
    assert [is_dust(1, 1_000), is_dust(1, 1_001), is_dust(0, 1)] == [False, True, True]


# ---- from one mint to another
def test_each_slice_carries_its_cost():
    """10@100, 10 of unknown cost and 5@70 become 50 B for 7 lamports: 50 * 10 // 25 = 20 twice, and
    10; 7 * 10 // 25 = 2 twice, and 3. By average, 15 of 25 are known and cost 170: 30 B for 170 + 7
    * 15 // 25 = 174, and 20 of unknown cost.
    """
    inventory = hold((10, 100, "x"), (10, None, "y"), (5, 70, "z"))
    cut = inventory.cut("A", 25)
    carried = inventory.carry(cut, "B", "swap", 50, 99_000, 7)
    assert [(read(one.slices), one.spent) for one in carried] == [
        ([(10, 100, "x")], 2),
        ([(10, None, "y")], 2),
        ([(5, 70, "z")], 3),
    ]
    assert read_lots(inventory, "B") == [(20, 102, "swap"), (20, None, "swap"), (10, 73, "swap")]
    assert inventory.average.pools["B"] == Pool(30, 174, 20)


def test_a_known_cost_merged_into_an_unknown_one_is_lost():
    """1@5 is too small for a unit of 2 B (2 * 1 // 4 = 0), so it is merged with 3 of unknown
    cost.
    """
    inventory = hold((1, 5, "x"), (3, None, "y"))
    cut = inventory.cut("A", 4)
    assert inventory.carry(cut, "B", "swap", 2, 99_000, 9) == [Carried(cut.slices, 9)]
    assert read_lots(inventory, "B") == [(2, None, "swap")]


@pytest.mark.parametrize(
    "amounts, got, lots",
    [
        # 3 * 1 // 7 = 0: the last is too small and is merged with the previous one.
        ((6, 1), 3, [(3, 70)]),
        # 6 * 6 // 13 = 2 and 2, 6 * 1 // 13 = 0: 6 and 7 divide 6 as 6 * 6 // 13 = 2, and 4.
        ((6, 6, 1), 6, [(2, 60), (4, 70)]),
        # 4 * 1 // 8 = 0, but two are 4 * 2 // 8 = 1, which is enough: 2 and 6 divide 4 as 1 and 3.
        ((1, 1, 6), 4, [(1, 20), (3, 60)]),
        # Zero out of zero is never enough.
        ((2, 3), 0, []),
    ],
)
def test_slices_below_one_unit_are_merged(amounts, got, lots):
    """Each unit of A cost 10."""
    inventory = hold(*((amount, 10 * amount, "x") for amount in amounts))
    cut = inventory.cut("A", sum(amounts))
    inventory.carry(cut, "B", "swap", got, 99_000, 0)
    assert read_lots(inventory, "B") == [(*lot, "swap") for lot in lots]


# ---- orders
def ordered():
    """15 of 10@100 10@200 are in an order; by average they cost 225."""
    inventory = hold((10, 100, "x"), (10, 200, "y"))
    inventory.hold("e", "A", inventory.cut("A", 15))
    return inventory


def test_an_order_keeps_its_units_at_their_cost():
    inventory = ordered()
    escrow = inventory.escrows["e"]
    assert (escrow.mint, escrow.pool) == ("A", Pool(15, 225, 0))
    assert read(escrow.slices) == [(10, 100, "x"), (5, 100, "y")]
    inventory.hold("e", "A", inventory.cut("A", 2))
    assert read(escrow.slices) == [(10, 100, "x"), (5, 100, "y"), (2, 40, "y")]
    # 75 * 2 // 5 = 30
    assert escrow.pool == Pool(17, 255, 0)


def test_an_order_uses_the_oldest_units_first():
    """12 of 10@100 5@100: 100 * 2 // 5 = 40 of the second. By the average 225 * 12 // 15 = 180."""
    inventory = ordered()
    mint, slices, portion = inventory.release("e", "A", 12)
    assert (mint, read(slices)) == ("A", [(10, 100, "x"), (2, 40, "y")])
    assert portion == Portion(12, 180, 0)
    assert read(inventory.escrows["e"].slices) == [(3, 60, "y")]
    _, slices, portion = inventory.release("e", "A", 3)
    assert read(slices) == [(3, 60, "y")] and portion == Portion(3, 45, 0)
    assert inventory.escrows == {}


def test_order_units_missing_from_the_ledger_have_unknown_cost():
    """10@100 and 5@100 were known; a stranger sent 85 more."""
    inventory = ordered()
    _, slices, portion = inventory.release("e", "A", 100)
    assert read(slices) == [(10, 100, "x"), (5, 100, "y"), (85, None, None)]
    assert portion == Portion(15, 225, 85) and inventory.escrows == {}


@pytest.mark.parametrize("quantity", [0, -4])
def test_an_empty_fill_keeps_all_units(quantity):
    inventory = ordered()
    assert inventory.release("e", "A", quantity) == ("A", [], Portion(0, 0, 0))
    assert [one.cost for one in inventory.escrows["e"].slices] == [100, 100]


def test_unknown_costs_stay_unknown_in_an_order():
    inventory = hold((10, None, "x"))
    inventory.hold("e", "A", inventory.cut("A", 10))
    released = inventory.release("e", "A", 4)
    assert read(released.slices) == [(4, None, "x")] and released.portion == Portion(0, 0, 4)
    assert read(inventory.escrows["e"].slices) == [(6, None, "x")]
    assert read(inventory.put_back(released, 3)) == [(1, None, "x")]
    assert read_lots(inventory) == [(3, None, "x")]


def test_returned_units_regain_their_place():
    """12 were released: 10@100 and 2@40; 11 return, from the second half: 40 * 1 // 2 = 20, and 20
    are lost. Within its lot, it goes after the units that stayed. By average, 180 * 11 // 12 = 165
    are added to the 75 of the 5 that stayed.
    """
    inventory = ordered()
    assert lost_cost(inventory.put_back(inventory.release("e", "A", 12), 11)) == 20
    assert read_lots(inventory) == [(10, 100, "x"), (5, 100, "y"), (1, 20, "y")]
    assert [(lot.amount, lot.cost) for lot in inventory.lots["A"]] == [
        (10, 100),
        (10, 200),
        (1, 20),
    ]
    assert inventory.average.pools["A"] == Pool(16, 240, 0)


def test_returned_units_of_a_mint_no_longer_held_are_restored():
    inventory = hold((10, 100, "x"))
    inventory.hold("e", "A", inventory.cut("A", 10))
    inventory.lots.clear()
    inventory.put_back(inventory.release("e", "A", 10), 10)
    assert read_lots(inventory) == [(10, 100, "x")]


def test_units_from_several_orders_are_merged():
    lot = Lot((1, 1), "x", 9, 90, 0, 0)
    inventory = Inventory()
    for address, slices, portion in (
        ("e", [Slice(lot, 4, 40, 5)], Portion(4, 44, 0)),
        ("f", [Slice(lot, 3, 30, 5), Slice(lot, 2, None, UNDATED)], Portion(3, 33, 2)),
    ):
        inventory.hold(address, "A", Cut(slices, portion))
    joined = join_released([inventory.release("e", "A", 4), inventory.release("f", "A", 5)])
    assert read(joined.slices) == [(4, 40, "x"), (3, 30, "x"), (2, None, "x")]
    assert joined.portion == Portion(7, 77, 2)
    assert join_released([]) == Cut([], Portion(0, 0, 0))


# ---- what is there
def test_positions_show_their_known_cost():
    inventory = ordered()
    inventory.put("A", "z", 4)
    for mint, amount, cost in (("C", 3, None), ("B", 2, 0)):
        inventory.put(mint, "z", amount, cost)
    inventory.put("D", "z", 1, 1)
    inventory.cut("D", 1)
    decimals = {"A": 6, "B": 0, "C": 9, "D": 1}
    assert inventory.list_positions(decimals) == [
        Position("A", 9, 6, 100, 4),
        Position("B", 2, 0, 0, 0),
        Position("C", 3, 9, None, 3),
    ]


# ---- since when a cost is known
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
    assert [inventory.count_held(begins).cost for begins in (UNDATED, 1_000, 2_000, 2_001)] == [
        *(110, 110, 80, 0)
    ]
    assert [inventory.list_positions({"A": 6}, begins) for begins in (1_000, 2_000, 2_001)] == [
        [Position("A", 6, 6, 100, 0)],
        [Position("A", 6, 6, 80, 2)],
        [Position("A", 6, 6, None, 6)],
    ]
    inventory.put_back(inventory.release("e", "A", 1), 1)
    assert [(lot.left, lot.since) for lot in inventory.lots["A"]] == [
        *((2, 1_000), (1, 1_000), (4, 2_000))
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


# ---- average cost
LEDGERS = list_ledgers("""
# a sale costs the average of all purchases: 10 of 20 cost 150, and 100 first in, first out
buy 10 A for 100
buy 10 A for 200
sell 10 A for 180               => matched 180-100 | average 180-150 in 1 | pool A 10@150

# a sale uses known and unknown units proportionally: 3 and 1 of 4, for a quarter of the proceeds
gain 6 A
buy 2 A for 40
sell 4 A for 100                => average 25-20 in 0 | pool A 1@20 3@?

# less than a thousandth of unknown cost keeps a sale matched, for 4002 * 2000 // 2001
gain 1 A
buy 2000 A for 2000
sell 2001 A for 4002            => average 4000-2000 in 1

# orders keep the average cost
buy 10 A for 100
buy 10 A for 200
order_open -4 A at e 4 A
order_fill 3 B at e -3 A
order_cancel 1 A at e -1 A      => pool B 3@45 | pool A 17@255

# a sale without a result counts nowhere
buy 10 A for 100
sell 90 -4 A of A [value_unexplained]   => average 0 in 0 | pool A 6@60
slip -1 A
sell 2 A for 90                 => unmatched [incomplete_history] | average 0 in 0
""")


@pytest.mark.parametrize("title", LEDGERS)
def test_average_cost_is_as_written(title):
    LEDGERS[title].check()


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


def test_incoming_units_have_a_known_or_unknown_cost():
    """A cost of zero is known."""
    average = AverageCost()
    average.add("A", 6, 60)
    average.add("A", 2, 0)
    average.add("A", 3, None)
    assert average == AverageCost(0, 0, {"A": Pool(8, 60, 3)})


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
    average.count(-7)
    assert (average.realized, average.matched) == (realized - 6, matched + 2)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(SOL_STEP, max_size=40))
def test_both_methods_hold_the_same_units(drawn):
    """Units match exactly. Costs are known to both or neither if all of a mint was bought."""
    teller = write_sol_steps(drawn)
    inventory = teller.inventory
    for mint, held in inventory.average.pools.items():
        lots = inventory.lots.get(mint, [])
        assert held.known + held.unknown == sum(lot.left for lot in lots)
        assert min(held.known, held.unknown) >= 0 and bool(held.known) >= bool(held.cost)
    bought = [step for step in drawn if step[0] == "buy" and not step[5]]
    only = write_sol_steps(bought)
    average = only.inventory.average
    assert sum(p.cost for p in average.pools.values()) == only.ledger.reconcile().open_cost
