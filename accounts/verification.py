"""Verify posts: compare the signatures they cite with their wallet's observed trades."""

from collections.abc import Collection
from typing import NamedTuple

import orjson

import storage
from accounts.delays import time_posts
from chain.reading.effects import touches
from chain.reading.receipts import read_stored
from chain.stored.attachments import HOLDERS, Holder, is_own_trade
from chain.stored.trades import LISTED_TRADE
from chain.stored.verify import OTHER_WALLET, choose, judge, list_moved_mints
from models import Address, Post, Receipt, Trade, Wallet, WalletSignature
from storage import arrivals

# A signature still missing this long after its post, by the chain's clock, is `not_found`.
NOT_FOUND_AFTER_MS = 10 * 60_000
# With more changed trades than this, judge all posts of the wallet.
MAX_AT_ONCE = 400
# Plain SQL: it runs on each publication of a wallet and rarely finds anything, and peewee would
# take longer to build it than SQLite to run it.
SIGNED = "SELECT * FROM post p WHERE wallet_id IN ({}) AND signature IS NOT NULL"
# Separate from SIGNED: as a subquery it keeps SQLite from using the index on a wallet's posts.
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
IN_ORDER = f"{HOLDERS.format(wallet='?')} ORDER BY id"
OTHERS = """
SELECT wallet_id FROM attachment WHERE bot_id = ? AND wallet_id <> ? AND ownership = 'proven'
AND attached_at <= ? AND (detached_at IS NULL OR detached_at >= ?)"""


class CitedTrade(NamedTuple):
    """The columns of a trade that verifying a post about it needs. `block_time`: Unix seconds."""

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
    trade: Trade | None


def verify_posts(wallet: Wallet, changed: Collection[str], now: int) -> None:
    """Verify a wallet's posts again after new observations or a proof, and store changes.

    Includes posts of all other wallets its bots ever had. After its creation, nothing else changes
    a post's verification.
    """
    for post in _list_movable(wallet, changed):
        # Listed by wallet, so it has one.
        status, reason, trade = judge_post(post, post.wallet or wallet)
        before = post.trade_id
        if (status, reason, trade and trade.id) != (post.status, post.status_reason, post.trade_id):
            event_at = post.created_at
            if status == "verified" and trade and trade.block_time:
                event_at = trade.block_time * 1000
            Post.update(
                status=status, status_reason=reason, trade=trade, checked_at=now, event_at=event_at
            ).where(Post.id == post.id).execute()
            arrivals.store_arrival("verification", post=post)
            arrivals.append_leaf(
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

    They cite a changed trade, are pending, cite a transaction that has since arrived, lost their
    trade, or cite one that became their bot's when the bot proved the wallet.
    """
    rows = storage.database.execute_sql(TOGETHER, (wallet.id,)).fetchall()
    wallets = sorted({wallet.id, *(number for (number,) in rows)})
    signed = SIGNED.format(storage.mark(wallets))
    if len(changed) > MAX_AT_ONCE:
        return list(Post.raw(signed, *wallets))
    named = f"OR signature IN ({storage.mark(changed)})" if changed else ""
    return list(Post.raw(f"{signed} AND ({MOVABLE} {named})", *wallets, *sorted(changed)))


def judge_post(post: Post, wallet: Wallet) -> Judgment:
    """Judge a post by the wallets its bot had when it was made, `wallet` first."""
    others = _list_others(post, wallet)
    numbers = [wallet.id, *(one.id for one in others)]
    named = list(Trade.raw(NAMED.format(storage.mark(numbers)), post.signature, *numbers))
    if judged := choose([_judge_by(post, trade) for trade in named if _is_own(post, trade)]):
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


def _is_own(post: Post, trade: Trade) -> bool:
    return belongs(post.bot_id, trade.wallet_id, post.created_at, trade.block_time)


def belongs(bot_id: int, wallet_id: int, at: int, block_time: int | None) -> bool:
    """Whether a wallet's trade belonged to a bot that had the wallet at time `at` (ms)."""
    rows = storage.database.execute_sql(IN_ORDER, (wallet_id,)).fetchall()
    return is_own_trade([Holder._make(row) for row in rows], bot_id, at, block_time)


def _judge_by(post: Post, trade: Trade) -> Judgment:
    return Judgment(*judge_stored(trade, post.mint), trade)


def judge_stored(trade: CitedTrade | Trade, post_mint: str | None) -> tuple[str, str | None]:
    rows = (orjson.loads(text) for text in (trade.token_changes, trade.beside_tokens))
    mints = list_moved_mints(trade.kind, trade.mint, *rows)
    return judge(trade.kind, orjson.loads(trade.flags), mints, post_mint, trade.explained)


def _is_past(post: Post, wallet: Wallet) -> bool:
    observed_to: int | None = wallet.observed_to
    return observed_to is not None and observed_to * 1000 >= post.created_at + NOT_FOUND_AFTER_MS


def _is_foreign(signature: str | None, wallet: Wallet) -> bool:
    """Whether this transaction is known and involves only other wallets.

    One that involves this wallet isn't foreign: it just hasn't been listed yet.
    """
    found = Receipt.select(Receipt.signature, Receipt.body).where(Receipt.signature == signature)
    row = found.first()
    receipt = row and read_stored(row.body, row.signature)
    if receipt is None:
        return False
    known = {
        row.address for row in Address.select(Address.address).where(Address.wallet == wallet.id)
    }
    return not touches(receipt, wallet.address, known)
