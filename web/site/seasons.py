"""Season pages, the badge on a profile, and joining from a bot's Manage tab."""

from collections.abc import Callable
from typing import Any

from flask import Blueprint, flash, g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from accounts import seasons
from accounts.problem import Problem
from accounts.tables import Season
from models import Bot
from web.api import paging
from web.api.paging import IdPosition
from web.api.seasons import cut_standings, show_season, show_standings
from web.api.serialize import Json
from web.server.application import find_app
from web.site import creator, figures, words
from web.site.forms import first_error
from web.site.lists import add_etag, cut_page, read_cursor

blueprint = Blueprint("season_pages", __name__)
blueprint.after_request(add_etag)
PAGE_SIZE = 50
STATES = {
    "upcoming": "starts soon",
    "running": "running",
    "closing": "over, results being checked",
    "final": "final",
    "cancelled": "canceled",
}
RULES = {"pnl": "realized PnL", "return": "return on cost", "pnl_floor": "worst case"}
UNRANKED = {
    **words.UNRANKED,
    "not_started": "the season hasn’t started",
    "excluded": "excluded by the operator",
    "not_proven": "a wallet is claimed, not proven",
    "not_observed": "not observed until the season ended",
    "too_few_sells": "too few sales with a known cost",
}


@blueprint.get("/seasons")
def list_seasons() -> ResponseReturnValue:
    """List seasons, newest first."""
    scope = ("seasons",)
    before = read_cursor("older", scope, IdPosition)
    rows = seasons.list_seasons(PAGE_SIZE + 1, before.id if before else None)
    page = cut_page(rows, PAGE_SIZE, scope, lambda row: (row.id,))
    shown = [describe(row) for row in page.rows]
    return render_template("seasons.html", seasons=shown, cursor=page.cursor)


@blueprint.get("/seasons/<uid>")
def show_one_season(uid: str) -> ResponseReturnValue:
    """Show a season with its standings, which are live, provisional or final."""
    row, scope = seasons.find_season(uid), ("standings of", uid)
    after = read_cursor("after", scope, seasons.Place)
    page, last = cut_standings(row, g.now, PAGE_SIZE, after)
    cursor = last and paging.write_cursor(find_app().secret, scope, last)
    rows = show_standings(row, page)
    return render_template(
        "season.html",
        season=describe(row),
        rows=rows,
        cursor=cursor,
        decimals=row.decimals,
        places=figures.find_unit_places([one["realizedRaw"] for one in rows], row.decimals),
        unranked=UNRANKED,
    )


def describe(row: Season) -> Json:
    """Return the Season with its text for pages."""
    shown = show_season(row, g.now)
    return {
        **shown,
        "stateText": STATES[shown["state"]],
        "ruleText": RULES[row.rule],
    }


# ---- on a bot's pages ----------------------------------------------------------------------------
def find_badges(bot_id: int) -> list[dict[str, Any]]:
    """List the seasons in which a bot has a final rank or takes part."""
    return seasons.list_badges(bot_id, g.now)


def find_joinable(bot_id: int) -> list[Json]:
    """List the seasons in which a bot takes part (`isIn`) or which it may join."""
    return [
        {**describe(row), "isIn": seasons.is_entrant(row, bot_id, g.now)}
        for row in seasons.list_open()
        if g.now < row.ends_at
    ]


@creator.blueprint.post("/bots/<uid>/seasons")
@creator.managing
def join_season(bot: Bot) -> ResponseReturnValue:
    """Add a bot to the season in the form."""
    row = seasons.find_season(request.form.get("season", ""))
    try:
        is_new = seasons.join(row.uid, bot, g.now)
    except Problem as problem:
        flash(first_error(problem), "error")
    else:
        flash("Joined." if is_new else "This bot is already taking part.")
    return redirect(url_for("studio.show_manage", uid=bot.uid))


FILTERS: dict[str, Callable[..., Any]] = {
    "find_badges": find_badges,
    "find_joinable": find_joinable,
}
