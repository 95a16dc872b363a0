"""A wallet's ledger in small ledgers, each with its arithmetic, and the sums derived from it."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from teller import FEE, Teller, rebuild
from textledgers import list_ledgers

from chain.addresses import WRAPPED_SOL
from chain.ledger.inventory import SOL, find_lower_median
from chain.ledger.ledger import WHOLE
from chain.ledger.totals import (
    ALL_HISTORY,
    FLAT_ROUND_TRIPS,
    ONE_TOKEN,
    Holdings,
    Span,
    Spans,
    Sums,
    find_drawdown,
    list_signs,
    round_down,
)

LOTS = """
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

# opening lots that appear together are in the order of their addresses
before 500 4 A/2 3 A
transfer_in 1 A/2 1 A               => A 3@? 4@? 2@?

# units beyond the holdings have an unknown cost
buy 4 A for 40
slip 2 A
lose 6 A                            => left A 40 | A - | pool A
slip 3 B
lose 3 B                            => left - | B - | pool B

# holdings are listed by mint with their known cost, which may be nothing
buy 5 A for 100
gain 4 A
gain 3 C
buy 2 B for 0
buy 1 D for 1
lose 1 D                            => holdings A 5@100 4@? B 2@0 C 3@?

# cost left is listed by mint
buy 10 A for 100
buy 5 B for 70
transfer_out -4 A -5 B              => left A 40 B 70
transfer_out -2 A beside -2 A       => left A 40
sell 2 A for 30                     => matched 30-20 | left -

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

# known cost merged into an unknown lot is cost left
gain 1 A
buy 9 A for 90
swap 10 A for 5 B                   => B 5@? | left A 90 | its carried 0
                                     | books cost_left 90 cost_left_receipts 1
"""
SALES = """
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

# a sale or round trip without a result counts nowhere
buy 10 A for 100
sell 90 -4 A of A [value_unexplained]   => average 0 in 0 | pool A 6@60
round_trip 7 of A [value_unexplained]   => average 0 in 0
slip -1 A
sell 2 A for 90                     => unmatched [incomplete_history] | average 0 in 0

# a round trip has its own result, after a gap too; it moves no lot and adds no volume
buy 10 A for 100
round_trip 7 1 B of A left B        => matched 7 | its matched 0 | its lots () | A 10@100 | B 1@?
                                     | trades 2 | volume 100 | books realized 7 open_cost 100
round_trip -9 of A beside 500       => matched -9 | winning 1 | average 7-9 in 2
                                     | books received 500 realized 7-9 open_cost 100
slip -33
round_trip 7 of A                   => matched 7
                                     | books received 500 realized 7-9+7 open_cost 100 gaps -33

# what moved in a gap is named, and a later sale has no result: its SOL minus its cost is other
buy 10 A for 100
slip -33
sell 4 A for 60                     => unmatched [incomplete_history] | trades 2 | volume 160
                                     | its unmatched 4 | its sold A | its lots () | its other 20
                                     | unknown 0 | books open_cost 60 other 60-40 gaps -33
sell 6 A for 200                    => positions 0 | won 0 | open 0

# a gap in one token's history takes the results of its sales, and of no other token's
buy 10 A for 100
buy 10 B for 100
gain 5 A/2
slip -3 A/2
sell 4 A for 60                     => unmatched [incomplete_history]
sell 4 B for 60                     => matched 60-40
lose 1 A/2                          => gaps 140-170 balance_break
"""
ORDERS = """
# an order keeps its units at their cost, and uses the oldest first; its fill isn't a trade
buy 10 A for 100
buy 10 A for 200
order_open -15 A at e 15 A          => A 5@100 | open_cost 300 | pool A 5@75
order_open -2 A at e 2 A            => A 3@60 | open_cost 300
order_fill 24 B at e -12 A          => B 20@100 4@40 | pool B 24@180
order_fill 10 B at e -5 A           => B 20@100 4@40 6@60 4@40 | escrows - | open_cost 300
                                     | carried 4 | trades 2

# units in an order that the ledger doesn't know have an unknown cost
buy 10 A for 100
order_open -10 A at e 10 A
order_fill 50 B at e -100 A         => B 5@100 45@? | escrows - | pool B 5@100 45@?

# an order that nothing leaves keeps all units; unknown costs stay unknown
gain 10 A
order_open -10 A at e 10 A
order_fill 5 B at e 0 A             => escrows e | A -
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

# an order without an escrow takes its cost along
buy 10 A for 100
order_open -4 A                     => left A 40 | A 6@60 | escrows -
order_fill -4 A at stranger 4 A     => left A 40 | A 2@20 | escrows -

# an order is kept where most of it went
buy 10 A for 100
order_open -10 A at fee 1 A at e 9 A at loser -20 A at another 30 B   => escrows e | left A 10

# an order contains only what reached its escrow
buy 10 A for 100
order_open -8 A at e 3 A            => left A 50 | A 2@20 | open_cost 50
order_cancel 3 A at e -3 A          => left - | A 2@20 3@30 | escrows -

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
order_fill 74 at e -4 A at rent -9 SOL market -4 A 65 SOL       => matched 65-40 | at_risk 0
                                                                   | left -

# nor has it a result if an account that it empties was not in the order
buy 10 A for 100
order_open -14 -4 A at e 4 A at rent 9 SOL
buy -5 1 B of B at another 9 SOL
order_fill 74 at e -4 A at another -9 SOL                       => its result None | left A 40

# nor if its tokens are a deposit that has no lots
buy 10 A for 100
other 0 -5 A at venue 5 A
order_fill 74 at venue -5 A                 => side order_fill 74 | its result None

# nor if it gives up two tokens, returns two, or takes one from the wallet
buy 9 A for 90
buy 9 B for 90
order_open -3 A at e 3 A
order_open -3 B at f 3 B
order_fill 60 at e -3 A at f -3 B           => side order_fill 60 | its result None
order_open -100 at g 100 SOL
order_fill 3 C 4 D at g -100 SOL            => C 3@? | D 4@?
order_open -100 at h 100 SOL
order_fill -1 A at h -100 SOL               => side order_fill 0

# units in an order, and what others gain from its fill, are no deposits: later sales have a price
buy 10 A for 100
order_open -10 A at e 10 A
order_fill 3 B at e -9 A at fee 7 SOL at venue 4 C              => at_risk 100
sell 60 -3 B of B at e 0 A at venue 0 C     => matched 60-90

# a stablecoin in an order is at risk until it is returned or bought something
gain 100 Q
order_open -60 Q at e 60 Q                  => Q: at_risk 60 | at_risk 0
order_cancel 20 Q at e -20 Q                => Q: at_risk 40
order_fill 5 A at e -40 Q                   => Q: at_risk 40 | A 5@? | escrows -
sell 70 -5 A of A                           => Q: at_risk 0

# an order that buys a stablecoin for SOL is no purchase or sale in it
order_open -105 at e 100 SOL
order_fill 50 Q at e -100 SOL               => side buy -100 | Q: side other 50 | Q: trades 0
"""
BOOKS = """
# the first and the last balance; rent stays the wallet's own
before 500
buy 10 A for 100                => opening 500 | closing 400 | books open_cost 100

# an account seen late opens with its balance and rent, and with units of unknown cost
before 500 7 A
buy 1 B for 100
sell 7 A for 60                 => opening 500+2000 | books unmatched_proceeds 60 open_cost 100

# fees and tips are separate from what was sent, received, or moved in another way
native_transfer -70
lending -300
stake 40
account_open -10                => books sent 65+5 other -295+45 overhead 4*5
native_transfer 50 tip 2
lending -100 tip 2
account_open -7 tip 2           => books sent 65+5 received 57 other -250-93 overhead 4*5+3*7

# a failure costs its fee; four more lamports are unaccounted for
failed -9                       => failed 1 | books failed_cost 5 other -4
"""
POSITIONS = """
# breaking even is no win, and a lamport more is one
buy 10 A for 100
sell 10 A for 100                   => positions 1 | won 0 | winning 0
buy 10 A for 100
sell 10 A for 101                   => positions 2 | won 1 | winning 1

# proceeds of units of unknown cost don't make a position a gain
gain 5 A
buy 5 A for 100
sell 10 A for 150                   => positions 1 | won 0

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
dated 800 buy -1000 10 A of A tip 3
dated 810 sell 10 A for 1013        => flat_pairs 3

# what is given away in the transaction that buys it leaves no open position
buy -100 10 A of A beside -10 A     => A - | left A 100 | positions 0 | open 0
buy 10 A for 100                    => positions 0 | open 1

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
"""
ATTACHMENTS = """
# 5 of 15 units were bought in the attachment
gain 1 B
attach
buy 5 A for 50
undated buy 10 A for 100
sell 15 A for 300               => matched 300-150 | since: partial 100-50 | since: volume 50+300
                                 | since: unmatched_proceeds 200

# a sale at an unknown time closes no position, and the next one has its own result
gain 1 B
attach
buy 4 C for 40
undated sell 2 C for 90
sell 2 C for 30                 => since: positions 1 | since: won 0 | since: open 0
buy 1 D for 10
undated sell 1 D for 90
buy 1 D for 10
sell 1 D for 5                  => since: positions 2 | since: won 0 | since: realized 10-5

# a loss seen before the disconnection counts, though its block is dated later
gain 1 B
attach
buy 10 A for 100
detach
seen 130 sell 10 A for 40       => since: realized 40-100

# a loss seen after the disconnection is dated by its block
gain 1 B
attach
buy 10 A for 100
detach
seen 1130 sell 10 A for 40      => since: realized 0 | since: trades 1

# a sale seen before an attachment is older, though its block is dated later
buy 10 A for 100
attach
seen 120 sell 10 A for 200      => matched 200-100 | since: trades 0

# a purchase in the very second of an attachment belongs to it
gain 1 B
attach
dated 121 buy 5 A for 50        => since: holding 1
sell 5 A for 70                 => since: matched 70-50 | since: trades 2 | since: holding 0

# a cost that a swap carries into an attachment stays older
buy 2 A for 10
attach
buy 4 A for 10
swap 6 A for 6 B
sell 6 B for 60                 => matched 60-20 | since: partial 40-10

# a day is counted once; a clock set back starts no earlier one
dated 172800 buy 10 A for 100
dated 176400 sell 5 A for 100
dated 172799 sell 5 A for 80    => days 1 | realized 180-100
dated 259200 buy 1 A for 1      => days 2
"""


LEDGERS = list_ledgers("\n".join((LOTS, SALES, ORDERS, BOOKS, POSITIONS, ATTACHMENTS)))


@pytest.mark.parametrize("title", LEDGERS)
def test_each_small_ledger_is_booked_as_written(title):
    LEDGERS[title].check()


# ---- views and positions -------------------------------------------------------------------------
def test_an_attachment_without_entries_holds_nothing():
    entries = Teller().buy("A", 10, 100).entries
    for spans, held in (((), {}), ((Span(1, 10**6, None),), {1: Holdings()})):
        ledger, _ = rebuild(entries, spans=Spans(spans))
        assert ledger.find_holdings() == held and list(ledger.accounts) == [WHOLE]


def test_best_worst_and_holding_time_are_per_position():
    """The Teller's transactions are 10 seconds apart. A: 60 + 30 - 100 = -10 after 20 seconds; B:
    50 after 10; C is open, with one of two sold for 20 less than its cost.
    """
    t = Teller().buy("A", 10, 100).sell("A", 4, 60).sell("A", 6, 30)
    t.buy("B", 1, 10).sell("B", 1, 60).buy("C", 2, 100).sell("C", 1, 30)
    positions = t.ledger.accounts[WHOLE].positions
    assert positions.find_ends() == (50, -20)
    assert positions.holdings == {20: 1, 10: 1}


def test_holding_times_keep_two_digits():
    times = (0, 7, 99, 100, 109, 3_725, 86_399)
    assert [round_down(one) for one in times] == [0, 7, 99, 100, 100, 3_700, 86_000]


def test_the_lower_median_is_used():
    """Of (value, count) pairs."""
    assert find_lower_median([]) is None
    medians = {((4, 1),): 4, ((1, 2), (5, 2)): 1, ((1, 1), (5, 2)): 5}
    medians |= {((1, 1), (5, 1)): 1, ((1, 1), (2, 1), (3, 1), (9, 2)): 3}
    assert {counted: find_lower_median(counted) for counted in medians} == medians


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


# ---- sums of a window ----------------------------------------------------------------------------
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
