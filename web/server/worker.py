"""The gunicorn worker: no client holds a thread by sending, reading or saying nothing.

A connection waits in the poller, at no cost, until a request has come whole; a thread answers it;
then it waits again. Requests that dribble in and readers that do not read are cut off, an address
has so many connections, and what cannot be parsed is refused without a word of it reaching log or
answer.
"""

import errno
import functools
import logging
import os
import selectors
import socket
import threading
import time

from gunicorn.glogging import Logger
from gunicorn.http import errors
from gunicorn.workers.gthread import TConn, ThreadWorker

import config as settings
from ratelimit import network_of
from web.server.admission import show_refusal
from web.server.connections import Addresses, Arrival, PacedSocket, closed

ARRIVAL_SECONDS = 15
# After our last word a client has so long to hang up, and may have sent so much.
PARTING_SECONDS, PARTING_BYTES = 2.0, 64 * 1024
SWEEP_SECONDS = 1.0
# Where nobody can be asked to make room, who stands in line waits so long for the next look.
CROWDED_SECONDS = 0.02
# How many are accepted before others are looked after.
ACCEPTED_AT_ONCE = 64
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
STATUS = {
    errors.LimitRequestLine: 414,
    errors.LimitRequestHeaders: 431,
    errors.UnsupportedTransferCoding: 501,
    errors.ExpectationFailed: 417,
}
log = logging.getLogger("candor")


class Patience:
    """Connections whose request has not arrived whole yet; the overdue ones are shut down, which
    ends the read that waits for them.
    """

    def __init__(self, seconds=ARRIVAL_SECONDS):
        self.seconds, self._due = seconds, {}

    def begin(self, connection):
        self._due[connection] = time.monotonic() + self.seconds

    def end(self, connection):
        self._due.pop(connection, None)

    def start(self):
        threading.Thread(target=self._watch, name="patience", daemon=True).start()

    def check(self, now):
        """Shut down what is overdue; how many."""
        overdue = [connection for connection, due in list(self._due.items()) if due < now]
        for connection in overdue:
            self.end(connection)
            shut_down(connection)
        return len(overdue)

    def _watch(self):
        while True:
            time.sleep(1)
            self.check(time.monotonic())


patience = Patience()


def arrived(environ):
    """For web.admission: the request of this connection is here whole."""
    patience.end(environ.get("gunicorn.socket"))


class Connection(TConn):
    """One client's. It waits in the poller, or a thread is at it; `waits_since` tells which, while
    sending too.
    """

    def __init__(self, cfg, sock, client, server):
        super().__init__(cfg, sock, client, server)
        self.address = network_of(client[0]) if isinstance(client, tuple) else "local"
        self.arrival, self.polled_since, self.condemned, self.drained = None, None, False, 0

    @property
    def waits_since(self):
        """By time.monotonic(): since when it waits for its client; None while it does not, or is
        being closed already.
        """
        if self.condemned:
            return None
        return self.polled_since if self.polled_since is not None else self.sock.waits_since


# what a thread says of a request that has not come whole
RESTS = object()


class Worker(ThreadWorker):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        given = settings.load()
        self.addresses = Addresses(
            None if given.trusted_proxies else given.max_connections_per_address
        )
        # gunicorn stops accepting at its limit, whoever holds the connections; here the newest find
        # room.
        self.most_connections, self.worker_connections = self.cfg.worker_connections, float("inf")
        self.waiting, self.next_sweep = {}, 0.0

    def init_process(self):
        closed.choose_place(self.age)
        patience.start()
        super().init_process()

    # ---- connections come ------------------------------------------------------------------------
    def accept(self, listener):
        """Take what stands in line, a crowd at a time."""
        for _ in range(ACCEPTED_AT_ONCE):
            if self.nr_conns >= self.most_connections and not self.make_room():
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

    def open(self, client, address, server):
        """Begin with a connection, unless its address has too many that are all in use."""
        conn, now = Connection(self.cfg, client, address, server), time.monotonic()
        if not self.addresses.has_room(conn.address) and not self.dismiss(
            self.addresses.find_idle(conn.address, now)
        ):
            closed.add()
            conn.close()
            return
        self.nr_conns += 1
        self.addresses.add(conn.address, conn)
        self.rest(conn, now + self.cfg.keepalive)

    def make_room(self):
        """Close the connection that waits longest, of the address that has most. Was there one?"""
        return self.dismiss(self.addresses.find_idle_of_most(time.monotonic()))

    def dismiss(self, conn):
        """Close a connection for another one's sake; at once, or when the thread that sends wakes
        of it.
        """
        if conn is None:
            return False
        closed.add()
        if conn in self.waiting:
            self.part(conn)
            return True
        conn.condemned = True
        shut_down(conn.sock)
        return True

    # ---- they wait -------------------------------------------------------------------------------
    def rest(self, conn, until):
        """Leave a connection to the poller, or to a thread where there is something to read
        already.
        """
        conn.timeout, conn.polled_since = until, time.monotonic()
        conn.sock.setblocking(False)
        self.waiting[conn] = None
        self.poller.register(conn.sock, selectors.EVENT_READ, functools.partial(self.wake, conn))

    def wake(self, conn, _):
        self.forget(conn)
        self.enqueue_req(conn)

    def forget(self, conn):
        """It waits no longer."""
        if self.waiting.pop(conn, self) is not self:
            self.poller.unregister(conn.sock)
        conn.polled_since = None

    def part(self, conn):
        """The end of a connection, at once."""
        self.forget(conn)
        self.nr_conns -= 1
        self.addresses.remove(conn.address, conn)
        conn.close()

    def part_gently(self, conn):
        """Say that no more comes and wait, for a moment, until the client hangs up: what it sent
        meanwhile would otherwise cost it the end of the answer (RFC 9112 9.6). gunicorn waits for
        it in the thread that accepts: two seconds for each client that stays.
        """
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.part(conn)
            return
        self.rest(conn, time.monotonic() + PARTING_SECONDS)
        self.poller.modify(conn.sock, selectors.EVENT_READ, functools.partial(self.drain, conn))

    def drain(self, conn, _):
        try:
            count = len(conn.sock.recv(16 * 1024))
        except OSError:
            count = 0
        conn.drained += count
        if not count or conn.drained > PARTING_BYTES:
            self.part(conn)

    def murder_keepalived(self, force=False):
        """Close what has waited long enough for its client."""
        now = time.monotonic()
        if now < self.next_sweep and not force:
            return
        self.next_sweep = now + SWEEP_SECONDS
        for conn in [conn for conn in self.waiting if force or conn.timeout < now]:
            self.part(conn)

    def murder_pending(self):
        """Of those there are none: `waiting` has all."""

    def _cap_keepalive(self, deadline):
        for conn in self.waiting:
            conn.timeout = min(conn.timeout, deadline)

    def finish_request(self, conn, fs):
        """A thread is done with it: it rests, is answered on, or ends."""
        try:
            result = False if fs.cancelled() or conn.condemned else fs.result()
        except Exception as error:
            # a fault of ours: the connection ends, the others go on
            log.error("failed outside of the application", exc_info=error)
            self.part(conn)
            return
        if result is RESTS and self.alive:
            self.rest(conn, conn.timeout)
        elif result is True and conn.parser.unreader.buf.getvalue():
            self.enqueue_req(conn)
        elif result is True:
            self.rest(
                conn, time.monotonic() + (self.cfg.keepalive if self.alive else PARTING_SECONDS)
            )
        else:
            self.part_gently(conn)

    # ---- a thread answers ------------------------------------------------------------------------
    def has_come(self, conn):
        """Has the request come whole? Reads what is here and waits for nothing;
        errors.LimitRequestHeaders for a head that does not end.
        """
        unreader = conn.parser.unreader
        while True:
            data = unreader.buf.getvalue()
            if data and conn.arrival is None:
                conn.arrival, conn.timeout = (
                    Arrival(self.wsgi.config["MAX_CONTENT_LENGTH"]),
                    time.monotonic() + ARRIVAL_SECONDS,
                )
            if data and conn.arrival.is_whole(data):
                return True
            if data and conn.arrival.is_too_long(data):
                raise errors.LimitRequestHeaders("the head does not end")
            try:
                part = conn.sock.recv(64 * 1024, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self.say_continue(conn)
                return False
            # it ended: the parser says as what
            if not part:
                return True
            unreader.buf.seek(0, os.SEEK_END)
            unreader.buf.write(part)

    def say_continue(self, conn):
        """Ask for a body that is announced and held back until we do, once."""
        if (
            conn.arrival
            and conn.arrival.head
            and not conn.arrival.continued
            and conn.arrival.expects_continue()
        ):
            conn.arrival.continued = True
            conn.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    def keep_together(self):
        """Keep the threads that answer on one processor, where that is allowed; those that began
        before (jobs) stay free.

        Only one of them runs Python at any time. Spread over processors they wake each other at
        every system call, for nothing: half as many answers a second (docs/performance.md). The
        workers of an instance take different processors; the first depends on the process number,
        so two instances may meet on one.
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

    def handle(self, conn):
        """Answer one request of this connection, once it has come whole."""
        try:
            conn.init()
            if not self.has_come(conn):
                return RESTS
        except (errors.ParseException, OSError) as error:
            return self.refuse(conn, error)
        conn.arrival = None
        conn.sock.begin_answer()
        patience.begin(conn.sock)
        try:
            return super().handle(conn)
        finally:
            patience.end(conn.sock)

    def refuse(self, conn, error):
        """The end of what never became a request; an OSError is a client's that went away."""
        if not isinstance(error, OSError):
            self.handle_error(None, conn.sock, conn.client, error)
        return False

    def handle_exit(self, sig, frame):
        self._end_streams()
        super().handle_exit(sig, frame)

    def handle_quit(self, sig, frame):
        self._end_streams()
        super().handle_quit(sig, frame)

    def _end_streams(self):
        """They would be waited for."""
        if self.booted:
            self.wsgi.tail.stop()

    def handle_error(self, req, client, addr, exc):
        """Answer what never became a request (gunicorn's own answer and log line repeat what was
        sent).
        """
        if isinstance(exc, errors.ParseException):
            status, code = STATUS.get(type(exc), 400), "bad_request"
            log.warning(
                "malformed request",
                extra={"shown": {"problem": type(exc).__name__, "status": status}},
            )
        else:
            status, code = 500, "internal_error"
            log.error("failed outside of the application", exc_info=exc)
        try:
            client.sendall(write_refusal(status, code))
        except OSError:
            # nobody is there to read it
            return


def shut_down(connection):
    """End a connection under the thread that reads from it or writes to it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        # it went away by itself
        return


def write_refusal(status, code):
    """A whole HTTP answer; the connection ends with it."""
    reason, headers, body = show_refusal(
        status, code, "this was no request that is understood here"
    )
    lines = [
        f"HTTP/1.1 {status} {reason}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class ServerLog(Logger):
    """gunicorn's words as JSON lines; its access log stays off, the gate writes one without
    paths.
    """

    def setup(self, cfg):
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True

    def access(self, resp, req, environ, request_time):
        return
