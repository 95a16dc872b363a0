"""Show paper mode's traders, their posts, and the comparison of strategy families, for the API and
the pages.

Everything is simulated and labeled as such. While an account is under review, or after a review was
upheld, every performance figure is null. Cash and records stay. In SQL statements, times are UTC
milliseconds and money is in lamports.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, fields
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_type_hints

from pydantic import Field

from accounts.influencers import read_voice
from paper import brain, measured, results, rules
from paper.account import PIPELINE, STARTING_CASH, Close, cluster, public_id
from paper.engine import TWINS
from paper.fills import MODEL, RECORDED_COSTS, RENT, VENUES
from paper.store import SUSPECT
from paper.strategies import (
    ALL_FAMILIES,
    COPY,
    FAMILIES,
    BadSetting,
    parse_settings,
    public_name,
    show_settings,
)
from storage import database
from storage.rows import Part, make_object, read, read_one
from web.api.bots import Voice
from web.api.health import ScoutHealth
from web.api.market import MarketEntry
from web.api.paper_brain import (
    CLOSE_OF_LINE,
    DIARY,
    FACTS,
    Brain,
    DiaryLine,
    Rates,
    find_close_id,
    read_lines,
    show_brain,
    show_line,
)
from web.api.paper_closes import (
    CLOSES,
    COMPARED,
    ORDERS,
    PERIOD_CLOSES,
    TWIN_CLOSES,
    PaperClose,
    PaperOrder,
    PaperPosition,
    find_closes,
    find_percentage,
    find_value,
    read_close,
    read_closes,
    read_history,
    read_positions,
    show_closes,
    show_models,
    show_order,
    show_position,
)
from web.api.posts import Provenance, Verification
from web.api.serialize import Always, fill, show_sol, show_time
from web.api.shapes import (
    Address,
    Exact,
    FillModel,
    NotRequired,
    PaperPage,
    Signature,
    Simulation,
    Time,
    TypedDict,
    Whole,
    described,
)

Json = dict[str, Any]
REASON: Any = make_object(code=str, detail=str, symbol=str | None, at=int)
DOCUMENTS = {"settings": Part(Json), "phase": Part(Json), "reasons": Part(list[REASON])}
FamilyName = Literal["momentum", "mean_reversion", "breakout", "flow", "copy"]
# From a file in DATA_DIR/strategies.
OwnFamily = Annotated[str, Field(pattern=r"^own:[a-z][a-z0-9_]{0,39}$")]


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
    """Return {name: type} for all families. Each trader has the settings of its family."""
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
    """Simulated results. They are null while they are withheld."""

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
    since: Annotated[Time, described("start of the period")]


class ReviewReason(TypedDict):
    """An observation that opened a review."""

    code: str
    detail: Annotated[str, described("explanation in words")]
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


class Trader(TypedDict):
    """A paper trader, with virtual money and simulated fills."""

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
    simulated: Simulation


class AccountPeriod(TypedDict):
    """A period of a trader's account. A reset ends it and starts the next one."""

    number: int
    startingCashLamports: Whole
    cashLamports: Whole
    openedAt: Time
    closedAt: Time | None
    reason: Annotated[str | None, described("reason for closing the account")]
    review: Annotated[
        Literal["clean", "under_review", "cleared", "upheld"], described("state of the last review")
    ]
    warning: Annotated[
        str | None, described("why the account period's cash and records don't count")
    ]
    simulated: Simulation


class PaperPost(TypedDict):
    """A post about simulated trades. A trader's detail omits the optional members."""

    id: str
    botId: NotRequired[str]
    botName: NotRequired[str]
    eventId: NotRequired[str]
    body: Annotated[str | None, described("null once the text has been removed")]
    mint: Address | None
    symbol: Annotated[str | None, described("untrusted")]
    signature: NotRequired[
        Annotated[Signature | None, Always(None), described("always null: there is no transaction")]
    ]
    reason: NotRequired[Annotated[str | None, Always(None), described("always null")]]
    kind: Annotated[str, described("the post's subject")]
    closeId: Annotated[str | None, described("ID of the closed position that the post is about")]
    family: NotRequired[
        Annotated[FamilyName | OwnFamily, described("strategy of the post's trader")]
    ]
    ownStrategy: NotRequired[
        Annotated[
            bool,
            described("true for a strategy by this instance's operator, not a built-in family"),
        ]
    ]
    source: NotRequired[Literal["paper"]]
    simulated: Simulation
    verified: NotRequired[
        Annotated[bool, Always(False), described("always false: there is no transaction")]
    ]
    verification: NotRequired[Verification]
    eventAt: NotRequired[Time]
    createdAt: Time
    hiddenAt: Time | None
    tokenAddresses: NotRequired[list[Address]]
    provenance: NotRequired[Provenance]
    receipt: NotRequired[
        Annotated[str | None, Always(None), described("always null: there is no receipt")]
    ]
    headlineSuppressed: bool
    warning: str | None


class PaperMetrics(TypedDict):
    """The figures of an open account. They are null if there is too little data."""

    maxDrawdownPct: float | None
    drawdownFrom: Annotated[Time | None, described("the peak before the largest drawdown")]
    drawdownTo: Annotated[Time | None, described("the low of the largest drawdown")]
    days: int
    cagrPct: Annotated[float | None, described("yearly growth; null under 20 days")]
    calmar: Annotated[float | None, described("yearly growth divided by the largest drawdown")]
    solUsdChangePct: Annotated[
        float | None, described("change of the SOL price in USD over the same period")
    ]
    sharpePerDay: Annotated[
        float | None, described("Sharpe ratio of daily returns; null under 20 days")
    ]
    sortinoPerDay: Annotated[
        float | None, described("Sortino ratio of daily returns; null under 20 days")
    ]
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
    simulated: Simulation


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
        Rates | None, described("based on its eligible closes; null while the headline is withheld")
    ]
    randomEntry: Annotated[
        Rates | None,
        described(
            "results of hidden accounts that enter at random, with the same sizes, exits and"
            " costs. If a trader's results aren't better, they don't show skill. Null before"
            " their first round or while withheld"
        ),
    ]
    rulesFired: Annotated[
        dict[str, int], described("number of times each adaptive rule would pause")
    ]
    rulesFiredAtRandom: Annotated[
        dict[str, float], described("average number of pauses by each rule, per hidden account")
    ]


class PaperMarket(PaperPage):
    """All tracked tokens and the scout's health."""

    data: list[MarketEntry]
    health: ScoutHealth


class VenueError(TypedDict):
    """The fill model's error at a venue, measured on real swaps. Null if unknown."""

    venue: Annotated[str, described("the provider's ID for the exchange")]
    receipts: int
    medianErrorBps: Annotated[
        int | None,
        described(
            "absolute error of the model against the reserves in the transactions, in basis points"
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
    """The network fees and tips that swaps paid. Fills draw their costs from them."""

    p50Lamports: Whole
    p75Lamports: Whole
    p90Lamports: Whole
    rentLamports: Annotated[Whole, described("the median rent of new token accounts")]
    receipts: int
    source: Literal["own", "recorded"]
    measuredAt: Time
    since: Annotated[Time | None, described("block time of the oldest of these receipts")]


class Family(Rates):
    """The closes of one strategy family. Null if there aren't any."""

    family: FamilyName
    excluded: Annotated[dict[str, int], described("number of excluded closes, by reason")]
    traders: int
    tradersUnderReview: int
    daysCovered: int
    medianReturnPct: float | None
    worstCloseReturnPct: float | None
    costShare: Annotated[float | None, described("costs as a share of gross results")]


class Strategies(TypedDict):
    """Closes by strategy family. A family isn't necessarily profitable because it is listed."""

    windowDays: int
    pipeline: str
    families: list[Family]
    copy: Annotated[Family, described("traders that copy an observed bot; separate from the four")]
    ownTraders: Annotated[
        int,
        described("number of traders with the operator's own strategies, which aren't in a family"),
    ]
    model: Annotated[str, described("the fill model that `venues` compares with real swaps")]
    venues: list[VenueError]
    networkCosts: NetworkCosts
    note: str
    suggestedStartMode: Literal["guarded"]
    asOf: Time
    simulated: Simulation


# ---- statements ----------------------------------------------------------------------------------
# Traders with their open account period and its last review, which decides what may be shown.
TRADERS = """
SELECT t.id, t.uid, t.handle, t.name, t.bio, t.voice, t.family, t.settings, t.start_mode,
       t.adaptive, t.phase, t.created_at, t.retired_at, p.id AS period_id, p.number AS period,
       p.starting_cash, p.cash, p.lost_fees, p.opened_at, r.state, r.reasons,
       r.opened_at AS reviewed_at, r.decided_at, r.decision
FROM trader t JOIN period p ON p.trader_id = t.id AND p.closed_at IS NULL AND p.twin = 0
LEFT JOIN review r ON r.id = (SELECT MAX(id) FROM review WHERE period_id = p.id)"""
# The totals of the closes in open periods.
PERIOD_TOTALS = """
SELECT c.period_id, COUNT(*) AS closes, SUM(c.cash) AS net,
       COUNT(CASE WHEN c.cash > 0 THEN 1 END) AS wins
FROM position c JOIN period p ON p.id = c.period_id AND p.closed_at IS NULL AND p.twin = 0
WHERE c.closed_at IS NOT NULL AND p.trader_id = COALESCE(?, p.trader_id) GROUP BY c.period_id"""
# The numbers of a trader's lines, closes and posts.
TOTALS = """
SELECT (SELECT COUNT(*) FROM diary_entry d JOIN period p ON p.id = d.period_id
        WHERE p.trader_id = t.id AND p.twin = 0) AS diary,
       (SELECT COUNT(*) FROM position c JOIN period p ON p.id = c.period_id
        WHERE p.trader_id = t.id AND p.twin = 0 AND c.closed_at IS NOT NULL) AS closes,
       (SELECT COUNT(*) FROM paper_post o WHERE o.trader_id = t.id) AS posts
FROM trader t WHERE t.id = ?"""
# `review` is the state of the last review.
PERIODS = """
SELECT p.number, p.starting_cash, p.cash, p.opened_at, p.closed_at, p.closing_reason AS reason,
       COALESCE(r.state, 'clean') AS review
FROM period p LEFT JOIN review r ON r.id = (SELECT MAX(id) FROM review WHERE period_id = p.id)
WHERE p.trader_id = ? AND p.twin = 0 ORDER BY p.number"""
# `state` is that of the account period's last review. `closed` is the number of the closed position
# that the post is about.
PAPER_POSTS = f"""
SELECT o.id, o.uid, t.uid AS trader, t.name, o.body, o.mint, o.symbol, o.writer, o.event_at,
       o.created_at, o.hidden_at, d.kind,
       (SELECT state FROM review WHERE period_id = d.period_id ORDER BY id DESC LIMIT 1) AS state,
       t.handle, t.family, {CLOSE_OF_LINE} AS closed
FROM paper_post o JOIN trader t ON t.id = o.trader_id JOIN diary_entry d ON d.id = o.entry_id"""
# Changes with every tick and every decision about a trader.
GENERATION = """
SELECT (SELECT snapshot FROM engine_state WHERE id = 1) AS snapshot,
       (SELECT MAX(id) FROM trader) AS trader, (SELECT SUM(version) FROM trader) AS versions,
       (SELECT MAX(id) FROM position) AS position"""
# Net results of the open accounts' closes since a time.
RECENT_CLOSES = """
SELECT t.uid AS trader, o.cash AS net FROM position o
JOIN period p ON p.id = o.period_id AND p.closed_at IS NULL AND p.twin = 0
JOIN trader t ON t.id = p.trader_id
WHERE o.closed_at >= ? ORDER BY o.closed_at, o.id"""

WARNINGS = {
    "under_review": (
        "Under review: returns and rates are withheld. Cash and records are simulated, not"
        " demonstrated performance."
    ),
    "upheld": (
        "A review of this record was upheld, so it does not count. Cash and records are"
        " simulated, not demonstrated performance."
    ),
}
# A phase at its start. A list of traders has one for each.
NEW_PHASE = asdict(rules.Phase())
# Closes that the brain examines, and rows in each list of a detail.
MAX_CLOSES, LATEST = 200, 20
LAST = 2**62
# The days and points of a sparkline.
SUMMED_DAYS, MAX_SUMS = 30, 60
COVERAGE_NOTE = "Closes and days are evidence of volume. Coverage is not proof of profitability."


class TimeSortKey(NamedTuple):
    """For lists that are sorted by time (ms)."""

    at: int
    id: int


class SortedRow(NamedTuple):
    """A JSON row and its sort key."""

    key: TimeSortKey
    shown: Any


# ---- traders -------------------------------------------------------------------------------------
def list_traders() -> list[Trader]:
    totals = _read_totals(None)
    values: dict[int, int] = defaultdict(int)
    for position in read_positions(None):
        values[position.period_id] += find_value(position)
    return [
        show_trader(row, totals.get(row.period_id), values[row.period_id])
        for row in list_rows("t.retired_at IS NULL ORDER BY t.id")
    ]


def list_rows(condition: str, *values: Any) -> list[Any]:
    return read(f"{TRADERS} WHERE {condition}", values, **DOCUMENTS)


def find_trader(uid: str, now: int) -> Json | None:
    row = find_row(uid)
    if row is None:
        return None
    held = _list_held(row.id)
    closes = read_closes(CLOSES, row.id, LAST, LAST, LAST, MAX_CLOSES)
    counted = read_one(TOTALS, (row.id,))
    totals = _read_totals(row.id).get(row.period_id)
    is_withheld, random = row.state in SUSPECT, find_closes(TWIN_CLOSES, row.id, row.period)
    history = None if is_withheld else read_history(row.uid)
    return {
        **show_trader(row, totals, sum(map(find_value, held))),
        "periods": [
            fill(AccountPeriod, one, warning=WARNINGS.get(one.review))
            for one in read(PERIODS, (row.id,))
        ],
        "positions": [show_position(row.handle, one, now) for one in held],
        "orders": list(map(show_order, read(ORDERS, (row.id,)))),
        "models": show_models(),
        "closes": show_closes(row.id, row.handle, closes[:LATEST]),
        "closesTotal": counted.closes,
        "diary": [one.shown for one in list_diary(row, LATEST)],
        "diaryTotal": counted.diary,
        "posts": [one.shown for one in list_own_posts(row, LATEST)],
        "postsTotal": counted.posts,
        "metrics": history and history.show_metrics(),
        "evidence": None if is_withheld else show_evidence(row),
        "randomEntry": None if is_withheld else show_random_entry(row, random),
        **show_rules(row),
        "brain": show_brain(
            row.id,
            [
                read_close(public_id(row.handle, "close", one.number), one)
                for one in reversed(closes)
            ],
            random,
            now,
        ),
    }


def _list_held(trader: int) -> list[Any]:
    """Damaged positions are left out."""
    return [one for one in read_positions(trader) if one.raw.isdecimal() and one.price.isdecimal()]


def find_row(uid: str) -> Any:
    return next(iter(list_rows("t.uid = ?", uid)), None)


def list_closes(row: Any, limit: int, before: TimeSortKey | None = None) -> list[SortedRow]:
    """Return a trader's closes below a sort key, newest first."""
    at, ident = before or TimeSortKey(LAST, LAST)
    rows = read_closes(CLOSES, row.id, at, at, ident, limit)
    shown = show_closes(row.id, row.handle, rows)
    keys = [TimeSortKey(one.closed_at, one.id) for one in rows]
    return list(map(SortedRow, keys, shown))


def list_diary(row: Any, limit: int, before: TimeSortKey | None = None) -> list[SortedRow]:
    rows = read_lines(DIARY, row.id, before.id if before else LAST, limit)
    return [SortedRow(TimeSortKey(one.at, one.id), show_line(row.handle, one)) for one in rows]


def list_own_posts(row: Any, limit: int, before: TimeSortKey | None = None) -> list[SortedRow]:
    sql = f"{PAPER_POSTS} WHERE o.trader_id = ? AND o.id < ? ORDER BY o.id DESC LIMIT ?"
    rows = read(sql, (row.id, before.id if before else LAST, limit))
    return [show_sorted_post(row) for row in rows]


def show_evidence(row: Any) -> Json:
    closes = find_closes(PERIOD_CLOSES, row.period_id)
    return {**results.describe(closes, row.starting_cash), "simulated": True}


def _read_totals(trader_id: int | None) -> dict[int, Any]:
    return {row.period_id: row for row in read(PERIOD_TOTALS, (trader_id,))}


def show_trader(row: Any, totals: Any, held_value: int) -> Trader:
    """`totals`: None without a close. `held_value`: positions at their marks, in lamports."""
    strategy: Any = {
        "family": row.family,
        "own": row.family not in ALL_FAMILIES,
        "startMode": row.start_mode,
        "phase": show_phase(row.phase or {}),
        "adaptive": row.adaptive,
        "pipeline": PIPELINE,
        "model": MODEL,
        **_read_settings(row.family, row.settings or {}),
    }
    return fill(
        Trader,
        row,
        voice=read_voice(row.voice),
        strategy=strategy,
        performance=show_performance(row, totals, held_value),
        review=show_review(row),
    )


def show_performance(row: Any, totals: Any, held_value: int) -> PaperPerformance:
    """`held_value` is in lamports."""
    suppressed, equity = row.state in SUSPECT, row.cash + held_value
    gain = equity - row.starting_cash
    closes, net, wins = (totals.closes, totals.net, totals.wins) if totals else (0, 0, 0)
    return fill(
        PaperPerformance,
        row,
        headlineSuppressed=suppressed,
        warning=WARNINGS.get(row.state or ""),
        returnPct=None if suppressed else find_percentage(gain, row.starting_cash),
        realizedSol=None if suppressed else show_sol(net - row.lost_fees),
        equitySol=None if suppressed else show_sol(equity),
        closes=closes,
        winRate=None if suppressed or not closes else round(wins / closes, 4),
        since=show_time(row.opened_at),
    )


def show_phase(stored: Json) -> Phase:
    phase = {**NEW_PHASE, **stored}
    return {
        "name": phase["name"],
        "closes": phase["closes"],
        "closesNeeded": rules.CLOSES_NEEDED,
        "days": phase["days"],
        "daysNeeded": rules.DAYS_NEEDED,
        "since": show_time(phase["since"]),
        "note": COVERAGE_NOTE,
    }


def show_review(row: Any) -> Review:
    reasons = [
        {**{name: one[name] for name in ("code", "detail", "symbol")}, "at": show_time(one["at"])}
        for one in row.reasons or ()
    ]
    return fill(
        Review,
        row,
        state=row.state or "clean",
        reasons=reasons,
        openedAt=show_time(row.reviewed_at),
    )


def _read_settings(family: str, given: Json) -> Json:
    """Return a strategy's settings, including defaults, or as stored if they aren't a family's."""
    if family not in ALL_FAMILIES:
        # Only the job knows a strategy file's settings.
        return {}
    try:
        return dict(show_settings(parse_settings(family, given)))
    except BadSetting:
        return given


def list_sums(now: int) -> dict[str, list[int]]:
    """Return {trader: running lamport sums of its account's latest closes}. `now`: ms."""
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0])
    for row in read(RECENT_CLOSES, (now - SUMMED_DAYS * rules.DAY_MS,)):
        sums[row.trader].append(sums[row.trader][-1] + row.net)
    return {trader: of_one[-MAX_SUMS:] for trader, of_one in sums.items()}


# ---- posts ---------------------------------------------------------------------------------------
def list_posts(limit: int, before: int | None = None, mint: str | None = None) -> list[SortedRow]:
    """Return all traders' posts with numbers below `before`, newest first."""
    # A bound above all numbers, so that the first page uses the same query.
    values: list[Any] = [LAST if before is None else before]
    where = " WHERE o.id < ?"
    if mint:
        where += " AND o.mint = ?"
        values.append(mint)
    rows = read(f"{PAPER_POSTS}{where} ORDER BY o.id DESC LIMIT ?", (*values, limit))
    return [show_sorted_post(row) for row in rows]


def show_sorted_post(row: Any) -> SortedRow:
    return SortedRow(TimeSortKey(row.created_at, row.id), show_post(row))


def find_post(uid: str) -> PaperPost | None:
    row = read_one(PAPER_POSTS + " WHERE o.uid = ?", (uid,))
    return show_post(row) if row else None


def show_post(row: Any) -> PaperPost:
    return fill(
        PaperPost,
        row,
        id=row.uid,
        botId=row.trader,
        botName=row.name,
        eventId=row.uid,
        body=None if row.hidden_at else row.body,
        closeId=find_close_id(row.handle, row.closed),
        ownStrategy=row.family not in ALL_FAMILIES,
        verification={"status": "none", "tradeId": None, "checkedAt": None, "reason": None},
        tokenAddresses=[row.mint] if row.mint else [],
        provenance={
            "channel": "paper",
            "keyId": None,
            "wallet": None,
            "ownership": None,
            "writer": row.writer,
            "contentTrust": "generated",
            "untrustedFields": ["body", "reason", "symbol"],
        },
        headlineSuppressed=row.state in SUSPECT,
        warning=WARNINGS.get(row.state or ""),
    )


# ---- the comparison ------------------------------------------------------------------------------
class Compared(NamedTuple):
    """The comparison of the last 30 days, and {trader id: lower bound of its win rate}."""

    families: Json
    win_rates: dict[str, float]


_compared: tuple[Any, Compared] = (None, Compared({}, {}))


def compare_families(now: int) -> Json:
    """Describe each family's closes in the last 30 days. The order is fixed and isn't a ranking."""
    return _find_compared(now).families


def find_win_rates(now: int) -> dict[str, float]:
    """Return {ID: lower bound (0 to 1) of the win rate's 95% interval} over 30 days. `now`: ms."""
    return _find_compared(now).win_rates


def _find_compared(now: int) -> Compared:
    """Return the comparison. It is recomputed after each tick, decision or minute."""
    global _compared
    key = (database.obj, *read_one(GENERATION), now // 60_000)
    if _compared[0] != key:
        _compared = key, _compare(now)
    return _compared[1]


def _compare(now: int) -> Compared:
    closes: dict[str, list[Close]] = defaultdict(list)
    since = now - results.COMPARED_DAYS * rules.DAY_MS
    random: dict[str, list[Close]] = defaultdict(list)
    for close in read_closes(COMPARED, since):
        side = random if close.twin else closes
        side[close.family].append(read_close(str(close.trader_id), close))
    traders = list_rows("t.retired_at IS NULL")
    number = Counter(row.family for row in traders)
    reviewed = Counter(row.family for row in traders if row.state == "under_review")
    *families, copy = (
        {
            "family": family,
            "traders": number[family],
            "tradersUnderReview": reviewed[family],
            **show_compared(closes[family]),
            "randomEntry": describe_random(random[family]),
            "simulated": True,
        }
        for family in (*FAMILIES, COPY)
    )
    shown = {
        "windowDays": results.COMPARED_DAYS,
        "pipeline": PIPELINE,
        "families": families,
        "copy": copy,
        "ownTraders": sum(family not in ALL_FAMILIES for family in number.elements()),
        "model": MODEL,
        "venues": list_venues(now),
        "networkCosts": show_costs(),
        "note": brain.NOTE,
        "suggestedStartMode": "guarded",
        "simulated": True,
    }
    return Compared(shown, _find_win_rates(traders, chain.from_iterable(closes.values())))


def _find_win_rates(traders: list[Any], closes: Iterable[Close]) -> dict[str, float]:
    by_trader: dict[str, list[Close]] = defaultdict(list)
    for close in closes:
        if close.excluded is None:
            by_trader[close.id].append(close)
    found = {
        row.uid: results.find_win_interval(cluster(by_trader[str(row.id)]))
        for row in traders
        if row.state not in SUSPECT
    }
    return {uid: interval[0] for uid, interval in found.items() if interval}


def show_compared(closes: list[Close]) -> Json:
    return results.compare(closes, _count_accounts(closes) * STARTING_CASH)


def _count_accounts(closes: list[Close]) -> int:
    return len({close.id for close in closes})


# When the recorded transactions were read.
RECORDED_AT = "2026-11-22T00:00:00.000Z"


def list_venues(now: int) -> list[VenueError]:
    """List the venues that the model supports, and other venues with receipts. `now`: ms."""
    unknown = {name: measured.VenueError(name) for name in VENUES}
    known = {one.venue: one for one in measured.list_errors(now)}
    return [fill(VenueError, one) for _, one in sorted({**unknown, **known}.items())]


def show_costs() -> NetworkCosts:
    row = measured.find_costs()
    return fill(
        NetworkCosts,
        row or RECORDED_COSTS,
        rentLamports=str((row and row.rent) or RENT),
        receipts=row.receipts if row else measured.RECORDED_RECEIPTS,
        source="own" if row else "recorded",
        measuredAt=show_time(row.at) if row else RECORDED_AT,
        since=show_time(row.since) if row else None,
    )


# The accounts of twins. `worth`: what its pools would pay for its holdings, in lamports.
OF_TWINS = "p.trader_id = ? AND p.number = ? AND p.twin > 0"
TWIN_ACCOUNTS = f"""
SELECT p.cash, COALESCE((SELECT SUM(c.worth) FROM position c
                         WHERE c.period_id = p.id AND c.closed_at IS NULL), 0) AS worth
FROM period p WHERE {OF_TWINS}"""


# The pauses triggered by a rule, for a trader (0) or a twin.
FIRED = """
SELECT p.twin, d.facts FROM diary_entry d JOIN period p ON p.id = d.period_id
WHERE p.trader_id = ? AND p.number = ? AND d.kind = 'pause' ORDER BY d.id"""


def show_random_entry(row: Any, closes: list[Close]) -> Json | None:
    accounts = read(TWIN_ACCOUNTS, (row.id, row.period))
    if not accounts:
        return None
    start = len(accounts) * row.starting_cash
    gain = sum(one.cash + one.worth for one in accounts) - start
    return {
        "accounts": len(accounts),
        "returnPct": find_percentage(gain, start),
        "closes": len(closes),
        **results.describe(closes, start),
        "simulated": True,
    }


def show_rules(row: Any) -> Json:
    """Return how often each adaptive rule fired, for the trader and on average for a twin."""
    own, random = Counter[str](), Counter[str]()
    for one in read(FIRED, (row.id, row.period), facts=FACTS):
        fired = one.facts.get("what") in ("begun", "observed")
        (random if one.twin else own)[one.facts.get("rule", "")] += fired
    names = [rule.name for rule in rules.RULES]
    return {
        "rulesFired": {name: own[name] for name in names},
        "rulesFiredAtRandom": {name: round(random[name] / TWINS, 2) for name in names},
    }


def describe_random(closes: list[Close]) -> Json:
    start = _count_accounts(closes) * TWINS * STARTING_CASH
    return {**results.describe(closes, start), "simulated": True}
