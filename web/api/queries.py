"""SQL statements that read bots, posts and trades, and the queries of the API and the pages.

Rows are named tuples of a statement's columns (storage.rows.read), which have the same names as the
members of the shape. The SQL is portable to PostgreSQL except for the `?`. Times are UTC
milliseconds, but `block_time` is Unix seconds. Amounts are in lamports, or JSON and text as stored.
models.BOT_OF_TRADE decides which bot a trade belongs to. Lists are sorted by keys that never
change: posts by ID, and trades by (slot, place, ID).
"""

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, get_args

from chain.amounts import show_raw, sol
from chain.stored.attachments import COUNT_HELD, LEAD
from chain.stored.tables import CHANGES, LOTS, NAMES, NUMBER_OF_MINT, WALLET_PARTS
from models import BOT_OF_TRADE
from storage.rows import Damaged, read, read_one, select, select_one, select_value, write_marks
from web.api.serialize import Json
from web.api.shapes import PostStatus


# ---- trade rows ----------------------------------------------------------------------------------
class TradePosition(NamedTuple):
    """A trade's position in every list of trades. `place` is its place in the slot."""

    slot: int
    place: int
    id: int


# As in models.Trade. `explained` is 0 to 100.
TRADE_COLUMNS = """
SELECT t.slot, t.place, t.id, t.uid, b.uid AS bot, w.address AS wallet, t.signature,
       t.tx_index AS transaction_index,
       t.block_time, t.kind, t.venue, t.mint, t.token_changes, t.sol_change, t.fee, t.tip, t.rent,
       t.currency, t.realized, t.result, t.proceeds, t.cost, t.matched_raw, t.unmatched_raw, t.lots,
       t.paid_elsewhere, t.flags, t.beside_sol, t.beside_tokens, t.explained, t.counterparties,
       c.lamports AS copied, c.reason AS copied_reason
"""
ITS_BOT = f"JOIN wallet w ON w.id = t.wallet_id JOIN bot b ON b.id = {BOT_OF_TRADE}"
COPIED = "LEFT JOIN copied_trade c ON c.trade_id = t.id"
TRADE = f"{TRADE_COLUMNS}FROM trade t {ITS_BOT} {COPIED}"
# Matches the rows of a table of token changes that moved a mint.
OF_MINT = f"{{}}.mint_id = {NUMBER_OF_MINT.format('?')}"
TRADE_OF_MINT = (
    f"{TRADE_COLUMNS}FROM trade_mint m JOIN trade t ON t.id = m.trade_id {ITS_BOT} {COPIED}"
)


# The part of a wallet's trades that a list includes: all, or those that belong to a bot. `begins`
# and `ends` are in ms, or null. The first block time is included, the last isn't.
SPAN_OF_WALLET = """
SELECT w.id AS wallet_id, w.address, w.coverage, NULL AS begins, NULL AS ends FROM wallet w
"""
SPAN_OF_BOT = """
SELECT w.id AS wallet_id, w.address, w.coverage,
       CASE WHEN w.bot_id = b.id THEN w.bot_since END AS begins,
       CASE WHEN w.earlier_bot_id = b.id THEN w.bot_since END AS ends
FROM bot b JOIN wallet w ON w.bot_id = b.id OR w.earlier_bot_id = b.id
"""


# The purchases with which sales were matched.
ORIGIN = "SELECT uid, block_time, signature FROM trade WHERE uid IN "


# Purchases and sales of a token, including sides of swaps.
ACTIVITY = f"""
SELECT m.slot, m.place, m.trade_id AS id, m.side, b.uid AS bot, b.name AS bot_name,
       w.address AS wallet, t.token_changes, t.sol_change, t.block_time, t.signature,
       t.uid AS trade, t.kind, t.flags, t.currency, t.beside_sol, t.beside_tokens, t.explained
FROM trade_mint m JOIN trade t ON t.id = m.trade_id {ITS_BOT}
"""
# Steps through the index from wallet to wallet, however many trades each has.
TRADERS_OF_MINT = f"""
WITH RECURSIVE trader (id) AS (
    SELECT MIN(m.wallet_id) FROM trade_mint m WHERE {OF_MINT.format("m")} AND m.side = ?
    UNION ALL
    SELECT (SELECT MIN(m.wallet_id) FROM trade_mint m
            WHERE {OF_MINT.format("m")} AND m.side = ? AND m.wallet_id > trader.id)
    FROM trader WHERE trader.id IS NOT NULL)
SELECT COUNT(id) FROM trader"""


# ---- what arrived --------------------------------------------------------------------------------
# The highest numbers at one point in time. Everything that has arrived is at or below them.
HEAD = """
SELECT (SELECT COALESCE(MAX(id), 0) FROM arrival) AS arrival,
       (SELECT COALESCE(MAX(id), 0) FROM post) AS post,
       (SELECT COALESCE(MAX(id), 0) FROM trade) AS trade
"""


# The public IDs of the newest rows, or null if there aren't any.
NEWEST = """
SELECT (SELECT uid FROM bot WHERE id = (SELECT MAX(id) FROM bot)) AS bot,
       (SELECT uid FROM post WHERE id = (SELECT MAX(id) FROM post)) AS post,
       (SELECT uid FROM trader WHERE id = (SELECT MAX(id) FROM trader)) AS trader,
       (SELECT uid FROM season WHERE id = (SELECT MAX(id) FROM season)) AS season,
       (SELECT n.address FROM trade_mint m JOIN mint n ON n.id = m.mint_id
        WHERE m.id = (SELECT MAX(id) FROM trade_mint)) AS mint
"""


# New posts and trades, and changes of a verification or of a wallet's coverage.
ARRIVALS = (
    "SELECT id, kind, post_id, trade_id, wallet_id FROM arrival WHERE id > ? ORDER BY id LIMIT ?"
)


# As JSON, with the wallets' bots.
COVERAGES = """
SELECT w.id, w.address, w.coverage, b.uid AS bot, b.name AS bot_name
FROM wallet w JOIN bot b ON b.id = w.bot_id"""


# The number of an arrival, and that of its row.
ARRIVED_POSTS = "SELECT r.id AS arrival, p.id AS row_id FROM post p CROSS JOIN arrival r"
LAST_POST = """
SELECT post_id FROM arrival WHERE kind = 'post' AND id <= ? ORDER BY id DESC LIMIT 1"""
# The newest trade up to an arrival, skipping trades that a rebuild removed.
LAST_TRADE = """
SELECT trade_id FROM arrival WHERE trade_id IS NOT NULL AND id <= ? ORDER BY id DESC LIMIT 1
"""


# ---- bots ----------------------------------------------------------------------------------------
BOTS_CALLED = """
SELECT uid FROM bot WHERE uid = ? OR handle = ? OR LOWER(name) = ? ORDER BY id LIMIT ?"""
MINTS_CALLED = "SELECT mint FROM token WHERE LOWER(symbol) = ? ORDER BY id LIMIT ?"


# Bots with their primary wallet. `voice` and `coverage` are JSON. `since` is when the bot's claim
# began if the wallet is only claimed and another bot had proven it, else null.
BOT = f"""
SELECT b.id, b.uid, b.handle, b.name, b.bio, b.voice, b.avatar_url, b.auto_post, b.created_at,
       b.retired_at, w.address, a.attached_at, a.ownership, w.results, w.coverage, w.positions,
       w.reconciliation, w.average_cost, w.by_stablecoin, w.last_trade_at,
       (SELECT p.created_at FROM post p WHERE p.bot_id = b.id ORDER BY p.id DESC LIMIT 1)
       AS last_post_at, w.bot_since AS since
FROM bot b LEFT JOIN attachment a ON a.id = {LEAD}
LEFT JOIN wallet w ON w.id = a.wallet_id
"""


FORMER_WALLETS = """
SELECT a.bot_id, w.address FROM attachment a JOIN wallet w ON w.id = a.wallet_id
WHERE a.detached_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM attachment c
    WHERE c.bot_id = a.bot_id AND c.wallet_id = a.wallet_id AND c.detached_at IS NULL)
AND a.bot_id IN """


# ---- post rows -----------------------------------------------------------------------------------
# Whether the wallet of post `p` was proven while it was attached.
POST_OWNERSHIP = """CASE WHEN p.wallet_id IS NULL THEN NULL WHEN EXISTS (
    SELECT 1 FROM attachment a
    WHERE a.bot_id = p.bot_id AND a.wallet_id = p.wallet_id AND a.ownership = 'proven'
    AND a.attached_at <= p.created_at AND (a.detached_at IS NULL OR a.detached_at >= p.created_at)
) THEN 'proven' ELSE 'claimed' END AS ownership"""


# Posts with the data that decides their label. The columns from trade_kind on are those of the
# cited trade, or null without one. `currency` is the mint of the stablecoin that the trade was
# priced in, or empty for SOL. `connected_at` is when the bot first connected the trade's wallet.
# `log_index` is the index of the post's leaf in the log. `backfilled` and `trouble` are those of
# the wallet that the post is judged against.
POST = f"""
SELECT p.id, p.uid, b.uid AS bot, b.name AS bot_name, p.event_id, p.body, p.mint,
       COALESCE(p.symbol, s.symbol) AS symbol, p.signature, p.reason, p.source, p.status,
       t.uid AS trade, p.checked_at, p.status_reason, p.event_at, p.created_at, p.channel,
       k.uid AS "key", w.address AS wallet, p.sanitized, p.hidden_at, {POST_OWNERSHIP},
       t.kind AS trade_kind, v.address AS trade_wallet, t.mint AS trade_mint,
       n.symbol AS trade_symbol, t.token_changes, t.beside_tokens, t.sol_change, t.beside_sol,
       t.currency, t.realized, t.result, t.cost, t.explained, t.slot, t.block_time,
       t.flags AS trade_flags,
       (SELECT MIN(a.attached_at) FROM attachment a
        WHERE a.bot_id = p.bot_id AND a.wallet_id = t.wallet_id) AS connected_at,
       g.uid AS log, p.leaf_id - g.first_leaf AS log_index, w.backfilled, w.trouble
FROM post p JOIN bot b ON b.id = p.bot_id LEFT JOIN "key" k ON k.id = p.key_id
LEFT JOIN log g ON g.id = (SELECT MAX(id) FROM log WHERE first_leaf <= p.leaf_id)
LEFT JOIN wallet w ON w.id = p.wallet_id LEFT JOIN trade t ON t.id = p.trade_id
LEFT JOIN wallet v ON v.id = t.wallet_id
LEFT JOIN token s ON s.mint = p.mint LEFT JOIN token n ON n.mint = t.mint
"""


# The bots of posts that don't match their transaction.
CONTRADICTED = """
SELECT b.uid, b.name FROM post p JOIN bot b ON b.id = p.bot_id WHERE p.status = 'mismatch'
ORDER BY p.id DESC LIMIT ?"""


# ---- reads ---------------------------------------------------------------------------------------
# SQL and its values, or None if there is no condition.
Condition = tuple[Any, ...] | None
STORED = {
    **WALLET_PARTS,
    "token_changes": CHANGES,
    "beside_tokens": CHANGES,
    "lots": LOTS,
    "counterparties": NAMES,
    "flags": NAMES,
    "trade_flags": NAMES,
}
# Maximum numbers of bots or tokens with the same name, and of posts that the front page counts.
MAX_CALLED, MAX_RECENT = 10, 500
# Above every trade. With it, the first page uses the same search as the others.
ABOVE_ALL = TradePosition(2**62, 2**62, 2**62)


def find_place(row: Any) -> TradePosition:
    return TradePosition(row.slot, row.place, row.id)


def _select(head: str, conditions: Iterable[Condition], tail: str) -> tuple[str, list[Any]]:
    given = [condition for condition in conditions if condition]
    where = " WHERE " + " AND ".join(sql for sql, *_ in given) if given else ""
    return f"{head}{where} {tail}", [value for _, *values in given for value in values]


# ---- posts ---------------------------------------------------------------------------------------
# The authors of bots' posts, and the states that these posts can have.
WRITERS = ("bot", "observer")
POST_STATUSES: tuple[str, ...] = get_args(PostStatus)


class PostFilter(NamedTuple):
    """Which posts: a bot's (its uid), about any of these mints, with any of these statuses, by a
    source; None for all.
    """

    bot: str | None = None
    mints: tuple[str, ...] | None = None
    statuses: tuple[str, ...] | None = None
    source: str | None = None


ALL_POSTS = PostFilter()


def list_posts(limit: int, before: int | None = None, wanted: PostFilter = ALL_POSTS) -> list[Any]:
    lists = [_list_ids(limit, before, part) for part in _split(wanted)]
    found = find_posts(list(heapq.merge(*lists, reverse=True))[:limit])
    return sorted(found.values(), key=attrgetter("id"), reverse=True)


def _split(wanted: PostFilter) -> list[PostFilter]:
    """Split a filter into filters that an index lists in order."""
    if wanted.mints is None and wanted.statuses is None and wanted.source is None:
        return [wanted]
    mints = [(one,) for one in wanted.mints] if wanted.mints is not None else [None]
    if wanted.bot is None and wanted.statuses is None and wanted.source is None:
        return [wanted._replace(mints=mint) for mint in mints]
    sources = (wanted.source,) if wanted.source else WRITERS
    return [
        PostFilter(wanted.bot, mint, (status,), source)
        for mint, status, source in itertools.product(
            mints, wanted.statuses or POST_STATUSES, sources
        )
    ]


def _list_ids(limit: int, before: int | None, wanted: PostFilter) -> list[int]:
    filters = [("p.id < ?", before) if before else None, *_post_filters(wanted)]
    sql, values = _select("SELECT p.id FROM post p", filters, "ORDER BY p.id DESC LIMIT ?")
    return select(int, sql, [*values, limit])


def _post_filters(wanted: PostFilter) -> Sequence[Condition]:
    return (
        ("p.bot_id = (SELECT id FROM bot WHERE uid = ?)", wanted.bot) if wanted.bot else None,
        ("p.mint = ?", *wanted.mints) if wanted.mints else None,
        ("p.source = ?", wanted.source) if wanted.source else None,
        ("p.status = ?", *wanted.statuses) if wanted.statuses else None,
    )


def find_bot_ids(name: str) -> list[str]:
    handle = name.lower().removeprefix("@")
    return select(str, BOTS_CALLED, (name, handle, handle, MAX_CALLED))


def find_mints(ticker: str) -> list[str]:
    return select(str, MINTS_CALLED, (ticker.lower(), MAX_CALLED))


def list_contradicted() -> list[Any]:
    """Return the bot of each recent post that doesn't match its transaction, newest first."""
    return read(CONTRADICTED, (MAX_RECENT,))


def find_post(uid: str) -> Any:
    return read_one(POST + "WHERE p.uid = ?", (uid,), **STORED)


def find_last_id(table: str) -> int:
    """Return the highest ID of `post`, `paper_post` or `arrival`, or 0 if the table is empty."""
    return int(select_value(f"SELECT COALESCE(MAX(id), 0) FROM {table}"))


def find_posts(ids: Sequence[int]) -> dict[int, Any]:
    return _find_rows(f"{POST} WHERE p.id", ids)


def _find_rows(sql: str, ids: Sequence[int]) -> dict[int, Any]:
    """Return {number: row}. `sql` is the statement up to the number's column."""
    rows = read(f"{sql} IN ({write_marks(ids)})", ids, **STORED) if ids else []
    return {row.id: row for row in rows}


# ---- trades --------------------------------------------------------------------------------------
# An order's fill has a currency if a market filled it.
PAID_IN = "t.currency = ? AND (t.kind <> 'order_fill' OR t.realized <> 'not_applicable')"


def list_trades(
    limit: int,
    before: TradePosition | None = None,
    up_to: int | None = None,
    spans: Sequence[Any] | None = None,
    mint: str | None = None,
    kinds: Collection[str] = (),
    money: str | None = None,
    floor: TradePosition | None = None,
) -> list[Any]:
    """Return trades, newest first: positions below `before`, IDs up to `up_to`.

    `spans`: spans of wallets, or None for all. With `kinds` or `money`, trades are examined one by
    one, down to the position `floor`.
    """
    of_kind = (
        # Don't use the index of kinds, because it has another order.
        (f"t.kind || '' IN ({write_marks([*kinds])})", *sorted(kinds)) if kinds else None,
        (PAID_IN, money) if money is not None else None,
        _compare_position(">=", mint, floor) if floor else None,
    )
    if spans is None:
        return _list_trades(limit, before, up_to, None, mint, of_kind)
    # Each list uses its index. A bot has only a few wallets.
    lists = [_list_trades(limit, before, up_to, span, mint, of_kind) for span in spans]
    return list(heapq.merge(*lists, key=find_place, reverse=True))[:limit]


def _list_trades(
    limit: int,
    before: TradePosition | None,
    up_to: int | None,
    span: Any,
    mint: str | None,
    more: Sequence[Condition] = (),
) -> list[Any]:
    sql, values = _select(
        TRADE_OF_MINT if mint else TRADE,
        [
            *_below(before, span, mint, "t.id"),
            # The plus keeps SQLite from scanning by ID and sorting.
            ("+t.id <= ?", up_to) if up_to is not None else None,
            *more,
        ],
        _order_newest(mint) + " LIMIT ?",
    )
    return read(sql, [*values, limit], **STORED)


def find_trade_position(
    count: int, before: TradePosition | None, span: Any, mint: str | None
) -> TradePosition | None:
    table = "trade_mint m" if mint else "trade t"
    sql, values = _select(
        f"SELECT {', '.join(_position_columns(mint))} FROM {table}",
        _below(before, span, mint, "m.trade_id" if mint else "t.id"),
        _order_newest(mint) + " LIMIT 1 OFFSET ?",
    )
    return select_one(TradePosition, sql, [*values, count - 1])


def _position_columns(mint: str | None) -> tuple[str, str, str]:
    return ("m.slot", "m.place", "m.trade_id") if mint else ("t.slot", "t.place", "t.id")


def _compare_position(sign: str, mint: str | None, position: TradePosition) -> Condition:
    return f"({', '.join(_position_columns(mint))}) {sign} (?, ?, ?)", *position


def _order_newest(mint: str | None) -> str:
    return "ORDER BY " + ", ".join(f"{column} DESC" for column in _position_columns(mint))


def _below(
    before: TradePosition | None, span: Any, mint: str | None, trade: str
) -> Sequence[Condition]:
    """Return conditions for a wallet and token below a position. `trade`: SQL of a trade's ID."""
    return (
        (OF_MINT.format("m"), mint) if mint else None,
        (f"{'m' if mint else 't'}.wallet_id = ?", span.wallet_id) if span else None,
        *_of_span(span, trade),
        _compare_position("<", mint, before or ABOVE_ALL),
    )


def find_trades(ids: Sequence[int]) -> dict[int, Any]:
    return _find_rows(f"{TRADE} WHERE t.id", ids)


def find_wallets(address: str | None = None, bot: str | None = None) -> list[Any]:
    """Return the spans of the wallet with this address, or of this bot's wallets (uid)."""
    sql, values = _select(
        SPAN_OF_BOT if bot else SPAN_OF_WALLET,
        [("b.uid = ?", bot) if bot else None, ("w.address = ?", address) if address else None],
        "ORDER BY w.id",
    )
    return read(sql, values)


def _of_span(span: Any, trade: str) -> Sequence[Condition]:
    """Return the conditions for _select (BOT_OF_TRADE). `trade` is the SQL of a trade's ID."""
    time = f"(SELECT s.block_time * 1000 FROM trade s WHERE s.id = {trade})"
    return (
        (f"{time} >= ?", span.begins) if span and span.begins is not None else None,
        (f"COALESCE({time}, 0) < ?", span.ends) if span and span.ends is not None else None,
    )


def find_origins(uids: Sequence[str]) -> dict[str, Any]:
    return {row.uid: row for row in read(f"{ORIGIN}({write_marks(uids)})", uids)}


def list_activity(mint: str, limit: int, before: TradePosition | None = None) -> list[Any]:
    sql, values = _select(
        ACTIVITY,
        [
            (f"{OF_MINT.format('m')} AND m.side IS NOT NULL", mint),
            _compare_position("<", mint, before) if before else None,
        ],
        _order_newest(mint) + " LIMIT ?",
    )
    return read(sql, [*values, limit], **STORED)


def count_sides(mint: str) -> dict[str, int]:
    return {side: select_value(TRADERS_OF_MINT, (mint, side) * 2) for side in ("buy", "sell")}


def count_tracked() -> int:
    return int(select_value(f"SELECT {COUNT_HELD}"))


# ---- what arrived, in order ----------------------------------------------------------------------
def find_head() -> Any:
    return read_one(HEAD)


def find_newest_ids() -> Any:
    return read_one(NEWEST)


def find_working_keys(ids: Sequence[int], now: int) -> set[int]:
    return set(
        select(
            int,
            f'SELECT id FROM "key" WHERE id IN ({write_marks(ids)}) AND revoked_at IS NULL AND'
            " (expires_at IS NULL OR expires_at > ?) AND owner_id NOT IN (SELECT o.id FROM owner o"
            " JOIN ban ON ban.kind = 'owner' AND ban.target = o.uid)",
            [*ids, now],
        )
    )


def list_arrivals(limit: int, after: int) -> list[Any]:
    return read(ARRIVALS, (after, limit))


def find_coverages(ids: Sequence[int]) -> dict[int, Any]:
    return _find_rows(f"{COVERAGES} WHERE w.id", ids)


class Arrived(NamedTuple):
    """A post or a trade, and its arrival number."""

    arrival: int
    row: Any


def list_posts_since(limit: int, after: int, wanted: PostFilter = ALL_POSTS) -> list[Arrived]:
    """Return the posts after this arrival, in order of arrival, like list_trades_since."""
    last = select_value(LAST_POST, (after,)) or 0
    lists = [_list_arrived_posts(limit, last, part) for part in _split(wanted)]
    arrived = list(heapq.merge(*lists))[:limit]
    rows = find_posts([one.row_id for one in arrived])
    return [Arrived(one.arrival, rows[one.row_id]) for one in arrived]


def _list_arrived_posts(limit: int, last: int, wanted: PostFilter) -> list[Any]:
    arrived = ("r.post_id = p.id AND r.kind = 'post' AND p.id > ?", last)
    conditions = [arrived, *_post_filters(wanted)]
    sql, values = _select(ARRIVED_POSTS, conditions, "ORDER BY p.id LIMIT ?")
    return read(sql, [*values, limit])


def list_trades_since(
    limit: int, after: int, spans: Sequence[Any] | None = None, mint: str | None = None
) -> list[Arrived]:
    """Return the trades after this arrival, in order, equally fast for any filter or distance.

    Trades are numbered in order of arrival, so one look-up turns the arrival into a trade's ID, and
    each filter has an index that starts there. Clients see only the arrival's number.
    """
    last = select_value(LAST_TRADE, (after,)) or 0
    lists = [
        _list_arrived(limit, last, span, mint) for span in (spans if spans is not None else (None,))
    ]
    arrived = list(heapq.merge(*lists))[:limit]
    rows = find_trades([one.row_id for one in arrived])
    return [Arrived(one.arrival, rows[one.row_id]) for one in arrived if one.row_id in rows]


def _list_arrived(limit: int, last: int, span: Any, mint: str | None) -> list[Any]:
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
    return read(sql, [*values, limit])


def list_bots(limit: int, before: int | None = None) -> list[Any]:
    sql, values = _select(
        BOT, [("b.id < ?", before) if before else None], "ORDER BY b.id DESC LIMIT ?"
    )
    return add_wallets(read(sql, [*values, limit], **STORED))


def find_bot(uid: str) -> Any:
    row = read_one(BOT + "WHERE b.uid = ?", (uid,), **STORED)
    return row and add_wallets([row])[0]


def is_owner(owner_id: int, bot: str) -> bool:
    found = select_value("SELECT 1 FROM bot WHERE uid = ? AND owner_id = ?", (bot, owner_id))
    return found is not None


def list_former_wallets(bot_ids: Sequence[int]) -> dict[int, list[str]]:
    held: dict[int, list[str]] = {}
    sql = f"{FORMER_WALLETS}({write_marks(bot_ids)}) ORDER BY a.attached_at, w.id"
    for row in read(sql, bot_ids):
        held.setdefault(row.bot_id, []).append(row.address)
    return held


# ---- totals --------------------------------------------------------------------------------------
# The derived data, as in BOT, of wallets that aren't the primary one.
PARTS = f"""
SELECT a.bot_id, w.last_trade_at, w.results, w.positions, w.reconciliation, w.average_cost,
       w.by_stablecoin
FROM bot b JOIN attachment a ON a.bot_id = b.id AND a.detached_at IS NULL AND a.id <> {LEAD}
JOIN wallet w ON w.id = a.wallet_id WHERE b.id IN ({{}}) ORDER BY a.attached_at, a.id
"""


def add_wallets(rows: Sequence[Any]) -> list[Any]:
    """Add the totals of the other wallets to those of the primary wallet."""
    if not rows:
        return []
    others = defaultdict(list)
    for part in read(PARTS.format(write_marks(rows)), [row.id for row in rows], **STORED):
        others[part.bot_id].append(part)
    return [_add_parts(row, others[row.id]) if row.id in others else row for row in rows]


def _add_parts(row: Any, others: Sequence[Any]) -> Any:
    parts = [row, *others]
    return row._replace(
        results=_join(lambda found: found[0], [one.results for one in parts]),
        positions=_join(add_positions, [one.positions for one in parts]),
        reconciliation=_join_whole([one.reconciliation for one in parts]),
        average_cost=_join(add_amounts, [one.average_cost for one in parts]),
        by_stablecoin=_join(_add_books, [one.by_stablecoin for one in parts]),
        last_trade_at=max(one.last_trade_at or 0 for one in parts) or None,
    )


def _join(add: Callable[[Sequence[Any]], Any], parts: Sequence[Any]) -> Any:
    """Add up the derived parts. If one part is damaged, the total is damaged."""
    known = [one for one in parts if one is not None]
    damaged = [one for one in known if isinstance(one, Damaged)]
    if damaged or not known:
        return next(iter(damaged), None)
    return add(known)


def _join_whole(parts: Sequence[Any]) -> Any:
    return None if None in parts else _join(add_amounts, parts)


def add_amounts(parts: Sequence[Mapping[str, Any]]) -> Json:
    """Add up members with the same names: counts, and amounts as text. `...Sol` is recomputed."""
    told: Json = {
        name: _add([one[name] for one in parts]) for name in parts[0] if not name.endswith("Sol")
    }
    return {
        name: sol(int(told[name.replace("Sol", "Lamports")]))
        if name.endswith("Sol")
        else told[name]
        for name in parts[0]
    }


def _add(values: Sequence[Any]) -> Any:
    return sum(values) if isinstance(values[0], int) else str(sum(map(int, values)))


def add_positions(parts: Iterable[Iterable[Json]]) -> list[Json]:
    by_mint: dict[str, list[Json]] = defaultdict(list)
    for one in (one for part in parts for one in part):
        by_mint[one["mint"]].append(one)
    return [_add_position(found) for _, found in sorted(by_mint.items())]


def _add_position(parts: Sequence[Json]) -> Json:
    costs = [int(one["costLamports"]) for one in parts if one["costLamports"] is not None]
    return {
        **parts[0],
        "amountRaw": _add([one["amountRaw"] for one in parts]),
        "costLamports": show_raw(sum(costs)) if costs else None,
        "unknownBasisRaw": _add([one["unknownBasisRaw"] for one in parts]),
    }


def _add_books(parts: Sequence[Mapping[str, Json]]) -> Json:
    books = defaultdict(list)
    for mint, book in (item for part in parts for item in part.items()):
        books[mint].append(book)
    return {
        mint: {
            "reconciliation": _join_whole([one["reconciliation"] for one in found]),
            "positions": [one for book in found for one in book["positions"]],
        }
        for mint, found in sorted(books.items())
    }
