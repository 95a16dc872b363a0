"""Public pages: posts and status, and values that all templates share.

They show the same data as the API: web.api creates the JSON objects, and web.site.words writes the
text.
"""

from collections.abc import Callable
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

from flask import Blueprint, Flask, flash, g, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue

from accounts import conduct
from accounts.problem import Problem
from chain.reading.added_currencies import use_added
from chain.reading.currencies import list_added
from chain.reading.programs import Programs, table
from chain.symbols import find_imitated, write_line
from config import Config
from models import Post
from paper.copying import SHOWN_SIZE
from paper.tables import PaperPost
from web.api import health, market
from web.api.serialize import Json
from web.api.trades import explorer_url
from web.server import gate
from web.server.gate import settings
from web.site import candor, creator, facts, figures, money, pieces, seasons, words
from web.site.forms import Texts, list_errors, read_texts, without_secrets
from web.site.lists import add_etag, link_to_older
from web.site.log_pages import find_key, find_proof
from web.site.pieces import draw_posts, find_post, link_to

blueprint = Blueprint("pages", __name__)
blueprint.after_request(add_etag)
YEAR_SECONDS = 31_536_000
# The operator's description of the instance in DATA_DIR, as plain text.
ABOUT_FILE, MAX_ABOUT_BYTES = "about.txt", 40_000


def init_app(app: Flask) -> None:
    for module in (words, money, figures, candor, facts):
        app.jinja_env.filters.update(list_functions(module))
    app.jinja_env.filters.update(
        clean=write_line,
        find_imitated=find_imitated,
        find_badges=seasons.find_badges,
        find_joinable=seasons.find_joinable,
    )
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals.update(
        root=app.config["CANDOR"].base_path,
        asset=pieces.asset,
        explorer_url=explorer_url,
        KINDS=words.KINDS,
        FLAGS=words.FLAGS,
        UNRANKED=words.UNRANKED,
        COVERAGE=words.COVERAGE,
        WINDOW_NAMES=words.WINDOW_NAMES,
        SHOWN_SIZE=str(SHOWN_SIZE),
        INSTANCE_STATES=words.INSTANCE_STATES,
        JOB_STATES=words.JOB_STATES,
    )
    app.context_processor(lambda: {"signed_in": "creator" in session, "older": link_to_older})
    # The URL of a static file changes with its content.
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = YEAR_SECONDS


def list_functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    return {
        name: one
        for name, one in vars(module).items()
        if isfunction(one) and one.__module__ == module.__name__ and not name.startswith("_")
    }


# ---- posts ---------------------------------------------------------------------------------------
@blueprint.get("/posts/<uid>")
def show_one_post(uid: str) -> ResponseReturnValue:
    post = find_post(uid)
    proof = {} if post["simulated"] else find_proof(uid)
    return render_template(
        "post.html",
        post=post,
        drawn=draw_posts([post])[0],
        trade_link=link_trade(post),
        **proof,
    )


def link_trade(post: Json) -> str:
    trade = post["verification"].get("tradeId")
    token = post["receipt"] and post["receipt"]["mint"]
    if not trade or not token:
        return ""
    return link_to(f"/bots/{post['botId']}", tab="trades", token=token) + f"#{trade}"


# ---- about this instance -------------------------------------------------------------------------
@blueprint.get("/create")
def show_invitation() -> ResponseReturnValue:
    return render_template("create.html", closed=settings().registration == "closed")


@blueprint.get("/about")
def show_about() -> ResponseReturnValue:
    return render_template("about.html", rules=read_rules(settings().data_dir))


def read_rules(data_dir: Path) -> str:
    """Return the text of DATA_DIR/about.txt, or "" if it is unreadable, which `doctor` reports."""
    try:
        with (data_dir / ABOUT_FILE).open("rb") as file:
            return file.read(MAX_ABOUT_BYTES).decode(errors="replace").strip()
    except OSError:
        return ""


@blueprint.get("/status")
def show_status() -> ResponseReturnValue:
    return render_template(
        "status.html",
        log_key=find_key(),
        health=health.check_instance(),
        market=market.show_market_health(g.now),
        programs=read_programs(settings()),
        currencies=[one.symbol for one in list_added()],
    )


def use_tables(config: Config) -> None:
    """Use the operator's programs and currencies in this process. Raises BadTable."""
    read_programs(config)
    use_added(config.added_currencies)


def read_programs(config: Config) -> Programs:
    """Return the table of programs with the operator's additions. Raises BadTable."""
    return table(config.extra_swap_programs, config.added_programs)


# ---- reports from readers ------------------------------------------------------------------------
@creator.blueprint.route("/posts/<uid>/report", methods=["GET", "POST"])
def report_post(uid: str) -> ResponseReturnValue:
    """Show the report form, or accept a report. The reader doesn't have to sign in."""
    post = conduct.find_post(uid)
    if request.method == "GET":
        return render_form(post, {}, {}, 200)
    texts = read_texts("about", "note")
    gate.count_in("reports", gate.REPORTS_PER_MINUTE, "reports")
    try:
        conduct.report_post(uid, texts["about"], texts["note"], g.now)
    except Problem as problem:
        return render_form(post, texts, list_errors(problem), problem.status)
    flash("Thank you. The operator of this instance will see your report.")
    return redirect(url_for("pages.show_one_post", uid=uid))


def render_form(
    post: Post | PaperPost, typed: Texts, errors: Texts, status: int
) -> ResponseReturnValue:
    page = render_template(
        "report.html",
        post=post,
        author=conduct.find_author(post),
        typed=without_secrets(typed, errors),
        errors=errors,
        about=conduct.ABOUT,
        longest=conduct.MAX_NOTE,
    )
    return page, status
