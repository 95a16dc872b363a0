"""Exchanges between two wallets of one bot in one transaction aren't priced; parallel trades
are.
"""

import re

import pytest

from chain.reading.entries import Entry
from chain.stored.attachments import mark_own

# What both wallets did: the kind, thousands of lamports including `fee`, `tip` and what came
# `beside` the venue, and raw amounts. A trade is `of` a mint, CAT if it isn't told, and may have
# `left` a residue.
EXCHANGED = """
a token for SOL: buy -9000 100 CAT | sell 9000 -100 CAT
a token of which the other only gives: buy -9000 100 CAT | transfer_out -100 CAT
SOL that the other pays: sell 9000 -100 CAT | native_transfer -9000
a stablecoin: sell -100 CAT 50 USDC | buy 7 DOG -50 USDC of DOG
a swapped token: swap -1 CAT 5 DOG | sell 9000 -5 DOG of DOG
a filled order: order_fill 100 CAT | sell 9000 -100 CAT
what a round trip sells: round_trip 9000 | sell 900 -100 CAT
what a round trip buys: round_trip 9000 | buy -9000 100 CAT
a gain for a loss: round_trip 9000 | round_trip -9000 of DOG
an ambiguous swap: other -9000 1 CAT 1 DOG flag ambiguous | sell 9000 -1 CAT
a token that moved: transfer_out -5 CAT | transfer_in 5 CAT
SOL that moved: native_transfer -9005 fee 5 | native_transfer 9000
"""
ALIKE = """
both buy: buy -9000 100 CAT | buy -18000 200 CAT
both buy, one pays fee and tip of both: buy -9015 100 CAT fee 5 tip 10 | buy -9000 1 CAT
both sell: sell 9000 -100 CAT | sell 18000 -200 DOG of DOG
one pays fee and tip of the other: sell 9000 -100 CAT | other -205 fee 5 tip 200
both swap: swap -1 CAT 5 DOG | swap -2 CAT 9 DOG
a dust of SOL: swap 2 -1 CAT 5 DOG | buy -9000 1 DOG
a residue of what passed: buy -9000 100 CAT 3 USDC left USDC | buy -9000 100 CAT -1 USDC left USDC
nothing in common: sell 9000 -1 CAT | transfer_in 1 DOG
somebody pays one of two buyers more than it spends: buy 9000 1 CAT beside 18000 | buy -9000 5 CAT
both failed: failed -5 fee 5 | failed
"""
PRICED = {"buy", "sell", "swap", "round_trip", "order_fill"}


def make(text):
    kind, _, rest = text.partition(" ")
    more = dict(re.findall(r"(fee|tip|beside|of|left|flag) (\S+)", rest))
    amounts = re.findall(r"(-?\d+)(?: ([A-Z]+))?", re.sub(r"(fee|tip|beside) \d+", "", rest))
    sol = sum(int(n) for n, mint in amounts if not mint)
    fee, tip, beside = (1_000 * int(more.get(name, 0)) for name in ("fee", "tip", "beside"))
    tokens = tuple((mint, int(n), 6) for n, mint in amounts if mint)
    flags, residues = (tuple(filter(None, [more.get(name)])) for name in ("flag", "left"))
    where = ("tx", 7, 0, 1_700_000_000, kind, None, more.get("of", "CAT"))
    lamports = (1_000 * sol, fee, tip, 0)
    return Entry(*where, flags, residues, *lamports, tokens, (), beside_sol=beside)


def read_pairs(text):
    rows = [re.split(": | \\| ", row) for row in text.strip().splitlines()]
    return [pytest.param(make(one), make(other), id=title) for title, one, other in rows]


@pytest.mark.parametrize("one, other", read_pairs(EXCHANGED))
def test_what_was_exchanged_with_the_other_wallet_is_flagged_and_has_no_price(one, other):
    for mine, theirs in ((one, other), (other, one)):
        is_trade = mine.kind in PRICED or "ambiguous" in mine.flags
        right = {"own_wallets", "value_unexplained"} if is_trade else {"own_transfer"}
        found = mark_own(mine, [theirs])
        assert set(found.flags) == {*mine.flags, *right} and found.kind == mine.kind


@pytest.mark.parametrize("one, other", read_pairs(ALIKE))
def test_wallets_that_trade_alike_keep_their_prices(one, other):
    assert mark_own(one, [other]) is one and mark_own(other, [one]) is other


def test_one_of_several_own_wallets_is_enough():
    one, alike, other = map(make, ("buy -9000 100 CAT", "buy -9000 5 CAT", "sell 9000 -100 CAT"))
    assert "own_wallets" in mark_own(one, [alike, other]).flags
    assert mark_own(one, []) is one
