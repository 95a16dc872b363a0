"""The chain of balances: holdings before the first transaction, and gaps between transactions."""

from teller import FEE, RENT, USDC, Teller, rebuild, show

from chain.addresses import WRAPPED_SOL
from chain.ledger.coverage import BalanceChain, Gap, Seen
from chain.ledger.inventory import SOL, Lot, Opening
from chain.ledger.ledger import Ledger
from chain.reading.flows import Balance


# ---- opening inventory and gaps ------------------------------------------------------------------
def test_opening_inventory_has_unknown_cost_and_sells_first():
    t = Teller(lamports=10**12, A=5).buy("A", 5, 50).sell("A", 10, 200)
    assert t.sale == ("partial", 50, 100, 50)
    assert t.last.flags == ("opening_inventory_unknown",) and t.last.lots[0][0] is None
    assert t.ledger.chain.opened and t.ledger.chain.openings == {"A"} and not t.ledger.chain.gaps
    # It was found before the sale, so nothing has to be rebuilt.
    assert not t.ledger.stale
    assert show(rebuild(t.entries)[1]) == [("partial", 50, "5@? 5@50", t.last.flags)]


def test_opening_inventory_found_after_a_sale_precedes_all_lots():
    """10 A are bought for 100 and sold for 60; only then a second account appears with 4 A from
    before. Being the oldest, those were sold first. Proceeds: 60 * 4 // 10 = 24 for the four of
    unknown cost, 36 for six of 10@100 (cost 60): -24, instead of -40 matched. The last four cost 40
    and sell for 20.
    """
    t = Teller(lamports=10**12, **{"A/2": 4}).buy("A", 10, 100).sell("A", 10, 60).sell("A/2", 4, 20)
    assert t.ledger.stale
    ledger, booked = rebuild(t.entries)
    assert show(booked) == [
        ("partial", -24, "4@? 6@60", ("opening_inventory_unknown",)),
        ("matched", -20, "4@40", ()),
    ]
    totals, chain = ledger.totals, ledger.chain
    assert (totals.realized, totals.partial, totals.matched) == (-44, 1, 1)
    assert chain.openings == {"A"} and not chain.gaps


UNTOUCHED = {"ada's A/2": Opening.untouched("ada's A/2", "A", 4, 0)}


def test_untouched_account_balances_precede_all_lots():
    """As above, 10 A for 100 are sold for 60, and 4 A are in an account that no receipt touched:
    the sale used 4@? and 6@60 for -24; 4@40 are left.
    """
    t = Teller().buy("A", 10, 100).sell("A", 10, 60)
    ledger, booked = rebuild(t.entries, UNTOUCHED)
    assert show(booked) == [("partial", -24, "4@? 6@60", ("opening_inventory_unknown",))]
    assert ledger.list_positions() == [("A", 4, 0, 40, 0)]
    assert ledger.chain.openings == {"A"} and ledger.chain.opened


def test_a_receipt_touching_the_account_voids_its_earlier_balance():
    """The receipt itself shows the earlier balance: 4 A, sold last for 20 (4@40: -20), or none."""
    held = Teller(lamports=10**12, **{"A/2": 4}).buy("A", 10, 100).sell("A", 10, 60)
    held.sell("A/2", 4, 20)
    assert rebuild(held.entries, UNTOUCHED) == rebuild(held.entries)
    empty = Teller().buy("A", 10, 100).sell("A", 10, 60).gain("A/2", 4)
    assert show(rebuild(empty.entries, UNTOUCHED)[1]) == [("matched", -40, "10@100", ())]
    assert rebuild(empty.entries, UNTOUCHED)[0].chain.openings == set()


def test_opening_inventory_keeps_the_order_accounts_were_seen():
    """First 3 from the second account, then 4 from the first, then the purchase: 8 A are 3@?, 4@?
    and 1 of 2@10.
    """
    t = Teller(lamports=10**12, A=4, **{"A/2": 3}).gain("A/2", 1).buy("A", 2, 10)
    t.sell("A", 6, 60).sell("A/2", 4, 40)
    at_once = [entry._replace(slot=t.entries[1].slot) for entry in t.entries[:2]]
    # Within one slot, the index decides.
    for entries in (t.entries, [*at_once, *t.entries[2:]]):
        assert [x[2] for x in show(rebuild(entries)[1])] == ["3@? 3@?", "1@? 1@? 2@10"]


def test_a_returned_order_follows_the_opening_inventory():
    """The escrow had 4@? and 6@60, and 4@40 stayed; after the return there are 4@? 4@40 6@60."""
    t = Teller(lamports=10**12, **{"A/2": 4}).buy("A", 10, 100)
    t.write("order_open", changes=[("A", -10)], orders=[("e", "A", 10)])
    t.write("order_cancel", changes=[("A", 10)], orders=[("e", "A", -10)])
    t.sell("A", 10, 100).sell("A/2", 4, 50)
    assert [x[:3] for x in show(rebuild(t.entries)[1])] == [
        ("partial", 0, "4@? 4@40 2@20"),
        ("matched", 10, "4@40"),
    ]


def test_a_late_gap_affects_everything_since_it_began():
    """Something happened on the second account while the first sold: the missing transactions may
    have used the lots of the sale.
    """
    t = Teller().buy("A", 10, 100).buy("A/2", 5, 80).slip("A/2", -5).sell("A", 5, 90).gain("A/2", 1)
    assert t.ledger.stale
    ledger, booked = rebuild(t.entries)
    assert show(booked) == [("unmatched", None, "", ("incomplete_history",))]
    assert ledger.chain.gaps == [Gap(130, 150, "balance_break")] and ledger.totals.realized == 0


def test_a_late_wrapped_sol_gap_affects_the_whole_wallet():
    """Ada's wrapped SOL account had 5 lamports when she sold and 9 when it was next seen. The
    transactions in between are unknown, so no later sale has a result.
    """
    t = Teller().buy("A", 10, 100).sell("A", 5, 90).gain("A", 1)
    first, bought, sold, last = t.entries
    opened = Balance("ada's SOL", WRAPPED_SOL, 9, 0, 5, 0, RENT + 5)
    seen = Balance("ada's SOL", WRAPPED_SOL, 9, 9, 9, RENT + 9, RENT + 9)
    bought = bought._replace(balances=(*bought.balances, opened))
    last = last._replace(balances=(*last.balances, seen))
    ledger, booked = rebuild([first, bought, sold, last])
    assert show(booked) == [("unmatched", None, "", ("incomplete_history",))]
    assert ledger.chain.gaps == [Gap(bought.slot, last.slot, "balance_break")]


def test_a_balance_missing_from_the_opening_is_a_gap():
    """The wallet's beginning was observed at 0, so its account of A can't be older."""
    t = Teller().slip("A", 5).sell("A", 5, 100)
    assert t.ledger.chain.gaps == [Gap(110, 120, "opening_balance")]
    assert t.sale == ("unmatched", None, None, None) and "incomplete_history" in t.last.flags


def test_a_break_is_a_gap_between_the_surrounding_receipts():
    """What arrived in it is a lot of unknown cost."""
    t = Teller().buy("A", 10, 100).slip("A", 3).buy("A", 1, 10).slip(lamports=-3).buy("B", 5, 50)
    assert t.lots("A") == "10@100 3@? 1@10"
    assert t.ledger.chain.gaps == [
        Gap(120, 130, "balance_break"),
        Gap(130, 140, "balance_break"),
    ]


def reopen(mint, teller, play):
    """Play something in another teller, and continue this one with it, at the account of `mint`."""
    other = Teller(lamports=teller.lamports)
    other.slot = teller.slot
    purse, account = play(other).entries[-1].balances
    moved = account._replace(address=f"ada's {mint}")
    teller.slot, teller.lamports = other.slot, other.lamports
    teller.book(other.entries[-1]._replace(balances=(purse, moved)))


def test_an_account_reopened_for_another_mint_breaks_both_histories():
    """It had 10 A, bought for 100, and had 10 B when it was next seen, 4 of which left."""
    t = Teller().buy("C", 10, 100).buy("A", 10, 100)
    reopen("A", t, lambda other: other.slip("B", 10).lose("B", 4))
    assert t.ledger.chain.gaps == [Gap(130, 140, "balance_break")]
    assert (t.lots("A"), t.lots("B")) == ("", "6@?")
    assert (t.last.cost_left, t.last.left) == (100, (("A", 100),))
    assert t.ledger.totals.gaps == 0
    t.held.update({"A/2": 0, "B": 6})
    t.opened |= {"B"}
    assert t.buy("A/2", 1, 10).sell("A/2", 1, 90).sale[1] is None
    assert t.sell("C", 10, 180).sale == ("matched", 80, 180, 100)
    assert t.ledger.reconcile().difference == 0


def test_a_closed_account_may_reopen_for_any_mint():
    """10 A were sold for 180 and the account was closed; then 4 B arrive in one at the same
    address.
    """
    t = Teller().buy("A", 10, 100)
    where = t.ledger.chain.seen["ada's A"]
    t.ledger.chain.seen["ada's A"] = where._replace(amount=0, lamports=0)
    reopen("A", t, lambda other: other.gain("B", 4))
    assert t.ledger.chain.gaps == []


def test_an_account_reopened_for_another_mint_lost_its_balance():
    t = Teller().buy("A", 10, 100)
    reopen("A", t, lambda other: other.gain("B", 4))
    assert t.ledger.chain.gaps == [Gap(120, 130, "balance_break")]
    assert (t.lots("A"), t.lots("B"), t.last.cost_left) == ("", "4@?", 100)


def test_a_doubtful_cost_stays_doubtful_through_swaps_and_orders():
    swapped = Teller().buy("A", 10, 100).slip("A", 3).swap("A", 10, "B", 10).swap("B", 10, "C", 10)
    ordered = Teller().buy("A", 10, 100).slip("A", 3)
    ordered.write("order_open", changes=[("A", -10)], orders=[("e", "A", 10)])
    ordered.write("order_fill", changes=[("C", 10)], orders=[("e", "A", -10)])
    for t in (swapped, ordered):
        assert t.sell("C", 10, 500).sale[1] is None and "incomplete_history" in t.last.flags


def test_sales_have_no_result_until_the_full_history_is_listed():
    t = Teller(Ledger(backfilled=False)).buy("A", 10, 100).sell("A", 10, 120)
    assert t.sale[1] is None and t.last.flags == ("incomplete_history",)


def test_selling_more_than_is_held_has_unknown_origin():
    """Real chains don't allow it; if it happens, nothing breaks."""
    t = Teller().buy("A", 10, 100).write("sell", 150, FEE, [("A", -15)], "A")
    assert t.sale == ("partial", 0, 100, 100) and t.taken() == "10@100 5@?"


def test_a_late_gap_affects_fills_too():
    """Ordered before the gap on A's second account began, filled after it: the missing transactions
    may have used the lots of the fill.
    """
    t = Teller().buy("A", 10, 100)
    t.write("order_open", changes=[("A", -10)], orders=[("e", "A", 10)]).gain("A/2", 1)
    t.write("order_fill", changes=[("B", 3)], orders=[("e", "A", -10)])
    t.slip("A/2", 1).gain("A/2", 1)
    assert t.ledger.stale
    ledger, booked = rebuild(t.sell("B", 3, 70).entries)
    assert show(booked) == [("unmatched", None, "", ("incomplete_history",))]
    assert ledger.chain.gaps == [Gap(140, 160, "balance_break")]


def test_a_restarted_ledger_keeps_its_findings():
    """Of two accounts without transactions, one has been touched since."""
    kept, gone = Opening((0, 1, 0, "a"), "A", 5, 6), Opening((0, 1, 0, "b"), "B", 7, 0)
    ledger = Ledger(backfilled=False, chain=BalanceChain(untouched={"a": kept, "b": gone}))
    ledger.chain.seen["b"] = Seen(9, "B", 7, 0)
    ledger.chain.found["b"] = gone
    ledger.chain.found_gap_starts["A"] = 4
    again = ledger.restart()
    told = again.chain
    assert (again.backfilled, told.untouched, told.expected["b"]) == (False, {"a": kept}, gone)
    assert (told.gap_starts, told.seen) == ({"A": 4}, {})
    assert again.inventories[SOL].lots["A"] == [Lot(kept.rank, None, 5, None, 5, None)]


def test_moves_and_used_lots_agree_in_all_inventories():
    """By slot. The purchase with Q uses no lots of A, and a fill uses the escrow."""
    t = Teller().gain("Q", 100).swap("Q", 50, "A", 10)
    chain = t.ledger.chain
    assert (chain.moved, chain.taken) == ({USDC, "A"}, {USDC: 130})
    t.write("order_open", changes=[("A", -4)], orders=[("e", "A", 4)])
    assert chain.taken == {USDC: 130, "A": 140}
    t.gain("B", 1).write("order_fill", changes=[("C", 3)], orders=[("e", "A", -4)])
    assert (chain.moved, chain.taken) == ({USDC, "A", "B", "C"}, {USDC: 130, "A": 160})
    t.slip("B", 5).gain("B", 1)
    assert chain.taken == {USDC: 130, "A": 160} and chain.broken == {"B"}
