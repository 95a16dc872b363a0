"""When a post's signature counts as a trade: each kind, flag and mint (docs/verified.md)."""

import pytest

from chain.stored.trades import judge, list_moved_mints

TRADES = ("buy", "sell", "swap", "round_trip", "order_fill")
NO_TRADES = (
    *("transfer_in", "transfer_out", "transfer_self", "native_transfer", "order_open"),
    *("order_cancel", "liquidity", "lending", "stake", "bridge", "nft", "account_open"),
    *("account_close", "other"),
)
FLAGS = (
    *("opening_inventory_unknown", "incomplete_history", "unrecognised_program", "basis_carried"),
    *("fee_only", "owner_inferred", "order_unresolved"),
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
        *((mint, ("verified", None)) for mint in (None, "A", "B")),
        ("C", ("mismatch", "mint_not_in_trade")),
    ],
)
def test_a_named_mint_must_have_moved(kind, mint, verdict):
    assert judge(kind, (), MOVED, mint, 95) == verdict


@pytest.mark.parametrize("kind", NO_TRADES)
@pytest.mark.parametrize("mint", [None, "A", "C"])
@pytest.mark.parametrize("flags", [(), *((flag,) for flag in FLAGS), FLAGS])
def test_other_transactions_do_not_verify(kind, mint, flags):
    assert judge(kind, flags, MOVED, mint, None) == ("mismatch", "not_a_trade")


@pytest.mark.parametrize("mint", [None, "A", "C"])
@pytest.mark.parametrize("more", ["order_unresolved", "not_signer", "no_swap", "value_unexplained"])
def test_an_ambiguous_transaction_neither_verifies_nor_contradicts(mint, more):
    assert judge("other", ("ambiguous",), MOVED, mint, None) == ("none", "ambiguous")
    assert judge("other", ("ambiguous", more), MOVED, mint, None) == ("none", "ambiguous")


@pytest.mark.parametrize("mint", [None, "A", "C"])
@pytest.mark.parametrize("flags", [(), ("ambiguous",)])
def test_a_failed_transaction_is_reported_as_failed_first(mint, flags):
    assert judge("failed", flags, MOVED, mint, None) == ("mismatch", "failed")


def test_a_trade_without_token_movement_matches_no_mint():
    assert judge("swap", (), set(), "A", 100) == ("mismatch", "mint_not_in_trade")
    assert judge("swap", (), set(), None, 100) == ("verified", None)


@pytest.mark.parametrize("kind", TRADES)
@pytest.mark.parametrize("mint", [None, "A", "C"])
def test_unexplained_value_neither_verifies_nor_contradicts(kind, mint):
    flags = ("value_unexplained", "counterparty_signed")
    assert judge(kind, flags, MOVED, mint, 0) == ("none", "value_unexplained")


@pytest.mark.parametrize("flags", [(), FLAGS])
@pytest.mark.parametrize("mint", [None, "A", "C"])
def test_an_empty_fill_does_not_verify(flags, mint):
    """It has no price, so none of it is explained."""
    assert judge("order_fill", flags, MOVED, mint, None) == ("mismatch", "not_a_trade")
    # A transaction not priced by this version is read again first.
    assert judge("sell", flags, MOVED, None, None) == ("verified", None)


@pytest.mark.parametrize("flag", ["fee_income", "tip_only"])
def test_income_and_tips_are_not_trades(flag):
    assert judge("other", (flag,), MOVED, None, None) == ("mismatch", "not_a_trade")


def test_a_trade_moved_the_tokens_in_its_rows():
    rows = [["A", "-5", 6], ["B", "1", 0]]
    for mint in ("A", "C", None):
        assert list_moved_mints("swap", mint, rows, []) == {"A", "B"}
    assert list_moved_mints("buy", None, [], []) == set()


def test_a_round_trip_moved_its_own_token_too():
    """Nothing of the token is left, or 7 arrived from outside the venue."""
    assert list_moved_mints("round_trip", "C", [], []) == {"C"}
    assert list_moved_mints("round_trip", "C", [["C", "7", 0]], [["C", "7", 0]]) == {"C"}
    assert list_moved_mints("round_trip", None, [], []) == set()


def test_tokens_from_outside_the_venue_were_not_traded():
    """5 of A left; 4 of B arrived, all from outside the venue; 3 of C arrived, 2 of them from
    outside. D is unchanged: 9 were given and 9 arrived from outside.
    """
    whole = [["A", "-5", 6], ["B", "4", 0], ["C", "3", 0]]
    beside = [["B", "4", 0], ["C", "2", 0], ["D", "9", 0]]
    assert list_moved_mints("sell", "A", whole, beside) == {"A", "C", "D"}
    # An order fill's main token is that of the whole transaction.
    assert list_moved_mints("order_fill", "B", whole, beside) == {"A", "C", "D"}
    assert list_moved_mints("order_fill", "B", [], []) == {"B"}
    assert list_moved_mints("order_fill", "B", [["A", "5", 6]], []) == {"A", "B"}
    # In the format of an entry.
    assert list_moved_mints("sell", "A", (("B", 4, 0),), (("B", 4, 0),)) == set()
