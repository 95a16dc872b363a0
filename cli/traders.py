"""Commands of paper mode: trader, review."""

import contextlib
from argparse import ArgumentTypeError, Namespace
from typing import NamedTuple

from cli import Commands, add_command, add_group, now_ms, print_result
from cli.backtests import add_backtest
from cli.people import with_database
from config import Config


class ReviewAction(NamedTuple):
    """A command about a review: its help, and what it leaves behind and prints."""

    help: str
    state: str
    text: str


FAMILIES = ("momentum", "mean_reversion", "breakout", "flow")
REVIEW_ACTIONS = {
    "open": ReviewAction(
        "open a review: withhold the headline until it is decided",
        "under_review",
        "under review: its headline is withheld",
    ),
    "clear": ReviewAction(
        "close it: nothing was wrong, the headline returns",
        "cleared",
        "cleared: its headline is shown again",
    ),
    "uphold": ReviewAction(
        "uphold it: the record does not count; it starts guarded again",
        "upheld",
        "upheld: the record stays and does not count; it starts guarded again",
    ),
}


def add_commands(commands: Commands) -> None:
    """Add `trader` and its commands."""
    trader = add_group(commands, "trader", "paper traders, which trade with virtual funds")
    create = add_command(trader, "create", run_create, "a paper trader")
    create.add_argument("--name", required=True)
    create.add_argument(
        "--family",
        required=True,
        type=read_family,
        help="momentum, mean_reversion, breakout, flow, or own:NAME of a file of yours",
    )
    create.add_argument(
        "--set", action="append", default=[], type=read_setting, metavar="NAME=N", help="a setting"
    )
    create.add_argument("--start", default="guarded", choices=("guarded", "standard"))
    create.add_argument("--adaptive", default="observe", choices=("off", "observe", "on"))
    create.add_argument("--owner", metavar="ID", help="existing owner (default: create a new one)")
    add_command(trader, "list", run_list, "all traders")
    voice = add_command(trader, "voice", run_voice, "change how a trader speaks")
    voice.add_argument("trader", metavar="TRADER")
    voice.add_argument("--tone", required=True)
    reset = add_command(
        trader, "reset", run_reset, "start a new account period; the old one stays readable"
    )
    reset.add_argument("trader", metavar="TRADER")
    reset.add_argument("--reason", required=True)

    add_backtest(trader)

    review = add_group(commands, "review", "reviews of a paper trader's record")
    for name, action in REVIEW_ACTIONS.items():
        command = add_command(review, name, run_review, action.help)
        command.add_argument("trader", metavar="TRADER")
        command.add_argument("--reason", required=True)


def read_family(text: str) -> str:
    """Return the name of a family or of an own file; ArgumentTypeError for anything else."""
    if text not in FAMILIES and not text.startswith("own:"):
        raise ArgumentTypeError(f"must be one of: {', '.join(FAMILIES)}, own:NAME")
    return text


def read_setting(text: str) -> tuple[str, int]:
    """Read NAME=N; ArgumentTypeError for anything else."""
    from accounts.fields import parse_whole

    name, _, value = text.partition("=")
    number = parse_whole(value)
    if number is None:
        raise ArgumentTypeError("must look like riseBps=600")
    return name, number


@with_database
def run_create(config: Config, args: Namespace) -> None:
    """Create a paper trader."""
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
    print_result(
        args,
        shown,
        f"trader          {made.trader.uid}\nowner           {made.owner.uid}\nrecovery code  "
        f" {made.recovery_code or 'as before'}\nIts funds are virtual and its trades simulated. The"
        " code is shown this once only.",
    )


@with_database
def run_list(config: Config, args: Namespace) -> None:
    """List all paper traders."""
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
    print_result(
        args,
        {"data": rows},
        "\n".join(
            f"{row['traderId']}  {row['ownerId']}  {row['family']:14} "
            f" {row['name']}{'  (retired)' if row['retired'] else ''}"
            for row in rows
        ),
    )


@with_database
def run_voice(config: Config, args: Namespace) -> None:
    """Change the tone of a paper trader."""
    from accounts import traders

    trader = traders.find_trader(args.trader)
    traders.set_profile(trader, voice={"tone": args.tone})
    print_result(
        args,
        {"traderId": trader.uid, "tone": args.tone},
        "new posts use this voice; earlier posts keep their words",
    )


@with_database
def run_reset(config: Config, args: Namespace) -> None:
    """Close a trader's account period and open the next."""
    from accounts import traders

    trader = traders.find_trader(args.trader)
    period = traders.reset_trader(trader, args.reason, now_ms())
    print_result(
        args,
        {"traderId": trader.uid, "period": period.number},
        f"account period {period.number} begins; the earlier ones stay readable",
    )


@with_database
def run_review(config: Config, args: Namespace) -> None:
    """Open, clear or uphold the review of a trader."""
    from accounts import traders

    decide = {
        "open": traders.open_review,
        "clear": traders.clear_review,
        "uphold": traders.uphold_review,
    }[args.action]
    trader, action = traders.find_trader(args.trader), REVIEW_ACTIONS[args.action]
    decide(trader, args.reason, now_ms())
    print_result(args, {"traderId": trader.uid, "review": action.state}, action.text)
