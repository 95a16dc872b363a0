"""The forward record of a wallet's attachments, as it is stored."""

from collections.abc import Iterable, Iterator, Mapping

from peewee import chunked

import storage
from chain.ledger.forward import Forward, Span, SpanHoldings, SpanTotals
from chain.ledger.ledger import Ledger
from chain.stored.tables import ForwardTotal

# Plain SQL: it runs before each step of a poll, and peewee would take longer to build it than
# SQLite to run it.
SPANS = "SELECT id, attached_at, detached_at FROM attachment WHERE wallet_id = ?"
HOLDINGS = f"SELECT id, {', '.join(SpanHoldings._fields)} FROM attachment WHERE id IN"
REPLACE_HOLDINGS = f"""
UPDATE attachment SET {", ".join(f"{name} = ?" for name in SpanHoldings._fields)} WHERE id = ?"""
TOTALS = f"""
SELECT time, {", ".join(SpanTotals._fields)} FROM forward_total
WHERE attachment_id = ? ORDER BY time"""
# Of each span, by its number, the stored totals after each Unix second that changed them.
StoredTotals = Mapping[int, storage.InOrder[tuple[int, SpanTotals]]]


def read_spans(wallet_id: int) -> tuple[Span, ...]:
    """The attachments of a wallet, in order."""
    rows = storage.database.execute_sql(SPANS, (wallet_id,)).fetchall()
    return sort_spans(Span(*row) for row in rows)


def sort_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """In the order in which they began; of the same moment, as they were made."""
    return tuple(sorted(spans, key=lambda span: (span.begins_ms, span.number)))


def read_stored_totals(spans: Iterable[Span]) -> StoredTotals:
    """The stored totals of these spans."""
    return {span.number: storage.InOrder(_read_rows(span.number)) for span in spans}


def settle_forward(forward: Forward, stored: StoredTotals) -> None:
    """Like chain.stored.store.settle, for the totals of spans."""
    for span in forward.spans:
        record, rows = forward.records.get(span.number), stored[span.number].take()
        if record:
            storage.leave_changes(record.rows, rows)
        else:
            forward.unwanted[span.number] = [time for time, _ in rows]


def settle_past(forward: Forward, stored: StoredTotals) -> None:
    """Like settle_forward, for the totals that no later entry changes."""
    for number, record in forward.records.items():
        storage.leave_changes(record.rows, stored[number].take(forward.second - 1))


def _read_rows(number: int) -> Iterator[tuple[int, SpanTotals]]:
    for time, *totals in storage.database.execute_sql(TOTALS, (number,)):
        yield time, SpanTotals._make(totals)


def replace_forward(forward: Forward, whole: Ledger) -> bool:
    """Write what is not written yet, in the caller's transaction; return whether anything moved."""
    moved = bool(forward.unwanted) or any(record.rows for record in forward.records.values())
    for number, record in forward.records.items():
        _replace_rows(number, record.rows)
        record.rows = {}
    for number, times in forward.unwanted.items():
        _replace_rows(number, dict.fromkeys(times))
    forward.unwanted = {}
    return _replace_holdings(forward.find_holdings(whole)) or moved


def _replace_holdings(right: dict[int, SpanHoldings]) -> bool:
    if not right:
        return False
    sql = f"{HOLDINGS} ({storage.mark(right)})"
    rows = storage.database.execute_sql(sql, list(right)).fetchall()
    stored = {number: SpanHoldings(*held) for number, *held in rows}
    moved = {number: held for number, held in right.items() if stored.get(number) != held}
    for number, holdings in moved.items():
        storage.database.execute_sql(REPLACE_HOLDINGS, (*holdings, number))
    return bool(moved)


def _replace_rows(number: int, rows: dict[int, SpanTotals | None]) -> None:
    kept = [
        {"attachment": number, "time": time, **totals._asdict()}
        for time, totals in rows.items()
        if totals is not None
    ]
    storage.write_rows(ForwardTotal, kept, ("attachment", "time"))
    gone = sorted(time for time, totals in rows.items() if totals is None)
    for times in chunked(gone, storage.ROWS_A_STATEMENT):
        ForwardTotal.delete().where(
            ForwardTotal.attachment == number, ForwardTotal.time.in_(times)
        ).execute()
