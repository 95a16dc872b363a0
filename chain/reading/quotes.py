"""The stablecoins that bots trade against, each a money of its own beside SOL. Pure."""

from typing import NamedTuple


class Quote(NamedTuple):
    """A stablecoin that bots trade against. `source`: where its issuer names the mint."""

    mint: str
    symbol: str
    decimals: int
    source: str


QUOTES = (
    Quote(
        "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
        "USDC",
        6,
        "https://developers.circle.com/stablecoins/usdc-contract-addresses",
    ),
    Quote(
        "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB",
        "USDT",
        6,
        "https://tether.to/en/supported-protocols/",
    ),
    # Of Token-2022.
    Quote(
        "2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo",
        "PYUSD",
        6,
        "https://docs.paxos.com/guides/stablecoin/pyusd/mainnet",
    ),
)
MINTS = frozenset(quote.mint for quote in QUOTES)


def find_quote(text: str) -> Quote | None:
    """By symbol or mint."""
    return next((one for one in QUOTES if text in (one.symbol, one.mint)), None)
