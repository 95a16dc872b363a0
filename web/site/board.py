"""The leaderboard: one row of filters for a chart and its tables."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import Any

from flask import Blueprint, g, render_template, request
from flask.typing import ResponseReturnValue

from chain.reading.currencies import map_currencies
from web.api import leaderboard
from web.api.leaderboard import show_connected
from web.site import pictures
from web.site.candor import find_strips
from web.site.figures import SOL_DECIMALS, find_unit_places
from web.site.lists import add_etag
from web.site.pieces import link_to
from web.site.words import WINDOW_NAMES

blueprint = Blueprint("board", __name__)
blueprint.after_request(add_etag)
# Rows per group: proven or claimed, with or without a rank.
MAX_RANKS = 25
TIMES = {**WINDOW_NAMES, "all": "all time"}
# Each with its choices and their labels.
FILTERS = {
    "window": ("Time", {value: name.capitalize() for value, name in TIMES.items()}),
    "record": ("History", {"forward": "Since connected", "all": "Everything known"}),
    # The choices depend on the operator's currencies.
    "currency": ("Currency", {}),
    "ownership": ("Wallets", {"": "All", "proven": "Proven", "claimed": "Claimed"}),
}


@blueprint.get("/leaderboard")
def show_leaderboard() -> ResponseReturnValue:
    # A form sends every field, including empty ones.
    board = leaderboard.read_board({name: text for name, text in request.args.items() if text})
    entries = leaderboard.list_entries(board, g.now, MAX_RANKS)
    rows: list[Any] = leaderboard.show_entries(entries, board, g.now)
    decimals = board.stablecoin.decimals if board.stablecoin else SOL_DECIMALS
    groups, unit = defaultdict(list), "Raw" if board.stablecoin else "Lamports"
    for row in rows:
        amounts = {"realized": row[f"realized{unit}"], "worst": row[f"worstCase{unit}"]}
        groups[row["ownership"]].append({**row, **amounts})
    return render_template(
        "leaderboard.html",
        groups=groups,
        places=find_places(groups, board),
        decimals=decimals,
        sparks=pictures.draw_sparks(board, rows),
        strips=find_strips([row["botId"] for row in rows]),
        board=board,
        time=TIMES[board.window],
        filters={**FILTERS, "currency": ("Currency", {c: c for c in map_currencies()})},
        link=partial(link_board, board),
        most=MAX_RANKS,
        is_cut=MAX_RANKS in Counter(map(leaderboard.find_group, entries)).values(),
        connected=show_connected(),
        race=pictures.draw_race(board, rows),
    )


def find_places(groups: Mapping[Any, list[Any]], board: leaderboard.Board) -> dict[Any, int]:
    """Return each group's decimal places. In SOL, all groups have the same."""
    amounts = {kind: [row["realized"] for row in rows] for kind, rows in groups.items()}
    if board.stablecoin:
        decimals = board.stablecoin.decimals
        return {kind: find_unit_places(raws, decimals) for kind, raws in amounts.items()}
    return dict.fromkeys(groups, find_unit_places(chain.from_iterable(amounts.values())))


def link_board(board: leaderboard.Board, **chosen: Any) -> str:
    values = board._replace(**chosen)._asdict()
    if values["currency"] == leaderboard.Board().currency:
        del values["currency"]
    return link_to("/leaderboard", **values)
