"""The forward record of bots, and what their owners made, tried and gave up."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from chain.amounts import show_lamports
from chain.ledger.sums import Sums, add_up
from chain.stored.attachments import write_last
from chain.stored.summary import show_sums
from storage import database
from storage.rows import select, write_marks
from web.api.serialize import Json, show_time


class SpanRow(NamedTuple):
    """An attachment and what happened in it, in SOL; lamports, counts and ms."""

    bot_id: int
    attached_at: int
    detached_at: int | None
    carried_in: int | None
    open_positions: int | None
    sums: Sums


SPANS = f"""
SELECT a.bot_id, a.attached_at, a.detached_at, a.carried_in, a.open_positions,
       {", ".join(f"t.{name}" for name in Sums._fields)}
FROM attachment a LEFT JOIN running_total t ON {write_last("t", "a.id")} WHERE a.bot_id IN """


class OwnerRow(NamedTuple):
    """What an owner did with all its bots; `realized` in lamports, in all spans."""

    owner_id: int
    bots: int
    retired: int
    tried: int
    held: int
    realized: int


# Each owner once, however many of its bots are asked for: each wallet that they held, and each bot
# that held none.
OWNERS = """
WITH asked AS (
    SELECT id, owner_id, retired_at FROM bot
    WHERE owner_id IN (SELECT owner_id FROM bot WHERE id IN ({})))
SELECT h.owner_id, COUNT(DISTINCT h.id) AS bots,
       COUNT(DISTINCT CASE WHEN h.retired_at IS NOT NULL THEN h.id END) AS retired,
       COUNT(DISTINCT h.wallet_id) AS tried,
       COUNT(DISTINCT CASE WHEN h.detached_at IS NULL THEN h.wallet_id END) AS held,
       COALESCE(SUM(h.forward_realized), 0) AS realized
FROM (SELECT b.*, a.wallet_id, a.detached_at, a.forward_realized
      FROM asked b LEFT JOIN attachment a ON a.bot_id = b.id) h
GROUP BY h.owner_id
"""


class OwnedRow(NamedTuple):
    """Whose a bot is."""

    bot_id: int
    owner_id: int


OWNED = "SELECT id AS bot_id, owner_id FROM bot WHERE id IN "


def show_records(bot_ids: Sequence[int]) -> dict[int, Json]:
    """Return {bot id: its `record` and `owner`}."""
    if not bot_ids:
        return {}
    marks = write_marks(bot_ids)
    spans: dict[int, list[SpanRow]] = {}
    found = database.execute_sql(f"{SPANS}({marks}) ORDER BY a.attached_at, a.id", bot_ids)
    for row in map(_read_span, found.fetchall()):
        spans.setdefault(row.bot_id, []).append(row)
    owners = show_owners(bot_ids)
    return {
        bot_id: {
            "record": show_record(spans.get(bot_id, ())),
            "owner": owners[bot_id],
        }
        for bot_id in bot_ids
    }


def _read_span(row: Sequence[Any]) -> SpanRow:
    width = len(SpanRow._fields) - 1
    sums = Sums(*(value or 0 for value in row[width:]))
    span = SpanRow._make((*row[:width], sums))
    if span.detached_at is None:
        return span
    return span._replace(sums=sums.give_up())


def show_owners(bot_ids: Sequence[int]) -> dict[int, Json]:
    """Return {bot id: its Owner}; each owner is summed once."""
    marks = write_marks(bot_ids)
    told = {
        row.owner_id: show_owner(row) for row in select(OwnerRow, OWNERS.format(marks), bot_ids)
    }
    owned = select(OwnedRow, f"{OWNED}({marks})", bot_ids)
    return {row.bot_id: told[row.owner_id] for row in owned}


def show_record(spans: Sequence[SpanRow]) -> Json | None:
    """Make the forward record of a bot from its attachments, the first one first; None where
    nothing was derived yet.
    """
    derived = [span for span in spans if span.open_positions is not None]
    if not derived:
        return None
    t = add_up(span.sums for span in derived)
    return {
        "since": show_time(spans[0].attached_at),
        **show_sums(t),
        "openPositions": sum(s.open_positions or 0 for s in derived if s.detached_at is None),
        "carriedInLamports": show_lamports(sum(span.carried_in or 0 for span in derived)),
    }


def show_owner(row: OwnerRow) -> dict[str, Any]:
    """Make the Owner. The sum is left out where it would be one wallet's own result."""
    alone = row.bots < 2 and row.tried < 2
    realized = None if alone else show_lamports(round_to_two_digits(int(row.realized)))
    return {
        "influencers": row.bots,
        "retired": row.retired,
        "walletsTried": row.tried,
        "walletsDetached": row.tried - row.held,
        "realizedLamportsOfAll": realized,
    }


def round_to_two_digits(lamports: int) -> int:
    """Round to two significant digits, halves away from zero: 1,250 is 1,300."""
    unit = int("1" + "0" * max(0, len(str(abs(lamports))) - 2))
    rounded = (abs(lamports) + unit // 2) // unit * unit
    return rounded if lamports >= 0 else -rounded


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
