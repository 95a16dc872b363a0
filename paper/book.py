"""One trader's account: cash, positions and orders on their way. All money moves through
`Book.apply`, so it adds up to the lamport.

What always holds:  cash == starting_cash + net of the closes + cash flow of the open positions -
fees of orders that came to nothing.
"""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from paper.fills import (
    MAX_ATTEMPTS,
    MODEL,
    NETWORK_FEE,
    RENT,
    STALE_PRICE,
    UNKNOWN_LIQUIDITY,
    Fill,
    Order,
)
from paper.market import ALL_SOL, Snapshot, price_of, value_of

# lamports
STARTING_CASH = 10 * 10**9
# changes with the strategies, the engine or the fill model: results are compared within one
PIPELINE = f"paper/2 {MODEL}"


@dataclass(frozen=True, slots=True)
class Position:
    """What a trader holds, or held, of one mint, with all it cost and brought so far in lamports.
    With raw 0 it is a close.
    """

    # of this trader, over all its account periods
    number: int
    mint: str
    symbol: str
    decimals: int
    opened_at: int
    # at entry, USD cents
    liquidity: int | None
    # the mark: last price that could be believed,
    price: int
    # ... when that was
    marked_at: int
    # ... and the id of its snapshot
    marked_on: int
    # highest mark
    high: int
    # snapshots since the entry
    held: int = 0
    # a part of the profit was taken
    reduced: bool = False
    raw: int = 0
    bought_raw: int = 0
    mid_bought: int = 0
    mid_sold: int = 0
    slippage: int = 0
    fees: int = 0
    rent: int = 0
    # sum of the fills' effect on the cash
    cash: int = 0
    # lamports that went into buys, rent apart
    spent: int = 0
    # the longest of its fills
    latency_ms: int = 0
    # liquidity_unknown, stale_price
    marks: tuple[str, ...] = ()
    pipeline: str = PIPELINE
    closed_at: int | None = None
    # of the closing fill
    reason: str | None = None

    @property
    def entry_price(self) -> int:
        """Mean price of the buys, as the snapshots had it; never 0, since what moved from it is
        asked for.
        """
        return max(1, price_of(self.mid_bought, self.bought_raw, self.decimals))

    @property
    def value(self) -> int:
        """Lamports at the mark, before any cost of selling."""
        return min(ALL_SOL, value_of(self.raw, self.price, self.decimals))

    @property
    def gross(self) -> int:
        return self.mid_sold - self.mid_bought

    def marked(self, snapshot: Snapshot, horizon_ms: int) -> "Position":
        """With a new mark; one that comes too long after the last is noted."""
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
            held=self.held + 1,
            marks=marks,
        )

    def after(self, fill: Fill) -> "Position":
        """The position with a fill, or a failed attempt, booked into it."""
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
            marks=tuple(sorted({*self.marks, *fill.marks})),
        )


@dataclass(frozen=True, slots=True)
class Close:
    """What rules and lessons count of a closed position."""

    id: str
    mint: str
    symbol: str
    opened_at: int
    closed_at: int
    reason: str
    # lamports
    gross: int
    # gross less all costs
    net: int
    spent: int
    # why it is not eligible
    excluded: str | None = None


def find_exclusion(pipeline: str, marks: Collection[str], reviewed: bool) -> str | None:
    """Why a close is not eligible for any comparison, or None."""
    if reviewed:
        return "under_review"
    if pipeline != PIPELINE:
        return "old_pipeline"
    return next((mark for mark in (STALE_PRICE, UNKNOWN_LIQUIDITY) if mark in marks), None)


def public_id(handle: str, noun: str, number: int | str) -> str:
    """An id that a replay makes again: from the handle, never from chance."""
    return f"{noun}_{hashlib.sha256(f'{handle}|{noun}|{number}'.encode()).hexdigest()[:24]}"


class Book:
    """The money of one account period. Knows no market and decides nothing."""

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
        # open ones only
        self.orders = {order.number: order for order in orders}
        self.next_order, self.next_position = next_order, next_position

    @property
    def equity(self) -> int:
        return self.cash + sum(position.value for position in self.positions.values())

    @property
    def free_cash(self) -> int:
        """What no order on its way can use: the worst case of each is taken off."""
        return self.cash - sum(self._worst_case(order) for order in self.orders.values())

    def _worst_case(self, order: Order) -> int:
        """Lamports an open order may still cost: all its attempts, and what a buy pays and puts
        down for rent.
        """
        fees = NETWORK_FEE * max(0, MAX_ATTEMPTS - order.attempts)
        if order.side == "sell":
            return fees
        return fees + order.rest + (0 if order.mint in self.positions else RENT)

    def order_for(self, mint: str) -> Order | None:
        return next((order for order in self.orders.values() if order.mint == mint), None)

    def place(self, **fields: Any) -> Order:
        """A new open order with the next number."""
        order = Order(number=self.next_order, **fields)
        self.orders[order.number] = order
        self.next_order += 1
        return order

    def apply(
        self, order: Order, fill: Fill, snapshot: Snapshot | None
    ) -> tuple[Order, Position | None]:
        """Book a fill or failed attempt; (the order, the position or None) as they stand then. The
        first fill of a position needs its snapshot.
        """
        position = self.positions.get(fill.mint)
        # paid for nothing, unless a later attempt opens a position
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
        position = position.after(fill)
        self.positions[fill.mint] = position
        if position.closed_at is not None:
            del self.positions[fill.mint]
        return order, position

    def _open(self, order: Order, fill: Fill, snapshot: Snapshot) -> Position:
        """A position that begins with what the failed attempts of its order cost."""
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
        )

    def settle(self, order: Order, state: str) -> Order:
        """The order is over, for the reason `state`."""
        self.orders.pop(order.number, None)
        return replace(order, state=state)
