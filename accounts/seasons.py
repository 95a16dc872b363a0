"""Seasons: the operator announces, changes and cancels them; owners join with their bots.

A change is one short transaction, which adds a leaf to the log, or raises Problem if the change
isn't allowed. evidence.seasons freezes the standings. Times are UTC milliseconds. Amounts are raw
units of the season's currency.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import storage
from accounts.acts import store_act
from accounts.fields import check_choice, check_line, parse_moment
from accounts.problem import Problem, invalid, refuse_unknown
from accounts.tables import Season, SeasonEntry
from chain.ledger.inventory import SOL
from chain.ledger.totals import HOUR_MS, NOTHING, Sums
from chain.reading.currencies import CURRENCIES, map_currencies
from chain.stored.attachments import OF_RECORD, read_totals
from chain.stored.derived import read_coverage
from models import Bot
from storage import Rows, new_uid, read_rows, writing
from storage.log import append_leaf
from storage.rows import read

MAX_NAME, MAX_SALES, MAX_OPEN, MAX_LISTED = 60, 10_000, 20, 1_000
# How far ahead a season may start, and how long it may last, in days.
MAX_DAYS, DAY_MS = 366, 86_400_000
# Standings freeze this long after the end at the latest, whether or not they are proven.
DEADLINE_MS = 3 * DAY_MS
# Ranking criteria and their sort columns.
RULES = {"pnl": "realized", "return": "return_points", "pnl_floor": "worst_case"}
PROVEN, ALL = "proven", "all"
# Why a history doesn't prove a result, worst first.
UNPROVEN = ("not_observed", "backfilling", "gap")
WALLETS = (PROVEN, ALL)
DEFAULTS = {"rule": "pnl", "currency": "SOL", "wallets": PROVEN, "min_trades": "3"}
# Members of a season's leaf and evidence, and their columns.
TERMS = {
    **{name: name for name in ("name", "rule", "symbol", "decimals", "wallets")},
    **{"currency": "money", "minTrades": "min_sales"},
    **{"startsAtMs": "starts_at", "endsAtMs": "ends_at"},
}


class Terms(NamedTuple):
    name: str
    rule: str
    money: str
    symbol: str
    decimals: int
    wallets: str
    min_sales: int
    starts_at: int
    ends_at: int

    @property
    def min_cost(self) -> int:
        """Cost basis required for a rank by return: 1 SOL, or 100 of a stablecoin."""
        return int(10**self.decimals) * (1 if self.money == SOL else 100)


class SeasonRow(NamedTuple):
    """A bot's row.

    Numbers are None before the season starts, and after the freeze if they are unproven. `since` is
    when the bot's results begin to count. `sales` are those with a known cost. `reason` is why it
    has no rank.
    """

    bot: int
    joined_at: int | None
    since: int
    ownership: str | None
    reason: str | None
    rank: int | None = None
    realized: int | None = None
    cost: int | None = None
    return_points: int | None = None
    worst_case: int | None = None
    sales: int | None = None
    trades: int | None = None

    @property
    def is_unproven(self) -> bool:
        return self.reason in UNPROVEN


class Place(NamedTuple):
    """Ranked rows come first, best first. In a tie, the older bot comes first."""

    group: int
    score: int
    bot: int


def find_place(rule: str, row: SeasonRow) -> Place:
    if row.reason:
        return Place(1, 0, row.bot)
    return Place(0, -getattr(row, RULES[rule]), row.bot)


def rank(rule: str, rows: Iterable[SeasonRow]) -> list[SeasonRow]:
    """Rank rows without a reason. Bots with equal results share a rank."""
    listed, best = sorted(rows, key=lambda row: find_place(rule, row)), dict[int | None, int]()
    for place, row in enumerate(listed, 1):
        best.setdefault(getattr(row, RULES[rule]), place)
    return [
        row._replace(rank=None if row.reason else best[getattr(row, RULES[rule])]) for row in listed
    ]


def measure(terms: Terms, sums: Sums) -> dict[str, int | None]:
    """A return below the cost required for a rank is None, because it could overflow its column."""
    is_enough = sums.cost >= terms.min_cost
    return {
        "realized": sums.realized,
        "cost": sums.cost,
        "return_points": sums.return_points if is_enough else None,
        "worst_case": sums.worst_case,
        "sales": sums.matched + sums.partial,
        "trades": sums.trades,
    }


def find_reason(terms: Terms, ownership: str | None, sums: Sums) -> str | None:
    if ownership is None:
        return "no_wallet"
    if terms.wallets == PROVEN and ownership != PROVEN:
        return "not_proven"
    if sums.matched + sums.partial < terms.min_sales:
        return "too_few_sells"
    if terms.rule == "return" and sums.cost < terms.min_cost:
        return "too_little_cost"
    return None


def find_terms(season: Season) -> Terms:
    return Terms._make(getattr(season, name) for name in Terms._fields)


def show_terms(terms: Terms) -> dict[str, Any]:
    return {member: getattr(terms, column) for member, column in TERMS.items()}


def find_state(season: Season, now: int) -> str:
    """Return upcoming, running, closing (over, but not frozen yet), final or cancelled."""
    if season.frozen_at is not None:
        return "final"
    if season.cancelled_at is not None:
        return "cancelled"
    if now < season.starts_at:
        return "upcoming"
    return "running" if now < season.ends_at else "closing"


def find_deadline(season: Season) -> int:
    return (season.closing_at or season.ends_at) + DEADLINE_MS


# ---- the operator --------------------------------------------------------------------------------
def read_terms(given: Mapping[str, str], now: int, old: Season | None = None) -> Terms:
    """Check the texts of a form or a command.

    The fields are name, rule, currency, wallets, min_trades, starts_at and ends_at. Omitted fields
    default to `old`, or to DEFAULTS.
    """
    stored = list_texts(old) if old else DEFAULTS
    texts = {**stored, **given}
    for name in ("name", "starts_at", "ends_at"):
        if not texts.get(name, "").strip():
            raise invalid(name, "is required")
    currencies = map_currencies()
    money = currencies[check_choice("currency", texts["currency"], currencies)]
    currency = CURRENCIES[money]
    return Terms(
        check_line("name", texts["name"], MAX_NAME),
        check_choice("rule", texts["rule"], RULES),
        money,
        currency.symbol,
        currency.decimals,
        check_choice("wallets", texts["wallets"], WALLETS),
        _read_count(texts["min_trades"]),
        *_read_times(texts["starts_at"], texts["ends_at"], now),
    )


def list_texts(old: Season) -> dict[str, str]:
    times = {name: str(show_hour(getattr(old, name))) for name in ("starts_at", "ends_at")}
    told = {"name": old.name, "rule": old.rule, "currency": old.symbol, "wallets": old.wallets}
    return {**told, "min_trades": str(old.min_sales), **times}


def show_hour(ms: int) -> str:
    """Write a full hour as `2026-12-01T00:00Z`."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%MZ")


def _read_count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= MAX_SALES:
        raise invalid("min_trades", f"must be a whole number from 1 to {MAX_SALES}")
    return int(text)


def _read_times(starts: str, ends: str, now: int) -> tuple[int, int]:
    starts_at, ends_at = _read_hour("starts_at", starts), _read_hour("ends_at", ends)
    if starts_at < now:
        raise invalid("starts_at", "must not be in the past")
    if starts_at > now + MAX_DAYS * DAY_MS:
        raise invalid("starts_at", f"must be within {MAX_DAYS} days from now")
    if not 0 < ends_at - starts_at <= MAX_DAYS * DAY_MS:
        raise invalid("ends_at", f"must be after the season starts, by at most {MAX_DAYS} days")
    return starts_at, ends_at


def _read_hour(field: str, text: str) -> int:
    ms = parse_moment(text)
    if ms is None or ms % HOUR_MS:
        raise invalid(field, "must be a full hour in UTC, such as 2026-12-01T00:00Z")
    return ms


def create_season(given: Mapping[str, str], who: str, now: int) -> Season:
    terms = read_terms(given, now)
    with writing():
        if Season.select().where(*_are_open()).count() >= MAX_OPEN:
            told = f"{MAX_OPEN} seasons aren't over yet; cancel one first"
            raise Problem("validation_failed", told)
        season: Season = Season.create(uid=new_uid("season"), created_at=now, **terms._asdict())
        _log(season, "open", now)
        store_act("create_season", who, now, season.uid)
    return season


def change_season(uid: str, given: Mapping[str, str], who: str, reason: str, now: int) -> bool:
    with writing():
        season = find_season(uid)
        if find_state(season, now) != "upcoming":
            raise Problem("season_closed", "only a season that hasn't started can be changed")
        terms = read_terms(given, now, season)
        if terms == find_terms(season):
            return False
        Season.update(**terms._asdict()).where(Season.id == season.id).execute()
        _log(find_season(uid), "open", now)
        store_act("change_season", who, now, uid, reason)
    return True


def cancel_season(uid: str, who: str, reason: str, now: int) -> bool:
    with writing():
        season = find_season(uid)
        if season.frozen_at is not None:
            raise Problem("season_closed", "this season's standings are final")
        if season.cancelled_at is not None:
            return False
        Season.update(cancelled_at=now).where(Season.id == season.id).execute()
        _log(season, "cancelled", now)
        store_act("cancel_season", who, now, uid, reason)
    return True


def _log(season: Season, state: str, now: int) -> None:
    append_leaf("season", now, season=season.uid, state=state, **show_terms(find_terms(season)))


# ---- owners --------------------------------------------------------------------------------------
def join(uid: str, bot: Bot, now: int) -> bool:
    """Return False if the bot already takes part."""
    with writing():
        season = find_season(uid)
        if find_state(season, now) not in ("upcoming", "running"):
            raise Problem("season_closed", "this season is over or canceled")
        if Bot.select().where(Bot.id == bot.id, Bot.retired_at.is_null(False)).exists():
            raise Problem("bot_retired", "a retired bot cannot join a season")
        if is_entrant(season, bot.id, now):
            return False
        if find_since(find_terms(season), now) >= season.ends_at:
            told = "too late: results count from the next full hour, which is when the season ends"
            raise Problem("season_closed", told)
        SeasonEntry.create(season=season, bot=bot, joined_at=now)
        append_leaf("season_entry", now, season=uid, bot=bot.uid)
    return True


def is_entrant(season: Season, bot_id: int, now: int) -> bool:
    """Whether a bot certainly takes part: it joined, or had a wallet at the start."""
    if now >= season.starts_at:
        return _count_entrants(season, season.starts_at, bot_id) > 0
    same = SeasonEntry.season == season, SeasonEntry.bot == bot_id
    return bool(SeasonEntry.select().where(*same).exists())


def _count_entrants(season: Season, at: int, bot_id: int | None = None) -> int:
    """Count bots that joined or had a wallet. `at` must not be later than the start."""
    sql = COUNT if bot_id is None else f"{COUNT} AND b.id = {bot_id}"
    ((count,),) = read_rows(sql.format(season=season.id, at=at))
    return int(count)


# ---- readers -------------------------------------------------------------------------------------
def find_season(uid: str) -> Season:
    found: Season | None = Season.get_or_none(Season.uid == uid)
    return found or refuse_unknown("season")


def _are_open() -> tuple[Any, Any]:
    return Season.cancelled_at.is_null(), Season.frozen_at.is_null()


def list_open() -> list[Season]:
    return list(Season.select().where(*_are_open()).order_by(Season.ends_at, Season.id))


def list_seasons(limit: int = MAX_LISTED, before: int | None = None) -> list[Season]:
    found = Season.select().order_by(Season.id.desc()).limit(limit)
    return list(found.where(Season.id < before) if before is not None else found)


def list_standings(season: Season, now: int) -> list[SeasonRow]:
    """Return current or frozen standings, best first, or none if the season was canceled."""
    if season.frozen_at is not None:
        return read_frozen(read_rows, season.id, season.rule)
    if season.cancelled_at is not None:
        return []
    return work_out(read_rows, season.id, find_terms(season), now)


def count_entrants(season: Season, now: int) -> int:
    """Return how many bots take part, or would if the season began now; 0 once it is canceled."""
    if season.frozen_at is not None:
        return int(SeasonEntry.select().where(SeasonEntry.season == season).count())
    if season.cancelled_at is not None:
        return 0
    return _count_entrants(season, min(now, season.starts_at))


BADGES = """
SELECT s.uid, s.name, s.ends_at, e.rank
FROM season s LEFT JOIN season_entry e ON e.season_id = s.id AND e.bot_id = ?
WHERE s.starts_at <= ? AND (e.rank IS NOT NULL OR (
    s.cancelled_at IS NULL AND s.frozen_at IS NULL AND (e.bot_id IS NOT NULL OR EXISTS (
        SELECT 1 FROM attachment a WHERE a.bot_id = ? AND a.attached_at <= s.starts_at
        AND (a.detached_at IS NULL OR a.detached_at > s.starts_at)))))
ORDER BY s.ends_at DESC, s.id DESC LIMIT 6"""


def list_badges(bot_id: int, now: int) -> list[Any]:
    """List the seasons that a bot takes part in, or in which it has a final rank."""
    return read(BADGES, (bot_id, now, bot_id))


# ---- who takes part ------------------------------------------------------------------------------
# Bots that have a wallet when the season starts, and those that joined. {at} is the start, or now
# if that is earlier.
IS_ENTRANT = """(e.bot_id IS NOT NULL OR EXISTS (
    SELECT 1 FROM attachment s WHERE s.bot_id = b.id AND s.attached_at <= {at}
    AND (s.detached_at IS NULL OR s.detached_at > {at})))"""
ENTRANTS = """
FROM bot b LEFT JOIN season_entry e ON e.bot_id = b.id AND e.season_id = {season}"""
COUNT = f"SELECT COUNT(*) {ENTRANTS} WHERE {IS_ENTRANT}"
HOLDINGS = f"""
SELECT b.id, e.joined_at, CASE WHEN x.target IS NULL THEN 0 ELSE 1 END, a.ownership, a.attached_at,
       a.detached_at, a.forward_realized, w.coverage, w.observed_to,
       CASE WHEN w.closing_at IS NULL AND NOT EXISTS (
           SELECT 1 FROM attachment h WHERE h.wallet_id = w.id AND h.detached_at IS NULL)
       THEN 1 ELSE 0 END
{ENTRANTS}
JOIN owner o ON o.id = b.owner_id LEFT JOIN ban x ON x.kind = 'owner' AND x.target = o.uid
LEFT JOIN attachment a ON a.bot_id = b.id AND a.attached_at < {{ends}}
    AND (a.detached_at IS NULL OR a.detached_at > {{at}})
LEFT JOIN wallet w ON w.id = a.wallet_id
WHERE {IS_ENTRANT} ORDER BY b.id"""


class Holding(NamedTuple):
    """One of an entrant's wallets during the season, or no wallet.

    `is_closed` means that no bot has it and all its activity was observed.
    """

    bot: int
    joined_at: int | None
    is_banned: int
    ownership: str | None
    attached_at: int | None
    detached_at: int | None
    forward_realized: int | None
    coverage: str | None
    observed_to: int | None
    is_closed: int


def _list_entrants(rows: Rows, season: int, terms: Terms, now: int) -> Iterator[SeasonRow]:
    """Yield rows without numbers. Their `reason` rules out a rank regardless of results."""
    at = min(now, terms.starts_at)
    sql = HOLDINGS.format(season=season, at=at, ends=terms.ends_at)
    for _, found in groupby(map(Holding._make, rows(sql)), attrgetter("bot")):
        yield _make_entrant(terms, at, now, list(found))


def _make_entrant(terms: Terms, at: int, now: int, found: Sequence[Holding]) -> SeasonRow:
    first, held = found[0], [one for one in found if one.attached_at is not None]
    # A wallet that was disconnected when the season started has no time in the season.
    since = terms.starts_at
    if not any((one.attached_at or 0) <= at for one in held):
        since = find_since(terms, first.joined_at)
    proven = all(one.ownership == PROVEN for one in held)
    ownership = (PROVEN if proven else "claimed") if held else None
    problems = {_find_problem(terms, one, now) for one in held}
    reason = next((one for one in UNPROVEN if one in problems), None)
    if now < terms.starts_at:
        reason = "not_started"
    return SeasonRow(
        first.bot, first.joined_at, since, ownership, "excluded" if first.is_banned else reason
    )


def find_since(terms: Terms, joined_at: int | None) -> int:
    """The results of a bot that joined count from the next full hour."""
    if joined_at is None or joined_at <= terms.starts_at:
        return terms.starts_at
    return -(-joined_at // HOUR_MS) * HOUR_MS


def _find_problem(terms: Terms, one: Holding, now: int) -> str | None:
    coverage = read_coverage(one.coverage)
    if one.forward_realized is None or coverage["state"] == "none":
        return "not_observed"
    is_over = now >= terms.ends_at
    if coverage["state"] == "backfilling" or (is_over and coverage["pending"]):
        return "backfilling"
    if coverage["gaps"]:
        return "gap"
    until = min(terms.ends_at, one.detached_at or terms.ends_at)
    is_seen = one.is_closed or (one.observed_to or 0) * 1000 >= until
    return "not_observed" if is_over and not is_seen else None


# ---- standings -----------------------------------------------------------------------------------
def read_sums(rows: Rows, terms: Terms, since: Mapping[int, int]) -> dict[int, Sums]:
    ends, begun = _read(rows, terms, terms.ends_at, since), dict[int, Sums]()
    by_hour: dict[int, list[int]] = defaultdict(list)
    for bot, begins_at in since.items():
        by_hour[begins_at].append(bot)
    for begins_at, bots in by_hour.items():
        begun |= _read(rows, terms, begins_at, bots)
    return {bot: ends.get(bot, NOTHING).minus(begun.get(bot, NOTHING)) for bot in since}


def _read(rows: Rows, terms: Terms, until: int, bots: Iterable[int]) -> dict[int, Sums]:
    found: dict[int, Sums] = {}
    for part in storage.in_parts(bots):
        told = read_totals(rows, OF_RECORD, part, [terms.money], until // HOUR_MS)
        found |= {bot: sums for (bot, _), sums in told.items()}
    return found


def work_out(rows: Rows, season: int, terms: Terms, now: int) -> list[SeasonRow]:
    entrants = list(_list_entrants(rows, season, terms, now))
    is_begun = now >= terms.starts_at
    sums = read_sums(rows, terms, {one.bot: one.since for one in entrants}) if is_begun else {}
    return rank(terms.rule, (_measure_row(terms, one, sums.get(one.bot)) for one in entrants))


def _measure_row(terms: Terms, row: SeasonRow, sums: Sums | None) -> SeasonRow:
    numbers: dict[str, Any] = measure(terms, sums) if sums else {}
    settled = find_reason(terms, row.ownership, sums or NOTHING)
    # If the bot can't be ranked anyway, its results don't need proof.
    is_moot = row.is_unproven and settled in ("no_wallet", "not_proven")
    return row._replace(reason=settled if is_moot else row.reason or settled, **numbers)


FROZEN = f"""
SELECT {", ".join(("bot_id", *SeasonRow._fields[1:]))} FROM season_entry
WHERE season_id = {{season}} AND since IS NOT NULL"""


def read_frozen(rows: Rows, season: int, rule: str) -> list[SeasonRow]:
    """Return frozen standings, best first. Before the freeze, return the rows proven so far."""
    found = map(SeasonRow._make, rows(FROZEN.format(season=season)))
    return sorted(found, key=lambda row: find_place(rule, row))
