"""Write lists as CSV (UTF-8, RFC 4180) for spreadsheets. They are streamed a page of rows at a
time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from flask import Response

from accounts.spreadsheet import disarm, write_lines
from storage import database
from web.api.queries import TradePosition
from web.api.serialize import Json
from web.api.trades import Wanted, find_trades, read_outside
from web.server import gate
from web.server.application import find_app

PAGE_SIZE, COUNTED_ROWS = 100, 1_000
# The columns with numbers, which aren't quoted.
NUMBERS = frozenset(
    (
        *("slot", "transactionIndex", "blockTime", "solChangeLamports", "solChange"),
        *("feeLamports", "tipLamports", "rentLamports", "resultLamports", "proceedsLamports"),
        *("costLamports", "matchedRaw", "unmatchedRaw", "explainedShare", "amountRaw", "lot"),
        *("resultRaw", "proceedsRaw", "costRaw", "outsideLamports"),
        *("Sent Amount", "Received Amount", "Fee Amount", "Spend Amount", "Receive Amount", "Fee"),
    )
)
OF_TRADE = (
    *("id", "botId", "wallet", "signature", "slot", "transactionIndex", "blockTime", "eventAt"),
    *("kind", "venue", "mint", "symbol", "solChangeLamports", "solChange", "feeLamports"),
    *("tipLamports", "rentLamports", "explainedShare"),
)
OF_RESULT = (
    *("status", "resultLamports", "proceedsLamports", "costLamports", "matchedRaw"),
    "unmatchedRaw",
)
IN_CURRENCY = ("currency", "resultRaw", "proceedsRaw", "costRaw")
# The parts of solChangeLamports and tokenChanges outside the venue.
OUTSIDE = ("outsideLamports", "outsideTokenChanges")
TRADE_COLUMNS = (*OF_TRADE, *OF_RESULT, "tokenChanges", "flags", *IN_CURRENCY, *OUTSIDE)
Cells = dict[str, object]
ShowTrades = Callable[[Sequence[Any]], Sequence[Json]]


def respond_table(
    file_name: str,
    pages: Iterable[Sequence[Json]],
    columns: Sequence[str],
    make_rows: Callable[[Json], Iterable[Cells]],
    cache_control: str,
) -> Response:
    """Respond with a table that is read while it is sent. Raises Problem if no slot is free."""
    count_page = gate.meter_table()
    leave = find_app().places.take(gate.find_network())

    def read_pages() -> Iterator[Sequence[Json]]:
        try:
            for number, page in enumerate(pages, 1):
                if number > 1 and (number - 1) % (COUNTED_ROWS // PAGE_SIZE) == 0:
                    count_page()
                yield page
        finally:
            leave()

    response = Response(
        write_table(read_pages(), columns, make_rows),
        mimetype="text/csv",
        headers={
            "Content-Disposition": f'attachment; filename="{file_name}.csv"',
            "Cache-Control": cache_control,
        },
    )
    response.call_on_close(leave)
    return response


def list_trade_pages(show_trades: ShowTrades, wanted: Wanted) -> Iterator[Sequence[Json]]:
    """Yield the matching trades, newest first. Between pages, no connection is open."""
    before: TradePosition | None = None
    while True:
        with database.connection_context():
            found = find_trades(wanted, PAGE_SIZE, before)
            page = show_trades(found.rows)
        yield page
        if found.position is None:
            return
        before = found.position


def write_table(
    pages: Iterable[Sequence[Json]],
    columns: Sequence[str],
    make_rows: Callable[[Json], Iterable[Cells]],
) -> Iterator[str]:
    """Yield CSV text: the header row, then a chunk for each page."""
    yield write_lines([columns])
    for page in pages:
        rows = [cells for trade in page for cells in make_rows(trade)]
        yield write_lines([[write_cell(name, row[name]) for name in columns] for row in rows])


def write_cell(column: str, value: object) -> str:
    """Return a cell's text. Unknown values are empty. Text that looks like a formula is quoted."""
    text = "" if value is None else str(value)
    return text if column in NUMBERS else disarm(text)


def make_trade_cells(trade: Json) -> Cells:
    outside = read_outside(trade)
    return {
        **{name: trade[name] for name in OF_TRADE},
        **{name: trade["realized"][name] for name in (*OF_RESULT, *IN_CURRENCY)},
        "tokenChanges": _list_changes(trade["tokenChanges"]),
        "flags": " ".join(trade["flags"]),
        "outsideLamports": outside["solLamports"],
        "outsideTokenChanges": _list_changes(outside["tokenChanges"]),
    }


def _list_changes(changes: Iterable[Json]) -> str:
    return "; ".join(f"{one['mint']} {one['change']}" for one in changes)
