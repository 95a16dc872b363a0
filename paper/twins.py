"""Random entries to compare a trader with: three hidden accounts (twins) per trader. Pure.

For each position that a trader opens, each twin gets a ticket of the same size. The twin spends it
at a seeded moment within the next scout intervals, on a seeded token that any family may enter. It
keeps the position as long as its trader kept its own, and sells in the same parts. It fills and
pays like its trader, in pools that no other trade has moved, so that no other fill depends on it.
"""

import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from chain.amounts import exact, sol
from paper.decisions import MIN_ENTRY, cap_entry, place
from paper.faults import Faults
from paper.fills import ONE, WRITE_OFFS
from paper.market import WINDOW, WINDOW_INTERVALS, CheckedSnapshot, View
from paper.orders import expire_orders, settle_orders
from paper.positions import update_positions
from paper.recent import Market
from paper.trader import JournalFill, Trader

TWINS = 3
REASON = "random"


@dataclass(frozen=True, slots=True)
class Leg:
    """A sale by a trader: how long after its purchase (ms), which share of the position in basis
    points, and why.
    """

    after_ms: int
    share: int
    reason: str


@dataclass(frozen=True, slots=True)
class Ticket:
    """A purchase that a twin may make, as large as a position that its trader opened."""

    # Number of that position.
    position: int
    lamports: int
    due_at: int
    expires_at: int
    # What the trader sold of it and the twin has yet to sell.
    legs: tuple[Leg, ...] = ()
    # What the twin ordered, and when.
    mint: str | None = None
    ordered_at: int = 0


def name_twin(handle: str, number: int) -> str:
    """Return the handle of a trader's twin, which seeds its chance; no trader can have it."""
    return f"{handle}|random{number}"


def play_twins(
    trader: Trader,
    market: Market,
    seen: Mapping[str, CheckedSnapshot],
    at: int,
    now: int,
    faults: Faults,
) -> None:
    """Play a round of a trader's twins, after the trader's own."""
    journal = trader.journal
    news, journal.followed = journal.fills[journal.followed :], len(journal.fills)
    # The same for all twins, and needed only if a ticket is due.
    usable = [mint for mint, checked in seen.items() if checked.flaw is None]
    views = functools.cache(lambda: [market.view(mint) for mint in usable])
    for twin in trader.twins:
        twin.put_off = trader.put_off
        apart = market.apart(twin.handle)
        expire_orders(twin, at)
        if twin.account.positions or twin.account.orders:
            update_positions(twin, apart, seen, at, faults)
        settle_orders([twin], seen, apart, at, faults)
        for one in news:
            follow(twin, trader, one, market.interval_ms)
        twin.tickets = [one for one in twin.tickets if not is_over(twin, one, at)]
        twin.tickets = [sell(twin, apart, seen, one, at) for one in twin.tickets]
        twin.tickets = [buy(twin, apart, seen, views, one, at, now) for one in twin.tickets]
        twin.journal.entries = [one for one in twin.journal.entries if one.kind == "pause"]


def follow(twin: Trader, trader: Trader, done: JournalFill, interval_ms: int) -> None:
    """Give a twin a ticket for a position that its trader opened, or note what the trader sold."""
    fill, number = done
    if fill.failed or number is None or not fill.raw:
        return
    held = trader.journal.positions[number]
    if fill.side == "buy":
        if held.bought_raw == fill.raw:
            due = fill.at + draw_delay(twin.handle, number) * interval_ms
            lamports = trader.journal.orders[fill.order].amount
            expires = due + WINDOW_INTERVALS * interval_ms
            twin.tickets.append(Ticket(number, lamports, due, expires))
        return
    share = fill.raw * ONE // (held.raw + fill.raw) if held.raw else ONE
    reason = "stop" if fill.reason in WRITE_OFFS else fill.reason
    leg = Leg(fill.at - held.opened_at, share, reason)
    twin.tickets = [
        replace(one, legs=(*one.legs, leg)) if one.position == number else one
        for one in twin.tickets
    ]


def draw_delay(handle: str, number: int) -> int:
    """Return how many scout intervals after its trader's purchase a ticket is due: 0 to WINDOW."""
    return int.from_bytes(_draw(handle, number, "delay")[:8]) % (WINDOW + 1)


def _draw(handle: str, number: int, about: str) -> bytes:
    return hashlib.sha256(f"{handle}|ticket|{number}|{about}".encode()).digest()


def is_over(twin: Trader, ticket: Ticket, at: int) -> bool:
    """Tell whether a ticket has expired, or what was bought with it is sold."""
    if ticket.mint is None or has_missed(twin, ticket):
        return at > ticket.expires_at
    return is_closed(twin, ticket)


def is_closed(twin: Trader, ticket: Ticket) -> bool:
    """Tell whether what a twin bought with a ticket is sold."""
    return any(one.mint == ticket.mint and one.opened_at > ticket.ordered_at for one in twin.closes)


def has_missed(twin: Trader, ticket: Ticket) -> bool:
    """Tell whether the order of a ticket ended without a fill, so that it may order again."""
    return not (
        ticket.mint is None
        or ticket.mint in twin.account.positions
        or twin.account.order_for(ticket.mint)
        or is_closed(twin, ticket)
    )


def sell(
    twin: Trader, market: Market, seen: Mapping[str, CheckedSnapshot], ticket: Ticket, at: int
) -> Ticket:
    """Order the sale that a ticket has due, and return what is left of it.

    Decided an interval early, since an order fills on the next quote.
    """
    position = twin.account.positions.get(ticket.mint or "")
    snapshot, flaw = seen.get(ticket.mint or "", (None, None))
    if position is None or snapshot is None or flaw or not ticket.legs:
        return ticket
    leg, *rest = ticket.legs
    early = at - position.opened_at + market.interval_ms < leg.after_ms
    if early or twin.account.order_for(position.mint) or position.mint in twin.put_off:
        return ticket
    amount = position.raw * leg.share // ONE or position.raw
    shown = exact(amount, position.decimals)
    place(twin, market, snapshot, "sell", amount, leg.reason, "as its trader sold", shown)
    # A sale of the rest is tried until the position is closed.
    return replace(ticket, legs=tuple(rest)) if rest or leg.share < ONE else ticket


def buy(
    twin: Trader,
    market: Market,
    seen: Mapping[str, CheckedSnapshot],
    find_views: Callable[[], list[View]],
    ticket: Ticket,
    at: int,
    now: int,
) -> Ticket:
    """Order a random token for a ticket that is due, of the ticket's size where a pool allows it,
    and return the ticket.
    """
    if at < ticket.due_at or (ticket.mint is not None and not has_missed(twin, ticket)):
        return ticket
    may = [view for view in find_views() if may_enter(twin, view, at, now)]
    sizes = {view.token.mint: cap_entry(twin, view, ticket.lamports) for view in may}
    most = max(sizes.values(), default=0)
    if most < MIN_ENTRY:
        return ticket
    mint = min(
        (mint for mint, lamports in sizes.items() if lamports == most),
        key=lambda one: _draw(twin.handle, ticket.position, one),
    )
    detail = "a random entry, to compare with"
    snapshot = seen[mint].snapshot
    place(twin, market, snapshot, "buy", most, REASON, detail, sol(most))
    return replace(ticket, mint=mint, ordered_at=at)


def may_enter(twin: Trader, view: View, at: int, now: int) -> bool:
    """Tell whether a twin may enter a token: by what all families refuse, and its cool-down."""
    mint, cooldown = view.token.mint, twin.strategy.cooldown_seconds * 1000
    return not (
        view.token.decimals is None
        or mint in twin.put_off
        or mint in twin.account.positions
        or twin.account.order_for(mint) is not None
        or twin.strategy.refuse(view, now) is not None
        or any(one.mint == mint and one.closed_at > at - cooldown for one in twin.closes)
    )
