"""A bot's page: an overview, and tabs with its trades, holdings, posts, record and copying."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from flask import Blueprint, g, render_template, request
from flask.typing import ResponseReturnValue

from chain.stored.attachments import OF_RECORD
from chain.symbols import find_own
from storage.rows import read, select_value, write_marks
from web.api import bots, paging, posts, results
from web.api.bots import add_estimates
from web.api.copying import find_copying
from web.api.paging import cut_page, read_choice
from web.api.posts import PostFilter, show_posts
from web.api.results import show_ends
from web.api.serialize import Json
from web.api.trades import (
    MAX_LOOK_BACK,
    TRADE_KINDS,
    TradeSortKey,
    Wanted,
    expand_kinds,
    find_trades,
    find_wallets,
    show_trades,
)
from web.api.wallets import find_positions
from web.server import sessions
from web.site import figures, pictures
from web.site.charts import DAY_SECONDS
from web.site.front import find_mints, read_typed
from web.site.lists import add_etag, read_cursor
from web.site.money import list_traded
from web.site.pieces import draw_posts, draw_trades, find_symbols

blueprint = Blueprint("profiles", __name__)
blueprint.after_request(add_etag)
PAGE_SIZE, LATEST_POSTS = 20, 3
OWNED = "SELECT 1 FROM bot WHERE uid = ? AND owner_id = ?"


def find_profile(uid: str) -> Json:
    """Return the bot as the API shows it, with its row. Raises Problem `not_found`."""
    row = bots.find_row(uid)
    return {**bots.show_profile(row, bots.show_bots([row])[0]), "row": row}


def is_own(uid: str) -> bool:
    owner = sessions.find_owner()
    return owner is not None and select_value(OWNED, (uid, owner.id)) is not None


@blueprint.get("/bots/<uid>")
def show_profile(uid: str) -> ResponseReturnValue:
    tab, bot = read_choice(request.args, "tab", tuple(CONTENTS), ""), find_profile(uid)
    shown = {"bot": bot, **CONTENTS[tab](bot)}
    return render_template("bot.html", tab=tab, own=is_own(uid), **shown)


def read_overview(bot: Json) -> dict[str, Any]:
    latest = posts.read_posts(LATEST_POSTS, wanted=PostFilter(bot["id"]))
    return {"posts": draw_posts(show_posts(latest), "h3"), "charts": pictures.draw_curves(bot)}


class TradeFilter(NamedTuple):
    """A reader's filter for a bot's trades, as typed. `token` is a ticker or an address."""

    kind: str = ""
    token: str = ""

    @property
    def query(self) -> str:
        """The query string of the same filter. It is empty for all trades."""
        given = {name: text for name, text in self._asdict().items() if text}
        return f"?{urlencode(given)}" if given else ""


def read_filter() -> TradeFilter:
    kind = read_choice(request.args, "kind", ("", *TRADE_KINDS), "")
    return TradeFilter(kind, read_typed("token"))


def find_wanted(uid: str, asked: TradeFilter) -> Wanted:
    """Return which of a bot's trades to find. `mints` is () for an unknown ticker."""
    mints = find_mints(asked.token) if asked.token else None
    kinds = expand_kinds([asked.kind] if asked.kind else [])
    return Wanted(find_wallets(bot=uid), mints, kinds)


def read_trades(bot: Json) -> dict[str, Any]:
    asked = read_filter()
    wanted = find_wanted(bot["id"], asked)
    scope = ("trades of", bot["id"], *(asked if any(asked) else ()))
    found = find_trades(wanted, PAGE_SIZE, read_cursor("trades", scope, TradeSortKey))
    return {
        "asked": asked,
        "is_unknown": wanted.mints == (),
        "trades": draw_trades(show_trades(found.rows)),
        "ended_early": found.ended_early,
        "older_trades": found.sort_key and paging.write_cursor(scope, found.sort_key),
        "look_back": MAX_LOOK_BACK,
        "tokens": list_ends(bot["row"].id)
        if bot["risk"] and "trades" not in request.args
        else None,
    }


def list_ends(bot_id: int) -> Json | None:
    """Return the results per token, with the best and worst ones in `shown`, best first."""
    ends = show_ends(bot_id)
    if ends is None:
        return None
    best = {one["mint"] for one in ends["best"]}
    worst = [one for one in reversed(ends["worst"]) if one["mint"] not in best]
    shown = [*ends["best"], *worst]
    places = figures.find_unit_places(one["realizedLamports"] for one in shown)
    return {**ends, "shown": shown, "places": places}


# ---- holdings ------------------------------------------------------------------------------------
# The mints that the bot ever bought or sold.
TRADED = """
SELECT DISTINCT m.address AS mint FROM mint m JOIN trade_mint t ON t.mint_id = m.id
JOIN attachment a ON a.wallet_id = t.wallet_id JOIN bot b ON b.id = a.bot_id
WHERE b.uid = ? AND t.side IS NOT NULL AND m.address IN """


def find_unasked(uid: str, positions: Sequence[Json]) -> set[str]:
    """Return the tokens that arrived unasked: the wallet didn't buy any of them, the bot never
    traded them, they aren't well known and the scout doesn't have a price for them.
    """
    strange = [one["mint"] for one in positions if _is_strange(one)]
    sql = f"{TRADED}({write_marks(strange)})"
    traded = read(sql, (uid, *strange)) if strange else []
    return {*strange} - {row.mint for row in traded}


def _is_strange(position: Json) -> bool:
    is_bought = position["costLamports"] is not None or position["currency"] is not None
    return not (is_bought or position["estimate"] or find_own(position["mint"]))


def read_holdings(bot: Json) -> dict[str, Any]:
    positions = find_positions(bot["row"])
    estimated = add_estimates(positions or (), g.now)
    unasked = find_unasked(bot["id"], estimated)
    shown = [
        {**one, "unrealized": find_unrealized(one)}
        for one in estimated
        if one["mint"] not in unasked
    ]
    return {
        "is_damaged": positions is None,
        "symbols": find_symbols(positions or ()),
        "positions": shown,
        "total": sum_priced(shown),
        "unasked": [one for one in estimated if one["mint"] in unasked],
    }


def find_unrealized(position: Json) -> int | None:
    """Estimate a position's unrealized PnL. None if its cost or price is unknown."""
    if (
        not position["estimate"]
        or not position["costLamports"]
        or position["unknownBasisRaw"] != "0"
    ):
        return None
    return int(position["estimate"]["valueLamports"]) - int(position["costLamports"])


def sum_priced(positions: Sequence[Json]) -> dict[str, int]:
    """Sum the positions with a known cost and price, in lamports. `count`: their number."""
    priced = [one for one in positions if one["unrealized"] is not None]
    cost = sum(int(one["costLamports"]) for one in priced)
    gain = sum(one["unrealized"] for one in priced)
    return {"count": len(priced), "cost": cost, "value": cost + gain, "gain": gain}


# ---- the other tabs ------------------------------------------------------------------------------
def read_posts(bot: Json) -> dict[str, Any]:
    scope = ("posts of", bot["id"])
    before = read_cursor("posts", scope, paging.IdSortKey)
    rows = posts.read_posts(PAGE_SIZE + 1, before and before.id, PostFilter(bot["id"]))
    page = cut_page(rows, PAGE_SIZE, scope, lambda row: (row.id,))
    return {"posts": draw_posts(show_posts(page.rows), "h3"), "older_posts": page.cursor}


def read_record(bot: Json) -> dict[str, Any]:
    number, days = bot["row"].id, pictures.list_days_of(bot)
    today = g.now // 1000 // DAY_SECONDS
    windows = results.list_windows(number, g.now) if bot["record"] else []
    traded = {one["currency"] for window in windows for one in window["byCurrency"]}
    return {
        "bot": {**bot, "recordRisk": results.find_risk(OF_RECORD, number)},
        "days": days,
        "calendar": pictures.draw_calendar(days["SOL"][0], today) if "SOL" in days else [],
        "windows": windows,
        # The currencies of the windows, in the record's order.
        "recent": [
            one["currency"] for one in list_traded(bot["record"]) if one["currency"] in traded
        ],
    }


def read_copying(bot: Json) -> dict[str, Any]:
    return {"copying": find_copying(bot["row"].id)}


# The function that reads each tab's data. The overview has no name.
CONTENTS: dict[str, Callable[[Json], dict[str, Any]]] = {
    "": read_overview,
    "trades": read_trades,
    "holdings": read_holdings,
    "posts": read_posts,
    "record": read_record,
    "copying": read_copying,
}
