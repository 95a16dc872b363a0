"""What a follower right after a bot would have received: fills against exact fractions, replays of
made-up histories, and what the job stores and readers see.
"""

from contextlib import nullcontext
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from service import address
from story import ADA, Story
from test_pages import text_of

import storage
from accounts import wallets
from chain.reading.pools import PoolReading, State
from models import Attachment, Bot, Trade, Wallet, WalletSignature
from paper import copying, tables
from paper.copying import SHOWN_SIZE, CopiedTrade, Follower, Outcome
from paper.fills import add_raw, buy, sell, shift
from paper.store import read_entry
from paper.tables import CopyTotal
from web.api.copying import find_copying, find_sizes

SOL, NOW = 10**9, 1_800_000_000_000
KINDS = (("on_top", True), ("on_top", False), ("gross", False), ("input", False))


def read(before, after, fee_bps=100, fee_kind="input", is_curve=False, pool="P"):
    return PoolReading("V", pool, fee_bps, fee_kind, is_curve, before, after)


def whole(sol, raw):
    return State(sol, raw, sol, raw)


@st.composite
def pools(draw):
    state = whole(draw(st.integers(10**6, 10**15)), draw(st.integers(10**6, 10**18)))
    kind, is_curve = draw(st.sampled_from(KINDS))
    return read(state, state, draw(st.integers(0, 400)), kind, is_curve)


LAMPORTS = st.integers(10**4, 10**12)


# ---- one fill ------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind, paid", [("on_top", 500), ("gross", 500), ("input", 495)])
def test_a_sale_pays_its_fee_on_the_venues_side(kind, paid):
    """1,000 into 9,000: a tenth of 5,000 SOL units is 500. 1% of that is 5; 1% of the input is 10,
    and 990 of 9,990 is 495.49.
    """
    state = whole(5_000, 9_000)
    assert sell(read(state, state, 100, kind), state, 1_000) == (495, paid)


def test_fills_stay_within_the_pool():
    state = State(30 * SOL, 10**15, SOL, 10**12)
    pool = read(state, state, 0)
    assert buy(pool, state, SOL) is None
    assert sell(pool, state, 10**15) == (SOL, SOL)


@given(pools(), LAMPORTS)
def test_the_product_never_falls_and_round_trips_gain_nothing(pool, lamports):
    before = pool.after
    got = buy(pool, before, lamports)
    assume(got)
    between = whole(before.sol + got.net, before.raw - got.raw)
    assert between.sol * between.raw >= before.sol * before.raw
    sold = sell(pool, between, got.raw)
    after = whole(between.sol - sold.left, between.raw + got.raw)
    assert after.sol * after.raw >= between.sol * between.raw
    assert sold.received <= lamports


@given(pools(), LAMPORTS, st.integers(1, 99))
def test_splitting_a_purchase_gains_nothing(pool, lamports, percent):
    state, first = pool.after, lamports * percent // 100
    one, two = buy(pool, state, lamports), buy(pool, state, first)
    assume(one and two)
    rest = buy(pool, whole(state.sol + two.net, state.raw - two.raw), lamports - first)
    assume(rest)
    # Each fee may be rounded down once; one unit of SOL buys this many units.
    slack = 2 * (state.raw // state.sol + 2)
    assert two.raw + rest.raw <= one.raw + slack


@given(pools(), st.integers(1, 10**17))
def test_no_sale_beats_the_exact_formula(pool, raw):
    state = pool.after
    fee = Fraction(10_000 - pool.fee_bps, 10_000)
    given_in = raw * fee if pool.fee_kind == "input" else Fraction(raw)
    exact = given_in * state.sol / (state.raw + given_in)
    exact = exact if pool.fee_kind == "input" else exact * fee
    assert sell(pool, state, raw).received <= exact


# ---- a replay ------------------------------------------------------------------------------------
def bought(number, before, after, raw, network=5_000, mint="M", **more):
    return CopiedTrade(f"b{number}", mint, True, raw, 0, network, read(before, after, 0, **more))


def sold(number, before, after, slices, proceeds, network=5_000, mint="M", **more):
    pool = read(before, after, 0, **more)
    return CopiedTrade(f"s{number}", mint, False, 0, proceeds, network, pool, slices)


def test_a_sale_below_one_unit_costs_nothing_yet():
    """Behind 200 units for 25 SOL, 1 SOL buys 6 of the remaining 800. The bot sells its 200 one at
    a time: the follower's share is less than a unit until 6 are left, then one each. Everything it
    spent is counted, because a bot could otherwise make followers look rich with tiny sales.
    """
    start, then = whole(100 * SOL, 1_000), whole(125 * SOL, 800)
    follower = Follower(SOL, stays=True)
    follower.follow(bought(1, start, then, 200, network=5_000))
    for number in range(200):
        slices = (("b1", 1, SOL // 8),)
        outcome = follower.follow(sold(number, then, then, slices, SOL // 8, network=0))
        assert (outcome.reason == "too_small") == (number < 194)
    assert (follower.used, follower.spent) == (6, SOL + 5_000)
    assert follower.excluded == {"too_small": 194}


def test_a_followers_result_matches_a_hand_computation():
    """A pool of 100 SOL and 1,000 units (times 10^9), no fee. The bot pays 25 SOL for 200 units.
    The follower pays 25 more: 800 * 25 / 150 = 133.33 units. The bot sells its 200 into 150 SOL and
    666.67 units: 34.6 SOL leave, 115.38 and 866.67 remain. The follower sells 133.33 there for
    15.38. If its SOL was taken out, the pool has 100 SOL and 1,000 units, and pays 11.76.
    """
    start, then = whole(100 * SOL, 1_000 * SOL), whole(125 * SOL, 800 * SOL)
    trades = [
        bought(1, start, then, 200 * SOL, network=0),
        sold(1, then, start, (("b1", 200 * SOL, 25 * SOL),), 25 * SOL, network=0),
    ]
    best, worst = Follower(25 * SOL, stays=True), Follower(25 * SOL, stays=False)
    for trade in trades:
        ends = best.follow(trade), worst.follow(trade)
    assert ends[0].lamports == pytest.approx(15.3846 * SOL, rel=1e-5)
    assert ends[1].lamports == pytest.approx(11.7647 * SOL, rel=1e-5)
    assert (best.spent, best.at_bot) == (25 * SOL, 25 * SOL)
    # The bot sold at its cost: it had no gain, so no share of it was kept.
    assert (best.bot_bps, best.kept_percent) == (0, None)
    assert best.return_bps == -3_847
    assert worst.return_bps == -5_295


def test_a_sale_takes_its_share_and_the_last_takes_the_rest():
    state = whole(100 * SOL, 1_000)
    follower = Follower(SOL, stays=False)
    follower.follow(bought(1, state, state, 3))
    # 9 units for 1 SOL: 3 for a third of the bot's units, then the other 6.
    for number, amount, left in ((1, 1, 2 * SOL // 3), (2, 2, 0)):
        trade = sold(number, state, state, (("b1", amount, SOL),), SOL)
        assert follower.follow(trade).reason is None
        assert SOL + 5_000 - follower.spent == pytest.approx(left, abs=5_000)
    assert follower.spent == SOL + 5_000


def test_unusable_trades_are_excluded_with_a_reason():
    state = whole(100 * SOL, 1_000 * SOL)
    slices = ((None, 5, None), ("gone", 5, 7), ("b1", 5, 7))
    hidden = (0, "venue_unreadable", (("b2", 5, 7),))
    follower = Follower(SOL, stays=True)
    for trade, reason in (
        (CopiedTrade("b1", "M", True, 5, 0, 0, "route"), "route"),
        (bought(2, state, state, 5), None),
        (sold(1, state, state, slices, 90), "unknown_cost"),
        (CopiedTrade("s2", "M", False, 0, 90, *hidden), "venue_unreadable"),
    ):
        assert follower.follow(trade) == Outcome(None, reason)
    reasons = ("unknown_cost", "not_a_purchase", "route", "venue_unreadable")
    assert follower.excluded == dict.fromkeys(reasons, 1)
    assert (follower.sales, follower.used, follower.covered_percent) == (2, 0, 0)
    assert follower.missing == "too_few_sales"


@pytest.mark.parametrize(
    "tokens, sales, dear, missing",
    [
        (3, 9, 0, "too_few_sales"),
        (2, 10, 0, "too_few_tokens"),
        (3, 10, 71, "not_representative"),
        (3, 10, 70, None),
    ],
)
def test_too_few_sales_tokens_or_coverage_give_no_result(tokens, sales, dear, missing):
    """Each sale cost 7, and one that can't be followed cost `dear`."""
    state, follower = whole(100 * SOL, 1_000 * SOL), Follower(SOL, stays=False)
    for number in range(sales):
        mint = f"M{number % tokens}"
        follower.follow(bought(number, state, state, 5, mint=mint))
        follower.follow(sold(number, state, state, ((f"b{number}", 5, 7),), 9, mint=mint))
    follower.follow(CopiedTrade("s", "M", False, 0, 9, 0, "route", (("other", 5, dear),)))
    assert follower.missing == missing


# ---- the bracket ---------------------------------------------------------------------------------
# Purchases or sales by others, of a share of the pool.
MOVES = st.lists(st.tuples(st.booleans(), st.integers(1, 30)), max_size=8)


def trade_in(state, percent, is_buy):
    """Move a pool without a fee exactly along its curve, by a share of its SOL."""
    flow = state.sol * percent // 100
    return shift(state, flow if is_buy else -flow, "sell")


@given(MOVES, st.integers(1, 20), st.integers(0, 100))
def test_the_outcome_lies_between_best_and_worst_case(moves, size, share_left):
    """A bot buys and sells once, others trade in between, and any share of the follower's SOL is
    taken out before the bot sells.
    """
    start, lamports = whole(1_000 * SOL, 10**6 * SOL), size * SOL
    seen = trade_in(start, 10, True)
    raw = start.raw - seen.raw
    worst, best = (Follower(lamports, stays=stays) for stays in (False, True))
    purchase = bought(1, start, seen, raw, network=0)
    for one in (worst, best):
        one.follow(purchase)
    got = buy(purchase.pool, seen, lamports)
    real = whole(seen.sol + got.net, seen.raw - got.raw)
    for is_buy, percent in moves:
        moved = trade_in(seen, percent, is_buy)
        real = shift(real, moved.sol - seen.sol, "sell")
        seen = moved
    assume(real.sol > 2 * lamports and seen.sol > 2 * lamports)
    real = shift(real, -(got.net * share_left // 100), "sell")
    after = add_raw(seen, raw)
    trade = sold(1, seen, after, (("b1", raw, 10 * SOL),), seen.sol - after.sol, network=0)
    least, most = (one.follow(trade).lamports for one in (worst, best))
    truth = sell(trade.pool, add_raw(real, raw), got.raw).received
    assert least - 10 <= truth <= most + 10


# ---- as the job stores them ----------------------------------------------------------------------
# The chain is made up: its entries have the pools that purchases and sales would have left.
START = State(100 * SOL, 1_000_000, 100 * SOL, 1_000_000)
# After 25 SOL more, along x * y = k.
THEN = State(125 * SOL, 800_000, 125 * SOL, 800_000)


@pytest.fixture
def played(look):
    """Twelve purchases of 200,000 units for 25 SOL, each sold for 25 SOL, in pools without fees."""
    story = Story()
    story.fund("ada", 100 * SOL)
    for token in ("T0", "T1", "T2") * 4:
        story.buy("ada", token, 200_000, 25 * SOL)
        story.sell("ada", token, 200_000, 25 * SOL)
    look(story.chain(), wallets=[ADA]).settle()


def set_pools(change=lambda entry, pool: pool.pack()):
    for row in list(WalletSignature.select()):
        entry = read_entry(row)
        if entry.kind not in ("buy", "sell"):
            continue
        sides = (START, THEN) if entry.kind == "buy" else (THEN, START)
        pool = PoolReading("V", entry.mint, 0, "input", False, *sides)
        row.entry = entry._replace(pool=change(entry, pool)).dump()
        row.save()


@pytest.fixture
def copied(played):
    """A bot whose copying results were computed at NOW."""
    set_pools()
    assert copying.run_tick(NOW) == (None, '{"bots":1}')


def show():
    return find_copying(Bot.get().id)


def shown_size():
    return next(one for one in show()["sizes"] if one["sizeLamports"] == str(SHOWN_SIZE))


def test_a_bot_has_a_copying_result_after_its_sales(copied):
    """1 SOL behind 25 gets 800,000 / 126 = 6,349 units. The bot sells its 200,000 into 126 SOL and
    793,651 units: 100.63 SOL and 993,651 remain, and the follower gets 0.639 SOL. If its SOL was
    taken out, 100 SOL and 1,000,000 units pay 0.631. Each transaction costs 5,000 lamports.
    """
    told, size = show(), shown_size()
    expected = {"sales": 12, "tokens": 3, "topTokenPct": None, "excluded": {}}
    assert expected.items() <= told.items()
    expected = {"salesUsed": 12, "coveredPct": 100, "reason": None, "keptPct": None}
    assert expected.items() <= size.items()
    assert size["spentLamports"] == str(12 * (SOL + 5_000))
    assert size["returnBps"] == pytest.approx(-3_609, abs=2)
    assert size["worstReturnBps"] == pytest.approx(-3_691, abs=2)
    assert find_sizes([Bot.get().id]) == {Bot.get().id: size}
    sales = [one.id for one in Trade.select().where(Trade.kind == "sell")]
    found = {one.trade_id: one.lamports for one in tables.CopiedTrade.select()}
    assert sorted(found) == sorted(sales) and len(set(found.values())) == 1
    assert found[sales[0]] == pytest.approx(0.639 * SOL, rel=2e-3)


def test_only_new_sales_or_a_new_swap_program_trigger_a_recomputation(copied):
    """With another program, the entries are reread under rules with another name."""
    rested, later = NOW + copying.REST_MS, NOW + 10**9
    assert copying.run_tick(later) == (None, '{"bots":0}')
    assert {one.at for one in CopyTotal.select()} == {NOW}
    CopyTotal.update(mark="of fewer sales").execute()
    assert copying.run_tick(rested - 1) == (None, '{"bots":0}')
    assert copying.run_tick(rested) == (None, '{"bots":1}')
    Wallet.update(rules="with another program").execute()
    assert copying.run_tick(rested + copying.REST_MS) == (None, '{"bots":1}')
    assert copying.run_tick(later) == (None, '{"bots":0}')
    # A wallet that belonged to another bot before has no result.
    Wallet.update(bot_since=NOW).execute()
    assert copying.run_tick(later) == (None, '{"bots":0}') and not CopyTotal.select().exists()


def test_results_move_with_the_wallet(copied, monkeypatch):
    """Also those of a run in progress when the wallet was disconnected."""
    held, read = wallets.find_holder(ADA), copying.list_trades
    assert tables.CopiedTrade.select().exists()
    CopyTotal.update(mark="old").execute()

    def disconnect(numbers):
        yield from read(numbers)
        with storage.writing():
            wallets.give_up(held, NOW)

    with storage.writing():
        wallets.give_up(held, NOW)
    copying.run_tick(NOW)
    assert not tables.CopiedTrade.select().exists()
    Attachment.update(detached_at=None).execute()
    monkeypatch.setattr(copying, "list_trades", disconnect)
    monkeypatch.setattr("storage.snapshot", nullcontext)
    copying.run_tick(NOW + 10**9)
    assert not tables.CopiedTrade.select().exists()
    copying.run_tick(NOW + 2 * 10**9)
    assert not CopyTotal.select().exists()


def test_unreadable_trades_have_a_reason(played):
    """Once they are readable, the reason disappears."""
    set_pools(lambda entry, pool: ("route",) if entry.kind == "buy" else pool.pack())
    copying.run_tick(NOW)
    size = shown_size()
    assert show()["excluded"] == {"route": 12}
    assert (size["reason"], size["returnBps"]) == ("too_few_sales", None)
    assert {one.reason for one in tables.CopiedTrade.select()} == {"route"}
    set_pools()
    CopyTotal.update(mark="old").execute()
    copying.run_tick(NOW + copying.REST_MS)
    assert {one.reason for one in tables.CopiedTrade.select()} == {None}


def test_tokens_the_wallet_created_are_excluded(played):
    set_pools()
    row = WalletSignature.select().order_by(WalletSignature.slot).first()
    mint = Trade.select().where(Trade.kind == "buy").order_by(Trade.slot).first().mint
    row.entry = read_entry(row)._replace(created=(mint,)).dump()
    row.save()
    copying.run_tick(NOW)
    assert (show()["excluded"], show()["tokens"]) == ({"own_token": 4}, 2)


def test_damaged_entries_keep_the_last_results(copied):
    told = show()
    CopyTotal.update(mark="old").execute()
    WalletSignature.update(entry=b"no").execute()
    assert copying.run_tick(NOW + 10**9)[0] is None
    assert show() == told


def test_oversized_sums_are_capped(played):
    """A dishonest node can claim that each sale meets four times all existing SOL. 12 sales for
    almost 2**61 lamports each exceed 2**63.
    """
    rich = State(2**61 - 1, 1, 2**61 - 1, 1)

    def enrich(entry, pool):
        return (pool if entry.kind == "buy" else pool._replace(before=rich, after=rich)).pack()

    set_pools(enrich)
    assert copying.run_tick(NOW) == (None, '{"bots":1}')
    size = shown_size()
    assert (size["receivedLamports"], size["reason"]) == (str(2**63 - 1), None)


# ---- pages ---------------------------------------------------------------------------------------
def test_a_profile_shows_a_followers_result(service):
    """+14.1% of +15.6% is 90%, rounded down."""
    bot = service.make_bot("Ada", address("w"))
    service.observe_results(address("w"), 5)
    path = f"/bots/{bot.bot.uid}"
    assert "Copied right after" not in service.get(path).text
    tab = text_of(service.get(f"{path}?tab=copying"))
    assert "No result: not calculated yet." in tab
    shares = {"spent": 5, "received": 6, "used": 41, "sales": 58, "covered": 83, "tokens": 12}
    returns = {"return_bps": 1_410, "worst_bps": 800, "bot_bps": 1_560, "kept": 90}
    row = {"bot": bot.bot, "mark": "", "at": 0, "top_token": 31, **shares}
    CopyTotal.create(**row, **returns, size=SHOWN_SIZE, excluded='[["route", 11]]')
    CopyTotal.create(**row, reason="too_few_sales", size=10**10, excluded="[]")
    overview = text_of(service.get(path))
    tab = text_of(service.get(f"{path}?tab=copying"))
    assert "Copied right after, 1 SOL per purchase" in overview
    assert "at most +14.1%" in overview and "bot +15.6%, kept at most 90%" in overview
    for text in (
        "you'd have made at most +14.1%, where the bot made +15.6%",
        "in 41 of 58 sales, 83% of their cost",
        "If others take your SOL out first: +8.0%.",
        "fewer than 10 sales can be followed",
        "one token (of 12) made 31% of all gains",
        "the trade went through several pools 11",
    ):
        assert text in tab
