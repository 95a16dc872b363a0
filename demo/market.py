"""An invented market: the price services' responses at a point in time. Pure and deterministic: a
price is a function of token and time.

Time is in seconds of the demo. 0 is its start, and earlier times are negative. The recording used
the same prices, so trades on the chain match the market. Floats are good enough, because the prices
are invented and no money is computed from them.
"""

import datetime
import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from chain.addresses import WRAPPED_SOL, b58encode

SOL_USD = 160.0
DAY = 86_400
# New pools on a page.
MAX_POOLS = 12
JsonObject: TypeAlias = dict[str, object]


# The waves whose sum is the logarithm of a price: the period in seconds, and the amplitude.
WAVES = ((3 * DAY, 0.45), (9 * 3_600, 0.28), (4_200, 0.14), (540, 0.08), (75, 0.05))


@dataclass(frozen=True)
class Token:
    symbol: str
    name: str
    decimals: int
    # The average, in SOL.
    price: float
    # How much the price varies. 1 is normal.
    volatility: float
    # SOL in its pool at that price.
    pool_sol: float
    # The daily volume, in multiples of the pool.
    turnover: float
    # In seconds of the demo.
    created_at: int
    # Where the scout discovers it: profiles | boosts | pools.
    listed_in: str


TOKENS = (
    Token("FERN", "Fernweh", 6, 0.000021, 1.0, 900, 3.0, -40 * DAY, "profiles"),
    Token("MOTH", "Moth to a Lamp", 6, 0.0000034, 1.5, 420, 5.0, -20 * DAY, "boosts"),
    Token("KELP", "Kelp Forest", 9, 0.00087, 0.7, 2_600, 1.2, -300 * DAY, "profiles"),
    Token("EMBER", "Ember", 6, 0.000145, 1.3, 700, 4.0, -15 * DAY, "boosts"),
    Token("PLUM", "Plum Pudding", 6, 0.0000091, 1.1, 350, 2.5, -90 * DAY, "profiles"),
    Token("TARN", "Tarn", 6, 0.0012, 0.8, 1_500, 1.5, -60 * DAY, "pools"),
    Token("QUILL", "Quill & Ink", 6, 0.00006, 1.2, 260, 2.0, -3 * DAY, "profiles"),
    Token("RUST", "Rust Belt", 9, 0.0000007, 1.9, 120, 6.0, -2 * DAY, "boosts"),
    Token("WICK", "Candle Wick", 6, 0.00033, 1.6, 310, 5.0, -5 * DAY, "boosts"),
    Token("BRINE", "Brine", 6, 0.0000125, 1.0, 180, 1.0, -12 * DAY, "pools"),
    Token("ACORN", "Acorn Society", 9, 0.0041, 0.6, 3_900, 0.8, -400 * DAY, "profiles"),
    Token("UMBRA", "Umbrella Day", 6, 0.0000502, 1.4, 240, 3.0, -1 * DAY, "pools"),
    Token("SORREL", "Sorrel", 6, 0.0000018, 1.7, 90, 4.0, -9 * 3_600, "pools"),
    Token("PEBBLE", "Pebble", 6, 0.000007, 2.0, 60, 8.0, -4 * 3_600, "pools"),
    Token("ZEPHYR", "Zephyr", 6, 0.00011, 1.5, 150, 6.0, -2 * 3_600, "pools"),
    Token("YARROW", "Yarrow", 9, 0.00025, 1.2, 75, 3.0, -3_000, "pools"),
    Token("COBALT", "Cobalt Hour", 6, 0.0000044, 2.2, 55, 9.0, -900, "pools"),
    Token("THISTLE", "Thistle", 6, 0.000019, 2.0, 40, 9.0, 180, "pools"),
    Token("NIMBUS", "Nimbus", 6, 0.0000026, 2.1, 35, 9.0, 900, "pools"),
    Token("VELLUM", "Vellum", 6, 0.00008, 1.9, 45, 9.0, 2_700, "pools"),
)


# ---- prices and volumes --------------------------------------------------------------------------
def price(token: Token, at: float) -> float:
    """Return the price of one whole token in SOL."""
    return token.price * math.exp(token.volatility * _waves(token.symbol, at))


def volume_usd(token: Token, at: float) -> float:
    """Return the USD traded in the previous 24 hours. It is higher after a recent price move."""
    moved = abs(_waves(token.symbol, at) - _waves(token.symbol, at - 40))
    return (
        token.pool_sol
        * SOL_USD
        * token.turnover
        * math.exp(0.4 * _noise(token.symbol + "/volume", at / 7_200))
        * (1 + 2_000 * moved**2)
    )


def pool_sol(token: Token, at: float) -> float:
    """Return the pool's SOL. A constant-product pool contains more SOL at a higher price."""
    return (
        token.pool_sol
        * math.sqrt(price(token, at) / token.price)
        * math.exp(0.08 * _noise(token.symbol + "/pool", at / DAY))
    )


def _waves(name: str, at: float) -> float:
    return sum(amplitude * _noise(f"{name}/{period}", at / period) for period, amplitude in WAVES)


def _noise(name: str, x: float) -> float:
    """Return smooth noise between -1 and 1, interpolated between seeded values at whole numbers."""
    low = math.floor(x)
    step = x - low
    blend = step * step * (3 - 2 * step)
    return _seeded(name, low) * (1 - blend) + _seeded(name, low + 1) * blend


def _seeded(name: str, number: int) -> float:
    return int.from_bytes(hashlib.sha256(f"{name}/{number}".encode()).digest()[:4]) / 2**31 - 1


# ---- the providers' responses --------------------------------------------------------------------
class Market:
    """DexScreener's and GeckoTerminal's responses. `start`: the demo's first Unix second."""

    def __init__(self, mints: Mapping[str, str], start: int) -> None:
        self.start = start
        self.tokens = {mints[token.symbol]: token for token in TOKENS}

    def show_list(self, kind: str, at: float) -> list[JsonObject]:
        return [
            {"chainId": "solana", "tokenAddress": mint}
            for mint, token in self._list_traded(at)
            if token.listed_in == kind
        ]

    def show_pairs(self, mints: Iterable[str], at: float) -> list[JsonObject]:
        return [
            self._show_pair(mint, self.tokens[mint], at)
            for mint in mints
            if mint in self.tokens and self.tokens[mint].created_at <= at
        ]

    def show_pools(self, at: float) -> JsonObject:
        pools = [one for one in self._list_traded(at) if one[1].listed_in == "pools"][:MAX_POOLS]
        return {
            "data": [self._show_pool(mint, token, at) for mint, token in pools],
            "included": [
                {
                    "id": f"solana_{mint}",
                    "type": "token",
                    "attributes": {"address": mint, "name": token.name, "symbol": token.symbol},
                }
                for mint, token in pools
            ],
        }

    def _list_traded(self, at: float) -> list[tuple[str, Token]]:
        traded = [(mint, one) for mint, one in self.tokens.items() if one.created_at <= at]
        return sorted(traded, key=lambda listed: -listed[1].created_at)

    def _show_pair(self, mint: str, token: Token, at: float) -> JsonObject:
        now, sol = price(token, at), pool_sol(token, at)
        return {
            "chainId": "solana",
            "dexId": "raydium",
            "pairAddress": pair_address(mint),
            "baseToken": {"address": mint, "name": token.name, "symbol": token.symbol},
            "quoteToken": {"address": WRAPPED_SOL, "name": "Wrapped SOL", "symbol": "SOL"},
            "priceNative": f"{now:.12f}",
            "priceUsd": f"{now * SOL_USD:.10f}",
            "volume": {
                window: round(volume_usd(token, at) / share, 2)
                for window, share in (("h24", 1), ("h1", 24), ("m5", 288))
            },
            "liquidity": {
                "usd": round(2 * sol * SOL_USD, 2),
                "base": round(sol / now, 2),
                "quote": round(sol, 4),
            },
            "pairCreatedAt": (self.start + token.created_at) * 1000,
        }

    def _show_pool(self, mint: str, token: Token, at: float) -> JsonObject:
        now, sol = price(token, at), pool_sol(token, at)
        created = datetime.datetime.fromtimestamp(self.start + token.created_at, datetime.UTC)
        return {
            "id": f"solana_{pair_address(mint)}",
            "type": "pool",
            "relationships": {
                "base_token": {"data": {"id": f"solana_{mint}", "type": "token"}},
                "quote_token": {"data": {"id": f"solana_{WRAPPED_SOL}", "type": "token"}},
                "dex": {"data": {"id": "raydium", "type": "dex"}},
            },
            "attributes": {
                "address": pair_address(mint),
                "name": f"{token.symbol} / SOL",
                "base_token_price_usd": f"{now * SOL_USD:.10f}",
                "base_token_price_native_currency": f"{now:.12f}",
                "quote_token_price_usd": f"{SOL_USD}",
                "reserve_in_usd": f"{2 * sol * SOL_USD:.2f}",
                "volume_usd": {"h24": f"{volume_usd(token, at):.2f}"},
                "pool_created_at": created.isoformat(),
            },
        }


def pair_address(mint: str) -> str:
    return b58encode(hashlib.sha256(f"pair of {mint}".encode()).digest())
