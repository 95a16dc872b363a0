"""The strategy families: when they enter, when they leave, what they refuse. Prices are in
thousandths of a SOL, with one snapshot a minute.
"""

from dataclasses import fields, replace

import pytest
from tape import DAY, MINUTE, START, quote, token

from chain.reading.pools import PoolReading, State
from paper.market import (
    SCALE,
    Check,
    Flow,
    Snapshot,
    SnapshotRow,
    View,
    find_flaw,
    parse_snapshot,
    percent,
)
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
    Refusal,
    decide,
    parse_settings,
    public_name,
    show_settings,
)

HOUR = 3_600_000


def view(prices, volumes=None, liquidity=300_000, flows=(), **about):
    """A window of these prices, the newest at START; volumes rise by one per snapshot if none are
    given.
    """
    first = START - (len(prices) - 1) * MINUTE
    liquid = liquidity if isinstance(liquidity, list) else [liquidity] * len(prices)
    window = tuple(
        Snapshot(
            number,
            "A",
            first + number * MINUTE,
            price * SCALE // 1000,
            10**12,
            worth if worth is None else worth * 100,
            volume5m=(volumes[number] if volumes else 1000 + number) * 100,
        )
        for number, (price, worth) in enumerate(zip(prices, liquid, strict=False))
    )
    return View(token(**about), window, flows)


class Held:
    """A position as a strategy sees it."""

    def __init__(self, entry=1000, high=None, held=1, reduced=False, opened_at=START - 10 * MINUTE):
        self.entry_price, self.high = entry * SCALE // 1000, (high or entry) * SCALE // 1000
        self.held, self.reduced, self.opened_at = held, reduced, opened_at


def ask(strategy, shown, position=None, late=0):
    return decide(shown, position, strategy, START + late)


FLAT = [1000] * 11
RISING = [*FLAT, 1030, 1070]


def bought(*owners, side="buy", at=START - MINUTE):
    return tuple(Flow(owner, f"wallet {number}", side, at) for number, owner in enumerate(owners))


# ---- what all share ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "strategy, shown",
    [
        (Momentum(), view(RISING)),
        (MeanReversion(), view([1000, 1001] * 6 + [900])),
        (Breakout(), view([*FLAT, 1000, 1050], [1000] * 12 + [2100])),
        (FlowFollower(), view([1000], flows=bought(1, 2, at=START))),
    ],
)
def test_every_family_refuses_stale_thin_or_failed_tokens(strategy, shown):
    def with_liquidity(cents):
        window = tuple(replace(one, liquidity=cents) for one in shown.window)
        return ask(strategy, replace(shown, window=window))

    entered = ask(strategy, shown)
    assert type(entered) is Enter and ask(strategy, shown, late=90_000) == entered
    assert ask(strategy, shown, late=90_001).reason == "stale_snapshot"
    failed = token(checks=(Check("freeze_authority", "fail"), Check("supply", "pass")))
    assert ask(strategy, replace(shown, token=failed)).reason == "failed_check"
    assert with_liquidity(499_999).reason == "low_liquidity"
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


@pytest.mark.parametrize(
    ("strategy", "checks", "reason", "named"),
    [
        (Momentum(), "a fail, b ok, c fail", "failed_check", "a, c"),
        (Momentum(), "transfer_fee unknown", "fee_unknown", ""),
        (Breakout(), "supply pass, freeze_authority unknown", "checks_unknown", ""),
        (Breakout(), "freeze_authority warn", "freezable", "could freeze purchased tokens"),
        (Breakout(allow_freezable=1), "freeze_authority warn", "breakout", ""),
        (Breakout(), "supply warn", "breakout", ""),
    ],
)
def test_checks_decide_about_an_entry(strategy, checks, reason, named):
    checks = tuple(Check(*one.split()) for one in checks.split(", "))
    found = ask(strategy, view(RISING, [1000 + n for n in range(12)] + [2500], checks=checks))
    assert found.reason == reason and named in found.detail


# ---- momentum ------------------------------------------------------------------------------------
def test_momentum_enters_a_rise_with_volume():
    # 7 % over five snapshots.
    assert ask(Momentum(), view(RISING)).reason == "momentum"
    # 5.9 %
    assert ask(Momentum(), view([*FLAT, 1030, 1059])) is None
    # Volume doesn't rise.
    assert ask(Momentum(), view(RISING, [1000] * 13)) is None
    # Eleven snapshots
    assert ask(Momentum(), view(RISING[2:])) is None
    # Most of it came before the last three; it counts from the sixth to last.
    found = ask(Momentum(), view([1000] * 9 + [1030, 1040, 1050, 1070]))
    assert found.detail == "up 7% over 5 snapshots with rising volume, above its mean"
    # 70 of 1,030 are 6.796 %, cut.
    found = ask(Momentum(), view([1000] * 7 + [1030, 1040, 1050, 1060, 1070, 1100]))
    assert found.detail.startswith("up 6.79% over 5 snapshots")
    assert ask(Momentum(), view([1000] * 7 + [1030, *[1000] * 4, 1070])) is None
    # Under its mean.
    assert ask(Momentum(), view([2000] * 6 + [1000] * 6 + [1070])) is None


def with_volumes(shown, **volumes):
    """A view whose snapshots have these volumes, a list per window."""
    window = tuple(
        replace(one, **{name: told[number] for name, told in volumes.items()})
        for number, one in enumerate(shown.window)
    )
    return View(shown.token, window, shown.flows)


def test_volume_is_that_of_the_window_and_not_of_the_day():
    louder, quieter, unknown = (
        [100 + n for n in range(13)],
        [200 - n for n in range(13)],
        [None] * 13,
    )
    rising = view(RISING)
    told = [
        (dict(volume=louder, volume5m=quieter, volume1h=louder), None),
        (dict(volume=quieter, volume5m=louder, volume1h=quieter), "momentum"),
        (dict(volume=quieter, volume5m=unknown, volume1h=louder), "momentum"),
        (dict(volume=louder, volume5m=unknown, volume1h=quieter), None),
        (dict(volume=louder, volume5m=unknown, volume1h=unknown), "volume_unknown"),
        # Five minutes now aren't compared with an hour then.
        (
            dict(volume=louder, volume5m=[None] * 12 + [9_999], volume1h=[500] * 12 + [None]),
            "volume_unknown",
        ),
    ]
    for volumes, reason in told:
        found = ask(Momentum(), with_volumes(rising, **volumes))
        assert (found and found.reason) == reason, volumes


# ---- mean reversion ------------------------------------------------------------------------------
def test_mean_reversion_buys_a_deep_fall():
    # Mean 1005, deviation 5.
    wiggle = [1000, 1010] * 6
    # Seven deviations and 3.5 %.
    assert ask(MeanReversion(), view([*wiggle, 970])).reason == "mean_reversion"
    # 2.9% doesn't cover the costs.
    assert ask(MeanReversion(), view([*wiggle, 976])) is None
    # Deviation 105
    wide = [900, 1110] * 6
    # 1.99 deviations
    assert ask(MeanReversion(), view([*wide, 796])) is None
    # 2 exactly
    assert type(ask(MeanReversion(), view([*wide, 795]))) is Enter


def test_mean_reversion_refuses_when_liquidity_goes_with_the_price():
    def asked(liquidity):
        return ask(MeanReversion(), view([1000, 1010] * 6 + [900], liquidity=liquidity))

    assert type(asked([300_000] * 12 + [285_000])) is Enter
    assert asked([300_000] * 12 + [284_999]).reason == "liquidity_falling"
    assert asked(None).reason == "liquidity_unknown"


# ---- breakout ------------------------------------------------------------------------------------
LOUD = [1000] * 12 + [2000]


def test_breakout_enters_a_new_high_with_twice_the_volume():
    assert ask(Breakout(), view([1000] * 12 + [1021], LOUD)).reason == "breakout"
    # Not above the margin of 2%.
    assert ask(Breakout(), view([1000] * 12 + [1020], LOUD)) is None
    assert ask(Breakout(), view([1000] * 12 + [1021], [1000] * 12 + [1999])) is None
    # A window too short.
    assert ask(Breakout(), view([1000] * 11 + [1021], LOUD[1:])) is None


def test_breakout_enters_a_new_pair_whenever_it_was_discovered():
    def asked(prices, hours=23):
        volumes, created_at = [1000] * (len(prices) - 1) + [2000], START - hours * HOUR
        about = {"pair_created_at": created_at, "discovered_at": START - MINUTE}
        return ask(Breakout(), view(prices, volumes, **about))

    assert asked([1000, 1000, 1000, 1001]).reason == "new_pair"
    assert asked([1000, 1000, 1001]) is None
    assert asked([1000, 1000, 1001, 1000]) is None
    assert asked([1000, 1000, 1000, 1001], hours=25) is None


def test_breakout_refuses_young_and_unknown_tokens():
    def ask_about(**about):
        return ask(Breakout(), view([1000] * 12 + [1021], LOUD, **about))

    assert ask_about(pair_created_at=START - HOUR + 1).reason == "too_young"
    assert type(ask_about(pair_created_at=START - HOUR)) is Enter
    # The pair's creation time is unknown, so its discovery counts.
    assert ask_about(pair_created_at=None, discovered_at=START - HOUR + 1).reason == "too_young"
    assert ask_about(checks=()).reason == "checks_unknown"


# ---- flow ----------------------------------------------------------------------------------------


def test_flow_needs_wallets_of_different_owners():
    def asked(flows):
        return ask(FlowFollower(), view([1000], flows=flows))

    assert asked(bought(1, 2)).reason == "flow"
    assert asked(bought(1)).reason == "one_wallet"
    # Two wallets, one owner.
    assert asked(bought(1, 1)).reason == "too_few_owners"
    assert asked(()) is None
    assert type(asked(bought(1, 2) + bought(2, side="sell"))) is Refusal
    # Within its window of half an hour, and not after the snapshot.
    early, late = bought(1, at=START - 30 * MINUTE), bought(2, at=START)
    assert type(asked(early + late)) is Enter
    assert type(asked(bought(1, at=START - 30 * MINUTE - 1) + late)) is Refusal
    assert type(asked(early + bought(2, at=START + 1))) is Refusal


# ---- copy ----------------------------------------------------------------------------------------
COPIES = Copy(bot="bot_a")


def traded(side, seconds, share=10_000, bot="bot_a"):
    """A bot's trade this many seconds before START."""
    return Flow(1, "w", side, START - seconds * 1000, 0, bot, share)


def test_copy_enters_tokens_its_bot_just_bought_and_still_holds():
    def asked(*flows):
        return ask(COPIES, view([1000], flows=flows))

    assert asked(traded("buy", 180)) == Enter("copy", "bought by the bot it copies")
    assert asked(traded("buy", 181)) is None
    assert asked(traded("buy", 60, bot="bot_b")) is None
    assert asked(traded("buy", -1)) is None
    assert asked(traded("buy", 60), traded("sell", 30, 100)) is None
    assert asked(traded("sell", 90), traded("buy", 60)).reason == "copy"
    assert ask(COPIES, view([1000], liquidity=1, flows=(traded("buy", 60),))).reason == (
        "low_liquidity"
    )


def test_copy_sells_its_bots_share():
    """It bought 1,000 units 10 minutes ago, a minute after the bot."""

    def left(raw, *flows, **about):
        held = Held(**about)
        held.raw, held.bought_raw = raw, 1_000
        return ask(COPIES, view([1000], flows=(traded("buy", 660), *flows)), held)

    assert left(1_000) is None
    assert left(1_000, traded("sell", 60)) == Exit("bot_sold", 10_000)
    # Half, and then half of the rest: a quarter is left.
    assert left(1_000, traded("sell", 60, 5_000)) == Exit("bot_sold", 5_000)
    assert left(500, traded("sell", 60, 5_000)) is None
    twice = traded("sell", 60, 5_000), traded("sell", 30, 5_000)
    assert left(1_000, *twice) == Exit("bot_sold", 7_500)
    assert left(500, *twice) == Exit("bot_sold", 5_000)
    # One unit too many is rounding, and no reason to sell everything.
    assert left(501, traded("sell", 60, 5_000)) is None
    # Before the copy was filled, but after the copied purchase.
    assert left(1_000, traded("sell", 630)) == Exit("bot_sold", 10_000)
    assert left(1_000, traded("sell", 700)) is None
    assert left(1_000, traded("sell", 60), entry=1_200) == Exit("stop")
    assert left(1_000, held=60) == Exit("time_stop")


def test_copy_needs_a_bot_id():
    for given in ({}, {"bot": "Ada"}, {"bot": 7}, {"bot": "bot_"}):
        with pytest.raises(BadSetting) as refused:
            parse_settings("copy", given)
        assert refused.value.field == "bot" and "bot_4f1c" in str(refused.value)
    made = parse_settings("copy", {"bot": "bot_4f1c", "latencyMs": 60_000})
    assert (made.bot, made.latency_ms) == ("bot_4f1c", 60_000)
    assert show_settings(made)["bot"] == "bot_4f1c"
    assert parse_settings("copy", {"bot": "bot_4f1c", "latencyMs": 0}).latency_ms == 0


# ---- what can be believed ------------------------------------------------------------------------
@pytest.mark.parametrize(
    "before, now, flaw",
    [
        ("0.001", "0.02", None),
        ("0.001", "0.020001", "price_jump"),
        ("0.02", "0.001", None),
        ("0.020001", "0.001", "price_fall"),
        ("0.001", "0", "non_positive_price"),
        ("0.001", "-1", "non_positive_price"),
        ("0.001", "NaN", "non_positive_price"),
        ("0.001", "Infinity", "non_positive_price"),
        ("0.001", "1e999999", "non_positive_price"),
        ("0.001", "garbage", "non_positive_price"),
        ("0.001", None, "missing_price"),
        (None, "123", None),
    ],
)
def test_prices_must_be_finite_positive_and_near_the_previous_one(before, now, flaw):
    earlier = before and quote(0, price=before)
    assert find_flaw(earlier, quote(1, price=now), START + MINUTE, 28 * MINUTE) == flaw


def test_prices_are_compared_within_the_horizon_and_one_pair():
    """Thirty times the price: a jump until 28 minutes have passed. A pair that is missing on one
    side isn't another pair.
    """
    before = quote(0, pair="P")
    for at, pair, flaw in (
        (28 * MINUTE, "P", "price_jump"),
        (28 * MINUTE + 1, "P", None),
        (0, "P", "price_jump"),
        (-1, "P", "clock_skew"),
        (MINUTE, "Q", "pair_changed"),
        (28 * MINUTE + 1, "Q", None),
        (MINUTE, None, "price_jump"),
    ):
        now = quote(1, at=START + at, pair=pair, price="0.03")
        assert find_flaw(before, now, START + DAY, 28 * MINUTE) == flaw
        assert find_flaw(None, now, START + DAY, 28 * MINUTE) is None
    unknown = quote(1, price="0.03", pair="Q")
    assert find_flaw(quote(0), unknown, START + DAY, 28 * MINUTE) == "price_jump"
    ahead = replace(unknown, at=START + MINUTE + 1)
    assert find_flaw(None, ahead, START, 28 * MINUTE) == "clock_skew"


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


def test_token_age_comes_from_its_pair_or_discovery():
    about = token(pair_created_at=START - 5, discovered_at=START - 7)
    assert (about.age_ms(START), replace(about, pair_created_at=None).age_ms(START)) == (5, 7)
    assert replace(about, pair_created_at=0).age_ms(START) == START
    assert about.has_check("pass") and not about.has_check("fail")


# ---- what they say -------------------------------------------------------------------------------
FALL = [1000, 1010] * 6 + [900]
HIGH = [1000] * 12 + [1021]


@pytest.mark.parametrize(
    "strategy, shown, late, detail",
    [
        # 900 under 12,060 / 12 = 1,005 is 10.44 % less.
        (MeanReversion(), view(FALL), 0, "10.44% below its mean over 12 snapshots"),
        # 2,450 is 2.45 times 1,000, shown with one decimal.
        (Breakout(), view(HIGH, [1000] * 12 + [2450]), 0, "a new high of 12 snapshots with 2.4"),
        (
            Breakout(min_age_seconds=7_200),
            view(HIGH, LOUD, pair_created_at=START - 90 * MINUTE - 1),
            0,
            "90 minutes old, under the minimum of 120",
        ),
        (FlowFollower(), view([1000], flows=bought(1, 2, 2, 3)), 0, "3 owners within 30 minutes"),
        (FlowFollower(owners=4), view([1000], flows=bought(1, 2, 2, 3)), 0, "3 of the 4 required"),
        (
            Momentum(latency_budget_ms=10_999),
            view(RISING),
            12_999,
            "12 s old, over the limit of 10",
        ),
        (Momentum(), view(RISING, liquidity=[300_000] * 12 + [4_999]), 0, "4999 USD of liquidity"),
    ],
)
def test_a_decision_names_its_figures(strategy, shown, late, detail):
    assert detail in ask(strategy, shown, late=late).detail


def test_setting_bounds_are_inclusive():
    """For all families, by the declared bounds."""
    for family, kind in FAMILIES.items():
        for one in fields(kind):
            name, (low, high) = public_name(one.name), one.metadata.values()
            for value in (low, high):
                assert getattr(parse_settings(family, {name: value}), one.name) == value
            for value in (low - 1, high + 1, str(low), True, None):
                with pytest.raises(BadSetting) as refused:
                    parse_settings(family, {name: value})
                assert refused.value.args == (f"must be a whole number from {low} to {high}",)
        assert show_settings(kind()) == {public_name(one.name): one.default for one in fields(kind)}
    with pytest.raises(
        BadSetting, match="^isn't a setting of this family; choose from: sizeBps, max"
    ):
        parse_settings("flow", {"riseBps": 600})


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


def test_shares_round_toward_zero():
    assert [percent(*pair) for pair in ((1, 3), (-1, 3), (2, -3), (-2, -3))] == [
        *("33.33", "-33.33", "-66.66", "66.66")
    ]
