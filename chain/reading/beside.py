"""Which token changes of a transaction passed through its venue. Pure; docs/verified.md."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Change(NamedTuple):
    """What moved of a token: signed raw units."""

    mint: str
    raw: int
    decimals: int


def list_venue_changes(
    whole: Iterable[Sequence[Any]], beside: Iterable[Sequence[Any]]
) -> list[Change]:
    """Changes of a whole transaction less those beside its venue, without zeros. Rows: (mint, raw
    change as a number or text, decimals). What was bought and sent on is only in `beside`, yet it
    passed through the venue.
    """
    raws: dict[str, int] = {}
    places: dict[str, int] = {}
    for sign, rows in ((1, whole), (-1, beside)):
        for mint, raw, decimals in rows:
            raws[mint] = raws.get(mint, 0) + sign * int(raw)
            places.setdefault(mint, decimals)
    return [Change(mint, raw, places[mint]) for mint, raw in raws.items() if raw]
