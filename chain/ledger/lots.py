"""Lots and slices: what was bought when, at which cost, and what is left. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

# The `since` of an undated cost: earlier than every attachment.
UNDATED = -1
# Above every slot: the rank of an account that never appeared in a transaction.
UNSEEN_SLOT = 2**63


@dataclass(slots=True)
class Lot:
    """Inventory that arrived at once. `cost`: raw units of the money of its queue, None if unknown.
    `origin`: signature of the transaction that brought it, None if none was observed.

    `number` sorts the lots of a mint: (0, ...) opening inventory, in the order of `Opening.rank`;
    (1, n) the n-th that was booked. `since`: when its cost began, UTC ms: the earliest purchase in
    the chain of swaps that carried it here.
    """

    number: tuple[int | str, ...]
    origin: str | None
    amount: int
    cost: int | None
    left: int
    left_cost: int | None
    since: int = UNDATED

    def __lt__(self, other: "Lot") -> bool:
        return self.number < other.number

    def cut(self, quantity: int) -> "Slice":
        """Cut a slice. Its cost is `cost * slice

        amount` of the original lot; the last slice gets the rest.
        """
        self.left -= quantity
        if self.cost is None or self.left_cost is None:
            return Slice(self, quantity, None, UNDATED)
        cost = self.cost * quantity // self.amount if self.left else self.left_cost
        self.left_cost -= cost
        return Slice(self, quantity, cost, self.since)

    def see_cost(self, begins: int) -> int | None:
        """Return the cost of what is left, or None if it is unknown or older than `begins` (UTC
        ms).
        """
        return self.left_cost if self.since >= begins else None


class Slice(NamedTuple):
    """Raw units taken from a lot, their cost (None: unknown), and since when it is known."""

    lot: Lot
    amount: int
    cost: int | None
    since: int

    def see_cost(self, begins: int) -> int | None:
        return self.cost if self.since >= begins else None


@dataclass(frozen=True, slots=True)
class Opening:
    """An account's balance when first seen, at an unknown cost.

    `rank`: (0, slot, place of the transaction in it, address); accounts never seen in a transaction
    come last.
    """

    rank: tuple[int | str, ...]
    mint: str
    amount: int
    decimals: int

    @classmethod
    def untouched(cls, address: str, mint: str, amount: int, decimals: int) -> "Opening":
        return cls((0, UNSEEN_SLOT, 0, address), mint, amount, decimals)


def share(total: int, parts: Sequence[int]) -> list[int]:
    """Split `total` in proportion to `parts`, rounding down (also below zero); the last part gets
    the rest.
    """
    if len(parts) == 1:
        return [total]
    whole = sum(parts)
    given = [total * part // whole for part in parts[:-1]]
    return [*given, total - sum(given)]


def group_slices(slices: Sequence[Slice], amount: int) -> list[list[Slice]]:
    """Group slices, one lot per group. A slice too small for a single unit joins a neighbor."""
    whole, groups = sum(one.amount for one in slices), [[slices[0]]]

    def is_enough(group: list[Slice]) -> bool:
        return amount * sum(one.amount for one in group) // whole > 0

    for one in slices[1:]:
        if is_enough(groups[-1]):
            groups.append([one])
        else:
            groups[-1].append(one)
    if len(groups) > 1 and not is_enough(groups[-1]):
        groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def find_lower_median(counted: Sequence[tuple[int, int]]) -> int | None:
    """Return the median of sorted (value, count) pairs; of an even number the lower one."""
    half, passed = (sum(count for _, count in counted) + 1) // 2, 0
    for value, count in counted:
        passed += count
        if passed >= half:
            return value
    return None
