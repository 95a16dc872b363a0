"""The feed of the pages: posts of wallet bots and of paper traders in one list, newest first."""

import heapq
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from web.api import paper, queries
from web.api.posts import show_posts

SOURCES = {"": "everyone", "bot": "bots", "observer": "automatic posts", "paper": "paper traders"}
Json = dict[str, Any]


class Start(NamedTuple):
    """Where a page begins: below these numbers of a bot's and of a paper trader's post. Each kind
    keeps its own order of arrival.
    """

    post: int
    paper_post: int


@dataclass(frozen=True)
class Page:
    """Posts as the interface shows them, and the position at which the next page begins; None where
    nothing is older.
    """

    posts: list[Json]
    next: tuple[int, ...] | None


def list_page(
    size: int, position: Start | None = None, source: str = "", mint: str | None = None
) -> Page:
    """Return at most `size` posts. `position`: of an earlier Page, None for the newest."""
    start = position or find_newest()
    wallet_posts = [] if source == "paper" else _list_wallet_posts(size + 1, start, source, mint)
    paper_posts = (
        paper.list_posts(size + 1, start.paper_post, mint) if source in ("", "paper") else []
    )
    both = list(heapq.merge(wallet_posts, paper_posts, key=find_time, reverse=True))
    shown = both[:size]
    following = Start(
        min([start.post, *(one.number for one in shown if not one.shown["simulated"])]),
        min([start.paper_post, *(one.number for one in shown if one.shown["simulated"])]),
    )
    return Page([one.shown for one in shown], following if len(both) > size else None)


def find_newest() -> Start:
    """Return the start above everything that has arrived."""
    return Start(queries.find_last_id("post") + 1, queries.find_last_id("paper_post") + 1)


def _list_wallet_posts(
    limit: int, start: Start, source: str, mint: str | None
) -> list[paper.NumberedPost]:
    rows = queries.list_posts(limit, start.post, mint=mint, source=source)
    return [
        paper.NumberedPost(row.id, shown) for row, shown in zip(rows, show_posts(rows), strict=True)
    ]


def find_time(post: paper.NumberedPost) -> datetime:
    """Return when a post was created."""
    return datetime.fromisoformat(post.shown["createdAt"])


def find_post(uid: str) -> Json | None:
    """Return a post of either kind, or None."""
    row = queries.find_post(uid)
    return show_posts([row])[0] if row else paper.find_post(uid)
