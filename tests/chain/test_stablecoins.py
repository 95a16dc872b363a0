"""Ledgers in stablecoins: the rules of docs/results.md with another currency, in small ledgers,
against an independent oracle, in every real receipt and in the recorded history.
"""

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import Oracle
from sampling import examples
from teller import MONEY_STEP, USDC, USDT, Teller, rebuild, write_steps
from textledgers import BOOKS, list_ledgers

from chain.addresses import WRAPPED_SOL
from chain.ledger import coverage as chains
from chain.ledger import ledger as ledgers
from chain.ledger import sales
from chain.ledger.coverage import order_entries
from chain.ledger.inventory import SOL, Inventory
from chain.ledger.ledger import WHOLE, Ledger
from chain.ledger.sales import AGAINST
from chain.ledger.totals import ALL_HISTORY, Account
from chain.reading.currencies import CURRENCIES, MINTS
from chain.reading.entries import read_entry
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt

LEDGERS = list_ledgers("""
# one unit of the currency is enough for a purchase or sale
gain 9 Q
swap -90 5 A -1 Q of A              => Q: side buy -1 | side swap -90
swap -5 A 1 Q of Q                  => Q: side sell 1

# what arrives outside the venue, or is a residue, is no price
gain 9 Q
gain 30 A
swap -2 A 4 Q of Q beside 8 -4 A 3 Q   => Q: side sell 4 3
swap -5 A 1 B of B beside 2 Q       => Q: side swap 0 2
swap -5 A 1 B 2 Q of B left Q       => Q: side swap 0 2
swap -5 A 5 Q 1 K of Q left K       => Q: side sell 5 | K: side swap 0 1

# two stablecoins have a price in neither
gain 9 Q
swap -5 Q 4 K of K                  => Q: side swap -5 | K: side swap 4
swap 5 Q -4 K of Q                  => Q: side swap 5 | K: side swap -4

# a trade for SOL, a transfer or a failure is no trade in a stablecoin
gain 9 Q
buy -90 1 A of A                    => Q: side other 0 | side buy -90
sell 90 -1 A of A                   => Q: side other 0
buy -90 1 A 9 Q of A                => Q: side other 9
round_trip 90 of A                  => Q: side other 0
transfer_in 9 Q                     => Q: side transfer_in 9
failed -5                           => Q: side failed 0

# a trade for SOL needs no explained value in a stablecoin
gain 9 Q
buy -9 3 A of A [residue value_unexplained]    => [residue value_unexplained] | Q: [residue]
sell 9 -1 A of A [residue value_unexplained]   => [residue value_unexplained] | Q: [residue]
swap -1 A 5 Q of Q [value_unexplained]         => Q: [value_unexplained]

# a gift, and what it was swapped for, was not paid elsewhere
gain 5 Q
gain 10 A
swap 4 A for 60 Q                   => Q: unmatched | Q: unmatched_proceeds 60 | Q: cross_sells 0
swap 6 A for 3 B
swap 3 B for 60 Q                   => Q: unmatched | Q: unmatched_proceeds 120 | Q: cross_sells 0

# what SOL or another stablecoin paid for was paid elsewhere, also after a swap
gain 5 Q
buy 10 A for 100
swap 10 A for 7 B
swap 7 B for 60 Q                   => Q: unmatched [paid_elsewhere] | Q: cross_sells 1
gain 100 K
swap 100 K for 10 A
swap 10 A for 60 Q                  => Q: unmatched [paid_elsewhere] | Q: cross_sells 2

# so was what went into an order before the stablecoin came, but not a gift in another order
buy 10 A for 100
gain 4 B
order_open -10 A at e 10 A
order_open -4 B at f 4 B
gain 5 Q
order_cancel 10 A at e -10 A
order_cancel 4 B at f -4 B
swap 10 A for 70 Q                  => Q: unmatched [paid_elsewhere] | Q: cross_sells 1
swap 4 B for 20 Q                   => Q: unmatched | Q: unmatched_proceeds 90 | Q: cross_sells 1

# a gap in the stablecoin that is found late affects everything since it began
gain 100 Q
gain 5 Q/2
swap 50 Q for 10 A
slip -5 Q/2
swap 10 A for 60 Q                  => Q: unmatched [incomplete_history] | Q: realized 0
gain 1 Q/2

# even if none of the stablecoin left since
gain 100 Q
swap 50 Q for 10 A
gain 5 Q/2
slip -5 Q/2
swap 10 A for 60 Q                  => Q: unmatched [incomplete_history]
gain 1 Q/2

# a doubtful cost stays doubtful through swaps in every currency
gain 100 Q
swap 50 Q for 10 A
slip 3 A
swap 10 A for 10 B
swap 10 B for 500 Q                 => Q: unmatched [incomplete_history]

# a stablecoin that comes later inherits the doubt; taking over the cost, it is in doubt in SOL
buy 10 A for 100
slip 3 A
swap 10 A for 10 B
gain 100 Q
swap 10 B for 500 Q                 => Q: unmatched [incomplete_history]
sell 600 Q for 90                   => unmatched [incomplete_history]
swap 40 Q for 5 A
gain 600 Q
swap 40 Q for 5 C
swap 5 C for 50 Q                   => Q: matched 50-40
""")


@pytest.mark.parametrize("title", LEDGERS)
def test_each_small_ledger_is_booked_in_the_stablecoin_as_written(title):
    LEDGERS[title].check()


# ---- an oracle written apart ---------------------------------------------------------------------
class Till(Oracle):
    """A ledger in a stablecoin. Piles are tagged if another currency paid for them."""

    def __init__(self, quote):
        super().__init__(in_sol=False)
        self.quote = quote

    def add(self, mint, amount, cost, since=None, tag=False):
        super().add(mint, amount, cost, since, tag or mint in (USDC, USDT))

    def sell(self, mint, amount, proceeds):
        pieces, status = super().sell(mint, amount, proceeds)
        elsewhere = any(one.tag and one.seen is None for one in pieces)
        self.count(cross_sells=elsewhere and status != "matched")

    def apply(self, entry):
        whole = {mint: n for mint, n, _ in entry.tokens}
        beside = {mint: n for mint, n, _ in entry.beside_tokens}
        through = {m: whole.get(m, 0) - beside.get(m, 0) for m in whole.keys() | beside.keys()}
        extra, money = beside.pop(self.quote, 0), through.pop(self.quote, 0)
        self.count(received=max(0, extra), sent=max(0, -extra))
        for mint, n in sorted(beside.items()):
            self.add(mint, n, None)
        moved = sorted(((mint, n) for mint, n in through.items() if n), key=lambda one: one[1])
        self.trade(entry, moved, money)
        for mint, n in beside.items():
            self.take(mint, max(0, -n))

    def trade(self, entry, moved, money):
        is_priced = "value_unexplained" not in entry.flags
        if entry.kind == "swap" and is_priced and not money:
            (given, n), (mint, got) = moved
            self.swap(given, -n, mint, got)
        elif entry.kind == "swap" and is_priced and moved[0][0] not in (USDC, USDT):
            ((mint, n),) = moved
            if money < 0:
                self.put(mint, n, -money)
            else:
                self.sell(mint, -n, money)
        else:
            is_transfer = entry.kind.startswith("transfer")
            self.count(received=max(0, money) * is_transfer, sent=max(0, -money) * is_transfer)
            self.count(other=money * (not is_transfer))
            for mint, n in moved:
                self.take(mint, max(0, -n))
                self.add(mint, n, None, tag=entry.kind == "buy" and is_priced)


SUMS = {*BOOKS, "cost", "proceeds", "volume", "trades", "cross_sells", "carried"}
SUMS |= {"matched", "partial", "unmatched", "winning"}


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(MONEY_STEP, max_size=30))
def test_every_sum_matches_the_oracle_and_reconciles(drawn):
    entries = write_steps(drawn, Teller(lamports=10**12, Q=90, A=20)).entries
    balances = [one for entry in entries for one in entry.balances]
    first = {one.address: one for one in reversed(balances)}.values()
    ledger, _ = rebuild(entries)
    for money in (USDC, USDT):
        if money not in ledger.inventories:
            assert not any(one.mint == money and one.after for one in balances)
            continue
        till = Till(money)
        for mint in {"A", USDC, USDT} - {money}:
            till.put(mint, sum(one.before for one in first if one.mint == mint), None)
        for entry in entries:
            till.apply(entry)
        books = ledger.reconcile(money)
        assert books.difference == 0
        told = {name: getattr(books, name) for name in SUMS - {"cost_left_receipts"}}
        assert told == {**dict.fromkeys(told, 0), **till.sums, "open_cost": till.sum_open_cost()}


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(MONEY_STEP, max_size=25))
def test_starting_a_stablecoin_ledger_late_gives_the_same_result(drawn):
    entries = write_steps(drawn, Teller()).entries
    late, _ = rebuild(entries)
    early = Ledger()
    early.inventories[USDC], early._doubted[USDC] = Inventory(USDC), set()
    for entry in entries:
        early.apply(entry)
    if USDC not in late.inventories:
        assert early.reconcile(USDC) == Account().totals
        return
    one, other = (
        (ledger.reconcile(USDC), ledger.list_positions(USDC), ledger.inventories[USDC].average)
        for ledger in (late, early)
    )
    assert one == other


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(MONEY_STEP, max_size=20))
def test_sol_results_are_unaffected(drawn):
    entries = write_steps(drawn, Teller(lamports=10**12, Q=90, A=20)).entries
    with mock.patch.object(ledgers, "MINTS", frozenset()):
        alone, made = rebuild(entries)
    both, remade = rebuild(entries)
    assert list(alone.inventories) == [SOL]
    assert [one[WHOLE] for one in made] == [one[WHOLE] for one in remade]
    parts = [
        (ledger.inventories[SOL], ledger.accounts[WHOLE], ledger._doubted[SOL], ledger.chain)
        for ledger in (alone, both)
    ]
    assert parts[0] == parts[1]


# ---- real receipts -------------------------------------------------------------------------------
# Each corpus swap against a stablecoin, from the receipt's token balances: signature, wallet, the
# kind in the stablecoin, and raw units in all own accounts before and after. 31s3Dt5j exchanges two
# of them, which has a result in neither.
SWAPS = """
44YLQFH1 D7XYER USDC buy 14198095 9739808
5yFvtkWX AV6Vwq USDC sell 0 171305536
4G1gvudg FvTqiy USDC buy 500000000 0
2nLWcmra HQd6Ku USDC buy 173989761 171989761
5XYf7V6r AS25zp USDC buy 70308006 42454754
s5sthr57 FD7ocZ USDC buy 2032779716 2022801758
4XaCfTLN 7T8ckK USDC buy 119656776 99656776
2m5nWLnD BwWK17 USDC buy 216821345299 216817828107
31s3Dt5j G8PrkE USDT swap 12219639 10219639
31s3Dt5j G8PrkE USDC swap 28383321 30376925
"""


def test_every_real_receipt_reconciles_in_every_currency(recorded_rows):
    found = set()
    assert len(recorded_rows) == 143
    for row, raw in recorded_rows:
        entry = read_entry(parse_receipt(raw), row["wallet"], table())
        ledger, (made,) = rebuild([entry])
        assert ledger.reconcile().difference == 0, row["signature"]
        assert {one for one in MINTS if one in row["tokenChangesRaw"]} <= ledger.inventories.keys()
        for quote in ledger.inventories.keys() - {SOL}:
            books, booked = ledger.reconcile(quote), made[quote, ALL_HISTORY]
            change = sum(n for mint, n, _ in entry.tokens if mint == quote)
            assert (books.difference, books.closing - books.opening) == (0, change)
            kind, moved = booked.side.kind, abs(change)
            if not booked.side.through or kind not in (*AGAINST, "swap"):
                continue
            where = f"{row['signature'][:8]} {row['wallet'][:6]} {CURRENCIES[quote].symbol}"
            found.add(f"{where} {kind} {books.opening} {books.closing}")
            # It is a cost, proceeds of unknown cost, or part of an exchange of stablecoins.
            name = {"buy": "open_cost", "sell": "unmatched_proceeds", "swap": "other"}[kind]
            assert abs(getattr(books, name)) == moved and books.realized == 0
            assert (books.trades, books.unmatched) == (kind != "swap", kind == "sell")
            assert books.volume == (0 if kind == "swap" else moved)
    assert found == set(SWAPS.strip().splitlines())


def test_the_recorded_history_reconciles_with_any_token_as_currency(history, monkeypatch):
    """It has no stablecoin, so each of its tokens is used in turn."""
    programs, closed = table([history["venue"]]), 0
    receipts = [
        parse_receipt({**one["json"], "transactionIndex": one["index"]})
        for one in history["transactions"]
    ]
    for wallet in history["wallets"]:
        read = (read_entry(one, wallet, programs) for one in receipts)
        entries = order_entries(one for one in read if one.balances)
        balances = [one for entry in entries for one in entry.balances]
        last = {one.address: one for one in balances}.values()
        mints = {one.mint for one in balances if one.before or one.after} - {None, WRAPPED_SOL}
        for module in (ledgers, sales, chains):
            monkeypatch.setattr(module, "MINTS", frozenset(mints))
        ledger, _ = rebuild(entries)
        assert ledger.inventories.keys() == {SOL, *mints}
        assert ledger.reconcile().difference == 0
        for mint in mints:
            books, held = ledger.reconcile(mint), sum(one.after for one in last if one.mint == mint)
            assert (books.difference, books.imbalance, books.closing) == (0, 0, held)
        closed += len(mints)
    assert closed > len(history["wallets"])
