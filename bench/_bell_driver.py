"""Send real transactions of many wallets to a running Surfpool, for `python -m bench bell`.

A separate program, because the folder in --live also has a module `chain`. It writes the wallets to
--wallets, waits for the file --go, and prints the sent transactions as JSON.
"""

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("live", "info", "wallets", "go"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--people", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seed", required=True)
    given = parser.parse_args()
    sys.path[:0] = [str(given.live)]
    market = prepare(given)
    draft = given.wallets.with_suffix(".part")
    draft.write_text(json.dumps([str(pair.pubkey()) for pair in market.wallets]))
    draft.rename(given.wallets)
    while not given.go.exists():
        time.sleep(0.05)
    first = len(market.sent)
    play(market, given)
    print(json.dumps({"sent": market.sent[first:]}))


def prepare(given):
    """Make a market in which everyone has bought every mint, so that their accounts are open."""
    from solders.keypair import Keypair
    from stories import Market

    from chain import Node

    info = json.loads(given.info.read_text())
    payer = Keypair.from_bytes(bytes(info["payerSecret"]))
    market = Market(Node(info["rpc"]), payer, given.seed)
    market.wallets = [
        Keypair.from_seed(hashlib.sha256(f"{given.seed}/person{n}".encode()).digest())
        for n in range(given.people)
    ]
    market.set_up()
    for person in range(given.people):
        market.fund(person)
    for person in range(given.people):
        instructions, signers = [], []
        for mint in range(4):
            instructions += market.to_wallet(person, mint, 10**9)
        signers = [market.wallets[person], market.maker]
        market.node.wait(market.send("open", instructions, signers))
        market.node.wait(market.send("open", *market.wrap(person)))
    return market


def play(market, given):
    """Send these people's transactions at this rate until all are sent."""
    from stories import Impossible

    # Lookup tables contain few addresses, and no accounts are opened or closed, so that the figures
    # are for typical receipts.
    names = [n for n in market.weights if "account" not in n and "close" not in n]
    weights = [market.weights[name] for name in names]
    begun, done = time.monotonic(), 0
    while done < given.count:
        before = dict(market.held), dict(market.wrapped), dict(market.second)
        try:
            story = market.rng.choices(names, weights)[0]
            person = market.rng.randrange(given.people)
            instructions, signers = getattr(market, story)(person)
        except Impossible:
            market.held, market.wrapped, market.second = before
            continue
        market.send(story, instructions, signers)
        done += 1
        time.sleep(max(0.0, begun + done / given.rate - time.monotonic()))
    time.sleep(3)


if __name__ == "__main__":
    main()
