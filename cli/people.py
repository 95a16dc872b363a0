"""The commands for people and posts: bot, key, owner, post."""

from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import config as settings
from cli import (
    Commands,
    Parser,
    add_command,
    add_group,
    now_ms,
    open_database,
    print_result,
    show_time,
)
from config import Config

if TYPE_CHECKING:
    from models import Bot, Key

DAY_MS, MAX_DAYS = 86_400_000, 3650


def add_commands(commands: Commands) -> None:
    add_bot_commands(add_group(commands, "bot", "bots and their wallets"))
    add_key_commands(add_group(commands, "key", "API keys"))
    owner = add_group(commands, "owner", "people who own bots")
    add_command(
        owner,
        "recovery",
        run_owner_recovery,
        "issue a new recovery code to an owner who lost theirs",
    ).add_argument("owner", metavar="OWNER")
    add_command(
        owner, "registered", run_owner_registered, "list the bots that agents registered"
    ).add_argument("--source", metavar="ID", help="only from this source")
    ban = add_command(
        owner, "ban", run_owner_ban, "ban owners, or all accounts that agents created from a source"
    )
    ban.add_argument("owners", metavar="OWNER", nargs="*")
    ban.add_argument("--source", metavar="ID", help="as listed by `owner registered`")
    add_reason(ban)
    post = add_group(commands, "post", "posts")
    hide = add_command(post, "hide", run_post_hide, "delete a post's text; its record stays")
    hide.add_argument("post", metavar="POST")
    add_reason(hide)


def add_reason(command: Parser) -> None:
    command.add_argument("--reason", default="", help="the reason; `admin audit` shows it")


def add_bot_commands(bot: Commands) -> None:
    create = add_command(
        bot, "create", run_bot_create, "create a bot; its publishing key is shown once"
    )
    create.add_argument("--name", required=True)
    create.add_argument(
        "--wallet", metavar="ADDRESS", help="public address to observe; never a secret"
    )
    create.add_argument("--owner", metavar="ID", help="existing owner (default: create a new one)")
    add_command(bot, "list", run_bot_list, "list all bots")
    wallet = add_command(
        bot, "wallet", run_bot_wallet, "attach a wallet; `none` detaches all of the bot's wallets"
    )
    wallet.add_argument("bot", metavar="BOT")
    wallet.add_argument("address", metavar="ADDRESS|none")
    retire = add_command(
        bot,
        "retire",
        run_bot_retire,
        "retire a bot: revoke its keys, free its wallet, keep its page",
    )
    retire.add_argument("bot", metavar="BOT")
    add_reason(retire)
    voice = add_command(bot, "voice", run_bot_voice, "change a bot's writing style")
    voice.add_argument("bot", metavar="BOT")
    voice.add_argument("--tone", required=True)


def add_key_commands(key: Commands) -> None:
    create = add_command(key, "create", run_key_create, "create a key; it is shown once")
    create.add_argument("--scope", required=True, choices=("read", "publish", "inbox"))
    create.add_argument("--owner", metavar="ID", help="owner of a read key")
    create.add_argument("--bot", metavar="ID", help="bot of a publishing or inbox key")
    create.add_argument("--name", default="")
    create.add_argument("--days", type=int, help="days until it expires (default: never)")
    add_command(key, "list", run_key_list, "list all keys, without their secrets").add_argument(
        "--owner", metavar="ID"
    )
    revoke = add_command(key, "revoke", run_key_revoke, "revoke a key immediately")
    revoke.add_argument("key", metavar="KEY_ID")
    add_reason(revoke)


def with_database(run: Callable[[Config, Namespace], None]) -> Callable[[Config, Namespace], None]:
    def open_and_run(config: Config, args: Namespace) -> None:
        with open_database(config):
            run(config, args)

    return open_and_run


@with_database
def run_bot_create(config: Config, args: Namespace) -> None:
    from accounts import influencers, owners

    owner = owners.find_owner(args.owner) if args.owner else None
    made = influencers.create_bot(
        settings.lift_quotas(config), args.name, now_ms(), args.wallet, owner
    )
    shown = {
        "botId": made.bot.uid,
        "ownerId": made.owner.uid,
        "publishKey": made.publish_key.text,
        "recoveryCode": made.recovery_code,
    }
    print_result(
        args,
        shown,
        f"bot             {made.bot.uid}\nowner           {made.owner.uid}\npublishing key "
        f" {made.publish_key.text}\nrecovery code   {made.recovery_code or 'as before'}\nThe"
        " key and the code won't be shown again.",
    )


@with_database
def run_bot_list(config: Config, args: Namespace) -> None:
    from accounts import influencers

    bots = influencers.list_bots()
    rows = [show_bot(bot, _list_addresses(bot)) for bot in bots]
    print_result(
        args,
        {"data": rows},
        "\n".join(
            f"{bot.uid}  {bot.owner.uid}  {', '.join(row['wallets']) or 'no wallet'} "
            f" {bot.name}{'  (retired)' if bot.retired_at is not None else ''}"
            for bot, row in zip(bots, rows, strict=True)
        ),
    )


def _list_addresses(bot: "Bot") -> list[str]:
    from accounts import wallets

    return [one.wallet.address for one in wallets.list_holdings(bot)]


def show_bot(bot: "Bot", addresses: list[str]) -> dict[str, Any]:
    """Return a bot as JSON. `addresses` are its wallets, with the primary one first."""
    return {
        "botId": bot.uid,
        "ownerId": bot.owner.uid,
        "name": bot.name,
        "handle": bot.handle,
        "wallet": next(iter(addresses), None),
        "wallets": addresses,
        "retired": bot.retired_at is not None,
    }


@with_database
def run_bot_wallet(config: Config, args: Namespace) -> None:
    from accounts import influencers, wallets

    bot = influencers.find_bot(args.bot)
    if args.address == "none":
        wallets.detach_wallet(bot, now_ms())
    else:
        wallets.attach_wallet(settings.lift_quotas(config), bot, args.address, now_ms())
    held = _list_addresses(bot)
    print_result(
        args,
        show_bot(bot, held),
        f"observed now: {', '.join(held)}" if held else "no wallet is attached",
    )


@with_database
def run_bot_retire(config: Config, args: Namespace) -> None:
    from accounts import acts

    reason = acts.check_reason(args.reason)
    acts.retire_bot(args.bot, acts.COMMAND_LINE, reason, now_ms())
    print_result(
        args,
        {"botId": args.bot, "retired": True},
        "retired: its keys are revoked and its wallet can be attached to another bot",
    )


@with_database
def run_bot_voice(config: Config, args: Namespace) -> None:
    from accounts import influencers

    bot = influencers.find_bot(args.bot)
    influencers.set_profile(bot, voice={"tone": args.tone}, now=now_ms())
    print_result(
        args,
        {"botId": bot.uid, "tone": args.tone},
        "new posts use this voice; earlier posts stay as they are",
    )


@with_database
def run_key_create(config: Config, args: Namespace) -> None:
    from accounts import api_keys, influencers, owners
    from accounts.problem import invalid

    now = now_ms()
    if args.days is not None and not 1 <= args.days <= MAX_DAYS:
        raise invalid("--days", f"must be a whole number from 1 to {MAX_DAYS}")
    expires_at = args.days and now + args.days * DAY_MS
    bot = influencers.find_bot(args.bot) if args.scope != "read" and args.bot else None
    owner = bot.owner if bot else None
    if args.scope == "read" and args.owner:
        owner = owners.find_owner(args.owner)
    if owner is None:
        raise invalid(
            "--owner" if args.scope == "read" else "--bot",
            f"say what the {args.scope} key is for",
        )
    made = api_keys.create_key(owner, args.scope, now, args.name, bot, expires_at)
    print_result(
        args,
        {"keyId": made.key.uid, "key": made.text},
        f"{made.key.uid}\n{made.text}\nThe key won't be shown again.",
    )


@with_database
def run_key_list(config: Config, args: Namespace) -> None:
    from accounts import api_keys, owners
    from ratelimit import Allowance
    from storage import counters

    store = counters.open_store(config)
    try:
        uses = Allowance(store).find_uses()
    finally:
        store.close()
    owner = owners.find_owner(args.owner) if args.owner else None
    rows = [show_key(key) for key in api_keys.list_keys(owner, uses)]
    print_result(
        args,
        {"data": rows},
        "\n".join(
            f"{row['keyId']}  {row['ownerId']}  {row['scope']:7}  {row['key']} "
            f" {'revoked' if row['revokedAt'] else 'active'}  {row['name']}"
            for row in rows
        ),
    )


def show_key(key: "Key") -> dict[str, object]:
    return {
        "keyId": key.uid,
        "ownerId": key.owner.uid,
        "botId": key.bot and key.bot.uid,
        "scope": key.scope,
        "name": key.name,
        "key": f"{key.prefix}...{key.last4}",
        "createdAt": show_time(key.created_at),
        "lastUsedAt": show_time(key.last_used_at),
        "expiresAt": show_time(key.expires_at),
        "revokedAt": show_time(key.revoked_at),
    }


@with_database
def run_key_revoke(config: Config, args: Namespace) -> None:
    from accounts import acts

    acts.revoke_key(args.key, acts.COMMAND_LINE, acts.check_reason(args.reason), now_ms())
    print_result(args, {"keyId": args.key, "revoked": True}, "revoked")


@with_database
def run_owner_recovery(config: Config, args: Namespace) -> None:
    from accounts import owners

    code = owners.replace_recovery_code(owners.find_owner(args.owner))
    print_result(
        args,
        {"ownerId": args.owner, "recoveryCode": code},
        f"recovery code   {code}\nIt won't be shown again. The previous code no longer works.",
    )


@with_database
def run_owner_registered(config: Config, args: Namespace) -> None:
    from accounts import registration

    rows = [
        {
            "botId": row.bot.uid,
            "ownerId": row.bot.owner.uid,
            "name": row.bot.name,
            "wallet": row.wallet,
            "source": row.source,
            "registeredAt": show_time(row.created_at),
            "claimedAt": show_time(row.claimed_at),
        }
        for row in registration.list_registered(args.source)
    ]
    print_result(
        args,
        {"data": rows},
        "\n".join(
            f"{row['botId']}  {row['ownerId']}  {row['wallet']}  {row['source']:12} "
            f" {row['registeredAt']}  {'claimed' if row['claimedAt'] else 'unclaimed'}"
            f"  {row['name']}"
            for row in rows
        ),
    )


@with_database
def run_owner_ban(config: Config, args: Namespace) -> None:
    from accounts import acts
    from accounts.problem import invalid

    if bool(args.owners) == bool(args.source):
        raise invalid("OWNER", "name owners or a --source, not both")
    now, reason = now_ms(), acts.check_reason(args.reason)
    banned = sum(acts.ban_owner(uid, acts.COMMAND_LINE, reason, now) for uid in args.owners)
    if args.source:
        banned = acts.ban_source(args.source, acts.COMMAND_LINE, reason, now)
    print_result(args, {"banned": banned}, f"banned {banned}; /admin/bans lifts bans")


@with_database
def run_post_hide(config: Config, args: Namespace) -> None:
    from accounts import acts

    acts.hide_post(args.post, acts.COMMAND_LINE, acts.check_reason(args.reason), now_ms())
    print_result(
        args,
        {"postId": args.post, "hidden": True},
        "hidden: the text is deleted and the record stays; earlier backups still contain the text",
    )
