"""Rebuild what a node told of a wallet with the code of the server, without a database. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from chain.ledger.balances import BalanceChain
from chain.ledger.coverage import order_entries
from chain.ledger.ledger import Ledger
from chain.ledger.lots import Opening
from chain.ledger.views import Span, Spans
from chain.reading.entries import Entry
from chain.reading.kinds import TRADES
from chain.stored.derived import Changes, Derived
from chain.stored.store import PendingLedger
from chain.stored.trades import make_trade_row

Entries = Callable[[], Iterable[Entry]]
Row = dict[str, Any]


@dataclass
class RebuiltLedger:
    """A wallet's ledger and the derived rows it makes; `last_trade`: Unix seconds."""

    pending: PendingLedger
    rows: dict[Derived, Changes] = field(default_factory=dict)
    last_trade: int | None = None

    @property
    def ledger(self) -> Ledger:
        return self.pending.ledger


@dataclass(frozen=True)
class Begin:
    """What a rebuild begins with: the wallet, whether all its history was listed, what its accounts
    held that no transaction touched, and the spans of its forward record.
    """

    wallet: str
    backfilled: bool = True
    untouched: tuple[tuple[str, Opening], ...] = ()
    spans: tuple[Span, ...] = ()


def rebuild(begin: Begin, entries: Entries, tell: Callable[[Row], None]) -> RebuiltLedger:
    """Book entries, which come by slot, each time they are asked for. `tell` is given each trade
    row (chain.stored.trades) as the ledger finally has it.
    """
    wallet = SimpleNamespace(id=0, address=begin.wallet)

    def make_ledger() -> Ledger:
        chain = BalanceChain(dict(begin.untouched))
        return Ledger(begin.backfilled, Spans(begin.spans), chain)

    ledger = make_ledger()
    for _ in _apply_all(wallet, PendingLedger(ledger), entries):
        pass
    again = ledger.restart() if ledger.stale else make_ledger()
    rebuilt = RebuiltLedger(PendingLedger(again))
    for entry, row in _apply_all(wallet, rebuilt.pending, entries):
        if entry.kind in TRADES:
            rebuilt.last_trade = entry.block_time
        tell(row)
    rebuilt.rows = rebuilt.pending.derived.take(rebuilt.ledger)
    return rebuilt


def _apply_all(
    wallet: Any, pending: PendingLedger, entries: Entries
) -> Iterator[tuple[Entry, Row]]:
    for _, group in groupby(entries(), key=attrgetter("slot")):
        for entry in order_entries(group, pending.ledger.chain.seen):
            yield entry, make_trade_row(wallet, *pending.book(entry))
