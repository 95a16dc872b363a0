"""How complete a wallet's observation is, and whether there is anything left to do."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import storage
from accounts.verification import MOVABLE
from chain.ledger.coverage import NEAR_LIMIT_PERCENT, Progress
from chain.stored.columns import WALLET_PARTS
from chain.stored.summary import list_damaged
from models import Wallet
from observing.listing import IS_DUE, MAX_ADDRESSES, count_listed
from observing.state import FULL_SCAN_INTERVAL_MS, IN_WORK, State, log

# Refused transactions listed in coverage.
MAX_NAMED = 50
# Tries after which a pending transaction no longer delays a wallet's state.
STUCK_AFTER_TRIES = 5


class Scanned(NamedTuple):
    """An address's scan progress; see models.Address."""

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

# Pending signatures of some wallets.
WAITING = (
    "SELECT wallet_id FROM sighting WHERE wallet_id IN ({marks}) AND state <> 'stored'",
    f"""SELECT wallet_id FROM post p
    WHERE wallet_id IN ({{marks}}) AND signature IS NOT NULL AND ({MOVABLE})""",
)
SCANS_DUE = f"SELECT wallet_id FROM address WHERE wallet_id IN ({{marks}}) AND ({IS_DUE})"
STORED = """
SELECT wallet_id, COUNT(*) FROM sighting WHERE wallet_id IN ({marks}) AND state = 'stored'
GROUP BY wallet_id"""


def wake(state: State, wallets: Sequence[Wallet], now: int) -> None:
    """Wake quiet wallets that were made due or that have pending work."""
    quiet = [wallet for wallet in wallets if state.watches[wallet.id].quiet]
    times = now - FULL_SCAN_INTERVAL_MS, now
    waiting = {number for sql in WAITING for (number,) in _ask(sql, quiet)}
    waiting |= {number for (number,) in _ask(SCANS_DUE, quiet, times)}
    stored = count_stored(quiet)
    for wallet in quiet:
        known = state.ledger_store.find(wallet.id).chain.count
        is_same = wallet.id not in waiting and stored.get(wallet.id, 0) == known
        state.watches[wallet.id].quiet = is_same and not _is_due(state, wallet, now)


def count_stored(wallets: Iterable[Wallet]) -> dict[int, int]:
    """Count stored transactions by wallet, including those stored by another process."""
    return dict(_ask(STORED, wallets))


def _ask(sql: str, wallets: Iterable[Wallet], values: Sequence[int] = ()) -> Iterator[Any]:
    for part in storage.in_parts(wallet.id for wallet in wallets):
        asked = sql.format(marks=storage.mark(part))
        yield from storage.database.execute_sql(asked, (*part, *values)).fetchall()


def _is_due(state: State, wallet: Wallet, now: int) -> bool:
    damaged = list_damaged(wallet.coverage, (getattr(wallet, name) for name in WALLET_PARTS))
    if damaged:
        names = ", ".join(damaged)
        log.warning("%s of wallet %s can't be read; rebuilding it", names, wallet.address)
    return (
        bool(damaged)
        or wallet.due_at <= IN_WORK
        or wallet.rules != state.rules
        or abs(now - (wallet.accounts_at or 0)) >= FULL_SCAN_INTERVAL_MS
        or state.is_check_due(wallet.id)
    )


def list_awake(state: State, wallets: Iterable[Wallet]) -> list[Wallet]:
    """Return the wallets whose last poll left something to do."""
    return [wallet for wallet in wallets if not state.watches[wallet.id].quiet]


def is_quiet(state: State, wallet: Wallet, progress: Progress) -> bool:
    """Whether a poll left nothing to do, so that the next ones only query nodes until something
    changes.
    """
    watch = state.watches[wallet.id]
    whole = wallet.backfilled and progress.confirmed and progress.closed
    undone = progress.pending or progress.unexplained or watch.ambiguous_slots or watch.postponed
    wrong = wallet.trouble or wallet.id in state.troubled or state.apply_entries(wallet).chain.gaps
    return bool(whole and not undone and not wrong and wallet.closing_at is None)


def read_progress(state: State, wallet: Wallet) -> Progress:
    """Return a wallet's Progress, which determines its coverage."""
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
        filled=100
        if wallet.history_from is not None or accounts_capped
        else _find_filled(state, wallet, ledger.chain.count + pending, len(addresses)),
        given_up=wallet.closing_at is not None,
        trouble=wallet.trouble,
    )


def _find_filled(state: State, wallet: Wallet, most: int, accounts: int) -> int:
    """Return the percentage used of the tighter limit. `most`: its transactions, including those
    that don't count.
    """
    limit = state.config.max_receipts_per_wallet
    used = 100 * most // limit
    if used >= NEAR_LIMIT_PERCENT:
        used = 100 * count_listed(wallet).counted // limit
    return max(used, 100 * accounts // MAX_ADDRESSES)


def _read(sql: str, wallet: Wallet) -> list[Any]:
    rows: list[Any] = storage.database.execute_sql(sql, (wallet.id,)).fetchall()
    return rows


def _count(sql: str, wallet: Wallet) -> int:
    ((count,),) = _read(sql, wallet)
    return int(count)


def _list_unexplained(state: State, wallet: Wallet) -> tuple[tuple[str, int, int], ...]:
    """List each unexplained balance: the address, the last slot in the ledger, and the slot of the
    node's answer.
    """
    addresses = state.list_unexplained(wallet)
    if not addresses:
        return ()
    seen, holdings = state.apply_entries(wallet).chain.seen, state.watches[wallet.id].holdings
    return tuple(
        (address, seen[address].slot if address in seen else 0, holdings[address].slot)
        for address in addresses
    )
