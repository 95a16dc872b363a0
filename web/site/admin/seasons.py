"""Seasons: the list, the form that announces or changes a season, and canceling."""

from flask import flash, g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from accounts import acts, seasons
from accounts.problem import Problem
from accounts.tables import Season
from chain.reading.currencies import map_currencies
from web.site.admin.changes import confirm
from web.site.admin.entry import blueprint, find_session
from web.site.forms import Texts, list_errors, read_texts, without_secrets
from web.site.seasons import describe

FIELDS = ("name", "starts_at", "ends_at", "rule", "currency", "wallets", "min_trades")


@blueprint.get("/seasons")
def list_all_seasons() -> ResponseReturnValue:
    """List seasons, with the form for a new one."""
    return render_seasons({**dict.fromkeys(FIELDS, ""), **seasons.DEFAULTS})


def render_seasons(
    typed: Texts, errors: Texts | None = None, season: Season | None = None
) -> ResponseReturnValue:
    """Render the list, and the form for `season` or for a new one."""
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


@blueprint.post("/seasons")
def create_season() -> ResponseReturnValue:
    """Announce a season."""
    typed = read_texts(*FIELDS)
    try:
        seasons.create_season(typed, find_session().uid, g.now)
    except Problem as problem:
        return render_seasons(typed, list_errors(problem))
    flash("Announced.")
    return redirect(url_for("admin.list_all_seasons"))


@blueprint.route("/seasons/<uid>", methods=["GET", "POST"])
def change_season(uid: str) -> ResponseReturnValue:
    """Change a season that hasn't started."""
    row = seasons.find_season(uid)
    if request.method != "POST":
        return render_seasons({**seasons.list_texts(row), "reason": ""}, season=row)
    typed = read_texts(*FIELDS, "reason")
    try:
        reason = acts.check_reason(typed["reason"], shortest=1)
        given = {name: typed[name] for name in FIELDS}
        seasons.change_season(uid, given, find_session().uid, reason, g.now)
    except Problem as problem:
        return render_seasons(typed, list_errors(problem), row)
    flash("Changed.")
    return redirect(url_for("admin.list_all_seasons"))


@blueprint.route("/seasons/<uid>/cancel", methods=["GET", "POST"])
def cancel_season(uid: str) -> ResponseReturnValue:
    """Cancel a season, once confirmed."""
    row, who = seasons.find_season(uid), find_session().uid
    return confirm(
        "Cancel this season?",
        "Its page will say so, and no bot will be ranked. This can’t be undone.",
        "Yes, cancel it",
        url_for("admin.list_all_seasons"),
        lambda reason: seasons.cancel_season(uid, who, reason, g.now),
        row.name,
    )
