"""Operator actions. Each action and its line in the audit log are one transaction.

`who` is COMMAND_LINE or the uid of an admin session. `now` is UTC milliseconds. Repeating an action
that already took effect doesn't do or log anything.
"""

import functools
from collections.abc import Callable

from accounts import api_keys, conduct, hooks, influencers, owners, wallets
from accounts.fields import check_line, check_wallet
from accounts.registration import list_registered
from accounts.tables import AdminAct
from accounts.wallets import find_holder
from storage import erasing, writing

COMMAND_LINE = "command line"
MAX_REASON = 300
# `AdminAct.what`, and how pages describe it.
ACTS = {
    "login_link": "created a sign-in link",
    "login": "signed in",
    "logout": "signed out a session",
    "logout_all": "signed out every session",
    "hide_post": "hid a post",
    "retire_bot": "retired a bot",
    "revoke_key": "revoked a key",
    "switch_off_hook": "turned a webhook off",
    "switch_on_hook": "turned a webhook on",
    "remove_hook": "removed a webhook",
    "ping_hook": "tested a webhook",
    "dismiss_report": "dismissed a report",
    "ban_owner": "banned an owner",
    "unban_owner": "lifted the ban on an owner",
    "ban_wallet": "banned a wallet",
    "unban_wallet": "lifted the ban on a wallet",
    "create_season": "created a season",
    "change_season": "changed a season",
    "cancel_season": "canceled a season",
    "begin_backup": "requested a backup",
    "make_backup": "made a backup",
    "fail_backup": "failed to make a backup",
}


def store_act(
    what: str, who: str, now: int, target: str | None = None, reason: str | None = None
) -> None:
    """Call this inside the action's transaction."""
    assert what in ACTS
    AdminAct.create(at=now, who=who, what=what, target=target, reason=reason or None)


def list_acts(limit: int, before: int | None = None) -> list[AdminAct]:
    acts = AdminAct.select().order_by(AdminAct.id.desc()).limit(limit)
    return list(acts.where(AdminAct.id < before) if before is not None else acts)


def check_reason(text: str, shortest: int = 0) -> str:
    return check_line("reason", text, MAX_REASON, shortest)


def _act(
    what: str, who: str, now: int, target: str, reason: str, effect: Callable[[], bool]
) -> bool:
    with writing():
        done = effect()
        if done:
            store_act(what, who, now, target, reason)
    return done


def hide_post(uid: str, who: str, reason: str, now: int) -> bool:
    with erasing():
        return _act("hide_post", who, now, uid, reason, lambda: conduct.hide_post(uid, now))


def retire_bot(uid: str, who: str, reason: str, now: int) -> bool:
    bot = influencers.find_bot(uid)
    return _act("retire_bot", who, now, uid, reason, lambda: influencers.retire_bot(bot, now))


def revoke_key(uid: str, who: str, reason: str, now: int) -> bool:
    return _act("revoke_key", who, now, uid, reason, lambda: api_keys.revoke_key(uid, now))


def switch_hook(uid: str, on: bool, who: str, reason: str, now: int) -> bool:
    what = "switch_on_hook" if on else "switch_off_hook"
    return _act(what, who, now, uid, reason, lambda: hooks.switch_hook(uid, on, now))


def ping_hook(uid: str, who: str, reason: str, now: int) -> bool:
    """Request a test delivery. Return False if the webhook is off."""
    return _act("ping_hook", who, now, uid, reason, lambda: hooks.ask_for_ping(uid, now))


def remove_hook(uid: str, who: str, reason: str, now: int) -> None:
    with writing():
        hooks.remove_hook(uid)
        store_act("remove_hook", who, now, uid, reason)


def dismiss_report(uid: str, who: str, reason: str, now: int) -> bool:
    post = conduct.find_report(uid).reported.uid
    return _act("dismiss_report", who, now, post, reason, lambda: conduct.dismiss(uid, now))


def ban_owner(uid: str, who: str, reason: str, now: int) -> bool:
    owner = owners.find_owner(uid)
    return _act("ban_owner", who, now, uid, reason, lambda: conduct.ban_owner(owner, reason, now))


def ban_source(source: str, who: str, reason: str, now: int, most: int | None = None) -> int:
    """Ban accounts that registered from this source, and their bots' wallets. Return the number.

    At most `most` bots are newly banned. Claiming a bot doesn't exempt it. An account from another
    source isn't banned for a bot that it claimed. Each bot is a separate transaction, so that other
    writers get a turn.
    """
    found = list_registered(source)[::-1] if source else []
    made, banned = {row.account_id for row in found}, 0
    for row in found:
        if row.bot.owner_id not in made:
            continue
        if banned == most:
            break
        with writing():
            done = ban_owner(row.bot.owner.uid, who, reason, now)
            done |= ban_wallet(row.wallet, who, reason, now)
        banned += done
    return banned


def ban_wallet(address: str, who: str, reason: str, now: int) -> bool:
    """Ban a wallet and disconnect it from its bot. Return False if it was already banned."""
    address = check_wallet(address)
    with writing():
        if not conduct.ban("wallet", address, reason, now):
            return False
        held = find_holder(address)
        if held:
            wallets.give_up(held, now)
        store_act("ban_wallet", who, now, address, reason)
    return True


def lift_ban(kind: str, target: str, who: str, reason: str, now: int) -> bool:
    lift = functools.partial(conduct.lift_ban, kind, target)
    return _act(f"unban_{kind}", who, now, target, reason, lift)
