"""A bot's trades and lots as public CSV files, with `kind` and `token` as on the Trades tab, and
`format` for tax tools.
"""

from collections.abc import Callable, Iterable, Sequence

from flask import Blueprint, Response, request
from flask.typing import ResponseReturnValue

from accounts.problem import Problem
from web.api import queries, spreadsheet, trades
from web.api.arguments import read_choice
from web.api.serialize import Json
from web.api.spreadsheet import TRADE_COLUMNS, Cells, make_trade_cells
from web.site.profiles import find_wanted, read_filter
from web.site.tax_tables import FORMATS, Format

blueprint = Blueprint("exports", __name__)
LOT_COLUMNS = (
    *("saleId", "wallet", "signature", "eventAt", "mint", "lot", "tradeId", "amountRaw"),
    *("costRaw", "currency", "costLamports"),
)
# Candor's own columns.
PLAIN = "candor"
ALL_FORMATS = {PLAIN: Format(TRADE_COLUMNS, lambda trade: [make_trade_cells(trade)]), **FORMATS}


@blueprint.get("/bots/<uid>/trades.csv")
def show_trades(uid: str) -> ResponseReturnValue:
    name = read_choice(request.args, "format", tuple(ALL_FORMATS), PLAIN)
    chosen = ALL_FORMATS[name]
    title = "trades" if name == PLAIN else f"trades-{name}"
    return respond(uid, title, chosen.columns, chosen.make_rows)


@blueprint.get("/bots/<uid>/lots.csv")
def show_lots(uid: str) -> ResponseReturnValue:
    """Serve the lots that a bot's sales used, newest sale first, oldest lot first."""
    return respond(uid, "lots", LOT_COLUMNS, make_lot_cells)


def respond(
    uid: str, name: str, columns: Sequence[str], make_rows: Callable[[Json], Iterable[Cells]]
) -> Response:
    """Respond with a table. Raises Problem `not_found` for an unknown bot."""
    if queries.find_bot(uid) is None:
        raise Problem("not_found", "there is no such bot")
    pages = spreadsheet.list_trade_pages(trades.show_trades, find_wanted(uid, read_filter()))
    return spreadsheet.respond_table(f"{uid}-{name}", pages, columns, make_rows, "no-cache")


def make_lot_cells(trade: Json) -> list[Cells]:
    """Return the cells of each lot that a sale used, by column."""
    return [
        {
            "saleId": trade["id"],
            **{name: trade[name] for name in ("wallet", "signature", "eventAt", "mint")},
            "lot": number,
            "currency": trade["realized"]["currency"],
            **lot,
        }
        for number, lot in enumerate(trade["realized"]["lots"], 1)
    ]
