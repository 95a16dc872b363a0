"""Paper mode: everything simulated."""

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model

from paper.strategies import FAMILIES, public_name
from web.api.bots import Voice
from web.api.market import MarketEntry, MarketHealth
from web.api.posts import Provenance, Verification
from web.api.schemas.base import (
    Address,
    Exact,
    Page,
    Shape,
    Signature,
    Simulated,
    Simulation,
    Time,
    Whole,
    absent,
    described,
)
from web.api.schemas.paper_evidence import (
    AtCost,
    Controls,
    Described,
    Evidence,
    FamilyControls,
    FillError,
    LessonRates,
    MeasuredFills,
)

FamilyName = Literal["momentum", "mean_reversion", "breakout", "flow"]
# A file of the operator.
OwnFamily = Annotated[str, Field(pattern=r"^own:[a-z][a-z0-9_]{0,39}$")]


class Phase(Shape):
    """Where a trader is between Guarded Start and standard."""

    name: str
    closes: int
    closesNeeded: int
    days: int
    daysNeeded: int
    since: Time
    note: str


class StrategyBase(Shape):
    """What a trader plays by. Each family has some settings of its own."""

    family: FamilyName | OwnFamily
    own: bool = described("code of the operator of this instance, none of the four families")
    startMode: Literal["guarded", "standard"]
    phase: Phase
    adaptive: Literal["off", "observe", "on"]
    pipeline: str = described("version of what feeds the engine")
    model: str = described("version of the model of fills")


def list_settings() -> dict[str, Any]:
    """Return {name: (type, field)} of all families; each trader has the settings of its own."""
    names = dict.fromkeys(one.name for family in FAMILIES.values() for one in fields(family))
    return {public_name(name): (int, absent("a setting of the family")) for name in names}


if TYPE_CHECKING:
    # A type checker cannot know the members that are made at run time.
    class Strategy(StrategyBase): ...
else:
    Strategy = create_model(
        "Strategy",
        __base__=StrategyBase,
        __doc__=StrategyBase.__doc__,
        __module__=__name__,
        **list_settings(),
    )


class PaperPerformance(Shape):
    """Simulated results; null while they are withheld."""

    headlineSuppressed: bool = described("the account is under review or was held up")
    warning: str | None
    returnPct: float | None = described("a percentage, no money")
    realizedSol: Exact | None
    cashSol: Exact
    equitySol: Exact | None
    closes: int
    winRate: float | None = described("0 to 1")
    startingCashSol: Exact
    period: int = described("number of the account period; a reset begins another")
    since: Time = described("when the period began")


class AccountPerformance(PaperPerformance):
    """Performance with the figures of the open account; null where there is too little to say, or
    while they are withheld.
    """

    maxDrawdownPct: float | None
    sharpeDaily: float | None = described("of daily returns; null under 20 days")
    sortinoDaily: float | None = described("of daily returns; null under 20 days")
    expectancySol: Exact | None = described("mean net result of a close")
    profitFactor: float | None = described("gains over losses; null without a loss")
    exposurePct: float | None = described("mean share of the equity in positions, in percent")
    feeShare: float | None = described("all costs of closes over what was spent on them")


class ReviewReason(Shape):
    """Something that was seen and opened a review."""

    code: str
    detail: str = described("in words")
    symbol: str | None = described("untrusted")
    at: Time


class Review(Shape):
    """Whether a trader's record is doubted."""

    state: Literal["clean", "under_review", "cleared", "upheld"] = described(
        "figures are withheld while it is under_review, and for good once it is upheld"
    )
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
    solLamports: Whole = described("into or out of the pool, before its fee")
    slippageLamports: Whole
    feesLamports: Whole
    rentLamports: Whole
    failed: bool
    reason: str
    model: str = described("the fill model, such as amm-cp/3")


class CloseAtCosts(Shape):
    """What a close had earned had every cost been so many times what it was."""

    costs: int = described("how many times")
    netLamports: Whole
    returnPct: float | None


class PaperClose(Simulated):
    """A position that was closed, with everything it cost."""

    id: str
    mint: Address
    symbol: str | None = described("untrusted")
    decimals: int
    period: int
    openedAt: Time
    closedAt: Time
    reason: str
    grossLamports: Whole = described("what prices moved")
    slippageLamports: Whole
    feesLamports: Whole
    rentLamports: Whole
    netLamports: Whole
    returnPct: float | None = described("a percentage, no money; null where nothing was spent")
    atCosts: list[CloseAtCosts]
    latencyMs: int
    model: str
    pipeline: str
    assumptions: list[str] = described("the model, whose assumptions `models` lists, and marks")
    fills: list[PaperFill]
    eligible: bool = described("it counts in comparisons")
    excludedReason: str | None = described("why not; `under_review` while its account is")
    reviewOpenedAt: Time | None


class PaperPosition(Simulated):
    """A position that is open."""

    id: str
    mint: Address
    symbol: str | None = described("untrusted")
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
    assumptions: list[str] = described("the model, whose assumptions `models` lists, and marks")
    model: str
    pipeline: str


class PaperOrder(Simulated):
    """An order that is not done. A buy is in lamports, a sale in raw units of the token."""

    side: Literal["buy", "sell"]
    mint: Address
    symbol: str | None = described("untrusted")
    decimals: int
    amountRaw: Whole = absent("of a sale")
    filledRaw: Whole = absent("of a sale")
    solLamports: Whole = absent("of a buy")
    filledLamports: Whole = absent("of a buy")
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
    reason: str | None = described("why it was closed")
    review: Literal["clean", "under_review", "cleared", "upheld"] = described("of the last one")
    warning: str | None = described("why its cash and records do not count")


class DiaryLine(Simulated):
    """What a trader noted."""

    id: str
    at: Time
    kind: str = described("decision, fill, refusal, pause, lesson, review or phase")
    mint: Address | None
    symbol: str | None = described("untrusted")
    text: str
    facts: dict[str, object] = described("the figures the line is made from; they differ by kind")
    period: int
    closeId: str | None = described("the closed position it is about")


class Reviewed(Simulated):
    """What a trader's eligible closes add up to; null where there are none."""

    closes: int
    eligibleCloses: int
    excluded: dict[str, int] = described("how many, by reason")
    wins: int | None
    netLamports: Whole | None


class Lesson(Simulated):
    """What a trader's own closes show, until it expires."""

    text: str
    n: int = described("closes it rests on")
    window: str
    closeIds: list[str]
    createdAt: Time
    expiresAt: Time
    evidence: LessonRates


class Pause(Simulated):
    """A rule that keeps a trader from entering for a while."""

    rule: str
    effect: str = described("pause_family, pause_mint, half_size or long_cooldown")
    mint: Address | None
    applied: bool = described("false: it is only observed")
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
    body: str | None = described("null once its words were taken down")
    mint: Address | None
    symbol: str | None = described("untrusted")
    signature: Signature | None = described("always null: there is no transaction")
    reason: str | None = described("always null")
    kind: str = described("what it is about")
    closeId: str | None = described("the closed position it is about")
    family: FamilyName | OwnFamily = described("what its trader plays by")
    ownStrategy: bool = described("by code of the operator of this instance, no family of its own")
    source: Literal["paper"]
    verified: bool = described("always false: no chain has seen any of it")
    verification: Verification
    eventAt: Time
    createdAt: Time
    hiddenAt: Time | None
    tokenAddresses: list[Address]
    provenance: PaperProvenance
    receipt: str | None = described("always null: no chain has seen any of it")
    headlineSuppressed: bool
    warning: str | None


class PaperMetrics(Simulated):
    """What an open account comes to; null where there is too little to say."""

    maxDrawdownPct: float | None
    drawdownFrom: Time | None = described("the highest before the deepest fall")
    drawdownTo: Time | None = described("the lowest of it")
    days: int
    cagrPct: float | None = described("yearly growth; null under 20 days")
    calmar: float | None = described("yearly growth over the deepest fall")
    solUsdChangePct: float | None = described("what a SOL did in USD in the same time")
    sharpePerDay: float | None = described("of daily returns; null under 20 days")
    sortinoPerDay: float | None = described("of daily returns; null under 20 days")
    exposure: float | None = described("mean share of the equity in positions")
    expectancyLamports: Whole | None = described("mean net result of a close")
    profitFactor: float | None = described("gains over losses; null without a loss")
    turnover: float | None = described("spent on closes, in starting cash")
    feeShare: float | None = described("all costs of closes over what was spent on them")
    bestLamports: Whole | None
    worstLamports: Whole | None
    longestWinStreak: int
    longestLossStreak: int
    medianWinnerSeconds: int | None = described("how long positions that won were held")
    medianLoserSeconds: int | None


class FillModel(Shape):
    """A fill model and what it assumes."""

    model: str
    hash: str = described("digest of its constants")
    assumptions: list[str]


class TraderDetail(Trader):
    """A paper trader with the latest of what it noted and did."""

    asOf: Time
    performance: AccountPerformance
    periods: list[AccountPeriod]
    models: list[FillModel]
    diary: list[DiaryLine] = described("the latest 20; /api/traders/{id}/diary has all")
    diaryTotal: int
    positions: list[PaperPosition]
    orders: list[PaperOrder]
    closes: list[PaperClose] = described("the latest 20; /api/traders/{id}/closes has all")
    closesTotal: int
    posts: list[PaperPost] = described("the latest 20; /api/traders/{id}/posts has all")
    postsTotal: int
    brain: Brain
    metrics: PaperMetrics | None = described("null while the headline is withheld")
    evidence: Evidence | None = described("null while the headline is withheld")
    controls: Controls


class TraderList(Simulated):
    """All paper traders that play, oldest first."""

    data: list[Trader]
    asOf: Time


class DiaryPage(Page, Simulated):
    """Lines of a trader's diary, newest first."""

    data: list[DiaryLine]


class ClosePage(Page, Simulated):
    """Closes of a trader, newest first."""

    data: list[PaperClose]
    models: list[FillModel]


class PaperFeed(Page, Simulated):
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
    excluded: dict[str, int] = described("how many, by reason")
    traders: int
    tradersUnderReview: int
    controls: FamilyControls
    atCost: dict[str, AtCost] = described("`atCosts` by name: 1x, 2x, 3x")
    daysCovered: int
    medianReturnPct: float | None
    worstCloseReturnPct: float | None
    costShare: float | None = described("what costs took of what prices moved")


class Strategies(Simulated):
    """Closes by strategy family. Coverage is no proof of profitability."""

    windowDays: int
    pipeline: str
    families: list[Family]
    ownTraders: int = described(
        "traders that follow strategies of this instance's operator, which count in no family"
    )
    fills: MeasuredFills
    fillErrors: list[FillError] = described("of `fills`, in short")
    note: str
    suggestedStartMode: Literal["guarded"]
    asOf: Time
