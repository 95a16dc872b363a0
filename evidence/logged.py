"""Which leaf of the log last held a digest of what is claimed of a wallet."""

from typing import Any, NamedTuple

import orjson

from evidence.tables import LoggedWallet
from storage import database, write_rows
from storage.arrivals import append_leaf

LOGGED = """
SELECT f.data, f.id - l.first_leaf, l.uid, g.wallet_id
FROM logged_wallet g JOIN log_leaf f ON f.id = g.leaf_id
JOIN log l ON l.id = (SELECT MAX(id) FROM log WHERE first_leaf <= f.id)"""


class LoggedRow(NamedTuple):
    """A leaf, where it is, and the wallet of which it is the last."""

    data: str
    place: int
    log: str
    wallet: int


RECORDS = "SELECT COUNT(*) FROM attachment WHERE wallet_id = ? AND open_positions IS NOT NULL"


def append_digest(wallet_id: int, address: str, digest: str, now: int) -> None:
    """Append a digest of a wallet's evidence to the log, inside a transaction; `now` in ms. It says
    how many records the wallet has, which never become fewer.
    """
    ((records,),) = database.execute_sql(RECORDS, (wallet_id,)).fetchall()
    leaf = append_leaf("evidence", now, wallet=address, digest=digest, records=records)
    write_rows(LoggedWallet, [{"wallet": wallet_id, "leaf_id": leaf.id}], ("wallet",))


def show_logged(wallet_id: int) -> dict[str, Any] | None:
    """The last such leaf of a wallet: the log, its index there, the digest; None without one."""
    found = database.execute_sql(f"{LOGGED} WHERE g.wallet_id = ?", (wallet_id,)).fetchone()
    if found is None:
        return None
    row = LoggedRow(*found)
    leaf = orjson.loads(row.data)
    return {
        "log": row.log,
        "leaf": row.place,
        "digest": leaf["digest"],
        "loggedAtMs": leaf["at"],
    }


def list_logged() -> dict[int, str]:
    """{number of a wallet: the digest that was logged last}."""
    rows = [LoggedRow(*row) for row in database.execute_sql(LOGGED).fetchall()]
    return {row.wallet: orjson.loads(row.data)["digest"] for row in rows}
