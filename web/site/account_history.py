"""The pictures of a paper account: equity, the fall below its highest, and results by what closes
share.
"""

from collections.abc import Sequence
from typing import NamedTuple

from paper.account import Close
from paper.guard import DAY_MS
from paper.metrics import Group, Mark
from web.api.paper_equity import AccountHistory, EquityPoint, read_history
from web.site.charts import Curve, TimedTrade, draw_equity, draw_falls

# More points than these are drawn by every so-manieth.
MAX_DRAWN = 400
MAX_GROUPS = 12


class DayLine(NamedTuple):
    """A UTC day. `at`: Unix seconds; `equity`, `held`, `net`: lamports at its end, in positions
    then (None where nobody noted it), and of its closes.
    """

    at: int
    equity: int | None
    held: int | None
    closes: int
    net: int


class AccountPicture(NamedTuple):
    """What a trader's page shows of its open account. `over`: lamports above what holding the SOL
    it began with had left it.
    """

    equity: Curve | None
    falls: Curve | None
    over: int
    days: list[DayLine]
    tokens: list[Group]
    reasons: list[Group]


def draw_account(uid: str, until: int) -> AccountPicture | None:
    """Draw a trader's open account up to `until` (ms); None for an unknown trader."""
    history = read_history(uid)
    if history is None:
        return None
    points = thin_out(history.list_points(until))
    return AccountPicture(
        draw_equity(points, until, list_trades(history.closes)),
        draw_falls(points, until),
        points[-1].lamports - history.start,
        list_days(history),
        history.group("mint")[:MAX_GROUPS],
        history.group("reason"),
    )


def thin_out(points: list[EquityPoint]) -> list[EquityPoint]:
    """Return every so-manieth point, and the last."""
    chosen = points[:: -(-len(points) // MAX_DRAWN)]
    return chosen if chosen[-1] is points[-1] else [*chosen, points[-1]]


def list_trades(closes: Sequence[Close]) -> list[TimedTrade]:
    """List when positions were opened and closed, as marks of the curve."""
    opened = [TimedTrade(one.opened_at // 1000, "buy", one.spent) for one in closes]
    closed = [
        TimedTrade(one.closed_at // 1000, "gain" if one.net > 0 else "loss", one.net)
        for one in closes
    ]
    return [*opened, *closed]


def list_days(history: AccountHistory) -> list[DayLine]:
    """List the days with a mark or a close, the newest first."""
    marks = {one.at // DAY_MS: one for one in history.marks}
    closes: dict[int, list[Close]] = {}
    for close in history.closes:
        closes.setdefault(close.closed_at // DAY_MS, []).append(close)
    return [
        _make_day(day, marks.get(day), closes.get(day, []))
        for day in sorted({*marks, *closes}, reverse=True)
    ]


def _make_day(day: int, mark: Mark | None, closes: Sequence[Close]) -> DayLine:
    return DayLine(
        day * DAY_MS // 1000,
        mark.equity if mark else None,
        mark.held if mark else None,
        len(closes),
        sum(one.net for one in closes),
    )
