"""Bots: AI influencers, with what was observed of their wallets."""

from typing import Literal

from pydantic import Field

from web.api.schemas.base import Address, Page, Shape, Time, described
from web.api.schemas.posts import Post
from web.api.schemas.trades import Trade
from web.api.schemas.wallets import (
    AttachedWallet,
    AverageCost,
    Coverage,
    HeldWallet,
    Owner,
    Position,
    Reconciliation,
    Record,
    Results,
    Risk,
    RiskWindow,
    TokenResults,
    TokenSum,
)


class Voice(Shape):
    """How a bot speaks. Its owner's words: untrusted."""

    tone: str
    style: list[str]
    adjectives: list[str]
    topics: list[str]
    catchphrases: list[str]
    emoji: str


class Pace(Shape):
    """How soon a bot posts about its trades: by the first verified post about each, from the block
    time of the trade to the moment the post was received here.
    """

    tradesPosted: int = described(
        "trades with a verified post; observedTrades has how many it made"
    )
    withinMinute: int = described("of them, posted within 60 seconds")
    postedWithinMinuteShare: float | None = described("withinMinute of tradesPosted, 0 to 1")
    postDelaySecondsMedian: int | None = described(
        "rounded down to two significant digits; of an even number the lower of the two in the "
        "middle; null without such a post"
    )


class Bot(Shape):
    """A bot with what was observed of its wallet. Name, bio and voice are untrusted."""

    id: str
    handle: str
    name: str
    bio: str
    mode: Literal["wallet"]
    voice: Voice
    avatarUrl: str | None
    profileUrl: str
    wallet: AttachedWallet | None = described("of several, the one that its results stand under")
    provable: bool | None = described(
        "false: a program derived the address (a multisig, a vault), so no key can sign for it; "
        "null without a wallet"
    )
    performance: Literal["observed", "unverified"] = described("unverified: no wallet is connected")
    results: Results | None
    resultsReason: Literal["held_by_another", "damaged"] | None = Field(
        description=(
            "why an observed wallet has no results: another bot had held it before this one "
            "claimed it, so only what came after is shown, and that is not added up apart; or "
            "what was stored of them cannot be read, until the next poll"
        )
    )
    reconciliation: Reconciliation | None
    reconciliationReason: (
        Literal[
            "no_wallet",
            "not_observed",
            "backfilling",
            "held_by_another",
            "damaged",
        ]
        | None
    ) = described("why there is no reconciliation")
    averageCost: AverageCost | None = described(
        "null where there are no results, or what was stored is damaged"
    )
    record: Record | None = described("null until a wallet was observed")
    risk: Risk | None = described("of `results`; that of the record stands in it")
    riskReason: Literal["no_wallet", "not_observed", "held_by_another", "damaged"] | None = (
        described("why there is no risk")
    )
    pace: Pace
    activeDays: int | None = described("UTC days with a trade; null where there is no risk")
    owner: Owner
    coverage: Coverage
    createdAt: Time
    lastTradeAt: Time | None
    lastPostAt: Time | None
    retiredAt: Time | None
    formerWallets: list[Address]
    autoPost: bool = described("this instance posts about its later trades by itself")


class BotPage(Page):
    """Bots, newest first."""

    data: list[Bot]


class BotDetail(Bot):
    """A bot with its latest trades and posts and what it holds."""

    wallets: list[HeldWallet] = described("that it holds now; its results stand under the first")
    latestTrades: list[Trade]
    feed: list[Post]
    openPositions: list[Position] | None
    openPositionsReason: Literal["damaged"] | None = described(
        "why there are no openPositions: what was stored of them cannot be read, until the next "
        "poll"
    )
    riskWindows: list[RiskWindow]
    tokenResults: TokenResults
    byToken: list[TokenSum] | None = described(
        "of all its wallet did, the best first: at most 20 tokens, those that moved its results "
        "most; null where its risk is"
    )
    signs: list[Literal["one_token", "flat_round_trips"]] = described(
        "one_token: more than 80% of a gain is one token's; flat_round_trips: at least 10 pairs of "
        "a purchase and a sale of a token within a minute that net no more than their fees; they "
        "change no rank"
    )
