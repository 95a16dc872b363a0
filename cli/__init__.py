"""The command line, a module for each group of commands. Imports stay inside the commands: `app.py`
must start at once.
"""

import contextlib
import datetime
import json
import time


def now_ms():
    return time.time_ns() // 1_000_000


def show_time(ms):
    """UTC milliseconds in RFC 3339, whole seconds without a fraction; None stays None."""
    if ms is None:
        return None
    seconds, rest = divmod(ms, 1000)
    text = datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:03}Z" if rest else f"{text}Z"


def say(args, shown, text):
    """Print one JSON object with --json, else words for a reader."""
    print(json.dumps(shown, ensure_ascii=False) if args.json else text)


def add_command(commands, name, run, help):
    """A command that knows --json and runs `run(config, args)`."""
    command = commands.add_parser(name, help=help, description=help)
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.set_defaults(run=run)
    return command


@contextlib.contextmanager
def open_database(config):
    """One open connection to a migrated database; Problem where there is none, or where it stays
    locked.
    """
    from peewee import OperationalError

    import storage
    from accounts.problem import Problem
    from storage import trouble

    with storage.connect(config).connection_context():
        if not storage.database.table_exists("owner"):
            raise Problem("not_found", "DATA_DIR holds no database yet: run `app.py migrate` first")
        try:
            yield
        except OperationalError as error:
            if not storage.is_busy(error):
                raise
            told = trouble.TROUBLES[trouble.name_trouble(error, config.data_dir)]
            raise Problem("busy", f"{told}: nothing was stored") from None
