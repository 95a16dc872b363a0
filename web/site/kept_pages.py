"""Pages that are the same for every reader without a session, kept as bytes."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from flask import Response, g, request, session
from flask.typing import ResponseReturnValue
from werkzeug.http import generate_etag

from storage import database
from web.server.application import find_app


class KeptPage(NamedTuple):
    """A page as it is sent."""

    body: bytes
    status: int
    etag: str


def keep_page(view: Callable[..., ResponseReturnValue]) -> Callable[..., ResponseReturnValue]:
    """Keep what a view shows to whoever has no session until anything is written, and for a second
    at most: ages are told to the second.

    Such a view begins no session itself, so no form may be on its page.
    """

    @functools.wraps(view)
    def answer(**values: Any) -> ResponseReturnValue:
        # Whoever is signed in, or is told of what was just done, has a page of their own.
        if session:
            return view(**values)
        version = database.data_version(), g.now // 1000
        page = find_app().page_cache.find(
            request.full_path, version, lambda: make_page(view(**values))
        )
        response = Response(page.body, page.status, content_type="text/html; charset=utf-8")
        response.set_etag(page.etag)
        return response

    return answer


def make_page(shown: ResponseReturnValue) -> KeptPage:
    """Make the bytes of what a view returned."""
    response = find_app().make_response(shown)
    body = response.get_data()
    return KeptPage(body, response.status_code, generate_etag(body))
