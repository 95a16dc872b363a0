"""Text about where a wallet's money went, and where a trade's value came from."""

from collections.abc import Iterable
from typing import Any

from chain.amounts import sol
from chain.reading.currencies import find_stablecoin
from chain.reading.flows import Change, list_venue_changes
from web.api.serialize import Json
from web.api.trades import read_multiplier, read_outside, show_change
from web.site import figures

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


def venue_sol(shown: Json) -> str:
    """Return the exact SOL that went through the venue, for a trade or a row of activity."""
    return sol(int(shown["solChangeLamports"]) - int(read_outside(shown)["solLamports"]))
