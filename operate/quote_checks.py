"""Compare what a wallet did in quotes, as it is stored, with its rebuilt ledgers."""

from collections.abc import Iterator, Mapping
from typing import Any

from chain.stored.quote_store import TOTALS, PendingQuotes, load_sales, load_totals, write_sales
from chain.stored.store import PendingLedger
from operate.differences import Difference
from operate.readers import Reader


def check_quotes(reader: Reader, wallet: Any, pending: PendingLedger) -> Iterator[Difference]:
    """Differences of totals and of trades, and books that do not close."""
    right = PendingQuotes(sales=pending.quote_rows.sales)
    right.take_totals(pending.list_quotes())
    stored = load_totals(reader.rows(TOTALS.format(wallet=wallet.id)))
    yield from _compare("quote_total", wallet, stored, right.totals)
    if stored or right.totals:
        sales = load_sales(reader.rows(write_sales([wallet.id])))
        yield from _compare("quote_trade", wallet, sales, right.sales)
    for quote, left_over in pending.quotes.find_imbalances().items():
        what = f"the books in {quote} do not close: {left_over} raw units are left over"
        yield Difference("wallet", what, wallet.address, field="by_quote")


def _compare(
    table: str, wallet: Any, stored: Mapping[Any, Any], right: Mapping[Any, Any]
) -> Iterator[Difference]:
    for key in sorted(stored.keys() | right.keys()):
        if stored.get(key) != right.get(key):
            what = f"is {stored.get(key)}, a fresh rebuild says {right.get(key)}"
            yield Difference(table, what, wallet.address, field=str(key))
