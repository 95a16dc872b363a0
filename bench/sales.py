"""Check that no sale pays more than the exact formula: `python -m bench sales`.

Random sales (100,000, or `--sales`) with 0 to 18 decimals, each compared to the constant product as
a fraction, computed by independent code. Then swaps that get exactly that fraction, with prices
that move 1, 3 and 5% a minute: the model's measured error must be rounding only. Exit 1 otherwise.
"""

import argparse
import math
import random
from fractions import Fraction

from chain.reading.pools import PoolReading, State
from paper import fills, measured
from paper.fills import NEVER_TRADED, Terms
from paper.market import SnapshotRow, parse_snapshot


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench sales")
    parser.add_argument("--sales", type=int, default=100_000)
    parser.add_argument("--swaps", type=int, default=2_000)
    given = parser.parse_args(arguments)
    above, sold = try_sales(given.sales)
    print(f"{above} of {sold} random sales pay more than the exact formula")
    worst = 0
    for percent in (1, 3, 5):
        model, drift = try_swaps(given.swaps, percent / 100)
        worst = max(worst, model)
        print(f"{percent} % a minute: model error p90 {model} bps, snapshot drift p90 {drift} bps")
    return 1 if above or worst else 0


def try_sales(count, seed=1):
    """Return how many random sales pay too much, and how many there were."""
    chance, above, sold = random.Random(seed), 0, 0
    for number in range(count):
        decimals, reserve = chance.randrange(19), 10 ** chance.uniform(0, 14)
        price = f"{10 ** chance.uniform(-15, 0):.18f}"
        raw = int(10 ** chance.uniform(0, 18)) + 1
        pool = f"{int(reserve) + 1}e-9"
        snapshot = parse_snapshot(
            SnapshotRow(number, "A", 0, price, pool, None, None, venue="raydium")
        )
        if not snapshot.price:
            continue
        found = fills.quote("sell", raw, snapshot, Terms(decimals, 0), NEVER_TRADED, 0)
        if found is None:
            continue
        side = Fraction(int(reserve) + 1)
        tokens = side / (Fraction(price) * 10**9 / 10**decimals)
        exact = side - side * tokens / (tokens + found.raw)
        sold += 1
        above += found.mid - found.slippage > exact
    return above, sold


def try_swaps(count, volatility, seed=1):
    """Make real swaps that get exactly the formula's amount, each up to a minute after its
    snapshot. Return the 90th percentile of the model's error and of the snapshot's drift, in basis
    points.
    """
    chance, errors, drifts = random.Random(f"{seed}|{volatility}"), [], []
    for number in range(count):
        minutes = chance.random()
        sol, raw = chance.randrange(10**11, 10**13), chance.randrange(10**12, 10**15)
        moved = math.exp(chance.gauss(0, volatility * math.sqrt(minutes)) / 2)
        swap, pool = make_swap(chance, int(sol * moved), int(raw / moved))
        price = f"{sol / raw / 1_000:.18f}"
        before = parse_snapshot(
            SnapshotRow(number, "A", 0, price, f"{sol}e-9", None, None, venue="raydium")
        )
        found = measured.measure(swap, pool, before)
        errors.append(abs(found.bps))
        drifts.append(abs(found.drift_bps))
    return measured.find_quantile(sorted(errors), 90), measured.find_quantile(sorted(drifts), 90)


def make_swap(chance, sol, raw):
    """Return a swap in a pool with a 25 bps fee, computed with fractions, and its reading."""
    side = chance.choice(("buy", "sell"))
    given = (sol if side == "buy" else raw) // chance.randrange(50, 5_000)
    net = Fraction(given * 9_975, 10_000)
    if side == "buy":
        lamports, units = given, math.floor(raw * net / (sol + net))
        after = State(sol + lamports, raw - units, sol + lamports, raw - units)
    else:
        lamports, units = math.floor(sol * net / (raw + net)), given
        after = State(sol - lamports, raw + units, sol - lamports, raw + units)
    before = State(sol, raw, sol, raw)
    pool = PoolReading("Raydium v4", "P", 25, "input", False, before, after)
    return measured.RealSwap("t", 0, "raydium", side, "A", 6, 0, units, lamports), pool
