"""How `app.py run` serves: workers with threads; the background jobs live in the one worker that holds the lock."""
import gc
import logging.config

import config as settings
from web import logs

_config = settings.load()
RESERVE = 400                                                 # threads beyond THREADS: they wait for slow clients and hold streams

logging.config.dictConfig(logs.CONFIG)
bind = f"[{_config.host}]:{_config.port}" if ":" in _config.host else f"{_config.host}:{_config.port}"
workers = _config.web_concurrency
worker_class = "web.worker.Worker"
logger_class = "web.worker.ServerLog"
threads = _config.threads + RESERVE
worker_connections = 2000
keepalive = 30
graceful_timeout = 5
control_socket_disable = True
forwarded_allow_ips = ""                                      # TRUSTED_PROXIES decides, not gunicorn
limit_request_line = 4094
limit_request_fields = 64
limit_request_field_size = 8190


def post_worker_init(worker):
    import jobs
    jobs.start(_config)
    worker.keep_together()
    gc.freeze()                                               # what starting made is never looked through again
    gc.enable()


def worker_exit(server, worker):
    import jobs
    jobs.stop()
