"""Reread a wallet's entries from its stored transactions."""

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from peewee import JOIN, chunked, fn

import storage
from chain.reading.entries import Entry, read_entry
from chain.reading.flows import Holding
from chain.reading.programs import Programs
from chain.reading.receipts import parse_stored, unpack_text
from models import Address, Receipt, Wallet, WalletSignature
from observing.state import list_addresses, update_wallet
from storage import in_parts

# Transactions reread per step. They are held in memory and written in one transaction.
REREAD_BATCH = 500
# Separates the rules digest from the last id reread, in `Wallet.rules`.
DONE_UP_TO = "@"


class Reread(NamedTuple):
    changed: int
    lost: int


def store_holding(
    wallet: Wallet, address: str, holding: Holding | None, decimals: int | None
) -> None:
    """Store a node's balance of an account that no transaction involves, or delete it (None)."""
    Address.update(
        held_mint=holding and holding.mint,
        held_amount=holding and str(holding.amount),
        held_decimals=decimals,
    ).where(Address.wallet == wallet.id, Address.address == address).execute()


def reread_entries(
    wallet: Wallet, programs: Programs, signatures: Collection[str] | None = None
) -> Reread:
    """Reread all of a wallet's entries, or those with these signatures.

    Transactions that are missing, damaged or no longer accepted are fetched again.
    """
    known, changed, lost = list_addresses(wallet.id), 0, 0
    for rows in _list_batches(wallet, signatures):
        again = [_read_again(row, wallet, programs, known) for row in rows]
        with storage.writing():
            one = _store_again(wallet, rows, again)
        changed, lost = changed + one.changed, lost + one.lost
    return Reread(changed, lost)


def reread_by_new_rules(
    wallet: Wallet, programs: Programs, rules: str, tell: Callable[[int], None]
) -> None:
    """Reread all of a wallet's entries because the rules changed.

    Each batch stores its progress (`Wallet.rules`), so that an interrupted run resumes there.
    `tell` is called with the number of entries done in this run.
    """
    named, _, last = wallet.rules.partition(DONE_UP_TO)
    known, done = list_addresses(wallet.id), 0
    for rows in _list_batches(wallet, None, int(last) if named == rules and last else 0):
        again = [_read_again(row, wallet, programs, known) for row in rows]
        with storage.writing():
            _store_again(wallet, rows, again)
            update_wallet(wallet, rules=f"{rules}{DONE_UP_TO}{rows[-1].id}")
        done += len(rows)
        tell(done)
    update_wallet(wallet, rules=rules)


def _list_batches(
    wallet: Wallet, signatures: Collection[str] | None, after: int = 0
) -> Iterator[list[Any]]:
    """Yield batches of (id, signature, entry, body or None).

    Without `signatures`, yield all rows with IDs above `after`.
    """
    query = WalletSignature.select(
        WalletSignature.id, WalletSignature.signature, WalletSignature.entry, Receipt.body
    ).join(Receipt, JOIN.LEFT_OUTER, on=Receipt.signature == WalletSignature.signature)
    query = query.where(WalletSignature.wallet == wallet.id, WalletSignature.state == "stored")
    if signatures is not None:
        for part in in_parts(signatures):
            yield list(query.where(WalletSignature.signature.in_(part)).namedtuples())
        return
    query = query.order_by(WalletSignature.id).limit(REREAD_BATCH)
    while rows := list(query.where(WalletSignature.id > after).namedtuples()):
        yield rows
        after = rows[-1].id


def _store_again(wallet: Wallet, rows: Sequence[Any], again: Sequence[Entry | None]) -> Reread:
    changed = [
        (row.id, entry)
        for row, entry in zip(rows, again, strict=True)
        if entry and _show_stored(row) != entry.show()
    ]
    for number, entry in changed:
        WalletSignature.update(entry=entry.dump(), idle=entry.is_idle).where(
            WalletSignature.id == number
        ).execute()
    lost = [row.signature for row, entry in zip(rows, again, strict=True) if entry is None]
    _refetch(wallet, lost)
    return Reread(len(changed), len(lost))


def _show_stored(row: Any) -> str | None:
    """Equal entries may be packed differently, so compare them as JSON. Return None if damaged."""
    with contextlib.suppress(ValueError):
        return row.entry and unpack_text(row.entry)
    return None


def _read_again(row: Any, wallet: Wallet, programs: Programs, known: set[str]) -> Entry | None:
    if row.body is None:
        return None
    try:
        receipt = parse_stored(row.body, row.signature)
        return read_entry(receipt, wallet.address, programs, known)
    except ValueError:
        return None


def _refetch(wallet: Wallet, signatures: Collection[str]) -> None:
    """Mark these transactions to be fetched again. The wallet stays due until a pass finishes.

    Other wallets' entries stay, because a wallet that is no longer polled would never fetch them
    again.
    """
    for part in chunked(signatures, storage.ROWS_A_STATEMENT):
        WalletSignature.update(state="pending", entry=None, idle=False, due_at=0).where(
            WalletSignature.wallet == wallet.id, WalletSignature.signature.in_(part)
        ).execute()
        drop_receipts(part)
    if signatures:
        Wallet.update(due_at=0).where(Wallet.id == wallet.id).execute()


def drop_receipts(signatures: Sequence[str]) -> None:
    """Delete damaged transactions. The wallets that need them fetch them again."""
    Receipt.delete().where(Receipt.signature.in_(signatures)).execute()


def refetch_missing(wallet: Wallet) -> int:
    """Fetch transactions again that should be stored but are missing. Return their number."""
    stored = Receipt.select(Receipt.id).where(Receipt.signature == WalletSignature.signature)
    gone = WalletSignature.select(WalletSignature.signature).where(
        WalletSignature.wallet == wallet.id, WalletSignature.state == "stored", ~fn.EXISTS(stored)
    )
    signatures = list(gone.scalars())
    if signatures:
        with storage.writing():
            _refetch(wallet, signatures)
    return len(signatures)
