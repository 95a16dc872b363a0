"""Figures of paper mode under the names that the interface has for them."""

from collections.abc import Mapping, Sequence
from typing import Any

from web.api.serialize import Json, show_sol

# What every interval is.
INTERVAL = {"method": "clustered bootstrap", "level": 95}
# Of a performance, in this order.
ACCOUNT_FIGURES = (
    *("maxDrawdownPct", "sharpeDaily", "sortinoDaily", "expectancySol", "profitFactor"),
    *("exposurePct", "feeShare"),
)


def name_interval(figures: Mapping[str, Any]) -> Json:
    """Return figures with what their intervals are; those of what is beside them, too. Stored ones
    say it in words.
    """
    shown = {**figures, "interval": INTERVAL}
    beside = figures.get("randomEntry")
    return {**shown, "randomEntry": name_interval(beside)} if beside else shown


def show_at_cost(at_costs: Sequence[Json]) -> Json:
    """Make the AtCost: {"1x": what closes came to at their costs, "2x": at twice these, ...}."""
    return {
        f"{one['costs']}x": {name: value for name, value in one.items() if name != "costs"}
        for one in at_costs
    }


def list_fill_errors(venues: Sequence[Json]) -> list[Json]:
    """Make the FillErrors of VenueErrors."""
    return [
        {
            "venue": one["venue"],
            "medianBps": one["medianErrorBps"],
            "p90Bps": one["p90ErrorBps"],
            "receipts": one["receipts"],
            "eligible": one["eligible"],
        }
        for one in venues
    ]


def show_account_figures(metrics: Json | None) -> Json:
    """Make what a performance tells of an account, out of its PaperMetrics; nulls without them."""
    if metrics is None:
        return dict.fromkeys(ACCOUNT_FIGURES)
    expectancy, exposure = metrics["expectancyLamports"], metrics["exposure"]
    return {
        "maxDrawdownPct": metrics["maxDrawdownPct"],
        "sharpeDaily": metrics["sharpePerDay"],
        "sortinoDaily": metrics["sortinoPerDay"],
        "expectancySol": None if expectancy is None else show_sol(int(expectancy)),
        "profitFactor": metrics["profitFactor"],
        "exposurePct": None if exposure is None else round(100 * exposure, 2),
        "feeShare": metrics["feeShare"],
    }
