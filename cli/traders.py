"""The commands of paper mode: trader, review."""

import contextlib
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from cli import (
    Commands,
    add_command,
    add_group,
    now_ms,
    print_result,
    print_rows,
    with_database,
)
from config import Config


class ReviewAction(NamedTuple):
    """A command about a review: its help, the resulting state, and its output."""

    help: str
    state: str
    text: str


FAMILIES = ("momentum", "mean_reversion", "breakout", "flow", "copy")
REVIEW_ACTIONS = {
    "open": ReviewAction(
        "open a review: withhold the headline until it is decided",
        "under_review",
        "under review: its headline is withheld",
    ),
    "clear": ReviewAction(
        "clear it: nothing was wrong, so the headline is shown again",
        "cleared",
        "cleared: its headline is shown again",
    ),
    "uphold": ReviewAction(
        "uphold it: the record does not count, and the trader restarts guarded",
        "upheld",
        "upheld: the record stays but does not count, and the trader restarts guarded",
    ),
}


def add_commands(commands: Commands) -> None:
    trader = add_group(commands, "trader", "paper traders, which trade with virtual funds")
    create = add_command(trader, "create", run_create, "a paper trader")
    create.add_argument("--name", required=True)
    create.add_argument(
        "--family",
        required=True,
        type=read_family,
        help="momentum, mean_reversion, breakout, flow, copy, or own:NAME for a file of yours",
    )
    create.add_argument(
        "--set", action="append", default=[], type=read_setting, metavar="NAME=N", help="a setting"
    )
    create.add_argument("--start", default="guarded", choices=("guarded", "standard"))
    create.add_argument("--adaptive", default="observe", choices=("off", "observe", "on"))
    create.add_argument("--owner", metavar="ID", help="existing owner (default: create a new one)")
    add_command(trader, "list", run_list, "all traders")
    text = "change a trader's writing style"
    voice = add_command(trader, "voice", run_voice, text, trader="TRADER")
    voice.add_argument("--tone", required=True)
    text = "start a new account period; earlier ones stay readable"
    reset = add_command(trader, "reset", run_reset, text, trader="TRADER")
    reset.add_argument("--reason", required=True)
    add_backtest(trader)
    review = add_group(commands, "review", "reviews of a paper trader's record")
    for name, action in REVIEW_ACTIONS.items():
        command = add_command(review, name, run_review, action.help, trader="TRADER")
        command.add_argument("--reason", required=True)


def read_family(text: str) -> str:
    if text not in FAMILIES and not text.startswith("own:"):
        raise ArgumentTypeError(f"must be one of: {', '.join(FAMILIES)}, own:NAME")
    return text


def read_setting(text: str) -> tuple[str, int | str]:
    from accounts.fields import parse_whole

    name, _, value = text.partition("=")
    number = parse_whole(value)
    if number is None and name != "bot":
        raise ArgumentTypeError("must look like riseBps=600")
    return name, value if number is None else number


@with_database
def run_create(config: Config, args: Namespace) -> None:
    from accounts import owners, traders

    owner = owners.find_owner(args.owner) if args.owner else None
    with contextlib.closing(traders.list_own(config)) as own:
        made = traders.create_trader(
            args.name,
            args.family,
            now_ms(),
            args.start,
            owner,
            settings=dict(args.set),
            adaptive=args.adaptive,
            own=own,
        )
    shown = {
        "traderId": made.trader.uid,
        "ownerId": made.owner.uid,
        "recoveryCode": made.recovery_code,
    }
    lines = (
        f"trader          {made.trader.uid}",
        f"owner           {made.owner.uid}",
        f"recovery code   {made.recovery_code or 'as before'}",
        "Its funds are virtual and its trades simulated. The code won't be shown again.",
    )
    print_result(args, shown, "\n".join(lines))


@with_database
def run_list(config: Config, args: Namespace) -> None:
    from accounts import traders

    rows = [
        {
            "traderId": one.uid,
            "ownerId": one.owner.uid,
            "name": one.name,
            "handle": one.handle,
            "family": one.family,
            "retired": one.retired_at is not None,
        }
        for one in traders.list_traders()
    ]
    print_rows(args, rows, "traderId", "ownerId", "family", "retired", "name")


@with_database
def run_voice(config: Config, args: Namespace) -> None:
    from accounts import traders

    trader = traders.find_trader(args.trader)
    traders.set_profile(trader, voice={"tone": args.tone})
    text = "new posts use this voice; earlier posts stay as they are"
    print_result(args, {"traderId": trader.uid, "tone": args.tone}, text)


@with_database
def run_reset(config: Config, args: Namespace) -> None:
    from accounts import traders

    trader = traders.find_trader(args.trader)
    period = traders.reset_trader(trader, args.reason, now_ms())
    text = f"account period {period.number} begins; earlier ones stay readable"
    print_result(args, {"traderId": trader.uid, "period": period.number}, text)


@with_database
def run_review(config: Config, args: Namespace) -> None:
    from accounts import traders

    trader, action = traders.find_trader(args.trader), REVIEW_ACTIONS[args.action]
    if args.action == "open":
        traders.open_review(trader, args.reason, now_ms())
    else:
        traders.decide_review(trader, action.state, args.reason, now_ms())
    print_result(args, {"traderId": trader.uid, "review": action.state}, action.text)


# Percent between progress lines.
STEP = 10
NO_VALUE = "-"


def add_backtest(commands: Commands) -> None:
    command = add_command(commands, "backtest", run_backtest, "run a strategy on recorded prices")
    command.add_argument("--family", required=True)
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=N[,N...]",
        help="a setting; walk-forward compares several values",
    )
    command.add_argument("--from", dest="since", default="", metavar="TIME")
    command.add_argument("--to", dest="until", default="", metavar="TIME")
    command.add_argument("--start", default="standard", choices=("guarded", "standard"))
    command.add_argument(
        "--csv", metavar="FILE", help="write closes to a file, or to standard output with -"
    )
    command.add_argument("--quiet", action="store_true", help="don't show progress")


@with_database
def run_backtest(config: Config, args: Namespace) -> None:
    from accounts import backtests, traders

    text = Progress(args.quiet)
    with contextlib.closing(traders.list_own(config)) as own:
        asked = backtests.check_request(
            args.family, args.set, args.since, args.until, args.start, own
        )
        report = backtests.run_backtest(config, asked, now_ms(), text.note)
    text.note(100)
    _print_report(report, args)


class Progress:
    """Prints progress on standard error."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.text = quiet, -1

    def note(self, percent: int) -> None:
        if not self.quiet and percent // STEP > self.text:
            self.text = percent // STEP
            print(f"{self.text * STEP}%", file=sys.stderr, flush=True)


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
    found = report["comparison"]
    check = report["lookAhead"]
    lines = [
        f"SIMULATED backtest of {report['family']}, {report['from']} to {report['to']}",
        f"{report['snapshots']} snapshots of {report['tokens']} tokens, one each"
        f" {report['intervalSeconds']} s; {report['model']}",
        "",
        f"return {_show(report['returnPct'])}, max drawdown {report['maxDrawdownPct']}%, equity"
        f" {report['equitySol']} SOL, {report['openPositions']} positions open",
        f"{report['closeCount']} closes, {found['eligibleCloses']} eligible in"
        f" {found['clusters']} clusters ({found['sample']}); mean {_show(found['meanReturnPct'])}"
        f"{_show_range(found['meanReturnInterval'], _show)}, win rate"
        f" {_show_rate(found['winRate'])}{_show_range(found['winRateInterval'], _show_rate)}",
        *[
            f"at {one['costs']}x costs: mean {_show(one['meanReturnPct'])}"
            for one in found["atCosts"]
        ],
        *_format_controls(report["controls"]),
        "",
        "walk-forward: settings chosen on earlier data, tested on later data",
        *map(_format_fold, report["walkForward"]),
        "",
        "look-ahead check: "
        + ("same decisions without later data" if check["same"] else _format_check(check)),
        *report["notes"],
    ]
    return "\n".join(lines)


def _format_controls(controls: dict[str, Any]) -> list[str]:
    random, held = controls["randomEntry"], controls["holdingSol"]
    return [
        f"random entries: return {_show(random['returnPct'])}, {random['closes']} closes, mean"
        f" {_show(random['meanReturnPct'])}{_show_range(random['meanReturnInterval'], _show)}",
        f"holding SOL: return {_show(held['returnPct'])}; in dollars {_show(held['usdChangePct'])}",
    ]


def _format_fold(fold: dict[str, Any]) -> str:
    before, within = fold["before"], fold["within"]
    return (
        f"  {fold['from']} to {fold['to']}: {within['eligibleCloses']} closes, mean"
        f" {_show(within['meanReturnPct'])} (before: {before['eligibleCloses']},"
        f" {_show(before['meanReturnPct'])}; random entries: {fold['random']['eligibleCloses']},"
        f" {_show(fold['random']['meanReturnPct'])})"
    )


def _format_check(check: dict[str, Any]) -> str:
    found = check["difference"]
    return f"DIFFERENT decisions without the data after {found['cut']}: the strategy looks ahead"


def _show(percentage: float | None) -> str:
    return NO_VALUE if percentage is None else f"{percentage}%"


def _show_rate(share: float | None) -> str:
    return NO_VALUE if share is None else f"{100 * share:.0f}%"


def _show_range(bounds: list[float] | None, show: Callable[[float], str]) -> str:
    return f" ({show(bounds[0])} to {show(bounds[1])}, 95%, clustered)" if bounds else ""
