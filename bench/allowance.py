"""What the allowance costs a request, in a file and in Redis side by side: median and p99 in
microseconds, in the file while the main database is written to.

The budget is the file's own; what flask-limiter adds for the address is shown beside it. Redis is a
server of its own on loopback, where one is installed.
"""

import contextlib
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import apsw

import config
import ratelimit
from app import create_app
from bench._ports import find_port
from storage import counters
from web.server import gate

ROUNDS, OWNERS, BUDGET_US = 5000, 200, 60
ADDRESS = "an address without a key (flask-limiter, the same counters)"


def measure(act):
    """(median, p99) of ROUNDS calls act(n), in microseconds."""
    took = []
    for n in range(ROUNDS):
        began = time.perf_counter()
        act(n)
        took.append((time.perf_counter() - began) * 1e6)
    return statistics.median(took), sorted(took)[ROUNDS * 99 // 100]


def main(arguments):
    with tempfile.TemporaryDirectory() as folder, serving_redis(Path(folder)) as url:
        file = {"DATA_DIR": folder}
        stores = {
            "file": config.load(file, dotenv=None),
            **(
                {"redis": config.load({**file, "RATELIMIT_STORAGE_URL": url}, dotenv=None)}
                if url
                else {}
            ),
        }
        columns = {name: measure_store(settings, Path(folder)) for name, settings in stores.items()}
    print(f"{'microseconds, median and p99':52}" + "".join(f"{name:>18}" for name in columns))
    for row in columns["file"]:
        print(
            f"{row:52}"
            + "".join(f"{column[row][0]:9.1f} {column[row][1]:8.1f}" for column in columns.values())
        )
    return int(
        max(median for row, (median, _) in columns["file"].items() if row != ADDRESS) > BUDGET_US
    )


def measure_store(settings, folder):
    """{what: (median, p99)} of one store."""
    allowance, now = ratelimit.Allowance(counters.open_store(settings)), time.time()
    ask, post = (
        (lambda n: ratelimit.list_limits(settings, n % OWNERS)),
        (lambda n: ratelimit.list_limits(settings, n % OWNERS, posting=True)),
    )
    rows = {
        "to look, without counting": measure(lambda n: allowance.peek(ask(n), now)),
        "a request (3 windows)": measure(lambda n: allowance.charge(ask(n), now)),
        "a request and its address (4 windows)": measure(
            lambda n: allowance.charge(
                [ratelimit.find_address_limit(settings, "192.0.2.1"), *ask(n)], now
            )
        ),
        "a post (4 windows)": measure(lambda n: allowance.charge(post(n), now)),
        "a refused request": measure(
            lambda n: allowance.charge(ratelimit.list_limits(settings, 0), now)
        ),
    }
    with writing_elsewhere(folder / "elsewhere.db"):
        rows["a request during a long write to the main database"] = measure(
            lambda n: allowance.charge(ratelimit.list_limits(settings, 10_000 + n % OWNERS), now)
        )
    allowance.store.close()
    return {**rows, ADDRESS: measure_address(settings)}


def measure_address(settings):
    app = create_app(settings.model_copy(update={"ip_limit_per_minute": 10**8}))
    with app.test_request_context("/api/health", environ_base={"REMOTE_ADDR": "192.0.2.1"}):
        gate.begin()
        rows = measure(lambda n: gate.count_address())
    app.allowance.store.close()
    return rows


@contextlib.contextmanager
def serving_redis(folder):
    """The URL of a Redis for as long as the block lasts; None where none is installed."""
    if not shutil.which("redis-server"):
        print("skipped: redis-server is not installed")
        yield None
        return
    port = find_port()
    server = subprocess.Popen(
        [
            "redis-server",
            "--bind",
            "127.0.0.1",
            "--port",
            str(port),
            "--save",
            "",
            "--dir",
            str(folder),
        ],
        stdout=subprocess.DEVNULL,
    )
    try:
        store = counters.Redis(f"redis://127.0.0.1:{port}")
        while server.poll() is None and counters.find_problem(store, time.time()):
            time.sleep(0.1)
        store.close()
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


class writing_elsewhere:
    """Hold the write lock of another database for as long as the block lasts."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.connection = apsw.Connection(str(self.path))
        self.connection.execute("BEGIN IMMEDIATE; CREATE TABLE t (x)")

    def __exit__(self, *_):
        self.connection.execute("ROLLBACK")
        self.connection.close()
