"""The board: totals of bots, how they are ranked, their shapes, and the route."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple, cast, get_args

from flask import g

from agents.choices import Sort, Window
from chain.amounts import exact, show_fixed, show_raw
from chain.ledger.totals import HOUR_SECONDS, NOTHING, Sums
from chain.reading.currencies import CURRENCIES, Currency, map_currencies
from chain.stored import standings as stored_standings
from chain.stored.attachments import COUNT_HELD, LAST_LEAD, OF_RECORD, OF_RESULTS, Source
from chain.stored.standings import (
    ALL,
    ARE_PROVEN,
    ARE_UNSEEN,
    COUNT,
    HIDDEN,
    RESULT,
    RETURN,
    WINDOWS,
    find_reason,
    find_signs,
    find_tier,
    list_forgotten,
    work_out,
)
from chain.stored.tables import StandingRow
from storage import read_rows
from storage.rows import read, read_one, select, select_value, write_marks
from web.api import paging, v1
from web.api.paging import Args, read_choice, read_currency
from web.api.results import Sign, find_drawdowns, find_results, is_traded
from web.api.serialize import HELD_BY_ANOTHER, Json, fill, show_time
from web.api.shapes import (
    Address,
    CurrencySymbol,
    Exact,
    NotRequired,
    Ownership,
    Page,
    Proof,
    Record,
    Time,
    TypedDict,
    Untrusted,
    Whole,
    described,
)
from web.api.wallets import Coverage, Wallet, find_least, list_held, show_coverage

# ---- totals --------------------------------------------------------------------------------------
# Bots with their primary wallet, or with the last one before they retired (`retired_at`, ms).
# find_competitors adds `coverages`, the Coverage of each of its wallets. `claimed_since` (ms) is
# when the bot's claim began if the wallet is only claimed and another bot had it before, else null.
COMPETITORS = f"""
SELECT b.id, b.uid, b.name, b.handle, b.retired_at, w.id AS wallet_id, w.address,
       w.coverage AS coverages, a.ownership,
       CASE WHEN w.bot_id = b.id THEN w.bot_since END AS claimed_since
FROM bot b
LEFT JOIN attachment a ON a.id = {LAST_LEAD}
LEFT JOIN wallet w ON w.id = a.wallet_id
"""


class Order(NamedTuple):
    """How a list is sorted: by a column of a standing, with a condition for having a rank."""

    column: str
    by: str

    @property
    def tier(self) -> str:
        return f"{self.by}_tier"


ORDERS: dict[Sort, Order] = {
    "pnl": Order("realized", RESULT),
    "return": Order("return_points", RETURN),
    "win_rate": Order("win_points", RESULT),
    "volume": Order("volume", COUNT),
    "trades": Order("trades", COUNT),
    "pnl_floor": Order("worst_case", RESULT),
}


def find_competitors(bots: Sequence[int]) -> dict[int, Any]:
    held = list_held(bots)
    rows = read(f"{COMPETITORS}WHERE b.id IN ({write_marks(bots)})", bots)
    return {row.id: _add_coverages(row, held.get(row.id, ())) for row in rows}


def _add_coverages(row: Any, held: Sequence[Wallet]) -> Any:
    coverages = [one["coverage"] for one in held] or [show_coverage(row.address, row.coverages)]
    return row._replace(coverages=coverages)


LISTED = f"""
SELECT {", ".join(StandingRow._fields).replace("bot,", "bot_id AS bot,", 1)} FROM standing_total
WHERE record = ? AND money = ? AND seconds = ? AND {{tier}} = ?
ORDER BY {{column}} DESC, bot_id LIMIT ?
"""


def list_standings(
    board: stored_standings.Board, order: Order, now: int, limit: int
) -> list[list[StandingRow]]:
    """List each tier's best `limit` bots (chain.stored.standings). `now`: Unix seconds."""
    forgotten = list_forgotten(read_rows, board, now)
    tiers: list[list[StandingRow]] = [[] for _ in range(HIDDEN)]
    sql = LISTED.format(tier=order.tier, column=order.column)
    for number, tier in enumerate(tiers):
        found = select(StandingRow, sql, (*board, number, limit + len(forgotten)))
        tier += [row for row in found if row.bot not in forgotten]
    for row in work_out(read_rows, board, now, forgotten):
        number = getattr(row, order.tier)
        if number != HIDDEN:
            tiers[number].append(row)
    for tier in tiers:
        tier.sort(key=lambda row: (-getattr(row, order.column), row.bot))
    return [tier[:limit] for tier in tiers]


# Wallets ever connected, currently connected, and with a forward record. Each count reads only an
# index.
CONNECTED = f"""
SELECT (SELECT COUNT(*) FROM wallet) AS ever,
       {COUNT_HELD} AS held,
       (SELECT COUNT(*) FROM wallet WHERE forward_realized IS NOT NULL) AS observed
"""
NTH = """
SELECT forward_realized FROM wallet WHERE forward_realized IS NOT NULL
ORDER BY forward_realized LIMIT 1 OFFSET ?
"""


def show_connected() -> Json:
    """Count connected wallets, and find their (lower) median realized PnL while connected."""
    row = read_one(CONNECTED)
    median = select_value(NTH, [(row.observed - 1) // 2]) if row.observed else None
    return {
        "walletsEver": row.ever,
        "walletsHeld": row.held,
        "walletsObserved": row.observed,
        "medianRealizedLamports": show_raw(median),
    }


# Since a bot's wallets were connected, or their whole known history.
RECORDS: tuple[Record, ...] = get_args(Record)
SORTS: tuple[Sort, ...] = get_args(Sort)
OWNERSHIPS: tuple[Proof, ...] = get_args(Proof)


class LeaderboardEntry(TypedDict):
    """A bot on the leaderboard. Numbers are null if no wallet was observed. Only stablecoin boards
    have the optional members, and their amounts in SOL are null.
    """

    rank: Annotated[
        int | None, described("starts at 1; ties share a rank; null if the bot isn't ranked")
    ]
    ranked: bool
    unrankedReason: Annotated[
        Literal[
            "no_wallet",
            "not_observed",
            "backfilling",
            "gap",
            "too_few_sells",
            "too_little_cost",
            "trades_in",
            "held_by_another",
        ]
        | None,
        described(
            "too_few_sells: fewer than three matched or partial sales; too_little_cost: by"
            " return, under 1 SOL or 100 of a stablecoin of cost basis; trades_in: only in the"
            " currency tradesIn; gap: history is missing; held_by_another: another bot had the"
            " wallet first and keeps its past"
        ),
    ]
    tradesIn: Annotated[
        CurrencySymbol | None, described("currency of the leaderboard that ranks the bot")
    ]
    botId: str
    name: Untrusted
    handle: str
    wallet: Address | None
    ownership: Annotated[
        Ownership | None, described("proven and claimed wallets are ranked separately, each from 1")
    ]
    coverage: Coverage
    retiredAt: Annotated[
        Time | None,
        described("retired bots stay on boards whose window includes one of their trades"),
    ]
    record: Record
    currency: CurrencySymbol
    realizedLamports: Whole | None
    realizedSol: Exact | None
    returnPct: Exact | None
    winRate: Annotated[Exact | None, described("share of winning positions, 0 to 1")]
    positions: Annotated[int | None, described("number of positions with a sale")]
    positionsWon: int | None
    positionsOpen: Annotated[
        int | None, described("number of open positions, with or without a sale")
    ]
    volumeLamports: Whole | None
    volumeSol: Exact | None
    observedTrades: int | None
    matchedSells: int | None
    partialSells: int | None
    unmatchedSells: int | None
    costLeftLamports: Annotated[Whole | None, described("known cost of tokens moved out unsold")]
    worstCaseLamports: Annotated[Whole | None, described("worst case, as in Results")]
    maxDrawdownLamports: Annotated[Whole | None, described("since the window's first hour")]
    signs: Annotated[list[Sign], described("warning signs, as in BotDetail")]
    realizedRaw: NotRequired[Whole | None]
    realized: NotRequired[Exact | None]
    volumeRaw: NotRequired[Whole | None]
    volume: NotRequired[Exact | None]
    costLeftRaw: NotRequired[Whole | None]
    worstCaseRaw: NotRequired[Whole | None]
    maxDrawdownRaw: NotRequired[Whole | None]


class Leaderboard(Page):
    """First proven wallets with a rank, then claimed ones. Those without a rank follow in the same
    order.
    """

    data: list[LeaderboardEntry]
    record: Record
    ownership: Ownership | None
    sort: Sort
    window: Window
    currency: CurrencySymbol


class Board(NamedTuple):
    """The requested board. `ownership` says which wallets to include (None for all). `currency` is
    the currency's symbol.
    """

    record: Record = RECORDS[0]
    sort: Sort = SORTS[0]
    window: str = "all"
    ownership: str | None = None
    currency: str = "SOL"

    @property
    def money(self) -> str:
        return map_currencies()[self.currency]

    @property
    def stablecoin(self) -> Currency | None:
        return CURRENCIES[self.money] if self.money else None

    @property
    def source(self) -> Source:
        return OF_RESULTS if self.record == ALL else OF_RECORD


@dataclass(frozen=True)
class Entry:
    """A bot on the leaderboard. `totals` is None if nothing was observed."""

    row: Any
    totals: Sums | None
    # Why it isn't ranked.
    reason: Any
    # claimed | proven, or None without a wallet.
    ownership: Any

    @property
    def group(self) -> int:
        tier = find_tier(self.reason, self.totals is not None, self.ownership == "proven")
        return GROUP_OF[tier]


# Groups by tier. Bots without a rank are one group, whether observed or not.
GROUP_OF = (0, 1, 2, 2, 3, 3, 3, 3)
find_group = attrgetter("group")


def list_entries(board: Board, now: int, limit: int) -> list[Entry]:
    """List `limit` ranked entries, then as many unranked ones, proven first. `now`: ms."""
    asked = stored_standings.Board(board.record, board.money, WINDOWS[board.window])
    tiers = list_standings(asked, ORDERS[board.sort], now // 1000, limit)
    rows = find_competitors([one.bot for tier in tiers for one in tier])
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


def _make_entry(board: Board, row: Any, standing: StandingRow, tier: int) -> Entry:
    totals = None if tier in ARE_UNSEEN else standing.sums
    reason = check_rank(board, row, totals)
    if board.record == ALL and row.claimed_since is not None:
        reason = HELD_BY_ANOTHER
    ownership = row.ownership and ("proven" if tier in ARE_PROVEN else "claimed")
    return Entry(row, totals, reason, ownership)


# ---- ranks ---------------------------------------------------------------------------------------
def check_rank(board: Board, row: Any, totals: Sums | None) -> str | None:
    by, has_wallet = ORDERS[board.sort].by, row.address is not None
    has_gap = any(one["gaps"] for one in row.coverages)
    is_loading = find_least(row.coverages)["state"] == "backfilling"
    return find_reason(totals, has_wallet, has_gap, by, board.money, is_loading)


def show_entries(entries: Sequence[Entry], board: Board, now: int) -> list[LeaderboardEntry]:
    """`now`: ms."""
    bots = [entry.row.id for entry in entries]
    falls, elsewhere = find_falls(board, bots, now), find_currencies(board, entries)
    signs: dict[int, Any] = find_signs(read_rows, board.source, bots, board.money)
    shown = []
    for _, group in itertools.groupby(entries, find_group):
        rank: int | None = None
        last: int | None = None
        for place, entry in enumerate(group, 1):
            score: int | None = getattr(entry.totals or NOTHING, ORDERS[board.sort].column)
            if score != last:
                rank, last = place, score
            fall = falls.get(entry.row.id, 0) if _has_drawdown(entry, board) else None
            row = show_entry(entry, board, None if entry.reason else rank, fall)
            if told := elsewhere.get(entry.row.id):
                row |= {"unrankedReason": "trades_in", "tradesIn": told}
            row["signs"] = signs[entry.row.id]
            shown.append(row)
    return shown


def _has_drawdown(entry: Entry, board: Board) -> bool:
    """Return whether this bot's hours can be read. A retired bot doesn't have a wallet."""
    is_gone = board.record == ALL and entry.row.retired_at is not None
    return bool(entry.totals) and not is_gone


def find_falls(board: Board, bots: Sequence[int], now: int) -> dict[int, int]:
    """Return {bot ID: max drawdown in raw units} in the window, starting at its first full hour."""
    seconds = WINDOWS[board.window]
    since = (now // 1000 - seconds) // HOUR_SECONDS if seconds else None
    return find_drawdowns(board.source, bots, since, board.money)


def find_currencies(board: Board, entries: Sequence[Entry]) -> dict[int, str]:
    """Return {bot ID: currency of its sales} for bots with too few sales in the board's."""
    asked = [
        entry.row.id
        for entry in entries
        if entry.reason == "too_few_sells" and entry.totals and not count_sales(entry.totals)
    ]
    found = find_results(board.source, asked) if asked else {}
    traded = {
        bot: [
            money for money, sums in told.sums.items() if money != board.money and is_traded(sums)
        ]
        for bot, told in found.items()
    }
    return {bot: CURRENCIES[moneys[0]].symbol for bot, moneys in traded.items() if moneys}


def count_sales(totals: Sums) -> int:
    return totals.matched + totals.partial + totals.unmatched


# Null on a board in a stablecoin, and the members that only it has.
IN_SOL = {name for name in LeaderboardEntry.__annotations__ if name.endswith(("Lamports", "Sol"))}
IN_STABLECOIN = LeaderboardEntry.__optional_keys__
# Null if nothing was observed.
OBSERVED = IN_SOL | IN_STABLECOIN
OBSERVED |= {"returnPct", "winRate", "positions", "positionsWon", "positionsOpen", "observedTrades"}
OBSERVED |= {"matchedSells", "partialSells", "unmatchedSells"}


def show_entry(entry: Entry, board: Board, rank: int | None, fall: int | None) -> LeaderboardEntry:
    """`rank` is None if it has no result to rank by."""
    row, totals, money = entry.row, entry.totals or NOTHING, CURRENCIES[board.money]
    shown = fill(
        LeaderboardEntry,
        totals,
        rank=rank,
        ranked=entry.reason is None,
        unrankedReason=entry.reason,
        tradesIn=None,
        botId=row.uid,
        name=row.name,
        handle=row.handle,
        wallet=row.address,
        ownership=entry.ownership,
        coverage=find_least(row.coverages),
        retiredAt=show_time(row.retired_at),
        record=board.record,
        currency=board.currency,
        returnPct=show_fixed(totals.return_points, 2),
        winRate=show_fixed(totals.win_points, 4),
        positionsOpen=totals.held,
        observedTrades=totals.trades,
        maxDrawdownLamports=show_raw(fall),
        signs=[],
        realized=exact(totals.realized, money.decimals),
        volume=exact(totals.volume, money.decimals),
        maxDrawdownRaw=show_raw(fall),
    )
    unknown = OBSERVED if entry.totals is None else IN_SOL if board.money else set[str]()
    left_out = set[str]() if board.money else IN_STABLECOIN
    told = {
        name: None if name in unknown else value
        for name, value in shown.items()
        if name not in left_out
    }
    return cast(LeaderboardEntry, told)


# ---- the route -----------------------------------------------------------------------------------
@v1.cached_list(
    "/leaderboard",
    LeaderboardEntry,
    *("sort", "window", "record", "ownership", "currency"),
    page=Leaderboard,
)
def get_leaderboard(args: Args) -> Json:
    """Bots ranked by realized PnL, return, win rate, volume or trades. Returns at most `limit`
    rows. A rank needs three sales with a result in the window.
    """
    limit, board, now = paging.read_limit(args), read_board(args), v1.start_of_minute(g.now)
    entries = list_entries(board, now, limit)[:limit]
    return v1.show_list(show_entries(entries, board, now), limit, **board._asdict())


def read_board(args: Args) -> Board:
    return Board(
        read_choice(args, "record", RECORDS, RECORDS[0]),
        read_choice(args, "sort", SORTS, SORTS[0]),
        read_choice(args, "window", tuple(WINDOWS), "all"),
        read_choice(args, "ownership", OWNERSHIPS, "") if "ownership" in args else None,
        read_currency(args) or "SOL",
    )
