"""Amounts as text: never rounded, never floats."""

from chain.amounts import exact, show_raw, sol


def test_amounts_are_exact_text():
    """SOL has up to nine decimals without trailing zeros; an unknown amount is None."""
    assert [exact(raw, 9) for raw in (-1_250_000_000, 1, 10, 0)] == [
        "-1.25",
        "0.000000001",
        "0.00000001",
        "0",
    ]
    assert [exact(raw, 0) for raw in (5, -10)] == ["5", "-10"]
    assert sol(2_000_000_000) == "2"
    assert [show_raw(one) for one in (None, 0, 2**63)] == [None, "0", "9223372036854775808"]
