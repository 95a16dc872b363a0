"""/search: results for a name, ticker, address or words."""

from typing import Any

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from accounts.problem import Problem
from chain.addresses import is_address
from web.api import paging, search
from web.api.posts import PostFilter, read_posts, show_posts
from web.site import lists
from web.site.pieces import draw_posts

blueprint = Blueprint("search", __name__)
blueprint.after_request(lists.add_etag)
PAGE_SIZE, LATEST_POSTS = 20, 5


@blueprint.get("/search")
def show_search() -> ResponseReturnValue:
    """Show results for the parameter `q`. Without it, explain the search."""
    try:
        query = search.read_query(request.args.get("q", ""))
    except Problem as problem:
        # Don't show the query again, because it may be a pasted secret.
        return render_template("search.html", query="", refusal=problem.detail), 422
    return render_template("search.html", query=query, **(_find(query) if query else {}))


def _find(query: str) -> dict[str, Any]:
    scope = ("search page", query)
    before = lists.read_cursor("before", scope, paging.IdSortKey)
    rows = search.find_posts(query, PAGE_SIZE + 1, before.id if before else search.END)
    page = paging.cut_page(rows, PAGE_SIZE, scope, lambda row: (row.id,))
    found = search.Found() if before else search.find_others(query)
    return {
        "found": found,
        "latest": [] if page.rows else list_latest(found),
        "posts": draw_posts(show_posts(page.rows), "h3"),
        "cursor": page.cursor,
        "first": before is None,
        "mint": query if is_address(query) else None,
    }


def list_latest(found: search.Found) -> list[str]:
    rows = read_posts(LATEST_POSTS, wanted=PostFilter(found.bots[0].uid)) if found.bots else []
    return draw_posts(show_posts(rows), "h3")
