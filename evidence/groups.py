"""What is claimed of a wallet that is, or was, one of several: with which others its books are
made, and whose they were when.
"""

from typing import Any, NamedTuple

from chain.amounts import show_lamports
from chain.ledger.groups import LedSpan
from chain.stored.group_reading import read_family
from chain.stored.standings import read_rows
from storage import database

Json = dict[str, Any]


class LeadRow(NamedTuple):
    """The bot that holds a wallet now, and the wallet that leads there."""

    bot: str
    address: str


class StayRow(NamedTuple):
    """A wallet's time beside the one that led (ms), and the known cost of what it brought and took
    along (lamports), null before the first publication.
    """

    bot: str
    address: str
    attached_at: int
    detached_at: int | None
    carried_in: int | None
    open_cost: int | None


LEAD = """
SELECT b.uid, w.address FROM attachment a JOIN bot b ON b.id = a.bot_id
JOIN wallet w ON w.id = a.wallet_id WHERE a.detached_at IS NULL AND (a.wallet_id = ? OR a.bot_id = (
    SELECT bot_id FROM companion WHERE wallet_id = ? AND detached_at IS NULL))"""
STAY = """
SELECT b.uid, w.address, c.attached_at, c.detached_at, c.carried_in, c.open_cost
FROM companion c JOIN bot b ON b.id = c.bot_id JOIN wallet w ON w.id = c.wallet_id
WHERE c.id = ?"""
OWN_COVERAGE = "SELECT coverage FROM own_coverage WHERE wallet_id = ?"
EVER_SEVERAL = """
SELECT 1 FROM companion WHERE bot_id = ? OR wallet_id IN (
    SELECT wallet_id FROM attachment WHERE bot_id = ?) LIMIT 1"""


def show_group(wallet_id: int, coverage: Any) -> Json | None:
    """Make the group of a wallet, None where it was always alone. `coverage`: of the group, where
    it stands under this wallet.

    Of two wallets that made a transaction together the order of `wallets` tells which one shows
    what was booked.
    """
    family = read_family(read_rows, wallet_id)
    if family is None:
        return None
    found = database.execute_sql(LEAD, (wallet_id, wallet_id)).fetchone()
    held = LeadRow(*found) if found else None
    members = sorted(family.members)
    return {
        "botId": held and held.bot,
        "lead": held.address if held else family.addresses[wallet_id],
        "wallets": [family.addresses[number] for number in family.wallets],
        "members": [family.addresses[number] for number in members],
        "coverage": coverage if members else None,
        "stays": _show_stays(family.led_spans),
    }


def _show_stays(led_spans: tuple[LedSpan, ...]) -> list[Json]:
    numbers = dict.fromkeys(one.number for led in led_spans for one in led.stays)
    rows = [StayRow(*database.execute_sql(STAY, (one,)).fetchone()) for one in numbers]
    return [
        {
            "botId": row.bot,
            "wallet": row.address,
            "attachedAtMs": row.attached_at,
            "detachedAtMs": row.detached_at,
            "carriedInLamports": show_lamports(row.carried_in),
            "openCostLamports": show_lamports(row.open_cost),
        }
        for row in rows
    ]


def find_own_coverage(wallet_id: int) -> str | None:
    """The coverage of a wallet alone, as JSON, where its row has that of its group."""
    row = database.execute_sql(OWN_COVERAGE, (wallet_id,)).fetchone()
    return row and str(row[0])


def had_several(bot_id: int) -> bool:
    """Did a wallet of this bot ever stand beside another, with it or elsewhere?"""
    return database.execute_sql(EVER_SEVERAL, (bot_id, bot_id)).fetchone() is not None
