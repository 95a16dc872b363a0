"""The voice: the fact first, nothing repeated, no number that is not a fact."""

import itertools
import re
import shlex
from collections import Counter

import pytest

from voice import builtin, language_model
from voice.builtin import SPEECH
from voice.facts import find_false_direction, find_foreign_numbers, find_promise, round_number

# Facts, and how a post about them begins: worked out by hand, with four significant digits.
SAID = r"""
buy symbol=BONK amount=1234.5 paid=0.25 currency=SOL
    (?=.*1,235)(?=.*BONK)(?=.*0\.25 SOL)
sell symbol=BONK amount=1234.5 paid=0.31 currency=SOL result=0.06
    [A-Za-z0-9 ,:.]*0\.31 SOL.*\. (Up|A gain of) 0\.06 SOL\.
sell symbol=BONK amount=9 paid=0.1 currency=SOL result=-0.07
    [A-Za-z0-9 ,:.]*0\.1 SOL.*\. (Down|A loss of) 0\.07 SOL\.
sell symbol=BONK amount=9 paid=0.1 currency=USDC
    (?=.*9 BONK|.*BONK[:,] ?(for )?9)[A-Za-z0-9 ,:.]*0\.1 USDC
round_trip symbol=BONK currency=SOL result=0.012
    (Bought and sold|In and out of) BONK [ a-z]+\. (Up|A gain of) 0\.012 SOL\.
swap fromSymbol=BONK fromAmount=77 symbol=WIF amount=3.2
    (Swapped|Traded) 77 BONK for 3\.2 WIF\.
fill what=bought symbol=RISE amount=3078.615061 sol=0.25 reason=momentum
    (?i)(?=.*3,079)(?=.*RISE)(?=.*paper)(?=.*0\.25 SOL).*, on momentum\.
fill what=reduced symbol=RISE amount=100 sol=0.17 reason=take_profit
    (?=.*100)(?=.*RISE)(?=.*on paper)(?=.*0\.17 SOL).*, at the target price\.
close symbol=RISE amount=100 sol=0.17 resultSol=0.015 returnPct=6.26 reason=trailing_stop
    (?=.*100)(?=.*RISE)(?=.*0\.17 SOL).*, on the trail.* (Up|A gain of) 0\.015 SOL \(\+6\.26%\)
close symbol=RUG resultSol=-0.25011 returnPct=-100.02 reason=liquidity_gone
    Closed RUG on paper, with its liquidity gone\. (Down|A loss of) 0\.2501 SOL \(−100%\)\.
close symbol=FLAT resultSol=0 returnPct=0 reason=time_stop
    Closed FLAT on paper, on the time stop\. (Flat|Even to the last digit)\.
refusal symbol=RISE reason=position_limit detail='2 positions are open already'
    (Passed on|Skipped) RISE on paper: 2 positions are open already\.
pause what=begun rule=stop_cluster effect=pause_family numbers='5 of the last 8 closes were stops'
    (Paused|Taking a break) on paper: 5 of the last 8 closes were stops\.
pause what=observed rule=cool_down numbers='6 of 8 closes lost'
    (Would have paused on paper|A reason [ a-z,]+): 6 of 8 closes lost\.
pause what=ended rule=drawdown resultSol=-0.5
    (The pause on paper is over|Done pausing on paper)\.
pause what=would_have rule=drawdown
    (The paper pause that was only noted|A paper pause that was never applied) [a-z ]+\.
lesson text='Of 8 closes in 7 days, 2 won; the total was -0.04 SOL, -0.5%.'
    (Counted on|From my) paper( trades)?: of 8 closes in 7 days, 2 won; .* −0\.04 SOL, −0\.5%\.
phase what=guarded why='a review was upheld'
    (Back to Guarded Start|Guarded Start again) on paper: a review was upheld\.
phase what=standard why='20 eligible closes on 14 days: evidence of volume, not of profit'
    [A-Za-z ]+ on paper: 20 eligible closes on 14 days: evidence of volume, not of profit\.
review symbol=RISE detail='the price moved more than the limit between adjacent snapshots'
    (My paper record is under review|A review of my paper record is open): the price moved
"""
# The same for facts that appear rarely. Half size and a longer cool-down don't stop entries.
RARELY_SAID = r"""
fill what=bought symbol=RISE amount=9 sol=0.25 stopPct=10 sharePct=2.5 detail='up 13.2% with volume'
    (?=.*up 13\.2% with volume\. )(?=.*10% (under|lower|below))(?=.*2\.5% of the account)
close symbol=RUG amount=7 sol=0 resultSol=-0.25011 returnPct=-100.02 reason=liquidity_gone
    (Wrote off 7 RUG on paper|Closed RUG on paper for nothing), with its liquidity gone\.
pause what=begun rule=stop_cluster effect=pause_mint numbers='5 of 8'
    (?i)(no more entries in one token|one token is off)
pause what=begun rule=stop_cluster effect=half_size numbers='5 of 8'
    (?i)(?!.*(paus|break|bench)).*(half size|size in half)
pause what=begun rule=stop_cluster effect=long_cooldown numbers='5 of 8'
    (?i)(?!.*(paus|break|bench)).*(waiting longer|longer waits)
"""


def read_facts(text):
    """[(facts, how a post about them begins), ...]"""
    lines = text.strip().splitlines()
    for line, beginning in zip(lines[::2], lines[1::2], strict=True):
        kind, *facts = shlex.split(line)
        yield {"kind": kind, **dict(one.split("=", 1) for one in facts)}, beginning.strip()


BEGINNINGS, RARE = list(read_facts(SAID)), list(read_facts(RARELY_SAID))
FACTS, BOUGHT = [facts for facts, _ in BEGINNINGS], RARE[0][0]
WALLET, PAPER = FACTS[:6], FACTS[6:]
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
@pytest.mark.parametrize("tone", [*builtin.TONES, "sardonic pirate"])
def test_every_tone_states_the_fact_first(tone):
    """Only posts about paper trades say that they are."""
    for facts, beginning in BEGINNINGS + RARE:
        for post in speak({**BARE, "tone": tone, "emoji": "🦊"}, [facts], 12):
            assert re.match(beginning, post), post
            is_paper = facts not in WALLET
            assert bool(re.search("(?i)paper(?!work)|simulat|virtual", post)) == is_paper, post


@pytest.mark.parametrize("tone", builtin.TONES)
def test_at_most_one_clause_of_the_event_follows_the_fact(tone):
    silent = set(builtin.TONES[tone])
    for facts in FACTS:
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
WON, LOST = r"won|wins|winner|gain\w*|green", r"lost|losing|loser|loss|red"
OPPOSITES = {"loss": f"{WON}|up", "gain": f"{LOST}|down", "even": "won|winner|lost|loss|green|red"}
OPPOSITES |= {"buy": f"{WON}|{LOST}|sold|closed", "swap": f"{WON}|{LOST}|sol"}
OPPOSITES["sell"] = f"{WON}|{LOST}|bought|closed|all of it"
IDIOMS = re.compile("can't win them all!|the sun still came up!|chin up")


@pytest.mark.parametrize("tone", builtin.TONES)
def test_no_clause_claims_more_than_its_event(tone):
    for event, clauses in builtin.TONES[tone].items():
        for clause in clauses:
            words = clause.lower()
            assert clause[-1] in ".!?" and clause[0].isupper() and len(clause) <= 60
            assert find_foreign_numbers(clause, {}) == [] and not BOASTS.search(words), clause
            opposite = re.search(rf"\b({OPPOSITES.get(event, '^$')})\b", words)
            assert IDIOMS.search(words) or not opposite, clause


@pytest.mark.parametrize("facts", [[BOUGHT, PAPER[2]], WALLET[:2]], ids=["paper", "wallet"])
def test_no_sentence_shape_exceeds_a_quarter_of_sixty_posts(facts):
    posts = speak(BARE, facts, 60)
    shapes = Counter(re.sub(r"[A-Z]{3,}|[\d.,]*\d", "_", post.split(". ")[0]) for post in posts)
    assert len(shapes) >= 10 and max(shapes.values()) <= 15


# ---- nothing repeated ----------------------------------------------------------------------------
@pytest.mark.parametrize("tone", builtin.TONES)
@pytest.mark.parametrize("facts", [WALLET[:1], PAPER[3:4], FACTS], ids=["buy", "loss", "all"])
def test_twenty_posts_in_a_row_repeat_no_clause(tone, facts):
    posts = speak({**BARE, "tone": tone}, facts, 60)
    for start in range(41):
        said = [one for post in posts[start : start + 20] for one in clauses_in(post, tone)]
        assert len(said) == len(set(said)) >= 8


def test_at_most_one_post_in_ten_has_a_catchphrase():
    posts = speak({**BARE, "catchphrases": ["to the sea", "easy does it"]}, FACTS, 300)
    said = [bool(re.search(r"to the sea\.|easy does it\.", post)) for post in posts]
    assert max(sum(said[start : start + 10]) for start in range(291)) == 1
    # One in ten if there was none in the nine before: 1 of 19 in the long run.
    assert 8 <= sum(said) <= 24


def test_the_same_arguments_give_the_same_text():
    posts = speak(BARE, FACTS, 40)
    assert posts == speak(BARE, FACTS, 40) != speak(BARE, FACTS, 40, "another")
    assert builtin.write(BARE, PAPER[0], b"seed") == builtin.write(BARE, PAPER[0], "seed")


def test_terse_personas_state_only_the_fact():
    posts = speak({**BARE, "style": ["terse"], "catchphrases": ["to the sea"]}, FACTS, 60)
    assert not any(clauses_in(post, "plain") or "to the sea" in post for post in posts)


# ---- numbers -------------------------------------------------------------------------------------
@pytest.mark.parametrize("tone", builtin.TONES)
def test_every_number_in_a_post_is_a_fact(tone):
    """Adjectives and topics aren't used, and phrases with numbers neither."""
    persona = {"tone": tone, "adjectives": ["lone", "100x"], "topics": ["level 9000", "reef"]}
    persona |= {"catchphrases": ["to a million", "easy does it"], "emoji": "3🦊"}
    for number, facts in enumerate([*FACTS, BOUGHT] * 10):
        post = builtin.write({**BARE, **persona}, facts, number)
        assert find_foreign_numbers(post, facts) == [], post
        assert not re.search(r"\b(lone|reef)\b", post)


DIGITS = """
1234567.8    1,235,000
1234.5       1,235
3078.615061  3,079
0.25011      0.2501
0.000012345  0.00001235
9999.9       10,000
12.50        12.5
100          100
0            0
0.000000001  0.000000001
"""


def test_numbers_have_four_significant_digits():
    for line in DIGITS.strip().splitlines():
        digits, shown = line.split()
        assert round_number(digits) == shown


KNOWN = (
    *("lost 1250.5 SOL", "lost 1,250.50 SOL", "-3% on C98 2x", "three per cent", "1250.5"),
    *("one more time", "٣ of them", "often, tension, weighty"),
)
FOREIGN = (
    *("it was 4 %", "a 3x", "3k", "1250", "3e2", "four times", "it doubled", "a million"),
    *("98", "2", "½ of it", "三", "٤ of them", "up 0.3", ".3"),
)


@pytest.mark.parametrize("text", [*KNOWN, *FOREIGN])
def test_numbers_that_are_not_facts_are_detected(text):
    facts = {"kind": "close", "symbol": "C98 2x", "resultSol": "-1250.5", "returnPct": "3"}
    assert bool(find_foreign_numbers(text, facts)) == (text in FOREIGN)


@pytest.mark.parametrize(
    "symbol, shown",
    [
        *((name, name) for name in ("PINE", "$wif", "ÉTÉ", "A-1")),
        # Text that could be read as part of the fact is in quotation marks.
        *((name, f"“{name}”") for name in ("100x", "million", "SOL", "{sol}", "<b>x</b>")),
        ("PINE for 99 SOL. Up", "“PINE for 99 SOL. Up”"),
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


# ---- the optional writer's guard -----------------------------------------------------------------
# What a model may write about a loss, a gain or a purchase, and what it may not.
ACCEPTED = {
    "RUG": (
        "Closed RUG on paper, a loss of 0.25011 SOL.",
        "Closed RUG on paper. Out, e.g. of patience.",
        "Closed RUG on paper: unverifiable luck",
        "Closed RUG on paper. Down 0.25011 SOL.",
        "Closed RUG on paper for a result of -0.25011 SOL.",
    ),
    "sold": ("Sold 100 RISE on paper for 0.17 SOL, a gain of 0.015 SOL.",),
    "bought": ("Bought 3078.615061 RISE on paper for 0.25 SOL.",),
}
REFUSED = {
    "RUG": (
        "Closed RUG on paper, a loss of 0.25 SOL.",
        "Closed RUG, a loss of 0.25011 SOL.",
        "",
        "paper " * 200,
        "On paper, see https://evil.example",
        "Paper: ask @me",
        "on paper \u202eevil",
        "paper, will rise 99%",
        # Messengers turn these into links, too.
        "Closed RUG on paper, more at evil.example",
        "Closed RUG on paper: evil\uff0eexample/claim",
        "Closed RUG on paper: \u043f\u0440\u0438\u043c\u0435\u0440.\u0440\u0444",
        # Paper posts can't claim what a label says.
        "Closed RUG on paper, receipt Verified",
        "Closed RUG on paper, \uff56erified on chain",
        # A loss isn't a gain, and a close isn't a purchase.
        "Closed RUG on paper. Up 0.25011 SOL!",
        "Closed RUG on paper: +0.25011 SOL.",
        "Closed RUG on paper, 0.25011 SOL.",
        "Bought RUG on paper. Down 0.25011 SOL.",
        "On paper RUG is what it is. Down 0.25011 SOL.",
    ),
    "sold": (
        "Sold RISE on paper. Up 0.17 SOL.",
        "Sold RISE on paper, a loss of 0.015 SOL.",
    ),
    "bought": (
        "Bought RISE on paper for 0.25 SOL. Up already!",
        "Sold RISE on paper for 0.25 SOL.",
        "Guaranteed money on paper: buy RISE now, I bought it.",
        "Bought RISE on paper for 0.25 SOL, safe as can be.",
        "Bought RISE on paper. You should buy it too.",
    ),
}


@pytest.mark.parametrize("event, number", [("RUG", 3), ("sold", 2), ("bought", 0)])
def test_model_text_is_checked(event, number):
    for text in ACCEPTED[event]:
        assert language_model.check_text(text, PAPER[number]) is None, text
    for text in REFUSED[event]:
        assert language_model.check_text(text, PAPER[number]), text


def test_built_in_text_passes_the_model_check():
    for facts in (PAPER[0], PAPER[1], PAPER[2], PAPER[4], BOUGHT):
        for post in speak({**BARE, "style": ["terse"]}, [facts], 30):
            assert find_promise(post.lower()) is None, post
            assert facts is BOUGHT or find_false_direction(post.lower(), facts) != "a wrong sign"
