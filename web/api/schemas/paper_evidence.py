"""What paper results amount to: rates with their intervals, the controls beside them, and how far
the fill model is off.
"""

from typing import Literal

from web.api.schemas.base import Shape, Simulated, Time, Whole, absent, described


class AtCosts(Shape):
    """Results had every cost been so many times what it was."""

    costs: int = described("how many times")
    meanReturnPct: float | None
    winRate: float | None


class IntervalKind(Shape):
    """How intervals are found, and how often they contain the truth."""

    method: Literal["Student t over days"]
    level: int = described("percent")


class AtCost(Shape):
    """What closes came to at some costs."""

    meanReturnPct: float | None
    winRate: float | None


class FillError(Shape):
    """How far fills are off at a venue, in basis points whatever the sign; null where none is
    known.
    """

    venue: str = described("the provider's id of the exchange")
    medianBps: int | None
    p90Bps: int | None
    receipts: int
    eligible: bool = described("closes there may be compared")


class Rates(Shape):
    """Win rate and mean return of closes that count, each with its interval; null of nothing."""

    eligibleCloses: int
    clusters: int = described("closes of one token, entered within an hour, are one")
    days: int = described("UTC days on which they began")
    sample: Literal["none", "thin", "some", "enough"] = described("named by its clusters")
    interval: IntervalKind
    intervalReason: str | None = described("why the intervals are null; null where they are not")
    meanReturnPct: float | None
    meanReturnInterval: list[float] | None = described("low, high; see interval")
    winRate: float | None
    winRateInterval: list[float] | None = described("low, high; see interval")


class LessonRates(Rates):
    """The rates of a lesson, and those of random entries of the same kind in the same time."""

    randomEntry: Rates


class Described(Rates):
    """What closes add up to."""

    maxDrawdownPct: float | None = described(
        "largest fall of what they add up to, from its highest; of realized results"
    )
    atCosts: list[AtCosts] = described("the same closes, had every cost been 1, 2 and 3 times")


class Evidence(Described, Simulated):
    """What the eligible closes of a trader's open account add up to."""


class HoldingSol(Shape):
    """What holding SOL did: in SOL nothing, by definition."""

    returnPct: float | None = described("0; null while the headline is withheld")
    usdChangePct: float | None = absent("of an account: what a SOL did in USD since it began")


class RandomEntry(Described, Simulated):
    """What positions of the same size and holding time earned that were entered at random."""

    accounts: int = absent("of a trader: how many hidden accounts")
    returnPct: float | None = absent("of a trader")
    closes: int = absent("of a trader: those that do not count included")


class FiredRule(Shape):
    """How often an adaptive rule found reason for a pause."""

    rule: str
    fired: int
    firedOnTwin: float = described("in the account of random entries, on average")


class FamilyControls(Shape):
    """What a family is compared with."""

    holdSol: HoldingSol
    randomEntry: RandomEntry


class Controls(Simulated):
    """What an account is compared with. What they show, too, is nothing that was learned."""

    holdSol: HoldingSol
    randomEntry: RandomEntry | None = described("null before its first round or while withheld")
    rules: list[FiredRule]
    note: str


class VenueError(Shape):
    """How far the fill model is off at a venue, by real swaps; null where none is known."""

    venue: str = described("the provider's id of the exchange")
    receipts: int
    medianErrorBps: int | None = described(
        "of the model, by the reserves in the transactions: basis points, whatever the sign"
    )
    p90ErrorBps: int | None
    p90DriftBps: int | None = described("of market snapshots, which disqualifies no venue")
    source: Literal["own", "recorded"] | None = described(
        "this instance's own receipts of 30 days, or those the model was built on"
    )
    since: Time | None
    eligible: bool = described("closes there may be compared")


class NetworkCosts(Shape):
    """What swaps paid in network fee and tip, which fills are drawn from."""

    p50Lamports: Whole
    p75Lamports: Whole
    p90Lamports: Whole
    rentLamports: Whole = described("the middle of what new token accounts held")
    receipts: int
    source: Literal["own", "recorded"]
    measuredAt: Time
    since: Time | None = described("when the oldest of its own receipts happened")


class MeasuredFills(Shape):
    """The fill model against what real swaps got."""

    model: str
    venues: list[VenueError]
    networkCosts: NetworkCosts
    minReceipts: int
    maxErrorBps: int
    note: str
