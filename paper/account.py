"""A trader's account: cash, positions and open orders. Pure.

All money moves through `Account.apply`, so it adds up to the lamport: cash = starting cash + net of
closes + cash flow of open positions - fees of orders that filled nothing.
"""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields, replace
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

# In lamports.
STARTING_CASH = 10 * 10**9
# Only results of the same pipeline (strategies, engine and fill model) are compared.
PIPELINE = f"paper/5 {MODEL}"

# Marks a venue whose real fills weren't measured, or differ too much from the model's.
UNPROVEN = "venue_unproven"
# Prices that were missing or impossible while a position was open.
GAPS = ("missing_snapshot", "missing_price", "non_positive_price", STALE_PRICE)
# Marks of a position that exclude its close. The first is given as the reason. The last two occur
# only in accounts that no operator reviews.
EXCLUDING = (*GAPS, UNKNOWN_LIQUIDITY, UNCALIBRATED, UNPROVEN, "price_jump", "clock_skew")


@dataclass(frozen=True, slots=True)
class Position:
    """A trader's holdings of one mint. Costs and proceeds so far are in lamports."""

    # Numbers continue across a trader's account periods.
    number: int
    mint: str
    symbol: str
    decimals: int
    opened_at: int
    # At entry, in USD cents.
    liquidity: int | None
    # The last plausible price.
    price: int
    marked_at: int
    marked_on: int
    high: int
    # In scout intervals.
    held: int = 0
    reduced: bool = False
    raw: int = 0
    bought_raw: int = 0
    mid_bought: int = 0
    mid_sold: int = 0
    slippage: int = 0
    fees: int = 0
    rent: int = 0
    # The sum of its fills' cash flows.
    cash: int = 0
    # Lamports spent on purchases, without rent.
    spent: int = 0
    # The longest of its fills.
    latency_ms: int = 0
    # What the pool would pay for all of it at the mark, in lamports. None before the first mark.
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
        """The mean snapshot price of the purchases; at least 1, because returns divide by it."""
        return max(1, price_of(self.mid_bought, self.bought_raw, self.decimals))

    @property
    def value(self) -> int:
        """The lamports that the pool would pay at the mark, or else the value at its price."""
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
        """Return the position at a new mark. If the previous mark is too old, it is marked as
        stale.

        `worth`: see Position. `held` counts scout intervals, no matter how often held tokens are
        polled.
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
    id: str
    mint: str
    symbol: str
    opened_at: int
    closed_at: int
    reason: str
    # In lamports.
    gross: int
    # `gross` minus all costs.
    net: int
    spent: int
    # Why it isn't eligible, or None.
    excluded: str | None = None


# Closes of one token belong to one cluster if their positions were opened within this time.
ENTRY_WINDOW_MS = 3_600_000


def cluster(closes: Iterable[Close]) -> list[list[Close]]:
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
    """Return why a close isn't compared with others, or None.

    A token that lost its price permanently counts as a total loss: leaving it out would hide
    losses.
    """
    if reviewed:
        return "under_review"
    if pipeline != PIPELINE:
        return "old_pipeline"
    counted = GAPS if reason == "price_gone" else ()
    return next((mark for mark in EXCLUDING if mark in marks and mark not in counted), None)


_read_columns = attrgetter(*[one.name for one in fields(Close)[1:-1]])


def read_close(ident: str, row: Any, marks: Collection[str], *, reviewed: bool) -> Close:
    """Return a Close from a closed position, or a row with its columns and a `pipeline`."""
    excluded = find_exclusion(row.pipeline, marks, row.reason, reviewed=reviewed)
    values = ident, *_read_columns(row), excluded
    return Close(*values)


def public_id(handle: str, noun: str, number: int | str) -> str:
    """Derive an ID from the handle, so that a replay gets the same one."""
    return f"{noun}_{hashlib.sha256(f'{handle}|{noun}|{number}'.encode()).hexdigest()[:24]}"


@dataclass
class Account:
    """A trader's money, in lamports. The numbers are columns of paper.tables.Period."""

    starting_cash: int = STARTING_CASH
    cash: int = STARTING_CASH
    lost_fees: int = 0
    peak: int = STARTING_CASH
    day: int = -1
    day_equity: int = STARTING_CASH
    next_order: int = 1
    next_position: int = 1
    # By mint, and open orders by number.
    positions: dict[str, Position] = field(default_factory=dict)
    orders: dict[int, Order] = field(default_factory=dict)

    @property
    def equity(self) -> int:
        return self.cash + sum(position.value for position in self.positions.values())

    @property
    def free_cash(self) -> int:
        """The cash left in the worst case of all open orders."""
        return self.cash - sum(self._worst_case(order) for order in self.orders.values())

    def _worst_case(self, order: Order) -> int:
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
        """Book a fill or a failed attempt. A position's first fill needs its snapshot."""
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
