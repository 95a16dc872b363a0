"""Paper mode as JSON, for both the API and the pages. Everything is simulated and labeled so.

While the account is under review, or after an upheld review, every performance figure is null. Cash
and records stay.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from itertools import chain
from typing import Any, NamedTuple

from accounts.influencers import read_voice
from paper import brain, measured, measured_store, results, rules
from paper.account import PIPELINE, STARTING_CASH, Close, cluster, public_id
from paper.engine import TWINS
from paper.fills import MODEL, RECORDED_COSTS, RENT, VENUES
from paper.measured import VenueError
from paper.store import SUSPECT
from paper.strategies import (
    ALL_FAMILIES,
    COPY,
    FAMILIES,
    BadSetting,
    parse_settings,
    show_settings,
)
from storage import database
from storage.rows import select, select_many, select_one
from web.api.paper_brain import (
    find_close_id,
    show_brain,
    show_line,
)
from web.api.paper_equity import read_history
from web.api.paper_records import (
    WARNINGS,
    find_percentage,
    find_value,
    read_close,
    show_closes,
    show_models,
    show_order,
    show_period,
    show_position,
)
from web.api.paper_statements import (
    CLOSES,
    COMPARED,
    DIARY,
    GENERATION,
    ORDERS,
    PAPER_POSTS,
    PERIOD_CLOSES,
    PERIOD_TOTALS,
    PERIODS,
    POSITIONS,
    RECENT_CLOSES,
    TOTALS,
    TRADERS,
    TWIN_CLOSES,
    CloseRow,
    ComparedRow,
    DiaryRow,
    Facts,
    OrderRow,
    PaperGeneration,
    PaperPostRow,
    PeriodRow,
    PeriodTotalsRow,
    PositionRow,
    RecentCloseRow,
    TotalsRow,
    TraderRow,
)
from web.api.serialize import show_sol, show_time

# An initial phase. A list of traders has one for each.
NEW_PHASE = asdict(rules.Phase())
Json = dict[str, Any]
# Closes that the brain examines, and rows of each list in a detail.
MAX_CLOSES, LATEST = 200, 20
# Higher than any id or time.
LAST = 2**62
# Points of a sparkline.
SUMMED_DAYS, MAX_SUMS = 30, 60
COVERAGE_NOTE = "Closes and days are evidence of volume. Coverage is not proof of profitability."


class Place(NamedTuple):
    """A row's place in a list: its time (ms) and id."""

    at: int
    id: int


class Placed(NamedTuple):
    """A JSON row and its position."""

    place: Place
    shown: Json


# ---- traders -------------------------------------------------------------------------------------
def list_traders() -> list[Json]:
    """Return every active trader, oldest first, as the API's Trader."""
    totals = _read_totals(None)
    values: dict[int, int] = defaultdict(int)
    for position in select_many(PositionRow, POSITIONS, (None,)):
        values[position.period_id] += find_value(position)
    return [
        show_trader(row, totals.get(row.period_id), values[row.period_id])
        for row in select_many(TraderRow, TRADERS + " WHERE t.retired_at IS NULL ORDER BY t.id")
    ]


def find_trader(uid: str, now: int) -> Json | None:
    """Return a Trader with its diary, positions, closes, posts and brain, newest first; None for an
    unknown ID.
    """
    row = find_row(uid)
    if row is None:
        return None
    held = _list_held(row.id)
    closes = select(CloseRow, CLOSES, (row.id, LAST, LAST, LAST, MAX_CLOSES))
    counted = select_one(TotalsRow, TOTALS, (row.id,)) or TotalsRow(0, 0, 0)
    totals = _read_totals(row.id).get(row.period_id)
    is_withheld, random = row.state in SUSPECT, list_random(row.id, row.period)
    return {
        **show_trader(row, totals, sum(map(find_value, held))),
        "periods": list(map(show_period, select(PeriodRow, PERIODS, (row.id,)))),
        "positions": [show_position(row.handle, one, now) for one in held],
        "orders": list(map(show_order, select(OrderRow, ORDERS, (row.id,)))),
        "models": show_models(),
        "closes": show_closes(row.id, row.handle, closes[:LATEST]),
        "closesTotal": counted.closes,
        "diary": [one.shown for one in list_diary(row, LATEST)],
        "diaryTotal": counted.diary,
        "posts": [one.shown for one in list_own_posts(row, LATEST)],
        "postsTotal": counted.posts,
        "metrics": None if is_withheld else show_metrics(row),
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


def _list_held(trader: int) -> list[PositionRow]:
    """List the open positions. Damaged ones are left out."""
    rows = select(PositionRow, POSITIONS, (trader,))
    return [one for one in rows if one.raw.isdecimal() and one.price.isdecimal()]


def find_row(uid: str) -> TraderRow | None:
    return select_one(TraderRow, TRADERS + " WHERE t.uid = ?", (uid,))


def list_closes(row: TraderRow, limit: int, before: Place | None = None) -> list[Placed]:
    """Return a trader's closes before a position, newest first."""
    at, ident = before or Place(LAST, LAST)
    rows = select(CloseRow, CLOSES, (row.id, at, at, ident, limit))
    shown = show_closes(row.id, row.handle, rows)
    places = [Place(one.closed_at, one.id) for one in rows]
    return list(map(Placed, places, shown))


def list_diary(row: TraderRow, limit: int, before: Place | None = None) -> list[Placed]:
    rows = select(DiaryRow, DIARY, (row.id, before.id if before else LAST, limit))
    return [Placed(Place(one.at, one.id), show_line(row.handle, one)) for one in rows]


def list_own_posts(row: TraderRow, limit: int, before: Place | None = None) -> list[Placed]:
    sql = f"{PAPER_POSTS} WHERE o.trader_id = ? AND o.id < ? ORDER BY o.id DESC LIMIT ?"
    rows = select(PaperPostRow, sql, (row.id, before.id if before else LAST, limit))
    return [Placed(Place(one.created_at, one.id), show_post(one)) for one in rows]


def show_metrics(row: TraderRow) -> Json | None:
    history = read_history(row.uid)
    return history and history.show_metrics()


def show_evidence(row: TraderRow) -> Json:
    closes = [
        read_close(str(row.id), close)
        for close in select(ComparedRow, PERIOD_CLOSES, (row.period_id,))
    ]
    return {**results.describe(closes, row.starting_cash), "simulated": True}


def _read_totals(trader_id: int | None) -> dict[int, PeriodTotalsRow]:
    return {row.period_id: row for row in select_many(PeriodTotalsRow, PERIOD_TOTALS, (trader_id,))}


def show_trader(row: TraderRow, totals: PeriodTotalsRow | None, held_value: int) -> Json:
    """`totals`: totals of its open period, None without a close; `held_value`: value of its
    positions at their marks, in lamports.
    """
    return {
        "id": row.uid,
        "handle": row.handle,
        "name": row.name,
        "bio": row.bio,
        "mode": "paper",
        "voice": read_voice(row.voice),
        "strategy": {
            "family": row.family,
            "own": row.family not in ALL_FAMILIES,
            "startMode": row.start_mode,
            "phase": show_phase(row.phase or {}),
            "adaptive": row.adaptive,
            "pipeline": PIPELINE,
            "model": MODEL,
            **_read_settings(row.family, row.settings or {}),
        },
        "performance": show_performance(
            row, totals or PeriodTotalsRow(row.period_id, 0, 0, 0), held_value
        ),
        "review": show_review(row),
        "createdAt": show_time(row.created_at),
        "retiredAt": show_time(row.retired_at),
        "simulated": True,
    }


def show_performance(row: TraderRow, totals: PeriodTotalsRow, held_value: int) -> Json:
    """`held_value`: lamports."""
    suppressed, equity = row.state in SUSPECT, row.cash + held_value
    gain, closes = equity - row.starting_cash, totals.closes
    return {
        "headlineSuppressed": suppressed,
        "warning": WARNINGS.get(row.state or ""),
        "returnPct": None if suppressed else find_percentage(gain, row.starting_cash),
        "realizedSol": None if suppressed else show_sol(totals.net - row.lost_fees),
        "cashSol": show_sol(row.cash),
        "equitySol": None if suppressed else show_sol(equity),
        "closes": closes,
        "winRate": None if suppressed or not closes else round(totals.wins / closes, 4),
        "startingCashSol": show_sol(row.starting_cash),
        "period": row.period,
        "since": show_time(row.opened_at),
    }


def show_phase(stored: Json) -> Json:
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


def show_review(row: TraderRow) -> Json:
    return {
        "state": row.state or "clean",
        "reasons": [
            {
                "code": one["code"],
                "detail": one["detail"],
                "symbol": one["symbol"],
                "at": show_time(one["at"]),
            }
            for one in row.reasons or ()
        ],
        "openedAt": show_time(row.reviewed_at),
        "decidedAt": show_time(row.decided_at),
        "decision": row.decision,
    }


def _read_settings(family: str, given: Json) -> Json:
    """Return a strategy's settings including defaults; as stored if they aren't a family's
    settings.
    """
    if family not in ALL_FAMILIES:
        # Only the job knows a file's settings.
        return {}
    try:
        return dict(show_settings(parse_settings(family, given)))
    except BadSetting:
        return given


def list_sums(now: int) -> dict[str, list[int]]:
    """Return {trader: running sums in lamports of its account's latest closes within SUMMED_DAYS
    days, starting at 0}. `now`: ms.
    """
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0])
    for row in select(RecentCloseRow, RECENT_CLOSES, (now - SUMMED_DAYS * rules.DAY_MS,)):
        sums[row.trader].append(sums[row.trader][-1] + row.net)
    return {trader: of_one[-MAX_SUMS:] for trader, of_one in sums.items()}


# ---- posts ---------------------------------------------------------------------------------------
class NumberedPost(NamedTuple):
    """A post as JSON, and its number in the order of arrival."""

    number: int
    shown: Json


def list_posts(
    limit: int, before: int | None = None, mint: str | None = None
) -> list[NumberedPost]:
    """Return posts of all traders with numbers below `before`, newest first."""
    # Without `before`, use a bound above all numbers, so the first page uses the same query.
    values: list[Any] = [2**62 if before is None else before]
    where = " WHERE o.id < ?"
    if mint:
        where += " AND o.mint = ?"
        values.append(mint)
    sql = f"{PAPER_POSTS}{where} ORDER BY o.id DESC LIMIT ?"
    return [
        NumberedPost(row.id, show_post(row)) for row in select(PaperPostRow, sql, (*values, limit))
    ]


def find_post(uid: str) -> Json | None:
    row = select_one(PaperPostRow, PAPER_POSTS + " WHERE o.uid = ?", (uid,))
    return show_post(row) if row else None


def show_post(row: PaperPostRow) -> Json:
    return {
        "id": row.uid,
        "botId": row.trader,
        "botName": row.name,
        "eventId": row.uid,
        "body": None if row.hidden_at else row.body,
        "mint": row.mint,
        "symbol": row.symbol,
        "signature": None,
        "reason": None,
        "kind": row.kind,
        "closeId": find_close_id(row.handle, row.closed),
        "family": row.family,
        "ownStrategy": row.family not in ALL_FAMILIES,
        "source": "paper",
        "simulated": True,
        "verified": False,
        "verification": {"status": "none", "tradeId": None, "checkedAt": None, "reason": None},
        "eventAt": show_time(row.event_at),
        "createdAt": show_time(row.created_at),
        "hiddenAt": show_time(row.hidden_at),
        "tokenAddresses": [row.mint] if row.mint else [],
        "provenance": {
            "channel": "paper",
            "keyId": None,
            "wallet": None,
            "ownership": None,
            "writer": row.writer,
            "contentTrust": "generated",
            "untrustedFields": ["body", "reason", "symbol"],
        },
        "receipt": None,
        "headlineSuppressed": row.state in SUSPECT,
        "warning": WARNINGS.get(row.state or ""),
    }


# ---- the comparison ------------------------------------------------------------------------------
class Compared(NamedTuple):
    """The comparison of the last 30 days, and {trader id: lower bound of its win rate}."""

    families: Json
    win_rates: dict[str, float]


_compared: tuple[Any, Compared] = (None, Compared({}, {}))


def compare_families(now: int) -> Json:
    """Describe each family's closes of the last 30 days. The order is fixed and ranks nothing."""
    return _find_compared(now).families


def find_win_rates(now: int) -> dict[str, float]:
    """Return {ID: lower bound of the 95% interval of the win rate, 0 to 1} for traders with enough
    eligible closes in 30 days. `now`: ms.
    """
    return _find_compared(now).win_rates


def _find_compared(now: int) -> Compared:
    """Recomputed after each tick, decision or minute."""
    global _compared
    key = (database.obj, *select(PaperGeneration, GENERATION)[0], now // 60_000)
    if _compared[0] != key:
        _compared = key, _compare(now)
    return _compared[1]


def _compare(now: int) -> Compared:
    closes: dict[str, list[Close]] = defaultdict(list)
    since = now - results.COMPARED_DAYS * rules.DAY_MS
    random: dict[str, list[Close]] = defaultdict(list)
    for close in select_many(ComparedRow, COMPARED, (since,)):
        side = random if close.twin else closes
        side[close.family].append(read_close(str(close.trader_id), close))
    traders = select(TraderRow, TRADERS + " WHERE t.retired_at IS NULL")
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


def _find_win_rates(traders: list[TraderRow], closes: Iterable[Close]) -> dict[str, float]:
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
    """Make the members of a Family about its own closes."""
    return results.compare(closes, _count_accounts(closes) * STARTING_CASH)


def _count_accounts(closes: list[Close]) -> int:
    return len({close.id for close in closes})


# When the recorded transactions were read.
RECORDED_AT = "2026-11-22T00:00:00.000Z"


def list_venues(now: int) -> list[Json]:
    """List the venues that the model supports, and others with receipts. `now`: ms."""
    known = {one.venue: one for one in measured_store.list_errors(now)}
    return [show_venue(venue, known.get(venue)) for venue in sorted({*VENUES, *known})]


def show_venue(venue: str, error: VenueError | None) -> Json:
    """`error`: None if there are no real fills to compare with."""
    return {
        "venue": venue,
        "receipts": error.receipts if error else 0,
        "medianErrorBps": error.median_bps if error else None,
        "p90ErrorBps": error.p90_bps if error else None,
        "p90DriftBps": error.drift_p90_bps if error else None,
        "source": error.source if error else None,
        "since": show_time(error.since) if error and error.since else None,
        "eligible": bool(error and error.is_eligible),
    }


def show_costs() -> Json:
    """Make the NetworkCosts from this instance's own receipts, or the recorded ones."""
    row = measured_store.find_costs()
    costs = row or RECORDED_COSTS
    return {
        "p50Lamports": str(costs.p50),
        "p75Lamports": str(costs.p75),
        "p90Lamports": str(costs.p90),
        "rentLamports": str((row and row.rent) or RENT),
        "receipts": row.receipts if row else measured.RECORDED_RECEIPTS,
        "source": "own" if row else "recorded",
        "measuredAt": show_time(row.at) if row else RECORDED_AT,
        "since": show_time(row.since) if row else None,
    }


class TwinRow(NamedTuple):
    """A twin's account. `worth`: what its pools would pay for its holdings, in lamports."""

    cash: int
    worth: int


OF_TWINS = "p.trader_id = ? AND p.number = ? AND p.twin > 0"
TWIN_ACCOUNTS = f"""
SELECT p.cash, COALESCE((SELECT SUM(c.worth) FROM position c
                         WHERE c.period_id = p.id AND c.closed_at IS NULL), 0) AS worth
FROM period p WHERE {OF_TWINS}"""


class FiredRow(NamedTuple):
    """A pause triggered by a rule, for a trader (0) or a twin."""

    twin: int
    facts: Facts


FIRED = """
SELECT p.twin, d.facts FROM diary_entry d JOIN period p ON p.id = d.period_id
WHERE p.trader_id = ? AND p.number = ? AND d.kind = 'pause' ORDER BY d.id"""


def show_random_entry(row: TraderRow, closes: list[Close]) -> Json | None:
    """Return the combined results of a trader's twins. `closes`: theirs."""
    accounts = select(TwinRow, TWIN_ACCOUNTS, (row.id, row.period))
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


def show_rules(row: TraderRow) -> Json:
    """Return how often each adaptive rule fired, for the trader and for a twin on average."""
    own, random = Counter[str](), Counter[str]()
    for one in select(FiredRow, FIRED, (row.id, row.period)):
        fired = one.facts.get("what") in ("begun", "observed")
        (random if one.twin else own)[one.facts.get("rule", "")] += fired
    names = [rule.name for rule in rules.RULES]
    return {
        "rulesFired": {name: own[name] for name in names},
        "rulesFiredAtRandom": {name: round(random[name] / TWINS, 2) for name in names},
    }


def list_random(trader_id: int, period: int) -> list[Close]:
    rows = select(ComparedRow, TWIN_CLOSES, (trader_id, period))
    return [read_close(str(trader_id), row) for row in rows]


def describe_random(closes: list[Close]) -> Json:
    start = _count_accounts(closes) * TWINS * STARTING_CASH
    return {**results.describe(closes, start), "simulated": True}
