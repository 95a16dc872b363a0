"""The gunicorn worker.

One thread, the poller, receives requests and sends buffered output. The others only compute
responses. Only event streams block on their clients.
"""

import contextlib
import functools
import logging
import selectors
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from math import inf

from gunicorn.http.errors import NoMoreData
from gunicorn.workers.gthread import TConn, ThreadWorker

import config as settings
from web.server.connections import MAX_OF_ADDRESS, STALL_SECONDS, Connection
from web.server.errors import write_refusal


class Queue:
    """Connections that wait for a thread, in one queue per address and kind of work."""

    def __init__(self, threads: int, is_proxied: bool) -> None:
        self.most = {"read": threads, "write": threads // 2, "rest": max(1, threads // 8)}
        self.most_of_address = threads if is_proxied else threads * 3 // 4
        # The longest-waiting connections come first.
        self._lines: dict[tuple[str, str], deque[Connection]] = {}
        self._of_address, self._of_work = Counter[str](), Counter[str]()

    def add(self, conn: Connection) -> None:
        reads = conn.request and conn.request.method in ("GET", "HEAD", "OPTIONS")
        conn.work = "rest" if conn.request is None else "read" if reads else "write"
        self._lines.setdefault((conn.address, conn.work), deque()).append(conn)

    def take(self) -> Connection | None:
        """Take the next connection. None until another one is given back."""
        if self._of_work.total() >= self.most["read"]:
            return None
        for (address, work), line in self._lines.items():
            has_room = self._of_work[work] < self.most[work]
            if has_room and self._of_address[address] < self.most_of_address:
                del self._lines[address, work]
                conn = line.popleft()
                if line:
                    self._lines[address, work] = line
                self._of_address[address] += 1
                self._of_work[work] += 1
                return conn
        return None

    def give_back(self, conn: Connection) -> None:
        self._of_work[conn.work] -= 1
        self._of_address[conn.address] -= 1
        self._of_address += Counter()


# From a request's first byte to its last, and from the last response until the client hangs up.
ARRIVAL_SECONDS, LINGER_SECONDS = 15.0, 2.0
# In a faster burst, older connections haven't had time to send anything yet.
MIN_WAIT_SECONDS = 0.5
log = logging.getLogger("candor")
Step = Callable[[Connection], None]


class Worker(ThreadWorker):
    """gunicorn's threaded worker, with all connections in the poller."""

    def init_process(self) -> None:
        is_proxied = settings.load().trusted_proxies > 0
        self.queue = Queue(self.cfg.threads, is_proxied)
        self.most_of_address = inf if is_proxied else MAX_OF_ADDRESS
        self.of_address = Counter[str]()
        # The longest-waiting connections come first.
        self.waiting: dict[Connection, None] = {}
        self.next_sweep = 0.0
        super().init_process()

    def accept(self, listener: socket.socket) -> None:
        try:
            super().accept(listener)
        except OSError:
            log.warning("too many open files: accepting no more than %s connections", self.nr_conns)
            self.worker_connections = max(1, self.nr_conns)

    def enqueue_req(self, conn: TConn) -> None:
        """Start reading from a connection that gunicorn accepted."""
        conn = Connection(conn)
        self.of_address[conn.address] += 1
        self.read_next(conn)
        if self.of_address[conn.address] > self.most_of_address:
            self.crowd_out([one for one in self.waiting if one.address == conn.address])

    def crowd_out(self, waiting: list[Connection]) -> None:
        """Close the longest-waiting connection or, in a burst, the newest."""
        self.wsgi.crowded_out += 1
        has_waited = time.monotonic() - waiting[0].waits_since >= MIN_WAIT_SECONDS
        self.close(waiting[0 if has_waited else -1])

    def wait(self, conn: Connection, events: int, step: Step, seconds: float) -> None:
        """Run `step` each time the client sends (or reads) data, for up to `seconds`."""

        def take_step(_: object) -> None:
            try:
                step(conn)
            except OSError:
                self.close(conn)

        conn.waits_since = time.monotonic()
        conn.timeout = conn.waits_since + seconds
        self.waiting[conn] = None
        self.poller.register(conn.sock, events, take_step)

    def stop_waiting(self, conn: Connection) -> None:
        if conn in self.waiting:
            del self.waiting[conn]
            self.poller.unregister(conn.sock)

    def close(self, conn: Connection) -> None:
        self.stop_waiting(conn)
        self.nr_conns -= 1
        self.of_address[conn.address] -= 1
        self.of_address += Counter()
        conn.sock.close()
        conn.end_answer()

    def murder_keepalived(self, force: bool = False) -> None:
        """Close connections that waited too long. gunicorn calls this after each event."""
        now = time.monotonic()
        if now >= self.next_sweep or force:
            self.next_sweep = now + 1
            for conn in [one for one in self.waiting if force or one.timeout < now]:
                self.close(conn)
        # gunicorn stops accepting connections at its limit, so make room for the next one.
        if self.nr_conns >= self.worker_connections and self.waiting:
            self.crowd_out(list(self.waiting))

    def _cap_keepalive(self, deadline: float) -> None:
        self.wsgi.stream_hub.stop()
        for conn in self.waiting:
            conn.timeout = min(conn.timeout, deadline)

    def read_next(self, conn: Connection) -> None:
        """Wait for a request, which may have arrived together with the previous one."""
        seconds = ARRIVAL_SECONDS if conn.received else self.cfg.keepalive
        self.wait(conn, selectors.EVENT_READ, self.receive, seconds)
        if conn.received:
            self.find_request(conn)

    def receive(self, conn: Connection) -> None:
        part = conn.sock.recv(64 * 1024)
        if not conn.received:
            conn.timeout = time.monotonic() + ARRIVAL_SECONDS
        conn.received += part
        if part:
            self.find_request(conn)
        elif conn.received:
            self.refuse(conn, NoMoreData())
        else:
            self.close(conn)

    def find_request(self, conn: Connection) -> None:
        try:
            if conn.find_request(self.wsgi.config["MAX_CONTENT_LENGTH"]):
                self.stop_waiting(conn)
                self.queue_turn(conn)
        except Exception as error:
            # Not only ParseException: no error may stop the poller, which serves all connections.
            self.refuse(conn, error)

    def refuse(self, conn: Connection, error: Exception) -> None:
        conn.unread += write_refusal(error, self.wsgi.settings.base_url)
        self.go_on(conn, self.linger)

    def queue_turn(self, conn: Connection) -> None:
        self.queue.add(conn)
        self.start_turns()

    def start_turns(self) -> None:
        while (conn := self.queue.take()) is not None:
            self.tpool.submit(self.answer, conn, self.end_turn)

    def answer(self, conn: Connection, then: Callable[[Connection, Step], None]) -> None:
        """Compute a response, or its next part, in a thread. Pass the next step to `then`."""
        next_step = self.close
        try:
            if conn.request is not None:
                conn.begin_answer(self.wsgi)
            if conn.is_stream and then == self.end_turn:
                next_step = self.start_stream
            else:
                next_step = self.end_answer if conn.continue_answer() else self.queue_turn
        except OSError:
            log.debug("client disconnected")
        except Exception as error:
            # Without a next step, the turn would never be given back.
            if conn.response is None or not conn.response.headers_sent:
                next_step = functools.partial(self.refuse, error=error)
            else:
                log.error("a response failed after it had started", exc_info=error)
        self.method_queue.defer(then, conn, next_step)

    def end_turn(self, conn: Connection, next_step: Step) -> None:
        self.queue.give_back(conn)
        self.go_on(conn, next_step)
        self.start_turns()

    def start_stream(self, conn: Connection) -> None:
        """Give a stream its own thread, because it waits for events and for its client."""
        threading.Thread(target=self.answer, args=(conn, self.go_on), daemon=True).start()

    def go_on(self, conn: Connection, next_step: Step) -> None:
        self.stop_waiting(conn)
        if conn.unread and next_step != self.close:
            step = functools.partial(self.send, next_step=next_step)
            self.wait(conn, selectors.EVENT_WRITE, step, STALL_SECONDS)
        else:
            next_step(conn)

    def send(self, conn: Connection, next_step: Step) -> None:
        conn.send_unread()
        if not conn.unread:
            self.go_on(conn, next_step)

    def end_answer(self, conn: Connection) -> None:
        if self.alive and not conn.response.should_close():
            self.read_next(conn)
        else:
            self.linger(conn)

    def linger(self, conn: Connection) -> None:
        """Close our side, and wait for the client to hang up.

        Otherwise data that the client still sends would reset the connection, and it would lose the
        end of the response (RFC 9112 9.6).
        """
        with contextlib.suppress(OSError):
            conn.sock.shutdown(socket.SHUT_WR)
        self.wait(conn, selectors.EVENT_READ, self.drain, LINGER_SECONDS)

    def drain(self, conn: Connection) -> None:
        if not conn.sock.recv(64 * 1024):
            self.close(conn)
