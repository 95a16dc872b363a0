"""What closes and days change of a trader: lessons, pauses, the day's first equity, Guarded Start.
Pure.
"""

from dataclasses import replace

from chain.amounts import sol
from paper import guard
from paper.book import PIPELINE, STARTING_CASH, Close, Position, find_exclusion, public_id
from paper.brain import find_new_lessons
from paper.guard import DAY, Pause
from paper.market import percent
from paper.trader import Trader


def learn(trader: Trader, position: Position) -> None:
    """Count a close: it advances the phase and may give reason to pauses and lessons."""
    close = summarize(position, public_id(trader.handle, "close", position.number), trader.reviewed)
    at = close.closed_at
    kept = [one for one in trader.closes if one.closed_at > at - 2 * guard.LOOK_BACK]
    trader.closes = [*kept, close]
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


def summarize(position: Position, ident: str, reviewed: bool = False) -> Close:
    """The Close of a closed position, as rules and comparisons count it."""
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
        find_exclusion(position.pipeline, position.marks, reviewed),
    )


def add_pauses(trader: Trader, at: int) -> None:
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


def beat(trader: Trader, now: int) -> None:
    """Run a heartbeat: note the day's first equity and the days of the phase, end pauses that are
    over, end Guarded Start.
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


def end_pause(trader: Trader, pause: Pause, now: int) -> None:
    """End a pause and note how the positions opened in it have ended."""
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


def check_drawdown(trader: Trader, at: int) -> None:
    """Go back to Guarded Start where the equity is far under its highest."""
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


def change_phase(trader: Trader, name: str, at: int, why: str) -> None:
    trader.phase = guard.Phase(name, since=at, last_day=trader.phase.last_day)
    trader.peak = trader.book.equity
    trader.say("phase", at, what=name, why=why)


def check_account(trader: Trader, at: int) -> None:
    """Open a review where the starting cash changed under an open account, or the pipeline while a
    position was open.
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
