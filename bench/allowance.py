"""What the allowance costs a request: median and p99 in microseconds, and while the main database is being written to.

The budget is the allowance's own; what flask-limiter adds for the address is shown beside it.
"""
import statistics
import tempfile
import time
from pathlib import Path

import apsw

import config
import ratelimit
from app import create_app
from web import gate

ROUNDS, OWNERS, BUDGET_US = 5000, 200, 60


def measure(act):
    """(median, p99) of ROUNDS calls act(n), in microseconds."""
    took = []
    for n in range(ROUNDS):
        began = time.perf_counter()
        act(n)
        took.append((time.perf_counter() - began) * 1e6)
    return statistics.median(took), sorted(took)[ROUNDS * 99 // 100]


def main(arguments):
    settings, now = config.Config(), time.time()
    with tempfile.TemporaryDirectory() as folder:
        allowance = ratelimit.Allowance(Path(folder) / "ratelimit.db")
        rows = {"to look, without counting": measure(lambda n: allowance.look(ratelimit.list_limits(settings, n % OWNERS), now)),
                "a request (3 windows)": measure(lambda n: allowance.take(ratelimit.list_limits(settings, n % OWNERS), now)),
                "a post (4 windows)": measure(lambda n: allowance.take(ratelimit.list_limits(settings, n % OWNERS, posting=True), now)),
                "a refused request": measure(lambda n: allowance.take(ratelimit.list_limits(settings, 0), now))}
        with writing_elsewhere(Path(folder) / "app.db"):
            rows["a request during a long write to the main database"] = measure(lambda n: allowance.take(ratelimit.list_limits(settings, 10_000 + n % OWNERS), now))
        allowance.close()
        dearest = max(median for median, _ in rows.values())
        rows["an address (flask-limiter, the same file)"] = measure_address(Path(folder))
    for name, (median, p99) in rows.items():
        print(f"{name:52} {median:7.1f} us median {p99:8.1f} us p99")
    return int(dearest > BUDGET_US)


def measure_address(folder):
    app = create_app(config.load({"DATA_DIR": str(folder), "IP_LIMIT_PER_MINUTE": "100000000"}, dotenv=None))
    with app.test_request_context("/api/health", environ_base={"REMOTE_ADDR": "192.0.2.1"}):
        gate.begin()

        def ask(n):
            gate.limiter.context.reset()
            gate.limiter._check_request_limit()

        rows = measure(ask)
    app.allowance.close()
    return rows


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
