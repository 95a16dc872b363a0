"""What is read, as SQL that is executed once per answer: rows, no model instances. Portable to
PostgreSQL but for the `?`.

Whose a trade is, models.BOT_OF_TRADE decides. Lists are ordered by keys that never change: posts by
id, trades by (slot, place, id).
"""

import heapq
from operator import itemgetter
from typing import NamedTuple

from models import BOT_OF_TRADE
from storage import database

# Was the wallet that a post `p` is judged against proven while it was attached, as SQL.
POST_OWNERSHIP = """CASE WHEN p.wallet_id IS NULL THEN NULL WHEN EXISTS (
    SELECT 1 FROM attachment a WHERE a.bot_id = p.bot_id AND a.wallet_id = p.wallet_id AND a.ownership = 'proven'
    AND a.attached_at <= p.created_at AND (a.detached_at IS NULL OR a.detached_at >= p.created_at)
) THEN 'proven' ELSE 'claimed' END"""
POST = f"""
SELECT p.id, p.uid, b.uid, b.name, p.event_id, p.body, p.mint, COALESCE(p.symbol, s.symbol), p.signature, p.reason, p.source, p.status, t.uid, p.checked_at,
       p.status_reason, p.event_at, p.created_at, p.channel, k.uid, w.address, p.sanitized, p.hidden_at, t.token_changes,
       {POST_OWNERSHIP}
FROM post p JOIN bot b ON b.id = p.bot_id LEFT JOIN "key" k ON k.id = p.key_id LEFT JOIN wallet w ON w.id = p.wallet_id LEFT JOIN trade t ON t.id = p.trade_id
LEFT JOIN token s ON s.mint = p.mint
"""
POST_STATE = f"""
SELECT p.id, b.name, COALESCE(p.symbol, s.symbol), p.status, t.uid, p.checked_at, p.status_reason, p.event_at, p.hidden_at, t.token_changes,
       {POST_OWNERSHIP}
FROM post p JOIN bot b ON b.id = p.bot_id LEFT JOIN trade t ON t.id = p.trade_id LEFT JOIN token s ON s.mint = p.mint
"""
# the same columns of a row of POST
state_of_post = itemgetter(0, 3, 7, 11, 12, 13, 14, 15, 21, 22, 23)
TRADE_COLUMNS = """
SELECT t.slot, t.place, t.id, t.uid, b.uid, w.address, t.signature, t.tx_index, t.block_time, t.kind, t.venue, t.mint, t.token_changes, t.sol_change,
       t.fee, t.tip, t.rent, t.realized, t.result, t.proceeds, t.cost, t.matched_raw, t.unmatched_raw, t.lots, t.flags
"""
ITS_BOT = f"JOIN wallet w ON w.id = t.wallet_id JOIN bot b ON b.id = {BOT_OF_TRADE}"
TRADE = f"{TRADE_COLUMNS}FROM trade t {ITS_BOT}"
TRADE_OF_MINT = f"{TRADE_COLUMNS}FROM trade_mint m JOIN trade t ON t.id = m.trade_id {ITS_BOT}"
ACTIVITY = f"""
SELECT m.slot, m.place, m.trade_id, m.side, b.uid, b.name, w.address, t.token_changes, t.sol_change, t.block_time, t.signature, t.uid
FROM trade_mint m JOIN trade t ON t.id = m.trade_id {ITS_BOT}
"""
TRADERS_OF_MINT = """
SELECT COUNT(*) FROM wallet w WHERE EXISTS (SELECT 1 FROM trade_mint m WHERE m.mint = ? AND m.side = ? AND m.wallet_id = w.id)
"""
BOT = """
SELECT b.id, b.uid, b.handle, b.name, b.bio, b.voice, b.avatar_url, b.auto_post, b.created_at, b.retired_at, w.address, a.attached_at, a.ownership,
       w.results, w.coverage, w.positions, w.last_trade_at, (SELECT p.created_at FROM post p WHERE p.bot_id = b.id ORDER BY p.id DESC LIMIT 1), w.bot_since
FROM bot b LEFT JOIN attachment a ON a.bot_id = b.id AND a.detached_at IS NULL LEFT JOIN wallet w ON w.id = a.wallet_id
"""
COMPETITORS = """
SELECT b.id, b.uid, b.name, b.handle, w.id, w.address, w.results, w.coverage, a.ownership, w.bot_since
FROM bot b LEFT JOIN attachment a ON a.bot_id = b.id AND a.detached_at IS NULL LEFT JOIN wallet w ON w.id = a.wallet_id
WHERE b.retired_at IS NULL ORDER BY b.id
"""
RUNNING_TOTALS = """
SELECT h.wallet_id, h.realized, h.volume, h.trades, h.matched, h.partial, h.unmatched, h.winning
FROM attachment a JOIN hour_total h ON h.wallet_id = a.wallet_id AND h.hour = (SELECT MAX(l.hour) FROM hour_total l WHERE l.wallet_id = a.wallet_id AND l.hour < ?)
WHERE a.detached_at IS NULL
"""
TOTALS_BETWEEN = """
SELECT t.wallet_id, COALESCE(SUM(t.result), 0), COALESCE(SUM(CASE WHEN t.kind <> 'swap' THEN ABS(t.sol_change) END), 0), COUNT(*),
       COUNT(CASE WHEN t.realized = 'matched' THEN 1 END), COUNT(CASE WHEN t.realized = 'partial' THEN 1 END),
       COUNT(CASE WHEN t.realized = 'unmatched' AND t.flags NOT LIKE '%"incomplete_history"%' THEN 1 END), COUNT(CASE WHEN t.result > 0 THEN 1 END)
FROM trade t WHERE t.kind IN ('buy', 'sell', 'swap') AND t.block_time >= ? AND t.block_time < ? GROUP BY t.wallet_id
"""
NO_TOTALS, END_OF_TIME = (0,) * 7, 2**31
# A place (slot, place, id) above every trade's, so that a first page is searched for as all others
# are.
ABOVE_ALL = (2**62,) * 3
HOURS = """
SELECT h.hour, h.realized, h.volume, h.trades, h.matched + h.partial FROM hour_total h
WHERE h.wallet_id = (SELECT id FROM wallet WHERE address = ?) ORDER BY h.hour
"""


def _all(sql, values=()):
    return database.execute_sql(sql, values).fetchall()


def _one(sql, values=()):
    return database.execute_sql(sql, values).fetchone()


def _select(head, conditions, tail):
    """`conditions`: (sql, values...) or None each; the statement and its values."""
    given = [condition for condition in conditions if condition]
    where = " WHERE " + " AND ".join(sql for sql, *_ in given) if given else ""
    return f"{head}{where} {tail}", [value for _, *values in given for value in values]


def _marks(values):
    return ", ".join("?" * len(values)) or "NULL"


# ---- posts ---------------------------------------------------------------------------------------
def list_posts(limit, before=None, bot=None, mint=None, source=None):
    """Newest first; `before`: the id they must be below. `bot`: its uid."""
    sql, values = _select(
        POST,
        [("p.id < ?", before) if before else None, *_post_filters(bot, mint, source)],
        "ORDER BY p.id DESC LIMIT ?",
    )
    return _all(sql, [*values, limit])


def list_post_states(limit, before):
    """(id, ...all that can change of what a post shows), newest first, below the id `before`: half
    of what reading the posts takes.
    """
    return _all(f"{POST_STATE}WHERE p.id < ? ORDER BY p.id DESC LIMIT ?", (before, limit))


def _post_filters(bot, mint, source):
    return (
        ("p.bot_id = (SELECT id FROM bot WHERE uid = ?)", bot) if bot else None,
        ("p.mint = ?", mint) if mint else None,
        ("p.source = ?", source) if source else None,
    )


def find_post(uid):
    return _one(POST + "WHERE p.uid = ?", (uid,))


def find_last_id(table):
    """The highest id of `post` or `paper_post`."""
    return _one(f"SELECT COALESCE(MAX(id), 0) FROM {table}")[0]


def find_posts(ids):
    """{id: row}"""
    return (
        {row[0]: row for row in _all(f"{POST} WHERE p.id IN ({_marks(ids)})", ids)} if ids else {}
    )


# ---- trades --------------------------------------------------------------------------------------
def list_trades(limit, before=None, up_to=None, shares=None, mint=None):
    """Newest first. `before`: the (slot, place, id) they must be below; `up_to`: an id none may be
    above; `shares`: of wallets, None for all.

    (`+t.id` keeps SQLite from walking by id and sorting.)
    """
    if shares is None:
        return _list_trades(limit, before, up_to, None, mint)
    # Each by its index; a bot has few wallets.
    lists = [_list_trades(limit, before, up_to, share, mint) for share in shares]
    return list(heapq.merge(*lists, key=itemgetter(0, 1, 2), reverse=True))[:limit]


def _list_trades(limit, before, up_to, share, mint):
    head, key = (
        (TRADE_OF_MINT, "m.slot, m.place, m.trade_id") if mint else (TRADE, "t.slot, t.place, t.id")
    )
    sql, values = _select(
        head,
        [
            ("m.mint = ?", mint) if mint else None,
            (f"{key[0]}.wallet_id = ?", share.wallet_id) if share else None,
            *_of_share(share, "t.id"),
            (f"({key}) < (?, ?, ?)", *(before or ABOVE_ALL)),
            ("+t.id <= ?", up_to) if up_to is not None else None,
        ],
        "ORDER BY " + ", ".join(f"{column} DESC" for column in key.split(", ")) + " LIMIT ?",
    )
    return _all(sql, [*values, limit])


def find_trades(ids):
    """{id: row}"""
    return (
        {row[2]: row for row in _all(f"{TRADE} WHERE t.id IN ({_marks(ids)})", ids)} if ids else {}
    )


class Share(NamedTuple):
    """What a list of trades takes from a wallet: all of it, or what a bot has a claim to.

    `begins`, `ends`: ms, or None. It begins with its first block time, and ends before its last.
    """

    wallet_id: int
    coverage: str | None
    begins: int | None
    ends: int | None


SHARE_OF_BOT = """
SELECT w.id, w.coverage, CASE WHEN w.bot_id = b.id THEN w.bot_since END,
       CASE WHEN w.prover_id = b.id THEN w.bot_since END
FROM bot b JOIN wallet w ON w.bot_id = b.id OR w.prover_id = b.id
"""


def find_wallets(address=None, bot=None):
    """[Share, ...] of the wallet of this address and the wallets with trades of this bot (its uid)."""
    head = SHARE_OF_BOT if bot else "SELECT w.id, w.coverage, NULL, NULL FROM wallet w"
    sql, values = _select(
        head,
        [("b.uid = ?", bot) if bot else None, ("w.address = ?", address) if address else None],
        "ORDER BY w.id",
    )
    return [Share(*row) for row in _all(sql, values)]


def _of_share(share, trade):
    """Conditions, as _select takes them. `trade`: the SQL of a trade's id. See BOT_OF_TRADE."""
    time = f"(SELECT s.block_time * 1000 FROM trade s WHERE s.id = {trade})"
    return (
        (f"{time} >= ?", share.begins) if share and share.begins is not None else None,
        (f"COALESCE({time}, 0) < ?", share.ends) if share and share.ends is not None else None,
    )


def find_origins(uids):
    """{trade uid: (block time, signature)}: the purchases that sales were matched with."""
    return {
        uid: row
        for uid, *row in _all(
            f"SELECT uid, block_time, signature FROM trade WHERE uid IN ({_marks(uids)})", uids
        )
    }


def list_days(address):
    """[(days since 1970, realised, volume, trades, sells with a result), ...] of a wallet, in
    order; lamports and counts.
    """
    ends, days, before = (
        {hour // 24: totals for hour, *totals in _all(HOURS, (address,))},
        [],
        (0, 0, 0, 0),
    )
    for day, totals in ends.items():
        days.append((day, *(total - old for total, old in zip(totals, before))))
        before = totals
    return [row for row in days if row[3]]


def list_activity(mint, limit, before=None):
    """Buys, sells and swaps of a token, newest first."""
    sql, values = _select(
        ACTIVITY,
        [
            ("m.mint = ? AND m.side IS NOT NULL", mint),
            ("(m.slot, m.place, m.trade_id) < (?, ?, ?)", *before) if before else None,
        ],
        "ORDER BY m.slot DESC, m.place DESC, m.trade_id DESC LIMIT ?",
    )
    return _all(sql, [*values, limit])


def count_sides(mint):
    """{"buy": wallets that bought it, "sell": wallets that sold it}."""
    return {side: _one(TRADERS_OF_MINT, (mint, side))[0] for side in ("buy", "sell")}


def count_tracked():
    return _one("SELECT COUNT(*) FROM attachment WHERE detached_at IS NULL")[0]


# ---- what arrived, in order ----------------------------------------------------------------------
def find_newest(table):
    """The highest id of `post`, `paper_post` or `arrival`: all there is is at or below it."""
    return _one(f"SELECT COALESCE(MAX(id), 0) FROM {table}")[0]


def find_head():
    """The highest ids of (arrival, post, trade) at one moment: everything that arrived so far is at
    or below them.
    """
    return _one(
        "SELECT (SELECT COALESCE(MAX(id), 0) FROM arrival), (SELECT COALESCE(MAX(id), 0) FROM"
        " post), (SELECT COALESCE(MAX(id), 0) FROM trade)"
    )


def find_newest_ids():
    """(influencer, post, paper trader, mint): the public ids of the newest there is, None where
    there is none.
    """
    newest = "(SELECT {0} FROM {1} WHERE id = (SELECT MAX(id) FROM {1}))".format
    return _one(
        f"SELECT {newest('uid', 'bot')}, {newest('uid', 'post')}, {newest('uid', 'trader')},"
        f" {newest('mint', 'trade_mint')}"
    )


def find_post_arrival(uid):
    """The arrival of this post, or None."""
    row = _one(
        "SELECT r.id FROM arrival r WHERE r.post_id = (SELECT id FROM post WHERE uid = ?) AND"
        " r.kind = 'post'",
        (uid,),
    )
    return row and row[0]


def find_trade_arrival(uid):
    row = _one(
        "SELECT r.id FROM arrival r WHERE r.trade_id = (SELECT id FROM trade WHERE uid = ?)", (uid,)
    )
    return row and row[0]


def find_working_keys(ids, now):
    """{id, ...} of the keys among these that are neither revoked nor expired."""
    return {
        row[0]
        for row in _all(
            f'SELECT id FROM "key" WHERE id IN ({_marks(ids)}) AND revoked_at IS NULL AND'
            " (expires_at IS NULL OR expires_at > ?)",
            [*ids, now],
        )
    }


def list_arrivals(limit, after):
    """[(arrival, kind, post id or None, trade id or None), ...] after this one."""
    return _all(
        "SELECT id, kind, post_id, trade_id FROM arrival WHERE id > ? ORDER BY id LIMIT ?",
        (after, limit),
    )


def list_posts_since(limit, after):
    """[(arrival, post row), ...] after this arrival."""
    arrived = _all(
        "SELECT id, post_id FROM arrival WHERE kind = 'post' AND id > ? ORDER BY id LIMIT ?",
        (after, limit),
    )
    rows = find_posts([post for _, post in arrived])
    return [(arrival, rows[post]) for arrival, post in arrived]


def list_trades_since(limit, after, shares=None, mint=None):
    """[(arrival, trade row), ...] after this arrival, in order of arrival: as quick whatever the
    filter and however far back.

    The trades that are there were numbered in the order in which they arrived, so one look-up turns
    the arrival into a trade's id, above which each filter has an index. What is told and kept is
    always the number of the arrival.
    """
    last = _one(LAST_TRADE, (after,))
    lists = [
        _list_arrived(limit, last[0] if last else 0, share, mint)
        for share in (shares if shares is not None else (None,))
    ]
    arrived = list(heapq.merge(*lists))[:limit]
    rows = find_trades([trade for _, trade in arrived])
    return [(arrival, rows[trade]) for arrival, trade in arrived if trade in rows]


# The newest trade that had arrived by then and that no refold took back.
LAST_TRADE = (
    "SELECT trade_id FROM arrival WHERE trade_id IS NOT NULL AND id <= ? ORDER BY id DESC LIMIT 1"
)


def _list_arrived(limit, last, share, mint):
    """[(arrival, trade id), ...] of trades numbered above `last`."""
    table, column = ("trade_mint", "trade_id") if mint else ("trade", "id")
    sql, values = _select(
        f"SELECT r.id, t.{column} FROM {table} t CROSS JOIN arrival r",
        [
            (f"r.trade_id = t.{column} AND t.{column} > ?", last),
            ("t.mint = ?", mint) if mint else None,
            ("t.wallet_id = ?", share.wallet_id) if share else None,
            *_of_share(share, f"t.{column}"),
        ],
        f"ORDER BY t.{column} LIMIT ?",
    )
    return _all(sql, [*values, limit])


# ---- influencers ---------------------------------------------------------------------------------
def list_bots(limit, before=None):
    """Newest first; `before`: the id they must be below."""
    sql, values = _select(
        BOT, [("b.id < ?", before) if before else None], "ORDER BY b.id DESC LIMIT ?"
    )
    return _all(sql, [*values, limit])


def find_bot(uid):
    return _one(BOT + "WHERE b.uid = ?", (uid,))


def is_owner(owner_id, bot):
    return _one("SELECT 1 FROM bot WHERE uid = ? AND owner_id = ?", (bot, owner_id)) is not None


def list_former_wallets(bot_ids):
    """{bot id: [address...]} of wallets held before, in order."""
    held = {}
    for bot_id, address in _all(
        "SELECT a.bot_id, w.address FROM attachment a JOIN wallet w ON w.id = a.wallet_id "
        f"WHERE a.detached_at IS NOT NULL AND a.bot_id IN ({_marks(bot_ids)}) ORDER BY a.id",
        bot_ids,
    ):
        held.setdefault(bot_id, []).append(address)
    return held


def list_competitors():
    """All influencers that are not retired, the oldest first."""
    return _all(COMPETITORS)


def find_totals_since(block_time):
    """{wallet id: (realized, volume, trades, matched, partial, unmatched, winning)} of what
    happened since this Unix second, for wallets held now.

    Running totals of now, less those at the full hour that is nearest, and what lies between: no
    more than half an hour's trades are added up.
    """
    hour = (block_time + 1_800) // 3_600
    first, end = sorted((block_time, hour * 3_600))
    now, before, between = (
        _find_running(END_OF_TIME),
        _find_running(hour),
        _find_rows(TOTALS_BETWEEN, (first, end)),
    )
    sign = 1 if first == block_time else -1
    return {
        wallet: tuple(
            total - old + sign * part
            for total, old, part in zip(
                totals, before.get(wallet, NO_TOTALS), between.get(wallet, NO_TOTALS)
            )
        )
        for wallet, totals in now.items()
    }


def _find_running(hour):
    """{wallet id: totals} at the end of the last hour before this one."""
    return _find_rows(RUNNING_TOTALS, (hour,))


def _find_rows(sql, values):
    return {key: row for key, *row in _all(sql, values)}
