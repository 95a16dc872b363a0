"""Which of a transaction's token changes passed through its venue. Pure; docs/verified.md."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Change(NamedTuple):
    """A token's balance change in signed raw units."""

    mint: str
    raw: int
    decimals: int


def list_venue_changes(
    whole: Iterable[Sequence[Any]], beside: Iterable[Sequence[Any]]
) -> list[Change]:
    """Return a transaction's changes minus those outside its venue, without zeros.

    Rows: (mint, raw change as a number or text, decimals). A token that was bought and sent on is
    only in `beside`, but it did pass through the venue.
    """
    raws: dict[str, int] = {}
    places: dict[str, int] = {}
    for sign, rows in ((1, whole), (-1, beside)):
        for mint, raw, decimals in rows:
            raws[mint] = raws.get(mint, 0) + sign * int(raw)
            places.setdefault(mint, decimals)
    return [Change(mint, raw, places[mint]) for mint, raw in raws.items() if raw]
