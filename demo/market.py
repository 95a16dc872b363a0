"""An invented market: what the price services would say at a moment. Pure, and the same for
everybody: a price is a function of token and time.

Time is in seconds of the demonstration: 0 is its start, what was before is negative. The recording
used these same prices, so that the trades on the chain were made at the prices the market shows.
Floats are good enough here: a provider's prices are made up, money is not counted with them.
"""

import datetime
import hashlib
import math
from dataclasses import dataclass

from chain.base58 import b58encode

WRAPPED_SOL = "So11111111111111111111111111111111111111112"
SOL_USD = 160.0
WAVES = (
    (3 * 86_400, 0.45),
    (9 * 3_600, 0.28),
    (4_200, 0.14),
    (540, 0.08),
    (75, 0.05),
)  # (period in seconds, amplitude) of the logarithm of a price
MAX_POOLS = 12  # a page of new pools
DAY = 86_400


@dataclass(frozen=True)
class Token:
    """`price` in SOL around which it moves, `wild`: how much, `sol`: in its pool, `turnover`: of
    the pool a day, `born`: its pair's creation.
    """

    symbol: str
    name: str
    decimals: int
    price: float
    wild: float
    sol: float
    turnover: float
    born: int
    list: str  # where it is discovered: profiles | boosts | pools


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
BY_SYMBOL = {token.symbol: token for token in TOKENS}


# ---- what moves ----------------------------------------------------------------------------------
def price(token, at):
    """SOL for one whole token."""
    return token.price * math.exp(token.wild * _waves(token.symbol, at))


def volume_usd(token, at):
    """Traded in the 24 hours before: loud where the price has just moved."""
    stir = abs(_waves(token.symbol, at) - _waves(token.symbol, at - 40))
    return (
        token.sol
        * SOL_USD
        * token.turnover
        * math.exp(0.4 * _noise(token.symbol + "/volume", at / 7_200))
        * (1 + 2_000 * stir**2)
    )


def pool_sol(token, at):
    """The SOL side of its pool: at a higher price a constant-product pool holds more SOL."""
    return (
        token.sol
        * math.sqrt(price(token, at) / token.price)
        * math.exp(0.08 * _noise(token.symbol + "/pool", at / DAY))
    )


def _waves(name, at):
    return sum(amplitude * _noise(f"{name}/{period}", at / period) for period, amplitude in WAVES)


def _noise(name, x):
    """Smooth noise between -1 and 1 that is 'drawn' at whole numbers."""
    low = math.floor(x)
    step = x - low
    blend = step * step * (3 - 2 * step)
    return _draw(name, low) * (1 - blend) + _draw(name, low + 1) * blend


def _draw(name, number):
    return int.from_bytes(hashlib.sha256(f"{name}/{number}".encode()).digest()[:4]) / 2**31 - 1


# ---- what the providers would say ----------------------------------------------------------------
class Market:
    """The answers of DexScreener and GeckoTerminal. `mints`: {symbol: address}; `start`: Unix
    seconds of the demonstration's 0.
    """

    def __init__(self, mints, start):
        self.start = start
        self.tokens = {mints[token.symbol]: token for token in TOKENS}

    def show_list(self, kind, at):
        """Token profiles or boosts: [{chainId, tokenAddress}...], newest first."""
        return [
            {"chainId": "solana", "tokenAddress": mint}
            for mint, token in self._list_born(at)
            if token.list == kind
        ]

    def show_pairs(self, mints, at):
        """tokens/v1: one pair of each token that is traded by then."""
        return [
            self._show_pair(mint, self.tokens[mint], at)
            for mint in mints
            if mint in self.tokens and self.tokens[mint].born <= at
        ]

    def show_pools(self, at):
        """new_pools with its tokens included."""
        found = [(mint, token) for mint, token in self._list_born(at) if token.list == "pools"][
            :MAX_POOLS
        ]
        return {
            "data": [self._show_pool(mint, token, at) for mint, token in found],
            "included": [
                {
                    "id": f"solana_{mint}",
                    "type": "token",
                    "attributes": {"address": mint, "name": token.name, "symbol": token.symbol},
                }
                for mint, token in found
            ],
        }

    def _list_born(self, at):
        return sorted(
            ((mint, token) for mint, token in self.tokens.items() if token.born <= at),
            key=lambda row: -row[1].born,
        )

    def _show_pair(self, mint, token, at):
        now, sol = price(token, at), pool_sol(token, at)
        return {
            "chainId": "solana",
            "dexId": "demonstration",
            "pairAddress": pair_address(mint),
            "baseToken": {"address": mint, "name": token.name, "symbol": token.symbol},
            "quoteToken": {"address": WRAPPED_SOL, "name": "Wrapped SOL", "symbol": "SOL"},
            "priceNative": f"{now:.12f}",
            "priceUsd": f"{now * SOL_USD:.10f}",
            "volume": {"h24": round(volume_usd(token, at), 2)},
            "liquidity": {
                "usd": round(2 * sol * SOL_USD, 2),
                "base": round(sol / now, 2),
                "quote": round(sol, 4),
            },
            "pairCreatedAt": (self.start + token.born) * 1000,
        }

    def _show_pool(self, mint, token, at):
        now, sol = price(token, at), pool_sol(token, at)
        created = datetime.datetime.fromtimestamp(self.start + token.born, datetime.UTC)
        return {
            "id": f"solana_{pair_address(mint)}",
            "type": "pool",
            "relationships": {
                "base_token": {"data": {"id": f"solana_{mint}", "type": "token"}},
                "quote_token": {"data": {"id": f"solana_{WRAPPED_SOL}", "type": "token"}},
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


def pair_address(mint):
    """A well-formed address of no pool at all."""
    return b58encode(hashlib.sha256(f"pair of {mint}".encode()).digest())
