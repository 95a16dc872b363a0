"""/docs and the pages below it, each rendered once for readers who are signed in and once for those
who are not.
"""

import functools
from collections.abc import Callable
from typing import Any, cast

from flask import Blueprint, current_app, render_template, session
from flask.blueprints import BlueprintSetupState
from flask.typing import ResponseReturnValue
from markupsafe import Markup, escape

from accounts.problem import CODES, Problem
from web.server.gate import settings
from web.site import reference, words, worked_example
from web.site.lists import add_etag

blueprint = Blueprint("documentation", __name__)
blueprint.after_request(add_etag)
MAX_PAGES = 128
# Renders a template for readers who are signed in, or not, from pairs of names and values.
Render = Callable[[str, bool, tuple[tuple[str, str], ...]], str]


@blueprint.record
def keep_pages(state: BlueprintSetupState) -> None:
    """Give each application a cache of its own: the pages name its settings."""
    state.app.extensions["documentation"] = functools.lru_cache(MAX_PAGES)(render_page)
    state.app.jinja_env.globals["find_group"] = reference.find_group
    state.app.jinja_env.filters["code"] = mark_code


@blueprint.get("/docs")
def show_docs() -> ResponseReturnValue:
    """Show the page of the interface with all its operations."""
    return reference.fill_ids(render_once("docs.html"))


@blueprint.get("/docs/requests/<name>")
def show_request(name: str) -> ResponseReturnValue:
    """Show one request with its examples. `name`: the operationId."""
    if find_route(name) is None:
        raise Problem("not_found", "there is no such request")
    return reference.fill_ids(render_once("request.html", name=name))


def find_route(name: str) -> reference.Route | None:
    """Return the request of this name, or None."""
    routes = reference.list_routes(settings().base_url)
    return next((route for route in routes if route.name == name), None)


@blueprint.get("/docs/fields")
def show_fields() -> ResponseReturnValue:
    """Show the groups of fields."""
    return render_once("shapes.html")


@blueprint.get("/docs/fields/<group>")
def show_fields_of(group: str) -> ResponseReturnValue:
    """Show the fields of one group."""
    if group not in reference.GROUPS:
        raise Problem("not_found", "there is no such group of fields")
    return render_once("shape_group.html", group=group)


@blueprint.get("/docs/errors")
def show_errors() -> ResponseReturnValue:
    """Show what each error code means."""
    return render_once("errors.html")


@blueprint.get("/docs/example")
def show_example() -> ResponseReturnValue:
    """Show how a result is worked out, step by step."""
    return render_once("worked_example.html")


def render_once(template: str, **values: str) -> str:
    """Return a page of the documentation, from the cache unless it shows a message.

    `values`: what else the page depends on.
    """
    cached = cast(Render, current_app.extensions["documentation"])
    render = render_page if "_flashes" in session else cached
    return render(template, "creator" in session, tuple(values.items()))


def render_page(template: str, signed_in: bool, values: tuple[tuple[str, str], ...]) -> str:
    """Render a page. `signed_in` and `values` are the cache's key; the templates' own knowledge of
    the session is what makes the first a part of it.
    """
    return render_template(template, **_find_contents(template, dict(values)))


def _find_contents(template: str, values: dict[str, str]) -> dict[str, Any]:
    config = settings()
    if template == "docs.html":
        routes = reference.list_routes(config.base_url)
        return {"settings": config, "routes": routes, "trust": words.TRUST}
    if template == "request.html":
        return {"route": find_route(values["name"])}
    if template == "worked_example.html":
        return {"example": worked_example.make_example()}
    if template == "errors.html":
        return {"codes": CODES, "advice": words.ADVICE}
    groups = reference.list_shapes(config.base_url)
    if template == "shapes.html":
        return {"groups": groups}
    return {"group": values["group"], "shapes": groups[values["group"]]}


def mark_code(text: str) -> Markup:
    """Write `what stands in backticks` as code."""
    parts = text.split("`")
    marked = (
        Markup("<code>{}</code>").format(part) if n % 2 and n < len(parts) - 1 else escape(part)
        for n, part in enumerate(parts)
    )
    return Markup("").join(marked)
