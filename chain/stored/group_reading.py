"""Which wallets' books hang together, and those books, read from a database. Nothing is written.

Each function is given `rows`, which runs a statement there.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from chain.ledger.forward import Span
from chain.ledger.group_book import Family, PendingGroup, apply_slot, begin_group, restart_group
from chain.ledger.groups import GroupLedger, LedSpan, Stay, join_parts
from chain.ledger.lots import Opening
from chain.reading.entries import Entry, read_entry
from chain.reading.packing import parse_stored
from chain.reading.programs import Programs
from chain.reading.receipts import SIGNATURE
from chain.stored.store import UNTOUCHED, Untouched, open_untouched
from chain.stored.totals import Rows
from chain.stored.trade_store import Row

# Whether a trade row is to be kept in memory.
Keeps = Callable[[Row], bool]


# ---- who belongs to whom -------------------------------------------------------------------------
class _SpanRow(NamedTuple):
    """An attachment of a wallet: by which bot, and from when to when in ms."""

    number: int
    bot: int
    begins_ms: int
    ends_ms: int | None


class _StayRow(NamedTuple):
    """A stay of a wallet beside another, likewise."""

    number: int
    bot: int
    wallet: int
    begins_ms: int
    ends_ms: int | None


# Plain SQL: it runs before each step of a poll.
SPANS = "SELECT id, bot_id, attached_at, detached_at FROM attachment WHERE wallet_id = {wallet}"
STAYS = """
SELECT id, bot_id, wallet_id, attached_at, detached_at FROM companion
WHERE bot_id IN (SELECT bot_id FROM attachment WHERE wallet_id = {wallet})
ORDER BY attached_at, id"""
IS_BESIDE = "SELECT id FROM companion WHERE wallet_id = {wallet} AND detached_at IS NULL"
# The wallets that led while this one was beside them.
LEADS = """
SELECT DISTINCT a.wallet_id FROM companion c JOIN attachment a ON a.bot_id = c.bot_id
WHERE c.wallet_id = {wallet} AND (a.detached_at IS NULL OR a.detached_at > c.attached_at)
AND (c.detached_at IS NULL OR c.detached_at > a.attached_at) ORDER BY a.wallet_id"""
ADDRESSES = "SELECT id, address FROM wallet WHERE id IN ({wallets})"
BACKFILLED = "SELECT id, backfilled FROM wallet WHERE id IN ({wallets}) ORDER BY id"
KNOWN = "SELECT address FROM address WHERE wallet_id IN ({wallets})"
ENTRIES = """
SELECT signature, slot, tx_index, entry, seen_at FROM sighting
WHERE wallet_id = {wallet} AND state = 'stored' AND entry IS NOT NULL ORDER BY slot"""
BODY = "SELECT body FROM receipt WHERE signature = '{signature}'"


def read_family(rows: Rows, number: int) -> Family | None:
    """The wallets whose books hang together under this one; None where it was always alone. One
    that stands beside another now has no members: its books are the other's.
    """
    stays = [_StayRow._make(row) for row in rows(STAYS.format(wallet=number))]
    beside = bool(list(rows(IS_BESIDE.format(wallet=number))))
    if not stays and not beside:
        return None
    spans = [_SpanRow._make(row) for row in rows(SPANS.format(wallet=number))]
    led_spans = [_make_led_span(number, row, stays) for row in spans]
    held = {row.bot for row in spans if row.ends_ms is None}
    members = {one.wallet for one in stays if one.bot in held and one.ends_ms is None}
    family = Family(
        number,
        frozenset() if beside else frozenset(members | {number}),
        tuple(sorted(led_spans, key=lambda one: (one.span.begins_ms, one.span.number))),
        {},
    )
    if not beside and family.wallets == [number]:
        return None
    named = rows(ADDRESSES.format(wallets=_list(family.wallets)))
    return family._replace(addresses=dict(named))


def _make_led_span(number: int, row: _SpanRow, stays: Sequence[_StayRow]) -> LedSpan:
    span = Span(row.number, row.begins_ms, row.ends_ms)
    others = (
        Stay(one.number, one.wallet, one.begins_ms, one.ends_ms)
        for one in stays
        if one.bot == row.bot
    )
    return LedSpan(span, number, tuple(one for one in others if one.overlaps(span)))


def list_leads(rows: Rows, number: int) -> list[int]:
    """The wallets under which books stand that this one is part of, but for its own."""
    return [lead for (lead,) in rows(LEADS.format(wallet=number))]


def list_kin(rows: Rows, number: int) -> list[int]:
    """The wallets whose books hang together with this one's, however many others lie between; it is
    one of them.
    """
    found: set[int] = set()
    todo = {number}
    while todo:
        one = todo.pop()
        found.add(one)
        family = read_family(rows, one)
        todo |= {*(family.wallets if family else ()), *list_leads(rows, one)} - found
    return sorted(found)


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


# ---- what is stored of them ----------------------------------------------------------------------
class Reader:
    """Reads stored transactions as those of an owner of several wallets."""

    def __init__(self, rows: Rows, family: Family, programs: Programs) -> None:
        self._rows, self._family, self._programs = rows, family, programs

    def join(self, parts: dict[int, Entry]) -> Entry:
        """One Entry of a transaction's parts."""
        return join_parts(parts, self.read)

    def read(self, signature: str, wallets: frozenset[int]) -> Entry:
        """Read a stored transaction; ValueError where it is gone or damaged."""
        found = list(self._rows(BODY.format(signature=signature)))
        if not found or not SIGNATURE.fullmatch(signature):
            raise ValueError("the transaction is not stored")
        ((body,),) = found
        receipt = parse_stored(body, signature)
        known = self._rows(KNOWN.format(wallets=_list(wallets)))
        first, *others = sorted(wallets)
        return read_entry(
            receipt,
            self._family.addresses[first],
            self._programs,
            frozenset(address for (address,) in known),
            frozenset(self._family.addresses[one] for one in others),
        )


def read_backfilled(rows: Rows, family: Family) -> dict[int, bool]:
    """Return {wallet: whether its history was listed to its end} for a family."""
    found = rows(BACKFILLED.format(wallets=_list(family.wallets)))
    return {number: bool(backfilled) for number, backfilled in found}


def read_openings(rows: Rows, number: int) -> dict[str, Opening]:
    """Return {address: Opening} for accounts that hold something no known transaction touched."""
    found = map(Untouched._make, rows(UNTOUCHED.format(wallet=number)))
    return {row.address: open_untouched(row) for row in found}


def list_family_entries(rows: Rows, numbers: Sequence[int]) -> Iterator[tuple[int, Entry]]:
    """Yield (number of the wallet, entry) for all stored entries of these wallets, by slot."""

    def name(number: int) -> Iterator[tuple[int, Entry]]:
        return ((number, Entry.load(*row)) for row in rows(ENTRIES.format(wallet=number)))

    return heapq.merge(*map(name, numbers), key=lambda one: one[1].slot)


# ---- the books -----------------------------------------------------------------------------------
def keep_all(row: Row) -> bool:
    """Keep every row."""
    return True


def rebuild_family(
    rows: Rows, family: Family, programs: Programs, keeps: Keeps = keep_all
) -> PendingGroup:
    """Book the stored entries of a family; its trade rows are in `wallet_rows`, None for those that
    are not to be kept in memory.
    """
    ledgers = {
        number: GroupLedger(backfilled=backfilled, untouched=read_openings(rows, number))
        for number, backfilled in read_backfilled(rows, family).items()
    }
    pending = begin_group(family, ledgers, Reader(rows, family, programs).join)
    apply_all(pending, list_family_entries(rows, family.wallets), keeps)
    if pending.is_stale:
        pending = restart_group(pending)
        apply_all(pending, list_family_entries(rows, family.wallets), keeps)
    return pending


def apply_all(
    pending: PendingGroup, entries: Iterable[tuple[int, Entry]], keeps: Keeps = keep_all
) -> None:
    """Book entries, which come by slot, and keep their trade rows."""
    for _, group in groupby(entries, key=lambda one: one[1].slot):
        for row in apply_slot(pending, group):
            rows = pending.wallet_rows.setdefault(row["wallet"], {})
            rows[row["signature"]] = row if keeps(row) else None
