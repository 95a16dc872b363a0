"""In front of Flask: at most THREADS requests are worked on at once, and none of them waits for a
slow client.
"""

import io
import queue
import secrets
import time
from http import HTTPStatus

import orjson

from ratelimit import network_of
from web.server.headers import HTTPS_ONLY, SECURITY_HEADERS, add_missing

docs = "/docs/errors"
PLACE_SECONDS, BUSY_SECONDS = 10, 2
# Addresses share so many queues by chance: which ones meet nobody can know.
QUEUES = 1024


class Admission:
    """WSGI middleware over `app` with so many places; who finds none within ten seconds hears 503.

    One address has three quarters of them at most, so that others need not wait behind all it
    asked; not where `shared`, for then all come from a proxy.

    The body is read before a place is taken, up to one byte more than is allowed (the application
    then says so). What the application streams after it has answered holds no place.
    `arrived(environ)` is told when the request is here whole. Every answer gets the headers that
    all answers carry here, once for Flask and whoever answers in front of it, unless it brought its
    own.
    """

    def __init__(self, app, places, longest_body, arrived, https, shared=False):
        self.constant = {**SECURITY_HEADERS, **(HTTPS_ONLY if https else {})}
        self.app, self.longest_body, self.arrived = app, longest_body, arrived
        self.places = make_places(places)
        self.shares = (
            None if shared or places < 2 else [make_places(places * 3 // 4) for _ in range(QUEUES)]
        )

    def __call__(self, environ, start_response):
        try:
            environ["wsgi.input"] = io.BytesIO(
                environ["wsgi.input"].read(self.longest_body + 1) if has_body(environ) else b""
            )
        except OSError:
            # the client went away, or its chunks are malformed
            return refuse(
                start_response,
                400,
                "bad_request",
                "the body did not arrive whole",
                {"Connection": "close"},
            )
        self.arrived(environ)
        taken = self.take_place(environ.get("REMOTE_ADDR"))
        if not taken:
            return refuse(
                start_response,
                503,
                "busy",
                "too many requests are being worked on",
                {"Retry-After": str(BUSY_SECONDS)},
            )
        try:
            return self.app(
                environ,
                lambda status, headers, problem=None: start_response(
                    status, add_missing(headers, self.constant), problem
                ),
            )
        finally:
            for queued in taken:
                queued.put(None)

    def take_place(self, address):
        """The queues a place was taken from, to be given back; () where none was free in time."""
        share = self.shares and self.shares[hash(network_of(address)) % QUEUES]
        end, taken = time.monotonic() + PLACE_SECONDS, []
        try:
            for wanted in filter(None, (share, self.places)):
                wanted.get(timeout=max(0, end - time.monotonic()))
                taken.append(wanted)
        except queue.Empty:
            for given in taken:
                given.put(None)
            return ()
        return taken


def make_places(count):
    """A queue of so many tokens; unlike threading's semaphores it is written in C, and half of what
    they cost was theirs.
    """
    places = queue.SimpleQueue()
    for _ in range(count):
        places.put(None)
    return places


def has_body(environ):
    return environ.get("CONTENT_LENGTH", "0") not in ("", "0") or environ.get(
        "wsgi.input_terminated", False
    )


def refuse(start_response, status, code, detail, headers):
    reason, shown, body = show_refusal(status, code, detail)
    start_response(f"{status} {reason}", list({**shown, **headers}.items()))
    return [body]


def serve_below(path: str) -> None:
    """Refusals explain themselves below the path of BASE_URL; the server makes some without an
    application.
    """
    global docs
    docs = f"{path}/docs/errors"


def show_refusal(status, code, detail):
    """(reason, headers, body) of a problem document for a request the application never sees."""
    reason, request_id = HTTPStatus(status).phrase, f"req_{secrets.token_hex(12)}"
    body = orjson.dumps(
        {
            "type": f"{docs}#{code}",
            "title": reason,
            "status": status,
            "detail": detail,
            "code": code,
            "requestId": request_id,
        }
    )
    return (
        reason,
        {
            "Content-Type": "application/problem+json",
            "Content-Length": str(len(body)),
            "X-Request-Id": request_id,
            **SECURITY_HEADERS,
        },
        body,
    )
