"""Books that balance to the lamport: where a wallet's money went, item by item, checked against
small handmade ledgers, an independent oracle, the recorded history and every real receipt.
"""

import json
import random
from collections import Counter
from fractions import Fraction
from math import floor

import pytest
from corpus import read_truth
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from teller import (
    FEE,
    SOL_STEP,
    UNEXPLAINED,
    Teller,
    plan_sol_step,
    rebuild,
    write_sol_step,
    write_sol_steps,
)

from chain.addresses import WRAPPED_SOL
from chain.ledger.coverage import order_entries
from chain.ledger.inventory import SOL
from chain.ledger.ledger import Ledger
from chain.ledger.sales import Booked, see_side
from chain.ledger.totals import Totals
from chain.reading.entries import Entry, read_entry
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt

BEGIN = 10**12


# Where money went, without the balances.
ITEMS = (
    *("realized", "unmatched_proceeds", "open_cost", "cost_left", "cost_left_receipts"),
    *("received", "sent", "overhead", "failed_cost", "other", "gaps"),
)


def items(teller):
    """What is not zero of a reconciliation."""
    books = teller.ledger.reconcile()
    return {name: getattr(books, name) for name in ITEMS if getattr(books, name)}


def closes(teller):
    assert teller.ledger.reconcile().difference == 0
    return items(teller)


# ---- one transaction ---------------------------------------------------------------------------
ONE = Entry("one", 7, 0, 60, "?", "V", "A", (), (), 0, 5, 2, 0, (), ())
INCOMPLETE = ("incomplete_history",)


@pytest.mark.parametrize(
    "kind, told, booked, counted",
    [
        ("transfer_out", {"sol": -100}, {}, {"overhead": 7, "sent": 93}),
        ("native_transfer", {"sol": 50}, {}, {"overhead": 7, "received": 57}),
        ("account_open", {"sol": -7}, {}, {"overhead": 7}),
        # Fee and tip are separate from deposits and orders.
        ("liquidity", {"sol": -100}, {}, {"overhead": 7, "other": -93}),
        ("order_fill", {"sol": -7}, {"carried": 3}, {"overhead": 7, "carried": 3}),
        # 4 lamports beyond its fee are unaccounted for.
        ("failed", {"sol": -9, "tip": 0}, {}, {"failed": 1, "failed_cost": 5, "other": -4}),
        # Of the 50 that left, 30 were outside the venue, and others contributed 6.
        (
            *("buy", {"sol": -50, "beside_sol": -30, "sponsored": 6}, {}),
            {"trades": 1, "volume": 20, "sent": 30, "received": 6},
        ),
        (
            *("sell", {"sol": 50, "beside_sol": 30}, {"status": "matched", "result": 1}),
            {
                **{"trades": 1, "volume": 20, "received": 30},
                **{"matched": 1, "realized": 1, "winning": 1},
            },
        ),
        (
            *("sell", {"sol": 50}, {"status": "matched", "result": 0}),
            {"trades": 1, "volume": 50, "matched": 1},
        ),
        (
            *("sell", {"sol": 50}, {"status": "partial", "result": -3, "unmatched_proceeds": 20}),
            {"trades": 1, "volume": 50, "partial": 1, "realized": -3, "unmatched_proceeds": 20},
        ),
        (
            *("sell", {"sol": 50}, {"status": "unmatched", "unmatched_proceeds": 50}),
            {"trades": 1, "volume": 50, "unmatched": 1, "unmatched_proceeds": 50},
        ),
        # After a gap it has no result, even if one was computed.
        (
            "sell",
            {"sol": 50},
            {
                **{"status": "unmatched", "result": 5, "flags": INCOMPLETE},
                **{"unmatched_proceeds": 50, "carried": 1},
            },
            {"trades": 1, "volume": 50, "carried": 1},
        ),
        (
            *("sell", {"sol": 50}, {"status": "matched", "result": 5, "flags": UNEXPLAINED}),
            {},
        ),
        (
            *("swap", {"sol": -50}, {"carried": 2, "cost_left": 8, "other": -1}),
            {"trades": 1, "carried": 2, "cost_left": 8, "cost_left_receipts": 1, "other": -1},
        ),
        (
            *("round_trip", {"sol": 50}, {"status": "matched", "result": 50}),
            {"trades": 1, "matched": 1, "realized": 50, "winning": 1},
        ),
    ],
)
def test_each_transaction_adds_to_the_expected_sums(kind, told, booked, counted):
    entry = ONE._replace(kind=kind, **told)
    totals, twice = Totals(), Totals()
    side = see_side(entry, SOL)
    totals.add(Booked(entry, side, **booked))
    assert totals == Totals(**counted)
    for _ in range(2):
        twice.add(Booked(entry, side, **booked))
    assert twice == Totals(**{name: 2 * n for name, n in counted.items()})


# ---- small ledgers -------------------------------------------------------------------------------
def test_opening_and_closing_balances_are_known():
    told = Teller(lamports=500).buy("A", 10, 100).ledger.reconcile()
    # The wallet pays the rent of A's account, which stays the wallet's own
    assert (told.opening, told.closing, told.open_cost, told.difference) == (500, 400, 100, 0)


def test_known_cost_merged_into_an_unknown_lot_is_cost_left():
    t = Teller().gain("A", 1).buy("A", 9, 90).swap("A", 10, "B", 5)
    want = {"cost_left": 90, "cost_left_receipts": 1}
    assert t.lots("B") == "5@?" and closes(t) == {"received": BEGIN, **want}


def test_sent_received_and_other_have_separate_rules():
    t = Teller().write("native_transfer", -70, FEE).write("lending", -300, FEE)
    t.write("stake", 40, FEE).write("account_open", -10, FEE)
    want = {"sent": 65 + 5, "other": -295 + 45, "overhead": 4 * FEE}
    assert closes(t) == {"received": BEGIN, **want}


def test_a_round_trip_has_its_own_result():
    """It counts as a matched sale and a trade, moves no lot and adds no volume."""
    t = Teller().buy("A", 10, 100).write("round_trip", 7, FEE, [("B", 1)], "A", residues=["B"])
    assert t.sale == ("matched", 7, None, None) and (t.last.matched, t.last.lots) == (0, ())
    assert (t.lots("A"), t.lots("B")) == ("10@100", "1@?")
    totals = t.ledger.totals
    assert (totals.trades, totals.volume, totals.matched, totals.winning) == (2, 100, 1, 1)
    assert closes(t) == {"received": BEGIN, "realized": 7, "open_cost": 100}
    t.write("round_trip", -9, FEE, mint="A", beside_sol=500)
    assert closes(t) == {"received": BEGIN + 500, "realized": -2, "open_cost": 100}
    assert (totals.winning, t.inventory.average.realized) == (1, -2)


def test_a_round_trip_has_a_result_after_a_gap_too():
    t = Teller().buy("A", 10, 100).slip(lamports=-33).write("round_trip", 7, FEE, mint="A")
    assert t.sale == ("matched", 7, None, None) and t.ledger.reconcile().imbalance == 0


def order_of_four():
    """4 of 10@100 are in escrow, and the order's account has a rent of 9."""
    opened = [("e", "A", 4), ("order", "SOL", 9)]
    return Teller().buy("A", 10, 100).write("order_open", -9, 0, [("A", -4)], None, opened)


@pytest.mark.parametrize(
    "market",
    [
        # nobody; a lamport too little; more A than the order gave; something besides A
        (),
        (("A", -4), (WRAPPED_SOL, 69)),
        (("A", -5), (WRAPPED_SOL, 70)),
        (("A", -4), ("B", -1), (WRAPPED_SOL, 70)),
    ],
)
def test_an_order_without_a_market_fill_has_no_result(market):
    t = order_of_four()
    t.write("order_fill", 79, orders=[("e", "A", -4), ("order", "SOL", -9)], market=market)
    assert t.last.result is None and not t.ledger.totals.matched
    want = {"other": 79 - 9, "cost_left": 40, "cost_left_receipts": 1, "open_cost": 60}
    assert closes(t) == {"received": BEGIN, **want}


def test_an_order_whose_opening_was_not_seen_has_no_result():
    t = order_of_four()
    t.escrow["another"] = 9
    t.write("order_fill", 79, orders=[("e", "A", -4), ("another", "SOL", -9)])
    assert t.last.result is None and closes(t)["cost_left"] == 40


def test_the_imbalance_equals_what_moved_in_a_gap():
    t = Teller().buy("A", 10, 100).slip(lamports=-33).sell("A", 4, 60)
    told = t.ledger.reconcile()
    assert (told.difference, told.gaps, told.imbalance) == (-33, -33, 0)
    # a sale after a gap has no result: its SOL minus the cost of the sold units
    assert items(t) == {"received": BEGIN, "open_cost": 60, "other": 60 - 40, "gaps": -33}


def test_an_account_seen_late_opens_with_its_balance():
    """Its rent was paid before; its tokens have an unknown cost."""
    t = Teller(lamports=500, A=7).buy("B", 1, 100).sell("A", 7, 60)
    told = t.ledger.reconcile()
    assert (told.opening, told.unmatched_proceeds, told.difference) == (500 + 2_000, 60, 0)


# ---- an oracle written apart ---------------------------------------------------------------------
class Purse:
    """An independent implementation of the same rules in fractions."""

    def __init__(self):
        self.piles, self.money = [], Counter()

    def put(self, mint, amount, cost):
        if amount:
            self.piles.append([mint, amount, cost, amount, cost])

    def take(self, mint, amount):
        out = []
        for pile in self.piles:
            piece = min(pile[3], amount) if pile[0] == mint else 0
            if piece:
                pile[3], amount = pile[3] - piece, amount - piece
                cost = None
                if pile[2] is not None:
                    cost = floor(Fraction(pile[2] * piece, pile[1])) if pile[3] else pile[4]
                    pile[4] -= cost
                out.append((piece, cost))
        assert not amount
        return out

    def leave(self, mint, amount):
        cost = sum(c or 0 for _, c in self.take(mint, amount))
        self.left += cost

    def apply(self, step):
        verb, sol, fee, changes, beside_sol, beside, sponsored = step
        self.left = 0
        m = self.money
        m["received"] += sponsored + max(0, beside_sol)
        m["sent"] += max(0, -beside_sol)
        for mint, n in beside:
            self.put(mint, max(0, n), None)
        self.move(verb, sol, fee, dict(changes))
        for mint, n in beside:
            if n < 0:
                self.leave(mint, -n)
        m["cost_left"] += self.left
        m["cost_left_receipts"] += bool(self.left)

    def move(self, verb, sol, fee, changes):
        m = self.money
        if verb == "buy":
            ((mint, n),) = changes.items()
            self.put(mint, n, -sol)
        elif verb == "sell":
            ((mint, n),) = changes.items()
            rest, parts = sol, self.take(mint, -n)
            for place, (piece, cost) in enumerate(parts):
                gross = rest if place == len(parts) - 1 else floor(Fraction(sol * piece, -n))
                rest -= gross
                m["unmatched_proceeds" if cost is None else "realized"] += gross - (cost or 0)
        elif verb == "round_trip":
            m["realized"] += sol
        elif verb == "swap":
            (given, n), (mint, got) = sorted(changes.items(), key=lambda one: one[1])
            parts, rest, spent = self.take(given, -n), got, -sol
            for place, (piece, cost) in enumerate(parts):
                last = place == len(parts) - 1
                part = rest if last else floor(Fraction(got * piece, -n))
                paid = spent if last else floor(Fraction(-sol * piece, -n))
                rest, spent = rest - part, spent - paid
                self.put(mint, part, None if cost is None else cost + paid)
                m["other"] -= paid if cost is None else 0
        else:
            self.unpriced(verb, sol, fee, changes)

    def unpriced(self, verb, sol, fee, changes):
        m = self.money
        for mint, n in changes.items():
            self.put(mint, max(0, n), None)
            if n < 0:
                self.leave(mint, -n)
        if verb == "failed":
            m["failed_cost"] += fee
        elif verb == "unexplained":
            m["other"] += sol
        else:
            m["overhead"] += fee
            rest = sol + fee
            if verb == "lending":
                m["other"] += rest
            else:
                m["received" if rest > 0 else "sent"] += abs(rest)

    def told(self):
        money = {name: n for name, n in self.money.items() if n}
        left = sum(pile[4] or 0 for pile in self.piles)
        return {**money, **({"open_cost": left} if left else {})}


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(SOL_STEP, max_size=40))
def test_every_line_matches_the_oracle_and_reconciles(drawn):
    """With gifts during trades, payments for a second wallet, strangers' rent, failed and
    unexplained ones: after each transaction.
    """
    teller, purse = Teller(lamports=10**15), Purse()
    for one in drawn:
        step = plan_sol_step(teller, one)
        if step:
            write_sol_step(teller, step)
            purse.apply(step)
            assert closes(teller) == purse.told()


@settings(max_examples=examples(100), deadline=None)
@given(drawn=st.lists(SOL_STEP, max_size=30), seed=st.integers(0, 10**6), missing=st.integers(0, 3))
def test_any_order_reconciles_to_the_missing_part(drawn, seed, missing):
    """Some transactions are never found: the imbalance is exactly what the balances moved there."""
    entries = write_sol_steps(drawn).entries
    dice = random.Random(seed)
    inside = entries[1:-1]
    gone = {e.signature for e in dice.sample(inside, min(missing, len(inside)))}
    found = [e for e in entries if e.signature not in gone]
    ledger, booked = rebuild(found)
    assert rebuild(order_entries(dice.sample(found, len(found)))) == (ledger, booked)
    assert ledger.reconcile().imbalance == 0
    if not ledger.chain.gaps:
        assert ledger.reconcile().difference == 0


# ---- what really happened ------------------------------------------------------------------------
def test_recorded_wallets_reconcile(history):
    programs = table([history["venue"]])
    for encoding in ("json", "jsonParsed"):
        receipts = [
            parse_receipt({**one[encoding], "transactionIndex": one["index"]})
            for one in history["transactions"]
        ]
        for wallet in history["wallets"]:
            entries = [read_entry(r, wallet, programs) for r in receipts]
            ledger, _ = rebuild(order_entries(e for e in entries if e.balances))
            told = ledger.reconcile()
            final = int(history["final"][wallet]["lamports"])
            assert ledger.chain.seen[wallet].lamports == final
            assert told.closing == sum(seen.lamports for seen in ledger.chain.seen.values())
            assert (told.difference, told.gaps, told.imbalance) == (0, 0, 0)


def test_every_real_receipt_reconciles(receipts):
    programs, closed = table(), 0
    for row in read_truth(receipts):
        raw = json.loads((receipts / "json" / f"{row['signature']}.json").read_text())
        ledger = Ledger()
        ledger.apply(read_entry(parse_receipt(raw), row["wallet"], programs))
        assert (row["signature"], ledger.reconcile().difference) == (row["signature"], 0)
        closed += 1
    assert closed == 143
