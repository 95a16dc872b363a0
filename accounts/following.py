"""Events of other owners' bots for webhooks: only what the chain shows. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from chain.stored.verify import judge

LABELS = ("verified", "mismatch")
# A history with or without a gap.
STATES = ("partial", "complete")


class Shared(NamedTuple):
    """An event for followers: its kind (accounts.hooks.PUBLIC_EVENTS) and its content."""

    kind: str
    shown: Mapping[str, Any]


def share(kind: str, shown: Mapping[str, Any]) -> Shared | None:
    """Return an event's public version: a verified trade, a post labeled verified or mismatch, or a
    gap in the history that was found or closed. Return None for other events.
    """
    if kind == "trade":
        return Shared(kind, shown) if _is_verified(shown) else None
    if kind == "coverage":
        coverage = shown["coverage"]
        return Shared(kind, shown) if coverage and coverage["state"] in STATES else None
    verification = shown["verification"]
    # A later label change is a separate event.
    is_judged = kind == "verification" or verification["checkedAt"] == shown["createdAt"]
    if shown["hiddenAt"] or verification["status"] not in LABELS or not is_judged:
        return None
    # Only the bot's owner may know the key.
    provenance = {**shown["provenance"], "keyId": None}
    return Shared("verification", {**shown, "provenance": provenance})


def _is_verified(trade: Mapping[str, Any]) -> bool:
    """Whether a post about this trade would be verified."""
    return judge(trade["kind"], trade["flags"], (), None, trade["explainedShare"])[0] == "verified"
