"""run, migrate, observe, rebuild."""

import contextlib
import ctypes
import gc
import os
import sys
from argparse import Namespace
from pathlib import Path

from cli import Commands, add_command, now_ms, open_database, print_result
from config import Config

ROOT = Path(__file__).resolve().parent.parent
# gunicorn's arguments, in ROOT
SERVE = [
    "--config",
    str(ROOT / "gunicorn.conf.py"),
    "app:create_app()",
]


def add_commands(commands: Commands) -> None:
    add_command(commands, "run", run_server, "migrate, then serve pages, interface and jobs")
    add_command(commands, "migrate", run_migrate, "bring the database to the newest schema")
    observe = add_command(
        commands, "observe", run_observe, "one pass of the observer now, beside a running server"
    )
    observe.add_argument(
        "--once",
        action="store_true",
        help="the default, and all there is: the server observes continuously",
    )
    rebuild = add_command(
        commands, "rebuild", run_rebuild, "derive all trades and lots again from stored receipts"
    )
    one = rebuild.add_mutually_exclusive_group()
    one.add_argument("--bot", metavar="ID", help="only this influencer's wallet")
    one.add_argument(
        "--trader", metavar="ID", help="fill a trader's stored decisions again instead"
    )


def run_migrate(config: Config, args: Namespace) -> None:
    from operate import backups

    applied, copy = backups.migrate(config)
    print_result(
        args,
        {"applied": applied, "copy": copy and str(copy)},
        (
            f"applied: {', '.join(applied)}{f'; as it was before: {copy}' if copy else ''}"
            if applied
            else "nothing to do"
        ),
    )


def run_server(config: Config, args: Namespace) -> None:
    """Go on as gunicorn, in this process, for starting another would import everything again;
    gunicorn.conf.py says how it serves.
    """
    from gunicorn.app.wsgiapp import WSGIApplication

    import storage
    from operate import backups
    from storage import counters

    # what is made while starting stays; a worker that is ready begins to collect (gunicorn.conf.py)
    gc.disable()
    refuse_demonstration(config)
    # a package that is missing is said here, not by every worker
    counters.open_store(config).close()
    backups.migrate(config)
    storage.database.close_all()
    os.chdir(ROOT)
    sys.argv[1:] = SERVE
    share_heaps()
    WSGIApplication(prog="candor").run()


def share_heaps() -> None:
    """Two heaps for all threads: glibc makes each of them one of its own, which was a tenth of the
    server's memory (mallopt(3), M_ARENA_MAX).
    """
    # another libc
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).mallopt(-8, 2)


def refuse_demonstration(config: Config) -> None:
    from operate import instance

    if config.demonstration:
        raise instance.Refused(
            f"{config.data_dir} belongs to a demonstration, which is never mixed with real data:"
            " choose another DATA_DIR, or `app.py demo`"
        )


def run_observe(config: Config, args: Namespace) -> int:
    """One pass, its progress on the terminal (stderr with --json), then the coverage of each
    wallet.
    """
    import jobs
    import observer

    refuse_demonstration(config)
    with open_database(config), jobs.observer_lock():
        watcher = observer.Observer(
            config,
            say=lambda text: print(text, file=sys.stderr if args.json else sys.stdout, flush=True),
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
    """Everything derived, derived again; what was stored is only read."""
    if args.trader:
        return run_rebuild_trader(config, args)
    import jobs
    import models
    import observer
    from accounts import influencers

    with open_database(config), jobs.observer_lock():
        wallets = list(models.Wallet.select())
        if args.bot:
            bot = influencers.find_bot(args.bot).id
            wallets = [wallet for wallet in wallets if bot in (wallet.bot_id, wallet.prover_id)]
        report = observer.rebuild(observer.Observer(config), wallets, now_ms())
    rows = [
        {
            "wallet": address,
            "entriesChanged": entries,
            "receiptsLost": lost,
            "tradesChanged": trades,
            "sumsChanged": sums,
        }
        for address, entries, lost, trades, sums in report
    ]
    changed, lost = (
        sum(
            row["entriesChanged"] + row["receiptsLost"] + row["tradesChanged"] + row["sumsChanged"]
            for row in rows
        ),
        sum(row["receiptsLost"] for row in rows),
    )
    fetched = (
        f"; {lost} stored receipts were gone or damaged, the observer fetches them again"
        if lost
        else ""
    )
    print_result(
        args,
        {"wallets": rows, "changed": bool(changed)},
        f"{len(rows)} wallets derived again:"
        f" {f'{changed} rows changed' if changed else 'nothing changed'}{fetched}",
    )


def run_rebuild_trader(config: Config, args: Namespace) -> None:
    """Stored decisions, filled again; what differs opens a review and changes no record."""
    import papertrade
    from accounts import traders

    with open_database(config):
        differences = papertrade.rebuild_trader(traders.find_trader(args.trader), now_ms())
    print_result(
        args,
        {"trader": args.trader, "differences": differences, "changed": bool(differences)},
        "\n".join(differences) or "filled again: nothing changed",
    )
