"""Admission in front of Flask: at most THREADS requests are worked on at once, and none of them
waits for a slow client.
"""

import io
import queue
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import NamedTuple
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import orjson

from ratelimit import network_of
from web.server.headers import HTTPS_ONLY, SECURITY_HEADERS, add_missing

# A semaphore: a queue of tokens. threading's own are written in Python and cost twice as much.
Slots = queue.SimpleQueue[None]
MAX_WAIT_SECONDS, RETRY_SECONDS = 10, 2
# Addresses share these by chance, so that nobody can know whom he shares one with.
ADDRESS_GROUPS = 1024
_documentation = "/docs/errors"


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
        self.slots = make_slots(slots)
        self.group_slots = (
            []
            if shared or slots < 2
            else [make_slots(slots * 3 // 4) for _ in range(ADDRESS_GROUPS)]
        )

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request: read its body, wait for a slot, call the application."""
        try:
            environ["wsgi.input"] = io.BytesIO(
                environ["wsgi.input"].read(self.max_body_bytes + 1) if has_body(environ) else b""
            )
        except OSError:
            # The client went away, or its chunks are malformed.
            refusal = make_refusal(400, "bad_request", "the body did not arrive whole")
            return refuse(start_response, refusal, {"Connection": "close"})
        self.note_arrival(environ)
        taken = self.acquire(str(environ.get("REMOTE_ADDR", "")))
        if not taken:
            refusal = make_refusal(503, "busy", "too many requests are being worked on")
            return refuse(start_response, refusal, {"Retry-After": str(RETRY_SECONDS)})
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
        try:
            for slots in (*self._find_group(address), self.slots):
                slots.get(timeout=max(0, end - time.monotonic()))
                taken.append(slots)
        except queue.Empty:
            release(taken)
            return ()
        return taken

    def _find_group(self, address: str) -> Sequence[Slots]:
        if not self.group_slots:
            return ()
        return (self.group_slots[hash(network_of(address)) % ADDRESS_GROUPS],)


def make_slots(count: int) -> Slots:
    """Make `count` free slots."""
    slots = Slots()
    for _ in range(count):
        slots.put(None)
    return slots


def release(taken: Sequence[Slots]) -> None:
    """Give back what `Admission.acquire` took."""
    for slots in taken:
        slots.put(None)


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
