"""The fill model amm-cp/2. The oracle beside it is written with fractions and shares no code with
it.
"""

import hashlib
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tape import MINUTE, START, quote

from paper import fills, fingerprint, pools
from paper.fills import (
    RENT,
    NetworkCosts,
    Order,
    Terms,
    fill,
    is_failing,
    is_gone,
    liquidate,
    remember,
    write_off,
)
from paper.pools import NEVER_TRADED, Memory

SOL = 10**9
# tape.quote: 1,000 SOL beside 1,000,000 tokens, on Raydium: 0.25 %.
POOL_SOL, PRICE, FEE = Fraction(1000), Fraction(1, 1000), Fraction(25, 10_000)
TERMS = Terms(6, 0)


@pytest.fixture(autouse=True)
def lucky(monkeypatch):
    monkeypatch.setattr("paper.fills.FAILURE_BPS", 0)


def order(side="buy", amount=SOL, number=1, handle="calm", **more):
    return Order(
        handle,
        number,
        "A",
        "AA",
        6,
        side,
        amount,
        "told",
        1,
        START - 6000,
        START,
        START + 1,
        **more,
    )


def swap_in(sol, pool=POOL_SOL, tokens=POOL_SOL / PRICE, fee=FEE):
    """Tokens a constant-product pool gives for `sol`, its fee taken first."""
    paid = sol * (1 - fee)
    return tokens - pool * tokens / (pool + paid)


def swap_out(tokens, pool=POOL_SOL, held=POOL_SOL / PRICE, fee=FEE):
    return (pool - pool * held / (held + tokens)) * (1 - fee)


def received(done):
    return done.mid - done.slippage - done.pool_fee


# ---- one trade -----------------------------------------------------------------------------------
def test_a_buy_pays_up():
    done = fill(order(), quote(0), NEVER_TRADED, first=True)
    assert 0 <= swap_in(1) * 10**6 - done.raw < 2
    # 0.25 % of 1 SOL.
    assert (done.pool_fee, done.rent) == (2_500_000, RENT)
    assert done.mid + done.slippage + done.pool_fee == SOL
    assert done.cash == -(SOL + done.network_fee + RENT)


def test_a_sale_receives_less():
    done = fill(order("sell", 10**9), quote(0), NEVER_TRADED, last_raw=10**9)
    assert done.mid == SOL and done.slippage > 0 and done.rent == -RENT
    assert 0 <= swap_out(Fraction(1000)) * SOL - received(done) < 3


@pytest.mark.parametrize(
    "venue, cap_usd, bps",
    [
        ("raydium", None, 25),
        ("raydium/cpmm", None, 100),
        ("raydium/clmm", "1000000", 100),
        ("elsewhere", "1000000", 100),
        (None, None, 100),
        # Of a SOL at 200 USD: 420 and 1,470 and 98,240 SOL.
        ("pumpswap", "83999", 125),
        ("pumpswap", "84000", 120),
        ("pumpswap", "293999", 120),
        ("pumpswap", "294001", 115),
        ("pumpswap", "19647999", 65),
        ("pumpswap", "19648001", 30),
        ("pumpswap", None, 125),
    ],
)
def test_the_fee_follows_venue_and_market_capitalization(venue, cap_usd, bps):
    snapshot = quote(0, venue=venue, market_cap_usd=cap_usd, price_usd="0.2")
    done = fill(order(), snapshot, NEVER_TRADED)
    assert done.pool_fee == SOL * bps // 10_000


@pytest.mark.parametrize("venue", ["raydium/clmm", "meteora/dlmm", "orca", "elsewhere", None])
def test_pools_that_nobody_can_price_are_filled_wide_and_do_not_count(venue):
    done = fill(order(), quote(0, venue=venue), NEVER_TRADED)
    exact = swap_in(1, fee=Fraction(1, 100)) * Fraction(95, 100) * 10**6
    assert 0 <= exact - done.raw < 2 and done.marks == ("uncalibrated",)
    sold = fill(order("sell", 10**9), quote(0, venue=venue), NEVER_TRADED)
    exact = swap_out(Fraction(1000), fee=Fraction(0)) * Fraction(95, 100) * Fraction(99, 100)
    assert 0 <= exact * SOL - received(sold) < 3 and sold.marks == ("uncalibrated",)


# ---- launch curves -------------------------------------------------------------------------------
def test_a_launch_curve_follows_from_the_price_alone():
    """At 0.00000004509 SOL a token: 30 SOL x 1,073,000,000 tokens stay, so sol = sqrt(k * p)."""
    told = "0.000000045096916317"
    snapshot = quote(0, venue="pumpfun", price=told, pool=None, liquidity=None)
    done = fill(order(), snapshot, NEVER_TRADED)
    k, price = Fraction(30 * 1_073_000_000), Fraction(told)
    # The root to 18 digits, by Newton's steps.
    tokens = Fraction(800_000_000)
    for _ in range(8):
        tokens = (tokens + k / price / tokens) / 2
        tokens = Fraction(round(tokens * 10**9), 10**9)
    exact = swap_in(1, k / tokens, tokens, Fraction(125, 10_000)) * 10**6
    # To a millionth of a basis point.
    assert abs(exact - done.raw) * 10**10 < exact and not done.marks


def test_a_curve_pays_out_no_more_than_was_paid_in():
    """At its first price a curve holds 30 virtual SOL and nothing else."""
    first = format(Fraction(30, 1_073_000_000).__float__(), ".18f")
    snapshot = quote(0, venue="pumpfun", price=first, pool=None, liquidity=None)
    assert received(fill(order("sell", 10**15), snapshot, NEVER_TRADED)) <= 0
    bought = fill(order(), snapshot, NEVER_TRADED)
    after = remember(NEVER_TRADED, bought, snapshot)
    sold = fill(order("sell", bought.raw), snapshot, after)
    assert 0 < sold.mid - sold.slippage <= bought.mid + bought.slippage


def test_a_price_on_no_curve_is_not_calibrated():
    snapshot = quote(0, venue="pumpfun", price="1", pool=None, liquidity=None)
    assert fill(order(), snapshot, NEVER_TRADED).marks == ("liquidity_unknown",)


# ---- the pool remembers --------------------------------------------------------------------------
def test_a_round_trip_in_a_quiet_pool_pays_its_impact_once():
    """2 % of the pool there and back: two fees of 0.25 % and nothing else."""
    snapshot = quote(0)
    bought = fill(order(amount=20 * SOL), snapshot, NEVER_TRADED)
    memory = remember(NEVER_TRADED, bought, snapshot)
    later = quote(1, volume="0")
    sold = fill(order("sell", bought.raw), later, memory)
    result = Fraction(received(sold), 20 * SOL) - 1
    assert Fraction(-51, 10_000) < result < Fraction(-49, 10_000)


def test_volume_that_passes_wears_the_memory_away():
    """Both sides are worth 300,000 USD: after 150,000 USD of volume half of the flow is left."""
    memory = Memory(10 * SOL, quote(0), 1)
    five_minutes = quote(5, volume5m_usd="150000")
    assert pools.carry(memory, five_minutes, 6) == 5 * SOL
    # A fifth of the five minutes: 30,000 of 150,000.
    assert pools.carry(memory, quote(1, volume5m_usd="150000"), 6) == 10 * SOL * 150 // 180
    # Half an hour, of an hour's 300,000.
    hourly = quote(30, volume5m_usd="7", volume1h_usd="300000")
    assert pools.carry(memory, hourly, 6) == 5 * SOL
    assert pools.carry(memory._replace(flow=-10 * SOL), five_minutes, 6) == -5 * SOL
    # The same snapshot again, or no volume: nothing wears away.
    assert pools.carry(memory, quote(0), 6) == 10 * SOL
    assert pools.carry(memory, quote(9, volume="0"), 6) == 10 * SOL


def test_a_position_of_a_drained_pool_is_not_dripped_out_of_it():
    """1 SOL bought at 20 SOL, the pool drained to 1.2 at the same price: 950 tokens into 1,143 and
    1.26 SOL bring 0.57 SOL.
    """
    deep = quote(0, pool="20", liquidity="6000")
    bought = fill(order(), deep, NEVER_TRADED)
    memory = remember(NEVER_TRADED, bought, deep)
    total = 0
    for number in range(1, 11):
        thin = quote(number, pool="1.2", liquidity="360", volume="0")
        done = fill(order("sell", bought.raw // 10, number=number), thin, memory)
        memory, total = remember(memory, done, thin), total + received(done)
    assert total < SOL * 58 // 100
    # At once or in ten parts is the same to the pool.
    whole = fill(
        order("sell", bought.raw // 10 * 10),
        quote(1, pool="1.2", liquidity="360", volume="0"),
        remember(NEVER_TRADED, bought, deep),
    )
    assert abs(received(whole) - total) < SOL // 10_000


def test_all_holders_of_a_drained_pool_share_what_it_holds():
    """Twenty holders of 5,000 tokens beside 0.3 SOL and 300 tokens: together no more than 0.3."""
    drained, memory, paid = quote(0, pool="0.3", liquidity="90"), NEVER_TRADED, []
    for number in range(20):
        done = write_off(
            order("sell", 5_000 * 10**6, number=number), drained, quote(0).price, memory
        )
        memory = remember(memory, done, drained)
        paid.append(done.mid - done.slippage)
    together = Fraction(3, 10) * Fraction(100_000, 100_300) * SOL
    assert 0 <= together - sum(paid) < 60 and paid == sorted(paid, reverse=True)


def test_what_others_sold_makes_no_purchase_cheaper():
    memory = Memory(-100 * SOL, quote(0), 1)
    alone = fill(order(), quote(0), NEVER_TRADED)
    after = fill(order(), quote(0), memory)
    assert (after.raw, after.slippage) == (alone.raw, alone.slippage)


# ---- limits and taxes ----------------------------------------------------------------------------
def test_an_order_far_worse_than_quoted_fails_and_pays_the_network():
    """Quoted 1,000,000 raw units; the limit is a twentieth."""
    fair = fill(order(), quote(0), NEVER_TRADED)
    limited = order(least=fair.raw * 95 // 100)
    assert not fill(limited, quote(0, price="0.00105"), NEVER_TRADED).failed
    failed = fill(limited, quote(0, price="0.0191"), NEVER_TRADED)
    assert failed.failed and "slippage_exceeded" in failed.marks
    assert failed.raw == 0 and failed.cash == -failed.network_fee < 0


def test_a_transfer_fee_is_charged_both_ways():
    """9.99 % each way."""
    bought = fill(order(transfer_bps=999), quote(0), NEVER_TRADED)
    plain = fill(order(), quote(0), NEVER_TRADED)
    assert 0 <= Fraction(plain.raw) * 9_001 / 10_000 - bought.raw < 1
    sold = fill(order("sell", 10**9, transfer_bps=999), quote(0), NEVER_TRADED)
    arrived = Fraction(1000) * 9_001 / 10_000
    assert 0 <= swap_out(arrived) * SOL - received(sold) < 3


# ---- the network ---------------------------------------------------------------------------------
def digest_of(number, about=""):
    text = f"calm|{number}|amm-cp/2|0{about}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def test_network_fees_are_drawn_from_the_published_quantiles():
    costs = NetworkCosts(25_000, 776_831, 3_047_000)

    def expected(number):
        place = Fraction(5_000 + digest_of(number, "|fee") % 4_001, 10_000)
        if place < Fraction(3, 4):
            return 25_000 + (776_831 - 25_000) * (place - Fraction(1, 2)) / Fraction(1, 4)
        return 776_831 + (3_047_000 - 776_831) * (place - Fraction(3, 4)) / Fraction(15, 100)

    drawn = [fills.draw_network_fee(order(number=number), costs) for number in range(2_000)]
    assert all(0 <= expected(number) - fee < 1 for number, fee in enumerate(drawn))
    assert min(drawn) < 40_000 and max(drawn) > 3_000_000


def test_one_attempt_in_twenty_fails(monkeypatch):
    monkeypatch.setattr("paper.fills.FAILURE_BPS", 500)
    numbers = range(20_000)
    assert [is_failing(order(number=number)) for number in numbers] == [
        digest_of(number) % 10_000 < 500 for number in numbers
    ]


def test_changing_a_constant_without_a_new_id_fails():
    """All that decides what a fill pays, beside the model's id. A change needs a new id, and the
    digest of that.
    """
    assert (fills.MODEL, fingerprint.MODEL_HASH) == ("amm-cp/2", "d7e6e4073d1d96b7")
    assert ("RENT", 2_039_280) in fingerprint.list_constants()


# ---- what is held --------------------------------------------------------------------------------
def test_a_position_is_worth_what_its_pool_would_pay():
    raw = 50_000 * 10**6
    exact = swap_out(Fraction(50_000)) * SOL
    assert 0 <= exact - liquidate(raw, quote(0), TERMS, NEVER_TRADED) < 3
    assert liquidate(raw, quote(0, price="0"), TERMS, NEVER_TRADED) == 0
    assert liquidate(raw, quote(0, price=None), TERMS, NEVER_TRADED) == 0
    # Of unknown depth: as if all of it could be sold at the wide price of a part.
    blind = quote(0, pool=None, liquidity=None)
    assert liquidate(raw, blind, TERMS, NEVER_TRADED) == 50 * SOL * 95 // 100 * 9_975 // 10_000


@pytest.mark.parametrize(
    "changes, gone",
    [
        ({}, False),
        ({"pool": "0"}, True),
        ({"liquidity": "99.99"}, True),
        ({"liquidity": "15000"}, False),
        ({"liquidity": "14999.99"}, True),
        ({"liquidity": None, "pool": None}, False),
    ],
)
def test_liquidity_is_gone_below_100_usd_or_a_twentieth_of_the_entry(changes, gone):
    """Under 100 USD, or under a twentieth of the 300,000 USD at entry."""
    assert is_gone(quote(0, **changes), 300_000_00) is gone


def test_a_hundred_dollars_are_still_there():
    assert not is_gone(quote(0, liquidity="100"), None)
    assert is_gone(quote(0, liquidity="99.99"), None)


# ---- whatever a pool is like ---------------------------------------------------------------------
PRICES = st.builds(lambda digit, power: f"{digit}e{power}", st.integers(1, 9), st.integers(-15, 10))
POOLS = st.one_of(
    st.none(),
    st.decimals("0.01", "1000000", places=9).map(str),
    st.sampled_from(["0", "NaN", "Infinity", "-1", "nonsense"]),
)
LIQUIDITY = st.sampled_from([None, "0", "99.99", "72000", "1000000", "NaN", "-Infinity"])
VENUE = st.sampled_from(["raydium", "pumpswap", "pumpfun", "raydium/clmm", None])
WANTED = st.tuples(
    st.sampled_from(["buy", "sell", "gone", "later"]), st.integers(1, 10**24), st.integers(0, 999)
)


@settings(max_examples=300, deadline=None)
@given(PRICES, POOLS, LIQUIDITY, VENUE, st.integers(0, 18), st.lists(WANTED, max_size=10))
def test_no_pool_raises_and_no_lamport_is_made(price, pool, liquidity, venue, decimals, wanted):
    """Any price from 1e-15 to 9e10 SOL, any pool, any decimals, no volume that refills it: what all
    take out together is what the pool held and what they put in.
    """
    number, memory, net = 0, NEVER_TRADED, 0
    snapshot = quote(0, price=price, pool=pool, liquidity=liquidity, venue=venue, volume="0")
    for side, amount, tax in wanted:
        if side == "later":
            number += 1
            more = {"price": price, "pool": pool, "liquidity": liquidity, "venue": venue}
            snapshot = quote(number, **more, volume="0")
            continue
        one = replace(
            order("buy" if side == "buy" else "sell", amount, transfer_bps=tax), decimals=decimals
        )
        if side == "gone":
            done = write_off(one, snapshot, snapshot.price, memory)
        else:
            done = fill(one, snapshot, memory, first=side == "buy", last_raw=amount)
        if done is None:
            continue
        memory = remember(memory, done, snapshot)
        assert min(done.raw, done.mid, done.pool_fee, done.network_fee) >= 0
        assert done.side == "buy" or done.mid >= done.slippage
        assert done.cash == -done.moved - done.fees - done.rent
        assert done.side == "sell" or done.moved + done.pool_fee <= amount
        if "liquidity_unknown" not in done.marks:
            net += done.moved
            found = pools.find_pool(snapshot, decimals) if snapshot.price else None
            assert found is None or net + found.payable >= 0
        assert liquidate(amount, snapshot, Terms(decimals, tax), memory) >= 0
    assert memory.flow == net


def test_every_minute_is_another_quote():
    """What the tests above lean on."""
    assert quote(0).quote != quote(1).quote and quote(1).at - quote(0).at == MINUTE


# ---- what passes through a pool ------------------------------------------------------------------
def test_a_side_is_half_of_the_liquidity_or_follows_from_the_curve():
    """At 30 SOL x 1.073e9 tokens and 0.00000004 SOL a token the curve holds sqrt(k p) = 35.88...
    SOL, at 200 USD each 7,176 USD.
    """
    assert pools.find_side_cents(quote(0, liquidity="300000.02")) == 150_000_01
    told = {"venue": "pumpfun", "price": "0.00000004", "pool": None, "liquidity": None}
    # The price in USD tells what a SOL costs: 0.000008 / 0.00000004 = 200.
    curve = quote(0, **told, price_usd="0.000008")
    assert curve.sol_cents == 200_00
    exact = Fraction(30 * 1_073_000_000 * 4, 10**8)
    side = pools.find_side_cents(curve)
    assert (Fraction(side, 20_000)) ** 2 <= exact < (Fraction(side + 1, 20_000)) ** 2
    # A price on no curve, a SOL without a price, another venue.
    assert pools.find_side_cents(quote(0, **{**told, "price": "1"}, price_usd="200")) is None
    assert pools.find_side_cents(quote(0, **told)) is None
    assert pools.find_side_cents(quote(0, pool=None, liquidity=None, price_usd="0.2")) is None
