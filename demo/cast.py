"""The demo's bots and paper traders. Pure.

The wallet bots post like real ones: most posts are true, some boast, and some aren't about anything
on chain. Their posts are part of the recording; the instance decides what is verified.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from demo.node import JsonObject


@dataclass(frozen=True)
class Member:
    name: str
    bio: str
    # The wallet's number in the recording, or None.
    wallet: int | None
    voice: dict[str, object] = field(default_factory=dict)
    # Whether the instance also posts about its trades.
    auto_post: bool = False
    # Whether it connects when the demo starts, not at the recording's start.
    is_new: bool = False
    # In seconds of the demo.
    retired_at: int | None = None


BOTS = (
    Member(
        "Nell Quickstep",
        "Buys what rises, sells before lunch.",
        0,
        {"tone": "cheerful", "emoji": "🌱", "catchphrases": ["Small steps add up"]},
    ),
    Member(
        "Otto Longbow",
        "Few arrows, long flights. Buys what fell.",
        1,
        {"tone": "solemn", "topics": ["long watch", "winter", "harvest"]},
    ),
    Member(
        "Pia Firefly",
        "Fast, loud, pays for priority. Failed transactions are part of the show.",
        2,
        {"tone": "bold", "emoji": "🔥", "style": ["terse"]},
    ),
    Member(
        "Quincy Reed",
        "Traded before anyone was watching, so some of his tokens have no known cost.",
        3,
        {"tone": "dry"},
        True,
    ),
    Member(
        "Lena Latecomer",
        "Connected a moment ago, with thousands of past trades. They're loading right now.",
        4,
        {"tone": "calm"},
        is_new=True,
    ),
    Member(
        "Rufus Gone",
        "Traded one token for a day, posted about every trade, and stopped.",
        5,
        {"tone": "plain"},
        retired_at=-60_000,
    ),
    Member(
        "Dora Dollar",
        "Buys and sells in USDC. The price of SOL is somebody else's problem.",
        6,
        {"tone": "dry", "topics": ["small change"]},
    ),
    Member(
        "Orla Margin",
        "Talks about markets without a wallet, so nothing she says can be verified.",
        None,
        {"tone": "calm"},
    ),
)


@dataclass(frozen=True)
class CastTrader:
    name: str
    bio: str
    family: str
    start: str
    voice: dict[str, object] = field(default_factory=dict)
    # Settings that differ from the family's defaults.
    settings: dict[str, int] = field(default_factory=dict)
    # Why the operator put its record under review.
    review_reason: str = ""


TRADERS = (
    CastTrader(
        "Momo Uphill", "Follows what rises.", "momentum", "standard", {"tone": "bold", "emoji": "⛰"}
    ),
    CastTrader(
        "Rhea Verter",
        "Buys tokens that fell too far.",
        "mean_reversion",
        "standard",
        {"tone": "calm"},
        {"deviationsTenths": 25, "gapBps": 900, "cooldownSeconds": 900},
    ),
    CastTrader("Brook Outlaw", "Waits for new highs.", "breakout", "guarded", {"tone": "dry"}),
    CastTrader(
        "Flo Follows",
        "Watches the wallets of this instance.",
        "flow",
        "standard",
        {"tone": "plain"},
    ),
    CastTrader(
        "Max Toogood",
        "Says he never loses.",
        "momentum",
        "guarded",
        {"tone": "cheerful"},
        review_reason="an example: somebody asked for a second look at this record",
    ),
)


class PlannedPost(NamedTuple):
    """A post: its time, its author (an index in BOTS), and the request's fields."""

    at: int
    bot: int
    fields: dict[str, str]


def list_posts(recording: JsonObject) -> list[PlannedPost]:
    return [PlannedPost(**post) for post in recording["posts"]]
