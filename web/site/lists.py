"""Code that pages with lists share: filters and cursors in the URL, and cacheable responses."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from flask import Response, request, session, url_for

from web.api import paging
from web.server.application import find_app

# The parameters to keep in the link to older entries.
KEPT_PARAMETERS = (
    *("label", "source", "bot", "token", "mint", "posts", "trades", "tab"),
    *("q", "owner", "post", "kind"),
)
# The list and its filters. A cursor works only in its own list.
Scope = tuple[str | None, ...]
Row = TypeVar("Row")


class ListPage(NamedTuple, Generic[Row]):
    """A page of a list. `cursor` is the position of older entries, or None if there aren't any."""

    rows: Sequence[Row]
    cursor: str | None


def link_to_older(name: str, cursor: str) -> str:
    """Return this page's URL with only `cursor` and its filters."""
    values: dict[str, Any] = {**(request.view_args or {})}
    values |= {key: text for key, text in request.args.items() if key in KEPT_PARAMETERS}
    return url_for(request.endpoint or "", **{**values, name: cursor})


def add_etag(response: Response) -> Response:
    """Respond with 304 if the browser already has the page.

    A page for a session, and the cookie that renews it, are only for this browser, because some
    shared caches ignore `Vary`.
    """
    response.headers.setdefault("Cache-Control", "private, no-cache" if session else "no-cache")
    if response.status_code == 200:
        response.add_etag()
        response.make_conditional(request)
    return response


def read_cursor(name: str, scope: Scope, kind: Callable[..., paging.Kind]) -> paging.Kind | None:
    """Return the position (NamedTuple `kind`) in the parameter `name`, or None without one."""
    text = request.args.get(name)
    if not text:
        return None
    return paging.read_position(find_app().secret, scope, text, kind)


def cut_page(
    rows: Sequence[Row], limit: int, scope: Scope, find_position: Callable[[Row], paging.Position]
) -> ListPage[Row]:
    shown, more = paging.cut_page(rows, limit)
    if not more:
        return ListPage(shown, None)
    position = find_position(shown[-1])
    return ListPage(shown, paging.write_cursor(find_app().secret, scope, position))
