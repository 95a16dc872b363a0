"""Log what is claimed of each wallet, as a digest, at most hourly and where it changed: so that a
document of evidence cannot be changed afterwards without being seen.
"""

from typing import Any

import orjson

from evidence.document import digest_wallet
from models import Attachment, Wallet
from storage import database, writing
from storage.arrivals import append_leaf

LOGGED = """SELECT data FROM log_leaf WHERE data LIKE '%"kind":"evidence"%' ORDER BY id"""


class DigestLog:
    """Remembers which digest of a wallet was logged last, and of which state of its row it was."""

    def __init__(self) -> None:
        self._logged: dict[str, str] | None = None
        self._states: dict[str, tuple[Any, ...]] = {}

    def run_tick(self, now: int) -> None:
        """Append a leaf for each attached wallet whose digest changed; `now` in ms."""
        if self._logged is None:
            self._logged = _read_logged()
        held = Wallet.select().join(Attachment).where(Attachment.detached_at.is_null())
        for wallet in list(held.order_by(Wallet.id)):
            state = (wallet.results, wallet.coverage, wallet.positions, wallet.reconciliation)
            if wallet.coverage is None or self._states.get(wallet.address) == state:
                continue
            digest = digest_wallet(wallet.id)
            if self._logged.get(wallet.address) != digest:
                with writing():
                    append_leaf("evidence", now, wallet=wallet.address, digest=digest)
            self._logged[wallet.address], self._states[wallet.address] = digest, state


def _read_logged() -> dict[str, str]:
    """{wallet: the digest that was logged last}"""
    leaves = (orjson.loads(data) for (data,) in database.execute_sql(LOGGED).fetchall())
    return {leaf["wallet"]: leaf["digest"] for leaf in leaves if leaf["kind"] == "evidence"}
