"""The command that brings an owner's archive to this instance."""

import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from cli import Commands, add_command, now_ms, open_database, print_result, read_file_name
from cli.server import refuse_demonstration
from config import Config

if TYPE_CHECKING:
    from accounts.archive_reading import Archive
    from accounts.imports import Imported


def add_commands(commands: Commands) -> None:
    """Add `import`."""
    command = add_command(
        commands,
        "import",
        run_import,
        "bring the archive that an owner downloaded from another instance: bots and paper traders"
        " anew, for a new owner; all of it or nothing",
    )
    command.add_argument("file", metavar="FILE", type=read_file_name)
    command.add_argument(
        "--rename",
        metavar="ID=NAME",
        action="append",
        default=[],
        help="another name for a bot or a paper trader (by its id in the archive), where its own is"
        " taken here",
    )
    command.add_argument(
        "--without-wallets",
        action="store_true",
        help="claim no wallet, as where another bot here holds it",
    )
    command.add_argument(
        "--without-traders",
        action="store_true",
        help="leave paper traders out, as where one plays by a strategy that is not known here",
    )


def run_import(config: Config, args: Namespace) -> int:
    """Import an archive; print the owner's recovery code and the publishing keys, once."""
    from accounts import archive_reading, imports

    refuse_demonstration(config)
    names = imports.check_names(args.rename)
    try:
        with open_database(config):
            now = now_ms()
            archive = archive_reading.read_archive(args.file, now)
            made = imports.store_archive(
                config, archive, now, names, not args.without_wallets, not args.without_traders
            )
    except archive_reading.BadArchive as refusal:
        print(f"{refusal}. Nothing was stored.", file=sys.stderr)
        return 1
    print_result(args, show_import(archive, made), "\n".join(list_lines(archive, made)))
    return 0


def show_import(archive: "Archive", made: "Imported") -> dict[str, Any]:
    """Make the JSON of an import."""
    return {
        "ownerId": made.owner,
        "recoveryCode": made.recovery_code,
        "posts": made.posts,
        "withoutWords": archive.gone,
        "bots": [
            {"botId": b.uid, "name": b.name, "wallet": b.wallet, "publishKey": b.publish_key}
            for b in made.bots
        ],
        "traders": [
            {"traderId": t.uid, "name": t.name, "retired": t.is_retired} for t in made.traders
        ],
    }


def list_lines(archive: "Archive", made: "Imported") -> list[str]:
    """List the lines that tell of an import."""
    bots = [
        f"{one.uid}  {one.publish_key or 'retired'}  {one.wallet or 'no wallet'}  {one.name}"
        for one in made.bots
    ]
    traders = [
        f"{one.uid}  {'retired' if one.is_retired else 'begins anew'}  {one.name}"
        for one in made.traders
    ]
    return [
        f"{made.posts} posts imported from {archive.instance}; {archive.gone} had no words",
        *bots,
        *traders,
        f"owner           {made.owner}",
        f"recovery code   {made.recovery_code}",
        "Keys and code are shown this once only.",
    ]
