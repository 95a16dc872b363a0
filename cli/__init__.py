"""The command line, a module for each group of commands. Imports stay inside the commands: `app.py` must start at once."""
import json
import time


def now_ms():
    return time.time_ns() // 1_000_000


def say(args, shown, text):
    """Print one JSON object with --json, else words for a reader."""
    print(json.dumps(shown, ensure_ascii=False) if args.json else text)


def add_command(commands, name, run, help):
    """A command that knows --json and runs `run(config, args)`."""
    command = commands.add_parser(name, help=help, description=help)
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.set_defaults(run=run)
    return command
