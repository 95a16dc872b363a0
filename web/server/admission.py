"""Admission in front of Flask: at most THREADS requests are worked on at once, and none of them
waits for a slow client.
"""

import io
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import NamedTuple
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import orjson

from ratelimit import network_of
from web.server.headers import HTTPS_ONLY, SECURITY_HEADERS, add_missing

MAX_WAIT_SECONDS, RETRY_SECONDS = 10, 2
# Addresses share these by chance, so that nobody can know who shares theirs.
ADDRESS_GROUPS = 1024
_documentation = "/docs/errors"
PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title} · Candor</title></head>
<body><main><h1>{title}</h1>
<p>Nothing was done: {detail}. Try again in a few seconds.</p>
<p>Request {requestId}: quote this ID to whoever runs this site.
<a href="{errors}">About this error</a></p></main></body>
</html>
"""


class Slots:
    """Slots, given in the order in which they are asked for. With threading.Semaphore or
    queue.SimpleQueue threads that come later may overtake a waiting one again and again.
    """

    # To save memory: there are ADDRESS_GROUPS of these.
    __slots__ = ("_lock", "_waiting", "free")

    def __init__(self, count: int) -> None:
        self.free, self._lock = count, threading.Lock()
        # a lock for each waiting thread, released when its turn comes
        self._waiting: list[threading.Lock] = []

    def take(self, seconds: float) -> bool:
        """Take a slot; False where none was free within `seconds`."""
        with self._lock:
            if self.free:
                self.free -= 1
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        if turn.acquire(timeout=seconds):
            return True
        with self._lock:
            if turn not in self._waiting:
                # A slot was handed over just now.
                return True
            self._waiting.remove(turn)
        return False

    def give(self) -> None:
        """Hand a slot to the thread that has waited longest, or free it."""
        with self._lock:
            if self._waiting:
                self._waiting.pop(0).release()
            else:
                self.free += 1


class Admission:
    """WSGI middleware that lets `slots` requests into `app` at once and answers 503 to one that has
    waited ten seconds.

    One address gets three quarters of the slots at most, so that others need not wait behind all it
    asked; not where `shared`, for then all come from a proxy.

    The body is read before a slot is taken, up to one byte more than `max_body_bytes` (the
    application then refuses it). What the application streams after it has answered holds no slot.
    `note_arrival(environ)` is called when the request is here whole. Every answer gets the headers
    that all answers carry, unless it brings its own.
    """

    def __init__(
        self,
        app: WSGIApplication,
        slots: int,
        max_body_bytes: int,
        note_arrival: Callable[[WSGIEnvironment], None],
        https: bool,
        shared: bool = False,
    ) -> None:
        self.headers = {**SECURITY_HEADERS, **(HTTPS_ONLY if https else {})}
        self.app, self.max_body_bytes, self.note_arrival = app, max_body_bytes, note_arrival
        self.slots = Slots(slots)
        self.group_slots = (
            [] if shared or slots < 2 else [Slots(slots * 3 // 4) for _ in range(ADDRESS_GROUPS)]
        )

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request: read its body, wait for a slot, call the application."""
        try:
            body = environ["wsgi.input"].read(self.max_body_bytes + 1) if has_body(environ) else b""
            if "HTTP_TRANSFER_ENCODING" in environ:
                # Read whole: its length is known now, and Werkzeug refuses what is too long.
                del environ["HTTP_TRANSFER_ENCODING"]
                environ["CONTENT_LENGTH"] = str(len(body))
            elif len(body) < min(int(environ.get("CONTENT_LENGTH") or 0), self.max_body_bytes + 1):
                raise OSError("cut short")
            environ["wsgi.input"] = io.BytesIO(body)
        except OSError:
            # The client went away, or its chunks are malformed.
            refusal = make_refusal(400, "bad_request", "the body did not arrive whole")
            return refuse(start_response, show_to(environ, refusal), {"Connection": "close"})
        self.note_arrival(environ)
        taken = self.acquire(str(environ.get("REMOTE_ADDR", "")))
        if not taken:
            refusal = make_refusal(503, "busy", "too many requests are being worked on")
            return refuse(
                start_response,
                show_to(environ, refusal),
                {"Retry-After": str(RETRY_SECONDS)},
            )
        try:
            return self.app(environ, self._add_headers(start_response))
        finally:
            release(taken)

    def _add_headers(self, start_response: StartResponse) -> StartResponse:
        return lambda status, headers, exc_info=None: start_response(
            status, add_missing(headers, self.headers), exc_info
        )

    def acquire(self, address: str) -> Sequence[Slots]:
        """Take a slot for a request of this address. Return what to `release`; nothing where none
        was free in time.
        """
        end = time.monotonic() + MAX_WAIT_SECONDS
        taken: list[Slots] = []
        for slots in (*self._find_group(address), self.slots):
            if not slots.take(max(0, end - time.monotonic())):
                release(taken)
                return ()
            taken.append(slots)
        return taken

    def _find_group(self, address: str) -> Sequence[Slots]:
        if not self.group_slots:
            return ()
        return (self.group_slots[hash(network_of(address)) % ADDRESS_GROUPS],)


def release(taken: Sequence[Slots]) -> None:
    """Give back what `Admission.acquire` took."""
    for slots in taken:
        slots.give()


def has_body(environ: WSGIEnvironment) -> bool:
    """Tell whether a request announces a body."""
    return environ.get("CONTENT_LENGTH", "0") not in ("", "0") or bool(
        environ.get("wsgi.input_terminated", False)
    )


class Refusal(NamedTuple):
    """A complete answer to a request that the application never sees."""

    status: int
    reason: str
    headers: dict[str, str]
    body: bytes


def refuse(start_response: StartResponse, refusal: Refusal, headers: dict[str, str]) -> list[bytes]:
    """Answer a refusal, with these headers beside its own."""
    given = list({**refusal.headers, **headers}.items())
    start_response(f"{refusal.status} {refusal.reason}", given)
    return [refusal.body]


def show_to(environ: WSGIEnvironment, refusal: Refusal) -> Refusal:
    """Return a refusal as a page, where a browser asks; else as it is. The templates belong to the
    application, which has no time now.
    """
    if "text/html" not in environ.get("HTTP_ACCEPT", ""):
        return refusal
    problem = orjson.loads(refusal.body)
    body = PAGE.format(**problem, errors=problem["type"]).encode()
    headers = {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(body))}
    return refusal._replace(headers={**refusal.headers, **headers}, body=body)


def document_errors_below(path: str) -> None:
    """Name the path of BASE_URL below which /docs/errors is found: the server refuses some requests
    without the application, which knows it.
    """
    global _documentation
    _documentation = f"{path}/docs/errors"


def make_refusal(status: int, code: str, detail: str) -> Refusal:
    """Make a problem document and the headers that belong to it."""
    reason, request_id = HTTPStatus(status).phrase, f"req_{secrets.token_hex(12)}"
    body = orjson.dumps(
        {
            "type": f"{_documentation}#{code}",
            "title": reason,
            "status": status,
            "detail": detail,
            "code": code,
            "requestId": request_id,
        }
    )
    headers = {
        "Content-Type": "application/problem+json",
        "Content-Length": str(len(body)),
        "X-Request-Id": request_id,
        **SECURITY_HEADERS,
    }
    return Refusal(status, reason, headers, body)
