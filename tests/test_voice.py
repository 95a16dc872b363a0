"""The voice: nothing repeated, personas told apart, no number that is not a fact."""

import collections
import itertools
import math
import re

import pytest

from voice import builtin, language_model
from voice.facts import find_foreign_numbers
from voice.words import REGISTERS

WALLET = [
    {"kind": "buy", "symbol": "BONK", "amount": "1234.5", "sol": "0.25"},
    {"kind": "sell", "symbol": "BONK", "amount": "1234.5", "sol": "0.31", "resultSol": "0.06"},
    {"kind": "sell", "symbol": "BONK", "amount": "9", "sol": "0.1", "resultSol": "-0.07"},
    {"kind": "sell", "symbol": "BONK", "amount": "9", "sol": "0.1"},
    {"kind": "round_trip", "symbol": "BONK", "resultSol": "0.012"},
    {"kind": "swap", "fromSymbol": "BONK", "fromAmount": "77", "symbol": "WIF", "amount": "3.2"},
]
PAPER = [
    {
        "kind": "fill",
        "what": "bought",
        "symbol": "RISE",
        "amount": "3078.615061",
        "sol": "0.25",
        "reason": "momentum",
    },
    {
        "kind": "fill",
        "what": "reduced",
        "symbol": "RISE",
        "amount": "100",
        "sol": "0.17",
        "reason": "take_profit",
    },
    {
        "kind": "close",
        "what": "closed",
        "symbol": "RISE",
        "amount": "100",
        "sol": "0.17",
        "resultSol": "0.015",
        "returnPct": "6.26",
        "heldMinutes": "41",
        "reason": "trailing_stop",
    },
    {
        "kind": "close",
        "what": "closed",
        "symbol": "RUG",
        "resultSol": "-0.25011",
        "returnPct": "-100.02",
        "reason": "liquidity_gone",
    },
    {
        "kind": "close",
        "what": "closed",
        "symbol": "FLAT",
        "resultSol": "0",
        "returnPct": "0",
        "reason": "time_stop",
    },
    {
        "kind": "refusal",
        "symbol": "RISE",
        "reason": "position_limit",
        "detail": "2 positions are open already",
    },
    {
        "kind": "pause",
        "what": "begun",
        "rule": "stop_cluster",
        "numbers": "5 of the last 8 closes were stops",
    },
    {"kind": "pause", "what": "observed", "rule": "cool_down", "numbers": "6 of 8 closes lost"},
    {"kind": "pause", "what": "ended", "rule": "drawdown", "resultSol": "-0.5"},
    {"kind": "pause", "what": "would_have", "rule": "drawdown"},
    {
        "kind": "lesson",
        "what": "lesson",
        "text": (
            "Of 8 closes by stop in 7 days, 2 won; together -0.04 SOL, -0.5% of what was spent."
        ),
    },
    {"kind": "phase", "what": "guarded", "why": "a review was upheld"},
    {
        "kind": "phase",
        "what": "standard",
        "why": "20 eligible closes on 14 days: evidence of volume, not of profit",
    },
    {
        "kind": "review",
        "what": "under_review",
        "symbol": "RISE",
        "detail": "the price moved beyond the bound between neighbouring snapshots",
    },
]
BARE = {
    "tone": "plain",
    "style": [],
    "adjectives": [],
    "topics": [],
    "catchphrases": [],
    "emoji": "",
}


def speak(persona, facts, count, name="seed"):
    """`count` posts in a row; `facts` come round and round."""
    posts = []
    for number, one in zip(range(count), itertools.cycle(facts)):
        posts.append(builtin.write(persona, one, f"{name}|{number}", posts[-20:]))
    return posts


def sentences(post):
    """A reader's view, not the writer's: what stands between full stops, in lower case, without
    emoji.
    """
    return [
        part
        for part in re.split(r"[.!?](?:\s+|$)", re.sub(r"[^\w\s.,!?%:;“”'-]", "", post).lower())
        if part.strip()
    ]


# ---- nothing repeated ----------------------------------------------------------------------------
@pytest.mark.parametrize("tone", [*REGISTERS, "sardonic pirate"])
@pytest.mark.parametrize(
    "facts",
    [[one] for one in (WALLET[0], PAPER[0], PAPER[3], PAPER[5], PAPER[12])] + [PAPER + WALLET],
)
def test_twenty_posts_in_a_row_repeat_no_sentence(tone, facts):
    for persona in (
        {**BARE, "tone": tone},
        {
            **BARE,
            "tone": tone,
            "adjectives": ["lone"],
            "topics": ["reef"],
            "catchphrases": ["to the sea"],
            "emoji": "🦊",
        },
    ):
        posts = speak(persona, facts, 60)
        for start in range(0, 41, 5):
            said = [sentence for post in posts[start : start + 20] for sentence in sentences(post)]
            assert len(said) == len(set(said)) >= 20


def test_the_same_arguments_give_the_same_words():
    assert (
        speak(BARE, PAPER + WALLET, 40)
        == speak(BARE, PAPER + WALLET, 40)
        != speak(BARE, PAPER + WALLET, 40, "another")
    )
    assert builtin.write(BARE, PAPER[0], b"seed") == builtin.write(BARE, PAPER[0], "seed")


def test_terse_personas_say_one_sentence():
    assert all(len(sentences(post)) == 1 for post in speak({**BARE, "style": ["terse"]}, PAPER, 30))


# ---- told apart ----------------------------------------------------------------------------------
def words(post):
    return re.findall(r"[^\W\d_]+|[^\w\s.,:;!?%“”'-]", post.lower())


def classify(trained, post):
    """A blind reader's rule: naive Bayes over words. Who has used these words more often wrote the
    post.
    """

    def score(counts):
        total = sum(counts.values()) + 1000
        return sum(math.log((counts[word] + 1) / total) for word in words(post))

    return max(trained, key=lambda name: score(trained[name]))


@pytest.mark.parametrize(
    "one, other",
    [
        *[
            ({**BARE, "tone": a}, {**BARE, "tone": b})
            for a, b in itertools.combinations(REGISTERS, 2)
        ],
        (
            {**BARE, "adjectives": ["golden", "wide"], "topics": ["harvest"]},
            {**BARE, "adjectives": ["salty", "deep"], "topics": ["ocean"]},
        ),
        (builtin.default_persona("the-momentum-one"), builtin.default_persona("the-breakout-one")),
    ],
)
def test_two_personas_are_told_apart(one, other):
    """Trained on 100 posts of each, tried on 200 others about the same facts: at least nine of ten
    are known by their words.
    """
    trained = {
        name: collections.Counter(
            word
            for post in speak(persona, PAPER + WALLET, 100, f"learn {name}")
            for word in words(post)
        )
        for name, persona in (("one", one), ("other", other))
    }
    tried = [
        (name, post)
        for name, persona in (("one", one), ("other", other))
        for post in speak(persona, PAPER + WALLET, 100, f"try {name}")
    ]
    right = sum(classify(trained, post) == name for name, post in tried)
    assert right >= 180, f"{right} of {len(tried)}"


# ---- numbers -------------------------------------------------------------------------------------
@pytest.mark.parametrize("tone", REGISTERS)
def test_no_post_holds_a_number_that_is_not_a_fact(tone):
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
        # And by a plain reading of the digits.
        digits = re.findall(r"\d+(?:\.\d+)?", post)
        assert set(digits) <= set(
            re.findall(r"\d+(?:\.\d+)?", " ".join(map(str, facts.values())))
        ), post


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
def test_numbers_outside_the_facts_are_found(text, foreign):
    found = find_foreign_numbers(text, FACTS)
    assert bool(found) == bool(foreign), found


def test_hostile_names_are_kept_short_and_lend_no_number():
    facts = {**PAPER[0], "symbol": "BUY  NOW.\n100x guaranteed, ask me how at once " * 3}
    post = builtin.write(BARE, facts, 1)
    assert (
        "\n" not in post
        and len(post) < 300
        and find_foreign_numbers("it will do 100 for you", facts)
    )
    assert find_foreign_numbers("{x} {0}", {**facts, "symbol": "{0}"}) == []
    assert "{0}" in builtin.write(BARE, {**PAPER[0], "symbol": "{0}"}, 1)


@pytest.mark.parametrize("facts", PAPER)
def test_paper_posts_say_that_they_are_simulated(facts):
    assert all(re.search("paper|simulat|virtual", post) for post in speak(BARE, [facts], 20))


@pytest.mark.parametrize("facts", WALLET)
def test_wallet_posts_do_not_say_that_they_are_simulated(facts):
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
        ("paper, will rise 100%", True),
    ],
)
def test_what_a_model_wrote_is_checked(text, refused):
    assert (language_model.check_text(text, PAPER[3]) is not None) is refused
