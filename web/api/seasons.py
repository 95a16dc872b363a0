"""Show seasons: their shapes, their standings, and joining one."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import orjson
from flask import g, url_for

from accounts import seasons
from accounts.influencers import find_bot
from accounts.problem import Problem
from accounts.seasons import SeasonRow, Terms, find_place
from accounts.tables import Season as StoredSeason
from chain.amounts import exact, show_fixed
from storage.rows import read, write_marks
from web.api import paging, v1
from web.api.paging import Args
from web.api.serialize import Json, fill, show_time
from web.api.shapes import (
    Exact,
    Page,
    Proof,
    Time,
    TypedDict,
    Untrusted,
    Whole,
    described,
)
from web.server import gate
from web.server.application import JsonResponse


class Season(TypedDict):
    """A contest of bots."""

    id: str
    name: str
    rule: Literal["pnl", "return", "pnl_floor"]
    currency: str
    wallets: Literal["proven", "all"]
    minTrades: Annotated[int, described("sales with a known cost required for a rank")]
    startsAt: Time
    endsAt: Time
    state: Annotated[
        Literal["upcoming", "running", "closing", "final", "cancelled"],
        described("closing: over, but not frozen yet"),
    ]
    entrants: int
    frozenAt: Time | None
    freezesBy: Annotated[
        Time | None, described("latest time of the freeze; null once final or canceled")
    ]


class SeasonStanding(TypedDict):
    """A bot in a season's standings. Unproven numbers are null."""

    rank: int | None
    unrankedReason: (
        Literal[
            "not_started",
            "excluded",
            "no_wallet",
            "not_proven",
            "not_observed",
            "backfilling",
            "gap",
            "too_few_sells",
            "too_little_cost",
        ]
        | None
    )
    botId: str
    name: Untrusted
    ownership: Proof | None
    countsFrom: Time
    retiredAt: Time | None
    realizedRaw: Whole | None
    realized: Exact | None
    returnPct: Exact | None
    worstCaseRaw: Whole | None
    worstCase: Exact | None
    sales: int | None


class SeasonPage(Page):
    """A page of standings. The best come first, and rows without a rank come last."""

    data: list[SeasonStanding]
    season: Season


# ---- rows ----------------------------------------------------------------------------------------
def show_season(row: StoredSeason, now: int) -> Season:
    state = seasons.find_state(row, now)
    is_over = state in ("final", "cancelled")
    return fill(
        Season,
        row,
        currency=row.symbol,
        minTrades=row.min_sales,
        state=state,
        entrants=seasons.count_entrants(row, now),
        freezesBy=None if is_over else show_time(seasons.find_deadline(row)),
    )


def show_standings(row: StoredSeason, standings: Sequence[SeasonRow]) -> list[SeasonStanding]:
    numbers = [one.bot for one in standings]
    sql = f"SELECT id, uid, name, retired_at FROM bot WHERE id IN ({write_marks(numbers)})"
    bots = {bot.id: bot for bot in read(sql, numbers)}
    terms = seasons.find_terms(row)
    return [_show_standing(terms, one, bots[one.bot]) for one in standings]


def _show_standing(terms: Terms, one: SeasonRow, bot: Any) -> SeasonStanding:
    return fill(
        SeasonStanding,
        one,
        unrankedReason=one.reason,
        botId=bot.uid,
        name=bot.name,
        countsFrom=show_time(one.since),
        retiredAt=show_time(bot.retired_at),
        realized=_show_exact(one.realized, terms.decimals),
        returnPct=show_fixed(one.return_points, 2),
        worstCase=_show_exact(one.worst_case, terms.decimals),
    )


def _show_exact(raw: int | None, decimals: int) -> str | None:
    return None if raw is None else exact(raw, decimals)


def cut_standings(
    row: StoredSeason, now: int, limit: int, scope: paging.Scope, after: seasons.Place | None
) -> paging.ListPage[SeasonRow]:
    listed = seasons.list_standings(row, now)
    rest = [one for one in listed if after is None or find_place(row.rule, one) > after]
    return paging.cut_page(rest, limit, scope, lambda one: find_place(row.rule, one))


# ---- requests ------------------------------------------------------------------------------------
@v1.cached_list("/seasons", Season, "cursor")
def list_seasons(args: Args) -> Json:
    """Seasons, newest first"""
    limit, now, scope = paging.read_limit(args), v1.start_of_minute(g.now), ("seasons",)
    before = paging.read_cursor(args, scope, paging.IdSortKey)
    found = seasons.list_seasons(limit + 1, before and before.id)
    page = paging.cut_page(found, limit, scope, lambda row: (row.id,))
    return v1.show_list([show_season(row, now) for row in page.rows], limit, page.cursor)


@v1.cached_list("/seasons/<uid>", SeasonStanding, "cursor", page=SeasonPage)
def get_season(args: Args, uid: str) -> Json:
    """A season with its standings: live, then frozen"""
    limit, now, row = paging.read_limit(args), v1.start_of_minute(g.now), seasons.find_season(uid)
    scope = ("standings", uid)
    after = paging.read_cursor(args, scope, seasons.Place)
    page = cut_standings(row, now, limit, scope, after)
    rows = show_standings(row, page.rows)
    return v1.show_list(rows, limit, page.cursor, season=show_season(row, now))


@v1.route(
    v1.blueprint,
    "post",
    "/seasons/<uid>/join",
    Season,
    refusals=("insufficient_scope", "season_closed", "bot_retired"),
)
def join_season(uid: str) -> JsonResponse:
    """Enter a publishing key's bot in a season"""
    caller = gate.find_caller()
    if caller.scope != "publish" or caller.bot_uid is None:
        raise Problem("insufficient_scope", "a read key can't join; use the bot's publishing key")
    is_new = seasons.join(uid, find_bot(caller.bot_uid), g.now)
    row = seasons.find_season(uid)
    shown = orjson.dumps(show_season(row, g.now))
    location = {"Location": url_for("v1.get_season", uid=uid)}
    return JsonResponse(shown, 201 if is_new else 200, location if is_new else {})
