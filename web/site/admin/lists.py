"""The operator's lists (owners, bots, wallets, keys, hooks, posts, paper traders' posts, reports,
registrations, bans and actions), and an owner's page.
"""

import re
from functools import partial
from typing import Any

from flask import g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

import ratelimit
from accounts import conduct, quotas
from accounts.acts import ACTS
from accounts.hooks import mask_url
from accounts.owners import find_owner
from accounts.problem import Problem
from chain.addresses import is_address
from models import Bot, Owner, Post, Wallet
from paper.tables import PaperPost
from web.api.paging import IdPosition
from web.server.application import find_app
from web.server.gate import settings
from web.site.admin import queries
from web.site.admin.entry import blueprint
from web.site.lists import ListPage, cut_page, read_cursor

LIMIT, MAX_QUERY = 50, 200
# The number of rows of each list on an owner's page.
SHORT_LIMIT = 10
HEADINGS = {
    "owners": "Owners",
    "bots": "Bots",
    "wallets": "Wallets",
    "keys": "Keys",
    "hooks": "Webhooks",
    "posts": "Posts",
    "paper-posts": "Posts by paper traders",
    "reports": "Reports from readers",
    "registrations": "Bots registered by agents",
    "bans": "Bans",
    "acts": "Activity",
}
# The lists on an owner's page.
OF_OWNER = ("bots", "wallets", "keys", "hooks")
ID = re.compile(r"\b(owner|bot|trader|post|key|hook)_[0-9a-f]{24}\b")


def render_list(name: str) -> ResponseReturnValue:
    """Render a page of a list, filtered as the query says."""
    filters = read_filters(name)
    scope = ("admin", name, *(f"{one}={text}" for one, text in filters.items()))
    position = read_cursor("before", scope, IdPosition)
    rows = queries.read_list(name, LIMIT + 1, filters, position and position.id)
    page: ListPage[Any] = cut_page(rows, LIMIT, scope, lambda row: IdPosition(row.id))
    return render_template(
        "admin/list.html",
        name=name,
        heading=HEADINGS[name],
        page=page,
        rows=finish_rows(name, page.rows),
        filters=filters,
        acts=ACTS,
    )


for listed in HEADINGS:
    endpoint = f"list_{listed.replace('-', '_')}"
    blueprint.add_url_rule(f"/{listed}", endpoint, partial(render_list, listed))


def read_filters(name: str) -> dict[str, str]:
    """Return those filters in the query that this list has."""
    known = queries.LISTINGS[name].filters
    given = {one: request.args.get(one, "").strip()[:MAX_QUERY] for one in known}
    return {one: text for one, text in given.items() if text}


def finish_rows(name: str, rows: Any) -> list[Any]:
    """Prepare rows for display: mask hook URLs, and add keys' last uses and the names of owners'
    bots.
    """
    if name == "hooks":
        rows = [row._replace(url=mask_url(row.url)) for row in rows]
    if name == "keys":
        uses = find_app().allowance.find_uses()
        rows = [row._replace(last_used_at=uses.get(row.uid)) for row in rows]
    field = {"owners": "uid", "bans": "target"}.get(name, "owner_uid")
    uids = [getattr(row, field, None) for row in rows]
    named = queries.name_owners(uid for uid in uids if uid and uid.startswith("owner_"))
    return [
        row._replace(**{field: named[uid]}) if uid in named else row
        for row, uid in zip(rows, uids, strict=True)
    ]


# ---- one owner -----------------------------------------------------------------------------------
@blueprint.get("/owners/<uid>")
def show_owner(uid: str) -> ResponseReturnValue:
    """Show an owner: quotas, bots, wallets, keys and hooks."""
    owner = find_owner(uid)
    lists = {}
    for name in OF_OWNER:
        rows = queries.read_list(name, SHORT_LIMIT + 1, {"owner": uid})
        lists[name] = (finish_rows(name, rows[:SHORT_LIMIT]), len(rows) > SHORT_LIMIT)
    return render_template(
        "admin/owner.html",
        owner=owner,
        name=queries.name_owners([uid])[uid].name,
        lists=lists,
        headings=HEADINGS,
        ban=conduct.find_ban("owner", uid),
        uses=list_uses(owner),
        windows=find_app().allowance.peek(list_limits(owner), g.now / 1000).windows,
    )


def list_uses(owner: Owner) -> list[quotas.Use]:
    config = settings()
    return [
        quotas.Use("posts_kept_mb", config.max_posts_kept_mb, owner.posts_bytes // quotas.MB),
        *(quotas.find_use(config, quota, owner.id, g.now) for quota in quotas.COUNTED),
    ]


def list_limits(owner: Owner) -> tuple[ratelimit.Limit, ...]:
    return ratelimit.list_limits(settings(), owner.id, posting=True)


# ---- finding one ---------------------------------------------------------------------------------
@blueprint.get("/find")
def find_one() -> ResponseReturnValue:
    """Redirect to the match for an ID, a URL that contains an ID, or a bot's handle."""
    asked = request.args.get("q", "").strip()[:MAX_QUERY]
    if is_address(asked):
        known = Wallet.select().where(Wallet.address == asked).exists()
        page = url_for("admin.list_wallets", wallet=asked)
        return redirect(page if known else url_for("admin.change_wallet_ban", address=asked))
    named = ID.search(asked)
    if named is None:
        bot = Bot.get_or_none(Bot.handle == asked.lstrip("@").lower())
        if bot is None:
            raise Problem("not_found", "there is nothing with this ID or handle")
        return redirect(url_for("admin.list_bots", bot=bot.uid))
    uid, (kind,) = named[0], named.groups()
    if kind == "owner":
        return redirect(url_for("admin.show_owner", uid=uid))
    if kind == "bot":
        return redirect(url_for("admin.list_bots", bot=uid))
    if kind == "trader":
        return redirect(url_for("admin.list_paper_posts", trader=uid))
    if kind == "post":
        return redirect(find_list_of(conduct.find_post(uid)))
    return redirect(url_for("admin.change_key" if kind == "key" else "admin.change_hook", uid=uid))


def find_list_of(post: Post | PaperPost) -> str:
    """Return the URL of the list that contains a post, filtered to show only this post."""
    endpoint = "admin.list_posts" if isinstance(post, Post) else "admin.list_paper_posts"
    return url_for(endpoint, post=post.uid)
