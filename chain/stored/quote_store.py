"""Trades against quotes, as they are stored."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import storage
from chain.ledger.lots import Booked
from chain.ledger.quote_book import QuoteSale, read_sale
from chain.ledger.sums import IN_SOL
from chain.reading.entries import Entry
from chain.stored.quote_tables import QuoteTrade
from chain.stored.trade_store import find_trades

SALES = f"""
SELECT t.wallet_id, t.signature, q.quote, {", ".join(f"q.{name}" for name in QuoteSale._fields)}
FROM quote_trade q JOIN trade t ON t.id = q.trade_id WHERE t.wallet_id IN ({{wallets}})"""


class SaleKey(NamedTuple):
    """A trade against a quote; `wallet`: the number of that whose row tells of it."""

    wallet: int
    signature: str
    quote: str


@dataclass
class PendingQuotes:
    """What is not written yet. Each has one fate: it is written, or (None) dropped."""

    sales: dict[SaleKey, QuoteSale | None] = field(default_factory=dict)

    def add(self, wallet: int, entry: Entry, booked: Mapping[str, Booked]) -> None:
        """Note what the ledgers made of an entry, by quote."""
        for quote, one in booked.items():
            sale = read_sale(one)
            if sale:
                self.sales[SaleKey(wallet, entry.signature, quote)] = sale


HAS_LEDGER = f"SELECT 1 FROM running_total WHERE wallet_id = ? AND money <> '{IN_SOL}' LIMIT 1"


def settle_quotes(wallet_id: int, pending: PendingQuotes, wallets: Collection[int]) -> None:
    """Like stored.store.settle, for what was done in quotes. `wallets`: numbers of those whose
    trades the books are made of.
    """
    # A wallet without totals has no trades either, and there are many of these to look through.
    has_ledger = storage.database.execute_sql(HAS_LEDGER, (wallet_id,)).fetchone()
    if pending.sales or has_ledger:
        sales = load_sales(storage.database.execute_sql(write_sales(wallets)).fetchall())
        storage.leave_changes(pending.sales, sales.items())


Rows = Iterable[Sequence[Any]]


def load_sales(rows: Rows) -> dict[SaleKey, QuoteSale]:
    """The trades in rows of SALES."""
    return {
        SaleKey(wallet, signature, quote): QuoteSale(*rest)
        for wallet, signature, quote, *rest in rows
    }


def write_sales(wallets: Iterable[int]) -> str:
    """SQL of the trades of these wallets."""
    return SALES.format(wallets=", ".join(map(str, sorted(wallets))) or "NULL")


def replace_quotes(pending: PendingQuotes) -> bool:
    """Write what is not written yet, in the caller's transaction, after the trades; return whether
    there was anything.
    """
    sales, pending.sales = pending.sales, {}
    for number in {key.wallet for key in sales}:
        mine = {key: sale for key, sale in sales.items() if key.wallet == number}
        _replace_sales(number, mine)
    return bool(sales)


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
