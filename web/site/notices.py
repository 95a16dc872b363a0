"""Notifications for people: the fact about each event on one line."""

from notify.messages import Event
from web.api import queries, stream
from web.api.serialize import Json
from web.site import facts, words


def list_notices(base_url: str, after: int, limit: int) -> list[Event]:
    """Return the events after this arrival, in order, each with its fact."""
    events = stream.list_events(base_url, after, limit)
    return [event._replace(fact=write_line(event.kind, event.shown)) for event in events]


def write_line(kind: str, shown: Json | None) -> str:
    """Write what the chain shows about an event on one line. The text is empty if it shows
    nothing.
    """
    if shown is None:
        return ""
    if kind == "trade":
        bot = queries.find_bot(shown["botId"])
        return f"{words.plain(bot.name) if bot else ''}: {facts.write_trade(shown)}"
    if kind == "coverage":
        state = shown["coverage"]["state"] if shown["coverage"] else "none"
        return f"{words.plain(shown['botName'])}: {words.COVERAGE[state]}"
    return facts.write_fact(shown)
