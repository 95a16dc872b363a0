"""The page that makes a paper trader. Managing one is the command line's."""

from flask import Blueprint, flash, g, redirect, render_template, url_for

from accounts import influencers, traders
from accounts.names import check_name
from accounts.problem import Problem
from web.server import gate, sessions
from web.site.creator import keep_nothing
from web.site.forms import (
    TONES,
    check_registration,
    find_errors,
    list_errors,
    read_texts,
    settings,
    without_secrets,
)

blueprint = Blueprint("new_trader", __name__)
blueprint.before_request(sessions.check_sender)
blueprint.after_request(keep_nothing)
FAMILIES = {
    "momentum": "buys what rises on rising volume",
    "mean_reversion": "buys what fell far under its mean and waits for the mean",
    "breakout": "buys new highs on heavy volume, and loud newcomers",
    "flow": "follows what several observed wallets buy",
}
STARTS = {
    "guarded": (
        "guarded (suggested): a quarter of the size and two positions at most, until 14 days and 20"
        " closes have passed"
    ),
    "standard": "standard: full size at once",
}


@blueprint.get("/traders/new")
def show_casting():
    return render_casting({})


def render_casting(typed, errors=None, status=200, headers=None):
    return (
        render_template(
            "new_trader.html",
            typed=without_secrets(typed),
            errors=errors or {},
            families=FAMILIES,
            starts=STARTS,
            tones=TONES,
            closed=settings().registration == "closed",
        ),
        status,
        headers or {},
    )


@blueprint.post("/traders/new")
def create_trader():
    texts, owner = read_texts("name", "bio", "family", "start", "tone"), sessions.find_owner()
    errors = find_errors(
        name=lambda: check_name(texts["name"]),
        bio=lambda: influencers.check_bio(texts["bio"]),
        family=lambda: traders.check_choice("family", texts["family"], tuple(FAMILIES)),
        start=lambda: traders.check_choice("start", texts["start"] or "guarded", tuple(STARTS)),
    )
    voice = {"tone": texts["tone"]} if texts["tone"].strip() else {}
    errors |= find_errors(tone=lambda: influencers.check_voice(voice))
    if errors:
        return render_casting(texts, errors, 422)
    try:
        check_registration()
        gate.check_creation(owner and owner.id)
        made = traders.create_trader(
            texts["name"],
            texts["family"],
            g.now,
            texts["start"] or "guarded",
            owner,
            voice,
            texts["bio"],
            config=settings(),
        )
    except Problem as problem:
        return render_casting(texts, list_errors(problem), problem.status, problem.headers)
    if not made.recovery_code:
        flash("It plays from the next tick on, with virtual funds.")
        return redirect(url_for("pages.show_trader", uid=made.trader.uid))
    sessions.begin_session(made.owner, g.now)
    return render_template("cast.html", trader=made.trader, recovery_code=made.recovery_code)
