"""Compute each bot's totals, for all time and for windows, indexed for ranking.

Changes invalidate a standing. The observer recomputes it at the end of each pass, and until then
every reader does. Warning signs don't affect the rank.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import storage
from chain.ledger.inventory import SOL
from chain.ledger.totals import (
    ALL_HISTORY,
    HOUR_MS,
    HOUR_SECONDS,
    NOTHING,
    Sums,
    add_up,
    list_signs,
)
from chain.reading.currencies import CURRENCIES
from chain.stored.attachments import Source, read_totals, write_last
from chain.stored.derived import read_coverage
from chain.stored.tables import SHOWN, StandingRow, StandingTotal
from models import Bot
from storage import Rows

# ---- warning signs -------------------------------------------------------------------------------
# Best token result in each wallet, found by an index.
BEST = """
SELECT a.bot_id, (SELECT MAX(t.realized) FROM token_total t WHERE t.wallet_id = a.wallet_id
                  AND t.money = '{money}' AND t.view = {view})
FROM attachment a WHERE {which} AND a.bot_id IN ({bots})"""
# Best result of a token over several wallets.
TOGETHER = """
SELECT bot_id, CAST(MAX(realized) AS BIGINT) FROM (
    SELECT a.bot_id, SUM(t.realized) AS realized FROM attachment a JOIN token_total t
    ON t.wallet_id = a.wallet_id AND t.money = '{money}' AND t.view = {view}
    WHERE {which} AND a.bot_id IN ({bots}) GROUP BY a.bot_id, t.mint) by_mint
GROUP BY bot_id"""


def find_signs(
    rows: Rows, source: Source, bots: Collection[int], money: str = SOL
) -> dict[int, list[str]]:
    found = read_totals(rows, source, bots, [money])
    totals = {bot: found.get((bot, money), NOTHING) for bot in bots}
    gained = [bot for bot, sums in totals.items() if sums.realized > 0]
    best = _find_best(rows, source, gained, money)
    return {bot: list_signs(sums, best.get(bot, 0)) for bot, sums in totals.items()}


def _find_best(rows: Rows, source: Source, bots: Collection[int], money: str) -> dict[int, int]:
    if not bots:
        return {}
    found = list(rows(_write(BEST, source, bots, money)))
    wallets = Counter(bot for bot, _ in found)
    best = {bot: int(realized or 0) for bot, realized in found}
    if several := [bot for bot, count in wallets.items() if count > 1]:
        best |= dict(rows(_write(TOGETHER, source, several, money)))
    return best


def _write(sql: str, source: Source, bots: Collection[int], money: str) -> str:
    listed = ", ".join(map(str, bots))
    return sql.format(**source._asdict(), money=money, bots=listed)


# ---- standings -----------------------------------------------------------------------------------
# Since wallets were connected, or all known history of currently connected wallets.
FORWARD, ALL = "forward", "all"
# In seconds. 0 means all time. Windows start on the hour.
WINDOWS = {"24h": 86_400, "7d": 604_800, "30d": 2_592_000, "90d": 7_776_000, "all": 0}
# With fewer sales, a realized result is luck.
MIN_SELLS = 3
# Minimum cost basis for ranking a return: 1 SOL, or 100 of a stablecoin.
MIN_SOL, MIN_STABLECOIN = 1, 100
# Ranks an unknown return or win rate below all others.
UNKNOWN = -(2**31)
# Ranking criteria: results and win rates; returns; volume and trades.
RESULT, RETURN, COUNT = "result", "return", "count"
# Parts of a list, in order. UNSEEN means that nothing was observed.
PROVEN_RANKED, CLAIMED_RANKED, PROVEN, PROVEN_UNSEEN, CLAIMED, CLAIMED_UNSEEN = range(6)
UNATTACHED, UNATTACHED_UNSEEN = 6, 7
ARE_PROVEN = {PROVEN_RANKED, PROVEN, PROVEN_UNSEEN}
ARE_UNSEEN = {PROVEN_UNSEEN, CLAIMED_UNSEEN, UNATTACHED_UNSEEN}
# For retired bots without activity in the window, which aren't listed.
HIDDEN = 8
# `ends` (Unix seconds) of a standing that doesn't expire.
NEVER = 2**40
# Bots per transaction, because other writers wait for it.
MAX_AT_ONCE = 200


class Board(NamedTuple):
    record: str
    money: str
    seconds: int


def list_boards() -> list[Board]:
    return [
        Board(record, money, seconds)
        for money in CURRENCIES
        for record in (FORWARD, ALL)
        for seconds in WINDOWS.values()
    ]


class Ranked(NamedTuple):
    """What determines a bot's tiers. `sums` is None if nothing was observed."""

    sums: Sums | None
    has_wallet: bool
    has_gap: bool
    is_proven: bool
    is_retired: bool
    is_loading: bool = False


def make_standing(bot: int, board: Board, ends: int, one: Ranked) -> StandingRow:
    sums = one.sums or NOTHING
    tiers = [_find_tier(one, board.money, by) for by in (RESULT, RETURN, COUNT)]
    if one.is_retired and not sums.trades:
        tiers = [HIDDEN] * len(tiers)
    points = [
        sums.return_points if sums.cost >= find_min_cost(board.money) else None,
        sums.win_points,
    ]
    ranked = [sums.worst_case, *(UNKNOWN if value is None else value for value in points)]
    shown = [getattr(sums, name) for name in SHOWN]
    return StandingRow(bot, *board, ends, *tiers, *ranked, *shown)


def find_min_cost(money: str) -> int:
    """Return the minimum cost basis for ranking a return, in raw units."""
    units: int = 10 ** CURRENCIES[money].decimals
    return (MIN_STABLECOIN if money else MIN_SOL) * units


def _find_tier(one: Ranked, money: str, by: str) -> int:
    reason = find_reason(one.sums, one.has_wallet, one.has_gap, by, money, one.is_loading)
    return find_tier(reason, one.sums is not None, one.is_proven)


def find_reason(
    sums: Sums | None,
    has_wallet: bool,
    has_gap: bool,
    by: str,
    money: str = SOL,
    is_loading: bool = False,
) -> str | None:
    """Return why a bot has no rank, or None if it has one.

    `by` is the ranking criterion. Only counts can be ranked despite gaps and an incomplete history.
    """
    if not has_wallet:
        return "no_wallet"
    if sums is None:
        return "not_observed"
    if by == COUNT:
        return None
    if is_loading:
        return "backfilling"
    if sums.matched + sums.partial < MIN_SELLS:
        return "too_few_sells"
    if by == RETURN and sums.cost < find_min_cost(money):
        return "too_little_cost"
    return "gap" if has_gap else None


def find_tier(reason: str | None, is_seen: bool, is_proven: bool) -> int:
    """Return the part of the list. `is_seen`: whether anything was observed."""
    if reason == "no_wallet":
        return UNATTACHED if is_seen else UNATTACHED_UNSEEN
    if reason is None:
        return PROVEN_RANKED if is_proven else CLAIMED_RANKED
    if is_seen:
        return PROVEN if is_proven else CLAIMED
    return PROVEN_UNSEEN if is_proven else CLAIMED_UNSEEN


class Holding(NamedTuple):
    """A bot's attachment. Times are in ms.

    A bot that never had a wallet has one Holding without `id`. `is_known` is whether its record was
    computed. `is_present` means that it is connected now, or was until the bot retired. Otherwise
    `coverage` is None. `holder` is own, earlier (another bot only claims the wallet now), or None
    if the wallet's past belongs to another bot.
    """

    bot: int
    retired_at: int | None
    id: int | None
    wallet: int
    ownership: str
    detached_at: int | None
    is_known: int
    is_present: int
    coverage: str | None
    is_observed: int
    holder: str | None

    @property
    def detached_hour(self) -> int:
        return (self.detached_at or 0) // HOUR_MS


PRESENT = "a.id IS NOT NULL AND (a.detached_at IS NULL OR a.detached_at = b.retired_at)"
HOLDINGS = f"""
SELECT b.id, b.retired_at, a.id, a.wallet_id, a.ownership, a.detached_at,
       CASE WHEN a.forward_realized IS NULL THEN 0 ELSE 1 END,
       CASE WHEN {PRESENT} THEN 1 ELSE 0 END, CASE WHEN {PRESENT} THEN w.coverage END,
       CASE WHEN w.results IS NULL THEN 0 ELSE 1 END,
       CASE WHEN w.bot_id = b.id THEN CASE WHEN w.bot_since IS NULL THEN 'own' END
            WHEN w.earlier_bot_id = b.id THEN 'earlier' END
FROM bot b LEFT JOIN attachment a ON a.bot_id = b.id LEFT JOIN wallet w ON w.id = a.wallet_id
WHERE b.id IN ({{bots}}) ORDER BY b.id, a.attached_at, a.id"""
SOURCES = {
    FORWARD: Source("a.id", "1 = 1"),
    ALL: Source(str(ALL_HISTORY), PRESENT),
}
# {last} is the condition from write_last, and {which} is from a Source.
SUMS = f"""
SELECT a.id, {", ".join(f"t.{name}" for name in Sums._fields)}
FROM attachment a JOIN bot b ON b.id = a.bot_id JOIN running_total t ON {{last}}
WHERE a.bot_id IN ({{bots}}) AND {{which}}"""
FIRST = """
SELECT a.id, (SELECT MIN(n.hour) FROM running_total n WHERE n.wallet_id = a.wallet_id
              AND n.money = '{money}' AND n.view = {view} AND n.hour >= {since})
FROM attachment a JOIN bot b ON b.id = a.bot_id WHERE a.bot_id IN ({bots}) AND {which}"""


class _Reader:
    def __init__(self, rows: Rows, board: Board, now: int, bots: Iterable[int]) -> None:
        self.board, self._rows, self._source = board, rows, SOURCES[board.record]
        self._bots = ", ".join(map(str, bots))
        # First hour of the window. 0 means all time.
        self.since = (now - board.seconds) // HOUR_SECONDS if board.seconds else 0
        self.last = self.read()
        is_cut = self.since and self.last
        self.before = self.read(self.since) if is_cut else {}
        self.firsts = self._read_firsts() if is_cut else {}

    def read(self, until: int | None = None, which: str = "") -> dict[int, Sums]:
        money = f"'{self.board.money}'"
        last = write_last("t", self._source.view, money, until)
        sql = SUMS.format(last=last, bots=self._bots, which=which or self._source.which)
        return {number: Sums._make(sums) for number, *sums in self._rows(sql)}

    def _read_firsts(self) -> dict[int, int]:
        sql = FIRST.format(
            **self.board._asdict(), **self._source._asdict(), since=self.since, bots=self._bots
        )
        return {number: hour for number, hour in self._rows(sql) if hour is not None}

    def find_sums(self, one: Holding) -> Sums:
        """Return an attachment's totals in the window.

        If a bot retired and another bot now claims its proven wallet, only the hours before it
        retired count. When a wallet is disconnected, its holdings count as moved out in that hour.
        """
        assert one.id is not None
        last, before = (sums.get(one.id, NOTHING) for sums in (self.last, self.before))
        if self.board.record == FORWARD and one.detached_at is not None:
            is_over = one.detached_hour < self.since
            return last.give_up().minus(before.give_up() if is_over else before)
        if self.board.record == ALL and one.holder == "earlier" and one.retired_at is not None:
            hour = one.retired_at // HOUR_MS
            last = self.read(hour, f"a.id = {one.id}").get(one.id, NOTHING)
        return last.minus(before)


def work_out(rows: Rows, board: Board, now: int, bots: Collection[int]) -> list[StandingRow]:
    """Only bots that traded in a stablecoin are on its boards. `now`: Unix seconds."""
    standings = []
    for part in storage.in_parts(sorted(bots)):
        reader = _Reader(rows, board, now, part)
        if board.money != SOL and not reader.last:
            continue
        sql = HOLDINGS.format(bots=", ".join(map(str, part)))
        for bot, held in groupby(map(Holding._make, rows(sql)), attrgetter("bot")):
            holdings = list(held)
            if board.money == SOL or any(one.id in reader.last for one in holdings):
                standings.append(_work_out_one(reader, bot, holdings))
    return standings


def _work_out_one(reader: _Reader, bot: int, holdings: Sequence[Holding]) -> StandingRow:
    is_forward = reader.board.record == FORWARD
    present = [one for one in holdings if one.is_present]
    if is_forward:
        counted = [one for one in holdings if one.is_known or one.id in reader.last]
    else:
        counted = [one for one in present if one.is_observed and one.holder]
    sums = [reader.find_sums(one) for one in counted]
    hours = [reader.firsts[one.id] for one in counted if one.id in reader.firsts]
    if is_forward:
        hours += _list_given_up(reader, counted)
    coverages = [read_coverage(one.coverage) for one in present]
    ranked = Ranked(
        sums=add_up(sums) if counted else None,
        has_wallet=bool(present),
        has_gap=any(one["gaps"] for one in coverages),
        is_loading=any(one["state"] == "backfilling" for one in coverages),
        is_proven=_are_proven(present) and not (is_forward and _is_claimed(reader, holdings)),
        is_retired=holdings[0].retired_at is not None,
    )
    seconds = reader.board.seconds
    ends = (min(hours) + 1) * HOUR_SECONDS + seconds if seconds and hours else NEVER
    return make_standing(bot, reader.board, ends, ranked)


def _list_given_up(reader: _Reader, counted: Iterable[Holding]) -> Iterable[int]:
    for one in counted:
        last = reader.last.get(one.id or 0, NOTHING)
        is_over = one.detached_at is not None and one.detached_hour >= reader.since
        if is_over and (last.open_cost or last.held):
            yield one.detached_hour


def _are_proven(present: Sequence[Holding]) -> bool:
    return bool(present) and all(one.ownership == "proven" for one in present)


def _is_claimed(reader: _Reader, holdings: Sequence[Holding]) -> bool:
    proven = {one.wallet for one in holdings if one.ownership == "proven"}
    traded = {one.wallet for one in holdings if reader.last.get(one.id or 0, NOTHING).trades}
    return bool(traded - proven)


def forget_standings(bots: Iterable[int]) -> None:
    Bot.update(standing_at=None).where(Bot.id.in_(list(bots))).execute()


FORGET = """
UPDATE bot SET standing_at = NULL WHERE standing_at IS NOT NULL
AND id IN (SELECT bot_id FROM attachment WHERE wallet_id = ?)"""


def forget_standings_of(wallet_id: int) -> None:
    storage.database.execute_sql(FORGET, (wallet_id,))


FORGOTTEN = "SELECT id FROM bot WHERE standing_at IS NULL"
ENDED = """SELECT bot_id FROM standing_total
WHERE record = '{record}' AND money = '{money}' AND seconds = {seconds} AND ends <= {now}"""
# Plain SQL for speed: it runs for each board in each stablecoin.
DROP = """DELETE FROM standing_total
WHERE record = ? AND money = ? AND seconds = ? AND bot_id IN ({marks})"""


def list_forgotten(rows: Rows, board: Board, now: int) -> set[int]:
    """Return the bots with an invalidated or expired standing. `now`: Unix seconds."""
    ended = ENDED.format(**board._asdict(), now=now)
    return {bot for (bot,) in rows(f"{FORGOTTEN} UNION {ended}")}


ENDED_ANYWHERE = """SELECT bot_id, record, money, seconds FROM standing_total WHERE ends <= {now}"""


def refresh_standings(now_ms: int) -> int:
    """Recompute invalidated standings. Return the number of bots."""
    count = 0
    while done := _refresh_some(now_ms):
        count += done
    return count


def _refresh_some(now_ms: int) -> int:
    """Read candidates before the transaction, because most passes don't find any."""
    now = now_ms // 1000
    limit = f"LIMIT {MAX_AT_ONCE}"
    forgotten = [bot for (bot,) in storage.read_rows(f"{FORGOTTEN} {limit}")]
    bots_of: dict[Board, set[int]] = {board: set(forgotten) for board in list_boards() if forgotten}
    for bot, *place in storage.read_rows(f"{ENDED_ANYWHERE.format(now=now)} {limit}"):
        bots_of.setdefault(Board(*place), set()).add(bot)
    if not bots_of:
        return 0
    with storage.writing():
        for board, bots in bots_of.items():
            _refresh(board, now, bots)
        for part in storage.in_parts(forgotten):
            Bot.update(standing_at=now_ms).where(Bot.id.in_(part)).execute()
    return len(set().union(*bots_of.values()))


def _refresh(board: Board, now: int, bots: Collection[int]) -> None:
    is_known = board.money in CURRENCIES
    standings = work_out(storage.read_rows, board, now, bots) if is_known else []
    rows = [one._asdict() for one in standings]
    storage.write_rows(StandingTotal, rows, ("bot", "record", "money", "seconds"))
    gone = sorted(set(bots) - {one.bot for one in standings})
    for part in storage.in_parts(gone):
        storage.database.execute_sql(DROP.format(marks=storage.mark(part)), (*board, *part))
