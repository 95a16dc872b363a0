"""Flask, without the work that this application has no use for."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flask import Flask, Response

if TYPE_CHECKING:
    from web.api.stream import Tail
    from web.server.cache import ListCache

UNKEPT = {"Cache-Control": "no-store"}


class Application(Flask):
    """A Flask whose functions are all synchronous, and what its requests share (app.py)."""

    list_cache: "ListCache"
    caller_cache: "ListCache"
    health_cache: "ListCache"
    tail: "Tail"

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        # Flask asks each function at each request whether it is a coroutine: a tenth of its time.
        return func


class JsonResponse(Response):
    """JSON bytes that are complete: no cache may keep them."""

    def __init__(
        self, body: bytes, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        told = [*UNKEPT.items(), *(headers or {}).items()]
        super().__init__(body, status, told, content_type="application/json")

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        # Werkzeug copies and checks all headers again, for a Location and a length that the
        # answer to HEAD alone needs or that stands already.
        if environ["REQUEST_METHOD"] == "HEAD":
            return super().__call__(environ, start_response)
        start_response(self.status, self.headers.to_wsgi_list())
        return self.response
