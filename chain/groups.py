"""Several wallets of one bot as one: whose they were when, their transactions in one order, and one
ledger over all of them. Pure.

What one wallet sends to another of its group stays where it is, with its cost: a transaction that
names both is read as one owner's (chain.entries.read_entry with `partners`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from chain.coverage import order_entries
from chain.effects import Balance
from chain.entries import Entry
from chain.forward import Span
from chain.inventory import Escrow, sum_known
from chain.ledger import Ledger
from chain.lots import Seen

# A transaction as it concerns several wallets: the Entry of each, by its number.
Parts = dict[int, Entry]
# Makes one Entry of the parts of a transaction.
Join = Callable[[Parts], Entry]
UNRESOLVED = "order_unresolved"


# ---- whose when ----------------------------------------------------------------------------------
class Holding(NamedTuple):
    """An attachment: its number, whose wallet (its number) and from when to when in UTC ms, None:
    until now.
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


class Stretch(NamedTuple):
    """A span of a bot's forward record: as long as one wallet leads. `others`: the attachments of
    the wallets beside it, each for its own time.
    """

    span: Span
    lead: int
    others: tuple[Holding, ...] = ()

    @property
    def wallets(self) -> frozenset[int]:
        return frozenset((self.lead, *(one.wallet for one in self.others)))

    def list_settled(self) -> list[Holding]:
        """The others that this stretch accounts for: those that do not outlast it."""
        return [
            one
            for one in self.others
            if self.span.ends_ms is None or one.is_over(self.span.ends_ms)
        ]


def list_stretches(held: Iterable[Holding]) -> list[Stretch]:
    """The stretches of a bot, in order, from all its attachments. The oldest attachment leads;
    where it ends, the oldest of the rest does from then on.
    """
    rest = ordered = sorted(held, key=lambda one: (one.begins_ms, one.number))
    stretches: list[Stretch] = []
    while rest:
        lead, rest = rest[0], rest[1:]
        ended_ms = stretches[-1].span.ends_ms if stretches else None
        begins_ms = max(lead.begins_ms, ended_ms or lead.begins_ms)
        span = Span(lead.number, begins_ms, lead.ends_ms)
        others = tuple(one for one in ordered if one is not lead and one.overlaps(span))
        stretches.append(Stretch(span, lead.wallet, others))
        if lead.ends_ms is None:
            break
        rest = [one for one in rest if not one.is_over(lead.ends_ms)]
    return stretches


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
    """What tells the place of a transaction: any part with the balances of all."""
    first = next(iter(parts.values()))
    if len(parts) == 1:
        return first
    places = [one.tx_index for one in parts.values() if one.tx_index is not None]
    return first._replace(balances=_list_balances(parts), tx_index=max(places, default=None))


def _list_balances(parts: Parts) -> tuple[Balance, ...]:
    found = {one.address: one for part in parts.values() for one in part.balances}
    return tuple(sorted(found.values(), key=attrgetter("address")))


def _place(part: Entry, outline: Entry) -> Entry:
    """A part, with what its transaction's place is by now known to be."""
    flags = part.flags
    if UNRESOLVED in outline.flags and UNRESOLVED not in flags:
        flags = tuple(sorted((*flags, UNRESOLVED)))
    if (part.tx_index, part.flags) == (outline.tx_index, flags):
        return part
    return part._replace(tx_index=outline.tx_index, flags=flags)


def join_parts(parts: Parts, read: Callable[[str, frozenset[int]], Entry]) -> Entry:
    """One Entry of a transaction's parts. `read(signature, wallets)` reads it as one owner's, where
    it concerns several.
    """
    first = next(iter(parts.values()))
    if len(parts) == 1:
        return first
    seen = [part.seen_at for part in parts.values() if part.seen_at is not None]
    entry = read(first.signature, frozenset(parts))
    flags = {*entry.flags, *({UNRESOLVED} & set(first.flags))}
    return entry._replace(
        tx_index=first.tx_index,
        flags=tuple(sorted(flags)),
        seen_at=min(seen, default=None),
    )


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
        """Note of the accounts of an entry how the ledger of their wallet alone began."""
        self.births |= {balance.address: own._born for balance in entry.balances}

    def _open(self, entry: Entry, balance: Balance) -> None:
        self._born = self.births.get(balance.address, self._born)
        super()._open(entry, balance)

    def absorb(self, own: Ledger) -> None:
        """Add what a wallet holds that joins, at unknown cost, and what is not known of its past.
        `own`: its ledger.
        """
        self.backfilled = self.backfilled and own.backfilled
        self.seen |= own.seen
        self.expected |= own.expected
        self.found |= own.found
        self.decimals.update(own.decimals)
        for mint, slot in own.gap_starts.items():
            self.gap_starts[mint] = min(slot, self.gap_starts.get(mint, slot))
        self.openings |= own.openings
        self._broken |= own._broken
        self._broken_all = self._broken_all or own._broken_all
        for position in own.positions():
            self.inventory.put(position.mint, None, position.amount, None)
        for address, escrow in own.inventory.escrows.items():
            slices = [one._replace(cost=None) for one in escrow.slices]
            self.inventory.escrows[address] = Escrow(escrow.mint, slices)

    def release(self, own: Ledger) -> int:
        """Take out what a wallet holds that leaves; return the lamports that it is known to have
        cost. `own`: its ledger.
        """
        lost = 0
        for position in own.positions():
            cut = self.inventory.cut(position.mint, position.amount, self.last_slot or 0)
            lost += sum_known(cut.slices)
        for address in own.seen:
            self.seen.pop(address, None)
        for address in own.inventory.escrows.keys() & self.inventory.escrows.keys():
            lost += sum_known(self.inventory.escrows.pop(address).slices)
        return lost
