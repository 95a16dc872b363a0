"""Ledgers in stablecoins: the rules of docs/results.md with another money, small ledgers worked out
by hand, an oracle written apart, real receipts and the recorded history.

`Q` is the quote here, `K` another one. `10@100` is ten units that cost 100 raw units of Q.
"""

import json
import random
from collections import Counter
from fractions import Fraction
from math import floor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ledger import FEE, Teller, mint_of, rebuild
from test_receipts import read_truth
from test_reconciliation import UNEXPLAINED

from chain.ledger import ledger as ledgers
from chain.ledger.coverage import order_entries
from chain.ledger.ledger import Ledger, quote_book
from chain.ledger.lots import PAID_ELSEWHERE, Opening
from chain.ledger.quote_book import (
    QuoteBook,
    QuoteRecord,
    begin_ledger,
    read_sale,
    view_entry,
)
from chain.reading.effects import Balance
from chain.reading.entries import Entry, read_entry
from chain.reading.programs import table
from chain.reading.quotes import MINTS, QUOTES
from chain.reading.receipts import parse_receipt

USDC, USDT, _ = (quote.mint for quote in QUOTES)


@pytest.fixture(autouse=True)
def _short_names(monkeypatch):
    """`Q` and `K` are in the table, too."""
    for module in (ledgers, quote_book):
        monkeypatch.setattr(module, "MINTS", MINTS | {"Q", "K"})


def book(entries, quote="Q", whole=None):
    """(QuoteRecord, [Booked...]) of a quote, from the first entry that holds some of it on."""
    whole, found, booked = whole or Ledger(), QuoteBook(), []
    for entry in entries:
        found.begin(entry, whole)
        whole.apply(entry)
        booked.append(found.count(entry, entry.block_time).get(quote))
    if whole.stale or found.is_stale:
        again = whole.restart()
        return book(entries, quote, again)
    return found.records.get(quote), [one for one in booked if one]


def told(entries, quote="Q"):
    """What is not zero of the running totals and of the books, which close."""
    record, _ = book(entries, quote)
    books = record.ledger.reconcile()
    assert books.difference == 0 and books.closing == held(entries, quote)
    kept = {n: v for n, v in books._asdict().items() if n not in ("opening", "closing")}
    return {n: v for n, v in {**record.last._asdict(), **kept}.items() if v}


def held(entries, quote):
    """What the accounts of a mint hold in the end, by the entries alone."""
    after = {b.address: b.after for e in entries for b in e.balances if b.mint == quote}
    return sum(after.values())


def lots(entries, mint, quote="Q"):
    record, _ = book(entries, quote)
    return " ".join(
        f"{lot.left}@{'?' if lot.left_cost is None else lot.left_cost}"
        for lot in record.ledger.lots.get(mint, [])
    )


# ---- what was paid and got -----------------------------------------------------------------------
BALANCE = Balance("ada", None, 9, 0, 0, 5, 3)
PLAIN = Entry(
    *("one", 7, 0, 60, "swap", "a venue", "A", ("f",), (), -90, 5, 4, 3, (), (BALANCE,)),
    others=(("e", "Q", 1, 2), ("e", "A", 3, 4)),
    unowned=("u",),
    sponsored=6,
    explained_percent=97,
    counterparties=("c",),
    seen_at=61,
)


@pytest.mark.parametrize(
    "told, seen",
    [
        # One unit of the quote is enough to be bought or sold for.
        (
            {"tokens": (("A", 5, 0), ("Q", -1, 6))},
            {"kind": "buy", "sol": -1, "tokens": (("A", 5, 0),)},
        ),
        (
            {"tokens": (("A", -5, 0), ("Q", 1, 6)), "mint": "Q"},
            {"kind": "sell", "sol": 1, "tokens": (("A", -5, 0),), "mint": "A"},
        ),
        # Of 7 that came 3 stood beside; with 4 of A beside, only B was sold.
        (
            {
                "tokens": (("A", -4, 0), ("B", -2, 0), ("Q", 7, 6)),
                "beside_tokens": (("A", -4, 0), ("Q", 3, 6)),
                "beside_sol": 8,
            },
            {
                **{"kind": "sell", "mint": "B", "sol": 7, "beside_sol": 3},
                "tokens": (("A", -4, 0), ("B", -2, 0)),
                "beside_tokens": (("A", -4, 0),),
            },
        ),
        # All that came stood beside, or is what was left of it: no trade against the quote.
        (
            {
                "tokens": (("A", -5, 0), ("B", 1, 0), ("Q", 2, 6)),
                "beside_tokens": (("Q", 2, 6),),
            },
            {"sol": 2, "beside_sol": 2, "tokens": (("A", -5, 0), ("B", 1, 0)), "beside_tokens": ()},
        ),
        (
            {"tokens": (("A", -5, 0), ("B", 1, 0), ("Q", 2, 6)), "residues": ("Q",)},
            {"sol": 2, "beside_sol": 2, "tokens": (("A", -5, 0), ("B", 1, 0))},
        ),
        # For SOL: a purchase was paid for elsewhere, and nobody asks what explains its value.
        ({"kind": "buy"}, {"kind": "other", "flags": ("f", PAID_ELSEWHERE)}),
        ({"kind": "sell"}, {"kind": "other"}),
        ({"kind": "round_trip"}, {"kind": "other"}),
        *(
            ({"kind": kind, "flags": ("f", *UNEXPLAINED)}, {"kind": "other", "flags": ("f",)})
            for kind in ("buy", "sell")
        ),
        ({"flags": UNEXPLAINED}, {"flags": UNEXPLAINED}),
        ({"kind": "transfer_in", "flags": UNEXPLAINED}, {"flags": UNEXPLAINED}),
        ({"kind": "failed"}, {}),
    ],
)
def test_how_a_transaction_looks_with_the_quote_as_money(told, seen):
    """Fee, tip, rent and what was sponsored are SOL, and no part of it."""
    entry = PLAIN._replace(**told)
    money = {"sol": 0, "fee": 0, "tip": 0, "rent": 0, "sponsored": 0, "beside_sol": 0}
    others = (("e", "A", 3, 4),)
    assert view_entry(entry, "Q") == entry._replace(**{**money, "others": others, **seen})


def test_a_purchase_and_a_sale_for_the_quote_have_a_result_in_it():
    """10 A for 100 Q; 4 of them for 60 Q: 60 - 40 = 20. Volume 100 + 60; two fees of 5 lamports."""
    t = Teller().gain("Q", 500).swap("Q", 100, "A", 10).swap("A", 4, "Q", 60)
    assert told(t.entries) == {
        **{"realized": 20, "volume": 160, "trades": 2, "matched": 1, "winning": 1},
        **{"fee_lamports": 2 * FEE, "received": 500, "open_cost": 60},
    }
    assert lots(t.entries, "A") == "6@60"


def test_in_sol_the_same_is_two_swaps_and_nothing_realized():
    t = Teller().gain("Q", 500).swap("Q", 100, "A", 10).swap("A", 4, "Q", 60)
    assert (t.ledger.totals.realized, t.ledger.totals.matched, t.ledger.totals.trades) == (0, 0, 2)


def test_what_was_bought_for_sol_has_a_result_in_neither():
    """10 A for 100 lamports and 10 A for 200 Q; all sold for 500 Q: 250 for each ten. The first ten
    are no one's result: they carry their 100 lamports to Q. The others: 250 - 200 = 50.
    """
    t = Teller().gain("Q", 500).buy("A", 10, 100).swap("Q", 200, "A", 10).swap("A", 20, "Q", 500)
    assert told(t.entries) == {
        **{"realized": 50, "volume": 700, "trades": 2, "partial": 1, "winning": 1, "cross": 1},
        **{"fee_lamports": 2 * FEE, "received": 500, "unmatched_proceeds": 250},
    }
    assert t.ledger.totals.realized == 0 and t.lots("Q").split()[-2:] == ["250@100", "250@?"]


def test_a_gift_that_is_sold_for_the_quote_is_unmatched_and_not_paid_elsewhere():
    """Nor is what it was swapped for on the way."""
    gift = Teller().gain("Q", 5).gain("A", 10)
    for sold in (gift.swap("A", 4, "Q", 60), gift.swap("A", 6, "B", 3).swap("B", 3, "Q", 60)):
        shown = told(sold.entries)
        assert "cross" not in shown and shown["unmatched"] * 60 == shown["unmatched_proceeds"] > 0


def test_paid_elsewhere_is_followed_over_swaps():
    t = Teller().gain("Q", 5).buy("A", 10, 100).swap("A", 10, "B", 7).swap("B", 7, "Q", 60)
    assert told(t.entries)["cross"] == 1
    t = Teller().gain("K", 100).swap("K", 100, "A", 10).swap("A", 10, "Q", 60)
    assert told(t.entries)["cross"] == 1


def test_a_swap_of_tokens_carries_the_cost_and_is_no_trade_against_the_quote():
    """10 A for 100 Q become 5 B, which bring 130 Q: 130 - 100."""
    t = Teller().gain("Q", 100).swap("Q", 100, "A", 10).swap("A", 10, "B", 5).swap("B", 5, "Q", 130)
    shown = told(t.entries)
    assert (shown["realized"], shown["trades"], shown["matched"]) == (30, 2, 1)


def test_one_stablecoin_for_another_is_a_purchase_in_one_and_a_sale_in_the_other():
    """100 Q for 99 K, and 99 K for 101 Q. In Q: 99 K cost 100, and bring 101. In K: 100 Q of
    unknown cost bring 99; 101 Q cost 99.
    """
    t = Teller().gain("Q", 100).swap("Q", 100, "K", 99).swap("K", 99, "Q", 101)
    shown = told(t.entries)
    assert (shown["realized"], shown["volume"], shown["trades"]) == (1, 201, 2)
    shown = told(t.entries, "K")
    assert (shown["unmatched_proceeds"], shown["open_cost"], shown["trades"]) == (99, 99, 2)
    assert "realized" not in shown


def test_bought_and_sold_for_sol_the_quote_is_no_trade_of_its_own():
    t = Teller().buy("Q", 300, 50).sell("Q", 100, 20)
    assert told(t.entries) == {"other": 200}


def test_what_was_paid_in_the_quote_and_sold_for_sol_leaves_its_cost():
    """10@100, 4 sold for 60 lamports: 40 of its cost left, in one receipt. No result."""
    t = Teller().gain("Q", 100).swap("Q", 100, "A", 10).sell("A", 4, 60)
    shown = told(t.entries)
    assert (shown["cost_left"], shown["cost_left_receipts"], shown["open_cost"]) == (40, 1, 60)
    assert "realized" not in shown and "matched" not in shown


# ---- what is no trade ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "item"),
    [
        *(("transfer_out", "sent"), ("lending", "other"), ("liquidity", "other")),
        *(("stake", "other"), ("bridge", "other"), ("nft", "other"), ("other", "other")),
        ("order_open", "other"),
    ],
)
def test_where_the_quote_went_without_a_trade(kind, item):
    shown = told(Teller().gain("Q", 100).lose("Q", 40, kind).entries)
    assert shown == {"received": 100, item: 40 if item == "sent" else -40}


def test_between_own_accounts_nothing_moves():
    t = Teller().gain("Q", 100).write("transfer_self", -FEE, FEE, [("Q", -40), ("Q/2", 40)])
    assert told(t.entries) == {"received": 100}


def test_an_orders_escrow_keeps_its_lots_and_a_fill_in_the_quote_is_no_sale():
    """10@100 lie in escrow; a cancel brings 6@60 back; a fill sells the rest for 70 Q: its cost of
    40 left, and 70 are `other`, as a fill in SOL is.
    """
    t = Teller().gain("Q", 100).swap("Q", 100, "A", 10)
    t.write("order_open", changes=[("A", -10)], orders=[("e", "A", 10)])
    t.write("order_cancel", changes=[("A", 6)], orders=[("e", "A", -6)])
    assert lots(t.entries, "A") == "6@60"
    t.write("order_fill", changes=[("Q", 70)], orders=[("e", "A", -4)])
    shown = told(t.entries)
    assert (shown["cost_left"], shown["other"], shown["open_cost"]) == (40, 70, 60)


def test_what_lies_in_escrow_when_the_quote_is_first_held_was_paid_elsewhere():
    """10 A for 100 lamports lie in escrow, and 4 B that somebody gave; then some Q comes. Both are
    taken back and sold for 70 and 20 Q: in Q the cost of neither is known, and only A was paid for
    in something else.
    """
    t = Teller().buy("A", 10, 100).gain("B", 4)
    t.write("order_open", changes=[("A", -10)], orders=[("e", "A", 10)])
    t.write("order_open", changes=[("B", -4)], orders=[("f", "B", 4)])
    t.gain("Q", 5)
    t.write("order_cancel", changes=[("A", 10)], orders=[("e", "A", -10)])
    t.write("order_cancel", changes=[("B", 4)], orders=[("f", "B", -4)])
    t.swap("A", 10, "Q", 70).swap("B", 4, "Q", 20)
    shown = told(t.entries)
    assert (shown["unmatched"], shown["unmatched_proceeds"], shown["cross"]) == (2, 90, 1)


def test_an_order_paid_in_the_quote_brings_lots_of_unknown_cost():
    t = Teller().gain("Q", 100)
    t.write("order_open", changes=[("Q", -50)], orders=[("e", "Q", 50)])
    t.write("order_fill", changes=[("A", 5)], orders=[("e", "Q", -50)])
    assert lots(t.entries, "A") == "5@?" and told(t.entries) == {"received": 100, "other": -50}


def test_a_round_trip_in_sol_leaves_the_quote_alone():
    t = Teller().gain("Q", 100).write("round_trip", 30, FEE, [])
    assert told(t.entries) == {"received": 100}


# ---- what did not come from the venue ------------------------------------------------------------
def test_what_stood_beside_a_trade_is_no_part_of_its_price():
    """60 Q came from the venue for 4@40, and 1000 beside it; 7 were sent beside a purchase."""
    t = Teller().gain("Q", 500)
    t.write("swap", 0, FEE, [("Q", -100), ("A", 10)], "A", beside=[("Q", -7)])
    t.write("swap", 0, FEE, [("A", -4), ("Q", 60)], "Q", beside=[("Q", 1000)])
    shown = told(t.entries)
    assert (shown["realized"], shown["received"], shown["sent"]) == (20, 1500, 7)
    assert shown["open_cost"] == 60


def test_a_trade_of_unexplained_value_has_no_price_in_the_quote_either():
    """Of 10@100 four leave for 60 Q that nobody can explain: 40 of cost left, 60 are `other`."""
    t = Teller().gain("Q", 100).swap("Q", 100, "A", 10)
    t.write("swap", 0, FEE, [("A", -4), ("Q", 60)], "Q", flags=UNEXPLAINED)
    t.write("swap", 0, FEE, [("Q", -5), ("B", 1)], "B", flags=UNEXPLAINED)
    shown = told(t.entries)
    assert (shown["cost_left"], shown["other"], shown["trades"]) == (40, 55, 1)
    assert "realized" not in shown and lots(t.entries, "B") == "1@?"
    assert read_sale(book(t.entries)[1][-1]) is None


def test_a_residue_of_the_quote_is_received():
    t = Teller().gain("A", 10)
    t.write("swap", 0, FEE, [("A", -10), ("B", 5), ("Q", 3)], "B", residues=("Q",))
    assert told(t.entries) == {"received": 3}


def test_a_fee_that_the_token_withholds_is_paid_by_who_gets_it():
    """Token-2022: 100 left the venue, 98 arrived. What arrived is what was got: 98 - 40."""
    t = Teller().gain("Q", 100).swap("Q", 100, "A", 10).swap("A", 4, "Q", 98)
    assert told(t.entries)["realized"] == 58


# ---- what was there before, and gaps -------------------------------------------------------------
def test_what_is_held_in_the_beginning_is_opening_money_and_no_lot():
    t = Teller(lamports=10**12, Q=500, A=3).swap("Q", 100, "A", 10).swap("A", 4, "Q", 60)
    record, _ = book(t.entries)
    assert (record.ledger.totals.opening, record.ledger.totals.closing) == (500, 460)
    # 3@? stand first: of 60 they bring 45; 1@10 brings 15
    assert (record.last.realized, record.last.partial) == (5, 1) and lots(t.entries, "Q") == ""
    assert told(t.entries)["unmatched_proceeds"] == 45


def test_what_no_receipt_touched_is_opening_money_too():
    untouched = {"ada's Q/2": Opening.untouched("ada's Q/2", "Q", 40, 0)}
    t = Teller().gain("Q", 100)
    record, _ = book(t.entries, whole=Ledger(untouched=untouched))
    told_ = record.ledger.reconcile()
    assert (told_.opening, told_.closing, told_.difference) == (40, 140, 0)


def test_after_a_gap_of_the_quote_no_sale_for_it_has_a_result():
    """30 Q came unobserved: they are the difference. What was missed may be a purchase."""
    t = Teller().gain("Q", 100).swap("Q", 50, "A", 10).slip("Q", 30).swap("A", 4, "Q", 60)
    record, booked = book(t.entries)
    books = record.ledger.reconcile()
    assert (books.difference, books.gaps, books.imbalance) == (30, 30, 0)
    assert "incomplete_history" in booked[-1].flags and record.last.matched == 0
    # of what was seen, in SOL only Q itself is in doubt
    assert t.buy("B", 1, 10).sell("B", 1, 12).sale[1] == 2


def test_a_gap_of_the_quote_that_shows_late_reaches_back_to_its_beginning():
    t = Teller().gain("Q", 100).gain("Q/2", 5).swap("Q", 50, "A", 10).slip("Q/2", -5)
    t.swap("A", 10, "Q", 60).gain("Q/2", 1)
    record, booked = book(t.entries)
    assert record.last.realized == 0 and not record.ledger.stale
    assert [b.flags for b in booked if b.entry.kind == "sell"] == [("incomplete_history",)]


def test_until_all_was_listed_no_sale_has_a_result():
    t = Teller().gain("Q", 100).swap("Q", 50, "A", 10).swap("A", 10, "Q", 60)
    record, _ = book(t.entries, whole=Ledger(backfilled=False))
    assert record.last.realized == 0 and record.last.trades == 2


def test_a_wallet_that_never_holds_a_quote_has_no_such_ledger():
    t = Teller().buy("A", 10, 100).gain("B", 1)
    assert book(t.entries) == (None, [])


# ---- an oracle written apart ---------------------------------------------------------------------
class Till:
    """The same rules told once more, over entries, in fractions."""

    def __init__(self, quote):
        self.quote, self.piles, self.sums = quote, [], Counter()

    def put(self, mint, amount, cost, elsewhere=False):
        if amount > 0:
            self.piles.append([mint, amount, cost, amount, cost, elsewhere])

    def take(self, mint, amount):
        out = []
        for pile in self.piles:
            piece = min(pile[3], amount) if pile[0] == mint else 0
            if piece:
                pile[3], amount, cost = pile[3] - piece, amount - piece, None
                if pile[2] is not None:
                    cost = floor(Fraction(pile[2] * piece, pile[1])) if pile[3] else pile[4]
                    pile[4] -= cost
                out.append((piece, cost, pile[5]))
        assert not amount
        return out

    def drop(self, mint, amount):
        return sum(cost or 0 for _, cost, _ in self.take(mint, amount))

    def tell(self, entry):
        whole = {mint: n for mint, n, _ in entry.tokens}
        beside = {mint: n for mint, n, _ in entry.beside_tokens}
        through = {m: whole.get(m, 0) - beside.get(m, 0) for m in whole.keys() | beside.keys()}
        extra, money = beside.pop(self.quote, 0), through.pop(self.quote, 0)
        self.sums["received"] += max(0, extra)
        self.sums["sent"] += max(0, -extra)
        for mint, n in sorted(beside.items()):
            self.put(mint, n, None)
        moved = {mint: n for mint, n in through.items() if n}
        lost = self.trade(entry, moved, money)
        lost += sum(self.drop(mint, -n) for mint, n in sorted(beside.items()) if n < 0)
        self.sums["cost_left"] += lost

    def trade(self, entry, moved, money):
        priced = "value_unexplained" not in entry.flags
        if entry.kind == "swap" and priced and money:
            ((mint, n),) = moved.items()
            self.sums["volume"] += abs(money)
            self.sums["trades"] += 1
            if money < 0:
                self.put(mint, n, -money)
            else:
                self.sell(mint, -n, money)
            return 0
        if entry.kind == "swap" and priced:
            return self.swap(moved)
        if entry.kind.startswith("transfer"):
            self.sums["received" if money > 0 else "sent"] += abs(money)
        else:
            self.sums["other"] += money
        lost = sum(self.drop(mint, -n) for mint, n in moved.items() if n < 0)
        for mint, n in moved.items():
            self.put(mint, n, None, entry.kind == "buy" and priced)
        return lost

    def sell(self, mint, amount, money):
        parts, rest, elsewhere, dark = self.take(mint, amount), money, False, 0
        earned = None
        for place, (piece, cost, is_elsewhere) in enumerate(parts):
            last = place == len(parts) - 1
            gross = rest if last else floor(Fraction(money * piece, amount))
            rest -= gross
            if cost is None:
                self.sums["unmatched_proceeds"] += gross
                elsewhere, dark = elsewhere or is_elsewhere, dark + piece
            else:
                earned = (earned or 0) + gross - cost
        self.sums["realized"] += earned or 0
        self.sums["winning"] += (earned or 0) > 0
        is_dust = earned is not None and 1000 * dark < amount
        self.sums["unmatched" if earned is None else "matched" if is_dust else "partial"] += 1
        self.sums["cross"] += elsewhere and not is_dust

    def swap(self, moved):
        (given, n), (mint, got) = sorted(moved.items(), key=lambda one: one[1])
        parts, rest = self.take(given, -n), got
        for place, (piece, cost, elsewhere) in enumerate(parts):
            part = rest if place == len(parts) - 1 else floor(Fraction(got * piece, -n))
            rest -= part
            self.put(mint, part, cost, elsewhere or given in ("Q", "K"))
        return 0

    def told(self):
        known = {name: n for name, n in self.sums.items() if n}
        left = sum(pile[4] or 0 for pile in self.piles)
        return {**known, **({"open_cost": left} if left else {})}


VERBS = st.sampled_from(
    [*["swap"] * 6, "buy", "sell", "transfer_in", "transfer_out", "lending", "round_trip"]
)
NAMES = st.sampled_from(["Q", "Q", "K", "A", "B"])
RAW = st.integers(1, 50)
DRAWN = st.tuples(
    VERBS,
    st.tuples(NAMES, RAW),
    st.tuples(NAMES, RAW),
    st.none() | st.tuples(NAMES, st.integers(-50, 50).filter(bool)),
    st.sampled_from([(), (), (), UNEXPLAINED]),
    st.booleans(),
)


def play(drawn, teller):
    """Write these steps as far as the wallet holds enough; a swap gives at least as many units as
    it takes, so that every slice is worth one.
    """
    for verb, (mint, raw), (other, more), beside, flags, second in drawn:
        name = f"{mint}/2" if second else mint
        if verb in ("sell", "swap", "transfer_out"):
            raw = -min(raw, teller.held.get(name, 0))
        if not raw or (verb == "swap" and mint == other):
            continue
        changes = [] if verb == "round_trip" else [(name, raw)]
        if verb == "swap":
            changes.append((other, more - raw))
        sol = {"buy": -7, "sell": 9, "round_trip": 3}.get(verb, 0)
        moved = list_beside(teller, beside, dict(changes))
        traded = other if verb == "swap" else mint
        kept = flags if verb in ("buy", "sell", "swap") else ()
        teller.write(verb, sol, FEE, changes, traded, beside=moved, flags=kept)
    return teller.entries


def list_beside(teller, beside, changes):
    if not beside:
        return []
    mint, n = beside
    # of one mint one account moves in a transaction
    name = next((name for name in changes if mint_of(name) == mint), mint)
    n = max(n, -teller.held.get(name, 0) - min(0, changes.get(name, 0)))
    return [(name, n)] if n else []


@settings(max_examples=100, deadline=None)
@given(st.lists(DRAWN, max_size=30))
def test_every_sum_is_the_oracles_and_the_books_close(drawn):
    entries = play(drawn, Teller(lamports=10**12, Q=90, A=20))
    for quote in ("Q", "K"):
        record, _ = book(entries, quote)
        if record is None:
            assert not any(b.mint == quote and b.after for e in entries for b in e.balances)
            continue
        till = Till(quote)
        till.put("A", opening_of(entries, "A"), None)
        till.put("K", opening_of(entries, "K") if quote == "Q" else 0, None)
        till.put("Q", opening_of(entries, "Q") if quote == "K" else 0, None)
        for entry in entries:
            till.tell(entry)
        shown = told(entries, quote)
        counted = ("cost_left_receipts", "fee_lamports")
        assert {n: v for n, v in shown.items() if n not in counted} == till.told()


def opening_of(entries, mint):
    """What was there when its accounts were first seen."""
    first = {}
    for entry in entries:
        for one in entry.balances:
            if one.mint == mint:
                first.setdefault(one.address, one.before)
    return sum(first.values())


@settings(max_examples=60, deadline=None)
@given(drawn=st.lists(DRAWN, max_size=25), seed=st.integers(0, 10**6), missing=st.integers(0, 3))
def test_in_any_order_the_same_and_the_difference_is_what_is_missing(drawn, seed, missing):
    """Quantity and cost are conserved, and a second rebuild is enough, whatever is missing."""
    entries, dice = play(drawn, Teller(lamports=10**12, Q=90, A=20)), random.Random(seed)
    gone = set(dice.sample(range(len(entries)), min(missing, len(entries))))
    found = [e for place, e in enumerate(entries) if place not in gone]
    record, booked = book(found)
    again = book(order_entries(dice.sample(found, len(found))))
    assert again == (record, booked)
    if record is None:
        return
    ledger = record.ledger
    assert not ledger.stale and ledger.reconcile().imbalance == 0
    after = {b.address: b for e in found for b in e.balances}
    for mint in "KAB":
        left = sum(lot.left for lot in ledger.lots.get(mint, []))
        assert left == sum(b.after for b in after.values() if b.mint == mint)
    assert "Q" not in ledger.lots


@settings(max_examples=100, deadline=None)
@given(drawn=st.lists(DRAWN, max_size=25))
def test_begun_late_it_is_as_if_it_had_been_there_from_the_first_transaction_on(drawn):
    entries = play(drawn, Teller())
    record, _ = book(entries)
    if record is None:
        return
    early = QuoteRecord(begin_ledger(Ledger(), "Q"))
    for entry in entries:
        early.count(entry, entry.block_time)
    assert record.last == early.last and record.ledger.reconcile() == early.ledger.reconcile()
    assert record.ledger.positions() == early.ledger.positions()


@settings(max_examples=60, deadline=None)
@given(drawn=st.lists(DRAWN, max_size=20))
def test_no_figure_in_sol_is_changed_by_it(drawn):
    entries = play(drawn, Teller(lamports=10**12, Q=90, A=20))
    alone, beside, found = Ledger(), Ledger(), QuoteBook()
    for entry in entries:
        found.begin(entry, beside)
        found.count(entry, entry.block_time)
        assert alone.apply(entry) == beside.apply(entry)
    assert alone == beside


# ---- real receipts -------------------------------------------------------------------------------
def read_real(receipts, signature, wallet):
    """The entry of a receipt whose signature begins so, for a wallet that does."""
    (row,) = [
        row
        for row in read_truth(receipts)
        if row["signature"].startswith(signature) and row["wallet"].startswith(wallet)
    ]
    raw = json.loads((receipts / "json" / f"{row['signature']}.json").read_text())
    return read_entry(parse_receipt(raw), row["wallet"], table())


# Of each swap against USDC or USDT in the corpus, by the token balances of its receipt: what it was
# in the quote, and the quote's raw units on all own accounts before and after.
SWAPS = [
    # 4.458287 USDC of 14.198095 for half a SRM
    ("44YLQFH1", "D7XYER", USDC, "buy", 14_198_095, 9_739_808),
    # 2 USDT for 1.993604 USDC: a purchase of USDC in USDT, a sale of USDT in USDC
    ("31s3Dt5j", "G8PrkE", USDT, "buy", 12_219_639, 10_219_639),
    ("31s3Dt5j", "G8PrkE", USDC, "sell", 28_383_321, 30_376_925),
    # 1984.30989 KMNO for 171.305536 USDC, into an account that was empty
    ("5yFvtkWX", "AV6Vwq", USDC, "sell", 0, 171_305_536),
    # all 500 USDC for a token
    ("4G1gvudg", "FvTqiy", USDC, "buy", 500_000_000, 0),
    ("2nLWcmra", "HQd6Ku", USDC, "buy", 173_989_761, 171_989_761),
    ("5XYf7V6r", "AS25zp", USDC, "buy", 70_308_006, 42_454_754),
    ("s5sthr57", "FD7ocZ", USDC, "buy", 2_032_779_716, 2_022_801_758),
    # 20 USDC for a tokenized share
    ("4XaCfTLN", "7T8ckK", USDC, "buy", 119_656_776, 99_656_776),
    ("2m5nWLnD", "BwWK17", USDC, "buy", 216_821_345_299, 216_817_828_107),
]


@pytest.mark.parametrize(("signature", "wallet", "quote", "kind", "before", "after"), SWAPS)
def test_a_real_swap_against_a_stablecoin(receipts, signature, wallet, quote, kind, before, after):
    """What was given is the cost; what was got for a lot of unknown cost is unmatched proceeds."""
    record, (booked,) = book([read_real(receipts, signature, wallet)], quote)
    books = record.ledger.reconcile()
    assert (booked.entry.kind, books.opening, books.closing) == (kind, before, after)
    moved = "open_cost" if kind == "buy" else "unmatched_proceeds"
    assert getattr(books, moved) == abs(after - before) == record.last.volume
    assert (books.difference, record.last.trades, record.last.realized) == (0, 1, 0)
    assert record.last.unmatched == (kind == "sell")


def test_every_real_swap_against_a_stablecoin_has_its_line(receipts):
    quoted = {quote.mint for quote in QUOTES}
    found = set()
    for row in read_truth(receipts):
        entry = read_real(receipts, row["signature"], row["wallet"])
        for quote in quoted & {b.mint for b in entry.balances}:
            _, booked = book([entry], quote)
            if any(one.entry.kind in ("buy", "sell") for one in booked):
                found.add((entry.signature[:8], row["wallet"][:6], quote))
    assert found == {(signature, wallet, quote) for signature, wallet, quote, *_ in SWAPS}


def test_real_receipts_of_one_wallet_in_usdc(receipts):
    """14.198095 USDC for SOL are no trade in USDC; 4.458287 of them buy 500000 raw SRM."""
    steps = [read_real(receipts, "3j1Z9Hqn", "D7XYER"), read_real(receipts, "44YLQFH1", "D7XYER")]
    assert told(steps, USDC) == {
        **{"volume": 4_458_287, "trades": 1, "fee_lamports": steps[1].fee},
        **{"other": 14_198_095, "open_cost": 4_458_287},
    }
    assert steps[1].fee == 10_000
    (held_mint,) = [mint for mint, change, _ in steps[1].tokens if change > 0]
    assert lots(steps, held_mint, USDC) == "500000@4458287"


def test_every_real_receipt_closes_in_every_quote(receipts):
    closed = named = 0
    for row in read_truth(receipts):
        named += sum(quote in row["tokenChangesRaw"] for quote in MINTS)
        entry = read_real(receipts, row["signature"], row["wallet"])
        for quote in {b.mint for b in entry.balances if b.before or b.after} & MINTS:
            record, _ = book([entry], quote)
            change = sum(n for mint, n, _ in entry.tokens if mint == quote)
            books = record.ledger.reconcile()
            assert (books.difference, books.closing - books.opening) == (0, change)
            closed += 1
    # some hold what did not change
    assert closed >= named > len(SWAPS)


def test_the_recorded_history_closes_with_any_of_its_tokens_as_money(history, monkeypatch):
    """It has no stablecoin, so each of its tokens has its turn."""
    programs, closed = table([history["venue"]]), 0
    receipts = [
        parse_receipt({**one["json"], "transactionIndex": one["index"]})
        for one in history["transactions"]
    ]
    for wallet in history["wallets"]:
        read = [read_entry(r, wallet, programs) for r in receipts]
        entries = order_entries(e for e in read if e.balances)
        mints = {b.mint for e in entries for b in e.balances if b.mint and (b.before or b.after)}
        monkeypatch.setattr(quote_book, "MINTS", frozenset(mints))
        for mint in mints - {"So11111111111111111111111111111111111111112"}:
            record, _ = book(entries, mint)
            books = record.ledger.reconcile()
            assert (books.difference, books.imbalance) == (0, 0)
            assert books.closing == held(entries, mint)
            closed += 1
        assert rebuild(entries)[0].reconcile().difference == 0
    assert closed > len(history["wallets"])
