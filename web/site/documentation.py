"""/docs and the pages below it. Each is drawn once for each kind of reader."""

import functools

from flask import Blueprint, current_app, render_template, session

from accounts.problem import CODES, Problem
from web.site import reference, words
from web.site.pages import add_etag

blueprint = Blueprint("documentation", __name__)
blueprint.after_request(add_etag)
MAX_PAGES = 32


@blueprint.record
def keep_pages(state):
    """Give each application its own pages: they name its settings."""
    state.app.draw_manual = functools.lru_cache(MAX_PAGES)(draw_manual)
    state.app.jinja_env.globals["find_group"] = reference.find_group


@blueprint.get("/docs")
def show_docs():
    return draw_once("docs.html", *reference.find_ids().items())


@blueprint.get("/docs/fields")
def show_fields():
    return draw_once("shapes.html")


@blueprint.get("/docs/fields/<group>")
def show_fields_of(group):
    if group not in reference.GROUPS:
        raise Problem("not_found", "there is no such group of fields")
    return draw_once("shape_group.html", group)


@blueprint.get("/docs/errors")
def show_errors():
    return draw_once("errors.html")


def draw_once(template, *ids):
    """A page of the documentation. It moves with the ids its examples name and with who reads it,
    and is drawn once for each.
    """
    draw = draw_manual if "_flashes" in session else current_app.draw_manual
    return draw(template, "creator" in session, ids)


def draw_manual(template, _signed_in, ids):
    config = current_app.config["CANDOR"]
    shown = {
        "docs.html": lambda: {
            "settings": config,
            "routes": reference.list_routes(config.base_url),
            "trust": words.TRUST,
        },
        "shapes.html": lambda: {"groups": reference.list_shapes(config.base_url)},
        "shape_group.html": lambda: {
            "group": ids[0],
            "shapes": reference.list_shapes(config.base_url)[ids[0]],
        },
        "errors.html": lambda: {"codes": CODES, "advice": words.ADVICE},
    }
    return render_template(template, **shown[template]())
