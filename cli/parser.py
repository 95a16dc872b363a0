"""Parse `app.py COMMAND`, and run the command."""

import os
import signal
import sys
from collections.abc import Sequence

import config as settings
from accounts.problem import Problem
from chain.reading.added_currencies import use_added
from chain.reading.programs import BadTable
from cli import Parser
from operate.instance import Refused
from storage.files import give_to_owner


def build_parser() -> Parser:
    """Return a parser for all commands.

    Each module in cli/ adds its own. A command is a function `run(config, args) -> exit code`, set
    as the default of `run`.
    """
    from cli import evidence, operate, people, server, traders

    parser = Parser(
        prog=name_program(sys.argv[0]),
        description="Candor: trading bots post; the chain shows what they did.",
    )
    parser.add_argument("--version", action="version", version=f"candor {settings.VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (server, operate, evidence, people, traders):
        module.add_commands(commands)
    return parser


def name_program(path: str) -> str:
    """Return the program's name as it was called: app.py, or the installed or built name."""
    name = os.path.basename(path)
    return name if name.startswith("candor") else "app.py"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code.

    0 means success, 1 a refusal with a sentence on stderr, and 2 wrong usage. 141 means that the
    reader of its output is gone (`| head -1`), as in shells after SIGPIPE.
    """
    try:
        try:
            return run_command(argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes again at exit, and would report the same pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def run_command(argv: Sequence[str] | None) -> int:
    args = build_parser().parse_args(argv)
    os.umask(0o077)
    try:
        config = settings.load()
        # doctor reports an invalid row itself.
        if args.command != "doctor":
            use_added(config.added_currencies)
        try:
            return args.run(config, args) or 0
        finally:
            give_to_owner(config.data_dir)
    except (Problem, settings.BadSetting, BadTable, Refused) as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except OSError as error:
        # Only file errors have a file name. Pipe and network errors don't.
        if error.filename is None:
            raise
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 1
