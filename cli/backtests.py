"""`trader backtest`: play recorded snapshots through a strategy."""

import contextlib
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from cli import Commands, add_command, now_ms
from cli.people import with_database
from config import Config

# Percent between two lines of progress.
STEP = 10
NO_VALUE = "-"


def add_backtest(commands: Commands) -> None:
    """Add `backtest` to the commands of `trader`."""
    command = add_command(
        commands, "backtest", run_backtest, "play recorded prices through a strategy"
    )
    command.add_argument("--family", required=True)
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=N[,N...]",
        help="a setting; several values are tried against each other, walking forward",
    )
    command.add_argument("--from", dest="since", default="", metavar="TIME")
    command.add_argument("--to", dest="until", default="", metavar="TIME")
    command.add_argument("--start", default="standard", choices=("guarded", "standard"))
    command.add_argument("--csv", metavar="FILE", help="write the closes to a file, - for here")
    command.add_argument("--quiet", action="store_true", help="tell no progress")


@with_database
def run_backtest(config: Config, args: Namespace) -> None:
    """Play recorded snapshots through a strategy and print what came of it."""
    from accounts import backtests, traders

    told = Progress(args.quiet)
    with contextlib.closing(traders.list_own(config)) as own:
        asked = backtests.check_request(
            args.family, args.set, args.since, args.until, args.start, own
        )
        report = backtests.run_backtest(config, asked, now_ms(), told.note)
    told.note(100)
    _print_report(report, args)


class Progress:
    """Tells on standard error how much is done."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.told = quiet, -1

    def note(self, percent: int) -> None:
        """Print a line each STEP percent."""
        if not self.quiet and percent // STEP > self.told:
            self.told = percent // STEP
            print(f"{self.told * STEP} %", file=sys.stderr, flush=True)


def _print_report(report: dict[str, Any], args: Namespace) -> None:
    import json

    from accounts.backtests import write_table

    table = write_table(report)
    if args.csv == "-":
        sys.stdout.write(table)
        return
    if args.csv:
        Path(args.csv).write_text(table, encoding="utf-8", newline="")
    print(json.dumps(report, ensure_ascii=False) if args.json else format_report(report))


def format_report(report: dict[str, Any]) -> str:
    """Format a report for a terminal."""
    found = report["comparison"]
    check = report["lookAhead"]
    lines = [
        f"SIMULATED backtest of {report['family']}, {report['from']} to {report['to']}",
        f"{report['snapshots']} snapshots of {report['tokens']} tokens, one each"
        f" {report['intervalSeconds']} s; {report['model']}",
        "",
        f"return {report['returnPct']} %, max drawdown {report['maxDrawdownPct']} %, equity"
        f" {report['equitySol']} SOL, {report['openPositions']} positions open",
        f"{report['closeCount']} closes, {found['eligibleCloses']} eligible in"
        f" {found['clusters']} clusters ({found['sample']}); mean {_show(found['meanReturnPct'])} %"
        f" {_show_range(found['meanReturnInterval'])}, win rate {_show(found['winRate'])}"
        f" {_show_range(found['winRateInterval'])}",
        *[
            f"at {one['costs']}x costs: mean {_show(one['meanReturnPct'])} %"
            for one in found["atCosts"]
        ],
        "",
        "walk-forward: settings chosen on what came before, played on what came next",
        *map(_format_fold, report["walkForward"]),
        "",
        "look-ahead check: "
        + ("the same decisions with the rest cut off" if check["same"] else _format_check(check)),
        *report["notes"],
    ]
    return "\n".join(lines)


def _format_fold(fold: dict[str, Any]) -> str:
    before, within = fold["before"], fold["within"]
    return (
        f"  {fold['from']} to {fold['to']}: {within['eligibleCloses']} closes, mean"
        f" {_show(within['meanReturnPct'])} % (before: {before['eligibleCloses']},"
        f" {_show(before['meanReturnPct'])} %)"
    )


def _format_check(check: dict[str, Any]) -> str:
    found = check["difference"]
    return f"DIFFERENT decisions with everything after {found['cut']} cut off: it looks ahead"


def _show(value: object) -> str:
    return NO_VALUE if value is None else str(value)


def _show_range(bounds: list[float] | None) -> str:
    return f"({bounds[0]} to {bounds[1]}, 95 %, clustered)" if bounds else ""
