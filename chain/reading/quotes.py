"""The stablecoins that bots trade against, each a currency next to SOL."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chain.reading.instructions import WRAPPED_SOL


class Quote(NamedTuple):
    """A quote currency. `source`: where its issuer names the mint, "" for the operator's."""

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
# This process's currencies. `use_quotes` replaces the operator's. MONEYS is by the ledger's key for
# a currency; SOL's is empty.
MINTS = {quote.mint for quote in QUOTES}
MONEY = MINTS | {WRAPPED_SOL}
MONEYS = {"": Quote(WRAPPED_SOL, "SOL", 9, ""), **{quote.mint: quote for quote in QUOTES}}


def use_quotes(added: Iterable[Quote]) -> None:
    """Use these stablecoins as money in this process, in addition to SOL and the built-in ones.

    Call it once, at the start: entries read with other currencies must be reread.
    """
    known = {quote.mint: quote for quote in (*QUOTES, *added)}
    for gone in MINTS - known.keys():
        del MONEYS[gone]
    MONEYS.update(known)
    MINTS.intersection_update(known)
    MINTS.update(known)
    MONEY.intersection_update({*known, WRAPPED_SOL})
    MONEY.update(known)


@contextlib.contextmanager
def using_quotes(added: Iterable[Quote]) -> Iterator[None]:
    """Use other currencies temporarily, as an audit of another instance does."""
    before = list_added()
    use_quotes(added)
    try:
        yield
    finally:
        use_quotes(before)


def list_added() -> tuple[Quote, ...]:
    """List the operator's currencies by mint."""
    built_in = {"", *(quote.mint for quote in QUOTES)}
    return tuple(sorted(quote for mint, quote in MONEYS.items() if mint not in built_in))


def map_currencies() -> dict[str, str]:
    """Return {symbol: the ledger's key} for SOL and this process's stablecoins."""
    return {quote.symbol: money for money, quote in MONEYS.items()}


def find_quote(text: str) -> Quote | None:
    """Find a stablecoin by symbol or mint."""
    stablecoins = (quote for money, quote in MONEYS.items() if money)
    return next((one for one in stablecoins if text in (one.symbol, one.mint)), None)
