"""Read messages sent to a Discord webhook as posts. Pure.

The format is Discord's "Execute Webhook": `content`, or up to ten `embeds` with title, description,
fields, author and footer. Other members are ignored.
"""

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

from accounts.problem import invalid
from chain.addresses import is_base58

MAX_EMBEDS, MAX_FIELDS = 10, 25
# Truncate longer posts.
MAX_WORDS = 4000
EVENT_ID_BYTES = 16
# Discord's limit.
MAX_NONCE = 25
MINUTE_MS = 60_000
# Discord's epoch in ms. The low 22 bits of its message IDs distinguish messages within a
# millisecond.
SNOWFLAKE_EPOCH, SNOWFLAKE_BITS = 1_420_070_400_000, 22
# 64 bytes are 87 or 88 characters in base58, rarely fewer.
SIGNATURE = re.compile(
    r"(?<![1-9A-HJ-NP-Za-km-z])[1-9A-HJ-NP-Za-km-z]{80,88}(?![1-9A-HJ-NP-Za-km-z])"
)
# Discord's markup as plain text: masked links, custom emoji, bold, underline, code.
MARKUP = (
    # Matching nested brackets would take quadratic time.
    (re.compile(r"\[([^\[\]\n]*)\]\(\s*<?https?://[^()\s]*>?\s*\)"), r"\1"),
    (re.compile(r"<a?(:\w+:)\d+>"), r"\1"),
    (re.compile(r"\*\*|__|```|`|\|\|"), ""),
)
# A timestamp (Unix seconds) that Discord shows in each reader's time zone.
TIME = re.compile(r"<t:(\d{1,10})(?::[a-zA-Z])?>")


def read_message(value: dict[str, Any]) -> dict[str, Any]:
    """Return `body` and, if there is one, `signature`. Raises Problem without text."""
    lines = [one for one in _list_words(value) if one]
    words = "\n".join(plain for one in lines if (plain := _write_plain(one)))
    if not words:
        raise invalid("content", "is empty, and there are no embeds")
    found = next(_list_signatures([*lines, *_list_links(value)]), None)
    return {
        "body": words if len(words) <= MAX_WORDS else words[: MAX_WORDS - 1] + "…",
        **({"signature": found} if found else {}),
    }


def name_event(value: dict[str, Any], signature: str | None, key: str, now: int) -> str:
    """Return a message's event id, so that a retry maps to the same event.

    It is the message's `nonce`, or a hash of the message, the inbox key's public id and the minute.
    If the message cites a transaction, the hash omits key and minute, because the message can only
    be about that event. `now`: ms.
    """
    nonce = value.get("nonce")
    if nonce is not None and nonce != "":
        return _read_nonce(nonce)
    if signature is not None:
        return _hash_event(value)
    return _hash_event([key, now // MINUTE_MS, value])


def _read_nonce(nonce: Any) -> str:
    text = str(nonce) if isinstance(nonce, int) and not isinstance(nonce, bool) else nonce
    if not (isinstance(text, str) and text.strip() and len(text) <= MAX_NONCE):
        raise invalid("nonce", f"must be a whole number, or text of 1 to {MAX_NONCE} characters")
    return text


def show_message(
    value: dict[str, Any], post: str, bot: str, name: str, key: str, created_at: int
) -> dict[str, Any]:
    """Build Discord's message object for a `value` stored as this post.

    `post`, `bot` and `key` are public ids. Clients parse ids as integers and read the creation time
    (ms) from them.
    """
    moment = datetime.fromtimestamp(created_at / 1000, UTC)
    webhook = _number(key)
    return {
        "id": _number_at(post, created_at),
        "type": 0,
        "channel_id": _number(bot),
        "webhook_id": webhook,
        "author": {
            "id": webhook,
            "username": name,
            "discriminator": "0000",
            "avatar": None,
            "bot": True,
        },
        "content": _text(value.get("content")),
        "embeds": _list_embeds(value),
        "attachments": [],
        "components": [],
        "mentions": [],
        "mention_roles": [],
        "mention_everyone": False,
        "pinned": False,
        "tts": False,
        "flags": 0,
        "timestamp": moment.isoformat(timespec="milliseconds"),
        "edited_timestamp": None,
        **({"nonce": value["nonce"]} if value.get("nonce") else {}),
    }


def _number(uid: str) -> str:
    """Return a 60-bit integer derived from a public id, as text."""
    return str(int(hashlib.sha256(uid.encode()).hexdigest()[:15], 16))


def _number_at(uid: str, created_at: int) -> str:
    """Encode the creation time as in Discord's own IDs."""
    low = int(_number(uid)) & ((1 << SNOWFLAKE_BITS) - 1)
    return str((created_at - SNOWFLAKE_EPOCH) << SNOWFLAKE_BITS | low)


def _list_words(value: dict[str, Any]) -> Iterator[str]:
    yield _text(value.get("content"))
    for embed in _list_embeds(value):
        yield _text(_part(embed, "author").get("name"))
        yield _text(embed.get("title"))
        yield _text(embed.get("description"))
        for field in _parts(embed.get("fields"), MAX_FIELDS):
            name, said = _text(field.get("name")), _text(field.get("value"))
            yield f"{name}: {said}" if name and said else name or said
        yield _text(_part(embed, "footer").get("text"))


def _list_links(value: dict[str, Any]) -> Iterator[str]:
    for embed in _list_embeds(value):
        yield _text(embed.get("url"))
        yield _text(_part(embed, "author").get("url"))


def _list_embeds(value: dict[str, Any]) -> list[dict[str, Any]]:
    return _parts(value.get("embeds"), MAX_EMBEDS)


def _parts(given: Any, most: int) -> list[dict[str, Any]]:
    listed = given[:most] if isinstance(given, list) else []
    return [one for one in listed if isinstance(one, dict)]


def _part(given: dict[str, Any], name: str) -> dict[str, Any]:
    found = given.get(name)
    return found if isinstance(found, dict) else {}


def _text(given: Any) -> str:
    return given.strip() if isinstance(given, str) else ""


def _write_plain(line: str) -> str:
    for pattern, plain in MARKUP:
        line = pattern.sub(plain, line)
    return TIME.sub(_write_time, line).strip()


def _write_time(found: re.Match[str]) -> str:
    moment = datetime.fromtimestamp(int(found[1]), UTC)
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _list_signatures(texts: list[str]) -> Iterator[str]:
    for text in texts:
        yield from (found for found in SIGNATURE.findall(text) if is_base58(found, 64))


def _hash_event(value: Any) -> str:
    raw = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return "discord-" + hashlib.sha256(raw).hexdigest()[: 2 * EVENT_ID_BYTES]
