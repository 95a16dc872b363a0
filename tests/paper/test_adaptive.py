"""A trader's reactions to its closes, as its diary shows them: lessons and pauses, in full."""

from dataclasses import replace
from types import SimpleNamespace

from tape import DAY, MINUTE, START, Tape, Told, said, trader
from test_brain import closes
from test_engine import losses

from paper import brain, engine, rules
from paper.account import public_id
from paper.rules import LOOK_BACK_MS

SOL, WEEK = 10**9, 7 * DAY


def closed_position():
    """A position of A, bought in round 0 and sold in round 3 on instruction."""
    one = trader(strategy=Told(enter_at=(0,), leave_at=(3,)))
    Tape([one]).play(9)
    return one.journal.positions[1]


def after(earlier, random=(), **more):
    """A trader with these past closes that closes a position now."""
    one = trader(twins=[SimpleNamespace(closes=list(random))], **more)
    one.closes = list(earlier)
    engine.record_close(one, closed_position())
    return one


def test_a_lesson_lists_its_closes():
    """Thirteen days of 50% each, while random entries lost 1% each: a lesson at the first close of
    a week; at other closes there is no check.
    """
    newest = closed_position()
    begins = newest.closed_at - DAY // 2
    earlier = [
        replace(one, mint=f"M{n}", opened_at=begins - n * DAY // 3, closed_at=begins - n * 1000)
        for n, one in enumerate(closes(*[SOL // 2, SOL // 2 + 10**7] * 9))
    ][::-1]
    random = [replace(one, net=-SOL // 100 - n * 10**5) for n, one in enumerate(earlier)]
    assert newest.closed_at // brain.LOOK_MS == earlier[-1].closed_at // brain.LOOK_MS
    assert said(after(earlier, random), "lesson") == []
    old = replace(earlier[-1], closed_at=newest.closed_at // brain.LOOK_MS * brain.LOOK_MS - 1)
    one = after([*earlier[:-1], old], random)
    at = one.closes[-1].closed_at
    told = [found for found in brain.find_lessons(one.closes, at, random) if not found.is_pattern]
    lines = [entry for entry in one.journal.entries if entry.kind == "lesson"]
    assert [line.facts["key"] for line in lines] == [lesson.key for lesson in told] == ["all"]
    (line,), (lesson,) = lines, told
    assert (line.at, line.mint, line.facts) == (
        at,
        None,
        {
            "what": "lesson",
            "key": "all",
            "text": lesson.text,
            "n": lesson.n,
            "windowMs": WEEK,
            "closeIds": list(lesson.close_ids),
            "expiresAt": at + WEEK,
            "evidence": lesson.evidence,
        },
    )
    assert public_id("trader-1", "close", 1) in lesson.close_ids
    assert facts_of_random(line.facts)["meanReturnPct"] < -1
    # Random entries that did as well leave no lesson.
    assert said(after([*earlier[:-1], old], earlier), "lesson") == []


def facts_of_random(facts):
    return facts["evidence"]["randomEntry"]


def test_closes_of_two_weeks_are_kept():
    old, young = closes(1, 1)
    at = closed_position().closed_at
    old, young = (
        replace(one, closed_at=at - 2 * LOOK_BACK_MS + more) for one, more in ((old, 0), (young, 1))
    )
    assert [one.id for one in after([old, young]).closes[:-1]] == [young.id]


def test_a_pause_is_described_completely():
    """Fourteen losses in A, an hour apart, the newest just after the rules last ran."""
    one = trader(adaptive="on")
    one.closes = losses(14, at=START - START % rules.LOOK_MS, apart=61 * MINUTE)
    at = one.closes[-1].closed_at
    engine.add_pauses(one, at)
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
    # Only that one is about a token; each has its own name.
    assert {rule for rule, line in lines.items() if line.mint} == {"poor_mint"}
    assert len({line.facts["id"] for line in lines.values()}) == len(lines) > 1
    assert [pause.id for pause in one.pauses] == [line.facts["id"] for line in lines.values()]


def test_a_pauses_end_names_its_token_and_rule():
    one = trader()
    about = ("p", "poor_mint", "pause_mint", "A", START - DAY, START)
    one.pauses = [rules.Pause(*about, True, 8, DAY, "numbers")]
    engine.run_heartbeat(one, START)
    (line,) = one.journal.entries
    assert (line.kind, line.at, line.mint) == ("pause", START, "A")
    ended = {"what": "ended", "ends": "p", "rule": "poor_mint", "effect": "pause_mint"}
    assert line.facts == {**ended, "n": 0, "windowMs": DAY, "resultSol": "0"}


def test_a_pause_ends_on_time_and_counts_positions_opened_in_it():
    """Half-open: positions opened at the beginning count, at the end not; neither do those in
    another token.
    """
    begun = START - DAY
    pause = rules.Pause("p", "r", "pause_mint", "A", begun, START, False, 8, DAY, "numbers")
    for now, ended in ((START - 1, False), (START, True)):
        one = trader()
        one.pauses = [pause]
        told = closes(1, 20, 300, 4_000, 50_000)
        moments = (begun - 1, begun, START - 1, START, START - 1)
        one.closes = [
            replace(close, opened_at=at, mint="B" if close.net == 50_000 else "A")
            for close, at in zip(told, moments, strict=True)
        ]
        engine.run_heartbeat(one, now)
        assert (one.pauses == []) is ended
        assert [line.facts for line in one.journal.entries] == ended * [
            {
                **{"what": "would_have", "ends": "p", "rule": "r", "effect": "pause_mint"},
                **{"n": 2, "windowMs": DAY, "resultSol": "0.00000032"},
            }
        ]


def test_guarded_start_ends_with_a_summary():
    """Not while a review is open; the heartbeat's day counts."""
    for reviewed in (True, False):
        one = trader(phase="guarded", reviewed=reviewed)
        one.phase = replace(one.phase, closes=21, days=13, last_day=START // DAY - 1)
        engine.run_heartbeat(one, START)
        assert (one.account.day, one.phase.name) == (
            START // DAY,
            "guarded" if reviewed else "standard",
        )
    (line,) = one.journal.entries
    why = "21 eligible closes on 14 days: evidence of volume, not of profit"
    assert (line.kind, line.at, line.facts) == ("phase", START, {"what": "standard", "why": why})
    assert (one.phase.since, one.phase.closes, one.phase.last_day) == (START, 0, START // DAY)


def test_a_new_phase_has_its_own_peak_and_days():
    one = trader()
    one.phase = replace(one.phase, closes=30, days=20, last_day=7)
    one.account.cash = 7 * SOL
    engine.check_drawdown(one, START + 5)
    assert (one.phase.name, one.phase.since, one.phase.last_day) == ("guarded", START + 5, 7)
    assert (one.phase.closes, one.phase.days, one.account.peak) == (0, 0, 7 * SOL)
    # 3 of 10 SOL.
    assert said(one, "phase") == [
        {"what": "guarded", "why": "drawdown lock: equity -30% from its peak"}
    ]
