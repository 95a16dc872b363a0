"""The command that upgrades an instance: a copy first, and back on any doubt."""

import sys
from argparse import Namespace
from collections.abc import Callable
from functools import partial

from cli import Commands, add_command, now_ms, print_result
from cli.server import refuse_demonstration
from config import Config

# Exit codes beside 0 (upgraded, or nothing to do) and 1 (refused, nothing was begun).
IN_DOUBT = 3


def add_commands(commands: Commands) -> None:
    """Add `upgrade`."""
    command = add_command(
        commands,
        "upgrade",
        run_upgrade,
        "bring the database to this version: a copy, the migrations, `doctor --deep`, and back on"
        " any doubt (exit 3); no server may be running",
    )
    command.add_argument(
        "--dumped",
        action="store_true",
        help="PostgreSQL alone: a dump was made, and every machine is stopped",
    )


def run_upgrade(config: Config, args: Namespace) -> int:
    """Upgrade, telling each step; return IN_DOUBT where it was rolled back."""
    from operate import upgrade

    refuse_demonstration(config)
    tell = partial(print, file=sys.stderr if args.json else sys.stdout, flush=True)
    try:
        done = (
            upgrade.upgrade_server(config, now_ms(), args.dumped, derive, tell)
            if config.database_url
            else upgrade.upgrade(config, now_ms(), derive, tell)
        )
    except upgrade.RolledBack as doubt:
        print(doubt, file=sys.stderr)
        return IN_DOUBT
    kept = f"; as it was before: {done.copy}" if done.copy else ""
    print_result(
        args,
        {
            "from": done.before._asdict(),
            "to": done.after._asdict(),
            "applied": done.names,
            "copy": done.copy and str(done.copy),
        },
        f"upgraded to {done.after}{kept}" if done.names else f"{done.after}: nothing to do",
    )
    return 0


def derive(config: Config, tell: Callable[[str], None]) -> None:
    """Derive the records of every wallet again, in the open database of these settings."""
    import jobs
    import models
    import observer
    import storage
    from observing import rebuilding

    with storage.database.connection_context(), jobs.observer_lock():
        watcher = observer.Observer(config)
        wallets = list(models.Wallet.select().order_by(models.Wallet.id))
        for number, wallet in enumerate(wallets, 1):
            tell(f"records {number} of {len(wallets)}: wallet {wallet.address}")
            rebuilding.rebuild(watcher.state, [wallet], now_ms())
