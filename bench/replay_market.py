"""Run a recorded market through the simulation as fast as it goes: `python -m bench replay-market
FILE [--start standard] [--set family.setting=number ...]`.

FILE is JSON, as `python -m bench record-market` writes it or by hand:
    {"intervalMs": 60000, "tokens": [{"mint", "symbol", "decimals", "bornAt"|null, "discoveredAt",
    "checks": {key: status}}],
     "snapshots": [[at in ms, mint, priceSol, poolSol, liquidityUsd, volume24hUsd, volume5mUsd,
     volume1hUsd, venue, pair, marketCapUsd, priceUsd], ...]}     (in the order they were taken;
     amounts are decimal texts or null; what stands behind volume24hUsd may be missing)

One trader of each family plays it. Printed: the comparison of the families, and a digest of
everything that happened. The same file and settings give the same digest, on every machine.
"""

import argparse
import hashlib
import itertools
import json
import time

import orjson

from paper import brain, diary, engine, results
from paper.account import STARTING_CASH, Account
from paper.adaptive import run_heartbeat, summarize
from paper.guard import Phase
from paper.market import Check, Token, parse_snapshot
from paper.recent import Market
from paper.strategies import FAMILIES, BadSetting, parse_settings
from paper.trader import Trader
from voice import builtin


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m bench replay-market", description=__doc__.splitlines()[0]
    )
    parser.add_argument("file")
    parser.add_argument("--start", choices=("guarded", "standard"), default="guarded")
    parser.add_argument("--set", action="append", default=[], metavar="FAMILY.SETTING=NUMBER")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object, every line of every diary in it"
    )
    args = parser.parse_args(arguments)
    try:
        strategies = {
            family: parse_settings(family, settings)
            for family, settings in read_settings(args.set).items()
        }
    except BadSetting as error:
        parser.error(f"{error.field} {error}")
    except ValueError as error:
        parser.error(str(error))
    with open(args.file, encoding="utf-8") as file:
        recording = json.load(file)
    started = time.perf_counter()
    players = replay(recording, strategies, args.start)
    seconds = time.perf_counter() - started
    report = {family: describe(player) for family, player in zip(FAMILIES, players, strict=False)}
    if args.json:
        print(orjson.dumps({"digest": digest(report), "families": report}).decode())
    else:
        print_report(report, len(recording["snapshots"]), seconds)


def read_settings(given):
    """`momentum.riseBps=800` -> {"momentum": {"riseBps": 800}, ...}, with all families."""
    settings = {family: {} for family in FAMILIES}
    for text in given:
        name, _, value = text.partition("=")
        family, _, setting = name.partition(".")
        if family not in settings or not value.lstrip("-").isdigit():
            raise ValueError(
                f"--set takes FAMILY.SETTING=NUMBER, the family one of {', '.join(FAMILIES)}"
            )
        settings[family][setting] = int(value)
    return settings


def replay(recording, strategies, start):
    """The traders after the last snapshot; each moment is seen when it happens."""
    market = Market(recording["intervalMs"], [read_token(one) for one in recording["tokens"]])
    snapshots = [
        parse_snapshot(number, mint, at, *rest)
        for number, (at, mint, *rest) in enumerate(recording["snapshots"], 1)
    ]
    first = snapshots[0].at if snapshots else 0
    players = [
        Trader(
            number,
            f"the-{family.replace('_', '-')}-trader",
            strategy,
            Account(),
            phase=Phase(start, since=first),
        )
        for number, (family, strategy) in enumerate(strategies.items(), 1)
    ]
    for at, group in itertools.groupby(snapshots, lambda one: one.at):
        for player in players:
            run_heartbeat(player, at)
        engine.play(market, players, list(group), at)
    return players


def read_token(told):
    return Token(
        told["mint"],
        told["symbol"],
        told["decimals"],
        told.get("bornAt"),
        told["discoveredAt"],
        tuple(itertools.starmap(Check, told["checks"].items())),
        told.get("transferFeeBps", 0),
    )


def describe(player):
    """What the comparison counts, what the diary says, what would be posted."""
    closes = [
        summarize(position, str(position.number), player.reviewed)
        for position in player.journal.positions.values()
        if position.closed_at is not None
    ]
    lines = [
        [entry.at, diary.format_line(entry.kind, entry.facts)] for entry in player.journal.entries
    ]
    return {
        **results.compare(closes, STARTING_CASH),
        "closes": [
            [close.closed_at, close.symbol, close.reason, str(close.gross), str(close.net)]
            for close in closes
        ],
        "openPositions": len(player.account.positions),
        "cashLamports": str(player.account.cash),
        "reviewed": player.reviewed,
        "diary": lines,
        "posts": compose(player),
    }


def compose(player):
    persona, posts = builtin.default_persona(player.handle), []
    for entry in player.journal.entries:
        facts = diary.find_news(entry.kind, entry.facts)
        if facts:
            posts.append(
                builtin.write(persona, facts, f"{player.handle}|post|{len(posts) + 1}", posts[-20:])
            )
    return posts


def digest(report):
    return hashlib.sha256(orjson.dumps(report, option=orjson.OPT_SORT_KEYS)).hexdigest()


def print_report(report, count, seconds):
    print(
        f"{count} snapshots in {seconds:.2f} s\n{'family':15} closes  eligible   mean %  median %  "
        " worst %  win rate  interval          costs  open  review"
    )
    for family, row in report.items():
        interval = "-".join(f"{bound:.2f}" for bound in row["winRateInterval"] or ()) or "-"
        figures = [
            ("-" if row[name] is None else f"{row[name]:.2f}")
            for name in ("meanReturnPct", "medianReturnPct", "worstCloseReturnPct", "winRate")
        ]
        print(
            f"{family:15} {len(row['closes']):6}  {row['eligibleCloses']:8}  {figures[0]:>7} "
            f" {figures[1]:>8}  {figures[2]:>8}  {figures[3]:>8}  {interval:15} "
            f" {'-' if row['costShare'] is None else row['costShare']:>5} "
            f" {row['openPositions']:>4}  {'yes' if row['reviewed'] else 'no'}"
        )
    print(f"{brain.NOTE}\ndigest {digest(report)}")
