"""The words about results in stablecoins. Text only."""

from collections.abc import Callable
from typing import Any, NamedTuple

from chain.amounts import exact
from web.api.serialize import Json
from web.site import figures, money, profile_words
from web.site.profile_words import WINDOW_NAMES


class QuoteLine(NamedTuple):
    """A line of the reconciliation in a stablecoin: what it is, and exact coins that it adds."""

    label: str
    amount: str


def describe_cross(results: Json) -> str:
    """Tell how many sales brought this stablecoin for what another currency paid for, all or in
    part; empty where none did.
    """
    count = results["crossQuoteSells"]
    if not count:
        return ""
    noun = "sale" if count == 1 else "sales"
    return (
        f"{count:,} {noun} for {results['symbol']} took what had been paid for in SOL or another"
        " stablecoin: that part has its cost in another currency, and so a result in neither."
    )


def describe_quote_trades(results: Json) -> str:
    """Tell how many trades there were, and what they paid the network."""
    count, fees = results["observedTrades"], figures.write_lamports(results["feeLamports"])
    return f"{count:,} {'trade' if count == 1 else 'trades'}; network fees {fees}"


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
    """Return exact coins that the lines leave over: 0, or a defect of this program."""
    return exact(int(books["differenceRaw"]) - int(books["gapRaw"]), books["decimals"])


def describe_quote_trade(trade: Json) -> str:
    """Describe a trade for a stablecoin: its result in it, or why it has none, exactly."""
    symbol = trade["symbol"]
    if trade["side"] == "buy":
        return f"Paid for in {symbol}: {figures.write_exact(trade['change'], True)} {symbol}."
    if trade["realized"] is None:
        reason = (
            "what was sold was paid for in another currency, so it has a result in neither"
            if trade["costInOtherCurrency"]
            else "no result"
            if trade["status"] == "not_applicable"
            else "no purchase in it is known"
        )
        return f"Sold for {figures.write_exact(trade['change'], True)} {symbol}: {reason}."
    result = f"{figures.write_exact(trade['realized'], True)} {symbol}"
    if trade["proceeds"] is None:
        return f"Bought and sold back at once: {result}."
    partial = ", for the part whose cost is known" if trade["status"] == "partial" else ""
    if trade["costInOtherCurrency"]:
        partial += "; the rest was paid for in another currency"
    return (
        f"Proceeds {figures.write_exact(trade['proceeds'])} {symbol}, less the cost"
        f" {figures.write_exact(trade['cost'])} {symbol}: {result}{partial}."
    )


def is_only_quoted(results: Json) -> bool:
    """Tell whether a wallet traded for stablecoins and never for SOL, where figures in SOL are all
    zero and tell nothing.
    """
    sold = money.count_sales(results) + results["unmatchedSells"]
    return bool(list_traded(results)) and not sold and results["volumeSol"] == "0"


def list_traded(results: Json) -> list[Json]:
    """List the QuoteResults of the stablecoins that a wallet traded for, without those it only
    moved.
    """
    return [one for one in results["byQuote"] or () if one["observedTrades"]]


# Figures of the comparison, with how each is written.
COMPARED: tuple[tuple[str, Callable[[Json], str]], ...] = (
    ("Realized PnL", lambda one: write(one, "realizedRaw", sign=True)),
    ("Sales with a known cost", lambda one: figures.whole(money.count_sales(one))),
    ("Sales with unknown cost", lambda one: figures.whole(one["unmatchedSells"])),
    ("Sales paid for in another currency", lambda one: figures.whole(one["crossQuoteSells"])),
    ("Worst case", lambda one: write(one, "worstCaseRaw", sign=True)),
    ("Return on cost", lambda one: profile_words.write_return(one["returnPct"])),
    ("Win rate", profile_words.write_rate),
    ("Trades", lambda one: figures.whole(one["observedTrades"])),
    ("Volume", lambda one: write(one, "volumeRaw")),
    ("Cost that left unsold", lambda one: write(one, "costLeftRaw")),
    ("Network fees of these trades", lambda one: figures.write_lamports(one["feeLamports"])),
)


def write(results: Json, name: str, sign: bool = False) -> str:
    """Write an amount of QuoteResults in its stablecoin."""
    return figures.write_units(results[name], results["symbol"], results["decimals"], sign)


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
    """Return the QuoteResults of a stablecoin, None where it never moved it."""
    listed: list[Json] = (results and results["byQuote"]) or []
    return next((one for one in listed if one["symbol"] == symbol), None)


class QuoteWindowLine(NamedTuple):
    """What was earned within a window since the bot's wallets were connected, as text."""

    name: str
    realized: str
    sales: str
    volume: str


def list_quote_windows(windows: list[Json], symbol: str) -> list[QuoteWindowLine]:
    """List the lines of RiskWindows in a stablecoin, the shortest first."""
    return [
        QuoteWindowLine(
            WINDOW_NAMES[window["window"]],
            write(one, "realizedRaw", sign=True),
            figures.whole(money.count_sales(one)),
            write(one, "volumeRaw"),
        )
        for window in windows
        for one in window["byQuote"]["record"] or ()
        if one["symbol"] == symbol
    ]


FILTERS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        is_only_quoted,
        describe_cross,
        describe_quote_trades,
        describe_quote_trade,
        list_quote_lines,
        find_quote_rest,
        list_quote_compared,
        list_quote_windows,
    )
}
