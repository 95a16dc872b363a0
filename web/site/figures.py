"""Format numbers for readers: SOL, tokens, dollars and percentages. Each has one function.

Use these wherever a page, a feed or a card shows a number; templates don't do arithmetic. The
`write_` functions return text; the filters `sol`, `lamports`, `tokens`, `usd`, `price`, `percent`
and `change` return a `<data>` element that includes the exact value:

    {{ row.realizedSol | sol(sign=true) }}                +18.00 SOL
    {{ fee | lamports(unit=false) }}                      0.000005
    {{ row.winRate | percent }}                           53%
    {{ receipt.resultPct | change }}                      −4.1%
    {{ trade.feeLamports | exact_sol }}                   0.000005123, every digit, in an opened row
    {% set places = rows | map(attribute="realizedSol") | find_places %}
    {{ row.realizedSol | sol(sign=true, unit=false, places=places) }}

Amounts are exact decimal text, as in the API, or whole numbers. None means unknown and is written
as a dash.
"""

import re
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Context, Decimal

from markupsafe import Markup, escape

from chain import amounts

Number = str | int | float | Decimal
SIGNIFICANT_DIGITS = 4
# For an amount below one, if these show at least three significant digits.
PLACES_BELOW_ONE = 4
MIN_WITH_FIXED_PLACES = Decimal("0.01")
# For smaller amounts. Prices and tiny amounts, such as a fee, keep their own digits.
MAX_SMALL_PLACES, MIN_SMALL = 5, Decimal("0.0001")
# In a column of money. With fewer, its amounts would look the same.
MIN_COLUMN_PLACES = 2
MINUS, UNKNOWN = "\u2212", "–"
# Enough for any amount on a chain, so a sum of tokens is never rounded by accident.
EXACT = Context(prec=60)
SOL_DECIMALS = 9


# ---- text ----------------------------------------------------------------------------------------
def write_number(number: Number, sign: bool = False, places: int | None = None) -> str:
    """Write a number with four significant digits, such as `1,234`, `18.00`, `0.0982`, `0.000005`.

    `sign` adds a plus to positive numbers. `places`: the decimal places of a column.
    """
    value = _read(number)
    # In a column, a nonzero number must not look like zero.
    is_hidden = places is not None and bool(value) and not _round(value, places)
    if places is None or is_hidden:
        text = f"{_shorten(abs(value)):,f}"
    else:
        text = f"{_round(abs(value), places):,f}"
    if is_hidden or (places is None and abs(value) < MIN_WITH_FIXED_PLACES):
        text = _strip(text)
    return _find_mark(value, sign) + text


def write_exact(number: Number, sign: bool = False) -> str:
    """Write every digit of a number: `−1,234.500000001`."""
    value = _read(number)
    return _find_mark(value, sign) + _strip(f"{abs(value):,f}")


def write_lamports(lamports: str | int, sign: bool = False) -> str:
    return write_units(lamports, "SOL", SOL_DECIMALS, sign)


def write_units(raw: str | int, symbol: str, decimals: int, sign: bool = False) -> str:
    """Write raw units of a currency: `+2.500 USDC`."""
    return f"{write_number(amounts.exact(int(raw), decimals), sign)} {symbol}"


def write_tokens(number: Number, sign: bool = False, places: int | None = None) -> str:
    """Write an amount of tokens like write_number, but `18` instead of `18.00`."""
    text = write_number(number, sign, places)
    return text if places else _strip(text)


def write_price(number: Number) -> str:
    """Write a price like write_number, but always with four significant digits."""
    value = Decimal(str(number))
    if not 0 < value < MIN_WITH_FIXED_PLACES:
        return write_number(number)
    return _strip(write_number(number, places=_find_own_places(value)))


def write_percent(share: Number) -> str:
    percentage = Decimal(str(share)) * 100
    if 0 < percentage < 1:
        return "<1%"
    shown = _round(percentage, 0)
    # A share below 100% is never shown as 100%.
    return "99%" if percentage < 100 <= shown else f"{shown:,f}%"


def write_change(percentage: Number) -> str:
    """Write a percentage change with its sign: `−4.1%`, `+250%`."""
    value = Decimal(str(percentage))
    return f"{write_number(percentage, True, 0 if abs(value) >= 100 else 1)}%"


def write_return(percent: str | None) -> str:
    return UNKNOWN if percent is None else f"{write_exact(percent, True)}%"


def write_bps(bps: int) -> str:
    """Write basis points as a percentage: 1410 becomes `+14.1%`."""
    return write_change(amounts.exact(bps, 2))


def write_megabytes(count: int) -> str:
    return f"{count / 1_000_000:,.1f} MB"


# A number in a sentence, with its sign and unit.
TOLD = re.compile(r"(?<![\w.,])([+-]?)(\d+(?:\.\d+)?)(?![\w.]*\w)( SOL\b| ?%)?")


def told(text: str) -> str:
    """Reformat the numbers in a sentence, with true minus signs.

    SOL and long amounts get four significant digits, and percentages one decimal.
    """
    return TOLD.sub(_write_told, text)


def _write_told(match: re.Match[str]) -> str:
    sign, digits, unit = match.groups(default="")
    mark = MINUS if sign == "-" else sign
    if unit == " SOL":
        return f"{mark}{write_number(digits)}{unit}"
    if "%" in unit:
        return f"{mark}{write_number(digits, places=1) if '.' in digits else digits}%"
    if not unit and len(digits) - 1 > SIGNIFICANT_DIGITS and "." in digits:
        return mark + write_tokens(digits)
    return mark + digits + unit


def find_places(numbers: Iterable[Number | None]) -> int:
    """Return a column's decimal places: two or more, with four digits for the largest number."""
    largest = max(
        (abs(Decimal(str(one))) for one in numbers if one is not None), default=Decimal(0)
    )
    return max(MIN_COLUMN_PLACES, _choose_places(max(largest, MIN_WITH_FIXED_PLACES)))


def find_unit_places(raws: Iterable[str | int | None], decimals: int = SOL_DECIMALS) -> int:
    return find_places(None if one is None else amounts.exact(int(one), decimals) for one in raws)


def _choose_places(value: Decimal) -> int:
    if value >= 1:
        return max(0, SIGNIFICANT_DIGITS - 1 - value.adjusted())
    if value >= MIN_WITH_FIXED_PLACES:
        return PLACES_BELOW_ONE
    own = _find_own_places(value) if value else 0
    return min(own, MAX_SMALL_PLACES) if value >= MIN_SMALL else own


def _find_own_places(value: Decimal) -> int:
    """Return the decimal places that show four significant digits of a number below ten."""
    return SIGNIFICANT_DIGITS - 1 - value.adjusted()


def _shorten(value: Decimal) -> Decimal:
    shown = _round(value, _choose_places(value))
    # 999.96 becomes 1,000, not 1,000.0.
    return _round(value, _choose_places(shown))


def _strip(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _find_mark(value: Decimal, sign: bool) -> str:
    return MINUS if value < 0 else "+" if sign and value > 0 else ""


def _round(value: Decimal, places: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, EXACT)


def _read(number: Number) -> Decimal:
    return number if isinstance(number, Decimal) else Decimal(str(number))


# ---- markup --------------------------------------------------------------------------------------
def sol(
    number: Number | None, sign: bool = False, unit: bool = True, places: int | None = None
) -> Markup | str:
    """Mark up exact SOL. With `sign`, gains and losses are colored."""
    return _mark_up(number, "SOL", sign, unit, places)


def lamports(
    number: str | int | None, sign: bool = False, unit: bool = True, places: int | None = None
) -> Markup | str:
    return units(number, "SOL", SOL_DECIMALS, sign, unit, places)


def units(
    raw: str | int | None,
    symbol: str,
    decimals: int,
    sign: bool = False,
    unit: bool = True,
    places: int | None = None,
) -> Markup | str:
    number = None if raw is None else amounts.exact(int(raw), decimals)
    return _mark_up(number, symbol, sign, unit, places)


def flow(number: Number, places: int | None = None) -> Markup:
    """Mark up SOL that was paid or received, which is neither a gain nor a loss, without color."""
    text, exact = write_number(number, True, places), write_exact(number, True)
    return _wrap(number, f"{text} SOL", f"{exact} SOL")


def tokens(number: Number | None, sign: bool = False, places: int | None = None) -> Markup | str:
    """Mark up an amount of tokens (not raw units), without color."""
    if number is None:
        return UNKNOWN
    return _wrap(number, write_tokens(number, sign, places), write_exact(number, sign))


def usd(number: Number | None) -> Markup | str:
    if number is None:
        return UNKNOWN
    return _wrap(number, f"${write_price(number)}", f"${write_exact(number)}")


def price(number: Number | None) -> Markup | str:
    return UNKNOWN if number is None else _wrap(number, write_price(number), write_exact(number))


def percent(share: Number | None) -> Markup | str:
    return UNKNOWN if share is None else _wrap(share, write_percent(share), "")


def change(percentage: Number | None, neutral: bool = False) -> Markup | str:
    """Mark up a percentage change. `neutral`: neither a gain nor a loss, so without color."""
    if percentage is None:
        return UNKNOWN
    exact = f"{write_exact(percentage, True)}%"
    color = "" if neutral else _find_color(percentage)
    return _wrap(percentage, write_change(percentage), exact, color)


def exact_sol(raw: str | int | None, sign: bool = False, decimals: int = SOL_DECIMALS) -> str:
    """Write every digit of raw units, by default lamports."""
    return UNKNOWN if raw is None else write_exact(amounts.exact(int(raw), decimals), sign)


def whole(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def _mark_up(
    number: Number | None, name: str, sign: bool, unit: bool, places: int | None
) -> Markup | str:
    if number is None:
        return UNKNOWN
    number = _read(number)
    text = write_number(number, sign, places) + (f" {name}" if unit else "")
    color = _find_color(number) if sign else ""
    return _wrap(number, text, f"{write_exact(number, sign)} {name}", color)


def _wrap(number: Number, text: str, exact: str, color: str = "") -> Markup:
    title = f' title="{escape(exact)}"' if exact and exact != text else ""
    value = _strip(f"{_read(number):f}")
    name = f"amount {color}".strip()
    # Only digits, signs and our own names are left unescaped.
    return Markup(f'<data class="{name}" value="{value}"{title}>{escape(text)}</data>')


def _find_color(number: Number) -> str:
    value = _read(number)
    return "up" if value > 0 else "down" if value < 0 else ""
