"""What a hook is told of other owners' bots: what the chain shows, and nothing else. Pure."""

from collections.abc import Mapping
from typing import Any

from chain.stored.verify import judge
from notify.messages import Event

LABELS = ("verified", "mismatch")
# A history that is complete, or that has a gap.
STATES = ("partial", "complete")


def share(event: Event) -> Event | None:
    """Return an event as followers get it: a verified trade, a post whose label is verified or
    mismatch, or a gap in the history that was found or closed. None for everything else.
    """
    shown = event.shown
    if shown is None:
        return None
    if event.kind == "trade":
        return event if _is_verified(shown) else None
    if event.kind == "coverage":
        coverage = shown["coverage"]
        return event if coverage and coverage["state"] in STATES else None
    verification = shown["verification"]
    # A label that changed later is an event of its own.
    is_judged = event.kind == "verification" or verification["checkedAt"] == shown["createdAt"]
    if shown["hiddenAt"] or verification["status"] not in LABELS or not is_judged:
        return None
    # Its owner's key is nobody else's business.
    public = {**shown, "provenance": {**shown["provenance"], "keyId": None}}
    return event._replace(kind="verification", shown=public)


def _is_verified(trade: Mapping[str, Any]) -> bool:
    """Whether a post about this trade would be verified."""
    return judge(trade["kind"], trade["flags"], (), None, trade["explainedShare"])[0] == "verified"
