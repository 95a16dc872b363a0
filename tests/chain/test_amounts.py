"""Amounts as text, never rounded, and tokens that display a multiple of their raw units."""

import struct
from fractions import Fraction

import pytest
from test_mints import mint_account

from chain.amounts import (
    ONE,
    UNKNOWN,
    Scale,
    exact,
    load_scale,
    read_scale,
    show_amount,
    show_raw,
    sol,
)
from chain.mints import parse_mint


def test_amounts_are_exact_text():
    """SOL has up to nine decimals without trailing zeros; an unknown amount is None."""
    texts = {-1_250_000_000: "-1.25", 1: "0.000000001", 10: "0.00000001", 0: "0"}
    assert {raw: exact(raw, 9) for raw in texts} == texts
    assert [exact(raw, 0) for raw in (5, -10)] == ["5", "-10"]
    assert sol(2_000_000_000) == "2"
    assert [show_raw(one) for one in (None, 0, 2**63)] == [None, "0", "9223372036854775808"]


# ---- Token-2022 scaled amounts -------------------------------------------------------------------
CHANGES = 1_800_000_000


def scale_of(before, after=3.0):
    """Of a mint without an authority."""
    account = mint_account((25, bytes(32) + struct.pack("<dqd", before, CHANGES, after)))
    return read_scale(parse_mint(account).extensions)


def test_a_new_multiplier_applies_from_its_second_on():
    scale = Scale("1.5", CHANGES, "3.0")
    assert scale_of(1.5) == load_scale(scale.dump()) == scale
    assert (scale.find(CHANGES - 1), scale.find(CHANGES)) == (Fraction(3, 2), 3)


def test_a_mint_without_the_extension_uses_raw_units():
    """It is unknown if the extensions are unreadable."""
    assert read_scale(parse_mint(mint_account()).extensions) is None
    broken = parse_mint(mint_account(tail=b"\x19\x00\xff\x00"))
    assert read_scale(broken.extensions) == UNKNOWN


def test_an_invalid_multiplier_or_damaged_text_is_unknown():
    for bad in (0.0, -1.0, float("nan"), float("inf"), 1e300):
        scale = scale_of(bad)
        assert scale.find(0) is None and scale.find(CHANGES) == 3
    for text in ("", "[]", "7", '["x", 1, "2"]', '["1", "x", "2"]'):
        assert load_scale(text).find(0) is None


@pytest.mark.parametrize(
    "raw, multiplier, text",
    [
        (1_500_000, ONE, "1.5"),
        (1_500_000, Fraction(2), "3"),
        (-1_500_000, Fraction(2), "-3"),
        # Cut at six decimals, also below zero; a tenth of a unit is zero.
        (1, Fraction("1.0375"), "0.000001"),
        (-1, Fraction("1.0375"), "-0.000001"),
        (1, Fraction("0.1"), "0"),
        (10**20, Fraction("1.0375"), "103750000000000"),
        (7, None, None),
    ],
)
def test_an_amount_is_multiplied_and_truncated(raw, multiplier, text):
    assert show_amount(raw, 6, multiplier) == text
