"""The Flask application class, fast JSON responses, and the path prefix."""

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
    """The Flask application with its shared state."""

    allowance: Allowance
    # Lists as bytes, and feeds with the time of their last change.
    list_cache: ListCache[Any]
    caller_cache: ListCache[ApiCaller | None]
    stream_hub: StreamHub
    # Signs the log's checkpoints and promises.
    log_signer: Signer
    # Slots for slow responses.
    places: Places
    # The number of this process's `busy` responses, by cause.
    busy_answers: Counter[str]
    # Connections that were closed because their address, or the instance, had too many.
    crowded_out = 0

    @property
    def settings(self) -> Config:
        """The settings this application was created with."""
        return cast("Config", self.config["CANDOR"])

    @property
    def secret(self) -> str:
        """The key that signs cursors and cookies."""
        return cast("str", self.config["SECRET_KEY"])


def find_app() -> Application:
    """Return the application that handles the current request."""
    return cast("Application", app_ctx.app)


class JsonResponse(Response):
    """A complete JSON response that must not be cached."""

    def __init__(
        self, body: bytes, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        given = [*NO_STORE.items(), *(headers or {}).items()]
        super().__init__(body, status, given, content_type="application/json")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Respond without copying and checking all headers again.

        Werkzeug does this for Location, and for the Content-Length of HEAD responses.
        """
        if environ["REQUEST_METHOD"] == "HEAD":
            return super().__call__(environ, start_response)
        start_response(self.status, self.headers.to_wsgi_list())
        return cast("Iterable[bytes]", self.response)


class Prefix:
    """WSGI middleware that tells the application its path prefix.

    BASE_URL decides the prefix, so it doesn't matter whether a proxy passes it on or strips it. A
    header isn't used, because proxies forward X-Forwarded-Prefix by default, so a client could use
    it to put any link on our pages.
    """

    def __init__(self, app: WSGIApplication, path: str) -> None:
        self.app, self.path = app, path

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Move the prefix from PATH_INFO to SCRIPT_NAME, whether or not a proxy passed it on."""
        path = environ["PATH_INFO"]
        if path == self.path or path.startswith(self.path + "/"):
            environ["PATH_INFO"] = path[len(self.path) :] or "/"
        environ["SCRIPT_NAME"] = self.path
        return self.app(environ, start_response)
