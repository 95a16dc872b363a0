"""The books of bots with several wallets, as they are stored: under the wallet that leads, with
trade rows that stay each wallet's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import storage
from chain.ledger.coverage import Progress
from chain.ledger.group_book import Family, PendingGroup
from chain.ledger.group_forward import StayHoldings
from chain.ledger.groups import join_coverages
from chain.ledger.ledger import Ledger
from chain.reading.entries import Entry
from chain.reading.programs import Programs, table
from chain.stored.group_reading import (
    apply_all,
    list_leads,
    read_backfilled,
    read_family,
    read_openings,
    rebuild_family,
)
from chain.stored.group_tables import OwnCoverage
from chain.stored.quote_store import PendingQuotes
from chain.stored.standings import forget_standings_of, read_rows
from chain.stored.store import (
    KINDS,
    FollowUp,
    LedgerStore,
    PendingLedger,
    replace_sums,
    settle,
    show_coverage,
    show_quote_columns,
    show_summary,
)
from chain.stored.summary import read_coverage
from chain.stored.trade_store import Row, read_digests, replace_trades, to_json
from models import Wallet
from storage.arrivals import store_arrival

# Plain SQL: it runs with each publication.
SUMMARY = """
UPDATE wallet SET results = NULL, positions = NULL, last_trade_at = NULL, realized = NULL,
cost_left = NULL, reconciliation = NULL, average_cost = NULL, by_quote = '{}', imbalance = 0,
quote_imbalance = '{}' WHERE id = ?"""
REPLACE_STAY = "UPDATE companion SET carried_in = ?, open_cost = ? WHERE id = ?"
STAY = "SELECT carried_in, open_cost FROM companion WHERE id = ?"
LAST_TRADE = f"SELECT MAX(block_time) FROM trade WHERE kind IN ({KINDS}) AND wallet_id IN "


class _Begun(NamedTuple):
    """What the books of a family begin with: where it changes, they are rebuilt."""

    family: Family
    backfilled: tuple[bool, ...]
    untouched: tuple[Any, ...]


@dataclass
class _CachedBooks:
    """The books of a family, and the entries to come: (number of the wallet, entry)..."""

    begun: _Begun
    pending: PendingGroup
    news: list[tuple[int, Entry]] = field(default_factory=list)


class GroupStore(LedgerStore):
    """A LedgerStore that also keeps the books of bots with several wallets."""

    def __init__(self, follow_up: FollowUp | None = None, programs: Programs | None = None) -> None:
        super().__init__(follow_up)
        self._programs = programs or table()
        self._groups: dict[int, _CachedBooks] = {}
        # Whether a wallet was published as one of several.
        self._grouped: dict[int, bool] = {}

    def forget(self, wallet_id: int) -> None:
        super().forget(wallet_id)
        for lead, kept in list(self._groups.items()):
            if wallet_id in kept.pending.ledgers:
                del self._groups[lead]

    def apply(self, wallet: Wallet, new: Sequence[Entry] = ()) -> Ledger:
        ledger = super().apply(wallet, new)
        for kept in self._groups.values():
            if wallet.id in kept.pending.ledgers:
                kept.news += [(wallet.id, one) for one in new]
        return ledger

    def publish(self, wallet: Wallet, progress: Progress | None, now: int) -> None:
        own, leads = read_family(read_rows, wallet.id), list_leads(read_rows, wallet.id)
        is_grouped, before = own is not None, self._grouped.get(wallet.id)
        self._grouped[wallet.id] = is_grouped
        if before not in (None, is_grouped):
            # What is stored was written in the other way.
            self.forget(wallet.id)
            super().apply(wallet)
        families = [own] if own else []
        others = (read_family(read_rows, one) for one in leads if one != wallet.id)
        families += [one for one in others if one]
        with storage.writing():
            if own:
                self._publish_own(wallet, progress)
            else:
                if before is not False:
                    OwnCoverage.delete().where(OwnCoverage.wallet == wallet.id).execute()
                super().publish(wallet, progress, now)
            for family in families:
                self._publish_family(family, now)

    # ---- one of several --------------------------------------------------------------------------
    def _publish_own(self, wallet: Wallet, progress: Progress | None) -> None:
        """Write what a wallet has for itself in a group: how whole its own history is."""
        pending = self._pending[wallet.id]
        _discard(pending)
        if progress is None:
            return
        told = to_json(show_coverage(wallet, pending, progress))
        rows = [{"wallet": wallet.id, "coverage": told}]
        storage.write_rows(OwnCoverage, rows, ("wallet",))
        Wallet.update(polled_at=wallet.polled_at, observed_to=wallet.observed_to).where(
            Wallet.id == wallet.id
        ).execute()

    def _publish_family(self, family: Family, now: int) -> None:
        """Write what follows from the books of a family."""
        pending, lead = self._bring_up(family), Wallet.get_by_id(family.lead)
        changed: set[str] = set()
        for number, rows in pending.wallet_rows.items():
            changed |= replace_trades(number, rows)
        moved = replace_sums(lead.id, pending)
        moved = _replace_stays(pending.group_forward.find_stays()) or moved
        shown = _replace_summary(lead, pending)
        if shown or moved or changed:
            forget_standings_of(lead.id)
        pending.wallet_rows, pending.unwanted_risk = {}, {}
        if self._follow_up:
            for wallet in list(Wallet.select().where(Wallet.id.in_(family.wallets))):
                self._follow_up(wallet, changed, now)

    def _bring_up(self, family: Family) -> PendingGroup:
        """Return the books of a family with everything that is stored; they are rebuilt where
        the cached ones cannot go on.
        """
        begun, kept = _read_begun(family), self._groups.get(family.lead)
        if kept and kept.begun == begun and _goes_on(kept):
            apply_all(kept.pending, sorted(kept.news, key=lambda one: one[1].slot))
            kept.news = []
            if not kept.pending.is_stale:
                return kept.pending
        pending = _rebuild_stored(family, self._programs)
        self._groups[family.lead] = _CachedBooks(begun, pending)
        return pending


def _read_begun(family: Family) -> _Begun:
    untouched = (sorted(read_openings(read_rows, one).items()) for one in family.wallets)
    backfilled = tuple(read_backfilled(read_rows, family).values())
    return _Begun(family, backfilled, tuple(map(tuple, untouched)))


def _goes_on(kept: _CachedBooks) -> bool:
    last = max((one.last_slot or 0 for one in kept.pending.ledgers.values()), default=0)
    return all(entry.slot > last for _, entry in kept.news)


def _discard(pending: PendingLedger) -> None:
    """Let go of rows that are written from other books."""
    pending.rows, pending.unwanted_risk = {}, {}
    pending.totals.rows = {}
    for book in pending.list_risk().values():
        book.rows, book.token_rows = {}, {}
    pending.quote_rows = PendingQuotes()


def _rebuild_stored(family: Family, programs: Programs) -> PendingGroup:
    """Rebuild what is stored of a family; keep what differs from the stored rows, and drop what is
    stored and was not made.
    """
    stored = {number: read_digests(number) for number in sorted(family.members)}

    def differs(row: Row) -> bool:
        return bool(stored[row["wallet"]].get(row["signature"]) != row["digest"])

    pending = rebuild_family(_stream, family, programs, differs)
    for number, digests in stored.items():
        made = pending.wallet_rows.get(number, {})
        differing = {signature: row for signature, row in made.items() if row is not None}
        pending.wallet_rows[number] = {**differing, **dict.fromkeys(digests.keys() - made.keys())}
    settle(family.lead, pending)
    return pending


def _stream(sql: str) -> Iterable[tuple[Any, ...]]:
    """The rows of a statement; with SQLite one by one (see storage.InOrder)."""
    rows: Iterable[tuple[Any, ...]] = storage.database.execute_sql(sql)
    return rows


def _replace_stays(stays: dict[int, StayHoldings]) -> bool:
    moved, execute = False, storage.database.execute_sql
    for number, held in stays.items():
        if tuple(execute(STAY, (number,)).fetchone()) != tuple(held):
            execute(REPLACE_STAY, (*held, number))
            moved = True
    return moved


def _replace_summary(lead: Wallet, pending: PendingGroup) -> bool:
    """Write the derived columns of the wallet that leads; return whether its standing may move."""
    execute, family = storage.database.execute_sql, pending.family
    values: Row = {
        "forward_realized": pending.forward.sum_realized(),
        **show_quote_columns(pending.quotes),
    }
    if family.members:
        members = sorted(family.members)
        last = execute(f"{LAST_TRADE}({storage.mark(members)})", members).fetchone()[0]
        values |= {**show_summary(pending.ledger), "last_trade_at": last and last * 1000}
    else:
        execute(SUMMARY, (lead.id,))
    for number in family.members - {family.lead}:
        execute(SUMMARY, (number,))
    told = _join_coverages(family)
    before = read_coverage(lead.coverage)
    values["coverage"] = to_json(told)
    columns = ", ".join(f"{name} = ?" for name in values)
    execute(f"UPDATE wallet SET {columns} WHERE id = ?", (*values.values(), lead.id))
    if told["state"] != before["state"]:
        store_arrival("coverage", wallet=lead.id)
    # Results stand here for the first time; or no longer, as the wallet is beside another now.
    came_or_went = bool(family.members) == (lead.results is None)
    return came_or_went or bool(before["gaps"]) != bool(told["gaps"])


def _join_coverages(family: Family) -> dict[str, Any]:
    """The coverage of the members, or of a wallet beside another its own."""
    numbers = sorted(family.members) or [family.lead]
    mine = OwnCoverage.select().where(OwnCoverage.wallet.in_(numbers))
    own = {one.wallet_id: one.coverage for one in mine}
    stored = {one.id: one.coverage for one in Wallet.select().where(Wallet.id.in_(numbers))}
    told = {
        family.addresses[number]: read_coverage(own.get(number, stored[number]))
        for number in numbers
    }
    return join_coverages(told) if len(numbers) > 1 else next(iter(told.values()))
