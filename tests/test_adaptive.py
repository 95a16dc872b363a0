"""What closes bring about for a trader, as its diary tells it: lessons and pauses, in full."""

from dataclasses import replace
from types import SimpleNamespace

from tape import DAY, MINUTE, START, Tape, Told, said, trader
from test_brain import closes, spread
from test_engine import losses

from paper import adaptive, brain, guard
from paper.account import public_id
from paper.guard import LOOK_BACK_MS

SOL, WEEK = 10**9, 7 * DAY


def closed_position():
    """A position of A, bought in round 0 and sold in round 3 by what it was told."""
    one = trader(strategy=Told(enter_at=(0,), leave_at=(3,)))
    Tape([one]).play(9)
    return one.journal.positions[1]


def after(earlier, twin=None, **more):
    """A trader that has these closes behind it and closes a position now."""
    one = trader(twin=twin and SimpleNamespace(player=SimpleNamespace(closes=twin)), **more)
    one.closes = list(earlier)
    adaptive.record_close(one, closed_position())
    return one


def test_a_lesson_is_told_with_the_closes_it_counts():
    """Seven closes that were told to, and an eighth."""
    earlier = closes(*[SOL // 100] * 7, mint="B")
    one = after(earlier)
    at, last = one.closes[-1].closed_at, public_id("trader-1", "close", 1)
    (line,) = [entry for entry in one.journal.entries if entry.kind == "lesson"]
    (lesson,) = [found for found in brain.find_lessons(one.closes, at) if not found.is_pattern]
    assert (line.at, line.mint, line.facts) == (
        at,
        None,
        {
            "what": "lesson",
            "key": "reason told",
            "text": lesson.text,
            "n": 8,
            "windowMs": WEEK,
            "closeIds": [*(f"close {number}" for number in range(7)), last],
            "expiresAt": at + WEEK,
            "evidence": lesson.evidence,
        },
    )
    assert lesson.text.startswith("Of 8 closes by told in 7 days, 7 won;")
    # It is said once, and again when it has expired.
    assert one.lessons == {"reason told": at + WEEK}


def test_a_lesson_is_compared_with_what_entered_at_random():
    """Eight that won 50 % each beside a twin's that lost 1 % each: what it did shows no such thing.
    Beside a twin's of the same kind there is nothing to say.
    """
    earlier = [replace(one, mint="B") for one in spread(*[SOL // 2] * 12, at=START)]
    lost = spread(*[-SOL // 100] * 12, at=START)
    (facts,) = said(after(earlier, twin=lost), "lesson")[:1]
    assert facts["evidence"]["randomEntry"]["meanReturnPct"] == -1.0
    assert said(after(earlier, twin=earlier), "lesson") == []


def test_closes_of_two_weeks_are_kept():
    old, young = closes(1, 1)
    at = closed_position().closed_at
    old, young = (
        replace(one, closed_at=at - 2 * LOOK_BACK_MS + more) for one, more in ((old, 0), (young, 1))
    )
    assert [one.id for one in after([old, young]).closes[:-1]] == [young.id]


def test_a_pause_is_told_in_full():
    """Fourteen losses in A, an hour apart, the newest just after rules looked last."""
    one = trader(adaptive="on")
    one.closes = losses(14, at=START - START % guard.LOOK_MS, apart=61 * MINUTE)
    at = one.closes[-1].closed_at
    adaptive.add_pauses(one, at)
    lines = {line.facts["rule"]: line for line in one.journal.entries}
    poor = lines["poor_mint"]
    (pause,) = [pause for pause in one.pauses if pause.rule == "poor_mint"]
    assert (poor.kind, poor.at, poor.mint) == ("pause", at, "A")
    assert poor.facts == {
        "what": "begun",
        "id": public_id("trader-1", "pause", f"poor_mint|{at}|0"),
        "rule": "poor_mint",
        "effect": "pause_mint",
        "n": 14,
        "windowMs": pause.window_ms,
        "numbers": pause.numbers,
        "until": pause.until,
    }
    # Only that one is about a token; each has a name of its own.
    assert {rule for rule, line in lines.items() if line.mint} == {"poor_mint"}
    assert len({line.facts["id"] for line in lines.values()}) == len(lines) > 1
    assert [pause.id for pause in one.pauses] == [line.facts["id"] for line in lines.values()]


def test_the_end_of_a_pause_names_its_token_and_rule():
    one = trader()
    begun, ends = START - DAY, START
    one.pauses = [
        guard.Pause("p", "poor_mint", "pause_mint", "A", begun, ends, True, 8, DAY, "numbers")
    ]
    adaptive.run_heartbeat(one, START)
    (line,) = one.journal.entries
    assert (line.kind, line.at, line.mint) == ("pause", START, "A")
    assert line.facts == {
        "what": "ended",
        "ends": "p",
        "rule": "poor_mint",
        "effect": "pause_mint",
        "n": 0,
        "windowMs": DAY,
        "resultSol": "0",
    }


def test_a_pause_ends_with_its_last_moment_and_counts_what_was_opened_in_it():
    """Half-open: opened when it began counts, when it ended not; in another token neither."""
    begun = START - DAY
    pause = guard.Pause("p", "r", "pause_mint", "A", begun, START, False, 8, DAY, "numbers")
    for now, ended in ((START - 1, False), (START, True)):
        one = trader()
        one.pauses = [pause]
        told = closes(1, 20, 300, 4_000, 50_000)
        moments = (begun - 1, begun, START - 1, START, START - 1)
        one.closes = [
            replace(close, opened_at=at, mint="B" if close.net == 50_000 else "A")
            for close, at in zip(told, moments, strict=True)
        ]
        adaptive.run_heartbeat(one, now)
        assert (one.pauses == []) is ended
        assert [line.facts for line in one.journal.entries] == ended * [
            {
                **{"what": "would_have", "ends": "p", "rule": "r", "effect": "pause_mint"},
                **{"n": 2, "windowMs": DAY, "resultSol": "0.00000032"},
            }
        ]


def test_the_equity_of_a_day_is_that_of_its_first_heartbeat():
    one = trader()
    midnight = START - START % DAY + DAY
    adaptive.run_heartbeat(one, midnight)
    one.account.cash -= SOL
    adaptive.run_heartbeat(one, midnight + DAY - 1)
    assert (one.day, one.day_equity) == (midnight // DAY, 10 * SOL)
    adaptive.run_heartbeat(one, midnight + DAY)
    assert (one.day, one.day_equity) == (midnight // DAY + 1, 9 * SOL)


def test_guarded_start_ends_with_a_line_of_what_was_counted():
    """Not while a review is open; the day of the beat counts."""
    for reviewed in (True, False):
        one = trader(phase="guarded", reviewed=reviewed)
        one.phase = replace(one.phase, closes=21, days=13, last_day=START // DAY - 1)
        adaptive.run_heartbeat(one, START)
        assert (one.day, one.phase.name) == (START // DAY, "guarded" if reviewed else "standard")
    (line,) = one.journal.entries
    why = "21 eligible closes on 14 days: evidence of volume, not of profit"
    assert (line.kind, line.at, line.facts) == ("phase", START, {"what": "standard", "why": why})
    assert (one.phase.since, one.phase.closes, one.phase.last_day) == (START, 0, START // DAY)


def test_a_new_phase_begins_with_a_peak_and_days_of_its_own():
    one = trader()
    one.phase = replace(one.phase, closes=30, days=20, last_day=7)
    one.account.cash = 7 * SOL
    adaptive.check_drawdown(one, START + 5)
    assert (one.phase.name, one.phase.since, one.phase.last_day) == ("guarded", START + 5, 7)
    assert (one.phase.closes, one.phase.days, one.peak) == (0, 0, 7 * SOL)
    # 3 of 10 SOL.
    assert said(one, "phase") == [
        {"what": "guarded", "why": "drawdown lock: equity -30% from its peak"}
    ]
