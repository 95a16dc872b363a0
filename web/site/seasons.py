"""Season pages, the badge on a profile, joining from the Manage tab, and the operator's form."""

from functools import partial
from typing import Any

from flask import Blueprint, flash, g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from accounts import acts, seasons
from accounts.problem import Problem
from accounts.tables import Season
from chain.reading.currencies import map_currencies
from models import Bot
from web.api.paging import IdSortKey, cut_page
from web.api.seasons import cut_standings, show_season, show_standings
from web.api.serialize import Json
from web.site import creator, figures, words
from web.site.admin import entry
from web.site.admin.changes import confirm
from web.site.forms import Texts, first_error, list_errors, read_texts, without_secrets
from web.site.lists import add_etag, read_cursor

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
FIELDS = ("name", "starts_at", "ends_at", "rule", "currency", "wallets", "min_trades")
RULES = {"pnl": "realized PnL", "return": "return on cost", "pnl_floor": "worst case"}
UNRANKED = {
    **words.UNRANKED,
    "not_started": "the season hasn’t started",
    "excluded": "excluded by the operator",
    "not_proven": "a wallet is claimed, not proven",
    "not_observed": "not observed through the end of the season",
    "too_few_sells": "too few sales with a known cost",
}


@blueprint.get("/seasons")
def list_seasons() -> ResponseReturnValue:
    scope = ("seasons",)
    before = read_cursor("older", scope, IdSortKey)
    rows = seasons.list_seasons(PAGE_SIZE + 1, before.id if before else None)
    page = cut_page(rows, PAGE_SIZE, scope, lambda row: (row.id,))
    shown = [describe(row) for row in page.rows]
    return render_template("seasons.html", seasons=shown, cursor=page.cursor)


@blueprint.get("/seasons/<uid>")
def show_one_season(uid: str) -> ResponseReturnValue:
    row, scope = seasons.find_season(uid), ("standings of", uid)
    after = read_cursor("after", scope, seasons.Place)
    page = cut_standings(row, g.now, PAGE_SIZE, scope, after)
    rows = show_standings(row, page.rows)
    return render_template(
        "season.html",
        season=describe(row),
        rows=rows,
        cursor=page.cursor,
        decimals=row.decimals,
        places=figures.find_unit_places([one["realizedRaw"] for one in rows], row.decimals),
        unranked=UNRANKED,
    )


def describe(row: Season) -> Json:
    shown = show_season(row, g.now)
    return {
        **shown,
        "stateText": STATES[shown["state"]],
        "ruleText": RULES[row.rule],
    }


# ---- on a bot's pages ----------------------------------------------------------------------------
def find_badges(bot_id: int) -> list[Any]:
    return seasons.list_badges(bot_id, g.now)


def find_joinable(bot_id: int) -> list[Json]:
    """List the seasons that a bot takes part in (`isIn`) or may join."""
    return [
        {**describe(row), "isIn": seasons.is_entrant(row, bot_id, g.now)}
        for row in seasons.list_open()
        if g.now < row.ends_at
    ]


@creator.blueprint.post("/bots/<uid>/seasons")
@creator.managing
def join_season(bot: Bot) -> ResponseReturnValue:
    row = seasons.find_season(request.form.get("season", ""))
    try:
        is_new = seasons.join(row.uid, bot, g.now)
    except Problem as problem:
        flash(first_error(problem), "error")
    else:
        flash("Joined." if is_new else "This bot is already taking part.")
    return redirect(url_for("studio.show_manage", uid=bot.uid))


# ---- the operator --------------------------------------------------------------------------------
@entry.blueprint.get("/seasons")
def list_all_seasons() -> ResponseReturnValue:
    return render_seasons({**dict.fromkeys(FIELDS, ""), **seasons.DEFAULTS})


def render_seasons(
    typed: Texts, errors: Texts | None = None, season: Season | None = None
) -> ResponseReturnValue:
    page = render_template(
        "admin/seasons.html",
        seasons=[describe(row) for row in seasons.list_seasons()],
        season=season,
        typed=without_secrets(typed),
        errors=errors or {},
        longest=acts.MAX_REASON,
        choices={
            "rule": ("Ranked by", tuple(seasons.RULES)),
            "currency": ("Currency", tuple(map_currencies())),
            "wallets": ("Wallets", seasons.WALLETS),
        },
    )
    return page, 422 if errors else 200


@entry.blueprint.post("/seasons")
def create_season() -> ResponseReturnValue:
    typed = read_texts(*FIELDS)
    try:
        seasons.create_season(typed, entry.find_session().uid, g.now)
    except Problem as problem:
        return render_seasons(typed, list_errors(problem))
    flash("Announced.")
    return redirect(url_for("admin.list_all_seasons"))


@entry.blueprint.route("/seasons/<uid>", methods=["GET", "POST"])
def change_season(uid: str) -> ResponseReturnValue:
    row = seasons.find_season(uid)
    if request.method != "POST":
        return render_seasons({**seasons.list_texts(row), "reason": ""}, season=row)
    typed = read_texts(*FIELDS, "reason")
    try:
        reason = acts.check_reason(typed["reason"], shortest=1)
        given = {name: typed[name] for name in FIELDS}
        seasons.change_season(uid, given, entry.find_session().uid, reason, g.now)
    except Problem as problem:
        return render_seasons(typed, list_errors(problem), row)
    flash("Changed.")
    return redirect(url_for("admin.list_all_seasons"))


@entry.blueprint.route("/seasons/<uid>/cancel", methods=["GET", "POST"])
def cancel_season(uid: str) -> ResponseReturnValue:
    row = seasons.find_season(uid)
    return confirm(
        "Cancel this season?",
        "Its page will say so, and no bot will be ranked. This can’t be undone.",
        "Yes, cancel it",
        url_for("admin.list_all_seasons"),
        partial(seasons.cancel_season, uid),
        row.name,
    )
