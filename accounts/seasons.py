"""Seasons: the operator announces, changes and cancels them; owners join with their bots.

Each function is one short transaction that raises Problem if it refuses. `now` is UTC milliseconds.
Every change is a leaf of the log. evidence.seasons freezes the standings.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from accounts import season_standings
from accounts.acts import store_act
from accounts.fields import check_line
from accounts.problem import Problem, invalid, refuse_unknown
from accounts.season_standings import (
    ALL,
    PROVEN,
    RULES,
    SeasonRow,
    Terms,
    find_since,
    read_frozen,
    work_out,
)
from accounts.tables import Season, SeasonEntry
from chain.ledger.views import HOUR_MS
from chain.reading.currencies import CURRENCIES, map_currencies
from models import Bot
from storage import new_uid, read_rows, writing
from storage.arrivals import append_leaf

MAX_NAME, MAX_SALES, MAX_OPEN, MAX_LISTED = 60, 10_000, 20, 1_000
# How far ahead a season may start, and how long it may last.
MAX_DAYS, DAY_MS = 366, 86_400_000
# Standings freeze no later than this after the end, proven or not.
DEADLINE_MS = 3 * DAY_MS
WALLETS = (PROVEN, ALL)
DEFAULTS = {"rule": "pnl", "currency": "SOL", "wallets": PROVEN, "min_trades": "3"}
# Members of a season's leaf and evidence, and their columns.
TERMS = {
    **{name: name for name in ("name", "rule", "symbol", "decimals", "wallets")},
    **{"currency": "money", "minTrades": "min_sales"},
    **{"startsAtMs": "starts_at", "endsAtMs": "ends_at"},
}


def find_terms(season: Season) -> Terms:
    return Terms._make(getattr(season, name) for name in Terms._fields)


def show_terms(terms: Terms) -> dict[str, Any]:
    return {member: getattr(terms, column) for member, column in TERMS.items()}


def find_state(season: Season, now: int) -> str:
    """Return upcoming, running, closing (over, not frozen yet), final or cancelled."""
    if season.frozen_at is not None:
        return "final"
    if season.cancelled_at is not None:
        return "cancelled"
    if now < season.starts_at:
        return "upcoming"
    return "running" if now < season.ends_at else "closing"


def find_deadline(season: Season) -> int:
    """Return the latest time at which the standings freeze, in ms."""
    return (season.closing_at or season.ends_at) + DEADLINE_MS


# ---- the operator --------------------------------------------------------------------------------
def read_terms(given: Mapping[str, str], now: int, old: Season | None = None) -> Terms:
    """Check the texts of a form or a command: name, rule, currency, wallets, min_trades, starts_at
    and ends_at. Omitted fields default to `old`, or to DEFAULTS.
    """
    stored = list_texts(old) if old else DEFAULTS
    texts = {**stored, **given}
    for name in ("name", "starts_at", "ends_at"):
        if not texts.get(name, "").strip():
            raise invalid(name, "is required")
    currencies = map_currencies()
    money = currencies[_choose("currency", texts["currency"], currencies)]
    currency = CURRENCIES[money]
    return Terms(
        check_line("name", texts["name"], MAX_NAME),
        _choose("rule", texts["rule"], RULES),
        money,
        currency.symbol,
        currency.decimals,
        _choose("wallets", texts["wallets"], WALLETS),
        _read_count(texts["min_trades"]),
        *_read_times(texts["starts_at"], texts["ends_at"], now),
    )


def list_texts(old: Season) -> dict[str, str]:
    """Return a season's terms in the form that read_terms accepts."""
    times = {name: str(show_hour(getattr(old, name))) for name in ("starts_at", "ends_at")}
    told = {"name": old.name, "rule": old.rule, "currency": old.symbol, "wallets": old.wallets}
    return {**told, "min_trades": str(old.min_sales), **times}


def show_hour(ms: int) -> str:
    """Write a full hour as `2026-12-01T00:00Z`."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%MZ")


def _choose(field: str, text: str, allowed: Any) -> str:
    if text not in allowed:
        raise invalid(field, f"must be one of: {', '.join(allowed)}")
    return text


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
        raise invalid("ends_at", f"must be after the start, by at most {MAX_DAYS} days")
    return starts_at, ends_at


def _read_hour(field: str, text: str) -> int:
    """Read a time as RFC 3339 or without a zone (UTC), in ms."""
    told = invalid(field, "must be a full hour in UTC, such as 2026-12-01T00:00Z")
    try:
        read = datetime.fromisoformat(text.strip())
        at = read if read.tzinfo else read.replace(tzinfo=UTC)
        ms = round(at.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise told from None
    if ms % HOUR_MS:
        raise told
    return ms


def create_season(given: Mapping[str, str], who: str, now: int) -> Season:
    """Announce a season; `given` as for read_terms."""
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
    """Change a season that hasn't started. Return False if nothing differs."""
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
    """Cancel a season that isn't final. Return False if it already was canceled."""
    with writing():
        season = find_season(uid)
        if season.frozen_at is not None:
            raise Problem("season_closed", "the standings of this season are final")
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
    """Let a bot take part. Return False if it already does."""
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
        return season_standings.is_entrant(read_rows, season.id, find_terms(season), bot_id)
    same = SeasonEntry.season == season, SeasonEntry.bot == bot_id
    return bool(SeasonEntry.select().where(*same).exists())


# ---- readers -------------------------------------------------------------------------------------
def find_season(uid: str) -> Season:
    """Return the season with this id. Raises Problem `not_found`."""
    found: Season | None = Season.get_or_none(Season.uid == uid)
    return found or refuse_unknown("season")


def _are_open() -> tuple[Any, Any]:
    return Season.cancelled_at.is_null(), Season.frozen_at.is_null()


def list_open() -> list[Season]:
    """List the seasons that are neither frozen nor canceled, in order of their end."""
    return list(Season.select().where(*_are_open()).order_by(Season.ends_at, Season.id))


def list_seasons(limit: int = MAX_LISTED, before: int | None = None) -> list[Season]:
    """List seasons, newest first. `before`: only those with a lower id."""
    found = Season.select().order_by(Season.id.desc()).limit(limit)
    return list(found.where(Season.id < before) if before is not None else found)


def list_standings(season: Season, now: int) -> list[SeasonRow]:
    """Return the standings, best first: frozen, or current; none if canceled."""
    if season.frozen_at is not None:
        return read_frozen(read_rows, season.id, season.rule)
    if season.cancelled_at is not None:
        return []
    return work_out(read_rows, season.id, find_terms(season), now)


def count_entrants(season: Season, now: int) -> int:
    """Return how many bots take part, or would if the season began now; 0 once canceled."""
    if season.frozen_at is not None:
        return int(SeasonEntry.select().where(SeasonEntry.season == season).count())
    if season.cancelled_at is not None:
        return 0
    terms = find_terms(season)
    return season_standings.count_entrants(read_rows, season.id, terms, now)


BADGES = """
SELECT s.uid, s.name, s.ends_at, e.rank
FROM season s LEFT JOIN season_entry e ON e.season_id = s.id AND e.bot_id = ?
WHERE s.starts_at <= ? AND (e.rank IS NOT NULL OR (
    s.cancelled_at IS NULL AND s.frozen_at IS NULL AND (e.bot_id IS NOT NULL OR EXISTS (
        SELECT 1 FROM attachment a WHERE a.bot_id = ? AND a.attached_at <= s.starts_at
        AND (a.detached_at IS NULL OR a.detached_at > s.starts_at)))))
ORDER BY s.ends_at DESC, s.id DESC LIMIT 6"""


def list_badges(bot_id: int, now: int) -> list[dict[str, Any]]:
    """List a bot's latest seasons: those with a final rank, and those it takes part in."""
    names = ("uid", "name", "ends_at", "rank")
    found = read_rows(BADGES, (bot_id, now, bot_id))
    return [dict(zip(names, row, strict=True)) for row in found]
