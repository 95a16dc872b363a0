"""Search for bots and paper traders by name and handle, tokens by ticker, name and address, posts
by their words, and wallets and transactions by address.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from accounts.fields import holds_secret
from accounts.problem import Problem
from chain.addresses import is_base58
from chain.stored.trades import LISTED_TRADE
from chain.symbols import mark_name, show_symbol
from storage import search as words
from storage.rows import read, select
from web.api import paging, v1
from web.api.paging import Args
from web.api.posts import read_posts_by_id
from web.api.serialize import Json, show_time
from web.api.shapes import Time, TypedDict, described
from web.api.trades import read_trades_by_id
from web.server.application import find_app

MAX_QUERY, MAX_OTHERS = 200, 10
WORD = re.compile(r"[^\W_]+")
END = 2**62

# Finds bots or paper traders.
NAMED = """
SELECT o.uid, o.name, o.handle, o.created_at FROM {table} o
WHERE o.handle LIKE ? ESCAPE '!' OR LOWER(o.name) LIKE ? ESCAPE '!'
ORDER BY CASE WHEN o.handle = ? OR LOWER(o.name) = ? THEN 0 WHEN o.handle LIKE ? ESCAPE '!' THEN 1
    ELSE 2 END, o.id LIMIT ?"""
BOTS_OF_ADDRESS = """
SELECT o.uid, o.name, o.handle, o.created_at FROM bot o WHERE o.id IN (
    SELECT a.bot_id FROM attachment a WHERE a.wallet_id IN (
        SELECT w.id FROM wallet w WHERE w.address = ? UNION
        SELECT d.wallet_id FROM address d WHERE d.address = ?)) ORDER BY o.id LIMIT ?"""
TOKENS = """
SELECT o.mint, o.symbol, o.name, o.discovered_at FROM token o
WHERE LOWER(o.symbol) LIKE ? ESCAPE '!' OR LOWER(o.name) LIKE ? ESCAPE '!'
ORDER BY CASE WHEN LOWER(o.symbol) = ? THEN 0 ELSE 1 END, o.id LIMIT ?"""
TOKEN = "SELECT o.mint, o.symbol, o.name, o.discovered_at FROM token o WHERE o.mint = ?"
MOVED = """
SELECT n.address AS mint, NULL AS symbol, NULL AS name FROM mint n WHERE n.address = ? AND EXISTS (
    SELECT 1 FROM trade_mint m WHERE m.mint_id = n.id)"""
TRADES = f"SELECT t.id FROM {LISTED_TRADE} WHERE s.signature = ? LIMIT ?"
POSTS_NAMING = """
SELECT p.id FROM post p WHERE p.signature = ? AND p.id < ? ORDER BY p.id DESC LIMIT ?"""


class SearchHit(TypedDict):
    """A bot, paper trader, token, trade or post that a query found."""

    kind: Literal["bot", "trader", "token", "trade", "post"]
    id: Annotated[
        str, described("ID of the bot, trader, token, trade or post; for a token, its mint address")
    ]
    title: Annotated[
        str | None, described("name, ticker, kind of trade, or name of the bot; untrusted")
    ]
    text: Annotated[str | None, described("the text of a post, or the name of a token; untrusted")]
    status: Annotated[str | None, described("for a post, as in Verification")]
    url: Annotated[str, described("its page")]
    createdAt: Time | None


class SearchSortKey(NamedTuple):
    """The start of a page of results: after this many results that aren't posts, and below this
    post's ID.
    """

    others: int
    post: int


class Found(NamedTuple):
    """The results that aren't posts, at most MAX_OTHERS of each kind."""

    bots: Sequence[Any] = ()
    traders: Sequence[Any] = ()
    tokens: Sequence[Any] = ()
    trades: Sequence[Any] = ()


# ---- the query -----------------------------------------------------------------------------------
def read_query(text: str) -> str:
    """Return a trimmed query. Raises Problem if it is too long or may be a secret."""
    query = unicodedata.normalize("NFC", text.replace("\0", " ")).strip()
    if len(query) > MAX_QUERY:
        raise Problem("invalid_parameter", f"q may have at most {MAX_QUERY} characters")
    if holds_secret(query):
        raise Problem("invalid_parameter", "q looks like a private key or recovery phrase")
    return query


def find_others(query: str) -> Found:
    if is_base58(query, 64):
        ids = sorted(select(int, TRADES, (query, MAX_OTHERS)))
        return Found(trades=list(read_trades_by_id(ids).values()))
    if is_base58(query, 32):
        bots = read(BOTS_OF_ADDRESS, (query, query, MAX_OTHERS))
        return Found(bots=bots, tokens=_find_token(query))
    name = query.lstrip("@$#").strip()
    if not name:
        return Found()
    return Found(_find_named("bot", name), _find_named("trader", name), _find_tokens(name))


def _find_named(table: str, name: str) -> list[Any]:
    exact = name.lower()
    # A handle has hyphens between a name's words.
    handle = exact.replace(" ", "-")
    values = (_inside(handle), _inside(exact), handle, exact, _escape(handle) + "%", MAX_OTHERS)
    return read(NAMED.format(table=table), values)


def _find_tokens(name: str) -> list[Any]:
    exact = name.lower()
    values = (_escape(exact) + "%", _inside(exact), exact, MAX_OTHERS)
    return [_show(one) for one in read(TOKENS, values)]


def _find_token(mint: str) -> list[Any]:
    """Return the token with this address, if the scout or an observed wallet has seen it."""
    return [_show(one) for one in read(TOKEN, (mint,)) or read(MOVED, (mint,))]


def _show(token: Any) -> Any:
    return token._replace(
        symbol=show_symbol(token.mint, token.symbol), name=mark_name(token.mint, token.name)
    )


def _escape(text: str) -> str:
    return re.sub("([!%_])", r"!\1", text)


def _inside(text: str) -> str:
    return f"%{_escape(text)}%"


def find_posts(query: str, limit: int, below: int = END) -> list[Any]:
    """Return posts that contain all words of the query or cite this transaction, newest first."""
    if is_base58(query, 64):
        ids = select(int, POSTS_NAMING, (query, below, limit))
    else:
        ids = words.find_post_ids(WORD.findall(query), below, limit)
    rows = read_posts_by_id(ids)
    return [rows[number] for number in ids if number in rows]


# ---- the API's list ------------------------------------------------------------------------------
@v1.cached_list("/search", SearchHit, "cursor", "q", required="q")
def search(args: Args) -> Json:
    """Search bots, paper traders, tokens, trades and posts. Bots by name, handle or wallet address;
    tokens by ticker, name or address; trades by signature; posts that contain all the words. Posts
    are listed last, newest first.
    """
    limit, query = paging.read_limit(args), read_query(args.get("q", ""))
    if not query:
        raise Problem("invalid_parameter", "q is required: a name, ticker, address or words")
    scope = ("search", query)
    start = paging.read_cursor(args, scope, SearchSortKey) or SearchSortKey(0, END)
    found = list(show_others(find_others(query)))
    others = found[start.others :][:limit]
    rows = find_posts(query, limit - len(others) + 1, start.post)
    posts, more = rows[: limit - len(others)], len(rows) > limit - len(others)
    place = SearchSortKey(start.others + len(others), posts[-1].id if posts else start.post)
    return v1.show_list(
        [*others, *map(show_post_hit, posts)],
        limit,
        paging.write_cursor(scope, place) if more or len(found) > place.others else None,
    )


def show_others(found: Found) -> Iterable[SearchHit]:
    for bot in found.bots:
        yield show_hit("bot", bot.uid, bot.name, f"/bots/{bot.uid}", bot.created_at)
    for trader in found.traders:
        yield show_hit("trader", trader.uid, trader.name, f"/traders/{trader.uid}")
    for token in found.tokens:
        yield show_hit("token", token.mint, token.symbol, f"/tokens/{token.mint}", text=token.name)
    for trade in found.trades:
        at = trade.block_time and trade.block_time * 1000
        yield show_hit("trade", trade.uid, trade.kind, f"/bots/{trade.bot}", at)


def show_post_hit(row: Any) -> SearchHit:
    text = None if row.hidden_at else row.body
    hit = show_hit("post", row.uid, row.bot_name, f"/posts/{row.uid}", row.created_at, text)
    return {**hit, "status": row.status}


def show_hit(
    kind: Literal["bot", "trader", "token", "trade", "post"],
    uid: str,
    title: str | None,
    path: str,
    at: int | None = None,
    text: str | None = None,
) -> SearchHit:
    return {
        "kind": kind,
        "id": uid,
        "title": title,
        "text": text,
        "status": None,
        "url": find_app().settings.base_url + path,
        "createdAt": show_time(at),
    }
