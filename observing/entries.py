"""Entries of a wallet, read again from the stored transactions."""

import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from peewee import JOIN, chunked, fn

import storage
from chain.answers import Holding
from chain.entries import read_entry
from chain.programs import Programs
from chain.receipts import parse_receipt
from chain.store import unpack
from models import Address, Receipt, Wallet, WalletSignature
from storage import in_parts


class Reread(NamedTuple):
    """How many entries changed, and how many transactions have to be fetched again."""

    changed: int
    lost: int


def list_addresses(wallet_id: int) -> set[str]:
    """The watched addresses of a wallet: itself and every token account it was ever seen to own."""
    return set(Address.select(Address.address).where(Address.wallet == wallet_id).scalars())


def store_holding(
    wallet: Wallet, address: str, holding: Holding | None, decimals: int | None
) -> None:
    """Store what a node says an untouched account holds; None: forget it."""
    Address.update(
        held_mint=holding and holding.mint,
        held_amount=holding and str(holding.amount),
        held_decimals=decimals,
        held_slot=holding and holding.slot,
    ).where(Address.wallet == wallet.id, Address.address == address).execute()


def reread_entries(
    wallet: Wallet, programs: Programs, signatures: Collection[str] | None = None
) -> Reread:
    """Read a wallet's entries again from the stored transactions, all or these.

    A transaction that is gone, damaged, or refused by now is fetched again.
    """
    known, changed, lost = list_addresses(wallet.id), [], []
    for row in _list_stored(wallet, signatures):
        again = _read_again(row, wallet, programs, known)
        if again is None:
            lost.append(row.signature)
        elif again != row.entry:
            changed.append((row.id, again))
    with storage.writing():
        for number, entry in changed:
            WalletSignature.update(entry=entry).where(WalletSignature.id == number).execute()
        _refetch(lost)
    return Reread(len(changed), len(lost))


def _list_stored(wallet: Wallet, signatures: Collection[str] | None) -> Iterator[Any]:
    """Yield id, signature, entry and body (None where it is gone) of all or these signatures."""
    query = WalletSignature.select(
        WalletSignature.id, WalletSignature.signature, WalletSignature.entry, Receipt.body
    ).join(Receipt, JOIN.LEFT_OUTER, on=Receipt.signature == WalletSignature.signature)
    query = query.where(WalletSignature.wallet == wallet.id, WalletSignature.state == "stored")
    if signatures is None:
        yield from query.namedtuples().iterator()
    for part in in_parts(signatures or ()):
        yield from query.where(WalletSignature.signature.in_(part)).namedtuples()


def _read_again(row: Any, wallet: Wallet, programs: Programs, known: set[str]) -> str | None:
    if row.body is None:
        return None
    try:
        receipt = parse_receipt(unpack(row.body), row.signature)
        return read_entry(receipt, wallet.address, programs, known).dump()
    except (ValueError, zlib.error):
        return None


def _refetch(signatures: Iterable[str]) -> None:
    """Let these transactions be fetched again, for all wallets that they concern."""
    for part in chunked(signatures, storage.ROWS_A_STATEMENT):
        WalletSignature.update(state="pending", entry=None, due_at=0).where(
            WalletSignature.signature.in_(part)
        ).execute()
        Receipt.delete().where(Receipt.signature.in_(part)).execute()


def refetch_missing(wallet: Wallet) -> int:
    """Let the transactions be fetched again that are marked as stored and are not; how many."""
    stored = Receipt.select(Receipt.id).where(Receipt.signature == WalletSignature.signature)
    gone = WalletSignature.select(WalletSignature.signature).where(
        WalletSignature.wallet == wallet.id, WalletSignature.state == "stored", ~fn.EXISTS(stored)
    )
    signatures = list(gone.scalars())
    if signatures:
        with storage.writing():
            _refetch(signatures)
    return len(signatures)
