"""The feed of the pages: posts of wallet bots and of paper traders in one list, newest first. Each
keeps its own order of arrival.
"""

import heapq
from dataclasses import dataclass
from datetime import datetime

from web.api import paper, queries
from web.api.serialize import show_post

SOURCES = {"": "everyone", "bot": "bots", "observer": "automatic posts", "paper": "paper traders"}


@dataclass(frozen=True)
class Page:
    """Posts as the interface shows them, and the place where the next page begins; None where
    nothing is older.
    """

    posts: list
    next: tuple | None


def list_page(size, position=None, source="", mint=None):
    """A Page. `position`: (post, paper post), the numbers all that is shown lies below; None for
    the newest.
    """
    post, paper_post = position or (
        queries.find_last_id("post") + 1,
        queries.find_last_id("paper_post") + 1,
    )
    said = (
        []
        if source == "paper"
        else [
            (row.id, show_post(row))
            for row in queries.list_posts(size + 1, post, mint=mint, source=source)
        ]
    )
    played = paper.list_posts(size + 1, paper_post, mint) if source in ("", "paper") else []
    both = list(
        heapq.merge(
            *(
                [(*one, simulated) for one in posts]
                for posts, simulated in ((said, False), (played, True))
            ),
            key=find_time,
            reverse=True,
        )
    )
    shown = both[:size]
    following = (
        min([post, *(n for n, _, simulated in shown if not simulated)]),
        min([paper_post, *(n for n, _, simulated in shown if simulated)]),
    )
    return Page([one for _, one, _ in shown], following if len(both) > size else None)


def find_time(one):
    return datetime.fromisoformat(one[1]["createdAt"])


def find_post(uid):
    """A post of either kind, or None."""
    row = queries.find_post(uid)
    return show_post(row) if row else paper.find_post(uid)
