"""The leaderboard."""

from collections import Counter
from functools import partial
from typing import Any

from flask import Blueprint, g, render_template, request, url_for
from flask.typing import ResponseReturnValue

from chain.quotes import QUOTES
from web.api import leaderboard, v1
from web.api.connected import show_connected
from web.site import pictures
from web.site.kept_pages import keep_page
from web.site.lists import add_etag, expand_json

blueprint = Blueprint("board", __name__)
blueprint.after_request(add_etag)
# Of each group: proven or claimed, with a rank or without.
MAX_RANKS = 25


@blueprint.get("/leaderboard")
@keep_page
def show_leaderboard() -> ResponseReturnValue:
    """Show the ranking of bots."""
    board = v1.read_board(request.args)
    entries = leaderboard.list_entries(board, g.now, MAX_RANKS)
    rows = expand_json(leaderboard.show_entries(entries, board, g.now))
    name = "realizedRaw" if board.quote else "realizedSol"
    bots = tuple(row["botId"] for row in rows if row[name] is not None)
    return render_template(
        "leaderboard.html",
        rows=rows,
        board=board,
        link=partial(link_board, board),
        quotes=QUOTES,
        most=MAX_RANKS,
        is_cut=MAX_RANKS in Counter(map(leaderboard.find_group, entries)).values(),
        sparks=pictures.draw_sparks(board, bots),
        connected=show_connected(),
        # Its bots are those that are ranked in SOL.
        race="" if board.quote else pictures.draw_race(),
    )


def link_board(board: leaderboard.Board, **chosen: Any) -> str:
    """Return the address of a board with these choices in place of its own. All others stay, but
    for the stablecoin where `sort` ranks by none.
    """
    told = board._replace(**chosen)
    if told.sort != leaderboard.SORTS[0]:
        told = told._replace(quote=None)
    values = told._asdict() | {"quote": told.quote and told.quote.symbol}
    return url_for("board.show_leaderboard", **values)
