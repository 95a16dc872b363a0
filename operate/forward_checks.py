"""Compare the stored forward record of a wallet's attachments with a rebuilt one."""

from collections.abc import Iterator
from typing import Any

from chain.forward import Forward, Span, SpanHoldings, SpanTotals
from chain.forward_store import sort_spans
from chain.store import PendingLedger
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
        record = pending.forward.records.get(number)
        yield from _check_rows(reader, wallet, number, record.rows if record else {})


def _check_rows(
    reader: Reader, wallet: Any, number: int, right: dict[int, SpanTotals | None]
) -> Iterator[Difference]:
    columns = ", ".join(SpanTotals._fields)
    sql = f"SELECT time, {columns} FROM forward_total WHERE attachment_id = {number}"
    stored = {time: SpanTotals(*totals) for time, *totals in reader.rows(sql)}
    for time in sorted(stored.keys() | right.keys()):
        if stored.get(time) != right.get(time):
            yield Difference(
                "forward_total",
                f"is {stored.get(time)}, a fresh rebuild says {right.get(time)}",
                wallet.address,
                field=f"attachment {number}, second {time}",
            )
