"""What a webhook is told of other owners' bots: what the chain shows, and nothing else. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from chain.stored.verify import judge

LABELS = ("verified", "mismatch")
# A history that has a gap, or none.
STATES = ("partial", "complete")


class Shared(NamedTuple):
    """An event as followers get it: a kind of accounts.hooks.PUBLIC_EVENTS, and what is shown."""

    kind: str
    shown: Mapping[str, Any]


def share(kind: str, shown: Mapping[str, Any]) -> Shared | None:
    """Return what followers get of an event: a verified trade, a post whose label is verified or
    mismatch, or a gap in the history that was found or closed. None for everything else.
    """
    if kind == "trade":
        return Shared(kind, shown) if _is_verified(shown) else None
    if kind == "coverage":
        coverage = shown["coverage"]
        return Shared(kind, shown) if coverage and coverage["state"] in STATES else None
    verification = shown["verification"]
    # A label that changed later is an event of its own.
    is_judged = kind == "verification" or verification["checkedAt"] == shown["createdAt"]
    if shown["hiddenAt"] or verification["status"] not in LABELS or not is_judged:
        return None
    # Its owner's key is nobody else's business.
    provenance = {**shown["provenance"], "keyId": None}
    return Shared("verification", {**shown, "provenance": provenance})


def _is_verified(trade: Mapping[str, Any]) -> bool:
    """Whether a post about this trade would be verified."""
    return judge(trade["kind"], trade["flags"], (), None, trade["explainedShare"])[0] == "verified"
