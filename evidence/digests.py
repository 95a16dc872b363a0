"""Log what is claimed of each wallet, as a digest, at most hourly and if it changed: a document of
evidence can't be changed afterwards without being seen.
"""

import hashlib
from typing import Any

import orjson

from chain.stored.attachments import HELD
from evidence.document import digest_wallet
from evidence.tables import LoggedWallet
from storage import database, write_rows, writing
from storage.arrivals import append_leaf

# What of a wallet's row moves with every publication.
STATES = f"""
SELECT id, address, coverage, results, positions, reconciliation
FROM wallet WHERE id IN {HELD} ORDER BY id"""
RECORDS = "SELECT COUNT(*) FROM attachment WHERE wallet_id = ? AND open_positions IS NOT NULL"
LOGGED = """
SELECT g.wallet_id, f.data, l.uid, f.id - l.first_leaf
FROM logged_wallet g JOIN log_leaf f ON f.id = g.leaf_id
JOIN log l ON l.id = (SELECT MAX(id) FROM log WHERE first_leaf <= f.id)"""


class DigestLog:
    """Remembers which digest of a wallet was logged last, and of which state of its row it was."""

    def __init__(self) -> None:
        self._logged: dict[int, str] | None = None
        self._states: dict[int, bytes] = {}

    def run_tick(self, now: int) -> tuple[None, None]:
        """Append a leaf for each wallet that a bot holds and whose digest changed; `now` in ms."""
        if self._logged is None:
            rows = database.execute_sql(LOGGED).fetchall()
            self._logged = {number: orjson.loads(data)["digest"] for number, data, *_ in rows}
        for number, address, *texts in database.execute_sql(STATES).fetchall():
            # Its text takes tens of kilobytes a wallet.
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
    """Append a digest of a wallet's evidence to the log, inside a transaction; `now` in ms. It says
    how many records the wallet has, which never become fewer.
    """
    ((records,),) = database.execute_sql(RECORDS, (wallet_id,)).fetchall()
    leaf = append_leaf("evidence", now, wallet=address, digest=digest, records=records)
    write_rows(LoggedWallet, [{"wallet": wallet_id, "leaf_id": leaf.id}], ("wallet",))


def show_logged(wallet_id: int) -> dict[str, Any] | None:
    """The last such leaf of a wallet: the log, its index there, the digest; None without one."""
    row = database.execute_sql(f"{LOGGED} WHERE g.wallet_id = ?", (wallet_id,)).fetchone()
    if row is None:
        return None
    _, data, log, place = row
    leaf = orjson.loads(data)
    return {"log": log, "leaf": place, "digest": leaf["digest"], "loggedAtMs": leaf["at"]}
