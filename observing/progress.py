"""How far observing a wallet has come, read from the database and the last comparison."""

import storage
from chain.coverage import Progress
from models import Address, Wallet, WalletSignature
from observing.state import State

# As text: asked after each step of a poll, and building it would take longer than the answer.
COUNT = "SELECT COUNT(*) FROM sighting WHERE wallet_id = ?"
# Refused transactions that coverage names.
MAX_NAMED = 50
# Tries after which a pending transaction no longer holds up the state of a wallet.
STUCK_AFTER_TRIES = 5


def read_progress(state: State, wallet: Wallet) -> Progress:
    """The Progress of a wallet, from which its coverage follows."""
    columns = Address.address, Address.walks, Address.walk_cursor, Address.walk_new
    addresses = list(Address.select(*columns).where(Address.wallet == wallet.id).namedtuples())
    ledger, checked = state.apply_entries(wallet), state.check_balances(wallet)
    mine = WalletSignature.wallet == wallet.id
    pending = mine & (WalletSignature.state == "pending")
    listed, pending_count = _count_signatures(wallet.id)
    refused = WalletSignature.problem.is_null(False)
    stuck = (WalletSignature.tries >= STUCK_AFTER_TRIES) | refused
    left_out = ledger.seen.keys() - {row.address for row in addresses}
    return Progress(
        looked=any(row.walks or row.walk_cursor for row in addresses),
        listed=wallet.whole and all(row.walks for row in addresses),
        confirmed=wallet.accounts_at is not None
        and all(row.walks > 1 and row.walk_new == 0 for row in addresses),
        closed=all(checked.get(row.address) for row in addresses),
        pending=pending_count,
        refused=_list_refused(pending & refused) if pending_count else (),
        stuck=WalletSignature.select().where(pending, stuck).count() if pending_count else 0,
        unexplained=_list_unexplained(state, wallet),
        capped=listed >= state.config.max_receipts_per_wallet,
        accounts_capped=bool(wallet.accounts_left_out or left_out),
        given_up=wallet.closing_at is not None,
        trouble=wallet.trouble,
    )


def _count_signatures(wallet_id: int) -> list[int]:
    """How many are listed, and how many of these are not stored yet."""
    counts = (COUNT, f"{COUNT} AND state = 'pending'")
    execute = storage.database.execute_sql
    return [execute(sql, (wallet_id,)).fetchone()[0] for sql in counts]


def _list_refused(which: object) -> tuple[tuple[int, str], ...]:
    """Slot and reason of each refused transaction, the earliest ones."""
    columns = WalletSignature.slot, WalletSignature.problem
    rows = WalletSignature.select(*columns).where(which).order_by(WalletSignature.slot)
    return tuple((row.slot, row.problem or "") for row in rows.limit(MAX_NAMED).namedtuples())


def _list_unexplained(state: State, wallet: Wallet) -> tuple[tuple[str, int, int], ...]:
    """Address, last slot that the ledger knows of it, and slot of the node's answer."""
    seen, holdings = state.apply_entries(wallet).seen, state.watches[wallet.id].holdings
    return tuple(
        (address, seen[address].slot if address in seen else 0, holdings[address].slot)
        for address in state.list_unexplained(wallet)
    )
