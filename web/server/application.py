"""Flask as this program uses it: one application class, and JSON answers that cost little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import Flask, Response
from flask.globals import app_ctx

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    from config import Config
    from evidence.notes import Signer
    from ratelimit import Allowance
    from web.api.stream import StreamHub
    from web.server.auth import ApiCaller
    from web.server.cache import ListCache
    from web.server.places import Places

NO_STORE = {"Cache-Control": "no-store"}


class Application(Flask):
    """The Flask application, with what its requests share."""

    allowance: Allowance
    # Lists as bytes, feeds with the time of their last change.
    list_cache: ListCache[Any]
    caller_cache: ListCache[ApiCaller | None]
    stream_hub: StreamHub
    # Signs checkpoints and promises of the log.
    log_signer: Signer
    # Of answers that take long.
    places: Places
    # Answers `busy` of this process, by what was in the way.
    busy_answers: Counter[str]
    # Connections this process closed because an address, or the instance, had too many.
    crowded_out = 0

    @property
    def settings(self) -> Config:
        """The settings it was made with."""
        return cast("Config", self.config["CANDOR"])

    @property
    def secret(self) -> str:
        """The key that cursors and cookies are signed with."""
        return cast("str", self.config["SECRET_KEY"])


def find_app() -> Application:
    """Return the application that answers the present request."""
    return cast("Application", app_ctx.app)


class JsonResponse(Response):
    """JSON bytes that are complete; no cache may store them."""

    def __init__(
        self, body: bytes, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        given = [*NO_STORE.items(), *(headers or {}).items()]
        super().__init__(body, status, given, content_type="application/json")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer without copying and checking all headers again, as Werkzeug does for a Location
        and for the length of an answer to HEAD.
        """
        if environ["REQUEST_METHOD"] == "HEAD":
            return super().__call__(environ, start_response)
        start_response(self.status, self.headers.to_wsgi_list())
        return cast("Iterable[bytes]", self.response)


class Prefix:
    """WSGI middleware that tells the application where it stands.

    BASE_URL decides, and no header: a proxy may pass the path on or strip it, with the same result.
    Proxies pass on X-Forwarded-Prefix unless they are told not to, and a stranger could put any
    link on our pages by it.
    """

    def __init__(self, app: WSGIApplication, path: str) -> None:
        self.app, self.path = app, path

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Move the path from PATH_INFO to SCRIPT_NAME, whether or not a proxy passed it on."""
        path = environ["PATH_INFO"]
        if path == self.path or path.startswith(self.path + "/"):
            environ["PATH_INFO"] = path[len(self.path) :] or "/"
        environ["SCRIPT_NAME"] = self.path
        return self.app(environ, start_response)
