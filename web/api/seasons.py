"""Show seasons: their shapes, their standings, and joining one."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import orjson
from flask import g

from accounts import seasons
from accounts.influencers import find_bot
from accounts.problem import Problem
from accounts.seasons import SeasonRow, Terms, find_place
from accounts.tables import Season as StoredSeason
from chain.amounts import exact, show_fixed
from storage.rows import read, write_marks
from web.api import paging, v1
from web.api.paging import Args
from web.api.serialize import fill, show_time
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
from web.server.application import JsonResponse, find_app

# The blueprint of v1, with the routes of seasons.
blueprint = v1.blueprint


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
    row: StoredSeason, now: int, limit: int, after: seasons.Place | None
) -> tuple[Sequence[SeasonRow], seasons.Place | None]:
    """Return a page of standings after a position.

    Also returns the position of its last row, or None if no more rows follow.
    """
    listed = seasons.list_standings(row, now)
    rest = [one for one in listed if after is None or find_place(row.rule, one) > after]
    page, more = paging.cut_page(rest, limit)
    return page, find_place(row.rule, page[-1]) if more else None


# ---- requests ------------------------------------------------------------------------------------
@v1.cached_list("/seasons", Season, "cursor")
def list_seasons(args: Args) -> v1.Json:
    limit, now = paging.read_limit(args), v1.start_of_minute(g.now)
    before = v1.read_cursor(args, ("seasons",), paging.IdPosition)
    found = seasons.list_seasons(limit + 1, before.id if before else None)
    rows, more = paging.cut_page(found, limit)
    following = v1.write_cursor(("seasons",), (rows[-1].id,)) if more else None
    return v1.show_list([show_season(row, now) for row in rows], limit, following)


@v1.cached_list("/seasons/<uid>", SeasonStanding, "cursor")
def list_standings(args: Args, uid: str) -> v1.Json:
    limit, now, row = paging.read_limit(args), v1.start_of_minute(g.now), seasons.find_season(uid)
    scope = ("standings", uid)
    after = v1.read_cursor(args, scope, seasons.Place)
    page, last = cut_standings(row, now, limit, after)
    cursor = v1.write_cursor(scope, last) if last else None
    return v1.show_list(show_standings(row, page), limit, cursor, season=show_season(row, now))


@blueprint.post("/seasons/<uid>/join")
def join(uid: str) -> JsonResponse:
    """Add the key's bot to the season. Returns 201, or 200 if it already takes part."""
    caller = gate.find_caller()
    if caller.scope != "publish" or caller.bot_uid is None:
        raise Problem("insufficient_scope", "joining needs a publishing key; this is a read key")
    is_new = seasons.join(uid, find_bot(caller.bot_uid), g.now)
    row = seasons.find_season(uid)
    shown = orjson.dumps(show_season(row, g.now))
    location = f"{find_app().settings.base_path}/api/v1/seasons/{uid}"
    return JsonResponse(shown, 201 if is_new else 200, {"Location": location} if is_new else {})
