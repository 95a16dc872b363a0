"""The value of a paper account over time, and the metrics of its closes. All simulated."""

from typing import Any, NamedTuple

from paper.account import Close, read_close
from paper.results import Group, Mark, describe_account, group_closes
from paper.store import MARK_MS
from storage.rows import read_one, select
from web.api.paper_closes import PERIOD_CLOSES, read_compared
from web.api.serialize import show_time

Json = dict[str, Any]


# The open account of a trader; money in lamports, times in ms.
ACCOUNT = """
SELECT p.id AS period_id, p.starting_cash, p.opened_at FROM period p
JOIN trader t ON t.id = p.trader_id WHERE t.uid = ? AND p.closed_at IS NULL AND p.twin = 0"""


MARKS = "SELECT at, equity, held, sol_cents FROM equity_mark WHERE period_id = ? ORDER BY at"


class TradeRow(NamedTuple):
    """A fill of the account. `at`, `closed_at` (of its position, None while it is open): ms; `sol`:
    lamports at the price before it.
    """

    side: str
    at: int
    sol: int
    closed_at: int | None


# The newest first.
TRADES = """
SELECT o.side, f.at, f.mid AS sol, c.closed_at FROM paper_fill f
JOIN paper_order o ON o.id = f.order_id
JOIN position c ON c.period_id = o.period_id AND c.number = f.position
WHERE o.period_id = ? AND f.raw <> '0' ORDER BY f.id DESC LIMIT ?"""
MAX_TRADES = 400


class SharePoint(NamedTuple):
    """The share of the equity that is in positions. `at`: UTC milliseconds."""

    at: int
    basis_points: int


class EquityPoint(NamedTuple):
    """An account's value in lamports. `at`: UTC milliseconds."""

    at: int
    lamports: int


class AccountHistory(NamedTuple):
    """An open account: its values, oldest first, and its closes. `start`: lamports."""

    period_id: int
    start: int
    opened_at: int
    marks: list[Mark]
    closes: list[Close]

    def show_metrics(self) -> Json:
        """Closes of every model count, as they do in the equity."""
        found = describe_account(self.marks, self.closes, self.start)
        dates = {name: show_time(found[name]) for name in ("drawdownFrom", "drawdownTo")}
        return {**found, **dates, "simulated": True}

    def list_points(self, until: int) -> list[EquityPoint]:
        """List the equity up to `until` (ms): before the first mark, by closes. A mark is dated at
        the end of its interval.
        """
        total, first = self.start, self.marks[0].at if self.marks else None
        points = [EquityPoint(self.opened_at, total)]
        for close in self.closes:
            if first is None or close.closed_at < first:
                total += close.net
                points.append(EquityPoint(close.closed_at, total))
        return [
            *points,
            *(EquityPoint(min(one.at + MARK_MS, until), one.equity) for one in self.marks),
        ]

    def list_shares(self, until: int) -> list[SharePoint]:
        """List the share of the equity in positions up to `until` (ms)."""
        shares = [
            SharePoint(min(one.at + MARK_MS, until), 10_000 * one.held // one.equity)
            for one in self.marks
            if one.equity > 0
        ]
        return [SharePoint(self.opened_at, 0), *shares]

    def list_trades(self) -> list[TradeRow]:
        return select(TradeRow, TRADES, (self.period_id, MAX_TRADES))

    def group(self, by: str) -> list[Group]:
        return group_closes(self.closes, by)


def read_history(uid: str) -> AccountHistory | None:
    """Return the history of a trader's open account, or None."""
    account = read_one(ACCOUNT, (uid,))
    if account is None:
        return None
    return AccountHistory(
        account.period_id,
        account.starting_cash,
        account.opened_at,
        select(Mark, MARKS, (account.period_id,)),
        # The account's metrics don't identify a close, and all are withheld during a review.
        [
            read_close("", row, row.marks or (), reviewed=False)
            for row in read_compared(PERIOD_CLOSES, account.period_id)
        ],
    )
