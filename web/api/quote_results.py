"""What bots earned in the stablecoins of reading.quotes: each in its own raw units, never converted
and never added to SOL.
"""

from collections.abc import Mapping, Sequence

from chain.amounts import exact
from chain.ledger.sums import NOTHING, Sums, add_up
from chain.ledger.views import HOUR_SECONDS
from chain.reading.quotes import QUOTES, Quote
from chain.stored.attachments import OF_RECORD, OF_RESULTS, Source, write_last
from chain.stored.summary import show_rates
from storage import database
from storage.rows import write_marks
from web.api.serialize import Json, show_part
from web.api.statements import BotRow

# By mint.
Ledgers = dict[str, Sums]
TABLE = ", ".join(f"('{quote.mint}')" for quote in QUOTES)
# {last}: of write_last; {which}: of a Source.
LEDGERS = f"""
WITH quoted (mint) AS (VALUES {TABLE})
SELECT a.bot_id, CASE WHEN w.by_quote IS NULL THEN 0 ELSE 1 END, a.detached_at, t.money,
       {", ".join(f"t.{name}" for name in Sums._fields)}
FROM attachment a JOIN wallet w ON w.id = a.wallet_id CROSS JOIN quoted k
LEFT JOIN running_total t ON {{last}} WHERE {{which}} AND a.bot_id IN ({{bots}})
"""


def find_ledgers(
    source: Source, bot_ids: Sequence[int], until: int | None = None
) -> dict[int, Ledgers]:
    """Return {bot id: its sums by mint} before this hour, counted from 1970; a bot is left out if
    they are not all derived yet.
    """
    last = write_last("t", source.view, "k.mint", until)
    sql = LEDGERS.format(last=last, which=source.which, bots=write_marks(bot_ids))
    rows = database.execute_sql(sql, bot_ids).fetchall()
    unknown = {bot for bot, is_derived, *_ in rows if not is_derived}
    ends = None if until is None else until * HOUR_SECONDS * 1000
    found: dict[int, Ledgers] = {bot: {} for bot, *_ in rows if bot not in unknown}
    for bot, _, detached_at, mint, *told in rows:
        if mint is not None and bot not in unknown:
            ledgers, sums = found[bot], Sums._make(told)
            if detached_at is not None and (ends is None or detached_at < ends):
                sums = sums.give_up()
            ledgers[mint] = add_up((ledgers.get(mint, NOTHING), sums))
    return found


def find_since(source: Source, bot_id: int, since: int) -> Ledgers | None:
    """Return what a bot did from this hour on, by mint; None if it is not derived yet."""
    now = find_ledgers(source, [bot_id]).get(bot_id)
    before = find_ledgers(source, [bot_id], since).get(bot_id, {})
    if now is None:
        return None
    return {mint: sums.minus(before.get(mint, NOTHING)) for mint, sums in now.items()}


# ---- JSON ----------------------------------------------------------------------------------------
def show_ledgers(ledgers: Mapping[str, Sums]) -> list[Json]:
    """List the QuoteResults, in the order of chain.reading.quotes."""
    return [show_ledger(quote, ledgers[quote.mint]) for quote in QUOTES if quote.mint in ledgers]


def show_ledger(quote: Quote, totals: Sums) -> Json:
    """Make the QuoteResults of one stablecoin."""
    return {
        **show_quote(quote),
        **show_amount("realized", totals.realized, quote),
        **show_amount("worstCase", totals.worst_case, quote),
        **show_rates(totals),
        "matchedSells": totals.matched,
        "partialSells": totals.partial,
        "unmatchedSells": totals.unmatched,
        "winningSells": totals.winning,
        "crossQuoteSells": totals.cross_sells,
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
        moved = {mint: NOTHING for mint in books or {}}
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
    """Make the QuoteWindow of a bot: what it did in stablecoins from this hour on."""
    results = None if bot["riskReason"] else find_since(OF_RESULTS, bot_id, since)
    record = find_since(OF_RECORD, bot_id, since)
    return {
        "results": None if results is None else show_ledgers(results),
        "record": None if record is None else show_ledgers(record),
    }
