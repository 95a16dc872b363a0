"""How often paper mode's 95% intervals contain the truth: `python -m bench intervals`.

Invented closes with a known true mean return and win rate, 1,000 histories of each kind (or
`--histories`), in four worlds: a fair coin; returns as skewed as those of memecoins; half of a
day's clusters share that day's market; both. Exit 1 if a coverage is outside 92% to 98%.
"""

import argparse
import math
import random
from statistics import NormalDist

from paper.account import Close
from paper.results import find_ratio, find_return, find_win
from paper.rules import DAY_MS

SPENT = 10**9
# The size of a close's move, and of a skewed one's logarithm.
SIZE, SPREAD = 0.1, 0.7
LOW, HIGH = 0.92, 0.98


def fair_coin(chance, market, shared):
    return SIZE if chance.random() < 0.5 else -SIZE


def lopsided(chance, market, shared):
    """Draw from a distribution with mean 0: a few large gains among many losses."""
    return math.exp(chance.gauss(0, 1) * SPREAD - SPREAD**2 / 2) - 1


def half_shared(chance, market, shared):
    return SIZE * (market if shared else chance.gauss(0, 1))


def both(chance, market, shared):
    moved = market if shared else chance.gauss(0, 1)
    return math.exp(moved * SPREAD - SPREAD**2 / 2) - 1


RARE = 1 - NormalDist().cdf(SPREAD / 2)
# By name: a close's mean return and win rate.
WORLDS = {
    "fair coin": (fair_coin, 0.5),
    "lopsided": (lopsided, RARE),
    "half of a day shares the market": (half_shared, 0.5),
    "lopsided, half of a day shares the market": (both, RARE),
}


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench intervals")
    parser.add_argument("--histories", type=int, default=1_000)
    given = parser.parse_args(arguments)
    missed = 0
    print(f"{'world':>42} {'days':>5} {'a day':>6} {'mean':>7} {'win rate':>9}")
    for name in WORLDS:
        for days, a_day in ((10, 6), (20, 6), (30, 6), (30, 12)):
            found = measure(name, days, a_day, given.histories)
            missed += any(not LOW <= one <= HIGH for one in found)
            print(f"{name:>42} {days:5} {a_day:6} {found[0]:7.1%} {found[1]:9.1%}", flush=True)
    return 1 if missed else 0


def measure(name, days, a_day, histories, seed=1):
    """Return how often the intervals of the mean and of the win rate contain the truth."""
    draw, rate = WORLDS[name]
    chance = random.Random(f"{seed}|{name}|{days}|{a_day}")
    means = rates = 0
    for _ in range(histories):
        groups = [[close] for close in invent(chance, draw, days, a_day)]
        low, high = find_ratio(groups, find_return).interval()
        means += low <= 0 <= high
        low, high = find_ratio(groups, find_win, pseudo=True).interval()
        rates += low <= rate <= high
    return means / histories, rates / histories


def invent(chance, draw, days, a_day):
    """Make closes for this many days, each in its own cluster."""
    closes = []
    for day in range(days):
        market = chance.gauss(0, 1)
        for number in range(a_day):
            net = round(SPENT * draw(chance, market, number < a_day // 2))
            at = day * DAY_MS + number * DAY_MS // a_day
            mint = f"token {day} {number}"
            closes.append(Close("", mint, "T", at, at + 1, "stop", net, net, SPENT))
    return closes
