"""The gunicorn settings of `app.py run`: workers with threads, one of which runs the jobs."""

import functools
import logging.config
import os
import resource
import sys
import threading
from typing import Any

from gunicorn.arbiter import Arbiter

import config as settings
from web.server import logs

_config = settings.load()


def raise_descriptors(wanted: int) -> int:
    """Raise the limit on open files as far as possible. Return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        # The system's own limit is lower: serve with what there is.
        return soft
    return most


logging.config.dictConfig(logs.make_config(_config.log_format, sys.stderr.isatty()))
bind = (
    f"[{_config.host}]:{_config.port}" if ":" in _config.host else f"{_config.host}:{_config.port}"
)
workers = _config.web_concurrency
worker_class = "web.server.worker.Worker"
logger_class = "web.server.logs.ServerLog"
threads = _config.threads
# An idle connection costs a descriptor but no thread. Leave some for files, the database and nodes.
worker_connections = max(64, min(4096, raise_descriptors(8192) - 256))
keepalive = 30
graceful_timeout = 5
control_socket_disable = True
# TRUSTED_PROXIES decides which proxies are trusted.
forwarded_allow_ips = ""
limit_request_line = 4094
limit_request_fields = 64
limit_request_field_size = 8190


def start_jobs() -> None:
    """Load and start this process's jobs. If that fails, the server exits."""
    try:
        import jobs
        from web.site import facts

        jobs.start(_config, functools.partial(facts.list_notices, _config.base_url))
    except Exception:
        # Exit on any error: a server without jobs would look healthy.
        logging.getLogger("candor").exception("the jobs couldn't be started")
        os._exit(Arbiter.WORKER_BOOT_ERROR)


# Imports that only the jobs need are 10% of the startup time. In a thread, they don't delay the
# first responses.
_starting = threading.Thread(target=start_jobs, name="start", daemon=True)


def post_worker_init(worker: Any) -> None:
    _starting.start()
    # Another worker is already serving.
    if worker.age == 1:
        print(
            f"Candor serves {_config.base_url}. Next: connect a bot at {_config.base_url}/connect"
            " (Ctrl+C stops it).",
            flush=True,
        )


def worker_exit(server: Any, worker: Any) -> None:
    # A worker that couldn't load the application never started them.
    if _starting.is_alive():
        _starting.join()
    import jobs

    jobs.stop()
