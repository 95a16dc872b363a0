"""The fill models before amm-cp/2, which make their fills again. The oracle beside them is written
with fractions and shares no code with them.
"""

import hashlib
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tape import START, quote

from paper import first_fills as fills
from paper.fills import RENT, Order, is_gone
from paper.first_fills import NETWORK_FEE, PoolUsage, fill, is_failing, write_off

SOL = 10**9
# tape.quote: 1,000 SOL beside 1,000,000 tokens.
POOL_SOL, PRICE = Fraction(1000), Fraction(1, 1000)


def order(side="buy", amount=SOL, number=1, handle="calm", **more):
    """One that does not fail at its first attempt, see test_failures."""
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
        START + 180_000,
        **more,
    )


def swap_in(sol, pool=POOL_SOL, tokens=POOL_SOL / PRICE):
    """Tokens a constant-product pool gives for `sol`, its fee of 0.3 % taken first."""
    paid = sol * Fraction(997, 1000)
    return tokens - pool * tokens / (pool + paid)


def swap_out(tokens, pool=POOL_SOL, held=POOL_SOL / PRICE):
    return (pool - pool * held / (held + tokens)) * Fraction(997, 1000)


def test_a_buy_pays_up():
    done = fill(order(), quote(0), PoolUsage(), first=True)
    # 996.006... tokens, rounded down.
    assert 0 <= swap_in(1) * 10**6 - done.raw < 2
    # Less than the price alone would give.
    assert done.raw < 997 * 10**6
    # 0.3 % of 1 SOL.
    assert (done.pool_fee, done.network_fee, done.rent) == (
        3_000_000,
        55_000,
        RENT,
    )
    # A raw unit is worth a lamport here.
    assert done.mid == done.raw and done.mid + done.slippage + done.pool_fee == SOL
    assert done.cash == -(SOL + NETWORK_FEE + RENT)


def test_a_sale_receives_less():
    done = fill(order("sell", 1000 * 10**6), quote(0), PoolUsage(), last_raw=1000 * 10**6)
    expected = swap_out(Fraction(1000)) * SOL
    assert done.mid == SOL and done.slippage > 0
    assert 0 <= expected - (done.mid - done.slippage - done.pool_fee) < 3
    assert (
        done.rent == -RENT
        and done.cash == done.mid - done.slippage - done.pool_fee - NETWORK_FEE + RENT
    )


def test_rent_comes_back_with_the_last_unit_only():
    assert fill(order("sell", 5 * 10**6), quote(0), PoolUsage(), last_raw=10 * 10**6).rent == 0
    assert fill(order(), quote(0), PoolUsage(), first=False).rent == 0


def test_what_is_worth_less_than_a_lamport_is_no_purchase():
    """One lamport of room in the pool buys some units of a cheap token, whose value at the
    snapshot's own price is cut to 0: a position without a price.
    """
    cheap, usage = quote(0, price="0.0000026"), PoolUsage()
    usage.sol_in = 20 * SOL - 1
    assert fill(order(), cheap, usage, first=True) is None
    # Of two lamports 754 units, worth 1.96.
    usage.sol_in = 20 * SOL - 2
    assert fill(order(), cheap, usage, first=True).mid == 1
    usage.sol_in = 20 * SOL - 10
    assert fill(order(), cheap, usage, first=True).mid > 0


def test_at_most_two_percent_of_the_pool():
    done = fill(order(amount=100 * SOL), quote(0), PoolUsage(), first=True)
    # 2 % of 1,000 SOL.
    assert done.mid + done.slippage == 20 * SOL
    sold = fill(order("sell", 10**6 * 10**6), quote(0), PoolUsage())
    assert 20 * SOL - 2 * 1000 < sold.mid - sold.slippage <= 20 * SOL


def test_the_same_liquidity_is_used_once():
    usage = PoolUsage()
    first = fill(order(amount=15 * SOL), quote(0), usage, first=True)
    usage.add(first)
    second = fill(order(amount=15 * SOL, number=2), quote(0), usage, first=True)
    usage.add(second)
    # The later one pays more.
    assert second.slippage * first.mid > first.slippage * second.mid
    assert first.mid + first.slippage + second.mid + second.slippage == 20 * SOL
    assert (
        fill(order(number=3), quote(0), usage) is None
        and fill(order("sell", 10**6, number=3), quote(0), usage) is None
    )


def test_the_later_sale_receives_less():
    usage = PoolUsage()
    first = fill(order("sell", 9_000 * 10**6), quote(0), usage)
    usage.add(first)
    second = fill(order("sell", 9_000 * 10**6, number=2), quote(0), usage)
    # The pool as the first one left it.
    expected = (
        swap_out(
            Fraction(9000),
            POOL_SOL - Fraction(first.mid - first.slippage, SOL),
            POOL_SOL / PRICE + 9000,
        )
        * SOL
    )
    assert (
        second.slippage > first.slippage
        and 0 <= expected - (second.mid - second.slippage - second.pool_fee) < 3
    )


def test_nobody_profits_from_the_impact_of_another():
    usage = PoolUsage()
    usage.add(fill(order(amount=10 * SOL), quote(0), usage, first=True))
    alone = fill(order("sell", 10**9), quote(0), PoolUsage())
    assert fill(order("sell", 10**9), quote(0), usage) == alone


def test_unknown_liquidity_costs_five_percent_once():
    blind = quote(0, pool=None, liquidity=None)
    bought = fill(order(), blind, usage := PoolUsage(), first=True)
    assert bought.marks == ("liquidity_unknown",)
    # 0.997 SOL at a price of 0.00105.
    assert bought.raw == 997 * 10**6 * 10**6 * 100 // (105 * 10**6)
    assert fill(order("sell", 10**9), blind, PoolUsage()).slippage == SOL * 5 // 100
    usage.add(bought)
    # Nobody knows what is left.
    assert fill(order(number=2), blind, usage) is None
    assert fill(order("sell", 10**9, number=2), replace(blind, price=1), usage) is None
    # 1,000,001 lamports less 5 %, cut: 950,000.
    assert fill(order("sell", 1_000_001), blind, PoolUsage()).slippage == 50_001
    # At most 1 SOL moves.
    assert (
        fill(order(amount=50 * SOL), blind, PoolUsage()).cash
        == fill(order(amount=40 * SOL), blind, PoolUsage()).cash
    )


def test_failures_are_fixed_by_handle_number_and_attempt():
    chances = [is_failing(order(number=number)) for number in range(4000)]
    # 5 % of 4,000 is 200, three standard deviations are 41.
    assert 140 < sum(chances) < 260
    assert chances == [is_failing(order(number=number)) for number in range(4000)]
    assert chances != [is_failing(order(number=number, handle="other")) for number in range(4000)]
    failing = order(number=chances.index(True))
    assert fill(failing, quote(0), PoolUsage(), first=True) == replace(
        fill(failing, quote(0), PoolUsage(), first=True), raw=0, rent=0, failed=True
    )
    assert fill(failing, quote(0), PoolUsage(), first=True).cash == -NETWORK_FEE


def test_one_attempt_in_twenty_fails_and_which_is_published():
    """The published rule, worked out here: the first eight bytes of a SHA-256, out of 10,000, under
    500.
    """

    def digest_of(number):
        return hashlib.sha256(f"calm|{number}|amm-cp/1.1|0".encode()).digest()

    expected = [
        int.from_bytes(digest_of(number)[:8], "big") % 10_000 < 500 for number in range(20_000)
    ]
    assert [
        is_failing(order(number=number)) for number in range(20_000)
    ] == expected and fills.FAILURE_BPS == 500
    digits = {int.from_bytes(digest_of(number)[:8], "big") % 10_000 for number in range(100_000)}
    # So that the bound itself is tried.
    assert {499, 500} <= digits
    edge = {
        place: next(
            n for n in range(100_000) if int.from_bytes(digest_of(n)[:8], "big") % 10_000 == place
        )
        for place in (499, 500)
    }
    assert is_failing(order(number=edge[499])) and not is_failing(order(number=edge[500]))


def test_the_constants_of_the_model_are_what_its_assumptions_publish():
    """Changing one of these changes what fills pay: then the model needs a new id."""
    assert fills.MODEL == "amm-cp/1.1"
    published = {
        "POOL_FEE_BPS": 30,
        "BASE_FEE": 5_000,
        "PRIORITY_FEE": 50_000,
        "NETWORK_FEE": 55_000,
        "RENT": 2_039_280,
        "FAILURE_BPS": 500,
        "POOL_SHARE_BPS": 200,
        "UNKNOWN_PENALTY_BPS": 500,
        "UNKNOWN_MAX": 10**9,
    }
    assert {name: getattr(fills, name) for name in published} == published
    told = " ".join(fills.ASSUMPTIONS)
    assert "0.000055 SOL per attempt (0.000005 base, 0.00005 priority)" in told
    assert "rent of 0.00203928 SOL" in told and "of at most 1 SOL" in told


def test_a_failed_attempt_takes_nothing_from_the_pool():
    usage = PoolUsage()
    usage.add(replace(fill(order(), quote(0, pool=None), PoolUsage()), failed=True))
    assert not usage.blind


@pytest.mark.parametrize(
    "changes, gone",
    [
        ({}, False),
        ({"pool": "0"}, True),
        ({"liquidity": "0"}, True),
        ({"liquidity": "99.99"}, True),
        ({"liquidity": "100"}, True),
        ({"liquidity": "15000"}, False),
        ({"liquidity": "14999.99"}, True),
        ({"liquidity": None, "pool": None}, False),
    ],
)
def test_liquidity_is_gone_below_100_usd_or_a_twentieth_of_the_entry(changes, gone):
    """Under 100 USD, or under a twentieth of the 300,000 USD at entry."""
    assert is_gone(quote(0, **changes), 300_000_00) is gone


def test_a_position_without_liquidity_is_closed_at_what_the_pool_would_pay():
    held = order("sell", 5_000 * 10**6)
    nothing = write_off(held, quote(0, price="0.0007", pool="0"), quote(0).price, PoolUsage())
    assert (
        nothing.cash == -NETWORK_FEE + RENT and nothing.slippage == nothing.mid == 5_000 * 7 * 10**5
    )
    left = write_off(held, quote(0, pool="0.5", liquidity="150"), quote(0).price, PoolUsage())
    # Half a SOL beside 500 tokens; all of it, whatever the cap.
    expected = swap_out(Fraction(5000), Fraction(1, 2), Fraction(500)) * SOL
    assert 0 <= expected - (left.mid - left.slippage - left.pool_fee) < 3
    absurd = write_off(held, quote(0, price="900000", pool="0"), quote(0).price, PoolUsage())
    # Not worth more than at its last mark.
    assert absurd.mid == 5 * SOL


@given(
    st.integers(1, 10**12),
    st.integers(1, 10**18),
    st.integers(1, 10**15),
    st.integers(0, 12),
    st.integers(0, 10**12),
)
def test_rounding_never_favors_the_trader(lamports, pool, price, decimals, used):
    """Whatever the pool: the invariant never shrinks, nothing is paid twice, nothing is created."""
    snapshot = replace(quote(0), price=price * 10**9, reserve=pool)
    usage = PoolUsage()
    usage.sol_in = min(used, pool // 100)
    bought = fill(replace(order(amount=lamports), decimals=decimals), snapshot, usage, first=True)
    if bought is None or bought.failed:
        return
    sol, tokens = fills._pool(snapshot, decimals)
    paid = bought.mid + bought.slippage
    assert (
        bought.raw > 0
        and bought.slippage >= 0
        and paid + bought.pool_fee <= lamports
        and paid <= pool * 2 // 100
    )
    assert (sol + usage.sol_in + paid) * (tokens - bought.raw) >= (sol + usage.sol_in) * tokens - (
        sol + paid
    )
    sold = fill(
        replace(order("sell", bought.raw, number=1), decimals=decimals),
        snapshot,
        PoolUsage(),
        last_raw=bought.raw,
    )
    # There and back never gains.
    assert sold is None or sold.failed or sold.mid - sold.slippage <= paid


# ---- one pool for all ----------------------------------------------------------------------------
def test_all_holders_of_a_drained_pool_share_what_it_holds():
    """Twenty holders of 5,000 tokens beside half a SOL and 500 tokens: as if one had sold 100,000,
    0.5 * 100000 / 100500.
    """
    drained, usage, received = quote(0, pool="0.5", liquidity="50"), PoolUsage(), []
    for number in range(20):
        done = write_off(
            order("sell", 5_000 * 10**6, number=number), drained, quote(0).price, usage
        )
        usage.add(done)
        received.append(done.mid - done.slippage)
    together = Fraction(1, 2) * Fraction(100_000, 100_500) * SOL
    assert 0 <= together - sum(received) < 40 and sum(received) <= SOL // 2
    assert received == sorted(received, reverse=True) and received[0] > 100 * received[-1]


def test_a_sale_after_a_write_off_finds_the_pool_it_left():
    usage, drained = PoolUsage(), quote(0, pool="100", liquidity="30000")
    usage.add(write_off(order("sell", 100 * 10**6), drained, quote(0).price, usage))
    assert usage.sol_out > 0 and usage.raw_in == 100 * 10**6
    after = fill(order("sell", 10**9, number=2), drained, usage)
    alone = fill(order("sell", 10**9, number=2), drained, PoolUsage())
    assert after.slippage > alone.slippage


def test_a_write_off_beyond_all_there_is_fits_its_column():
    """A mark that rose twentyfold again and again; more than 6 * 10**8 SOL there never was."""
    done = write_off(
        order("sell", 10**18), quote(0, price="90000000", pool="0"), 10**45, PoolUsage()
    )
    assert done.mid == done.slippage == 6 * 10**8 * SOL and done.cash == RENT - NETWORK_FEE


# ---- whatever a pool is like ---------------------------------------------------------------------
PRICES = st.builds(lambda digit, power: f"{digit}e{power}", st.integers(1, 9), st.integers(-15, 10))
POOLS = st.one_of(
    st.none(),
    st.decimals("0.01", "1000000", places=9).map(str),
    st.sampled_from(["0", "NaN", "Infinity", "-1", "nonsense"]),
)
LIQUIDITY = st.sampled_from([None, "0", "99.99", "72000", "1000000", "NaN", "-Infinity"])


def test_a_pool_whose_token_side_is_less_than_one_unit_buys_nothing():
    """240 SOL ($72,000 with both sides) at 300 SOL a token of no decimals: the pool holds 0.8
    tokens, which floors to none.
    """
    scarce = quote(0, price="300", pool="240", liquidity="72000")
    assert fill(replace(order("sell", 1), decimals=0), scarce, PoolUsage(), last_raw=1) is None
    assert fill(replace(order(), decimals=0), scarce, PoolUsage(), first=True) is None
    assert (
        write_off(replace(order("sell", 1), decimals=0), scarce, scarce.price, PoolUsage()).cash
        == RENT - NETWORK_FEE
    )


@settings(max_examples=400, deadline=None)
@given(
    PRICES,
    POOLS,
    LIQUIDITY,
    st.integers(0, 18),
    st.lists(
        st.tuples(st.sampled_from(["buy", "sell", "gone"]), st.integers(1, 10**24)),
        min_size=1,
        max_size=8,
    ),
)
def test_no_pool_raises_and_no_lamport_is_made(price, pool, liquidity, decimals, wanted):
    """Any price from 1e-15 to 9e10 SOL, any pool, any decimals: all orders of one snapshot
    together.
    """
    snapshot, usage, paid_in, paid_out = (
        quote(0, price=price, pool=pool, liquidity=liquidity),
        PoolUsage(),
        0,
        0,
    )
    for number, (side, amount) in enumerate(wanted):
        one = replace(
            order("buy" if side == "buy" else "sell", amount, number=number), decimals=decimals
        )
        if side == "gone":
            done = write_off(one, snapshot, snapshot.price, usage)
        else:
            done = fill(one, snapshot, usage, first=side == "buy", last_raw=amount)
        if done is None:
            continue
        usage.add(done)
        assert min(done.raw, done.mid, done.slippage, done.pool_fee) >= 0
        moved = done.mid + done.slippage if done.side == "buy" else done.mid - done.slippage
        assert (
            done.cash
            == (-moved if done.side == "buy" else moved) - done.pool_fee - NETWORK_FEE - done.rent
            and moved >= 0
        )
        paid_in, paid_out = (
            (paid_in + moved, paid_out) if done.side == "buy" else (paid_in, paid_out + moved)
        )
        assert done.side == "sell" or moved + done.pool_fee <= amount or done.failed
    if snapshot.reserve is not None:
        assert paid_out <= snapshot.reserve and paid_in <= snapshot.reserve * 2 // 100
