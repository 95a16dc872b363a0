"""What a ledger is made of: lots and slices of them, opening inventory, gaps, booked entries."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chain.reading.entries import Entry

# The flag of a trade of which nobody can say that its value came from the venue: it has no price.
UNEXPLAINED = "value_unexplained"

# The flag of an entry of a ledger in a quote (chain.ledger.quote_book): its tokens were paid for in
# something else. It is in no stored row.
PAID_ELSEWHERE = "paid_elsewhere"

# What a lot was paid for in, where that was SOL and its ledger is in something else.
PAID_IN_SOL = "SOL"

# above every slot: the rank of an account that was never seen
UNSEEN_SLOT = 2**63


@dataclass(slots=True)
class Lot:
    """Inventory that arrived at once. `cost` None: unknown. `origin`: signature of the receipt that
    brought it; None where none was observed.

    `number` sorts the lots of a mint: (0, ...) opening inventory, in the order of `Opening.rank`;
    (1, n) the n-th that was booked. `time`: Unix seconds since when this mint was held.
    `paid_in`: a quote's mint, or PAID_IN_SOL, where it was paid for in what is not the money of its
    ledger; empty: in that money, or nobody knows.
    """

    number: tuple[int | str, ...]
    origin: str | None
    amount: int
    cost: int | None
    left: int
    left_cost: int | None
    time: int | None = None
    paid_in: str = ""

    def __lt__(self, other: "Lot") -> bool:
        return self.number < other.number

    def cut(self, quantity: int) -> "Slice":
        """A Slice of this lot: `cost * slice // amount` of the lot as it came; the last slice gets
        what is left.
        """
        self.left -= quantity
        if self.cost is None or self.left_cost is None:
            return Slice(self, quantity, None)
        cost = self.cost * quantity // self.amount if self.left else self.left_cost
        self.left_cost -= cost
        return Slice(self, quantity, cost)


class Slice(NamedTuple):
    """A part that was taken of a lot: raw units, and their cost in lamports, None: unknown."""

    lot: Lot
    amount: int
    cost: int | None


@dataclass(frozen=True, slots=True)
class Opening:
    """What an account held when it was first seen. It was there from the beginning, before all that
    was observed; its cost is unknown.

    `rank`: (0, slot, place of the receipt in it, address) of that first sight; an account that no
    receipt touches comes after all that one does.
    """

    rank: tuple[int | str, ...]
    mint: str
    amount: int
    decimals: int

    @classmethod
    def untouched(cls, address: str, mint: str, amount: int, decimals: int) -> "Opening":
        """What a node says that an account holds which no known receipt touches."""
        return cls((0, UNSEEN_SLOT, 0, address), mint, amount, decimals)


@dataclass(frozen=True)
class Gap:
    """Slots between two receipts around a break in the chain of balances (closed interval), and
    why.
    """

    from_slot: int
    to_slot: int
    reason: str


class Booked(NamedTuple):
    """What the ledger made of one entry; lamports or raw units, None where unknown.

    `status`: matched | partial | unmatched | not_applicable. `lots`: ((origin signature or None,
    raw amount, lamports or None), ...) a sale took. `unmatched_proceeds`: what it brought for lots
    of unknown cost. `cost_left`: known cost of lots that left without a sale. `other`: lamports of
    a trade that went into no cost, proceeds or result. `carried`: lots that took over the cost of
    what was given for them. `sold`: the mint of a sale or a round trip, which was held for
    `holding` seconds; `left`: (mint, its part of `cost_left`)...; `emptied`: mints of which
    nothing is held any more.
    """

    entry: Entry
    flags: tuple[str, ...] = ()
    status: str = "not_applicable"
    result: int | None = None
    proceeds: int | None = None
    cost: int | None = None
    matched: int = 0
    unmatched: int = 0
    lots: tuple[tuple[str | None, int, int | None], ...] = ()
    unmatched_proceeds: int = 0
    cost_left: int = 0
    other: int = 0
    carried: int = 0
    sold: str | None = None
    holding: int | None = None
    left: tuple[tuple[str, int], ...] = ()
    emptied: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """Is it in totals and counts? A trade whose value is unexplained is in none."""
        return UNEXPLAINED not in self.flags


class Seen(NamedTuple):
    """The last that a receipt said of an own account."""

    slot: int
    mint: str | None
    amount: int
    lamports: int

    @property
    def is_open(self) -> bool:
        return bool(self.amount or self.lamports)

    def joins(self, mint: str | None, amount: int, lamports: int) -> bool:
        """Is this what the account still held? Closed, it may be opened for any mint."""
        is_same = self.mint == mint or not self.is_open
        return is_same and (self.amount, self.lamports) == (amount, lamports)


def share(total: int, parts: list[int]) -> list[int]:
    """`total` over `parts` by size, rounded down (also below zero); the last gets what is left."""
    if len(parts) == 1:
        return [total]
    whole = sum(parts)
    given = [total * part // whole for part in parts[:-1]]
    return [*given, total - sum(given)]


def find_holding_seconds(slices: Iterable[Slice], sold_at: int | None) -> int | None:
    """How long the middle unit of a sale's slices of known cost was held, of an even number the
    shorter; None where no time is known. `sold_at`: Unix seconds.
    """
    if sold_at is None:
        return None
    held = [
        (max(0, sold_at - lot.time), amount)
        for lot, amount, cost in slices
        if cost is not None and lot.time is not None
    ]
    return held[0][0] if len(held) == 1 else find_lower_median(sorted(held))


def find_lower_median(counted: Sequence[tuple[int, int]]) -> int | None:
    """The middle of values that are counted as (value, how often), in order; of an even number the
    lower of the two. None without any.
    """
    half, passed = (sum(count for _, count in counted) + 1) // 2, 0
    for value, count in counted:
        passed += count
        if passed >= half:
            return value
    return None
