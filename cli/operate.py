"""Commands for safe operation: backup, restore, copy, doctor."""

import sys
from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from cli import Commands, add_command, now_ms, print_result, read_file_name
from config import Config

if TYPE_CHECKING:
    from operate.backups import Holding
    from operate.doctor import Finding


def add_commands(commands: Commands) -> None:
    add_command(
        commands,
        "backup",
        run_backup,
        "write a verified copy of the database to one file, while the server runs",
    ).add_argument("file", metavar="FILE", type=read_file_name)
    restore = add_command(
        commands, "restore", run_restore, "restore a backup; the server must be stopped"
    )
    restore.add_argument("file", metavar="FILE", type=read_file_name)
    restore.add_argument(
        "--replace", action="store_true", help="replace existing data, which is kept aside"
    )
    copy = add_command(
        commands,
        "copy",
        run_copy,
        "move the instance to an empty PostgreSQL database, verified row by row; the server must"
        " be stopped",
    )
    copy.add_argument(
        "--to",
        metavar="URL",
        required=True,
        help="postgresql://USER@HOST/DATABASE; put the password in PGPASSWORD or ~/.pgpass",
    )
    add_doctor(commands)


def add_doctor(commands: Commands) -> None:
    doctor = add_command(
        commands,
        "doctor",
        run_doctor,
        "report problems with this instance and how to fix them; exit 1 if there are any",
    )
    doctor.add_argument(
        "--deep",
        action="store_true",
        help=(
            "recompute everything from the stored receipts and compare; takes minutes on a large"
            " instance"
        ),
    )
    doctor.add_argument(
        "--online",
        action="store_true",
        help="also query the Solana endpoints and price providers",
    )


def run_backup(config: Config, args: Namespace) -> None:
    from operate import backups

    holding = backups.store_backup(config, args.file)
    print_result(
        args, {"file": str(args.file), **asdict(holding)}, f"{args.file}: {describe(holding)}"
    )
    for sentence in holding.foreign:
        print(
            f"warning: {sentence}, and `restore` will refuse this backup; run `app.py doctor` to"
            " see what to do",
            file=sys.stderr,
        )


def run_restore(config: Config, args: Namespace) -> None:
    from operate import backups

    holding, aside = backups.restore_backup(config, args.file, args.replace, now_ms())
    kept = f"\nprevious database: {aside}" if aside else ""
    print_result(
        args,
        {"file": str(args.file), "keptAside": aside and str(aside), **asdict(holding)},
        f"restored {describe(holding)}{kept}",
    )


def run_copy(config: Config, args: Namespace) -> None:
    from operate import copy

    tables = copy.move(config, args.to)
    lines = [f"{one.table:14} {one.rows:9}  {one.digest[:16]}" for one in tables if one.rows]
    rows = sum(one.rows for one in tables)
    print_result(
        args,
        {"tables": [one._asdict() for one in tables]},
        "\n".join(
            [
                *lines,
                (
                    f"{rows} rows copied and verified. To use the copy, set DATABASE_URL;"
                    f" {config.database_path} is unchanged."
                ),
            ]
        ),
    )


def describe(holding: "Holding") -> str:
    return (
        f"{holding.posts} posts, {holding.trades} trades, {holding.receipts} receipts,"
        f" {holding.bytes / 1e6:.1f} MB, schema {holding.schema}, checked"
    )


def run_doctor(config: Config, args: Namespace) -> int:
    """Print the findings; return 1 if something is wrong."""
    from operate import doctor

    findings = doctor.examine(config, now_ms(), args.online, args.deep)
    bad = sum(finding.level == "wrong" for finding in findings)
    summary = (
        "nothing is wrong" if not bad else f"{bad} {'thing is' if bad == 1 else 'things are'} wrong"
    )
    print_result(
        args,
        {"ok": not bad, "findings": [asdict(finding) for finding in findings]},
        "\n".join([*map(show_finding, findings), summary]),
    )
    return int(bad > 0)


def show_finding(finding: "Finding") -> str:
    return f"{finding.level:5}  {finding.text}" + (
        f"\n       -> {finding.advice}" if finding.advice else ""
    )
