"""The shared scout: asks DexScreener and GeckoTerminal what is being discovered and what it costs,
and the node what its mints allow.

It alone asks; everybody else reads the cache it leaves in the tables Token and Snapshot. Every
question happens outside a transaction, every answer is one short write, and an answer that cannot
be used changes nothing but what health says.

A thousand tracked tokens are 34 calls of tokens/v1 a pass. What a limit does not allow is left to
the next pass, longest unasked first.
"""

import time
from dataclasses import dataclass
from decimal import Decimal

import orjson
from peewee import fn

import storage
from chain.mints import NotAMint, check_mint, parse_mint
from chain.rpc import RpcError
from market.providers import (
    ADDRESSES_PER_CALL,
    MAX_NAME,
    MAX_SYMBOL,
    WRAPPED_SOL,
    Pace,
    ProviderError,
    RowCount,
    fetch_json,
    open_session,
    parse_list,
    parse_pairs,
    parse_pools,
    parse_text,
)
from market.tables import Snapshot, Token
from models import Job, Post, Trade, TradeMint

TRACKED_TOKENS = 1000
# getMultipleAccounts
ACCOUNTS_PER_CALL, CALLS_PER_TICK = 100, 5
ROWS_PER_WRITE = 500
# between neighbouring quotes; further is marked absurd
JUMP = 20

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
# a discovery stays tracked so long whatever its volume
PROBATION = 15 * MINUTE
# a mint account is read again after it
RECHECK = 10 * MINUTE
# 10,000 rows a tick, and seconds for other writers in between
PRUNE_ROWS, PRUNE_CHUNKS, PRUNE_PAUSE = (
    200,
    50,
    0.01,
)


# ---- deciding ------------------------------------------------------------------------------------
def mark_absurd(quote, before):
    """Why not to believe the price: `not_positive`, `jump` or None. It is passed on as it came;
    judging it is the reader's.

    `before`: the token's row with the prices it had.
    """
    prices = [
        (Decimal(now), Decimal(then or 0))
        for now, then in ((quote.price_usd, before.price_usd), (quote.price_sol, before.price_sol))
        if now
    ]
    if any(now <= 0 for now, _ in prices):
        return "not_positive"
    return (
        "jump"
        if any(then > 0 and not then / JUMP <= now <= then * JUMP for now, then in prices)
        else None
    )


def keep_until(taken_at, before, tracked_at):
    """When a snapshot expires: the first of an hour after 30 days, the first of five minutes after
    one, any other after two hours.

    A token on probation leaves no long history behind: most discoveries do not outlive it.
    `before`: when its last quote was taken, or None.
    """

    def first_of(span):
        return before is None or before // span != taken_at // span

    if taken_at - tracked_at < PROBATION:
        return taken_at + 2 * HOUR
    return taken_at + (30 * DAY if first_of(HOUR) else DAY if first_of(5 * MINUTE) else 2 * HOUR)


def choose_dropped(tokens, now_ms, most):
    """Of the tracked tokens those that must go for `most` to stay: held ones stay, then those on
    probation, then the busiest.
    """

    def worth(token):
        return (
            token.held,
            now_ms - token.tracked_at < PROBATION,
            Decimal(token.volume24h_usd or 0),
            token.id,
        )

    return [token for token in sorted(tokens, key=worth, reverse=True)[most:] if not token.held]


# ---- what is due ---------------------------------------------------------------------------------
def list_unpriced(now_ms):
    """The mints to ask prices for: all tracked ones, longest unasked first, and a few that lack a
    symbol, each at most once a day.
    """
    tracked = (
        Token.select(Token.mint)
        .where(Token.tracked_at.is_null(False))
        .order_by(Token.asked_at, Token.id)
    )
    nameless = Token.select(Token.mint).where(
        Token.tracked_at.is_null(), Token.symbol.is_null(), Token.asked_at < now_ms - DAY
    )
    return [
        token.mint
        for token in (
            *tracked,
            *nameless.order_by(Token.asked_at, Token.id).limit(ADDRESSES_PER_CALL),
        )
    ]


def list_unchecked(now_ms):
    """The tokens whose mint account is to be read: never read, or tracked and read too long ago;
    tracked ones first.
    """
    again = Token.tracked_at.is_null(False) & (Token.checked_at < now_ms - RECHECK)
    order = Token.tracked_at.is_null(), fn.COALESCE(Token.checked_at, 0), Token.id
    return list(
        Token.select()
        .where(Token.checked_at.is_null() | again)
        .order_by(*order)
        .limit(CALLS_PER_TICK * ACCOUNTS_PER_CALL)
    )


def list_moved(after, most=ROWS_PER_WRITE):
    """What observed wallets moved, in order of arrival: [(id, mint, side, block_time)]."""
    return list(
        TradeMint.select(TradeMint.id, TradeMint.mint, TradeMint.side, Trade.block_time)
        .join(Trade)
        .where(TradeMint.id > after)
        .order_by(TradeMint.id)
        .limit(most)
        .tuples()
    )


def list_expired(now_ms):
    """Ids of snapshots whose time is over, PRUNE_ROWS at most."""
    return [
        row.id
        for row in Snapshot.select(Snapshot.id)
        .where(Snapshot.expires_at < now_ms)
        .order_by(Snapshot.expires_at)
        .limit(PRUNE_ROWS)
    ]


def list_forgettable():
    """Ids of discovered tokens that are tracked no more and that no snapshot, trade or post names,
    PRUNE_ROWS at most.
    """
    named = [
        fn.EXISTS(model.select(model.id).where(condition))
        for model, condition in (
            (Snapshot, Snapshot.token == Token.id),
            (TradeMint, TradeMint.mint == Token.mint),
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


# ---- storing -------------------------------------------------------------------------------------
def write(statements):
    """One short transaction. The statements are compiled before it, so that the lock is held for
    the writing alone.
    """
    compiled = [statement.sql() for statement in statements]
    if compiled:
        with storage.writing():
            for sql, values in compiled:
                storage.database.execute_sql(sql, values)


def _insert(model, rows):
    """Statements that insert rows of equal shape."""
    return [model.insert_many(part) for part in storage.in_parts(rows)]


def find_tokens(addresses):
    """{mint: Token} of those that are known."""
    return {
        token.mint: token
        for part in storage.in_parts(addresses)
        for token in Token.select().where(Token.mint.in_(part))
    }


def store_discoveries(found, found_by, now_ms):
    """Track these mints, {mint: (symbol, name)}. One that was dropped is tracked anew; its first
    discovery stays its discovery.
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
        Token.update(
            tracked_at=now_ms,
            found_by=token.found_by or found_by,
            discovered_at=token.discovered_at or now_ms,
        ).where(Token.id == token.id)
        for token in known.values()
        if token.tracked_at is None
    ]
    write([*_insert(Token, fresh), *back])


def store_moved(addresses):
    """Tokens that observed wallets moved and nobody discovered: rows that wait for a name."""
    known = find_tokens(addresses)
    fresh = [{"mint": mint} for mint in addresses if mint not in known and mint != WRAPPED_SOL]
    write(_insert(Token, fresh))


def store_quotes(quotes, asked, taken_at):
    """Last quotes of known tokens, {mint: Quote}, a snapshot of each tracked one, and that the
    mints `asked` were asked about. One short write.
    """
    tokens = find_tokens(quotes)
    told = [
        (tokens[mint], quote, _columns(quote, tokens[mint]))
        for mint, quote in quotes.items()
        if mint in tokens
    ]
    snapshots = [
        {
            "token": token,
            "taken_at": taken_at,
            "expires_at": keep_until(taken_at, token.quoted_at, token.tracked_at),
            **columns,
        }
        for token, _, columns in told
        if token.tracked_at is not None
    ]
    renewed = [
        Token.update(
            symbol=quote.symbol or token.symbol,
            name=quote.name or token.name,
            quoted_at=taken_at,
            pair_url=quote.pair_url,
            pair_created_at=quote.pair_created_at,
            **columns,
        ).where(Token.id == token.id)
        for token, quote, columns in told
    ]
    write(
        [
            *renewed,
            *_insert(Snapshot, snapshots),
            *(
                Token.update(asked_at=taken_at).where(Token.mint.in_(part))
                for part in storage.in_parts(asked)
            ),
        ]
    )


def _columns(quote, before):
    return {
        "source": quote.source,
        "price_sol": quote.price_sol,
        "price_usd": quote.price_usd,
        "liquidity_usd": quote.liquidity_usd,
        "pool_sol": quote.pool_sol,
        "volume24h_usd": quote.volume24h_usd,
        "absurd": mark_absurd(quote, before),
    }


def store_checks(tokens, accounts, now_ms):
    """What the mint accounts of `tokens` allow, and the names they give; each account is the node's
    value or None.
    """
    judged = [
        (token, orjson.dumps(check_mint(account, now_ms)).decode(), *_told_by(account))
        for token, account in zip(tokens, accounts)
    ]
    write(
        [
            Token.update(
                checks=checks,
                checked_at=now_ms,
                decimals=token.decimals if decimals is None else decimals,
                symbol=token.symbol or symbol,
                name=token.name or name,
            ).where(Token.id == token.id)
            for token, checks, decimals, symbol, name in judged
        ]
    )


def _told_by(account):
    """(decimals, symbol, name) out of a mint account."""
    try:
        mint = parse_mint(account or {})
    except NotAMint:
        return None, None, None
    symbol, name = mint.metadata
    return mint.decimals, parse_text(symbol, MAX_SYMBOL), parse_text(name, MAX_NAME)


def store_dropped(now_ms):
    """Stop tracking what is beyond TRACKED_TOKENS."""
    tracked = Token.select(Token.id, Token.held, Token.tracked_at, Token.volume24h_usd).where(
        Token.tracked_at.is_null(False)
    )
    dropped = [token.id for token in choose_dropped(tracked, now_ms, TRACKED_TOKENS)]
    write(
        [
            Token.update(tracked_at=None).where(Token.id.in_(part))
            for part in storage.in_parts(dropped)
        ]
    )


def prune(now_ms):
    """Delete expired snapshots, and tokens that nothing names any more, in chunks so small that no
    writer waits for long.
    """
    for _ in range(PRUNE_CHUNKS):
        expired = list_expired(now_ms)
        if not expired:
            break
        # asked again: one may have been pinned since
        write([Snapshot.delete().where(Snapshot.id.in_(expired), Snapshot.expires_at < now_ms)])
        time.sleep(PRUNE_PAUSE)
    forgettable = list_forgettable()
    write([Token.delete().where(Token.id.in_(forgettable))] if forgettable else ())


# ---- the job -------------------------------------------------------------------------------------
@dataclass
class Feed:
    """One kind of question and how it last went. Times are ms."""

    label: str
    pace: Pace | None = None
    attempted_at: int | None = None
    success_at: int | None = None
    error: str | None = None
    # rows of its last usable answer that made no sense
    dropped: int = 0


class Scout:
    """The job with what it remembers between ticks: a session, the paces, how each feed went. Used
    by one thread at a time.
    """

    def __init__(self, config, rpc, monotonic=time.monotonic):
        self.rpc, self.interval, self.monotonic = rpc, config.scout_interval_seconds, monotonic
        self.dexscreener = config.dexscreener_url
        self.geckoterminal = config.geckoterminal_url.removesuffix("/api/v2") + "/api/v2"
        self.session = open_session()
        # profiles and boosts share DexScreener's 60 a minute
        lists = Pace(10, 50, monotonic)
        self.profiles, self.boosts = (
            Feed("DexScreener profiles", lists),
            Feed("DexScreener boosts", lists),
        )
        self.pools = Feed("GeckoTerminal new pools", Pace(5, 25, monotonic))
        self.prices = Feed("DexScreener prices", Pace(100, 200, monotonic))
        self.safety = Feed("mint accounts")
        self.trade_cursor, self.remembers = 0, False

    def run_tick(self, now_ms):
        """One pass over everything: (problem or None, details for health as JSON text). Only
        trouble with the database is raised.
        """
        self._remember()
        started = self.monotonic()

        def clock():
            return now_ms + int((self.monotonic() - started) * 1000)

        self._follow_trades(now_ms)
        self._attempt(
            self.profiles, clock, lambda: self._read_list("/token-profiles/latest/v1", clock)
        )
        self._attempt(self.boosts, clock, lambda: self._read_list("/token-boosts/latest/v1", clock))
        pools = {}
        self._attempt(self.pools, clock, lambda: self._read_pools(pools, clock))
        store_dropped(now_ms)
        unpriced = list_unpriced(now_ms)
        if unpriced:
            self._attempt(self.prices, clock, lambda: self._read_prices(unpriced, clock))
        self._use_pools(pools, now_ms, clock)
        self._read_mints(clock)
        prune(clock())
        return self._report()

    def _attempt(self, feed, clock, read):
        """One go at a feed, if its pace allows; `read` gives a RowCount. The cache keeps what it
        had.

        Rows that make no sense are dropped and counted. Only where most are so the feed itself has
        failed.
        """
        if not feed.pace.take():
            return
        feed.attempted_at = clock()
        try:
            rows = read()
        except ProviderError as error:
            feed.error = str(error)
            if error.wait is not None:
                feed.pace.pause(error.wait)
            return
        feed.dropped = rows.unreadable
        feed.error = f"{rows.unreadable} entries made no sense" if rows.is_nonsense else None
        feed.success_at = feed.success_at if rows.is_nonsense else clock()

    def _read_list(self, path, clock):
        found, rows = parse_list(fetch_json(self.session, self.dexscreener + path))
        store_discoveries(dict.fromkeys(found, (None, None)), "dexscreener", clock())
        return rows

    def _read_pools(self, pools, clock):
        answer = fetch_json(
            self.session,
            f"{self.geckoterminal}/networks/solana/new_pools",
            {"include": "base_token", "page": 1},
        )
        quotes, rows = parse_pools(answer)
        store_discoveries(
            {mint: (quote.symbol, quote.name) for mint, quote in quotes.items()},
            "geckoterminal",
            clock(),
        )
        pools.update(quotes)
        return rows

    def _read_prices(self, mints, clock):
        """Batch after batch until the pace says no; the attempt itself took the first turn."""
        rows = RowCount(0, 0)
        for at in range(0, len(mints), ADDRESSES_PER_CALL):
            if at and not self.prices.pace.take():
                break
            rows = rows.plus(self._read_price_batch(mints[at : at + ADDRESSES_PER_CALL], clock))
        return rows

    def _read_price_batch(self, mints, clock):
        try:
            quotes, rows = parse_pairs(
                fetch_json(self.session, f"{self.dexscreener}/tokens/v1/solana/{','.join(mints)}")
            )
        except ProviderError:
            # the others come first next time
            store_quotes({}, mints, clock())
            raise
        store_quotes({mint: quotes[mint] for mint in mints if mint in quotes}, mints, clock())
        return rows

    def _use_pools(self, pools, started_at, clock):
        """GeckoTerminal's prices stand in where DexScreener gave none in this tick."""
        quoted = {
            mint
            for mint, token in find_tokens(pools).items()
            if (token.quoted_at or 0) >= started_at
        }
        if missing := {mint: quote for mint, quote in pools.items() if mint not in quoted}:
            store_quotes(missing, (), clock())

    def _read_mints(self, clock):
        """Read the accounts of mints that are due. A node that fails leaves the findings it once
        gave.
        """
        due, feed = list_unchecked(clock()), self.safety
        for at in range(0, len(due), ACCOUNTS_PER_CALL):
            tokens, feed.attempted_at = due[at : at + ACCOUNTS_PER_CALL], clock()
            try:
                accounts = fetch_accounts(self.rpc, [token.mint for token in tokens])
            except RpcError as error:
                feed.error = str(error)
                return
            store_checks(tokens, accounts, clock())
            feed.error, feed.success_at = None, clock()

    def _follow_trades(self, now_ms):
        """Tokens that observed wallets moved want a name; those traded within a day are discoveries
        of their own and get prices.

        A refold may reuse ids below the cursor; what is missed so is seen after the next start,
        which begins from the first row again.
        """
        while rows := list_moved(self.trade_cursor):
            self.trade_cursor = rows[-1][0]
            traded = [
                mint
                for _, mint, side, seconds in rows
                if side and (seconds or 0) * 1000 > now_ms - DAY
            ]
            store_discoveries(dict.fromkeys(traded, (None, None)), "wallets", now_ms)
            store_moved(dict.fromkeys(mint for _, mint, _, _ in rows))

    # ---- health ----
    def _feeds(self):
        return {
            "dexscreenerProfiles": self.profiles,
            "dexscreenerBoosts": self.boosts,
            "geckoterminalNewPools": self.pools,
            "dexscreenerPrices": self.prices,
        }

    def _report(self):
        feeds = self._feeds()
        discovery, safety = sum_feeds(feeds.values()), sum_feeds([self.safety])
        problem = (
            "; ".join(part["lastError"] for part in (discovery, safety) if part["lastError"])
            or None
        )
        return problem, orjson.dumps(
            {
                "intervalSeconds": self.interval,
                "tracked": Token.select().where(Token.tracked_at.is_null(False)).count(),
                "safety": safety,
                "discovery": {
                    **discovery,
                    "feeds": {name: sum_feeds([feed]) for name, feed in feeds.items()},
                },
            }
        ).decode()

    def _remember(self):
        """At the first tick: when each feed last went well before the restart."""
        if self.remembers:
            return
        row = Job.get_or_none(Job.name == "scout")
        details = orjson.loads(row.details) if row else {}
        told = {"safety": details.get("safety"), **details.get("discovery", {}).get("feeds", {})}
        for name, feed in {"safety": self.safety, **self._feeds()}.items():
            if told.get(name):
                feed.attempted_at, feed.success_at = (
                    told[name]["lastAttemptAt"],
                    told[name]["lastSuccessAt"],
                )
        self.remembers = True


def sum_feeds(feeds):
    """{state, lastAttemptAt, lastSuccessAt, lastError, droppedRows} of feeds together, times in ms:
    the last success is that of the feed longest without one.
    """
    asked = [feed for feed in feeds if feed.attempted_at is not None]
    errors = [f"{feed.label}: {feed.error}" for feed in asked if feed.error]
    successes = [feed.success_at for feed in asked]
    return {
        "state": "failing" if errors else "ok" if asked else "waiting",
        "lastAttemptAt": max((feed.attempted_at for feed in asked), default=None),
        "lastSuccessAt": None if None in successes else min(successes, default=None),
        "lastError": "; ".join(errors) or None,
        "droppedRows": sum(feed.dropped for feed in asked),
    }


def fetch_accounts(rpc, addresses):
    """The node's values of these accounts, in order, None where it knows none. Raises RpcError."""

    def check(result):
        values = result.get("value") if isinstance(result, dict) else None
        if (
            not isinstance(values, list)
            or len(values) != len(addresses)
            or not all(value is None or isinstance(value, dict) for value in values)
        ):
            raise ValueError("an answer of an unexpected shape")
        return values

    accounts, _ = rpc.call(
        "getMultipleAccounts",
        [list(addresses), {"encoding": "base64", "commitment": "finalized"}],
        check,
    )
    return accounts
