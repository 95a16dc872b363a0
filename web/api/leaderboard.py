"""Who earned, traded or moved most: the rules of ranking over totals that were observed."""

import itertools
from dataclasses import dataclass

import orjson

from web.api import queries
from web.api.serialize import PROVEN_BY_ANOTHER, show_coverage, show_lamports, show_sol

SORTS = ("pnl", "volume", "trades")
# seconds
WINDOWS = {"24h": 86_400, "7d": 604_800, "30d": 2_592_000, "all": None}
# below, a realised result is luck
MIN_SELLS = 3


@dataclass(frozen=True)
class Totals:
    """What a wallet did in a window: lamports and counts. `winning`: sells with a result above 0."""

    realized: int = 0
    volume: int = 0
    trades: int = 0
    matched: int = 0
    partial: int = 0
    unmatched: int = 0
    winning: int = 0


@dataclass(frozen=True)
class Entry:
    """One influencer on the board; `totals` is None without an observed wallet."""

    bot: str
    name: str
    handle: str
    address: str | None
    totals: Totals | None
    # JSON
    coverage: str | None
    # why it has no rank
    reason: str | None
    # claimed | proven; None without a wallet
    ownership: str | None


def list_entries(sort, window, now):
    """Ranked entries, then the others, in both the proven wallets first; each group best first.

    `now` in UTC milliseconds.
    """
    seconds = WINDOWS[window]
    since = None if seconds is None else queries.find_totals_since(now // 1000 - seconds)
    entries = [book_entry(row, since, sort) for row in queries.list_competitors()]
    # stable: then the older bot
    return sorted(
        entries, key=lambda entry: _group(entry) + (entry.totals is None, -score(entry, sort))
    )


def _group(entry):
    return entry.reason is not None, entry.ownership != "proven"


def book_entry(row, since, sort):
    """`since`: totals of a window by wallet id, or None for all that was ever observed (the
    wallet's own results).
    """
    _, bot, name, handle, wallet_id, address, results, coverage, ownership, bot_since = row
    if bot_since is not None:
        return Entry(bot, name, handle, address, None, coverage, PROVEN_BY_ANOTHER, ownership)
    if results is None:
        totals = None
    elif since is None:
        totals = parse_results(orjson.loads(results))
    else:
        totals = Totals(*since.get(wallet_id, ()))
    return Entry(
        bot,
        name,
        handle,
        address,
        totals,
        coverage,
        check_rank(sort, address, totals, coverage),
        ownership,
    )


def parse_results(results):
    return Totals(
        int(results["realizedLamports"]),
        int(results["volumeLamports"]),
        results["observedTrades"],
        results["matchedSells"],
        results["partialSells"],
        results["unmatchedSells"],
        results["winningSells"],
    )


def check_rank(sort, address, totals, coverage):
    """Why an entry has no rank, or None."""
    if address is None:
        return "no_wallet"
    if totals is None:
        return "not_observed"
    if sort == "pnl" and totals.matched + totals.partial < MIN_SELLS:
        return "too_few_sells"
    if sort == "pnl" and coverage and orjson.loads(coverage)["gaps"]:
        return "open_gap"
    return None


def score(entry, sort):
    """The number the board is sorted by, in lamports or a count."""
    totals = entry.totals or Totals()
    return {"pnl": totals.realized, "volume": totals.volume, "trades": totals.trades}[sort]


def show_entries(entries, sort):
    """JSON rows. Proven and claimed wallets are counted apart; ties share the rank of the first."""
    shown = []
    for _, group in itertools.groupby(entries, _group):
        rank, last = None, None
        for place, entry in enumerate(group, 1):
            if score(entry, sort) != last:
                rank, last = place, score(entry, sort)
            shown.append(show_entry(entry, None if entry.reason else rank))
    return shown


def show_entry(entry, rank):
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
        "volumeLamports": totals and show_lamports(totals.volume),
        "volumeSol": totals and show_sol(totals.volume),
        "observedTrades": totals and totals.trades,
        "matchedSells": totals and totals.matched,
        "partialSells": totals and totals.partial,
        "unmatchedSells": totals and totals.unmatched,
        "winRate": (
            round(totals.winning / sells, 4)
            if sells
            # a share, no money: a number
            else None
        ),
        "ranked": entry.reason is None,
        "unrankedReason": entry.reason,
        "coverage": show_coverage(entry.address, entry.coverage),
    }
