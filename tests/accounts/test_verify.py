"""When a post's signature counts as a trade: each kind, flag and mint (docs/verified.md)."""

import pytest

from chain.stored.trades import judge, list_moved_mints

TRADES = ("buy", "sell", "swap", "round_trip", "order_fill")
NO_TRADES = (
    "transfer_in",
    "transfer_out",
    "transfer_self",
    "native_transfer",
    "order_open",
    "order_cancel",
    "liquidity",
    "lending",
    "stake",
    "bridge",
    "nft",
    "account_open",
    "account_close",
    "other",
)
FLAGS = (
    "opening_inventory_unknown",
    "incomplete_history",
    "unrecognised_program",
    "basis_carried",
    "fee_only",
    "owner_inferred",
    "order_unresolved",
)
MOVED = {"A", "B"}


@pytest.mark.parametrize("kind", TRADES)
@pytest.mark.parametrize("flags", [(), *((flag,) for flag in FLAGS), FLAGS])
def test_a_trade_verifies(kind, flags):
    assert judge(kind, flags, MOVED, None, 100) == ("verified", None)


@pytest.mark.parametrize("kind", TRADES)
@pytest.mark.parametrize(
    "mint, verdict",
    [
        (None, ("verified", None)),
        ("A", ("verified", None)),
        ("B", ("verified", None)),
        ("C", ("mismatch", "mint_not_in_trade")),
    ],
)
def test_a_mint_that_is_named_must_have_moved(kind, mint, verdict):
    assert judge(kind, (), MOVED, mint, 95) == verdict


@pytest.mark.parametrize("kind", NO_TRADES)
@pytest.mark.parametrize("mint", [None, "A", "C"])
@pytest.mark.parametrize("flags", [(), *((flag,) for flag in FLAGS), FLAGS])
def test_what_is_no_trade_verifies_nothing(kind, mint, flags):
    assert judge(kind, flags, MOVED, mint, None) == ("mismatch", "not_a_trade")


@pytest.mark.parametrize("mint", [None, "A", "C"])
@pytest.mark.parametrize("more", ["order_unresolved", "not_signer", "no_swap", "value_unexplained"])
def test_an_ambiguous_transaction_neither_verifies_nor_contradicts(mint, more):
    assert judge("other", ("ambiguous",), MOVED, mint, None) == ("none", "ambiguous")
    assert judge("other", ("ambiguous", more), MOVED, mint, None) == ("none", "ambiguous")


@pytest.mark.parametrize("mint", [None, "A", "C"])
@pytest.mark.parametrize("flags", [(), ("ambiguous",)])
def test_a_failed_transaction_is_told_as_that_before_anything_else(mint, flags):
    assert judge("failed", flags, MOVED, mint, None) == ("mismatch", "failed")


def test_a_trade_that_moved_no_token_fits_no_mint():
    assert judge("swap", (), set(), "A", 100) == ("mismatch", "mint_not_in_trade")
    assert judge("swap", (), set(), None, 100) == ("verified", None)


@pytest.mark.parametrize("kind", TRADES)
@pytest.mark.parametrize("mint", [None, "A", "C"])
def test_value_that_came_from_nowhere_neither_verifies_nor_contradicts(kind, mint):
    flags = ("value_unexplained", "counterparty_signed")
    assert judge(kind, flags, MOVED, mint, 0) == ("none", "value_unexplained")


@pytest.mark.parametrize("flags", [(), FLAGS])
@pytest.mark.parametrize("mint", [None, "A", "C"])
def test_a_fill_that_brought_the_wallet_nothing_verifies_nothing(flags, mint):
    """There is no price in it, so nothing of one is explained."""
    assert judge("order_fill", flags, MOVED, mint, None) == ("mismatch", "not_a_trade")
    # What no reader of this version priced yet is read again first.
    assert judge("sell", flags, MOVED, None, None) == ("verified", None)


@pytest.mark.parametrize("flag", ["fee_income", "tip_only"])
def test_income_and_tips_are_no_trades(flag):
    assert judge("other", (flag,), MOVED, None, None) == ("mismatch", "not_a_trade")


def test_a_trade_moved_the_tokens_of_its_rows():
    rows = [["A", "-5", 6], ["B", "1", 0]]
    for mint in ("A", "C", None):
        assert list_moved_mints("swap", mint, rows, []) == {"A", "B"}
    assert list_moved_mints("buy", None, [], []) == set()


def test_a_round_trip_moved_its_own_token_too():
    """It leaves nothing of it, or a gift that stood beside: 7 came, 7 of them beside."""
    assert list_moved_mints("round_trip", "C", [], []) == {"C"}
    assert list_moved_mints("round_trip", "C", [["C", "7", 0]], [["C", "7", 0]]) == {"C"}
    assert list_moved_mints("round_trip", None, [], []) == set()


def test_what_only_passed_beside_a_trade_was_not_moved_by_it():
    """Of A 5 left, of B 4 came, all of them beside; of C 3 came, of which 2 beside. Of D nothing
    changed, as 9 were given and 9 came beside.
    """
    whole = [["A", "-5", 6], ["B", "4", 0], ["C", "3", 0]]
    beside = [["B", "4", 0], ["C", "2", 0], ["D", "9", 0]]
    assert list_moved_mints("sell", "A", whole, beside) == {"A", "C", "D"}
    # The main token of an order's fill is that of the whole transaction.
    assert list_moved_mints("order_fill", "B", whole, beside) == {"A", "C", "D"}
    assert list_moved_mints("order_fill", "B", [], []) == {"B"}
    assert list_moved_mints("order_fill", "B", [["A", "5", 6]], []) == {"A", "B"}
    # As an entry holds them.
    assert list_moved_mints("sell", "A", (("B", 4, 0),), (("B", 4, 0),)) == set()
