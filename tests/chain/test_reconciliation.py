"""Books that balance to the lamport: where a wallet's money went, item by item, checked against
small ledgers and an independent oracle.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import Oracle
from sampling import examples
from teller import SOL_STEP, Teller, plan_sol_step, write_sol_step
from textledgers import BOOKS, list_ledgers

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

# a tip is a cost like the fee
native_transfer -70 tip 2
native_transfer 50 tip 2
lending -100 tip 2
account_open -7 tip 2           => books sent 63 received 57 other -93 overhead 4*7

# a failure costs its fee; four more lamports are unaccounted for
failed -9                       => failed 1 | books failed_cost 5 other -4

# volume excludes what moved outside the venue, and breaking even isn't a gain
buy -50 10 A of A beside -30    => volume 50 | books sent 30 open_cost 50
sell 50 -10 A of A beside 30    => matched 0 | volume 100 | winning 0 | books sent 30 received 30

# an order's fill carries lots without being a trade
buy 10 A for 100
order_open -10 A at e 10 A
order_fill 3 B at e -10 A       => carried 1 | trades 1 | books open_cost 100

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
sell 4 A for 60                 => unmatched [incomplete_history] | trades 2 | volume 160
                                 | unknown 0 | books open_cost 60 other 60-40 gaps -33

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
