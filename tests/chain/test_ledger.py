"""A wallet's ledger: orders, each transaction's result, recorded wallets, and invariants for every
currency and view.
"""

import random
import re
from collections import Counter
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from teller import ANY_STEP, SOL_STEP, Teller, rebuild, write_sol_steps, write_steps
from textledgers import list_ledgers

from chain.ledger.coverage import order_entries
from chain.ledger.inventory import SOL
from chain.ledger.ledger import WHOLE, Ledger
from chain.ledger.totals import ALL_HISTORY, Span, Spans
from chain.reading.entries import read_entry
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt

LEDGERS = list_ledgers("""
# a transfer fee on returned tokens is lost
buy 10 A for 100
order_open -10 A at e 10 A
order_cancel 9 A at e -10 A         => A 9@90 | left A 10

# an order without an escrow takes its cost along
buy 10 A for 100
order_open -4 A                     => left A 40 | A 6@60 | escrows -
order_fill -4 A at stranger 4 A     => left A 40 | A 2@20 | escrows -

# an order is kept where most of it went
buy 10 A for 100
order_open -10 A at fee 1 A at e 9 A at loser -20 A at another 30 B   => escrows e

# an order contains only what reached its escrow
buy 10 A for 100
order_open -8 A at e 3 A            => left A 50 | A 2@20 | open_cost 50
order_cancel 3 A at e -3 A          => left - | A 2@20 3@30 | escrows -

# a fee withheld on the way to an order is lost
buy 10 A for 100
order_open -10 A at e 9 A           => left A 10
order_fill 3 B at e -9 A            => B 3@90 | open_cost 90 | A -

# cost left is listed by mint
buy 10 A for 100
buy 5 B for 70
transfer_out -4 A -5 B              => left A 40 B 70
transfer_out -2 A beside -2 A       => left A 40
sell 2 A for 30                     => matched 30-20 | left -

# cost lost in a swap is listed: 1 of 4 is too small for a unit of 2
buy 1 A for 5
gain 3 A
swap 4 A for 2 B                    => left A 5 | its carried 0 | B 2@?

# a sale after a gap has no result, and its proceeds beyond the cost are from elsewhere
buy 10 A for 100
slip 1 A
sell 4 A for 90                     => unmatched [incomplete_history] | its unmatched 4 | its sold A
                                     | its lots () | its other 50
""")


@pytest.mark.parametrize("title", LEDGERS)
def test_each_small_ledger_is_booked_as_written(title):
    LEDGERS[title].check()


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
    st.lists(ANY_STEP, max_size=30).map(lambda drawn: write_steps(drawn, Teller(**BEFORE))),
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
    """Those of the accounts and escrows, unless transactions are missing."""
    found = lose(teller.entries, seed, missing)
    ledger, _ = rebuild(found)
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
