"""Client connections without threads.

A connection collects bytes until gunicorn's parser finds a complete request. It buffers the part of
a response that its client hasn't read yet.
"""

import contextlib
import io
import time
from collections.abc import Iterable, Iterator
from typing import Any
from wsgiref.types import WSGIApplication

from gunicorn.http import errors, wsgi
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader
from gunicorn.workers.gthread import TConn

from ratelimit import network_of
from storage.trouble import REQUEST_SECONDS

# A client must read something within STALL_SECONDS, and on average this many bytes per second.
STALL_SECONDS, MIN_BYTES_PER_SECOND = 15.0, 4096
MAX_HEAD_BYTES, MAX_REQUEST_BYTES = 32 * 1024, 128 * 1024
# CPU time for parsing one request, which restarts with each piece that arrives. A chunk costs as
# much as a kilobyte of a body with Content-Length.
MAX_PARSE_SECONDS, MAX_CHUNKED_LINES = 0.05, 512
# Maximum per address and worker process. Behind a proxy, all clients share the proxy's address.
MAX_OF_ADDRESS = 256
TURN_BYTES = 256 * 1024


class Incomplete(Exception):
    """The parser needs bytes that haven't arrived yet."""


class BodyTooLarge(errors.ParseException):
    pass


def read_once(data: bytes | bytearray) -> Iterator[bytes]:
    """Yield data to gunicorn's parser. Raises Incomplete if it asks for more."""
    yield bytes(data)
    raise Incomplete


class Connection:
    """A client's connection. Only the poller or one thread uses it at a time, so it needs no lock.

    `waits_since` and `timeout` are in seconds of time.monotonic(), while it waits for its client.
    Queue uses `work`.
    """

    waits_since, timeout, arrived, began = 0.0, 0.0, 0.0, 0.0
    request: Request | None = None
    response: Any = None
    is_stream = is_continued = False
    work, parse_seconds, sent = "", 0.0, 0
    parts: Iterable[bytes] = ()

    def __init__(self, accepted: TConn) -> None:
        self.cfg, self.sock = accepted.cfg, accepted.sock
        self.client, self.server = accepted.client, accepted.server
        self.address = network_of(self.client[0]) if isinstance(self.client, tuple) else "local"
        self.received, self.unread = bytearray(), bytearray()

    def find_request(self, max_body_bytes: int) -> bool:
        """Return whether a complete request arrived. If so, it is taken from the buffer.

        Raises ParseException if it is malformed, too long, or takes too long to parse.
        """
        received, request, began = IterUnreader(read_once(self.received)), None, time.thread_time()
        try:
            request = Request(self.cfg, received, self.client)
            is_chunked = "TRANSFER-ENCODING" in dict(request.headers)
            if is_chunked and self.received.count(b"\r\n") > MAX_CHUNKED_LINES:
                raise errors.ParseException("too many chunks")
            body = request.body.read(max_body_bytes + 1)
        except Incomplete:
            self.parse_seconds += time.thread_time() - began
            self._ask_for_more(request)
            return False
        if len(body) > max_body_bytes:
            raise BodyTooLarge
        self.received = bytearray(received.take_buffered())
        request.body, request._expected_100_continue = io.BytesIO(body), False
        self.request, self.arrived = request, time.monotonic()
        self.parse_seconds, self.is_continued = 0.0, False
        return True

    def _ask_for_more(self, request: Request | None) -> None:
        if self.parse_seconds > MAX_PARSE_SECONDS:
            raise errors.ParseException("too expensive to parse")
        if request is None and len(self.received) > MAX_HEAD_BYTES:
            raise errors.LimitRequestHeaders("the request headers are too long")
        if len(self.received) > MAX_REQUEST_BYTES:
            raise BodyTooLarge
        if request is not None and request._expected_100_continue and not self.is_continued:
            self.is_continued = True
            self.unread += b"HTTP/1.1 100 Continue\r\n\r\n"
            with contextlib.suppress(OSError):
                self.send_unread()

    def begin_answer(self, app: WSGIApplication) -> None:
        request, self.request, self.response = self.request, None, None
        self.began, self.sent = time.monotonic(), 0
        response, environ = wsgi.create(request, self, self.client, self.server, self.cfg)
        environ["candor.deadline"] = self.arrived + REQUEST_SECONDS
        self.response, self.parts = response, app(environ, response.start_response)
        self._rest = iter(self.parts)
        self.is_stream = "text/event-stream" in dict(response.headers).get("Content-Type", "")

    def continue_answer(self) -> bool:
        """Send a whole stream, or TURN_BYTES more. Return whether the response is complete."""
        self.sock.settimeout(STALL_SECONDS if self.is_stream else 0)
        for part in self._rest:
            self.response.write(part)
            while self.is_stream and self.unread:
                self.send_unread()
            if len(self.unread) >= TURN_BYTES:
                self.send_unread()
                return False
        self.response.close()
        self.end_answer()
        self.send_unread()
        return True

    def end_answer(self) -> None:
        parts, self.parts = self.parts, ()
        if close := getattr(parts, "close", None):
            close()

    def sendall(self, data: bytes) -> None:
        """Buffer data to send. gunicorn writes to a connection as if it were a socket."""
        self.unread += data

    def send_unread(self) -> None:
        try:
            count = self.sock.send(self.unread)
        except BlockingIOError:
            return
        del self.unread[:count]
        self.sent += count
        paced = self.began + STALL_SECONDS + self.sent / MIN_BYTES_PER_SECOND
        self.timeout = min(time.monotonic() + STALL_SECONDS, paced)
