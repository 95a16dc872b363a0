"""The `admin` commands, for the operator's pages."""

from argparse import Namespace

from cli import Commands, add_command, add_group, now_ms, print_result, show_time
from cli.people import with_database
from config import Config

MAX_LISTED = 1000
# The largest value of an integer column.
MAX_NUMBER = 2**63 - 1


def add_commands(commands: Commands) -> None:
    admin = add_group(commands, "admin", "sign in to the operator's pages at /admin")
    add_command(
        admin,
        "login",
        run_admin_login,
        "print a link that signs in one browser and expires after ten minutes",
    )
    logout = add_command(admin, "logout", run_admin_logout, "end operator sessions")
    which = logout.add_mutually_exclusive_group(required=True)
    which.add_argument("--all", action="store_true", help="all sessions and unused links")
    which.add_argument(
        "--session", metavar="ID", help="one session, by its id in /admin or `admin audit`"
    )
    audit = add_command(
        admin, "audit", run_admin_audit, "list the operator's actions, newest first"
    )
    audit.add_argument("--limit", type=int, default=50, help="how many to list (default: 50)")
    audit.add_argument(
        "--before", type=int, metavar="NUMBER", help="only those older than this one"
    )


@with_database
def run_admin_login(config: Config, args: Namespace) -> None:
    from accounts import admin

    now = now_ms()
    code = admin.make_login(now)
    link, ends = f"{config.base_url}/admin/login?code={code}", show_time(now + admin.LOGIN_MS)
    print_result(
        args,
        {"link": link, "code": code, "endsAt": ends},
        f"{link}\nIt works once, until {ends}. Anyone with this link has full admin access.",
    )


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
    print_result(
        args,
        {"data": rows},
        "\n".join(
            f"{row['number']:6}  {row['at']}  {row['who']}  {row['what']}  {row['target'] or ''} "
            f" {row['reason'] or ''}".rstrip()
            for row in rows
        ),
    )
