"""The cost of reading a finalized transaction, compared to another checkout of this repository.

    python -m bench reading --before FOLDER [--rounds 7]

Parses and reads the recorded transactions of the tests for their wallets: the real ones, and the
history's in both encodings. The two checkouts take turns, each in its own process, and the best
round of each counts. Exit 1 if reading is more than MAX_RATIO times slower than before.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_RATIO = 1.6
READ = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from chain.reading.entries import read_entry
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt
work, programs = json.load(open(sys.argv[2])), table()
best = {}
for name, rows in work.items():
    for _ in range(3):
        begin = time.process_time()
        for raw, wallet in rows:
            read_entry(parse_receipt(raw), wallet, programs)
        spent = (time.process_time() - begin) / len(rows)
        best[name] = min(spent, best.get(name, spent))
print(json.dumps(best))
"""


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m bench reading")
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work.json"
        work.write_text(json.dumps(collect(folder)))
        best = {"before": {}, "now": {}}
        for _ in range(given.rounds):
            for side, checkout in (("before", given.before), ("now", ROOT)):
                for name, spent in measure(checkout, work).items():
                    best[side][name] = min(spent, best[side].get(name, spent))
    return report(best)


def collect(folder):
    """{"real": [(receipt, wallet), ...], "history": ...} of the tests' data."""
    sys.path.insert(0, str(ROOT / "tests"))
    import corpus

    receipts = corpus.unpack_receipts(Path(folder))
    with open(receipts / "truth.csv", newline="") as file:
        real = [
            (
                json.loads((receipts / "json" / f"{row['signature']}.json").read_text()),
                row["wallet"],
            )
            for row in csv.DictReader(file)
        ]
    history = corpus.read_history()
    recorded = [
        (one[encoding], wallet)
        for one in history["transactions"]
        for encoding in ("json", "jsonParsed")
        for wallet in history["wallets"]
    ]
    return {"real": real, "history": recorded}


def measure(checkout, work):
    """Return {"real": processor seconds per transaction, ...} for one checkout."""
    command = [sys.executable, "-c", READ, str(checkout), str(work)]
    return json.loads(subprocess.run(command, capture_output=True, check=True, cwd=checkout).stdout)


def report(best):
    worst = 0
    for name, before in best["before"].items():
        now = best["now"][name]
        worst = max(worst, now / before)
        print(f"{name}: {before * 1e6:.0f} us before, {now * 1e6:.0f} us now, {now / before:.2f}")
    return int(worst > MAX_RATIO)
