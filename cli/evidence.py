"""Evidence commands: `audit` recomputes an instance's claims using your own node, `witness` watches
another instance's log, and `log` shows this instance's own.
"""

import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from cli import Commands, add_command, now_ms, open_database, print_result
from config import Config
from storage.files import log_key

if TYPE_CHECKING:
    from evidence.audit import Auditor
    from evidence.differences import Difference, Report

# Exit codes. 0 means the same, or a log that has only grown.
DIFFERENT, CANNOT_TELL = 1, 3
MAX_PRINTED = 50
# The parts of a claim that don't belong to a wallet.
NAMED = ("posts", "log", "bot", "held", "standings", "pace", "seasons")


def add_commands(commands: Commands) -> None:
    text = (
        "check an instance's claims against your own node; exit 0 if they match, 1 if they "
        "differ, 3 if undecided"
    )
    audit = add_command(commands, "audit", run_audit, text)
    audit.add_argument("url", metavar="URL", help="the instance: https://HOST")
    which = audit.add_mutually_exclusive_group()
    which.add_argument("--bot", metavar="ID", help="only this bot")
    which.add_argument("--all", action="store_true", help="all bots (the default)")
    audit.add_argument("--rpc", metavar="OWN_NODE", required=True, help="URL of your Solana node")
    audit.add_argument(
        "--accept-programs",
        action="store_true",
        help="trust the venues, markers and currencies that the operator added",
    )
    add_log_commands(commands)


def run_audit(config: Config, args: Namespace) -> int:
    """Audit one bot or all bots, with progress on stderr, and print the verdicts.

    Raises BadSetting for an unusable URL before creating a file for it.
    """
    from config import BadSetting
    from evidence import memory

    for name, url in (("URL", args.url), ("--rpc", args.rpc)):
        if not url.startswith(("http://", "https://")):
            raise BadSetting(f"{name} must begin with http:// or https://")
    path = memory.find_path(args.url, args.rpc)
    kept = memory.open_memory(path)
    where = f"kept in {path}" if kept.path else "discarded after this run"
    tell(f"your node's responses are {where}; an interrupted audit resumes from them")
    auditor = make_auditor(config, args, kept)
    try:
        reports, trouble = audit_bots(auditor, args.bot)
    except KeyboardInterrupt:
        tell("stopped; run the command again to continue")
        return 130
    finally:
        kept.close()
    shown = show_reports(args.url, reports, trouble)
    print_result(args, shown, write_reports(reports, trouble))
    if shown["different"]:
        return DIFFERENT
    return CANNOT_TELL if shown["cannotTell"] or trouble else 0


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def make_auditor(config: Config, args: Namespace, kept: Any) -> "Auditor":
    from chain.reading.programs import table
    from chain.rpc import Rpc
    from evidence.audit import Auditor
    from evidence.claims import Instance
    from evidence.view import Node

    urls = [url.strip() for url in args.rpc.split(",") if url.strip()]
    return Auditor(
        Instance(args.url),
        Node(Rpc(urls, config.rpc_requests_per_second), time.sleep),
        kept,
        args.accept_programs,
        table(config.extra_swap_programs, config.added_programs),
        tell,
    )


def audit_bots(auditor: "Auditor", bot: str | None) -> "tuple[list[Report], str | None]":
    from evidence.claims import Nonsense
    from evidence.view import NodeTrouble

    reports: list[Report] = []
    try:
        for uid in [bot] if bot else auditor.instance.list_bots():
            tell(f"auditing {uid}")
            reports.append(auditor.audit(uid))
        if bot is None:
            reports += auditor.audit_unlisted(one.bot for one in reports)
    except NodeTrouble as trouble:
        return reports, f"{trouble}; run the audit again to continue"
    except Nonsense as trouble:
        return reports, str(trouble)
    return reports, None


def show_reports(url: str, reports: "list[Report]", trouble: str | None) -> dict[str, Any]:
    verdicts = [one.verdict for one in reports]
    names = {"same": "same", "different": "different", "cannot_tell": "cannotTell"}
    counts = {shown: verdicts.count(verdict) for verdict, shown in names.items()}
    verdict = "cannot_tell" if counts["cannotTell"] or trouble else "same"
    return {
        "url": url,
        "verdict": "different" if counts["different"] else verdict,
        **counts,
        "stoppedBy": trouble,
        "bots": [show_report(one) for one in reports],
    }


def show_report(report: "Report") -> dict[str, Any]:
    return {
        "botId": report.bot,
        "verdict": report.verdict,
        "receipts": report.receipts,
        "posts": report.posts,
        "differenceCount": report.count,
        "differences": [one._asdict() for one in report.differences],
        "cannotTell": report.unknown,
        "notes": report.notes,
    }


def write_reports(reports: "list[Report]", trouble: str | None) -> str:
    lines = []
    for one in reports:
        text = f"{one.receipts} receipts, {one.posts} posts"
        lines.append(f"{one.bot}: {one.verdict} ({text})")
        lines += [
            f"  {name_place(d)}: theirs {d.theirs!r}, ours {d.ours!r}"
            for d in one.differences[:MAX_PRINTED]
        ]
        if one.count > MAX_PRINTED:
            lines.append(f"  ... {one.count} differences in all; --json lists more")
        lines += [f"  cannot tell: {why}" for why in one.unknown]
        lines += [f"  note: {note}" for note in one.notes]
    if trouble:
        lines.append(f"stopped: {trouble}")
    return "\n".join(map(show_printable, lines)) or "no bots"


def name_place(one: "Difference") -> str:
    about = "" if one.field.partition(".")[0] in NAMED else "wallet "
    return f"{one.signature} {one.field}" if one.signature else f"{about}{one.field}"


def show_printable(line: str) -> str:
    """Return a line without control characters, because the instance isn't trusted."""
    return "".join(one if one.isprintable() else "?" for one in line)


# ---- logs ----------------------------------------------------------------------------------------
def add_log_commands(commands: Commands) -> None:
    text = (
        "check that another instance's log has only grown since the last check, and cosign it;"
        " exit 0 if consistent, 1 on a fork or rollback, 3 if undecided"
    )
    witness = add_command(commands, "witness", run_witness, text)
    witness.add_argument("url", metavar="URL", help="the instance: https://HOST")
    witness.add_argument(
        "--forget", action="store_true", help="forget the log's saved checkpoints and start over"
    )
    log = add_command(commands, "log", run_log, "show this instance's append-only log and its key")
    text = (
        "start a new log, which contains the current log's last checkpoint; for use after another"
        " program restored the data or if the key was lost"
    )
    log.add_argument("--renew", action="store_true", help=text)


def run_witness(config: Config, args: Namespace) -> int:
    from evidence import witness
    from evidence.notes import Signer
    from operate import backups

    # Migrate first, which creates DATA_DIR: a witness doesn't need its own instance.
    backups.migrate(config)
    with open_database(config):
        signer = Signer(log_key(config))
        if args.forget:
            known = witness.forget(args.url)
            print_result(args, {"forgotten": known}, "forgotten" if known else "nothing to forget")
            return 0
        outcome = witness.observe_log(args.url, signer, now_ms())
    print_result(args, outcome._asdict(), f"{outcome.verdict}: {outcome.url}: {outcome.text}")
    if outcome.verdict == "alarm":
        print(f"ALARM: {outcome.url}: {outcome.text}", file=sys.stderr)
        return DIFFERENT
    return CANNOT_TELL if outcome.verdict == "cannot_tell" else 0


def run_log(config: Config, args: Namespace) -> None:
    from evidence import log
    from evidence.notes import Signer, encode

    with open_database(config):
        signer = Signer(log_key(config))
        if args.renew:
            log.renew_log("operator", now_ms())
            log.store_key(signer)
        one = log.find_log()
        if one is None:
            print_result(args, {"log": None}, "the log is empty")
            return
        checkpoint = log.make_checkpoint(one)
    shown = {
        "log": one.uid,
        "size": checkpoint.size,
        "root": encode(checkpoint.root),
        "key": str(signer.verifier(one.origin)),
    }
    print_result(args, shown, "\n".join(f"{name}: {value}" for name, value in shown.items()))
