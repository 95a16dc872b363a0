"""Freeze seasons' standings, log them, and compare them with the log and an auditor's books."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from accounts.seasons import (
    TERMS,
    UNPROVEN,
    SeasonRow,
    Terms,
    find_deadline,
    find_reason,
    find_since,
    find_terms,
    list_open,
    measure,
    rank,
    read_frozen,
    read_sums,
    show_terms,
    work_out,
)
from accounts.tables import Season, SeasonEntry
from chain.reading.currencies import list_added
from chain.reading.entries import READING
from chain.reading.programs import table
from chain.stored.store import name_rules
from config import Config
from evidence.audited_log import Said
from evidence.claimed import show_row, show_values
from evidence.claims import ClaimedSeason, ClaimedTerms
from evidence.differences import Difference, compare
from evidence.leaves import HeldWallets
from evidence.lines import Json, name_member
from models import Bot
from storage import Rows, read_rows, write_rows, writing
from storage.log import append_leaf

# Standings freeze at the earliest this long after the season ends, so that a clock that jumped was
# corrected by then.
SETTLE_MS = 5 * 60_000
# A bot whose history covers the season keeps its results at the deadline, even if later
# transactions are still being fetched.
PASSING = ("not_observed", "backfilling")
NUMBERS = ("realized", "cost", "return_points", "worst_case", "sales", "trades")


# ---- freezing ------------------------------------------------------------------------------------
def run_tick(config: Config, now: int) -> tuple[None, None]:
    """Freeze the standings of each season that is over, once every history covers the season."""
    for season in list_open():
        if now < season.ends_at:
            # The season was marked as closing while the clock was ahead.
            _note_closing(season, None)
        elif season.closing_at is None or season.closing_at > now:
            _note_closing(season, now)
        elif now >= season.closing_at + SETTLE_MS:
            programs = table(config.extra_swap_programs, config.added_programs)
            _freeze(season.id, name_reading(name_rules(programs, list_added())), now)
    return None, None


def name_reading(rules: str, reading: int = READING) -> str:
    return f"{reading}/{rules}"


def _note_closing(season: Season, closing_at: int | None) -> None:
    if season.closing_at != closing_at:
        with writing():
            Season.update(closing_at=closing_at).where(Season.id == season.id).execute()


def _freeze(number: int, rules: str, now: int) -> None:
    with writing():
        season = Season.get_by_id(number)
        terms = find_terms(season)
        # Since it was listed, the season may have been canceled, or frozen by another instance.
        if season.cancelled_at is not None or season.frozen_at is not None:
            return
        rows = work_out(read_rows, number, terms, now)
        kept = {row.bot: row for row in read_frozen(read_rows, number, terms.rule)}
        if any(row.is_unproven for row in rows) and now < find_deadline(season):
            proven = [row._replace(rank=None) for row in rows if not row.reason]
            _store(number, (row for row in proven if row != kept.get(row.bot)))
            return
        found = [kept.get(row.bot, row) if row.reason in PASSING else row for row in rows]
        frozen = rank(terms.rule, map(_drop_unproven, found))
        _store(number, frozen)
        uids = {bot.id: bot.uid for bot in Bot.select(Bot.id, Bot.uid)}
        for row in frozen:
            told = {"season": season.uid, "bot": uids[row.bot], **show_row(row, "bot")}
            append_leaf("standing", now, **told)
        told = {"state": "final", "rules": rules, "count": len(frozen), **show_terms(terms)}
        append_leaf("season", now, season=season.uid, **told)
        Season.update(frozen_at=now, rules=rules).where(Season.id == number).execute()


def _store(number: int, rows: Iterable[SeasonRow]) -> None:
    stored = [{**row._asdict(), "season": number} for row in rows]
    write_rows(SeasonEntry, stored, ("season", "bot"))


def _drop_unproven(row: SeasonRow) -> SeasonRow:
    numbers: dict[str, Any] = dict.fromkeys(NUMBERS)
    return row._replace(**numbers) if row.is_unproven else row


# ---- against the log -----------------------------------------------------------------------------
def compare_seasons(
    seasons: Mapping[str, ClaimedSeason],
    bot: str,
    held: HeldWallets,
    said: Iterable[Said],
    before: int,
) -> Iterator[Difference]:
    """Compare frozen rows and ranks with all leaves about seasons (`said`)."""
    logged: dict[str, list[Said]] = {}
    for one in said:
        logged.setdefault(str(one.leaf.get("season")), []).append(one)
    for uid, claim in seasons.items():
        yield from _compare_season(claim, bot, uid, held, logged.get(uid, []))
    for uid in sorted(logged.keys() - seasons.keys()):
        final = [one for one in logged[uid] if one.leaf.get("state") == "final"]
        if not final or final[0].place >= before:
            continue
        if any(one.leaf.get("bot") == bot for one in logged[uid]):
            yield Difference(None, f"seasons.{uid}", None, "it is logged")
        elif _is_held_at(held, final[0].leaf.get("startsAtMs")):
            held_then = "it had a wallet when the season started"
            yield Difference(None, f"seasons.{uid}", None, held_then)


def _compare_season(
    claim: ClaimedSeason, bot: str, uid: str, held: HeldWallets, said: list[Said]
) -> Iterator[Difference]:
    where = f"seasons.{uid}"
    final = [one.leaf for one in said if one.leaf.get("state") == "final"]
    rows = {str(one.leaf.get("bot")): one.leaf for one in said if one.leaf["kind"] == "standing"}
    if len(final) != 1 or bot not in rows:
        yield Difference(None, where, claim.standing.get("rank"), "not in the log")
        return
    (leaf,) = final
    theirs = {**claim.terms.model_dump(), "frozenAtMs": claim.frozenAtMs, "rules": claim.rules}
    ours = {name: leaf.get("at" if name == "frozenAtMs" else name) for name in theirs}
    yield from compare(theirs, ours, f"{where}.terms")
    standing = {name: rows[bot].get(name) for name in claim.standing}
    standing["rank"] = _rank_logged(str(leaf.get("rule")), rows).get(bot)
    standing["since"] = str(_find_since_logged(claim, bot, held, said))
    yield from compare(claim.standing, standing, f"{where}.standing")


def _find_since_logged(
    claim: ClaimedSeason, bot: str, held: HeldWallets, said: Iterable[Said]
) -> int:
    terms = find_claimed(claim.terms)
    if _is_held_at(held, terms.starts_at):
        return terms.starts_at
    entries = [
        one.leaf.get("at")
        for one in said
        if one.leaf["kind"] == "season_entry" and one.leaf.get("bot") == bot
    ]
    return find_since(terms, entries[0] if entries else None)


def _rank_logged(rule: str, rows: Mapping[str, Json]) -> dict[str, str | None]:
    uids = list(rows)
    try:
        made = [_read_logged(number, rows[uid]) for number, uid in enumerate(uids)]
        return {uids[row.bot]: str(row.rank) if row.rank else None for row in rank(rule, made)}
    except (KeyError, TypeError, ValueError):
        return {}


def _read_logged(number: int, leaf: Json) -> SeasonRow:
    told = {name: leaf[name_member(name)] for name in NUMBERS}
    numbers = {name: None if text is None else int(text) for name, text in told.items()}
    return SeasonRow(number, None, 0, None, leaf["reason"], **numbers)


def _is_held_at(held: HeldWallets, at: Any) -> bool:
    return isinstance(at, int) and any(one.covers(at) for spans in held.values() for one in spans)


# ---- against an auditor's books ------------------------------------------------------------------
def recompute_season(rows: Rows, bot: int, uid: str, claim: ClaimedSeason) -> Iterator[Difference]:
    terms, told = find_claimed(claim.terms), claim.standing
    reason, since = told.get("reason"), told.get("since") or ""
    if reason in UNPROVEN or not since.isdecimal():
        # Nothing is claimed, or nothing that the log could contain.
        return
    sums = read_sums(rows, terms, {bot: int(since)})[bot]
    ours: Json = show_values(measure(terms, sums))
    if reason not in ("excluded", "not_proven", "no_wallet"):
        ours["reason"] = find_reason(terms, told.get("ownership"), sums)
    yield from compare({name: told.get(name) for name in ours}, ours, f"seasons.{uid}.standing")


def find_claimed(claim: ClaimedTerms) -> Terms:
    return Terms(**{column: getattr(claim, member) for member, column in TERMS.items()})
