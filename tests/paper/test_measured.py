"""The fill model, compared to what real swaps received."""

import json
from dataclasses import replace

import pytest
from corpus import read_truth
from lookout import watch
from observed import observe
from story import Story, address
from tape import quote
from test_ledger_store import ADA, entries_of, rebuild

import models
from bench.sales import try_swaps
from chain.reading.entries import Entry, read_entry
from chain.reading.pools import PoolReading, State, unpack_pool
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt
from market.tables import Snapshot, Token
from paper import measured
from paper.fills import RECORDED_COSTS, VENUE_IDS, NetworkCosts
from paper.measured import RealSwap
from paper.rules import DAY_MS
from paper.tables import NetworkCost, RealFill
from web.api import paper

SOL, AT = 10**9, 1_800_000_000_000


def swap(side="buy", lamports=SOL, raw=0, venue="raydium"):
    return RealSwap("t", AT, venue, side, "A", 6, 0, raw, lamports)


# 1,000 SOL against a million tokens; 1 SOL minus 25 basis points buys 0.9975 * 10**12 / 1000.9975.
BOUGHT = 996_505_985
# 1,000 tokens into them, before and after the fee; both are rounded against the trader.
GROSS = 1_000 * SOL * 10**9 // (10**12 + 10**9)
SOLD = GROSS - -(-GROSS * 25 // 10_000)
TINY = {"pool": "0.0000001"}


@pytest.mark.parametrize(
    "about, seen, bps",
    [
        (("buy", SOL, BOUGHT), {}, 0),
        # A hundredth less is 100 basis points off.
        (("buy", SOL, BOUGHT * 99 // 100), {}, 100),
        (("buy", SOL, BOUGHT * 101 // 100 + 1), {}, -100),
        (("sell", SOLD, 10**9), {}, 0),
        # Against a hundred units: of 101 lamports one is the fee, and 100 * 100 / 200 are received.
        (("buy", 101, 45), TINY, 1_000),
        (("buy", 101, 6_000), TINY, -1_000_000),
        # Another venue, no price, no payment.
        (("buy", SOL, 1, "pumpswap"), {}, None),
        (("buy", SOL, 1), {"price": None}, None),
        (("buy", 0, 1), {}, None),
        # One raw unit is worth a lamport, all of it fee.
        (("sell", 1, 1), {}, None),
        (("buy", 1, 1), {}, None),
    ],
)
def test_a_swap_is_measured_by_what_it_received(about, seen, bps):
    assert measured.measure(swap(*about), "no_pool", quote(0, **seen)).drift_bps == bps


def test_a_venue_needs_ten_receipts_of_its_own():
    """Nine of ten errors are at most 300: the ninth of ten is the 90th percentile. Drift doesn't
    count.
    """

    def describe(*bps, venue="raydium"):
        errors = [measured.Measured(one, 9_000) for one in bps]
        return measured.describe_error(venue, errors, AT)

    near, far = (describe(*[10] * 8, worst, 5_000) for worst in (-300, -301))
    assert near == measured.VenueError("raydium", 10, 10, 300, "own", AT, 9_000)
    assert near.eligible and not far.eligible
    few, drifted = describe(*[0] * 9, venue="pumpswap"), describe(*[None] * 20)
    assert not few.eligible
    assert (drifted.receipts, drifted.p90_error_bps, drifted.p90_drift_bps) == (0, None, 9_000)
    # Nine own receipts don't outweigh the recorded ones, nor does drift; ten do.
    for found, eligible in (
        ([], {"pumpfun", "raydium"}),
        ([describe(*[9_000] * 9), few], {"pumpfun", "raydium"}),
        ([drifted], {"pumpfun", "raydium"}),
        ([far, few], {"pumpfun"}),
    ):
        assert measured.list_eligible(measured.choose(found)) == eligible
    shown = {one.venue: one for one in measured.choose([drifted])}["raydium"]
    assert (shown.p90_error_bps, shown.p90_drift_bps) == (11, 9_000)


def pool_of(one, venue="Raydium v4", sol=1_000 * SOL, raw=10**12, fee=25):
    """The reading of a swap that had its pool to itself: 1,000 SOL and a million tokens before."""
    sign = 1 if one.side == "buy" else -1
    before = State(sol, raw, sol, raw)
    after = State(sol + sign * one.lamports, raw - sign * one.raw, sol, raw)
    return PoolReading(venue, "P", fee, "input", False, before, after)


def test_a_swap_is_measured_against_its_own_reserves():
    """1 SOL into 1,000 SOL and 10**12 units at 25 basis points: 996,505,985 units. If the pool
    moved since the snapshot, that is drift, not a model error.
    """
    exact = swap(raw=BOUGHT)
    assert measured.predict(exact, SOL, pool_of(exact), None) == BOUGHT
    sold = swap("sell", SOLD, 10**9)
    assert measured.measure(sold, pool_of(sold), None) == measured.Measured(0, None)
    found = measured.measure(exact, pool_of(exact), quote(0, price="0.0005"))
    assert found.bps == 0 and found.drift_bps > 4_000
    # The fee is the model's own: a pool that charged 4% instead of 0.25% isn't priced well.
    dear = swap(raw=10**12 * 960_000_000 // (1_000 * SOL + 960_000_000))
    assert measured.measure(dear, pool_of(dear, fee=400), None).bps == 375


def test_only_a_pool_used_by_one_swap_is_measured():
    one = swap(raw=BOUGHT)
    unknown = measured.Measured(None, None)
    assert measured.measure(one, pool_of(one, "PumpSwap"), None) == unknown
    assert measured.measure(one, pool_of(swap(raw=10**9)), None) == unknown
    assert measured.measure(one, "route", None) == unknown


def test_a_missed_formula_counts_as_the_worst_error():
    found = measured.measure(swap(raw=BOUGHT), "not_reproduced", quote(0))
    assert found == measured.Measured(measured.WORST_BPS, 0)
    errors = [measured.Measured(0, None)] * 18 + [found] * 2
    assert measured.describe_error("raydium", errors, AT).eligible
    assert not measured.describe_error("raydium", [*errors, found], AT).eligible


def test_a_fee_by_market_capitalization_needs_an_earlier_snapshot():
    """At 1,000 SOL of market cap, PumpSwap charges 120 basis points."""
    real = 10**12 * 988_000_000 // (1_000 * SOL + 988_000_000)
    one = swap(raw=real, venue="pumpswap")
    pool = pool_of(one, "PumpSwap")
    assert measured.measure(one, pool, None).bps is None
    seen = replace(quote(0), venue="pumpswap", market_cap=1_000 * SOL)
    assert measured.measure(one, pool, seen).bps == 0


def test_a_perfect_models_error_is_rounding_only():
    """However far prices move, because each swap is up to a minute after its snapshot."""
    model, drift = try_swaps(500, 0.03)
    assert model == 0 and drift > 300


def test_recorded_transactions_measure_the_model(receipts):
    """All swaps that had a pool to themselves at a venue with receipts. pump.fun charged 100 basis
    points at the time, while the model's 125 are today's: a buyer got 1 / 1.01 of the payment's
    worth, not 98.75%, and a seller 99% of the pool's payment.
    """
    found = {}
    for row in read_truth(receipts):
        raw = json.loads((receipts / "json" / f"{row['signature']}.json").read_text())
        entry = read_entry(parse_receipt(raw), row["wallet"], table())
        if entry.kind in ("buy", "sell") and entry.venue in VENUE_IDS:
            ((mint, change, decimals),) = entry.venue_tokens
            lamports, venue = abs(entry.venue_sol + entry.fee + entry.tip), VENUE_IDS[entry.venue]
            one = RealSwap("t", AT, venue, entry.kind, mint, decimals, 0, abs(change), lamports)
            error = measured.measure(one, unpack_pool(entry.pool), None).bps
            if error is not None:
                found[row["signature"][:6]] = (venue, entry.kind, error)
    assert found == {
        "2rY9ky": ("raydium", "sell", 0),
        "5dk9JQ": ("raydium", "buy", 0),
        "ofdtgS": ("raydium", "sell", 0),
        "4XQZck": ("pumpfun", "buy", -26),
        "2wkECd": ("pumpfun", "buy", -24),
        "3tJczs": ("pumpfun", "sell", -25),
    }


# ---- in the tables -------------------------------------------------------------------------------
def store_swap(
    number, raw, lamports=SOL, kind="buy", at=AT, venue="Raydium v4", tip=7_000, fee=5_000, **more
):
    """Store an observed wallet's trade as the observer does: fee and tip are in `sol`. `more`:
    entry fields.
    """
    sign, rent = 1 if kind == "buy" else -1, more.pop("rent", 0)
    signature, slot = f"signature {number}", models.WalletSignature.select().count()
    traded = {"block_time": at // 1000, "kind": kind, "venue": venue, "mint": "A"}
    traded |= {"fee": fee, "tip": tip}
    told = {"sol": -sign * lamports - fee - tip, "tokens": (("A", sign * raw, 6),), **more}
    blank = {"flags": (), "residues": (), "balances": ()}
    entry = Entry(signature, slot, None, **blank, rent=rent, **traded, **told)
    listed = {"signature": signature, "slot": slot, "entry": entry}
    observe(str(number), **listed, **traded, sol_change=told["sol"], rent=rent)


def store_snapshot(at, price="0.001", venue="raydium", **more):
    made, _ = Token.get_or_create(mint="A", defaults={"symbol": "AA", "decimals": 6})
    return Snapshot.create(
        **{"token": made, "taken_at": at, "price_sol": price, "pool_sol": "1000", "venue": venue},
        source="dexscreener",
        **more,
    )


def test_observed_swaps_are_measured_once_with_the_earlier_snapshot(db):
    """Purchases that got a hundredth less than the model's result, by the snapshot 20 s before (not
    80 s before or 1 s after) and by their own reserves, and one with a stranger's hundred units and
    55 lamports. The others can't be measured.
    """
    less = BOUGHT * 99 // 100
    pool, early = pool_of(swap(raw=less)).pack(), AT - 21_000 - measured.MAX_AGE_MS
    store_swap("damaged", less)
    models.WalletSignature.update(entry=b"x").execute()
    store_snapshot(early - measured.MAX_AGE_MS - 1)
    store_swap("early", less, at=early)
    store_swap("early with reserves", less, at=early, pool=pool)
    # This one is measured once it has a snapshot.
    store_swap("less", less)
    assert measured.measure_swaps(AT - 1_000) == 1
    store_snapshot(AT - 80_000, "0.0007")
    before = store_snapshot(AT - 20_000)
    store_snapshot(AT + 1_000, "0.002")
    store_swap("less with reserves", less, pool=pool)
    store_swap("of a route", less, pool=("route",))
    beside = {"beside_tokens": (("A", 100, 6),), "beside_sol": 55, "sol": -SOL - 12_000 + 55}
    store_swap("outside value", BOUGHT + 100, **beside)
    store_swap("of two tokens", less, tokens=(("A", 5, 6), ("B", -5, 6)))
    store_swap("routed", less, venue="Jupiter v6 > Raydium v4")
    store_swap("at another venue", less, venue="PumpSwap")
    store_swap("a transfer", less, kind="transfer_in")
    assert measured.measure_swaps(AT + 60_000) == 4
    assert measured.measure_swaps(AT + 120_000) == 0
    assert {row.uid: (row.bps, row.drift_bps, row.raw) for row in RealFill.select()} == {
        "early with reserves": (100, None, str(less)),
        "less": (None, 100, str(less)),
        "less with reserves": (100, 100, str(less)),
        "of a route": (None, 100, str(less)),
        "outside value": (None, 0, str(BOUGHT)),
    }
    assert RealFill.get(uid="early with reserves").snapshot is None
    (row,) = RealFill.select().where(RealFill.uid == "less").dicts()
    about = {"uid": "less", "at": AT, "venue": "raydium", "side": "buy", "mint": "A"}
    about |= {"lamports": SOL, "raw": str(less), "bps": None, "drift_bps": 100}
    about |= {"snapshot": before.id, "age_ms": 20_000, "model": "amm-cp/3"}
    assert row == {"id": row["id"], **about}
    assert RealFill.get(uid="outside value").lamports == SOL


def test_measurements_use_the_ledgers_trades(db):
    """A purchase of 1,000,000 units for 0.001 SOL, which the observer saw."""
    story = Story()
    story.fund("ada", 10**9)
    story.buy("ada", "CAT", 1_000_000, 1_000_000)
    bought = story.rows[-1].receipt["blockTime"] * 1000
    store_snapshot(bought - 20_000)
    Token.update(mint=address("CAT")).execute()
    rebuild(watch(ADA), entries_of(story.chain()))
    models.Trade.update(venue="Raydium v4").execute()
    assert measured.measure_swaps(bought + 60_000) == 1
    row = RealFill.get()
    assert (row.raw, row.lamports) == ("1000000", 1_000_000)


def test_unmeasurable_swaps_do_not_block_newer_ones(db, monkeypatch):
    """Three trades of a token without a snapshot yet, by a bot that is faster than the scout."""
    monkeypatch.setattr(measured, "MAX_SWAPS", 2)
    for number in (1, 2, 3):
        store_swap(number, 1_000, at=AT - measured.MAX_AGE_MS)
    store_snapshot(AT - 5_000)
    store_swap(4, 1_000)
    assert measured.measure_swaps(AT + 60_000) == 1
    assert [row.uid for row in RealFill.select()] == ["4"]


def test_ten_own_receipts_decide_about_a_venue(db):
    """Ten sales a twentieth below the snapshot are drift; as model errors they decide."""
    store_snapshot(AT - 5_000)
    for number in range(10):
        store_swap(number, 10**9, SOLD * 95 // 100, "sell")
    assert measured.measure_swaps(AT + 60_000) == 10

    def find(at):
        errors = measured.list_errors(at)
        return {one.venue: one for one in errors}["raydium"], measured.list_eligible(errors)

    error, eligible = find(AT + DAY_MS)
    assert (error.p90_drift_bps, eligible) == (500, {"pumpfun", "raydium"})
    RealFill.update(bps=500).execute()
    error, eligible = find(AT + DAY_MS)
    assert (error.receipts, error.median_error_bps, eligible) == (10, 500, {"pumpfun"})
    shown = {one["venue"]: one for one in paper.list_venues(AT)}
    assert (shown["raydium"]["source"], shown["raydium"]["p90ErrorBps"]) == ("own", 500)
    assert not shown["raydium"]["eligible"] and shown["pumpfun"]["eligible"]
    assert (shown["pumpswap"]["receipts"], shown["pumpswap"]["medianErrorBps"]) == (0, None)
    # A month later, none of it counts.
    assert find(AT + 31 * DAY_MS)[1] == {"pumpfun", "raydium"}


def test_network_costs_are_recomputed_once_a_day(db):
    """For 30 swaps that paid 5,000 and tips of 1,000 to 30,000 lamports: the 15th, 23rd and 27th.
    Of the 14 that paid rent, the 7th: number 13.
    """
    # Another account paid for it, and a transfer isn't a swap: neither counts.
    store_swap(98, 5, tip=7_777, fee=0)
    store_swap(99, 5, kind="transfer_out", tip=7_777)
    for number in range(29):
        kind = "swap" if number == 14 else "buy"
        rent = 3_000_000 + number if number % 2 else 0
        store_swap(number, 5, kind=kind, tip=1_000 * (number + 1), rent=rent)
    assert measured.refresh_costs(AT) == RECORDED_COSTS
    assert paper.show_costs()["source"] == "recorded"
    store_swap(29, 5, tip=30_000)
    expected = NetworkCosts(20_000, 28_000, 32_000)
    assert measured.refresh_costs(AT) == expected
    store_swap(30, 5, tip=10**6)
    assert measured.refresh_costs(AT + 1) == expected and NetworkCost.select().count() == 1
    # All happened in one second.
    assert NetworkCost.get().since == AT // 1000 * 1000
    shown = paper.show_costs()
    assert (shown["p50Lamports"], shown["receipts"], shown["source"]) == ("20000", 30, "own")
    assert shown["rentLamports"] == "3000013" and shown["measuredAt"].startswith("2027-01-15")
    # The next day both count: the 16th of 31.
    assert measured.refresh_costs(AT + DAY_MS).p50 == 21_000
    assert NetworkCost.select().count() == 2
