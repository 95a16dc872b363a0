"""Fold what a node told of a wallet with the code of the server, without a database. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from chain.coverage import order_entries
from chain.entries import Entry
from chain.forward import Forward, Span
from chain.kinds import TRADES
from chain.ledger import Ledger
from chain.lots import Opening
from chain.store import PendingLedger, apply_entry

Entries = Callable[[], Iterable[Entry]]
Row = dict[str, Any]


@dataclass
class Folded:
    """A wallet's ledger with its hours and its forward record; `last_trade`: Unix seconds."""

    pending: PendingLedger
    last_trade: int | None = None

    @property
    def ledger(self) -> Ledger:
        return self.pending.ledger


@dataclass(frozen=True)
class Begin:
    """What a fold begins with: the wallet, whether its whole history was listed, what its accounts
    held that no transaction touched, and the spans of its forward record.
    """

    wallet: str
    backfilled: bool = True
    untouched: tuple[tuple[str, Opening], ...] = ()
    spans: tuple[Span, ...] = ()


def fold(begin: Begin, entries: Entries, tell: Callable[[Row], None]) -> Folded:
    """Fold entries, which come by slot, each time they are asked for. `tell` is given each trade
    row (chain.trade_store) as the ledger finally has it.
    """
    ledger = Ledger(backfilled=begin.backfilled, untouched=dict(begin.untouched))
    for _ in _walk(SimpleNamespace(id=0, address=begin.wallet), PendingLedger(ledger), entries):
        pass
    again = (
        ledger.restart()
        if ledger.stale
        else Ledger(backfilled=begin.backfilled, untouched=dict(begin.untouched))
    )
    folded = Folded(PendingLedger(again, Forward(begin.spans)))
    for entry, row in _walk(SimpleNamespace(id=0, address=begin.wallet), folded.pending, entries):
        if entry.kind in TRADES:
            folded.last_trade = entry.block_time
        tell(row)
    return folded


def _walk(wallet: Any, pending: PendingLedger, entries: Entries) -> Iterator[tuple[Entry, Row]]:
    for _, group in groupby(entries(), key=attrgetter("slot")):
        for entry in order_entries(group, pending.ledger.seen):
            yield entry, apply_entry(wallet, pending, entry)
