"""Exchanges between two wallets of one bot in one transaction aren't priced; parallel trades
are.
"""

import pytest

from chain.reading.entries import Entry
from chain.stored.attachments import mark_own

SOL = 10**9
PRICED = {"buy", "sell", "swap", "round_trip", "order_fill"}


def make(kind, sol=0, fee=0, tip=0, mint="CAT", flags=(), residues=(), **tokens):
    """An entry that moved these raw amounts, by mint; `sol` includes fee and tip."""
    changes = tuple((name, change, 6) for name, change in tokens.items())
    at = ("tx", 7, 0, 1_700_000_000)
    return Entry(*at, kind, None, mint, flags, residues, sol, fee, tip, 0, changes, ())


def flags_of(one, *others):
    return set(mark_own(one, others).flags)


EXCHANGED = {
    "a token for SOL": (make("buy", -SOL, CAT=100), make("sell", SOL, CAT=-100)),
    "a token of which the other only gives": (
        make("buy", -SOL, CAT=100),
        make("transfer_out", CAT=-100),
    ),
    "SOL that the other pays": (make("sell", SOL, CAT=-100), make("native_transfer", -SOL)),
    "a stablecoin": (make("sell", CAT=-100, USDC=50), make("buy", mint="DOG", DOG=7, USDC=-50)),
    "a swapped token": (make("swap", CAT=-1, DOG=5), make("sell", SOL, mint="DOG", DOG=-5)),
    "a filled order": (make("order_fill", CAT=100), make("sell", SOL, CAT=-100)),
    "what a round trip sells": (make("round_trip", SOL), make("sell", SOL // 100, CAT=-100)),
    "what a round trip buys": (make("round_trip", SOL), make("buy", -SOL, CAT=100)),
    "a gain for a loss": (make("round_trip", SOL), make("round_trip", -SOL, mint="DOG")),
    "an ambiguous swap": (
        make("other", -SOL, flags=("ambiguous",), CAT=1, DOG=1),
        make("sell", SOL, CAT=-1),
    ),
}


@pytest.mark.parametrize("one, other", EXCHANGED.values(), ids=EXCHANGED.keys())
def test_a_trade_against_the_other_wallet_is_flagged_and_has_no_price(one, other):
    for mine, theirs in ((one, other), (other, one)):
        is_trade = mine.kind in PRICED or "ambiguous" in mine.flags
        right = {"own_wallets", "value_unexplained"} if is_trade else {"own_transfer"}
        assert flags_of(mine, theirs) == {*mine.flags, *right}
        assert mark_own(mine, [theirs]).kind == mine.kind


ALIKE = {
    "both buy": (make("buy", -SOL, CAT=100), make("buy", -2 * SOL, CAT=200)),
    "both buy, one pays fee and tip of both": (
        make("buy", -SOL - 15_000, 5_000, 10_000, CAT=100),
        make("buy", -SOL, CAT=1),
    ),
    "both sell": (make("sell", SOL, CAT=-100), make("sell", 2 * SOL, mint="DOG", DOG=-200)),
    "one pays the fee of the other": (make("sell", SOL, CAT=-100), make("other", -5_000, 5_000)),
    "both swap": (make("swap", CAT=-1, DOG=5), make("swap", CAT=-2, DOG=9)),
    "a dust of SOL": (make("swap", 2_000, CAT=-1, DOG=5), make("buy", -SOL, DOG=1)),
    "a residue of what passed through": (
        make("buy", -SOL, residues=("USDC",), CAT=100, USDC=3),
        make("buy", -SOL, residues=("USDC",), CAT=100, USDC=-1),
    ),
    "nothing in common": (make("sell", SOL, CAT=-1), make("transfer_in", DOG=1)),
    "both failed": (make("failed", -5_000, 5_000), make("failed")),
}


@pytest.mark.parametrize("one, other", ALIKE.values(), ids=ALIKE.keys())
def test_wallets_that_trade_alike_keep_their_prices(one, other):
    assert mark_own(one, [other]) is one and mark_own(other, [one]) is other


def test_moves_outside_the_venue_are_not_exchanges():
    """Eve pays ada in the same transaction, and ada buys with it."""
    paid = make("native_transfer", -SOL)
    bought = make("buy", 0, CAT=100)._replace(beside_sol=SOL)
    assert mark_own(bought, [paid]) is bought


def test_one_of_several_own_wallets_is_enough():
    one, alike = make("buy", -SOL, CAT=100), make("buy", -SOL, CAT=5)
    assert "own_wallets" in flags_of(one, alike, make("sell", SOL, CAT=-100))
    assert mark_own(one, []) is one


@pytest.mark.parametrize(
    "one, other",
    [
        (make("transfer_out", CAT=-5), make("transfer_in", CAT=5)),
        (make("native_transfer", -SOL - 5_000, 5_000), make("native_transfer", SOL)),
    ],
    ids=["token", "SOL"],
)
def test_a_plain_transfer_between_own_wallets_is_flagged_on_both_sides(one, other):
    assert flags_of(one, other) == flags_of(other, one) == {"own_transfer"}
