"""Which bots there is evidence of, and of which of their wallets."""

from typing import Any

from chain.stored.attachments import LEAD
from storage import database

MAX_BOTS = 1_000
BOTS = f"""
SELECT b.uid, (SELECT w.address FROM attachment a JOIN wallet w ON w.id = a.wallet_id
               WHERE a.id = {LEAD})
FROM bot b WHERE b.id > COALESCE((SELECT id FROM bot WHERE uid = ?), 0)
ORDER BY b.id LIMIT {MAX_BOTS}"""
# The wallet that leads now, else the last that did.
WALLETS = """
SELECT a.wallet_id FROM attachment a JOIN wallet w ON w.id = a.wallet_id
WHERE a.bot_id = ? AND (? = '' OR w.address = ?)
ORDER BY a.detached_at IS NULL DESC, CASE WHEN a.detached_at IS NULL THEN a.attached_at END,
    a.attached_at DESC, CASE WHEN a.detached_at IS NULL THEN a.id ELSE -a.id END LIMIT 1"""


def list_bots(after: str) -> dict[str, Any]:
    """List bots, the oldest first, from beyond the bot `after` (its public id; "": from the
    beginning), with the wallet that each holds now.
    """
    rows = database.execute_sql(BOTS, (after,)).fetchall()
    return {
        "bots": [{"botId": uid, "wallet": wallet} for uid, wallet in rows],
        "next": rows[-1][0] if len(rows) == MAX_BOTS else None,
    }


def find_bot(uid: str) -> int | None:
    """The number of the bot of this public id, or None."""
    row = database.execute_sql("SELECT id FROM bot WHERE uid = ?", (uid,)).fetchone()
    return row and int(row[0])


def find_wallet(bot_id: int, address: str | None) -> int | None:
    """The number of the bot's wallet: of this address, else the present or last one, or None."""
    given = address or ""
    row = database.execute_sql(WALLETS, (bot_id, given, given)).fetchone()
    return row and int(row[0])
