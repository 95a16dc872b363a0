"""A wallet's holdings in detail: lots and slices, escrows, costs carried over by swaps, and average
cost. Each ledger shows its arithmetic.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from teller import SOL_STEP, write_sol_steps
from textledgers import list_ledgers

from chain.ledger.inventory import find_lower_median

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
sell 5 A for 90                     => matched 90-100 | average 30+90-75 in 2

# a sale uses known and unknown units proportionally: 3 and 1 of 4, for 103 // 4
gain 6 A
buy 2 A for 40
sell 4 A for 103                    => average 25-20 in 0 | pool A 1@20 3@?

# less than a thousandth of unknown cost keeps a sale matched, for 4002 * 1000 // 1001
gain 1 A
buy 1000 A for 2000
sell 1001 A for 4002                => matched 3999-2000 | average 3998-2000 in 1

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

# a thousandth of unknown cost isn't dust: 999 of 1000 units were sold for 1998
gain 1 A
buy 999 A for 2000
sell 1000 A for 2000                => partial 1998-2000 | average 1998-2000 in 0

# rounded shares leave the average: of 4 units, 1 takes 100 // 3, and 3 take the whole cost
gain 1 A
buy 3 A for 100
lose 1 A                            => pool A 2@67 1@?
buy 1 A for 33
lose 3 A                            => pool A 1@?
lose 1 A                            => pool A

# units beyond the holdings have an unknown cost
buy 4 A for 40
slip 2 A
lose 6 A                            => left A 40 | A - | pool A
slip 3 B
lose 3 B                            => left - | B - | pool B

# an order that nothing leaves keeps its units
buy 10 A for 100
order_open -10 A at e 10 A
order_fill 5 B at e 0 A             => escrows e | open_cost 100

# opening lots that appear together are in the order of their addresses
before 500 4 A/2 3 A
transfer_in 1 A/2 1 A               => A 3@? 4@? 2@?

# an opening lot precedes a purchase, and an account without one has none
before 500 4 A/2
buy 5 A for 50
gain 1 A/2                          => A 4@? 5@50 1@? | pool A 5@50 5@?

# holdings are listed by mint with their known cost, which may be nothing
buy 5 A for 100
gain 4 A
gain 3 C
buy 2 B for 0
buy 1 D for 1
lose 1 D                            => holdings A 5@100 4@? B 2@0 C 3@?
""")


@pytest.mark.parametrize("title", LEDGERS)
def test_each_small_ledger_holds_the_written_lots(title):
    LEDGERS[title].check()


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
