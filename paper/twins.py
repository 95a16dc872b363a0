"""The control of each trader: a twin that enters at random. Pure.

For every purchase that a trader orders, its twin gets a ticket of the same size. It is spent at a
seeded moment of the next scout intervals, on a seeded token out of those that any family may enter,
where the twin's position limit and cool-down allow it. What the twin holds is left by the trader's
own exits, and filled and charged by the same model, in pools that no other trade has moved: nobody
else's fills depend on a twin.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from chain.amounts import sol
from paper import guard
from paper.decisions import MIN_ENTRY, cap_entry, leave, place
from paper.faults import Faults
from paper.market import WINDOW, WINDOW_INTERVALS, CheckedSnapshot, View
from paper.orders import expire_orders, settle_orders
from paper.pools import HOUR_MS, Memory
from paper.positions import update_positions
from paper.recent import Market
from paper.trader import Trader

REASON = "random"


class Ticket(NamedTuple):
    """A purchase that a twin may make: of which order of its trader, how large, from when on (ms)
    and how long.
    """

    number: int
    lamports: int
    due_at: int
    expires_at: int


@dataclass
class Twin:
    """A trader's twin. `player` is the account it plays with, under a handle of its own."""

    player: Trader
    tickets: list[Ticket] = field(default_factory=list)
    # What its own trades did to each pool, by paper.pools.pool_key.
    memories: dict[str, Memory] = field(default_factory=dict)
    # The first order of its trader that it has given no ticket for.
    next_order: int = 1
    # How often each adaptive rule found reason for a pause, and how many lessons there were.
    fired: Counter[str] = field(default_factory=Counter)
    lessons: int = 0
    # Numbers of positions that a review would ask about.
    doubted: set[int] = field(default_factory=set)
    # What a SOL cost when it began and last, in USD cents.
    sol_cents_first: int | None = None
    sol_cents_last: int | None = None
    started_at: int = 0
    # What was stored of it: its state, and what a SOL cost then.
    stored: str | None = None
    sol_cents_stored: int | None = None

    @property
    def mints(self) -> list[str]:
        """What it holds or has ordered."""
        account = self.player.account
        return sorted({*account.positions, *(order.mint for order in account.orders.values())})

    def is_news(self, state: str) -> bool:
        """Tell whether there is something to store: another state, or a SOL 1 % off the stored."""
        before, now = self.sol_cents_stored or 0, self.sol_cents_last or 0
        return state != self.stored or abs(now - before) * 100 >= max(1, before)


def name_twin(handle: str) -> str:
    """Return the handle of a trader's twin, which seeds its chance; no trader can have it."""
    return f"{handle}|random"


def play_twin(
    trader: Trader,
    market: Market,
    seen: Mapping[str, CheckedSnapshot],
    at: int,
    now: int,
    faults: Faults,
    sol_cents: int | None = None,
) -> None:
    """Play a round of a trader's twin, after the trader's own. `sol_cents`: of find_sol_cents."""
    twin = trader.twin
    if twin is None:
        return
    own, beside = twin.player, market.beside(twin.memories)
    own.put_off = trader.put_off
    note_sol(twin, sol_cents, at)
    expire_orders(own, at)
    if own.account.positions or own.account.orders:
        update_positions(own, beside, seen, at, faults)
    settle_orders([own], seen, beside, at, faults)
    leave(own, beside, seen, now, faults)
    issue_tickets(twin, trader, market.interval_ms)
    spend_tickets(twin, trader, beside, seen, at, now)
    note_round(twin, at)


def find_sol_cents(seen: Mapping[str, CheckedSnapshot]) -> int | None:
    """Return what a SOL costs: the middle of what the snapshots of a moment say; None where none
    says it.
    """
    prices = sorted(one.snapshot.sol_cents for one in seen.values() if one.snapshot.sol_cents)
    return prices[len(prices) // 2] if prices else None


def note_sol(twin: Twin, sol_cents: int | None, at: int) -> None:
    """Note what a SOL costs, where that is known."""
    if sol_cents:
        twin.sol_cents_last = sol_cents
        twin.sol_cents_first = twin.sol_cents_first or twin.sol_cents_last
    twin.started_at = twin.started_at or at


def issue_tickets(twin: Twin, trader: Trader, interval_ms: int) -> None:
    """Give the twin a ticket for each purchase that its trader has ordered since."""
    for number in range(twin.next_order, trader.account.next_order):
        order = trader.journal.orders.get(number)
        if order is not None and order.side == "buy":
            due = order.decided_at + draw_delay(twin.player.handle, number) * interval_ms
            expires = due + WINDOW_INTERVALS * interval_ms
            twin.tickets.append(Ticket(number, order.amount, due, expires))
    twin.next_order = trader.account.next_order


def draw_delay(handle: str, number: int) -> int:
    """Return how many scout intervals after its trader's order a ticket is due: 0 to WINDOW."""
    return int.from_bytes(_draw(handle, number, "delay")[:8]) % (WINDOW + 1)


def _draw(handle: str, number: int, about: str) -> bytes:
    return hashlib.sha256(f"{handle}|ticket|{number}|{about}".encode()).digest()


def spend_tickets(
    twin: Twin,
    trader: Trader,
    market: Market,
    seen: Mapping[str, CheckedSnapshot],
    at: int,
    now: int,
) -> None:
    """Order what the tickets that are due allow; those that waited too long are void."""
    waiting = []
    for ticket in twin.tickets:
        if at > ticket.expires_at:
            continue
        if at < ticket.due_at or not spend_ticket(twin, ticket, trader, market, seen, at, now):
            waiting.append(ticket)
    twin.tickets = waiting


def spend_ticket(
    twin: Twin,
    ticket: Ticket,
    trader: Trader,
    market: Market,
    seen: Mapping[str, CheckedSnapshot],
    at: int,
    now: int,
) -> bool:
    """Order a random token for a ticket; return whether there was one."""
    own = twin.player
    limit = guard.positions_for(own.strategy.max_positions, trader.phase)
    if len(twin.mints) >= limit:
        return False
    usable = (mint for mint, checked in seen.items() if checked.flaw is None)
    for mint in sorted(usable, key=lambda one: _draw(own.handle, ticket.number, one)):
        view = market.view(mint)
        lamports = cap_entry(own, view, ticket.lamports)
        if lamports >= MIN_ENTRY and may_enter(own, view, at, now):
            detail = "a random entry, to compare with"
            place(own, market, view.last, "buy", lamports, REASON, detail, sol(lamports))
            return True
    return False


def may_enter(own: Trader, view: View, at: int, now: int) -> bool:
    """Tell whether a twin may enter a token: by what all families refuse, and its cool-down."""
    mint, cooldown = view.token.mint, own.strategy.cooldown_seconds * 1000
    return not (
        view.token.decimals is None
        or mint in own.put_off
        or mint in own.account.positions
        or own.account.order_for(mint) is not None
        or own.strategy.refuse(view, now) is not None
        or any(one.mint == mint and one.closed_at > at - cooldown for one in own.closes)
    )


def note_round(twin: Twin, at: int) -> None:
    """Count what a round's rules and lessons said, and forget what matters no more."""
    own, held = twin.player, twin.mints
    for line in own.journal.entries:
        if line.kind == "pause" and line.facts["what"] == "observed":
            twin.fired[line.facts["rule"]] += 1
        twin.lessons += line.kind == "lesson"
    own.journal.entries.clear()
    twin.doubted |= {
        int(about.removeprefix("position "))
        for reason in own.journal.review_reasons
        for about in reason.key.split(":")[1:2]
        if about.startswith("position ")
    }
    own.journal.review_reasons.clear()
    own.review_keys.clear()
    own.reviewed = False
    own.pauses = [pause for pause in own.pauses if pause.until > at]
    twin.memories = {
        key: memory
        for key, memory in twin.memories.items()
        if memory.last and (memory.last.mint in held or memory.last.at > at - HOUR_MS)
    }
