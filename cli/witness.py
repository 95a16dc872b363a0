"""The command witness, which watches another instance's log, and the command log, which shows this
instance's own log.
"""

import sys
from argparse import Namespace

from cli import Commands, add_command, now_ms, open_database, print_result
from config import Config
from storage.key_files import log_key

# Exit codes. 0 means consistent.
ALARM, CANNOT_TELL = 1, 3


def add_commands(commands: Commands) -> None:
    witness = add_command(
        commands,
        "witness",
        run_witness,
        "check that another instance's log has only grown since the last check, and cosign it;"
        " exit 0 if consistent, 1 on a fork or rollback, 3 if undecided",
    )
    witness.add_argument("url", metavar="URL", help="the instance: https://HOST")
    witness.add_argument(
        "--forget", action="store_true", help="forget everything this witness saw of the log"
    )
    log = add_command(commands, "log", run_log, "show this instance's append-only log and its key")
    log.add_argument(
        "--renew",
        action="store_true",
        help="start a new log that references this one's last checkpoint, for use after another"
        " program restored the data or if the key was lost",
    )


def run_witness(config: Config, args: Namespace) -> int:
    from evidence import witness
    from evidence.notes import Signer
    from operate import backups

    # Migrate first, which creates DATA_DIR, because a witness doesn't need its own instance.
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
        return ALARM
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
