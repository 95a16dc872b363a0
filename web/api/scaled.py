"""Displayed amounts of tokens. For some tokens they are a multiple of the raw units
(chain.amounts).
"""

import sys
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from chain.amounts import ONE, Scale, load_scale
from storage.rows import read

# By mint, for tokens whose displayed amounts aren't raw units.
Scales = Mapping[str, Scale]


# Comparing the mint makes the query use the index of scaled tokens.
SCALES = "SELECT mint, scale FROM token WHERE scale IS NOT NULL AND mint > ''"


def read_scales() -> Scales:
    return {row.mint: load_scale(row.scale) for row in read(SCALES)}


def find_multiplier(scales: Scales, mint: str, at: int | None) -> Fraction | None:
    """Return the multiplier from raw units to displayed amounts at a time (Unix seconds; None: the
    latest known). None if it can't be read.
    """
    scale = scales.get(mint)
    return ONE if scale is None else scale.find(sys.maxsize if at is None else at)


def write_multiplier(multiplier: Fraction | None) -> str | None:
    """Return the multiplier as an exact decimal number; None if it can't be read."""
    if multiplier is None:
        return None
    return "1" if multiplier == 1 else f"{Decimal(multiplier.numerator) / multiplier.denominator:f}"


def read_multiplier(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)
