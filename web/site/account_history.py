"""The pictures of a paper account: equity, the fall below its highest, what was in positions, and
results by what closes share.
"""

import itertools
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from chain.amounts import sol
from paper.account import Close
from paper.results import Group, Mark, find_exposure, list_falls
from paper.rules import DAY_MS
from web.api.paper_equity import AccountHistory, EquityPoint, SharePoint, TradeRow, read_history
from web.site.charts import Curve, Step, TimedTrade, draw_curve, thin_out
from web.site.figures import write_tokens

# Of more points than these every nth is drawn, and of marks the newest.
MAX_DRAWN = MAX_MARKED = 400
MAX_GROUPS = 12


class DayLine(NamedTuple):
    """A UTC day. `at`: Unix seconds; `equity`, `fall`, `held`: lamports at its end, below the
    highest so far, and in positions, `exposure` the share of these (None where nobody noted them);
    `net`: of its closes.
    """

    at: int
    equity: int | None
    fall: int | None
    held: int | None
    exposure: float | None
    closes: int
    net: int


class AccountPicture(NamedTuple):
    """What a trader's page shows of its open account. `over`: lamports above what holding the SOL
    it began with had left it.
    """

    equity: Curve | None
    falls: Curve | None
    exposure: Curve | None
    over: int
    days: list[DayLine]
    tokens: list[Group]
    reasons: list[Group]


def draw_account(uid: str, until: int) -> AccountPicture | None:
    """Draw a trader's open account up to `until` (ms); None for an unknown trader."""
    history = read_history(uid)
    if history is None:
        return None
    points = thin_out(history.list_points(until), MAX_DRAWN)
    return AccountPicture(
        draw_equity(points, until, list_marks(history.list_trades(), history.closes)),
        draw_falls(points, until),
        draw_exposure(thin_out(history.list_shares(until), MAX_DRAWN), until),
        points[-1].lamports - history.start,
        list_days(history),
        history.group("mint")[:MAX_GROUPS],
        history.group("reason"),
    )


def list_marks(trades: Sequence[TradeRow], closes: Sequence[Close]) -> list[TimedTrade]:
    """List purchases, sales of a part, and closes, as marks of the curve."""
    filled = [
        TimedTrade(one.at // 1000, "buy" if one.side == "buy" else "part", one.sol)
        for one in trades
        # The sale that closes a position is the close's mark.
        if one.side == "buy" or one.closed_at is None or one.at < one.closed_at
    ]
    closed = [
        TimedTrade(one.closed_at // 1000, "gain" if one.net > 0 else "loss", one.net)
        for one in closes
    ]
    return sorted([*filled, *closed])[-MAX_MARKED:]


def list_days(history: AccountHistory) -> list[DayLine]:
    """List the days with a mark or a close, the newest first."""
    falls = list_falls(history.marks, history.start)
    marks = {
        mark.at // DAY_MS: (mark, one.fall) for mark, one in zip(history.marks, falls, strict=True)
    }
    closes: dict[int, list[Close]] = {}
    for close in history.closes:
        closes.setdefault(close.closed_at // DAY_MS, []).append(close)
    return [
        _make_day(day, marks.get(day), closes.get(day, []))
        for day in sorted({*marks, *closes}, reverse=True)
    ]


def _make_day(day: int, noted: tuple[Mark, int] | None, closes: Sequence[Close]) -> DayLine:
    mark, fall = noted or (None, None)
    return DayLine(
        day * DAY_MS // 1000,
        mark.equity if mark else None,
        None if fall is None else -fall,
        mark.held if mark else None,
        find_exposure([mark]) if mark else None,
        len(closes),
        sum(one.net for one in closes),
    )


def draw_equity(
    points: Sequence[EquityPoint], until: int, trades: Sequence[TimedTrade] = ()
) -> Curve | None:
    """Draw points, given in order, over time up to `until` (ms), with trades as marks; None for
    fewer than two.
    """
    if len(points) < 2:
        return None
    steps = _hold(points, until)
    return draw_curve(steps, points[0].lamports, trades=trades, write_level=write_level)


def draw_falls(points: Sequence[EquityPoint], until: int) -> Curve | None:
    """Draw how far points are below the highest so far; None for fewer than two."""
    if len(points) < 2:
        return None
    peaks = itertools.accumulate((one.lamports for one in points), max)
    falls = [
        one._replace(lamports=one.lamports - peak) for one, peak in zip(points, peaks, strict=True)
    ]
    return draw_curve(_hold(falls, until))


def draw_exposure(points: Sequence[SharePoint], until: int) -> Curve | None:
    """Draw which share of the equity was in positions, up to `until` (ms); None for fewer than two
    points. The first is the opening: until the second, nobody looked.
    """
    if len(points) < 2:
        return None
    steps = _hold([EquityPoint(one.at, one.basis_points) for one in points], until)
    unseen = [(steps[0].begins, steps[0].ends)]
    curve = draw_curve(steps, gaps=unseen, write_level=write_share)
    # Neither good nor bad.
    return curve and curve._replace(
        runs=[run if run.side == "flat" else run._replace(side="held") for run in curve.runs]
    )


def _hold(points: Sequence[EquityPoint], until: int) -> list[Step]:
    """Make steps of points, each of which holds until the next."""
    ends = [*(one.at for one in points[1:]), max(until, points[-1].at)]
    return [
        Step(one.at // 1000, end // 1000, one.lamports)
        for one, end in zip(points, ends, strict=True)
    ]


def write_level(lamports: int) -> str:
    """Write what an account is worth, which is no gain and has no sign."""
    return write_tokens(sol(lamports))


def write_share(basis_points: int) -> str:
    """Write a share of the whole in percent."""
    return f"{write_tokens(str(Decimal(basis_points) / 100))}%"
