"""Write the messages that hooks send: API events for programs, and plain text for people. Pure.

Webhooks follow Standard Webhooks 1.0 (standardwebhooks.com): a receiver detects repeats by
`webhook-id`, and forgeries and replays by the signature over ID, time and body.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit, urlunsplit

import orjson

# Discord allows 2,000 characters and Telegram 4,096. ntfy allows 4,096 bytes and turns longer text
# into a file.
MAX_TEXT, MAX_BYTES = 1_800, 4_000
# Discord's markup characters. URLs are matched first and stay unchanged, because these characters
# don't format anything inside a URL.
MARKUP = re.compile(r"https?://[^\s<]+|[\\`*_~|<>\[\]#]")
LABELS = {
    "verified": "Verified by a finalized transaction",
    "claimed": "Verified by a finalized transaction of a wallet that is claimed, not proven",
    "mismatch": "Does not match its transaction",
    "pending": "Waiting for its transaction",
    "not_found": "Transaction not found",
    "none": "Not verified",
}


class Event(NamedTuple):
    """An arrival, by its number.

    `shown` is a Post (for the kinds post and verification), a Trade or a wallet's Coverage, as in
    the API, or None if nothing is left to send. `fact` is one line about what the chain shows.
    """

    arrival: int
    kind: str
    shown: Mapping[str, Any] | None
    fact: str = ""


class Receiver(NamedTuple):
    uid: str
    kind: str
    url: str
    secret: str | None


class Message(NamedTuple):
    url: str
    headers: dict[str, str]
    body: bytes


def write_message(to: Receiver, event: Event | None, now: int, base_url: str) -> Message:
    """Write a message about an event, or a ping if there is no event. `now`: ms."""
    if to.kind == "webhook":
        return _write_webhook(to, event, now)
    quote = QUOTES.get(to.kind, str)
    text = write_text(event, base_url, quote) if event else "This is a test: Candor can reach you."
    return WRITERS[to.kind](to.url, text)


# ---- for programs --------------------------------------------------------------------------------
def _write_webhook(to: Receiver, event: Event | None, now: int) -> Message:
    seconds = str(now // 1000)
    message_id = f"msg_{to.uid}_{event.arrival}" if event else f"msg_{to.uid}_ping_{now}"
    body = orjson.dumps(
        {
            "type": event.kind if event else "ping",
            "timestamp": event.shown.get("createdAt") or event.shown.get("eventAt")
            if event and event.shown
            else None,
            "data": event.shown if event else {},
        }
    )
    headers = {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": seconds,
        "webhook-signature": sign(to.secret or "", message_id, seconds, body),
    }
    return Message(to.url, headers, body)


def sign(secret: str, message_id: str, seconds: str, body: bytes) -> str:
    """Return `v1,` and a base64 HMAC-SHA256, keyed with the bytes of `whsec_...`."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = b"%b.%b.%b" % (message_id.encode(), seconds.encode(), body)
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


# ---- for people ----------------------------------------------------------------------------------
def write_text(event: Event, base_url: str, quote: Callable[[str], str] = str) -> str:
    """Write a few lines: a post's text, its label, and what the chain shows."""
    shown, fact = event.shown or {}, quote(event.fact)
    if "verification" in shown:
        return _write_post(shown, fact, base_url, quote)
    return f"{fact}\n{base_url}/bots/{shown['botId']}?tab=trades"


def _write_post(
    post: Mapping[str, Any], fact: str, base_url: str, quote: Callable[[str], str]
) -> str:
    words = quote(post["body"] or "(text removed)")
    label = LABELS[_find_label(post)]
    head, link = f"{quote(post['botName'])}: ", f"{base_url}/posts/{post['id']}"
    tail = "\n".join(filter(None, (label, fact, link)))
    return f"{head}{_cut(words, f'{head}{tail}')}\n{tail}"


def _cut(words: str, rest: str) -> str:
    room, room_bytes = MAX_TEXT - len(rest) - 1, MAX_BYTES - len(rest.encode()) - 1
    if len(words) <= room and len(words.encode()) <= room_bytes:
        return words
    fitting = words[: room - 1].encode()[: room_bytes - len("…".encode())].decode(errors="ignore")
    # Half of an escape sequence would escape the next character.
    halved = (len(fitting) - len(fitting.rstrip("\\"))) % 2
    return fitting[: len(fitting) - halved] + "…"


def _find_label(post: Mapping[str, Any]) -> str:
    status: str = post["verification"]["status"]
    proven = post["provenance"]["ownership"] == "proven"
    return "claimed" if status == "verified" and not proven else status


def _for_discord(url: str, text: str) -> Message:
    # Untrusted text must not mention anyone.
    return _json(url, {"content": text, "allowed_mentions": {"parse": []}})


def _for_slack(url: str, text: str) -> Message:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _json(url, {"text": escaped, "mrkdwn": False, "unfurl_links": False})


def _for_telegram(url: str, text: str) -> Message:
    parts = urlsplit(url)
    chat = parse_qs(parts.query)["chat_id"][0]
    bare = urlunsplit(parts._replace(query=""))
    return _json(
        bare, {"chat_id": chat, "text": _mute(text), "link_preview_options": {"is_disabled": True}}
    )


def _for_ntfy(url: str, text: str) -> Message:
    return Message(url, {"Content-Type": "text/plain; charset=utf-8"}, text.encode())


def _for_apprise(url: str, text: str) -> Message:
    return Message(url, {}, _mute(text).replace("<!", "<\u200b!").encode())


def _mute(text: str) -> str:
    return text.replace("@", "@\u200b")


def _quote_markdown(text: str) -> str:
    return MARKUP.sub(lambda found: found[0] if len(found[0]) > 1 else f"\\{found[0]}", text)


def _json(url: str, value: Mapping[str, Any]) -> Message:
    return Message(url, {"Content-Type": "application/json"}, orjson.dumps(value))


WRITERS = {
    "discord": _for_discord,
    "slack": _for_slack,
    "telegram": _for_telegram,
    "ntfy": _for_ntfy,
    "apprise": _for_apprise,
}
# How services escape untrusted text. `str` is for services without markup.
QUOTES = {"discord": _quote_markdown}
