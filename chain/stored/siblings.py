"""Transactions shared by wallets of one bot. Entries are marked if the wallets exchanged anything
(ledger.own).
"""

import contextlib
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

import storage
from chain.ledger.own import OWN_FLAGS, mark_own
from chain.reading.entries import Entry
from chain.stored.trades import LISTED_TRADE
from storage import Rows


class Sibling(NamedTuple):
    """Another wallet of the bot, and when the bot had both (ms; None: until now)."""

    wallet: int
    begins_ms: int
    ends_ms: int | None

    def is_held_at(self, seconds: int | None) -> bool:
        """Whether the bot had both at this block time. Assume so if the time isn't known yet."""
        end_ms = math.inf if self.ends_ms is None else self.ends_ms
        return seconds is None or self.begins_ms <= seconds * 1000 < end_ms


# Exceptions of Entry.load.
UNREADABLE = (ValueError, TypeError, LookupError)
Shared = Mapping[str, Sequence[tuple[int, Entry | None]]]

SIBLINGS = """
SELECT o.wallet_id, a.attached_at, a.detached_at, o.attached_at, o.detached_at
FROM attachment a JOIN attachment o ON o.bot_id = a.bot_id AND o.wallet_id <> a.wallet_id
WHERE a.wallet_id = {wallet} AND (a.detached_at IS NULL OR a.detached_at > o.attached_at)
AND (o.detached_at IS NULL OR o.detached_at > a.attached_at)"""
SHARED = """
SELECT wallet_id, signature, slot, tx_index, entry FROM sighting
WHERE wallet_id IN ({wallets}) AND state = 'stored' AND entry IS NOT NULL"""
OF_WALLET = f"""{SHARED} AND signature IN (
    SELECT signature FROM sighting WHERE wallet_id = {{wallet}} AND state = 'stored')"""
BOOKED = f"""
SELECT t.flags, s.signature, s.slot, s.tx_index, s.entry FROM {LISTED_TRADE}
WHERE s.wallet_id = ? AND s.state = 'stored' AND s.entry IS NOT NULL AND s.signature IN """


def read_siblings(rows: Rows, wallet_id: int) -> tuple[Sibling, ...]:
    found = set()
    for wallet, begins, ends, other_begins, other_ends in rows(SIBLINGS.format(wallet=wallet_id)):
        known = [one for one in (ends, other_ends) if one is not None]
        found.add(Sibling(wallet, max(begins, other_begins), min(known, default=None)))
    return tuple(sorted(found, key=lambda one: (one.wallet, one.begins_ms, one.ends_ms or 0)))


def read_shared(rows: Rows, wallet_id: int, siblings: Collection[Sibling]) -> Shared:
    """Return the siblings' entries for the wallet's transactions."""
    if not siblings:
        return {}
    return _by_signature(rows(OF_WALLET.format(wallets=_list(siblings), wallet=wallet_id)))


def mark_new(new: Sequence[Entry], siblings: Collection[Sibling]) -> list[Entry]:
    """Mark a wallet's entries based on its siblings' stored entries."""
    if not siblings:
        return list(new)
    found: list[tuple[Any, ...]] = []
    for part in storage.in_parts(entry.signature for entry in new):
        sql = f"{SHARED.format(wallets=_list(siblings))} AND signature IN ({storage.mark(part)})"
        found += storage.database.execute_sql(sql, part).fetchall()
    return list(mark_entries(new, siblings, _by_signature(found)))


def has_other_marks(wallet_id: int, signatures: Iterable[str]) -> bool:
    """Whether one of these trades is stored with different marks than its entry has now."""
    siblings = read_siblings(storage.read_rows, wallet_id)
    for part in storage.in_parts(signatures):
        sql = f"{BOOKED} ({storage.mark(part)})"
        booked: dict[str, set[str]] = {}
        entries = []
        for flags, *stored in storage.database.execute_sql(sql, (wallet_id, *part)).fetchall():
            with contextlib.suppress(*UNREADABLE):
                entry = Entry.load(*stored)
                booked[entry.signature] = set(OWN_FLAGS.intersection(orjson.loads(flags)))
                entries.append(entry)
        for entry in mark_new(entries, siblings):
            if OWN_FLAGS & set(entry.flags) != booked[entry.signature]:
                return True
    return False


def mark_entries(
    entries: Iterable[Entry], siblings: Collection[Sibling], shared: Shared
) -> Iterator[Entry]:
    for entry in entries:
        held = {one.wallet for one in siblings if one.is_held_at(entry.block_time)}
        others = (other for number, other in shared.get(entry.signature, ()) if number in held)
        yield mark_own(entry, others) if entry.signature in shared else entry


def _by_signature(rows: Iterable[tuple[Any, ...]]) -> Shared:
    found: defaultdict[str, list[tuple[int, Entry | None]]] = defaultdict(list)
    for number, *stored in rows:
        try:
            found[stored[0]].append((number, Entry.load(*stored)))
        except UNREADABLE:
            # Only the sibling stops, but we can't tell what it exchanged.
            found[stored[0]].append((number, None))
    return found


def _list(siblings: Collection[Sibling]) -> str:
    return ", ".join(sorted({str(one.wallet) for one in siblings}))
