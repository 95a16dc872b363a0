"""Profile text: figures, time windows, posting pace, and the bot's owner. Plain text only."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from chain.amounts import exact
from paper.copying import SHOWN_SIZE
from web.api.serialize import Json
from web.site import figures, money, words

MINUTE_SECONDS, HOUR_SECONDS, DAY_SECONDS = 60, 3_600, 86_400
# The figures of each currency's results, with their formatting.
COMPARED: tuple[tuple[str, Callable[[Json], str]], ...] = (
    ("Realized PnL", lambda one: write(one, "realizedRaw", sign=True)),
    ("Worst case", lambda one: write(one, "worstCaseRaw", sign=True)),
    ("Return on cost", lambda one: write_return(one["returnPct"])),
    ("Win rate", lambda one: write_rate(one)),
    ("Max drawdown", lambda one: write_fall(one)),
    ("Sales with a known cost", lambda one: figures.whole(money.count_sales(one))),
    ("Sales with unknown cost", lambda one: figures.whole(one["unmatchedSells"])),
    ("Volume", lambda one: write(one, "volumeRaw")),
    ("Cost moved out unsold", lambda one: write(one, "costLeftRaw")),
)
# The figures across all currencies, and of positions in SOL.
COMPARED_ONCE: tuple[tuple[str, Callable[[Json], str]], ...] = (
    ("Trades", lambda one: figures.whole(one["observedTrades"])),
    ("Days active", lambda one: figures.whole(find(one["risk"], "daysActive"))),
    ("Median holding time", lambda one: write_duration(find(one["risk"], "medianHoldingSeconds"))),
    ("Best position", lambda one: write_signed(find(one["risk"], "bestLamports"))),
    ("Worst position", lambda one: write_signed(find(one["risk"], "worstLamports"))),
    ("Fees outside of trades", lambda one: figures.write_lamports(money.other_fees(one))),
)


class ComparedFigure(NamedTuple):
    """A figure since the wallet was connected, and over all known history, as text."""

    name: str
    since: str
    all: str


def find(risk: Json | None, name: str) -> Any:
    return risk and risk[name]


def list_traded(results: Json | None) -> list[Json]:
    """List the results in each traded currency, with SOL first."""
    return results["byCurrency"] if results else []


def find_results(results: Json | None, currency: str) -> Json | None:
    """Return the results in a currency, or None if it wasn't traded."""
    return next((one for one in list_traded(results) if one["currency"] == currency), None)


def list_compared(bot: Json, currency: str = "") -> list[ComparedFigure]:
    """List a Bot's figures in a currency, or across all currencies.

    Each has a value since the wallet was connected, and a value over all history.
    """
    if currency:
        record, everything = (find_results(bot[name], currency) for name in ("record", "results"))
        return _compare(COMPARED, record, everything)
    record = bot["record"] and {**bot["record"], "risk": bot["recordRisk"]}
    return _compare(COMPARED_ONCE, record, {**bot["results"], "risk": bot["risk"]})


def _compare(
    compared: Sequence[tuple[str, Callable[[Json], str]]], record: Json | None, all_: Json | None
) -> list[ComparedFigure]:
    return [
        ComparedFigure(
            name,
            *(write_one(one) if one else figures.UNKNOWN for one in (record, all_)),
        )
        for name, write_one in compared
    ]


def write(results: Json, name: str, sign: bool = False) -> str:
    """Write an amount of results in their currency."""
    return figures.write_units(results[name], results["currency"], results["decimals"], sign)


def write_fall(results: Json) -> str:
    """Write the max drawdown of results as a loss: `−0.2140 SOL`."""
    fall = results["maxDrawdownRaw"]
    if fall is None:
        return figures.UNKNOWN
    return figures.write_units(-int(fall), results["currency"], results["decimals"])


def write_rate(figures_of: Json) -> str:
    """Write the share of winning positions, such as `61%, 27 of 44 positions, 3 open`."""
    rate = money.win_rate(figures_of)
    if rate is None:
        return money.describe_positions(figures_of) if figures_of["positions"] else figures.UNKNOWN
    return f"{figures.write_percent(rate)}, {money.describe_positions(figures_of)}"


def write_return(percent: str | None) -> str:
    return figures.UNKNOWN if percent is None else f"{figures.write_exact(percent, True)}%"


def write_signed(lamports: str | int | None) -> str:
    """Write lamports as SOL with a sign, or a dash if unknown."""
    return figures.UNKNOWN if lamports is None else figures.write_lamports(lamports, sign=True)


def write_duration(seconds: int | None) -> str:
    """Write a duration, such as `40 s`, `12 min`, `2 h 10 min` or `3 d 4 h`."""
    if seconds is None:
        return figures.UNKNOWN
    if seconds < MINUTE_SECONDS:
        return f"{seconds} s"
    if seconds < HOUR_SECONDS:
        return f"{seconds // MINUTE_SECONDS} min"
    if seconds < DAY_SECONDS:
        return _join(seconds, HOUR_SECONDS, "h", MINUTE_SECONDS, "min")
    return _join(seconds, DAY_SECONDS, "d", HOUR_SECONDS, "h")


def _join(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large:,} {large_name}" + (f" {rest} {small_name}" if rest else "")


# ---- a history that is still loading -------------------------------------------------------------
def describe_progress(bot: Json, now: int) -> str:
    """Describe how much of a wallet's history is loaded, and when the rest should be loaded.

    `now`: ms.
    """
    known, pending = bot["coverage"]["receipts"], bot["coverage"]["pending"]
    if not pending:
        return f"{words.write_found(known)} loaded and being double-checked."
    begun = datetime.fromisoformat(bot["wallet"]["attachedAt"]).timestamp()
    left = find_time_left(known, pending, now / 1000 - begun)
    time = f", about {write_duration(left)} left" if left is not None else ""
    return f"{known:,} of {words.write_count(known + pending, 'transaction')}{time}."


def find_time_left(known: int, pending: int, elapsed: float) -> int | None:
    """Return the seconds to load the rest at the current pace.

    Returns None if nothing is loaded yet, or if the pace isn't meaningful.
    """
    if not known or not 0 < elapsed < DAY_SECONDS:
        return None
    return round(pending * elapsed / known)


def explain_rank(bot: Json) -> str:
    """Explain why a partial history may have a rank. The text is empty if it has no rank or is
    complete.
    """
    if bot["coverage"]["state"] != "partial" or bot["coverage"]["gaps"]:
        return ""
    return (
        "It can still be ranked, because nothing is missing between the known transactions."
        " Sales of tokens held before them are left out, because their cost is unknown."
    )


def list_tokens(listed: Json) -> list[Json]:
    """List a TokenList's tokens from best to worst, without duplicates."""
    known = {one["mint"] for one in listed["best"]}
    worst = [one for one in reversed(listed["worst"]) if one["mint"] not in known]
    return [*listed["best"], *worst]


WINDOW_NAMES = {"24h": "24 hours", "7d": "7 days", "30d": "30 days", "90d": "90 days"}


class WindowLine(NamedTuple):
    """The results in a currency within a window since the wallets were connected, as text."""

    name: str
    realized: str
    worst_case: str
    positions: str
    volume: str


def list_window_lines(windows: Sequence[Json], currency: str) -> list[WindowLine]:
    """List the lines of RiskWindows in a currency, shortest window first."""
    return [
        WindowLine(
            WINDOW_NAMES[window["window"]],
            write(one, "realizedRaw", sign=True),
            write(one, "worstCaseRaw", sign=True),
            write_rate(one),
            write(one, "volumeRaw"),
        )
        for window in windows
        for one in window["byCurrency"]
        if one["currency"] == currency
    ]


def describe_pace(pace: Json) -> str:
    """Describe how soon a bot posts about its trades."""
    count = pace["tradesPosted"]
    if not count:
        return "None of its posts about trades has a verified receipt yet."
    share = figures.write_percent(pace["postedWithinMinuteShare"])
    return (
        f"It posted about {count:,} {'trade' if count == 1 else 'trades'} with a verified"
        f" receipt: {share} within a minute of the trade, and half of them within"
        f" {write_duration(pace['postDelaySecondsMedian'])}. Trades it never posted about"
        " aren’t counted."
    )


# Why a follower's return isn't shown.
UNCOPIED = {
    "too_few_sales": "fewer than 10 sales can be followed",
    "too_few_tokens": "the sales that can be followed involve fewer than 3 tokens",
    "not_representative": "less than half of the cost of its sales can be followed",
    "not_worked_out": "not calculated yet",
}
# Why parts of sales were excluded.
EXCLUDED = {
    "no_call": "the transaction doesn't show the instruction that made the trade",
    "no_pool": "the transaction doesn't show a pool",
    "no_event": "the venue didn't record an event",
    "vault_not_told": "the transaction doesn't show the pool's reserves",
    "quote_not_sol": "the pool isn't priced in SOL",
    "route": "the trade was routed through several pools",
    "venue_unreadable": "the venue's price can't be computed from two reserves",
    "not_reproduced": "the formula doesn't reproduce the bot's own fill",
    "transfer_fee": "the token withholds a part of each transfer",
    "own_token": "the bot's wallet created the token",
    "own_pool": "the bot's wallet funded a pool of the token",
    "nothing_left_to_buy": "the pool had too little left to buy",
    "unknown_cost": "the bot's cost is unknown",
    "not_a_purchase": "it wasn't bought for SOL",
    "too_small": "the follower's part is less than one unit",
}


def write_bps(bps: int) -> str:
    """Write basis points as a percentage: 1410 becomes `+14.1%`."""
    return figures.write_change(exact(bps, 2))


def describe_copying(copying: Json) -> str:
    """Describe what a follower with 1 SOL per purchase would have earned."""
    size = next(one for one in copying["sizes"] if one["sizeLamports"] == str(SHOWN_SIZE))
    if size["reason"]:
        return f"No result: {UNCOPIED[size['reason']]}."
    return (
        "If you'd copied this bot right after its trades, with 1 SOL per purchase, you'd have"
        f" made at most {write_bps(size['returnBps'])}. The bot made"
        f" {write_bps(size['evenBotReturnBps'])}, with each purchase counted the same. This is"
        f" computed from the pool reserves in {size['salesUsed']:,} of {copying['sales']:,}"
        f" sales, {size['coveredPct']}% of their cost, without a delay or other trades in"
        " between. If others take your SOL out first, you'd have made"
        f" {write_bps(size['worstReturnBps'])}. This can't show who else traded, and owners"
        " can move their own pools."
    )


def describe_kept(size: Json) -> str:
    """Describe the bot's result and how much of it a follower kept, for the text below the tile."""
    kept = "" if size["keptPct"] is None else f", kept at most {size['keptPct']}%"
    return f"bot {write_bps(size['evenBotReturnBps'])}{kept}"


def describe_owner(owner: Json) -> str:
    """Describe a bot's owner: results, bots tried, and bots retired."""
    bots, tried = owner["influencers"], owner["walletsTried"]
    text = (
        f"Its owner created {bots:,} {'bot' if bots == 1 else 'bots'}"
        f" ({owner['retired']:,} retired), connected {tried:,}"
        f" {'wallet' if tried == 1 else 'wallets'} and disconnected {owner['walletsDetached']:,}."
    )
    if owner["realizedLamportsOfAll"] is not None:
        sum_of_all = figures.write_lamports(owner["realizedLamportsOfAll"], sign=True)
        text += f" Together they realized about {sum_of_all} while connected."
    return f"{text} A new browser counts as a new owner."


FILTERS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        list_compared,
        list_traded,
        write_return,
        write_duration,
        describe_progress,
        explain_rank,
        list_tokens,
        list_window_lines,
        describe_pace,
        write_bps,
        describe_copying,
        describe_kept,
        describe_owner,
    )
}
