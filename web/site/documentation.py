"""/docs and the pages below it. Each is rendered once for signed-in readers and once for others."""

import html
from collections.abc import Iterable
from typing import Any

from flask import Blueprint, render_template
from flask.blueprints import BlueprintSetupState
from flask.typing import ResponseReturnValue
from markupsafe import Markup, escape

from accounts.problem import CODES, OF_ALL, OF_KEYS, OF_LISTS, Problem
from web.server.gate import settings
from web.site import reference, words
from web.site.lists import add_etag

blueprint = Blueprint("documentation", __name__)
blueprint.after_request(add_etag)


@blueprint.record
def init_templates(state: BlueprintSetupState) -> None:
    """Register template functions for these pages."""
    state.app.jinja_env.globals["find_group"] = reference.find_group
    state.app.jinja_env.filters |= {"code": mark_code, "example": write_example}


@blueprint.get("/docs")
def show_docs() -> ResponseReturnValue:
    return render_page("docs.html")


@blueprint.get("/docs/requests/<name>")
def show_request(name: str) -> ResponseReturnValue:
    """Show one request with its examples. `name` is the operationId."""
    if find_route(name) is None:
        raise Problem("not_found", "there is no such request")
    return reference.fill_ids(render_page("request.html", name=name))


def find_route(name: str) -> reference.Route | None:
    routes = reference.list_routes(settings().base_url)
    return next((route for route in routes if route.name == name), None)


@blueprint.get("/docs/fields")
def show_fields() -> ResponseReturnValue:
    return render_page("shapes.html")


@blueprint.get("/docs/fields/<group>")
def show_fields_of(group: str) -> ResponseReturnValue:
    if group not in reference.GROUPS:
        raise Problem("not_found", "there is no such group of fields")
    return render_page("shape_group.html", group=group)


@blueprint.get("/docs/errors")
def show_errors() -> ResponseReturnValue:
    return render_page("errors.html")


def render_page(template: str, **values: str) -> str:
    """Render a page of the documentation. `values` are further values on which it depends."""
    return render_template(template, **_find_contents(template, values))


def _find_contents(template: str, values: dict[str, str]) -> dict[str, Any]:
    config = settings()
    if template == "docs.html":
        routes = reference.list_routes(config.base_url)
        refusals = {
            "all": name_codes(OF_ALL),
            "keyed": name_codes(OF_KEYS),
            "paged": name_codes(OF_LISTS),
        }
        return {"settings": config, "routes": routes, "refusals": refusals, "trust": words.TRUST}
    if template == "request.html":
        return {"route": find_route(values["name"])}
    if template == "errors.html":
        return {"codes": CODES, "advice": words.ADVICE}
    groups = reference.list_shapes()
    if template == "shapes.html":
        return {"groups": groups}
    return {"group": values["group"], "shapes": groups[values["group"]]}


def name_codes(codes: Iterable[str]) -> str:
    """Format error codes, each with its status."""
    return ", ".join(f"{CODES[code][0]} {code}" for code in codes)


def write_example(text: str) -> Markup:
    """Write an example as the text of an element, where quotes don't need escaping."""
    return Markup(html.escape(text, quote=False))


def mark_code(text: str) -> Markup:
    """Mark up `text in backticks` as code."""
    parts = text.split("`")
    marked = (
        Markup("<code>{}</code>").format(part) if n % 2 and n < len(parts) - 1 else escape(part)
        for n, part in enumerate(parts)
    )
    return Markup("").join(marked)
