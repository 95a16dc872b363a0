"""What the operator does, and the list of all that was done: each act and its line are one
transaction.

`who` is COMMAND_LINE or the uid of a session. `now` is UTC milliseconds. What was done already is
not done again, and adds no line.
"""

from accounts import api_keys, conduct, hiding, hooks, influencers, owners, wallets
from accounts.fields import check_line, check_wallet
from accounts.holdings import find_holder
from accounts.tables import AdminAct
from storage import erasing, writing

COMMAND_LINE = "command line"
MAX_REASON = 300
# Words of `AdminAct.what`, and what they say to people.
ACTS = {
    "login_link": "made a link to log in",
    "login": "logged in",
    "logout": "logged out",
    "logout_all": "logged everybody out",
    "hide_post": "hid a post",
    "retire_bot": "retired a bot",
    "revoke_key": "revoked a key",
    "switch_off_hook": "switched a hook off",
    "switch_on_hook": "switched a hook on",
    "remove_hook": "removed a hook",
    "ping_hook": "tested a hook",
    "dismiss_report": "dismissed a report",
    "ban_owner": "banned an owner",
    "unban_owner": "lifted the ban of an owner",
    "ban_wallet": "banned a wallet",
    "unban_wallet": "lifted the ban of a wallet",
    "begin_backup": "asked for a backup",
    "make_backup": "made a backup",
    "fail_backup": "could not make a backup",
}


def store_act(
    what: str, who: str, now: int, target: str | None = None, reason: str | None = None
) -> None:
    """Add a line to the list, in the transaction of the act."""
    assert what in ACTS
    AdminAct.create(at=now, who=who, what=what, target=target, reason=reason or None)


def list_acts(limit: int, before: int | None = None) -> list[AdminAct]:
    """List acts, the newest first; `before`: of those with a lower number."""
    acts = AdminAct.select().order_by(AdminAct.id.desc()).limit(limit)
    return list(acts.where(AdminAct.id < before) if before is not None else acts)


def check_reason(text: str, shortest: int = 0) -> str:
    """Return a reason as it is kept; Problem naming the field `reason` otherwise."""
    return check_line("reason", text, MAX_REASON, shortest)


def hide_post(uid: str, who: str, reason: str, now: int) -> bool:
    """Take a post's words out of the database; return whether anything was done."""
    with erasing():
        post = hiding.find_post(uid)
        if post.hidden_at is not None:
            return False
        hiding.erase_words(post, now)
        store_act("hide_post", who, now, uid, reason)
    return True


def retire_bot(uid: str, who: str, reason: str, now: int) -> bool:
    """Retire a bot; return whether anything was done."""
    with writing():
        bot = influencers.find_bot(uid)
        if bot.retired_at is not None:
            return False
        influencers.retire_bot(bot, now)
        store_act("retire_bot", who, now, uid, reason)
    return True


def revoke_key(uid: str, who: str, reason: str, now: int) -> bool:
    """End a key at once; return whether anything was done."""
    with writing():
        if api_keys.find_key(uid).revoked_at is not None:
            return False
        api_keys.revoke_key(uid, now)
        store_act("revoke_key", who, now, uid, reason)
    return True


def switch_hook(uid: str, on: bool, who: str, reason: str, now: int) -> bool:
    """Switch a hook off, or on again; return whether anything was done."""
    with writing():
        if not hooks.switch_hook(hooks.find_hook(uid), on, now):
            return False
        store_act("switch_on_hook" if on else "switch_off_hook", who, now, uid, reason)
    return True


def ping_hook(uid: str, who: str, reason: str, now: int) -> bool:
    """Ask for a ping of a hook; return whether it can be sent one."""
    with writing():
        if hooks.find_hook(uid).state == hooks.OFF:
            return False
        hooks.ask_for_ping(uid, now)
        store_act("ping_hook", who, now, uid, reason)
    return True


def remove_hook(uid: str, who: str, reason: str, now: int) -> None:
    """Forget a hook, its address and its secret."""
    with writing():
        hooks.remove_hook(uid)
        store_act("remove_hook", who, now, uid, reason)


def dismiss_report(uid: str, who: str, reason: str, now: int) -> bool:
    """Set a report aside; return whether anything was done."""
    with writing():
        report = conduct.find_report(uid)
        if not conduct.dismiss(uid, now):
            return False
        store_act("dismiss_report", who, now, report.reported.uid, reason)
    return True


def ban_owner(uid: str, who: str, reason: str, now: int) -> bool:
    """Keep an owner out; return whether anything was done."""
    with writing():
        if not conduct.ban_owner(owners.find_owner(uid), reason, now):
            return False
        store_act("ban_owner", who, now, uid, reason)
    return True


def ban_wallet(address: str, who: str, reason: str, now: int) -> bool:
    """Take a wallet from the bot that holds it, which keeps its others, and let no bot hold it;
    return whether anything was done.
    """
    address = check_wallet(address)
    with writing():
        if not conduct.ban_wallet(address, reason, now):
            return False
        held = find_holder(address)
        if held:
            wallets.give_up(held, now)
        store_act("ban_wallet", who, now, address, reason)
    return True


def lift_ban(kind: str, target: str, who: str, reason: str, now: int) -> bool:
    """End the ban of an `owner` or a `wallet`; return whether anything was done."""
    with writing():
        if not conduct.lift_ban(kind, target):
            return False
        store_act(f"unban_{kind}", who, now, target, reason)
    return True
