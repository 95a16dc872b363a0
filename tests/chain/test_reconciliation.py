"""Books that balance to the lamport: where a wallet's money went, item by item, checked against
small ledgers and an independent oracle.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import Oracle
from sampling import examples
from teller import (
    SOL_STEP,
    UNEXPLAINED,
    Teller,
    plan_sol_step,
    write_sol_step,
)
from textledgers import BOOKS, list_ledgers

from chain.ledger.inventory import SOL
from chain.ledger.sales import INCOMPLETE, Booked, see_side
from chain.ledger.totals import Totals
from chain.reading.entries import Entry

LEDGERS = list_ledgers("""
# the first and the last balance; rent stays the wallet's own
before 500
buy 10 A for 100                => opening 500 | closing 400 | books open_cost 100

# an account seen late opens with its balance and rent, and with units of unknown cost
before 500 7 A
buy 1 B for 100
sell 7 A for 60                 => opening 500+2000 | books unmatched_proceeds 60 open_cost 100

# known cost merged into an unknown lot is cost left
gain 1 A
buy 9 A for 90
swap 10 A for 5 B               => B 5@? | books cost_left 90 cost_left_receipts 1

# fees are separate from what was sent, received, or moved in another way
native_transfer -70
lending -300
stake 40
account_open -10                => books sent 65+5 other -295+45 overhead 4*5

# a round trip has its own result; it moves no lot and adds no volume
buy 10 A for 100
round_trip 7 1 B of A left B    => matched 7 | its matched 0 | its lots () | A 10@100 | B 1@?
                                 | trades 2 | volume 100 | books realized 7 open_cost 100
round_trip -9 of A beside 500   => matched -9 | winning 1 | average 7-9 in 2
                                 | books received 500 realized 7-9 open_cost 100

# a round trip has a result after a gap too
buy 10 A for 100
slip -33
round_trip 7 of A               => matched 7 | books realized 7 open_cost 100 gaps -33

# what moved in a gap is named, and a later sale has no result: its SOL minus its cost is other
buy 10 A for 100
slip -33
sell 4 A for 60                 => unmatched [incomplete_history]
                                 | books open_cost 60 other 60-40 gaps -33

# a fill needs a market: not nobody, a lamport too little, more A than was ordered, another token
buy 20 A for 200
order_open -14 -4 A at e 4 A at rent 9 SOL
order_fill 74 at e -4 A at rent -9 SOL market -                 => its result None | left A 40
                                 | books cost_left 40 cost_left_receipts 1 open_cost 160
                                   other 74+5-9 overhead 5+5
order_open -14 -4 A at e 4 A at rent 9 SOL
order_fill 74 at e -4 A at rent -9 SOL market -4 A 64 SOL       => its result None | left A 40
order_open -14 -4 A at e 4 A at rent 9 SOL
order_fill 74 at e -4 A at rent -9 SOL market -5 A 65 SOL       => its result None | left A 40
order_open -14 -4 A at e 4 A at rent 9 SOL
order_fill 74 at e -4 A at rent -9 SOL market -4 A -1 B 65 SOL  => its result None | left A 40
order_open -14 -4 A at e 4 A at rent 9 SOL
order_fill 74 at e -4 A at rent -9 SOL market -4 A 65 SOL       => matched 65-40 | left -

# nor has it a result if an account that it empties was not in the order
buy 10 A for 100
order_open -14 -4 A at e 4 A at rent 9 SOL
buy -5 1 B of B at another 9 SOL
order_fill 74 at e -4 A at another -9 SOL                       => its result None | left A 40
""")


@pytest.mark.parametrize("title", LEDGERS)
def test_each_small_ledger_balances_as_written(title):
    LEDGERS[title].check()


# ---- one transaction -----------------------------------------------------------------------------
def book(kind, sol, tip=2, beside_sol=0, sponsored=0, **booked):
    """A transaction with a fee of 5, and what was booked of it."""
    entry = Entry("one", 7, 0, 60, kind, "V", "A", (), (), sol + beside_sol, 5, tip, 0, (), ())
    entry = entry._replace(beside_sol=beside_sol, sponsored=sponsored)
    return Booked(entry, see_side(entry, SOL), **booked)


SALE, REST = {"trades": 1, "volume": 50}, {"unmatched_proceeds": 20}
CARRIED = {"carried": 2, "cost_left": 8, "other": -1}
COUNTED = [
    (book("transfer_out", -100), {"overhead": 7, "sent": 93}),
    (book("native_transfer", 50), {"overhead": 7, "received": 57}),
    (book("account_open", -7), {"overhead": 7}),
    # Fee and tip are separate from deposits and orders.
    (book("liquidity", -100), {"overhead": 7, "other": -93}),
    (book("order_fill", -7, carried=3), {"overhead": 7, "carried": 3}),
    # 4 lamports beyond its fee are unaccounted for.
    (book("failed", -9, tip=0), {"failed": 1, "failed_cost": 5, "other": -4}),
    # Volume excludes what moved outside the venue and what others contributed.
    (
        book("buy", -50, beside_sol=-30, sponsored=6),
        {**SALE, "sent": 30, "received": 6},
    ),
    (
        book("sell", 50, beside_sol=30, status="matched", result=1),
        {**SALE, "received": 30, "matched": 1, "realized": 1, "winning": 1},
    ),
    (book("sell", 50, status="matched", result=0), {**SALE, "matched": 1}),
    (
        book("sell", 50, status="partial", result=-3, **REST),
        {**SALE, "partial": 1, "realized": -3, **REST},
    ),
    (book("sell", 50, status="unmatched", **REST), {**SALE, "unmatched": 1, **REST}),
    # After a gap it has no result, even if one was computed.
    (
        book("sell", 50, status="unmatched", result=5, flags=(INCOMPLETE,), **REST, carried=1),
        {**SALE, "carried": 1},
    ),
    (book("sell", 50, status="matched", result=5, flags=UNEXPLAINED), {}),
    (book("swap", -50, **CARRIED), {**CARRIED, "trades": 1, "cost_left_receipts": 1}),
    (
        book("round_trip", 50, status="matched", result=50),
        {"trades": 1, "matched": 1, "realized": 50, "winning": 1},
    ),
]


@pytest.mark.parametrize("booked, counted", COUNTED)
def test_each_transaction_adds_to_the_expected_sums(booked, counted):
    totals = Totals()
    for times in (1, 2):
        totals.add(booked)
        assert totals == Totals(**{name: times * n for name, n in counted.items()})


# ---- an oracle written apart ---------------------------------------------------------------------
class Purse(Oracle):
    """The books of a wallet in SOL."""

    def apply(self, step):
        verb, sol, fee, changes, beside_sol, beside, sponsored = step
        before = self.sums["cost_left"]
        self.count(received=sponsored + max(0, beside_sol), sent=max(0, -beside_sol))
        for mint, n in beside:
            self.add(mint, n, None)
        self.move(verb, sol, fee, sorted(changes, key=lambda one: one[1]))
        for mint, n in beside:
            self.take(mint, max(0, -n))
        self.count(cost_left_receipts=self.sums["cost_left"] > before)

    def move(self, verb, sol, fee, changes):
        if verb == "buy":
            self.put(*changes[0], -sol)
        elif verb == "sell":
            ((mint, n),) = changes
            self.sell(mint, -n, sol)
        elif verb == "swap":
            (given, n), (mint, got) = changes
            self.swap(given, -n, mint, got, -sol)
        elif verb == "round_trip":
            self.count(trades=1, matched=1, realized=sol, winning=sol > 0)
        else:
            self.leave(verb, sol, fee, changes)

    def leave(self, verb, sol, fee, changes):
        for mint, n in changes:
            self.add(mint, n, None)
            self.take(mint, max(0, -n))
        if verb == "failed":
            self.count(failed=1, failed_cost=fee)
        elif verb == "unexplained":
            self.count(other=sol)
        elif verb == "lending":
            self.count(overhead=fee, other=sol + fee)
        else:
            self.count(overhead=fee, received=max(0, sol + fee), sent=max(0, -sol - fee))


COUNTS = (
    *("cost", "proceeds", "matched", "partial", "unmatched", "winning", "volume", "trades"),
    *("carried", "failed"),
)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(SOL_STEP, max_size=40))
def test_every_line_matches_the_oracle_and_reconciles(drawn):
    """With gifts during trades, payments for a second wallet, strangers' rent, failed and
    unexplained ones: after each transaction.
    """
    teller, purse = Teller(lamports=10**15), Purse()
    for step in filter(None, (plan_sol_step(teller, one) for one in drawn)):
        write_sol_step(teller, step)
        purse.apply(step)
        books = teller.ledger.reconcile()
        told = {name: getattr(books, name) for name in (*BOOKS, *COUNTS)}
        assert books.difference == 0
        assert told == {**dict.fromkeys(told, 0), **purse.sums, "open_cost": purse.sum_open_cost()}
