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
    """Read the JSON of a webhook as the fields of a post: `eventId`, `body`, perhaps `signature`.

    The first transaction signature in words or links is the post's; with one, the same message
    sent again is the same event. `eventId` is None without one. Problem where nothing is said.
    """
    lines = [one for one in _list_words(value) if one]
    words = "\n".join(plain for one in lines if (plain := _write_plain(one)))
    if not words:
        raise invalid("content", "is empty, and there are no embeds")
    found = next(_list_signatures([*lines, *_list_links(value)]), None)
    return {
        "eventId": _name_event(value) if found else None,
        "body": words if len(words) <= MAX_WORDS else words[: MAX_WORDS - 1] + "…",
        **({"signature": found} if found else {}),
    }


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


def _name_event(value: dict[str, Any]) -> str:
    raw = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return "discord-" + hashlib.sha256(raw).hexdigest()[: 2 * EVENT_ID_BYTES]
