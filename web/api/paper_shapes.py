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
    PaperPage,
    Signature,
    Time,
    TypedDict,
    Whole,
    described,
)

# Not a Literal: client generators break on non-string constants.
# Always true, as the introduction of the document says.
Simulation = bool
FamilyName = Literal["momentum", "mean_reversion", "breakout", "flow", "copy"]
# The family of a file in DATA_DIR/strategies.
OwnFamily = Annotated[str, Field(pattern=r"^own:[a-z][a-z0-9_]{0,39}$")]


class Simulated(TypedDict):
    """Part of paper mode: nothing was traded."""

    simulated: Simulation


class AtCosts(TypedDict):
    """Results if every cost had been multiplied."""

    costs: Annotated[int, described("the multiple")]
    meanReturnPct: float | None
    winRate: float | None


class Rates(TypedDict):
    """Win rate and mean return of the closes that count, each with a 95% interval (Student t over
    days). Null without closes. Lessons omit `maxDrawdownPct` and `atCosts`.
    """

    eligibleCloses: int
    clusters: Annotated[int, described("closes of one token entered within an hour count as one")]
    days: Annotated[int, described("UTC days on which clusters began")]
    sample: Annotated[
        Literal["none", "thin", "some", "enough"],
        described("size of the sample size of the sample by the number of clusters"),
    ]
    intervalReason: Annotated[str | None, described("why the intervals are null")]
    meanReturnPct: float | None
    meanReturnInterval: Annotated[list[float] | None, described("low, high")]
    winRate: float | None
    winRateInterval: Annotated[list[float] | None, described("low, high")]
    maxDrawdownPct: NotRequired[
        Annotated[
            float | None,
            described("largest drawdown of the sum of realized results"),
        ]
    ]
    atCosts: NotRequired[
        Annotated[list[AtCosts], described("the same closes at 1, 2 and 3 times the costs")]
    ]
    randomEntry: NotRequired[
        Annotated[
            "Rates",
            described(
                "for a lesson or family: positions of the same size and holding time, entered at"
                " random"
            ),
        ]
    ]
    accounts: NotRequired[Annotated[int, described("hidden accounts with random entries")]]
    returnPct: NotRequired[Annotated[float | None, described("of these accounts")]]
    closes: NotRequired[
        Annotated[int, described("of these accounts, including closes that don't count")]
    ]
    simulated: NotRequired[Annotated[bool, described("always true; omitted from lessons")]]


class Phase(TypedDict):
    """A trader's phase: Guarded Start or standard."""

    name: str
    closes: int
    closesNeeded: int
    days: int
    daysNeeded: int
    since: Time
    note: str


class StrategyBase(TypedDict):
    """A trader's strategy. The other integers are settings of its family."""

    family: FamilyName | OwnFamily
    own: Annotated[
        bool, described("true for a strategy by this instance's operator, not one of the families")
    ]
    startMode: Literal["guarded", "standard"]
    phase: Phase
    adaptive: Literal["off", "observe", "on"]
    pipeline: Annotated[str, described("version of the engine's input")]
    model: Annotated[str, described("version of the fill model")]


def list_settings() -> dict[str, Any]:
    """Return {name: type} for all families; each trader has its family's settings."""
    names = dict.fromkeys(one.name for family in ALL_FAMILIES.values() for one in fields(family))
    bot = NotRequired[Annotated[str, described("ID of the copied bot")]]
    return {**{public_name(name): NotRequired[int] for name in names}, "bot": bot}


if TYPE_CHECKING:
    # A type checker can't see members that are created at run time.
    class Strategy(StrategyBase): ...
else:
    members = {**get_type_hints(StrategyBase, include_extras=True), **list_settings()}
    Strategy = TypedDict("Strategy", members)
    Strategy.__doc__ = StrategyBase.__doc__


class PaperPerformance(TypedDict):
    """Simulated results; null while they are withheld."""

    headlineSuppressed: Annotated[
        bool, described("the account is under review, or a review was upheld")
    ]
    warning: str | None
    returnPct: Annotated[float | None, described("a percentage")]
    realizedSol: Exact | None
    cashSol: Exact
    equitySol: Exact | None
    closes: int
    winRate: Annotated[float | None, described("0 to 1")]
    startingCashSol: Exact
    period: Annotated[int, described("number of the account period; a reset starts the next")]
    since: Annotated[Time, described("when the period began")]


class ReviewReason(TypedDict):
    """An observation that opened a review."""

    code: str
    detail: Annotated[str, described("in words")]
    symbol: Annotated[str | None, described("untrusted")]
    at: Time


class Review(TypedDict):
    """Whether a trader's record is in doubt."""

    state: Annotated[
        Literal["clean", "under_review", "cleared", "upheld"],
        described("figures are withheld while it is under_review, and permanently once upheld"),
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
    """Members of a fill that a trader's detail omits."""

    amountRaw: Whole
    solLamports: Annotated[Whole, described("into or out of the pool, before its fee")]
    slippageLamports: Whole
    feesLamports: Whole
    rentLamports: Whole
    failed: bool
    model: Annotated[str, described("the fill model, such as amm-cp/3")]
    simulated: Simulation


class PaperFill(WholeFill):
    """An attempt to fill an order. A trader's detail omits the optional members."""

    side: Literal["buy", "sell"]
    decidedAt: Time
    filledAt: Time
    decidedSnapshotId: str
    filledSnapshotId: str
    reason: str


class WholeClose(TypedDict, total=False):
    """Members of a close that a trader's detail omits."""

    decimals: int
    period: int
    pipeline: str
    reviewOpenedAt: Time | None


class PaperClose(WholeClose, Simulated):
    """A closed position with all its costs. A trader's detail omits the optional members."""

    id: str
    mint: Address
    symbol: Annotated[str | None, described("untrusted")]
    openedAt: Time
    closedAt: Time
    reason: str
    grossLamports: Annotated[
        Whole, described("the gain or loss from price changes only, before costs")
    ]
    slippageLamports: Whole
    feesLamports: Whole
    rentLamports: Whole
    netLamports: Whole
    returnPct: Annotated[float | None, described("a percentage; null if nothing was spent")]
    latencyMs: int
    model: str
    assumptions: Annotated[list[str], described("the fill model, described in `models`, and marks")]
    fills: list[PaperFill]
    eligible: Annotated[bool, described("whether it counts in comparisons")]
    excludedReason: Annotated[
        str | None, described("why it doesn't count; `under_review` while its account is")
    ]


class PaperPosition(Simulated):
    """An open position."""

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
    assumptions: Annotated[list[str], described("the fill model, described in `models`, and marks")]
    model: str
    pipeline: str


class PaperOrder(Simulated):
    """An open order. Buys are in lamports, sales in raw units of the token."""

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
    """A period of a trader's account. A reset ends it and starts the next."""

    number: int
    startingCashLamports: Whole
    cashLamports: Whole
    openedAt: Time
    closedAt: Time | None
    reason: Annotated[str | None, described("why it was closed")]
    review: Annotated[
        Literal["clean", "under_review", "cleared", "upheld"],
        described("state state of the last review"),
    ]
    warning: Annotated[str | None, described("why its cash and records don't count")]


class WholeLine(TypedDict, total=False):
    """Members of a line that a trader's detail omits."""

    mint: Address | None
    symbol: Annotated[str | None, described("untrusted")]
    facts: Annotated[dict[str, object], described("figures of the entry; they differ by kind")]
    period: int


class DiaryLine(WholeLine, Simulated):
    """A line of a trader's diary. A trader's detail omits the optional members."""

    id: str
    at: Time
    kind: Annotated[str, described("decision, fill, refusal, pause, lesson, review or phase")]
    text: str
    closeId: Annotated[str | None, described("the closed position it is about")]


class Reviewed(Simulated):
    """The totals of a trader's eligible closes; null if there are none."""

    closes: int
    eligibleCloses: int
    excluded: Annotated[dict[str, int], described("count by reason")]
    wins: int | None
    netLamports: Whole | None


class Lesson(Simulated):
    """A pattern in a trader's own closes, until it expires."""

    text: str
    n: Annotated[int, described("closes it is based on")]
    window: str
    closeIds: NotRequired[Annotated[list[str], described("lessons only, not patterns")]]
    createdAt: Time
    expiresAt: Time
    evidence: Rates


class Pause(Simulated):
    """A rule that temporarily keeps a trader from entering."""

    rule: str
    effect: Annotated[str, described("pause_family, pause_mint, half_size or long_cooldown")]
    mint: Address | None
    applied: Annotated[bool, described("false: only observed")]
    n: int
    window: str
    text: str
    createdAt: Time
    expiresAt: Time


class Brain(Simulated):
    """A trader's lessons and pauses (read-only)."""

    asOf: Time
    reviewed: Reviewed
    patterns: list[Lesson]
    pauses: list[Pause]
    lessons: list[Lesson]


class WholePost(TypedDict, total=False):
    """Members of a post that a trader's detail omits."""

    botId: str
    botName: str
    eventId: str
    signature: Annotated[Signature | None, described("always null: there is no transaction")]
    reason: Annotated[str | None, described("always null")]
    family: Annotated[FamilyName | OwnFamily, described("its trader's strategy")]
    ownStrategy: Annotated[
        bool, described("true for a strategy by this instance's operator, not a built-in family")
    ]
    source: Literal["paper"]
    verified: Annotated[bool, described("always false: there is no transaction")]
    verification: Verification
    eventAt: Time
    tokenAddresses: list[Address]
    provenance: Provenance
    receipt: Annotated[str | None, described("always null: there is no receipt")]


class PaperPost(WholePost, Simulated):
    """A post about simulated trades. A trader's detail omits the optional members."""

    id: str
    body: Annotated[str | None, described("null once its text was removed")]
    mint: Address | None
    symbol: Annotated[str | None, described("untrusted")]
    kind: Annotated[str, described("its subject")]
    closeId: Annotated[str | None, described("the closed position it is about")]
    createdAt: Time
    hiddenAt: Time | None
    headlineSuppressed: bool
    warning: str | None


class PaperMetrics(Simulated):
    """Figures of an open account; null if there is too little data."""

    maxDrawdownPct: float | None
    drawdownFrom: Annotated[Time | None, described("the peak before the largest drawdown")]
    drawdownTo: Annotated[Time | None, described("the low of the largest drawdown")]
    days: int
    cagrPct: Annotated[float | None, described("yearly growth; null under 20 days")]
    calmar: Annotated[float | None, described("yearly growth divided by the largest drawdown")]
    solUsdChangePct: Annotated[
        float | None, described("change of the SOL price in USD over the same time")
    ]
    sharpePerDay: Annotated[float | None, described("of daily returns; null under 20 days")]
    sortinoPerDay: Annotated[float | None, described("of daily returns; null under 20 days")]
    exposure: Annotated[float | None, described("mean share of the equity in positions")]
    expectancyLamports: Annotated[Whole | None, described("mean net result of a close")]
    profitFactor: Annotated[float | None, described("gains divided by losses; null without a loss")]
    turnover: Annotated[
        float | None, described("amount spent on closes divided by the starting cash")
    ]
    feeShare: Annotated[
        float | None, described("all costs of closes divided by the amount spent on them")
    ]
    bestLamports: Whole | None
    worstLamports: Whole | None
    longestWinStreak: int
    longestLossStreak: int
    medianWinnerSeconds: Annotated[int | None, described("holding time of winning positions")]
    medianLoserSeconds: int | None


class TraderDetail(Trader):
    """A paper trader with its latest diary lines, closes, posts and open positions."""

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
        Rates | None,
        described(
            "statistics statistics of its eligible closes; null while the headline is withheld"
        ),
    ]
    randomEntry: Annotated[
        Rates | None,
        described(
            "results of hidden accounts that enter at random, with the same sizes, exits and"
            " costs: results no better than these show no skill. Null before their first round"
            " or while withheld"
        ),
    ]
    rulesFired: Annotated[dict[str, int], described("how often each adaptive rule would pause")]
    rulesFiredAtRandom: Annotated[
        dict[str, float], described("the same for a hidden account, on average")
    ]


class PaperMarket(PaperPage):
    """All tracked tokens and the scout's health."""

    data: list[MarketEntry]
    health: ScoutHealth


class VenueError(TypedDict):
    """The fill model's error at a venue, measured on real swaps; null if unknown."""

    venue: Annotated[str, described("the provider's id of the exchange")]
    receipts: int
    medianErrorBps: Annotated[
        int | None,
        described(
            "error of the model against the reserves in the transactions: basis points, absolute"
        ),
    ]
    p90ErrorBps: int | None
    p90DriftBps: Annotated[
        int | None, described("error against market snapshots; it doesn't disqualify a venue")
    ]
    source: Annotated[
        Literal["own", "recorded"] | None,
        described(
            "this instance's own receipts from 30 days, or the receipts used to build the model"
        ),
    ]
    since: Time | None
    eligible: Annotated[bool, described("whether closes there count in comparisons")]


class NetworkCosts(TypedDict):
    """Network fees and tips that swaps paid. Fills draw their costs from them."""

    p50Lamports: Whole
    p75Lamports: Whole
    p90Lamports: Whole
    rentLamports: Annotated[Whole, described("the median rent of new token accounts")]
    receipts: int
    source: Literal["own", "recorded"]
    measuredAt: Time
    since: Annotated[Time | None, described("block time of the oldest of these receipts")]


class Family(Rates):
    """Closes of one strategy family; null if there are none."""

    family: FamilyName
    excluded: Annotated[dict[str, int], described("count by reason")]
    traders: int
    tradersUnderReview: int
    daysCovered: int
    medianReturnPct: float | None
    worstCloseReturnPct: float | None
    costShare: Annotated[float | None, described("costs as a share of gross results")]


class Strategies(Simulated):
    """Closes by strategy family. Being listed doesn't mean a family is profitable."""

    windowDays: int
    pipeline: str
    families: list[Family]
    copy: Annotated[Family, described("traders that copy an observed bot; separate from the four")]
    ownTraders: Annotated[
        int,
        described("traders with strategies by this instance's operator, which belong to no family"),
    ]
    model: Annotated[str, described("the fill model that `venues` compares with real swaps")]
    venues: list[VenueError]
    networkCosts: NetworkCosts
    note: str
    suggestedStartMode: Literal["guarded"]
    asOf: Time
