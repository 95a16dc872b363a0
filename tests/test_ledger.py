"""First in, first out: a small ledger for each rule of docs/results.md, the oracle's ledgers of
real receipts, and what must always hold.

The small ledgers tell their arithmetic. `10@100` is ten units that cost 100 lamports together, `@?`
a cost that nobody observed.
"""

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.ledger.coverage import order_entries
from chain.ledger.inventory import Inventory
from chain.ledger.ledger import Ledger
from chain.ledger.lots import Gap, Lot, Opening, Seen
from chain.reading.effects import Balance
from chain.reading.entries import Entry, read_entry
from chain.reading.instructions import WRAPPED_SOL
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt
from chain.stored.summary import show_reconciliation, show_results

FEE, RENT = 5, 2_000


class Teller:
    """Writes entries whose balances join and has them booked; `held` is what happened unobserved
    beforehand. `A/2` is a second account of A.
    """

    def __init__(self, ledger=None, lamports=0, **held):
        self.ledger, self.slot, self.lamports, self.held = (
            ledger or Ledger(),
            100,
            lamports,
            dict(held),
        )
        self.escrow, self.opened, self.entries = Counter(), set(held), []
        if not lamports:
            self.write("native_transfer", sol=10**12)

    def write(
        self,
        kind,
        sol=0,
        fee=0,
        changes=(),
        mint=None,
        orders=(),
        residues=(),
        tip=0,
        beside_sol=0,
        beside=(),
        sponsored=0,
        flags=(),
    ):
        """Book one entry. `changes`: (mint, raw change)... through the venue; `beside` likewise,
        what passed beside it; `sol` through the venue, `beside_sol` beside it; `orders`: (escrow,
        mint, raw change)...
        """
        self.slot += 10
        whole = Counter()
        for name, change in (*changes, *beside):
            whole[name] += change
        rent = RENT * len(whole.keys() - self.opened)
        paid = sol + beside_sol + sponsored - rent
        balances = [Balance("ada", None, 9, 0, 0, self.lamports, self.lamports + paid)]
        for name, change in whole.items():
            before = self.held.get(name, 0)
            balances.append(
                Balance(
                    f"ada's {name}",
                    mint_of(name),
                    0,
                    before,
                    before + change,
                    RENT if name in self.opened else 0,
                    RENT,
                )
            )
            self.held[name] = before + change
            self.opened.add(name)
        self.lamports += paid
        others = []
        for escrow, name, change in orders:
            others.append((escrow, name, self.escrow[escrow], self.escrow[escrow] + change))
            self.escrow[escrow] += change
        entry = Entry(
            signature=f"{kind} {self.slot}",
            slot=self.slot,
            tx_index=0,
            block_time=self.slot,
            kind=kind,
            venue=None,
            mint=mint,
            flags=tuple(flags),
            residues=tuple(residues),
            sol=sol + beside_sol,
            fee=fee,
            tip=tip,
            rent=rent,
            tokens=tuple(
                (mint_of(name), change, 0) for name, change in sorted(whole.items()) if change
            ),
            balances=tuple(balances),
            others=tuple(others),
            sponsored=sponsored,
            beside_sol=beside_sol,
            beside_tokens=tuple((mint_of(name), change, 0) for name, change in sorted(beside)),
        )
        self.entries.append(entry)
        self.last = self.ledger.apply(entry)
        return self

    def buy(self, mint, raw, cost, rest=()):
        return self.write("buy", -cost, FEE, [(mint, raw), *rest], mint_of(mint))

    def sell(self, mint, raw, proceeds, rest=()):
        return self.write("sell", proceeds, FEE, [(mint, -raw), *rest], mint_of(mint))

    def swap(self, mint, raw, other, got, spent=0):
        return self.write("swap", -spent, FEE, [(mint, -raw), (other, got)], mint_of(other))

    def gain(self, mint, raw, kind="transfer_in"):
        return self.write(kind, changes=[(mint, raw)])

    def lose(self, mint, raw, kind="transfer_out"):
        return self.write(kind, -FEE, FEE, [(mint, -raw)])

    def slip(self, mint=None, by=0, lamports=0):
        """Something happened that no entry tells."""
        if mint:
            self.held[mint] = self.held.get(mint, 0) + by
            self.opened.add(mint)
        self.lamports += lamports
        return self

    def lots(self, mint):
        return " ".join(
            f"{lot.left}@{'?' if lot.cost is None else lot.left_cost}"
            for lot in self.ledger.lots.get(mint, [])
        )

    @property
    def sale(self):
        """(status, result, proceeds, cost) of the last entry."""
        return self.last.status, self.last.result, self.last.proceeds, self.last.cost

    def taken(self):
        return " ".join(
            f"{amount}@{'?' if cost is None else cost}" for _, amount, cost in self.last.lots
        )


def mint_of(name):
    return name.partition("/")[0]


def rebuild(entries, untouched=()):
    """(Ledger, [Booked, ...]) of entries, applied again where they tell of the beginning late; a
    second time is enough.
    """
    ledger = Ledger(untouched=dict(untouched))
    booked = [ledger.apply(entry) for entry in entries]
    if ledger.stale:
        ledger = ledger.restart()
        booked = [ledger.apply(entry) for entry in entries]
    assert not ledger.stale
    return ledger, booked


def show(booked):
    """status, result, slices and flags of the sales."""
    return [
        (
            b.status,
            b.result,
            " ".join(f"{amount}@{'?' if cost is None else cost}" for _, amount, cost in b.lots),
            b.flags,
        )
        for b in booked
        if b.entry.kind == "sell"
    ]


# ---- buys and sales ------------------------------------------------------------------------------
def test_a_buy_is_a_lot():
    t = Teller().buy("A", 10, 100)
    assert t.lots("A") == "10@100" and t.last.status == "not_applicable"
    assert t.ledger.positions() == [("A", 10, 0, 100, 0)]


def test_a_sale_takes_the_oldest_first():
    """12 for 240. Slices: 10 of the first lot (cost 100), 2 of the second (100 * 2 // 5 = 40).
    Result 240 - 140.
    """
    t = Teller().buy("A", 10, 100).buy("A", 5, 100).sell("A", 12, 240)
    assert (
        t.sale == ("matched", 100, 240, 140)
        and t.taken() == "10@100 2@40"
        and t.lots("A") == "3@60"
    )
    assert (t.last.matched, t.last.unmatched) == (12, 0)


def test_costs_add_up_to_the_lamport():
    """A lot 3@100 in three sales: 100 // 3 = 33, again 33, and the last gets what is left: 34."""
    t = Teller().buy("A", 3, 100)
    assert [t.sell("A", 1, 50).sale for _ in range(3)] == [
        ("matched", 17, 50, 33),
        ("matched", 17, 50, 33),
        ("matched", 16, 50, 34),
    ]
    assert t.ledger.totals.realized == 150 - 100 and t.lots("A") == ""


def test_proceeds_add_up_to_the_lamport():
    """Proceeds 100 over slices 1, 1, 1 of three lots, the first of unknown cost: 33, 33, 34.
    Counted: 67 of cost 20.
    """
    t = Teller().gain("A", 1).buy("A", 1, 10).buy("A", 1, 10).sell("A", 3, 100)
    assert t.sale == ("partial", 47, 67, 20) and t.taken() == "1@? 1@10 1@10"
    assert (t.last.matched, t.last.unmatched) == (2, 1)


def test_a_sale_may_bring_less_than_nothing():
    """Fees ate 7 more than it brought. Over slices 2 and 1: -7 * 2 // 3 = -5, the rest -2; of the
    slice of known cost -5 - 20.
    """
    t = Teller().buy("A", 2, 20).gain("A", 1).sell("A", 3, -7)
    assert t.sale == ("partial", -25, -5, 20)
    assert t.ledger.totals.realized == -25 and t.ledger.totals.winning == 0


def test_an_unknown_cost_gives_no_result():
    t = Teller().gain("A", 5).sell("A", 5, 100)
    assert t.sale == ("unmatched", None, None, None) and t.taken() == "5@?"
    assert (t.ledger.totals.unmatched, t.ledger.totals.realized) == (1, 0)


def test_a_sale_at_cost_is_no_win():
    t = Teller().buy("A", 2, 20).sell("A", 1, 10).sell("A", 1, 11)
    assert (t.ledger.totals.winning, t.ledger.totals.realized) == (1, 1)


# ---- swaps ---------------------------------------------------------------------------------------
def test_a_swap_carries_the_cost_over():
    """15 A (10@100, 5@100) become 31 B for 7 lamports: 31 * 10 // 15 = 20 and 11; 7 * 10 // 15 = 4
    and 3. Costs 104 and 103. Nothing is realized.
    """
    t = Teller().buy("A", 10, 100).buy("A", 5, 100).swap("A", 15, "B", 31, 7)
    assert (
        t.lots("A") == "" and t.lots("B") == "20@104 11@103" and t.last.flags == ("basis_carried",)
    )
    assert t.last.status == "not_applicable" and t.ledger.totals.realized == 0


def test_an_unknown_slice_stays_unknown_over_a_swap():
    """5@? and 5@50 become 4 and 4 B; of 10 lamports spent the unknown lot's 5 are lost with it."""
    t = Teller().gain("A", 5).buy("A", 5, 50).swap("A", 10, "B", 8, 10)
    assert t.lots("B") == "4@? 4@55" and t.last.flags == ("basis_carried",)
    assert Teller().gain("A", 5).swap("A", 5, "B", 8).last.flags == ()


def test_a_swap_may_give_lamports_back():
    """7 lamports came back, over 1 and 2 of 3: -7 // 3 = -3 and -4."""
    t = Teller().buy("A", 1, 10).buy("A", 2, 20).swap("A", 3, "B", 3, -7)
    assert t.lots("B") == "1@7 2@16"


def test_a_slice_too_small_for_a_unit_joins_the_next():
    """1, 1 and 8 of A (costs 1, 2, 80) for 3 B: 3 * 1 // 10 = 0, 3 * 2 // 10 = 0, with the third 3.
    All is one lot of 83.
    """
    t = Teller().buy("A", 1, 1).buy("A", 1, 2).buy("A", 8, 80).swap("A", 10, "B", 3)
    assert t.lots("B") == "3@83"


def test_a_last_slice_too_small_joins_the_one_before():
    """8 and 2 of A for 3 B: 3 * 8 // 10 = 2, and 3 * 2 // 10 = 0, which alone would be nothing. One
    lot.
    """
    t = Teller().buy("A", 8, 80).buy("A", 2, 20).swap("A", 10, "B", 3)
    assert t.lots("B") == "3@100"


def test_a_tiny_slice_of_unknown_cost_spoils_the_one_it_joins():
    t = Teller().gain("A", 1).buy("A", 9, 90).swap("A", 10, "B", 5)
    assert t.lots("B") == "5@?"


# ---- what is no trade ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "kind", ["transfer_out", "lending", "liquidity", "stake", "bridge", "nft", "other"]
)
def test_what_left_took_its_lots_without_a_result(kind):
    t = Teller().buy("A", 10, 100).lose("A", 4, kind)
    assert (
        t.lots("A") == "6@60"
        and t.last.status == "not_applicable"
        and t.ledger.totals.realized == 0
    )
    assert t.ledger.totals.overhead == FEE


@pytest.mark.parametrize(
    "kind", ["transfer_in", "lending", "liquidity", "stake", "bridge", "nft", "other"]
)
def test_received_tokens_are_of_unknown_cost(kind):
    assert Teller().gain("A", 4, kind).lots("A") == "4@?"


def test_a_residue_is_of_unknown_cost():
    t = Teller().buy("A", 10, 100, rest=[("B", 1)])
    assert (t.lots("A"), t.lots("B")) == ("10@100", "1@?")
    t = Teller().buy("A", 10, 100).sell("A", 10, 120, rest=[("B", 1)])
    assert t.sale == ("matched", 20, 120, 100) and t.lots("B") == "1@?"


def test_a_failed_transaction_costs_its_fee_and_moves_no_lot():
    t = Teller().buy("A", 10, 100).write("failed", -FEE, FEE, [])
    assert (t.ledger.totals.failed, t.ledger.totals.failed_cost, t.ledger.totals.overhead) == (
        1,
        FEE,
        0,
    ) and t.lots("A") == "10@100"


def test_volume_counts_both_sides_and_no_swap():
    t = Teller().buy("A", 10, 100).sell("A", 5, 80).swap("A", 5, "B", 5, 3).gain("A", 1)
    assert (t.ledger.totals.volume, t.ledger.totals.trades) == (180, 3)


# ---- orders: the escrow keeps its lots -----------------------------------------------------------
def order(mint, raw):
    return (
        Teller()
        .buy(mint, 10, 100)
        .buy(mint, 10, 200)
        .write("order_open", changes=[(mint, -raw)], orders=[("e", mint, raw)])
    )


def test_an_opened_order_is_no_sale():
    """15 of 10@100 10@200 lie in escrow: 10@100 and 5@100; what is left is 5@100."""
    t = order("A", 15)
    assert t.lots("A") == "5@100" and t.last.status == "not_applicable"
    assert [(s.amount, s.cost) for s in t.ledger.inventory.escrows["e"].slices] == [
        (10, 100),
        (5, 100),
    ]


def test_a_cancelled_order_puts_its_lots_back_in_their_place():
    """As if it had not been: the oldest is sold first again. 12 for 360: 10@100 and 2 of 5@100
    (40).
    """
    t = order("A", 15).write("order_cancel", changes=[("A", 15)], orders=[("e", "A", -15)])
    assert t.lots("A") == "10@100 5@100 5@100" and not t.ledger.inventory.escrows
    assert t.sell("A", 12, 360).sale == ("matched", 220, 360, 140)


def test_a_fill_carries_over_what_left_the_escrow():
    """12 of the 15 leave it for 24 B: 10@100 and 2 of 5@100 (40). 24 * 10 // 12 = 20 and 4."""
    t = order("A", 15).write("order_fill", changes=[("B", 24)], orders=[("e", "A", -12)])
    assert t.lots("B") == "20@100 4@40" and t.last.flags == ("basis_carried",)
    assert [(s.amount, s.cost) for s in t.ledger.inventory.escrows["e"].slices] == [(3, 60)]


def test_a_fill_in_parts_and_a_cancel_of_the_rest_lose_nothing():
    t = order("A", 15)
    for raw, got in ((4, 8), (7, 14)):
        t.write("order_fill", changes=[("B", got)], orders=[("e", "A", -raw)])
    t.write("order_cancel", changes=[("A", 4)], orders=[("e", "A", -4)])
    known = sum(lot.left_cost for lots in t.ledger.lots.values() for lot in lots)
    assert known == 300 and not t.ledger.inventory.escrows


def test_a_cancel_gives_each_mint_its_own_lots():
    """Two orders end in one receipt; equal amounts of two mints do not change places."""
    t = Teller().buy("A", 5, 50).buy("B", 5, 70)
    t.write("order_open", changes=[("A", -5)], orders=[("e", "A", 5)]).write(
        "order_open", changes=[("B", -5)], orders=[("f", "B", 5)]
    )
    t.write("order_cancel", changes=[("A", 5), ("B", 5)], orders=[("f", "B", -5), ("e", "A", -5)])
    assert (t.lots("A"), t.lots("B")) == ("5@50", "5@70")


def test_what_a_transfer_fee_took_on_the_way_back_is_gone():
    """10 of 10@100 went, 9 come back: 100 * 9 // 10."""
    t = (
        Teller()
        .buy("A", 10, 100)
        .write("order_open", changes=[("A", -10)], orders=[("e", "A", 10)])
    )
    assert t.write("order_cancel", changes=[("A", 9)], orders=[("e", "A", -10)]).lots("A") == "9@90"


def test_a_fill_of_an_unobserved_order_is_of_unknown_cost():
    assert (
        Teller()
        .write("order_fill", changes=[("B", 24)], orders=[("stranger's", "A", -12)])
        .lots("B")
        == "24@?"
    )


def test_an_order_whose_escrow_nobody_sees_takes_its_cost_along():
    """4 of 10@100 are 40. The same of what a fill takes from the wallet beside an escrow."""
    t = Teller().buy("A", 10, 100).write("order_open", changes=[("A", -4)])
    assert (t.last.cost_left, t.lots("A"), t.ledger.inventory.escrows) == (40, "6@60", {})
    t = Teller().buy("A", 10, 100)
    t.write("order_fill", changes=[("A", -4)], orders=[("stranger's", "A", 4)])
    assert (t.last.cost_left, t.lots("A"), t.ledger.inventory.escrows) == (40, "6@60", {})


def test_an_order_lies_where_most_of_it_went():
    """Of 10, a fee of 1 goes elsewhere; what the other account of that name lost does not count."""
    t = Teller().buy("A", 10, 100)
    t.write(
        "order_open",
        changes=[("A", -10)],
        orders=[("fee", "A", 1), ("e", "A", 9), ("loser", "A", -20), ("of B", "B", 30)],
    )
    assert set(t.ledger.inventory.escrows) == {"e"}


def test_an_order_holds_only_what_reached_its_escrow():
    """Of 10@100, 3 reach it and 5 went elsewhere: they cost 50. The 3 come back at 30."""
    t = Teller().buy("A", 10, 100)
    t.write("order_open", changes=[("A", -8)], orders=[("e", "A", 3)])
    assert (t.last.cost_left, t.lots("A"), t.ledger.inventory.sum_open_cost()) == (50, "2@20", 50)
    t.write("order_cancel", changes=[("A", 3)], orders=[("e", "A", -3)])
    assert (t.last.cost_left, sorted(t.lots("A").split())) == (0, ["2@20", "3@30"])
    assert t.ledger.inventory.escrows == {}


def test_a_withheld_fee_is_not_held():
    """Of 10@100 that were sent 9 arrived; once they are sold, nothing is left."""
    t = Teller().buy("A", 10, 100).write("order_open", changes=[("A", -10)], orders=[("e", "A", 9)])
    assert t.last.cost_left == 10
    t.write("order_fill", changes=[("B", 3)], orders=[("e", "A", -9)])
    assert (t.lots("B"), t.ledger.inventory.sum_open_cost()) == ("3@90", 90)
    assert not t.ledger.inventory.is_held(mint_of("A"))


def test_a_gap_that_shows_late_reaches_back_to_a_fill_too():
    """Ordered before the gap on A's second account began, filled after: what was missed may have
    taken the lots that the fill took.
    """
    t = Teller().buy("A", 10, 100)
    t.write("order_open", changes=[("A", -10)], orders=[("e", "A", 10)]).gain("A/2", 1)
    t.write("order_fill", changes=[("B", 3)], orders=[("e", "A", -10)])
    t.slip("A/2", 1).gain("A/2", 1)
    assert t.ledger.stale
    ledger, booked = rebuild(t.sell("B", 3, 70).entries)
    assert show(booked) == [("unmatched", None, "", ("incomplete_history",))]
    assert ledger.gaps == [Gap(140, 160, "balance_break")]


# ---- what is told of each transaction ------------------------------------------------------------
def test_what_moved_and_is_held_nowhere_is_named_also_without_an_account_of_its_own():
    """It came and went through accounts that were opened and closed inside."""
    nothing = ("a venue", None, (), (), 0, 0, 0, 0)
    moved = Entry("one", 7, 0, 7, "transfer_in", *nothing, (("B", 5, 0),), ())
    passed = Entry("two", 8, 0, 8, "transfer_in", *nothing, (("C", -5, 0),), ())
    beside = passed._replace(tokens=(), beside_tokens=(("D", -5, 0),))
    ledger = Ledger()
    told = [ledger.apply(entry).emptied for entry in (moved, passed, beside)]
    assert told == [(), ("C",), ("D",)]


def test_mints_that_are_gone_are_named():
    t = Teller().buy("A", 10, 100).buy("B", 1, 10)
    assert t.sell("A", 5, 80).last.emptied == ()
    assert t.sell("A", 5, 80).last.emptied == (mint_of("A"),)
    t.write("order_open", changes=[("B", -1)], orders=[("e", "B", 1)])
    assert t.last.emptied == ()
    assert t.write("order_fill", orders=[("e", "B", -1)]).last.emptied == (mint_of("B"),)


def test_cost_that_left_is_told_by_mint():
    """4 of 10@100 are 40, all of 5@70 are 70; twice 2 more of A, in two ways, are 20 each."""
    t = Teller().buy("A", 10, 100).buy("B", 5, 70)
    t.write("transfer_out", changes=[("A", -4), ("B", -5)])
    assert t.last.left == ((mint_of("A"), 40), (mint_of("B"), 70)) and t.last.cost_left == 110
    t.write("transfer_out", changes=[("A", -2)], beside=[("A", -2)])
    assert t.last.left == ((mint_of("A"), 40),) and t.last.cost_left == 40
    assert t.sell("A", 2, 30).last.left == ()


def test_a_known_cost_that_a_swap_lost_is_told_by_mint():
    """1@5 and 3 of unknown cost become 2 B: 1 alone is too small for a unit."""
    t = Teller().buy("A", 1, 5).gain("A", 3).swap("A", 4, "B", 2)
    assert (t.last.left, t.last.cost_left) == (((mint_of("A"), 5),), 5)
    assert (t.last.carried, t.lots("B")) == (0, "2@?")


def test_a_sale_after_a_gap_tells_what_was_sold_and_what_came_beyond_its_cost():
    """4 of 10@100 cost 40 and brought 90: 50 are of no result."""
    t = Teller().buy("A", 10, 100).slip("A", 1).sell("A", 4, 90)
    assert t.sale == ("unmatched", None, None, None)
    assert (t.last.sold, t.last.unmatched, t.last.other) == (mint_of("A"), 4, 90 - 40)
    assert t.last.holding is None and t.last.lots == ()


def test_a_ledger_begins_anew_with_what_it_found_out():
    """Of two accounts that no receipt had touched, one was touched since."""
    kept, gone = Opening((0, 1, 0, "a"), "A", 5, 6), Opening((0, 1, 0, "b"), "B", 7, 0)
    ledger = Ledger(backfilled=False, untouched={"a": kept, "b": gone})
    ledger.seen["b"] = Seen(9, "B", 7, 0)
    ledger.found["b"] = gone
    ledger.found_gap_starts["A"] = 4
    again = ledger.restart()
    assert (again.backfilled, again.untouched, again.expected["b"]) == (False, {"a": kept}, gone)
    assert (again.gap_starts, again.seen) == ({"A": 4}, {})
    assert again.lots["A"] == [Lot(kept.rank, None, 5, None, 5, None)]


# ---- opening inventory and gaps ------------------------------------------------------------------
def test_what_was_there_before_is_of_unknown_cost_and_sold_first():
    t = Teller(lamports=10**12, A=5).buy("A", 5, 50).sell("A", 10, 200)
    assert (
        t.sale == ("partial", 50, 100, 50)
        and t.last.flags == ("opening_inventory_unknown",)
        and t.last.lots[0][0] is None
    )
    assert t.ledger.opened and t.ledger.openings == {"A"} and not t.ledger.gaps


def test_opening_inventory_found_after_a_sale_stands_before_all_lots():
    """10 A are bought for 100 and sold for 60; only then a second account shows, with 4 A from
    before. They were the oldest, so the sale took them first.

    Its proceeds: 60 * 4 // 10 = 24 for the four of unknown cost, 36 for six of 10@100 (cost 60):
    -24, and not matched with -40. The last four cost 40 and bring 20.
    """
    t = Teller(lamports=10**12, **{"A/2": 4}).buy("A", 10, 100).sell("A", 10, 60).sell("A/2", 4, 20)
    assert t.ledger.stale
    ledger, booked = rebuild(t.entries)
    assert show(booked) == [
        ("partial", -24, "4@? 6@60", ("opening_inventory_unknown",)),
        ("matched", -20, "4@40", ()),
    ]
    assert (
        (ledger.totals.realized, ledger.totals.partial, ledger.totals.matched) == (-44, 1, 1)
        and ledger.openings == {"A"}
        and not ledger.gaps
    )


def test_opening_inventory_found_before_anything_was_booked_needs_no_second_fold():
    t = Teller(lamports=10**12, A=5, B=2).buy("A", 5, 50).sell("B", 2, 30).sell("A", 10, 200)
    assert not t.ledger.stale and show(rebuild(t.entries)[1])[-1] == (
        "partial",
        50,
        "5@? 5@50",
        ("opening_inventory_unknown",),
    )


UNTOUCHED = {"ada's A/2": Opening.untouched("ada's A/2", "A", 4, 0)}


def test_what_an_account_holds_that_no_receipt_touched_stands_before_all_lots():
    """As above, 10 A for 100 are sold for 60, and 4 A lie on an account no receipt ever touched:
    the sale took 4@? and 6@60 and brings -24; 4@40 are left.
    """
    t = Teller().buy("A", 10, 100).sell("A", 10, 60)
    ledger, booked = rebuild(t.entries, UNTOUCHED)
    assert show(booked) == [("partial", -24, "4@? 6@60", ("opening_inventory_unknown",))]
    assert ledger.positions() == [("A", 4, 0, 40, 0)] and ledger.openings == {"A"} and ledger.opened


def test_a_receipt_that_touches_the_account_makes_what_was_said_of_it_void():
    """It tells itself what was there: 4 A from before, sold last for 20 (4@40: -20), or none."""
    held = Teller(lamports=10**12, **{"A/2": 4}).buy("A", 10, 100).sell("A", 10, 60)
    held.sell("A/2", 4, 20)
    assert rebuild(held.entries, UNTOUCHED) == rebuild(held.entries)
    empty = Teller().buy("A", 10, 100).sell("A", 10, 60).gain("A/2", 4)
    assert show(rebuild(empty.entries, UNTOUCHED)[1]) == [("matched", -40, "10@100", ())]
    assert rebuild(empty.entries, UNTOUCHED)[0].openings == set()


def test_opening_inventory_of_several_accounts_stands_in_the_order_they_were_seen():
    """First 3 of the second account, then 4 of the first, then what was bought: 8 A are 3@?, 4@?
    and 1 of 2@10.
    """
    t = (
        Teller(lamports=10**12, A=4, **{"A/2": 3})
        .gain("A/2", 1)
        .buy("A", 2, 10)
        .sell("A", 6, 60)
        .sell("A/2", 4, 40)
    )
    at_once = [entry._replace(slot=t.entries[1].slot) for entry in t.entries[:2]]
    # In one slot it is the place there that tells.
    for entries in (t.entries, [*at_once, *t.entries[2:]]):
        assert [x[2] for x in show(rebuild(entries)[1])] == ["3@? 3@?", "1@? 1@? 2@10"]


def test_an_order_put_back_comes_after_the_opening_inventory():
    """The escrow held 4@? and 6@60, and 4@40 stayed: back again they are 4@? 4@40 6@60."""
    t = (
        Teller(lamports=10**12, **{"A/2": 4})
        .buy("A", 10, 100)
        .write("order_open", changes=[("A", -10)], orders=[("e", "A", 10)])
    )
    t.write("order_cancel", changes=[("A", 10)], orders=[("e", "A", -10)]).sell("A", 10, 100).sell(
        "A/2", 4, 50
    )
    assert [x[:3] for x in show(rebuild(t.entries)[1])] == [
        ("partial", 0, "4@? 4@40 2@20"),
        ("matched", 10, "4@40"),
    ]


def test_a_gap_that_shows_late_reaches_back_to_its_beginning():
    """Something happened on the second account while the first sold: what was missed may have taken
    the lots that the sale took.
    """
    t = Teller().buy("A", 10, 100).buy("A/2", 5, 80).slip("A/2", -5).sell("A", 5, 90).gain("A/2", 1)
    assert t.ledger.stale
    ledger, booked = rebuild(t.entries)
    assert (
        show(booked) == [("unmatched", None, "", ("incomplete_history",))]
        and ledger.gaps == [Gap(130, 150, "balance_break")]
        and ledger.totals.realized == 0
    )


def test_a_gap_of_wrapped_sol_that_shows_late_is_the_whole_wallets():
    """5 lamports lay in ada's account of wrapped SOL when she sold, and 9 when it was seen again:
    nobody knows what was missed in between, and no sale after its beginning has a result.
    """
    t = Teller().buy("A", 10, 100).sell("A", 5, 90).gain("A", 1)
    first, bought, sold, last = t.entries
    opened = Balance("ada's SOL", WRAPPED_SOL, 9, 0, 5, 0, RENT + 5)
    seen = Balance("ada's SOL", WRAPPED_SOL, 9, 9, 9, RENT + 9, RENT + 9)
    bought = bought._replace(balances=(*bought.balances, opened))
    last = last._replace(balances=(*last.balances, seen))
    ledger, booked = rebuild([first, bought, sold, last])
    assert show(booked) == [("unmatched", None, "", ("incomplete_history",))]
    assert ledger.gaps == [Gap(bought.slot, last.slot, "balance_break")]


def test_a_sale_before_a_gap_keeps_its_result():
    t = (
        Teller()
        .buy("A", 10, 100)
        .buy("A/2", 5, 80)
        .sell("A", 5, 90)
        .gain("A/2", 1)
        .slip("A/2", 2)
        .gain("A/2", 1)
    )
    assert not t.ledger.stale and show(rebuild(t.entries)[1]) == [("matched", 40, "5@50", ())]


def test_an_account_that_held_something_when_the_wallet_began_otherwise_is_a_gap():
    """The wallet's own beginning was seen, at 0. So its account of A cannot be older."""
    t = Teller().slip("A", 5).sell("A", 5, 100)
    assert t.ledger.gaps == [Gap(110, 120, "opening_balance")]
    assert t.sale == ("unmatched", None, None, None) and "incomplete_history" in t.last.flags


def test_a_break_is_a_gap_between_the_receipts_around_it():
    t = Teller().buy("A", 10, 100).slip(lamports=-3).buy("A", 5, 50)
    assert t.ledger.gaps == [Gap(120, 130, "balance_break")]


def test_no_sale_after_a_gap_of_the_wallet_has_a_result():
    """Any purchase may be missing, so first in first out would be wrong, not merely incomplete. The
    lots are still followed.
    """
    t = Teller().buy("A", 10, 100).slip(lamports=-3).sell("A", 5, 80)
    assert (
        t.sale == ("unmatched", None, None, None)
        and t.last.flags == ("incomplete_history",)
        and t.last.lots == ()
    )
    assert (t.ledger.totals.realized, t.ledger.totals.matched, t.ledger.totals.unmatched) == (
        0,
        0,
        0,
    ) and t.lots("A") == "5@50"


def test_a_gap_of_one_mint_leaves_the_others_their_results():
    t = Teller().buy("A", 10, 100).buy("B", 10, 100).slip("A", 3)
    assert t.sell("A", 5, 80).sale[1] is None
    assert t.sell("B", 5, 80).sale == ("matched", 30, 80, 50)


def test_unobserved_more_is_a_lot_of_unknown_cost_dated_there():
    t = Teller().buy("A", 10, 100).slip("A", 3).buy("A", 1, 10)
    assert t.lots("A") == "10@100 3@? 1@10"


def test_unobserved_less_takes_lots_out():
    t = Teller().buy("A", 10, 100).slip("A", -4).buy("A", 1, 10)
    assert t.lots("A") == "6@60 1@10"


def at_the_account_of(mint, teller, other):
    """Have the last entry of another teller's follow, as if it concerned the account of `mint`."""
    purse, account = other.entries[-1].balances
    moved = account._replace(address=f"ada's {mint}")
    teller.slot, teller.lamports = other.slot, other.lamports
    teller.last = teller.ledger.apply(other.entries[-1]._replace(balances=(purse, moved)))


def test_an_account_that_is_anothers_mint_by_now_breaks_the_history_of_both():
    """It held 10 A, bought for 100, and held 10 B when it was next seen, of which 4 left."""
    t = Teller().buy("C", 10, 100).buy("A", 10, 100)
    other = Teller(lamports=t.lamports).slip("B", 10)
    other.slot = t.slot
    at_the_account_of("A", t, other.lose("B", 4))
    assert t.ledger.gaps == [Gap(130, 140, "balance_break")]
    assert (t.lots("A"), t.lots("B")) == ("", "6@?")
    assert (t.last.cost_left, t.last.left, t.last.emptied) == (100, (("A", 100),), ("A",))
    assert t.ledger.totals.gaps == 0
    t.held.update({"A/2": 0, "B": 6})
    t.opened |= {"B"}
    assert t.buy("A/2", 1, 10).sell("A/2", 1, 90).sale[1] is None
    assert t.sell("C", 10, 180).sale == ("matched", 80, 180, 100)
    assert show_reconciliation(t.ledger)["differenceLamports"] == "0"


def test_a_closed_account_may_be_opened_for_any_mint():
    """10 A were sold for 180 and the account was closed; 4 B come into one at the same address."""
    t = Teller().buy("A", 10, 100)
    other = Teller(lamports=t.lamports)
    other.slot = t.slot
    where = t.ledger.seen["ada's A"]
    t.ledger.seen["ada's A"] = where._replace(amount=0, lamports=0)
    at_the_account_of("A", t, other.gain("B", 4))
    assert t.ledger.gaps == []


def test_one_that_was_closed_when_it_was_opened_for_another_lost_what_it_held():
    t = Teller().buy("A", 10, 100)
    other = Teller(lamports=t.lamports)
    other.slot = t.slot
    at_the_account_of("A", t, other.gain("B", 4))
    assert t.ledger.gaps == [Gap(120, 130, "balance_break")]
    assert (t.lots("A"), t.lots("B"), t.last.cost_left) == ("", "4@?", 100)


def test_a_doubtful_cost_stays_doubtful_over_swaps_and_orders():
    t = Teller().buy("A", 10, 100).slip("A", 3).swap("A", 10, "B", 10).swap("B", 10, "C", 10)
    assert t.sell("C", 10, 500).sale[1] is None and "incomplete_history" in t.last.flags
    t = (
        Teller()
        .buy("A", 10, 100)
        .slip("A", 3)
        .write("order_open", changes=[("A", -10)], orders=[("e", "A", 10)])
    )
    t.write("order_fill", changes=[("B", 10)], orders=[("e", "A", -10)])
    assert t.sell("B", 10, 500).sale[1] is None and "incomplete_history" in t.last.flags


def test_until_the_whole_history_was_listed_no_sale_has_a_result():
    t = Teller(Ledger(backfilled=False)).buy("A", 10, 100).sell("A", 10, 120)
    assert t.sale[1] is None and t.last.flags == ("incomplete_history",)


def test_selling_more_than_there_is_is_of_unknown_origin():
    """It cannot happen where the chain holds; nothing breaks where it does."""
    t = Teller().buy("A", 10, 100).write("sell", 150, FEE, [("A", -15)], "A")
    assert t.sale == ("partial", 0, 100, 100) and t.taken() == "10@100 5@?"


# ---- the oracle's ledgers ------------------------------------------------------------------------
@pytest.mark.parametrize("encoding", ["json", "jsonParsed"])
def test_the_recorded_wallets_earned_what_the_oracle_says(history, expected, encoding):
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
        ledger, booked = rebuild(order_entries(entries))
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
        told = show_results(ledger)
        assert want["results"] == {name: told[name] for name in want["results"]}
        reconciliation = show_reconciliation(ledger)
        assert want["reconciliation"] == {n: reconciliation[n] for n in want["reconciliation"]}
        assert want["reconciliation"]["differenceLamports"] == "0"
        assert {
            m: [(text(x.left), text(x.left_cost)) for x in lots]
            for m, lots in ledger.lots.items()
            if lots
        } == {
            m: [(x["amountRaw"], x["costLamports"]) for x in lots]
            for m, lots in want["openLots"].items()
        }
        assert (
            sorted(ledger.openings) == want["openingInventoryUnknown"]
            and not ledger.gaps
            and ledger.count == want["receipts"]
        )
        assert ledger.seen[wallet].lamports == int(want["finalLamports"])


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
    """The oracle dates opening inventory by the receipt that revealed it; we say that its origin
    was not observed.
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
    """The rules of docs/results.md told once more, in fractions rounded where the page
    rounds; it shares nothing with the ledger.
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
        # What is left over is too small to stand alone.
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


MINTS, RAW, LAMPORTS = st.sampled_from("ABC"), st.integers(1, 50), st.integers(-40, 10**6)
STEP = st.one_of(
    st.tuples(st.just("buy"), MINTS, RAW, st.integers(1, 10**6)),
    st.tuples(st.just("gain"), MINTS, RAW),
    st.tuples(st.just("sell"), MINTS, RAW, LAMPORTS),
    st.tuples(st.just("lose"), MINTS, RAW),
    st.tuples(st.just("swap"), MINTS, RAW, MINTS, RAW, st.integers(-40, 40)),
)


def play(steps, teller, oracle):
    """Both do the same; steps that would give away more than there is are left out. Yields after
    each.
    """
    for verb, mint, raw, *more in steps:
        if verb in ("sell", "lose", "swap"):
            raw = min(raw, teller.held.get(mint, 0))
            if not raw or (verb == "swap" and mint_of(more[0]) == mint_of(mint)):
                continue
        getattr(teller, verb)(mint, raw, *more)
        {
            "buy": lambda: oracle.put(mint, raw, *more),
            "gain": lambda: oracle.put(mint, raw, None),
            "lose": lambda: oracle.take(mint, raw),
            "sell": lambda: oracle.sell(mint, raw, *more),
            "swap": lambda: oracle.swap(mint, raw, *more),
        }[verb]()
        yield verb


@settings(max_examples=400, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_the_ledger_is_the_oracles(steps):
    teller, oracle = Teller(), Oracle()
    for verb in play(steps, teller, oracle):
        assert [teller.lots(mint) for mint in "ABC"] == [oracle.lots(mint) for mint in "ABC"]
        if verb == "sell":
            assert teller.last.result == oracle.results[-1]
            assert (teller.last.result is None) == all(
                cost is None for _, _, cost in teller.last.lots
            )
    assert teller.ledger.totals.realized == sum(r or 0 for r in oracle.results)


@settings(max_examples=300, deadline=None)
@given(
    before=st.dictionaries(
        st.sampled_from(["A", "A/2", "B", "B/2"]), st.integers(1, 60), min_size=1
    ),
    steps=st.lists(STEP, max_size=30),
    choices=st.lists(st.booleans(), min_size=90),
)
def test_whenever_opening_inventory_is_found_the_ledger_is_the_oracles(before, steps, choices):
    """Two accounts of each mint, some holding from before; the oracle is told of all that was there
    at once, in the order in which it shows.
    """
    teller, oracle, choices = Teller(lamports=10**12, **before), Oracle(), iter(choices)
    steps = [
        (
            verb,
            account(teller, mint, choices),
            *([more[0], account(teller, more[1], choices), *more[2:]] if verb == "swap" else more),
        )
        for verb, mint, *more in steps
    ]
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
    ledger, booked = rebuild(teller.entries)
    assert [b.result for b in booked if b.entry.kind == "sell"] == oracle.results
    assert ledger.totals.realized == sum(r or 0 for r in oracle.results)


def account(teller, mint, choices):
    return mint + ("/2" if next(choices) else "")


class Silent:
    """An oracle that nobody asks."""

    def __getattr__(self, name):
        return lambda *_: None


class Merged:
    """An oracle of mints, told by accounts."""

    def __init__(self, oracle):
        self.oracle = oracle

    def __getattr__(self, name):
        return lambda *how: getattr(self.oracle, name)(
            *(mint_of(x) if isinstance(x, str) else x for x in how)
        )


class Weighed(Inventory):
    """An Inventory whose every arrival and departure is put on a scale."""

    def __init__(self):
        super().__init__()
        self.came, self.went = Counter(), Counter()

    def _append(self, mint, origin, amount, cost, time, paid_in=""):
        self.came[mint, "raw"] += amount
        self.came["cost"] += cost or 0
        super()._append(mint, origin, amount, cost, time, paid_in)

    def cut(self, mint, amount, slot):
        cut = super().cut(mint, amount, slot)
        self.went[mint, "raw"] += sum(s.amount for s in cut.slices)
        self.went["cost"] += sum(s.cost or 0 for s in cut.slices)
        return cut


@settings(max_examples=300, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_quantity_and_cost_are_conserved(steps):
    """Section 5: acquired = disposed + open, to the unit; cost in = cost out + cost open, to the
    lamport; open = the chain's balance.
    """
    teller = Teller(Ledger(inventory=Weighed()))
    for _ in play(steps, teller, Oracle()):
        pass
    ledger = teller.ledger
    for mint in "ABC":
        still = sum(lot.left for lot in ledger.lots.get(mint, []))
        assert ledger.inventory.came[mint, "raw"] == ledger.inventory.went[
            mint, "raw"
        ] + still and still == teller.held.get(mint, 0)
    assert ledger.inventory.came["cost"] == ledger.inventory.went["cost"] + sum(
        lot.left_cost or 0 for lots in ledger.lots.values() for lot in lots
    )
    assert all(0 <= lot.left <= lot.amount for lots in ledger.lots.values() for lot in lots)
