"""The commands for the operator: backup, restore, copy, doctor, admin, programs."""

import sys
from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from cli import (
    Commands,
    add_command,
    add_group,
    format_rows,
    now_ms,
    print_result,
    print_rows,
    read_file_name,
    show_time,
    with_database,
)
from config import Config

if TYPE_CHECKING:
    from chain.reading.programs import Program, Programs
    from operate.backups import Holding
    from operate.doctor import Finding

MAX_LISTED = 1000
# The largest value of an integer column.
MAX_NUMBER = 2**63 - 1
ADDED = "DATA_DIR/programs.csv"
COLUMNS = ("ID", "FAMILY", "NAME", "DATE", "SOURCE")


def add_commands(commands: Commands) -> None:
    text = "write a verified copy of the database to one file, while the server runs"
    backup = add_command(commands, "backup", run_backup, text)
    text = "restore a backup; the server must be stopped"
    restore = add_command(commands, "restore", run_restore, text)
    for command in (backup, restore):
        command.add_argument("file", metavar="FILE", type=read_file_name)
    text = "replace existing data; the old database is kept under another name"
    restore.add_argument("--replace", action="store_true", help=text)
    text = (
        "move the instance to an empty PostgreSQL database, verified row by row; the server must"
        " be stopped"
    )
    copy = add_command(commands, "copy", run_copy, text)
    text = "postgresql://USER@HOST/DATABASE; put the password in PGPASSWORD or ~/.pgpass"
    copy.add_argument("--to", metavar="URL", required=True, help=text)
    add_doctor(commands)
    add_admin_commands(add_group(commands, "admin", "sign in to the operator's pages at /admin"))
    text = "print the table of known programs, each with its source and date"
    add_command(commands, "programs", run_programs, text)


def add_doctor(commands: Commands) -> None:
    text = "report problems with this instance and how to fix them; exit 1 if there are any"
    doctor = add_command(commands, "doctor", run_doctor, text)
    text = (
        "recompute everything from the stored receipts and compare; takes minutes on a large"
        " instance"
    )
    doctor.add_argument("--deep", action="store_true", help=text)
    text = "also query the Solana endpoints and price providers"
    doctor.add_argument("--online", action="store_true", help=text)


def run_backup(config: Config, args: Namespace) -> None:
    from operate import backups

    holding = backups.store_backup(config, args.file)
    shown = {"file": str(args.file), **asdict(holding)}
    print_result(args, shown, f"{args.file}: {describe(holding)}")
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
    shown = {"file": str(args.file), "keptAside": aside and str(aside), **asdict(holding)}
    print_result(args, shown, f"restored {describe(holding)}{kept}")


def run_copy(config: Config, args: Namespace) -> None:
    from operate import backups

    tables = backups.move(config, args.to)
    lines = [f"{one.table:14} {one.rows:9}  {one.digest[:16]}" for one in tables if one.rows]
    rows = sum(one.rows for one in tables)
    lines.append(
        f"{rows} rows copied and verified. To use the copy, set DATABASE_URL;"
        f" {config.database_path} is unchanged."
    )
    print_result(args, {"tables": [one._asdict() for one in tables]}, "\n".join(lines))


def describe(holding: "Holding") -> str:
    return (
        f"{holding.posts} posts, {holding.trades} trades, {holding.receipts} receipts,"
        f" {holding.bytes / 1e6:.1f} MB, schema {holding.schema}, checked"
    )


def run_doctor(config: Config, args: Namespace) -> int:
    """Print the findings. Return 1 if something is wrong."""
    from operate import doctor

    findings = doctor.examine(config, now_ms(), args.online, args.deep)
    bad = sum(finding.level == "wrong" for finding in findings)
    wrong = f"{bad} thing is wrong" if bad == 1 else f"{bad} things are wrong"
    summary = wrong if bad else "nothing is wrong"
    print_result(
        args,
        {"ok": not bad, "findings": [asdict(finding) for finding in findings]},
        "\n".join([*map(show_finding, findings), summary]),
    )
    return int(bad > 0)


def show_finding(finding: "Finding") -> str:
    advice = f"\n       -> {finding.advice}" if finding.advice else ""
    return f"{finding.level:5}  {finding.text}{advice}"


# ---- the operator's pages ------------------------------------------------------------------------
def add_admin_commands(admin: Commands) -> None:
    text = "print a link that signs in one browser and expires after ten minutes"
    add_command(admin, "login", run_admin_login, text)
    logout = add_command(admin, "logout", run_admin_logout, "end operator sessions")
    which = logout.add_mutually_exclusive_group(required=True)
    which.add_argument("--all", action="store_true", help="all sessions and unused links")
    text = "one session, by its ID in /admin or `admin audit`"
    which.add_argument("--session", metavar="ID", help=text)
    text = "list the operator's actions, newest first"
    audit = add_command(admin, "audit", run_admin_audit, text)
    text = "number of actions to list (default: 50)"
    audit.add_argument("--limit", type=int, default=50, help=text)
    text = "only actions before this number"
    audit.add_argument("--before", type=int, metavar="NUMBER", help=text)


@with_database
def run_admin_login(config: Config, args: Namespace) -> None:
    from accounts import admin

    now = now_ms()
    code = admin.make_login(now)
    link, ends = f"{config.base_url}/admin/login?code={code}", show_time(now + admin.LOGIN_MS)
    text = f"{link}\nIt works once, until {ends}. Anyone with this link has full admin access."
    print_result(args, {"link": link, "code": code, "endsAt": ends}, text)


@with_database
def run_admin_logout(config: Config, args: Namespace) -> None:
    from accounts import acts, admin

    if args.all:
        ended = admin.end_all(acts.COMMAND_LINE, now_ms())
        print_result(args, {"ended": ended}, f"ended {ended} sessions and unused links")
        return
    admin.end_session(args.session, acts.COMMAND_LINE, now_ms())
    print_result(args, {"ended": 1}, "session ended")


@with_database
def run_admin_audit(config: Config, args: Namespace) -> None:
    from accounts import acts
    from accounts.problem import invalid

    if not 1 <= args.limit <= MAX_LISTED:
        raise invalid("--limit", f"must be a whole number from 1 to {MAX_LISTED}")
    if args.before is not None and not 1 <= args.before <= MAX_NUMBER:
        raise invalid("--before", f"must be a whole number from 1 to {MAX_NUMBER}")
    rows = [
        {
            "number": act.id,
            "at": show_time(act.at),
            "who": act.who,
            "what": act.what,
            "target": act.target,
            "reason": act.reason,
        }
        for act in acts.list_acts(args.limit, args.before)
    ]
    print_rows(args, rows, "number", "at", "who", "what", "target", "reason")


# ---- programs ------------------------------------------------------------------------------------
def run_programs(config: Config, args: Namespace) -> None:
    from chain.reading.programs import table

    programs = table(config.extra_swap_programs, config.added_programs)
    shown = {
        "programs": [_show_program(one, programs) for one in programs.rows],
        "markers": sorted(programs.markers),
        "added": len(programs.added),
    }
    rows = [_cells(one, programs) for one in programs.rows]
    print_result(args, shown, format_rows(rows, *COLUMNS))


def _show_program(one: "Program", programs: "Programs") -> dict[str, object]:
    return {
        "id": one.id,
        "name": one.name,
        "family": one.family or None,
        "source": one.source,
        "date": one.date or None,
        "pool": one.pool,
        "added": one.id in programs.added,
        "marker": one.id in programs.markers,
    }


def _cells(one: "Program", programs: "Programs") -> dict[str, str]:
    from chain.reading.programs import MARKER_SOURCE

    origin = ADDED if one.id in programs.added else ""
    if one.id in programs.markers:
        origin = MARKER_SOURCE
    source = one.source if origin in ("", one.source) else f"{one.source} ({origin})"
    return dict(zip(COLUMNS, (one.id, one.family, one.name, one.date, source), strict=True))
