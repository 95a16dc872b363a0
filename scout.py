"""The market scout queries price providers for tokens and prices, and a node for mint accounts.

Only this job queries DexScreener and GeckoTerminal. All other code reads the tables Token and
Snapshot. It queries outside transactions and stores each response in one short write
(market.store). An unusable response only changes health. A thousand tracked tokens take 34 calls of
tokens/v1 per pass. Requests that a rate limit doesn't allow wait for the next pass, which starts
with the tokens that have waited longest.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from chain.rpc import Rpc, RpcError
from config import Config
from market import store
from market.failures import FetchError
from market.fetch import PROVIDER_LIMITS, Limits, Pace, fetch_json, open_session
from market.providers import (
    ADDRESSES_PER_CALL,
    USED_UP,
    Budget,
    Quote,
    RowCount,
    parse_list,
    parse_pairs,
    parse_pools,
)
from market.rules import DAY_MS, Fall, FallCheck
from market.tables import Token
from models import Job
from storage.rows import make_object, make_shape, read_stored

# How often to fetch the prices of tokens that paper mode holds or has ordered.
HELD_SECONDS = 6
# A second opinion about a falling price delays other prices.
SECOND_LIMITS = Limits(connect_seconds=2, read_seconds=3, answer_seconds=4, max_bytes=1_000_000)
# The maximum of getMultipleAccounts.
ACCOUNTS_PER_CALL = 100
# Health details that are read again after a restart.
TIMES: Any = make_object(lastAttemptAt=int | None, lastSuccessAt=int | None)
COUNTS: Any = make_object(day=int, requests=int, heldBack=int, heldBackAt=int | None)
FEEDS: Any = make_object(feeds=dict[str, TIMES])
DETAILS = make_shape(make_object(safety=TIMES, discovery=FEEDS, budgets=dict[str, COUNTS]))
# Returns the time in ms.
Clock = Callable[[], int]


@dataclass
class Feed:
    """One kind of request and the outcome of the last one.

    `pace` and `budget` are None if the feed doesn't need its own limit. `attempted_at` and
    `success_at` are in ms. `dropped` is the number of unreadable rows in the last usable response.
    """

    label: str
    pace: Pace | None = None
    budget: Budget | None = None
    attempted_at: int | None = None
    success_at: int | None = None
    error: str | None = None
    dropped: int = 0

    def take_turn(self, now_ms: int) -> bool:
        """Return whether a request is allowed now, and count it.

        Refusals are also counted. If the day's limit is used up, the feed fails.
        """
        if self.pace is None or self.budget is None:
            return True
        if self.budget.is_used_up(now_ms):
            self.error = USED_UP
        elif self.pace.take():
            return True
        self.budget.hold_back(now_ms)
        return False


class Scout:
    """Only one pass runs at a time."""

    def __init__(
        self, config: Config, rpc: Rpc, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.rpc, self.interval_seconds = rpc, config.scout_interval_seconds
        self.monotonic = monotonic
        self.dexscreener = config.dexscreener_url
        self.geckoterminal = config.geckoterminal_url.removesuffix("/api/v2") + "/api/v2"
        self.session, self.limits = open_session(), PROVIDER_LIMITS
        # Requests a minute. DexScreener: 60 for lists and 300 for prices. GeckoTerminal: 30.
        dex, gecko = Budget(360), Budget(30)
        self.budgets = {"dexscreener": dex, "geckoterminal": gecko}
        # Profiles and boosts share DexScreener's limit of 60 a minute.
        lists, pools = Pace(10, 50, monotonic), Pace(5, 25, monotonic)
        self.profiles = Feed("DexScreener profiles", lists, dex)
        self.boosts = Feed("DexScreener boosts", lists, dex)
        self.pools = Feed("GeckoTerminal new pools", pools, gecko)
        # Not shown in health, because the last response about a fall may be days old.
        self.falls = Feed("GeckoTerminal falls", pools, gecko)
        self.prices = Feed("DexScreener prices", Pace(100, 200, monotonic), dex)
        self.safety = Feed("mint accounts")
        # Both kinds of passes share the feeds.
        self.busy = threading.Lock()
        # ID of the last TradeMint row read.
        self.trade_cursor = 0
        self.is_restored = False

    def run_tick(self, now_ms: int) -> tuple[str | None, str]:
        """Return a problem or None, and details for health as JSON. Raises only database errors."""
        with self.busy:
            return self._ask_all(now_ms)

    def run_held(self, now_ms: int) -> tuple[str | None, str | None]:
        """Fetch the prices of tokens that paper mode holds or has ordered.

        Latencies of seconds need this. Does nothing if the other pass is running or has the same
        interval.
        """
        if self.interval_seconds <= HELD_SECONDS or not self.busy.acquire(blocking=False):
            return None, None
        try:
            self._restore_times()
            held, clock = store.list_held(), self._start_clock(now_ms)
            if held:
                self._attempt(self.prices, clock, lambda: self._read_prices(held, clock))
        finally:
            self.busy.release()
        return self.prices.error, None

    def _start_clock(self, now_ms: int) -> Clock:
        started = self.monotonic()
        return lambda: now_ms + int((self.monotonic() - started) * 1000)

    def _ask_all(self, now_ms: int) -> tuple[str | None, str]:
        self._restore_times()
        clock = self._start_clock(now_ms)
        self._follow_trades(now_ms)
        self._attempt(
            self.profiles, clock, lambda: self._read_list("/token-profiles/latest/v1", clock)
        )
        self._attempt(self.boosts, clock, lambda: self._read_list("/token-boosts/latest/v1", clock))
        pools: dict[str, Quote] = {}
        self._attempt(self.pools, clock, lambda: self._read_pools(pools, clock))
        store.store_dropped(now_ms)
        unpriced = store.list_unpriced(now_ms)
        if unpriced:
            self._attempt(self.prices, clock, lambda: self._read_prices(unpriced, clock))
        self._use_pools(pools, now_ms, clock)
        self._read_mints(clock)
        store.prune(clock())
        return self._report(clock())

    def _attempt(self, feed: Feed, clock: Clock, read: Callable[[], RowCount]) -> bool:
        """Return whether the feed was queried, which its pace decides.

        After a failure, the tables keep their data. Unreadable rows are dropped and counted. The
        feed fails only if most rows are unreadable.
        """
        if not feed.take_turn(clock()):
            return False
        feed.attempted_at = clock()
        try:
            rows = read()
        except FetchError as error:
            feed.error = str(error)
            if feed.pace is not None and error.wait_seconds is not None:
                feed.pace.pause(error.wait_seconds)
            return True
        feed.dropped = rows.unreadable
        if rows.is_nonsense:
            feed.error = f"{rows.unreadable} entries couldn't be read"
        else:
            feed.error, feed.success_at = None, clock()
        return True

    def _fetch(
        self,
        url: str,
        clock: Clock,
        params: dict[str, Any] | None = None,
        limits: Limits | None = None,
    ) -> Any:
        provider = "geckoterminal" if url.startswith(self.geckoterminal) else "dexscreener"
        self.budgets[provider].count(clock())
        return fetch_json(self.session, url, params, limits or self.limits)

    def _read_list(self, path: str, clock: Clock) -> RowCount:
        found, rows = parse_list(self._fetch(self.dexscreener + path, clock))
        store.store_discoveries(dict.fromkeys(found, (None, None)), "dexscreener", clock())
        return rows

    def _read_pools(self, pools: dict[str, Quote], clock: Clock) -> RowCount:
        answer = self._fetch(
            f"{self.geckoterminal}/networks/solana/new_pools",
            clock,
            {"include": "base_token", "page": 1},
        )
        quotes, rows = parse_pools(answer)
        store.store_discoveries(
            {mint: (quote.symbol, quote.name) for mint, quote in quotes.items()},
            "geckoterminal",
            clock(),
        )
        pools.update(quotes)
        return rows

    def _read_prices(self, mints: list[str], clock: Clock) -> RowCount:
        """Query batches while the pace allows. _attempt already counted the first one."""
        rows = RowCount(0, 0)
        for at in range(0, len(mints), ADDRESSES_PER_CALL):
            if at and not self.prices.take_turn(clock()):
                break
            rows = rows.plus(self._read_price_batch(mints[at : at + ADDRESSES_PER_CALL], clock))
        return rows

    def _read_price_batch(self, mints: list[str], clock: Clock) -> RowCount:
        try:
            url = f"{self.dexscreener}/tokens/v1/solana/{','.join(mints)}"
            quotes, rows = parse_pairs(self._fetch(url, clock))
        except FetchError:
            # Mark these tokens as queried, so that the others come first next time.
            store.store_quotes({}, mints, clock())
            raise
        taken_at, found = clock(), {mint: quotes[mint] for mint in mints if mint in quotes}
        store.store_quotes(found, mints, taken_at, self._check_falls(found, clock))
        return rows

    def _check_falls(self, quotes: dict[str, Quote], clock: Clock) -> dict[str, FallCheck]:
        """Ask GeckoTerminal about sharp falls, instead of waiting for the next snapshot."""
        falls = store.find_falls(quotes)
        told: dict[str, Quote] = {}
        if not falls:
            return {}
        asked = self._attempt(self.falls, clock, lambda: self._read_falls(falls, told, clock))
        problem = (
            self.falls.error if asked else ("not queried, because its request limit was reached")
        )
        return {fall.mint: judge_fall(fall, told.get(fall.mint), problem) for fall in falls}

    def _read_falls(self, falls: list[Fall], told: dict[str, Quote], clock: Clock) -> RowCount:
        pairs = ",".join(fall.pair for fall in falls)
        url = f"{self.geckoterminal}/networks/solana/pools/multi/{pairs}"
        quotes, rows = parse_pools(self._fetch(url, clock, limits=SECOND_LIMITS))
        told.update(quotes)
        return rows

    def _use_pools(self, pools: dict[str, Quote], started_at: int, clock: Clock) -> None:
        quoted = {
            mint
            for mint, token in store.find_tokens(pools).items()
            if (token.quoted_at or 0) >= started_at
        }
        if missing := {mint: quote for mint, quote in pools.items() if mint not in quoted}:
            store.store_quotes(missing, (), clock())

    def _read_mints(self, clock: Clock) -> None:
        """Read the mint accounts that are due. If that fails, the earlier results stay."""
        due = store.list_unchecked(clock())
        for at in range(0, len(due), ACCOUNTS_PER_CALL):
            tokens = due[at : at + ACCOUNTS_PER_CALL]
            self._attempt(self.safety, clock, partial(self._check_mints, tokens, clock))
            if self.safety.error:
                return

    def _check_mints(self, tokens: list[Token], clock: Clock) -> RowCount:
        try:
            accounts = fetch_accounts(self.rpc, [token.mint for token in tokens])
        except RpcError as error:
            raise FetchError(str(error)) from None
        store.store_checks(tokens, accounts, clock())
        return RowCount(len(tokens), 0)

    def _follow_trades(self, now_ms: int) -> None:
        """Add the tokens that observed wallets moved, so that their names are looked up.

        Tokens traded in the last 24 hours are priced like discoveries. A ledger
        rebuild may reuse ids below the cursor. The next restart reads the rows missed this way.
        """
        while rows := store.list_moved(self.trade_cursor):
            self.trade_cursor = rows[-1].id
            traded = [
                row.mint
                for row in rows
                if row.side and (row.block_time or 0) * 1000 > now_ms - DAY_MS
            ]
            store.store_discoveries(dict.fromkeys(traded, (None, None)), "wallets", now_ms)
            store.store_moved(dict.fromkeys(row.mint for row in rows))

    # ---- health ----
    def _feeds(self) -> dict[str, Feed]:
        return {
            "dexscreenerProfiles": self.profiles,
            "dexscreenerBoosts": self.boosts,
            "geckoterminalNewPools": self.pools,
            "dexscreenerPrices": self.prices,
        }

    def _report(self, now_ms: int) -> tuple[str | None, str]:
        feeds = self._feeds()
        discovery, safety = sum_feeds(feeds.values()), sum_feeds([self.safety])
        errors = [part["lastError"] for part in (discovery, safety) if part["lastError"]]
        return "; ".join(errors) or None, orjson.dumps(
            {
                "intervalSeconds": self.interval_seconds,
                "tracked": Token.select().where(Token.tracked_at.is_null(False)).count(),
                "safety": safety,
                "budgets": {name: one.show(now_ms) for name, one in self.budgets.items()},
                "discovery": {
                    **discovery,
                    "feeds": {name: sum_feeds([feed]) for name, feed in feeds.items()},
                },
            }
        ).decode()

    def _restore_times(self) -> None:
        """Restore each feed's last query time and each provider's usage, at the first tick."""
        if self.is_restored:
            return
        row = Job.get_or_none(Job.name == "scout")
        # If damaged, the details are stored again by this pass.
        details = read_stored(row.details, DETAILS) if row else None
        if details is not None:
            stored = {"safety": details["safety"], **details["discovery"]["feeds"]}
            for name, feed in {"safety": self.safety, **self._feeds()}.items():
                if name in stored:
                    feed.attempted_at = stored[name]["lastAttemptAt"]
                    feed.success_at = stored[name]["lastSuccessAt"]
            for name, budget in self.budgets.items():
                budget.restore(details["budgets"].get(name, {}))
        self.is_restored = True


def judge_fall(fall: Fall, quote: Quote | None, problem: str | None) -> FallCheck:
    """Return a second provider's view of a fall. `problem` is why there isn't a quote."""
    if quote is None or quote.pair != fall.pair or quote.price_sol is None:
        return FallCheck(fall.before, None, problem or "returned no price for this pool")
    return FallCheck(fall.before, quote.price_sol, None)


def sum_feeds(feeds: Iterable[Feed]) -> dict[str, Any]:
    """Return {state, lastAttemptAt, lastSuccessAt, lastError, droppedRows}, combined.

    Times are in ms. The last success is the oldest one among the feeds.
    """
    feeds = list(feeds)
    asked = [feed for feed in feeds if feed.attempted_at is not None]
    errors = [f"{feed.label}: {feed.error}" for feed in feeds if feed.error]
    successes = [feed.success_at for feed in asked]
    return {
        "state": "failing" if errors else "ok" if asked else "waiting",
        "lastAttemptAt": max((feed.attempted_at or 0 for feed in asked), default=None),
        "lastSuccessAt": None if None in successes else min(filter(None, successes), default=None),
        "lastError": "; ".join(errors) or None,
        "droppedRows": sum(feed.dropped for feed in asked),
    }


def fetch_accounts(rpc: Rpc, addresses: Sequence[str]) -> list[dict[str, Any] | None]:
    """Return accounts in order, or None for those unknown to the node. Raises RpcError."""

    def check(result: Any) -> list[dict[str, Any] | None]:
        values = result.get("value") if isinstance(result, dict) else None
        if (
            not isinstance(values, list)
            or len(values) != len(addresses)
            or not all(value is None or _is_encoded(value) for value in values)
        ):
            raise ValueError("returned an unexpected response format")
        return values

    accounts: list[dict[str, Any] | None]
    accounts, _ = rpc.call(
        "getMultipleAccounts",
        [list(addresses), {"encoding": "base64", "commitment": "finalized"}],
        check,
    )
    return accounts


def _is_encoded(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("data"), list)
