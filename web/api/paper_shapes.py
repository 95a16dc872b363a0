"""Paper mode: everything simulated."""

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from pydantic import Field

from paper.strategies import ALL_FAMILIES, public_name
from web.api.bots import Voice
from web.api.market import MarketEntry, MarketHealth
from web.api.paper_evidence_shapes import (
    AtCost,
    Controls,
    Described,
    Evidence,
    FamilyControls,
    FillError,
    LessonRates,
    MeasuredFills,
    Simulated,
    Simulation,
)
from web.api.posts import Provenance, Verification
from web.api.shapes import (
    Address,
    Exact,
    NotRequired,
    Signature,
    Time,
    TypedDict,
    Whole,
    described,
)

FamilyName = Literal["momentum", "mean_reversion", "breakout", "flow", "copy"]
# A file of the operator.
OwnFamily = Annotated[str, Field(pattern=r"^own:[a-z][a-z0-9_]{0,39}$")]


class Phase(TypedDict):
    """Where a trader is between Guarded Start and standard."""

    name: str
    closes: int
    closesNeeded: int
    days: int
    daysNeeded: int
    since: Time
    note: str


class StrategyBase(TypedDict):
    """What a trader plays by. Each family has some settings of its own."""

    family: FamilyName | OwnFamily
    own: Annotated[
        bool, described("code of the operator of this instance, none of the four families")
    ]
    startMode: Literal["guarded", "standard"]
    phase: Phase
    adaptive: Literal["off", "observe", "on"]
    pipeline: Annotated[str, described("version of what feeds the engine")]
    model: Annotated[str, described("version of the model of fills")]


def list_settings() -> dict[str, Any]:
    """Return {name: type} of all families; each trader has the settings of its own."""
    setting = NotRequired[Annotated[int, described("a setting of the family")]]
    names = dict.fromkeys(one.name for family in ALL_FAMILIES.values() for one in fields(family))
    bot = NotRequired[Annotated[str, described("id of the bot that it copies")]]
    return {**{public_name(name): setting for name in names}, "bot": bot}


if TYPE_CHECKING:
    # A type checker cannot know the members that are made at run time.
    class Strategy(StrategyBase): ...
else:
    members = {**get_type_hints(StrategyBase, include_extras=True), **list_settings()}
    Strategy = TypedDict("Strategy", members)
    Strategy.__doc__ = StrategyBase.__doc__


class PaperPerformance(TypedDict):
    """Simulated results; null while they are withheld."""

    headlineSuppressed: Annotated[bool, described("the account is under review or was held up")]
    warning: str | None
    returnPct: Annotated[float | None, described("a percentage, no money")]
    realizedSol: Exact | None
    cashSol: Exact
    equitySol: Exact | None
    closes: int
    winRate: Annotated[float | None, described("0 to 1")]
    startingCashSol: Exact
    period: Annotated[int, described("number of the account period; a reset begins another")]
    since: Annotated[Time, described("when the period began")]


class AccountPerformance(PaperPerformance):
    """Performance with the figures of the open account; null where there is too little to say, or
    while they are withheld.
    """

    maxDrawdownPct: float | None
    sharpeDaily: Annotated[float | None, described("of daily returns; null under 20 days")]
    sortinoDaily: Annotated[float | None, described("of daily returns; null under 20 days")]
    expectancySol: Annotated[Exact | None, described("mean net result of a close")]
    profitFactor: Annotated[float | None, described("gains over losses; null without a loss")]
    exposurePct: Annotated[
        float | None, described("mean share of the equity in positions, in percent")
    ]
    feeShare: Annotated[float | None, described("all costs of closes over what was spent on them")]


class ReviewReason(TypedDict):
    """Something that was seen and opened a review."""

    code: str
    detail: Annotated[str, described("in words")]
    symbol: Annotated[str | None, described("untrusted")]
    at: Time


class Review(TypedDict):
    """Whether a trader's record is doubted."""

    state: Annotated[
        Literal["clean", "under_review", "cleared", "upheld"],
        described("figures are withheld while it is under_review, and for good once it is upheld"),
    ]
    reasons: list[ReviewReason]
    openedAt: Time | None
    decidedAt: Time | None
    decision: str | None


class Trader(Simulated):
    """A paper trader: virtual money, simulated fills."""

    id: str
    handle: str
    name: str
    bio: str
    mode: Literal["paper"]
    voice: Voice
    strategy: Strategy
    performance: PaperPerformance
    review: Review
    createdAt: Time
    retiredAt: Time | None


class PaperFill(Simulated):
    """An attempt to fill an order."""

    side: Literal["buy", "sell"]
    decidedAt: Time
    filledAt: Time
    decidedSnapshotId: str
    filledSnapshotId: str
    amountRaw: Whole
    solLamports: Annotated[Whole, described("into or out of the pool, before its fee")]
    slippageLamports: Whole
    feesLamports: Whole
    rentLamports: Whole
    failed: bool
    reason: str
    model: Annotated[str, described("the fill model, such as amm-cp/3")]


class CloseAtCosts(TypedDict):
    """What a close had earned had every cost been so many times what it was."""

    costs: Annotated[int, described("how many times")]
    netLamports: Whole
    returnPct: float | None


class PaperClose(Simulated):
    """A position that was closed, with everything it cost."""

    id: str
    mint: Address
    symbol: Annotated[str | None, described("untrusted")]
    decimals: int
    period: int
    openedAt: Time
    closedAt: Time
    reason: str
    grossLamports: Annotated[Whole, described("what prices moved")]
    slippageLamports: Whole
    feesLamports: Whole
    rentLamports: Whole
    netLamports: Whole
    returnPct: Annotated[
        float | None, described("a percentage, no money; null where nothing was spent")
    ]
    atCosts: list[CloseAtCosts]
    latencyMs: int
    model: str
    pipeline: str
    assumptions: Annotated[
        list[str], described("the model, whose assumptions `models` lists, and marks")
    ]
    fills: list[PaperFill]
    eligible: Annotated[bool, described("it counts in comparisons")]
    excludedReason: Annotated[str | None, described("why not; `under_review` while its account is")]
    reviewOpenedAt: Time | None


class PaperPosition(Simulated):
    """A position that is open."""

    id: str
    mint: Address
    symbol: Annotated[str | None, described("untrusted")]
    openedAt: Time
    amountRaw: Whole
    amount: Exact
    decimals: int
    spentLamports: Whole
    cashFlowLamports: Whole
    valueLamports: Whole
    markPriceSol: Exact
    markedAt: Time
    markAgeSeconds: int
    heldSnapshots: int
    assumptions: Annotated[
        list[str], described("the model, whose assumptions `models` lists, and marks")
    ]
    model: str
    pipeline: str


class PaperOrder(Simulated):
    """An order that is not done. A buy is in lamports, a sale in raw units of the token."""

    side: Literal["buy", "sell"]
    mint: Address
    symbol: Annotated[str | None, described("untrusted")]
    decimals: int
    amountRaw: NotRequired[Annotated[Whole, described("of a sale")]]
    filledRaw: NotRequired[Annotated[Whole, described("of a sale")]]
    solLamports: NotRequired[Annotated[Whole, described("of a buy")]]
    filledLamports: NotRequired[Annotated[Whole, described("of a buy")]]
    reason: str
    decidedAt: Time
    expiresAt: Time


class AccountPeriod(Simulated):
    """A stretch of a trader's account; a reset ends one and begins another."""

    number: int
    startingCashLamports: Whole
    cashLamports: Whole
    openedAt: Time
    closedAt: Time | None
    reason: Annotated[str | None, described("why it was closed")]
    review: Annotated[
        Literal["clean", "under_review", "cleared", "upheld"], described("of the last one")
    ]
    warning: Annotated[str | None, described("why its cash and records do not count")]


class DiaryLine(Simulated):
    """What a trader noted."""

    id: str
    at: Time
    kind: Annotated[str, described("decision, fill, refusal, pause, lesson, review or phase")]
    mint: Address | None
    symbol: Annotated[str | None, described("untrusted")]
    text: str
    facts: Annotated[
        dict[str, object], described("the figures the line is made from; they differ by kind")
    ]
    period: int
    closeId: Annotated[str | None, described("the closed position it is about")]


class Reviewed(Simulated):
    """What a trader's eligible closes add up to; null where there are none."""

    closes: int
    eligibleCloses: int
    excluded: Annotated[dict[str, int], described("how many, by reason")]
    wins: int | None
    netLamports: Whole | None


class Lesson(Simulated):
    """What a trader's own closes show, until it expires."""

    text: str
    n: Annotated[int, described("closes it rests on")]
    window: str
    closeIds: list[str]
    createdAt: Time
    expiresAt: Time
    evidence: LessonRates


class Pause(Simulated):
    """A rule that keeps a trader from entering for a while."""

    rule: str
    effect: Annotated[str, described("pause_family, pause_mint, half_size or long_cooldown")]
    mint: Address | None
    applied: Annotated[bool, described("false: it is only observed")]
    n: int
    window: str
    text: str
    createdAt: Time
    expiresAt: Time


class Brain(Simulated):
    """A read-only look at what a trader has learned."""

    asOf: Time
    reviewed: Reviewed
    patterns: list[Lesson]
    pauses: list[Pause]
    lessons: list[Lesson]


class PaperProvenance(Provenance):
    """Where a post of paper mode comes from."""

    writer: Annotated[str, described("who wrote the words")]


class PaperPost(Simulated):
    """A post of a paper trader, about simulated trades."""

    id: str
    botId: str
    botName: str
    eventId: str
    body: Annotated[str | None, described("null once its words were taken down")]
    mint: Address | None
    symbol: Annotated[str | None, described("untrusted")]
    signature: Annotated[Signature | None, described("always null: there is no transaction")]
    reason: Annotated[str | None, described("always null")]
    kind: Annotated[str, described("what it is about")]
    closeId: Annotated[str | None, described("the closed position it is about")]
    family: Annotated[FamilyName | OwnFamily, described("what its trader plays by")]
    ownStrategy: Annotated[
        bool, described("by code of the operator of this instance, no family of its own")
    ]
    source: Literal["paper"]
    verified: Annotated[bool, described("always false: no chain has seen any of it")]
    verification: Verification
    eventAt: Time
    createdAt: Time
    hiddenAt: Time | None
    tokenAddresses: list[Address]
    provenance: PaperProvenance
    receipt: Annotated[str | None, described("always null: no chain has seen any of it")]
    headlineSuppressed: bool
    warning: str | None


class PaperMetrics(Simulated):
    """What an open account comes to; null where there is too little to say."""

    maxDrawdownPct: float | None
    drawdownFrom: Annotated[Time | None, described("the highest before the deepest fall")]
    drawdownTo: Annotated[Time | None, described("the lowest of it")]
    days: int
    cagrPct: Annotated[float | None, described("yearly growth; null under 20 days")]
    calmar: Annotated[float | None, described("yearly growth over the deepest fall")]
    solUsdChangePct: Annotated[float | None, described("what a SOL did in USD in the same time")]
    sharpePerDay: Annotated[float | None, described("of daily returns; null under 20 days")]
    sortinoPerDay: Annotated[float | None, described("of daily returns; null under 20 days")]
    exposure: Annotated[float | None, described("mean share of the equity in positions")]
    expectancyLamports: Annotated[Whole | None, described("mean net result of a close")]
    profitFactor: Annotated[float | None, described("gains over losses; null without a loss")]
    turnover: Annotated[float | None, described("spent on closes, in starting cash")]
    feeShare: Annotated[float | None, described("all costs of closes over what was spent on them")]
    bestLamports: Whole | None
    worstLamports: Whole | None
    longestWinStreak: int
    longestLossStreak: int
    medianWinnerSeconds: Annotated[int | None, described("how long positions that won were held")]
    medianLoserSeconds: int | None


class FillModel(TypedDict):
    """A fill model and what it assumes."""

    model: str
    hash: Annotated[str, described("digest of its constants")]
    assumptions: list[str]


class TraderDetail(Trader):
    """A paper trader with the latest of what it noted and did."""

    asOf: Time
    performance: AccountPerformance  # type: ignore[misc]
    periods: list[AccountPeriod]
    models: list[FillModel]
    diary: Annotated[list[DiaryLine], described("the latest 20; /api/traders/{id}/diary has all")]
    diaryTotal: int
    positions: list[PaperPosition]
    orders: list[PaperOrder]
    closes: Annotated[
        list[PaperClose], described("the latest 20; /api/traders/{id}/closes has all")
    ]
    closesTotal: int
    posts: Annotated[list[PaperPost], described("the latest 20; /api/traders/{id}/posts has all")]
    postsTotal: int
    brain: Brain
    metrics: Annotated[PaperMetrics | None, described("null while the headline is withheld")]
    evidence: Annotated[Evidence | None, described("null while the headline is withheld")]
    controls: Controls


class TraderList(Simulated):
    """All paper traders that play, oldest first."""

    data: list[Trader]
    asOf: Time


class PaperPage(Simulated):
    """A page of a list."""

    nextCursor: Annotated[
        str | None, described("pass it back as cursor for the next page; null at the end")
    ]
    limit: Annotated[int, described("rows of a page, as it was taken")]
    asOf: Time


class DiaryPage(PaperPage):
    """Lines of a trader's diary, newest first."""

    data: list[DiaryLine]


class ClosePage(PaperPage):
    """Closes of a trader, newest first."""

    data: list[PaperClose]
    models: list[FillModel]


class PaperFeed(PaperPage):
    """Posts of paper traders, newest first."""

    data: list[PaperPost]


class PaperMarketEntry(MarketEntry):
    """A token as paper mode sees it."""

    simulated: Simulation


class PaperMarket(Simulated):
    """All tracked tokens, and how current they are."""

    data: list[PaperMarketEntry]
    health: MarketHealth
    asOf: Time


class Family(Described, Simulated):
    """The closes of one strategy family, described; null where there are none."""

    family: FamilyName
    excluded: Annotated[dict[str, int], described("how many, by reason")]
    traders: int
    tradersUnderReview: int
    controls: FamilyControls
    atCost: Annotated[dict[str, AtCost], described("`atCosts` by name: 1x, 2x, 3x")]
    daysCovered: int
    medianReturnPct: float | None
    worstCloseReturnPct: float | None
    costShare: Annotated[float | None, described("what costs took of what prices moved")]


class Strategies(Simulated):
    """Closes by strategy family. Coverage is no proof of profitability."""

    windowDays: int
    pipeline: str
    families: list[Family]
    copy: Annotated[Family, described("of traders that copy an observed bot; apart from the four")]
    ownTraders: Annotated[
        int,
        described(
            "traders that follow strategies of this instance's operator, which count in no family"
        ),
    ]
    fills: MeasuredFills
    fillErrors: Annotated[list[FillError], described("of `fills`, in short")]
    note: str
    suggestedStartMode: Literal["guarded"]
    asOf: Time
