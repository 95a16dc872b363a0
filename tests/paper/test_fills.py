"""The fill model amm-cp/3, compared to an oracle that uses fractions and shares no code with it."""

import hashlib
from dataclasses import replace
from fractions import Fraction
from math import isqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from tape import START, quote

from chain.reading.pools import State
from paper import fills
from paper.fills import (
    NEVER_TRADED,
    RENT,
    Memory,
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

SOL = 10**9
# tape.quote: 1,000 SOL and 1,000,000 tokens on Raydium, fee 0.25%.
POOL_SOL, PRICE, FEE = Fraction(1000), Fraction(1, 1000), Fraction(25, 10_000)
TERMS = Terms(6, 0)
# Its depth is unknown.
BLIND = {"pool": None, "liquidity": None}


def order(side="buy", amount=SOL, number=1, handle="calm", **more):
    about = (handle, number, "A", "AA", 6, side, amount, "told", 1)
    return Order(*about, START - 6000, START, START + 1, **more)


def swap_in(sol, pool=POOL_SOL, tokens=POOL_SOL / PRICE, fee=FEE):
    """Tokens that a constant-product pool gives for `sol`, after its fee."""
    paid = sol * (1 - fee)
    return tokens - pool * tokens / (pool + paid)


def swap_out(tokens, pool=POOL_SOL, held=POOL_SOL / PRICE, fee=FEE):
    return (pool - pool * held / (held + tokens)) * (1 - fee)


def received(done):
    return done.mid - done.slippage - done.pool_fee


# ---- one trade -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "venue, cap_usd, bps",
    [
        ("raydium", None, 25),
        ("raydium/cpmm", None, 100),
        ("raydium/clmm", "1000000", 100),
        ("elsewhere", "1000000", 100),
        (None, None, 100),
        # At 200 USD per SOL: 420, 1,470 and 98,240 SOL.
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
def test_uncalibrated_pools_fill_worse_and_do_not_count(venue):
    seen, wide, fee = quote(0, venue=venue), Fraction(95, 100), Fraction(1, 100)
    bought, sold = (fill(one, seen, NEVER_TRADED) for one in (order(), order("sell", 10**9)))
    assert bought.marks == sold.marks == ("uncalibrated",)
    assert 0 <= swap_in(1, fee=fee) * wide * 10**6 - bought.raw < 2
    exact = swap_out(Fraction(1000), fee=Fraction(0)) * wide * (1 - fee)
    assert 0 <= exact * SOL - received(sold) < 3


# ---- launch curves -------------------------------------------------------------------------------
def test_a_launch_curve_follows_from_the_price():
    """At 0.00000004509 SOL a token: 30 SOL x 1,073,000,000 tokens is constant, so sol = sqrt(k *
    p).
    """
    told = "0.000000045096916317"
    snapshot = quote(0, venue="pumpfun", price=told, **BLIND)
    done = fill(order(), snapshot, NEVER_TRADED)
    k, price = 30 * 1_073_000_000, Fraction(told)
    # To nine digits.
    tokens = Fraction(isqrt(int(k / price * 10**18)), 10**9)
    exact = swap_in(1, k / tokens, tokens, Fraction(125, 10_000)) * 10**6
    # To a millionth of a basis point.
    assert abs(exact - done.raw) * 10**10 < exact and not done.marks


# ---- the pool remembers --------------------------------------------------------------------------
def test_a_round_trip_in_a_quiet_pool_pays_its_impact_once():
    """2% of the pool there and back: two fees of 0.25% and nothing else."""
    bought = fill(order(amount=20 * SOL), quote(0), NEVER_TRADED)
    memory = remember(NEVER_TRADED, bought, quote(0))
    sold = fill(order("sell", bought.raw), quote(1, volume="0"), memory)
    result = Fraction(received(sold), 20 * SOL) - 1
    assert Fraction(-51, 10_000) < result < Fraction(-49, 10_000)


SHRUNK = {"pool": "250", "volume": "0"}


@pytest.mark.parametrize(
    "minutes, told, before, after",
    [
        # Both sides are worth 300,000 USD: after 150,000 USD of volume, half of the flow is left.
        (5, {"volume5m_usd": "150000"}, 10 * SOL, 5 * SOL),
        (5, {"volume5m_usd": "150000"}, -10 * SOL, -5 * SOL),
        # A fifth of the five minutes: 30,000 of 150,000.
        (1, {"volume5m_usd": "150000"}, 10 * SOL, 10 * SOL * 150 // 180),
        # Half an hour out of an hour's 300,000.
        (30, {"volume5m_usd": "7", "volume1h_usd": "300000"}, 10 * SOL, 5 * SOL),
        # The same snapshot again, or no volume: nothing fades.
        (0, {}, 10 * SOL, 10 * SOL),
        (9, {"volume": "0"}, 10 * SOL, 10 * SOL),
        # 250 of 1,000 SOL are left, and a quarter of the amount that simulated sales took out.
        (1, SHRUNK, -8 * SOL, -2 * SOL),
        (1, SHRUNK, 8 * SOL, 2 * SOL),
        # A pool of unknown depth is not considered drained.
        (1, BLIND, 10 * SOL, 10 * SOL),
    ],
)
def test_a_pools_memory_erodes_with_volume_and_shrinks_with_the_pool(minutes, told, before, after):
    assert fills.carry(Memory(before, quote(0), 1), quote(minutes, **told), 6) == after


def test_a_pool_whose_depth_was_unknown_is_not_considered_drained():
    memory = Memory(10 * SOL, quote(1, **BLIND), 1)
    assert fills.carry(memory, quote(2, volume="0"), 6) == 10 * SOL


def test_holders_of_a_drained_pool_share_its_rest():
    """Twenty holders of 5,000 tokens, with 0.3 SOL and 300 tokens left: together they get at most
    0.3.
    """
    drained, memory, paid = quote(0, pool="0.3", liquidity="90"), NEVER_TRADED, []
    for number in range(20):
        sale = order("sell", 5_000 * 10**6, number=number)
        done = write_off(sale, drained, quote(0).price, memory)
        memory = remember(memory, done, drained)
        paid.append(done.mid - done.slippage)
    together = Fraction(3, 10) * Fraction(100_000, 100_300) * SOL
    assert 0 <= together - sum(paid) < 60 and paid == sorted(paid, reverse=True)


# ---- limits and taxes ----------------------------------------------------------------------------


@pytest.mark.parametrize("tax", [0, 999])
def test_a_trade_follows_the_constant_product_after_both_fees(tax):
    """The pool's 0.25%, and a token's transfer fee of 9.99% each way."""
    arrives = Fraction(10_000 - tax, 10_000)
    bought = fill(order(transfer_bps=tax), quote(0), NEVER_TRADED, first=True)
    assert 0 <= swap_in(1) * arrives * 10**6 - bought.raw < 2
    assert (bought.pool_fee, bought.rent) == (2_500_000, RENT)
    assert bought.mid + bought.slippage + bought.pool_fee == SOL
    assert bought.cash == -(SOL + bought.network_fee + RENT)
    sale = order("sell", 10**9, transfer_bps=tax)
    sold = fill(sale, quote(0), NEVER_TRADED, last_raw=10**9)
    assert (sold.mid, sold.rent) == (SOL, -RENT) and sold.slippage > 0
    assert 0 <= swap_out(1000 * arrives) * SOL - received(sold) < 3


def test_others_sales_make_no_purchase_cheaper():
    sold = Memory(-100 * SOL, quote(0), 1)
    after, alone = fill(order(), quote(0), sold), fill(order(), quote(0), NEVER_TRADED)
    assert (after.raw, after.slippage) == (alone.raw, alone.slippage)


# ---- the network ---------------------------------------------------------------------------------
def digest_of(number, about=""):
    text = f"calm|{number}|amm-cp/3|0{about}"
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
    numbers = range(4_000)
    assert [is_failing(order(number=number)) for number in numbers] == [
        digest_of(number) % 10_000 < 500 for number in numbers
    ]


def test_changing_a_constant_without_a_new_id_fails(monkeypatch):
    """Everything that determines a fill's payment, with the model's ID. A change needs a new ID and
    its digest.
    """
    assert (fills.MODEL, fills.MODEL_HASH) == ("amm-cp/3", "c46911190b8e02f9")
    monkeypatch.setattr(fills, "FAILURE_BPS", 500)
    constants = fills.list_constants()
    assert ("RENT", 2_039_280) in constants and ("failing", 500) in constants
    assert hashlib.sha256(repr(constants).encode()).hexdigest()[:16] == fills.MODEL_HASH


# ---- what is held --------------------------------------------------------------------------------
def test_a_position_is_worth_its_pools_payout():
    def worth(raw, snapshot, decimals=6, memory=NEVER_TRADED):
        return liquidate(raw, snapshot, Terms(decimals, 0), memory)

    raw = 50_000 * 10**6
    assert 0 <= swap_out(Fraction(50_000)) * SOL - worth(raw, quote(0)) < 3
    assert worth(raw, quote(0, price="0")) == worth(raw, quote(0, price=None)) == 0
    # With unknown depth, as if all of it could be sold at the wide price of a part.
    assert worth(raw, quote(0, **BLIND)) == 50 * SOL * 95 // 100 * 9_975 // 10_000
    # One unit without decimals: 10**12 lamports // 1,000,001 minus 25 basis points.
    assert (worth(1, quote(0), 0), worth(0, quote(0), 0)) == (999_999 - 2_500, 0)
    # Simulated trades took out all 1,000 SOL.
    empty = Memory(-1_000 * SOL, quote(0), 1)
    assert worth(10**9, quote(0), memory=empty) == 0
    assert fill(order("sell", 10**9), quote(0), empty) is None


@pytest.mark.parametrize(
    "changes, entry, gone",
    [
        ({}, 300_000_00, False),
        ({"pool": "0"}, 300_000_00, True),
        ({"liquidity": "15000"}, 300_000_00, False),
        ({"liquidity": "14999.99"}, 300_000_00, True),
        ({"liquidity": None, "pool": None}, 300_000_00, False),
        ({"liquidity": "100"}, None, False),
        ({"liquidity": "99.99"}, None, True),
    ],
)
def test_liquidity_is_gone_below_100_usd_or_a_twentieth_of_the_entry(changes, entry, gone):
    assert is_gone(quote(0, **changes), entry) is gone


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


@settings(max_examples=examples(100), deadline=None)
@given(PRICES, POOLS, LIQUIDITY, VENUE, st.integers(0, 18), st.lists(WANTED, max_size=10))
def test_no_pool_creates_lamports(price, pool, liquidity, venue, decimals, wanted):
    """Any price from 1e-15 to 9e10 SOL, any pool, any decimals, no volume that refills it: all
    withdrawals together are at most the pool's content plus deposits.
    """
    about = {"price": price, "pool": pool, "liquidity": liquidity, "venue": venue}
    number, memory, net = 0, NEVER_TRADED, 0
    for side, amount, tax in wanted:
        if side == "later":
            number += 1
            continue
        snapshot = quote(number, **about, volume="0")
        one = order("buy" if side == "buy" else "sell", amount, transfer_bps=tax)
        one = replace(one, decimals=decimals)
        if side == "gone":
            done = write_off(one, snapshot, snapshot.price, memory)
        else:
            done = fill(one, snapshot, memory, first=side == "buy", last_raw=amount)
        if done is None:
            continue
        memory = remember(memory, done, snapshot)
        assert min(done.raw, done.mid, done.pool_fee, done.network_fee) >= 0
        assert done.cash == -done.moved - done.fees - done.rent
        if done.side == "buy":
            assert done.moved + done.pool_fee <= amount
        else:
            assert done.mid >= done.slippage
        if "liquidity_unknown" not in done.marks:
            net += done.moved
            found = fills.find_pool(snapshot, decimals) if snapshot.price else None
            assert found is None or net + found.payable >= 0
        assert liquidate(amount, snapshot, Terms(decimals, tax), memory) >= 0
    assert memory.flow == net


def exact_sale(raw, price, decimals, reserve, venue):
    """The constant product's payment for raw units at a snapshot's price, as a fraction of lamports
    before the fee, computed independently.
    """
    each = Fraction(price) * 10**9 / 10**decimals
    if venue == "pumpfun":
        product = Fraction(30 * 10**9 * 1_073_000_000 * 10**6)
        # held * held * each == product; a rational number just below the root.
        held = Fraction(isqrt(int(product / each * 10**20)), 10**10)
        return product / held - product / (held + raw)
    tokens = reserve / each
    return reserve - reserve * tokens / (tokens + raw)


@settings(max_examples=examples(400), deadline=None)
@given(
    st.integers(1, 10**18),
    st.integers(1, 10**13),
    st.integers(0, 18),
    st.integers(1, 10**13),
    st.sampled_from(["raydium", "raydium/cpmm", "pumpfun"]),
)
def test_no_sale_beats_the_exact_formula(raw, price, decimals, reserve, venue):
    """At 0 to 18 decimals; `python -m bench sales` tries 100,000."""
    text, pool = f"{price}e-15", f"{reserve}e-9"
    snapshot = quote(0, price=text, pool=pool, venue=venue, market_cap_usd=None)
    found = fills.quote("sell", raw, snapshot, Terms(decimals, 0), NEVER_TRADED, 0)
    # Below its first price, a launch curve doesn't exist, so no formula applies.
    first = Fraction(30, 1_073_000_000)
    is_curve = decimals == 6 and Fraction(text) >= first
    if found is not None and (venue != "pumpfun" or is_curve):
        paid = found.mid - found.slippage
        assert paid <= exact_sale(found.raw, Fraction(text), decimals, reserve, venue)


def test_pumpswap_uses_vault_and_virtual_reserves():
    """A vault of 100 SOL priced as if it had 130: at 200 USD a SOL its tokens are worth 26,000,
    both sides 46,000. The fee of 1.25% is deducted from 1 SOL first.
    """
    told = {"venue": "pumpswap", "pool": "100", "price": "0.001", "price_usd": "0.2"}
    snapshot = quote(0, **told, liquidity="46000")
    assert fills.find_virtual(snapshot) == 30 * SOL
    tokens = 130_000 * 10**6
    assert fills.find_pool(snapshot, 6) == (130 * SOL, tokens, 100 * SOL, tokens)
    net = SOL - 12_500_000
    found = fills.quote("buy", SOL, snapshot, TERMS, NEVER_TRADED, 0)
    assert found.raw == tokens * net // (130 * SOL + net)
    # Worth at most the vault, worth more than twice as much, or unknown.
    for liquidity, virtual in (("40000", 0), ("39000", 0), ("90000", 100 * SOL), (None, 0)):
        assert fills.find_virtual(quote(0, **told, liquidity=liquidity)) == virtual
    assert fills.find_pool(quote(0, **{**told, "venue": "raydium"}, liquidity="46000"), 6).sol == (
        100 * SOL
    )


# ---- what passes through a pool ------------------------------------------------------------------
def test_a_side_is_half_the_liquidity_or_follows_from_the_curve():
    """At 30 SOL x 1.073e9 tokens and 0.00000004 SOL a token, the curve contains sqrt(k p) =
    35.88... SOL, at 200 USD each 7,176 USD.
    """
    assert fills.find_side_cents(quote(0, liquidity="300000.02")) == 150_000_01
    told = {"venue": "pumpfun", "price": "0.00000004", **BLIND}
    # The USD price gives the price of a SOL: 0.000008 / 0.00000004 = 200.
    curve = quote(0, **told, price_usd="0.000008")
    assert curve.sol_cents == 200_00
    exact = Fraction(30 * 1_073_000_000 * 4, 10**8)
    side = fills.find_side_cents(curve)
    assert (Fraction(side, 20_000)) ** 2 <= exact < (Fraction(side + 1, 20_000)) ** 2
    # A price off the curve, a SOL without a price, another venue.
    assert fills.find_side_cents(quote(0, **{**told, "price": "1"}, price_usd="200")) is None
    assert fills.find_side_cents(quote(0, **told)) is None
    assert fills.find_side_cents(quote(0, **BLIND, price_usd="0.2")) is None


# ---- closed at once ------------------------------------------------------------------------------
def test_a_day_without_a_price_closes_at_zero():
    """2,000 tokens at a mark of 0.001: 2 SOL are lost; the network is paid, and the rent is
    returned.
    """
    one, costs = order("sell", 2_000 * 10**6), NetworkCosts(7, 7, 7)
    # No pool is involved, whatever it is.
    done = fills.close_at_nothing(one, quote(3, venue="orca"), quote(0).price, costs)
    assert (done.raw, done.mid, done.slippage, done.pool_fee) == (2_000 * 10**6, *[2 * SOL] * 2, 0)
    assert (done.network_fee, done.rent, done.cash) == (7, -RENT, RENT - 7)
    assert (done.turn, done.flow, done.marks, done.costs) == (0, 0, (), costs)
    assert (done.snapshot, done.at, done.reason) == (quote(3).id, quote(3).at, "told")
    assert remember(NEVER_TRADED, done, quote(3)) == NEVER_TRADED


def test_a_write_off_pays_its_venues_fee_and_at_most_the_mark():
    """1,000 tokens into a million against 1,000 SOL, at 500,000 USD of market cap: 2,500 SOL, from
    which on the fee is 1.10%. The mark is half the price, and the pool is used at that price.
    """
    cap = quote(0, venue="pumpswap", market_cap_usd="500000", price_usd="0.2")
    one = order("sell", 10**9)
    done = write_off(one, cap, cap.price, NEVER_TRADED)
    paid = 1_000 * SOL * 10**9 // (10**12 + 10**9)
    assert done.mid - done.slippage == paid and done.mid == SOL
    assert done.pool_fee == -(-paid * 110 // 10_000)
    # Two million tokens against 1,000 SOL.
    half = write_off(one, cap, cap.price // 2, NEVER_TRADED)
    assert half.mid == SOL // 2
    assert half.mid - half.slippage == 1_000 * SOL * 10**9 // (2 * 10**12 + 10**9)
    gone = write_off(one, quote(5, price=None), quote(0).price, Memory(5, quote(0), 3))
    assert (gone.mid, gone.slippage, gone.pool_fee, gone.rent) == (0, 0, 0, -RENT)
    assert (gone.flow, gone.turn) == (5, 4)


# ---- at the edges --------------------------------------------------------------------------------
SEVEN = {"price": "0.0007", **BLIND}


def test_with_unknown_depth_one_sol_moves_at_most():
    """0.9975 SOL each way buys 1,425 tokens at 0.0007, minus 5%; a sale is limited to one SOL's
    worth, 1,428.57 tokens, which pay 0.95 SOL minus the truncated lamport.
    """
    blind = quote(0, **SEVEN)
    assert fill(order(), blind, NEVER_TRADED).raw == 1_425_000_000 * 95 // 100
    done = fill(order("sell", 10**12), blind, NEVER_TRADED)
    assert (done.raw, done.mid) == (1_428_571_428, 1_428_571_428 * 7 // 10)
    assert type(done.raw) is int and done.mid - done.slippage == done.mid * 95 // 100
    # The rest is unknown until the next snapshot; a failed attempt took nothing.
    after = remember(NEVER_TRADED, done, blind)
    assert after == Memory(0, blind, 1, blind.id) and fill(order(), blind, after) is None
    assert fill(order(), quote(1, **SEVEN), after) is not None
    failed = replace(done, failed=True)
    assert remember(NEVER_TRADED, failed, blind).blind is None
    assert remember(Memory(0, None, 0, 3), failed, blind).blind == 3
    fair = quote(0)
    assert remember(NEVER_TRADED, fill(order(), fair, NEVER_TRADED), fair).blind is None


def test_a_limit_accepts_an_equal_amount_and_less_only_pays_the_network():
    fair = fill(order(), quote(0), NEVER_TRADED).raw
    sale = received(fill(order("sell", 10**9), quote(0), NEVER_TRADED))
    for side, amount, least in (("buy", SOL, fair), ("sell", 10**9, sale)):
        assert not fill(order(side, amount, least=least), quote(0), NEVER_TRADED).failed
        failed = fill(order(side, amount, least=least + 1), quote(0), NEVER_TRADED)
        assert failed.failed and "slippage_exceeded" in failed.marks
        assert failed.raw == 0 and failed.cash == -failed.network_fee < 0


@pytest.mark.parametrize(
    "told, marks",
    [({}, ()), ({"venue": "orca"}, ("uncalibrated",)), (SEVEN, ("liquidity_unknown",))],
)
def test_a_fall_two_providers_saw_is_flagged(told, marks):
    """From 21 times the price, which the second provider confirms."""
    seen = quote(0, **told)
    fallen = replace(seen, fell_from=21 * seen.price, second_price=seen.price)
    assert fill(order(), fallen, NEVER_TRADED).marks == (*marks, "fall_seen_twice")


def test_a_pool_moves_along_its_curve_and_ends_at_zero():
    """100 by 100: twice the lamports leave half of the tokens, and half the lamports leave twice as
    many. Units round against the trader: 10,000 by 97 is 103.09.
    """
    pool = State(100, 100, 50, 20)
    assert fills.shift(pool, 100) == (200, 50, 150, 0)
    assert fills.shift(pool, -50) == (50, 200, 0, 120)
    assert fills.shift(pool, -3) == (97, 104, 47, 24)
    assert fills.shift(pool, -3, "buy").raw == 103
    assert fills.shift(pool, -100) == (0, 0, 0, 0) == fills.shift(pool, -101)
    # 7 lamports at 3 SOL for a token without decimals: none to buy, one to sell against.
    tiny = quote(0, price="3", pool="7e-9")
    assert [fills.find_pool(tiny, 0, side).raw for side in ("buy", "sell")] == [0, 1]


def test_pools_are_identified_by_pair_or_mint():
    assert (fills.pool_key(quote(0, pair="P")), fills.pool_key(quote(0))) == ("P", "A")


def test_the_shortest_covering_window_gives_the_volume():
    """On a side of 150,000 USD: 300 USD in five minutes, 1,200 in an hour, 4,800 in a day; beyond a
    day, or if only shorter windows are known, at that rate.
    """
    every = {"volume5m_usd": "300", "volume1h_usd": "1200", "volume": "4800"}

    def passed(minutes, **told):
        side, volume = fills.turnover(quote(0), quote(minutes, **{**every, **told}))
        assert side == 150_000_00
        return volume

    assert [passed(minutes) for minutes in (1, 5, 6, 60)] == [60_00, 300_00, 120_00, 1_200_00]
    assert passed(61) == 4_800_00 * 61 // 1_440 and passed(2 * 1_440) == 9_600_00
    assert passed(10, volume1h_usd=None, volume="nonsense") == 600_00
    # 31 seconds count as a minute, 30 don't.
    late = [quote(0, at=START + seconds * 1_000) for seconds in (30, 31)]
    known = [replace(one, id=9, volume5m=300_00) for one in late]
    assert [fills.turnover(quote(0), one)[1] for one in known] == [0, 60_00]


@pytest.mark.parametrize("end, beyond", [(2_771_010 * 10**8, -1), (1_083_730 * 10**9, 1)])
def test_a_curve_ends_one_percent_beyond_its_maximum(end, beyond):
    """99% of the 279,900,000 tokens that can't be bought; 101% of all 1,073,000,000. Lamports times
    raw units are constant on it; a price is 10**24 of a SOL for 10**6 raw units.
    """
    for tokens, lies in ((end, True), (end + beyond, False)):
        price = 30 * 1_073 * 10**21 * 10**6 * 10**24 // (10**9 * tokens**2)
        found = fills.find_pool(replace(quote(0, venue="pumpfun"), price=price), 6)
        assert (found and found.raw) == (tokens if lies else None)
