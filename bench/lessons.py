"""How many accounts get a lesson when there is nothing to learn: `python -m bench lessons`.

First, invented closes without any signal: 300 accounts of thirty days for each world of `bench
intervals` and for 3, 6 and 12 closes a day, each with three random-entry accounts. Then the real
engine on martingale prices, `--played` accounts of thirty days. Exit 1 if more than 5% of the
accounts of a kind get a lesson.
"""

import argparse
import math
import random
from bisect import bisect_right
from collections import Counter
from decimal import Decimal

from bench.intervals import SPENT, WORLDS
from paper import brain, rules
from paper.account import Account, Close
from paper.engine import Market, name_twin, play, run_heartbeat
from paper.market import Check, SnapshotRow, Token, parse_snapshot
from paper.player import Player
from paper.rules import DAY_MS, HOUR_MS, Phase, is_first_within
from paper.strategies import Momentum

DAYS, TOKENS, TWINS, BOUND = 30, 8, 3, 0.05
# For the simulated prices: minutes between snapshots, and the size of a move.
MINUTES, MOVE = 15, 0.03


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench lessons")
    parser.add_argument("--accounts", type=int, default=300)
    parser.add_argument("--played", type=int, default=40)
    given = parser.parse_args(arguments)
    worst = 0.0
    for name in WORLDS:
        for a_day in (3, 6, 12):
            share = measure(name, a_day, given.accounts)
            worst = max(worst, share)
            print(f"{name:>42} {a_day:3} closes a day: {share:6.1%} with a lesson", flush=True)
    if given.played:
        found = [play_account(number) for number in range(given.played)]
        share = sum(lessons > 0 for lessons, _ in found) / given.played
        closes = sum(count for _, count in found) / given.played / DAYS
        worst = max(worst, share)
        print(f"engine, {closes:.1f} closes a day: {share:6.1%} of {given.played} with a lesson")
    return 1 if worst > BOUND else 0


# ---- invented closes -----------------------------------------------------------------------------
def measure(name, a_day, accounts, seed=1):
    """Return the share of invented accounts that get a lesson within thirty days."""
    chance = random.Random(f"{seed}|{name}|{a_day}")
    return sum(is_taught(chance, name, a_day) for _ in range(accounts)) / accounts


def is_taught(chance, name, a_day):
    markets = [chance.gauss(0, 1) for _ in range(DAYS)]
    own, *random_ones = (invent(chance, name, a_day, markets) for _ in range(1 + TWINS))
    control = sorted(
        (close for one in random_ones for close in one), key=lambda close: close.closed_at
    )
    for number, close in enumerate(own):
        if is_first_within(own[max(0, number - 1) : number + 1], brain.LOOK_MS):
            at = close.closed_at
            known = since(own[: number + 1], at)
            if brain.find_new_lessons(known, at, since(control[: place(control, at)], at)):
                return True
    return False


def place(closes, at):
    return bisect_right(closes, at, key=lambda close: close.closed_at)


def since(closes, at):
    """Return the closes of the previous two weeks, which a trader remembers."""
    return closes[place(closes, at - 2 * rules.LOOK_BACK_MS) :]


def invent(chance, name, a_day, markets):
    """Make closes over thirty days at random times in one of eight tokens, oldest first."""
    draw, closes = WORLDS[name][0], []
    for at in sorted(chance.randrange(DAYS * DAY_MS) for _ in range(DAYS * a_day)):
        net = round(SPENT * draw(chance, markets[at // DAY_MS], chance.random() < 0.5))
        mint = f"token {chance.randrange(TOKENS)}"
        closes.append(Close("", mint, "T", at, at + HOUR_MS, "stop", net, net, SPENT))
    return closes


# ---- the engine ----------------------------------------------------------------------------------
def play_account(number):
    """Run a momentum trader on thirty days of prices without drift; return its lessons and its
    closes.
    """
    chance = random.Random(f"martingale {number}")
    strategy = Momentum(rise_bps=300, time_stop=8, cooldown_seconds=0, mean_over=6)
    one = Player(1, f"bench {number}", strategy, Account(), "observe", Phase("standard"))
    one.twins = [
        Player(1, name_twin(one.handle, n), strategy, Account(), reviewable=False)
        for n in range(1, TWINS + 1)
    ]
    checks = (Check("supply", "pass"),)
    tokens = [Token(f"M{n}", f"M{n}", 6, 0, 0, checks) for n in range(TOKENS)]
    market, prices, ident = Market(MINUTES * 60_000, tokens), [0.001] * TOKENS, 0
    counted = Counter()
    for step in range(DAYS * 24 * 60 // MINUTES):
        at, seen = step * MINUTES * 60_000 + 10**12, []
        for n, token in enumerate(tokens):
            ident += 1
            prices[n] *= math.exp(chance.gauss(0, MOVE) - MOVE**2 / 2)
            price = format(Decimal(prices[n]), ".18f")
            volume = str(50_000 + chance.randrange(50_000))
            told = ident, token.mint, at, price, "5000", "1500000", volume, volume, volume
            seen.append(parse_snapshot(SnapshotRow(*told, "raydium")))
        run_heartbeat(one, at)
        play(market, [one], seen, at)
        counted["lessons"] += sum(line.kind == "lesson" for line in one.journal.entries)
        counted["closes"] += sum(p.closed_at == at for p in one.journal.positions.values())
        for player in (one, *one.twins):
            player.journal.entries.clear()
    return counted["lessons"], counted["closes"]
