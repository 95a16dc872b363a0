"""The gunicorn worker: no client holds a thread by sending slowly, reading slowly or saying
nothing.

A connection waits in the poller, at no cost, until a request has come whole; a thread answers it;
then it waits again. Requests that dribble in and clients that do not read are cut off, an address
has so many connections, and what cannot be parsed is refused without a word of it reaching log or
answer.
"""

import errno
import functools
import logging
import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Hashable
from concurrent.futures import Future
from enum import Enum
from typing import Any, Protocol
from wsgiref.types import WSGIEnvironment

from gunicorn.glogging import Logger
from gunicorn.http import errors
from gunicorn.workers.gthread import TConn, ThreadWorker

import config as settings
from ratelimit import network_of
from web.server.admission import make_refusal
from web.server.connections import (
    MAX_CONNECTIONS_OF_ADDRESS,
    Addresses,
    PacedSocket,
    RequestProgress,
    closed,
)

ARRIVAL_SECONDS = 15
# After the last answer a client has this long to hang up, and may have sent this much meanwhile.
LINGER_SECONDS, MAX_LINGER_BYTES = 2.0, 64 * 1024
SWEEP_SECONDS = 1.0
# Where no connection can be closed to make room, new ones are looked for again after this long.
CROWDED_SECONDS = 0.02
# How many are accepted before others are looked after.
MAX_ACCEPTED_AT_ONCE = 64
# How long a thread that computes keeps the interpreter from one that answers (Python's own: 5 ms).
SWITCH_SECONDS = 0.0001
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
STATUS = {
    errors.LimitRequestLine: 414,
    errors.LimitRequestHeaders: 431,
    errors.UnsupportedTransferCoding: 501,
    errors.ExpectationFailed: 417,
}
# What is told of them; of anything else that is no request nothing is known.
DETAILS = {414: "the URL is too long", 431: "there are too many headers, or one is too long"}
log = logging.getLogger("candor")


class Closable(Protocol, Hashable):
    """What can be shut down: a socket."""

    def shutdown(self, how: int, /) -> None:
        """End one or both directions of the connection."""


class Deadlines:
    """Connections whose request has not arrived whole yet; the overdue ones are shut down, which
    ends the read that waits for them.
    """

    def __init__(self, seconds: float = ARRIVAL_SECONDS) -> None:
        self.seconds = seconds
        self._due: dict[Closable, float] = {}

    def begin(self, connection: Closable) -> None:
        """Expect a request on this connection within `seconds`."""
        self._due[connection] = time.monotonic() + self.seconds

    def end(self, connection: Closable) -> None:
        """Expect nothing any more."""
        self._due.pop(connection, None)

    def start(self) -> None:
        """Check once a second from now on, in a thread."""
        threading.Thread(target=self._watch, name="deadlines", daemon=True).start()

    def check(self, now: float) -> int:
        """Shut down what is overdue by time.monotonic(). Return how many."""
        overdue = [connection for connection, due in list(self._due.items()) if due < now]
        for connection in overdue:
            self.end(connection)
            shut_down(connection)
        return len(overdue)

    def _watch(self) -> None:
        while True:
            time.sleep(1)
            self.check(time.monotonic())


deadlines = Deadlines()


def note_arrival(environ: WSGIEnvironment) -> None:
    """End the deadline of a request that is here whole; for web.server.admission."""
    if "gunicorn.socket" in environ:
        deadlines.end(environ["gunicorn.socket"])


class Connection(TConn):
    """A client's connection: it waits in the poller, or a thread works on it. `waits_since` tells
    which, while sending too.
    """

    sock: PacedSocket

    def __init__(self, cfg: Any, sock: PacedSocket, client: Any, server: Any) -> None:
        super().__init__(cfg, sock, client, server)
        self.address = network_of(client[0]) if isinstance(client, tuple) else "local"
        # Of the request that is coming; None between requests.
        self.progress: RequestProgress | None = None
        # By time.monotonic(), while it is in the poller.
        self.polled_since: float | None = None
        # To be closed by the thread that works on it.
        self.is_closing = False
        # Bytes that came after the last answer.
        self.drained = 0

    @property
    def waits_since(self) -> float | None:
        """By time.monotonic(), since when it waits for its client; None while it does not, or is
        being closed already.
        """
        if self.is_closing:
            return None
        return self.polled_since if self.polled_since is not None else self.sock.waits_since


class Outcome(Enum):
    """What a thread says of a connection, beside gunicorn's True (keep it) and False (close it)."""

    INCOMPLETE = "the request has not come whole"


def shorten_turns() -> None:
    """Let a thread that answers have the interpreter within SWITCH_SECONDS, also beside a job that
    computes for a second: an answer waits so long after each of its statements.
    """
    sys.setswitchinterval(SWITCH_SECONDS)


class Worker(ThreadWorker):
    """gunicorn's threaded worker, with patience for many slow clients."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        config = settings.load()
        self.addresses = Addresses[Connection](
            None if config.trusted_proxies else MAX_CONNECTIONS_OF_ADDRESS
        )
        # gunicorn stops accepting at its limit, whoever holds the connections; here the newest find
        # room.
        self.max_connections, self.worker_connections = self.cfg.worker_connections, float("inf")
        # The keys of a dict: in the order in which they began to wait.
        self.waiting: dict[Connection, None] = {}
        self.next_sweep = 0.0

    def init_process(self) -> None:
        """Begin, in the process that was forked."""
        closed.choose_part(self.age)
        deadlines.start()
        super().init_process()

    # ---- connections come ------------------------------------------------------------------------
    def accept(self, listener: socket.socket) -> None:
        """Accept new connections, MAX_ACCEPTED_AT_ONCE at most."""
        for _ in range(MAX_ACCEPTED_AT_ONCE):
            if self.nr_conns >= self.max_connections and not self.make_room():
                time.sleep(CROWDED_SECONDS)
                return
            try:
                client, address = listener.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                if not self.make_room():
                    time.sleep(CROWDED_SECONDS)
                return
            self.open(PacedSocket(fileno=client.detach()), address, listener.getsockname())

    def open(self, client: PacedSocket, address: Any, server: Any) -> None:
        """Begin with a connection, unless its address has too many that are all in use."""
        conn, now = Connection(self.cfg, client, address, server), time.monotonic()
        if not self.addresses.has_room(conn.address) and not self.evict(
            self.addresses.find_idle(conn.address, now)
        ):
            closed.add()
            conn.close()
            return
        self.nr_conns += 1
        self.addresses.add(conn.address, conn)
        self.wait_for_client(conn, now + self.cfg.keepalive)

    def make_room(self) -> bool:
        """Close the connection that waits longest, of the address that has most. Return whether
        there was one.
        """
        return self.evict(self.addresses.find_idle_of_most(time.monotonic()))

    def evict(self, conn: Connection | None) -> bool:
        """Close a connection for another one's sake; at once, or when the thread that sends on it
        wakes. Return whether there was one.
        """
        if conn is None:
            return False
        closed.add()
        if conn in self.waiting:
            self.close_connection(conn)
            return True
        conn.is_closing = True
        shut_down(conn.sock)
        return True

    # ---- they wait -------------------------------------------------------------------------------
    def wait_for_client(self, conn: Connection, until: float) -> None:
        """Leave a connection to the poller until this time.monotonic()."""
        conn.timeout, conn.polled_since = until, time.monotonic()
        conn.sock.setblocking(False)
        self.waiting[conn] = None
        self.poller.register(conn.sock, selectors.EVENT_READ, functools.partial(self.wake, conn))

    def wake(self, conn: Connection, _: object) -> None:
        """Give a connection that has something to read to a thread."""
        self.stop_waiting(conn)
        self.enqueue_req(conn)

    def stop_waiting(self, conn: Connection) -> None:
        """Take a connection out of the poller, if it is there."""
        if conn in self.waiting:
            del self.waiting[conn]
            self.poller.unregister(conn.sock)
        conn.polled_since = None

    def close_connection(self, conn: Connection) -> None:
        """Close a connection at once."""
        self.stop_waiting(conn)
        self.nr_conns -= 1
        self.addresses.remove(conn.address, conn)
        conn.close()

    def linger(self, conn: Connection) -> None:
        """Say that no more comes and wait, for a moment, until the client hangs up: what it sent
        meanwhile would otherwise cost it the end of the answer (RFC 9112 9.6).

        gunicorn waits for that in the thread that accepts: two seconds for each client that stays.
        """
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.close_connection(conn)
            return
        self.wait_for_client(conn, time.monotonic() + LINGER_SECONDS)
        self.poller.modify(conn.sock, selectors.EVENT_READ, functools.partial(self.drain, conn))

    def drain(self, conn: Connection, _: object) -> None:
        """Throw away what a lingering client sends; close once it hangs up or sends too much."""
        try:
            count = len(conn.sock.recv(16 * 1024))
        except OSError:
            count = 0
        conn.drained += count
        if not count or conn.drained > MAX_LINGER_BYTES:
            self.close_connection(conn)

    def murder_keepalived(self, force: bool = False) -> None:
        """Close what has waited long enough for its client; gunicorn calls it often."""
        now = time.monotonic()
        if now < self.next_sweep and not force:
            return
        self.next_sweep = now + SWEEP_SECONDS
        for conn in [conn for conn in self.waiting if force or conn.timeout < now]:
            self.close_connection(conn)

    def murder_pending(self) -> None:
        """Do nothing: gunicorn's list of pending connections stays empty, `waiting` has all."""

    def _cap_keepalive(self, deadline: float) -> None:
        for conn in self.waiting:
            conn.timeout = min(conn.timeout, deadline)

    def finish_request(self, conn: Connection, fs: "Future[bool | Outcome]") -> None:
        """Go on with a connection that a thread is done with: it waits, is answered again, or
        ends.
        """
        try:
            result = False if fs.cancelled() or conn.is_closing else fs.result()
        except Exception as error:
            # A fault of this program: the connection ends, the others go on.
            log.error("failed outside of the application", exc_info=error)
            self.close_connection(conn)
            return
        if result is Outcome.INCOMPLETE and self.alive:
            self.wait_for_client(conn, conn.timeout)
        elif result is True and conn.parser.unreader.buf.getvalue():
            self.enqueue_req(conn)
        elif result is True:
            keepalive = self.cfg.keepalive if self.alive else LINGER_SECONDS
            self.wait_for_client(conn, time.monotonic() + keepalive)
        else:
            self.linger(conn)

    # ---- a thread answers ------------------------------------------------------------------------
    def has_come(self, conn: Connection) -> bool:
        """Tell whether the request has come whole. Reads what is here and waits for nothing;
        errors.LimitRequestHeaders for a head that does not end.
        """
        unreader = conn.parser.unreader
        while True:
            data = unreader.buf.getvalue()
            if data and conn.progress is None:
                conn.progress = RequestProgress(self.wsgi.config["MAX_CONTENT_LENGTH"])
                conn.timeout = time.monotonic() + ARRIVAL_SECONDS
            if data and conn.progress and conn.progress.is_whole(data):
                return True
            if data and conn.progress and conn.progress.is_too_long(data):
                raise errors.LimitRequestHeaders("the head does not end")
            try:
                part = conn.sock.recv(64 * 1024, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self.send_continue(conn)
                return False
            # The client ended it: gunicorn's parser decides what that means.
            if not part:
                return True
            unreader.buf.seek(0, os.SEEK_END)
            unreader.buf.write(part)

    def send_continue(self, conn: Connection) -> None:
        """Ask, once, for a body that is announced and held back until then."""
        progress = conn.progress
        if progress and progress.head and not progress.is_continued and progress.expects_continue():
            progress.is_continued = True
            conn.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    def pin_to_processor(self) -> None:
        """Keep the threads that answer on one processor, where that is allowed; those that began
        before (jobs) stay free.

        Only one of them runs Python at any time. Spread over processors they wake each other at
        every system call, for nothing: a warm list gives 0.46 of a bare Flask's answers instead of
        0.70 (docs/performance.md). The workers of an instance take different processors; the first
        depends on the process number, so two instances may meet on one.
        """
        # Linux has it; a container's or a unit's filter of system calls may refuse it all the same.
        # It is worth speed and nothing else, so nothing stops without it.
        if not hasattr(os, "sched_setaffinity"):
            return
        try:
            allowed = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {allowed[(self.ppid + self.age) % len(allowed)]})
        except OSError as error:
            log.info("not kept on one processor", extra={"shown": {"problem": error.strerror}})

    def handle(self, conn: Connection) -> bool | Outcome:
        """Answer one request of this connection, once it has come whole."""
        try:
            conn.init()
            if not self.has_come(conn):
                return Outcome.INCOMPLETE
        except errors.ParseException as error:
            self.handle_error(None, conn.sock, conn.client, error)
            return False
        except OSError:
            # The client went away.
            return False
        conn.progress = None
        conn.sock.begin_answer()
        deadlines.begin(conn.sock)
        try:
            kept: bool = super().handle(conn)
            return kept
        finally:
            deadlines.end(conn.sock)

    def handle_exit(self, sig: int, frame: object) -> None:
        """Stop gracefully: streams end, requests are answered."""
        self._end_streams()
        super().handle_exit(sig, frame)

    def handle_quit(self, sig: int, frame: object) -> None:
        """Stop at once."""
        self._end_streams()
        super().handle_quit(sig, frame)

    def _end_streams(self) -> None:
        if self.booted:
            self.wsgi.stream_hub.stop()

    def handle_error(self, req: Any, client: PacedSocket, addr: Any, exc: Exception) -> None:
        """Answer what never became a request (gunicorn's own answer and log line repeat what was
        sent).
        """
        if isinstance(exc, errors.ParseException):
            status, code = STATUS.get(type(exc), 400), "bad_request"
            shown = {"problem": type(exc).__name__, "status": status}
            log.warning("malformed request", extra={"shown": shown})
        else:
            status, code = 500, "internal_error"
            log.error("failed outside of the application", exc_info=exc)
        try:
            client.sendall(write_refusal(status, code))
        except OSError:
            # Nobody is there to read it.
            return


def shut_down(connection: Closable) -> None:
    """End a connection under the thread that reads from it or writes to it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It went away by itself.
        return


def write_refusal(status: int, code: str) -> bytes:
    """Write a complete HTTP answer, after which the connection ends."""
    detail = DETAILS.get(status, "this was no request that is understood here")
    refusal = make_refusal(status, code, detail)
    lines = [
        f"HTTP/1.1 {status} {refusal.reason}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in refusal.headers.items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + refusal.body


class ServerLog(Logger):
    """gunicorn's messages as JSON lines. Its access log stays off: the gate logs requests, without
    paths.
    """

    def setup(self, cfg: Any) -> None:
        """Hand gunicorn's messages to the root logger."""
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True

    def access(self, resp: Any, req: Any, environ: WSGIEnvironment, request_time: Any) -> None:
        """Log nothing."""
