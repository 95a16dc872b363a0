"""How often adaptive rules fire on a fair coin: `python -m bench fair-coin [--accounts 150]`.

Invented accounts of thirty days: each close wins or loses a tenth of what was spent, by a fair
coin, in one of five tokens, at random moments; what loses was a stop. Printed for each rule: in how
many accounts it fired, as it is now and as it was when each close was looked at with fixed
thresholds.
"""

import argparse
import bisect
import random

from paper import guard
from paper.account import Close
from paper.guard import DAY_MS, HOUR_MS

DAYS, TOKENS, SPENT = 30, 5, 10**9


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench fair-coin")
    parser.add_argument("--accounts", type=int, default=150)
    given = parser.parse_args(arguments)
    print(f"{'closes a day':>12} {'loses':>6} {'rule':>13} {'now':>7} {'before':>7}")
    for a_day in (12, 24, 48):
        for losing in (0.5, 0.85):
            now, before = (
                measure(find, given.accounts, a_day, losing)
                for find in (find_fired, find_fired_before)
            )
            for rule in guard.RULES:
                shares = f"{now[rule.name]:7.1%} {before[rule.name]:7.1%}"
                print(f"{a_day:12} {losing:6.2f} {rule.name:>13} {shares}", flush=True)
    return 0


def measure(find, accounts, a_day, losing=0.5, seed=1):
    """{rule: share of invented accounts in which it fired}; find: find_fired or the one before."""
    found = [
        find(invent(random.Random(f"{seed}|{number}|{a_day}|{losing}"), a_day, losing))
        for number in range(accounts)
    ]
    return {
        rule.name: sum(rule.name in fired for fired in found) / accounts for rule in guard.RULES
    }


def invent(chance, a_day, losing):
    """Closes of an account, oldest first, entered an hour before they were closed."""
    closes = []
    for at in sorted(chance.randrange(DAYS * DAY_MS) for _ in range(DAYS * a_day)):
        lost, mint = chance.random() < losing, f"token {chance.randrange(TOKENS)}"
        net = SPENT // 10 * (-1 if lost else 1)
        reason = "stop" if lost else "trailing_stop"
        closes.append(Close("", mint, mint, at - HOUR_MS, at, reason, net, net, SPENT))
    return closes


def find_fired(closes):
    """The rules that fired, at each close as in an account at work."""
    fired, pauses = set(), []
    for number, close in enumerate(closes):
        known = since(closes[: number + 1], close.closed_at - 2 * guard.LOOK_BACK_MS)
        found = guard.find_pauses(known, pauses, close.closed_at, applied=False, ident=str)
        pauses = [one for one in (*pauses, *found) if one.until > close.closed_at]
        fired |= {pause.rule for pause in found}
    return fired


def find_fired_before(closes):
    """The rules that would have fired with the thresholds of the first edition."""
    fired = set()
    for number, close in enumerate(closes):
        week = since(closes[: number + 1], close.closed_at - guard.LOOK_BACK_MS)
        day = since(week, close.closed_at - DAY_MS)
        same = [one for one in week if one.mint == close.mint]
        fired |= {
            rule
            for rule, bucket, holds in (
                ("cool_down", day, was_losing),
                ("stop_cluster", day, was_stopped),
                ("drawdown", week, was_falling),
                ("poor_mint", same, was_poor),
            )
            if len(bucket) >= guard.MIN_CLOSES and holds(bucket)
        }
    return fired


def since(closes, at):
    """The newest of them, after a moment."""
    return closes[bisect.bisect_right(closes, at, key=lambda one: one.closed_at) :]


def was_losing(closes):
    lost = sum(one.net < 0 for one in closes)
    return closes[-1].net < 0 and lost * 10 >= len(closes) * 6


def was_stopped(closes):
    return sum("stop" in one.reason for one in closes[-8:]) >= 5


def was_falling(closes):
    """Half an average position below the highest: the loss of one that halved, or of many."""
    total = top = 0
    for one in closes:
        total += one.net
        top = max(top, total)
    return (top - total) * 2 >= sum(one.spent for one in closes) // len(closes)


def was_poor(closes):
    won = sum(one.net > 0 for one in closes)
    return sum(one.net for one in closes) < 0 and won * 10 < len(closes) * 3
