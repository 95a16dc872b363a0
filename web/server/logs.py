"""Logs as JSON lines on stderr: one object a line, with the request's id where there is a request.
Secrets are never handed to a logger.
"""

import json
import logging
import threading
import time
from datetime import UTC, datetime
from typing import Any

import orjson

# Nothing here shows where a line was logged from, by which thread or process (Logging HOWTO,
# "Optimization"): finding it out takes as long as writing the line.
logging._srcfile = None  # type: ignore[attr-defined]
logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
escape_all = json.JSONEncoder(ensure_ascii=True, default=str).encode


def encode(line: dict[str, Any]) -> str:
    """One line of ASCII: what somebody sent cannot pretend to be another line of the log."""
    try:
        text = orjson.dumps(line, default=str).decode()
    except TypeError:
        return escape_all(line)
    return text if text.isascii() else escape_all(line)


class JsonLines(logging.Formatter):
    """{"at", "level", "logger", "message", ...what the record carries as `shown`, "trace" for an
    exception}.
    """

    def format(self, record):
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "shown", {}),
        }
        if getattr(record, "repeated", 0):
            line["repeated"] = record.repeated
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return encode(line)


class Repeats(logging.Filter):
    """Errors that come again and again, such as those of a full disk, are counted instead of
    repeated.

    The first is said at once, the next after a minute with how many there were (`repeated`), then
    after two, four and at most sixty minutes. What is told with a request's id is said each time,
    for somebody may look for it.
    """

    FIRST_SECONDS, LAST_SECONDS, MAX_KINDS = 60, 3_600, 200

    def __init__(self, clock=time.monotonic):
        super().__init__()
        self.clock, self._lock, self._kinds = clock, threading.Lock(), {}

    def filter(self, record):
        shown = getattr(record, "shown", {})
        named = "requestId" in shown
        if record.levelno < logging.WARNING or (named and not getattr(record, "often", False)):
            return True
        kind = (
            record.name,
            record.getMessage(),
            shown.get("problem"),
            record.exc_info and record.exc_info[0],
        )
        with self._lock:
            due, pause, missed = self._kinds.pop(kind, (0.0, 0.0, 0))
            now = self.clock()
            said = not pause or now >= due
            if said:
                quiet = now > due + self.LAST_SECONDS
                pause = (
                    self.FIRST_SECONDS if quiet or not pause else min(2 * pause, self.LAST_SECONDS)
                )
                record.repeated, due, missed = missed, now + pause, -1
            self._kinds[kind] = due, pause, missed + 1
            while len(self._kinds) > self.MAX_KINDS:
                self._kinds.pop(next(iter(self._kinds)))
        return said


CONFIG = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"lines": {"()": "web.server.logs.JsonLines"}},
    "filters": {"repeats": {"()": "web.server.logs.Repeats"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "lines", "filters": ["repeats"]}
    },
    "root": {"level": "WARNING", "handlers": ["stderr"]},
    "loggers": {
        "candor": {"level": "INFO"},
        "gunicorn.error": {"level": "INFO", "propagate": True, "handlers": []},
    },
}
