"""Average cost next to first in, first out: small ledgers by hand, and invariants."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from teller import FEE, SOL_STEP, UNEXPLAINED, Teller, write_sol_steps

from chain.ledger.inventory import AverageCost, Pool, Portion, is_dust


def average(teller):
    """(realized lamports, matched sales)."""
    told = teller.inventory.average
    return told.realized, told.matched


def pool(teller, mint):
    held = teller.inventory.average.pools[mint]
    return held.known, held.cost, held.unknown


def test_a_sale_costs_the_average_of_all_purchases():
    """10@100 10@200: 10 of 20 cost 150 on average, and 100 first in, first out."""
    t = Teller().buy("A", 10, 100).buy("A", 10, 200).sell("A", 10, 180)
    assert t.last.result == 180 - 100 and average(t) == (180 - 150, 1)
    assert pool(t, "A") == (10, 150, 0)


def test_a_sale_uses_known_and_unknown_units_proportionally():
    """6@? and 2@40: 4 of 8 are 3 of unknown cost and 1 of known cost; a quarter of 100 minus 20."""
    t = Teller().gain("A", 6).buy("A", 2, 40).sell("A", 4, 100)
    assert average(t) == (25 - 20, 0) and pool(t, "A") == (1, 20, 3)


def test_less_than_a_thousandth_of_unknown_cost_keeps_a_sale_matched():
    """1@? and 2000@2000: all are sold for 4002, and 4002 * 2000 // 2001 = 4000 of that counts."""
    t = Teller().gain("A", 1).buy("A", 2_000, 2_000).sell("A", 2_001, 4_002)
    assert average(t) == (4_000 - 2_000, 1)


def test_a_swap_carries_the_average_cost():
    """2@? 6@60: 4 of 8 (1 and 3@30) become 8 B for 8 lamports: 2@? and 6@(30 + 8 * 3 // 4)."""
    t = Teller().gain("A", 2).buy("A", 6, 60).swap("A", 4, "B", 8, 8)
    assert pool(t, "A") == (3, 30, 1) and pool(t, "B") == (6, 36, 2)


def test_orders_keep_the_average_cost():
    t = Teller().buy("A", 10, 100).buy("A", 10, 200)
    t.write("order_open", changes=[("A", -4)], orders=[("e", "A", 4)])
    t.write("order_fill", changes=[("B", 3)], orders=[("e", "A", -3)])
    t.write("order_cancel", changes=[("A", 1)], orders=[("e", "A", -1)])
    assert pool(t, "B") == (3, 45, 0) and pool(t, "A") == (17, 255, 0)


def test_a_sale_without_a_result_counts_nowhere():
    t = Teller().buy("A", 10, 100).write("sell", 90, FEE, [("A", -4)], "A", flags=UNEXPLAINED)
    assert average(t) == (0, 0) and pool(t, "A") == (6, 60, 0)
    t = Teller().buy("A", 10, 100).slip("A", -1).sell("A", 4, 90)
    assert t.sale[1] is None and average(t) == (0, 0)


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


def test_an_exchange_carries_cost_and_purchase_share():
    """3@30 and 1@? for 7: 7 // 4 of unknown cost; 30 and three quarters of 10."""
    average = AverageCost()
    average.carry(Portion(3, 30, 1), "B", 7, 10)
    assert average == AverageCost(0, 0, {"B": Pool(6, 37, 1)})


@pytest.mark.parametrize(
    "unknown, amount, dust", [(0, 1, 1), (0, 0, 0), (1, 1_000, 0), (1, 1_001, 1)]
)
def test_dust_is_less_than_a_thousandth(unknown, amount, dust):
    assert is_dust(unknown, amount) == bool(dust)


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
