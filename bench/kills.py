"""Kill `app.py observe --once` with -9 at random moments while it reads from the replay node, then
let it finish. Checks that the ledger equals that of an undisturbed run.

    python -m bench kills [--kills 100] [--seed 1]

Each kill is between half a second before and some time after the process starts to observe. If a
history is done before the kills are, a new one is started.
"""

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import config
import storage

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench kills")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    from corpus import read_history

    history = read_history()
    with tempfile.TemporaryDirectory() as folder:
        return measure(Path(folder), history, given)


def measure(folder, history, given):
    from node import ReplayNode

    dice, kills, rounds, wrong, fetched = random.Random(given.seed), 0, 0, 0, []
    with ReplayNode() as node:
        truth = Instance(folder / "truth", node, history)
        truth.finish()
        told = truth.ledger()
        while kills < given.kills:
            rounds += 1
            one = Instance(folder / f"round{rounds}", node, history)
            node.control()
            done, before = 0, kills
            while kills < given.kills and not done:
                done = one.observe_and_kill(dice)
                kills += not done
                wrong += one.check() != "ok"
            one.finish()
            fetched.append(node.stats()["calls"]["getTransaction"])
            same = one.ledger() == told
            wrong += not same
            print(
                f"round {rounds}: {kills - before} kills,"
                f" {'same ledger' if same else 'OTHER LEDGER'}, {fetched[-1]} getTransaction for"
                " 701 receipts",
                flush=True,
            )
    print(f"{kills} kills in {rounds} rounds, {wrong} not as they should be")
    return int(bool(wrong))


class Instance:
    """A DATA_DIR with the three wallets, and the command line over it."""

    def __init__(self, folder, node, history):
        self.wallets = history["wallets"]
        self.env = {
            **os.environ,
            "DATA_DIR": str(folder),
            "SOLANA_RPC_URLS": node.url,
            "RPC_REQUESTS_PER_SECOND": "100",
            "EXTRA_SWAP_PROGRAMS": history["venue"],
        }
        self.settings = config.load({"DATA_DIR": str(folder)}, dotenv=None)
        self._run("migrate")
        for number, wallet in enumerate(self.wallets):
            self._run("bot", "create", "--name", f"Bot {number}", "--wallet", wallet)

    def _run(self, *argv):
        subprocess.run(
            [sys.executable, "app.py", *argv],
            cwd=ROOT,
            env=self.env,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def observe_and_kill(self, dice):
        """Return whether it finished before the kill."""
        process = subprocess.Popen(
            [sys.executable, "app.py", "observe", "--once"],
            cwd=ROOT,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        with process:
            if dice.random() < 0.9:
                # The first line says that the process has started observing.
                process.stdout.readline()
            time.sleep(dice.uniform(0, 0.6))
            process.kill()
        return process.returncode == 0

    def finish(self):
        self._run("observe", "--once")

    @contextlib.contextmanager
    def _opened(self):
        with storage.connect(self.settings).connection_context():
            yield
        storage.database.close_all()

    def check(self):
        with self._opened():
            return storage.database.execute_sql("PRAGMA integrity_check").fetchone()[0]

    def ledger(self):
        from lookout import ledger_of

        with self._opened():
            return ledger_of(self.wallets)
