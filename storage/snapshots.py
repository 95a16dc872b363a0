"""One state of a database for several queries, by whatever connection they are asked."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

BEGIN_SQLITE = "BEGIN DEFERRED"
BEGIN_POSTGRESQL = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


@contextlib.contextmanager
def hold(execute: Callable[[str], Any], begin: str) -> Iterator[None]:
    """Hold one state of the database inside, for the queries of the connection of `execute`."""
    execute(begin)
    try:
        yield
    finally:
        execute("ROLLBACK")
