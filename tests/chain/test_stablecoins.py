"""Ledgers in stablecoins: the rules of docs/results.md with another currency, small handmade
ledgers, an independent oracle, real receipts and the recorded history.

`Q` is the currency here, `K` another stablecoin. `10@100` is ten units that cost 100 raw units of
Q.
"""

import json
from collections import Counter
from fractions import Fraction
from math import floor
from unittest import mock

import pytest
from corpus import read_truth
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from teller import (
    FEE,
    MONEY_STEP,
    UNEXPLAINED,
    USDC,
    USDT,
    Teller,
    mint_of,
    rebuild,
    show_lots,
    write_steps,
)

from chain.addresses import WRAPPED_SOL
from chain.ledger import coverage as chains
from chain.ledger import ledger as ledgers
from chain.ledger import sales
from chain.ledger.coverage import order_entries
from chain.ledger.inventory import SOL, Inventory
from chain.ledger.ledger import WHOLE, Ledger
from chain.ledger.sales import AGAINST, Side, see_side
from chain.ledger.totals import ALL_HISTORY, Account
from chain.reading.currencies import MINTS
from chain.reading.entries import Entry, read_entry
from chain.reading.flows import Balance
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt


def book(entries, money=USDC, **how):
    """(Ledger, each entry's results in the currency), starting with the first entry that has
    some.
    """
    ledger, made = rebuild(entries, **how)
    key = (money, ALL_HISTORY)
    return ledger, [one[key] for one in made if key in one]


def sums(ledger, money=USDC):
    """Running totals in a currency: raw units and counts, and `fee_lamports`."""
    account = ledger.accounts[money, ALL_HISTORY]
    names = (
        "realized volume matched partial unmatched winning cost_left cost_left_receipts trades"
        " fee_lamports cross_sells"
    )
    return {name: getattr(account.totals, name) for name in names.split()}


RECONCILED = (
    "realized unmatched_proceeds open_cost cost_left cost_left_receipts received sent overhead"
    " failed_cost other gaps"
)


def told(entries, quote="Q"):
    """The nonzero running totals and reconciliation lines; the sums reconcile."""
    money = mint_of(quote)
    ledger, _ = book(entries, money)
    books = ledger.reconcile(money)
    assert books.difference == 0 and books.closing == held(entries, money)
    lines = {name: getattr(books, name) for name in RECONCILED.split()}
    return {n: v for n, v in {**sums(ledger, money), **lines}.items() if v}


def held(entries, money):
    """Final balances of a mint's accounts, from the entries alone."""
    after = {b.address: b.after for e in entries for b in e.balances if b.mint == money}
    return sum(after.values())


def lots(entries, mint, quote="Q"):
    ledger, _ = book(entries, mint_of(quote))
    return show_lots(ledger, mint, quote)


# ---- what was paid and got -----------------------------------------------------------------------
BALANCE = Balance("ada", None, 9, 0, 0, 5, 3)
PLAIN = Entry(
    *("one", 7, 0, 60, "swap", "a venue", "A", ("f",), (), -90, 5, 4, 3, (), (BALANCE,)),
    others=(("e", USDC, 1, 2), ("e", "A", 3, 4)),
    unowned=("u",),
    sponsored=6,
    explained_percent=97,
    counterparties=("c",),
    seen_at=61,
)


@pytest.mark.parametrize(
    "told, seen",
    [
        # One unit of the currency is enough for a purchase or sale.
        ({"tokens": (("A", 5, 0), (USDC, -1, 6))}, ("buy", -1, 0)),
        ({"tokens": (("A", -5, 0), (USDC, 1, 6)), "mint": USDC}, ("sell", 1, 0)),
        # 3 of the 7 that arrived were outside the venue.
        (
            {
                "tokens": (("A", -4, 0), ("B", -2, 0), (USDC, 7, 6)),
                "beside_tokens": (("A", -4, 0), (USDC, 3, 6)),
                "beside_sol": 8,
            },
            ("sell", 4, 3),
        ),
        # All of it arrived outside the venue, or is a residue: not a trade against the currency.
        (
            {
                "tokens": (("A", -5, 0), ("B", 1, 0), (USDC, 2, 6)),
                "beside_tokens": ((USDC, 2, 6),),
            },
            ("swap", 0, 2),
        ),
        (
            {"tokens": (("A", -5, 0), ("B", 1, 0), (USDC, 2, 6)), "residues": (USDC,)},
            ("swap", 0, 2),
        ),
        ({"tokens": (("A", -5, 0), ("B", 1, 0))}, ("swap", 0, 0)),
        # Exchanging stablecoins is a trade in neither.
        ({"tokens": ((USDC, -5, 6), (USDT, 4, 6))}, ("swap", -5, 0)),
        ({"tokens": ((USDC, 5, 6), (USDT, -4, 6))}, ("swap", 5, 0)),
        # A residue of another one doesn't matter.
        (
            {"tokens": (("A", -5, 0), (USDC, 5, 6), (USDT, 1, 6)), "residues": (USDT,)},
            ("sell", 5, 0),
        ),
        # A trade for SOL isn't one for the currency.
        ({"kind": "buy"}, ("other", 0, 0)),
        ({"kind": "sell"}, ("other", 0, 0)),
        ({"kind": "buy", "tokens": ((USDC, 9, 6),)}, ("other", 9, 0)),
        ({"kind": "round_trip"}, ("other", 0, 0)),
        ({"kind": "transfer_in", "tokens": ((USDC, 9, 6),)}, ("transfer_in", 9, 0)),
        ({"kind": "failed"}, ("failed", 0, 0)),
    ],
)
def test_receipts_read_correctly_in_a_stablecoin(told, seen):
    """Fee, tip, rent and sponsored amounts are SOL and not part of it."""
    entry = PLAIN._replace(**told)
    assert see_side(entry, USDC) == Side(*seen, fee=0, tip=0, sponsored=0)
    beside = entry.beside_sol
    assert see_side(entry, SOL) == Side(entry.kind, -90 - beside, beside, 5, 4, 6)


def test_sol_trades_need_no_explained_value_in_a_stablecoin():
    for kind, n in (("buy", 1), ("sell", -1)):
        t = Teller().gain("Q", 5).gain("A", 3)
        t.write(kind, 9, FEE, [("A", n)], "A", flags=("f", *UNEXPLAINED))
        assert t.made[USDC, ALL_HISTORY].flags == ("f",)
        assert t.last.flags == ("f", *UNEXPLAINED)
    t.write("swap", 0, FEE, [("A", -1), ("Q", 5)], "Q", flags=UNEXPLAINED)
    assert t.made[USDC, ALL_HISTORY].flags == UNEXPLAINED


def test_a_gift_sold_for_the_stablecoin_is_unmatched_but_not_paid_elsewhere():
    """The same for a token it was swapped for on the way."""
    gift = Teller().gain("Q", 5).gain("A", 10)
    for sold in (gift.swap("A", 4, "Q", 60), gift.swap("A", 6, "B", 3).swap("B", 3, "Q", 60)):
        shown = told(sold.entries)
        assert (
            "cross_sells" not in shown
            and shown["unmatched"] * 60 == shown["unmatched_proceeds"] > 0
        )


def test_units_without_a_cost_in_any_currency_were_not_paid_elsewhere():
    """5 A were a gift, and 5 cost 50 Q, which were bought for SOL: all ten sell for 60 Q."""
    t = Teller().buy("Q", 100, 7).gain("A", 5).swap("Q", 50, "A", 5).swap("A", 10, "Q", 60)
    shown = told(t.entries)
    assert (shown["partial"], shown["realized"]) == (1, 30 - 50) and "cross_sells" not in shown


def test_paid_elsewhere_survives_swaps():
    t = Teller().gain("Q", 5).buy("A", 10, 100).swap("A", 10, "B", 7).swap("B", 7, "Q", 60)
    assert told(t.entries)["cross_sells"] == 1
    t = Teller().gain("K", 100).swap("K", 100, "A", 10).swap("A", 10, "Q", 60)
    assert told(t.entries)["cross_sells"] == 1


# ---- what is no trade ----------------------------------------------------------------------------
def test_escrowed_units_from_before_the_stablecoin_were_paid_elsewhere():
    """10 A for 100 lamports and 4 gifted B are in escrow; then some Q arrives. Both are returned
    and sold for 70 and 20 Q: in Q neither cost is known, and only A was paid for in another
    currency.
    """
    t = Teller().buy("A", 10, 100).gain("B", 4)
    t.write("order_open", changes=[("A", -10)], orders=[("e", "A", 10)])
    t.write("order_open", changes=[("B", -4)], orders=[("f", "B", 4)])
    t.gain("Q", 5)
    t.write("order_cancel", changes=[("A", 10)], orders=[("e", "A", -10)])
    t.write("order_cancel", changes=[("B", 4)], orders=[("f", "B", -4)])
    t.swap("A", 10, "Q", 70).swap("B", 4, "Q", 20)
    shown = told(t.entries)
    assert (shown["unmatched"], shown["unmatched_proceeds"], shown["cross_sells"]) == (2, 90, 1)


# ---- what did not come from the venue ------------------------------------------------------------
# ---- what was there before, and gaps -------------------------------------------------------------
def test_a_late_stablecoin_gap_affects_everything_since_it_began():
    t = Teller().gain("Q", 100).gain("Q/2", 5).swap("Q", 50, "A", 10).slip("Q/2", -5)
    t.swap("A", 10, "Q", 60).gain("Q/2", 1)
    ledger, booked = book(t.entries)
    assert sums(ledger)["realized"] == 0
    assert [b.flags for b in booked if b.side.kind == "sell"] == [("incomplete_history",)]


def test_a_late_stablecoin_gap_affects_sales_of_other_tokens():
    """No Q left after the gap began, but A was sold for it."""
    t = Teller().gain("Q", 100).swap("Q", 50, "A", 10).gain("Q/2", 5).slip("Q/2", -5)
    t.swap("A", 10, "Q", 60).gain("Q/2", 1)
    assert t.ledger.stale
    assert book(t.entries)[1][-2].flags == ("incomplete_history",)


def test_a_doubtful_cost_stays_doubtful_through_swaps_in_every_currency():
    """3 A arrived unobserved, and all were swapped for B: no sale of B has a result in Q."""
    t = Teller().gain("Q", 100).swap("Q", 50, "A", 10).slip("A", 3).swap("A", 10, "B", 10)
    t.swap("B", 10, "Q", 500)
    booked = t.made[USDC, ALL_HISTORY]
    assert booked.flags == ("incomplete_history",) and booked.result is None
    # Only A's history has the gap.
    assert t.ledger.chain.broken == {"A"}


def test_a_stablecoin_held_later_inherits_the_doubt():
    """3 A arrived unobserved, and 10 A were swapped for B before any Q arrived."""
    t = Teller().buy("A", 10, 100).slip("A", 3).swap("A", 10, "B", 10).gain("Q", 100)
    t.swap("B", 10, "Q", 500)
    assert t.made[USDC, ALL_HISTORY].flags == ("incomplete_history",)
    # Once Q takes over B's cost, it is in doubt in SOL, but not in Q itself.
    assert t.sell("Q", 600, 90).last.flags == ("incomplete_history",)
    assert t.ledger._doubted == {SOL: {"B", USDC}, USDC: {"B"}}


def test_a_wallet_without_the_stablecoin_has_no_such_ledger():
    t = Teller().buy("A", 10, 100).gain("B", 1)
    ledger, booked = book(t.entries)
    assert (list(ledger.inventories), list(ledger.accounts), booked) == ([SOL], [WHOLE], [])


# ---- an oracle written apart ---------------------------------------------------------------------
class Till:
    """An independent implementation of the same rules over entries, in fractions."""

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
        if entry.kind == "swap" and priced and money and not moved.keys() <= {USDC, USDT}:
            ((mint, n),) = moved.items()
            self.sums["volume"] += abs(money)
            self.sums["trades"] += 1
            if money < 0:
                self.put(mint, n, -money)
            else:
                self.sell(mint, -n, money)
            return 0
        if entry.kind == "swap" and priced and not money:
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
        self.sums["cross_sells"] += elsewhere and not is_dust

    def swap(self, moved):
        (given, n), (mint, got) = sorted(moved.items(), key=lambda one: one[1])
        parts, rest = self.take(given, -n), got
        for place, (piece, cost, elsewhere) in enumerate(parts):
            part = rest if place == len(parts) - 1 else floor(Fraction(got * piece, -n))
            rest -= part
            self.put(mint, part, cost, elsewhere or given in (USDC, USDT))
        return 0

    def told(self):
        known = {name: n for name, n in self.sums.items() if n}
        left = sum(pile[4] or 0 for pile in self.piles)
        return {**known, **({"open_cost": left} if left else {})}


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(MONEY_STEP, max_size=30))
def test_every_sum_matches_the_oracle_and_reconciles(drawn):
    entries = write_steps(drawn, Teller(lamports=10**12, Q=90, A=20)).entries
    for money, other in ((USDC, USDT), (USDT, USDC)):
        ledger, _ = book(entries, money)
        if money not in ledger.inventories:
            assert not any(b.mint == money and b.after for e in entries for b in e.balances)
            continue
        till = Till(money)
        for mint in ("A", other):
            till.put(mint, opening_of(entries, mint), None)
        for entry in entries:
            till.tell(entry)
        shown = told(entries, money)
        counted = ("cost_left_receipts", "fee_lamports")
        assert {n: v for n, v in shown.items() if n not in counted} == till.told()


def opening_of(entries, mint):
    """Balances when its accounts were first seen."""
    first = {}
    for entry in entries:
        for one in entry.balances:
            if one.mint == mint:
                first.setdefault(one.address, one.before)
    return sum(first.values())


@settings(max_examples=examples(100), deadline=None)
@given(drawn=st.lists(MONEY_STEP, max_size=25))
def test_starting_a_stablecoin_ledger_late_gives_the_same_result(drawn):
    entries = write_steps(drawn, Teller()).entries
    late, _ = book(entries)
    early = Ledger()
    early.inventories[USDC], early._doubted[USDC] = Inventory(USDC), set()
    early.accounts[USDC, ALL_HISTORY] = Account()
    for entry in entries:
        early.apply(entry)
    if USDC not in late.inventories:
        assert sums(early) == sums(Ledger(accounts={(USDC, ALL_HISTORY): Account()}))
        return
    assert sums(late) == sums(early) and late.reconcile(USDC) == early.reconcile(USDC)
    assert late.list_positions(USDC) == early.list_positions(USDC)
    assert late.inventories[USDC].average == early.inventories[USDC].average


@settings(max_examples=examples(60), deadline=None)
@given(drawn=st.lists(MONEY_STEP, max_size=20))
def test_sol_results_are_unaffected(drawn):
    entries = write_steps(drawn, Teller(lamports=10**12, Q=90, A=20)).entries
    with mock.patch.object(ledgers, "MINTS", frozenset()):
        alone, made = rebuild(entries)
    both, remade = rebuild(entries)
    assert list(alone.inventories) == [SOL]
    assert [one[WHOLE] for one in made] == [one[WHOLE] for one in remade]
    assert (alone.inventories[SOL], alone.accounts[WHOLE]) == (
        both.inventories[SOL],
        both.accounts[WHOLE],
    )
    assert (alone.chain, alone._doubted[SOL]) == (both.chain, both._doubted[SOL])


# ---- real receipts -------------------------------------------------------------------------------
def read_real(receipts, signature, wallet):
    """The entry of a receipt whose signature begins like this, for a wallet that has one."""
    (row,) = [
        row
        for row in read_truth(receipts)
        if row["signature"].startswith(signature) and row["wallet"].startswith(wallet)
    ]
    raw = json.loads((receipts / "json" / f"{row['signature']}.json").read_text())
    return read_entry(parse_receipt(raw), row["wallet"], table())


# For each corpus swap against USDC or USDT, from the receipt's token balances: its kind in the
# stablecoin, and raw units in all own accounts before and after.
SWAPS = [
    # 4.458287 USDC of 14.198095 for half a SRM
    ("44YLQFH1", "D7XYER", USDC, "buy", 14_198_095, 9_739_808),
    # 1984.30989 KMNO for 171.305536 USDC, into an empty account
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
def test_real_stablecoin_swaps_have_their_expected_lines(
    receipts, signature, wallet, quote, kind, before, after
):
    """The amount given is the cost; the amount received for a lot of unknown cost is unmatched
    proceeds.
    """
    ledger, (booked,) = book([read_real(receipts, signature, wallet)], quote)
    books, shown = ledger.reconcile(quote), sums(ledger, quote)
    assert (booked.side.kind, books.opening, books.closing) == (kind, before, after)
    moved = "open_cost" if kind == "buy" else "unmatched_proceeds"
    assert getattr(books, moved) == abs(after - before) == shown["volume"]
    assert (books.difference, shown["trades"], shown["realized"]) == (0, 1, 0)
    assert shown["unmatched"] == (kind == "sell")


@pytest.mark.parametrize(
    ("quote", "before", "after"),
    [(USDT, 12_219_639, 10_219_639), (USDC, 28_383_321, 30_376_925)],
)
def test_a_real_stablecoin_exchange_has_no_result(receipts, quote, before, after):
    """2 USDT for 1.993604 USDC have a result in neither."""
    ledger, (booked,) = book([read_real(receipts, "31s3Dt5j", "G8PrkE")], quote)
    books = ledger.reconcile(quote)
    assert (booked.side.kind, booked.status) == ("swap", "not_applicable")
    assert (books.opening, books.closing, books.difference) == (before, after, 0)
    assert books.other == after - before and not any(sums(ledger, quote).values())


def test_every_real_stablecoin_swap_has_a_line(receipts):
    found = set()
    for row in read_truth(receipts):
        entry = read_real(receipts, row["signature"], row["wallet"])
        for quote in MINTS & {b.mint for b in entry.balances}:
            _, booked = book([entry], quote)
            if any(one.side.kind in AGAINST for one in booked):
                found.add((entry.signature[:8], row["wallet"][:6], quote))
    assert found == {(signature, wallet, quote) for signature, wallet, quote, *_ in SWAPS}


def test_real_usdc_receipts_of_one_wallet_have_their_expected_results(receipts):
    """14.198095 USDC for SOL are not a trade in USDC; 4.458287 of them buy 500000 raw SRM."""
    steps = [read_real(receipts, "3j1Z9Hqn", "D7XYER"), read_real(receipts, "44YLQFH1", "D7XYER")]
    assert told(steps, USDC) == {
        **{"volume": 4_458_287, "trades": 1, "fee_lamports": steps[1].fee},
        **{"other": 14_198_095, "open_cost": 4_458_287},
    }
    assert steps[1].fee == 10_000
    (held_mint,) = [mint for mint, change, _ in steps[1].tokens if change > 0]
    assert lots(steps, held_mint, USDC) == "500000@4458287"


def test_every_real_receipt_reconciles_in_every_stablecoin(receipts):
    closed = named = 0
    for row in read_truth(receipts):
        named += sum(quote in row["tokenChangesRaw"] for quote in MINTS)
        entry = read_real(receipts, row["signature"], row["wallet"])
        for quote in {b.mint for b in entry.balances if b.before or b.after} & MINTS:
            ledger, _ = book([entry], quote)
            change = sum(n for mint, n, _ in entry.tokens if mint == quote)
            books = ledger.reconcile(quote)
            assert (books.difference, books.closing - books.opening) == (0, change)
            closed += 1
    # some contain unchanged amounts
    assert closed >= named > len(SWAPS)


def test_the_recorded_history_reconciles_with_any_token_as_currency(history, monkeypatch):
    """It has no stablecoin, so each of its tokens is used in turn."""
    programs, closed = table([history["venue"]]), 0
    receipts = [
        parse_receipt({**one["json"], "transactionIndex": one["index"]})
        for one in history["transactions"]
    ]
    for wallet in history["wallets"]:
        read = [read_entry(r, wallet, programs) for r in receipts]
        entries = order_entries(e for e in read if e.balances)
        mints = {b.mint for e in entries for b in e.balances if b.mint and (b.before or b.after)}
        for module in (ledgers, sales, chains):
            monkeypatch.setattr(module, "MINTS", frozenset(mints) - {WRAPPED_SOL})
        ledger, _ = rebuild(entries)
        assert ledger.inventories.keys() == {SOL, *mints} - {WRAPPED_SOL}
        for mint in mints - {WRAPPED_SOL}:
            books = ledger.reconcile(mint)
            assert (books.difference, books.imbalance) == (0, 0)
            assert books.closing == held(entries, mint)
            closed += 1
        assert ledger.reconcile().difference == 0
    assert closed > len(history["wallets"])
