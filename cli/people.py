"""The commands for people and bots: bot, key, owner, post, hook, season."""

import contextlib
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import config as settings
from cli import (
    Commands,
    Parser,
    add_command,
    add_group,
    add_reason,
    format_rows,
    now_ms,
    print_result,
    print_rows,
    show_time,
    with_database,
)
from config import Config

if TYPE_CHECKING:
    from accounts.tables import Hook, Season
    from models import Bot, Key

DAY_MS, MAX_DAYS = 86_400_000, 3650


def add_commands(commands: Commands) -> None:
    add_bot_commands(add_group(commands, "bot", "bots and their wallets"))
    add_key_commands(add_group(commands, "key", "API keys"))
    owner = add_group(commands, "owner", "people who own bots")
    text = "issue a new recovery code to an owner who lost theirs"
    add_command(owner, "recovery", run_owner_recovery, text, owner="OWNER")
    text = "list the bots that agents registered"
    registered = add_command(owner, "registered", run_owner_registered, text)
    registered.add_argument("--source", metavar="ID", help="only bots registered from this source")
    text = "ban owners, or all accounts that agents created from a source"
    ban = add_command(owner, "ban", run_owner_ban, text)
    ban.add_argument("owners", metavar="OWNER", nargs="*")
    ban.add_argument("--source", metavar="ID", help="source, as listed by `owner registered`")
    add_reason(ban)
    post = add_group(commands, "post", "posts")
    text = "delete a post's text; its record stays"
    add_reason(add_command(post, "hide", run_post_hide, text, post="POST"))
    text = "webhooks and chat channels that receive notifications about bots"
    add_hook_commands(add_group(commands, "hook", text))
    add_season_commands(add_group(commands, "season", "contests of bots, with frozen standings"))


def add_bot_commands(bot: Commands) -> None:
    text = "create a bot; its publishing key is shown once"
    create = add_command(bot, "create", run_bot_create, text)
    create.add_argument("--name", required=True)
    text = "public address to observe; never a secret"
    create.add_argument("--wallet", metavar="ADDRESS", help=text)
    create.add_argument("--owner", metavar="ID", help="existing owner (default: create a new one)")
    add_command(bot, "list", run_bot_list, "list all bots")
    text = "attach a wallet; `none` detaches all of the bot's wallets"
    add_command(bot, "wallet", run_bot_wallet, text, bot="BOT", address="ADDRESS|none")
    text = "retire a bot: revoke its keys, free its wallet, keep its page"
    add_reason(add_command(bot, "retire", run_bot_retire, text, bot="BOT"))
    voice = add_command(bot, "voice", run_bot_voice, "change a bot's writing style", bot="BOT")
    voice.add_argument("--tone", required=True)


def add_key_commands(key: Commands) -> None:
    create = add_command(key, "create", run_key_create, "create a key; it is shown once")
    create.add_argument("--scope", required=True, choices=("read", "publish", "inbox"))
    create.add_argument("--owner", metavar="ID", help="owner of a read key")
    create.add_argument("--bot", metavar="ID", help="bot of a publishing or inbox key")
    create.add_argument("--name", default="")
    create.add_argument("--days", type=int, help="days until the key expires (default: never)")
    add_command(key, "list", run_key_list, "list all keys, without their secrets").add_argument(
        "--owner", metavar="ID"
    )
    text = "revoke a key immediately"
    add_reason(add_command(key, "revoke", run_key_revoke, text, key="KEY_ID"))


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
    lines = (
        f"bot             {made.bot.uid}",
        f"owner           {made.owner.uid}",
        f"publishing key  {made.publish_key.text}",
        f"recovery code   {made.recovery_code or 'as before'}",
        "The key and the code won't be shown again.",
    )
    print_result(args, shown, "\n".join(lines))


@with_database
def run_bot_list(config: Config, args: Namespace) -> None:
    from accounts import influencers

    rows = [show_bot(bot) for bot in influencers.list_bots()]
    print_rows(args, rows, "botId", "ownerId", "wallets", "retired", "name")


def show_bot(bot: "Bot") -> dict[str, Any]:
    from accounts import wallets

    # The primary one first.
    addresses = [one.wallet.address for one in wallets.list_holdings(bot)]
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
    shown = show_bot(bot)
    held = ", ".join(shown["wallets"])
    print_result(args, shown, f"observed now: {held}" if held else "no wallet is attached")


@with_database
def run_bot_retire(config: Config, args: Namespace) -> None:
    from accounts import acts

    reason = acts.check_reason(args.reason)
    acts.retire_bot(args.bot, acts.COMMAND_LINE, reason, now_ms())
    text = "retired: its keys are revoked and its wallet can be attached to another bot"
    print_result(args, {"botId": args.bot, "retired": True}, text)


@with_database
def run_bot_voice(config: Config, args: Namespace) -> None:
    from accounts import influencers

    bot = influencers.find_bot(args.bot)
    influencers.set_profile(bot, voice={"tone": args.tone}, now=now_ms())
    text = "new posts use this voice; earlier posts stay as they are"
    print_result(args, {"botId": bot.uid, "tone": args.tone}, text)


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
        option = "--owner" if args.scope == "read" else "--bot"
        raise invalid(option, f"say what the {args.scope} key is for")
    made = api_keys.create_key(owner, args.scope, now, args.name, bot, expires_at)
    text = f"{made.key.uid}\n{made.text}\nThe key won't be shown again."
    print_result(args, {"keyId": made.key.uid, "key": made.text}, text)


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
    print_rows(args, rows, "keyId", "ownerId", "scope", "key", "revokedAt", "name")


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
    text = f"recovery code   {code}\nIt won't be shown again. The previous code no longer works."
    print_result(args, {"ownerId": args.owner, "recoveryCode": code}, text)


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
    columns = "botId", "ownerId", "wallet", "source", "registeredAt", "claimedAt", "name"
    print_rows(args, rows, *columns)


@with_database
def run_owner_ban(config: Config, args: Namespace) -> None:
    from accounts import acts
    from accounts.problem import invalid

    if bool(args.owners) == bool(args.source):
        raise invalid("OWNER", "give owners or a --source, not both")
    now, reason = now_ms(), acts.check_reason(args.reason)
    banned = sum(acts.ban_owner(uid, acts.COMMAND_LINE, reason, now) for uid in args.owners)
    if args.source:
        banned = acts.ban_source(args.source, acts.COMMAND_LINE, reason, now)
    print_result(args, {"banned": banned}, f"banned {banned}; /admin/bans lifts bans")


@with_database
def run_post_hide(config: Config, args: Namespace) -> None:
    from accounts import acts

    acts.hide_post(args.post, acts.COMMAND_LINE, acts.check_reason(args.reason), now_ms())
    text = (
        "hidden: the text is deleted and the record stays; earlier backups still contain the text"
    )
    print_result(args, {"postId": args.post, "hidden": True}, text)


# ---- hooks ---------------------------------------------------------------------------------------
def add_hook_commands(hook: Commands) -> None:
    text = "add a hook; a webhook's secret is shown once"
    add = add_command(hook, "add", run_hook_add, text, owner="OWNER", url="URL")
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
        ("off", run_hook_switch, "turn a hook off; its owner can't turn it back on"),
        ("on", run_hook_switch, "turn a hook back on; it must respond to a ping first"),
    ):
        command = add_command(hook, name, run, help, hook="HOOK_ID")
        if name != "test":
            add_reason(command)


@with_database
def run_hook_add(config: Config, args: Namespace) -> None:
    """Add a hook without a ping first, because the operator vouches for the receiver."""
    from accounts import hooks, owners

    made = hooks.add_hook(
        settings.lift_quotas(config),
        owners.find_owner(args.owner),
        args.url,
        now_ms(),
        args.kind,
        _split_words(args.events),
        _split_words(args.bots),
        trusted=True,
    )
    text = f"{made.uid}\n{made.secret or 'no secret'}\nThe secret won't be shown again."
    print_result(args, {"hookId": made.uid, "secret": made.secret}, text)


def _split_words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


@with_database
def run_hook_list(config: Config, args: Namespace) -> None:
    from accounts import hooks, owners

    owner = owners.find_owner(args.owner) if args.owner else None
    rows = [show_hook(hook) for hook in hooks.list_hooks(owner)]
    print_rows(args, rows, "hookId", "ownerId", "kind", "url", "state", "lastError")


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
def run_hook_switch(config: Config, args: Namespace) -> None:
    from accounts import acts

    on, reason = args.action == "on", acts.check_reason(args.reason)
    acts.switch_hook(args.hook, on, acts.COMMAND_LINE, reason, now_ms())
    print_result(args, {"hookId": args.hook, "on": on}, "on" if on else "off")


@with_database
def run_hook_test(config: Config, args: Namespace) -> None:
    from accounts import hooks

    hooks.ask_for_ping(args.hook, now_ms())
    text = "the running server sends a ping within seconds; `hook list` shows the result"
    print_result(args, {"hookId": args.hook, "asked": True}, text)


# ---- seasons -------------------------------------------------------------------------------------
# The options, and the fields that they fill.
SEASON_FIELDS = {
    "name": ("name", "NAME", "as shown to readers"),
    "start": ("starts_at", "TIME", "a full hour in UTC, such as 2026-12-01T00:00Z"),
    "end": ("ends_at", "TIME", "a full hour after the start"),
    "rule": ("rule", "RULE", "pnl (default), return or pnl_floor (worst case)"),
    "currency": ("currency", "SYMBOL", "SOL (default) or a stablecoin"),
    "wallets": ("wallets", "WHICH", "proven (default) or all"),
    "min-trades": ("min_trades", "N", "sales with a known cost required for a rank (default: 3)"),
}


SEASON_COLUMNS = (
    *("seasonId", "state", "startsAt", "endsAt", "rule", "currency", "wallets", "minTrades"),
    "name",
)


def add_season_commands(season: Commands) -> None:
    create = add_command(season, "create", run_season_create, "announce a season")
    _add_fields(create, required=("name", "start", "end"))
    add_command(season, "list", run_season_list, "all seasons, newest first")
    text = "change a season that hasn't started; omitted options stay the same"
    change = add_command(season, "change", run_season_change, text, season="SEASON")
    add_reason(change)
    _add_fields(change)
    text = "cancel a season that isn't final"
    add_reason(add_command(season, "cancel", run_season_cancel, text, season="SEASON"))


def _add_fields(command: Parser, required: tuple[str, ...] = ()) -> None:
    for option, (field, metavar, help) in SEASON_FIELDS.items():
        command.add_argument(
            f"--{option}", dest=field, metavar=metavar, help=help, required=option in required
        )


def _read_fields(args: Namespace) -> dict[str, str]:
    given = {field: getattr(args, field) for field, *_ in SEASON_FIELDS.values()}
    return {field: text for field, text in given.items() if text is not None}


@contextlib.contextmanager
def _naming_options() -> Iterator[None]:
    """Use the option's name in an error about a field."""
    from accounts.problem import Problem, invalid

    options = {field: option for option, (field, *_) in SEASON_FIELDS.items()}
    try:
        yield
    except Problem as problem:
        error = problem.errors[0] if problem.errors else {"field": ""}
        if error["field"] not in options:
            raise
        raise invalid(f"--{options[error['field']]}", error["message"]) from None


@with_database
def run_season_create(config: Config, args: Namespace) -> None:
    from accounts import acts, seasons

    with _naming_options():
        made = seasons.create_season(_read_fields(args), acts.COMMAND_LINE, now_ms())
    _print_season(config, args, made)


@with_database
def run_season_change(config: Config, args: Namespace) -> None:
    from accounts import acts, seasons

    reason = acts.check_reason(args.reason)
    with _naming_options():
        seasons.change_season(args.season, _read_fields(args), acts.COMMAND_LINE, reason, now_ms())
    _print_season(config, args, seasons.find_season(args.season))


@with_database
def run_season_cancel(config: Config, args: Namespace) -> None:
    from accounts import acts, seasons

    reason = acts.check_reason(args.reason)
    seasons.cancel_season(args.season, acts.COMMAND_LINE, reason, now_ms())
    _print_season(config, args, seasons.find_season(args.season))


@with_database
def run_season_list(config: Config, args: Namespace) -> None:
    from accounts import seasons

    rows = [_show_season(one) for one in seasons.list_seasons()]
    print_rows(args, rows, *SEASON_COLUMNS)


def _print_season(config: Config, args: Namespace, season: "Season") -> None:
    shown = _show_season(season)
    link = f"{config.base_url}/seasons/{season.uid}"
    print_result(args, {**shown, "url": link}, f"{format_rows([shown], *SEASON_COLUMNS)}\n{link}")


def _show_season(season: "Season") -> dict[str, Any]:
    from accounts import seasons

    return {
        "seasonId": season.uid,
        "state": seasons.find_state(season, now_ms()),
        "name": season.name,
        "startsAt": show_time(season.starts_at),
        "endsAt": show_time(season.ends_at),
        "rule": season.rule,
        "currency": season.symbol,
        "wallets": season.wallets,
        "minTrades": season.min_sales,
    }
