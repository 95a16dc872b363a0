"""The gunicorn worker: requests that dribble in are cut off, and what cannot be parsed is refused without a word of it reaching log or answer."""
import logging
import secrets
import socket
import threading
import time

import orjson
from gunicorn.glogging import Logger
from gunicorn.http import errors
from gunicorn.workers.gthread import ThreadWorker

from web.gate import SECURITY_HEADERS

ARRIVAL_SECONDS = 15
STATUS = {errors.LimitRequestLine: (414, "URI Too Long"), errors.LimitRequestHeaders: (431, "Request Header Fields Too Large"),
          errors.UnsupportedTransferCoding: (501, "Not Implemented"), errors.ExpectationFailed: (417, "Expectation Failed")}
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

    def handle(self, conn):
        patience.begin(conn.sock)
        try:
            return super().handle(conn)
        finally:
            patience.end(conn.sock)

    def handle_error(self, req, client, addr, exc):
        """Answer what never became a request (gunicorn's own answer and log line repeat what was sent)."""
        if isinstance(exc, errors.ParseException):
            status, reason = STATUS.get(type(exc), (400, "Bad Request"))
            log.warning("malformed request", extra={"shown": {"problem": type(exc).__name__, "status": status}})
        else:
            status, reason = 500, "Internal Server Error"
            log.error("failed outside of the application", exc_info=exc)
        try:
            client.sendall(write_refusal(status, reason))
        except OSError:                                       # nobody is there to read it
            return


def write_refusal(status, reason):
    """A whole HTTP answer: a problem document and the headers every answer carries."""
    request_id = f"req_{secrets.token_hex(12)}"
    shown = orjson.dumps({"type": "/docs/errors#bad_request", "title": reason, "status": status, "detail": "this was no request HTTP/1.1 allows here",
                          "code": "bad_request", "requestId": request_id})
    headers = {"Content-Type": "application/problem+json", "Content-Length": str(len(shown)), "Connection": "close", "X-Request-Id": request_id, **SECURITY_HEADERS}
    return f"HTTP/1.1 {status} {reason}\r\n".encode() + "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode() + b"\r\n" + shown


class ServerLog(Logger):
    """gunicorn's words as JSON lines; its access log stays off, the gate writes one without paths."""

    def setup(self, cfg):
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True

    def access(self, resp, req, environ, request_time):
        return
