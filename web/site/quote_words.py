"""The words about results in stablecoins. Text only."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from chain.amounts import exact
from web.api.serialize import Json
from web.site import figures, money, profile_words
from web.site.profile_words import WINDOW_NAMES


class QuoteLine(NamedTuple):
    """A line of the reconciliation in a stablecoin: what it is, and exact coins that it adds."""

    label: str
    amount: str


def list_quote_lines(books: Json) -> list[QuoteLine]:
    """List the items between the opening and the closing balance in a stablecoin, those that moved
    something.
    """
    amounts = [
        (label, sign * int(books[name.replace("Lamports", "Raw")]))
        for name, sign, label in money.ITEMS
    ]
    return [QuoteLine(label, exact(raw, books["decimals"])) for label, raw in amounts if raw]


def find_quote_rest(books: Json) -> str:
    """Return exact coins that the lines leave over: 0, or a bug."""
    return exact(int(books["differenceRaw"]) - int(books["gapRaw"]), books["decimals"])


def is_only_quoted(results: Json) -> bool:
    """Tell whether a wallet traded for stablecoins and never for SOL, so that figures in SOL are
    all zero and tell nothing.
    """
    return bool(list_traded(results)) and len(list_traded(results)) == len(results["byCurrency"])


def list_traded(results: Json | None) -> list[Json]:
    """List the results in stablecoins."""
    return [one for one in (results or {"byCurrency": ()})["byCurrency"] if not _is_sol(one)]


def _is_sol(one: Json) -> bool:
    return bool(one["currency"] == "SOL")


# Figures of the comparison, with how each is written.
COMPARED: tuple[tuple[str, Callable[[Json], str]], ...] = (
    ("Realized PnL", lambda one: write(one, "realizedRaw", sign=True)),
    ("Sales with a known cost", lambda one: figures.whole(money.count_sales(one))),
    ("Sales with unknown cost", lambda one: figures.whole(one["unmatchedSells"])),
    ("Worst case", lambda one: write(one, "worstCaseRaw", sign=True)),
    ("Return on cost", lambda one: profile_words.write_return(one["returnPct"])),
    ("Win rate", profile_words.write_rate),
    ("Volume", lambda one: write(one, "volumeRaw")),
    ("Cost that left unsold", lambda one: write(one, "costLeftRaw")),
)


def write(results: Json, name: str, sign: bool = False) -> str:
    """Write an amount of results in their stablecoin."""
    return figures.write_units(results[name], results["currency"], results["decimals"], sign)


def list_quote_compared(bot: Json, symbol: str) -> list[profile_words.ComparedFigure]:
    """List the figures of a Bot in a stablecoin: since it was connected, and of all."""
    everything = find_quote_results(bot["results"], symbol)
    record = find_quote_results(bot["record"], symbol)
    return [
        profile_words.ComparedFigure(
            name,
            tell(record) if record else figures.UNKNOWN,
            tell(everything) if everything else figures.UNKNOWN,
        )
        for name, tell in COMPARED
    ]


def find_quote_results(results: Json | None, symbol: str) -> Json | None:
    """Return the results in a stablecoin, None if it was never traded for."""
    return next((one for one in list_traded(results) if one["currency"] == symbol), None)


class QuoteWindowLine(NamedTuple):
    """What was earned within a window since the bot's wallets were connected, as text."""

    name: str
    realized: str
    sales: str
    volume: str


def list_quote_windows(windows: Sequence[Json], symbol: str) -> list[QuoteWindowLine]:
    """List the lines of windows in a stablecoin, the shortest first."""
    return [
        QuoteWindowLine(
            WINDOW_NAMES[window["window"]],
            write(one, "realizedRaw", sign=True),
            figures.whole(money.count_sales(one)),
            write(one, "volumeRaw"),
        )
        for window in windows
        for one in window["byCurrency"]
        if one["currency"] == symbol
    ]


FILTERS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        is_only_quoted,
        list_traded,
        list_quote_lines,
        find_quote_rest,
        list_quote_compared,
        list_quote_windows,
    )
}
