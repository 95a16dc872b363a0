"""A day in an hour: does anything grow, and does health cry over what heals by itself?

    python -m bench day [--minutes 60] [--warm 30] [--rate 24] [--faults 0.05] [--samples FILE]

One server (`app.py run`, its defaults) whose clock runs 24 times as fast (bench._clock), before the
replay node, which answers 5 % of all calls wrongly, as many endpoints, and reveals its recorded
history bit by bit; and before the demonstration's market. A bot posts every ten seconds of that
clock, four followers hold streams (two come and go), two hooks are told (one receiver stumbles),
four paper traders trade, a reader reads, every hour eight come at once, a backup is made every six
hours.

Exit 1 where, after the warm-up, resident memory grows by 1 MB or more in an hour that the server
lives through (by the machine's hour, which holds a day, is told beside it); descriptors, threads,
the write-ahead log or the server's log (without its line for each request) rise from the first half
to the second; health ever says of a job that it is failing or late; a follower or a receiver misses
a post or gets one twice or out of order; or `doctor --deep` finds something. The warm-up ends when
the caches are as full as they get: every thread's 0.8 MB of SQLite pages, the lists, the callers,
and last, after half an hour, the intervals of paper mode.
"""

import argparse
import collections
import contextlib
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import config
import storage
from accounts import api_keys, hooks, influencers, traders
from bench._clock import Clock
from bench._crowd_of_a_day import STAYS_SECONDS, Backups, Follower, Poster, Reader, Receiver, Rush
from bench._ports import find_port
from bench._servers import Server, list_history_wallets, replay_node
from demo import node as demo_node
from demo.market import Market
from demo.recording import load_recording
from demo.server import address_of, start_server
from paper.strategies import FAMILIES

ROOT = Path(__file__).resolve().parent.parent
SAMPLE_SECONDS, MAX_GROWTH_BYTES, PATIENCE_SECONDS = 3, 1_000_000, 60
# A 403 rests one of them for ten minutes.
ENDPOINTS = 40
# What the recorded history has of slots once its long pauses are shortened, about.
HISTORY_SLOTS, FIRST_SLOT = 60_000, 460_000_107
# How much more the second half may show than the first: a request or two under way.
SLACK = {"descriptors": 8, "threads": 8, "wal": 2**20, "log": 20_000}
# The job has not run yet, or a part of it was not asked for yet.
FINE = ("ok", "unknown", "waiting")
JOBS = {"observer": "walletObserver", "scout": "scout", "paper": "strategyEngine"}


@dataclass(frozen=True)
class Sample:
    """The server at a moment. `at`: seconds of the machine since the start; `states`: of each job;
    `log`: bytes so far, without a line for each request. Memory and files in bytes.
    """

    at: float
    rss: int
    private: int
    descriptors: int
    threads: int
    wal: int
    database: int
    log: int
    status: str
    states: dict
    errors: dict


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench day")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--warm", type=float, default=30)
    parser.add_argument("--rate", type=int, default=24)
    parser.add_argument("--faults", type=float, default=0.05)
    parser.add_argument("--samples", help="write every sample into this file, a JSON line each")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="candor-day-") as folder:
        return spend(Path(folder), given)


def spend(folder, given):
    seconds = 60 * given.minutes
    # When the day is over, nothing of it lies in the future.
    clock = Clock(given.rate, time.time() + seconds + 2 * PATIENCE_SECONDS)
    start, recording = int(clock.time()), load_recording()
    write_accounts(folder / "accounts", recording["accounts"])
    market = Market(recording["mints"], start)
    stand_in = start_server(demo_node.Node(recording, start), market, clock.time)
    options = (
        *("--accounts", str(folder / "accounts"), "--hang", str(16 / given.rate)),
        *("--faults", "all", "--rate", str(given.faults), "--huge", "17000000"),
        *("--tip-start", str(FIRST_SLOT), "--tip-rate", str(HISTORY_SLOTS / seconds)),
    )
    with replay_node(folder, *options) as url:
        env = make_environ(folder, url, address_of(stand_in), recording["venue"])
        receivers = [Receiver(), Receiver(stumbles=True)]
        keys = fill(env, clock, receivers)
        with serving(folder, env, clock) as server:
            crowd = gather(clock, server.port, keys, env)
            samples = watch(server, folder, seconds, given.samples, crowd)
            wait_for_all(crowd, receivers)
    return judge(given, samples, crowd, receivers, env)


# ---- the stage -----------------------------------------------------------------------------------
def write_accounts(folder, accounts):
    """What the replay node says of the market's mints."""
    folder.mkdir()
    for mint, account in accounts.items():
        (folder / f"{mint}.json").write_text(json.dumps(account))


def make_environ(folder, node, market, venue):
    around = {name: value for name, value in os.environ.items() if name not in config.NAMES}
    own = {
        "DATA_DIR": str(folder / "data"),
        "PORT": str(find_port()),
        "SOLANA_RPC_URLS": ",".join(f"{node}/{n}" for n in range(ENDPOINTS)),
        "SOLANA_WS_URLS": "off",
        "DEXSCREENER_URL": market,
        "GECKOTERMINAL_URL": market,
        "EXTRA_SWAP_PROGRAMS": venue,
        "HOOKS_PRIVATE": "on",
        "LOG_FORMAT": "json",
    }
    return {**around, **own, "PYTHONPATH": str(ROOT)}


def fill(env, clock, receivers):
    """A bot for each wallet of the history, a trader of each family, hooks; the first bot's
    publishing key and a reading key of its owner.
    """
    Path(env["DATA_DIR"]).mkdir(mode=0o700)
    settings = config.load(env, dotenv=None)
    database, now = storage.connect(settings), clock.time_ns() // 1_000_000
    storage.migrate(database)
    with database.connection_context():
        bots = [
            influencers.create_bot(settings, f"Bot {n}", now, wallet)
            for n, wallet in enumerate(list_history_wallets())
        ]
        for family in FAMILIES:
            traders.create_trader(f"Trader {family}", family, now)
        for receiver in receivers:
            hooks.add_hook(settings, bots[0].owner, receiver.url, now, trusted=True)
        read = api_keys.create_key(bots[0].owner, "read", now)
    database.close_all()
    # Else this process would be taken for a server.
    storage.locks.unlock_data_dir()
    return bots[0].publish_key.text, read.text


def command(clock, *words):
    return [sys.executable, "-m", "bench._clock", str(clock.rate), str(clock.meets), *words]


@contextlib.contextmanager
def serving(folder, env, clock):
    """The server on the fast clock, as bench._servers.Server; its log in folder/log."""
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(command(clock, "run"), cwd=ROOT, env=env, stdout=log, stderr=log)
    server = Server(int(env["PORT"]), process.pid, 0.0)
    try:
        end = time.monotonic() + PATIENCE_SECONDS
        while ask_health(server.port) is None:
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit("the server did not start:\n" + (folder / "log").read_text())
            time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def gather(clock, port, keys, env):
    """All who have to do with the server, at work."""
    publish, read = keys
    stays = (None, None, STAYS_SECONDS, 2 * STAYS_SECONDS)
    crowd = [Follower(clock, port, read, stay) for stay in stays]
    crowd += [
        Reader(clock, port, read),
        Rush(clock, port, read),
        Backups(clock, env, command(clock)),
        Poster(clock, port, publish),
    ]
    for actor in crowd:
        actor.start()
        # Followers before the first post: what came before them they are not told.
        time.sleep(0.3)
    return crowd


# ---- watching ------------------------------------------------------------------------------------
def watch(server, folder, seconds, path, crowd):
    """Samples until the time is over; a line for each minute is printed."""
    samples, began, counter = [], time.monotonic(), LogCounter(folder / "log")
    while (at := time.monotonic() - began) < seconds:
        samples.append(take_sample(server, folder, at, counter))
        if path:
            with open(path, "a") as file:
                file.write(json.dumps(vars(samples[-1])) + "\n")
        if int(at / 60) != int((at - SAMPLE_SECONDS) / 60):
            tell(samples[-1], crowd)
        time.sleep(SAMPLE_SECONDS - (time.monotonic() - began) % SAMPLE_SECONDS)
    return samples


def take_sample(server, folder, at, counter):
    memory, pids = collections.Counter(), server.list_pids()
    descriptors = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)
    for pid in pids:
        memory += read_status(pid)
    data, health = folder / "data", ask_health(server.port) or {"status": "no answer"}
    return Sample(
        at,
        1024 * memory["VmRSS"],
        1024 * memory["RssAnon"],
        descriptors,
        memory["Threads"],
        size(data / "app.db-wal") + size(data / "ratelimit.db-wal"),
        size(data / "app.db"),
        counter.read(),
        health["status"],
        *read_states(health),
    )


def read_states(health):
    """({job: state}, {job: what it last said was wrong}), the parts of the scout's work too."""
    told = {name: health.get(key, {}) for name, key in JOBS.items()}
    told |= {f"scout's {part}": told["scout"].get(part, {}) for part in ("discovery", "safety")}
    return tuple(
        {name: job.get(key) for name, job in told.items()} for key in ("state", "lastError")
    )


def read_status(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    told = dict(line.split(":", 1) for line in lines)
    names = ("VmRSS", "RssAnon", "Threads")
    return collections.Counter({name: int(told[name].split()[0]) for name in names})


def size(path):
    return path.stat().st_size if path.exists() else 0


def ask_health(port):
    """The health object; None where there was no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/api/health")
        return json.loads(connection.getresponse().read())
    return None


class LogCounter:
    """Counts the bytes of a log but for its line for each request."""

    def __init__(self, path):
        self.path, self.place, self.bytes = path, 0, 0

    def read(self):
        with open(self.path, "rb") as file:
            file.seek(self.place)
            for line in file:
                self.bytes += 0 if b"candor.access" in line else len(line)
            self.place = file.tell()
        return self.bytes


def tell(sample, crowd):
    poster = crowd[-1]
    print(
        f"{sample.at / 60:3.0f} min: {sample.rss / 1e6:.1f} MB ({sample.private / 1e6:.1f} its"
        f" own), {sample.descriptors} descriptors, {sample.threads} threads, log to be"
        f" checkpointed {sample.wal / 1e6:.1f} MB, database {sample.database / 1e6:.1f} MB,"
        f" log {sample.log} bytes, {sample.status}, {poster.acknowledged} posts",
        flush=True,
    )


def wait_for_all(crowd, receivers):
    """Stop posting, give whoever follows the time to hear of the last, stop all."""
    crowd[-1].stopping.set()
    crowd[-1].join(PATIENCE_SECONDS)
    end = time.monotonic() + PATIENCE_SECONDS
    followers = [one for one in crowd if isinstance(one, Follower)]
    while time.monotonic() < end and any(
        len(one.got) < crowd[-1].acknowledged for one in (*followers, *receivers)
    ):
        time.sleep(1)
    for actor in crowd:
        actor.stopping.set()


# ---- judging -------------------------------------------------------------------------------------
def judge(given, samples, crowd, receivers, env):
    """Print a line for each promise; 1 where one is broken."""
    warm = [one for one in samples if one.at >= 60 * given.warm]
    kept = [
        judge_memory(warm, given.rate),
        *(judge_flat(name, warm) for name in ("descriptors", "threads", "wal")),
        judge_log(warm),
        judge_health(samples),
        *judge_posts(crowd, receivers),
        judge_database(env),
    ]
    return int(not all(kept))


def say(holds, text):
    print(f"{'holds ' if holds else 'BROKEN'}: {text}", flush=True)
    return holds


def judge_memory(samples, rate):
    """What grows does so with what happens: with the hours that the server lives through."""
    growth = find_slope(samples, "rss")
    private = find_slope(samples, "private")
    return say(
        growth / rate < MAX_GROWTH_BYTES,
        f"resident memory grows by {growth / rate / 1e6:.2f} MB in an hour of the server's, less"
        f" than {MAX_GROWTH_BYTES / 1e6:g}; by {growth / 1e6:.2f} in one of the machine's (its own,"
        f" without files, by {private / 1e6:.2f})",
    )


def find_slope(samples, name):
    """Bytes an hour of the machine's: the median of the slopes between any two minutes' medians
    (Theil and Sen), which a moment's use does not bend.
    """
    minutes = collections.defaultdict(list)
    for one in samples:
        minutes[int(one.at / 60)].append(getattr(one, name))
    points = [(minute, statistics.median(found)) for minute, found in minutes.items()]
    slopes = [
        60 * (later - before) / (end - begin)
        for place, (begin, before) in enumerate(points)
        for end, later in points[place + 1 :]
    ]
    return statistics.median(slopes) if slopes else 0.0


def halve(samples):
    return samples[: len(samples) // 2], samples[len(samples) // 2 :]


def judge_flat(name, samples):
    first, second = (max(getattr(one, name) for one in half) for half in halve(samples))
    return say(
        second <= first + SLACK[name],
        f"{name}: at most {first} in the first half, {second} in the second",
    )


def judge_log(samples):
    first, second = (half[-1].log - half[0].log for half in halve(samples))
    return say(
        second <= first + SLACK["log"],
        f"log, without requests: {first} bytes in the first half, {second} in the second",
    )


def judge_health(samples):
    """Print how often each job was in which state, and what it said while it was not well."""
    told, bad = collections.Counter(), collections.Counter()
    for one in samples:
        told.update(f"{name} {state}" for name, state in one.states.items())
        told[f"status {one.status}"] += 1
        for name, state in one.states.items():
            if state not in FINE:
                bad[f"{name} {state}: {one.errors[name]}"] += 1
    for text, count in bad.most_common(8):
        print(f"        {count} times {text}")
    return say(not bad, f"health, of {len(samples)} times asked: {dict(told)}")


def judge_posts(crowd, receivers):
    count = crowd[-1].acknowledged
    wanted = [f"day {number}" for number in range(count)]
    followers = [one.got for one in crowd if isinstance(one, Follower)]
    troubles = {type(one).__name__: one.troubles for one in crowd if one.troubles}
    yield say(
        all(got == wanted for got in followers),
        f"{count} posts, each once and in order on the streams:"
        f" {[len(got) for got in followers]}; refused or cut meanwhile: {troubles}",
    )
    yield say(
        all(one.got == wanted for one in receivers),
        f"each once and in order by hooks: {[len(one.got) for one in receivers]}",
    )


def judge_database(env):
    done = subprocess.run(
        [sys.executable, "app.py", "doctor", "--deep"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        print(done.stdout[-3000:])
    return say(done.returncode == 0, f"doctor --deep: exit {done.returncode}")
