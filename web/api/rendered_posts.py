"""Posts as JSON, rendered once for all requests that show them."""

import threading
from collections.abc import Callable, Mapping, Sequence

import orjson

from web.api import queries
from web.api.post_statements import PostStateRow
from web.api.posts import show_post
from web.api.serialize import write_kept

Rendered = Mapping[PostStateRow, orjson.Fragment]


class RenderedPosts:
    """Each post under its state: its id and all of it that can change, so that none is ever stale.

    At most `max_entries`; the oldest goes first. `render(ids)` gives {state: JSON} of these posts
    as they are now.
    """

    def __init__(self, max_entries: int, render: Callable[[Sequence[int]], Rendered]) -> None:
        self.max_entries, self.render = max_entries, render
        self._lock = threading.Lock()
        self._entries: dict[PostStateRow, orjson.Fragment] = {}

    def list(self, states: Sequence[PostStateRow]) -> list[orjson.Fragment]:
        """Return the posts in these states. One that has changed meanwhile is shown as it is now,
        one that is gone is left out.
        """
        # Other threads evict entries meanwhile: each is looked up once and held here.
        known = {state: self._entries.get(state) for state in states}
        missing = [state.id for state, shown in known.items() if shown is None]
        new = self.render(missing) if missing else {}
        now = {state.id: shown for state, shown in new.items()}
        self._add(new)
        found = (known[state] or now.get(state.id) for state in states)
        return [shown for shown in found if shown is not None]

    def _add(self, new: Rendered) -> None:
        with self._lock:
            self._entries.update(new)
            while len(self._entries) > self.max_entries:
                del self._entries[next(iter(self._entries))]


def render_posts(ids: Sequence[int], base_url: str) -> Rendered:
    """Return {state: JSON} of these posts as they are now. `base_url`: of this instance."""
    return {
        queries.state_of_post(row): orjson.Fragment(write_kept(show_post(row, base_url)))
        for row in queries.find_posts(ids).values()
    }
