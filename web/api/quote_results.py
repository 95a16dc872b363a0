"""What bots earned against stablecoins: a ledger for each of reading.quotes, in its own raw units,
never converted and never added to SOL.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chain.amounts import exact
from chain.ledger.quote_book import QuoteTotals
from chain.reading.quotes import QUOTES, Quote
from chain.stored.quote_standings import END_OF_TIME
from storage.rows import select, write_marks
from web.api.serialize import Json, show_part
from web.api.statements import BotRow


class LedgerRow(NamedTuple):
    """Running totals of a wallet, or of an attachment of it, in a stablecoin at a moment: as in
    QuoteTotals. `mint` is null where it had none, `is_derived` is 0 where nobody knows yet.
    """

    bot_id: int
    is_derived: int
    mint: str | None
    realized: int | None
    volume: int | None
    trades: int | None
    matched: int | None
    partial: int | None
    unmatched: int | None
    winning: int | None
    cost_left: int | None
    cost_left_receipts: int | None
    fee_lamports: int | None
    cross: int | None

    @property
    def totals(self) -> QuoteTotals:
        return QuoteTotals(*(getattr(self, name) or 0 for name in QuoteTotals._fields))


# By mint.
Ledgers = dict[str, QuoteTotals]
TABLE = ", ".join(f"('{quote.mint}')" for quote in QUOTES)
# {span}: SQL of the number of a span; {which}: of the attachments that are read.
LEDGERS = f"""
WITH quoted (mint) AS (VALUES {TABLE})
SELECT a.bot_id, CASE WHEN w.by_quote IS NULL THEN 0 ELSE 1 END AS is_derived, q.quote AS mint,
       {", ".join(f"q.{name}" for name in QuoteTotals._fields)}
FROM attachment a JOIN wallet w ON w.id = a.wallet_id CROSS JOIN quoted k
LEFT JOIN quote_total q ON q.wallet_id = w.id AND q.span = {{span}} AND q.quote = k.mint
    AND q.time = (SELECT MAX(l.time) FROM quote_total l WHERE l.wallet_id = w.id
                  AND l.span = {{span}} AND l.quote = k.mint AND l.time < ?)
WHERE {{which}} AND a.bot_id IN ({{bots}})
"""


class Source(NamedTuple):
    """Which ledgers are read. `span`, `which`: SQL, as LEDGERS takes it."""

    span: str
    which: str


# Of all that the wallet did which a bot holds now, or of all its attachments.
OF_RESULTS = Source("0", "a.detached_at IS NULL")
OF_RECORD = Source("a.id", "a.forward_realized IS NOT NULL")


def find_ledgers(
    source: Source, bot_ids: Sequence[int], until: int = END_OF_TIME
) -> dict[int, Ledgers]:
    """Return {bot id: its totals by mint} up to this Unix second; a bot is left out where they are
    not all derived yet.
    """
    sql = LEDGERS.format(span=source.span, which=source.which, bots=write_marks(bot_ids))
    rows = select(LedgerRow, sql, [until, *bot_ids])
    unknown = {row.bot_id for row in rows if not row.is_derived}
    found: dict[int, Ledgers] = {row.bot_id: {} for row in rows if row.bot_id not in unknown}
    for row in rows:
        if row.mint is not None and row.bot_id not in unknown:
            ledgers = found[row.bot_id]
            ledgers[row.mint] = add_totals(ledgers.get(row.mint, QuoteTotals()), row.totals)
    return found


def add_totals(one: QuoteTotals, other: QuoteTotals) -> QuoteTotals:
    """Return the sums of totals, by column."""
    return QuoteTotals(*map(sum, zip(one, other, strict=True)))


def find_since(source: Source, bot_id: int, since: int) -> Ledgers | None:
    """Return what a bot did from this Unix second on, by mint; None where it is not derived."""
    now = find_ledgers(source, [bot_id]).get(bot_id)
    before = find_ledgers(source, [bot_id], since).get(bot_id, {})
    if now is None:
        return None
    return {
        mint: QuoteTotals(
            *(one - less for one, less in zip(totals, before.get(mint, QuoteTotals()), strict=True))
        )
        for mint, totals in now.items()
    }


# ---- JSON ----------------------------------------------------------------------------------------
def show_ledgers(ledgers: Mapping[str, QuoteTotals]) -> list[Json]:
    """List the QuoteResults, in the order of chain.reading.quotes."""
    return [show_ledger(quote, ledgers[quote.mint]) for quote in QUOTES if quote.mint in ledgers]


def show_ledger(quote: Quote, totals: QuoteTotals) -> Json:
    """Make the QuoteResults of one stablecoin."""
    return {
        **show_quote(quote),
        **show_amount("realized", totals.realized, quote),
        "matchedSells": totals.matched,
        "partialSells": totals.partial,
        "unmatchedSells": totals.unmatched,
        "winningSells": totals.winning,
        "crossQuoteSells": totals.cross,
        **show_amount("volume", totals.volume, quote),
        "observedTrades": totals.trades,
        "feeLamports": str(totals.fee_lamports),
        **show_amount("costLeft", totals.cost_left, quote),
        "costLeftReceipts": totals.cost_left_receipts,
    }


def show_quote(quote: Quote) -> Json:
    """Make the Quote: which stablecoin, and what its raw units are."""
    return {"mint": quote.mint, "symbol": quote.symbol, "decimals": quote.decimals}


def show_amount(name: str, raw: int | None, quote: Quote) -> Json:
    """Make the two members of an amount: raw units, and the same in whole coins; None is null."""
    if raw is None:
        return {f"{name}Raw": None, name: None}
    return {f"{name}Raw": str(raw), name: exact(raw, quote.decimals)}


# ---- beside the figures in SOL -------------------------------------------------------------------
def add_quotes(bots: Sequence[Json], rows: Sequence[BotRow]) -> None:
    """Add `byQuote` to the results, records and reconciliations of Bots."""
    ids = [row.id for row in rows]
    results, records = find_ledgers(OF_RESULTS, ids), find_ledgers(OF_RECORD, ids)
    for bot, row in zip(bots, rows, strict=True):
        books: Json | None = show_part(row.by_quote)[0]
        # What it moved and never traded with is a ledger too.
        moved = {mint: QuoteTotals() for mint in books or {}}
        if bot["results"] is not None:
            told = results.get(row.id)
            bot["results"] = {
                **bot["results"],
                "byQuote": None if told is None else show_ledgers({**moved, **told}),
            }
        if bot["record"] is not None:
            told = records.get(row.id)
            bot["record"]["byQuote"] = None if told is None else show_ledgers(told)
        if bot["reconciliation"] is not None:
            bot["reconciliation"] = {
                **bot["reconciliation"],
                "byQuote": None if books is None else show_books(books),
            }


def show_books(books: Mapping[str, Json]) -> list[Json]:
    """List the QuoteReconciliations that are stored with a wallet, in the order of quotes."""
    return [
        {**show_quote(quote), **books[quote.mint]["reconciliation"]}
        for quote in QUOTES
        if quote.mint in books and books[quote.mint]["reconciliation"]
    ]


def show_differences(left_over: Mapping[str, int]) -> list[Json]:
    """List the QuoteDifferences: raw units that books leave over, by mint."""
    return [
        {**show_quote(quote), **show_amount("difference", left_over[quote.mint], quote)}
        for quote in QUOTES
        if quote.mint in left_over
    ]


def show_window(bot: Json, bot_id: int, since: int) -> Json:
    """Make the QuoteWindow of a bot: what its ledgers did from this Unix second on."""
    results = None if bot["riskReason"] else find_since(OF_RESULTS, bot_id, since)
    record = find_since(OF_RECORD, bot_id, since)
    return {
        "results": None if results is None else show_ledgers(results),
        "record": None if record is None else show_ledgers(record),
    }
