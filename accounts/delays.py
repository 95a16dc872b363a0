"""How long after a trade a bot posts about it, measured by the trade's first verified post.

A post's time is when this server received it; a trade's is its block time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from chain.ledger.inventory import find_lower_median
from chain.ledger.sums import round_down
from chain.stored.tables import DelayTotal
from models import Post, Trade

MINUTE_SECONDS = 60


class TimedPost(NamedTuple):
    """A post that has or needs a delay; `created_at` in ms, `block_time` in Unix seconds. `id` and
    `trade` are of any kind.
    """

    id: Any
    bot: int
    trade: Any
    delay: int | None
    status: str
    created_at: int
    block_time: int | None


def find_delay(created_at: int, block_time: int | None) -> int | None:
    """Return whole seconds from a trade (Unix seconds) to a post (ms), 0 if the post came first, or
    None if the trade's time is unknown.
    """
    return None if block_time is None else max(0, created_at - block_time * 1000) // 1000


def time_posts(bot_id: int, posts: Iterable[int], trades: Iterable[int]) -> None:
    """Recompute the delay of these posts of a bot and of its posts about these trades. Call it
    inside the transaction that changes their verification.
    """
    came: Counter[int] = Counter()
    told = Post.id.in_(list(posts)) | Post.trade.in_(list(trades))
    for post, right in judge_delays(_list_posts((Post.bot == bot_id) & told)):
        if right != post.delay:
            _store_delay(post.id, right)
            came.update([right] if right is not None else [])
            came.subtract([post.delay] if post.delay is not None else [])
    if any(came.values()):
        row = DelayTotal.get_or_none(DelayTotal.bot == bot_id)
        delays = Counter(dict(orjson.loads(row.delays))) if row else Counter()
        for delay, count in came.items():
            delays[round_down(delay)] += count
        _store_total(bot_id, delays)


def count_delays(bot_id: int) -> None:
    delays: Counter[int] = Counter()
    told = Post.delay.is_null(False) | ((Post.status == "verified") & Post.trade.is_null(False))
    for post, right in judge_delays(_list_posts((Post.bot == bot_id) & told)):
        if right != post.delay:
            _store_delay(post.id, right)
        if right is not None:
            delays[round_down(right)] += 1
    _store_total(bot_id, delays)


def _list_posts(where: Any) -> list[TimedPost]:
    columns = (
        *(Post.id, Post.bot, Post.trade, Post.delay, Post.status, Post.created_at),
        Trade.block_time,
    )
    found: Any = Post.select(*columns).left_outer_join(Trade).where(where)
    return list(map(TimedPost._make, found.order_by(Post.created_at, Post.id).tuples()))


def judge_delays(posts: Iterable[TimedPost]) -> Iterator[tuple[TimedPost, int | None]]:
    """Yield each post with its correct delay. Posts must be in time order, because only a bot's
    first verified post about a trade counts.
    """
    told = set[tuple[int, Any]]()
    for post in posts:
        about = post.bot, post.trade
        is_first = post.status == "verified" and post.trade is not None and about not in told
        if is_first:
            told.add(about)
        yield post, find_delay(post.created_at, post.block_time) if is_first else None


def _store_delay(post_id: int, delay: int | None) -> None:
    Post.update(delay=delay).where(Post.id == post_id).execute()


def _store_total(bot_id: int, delays: Counter[int]) -> None:
    row = {"bot": bot_id, **sum_delays(delays)}
    if not row["posted"]:
        DelayTotal.delete().where(DelayTotal.bot == bot_id).execute()
    elif DelayTotal.select().where(DelayTotal.bot == bot_id).dicts().first() != row:
        changing = [field for name, field in DelayTotal._meta.fields.items() if name != "bot"]
        DelayTotal.insert(row).on_conflict(
            conflict_target=[DelayTotal.bot], preserve=changing
        ).execute()


def sum_delays(delays: Counter[int]) -> dict[str, Any]:
    """Return the columns of DelayTotal for {delay in seconds: number of trades}."""
    counted = [(delay, count) for delay, count in sorted(delays.items()) if count]
    return {
        "posted": sum(count for _, count in counted),
        "within_minute": sum(count for delay, count in counted if delay <= MINUTE_SECONDS),
        "median": find_lower_median(counted),
        "delays": orjson.dumps(counted).decode(),
    }
