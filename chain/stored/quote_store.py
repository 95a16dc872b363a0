"""What wallets did in quotes, as it is stored: of all they did, and of each of their spans."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import storage
from chain.ledger.lots import Booked
from chain.ledger.quote_book import QuoteBook, QuoteSale, QuoteTotals, read_sale
from chain.reading.entries import Entry
from chain.stored.quote_tables import QuoteTotal, QuoteTrade
from chain.stored.trade_store import find_trades

TOTALS = f"""
SELECT span, quote, time, {", ".join(f'"{name}"' for name in QuoteTotals._fields)} FROM quote_total
WHERE wallet_id = {{wallet}}"""
SALES = f"""
SELECT t.wallet_id, t.signature, q.quote, {", ".join(f"q.{name}" for name in QuoteSale._fields)}
FROM quote_trade q JOIN trade t ON t.id = q.trade_id WHERE t.wallet_id IN ({{wallets}})"""


class TotalKey(NamedTuple):
    """Which stored totals: of a span (0: of all it did), in a quote, at a Unix second."""

    span: int
    quote: str
    time: int


class SaleKey(NamedTuple):
    """A trade against a quote; `wallet`: the number of that whose row tells of it."""

    wallet: int
    signature: str
    quote: str


@dataclass
class PendingQuotes:
    """What is not written yet. Each has one fate: it is written, or (None) dropped."""

    totals: dict[TotalKey, QuoteTotals | None] = field(default_factory=dict)
    sales: dict[SaleKey, QuoteSale | None] = field(default_factory=dict)

    def add(self, wallet: int, entry: Entry, booked: Mapping[str, Booked]) -> None:
        """Note what the ledgers made of an entry, by quote."""
        for quote, one in booked.items():
            sale = read_sale(one)
            if sale:
                self.sales[SaleKey(wallet, entry.signature, quote)] = sale

    def take_totals(self, books: Mapping[int, QuoteBook]) -> None:
        """Take over the rows of these books, which are by span."""
        for span, book in books.items():
            for quote, record in book.records.items():
                rows = record.rows.items()
                self.totals |= {TotalKey(span, quote, time): totals for time, totals in rows}
                record.rows = {}


def settle_quotes(
    wallet_id: int,
    pending: PendingQuotes,
    books: Mapping[int, QuoteBook],
    wallets: Collection[int],
) -> None:
    """Like stored.store.settle, for what was done in quotes. `wallets`: numbers of those whose
    trades the books are made of.
    """
    pending.take_totals(books)
    totals = load_totals(_read(TOTALS.format(wallet=wallet_id)))
    # A wallet without totals has no trades either, and there are many of these to look through.
    sales = load_sales(_read(write_sales(wallets))) if totals or pending.totals else {}
    storage.leave_changes(pending.totals, totals.items())
    storage.leave_changes(pending.sales, sales.items())


Rows = Iterable[Sequence[Any]]


def load_totals(rows: Rows) -> dict[TotalKey, QuoteTotals]:
    """The totals in rows of TOTALS."""
    return {TotalKey(span, quote, time): QuoteTotals(*rest) for span, quote, time, *rest in rows}


def load_sales(rows: Rows) -> dict[SaleKey, QuoteSale]:
    """The trades in rows of SALES."""
    return {
        SaleKey(wallet, signature, quote): QuoteSale(*rest)
        for wallet, signature, quote, *rest in rows
    }


def write_sales(wallets: Iterable[int]) -> str:
    """SQL of the trades of these wallets."""
    return SALES.format(wallets=", ".join(map(str, sorted(wallets))) or "NULL")


def _read(sql: str) -> Rows:
    found: Rows = storage.database.execute_sql(sql).fetchall()
    return found


def replace_quotes(wallet_id: int, pending: PendingQuotes, books: Mapping[int, QuoteBook]) -> bool:
    """Write what is not written yet, in the caller's transaction, after the trades; return whether
    there was anything.
    """
    pending.take_totals(books)
    if not pending.totals and not pending.sales:
        return False
    _replace_totals(wallet_id, pending.totals)
    for number in {key.wallet for key in pending.sales}:
        mine = {key: sale for key, sale in pending.sales.items() if key.wallet == number}
        _replace_sales(number, mine)
    pending.totals, pending.sales = {}, {}
    return True


def _replace_totals(wallet_id: int, rows: Mapping[TotalKey, QuoteTotals | None]) -> None:
    kept = [
        {"wallet": wallet_id, **key._asdict(), **totals._asdict()}
        for key, totals in rows.items()
        if totals is not None
    ]
    storage.write_rows(QuoteTotal, kept, ("wallet", "span", "quote", "time"))
    for key in (key for key, totals in rows.items() if totals is None):
        same = [getattr(QuoteTotal, name) == value for name, value in key._asdict().items()]
        QuoteTotal.delete().where(QuoteTotal.wallet == wallet_id, *same).execute()


def _replace_sales(wallet_id: int, rows: Mapping[SaleKey, QuoteSale | None]) -> None:
    """A trade that is gone took its rows along."""
    trades = find_trades(wallet_id, sorted({key.signature for key in rows}))
    kept = [
        {"trade": trades[key.signature].id, "quote": key.quote, **sale._asdict()}
        for key, sale in rows.items()
        if sale is not None
    ]
    storage.write_rows(QuoteTrade, kept, ("trade", "quote"))
    for key in (key for key, sale in rows.items() if sale is None):
        if key.signature in trades:
            trade = QuoteTrade.trade == trades[key.signature].id
            QuoteTrade.delete().where(trade, QuoteTrade.quote == key.quote).execute()
