"""The scout with its own market: what it finds, keeps, marks and deletes, and what providers can't
do to it.
"""

import json
import re
import time
from dataclasses import replace
from types import SimpleNamespace

import ground
import pytest
from fakemarket import BOOSTS, POOLS, PRICES, PROFILES, SOL, FakeMarket, FakeNode, address
from observed import move, observe
from test_mints import KEY, fees, mint_account

import jobs
import storage
from chain.rpc import Unavailable
from market import providers, store
from market.fetch import PROVIDER_LIMITS
from market.rules import DAY_MS, HOUR_MS, MINUTE_MS, choose_dropped
from market.tables import Snapshot, Token
from models import Job
from operate.doctor import check_budgets
from scout import Scout, fetch_accounts
from web.api import market as shown
from web.api.serialize import show_time

NOW = 1_800_000_000_000
FIRST_TICK = "2027-01-15T08:01:00Z"
ONE, TWO, THREE = address(1), address(2), address(3)


class World:
    """A scout with an empty database, its market and its node."""

    def __init__(self, settings, market):
        self.settings, self.market, self.node = settings, market, FakeNode()
        self.now, self.seconds = NOW, 0.0
        self.start()

    def start(self):
        self.scout = Scout(self.settings, self.node, lambda: self.seconds)

    def stop(self):
        self.scout.session.close()

    def tick(self, minutes=1):
        """Run one pass, this long after the last one on both clocks."""
        self.now += minutes * MINUTE_MS
        self.seconds += minutes * 60
        problem, details = self.scout.run_tick(self.now)
        jobs.note_job("scout", "failing" if problem else "ok", self.now, problem, details)

    def run_held(self):
        """Run a pass over held tokens, six seconds after the last one."""
        assert self.scout.run_held(self.now + 6_000) == (None, None)

    # ---- what readers see ------------------------------------------------------------------------
    def entries(self):
        return {entry["mint"]: entry for entry in shown.list_entries(self.now)[0]}

    def entry(self, *names, mint=ONE):
        """These members of a token's entry."""
        entry = self.entries()[mint]
        return [entry[name] for name in names]

    def price(self, mint=ONE):
        (price,) = self.entry("priceUsd", mint=mint)
        return price

    def checks(self, mint=ONE):
        return self.entries()[mint]["checks"]

    def statuses(self, mint=ONE):
        return {check["key"]: check["status"] for check in self.checks(mint)}

    def health(self):
        return shown.show_market_health(self.now)

    def discovery(self, *names):
        """These members of the health of finding tokens and prices."""
        discovery = self.health()["discovery"]
        return [discovery[name] for name in names]


@pytest.fixture
def market():
    fake = FakeMarket()
    yield fake
    fake.close()


@pytest.fixture
def world(db, tmp_path, market):
    urls = {"DEXSCREENER_URL": market.url, "GECKOTERMINAL_URL": market.url}
    made = World(ground.settings_of(tmp_path / "data", **urls), market)
    yield made
    made.stop()


def discover(world, *mints):
    for mint in mints:
        world.market.profile(mint)
        world.market.price(mint)


@pytest.fixture
def found(world):
    """A world whose scout found one token."""
    discover(world, ONE)
    world.tick()
    return world


# ---- finding -------------------------------------------------------------------------------------
def test_tokens_from_all_sources_are_listed_newest_first(world):
    sent = {"usd": "0.0003798", "sol": "0.000003465", "liquidity": 52239.46, "volume": 24660.15}
    sent |= {"symbol": "ONE", "name": "One Coin", "dexId": "raydium", "labels": ["CLMM"]}
    world.market.profile(ONE)
    world.market.price(ONE, **sent)
    # DexScreener's price takes precedence.
    world.market.open_pool(ONE, usd="9")
    world.tick()
    assert Snapshot.select().count() == 1
    world.market.boost(TWO)
    world.market.open_pool(THREE, symbol="THREE", usd="0.25", sol="0.00125")
    world.tick()
    entries = world.entries()
    assert list(entries) == [THREE, TWO, ONE]
    told = {"priceUsd": "0.0003798", "priceSol": "0.000003465", "liquidityUsd": "52239.46"}
    told |= {"symbol": "ONE", "name": "One Coin", "volume24hUsd": "24660.15"}
    told |= {"venue": "raydium/clmm", "dexId": "raydium", "pairId": address(8)}
    told |= {"discoveredAt": FIRST_TICK, "asOf": "2027-01-15T08:02:00Z", "source": "dexscreener"}
    told |= {"stale": False, "priceDoubt": None}
    assert told.items() <= entries[ONE].items()
    told = {"source": "dexscreener", "priceUsd": None, "symbol": None}
    assert told.items() <= entries[TWO].items()
    # DexScreener has no pair for it, so GeckoTerminal's price is used.
    told = {"source": "geckoterminal", "symbol": "THREE", "liquidityUsd": "4000"}
    told |= {"priceUsd": "0.25", "priceSol": "0.00125"}
    assert told.items() <= entries[THREE].items()


def test_a_missing_value_replaces_the_old_one_except_for_names(world):
    world.market.profile(ONE)
    world.market.price(ONE, dexId="raydium")
    world.tick()
    names = ("symbol", "name", "liquidityUsd", "dexId")
    assert world.entry(*names) == ["COIN", "Coin", "4000", "raydium"]
    world.market.price(ONE, symbol=None, name="\u200b", liquidity=None, dexId=None)
    world.tick()
    assert world.entry(*names) == ["COIN", "Coin", None, None]
    assert [row.pool_sol for row in Snapshot.select().order_by(Snapshot.id)] == ["10.25", None]


def test_new_tokens_do_not_shift_pages(world):
    discover(world, *map(address, range(1, 8)))
    world.tick()
    first, place = shown.list_entries(world.now, limit=3)
    discover(world, address(50))
    world.tick()
    second, place = shown.list_entries(world.now, limit=3, after=place)
    third, end = shown.list_entries(world.now, limit=3, after=place)
    assert [row["mint"] for row in first + second + third] == [address(n) for n in range(7, 0, -1)]
    assert end is None


# ---- tokens of trades ----------------------------------------------------------------------------
def trade(mint, side, seconds, number):
    move(observe(f"t{number}", block_time=seconds, slot=number), mint, side)


def test_traded_tokens_get_prices_and_held_ones_only_names(world):
    trade(ONE, "buy", NOW // 1000, 1)
    # Too long ago.
    trade(TWO, "sell", NOW // 1000 - 2 * 86400, 2)
    # Came by a transfer.
    trade(THREE, None, NOW // 1000, 3)
    trade(SOL, "buy", NOW // 1000, 4)
    named = {ONE: "BOUGHT", TWO: "OLD", THREE: "GIFT", SOL: "SOL"}
    for mint in (ONE, TWO, THREE):
        world.market.price(mint, symbol=named[mint])
    world.tick()
    assert list(world.entries()) == [ONE] and world.entry("source") == ["wallets"]
    assert shown.find_symbols([*named]) == named
    assert shown.find_symbols([]) == {}
    assert shown.find_entry(world.now, TWO)["symbol"] == "OLD"
    assert shown.find_entry(world.now, address(9)) is None
    assert [row.token.mint for row in Snapshot.select()] == [ONE]


def test_an_unknown_name_is_requested_once_a_day(world):
    trade(TWO, None, NOW // 1000, 1)
    for _ in range(5):
        world.tick()
    assert world.market.asked[PRICES] == 1
    world.tick(minutes=24 * 60)
    assert world.market.asked[PRICES] == 2


# ---- checks --------------------------------------------------------------------------------------
def test_checks_show_what_accounts_allow_and_when_they_were_read(world):
    """An account's name is used if no provider has one."""
    named = 19, bytes(64) + b"\x05\0\0\0Plain\x04\0\0\0\x1bPLN"
    warned = mint_account((9, b""), named, mint_authority=KEY)
    world.node.accounts = {ONE: mint_account(named), TWO: warned}
    world.market.profile(ONE)
    discover(world, TWO, THREE)
    world.tick()
    assert world.entry("symbol", "name") == ["PLN", "Plain"]
    assert world.entry("symbol", mint=TWO) == ["COIN"]
    assert [*world.statuses().values()] == ["pass"] * 11
    told = {"non_transferable": "fail", "mint_authority": "warn"}
    assert told.items() <= world.statuses(TWO).items()
    assert set(world.statuses(THREE).values()) == {"unknown"}
    assert {check["checkedAt"] for check in world.checks(THREE)} == {FIRST_TICK}
    assert Token.get(mint=ONE).decimals == 6 and Token.get(mint=THREE).decimals is None


@pytest.mark.parametrize("data", [{"parsed": {"type": "mint"}}, "AAAA", None])
def test_an_account_not_in_base64_is_not_accepted(data):
    """An account that a node decoded itself may contain anything."""
    node = FakeNode({TWO: {"owner": KEY, "data": data}})
    with pytest.raises(ValueError, match="^returned an unexpected response format$"):
        fetch_accounts(node, [ONE, TWO])


def test_mint_accounts_are_reread_after_ten_minutes_and_kept_during_node_failures(world):
    world.node.fail = Unavailable("getMultipleAccounts: every endpoint is paused")
    discover(world, ONE)
    world.tick()
    assert {(one["status"], one["checkedAt"]) for one in world.checks()} == {("unknown", None)}
    safety = world.health()["safety"]
    assert safety["state"] == "failing" and "every endpoint is paused" in safety["lastError"]
    # The providers answered.
    assert world.discovery("state") == ["ok"]
    world.node.fail, world.node.calls = None, []
    world.node.accounts = {ONE: mint_account()}
    for _ in range(10):
        world.tick()
    assert len(world.node.calls) == 1
    world.node.accounts = {ONE: mint_account(freeze_authority=KEY)}
    world.tick(minutes=2)
    assert len(world.node.calls) == 2 and world.statuses()["freeze_authority"] == "warn"
    world.node.fail = Unavailable("gone")
    world.tick(minutes=11)
    assert world.statuses()["freeze_authority"] == "warn"
    assert world.health()["safety"]["state"] == "failing"
    world.node.fail = None
    world.tick()
    at = dict.fromkeys(("lastSuccessAt", "lastAttemptAt"), show_time(world.now))
    healthy = {"state": "ok", "ageSeconds": 0, "lastError": None, "droppedRows": 0}
    assert world.health()["safety"] == healthy | at


@pytest.mark.parametrize("account", [None, mint_account((1, b"\0" * 8))])
def test_an_unreadable_transfer_fee_keeps_the_last_known_one(world, account):
    """The node temporarily lacks the account, or an extension is truncated: the fee is unknown, and
    certainly not known to be zero.
    """
    world.node.accounts = {ONE: mint_account((1, fees(300, 300)))}
    discover(world, ONE)
    world.tick()
    assert Token.get(mint=ONE).transfer_fee_bps == 300
    world.node.accounts = {ONE: account}
    world.tick(minutes=11)
    token = Token.get(mint=ONE)
    assert (token.transfer_fee_bps, token.decimals) == (300, 6)
    assert world.statuses()["transfer_fee"] == "unknown"
    world.node.accounts = {ONE: mint_account()}
    world.tick(minutes=11)
    assert Token.get(mint=ONE).transfer_fee_bps == 0


# ---- providers that misbehave --------------------------------------------------------------------
FAULTS = {
    "down": {"status": None},
    "nonsense": {"body": b"<!doctype html>"},
    "wrong shape": {"body": b'{"data": {"a": [1, null]}, "pairs": "x"}'},
    "429": {"status": 429, "headers": {"Retry-After": "1"}},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failing_provider_leaves_the_cache_and_is_named(world, fault):
    def check(state, stale):
        assert world.discovery("state") == [state] and Job.get(name="scout").state == state
        assert {row["stale"] for row in world.entries().values()} == {stale}

    world.node.accounts = {ONE: mint_account()}
    discover(world, ONE)
    world.market.open_pool(TWO)
    world.tick()
    before = world.entries()
    check("ok", False)
    world.market.break_all(**FAULTS[fault])
    world.tick()
    check("failing", True)
    assert world.entries() == {mint: {**row, "stale": True} for mint, row in before.items()}
    assert world.discovery("ageSeconds", "lastSuccessAt") == [60, FIRST_TICK]
    job, (error,) = Job.get(name="scout"), world.discovery("lastError")
    assert (job.heartbeat_at, job.last_success_at) == (world.now, NOW + MINUTE_MS)
    assert "DexScreener" in error and "GeckoTerminal" in error and error in job.last_error
    assert world.market.url not in json.dumps(world.health())
    world.market.heal()
    world.tick()
    check("ok", False)
    assert Job.get(name="scout").last_error is None


def test_malformed_rows_are_dropped_alone_and_counted(found):
    """One of two tokens has a price that isn't a number: nothing fails, its price becomes stale
    after three minutes, and the other one is renewed.
    """
    found.market.price(ONE, usd="NaN")
    discover(found, TWO)
    for number in range(4):
        found.market.price(TWO, usd=f"0.{number + 11}")
        found.tick()
        told = found.health()["discovery"]
        assert (told["state"], told["lastError"]) == ("ok", None)
        assert told["feeds"]["dexscreenerPrices"]["droppedRows"] == 1
        assert found.price(TWO) == f"0.{number + 11}"
        assert found.entry("stale", "priceUsd") == [number == 3, "0.5"]
    found.market.price(ONE, usd="0.7")
    found.tick()
    assert found.discovery("droppedRows") == [0] and found.price() == "0.7"
    # If most rows are like that, the response is invalid.
    for mint in (ONE, TWO):
        found.market.price(mint, usd="NaN")
    found.tick()
    assert found.discovery("lastError") == ["DexScreener prices: 2 entries couldn't be read"]
    assert Job.get(name="scout").state == "failing"
    assert [row["stale"] for row in found.entries().values()] == [True, True]


def test_one_failing_provider_does_not_stop_the_other(world):
    discover(world, ONE)
    world.market.open_pool(TWO)
    world.market.answer(PROFILES, status=None)
    world.tick()
    assert set(world.entries()) == {TWO}
    (feeds,) = world.discovery("feeds")
    failing = [name for name, feed in feeds.items() if feed["state"] == "failing"]
    assert failing == ["dexscreenerProfiles"]
    world.market.heal()
    world.market.answer(POOLS, status=500)
    world.tick()
    assert set(world.entries()) == {ONE, TWO}
    assert world.discovery("lastError") == ["GeckoTerminal new pools: returned HTTP 500"]


def test_a_provider_that_asks_for_a_pause_gets_it(world):
    discover(world, ONE)
    world.market.answer(PRICES, status=429, headers={"Retry-After": "90"})
    for _ in range(2):
        # 0 and 60 seconds.
        world.tick()
    assert world.market.asked[PRICES] == 1
    world.market.heal()
    # 120 seconds
    world.tick()
    assert world.market.asked[PRICES] == 2 and world.price() == "0.5"


def test_a_slow_provider_delays_one_request(world):
    discover(world, *map(address, range(1, 100)))
    world.tick()
    # Set only now, because on a busy machine even an immediate response takes longer.
    world.scout.limits = replace(PROVIDER_LIMITS, read_seconds=0.5)
    asked = world.market.asked[PRICES]
    world.market.answer(PRICES, body=b"[" + b"1," * 100, headers={"Content-Length": 10_000})
    world.tick()
    assert world.market.asked[PRICES] == asked + 1
    assert "did not respond in time" in world.discovery("lastError")[0]


def test_batches_after_a_failed_one_go_first_next_time(world):
    discover(world, *map(address, range(1, 61)))
    world.market.answer(PRICES, status=500)
    world.tick()
    world.market.heal()
    world.tick()
    assert sum(row["priceUsd"] is not None for row in world.entries().values()) == 60
    # The first thirty already had their turn.
    assert Snapshot.get(Snapshot.id == 1).token.mint == address(31)


# A jump is more than twentyfold, up or down.
QUOTES = """
0.5          fine
10.0         fine
10000000000  jump
10000000001  fine
0.5          jump
-5           not_positive
1            fine
20           fine
400.1        jump
20.005       fine
1            jump
0            not_positive
0.5          fine
"""


def test_absurd_prices_are_stored_and_marked(world):
    discover(world, ONE)
    for line in QUOTES.strip().splitlines():
        usd, mark = line.split()
        world.market.price(ONE, usd=usd)
        world.tick()
        newest = Snapshot.select().order_by(Snapshot.id.desc()).get()
        for told in (world.entry("priceUsd", "priceDoubt"), [newest.price_usd, newest.absurd]):
            assert told == [usd, None if mark == "fine" else mark]


def test_an_empty_market_explains_why(world):
    health = world.health()
    assert health["discovery"]["state"] == health["safety"]["state"] == "waiting"
    assert shown.list_entries(NOW) == ([], None)
    assert shown.explain_empty(NOW) == "the scout has not checked the market yet"
    world.tick()
    nothing = "the scout has found nothing yet"
    assert shown.explain_empty(world.now) == nothing
    world.market.answer(POOLS, status=500)
    world.tick()
    failure = "GeckoTerminal new pools: returned HTTP 500"
    assert shown.explain_empty(world.now) == f"{nothing}; {failure}"


@pytest.mark.parametrize(
    "text", [None, "{", "[]", '{"discovery": []}', '{"safety": {}, "discovery": {}, "budgets": {}}']
)
def test_success_times_survive_a_restart_unless_their_report_is_damaged(found, text):
    if text:
        Job.update(details=text).where(Job.name == "scout").execute()
    found.market.break_all(status=None)
    found.stop()
    found.start()
    found.tick()
    age = [None, None] if text else [FIRST_TICK, 60]
    assert found.discovery("lastSuccessAt", "ageSeconds", "state") == [*age, "failing"]


# ---- the limits ----------------------------------------------------------------------------------
def test_a_thousand_tokens_stay_within_both_providers_limits(world):
    """One pass a minute: 1 + 1 list calls of 60, 1 of 30 for new pools, ceil(1000 / 30) = 34 price
    calls of 300.
    """
    mints = [address(n) for n in range(1, 1001)]
    discover(world, *mints)
    world.node.accounts = {mint: mint_account() for mint in mints}
    for passes in (1, 2):
        world.tick()
        lists = dict.fromkeys((PROFILES, BOOSTS, POOLS), passes)
        assert world.market.asked == lists | {PRICES: 34 * passes}
        # Of mint accounts, 500 per pass.
        assert [len(call) for call in world.node.calls] == [100] * 5 * passes
    assert world.market.most_asked == 30 and len(world.entries()) == 100
    assert Snapshot.select().count() == 2000
    # After a failure, the node isn't asked about the others.
    world.node.fail, world.node.calls = Unavailable("gone"), []
    world.tick(minutes=11)
    assert len(world.node.calls) == 1


# ---- what is tracked -----------------------------------------------------------------------------
def test_held_tokens_come_first_then_new_ones_then_high_volume():
    def token(number, tracked_at=0, volume=None, held=False):
        return SimpleNamespace(id=number, tracked_at=tracked_at, volume24h_usd=volume, held=held)

    tokens = [token(1, volume="5"), token(2, volume="100"), token(3)]
    tokens += [token(4, tracked_at=NOW), token(5, held=True, volume="0")]
    dropped = [[one.id for one in choose_dropped(tokens, NOW, most)] for most in range(5, -1, -1)]
    assert dropped == [[], [3], [1, 3], [2, 1, 3], [4, 2, 1, 3], [4, 2, 1, 3]]


def test_a_dropped_token_is_forgotten_and_may_return(found, monkeypatch):
    discover(found, TWO)
    found.market.price(TWO, volume=99999)
    found.tick()
    assert set(found.entries()) == {ONE, TWO}
    monkeypatch.setattr(store, "MAX_TRACKED", 1)
    found.market.profiles = []
    found.tick(minutes=20)
    assert set(found.entries()) == {TWO} and Token.get(mint=ONE).discovered_at == NOW + MINUTE_MS
    # Its snapshots were kept for two hours.
    found.tick(minutes=130)
    assert Token.get_or_none(mint=ONE) is None
    assert Snapshot.select().where(Snapshot.token == 1).count() == 0
    discover(found, ONE)
    found.tick()
    # New tokens come before busy ones.
    assert set(found.entries()) == {ONE}


# ---- snapshots -----------------------------------------------------------------------------------
def test_older_snapshots_are_kept_more_sparsely(found):
    """One on probation at 8:05, and after it one a minute for 13 minutes from 9:00 on, with more
    in between. The first one is pinned.
    """
    (first,), start = Snapshot.select(), NOW // HOUR_MS * HOUR_MS + HOUR_MS
    store.pin_snapshots([first.id])
    quoted = {ONE: providers.Quote(ONE, "dexscreener", "C", "C", "1", "1", *[None] * 5)}
    minutes, early = [*range(0, 780, 60)], -55 * 60
    for seconds in sorted([early, *minutes, 306, 312, 366]):
        store.store_quotes(quoted, [ONE], start + seconds * 1000)

    def list_kept(age, of):
        store.prune(start + of * 1000 + age)
        pinned, *kept = Snapshot.select().order_by(Snapshot.taken_at)
        assert pinned == first
        return [(one.taken_at - start) // 1000 for one in kept]

    assert list_kept(30 * MINUTE_MS, of=366) == sorted([early, *minutes, 366])
    assert list_kept(2 * HOUR_MS, of=early) == [early, *minutes]
    assert list_kept(2 * HOUR_MS, of=720) == [0, 300, 600, 720]
    assert list_kept(DAY_MS, of=600) == [0, 600]
    assert list_kept(30 * DAY_MS, of=0) == [0]
    assert list_kept(31 * DAY_MS, of=0) == []


def test_a_snapshot_pinned_during_pruning_is_kept(found, monkeypatch):
    late = found.now + DAY_MS
    expired = store.list_expired(late)
    assert expired == [1]
    store.pin_snapshots(expired)
    # Rows read just before the pin.
    monkeypatch.setattr(store, "list_expired", lambda now, answers=[[], expired]: answers.pop())
    store.prune(late)
    assert Snapshot.select().count() == 1


# ---- what paper mode holds -----------------------------------------------------------------------
def test_held_tokens_are_requested_between_passes(found):
    """Unless nothing is held, another pass is running, or its interval is as short."""
    discover(found, TWO)
    found.tick()
    for mint in (ONE, TWO):
        found.market.price(mint, usd="9", sol="0.06")
    found.run_held()
    Token.update(held=True).where(Token.mint == ONE).execute()
    with found.scout.busy:
        found.run_held()
    assert found.price() == "0.5"
    found.run_held()
    assert (found.price(ONE), found.price(TWO)) == ("9", "0.5")
    assert Snapshot.select().where(Snapshot.taken_at == found.now + 6_000).count() == 1
    found.market.price(ONE, usd="8")
    found.scout.interval_seconds = 5
    found.run_held()
    assert found.price() == "9"


def report(found, later=0):
    """Store the scout's report; return what doctor says of DexScreener's budget."""
    now = found.now + later
    jobs.note_job("scout", "ok", now, None, found.scout._report(found.now)[1])
    told = check_budgets(storage.database.execute_sql, now)
    return [(one.level, one.text) for one in told if "dexscreener" in one.text]


def test_requests_are_counted_per_provider_and_day(found):
    """Two lists and a page of prices, and one list of new pools; a short pass adds one request. At
    360 and 30 requests a minute.
    """
    budgets = json.loads(found.scout._report(found.now)[1])["budgets"]
    fresh = {"day": found.now // DAY_MS, "heldBack": 0, "heldBackAt": None}
    assert budgets == {
        "dexscreener": {"requests": 3, "allowed": 518_400, **fresh},
        "geckoterminal": {"requests": 1, "allowed": 43_200, **fresh},
    }
    assert report(found) == [("fine", "dexscreener used 3 of 518,400 daily requests")]
    assert report(found, later=DAY_MS) == []
    Token.update(held=True).execute()
    found.run_held()
    budget = found.scout.budgets["dexscreener"]
    assert budget.requests == 4 and budget.show(found.now + DAY_MS)["requests"] == 0


def test_requests_held_back_by_a_minute_limit_are_counted(found):
    """31 mints need two price requests, but only one is left in the minute. The other one waits
    for the next pass, without a failure.
    """
    discover(found, *map(address, range(100, 131)))
    found.tick()
    budget = found.scout.budgets["dexscreener"]
    asked, found.scout.prices.pace.left = budget.requests, 1
    Token.update(held=True).execute()
    found.run_held()
    assert budget.requests == asked + 1
    ((level, text),) = report(found)
    assert level == "look" and "; its limits delayed other requests (today: 1," in text
    told = found.health()["budgets"]
    held_back = {name: (one["heldBackToday"], one["heldBackAt"]) for name, one in told.items()}
    late = show_time(found.now + 6_000)
    assert held_back == {"dexscreener": (1, late), "geckoterminal": (0, None)}
    assert found.discovery("state") == ["ok"]
    found.tick()
    assert found.scout.prices.error is None and budget.held_back == 1


def test_an_exhausted_day_is_reported_and_ends_at_midnight(found):
    """The other provider continues, and a restart keeps the counts."""
    found.scout.budgets["geckoterminal"].requests = 43_200
    found.tick()
    told = found.health()
    assert told["budgets"]["geckoterminal"]["requestsToday"] == 43_200
    assert told["discovery"]["lastError"] == (
        "GeckoTerminal new pools: the daily limit on requests is used up; requests resume at"
        " 00:00 UTC"
    )
    found.stop()
    found.start()
    found.scout._restore_times()
    assert found.scout.budgets["geckoterminal"].is_used_up(found.now)
    found.tick(24 * 60)
    assert found.discovery("lastError") == [None]
    assert found.health()["budgets"]["geckoterminal"]["requestsToday"] == 1


def test_the_status_page_shows_the_used_budget(service, standing_clock):
    def show(held_back, at):
        now = time.time_ns() // 1_000_000
        budget = {"day": now // DAY_MS, "requests": 129_600, "allowed": 518_400}
        budget |= {"heldBack": held_back, "heldBackAt": at and now}
        details = json.dumps({"budgets": {"dexscreener": budget}})
        with storage.database.connection_context():
            jobs.note_job("scout", "ok", now, None, details)
        _, _, page = service.get("/status").text.partition("Requests to price providers")
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))

    assert "DexScreener 129,600 518,400 25% never" in show(0, None)
    told = show(2, True)
    assert "25% 2 times, last" in told and "sends postponed requests" in told
