"""backup, restore, doctor: keeping an instance."""
from dataclasses import asdict
from pathlib import Path

from cli import add_command, now_ms, say


def add_commands(commands):
    add_command(commands, "backup", run_backup, "a checked copy of the database in one file, while the server runs").add_argument("file", metavar="FILE", type=Path)
    restore = add_command(commands, "restore", run_restore, "put a backup in place; no server may be running")
    restore.add_argument("file", metavar="FILE", type=Path)
    restore.add_argument("--replace", action="store_true", help="even where DATA_DIR holds data, which is kept aside")
    doctor = add_command(commands, "doctor", run_doctor, "what is wrong with this instance and what to do; exit 1 where something is")
    doctor.add_argument("--online", action="store_true", help="ask the Solana endpoints and the price providers, too")


def run_backup(config, args):
    import keeping
    holding = keeping.store_backup(config, args.file)
    say(args, {"file": str(args.file), **asdict(holding)}, f"{args.file}: {describe(holding)}")


def run_restore(config, args):
    import keeping
    holding, aside = keeping.restore_backup(config, args.file, args.replace, now_ms())
    kept = f"\nwhat was there before: {aside}" if aside else ""
    say(args, {"file": str(args.file), "keptAside": aside and str(aside), **asdict(holding)}, f"restored {describe(holding)}{kept}")


def describe(holding):
    return f"{holding.posts} posts, {holding.trades} trades, {holding.receipts} receipts, {holding.bytes / 1e6:.1f} MB, schema {holding.schema}, checked"


def run_doctor(config, args):
    import doctor
    findings = doctor.examine(config, now_ms(), args.online)
    bad = sum(finding.level == "wrong" for finding in findings)
    summary = "nothing is wrong" if not bad else f"{bad} {'thing is' if bad == 1 else 'things are'} wrong"
    say(args, {"ok": not bad, "findings": [asdict(finding) for finding in findings]}, "\n".join([*map(show_finding, findings), summary]))
    return int(bad > 0)


def show_finding(finding):
    return f"{finding.level:5}  {finding.text}" + (f"\n       -> {finding.advice}" if finding.advice else "")
