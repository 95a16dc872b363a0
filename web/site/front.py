"""The front page: the feed with its filters, the contradicted bots, and the week's best."""

from collections import Counter
from typing import NamedTuple

from flask import Blueprint, g, render_template, request
from flask.typing import ResponseReturnValue

from accounts.fields import holds_secret
from chain.addresses import is_address
from web.api import health, leaderboard, paging, queries, timeline
from web.api.serialize import Json
from web.site import pictures
from web.site.lists import add_etag, read_cursor
from web.site.pieces import draw_posts, link_to
from web.site.words import WINDOW_NAMES

blueprint = Blueprint("front", __name__)
blueprint.after_request(add_etag)
PAGE_SIZE, MAX_RANKED, MAX_CONTRADICTED, MAX_FILTER = 20, 5, 3, 88
# The window of the ranking in the side column.
WINDOW = "7d"


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
    position = read_cursor("before", scope, timeline.Start)
    page = timeline.Page([], None)
    # Read this before the posts, so that the stream sends posts that arrive while the page loads.
    newest = paging.write_newest(queries.find_last_id("arrival"))
    if not wrong:
        page = timeline.list_page(PAGE_SIZE, position, find_filters(asked))
    shown = render_template(
        "feed.html",
        posts=draw_posts(page.posts),
        cursor=page.next and paging.write_cursor(scope, page.next),
        asked=asked,
        problem=wrong,
        labels=timeline.LABELS,
        sources=timeline.SOURCES,
        first=position is None,
        newest=newest,
        side=make_side(),
    )
    return shown, 422 if wrong else 200


def read_filter() -> tuple[Filter, str | None]:
    given = {name: request.args.get(name, "").strip() for name in Filter._fields}
    # Typed text is shown again, unless it may be a pasted secret.
    for name in ("bot", "token"):
        if len(given[name]) > MAX_FILTER or holds_secret(given[name]):
            given[name] = ""
    asked = Filter(**given)
    if asked.label not in timeline.LABELS:
        return asked._replace(label=""), "Choose a label from the list."
    if asked.source not in timeline.SOURCES:
        return asked._replace(source=""), "Choose an author from the list."
    return asked, None


def find_filters(asked: Filter) -> timeline.Filters:
    """Return the timeline's filters. Simulated posts aren't listed together with real ones."""
    bots = queries.find_bot_ids(asked.bot) if asked.bot else [None]
    return timeline.Filters(
        asked.label,
        asked.source,
        bots[0] if bots else "nobody",
        find_mints(asked.token) if asked.token else None,
        asked.label == "simulated" or asked.source == "paper" or not queries.find_last_id("post"),
    )


def find_mints(token: str) -> tuple[str, ...]:
    """Return the mints for an address or a ticker, which several tokens may have."""
    return (token,) if is_address(token) else tuple(queries.find_mints(token.lstrip("$")))


def make_side() -> Json:
    """Make the side column: the week's ranking, and bots with recent posts that don't match."""
    board = leaderboard.read_board({"window": WINDOW})
    entries = leaderboard.list_entries(board, g.now, MAX_RANKED)
    shown = [row for row in leaderboard.show_entries(entries, board, g.now) if row["ranked"]]
    ranked = shown[:MAX_RANKED]
    found = Counter(queries.list_contradicted())
    return {
        "board": link_to("/leaderboard", window=WINDOW),
        "time": WINDOW_NAMES[WINDOW],
        "ranked": ranked,
        "sparks": pictures.draw_sparks(board, ranked),
        "contradicted": found.most_common(MAX_CONTRADICTED),
        "wallets": queries.count_tracked(),
        "health": health.check_instance(g.now),
    }
