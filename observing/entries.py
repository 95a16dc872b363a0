"""Entries of a wallet, read again from the stored transactions."""

import zlib

from peewee import JOIN, chunked, fn

import storage
from chain.entries import read_entry
from chain.receipts import parse_receipt
from chain.store import (
    unpack,
)
from models import Address, Receipt, WalletSignature
from storage import in_parts


def list_addresses(wallet_id):
    """The watched addresses of a wallet: itself and every token account it was ever seen to own."""
    return {
        a for (a,) in Address.select(Address.address).where(Address.wallet == wallet_id).tuples()
    }


def store_holding(wallet, address, holding, decimals):
    """What a node says an untouched account holds; nothing (None) where a receipt tells it now."""
    Address.update(
        held_mint=holding and holding.mint,
        held_amount=holding and str(holding.amount),
        held_decimals=decimals,
        held_slot=holding and holding.slot,
    ).where(Address.wallet == wallet.id, Address.address == address).execute()


def _list_receipts(wallet, signatures):
    """Yield (id, signature, entry, body) of the wallet's stored signatures, of all or of these."""
    query = WalletSignature.select(
        WalletSignature.id, WalletSignature.signature, WalletSignature.entry, Receipt.body
    ).join(Receipt, JOIN.LEFT_OUTER, on=Receipt.signature == WalletSignature.signature)
    query = query.where(WalletSignature.wallet == wallet.id, WalletSignature.state == "stored")
    if signatures is None:
        yield from query.tuples().iterator()
    for part in in_parts(signatures or ()):
        yield from query.where(WalletSignature.signature.in_(part)).tuples()


def reread_entries(wallet, programs, signatures=None):
    """Read a wallet's entries anew from the stored receipts; (how many changed, how many are to be
    fetched again).

    The latter are those whose receipt is gone, damaged, or refused by now.
    """
    known = list_addresses(wallet.id)
    changed, lost = [], []
    for number, signature, entry, body in _list_receipts(wallet, signatures):
        try:
            again = (
                None
                if body is None
                else read_entry(
                    parse_receipt(unpack(body), signature), wallet.address, programs, known
                ).dump()
            )
        except (ValueError, zlib.error):
            again = None
        if again is None:
            lost.append(signature)
        elif again != entry:
            changed.append((number, again))
    with storage.writing():
        for number, entry in changed:
            WalletSignature.update(entry=entry).where(WalletSignature.id == number).execute()
        _refetch(lost)
    return len(changed), len(lost)


def _refetch(signatures):
    """These receipts are asked for anew, for all wallets that they concern."""
    for part in chunked(signatures, storage.ROWS_A_STATEMENT):
        WalletSignature.update(state="pending", entry=None, due_at=0).where(
            WalletSignature.signature.in_(part)
        ).execute()
        Receipt.delete().where(Receipt.signature.in_(part)).execute()


def fetch_missing(wallet):
    """What is listed as stored and whose receipt is gone is fetched again; how many there are."""
    stored = Receipt.select(Receipt.id).where(Receipt.signature == WalletSignature.signature)
    gone = WalletSignature.select(WalletSignature.signature).where(
        WalletSignature.wallet == wallet.id, WalletSignature.state == "stored", ~fn.EXISTS(stored)
    )
    signatures = [signature for (signature,) in list(gone.tuples())]
    if signatures:
        with storage.writing():
            _refetch(signatures)
    return len(signatures)
