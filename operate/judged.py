"""Check the verification of posts against the trades that they name."""

from collections import defaultdict
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from chain.stored.attachments import HOLDERS, Holder, is_own_trade
from chain.stored.verify import OTHER_WALLET, choose, judge
from operate.derived import NAMED, NamedTrade, make_named
from operate.differences import Difference
from operate.readers import Reader


class JudgedPost(NamedTuple):
    """A post that names a signature, with its stored verification."""

    uid: str
    bot_id: int
    signature: str
    mint: str | None
    status: str
    status_reason: str | None
    trade_id: int | None
    event_at: int
    created_at: int
    checked_at: int | None


POSTS = """
SELECT uid, bot_id, signature, mint, status, status_reason, trade_id, event_at, created_at,
    checked_at
FROM post WHERE wallet_id = {wallet} AND signature IS NOT NULL ORDER BY id"""
# Trades that they name of other wallets that the bot had proven and held then.
OF_OTHERS = f"""
SELECT p.uid, {", ".join(f"t.{name}" for name in NAMED)}
FROM post p JOIN attachment a ON a.bot_id = p.bot_id AND a.wallet_id <> p.wallet_id
    AND a.ownership = 'proven' AND a.attached_at <= p.created_at
    AND (a.detached_at IS NULL OR a.detached_at >= p.created_at)
JOIN sighting s ON s.wallet_id = a.wallet_id AND s.signature = p.signature
JOIN trade t ON t.wallet_id = s.wallet_id AND t.slot = s.slot AND t.signature = s.signature
WHERE p.wallet_id = {{wallet}} AND p.signature IS NOT NULL"""
JUDGED = ("status", "status_reason", "trade_id")


def check_posts(reader: Reader, wallet: Any, trades: dict[str, NamedTrade]) -> Iterator[Difference]:
    """Report posts whose verification is not what their trade says.

    Without a trade no post may be verified.
    """
    sql = f"{HOLDERS.format(wallet=wallet.id)} ORDER BY id"
    holders = [Holder._make(row) for row in reader.rows(sql)]
    others: dict[str, list[NamedTrade]] = defaultdict(list)
    for uid, *named in reader.rows(OF_OTHERS.format(wallet=wallet.id)):
        others[uid].append(make_named(*named))
    for post in map(JudgedPost._make, reader.rows(POSTS.format(wallet=wallet.id))):
        if post.status == "pending" and post.checked_at is None:
            # Made since the last publication.
            continue
        own = trades.get(post.signature)
        is_own = own and is_own_trade(holders, post.bot_id, post.created_at, own.block_time)
        mine = [own] if own and is_own else []
        status, reason, trade = _judge(post, [*mine, *others.get(post.uid, ())], own is not None)
        right = (status, reason, trade and trade.id)
        for name, value in zip(JUDGED, right, strict=True):
            stored = getattr(post, name)
            if stored != value:
                what = f"of {post.uid} is {stored}, its trade says {value}"
                yield Difference("post", what, wallet.address, post.signature, name)
        block_time = trade.block_time if trade else None
        at = block_time * 1000 if post.status == "verified" and block_time else post.created_at
        if post.status == right[0] == "verified" and post.event_at != at:
            what = f"of {post.uid} is {post.event_at}, its trade says {at}"
            yield Difference("post", what, wallet.address, post.signature, "event_at")


CLAIMS = """
SELECT p.uid, p.claim FROM post p WHERE p.claim <> (p.signature IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM post o WHERE o.signature = p.signature AND o.bot_id = p.bot_id AND o.id < p.id))
ORDER BY p.id"""


def check_claims(reader: Reader) -> Iterator[Difference]:
    """The first post of a bot about a transaction is its claim."""
    for uid, claim in reader.rows(CLAIMS):
        what = f"of {uid} is {bool(claim)}, its bot's posts say {not claim}"
        yield Difference("post", what, field="claim")


def _judge(
    post: JudgedPost, trades: list[NamedTrade], is_foreign: bool
) -> tuple[str, str | None, NamedTrade | None]:
    """Judge a post by its bot's trades. `is_foreign`: its wallet has one that may be another bot's.
    Return its status, the reason, and the trade that decides.
    """
    judged = [
        (*judge(one.kind, one.flags, one.mints, post.mint, one.explained), one)
        for one in sorted(trades, key=attrgetter("id"))
    ]
    if decisive := choose(judged):
        return decisive
    if is_foreign:
        return *OTHER_WALLET, None
    stored = post.status, post.status_reason
    if post.status in ("pending", "not_found") or stored == OTHER_WALLET:
        return *stored, None
    return "pending", None, None
