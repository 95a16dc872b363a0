"""A trader's account: cash, positions and open orders. Pure.

All money moves through `Account.apply`, so it adds up to the lamport: the cash is always the
starting cash, plus the net of the closes, plus the cash flow of the open positions, minus the fees
of orders that filled nothing.
"""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

from paper.fills import (
    MAX_ATTEMPTS,
    MAX_NETWORK_FEE,
    MODEL,
    RENT,
    STALE_PRICE,
    UNCALIBRATED,
    UNKNOWN_LIQUIDITY,
    Fill,
    Order,
)
from paper.market import ALL_SOL, Snapshot, price_of, value_of

# The starting cash in lamports.
STARTING_CASH = 10 * 10**9
# The pipeline changes with the strategies, the engine or the fill model. Only results of the same
# pipeline are compared.
PIPELINE = f"paper/5 {MODEL}"

# Marks a venue whose real fills weren't measured, or differ too much from the model's.
UNPROVEN = "venue_unproven"
# Prices that were missing or impossible while a position was open.
GAPS = ("missing_snapshot", "missing_price", "non_positive_price", STALE_PRICE)
# Marks of a position that exclude its close. The first one is given as the reason. The last two
# occur only in accounts that no operator reviews.
EXCLUDING = (*GAPS, UNKNOWN_LIQUIDITY, UNCALIBRATED, UNPROVEN, "price_jump", "clock_skew")


@dataclass(frozen=True, slots=True)
class Position:
    """A trader's holdings of one mint, with all costs and proceeds so far in lamports. Once nothing
    is left, it becomes a close.
    """

    # Numbers continue across a trader's account periods.
    number: int
    mint: str
    symbol: str
    decimals: int
    opened_at: int
    # The liquidity at entry, in USD cents.
    liquidity: int | None
    # The mark, which is the last plausible price.
    price: int
    # When the mark was taken.
    marked_at: int
    # The ID of the mark's snapshot.
    marked_on: int
    high: int
    # The number of scout intervals since the entry.
    held: int = 0
    # Whether part of it was sold.
    reduced: bool = False
    raw: int = 0
    bought_raw: int = 0
    mid_bought: int = 0
    mid_sold: int = 0
    slippage: int = 0
    fees: int = 0
    rent: int = 0
    # The sum of the cash flows of its fills.
    cash: int = 0
    # The lamports spent on purchases, without rent.
    spent: int = 0
    # The longest delay among its fills.
    latency_ms: int = 0
    # The lamports that the pool would pay for all of it at the mark, or None before the first mark.
    worth: int | None = None
    # The first characters of the pair's address, if known.
    pair: str | None = None
    # A subset of EXCLUDING.
    marks: tuple[str, ...] = ()
    pipeline: str = PIPELINE
    closed_at: int | None = None
    # The closing fill sets this.
    reason: str | None = None

    @property
    def entry_price(self) -> int:
        """Return the mean snapshot price of the purchases. It is at least 1, because returns are
        relative to it.
        """
        return max(1, price_of(self.mid_bought, self.bought_raw, self.decimals))

    @property
    def value(self) -> int:
        """Return the lamports that the pool would pay at the mark. If unknown, return the value at
        the mark's price.
        """
        if self.worth is not None:
            return self.worth
        return min(ALL_SOL, value_of(self.raw, self.price, self.decimals))

    @property
    def gross(self) -> int:
        return self.mid_sold - self.mid_bought

    @property
    def net(self) -> int:
        return self.cash

    def marked(
        self, snapshot: Snapshot, horizon_ms: int, interval_ms: int, worth: int | None = None
    ) -> "Position":
        """Return the position at a new mark.

        If the previous mark is too old, the position is marked as stale. `worth` is the amount that
        the pool would pay. `held` counts scout intervals, no matter how often prices of held tokens
        are requested.
        """
        marks = (
            self.marks
            if snapshot.at - self.marked_at <= horizon_ms
            else tuple(sorted({*self.marks, STALE_PRICE}))
        )
        return replace(
            self,
            price=snapshot.known_price,
            marked_at=snapshot.at,
            marked_on=snapshot.id,
            high=max(self.high, snapshot.known_price),
            held=(snapshot.at - self.opened_at + interval_ms // 2) // interval_ms,
            worth=worth,
            pair=self.pair or snapshot.pair,
            marks=marks,
        )

    def with_fill(self, fill: Fill) -> "Position":
        if fill.side == "buy":
            traded: dict[str, Any] = {
                "raw": self.raw + fill.raw,
                "bought_raw": self.bought_raw + fill.raw,
                "mid_bought": self.mid_bought + fill.mid,
                "spent": self.spent + fill.gross + fill.network_fee,
            }
        else:
            traded = {
                "raw": self.raw - fill.raw,
                "mid_sold": self.mid_sold + fill.mid,
                "reduced": self.reduced or not fill.failed,
            }
        if traded["raw"] == 0:
            traded |= {"closed_at": fill.at, "reason": fill.reason}
        return replace(
            self,
            **traded,
            slippage=self.slippage + fill.slippage,
            fees=self.fees + fill.fees,
            rent=self.rent + fill.rent,
            cash=self.cash + fill.cash,
            latency_ms=max(self.latency_ms, fill.at - fill.decided_at),
            marks=tuple(sorted({*self.marks, *(set(fill.marks) & set(EXCLUDING))})),
        )


@dataclass(frozen=True, slots=True)
class Close:
    """A closed position in the form that rules, lessons and comparisons use."""

    id: str
    mint: str
    symbol: str
    opened_at: int
    closed_at: int
    reason: str
    # The gross result in lamports.
    gross: int
    # The gross result minus all costs.
    net: int
    spent: int
    # Why it isn't eligible, or None.
    excluded: str | None = None


# Closes of one token belong to one cluster if their positions were opened within this time.
ENTRY_WINDOW_MS = 3_600_000


def cluster(closes: Iterable[Close]) -> list[list[Close]]:
    """Group closes of one token whose positions were opened within an hour of the first."""
    clusters: list[list[Close]] = []
    newest: dict[str, list[Close]] = {}
    for close in sorted(closes, key=lambda one: (one.opened_at, one.mint)):
        group = newest.get(close.mint)
        if group is None or close.opened_at - group[0].opened_at > ENTRY_WINDOW_MS:
            group = newest[close.mint] = []
            clusters.append(group)
        group.append(close)
    return clusters


def find_exclusion(
    pipeline: str, marks: Collection[str], reason: str, *, reviewed: bool
) -> str | None:
    """Return why a close doesn't count in any comparison, or None.

    A token that lost its price permanently counts as a total loss, because leaving it out would
    hide losses.
    """
    if reviewed:
        return "under_review"
    if pipeline != PIPELINE:
        return "old_pipeline"
    counted = GAPS if reason == "price_gone" else ()
    return next((mark for mark in EXCLUDING if mark in marks and mark not in counted), None)


_read_columns = attrgetter(*[one.name for one in fields(Close)[1:-1]])


def read_close(ident: str, row: Any, marks: Collection[str], *, reviewed: bool) -> Close:
    """Return a Close from a closed position, or a row with its columns and a `pipeline`.

    `marks` are already parsed. `reviewed` means that the account is under review.
    """
    excluded = find_exclusion(row.pipeline, marks, row.reason, reviewed=reviewed)
    values = ident, *_read_columns(row), excluded
    return Close(*values)


def public_id(handle: str, noun: str, number: int | str) -> str:
    """Derive an id from the handle, so that a replay derives the same id."""
    return f"{noun}_{hashlib.sha256(f'{handle}|{noun}|{number}'.encode()).hexdigest()[:24]}"


class Account:
    """The money of one account period, independent of the market."""

    def __init__(
        self,
        cash: int = STARTING_CASH,
        positions: Iterable[Position] = (),
        orders: Iterable[Order] = (),
        next_order: int = 1,
        next_position: int = 1,
        lost_fees: int = 0,
    ) -> None:
        self.cash, self.lost_fees = cash, lost_fees
        self.positions = {position.mint: position for position in positions}
        # Only open orders are kept.
        self.orders = {order.number: order for order in orders}
        self.next_order, self.next_position = next_order, next_position

    @property
    def equity(self) -> int:
        return self.cash + sum(position.value for position in self.positions.values())

    @property
    def free_cash(self) -> int:
        """Return the cash that is left in the worst case of all open orders."""
        return self.cash - sum(self._worst_case(order) for order in self.orders.values())

    def _worst_case(self, order: Order) -> int:
        """Return the lamports that an open order may still cost: attempts, price and rent."""
        fees = MAX_NETWORK_FEE * max(0, MAX_ATTEMPTS - order.attempts)
        if order.side == "sell":
            return fees
        return fees + order.remaining + (0 if order.mint in self.positions else RENT)

    def order_for(self, mint: str) -> Order | None:
        return next((order for order in self.orders.values() if order.mint == mint), None)

    def place(self, **fields: Any) -> Order:
        order = Order(number=self.next_order, **fields)
        self.orders[order.number] = order
        self.next_order += 1
        return order

    def apply(
        self, order: Order, fill: Fill, snapshot: Snapshot | None
    ) -> tuple[Order, Position | None]:
        """Book a fill or a failed attempt. Return the order, and its position if there is one.

        A position's first fill needs its snapshot.
        """
        position = self.positions.get(fill.mint)
        # These fees are lost, unless a later attempt opens a position and includes them.
        idle = fill.fees if position is None and fill.failed else 0
        order = replace(
            order, attempts=order.attempts + 1, done=order.done + fill.gross, lost=order.lost + idle
        )
        self.orders[order.number] = order
        self.cash += fill.cash
        self.lost_fees += idle
        if idle:
            return order, None
        if position is None:
            assert snapshot is not None
            position = self._open(order, fill, snapshot)
        position = position.with_fill(fill)
        self.positions[fill.mint] = position
        if position.closed_at is not None:
            del self.positions[fill.mint]
        return order, position

    def _open(self, order: Order, fill: Fill, snapshot: Snapshot) -> Position:
        self.lost_fees -= order.lost
        self.next_position += 1
        return Position(
            self.next_position - 1,
            order.mint,
            order.symbol,
            order.decimals,
            fill.at,
            snapshot.liquidity,
            snapshot.known_price,
            snapshot.at,
            snapshot.id,
            snapshot.known_price,
            fees=order.lost,
            cash=-order.lost,
            spent=order.lost,
            pair=snapshot.pair,
        )

    def settle(self, order: Order, state: str) -> Order:
        self.orders.pop(order.number, None)
        return replace(order, state=state)
