"""How `app.py run` serves: workers with threads, one of which holds the lock and runs the jobs."""

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
    """Raise the limit of open files to `wanted` as far as the system allows; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
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
# An idle connection costs a descriptor and no thread. Some descriptors are kept for files, the
# database and the nodes.
worker_connections = max(64, min(4096, raise_descriptors(8192) - 256))
keepalive = 30
graceful_timeout = 5
control_socket_disable = True
# TRUSTED_PROXIES decides which proxies are believed.
forwarded_allow_ips = ""
limit_request_line = 4094
limit_request_fields = 64
limit_request_field_size = 8190


def start_jobs() -> None:
    """Load and start the jobs of this process. Where that fails the server ends, as it does where
    the application cannot be loaded.
    """
    try:
        import jobs
        from web.site import notices

        jobs.start(_config, functools.partial(notices.list_notices, _config.base_url))
    except Exception:
        # Exit on any error: a server without jobs would look healthy.
        logging.getLogger("candor").exception("the jobs can't be started")
        os._exit(Arbiter.WORKER_BOOT_ERROR)


# What the jobs alone need takes a tenth of a start: the first answers do not wait for it.
_starting = threading.Thread(target=start_jobs, name="start", daemon=True)


def post_worker_init(worker: Any) -> None:
    """Start the jobs while the first answers are sent."""
    _starting.start()
    # Of workers that follow, another one serves already.
    if worker.age == 1:
        print(
            f"Candor serves {_config.base_url}. Next: connect a bot at {_config.base_url}/connect"
            " (Ctrl+C stops it).",
            flush=True,
        )


def worker_exit(server: Any, worker: Any) -> None:
    """End the jobs of this process."""
    # Of a worker that could not load the application they were never started.
    if _starting.is_alive():
        _starting.join()
    import jobs

    jobs.stop()
