"""Whom a server has to do with in a day (bench.day): a bot that posts, followers, readers, whoever
its hooks tell, and the nightly backup. Each is a thread of its own; seconds are the clock's.
"""

import contextlib
import http.client
import http.server
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
POST_SECONDS, READ_SECONDS, RUSH_SECONDS, BACKUP_SECONDS = 10, 15, 3600, 6 * 3600
# How many come at once: as many as a server has threads.
RUSH = 8
# How long a follower stays that comes and goes, and how long it is away.
STAYS_SECONDS, AWAY_SECONDS = 900, 60
# Machine's seconds: nothing is sent on a stream for a shorter time than that.
SILENCE_SECONDS = 60
# One in so many deliveries is refused by the receiver that stumbles.
STUMBLES = 20
PAGES = ("/", "/feed.atom", "/traders", "/api/v1/bots", "/api/v1/trades", "/api/v1/leaderboard")


class Actor(threading.Thread):
    """Does `act` again and again until it is stopped. What went wrong is counted by its name."""

    def __init__(self, clock, port):
        super().__init__(daemon=True)
        self.clock, self.port, self.troubles = clock, port, {}
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.is_set():
            try:
                self.act()
            except (OSError, http.client.HTTPException) as error:
                self.note(type(error).__name__)
                self.rest(1)

    def rest(self, seconds):
        self.stopping.wait(seconds / self.clock.rate)

    def note(self, trouble):
        self.troubles[trouble] = self.troubles.get(trouble, 0) + 1

    def ask(self, method, path, key=None, body=None):
        """The status of an answer that was read to its end."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SILENCE_SECONDS)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if body:
            headers["Content-Type"] = "application/json"
        with contextlib.closing(connection):
            connection.request(method, path, body and json.dumps(body), headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status


class Poster(Actor):
    """Posts "day 0", "day 1"..., the same again until it is acknowledged."""

    def __init__(self, clock, port, key):
        super().__init__(clock, port)
        self.key, self.acknowledged, self.due = key, 0, clock.time()

    def act(self):
        body = {"eventId": f"day {self.acknowledged}", "body": "One more of a long day."}
        status = self.ask("POST", "/api/v1/posts", self.key, body)
        if status not in (200, 201):
            self.note(status)
            return self.rest(5)
        self.acknowledged += 1
        self.due += POST_SECONDS
        return self.rest(max(0, self.due - self.clock.time()))


class Reader(Actor):
    """Reads a page and an address of the API in turns."""

    def __init__(self, clock, port, key):
        super().__init__(clock, port)
        self.key, self.count = key, 0

    def act(self):
        path = PAGES[self.count % len(PAGES)]
        status = self.read(path)
        if status != 200:
            self.note(f"{path} {status}")
        self.count += 1
        self.rest(READ_SECONDS)

    def read(self, path):
        return self.ask("GET", path, self.key if path.startswith("/api/v1") else None)


class Rush(Reader):
    """Reads all pages, each eight times at once: without a key, whose allowance for a day the
    others need.
    """

    def act(self):
        with ThreadPoolExecutor(RUSH) as many:
            for path in (one for one in PAGES if not one.startswith("/api/")):
                for status in many.map(self.read, [path] * RUSH):
                    if status != 200:
                        self.note(f"{path} {status}")
        self.rest(RUSH_SECONDS)


class Follower(Actor):
    """Holds a stream open; one that comes and goes says where it stopped when it is back."""

    def __init__(self, clock, port, key, stays=None):
        super().__init__(clock, port)
        self.key, self.stays, self.last, self.got = key, stays, None, []

    def act(self):
        until = self.stays and self.clock.time() + self.stays
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SILENCE_SECONDS)
        headers = {"Authorization": f"Bearer {self.key}"}
        if self.last:
            headers["Last-Event-ID"] = self.last
        with contextlib.closing(connection):
            connection.request("GET", "/api/v1/stream", headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                self.note(answer.status)
                return self.rest(5)
            self.listen(answer, until)
        return self.rest(AWAY_SECONDS if until else 1)

    def listen(self, answer, until):
        ident, kind = None, None
        for line in answer:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "id":
                ident = value
            elif name == "event":
                kind = value
            elif name == "data":
                self.last = ident
                self.take(kind, json.loads(value))
            if self.stopping.is_set() or (until and not line.strip() and self.has_left(until)):
                return

    def has_left(self, until):
        return self.clock.time() > until

    def take(self, kind, told):
        event = told.get("eventId") or ""
        if kind == "post" and event.startswith("day "):
            self.got.append(event)


class Backups(Actor):
    """Makes a backup beside the running server, over the one before."""

    def __init__(self, clock, env, command):
        super().__init__(clock, 0)
        self.env, self.command, self.made = env, command, 0

    def act(self):
        self.rest(BACKUP_SECONDS)
        if self.stopping.is_set():
            return
        path = str(Path(self.env["DATA_DIR"]).parent / "backup.db")
        done = subprocess.run(
            [*self.command, "backup", path], cwd=ROOT, env=self.env, capture_output=True
        )
        self.made += 1
        if done.returncode:
            self.note(f"exit {done.returncode}")
            sys.stderr.buffer.write(done.stderr[-2000:])


class Receiver:
    """Takes what a hook tells, once by its id; `stumbles`: refuses one in STUMBLES, which is sent
    again.
    """

    def __init__(self, stumbles=False):
        self.got, self._ids, self._asked, self._stumbles = [], set(), 0, stumbles
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                """Nothing is logged."""

            def do_POST(self):
                # Whoever tells may hang up, and tells again.
                with contextlib.suppress(OSError, ValueError):
                    told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                    status = outer.take(self.headers["webhook-id"], told["data"])
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    def take(self, ident, told):
        """The status to answer with."""
        self._asked += 1
        if self._stumbles and self._asked % STUMBLES == 0:
            return 500
        if ident not in self._ids and (told.get("eventId") or "").startswith("day "):
            self.got.append(told["eventId"])
        self._ids.add(ident)
        return 204
