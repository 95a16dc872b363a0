"""Account deletion: erase the text, delete keys and webhooks, free wallets, stop traders.

The log and the chain keep what they have, and so does the record: when a bot posted and what the
chain showed. `now` is UTC milliseconds.
"""

from typing import Any

from accounts import hiding, influencers
from accounts.posts import erase_words
from accounts.tables import Hook
from chain.letters import find_skeleton
from models import Bot, Key, Owner, Post, Session
from paper.tables import Backtest, PaperOrder, PaperPost, Period, Trader
from storage import erasing, writing

# Posts erased per transaction, so that other writers get a turn.
POSTS_AT_ONCE = 200


def delete_owner(owner: Owner, now: int) -> None:
    """Delete an account. If interrupted, the owner can request it again: the session and the
    recovery code are deleted last.
    """
    with writing():
        Key.update(revoked_at=now).where(Key.owner == owner, Key.revoked_at.is_null()).execute()
        Hook.delete().where(Hook.owner == owner).execute()
    while not _forget(owner, now):
        for bot in influencers.list_bots_of(owner):
            # Retire first, so that neither the bot nor the observer posts any more.
            influencers.retire_bot(bot, now)
            while _erase_some(bot, now):
                pass


def _erase_some(bot: Bot, now: int) -> bool:
    """Erase the text of one batch of posts and the event ids their bot chose. Return whether there
    were any.

    Newest first: a bot may have used an earlier post's id as an event id, which that earlier post
    needs as its own.
    """
    with erasing():
        found = list(_find_said([bot]).order_by(Post.id.desc()).limit(POSTS_AT_ONCE))
        for post in found:
            if post.hidden_at is None:
                erase_words(post, now)
            if post.source == "bot":
                _forget_event(post)
    return bool(found)


def _find_said(bots: list[Bot]) -> Any:
    is_named = (Post.source == "bot") & (Post.event_id != Post.uid)
    return Post.select().where(Post.bot.in_(bots), Post.hidden_at.is_null() | is_named)


def _forget_event(post: Post) -> None:
    """Erase what identifies a retry; the bot's keys are revoked, so none can arrive."""
    Post.update(event_id=post.uid, hidden_hash=None).where(Post.id == post.id).execute()


def _empty_bot(bot: Bot, now: int) -> None:
    bot.name = f"Deleted {bot.uid[-10:]}"
    bot.likeness = find_skeleton(bot.name)
    bot.handle = f"deleted-{bot.uid[-24:]}"
    bot.bio, bot.avatar_url, bot.voice = "", None, influencers.check_voice({})
    influencers.log_profile(bot, now)


def _empty_trader(trader: Trader, now: int) -> None:
    """Stop a trader and erase its text. Open positions stay open: their outcome is unknown.

    Keep its handle, which seeds its random draws.
    """
    name = f"Deleted {trader.uid[-10:]}"
    periods = Period.select().where(Period.trader == trader, Period.closed_at.is_null())
    waiting = PaperOrder.period.in_(periods) & (PaperOrder.state == "open")
    PaperOrder.update(state="cancelled").where(waiting).execute()
    Trader.update(
        retired_at=trader.retired_at or now,
        version=Trader.version + 1,
        name=name,
        likeness=find_skeleton(name),
        bio="",
        voice=influencers.check_voice({}),
    ).where(Trader.id == trader.id).execute()
    hiding.erase_paper_words(PaperPost.trader == trader, now)


def _forget(owner: Owner, now: int) -> bool:
    """Erase everything but posts and delete keys, webhooks, backtests and sessions, so that nobody
    can sign in, nothing can be created and no trader posts.

    Return False, and change nothing, if a bot isn't retired yet or a post still has its text.
    """
    with erasing():
        bots = influencers.list_bots_of(owner)
        if any(bot.retired_at is None for bot in bots) or _find_said(bots).exists():
            return False
        for bot in bots:
            _empty_bot(bot, now)
        for trader in list(Trader.select().where(Trader.owner == owner).order_by(Trader.id)):
            _empty_trader(trader, now)
        keys = Key.select(Key.id).where(Key.owner == owner)
        Post.update(key=None).where(Post.key.in_(keys)).execute()
        Key.delete().where(Key.owner == owner).execute()
        Hook.delete().where(Hook.owner == owner).execute()
        Backtest.delete().where(Backtest.owner == owner).execute()
        Owner.update(recovery_hash=None).where(Owner.id == owner.id).execute()
        Session.delete().where(Session.owner == owner).execute()
    return True
