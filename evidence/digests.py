"""Log a digest of each wallet's claims, at most hourly and only if it changed, so that later
changes to evidence are detectable.
"""

import hashlib
from typing import Any

import orjson

from chain.stored.attachments import HELD
from evidence.document import digest_wallet
from evidence.tables import LoggedWallet
from storage import database, read_rows, write_rows, writing
from storage.arrivals import append_leaf
from storage.rows import make_object, make_shape, read_stored

# Columns of a wallet that change with every publication.
STATES = f"""
SELECT id, address, coverage, results, positions, reconciliation
FROM wallet WHERE id IN {HELD} ORDER BY id"""
RECORDS = "SELECT COUNT(*) FROM attachment WHERE wallet_id = ? AND open_positions IS NOT NULL"
LEAF = make_shape(make_object(digest=str, at=int))
LOGGED = """
SELECT g.wallet_id, f.data, l.uid, f.id - l.first_leaf
FROM logged_wallet g JOIN log_leaf f ON f.id = g.leaf_id
JOIN log l ON l.id = (SELECT MAX(id) FROM log WHERE first_leaf <= f.id)"""


class DigestLog:
    """Remembers each wallet's last logged digest and the state of its row at that time."""

    def __init__(self) -> None:
        self._logged: dict[int, str] | None = None
        self._states: dict[int, bytes] = {}

    def run_tick(self, now: int) -> tuple[None, None]:
        """Log a digest for each attached wallet whose digest changed; `now` in ms."""
        if self._logged is None:
            rows = database.execute_sql(LOGGED).fetchall()
            leaves = {number: read_stored(data, LEAF) for number, data, *_ in rows}
            self._logged = {number: leaf["digest"] for number, leaf in leaves.items() if leaf}
        for number, address, *texts in database.execute_sql(STATES).fetchall():
            # Its text is tens of kilobytes per wallet.
            state = hashlib.sha256(orjson.dumps(texts)).digest()
            if texts[0] is None or self._states.get(number) == state:
                continue
            digest = digest_wallet(number)
            if self._logged.get(number) != digest:
                with writing():
                    append_digest(number, address, digest, now)
            self._logged[number], self._states[number] = digest, state
        return None, None


def append_digest(wallet_id: int, address: str, digest: str, now: int) -> None:
    """Log a digest of a wallet's evidence, inside a transaction; `now` in ms. The leaf includes the
    number of the wallet's records, which never decreases.
    """
    ((records,),) = database.execute_sql(RECORDS, (wallet_id,)).fetchall()
    leaf = append_leaf("evidence", now, wallet=address, digest=digest, records=records)
    write_rows(LoggedWallet, [{"wallet": wallet_id, "leaf_id": leaf.id}], ("wallet",))


def show_logged(wallet_id: int) -> dict[str, Any] | None:
    """Return a wallet's last such leaf: its log, index and digest; None without one, or if it is
    damaged.
    """
    for _, data, log, place in read_rows(f"{LOGGED} WHERE g.wallet_id = {wallet_id}"):
        if leaf := read_stored(data, LEAF):
            return {"log": log, "leaf": place, "digest": leaf["digest"], "loggedAtMs": leaf["at"]}
    return None
