"""Serve a bot's trades and lots as public CSV files.

`kind` and `token` are as on the Trades tab. `format` selects a tax tool: Koinly's universal file or
rotki's generic trades.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from flask import Blueprint, Response, request
from flask.typing import ResponseReturnValue

from accounts.spreadsheet import disarm, write_lines
from chain.addresses import WRAPPED_SOL
from chain.amounts import exact, sol
from chain.reading.currencies import find_stablecoin
from chain.reading.flows import Change, list_venue_changes
from chain.reading.kinds import TRADES
from chain.symbols import find_own
from storage import database
from web.api import market, trades
from web.api.bots import find_row
from web.api.paging import read_choice
from web.api.serialize import Json
from web.api.trades import TradeSortKey, Wanted, find_trades, is_paid, read_outside
from web.server import gate
from web.server.application import find_app
from web.site.profiles import find_wanted, read_filter

blueprint = Blueprint("exports", __name__)
PAGE_SIZE, COUNTED_ROWS = 100, 1_000
# Columns with numbers, which aren't quoted.
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
LOT_COLUMNS = (
    *("saleId", "wallet", "signature", "eventAt", "mint", "lot", "tradeId", "amountRaw"),
    *("costRaw", "currency", "costLamports"),
)
KOINLY_COLUMNS = (
    *("Date", "Sent Amount", "Sent Currency", "Received Amount", "Received Currency"),
    *("Fee Amount", "Fee Currency", "Net Worth Amount", "Net Worth Currency", "Label"),
    *("Description", "TxHash"),
)
ROTKI_COLUMNS = (
    *("Location", "Spend Currency", "Receive Currency", "Receive Amount", "Spend Amount"),
    *("Fee", "Fee Currency", "Description", "Timestamp"),
)


# ---- tax tools: each line has at most one asset in and one out, so some trades use several -------
class Leg(NamedTuple):
    """An asset that a trade moved. `amount` is exact and nonnegative, in raw units by decimals."""

    mint: str
    amount: str


class Line(NamedTuple):
    """A line of the file. `fee` is in SOL, or empty."""

    sent: Leg | None
    received: Leg | None
    fee: str


NOTHING = Leg(WRAPPED_SOL, "0")


class Format(NamedTuple):
    columns: tuple[str, ...]
    make_rows: Callable[[Json], list[Cells]]


def list_lines(trade: Json) -> list[Line]:
    if trade["kind"] not in TRADES and not is_paid(trade["kind"], trade["realized"]["status"]):
        return []
    fee = int(trade["feeLamports"]) + int(trade["tipLamports"])
    outside = read_outside(trade)
    # The tools add the fee to the amount sent, and subtract it from the amount received.
    paid = int(trade["solChangeLamports"]) - int(outside["solLamports"]) + fee
    changes = (_list_raw(one["tokenChanges"]) for one in (trade, outside))
    moved = [Change(WRAPPED_SOL, paid, 9), *list_venue_changes(*changes)]
    if trade["kind"] == "order_fill":
        moved += _find_ordered(trade, {change.mint for change in moved})
    money = find_stablecoin(trade["currency"] or "")
    main = {trade["mint"], money.mint if money else WRAPPED_SOL}
    moved.sort(key=lambda change: change.mint not in main)
    sent = [Leg(one.mint, exact(-one.raw, one.decimals)) for one in moved if one.raw < 0]
    received = [Leg(one.mint, exact(one.raw, one.decimals)) for one in moved if one.raw > 0]
    lines = zip_longest(sent, received)
    return [Line(*pair, sol(fee) if fee and not n else "") for n, pair in enumerate(lines)]


def _list_raw(changes: Iterable[Json]) -> list[tuple[str, str, int]]:
    """List raw on-chain changes, because a display multiplier changes over time."""
    return [(one["mint"], one["changeRaw"], one["decimals"]) for one in changes]


def _find_ordered(trade: Json, moved: Collection[str]) -> list[Change]:
    """Return the tokens that a filled order sold. They left the wallet when it was opened."""
    raw = int(trade["realized"]["matchedRaw"]) + int(trade["realized"]["unmatchedRaw"])
    if not raw or trade["mint"] in moved:
        return []
    with database.connection_context():
        decimals = market.find_decimals(trade["mint"])
    return [] if decimals is None else [Change(trade["mint"], -raw, decimals)]


def _make_koinly_rows(trade: Json) -> list[Cells]:
    empty = dict.fromkeys(KOINLY_COLUMNS, "")
    return [
        {
            **empty,
            "Date": (trade["eventAt"] or "").replace("T", " ").replace("Z", " UTC"),
            **_fill("Sent Amount", "Sent Currency", line.sent, _name_koinly),
            **_fill("Received Amount", "Received Currency", line.received, _name_koinly),
            **({"Fee Amount": line.fee, "Fee Currency": "SOL"} if line.fee else {}),
            "Description": _describe(trade),
            "TxHash": trade["signature"],
        }
        for line in list_lines(trade)
    ]


def _make_rotki_rows(trade: Json) -> list[Cells]:
    at = trade["blockTime"]
    return [
        {
            "Location": "solana",
            # rotki requires both sides, so an asset without a counterpart is traded for nothing.
            **_fill("Spend Amount", "Spend Currency", line.sent or NOTHING, _name_rotki),
            **_fill("Receive Amount", "Receive Currency", line.received or NOTHING, _name_rotki),
            "Fee": line.fee,
            "Fee Currency": "SOL" if line.fee else "",
            "Description": f"{_describe(trade)} {trade['signature']}",
            "Timestamp": "" if at is None else str(1000 * at),
        }
        for line in list_lines(trade)
    ]


def _fill(amount: str, currency: str, leg: Leg | None, name: Callable[[str], str]) -> Cells:
    return {amount: leg.amount, currency: name(leg.mint)} if leg else {}


def _name_koinly(mint: str) -> str:
    """Return a well-known token's symbol, or the mint, because other tokens may share a symbol."""
    return find_own(mint) or mint


def _name_rotki(mint: str) -> str:
    return "SOL" if mint == WRAPPED_SOL else f"solana/token:{mint}"


def _describe(trade: Json) -> str:
    return " ".join(filter(None, (trade["kind"], trade["symbol"], trade["venue"])))


# ---- formats -------------------------------------------------------------------------------------
# Candor's own columns.
PLAIN = "candor"
FORMATS = {
    PLAIN: Format(TRADE_COLUMNS, lambda trade: [make_trade_cells(trade)]),
    "koinly": Format(KOINLY_COLUMNS, _make_koinly_rows),
    "rotki": Format(ROTKI_COLUMNS, _make_rotki_rows),
}


# ---- routes --------------------------------------------------------------------------------------
@blueprint.get("/bots/<uid>/trades.csv")
def show_trades(uid: str) -> ResponseReturnValue:
    name = read_choice(request.args, "format", tuple(FORMATS), PLAIN)
    return respond(uid, "trades" if name == PLAIN else f"trades-{name}", FORMATS[name])


@blueprint.get("/bots/<uid>/lots.csv")
def show_lots(uid: str) -> ResponseReturnValue:
    """Serve the lots that a bot's sales used: newest sale first, and in it the oldest lot first."""
    return respond(uid, "lots", Format(LOT_COLUMNS, make_lot_cells))


def make_lot_cells(trade: Json) -> list[Cells]:
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


# ---- CSV (UTF-8, RFC 4180), streamed a page of rows at a time ------------------------------------
def respond(uid: str, name: str, table: Format) -> Response:
    """Respond with a table that is read while it is sent. Raises Problem if no slot is free."""
    find_row(uid)
    pages = list_trade_pages(find_wanted(uid, read_filter()))
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
        write_table(read_pages(), table),
        mimetype="text/csv",
        headers={
            "Content-Disposition": f'attachment; filename="{uid}-{name}.csv"',
            "Cache-Control": "no-cache",
        },
    )
    response.call_on_close(leave)
    return response


def list_trade_pages(wanted: Wanted) -> Iterator[Sequence[Json]]:
    """Yield the matching trades, newest first. Between pages, no connection is open."""
    before: TradeSortKey | None = None
    while True:
        with database.connection_context():
            found = find_trades(wanted, PAGE_SIZE, before)
            page = trades.show_trades(found.rows)
        yield page
        if found.sort_key is None:
            return
        before = found.sort_key


def write_table(pages: Iterable[Sequence[Json]], table: Format) -> Iterator[str]:
    yield write_lines([table.columns])
    for page in pages:
        rows = [cells for trade in page for cells in table.make_rows(trade)]
        yield write_lines([[write_cell(name, row[name]) for name in table.columns] for row in rows])


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
