"""An owner's webhooks: their URLs, events and bots. `notify` delivers to them.

A webhook can follow other owners' bots. It receives only what the chain shows about them. Each
function is one short transaction that raises Problem and rolls back if the change isn't allowed.
`now` is UTC milliseconds.
"""

import base64
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qs, urlsplit

import orjson
from peewee import JOIN

from accounts import quotas
from accounts.fields import check_choice
from accounts.owners import check_present
from accounts.problem import invalid, refuse_full, refuse_unknown
from accounts.tables import Ban, Hook
from chain.stored.tables import NAMES
from chain.stored.trades import judge
from config import Config
from models import Arrival, Bot, Owner
from storage import in_parts, new_uid, writing
from storage.rows import read_stored

EVENTS = ("post", "trade", "verification", "coverage")
# Other owners' bots' events that a hook can receive.
PUBLIC_EVENTS = ("trade", "verification", "coverage")
MAX_BOTS = 50
# Allowed hosts. A webhook can use any host, and the operator can add ntfy servers.
HOSTS = {
    "webhook": (),
    "discord": ("discord.com", "discordapp.com"),
    "slack": ("hooks.slack.com",),
    "telegram": ("api.telegram.org",),
    "ntfy": ("ntfy.sh",),
}
# Created only by the operator's settings.
APPRISE = "apprise"
# The operator turned the hook off.
OFF = "off"
MAX_URL = 500
# Other ports belong to services that don't speak HTTP.
WEB_PORTS = (None, 80, 443)
# Excludes characters that urlsplit would drop or that a request line can't contain.
PLAIN_URL = re.compile(r"[!-~]+")
TELEGRAM_PATH = re.compile(r"/bot\d+:[\w-]+/sendMessage")
SECRET_BYTES = 24


def add_hook(
    config: Config,
    owner: Owner,
    url: str,
    now: int,
    kind: str = "webhook",
    events: Sequence[str] = ("post",),
    bots: Sequence[str] = (),
    trusted: bool = False,
) -> Hook:
    """Store a hook for events from now on. Only webhooks have a secret, which is shown once.

    It doesn't receive events until it responds to a ping, unless the operator vouches for it
    (`trusted`). `bots` are uids of the owner's bots, or of other bots to follow. If empty, all of
    the owner's bots are included. Raises Problem, which names the field.
    """
    check_url(config, url, kind)
    if not events or not set(events) <= set(EVENTS):
        raise invalid("events", f"must be one or more of: {', '.join(EVENTS)}")
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    with writing():
        check_present(owner.id)
        refuse_full(quotas.find_use(config, "hooks", owner.id))
        hook: Hook = Hook.create(
            uid=new_uid("hook"),
            owner=owner,
            kind=kind,
            url=url,
            secret=secret if kind == "webhook" else None,
            events=_write_list(dict.fromkeys(events)),
            bots=_write_list(_check_bots(owner, bots, events)),
            state="active" if trusted else "waiting",
            ping=not trusted,
            delivered=find_newest_arrival(),
            created_at=now,
        )
    return hook


def check_url(config: Config, url: str, kind: str) -> None:
    check_choice("kind", kind, HOSTS)
    parts = _split_url(url)
    private = config.hooks_private == "on"
    if parts.scheme != "https" and not (private and parts.scheme == "http"):
        raise invalid("url", "must begin with https://")
    if parts.username is not None or parts.fragment:
        raise invalid("url", "must not contain a username or a fragment")
    hosts = HOSTS[kind]
    if hosts and (parts.hostname not in hosts or parts.port is not None):
        raise invalid("url", f"must be an address at {' or '.join(hosts)}")
    if parts.port not in WEB_PORTS and not private:
        raise invalid("url", "must use port 80 or 443")
    query = parse_qs(parts.query)
    if kind == "telegram" and not (TELEGRAM_PATH.fullmatch(parts.path) and "chat_id" in query):
        raise invalid(
            "url", "must look like https://api.telegram.org/bot<token>/sendMessage?chat_id=<chat>"
        )


def _split_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if PLAIN_URL.fullmatch(url) and len(url) <= MAX_URL and parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        # There are malformed brackets around the host, or the port isn't a number.
        pass
    raise invalid("url", f"must be a web address of at most {MAX_URL} characters")


def _check_bots(owner: Owner, uids: Sequence[str], events: Iterable[str]) -> list[str]:
    """Return the bots without duplicates, the owner's first."""
    own = {bot.uid for bot in Bot.select(Bot.uid).where(Bot.owner == owner)} if uids else set()
    others = [uid for uid in dict.fromkeys(uids) if uid not in own]
    chosen = [*(uid for uid in dict.fromkeys(uids) if uid in own), *others]
    if len(chosen) > MAX_BOTS:
        raise invalid("bots", f"must list at most {MAX_BOTS} bots")
    active = Bot.select().where(Bot.uid.in_(others), Bot.retired_at.is_null())
    if active.where(Bot.owner.not_in(_find_banned())).count() < len(others):
        raise invalid("bots", "must be bots on this instance that are neither retired nor banned")
    if others and not set(events) & set(PUBLIC_EVENTS):
        words = ", ".join(PUBLIC_EVENTS)
        raise invalid(
            "events", f"can only be one or more of these for another owner's bot: {words}"
        )
    return chosen


def _find_banned() -> Any:
    banned = Ban.select(Ban.target).where(Ban.kind == "owner")
    return Owner.select(Owner.id).where(Owner.uid.in_(banned))


def find_followed(rows: Iterable[Hook]) -> dict[int, frozenset[str]]:
    """Return {hook's row ID: others' bots it follows}, without those of banned owners."""
    banned = {owner.id for owner in _find_banned()}
    kept = [row for row in rows if row.owner_id is not None and row.owner_id not in banned]
    named = {row.id: set(read_list(row.bots) or ()) for row in kept}
    holders: dict[str, int] = {}
    for part in in_parts({uid for uids in named.values() for uid in uids}):
        found = Bot.select(Bot.uid, Bot.owner).where(Bot.uid.in_(part))
        holders |= {bot.uid: bot.owner_id for bot in found if bot.owner_id not in banned}
    return {
        row.id: frozenset(
            uid for uid in named[row.id] if holders.get(uid, row.owner_id) != row.owner_id
        )
        for row in kept
    }


def follow(owner: Owner, hook_uid: str, bot_uid: str) -> None:
    with writing():
        hook = find_own_hook(owner, hook_uid)
        named = read_list(hook.bots)
        if not named:
            raise invalid(
                "hook",
                "covers all of your bots; add a separate notification for other owners' bots",
            )
        _check_bots(owner, [bot_uid], read_list(hook.events) or ())
        bots = list(dict.fromkeys([*named, bot_uid]))
        if len(bots) > MAX_BOTS:
            raise invalid("bots", f"must list at most {MAX_BOTS} bots")
        Hook.update(bots=_write_list(bots)).where(Hook.id == hook.id).execute()


def unfollow(owner: Owner, hook_uid: str, bot_uid: str) -> None:
    """Remove a bot from one of the owner's hooks. If it was the last one, delete the hook."""
    with writing():
        hook = find_own_hook(owner, hook_uid)
        named = read_list(hook.bots) or []
        if bot_uid not in named:
            return
        bots = [uid for uid in named if uid != bot_uid]
        if bots:
            Hook.update(bots=_write_list(bots)).where(Hook.id == hook.id).execute()
        else:
            hook.delete_instance()


def _write_list(words: Iterable[str]) -> str:
    return orjson.dumps(list(words)).decode()


def find_newest_arrival() -> int:
    newest: int | None = Arrival.select(Arrival.id).order_by(Arrival.id.desc()).limit(1).scalar()
    return newest or 0


def find_hook(uid: str) -> Hook:
    hook: Hook | None = Hook.get_or_none(Hook.uid == uid)
    return hook or refuse_unknown("hook")


def find_own_hook(owner: Owner, uid: str) -> Hook:
    hook = find_hook(uid)
    return hook if hook.owner_id == owner.id else refuse_unknown("hook")


def list_hooks(owner: Owner | None = None) -> list[Hook]:
    hooks = Hook.select(Hook, Owner).join(Owner, JOIN.LEFT_OUTER).order_by(Hook.id)
    return list(hooks.where(Hook.owner == owner) if owner else hooks)


def remove_hook(uid: str) -> None:
    """Raise Problem if the hook is in the settings: the next start would add it again."""
    with writing():
        if Hook.get_or_none(Hook.uid == uid, Hook.owner.is_null()):
            raise invalid("hook", "is set by APPRISE_URLS; remove it there")
        if not Hook.delete().where(Hook.uid == uid).execute():
            refuse_unknown("hook")


def keep_operator_hooks(urls: Iterable[str], events: Iterable[str], now: int) -> None:
    """Replace the operator's hooks, which have no owner.

    New hooks start with the next event, existing ones keep their position, and all others are
    deleted.
    """
    kept = {hook.url: hook for hook in Hook.select().where(Hook.owner.is_null())}
    stored = _write_list(events)
    with writing():
        for url in urls:
            hook = kept.pop(url, None)
            if hook is None:
                Hook.create(
                    uid=new_uid("hook"),
                    kind=APPRISE,
                    url=url,
                    events=stored,
                    state="active",
                    delivered=find_newest_arrival(),
                    created_at=now,
                )
            elif hook.events != stored:
                Hook.update(events=stored).where(Hook.id == hook.id).execute()
        for hook in kept.values():
            hook.delete_instance()


def ask_for_ping(uid: str, now: int) -> bool:
    """Schedule a ping. If the receiver responds, a waiting or paused hook becomes active.

    Return False if the operator turned the hook off.
    """
    with writing():
        mine = (Hook.id == find_hook(uid).id) & (Hook.state != OFF)
        return bool(Hook.update(ping=True, due_at=now).where(mine).execute())


def switch_hook(uid: str, on: bool, now: int) -> bool:
    """Return False if the hook already was on or off.

    Only the operator can turn it on again. Events resume once it responds to a ping.
    """
    hook = find_hook(uid)
    if on != (hook.state == OFF):
        return False
    change = {"state": "waiting" if on else OFF, "ping": on, "failures": 0, "due_at": now}
    with writing():
        Hook.update(
            failing_since=None, last_error=None, delivered=find_newest_arrival(), **change
        ).where(Hook.id == hook.id).execute()
    return True


def mask_url(url: str) -> str:
    """Return the URL without its path, which may contain a token."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/…"


def read_list(text: str) -> list[str] | None:
    """Return None if the JSON list is damaged."""
    words: list[str] | None = read_stored(text, NAMES.shape)
    return words


# ---- what followers get --------------------------------------------------------------------------
LABELS = ("verified", "mismatch")
# A history with and without a gap.
STATES = ("partial", "complete")


class Shared(NamedTuple):
    """An event as followers receive it: one of PUBLIC_EVENTS, and the object to show."""

    kind: str
    shown: Mapping[str, Any]


def share(kind: str, shown: Mapping[str, Any]) -> Shared | None:
    """Return the public version of an event, or None if it isn't public.

    Public events are a verified trade, a post labeled verified or mismatch, and a gap in the
    history that was found or closed.
    """
    if kind == "trade":
        # Share the trade only if a post about it would be verified.
        status, _ = judge(shown["kind"], shown["flags"], (), None, shown["explainedShare"])
        return Shared(kind, shown) if status == "verified" else None
    if kind == "coverage":
        coverage = shown["coverage"]
        return Shared(kind, shown) if coverage and coverage["state"] in STATES else None
    verification = shown["verification"]
    # A later change of the label is a separate event.
    is_judged = kind == "verification" or verification["checkedAt"] == shown["createdAt"]
    if shown["hiddenAt"] or verification["status"] not in LABELS or not is_judged:
        return None
    # Only the bot's owner may know the key.
    provenance = {**shown["provenance"], "keyId": None}
    return Shared("verification", {**shown, "provenance": provenance})
