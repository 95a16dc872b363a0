"""The front page: the feed with its filters, the contradicted bots, and the week's best."""

from collections import Counter
from typing import NamedTuple

from flask import Blueprint, g, render_template, request
from flask.typing import ResponseReturnValue

from accounts.fields import holds_secret
from chain.addresses import is_address
from storage.rows import read, select, select_value
from web.api import health, leaderboard, paging, timeline
from web.api.serialize import Json
from web.api.wallets import count_tracked
from web.site import pictures
from web.site.lists import add_etag, read_cursor
from web.site.pieces import draw_posts, link_to
from web.site.words import WINDOW_NAMES

blueprint = Blueprint("front", __name__)
blueprint.after_request(add_etag)
PAGE_SIZE, MAX_RANKED, MAX_CONTRADICTED, MAX_FILTER = 20, 5, 3, 88
# The window of the ranking in the side column.
WINDOW = "7d"
CALLED = "SELECT uid FROM bot WHERE uid = ? OR handle = ? OR LOWER(name) = ? ORDER BY id LIMIT 1"
MINTS_CALLED = "SELECT mint FROM token WHERE LOWER(symbol) = ? ORDER BY id LIMIT 10"
# The bots of posts that don't match their transaction, newest first.
CONTRADICTED = """
SELECT b.uid, b.name FROM post p JOIN bot b ON b.id = p.bot_id WHERE p.status = 'mismatch'
ORDER BY p.id DESC LIMIT ?"""
MAX_RECENT = 500


class Filter(NamedTuple):
    """The filters as typed. `token`: a ticker or address. `bot`: a name, handle or ID."""

    label: str = ""
    source: str = ""
    bot: str = ""
    token: str = ""

    @property
    def is_set(self) -> bool:
        return any(self)

    def link(self, **changes: str) -> str:
        given = {name: text for name, text in {**self._asdict(), **changes}.items() if text}
        return link_to("/", **given)


@blueprint.get("/")
def show_feed() -> ResponseReturnValue:
    asked, wrong = read_filter()
    scope = ("feed page", *asked)
    start = read_cursor("before", scope, timeline.Start)
    page = timeline.Page([], None)
    # Read this before the posts, so that the stream sends posts that arrive while the page loads.
    newest = paging.write_newest(paging.find_last_id("arrival"))
    if not wrong:
        page = timeline.list_page(PAGE_SIZE, start, find_filters(asked))
    shown = render_template(
        "feed.html",
        posts=draw_posts(page.posts),
        cursor=page.next and paging.write_cursor(scope, page.next),
        asked=asked,
        problem=wrong,
        labels=timeline.LABELS,
        sources=timeline.SOURCES,
        first=start is None,
        newest=newest,
        side=make_side(),
    )
    return shown, 422 if wrong else 200


def read_filter() -> tuple[Filter, str | None]:
    label, source = (request.args.get(name, "").strip() for name in ("label", "source"))
    asked = Filter(label, source, read_typed("bot"), read_typed("token"))
    if asked.label not in timeline.LABELS:
        return asked._replace(label=""), "Choose a label from the list."
    if asked.source not in timeline.SOURCES:
        return asked._replace(source=""), "Choose an author from the list."
    return asked, None


def read_typed(name: str) -> str:
    """Return typed text to show again, or "" if it is too long or may be a pasted secret."""
    text = request.args.get(name, "").strip()
    return "" if len(text) > MAX_FILTER or holds_secret(text) else text


def find_filters(asked: Filter) -> timeline.Filters:
    """Return the timeline's filters. Simulated posts aren't listed together with real ones."""
    return timeline.Filters(
        asked.label,
        asked.source,
        find_bot(asked.bot) if asked.bot else None,
        find_mints(asked.token) if asked.token else None,
        asked.label == "simulated" or asked.source == "paper" or not paging.find_last_id("post"),
    )


def find_bot(name: str) -> str:
    """Return the bot ID for an ID, handle or name."""
    handle = name.lower().removeprefix("@")
    return select_value(CALLED, (name, handle, handle)) or "nobody"


def find_mints(token: str) -> tuple[str, ...]:
    """Return the mints for an address or a ticker, which several tokens may have."""
    ticker = token.lstrip("$").lower()
    return (token,) if is_address(token) else tuple(select(str, MINTS_CALLED, (ticker,)))


def make_side() -> Json:
    """Make the side column: the week's ranking, and bots with recent posts that don't match."""
    board = leaderboard.read_board({"window": WINDOW})
    entries = leaderboard.list_entries(board, g.now, MAX_RANKED)
    shown = [row for row in leaderboard.show_entries(entries, board, g.now) if row["ranked"]]
    ranked = shown[:MAX_RANKED]
    found = Counter(read(CONTRADICTED, (MAX_RECENT,)))
    return {
        "board": link_to("/leaderboard", window=WINDOW),
        "time": WINDOW_NAMES[WINDOW],
        "ranked": ranked,
        "sparks": pictures.draw_sparks(board, ranked),
        "contradicted": found.most_common(MAX_CONTRADICTED),
        "wallets": count_tracked(),
        "health": health.check_instance(),
    }
