"""A real Solana runtime takes transactions while they are observed through faults: none missing,
none extra, and how soon each is shown.

    python -m bench live --tools FOLDER [--count 500] [--rate 0.15] [--seed 5] [--interval 1]

Needed is a folder beside the checkout that no plain clone has: ../shared/node/live, which starts
Surfpool (a Solana node in one process), misbehaves before it and sends it transactions. FOLDER has
what its README.md asks for: node_modules (`npm install` of its package.json) and a virtual
environment `venv` with solders.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from bisect import bisect
from collections import Counter
from pathlib import Path

import config
import models
import storage

ROOT = Path(__file__).resolve().parent.parent
LIVE = ROOT.parent / "shared" / "node" / "live"
VENUE = "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"
# A 403 rests one of them for ten minutes.
ENDPOINTS = 40
sys.path.append(str(ROOT / "tests"))


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench live")
    parser.add_argument("--tools", required=True, type=Path)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--rate", type=float, default=0.15)
    parser.add_argument("--seed", default="5")
    parser.add_argument("--interval", type=float, default=1.0)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, Runtime(Path(folder), given) as runtime:
        return observe(Path(folder), runtime, given)


class Runtime:
    """Surfpool, the misbehaving front before it, and somebody who sends transactions."""

    def __init__(self, folder, given):
        if not LIVE.is_dir():
            raise SystemExit(f"{LIVE} is not here")
        self.folder, self.given, self.started = folder, given, []

    def __enter__(self):
        info, address = self.folder / "node.json", self.folder / "addr"
        self._start(["node", str(LIVE / "start.js"), "50", str(info)], info)
        upstream, python = (
            json.loads(info.read_text())["rpc"],
            str(self.given.tools / "venv" / "bin" / "python"),
        )
        self._start(
            [
                python,
                "-B",
                str(LIVE / "proxy.py"),
                "--upstream",
                upstream,
                "--port",
                "0",
                "--ready-file",
                str(address),
                "--hang",
                "0.3",
                "--huge",
                "17000000",
                "--rate",
                str(self.given.rate),
                "--seed",
                self.given.seed,
            ],
            address,
        )
        self.url, wallets = address.read_text().strip(), self.folder / "wallets.json"
        self.driver = self._start(
            [
                python,
                "-B",
                str(LIVE / "drive.py"),
                "--info",
                str(info),
                "--count",
                str(self.given.count),
                "--seed",
                self.given.seed,
                "--wallets-file",
                str(wallets),
            ],
            wallets,
            stdout=subprocess.PIPE,
        )
        self.wallets = json.loads(wallets.read_text())
        return self

    def __exit__(self, *exc):
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
        with urllib.request.urlopen(
            self.url + path, data=body and json.dumps(body).encode(), timeout=20
        ) as answer:
            return json.load(answer)

    def call(self, method, *params):
        return self.ask("/", {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)})[
            "result"
        ]


def observe(folder, runtime, given):
    from lookout import Lookout

    from observer import Observer

    settings = config.load(
        {
            "DATA_DIR": str(folder / "data"),
            "SOLANA_RPC_URLS": ",".join(f"{runtime.url}/{n}" for n in range(ENDPOINTS)),
            "RPC_REQUESTS_PER_SECOND": "1000",
            "OBSERVER_INTERVAL_SECONDS": str(given.interval),
            "EXTRA_SWAP_PROGRAMS": VENUE,
        },
        dotenv=None,
    )
    storage.migrate(storage.connect(settings))
    with storage.database.connection_context():
        seen = Lookout.begin(settings, wallets=runtime.wallets)
        shown, polls, final = {}, [], Finality(runtime)

        def note(_):
            rows = models.Trade.select(models.Trade.signature, models.Trade.slot).where(
                models.Trade.signature.not_in(list(shown))
            )
            for signature, slot in list(rows.tuples()):
                shown[signature] = (slot, time.monotonic())

        seen.observer = Observer(settings, report=note)
        runtime.ask("/control", {"faults": "all"})
        ends, complete = None, 0
        while ends is None or time.monotonic() < ends:
            begun = time.monotonic()
            polls.append(begun)
            seen.observer.run_tick(time.time_ns() // 10**6)
            if ends is None and runtime.driver.poll() is not None:
                ends = time.monotonic() + 60
            complete = (
                complete + 1
                if ends and [seen.state(w) for w in runtime.wallets[:2]] == ["complete"] * 2
                else 0
            )
            if complete > 3:
                break
            time.sleep(max(0.0, given.interval - (time.monotonic() - begun)))
        final.end()
        return judge(runtime, given, seen, shown, polls, final)


class Finality:
    """When each slot became final at the front, by a thread that watches its tip."""

    def __init__(self, runtime):
        self.times, self._runtime, self._ending = {}, runtime, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self):
        last = self._runtime.ask("/stats")["tip"]
        while not self._ending.wait(0.02):
            tip = self._runtime.ask("/stats")["tip"]
            self.times.update({slot: time.monotonic() for slot in range(last + 1, tip + 1)})
            last = tip

    def end(self):
        self._ending.set()
        self._thread.join()


def judge(runtime, given, seen, shown, polls, final):
    stats = runtime.ask("/control", {"faults": "none"})
    said = json.loads(runtime.driver.stdout.read())
    short = 0
    for wallet in runtime.wallets:
        own = {
            wallet,
            *(
                a.address
                for a in (
                    models.Address.select()
                    .join(models.Wallet)
                    .where(models.Wallet.address == wallet)
                )
            ),
        }
        listed = {
            row["signature"]
            for address in own
            for row in runtime.call("getSignaturesForAddress", address, {"limit": 1000})
        }
        rows = [t.signature for t in seen.trades(wallet)]
        held = {
            p["mint"]: p["amountRaw"]
            for p in json.loads(models.Wallet.get(models.Wallet.address == wallet).positions)
        }
        wanted = {
            mint: amount
            for mint, amount in said["final"][wallet]["tokens"].items()
            if amount != "0" and not mint.startswith("So1111")
        }
        short += (
            len(listed - set(rows))
            + len(set(rows) - listed)
            + (len(rows) != len(set(rows)))
            + (held != wanted)
        )
        print(
            f"{wallet[:6]}: {len(rows)} receipts, {len(listed - set(rows))} missing,"
            f" {len(set(rows) - listed)} extra, open positions"
            f" {'as' if held == wanted else 'NOT as'} the runtime says, {seen.state(wallet)},"
            f" {len(seen.gaps(wallet))} gaps"
        )
    spans = [(final.times[slot], when) for slot, when in shown.values() if slot in final.times]
    lags, polls = (
        sorted(when - since for since, when in spans),
        Counter(bisect(polls, when) - bisect(polls, since) for since, when in spans),
    )
    print(
        f"{said['sent']} transactions sent, {stats['requests']} requests,"
        f" {sum(stats['faults'].values())} faults of {len(stats['faults'])} kinds"
        f" ({given.rate:.0%})"
    )
    print(
        f"shown after finality: median {lags[len(lags) // 2]:.2f} s, 99 of 100 within"
        f" {lags[len(lags) * 99 // 100]:.2f} s, worst {lags[-1]:.2f} s; by the look that was under"
        f" way or the first begun after it {polls[0] + polls[1]}, by the second {polls[2]}, later"
        f" {sum(n for looked, n in polls.items() if looked > 2)}; a poll every"
        f" {(polls[-1] - polls[0]) / (len(polls) - 1):.2f} s"
    )
    return int(bool(short))
