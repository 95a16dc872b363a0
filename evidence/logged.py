"""Which leaf of the log last held a digest of what is claimed of a wallet."""

from typing import Any

import orjson

from storage import database

# The newest first; members of a leaf are sorted.
FIND = """
SELECT f.data, f.id - l.first_leaf, l.uid
FROM log_leaf f JOIN log l ON l.id = (SELECT MAX(id) FROM log WHERE first_leaf <= f.id)
WHERE f.data LIKE ? ORDER BY f.id DESC LIMIT 1"""


def show_logged(address: str) -> dict[str, Any] | None:
    """The last such leaf of a wallet: the log, its index there, the digest; None without one."""
    like = f'%"kind":"evidence"%"wallet":"{address}"%'
    row = database.execute_sql(FIND, (like,)).fetchone()
    if row is None:
        return None
    data, index, log = row
    leaf = orjson.loads(data)
    return {"log": log, "leaf": index, "digest": leaf["digest"], "loggedAtMs": leaf["at"]}
