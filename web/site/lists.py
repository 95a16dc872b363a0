"""Code that pages with lists share: filters and cursors in the URL, and cacheable responses."""

from collections.abc import Callable
from typing import Any

from flask import Response, request, session, url_for

from web.api.paging import Kind, Scope, read_sort_key

# Parameters in the link to older entries.
KEPT_PARAMETERS = (
    *("label", "source", "bot", "token", "mint", "posts", "trades", "tab"),
    *("q", "owner", "post", "kind"),
)


def link_to_older(name: str, cursor: str) -> str:
    """Return this page's URL with only `cursor` and its filters."""
    values: dict[str, Any] = {**(request.view_args or {})}
    values |= {key: text for key, text in request.args.items() if key in KEPT_PARAMETERS}
    return url_for(request.endpoint or "", **{**values, name: cursor})


def answer(response: Response) -> Response:
    """Add an ETag, and respond with 304 if the client already has the content."""
    response.add_etag()
    response.make_conditional(request)
    return response


def respond(
    body: str | bytes, content_type: str, caching: str, headers: dict[str, str] | None = None
) -> Response:
    """Respond with an ETag, or with 304. `caching`: the Cache-Control header."""
    every = {"Cache-Control": caching, **(headers or {})}
    return answer(Response(body, content_type=content_type, headers=every))


def add_etag(response: Response) -> Response:
    """Respond with 304 if the browser already has the page.

    A session's page, and the cookie that renews it, are only for this browser, because some shared
    caches ignore `Vary`.
    """
    response.headers.setdefault("Cache-Control", "private, no-cache" if session else "no-cache")
    if response.status_code == 200:
        answer(response)
    return response


def read_cursor(name: str, scope: Scope, kind: Callable[..., Kind]) -> Kind | None:
    """Return the sort key (NamedTuple `kind`) in the parameter `name`, or None without one."""
    text = request.args.get(name)
    if not text:
        return None
    return read_sort_key(scope, text, kind)
