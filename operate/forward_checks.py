"""Compare the stored forward record of a wallet's attachments with a rebuilt one."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from chain.ledger.forward import Forward, Span, SpanHoldings
from chain.stored.forward_store import sort_spans
from chain.stored.risk_store import (
    COLUMNS,
    TOKEN_COLUMNS,
    PeriodKey,
    TokenKey,
    dump_stretch,
    list_stretches,
    list_tokens,
)
from chain.stored.store import PendingLedger
from operate.differences import Difference
from operate.readers import Reader


def read_forward(reader: Reader, number: int) -> Forward:
    """An empty forward record of a wallet's attachments."""
    rows = reader.rows(
        f"SELECT id, attached_at, detached_at FROM attachment WHERE wallet_id = {number}"
    )
    return Forward(sort_spans(Span(*row) for row in rows))


def check_forward(reader: Reader, wallet: Any, pending: PendingLedger) -> Iterator[Difference]:
    """Differences, by attachment; all empty before the wallet's first publication."""
    if wallet.coverage is None and not pending.ledger.count:
        return
    for number, right in pending.forward.find_holdings(pending.ledger).items():
        columns = ", ".join(SpanHoldings._fields)
        sql = f"SELECT {columns} FROM attachment WHERE id = {number}"
        stored = SpanHoldings(*next(reader.rows(sql)))
        if stored != right:
            what = f"is {stored}, a fresh rebuild says {right}"
            yield Difference("attachment", what, wallet.address, field=f"attachment {number}")


def check_risk(reader: Reader, wallet: Any, pending: PendingLedger) -> Iterator[Difference]:
    """Compare the stored risk and the stored results by token with the rebuilt ones."""
    books = pending.list_risk()
    right: dict[Any, Any] = {key: one and dump_stretch(one) for key, one in list_stretches(books)}
    yield from _compare(reader, wallet, "risk_total", (PeriodKey, COLUMNS), right)
    right = {key: one and asdict(one) for key, one in list_tokens(books)}
    yield from _compare(reader, wallet, "token_total", (TokenKey, TOKEN_COLUMNS), right)


def _compare(
    reader: Reader, wallet: Any, table: str, shape: tuple[Any, tuple[str, ...]], right: Any
) -> Iterator[Difference]:
    key, columns = shape
    names = (*key._fields, *columns)
    sql = f"SELECT {', '.join(names)} FROM {table} WHERE wallet_id = {wallet.id}"
    rows = [dict(zip(names, row, strict=True)) for row in reader.rows(sql)]
    stored = {
        key(*(row[name] for name in key._fields)): {name: row[name] for name in columns}
        for row in rows
    }
    for place in sorted(stored.keys() | right.keys()):
        if stored.get(place) != right.get(place):
            what = f"is {stored.get(place)}, a fresh rebuild says {right.get(place)}"
            yield Difference(table, what, wallet.address, field=str(place))
