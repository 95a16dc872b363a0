"""The page that creates a paper trader. Traders are managed from the command line."""

from flask import Blueprint, flash, g, redirect, render_template, url_for
from flask.typing import ResponseReturnValue

from accounts import influencers, traders
from accounts.fields import check_choice, check_name
from accounts.problem import Problem
from models import Owner
from paper.strategies import COPY
from storage import writing
from web.server import gate, sessions
from web.server.gate import settings
from web.site.creator import forbid_caching
from web.site.forms import TONES, Texts, check_all, list_errors, read_texts, without_secrets
from web.site.paper_pages import find_price_trouble

blueprint = Blueprint("new_trader", __name__)
blueprint.before_request(sessions.check_sender)
blueprint.after_request(forbid_caching)
FAMILIES = {
    "momentum": "buys tokens rising on growing volume",
    "mean_reversion": "buys tokens far below their average and waits for them to recover",
    "breakout": "buys new highs on heavy volume, and heavily traded new tokens",
    "flow": "follows what several observed wallets buy",
}
COPY_TEXT = "buys what one observed bot buys, 6 seconds after its purchase is observed"
STARTS = {
    "guarded": (
        "guarded (suggested): a quarter of the size and at most two positions, for the first 14"
        " days and 20 closes"
    ),
    "standard": "standard: full size immediately",
}


@blueprint.get("/traders/new")
def show_new_trader() -> ResponseReturnValue:
    return render_new_trader({})


def render_new_trader(
    typed: Texts,
    errors: Texts | None = None,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> ResponseReturnValue:
    page = render_template(
        "new_trader.html",
        typed=without_secrets(typed),
        errors=errors or {},
        families={**FAMILIES, COPY: COPY_TEXT},
        starts=STARTS,
        tones=TONES,
        closed=settings().registration == "closed",
        trouble=find_price_trouble(g.now),
    )
    return page, status, headers or {}


@blueprint.post("/traders/new")
def create_trader() -> ResponseReturnValue:
    texts = read_texts("name", "bio", "family", "bot", "start", "tone")
    texts["start"] = texts["start"] or "guarded"
    try:
        _check(texts)
        made = _create(texts, sessions.find_owner())
    except Problem as problem:
        return render_new_trader(texts, list_errors(problem), problem.status, problem.headers)
    if not made.recovery_code:
        flash("It starts trading virtual SOL at the next tick.")
        return redirect(url_for("paper.show_trader", uid=made.trader.uid))
    return render_template(
        "trader_created.html",
        trader=made.trader,
        recovery_code=made.recovery_code,
        trouble=find_price_trouble(g.now),
    )


def _check(texts: Texts) -> None:
    chosen = _settings_of(texts)
    check_all(
        lambda: check_name(texts["name"]),
        lambda: influencers.check_bio(texts["bio"]),
        lambda: check_choice("family", texts["family"], (*FAMILIES, COPY)),
        lambda: chosen and traders.check_settings(COPY, chosen),
        lambda: check_choice("start", texts["start"], tuple(STARTS)),
        lambda: influencers.check_voice(_voice_of(texts)),
    )


def _settings_of(texts: Texts) -> dict[str, int | str]:
    return {"bot": texts["bot"].strip()} if texts["family"] == COPY else {}


def _voice_of(texts: Texts) -> dict[str, str]:
    return {"tone": texts["tone"]} if texts["tone"].strip() else {}


def _create(texts: Texts, owner: Owner | None) -> traders.NewTrader:
    """Create the trader and sign in a new owner, in one commit."""
    gate.check_creation(owner.id if owner else None)
    with writing():
        made = traders.create_trader(
            texts["name"],
            texts["family"],
            g.now,
            texts["start"],
            owner,
            _voice_of(texts),
            texts["bio"],
            settings=_settings_of(texts),
            config=settings(),
        )
        if made.recovery_code:
            sessions.begin_session(made.owner, g.now)
    return made
