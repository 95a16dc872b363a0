"""Compare the stored standings of bots with what their wallets did."""

from collections.abc import Iterator

from chain.stored.ranks import IN_SOL, StandingRow
from chain.stored.standing_store import BOARDS, QUOTE_BOARDS, list_forgotten, work_out
from operate.differences import UNREADABLE, Difference
from operate.readers import Reader


def check_standings(reader: Reader, now: int) -> Iterator[Difference]:
    """Differences in any window; what is to be worked out anew is left out. `now` in ms."""
    boards = [(record, IN_SOL, seconds) for record, seconds in BOARDS]
    for record, quote, seconds in (*boards, *QUOTE_BOARDS):
        try:
            yield from _check_window(reader, record, quote, seconds, now // 1000)
        except UNREADABLE:
            # What is unreadable is reported where it stands.
            continue


def _check_window(
    reader: Reader, record: str, quote: str, seconds: int, now: int
) -> Iterator[Difference]:
    columns = ", ".join(("bot_id", *StandingRow._fields[1:]))
    sql = (
        f"SELECT {columns} FROM standing_total"
        f" WHERE record = '{record}' AND quote = '{quote}' AND seconds = {seconds} ORDER BY bot_id"
    )
    waiting = list_forgotten(reader.rows, record, seconds, now, quote)
    stored = [one for one in map(StandingRow._make, reader.rows(sql)) if one.bot not in waiting]
    bots = [one.bot for one in stored]
    right = {one.bot: one for one in work_out(reader.rows, record, seconds, now, bots, quote)}
    for one in stored:
        if one != right.get(one.bot):
            what = f"is {one}, its wallets say {right.get(one.bot)}"
            yield Difference(
                "standing_total", what, field=f"bot {one.bot}, {record}, {seconds} seconds"
            )
