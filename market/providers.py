"""Parse responses of DexScreener and GeckoTerminal into exact values. Pure.

Neither service needs a key. Their formats are documented at docs.dexscreener.com/api/reference and
apiguide.geckoterminal.com. DexScreener's published limits are 60 requests a minute for token
profiles and boosts, and 300 a minute for tokens/v1, with up to 30 addresses each. GeckoTerminal's
is 30 a minute.
"""

import datetime
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from chain.addresses import WRAPPED_SOL, is_address
from market.failures import FetchError
from market.rules import DAY_MS

ADDRESSES_PER_CALL = 30
MAX_SYMBOL, MAX_NAME = 32, 100
# GeckoTerminal's exchange IDs that DexScreener spells differently.
GECKO_NAMES = {
    "pump-fun": "pumpfun",
    "raydium-clmm": "raydium/clmm",
    "raydium-launchlab": "launchlab",
}
# An unvalidated JSON value.
Unread = Any
T = TypeVar("T")


class RowCount(NamedTuple):
    """Readable rows in a response (including skipped ones), and unreadable rows."""

    readable: int
    unreadable: int

    def plus(self, other: "RowCount") -> "RowCount":
        return RowCount(self.readable + other.readable, self.unreadable + other.unreadable)

    @property
    def is_nonsense(self) -> bool:
        """Most rows were unreadable, so the whole response is bad, not just a row."""
        return self.unreadable > self.readable


@dataclass(frozen=True)
class Quote:
    """A provider's data about one token.

    Amounts are exact decimal text, or None if unknown. Symbol and name are untrusted text.
    `pair_created_at` is in ms. Changes are percentages. `venue` is the provider's ID of the
    exchange, with the kind of pool if known (raydium/clmm). `pair` is the pool's address.
    `pool_tokens` is the side of the pool that isn't SOL.
    """

    mint: str
    source: str
    symbol: str | None
    name: str | None
    price_sol: str | None
    price_usd: str | None
    liquidity_usd: str | None
    pool_sol: str | None
    volume24h_usd: str | None
    pair_url: str | None
    pair_created_at: int | None
    venue: str | None = None
    pair: str | None = None
    pool_tokens: str | None = None
    market_cap_usd: str | None = None
    volume5m_usd: str | None = None
    volume1h_usd: str | None = None
    change5m_pct: str | None = None
    change1h_pct: str | None = None


def parse_amount(value: Unread) -> str | None:
    """Return a JSON number or string as exact decimal text. None stays None.

    Raises ValueError for anything else, including NaN and overlong digits.
    """
    if value is None:
        return None
    text = (
        str(value) if isinstance(value, (int, Decimal)) and not isinstance(value, bool) else value
    )
    if not isinstance(text, str) or not re.fullmatch(
        r"[+-]?\d{1,90}(\.\d{1,120})?([eE][+-]?\d{1,3})?", text, re.ASCII
    ):
        raise ValueError("no number")
    number = Decimal(text)
    if number and abs(number.adjusted()) > 60:
        raise ValueError("the price is implausibly large or small")
    return format(number, "f")


def parse_text(value: Unread, max_length: int) -> str | None:
    """Return a name as plain text of at most `max_length` characters, or None if nothing is left.

    Repeated spaces become one space. Characters of the Unicode category C (control, format,
    unassigned) are removed.
    """
    if not isinstance(value, str):
        return None
    kept = "".join(
        " " if c.isspace() else c
        for c in value[: max_length * 8]
        if c.isspace() or unicodedata.category(c)[0] != "C"
    )
    return " ".join(kept.split())[:max_length].strip() or None


def _symbol_and_name(row: Unread) -> tuple[str | None, str | None]:
    return parse_text(row.get("symbol"), MAX_SYMBOL), parse_text(row.get("name"), MAX_NAME)


def _parse_rows(rows: Unread, parse: Callable[[Unread], T | None]) -> tuple[list[T], RowCount]:
    """Apply `parse` to each row. Drop unreadable rows, and results that are None."""
    if not isinstance(rows, list):
        raise FetchError("sent an unexpected response format")
    values: list[T | None] = []
    unreadable = 0
    for row in rows:
        try:
            values.append(parse(row))
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError):
            unreadable += 1
    return [value for value in values if value is not None], RowCount(len(values), unreadable)


def _mint(text: Unread) -> str:
    if not isinstance(text, str) or not is_address(text):
        raise ValueError("no address")
    return text


def parse_list(value: Unread) -> tuple[list[str], RowCount]:
    """Return the Solana mints in DexScreener's profiles or boosts."""
    return _parse_rows(
        value, lambda row: _mint(row["tokenAddress"]) if row["chainId"] == "solana" else None
    )


def parse_pairs(value: Unread) -> tuple[dict[str, Quote], RowCount]:
    """Return {mint: Quote} for DexScreener's pairs, a bare list or under `pairs`.

    If a token has several pairs, the one quoted in SOL with the most liquidity is used.
    """
    rows = value["pairs"] or [] if isinstance(value, dict) and "pairs" in value else value
    quotes, rows_read = _parse_rows(rows, _parse_pair)
    return {quote.mint: quote for quote in sorted(quotes, key=_depth)}, rows_read


def _depth(quote: Quote) -> tuple[bool, Decimal]:
    return quote.price_sol is not None, Decimal(quote.liquidity_usd or -1)


def _parse_pair(row: Unread) -> Quote | None:
    if row["chainId"] != "solana" or row["baseToken"]["address"] == WRAPPED_SOL:
        return None
    in_sol = row["quoteToken"]["address"] == WRAPPED_SOL
    # pump.fun's bonding curves don't have it.
    liquidity = row.get("liquidity") or {}
    price_sol = parse_amount(row.get("priceNative")) if in_sol else None
    price_usd = parse_amount(row.get("priceUsd"))
    if price_sol is None and price_usd is None:
        return None
    return Quote(
        _mint(row["baseToken"]["address"]),
        "dexscreener",
        *_symbol_and_name(row["baseToken"]),
        price_sol,
        price_usd,
        parse_amount(liquidity.get("usd")),
        parse_amount(liquidity.get("quote")) if in_sol else None,
        parse_amount((row.get("volume") or {}).get("h24")),
        _link("https://dexscreener.com/solana/", row.get("pairAddress")),
        _past(row.get("pairCreatedAt")),
        _venue(row.get("dexId"), row.get("labels")),
        _address(row.get("pairAddress")),
        parse_amount(liquidity.get("base")) if in_sol else None,
        _lenient(row.get("marketCap")),
        *_windows(row.get("volume")),
        *_windows(row.get("priceChange")),
    )


def _windows(value: Unread) -> tuple[str | None, str | None]:
    windows = value if isinstance(value, dict) else {}
    return _lenient(windows.get("m5")), _lenient(windows.get("h1"))


def _lenient(value: Unread) -> str | None:
    """Return a number as exact text, or None for any other value.

    A bad value that only describes a pair must not cause its price to be dropped.
    """
    try:
        return parse_amount(value)
    except (ValueError, ArithmeticError):
        return None


def _venue(dex: Unread, labels: Unread = None) -> str | None:
    """Return `dex` or `dex/kind`, because one exchange may have several kinds of pools."""
    kinds = [one for one in labels if _is_word(one)] if isinstance(labels, list) else []
    return "/".join([dex, *kinds[:1]]).lower() if _is_word(dex) else None


def _is_word(text: Unread) -> bool:
    return isinstance(text, str) and re.fullmatch(r"[A-Za-z0-9_./-]{1,40}", text) is not None


def _address(text: Unread) -> str | None:
    return text if is_address(text) else None


def parse_pools(value: Unread) -> tuple[dict[str, Quote], RowCount]:
    """Return {mint: Quote} for GeckoTerminal's pools. They have a SOL price for any quote token."""
    if not isinstance(value, dict):
        raise FetchError("sent an unexpected response format")
    named, _ = _parse_rows(
        value.get("included", []), lambda row: (str(row["id"]), row["attributes"])
    )
    names = dict(named)
    quotes, rows_read = _parse_rows(value.get("data"), lambda row: _parse_pool(row, names))
    return {quote.mint: quote for quote in sorted(quotes, key=_depth)}, rows_read


def _parse_pool(row: Unread, names: dict[str, Unread]) -> Quote | None:
    pool, sides = row["attributes"], row["relationships"]
    base, other = (sides[side]["data"]["id"] for side in ("base_token", "quote_token"))
    if not base.startswith("solana_") or base == f"solana_{WRAPPED_SOL}":
        return None
    in_sol = other == f"solana_{WRAPPED_SOL}"
    reserve = parse_amount(pool.get("reserve_in_usd"))
    sol_usd = parse_amount(pool.get("quote_token_price_usd")) if in_sol else None
    price_usd = parse_amount(pool.get("base_token_price_usd"))
    if price_usd is None:
        return None
    return Quote(
        _mint(base.removeprefix("solana_")),
        "geckoterminal",
        *_symbol_and_name(names.get(base) or {}),
        parse_amount(pool.get("base_token_price_native_currency")),
        price_usd,
        reserve,
        _half_in_sol(reserve, sol_usd),
        parse_amount((pool.get("volume_usd") or {}).get("h24")),
        _link("https://www.geckoterminal.com/solana/pools/", pool.get("address")),
        _past(_ms(pool.get("pool_created_at"))),
        _venue(_dex(sides)),
        _address(pool.get("address")),
        None,
        _lenient(pool.get("market_cap_usd")) or _lenient(pool.get("fdv_usd")),
        *_windows(pool.get("volume_usd")),
        *_windows(pool.get("price_change_percentage")),
    )


def _dex(sides: Unread) -> Unread:
    dex = ((sides.get("dex") or {}).get("data") or {}).get("id")
    return GECKO_NAMES.get(dex, dex) if isinstance(dex, str) else None


def _half_in_sol(reserve_usd: str | None, sol_usd: str | None) -> str | None:
    """GeckoTerminal only returns the sum of both sides of a pool, in USD."""
    if reserve_usd is None or sol_usd is None or Decimal(sol_usd) <= 0:
        return None
    return format(Decimal(reserve_usd) / Decimal(sol_usd) / 2, ".9f")


def _ms(text: Unread) -> int | None:
    return int(datetime.datetime.fromisoformat(text).timestamp() * 1000) if text else None


def _link(page: str, address: Unread) -> str | None:
    """Links in responses are never used."""
    return page + address if is_address(address) else None


def _past(ms: Unread) -> int | None:
    return ms if type(ms) is int and 0 < ms < 2**53 else None


# ---- daily requests ------------------------------------------------------------------------------
MINUTES_OF_DAY = 1_440
USED_UP = "the daily limit on requests is used up; requests resume at 00:00 UTC"


@dataclass
class Budget:
    """The requests to a provider on one UTC day (numbered from 1970).

    `held_back` is how often its limits delayed requests to a later pass that day. The last time was
    at `held_back_at` (ms).
    """

    requests_per_minute: int
    day: int = 0
    requests: int = 0
    held_back: int = 0
    held_back_at: int | None = None

    @property
    def allowed(self) -> int:
        """Requests a day that the provider's published limits allow."""
        return self.requests_per_minute * MINUTES_OF_DAY

    def count(self, now_ms: int) -> None:
        self._turn(now_ms)
        self.requests += 1

    def hold_back(self, now_ms: int) -> None:
        self._turn(now_ms)
        self.held_back, self.held_back_at = self.held_back + 1, now_ms

    def is_used_up(self, now_ms: int) -> bool:
        self._turn(now_ms)
        return self.requests >= self.allowed

    def _turn(self, now_ms: int) -> None:
        if self.day != now_ms // DAY_MS:
            self.day, self.requests = now_ms // DAY_MS, 0
            self.held_back, self.held_back_at = 0, None

    def show(self, now_ms: int) -> dict[str, int | None]:
        """Return the budget's state on the day of `now_ms`, for health."""
        self._turn(now_ms)
        return {
            "day": self.day,
            "requests": self.requests,
            "allowed": self.allowed,
            "heldBack": self.held_back,
            "heldBackAt": self.held_back_at,
        }

    def restore(self, shown: dict[str, Any]) -> None:
        """Restore the state that `show` returned before a restart."""
        self.day, self.requests = shown.get("day", 0), shown.get("requests", 0)
        self.held_back, self.held_back_at = shown.get("heldBack", 0), shown.get("heldBackAt")
