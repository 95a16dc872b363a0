"""Measure how soon a receipt is in the database after its node reports it as final, with and
without subscriptions, and the cost. Uses a real Solana runtime behind a front that injects faults
into notices.

    python -m bench bell --tools FOLDER [--count 1000] [--people 20] [--rate 8] [--seed 5]
        [--faults none|off|drop|double|stall|cut|reorder|lie|all] [--interval 15]

Needs ../shared/node/live, which a plain clone doesn't have: it starts Surfpool (a Solana node in
one process) and sends it transactions. FOLDER has what its README.md requires: node_modules and a
virtual environment `venv` with solders. The front is 31 slots behind the runtime, like mainnet's
finality, and delays each notice until the RPC front shows its slot. `off`: no subscriptions;
`drop`: every notice is lost; the others affect one notice in five. Exit 1 if a receipt is missing,
extra or duplicated.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import requests

import config
import storage
from accounts import api_keys, influencers
from bench._ports import find_port
from bench._servers import ROOT, VENUE, Server
from models import Address, Trade, Wallet

LIVE = ROOT.parent / "shared" / "node" / "live"
SHARE, LATE_SECONDS = 0.2, 3.0
FAULTS = ("double", "stall", "cut", "reorder", "lie")


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench bell")
    parser.add_argument("--tools", required=True, type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--rate", type=float, default=8.0)
    parser.add_argument("--interval", type=float, default=15.0)
    parser.add_argument("--seed", default="5")
    parser.add_argument("--faults", default="none")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, Stage(Path(folder), given) as stage:
        return measure(Path(folder), stage, given)


class Stage:
    """Surfpool, the front of its RPC responses, the front of its notices, and the sender of
    transactions.
    """

    def __init__(self, folder, given):
        if not LIVE.is_dir():
            raise SystemExit(f"{LIVE} is not here")
        self.folder, self.given, self.started = folder, given, []

    def __enter__(self):
        given, folder = self.given, self.folder
        info, address = folder / "node.json", folder / "addr"
        self._start(["node", str(LIVE / "start.js"), "50", str(info)], info)
        told = json.loads(info.read_text())
        self.runtime_url = told["rpc"]
        # Balances as of the finalized slot, too: the proxy itself returns the newest ones.
        code = "import proxy; proxy.UPSTREAM_ALWAYS.discard('getMultipleAccounts'); proxy.main()"
        code = f"import sys; sys.path.insert(0, {str(LIVE)!r}); {code}"
        proxy = [sys.executable, "-B", "-c", code, "--upstream", told["rpc"]]
        self._start([*proxy, "--port", "0", "--ready-file", str(address)], address)
        self.url, self.go = address.read_text().strip(), folder / "go"
        self.front = Front(told["ws"], self, given.faults, given.seed)
        wallets = folder / "wallets.json"
        program = [sys.executable, "-B", str(ROOT / "bench" / "_bell_driver.py")]
        places = {"live": LIVE, "info": info, "wallets": wallets, "go": self.go}
        plan = {"count": given.count, "people": given.people, "rate": given.rate}
        options = {**places, **plan, "seed": given.seed}
        argv = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        self.driver = self._start([*program, *argv], wallets, stdout=subprocess.PIPE)
        self.wallets = json.loads(wallets.read_text())
        return self

    def __exit__(self, *exc):
        self.front.stop()
        for process in reversed(self.started):
            process.terminate()
            process.wait(10)

    def _start(self, argv, ready, stdout=subprocess.DEVNULL):
        process = subprocess.Popen(
            argv,
            env={**os.environ, "NODE_PATH": str(self.given.tools / "node_modules")},
            stdout=stdout,
        )
        self.started.append(process)
        end = time.monotonic() + 120
        while not ready.exists() or not ready.read_text().strip():
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{argv[1]} did not start")
            time.sleep(0.05)
        return process

    def ask(self, path, body=None):
        how = "POST" if body else "GET"
        return requests.request(how, self.url + path, json=body, timeout=20).json()

    def call(self, method, *params):
        return self.ask("/", {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)})[
            "result"
        ]

    def find_newest_slot(self):
        """Return the runtime's newest slot, final or not."""
        params = [{"commitment": "processed"}]
        request = {"jsonrpc": "2.0", "id": 1, "method": "getSlot", "params": params}
        return requests.post(self.runtime_url, json=request, timeout=20).json()["result"]


class Front:
    """A WebSocket in front of the runtime's own. It forwards requests, and sends each notice once
    the RPC front shows its slot; some get a fault.
    """

    def __init__(self, upstream, stage, faults, seed):
        from websockets.sync.server import serve

        self._upstream, self._stage, self._dice = upstream, stage, random.Random(seed)
        self._faults = FAULTS if faults == "all" else (faults,)
        # When the RPC front first showed each slot.
        self.times, self.told = {}, 0
        self._held, self._ending, self._guard = [], threading.Event(), threading.Lock()
        self._server = serve(self._talk, "127.0.0.1", 0, compression=None)
        self.url = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        threading.Thread(target=self._tell_on, daemon=True).start()

    def stop(self):
        self._ending.set()
        self._server.shutdown()

    def _talk(self, line):
        from websockets.exceptions import ConnectionClosed
        from websockets.sync.client import connect

        with connect(self._upstream, compression=None, proxy=None) as upstream:
            threading.Thread(target=self._pass_on, args=(upstream, line), daemon=True).start()
            try:
                for raw in line:
                    # The node's `finalized` is neither 31 slots late nor reported with the right
                    # slot.
                    upstream.send(raw.replace("finalized", "confirmed"))
            except ConnectionClosed:
                return

    def _pass_on(self, upstream, line):
        from websockets.exceptions import ConnectionClosed

        try:
            for raw in upstream:
                message = json.loads(raw)
                if "method" not in message:
                    line.send(raw)
                else:
                    context = message["params"]["result"]["context"]
                    if message["method"] == "accountNotification":
                        # The node reports the slot of the request; the transaction is in one of
                        # the next two.
                        context["slot"] = self._stage.find_newest_slot() + 2
                        raw = json.dumps(message)
                    slot = context["slot"]
                    with self._guard:
                        self._held.append((slot, line, raw))
        except ConnectionClosed:
            return

    def _tell_on(self):
        tip = last = self._stage.ask("/stats")["tip"]
        while not self._ending.wait(0.02):
            tip = self._stage.ask("/stats")["tip"]
            self.times.update({slot: time.monotonic() for slot in range(last + 1, tip + 1)})
            last = tip
            with self._guard:
                due = [one for one in self._held if one[0] <= tip]
                self._held = [one for one in self._held if one[0] > tip]
            for _, line, raw in due:
                self._tell(line, raw)

    def _tell(self, line, raw):
        from websockets.exceptions import ConnectionClosed

        fault = self._dice.choice(self._faults) if self._dice.random() < SHARE else None
        if "drop" in self._faults:
            return
        self.told += 1
        try:
            if fault == "cut":
                line.close()
                return
            if fault in ("stall", "reorder"):
                # Sent some seconds, or some notices, later.
                delay = 3.0 if fault == "stall" else self._dice.random() / 2
                threading.Timer(delay, self._send, (line, raw)).start()
                return
            if fault == "lie":
                raw = raw.replace('"signature":"', '"signature":"z', 1)[: len(raw) + 1]
                raw = raw.replace('"lamports":', '"lamports":7', 1)
            for _ in range(2 if fault == "double" else 1):
                line.send(raw)
        except ConnectionClosed:
            return

    def _send(self, line, raw):
        from websockets.exceptions import ConnectionClosed

        try:
            line.send(raw)
        except ConnectionClosed:
            return


class Service:
    """A running instance that watches these wallets, and a reader of its stream."""

    def __init__(self, folder, stage, given):
        self.data, self.shown = folder / "data", {}
        self.environ = {
            "DATA_DIR": str(self.data),
            "PORT": str(find_port()),
            "SOLANA_RPC_URLS": stage.url,
            "SOLANA_WS_URLS": "off" if given.faults == "off" else stage.front.url,
            "RPC_REQUESTS_PER_SECOND": "1000",
            "OBSERVER_INTERVAL_SECONDS": str(given.interval),
            "SCOUT_INTERVAL_SECONDS": "0",
            "PAPER_INTERVAL_SECONDS": "0",
            "EXTRA_SWAP_PROGRAMS": VENUE,
        }
        self.url = f"http://127.0.0.1:{self.environ['PORT']}"
        self.key = create_bots(config.load(self.environ, dotenv=None), stage.wallets)
        argv = [sys.executable, "app.py", "run"]
        self.process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env={**os.environ, **self.environ},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def health(self):
        try:
            return requests.get(self.url + "/api/health", timeout=5).json()["walletObserver"]
        except requests.RequestException:
            return None

    def follow(self):
        """Record when the stream reports each trade, from now on."""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        headers = {"Authorization": f"Bearer {self.key}"}
        address = self.url + "/api/v1/stream"
        with requests.get(address, headers=headers, stream=True, timeout=600) as answer:
            try:
                for line in answer.iter_lines(chunk_size=1):
                    if line.startswith(b"data: {"):
                        told = json.loads(line[6:])
                        place = told.get("wallet"), told.get("signature")
                        self.shown.setdefault(place, (told.get("slot"), time.monotonic()))
            except requests.RequestException:
                return

    def memory(self):
        """Return the resident megabytes of all its processes."""
        server = Server(0, self.process.pid, 0)
        return sum(size for _, size in server.read_memory()) / 1e6

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


def create_bots(settings, wallets):
    """Create a bot for each wallet; return a read key of the last one's owner."""
    database, now = storage.connect(settings), time.time_ns() // 1_000_000
    storage.migrate(database)
    with database.connection_context(), storage.writing():
        for number, wallet in enumerate(wallets):
            made = influencers.create_bot(settings, f"Person {number}", now, wallet)
        key = api_keys.create_key(made.bot.owner, "read", now).text
    database.close_all()
    return key


def measure(folder, stage, given):
    service = Service(folder, stage, given)
    try:
        wait_for(lambda: is_settled(service, given), 240)
        service.follow()
        time.sleep(1)
        before = stage.ask("/stats")["calls"]
        stage.go.touch()
        said = json.loads(stage.driver.communicate()[0])
        time.sleep(5)
        after = stage.ask("/stats")["calls"]
        time.sleep(2 * given.interval + 5)
        memory, bell = service.memory(), service.health()["bell"]
    finally:
        service.stop()
    print(f"faults {given.faults}: {len(said['sent'])} transactions of {given.people} wallets sent")
    calls = {name: after.get(name, 0) - before.get(name, 0) for name in after}
    return judge(stage, said, service, calls, memory, bell)


def is_settled(service, given):
    health = service.health()
    if not health or health["pending"] or health["lagSeconds"] is None:
        return False
    with storage.connect(config.load(service.environ, dotenv=None)).connection_context():
        unscanned = Address.select().where(Address.full_scans < 2).exists()
        if unscanned or Wallet.select().where(Wallet.accounts_at.is_null()).exists():
            return False
    return given.faults == "off" or health["bell"]["heard"] == given.people


def wait_for(test, seconds):
    end = time.monotonic() + seconds
    while not test():
        if time.monotonic() > end:
            raise SystemExit("the wallets were not observed, or not heard")
        time.sleep(1)


def judge(stage, said, service, calls, memory, bell):
    wrong = find_wrong(stage, service)
    receipts = {signature for _, signature in service.shown if signature}
    times = stage.front.times
    lags = sorted(when - times[slot] for slot, when in service.shown.values() if slot in times)
    stories = dict(said["sent"])
    late = Counter(
        stories.get(signature)
        for (_, signature), (slot, when) in service.shown.items()
        if slot in times and when - times[slot] > LATE_SECONDS
    )
    asked = calls.get("getTransaction", 0)
    print(
        f"{dict(wrong)} rows; shown after finality: median"
        f" {lags[len(lags) // 2]:.2f} s, 99 of 100 within {lags[len(lags) * 99 // 100]:.2f} s,"
        f" worst {lags[-1]:.2f} s, of {len(lags)}; later than"
        f" {LATE_SECONDS:g} s: {dict(late)}"
    )
    print(
        f"{asked / len(receipts):.3f} getTransaction and {sum(calls.values()) / len(receipts):.3f}"
        f" calls a receipt, of {len(receipts)}: {calls}; {memory:.0f} MB; bell {bell}"
    )
    return int(any(wrong.values()))


def find_wrong(stage, service):
    """Count missing, extra and duplicate rows."""
    wrong = Counter(missing=0, extra=0, doubled=0)
    with storage.connect(config.load(service.environ, dotenv=None)).connection_context():
        for wallet in stage.wallets:
            listed, rows = list_truth(stage, wallet), list_rows(wallet)
            wrong["missing"] += len(listed - set(rows))
            wrong["extra"] += len(set(rows) - listed)
            wrong["doubled"] += len(rows) - len(set(rows))
    return wrong


def list_truth(stage, wallet):
    """Return what the node lists for a wallet and for the accounts in its ledger."""
    known = Address.select(Address.address).join(Wallet).where(Wallet.address == wallet)
    return {
        row["signature"]
        for address in known.scalars()
        for row in stage.call("getSignaturesForAddress", address, {"limit": 1000})
    }


def list_rows(wallet):
    rows = Trade.select(Trade.signature).join(Wallet).where(Wallet.address == wallet)
    return list(rows.scalars())
