"""The stablecoins that bots trade against, each a currency next to SOL. Pure."""

from typing import NamedTuple

from chain.reading.instructions import WRAPPED_SOL


class Quote(NamedTuple):
    """A quote currency. `source`: where its issuer names the mint."""

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
    # Token-2022 mints.
    Quote(
        "2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo",
        "PYUSD",
        6,
        "https://docs.paxos.com/guides/stablecoin/pyusd/mainnet",
    ),
    Quote(
        "USD1ttGY1N17NEEHLmELoaybftRBUSErhqYiQzvEmuB",
        "USD1",
        6,
        "https://docs.worldlibertyfinancial.com/usd1/smart-contracts",
    ),
)
MINTS = frozenset(quote.mint for quote in QUOTES)
MONEY = MINTS | {WRAPPED_SOL}
# By the ledger's key for a currency; SOL's is empty.
MONEYS = {"": Quote(WRAPPED_SOL, "SOL", 9, ""), **{quote.mint: quote for quote in QUOTES}}


def find_quote(text: str) -> Quote | None:
    """Find a quote currency by symbol or mint."""
    return next((one for one in QUOTES if text in (one.symbol, one.mint)), None)
