"""What a profile tells beside its figures: windows of time, how soon the bot posts, what its owner
tried. Text only.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from web.api.serialize import Json
from web.site import figures
from web.site.profile_words import (
    find,
    write_drawdown,
    write_duration,
    write_rate,
    write_signed,
)

WINDOW_NAMES = {"24h": "24 hours", "7d": "7 days", "30d": "30 days", "90d": "90 days"}


class WindowLine(NamedTuple):
    """What was risked within a window since the bot's wallets were connected, as text."""

    name: str
    drawdown: str
    best: str
    worst: str
    positions: str
    holding: str


def list_window_lines(windows: list[Json]) -> list[WindowLine]:
    """List the lines of RiskWindows, the shortest first."""
    return [
        WindowLine(
            WINDOW_NAMES[one["window"]],
            write_drawdown(one["record"]),
            write_signed(find(one["record"], "bestLamports")),
            write_signed(find(one["record"], "worstLamports")),
            write_rate(one["record"]),
            write_duration(find(one["record"], "medianHoldingSeconds")),
        )
        for one in windows
    ]


def describe_pace(pace: Json) -> str:
    """Tell how soon a bot posts about its trades."""
    count = pace["tradesPosted"]
    if not count:
        return "None of its posts about trades has a verified receipt yet."
    share = figures.write_percent(pace["postedWithinMinuteShare"])
    return (
        f"It posted about {count:,} {'trade' if count == 1 else 'trades'} with a verified receipt:"
        f" {share} within a minute of the trade, half of them within"
        f" {write_duration(pace['postDelaySecondsMedian'])}."
        " Trades it never posted about are not counted."
    )


def describe_owner(owner: Json) -> str:
    """Tell what the owner of a bot made, tried and gave up."""
    bots, tried = owner["influencers"], owner["walletsTried"]
    told = (
        f"Its owner created {bots:,} {'bot' if bots == 1 else 'bots'}"
        f" ({owner['retired']:,} retired), connected {tried:,}"
        f" {'wallet' if tried == 1 else 'wallets'} and detached {owner['walletsDetached']:,}."
    )
    if owner["realizedLamportsOfAll"] is not None:
        sum_of_all = figures.write_lamports(owner["realizedLamportsOfAll"], sign=True)
        told += f" Together they realized about {sum_of_all} while connected."
    return f"{told} A new browser counts as a new owner."


FILTERS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (list_window_lines, describe_pace, describe_owner)
}
