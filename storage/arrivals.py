"""The order of arrival, in which followers receive posts, trades and moved verifications.

An arrival is written in the transaction that makes it true.
"""

from collections.abc import Iterable
from typing import Any

from storage import database, in_parts


def store_arrival(kind: str, **what: Any) -> None:
    """Insert the arrival of a `post`, `trade` or `verification`.

    `what` names the row it is about, `post=` or `trade=`, as a model or an id.
    """
    columns = ["kind", *(f"{name}_id" for name in what)]
    values = [kind, *(getattr(row, "id", row) for row in what.values())]
    marks = ", ".join("?" * len(columns))
    database.execute_sql(f"INSERT INTO arrival ({', '.join(columns)}) VALUES ({marks})", values)


def store_trade_arrivals(ids: Iterable[int]) -> None:
    """Insert the arrivals of new trades, in the order of these ids."""
    for part in in_parts(ids):
        marks = ", ".join(["('trade', ?)"] * len(part))
        database.execute_sql(f"INSERT INTO arrival (kind, trade_id) VALUES {marks}", part)
