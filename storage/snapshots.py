"""A consistent state of the database for several queries, on any connection."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

BEGIN_SQLITE = "BEGIN DEFERRED"
BEGIN_POSTGRESQL = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


@contextlib.contextmanager
def hold(execute: Callable[[str], Any], begin: str) -> Iterator[None]:
    """Keep a snapshot open for the queries of `execute`'s connection."""
    execute(begin)
    try:
        yield
    finally:
        execute("ROLLBACK")
