"""What closes and days change about a trader: lessons, pauses, the day's first equity, Guarded
Start. Pure.
"""

from dataclasses import replace

from chain.amounts import sol
from paper import guard
from paper.account import STARTING_CASH, Close, Position, find_exclusion, public_id
from paper.brain import find_new_lessons
from paper.guard import DAY_MS, Pause
from paper.market import SKEW_MS, percent
from paper.trader import Trader


def record_close(trader: Trader, position: Position) -> None:
    """Count a close, which advances the phase and may begin pauses and lessons."""
    close = summarize(position, public_id(trader.handle, "close", position.number), trader.reviewed)
    at = close.closed_at
    recent = [one for one in trader.closes if one.closed_at > at - 2 * guard.LOOK_BACK_MS]
    trader.closes = [*recent, close]
    if close.excluded is None:
        trader.phase = replace(trader.phase, closes=trader.phase.closes + 1)
    if trader.adaptive != "off":
        add_pauses(trader, at)
    # Without random entries to compare with, every lesson is a pattern.
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


def summarize(position: Position, ident: str, reviewed: bool = False) -> Close:
    """Return a closed position as rules and comparisons count it."""
    assert position.closed_at is not None and position.reason is not None
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
        find_exclusion(position.pipeline, position.marks, position.reason, reviewed=reviewed),
    )


def add_pauses(trader: Trader, at: int) -> None:
    """Begin the pauses that the newest close gives reason to, and note them in the diary."""
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


def run_heartbeat(trader: Trader, now: int) -> None:
    """Note a new day's first equity, count the days of the phase, and end pauses and Guarded Start
    whose time has come.
    """
    if guard.is_another_day(trader.day, now):
        trader.day, trader.day_equity = now // DAY_MS, trader.account.equity
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


def end_pause(trader: Trader, pause: Pause, now: int) -> None:
    """End a pause, and note in the diary how the positions opened in it have ended."""
    trader.pauses.remove(pause)
    covered = guard.list_covered(pause, trader.closes)
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


def check_drawdown(trader: Trader, at: int) -> None:
    """Go back to Guarded Start where the equity is far below its peak."""
    equity = trader.account.equity
    trader.peak = max(trader.peak, equity)
    if guard.is_locked(equity, trader.peak, trader.phase):
        change_phase(
            trader,
            "guarded",
            at,
            f"drawdown lock: equity {percent(equity - trader.peak, trader.peak)}% from its peak",
        )


def change_phase(trader: Trader, name: str, at: int, why: str) -> None:
    """Begin a phase, and with it a new peak; the diary says why."""
    trader.phase = guard.Phase(name, since=at, last_day=trader.phase.last_day)
    trader.peak = trader.account.equity
    trader.add_line("phase", at, what=name, why=why)


def check_account(trader: Trader, at: int) -> None:
    """Open a review if the starting cash changed under an open account, or a position was marked on
    a clock ahead of this one.
    """
    if trader.starting_cash != STARTING_CASH:
        trader.open_review(
            "starting_cash_changed", STARTING_CASH, "the starting cash has changed", at
        )
    for position in trader.account.positions.values():
        if position.marked_at > at + SKEW_MS:
            trader.open_review(
                "clock_skew",
                position.marked_on,
                "a position's mark is ahead of the clock, which was set back",
                at,
                position.symbol,
                f"position {position.number}",
            )
