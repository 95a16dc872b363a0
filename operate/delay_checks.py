"""Check how long after its trades a bot posted, as stored, against the posts and the trades."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from accounts.delays import judge_delays, sum_delays
from chain.ledger.risk import round_down
from operate.differences import Difference
from operate.readers import Reader

COLUMNS = ("posted", "within_minute", "median", "delays")


class TimedPost(NamedTuple):
    """A post that was timed, or has to be; `created_at` in ms, `block_time` in Unix seconds."""

    uid: str
    bot: int
    trade: int | None
    delay: int | None
    status: str
    created_at: int
    block_time: int | None


POSTS = """
SELECT p.uid, p.bot_id, p.trade_id, p.delay, p.status, p.created_at, t.block_time
FROM post p LEFT JOIN trade t ON t.id = p.trade_id
WHERE p.delay IS NOT NULL OR p.status = 'verified'
ORDER BY p.created_at, p.id"""


def check_delays(reader: Reader) -> Iterator[Difference]:
    """Each first verified post about a trade has its delay, and each bot their sums."""
    right: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for post, delay in judge_delays(map(TimedPost._make, reader.rows(POSTS))):
        if delay is not None:
            right[post.bot][round_down(delay)] += 1
        if post.delay != delay:
            what = f"of {post.uid} is {post.delay}, its trade says {delay}"
            yield Difference("post", what, field="delay")
    sums = {bot: sum_delays(delays) for bot, delays in right.items()}
    sql = f"SELECT bot_id, {', '.join(COLUMNS)} FROM delay_total"
    stored = {bot: dict(zip(COLUMNS, row, strict=True)) for bot, *row in reader.rows(sql)}
    for bot in sorted(stored.keys() | sums.keys()):
        if stored.get(bot) != sums.get(bot):
            what = f"of bot {bot} is {stored.get(bot)}, its posts say {sums.get(bot)}"
            yield Difference("delay_total", what)
