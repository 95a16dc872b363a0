"""What a log says of the one before it. Reads the database alone."""

from typing import Any

from chain.stored import make_object, make_shape, read_stored
from evidence import log

OPENING = make_object(log=str, size=int, root=str, why=str)
FIRST_LEAF = make_shape(make_object(previous=OPENING | None))


def read_opening(one: log.LogRow) -> dict[str, Any] | None:
    """Return what a log's first leaf says of the log before it: `log`, `size`, `root`, `kept` and
    `why`; None for the first log, and where that leaf is damaged, which `doctor` names.
    """
    leaf: dict[str, Any] | None = read_stored(log.read_leaves(one, 0, 1)[0], FIRST_LEAF)
    return leaf["previous"] if leaf else None


def list_openings() -> list[dict[str, Any]]:
    """List what each log says of the one before it, the newest first."""
    told = (read_opening(one) for one in reversed(log.list_logs()))
    return [previous for previous in told if previous]
