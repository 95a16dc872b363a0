"""The value of an account, a position and its close, to the lamport, and what is stored about them.
All by hand, without a market.
"""

from dataclasses import asdict, replace
from hashlib import sha256
from types import SimpleNamespace

import orjson
import pytest
from tape import MINUTE, START, quote, token, trader

import storage
from accounts import traders
from paper import store
from paper.account import (
    EXCLUDING,
    PIPELINE,
    STARTING_CASH,
    Account,
    Position,
    find_exclusion,
    public_id,
    read_close,
)
from paper.fills import MAX_ATTEMPTS, MAX_NETWORK_FEE, RENT, Fill, NetworkCosts, Order
from paper.market import ALL_SOL, SCALE
from paper.player import Faults, Journal, Leg, ReviewReason, Ticket, refuse
from paper.rules import Pause, Phase
from paper.strategies import Refusal
from paper.tables import EquityMark, PaperPost, Review

SOL = 10**9
# Two thousandths of a SOL for a whole token.
DEAR = 2 * SCALE // 1000


def order(number=1, side="buy", amount=SOL, **more):
    about = ("ada", number, "A", "AA", 6, side, amount, "told", 1)
    return Order(*about, START, START, START + 1, **more)


def place(account, side="buy", amount=SOL):
    """Place such an order; the account numbers it."""
    fields = asdict(order(side=side, amount=amount))
    del fields["number"]
    return account.place(**fields)


def position(number=1, mint="A", price=DEAR, **more):
    about = (number, mint, mint * 2, 6, START, None, price, START, 1, price)
    return Position(*about, **more)


def bought(snapshot=7, **more):
    """1,000 tokens worth 0.96 SOL, for 0.98: 0.02 of slippage; fees of 0.0025 and 0.00003."""
    told = {"raw": 10**9, "mid": 960_000_000, "slippage": 20_000_000, "pool_fee": 2_500_000}
    told |= {"network_fee": 30_000, "rent": RENT, **more}
    return Fill(1, "A", "buy", snapshot, START + 9_000, 1, START, **told)


def sold(raw, **more):
    """This many tokens, worth a SOL at the snapshot's price; 0.01 of slippage and two fees."""
    told = {"mid": SOL, "slippage": 10_000_000, "pool_fee": 2_475_000, "network_fee": 40_000}
    return Fill(2, "A", "sell", 8, START + 20_000, 2, START, raw=raw, **{**told, **more})


# ---- one position --------------------------------------------------------------------------------
def test_a_position_is_worth_its_pools_payout_or_its_price():
    """2,500 tokens at 0.002 are 5 SOL; more than all existing SOL wouldn't fit its column."""
    one = position(raw=2_500 * 10**6)
    assert one.value == 5 * SOL
    assert replace(one, worth=7).value == 7 and replace(one, worth=0).value == 0
    assert replace(one, raw=10**30).value == ALL_SOL


def test_an_entry_price_is_the_mean_snapshot_price():
    """3 SOL for 1,500 tokens; almost nothing for many is still a price."""
    assert position(mid_bought=3 * SOL, bought_raw=1_500 * 10**6).entry_price == DEAR
    assert position(mid_bought=1, bought_raw=10**30).entry_price == 1


def test_a_purchase_and_two_sales_add_up():
    """Cash: -0.98 - 0.0025 - 0.00003 - rent, then 0.99 - 0.002475 - 0.00004 twice, with the rent
    returned at the last.
    """
    account, seen = Account(), quote(0, pair="P")
    first = place(account)
    filled, held = account.apply(first, bought(), seen)
    paid, price = 982_530_000 + RENT, SCALE // 1000
    assert account.cash == STARTING_CASH - paid
    assert held == Position(
        *(1, "A", "AA", 6, START + 9_000, 300_000_00, price, START, seen.id, price),
        **{"raw": 10**9, "bought_raw": 10**9, "mid_bought": 960_000_000, "slippage": 20_000_000},
        **{"fees": 2_530_000, "rent": RENT, "cash": -paid, "spent": 982_530_000},
        **{"latency_ms": 9_000, "pair": "P"},
    )
    assert (first.number, account.next_order, account.next_position) == (1, 2, 2)
    assert (filled.attempts, filled.done, filled.remaining) == (1, 982_500_000, 17_500_000)

    sale, part = account.apply(place(account, "sell", 10**9), sold(4 * 10**8), quote(1))
    got = SOL - 10_000_000 - 2_475_000 - 40_000
    assert (part.raw, part.reduced, part.closed_at, part.mid_sold) == (6 * 10**8, True, None, SOL)
    assert sale.done == 4 * 10**8 and account.cash == STARTING_CASH - paid + got
    quicker = replace(sold(6 * 10**8, rent=-RENT, reason="stop"), decided_at=START + 15_000)
    sale, done = account.apply(sale, quicker, quote(2))
    assert (done.raw, done.rent, done.reason, done.closed_at) == (0, 0, "stop", START + 20_000)
    # Gross 2 - 0.96 SOL, minus slippage of 0.04 and fees of 0.00253 and twice 0.002515.
    assert done.gross == 1_040_000_000
    assert done.cash == 1_040_000_000 - 40_000_000 - 2_530_000 - 5_030_000
    assert account.cash == STARTING_CASH + done.cash and not account.positions
    assert done.latency_ms == 20_000 and account.lost_fees == 0


OF_ACCOUNT = ("cash", "lost_fees", "peak", "day_equity")


@pytest.mark.parametrize("name", [*OF_ACCOUNT, "lost", "worth", "rent", "at"])
@pytest.mark.parametrize("sign", [1, -1])
def test_oversized_values_are_named(name, sign):
    """63 bits and a sign. Figures stored as text may have any size."""

    def put(value):
        made, wanted = trader(row=SimpleNamespace(period=7)), {name: value}
        lost, worth, rent, at = (wanted.get(one, 1) for one in ("lost", "worth", "rent", "at"))
        made.journal.orders[1] = order(lost=lost, amount=2**70)
        made.journal.positions[1] = position_of(1, "A", worth=worth, bought_raw=2**70)
        made.journal.fills.append((bought(rent=rent, raw=2**70), 1))
        made.add_line("phase", at)
        vars(made.account).update({one: wanted.get(one, 1) for one in OF_ACCOUNT})
        return made

    store.check_round(put(sign * (2**63 - 1)))
    with pytest.raises(OverflowError, match=f"^{name} doesn't fit its column$"):
        store.check_round(put(sign * 2**63))


def test_failed_attempts_are_a_loss_until_a_position_opens():
    """Two that paid 30,000 each, and a third that bought: they are its first costs."""
    account = Account()
    one = place(account)
    failed = bought(raw=0, mid=0, slippage=0, pool_fee=0, rent=0, failed=True)
    for tries in (1, 2):
        one, held = account.apply(one, failed, None)
        assert (one.attempts, one.lost, held) == (tries, 30_000 * tries, None)
        assert account.lost_fees == 30_000 * tries == STARTING_CASH - account.cash
    one, held = account.apply(one, bought(), quote(0))
    assert (held.fees, held.spent) == (2_590_000, 982_590_000) and account.lost_fees == 0
    assert held.cash == account.cash - STARTING_CASH
    assert (one.attempts, held.number, account.next_position) == (3, 1, 2)
    # A failed sale costs its fee and reduces nothing.
    tried = replace(sold(0, mid=0, slippage=0, pool_fee=0), failed=True)
    _, after = account.apply(order(2, "sell", 10**9), tried, None)
    assert (after.reduced, after.fees - held.fees, after.raw) == (False, 40_000, 10**9)
    assert account.lost_fees == 0


def test_free_cash_excludes_open_orders():
    """A purchase of 1 SOL may cost eight attempts and the rent; for a held token, no rent; a sale
    after three attempts may cost five more.
    """
    account, most = Account(), MAX_ATTEMPTS * MAX_NETWORK_FEE
    place(account)
    assert account.free_cash == STARTING_CASH - SOL - most - RENT
    assert account.order_for("A").number == 1 and account.order_for("B") is None
    account.positions["A"] = position()
    assert account.free_cash == STARTING_CASH - SOL - most
    for attempts, reserved in ((3, 5 * MAX_NETWORK_FEE), (MAX_ATTEMPTS + 1, 0)):
        account.orders = {2: order(2, "sell", attempts=attempts)}
        assert account.free_cash == STARTING_CASH - reserved
    assert account.settle(order(2), "filled").state == "filled" and account.orders == {}
    assert account.settle(order(2), "expired").state == "expired"


def test_a_late_mark_is_noted_once():
    """Up to the horizon it is in time; the highest mark stays."""
    one = position(held=4)
    later = quote(2, price="0.001")
    assert one.marked(later, 120_000, MINUTE).marks == ()
    late = one.marked(later, 119_999, MINUTE, worth=9)
    assert late.marks == ("stale_price",) == late.marked(quote(9), 1, MINUTE).marks
    assert (late.price, late.high, late.worth) == (DEAR // 2, DEAR, 9)
    assert (late.marked_at, late.marked_on) == (later.at, later.id)
    higher = one.marked(quote(1, price="0.003", pair="P"), 1, MINUTE)
    assert (higher.high, higher.pair) == (3 * SCALE // 1000, "P")
    assert higher.marked(quote(2, pair="Q"), 1, MINUTE).pair == "P"


@pytest.mark.parametrize("interval, held", [(60_000, 2), (80_000, 2), (80_001, 1)])
def test_a_position_is_held_for_whole_intervals(interval, held):
    """Two minutes are two intervals of one; one and a half round up, less rounds down."""
    counted = position().marked(quote(2), 1, interval).held
    assert (counted, type(counted)) == (held, int)


def test_only_relevant_marks_stay_with_a_position():
    filled = bought(marks=("uncalibrated", "slippage_exceeded", "fall_seen_twice"))
    done = position(marks=("stale_price",)).with_fill(filled)
    assert done.marks == ("stale_price", "uncalibrated")


@pytest.mark.parametrize(
    "pipeline, marks, reviewed, found",
    [
        ("old", EXCLUDING, True, "under_review"),
        ("old", EXCLUDING, False, "old_pipeline"),
        (PIPELINE, EXCLUDING[::-1], False, EXCLUDING[0]),
        (PIPELINE, ("venue_unproven",), False, "venue_unproven"),
        (PIPELINE, ("fall_seen_twice",), False, None),
    ],
)
def test_exclusions_go_review_then_pipeline_then_first_mark(pipeline, marks, reviewed, found):
    assert find_exclusion(pipeline, marks, "stop", reviewed=reviewed) == found


def test_ids_derive_from_handle_noun_and_number():
    """SHA-256 of `ada|close|1`, 24 digits of it."""
    digest = sha256(b"ada|close|1").hexdigest()
    assert public_id("ada", "close", 1) == f"close_{digest[:24]}"


# ---- what is remembered --------------------------------------------------------------------------
def test_a_reloaded_trader_equals_the_stored_one(db):
    """Everything a round can leave, with distinct figures; for a twin, its account and tickets."""
    traders.create_trader("Ada Paper", "momentum", START, start="standard", adaptive="on")
    made, *others = store.load_traders(START, Faults(raising=True))
    account = made.account
    assert made.twins == others and len(others) == 3
    account.cash, account.lost_fees, account.next_order, account.next_position = 11, 12, 13, 14
    account.peak, account.day, account.day_equity = 15 * SOL, 16, 17 * SOL
    made.phase = Phase("guarded", START + 18, 19, 20, 21)
    # Beyond 63 bits, which no column of integers holds.
    huge = 2**64 - 1
    held = position_of(3, "A", raw=huge, bought_raw=huge)
    gone = position_of(4, "B", closed_at=START, reason="stop", reduced=False)
    account.positions["A"] = held
    sale = order(5, "sell", huge, done=51, attempts=2, lost=53, least=54, transfer_bps=55)
    account.orders[5] = replace(sale, handle=made.handle)
    made.journal.orders = {5: account.orders[5], 6: order(6, state="expired")}
    made.journal.positions = {3: held, 4: gone}
    ident = public_id(made.handle, "close", 4)
    made.closes.append(read_close(ident, gone, gone.marks, reviewed=True))
    # One that is in force, one that is only observed, and one that ended.
    pause = Pause("p", "poor_mint", "pause_mint", "B", START, START + 61, True, 8, 62, "8 of 8")
    made.pauses += [pause, replace(pause, id="o", applied=False)]
    facts = {"rule": pause.rule, "effect": pause.effect, "until": pause.until}
    facts |= {"n": 8, "windowMs": 62, "numbers": "8 of 8"}
    for ident, what in (("p", "begun"), ("o", "observed"), ("q", "begun")):
        made.add_line("pause", START, "B", what=what, id=ident, **facts)
    made.add_line("pause", START, "B", ends="q")
    told = Refusal("low_liquidity", "too thin"), Refusal("no_cash", "none")
    for number, refusal in enumerate(told):
        refuse(made, token("B"), refusal, START + number)
    made.open_review("price_jump", 9, "it jumped", START, "AA", "position 3")
    twin = made.twins[1]
    twin.account.cash = 81
    twin.account.positions["C"] = position_of(1, "C", raw=86)
    twin.journal.positions = {1: twin.account.positions["C"]}
    legs = Leg(82, 83, "stop"), Leg(84, 10_000, "time_stop")
    twin.tickets = [Ticket(3, 85, START, START + 86, legs, "C", START + 87)]
    store.store_round([made, *others], 77, START + 1, sol_cents=150_00)

    kept, *beside = store.load_traders(START, Faults(raising=True))
    made.journal = Journal()
    assert vars(kept.account) == vars(account)
    names = set(vars(made)) - {"account", "twins", "row"}
    assert {name: getattr(kept, name) for name in names} == {
        name: getattr(made, name) for name in names
    }
    assert set(kept.refused) == {("low_liquidity", "B"), ("no_cash", None)}
    assert vars(kept.twins[1].account) == vars(twin.account)
    assert kept.twins[1].tickets == twin.tickets and kept.twins[0].tickets == []
    assert [one.handle for one in beside] == [twin.handle for twin in made.twins]
    assert store.find_cursor() == 77
    assert set(storage.read_rows(store.HELD)) == {("A",), ("C",)}
    # The cash and the pool's payout; none of the twins'. START is a multiple of ten minutes.
    (mark,) = EquityMark.select().dicts()
    period = kept.row.period
    told = {"period": period, "at": START, "equity": 11 + 116, "held": 116, "sol_cents": 150_00}
    assert mark == {"id": mark["id"], **told}


def test_posts_are_stored_with_the_diary_position(db):
    """The last two of three posts are returned, older first, and a hidden one is only counted."""
    made = traders.create_trader("Ada Paper", "momentum", START, start="standard").trader
    one, *_ = store.load_traders(START, Faults(raising=True))
    for number in range(4):
        one.add_line("fill", START + number, "A", number, what="bought")
    store.store_round([one], 5, START)
    told = store.list_unposted(3)
    first, facts = told[0].id, '{"what":"bought"}'
    assert told == [
        (first + n, made.id, made.handle, made.voice, "fill", START + n, "A", facts)
        for n in range(3)
    ]
    about = {"trader": made.id, "mint": "A", "symbol": "AA", "writer": "built-in"}
    about |= {"event_at": START, "created_at": START}
    posts = [{"uid": f"p{n}", "entry": first + n, "body": f"body {n}", **about} for n in range(3)]
    assert store.read_post_history(made.id, 2) == (0, [])
    store.store_posts(posts, first + 2)
    assert store.read_post_history(made.id, 2) == (3, ["body 1", "body 2"])
    PaperPost.update(hidden_at=START).where(PaperPost.uid == "p1").execute()
    assert store.read_post_history(made.id, 2) == (3, ["body 0", "body 2"])
    assert store.read_post_history(made.id + 1, 2) == (0, [])
    assert [row.id for row in store.list_unposted(3)] == [first + 3]
    (kept,) = PaperPost.select().where(PaperPost.uid == "p2").dicts()
    assert posts[2].items() <= kept.items()


def position_of(number, mint, **more):
    """With distinct figures."""
    told = {"held": 106, "bought_raw": 107, "mid_bought": 108, "mid_sold": 109, "slippage": 110}
    told |= {"fees": 111, "rent": 112, "cash": -113, "spent": 114, "latency_ms": 115, "worth": 116}
    told |= {"pair": "P", "marks": ("uncalibrated",), "reduced": True, **more}
    marked = (DEAR, START - 103, 104, DEAR + 105)
    return Position(number, mint, mint * 2, 6, START - 101, 102_00, *marked, **told)


def test_an_open_review_collects_reasons_and_a_cleared_one_gets_a_successor(db):
    """Another trader's review, before and after, doesn't matter."""
    period, other = (
        traders.create_trader(name, "momentum", START).trader.periods.get().id
        for name in ("Ada Paper", "Bob Paper")
    )

    def add_reason(key, at, period=period):
        store.store_review(period, [ReviewReason(key, key, "told", at)])
        return [
            (one.state, one.opened_at, "".join(told["key"] for told in orjson.loads(one.reasons)))
            for one in Review.select().where(Review.period == period).order_by(Review.id)
        ]

    assert add_reason("z", 4, other) == [("under_review", 4, "z")]
    assert add_reason("a", 5) == [("under_review", 5, "a")]
    assert add_reason("b", 6) == [("under_review", 5, "ab")]
    Review.update(state="upheld").execute()
    assert add_reason("c", 7) == [("upheld", 5, "abc")]
    Review.update(state="cleared").execute()
    cleared = ("cleared", 5, "abc")
    assert add_reason("d", 8) == [cleared, ("under_review", 8, "d")]
    assert add_reason("e", 9) == [cleared, ("under_review", 8, "de")]
    assert add_reason("y", 9, other)[-1] == ("under_review", 9, "y")
    assert add_reason("f", 9) == [cleared, ("under_review", 8, "def")]


# ---- filled again --------------------------------------------------------------------------------
def test_a_write_off_replays_with_its_network_cost():
    """7 lamports of 7, 7 and 7."""
    gone = replace(order(side="sell", amount=10**9), reason="liquidity_gone")
    done = replace(sold(10**9), costs=NetworkCosts(7, 7, 7))
    again = store.fill_again(done, gone, quote(0), Account(SOL), 10**6)
    assert again.network_fee == 7
