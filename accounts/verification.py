"""Verify posts against their wallet's observed trades, and measure how late bots post."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

import orjson

import storage
from chain.ledger.inventory import find_lower_median
from chain.ledger.totals import round_down
from chain.reading.flows import touches
from chain.reading.receipts import read_stored
from chain.stored.attachments import HOLDERS, Holder, is_own_trade
from chain.stored.tables import DelayTotal
from chain.stored.trades import LISTED_TRADE, OTHER_WALLET, choose, judge, list_moved_mints
from models import Address, Post, Receipt, Trade, Wallet, WalletSignature
from storage import store_arrival
from storage.log import append_leaf

# If a signature is still missing this long after its post, by the chain's clock, the post is
# `not_found`.
NOT_FOUND_AFTER_MS = 10 * 60_000
# If more trades changed, judge all of the wallet's posts.
MAX_AT_ONCE = 400
# Plain SQL for speed: it runs on each publication of a wallet and rarely finds anything.
SIGNED = "SELECT * FROM post p WHERE wallet_id IN ({}) AND signature IS NOT NULL"
# Separate from SIGNED, because as a subquery it would keep SQLite from using the index on a
# wallet's posts.
TOGETHER = """
SELECT DISTINCT o.wallet_id FROM attachment a JOIN attachment o ON o.bot_id = a.bot_id
WHERE a.wallet_id = ?"""
MOVABLE = """status = 'pending'
OR status = 'not_found' AND (
    EXISTS (SELECT 1 FROM receipt r WHERE r.signature = p.signature)
    OR EXISTS (SELECT 1 FROM sighting s
               WHERE s.wallet_id = p.wallet_id AND s.signature = p.signature))
OR status IN ('verified', 'mismatch', 'none') AND trade_id IS NULL
    AND (status_reason IS NULL OR status_reason <> 'other_wallet')
OR status_reason = 'other_wallet' AND EXISTS (
    SELECT 1 FROM attachment a
    WHERE a.wallet_id = p.wallet_id AND a.bot_id = p.bot_id AND a.ownership = 'proven'
    AND a.attached_at <= p.created_at AND (a.detached_at IS NULL OR a.detached_at >= p.created_at))
AND EXISTS (
    SELECT 1 FROM sighting s WHERE s.wallet_id = p.wallet_id AND s.signature = p.signature)"""

NAMED = f"""
SELECT t.* FROM {LISTED_TRADE} WHERE s.signature = ? AND s.wallet_id IN ({{}}) ORDER BY t.id"""
OTHERS = """
SELECT wallet_id FROM attachment WHERE bot_id = ? AND wallet_id <> ? AND ownership = 'proven'
AND attached_at <= ? AND (detached_at IS NULL OR detached_at >= ?)"""


class CitedTrade(NamedTuple):
    id: int
    wallet_id: int
    kind: str
    flags: str
    mint: str | None
    token_changes: str
    beside_tokens: str
    explained: int | None
    block_time: int | None


class Judgment(NamedTuple):
    status: str
    reason: str | None
    trade: CitedTrade | Trade | None


def verify_posts(wallet: Wallet, changed: Collection[str], now: int) -> None:
    """Verify a wallet's posts after new observations or a proof, and store changes.

    This includes posts of all other wallets that its bots ever had. After a post's creation, only
    this function changes its verification.
    """
    for post in _list_movable(wallet, changed):
        # The post was listed by its wallet, so it has one.
        status, reason, trade = judge_post(post, post.wallet or wallet)
        before = post.trade_id
        if (status, reason, trade and trade.id) != (post.status, post.status_reason, post.trade_id):
            event_at = post.created_at
            if status == "verified" and trade and trade.block_time:
                event_at = trade.block_time * 1000
            Post.update(
                status=status, status_reason=reason, trade=trade, checked_at=now, event_at=event_at
            ).where(Post.id == post.id).execute()
            store_arrival("verification", post=post)
            append_leaf(
                "verification",
                now,
                post=post.uid,
                status=status,
                statusReason=reason,
                eventAt=event_at,
            )
        if trade or post.delay is not None:
            about = {before, trade and trade.id} - {None}
            time_posts(post.bot_id, [post.id], [one for one in about if one])


def _list_movable(wallet: Wallet, changed: Collection[str]) -> list[Post]:
    """List the posts whose verification may have changed.

    They are pending, lost their trade, or cite a trade that changed, that has arrived since, or
    that became their bot's when the bot proved the wallet.
    """
    rows = storage.database.execute_sql(TOGETHER, (wallet.id,)).fetchall()
    wallets = sorted({wallet.id, *(number for (number,) in rows)})
    signed = SIGNED.format(storage.mark(wallets))
    if len(changed) > MAX_AT_ONCE:
        return list(Post.raw(signed, *wallets))
    named = f"OR signature IN ({storage.mark(changed)})" if changed else ""
    return list(Post.raw(f"{signed} AND ({MOVABLE} {named})", *wallets, *sorted(changed)))


def judge_post(post: Post, wallet: Wallet) -> Judgment:
    """Judge by the wallets that the bot had when it posted, with `wallet` first."""
    others = _list_others(post, wallet)
    numbers = [wallet.id, *(one.id for one in others)]
    named = list(Trade.raw(NAMED.format(storage.mark(numbers)), post.signature, *numbers))
    if judged := judge_trades(named, post.bot_id, post.created_at, post.mint):
        return judged
    if named or all(_is_foreign(post.signature, one) for one in (wallet, *others)):
        return Judgment(*OTHER_WALLET, None)
    late = all(_is_past(post, one) for one in (wallet, *others))
    listed = WalletSignature.select().where(
        WalletSignature.wallet.in_(numbers), WalletSignature.signature == post.signature
    )
    if late and not listed.exists():
        return Judgment("not_found", None, None)
    return Judgment("pending", None, None)


def _list_others(post: Post, wallet: Wallet) -> list[Wallet]:
    values = post.bot_id, wallet.id, post.created_at, post.created_at
    rows = storage.database.execute_sql(OTHERS, values)
    numbers = [number for (number,) in rows.fetchall()]
    return list(Wallet.select().where(Wallet.id.in_(numbers))) if numbers else []


def judge_trades(
    trades: Iterable[CitedTrade | Trade],
    bot_id: int,
    at: int,
    post_mint: str | None,
    rows: storage.Rows = storage.read_rows,
) -> Judgment | None:
    """Judge a post made at a time (ms) by its trades, or None if they weren't the bot's."""
    judged = []
    for one in trades:
        sql = f"{HOLDERS.format(wallet=one.wallet_id)} ORDER BY id"
        holders = [Holder._make(row) for row in rows(sql)]
        if is_own_trade(holders, bot_id, at, one.block_time):
            judged.append(Judgment(*judge_stored(one, post_mint), one))
    return choose(judged)


def judge_stored(trade: CitedTrade | Trade, post_mint: str | None) -> tuple[str, str | None]:
    rows = (orjson.loads(text) for text in (trade.token_changes, trade.beside_tokens))
    mints = list_moved_mints(trade.kind, trade.mint, *rows)
    return judge(trade.kind, orjson.loads(trade.flags), mints, post_mint, trade.explained)


def _is_past(post: Post, wallet: Wallet) -> bool:
    observed_to: int | None = wallet.observed_to
    return observed_to is not None and observed_to * 1000 >= post.created_at + NOT_FOUND_AFTER_MS


def _is_foreign(signature: str | None, wallet: Wallet) -> bool:
    """Whether the transaction is known and only involves other wallets."""
    found = Receipt.select(Receipt.signature, Receipt.body).where(Receipt.signature == signature)
    row = found.first()
    receipt = row and read_stored(row.body, row.signature)
    if receipt is None:
        return False
    known = {
        row.address for row in Address.select(Address.address).where(Address.wallet == wallet.id)
    }
    return not touches(receipt, wallet.address, known)


# ---- delays --------------------------------------------------------------------------------------
# A trade's first verified post decides the delay. A post's time is when this server received it. A
# trade's time is its block time.
MINUTE_SECONDS = 60


class TimedPost(NamedTuple):
    """A post that has or needs a delay.

    `created_at` is in ms, `block_time` in Unix seconds. `id` and `trade` can be of any type.
    """

    id: Any
    bot: int
    trade: Any
    delay: int | None
    status: str
    created_at: int
    block_time: int | None


def find_delay(created_at: int, block_time: int | None) -> int | None:
    """Return whole seconds from a trade (Unix seconds) to a post (ms), at least 0."""
    return None if block_time is None else max(0, created_at - block_time * 1000) // 1000


def time_posts(bot_id: int, posts: Iterable[int], trades: Iterable[int]) -> None:
    """Recompute the delays of these posts of a bot, and of its posts about these trades.

    Call this inside the transaction that changes their verification.
    """
    came: Counter[int] = Counter()
    told = Post.id.in_(list(posts)) | Post.trade.in_(list(trades))
    for before, right in _correct_delays((Post.bot == bot_id) & told):
        if right is not None:
            came[right] += 1
        if before is not None:
            came[before] -= 1
    if any(came.values()):
        row = DelayTotal.get_or_none(DelayTotal.bot == bot_id)
        delays = Counter(dict(orjson.loads(row.delays))) if row else Counter()
        for delay, count in came.items():
            delays[round_down(delay)] += count
        _store_total(bot_id, delays)


def count_delays(bot_id: int) -> None:
    delays: Counter[int] = Counter()
    told = Post.delay.is_null(False) | ((Post.status == "verified") & Post.trade.is_null(False))
    for _, right in _correct_delays((Post.bot == bot_id) & told):
        if right is not None:
            delays[round_down(right)] += 1
    _store_total(bot_id, delays)


def _correct_delays(where: Any) -> Iterator[tuple[int | None, int | None]]:
    """Store the correct delays of these posts, and yield each with its former value."""
    columns = (
        *(Post.id, Post.bot, Post.trade, Post.delay, Post.status, Post.created_at),
        Trade.block_time,
    )
    found: Any = Post.select(*columns).left_outer_join(Trade).where(where)
    rows = found.order_by(Post.created_at, Post.id).tuples()
    for post, right in judge_delays(list(map(TimedPost._make, rows))):
        if right != post.delay:
            Post.update(delay=right).where(Post.id == post.id).execute()
        yield post.delay, right


def judge_delays(posts: Iterable[TimedPost]) -> Iterator[tuple[TimedPost, int | None]]:
    """Yield each post with its correct delay.

    Posts must be in order of time, because only a bot's first verified post about a trade counts.
    """
    told = set[tuple[int, Any]]()
    for post in posts:
        about = post.bot, post.trade
        is_first = post.status == "verified" and post.trade is not None and about not in told
        if is_first:
            told.add(about)
        yield post, find_delay(post.created_at, post.block_time) if is_first else None


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
