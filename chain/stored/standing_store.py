"""What each bot did, of all time and in windows, kept ready to be ranked: a list of the best is
read by an index, however many bots there are.

Whoever changes what a standing is made of forgets it; the observer works it out again at the end of
each pass, and until then whoever reads works it out alone.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain as join
from typing import Any

import storage
from chain.reading.quotes import QUOTES
from chain.stored import forward_standings, quote_standings, whole_standings
from chain.stored.ranks import ALL, FORWARD, IN_SOL, Rows, StandingRow
from chain.stored.tables import StandingTotal
from models import Bot

# Windows in seconds; 0 is all time.
WINDOWS = (0, 86_400, 604_800, 2_592_000)
# Of each record its windows.
BOARDS = tuple((record, seconds) for record in (FORWARD, ALL) for seconds in WINDOWS)
# This many are worked out in one transaction, for which other writers wait.
MAX_AT_ONCE = 200
# The same boards in each stablecoin: (record, mint, seconds).
QUOTE_BOARDS = tuple(
    (record, quote.mint, seconds) for quote in QUOTES for record, seconds in BOARDS
)
WORK_OUT = {FORWARD: forward_standings.work_out, ALL: whole_standings.work_out}
WORK_OUT_QUOTE = {
    FORWARD: quote_standings.work_out_forward,
    ALL: quote_standings.work_out_whole,
}


def read_rows(sql: str) -> list[tuple[Any, ...]]:
    """Run a statement of this database."""
    found: list[tuple[Any, ...]] = storage.database.execute_sql(sql).fetchall()
    return found


def work_out(
    rows: Rows, record: str, seconds: int, now: int, bots: Collection[int], quote: str = IN_SOL
) -> list[StandingRow]:
    """The standings of these bots in a window that ends now (Unix second); in a stablecoin, of
    those that have a ledger in it.
    """
    parts = storage.in_parts(sorted(bots))
    if quote == IN_SOL:
        found = (WORK_OUT[record](rows, seconds, now, part) for part in parts)
    else:
        found = (WORK_OUT_QUOTE[record](rows, quote, seconds, now, part) for part in parts)
    return list(join.from_iterable(found))


# ---- stored --------------------------------------------------------------------------------------
def forget_standings(bots: Iterable[int]) -> None:
    """Have the standings of these bots worked out again, in the caller's transaction."""
    Bot.update(standing_at=None).where(Bot.id.in_(list(bots))).execute()


FORGET = """
UPDATE bot SET standing_at = NULL WHERE standing_at IS NOT NULL
AND id IN (SELECT bot_id FROM attachment WHERE wallet_id = ?)"""


def forget_standings_of(wallet_id: int) -> None:
    """Like forget_standings, for the bots that hold or held this wallet."""
    storage.database.execute_sql(FORGET, (wallet_id,))


FORGOTTEN = "SELECT id FROM bot WHERE standing_at IS NULL"
ENDED = """SELECT bot_id FROM standing_total
WHERE record = '{record}' AND quote = '{quote}' AND seconds = {seconds} AND ends <= {now}"""


# Plain SQL: it runs for each board in each stablecoin, after whatever anybody traded.
DROP = """DELETE FROM standing_total
WHERE record = ? AND quote = ? AND seconds = ? AND bot_id IN ({marks})"""


def list_forgotten(
    rows: Rows, record: str, seconds: int, now: int, quote: str = IN_SOL
) -> set[int]:
    """The bots whose standing in a window is to be worked out anew; `now` in Unix seconds."""
    ended = ENDED.format(record=record, quote=quote, seconds=seconds, now=now)
    sql = f"{FORGOTTEN} UNION {ended}"
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
        # An all-time standing never ends: these bots were forgotten, and are worked out in all
        # windows.
        done = [bot for bot in found[FORWARD, 0] if all(bot in bots for bots in found.values())]
        for record, quote, seconds in QUOTE_BOARDS:
            _refresh_quoted(record, quote, seconds, now, done)
        for part in storage.in_parts(done):
            Bot.update(standing_at=now_ms).where(Bot.id.in_(part)).execute()
    return len(set().union(*found.values()))


def _refresh_quoted(record: str, quote: str, seconds: int, now: int, done: Sequence[int]) -> None:
    """Work out the standings in a stablecoin of bots that were forgotten, and of those whose window
    has moved on.
    """
    ended = read_rows(ENDED.format(record=record, quote=quote, seconds=seconds, now=now))
    bots = sorted({*done, *(bot for (bot,) in ended)})
    standings = work_out(read_rows, record, seconds, now, bots, quote)
    _store(standings)
    gone = sorted(set(bots) - {one.bot for one in standings})
    for part in storage.in_parts(gone):
        sql = DROP.format(marks=storage.mark(part))
        storage.database.execute_sql(sql, (record, quote, seconds, *part))


def _store(standings: Iterable[StandingRow]) -> None:
    rows = [one._asdict() for one in standings]
    storage.write_rows(StandingTotal, rows, ("bot", "record", "quote", "seconds"))
