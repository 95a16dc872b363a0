"""Killed, locked out, without disk space, with two workers: in the end the ledger is identical,
byte for byte.
"""

import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import ground
import pytest
import sampling
from lookout import Lookout, ledger_of
from node import FakeNode, ReplayNode
from peewee import OperationalError, fn
from service import NOW
from story import address, market
from test_worker import Server

import app
import storage
from accounts import influencers
from chain.reading.receipts import pack_text
from chain.stored.tables import TradeMint
from models import Receipt, Trade, Wallet, WalletSignature
from observing.state import SLICE

WALLETS = [address("ada"), address("eve")]
ROOT = Path(__file__).resolve().parents[2]
KILLED = -signal.SIGKILL


@contextlib.contextmanager
def opened(settings):
    with storage.connect(settings).connection_context():
        yield
    storage.database.close_all()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """(chain, the undisturbed result)"""
    chain = market(5, ("ada", "eve"), 60)
    settings = ground.settings_of(tmp_path_factory.mktemp("quiet"))
    ground.copy_empty(settings)
    with opened(settings):
        return chain, Lookout.begin(settings, FakeNode(chain), wallets=WALLETS).settle().ledger()


class Observation:
    """An empty, closed database, the chain to observe and the undisturbed result."""

    def __init__(self, settings, chain, truth):
        self.settings, self.chain, self.truth = settings, chain, truth

    def open(self):
        return opened(self.settings)

    def begin(self):
        with self.open():
            Lookout.begin(self.settings, wallets=WALLETS)
            ground.shrink()

    def look(self):
        return Lookout(self.settings, FakeNode(self.chain))

    def fork(self, prepare=lambda: None):
        """Start a process that observes until nothing changes; return its ID. It exits with 0 when
        done and 3 after a database error.
        """
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            prepare()
            with self.open():
                self.look().settle()
            code = 0
        except OperationalError:
            code = 3
        finally:
            os._exit(code)

    def run(self, prepare=lambda: None):
        """The exit code of such a process, negative for a fatal signal."""
        return wait_for(self.fork(prepare))

    def check(self):
        with self.open():
            ground.check()
            assert ledger_of(WALLETS) == self.truth


def wait_for(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def observed(settings, quiet):
    ground.copy_empty(settings)
    made = Observation(settings, *quiet)
    made.begin()
    return made


# ---- kill -9 -------------------------------------------------------------------------------------
def test_kills_at_random_moments_lose_nothing(observed, full):
    """SIGKILL after random times, with each new process continuing; some kills only hit the
    startup.
    """
    dice, kills, began = random.Random(11), 0, time.monotonic()
    assert observed.run() == 0
    # Measured on this machine: a fast one finishes before any fixed time.
    span = time.monotonic() - began
    observed.begin()
    while kills < (25 if full else 8):
        pid = observed.fork()
        time.sleep(dice.uniform(0, span / 10))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        code = wait_for(pid)
        if code == 0 and kills >= 5:
            break
        if code == 0:
            # The machine was busier during the measurement, so start over with shorter times.
            span /= 2
            observed.begin()
            continue
        # A process's own error isn't a kill.
        assert code == KILLED
        kills += 1
        with observed.open():
            ground.check()
    assert observed.run() == 0
    observed.check()


def test_kills_between_any_two_writes_lose_nothing(observed):
    """The process ends itself before its nth statement, for increasing n, so that every point
    between two writes is hit once.
    """

    def end_at(count):
        kind = type(storage.database.obj)
        left, real = [count], kind.execute_sql

        def execute(self, sql, params=None):
            left[0] -= not sql.startswith("SELECT")
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(self, sql, params)

        kind.execute_sql = execute

    kills = 0
    while observed.run(lambda: end_at(4 + 3 * kills)) == KILLED:
        kills += 1
    assert kills > 8
    observed.check()


def test_killing_the_command_loses_nothing(tmp_path, history, expected, full):
    """`app.py observe --once` against the replay node, killed, then left to finish: it matches the
    oracle.
    """
    with ReplayNode() as node:
        environ = os.environ | ground.environ(tmp_path / "data") | {"SOLANA_RPC_URLS": node.url}
        environ |= {"RPC_REQUESTS_PER_SECOND": "200", "EXTRA_SWAP_PROGRAMS": history["venue"]}

        def command(*argv):
            out = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
            argv = [sys.executable, "app.py", "observe", "--once", *argv]
            return subprocess.Popen(argv, cwd=ROOT, env=environ, **out)

        wallet = history["wallets"][0]
        settings = ground.settings_of(tmp_path / "data")
        ground.copy_empty(settings)
        with opened(settings):
            influencers.create_bot(settings, "Ada", NOW, wallet)
        for _ in range(3 if full else 1):
            victim = command()
            # It works
            victim.stdout.readline()
            time.sleep(0.2)
            victim.kill()
            victim.communicate()
        told = json.loads(command("--json").communicate()[0])[wallet]
        assert (told["state"], told["receipts"]) == ("complete", 240)
        # Each kill loses at most one slice.
        assert node.stats()["calls"]["getTransaction"] <= 240 + 3 * SLICE
        with opened(settings):
            ground.check()
            results = json.loads(Wallet.get(Wallet.address == wallet).results)
        want = expected[wallet]["results"]
        assert {name: results[name] for name in want} == want


# ---- no lock, no disk ----------------------------------------------------------------------------
def test_a_locked_database_loses_nothing(observed):
    """Another process has the write lock during the run: passes fail, nothing is lost."""
    with observed.open():
        seen, other = observed.look(), storage.make_database(observed.settings)
        ground.wait_no_longer(10)
        for _ in range(6):
            seen.look()
            with other.connection_context():
                other.begin()
                with pytest.raises(OperationalError):
                    seen.look()
                other.rollback()
        other.close_all()
        assert seen.settle().ledger() == observed.truth


@ground.sqlite_only
@pytest.mark.parametrize("pages", sampling.sample([0, 1, 3, 8], 2))
def test_a_full_database_recovers_once_there_is_room(observed, pages):
    """The disk is full after this many pages; once there is room, everything continues."""
    with observed.open():
        seen, execute = observed.look(), storage.database.execute_sql
        most = execute("PRAGMA page_count").fetchone()[0] + pages
        execute(f"PRAGMA max_page_count = {most}")
        for look in (seen.settle, seen.look):
            with pytest.raises(OperationalError):
                look()
        execute("PRAGMA max_page_count = 1000000")
        assert seen.settle().ledger() == observed.truth


@ground.sqlite_only
def test_a_full_disk_recovers_once_there_is_room(observed, full):
    """The same enforced by the operating system, at sizes where the write-ahead log or the file
    reaches the limit: the process fails, but the file stays intact.
    """

    def limit_files(size):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    codes = set()
    for size in range(40_000, 1_500_000, 120_000 if full else 360_000):
        codes.add(observed.run(lambda size=size: limit_files(size)))
        with observed.open():
            ground.check()
    assert 3 in codes and codes <= {0, 3} and observed.run() == 0
    observed.check()


# ---- two workers ---------------------------------------------------------------------------------
def holder_of(path):
    """The process that holds a file's lock according to the kernel, or None."""
    if not path.exists():
        return None
    inode, locks = f":{path.stat().st_ino} ", Path("/proc/locks").read_text().splitlines()
    held = [line.split()[4] for line in locks if inode in line and "->" not in line]
    return int(held[0]) if held else None


@ground.sqlite_only
def test_one_of_two_workers_observes_and_is_replaced(tmp_path):
    """Real gunicorn. The leader is killed with -9 and another process takes the lock."""
    server = Server(tmp_path, WEB_CONCURRENCY="2", OBSERVER_INTERVAL_SECONDS="1")
    try:
        lock = tmp_path / "data" / "jobs.lock"
        ground.until(lambda: holder_of(lock))
        first = holder_of(lock)
        assert first != server.process.pid
        os.kill(first, signal.SIGKILL)
        ground.until(lambda: holder_of(lock) not in (None, first))
        assert server.get("/api/health")[0] == 200
    finally:
        server.stop()


# ---- rebuild -------------------------------------------------------------------------------------
def test_rebuild_changes_nothing_or_restores_edited_rows(observed, monkeypatch, capsys):
    """A receipt that can't be read is reported, and the next poll fetches it again."""

    def rebuild():
        assert app.main(["rebuild", "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert observed.run() == 0
    ground.enter(monkeypatch, observed.settings.data_dir)
    assert rebuild()["changed"] is False
    with observed.open():
        some = list(Trade.select().order_by(Trade.id).limit(3))
        some[0].result, some[0].digest = 10**12, "x"
        some[0].save()
        some[1].delete_instance(recursive=True)
        WalletSignature.update(entry=pack_text("[]")).where(
            WalletSignature.signature == some[2].signature
        ).execute()
        TradeMint.update(side="buy").execute()
        Wallet.update(results="{}", positions="[]", imbalance=5).execute()
        assert ledger_of(WALLETS) != observed.truth
    report = rebuild()
    assert report["changed"] and all(one["sumsChanged"] for one in report["wallets"])
    assert sum(one["entriesChanged"] for one in report["wallets"]) == 1
    assert sum(one["tradesChanged"] for one in report["wallets"]) >= 2
    observed.check()
    assert rebuild()["changed"] is False
    with observed.open():
        signatures = {row.signature for who in WALLETS for row in observed.chain.touching(who)}
        assert Receipt.select().count() == len(signatures)
        first = Receipt.id == Receipt.select(fn.MIN(Receipt.id)).scalar()
        Receipt.update(body=b"?" + Receipt.get(first).body[1:]).where(first).execute()
    assert rebuild()["changed"] is True
    with observed.open():
        assert WalletSignature.select().where(WalletSignature.state == "pending").count() == 1
        assert observed.look().settle().ledger() == observed.truth
