"""Statistics over closes: pauses, lessons, the comparison. Each test shows its arithmetic."""

import math
import random
import re
from dataclasses import replace

import pytest
from tape import START

from paper import brain, results, rules
from paper.account import Close
from paper.rules import DAY_MS, HOUR_MS, Pause, Phase

SOL = 10**9


def close(
    number, net=SOL // 100, at=START, mint="A", reason="told", spent=SOL, excluded=None, gross=None
):
    gross = net if gross is None else gross
    figures = (reason, gross, net, spent, excluded)
    return Close(f"close {number}", mint, mint * 2, at - HOUR_MS, at, *figures)


def closes(*nets, **about):
    return [close(number, net, **about) for number, net in enumerate(nets)]


def spread(*nets, apart=2 * HOUR_MS, reason="time_stop", at=START):
    """Closes of one kind, each its own cluster, the newest first and now."""
    return [
        replace(one, opened_at=one.opened_at - n * apart, closed_at=one.closed_at - n * apart)
        for n, one in enumerate(closes(*nets, reason=reason, at=at))
    ]


def rules_of(history, pauses=(), at=START - 2 * HOUR_MS):
    return [pause.rule for pause in rules.find_pauses(history, pauses, at, applied=True, ident=str)]


# ---- pauses --------------------------------------------------------------------------------------
# When the rules run again.
LOOK = START - START % rules.LOOK_MS


def apart(*nets, **about):
    """Closes of different tokens, so that each is separate; rules check at the last one."""
    made = [close(n, net, at=LOOK - 1, mint=f"M{n}", **about) for n, net in enumerate(nets)]
    return [*made[:-1], replace(made[-1], closed_at=LOOK)]


def test_a_rule_needs_a_pattern_a_fair_coin_rarely_shows():
    """One check in 605 may be wrong: 5 accounts x (30 days x 4 checks + 1). Ten heads of ten come
    once in 1,024 throws, nine of nine once in 512; 12 or more of 13 in 14 of 8,192 (once in 585),
    13 or more of 14 in 15 of 16,384 (once in 1,092).
    """
    assert rules.is_rare(10, 10) and not rules.is_rare(9, 9) and not rules.is_rare(0, 0)
    assert not rules.is_rare(12, 13) and rules.is_rare(13, 14)
    assert rules_of(apart(*[-1] * 9)) == []
    assert rules_of(apart(*[-1] * 10)) == ["cool_down"]
    assert rules_of(apart(*[-1] * 12, 1)) == [] == rules_of(apart(*[-1] * 5, 1, 1, 1))
    assert rules_of(apart(*[-1] * 13, 1)) == ["cool_down"]
    uncounted = close(10, -1, at=LOOK, excluded="stale_price")
    assert rules_of([*apart(*[-1] * 9)[:-1], uncounted]) == []
    # Breaking even isn't a loss.
    assert rules_of(apart(*[0] * 10)) == []


@pytest.mark.parametrize("reason", ["stop", "trailing_stop", "liquidity_gone", "price_gone"])
def test_losing_stops_are_counted(reason):
    assert rules_of(apart(*[-1] * 10, reason=reason)) == ["cool_down", "stop_cluster"]
    assert rules_of(apart(*[1] * 10, reason=reason)) == []
    mixed = apart(*[-1] * 10, reason=reason)
    mixed[-1] = replace(mixed[-1], reason="time_stop")
    assert rules_of(mixed) == ["cool_down"]


def test_a_drop_counts_if_chance_rarely_produces_it():
    """n equal losses fall by n; chance reaches the root of 15 n: 14 don't exceed it, 15 do. A fall
    of less than half a position doesn't matter.
    """
    half = SOL // 20
    assert "drawdown" not in rules_of(apart(*[-half] * 14))
    assert "drawdown" in rules_of(apart(*[-half] * 15))
    assert "drawdown" not in rules_of(apart(*[-SOL // 100] * 15))
    # One loss of three positions among many small wins is chance: 9 < 15 x 9.
    assert rules_of(apart(*[1] * 14, -3 * SOL)) == []
    # 2 * exp(-15 / 2) is less than one in 605.
    assert 2 * math.exp(-rules.CHANCE_SQUARES / 2) * rules.ACCOUNTS * rules.LOOKS < 1


def test_a_poor_token_lost_at_many_times():
    """Closes of one token entered within an hour are one cluster; two hours apart they are ten."""
    assert rules_of(closes(*[-1] * 30, at=LOOK)) == []
    day_long = spread(*[-1] * 10, at=LOOK)[::-1]
    assert rules_of(day_long) == ["cool_down", "poor_mint"]
    assert rules_of([*apart(*[1] * 40), *day_long]) == ["poor_mint"]


def test_rules_run_every_six_hours():
    """At the first close of each six hours of the day, whatever the result."""
    bad = apart(*[-1] * 10)
    later = LOOK + rules.LOOK_MS
    assert rules_of(bad) == ["cool_down"]
    assert rules_of([*bad, close(11, -1, mint="X", at=later - 1)], at=later - 1) == []
    assert rules_of([*bad, close(11, -1, mint="X", at=later)], at=later) == ["cool_down"]


COIN_DAYS, COIN_TOKENS, COIN_SPENT = 30, 5, 10**9


def measure_fair_coin(accounts, a_day, losing=0.5, seed=1):
    """{rule: share of simulated accounts in which it fired}"""
    found = [
        find_fired(flip(random.Random(f"{seed}|{number}|{a_day}|{losing}"), a_day, losing))
        for number in range(accounts)
    ]
    return {
        rule.name: sum(rule.name in fired for fired in found) / accounts for rule in rules.RULES
    }


def flip(chance, a_day, losing):
    """Closes of an account, oldest first, entered an hour before they were closed."""
    closes = []
    for at in sorted(chance.randrange(COIN_DAYS * rules.DAY_MS) for _ in range(COIN_DAYS * a_day)):
        lost, mint = chance.random() < losing, f"token {chance.randrange(COIN_TOKENS)}"
        net = COIN_SPENT // 10 * (-1 if lost else 1)
        reason = "stop" if lost else "trailing_stop"
        closes.append(Close("", mint, mint, at - rules.HOUR_MS, at, reason, net, net, COIN_SPENT))
    return closes


def find_fired(closes):
    """The rules that fired, checked at each close as in a live account."""
    fired, pauses = set(), []
    for number, close in enumerate(closes):
        begin = close.closed_at - 2 * rules.LOOK_BACK_MS
        known = [one for one in closes[: number + 1] if one.closed_at > begin]
        found = rules.find_pauses(known, pauses, close.closed_at, applied=False, ident=str)
        pauses = [one for one in (*pauses, *found) if one.until > close.closed_at]
        fired |= {pause.rule for pause in found}
    return fired


def test_a_fair_coin_triggers_a_rule_in_at_most_one_account_of_five():
    """Twenty-four simulated accounts of 30 days. With a true rate of one in five, 12 of 24 or more
    occur once in a thousand times: the sum of C(24, i) 0.2**i 0.8**(24 - i) from 12 on.
    """
    tail = sum(math.comb(24, i) * 0.2**i * 0.8 ** (24 - i) for i in range(12, 25))
    assert tail < 0.0012
    fired = measure_fair_coin(24, 12)
    assert all(share < 12 / 24 for share in fired.values()), fired
    # An account that loses 17 of 20 closes is still detected.
    losing = measure_fair_coin(2, 12, 0.85)
    assert set(losing.values()) == {1}


@pytest.mark.parametrize(
    "effect, said",
    [
        ("half_size", "halved the size"),
        ("long_cooldown", "cool-down"),
        ("pause_mint", ""),
        ("pause_family", ""),
    ],
)
def test_a_pauses_end_reports_only_what_was_counted(effect, said):
    """Two positions of 1 SOL were opened while a pause was only observed; together they lost 0.03
    SOL.
    """
    facts = {"what": "would_have", "rule": "drawdown", "n": 2, "resultSol": "-0.03"}
    line = brain.format_line("pause", {**facts, "effect": effect})
    counted = "2 positions opened during that time have closed, for a total of -0.03 SOL."
    assert counted in line and said in line and "kept out" not in line


@pytest.mark.parametrize(
    "kind, facts, line",
    [
        (
            "pause",
            {"what": "begun", "rule": "stop_cluster", "effect": "pause_family", "numbers": "x_y"},
            "Paused (stop cluster, pause family): x_y; 8 closes counted.",
        ),
        (
            "fill",
            {"what": "not_filled", "symbol": "A_B", "why": "too_late"},
            ("The order in A_B was not filled: too late."),
        ),
        (
            "fill",
            {"what": "closed", "symbol": "A_B", "reason": "time_stop"},
            "Closed A_B for 2 SOL (time stop): 1 SOL net, 50%.",
        ),
    ],
)
def test_codes_are_put_into_words_and_names_kept(kind, facts, line):
    figures = {"n": 8, "sol": "2", "resultSol": "1", "returnPct": "50"}
    assert brain.format_line(kind, {**figures, **facts}) == line


@pytest.mark.parametrize(
    "kind, facts",
    [
        ("fill", {}),
        ("fill", {"what": "bought"}),
        ("pause", {"what": "would_have", "effect": "odd"}),
        ("refusal", {"reason": None}),
        ("novel", {"what": "x"}),
        ("decision", {"what": None}),
    ],
)
def test_a_line_with_unexpected_facts_still_renders(kind, facts):
    unread = f"A {kind} whose details can't be read.", "An entry whose details can't be read."
    assert brain.format_line(kind, facts) in unread


@pytest.mark.parametrize("key", sorted(brain.LINES.keys() - {"unreadable"}))
def test_every_line_of_the_diary_has_a_sentence(key):
    names = re.findall(r"{(\w+)", "".join(brain.LINES.values()))
    kind, what, effect = (*key.split(), "x", "x")[:3]
    facts = {**dict.fromkeys(names, "x"), "what": what, "effect": effect}
    assert "can't be read" not in brain.format_line(kind, facts)


@pytest.mark.parametrize(
    "apart_ms, mint, found",
    [
        (DAY_MS // 2, None, ["poor_mint"]),
        (DAY_MS, None, []),
        # Ten losses, and nine times 9,600,000 ms are a day, so only nine are younger.
        (9_600_000, "M", []),
        (9_599_999, "M", ["cool_down"]),
    ],
)
def test_a_rule_looks_back_a_limited_time(apart_ms, mint, found):
    """A week in one token, a day in all."""
    history = [
        replace(one, mint=f"{mint}{n}" if mint else one.mint)
        for n, one in enumerate(spread(*[-1] * 10, apart=apart_ms, at=LOOK))
    ]
    assert rules_of(history[::-1]) == found


def test_a_running_pause_is_not_begun_again():
    history = spread(*[-1] * 10, apart=DAY_MS // 2, at=LOOK)[::-1]
    running = Pause("p", "poor_mint", "pause_mint", "A", LOOK - 1, LOOK + 1, True, 8, DAY_MS, "")
    assert rules_of(history, [running]) == []
    assert rules_of(history, [replace(running, until=LOOK)]) == ["poor_mint"]
    assert rules_of(history, [replace(running, mint="B")]) == ["poor_mint"]


def test_every_pause_ends_within_seven_days_and_states_its_numbers():
    history = spread(*[-SOL] * 15, apart=61 * 60_000, reason="stop", at=LOOK)[::-1]
    found = rules.find_pauses(history, [], LOOK, applied=False, ident=str)
    assert [replace(one, id="", rule="") for one in found] == [
        Pause("", "", effect, mint, LOOK, LOOK + hours * HOUR_MS, False, 15, days * DAY_MS, numbers)
        for effect, mint, hours, days, numbers in (
            ("long_cooldown", None, 12, 1, "15 of 15 separate closes lost"),
            ("pause_family", None, 6, 1, "15 of 15 separate closes lost by a stop"),
            ("half_size", None, 24, 7, "15 SOL below the peak of 15 closes"),
            ("pause_mint", "A", 72, 7, "15 of 15 separate closes lost in this token"),
        )
    ]
    names = ["cool_down", "stop_cluster", "drawdown", "poor_mint"]
    assert [one.id for one in found] == names == [one.rule for one in found]


@pytest.mark.parametrize(
    "phase, effect, applied, at, size",
    [
        ("standard", None, True, START, 1000),
        ("guarded", None, True, START, 250),
        ("standard", "half_size", True, START, 500),
        ("guarded", "half_size", True, START, 125),
        ("standard", "half_size", False, START, 1000),
        ("standard", "half_size", True, START + DAY_MS, 1000),
    ],
)
def test_a_phase_and_pauses_only_reduce_entries(phase, effect, applied, at, size):
    pauses = [pause_of(effect, applied=applied)] if effect else []
    assert rules.size_for(1000, Phase(phase), pauses, "A", at) == size


def pause_of(effect, mint=None, applied=True):
    return Pause("p", "r", effect, mint, START, START + DAY_MS, applied, 8, DAY_MS, "")


def test_pauses_only_reduce_trading():
    assert rules.cooldown_for(300, [pause_of("long_cooldown")], "A", START) == 1200
    assert rules.cooldown_for(300, [], "A", START) == 300
    paused = [pause_of("pause_mint", "A")]
    assert [rules.in_force(paused, "pause_mint", mint, START) for mint in "AB"] == [True, False]
    assert [rules.positions_for(most, Phase("guarded")) for most in (1, 4)] == [1, 2]
    assert rules.positions_for(4, Phase("standard")) == 4


def test_a_phase_counts_each_day_once_and_needs_closes_and_days():
    """Heartbeats at a day's first and last ms; all 20 closes on 14 days are required."""
    phase, seen = Phase("guarded", START, closes=3), []
    for now in (5 * DAY_MS, 6 * DAY_MS - 1, 6 * DAY_MS, 6 * DAY_MS, 9 * DAY_MS + 1):
        phase = phase.on_day(now)
        seen.append((phase.days, phase.last_day))
    assert seen == [(1, 5), (1, 5), (2, 6), (2, 6), (3, 9)]
    assert phase == Phase("guarded", START, 3, 3, 9)
    told = {(20, 14): True, (19, 14): False, (20, 13): False, (21, 15): True}
    assert {
        (closes, days): Phase("guarded", 0, closes, days).is_over for closes, days in told
    } == told
    assert not Phase("standard", 0, 20, 14).is_over


@pytest.mark.parametrize("phase, paused, locked", [("guarded", 950, None), ("standard", None, 800)])
def test_guarded_start_pauses_at_five_percent_lost_and_restarts_at_twenty(phase, paused, locked):
    """Of 1,000; none of them in the other phase."""
    for equity in (1, 800, 801, 950, 951):
        lost = rules.lost_too_much(equity, 1000, Phase(phase))
        assert lost is (paused is not None and equity <= paused)
        is_locked = rules.is_locked(equity, 1000, Phase(phase))
        assert is_locked is (locked is not None and equity <= locked)


# ---- lessons -------------------------------------------------------------------------------------
def test_without_random_entries_or_from_one_hour_everything_is_a_pattern():
    """Three closes are enough for a sentence."""
    assert brain.find_lessons(closes(1, 1), START) == []
    three = brain.find_lessons(closes(1, 1, 1), START)
    assert {(one.n, one.is_pattern) for one in three} == {(3, True)}
    assert all(one.is_pattern for one in brain.find_lessons(week(SOL), START))
    together = closes(*[SOL // 50] * 12)
    assert all(one.is_pattern for one in brain.find_lessons(together, START, week(-SOL // 100)))


def test_a_pattern_counts_its_named_closes():
    history = closes(SOL // 10, -SOL // 5, *[SOL // 100] * 6)
    (found,) = (one for one in brain.find_lessons(history, START) if one.key == "all")
    # 0.1 - 0.2 + 0.06 of 8 SOL.
    assert found.text == (
        "Of 8 closes in 7 days, 7 won; the total was -0.04 SOL, -0.5% of the amount spent."
    )
    assert replace(found, text="", evidence={}) == brain.Lesson(
        "all",
        text="",
        n=8,
        window_ms=7 * DAY_MS,
        close_ids=tuple(f"close {number}" for number in range(8)),
        created_at=START,
        expires_at=START + 7 * DAY_MS,
        evidence={},
        is_pattern=True,
    )
    assert set(found.evidence) == {*results.describe_rates([]), "randomEntry"}


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
    lesson = brain.find_lessons([replace(one, symbol=symbol) for one in closes(*[1] * 8)], START)[
        -1
    ]
    assert lesson.text.startswith(f"Of 8 closes in {shown} in 7 days, 8 won;")
    facts = {"what": "bought", "symbol": symbol, "amount": "1", "sol": "2"}
    facts |= {"feesSol": "3", "slippageSol": "4"}
    assert brain.format_line("fill", facts) == (f"Bought 1 {shown} for 2 SOL, fees 3, slippage 4.")
    assert brain.format_line("refusal", {"symbol": "every trade", "detail": "told"}) == (
        "Refused every trade: told."
    )


def test_a_lesson_uses_a_tokens_current_name():
    *earlier, last = closes(*[-SOL // 100] * 8)
    found = brain.find_lessons([*earlier, replace(last, symbol="NEW")], START)
    # 0.08 of 8 SOL.
    assert {one.key: one.text for one in found}["token A"] == (
        "Of 8 closes in NEW in 7 days, 0 won; the total was -0.08 SOL, -1% of the amount spent."
    )


def test_an_effect_random_entries_also_show_is_not_a_lesson():
    """Closes of about 2% over six days, while random entries lost 1%."""
    good, bad = (week(net) for net in (SOL // 50, -SOL // 100))
    told = {one.key: one for one in brain.find_lessons(good, START, bad)}
    assert not told["all"].is_pattern
    assert told["all"].evidence["randomEntry"]["meanReturnPct"] < -1
    assert "the mean random entry -1" in told["all"].text
    for control in (good, [], bad[:9]):
        assert all(one.is_pattern for one in brain.find_lessons(good, START, control))
        assert all("random" not in one.text for one in brain.find_lessons(good, START, control))


def week(net):
    """Twenty-four closes in as many tokens over six days, with similar results."""
    return [
        replace(
            close(n, net + (n % 5 - 2) * SOL // 500, at=START - DAY_MS // 2 - n * DAY_MS // 4),
            mint=f"M{n}",
        )
        for n in range(24)
    ]


def test_closes_are_grouped_only_by_facts_known_at_entry():
    one = close(1, SOL, at=START - START % DAY_MS + 13 * 3_600_000)
    assert brain.list_keys(one) == ("all", "token A", "hours 2")
    assert brain.list_keys(replace(one, reason="stop", net=-SOL)) == brain.list_keys(one)
    many = [replace(one, id=str(n)) for n in range(3)]
    texts = [found.text for found in brain.find_lessons(many, one.closed_at)]
    assert texts[1].startswith("Of 3 closes entered from 12:00 to 18:00 UTC in 7 days, 3 won;")


def test_more_keys_need_stronger_evidence_each(monkeypatch):
    """The chance is multiplied by the kinds that had enough closes on both sides."""
    monkeypatch.setattr(brain, "find_chance", lambda own, random: 0.004)
    good = week(SOL // 50)
    found = brain.find_lessons(good, START, good)
    assert len({key for one in good for key in brain.list_keys(one)}) > 2
    assert all(one.is_pattern for one in found)
    monkeypatch.setattr(brain, "find_chance", lambda own, random: 0.004 if len(own) == 24 else None)
    assert [one.key for one in brain.find_lessons(good, START, good) if not one.is_pattern] == [
        "all"
    ]


def test_lessons_are_computed_weekly():
    first, second = closes(1, 1)
    week_end = first.closed_at // brain.LOOK_MS * brain.LOOK_MS + brain.LOOK_MS
    assert rules.is_first_within([first], brain.LOOK_MS)
    assert not rules.is_first_within(
        [first, replace(second, closed_at=week_end - 1)], brain.LOOK_MS
    )
    assert rules.is_first_within([first, replace(second, closed_at=week_end)], brain.LOOK_MS)


def test_a_comparison_covers_thirty_days_at_most():
    """One close a day; two on one day count as one."""
    for days, covered in ((29, 29), (30, 30), (31, 30)):
        history = [close(n, 1, at=START + n * DAY_MS) for n in range(days)]
        assert results.compare([*history, close(99, 1)], SOL)["daysCovered"] == covered
    assert results.describe_drawdown(history, 0) is None
    assert results.describe_drawdown(history[:1], 1) == 0
    # Nothing was spent, so it has no return.
    free = [close(1, 5, spent=0)]
    assert results.list_returns(free) == []
    assert results.compare_costs(free) == [
        {"costs": times, "meanReturnPct": None, "winRate": None} for times in (1, 2, 3)
    ]
    assert results.cost_share([close(1, -3, gross=0)]) is None


def test_ineligible_and_old_closes_are_ignored():
    def find(**about):
        return brain.find_lessons(closes(*[1] * 8, **about), START)

    week_ago = START - 7 * DAY_MS
    assert find(excluded="under_review") == find(at=week_ago) == []
    assert find(at=week_ago + 1)


@pytest.mark.parametrize("nets, wins, net", [((0, 1, 2, -5), 2, "-2"), ((), None, None)])
def test_results_count_wins_and_sum_eligible_closes(nets, wins, net):
    history = [*closes(*nets), close(9, 100, excluded="under_review")]
    assert brain.review_results(history) == {
        **{"closes": len(nets) + 1, "eligibleCloses": len(nets)},
        **{"excluded": {"under_review": 1}, "wins": wins, "netLamports": net},
    }


# ---- the comparison ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "count, sample",
    [(0, "none"), (1, "thin"), (9, "thin"), (10, "some"), (29, "some"), (30, "enough")],
)
def test_the_sample_counts_clusters(count, sample):
    """Any two are a day apart; five traders with the same trade add nothing."""
    history = [close(n, 1, at=START + n // 5 * DAY_MS) for n in range(5 * count)]
    shown = results.compare(history, 10 * SOL)
    assert (shown["sample"], shown["clusters"]) == (sample, count)


def test_the_comparison_sums_eligible_closes():
    """Returns 10, -5, 1 and 4%; gross 0.12, -0.04, 0.02 and 0.05 SOL, so costs took 0.05
    of 0.23.
    """
    history = [
        close(1, SOL * 10 // 100, gross=SOL * 12 // 100),
        close(2, -SOL * 5 // 100, gross=-SOL * 4 // 100, at=START + DAY_MS),
        close(3, SOL // 100, gross=SOL * 2 // 100),
        close(4, SOL * 8 // 100, gross=SOL * 10 // 100, spent=2 * SOL),
        close(5, SOL, excluded="old_pipeline"),
        close(6, SOL, excluded="under_review"),
    ]
    shown = results.compare(history, 10 * SOL)
    told = {"eligibleCloses": 4, "excluded": {"old_pipeline": 1, "under_review": 1}}
    told |= {"daysCovered": 2, "meanReturnPct": 2.5, "medianReturnPct": 2.5}
    told |= {"worstCloseReturnPct": -5.0, "winRate": 0.75}
    assert {name: shown[name] for name in told} == told
    # Additional costs of 2, 1, 1 and 2 hundredths: 8, -6, 0 and 3%; twice: 6, -7, -1 and 2.
    assert [(at["costs"], at["meanReturnPct"], at["winRate"]) for at in shown["atCosts"]] == [
        (1, 2.5, 0.75),
        (2, 1.25, 0.5),
        (3, 0.0, 0.5),
    ]
    assert shown["costShare"] == round((2 + 1 + 1 + 2) / (12 + 4 + 2 + 10), 4)


def test_an_empty_comparison_claims_nothing():
    shown = results.compare(closes(1, excluded="stale_price"), 10 * SOL)
    unknown = "meanReturnPct medianReturnPct winRate winRateInterval meanReturnInterval"
    unknown = {*unknown.split(), "worstCloseReturnPct", "costShare", "maxDrawdownPct"}
    assert {name for name, value in shown.items() if value is None} == unknown
    assert shown["intervalReason"] == "0 of the 5 days required for an interval"


def test_lesson_family_and_account_say_when_clusters_are_too_few():
    """Forty closes of one hour in one token are one observation."""
    history = closes(*[SOL // 100, -SOL // 50] * 20)
    lesson, *_ = brain.find_lessons(history, START)
    told = {"eligibleCloses": 40, "clusters": 1, "winRate": 0.5}
    told |= {"intervalReason": "1 of the 5 days required for an interval"}
    told |= {"winRateInterval": None, "meanReturnInterval": None}
    family, account = (find(history, 10 * SOL) for find in (results.compare, results.describe))
    for shown in (lesson.evidence, family, account):
        assert {name: shown[name] for name in told} == told


def test_returns_have_two_decimals():
    """A third of the amount spent on each of twelve, on six days."""
    history = [close(n, SOL, at=START + n * DAY_MS // 2, spent=3 * SOL) for n in range(12)]
    shown = results.compare(history, 10 * SOL)
    means = shown["meanReturnPct"], shown["medianReturnPct"], shown["worstCloseReturnPct"]
    assert (*means, *shown["meanReturnInterval"]) == (33.33,) * 5


# ---- the diary -----------------------------------------------------------------------------------


def test_only_news_is_posted_and_nothing_internal():
    for kind, what in (("fill", "failed"), ("refusal", "stale_snapshot"), ("pause", "observed")):
        assert brain.find_news(kind, {"what": what, "reason": what}) is None
    facts = {"what": "closed", "symbol": "AA"}
    found = brain.find_news("fill", {**facts, "id": "x", "until": 5})
    assert found == {**facts, "kind": "close"}
