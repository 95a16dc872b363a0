"""Who earned, traded or moved most: the rules of ranking over totals that were observed."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from web.api import queries
from web.api.queries import Totals
from web.api.serialize import (
    PROVEN_BY_ANOTHER,
    READING_AGAIN,
    show_coverage,
    show_lamports,
    show_sol,
)
from web.api.statements import CompetitorRow

SORTS = ("pnl", "pnl_floor", "volume", "trades")
# Sorts by a result, which needs a history without gaps.
BY_RESULT = ("pnl", "pnl_floor")
# seconds
WINDOWS = {"24h": 86_400, "7d": 604_800, "30d": 2_592_000, "all": None}
# below this, a realized result is luck
MIN_SELLS = 3


@dataclass(frozen=True)
class Entry:
    """One bot on the board; `totals` is None without an observed wallet."""

    bot: str
    name: str
    handle: str
    address: str | None
    totals: Totals | None
    # known cost that left without a sale, in lamports; None until it was summed
    cost_left: int | None
    # JSON
    coverage: str | None
    # why it has no rank
    reason: str | None
    # claimed | proven; None without a wallet
    ownership: str | None


def list_entries(sort: str, window: str, now: int) -> list[Entry]:
    """Return ranked entries, then the others; in both the proven wallets first, the best first.

    `now` in UTC milliseconds.
    """
    seconds = WINDOWS[window]
    since = None if seconds is None else queries.find_totals_since(now // 1000 - seconds)
    entries = [make_entry(row, since, sort) for row in queries.list_competitors()]
    # stable: then the older bot
    return sorted(
        entries, key=lambda entry: (*_group(entry), entry.totals is None, -score(entry, sort))
    )


def _group(entry: Entry) -> tuple[bool, bool]:
    return entry.reason is not None, entry.ownership != "proven"


def make_entry(row: CompetitorRow, since: dict[int, Totals] | None, sort: str) -> Entry:
    """Rank one bot. `since`: totals of a window by wallet id, or None for all that was ever
    observed (the wallet's own results).
    """
    claim = row.since is not None
    totals = None if claim else find_totals(row, since)
    cost_left = totals.cost_left if totals and is_summed(row) else None
    reason = PROVEN_BY_ANOTHER if claim else check_rank(sort, row, totals, cost_left)
    return Entry(
        row.uid,
        row.name,
        row.handle,
        row.address,
        totals,
        cost_left,
        row.coverage,
        reason,
        row.ownership,
    )


def is_summed(row: CompetitorRow) -> bool:
    """Were the bot's transactions read since the cost that left is summed?"""
    return orjson.loads(row.results or "{}").get("costLeftLamports") is not None


def find_totals(row: CompetitorRow, since: dict[int, Totals] | None) -> Totals | None:
    """Return what the bot's wallet did, None without an observed wallet."""
    if row.results is None or row.wallet_id is None:
        return None
    if since is None:
        return parse_results(orjson.loads(row.results))
    return since.get(row.wallet_id, Totals())


def parse_results(results: dict[str, Any]) -> Totals:
    """Return the all-time totals out of a wallet's stored results."""
    return Totals(
        int(results["realizedLamports"]),
        int(results["volumeLamports"]),
        results["observedTrades"],
        results["matchedSells"],
        results["partialSells"],
        results["unmatchedSells"],
        results["winningSells"],
        int(results.get("costLeftLamports") or 0),
    )


def check_rank(
    sort: str, row: CompetitorRow, totals: Totals | None, cost_left: int | None
) -> str | None:
    """Tell why an entry has no rank, or None."""
    if row.address is None:
        return "no_wallet"
    if totals is None:
        return "not_observed"
    if sort in BY_RESULT and totals.matched + totals.partial < MIN_SELLS:
        return "too_few_sells"
    if sort in BY_RESULT and row.coverage and orjson.loads(row.coverage)["gaps"]:
        return "open_gap"
    if sort == "pnl_floor" and cost_left is None:
        return READING_AGAIN
    return None


def score(entry: Entry, sort: str) -> int:
    """Return the number the board is sorted by, in lamports or a count."""
    totals = entry.totals or Totals()
    return {
        "pnl": totals.realized,
        "pnl_floor": totals.realized - totals.cost_left,
        "volume": totals.volume,
        "trades": totals.trades,
    }[sort]


def show_entries(entries: Sequence[Entry], sort: str) -> list[dict[str, Any]]:
    """Make JSON rows. Proven and claimed wallets are ranked apart; ties share the first's rank."""
    shown = []
    for _, group in itertools.groupby(entries, _group):
        rank: int | None = None
        last: int | None = None
        for place, entry in enumerate(group, 1):
            if score(entry, sort) != last:
                rank, last = place, score(entry, sort)
            shown.append(show_entry(entry, None if entry.reason else rank))
    return shown


def show_entry(entry: Entry, rank: int | None) -> dict[str, Any]:
    """Make the LeaderboardEntry; `rank` is null without a result to rank by."""
    totals = entry.totals
    sells = totals.matched + totals.partial if totals else 0
    return {
        "rank": rank,
        "botId": entry.bot,
        "name": entry.name,
        "handle": entry.handle,
        "wallet": entry.address,
        "ownership": entry.ownership,
        "realizedLamports": totals and show_lamports(totals.realized),
        "realizedSol": totals and show_sol(totals.realized),
        "costLeftLamports": show_lamports(entry.cost_left),
        "volumeLamports": totals and show_lamports(totals.volume),
        "volumeSol": totals and show_sol(totals.volume),
        "observedTrades": totals and totals.trades,
        "matchedSells": totals and totals.matched,
        "partialSells": totals and totals.partial,
        "unmatchedSells": totals and totals.unmatched,
        # a share, no money: a number
        "winRate": round(totals.winning / sells, 4) if totals and sells else None,
        "ranked": entry.reason is None,
        "unrankedReason": entry.reason,
        "coverage": show_coverage(entry.address, entry.coverage),
    }
