"""How `app.py run` serves: one worker with threads; the background jobs live in the worker that holds the lock."""
import importlib.util

import config as settings

_config = settings.load()
RESERVE = 400                                                 # threads beyond THREADS: they wait for slow clients and hold streams

bind = f"[{_config.host}]:{_config.port}" if ":" in _config.host else f"{_config.host}:{_config.port}"
workers = _config.web_concurrency
worker_class = "gthread"
threads = _config.threads + RESERVE
keepalive = 30
graceful_timeout = 5
control_socket_disable = True
forwarded_allow_ips = ""                                      # TRUSTED_PROXIES decides, not gunicorn
limit_request_line = 4094
limit_request_fields = 64
limit_request_field_size = 8190


def post_worker_init(worker):
    if importlib.util.find_spec("jobs"):
        import jobs
        jobs.start(_config)


def worker_exit(server, worker):
    if importlib.util.find_spec("jobs"):
        import jobs
        jobs.stop()
