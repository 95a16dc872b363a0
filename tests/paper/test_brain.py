"""What closes lead to: pauses, phases, lessons, and their lines in the diary. Each test shows its
arithmetic.
"""

import math
import random
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tape import DAY, MINUTE, START, Tape, adds_up, fills, said, told, trader

from paper import brain, engine, results, rules
from paper.account import Close, public_id
from paper.player import DiaryLine
from paper.rules import HOUR_MS, LOOK_BACK_MS, Pause, Phase

SOL, WEEK = 10**9, 7 * DAY
# When the rules run again.
LOOK = START - START % rules.LOOK_MS


def close(
    number, net=SOL // 100, at=START, mint="A", reason="told", spent=SOL, excluded=None, gross=None
):
    gross = net if gross is None else gross
    figures = (reason, gross, net, spent, excluded)
    return Close(f"close {number}", mint, mint * 2, at - HOUR_MS, at, *figures)


def closes(*nets, **about):
    return [close(number, net, **about) for number, net in enumerate(nets)]


def spread(*nets, apart=2 * HOUR_MS, reason="time_stop", at=LOOK):
    """Closes of one token, oldest first, the newest at `at`: each is its own cluster."""
    count = len(nets)
    return [
        close(n, net, at=at - (count - 1 - n) * apart, reason=reason) for n, net in enumerate(nets)
    ]


def separate(*nets, **about):
    """Closes of different tokens, so that each is separate; rules check at the last one."""
    made = [close(n, net, at=LOOK - 1, mint=f"M{n}", **about) for n, net in enumerate(nets)]
    return [*made[:-1], replace(made[-1], closed_at=LOOK)]


def in_other_tokens(history):
    return [replace(one, mint=one.id) for one in history]


def rules_of(history, pauses=(), at=START - 2 * HOUR_MS):
    return [pause.rule for pause in rules.find_pauses(history, pauses, at, applied=True, ident=str)]


# ---- when a rule fires ---------------------------------------------------------------------------
HALF = SOL // 20
STOPS = ("stop", "trailing_stop", "liquidity_gone", "price_gone")


@pytest.mark.parametrize(
    "history, found",
    [
        # Ten heads of ten come once in 1,024 throws, nine of nine once in 512.
        (separate(*[-1] * 9), []),
        (separate(*[-1] * 10), ["cool_down"]),
        # 12 or more of 13 once in 585, 13 or more of 14 once in 1,092.
        (separate(*[-1] * 12, 1), []),
        (separate(*[-1] * 13, 1), ["cool_down"]),
        (separate(*[-1] * 5, 1, 1, 1), []),
        # Excluded closes don't count, and breaking even isn't a loss.
        ([*separate(*[-1] * 9)[:-1], close(10, -1, at=LOOK, excluded="stale_price")], []),
        (separate(*[0] * 10), []),
        # Losing stops are counted; all of these must be one.
        *((separate(*[-1] * 10, reason=one), ["cool_down", "stop_cluster"]) for one in STOPS),
        (separate(*[1] * 10, reason="stop"), []),
        ([*separate(*[-1] * 10, reason="stop")[:-1], close(9, -1, at=LOOK)], ["cool_down"]),
        # n equal losses fall by n; chance reaches the root of 15 n: 14 don't exceed it, 15 do.
        (separate(*[-HALF] * 14), ["cool_down"]),
        (separate(*[-HALF] * 15), ["cool_down", "drawdown"]),
        # A fall of less than half a position doesn't matter.
        (separate(*[-SOL // 100] * 15), ["cool_down"]),
        # One loss of three positions among many small wins is chance: 9 < 15 x 9.
        (separate(*[1] * 14, -3 * SOL), []),
        # Closes of one token entered within an hour are one cluster; two hours apart they are ten.
        (closes(*[-1] * 30, at=LOOK), []),
        (spread(*[-1] * 10), ["cool_down", "poor_mint"]),
        ([*separate(*[1] * 40), *spread(*[-1] * 10)], ["poor_mint"]),
        # A token's closes of a week count, and only a day's in all.
        (spread(*[-1] * 10, apart=DAY // 2), ["poor_mint"]),
        (spread(*[-1] * 10, apart=DAY), []),
        # Nine times 9,600,000 ms are a day, so only nine losses are younger.
        (in_other_tokens(spread(*[-1] * 10, apart=9_600_000)), []),
        (in_other_tokens(spread(*[-1] * 10, apart=9_599_999)), ["cool_down"]),
    ],
)
def test_a_rule_needs_a_pattern_a_fair_coin_rarely_shows(history, found):
    assert rules_of(history) == found


def test_one_check_in_605_may_be_wrong():
    """5 accounts x (30 days x 4 checks + 1); 2 * exp(-15 / 2) is less."""
    assert rules.ACCOUNTS * rules.LOOKS == 605
    assert 2 * math.exp(-rules.CHANCE_SQUARES / 2) * rules.ACCOUNTS * rules.LOOKS < 1


def test_rules_run_every_six_hours():
    """At the first close of each six hours of the day, whatever the result."""
    bad = separate(*[-1] * 10)
    for at, found in ((LOOK + rules.LOOK_MS - 1, []), (LOOK + rules.LOOK_MS, ["cool_down"])):
        assert rules_of([*bad, close(11, -1, mint="X", at=at)], at=at) == found


def test_a_running_pause_is_not_begun_again():
    history = spread(*[-1] * 10, apart=DAY // 2)
    running = Pause("p", "poor_mint", "pause_mint", "A", LOOK - 1, LOOK + 1, True, 8, DAY, "")
    assert rules_of(history, [running]) == []
    assert rules_of(history, [replace(running, until=LOOK)]) == ["poor_mint"]
    assert rules_of(history, [replace(running, mint="B")]) == ["poor_mint"]


DAYS, TOKENS = 30, 5


def flip(chance, losing):
    """Twelve closes a day of an account, oldest first, entered an hour before they were closed."""
    made = []
    for at in sorted(chance.randrange(DAYS * DAY) for _ in range(DAYS * 12)):
        lost, mint = chance.random() < losing, f"token {chance.randrange(TOKENS)}"
        reason = "stop" if lost else "trailing_stop"
        made.append(close(0, SOL // 10 * (-1 if lost else 1), at, mint, reason))
    return made


def find_fired(history):
    """The rules that fired, checked at each close as in a live account."""
    fired, pauses = set(), []
    for number, one in enumerate(history):
        begin = one.closed_at - 2 * LOOK_BACK_MS
        known = [early for early in history[: number + 1] if early.closed_at > begin]
        found = rules.find_pauses(known, pauses, one.closed_at, applied=False, ident=str)
        pauses = [pause for pause in (*pauses, *found) if pause.until > one.closed_at]
        fired |= {pause.rule for pause in found}
    return fired


@pytest.mark.parametrize("accounts, losing, least, most", [(24, 0.5, 0, 11), (2, 0.85, 2, 2)])
def test_a_fair_coin_triggers_a_rule_in_at_most_one_account_of_five(accounts, losing, least, most):
    """Twenty-four simulated accounts of 30 days. With a true rate of one in five, 12 of 24 or more
    occur once in a thousand times: the sum of C(24, i) 0.2**i 0.8**(24 - i) from 12 on. An account
    that loses 17 of 20 closes is still detected.
    """
    tail = sum(math.comb(24, i) * 0.2**i * 0.8 ** (24 - i) for i in range(12, 25))
    assert tail < 0.0012
    fired = [
        find_fired(flip(random.Random(f"1|{number}|12|{losing}"), losing))
        for number in range(accounts)
    ]
    counts = {rule.name: sum(rule.name in one for one in fired) for rule in rules.RULES}
    assert all(least <= count <= most for count in counts.values()), counts


# ---- what a pause does ---------------------------------------------------------------------------
def test_every_pause_ends_within_seven_days_and_states_its_numbers():
    """Fifteen losses in one token. Only one pause is about the token."""
    one = trader(adaptive="on")
    one.closes = spread(*[-SOL] * 15, apart=61 * MINUTE, reason="stop")
    engine.add_pauses(one, LOOK)
    for pause, line, (rule, effect, mint, hours, days, numbers) in zip(
        one.pauses,
        one.journal.entries,
        (
            ("cool_down", "long_cooldown", None, 12, 1, "15 of 15 separate closes lost"),
            ("stop_cluster", "pause_family", None, 6, 1, "15 of 15 separate closes lost by a stop"),
            ("drawdown", "half_size", None, 24, 7, "15 SOL below the peak of 15 closes"),
            ("poor_mint", "pause_mint", "A", 72, 7, "15 of 15 separate closes lost in this token"),
        ),
        strict=True,
    ):
        ident, until = public_id("trader-1", "pause", f"{rule}|{LOOK}|0"), LOOK + hours * HOUR_MS
        counted = (15, days * DAY, numbers)
        assert pause == Pause(ident, rule, effect, mint, LOOK, until, True, *counted)
        facts = {"what": "begun", "id": ident, "rule": rule, "effect": effect, "n": 15}
        facts |= {"until": until, "windowMs": days * DAY, "numbers": numbers}
        assert line == DiaryLine("pause", LOOK, facts, mint)


def test_a_cool_down_is_quadrupled_and_guarded_start_has_two_positions_at_most():
    pause = Pause("p", "r", "long_cooldown", None, START, START + DAY, True, 8, DAY, "")
    assert rules.cooldown_for(300, [pause], "A", START) == 1200
    assert rules.cooldown_for(300, [], "A", START) == 300
    assert [rules.positions_for(most, Phase("guarded")) for most in (1, 4)] == [1, 2]
    assert rules.positions_for(4, Phase("standard")) == 4


@pytest.mark.parametrize(
    "adaptive, entered, begun", [("on", 0, "begun"), ("observe", 1, "observed"), ("off", 1, None)]
)
def test_only_adaptive_on_stops_entries(adaptive, entered, begun):
    """The last of 13 losses is in a different six-hour period than START; the fourteenth closes in
    round 3.
    """
    one, last = told(0, 4, leave=(2,), adaptive=adaptive), START - 2 * HOUR_MS - 1
    one.closes = spread(*[-SOL // 100] * 13, at=last, apart=HOUR_MS + 1, reason="stop")
    Tape([one]).play(6)
    assert sum(fill.side == "buy" for fill in fills(one)) == 1 + entered and adds_up(one)
    found = {(facts["what"], facts["rule"], facts["n"]) for facts in said(one, "pause")}
    names = ("cool_down", "stop_cluster", "poor_mint") if begun else ()
    assert found == {(begun, name, 14) for name in names}


@pytest.mark.parametrize("applied, what", [(True, "ended"), (False, "would_have")])
def test_a_pause_ends_on_time_and_counts_positions_opened_in_it(applied, what):
    """Half-open: positions opened at the beginning count, at the end not; neither do those in
    another token.
    """
    one, begun = trader(), START - DAY
    one.pauses = [Pause("p", "r", "pause_mint", "A", begun, START, applied, 8, DAY, "numbers")]
    moments = {1: begun - 1, 20: begun, 300: START - 1, 4_000: START}
    one.closes = [replace(close(net, net), opened_at=at) for net, at in moments.items()]
    one.closes.append(replace(close(5, 50_000, mint="B"), opened_at=START - 1))
    engine.run_heartbeat(one, START - 1)
    assert one.pauses and said(one) == []
    engine.run_heartbeat(one, START)
    facts = {"what": what, "ends": "p", "rule": "r", "effect": "pause_mint", "n": 2}
    facts |= {"windowMs": DAY, "resultSol": "0.00000032"}
    assert one.journal.entries == [DiaryLine("pause", START, facts, "A")] and not one.pauses


# ---- Guarded Start -------------------------------------------------------------------------------
def test_guarded_start_needs_twenty_closes_on_fourteen_days():
    over = {(20, 14): True, (19, 14): False, (20, 13): False, (21, 15): True}
    assert {one: Phase("guarded", 0, *one).is_over for one in over} == over
    assert not Phase("standard", 0, 20, 14).is_over


@pytest.mark.parametrize("phase, paused, locked", [("guarded", 950, None), ("standard", None, 800)])
def test_guarded_start_pauses_at_five_percent_lost_and_restarts_at_twenty(phase, paused, locked):
    """Of 1,000; none of them in the other phase."""
    for equity in (1, 800, 801, 950, 951):
        lost = rules.lost_too_much(equity, 1000, Phase(phase))
        assert lost is (paused is not None and equity <= paused)
        is_locked = rules.is_locked(equity, 1000, Phase(phase))
        assert is_locked is (locked is not None and equity <= locked)


@pytest.mark.parametrize("reviewed, phase", [(True, "guarded"), (False, "standard")])
def test_guarded_start_ends_with_a_summary(reviewed, phase):
    """Not while a review is open; the heartbeat's day counts."""
    one, today = trader(phase="guarded", reviewed=reviewed), START // DAY
    one.phase = replace(one.phase, closes=21, days=13, last_day=today - 1)
    engine.run_heartbeat(one, START)
    assert (one.account.day, one.phase.name) == (today, phase)
    why = "21 eligible closes on 14 days: evidence of volume, not of profit"
    line = DiaryLine("phase", START, {"what": "standard", "why": why})
    assert one.journal.entries == ([] if reviewed else [line])
    assert (one.phase.closes, one.phase.last_day) == (21 if reviewed else 0, today)


def test_a_new_phase_has_its_own_peak_and_days():
    one = trader()
    one.phase = replace(one.phase, closes=30, days=20, last_day=7)
    one.account.cash = 7 * SOL
    engine.check_drawdown(one, START + 5)
    assert one.phase == Phase("guarded", START + 5, 0, 0, 7) and one.account.peak == 7 * SOL
    # 3 of 10 SOL.
    why = "drawdown lock: equity -30% from its peak"
    assert said(one, "phase") == [{"what": "guarded", "why": why}]


# ---- lessons -------------------------------------------------------------------------------------
def week(net):
    """Twenty-four closes in as many tokens over six days, with similar results."""
    return [
        close(n, net + (n % 5 - 2) * SOL // 500, START - DAY // 2 - n * DAY // 4, mint=f"M{n}")
        for n in range(24)
    ]


def patterns(history, random=()):
    return [one.is_pattern for one in brain.find_lessons(history, START, list(random))]


def test_without_random_entries_or_from_one_hour_everything_is_a_pattern():
    """Three closes are enough for a sentence."""
    assert brain.find_lessons(closes(1, 1), START) == []
    three = brain.find_lessons(closes(1, 1, 1), START)
    assert {(one.n, one.is_pattern) for one in three} == {(3, True)}
    assert all(patterns(week(SOL)))
    assert all(patterns(closes(*[SOL // 50] * 12), week(-SOL // 100)))


def test_an_effect_random_entries_also_show_is_not_a_lesson():
    """Closes of about 2% over six days, while random entries lost 1%."""
    good, bad = (week(net) for net in (SOL // 50, -SOL // 100))
    (lesson, *_) = brain.find_lessons(good, START, bad)
    assert lesson.key == "all" and not lesson.is_pattern
    assert lesson.evidence["randomEntry"]["meanReturnPct"] < -1
    assert "the mean random entry -1" in lesson.text
    for control in (good, [], bad[:9]):
        found = brain.find_lessons(good, START, control)
        assert all(one.is_pattern and "random" not in one.text for one in found)


def test_more_keys_need_stronger_evidence_each(monkeypatch):
    """The chance is multiplied by the kinds that had enough closes on both sides."""
    good = week(SOL // 50)
    monkeypatch.setattr(brain, "find_chance", lambda own, random: 0.004)
    assert len({key for one in good for key in brain.list_keys(one)}) > 2
    assert all(patterns(good, good))
    monkeypatch.setattr(brain, "find_chance", lambda own, random: 0.004 if len(own) == 24 else None)
    assert patterns(good, good).count(False) == 1


def test_a_pattern_counts_its_named_closes():
    """Under the token's current name."""
    *history, last = closes(SOL // 10, -SOL // 5, *[SOL // 100] * 6)
    history.append(replace(last, symbol="NEW"))
    texts = {one.key: one for one in brain.find_lessons(history, START)}
    found = texts["all"]
    # 0.1 - 0.2 + 0.06 of 8 SOL.
    told = "in 7 days, 7 won; the total was -0.04 SOL, -0.5% of the amount spent."
    assert texts["token A"].text == f"Of 8 closes in NEW {told}"
    ids = tuple(f"close {number}" for number in range(8))
    evidence, about = found.evidence, ("all", f"Of 8 closes {told}", 8, WEEK, ids)
    assert found == brain.Lesson(*about, START, START + WEEK, evidence, True)
    rates = results.describe_rates(history)
    assert rates.items() < evidence.items() and set(evidence) - set(rates) == {"randomEntry"}


@pytest.mark.parametrize(
    "symbol, shown",
    [
        ("$WIF-2", "$WIF-2"),
        ("A won, 900% real", "“A won, 900% real”"),
        ("for 9 SOL” net, ok “", "“for 9 SOL net, ok ”"),
        ("SOL", "“SOL”"),
        ("500", "“500”"),
        ("{amount}", "“{amount}”"),
    ],
)
def test_a_token_name_is_not_mistaken_for_sentence_text(symbol, shown):
    """The token's creator chose it. In the diary, in lessons and in posts about them."""
    *_, lesson = brain.find_lessons(
        [replace(one, symbol=symbol) for one in closes(*[1] * 8)], START
    )
    assert lesson.text.startswith(f"Of 8 closes in {shown} in 7 days, 8 won;")
    facts = {"what": "bought", "symbol": symbol, "amount": "1", "sol": "2"}
    facts |= {"feesSol": "3", "slippageSol": "4"}
    assert brain.format_line("fill", facts) == (f"Bought 1 {shown} for 2 SOL, fees 3, slippage 4.")


def test_closes_are_grouped_only_by_facts_known_at_entry():
    one = close(1, SOL, at=START - START % DAY + 13 * HOUR_MS)
    assert brain.list_keys(one) == ("all", "token A", "hours 2")
    assert brain.list_keys(replace(one, reason="stop", net=-SOL)) == brain.list_keys(one)
    many = [replace(one, id=str(n)) for n in range(3)]
    text = brain.find_lessons(many, one.closed_at)[1].text
    assert text.startswith("Of 3 closes entered from 12:00 to 18:00 UTC in 7 days, 3 won;")


def test_ineligible_and_old_closes_are_ignored():
    def find(**about):
        return brain.find_lessons(closes(*[1] * 8, **about), START)

    assert find(excluded="under_review") == find(at=START - WEEK) == []
    assert find(at=START - WEEK + 1)


def closed_position():
    """A position of A, bought in round 0 and sold in round 3 on instruction."""
    one = told(0, leave=(3,))
    Tape([one]).play(9)
    return one.journal.positions[1]


def after(earlier, random=()):
    """A trader with these past closes that closes a position now."""
    one = trader(twins=[SimpleNamespace(closes=list(random))])
    one.closes = list(earlier)
    engine.record_close(one, closed_position())
    return one


def test_a_lesson_lists_its_closes():
    """Thirteen days of 50% each, while random entries lost 1% each: a lesson at the first close of
    a week; other closes aren't checked.
    """
    at = closed_position().closed_at
    begins = at - DAY // 2
    earlier = [
        replace(one, mint=f"M{n}", opened_at=begins - n * DAY // 3, closed_at=begins - n * 1000)
        for n, one in enumerate(closes(*[SOL // 2, SOL // 2 + 10**7] * 9))
    ][::-1]
    random = [replace(one, net=-SOL // 100 - n * 10**5) for n, one in enumerate(earlier)]
    assert said(after(earlier, random), "lesson") == []
    # The previous one was in an earlier week.
    earlier[-1] = replace(earlier[-1], closed_at=at // brain.LOOK_MS * brain.LOOK_MS - 1)
    one = after(earlier, random)
    (lesson,) = (
        found for found in brain.find_lessons(one.closes, at, random) if not found.is_pattern
    )
    facts = {
        **{"what": "lesson", "key": "all", "text": lesson.text, "n": lesson.n, "windowMs": WEEK},
        **{"closeIds": list(lesson.close_ids), "expiresAt": at + WEEK},
        "evidence": lesson.evidence,
    }
    lines = [entry for entry in one.journal.entries if entry.kind == "lesson"]
    assert lines == [DiaryLine("lesson", at, facts)]
    assert public_id("trader-1", "close", 1) in lesson.close_ids
    assert lesson.evidence["randomEntry"]["meanReturnPct"] < -1
    # Random entries that did as well leave no lesson.
    assert said(after(earlier, earlier), "lesson") == []


def test_closes_of_two_weeks_are_kept():
    limit = closed_position().closed_at - 2 * LOOK_BACK_MS
    old, young = (replace(close(at), closed_at=at) for at in (limit, limit + 1))
    assert [one.id for one in after([old, young]).closes[:-1]] == [young.id]


# ---- the diary -----------------------------------------------------------------------------------
PAUSED = {"what": "begun", "rule": "stop_cluster", "effect": "pause_family", "numbers": "x_y"}
HALVED = {**PAUSED, "effect": "half_size"}
# It counted these positions, and prevented none of them.
UNPAUSED = "2 positions opened during that time have closed, for a total of -0.03 SOL."


@pytest.mark.parametrize(
    "kind, facts, line",
    [
        ("pause", PAUSED, "Paused (stop cluster, pause family): x_y; 8 closes counted."),
        ("pause", HALVED, "Halved the size of entries (stop cluster): x_y; 8 closes counted."),
        *(
            (
                *("pause", {**PAUSED, "what": "would_have", "effect": effect, "n": 2}),
                f"The pause that was not applied (stop cluster) would have {done} {UNPAUSED}",
            )
            for effect, done in (
                ("half_size", "halved the size of entries; at full size,"),
                ("long_cooldown", "quadrupled the cool-down after a close;"),
                ("pause_mint", "stopped entries in one token; in it,"),
            )
        ),
        (
            *("fill", {"what": "not_filled", "symbol": "A_B", "why": "too_late"}),
            "The order in A_B was not filled: too late.",
        ),
        (
            *("fill", {"what": "closed", "symbol": "A_B", "reason": "time_stop"}),
            "Closed A_B for 2 SOL (time stop): 1 SOL net, 50%.",
        ),
        ("refusal", {"symbol": "every trade", "detail": "told"}, "Refused every trade: told."),
    ],
)
def test_codes_are_put_into_words_and_names_kept(kind, facts, line):
    result = "-0.03" if kind == "pause" else "1"
    figures = {"n": 8, "sol": "2", "resultSol": result, "returnPct": "50"}
    assert brain.format_line(kind, {**figures, **facts}) == line


@pytest.mark.parametrize("key", sorted(brain.LINES.keys() - {"unreadable"}))
def test_every_line_of_the_diary_has_a_sentence(key):
    names = re.findall(r"{(\w+)", "".join(brain.LINES.values()))
    kind, what, effect = (*key.split(), "x", "x")[:3]
    facts = {**dict.fromkeys(names, "x"), "what": what, "effect": effect}
    assert "can't be read" not in brain.format_line(kind, facts)
    for unexpected in ({}, {"what": None}, {"what": what, "effect": "odd"}, {"reason": None}):
        assert brain.format_line(kind, unexpected).endswith(" whose details can't be read.")
    assert brain.format_line("novel", facts) == "An entry whose details can't be read."


def test_only_news_is_posted_and_nothing_internal():
    for kind, what in (("fill", "failed"), ("refusal", "stale_snapshot"), ("pause", "observed")):
        assert brain.find_news(kind, {"what": what, "reason": what}) is None
    facts = {"what": "closed", "symbol": "AA"}
    found = brain.find_news("fill", {**facts, "id": "x", "until": 5})
    assert found == {**facts, "kind": "close"}


@pytest.mark.parametrize("nets, wins, net", [((0, 1, 2, -5), 2, "-2"), ((), None, None)])
def test_results_count_wins_and_sum_eligible_closes(nets, wins, net):
    history = [*closes(*nets), close(9, 100, excluded="under_review")]
    assert brain.review_results(history) == {
        **{"closes": len(nets) + 1, "eligibleCloses": len(nets)},
        **{"excluded": {"under_review": 1}, "wins": wins, "netLamports": net},
    }
