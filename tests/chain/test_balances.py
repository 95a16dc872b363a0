"""The chain of balances: holdings before the first transaction, and gaps between transactions. See
textledgers.py for the format; ordinary.txt has more.
"""

import pytest
from teller import USDC, Teller, rebuild, show
from textledgers import list_ledgers

from chain.ledger.ledger import Ledger

LEDGERS = list_ledgers("""
# what was held before is the oldest, and its cost is unknown
before 1000000000000 5 A
buy 5 A for 50                      => A 5@? 5@50
sell 10 A for 200                   => partial 100-50 [opening_inventory_unknown]
         | taken 5@? 5@50 | gaps -

# also if it is found after a sale: 24 of the 60 were for the four of unknown cost
before 1000000000000 4 A/2
buy 10 A for 100
sell 10 A for 60                    => partial 36-60 [opening_inventory_unknown] | taken 4@? 6@60
sell 4 A/2 for 20                   => matched 20-40 | taken 4@40 | realized 36-60+20-40 | gaps -

# so does an account that no transaction touched
untouched 4 A/2
buy 10 A for 100
sell 10 A for 60                    => partial 36-60 [opening_inventory_unknown] | taken 4@? 6@60
         | A 4@40

# a transaction that touches it shows its earlier balance itself: as much
before 1000000000000 4 A/2
untouched 4 A/2
buy 10 A for 100
sell 10 A for 60                    => partial 36-60 [opening_inventory_unknown] | taken 4@? 6@60
sell 4 A/2 for 20                   => matched 20-40 | taken 4@40

# or none
untouched 4 A/2
buy 10 A for 100
sell 10 A for 60                    => matched 60-100
gain 4 A/2                          => A 4@? | gaps -

# it keeps the order in which its accounts were seen
before 1000000000000 4 A 3 A/2
gain 1 A/2
buy 2 A for 10
sell 6 A for 60                     => taken 3@? 3@?
sell 4 A/2 for 40                   => taken 1@? 1@? 2@10

# a returned order follows it: the escrow had 4@? and 6@60, and 4@40 stayed
before 1000000000000 4 A/2
buy 10 A for 100
order_open -10 A at e 10 A
order_cancel 10 A at e -10 A        => A 4@? 4@40 6@60
sell 10 A for 100                   => partial 60-60 [opening_inventory_unknown]
         | taken 4@? 4@40 2@20
sell 4 A/2 for 50                   => matched 50-40

# a gap that is found late affects everything since it began: who knows what was sold in it
buy 10 A for 100
buy 5 A/2 for 80
slip -5 A/2
sell 5 A for 90                     => unmatched [incomplete_history] | realized 0
gain 1 A/2                          => gaps 130-150 balance_break

# and fills: ordered before it began, filled after it
buy 10 A for 100
order_open -10 A at e 10 A
gain 1 A/2
order_fill 3 B at e -10 A
slip 1 A/2
gain 1 A/2
sell 3 B for 70                     => unmatched [incomplete_history]
         | gaps 140-160 balance_break

# the beginning was observed at 0, so a balance that appears is a gap
slip 5 A
sell 5 A for 100                    => unmatched [incomplete_history]
         | gaps 110-120 opening_balance

# what arrived in a gap has no known cost
buy 10 A for 100
slip 3 A
buy 1 A for 10                      => A 10@100 3@? 1@10
slip -3
buy 5 B for 50                      => gaps 120-130 balance_break, 130-140 balance_break

# a doubtful cost stays doubtful through swaps
buy 10 A for 100
slip 3 A
swap 10 A for 10 B
swap 10 B for 10 C
sell 10 C for 500                   => unmatched [incomplete_history]

# and orders
buy 10 A for 100
slip 3 A
order_open -10 A at e 10 A
order_fill 10 C at e -10 A
sell 10 C for 500                   => unmatched [incomplete_history]

# who sells more than is held, which real chains don't allow, sells units of unknown origin
buy 10 A for 100
sell 150 -15 A of A                 => partial 100-100 [opening_inventory_unknown]
         | taken 10@100 5@?
""")


@pytest.mark.parametrize("title", LEDGERS)
def test_each_small_ledger_knows_what_it_has_not_seen(title):
    LEDGERS[title].check()


def test_within_a_slot_the_index_decides_which_account_was_seen_first():
    """3 from the second account came first, then 4 from the first one."""
    t = Teller(lamports=10**12, A=4, **{"A/2": 3}).gain("A/2", 1).buy("A", 2, 10).sell("A", 6, 60)
    first, *others = t.entries
    _, booked = rebuild([first._replace(slot=others[0].slot), *others])
    assert show(booked)[0][2] == "3@? 3@?"


def test_sales_have_no_result_until_the_full_history_is_listed():
    t = Teller(Ledger(backfilled=False)).buy("A", 10, 100).sell("A", 10, 120)
    assert t.sale[1] is None and t.last.flags == ("incomplete_history",)
    assert not t.ledger.restart().backfilled


def test_moves_and_used_lots_agree_in_all_inventories():
    """By slot. The purchase with Q uses no lots of A, and a fill uses the escrow."""
    t = Teller().gain("Q", 100).swap("Q", 50, "A", 10)
    chain = t.ledger.chain
    assert (chain.moved, chain.taken) == ({USDC, "A"}, {USDC: 130})
    t.write("order_open", changes=[("A", -4)], orders=[("e", "A", 4)])
    t.gain("B", 1).write("order_fill", changes=[("C", 3)], orders=[("e", "A", -4)])
    t.slip("B", 5).gain("B", 1)
    assert (chain.moved, chain.taken) == ({USDC, "A", "B", "C"}, {USDC: 130, "A": 160})
    assert chain.broken == {"B"}
