"""Posts of either kind, by bots and by paper traders: find one by its id, take its words away."""

from typing import Any

from accounts import posts
from accounts.problem import refuse_unknown
from models import Bot, Post
from paper.tables import PaperPost, Trader


def find_post(uid: str) -> Post | PaperPost:
    """Return the post of this id; Problem `not_found` otherwise."""
    return (
        Post.get_or_none(Post.uid == uid)
        or PaperPost.get_or_none(PaperPost.uid == uid)
        or refuse_unknown("post")
    )


def find_author(post: Post | PaperPost) -> Bot | Trader:
    """Return the bot or the paper trader that said it."""
    return post.bot if isinstance(post, Post) else post.trader


def erase_words(post: Post | PaperPost, now: int) -> None:
    """Erase the words of a post, inside a transaction that erases; its record stays."""
    if isinstance(post, Post):
        posts.erase_words(post, now)
    else:
        erase_paper_words(PaperPost.id == post.id, now)


def erase_paper_words(chosen: Any, now: int) -> None:
    """As `erase_words`, for the posts of paper traders that the condition `chosen` chooses. No log
    and no follower knows of them.
    """
    said = PaperPost.update(body="", symbol=None, hidden_at=now)
    said.where(chosen, PaperPost.hidden_at.is_null()).execute()
