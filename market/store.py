"""Read and write the market: list tokens that are due, store responses, and delete expired rows.

Every write is one short transaction, whose statements are built before it begins.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from peewee import fn

import storage
from chain.addresses import WRAPPED_SOL
from chain.amounts import read_scale
from chain.mints import NotAMint, check_mint, parse_mint
from chain.stored.tables import Mint, TradeMint
from market.providers import ADDRESSES_PER_CALL, MAX_NAME, MAX_SYMBOL, Quote, parse_text
from market.rules import (
    DAY_MS,
    MINUTE_MS,
    Fall,
    FallCheck,
    choose_dropped,
    find_fall,
    keep_until,
    mark_absurd,
)
from market.tables import QuoteColumns, Snapshot, Token
from models import Base, Post
from storage.rows import read

MAX_TRACKED = 1000
# Maximum number of held tokens priced per short pass (ten calls).
MAX_HELD = 10 * ADDRESSES_PER_CALL
MAX_MOVED_ROWS = 500
# Maximum number of mint accounts read per tick.
MAX_UNCHECKED = 500
# Read a mint account again after this long.
RECHECK_MS = 10 * MINUTE_MS
# Characters of a pair's address that each snapshot keeps. 70 bits are enough to distinguish pairs.
PAIR_LENGTH = 12
NO_CHECKS: Mapping[str, FallCheck] = {}
# Columns of both tokens and snapshots that are copied from a quote.
SHARED = [name for name in QuoteColumns._meta.fields if name in Quote.__dataclass_fields__]
# Up to 10,000 rows are deleted in a tick, with pauses for other writers.
PRUNE_ROWS, PRUNE_CHUNKS, PRUNE_PAUSE_SECONDS = 200, 50, 0.01


# Tokens that observed wallets moved. `side` is buy, sell or null; `block_time`: seconds.
MOVED = """
SELECT m.id, n.address AS mint, m.side, t.block_time
FROM trade_mint m JOIN trade t ON t.id = m.trade_id JOIN mint n ON n.id = m.mint_id
WHERE m.id > ? ORDER BY m.id LIMIT ?"""


def list_unpriced(now_ms: int) -> list[str]:
    """Return the mints to price.

    All tracked mints come first, least recently priced first. Some mints without a symbol follow,
    each up to once a day.
    """
    tracked = (
        Token.select(Token.mint)
        .where(Token.tracked_at.is_null(False))
        .order_by(Token.asked_at, Token.id)
    )
    nameless = Token.select(Token.mint).where(
        Token.tracked_at.is_null(), Token.symbol.is_null(), Token.asked_at < now_ms - DAY_MS
    )
    nameless = nameless.order_by(Token.asked_at, Token.id).limit(ADDRESSES_PER_CALL)
    return [token.mint for token in (*tracked, *nameless)]


def list_held() -> list[str]:
    """List the mints that paper mode holds or has ordered, least recently priced first."""
    held = Token.select(Token.mint).where(Token.held).order_by(Token.asked_at, Token.id)
    return [token.mint for token in held.limit(MAX_HELD)]


def list_unchecked(now_ms: int) -> list[Token]:
    """Return the tokens whose mint account should be read, tracked ones first.

    An account is due if it was never read, or if the token is tracked and the account was last read
    more than RECHECK_MS ago.
    """
    again = Token.tracked_at.is_null(False) & (Token.checked_at < now_ms - RECHECK_MS)
    order = Token.tracked_at.is_null(), fn.COALESCE(Token.checked_at, 0), Token.id
    return list(
        Token.select()
        .where(Token.checked_at.is_null() | again)
        .order_by(*order)
        .limit(MAX_UNCHECKED)
    )


def list_moved(after: int) -> list[Any]:
    return read(MOVED, (after, MAX_MOVED_ROWS))


def list_expired(now_ms: int) -> list[int]:
    return [
        row.id
        for row in Snapshot.select(Snapshot.id)
        .where(Snapshot.expires_at < now_ms)
        .order_by(Snapshot.expires_at)
        .limit(PRUNE_ROWS)
    ]


def list_forgettable() -> list[int]:
    """Return the IDs of up to PRUNE_ROWS untracked discoveries that no row refers to."""
    moved = TradeMint.mint == Mint.select(Mint.id).where(Mint.address == Token.mint)
    named = [
        fn.EXISTS(model.select(model.id).where(condition))
        for model, condition in (
            (Snapshot, Snapshot.token == Token.id),
            (TradeMint, moved),
            (Post, Post.mint == Token.mint),
        )
    ]
    tokens = Token.select(Token.id).where(
        Token.tracked_at.is_null(),
        Token.found_by.is_null(False),
        ~Token.held,
        *(~one for one in named),
    )
    return [token.id for token in tokens.limit(PRUNE_ROWS)]


class Statement(NamedTuple):
    sql: str
    values: Sequence[Any]


def write(
    statements: Iterable[Statement],
    model: type[Base] = Token,
    rows: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Execute statements, then insert rows of a model, in one short transaction.

    The SQL is built before the transaction begins, to hold the lock only briefly.
    """
    made = list(statements)
    if made or rows:
        with storage.writing():
            for sql, values in made:
                storage.database.execute_sql(sql, values)
            storage.write_rows(model, rows)


def _change(token: Token, columns: Mapping[str, Any]) -> Statement:
    """Plain SQL, because a pass updates a thousand tokens, and peewee takes longer to build it."""
    assignments = ", ".join(f"{name} = ?" for name in columns)
    return Statement(f"UPDATE token SET {assignments} WHERE id = ?", (*columns.values(), token.id))


def find_tokens(addresses: Iterable[str]) -> dict[str, Token]:
    return {
        token.mint: token
        for part in storage.in_parts(addresses)
        for token in Token.select().where(Token.mint.in_(part))
    }


def store_discoveries(
    found: Mapping[str, tuple[str | None, str | None]], found_by: str, now_ms: int
) -> None:
    """Track these mints, given as {mint: (symbol, name)}.

    A dropped mint is tracked again, and keeps the time and source of its first discovery.
    """
    known = find_tokens(found)
    fresh = [
        {
            "mint": mint,
            "symbol": symbol,
            "name": name,
            "found_by": found_by,
            "discovered_at": now_ms,
            "tracked_at": now_ms,
        }
        for mint, (symbol, name) in found.items()
        if mint not in known and mint != WRAPPED_SOL
    ]
    back = [
        _change(
            token,
            {
                "tracked_at": now_ms,
                "found_by": token.found_by or found_by,
                "discovered_at": token.discovered_at or now_ms,
            },
        )
        for token in known.values()
        if token.tracked_at is None
    ]
    write(back, Token, fresh)


def store_moved(addresses: Collection[str]) -> None:
    """Insert unknown tokens. They aren't tracked, but their names will be looked up."""
    known = find_tokens(addresses)
    fresh = [{"mint": mint} for mint in addresses if mint not in known and mint != WRAPPED_SOL]
    write((), Token, fresh)


def find_falls(quotes: Mapping[str, Quote]) -> list[Fall]:
    """Return falls of held or ordered tokens. Call this before storing the quotes."""
    held = Token.select(Token.mint, Token.price_sol, Token.pair).where(
        Token.held, Token.mint.in_(list(quotes))
    )
    found = (find_fall(quotes[token.mint], token) for token in held)
    return [fall for fall in found if fall]


def store_quotes(
    quotes: Mapping[str, Quote],
    asked: Iterable[str],
    taken_at: int,
    checks: Mapping[str, FallCheck] = NO_CHECKS,
) -> None:
    """Store the latest quotes of known tokens in one transaction.

    It also stores a snapshot of each tracked token, and the query time of the mints in `asked`.
    `checks` contains a second provider's view of falls, by mint.
    """
    tokens = find_tokens(quotes)
    quoted = [
        (tokens[mint], quote, mark_absurd(quote, tokens[mint]))
        for mint, quote in quotes.items()
        if mint in tokens
    ]
    snapshots = [
        {
            "token": token.id,
            "taken_at": taken_at,
            "expires_at": keep_until(taken_at, token.quoted_at, token.tracked_at),
            **{name: getattr(quote, name) for name in SHARED},
            "absurd": absurd,
            "pair": quote.pair and quote.pair[:PAIR_LENGTH],
            "fall_check": _show_check(checks.get(token.mint)),
        }
        for token, quote, absurd in quoted
        if token.tracked_at is not None
    ]
    renewed = [_renew(token, quote, absurd, taken_at) for token, quote, absurd in quoted]
    noted = [
        Statement(
            f"UPDATE token SET asked_at = ? WHERE mint IN ({storage.mark(part)})", (taken_at, *part)
        )
        for part in storage.in_parts(asked)
    ]
    write([*renewed, *noted], Snapshot, snapshots)


class SeenReserves(NamedTuple):
    """A pool after a transaction. SOL is exact decimal text. `reserves` is as in its column."""

    mint: str
    decimals: int
    price_sol: str
    pool_sol: str
    venue: str | None
    reserves: str


def store_reserves(found: Iterable[SeenReserves], taken_at: int) -> None:
    """Store a snapshot of each of these pools whose token is known, in the caller's transaction."""
    for one in found:
        token = Token.get(Token.mint == one.mint)
        if token.decimals is None:
            Token.update(decimals=one.decimals).where(Token.id == token.id).execute()
        Snapshot.create(
            token=token,
            taken_at=taken_at,
            expires_at=keep_until(taken_at, None, taken_at),
            source="wallets",
            price_sol=one.price_sol,
            pool_sol=one.pool_sol,
            venue=one.venue,
            reserves=one.reserves,
        )


def _show_check(check: FallCheck | None) -> str | None:
    return orjson.dumps(check._asdict()).decode() if check else None


def _renew(token: Token, quote: Quote, absurd: str | None, taken_at: int) -> Statement:
    """Update a token's columns from a quote. A missing symbol or name keeps the known one."""
    names = {"symbol": quote.symbol or token.symbol, "name": quote.name or token.name}
    columns = {**vars(quote), **names, "absurd": absurd, "quoted_at": taken_at}
    # The mint never changes, but SQLite would rewrite its indexes.
    del columns["mint"]
    return _change(token, columns)


def store_checks(
    tokens: Sequence[Token], accounts: Sequence[dict[str, Any] | None], now_ms: int
) -> None:
    """Store the permissions and names from the mint accounts of `tokens`.

    Each account is the node's value, or None if the node doesn't know it.
    """
    judged = [
        (token, orjson.dumps(check_mint(account, now_ms)).decode(), *_read_account(account))
        for token, account in zip(tokens, accounts, strict=True)
    ]
    write(
        _change(
            token,
            {
                "checks": checks,
                "checked_at": now_ms,
                "decimals": token.decimals if decimals is None else decimals,
                "symbol": token.symbol or symbol,
                "name": token.name or name,
                # Keep a known fee if it can't be read this time.
                "transfer_fee_bps": token.transfer_fee_bps if fee is None else fee,
                "scale": token.scale if decimals is None else scale,
            },
        )
        for token, checks, decimals, symbol, name, fee, scale in judged
    )


def _read_account(
    account: dict[str, Any] | None,
) -> tuple[int | None, str | None, str | None, int | None, str | None]:
    """Return a mint account's decimals, symbol, name, transfer fee (basis points) and scale.

    Unknown values are None. If it isn't a mint account, all are None.
    """
    try:
        mint = parse_mint(account or {})
    except NotAMint:
        return None, None, None, None, None
    symbol, name = mint.metadata
    shown = parse_text(symbol, MAX_SYMBOL), parse_text(name, MAX_NAME)
    scale = read_scale(mint.extensions)
    return mint.decimals, *shown, mint.transfer_fee_bps, scale and scale.dump()


def store_dropped(now_ms: int) -> None:
    """Stop tracking the tokens beyond MAX_TRACKED (market.rules.choose_dropped)."""
    columns = Token.id, Token.held, Token.tracked_at, Token.volume24h_usd
    tracked = Token.select(*columns).where(Token.tracked_at.is_null(False))
    dropped = [token.id for token in choose_dropped(tracked, now_ms, MAX_TRACKED)]
    write(
        Statement(f"UPDATE token SET tracked_at = NULL WHERE id IN ({storage.mark(part)})", part)
        for part in storage.in_parts(dropped)
    )


def pin_snapshots(ids: Iterable[int]) -> None:
    """Keep these snapshots forever. The caller begins the transaction."""
    for part in storage.in_parts(ids):
        Snapshot.update(expires_at=None).where(Snapshot.id.in_(part)).execute()


def replace_held(mints: Iterable[str]) -> None:
    """Mark exactly these mints as held, in the caller's transaction.

    Paper mode has an open position or order in them, so they stay tracked regardless of volume.
    """
    wanted = set(mints)
    held = {token.mint for token in Token.select(Token.mint).where(Token.held)}
    for part in storage.in_parts(sorted(held - wanted)):
        Token.update(held=False).where(Token.mint.in_(part)).execute()
    for part in storage.in_parts(sorted(wanted - held)):
        Token.update(held=True).where(Token.mint.in_(part)).execute()


def prune(now_ms: int) -> None:
    """Delete expired rows in chunks, so that other writers don't wait long."""
    for _ in range(PRUNE_CHUNKS):
        expired = list_expired(now_ms)
        if not expired:
            break
        # A snapshot may have been pinned since then.
        named = f"DELETE FROM snapshot WHERE id IN ({storage.mark(expired)}) AND expires_at < ?"
        write([Statement(named, (*expired, now_ms))])
        time.sleep(PRUNE_PAUSE_SECONDS)
    forgettable = list_forgettable()
    if forgettable:
        named = f"DELETE FROM token WHERE id IN ({storage.mark(forgettable)})"
        write([Statement(named, forgettable)])
