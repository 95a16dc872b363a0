"""Servers for the duration of a block, each in its own process on a free loopback port."""

import contextlib
import gzip
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from bench._ports import find_port

ROOT = Path(__file__).resolve().parent.parent
HISTORY = ROOT / "tests" / "data" / "history.json.gz"
VENUE = "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"
SETTINGS = {
    "ALLOWANCE": "100000000/minute",
    "POSTS_PER_MINUTE": "1000000",
    "IP_LIMIT_PER_MINUTE": "100000000",
    "FAILED_AUTH_PER_MINUTE": "100000000",
    "OBSERVER_INTERVAL_SECONDS": "0",
    "SCOUT_INTERVAL_SECONDS": "0",
    "PAPER_INTERVAL_SECONDS": "0",
}
GUNICORN = "import sys; from gunicorn.app.wsgiapp import run; sys.exit(run())"


@dataclass(frozen=True)
class Server:
    port: int
    pid: int
    # From exec to the first response.
    seconds: float

    def read_memory(self):
        """Return the resident memory of the process and its children: [(name, bytes), ...]."""
        return [(str(pid), _read_rss(pid)) for pid in self.list_pids()]

    def read_cpu(self):
        """Return the CPU seconds that it and its children have used."""
        return sum(
            sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
            for pid in self.list_pids()
        ) / os.sysconf("SC_CLK_TCK")

    def list_pids(self):
        children = " ".join(
            path.read_text() for path in Path(f"/proc/{self.pid}/task").glob("*/children")
        )
        return [self.pid, *map(int, children.split())]


def _read_rss(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def serving(command, path, folder=ROOT, **settings):
    """Yield a Server. `command`: a list with PORT in place of its port; `path`: returns 200 once it
    is ready.
    """
    port = find_port()
    began = time.perf_counter()
    process = subprocess.Popen(
        [part.replace("PORT", str(port)) for part in command],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **SETTINGS, "PYTHONPATH": str(ROOT), "PORT": str(port), **settings},
    )
    try:
        _wait(process, port, path)
        yield Server(port, process.pid, time.perf_counter() - began)
    finally:
        process.terminate()
        process.wait()


def _wait(process, port, path):
    """Wait until it responds, up to a minute. Polls every 5 ms, so startup is timed to that
    precision.
    """
    latest = time.monotonic() + 60
    while time.monotonic() < latest:
        if process.poll() is not None:
            raise RuntimeError(f"a server ended with {process.returncode}")
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), timeout=10) as asked,
        ):
            asked.sendall(
                f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
            )
            if asked.recv(16)[9:12] == b"200":
                return
        time.sleep(0.005)
    raise RuntimeError(f"no answer to {path} within a minute")


@contextlib.contextmanager
def calling(answer):
    """Yield the URL of a server in this process for JSON-RPC calls: `answer` takes a body and
    returns the response's, both bytes.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body are sent in one piece.
        wbufsize = -1

        def log_message(self, *_):
            """Nothing is logged."""

        def do_POST(self):
            told = answer(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


# ---- which ---------------------------------------------------------------------------------------
def candor(folder, **settings):
    return serving(
        [sys.executable, "app.py", "run"], "/api/health", DATA_DIR=str(folder), **settings
    )


def bare(app, path, threads, **settings):
    """Run a bare Flask of bench._rivals with the settings of serving.py, from a folder where
    gunicorn doesn't find that file itself.
    """
    return serving(
        [
            *(sys.executable, "-c", GUNICORN, "--bind", "127.0.0.1:PORT"),
            *("--worker-class", "gthread", "--threads", str(threads), "--keep-alive", "30"),
            f"bench._rivals:{app}()",
        ],
        path,
        ROOT / "bench",
        **settings,
    )


def fastapi(rivals, database):
    return serving(
        [
            *(str(rivals / "bin" / "python"), "-m", "uvicorn", "--factory"),
            *("bench._rivals:fastapi_feed", "--port", "PORT", "--loop", "uvloop"),
            *("--http", "httptools", "--no-access-log", "--log-level", "error"),
        ],
        "/feed",
        DATABASE=str(database),
    )


def datasette(rivals, database):
    return serving(
        [
            *(str(rivals / "bin" / "datasette"), "serve", str(database), "--port", "PORT"),
            *("--setting", "num_sql_threads", "2", "--setting", "cache_size_kb", "65536"),
        ],
        "/-/versions.json",
    )


def list_history_wallets():
    return json.loads(gzip.decompress(HISTORY.read_bytes()))["wallets"]
