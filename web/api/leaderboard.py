"""Who earned, traded or moved most: the rules of ranking over what was observed."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from accounts.problem import Problem
from chain.amounts import show_lamports
from chain.ledger.inventory import SOL
from chain.ledger.sums import NOTHING, Sums
from chain.ledger.views import HOUR_SECONDS
from chain.reading.quotes import QUOTES, Quote, find_quote
from chain.stored import standings as stored_standings
from chain.stored.attachments import OF_RECORD, OF_RESULTS
from chain.stored.signs import find_signs
from chain.stored.standings import (
    ALL,
    ARE_PROVEN,
    ARE_UNSEEN,
    COUNT,
    FORWARD,
    RESULT,
    RETURN,
    WINDOWS,
    StandingRow,
    find_reason,
    find_tier,
)
from chain.stored.summary import read_coverage, show_rates
from storage import read_rows
from web.api import risk, standings
from web.api.quote_results import show_amount, show_quote
from web.api.records import show_owners
from web.api.serialize import (
    HELD_BY_ANOTHER,
    Json,
    show_coverage,
    show_sol,
    show_time,
)
from web.api.standings import CompetitorRow

# Since a bot's wallets were attached to it, or all that is known of its wallet.
RECORDS = (FORWARD, ALL)
SORTS = ("pnl", "return", "win_rate", "volume", "trades", "pnl_floor")
# Sorts by a count; all others need a history without gaps.
BY_COUNT = ("volume", "trades")
OWNERSHIPS = ("proven", "claimed")


class Board(NamedTuple):
    """Which board is asked for. `ownership`: of which wallets, None for all; `quote`: in which
    stablecoin results are ranked, None for SOL.
    """

    record: str = RECORDS[0]
    sort: str = SORTS[0]
    window: str = "all"
    ownership: str | None = None
    quote: Quote | None = None


def read_quote(text: str) -> Quote:
    """Return the stablecoin of this symbol or mint; Problem where no board ranks by it."""
    quote = find_quote(text)
    if quote is None:
        allowed = ", ".join(one.symbol for one in QUOTES)
        raise Problem("invalid_parameter", f"quote must be one of: {allowed}, or its mint")
    return quote


def show_board(board: Board) -> Json:
    """Make the members of a Leaderboard that tell which it is."""
    told = board._asdict()
    quote = told.pop("quote")
    return {**told, "quote": show_quote(quote)} if quote else told


@dataclass(frozen=True)
class Entry:
    """One bot on the board; `totals` is None where nothing was observed."""

    row: CompetitorRow
    totals: Sums | None
    # why it has no rank
    reason: str | None
    # claimed | proven; None without a wallet
    ownership: str | None

    @property
    def tier(self) -> int:
        return find_tier(self.reason, self.totals is not None, self.ownership == "proven")


# By tier: bots without a rank are one group, observed or not. There are `limit` rows of each group.
GROUP_OF = (0, 1, 2, 2, 3, 3, 3, 3)


def list_entries(board: Board, now: int, limit: int) -> list[Entry]:
    """Return the best of those with a rank, then of the others; in both the proven wallets first,
    `limit` of each.

    `now` in UTC milliseconds.
    """
    money = board.quote.mint if board.quote else SOL
    asked = stored_standings.Board(board.record, money, WINDOWS[board.window])
    tiers = standings.list_standings(asked, standings.ORDERS[board.sort], now // 1000, limit)
    rows = standings.find_competitors([one.bot for tier in tiers for one in tier])
    entries = [
        _make_entry(board, rows[one.bot], one, number)
        for number, tier in enumerate(tiers)
        for one in tier
    ]
    return [
        entry
        for _, group in itertools.groupby(entries, find_group)
        for entry in itertools.islice(group, limit)
        if board.ownership in (None, entry.ownership)
    ]


def _make_entry(board: Board, row: CompetitorRow, standing: StandingRow, tier: int) -> Entry:
    totals = None if tier in ARE_UNSEEN else standing.sums
    reason = check_rank(board, row, totals)
    if board.record == ALL and row.is_claim:
        reason = HELD_BY_ANOTHER
    ownership = row.ownership and ("proven" if tier in ARE_PROVEN else "claimed")
    return Entry(row, totals, reason, ownership)


def find_group(entry: Entry) -> int:
    """Return the number of an entry's group, of which there are up to `limit` rows."""
    return GROUP_OF[entry.tier]


# ---- ranks ---------------------------------------------------------------------------------------
def check_rank(board: Board, row: CompetitorRow, totals: Sums | None) -> str | None:
    """Tell why an entry has no rank, or None."""
    by = RETURN if board.sort == "return" else COUNT if board.sort in BY_COUNT else RESULT
    has_wallet, money = row.address is not None, board.quote.mint if board.quote else SOL
    reason = find_reason(totals, has_wallet, False, by, money)
    if reason is None and by != COUNT:
        # Read only where it decides.
        has_gap = bool(read_coverage(row.coverage)["gaps"])
        reason = find_reason(totals, has_wallet, has_gap, by, money)
    return reason


def score(entry: Entry, sort: str) -> int | None:
    """Return the number the board is sorted by."""
    totals = entry.totals or NOTHING
    return {
        "pnl": totals.realized,
        "return": totals.return_points,
        "win_rate": totals.win_points,
        "pnl_floor": totals.worst_case,
        "volume": totals.volume,
        "trades": totals.trades,
    }[sort]


def show_entries(entries: Sequence[Entry], board: Board, now: int) -> list[Json]:
    """Make JSON rows. Proven and claimed wallets are ranked apart; ties share the first's rank.

    `now` in UTC milliseconds.
    """
    bots = [entry.row.id for entry in entries]
    # Risk is derived in SOL only.
    falls = {} if board.quote else find_drawdowns(board, bots, now)
    owners = show_owners(bots)
    source = OF_RESULTS if board.record == ALL else OF_RECORD
    signs = find_signs(read_rows, source, bots, board.quote.mint if board.quote else SOL)
    shown = []
    for _, group in itertools.groupby(entries, find_group):
        rank: int | None = None
        last: int | None = None
        for place, entry in enumerate(group, 1):
            if score(entry, board.sort) != last:
                rank, last = place, score(entry, board.sort)
            row = show_entry(entry, None if entry.reason else rank, board.quote)
            fall = falls.get(entry.row.id, 0) if _has_drawdown(entry, board) else None
            shown.append(
                {
                    **row,
                    "maxDrawdownLamports": show_lamports(fall),
                    "signs": signs[entry.row.id],
                    "record": board.record,
                    "owner": owners[entry.row.id],
                }
            )
    return shown


def _has_drawdown(entry: Entry, board: Board) -> bool:
    """A retired bot holds no wallet whose hours could be read for it alone."""
    is_gone = board.record == ALL and entry.row.retired_at is not None
    return bool(entry.totals) and not board.quote and not is_gone


def find_drawdowns(board: Board, bots: Sequence[int], now: int) -> dict[int, int]:
    """Return {bot id: max drawdown in lamports} in the window, from its full hour on."""
    seconds = WINDOWS[board.window]
    since = (now // 1000 - seconds) // HOUR_SECONDS if seconds else None
    return risk.find_drawdowns(OF_RESULTS if board.record == ALL else OF_RECORD, bots, since)


def show_entry(entry: Entry, rank: int | None, quote: Quote | None = None) -> dict[str, Any]:
    """Make what a LeaderboardEntry tells of the bot; `rank` is null without a result to rank by."""
    totals, row = entry.totals, entry.row
    return {
        "rank": rank,
        "botId": row.uid,
        "name": row.name,
        "handle": row.handle,
        "wallet": row.address,
        "ownership": entry.ownership,
        **_show_amounts(entry, None if quote else totals),
        **(_show_quoted(totals, quote) if quote else {}),
        "observedTrades": totals and totals.trades,
        "matchedSells": totals and totals.matched,
        "partialSells": totals and totals.partial,
        "unmatchedSells": totals and totals.unmatched,
        **(show_rates(totals) if totals else dict.fromkeys(show_rates(NOTHING))),
        "ranked": entry.reason is None,
        "unrankedReason": entry.reason,
        "coverage": show_coverage(row.address, row.coverage),
        "retiredAt": show_time(row.retired_at),
    }


def _show_amounts(entry: Entry, totals: Sums | None) -> Json:
    return {
        "realizedLamports": totals and show_lamports(totals.realized),
        "realizedSol": totals and show_sol(totals.realized),
        "worstCaseLamports": totals and show_lamports(totals.worst_case),
        "costLeftLamports": totals and show_lamports(totals.cost_left),
        "volumeLamports": totals and show_lamports(totals.volume),
        "volumeSol": totals and show_sol(totals.volume),
    }


def _show_quoted(totals: Sums | None, quote: Quote) -> Json:
    return {
        "quote": show_quote(quote),
        **show_amount("realized", totals and totals.realized, quote),
        **show_amount("worstCase", totals and totals.worst_case, quote),
        **show_amount("costLeft", totals and totals.cost_left, quote),
        **show_amount("volume", totals and totals.volume, quote),
    }
