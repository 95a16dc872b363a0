"""What each bot did, of all time and in windows, kept ready to be ranked: a list of the best is
read by an index, however many bots there are.

Whoever changes what a standing is made of forgets it; the observer works it out again at the end of
each pass, and until then whoever reads works it out alone.
"""

from collections.abc import Collection, Iterable
from itertools import chain as join
from typing import Any

import storage
from chain import forward_standings, whole_standings
from chain.ranks import ALL, FORWARD, Rows, StandingRow
from chain.tables import StandingTotal
from models import Bot

# Windows in seconds; 0 is all time.
WINDOWS = (0, 86_400, 604_800, 2_592_000)
# Of each record its windows.
BOARDS = tuple((record, seconds) for record in (FORWARD, ALL) for seconds in WINDOWS)
# So many are worked out in a transaction, for which others wait.
MAX_AT_ONCE = 200
WORK_OUT = {FORWARD: forward_standings.work_out, ALL: whole_standings.work_out}


def read_rows(sql: str) -> list[tuple[Any, ...]]:
    """Run a statement of this database."""
    found: list[tuple[Any, ...]] = storage.database.execute_sql(sql).fetchall()
    return found


def work_out(
    rows: Rows, record: str, seconds: int, now: int, bots: Collection[int]
) -> list[StandingRow]:
    """The standings of these bots in a window that ends now (Unix second)."""
    parts = storage.in_parts(sorted(bots))
    return list(join.from_iterable(WORK_OUT[record](rows, seconds, now, part) for part in parts))


# ---- stored --------------------------------------------------------------------------------------
def forget_standings(bots: Iterable[int]) -> None:
    """Have the standings of these bots worked out again, in the caller's transaction."""
    Bot.update(standing_at=None).where(Bot.id.in_(list(bots))).execute()


FORGET = """
UPDATE bot SET standing_at = NULL WHERE standing_at IS NOT NULL
AND id IN (SELECT bot_id FROM attachment WHERE wallet_id = ?)"""


def forget_standings_of(wallet_id: int) -> None:
    """As forget_standings, of the bots that hold or held this wallet."""
    storage.database.execute_sql(FORGET, (wallet_id,))


FORGOTTEN = "SELECT id FROM bot WHERE standing_at IS NULL"
ENDED = """SELECT bot_id FROM standing_total
WHERE record = '{record}' AND quote = '' AND seconds = {seconds} AND ends <= {now}"""


def list_forgotten(rows: Rows, record: str, seconds: int, now: int) -> set[int]:
    """The bots whose standing in a window is to be worked out anew; `now` in Unix seconds."""
    sql = f"{FORGOTTEN} UNION {ENDED.format(record=record, seconds=seconds, now=now)}"
    return {bot for (bot,) in rows(sql)}


def refresh_standings(now_ms: int) -> int:
    """Work out and store what is to be worked out anew; return of how many bots."""
    count = 0
    while done := _refresh_some(now_ms):
        count += done
    return count


def _refresh_some(now_ms: int) -> int:
    now = now_ms // 1000
    with storage.writing():
        found = {
            board: sorted(list_forgotten(read_rows, *board, now))[:MAX_AT_ONCE] for board in BOARDS
        }
        for board, bots in found.items():
            _store(work_out(read_rows, *board, now, bots))
        # Of all time nothing ends: these were forgotten, and are worked out in all windows.
        done = [bot for bot in found[FORWARD, 0] if all(bot in bots for bots in found.values())]
        for part in storage.in_parts(done):
            Bot.update(standing_at=now_ms).where(Bot.id.in_(part)).execute()
    return len(set().union(*found.values()))


def _store(standings: Iterable[StandingRow]) -> None:
    rows = [one._asdict() for one in standings]
    storage.write_rows(StandingTotal, rows, ("bot", "record", "quote", "seconds"))
