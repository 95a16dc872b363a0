"""The curves of a paper account: equity, the fall below its highest, and what was in positions."""

import itertools
from collections.abc import Sequence
from decimal import Decimal

from chain.amounts import sol
from web.api.paper_equity import EquityPoint, SharePoint
from web.site.charts import Curve, Step, TimedTrade, draw_curve
from web.site.figures import write_tokens


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
