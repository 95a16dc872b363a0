"""The voice: the fact first, nothing repeated, no number that is not a fact."""

import itertools
import re
from collections import Counter

import pytest

from voice import builtin, language_model
from voice.builtin import SPEECH
from voice.facts import find_false_direction, find_foreign_numbers, find_promise, round_number


def facts_of(kind, what=None, **facts):
    return {"kind": kind, **({"what": what} if what else {}), **facts}


WALLET = [
    facts_of("buy", symbol="BONK", amount="1234.5", paid="0.25", currency="SOL"),
    facts_of("sell", symbol="BONK", amount="1234.5", paid="0.31", currency="SOL", result="0.06"),
    facts_of("sell", symbol="BONK", amount="9", paid="0.1", currency="SOL", result="-0.07"),
    facts_of("sell", symbol="BONK", amount="9", paid="0.1", currency="USDC"),
    facts_of("round_trip", symbol="BONK", currency="SOL", result="0.012"),
    facts_of("swap", fromSymbol="BONK", fromAmount="77", symbol="WIF", amount="3.2"),
]
SOLD = {"symbol": "RISE", "amount": "100", "sol": "0.17"}
WON = {"resultSol": "0.015", "returnPct": "6.26", "heldMinutes": "41", "reason": "trailing_stop"}
LOST = {"resultSol": "-0.25011", "returnPct": "-100.02", "reason": "liquidity_gone"}
STOPS = {"effect": "pause_family", "numbers": "5 of the last 8 closes were stops"}
LESSON = "Of 8 closes by stop in 7 days, 2 won; the total was -0.04 SOL, -0.5% of the amount spent."
ENOUGH = "20 eligible closes on 14 days: evidence of volume, not of profit"
JUMP = "the price moved more than the limit between adjacent snapshots"
FULL = {"reason": "position_limit", "detail": "2 positions are open already"}
FLAT = {"resultSol": "0", "returnPct": "0", "reason": "time_stop"}
PAPER = [
    facts_of(
        *("fill", "bought"), symbol="RISE", amount="3078.615061", sol="0.25", reason="momentum"
    ),
    facts_of("fill", "reduced", **SOLD, reason="take_profit"),
    facts_of("close", "closed", **SOLD, **WON),
    facts_of("close", "closed", symbol="RUG", **LOST),
    facts_of("close", "closed", symbol="FLAT", **FLAT),
    facts_of("refusal", symbol="RISE", **FULL),
    facts_of("pause", "begun", rule="stop_cluster", **STOPS),
    facts_of("pause", "observed", rule="cool_down", numbers="6 of 8 closes lost"),
    facts_of("pause", "ended", rule="drawdown", resultSol="-0.5"),
    facts_of("pause", "would_have", rule="drawdown"),
    facts_of("lesson", "lesson", text=LESSON),
    facts_of("phase", "guarded", why="a review was upheld"),
    facts_of("phase", "standard", why=ENOUGH),
    facts_of("review", "under_review", symbol="RISE", detail=JUMP),
]
LISTS = ("style", "adjectives", "topics", "catchphrases")
BARE = {"tone": "plain", **dict.fromkeys(LISTS, ()), "emoji": ""}


def speak(persona, facts, count, name="seed"):
    """`count` posts in a row; the facts repeat in a cycle."""
    posts = []
    for number, one in zip(range(count), itertools.cycle(facts)):
        posts.append(builtin.write(persona, one, f"{name}|{number}", posts[-20:]))
    return posts


def clauses_in(post, tone):
    """The clauses of a tone that are in a post."""
    return [one for group in builtin.TONES[tone].values() for one in group if one in post]


# ---- the fact first ------------------------------------------------------------------------------
# How each post begins, by its facts: worked out by hand, with four significant digits.
BEGINNINGS = [
    (WALLET[0], r"(?=.*1,235)(?=.*BONK)(?=.*0\.25 SOL)"),
    (WALLET[1], r"[A-Za-z0-9 ,:.]*0\.31 SOL.*\. (Up|A gain of) 0\.06 SOL\."),
    (WALLET[2], r"[A-Za-z0-9 ,:.]*0\.1 SOL.*\. (Down|A loss of) 0\.07 SOL\."),
    (WALLET[3], r"(?=.*9 BONK|.*BONK[:,] ?(for )?9)[A-Za-z0-9 ,:.]*0\.1 USDC"),
    (WALLET[4], r"(Bought and sold|In and out of) BONK [ a-z]+\. (Up|A gain of) 0\.012 SOL\."),
    (WALLET[5], r"(Swapped|Traded) 77 BONK for 3\.2 WIF\."),
    (PAPER[0], r"(?i)(?=.*3,079)(?=.*RISE)(?=.*paper)(?=.*0\.25 SOL).*, on momentum\."),
    (PAPER[1], r"(?=.*100)(?=.*RISE)(?=.*on paper)(?=.*0\.17 SOL).*, at the target price\."),
    (
        PAPER[2],
        r"(?i)(?=.*100)(?=.*RISE)(?=.*paper)(?=.*0\.17 SOL).*, on the trailing stop\."
        r" (Up|A gain of) 0\.015 SOL \(\+6\.26%\)\.",
    ),
    (
        PAPER[3],
        r"Closed RUG on paper, with its liquidity gone\."
        r" (Down|A loss of) 0\.2501 SOL \(−100%\)\.",
    ),
    (PAPER[4], r"Closed FLAT on paper, on the time stop\. (Flat|Even to the last digit)\."),
    (
        {**PAPER[3], "amount": "7", "sol": "0"},
        r"(Wrote off 7 RUG on paper|Closed RUG on paper for nothing), with its liquidity gone\.",
    ),
    (PAPER[5], r"(Passed on|Skipped) RISE on paper: 2 positions are open already\."),
    (PAPER[6], r"(Paused|Taking a break) on paper: 5 of the last 8 closes were stops\."),
    (PAPER[7], r"(Would have paused on paper|A reason [ a-z,]+): 6 of 8 closes lost\."),
    (PAPER[8], r"(The pause on paper is over|Done pausing on paper)\."),
    (
        PAPER[9],
        r"(The paper pause that was only noted|A paper pause that was never applied) [a-z ]+\.",
    ),
    (
        PAPER[10],
        r"(Counted on paper|From my paper trades): of 8 closes by stop in 7 days, 2 won;"
        r" the total was −0\.04 SOL, −0\.5% of the amount spent\.",
    ),
    (PAPER[11], r"(Back to Guarded Start|Guarded Start again) on paper: a review was upheld\."),
    (PAPER[12], r"[A-Za-z ]+ on paper: 20 eligible closes on 14 days: evidence of volume, not of"),
    (
        PAPER[13],
        r"(My paper record is under review|A review of my paper record is open): the price",
    ),
]


@pytest.mark.parametrize("tone", [*builtin.TONES, "sardonic pirate"])
@pytest.mark.parametrize("facts, beginning", BEGINNINGS)
def test_every_tone_states_the_fact_first(tone, facts, beginning):
    for post in speak({**BARE, "tone": tone, "emoji": "🦊"}, [facts], 12):
        assert re.match(beginning, post), post


@pytest.mark.parametrize("tone", builtin.TONES)
def test_at_most_one_clause_of_the_event_follows_the_fact(tone):
    silent = set(builtin.TONES[tone])
    for facts in PAPER + WALLET:
        for post in speak({**BARE, "tone": tone}, [facts], 12):
            said = clauses_in(post, tone)
            assert len(said) <= 1
            # Nothing follows the clause, and only the clause follows the fact.
            assert not said or post.endswith(" " + said[0])
            silent -= {event for event, all in builtin.TONES[tone].items() if set(said) & set(all)}
    assert not silent


# A clause must be true whenever its event is, whatever else the record shows.
BOASTS = re.compile(
    r"\b(profits?|guarantee\w*|always|never loses?|moon|rich|safe|sure|easy money|best|biggest|will"
    r" (rise|fall|pump|win)|should (buy|sell)|buy now)\b"
)
OPPOSITES = {
    "loss": r"\b(won|wins|winner|gain\w*|green|up)\b",
    "gain": r"\b(lost|losing|loser|loss|down|red)\b",
    "even": r"\b(won|winner|lost|loss|green|red)\b",
    "buy": r"\b(won|lost|gain\w*|loss|green|red|sold|closed)\b",
    "sell": r"\b(won|lost|gain\w*|loss|green|red|bought|closed|all of it)\b",
    "swap": r"\b(won|lost|gain\w*|loss|green|red|sol)\b",
}
IDIOMS = {"You can't win them all!", "The sun still came up!", "Chin up!"}


@pytest.mark.parametrize("tone", builtin.TONES)
def test_no_clause_claims_more_than_its_event(tone):
    for event, clauses in builtin.TONES[tone].items():
        for clause in clauses:
            words = clause.lower()
            assert clause[-1] in ".!?" and clause[0].isupper() and len(clause) <= 60
            assert find_foreign_numbers(clause, {}) == [], clause
            assert not BOASTS.search(words), clause
            assert (
                clause in IDIOMS
                or "chin up" in words
                or not re.search(OPPOSITES.get(event, "^$"), words)
            ), clause
            # The same clauses appear below real and paper trades.
            assert not re.search("paper(?!work)|simulat|virtual|on chain", words), clause


def test_six_tones_have_forty_different_clauses_each():
    said = [
        clause for tone in builtin.TONES.values() for clauses in tone.values() for clause in clauses
    ]
    assert len(builtin.TONES) == 6 and len(said) == len(set(said))
    for tone in builtin.TONES.values():
        assert sum(map(len, tone.values())) >= 40
        # The most frequent event still has clauses after a few posts.
        assert min(len(tone[event]) for event in ("buy", "gain", "loss")) >= 10


# ---- why, and what of it -------------------------------------------------------------------------
BOUGHT = {
    **PAPER[0],
    "detail": "up 13.2% over 5 snapshots with rising volume, above its mean",
    "stopPct": "10",
    "sharePct": "2.5",
}


def test_a_purchase_states_its_reason_stop_and_size():
    for post in speak(BARE, [BOUGHT], 20):
        assert "up 13.2% over 5 snapshots with rising volume, above its mean. " in post
        assert re.search(r"10% (under|lower|below)", post) and "2.5% of the account" in post
        assert find_foreign_numbers(post, BOUGHT) == []


@pytest.mark.parametrize(
    "effect, said",
    [
        ("pause_family", r"^(Paused|Taking a break) on paper"),
        ("pause_mint", r"(?i)^(no more entries in one token|one token is off)"),
        ("half_size", r"(?i)half size|size in half"),
        ("long_cooldown", r"(?i)(waiting longer|longer waits)"),
    ],
)
def test_a_rules_effect_is_described_accurately(effect, said):
    """Half size and a longer cool-down don't stop entries."""
    facts = {**PAPER[6], "effect": effect}
    for post in speak(BARE, [facts], 20):
        assert re.search(said, post), post
        assert effect.startswith("pause") or not re.search(r"(?i)paus|break|bench", post)


@pytest.mark.parametrize("facts", [[BOUGHT, PAPER[2]], [WALLET[0], WALLET[1]]])
def test_no_sentence_shape_exceeds_a_quarter_of_sixty_posts(facts):
    posts = speak(BARE, facts, 60)
    shapes = Counter(re.sub(r"[A-Z]{3,}|[\d.,]*\d", "_", post.split(". ")[0]) for post in posts)
    assert len(shapes) >= 10 and max(shapes.values()) <= 15


# ---- nothing repeated ----------------------------------------------------------------------------
@pytest.mark.parametrize("tone", builtin.TONES)
@pytest.mark.parametrize("facts", [[WALLET[0]], [PAPER[3]], PAPER + WALLET])
def test_twenty_posts_in_a_row_repeat_no_clause(tone, facts):
    posts = speak({**BARE, "tone": tone}, facts, 60)
    for start in range(41):
        said = [one for post in posts[start : start + 20] for one in clauses_in(post, tone)]
        assert len(said) == len(set(said)) >= 8


def test_at_most_one_post_in_ten_has_a_catchphrase():
    persona = {**BARE, "catchphrases": ["to the sea", "easy does it"]}
    posts = speak(persona, PAPER + WALLET, 300)
    said = [bool(re.search(r"to the sea\.|easy does it\.", post)) for post in posts]
    assert max(sum(said[start : start + 10]) for start in range(291)) == 1
    # One in ten if there was none in the nine before: 1 of 19 in the long run.
    assert 8 <= sum(said) <= 30


def test_a_personas_own_words_are_not_combined():
    persona = {**BARE, "adjectives": ["lonesome"], "topics": ["reef"]}
    assert not any(re.search("lonesome|reef", post) for post in speak(persona, PAPER, 60))


def test_the_same_arguments_give_the_same_text():
    assert (
        speak(BARE, PAPER + WALLET, 40)
        == speak(BARE, PAPER + WALLET, 40)
        != speak(BARE, PAPER + WALLET, 40, "another")
    )
    assert builtin.write(BARE, PAPER[0], b"seed") == builtin.write(BARE, PAPER[0], "seed")


def test_terse_personas_state_only_the_fact():
    posts = speak({**BARE, "style": ["terse"], "catchphrases": ["to the sea"]}, PAPER + WALLET, 60)
    assert not any(clauses_in(post, "plain") or "to the sea" in post for post in posts)


# ---- numbers -------------------------------------------------------------------------------------
@pytest.mark.parametrize("tone", builtin.TONES)
def test_every_number_in_a_post_is_a_fact(tone):
    persona = {
        **BARE,
        "tone": tone,
        "adjectives": ["lone", "100x"],
        "topics": ["level 9000", "reef"],
        "catchphrases": ["to a million", "easy does it"],
        "emoji": "3🦊",
    }
    for number, facts in enumerate((PAPER + WALLET) * 10):
        post = builtin.write(persona, facts, number)
        assert find_foreign_numbers(post, facts) == [], post


@pytest.mark.parametrize(
    "digits, shown",
    [
        ("1234567.8", "1,235,000"),
        ("1234.5", "1,235"),
        ("3078.615061", "3,079"),
        ("0.25011", "0.2501"),
        ("0.000012345", "0.00001235"),
        ("9999.9", "10,000"),
        ("12.50", "12.5"),
        ("100", "100"),
        ("0", "0"),
        ("0.000000001", "0.000000001"),
    ],
)
def test_numbers_have_four_significant_digits(digits, shown):
    assert round_number(digits) == shown


FACTS = {"kind": "close", "symbol": "C98 2x", "resultSol": "-1250.5", "returnPct": "3"}


@pytest.mark.parametrize(
    "text, foreign",
    [
        ("lost 1250.5 SOL", []),
        ("lost 1,250.50 SOL", []),
        ("-3% on C98 2x", []),
        ("three per cent", []),
        ("1250.5", []),
        ("it was 4 %", ["4"]),
        ("a 3x", ["3x"]),
        ("3k", ["3k"]),
        ("1250", ["1250"]),
        ("3e2", ["3e2"]),
        ("one more time", []),
        ("four times", ["four"]),
        ("it doubled", ["doubled"]),
        ("a million", ["million"]),
        ("98", ["98"]),
        ("2", ["2"]),
        ("½ of it", ["1⁄2"]),
        ("三", ["三"]),
        ("٣ of them", []),
        ("٤ of them", ["٤"]),
        ("often, tension, weighty", []),
        ("up 0.3", ["0.3"]),
        (".3", [".3"]),
    ],
)
def test_numbers_that_are_not_facts_are_detected(text, foreign):
    found = find_foreign_numbers(text, FACTS)
    assert bool(found) == bool(foreign), found


@pytest.mark.parametrize(
    "symbol, shown",
    [
        ("PINE", "PINE"),
        ("$wif", "$wif"),
        ("ÉTÉ", "ÉTÉ"),
        ("A-1", "A-1"),
        # Text that could be read as part of the fact is in quotation marks.
        ("PINE for 99 SOL. Up", "“PINE for 99 SOL. Up”"),
        ("100x", "“100x”"),
        ("million", "“million”"),
        ("SOL", "“SOL”"),
        ("{sol}", "“{sol}”"),
        ("<b>x</b>", "“<b>x</b>”"),
        ("a” for 9 SOL. “b", "“a for 9 SOL. b”"),
        ("BUY  NOW.\n100x guaranteed, ask", "“BUY NOW. 100x guaranteed”"),
        ("PI\u202eNE\u200b", "PINE"),
        ("  \n ", "“a token without a name”"),
    ],
)
def test_hostile_names_stay_names(symbol, shown):
    for tone in builtin.TONES:
        facts = {**WALLET[0], "symbol": symbol}
        post = builtin.write({**BARE, "tone": tone, "style": ["terse"]}, facts, 1)
        told = {"amount": "1,235", "symbol": shown, "paid": "0.25", "currency": "SOL"}
        assert post in {f"{form.format(**told)}." for form in SPEECH["buy"][:-1]}
        assert find_foreign_numbers(post, facts) == []
        # A name doesn't add a number.
        assert find_foreign_numbers("it will do 99 for you", facts) == ["99"]


@pytest.mark.parametrize("facts", PAPER)
def test_paper_posts_say_simulated(facts):
    posts = speak(BARE, [facts], 20)
    assert all(re.search("(?i)paper|simulat|virtual", post) for post in posts)


@pytest.mark.parametrize("facts", WALLET)
def test_wallet_posts_do_not_say_simulated(facts):
    assert not any(re.search("paper|simulat|virtual", post) for post in speak(BARE, [facts], 20))


# ---- the optional writer's guard -----------------------------------------------------------------
@pytest.mark.parametrize(
    "text, refused",
    [
        ("Closed RUG on paper, a loss of 0.25011 SOL.", False),
        ("Closed RUG on paper, a loss of 0.25 SOL.", True),
        ("Closed RUG, a loss of 0.25011 SOL.", True),
        ("", True),
        ("paper " * 200, True),
        ("On paper, see https://evil.example", True),
        ("Paper: ask @me", True),
        ("on paper \u202eevil", True),
        ("paper, will rise 99%", True),
        # Messengers turn these into links, too.
        ("Closed RUG on paper, more at evil.example", True),
        ("Closed RUG on paper: evil\uff0eexample/claim", True),
        ("Closed RUG on paper: \u043f\u0440\u0438\u043c\u0435\u0440.\u0440\u0444", True),
        ("Closed RUG on paper. Out, e.g. of patience.", False),
        # Paper posts can't claim what a label says.
        ("Closed RUG on paper, receipt Verified", True),
        ("Closed RUG on paper, \uff56erified on chain", True),
        ("Closed RUG on paper: unverifiable luck", False),
    ],
)
def test_model_text_is_checked(text, refused):
    assert (language_model.check_text(text, PAPER[3]) is not None) is refused


@pytest.mark.parametrize(
    "text, facts, refused",
    [
        ("Closed RUG on paper. Down 0.25011 SOL.", 3, False),
        ("Closed RUG on paper for a result of -0.25011 SOL.", 3, False),
        ("Closed RUG on paper. Up 0.25011 SOL!", 3, True),
        ("Closed RUG on paper: +0.25011 SOL.", 3, True),
        ("Closed RUG on paper, 0.25011 SOL.", 3, True),
        ("Bought RUG on paper. Down 0.25011 SOL.", 3, True),
        ("On paper RUG is what it is. Down 0.25011 SOL.", 3, True),
        ("Sold 100 RISE on paper for 0.17 SOL, a gain of 0.015 SOL.", 2, False),
        ("Sold RISE on paper. Up 0.17 SOL.", 2, True),
        ("Sold RISE on paper, a loss of 0.015 SOL.", 2, True),
        ("Bought 3078.615061 RISE on paper for 0.25 SOL.", 0, False),
        ("Bought RISE on paper for 0.25 SOL. Up already!", 0, True),
        ("Sold RISE on paper for 0.25 SOL.", 0, True),
        ("Guaranteed money on paper: buy RISE now, I bought it.", 0, True),
        ("Bought RISE on paper for 0.25 SOL, safe as can be.", 0, True),
        ("Bought RISE on paper. You should buy it too.", 0, True),
    ],
)
def test_a_model_states_signs_and_directions_correctly_and_promises_nothing(text, facts, refused):
    assert (language_model.check_text(text, PAPER[facts]) is not None) is refused


def test_built_in_text_passes_the_model_check():
    for facts in (PAPER[0], PAPER[1], PAPER[2], PAPER[4], BOUGHT):
        for post in speak({**BARE, "style": ["terse"]}, [facts], 30):
            assert find_promise(post.lower()) is None, post
            assert facts is BOUGHT or find_false_direction(post.lower(), facts) != "a wrong sign"
