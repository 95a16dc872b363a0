"""How soon after its trades a bot posts about them: can a reader follow it?"""

from collections.abc import Sequence
from typing import NamedTuple

from storage.rows import select, write_marks
from web.api.serialize import Json


class PostingRow(NamedTuple):
    """What chain.stored.tables.DelayTotal has of a bot: trades, and seconds."""

    bot_id: int
    posted: int
    within_minute: int
    median: int | None


POSTINGS = "SELECT bot_id, posted, within_minute, median FROM delay_total WHERE bot_id IN "


def add_postings(bots: Sequence[Json], bot_ids: Sequence[int]) -> None:
    """Add `pace` to Bots."""
    rows = select(PostingRow, f"{POSTINGS}({write_marks(bot_ids)})", bot_ids)
    found = {row.bot_id: row for row in rows}
    for bot, number in zip(bots, bot_ids, strict=True):
        bot["pace"] = show_pace(found.get(number, PostingRow(number, 0, 0, None)))


def show_pace(row: PostingRow) -> Json:
    """Make the Pace."""
    return {
        "tradesPosted": row.posted,
        "withinMinute": row.within_minute,
        # a share, no money: a number
        "postedWithinMinuteShare": round(row.within_minute / row.posted, 4) if row.posted else None,
        "postDelaySecondsMedian": row.median,
    }
