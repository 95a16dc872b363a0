"""Flask as this program uses it: one application class, and JSON answers that cost little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from flask import Flask, Response
from flask.globals import app_ctx
from werkzeug.routing import Rule

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    from config import Config
    from evidence.notes import Signer
    from ratelimit import Allowance
    from web.api.stream import StreamHub
    from web.server.auth import ApiCaller
    from web.server.cache import ListCache

NO_STORE = {"Cache-Control": "no-store"}


class LazyRule(Rule):
    """A rule whose addresses are compiled when one is first built, not at the start: two functions
    for each of 120 rules took a tenth of a second, and most are never called.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        compile_now = super()._compile_builder
        compiled: list[Callable[..., tuple[str, str]]] = []

        def build(rule: Rule, /, **values: Any) -> tuple[str, str]:
            if not compiled:
                compiled.append(compile_now(append_unknown))
            return compiled[0](rule, **values)

        return build


class Application(Flask):
    """The Flask application, with what its requests share."""

    url_rule_class = LazyRule
    allowance: Allowance
    list_cache: ListCache[bytes]
    caller_cache: ListCache[ApiCaller | None]
    stream_hub: StreamHub
    # Signs checkpoints and promises of the log.
    log_signer: Signer
    # Answers `busy` of this process, by what was in the way.
    busy_answers: Counter[str]

    @property
    def settings(self) -> Config:
        """The settings it was made with."""
        return cast("Config", self.config["CANDOR"])

    @property
    def secret(self) -> str:
        """The key that cursors and cookies are signed with."""
        return cast("str", self.config["SECRET_KEY"])

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return `func` as it is: no view is a coroutine, and asking took a tenth of Flask's time
        at each request.
        """
        return func


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
