"""A wallet's ledger against recorded wallets, independent oracles, and what must always hold."""

import random
import re
from collections import Counter
from dataclasses import replace
from itertools import groupby, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import All, Oracle, Watched
from sampling import examples
from teller import (
    ANY_STEP,
    SOL_STEP,
    STEP,
    USDC,
    Silent,
    Teller,
    name_accounts,
    plan_sol_step,
    play,
    rebuild,
    write_sol_step,
    write_sol_steps,
    write_steps,
)
from textledgers import BOOKS

from chain.ledger.coverage import order_entries
from chain.ledger.inventory import SOL
from chain.ledger.ledger import WHOLE, Ledger
from chain.ledger.totals import ALL_HISTORY, NOTHING, Account, Holdings, Span, Spans, add_up
from chain.reading.entries import read_entry
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt


# ---- recorded wallets ----------------------------------------------------------------------------
@pytest.fixture(scope="module", params=["json", "jsonParsed"])
def recorded(request, history):
    """The entries of each recorded wallet, in one of two encodings."""
    programs = table([history["venue"]])
    receipts = [
        parse_receipt({**one[request.param], "transactionIndex": one["index"]})
        for one in history["transactions"]
    ]
    found = {}
    for wallet in history["wallets"]:
        read = [read_entry(one, wallet, programs) for one in receipts]
        found[wallet] = order_entries(entry for entry in read if entry.balances)
    return found


def test_recorded_slots_sort_the_same_by_balances_and_index(recorded):
    """The balances alone resolve most recorded slots with several receipts of a wallet, and always
    correctly.
    """
    slots = resolved = 0
    for entries in recorded.values():
        index = {one.signature: one.tx_index for one in entries}
        ordered = order_entries(one._replace(tx_index=None) for one in entries)
        for _, group in groupby(ordered, key=lambda one: one.slot):
            several = list(group)
            if len(several) > 1:
                places = [index[one.signature] for one in several]
                is_resolved = not any("order_unresolved" in one.flags for one in several)
                assert places == sorted(places) or not is_resolved
                slots, resolved = slots + 1, resolved + is_resolved
    assert slots > 100 and resolved > 0.85 * slots


def test_recorded_wallets_match_the_oracle(recorded, expected):
    for wallet, entries in recorded.items():
        ledger, made = rebuild(entries)
        booked, want = [one[WHOLE] for one in made], expected[wallet]
        rows = [{n: v for n, v in row.items() if n != "flags"} for row in want["rows"]]
        assert [show_row(one.entry) for one in booked] == rows
        sales = [one for one in booked if one.entry.kind in ("sell", "round_trip")]
        pairs = zip(sales, want["sells"], strict=True)
        assert [show_sale(one, sale) for one, sale in pairs] == want["sells"]
        for name, sums in (("results", ledger.totals), ("reconciliation", ledger.reconcile())):
            assert {one: read_sum(sums, one) for one in want[name]} == want[name]
        assert want["reconciliation"]["differenceLamports"] == "0" == str(ledger.totals.gaps)
        open_lots = {
            mint: [{"amountRaw": text(x.left), "costLamports": text(x.left_cost)} for x in lots]
            for mint, lots in ledger.inventories[SOL].lots.items()
            if lots
        }
        assert open_lots.keys() == want["openLots"].keys()
        for mint, lots in want["openLots"].items():
            assert open_lots[mint] == [{n: lot[n] for n in open_lots[mint][0]} for lot in lots]
        chain = ledger.chain
        assert sorted(chain.openings) == want["openingInventoryUnknown"] and not chain.gaps
        assert chain.count == want["receipts"]
        assert str(chain.seen[wallet].lamports) == want["finalLamports"]


def read_sum(sums, name):
    """A sum under the oracle's name: `realizedLamports` is text, `matchedSells` a count."""
    words = re.sub("([A-Z])", r"_\1", name).lower()
    amount = getattr(sums, re.sub("_(lamports|sells|transactions)$", "", words))
    return str(amount) if name.endswith("Lamports") else amount


def text(value):
    return None if value is None else str(value)


def show_row(entry):
    return {
        "signature": entry.signature,
        "kind": entry.kind,
        "solChangeLamports": str(entry.sol),
        "feeLamports": str(entry.fee),
        "tipLamports": str(entry.tip),
        "rentLamports": str(entry.rent),
        "tokenChanges": {mint: str(change) for mint, change, _ in entry.tokens},
    }


def show_sale(booked, sale):
    """The oracle dates opening inventory by the receipt that revealed it; our ledger doesn't."""
    dated = [lot["signature"] for lot in sale["lots"]]
    return {
        "signature": booked.entry.signature,
        "mint": None if booked.entry.kind == "round_trip" else booked.entry.mint,
        "status": booked.status,
        "matchedRaw": str(booked.matched),
        "unmatchedRaw": str(booked.unmatched),
        "proceedsLamports": text(booked.proceeds),
        "costLamports": text(booked.cost),
        "resultLamports": text(booked.result),
        "lots": [
            {"signature": origin or revealed, "amountRaw": str(n), "costLamports": text(cost)}
            for (origin, n, cost), revealed in zip(booked.lots, dated, strict=True)
        ],
    }


# ---- what must always hold, in every currency and every view -------------------------------------
BEFORE = {"Q": 90, "A": 20, "lamports": 10**12}
TELLER = st.one_of(
    st.builds(
        lambda drawn, before: write_steps(drawn, Teller(**before)),
        st.lists(ANY_STEP, min_size=8, max_size=40),
        st.sampled_from([BEFORE, {"Q": 10**6, "lamports": 10**12}]),
    ),
    st.lists(SOL_STEP, max_size=30).map(write_sol_steps),
)
SEED = st.integers(0, 10**6)


def lose(entries, seed, missing):
    """The entries but for some that are never found."""
    places = range(len(entries))
    gone = set(random.Random(seed).sample(places, min(missing, len(places))))
    return [one for place, one in enumerate(entries) if place not in gone]


def list_queue(inventory, mint):
    """A mint's [[address of an order or "", origin, raw units], ...], oldest first. Lots of one
    transaction are merged, because they may be one lot in one currency and several in another.
    """
    rows = [("", lot.origin, lot.left) for lot in inventory.lots.get(mint, [])]
    for address, escrow in sorted(inventory.escrows.items()):
        if escrow.mint == mint:
            rows += [(address, one.lot.origin, one.amount) for one in escrow.slices]
    merged = groupby(rows, key=lambda row: row[:2])
    return [[*where, sum(row[2] for row in group)] for where, group in merged]


@settings(max_examples=examples(150), deadline=None)
@given(teller=TELLER, seed=SEED, missing=st.just(0) | st.integers(0, 3))
def test_every_currency_holds_the_same_units_in_the_same_order(teller, seed, missing):
    """Those of the accounts and escrows, unless transactions are missing. The running sums of known
    costs match a recount.
    """
    found = lose(teller.entries, seed, missing)
    ledger, _ = rebuild(found, spans=Spans((Span(1, 200_000, None),)))
    on_chain = teller.count_units()
    for money, inventory in ledger.inventories.items():
        units = Counter()
        for mint in {*inventory.lots, *ledger.inventories[SOL].lots, *on_chain} - {money}:
            queue = list_queue(inventory, mint)
            assert queue == list_queue(ledger.inventories[SOL], mint)
            units[mint] = sum(row[2] for row in queue)
        if len(found) == len(teller.entries):
            assert +units == {mint: n for mint, n in on_chain.items() if mint != money}
        lots = [lot for lots in inventory.lots.values() for lot in lots]
        assert all(0 < lot.left <= lot.amount for lot in lots)
        assert list_queue(inventory, money) == []
        for known in inventory.known_costs:
            counted = inventory.count_held(known.begins)
            assert (known.cost, known.held) == (counted.cost, counted.held)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(ANY_STEP, max_size=40))
def test_cost_is_conserved_in_every_view(drawn):
    """The cost of a view's purchases and swaps = cost of its sales + cost left + open cost."""
    spans = Spans((Span(1, 200_000, 300_000), Span(2, 320_000, None)))
    teller, spent = Teller(Ledger(spans=spans), **BEFORE), Counter()
    for step in drawn:
        before = len(teller.entries)
        write_steps([step], teller)
        if len(teller.entries) == before:
            continue
        for key, booked in teller.made.items():
            if booked.counts and booked.side.kind in ("buy", "swap"):
                # Units leaving an order were counted as other money when it was opened.
                other = booked.other - booked.side.returned
                spent[key] -= booked.side.through - other
    begins = {ALL_HISTORY: -1, 2: 320_000}
    for (money, view), account in teller.ledger.accounts.items():
        if view in begins:
            totals, inventory = account.totals, teller.ledger.inventories[money]
            still = inventory.count_held(begins[view]).cost
            assert spent[money, view] == totals.cost + totals.cost_left + still


@settings(max_examples=examples(150), deadline=None)
@given(teller=TELLER, seed=SEED, missing=st.integers(0, 3))
def test_every_currency_reconciles(teller, seed, missing):
    """After each transaction, some of which are never found."""
    found = lose(teller.entries, seed, missing)
    ledger = rebuild(found)[0].restart()
    for entry in found:
        ledger.apply(entry)
        assert ledger.find_imbalances() == {}
        seen = ledger.chain.seen.values()
        for money in ledger.inventories:
            books = ledger.reconcile(money)
            assert books.imbalance == 0 and (ledger.chain.gaps or books.difference == 0)
            last = [
                one.amount if money else one.lamports for one in seen if money in ("", one.mint)
            ]
            assert books.closing == sum(last)


@settings(max_examples=examples(120), deadline=None)
@given(
    teller=TELLER,
    seed=SEED,
    missing=st.integers(0, 2),
    undated=st.sets(st.integers(0, 24), max_size=2),
)
def test_batches_and_order_do_not_change_the_ledger(teller, seed, missing, undated):
    """In every currency and view: accounts, inventories, gaps and each entry's results."""
    found = [
        entry._replace(block_time=None) if place in undated else entry
        for place, entry in enumerate(lose(teller.entries, seed, missing))
    ]
    spans = Spans((Span(1, 150_000, 220_000), Span(2, 230_000, None)))
    ledger, made = rebuild(found, spans=spans)
    again, remade = fold(found, random.Random(seed), Ledger(spans=Spans(spans.spans)))
    assert remade == {entry.signature: one for entry, one in zip(found, made, strict=True)}
    assert tell(again) == tell(ledger)


def fold(entries, dice, ledger):
    """(Ledger, each entry's results) for entries that arrive in batches in any order."""
    rest, known, made = dice.sample(entries, len(entries)), [], {}
    while rest:
        size = dice.randint(1, len(rest))
        batch, rest = order_entries(rest[:size]), rest[size:]
        is_late = known and batch[0].slot < known[-1].slot
        known = order_entries([*known, *batch])
        if is_late:
            ledger, batch = ledger.restart(), known
        made |= {entry.signature: ledger.apply(entry) for entry in batch}
        for _ in range(2):
            if ledger.stale:
                ledger = ledger.restart()
                made |= {entry.signature: ledger.apply(entry) for entry in known}
        assert not ledger.stale
    return ledger, made


def tell(ledger):
    """Everything a ledger reports, except its given beginning."""
    chain = ledger.chain
    return (
        (ledger.accounts, ledger.inventories, ledger.decimals, ledger.spans, ledger._doubted),
        (ledger.find_holdings(), chain.seen, chain.gaps, chain.openings, chain.opened),
        (chain.found, chain.found_gap_starts, chain.broken, chain.count, chain.moved, chain.taken),
    )


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(SOL_STEP, max_size=40))
def test_both_methods_hold_the_same_units(drawn):
    """Units match exactly. Costs are known to both or neither if all of a mint was bought."""
    inventory = write_sol_steps(drawn).inventory
    for mint, held in inventory.average.pools.items():
        lots = inventory.lots.get(mint, [])
        assert held.known + held.unknown == sum(lot.left for lot in lots)
        assert min(held.known, held.unknown) >= 0 and bool(held.known) >= bool(held.cost)
    bought = [step for step in drawn if step[0] == "buy" and not step[5]]
    only = write_sol_steps(bought)
    costs = [pool.cost for pool in only.inventory.average.pools.values()]
    assert sum(costs) == only.ledger.reconcile().open_cost


@settings(max_examples=examples(40), deadline=None)
@given(steps=st.lists(STEP, max_size=30), cuts=st.lists(st.integers(0, 30), max_size=3).map(sorted))
def test_windows_add_up_to_the_total(steps, cuts):
    """Each begins where the previous one ended; currently open positions count in all of them."""
    teller = Teller()
    account = teller.ledger.accounts[SOL, ALL_HISTORY]
    seen = [account.sums for _ in play(steps, teller, Silent())]
    marks = [NOTHING, *[seen[cut] for cut in cuts if cut < len(seen)], account.sums]
    whole = add_up(after.minus(before) for before, after in pairwise(marks))
    levels = {name: getattr(account.sums, name) for name in ("held", "held_sold", "held_won")}
    assert whole._replace(**levels) == account.sums


# ---- oracles -------------------------------------------------------------------------------------
SUMS = (
    *("realized", "cost", "proceeds", "matched", "partial", "unmatched", "winning", "volume"),
    *("trades", "carried", "cost_left", "unmatched_proceeds"),
)


@settings(max_examples=examples(150), deadline=None)
@given(
    steps=st.lists(STEP, max_size=40),
    jumps=st.lists(st.none() | st.integers(-40, 40), min_size=42, max_size=42),
    at=st.lists(st.integers(90, 500), min_size=3, max_size=3).map(sorted),
    money=st.sampled_from([SOL, SOL, USDC]),
)
def test_every_view_matches_the_oracle(steps, jumps, at, money):
    """Over all history and since each of two attachments, in SOL and in a stablecoin, after each
    step. The chain's clock sometimes steps back, and some times are unknown.
    """
    times = [None if jump is None else 110 + 10 * n + jump for n, jump in enumerate(jumps)]
    begin, end, again = (1000 * one for one in at)
    teller = Watched((Span(1, begin, end), Span(2, again, None)), money, times)
    if money != SOL:
        teller.gain("Q", 10**9)
        steps = [(*one[:3], abs(one[3]) + 1) if one[0] == "sell" else one for one in steps]
    whole = teller.oracles[ALL_HISTORY]
    for verb in play(steps, teller, All(teller)):
        for number, oracle in teller.oracles.items():
            account = teller.ledger.accounts.get((money, number), Account())
            told = {name: getattr(account.totals, name) for name in SUMS}
            assert told == {name: oracle.sums[name] for name in SUMS}
        assert [teller.lots(mint, money) for mint in "ABC"] == [whole.lots(mint) for mint in "ABC"]
        if verb == "sell":
            assert teller.made[money, ALL_HISTORY].result == whole.results[-1]
    if money != SOL:
        return
    realized = [one.sums["realized"] for number, one in teller.oracles.items() if number]
    assert teller.ledger.find_forward_realized() == sum(realized)
    for number, told in teller.ledger.find_holdings().items():
        oracle = teller.oracles[number]
        held = teller.held.get(number, oracle.count_held())
        assert told == (held, oracle.sums["realized"])


@settings(max_examples=examples(100), deadline=None)
@given(
    before=st.dictionaries(
        st.sampled_from(["A", "A/2", "B", "B/2"]), st.integers(1, 60), min_size=1
    ),
    steps=st.lists(STEP, max_size=30),
    choices=st.lists(st.booleans(), min_size=90),
)
def test_late_opening_inventory_still_matches_the_oracle(before, steps, choices):
    """Two accounts per mint, some with balances from before; the oracle gets all of those at once,
    in order of appearance.
    """
    teller = Teller(lamports=10**12, **before)
    steps = name_accounts(teller, steps, iter(choices))
    for _ in play(steps, teller, Silent()):
        pass
    oracle, met = Oracle(), set()
    for one in [one for entry in teller.entries for one in entry.balances[1:]]:
        if one.address not in met:
            met.add(one.address)
            oracle.put(one.mint, one.before, None)
    for _ in play(steps, Teller(lamports=10**12, **before), oracle):
        pass
    ledger, made = rebuild(teller.entries)
    booked = [one[WHOLE] for one in made]
    assert [one.result for one in booked if one.side.kind == "sell"] == oracle.results
    assert ledger.totals.realized == oracle.sums["realized"]


@settings(max_examples=examples(100), deadline=None)
@given(drawn=st.lists(ANY_STEP, max_size=30), missing=st.integers(0, 40))
def test_a_span_from_the_beginning_equals_all_history(drawn, missing):
    """In every currency: sums, risk, and each transaction's results, also after a gap."""
    entries = write_steps(drawn, Teller(**BEFORE)).entries
    entries = entries[:missing] + entries[missing + 1 :]
    ledger, made = rebuild(entries, spans=Spans((Span(1, 0, None),)))
    for money in ledger.inventories:
        assert [one[money, 1] for one in made if (money, 1) in one] == [
            one[money, ALL_HISTORY] for one in made if (money, ALL_HISTORY) in one
        ]
        whole = ledger.accounts[money, ALL_HISTORY]
        # A view doesn't count balances.
        alike = replace(whole.totals, opening=0, closing=0, gaps=0)
        assert ledger.accounts.get((money, 1), Account()) == replace(whole, totals=alike)
    positions = [one for one in ledger.list_positions() if one.cost is not None]
    assert ledger.find_holdings() == {1: Holdings(len(positions), ledger.totals.realized)}


class PositionOracle(Oracle):
    """Notes after each step what it did to each mint: cost that arrived, known proceeds of a sale
    (None: no sale), and known units held afterwards. Positions are derived from it at the end.
    """

    def __init__(self, *how):
        super().__init__(*how)
        self.story, self.bought, self.sales = [], Counter(), {}

    def add(self, mint, amount, cost, since=None, tag=None):
        super().add(mint, amount, cost, since, tag)
        if cost is not None and self.piles[-1][5] >= self.begins:
            self.bought[mint] += cost

    def sell(self, mint, amount, proceeds):
        before = self.sums["proceeds"]
        super().sell(mint, amount, proceeds)
        if self.counts:
            self.sales[mint] = self.sums["proceeds"] - before

    def note(self):
        units, cost = Counter(), Counter()
        for mint, _, _, left, left_cost, *_ in self.list_known():
            units[mint] += left
            cost[mint] += left_cost
        self.story.append((dict(self.bought), self.sales, units, cost))
        self.bought, self.sales = Counter(), {}

    def list_positions(self, mint):
        """(cost, proceeds or None, whether it is open) of a mint's positions."""
        found, peak = [], 0
        for bought, sales, units, cost in self.story:
            is_open = bool(found) and found[-1][2]
            if mint in bought and not is_open:
                found.append([max(cost[mint], bought[mint]), None, True])
                peak, is_open = 0, True
            elif mint in bought:
                found[-1][0] += bought[mint]
            if mint in sales and is_open:
                found[-1][1] = (found[-1][1] or 0) + sales[mint]
            peak = max(peak, units[mint])
            if is_open and units[mint] < peak / 100:
                found[-1][2] = False
        return found

    def find_sums(self):
        """(positions, won, open, worst case)"""
        found = [one for mint in "ABC" for one in self.list_positions(mint)]
        sold = [one for one in found if one[1] is not None]
        worst = self.sums["realized"] - self.sums["cost_left"] - max(0, self.sum_open_cost())
        won = sum(proceeds > cost for cost, proceeds, _ in sold)
        return len(sold), won, sum(one[2] for one in found), worst


@settings(max_examples=examples(150), deadline=None)
@given(steps=st.lists(STEP, min_size=4, max_size=40), at=st.integers(100, 400))
def test_positions_and_worst_case_match_the_oracle(steps, at):
    """Over all history and since an attachment, after each step."""
    teller = Watched((Span(1, at * 1000, None),), oracle=PositionOracle)
    for _ in play(steps, teller, All(teller)):
        for view, oracle in teller.oracles.items():
            oracle.note()
            sums = teller.ledger.accounts.get((SOL, view), Account()).sums
            told = (sums.positions, sums.positions_won, sums.held, sums.worst_case)
            assert told == oracle.find_sums()


class Purse(Oracle):
    """The books of a wallet in SOL."""

    def apply(self, step):
        verb, sol, fee, changes, beside_sol, beside, sponsored = step
        before = self.sums["cost_left"]
        self.count(received=sponsored + max(0, beside_sol), sent=max(0, -beside_sol))
        for mint, n in beside:
            self.add(mint, n, None)
        self.move(verb, sol, fee, sorted(changes, key=lambda one: one[1]))
        for mint, n in beside:
            self.take(mint, max(0, -n))
        self.count(cost_left_receipts=self.sums["cost_left"] > before)

    def move(self, verb, sol, fee, changes):
        if verb == "buy":
            self.put(*changes[0], -sol)
        elif verb == "sell":
            ((mint, n),) = changes
            self.sell(mint, -n, sol)
        elif verb == "swap":
            (given, n), (mint, got) = changes
            self.swap(given, -n, mint, got, -sol)
        elif verb == "round_trip":
            self.count(trades=1, matched=1, realized=sol, winning=sol > 0)
        else:
            self.leave(verb, sol, fee, changes)

    def leave(self, verb, sol, fee, changes):
        for mint, n in changes:
            self.add(mint, n, None)
            self.take(mint, max(0, -n))
        if verb == "failed":
            self.count(failed=1, failed_cost=fee)
        elif verb == "unexplained":
            self.count(other=sol)
        elif verb == "lending":
            self.count(overhead=fee, other=sol + fee)
        else:
            self.count(overhead=fee, received=max(0, sol + fee), sent=max(0, -sol - fee))


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(SOL_STEP, max_size=40))
def test_every_line_matches_the_oracle_and_reconciles(drawn):
    """With gifts during trades, payments for a second wallet, strangers' rent, failed and
    unexplained ones: after each transaction.
    """
    teller, purse = Teller(lamports=10**15), Purse()
    for step in filter(None, (plan_sol_step(teller, one) for one in drawn)):
        write_sol_step(teller, step)
        purse.apply(step)
        books = teller.ledger.reconcile()
        told = {name: getattr(books, name) for name in {*BOOKS, *SUMS, "failed"}}
        assert books.difference == 0
        assert told == {**dict.fromkeys(told, 0), **purse.sums, "open_cost": purse.sum_open_cost()}
