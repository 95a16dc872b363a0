"""Plays snapshots through the traders: settle what was decided, mark, book what is gone, leave,
enter. Pure: no clock, no disk, no chance.

Everything a round brings about is collected in each trader's journal, in order; who called stores
it. The same snapshots in the same order give the same journal, byte for byte.
"""

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field, replace

from chain.amounts import exact, sol
from paper import guard
from paper.book import PIPELINE, STARTING_CASH, Book, Close, find_exclusion, public_id
from paper.brain import find_new_lessons
from paper.faults import Faults
from paper.fills import (
    MAX_ATTEMPTS,
    NETWORK_FEE,
    RENT,
    STALE_PRICE,
    WAIT_INTERVALS,
    Usage,
    fill,
    is_gone,
    write_off,
)
from paper.market import SKEW_MS, Snapshot, percent
from paper.strategies import ONE, Enter, Exit, Refusal, decide

HOUR, DAY = guard.HOUR, guard.DAY
# a held token so long without a usable price is closed at nothing
GIVEN_UP_MS = DAY
# the same refusal is said once in this time
REFUSAL_MS = HOUR
# ... and this many different ones
MAX_REFUSALS = 10
NO_FEES = "no_cash_for_fees"
# refusals that would be the same for any token
OF_THE_ACCOUNT = {
    "position_limit",
    "no_cash",
    "daily_loss",
}
# lamports no entry may touch: leaving costs fees too
KEPT_CASH = 20_000_000
# of a new position beside its price, at worst
ENTRY_COSTS = RENT + MAX_ATTEMPTS * NETWORK_FEE
# lamports
SMALLEST_ENTRY = 10_000_000
MISSES = {
    "unseen": ("missing_snapshot", "no snapshot came while a position was open"),
    "unpriced": ("missing_price", "no usable price in SOL came while a position was open"),
}
REVIEWED_FLAWS = {
    "price_jump": "the price moved beyond the bound between neighbouring snapshots",
    "non_positive_price": "the price was not finite and positive",
    "clock_skew": "a snapshot's time did not fit the clock or its neighbour",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the diary. kind: decision | fill | refusal | pause | lesson | review | phase."""

    kind: str
    at: int
    # what happened, as display texts; `what` is its sort
    facts: dict
    mint: str | None = None
    # number
    order: int | None = None


@dataclass(frozen=True, slots=True)
class Alarm:
    """A reason for a review: a code and, in the key, what it is about. The same key never opens a
    second one.
    """

    key: str
    code: str
    detail: str
    at: int
    symbol: str | None = None


@dataclass
class Journal:
    entries: list = field(default_factory=list)
    # number -> as it stands
    orders: dict = field(default_factory=dict)
    # (Fill, number of its position or None)
    fills: list = field(default_factory=list)
    # number -> as it stands
    positions: dict = field(default_factory=dict)
    alarms: list = field(default_factory=list)


@dataclass
class Trader:
    """One trader while it is played: its account, its phase, what it remembers."""

    # the order of traders, and of their claims on a pool
    id: int
    handle: str
    strategy: object
    book: Book
    # off | observe | on
    adaptive: str = "observe"
    phase: guard.Phase = guard.Phase()
    # under review or upheld
    reviewed: bool = False
    starting_cash: int = STARTING_CASH
    # highest equity since the phase began
    peak: int = STARTING_CASH
    # UTC day of day_equity
    day: int = -1
    day_equity: int = STARTING_CASH
    # begun and not yet looked back on
    pauses: list = field(default_factory=list)
    # key -> expires_at
    lessons: dict = field(default_factory=dict)
    # of the last two weeks, oldest first
    closes: list = field(default_factory=list)
    # (reason, mint) -> when it was last said
    refused: dict = field(default_factory=dict)
    # keys of all reasons for a review there ever were
    alarmed: set = field(default_factory=set)
    # what the reasons of the open review are about, see topic_of
    asked: set = field(default_factory=set)
    # mints that are left alone: something went wrong with them lately
    put_off: frozenset = frozenset()
    journal: Journal = field(default_factory=Journal)

    @property
    def held(self):
        """The open positions that are played."""
        return [
            position
            for position in self.book.positions.values()
            if position.mint not in self.put_off
        ]

    def say(self, kind, at, mint=None, order=None, **facts):
        self.journal.entries.append(Entry(kind, at, facts, mint, order))

    def alarm(self, code, subject, detail, at, symbol=None, about=None):
        """A reason for a review, once for its subject; while a review is open also once for what it
        is about.

        about: the position or order, where the subject is one of many moments of its trouble.
        """
        key = ":".join(str(part) for part in (code, about, subject) if part is not None)
        if (
            key in self.alarmed
            or about is not None
            and self.reviewed
            and topic_of(key) in self.asked
        ):
            return
        self.alarmed.add(key)
        self.asked.add(topic_of(key))
        self.reviewed = True
        self.journal.alarms.append(Alarm(key, code, detail, at, symbol))
        self.say("review", at, what="under_review", code=code, detail=detail, symbol=symbol)


def topic_of(key):
    """What a reason for a review is about: its key without the moment."""
    return key.rpartition(":")[0]


def play(market, traders, snapshots, now, faults=None):
    """One round: snapshots of one moment. `now` is when the engine sees them; only staleness and
    skew depend on it.

    faults: takes what goes wrong with one trader or token; without it such an exception ends the
    round.
    """
    faults = faults or Faults(raising=True)
    # A snapshot of the future moves nobody's time: what is held would look forgotten for as long.
    at = min(snapshots[0].at, now + SKEW_MS)
    seen = look(market, snapshots, now, faults)
    # of each pool, by all traders together
    usage = defaultdict(Usage)
    for trader in faults.spare(traders):
        with faults.of(trader.id):
            expire_orders(trader, at)
            if trader.book.positions or trader.book.orders:
                watch(trader, market, seen, usage, at, faults)
    settle_orders(faults.spare(traders), seen, usage, at, faults)
    for trader in faults.spare(traders):
        with faults.of(trader.id):
            leave(trader, market, seen, now, faults)
    enter(faults.spare(traders), market, seen, at, now, faults)
    for trader in faults.spare(traders):
        with faults.of(trader.id):
            check_drawdown(trader, at)


def look(market, snapshots, now, faults):
    """{mint: (snapshot, its flaw or None)} of the tokens that are followed. One that cannot be
    judged is as good as none.
    """
    seen = {}
    for one in snapshots:
        with faults.of():
            faults.mint = one.mint
            if one.mint in market.tokens:
                seen[one.mint] = market.push(one, now)
    return seen


# ---- orders on their way -------------------------------------------------------------------------
def expire_orders(trader, at):
    for order in list(trader.book.orders.values()):
        if at > order.expires_at:
            end_order(trader, order, "part_filled" if order.done else "expired", at)


def end_order(trader, order, state, at):
    """The order is over; where nothing of it was filled, the diary says so."""
    trader.journal.orders[order.number] = trader.book.settle(order, state)
    if not order.done:
        trader.say(
            "fill",
            at,
            order.mint,
            order.number,
            what="not_filled",
            side=order.side,
            symbol=order.symbol,
            why=state,
        )


def drop_orders(trader, at, state="restart"):
    """After a restart, what was on its way is taken as not filled."""
    for order in list(trader.book.orders.values()):
        end_order(trader, order, state, at)


def settle_orders(traders, seen, usage, at, faults):
    """Fill what is due, oldest decision first: the earlier one takes the pool's liquidity."""
    due = [
        (order.decided_at, trader.id, order.number, trader, order)
        for trader in traders
        for order in trader.book.orders.values()
        if order.mint in seen and order.due_at <= at and order.mint not in trader.put_off
    ]
    for *_, trader, order in sorted(due, key=lambda row: row[:3]):
        if faults.has(trader.id):
            continue
        with faults.of(trader.id):
            faults.mint = order.mint
            settle_due(trader, order, *seen[order.mint], usage[order.mint], at)


def settle_due(trader, order, snapshot, flaw, usage, at):
    """One due order on a snapshot of its token: filled, refused, or waiting on where there is no
    price.
    """
    if flaw == "missing_price":
        return
    refusal = find_refusal(trader, order, snapshot, flaw)
    if refusal:
        refuse_fill(trader, order, refusal, at)
    else:
        settle(trader, order, snapshot, usage)


def refuse_fill(trader, order, reason, at):
    """The order ends without this fill, and the diary says why."""
    trader.say(
        "refusal",
        at,
        order.mint,
        order.number,
        reason=reason,
        detail=f"the fill was refused: {reason.replace('_', ' ')}",
        symbol=order.symbol,
    )
    end_order(trader, order, "refused", at)


def find_refusal(trader, order, snapshot, flaw):
    """Why a due order may not fill on this snapshot, or None."""
    if order.side == "sell" and order.mint not in trader.book.positions:
        trader.alarm(
            "double_exit",
            order.number,
            "a sale was due for a position that was closed",
            snapshot.at,
            order.symbol,
        )
        return "double_exit"
    return "liquidity_gone" if order.side == "buy" and is_gone(snapshot, None) else flaw


def settle(trader, order, snapshot, usage):
    position = trader.book.positions.get(order.mint)
    done = fill(order, snapshot, usage, first=position is None, last_raw=position and position.raw)
    if done is None:
        return
    if trader.book.cash + done.cash < 0:
        return refuse_fill(trader, order, NO_FEES, snapshot.at)
    usage.take(done)
    order = book_fill(trader, order, done, snapshot)
    if order.rest <= 0:
        end_order(trader, order, "filled", snapshot.at)
    elif order.attempts >= MAX_ATTEMPTS:
        end_order(trader, order, "part_filled" if order.done else "failed", snapshot.at)


def book_fill(trader, order, done, snapshot):
    """Book a fill, remember what changed, say it."""
    order, position = trader.book.apply(order, done, snapshot)
    trader.journal.fills.append((done, position and position.number))
    trader.journal.orders[order.number] = order
    if position is not None:
        trader.journal.positions[position.number] = position
    trader.say("fill", done.at, done.mint, order.number, **tell_fill(order, done, position))
    if position is not None and position.closed_at is not None:
        learn(trader, position)
    return order


def tell_fill(order, done, position):
    """The facts of a fill, as display texts."""
    facts = {
        "side": done.side,
        "symbol": order.symbol,
        "feesSol": sol(done.fees),
        "reason": done.reason,
    }
    if done.failed:
        return {"what": "failed", **facts}
    moved = done.gross if done.side == "buy" else done.mid - done.slippage - done.pool_fee
    facts |= {
        "amount": exact(done.raw, order.decimals),
        "sol": sol(moved),
        "slippageSol": sol(done.slippage),
        "marks": list(done.marks),
    }
    if position.closed_at is None:
        return {"what": "bought" if done.side == "buy" else "reduced", **facts}
    return {
        "what": "closed",
        **facts,
        "resultSol": sol(position.cash),
        "returnPct": percent(position.cash, position.spent),
        "heldMinutes": str((position.closed_at - position.opened_at) // 60_000),
    }


# ---- open positions ------------------------------------------------------------------------------
def watch(trader, market, seen, usage, at, faults):
    """Book what is gone, raise what must be reviewed, mark the rest."""
    for position in trader.held:
        faults.mint = position.mint
        snapshot, flaw = seen.get(position.mint, (None, "unseen"))
        look_at(trader, position, snapshot, flaw, market, usage[position.mint], at)
    for order in trader.book.orders.values():
        faults.mint = order.mint
        if (
            order.mint in seen
            and order.mint not in trader.book.positions
            and order.mint not in trader.put_off
        ):
            raise_flaw(
                trader, *seen[order.mint], order.symbol, f"order {order.number}", order.number
            )


def look_at(trader, position, snapshot, flaw, market, usage, at):
    """One position on one round: gone, marked anew, or without a usable price."""
    if snapshot is not None and flaw != "clock_skew" and is_gone(snapshot, position.liquidity):
        return book_gone(trader, position, snapshot, usage)
    if flaw is None:
        return mark(trader, position, snapshot, market.horizon_ms)
    if snapshot is not None:
        # The way back from a jump is a reason of its own, should the first one have been cleared.
        way = f"{position.marked_on}{'' if (snapshot.price or 0) <= position.price else ' up'}"
        raise_flaw(trader, snapshot, flaw, position.symbol, f"position {position.number}", way)
    return miss(trader, position, snapshot, market, usage, at)


def mark(trader, position, snapshot, horizon_ms):
    marked = trader.book.positions[position.mint] = position.marked(snapshot, horizon_ms)
    trader.journal.positions[marked.number] = marked
    if STALE_PRICE in marked.marks and STALE_PRICE not in position.marks:
        trader.alarm(
            "stale_snapshot",
            snapshot.id,
            "there was no price for a long time before this one",
            snapshot.at,
            position.symbol,
        )


def raise_flaw(trader, snapshot, flaw, symbol, about, subject):
    """A snapshot that can't be believed is a reason for a review: one, however long its price stays
    so.
    """
    if flaw in REVIEWED_FLAWS:
        trader.alarm(flaw, subject, REVIEWED_FLAWS[flaw], snapshot.at, symbol, about)


def miss(trader, position, snapshot, market, usage, at):
    """A held token without a usable price: after three intervals a review, after a day it is closed
    at nothing.

    Time in which no token had a snapshot does not ask the question: the scout was silent, not the
    token.
    """
    if at - max(position.marked_at, market.awake_since) <= market.patience_ms:
        return
    code, detail = MISSES["unseen" if snapshot is None else "unpriced"]
    trader.alarm(
        code, position.marked_on, detail, at, position.symbol, f"position {position.number}"
    )
    if at - position.marked_at > GIVEN_UP_MS:
        last = Snapshot(position.marked_on, position.mint, at, position.price, reserve=0)
        book_gone(trader, position, last, usage, "price_gone")


def book_gone(trader, position, snapshot, usage, reason="liquidity_gone"):
    """Rule 5, before any other: the loss is booked at once, whatever was on its way."""
    order = trader.book.order_for(position.mint)
    if order:
        end_order(trader, order, "cancelled", snapshot.at)
    order = trader.book.place(
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
    )
    done = write_off(order, snapshot, position.price, usage)
    usage.take(done)
    order = book_fill(trader, order, done, snapshot)
    end_order(trader, order, "filled", snapshot.at)


def leave(trader, market, seen, now, faults):
    for position in trader.held:
        faults.mint = position.mint
        snapshot, flaw = seen.get(position.mint, (None, "unseen"))
        if flaw is not None:
            continue
        found = decide(market.view(position.mint), position, trader.strategy, now)
        order = trader.book.order_for(position.mint)
        if type(found) is not Exit or order and order.side == "sell":
            continue
        if trader.book.cash < NETWORK_FEE:
            refuse(
                trader,
                market.tokens[position.mint],
                Refusal(NO_FEES, "not enough cash for one network fee: it cannot be sold"),
                snapshot.at,
            )
            continue
        if order:
            end_order(trader, order, "cancelled", snapshot.at)
        amount = position.raw * found.share // ONE or position.raw
        place(
            trader,
            market,
            snapshot,
            "sell",
            amount,
            found.reason,
            f"leaving: {found.reason.replace('_', ' ')}",
            exact(amount, position.decimals),
        )


def place(trader, market, snapshot, side, amount, reason, detail, shown):
    token, latency = market.tokens[snapshot.mint], trader.strategy.latency_ms
    order = trader.book.place(
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
    )
    trader.journal.orders[order.number] = order
    trader.say(
        "decision",
        snapshot.at,
        token.mint,
        order.number,
        what=side,
        symbol=token.symbol,
        reason=reason,
        detail=detail,
        **({"sol": shown} if side == "buy" else {"amount": shown}),
    )


# ---- entries -------------------------------------------------------------------------------------
def enter(traders, market, seen, at, now, faults):
    """Each distinct set of settings looks at the market once; each trader then takes what it may,
    in an order of its own.
    """
    views = [market.view(mint) for mint, (_, flaw) in seen.items() if flaw is None]
    by_strategy = {}
    for trader in traders:
        with faults.of(trader.id):
            if trader.strategy not in by_strategy:
                by_strategy[trader.strategy] = find_signals(views, trader.strategy, now)
            for view, found in sorted(
                by_strategy[trader.strategy], key=lambda row: rank(trader, row[0].token.mint)
            ):
                faults.mint = view.token.mint
                if faults.mint not in trader.put_off:
                    consider(trader, market, view, found, at)


def find_signals(views, strategy, now):
    return [(view, found) for view in views if (found := find_signal(view, strategy, now))]


def find_signal(view, strategy, now):
    """What a strategy makes of a token, or the exception it raised: that is for each trader who has
    the strategy.
    """
    try:
        return decide(view, None, strategy, now)
    except Exception as error:
        return error


def rank(trader, mint):
    return hashlib.sha256(f"{trader.handle}|{mint}".encode()).digest()


def consider(trader, market, view, found, at):
    """Turn a signal into an order, or a refusal into a line of the diary."""
    mint = view.token.mint
    if isinstance(found, Exception):
        raise found
    if mint in trader.book.positions or trader.book.order_for(mint):
        return
    if type(found) is Enter:
        found = find_limit(trader, view.token, at) or found
    if type(found) is Refusal:
        return refuse(trader, view.token, found, at)
    lamports = size_entry(trader, mint, at)
    if lamports < SMALLEST_ENTRY:
        return refuse(trader, view.token, Refusal("no_cash", "not enough cash for an entry"), at)
    return place(
        trader, market, view.last, "buy", lamports, found.reason, found.detail, sol(lamports)
    )


def find_limit(trader, token, at):
    """What keeps this trader from entering, whatever its strategy says."""
    book, cooldown = (
        trader.book,
        guard.cooldown_for(trader.strategy.cooldown_seconds * 1000, trader.pauses, token.mint, at),
    )
    if token.decimals is None:
        return Refusal("decimals_unknown", "its mint account was not read yet")
    if guard.in_force(trader.pauses, "pause_family", token.mint, at) or guard.in_force(
        trader.pauses, "pause_mint", token.mint, at
    ):
        return Refusal("paused", "entries are paused for now")
    if any(close.mint == token.mint and close.closed_at > at - cooldown for close in trader.closes):
        return Refusal("cooldown", "this token was closed a short while ago")
    if guard.lost_too_much(book.equity, trader.day_equity, trader.phase):
        return Refusal("daily_loss", "the daily loss stop of Guarded Start")
    waiting = sum(
        order.side == "buy" and order.mint not in book.positions for order in book.orders.values()
    )
    if len(book.positions) + waiting >= guard.positions_for(
        trader.strategy.max_positions, trader.phase
    ):
        return Refusal(
            "position_limit", f"{len(book.positions) + waiting} positions are open already"
        )
    return None


def size_entry(trader, mint, at):
    wanted = (
        trader.book.equity
        * guard.size_for(trader.strategy.size_bps, trader.phase, trader.pauses, mint, at)
        // ONE
    )
    return min(wanted, trader.book.free_cash - ENTRY_COSTS - KEPT_CASH)


def refuse(trader, token, refusal, at):
    """Said once an hour, and not endlessly for many tokens."""
    key = refusal_key(refusal.reason, token.mint)
    trader.refused = {key: when for key, when in trader.refused.items() if when > at - REFUSAL_MS}
    if key not in trader.refused and len(trader.refused) < MAX_REFUSALS:
        trader.refused[key] = at
        trader.say(
            "refusal",
            at,
            token.mint,
            reason=refusal.reason,
            detail=refusal.detail,
            symbol=token.symbol,
        )


def refusal_key(reason, mint):
    return reason, None if reason in OF_THE_ACCOUNT else mint


# ---- what a close teaches ------------------------------------------------------------------------
def learn(trader, position):
    """Count a close: progress of the phase, pauses it gives reason to, lessons."""
    at = position.closed_at
    close = summarize(position, public_id(trader.handle, "close", position.number), trader.reviewed)
    trader.closes = [one for one in trader.closes if one.closed_at > at - 2 * guard.LOOK_BACK] + [
        close
    ]
    if close.excluded is None:
        trader.phase = replace(trader.phase, closes=trader.phase.closes + 1)
    if trader.adaptive != "off":
        add_pauses(trader, at)
    for lesson in find_new_lessons(trader.closes, trader.lessons, at):
        trader.lessons[lesson.key] = lesson.expires_at
        trader.say(
            "lesson",
            at,
            what="lesson",
            key=lesson.key,
            text=lesson.text,
            n=lesson.n,
            windowMs=lesson.window_ms,
            closeIds=list(lesson.close_ids),
            expiresAt=lesson.expires_at,
        )


def summarize(position, ident, reviewed=False):
    """The Close that rules and comparisons count."""
    return Close(
        ident,
        position.mint,
        position.symbol,
        position.opened_at,
        position.closed_at,
        position.reason,
        position.gross,
        position.cash,
        position.spent,
        find_exclusion(position.pipeline, position.marks, reviewed),
    )


def add_pauses(trader, at):
    number = len(trader.journal.entries)
    found = guard.find_pauses(
        trader.closes,
        trader.pauses,
        at,
        applied=trader.adaptive == "on",
        ident=lambda rule: public_id(trader.handle, "pause", f"{rule}|{at}|{number}"),
    )
    for pause in found:
        trader.pauses.append(pause)
        trader.say(
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


# ---- days and phases -----------------------------------------------------------------------------
def beat(trader, now):
    """A heartbeat: the day's first equity, days of the phase, pauses that are over, the end of
    Guarded Start.
    """
    if now // DAY != trader.day:
        trader.day, trader.day_equity = now // DAY, trader.book.equity
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


def end_pause(trader, pause, now):
    """Look back on it: in `observe`, how what it would have kept out has ended."""
    trader.pauses.remove(pause)
    covered = guard.look_back_on(pause, trader.closes)
    trader.say(
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


def check_drawdown(trader, at):
    """Equity far under its highest leads back to Guarded Start."""
    equity = trader.book.equity
    trader.peak = max(trader.peak, equity)
    if guard.is_locked(equity, trader.peak, trader.phase):
        change_phase(
            trader,
            "guarded",
            at,
            f"drawdown lock: equity {percent(equity - trader.peak, trader.peak)} % from its"
            " highest",
        )


def change_phase(trader, name, at, why):
    trader.phase = guard.Phase(name, since=at, last_day=trader.phase.last_day)
    trader.peak = trader.book.equity
    trader.say("phase", at, what=name, why=why)


def check_account(trader, at):
    """What changed under an open account: its starting cash, or the pipeline while a position was
    open.
    """
    if trader.starting_cash != STARTING_CASH:
        trader.alarm(
            "starting_cash_changed", STARTING_CASH, "the starting cash is another one now", at
        )
    for position in trader.book.positions.values():
        if position.pipeline != PIPELINE:
            trader.alarm(
                "pipeline_changed",
                f"{position.number}:{PIPELINE}",
                "model or pipeline changed while a position was open",
                at,
                position.symbol,
            )
