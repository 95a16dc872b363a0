"""Tokens the scout discovered."""

from typing import Literal

from web.api.schemas.base import Address, Exact, Page, Shape, Time, absent, described


class MarketCheck(Shape):
    """A structural check of a token's mint account."""

    key: str
    label: str
    status: Literal["pass", "warn", "fail", "unknown"]
    detail: str
    checkedAt: Time | None


class MarketEntry(Shape):
    """A token the scout discovered. Symbol and name are its maker's words: untrusted."""

    mint: Address
    symbol: str | None = described("untrusted")
    name: str | None = described("untrusted")
    source: str
    discoveredAt: Time
    priceSol: Exact | None
    priceUsd: Exact | None
    priceDoubt: str | None = described("why the last price was not taken over")
    liquidityUsd: Exact | None
    volume24hUsd: Exact | None
    volume1hUsd: Exact | None
    volume5mUsd: Exact | None
    change1hPct: Exact | None = described("of the price, in percent")
    change5mPct: Exact | None = described("of the price, in percent")
    marketCapUsd: Exact | None
    poolSol: Exact | None = described("the pool's side in SOL")
    poolTokens: Exact | None = described("the pool's other side, in whole tokens")
    venue: str | None = described("the exchange, with the kind of its pool where that is told")
    dexId: str | None = described("the exchange alone, as the price service calls it")
    pairId: str | None = described("address of the pool")
    pairCreatedAt: Time | None
    pairUrl: str | None = described("null in a demonstration")
    checks: list[MarketCheck]
    notChecked: list[str] = described("what nobody looked at, whatever the checks say")
    asOf: Time = described("when the prices were taken")
    stale: bool = described("the prices are older than they should be")


class Market(Page):
    """Tokens the scout discovered, newest first."""

    data: list[MarketEntry]
    note: str = absent("why there is none")
