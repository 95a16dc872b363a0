"""Logs as JSON lines on stderr: one object a line, with the request's id where there is a request. Secrets are never handed to a logger."""
import json
import logging
from datetime import UTC, datetime

encode = json.JSONEncoder(ensure_ascii=True, default=str).encode


class JsonLines(logging.Formatter):
    """{"at", "level", "logger", "message", ...what the record carries as `shown`, "trace" for an exception}."""

    def format(self, record):
        line = {"at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"), "level": record.levelname.lower(),
                "logger": record.name, "message": record.getMessage(), **getattr(record, "shown", {})}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return encode(line)


CONFIG = {
    "version": 1, "disable_existing_loggers": False,
    "formatters": {"lines": {"()": "web.logs.JsonLines"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
    "root": {"level": "WARNING", "handlers": ["stderr"]},
    "loggers": {"candor": {"level": "INFO"}, "gunicorn.error": {"level": "INFO", "propagate": True, "handlers": []}},
}
