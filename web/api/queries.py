"""Reads for the interface and the pages: each statement is executed once per answer and gives rows
of named columns.

Whose a trade is, models.BOT_OF_TRADE decides. Lists are ordered by keys that never change: posts by
id, trades by (slot, place, id).
"""

import heapq
import itertools
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from chain.stored.attachments import COUNT_HELD
from storage.rows import select, select_one, select_value, write_marks
from web.api.post_statements import (
    CONTRADICTED,
    POST,
    ContradictedRow,
    PostRow,
)
from web.api.statements import (
    ACTIVITY,
    ARRIVALS,
    ARRIVED_POSTS,
    BOT,
    BOTS_CALLED,
    COVERAGES,
    FORMER_WALLETS,
    HEAD,
    LAST_POST,
    LAST_TRADE,
    MINTS_CALLED,
    NEWEST,
    OF_MINT,
    ORIGIN,
    SPAN_OF_BOT,
    SPAN_OF_WALLET,
    TRADE,
    TRADE_OF_MINT,
    TRADERS_OF_MINT,
    ActivityRow,
    ArrivalRow,
    ArrivedRow,
    BotRow,
    CoverageRow,
    FormerWalletRow,
    HeadRow,
    NewestRow,
    OriginRow,
    TradePosition,
    TradeRow,
    WalletSpan,
)
from web.api.wallets import add_wallets

# SQL and its values, None for no condition
Condition = tuple[Any, ...] | None
# Bots or tokens that share a name, and posts that are counted for the front page.
MAX_CALLED, MAX_RECENT = 10, 500
# A position above every trade's, so that a first page is searched for as all others are.
ABOVE_ALL = TradePosition(2**62, 2**62, 2**62)


def _select(head: str, conditions: Iterable[Condition], tail: str) -> tuple[str, list[Any]]:
    given = [condition for condition in conditions if condition]
    where = " WHERE " + " AND ".join(sql for sql, *_ in given) if given else ""
    return f"{head}{where} {tail}", [value for _, *values in given for value in values]


# ---- posts ---------------------------------------------------------------------------------------
# Who writes the posts of bots, and what becomes of them.
WRITERS = ("bot", "observer")
POST_STATUSES = ("verified", "mismatch", "pending", "none", "not_found")


class PostFilter(NamedTuple):
    """Which posts: of a bot (its uid), about a mint, of a status; None for all."""

    bot: str | None = None
    mint: str | None = None
    status: str | None = None


class PostKind(NamedTuple):
    """Posts that one index holds in order: by whom and of which status; None for all."""

    source: str | None
    status: str | None


ALL_POSTS = PostFilter()


def list_posts(
    limit: int,
    before: int | None = None,
    bot: str | None = None,
    mint: str | None = None,
    status: str | None = None,
) -> list[PostRow]:
    """Return posts, newest first, below the id `before`. `bot`: its uid."""
    wanted = PostFilter(bot, mint, status)
    lists = [list_post_ids(limit, before, bot, mint, *kind) for kind in _list_kinds(wanted)]
    found = find_posts(list(heapq.merge(*lists, reverse=True))[:limit])
    return sorted(found.values(), key=attrgetter("id"), reverse=True)


def _list_kinds(wanted: PostFilter) -> list[PostKind]:
    """The kinds to ask for: each alone where no index holds them together."""
    if sum(one is not None for one in wanted) < 2:
        return [PostKind(None, wanted.status)]
    statuses = (wanted.status,) if wanted.status else POST_STATUSES
    return [PostKind(*kind) for kind in itertools.product(WRITERS, statuses)]


def list_post_ids(
    limit: int,
    before: int | None = None,
    bot: str | None = None,
    mint: str | None = None,
    source: str | None = None,
    status: str | None = None,
) -> list[int]:
    """Return the numbers of posts as list_posts does; `source` and `status`: of these alone."""
    filters = [
        ("p.id < ?", before) if before else None,
        *_post_filters(PostFilter(bot, mint), PostKind(source, status)),
    ]
    sql, values = _select("SELECT p.id FROM post p", filters, "ORDER BY p.id DESC LIMIT ?")
    return select(int, sql, [*values, limit])


def _post_filters(wanted: PostFilter, kind: PostKind) -> Sequence[Condition]:
    return (
        ("p.bot_id = (SELECT id FROM bot WHERE uid = ?)", wanted.bot) if wanted.bot else None,
        ("p.mint = ?", wanted.mint) if wanted.mint else None,
        ("p.source = ?", kind.source) if kind.source else None,
        ("p.status = ?", kind.status) if kind.status else None,
    )


def find_bot_ids(name: str) -> list[str]:
    """Return the public ids of the bots of this id, handle or name, the oldest first."""
    handle = name.lower().removeprefix("@")
    return select(str, BOTS_CALLED, (name, handle, handle, MAX_CALLED))


def find_mints(ticker: str) -> list[str]:
    """Return the mints of tokens of this ticker; anybody may give a token any ticker."""
    return select(str, MINTS_CALLED, (ticker.lower(), MAX_CALLED))


def list_contradicted() -> list[ContradictedRow]:
    """Return the bot of each recent post that does not match its transaction, newest first."""
    return select(ContradictedRow, CONTRADICTED, (MAX_RECENT,))


def find_post(uid: str) -> PostRow | None:
    """Return the post of this public id, if there is one."""
    return select_one(PostRow, POST + "WHERE p.uid = ?", (uid,))


def find_last_id(table: str) -> int:
    """Return the highest id of `post`, `paper_post` or `arrival`, 0 where there is none."""
    return int(select_value(f"SELECT COALESCE(MAX(id), 0) FROM {table}"))


def find_posts(ids: Sequence[int]) -> dict[int, PostRow]:
    """Return {id: row}."""
    if not ids:
        return {}
    rows = select(PostRow, f"{POST} WHERE p.id IN ({write_marks(ids)})", ids)
    return {row.id: row for row in rows}


# ---- trades --------------------------------------------------------------------------------------
def list_trades(
    limit: int,
    before: TradePosition | None = None,
    up_to: int | None = None,
    spans: Sequence[WalletSpan] | None = None,
    mint: str | None = None,
    kinds: Collection[str] = (),
    money: str | None = None,
    floor: TradePosition | None = None,
) -> list[TradeRow]:
    """Return trades, newest first.

    `before`: the position they must be below; `up_to`: an id none may be above; `spans`: of
    wallets, None for all. `kinds`, and those paid in a `money`, are looked for one by one: down to
    `floor`, a position.
    """
    of_kind = (
        # Not by the index of kinds, which is in another order.
        (f"t.kind || '' IN ({write_marks([*kinds])})", *sorted(kinds)) if kinds else None,
        ("t.currency = ?", money) if money is not None else None,
        _compare_position(">=", mint, floor) if floor else None,
    )
    if spans is None:
        return _list_trades(limit, before, up_to, None, mint, of_kind)
    # Each by its index; a bot has few wallets.
    lists = [_list_trades(limit, before, up_to, span, mint, of_kind) for span in spans]
    return list(heapq.merge(*lists, key=attrgetter("position"), reverse=True))[:limit]


def _list_trades(
    limit: int,
    before: TradePosition | None,
    up_to: int | None,
    span: WalletSpan | None,
    mint: str | None,
    more: Sequence[Condition] = (),
) -> list[TradeRow]:
    sql, values = _select(
        TRADE_OF_MINT if mint else TRADE,
        [
            *_below(before, span, mint, "t.id"),
            # The plus keeps SQLite from scanning by id and sorting.
            ("+t.id <= ?", up_to) if up_to is not None else None,
            *more,
        ],
        _order_newest(mint) + " LIMIT ?",
    )
    return select(TradeRow, sql, [*values, limit])


def find_trade_position(
    count: int, before: TradePosition | None, span: WalletSpan | None, mint: str | None
) -> TradePosition | None:
    """Return the position of the `count`th trade below `before`, None where there are fewer."""
    table = "trade_mint m" if mint else "trade t"
    sql, values = _select(
        f"SELECT {', '.join(_position_columns(mint))} FROM {table}",
        _below(before, span, mint, "m.trade_id" if mint else "t.id"),
        _order_newest(mint) + " LIMIT 1 OFFSET ?",
    )
    return select_one(TradePosition, sql, [*values, count - 1])


def _position_columns(mint: str | None) -> tuple[str, str, str]:
    """The columns by which trades are ordered: of the trades of a token, or of all."""
    return ("m.slot", "m.place", "m.trade_id") if mint else ("t.slot", "t.place", "t.id")


def _compare_position(sign: str, mint: str | None, position: TradePosition) -> Condition:
    return f"({', '.join(_position_columns(mint))}) {sign} (?, ?, ?)", *position


def _order_newest(mint: str | None) -> str:
    return "ORDER BY " + ", ".join(f"{column} DESC" for column in _position_columns(mint))


def _below(
    before: TradePosition | None, span: WalletSpan | None, mint: str | None, trade: str
) -> Sequence[Condition]:
    """Conditions of a wallet and a token, below a position. `trade`: the SQL of a trade's id."""
    return (
        (OF_MINT.format("m"), mint) if mint else None,
        (f"{'m' if mint else 't'}.wallet_id = ?", span.wallet_id) if span else None,
        *_of_span(span, trade),
        _compare_position("<", mint, before or ABOVE_ALL),
    )


def find_trades(ids: Sequence[int]) -> dict[int, TradeRow]:
    """Return {id: row}."""
    if not ids:
        return {}
    rows = select(TradeRow, f"{TRADE} WHERE t.id IN ({write_marks(ids)})", ids)
    return {row.id: row for row in rows}


def find_wallets(address: str | None = None, bot: str | None = None) -> list[WalletSpan]:
    """Return the spans of the wallet of this address and of the wallets with trades of this bot
    (its uid).
    """
    sql, values = _select(
        SPAN_OF_BOT if bot else SPAN_OF_WALLET,
        [("b.uid = ?", bot) if bot else None, ("w.address = ?", address) if address else None],
        "ORDER BY w.id",
    )
    return select(WalletSpan, sql, values)


def _of_span(span: WalletSpan | None, trade: str) -> Sequence[Condition]:
    """Return conditions for _select, see BOT_OF_TRADE. `trade`: the SQL of a trade's id."""
    time = f"(SELECT s.block_time * 1000 FROM trade s WHERE s.id = {trade})"
    return (
        (f"{time} >= ?", span.begins) if span and span.begins is not None else None,
        (f"COALESCE({time}, 0) < ?", span.ends) if span and span.ends is not None else None,
    )


def find_origins(uids: Sequence[str]) -> dict[str, OriginRow]:
    """Return {trade uid: row} of the purchases that sales were matched with."""
    return {row.uid: row for row in select(OriginRow, f"{ORIGIN}({write_marks(uids)})", uids)}


def list_activity(mint: str, limit: int, before: TradePosition | None = None) -> list[ActivityRow]:
    """Return buys, sells and swaps of a token, newest first."""
    sql, values = _select(
        ACTIVITY,
        [
            (f"{OF_MINT.format('m')} AND m.side IS NOT NULL", mint),
            ("(m.slot, m.place, m.trade_id) < (?, ?, ?)", *before) if before else None,
        ],
        "ORDER BY m.slot DESC, m.place DESC, m.trade_id DESC LIMIT ?",
    )
    return select(ActivityRow, sql, [*values, limit])


def count_sides(mint: str) -> dict[str, int]:
    """Return {"buy": wallets that bought it, "sell": wallets that sold it}."""
    return {side: select_value(TRADERS_OF_MINT, (mint, side)) for side in ("buy", "sell")}


def count_tracked() -> int:
    """Count the wallets that bots hold now."""
    return int(select_value(f"SELECT {COUNT_HELD}"))


# ---- what arrived, in order ----------------------------------------------------------------------
def find_head() -> HeadRow:
    """Return the highest numbers at one moment: everything that arrived is at or below them."""
    return select(HeadRow, HEAD)[0]


def find_newest_ids() -> NewestRow:
    """Return the public ids of the newest bot, post, trader and token, for examples."""
    return select(NewestRow, NEWEST)[0]


def find_working_keys(ids: Sequence[int], now: int) -> set[int]:
    """Return those of these keys that are neither revoked nor expired nor of a banned owner. `now`
    in ms.
    """
    return set(
        select(
            int,
            f'SELECT id FROM "key" WHERE id IN ({write_marks(ids)}) AND revoked_at IS NULL AND'
            " (expires_at IS NULL OR expires_at > ?) AND owner_id NOT IN (SELECT o.id FROM owner o"
            " JOIN ban ON ban.kind = 'owner' AND ban.target = o.uid)",
            [*ids, now],
        )
    )


def list_arrivals(limit: int, after: int) -> list[ArrivalRow]:
    """Return what arrived after this arrival, in order."""
    return select(ArrivalRow, ARRIVALS, (after, limit))


def find_coverages(ids: Sequence[int]) -> dict[int, CoverageRow]:
    """Return {id of the wallet: row}."""
    if not ids:
        return {}
    rows = select(CoverageRow, f"{COVERAGES} WHERE w.id IN ({write_marks(ids)})", ids)
    return {row.id: row for row in rows}


class ArrivedPost(NamedTuple):
    """A post and the number of its arrival."""

    arrival: int
    row: PostRow


class ArrivedTrade(NamedTuple):
    """A trade and the number of its arrival."""

    arrival: int
    row: TradeRow


def list_posts_since(limit: int, after: int, wanted: PostFilter = ALL_POSTS) -> list[ArrivedPost]:
    """Return the posts after this arrival, in order of arrival, as list_trades_since does."""
    last = select_value(LAST_POST, (after,)) or 0
    lists = [_list_arrived_posts(limit, last, wanted, kind) for kind in _list_kinds(wanted)]
    arrived = list(heapq.merge(*lists))[:limit]
    rows = find_posts([one.row_id for one in arrived])
    return [ArrivedPost(one.arrival, rows[one.row_id]) for one in arrived]


def _list_arrived_posts(
    limit: int, last: int, wanted: PostFilter, kind: PostKind
) -> list[ArrivedRow]:
    conditions = [
        ("r.post_id = p.id AND r.kind = 'post' AND p.id > ?", last),
        *_post_filters(wanted, kind),
    ]
    sql, values = _select(ARRIVED_POSTS, conditions, "ORDER BY p.id LIMIT ?")
    return select(ArrivedRow, sql, [*values, limit])


def list_trades_since(
    limit: int, after: int, spans: Sequence[WalletSpan] | None = None, mint: str | None = None
) -> list[ArrivedTrade]:
    """Return the trades after this arrival, in order of arrival: as quick whatever the filter and
    however far back.

    Trades are numbered in the order in which they arrive, so one look-up turns the arrival into a
    trade's id, above which each filter has an index. Clients only ever see the arrival's number.
    """
    last = select_value(LAST_TRADE, (after,)) or 0
    lists = [
        _list_arrived(limit, last, span, mint) for span in (spans if spans is not None else (None,))
    ]
    arrived = list(heapq.merge(*lists))[:limit]
    rows = find_trades([one.row_id for one in arrived])
    return [ArrivedTrade(one.arrival, rows[one.row_id]) for one in arrived if one.row_id in rows]


def _list_arrived(
    limit: int, last: int, span: WalletSpan | None, mint: str | None
) -> list[ArrivedRow]:
    table, column = ("trade_mint", "trade_id") if mint else ("trade", "id")
    sql, values = _select(
        f"SELECT r.id AS arrival, t.{column} AS row_id FROM {table} t CROSS JOIN arrival r",
        [
            (f"r.trade_id = t.{column} AND t.{column} > ?", last),
            (OF_MINT.format("t"), mint) if mint else None,
            ("t.wallet_id = ?", span.wallet_id) if span else None,
            *_of_span(span, f"t.{column}"),
        ],
        f"ORDER BY t.{column} LIMIT ?",
    )
    return select(ArrivedRow, sql, [*values, limit])


# ---- bots ---------------------------------------------------------------------------------
def list_bots(limit: int, before: int | None = None) -> list[BotRow]:
    """Return bots, newest first, below the id `before`."""
    sql, values = _select(
        BOT, [("b.id < ?", before) if before else None], "ORDER BY b.id DESC LIMIT ?"
    )
    return add_wallets(select(BotRow, sql, [*values, limit]))


def find_bot(uid: str) -> BotRow | None:
    """Return the bot of this public id, if there is one."""
    row = select_one(BotRow, BOT + "WHERE b.uid = ?", (uid,))
    return row and add_wallets([row])[0]


def is_owner(owner_id: int, bot: str) -> bool:
    """Whether this owner has the bot of this public id."""
    found = select_value("SELECT 1 FROM bot WHERE uid = ? AND owner_id = ?", (bot, owner_id))
    return found is not None


def list_former_wallets(bot_ids: Sequence[int]) -> dict[int, list[str]]:
    """Return {bot id: [address...]} of wallets held before, in order."""
    held: dict[int, list[str]] = {}
    sql = f"{FORMER_WALLETS}({write_marks(bot_ids)}) ORDER BY a.attached_at, w.id"
    for row in select(FormerWalletRow, sql, bot_ids):
        held.setdefault(row.bot_id, []).append(row.address)
    return held
