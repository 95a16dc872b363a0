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
import sampling
from fakemarket import BOOSTS, POOLS, PRICES, PROFILES, SOL, FakeMarket, FakeNode, address
from observed import move, observe
from peewee import fn
from test_mints import KEY, fees, mint_account

import jobs
import storage
from chain.rpc import Unavailable
from market import providers, store
from market.fetch import PROVIDER_LIMITS
from market.rules import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    PROBATION_MS,
    choose_dropped,
    keep_until,
    mark_absurd,
)
from market.tables import Snapshot, Token
from models import Job
from operate.doctor import check_budgets
from scout import Scout, fetch_accounts
from web.api import market as shown
from web.api.serialize import show_time

NOW = 1_800_000_000_000
ONE, TWO, THREE = address(1), address(2), address(3)


@pytest.fixture
def market():
    fake = FakeMarket()
    yield fake
    fake.close()


@pytest.fixture
def world(db, tmp_path, market):
    """A scout with an empty database; `world.tick()` runs one pass, a minute after the last one on
    both clocks.
    """
    settings = ground.settings_of(
        tmp_path / "data", DEXSCREENER_URL=market.url, GECKOTERMINAL_URL=market.url
    )
    world = SimpleNamespace(now=NOW, market=market, node=FakeNode(), settings=settings, seconds=0.0)

    def tick(minutes=1):
        world.now += minutes * MINUTE_MS
        world.seconds += minutes * 60
        problem, details = world.scout.run_tick(world.now)
        jobs.note_job("scout", "failing" if problem else "ok", world.now, problem, details)

    world.scout = Scout(settings, world.node, lambda: world.seconds)
    world.tick = tick
    yield world
    world.scout.session.close()


def entries(world):
    return {entry["mint"]: entry for entry in shown.list_entries(world.now)[0]}


def entry(world, mint=ONE):
    return entries(world)[mint]


def statuses(world, mint=ONE):
    return {check["key"]: check["status"] for check in entry(world, mint)["checks"]}


def health(world):
    return shown.show_market_health(world.now)


def discover(world, *mints):
    for mint in mints:
        world.market.profile(mint)
        world.market.price(mint)


# ---- finding -------------------------------------------------------------------------------------
def test_tokens_from_all_sources_are_listed_newest_first(world):
    world.market.profile(ONE)
    world.market.price(
        ONE,
        usd="0.0003798",
        sol="0.000003465",
        liquidity=52239.46,
        volume=24660.15,
        symbol="ONE",
        name="One Coin",
    )
    world.tick()
    world.market.boost(TWO)
    world.market.open_pool(THREE, symbol="THREE", usd="0.25", sol="0.00125")
    world.tick()
    assert [row["mint"] for row in shown.list_entries(world.now)[0]] == [THREE, TWO, ONE]
    assert {mint: row["source"] for mint, row in entries(world).items()} == {
        ONE: "dexscreener",
        TWO: "dexscreener",
        THREE: "geckoterminal",
    }
    one = entry(world)
    told = {"symbol": "ONE", "name": "One Coin", "priceUsd": "0.0003798", "priceSol": "0.000003465"}
    told |= {"liquidityUsd": "52239.46", "volume24hUsd": "24660.15"}
    assert {name: one[name] for name in told} == told
    assert (one["discoveredAt"], one["asOf"], one["stale"], one["priceDoubt"]) == (
        "2027-01-15T08:01:00Z",
        "2027-01-15T08:02:00Z",
        False,
        None,
    )
    # DexScreener has no pair for it, so GeckoTerminal's price is used.
    three = entry(world, THREE)
    assert (three["symbol"], three["priceUsd"], three["priceSol"], three["liquidityUsd"]) == (
        "THREE",
        "0.25",
        "0.00125",
        "4000",
    )
    assert entry(world, TWO)["priceUsd"] is None and entry(world, TWO)["symbol"] is None


def test_dexscreener_prices_take_precedence(world):
    world.market.open_pool(ONE, usd="9")
    world.market.price(ONE, usd="8")
    world.tick()
    assert entry(world)["priceUsd"] == "8" and Snapshot.select().count() == 1


def test_an_entry_names_venue_and_pool(world):
    world.market.profile(ONE)
    world.market.price(ONE, dexId="raydium", labels=["CLMM"])
    world.tick()
    found = entry(world)
    assert (found["venue"], found["dexId"], found["pairId"]) == (
        "raydium/clmm",
        "raydium",
        address(8),
    )
    world.market.price(ONE, dexId=None)
    world.tick()
    assert entry(world)["dexId"] is None


def test_missing_liquidity_replaces_the_old_value_with_null(world):
    discover(world, ONE)
    world.tick()
    assert entry(world)["liquidityUsd"] == "4000"
    world.market.price(ONE, liquidity=None)
    world.tick()
    assert entry(world)["liquidityUsd"] is None
    assert [row.pool_sol for row in Snapshot.select().order_by(Snapshot.id)] == ["10.25", None]


def test_a_missing_name_keeps_the_known_one(world):
    discover(world, ONE)
    world.tick()
    world.market.price(ONE, symbol=None, name="\u200b")
    world.tick()
    assert (entry(world)["symbol"], entry(world)["name"]) == ("COIN", "Coin")


def test_new_tokens_do_not_shift_pages(world):
    discover(world, *(address(n) for n in range(1, 8)))
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
    for mint, symbol in ((ONE, "BOUGHT"), (TWO, "OLD"), (THREE, "GIFT")):
        world.market.price(mint, symbol=symbol)
    world.tick()
    assert list(entries(world)) == [ONE] and entry(world)["source"] == "wallets"
    named = {ONE: "BOUGHT", TWO: "OLD", THREE: "GIFT", SOL: "SOL"}
    assert shown.find_symbols([ONE, TWO, THREE, SOL]) == named
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
    world.node.accounts = {ONE: mint_account(), TWO: mint_account((9, b""), mint_authority=KEY)}
    discover(world, ONE, TWO, THREE)
    world.tick()
    assert set(statuses(world).values()) == {"pass"} and len(statuses(world)) == 11
    assert (statuses(world, TWO)["non_transferable"], statuses(world, TWO)["mint_authority"]) == (
        "fail",
        "warn",
    )
    assert set(statuses(world, THREE).values()) == {"unknown"}
    assert {check["checkedAt"] for check in entry(world, THREE)["checks"]} == {
        "2027-01-15T08:01:00Z"
    }
    assert Token.get(mint=ONE).decimals == 6 and Token.get(mint=THREE).decimals is None


@pytest.mark.parametrize("data", [{"parsed": {"type": "mint"}}, "AAAA", None])
def test_an_account_not_in_base64_is_not_accepted(data):
    """An account that a node decoded itself may contain anything."""
    node = FakeNode({TWO: {"owner": KEY, "data": data}})
    with pytest.raises(ValueError, match="^returned an unexpected response format$"):
        fetch_accounts(node, [ONE, TWO])


def test_before_the_first_read_everything_is_unknown(world):
    world.node.fail = Unavailable("getMultipleAccounts: every endpoint is paused")
    discover(world, ONE)
    world.tick()
    assert set(statuses(world).values()) == {"unknown"}
    assert {check["checkedAt"] for check in entry(world)["checks"]} == {None}
    assert health(world)["safety"]["state"] == "failing"
    assert "every endpoint is paused" in health(world)["safety"]["lastError"]
    # One response doesn't replace the other.
    assert health(world)["discovery"]["state"] == "ok"


def test_mint_accounts_are_reread_after_ten_minutes_and_kept_during_node_failures(world):
    world.node.accounts = {ONE: mint_account()}
    discover(world, ONE)
    for _ in range(10):
        world.tick()
    assert len(world.node.calls) == 1
    world.node.accounts = {ONE: mint_account(freeze_authority=KEY)}
    world.tick(minutes=2)
    assert len(world.node.calls) == 2 and statuses(world)["freeze_authority"] == "warn"
    world.node.fail = Unavailable("gone")
    world.tick(minutes=11)
    assert statuses(world)["freeze_authority"] == "warn"
    assert health(world)["safety"]["state"] == "failing"
    world.node.fail = None
    world.tick()
    assert health(world)["safety"] == {
        "state": "ok",
        "lastSuccessAt": health(world)["safety"]["lastAttemptAt"],
        "ageSeconds": 0,
        "lastAttemptAt": health(world)["safety"]["lastAttemptAt"],
        "lastError": None,
        "droppedRows": 0,
    }


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
    assert statuses(world)["transfer_fee"] == "unknown"
    world.node.accounts = {ONE: mint_account()}
    world.tick(minutes=11)
    assert Token.get(mint=ONE).transfer_fee_bps == 0


def test_mint_account_names_fill_in_missing_ones(world):
    metadata = bytes(64) + b"\x05\0\0\0Plain\x04\0\0\0\x1bPLN"
    world.node.accounts = {ONE: mint_account((19, metadata)), TWO: mint_account((19, metadata))}
    world.market.profile(ONE)
    discover(world, TWO)
    world.tick()
    assert (entry(world)["symbol"], entry(world)["name"]) == ("PLN", "Plain")
    assert entry(world, TWO)["symbol"] == "COIN"


# ---- providers that misbehave --------------------------------------------------------------------
FAULTS = {
    "down": {"status": None},
    "nonsense": {"body": b"<!doctype html>"},
    "wrong shape": {"body": b'{"data": {"a": [1, null]}, "pairs": "x"}'},
    "429": {"status": 429, "headers": {"Retry-After": "1"}},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failing_provider_leaves_the_cache_and_is_named(world, fault):
    world.node.accounts = {ONE: mint_account()}
    discover(world, ONE)
    world.market.open_pool(TWO)
    world.tick()
    before = entries(world)
    assert health(world)["discovery"]["state"] == "ok"
    assert not any(row["stale"] for row in before.values())
    world.market.break_all(**FAULTS[fault])
    world.tick()
    after, told = entries(world), health(world)["discovery"]
    assert after == {mint: {**row, "stale": True} for mint, row in before.items()}
    assert told["state"] == "failing"
    assert told["ageSeconds"] == 60
    assert told["lastSuccessAt"] == "2027-01-15T08:01:00Z"
    assert "DexScreener" in told["lastError"]
    assert "GeckoTerminal" in told["lastError"]
    assert world.market.url not in json.dumps(told)
    row = Job.get(name="scout")
    assert (row.state, row.heartbeat_at, row.last_success_at) == (
        "failing",
        world.now,
        NOW + MINUTE_MS,
    )
    assert "DexScreener" in row.last_error
    world.market.heal()
    world.tick()
    assert not any(row["stale"] for row in entries(world).values())
    assert health(world)["discovery"]["state"] == "ok"
    assert Job.get(name="scout").state == "ok" and Job.get(name="scout").last_error is None


def test_one_malformed_row_is_dropped_alone_and_counted(world):
    """For ten passes, one of two tokens has a price that isn't a number: nothing fails, its price
    becomes stale, and the other one is renewed.
    """
    discover(world, ONE, TWO)
    world.tick()
    world.market.price(ONE, usd="NaN")
    for number in range(10):
        world.market.price(TWO, usd=f"0.{number + 11}")
        world.tick()
        told = health(world)["discovery"]
        assert (
            told["state"],
            told["lastError"],
            told["feeds"]["dexscreenerPrices"]["droppedRows"],
        ) == ("ok", None, 1)
        assert Job.get(name="scout").state == "ok"
        assert entry(world, TWO)["priceUsd"] == f"0.{number + 11}"
    assert entry(world)["stale"] is True and entry(world)["priceUsd"] == "0.5"
    world.market.price(ONE, usd="0.7")
    world.tick()
    assert health(world)["discovery"]["droppedRows"] == 0 and entry(world)["priceUsd"] == "0.7"


def test_an_entirely_invalid_response_is_reported(world):
    discover(world, ONE, TWO)
    world.tick()
    for mint in (ONE, TWO):
        world.market.price(mint, usd="NaN")
    world.tick()
    assert (
        health(world)["discovery"]["lastError"] == "DexScreener prices: 2 entries couldn't be read"
    )
    assert Job.get(name="scout").state == "failing"
    assert entry(world)["stale"]
    assert entry(world, TWO)["stale"]


def test_empty_responses_keep_the_cache_until_it_is_stale(world):
    discover(world, ONE)
    world.tick()
    world.market.pairs, world.market.profiles = {}, []
    world.tick(minutes=3)
    assert entry(world)["priceUsd"] == "0.5" and entry(world)["stale"] is False
    world.tick(minutes=1)
    assert entry(world)["priceUsd"] == "0.5" and entry(world)["stale"] is True
    assert entry(world)["asOf"] == "2027-01-15T08:01:00Z"


def test_one_failing_provider_does_not_stop_the_other(world):
    discover(world, ONE)
    world.market.open_pool(TWO)
    world.market.answer(PROFILES, status=None)
    world.tick()
    assert set(entries(world)) == {TWO}
    assert [
        name
        for name, feed in health(world)["discovery"]["feeds"].items()
        if feed["state"] == "failing"
    ] == ["dexscreenerProfiles"]
    world.market.heal()
    world.market.answer(POOLS, status=500)
    world.tick()
    assert set(entries(world)) == {ONE, TWO}
    assert health(world)["discovery"]["lastError"] == "GeckoTerminal new pools: returned HTTP 500"


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
    assert world.market.asked[PRICES] == 2 and entry(world)["priceUsd"] == "0.5"


def test_a_slow_provider_delays_one_request_each(world):
    discover(world, *(address(n) for n in range(1, 100)))
    world.tick()
    # Set only now, because on a busy machine even an immediate response takes longer.
    world.scout.limits = replace(PROVIDER_LIMITS, read_seconds=0.5)
    world.market.break_all(body=b"[" + b"1," * 100, headers={"Content-Length": 10_000})
    asked = world.market.asked[PRICES]
    world.tick()
    assert world.market.asked[PRICES] == asked + 1
    assert "did not respond in time" in health(world)["discovery"]["lastError"]


def test_batches_after_a_failed_one_go_first_next_time(world):
    discover(world, *(address(n) for n in range(1, 61)))
    world.market.answer(PRICES, status=500)
    world.tick()
    world.market.heal()
    world.tick()
    assert sum(row["priceUsd"] is not None for row in entries(world).values()) == 60
    # The first thirty already had their turn.
    assert Snapshot.get(Snapshot.id == 1).token.mint == address(31)


def test_absurd_prices_are_stored_and_marked(world):
    discover(world, ONE)
    quotes = (
        ("0.5", None),
        ("10.0", None),
        ("10000000000", "jump"),
        ("10000000001", None),
        ("0.5", "jump"),
        ("-5", "not_positive"),
        ("0", "not_positive"),
        ("0.5", None),
    )
    for usd, mark in quotes:
        world.market.price(ONE, usd=usd)
        world.tick()
        assert (entry(world)["priceUsd"], entry(world)["priceDoubt"]) == (usd, mark)
    stored = [row.absurd for row in Snapshot.select().order_by(Snapshot.id)]
    assert stored == [mark for _, mark in quotes]


def test_before_the_first_request_the_market_says_it_is_empty(db):
    assert shown.list_entries(NOW) == ([], None)
    assert (
        shown.show_market_health(NOW)["discovery"]["state"]
        == shown.show_market_health(NOW)["safety"]["state"]
        == "waiting"
    )
    assert shown.explain_empty(NOW) == "the scout has not checked the market yet"


def test_an_empty_market_explains_why(world):
    world.tick()
    assert shown.explain_empty(world.now) == "the scout has found nothing yet"
    world.market.answer(POOLS, status=500)
    world.tick()
    assert (
        shown.explain_empty(world.now)
        == "the scout has found nothing yet; GeckoTerminal new pools: returned HTTP 500"
    )


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"discovery": []}', '{"safety": {}, "discovery": {}, "budgets": {}}']
)
def test_a_damaged_report_counts_as_missing_and_is_replaced(world, text):
    discover(world, ONE)
    world.tick()
    Job.update(details=text).where(Job.name == "scout").execute()
    world.scout.session.close()
    world.scout = Scout(world.settings, world.node, lambda: world.seconds)
    world.tick()
    assert health(world)["discovery"]["state"] == "ok"


def test_success_times_survive_a_restart(world):
    discover(world, ONE)
    world.tick()
    world.market.break_all(status=None)
    world.scout.session.close()
    world.scout = Scout(world.settings, world.node, lambda: world.seconds)
    world.tick()
    assert health(world)["discovery"]["lastSuccessAt"] == "2027-01-15T08:01:00Z"
    assert health(world)["discovery"]["ageSeconds"] == 60


# ---- the limits ----------------------------------------------------------------------------------
def test_a_thousand_tokens_stay_within_both_providers_limits(world):
    """One pass a minute: 1 + 1 list calls of 60, 1 of 30 for new pools, ceil(1000 / 30) = 34 price
    calls of 300.
    """
    mints = [address(n) for n in range(1, 1001)]
    discover(world, *mints)
    world.node.accounts = {mint: mint_account() for mint in mints}
    world.tick()
    asked = dict(world.market.asked)
    for _ in range(3):
        world.tick()
    assert {path: world.market.asked[path] - asked[path] for path in asked} == {
        PROFILES: 3,
        BOOSTS: 3,
        POOLS: 3,
        PRICES: 3 * 34,
    }
    assert world.market.most_asked == 30 and len(entries(world)) == 100
    assert Snapshot.select().count() == 4000
    # 500 per pass, then nothing for ten minutes.
    assert len(world.node.calls) == 10 and all(len(call) == 100 for call in world.node.calls)


def test_frequent_passes_stay_within_the_limits_too(world, monkeypatch):
    """A tenth of the tokens, three per call."""
    monkeypatch.setattr("scout.ADDRESSES_PER_CALL", 3)
    discover(world, *(address(n) for n in range(1, 101)))
    for _ in range(30 if sampling.FULL else 12):
        # Every two seconds, for a minute in full runs.
        world.tick(minutes=1 / 30)
    asked = world.market.asked
    assert asked[PROFILES] + asked[BOOSTS] <= 60 and asked[POOLS] <= 30 and asked[PRICES] <= 300
    # 200 calls a minute of 3 tokens are 10 tokens a second: a round takes ten seconds, with a pass
    # every two
    assert Token.select(fn.MIN(Token.asked_at)).scalar() >= world.now - 14_000


def test_reading_a_page_sends_no_requests(world):
    discover(world, ONE)
    world.tick()
    asked, calls = dict(world.market.asked), len(world.node.calls)
    for _ in range(50):
        shown.list_entries(world.now)
        shown.find_entry(world.now, ONE)
        shown.show_market_health(world.now)
    assert world.market.asked == asked and len(world.node.calls) == calls


# ---- what is tracked -----------------------------------------------------------------------------
def token(number, tracked_at=0, volume=None, held=False):
    return SimpleNamespace(id=number, tracked_at=tracked_at, volume24h_usd=volume, held=held)


def test_held_tokens_come_first_then_new_ones_then_high_volume():
    tokens = [
        token(1, volume="5"),
        token(2, volume="100"),
        token(3, volume=None),
        token(4, tracked_at=NOW),
        token(5, held=True, volume="0"),
    ]
    assert [
        [one.id for one in choose_dropped(tokens, NOW, most)] for most in (5, 4, 3, 2, 1, 0)
    ] == [[], [3], [1, 3], [2, 1, 3], [4, 2, 1, 3], [4, 2, 1, 3]]


def test_a_dropped_token_is_forgotten_and_may_return(world, monkeypatch):
    discover(world, ONE, TWO)
    world.market.price(TWO, volume=99999)
    world.tick()
    assert set(entries(world)) == {ONE, TWO}
    monkeypatch.setattr(store, "MAX_TRACKED", 1)
    world.market.profiles = []
    world.tick(minutes=20)
    assert set(entries(world)) == {TWO} and Token.get(mint=ONE).discovered_at == NOW + MINUTE_MS
    # Its snapshots were kept for two hours.
    world.tick(minutes=130)
    assert Token.get_or_none(mint=ONE) is None
    assert Snapshot.select().where(Snapshot.token == 1).count() == 0
    discover(world, ONE)
    world.tick()
    # New tokens come before busy ones.
    assert set(entries(world)) == {ONE}


def test_a_held_token_gets_prices_whatever_its_volume(world, monkeypatch):
    discover(world, ONE, TWO)
    world.market.price(ONE, volume=0)
    world.tick()
    monkeypatch.setattr(store, "MAX_TRACKED", 1)
    store.replace_held([ONE])
    world.market.profiles = []
    world.tick(minutes=20)
    assert set(entries(world)) == {ONE}
    store.replace_held([])
    assert not Token.get(mint=ONE).held


# ---- snapshots -----------------------------------------------------------------------------------
def test_older_snapshots_are_kept_more_sparsely():
    start = NOW // DAY_MS * DAY_MS
    # On probation
    assert keep_until(start, None, start) == start + 2 * HOUR_MS
    # The first of its hour.
    assert keep_until(start, start - MINUTE_MS, start - PROBATION_MS) == start + 30 * DAY_MS
    fifth, sixth = start + 5 * MINUTE_MS, start + 6 * MINUTE_MS
    assert keep_until(fifth, start + 4 * MINUTE_MS, 0) == fifth + DAY_MS
    assert keep_until(sixth, fifth, 0) == sixth + 2 * HOUR_MS
    # From a held token, requested every six seconds.
    later = sixth + 6_000
    assert keep_until(later, sixth, 0) == later + HOUR_MS // 2
    assert keep_until(later, sixth, later - 1) == later + HOUR_MS // 2


def test_thinning_keeps_promised_ages_and_pinned_snapshots(world):
    discover(world, ONE)
    world.tick()
    start = world.now
    pinned = Snapshot.get().id
    store.pin_snapshots([pinned])
    seen = providers.Quote(ONE, "dexscreener", "C", "C", "1", "1", *[None] * 5)
    # Each minute of the last three hours; before them, the last of five minutes and the next one.
    for minute in range(1, 30 * 60 + 1):
        world.now += MINUTE_MS
        if minute > 27 * 60 or world.now // MINUTE_MS % 5 in (4, 0):
            store.store_quotes({ONE: seen}, [ONE], world.now)
    store.prune(world.now)
    taken = [row.taken_at for row in Snapshot.select().order_by(Snapshot.id)]
    assert taken[0] == start and Snapshot.get_by_id(pinned).expires_at is None
    ages = [(world.now - at) // MINUTE_MS for at in taken[1:]]
    assert sum(age <= 120 for age in ages) == 121
    assert all(
        later - earlier == MINUTE_MS
        for earlier, later in zip(taken[-121:-1], taken[-120:], strict=True)
    )
    day = [at for at, age in zip(taken[1:], ages, strict=True) if 120 < age <= 24 * 60]
    assert all(at % (5 * MINUTE_MS) == 0 for at in day) and len(day) == (24 * 60 - 120) // 5
    rest = [at for at, age in zip(taken[1:], ages, strict=True) if age > 24 * 60]
    # 30 hours of history, six full hours more than a day.
    assert all(at % HOUR_MS == 0 for at in rest) and len(rest) == 6


def test_a_snapshot_pinned_during_pruning_is_kept(world, monkeypatch):
    discover(world, ONE)
    world.tick()
    late = world.now + DAY_MS
    expired = store.list_expired(late)
    assert expired == [1]
    store.pin_snapshots(expired)
    # Rows read just before the pin.
    monkeypatch.setattr(store, "list_expired", lambda now, answers=[[], expired]: answers.pop())
    store.prune(late)
    assert Snapshot.select().count() == 1


@pytest.mark.parametrize(
    "usd, before, mark",
    [
        ("1", None, None),
        ("20", "1", None),
        ("20.001", "1", "jump"),
        ("0.05", "1", None),
        ("0.0499", "1", "jump"),
        ("0", "1", "not_positive"),
        ("-1", None, "not_positive"),
        (None, "1", None),
        ("1", "0", None),
        ("1", "-1", None),
    ],
)
def test_a_jump_is_more_than_twentyfold(usd, before, mark):
    quote = providers.Quote(ONE, "dexscreener", None, None, None, usd, None, None, None, None, None)
    assert mark_absurd(quote, SimpleNamespace(price_usd=before, price_sol=None)) == mark


# ---- what paper mode holds -----------------------------------------------------------------------
def test_held_tokens_are_requested_between_passes(world):
    """Only their prices are new, and a snapshot of each is kept."""
    discover(world, ONE, TWO)
    world.tick()
    Token.update(held=True).where(Token.mint == ONE).execute()
    world.market.price(ONE, usd="9", sol="0.06")
    world.market.price(TWO, usd="9", sol="0.06")
    assert world.scout.run_held(world.now + 6_000) == (None, None)
    assert entry(world, ONE)["priceUsd"] == "9" != entry(world, TWO)["priceUsd"]
    assert Snapshot.select().where(Snapshot.taken_at == world.now + 6_000).count() == 1


def test_a_short_pass_waits_for_no_other_and_needs_a_holding(world):
    discover(world, ONE)
    world.tick()
    asked = entry(world, ONE)["asOf"]
    assert world.scout.run_held(world.now + 6_000) == (None, None)
    Token.update(held=True).where(Token.mint == ONE).execute()
    with world.scout.busy:
        assert world.scout.run_held(world.now + 6_000) == (None, None)
    world.scout.interval_seconds = 5
    assert world.scout.run_held(world.now + 6_000) == (None, None)
    assert entry(world, ONE)["asOf"] == asked


def test_requests_are_counted_per_provider_and_day(world):
    """Two lists and a page of prices, and one list of new pools; a short pass adds one request."""
    discover(world, ONE)
    world.tick()
    budgets = json.loads(world.scout._report(world.now)[1])["budgets"]
    day = world.now // 86_400_000
    # 360 and 30 requests a minute.
    never = {"heldBack": 0, "heldBackAt": None}
    assert budgets == {
        "dexscreener": {"day": day, "requests": 3, "allowed": 518_400, **never},
        "geckoterminal": {"day": day, "requests": 1, "allowed": 43_200, **never},
    }
    Token.update(held=True).execute()
    world.scout.run_held(world.now + 6_000)
    assert world.scout.budgets["dexscreener"].requests == 4
    assert world.scout.budgets["dexscreener"].show(world.now + 86_400_000)["requests"] == 0


def test_requests_held_back_by_a_minute_limit_are_counted(world):
    """31 mints need two price requests, but only one is left in the minute."""
    discover(world, ONE)
    world.tick()
    for number in range(31):
        discover(world, address(100 + number))
    world.tick()
    asked = world.scout.budgets["dexscreener"].requests
    world.scout.prices.pace.left = 1
    world.scout.run_held(world.now)
    assert world.scout.budgets["dexscreener"].requests == asked
    Token.update(held=True).execute()
    world.scout.run_held(world.now + 6_000)
    assert world.scout.budgets["dexscreener"].requests == asked + 1
    jobs.note_job("scout", "ok", world.now, None, world.scout._report(world.now + 6_000)[1])
    told = health(world)
    assert told["budgets"]["dexscreener"]["heldBackToday"] == 1
    assert told["budgets"]["dexscreener"]["heldBackAt"] == show_time(world.now + 6_000)
    # It waits for the next pass, without a failure.
    assert told["discovery"]["state"] == "ok"
    assert told["budgets"]["geckoterminal"] == {
        **told["budgets"]["geckoterminal"],
        "heldBackToday": 0,
        "heldBackAt": None,
    }
    world.tick()
    assert world.scout.prices.error is None and world.scout.budgets["dexscreener"].held_back == 1


def test_an_exhausted_day_is_reported_and_ends_at_midnight(world):
    discover(world, ONE)
    world.tick()
    pools = world.scout.budgets["geckoterminal"]
    pools.requests = pools.allowed
    world.tick()
    told = health(world)
    assert told["budgets"]["geckoterminal"]["requestsToday"] == 43_200
    assert told["discovery"]["lastError"] == (
        "GeckoTerminal new pools: the daily limit on requests is used up; requests resume at"
        " 00:00 UTC"
    )
    # The other provider continues, and a restart keeps the counts.
    assert told["discovery"]["feeds"]["dexscreenerPrices"]["lastError"] is None
    again = Scout(world.settings, world.node, lambda: world.seconds)
    again._restore_times()
    assert again.budgets["geckoterminal"].is_used_up(world.now)
    again.session.close()
    world.tick(24 * 60)
    told = health(world)
    assert told["discovery"]["lastError"] is None
    assert told["budgets"]["geckoterminal"]["requestsToday"] == 1


def test_doctor_reports_budgets(world):
    def tell(now):
        jobs.note_job("scout", "ok", now, None, world.scout._report(world.now)[1])
        found = check_budgets(storage.database.execute_sql, now)
        return [(one.level, one.text) for one in found if "dexscreener" in one.text]

    discover(world, ONE)
    world.tick()
    used = "dexscreener used 3 of 518,400 daily requests"
    assert tell(world.now) == [("fine", used)]
    world.scout.budgets["dexscreener"].hold_back(world.now)
    ((level, text),) = tell(world.now)
    assert level == "look"
    assert text.startswith(f"{used}; its limits delayed other requests (today: 1,")
    # Yesterday's requests don't matter.
    assert tell(world.now + DAY_MS) == []


def test_the_status_page_shows_the_used_budget(service, standing_clock):
    def show(held_back):
        now = time.time_ns() // 1_000_000
        budget = {"day": now // DAY_MS, "requests": 129_600, "allowed": 518_400, **held_back}
        details = json.dumps({"budgets": {"dexscreener": budget}})
        with storage.database.connection_context():
            jobs.note_job("scout", "ok", now, None, details)
        _, _, page = service.get("/status").text.partition("Requests to price providers")
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))

    assert "DexScreener 129,600 518,400 25% never" in show({"heldBack": 0, "heldBackAt": None})
    told = show({"heldBack": 2, "heldBackAt": time.time_ns() // 1_000_000})
    assert "25% 2 times, last" in told and "sends postponed requests" in told
