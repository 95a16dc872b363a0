"""Server commands: run, migrate, observe, rebuild."""

import errno
import os
import socket
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from cli import Commands, add_command, now_ms, open_database, print_result
from config import VERSION, BadSetting, Config

if TYPE_CHECKING:
    from observing.rebuilding import RebuiltWallet


def add_commands(commands: Commands) -> None:
    add_command(
        commands,
        "run",
        run_server,
        "update the database, then serve pages, API and background jobs",
    )
    add_command(commands, "migrate", run_migrate, "update the database to the newest schema")
    observe = add_command(
        commands, "observe", run_observe, "poll all wallets once now, even if a server is running"
    )
    observe.add_argument(
        "--once",
        action="store_true",
        help="the only mode, and the default; a running server observes continuously",
    )
    rebuild = add_command(
        commands, "rebuild", run_rebuild, "recompute all trades and lots from stored receipts"
    )
    one = rebuild.add_mutually_exclusive_group()
    one.add_argument("--bot", metavar="ID", help="only this bot's wallets")
    one.add_argument(
        "--trader", metavar="ID", help="replay a paper trader's stored decisions instead"
    )


def run_migrate(config: Config, args: Namespace) -> None:
    from operate import backups

    applied, copy = backups.migrate(config)
    print_result(
        args,
        {"applied": applied, "copy": copy and str(copy)},
        (
            f"applied: {', '.join(applied)}{f'; previously: {copy}' if copy else ''}"
            if applied
            else "nothing to do"
        ),
    )


def run_server(config: Config, args: Namespace) -> None:
    """Become gunicorn in this process. Another process would import everything again."""
    import storage
    from chain.reading.programs import table
    from cli.processes import serve
    from operate import backups
    from operate.doctor import check_filesystem
    from storage import counters

    refuse_demonstration(config)
    refuse_unusable_port(config)
    print(f"Candor {VERSION}: preparing the database in {config.data_dir}.", flush=True)
    for warning in check_filesystem(config):
        print(f"Warning: {warning.text}. To fix it: {warning.advice}.", flush=True)
    # Report missing or invalid settings once, here, and not in every worker.
    table(config.extra_swap_programs, config.added_programs)
    counters.open_store(config).close()
    backups.migrate(config)
    storage.database.close_all()
    serve()


def refuse_unusable_port(config: Config) -> None:
    """Raise an error if HOST and PORT can't be listened on.

    gunicorn would retry five times, and not mention the settings.
    """
    # If the parent passed in a listening socket, it isn't another program's.
    if {"GUNICORN_FD", "LISTEN_FDS"} & os.environ.keys():
        return
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    with socket.socket(family) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((config.host, config.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise BadSetting(
                    f"port {config.port} on {config.host} is in use: stop the program that"
                    f" listens there, or choose another port, such as PORT={config.port + 1}"
                ) from None
            if error.errno in (errno.EACCES, errno.EPERM):
                raise BadSetting(
                    "PORT must be one that this user may listen on: the system refused"
                    f" {config.port}; most systems allow 1024 and above"
                ) from None
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                raise BadSetting(
                    "HOST must be an address or host name of this machine, such as 127.0.0.1;"
                    f" it can't listen on {config.host}"
                ) from None


def refuse_demonstration(config: Config) -> None:
    from operate import instance

    if config.demonstration:
        raise instance.Refused(
            f"{config.data_dir} belongs to a demo, which can't be mixed with real data; choose"
            " another DATA_DIR, or run `app.py demo`"
        )


def run_observe(config: Config, args: Namespace) -> int:
    """Run one pass of the observer, then print each wallet's coverage.

    Progress is printed on the terminal or, with --json, on stderr.
    """
    import jobs
    import observer

    refuse_demonstration(config)
    with open_database(config), jobs.observer_lock():
        watcher = observer.Observer(
            config,
            report=lambda text: print(
                text, file=sys.stderr if args.json else sys.stdout, flush=True
            ),
        )
        coverages = observer.observe_once(watcher, now_ms())
    print_result(
        args,
        coverages,
        "\n".join(
            f"{address}: {c['state']}, {c['receipts']} receipts, {c['pending']} pending,"
            f" {len(c['gaps'])} gaps"
            for address, c in coverages.items()
        )
        or "no wallet is attached",
    )
    if watcher.problem:
        print(f"not done: {watcher.problem}", file=sys.stderr)
        return 1
    return 0


def run_rebuild(config: Config, args: Namespace) -> None:
    if args.trader:
        run_rebuild_trader(config, args)
        return
    report = rebuild_wallets(config, args.bot)
    changed = sum(one.changes for one in report)
    lost = sum(one.receipts_lost for one in report)
    rows = [
        {
            "wallet": one.address,
            "entriesChanged": one.entries_changed,
            "receiptsLost": one.receipts_lost,
            "tradesChanged": one.trades_changed,
            "sumsChanged": one.sums_changed,
        }
        for one in report
    ]
    text = f"{len(rows)} wallets rebuilt: "
    text += f"{changed} rows changed" if changed else "nothing changed"
    if lost:
        text += (
            f"; {lost} stored receipts were missing or damaged; the observer will fetch them again"
        )
    print_result(args, {"wallets": rows, "changed": bool(changed)}, text)


def rebuild_wallets(config: Config, bot_id: str | None) -> "list[RebuiltWallet]":
    """Rebuild the records of all wallets, or of the wallets that a bot has or has proven."""
    import jobs
    import models
    import observer
    from accounts import influencers
    from observing import rebuilding

    with open_database(config), jobs.observer_lock():
        wallets = list(models.Wallet.select())
        if bot_id:
            bot = influencers.find_bot(bot_id).id
            wallets = [
                wallet for wallet in wallets if bot in (wallet.bot_id, wallet.earlier_bot_id)
            ]
        return rebuilding.rebuild(observer.Observer(config).state, wallets, now_ms())


def run_rebuild_trader(config: Config, args: Namespace) -> None:
    """Recompute the fills of a trader's stored decisions. Differences open a review but don't
    change records.
    """
    import papertrade
    from accounts import traders

    with open_database(config):
        trader = traders.find_trader(args.trader)
        differences = papertrade.rebuild_trader(trader, now_ms())
    text = "\n".join(differences) or "replayed, including random entries: nothing changed"
    shown = {"trader": args.trader, "differences": differences, "changed": bool(differences)}
    print_result(args, shown, text)
