"""Bring the log up to date at a start: open it, log what an earlier version stored without it, and
see that it is signed with the key it was opened with.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from peewee import Case

from accounts.posts import log_post
from config import BadSetting, Config
from evidence import log
from evidence.notes import Signer, encode
from models import Attachment, Bot, Post, Wallet
from storage import database, writing
from storage.arrivals import append_leaf, new_salt, open_log

# In one transaction: others may write between two.
POSTS_AT_ONCE = 500


def catch_up(config: Config, signer: Signer, now: int) -> int:
    """Open the log where there is none, log what was stored without it, and bind it to its key;
    return how many posts were logged. `now` in ms. A second call finds nothing to do.

    BadSetting where another key than the log's is set.
    """
    with writing():
        if log.find_log() is None:
            open_log(now)
            for event in sorted(_list_events(), key=lambda one: one.at):
                append_leaf(event.kind, event.at, loggedAt=now, **event.fields)
    logged = 0
    while part := _log_posts(now):
        logged += part
    bind_key(config, signer, now)
    return logged


# ---- what an earlier version stored --------------------------------------------------------------
class Event(NamedTuple):
    """What happened to a bot before there was a log."""

    at: int
    kind: str
    fields: dict[str, Any]


def _list_events() -> Iterator[Event]:
    """Yield when wallets were attached and detached, and bots retired."""
    held = Attachment.select(Attachment, Bot, Wallet).join(Bot).switch(Attachment).join(Wallet)
    for one in held.order_by(Attachment.id):
        who = {"bot": one.bot.uid, "wallet": one.wallet.address}
        yield Event(one.attached_at, "attachment", {**who, "ownership": one.ownership})
        if one.detached_at is not None:
            yield Event(one.detached_at, "detachment", who)
    for bot in Bot.select().where(Bot.retired_at.is_null(False)).order_by(Bot.id):
        yield Event(bot.retired_at or 0, "retirement", {"bot": bot.uid})


def _log_posts(now: int) -> int:
    """Append the leaves of the oldest posts that have none; return of how many."""
    with writing():
        rows = Post.select().where(Post.leaf_id.is_null()).order_by(Post.id).limit(POSTS_AT_ONCE)
        added = {post.id: _log_post(post, now) for post in list(rows)}
        for column, place in ((Post.leaf_id, 0), (Post.salt, 1)) if added else ():
            values = [(number, one[place]) for number, one in added.items()]
            Post.update({column: Case(Post.id, values, column)}).where(
                Post.id.in_(list(added))
            ).execute()
        return len(added)


def _log_post(post: Post, now: int) -> tuple[int, str | None]:
    """Append the leaf of a stored post; return its id, and the salt of its words."""
    salt = None if post.hidden_at else new_salt()
    row = {**post.__data__, "salt": salt}
    more = {"hiddenAt": post.hidden_at} if post.hidden_at else {}
    return log_post(row, loggedAt=now, **more).id, salt


# ---- the key, and new logs -----------------------------------------------------------------------
def bind_key(config: Config, signer: Signer, now: int) -> None:
    """Note which key the log is signed with. One that changed opens a new log; BadSetting where it
    was set, or where other machines may have the right one.
    """
    one = log.find_log()
    if one is None or one.key == str(signer.verifier(one.origin)):
        return
    if one.key is not None:
        if config.log_key or config.database_url:
            raise BadSetting(
                "LOG_KEY, or the file log_key in DATA_DIR, is not the key that the log was opened"
                " with: set the same one on all machines, or begin a new log with"
                " `app.py log --renew`"
            )
        renew_log("key", now)
    store_key(signer)


def store_key(signer: Signer) -> None:
    """Note with which key the log that grows is signed."""
    one = log.find_log()
    if one is not None:
        key = str(signer.verifier(one.origin))
        with writing():
            database.execute_sql("UPDATE log SET key = ? WHERE id = ?", (key, one.id))


def renew_log(why: str, now: int, last: dict[str, Any] | None = None, db: Any = database) -> str:
    """Open a new log that names the last checkpoint of the old one; return its uid.

    `why`: key | restore | operator. `last`: that checkpoint, where another database knows it.
    """
    with db.atomic():
        previous = describe_last(db)
        if previous is not None:
            previous = {**previous, **(last or {}), "kept": previous["size"], "why": why}
        return open_log(now, previous, db)


def describe_last(db: Any = database) -> dict[str, Any] | None:
    """Return the checkpoint of the log that grows, as the next log's first leaf names it; None
    without one.
    """
    one = log.find_log(db=db)
    if one is None:
        return None
    return {"log": one.uid, "size": one.size, "root": encode(log.make_checkpoint(one, db).root)}
