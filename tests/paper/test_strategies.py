"""The strategy families: when they enter, when they leave, what they refuse. Prices are in
thousandths of a SOL, with one snapshot a minute.
"""

from dataclasses import fields, replace

import pytest
from tape import DAY, MINUTE, START, quote, token

from chain.reading.pools import PoolReading, State
from paper.market import SCALE, Check, Flow, Snapshot, SnapshotRow, View, find_flaw, parse_snapshot
from paper.strategies import (
    FAMILIES,
    BadSetting,
    Breakout,
    Copy,
    Enter,
    Exit,
    FlowFollower,
    MeanReversion,
    Momentum,
    decide,
    parse_settings,
    public_name,
    show_settings,
)

HOUR = 3_600_000


def view(prices, volumes=None, liquidity=300_000, flows=(), **about):
    """A window of these prices, the newest at START; volumes rise by one per snapshot if none are
    given. `liquidity`: USD, of all or of each.
    """
    first = START - (len(prices) - 1) * MINUTE
    liquid = liquidity if isinstance(liquidity, list) else [liquidity] * len(prices)
    window = tuple(
        Snapshot(
            *(number, "A", first + number * MINUTE, price * SCALE // 1000, 10**12),
            worth if worth is None else worth * 100,
            volume5m=(volumes[number] if volumes else 1000 + number) * 100,
        )
        for number, (price, worth) in enumerate(zip(prices, liquid, strict=False))
    )
    return View(token(**about), window, flows)


class Held:
    """A position as a strategy sees it. It bought 1,000 units."""

    bought_raw = 1_000

    def __init__(self, entry=1000, high=None, held=1, reduced=False, raw=1_000):
        self.entry_price, self.high = entry * SCALE // 1000, (high or entry) * SCALE // 1000
        self.held, self.reduced, self.raw = held, reduced, raw
        self.opened_at = START - 10 * MINUTE


def ask(strategy, shown, position=None, late=0):
    return decide(shown, position, strategy, START + late)


def says(found, expected):
    """Whether a decision has this reason and this part of its detail. `-` is no decision."""
    reason, _, detail = expected.partition(": ")
    return found.reason == reason and detail in found.detail if found else reason == "-"


FLAT, LOUD = [1000] * 12, [1000] * 12 + [2000]
RISING = [*FLAT[1:], 1030, 1070]


def bought(*owners, side="buy", at=START - MINUTE):
    return tuple(Flow(owner, f"wallet {number}", side, at) for number, owner in enumerate(owners))


# ---- what all share ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "strategy, shown",
    [
        (Momentum(), view(RISING)),
        (MeanReversion(), view([1000, 1001] * 6 + [900])),
        (Breakout(), view([*FLAT, 1050], LOUD)),
        (FlowFollower(), view([1000], flows=bought(1, 2, at=START))),
    ],
)
def test_every_family_refuses_stale_thin_or_failed_tokens(strategy, shown):
    def with_liquidity(cents):
        window = tuple(replace(one, liquidity=cents) for one in shown.window)
        return ask(strategy, replace(shown, window=window))

    entered = ask(strategy, shown)
    assert type(entered) is Enter and ask(strategy, shown, late=90_000) == entered
    stale = ask(replace(strategy, latency_budget_ms=89_999), shown, late=90_999)
    assert says(stale, "stale_snapshot: 90 s old, over the limit of 89 s")
    assert ask(strategy, shown, late=90_001).reason == "stale_snapshot"
    failed = token(checks=(Check("freeze_authority", "fail"), Check("supply", "pass")))
    assert ask(strategy, replace(shown, token=failed)).reason == "failed_check"
    assert says(with_liquidity(499_999), "low_liquidity: 4999 USD of liquidity")
    assert type(with_liquidity(500_000)) is Enter


@pytest.mark.parametrize("strategy", [Momentum(), MeanReversion(), Breakout(), FlowFollower()])
def test_every_family_has_a_time_stop_and_a_stop_ten_percent_below_entry(strategy):
    calm = view([1000] * 13)
    # Slightly below its mean.
    calm = replace(calm, window=(*calm.window[:-1], replace(calm.last, price=calm.last.price - 1)))
    assert ask(strategy, calm, Held(held=strategy.time_stop - 1)) is None
    assert ask(strategy, calm, Held(held=strategy.time_stop)) == Exit("time_stop")
    assert ask(strategy, view([2000] * 12 + [901]), Held(entry=1000)) is None
    assert ask(strategy, view([2000] * 12 + [900]), Held(entry=1000)) == Exit("stop")


@pytest.mark.parametrize(
    ("strategy", "checks", "reason", "named"),
    [
        (Momentum(), "a fail, b ok, c fail", "failed_check", "a, c"),
        (Momentum(), "transfer_fee unknown", "fee_unknown", ""),
        (Breakout(), "supply pass, freeze_authority unknown", "checks_unknown", ""),
        (Breakout(), "freeze_authority warn", "freezable", "could freeze purchased tokens"),
        (Breakout(allow_freezable=1), "freeze_authority warn", "breakout", ""),
        (Breakout(), "supply warn", "breakout", ""),
        (Breakout(), "", "checks_unknown", ""),
    ],
)
def test_checks_decide_about_an_entry(strategy, checks, reason, named):
    checks = tuple(Check(*one.split()) for one in checks.split(", ") if one)
    found = ask(strategy, view(RISING, [1000 + n for n in range(12)] + [2500], checks=checks))
    assert found.reason == reason and named in found.detail


# ---- entries -------------------------------------------------------------------------------------
# Family | prices | volumes, if they don't rise slightly | the last liquidity in USD, and the ages
# of the pair and the discovery in ms | the reason of the entry or refusal, and part of its detail.
# 1,2*3 is 1 2 1 2 1 2.
ENTRIES = """
A rise of 6% over five snapshots with rising volume, above the mean of twelve:
momentum | 1000*11 1030 1070 | | | momentum
momentum | 1000*11 1030 1059 | | | -
momentum | 1000*9 1030 1070 | | | -
momentum | 1000*7 1030 1000*4 1070 | | | -
momentum | 1000*11 1030 1070 | 1000*13 | | -
momentum | 2000*6 1000*6 1070 | | | -
Most of the rise may come before the last three. 70 of 1,030 are 6.796%, cut:
momentum | 1000*9 1030 1040 1050 1070 | | | momentum: up 7% over 5 snapshots with
momentum | 1000*7 1030 1040 1050 1060 1070 1100 | | | momentum: up 6.79% over 5
A fall of two deviations and 3%. The mean is 1005, and the deviation 5, then 105:
mean_reversion | 1000,1010*6 970 | | | mean_reversion
mean_reversion | 1000,1010*6 976 | | | -
mean_reversion | 900,1110*6 796 | | | -
mean_reversion | 900,1110*6 795 | | | mean_reversion
900 under 12,060 / 12 is 10.44% less:
mean_reversion | 1000,1010*6 900 | | | mean_reversion: 10.44% below its mean over 12 snapshots
Unless liquidity falls with the price:
mean_reversion | 1000,1010*6 900 | | liquidity=285000 | mean_reversion
mean_reversion | 1000,1010*6 900 | | liquidity=284999 | liquidity_falling
mean_reversion | 1000,1010*6 900 | | liquidity=none | liquidity_unknown
A new high by more than 2% with twice the volume, in a full window:
breakout | 1000*12 1021 | 1000*12 2000 | | breakout
breakout | 1000*12 1021 | 1000*12 2450 | | breakout: a new high of 12 snapshots with 2.4 times
breakout | 1000*12 1020 | 1000*12 2000 | | -
breakout | 1000*12 1021 | 1000*12 1999 | | -
breakout | 1000*11 1021 | 1000*11 2000 | | -
Or in four snapshots of a pair of less than a day, whenever it was discovered:
breakout | 1000*3 1001 | 1000*3 2000 | pair=82800000 discovery=60000 | new_pair
breakout | 1000*3 1001 | 1000*3 2000 | pair=90000000 discovery=60000 | -
breakout | 1000*2 1001 | 1000*2 2000 | pair=82800000 | -
breakout | 1000*2 1001 1000 | 1000*3 2000 | pair=82800000 | -
But not in its first hour. If the pair's age is unknown, its discovery counts:
breakout | 1000*12 1021 | 1000*12 2000 | pair=3600000 | breakout
breakout | 1000*12 1021 | 1000*12 2000 | pair=3599999 | too_young: 59 minutes old, under the minimum
breakout | 1000*12 1021 | 1000*12 2000 | pair=none discovery=3599999 | too_young
breakout | 1000*12 1021 | 1000*12 2000 | pair=1800000000000 discovery=60000 | breakout
"""
AGES = {"pair": "pair_created_at", "discovery": "discovered_at"}


def numbers(text):
    found = []
    for word in text.split():
        values, _, times = word.partition("*")
        found += [int(value) for value in values.split(",")] * int(times or 1)
    return found


@pytest.mark.parametrize("row", [row for row in ENTRIES.split("\n") if "|" in row])
def test_a_family_enters_its_pattern(row):
    family, prices, volumes, more, reason = (part.strip() for part in row.split("|"))
    prices, liquidity, about = numbers(prices), 300_000, {}
    for name, _, value in (word.partition("=") for word in more.split()):
        value = None if value == "none" else int(value)
        if name == "liquidity":
            liquidity = value and [300_000] * (len(prices) - 1) + [value]
        else:
            about[AGES[name]] = value and START - value
    shown = view(prices, numbers(volumes), liquidity, **about)
    assert says(ask(FAMILIES[family](), shown), reason)


LOUDER, QUIETER, UNKNOWN = [100 + n for n in range(13)], [200 - n for n in range(13)], [None] * 13


@pytest.mark.parametrize(
    "day, hour, minutes, reason",
    [
        (LOUDER, LOUDER, QUIETER, "-"),
        (QUIETER, QUIETER, LOUDER, "momentum"),
        (QUIETER, LOUDER, UNKNOWN, "momentum"),
        (LOUDER, QUIETER, UNKNOWN, "-"),
        (LOUDER, UNKNOWN, UNKNOWN, "volume_unknown"),
        # Five minutes now aren't compared with an hour then.
        (LOUDER, [500] * 12 + [None], [None] * 12 + [9_999], "volume_unknown"),
    ],
)
def test_volume_is_that_of_the_window_and_not_of_the_day(day, hour, minutes, reason):
    rising = view(RISING)
    window = tuple(
        replace(one, volume=day[n], volume1h=hour[n], volume5m=minutes[n])
        for n, one in enumerate(rising.window)
    )
    assert says(ask(Momentum(), replace(rising, window=window)), reason)


EARLY, LATE = bought(1, at=START - 30 * MINUTE), bought(2, at=START)


@pytest.mark.parametrize(
    "flows, reason",
    [
        (bought(1, 2, 2, 3), "flow: 3 owners within 30 minutes"),
        (bought(1), "one_wallet"),
        # Two wallets, one owner.
        (bought(1, 1), "too_few_owners: 1 of the 2 required"),
        ((), "-"),
        (bought(1, 2) + bought(2, side="sell"), "too_few_owners"),
        # Within its window of half an hour, and not after the snapshot.
        (EARLY + LATE, "flow"),
        (bought(1, at=START - 30 * MINUTE - 1) + LATE, "one_wallet"),
        (EARLY + bought(2, at=START + 1), "one_wallet"),
    ],
)
def test_flow_needs_wallets_of_different_owners(flows, reason):
    assert says(ask(FlowFollower(), view([1000], flows=flows)), reason)


COPIES = Copy(bot="bot_a")


def traded(side, seconds, share=10_000, bot="bot_a"):
    """A bot's trade this many seconds before START."""
    return Flow(1, "w", side, START - seconds * 1000, 0, bot, share)


@pytest.mark.parametrize(
    "flows, reason",
    [
        ([traded("buy", 180)], "copy: bought by the bot it copies"),
        ([traded("buy", 181)], "-"),
        ([traded("buy", 60, bot="bot_b")], "-"),
        ([traded("buy", -1)], "-"),
        ([traded("buy", 60), traded("sell", 30, 100)], "-"),
        ([traded("sell", 90), traded("buy", 60)], "copy"),
    ],
)
def test_copy_enters_tokens_its_bot_just_bought_and_still_holds(flows, reason):
    assert says(ask(COPIES, view([1000], flows=flows)), reason)
    thin = ask(COPIES, view([1000], liquidity=1, flows=flows))
    assert says(thin, reason if reason == "-" else "low_liquidity")


# ---- exits ---------------------------------------------------------------------------------------
def sales(*owners, at=START - MINUTE):
    return view([1000], flows=bought(*owners, side="sell", at=at))


@pytest.mark.parametrize(
    "strategy, shown, held, found",
    [
        (Momentum(), view([1761]), Held(high=2000), None),
        (Momentum(), view([1760]), Held(high=2000), Exit("trailing_stop")),
        (MeanReversion(), view([1000] * 12 + [999]), Held(entry=950), None),
        (MeanReversion(), view([1000] * 13), Held(entry=950), Exit("mean_reached")),
        (MeanReversion(), view([1000] * 13), Held(entry=1100), Exit("mean_reached")),
        # 1000 of 1112 is 10.07 % less: a stop precedes other exits.
        (MeanReversion(), view([1000] * 13), Held(entry=1112), Exit("stop")),
        (Breakout(), view([1199]), Held(), None),
        (Breakout(), view([1200]), Held(), Exit("take_profit", 5000)),
        (Breakout(), view([1200]), Held(reduced=True), None),
        (FlowFollower(), sales(1), Held(), Exit("they_sell")),
        (FlowFollower(), sales(1), Held(entry=1112), Exit("stop")),
        # Before the position was opened, and after the snapshot.
        (FlowFollower(), sales(1, at=START - 11 * MINUTE), Held(), None),
        (FlowFollower(), sales(1, at=START + 1), Held(), None),
    ],
)
def test_each_family_has_its_own_exit(strategy, shown, held, found):
    assert ask(strategy, shown, held) == found


HALF, QUARTER = traded("sell", 60, 5_000), traded("sell", 30, 5_000)


@pytest.mark.parametrize(
    "held, sold, found",
    [
        (Held(), (), None),
        (Held(), (traded("sell", 60),), Exit("bot_sold", 10_000)),
        # Half, and then half of the rest: a quarter is left.
        (Held(), (HALF,), Exit("bot_sold", 5_000)),
        (Held(raw=500), (HALF,), None),
        (Held(), (HALF, QUARTER), Exit("bot_sold", 7_500)),
        (Held(raw=500), (HALF, QUARTER), Exit("bot_sold", 5_000)),
        # One unit too many is rounding, and no reason to sell everything.
        (Held(raw=501), (HALF,), None),
        # Before the copy was filled, but after the copied purchase.
        (Held(), (traded("sell", 630),), Exit("bot_sold", 10_000)),
        (Held(), (traded("sell", 700),), None),
        (Held(entry=1_200), (traded("sell", 60),), Exit("stop")),
        (Held(held=60), (), Exit("time_stop")),
    ],
)
def test_copy_sells_its_bots_share(held, sold, found):
    """Its position was opened 10 minutes ago, a minute after the bot bought."""
    shown = view([1000], flows=(traded("buy", 660), *sold))
    assert ask(COPIES, shown, held) == found


# ---- settings ------------------------------------------------------------------------------------
@pytest.mark.parametrize("given", [{}, {"bot": "Ada"}, {"bot": 7}, {"bot": "bot_"}])
def test_copy_needs_a_bot_id(given):
    with pytest.raises(BadSetting) as refused:
        parse_settings("copy", given)
    assert refused.value.field == "bot" and "bot_4f1c" in str(refused.value)
    made = parse_settings("copy", {"bot": "bot_4f1c", "latencyMs": 0})
    assert (made.bot, made.latency_ms) == (show_settings(made)["bot"], 0) == ("bot_4f1c", 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_setting_bounds_are_inclusive(family):
    """As declared."""
    kind = FAMILIES[family]
    for one in fields(kind):
        name, (low, high) = public_name(one.name), one.metadata.values()
        for value in (low, high):
            assert getattr(parse_settings(family, {name: value}), one.name) == value
        for value in (low - 1, high + 1, str(low), True, None):
            with pytest.raises(BadSetting) as refused:
                parse_settings(family, {name: value})
            assert refused.value.args == (f"must be a whole number from {low} to {high}",)
    assert show_settings(kind()) == {public_name(one.name): one.default for one in fields(kind)}
    unknown = "^isn't a setting of this family; choose from: sizeBps, max"
    with pytest.raises(BadSetting, match=unknown):
        parse_settings(family, {"unheardOf": 600})


# ---- what can be believed ------------------------------------------------------------------------
@pytest.mark.parametrize(
    "before, now, flaw",
    [
        ("0.001", "0.02", None),
        ("0.001", "0.020001", "price_jump"),
        ("0.02", "0.001", None),
        ("0.020001", "0.001", "price_fall"),
        *(("0.001", one, "non_positive_price") for one in "0 -1 NaN Infinity 1e999999 x".split()),
        ("0.001", None, "missing_price"),
        (None, "123", None),
    ],
)
def test_prices_must_be_finite_positive_and_near_the_previous_one(before, now, flaw):
    earlier = before and quote(0, price=before)
    assert find_flaw(earlier, quote(1, price=now), START + MINUTE, 28 * MINUTE) == flaw


@pytest.mark.parametrize(
    "at, before, pair, flaw",
    [
        (28 * MINUTE, "P", "P", "price_jump"),
        (28 * MINUTE + 1, "P", "P", None),
        (0, "P", "P", "price_jump"),
        (-1, "P", "P", "clock_skew"),
        (MINUTE, "P", "Q", "pair_changed"),
        (28 * MINUTE + 1, "P", "Q", None),
        # A pair that is missing on one side isn't another pair.
        (MINUTE, "P", None, "price_jump"),
        (MINUTE, None, "Q", "price_jump"),
    ],
)
def test_prices_are_compared_within_the_horizon_and_one_pair(at, before, pair, flaw):
    """Thirty times the price: a jump until 28 minutes have passed."""
    now = quote(1, at=START + at, pair=pair, price="0.03")
    assert find_flaw(quote(0, pair=before), now, START + DAY, 28 * MINUTE) == flaw
    assert find_flaw(None, now, START + DAY, 28 * MINUTE) is None
    # Up to a minute ahead of the clock.
    for clock, ahead in ((now.at - MINUTE, None), (now.at - MINUTE - 1, "clock_skew")):
        assert find_flaw(None, now, clock, 28 * MINUTE) == ahead


@pytest.mark.parametrize(
    "field, column, scale, most",
    [
        ("liquidity", "liquidity", 100, 10**15),
        ("reserve", "pool", 10**9, 6 * 10**8),
        ("price", "price", 10**24, 6 * 10**17),
    ],
)
def test_oversized_numbers_are_unknown(field, column, scale, most):
    """10**15 USD, all existing SOL, and a SOL price for each of its lamports are still read; one
    more is not. The price is then unknown. Smaller fractions are cut.
    """
    unknown = 0 if field == "price" else None
    exact = str(scale)[1:]
    for text, read in (
        (f"{most}", most * scale),
        (f"{most}.{exact}9", most * scale),
        (f"{most - 1}.{'9' * len(exact)}", most * scale - 1),
        (f"{most}.{exact[1:]}1", unknown),
        (f"0.{exact}19", 0),
        (f"0.{exact[1:]}19", 1),
        ("9e40", unknown),
        ("1e-59", 0),
        ("1e-60", 0),
        ("9e-999", 0),
        ("-1e-59", unknown),
        ("1e41", unknown),
    ):
        assert getattr(quote(0, **{column: text}), field) == read, text


# ---- what is read of a provider ------------------------------------------------------------------
def test_a_snapshot_is_exact_to_the_lamport_and_cent():
    """A SOL costs 0.2 / 0.001 = 200 USD, so a million USD of tokens are 5,000 SOL; fractions of a
    cent are cut.
    """
    told = ("0.001", "1000", "300000.129", "50000", "2.5", "3.5", "raydium", "P")
    fall = '{"before": "0.03", "price_sol": "0.0009"}'
    reserves = '["V", "P", 25, "input", 0, 9, 8, 7, 6, 5, 4, 3, 2]'
    pool = PoolReading("V", "P", 25, "input", False, State(9, 8, 7, 6), State(5, 4, 3, 2))
    seen = parse_snapshot(SnapshotRow(7, "A", START, *told, "1000000", "0.2", fall, reserves))
    assert seen == Snapshot(
        *(7, "A", START, SCALE // 1_000, 10**12, 300_000_12, 50_000_00, 250, 350, "raydium", "P"),
        *(5_000 * 10**9, 200_00, 3 * SCALE // 100, 9 * SCALE // 10_000, pool),
    )
    bare = parse_snapshot(SnapshotRow(7, "A", START, None, "-1", "NaN", "x", None, "Infinity"))
    assert bare == Snapshot(7, "A", START, None)
    # 0.2 / 0.0007 is 285.714... USD; an empty pool is a known value, too.
    thin = parse_snapshot(SnapshotRow(7, "A", START, "0.0007", "0", "0", "0", price_usd="0.2"))
    assert (thin.sol_cents, thin.reserve, thin.liquidity, thin.volume) == (285_71, 0, 0, 0)
    # Without a SOL price, a market cap in USD can't be converted to SOL.
    assert parse_snapshot(SnapshotRow(7, "A", START, *told, "1000000")).market_cap is None
    assert parse_snapshot(SnapshotRow(7, "A", START, *told, None, "0.2")).market_cap is None
    # SOL at 200 dollars: 1,000,000.01 are 5,000 SOL and 50,000 lamports. One of 3: a third,
    # truncated.
    whole = parse_snapshot(SnapshotRow(7, "A", START, *told, "1000000.01", "0.2"))
    assert whole.market_cap == 5_000_000_050_000
    assert parse_snapshot(SnapshotRow(7, "A", START, *told, "1", "0.003")).market_cap == 333_333_333
