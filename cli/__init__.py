"""The command line, with a module for each group of commands.

A command imports what it needs when it runs, so that `app.py --help` is fast.
"""

import argparse
import contextlib
import datetime
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

if TYPE_CHECKING:
    from config import Config


class Parser(argparse.ArgumentParser):
    """A parser whose errors never repeat the input, because it may contain a pasted secret."""

    def error(self, message: str) -> NoReturn:
        message = re.sub(
            r"(unrecognized arguments|ambiguous option|invalid \w+( value)?|ignored explicit"
            r" argument)\b.*?(\(choose from .*)?$",
            r"\1 \3",
            message,
            flags=re.S,
        )
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message.strip()}\n")


# A module's place for its commands. Quoted, because argparse's class isn't subscriptable at run
# time.
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
NO_DATABASE = "DATA_DIR has no database yet. Run `app.py migrate` first"
Run: TypeAlias = "Callable[[Config, argparse.Namespace], int | None]"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def show_time(ms: int | None) -> str | None:
    """Format UTC milliseconds as RFC 3339, without a fraction for whole seconds."""
    if ms is None:
        return None
    seconds, rest = divmod(ms, 1000)
    text = datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:03}Z" if rest else f"{text}Z"


def print_result(args: argparse.Namespace, shown: object, text: str) -> None:
    print(json.dumps(shown, ensure_ascii=False) if args.json else text)


def add_command(commands: Commands, name: str, run: Run, help: str, **operands: str) -> Parser:
    """Add and return a command with --json that runs `run(config, args)`.

    `operands` are its required arguments, with their names in the help.
    """
    command = commands.add_parser(name, help=help, description=help)
    for operand, metavar in operands.items():
        command.add_argument(operand, metavar=metavar)
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.set_defaults(run=run)
    return command


def add_reason(command: Parser) -> None:
    command.add_argument("--reason", default="", help="the reason; `admin audit` shows it")


def add_group(commands: Commands, name: str, help: str) -> Commands:
    group = commands.add_parser(name, help=help)
    return group.add_subparsers(dest="action", required=True, metavar="ACTION")


def print_rows(args: argparse.Namespace, rows: Sequence[dict[str, Any]], *columns: str) -> None:
    print_result(args, {"data": rows}, format_rows(rows, *columns))


def format_rows(rows: Sequence[dict[str, Any]], *columns: str) -> str:
    if not rows:
        return ""
    cells = [columns, *([_format_cell(name, row[name]) for name in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (zip(line, widths, strict=True) for line in cells)
    return "\n".join(
        "  ".join(f"{text:{width}}" for text, width in line).rstrip() for line in lines
    )


def _format_cell(name: str, value: Any) -> str:
    """A flag that is set is written as its name."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    if value is True:
        return name
    return "-" if value in (None, "") or value is False else str(value)


def read_file_name(text: str) -> Path:
    if not Path(text).name:
        raise argparse.ArgumentTypeError("must be a file name")
    return Path(text)


@contextlib.contextmanager
def open_database(config: "Config") -> Iterator[None]:
    """Open a connection to the database.

    Raises Problem `not_found` if there is none (it isn't created), and Refused if it stays locked
    or its schema is from another version.
    """
    import storage
    from accounts.problem import Problem
    from operate.instance import Refused, refusing_trouble

    if not config.database_url and not config.database_path.exists():
        raise Problem("not_found", NO_DATABASE)
    with (
        refusing_trouble(config.data_dir, "nothing was stored"),
        storage.connect(config).connection_context(),
    ):
        if not storage.database.table_exists("owner"):
            raise Problem("not_found", NO_DATABASE)
        newer, missing = storage.compare_migrations(storage.list_applied(storage.database))
        if newer:
            raise Refused(
                f"the database is of a newer version (it has {newer[0]}): install that version"
            )
        if missing:
            raise Refused(
                f"the database is of an older version (it lacks {missing[0]}): restart the server"
                " or run `app.py migrate` to upgrade it"
            )
        yield


def with_database(run: Run) -> Run:
    def open_and_run(config: "Config", args: argparse.Namespace) -> int | None:
        with open_database(config):
            return run(config, args)

    return open_and_run
