"""The Flask application class with what its requests share, fast JSON responses, the path prefix,
and headers of every response, including the server's own errors.
"""

from __future__ import annotations

import datetime
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from cachetools import LRUCache
from flask import Flask, Request, Response, request
from flask.globals import app_ctx
from flask.sessions import SecureCookieSession, SecureCookieSessionInterface, SessionMixin
from itsdangerous import BadSignature

from accounts.problem import Problem

if TYPE_CHECKING:
    from config import Config
    from evidence.notes import Signer
    from ratelimit import Allowance

NO_STORE = {"Cache-Control": "no-store"}
CONTENT_POLICY = (
    "default-src 'none'; connect-src 'self'; manifest-src 'self'; script-src 'self'; style-src"
    " 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
# Their responses are public and the same for everyone, so other sites' pages may read them. Never
# add anything that depends on a key or cookie.
SHARED_BLUEPRINTS = frozenset(("legacy", "health", "feeds", "evidence", "log", "share_cards"))
SHARED_ENDPOINTS = ("embeds.show_badge", "guides.show_document")
SHARED_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
}
HTTPS_ONLY = {"Strict-Transport-Security": "max-age=31536000"}


# ---- what requests share -------------------------------------------------------------------------
# Several names share a lock, so a thread may wait for the read of another name.
LOCKS = 64
Value = TypeVar("Value")


@dataclass(frozen=True)
class CacheEntry(Generic[Value]):
    """A value, and its database version. `turn` orders reads and requests of the whole cache."""

    version: object
    turn: int
    value: Value


class ListCache(Generic[Value]):
    """An LRU cache without invalidation: a commit by any process changes the version.

    One thread reads a value for all threads that wait for it.
    """

    def __init__(self, max_entries: int) -> None:
        self._entries: LRUCache[Hashable, CacheEntry[Value]] = LRUCache(max_entries)
        self._lock, self._turns = threading.Lock(), itertools.count()
        self._reading = [threading.Lock() for _ in range(LOCKS)]

    def find(self, name: Hashable, version: object, read: Callable[[], Value]) -> Value:
        """Return the value cached under `name`. Call `read()` if there is none or it is stale.

        Get `version` from the database before reading anything. A thread that waited accepts any
        read that started after its own request, so a burst of requests, each after another commit,
        causes only two reads. If `read` raises, nothing is cached; otherwise callers could fill the
        cache with invalid names. `read` must not use this cache.
        """
        arrived = next(self._turns)
        with self._reading[hash(name) % LOCKS]:
            with self._lock:
                entry = self._entries.get(name)
            if entry is None or (entry.version != version and entry.turn < arrived):
                turn = next(self._turns)
                entry = CacheEntry(version, turn, read())
                with self._lock:
                    self._entries[name] = entry
        return entry.value


# Slots for slow responses, per process.
MAX_PLACES, MAX_PLACES_OF_ADDRESS = 6, 2
PLACE_RETRY_SECONDS = 5


class Places:
    """Slots for slow responses (CSV files and evidence), which could starve other requests."""

    def __init__(self) -> None:
        self._lock, self._held = threading.Lock(), dict[object, str]()

    def take(self, network: str) -> Callable[[], None]:
        """Take a slot, and return a function that releases it. Raises Problem `busy`."""
        place = object()
        with self._lock:
            taken = Counter(self._held.values())
            if taken[network] >= MAX_PLACES_OF_ADDRESS or len(self._held) >= MAX_PLACES:
                raise Problem(
                    "busy",
                    f"at most {MAX_PLACES_OF_ADDRESS} large downloads can run at once per address,"
                    f" and {MAX_PLACES} in all; try again when one finishes",
                    headers={"Retry-After": str(PLACE_RETRY_SECONDS)},
                )
            self._held[place] = network

        def leave() -> None:
            self._held.pop(place, None)

        return leave


# ---- the application -----------------------------------------------------------------------------
# Browsers limit a cookie's lifetime anyway (Chrome: 400 days), regardless of our clock.
NEVER = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)


class Cookies(SecureCookieSessionInterface):
    """Flask's sessions with our own lifetime and cookie name.

    For clients without cookies, such as bots, no signer is created.
    """

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession:
        if "Cookie" not in request.headers:
            return self.session_class()
        value = request.cookies.get(self.get_cookie_name(app), "")
        signer = self.get_signing_serializer(app)
        if signer is None:
            return self.session_class()
        try:
            # Without max_age, the signature's timestamp isn't checked.
            return self.session_class(signer.loads(value))
        except BadSignature:
            return self.session_class()

    def get_expiration_time(self, app: Flask, session: SessionMixin) -> datetime.datetime | None:
        return NEVER if session.permanent else None

    def save_session(self, app: Flask, session: SessionMixin, response: Response) -> None:
        """Set the cookie when the session changes, and on each page, because browsers delete old
        ones.

        It is never set on a response that a cache may share: anyone with the cookie is signed in.
        """
        # Don't compute the cookie's attributes for an unused, empty session.
        if not (session.accessed or session.modified or session):
            return
        if session and _is_shareable(response):
            if session.accessed:
                response.vary.add("Cookie")
            return
        super().save_session(app, session, response)


def _is_shareable(response: Response) -> bool:
    control = response.cache_control
    return "Cache-Control" in response.headers and not (control.private or control.no_store)


class Application(Flask):
    session_interface = Cookies()
    allowance: Allowance
    # Lists as bytes, and feeds with the time of their last change.
    list_cache: ListCache[Any]
    caller_cache: ListCache[Any]
    # A web.api.stream.StreamHub, whose module imports this one.
    stream_hub: Any
    # Signs the log's checkpoints and promises.
    log_signer: Signer
    # Slots for slow responses.
    places: Places
    # This process's `busy` responses, by cause.
    busy_answers: Counter[str]
    # Connections closed because their address, or the instance, had too many.
    crowded_out = 0

    @property
    def settings(self) -> Config:
        return cast("Config", self.config["CANDOR"])

    @property
    def secret(self) -> str:
        """The key that signs cursors and cookies."""
        return cast("str", self.config["SECRET_KEY"])


def find_app() -> Application:
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

    BASE_URL decides the prefix, whether or not a proxy strips it. X-Forwarded-Prefix isn't used:
    proxies forward it by default, so a client could put any link on our pages.
    """

    def __init__(self, app: WSGIApplication, path: str) -> None:
        self.app, self.path = app, path

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == self.path or path.startswith(self.path + "/"):
            environ["PATH_INFO"] = path[len(self.path) :] or "/"
        environ["SCRIPT_NAME"] = self.path
        return self.app(environ, start_response)


class Headers:
    """WSGI middleware that adds headers to every response that doesn't set them itself."""

    def __init__(self, app: WSGIApplication, https: bool) -> None:
        self.app, self.headers = app, {**SECURITY_HEADERS, **(HTTPS_ONLY if https else {})}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return self.app(
            environ,
            lambda status, headers, exc_info=None: start_response(
                status, add_missing(headers, self.headers), exc_info
            ),
        )


def add_missing(
    headers: list[tuple[str, str]], defaults: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return WSGI `headers` plus the missing `defaults`.

    A response with its own Content-Security-Policy also controls framing.
    """
    named = {name for name, _ in headers}
    if "Content-Security-Policy" in named:
        named.add("X-Frame-Options")
    return headers + [pair for pair in defaults.items() if pair[0] not in named]


def share_answer(response: Response) -> Response:
    """Let other sites' pages read shared responses. Flask calls this as after_request."""
    if request.blueprint in SHARED_BLUEPRINTS or request.endpoint in SHARED_ENDPOINTS:
        response.headers.update(SHARED_HEADERS)
    return response
