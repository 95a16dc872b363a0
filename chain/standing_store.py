"""What each bot did since its wallets were attached, of all time and in windows, kept ready to be
ranked: a list of the best is read by an index, however many bots there are.

Whoever changes what a standing is made of forgets it; the observer works it out again at the end of
each pass, and until then whoever reads works it out alone.
"""

from collections.abc import Callable, Collection, Iterable
from itertools import chain as join
from typing import Any, NamedTuple

import orjson

import storage
from chain.ranks import HIDDEN, Totals, find_reason, find_tier
from chain.tables import StandingTotal
from models import Attachment, Bot

Rows = Callable[[str], Iterable[tuple[Any, ...]]]
# Windows in seconds; 0 is all time.
WINDOWS = (0, 86_400, 604_800, 2_592_000)
# What is of all time never runs out; Unix seconds.
NEVER = 2**40
# So many are worked out in a pass.
MAX_AT_ONCE = 1_000


class StandingRow(NamedTuple):
    """A row of `standing_total`, but for its number of the bot being `bot`."""

    bot: int
    seconds: int
    ends: int
    result_tier: int
    count_tier: int
    realized: int
    floor: int
    volume: int
    trades: int
    matched: int
    partial: int
    unmatched: int
    winning: int
    cost_left: int

    @property
    def totals(self) -> Totals:
        return Totals(*(getattr(self, name) for name in Totals._fields))


COLUMNS = [getattr(StandingTotal, name) for name in StandingRow._fields]


class _Facts(NamedTuple):
    """`ownership`: of the wallet it holds, or held when it was retired; `coverage` is JSON."""

    bot: int
    retired_at: int | None
    ownership: str | None
    coverage: str | None


FACTS = """
SELECT b.id, b.retired_at, a.ownership, w.coverage
FROM bot b LEFT JOIN attachment a ON a.bot_id = b.id
    AND (a.detached_at IS NULL OR a.detached_at = b.retired_at)
LEFT JOIN wallet w ON w.id = a.wallet_id WHERE b.id IN ({bots}) ORDER BY b.id
"""


class _Record(NamedTuple):
    """The forward record of a bot, as in Totals. `is_claimed`: 1 where it traded with a wallet that
    it never proved; `left_at`, `given_up_at`: Unix second of the first change, and ms of the first
    wallet given up with something in it, that the window holds.
    """

    bot: int
    is_claimed: int
    left_at: int | None
    given_up_at: int | None
    realized: int
    volume: int
    trades: int
    matched: int
    partial: int
    unmatched: int
    winning: int
    cost_left: int


def _sum(name: str) -> str:
    return f"SUM(COALESCE(e.{name}, 0) - COALESCE(s.{name}, 0))"


# The last running totals of each span, less the last ones before a Unix second. What was still held
# when a wallet was given up is cost that left then.
RECORDS = f"""
SELECT a.bot_id,
       MAX(CASE WHEN e.trades > 0 AND NOT EXISTS (
           SELECT 1 FROM attachment p WHERE p.bot_id = a.bot_id AND p.wallet_id = a.wallet_id
           AND p.ownership = 'proven') THEN 1 ELSE 0 END),
       MIN((SELECT MIN(n.time) FROM forward_total n
            WHERE n.attachment_id = a.id AND n.time >= {{since}})),
       MIN(CASE WHEN a.open_cost <> 0 AND a.detached_at >= {{since_ms}}
           THEN a.detached_at END),
       {", ".join(f"CAST({_sum(name)} AS BIGINT)" for name in Totals._fields[:-1])},
       CAST({_sum("cost_left")} + SUM(
           CASE WHEN a.detached_at >= {{since_ms}} THEN a.open_cost ELSE 0 END) AS BIGINT)
FROM attachment a
LEFT JOIN forward_total e ON e.attachment_id = a.id AND e.time = (
    SELECT MAX(l.time) FROM forward_total l WHERE l.attachment_id = a.id)
LEFT JOIN forward_total s ON s.attachment_id = a.id AND s.time = (
    SELECT MAX(l.time) FROM forward_total l WHERE l.attachment_id = a.id AND l.time < {{since}})
WHERE a.bot_id IN ({{bots}}) AND a.open_cost IS NOT NULL GROUP BY a.bot_id
"""


def read_rows(sql: str) -> list[tuple[Any, ...]]:
    """Run a statement of this database."""
    found: list[tuple[Any, ...]] = storage.database.execute_sql(sql).fetchall()
    return found


def work_out(rows: Rows, seconds: int, now: int, bots: Collection[int]) -> list[StandingRow]:
    """The standings of these bots in a window that ends now (Unix second)."""
    parts = storage.in_parts(sorted(bots))
    return list(join.from_iterable(_work_out(rows, seconds, now, part) for part in parts))


def _work_out(rows: Rows, seconds: int, now: int, bots: Collection[int]) -> list[StandingRow]:
    since, listed = now - seconds if seconds else 0, ", ".join(map(str, bots))
    found = map(
        _Record._make, rows(RECORDS.format(since=since, since_ms=since * 1000, bots=listed))
    )
    records = {record.bot: record for record in found}
    facts = list(map(_Facts._make, rows(FACTS.format(bots=listed))))
    return [_make(one, records.get(one.bot), seconds) for one in facts]


def _make(facts: _Facts, record: _Record | None, seconds: int) -> StandingRow:
    seen = record and Totals(*(getattr(record, name) for name in Totals._fields))
    totals = seen or Totals()
    is_proven = facts.ownership == "proven" and not (record and record.is_claimed)
    has_gap = bool(facts.coverage and orjson.loads(facts.coverage)["gaps"])
    tiers = [
        find_tier(
            find_reason(seen, facts.ownership is not None, has_gap, by_result),
            seen is not None,
            is_proven,
        )
        for by_result in (True, False)
    ]
    if facts.retired_at is not None and not totals.trades:
        tiers = [HIDDEN, HIDDEN]
    floor = totals.realized - totals.cost_left
    shown = {**totals._asdict(), "floor": floor}
    ends = _find_end(record, seconds)
    return StandingRow(facts.bot, seconds, ends, tiers[0], tiers[1], **shown)


def _find_end(record: _Record | None, seconds: int) -> int:
    """The Unix second from which on the window is another one: something left it."""
    times = [record.left_at, record.given_up_at and record.given_up_at // 1000] if record else []
    known = [time for time in times if time is not None]
    return min(known) + seconds + 1 if seconds and known else NEVER


# ---- stored --------------------------------------------------------------------------------------
def forget_standings(bots: Iterable[int]) -> None:
    """Have the standings of these bots worked out again, in the caller's transaction."""
    Bot.update(standing_at=None).where(Bot.id.in_(list(bots))).execute()


def forget_standings_of(wallet_id: int) -> None:
    """As forget_standings, of the bots that hold or held this wallet."""
    held = Attachment.select(Attachment.bot).where(Attachment.wallet == wallet_id)
    Bot.update(standing_at=None).where(Bot.id.in_(held)).execute()


FORGOTTEN = "SELECT id FROM bot WHERE standing_at IS NULL"
ENDED = "SELECT bot_id FROM standing_total WHERE seconds = {seconds} AND ends <= {now}"


def list_forgotten(rows: Rows, seconds: int, now: int) -> set[int]:
    """The bots whose standing in a window is to be worked out anew; `now` in Unix seconds."""
    sql = f"{FORGOTTEN} UNION {ENDED.format(seconds=seconds, now=now)}"
    return {bot for (bot,) in rows(sql)}


def refresh_standings(now_ms: int) -> int:
    """Work out and store what is to be worked out anew; return of how many bots."""
    now = now_ms // 1000
    with storage.writing():
        found = {
            seconds: sorted(list_forgotten(read_rows, seconds, now))[:MAX_AT_ONCE]
            for seconds in WINDOWS
        }
        for seconds, bots in found.items():
            _store(work_out(read_rows, seconds, now, bots))
        # Of all time nothing ends: these were forgotten, and are worked out in all windows.
        done = [bot for bot in found[0] if all(bot in bots for bots in found.values())]
        for part in storage.in_parts(done):
            Bot.update(standing_at=now_ms).where(Bot.id.in_(part)).execute()
    return len(set().union(*found.values()))


def _store(standings: Iterable[StandingRow]) -> None:
    for part in storage.in_parts(standings):
        StandingTotal.insert_many([one._asdict() for one in part]).on_conflict(
            conflict_target=[StandingTotal.bot, StandingTotal.seconds], preserve=COLUMNS[2:]
        ).execute()
