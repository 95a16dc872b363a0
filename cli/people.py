"""bot, key, owner, post: influencers, their keys and wallets, lost codes, hiding a post."""

import config as settings
from cli import add_command, now_ms, open_database, say, show_time

DAY_MS, MAX_DAYS = 86_400_000, 3650


def add_commands(commands):
    bot = commands.add_parser("bot", help="influencers and their wallets").add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    create = add_command(
        bot, "create", run_bot_create, "an influencer and its publishing key, shown once"
    )
    create.add_argument("--name", required=True)
    create.add_argument(
        "--wallet", metavar="ADDRESS", help="the public address to observe, nothing secret"
    )
    create.add_argument("--owner", metavar="ID", help="an existing owner; else a new one is made")
    add_command(bot, "list", run_bot_list, "all influencers")
    wallet = add_command(bot, "wallet", run_bot_wallet, "attach a wallet, or none")
    wallet.add_argument("bot", metavar="BOT")
    wallet.add_argument("address", metavar="ADDRESS|none")
    add_command(
        bot, "retire", run_bot_retire, "revoke its keys, free its wallet, keep its page"
    ).add_argument("bot", metavar="BOT")
    voice = add_command(bot, "voice", run_bot_voice, "how it speaks")
    voice.add_argument("bot", metavar="BOT")
    voice.add_argument("--tone", required=True)

    key = commands.add_parser("key", help="API keys").add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    create = add_command(key, "create", run_key_create, "a key, shown once")
    create.add_argument("--scope", required=True, choices=("read", "publish"))
    create.add_argument("--owner", metavar="ID", help="of a read key")
    create.add_argument("--bot", metavar="ID", help="of a publishing key")
    create.add_argument("--name", default="")
    create.add_argument(
        "--days", type=int, help="it ends after so many days; else only when revoked"
    )
    add_command(key, "list", run_key_list, "all keys, without their secrets").add_argument(
        "--owner", metavar="ID"
    )
    add_command(key, "revoke", run_key_revoke, "end a key at once").add_argument(
        "key", metavar="KEY_ID"
    )

    owner = commands.add_parser("owner", help="those who hold influencers").add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    recovery = add_command(
        owner, "recovery", run_owner_recovery, "a new recovery code for who lost it"
    )
    recovery.add_argument("owner", metavar="OWNER")

    post = commands.add_parser("post", help="posts").add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    add_command(
        post, "hide", run_post_hide, "take a post's words out of the database; the record stays"
    ).add_argument("post", metavar="POST")


def with_database(run):
    """The command inside one open connection."""

    def open_and_run(config, args):
        with open_database(config):
            return run(config, args)

    return open_and_run


@with_database
def run_bot_create(config, args):
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
    say(
        args,
        shown,
        f"influencer      {made.bot.uid}\nowner           {made.owner.uid}\npublishing key "
        f" {made.publish_key.text}\nrecovery code   {made.recovery_code or 'as before'}\nKey and"
        " code are shown this once only.",
    )


@with_database
def run_bot_list(config, args):
    from accounts import influencers, wallets

    rows = [show_bot(bot, wallets.find_attachment(bot)) for bot in influencers.list_bots()]
    say(
        args,
        {"data": rows},
        "\n".join(
            f"{row['botId']}  {row['ownerId']}  {row['wallet'] or 'no wallet'} "
            f" {row['name']}{'  (retired)' * row['retired']}"
            for row in rows
        ),
    )


def show_bot(bot, attachment):
    return {
        "botId": bot.uid,
        "ownerId": bot.owner.uid,
        "name": bot.name,
        "handle": bot.handle,
        "wallet": attachment and attachment.wallet.address,
        "retired": bot.retired_at is not None,
    }


@with_database
def run_bot_wallet(config, args):
    from accounts import influencers, wallets

    bot = influencers.find_bot(args.bot)
    if args.address == "none":
        wallets.detach_wallet(bot, now_ms())
    else:
        wallets.attach_wallet(settings.lift_quotas(config), bot, args.address, now_ms())
    attachment = wallets.find_attachment(bot)
    say(
        args,
        show_bot(bot, attachment),
        f"observed now: {attachment.wallet.address}" if attachment else "no wallet now",
    )


@with_database
def run_bot_retire(config, args):
    from accounts import influencers

    bot = influencers.find_bot(args.bot)
    influencers.retire_bot(bot, now_ms())
    say(
        args,
        {"botId": bot.uid, "retired": True},
        "retired: its keys are revoked and its wallet is free",
    )


@with_database
def run_bot_voice(config, args):
    from accounts import influencers

    bot = influencers.find_bot(args.bot)
    influencers.set_profile(bot, voice={"tone": args.tone})
    say(
        args,
        {"botId": bot.uid, "tone": args.tone},
        "from now on it speaks so; earlier posts keep their words",
    )


@with_database
def run_key_create(config, args):
    from accounts import api_keys, influencers, owners
    from accounts.problem import invalid

    now = now_ms()
    if args.days is not None and not 1 <= args.days <= MAX_DAYS:
        raise invalid("--days", f"must be a whole number from 1 to {MAX_DAYS}")
    expires_at = args.days and now + args.days * DAY_MS
    if args.scope == "publish":
        bot = influencers.find_bot(args.bot) if args.bot else None
        owner = bot and bot.owner
    else:
        bot, owner = None, owners.find_owner(args.owner) if args.owner else None
    if owner is None:
        raise invalid(
            "--bot" if args.scope == "publish" else "--owner",
            f"say whose {args.scope} key this is to be",
        )
    made = api_keys.create_key(owner, args.scope, now, args.name, bot, expires_at)
    say(
        args,
        {"keyId": made.key.uid, "key": made.text},
        f"{made.key.uid}\n{made.text}\nThe key is shown this once only.",
    )


@with_database
def run_key_list(config, args):
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
    say(
        args,
        {"data": rows},
        "\n".join(
            f"{row['keyId']}  {row['ownerId']}  {row['scope']:7}  {row['key']} "
            f" {'revoked' if row['revokedAt'] else 'active'}  {row['name']}"
            for row in rows
        ),
    )


def show_key(key):
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
def run_key_revoke(config, args):
    from accounts import api_keys

    api_keys.revoke_key(args.key, now_ms())
    say(args, {"keyId": args.key, "revoked": True}, "revoked")


@with_database
def run_owner_recovery(config, args):
    from accounts import owners

    code = owners.replace_recovery_code(owners.find_owner(args.owner))
    say(
        args,
        {"ownerId": args.owner, "recoveryCode": code},
        f"recovery code   {code}\nIt is shown this once only; the code before it has stopped"
        " working.",
    )


@with_database
def run_post_hide(config, args):
    from accounts import posts

    posts.hide(args.post, now_ms())
    say(
        args,
        {"postId": args.post, "hidden": True},
        "hidden: the words have left the database, the record stays; backups made before still hold"
        " them",
    )
