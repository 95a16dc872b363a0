"""The books of several wallets of one bot: their transactions booked into one ledger, and trade
rows that stay each wallet's. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from chain.ledger.group_forward import GroupForward
from chain.ledger.groups import (
    GroupLedger,
    Join,
    LedSpan,
    Parts,
    join_seen,
    list_in_quotes,
    merge_slot,
)
from chain.ledger.lots import Booked, Seen
from chain.reading.entries import Entry
from chain.stored.store import PendingLedger, book_entry
from chain.stored.trade_store import Row, make_trade_row
from chain.stored.verify import is_trade

# The flag of a transaction between wallets of one bot, or that two of them made together.
OWN_WALLETS = "own_wallets"
# (number of the wallet, its entry)..., by slot, as often as asked for.
Entries = Callable[[], Iterable[tuple[int, Entry]]]
# Receives each trade row as the books finally have it.
Tell = Callable[[Row], None]


class Member(NamedTuple):
    """A wallet of a family, as trade rows name it."""

    id: int
    address: str


class Family(NamedTuple):
    """The wallets whose books hang together. `lead`: the number of the wallet that they stand
    under; `members`: those that are one now, the lead included; `led_spans`: of the lead's forward
    record, in which there may have been others.
    """

    lead: int
    members: frozenset[int]
    led_spans: tuple[LedSpan, ...]
    addresses: Mapping[int, str]

    @property
    def wallets(self) -> list[int]:
        """All of which the books are made."""
        past = (led.wallets for led in self.led_spans)
        return sorted(self.members.union({self.lead}, *past))


NO_FAMILY = Family(0, frozenset(), (), {})


@dataclass
class PendingGroup(PendingLedger):
    """A PendingLedger over a family. `wallet_rows`: as `rows`, by number of the wallet; `origins`:
    by signature, the address whose trade row tells of it.
    """

    family: Family = NO_FAMILY
    join: Join | None = None
    wallet_rows: dict[int, dict[str, Row | None]] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    @property
    def group_forward(self) -> GroupForward:
        assert isinstance(self.forward, GroupForward)
        return self.forward

    @property
    def ledgers(self) -> dict[int, GroupLedger]:
        """The ledger of each wallet alone."""
        return self.group_forward.ledgers

    def list_wallets(self, wallet_id: int) -> list[int]:
        """List the members; none for a wallet beside another, whose books hold its trades."""
        return sorted(self.family.members)

    @property
    def is_stale(self) -> bool:
        return super().is_stale or any(one.stale for one in self.ledgers.values())

    def list_seen(self) -> dict[str, Seen]:
        """What all accounts held last."""
        return join_seen(one.seen for one in self.ledgers.values())


def begin_group(
    family: Family, ledgers: dict[int, GroupLedger], join: Join, whole: GroupLedger | None = None
) -> PendingGroup:
    """Begin the books of a family, empty. `ledgers`: an empty one for each wallet; `whole`: one for
    all members, joined from theirs where it is not given.
    """
    forward = GroupForward(
        tuple(led.span for led in family.led_spans),
        led_spans={led.span.number: led for led in family.led_spans},
        ledgers=ledgers,
        join=join,
        lead=family.lead,
    )
    members = [ledgers[number] for number in sorted(family.members)]
    whole = whole or GroupLedger(
        backfilled=all(one.backfilled for one in members),
        untouched={a: opening for one in members for a, opening in one.untouched.items()},
    )
    return PendingGroup(whole, forward, family=family, join=join)


def restart_group(pending: PendingGroup) -> PendingGroup:
    """Begin the books anew, knowing what `pending` found out about how its accounts began."""
    whole = pending.ledger.restart()
    assert isinstance(whole, GroupLedger)
    ledgers = {number: one.restart() for number, one in pending.ledgers.items()}
    assert pending.join is not None
    return begin_group(pending.family, ledgers, pending.join, whole)


def rebuild_group(begun: PendingGroup, entries: Entries, tell: Tell) -> PendingGroup:
    """Book all entries of a family, and then again, knowing how its accounts began."""
    for _ in _apply_all(begun, entries):
        pass
    rebuilt = restart_group(begun)
    for row in _apply_all(rebuilt, entries):
        tell(row)
    return rebuilt


def _apply_all(pending: PendingGroup, entries: Entries) -> Iterator[Row]:
    for _, group in groupby(entries(), key=lambda one: one[1].slot):
        yield from apply_slot(pending, group)


def apply_slot(pending: PendingGroup, listed: Iterable[tuple[int, Entry]]) -> list[Row]:
    """Book the transactions of one slot; return their trade rows."""
    entries = list(listed)
    # A single one needs no order.
    seen = pending.list_seen() if len(entries) > 1 else {}
    return [row for parts in merge_slot(entries, seen) for row in apply_parts(pending, parts)]


def apply_parts(pending: PendingGroup, parts: Parts) -> list[Row]:
    """Book a transaction; return the trade rows of the members that it concerns."""
    pending.group_forward.take(parts)
    mine = {number: part for number, part in parts.items() if number in pending.family.members}
    if not mine:
        pending.totals.note(pending.list_sums(), pending.hour)
        return []
    ledger = pending.ledger
    assert isinstance(ledger, GroupLedger)
    assert pending.join is not None
    for each in (ledger, *list_in_quotes(pending.quotes)):
        for number, part in mine.items():
            each.learn(part, pending.ledgers[number])
    joined = pending.join(mine)
    place, booked = book_entry(pending, find_main(mine, joined), joined)
    return _make_rows(pending, mine, place, booked)


# ---- trade rows ----------------------------------------------------------------------------------
def _make_rows(pending: PendingGroup, parts: Parts, place: int, booked: Booked) -> list[Row]:
    """Make the row that holds what was booked, and one for each other wallet that took part."""
    main = find_main(parts, booked.entry)
    pending.origins[booked.entry.signature] = pending.family.addresses[main]
    shown = _show_booked(parts, main, booked)
    return [
        make_trade_row(
            Member(number, pending.family.addresses[number]),
            place,
            shown if number == main else _show_own(part, booked.entry),
            pending.origins,
        )
        for number, part in sorted(parts.items())
    ]


def find_main(parts: Parts, joined: Entry) -> int:
    """The wallet whose row holds what was booked: of those that see the same kind, else of those
    that a program acted for, else of all, the first.
    """
    alike = [number for number, part in parts.items() if part.kind == joined.kind]
    acting = [number for number, part in parts.items() if part.venue]
    return min(alike or acting or parts)


def _show_booked(parts: Parts, main: int, booked: Booked) -> Booked:
    """What was booked, as the row of a wallet shows it: a trade with the amounts of all, so that
    its result follows from them; else with the wallet's own.
    """
    if len(parts) == 1:
        return booked
    flags = tuple(sorted({*booked.flags, OWN_WALLETS}))
    if is_trade(booked.entry.kind, booked.flags):
        return booked._replace(flags=flags)
    return booked._replace(entry=_show_as(parts[main], booked.entry), flags=flags)


def _show_own(part: Entry, joined: Entry) -> Booked:
    """The row of a wallet beside: what it gave to a trade of another, or got from it, went between
    own wallets.
    """
    shown = _show_as(part, joined)
    if is_trade(joined.kind, joined.flags):
        shown = shown._replace(kind="transfer_self", venue=None, mint=None)
    return Booked(shown, (OWN_WALLETS,))


def _show_as(part: Entry, joined: Entry) -> Entry:
    """A wallet's own amounts under the kind that the transaction is of."""
    return part._replace(
        kind=joined.kind,
        venue=joined.venue,
        mint=joined.mint,
        beside_sol=0,
        beside_tokens=(),
        explained_percent=None,
        counterparties=(),
    )
