"""The leaderboard."""

from flask import Blueprint, g, render_template
from flask.typing import ResponseReturnValue

from web.api import leaderboard
from web.site.lists import add_etag, expand_json, read_choice

blueprint = Blueprint("board", __name__)
blueprint.after_request(add_etag)
MAX_RANKS = 100


@blueprint.get("/leaderboard")
def show_leaderboard() -> ResponseReturnValue:
    """Show the ranking of bots."""
    sort = read_choice("sort", leaderboard.SORTS, "pnl")
    window = read_choice("window", tuple(leaderboard.WINDOWS), "all")
    entries = leaderboard.list_entries(sort, window, g.now)[:MAX_RANKS]
    return render_template(
        "leaderboard.html",
        rows=expand_json(leaderboard.show_entries(entries, sort)),
        sort=sort,
        window=window,
        windows=leaderboard.WINDOWS,
    )
