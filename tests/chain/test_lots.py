"""Lots and slices: the cost of a part of a lot, and since when it is known."""

import pytest

from chain.ledger.inventory import (
    UNDATED,
    Lot,
    Opening,
    Slice,
    find_lower_median,
    group_slices,
    share,
)


def test_slices_cost_their_share_and_the_last_gets_the_rest():
    """100 * 3 // 7 = 42, twice; the last unit costs 100 - 84 = 16."""
    lot = Lot((1, 1), "x", 7, 100, 7, 100)
    assert [lot.cut(quantity).cost for quantity in (3, 3, 1)] == [42, 42, 16]
    assert (lot.amount, lot.cost, lot.left, lot.left_cost) == (7, 100, 0, 0)


def test_a_slice_of_an_unknown_lot_has_no_cost():
    lot = Lot((1, 1), "x", 7, None, 7, None)
    assert lot.cut(3) == Slice(lot, 3, None, UNDATED)
    assert (lot.left, lot.left_cost) == (4, None)


def test_a_sum_is_divided_by_size_to_the_last_lamport():
    """10 over three equal parts: 3, 3 and the remainder; -10 over 1 and 2: -10 // 3 = -4, and
    -6.
    """
    assert share(10, [1, 1, 1]) == [3, 3, 4]
    assert share(-10, [1, 2]) == [-4, -6]
    assert share(5, [7]) == [5]


@pytest.mark.parametrize(
    "counted, middle",
    [
        ([], None),
        ([(4, 1)], 4),
        ([(1, 1), (5, 1)], 1),
        ([(1, 2), (5, 2)], 1),
        ([(1, 1), (5, 2)], 5),
        ([(1, 1), (2, 1), (3, 1), (9, 2)], 3),
    ],
)
def test_the_lower_median_is_used(counted, middle):
    assert find_lower_median(counted) == middle


def test_untouched_balances_sort_after_touched_ones():
    opening = Opening.untouched("an account", "A", 5, 6)
    assert opening == Opening((0, 2**63, 0, "an account"), "A", 5, 6)
    assert opening.rank > (0, 2**62, 9, "z")


def test_a_view_ignores_costs_from_before_it():
    """A lot from 1_000: its cost is known in a view from then on, but not a millisecond later."""
    lot = Lot((1, 1), "x", 7, 70, 7, 70, since=1_000)
    assert [lot.see_cost(begins) for begins in (UNDATED, 1_000, 1_001)] == [70, 70, None]
    one = lot.cut(3)
    assert one == Slice(lot, 3, 30, 1_000)
    assert [one.see_cost(begins) for begins in (UNDATED, 1_000, 1_001)] == [30, 30, None]
    assert [lot.see_cost(begins) for begins in (1_000, 1_001)] == [40, None]


def test_an_undated_cost_counts_only_over_all_history():
    lot = Lot((1, 1), "x", 7, 70, 7, 70)
    assert (lot.since, lot.see_cost(UNDATED), lot.see_cost(0)) == (UNDATED, 70, None)
    assert lot.cut(7).see_cost(0) is None and lot.left_cost == 0


@pytest.mark.parametrize(
    "amounts, got, groups",
    [
        ((10, 5), 31, [[10], [5]]),
        # 3 * 1 // 10 = 0, 3 * 2 // 10 = 0, with the third 3.
        ((1, 1, 8), 3, [[1, 1, 8]]),
        # 3 * 2 // 10 = 0: the last is merged with the previous one.
        ((8, 2), 3, [[8, 2]]),
        # 4 * 1 // 8 = 0, but two are 4 * 2 // 8 = 1, which is enough.
        ((1, 1, 6), 4, [[1, 1], [6]]),
        ((2, 3), 0, [[2, 3]]),
        ((4,), 0, [[4]]),
    ],
)
def test_slices_below_one_unit_form_one_group(amounts, got, groups):
    slices = [Slice(Lot((1, 1), "x", n, 0, 0, 0), n, 0, UNDATED) for n in amounts]
    told = [[one.amount for one in group] for group in group_slices(slices, got)]
    assert told == groups
