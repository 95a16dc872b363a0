"""A transaction's result: a sale uses the oldest lots, a swap carries their cost, and non-trades
have no result. Each test shows its arithmetic: `10@100` is ten units that cost 100 lamports in
total, `@?` an unknown cost.
"""

import pytest
from teller import FEE, Teller

from chain.ledger.sales import UNEXPLAINED, Booked, Side


# ---- buys and sales ------------------------------------------------------------------------------
def test_a_buy_is_a_lot():
    t = Teller().buy("A", 10, 100)
    assert t.lots("A") == "10@100" and t.last.status == "not_applicable"
    assert t.ledger.list_positions() == [("A", 10, 0, 100, 0)]


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


# ---- what counts ---------------------------------------------------------------------------------
def test_a_trade_of_unexplained_value_is_in_no_count():
    side = Side("sell", 0, 0)
    assert Booked(None, side).counts
    assert not Booked(None, side, flags=(UNEXPLAINED, "more")).counts
