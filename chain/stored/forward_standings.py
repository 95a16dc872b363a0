"""The forward record of bots in windows: what they did since their wallets were attached."""

from collections.abc import Sequence
from typing import NamedTuple

from chain.stored.holdings import LAST_LEAD
from chain.stored.ranks import FORWARD, NEVER, Ranked, Rows, StandingRow, Totals, make_standing
from chain.stored.summary import read_coverage


class Facts(NamedTuple):
    """A bot, and the wallet it holds, or held when it was retired; `coverage` is JSON."""

    bot: int
    retired_at: int | None
    ownership: str | None
    coverage: str | None


FACTS = f"""
SELECT b.id, b.retired_at, a.ownership, w.coverage
FROM bot b LEFT JOIN attachment a ON a.id = {LAST_LEAD}
LEFT JOIN wallet w ON w.id = a.wallet_id WHERE b.id IN ({{bots}}) ORDER BY b.id
"""


class Record(NamedTuple):
    """The forward record of a bot, as in Totals. `is_claimed`: 1 where it traded with a wallet that
    it never proved; `left_at`, `given_up_at`: Unix second of the first change, and ms of the first
    wallet given up with something in it, that the window holds.
    """

    bot: int
    is_claimed: int
    left_at: int | None
    given_up_at: int | None
    realized: int
    volume: int
    trades: int
    matched: int
    partial: int
    unmatched: int
    winning: int
    cost_left: int

    @property
    def totals(self) -> Totals:
        return Totals(*(getattr(self, name) for name in Totals._fields))


def _sum(name: str) -> str:
    return f"SUM(COALESCE(e.{name}, 0) - COALESCE(s.{name}, 0))"


# The last running totals of each span, less the last ones before a Unix second. What was still held
# when a wallet was given up is cost that left then.
RECORDS = f"""
SELECT a.bot_id,
       MAX(CASE WHEN e.trades > 0 AND NOT EXISTS (
           SELECT 1 FROM attachment p WHERE p.bot_id = a.bot_id AND p.wallet_id = a.wallet_id
           AND p.ownership = 'proven') THEN 1 ELSE 0 END),
       MIN((SELECT MIN(n.time) FROM forward_total n
            WHERE n.attachment_id = a.id AND n.time >= {{since}})),
       MIN(CASE WHEN a.open_cost <> 0 AND a.detached_at >= {{since_ms}}
           THEN a.detached_at END),
       {", ".join(f"CAST({_sum(name)} AS BIGINT)" for name in Totals._fields[:-1])},
       CAST({_sum("cost_left")} + SUM(
           CASE WHEN a.detached_at >= {{since_ms}} THEN a.open_cost ELSE 0 END) AS BIGINT)
FROM attachment a
LEFT JOIN forward_total e ON e.attachment_id = a.id AND e.time = (
    SELECT MAX(l.time) FROM forward_total l WHERE l.attachment_id = a.id)
LEFT JOIN forward_total s ON s.attachment_id = a.id AND s.time = (
    SELECT MAX(l.time) FROM forward_total l WHERE l.attachment_id = a.id AND l.time < {{since}})
WHERE a.bot_id IN ({{bots}}) AND a.open_cost IS NOT NULL GROUP BY a.bot_id
"""


def work_out(rows: Rows, seconds: int, now: int, bots: Sequence[int]) -> list[StandingRow]:
    """The standings of these bots in a window that ends now (Unix second)."""
    since, listed = now - seconds if seconds else 0, ", ".join(map(str, bots))
    found = map(Record._make, rows(RECORDS.format(since=since, since_ms=since * 1000, bots=listed)))
    records = {record.bot: record for record in found}
    facts = list(map(Facts._make, rows(FACTS.format(bots=listed))))
    return [make_forward(one, records.get(one.bot), seconds) for one in facts]


def make_forward(facts: Facts, record: Record | None, seconds: int) -> StandingRow:
    """Rank the record of a bot in a window."""
    ranked = Ranked(
        totals=record and record.totals,
        has_wallet=facts.ownership is not None,
        has_gap=bool(read_coverage(facts.coverage)["gaps"]),
        is_proven=facts.ownership == "proven" and not (record and record.is_claimed),
        is_retired=facts.retired_at is not None,
    )
    return make_standing(facts.bot, FORWARD, seconds, _find_end(record, seconds), ranked)


def _find_end(record: Record | None, seconds: int) -> int:
    """Find the Unix second from which the window's content is another, as something has left it."""
    left = [record.given_up_at] if record else []
    known = [time // 1000 for time in left if time is not None]
    known += [record.left_at] if record and record.left_at is not None else []
    return min(known) + seconds + 1 if seconds and known else NEVER
