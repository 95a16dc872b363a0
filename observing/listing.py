"""Which signatures an address lists, and which token accounts a wallet owns."""

import math
from collections import defaultdict

import orjson

import storage
from chain.answers import (
    check_accounts,
    check_page,
)
from chain.entries import Entry
from chain.instructions import TOKEN_PROGRAMS
from chain.rpc import BadAnswer, Refused
from models import Address, Wallet, WalletSignature
from observing.entries import list_addresses, reread_entries
from observing.state import FINALIZED, FULL_SCAN_INTERVAL_MS, SLICE, State
from storage import in_parts

HEAD_PAGE, FULL_PAGE = 100, 1000
# below the covered head: where something new was, what a lagging node left out is listed again
OVERLAP_SLOTS = 512


class Listing(State):
    """Lists the newest signatures, scans whole histories and adds accounts to watch."""

    def _page(self, address, before, limit):
        """((signature, slot, transactionIndex or None), ...) newest first, and the endpoint's
        label.
        """
        params = [address, {**FINALIZED, "limit": limit, **({"before": before} if before else {})}]
        return self.rpc.call("getSignaturesForAddress", params, check_page)

    def _list_addresses(self, wallet, addresses, now):
        """List the heads of some of these, longest unlisted first; the others in the next look."""
        listed = self._watches[wallet.id].listed
        waiting = [a for a in addresses if listed.get(a, -math.inf) < self._begun]
        chosen = sorted(waiting, key=lambda a: (listed.get(a, -math.inf), a))[:SLICE]
        rows = list(
            Address.select().where(
                Address.wallet == wallet.id, Address.walks > 0, Address.address.in_(chosen)
            )
        )
        for row in rows:
            if self.clock() >= self._end:
                break
            self._spare -= row.address == wallet.address
            listed[row.address] = self.clock()
            self._list_head(wallet, row, now)

    def _list_head(self, wallet, row, now):
        before, top = None, row.head_slot or 0
        while True:
            page, label = self._page(row.address, before, HEAD_PAGE)
            if before is None and row.address == wallet.address:
                self._watches[wallet.id].told_at = self.clock()
            new = self._store_sightings(wallet, page, now, head=True)
            top = max([top, *(slot for _, slot, _ in page)])
            if not page or (
                not new
                and (
                    before is None
                    or len(page) < HEAD_PAGE
                    or page[-1][1] <= (row.head_slot or 0) - OVERLAP_SLOTS
                )
            ):
                break
            before = page[-1][0]
        if top != row.head_slot:
            Address.update(head_slot=top, endpoint=label).where(Address.id == row.id).execute()

    def _store_sightings(self, wallet, page, now, head):
        """Keep what is new of a page; the rows [(signature, slot, index), ...] that were new."""
        known = {
            s
            for part in in_parts([s for s, _, _ in page])
            for (s,) in (
                WalletSignature.select(WalletSignature.signature)
                .where(WalletSignature.wallet == wallet.id, WalletSignature.signature.in_(part))
                .tuples()
            )
        }
        new = [row for row in page if row[0] not in known]
        if not new:
            return []
        with storage.writing():
            room = (
                self.config.max_receipts_per_wallet
                - WalletSignature.select().where(WalletSignature.wallet == wallet.id).count()
            )
            new = new[: max(0, room)]
            rows = [
                {
                    "wallet": wallet.id,
                    "signature": s,
                    "slot": slot,
                    "tx_index": index,
                    "head": head,
                    "seen_at": now,
                }
                for s, slot, index in new
            ]
            storage.insert_rows(WalletSignature, rows)
        return new

    def _full_scan(self, wallet, now):
        """One page of the walk that is due, if one is. A walk under way is kept, so that a restart
        goes on with it.
        """
        row = self._next_full_scan(wallet, now)
        if row is None:
            return False
        cursor = (
            orjson.loads(row.walk_cursor)
            if row.walk_cursor
            else {"before": None, "new": 0, "top": 0, "listed": 0, "empty": 0}
        )
        try:
            page, label = self._page(row.address, cursor["before"], FULL_PAGE)
        except (BadAnswer, Refused):
            # the place may be gone: begin again
            Address.update(walk_cursor=None).where(Address.id == row.id).execute()
            raise
        new = self._store_sightings(wallet, page, now, head=False)
        cursor["new"] += sum(slot <= (row.head_slot or slot) for _, slot, _ in new)
        cursor["top"] = max([cursor["top"], *(slot for _, slot, _ in page)])
        cursor["listed"] += len(page)
        cursor["empty"] = 0 if page else cursor["empty"] + 1
        if page:
            cursor["before"] = page[-1][0]
        if cursor["empty"] < (1 if cursor["listed"] else 2):
            Address.update(walk_cursor=orjson.dumps(cursor).decode(), endpoint=label).where(
                Address.id == row.id
            ).execute()
            return True
        Address.update(
            walk_cursor=None,
            walks=row.walks + 1,
            walk_new=cursor["new"],
            walked_at=now,
            endpoint=label,
            head_slot=max(row.head_slot or 0, cursor["top"]),
        ).where(Address.id == row.id).execute()
        return True

    def _next_full_scan(self, wallet, now):
        """The address to walk next: first walks before second ones before the nightly round."""
        due = (
            (Address.walks < 2)
            | (Address.walk_new > 0)
            | Address.walked_at.is_null()
            | ~Address.walked_at.between(now - FULL_SCAN_INTERVAL_MS, now)
        )
        return (
            Address.select()
            .where(Address.wallet == wallet.id, due)
            .order_by(Address.walks, Address.id)
            .first()
        )

    def _mark_backfilled(self, wallet):
        """Once every address was walked to its end, results count."""
        if (
            wallet.whole
            or Address.select().where(Address.wallet == wallet.id, Address.walks == 0).exists()
        ):
            return
        wallet.whole = True
        Wallet.update(whole=True).where(Wallet.id == wallet.id).execute()

    def _list_token_accounts(self, wallet, now):
        """Once a day, accounts that hold something now, even if no receipt ever named the wallet
        itself. Returns whether it was done.
        """
        if wallet.accounts_at is not None and abs(now - wallet.accounts_at) < FULL_SCAN_INTERVAL_MS:
            return False
        told = set()
        for program in TOKEN_PROGRAMS:
            params = [
                wallet.address,
                {"programId": program},
                {**FINALIZED, "encoding": "base64", "dataSlice": {"offset": 0, "length": 0}},
            ]
            addresses, _ = self.rpc.call("getTokenAccountsByOwner", params, check_accounts)
            told.update(addresses)
        self._add_addresses(wallet, told)
        wallet.accounts_at, wallet.accounts_left_out = now, len(told - list_addresses(wallet.id))
        Wallet.update(accounts_at=now, accounts_left_out=wallet.accounts_left_out).where(
            Wallet.id == wallet.id
        ).execute()
        return True

    def _add_addresses(self, wallet, addresses, named=False):
        """Watch these accounts too, as many as there is room for.

        `named`: a known transaction names them. They take the place of accounts that none does.
        """
        known = list_addresses(wallet.id)
        fresh = sorted(set(addresses) - known)
        room = self.config.max_addresses_per_wallet - len(known)
        if named and len(fresh) > room:
            room += self._drop_unnamed(wallet, len(fresh) - room)
        fresh = fresh[: max(0, room)]
        if fresh:
            storage.insert_rows(Address, [{"wallet": wallet.id, "address": a} for a in fresh])
            self._read_nameless(wallet, fresh)

    def _drop_unnamed(self, wallet, most):
        """Stop watching accounts for which no transaction was ever listed; how many."""
        unlisted = Address.select(Address.id, Address.address).where(
            Address.wallet == wallet.id,
            Address.walk_cursor.is_null(),
            Address.head_slot.is_null() | (Address.head_slot == 0),
        )
        named = self._ledger(wallet).seen.keys() | {wallet.address}
        dropped = [
            ident
            for ident, address in unlisted.order_by(Address.id.desc()).tuples()
            if address not in named
        ][:most]
        for part in in_parts(dropped):
            Address.delete().where(Address.id.in_(part)).execute()
        if dropped:
            wallet.accounts_left_out += len(dropped)
            Wallet.update(accounts_left_out=wallet.accounts_left_out).where(
                Wallet.id == wallet.id
            ).execute()
        return len(dropped)

    def _read_nameless(self, wallet, fresh):
        """Receipts of 2021 did not tell owners: those that name these accounts are read again now
        that their owner is known.
        """
        watch = self._watches[wallet.id]
        if watch.nameless is None:
            watch.nameless = defaultdict(set)
            of_2021 = WalletSignature.select(WalletSignature.entry).where(
                WalletSignature.wallet == wallet.id,
                WalletSignature.state == "stored",
                WalletSignature.entry.contains('"owner_inferred"'),
            )
            for (text,) in of_2021.tuples():
                self._note_nameless(wallet, Entry.load(text, None))
        stale = sorted(set().union(*(watch.nameless.get(address, ()) for address in fresh)))
        if stale:
            reread_entries(wallet, self.programs, stale)
            self._forget_wallet(wallet.id)

    def _note_nameless(self, wallet, entry):
        watch = self._watches[wallet.id]
        for address in entry.unowned if watch.nameless is not None else ():
            watch.nameless[address].add(entry.signature)
