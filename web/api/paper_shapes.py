"""Paper mode: everything simulated."""

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from pydantic import Field

from paper.strategies import ALL_FAMILIES, public_name
from web.api.bots import Voice
from web.api.health import ScoutHealth
from web.api.market import MarketEntry
from web.api.posts import Provenance, Verification
from web.api.shapes import (
    Address,
    Exact,
    FillModel,
    NotRequired,
    Page,
    Signature,
    Time,
    TypedDict,
    Whole,
    described,
)

# Not a Literal: client generators break on non-string constants.
Simulation = Annotated[bool, described("always true: nothing of this was traded")]
FamilyName = Literal["momentum", "mean_reversion", "breakout", "flow", "copy"]
# A file of the operator.
OwnFamily = Annotated[str, Field(pattern=r"^own:[a-z][a-z0-9_]{0,39}$")]


class Simulated(TypedDict):
    """Of paper mode: nothing was traded."""

    simulated: Simulation


class AtCosts(TypedDict):
    """Results had every cost been so many times what it was."""

    costs: Annotated[int, described("how many times")]
    meanReturnPct: float | None
    winRate: float | None


class Rates(TypedDict):
    """Win rate and mean return of closes that count, each with its interval: 95%, Student t over
    days. Null of nothing. `maxDrawdownPct` and `atCosts` are left out of lessons.
    """

    eligibleCloses: int
    clusters: Annotated[int, described("closes of one token, entered within an hour, are one")]
    days: Annotated[int, described("UTC days on which they began")]
    sample: Annotated[Literal["none", "thin", "some", "enough"], described("named by its clusters")]
    intervalReason: Annotated[
        str | None, described("why the intervals are null; null where they are not")
    ]
    meanReturnPct: float | None
    meanReturnInterval: Annotated[list[float] | None, described("low, high")]
    winRate: float | None
    winRateInterval: Annotated[list[float] | None, described("low, high")]
    maxDrawdownPct: NotRequired[
        Annotated[
            float | None,
            described("largest fall of what they add up to, from its highest; of realized results"),
        ]
    ]
    atCosts: NotRequired[
        Annotated[list[AtCosts], described("the same closes, had every cost been 1, 2 and 3 times")]
    ]
    randomEntry: NotRequired[
        Annotated[
            "Rates",
            described(
                "of a lesson or family: positions of the same size and holding time that were"
                " entered at random"
            ),
        ]
    ]
    accounts: NotRequired[Annotated[int, described("hidden accounts of random entries")]]
    returnPct: NotRequired[Annotated[float | None, described("of these accounts")]]
    closes: NotRequired[Annotated[int, described("of these, ones that don't count included")]]
    simulated: NotRequired[Annotated[bool, described("always true; left out of lessons")]]


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
    """What a trader plays by. The other whole numbers are settings of its family."""

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
    names = dict.fromkeys(one.name for family in ALL_FAMILIES.values() for one in fields(family))
    bot = NotRequired[Annotated[str, described("id of the bot that it copies")]]
    return {**{public_name(name): NotRequired[int] for name in names}, "bot": bot}


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


class WholeFill(TypedDict, total=False):
    """What a trader's detail leaves out of a fill."""

    amountRaw: Whole
    solLamports: Annotated[Whole, described("into or out of the pool, before its fee")]
    slippageLamports: Whole
    feesLamports: Whole
    rentLamports: Whole
    failed: bool
    model: Annotated[str, described("the fill model, such as amm-cp/3")]
    simulated: Simulation


class PaperFill(WholeFill):
    """An attempt to fill an order. A trader's detail leaves out the optional members."""

    side: Literal["buy", "sell"]
    decidedAt: Time
    filledAt: Time
    decidedSnapshotId: str
    filledSnapshotId: str
    reason: str


class WholeClose(TypedDict, total=False):
    """What a trader's detail leaves out of a close."""

    decimals: int
    period: int
    pipeline: str
    reviewOpenedAt: Time | None


class PaperClose(WholeClose, Simulated):
    """A position that was closed, with everything it cost. A trader's detail leaves out the
    optional members.
    """

    id: str
    mint: Address
    symbol: Annotated[str | None, described("untrusted")]
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
    latencyMs: int
    model: str
    assumptions: Annotated[
        list[str], described("the model, whose assumptions `models` lists, and marks")
    ]
    fills: list[PaperFill]
    eligible: Annotated[bool, described("it counts in comparisons")]
    excludedReason: Annotated[str | None, described("why not; `under_review` while its account is")]


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


class WholeLine(TypedDict, total=False):
    """What a trader's detail leaves out of a line."""

    mint: Address | None
    symbol: Annotated[str | None, described("untrusted")]
    facts: Annotated[
        dict[str, object], described("the figures the line is made from; they differ by kind")
    ]
    period: int


class DiaryLine(WholeLine, Simulated):
    """What a trader noted. Its detail leaves out the optional members."""

    id: str
    at: Time
    kind: Annotated[str, described("decision, fill, refusal, pause, lesson, review or phase")]
    text: str
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
    closeIds: NotRequired[Annotated[list[str], described("of a lesson, not of a pattern")]]
    createdAt: Time
    expiresAt: Time
    evidence: Rates


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


class WholePost(TypedDict, total=False):
    """What a trader's detail leaves out of a post."""

    botId: str
    botName: str
    eventId: str
    signature: Annotated[Signature | None, described("always null: there is no transaction")]
    reason: Annotated[str | None, described("always null")]
    family: Annotated[FamilyName | OwnFamily, described("what its trader plays by")]
    ownStrategy: Annotated[
        bool, described("by code of the operator of this instance, no family of its own")
    ]
    source: Literal["paper"]
    verified: Annotated[bool, described("always false: no chain has seen any of it")]
    verification: Verification
    eventAt: Time
    tokenAddresses: list[Address]
    provenance: Provenance
    receipt: Annotated[str | None, described("always null: no chain has seen any of it")]


class PaperPost(WholePost, Simulated):
    """A post of a paper trader, about simulated trades. A trader's detail leaves out the optional
    members.
    """

    id: str
    body: Annotated[str | None, described("null once its words were taken down")]
    mint: Address | None
    symbol: Annotated[str | None, described("untrusted")]
    kind: Annotated[str, described("what it is about")]
    closeId: Annotated[str | None, described("the closed position it is about")]
    createdAt: Time
    hiddenAt: Time | None
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


class TraderDetail(Trader):
    """A paper trader with the latest of what it noted and did."""

    asOf: Time
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
    evidence: Annotated[
        Rates | None, described("of its eligible closes; null while the headline is withheld")
    ]
    randomEntry: Annotated[
        Rates | None,
        described(
            "what hidden accounts earned that enter at random, with the same sizes, exits and"
            " costs: results no better than these show no skill. Null before their first round or"
            " while withheld"
        ),
    ]
    rulesFired: Annotated[
        dict[str, int], described("how often each adaptive rule found reason for a pause")
    ]
    rulesFiredAtRandom: Annotated[
        dict[str, float], described("the same of a hidden account, on average")
    ]


class PaperMarket(Page):
    """All tracked tokens, and how current they are."""

    data: list[MarketEntry]
    health: ScoutHealth


class VenueError(TypedDict):
    """How far the fill model is off at a venue, by real swaps; null where none is known."""

    venue: Annotated[str, described("the provider's id of the exchange")]
    receipts: int
    medianErrorBps: Annotated[
        int | None,
        described(
            "of the model, by the reserves in the transactions: basis points, whatever the sign"
        ),
    ]
    p90ErrorBps: int | None
    p90DriftBps: Annotated[
        int | None, described("of market snapshots, which disqualifies no venue")
    ]
    source: Annotated[
        Literal["own", "recorded"] | None,
        described("this instance's own receipts of 30 days, or those the model was built on"),
    ]
    since: Time | None
    eligible: Annotated[bool, described("closes there may be compared")]


class NetworkCosts(TypedDict):
    """What swaps paid in network fee and tip, which fills are drawn from."""

    p50Lamports: Whole
    p75Lamports: Whole
    p90Lamports: Whole
    rentLamports: Annotated[Whole, described("the middle of what new token accounts held")]
    receipts: int
    source: Literal["own", "recorded"]
    measuredAt: Time
    since: Annotated[Time | None, described("when the oldest of its own receipts happened")]


class Family(Rates):
    """The closes of one strategy family, described; null where there are none."""

    family: FamilyName
    excluded: Annotated[dict[str, int], described("how many, by reason")]
    traders: int
    tradersUnderReview: int
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
    model: Annotated[str, described("the fill model that `venues` compares with real swaps")]
    venues: list[VenueError]
    networkCosts: NetworkCosts
    note: str
    suggestedStartMode: Literal["guarded"]
    asOf: Time
