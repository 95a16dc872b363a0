"""The operator's lists, and an owner's page."""

import re
from functools import partial
from typing import Any, NamedTuple

from flask import g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

import ratelimit
from accounts import conduct, quotas
from accounts.acts import ACTS
from accounts.hooks import mask_url
from accounts.owners import find_owner
from accounts.problem import Problem
from chain.addresses import is_address
from chain.stored.attachments import LEAD
from models import Bot, Owner, Post, Wallet
from paper.tables import PaperPost
from storage.rows import read
from web.api.paging import IdSortKey, ListPage, cut_page
from web.server.application import find_app
from web.server.gate import settings
from web.site.admin.entry import blueprint
from web.site.lists import read_cursor

LIMIT, MAX_QUERY, MAX_BODY = 50, 200, 240
NEWEST = 2**62
# Rows of each list on an owner's page.
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
OF_OWNER = ("bots", "wallets", "keys", "hooks")
ID = re.compile(r"\b(owner|bot|trader|post|key|hook)_[0-9a-f]{24}\b")


# An owner's bots, because people know it by their names.
NAMES = "(SELECT string_agg(i.name, ', ' ORDER BY i.id) FROM bot i WHERE i.owner_id = o.id)"


class Listing(NamedTuple):
    """A list's statement with `{where}`, its number column, and the condition of each filter."""

    sql: str
    number: str
    filters: dict[str, str]


BY_OWNER = "{} = (SELECT id FROM owner WHERE uid = ?)"
BY_BOT = "{} = (SELECT id FROM bot WHERE uid = ?)"
BY_TRADER = "{} = (SELECT id FROM trader WHERE uid = ?)"
LISTINGS = {
    "owners": Listing(
        f"""SELECT o.id, o.uid, {NAMES} AS name, o.created_at, o.posts_bytes,
       (SELECT COUNT(*) FROM bot b WHERE b.owner_id = o.id) AS bots,
       (SELECT COUNT(*) FROM "key" k WHERE k.owner_id = o.id AND k.revoked_at IS NULL) AS keys,
       (SELECT COUNT(*) FROM attachment a JOIN bot b ON b.id = a.bot_id
        WHERE b.owner_id = o.id AND a.detached_at IS NULL) AS wallets,
       (SELECT COUNT(*) FROM hook h WHERE h.owner_id = o.id) AS hooks,
       (SELECT COUNT(*) FROM trader t WHERE t.owner_id = o.id AND t.retired_at IS NULL) AS traders
FROM owner o {{where}}""",
        "o.id",
        {"owner": "o.uid = ?"},
    ),
    "bots": Listing(
        f"""SELECT b.id, b.uid, b.name, b.handle, b.created_at, b.retired_at,
       o.uid AS owner_uid, {NAMES} AS owner_name, w.address AS wallet, a.ownership
FROM bot b JOIN owner o ON o.id = b.owner_id
LEFT JOIN attachment a ON a.id = {LEAD}
LEFT JOIN wallet w ON w.id = a.wallet_id {{where}}""",
        "b.id",
        {"owner": BY_OWNER.format("b.owner_id"), "bot": "b.uid = ?"},
    ),
    "wallets": Listing(
        f"""SELECT w.id, w.address, w.polled_at, w.backfilled, w.trouble, b.uid AS bot_uid,
       b.name AS bot_name, o.uid AS owner_uid, {NAMES} AS owner_name,
       a.attached_at, a.ownership
FROM wallet w JOIN bot b ON b.id = w.bot_id JOIN owner o ON o.id = b.owner_id
LEFT JOIN attachment a ON a.wallet_id = w.id AND a.detached_at IS NULL {{where}}""",
        "w.id",
        {
            "owner": BY_OWNER.format("b.owner_id"),
            "bot": BY_BOT.format("w.bot_id"),
            "wallet": "w.address = ?",
        },
    ),
    "keys": Listing(
        f"""SELECT k.id, k.uid, k.scope, k.name, k.prefix, k.last4, k.created_at, k.expires_at,
       k.revoked_at, NULL AS last_used_at, b.uid AS bot_uid, b.name AS bot_name,
       o.uid AS owner_uid, {NAMES} AS owner_name
FROM "key" k JOIN owner o ON o.id = k.owner_id LEFT JOIN bot b ON b.id = k.bot_id {{where}}""",
        "k.id",
        {"owner": BY_OWNER.format("k.owner_id"), "bot": BY_BOT.format("k.bot_id")},
    ),
    "hooks": Listing(
        f"""SELECT h.id, h.uid, h.kind, h.url, h.state, h.failures, h.delivered_at, h.last_error,
       h.created_at, o.uid AS owner_uid, {NAMES} AS owner_name
FROM hook h LEFT JOIN owner o ON o.id = h.owner_id {{where}}""",
        "h.id",
        {"owner": BY_OWNER.format("h.owner_id")},
    ),
    "posts": Listing(
        f"""SELECT p.id, p.uid, SUBSTR(p.body, 1, {MAX_BODY}) AS body, p.status, p.channel,
       p.created_at, p.hidden_at, b.uid AS bot_uid, b.name AS bot_name
FROM post p JOIN bot b ON b.id = p.bot_id {{where}}""",
        "p.id",
        {"bot": BY_BOT.format("p.bot_id"), "post": "p.uid = ?"},
    ),
    "paper-posts": Listing(
        f"""SELECT p.id, p.uid, SUBSTR(p.body, 1, {MAX_BODY}) AS body, p.writer, p.created_at,
       p.hidden_at, t.uid AS trader_uid, t.name AS trader_name,
       o.uid AS owner_uid, {NAMES} AS owner_name
FROM paper_post p JOIN trader t ON t.id = p.trader_id JOIN owner o ON o.id = t.owner_id
{{where}}""",
        "p.id",
        {"trader": BY_TRADER.format("p.trader_id"), "post": "p.uid = ?"},
    ),
    "reports": Listing(
        f"""SELECT r.id, r.uid, r.about, r.note, r.at, r.dismissed_at,
       COALESCE(p.uid, s.uid) AS post_uid,
       SUBSTR(COALESCE(p.body, s.body), 1, {MAX_BODY}) AS body,
       COALESCE(p.hidden_at, s.hidden_at) AS hidden_at, COALESCE(b.uid, t.uid) AS author_uid,
       COALESCE(b.name, t.name) AS author_name, s.id IS NOT NULL AS simulated,
       o.uid AS owner_uid, {NAMES} AS owner_name
FROM report r LEFT JOIN post p ON p.id = r.post_id LEFT JOIN bot b ON b.id = p.bot_id
LEFT JOIN paper_post s ON s.id = r.paper_post_id LEFT JOIN trader t ON t.id = s.trader_id
JOIN owner o ON o.id = COALESCE(b.owner_id, t.owner_id) {{where}}""",
        "r.id",
        {"post": "? IN (p.uid, s.uid)"},
    ),
    "registrations": Listing(
        f"""SELECT g.id, g.wallet, g.source, g.created_at, g.claim_ends_at, g.claimed_at,
       b.uid AS bot_uid, b.name AS bot_name, o.uid AS owner_uid, {NAMES} AS owner_name,
       (SELECT reason FROM ban WHERE kind = 'owner' AND target = o.uid) AS ban_reason
FROM registration g JOIN bot b ON b.id = g.bot_id JOIN owner o ON o.id = b.owner_id {{where}}""",
        "g.id",
        {"source": "g.source = ?", "owner": BY_OWNER.format("b.owner_id")},
    ),
    "bans": Listing(
        f"""SELECT n.id, n.kind, n.target, n.reason, n.at, {NAMES} AS owner_name
FROM ban n LEFT JOIN owner o ON n.kind = 'owner' AND o.uid = n.target {{where}}""",
        "n.id",
        {},
    ),
    "acts": Listing(
        "SELECT c.id, c.at, c.who, c.what, c.target, c.reason FROM admin_act c {where}", "c.id", {}
    ),
}


def read_list(
    name: str, limit: int, filters: dict[str, str] | None = None, before: int | None = None
) -> list[Any]:
    """Return rows of the list `name`, newest first.

    `before`: rows with a lower number. `filters`: {one of the list's filters: a public ID}.
    """
    listing = LISTINGS[name]
    parts: list[tuple[str, str | int]] = [
        (listing.filters[one], text) for one, text in (filters or {}).items()
    ]
    # On the first page, too, so that the statement always uses the number's index and never scans a
    # table.
    parts.append((f"{listing.number} < ?", NEWEST if before is None else before))
    where = "WHERE " + " AND ".join(part for part, _ in parts)
    sql = f"{listing.sql.format(where=where)} ORDER BY {listing.number} DESC LIMIT {limit:d}"
    return read(sql, [value for _, value in parts])


def render_list(name: str) -> ResponseReturnValue:
    filters = read_filters(name)
    scope = ("admin", name, *(f"{one}={text}" for one, text in filters.items()))
    before = read_cursor("before", scope, IdSortKey)
    rows = read_list(name, LIMIT + 1, filters, before and before.id)
    page: ListPage[Any] = cut_page(rows, LIMIT, scope, lambda row: IdSortKey(row.id))
    return render_template(
        "admin/list.html",
        name=name,
        heading=HEADINGS[name],
        page=page,
        rows=finish_rows(name, [*page.rows]),
        filters=filters,
        acts=ACTS,
    )


for listed in HEADINGS:
    endpoint = f"list_{listed.replace('-', '_')}"
    blueprint.add_url_rule(f"/{listed}", endpoint, partial(render_list, listed))


def read_filters(name: str) -> dict[str, str]:
    known = LISTINGS[name].filters
    given = {one: request.args.get(one, "").strip()[:MAX_QUERY] for one in known}
    return {one: text for one, text in given.items() if text}


def finish_rows(name: str, rows: list[Any]) -> list[Any]:
    """Mask hook addresses, and add the last use of keys."""
    if name == "hooks":
        return [row._replace(url=mask_url(row.url)) for row in rows]
    if name == "keys":
        uses = find_app().allowance.find_uses()
        return [row._replace(last_used_at=uses.get(row.uid)) for row in rows]
    return rows


# ---- one owner -----------------------------------------------------------------------------------
@blueprint.get("/owners/<uid>")
def show_owner(uid: str) -> ResponseReturnValue:
    owner, lists = find_owner(uid), {}
    limits = ratelimit.list_limits(settings(), owner.id, posting=True)
    for name in OF_OWNER:
        rows = read_list(name, SHORT_LIMIT + 1, {"owner": uid})
        lists[name] = (finish_rows(name, rows[:SHORT_LIMIT]), len(rows) > SHORT_LIMIT)
    return render_template(
        "admin/owner.html",
        owner=owner,
        name=read_list("owners", 1, {"owner": uid})[0].name,
        lists=lists,
        headings=HEADINGS,
        ban=conduct.find_ban("owner", uid),
        uses=list_uses(owner),
        windows=find_app().allowance.peek(limits, g.now / 1000).windows,
    )


def list_uses(owner: Owner) -> list[quotas.Use]:
    config = settings()
    return [
        quotas.Use("posts_kept_mb", config.max_posts_kept_mb, owner.posts_bytes // quotas.MB),
        *(quotas.find_use(config, quota, owner.id, g.now) for quota in quotas.COUNTED),
    ]


# ---- finding one ---------------------------------------------------------------------------------
# The page of each kind of ID: its endpoint, and the parameter with the ID.
PAGES = {
    "owner": ("show_owner", "uid"),
    "bot": ("list_bots", "bot"),
    "trader": ("list_paper_posts", "trader"),
    "key": ("change_key", "uid"),
    "hook": ("change_hook", "uid"),
}


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
    if kind == "post":
        return redirect(find_list_of(conduct.find_post(uid)))
    endpoint, name = PAGES[kind]
    values: dict[str, Any] = {name: uid}
    return redirect(url_for(f"admin.{endpoint}", **values))


def find_list_of(post: Post | PaperPost) -> str:
    endpoint = "admin.list_posts" if isinstance(post, Post) else "admin.list_paper_posts"
    return url_for(endpoint, post=post.uid)
