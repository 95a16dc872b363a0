"""How far observing a wallet has come, read from the database and the last comparison."""

from typing import Any, NamedTuple

import storage
from chain.ledger.coverage import Progress
from models import Wallet
from observing.listing import MAX_ADDRESSES, count_listed
from observing.state import State

# Refused transactions that coverage names.
MAX_NAMED = 50
# Tries after which a pending transaction no longer holds up the state of a wallet.
STUCK_AFTER_TRIES = 5


class Scanned(NamedTuple):
    """How far an address was scanned: see models.Address."""

    address: str
    full_scans: int
    scan_cursor: str | None
    scan_new: int | None


# Plain SQL: it runs after each step of a poll, and peewee would take longer to build it than SQLite
# to run it.
SCANNED = f"SELECT {', '.join(Scanned._fields)} FROM address WHERE wallet_id = ?"
PENDING = "SELECT COUNT(*) FROM sighting WHERE wallet_id = ? AND state = 'pending'"
STUCK = f"{PENDING} AND (tries >= {STUCK_AFTER_TRIES} OR problem IS NOT NULL)"
REFUSED = f"""
SELECT slot, problem FROM sighting
WHERE wallet_id = ? AND state = 'pending' AND problem IS NOT NULL ORDER BY slot LIMIT {MAX_NAMED}"""


def read_progress(state: State, wallet: Wallet) -> Progress:
    """The Progress of a wallet, from which its coverage follows."""
    addresses = [Scanned(*row) for row in _read(SCANNED, wallet)]
    ledger, checked = state.apply_entries(wallet), state.check_balances(wallet)
    pending = _count(PENDING, wallet)
    left_out = ledger.chain.seen.keys() - {row.address for row in addresses}
    accounts_capped = bool(wallet.accounts_left_out or left_out)
    return Progress(
        polled=any(row.full_scans or row.scan_cursor for row in addresses),
        listed=wallet.backfilled and all(row.full_scans for row in addresses),
        confirmed=wallet.accounts_at is not None
        and all(row.full_scans > 1 and row.scan_new == 0 for row in addresses),
        closed=all(checked.get(row.address) for row in addresses),
        pending=pending,
        refused=tuple(_read(REFUSED, wallet)) if pending else (),
        stuck=_count(STUCK, wallet) if pending else 0,
        unexplained=_list_unexplained(state, wallet),
        capped=wallet.history_from is not None,
        accounts_capped=accounts_capped,
        filled=_find_filled(state, wallet, len(addresses), accounts_capped),
        given_up=wallet.closing_at is not None,
        trouble=wallet.trouble,
    )


def _find_filled(state: State, wallet: Wallet, accounts: int, accounts_capped: bool) -> int:
    """Percent used of the nearer limit; at least 100 if something is left out."""
    if wallet.history_from is not None or accounts_capped:
        return 100
    limit = state.config.max_receipts_per_wallet
    return max(100 * count_listed(wallet).counted // limit, 100 * accounts // MAX_ADDRESSES)


def _read(sql: str, wallet: Wallet) -> list[Any]:
    rows: list[Any] = storage.database.execute_sql(sql, (wallet.id,)).fetchall()
    return rows


def _count(sql: str, wallet: Wallet) -> int:
    ((count,),) = _read(sql, wallet)
    return int(count)


def _list_unexplained(state: State, wallet: Wallet) -> tuple[tuple[str, int, int], ...]:
    """List each unexplained balance: address, the last slot that the ledger knows of it, and the
    slot of the node's answer.
    """
    addresses = state.list_unexplained(wallet)
    if not addresses:
        return ()
    seen, holdings = state.apply_entries(wallet).chain.seen, state.watches[wallet.id].holdings
    return tuple(
        (address, seen[address].slot if address in seen else 0, holdings[address].slot)
        for address in addresses
    )
