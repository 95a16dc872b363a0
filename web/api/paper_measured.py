"""What real fills of this instance's own receipts say of the fill model, as JSON."""

from typing import Any

from paper import measured, measured_store
from paper.fills import MODEL, RECORDED_COSTS, RENT
from paper.measured import VenueError
from paper.venues import VENUES
from web.api.serialize import show_time

Json = dict[str, Any]
NOTE = (
    "Each swap of an observed wallet beside what the model said of it on the market snapshot"
    " before. Closes count only at venues with at least 10 receipts, nine in ten of which are"
    " within 3%."
)
# When the recorded transactions were read.
RECORDED_AT = "2026-11-22T00:00:00.000Z"


def show_measured(now: int) -> Json:
    """Make the MeasuredFills. `now`: ms."""
    return {
        "model": MODEL,
        "venues": show_venues(measured_store.list_errors(now)),
        "networkCosts": show_costs(),
        "minReceipts": measured.MIN_RECEIPTS,
        "maxErrorBps": measured.MAX_ERROR_BPS,
        "note": NOTE,
    }


def show_venues(found: list[VenueError]) -> list[Json]:
    """Make the VenueErrors: of each venue the model fits, and of others with receipts."""
    known = {one.venue: one for one in found}
    return [show_venue(venue, known.get(venue)) for venue in sorted({*VENUES, *known})]


def show_venue(venue: str, error: VenueError | None) -> Json:
    """Make the VenueError of a venue; None: nothing is known of its real fills."""
    return {
        "venue": venue,
        "receipts": error.receipts if error else 0,
        "medianErrorBps": error.median_bps if error else None,
        "p90ErrorBps": error.p90_bps if error else None,
        "source": error.source if error else None,
        "since": show_time(error.since) if error and error.since else None,
        "eligible": bool(error and error.is_eligible),
    }


def show_costs() -> Json:
    """Make the NetworkCosts: of this instance's own receipts, or the recorded ones."""
    row = measured_store.find_costs()
    costs = row or RECORDED_COSTS
    return {
        "p50Lamports": str(costs.p50),
        "p75Lamports": str(costs.p75),
        "p90Lamports": str(costs.p90),
        "rentLamports": str((row and row.rent) or RENT),
        "receipts": row.receipts if row else measured.RECORDED_RECEIPTS,
        "source": "own" if row else "recorded",
        "measuredAt": show_time(row.at) if row else RECORDED_AT,
        "since": show_time(row.since) if row else None,
    }
