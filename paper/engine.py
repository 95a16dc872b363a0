"""One round of paper mode: run all traders on the snapshots of one moment. Pure.

Orders expire, positions are valued or written off, and due orders are filled. Then traders exit and
enter positions, and their random entries (twins) run the same round. Each trader's journal collects
the results for the caller to store. The same snapshots in the same order give the same journal,
byte for byte.
"""

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chain.amounts import exact, sol
from paper import rules
from paper.account import STARTING_CASH, UNPROVEN, Position, public_id, read_close
from paper.brain import find_new_lessons
from paper.fills import (
    MAX_ATTEMPTS,
    MAX_NETWORK_FEE,
    NEVER_TRADED,
    ONE,
    RECORDED_COSTS,
    RENT,
    SLIPPED,
    WAIT_INTERVALS,
    WRITE_OFFS,
    Fill,
    Memory,
    Order,
    Terms,
    carry,
    close_at_nothing,
    fill,
    find_pool,
    is_gone,
    liquidate,
    pool_key,
    quote,
    remember,
    write_off,
)
from paper.market import (
    MISSING_INTERVALS,
    MOVES,
    SILENCE_MS,
    SKEW_MS,
    WINDOW,
    WINDOW_INTERVALS,
    CheckedSnapshot,
    Flow,
    Snapshot,
    Token,
    View,
    find_flaw,
    percent,
)
from paper.player import Faults, JournalFill, Leg, Player, Ticket, refuse
from paper.rules import DAY_MS, Pause
from paper.strategies import STOPS, Copy, Decision, Enter, Exit, Refusal, Strategy, decide

# ---- the market ----------------------------------------------------------------------------------
# A pool forgets simulated trades after this long without another.
FORGOTTEN_MS = 86_400_000
# A silence that ended longer ago is forgotten.
SILENCES_KEPT_MS = 30 * 86_400_000


class Silence(NamedTuple):
    """A period (ms) without a snapshot of any token."""

    start: int
    end: int


class Market:
    """The recent past of every token.

    `awake_since`: when the last silence ended. While no token has snapshots, none is missing.
    """

    def __init__(
        self,
        interval_ms: int,
        tokens: Iterable[Token] = (),
        flows: Mapping[str, tuple[Flow, ...]] | None = None,
    ) -> None:
        self.interval_ms, self.horizon_ms = interval_ms, WINDOW_INTERVALS * interval_ms
        self.windows: dict[str, tuple[Snapshot, ...]] = {}
        self.before: dict[str, Snapshot] = {}
        # Simulated trades by paper.fills.pool_key.
        self.memories: dict[str, Memory] = {}
        # Each twin's own, by handle.
        self.apart_memories: dict[str, dict[str, Memory]] = {}
        self.sol_cents: int | None = None
        self.costs = RECORDED_COSTS
        # Venues whose closes may be compared; None for all that the model supports.
        self.eligible: frozenset[str] | None = None
        # When each token's current quote was first served.
        self.quoted_at: dict[str, int] = {}
        self.awake_since = self.newest_at = 0
        # Oldest first.
        self.silences: list[Silence] = []
        self.follow(tokens, flows or {})

    def follow(self, tokens: Iterable[Token], flows: Mapping[str, tuple[Flow, ...]]) -> None:
        """Replace the tokens and flows. Snapshots of all other tokens are forgotten."""
        self.tokens, self.flows = {token.mint: token for token in tokens}, flows
        self.windows = {
            mint: window for mint, window in self.windows.items() if mint in self.tokens
        }
        self.before = {
            mint: snapshot for mint, snapshot in self.before.items() if mint in self.tokens
        }

    def apart(self, handle: str) -> "Market":
        other = Market.__new__(Market)
        memories = self.apart_memories.setdefault(handle, {})
        other.__dict__ = {**self.__dict__, "memories": memories}
        return other

    def push(self, snapshot: Snapshot, now: int) -> CheckedSnapshot:
        flaw = find_flaw(self.before.get(snapshot.mint), snapshot, now, self.horizon_ms)
        if flaw != "clock_skew":
            self._note_time(snapshot.at)
        if flaw in (None, *MOVES):
            last = self.before.get(snapshot.mint)
            if last is None or last.quote != snapshot.quote or last.pair != snapshot.pair:
                self.quoted_at[snapshot.mint] = snapshot.at
            self.before[snapshot.mint] = snapshot
        if flaw == "pair_changed":
            self.windows.pop(snapshot.mint, None)
        if flaw is None:
            self._extend(snapshot)
        return CheckedSnapshot(snapshot, flaw)

    def _extend(self, snapshot: Snapshot) -> None:
        """Add a snapshot to its window, or replace the last one within the same interval."""
        kept = self.windows.get(snapshot.mint, ())
        if len(kept) > 1 and (kept[-1].at - kept[-2].at) * 4 < self.interval_ms * 3:
            kept = kept[:-1]
        recent = [one for one in kept[1 - WINDOW :] if one.at >= snapshot.at - self.horizon_ms]
        self.windows[snapshot.mint] = (*recent, snapshot)

    def note_sol(self, seen: Iterable[Snapshot]) -> None:
        prices = sorted(one.sol_cents for one in seen if one.sol_cents)
        if prices:
            self.sol_cents = prices[len(prices) // 2]

    def begin(self, at: int, silences: Sequence[Silence]) -> None:
        self.awake_since = self.newest_at = at
        self.silences = list(silences)

    def count_awake_ms(self, since: int, until: int) -> int:
        silent = (min(one.end, until) - max(one.start, since) for one in self.silences)
        return until - since - sum(one for one in silent if one > 0)

    def _note_time(self, at: int) -> None:
        if at - self.newest_at > max(self.patience_ms, SILENCE_MS):
            self.awake_since = at
            if self.newest_at:
                kept = [one for one in self.silences if one.end > at - SILENCES_KEPT_MS]
                self.silences = [*kept, Silence(self.newest_at, at)]
        self.newest_at = max(self.newest_at, at)

    @property
    def patience_ms(self) -> int:
        """How long a held token may lack a usable price before its position is in doubt."""
        return MISSING_INTERVALS * self.interval_ms

    def view(self, mint: str) -> View:
        """Return a strategy's view of a token: only data known by the last snapshot."""
        window = self.windows[mint]
        last = window[-1]
        flows = tuple(
            flow
            for flow in self.flows.get(mint, ())
            if flow.at <= last.at and flow.first_snapshot <= last.id
        )
        return View(self.tokens[mint], window, flows)

    def is_unproven(self, snapshot: Snapshot) -> bool:
        if snapshot.pool:
            # The formula reproduced the fill in the transaction that showed the pool.
            return False
        return self.eligible is not None and (snapshot.venue or "") not in self.eligible

    def list_observed(self, at: int) -> dict[str, CheckedSnapshot]:
        """Return {mint: snapshot from an observed transaction} if no newer price replaced it."""
        return {
            mint: CheckedSnapshot(replace(one, at=at), None)
            for mint, one in self.before.items()
            if one.pool and mint in self.tokens
        }

    # ---- what simulated trades did ---------------------------------------------------------------
    def recall(self, snapshot: Snapshot) -> Memory:
        memory = self.memories.get(pool_key(snapshot), NEVER_TRADED)
        is_old = memory.last is not None and snapshot.at - memory.last.at > FORGOTTEN_MS
        return NEVER_TRADED if is_old else memory

    def remember(self, fill: Fill, snapshot: Snapshot) -> None:
        self.memories[pool_key(snapshot)] = remember(self.recall(snapshot), fill, snapshot)

    def find_worth(self, position: Position, snapshot: Snapshot) -> int:
        terms = Terms(position.decimals, self.tokens[position.mint].transfer_fee_bps)
        return liquidate(position.raw, snapshot, terms, self.recall(snapshot))


class Round(NamedTuple):
    """The market's snapshots at one moment, by mint. `now` is when the engine sees them."""

    market: Market
    seen: Mapping[str, CheckedSnapshot]
    at: int
    now: int
    faults: Faults


# ---- after closes and days -----------------------------------------------------------------------
def record_close(trader: Player, position: Position) -> None:
    ident = public_id(trader.handle, "close", position.number)
    close = read_close(ident, position, position.marks, reviewed=trader.reviewed)
    at = close.closed_at
    recent = [one for one in trader.closes if one.closed_at > at - 2 * rules.LOOK_BACK_MS]
    trader.closes = [*recent, close]
    if close.excluded is None:
        trader.phase = replace(trader.phase, closes=trader.phase.closes + 1)
    if trader.adaptive != "off":
        add_pauses(trader, at)
    # Without random entries for comparison, every lesson is only a pattern.
    control = [close for twin in trader.twins for close in twin.closes]
    for lesson in find_new_lessons(trader.closes, at, control) if trader.twins else ():
        trader.add_line(
            "lesson",
            at,
            what="lesson",
            key=lesson.key,
            text=lesson.text,
            n=lesson.n,
            windowMs=lesson.window_ms,
            closeIds=list(lesson.close_ids),
            expiresAt=lesson.expires_at,
            evidence=lesson.evidence,
        )


def add_pauses(trader: Player, at: int) -> None:
    number = len(trader.journal.entries)
    found = rules.find_pauses(
        trader.closes,
        trader.pauses,
        at,
        applied=trader.adaptive == "on",
        ident=lambda rule: public_id(trader.handle, "pause", f"{rule}|{at}|{number}"),
    )
    for pause in found:
        trader.pauses.append(pause)
        trader.add_line(
            "pause",
            at,
            pause.mint,
            what="begun" if pause.applied else "observed",
            id=pause.id,
            rule=pause.rule,
            effect=pause.effect,
            n=pause.n,
            windowMs=pause.window_ms,
            numbers=pause.numbers,
            until=pause.until,
        )


def run_heartbeat(trader: Player, now: int) -> None:
    """Begin a new day if it has changed, and end expired pauses and Guarded Start."""
    account = trader.account
    if rules.is_another_day(account.day, now):
        account.day, account.day_equity = now // DAY_MS, account.equity
    trader.phase = trader.phase.on_day(now)
    for pause in [one for one in trader.pauses if one.until <= now]:
        end_pause(trader, pause, now)
    if trader.phase.is_over and not trader.reviewed:
        change_phase(
            trader,
            "standard",
            now,
            f"{trader.phase.closes} eligible closes on {trader.phase.days} days: evidence of"
            " volume, not of profit",
        )


def end_pause(trader: Player, pause: Pause, now: int) -> None:
    trader.pauses.remove(pause)
    covered = [close for close in trader.closes if pause.covers(close.mint, close.opened_at)]
    trader.add_line(
        "pause",
        now,
        pause.mint,
        what="ended" if pause.applied else "would_have",
        ends=pause.id,
        rule=pause.rule,
        effect=pause.effect,
        n=len(covered),
        windowMs=pause.until - pause.since,
        resultSol=sol(sum(close.net for close in covered)),
    )


def check_drawdown(trader: Player, at: int) -> None:
    account, equity = trader.account, trader.account.equity
    account.peak = peak = max(account.peak, equity)
    if rules.is_locked(equity, peak, trader.phase):
        why = f"drawdown lock: equity {percent(equity - peak, peak)}% from its peak"
        change_phase(trader, "guarded", at, why)


def change_phase(trader: Player, name: str, at: int, why: str) -> None:
    trader.phase = rules.Phase(name, since=at, last_day=trader.phase.last_day)
    trader.account.peak = trader.account.equity
    trader.add_line("phase", at, what=name, why=why)


def check_account(trader: Player, at: int) -> None:
    """Open a review if the starting cash changed, or the clock was ahead at a valuation."""
    if trader.account.starting_cash != STARTING_CASH:
        trader.open_review(
            "starting_cash_changed", STARTING_CASH, "the starting cash has changed", at
        )
    for position in trader.account.positions.values():
        if position.marked_at > at + SKEW_MS:
            trader.open_review(
                "clock_skew",
                position.marked_on,
                "a position's last price is ahead of the clock, which was set back",
                at,
                position.symbol,
                f"position {position.number}",
            )


# ---- open orders ---------------------------------------------------------------------------------
NO_FEES = "no_cash_for_fees"


def expire_orders(trader: Player, at: int) -> None:
    for order in list(trader.account.orders.values()):
        if at > order.expires_at:
            end_order(trader, order, "part_filled" if order.done else "expired", at)


def end_order(trader: Player, order: Order, state: str, at: int) -> None:
    trader.journal.orders[order.number] = trader.account.settle(order, state)
    if not order.done:
        trader.add_line(
            "fill",
            at,
            order.mint,
            order.number,
            what="not_filled",
            side=order.side,
            symbol=order.symbol,
            why=state,
        )


def drop_orders(trader: Player, at: int, *, all_of_them: bool) -> None:
    """End open orders after a restart: all, or those decided while the clock was ahead."""
    for order in list(trader.account.orders.values()):
        if all_of_them:
            end_order(trader, order, "restart", at)
        elif order.decided_at > at + SKEW_MS:
            end_order(trader, order, "cancelled", at)


def settle_orders(traders: Sequence[Player], moment: Round) -> None:
    """Fill due orders, oldest decision first.

    A token with prices only from observed transactions has no next quote, so its orders fill on the
    last reserves.
    """
    faults, seen = moment.faults, {**moment.seen, **moment.market.list_observed(moment.at)}
    due = [
        (trader, order)
        for trader in traders
        for order in trader.account.orders.values()
        if order.mint in seen and order.due_at <= moment.at and order.mint not in trader.put_off
    ]
    due.sort(key=lambda one: (one[1].decided_at, one[0].id, one[1].number))
    for trader, order in due:
        if faults.has(trader.id):
            continue
        with faults.isolate(trader.id, order.mint):
            settle_due(trader, order, *seen[order.mint], moment.market, moment.at)


# With one of these flaws, an order waits for the next snapshot.
WAITING = ("missing_price", "price_fall")


def settle_due(
    trader: Player, order: Order, snapshot: Snapshot, flaw: str | None, market: Market, at: int
) -> None:
    """Fill or refuse a due order on a snapshot of its token.

    It waits for a price, for the confirmation of a fall, and for a quote first served after the
    order was due.
    """
    is_same = not snapshot.pool and not flaw and market.quoted_at[order.mint] < order.due_at
    if flaw in WAITING or is_same:
        return
    refusal = find_refusal(trader, order, snapshot, flaw)
    if refusal:
        refuse_fill(trader, order, refusal, at)
    else:
        settle(trader, order, snapshot, market)


def refuse_fill(trader: Player, order: Order, reason: str, at: int) -> None:
    trader.add_line(
        "refusal",
        at,
        order.mint,
        order.number,
        reason=reason,
        detail=f"the fill was refused: {reason.replace('_', ' ')}",
        symbol=order.symbol,
    )
    end_order(trader, order, "refused", at)


def find_refusal(trader: Player, order: Order, snapshot: Snapshot, flaw: str | None) -> str | None:
    if order.side == "sell" and order.mint not in trader.account.positions:
        trader.open_review(
            "double_exit",
            order.number,
            "a sale was due for a position that was closed",
            snapshot.at,
            order.symbol,
        )
        return "double_exit"
    return "liquidity_gone" if order.side == "buy" and is_gone(snapshot, None) else flaw


def settle(trader: Player, order: Order, snapshot: Snapshot, market: Market) -> None:
    """Try to fill an order.

    If the pool has nothing left, the order waits. Beyond its slippage limit it ends, and the
    strategy decides again.
    """
    position = trader.account.positions.get(order.mint)
    done = fill(
        order,
        snapshot,
        market.recall(snapshot),
        first=position is None,
        last_raw=position.raw if position else None,
        costs=market.costs,
    )
    if done is None:
        return
    if trader.account.cash + done.cash < 0:
        refuse_fill(trader, order, NO_FEES, snapshot.at)
        return
    order = book_fill(trader, order, done, snapshot, market)
    if SLIPPED in done.marks:
        end_order(trader, order, "failed", snapshot.at)
    elif order.remaining <= 0:
        end_order(trader, order, "filled", snapshot.at)
    elif order.attempts >= MAX_ATTEMPTS:
        end_order(trader, order, "part_filled" if order.done else "failed", snapshot.at)


def book_fill(
    trader: Player, order: Order, done: Fill, snapshot: Snapshot, market: Market
) -> Order:
    order, position = trader.account.apply(order, done, snapshot)
    market.remember(done, snapshot)
    if position is not None and position.closed_at is None:
        if market.is_unproven(snapshot):
            doubt(trader, position.mint, UNPROVEN)
        worth = market.find_worth(position, snapshot)
        position = replace(trader.account.positions[position.mint], worth=worth)
        put_position(trader, position)
    trader.journal.fills.append((done, position.number if position else None))
    trader.journal.orders[order.number] = order
    if position is not None:
        trader.journal.positions[position.number] = position
    facts = describe_fill(trader, order, done, position)
    trader.add_line("fill", done.at, done.mint, order.number, **facts)
    if position is not None and position.closed_at is not None:
        record_close(trader, position)
    return order


def describe_fill(
    trader: Player, order: Order, done: Fill, position: Position | None
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "side": done.side,
        "symbol": order.symbol,
        "feesSol": sol(done.fees),
        "reason": done.reason,
    }
    if done.failed or position is None:
        return {"what": "slipped" if SLIPPED in done.marks else "failed", **facts}
    moved = done.gross if done.side == "buy" else done.mid - done.slippage - done.pool_fee
    facts |= {
        "amount": exact(done.raw, order.decimals),
        "sol": sol(moved),
        "slippageSol": sol(done.slippage),
        "marks": list(done.marks),
    }
    if done.side == "buy":
        share = done.gross * 1_000 // max(1, trader.account.equity)
        plan = {
            "detail": order.detail,
            "stopPct": exact(trader.strategy.stop_bps, 2),
            "sharePct": exact(share, 1),
        }
        return {"what": "bought", **facts, **(plan if order.detail else {})}
    if position.closed_at is None:
        return {"what": "reduced", **facts}
    return {
        "what": "closed",
        **facts,
        "resultSol": sol(position.cash),
        "returnPct": percent(position.cash, position.spent),
        "heldMinutes": str((position.closed_at - position.opened_at) // 60_000),
    }


# ---- open positions ------------------------------------------------------------------------------
# After this long without a usable price, not counting silences, a position is closed at zero.
MAX_UNPRICED_MS = DAY_MS
UNSEEN = (None, None)
REVIEWED_FLAWS = {
    "price_jump": "the price moved more than the limit between adjacent snapshots",
    "clock_skew": "a snapshot's time contradicts the clock or an adjacent snapshot",
}


def update_account(trader: Player, moment: Round) -> None:
    """End expired orders, and value positions or write them off."""
    expire_orders(trader, moment.at)
    faults, seen = moment.faults, moment.seen
    for position in trader.held:
        faults.mint = position.mint
        update_position(trader, position, moment)
    for order in trader.account.orders.values():
        faults.mint = order.mint
        if (
            order.mint in seen
            and order.mint not in trader.account.positions
            and order.mint not in trader.put_off
        ):
            about = f"order {order.number}"
            raise_flaw(trader, *seen[order.mint], order.symbol, about, order.number)


def update_position(trader: Player, position: Position, moment: Round) -> None:
    snapshot, flaw = moment.seen.get(position.mint, UNSEEN)
    if snapshot is not None and flaw != "clock_skew":
        if position.pair and snapshot.pair and snapshot.pair != position.pair:
            moved = replace(position, pair=snapshot.pair, liquidity=snapshot.liquidity)
            put_position(trader, moved)
            # If two pools alternate as the deepest, the price is unknown.
            handle_missing_price(trader, moved, moment)
            return
        if is_gone(snapshot, position.liquidity):
            write_off_position(trader, position, snapshot, moment.market)
            return
    if snapshot is not None and flaw is None:
        market, worth = moment.market, moment.market.find_worth(position, snapshot)
        marked = position.marked(snapshot, market.horizon_ms, market.interval_ms, worth)
        put_position(trader, marked)
        return
    if snapshot is not None:
        # A jump's reversal is a separate reason, because the jump itself may have been cleared.
        way = "" if (snapshot.price or 0) <= position.price else " up"
        about, subject = f"position {position.number}", f"{position.marked_on}{way}"
        raise_flaw(trader, snapshot, flaw, position.symbol, about, subject)
        if flaw == "non_positive_price":
            doubt(trader, position.mint, flaw)
    handle_missing_price(trader, position, moment)


def put_position(trader: Player, position: Position) -> None:
    trader.account.positions[position.mint] = position
    trader.journal.positions[position.number] = position


def raise_flaw(
    trader: Player,
    snapshot: Snapshot,
    flaw: str | None,
    symbol: str,
    about: str,
    subject: int | str,
) -> None:
    """Open one review until the price is plausible again, or exclude the position."""
    if flaw not in REVIEWED_FLAWS:
        return
    if trader.reviewable:
        trader.open_review(flaw, subject, REVIEWED_FLAWS[flaw], snapshot.at, symbol, about)
    elif snapshot.mint in trader.account.positions:
        doubt(trader, snapshot.mint, flaw)


def doubt(trader: Player, mint: str, mark: str) -> None:
    position = trader.account.positions[mint]
    if mark not in position.marks:
        put_position(trader, replace(position, marks=tuple(sorted({*position.marks, mark}))))


def handle_missing_price(trader: Player, position: Position, moment: Round) -> None:
    """Doubt a position after three intervals without a price. After a day, close it at zero."""
    market, at = moment.market, moment.at
    if at - max(position.marked_at, market.awake_since) <= market.patience_ms:
        return
    is_seen = position.mint in moment.seen
    doubt(trader, position.mint, "missing_price" if is_seen else "missing_snapshot")
    if market.count_awake_ms(position.marked_at, at) > MAX_UNPRICED_MS:
        last = Snapshot(position.marked_on, position.mint, at, position.price)
        write_off_position(trader, position, last, market, "price_gone")


def write_off_position(
    trader: Player,
    position: Position,
    snapshot: Snapshot,
    market: Market,
    reason: str = "liquidity_gone",
) -> None:
    """Write a position off before any other rule, and cancel its open order."""
    order = trader.account.order_for(position.mint)
    if order:
        end_order(trader, order, "cancelled", snapshot.at)
    order = trader.account.place(
        handle=trader.handle,
        mint=position.mint,
        symbol=position.symbol,
        decimals=position.decimals,
        side="sell",
        amount=position.raw,
        reason=reason,
        decided_on=snapshot.id,
        decided_at=snapshot.at,
        due_at=snapshot.at,
        expires_at=snapshot.at,
        transfer_bps=market.tokens[position.mint].transfer_fee_bps,
    )
    if reason == "price_gone":
        done = close_at_nothing(order, snapshot, position.price, market.costs)
    else:
        done = write_off(order, snapshot, position.price, market.recall(snapshot), market.costs)
    order = book_fill(trader, order, done, snapshot, market)
    end_order(trader, order, "filled", snapshot.at)


# ---- decisions -----------------------------------------------------------------------------------
# Lamports that entries may not use, because exits also cost fees.
RESERVED_CASH = 20_000_000
# Worst-case lamports for a new position, in addition to its price.
ENTRY_COSTS = RENT + MAX_ATTEMPTS * MAX_NETWORK_FEE
# In lamports.
MIN_ENTRY = 10_000_000
# The largest share of a pool's SOL reserve for one entry.
MAX_POOL_SHARE_BPS = 200


def leave(trader: Player, moment: Round) -> None:
    for position in trader.held:
        moment.faults.mint = position.mint
        snapshot, flaw = moment.seen.get(position.mint, UNSEEN)
        if snapshot is not None and flaw is None:
            leave_position(trader, moment.market, position, snapshot, moment.now)


def leave_position(
    trader: Player, market: Market, position: Position, snapshot: Snapshot, now: int
) -> None:
    """Place the strategy's sale. It replaces a purchase, and a stop also replaces a limit sale."""
    found = decide(market.view(position.mint), position, trader.strategy, now)
    order = trader.account.order_for(position.mint)
    if not isinstance(found, Exit) or (order and not gives_way(order, found)):
        return
    if trader.account.cash < market.costs.p50:
        unpaid = Refusal(NO_FEES, "not enough cash for the network fee, so it can't be sold")
        refuse(trader, market.tokens[position.mint], unpaid, snapshot.at)
        return
    if order:
        end_order(trader, order, "cancelled", snapshot.at)
    amount = position.raw * found.share // ONE or position.raw
    detail = found.reason.replace("_", " ")
    place(trader, market, snapshot, "sell", amount, found.reason, detail)


def gives_way(order: Order, found: Exit) -> bool:
    return order.side == "buy" or (found.reason in STOPS and order.reason not in STOPS)


def place(
    trader: Player,
    market: Market,
    snapshot: Snapshot,
    side: str,
    amount: int,
    reason: str,
    detail: str,
) -> None:
    token, latency = market.tokens[snapshot.mint], trader.strategy.latency_ms
    assert token.decimals is not None
    limit_bps = ONE if reason in STOPS else trader.strategy.slippage_limit_bps
    least = find_least(market, snapshot, side, amount, limit_bps)
    order = trader.account.place(
        handle=trader.handle,
        mint=token.mint,
        symbol=token.symbol,
        decimals=token.decimals,
        side=side,
        amount=amount,
        reason=reason,
        decided_on=snapshot.id,
        decided_at=snapshot.at,
        due_at=snapshot.at + latency,
        expires_at=snapshot.at + latency + WAIT_INTERVALS * market.interval_ms,
        least=least,
        transfer_bps=token.transfer_fee_bps,
        detail=detail if side == "buy" else "",
    )
    trader.journal.orders[order.number] = order
    trader.add_line(
        "decision",
        order.decided_at,
        order.mint,
        order.number,
        what=side,
        symbol=order.symbol,
        reason=reason,
        detail=detail,
        **{"sol": sol(amount)} if side == "buy" else {"amount": exact(amount, token.decimals)},
    )


def find_least(market: Market, snapshot: Snapshot, side: str, amount: int, limit_bps: int) -> int:
    """Return an order's minimum result: what its pool would give now, minus the limit.

    If the pool would fill only a part, that part's rate is used.
    """
    token, memory = market.tokens[snapshot.mint], market.recall(snapshot)
    assert token.decimals is not None
    terms = Terms(token.decimals, token.transfer_fee_bps)
    flow = carry(memory, snapshot, token.decimals)
    found = quote(side, amount, snapshot, terms, memory._replace(blind=None), flow)
    if found is None:
        return 0
    return found.brings(side) * amount * (ONE - limit_bps) // (max(1, found.uses(side)) * ONE)


def enter(traders: Sequence[Player], moment: Round) -> None:
    """Place entries. Each trader has its own order of tokens, so that they compete fairly."""
    market, faults, at = moment.market, moment.faults, moment.at
    views = list_views(moment)
    by_strategy: dict[Strategy, list[Signal]] = {}
    for trader in traders:
        with faults.isolate(trader.id):
            if trader.strategy not in by_strategy:
                trader.strategy.prepare(views)
                by_strategy[trader.strategy] = find_signals(views, trader.strategy, moment.now)
            for view, found in sorted(
                by_strategy[trader.strategy], key=lambda signal: rank(trader, signal[0].token.mint)
            ):
                faults.mint = view.token.mint
                if faults.mint not in trader.put_off:
                    consider(trader, market, view, found, at)
            if isinstance(trader.strategy, Copy) and views:
                refuse_uncached(trader, trader.strategy, market, views[0].last, at)


def list_views(moment: Round) -> list[View]:
    return [moment.market.view(mint) for mint, (_, flaw) in moment.seen.items() if flaw is None]


def refuse_uncached(
    trader: Player, strategy: Copy, market: Market, last: Snapshot, at: int
) -> None:
    for mint, flows in market.flows.items():
        seen = [one for one in flows if one.first_snapshot <= last.id]
        if mint not in market.windows and strategy.is_fresh(seen, at):
            missing = Refusal(
                "not_cached", "there is no cached price, and the copied purchase doesn't show one"
            )
            refuse(trader, Token(mint, mint[:6]), missing, at)


# A decision about a token, or the exception that the strategy raised.
Signal = tuple[View, Decision | Exception]


def find_signals(views: Iterable[View], strategy: Strategy, now: int) -> list[Signal]:
    """List a strategy's decisions at `now` (ms). `consider` raises exceptions per trader."""
    signals: list[Signal] = []
    for view in views:
        try:
            found = decide(view, None, strategy, now)
        except Exception as error:
            # An owner's strategy may raise anything. `consider` raises it again for each trader.
            signals.append((view, error))
            continue
        if found:
            signals.append((view, found))
    return signals


def rank(trader: Player, mint: str) -> bytes:
    """Return the token's sort key. It differs by trader, but not between replays."""
    return hashlib.sha256(f"{trader.handle}|{mint}".encode()).digest()


def consider(
    trader: Player, market: Market, view: View, found: Decision | Exception, at: int
) -> None:
    mint = view.token.mint
    if isinstance(found, Exception):
        raise found
    if mint in trader.account.positions or trader.account.order_for(mint):
        return
    if isinstance(found, Enter):
        found = find_limit(trader, view.token, at) or found
    if isinstance(found, Refusal):
        refuse(trader, view.token, found, at)
    if not isinstance(found, Enter):
        return
    share = rules.size_for(trader.strategy.size_bps, trader.phase, trader.pauses, mint, at)
    lamports = cap_entry(trader, view, trader.account.equity * share // ONE)
    if lamports < MIN_ENTRY:
        refuse(trader, view.token, Refusal("no_cash", "not enough cash for an entry"), at)
        return
    place(trader, market, view.last, "buy", lamports, found.reason, found.detail)


def find_limit(trader: Player, token: Token, at: int) -> Refusal | None:
    account = trader.account
    base_ms = trader.strategy.cooldown_seconds * 1000
    cooldown = rules.cooldown_for(base_ms, trader.pauses, token.mint, at)
    if token.decimals is None:
        return Refusal("decimals_unknown", "its mint account hasn't been read yet")
    if rules.in_force(trader.pauses, "pause_family", token.mint, at) or rules.in_force(
        trader.pauses, "pause_mint", token.mint, at
    ):
        return Refusal("paused", "entries are paused for now")
    if any(close.mint == token.mint and close.closed_at > at - cooldown for close in trader.closes):
        return Refusal("cooldown", "a position in this token was closed too recently")
    if rules.lost_too_much(account.equity, account.day_equity, trader.phase):
        return Refusal("daily_loss", "the daily loss stop of Guarded Start")
    waiting = sum(
        order.side == "buy" and order.mint not in account.positions
        for order in account.orders.values()
    )
    count = len(account.positions) + waiting
    if count >= rules.positions_for(trader.strategy.max_positions, trader.phase):
        noun = "1 position is" if count == 1 else f"{count} positions are"
        return Refusal("position_limit", f"{noun} open already")
    return None


def cap_entry(trader: Player, view: View, wanted: int) -> int:
    token = view.token
    pool = find_pool(view.last, token.decimals) if token.decimals is not None else None
    most = pool.sol * MAX_POOL_SHARE_BPS // ONE if pool else wanted
    return min(wanted, most, trader.account.free_cash - ENTRY_COSTS - RESERVED_CASH)


# ---- random entries ------------------------------------------------------------------------------
TWINS = 3
REASON = "random"


def name_twin(handle: str, number: int) -> str:
    """Return a twin's handle, or for 0 the trader's own."""
    return f"{handle}|random{number}" if number else handle


def play_twins(trader: Player, moment: Round) -> None:
    journal = trader.journal
    news, journal.followed = journal.fills[journal.followed :], len(journal.fills)
    # The same for all twins, and needed only if a ticket is due.
    views = functools.cache(lambda: list_views(moment))
    for twin in trader.twins:
        twin.put_off = trader.put_off
        apart = moment._replace(market=moment.market.apart(twin.handle))
        update_account(twin, apart)
        settle_orders([twin], apart)
        for one in news:
            follow(twin, trader, one, apart.market.interval_ms)
        twin.tickets = [one for one in twin.tickets if not is_over(twin, one, moment.at)]
        twin.tickets = [sell(twin, apart, one) for one in twin.tickets]
        twin.tickets = [buy(twin, apart, views, one) for one in twin.tickets]
        twin.journal.entries = [one for one in twin.journal.entries if one.kind == "pause"]


def follow(twin: Player, trader: Player, done: JournalFill, interval_ms: int) -> None:
    """Give a twin a ticket for its trader's new position, or add the trader's sale to it."""
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
    """Return a delay in scout intervals, from 0 to WINDOW."""
    return int.from_bytes(_draw(handle, number, "delay")[:8]) % (WINDOW + 1)


def _draw(handle: str, number: int, about: str) -> bytes:
    return hashlib.sha256(f"{handle}|ticket|{number}|{about}".encode()).digest()


def is_over(twin: Player, ticket: Ticket, at: int) -> bool:
    if ticket.mint is None or has_missed(twin, ticket):
        return at > ticket.expires_at
    return is_closed(twin, ticket)


def is_closed(twin: Player, ticket: Ticket) -> bool:
    return any(one.mint == ticket.mint and one.opened_at > ticket.ordered_at for one in twin.closes)


def has_missed(twin: Player, ticket: Ticket) -> bool:
    """Return whether a ticket's order ended without a fill, so that it may order again."""
    return not (
        ticket.mint is None
        or ticket.mint in twin.account.positions
        or twin.account.order_for(ticket.mint)
        or is_closed(twin, ticket)
    )


def sell(twin: Player, moment: Round, ticket: Ticket) -> Ticket:
    """Order a ticket's due sale, one interval early, because an order fills on the next quote."""
    position = twin.account.positions.get(ticket.mint or "")
    snapshot, flaw = moment.seen.get(ticket.mint or "", UNSEEN)
    if position is None or snapshot is None or flaw or not ticket.legs:
        return ticket
    leg, *rest = ticket.legs
    early = moment.at - position.opened_at + moment.market.interval_ms < leg.after_ms
    if early or twin.account.order_for(position.mint) or position.mint in twin.put_off:
        return ticket
    amount = position.raw * leg.share // ONE or position.raw
    detail = "because its trader sold"
    place(twin, moment.market, snapshot, "sell", amount, leg.reason, detail)
    # If the rest is sold, this is tried until the position is closed.
    return replace(ticket, legs=tuple(rest)) if rest or leg.share < ONE else ticket


def buy(
    twin: Player, moment: Round, find_views: Callable[[], list[View]], ticket: Ticket
) -> Ticket:
    """Order a random token for a due ticket, if a pool allows the ticket's size."""
    at = moment.at
    if at < ticket.due_at or (ticket.mint is not None and not has_missed(twin, ticket)):
        return ticket
    may = [view for view in find_views() if may_enter(twin, view, at, moment.now)]
    sizes = {view.token.mint: cap_entry(twin, view, ticket.lamports) for view in may}
    most = max(sizes.values(), default=0)
    if most < MIN_ENTRY:
        return ticket
    mint = min(
        (mint for mint, lamports in sizes.items() if lamports == most),
        key=lambda one: _draw(twin.handle, ticket.position, one),
    )
    detail = "a random entry, for comparison"
    place(twin, moment.market, moment.seen[mint].snapshot, "buy", most, REASON, detail)
    return replace(ticket, mint=mint, ordered_at=at)


def may_enter(twin: Player, view: View, at: int, now: int) -> bool:
    mint, cooldown = view.token.mint, twin.strategy.cooldown_seconds * 1000
    return not (
        view.token.decimals is None
        or mint in twin.put_off
        or mint in twin.account.positions
        or twin.account.order_for(mint) is not None
        or twin.strategy.refuse(view, now) is not None
        or any(one.mint == mint and one.closed_at > at - cooldown for one in twin.closes)
    )


# ---- a round -------------------------------------------------------------------------------------
def play(
    market: Market,
    traders: Sequence[Player],
    snapshots: Sequence[Snapshot],
    now: int,
    faults: Faults | None = None,
) -> None:
    """Play one round on snapshots taken at one moment.

    `now` only decides whether they are stale or ahead of the clock. `faults` collects exceptions by
    trader and token; without it, they are raised.
    """
    faults = faults or Faults(raising=True)
    # A snapshot from the future doesn't advance the time, or positions would seem to have no price.
    at = min(snapshots[0].at, now + SKEW_MS)
    moment = Round(market, check_snapshots(market, snapshots, now, faults), at, now, faults)
    for trader in faults.skip_faulty(traders):
        with faults.isolate(trader.id):
            update_account(trader, moment)
    settle_orders(faults.skip_faulty(traders), moment)
    for trader in faults.skip_faulty(traders):
        with faults.isolate(trader.id):
            leave(trader, moment)
    enter(faults.skip_faulty(traders), moment)
    # A copy without delay fills right after the transaction.
    settle_orders(faults.skip_faulty(traders), moment._replace(seen={}))
    for trader in faults.skip_faulty(traders):
        with faults.isolate(trader.id):
            check_drawdown(trader, at)
            play_twins(trader, moment)


def check_snapshots(
    market: Market, snapshots: Sequence[Snapshot], now: int, faults: Faults
) -> dict[str, CheckedSnapshot]:
    seen: dict[str, CheckedSnapshot] = {}
    for one in snapshots:
        with faults.isolate(mint=one.mint):
            if one.mint in market.tokens:
                seen[one.mint] = market.push(one, now)
    market.note_sol(one.snapshot for one in seen.values())
    return seen
