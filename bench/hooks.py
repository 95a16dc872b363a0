"""What hooks cost everybody else, and whether receivers that misbehave cost the others anything.

    python -m bench hooks [--events 1000] [--pace 0.2] [--seconds 4]

Ten receivers behave, five hang, five fail, five redirect inward. Two servers (`app.py run`,
defaults but for the limits) are read by eight clients while a bot posts at the pace; one has the
25 hooks, the other none. Only one of them runs at a time, in turns: the other is stopped. `--pace`:
seconds between two messages to a host (1 in earnest: less is harder). Ends with 1 where an event is
missing, doubled or out of order, a redirect is followed, or p99 with hooks is above 1.3 of that
without.
"""

import argparse
import contextlib
import http.client
import http.server
import itertools
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import config
import storage
from accounts import hooks, influencers
from bench._servers import ROOT, candor
from bench.streams import PATHS, percentile, read

GOOD, EACH_BAD, READERS, MAX_RATIO, MAX_WAIT_SECONDS = 10, 5, 8, 1.3, 120
SLOW_PACE = "import notify.outbox\nnotify.outbox.HOST_SECONDS = {}\n"


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench hooks")
    parser.add_argument("--events", type=int, default=1_000)
    parser.add_argument("--pace", type=float, default=0.2)
    parser.add_argument("--seconds", type=float, default=4)
    given = parser.parse_args(arguments)
    ours, theirs = multiprocessing.Pipe()
    crowd = multiprocessing.Process(target=receive_all, args=(theirs,), daemon=True)
    crowd.start()
    with tempfile.TemporaryDirectory() as folder:
        wanted, took = play(Path(folder), ours, given)
    told, followed = ask(ours)
    return judge(wanted, took, told, followed)


def play(folder, ours, given):
    """([event id, in order], {with hooks?: [seconds of each request]})"""
    # Every Python process of a server with this path has the pace.
    (folder / "sitecustomize.py").write_text(SLOW_PACE.format(given.pace))
    more = {"HOOKS_PRIVATE": "on", "PYTHONPATH": f"{folder}:{ROOT}"}
    urls = ours.recv()
    keys = {busy: seed(folder / str(busy), urls if busy else []) for busy in (True, False)}
    with (
        candor(folder / "True", **more) as busy,
        candor(folder / "False", **more) as idle,
    ):
        servers, took = {True: busy, False: idle}, {True: [], False: []}
        posted = {True: [], False: []}
        tell(idle, signal.SIGSTOP)
        while len(posted[True]) < given.events:
            for which, server in servers.items():
                tell(server, signal.SIGCONT)
                read_and_post(server, keys[which], given, took[which], posted[which])
                tell(server, signal.SIGSTOP)
        tell(busy, signal.SIGCONT)
        wait_for_all(ours, len(posted[True]))
        tell(idle, signal.SIGCONT)
    return posted[True], took


def seed(folder, urls):
    """A publishing key of a bot that these addresses are told of."""
    settings = config.load({"DATA_DIR": str(folder), "HOOKS_PRIVATE": "on"}, dotenv=None)
    database = storage.connect(settings)
    storage.migrate(database)
    now = time.time_ns() // 1_000_000
    with database.connection_context():
        bot = influencers.create_bot(settings, "Bench", now)
        for url in urls:
            hooks.add_hook(config.lift_quotas(settings), bot.owner, url, now, trusted=True)
    database.close_all()
    return bot.publish_key.text


def tell(server, what):
    for pid in server.list_pids():
        os.kill(pid, what)


def read_and_post(server, key, given, took, posted):
    end = time.monotonic() + given.seconds
    crew = [
        threading.Thread(target=read, args=(server.port, key, PATHS[n % len(PATHS)], end, took))
        for n in range(READERS)
    ]
    crew.append(threading.Thread(target=post, args=(server.port, key, end, given, posted)))
    [thread.start() for thread in crew], [thread.join() for thread in crew]


def post(port, key, end, given, posted):
    """Post at the pace, and note each event that was accepted."""
    while time.monotonic() < end and len(posted) < given.events:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        event = f"bench {len(posted)}"
        connection.request(
            "POST",
            "/api/v1/posts",
            json.dumps({"eventId": event, "body": "what hooks are told"}),
            {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        )
        assert connection.getresponse().status == 201
        connection.close()
        posted.append(event)
        time.sleep(given.pace)


def wait_for_all(ours, count):
    end = time.monotonic() + MAX_WAIT_SECONDS
    while time.monotonic() < end:
        told, _ = ask(ours)
        if min(map(len, told)) >= count:
            return
        time.sleep(1)


def ask(ours):
    """([event ids of each good receiver], how many redirects were followed)"""
    ours.send("tell")
    return ours.recv()


def judge(wanted, took, told, followed):
    """Print what was seen; return 1 where a promise is broken."""
    for which, name in ((False, "without hooks"), (True, "with hooks")):
        seen = took[which]
        print(
            f"{name:14} {len(seen):6} requests  p50 {percentile(seen, 50):7.2f}  p99"
            f" {percentile(seen, 99):7.2f} ms"
        )
    ratio = percentile(took[True], 99) / percentile(took[False], 99)
    whole = sum(events == wanted for events in told)
    print(f"ratio of p99 {ratio:.2f} (at most {MAX_RATIO})")
    print(f"{whole} of {GOOD} receivers were told {len(wanted)} events once and in order")
    print(f"{followed} redirects followed")
    return 0 if whole == GOOD and not followed and ratio <= MAX_RATIO else 1


# ---- receivers, in a process of their own --------------------------------------------------------
def receive_all(theirs):
    """Serve all receivers; answer each question with what the good ones were told."""
    told, followed = [[] for _ in range(GOOD)], []
    inward = serve(lambda handler, body: (followed.append(1), answer(handler, 204)))
    urls = [serve(note_in(events)) for events in told]
    for _ in range(EACH_BAD):
        urls += [
            serve(lambda handler, body: time.sleep(60)),
            serve(lambda handler, body: answer(handler, 500)),
            serve(lambda handler, body: answer(handler, 302, Location=inward)),
        ]
    theirs.send(urls)
    for _ in itertools.count():
        theirs.recv()
        theirs.send((told, len(followed)))


def note_in(events):
    def behave(handler, body):
        events.append(json.loads(body)["data"].get("eventId"))
        answer(handler, 204)

    return behave


def answer(handler, status, **headers):
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def serve(behave):
    """The address of a receiver that behaves like this."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with contextlib.suppress(OSError):
                behave(self, body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/hook"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
