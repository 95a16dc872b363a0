"""Find or erase a post of either kind, by a bot or a paper trader."""

from typing import Any

from accounts import posts
from accounts.problem import refuse_unknown
from models import Bot, Post
from paper.tables import PaperPost, Trader


def find_post(uid: str) -> Post | PaperPost:
    return (
        Post.get_or_none(Post.uid == uid)
        or PaperPost.get_or_none(PaperPost.uid == uid)
        or refuse_unknown("post")
    )


def find_author(post: Post | PaperPost) -> Bot | Trader:
    return post.bot if isinstance(post, Post) else post.trader


def erase_words(post: Post | PaperPost, now: int) -> None:
    """Erase a post's text and keep its record. Call it inside an erasing transaction."""
    if isinstance(post, Post):
        posts.erase_words(post, now)
    else:
        erase_paper_words(PaperPost.id == post.id, now)


def erase_paper_words(chosen: Any, now: int) -> None:
    """Like `erase_words`, for paper posts that match the condition `chosen`. No log entry or
    webhook refers to them.
    """
    said = PaperPost.update(body="", symbol=None, hidden_at=now)
    said.where(chosen, PaperPost.hidden_at.is_null()).execute()
