"""The wallets that a bot holds, each with how much of its own history was observed."""

from typing import NamedTuple

from storage.rows import select
from web.api.serialize import Json, show_coverage, show_time


class HeldRow(NamedTuple):
    """A wallet that a bot holds; `attached_at` in ms, `coverage` the wallet's own, as JSON."""

    address: str
    attached_at: int
    ownership: str
    coverage: str | None


# The one that leads first, then those beside it, as they came.
HELD = """
SELECT w.address, h.attached_at, h.ownership,
       CASE WHEN h.several THEN COALESCE(o.coverage, w.coverage) ELSE w.coverage END AS coverage
FROM (SELECT a.wallet_id, a.attached_at, a.ownership, 0 AS beside, EXISTS (
          SELECT 1 FROM companion c WHERE c.bot_id = a.bot_id AND c.detached_at IS NULL) AS several
      FROM attachment a WHERE a.bot_id = ? AND a.detached_at IS NULL
      UNION ALL SELECT wallet_id, attached_at, 'proven', 1, TRUE
      FROM companion WHERE bot_id = ? AND detached_at IS NULL) h
JOIN wallet w ON w.id = h.wallet_id LEFT JOIN own_coverage o ON o.wallet_id = w.id
ORDER BY h.beside, h.attached_at, w.id
"""


def list_wallets(bot_id: int) -> list[Json]:
    """Return the HeldWallets of a bot, the one first under which its results stand."""
    return [
        {
            "address": row.address,
            "attachedAt": show_time(row.attached_at),
            "ownership": row.ownership,
            "coverage": show_coverage(row.address, row.coverage),
        }
        for row in select(HeldRow, HELD, (bot_id, bot_id))
    ]
