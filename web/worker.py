"""The gunicorn worker: requests that dribble in are cut off, and what cannot be parsed is refused without a word of it reaching log or answer."""
import logging
import os
import select
import socket
import threading
import time

from gunicorn.glogging import Logger
from gunicorn.http import errors
from gunicorn.workers.gthread import ThreadWorker

from web.admission import show_refusal

ARRIVAL_SECONDS, LINGER_MS = 15, 20
STATUS = {errors.LimitRequestLine: 414, errors.LimitRequestHeaders: 431, errors.UnsupportedTransferCoding: 501, errors.ExpectationFailed: 417}
log = logging.getLogger("candor")


class Patience:
    """Connections whose request has not arrived whole yet; the overdue ones are shut down, which ends the read that waits for them."""

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
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:                                   # it went away by itself
                continue
        return len(overdue)

    def _watch(self):
        while True:
            time.sleep(1)
            self.check(time.monotonic())


patience = Patience()


def arrived(environ):
    """For web.admission: the request of this connection is here whole."""
    patience.end(environ.get("gunicorn.socket"))


class Worker(ThreadWorker):
    def init_process(self):
        patience.start()
        super().init_process()

    def keep_together(self):
        """Keep the threads that answer on one processor, where that is allowed; those that began before (jobs) stay free.

        Only one of them runs Python at any time. Spread over processors they wake each other at every system call, for nothing: half as many answers a second
        (docs/performance.md). The workers of an instance take different processors; the first depends on the process number, so two instances may meet on one.
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
        """Answer what comes over this connection. While there is a thread for each, the next request is waited for here, a moment: it would go to the thread that
        polls, and from there to another one."""
        kept = self.answer(conn)
        while kept is True and self.alive and self.nr_conns < self.cfg.threads and comes(conn.sock):
            kept = self.answer(conn)
        return kept

    def answer(self, conn):
        patience.begin(conn.sock)
        try:
            return super().handle(conn)
        finally:
            patience.end(conn.sock)

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
        """Answer what never became a request (gunicorn's own answer and log line repeat what was sent)."""
        if isinstance(exc, errors.ParseException):
            status, code = STATUS.get(type(exc), 400), "bad_request"
            log.warning("malformed request", extra={"shown": {"problem": type(exc).__name__, "status": status}})
        else:
            status, code = 500, "internal_error"
            log.error("failed outside of the application", exc_info=exc)
        try:
            client.sendall(write_refusal(status, code))
        except OSError:                                       # nobody is there to read it
            return


def comes(connection):
    """Does something come over it within LINGER_MS? (select.select knows 1,024 descriptors only.)"""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(LINGER_MS))


def write_refusal(status, code):
    """A whole HTTP answer; the connection ends with it."""
    reason, headers, body = show_refusal(status, code, "this was no request that is understood here")
    lines = [f"HTTP/1.1 {status} {reason}", "Connection: close", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class ServerLog(Logger):
    """gunicorn's words as JSON lines; its access log stays off, the gate writes one without paths."""

    def setup(self, cfg):
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True

    def access(self, resp, req, environ, request_time):
        return
