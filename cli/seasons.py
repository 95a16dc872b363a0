"""The command season."""

import contextlib
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cli import Commands, Parser, add_command, add_group, now_ms, print_result, show_time
from cli.people import add_reason, with_database
from config import Config

if TYPE_CHECKING:
    from accounts.tables import Season

# The options, and the fields that they fill.
FIELDS = {
    "name": ("name", "NAME", "as shown to readers"),
    "start": ("starts_at", "TIME", "a full hour in UTC, such as 2026-12-01T00:00Z"),
    "end": ("ends_at", "TIME", "a full hour after the start"),
    "rule": ("rule", "RULE", "pnl (default), return or pnl_floor (worst case)"),
    "currency": ("currency", "SYMBOL", "SOL (default) or a stablecoin"),
    "wallets": ("wallets", "WHICH", "proven (default) or all"),
    "min-trades": ("min_trades", "N", "sales with a known cost required for a rank (default: 3)"),
}


def add_commands(commands: Commands) -> None:
    season = add_group(commands, "season", "contests of bots, with frozen standings")
    create = add_command(season, "create", run_create, "announce a season")
    add_fields(create, required=("name", "start", "end"))
    add_command(season, "list", run_list, "all seasons, newest first")
    change = add_command(
        season,
        "change",
        run_change,
        "change a season that hasn't started; omitted options stay the same",
    )
    cancel = add_command(season, "cancel", run_cancel, "cancel a season that isn't final")
    for command in (change, cancel):
        command.add_argument("season", metavar="SEASON")
        add_reason(command)
    add_fields(change)


def add_fields(command: Parser, required: tuple[str, ...] = ()) -> None:
    for option, (field, metavar, help) in FIELDS.items():
        command.add_argument(
            f"--{option}", dest=field, metavar=metavar, help=help, required=option in required
        )


def read_fields(args: Namespace) -> dict[str, str]:
    """Return the given fields."""
    given = {field: getattr(args, field) for field, *_ in FIELDS.values()}
    return {field: text for field, text in given.items() if text is not None}


@contextlib.contextmanager
def naming_options() -> Iterator[None]:
    """Use the option's name in an error about a field."""
    from accounts.problem import Problem, invalid

    options = {field: option for option, (field, *_) in FIELDS.items()}
    try:
        yield
    except Problem as problem:
        told = problem.errors[0] if problem.errors else {"field": ""}
        if told["field"] not in options:
            raise
        raise invalid(f"--{options[told['field']]}", told["message"]) from None


@with_database
def run_create(config: Config, args: Namespace) -> None:
    from accounts import acts, seasons

    with naming_options():
        made = seasons.create_season(read_fields(args), acts.COMMAND_LINE, now_ms())
    print_season(config, args, made)


@with_database
def run_change(config: Config, args: Namespace) -> None:
    from accounts import acts, seasons

    reason = acts.check_reason(args.reason)
    with naming_options():
        seasons.change_season(args.season, read_fields(args), acts.COMMAND_LINE, reason, now_ms())
    print_season(config, args, seasons.find_season(args.season))


@with_database
def run_cancel(config: Config, args: Namespace) -> None:
    from accounts import acts, seasons

    reason = acts.check_reason(args.reason)
    seasons.cancel_season(args.season, acts.COMMAND_LINE, reason, now_ms())
    print_season(config, args, seasons.find_season(args.season))


@with_database
def run_list(config: Config, args: Namespace) -> None:
    from accounts import seasons

    rows = [show_season(one) for one in seasons.list_seasons()]
    print_result(args, {"data": rows}, "\n".join(map(write_season, rows)) or "no seasons")


def print_season(config: Config, args: Namespace, season: "Season") -> None:
    shown = show_season(season)
    link = f"{config.base_url}/seasons/{season.uid}"
    print_result(args, {**shown, "url": link}, f"{write_season(shown)}\n{link}")


def show_season(season: "Season") -> dict[str, Any]:
    """Return a season as JSON."""
    from accounts import seasons

    return {
        "seasonId": season.uid,
        "state": seasons.find_state(season, now_ms()),
        "name": season.name,
        "startsAt": show_time(season.starts_at),
        "endsAt": show_time(season.ends_at),
        "rule": season.rule,
        "currency": season.symbol,
        "wallets": season.wallets,
        "minTrades": season.min_sales,
    }


def write_season(row: dict[str, Any]) -> str:
    terms = (
        f"{row['rule']} in {row['currency']}, {row['wallets']} wallets, {row['minTrades']} sales"
    )
    return (
        f"{row['seasonId']}  {row['state']:9}  {row['startsAt']}  {row['endsAt']}  {terms} "
        f" {row['name']}"
    )
