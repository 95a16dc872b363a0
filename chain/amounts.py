"""Write integer amounts as exact decimal text, without floats or rounding.

A Token-2022 mint may display a multiple of the raw units. Only displayed and estimated amounts are
scaled, never raw units, lots or results.
"""

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, NamedTuple

import orjson


def exact(raw: int, decimals: int) -> str:
    """`exact(-1250000000, 9)` is "-1.25"; `exact(5, 0)` is "5"."""
    digits = str(abs(raw)).rjust(decimals + 1, "0")
    whole, fraction = digits[: len(digits) - decimals], digits[len(digits) - decimals :].rstrip("0")
    return ("-" if raw < 0 else "") + whole + ("." + fraction if fraction else "")


def sol(lamports: int) -> str:
    return exact(lamports, 9)


def show_raw(raw: int | None) -> str | None:
    """Return text, because JSON parsers don't round it."""
    return None if raw is None else str(raw)


def show_fixed(raw: int | None, decimals: int) -> str | None:
    """`show_fixed(-410, 2)` is "-4.10"."""
    if raw is None:
        return None
    digits = str(abs(raw)).rjust(decimals + 1, "0")
    return f"{'-' if raw < 0 else ''}{digits[:-decimals]}.{digits[-decimals:]}"


# ---- Token-2022 scaled amounts -------------------------------------------------------------------
ONE = Fraction(1)
MIN_EXPONENT, MAX_EXPONENT = -30, 30


class Scale(NamedTuple):
    """A multiplier as decimal text before and after `changes_at` (Unix s), or None."""

    before: str | None
    changes_at: int
    after: str | None

    def find(self, at: int) -> Fraction | None:
        text = self.after if at >= self.changes_at else self.before
        return None if text is None else Fraction(text)

    def dump(self) -> str:
        return orjson.dumps(tuple(self)).decode()


UNKNOWN = Scale(None, 0, None)


def load_scale(text: str) -> Scale:
    """Return UNKNOWN if the stored text is damaged."""
    try:
        before, changes_at, after = orjson.loads(text)
        return Scale(before and _read(before), int(changes_at), after and _read(after))
    except (TypeError, ValueError):
        return UNKNOWN


def read_scale(extensions: dict[str, Any] | None) -> Scale | None:
    if extensions is None:
        return UNKNOWN
    state = extensions.get("scaledUiAmountConfig")
    if state is None:
        return None
    changes_at = state["newMultiplierEffectiveTimestamp"]
    return Scale(_read(state["multiplier"]), changes_at, _read(state["newMultiplier"]))


def _read(told: Any) -> str | None:
    """Return the shortest decimal text of the 64-bit float on the chain, as wallets display it."""
    try:
        number = Decimal(str(told))
    except InvalidOperation:
        return None
    if not number.is_finite() or number <= 0:
        return None
    return f"{number:f}" if MIN_EXPONENT <= number.adjusted() <= MAX_EXPONENT else None


def show_amount(raw: int, decimals: int, multiplier: Fraction | None) -> str | None:
    """Return the amount truncated to `decimals` places, or None if the multiplier is unknown."""
    if multiplier is None:
        return None
    scaled = abs(raw) * multiplier.numerator // multiplier.denominator
    return exact(scaled if raw >= 0 else -scaled, decimals)
