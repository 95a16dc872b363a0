"""The feed on pages: posts by wallet bots and paper traders in one list, newest first."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from web.api import paper
from web.api.paging import find_last_id
from web.api.posts import PostFilter, read_post, read_posts, show_posts

SOURCES = {
    "": "anyone",
    "bot": "the bot",
    "observer": "auto-post, from a trade",
    "paper": "paper traders",
}
LABELS = {
    "": "All",
    "verified": "Verified",
    "mismatch": "Does not match",
    "pending": "Waiting",
    "none": "Not verified",
    "simulated": "Simulated",
}
# Post states by label.
STATUSES = {
    **{label: (label,) for label in ("verified", "mismatch", "pending")},
    "none": ("none", "not_found"),
}
Json = Mapping[str, Any]


class Start(NamedTuple):
    """The start of a page: below these numbers of a bot's post and of a paper trader's post. Each
    kind has its own order of arrival.
    """

    post: int
    paper_post: int


@dataclass(frozen=True)
class Page:
    """Posts as the API shows them, and the next page's sort key, or None on the last page."""

    posts: Sequence[Json]
    next: tuple[int, ...] | None


class Filters(NamedTuple):
    """Which posts to list.

    `label` and `source` are keys of LABELS and SOURCES. `bot` is a uid. With `mints`, posts must be
    about one of these tokens. `paper` includes paper traders' posts.
    """

    label: str = ""
    source: str = ""
    bot: str | None = None
    mints: tuple[str, ...] | None = None
    paper: bool = True

    @property
    def real(self) -> bool:
        return self.source != "paper" and self.label != "simulated"

    @property
    def simulated(self) -> bool:
        wanted = self.source in ("", "paper") and self.label in ("", "simulated")
        return self.paper and wanted and self.bot is None


ALL = Filters()


def list_page(size: int, start: Start | None = None, filters: Filters = ALL) -> Page:
    """Return at most `size` posts, the newest or from an earlier Page's sort key on."""
    start = start or find_newest()
    wallet_posts = _list_wallet_posts(size + 1, start, filters) if filters.real else []
    paper_posts = _list_paper_posts(size + 1, start, filters) if filters.simulated else []
    both = list(heapq.merge(wallet_posts, paper_posts, key=lambda one: one.key.at, reverse=True))
    shown = both[:size]
    following = Start(
        min([start.post, *(one.key.id for one in shown if not one.shown["simulated"])]),
        min([start.paper_post, *(one.key.id for one in shown if one.shown["simulated"])]),
    )
    return Page([one.shown for one in shown], following if len(both) > size else None)


def find_newest() -> Start:
    return Start(find_last_id("post") + 1, find_last_id("paper_post") + 1)


def _list_wallet_posts(limit: int, start: Start, filters: Filters) -> list[paper.SortedRow]:
    wanted = PostFilter(
        filters.bot, filters.mints, STATUSES.get(filters.label), filters.source or None
    )
    rows = read_posts(limit, start.post, wanted)
    return [
        paper.SortedRow(paper.TimeSortKey(row.created_at, row.id), shown)
        for row, shown in zip(rows, show_posts(rows), strict=True)
    ]


def _list_paper_posts(limit: int, start: Start, filters: Filters) -> list[paper.SortedRow]:
    mints = (None,) if filters.mints is None else filters.mints
    lists = [paper.list_posts(limit, start.paper_post, mint) for mint in mints]
    return list(heapq.merge(*lists, key=lambda one: one.key.id, reverse=True))[:limit]


def find_post(uid: str) -> Json | None:
    row = read_post(uid)
    return show_posts([row])[0] if row else paper.find_post(uid)
