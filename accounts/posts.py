"""Publish posts. An event ID maps to one post forever. No request makes a post verified."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from peewee import IntegrityError
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from accounts import quotas
from accounts.fields import HOLDS_SECRET, has_control, holds_secret, parse_body
from accounts.problem import Problem, invalid, refuse_full
from accounts.verification import CitedTrade, judge_trades, time_posts
from chain.addresses import is_base58
from chain.stored.attachments import LEAD
from chain.stored.trades import LISTED_TRADE, OTHER_WALLET
from chain.symbols import clean_text
from config import Config
from models import Post
from storage import database, new_uid, store_arrival, store_row, writing
from storage.log import Appended, append_leaf, hash_words, new_salt
from storage.rows import select

MAX_TEXT = 4000
MAX_LENGTHS = {"eventId": 128, "body": MAX_TEXT, "symbol": 32, "reason": MAX_TEXT}
# Must be identical in a retry.
COMPARED = ("body", "mint", "symbol", "signature", "reason")
# A hidden post keeps only these fields.
KEPT = ("mint", "signature")
# Storage of a post in addition to its text: the row, five indexes, and the arrival.
POST_OVERHEAD_BYTES = 300
POST_TEXTS = ("event_id", "body", "mint", "symbol", "signature", "reason")
# Public IDs in a post's log leaf.
NAMES_OF = "SELECT b.uid, w.address FROM bot b LEFT JOIN wallet w ON w.id = ? WHERE b.id = ?"
IS_TOLD = "SELECT 1 FROM post WHERE signature = ? AND bot_id = ? LIMIT 1"
COUNT_POSTS = """UPDATE owner SET posts_bytes = posts_bytes + ?
WHERE id = (SELECT owner_id FROM bot WHERE id = ?)"""


class PostBody(BaseModel):
    """The JSON body of POST /api/v1/posts."""

    model_config = ConfigDict(strict=True, extra="forbid")

    eventId: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_LENGTHS["eventId"],
        examples=["sell-17"],
        description="Unique ID of this update; or send the Idempotency-Key header",
    )
    body: str = Field(
        min_length=1,
        max_length=MAX_TEXT,
        examples=["Took profit."],
        description="text of the post; surrounding whitespace is removed",
    )
    mint: str | None = Field(
        None,
        examples=["So11111111111111111111111111111111111111112"],
        description="Token mint address, base58 of 32 bytes",
        json_schema_extra={"pattern": "^[1-9A-HJ-NP-Za-km-z]{32,44}$"},
    )
    symbol: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_LENGTHS["symbol"],
        examples=["SOL"],
        description="Token ticker",
    )
    signature: str | None = Field(
        None,
        description="Transaction signature, base58 of 64 bytes",
        json_schema_extra={"pattern": "^[1-9A-HJ-NP-Za-km-z]{64,88}$"},
    )
    reason: str | None = Field(
        None,
        max_length=MAX_TEXT,
        examples=["The book was thin."],
        description="the bot's stated reason; never verified",
    )
    botId: str | None = Field(None, description="the bot's ID; must be the key's bot")

    @field_validator("eventId", "body", "symbol", "reason", mode="before")
    @classmethod
    def clean(cls, text: Any, info: ValidationInfo) -> Any:
        """Trim the text and remove misleading characters. Control characters are rejected."""
        # The length check rejects oversized text next.
        if not isinstance(text, str) or len(text.strip()) > 2 * MAX_LENGTHS[info.field_name or ""]:
            return text
        if has_control(text):
            raise PydanticCustomError(
                "control_character",
                "must not contain control characters other than newline and tab",
            )
        return clean_text(text).strip()

    @field_validator("eventId", "body", "symbol", "signature", "reason")
    @classmethod
    def refuse_secret(cls, text: str | None) -> str | None:
        # The lengths of other fields are checked by now. `check_base58` rejects a longer signature.
        if text is not None and len(text) <= MAX_TEXT and holds_secret(text):
            raise PydanticCustomError("secret", HOLDS_SECRET)
        return text

    @field_validator("mint", "signature")
    @classmethod
    def check_base58(cls, text: str | None, info: ValidationInfo) -> str | None:
        size = 32 if info.field_name == "mint" else 64
        if text is not None and not is_base58(text, size):
            raise PydanticCustomError("base58", "must be base58 of {size} bytes", {"size": size})
        return text


NO_EVENT_ID = "is required, here or in the Idempotency-Key header"


@dataclass(frozen=True)
class Published:
    """Only new posts have a `leaf` (log entry) and a `salt` (of the text's hash)."""

    uid: str
    replayed: bool
    leaf: str | None = None
    salt: str | None = None


# ---- from JSON to a body -------------------------------------------------------------------------
class ParsedPost(NamedTuple):
    body: PostBody
    sanitized: bool


def parse_post(value: dict[str, Any], idempotency_key: str | None = None) -> ParsedPost:
    """Validate a post's body and remove invisible characters.

    The Idempotency-Key header can supply the eventId. Raises Problem (422), which names each
    invalid field.
    """
    if idempotency_key is not None:
        if value.get("eventId") not in (None, idempotency_key):
            raise invalid("eventId", "differs from the Idempotency-Key header")
        value = {**value, "eventId": idempotency_key}
    # pydantic doesn't require eventId, because the header can supply it.
    lacks_event = value.get("eventId") is None
    errors = [{"field": "eventId", "message": NO_EVENT_ID}] if lacks_event else []
    body = parse_body(PostBody, value, _tell, errors)
    given = (value[name] for name in MAX_LENGTHS if value.get(name) is not None)
    return ParsedPost(body, any(clean_text(text) != text for text in given))


def _tell(kind: str, field: str, message: str) -> str:
    if kind not in ("string_too_short", "string_too_long"):
        return message
    longest = f"{MAX_LENGTHS[field]:,}"
    shortest = "at most" if field == "reason" else "1 to"
    return f"must have {shortest} {longest} characters"


# ---- from a body to a post -----------------------------------------------------------------------
def publish(
    bot_id: int,
    body: PostBody,
    now: int,
    channel: str = "api",
    key_id: int | None = None,
    sanitized: bool = False,
    config: Config | None = None,
) -> Published:
    """Store a post, or return the post that already has this eventId.

    Raises Problem `event_conflict` if the existing post differs. The unique index decides races: of
    several identical requests, one inserts a row and the others find it. `config` has the owner's
    quota, which a retry doesn't use. If it is None, there isn't a quota.
    """
    try:
        with writing():
            if config is not None:
                _refuse_beyond_quota(config, bot_id, body)
            return _store(bot_id, body, now, channel, key_id, sanitized)
    except IntegrityError:
        return Published(_find_same(bot_id, body).uid, replayed=True)


POSTS_KEPT = "SELECT posts_bytes FROM owner WHERE id = (SELECT owner_id FROM bot WHERE id = ?)"
KNOWN = "SELECT 1 FROM post WHERE bot_id = ? AND source = 'bot' AND event_id = ?"


def _refuse_beyond_quota(config: Config, bot_id: int, body: PostBody) -> None:
    """Raise Problem if the quota is full, unless this is a retry.

    The post that reaches the limit is still accepted.
    """
    ((kept,),) = database.execute_sql(POSTS_KEPT, (bot_id,)).fetchall()
    used, limit = kept // quotas.MB, config.max_posts_kept_mb
    if used >= limit and not database.execute_sql(KNOWN, (bot_id, body.eventId)).fetchone():
        refuse_full(quotas.Use("posts_kept_mb", limit, used))


WALLET_OF = f"""SELECT b.retired_at, a.wallet_id FROM bot b
LEFT JOIN attachment a ON a.id = {LEAD} WHERE b.id = ?"""
TRADE_OF = f"""SELECT {", ".join(f"t.{name}" for name in CitedTrade._fields)}
FROM {LISTED_TRADE} WHERE s.signature = ? AND t.wallet_id IN (
    SELECT wallet_id FROM attachment WHERE bot_id = ? AND detached_at IS NULL) ORDER BY t.id"""


def _store(
    bot_id: int, body: PostBody, now: int, channel: str, key_id: int | None, sanitized: bool
) -> Published:
    retired_at, wallet = database.execute_sql(WALLET_OF, (bot_id,)).fetchone()
    if retired_at is not None:
        raise Problem("bot_retired", "a retired bot cannot post")
    return store_post(
        bot=bot_id,
        source="bot",
        channel=channel,
        key=key_id,
        event_id=body.eventId,
        body=body.body,
        mint=body.mint,
        symbol=body.symbol,
        signature=body.signature,
        reason=body.reason,
        sanitized=sanitized,
        wallet=wallet,
        created_at=now,
        **_judged(bot_id, body, wallet, now),
    )


def _judged(bot_id: int, body: PostBody, wallet: int | None, now: int) -> dict[str, Any]:
    """Only an observed trade of an attached wallet can make a post more than `pending`."""
    if not (body.signature and wallet):
        return {"status": "none", "event_at": now}
    trades = select(CitedTrade, TRADE_OF, (body.signature, bot_id))
    if not trades:
        return {"status": "pending", "event_at": now}
    judged = judge_trades(trades, bot_id, now, body.mint)
    status, reason, trade = judged or (*OTHER_WALLET, None)
    block_time = trade.block_time if trade and status == "verified" else None
    return {
        "status": status,
        "status_reason": reason,
        "trade": trade and trade.id,
        "checked_at": now,
        "event_at": now if block_time is None else block_time * 1000,
    }


def _find_same(bot_id: int, body: PostBody) -> Post:
    post = Post.get(Post.bot == bot_id, Post.source == "bot", Post.event_id == body.eventId)
    if hash_compared(body) != (post.hidden_hash or hash_compared(post)):
        # The text of a hidden post is erased, so the fields that differ can't be listed.
        compared = KEPT if post.hidden_hash else COMPARED
        raise Problem(
            "event_conflict",
            "this eventId was already used for a different post",
            existingPostId=post.uid,
            differingFields=[
                field for field in compared if getattr(body, field) != getattr(post, field)
            ],
        )
    return post


# ---- the row -------------------------------------------------------------------------------------
def store_post(**columns: Any) -> Published:
    """Insert a post with its arrival and log leaf, and count it toward the owner's quota.

    Call this inside a transaction, with ids for `bot`, `wallet` and `trade`. Raises IntegrityError
    if the event id exists.
    """
    uid, salt, bot = new_uid("post"), new_salt(), columns["bot"]
    row = {"uid": uid, "salt": salt, **columns}
    leaf = log_post(row)
    claim = _is_claim(bot, columns.get("signature"))
    number = store_row(Post, {**row, "claim": claim, "leaf_id": leaf.id})
    store_arrival("post", post=number)
    if columns["status"] == "verified":
        time_posts(bot, [number], [columns["trade"]])
    _count_bytes(bot, POST_OVERHEAD_BYTES + _measure(columns))
    return Published(uid, replayed=False, leaf=leaf.data, salt=salt)


def _is_claim(bot: int, signature: str | None) -> bool:
    if signature is None:
        return False
    return database.execute_sql(IS_TOLD, (signature, bot)).fetchone() is None


def log_post(row: Mapping[str, Any]) -> Appended:
    said = {name: row.get(name) for name in ("mint", "signature", "source", "channel")}
    values = row.get("wallet"), row["bot"]
    ((bot_uid, address),) = database.execute_sql(NAMES_OF, values).fetchall()
    texts = [row.get(name) for name in ("event_id", "body", "symbol", "reason")]
    return append_leaf(
        "post",
        row["created_at"],
        post=row["uid"],
        bot=bot_uid,
        wallet=address,
        status=row["status"],
        statusReason=row.get("status_reason"),
        eventAt=row["event_at"],
        words=hash_words(row["salt"], *texts),
        **said,
    )


def _measure(columns: Mapping[str, Any]) -> int:
    """Return the UTF-8 bytes of a post's texts, which count toward the quota."""
    return sum(len((columns.get(name) or "").encode()) for name in POST_TEXTS)


def _count_bytes(bot_id: int, change: int) -> None:
    database.execute_sql(COUNT_POSTS, (change, bot_id))


# ---- hiding --------------------------------------------------------------------------------------
def erase_words(post: Post, now: int) -> None:
    """Erase a post's text and the salt of its hash, inside an erasing transaction.

    Its record and log leaf stay, and a retry can still be distinguished from a different payload.
    """
    said = {"body": post.body, "symbol": post.symbol, "reason": post.reason}
    _count_bytes(post.bot_id, -_measure(said))
    Post.update(
        hidden_at=now, hidden_hash=hash_compared(post), body="", symbol=None, reason=None, salt=None
    ).where(Post.id == post.id).execute()
    append_leaf("hiding", now, post=post.uid)
    # Webhooks report the change because of this arrival.
    store_arrival("verification", post=post)


def hash_compared(said: PostBody | Post) -> str:
    return hashlib.sha256(orjson.dumps([getattr(said, field) for field in COMPARED])).hexdigest()
