"""Token-2022's scaled amounts: a mint may show a multiple of the raw units. Pure.

Only what is displayed and estimated is multiplied: raw units, lots and results never are.
"""

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, NamedTuple

import orjson

from chain.amounts import exact

ONE = Fraction(1)
# Powers of ten that a multiplier may have; beyond them, the state is nonsense.
MIN_EXPONENT, MAX_EXPONENT = -30, 30


class Scale(NamedTuple):
    """Decimal text of the multiplier until `changes_at` (Unix seconds) and from then on; None if it
    can't be read.
    """

    before: str | None
    changes_at: int
    after: str | None

    def find(self, at: int) -> Fraction | None:
        """The multiplier at a time, Unix seconds."""
        text = self.after if at >= self.changes_at else self.before
        return None if text is None else Fraction(text)

    def dump(self) -> str:
        return orjson.dumps(tuple(self)).decode()


UNKNOWN = Scale(None, 0, None)


def load_scale(text: str) -> Scale:
    """UNKNOWN if the stored text is damaged."""
    try:
        before, changes_at, after = orjson.loads(text)
        return Scale(before and _read(before), int(changes_at), after and _read(after))
    except (TypeError, ValueError):
        return UNKNOWN


def read_scale(extensions: dict[str, Any] | None) -> Scale | None:
    """From a mint's extensions (chain.mints); None if it shows raw units as they are."""
    if extensions is None:
        return UNKNOWN
    state = extensions.get("scaledUiAmountConfig")
    if state is None:
        return None
    try:
        changes_at = int(state["newMultiplierEffectiveTimestamp"])
        return Scale(_read(state["multiplier"]), changes_at, _read(state["newMultiplier"]))
    except (KeyError, TypeError, ValueError):
        return UNKNOWN


def _read(told: Any) -> str | None:
    """The chain has a float of 64 bits; its shortest decimal text is what wallets show."""
    try:
        number = Decimal(str(told))
    except InvalidOperation:
        return None
    if not number.is_finite() or number <= 0:
        return None
    return f"{number:f}" if MIN_EXPONENT <= number.adjusted() <= MAX_EXPONENT else None


def show_amount(raw: int, decimals: int, multiplier: Fraction | None) -> str | None:
    """Exact text of what is displayed, cut off after `decimals` places; None if unknown."""
    if multiplier is None:
        return None
    scaled = abs(raw) * multiplier.numerator // multiplier.denominator
    return exact(scaled if raw >= 0 else -scaled, decimals)
