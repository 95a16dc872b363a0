"""What a write carries with it, in the transaction that makes it true: its place in the order of
arrival.
"""

from collections.abc import Iterable
from typing import Any

from storage import database, in_parts


def store_arrival(kind: str, **what: Any) -> None:
    """Tell followers of a `post`, `trade` or `verification`; `what` names the row by its id."""
    columns = ["kind", *(f"{name}_id" for name in what)]
    values = [kind, *(getattr(row, "id", row) for row in what.values())]
    marks = ", ".join("?" * len(columns))
    database.execute_sql(f"INSERT INTO arrival ({', '.join(columns)}) VALUES ({marks})", values)


def store_trade_arrivals(ids: Iterable[int]) -> None:
    """Tell followers of new trades, in the order of these ids."""
    for part in in_parts(ids):
        marks = ", ".join(["('trade', ?)"] * len(part))
        database.execute_sql(f"INSERT INTO arrival (kind, trade_id) VALUES {marks}", part)
