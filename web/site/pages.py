"""Public pages: posts and status, and values that all templates share.

They show the same data as the API: web.api creates the JSON objects, and web.site.words writes the
text.
"""

from pathlib import Path

from flask import Blueprint, Flask, g, render_template, session
from flask.typing import ResponseReturnValue

from accounts.problem import Problem
from chain.reading.added_currencies import use_added
from chain.reading.currencies import list_added
from chain.reading.programs import Programs, table
from config import Config
from web.api import health, market, timeline
from web.api.serialize import Json
from web.api.trades import explorer_url
from web.server.gate import settings
from web.site import candor, figures, money, pieces, profile_words, seasons, words
from web.site.lists import add_etag, link_to_older
from web.site.log_pages import find_key, find_proof
from web.site.pieces import draw_posts, link_to

blueprint = Blueprint("pages", __name__)
blueprint.after_request(add_etag)
YEAR_SECONDS = 31_536_000
# The operator's description of the instance in DATA_DIR, as plain text.
ABOUT_FILE, MAX_ABOUT_BYTES = "about.txt", 40_000


def init_app(app: Flask) -> None:
    """Register the filters and names that all templates use."""
    for module in (words, money, figures, candor, profile_words, seasons):
        app.jinja_env.filters.update(module.FILTERS)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals.update(
        root=app.config["CANDOR"].base_path,
        asset=pieces.asset,
        explorer_url=explorer_url,
        KINDS=words.KINDS,
        FLAGS=words.FLAGS,
        UNRANKED=words.UNRANKED,
        COVERAGE=words.COVERAGE,
        NO_BOOKS=money.NO_BOOKS,
        UNCOPIED=profile_words.UNCOPIED,
        EXCLUDED=profile_words.EXCLUDED,
        INSTANCE_STATES=words.INSTANCE_STATES,
        JOB_STATES=words.JOB_STATES,
    )
    app.context_processor(lambda: {"signed_in": "creator" in session, "older": link_to_older})
    # The URL of a static file changes with its content.
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = YEAR_SECONDS


# ---- posts ---------------------------------------------------------------------------------------
@blueprint.get("/posts/<uid>")
def show_one_post(uid: str) -> ResponseReturnValue:
    post = timeline.find_post(uid)
    if post is None:
        raise Problem("not_found", "there is no such post")
    proof = {} if post["simulated"] else find_proof(uid)
    return render_template(
        "post.html",
        post=post,
        drawn=draw_posts([post])[0],
        trade_link=link_trade(post),
        **proof,
    )


def link_trade(post: Json) -> str:
    """Return a link to a post's trade in its bot's list, or "" without a trade."""
    trade = post["verification"].get("tradeId")
    token = post["receipt"] and post["receipt"]["mint"]
    if not trade or not token:
        return ""
    return link_to(f"/bots/{post['botId']}", tab="trades", token=token) + f"#{trade}"


# ---- about this instance -------------------------------------------------------------------------
@blueprint.get("/create")
def show_invitation() -> ResponseReturnValue:
    """Show the public page that invites visitors to create a bot."""
    return render_template("create.html", closed=settings().registration == "closed")


@blueprint.get("/about")
def show_about() -> ResponseReturnValue:
    """Show the description of this instance, and the operator's rules."""
    return render_template("about.html", rules=read_rules(settings().data_dir))


def read_rules(data_dir: Path) -> str:
    """Return the text of DATA_DIR/about.txt.

    It is empty if the file is missing or unreadable, which `doctor` reports.
    """
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
        health=health.check_instance(g.now),
        market=market.show_market_health(g.now),
        programs=read_programs(settings()),
        currencies=[one.symbol for one in list_added()],
    )


def use_tables(config: Config) -> None:
    """Check the operator's programs, and register the operator's currencies in this process. Raises
    BadTable.
    """
    read_programs(config)
    use_added(config.added_currencies)


def read_programs(config: Config) -> Programs:
    """Return the table of programs with the operator's additions. Raises BadTable for an invalid
    row.
    """
    return table(config.extra_swap_programs, config.added_programs)
