"""Compare the stored standings of bots with what their wallets did."""

from collections.abc import Iterator

from chain.stored.standings import BOARDS, Board, StandingRow, list_forgotten, work_out
from operate.differences import UNREADABLE, Difference
from operate.readers import Reader


def check_standings(reader: Reader, now: int) -> Iterator[Difference]:
    """Differences in any window; what is to be worked out anew is left out. `now` in ms."""
    for board in BOARDS:
        try:
            yield from _check_board(reader, board, now // 1000)
        except UNREADABLE:
            # What is unreadable is reported where it stands.
            continue


COLUMNS = ", ".join(("bot_id", *StandingRow._fields[1:]))


def _check_board(reader: Reader, board: Board, now: int) -> Iterator[Difference]:
    sql = (
        f"SELECT {COLUMNS} FROM standing_total WHERE record = '{board.record}'"
        f" AND money = '{board.money}' AND seconds = {board.seconds} ORDER BY bot_id"
    )
    waiting = list_forgotten(reader.rows, board, now)
    stored = [one for one in map(StandingRow._make, reader.rows(sql)) if one.bot not in waiting]
    bots = [one.bot for one in stored]
    right = {one.bot: one for one in work_out(reader.rows, board, now, bots)}
    for one in stored:
        if one != right.get(one.bot):
            what = f"is {one}, its wallets say {right.get(one.bot)}"
            yield Difference("standing_total", what, field=f"bot {one.bot}, {board}")
