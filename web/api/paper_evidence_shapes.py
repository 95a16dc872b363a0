"""What paper results amount to: rates with their intervals, the controls beside them, and how far
the fill model is off.
"""

from typing import Annotated, Literal

from web.api.shapes import NotRequired, Time, TypedDict, Whole, described

# Not a Literal: client generators break on non-string constants.
Simulation = Annotated[bool, described("always true: nothing of this was traded")]


class Simulated(TypedDict):
    """Of paper mode: nothing was traded."""

    simulated: Simulation


class AtCosts(TypedDict):
    """Results had every cost been so many times what it was."""

    costs: Annotated[int, described("how many times")]
    meanReturnPct: float | None
    winRate: float | None


class IntervalKind(TypedDict):
    """How intervals are found, and how often they contain the truth."""

    method: Literal["Student t over days"]
    level: Annotated[int, described("percent")]


class AtCost(TypedDict):
    """What closes came to at some costs."""

    meanReturnPct: float | None
    winRate: float | None


class FillError(TypedDict):
    """How far fills are off at a venue, in basis points whatever the sign; null where none is
    known.
    """

    venue: Annotated[str, described("the provider's id of the exchange")]
    medianBps: int | None
    p90Bps: int | None
    receipts: int
    eligible: Annotated[bool, described("closes there may be compared")]


class Rates(TypedDict):
    """Win rate and mean return of closes that count, each with its interval; null of nothing."""

    eligibleCloses: int
    clusters: Annotated[int, described("closes of one token, entered within an hour, are one")]
    days: Annotated[int, described("UTC days on which they began")]
    sample: Annotated[Literal["none", "thin", "some", "enough"], described("named by its clusters")]
    interval: IntervalKind
    intervalReason: Annotated[
        str | None, described("why the intervals are null; null where they are not")
    ]
    meanReturnPct: float | None
    meanReturnInterval: Annotated[list[float] | None, described("low, high; see interval")]
    winRate: float | None
    winRateInterval: Annotated[list[float] | None, described("low, high; see interval")]


class LessonRates(Rates):
    """The rates of a lesson, and those of random entries of the same kind in the same time."""

    randomEntry: Rates


class Described(Rates):
    """What closes add up to."""

    maxDrawdownPct: Annotated[
        float | None,
        described("largest fall of what they add up to, from its highest; of realized results"),
    ]
    atCosts: Annotated[
        list[AtCosts], described("the same closes, had every cost been 1, 2 and 3 times")
    ]


class Evidence(Described, Simulated):
    """What the eligible closes of a trader's open account add up to."""


class HoldingSol(TypedDict):
    """What holding SOL did: in SOL nothing, by definition."""

    returnPct: Annotated[float | None, described("0; null while the headline is withheld")]
    usdChangePct: NotRequired[
        Annotated[float | None, described("of an account: what a SOL did in USD since it began")]
    ]


class RandomEntry(Described, Simulated):
    """What positions of the same size and holding time earned that were entered at random."""

    accounts: NotRequired[Annotated[int, described("of a trader: how many hidden accounts")]]
    returnPct: NotRequired[Annotated[float | None, described("of a trader")]]
    closes: NotRequired[Annotated[int, described("of a trader: those that do not count included")]]


class FiredRule(TypedDict):
    """How often an adaptive rule found reason for a pause."""

    rule: str
    fired: int
    firedOnTwin: Annotated[float, described("in the account of random entries, on average")]


class FamilyControls(TypedDict):
    """What a family is compared with."""

    holdSol: HoldingSol
    randomEntry: RandomEntry


class Controls(Simulated):
    """What an account is compared with. What they show, too, is nothing that was learned."""

    holdSol: HoldingSol
    randomEntry: Annotated[
        RandomEntry | None, described("null before its first round or while withheld")
    ]
    rules: list[FiredRule]
    note: str


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


class MeasuredFills(TypedDict):
    """The fill model against what real swaps got."""

    model: str
    venues: list[VenueError]
    networkCosts: NetworkCosts
    minReceipts: int
    maxErrorBps: int
    note: str
