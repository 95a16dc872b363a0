"""Text about where a wallet's money went, and where a trade's value came from."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from chain.amounts import exact, sol
from chain.reading.currencies import find_stablecoin
from chain.reading.value import MIN_EXPLAINED_PERCENT, Change, list_venue_changes
from web.api.serialize import Json
from web.api.trades import read_multiplier, read_outside, show_change
from web.site import figures, words

# The maximum number of source accounts listed for a trade's value.
MAX_NAMED = 3
# With fewer positions, there is no win rate.
MIN_POSITIONS = 3
SOL_DECIMALS = 9
NO_BOOKS = {
    "no_wallet": "no wallet is connected",
    "not_observed": "this wallet has not been observed yet",
    "backfilling": "its history is still loading, and partial sums would mislead",
    "held_by_another": words.UNRANKED["held_by_another"],
    "damaged": words.UNRANKED["damaged"],
}
SIGNS = {
    "one_token": "mostly one token",
    "flat_round_trips": "many flat round trips",
}
# The members of the reconciliation, with their signs and labels.
ITEMS = (
    ("realizedLamports", 1, "Realized PnL"),
    ("unmatchedProceedsLamports", 1, "Proceeds of sales with unknown cost"),
    ("openCostLamports", -1, "Cost of tokens still held"),
    ("costLeftLamports", -1, "Cost of tokens moved out unsold"),
    ("receivedLamports", 1, "Received"),
    ("sentLamports", -1, "Sent"),
    ("overheadLamports", -1, "Fees and tips outside of trades"),
    ("failedCostLamports", -1, "Fees of failed transactions"),
    ("otherLamports", 1, "Everything else: orders, staking, NFTs, tokens without a price"),
    ("gapLamports", 1, "Moved where transactions are missing"),
)


class BookLine(NamedTuple):
    """A line of the reconciliation: its label, and the exact amount that it adds."""

    label: str
    amount: str


def read_books(books: Json, name: str) -> tuple[int, int]:
    """Return an item of the reconciliation in SOL or a stablecoin, as raw units and decimals."""
    if "decimals" not in books:
        return int(books[name]), SOL_DECIMALS
    return int(books[name.replace("Lamports", "Raw")]), books["decimals"]


def write_books(books: Json, name: str) -> str:
    """Write the exact amount of an item of the reconciliation, such as `openingLamports`."""
    return exact(*read_books(books, name))


def list_lines(books: Json) -> list[BookLine]:
    """List the nonzero items between the opening and the closing balance."""
    lines = [(label, sign, *read_books(books, name)) for name, sign, label in ITEMS]
    return [BookLine(label, exact(sign * raw, places)) for label, sign, raw, places in lines if raw]


def find_rest(books: Json) -> str:
    """Return the exact remainder after all lines. It is 0 unless there is a bug."""
    difference, places = read_books(books, "differenceLamports")
    return exact(difference - read_books(books, "gapLamports")[0], places)


def describe_rest(books: Json) -> str:
    """Describe whether the books balance."""
    rest, gaps = find_rest(books), int(books["gapLamports"])
    if rest != "0":
        return (
            f"{figures.write_exact(rest, True)} SOL is unaccounted for. This is a bug; the status"
            " page has the details."
        )
    if gaps:
        return (
            f"Gaps in the history moved {figures.write_lamports(gaps, True)}; everything else is"
            " accounted for, to the lamport."
        )
    return "Every lamport is accounted for."


def describe_average(average: Json) -> str:
    """Describe the result of the same sales by average cost."""
    count = average["matchedSells"]
    return (
        "By average cost instead of first in, first out, its sales made"
        f" {figures.write_lamports(average['realizedLamports'], True)} ({count:,}"
        f" {'sale' if count == 1 else 'sales'} with a known cost). This is for comparison with"
        " other tools and isn’t used for ranking."
    )


def count_sales(results: Json) -> int:
    return int(results["matchedSells"] + results["partialSells"])


def win_rate(results: Json) -> float | None:
    """Return the share of winning positions, or None for fewer than MIN_POSITIONS."""
    is_shown = results["winRate"] is not None and results["positions"] >= MIN_POSITIONS
    return float(results["winRate"]) if is_shown else None


def describe_positions(results: Json) -> str:
    """Describe the positions behind the win rate: `27 of 44 positions, 3 open`."""
    count, still_open = results["positions"], results["positionsOpen"]
    noun = "position" if count == 1 else "positions"
    text = f"{results['positionsWon']:,} of {count:,} {noun}"
    return f"{text}, {still_open:,} open" if still_open else text


def describe_signs(signs: Iterable[str]) -> list[str]:
    return [SIGNS[sign] for sign in signs]


def other_fees(results: Json) -> int:
    """Return the lamports of fees that aren't in any result: those of failed transactions and of
    transactions that aren't trades.
    """
    return int(results["failedCostLamports"]) + int(results["overheadLamports"])


# ---- trades --------------------------------------------------------------------------------------
def describe_source(trade: Json) -> str:
    """Describe which accounts a trade's value came from, and how much of it. The text is empty if
    nothing is priced.
    """
    share, accounts = trade["explainedShare"], trade["counterparties"]
    if share is None:
        return ""
    percent = int(share.replace(".", ""))
    amount = f"{'Only ' if percent < MIN_EXPLAINED_PERCENT else ''}{percent}%"
    if not accounts:
        return f"{amount} of what it gave and received passed through the venue."
    named = [words.short(one) for one in accounts[:MAX_NAMED]]
    if len(accounts) > MAX_NAMED:
        named.append(f"{len(accounts) - MAX_NAMED:,} more")
    noun = "an account" if len(accounts) == 1 else "accounts"
    return f"{amount} of what it received left {noun} its venue trades with: {words.join(named)}."


def describe_beside(trade: Json, symbols: Mapping[str, str]) -> str:
    """Describe changes in the same transaction that aren't part of the trade, if any."""
    beside = trade["outsideVenue"]
    if beside is None:
        return ""
    moved = [
        f"{write_change(one['change'])} {name_token(one, symbols)}"
        for one in beside["tokenChanges"]
    ]
    if beside["solLamports"] != "0":
        moved.insert(0, figures.write_lamports(beside["solLamports"], True))
    return (
        f"In the same transaction, but not part of the trade: {', '.join(moved)}. The trade itself"
        f" moved {figures.write_sol(venue_sol(trade), True)}."
    )


def name_token(change: Json, symbols: Mapping[str, str]) -> str:
    symbol = symbols.get(change["mint"])
    return words.plain(symbol) if symbol else words.short(change["mint"])


def write_change(change: str | None) -> str:
    return figures.UNKNOWN if change is None else figures.write_tokens(change, True)


def venue_changes(trade: Json) -> list[Json]:
    """List the token changes of a trade at its venue."""
    whole, beside = trade["tokenChanges"], read_outside(trade)["tokenChanges"]
    by_mint = {one["mint"]: one for one in (*whole, *beside)}
    symbols = {mint: one["symbol"] for mint, one in by_mint.items()}
    moved = list_venue_changes(_read_changes(whole), _read_changes(beside))
    return [
        show_change(one, symbols, read_multiplier(by_mint[one.mint]["multiplier"])) for one in moved
    ]


def _read_changes(changes: Iterable[Json]) -> list[Change]:
    return [Change(one["mint"], int(one["changeRaw"]), one["decimals"]) for one in changes]


def describe_paid(trade: Json) -> str:
    """Describe a stablecoin trade's result, or why it is unknown. The text is empty for other
    trades.
    """
    currency, realized = trade["currency"], trade["realized"]
    if currency in (None, "SOL") or trade["kind"] == "buy":
        return ""
    if realized["result"] is None:
        is_elsewhere = "paid_elsewhere" in trade["flags"]
        return (
            f"Sold for {currency}. The tokens were bought in another currency, so the sale has"
            " no result in either."
            if is_elsewhere
            else f"Sold for {currency}. There is no known purchase in {currency}."
        )
    result = f"{figures.write_exact(realized['result'], True)} {currency}"
    partial = ", for the part with a known cost" if realized["status"] == "partial" else ""
    return f"Result in {currency}: {result}{partial}."


def is_exchange(trade: Json) -> bool:
    """Return whether a token was traded for another token or for a stablecoin."""
    return trade["kind"] == "swap" or trade["currency"] not in (None, "SOL")


def write_paid(trade: Json, places: int) -> Any:
    """Return HTML for a trade's payment in its currency. It is empty for a swap."""
    stablecoin = find_stablecoin(trade["currency"] or "")
    if stablecoin is None:
        return "" if trade["kind"] == "swap" else figures.flow(venue_sol(trade), places)
    moved = next(
        (one["change"] for one in venue_changes(trade) if one["mint"] == stablecoin.mint), None
    )
    return "" if moved is None else f"{figures.write_number(moved, True)} {stablecoin.symbol}"


def write_result(realized: Json, places: int) -> Any:
    """Return HTML for a sale's result with its currency."""
    stablecoin = find_stablecoin(realized["currency"] or "")
    if stablecoin is None:
        return figures.sol(realized["resultSol"], True, places=places)
    return figures.units(int(realized["resultRaw"]), stablecoin.symbol, stablecoin.decimals, True)


# Why a sale has no result, by flag. The first flag that applies is used.
NO_RESULT = {
    "incomplete_history": "a transaction is missing",
    "ambiguous": "ambiguous transaction",
    "value_unexplained": "value not explained",
    "fed_market": "helped by another account",
    "own_wallets": "between own wallets",
    "paid_elsewhere": "bought in another currency",
}


def explain_no_result(trade: Json) -> str:
    """Explain briefly why a trade has no result. The text is empty if none is expected."""
    status, flags = trade["realized"]["status"], trade["flags"]
    why = next((text for flag, text in NO_RESULT.items() if flag in flags), "")
    if status == "unmatched" or (why and trade["kind"] in ("sell", "swap", "round_trip")):
        return f"no result: {why or 'purchase unknown'}"
    return ""


def venue_sol(shown: Json) -> str:
    """Return the exact SOL that passed through the venue, for a trade or a row of activity."""
    return sol(int(shown["solChangeLamports"]) - int(read_outside(shown)["solLamports"]))


FILTERS: dict[str, Any] = {
    one.__name__: one
    for one in (
        list_lines,
        find_rest,
        describe_rest,
        write_books,
        describe_average,
        win_rate,
        other_fees,
        describe_positions,
        describe_signs,
        describe_source,
        describe_beside,
        describe_paid,
        write_paid,
        write_result,
        explain_no_result,
        is_exchange,
        venue_changes,
        venue_sol,
    )
}
