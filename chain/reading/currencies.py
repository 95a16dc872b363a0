"""The stablecoins that bots trade against. Each is a currency, like SOL."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chain.addresses import WRAPPED_SOL


class Currency(NamedTuple):
    """`source` is the page on which the issuer names the mint, or "" for the operator's own."""

    mint: str
    symbol: str
    decimals: int
    source: str


STABLECOINS = (
    Currency(
        "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
        "USDC",
        6,
        "https://developers.circle.com/stablecoins/usdc-contract-addresses",
    ),
    Currency(
        "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB",
        "USDT",
        6,
        "https://tether.to/en/supported-protocols/",
    ),
    Currency(
        "2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo",
        "PYUSD",
        6,
        "https://docs.paxos.com/guides/stablecoin/pyusd/mainnet",
    ),
    Currency(
        "USD1ttGY1N17NEEHLmELoaybftRBUSErhqYiQzvEmuB",
        "USD1",
        6,
        "https://docs.worldlibertyfinancial.com/usd1/smart-contracts",
    ),
)
# `use_currencies` replaces the operator's part. CURRENCIES is keyed by mint, "" for SOL.
MINTS = {one.mint for one in STABLECOINS}
CURRENCIES = {
    "": Currency(WRAPPED_SOL, "SOL", 9, ""),
    **{one.mint: one for one in STABLECOINS},
}


def use_currencies(added: Iterable[Currency]) -> None:
    """Use these stablecoins in addition to SOL and the built-in ones.

    Call this once, at startup: entries read with other currencies must be reread.
    """
    known = {one.mint: one for one in (*STABLECOINS, *added)}
    for gone in MINTS - known.keys():
        del CURRENCIES[gone]
    CURRENCIES.update(known)
    MINTS.intersection_update(known)
    MINTS.update(known)


@contextlib.contextmanager
def using_currencies(added: Iterable[Currency]) -> Iterator[None]:
    """Use other currencies temporarily, as an audit of another instance does."""
    before = list_added()
    use_currencies(added)
    try:
        yield
    finally:
        use_currencies(before)


def list_added() -> tuple[Currency, ...]:
    built_in = {"", *(one.mint for one in STABLECOINS)}
    return tuple(sorted(currency for mint, currency in CURRENCIES.items() if mint not in built_in))


def map_currencies() -> dict[str, str]:
    """Return {symbol: the ledger's key}, including SOL."""
    return {currency.symbol: money for money, currency in CURRENCIES.items()}


def find_stablecoin(text: str) -> Currency | None:
    stablecoins = (currency for money, currency in CURRENCIES.items() if money)
    return next((one for one in stablecoins if text in (one.symbol, one.mint)), None)
