"""The closes of twins as they are stored, for the job, its proofs and the pages."""

from collections.abc import Collection
from typing import NamedTuple

from paper.account import Close, read_close


class TwinCloseRow(NamedTuple):
    """A close of a twin, with its trader. `marks` is JSON, money is in lamports, times are ms."""

    period: int
    number: int
    trader_id: int
    family: str
    mint: str
    symbol: str
    opened_at: int
    closed_at: int
    reason: str
    gross: int
    net: int
    spent: int
    pipeline: str
    marks: str


_CLOSES = """
SELECT c.period_id AS period, c.number, t.id AS trader_id, t.family, c.mint, c.symbol, c.opened_at,
       c.closed_at, c.reason, c.gross, c.net, c.spent, c.pipeline, c.marks
FROM twin_close c JOIN period p ON p.id = c.period_id JOIN trader t ON t.id = p.trader_id
WHERE """
OF_PERIOD = f"{_CLOSES} c.period_id = ? ORDER BY c.closed_at, c.id"
SINCE = f"{_CLOSES} c.closed_at >= ? ORDER BY c.closed_at, c.id"


def read_twin_close(ident: str, row: TwinCloseRow, marks: Collection[str]) -> Close:
    """Return the close of a twin that a row stores. No review is opened about a twin: the mark
    `under_review` stands for one.
    """
    return read_close(ident, row, marks, reviewed="under_review" in marks)
