"""What a log says of the one before it. Reads the database alone."""

from typing import Any

import orjson

from evidence import log


def read_opening(one: log.LogRow) -> dict[str, Any] | None:
    """Return what a log's first leaf says of the log before it: `log`, `size`, `root`, `kept` and
    `why`; None for the first log.
    """
    previous: dict[str, Any] | None = orjson.loads(log.read_leaves(one, 0, 1)[0])["previous"]
    return previous


def list_openings() -> list[dict[str, Any]]:
    """List what each log says of the one before it, the newest first."""
    told = (read_opening(one) for one in reversed(log.list_logs()))
    return [previous for previous in told if previous]
