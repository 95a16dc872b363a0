"""The command hook, for notifications."""

from argparse import Namespace
from typing import TYPE_CHECKING

import config as settings
from cli import Commands, add_command, add_group, now_ms, print_result, show_time
from cli.people import add_reason, with_database
from config import Config

if TYPE_CHECKING:
    from accounts.tables import Hook


def add_commands(commands: Commands) -> None:
    hook = add_group(
        commands, "hook", "webhooks and chat channels that receive notifications about bots"
    )
    add = add_command(hook, "add", run_hook_add, "add a hook; a webhook's secret is shown once")
    add.add_argument("owner", metavar="OWNER")
    add.add_argument("url", metavar="URL")
    add.add_argument("--kind", default="webhook", help="webhook, discord, slack, telegram or ntfy")
    add.add_argument(
        "--events", default="post", help="post,trade,verification,coverage (default: post)"
    )
    add.add_argument("--bots", default="", metavar="BOT,BOT", help="default: all bots of the owner")
    add_command(hook, "list", run_hook_list, "list all hooks, without their secrets").add_argument(
        "--owner", metavar="ID"
    )
    for name, run, help in (
        ("remove", run_hook_remove, "remove a hook"),
        ("test", run_hook_test, "send a ping; a successful one ends a pause"),
        ("off", run_hook_off, "turn a hook off; its owner can't turn it back on"),
        ("on", run_hook_on, "turn a hook back on; it must respond to a ping first"),
    ):
        command = add_command(hook, name, run, help)
        command.add_argument("hook", metavar="HOOK_ID")
        if name != "test":
            add_reason(command)


@with_database
def run_hook_add(config: Config, args: Namespace) -> None:
    """Add a hook for an owner, and print its secret once.

    The operator vouches for the receiver, so it doesn't have to respond to a ping first.
    """
    from accounts import hooks, owners

    made = hooks.add_hook(
        settings.lift_quotas(config),
        owners.find_owner(args.owner),
        args.url,
        now_ms(),
        args.kind,
        split_words(args.events),
        split_words(args.bots),
        trusted=True,
    )
    print_result(
        args,
        {"hookId": made.hook.uid, "secret": made.secret},
        f"{made.hook.uid}\n{made.secret or 'no secret'}\nThe secret won't be shown again.",
    )


def split_words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


@with_database
def run_hook_list(config: Config, args: Namespace) -> None:
    from accounts import hooks, owners

    owner = owners.find_owner(args.owner) if args.owner else None
    rows = [show_hook(hook) for hook in hooks.list_hooks(owner)]
    print_result(
        args,
        {"data": rows},
        "\n".join(
            f"{row['hookId']}  {row['ownerId'] or 'operator'}  {row['kind']:8}  {row['url']}"
            f"  {row['state']}"
            f"{'  ' + str(row['lastError']) if row['lastError'] else ''}"
            for row in rows
        ),
    )


def show_hook(hook: "Hook") -> dict[str, object]:
    """Return a hook as JSON, without its secret and the path of its URL."""
    from accounts.hooks import mask_url, read_list

    return {
        "hookId": hook.uid,
        "ownerId": hook.owner.uid if hook.owner else None,
        "kind": hook.kind,
        "url": mask_url(hook.url),
        "events": read_list(hook.events),
        "bots": read_list(hook.bots),
        "state": hook.state,
        "lastDeliveryAt": show_time(hook.delivered_at),
        "lastError": hook.last_error,
        "createdAt": show_time(hook.created_at),
    }


@with_database
def run_hook_remove(config: Config, args: Namespace) -> None:
    from accounts import acts

    reason = acts.check_reason(args.reason)
    acts.remove_hook(args.hook, acts.COMMAND_LINE, reason, now_ms())
    print_result(args, {"hookId": args.hook, "removed": True}, "removed")


@with_database
def run_hook_off(config: Config, args: Namespace) -> None:
    switch(args, False)


@with_database
def run_hook_on(config: Config, args: Namespace) -> None:
    switch(args, True)


def switch(args: Namespace, on: bool) -> None:
    from accounts import acts

    reason = acts.check_reason(args.reason)
    acts.switch_hook(args.hook, on, acts.COMMAND_LINE, reason, now_ms())
    print_result(args, {"hookId": args.hook, "on": on}, "on" if on else "off")


@with_database
def run_hook_test(config: Config, args: Namespace) -> None:
    from accounts import hooks

    hooks.ask_for_ping(args.hook, now_ms())
    print_result(
        args,
        {"hookId": args.hook, "asked": True},
        "the running server sends a ping within seconds; `hook list` shows the result",
    )
