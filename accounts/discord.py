"""What bots send to a Discord webhook, read as a post. Pure.

The shape is Discord's "Execute Webhook": `content`, or up to ten `embeds` with title, description,
fields, author and footer. What else is in it is left alone.
"""

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

from accounts.problem import invalid
from chain.base58 import is_base58

MAX_EMBEDS, MAX_FIELDS = 10, 25
# A post's body; longer words are cut.
MAX_WORDS = 4000
EVENT_ID_BYTES = 16
# A nonce is longer nowhere at Discord.
MAX_NONCE = 25
MINUTE_MS = 60_000
# Where Discord's numbers of messages begin, in ms; their 22 lowest bits tell those of a
# millisecond apart.
SNOWFLAKE_EPOCH, SNOWFLAKE_BITS = 1_420_070_400_000, 22
# 64 bytes in base58 are 87 or 88 characters, rarely fewer.
SIGNATURE = re.compile(
    r"(?<![1-9A-HJ-NP-Za-km-z])[1-9A-HJ-NP-Za-km-z]{80,88}(?![1-9A-HJ-NP-Za-km-z])"
)
# Discord's markup as plain words: masked links, custom emoji, bold, underline, code.
MARKUP = (
    # No bracket within a bracket, or brackets alone would take quadratic time.
    (re.compile(r"\[([^\[\]\n]*)\]\(\s*<?https?://[^()\s]*>?\s*\)"), r"\1"),
    (re.compile(r"<a?(:\w+:)\d+>"), r"\1"),
    (re.compile(r"\*\*|__|```|`|\|\|"), ""),
)
# A moment that Discord shows in each reader's own zone, in Unix seconds.
TIME = re.compile(r"<t:(\d{1,10})(?::[a-zA-Z])?>")


def read_message(value: dict[str, Any]) -> dict[str, Any]:
    """Read the JSON of a webhook as the fields of a post: `body`, perhaps `signature`.

    The first transaction signature in words or links is the post's. Problem where nothing is said.
    """
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
    """Return the event id of a message, so that one sent again is the same event: its `nonce`,
    else a hash of it, of the inbox key's public id and of the minute. `now` in ms.

    A message that names a transaction is one event in whichever minute: nothing else repeats it.
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
    """Make Discord's message object of a message `value` that is stored as this post.

    `post`, `bot` and `key` are public ids, `name` is the bot's, `created_at` in ms. Clients read
    ids as whole numbers, and when a message was made from its id.
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
    """A whole number of 60 bits as text, for a public id."""
    return str(int(hashlib.sha256(uid.encode()).hexdigest()[:15], 16))


def _number_at(uid: str, created_at: int) -> str:
    """Like _number, with the moment in it, as in Discord's own ids."""
    low = int(_number(uid)) & ((1 << SNOWFLAKE_BITS) - 1)
    return str((created_at - SNOWFLAKE_EPOCH) << SNOWFLAKE_BITS | low)


def _list_words(value: dict[str, Any]) -> Iterator[str]:
    """Every line that readers of Discord would see, in its order."""
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
    """The objects of a list; what else may stand there is left alone."""
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
