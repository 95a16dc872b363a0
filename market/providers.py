"""DexScreener and GeckoTerminal, both without a key: questions within their limits, answers to
exact values. No tables here.

Shapes: docs.dexscreener.com/api/reference, apiguide.geckoterminal.com. Published limits:
DexScreener token profiles and boosts 60 a minute, tokens/v1 300 a minute with up to 30 addresses a
call; GeckoTerminal 30 a minute.
"""

import datetime
import json
import re
import time
import unicodedata
from dataclasses import dataclass
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import requests
import urllib3

from chain.mints import is_address
from config import VERSION

WRAPPED_SOL = "So11111111111111111111111111111111111111112"
ADDRESSES_PER_CALL = 30
# of one answer
MAX_BYTES = 8_000_000
CONNECT_SECONDS, READ_SECONDS, ANSWER_SECONDS = 4, 6, 15
# seconds to keep quiet after a refusal; longer is taken for a mistake
MAX_WAIT, USUAL_WAIT = (
    3600,
    30,
)
MAX_SYMBOL, MAX_NAME = 32, 100


class ProviderError(Exception):
    """A provider gave no usable answer; the text says why in words. `wait` are the seconds it asked
    for, if it did.
    """

    def __init__(self, text, wait=None):
        super().__init__(text)
        self.wait = wait


class RowCount(NamedTuple):
    """How many rows of an answer could be read, those that are of no interest included, and how
    many not.
    """

    readable: int
    unreadable: int

    def plus(self, other: "RowCount") -> "RowCount":
        return RowCount(self.readable + other.readable, self.unreadable + other.unreadable)

    @property
    def is_nonsense(self) -> bool:
        """More rows than not made no sense: that is the answer's fault, not a row's."""
        return self.unreadable > self.readable


@dataclass(frozen=True)
class Quote:
    """What one answer says about one token. Amounts are exact decimal text, None where it says
    nothing; symbol and name are hostile text.
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


# ---- fetching ------------------------------------------------------------------------------------
class Pace:
    """The limit of one group of questions: at most `burst` at once and `burst + refill` in any
    minute; pauses when the provider asks for it.
    """

    def __init__(self, burst, refill, monotonic):
        self.burst, self.refill, self.monotonic = burst, refill, monotonic
        self.left, self.since, self.resume_at = burst, monotonic(), 0

    def take(self):
        """May one question be asked now?"""
        now = self.monotonic()
        self.left, self.since = (
            min(self.burst, self.left + (now - self.since) * self.refill / 60),
            now,
        )
        if now < self.resume_at or self.left < 1:
            return False
        self.left -= 1
        return True

    def pause(self, seconds):
        self.resume_at = self.monotonic() + seconds


def open_session():
    """A session of the scout's own: no proxy or netrc of the environment, no retries, no cookies
    worth keeping.
    """
    session = requests.Session()
    session.trust_env = False
    session.headers.update({"User-Agent": f"candor/{VERSION}", "Accept": "application/json"})
    return session


def fetch_json(session, url, params=None):
    """The JSON value at `url`, its numbers exact (int or Decimal). Raises ProviderError; the text
    never repeats the URL.
    """
    try:
        with session.get(
            url,
            params=params,
            timeout=(CONNECT_SECONDS, READ_SECONDS),
            stream=True,
            allow_redirects=False,
        ) as response:
            if response.status_code != 200:
                raise ProviderError(f"answered HTTP {response.status_code}", _wait_of(response))
            body = _read_body(response.raw, time.monotonic() + ANSWER_SECONDS)
    except (requests.Timeout, urllib3.exceptions.TimeoutError):
        raise ProviderError("did not answer in time") from None
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError):
        raise ProviderError("could not be reached, or broke off") from None
    # ArithmeticError: an exponent that no Decimal holds
    try:
        return json.loads(body, parse_float=Decimal, parse_constant=_refuse)
    except (
        ValueError,
        ArithmeticError,
        RecursionError,
    ):
        raise ProviderError("sent something that is not JSON") from None


def _read_body(raw, deadline):
    """The whole body; each read returns what is there, so that one trickling in cannot outlast the
    deadline by more than READ_SECONDS.
    """
    chunks, size = [], 0
    while chunk := raw.read1(65_536, decode_content=True):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            raise ProviderError("sent more than it ever should")
        if time.monotonic() > deadline:
            raise ProviderError("did not answer in time")
    return b"".join(chunks)


def _refuse(constant):
    raise ValueError(f"{constant} is no number")


def _wait_of(response):
    """Seconds to keep quiet after this refusal (Retry-After in both its forms), None where it is no
    matter of too many questions.
    """
    if response.status_code not in (429, 503):
        return None
    asked = response.headers.get("Retry-After", "")
    if re.fullmatch(r"\d{1,9}", asked):
        return min(int(asked), MAX_WAIT)
    try:
        return min(max(0, parsedate_to_datetime(asked).timestamp() - time.time()), MAX_WAIT)
    except ValueError:
        return USUAL_WAIT


# ---- parsing -------------------------------------------------------------------------------------
def parse_amount(value):
    """The exact decimal text of a JSON number or of a number in a string; None for null. ValueError
    for anything else, NaN and endless digits too.
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
        raise ValueError("no price is that large or small")
    return format(number, "f")


def parse_text(value, most):
    """A name as plain text of at most `most` characters: no control, format, surrogate or
    unassigned ones, single spaces; None if nothing is left.
    """
    if not isinstance(value, str):
        return None
    kept = "".join(
        " " if c.isspace() else c
        for c in value[: most * 8]
        if c.isspace() or unicodedata.category(c)[0] != "C"
    )
    return " ".join(kept.split())[:most].strip() or None


def _symbol_and_name(row):
    return parse_text(row.get("symbol"), MAX_SYMBOL), parse_text(row.get("name"), MAX_NAME)


def _parse_rows(rows, parse):
    """(values, RowCount): what `parse` makes of each row, None left out. A row that makes no sense
    is dropped alone.
    """
    if not isinstance(rows, list):
        raise ProviderError("sent an answer of an unexpected shape")
    values, unreadable = [], 0
    for row in rows:
        try:
            values.append(parse(row))
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError):
            unreadable += 1
    return [value for value in values if value is not None], RowCount(len(values), unreadable)


def _mint(text):
    if not is_address(text):
        raise ValueError("no address")
    return text


def parse_list(value):
    """DexScreener's profiles or boosts: (mints, RowCount); tokens of other chains are passed over."""
    return _parse_rows(
        value, lambda row: _mint(row["tokenAddress"]) if row["chainId"] == "solana" else None
    )


def parse_pairs(value):
    """DexScreener's pairs, bare or under `pairs`: ({mint: Quote}, RowCount), of several pairs of a
    token the deepest one quoted in SOL.
    """
    rows = value["pairs"] or [] if isinstance(value, dict) and "pairs" in value else value
    quotes, rows_read = _parse_rows(rows, _parse_pair)
    return {quote.mint: quote for quote in sorted(quotes, key=_depth)}, rows_read


def _depth(quote):
    return quote.price_sol is not None, Decimal(quote.liquidity_usd or -1)


def _parse_pair(row):
    if row["chainId"] != "solana" or row["baseToken"]["address"] == WRAPPED_SOL:
        return None
    in_sol = row["quoteToken"]["address"] == WRAPPED_SOL
    # absent for pump.fun's curves
    liquidity = row.get("liquidity") or {}
    price_sol, price_usd = (
        parse_amount(row.get("priceNative")) if in_sol else None,
        parse_amount(row.get("priceUsd")),
    )
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
    )


def parse_pools(value):
    """GeckoTerminal's pools: ({mint: Quote}, RowCount). Prices in SOL are given for all of them,
    whatever they are quoted in.
    """
    if not isinstance(value, dict):
        raise ProviderError("sent an answer of an unexpected shape")
    named, _ = _parse_rows(
        value.get("included", []), lambda row: (str(row["id"]), row["attributes"])
    )
    names = dict(named)
    quotes, rows_read = _parse_rows(value.get("data"), lambda row: _parse_pool(row, names))
    return {quote.mint: quote for quote in sorted(quotes, key=_depth)}, rows_read


def _parse_pool(row, names):
    told, sides = row["attributes"], row["relationships"]
    base, other = (sides[side]["data"]["id"] for side in ("base_token", "quote_token"))
    if not base.startswith("solana_") or base == f"solana_{WRAPPED_SOL}":
        return None
    in_sol = other == f"solana_{WRAPPED_SOL}"
    reserve, sol_usd = (
        parse_amount(told.get("reserve_in_usd")),
        parse_amount(told.get("quote_token_price_usd")) if in_sol else None,
    )
    price_usd = parse_amount(told.get("base_token_price_usd"))
    if price_usd is None:
        return None
    return Quote(
        _mint(base.removeprefix("solana_")),
        "geckoterminal",
        *_symbol_and_name(names.get(base) or {}),
        parse_amount(told.get("base_token_price_native_currency")),
        price_usd,
        reserve,
        _half_in_sol(reserve, sol_usd),
        parse_amount((told.get("volume_usd") or {}).get("h24")),
        _link("https://www.geckoterminal.com/solana/pools/", told.get("address")),
        _past(_ms(told.get("pool_created_at"))),
    )


def _half_in_sol(reserve_usd, sol_usd):
    """One side of a pool in SOL, derived: GeckoTerminal gives both sides together in USD."""
    if reserve_usd is None or sol_usd is None or Decimal(sol_usd) <= 0:
        return None
    return format(Decimal(reserve_usd) / Decimal(sol_usd) / 2, ".9f")


def _ms(text):
    return int(datetime.datetime.fromisoformat(text).timestamp() * 1000) if text else None


def _link(page, address):
    """A link made here, never one that came in an answer."""
    return page + address if is_address(address) else None


def _past(ms):
    """A time a pair can have been created at, in ms; None for anything else."""
    return ms if type(ms) is int and 0 < ms < 2**53 else None
