"""Estimated values of open positions, from the scout's last price. They are not part of any
result.
"""

from collections.abc import Collection, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from chain.amounts import show_amount
from storage.rows import read, write_marks
from web.api import market
from web.api.serialize import Json, show_sol, show_time
from web.api.trades import find_multiplier, read_scales

LAMPORTS = 10**9
# Powers of ten that a price in SOL can have.
MIN_EXPONENT, MAX_EXPONENT = -30, 12


# The last quotes of tokens. `quoted_at`: ms; `absurd`: why the price is implausible.
PRICES = "SELECT mint, price_sol, source, quoted_at, absurd FROM token WHERE mint IN "


def add_estimates(positions: Sequence[Json], now: int) -> list[Json]:
    """Return positions with displayed amounts, `estimate` and `estimateReason`. `now`: ms."""
    prices, current = find_prices([one["mint"] for one in positions]), market.find_current(now)
    scales = read_scales()
    return [
        _add_estimate(
            one,
            prices.get(one["mint"]),
            current,
            find_multiplier(scales, one["mint"], now // 1000),
        )
        for one in positions
    ]


def _add_estimate(position: Json, row: Any, current: int, multiplier: Fraction | None) -> Json:
    amount, unknown = (
        show_amount(int(position[name]), position["decimals"], multiplier)
        for name in ("amountRaw", "unknownBasisRaw")
    )
    estimate = show_estimate(position, row, current, multiplier)
    return {**position, "amount": amount, "unknownBasis": unknown, **estimate}


def find_prices(mints: Collection[str]) -> dict[str, Any]:
    asked = list(mints)
    rows = read(f"{PRICES}({write_marks(asked)})", asked) if asked else []
    return {row.mint: row for row in rows}


def show_estimate(position: Json, row: Any, current: int, multiplier: Fraction | None) -> Json:
    """Make the Estimate of a position, or the reason for not having one. A quote from before
    `current` (ms) is stale. Prices are per displayed amount, which is `multiplier` times the raw
    units.
    """
    if multiplier is None:
        return {"estimate": None, "estimateReason": "multiplier_unknown"}
    price = None if row is None else parse_price(row.price_sol)
    if row is None or price is None or row.quoted_at is None:
        return {"estimate": None, "estimateReason": "no_price"}
    if row.absurd:
        return {"estimate": None, "estimateReason": "price_doubtful"}
    value = find_value(int(position["amountRaw"]), position["decimals"], price * multiplier)
    estimate = {
        "valueLamports": str(value),
        "valueSol": show_sol(value),
        "priceSol": f"{Decimal(row.price_sol or 0):f}",
        "source": row.source,
        "priceAt": show_time(row.quoted_at),
        "stale": row.quoted_at < current,
    }
    return {"estimate": estimate, "estimateReason": None}


def find_value(raw: int, decimals: int, price: Fraction) -> int:
    """Return the value of an amount at a price in SOL, in whole lamports rounded down."""
    return raw * price.numerator * LAMPORTS // (int(10**decimals) * price.denominator)


def parse_price(text: str | None) -> Fraction | None:
    """Return a positive price exactly, or None if the text isn't one."""
    try:
        price = Decimal(text or "")
    except InvalidOperation:
        return None
    if not price.is_finite() or price <= 0:
        return None
    return Fraction(price) if MIN_EXPONENT <= price.adjusted() <= MAX_EXPONENT else None
