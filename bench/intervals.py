"""How often the intervals beside win rates hold the truth: `python -m bench intervals`.

Invented closes whose true win rate is known, 400 of a kind unless `--worlds` says else: five
traders of one family that make the same trade nine times of ten. Printed for each number of
clusters and rate: how often the interval holds the truth, clustered and, for comparison, as if all
closes were independent.
"""

import argparse
import math
import random

from paper.clusters import Share, find_rate_interval

TRADERS, SAME = 5, 0.9
# Of the normal distribution, for 95 %.
Z = 1.959963984540054


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench intervals")
    parser.add_argument("--worlds", type=int, default=400)
    given = parser.parse_args(arguments)
    print(f"{'clusters':>8} {'rate':>5} {'clustered':>10} {'as if independent':>18}")
    for count in (8, 12, 20, 40, 80):
        for rate in (0.3, 0.5):
            clustered, independent = measure(count, rate, given.worlds)
            print(f"{count:8} {rate:5.2f} {clustered:10.1%} {independent:18.1%}", flush=True)
    return 0


def measure(count, rate, worlds, seed=1):
    """How often each interval holds the rate, of so many invented worlds."""
    chance, held, naive = random.Random(f"{seed}|{count}|{rate}"), 0, 0
    for _ in range(worlds):
        shares = [draw(chance, rate) for _ in range(count)]
        found = find_rate_interval(shares)
        held += found.low <= rate <= found.high
        low, high = wilson(sum(one.part for one in shares), sum(one.whole for one in shares))
        naive += low <= rate <= high
    return held / worlds, naive / worlds


def draw(chance, rate):
    """One trade that the traders share; one in ten of them makes another one instead."""
    shared = chance.random() < rate
    outcomes = [
        shared if chance.random() < SAME else chance.random() < rate for _ in range(TRADERS)
    ]
    return Share(sum(outcomes), TRADERS)


def wilson(wins, count):
    """Wilson's score interval of a rate of independent observations (Wilson 1927)."""
    square = Z * Z
    middle = (wins + square / 2) / (count + square)
    spread = Z * math.sqrt(wins * (count - wins) / count + square / 4) / (count + square)
    return middle - spread, middle + spread
