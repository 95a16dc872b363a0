"""Log what is claimed of each wallet, as a digest, at most hourly and where it changed: so that a
document of evidence cannot be changed afterwards without being seen.
"""

import hashlib
from typing import NamedTuple

import orjson

from chain.stored.attachments import HELD
from evidence.document import digest_wallet
from evidence.logged import append_digest, list_logged
from storage import database, writing


class StateRow(NamedTuple):
    """A wallet that a bot holds, and what of it moves with every publication, as stored."""

    id: int
    address: str
    results: str | None
    positions: str | None
    reconciliation: str | None
    coverage: str | None


STATES = f"""
SELECT id, address, results, positions, reconciliation, coverage
FROM wallet WHERE id IN {HELD} ORDER BY id"""


class DigestLog:
    """Remembers which digest of a wallet was logged last, and of which state of its row it was."""

    def __init__(self) -> None:
        self._logged: dict[int, str] | None = None
        self._states: dict[int, bytes] = {}

    def run_tick(self, now: int) -> tuple[None, None]:
        """Append a leaf for each wallet that a bot holds and whose digest changed; `now` in ms."""
        if self._logged is None:
            self._logged = list_logged()
        for wallet in [StateRow(*row) for row in database.execute_sql(STATES).fetchall()]:
            # Its text takes tens of kilobytes a wallet.
            state = hashlib.sha256(orjson.dumps(wallet[2:])).digest()
            if wallet.coverage is None or self._states.get(wallet.id) == state:
                continue
            digest = digest_wallet(wallet.id)
            if self._logged.get(wallet.id) != digest:
                with writing():
                    append_digest(wallet.id, wallet.address, digest, now)
            self._logged[wallet.id], self._states[wallet.id] = digest, state
        return None, None
