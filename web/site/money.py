"""Text about where a wallet's money went, and where a trade's value came from."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from chain.amounts import sol
from chain.reading.currencies import find_stablecoin
from chain.reading.flows import MIN_EXPLAINED_PERCENT, Change, list_venue_changes
from web.api.serialize import Json
from web.api.trades import read_multiplier, read_outside, show_change
from web.site import figures, words

# With fewer positions, there is no win rate.
MIN_POSITIONS = 3
SIGNS = {
    "one_token": "mostly one token",
    "flat_round_trips": "many flat round trips",
}


def list_traded(results: Json | None) -> list[Json]:
    return results["byCurrency"] if results else []


def find_results(results: Json | None, currency: str) -> Json | None:
    return next((one for one in list_traded(results) if one["currency"] == currency), None)


def write(results: Json, name: str, sign: bool = False) -> str:
    return figures.write_units(results[name], results["currency"], results["decimals"], sign)


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
    """Return lamports of fees that no result includes: failed transactions and non-trades."""
    return int(results["failedCostLamports"]) + int(results["overheadLamports"])


def drawdown(results: Json) -> int | None:
    """Return the largest drawdown in raw units, as a loss."""
    return None if results["maxDrawdownRaw"] is None else -int(results["maxDrawdownRaw"])


# ---- where the money went ------------------------------------------------------------------------
# Lines between the first and the last balance: a sum's name, the sign it counts with, and its text.
BOOK_LINES = (
    ("realized", 1, "Realized PnL"),
    ("unmatchedProceeds", 1, "Proceeds of sales with unknown cost"),
    ("openCost", -1, "Cost of tokens still held"),
    ("costLeft", -1, "Cost of tokens moved out unsold"),
    ("received", 1, "Received"),
    ("sent", -1, "Sent"),
    ("overhead", -1, "Fees and tips outside of trades"),
    ("failedCost", -1, "Fees of failed transactions"),
    ("other", 1, "Everything else: orders, staking, NFTs, tokens without a price"),
    ("gap", 1, "Moved by missing transactions"),
)


class Books(NamedTuple):
    """A currency's sums in raw units. `lines` leads from the first balance to the last. `rest` is
    unaccounted for.
    """

    symbol: str
    decimals: int
    opening: int
    lines: list[tuple[str, int]]
    closing: int
    gap: int
    rest: int


def list_books(reconciliation: Json) -> list[Books]:
    """List the books of SOL and of each stablecoin."""
    return [
        _read_books(reconciliation, "SOL", figures.SOL_DECIMALS, "Lamports"),
        *(
            _read_books(one, one["currency"], one["decimals"], "Raw")
            for one in reconciliation["byCurrency"] or ()
        ),
    ]


def _read_books(sums: Json, symbol: str, decimals: int, unit: str) -> Books:
    def read(name: str) -> int:
        return int(sums[f"{name}{unit}"] or 0)

    lines = [(text, sign * read(name)) for name, sign, text in BOOK_LINES if read(name)]
    rest = read("difference") - read("gap")
    return Books(symbol, decimals, read("opening"), lines, read("closing"), read("gap"), rest)


# ---- trades --------------------------------------------------------------------------------------
def venue_changes(trade: Json) -> list[Json]:
    whole, beside = trade["tokenChanges"], read_outside(trade)["tokenChanges"]
    by_mint = {one["mint"]: one for one in (*whole, *beside)}
    symbols = {mint: one["symbol"] for mint, one in by_mint.items()}
    moved = list_venue_changes(_read_changes(whole), _read_changes(beside))
    return [
        show_change(one, symbols, read_multiplier(by_mint[one.mint]["multiplier"])) for one in moved
    ]


def _read_changes(changes: Iterable[Json]) -> list[Change]:
    return [Change(one["mint"], int(one["changeRaw"]), one["decimals"]) for one in changes]


def is_exchange(trade: Json) -> bool:
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
    stablecoin = find_stablecoin(realized["currency"] or "")
    if stablecoin is None:
        return figures.sol(realized["resultSol"], True, places=places)
    return figures.units(int(realized["resultRaw"]), stablecoin.symbol, stablecoin.decimals, True)


# Why a trade has no result, by flag. The first one that applies is shown.
MISSING_RESULTS = {
    "incomplete_history": "a transaction is missing",
    "ambiguous": "ambiguous transaction",
    "value_unexplained": "value not explained",
    "fed_market": "helped by another account",
    "own_wallets": "between own wallets",
    "paid_elsewhere": "bought in another currency",
}
SHOWN_ACCOUNTS = 3


def describe_missing_result(trade: Json) -> str:
    """Explain why a trade has no result, or "" if none is expected."""
    why = next((text for flag, text in MISSING_RESULTS.items() if flag in trade["flags"]), "")
    is_sale = trade["kind"] in ("sell", "swap", "round_trip")
    if trade["realized"]["status"] == "unmatched" or (why and is_sale):
        return f"no result: {why or 'purchase unknown'}"
    return ""


def describe_paid(trade: Json) -> str:
    """Describe the result of a sale for a stablecoin."""
    currency, realized = trade["currency"], trade["realized"]
    if realized["result"] is not None:
        part = ", for the part with a known cost" if realized["status"] == "partial" else ""
        exact = figures.write_exact(realized["result"], True)
        return f"Result in {currency}: {exact} {currency}{part}."
    if "paid_elsewhere" in trade["flags"]:
        return (
            f"Sold for {currency}: the tokens sold were bought in another currency, so the sale has"
            " no result in either."
        )
    return f"Sold for {currency}: no known purchase in {currency}."


def describe_source(trade: Json) -> str:
    """Describe which accounts a trade's value came from, and how much of it."""
    percent, accounts = int(trade["explainedShare"].replace(".", "")), trade["counterparties"]
    share = f"{'Only ' if percent < MIN_EXPLAINED_PERCENT else ''}{percent}% of what it"
    if not accounts:
        return f"{share} gave and received passed through the venue."
    listed = [words.short(one) for one in accounts[:SHOWN_ACCOUNTS]]
    if len(accounts) > SHOWN_ACCOUNTS:
        listed.append(f"{len(accounts) - SHOWN_ACCOUNTS:,} more")
    noun = "an account" if len(accounts) == 1 else "accounts"
    return f"{share} received left {noun} its venue trades with: {words.join_words(listed)}."


def describe_outside(trade: Json, symbols: Mapping[str, str]) -> str:
    """Describe what moved in the same transaction outside of the trade."""
    outside = trade["outsideVenue"]
    moved = [
        f"{figures.UNKNOWN if one['change'] is None else figures.write_tokens(one['change'], True)}"
        f" {words.name_mint(one['mint'], symbols)}"
        for one in outside["tokenChanges"]
    ]
    if outside["solLamports"] != "0":
        moved.insert(0, figures.write_lamports(outside["solLamports"], True))
    return (
        f"In the same transaction, but not part of the trade: {', '.join(moved)}."
        f" The trade itself moved {figures.write_number(venue_sol(trade), True)} SOL."
    )


def venue_sol(shown: Json) -> str:
    """Return the exact SOL that went through the venue, for a trade or a row of activity."""
    return sol(int(shown["solChangeLamports"]) - int(read_outside(shown)["solLamports"]))
