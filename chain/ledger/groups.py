"""Several wallets of one bot as one: whose they were when, their transactions in one order, and one
ledger over all of them. Pure.

What one wallet sends to another of its group stays where it is, with its cost: a transaction that
names both is read as one owner's (chain.reading.entries.read_entry with `partners`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from chain.ledger.average import Portion
from chain.ledger.coverage import STATES, UNRESOLVED, order_entries
from chain.ledger.forward import Span
from chain.ledger.inventory import Cut, Position, sum_known
from chain.ledger.ledger import Ledger
from chain.ledger.lots import Seen
from chain.ledger.quote_book import QuoteBook
from chain.reading.effects import Balance
from chain.reading.entries import Entry

# A transaction as it concerns several wallets: the Entry of each, by its number.
Parts = dict[int, Entry]
# Makes one Entry of the parts of a transaction.
Join = Callable[[Parts], Entry]


# ---- whose when ----------------------------------------------------------------------------------
class Stay(NamedTuple):
    """The time of a wallet beside the one that led: its number, that of the wallet, and from when
    to when in UTC ms, None: until now.
    """

    number: int
    wallet: int
    begins_ms: int
    ends_ms: int | None

    def is_over(self, now_ms: int) -> bool:
        return self.ends_ms is not None and self.ends_ms <= now_ms

    def overlaps(self, span: Span) -> bool:
        begun = span.ends_ms is None or self.begins_ms < span.ends_ms
        return begun and not self.is_over(span.begins_ms)


class LedSpan(NamedTuple):
    """A span of a bot's forward record, in which one wallet leads, with the stays beside it."""

    span: Span
    lead: int
    stays: tuple[Stay, ...] = ()

    @property
    def wallets(self) -> frozenset[int]:
        return frozenset((self.lead, *(one.wallet for one in self.stays)))


# ---- in one order --------------------------------------------------------------------------------
def merge_slot(listed: Iterable[tuple[int, Entry]], seen: Mapping[str, Seen]) -> Iterator[Parts]:
    """Yield the transactions of one slot in chain order. `listed`: (number of the wallet, its
    Entry)...; `seen`: what all accounts held before.
    """
    by_signature: dict[str, Parts] = defaultdict(dict)
    for wallet, entry in listed:
        by_signature[entry.signature][wallet] = entry
    for entry in order_entries([_outline(parts) for parts in by_signature.values()], seen):
        yield {
            wallet: _place(part, entry) for wallet, part in by_signature[entry.signature].items()
        }


def _outline(parts: Parts) -> Entry:
    """Return what decides the place of a transaction: one part, with the balances of all."""
    first = next(iter(parts.values()))
    if len(parts) == 1:
        return first
    places = [one.tx_index for one in parts.values() if one.tx_index is not None]
    return first._replace(balances=_list_balances(parts), tx_index=max(places, default=None))


def _list_balances(parts: Parts) -> tuple[Balance, ...]:
    found = {(one.address, one.mint): one for part in parts.values() for one in part.balances}
    return tuple(sorted(found.values(), key=attrgetter("address")))


def _place(part: Entry, outline: Entry) -> Entry:
    """Return a part with what is known by now of its transaction's place."""
    flags = part.flags
    if UNRESOLVED in outline.flags and UNRESOLVED not in flags:
        flags = tuple(sorted((*flags, UNRESOLVED)))
    if (part.tx_index, part.flags) == (outline.tx_index, flags):
        return part
    return part._replace(tx_index=outline.tx_index, flags=flags)


def join_parts(parts: Parts, read: Callable[[str, frozenset[int]], Entry]) -> Entry:
    """Make one Entry of a transaction's parts. `read(signature, wallets)` reads it as one owner's,
    where it concerns several. It raises ValueError where the stored transaction cannot be read: the
    parts are added up until it was fetched again.
    """
    first = next(iter(parts.values()))
    if len(parts) == 1:
        return first
    seen = [part.seen_at for part in parts.values() if part.seen_at is not None]
    try:
        entry = read(first.signature, frozenset(parts))
    except ValueError:
        return _add_parts(parts)
    flags = {*entry.flags, *({UNRESOLVED} & set(first.flags))}
    return entry._replace(
        tx_index=first.tx_index,
        flags=tuple(sorted(flags)),
        seen_at=min(seen, default=None),
    )


def _add_parts(parts: Parts) -> Entry:
    """What parts of a transaction moved together, unpriced: where it cannot be read any more."""
    first = next(iter(parts.values()))
    changes: dict[str, int] = defaultdict(int)
    decimals: dict[str, int] = {}
    for part in parts.values():
        for mint, change, places in part.tokens:
            changes[mint] += change
            decimals[mint] = places
    return first._replace(
        kind="failed" if first.kind == "failed" else "other",
        venue=None,
        mint=None,
        flags=(),
        residues=(),
        sol=sum(part.sol for part in parts.values()),
        fee=sum(part.fee for part in parts.values()),
        tip=sum(part.tip for part in parts.values()),
        rent=sum(part.rent for part in parts.values()),
        tokens=tuple((m, change, decimals[m]) for m, change in sorted(changes.items()) if change),
        balances=_list_balances(parts),
        others=(),
        sponsored=sum(part.sponsored for part in parts.values()),
        beside_sol=0,
        beside_tokens=(),
        explained_percent=None,
        counterparties=(),
    )


# ---- coverage ------------------------------------------------------------------------------------
def join_coverages(told: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The coverage of a group from those of its wallets, by address: the worst, and whose it is."""
    state = min((one["state"] for one in told.values()), key=STATES.index)
    worst = {} if state == STATES[-1] else {a: c for a, c in told.items() if c["state"] == state}
    notes = [f"{address}: {one['note']}" for address, one in worst.items() if one["note"]]
    return {
        "state": state,
        **{name: _pick(min, told, name) for name in ("observedFrom", "observedTo", "firstSlot")},
        "lastSlot": _pick(max, told, "lastSlot"),
        "checkedAt": _pick(min, told, "checkedAt"),
        **{name: sum(one[name] for one in told.values()) for name in ("receipts", "pending")},
        "gaps": [
            {**gap, "wallet": address} for address, one in told.items() for gap in one["gaps"]
        ],
        "openingInventoryUnknown": sorted(
            {mint for one in told.values() for mint in one["openingInventoryUnknown"]}
        ),
        "note": " ".join(notes) or None,
        "worst": list(worst),
    }


def _pick(choose: Callable[..., Any], told: Mapping[str, Mapping[str, Any]], name: str) -> Any:
    return choose((one[name] for one in told.values() if one[name] is not None), default=None)


def join_seen(parts: Iterable[Mapping[str, Seen]]) -> dict[str, Seen]:
    """Join what the accounts of several wallets held last. An account that was handed over is empty
    for the wallet that gave it away: what its present owner saw counts.
    """
    joined: dict[str, Seen] = {}
    for address, seen in (one for part in parts for one in part.items()):
        if seen.is_open or address not in joined:
            joined[address] = seen
    return joined


# ---- one ledger ----------------------------------------------------------------------------------
@dataclass
class GroupLedger(Ledger):
    """A ledger over the accounts of several wallets. `births`: of an account, whether the beginning
    of its wallet was seen: then what it holds when it is first seen came unobserved.
    """

    births: dict[str, bool] = field(default_factory=dict)

    def restart(self) -> "GroupLedger":
        known = super().restart()
        return GroupLedger(
            backfilled=known.backfilled,
            untouched=known.untouched,
            expected=known.expected,
            gap_starts=known.gap_starts,
        )

    def learn(self, entry: Entry, own: "GroupLedger") -> None:
        """Note how the ledger of their own wallet began, for the accounts of an entry."""
        self.births |= {balance.address: own._born for balance in entry.balances}

    def _open(self, entry: Entry, balance: Balance) -> None:
        self._born = self.births.get(balance.address, self._born)
        super()._open(entry, balance)

    def absorb(self, own: Ledger) -> None:
        """Add what a wallet holds that joins, at unknown cost, and what is not known of its past.
        `own`: its ledger.
        """
        self.backfilled = self.backfilled and own.backfilled
        self.seen = join_seen((self.seen, own.seen))
        self.expected |= own.expected
        self.found |= own.found
        self.decimals.update(own.decimals)
        for mint, slot in own.gap_starts.items():
            self.gap_starts[mint] = min(slot, self.gap_starts.get(mint, slot))
        self.openings |= own.openings
        self._broken |= own._broken
        self._broken_all = self._broken_all or own._broken_all
        self.turn_gaps(self.quote)
        for position in self._list_lots(own):
            self.inventory.put(position.mint, None, position.amount, None)
        for address, escrow in own.inventory.escrows.items():
            slices = [one._replace(cost=None) for one in escrow.slices]
            portion = Portion(0, 0, sum(one.amount for one in slices))
            self.inventory.hold(address, escrow.mint, Cut(slices, portion))

    def release(self, own: Ledger) -> dict[str, int]:
        """Take out what a wallet holds that leaves; return the lamports that it is known to have
        cost, by mint. `own`: its ledger.
        """
        lost: dict[str, int] = defaultdict(int)
        for position in self._list_lots(own):
            cut = self.inventory.cut(position.mint, position.amount, self.last_slot or 0)
            lost[position.mint] += sum_known(cut.slices)
        for address, seen in own.seen.items():
            # What it handed over to another stays.
            if self.seen.get(address) == seen:
                del self.seen[address]
        for address, escrow in own.inventory.escrows.items():
            slices = self.inventory.withdraw(address, escrow, self.last_slot or 0)
            lost[escrow.mint] += sum_known(slices)
        return dict(lost)

    def _list_lots(self, own: Ledger) -> list[Position]:
        """What a wallet holds that has lots in this ledger."""
        return [position for position in own.positions() if self._has_lots(position.mint)]


def list_in_quotes(book: QuoteBook) -> list[GroupLedger]:
    """The ledgers in quotes beside a GroupLedger, which are its like."""
    return [one for one in book.list_ledgers() if isinstance(one, GroupLedger)]
