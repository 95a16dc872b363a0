"""Recovery drills, with disposable servers:

    python -m bench drill backups [--rounds 20]   # `app.py backup`, each restored elsewhere
    python -m bench drill failover                # PostgreSQL killed with -9, its standby promoted

Four clients post continuously and resend unacknowledged posts with the same event ID. Exit 1 if an
acknowledged post isn't there exactly once, or `doctor --deep` finds a problem. `failover` needs
Debian's postgresql and this program's extra postgres.
"""

import argparse
import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import apsw

from bench._ports import find_port
from bench._servers import ROOT, SETTINGS, candor

CLIENTS, SECONDS = 4, 5
# The server's programs refuse to run as root.
AS = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
LISTEN = "-h 127.0.0.1 -p {port} -k {folder} -c max_connections=100"
POSTED = """
SELECT b.name || '|' || p.event_id FROM post p JOIN bot b ON b.id = p.bot_id ORDER BY p.id"""


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench drill")
    parser.add_argument("name", choices=DRILLS)
    parser.add_argument("--rounds", type=int, default=20, help="backups")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="candor-drill-") as folder:
        return DRILLS[given.name](Path(folder), given.rounds)


def run(env, *words):
    command = [sys.executable, "app.py", *words]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"app.py {words[0]}: {done.stderr or done.stdout}")
    return done.stdout


# ---- posting -------------------------------------------------------------------------------------
class Poster(threading.Thread):
    """Posts e-0, e-1... until stopped; retries until the status is 200 or 201."""

    def __init__(self, name, key, port):
        super().__init__(daemon=True)
        self.name, self.key, self.port = name, key, port
        self.acknowledged, self.refused, self.longest = 0, 0, 0.0
        self.stopped = threading.Event()

    def run(self):
        last = time.monotonic()
        while not self.stopped.is_set():
            if self.post(f"e-{self.acknowledged}") in (200, 201):
                self.acknowledged += 1
                self.longest = max(self.longest, time.monotonic() - last)
                last = time.monotonic()
            else:
                self.refused += 1
                time.sleep(0.1)

    def post(self, event):
        """Return the response's status, or 0 without a response."""
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        body = json.dumps({"eventId": event, "body": "words"})
        with contextlib.closing(connection):
            try:
                connection.request("POST", "/api/v1/posts", body, headers)
                return connection.getresponse().status
            except (OSError, http.client.HTTPException):
                return 0

    def is_right(self, events, before):
        """Whether these are its first posts without gaps, at least `before` of them. The last one
        may have been stored without a response.
        """
        there = len(events)
        whole = events == [f"e-{n}" for n in range(there)]
        return whole and before <= there <= self.acknowledged + 1


@contextlib.contextmanager
def posting(env):
    """Run Candor with these settings, and clients that post to it."""
    run(env, "migrate")
    made = [run(env, "bot", "create", "--name", f"Client {n}", "--json") for n in range(CLIENTS)]
    keys = [json.loads(text)["publishKey"] for text in made]
    with candor(env["DATA_DIR"], DATABASE_URL=env.get("DATABASE_URL", "")) as server:
        posters = [Poster(f"Client {n}", key, server.port) for n, key in enumerate(keys)]
        for poster in posters:
            poster.start()
        time.sleep(SECONDS)
        yield posters
        for poster in posters:
            poster.stopped.set()
        for poster in posters:
            poster.join(40)


def make_settings(folder, **more):
    data = folder / "data"
    data.mkdir(mode=0o700)
    return {**os.environ, **SETTINGS, "DATA_DIR": str(data), **more}


def sort_posts(lines):
    """Return {client: [event IDs in order of arrival]} from lines of POSTED."""
    found = {}
    for line in lines:
        name, _, event = line.partition("|")
        found.setdefault(name, []).append(event)
    return found


def judge(env, posters, found):
    """Print what happened to the posts; `found`: event IDs by client."""
    wrong = 0
    for one in posters:
        events = found.get(one.name, [])
        is_right = one.acknowledged and one.is_right(events, one.acknowledged)
        wrong += not is_right
        print(
            f"{one.name}: {one.acknowledged} acknowledged, {len(events)} there,"
            f" {one.refused} refused, longest wait {one.longest:.1f} s"
            f"{'' if is_right else ': WRONG'}"
        )
    command = [sys.executable, "app.py", "doctor", "--deep"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    print(f"doctor --deep: exit {done.returncode}")
    if done.returncode:
        print(done.stdout[-2000:])
    return int(bool(wrong or done.returncode))


# ---- backups -------------------------------------------------------------------------------------
def drill_backups(folder, rounds):
    """Check that each backup has every post acknowledged before it started."""
    env = make_settings(folder)
    with posting(env) as posters:
        right = [check_backup(folder, env, posters, number) for number in range(rounds)]
    print(f"{sum(right)} of {rounds} backups restored, each with a prefix of the posts")
    return judge(env, posters, read_posts(folder / "data" / "app.db")) or int(not all(right))


def check_backup(folder, env, posters, number):
    backup, elsewhere = folder / f"backup-{number}.db", folder / f"restored-{number}"
    before, began = [one.acknowledged for one in posters], time.perf_counter()
    run(env, "backup", str(backup))
    seconds = time.perf_counter() - began
    run({**env, "DATA_DIR": str(elsewhere)}, "restore", str(backup))
    found = read_posts(elsewhere / "app.db")
    is_right = all(
        one.is_right(found.get(one.name, []), count)
        for one, count in zip(posters, before, strict=True)
    )
    verdict = "right" if is_right else f"WRONG {before}"
    print(f"backup {number + 1}: {seconds:.2f} s, {verdict}", flush=True)
    return is_right


def read_posts(path):
    with contextlib.closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        return sort_posts(line for (line,) in db.execute(POSTED))


# ---- PostgreSQL ----------------------------------------------------------------------------------
class PostgreSQL:
    """A database server in a folder."""

    def __init__(self, folder, name):
        self.bin = max(Path("/usr/lib/postgresql").glob("*/bin"))
        self.folder, self.data, self.port = folder, folder / name, find_port()

    def call(self, program, *arguments):
        command = [*AS, str(self.bin / program), *arguments]
        subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.DEVNULL)

    def start(self):
        options = LISTEN.format(port=self.port, folder=self.folder)
        log = str(self.folder / f"{self.data.name}.log")
        self.call("pg_ctl", "-D", str(self.data), "-w", "-l", log, "-o", options, "start")

    def ask(self, sql, database="postgres"):
        command = ["psql", "-X", "-A", "-t", "-h", "127.0.0.1", "-p", str(self.port)]
        command += ["-U", "candor", "-d", database, "-c", sql]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    def kill(self):
        os.kill(int((self.data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

    def stop(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            self.call("pg_ctl", "-D", str(self.data), "-m", "immediate", "-w", "stop")


@contextlib.contextmanager
def pair(folder):
    """Start a server and a hot standby that gets every commit before it is acknowledged."""
    shutil.chown(folder, "postgres", "postgres")
    folder.chmod(0o755)
    first, second = PostgreSQL(folder, "first"), PostgreSQL(folder, "second")
    first.call("initdb", "-D", str(first.data), "-U", "candor", "--auth=trust", "--no-sync")
    first.start()
    try:
        source = f"host=127.0.0.1 port={first.port} user=candor"
        second.call("pg_basebackup", "-D", str(second.data), "-R", "-X", "stream", "-d", source)
        second.start()
        first.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        first.ask("SELECT pg_reload_conf()")
        first.ask("CREATE DATABASE candor")
        yield first, second
    finally:
        first.stop()
        second.stop()


def drill_failover(folder, _rounds):
    """Kill the first server while clients post, and promote the second."""
    with pair(folder) as (first, second):
        hosts = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
        url = f"postgresql://candor@{hosts}/candor?target_session_attrs=read-write"
        env = make_settings(folder, DATABASE_URL=url)
        with posting(env) as posters:
            first.kill()
            killed = time.monotonic()
            second.call("pg_ctl", "-D", str(second.data), "-w", "promote")
            print(f"promoted {time.monotonic() - killed:.1f} s after the kill", flush=True)
            time.sleep(SECONDS)
        return judge(env, posters, sort_posts(second.ask(POSTED, "candor")))


DRILLS = {"backups": drill_backups, "failover": drill_failover}
