"""Trades and lots of a bot as CSV, for spreadsheets: streamed, a page of rows at a time."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence

from flask import Blueprint, Response
from flask.typing import ResponseReturnValue

from accounts.problem import Problem
from storage import database
from web.api import queries, v1
from web.api.serialize import Json
from web.api.statements import WalletSpan
from web.site.lists import expand_json

blueprint = Blueprint("exports", __name__)
PAGE_SIZE = 500
# A spreadsheet takes a cell that begins so for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
# Columns of numbers, which stand as they are.
NUMBERS = frozenset(
    (
        *("slot", "transactionIndex", "blockTime", "solChangeLamports", "solChange"),
        *("feeLamports", "tipLamports", "rentLamports", "resultLamports", "proceedsLamports"),
        *("costLamports", "matchedRaw", "unmatchedRaw", "explainedShare", "amountRaw", "lot"),
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
TRADE_COLUMNS = (*OF_TRADE, *OF_RESULT, "tokenChanges", "flags")
LOT_COLUMNS = (
    *("saleId", "wallet", "signature", "eventAt", "mint", "lot", "tradeId", "amountRaw"),
    "costLamports",
)
Cells = dict[str, object]


@blueprint.get("/bots/<uid>/trades.csv")
def show_trades(uid: str) -> ResponseReturnValue:
    """Serve all trades of a bot, newest first."""
    return respond(uid, "trades", TRADE_COLUMNS, lambda trade: [make_trade_cells(trade)])


@blueprint.get("/bots/<uid>/lots.csv")
def show_lots(uid: str) -> ResponseReturnValue:
    """Serve the lots that a bot's sales took, newest sale first, oldest lot first."""
    return respond(uid, "lots", LOT_COLUMNS, make_lot_cells)


def respond(
    uid: str, name: str, columns: Sequence[str], make_rows: Callable[[Json], Iterable[Cells]]
) -> Response:
    """Answer with a table; Problem `not_found` for an unknown bot."""
    if queries.find_bot(uid) is None:
        raise Problem("not_found", "there is no such bot")
    spans = queries.find_wallets(bot=uid)
    return Response(
        write_table(list_pages(spans), columns, make_rows),
        mimetype="text/csv",
        headers={
            "Content-Disposition": f'attachment; filename="{uid}-{name}.csv"',
            "Cache-Control": "no-cache",
        },
    )


def list_pages(spans: Sequence[WalletSpan]) -> Iterator[list[Json]]:
    """Yield the trades of these wallets, newest first, holding no connection between pages."""
    before = None
    while True:
        with database.connection_context():
            rows = queries.list_trades(PAGE_SIZE, before, spans=spans)
            page: list[Json] = expand_json(v1.show_trades(rows))
        if not rows:
            return
        yield page
        before = rows[-1].position


def write_table(
    pages: Iterable[list[Json]],
    columns: Sequence[str],
    make_rows: Callable[[Json], Iterable[Cells]],
) -> Iterator[str]:
    """Yield RFC 4180 text: the names of the columns, then a part for each page."""
    yield write_lines([columns])
    for page in pages:
        rows = [cells for trade in page for cells in make_rows(trade)]
        yield write_lines([[write_cell(name, row[name]) for name in columns] for row in rows])


def write_lines(lines: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(lines)
    return text.getvalue()


def write_cell(column: str, value: object) -> str:
    """Return what stands in a cell. Unknown: nothing. Text that looks like a formula is quoted."""
    text = "" if value is None else str(value)
    return f"'{text}" if column not in NUMBERS and text.startswith(FORMULA) else text


def make_trade_cells(trade: Json) -> Cells:
    """Return the cells of a trade, by column."""
    return {
        **{name: trade[name] for name in OF_TRADE},
        **{name: trade["realized"][name] for name in OF_RESULT},
        "tokenChanges": "; ".join(f"{t['mint']} {t['change']}" for t in trade["tokenChanges"]),
        "flags": " ".join(trade["flags"]),
    }


def make_lot_cells(trade: Json) -> list[Cells]:
    """Return the cells of each lot that a sale took, by column."""
    return [
        {
            "saleId": trade["id"],
            **{name: trade[name] for name in ("wallet", "signature", "eventAt", "mint")},
            "lot": number,
            **lot,
        }
        for number, lot in enumerate(trade["realized"]["lots"], 1)
    ]
