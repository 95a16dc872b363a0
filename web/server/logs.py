"""Log to stderr: JSON lines or, on a terminal, plain text.

Lines have the request ID if there is one. Secrets are never passed to a logger.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from gunicorn.glogging import Logger
from pythonjsonlogger.core import LogData
from pythonjsonlogger.json import JsonFormatter

# Don't record the caller, thread or process (Logging HOWTO, "Optimization"): finding them takes as
# long as writing the line.
logging._srcfile = None
logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
escape_all = json.JSONEncoder(default=str).encode


class JsonLines(JsonFormatter):
    """Writes {"at", "level", "logger", "message"}, then the record's `shown`, "repeated" (see
    Repeats), and "trace" for an exception.

    Lines are ASCII, so text from a request can't fake another line. Other attributes are dropped,
    because a library may put a secret there.
    """

    def __init__(self) -> None:
        write = partial(json.dumps, separators=(",", ":"))
        super().__init__(json_default=str, json_serializer=write)

    def add_fields(
        self, log_data: LogData, record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        at = datetime.fromtimestamp(record.created, UTC)
        log_data["at"] = at.isoformat(timespec="milliseconds")
        log_data["level"] = record.levelname.lower()
        log_data["logger"] = record.name
        log_data["message"] = record.getMessage()
        log_data |= getattr(record, "shown", {})
        if getattr(record, "repeated", 0):
            log_data["repeated"] = record.repeated  # type: ignore[attr-defined]
        if "exc_info" in message_dict:
            log_data["trace"] = message_dict["exc_info"]


class PlainLines(JsonLines):
    """Writes `14:03:09 warning: message name=value ...`, then an exception's trace."""

    def jsonify_log_record(self, log_data: LogData) -> str:
        at, level, _, message, trace = (
            log_data.pop(name, "") for name in ("at", "level", "logger", "message", "trace")
        )
        shown = "".join(f" {name}={escape_all(value)}" for name, value in log_data.items())
        grade = "" if level == "info" else f"{level}: "
        text = f"{at[11:19]} {grade}{escape_all(message)[1:-1]}{shown}"
        return f"{text}\n{trace}" if trace else text


class Repetition(NamedTuple):
    """A message's next write, the pause until then, and how many were dropped since."""

    due: float = 0.0
    pause_seconds: float = 0.0
    missed: int = 0


class Repeats(logging.Filter):
    """A filter that throttles recurring errors, such as those of a full disk.

    The first is written immediately, and the next after a minute, with the number of dropped ones
    (`repeated`). The pause doubles up to sixty minutes. Records with a request ID are always
    written, because someone may look for them.
    """

    FIRST_SECONDS, LAST_SECONDS, MAX_KINDS = 60, 3_600, 200

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.clock, self._lock = clock, threading.Lock()
        self._kinds: dict[Hashable, Repetition] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        shown = getattr(record, "shown", {})
        named = "requestId" in shown
        if record.levelno < logging.WARNING or (named and not getattr(record, "often", False)):
            return True
        error_type = record.exc_info and record.exc_info[0]
        kind = record.name, record.getMessage(), shown.get("problem"), error_type
        with self._lock:
            # Insert it again, so that the least recent kinds come first and are dropped first.
            before = self._kinds.pop(kind, Repetition())
            after = self._count(before, self.clock())
            self._kinds[kind] = after
            while len(self._kinds) > self.MAX_KINDS:
                self._kinds.pop(next(iter(self._kinds)))
        if after.missed:
            return False
        record.repeated = before.missed
        return True

    def _count(self, before: Repetition, now: float) -> Repetition:
        """Return the state after one more. If it should be written, `missed` is 0."""
        if before.pause_seconds and now < before.due:
            return before._replace(missed=before.missed + 1)
        silent = not before.pause_seconds or now > before.due + self.LAST_SECONDS
        pause = self.FIRST_SECONDS if silent else min(2 * before.pause_seconds, self.LAST_SECONDS)
        return Repetition(now + pause, pause, 0)


CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {"()": "web.server.logs.JsonLines"},
        "plain": {"()": "web.server.logs.PlainLines"},
    },
    "filters": {"repeats": {"()": "web.server.logs.Repeats"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "json", "filters": ["repeats"]}
    },
    "root": {"level": "WARNING", "handlers": ["stderr"]},
    "loggers": {
        "candor": {"level": "INFO"},
        "gunicorn.error": {"level": "INFO", "propagate": True, "handlers": []},
    },
}


def make_config(log_format: str, is_terminal: bool) -> dict[str, Any]:
    """Return the configuration for logging.config. `log_format`: json, plain, or "" to decide."""
    chosen = log_format or ("plain" if is_terminal else "json")
    handlers = {"stderr": {**CONFIG["handlers"]["stderr"], "formatter": chosen}}
    return {**CONFIG, "handlers": handlers}


class ServerLog(Logger):
    """Sends gunicorn's messages to the root logger.

    gunicorn's access log stays off, because the gate logs requests, without paths.
    """

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True

    def access(self, resp: Any, req: Any, environ: Any, request_time: Any) -> None:
        pass
