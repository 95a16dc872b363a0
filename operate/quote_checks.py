"""Compare what a wallet did in quotes, as it is stored, with its rebuilt ledgers."""

from collections.abc import Iterator, Mapping
from typing import Any

from chain.ledger.sums import IN_SOL
from chain.stored.quote_store import load_sales, write_sales
from chain.stored.store import PendingLedger
from operate.differences import Difference
from operate.readers import Reader


def check_quotes(reader: Reader, wallet: Any, pending: PendingLedger) -> Iterator[Difference]:
    """Differences of trades, and books that do not close."""
    right = pending.quote_rows.sales
    if right or any(key.money != IN_SOL for key in pending.totals.rows):
        sales = load_sales(reader.rows(write_sales(pending.list_wallets(wallet.id))))
        yield from _compare("quote_trade", wallet, sales, right)
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
