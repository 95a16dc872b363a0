"""A wallet's ledger: orders, each transaction's result, recorded wallets, and invariants for every
currency and view.
"""

import math
import random
import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from teller import (
    ANY_STEP,
    STEP,
    Silent,
    Teller,
    mint_of,
    name_accounts,
    play,
    rebuild,
    write_steps,
)

from chain.ledger.coverage import order_entries
from chain.ledger.inventory import SOL, Inventory
from chain.ledger.ledger import WHOLE, Ledger
from chain.ledger.totals import ALL_HISTORY, Span, Spans
from chain.reading.entries import read_entry
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt

# ---- orders: the escrow keeps its lots -----------------------------------------------------------


def test_a_transfer_fee_on_returned_tokens_is_lost():
    """10 of 10@100 left, 9 return: 100 * 9 // 10."""
    t = (
        Teller()
        .buy("A", 10, 100)
        .write("order_open", changes=[("A", -10)], orders=[("e", "A", 10)])
    )
    assert t.write("order_cancel", changes=[("A", 9)], orders=[("e", "A", -10)]).lots("A") == "9@90"


def test_an_order_with_an_unseen_escrow_carries_its_cost():
    """4 of 10@100 are 40. The same for wallet units that a fill uses next to an escrow."""
    t = Teller().buy("A", 10, 100).write("order_open", changes=[("A", -4)])
    assert (t.last.cost_left, t.lots("A"), t.inventory.escrows) == (40, "6@60", {})
    t = Teller().buy("A", 10, 100)
    t.write("order_fill", changes=[("A", -4)], orders=[("stranger's", "A", 4)])
    assert (t.last.cost_left, t.lots("A"), t.inventory.escrows) == (40, "6@60", {})


def test_an_order_is_kept_where_most_of_it_went():
    """Of 10, a fee of 1 goes elsewhere; losses of the other account of that name don't count."""
    t = Teller().buy("A", 10, 100)
    t.write(
        "order_open",
        changes=[("A", -10)],
        orders=[("fee", "A", 1), ("e", "A", 9), ("loser", "A", -20), ("of B", "B", 30)],
    )
    assert set(t.inventory.escrows) == {"e"}


def test_an_order_contains_only_what_reached_its_escrow():
    """Of 10@100, 3 reach it and 5 go elsewhere: they cost 50. The 3 return at 30."""
    t = Teller().buy("A", 10, 100)
    t.write("order_open", changes=[("A", -8)], orders=[("e", "A", 3)])
    assert (t.last.cost_left, t.lots("A"), t.inventory.count_held().cost) == (50, "2@20", 50)
    t.write("order_cancel", changes=[("A", 3)], orders=[("e", "A", -3)])
    assert (t.last.cost_left, sorted(t.lots("A").split())) == (0, ["2@20", "3@30"])
    assert t.inventory.escrows == {}


def test_a_withheld_fee_is_not_held():
    """Of 10@100 sent, 9 arrived; once they are sold, nothing is left."""
    t = Teller().buy("A", 10, 100).write("order_open", changes=[("A", -10)], orders=[("e", "A", 9)])
    assert t.last.cost_left == 10
    t.write("order_fill", changes=[("B", 3)], orders=[("e", "A", -9)])
    assert (t.lots("B"), t.inventory.count_held().cost) == ("3@90", 90)
    assert "A" not in t.inventory.known_costs[0].held


# ---- what is told of each transaction ------------------------------------------------------------
def test_cost_left_is_listed_by_mint():
    """4 of 10@100 are 40, all of 5@70 are 70; 2 more of A twice, in two ways, are 20 each."""
    t = Teller().buy("A", 10, 100).buy("B", 5, 70)
    t.write("transfer_out", changes=[("A", -4), ("B", -5)])
    assert t.last.left == (("A", 40), ("B", 70)) and t.last.cost_left == 110
    t.write("transfer_out", changes=[("A", -2)], beside=[("A", -2)])
    assert t.last.left == (("A", 40),) and t.last.cost_left == 40
    assert t.sell("A", 2, 30).last.left == ()


def test_cost_lost_in_a_swap_is_listed_by_mint():
    """1@5 and 3 of unknown cost become 2 B: 1 by itself is too small for a unit."""
    t = Teller().buy("A", 1, 5).gain("A", 3).swap("A", 4, "B", 2)
    assert (t.last.left, t.last.cost_left) == ((("A", 5),), 5)
    assert (t.last.carried, t.lots("B")) == (0, "2@?")


def test_a_sale_after_a_gap_shows_sold_units_and_unmatched_proceeds():
    """4 of 10@100 cost 40 and sold for 90: 50 belong to no result."""
    t = Teller().buy("A", 10, 100).slip("A", 1).sell("A", 4, 90)
    assert t.sale == ("unmatched", None, None, None)
    assert (t.last.sold, t.last.unmatched, t.last.other) == ("A", 4, 90 - 40)
    assert t.last.lots == ()


# ---- the oracle's ledgers ------------------------------------------------------------------------
@pytest.mark.parametrize("encoding", ["json", "jsonParsed"])
def test_recorded_wallets_match_the_oracle(history, expected, encoding):
    programs = table([history["venue"]])
    receipts = [
        parse_receipt({**one[encoding], "transactionIndex": one["index"]})
        for one in history["transactions"]
    ]
    for wallet in history["wallets"]:
        own = {
            a
            for r in receipts
            for a, sides in r.tokens.items()
            if any(s and s.owner == wallet for s in sides)
        } | {wallet}
        entries = [
            read_entry(r, wallet, programs, frozenset(own)) for r in receipts if own & set(r.keys)
        ]
        want = expected[wallet]
        ledger, made = rebuild(order_entries(entries))
        booked = [one[WHOLE] for one in made]
        assert [show_row(b.entry) for b in booked] == [
            {k: v for k, v in row.items() if k != "flags"} for row in want["rows"]
        ]
        sales = [b for b in booked if b.entry.kind in ("sell", "round_trip")]
        assert [show_sale(b) for b in sales] == [
            {
                **sale,
                "lots": [
                    {**lot, "signature": origin}
                    for lot, origin in zip(sale["lots"], origins(sale, b), strict=True)
                ],
            }
            for sale, b in zip(want["sells"], sales, strict=True)
        ]
        results, books = ledger.totals, ledger.reconcile()
        assert want["results"] == {name: read(results, name) for name in want["results"]}
        assert want["reconciliation"] == {n: read(books, n) for n in want["reconciliation"]}
        assert want["reconciliation"]["differenceLamports"] == "0"
        assert {
            m: [(text(x.left), text(x.left_cost)) for x in lots]
            for m, lots in ledger.inventories[SOL].lots.items()
            if lots
        } == {
            m: [(x["amountRaw"], x["costLamports"]) for x in lots]
            for m, lots in want["openLots"].items()
        }
        assert (
            sorted(ledger.chain.openings) == want["openingInventoryUnknown"]
            and not ledger.chain.gaps
            and ledger.chain.count == want["receipts"]
        )
        assert ledger.chain.seen[wallet].lamports == int(want["finalLamports"])


def read(sums, name):
    """A sum under the oracle's name: `realizedLamports` is text, `matchedSells` a count."""
    words = re.sub("([A-Z])", r"_\1", name).lower()
    amount = getattr(sums, re.sub("_(lamports|sells|transactions)$", "", words))
    return str(amount) if name.endswith("Lamports") else amount


def text(value):
    return None if value is None else str(value)


def show_row(e):
    return {
        "signature": e.signature,
        "kind": e.kind,
        "solChangeLamports": str(e.sol),
        "feeLamports": str(e.fee),
        "tipLamports": str(e.tip),
        "rentLamports": str(e.rent),
        "tokenChanges": {mint: str(change) for mint, change, _ in e.tokens},
    }


def show_sale(b):
    return {
        "signature": b.entry.signature,
        "mint": None if b.entry.kind == "round_trip" else b.entry.mint,
        "status": b.status,
        "matchedRaw": str(b.matched),
        "unmatchedRaw": str(b.unmatched),
        "proceedsLamports": text(b.proceeds),
        "costLamports": text(b.cost),
        "resultLamports": text(b.result),
        "lots": [
            {"signature": s, "amountRaw": str(n), "costLamports": text(c)} for s, n, c in b.lots
        ],
    }


def origins(sale, booked):
    """The oracle dates opening inventory by the receipt that revealed it; our ledger treats its
    origin as unobserved.
    """
    return [
        None if origin is None else x["signature"]
        for x, (origin, _, _) in zip(sale["lots"], booked.lots, strict=True)
    ]


# ---- what must always hold, against an oracle written apart --------------------------------------
@dataclass
class Pile:
    amount: int
    cost: Fraction | None
    left: int
    spent: int = 0


class Oracle:
    """An independent implementation of docs/results.md, in fractions rounded where the page rounds;
    it shares no code with the ledger.
    """

    def __init__(self):
        self.piles, self.results = {}, []

    def put(self, mint, amount, cost):
        if amount:
            self.piles.setdefault(mint, []).append(
                Pile(amount, None if cost is None else Fraction(cost), amount)
            )

    def take(self, mint, amount):
        out = []
        for pile in self.piles.get(mint, []):
            piece = min(pile.left, amount)
            if piece:
                pile.left, amount = pile.left - piece, amount - piece
                cost = None
                if pile.cost is not None:
                    cost = (
                        math.floor(pile.cost * Fraction(piece, pile.amount))
                        if pile.left
                        else int(pile.cost) - pile.spent
                    )
                    pile.spent += cost
                out.append((piece, cost))
        return out

    @staticmethod
    def portions(total, sizes):
        cuts = [math.floor(total * Fraction(size, sum(sizes))) for size in sizes]
        return [*cuts[:-1], total - sum(cuts[:-1])]

    def sell(self, mint, amount, proceeds):
        pieces = self.take(mint, amount)
        counted = [
            (p, c)
            for (_, c), p in zip(
                pieces, self.portions(proceeds, [n for n, _ in pieces]), strict=False
            )
            if c is not None
        ]
        self.results.append(sum(p - c for p, c in counted) if counted else None)

    def swap(self, mint, amount, other, got, spent):
        pieces, groups, group = self.take(mint, amount), [], []
        for piece in pieces:
            group = [*group, piece]
            if Fraction(got * sum(n for n, _ in group), amount) >= 1:
                groups, group = [*groups, group], []
        # The remainder is too small to be separate.
        if group:
            groups = [*groups[:-1], groups[-1] + group] if groups else [group]
        sizes = [sum(n for n, _ in g) for g in groups]
        for g, new, part in zip(
            groups, self.portions(got, sizes), self.portions(spent, sizes), strict=False
        ):
            self.put(other, new, None if None in [c for _, c in g] else sum(c for _, c in g) + part)

    def lots(self, mint):
        return " ".join(
            f"{p.left}@{'?' if p.cost is None else int(p.cost) - p.spent}"
            for p in self.piles.get(mint, [])
            if p.left
        )


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(STEP, max_size=40))
def test_the_ledger_matches_the_oracle(steps):
    teller, oracle = Teller(), Oracle()
    for verb in play(steps, teller, oracle):
        assert [teller.lots(mint) for mint in "ABC"] == [oracle.lots(mint) for mint in "ABC"]
        if verb == "sell":
            assert teller.last.result == oracle.results[-1]
            assert (teller.last.result is None) == all(
                cost is None for _, _, cost in teller.last.lots
            )
    assert teller.ledger.totals.realized == sum(r or 0 for r in oracle.results)


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
    teller, oracle, choices = Teller(lamports=10**12, **before), Oracle(), iter(choices)
    steps = name_accounts(teller, steps, choices)
    for _ in play(steps, teller, Silent()):
        pass
    met = {}
    for entry in teller.entries:
        for b in entry.balances[1:]:
            if b.address not in met:
                met[b.address] = oracle.put(b.mint, b.before, None)
    replayed = Teller(lamports=10**12, **before)
    for _ in play(steps, replayed, Merged(oracle)):
        pass
    ledger, made = rebuild(teller.entries)
    booked = [one[WHOLE] for one in made]
    assert [b.result for b in booked if b.entry.kind == "sell"] == oracle.results
    assert ledger.totals.realized == sum(r or 0 for r in oracle.results)


class Merged:
    """An oracle of mints that is fed by accounts."""

    def __init__(self, oracle):
        self.oracle = oracle

    def __getattr__(self, name):
        return lambda *how: getattr(self.oracle, name)(
            *(mint_of(x) if isinstance(x, str) else x for x in how)
        )


# ---- what must always hold, in every money and every view ----------------------------------------
class Weighed(Inventory):
    """An Inventory that weighs every arrival and departure."""

    def __init__(self, *values, **named):
        super().__init__(*values, **named)
        self.came, self.went = Counter(), Counter()

    def convert(self, money):
        plain = super().convert(money)
        other = Weighed(
            money, plain.lots, plain.escrows, plain.average, plain.known_costs, plain._count
        )
        for mint, amount in count_units(plain).items():
            other.came[mint] += amount
        return other

    def lay(self, opening):
        if opening.mint != self.money:
            self.came[opening.mint] += opening.amount
        super().lay(opening)

    def _append(self, mint, origin, amount, cost, since):
        self.came[mint] += amount
        self.came["cost"] += cost or 0
        super()._append(mint, origin, amount, cost, since)

    def cut(self, mint, amount):
        cut = super().cut(mint, amount)
        self.weigh(mint, cut.slices, 1)
        return cut

    def hold(self, address, mint, cut):
        super().hold(address, mint, cut)
        self.weigh(mint, cut.slices, -1)

    def release(self, address, mint, quantity):
        held = self.escrows[address].amount
        released = super().release(address, mint, quantity)
        # Units that a stranger sent there.
        self.came[mint] += max(0, quantity - held)
        self.weigh(mint, released.slices, 1)
        return released

    def put_back(self, released, room):
        lost = super().put_back(released, room)
        self.weigh(released.mint, released.slices, -1)
        self.weigh(released.mint, lost, 1)
        return lost

    def weigh(self, mint, slices, sign):
        self.went[mint] += sign * sum(one.amount for one in slices)
        self.went["cost"] += sign * sum(one.cost or 0 for one in slices)


def count_units(inventory):
    """Raw units by mint, including escrows."""
    units = Counter()
    for mint, lots in inventory.lots.items():
        units[mint] += sum(lot.left for lot in lots)
    for escrow in inventory.escrows.values():
        units[escrow.mint] += sum(one.amount for one in escrow.slices)
    return +units


def list_queue(inventory, mint):
    """A mint's (origin, raw units), oldest first, followed by each order's escrow. Lots of one
    transaction are merged, because they may be one lot in one currency and several in another.
    """
    queues = [[(lot.origin, lot.left) for lot in inventory.lots.get(mint, [])]]
    queues += [
        [address, *((one.lot.origin, one.amount) for one in escrow.slices)]
        for address, escrow in sorted(inventory.escrows.items())
        if escrow.mint == mint
    ]
    return [join_neighbors(queue) for queue in queues]


def join_neighbors(queue):
    joined = []
    for one in queue:
        if joined and isinstance(one, tuple) and joined[-1][0] == one[0]:
            joined[-1] = (one[0], joined[-1][1] + one[1])
        else:
            joined.append(one)
    return joined


BEFORE = {"Q": 90, "A": 20, "lamports": 10**12}


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(ANY_STEP, max_size=40))
def test_quantity_and_cost_are_conserved_in_every_currency(drawn):
    """Acquired = disposed + open, to the unit; cost in = cost out + open cost, to the raw unit;
    open = the content of accounts and escrows.
    """
    teller = write_steps(drawn, Teller(Ledger(inventories={SOL: Weighed()}), **BEFORE))
    on_chain = teller.count_units()
    for money, inventory in teller.ledger.inventories.items():
        units = count_units(inventory)
        assert units == {m: n for m, n in on_chain.items() if m != money}
        # Adding two Counters would drop values below zero, and a swap may return SOL.
        units.update(inventory.went)
        units["cost"] += inventory.count_held().cost
        assert inventory.came == units
        lots = [lot for lots in inventory.lots.values() for lot in lots]
        assert all(0 < lot.left <= lot.amount for lot in lots)


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


@settings(max_examples=examples(100), deadline=None)
@given(drawn=st.lists(ANY_STEP, max_size=30), seed=st.integers(0, 10**6), missing=st.integers(0, 3))
def test_every_currency_reconciles(drawn, seed, missing):
    """After each transaction, some of which are never found."""
    entries = write_steps(drawn, Teller(**BEFORE)).entries
    gone = set(random.Random(seed).sample(range(len(entries)), min(missing, len(entries))))
    found = [entry for place, entry in enumerate(entries) if place not in gone]
    ledger, _ = rebuild(found)
    ledger = ledger.restart()
    for entry in found:
        ledger.apply(entry)
        books = {money: ledger.reconcile(money) for money in ledger.inventories}
        assert [one.imbalance for one in books.values()] == [0] * len(books)
        assert ledger.find_imbalances() == {}
        assert books[SOL].closing == sum(one.lamports for one in ledger.chain.seen.values())
        for money in books.keys() - {SOL}:
            last = [one.amount for one in ledger.chain.seen.values() if one.mint == money]
            assert books[money].closing == sum(last)
        if not ledger.chain.gaps:
            assert all(one.difference == 0 for one in books.values())


@settings(max_examples=examples(100), deadline=None)
@given(drawn=st.lists(ANY_STEP, max_size=30), seed=st.integers(0, 10**6), missing=st.integers(0, 3))
def test_all_inventories_of_a_wallet_contain_the_same_units_in_the_same_order(drawn, seed, missing):
    entries = write_steps(drawn, Teller(**BEFORE)).entries
    gone = set(random.Random(seed).sample(range(len(entries)), min(missing, len(entries))))
    ledger, _ = rebuild([entry for place, entry in enumerate(entries) if place not in gone])
    for money, inventory in ledger.inventories.items():
        assert money not in count_units(inventory)
        for mint in {*inventory.lots, *ledger.inventories[SOL].lots} - {money}:
            assert list_queue(inventory, mint) == list_queue(ledger.inventories[SOL], mint)


@settings(max_examples=examples(100), deadline=None)
@given(
    drawn=st.lists(ANY_STEP, min_size=1, max_size=25),
    seed=st.integers(0, 10**6),
    missing=st.integers(0, 2),
    undated=st.sets(st.integers(0, 24), max_size=2),
)
def test_batches_and_order_do_not_change_the_ledger(drawn, seed, missing, undated):
    """In every currency and view: accounts, inventories, gaps and each entry's results."""
    dice = random.Random(seed)
    entries = write_steps(drawn, Teller(**BEFORE)).entries
    gone = set(dice.sample(range(len(entries)), min(missing, len(entries))))
    found = [
        entry._replace(block_time=None) if place in undated else entry
        for place, entry in enumerate(entries)
        if place not in gone
    ]
    spans = Spans((Span(1, 150_000, 220_000), Span(2, 230_000, None)))
    ledger, made = rebuild(found, spans=spans)
    again, remade = fold(found, dice, Ledger(spans=Spans(spans.spans)))
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
