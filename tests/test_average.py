"""The average cost beside first in, first out: small ledgers by hand, and what must always hold."""

from hypothesis import given, settings
from hypothesis import strategies as st
from test_ledger import FEE, Teller
from test_reconciliation import DRAWN, UNEXPLAINED, play


def average(teller):
    """(realized lamports, matched sales)."""
    told = teller.ledger.inventory.average
    return told.realized, told.matched


def pool(teller, mint):
    held = teller.ledger.inventory.average.pools[mint]
    return held.known, held.cost, held.unknown


def test_a_sale_costs_the_average_of_all_that_was_bought():
    """10@100 10@200: 10 of 20 cost 150 on average, 100 first in, first out."""
    t = Teller().buy("A", 10, 100).buy("A", 10, 200).sell("A", 10, 180)
    assert t.last.result == 180 - 100 and average(t) == (180 - 150, 1)
    assert pool(t, "A") == (10, 150, 0)


def test_a_sale_takes_from_known_and_unknown_by_share():
    """6@? and 2@40: 4 of 8 are 3 of unknown cost and 1 of the others; a quarter of 100 less 20."""
    t = Teller().gain("A", 6).buy("A", 2, 40).sell("A", 4, 100)
    assert average(t) == (25 - 20, 0) and pool(t, "A") == (1, 20, 3)


def test_less_than_a_thousandth_of_unknown_cost_leaves_a_sale_matched():
    """1@? among 2000@2000: all are sold for 4002, of which 4002 * 2000 // 2001 = 4000 count."""
    t = Teller().gain("A", 1).buy("A", 2_000, 2_000).sell("A", 2_001, 4_002)
    assert average(t) == (4_000 - 2_000, 1)


def test_a_swap_carries_the_average():
    """2@? 6@60: 4 of 8 (1 and 3@30) for 8 B and 8 lamports: 2@? and 6@(30 + 8 * 3 // 4)."""
    t = Teller().gain("A", 2).buy("A", 6, 60).swap("A", 4, "B", 8, 8)
    assert pool(t, "A") == (3, 30, 1) and pool(t, "B") == (6, 36, 2)


def test_orders_keep_the_average():
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


@settings(max_examples=200, deadline=None)
@given(st.lists(DRAWN, max_size=40))
def test_both_methods_hold_the_same(drawn):
    """Units to the unit. A cost is known to both or to neither where all of a mint was bought."""
    teller, _ = play(drawn)
    inventory = teller.ledger.inventory
    for mint, held in inventory.average.pools.items():
        lots = inventory.lots.get(mint, [])
        assert held.known + held.unknown == sum(lot.left for lot in lots)
        assert min(held.known, held.unknown) >= 0 and bool(held.known) >= bool(held.cost)
    bought = [step for step in drawn if step[0] == "buy" and not step[5]]
    only, _ = play(bought)
    average = only.ledger.inventory.average
    assert sum(p.cost for p in average.pools.values()) == only.ledger.reconcile().open_cost
