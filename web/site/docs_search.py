"""/docs/search: what of this instance's own documentation holds the words of a query.

The entries are taken from the pages themselves and from the document they are made of; strangers'
words are in none of them.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flask import Blueprint, current_app, render_template, request
from flask.blueprints import BlueprintSetupState
from flask.typing import ResponseReturnValue
from markupsafe import Markup

from accounts.problem import CODES, Problem
from config import Config
from web.api import search
from web.server.gate import settings
from web.site import documentation, guides, reference, words
from web.site.lists import add_etag

blueprint = Blueprint("docs_search", __name__)
blueprint.after_request(add_etag)
MAX_HITS, MAX_WORDS, CONTEXT_CHARACTERS = 30, 10, 70
# The pages of prose that are searched by section: {template: address}.
PAGES = {"docs.html": "/docs", "worked_example.html": "/docs/example"}
SECTION = re.compile(r'<section><h2 id="(\w+)">(.*?)</h2>(.*?)</section>', re.S)
BLOCK = re.compile(r"<(?=/?(?:p|dt|dd|div|pre|td|th|li)\b)")


class Entry(NamedTuple):
    """A place in the documentation. `path`: below this instance's address; `text`: plain."""

    kind: str
    title: str
    path: str
    text: str


class Hit(NamedTuple):
    """An entry that matches; its text around the first word found, in three parts."""

    entry: Entry
    before: str
    found: str
    after: str


@blueprint.record
def keep_entries(state: BlueprintSetupState) -> None:
    """Give each application its own entries, read at the first search: pages name its settings."""
    kept: list[Entry] = []
    state.app.extensions["docs_search"] = kept


@blueprint.get("/docs/search")
def show_found() -> ResponseReturnValue:
    """Show the places of the documentation that hold all words of the parameter `q`."""
    try:
        asked = search.read_query(request.args.get("q", ""))
    except Problem as problem:
        # It is not shown again: it may be a secret that somebody pasted.
        return render_template("docs_search.html", asked="", refusal=problem.detail), 422
    hits = find_hits(list_entries(), asked)
    return render_template(
        "docs_search.html", asked=asked, hits=hits[:MAX_HITS], total=len(hits), refusal=""
    )


# ---- matching ------------------------------------------------------------------------------------
def find_hits(entries: Sequence[Entry], query: str) -> list[Hit]:
    """Return the entries with all words of a query, those with all in their title first."""
    wanted = query.lower().split()[:MAX_WORDS]
    if not wanted:
        return []
    matching = [one for one in entries if _holds(f"{one.title} {one.text}", wanted)]
    matching.sort(key=lambda one: not _holds(one.title, wanted))
    return [_cut(one, wanted) for one in matching]


def _holds(text: str, wanted: Sequence[str]) -> bool:
    text = text.lower()
    return all(word in text for word in wanted)


def _cut(entry: Entry, wanted: Sequence[str]) -> Hit:
    """Return an entry with what stands around the first of the words."""
    text, low = entry.text, entry.text.lower()
    at, word = min(((low.find(word), word) for word in wanted if word in low), default=(0, ""))
    end = at + len(word)
    before, after = text[max(0, at - CONTEXT_CHARACTERS) : at], text[end : end + CONTEXT_CHARACTERS]
    return Hit(
        entry,
        f"… {before.split(' ', 1)[-1]}" if at > CONTEXT_CHARACTERS else before,
        text[at:end],
        f"{after.rpartition(' ')[0]} …" if end + CONTEXT_CHARACTERS < len(text) else after,
    )


# ---- what there is -------------------------------------------------------------------------------
def list_entries() -> list[Entry]:
    """Return all entries: prose, requests, fields, errors, the guide for agents."""
    kept: list[Entry] = current_app.extensions["docs_search"]
    if not kept:
        config = settings()
        kept[:] = [
            *_read_pages(),
            *_list_requests(config.base_url),
            *_list_errors(),
            *_list_fields(config.base_url),
            *_read_guide(config),
        ]
    return kept


def _read_pages() -> Iterator[Entry]:
    """Yield the sections of the pages of prose, without the requests: those are entries apart."""
    for template, path in PAGES.items():
        page = documentation.render_page(template)
        for anchor, title, html in SECTION.findall(page):
            if anchor != "read":
                text = Markup(BLOCK.sub(" <", html)).striptags()
                yield Entry("Guide", Markup(title).striptags(), f"{path}#{anchor}", text)


def _list_requests(base_url: str) -> Iterator[Entry]:
    for route in reference.list_routes(base_url):
        fields = " ".join(f"{one.name}: {one.text}." for one in route.fields)
        text = f"{route.name}: {route.summary}. {fields}".replace("`", "")
        yield Entry("Request", f"{route.method} {route.path}", f"/docs/requests/{route.name}", text)


def _list_errors() -> Iterator[Entry]:
    for code, (status, title) in CODES.items():
        text = f"{status} {title}. {words.ADVICE[code]}".replace("`", "")
        yield Entry("Error", code, f"/docs/errors#{code}", text)


def _list_fields(base_url: str) -> Iterator[Entry]:
    for group, shapes in reference.list_shapes(base_url).items():
        for shape in shapes:
            path = f"/docs/fields/{group}#{shape.name}"
            yield Entry("Fields", shape.name, path, shape.text.replace("`", ""))
            for field in shape.fields:
                text = f"{field.kind}. {field.text}".replace("`", "")
                yield Entry("Field", f"{shape.name}.{field.name}", path, text)


def _read_guide(config: Config) -> Iterator[Entry]:
    """Yield the sections of /skill.md."""
    for section in guides.render_guide(config, "skill.md", None).split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        yield Entry("Guide for agents", title, "/skill.md", " ".join(text.replace("`", "").split()))
