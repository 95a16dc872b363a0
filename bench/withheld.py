"""Every receipt of the recorded history that changes a balance of a wallet, withheld for good, one
at a time; then every one that changes none.

    python -m bench withheld [--every N] [--wallet 1|2|3]

Right is: coverage is not `complete`, a gap names the slot, no sale after it in a mint it could
touch has a result, and every result that is shown is the true one; listed again, the ledger is the
whole one byte for byte. What came before everything else, or changes nothing, is found by the
nightly full scan. Exit 1 where not.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import config
import storage

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench withheld")
    parser.add_argument("--every", type=int, default=1, help="try only every Nth receipt")
    parser.add_argument("--wallet", type=int, help="only this one of the three")
    given = parser.parse_args(arguments)
    from corpus import read_history

    history = read_history()
    short = 0
    with tempfile.TemporaryDirectory() as folder:
        settings = config.load(
            {"DATA_DIR": folder, "EXTRA_SWAP_PROGRAMS": history["venue"]}, dotenv=None
        )
        database = storage.connect(settings)
        storage.migrate(database)
        with database.connection_context():
            for number, wallet in enumerate(history["wallets"], 1):
                if given.wallet in (None, number):
                    short += try_wallet(settings, history, wallet, number, given.every)
    return int(bool(short))


def try_wallet(settings, history, wallet, number, every):
    from lookout import Lookout
    from node import Chain, FakeNode

    def begin(node):
        # All of it has happened by then: what is ahead of the clock counts from its listing on.
        made = Lookout.begin(settings, node, wallets=[wallet])
        made.clock.sleep(max(row.receipt["blockTime"] for row in chain.rows) - made.now // 1000)
        return made

    whole = Chain.recorded(history)
    # What else happened there changes nothing for this wallet.
    chain = Chain(whole.touching(wallet))
    moving = {row.signature for row in chain.moving(wallet)}
    sound = begin(FakeNode(chain)).settle()
    truth, results, opening = (
        sound.ledger(),
        {t.signature: t.result for t in sound.trades()},
        sound.coverage()["openingInventoryUnknown"],
    )
    print(
        f"wallet {number}: {len(chain.rows)} receipts, {len(moving)} change a balance; with all of"
        f" them {sound.state()}, opening inventory of {len(opening)} mints",
        flush=True,
    )
    counts, begun = Counter(), time.monotonic()
    for place, row in enumerate(chain.rows):
        if place % every:
            continue
        node = FakeNode(chain)
        node.withhold(row.signature)
        seen = begin(node).settle()
        earlier = set().union(*(mints_of(before, wallet) for before in chain.rows[:place]))
        verdict = (
            judge(seen, row, wallet, results, opening, earlier)
            if row.signature in moving
            else judge_quiet(seen, sound.state() if number == 3 else "complete")
        )
        node.give(row.signature)
        # What no gap tells of is found by the nightly full scan.
        seen.clock.sleep(1 if "gap" in verdict else 86_400)
        seen.look(6)
        if seen.settle().ledger() != truth:
            verdict += " NOT HEALED"
        counts[verdict] += 1
        if "NOT" in verdict:
            print("  SHORT", row.signature[:12], row.slot, verdict, seen.state(), flush=True)
    for verdict, count in sorted(counts.items()):
        print(f"  {count:4} {verdict}")
    print(f"  {time.monotonic() - begun:.0f} s", flush=True)
    return sum(count for verdict, count in counts.items() if "NOT" in verdict)


def mints_of(row, wallet):
    return {
        b["mint"]
        for side in ("preTokenBalances", "postTokenBalances")
        for b in row.receipt["meta"][side]
        if b["owner"] == wallet
    }


def judge(seen, row, wallet, results, opening, earlier):
    """What was said while `row` was withheld, in words; NOT stands where it was not right.

    `earlier`: mints the wallet moved before. Where its history has no beginning, what a first
    receipt moved cannot be told from opening inventory.
    """
    told = [gap for gap in seen.gaps() if gap[0] <= row.slot <= gap[1]]
    mints = mints_of(row, wallet)
    unknown = set(seen.coverage()["openingInventoryUnknown"]) - set(opening)
    verdict = (
        "named by a gap"
        if told
        else (
            "partial, taken for opening inventory of its mint"
            if unknown & mints
            else (
                "partial, taken for the time before the history" if not seen.gaps() else "NOT named"
            )
        )
    )
    if seen.state() != "partial":
        verdict += f" NOT partial but {seen.state()}"
    end = max((gap[1] for gap in told), default=None)
    wrong = [t for t in seen.trades() if t.result is not None and t.result != results[t.signature]]
    touched = mints & earlier if opening else mints
    if told and any(
        t.kind == "sell" and t.slot > end and t.mint in touched and t.result is not None
        for t in seen.trades()
    ):
        verdict += " NOT without results after it"
    if told and wrong:
        verdict += " NOT only true results"
    return verdict


def judge_quiet(seen, state):
    return (
        "changes nothing, found by the nightly full scan"
        if seen.state() == state
        else f"changes nothing, yet NOT {state} but {seen.state()}"
    )
