"""Write posts from facts with a built-in, seeded grammar. Pure: the same persona, facts, seed and
recent posts give the same words.

Facts are display texts by name, with a `kind`; a fact that is missing or None is not mentioned:
    buy, sell           symbol amount sol [resultSol]
    swap                fromSymbol fromAmount symbol amount
    round_trip          symbol [resultSol]
    fill                paper: what (bought | reduced) symbol amount sol reason
    close               paper: symbol resultSol returnPct reason
    refusal             paper: symbol detail
    pause               paper: rule numbers what (begun | observed | ended | would_have)
    lesson              paper: text
    phase               paper: what (guarded | standard) why
    review              paper: detail
Posts of paper mode say in their words that they are simulated. A post holds no number that is not
in its facts; see find_foreign_numbers.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from voice.facts import NAMES, Facts, find_foreign_numbers, shorten_name
from voice.words import (
    ADJECTIVES,
    CATCHPHRASES,
    DEFAULT_TONE,
    QUOTES,
    REASONS,
    REGISTERS,
    RESULTS,
    SPEECH,
    TOPICS,
    WHENS,
    Register,
)

# Sentences tried until one is not in a recent post.
MAX_TRIES = 40
# Posts whose sentences are not repeated.
RECENT_POSTS = 20
T = TypeVar("T")
Persona = Mapping[str, Any]
Seed = bytes | str | int


class Picker:
    """Choices from a seed, the same on every machine and in every version of Python."""

    def __init__(self, seed: Seed) -> None:
        self.seed = seed if isinstance(seed, bytes) else str(seed).encode()
        self.count = 0

    def below(self, size: int) -> int:
        """Return a number from 0 to size - 1."""
        self.count += 1
        return int.from_bytes(hashlib.sha256(self.seed + b"|%d" % self.count).digest()[:8]) % size

    def one(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self.below(len(options))]


def write(persona: Persona, facts: Facts, seed: Seed, recent: Sequence[str] = ()) -> str:
    """Write a post of one or two sentences, none of which is in the `recent` posts (newest last;
    the last RECENT_POSTS count).
    """
    picker, register = Picker(seed), find_register(persona)
    known = {
        name: shorten_name(value) if name in NAMES else value
        for name, value in facts.items()
        if value is not None
    }
    used = {sentence for post in recent[-RECENT_POSTS:] for sentence in split_sentences(post)}
    sentences = [_pick_fresh(lambda: _report(picker, register, known), used)]
    if "terse" not in persona.get("style", ()):
        sentences.append(_pick_fresh(lambda: _remark(picker, register, persona), used))
    return _add_emoji(picker, persona, sentences)


def find_register(persona: Persona) -> Register:
    """Return the register of the persona's tone; a tone that the owner made up always gets the same
    one.
    """
    tone = (persona.get("tone") or DEFAULT_TONE).strip().lower()
    return REGISTERS.get(tone) or REGISTERS[Picker(tone).one(sorted(REGISTERS))]


def split_sentences(post: str) -> list[str]:
    """Split a post into sentences for comparison: letters and figures only."""
    parts = re.split(r"(?<=[.!?])\s+|\n", post)
    return [words for part in parts if (words := " ".join(re.findall(r"[\w.%-]*\w", part.lower())))]


def _pick_fresh(make: Callable[[], str], used: set[str]) -> str:
    """Make sentences until one is new; the last try stands where the grammar has run out."""
    for _ in range(MAX_TRIES):
        sentence = make()
        if not set(split_sentences(sentence)) & used:
            break
    return sentence


def _report(picker: Picker, register: Register, facts: Facts) -> str:
    """Say what happened, in one sentence."""
    clauses = [clause for clause in SPEECH[_speech_key(facts)] if _can_say(clause, facts)] or [
        "{symbol} moved"
    ]
    parts = [picker.one(clauses).format(**facts)]
    if facts.get("resultSol") is not None:
        parts.append(_result(picker, facts["resultSol"]))
    if facts.get("reason") in REASONS:
        parts.append(picker.one(REASONS[facts["reason"]]))
    clause = ", ".join(part.rstrip(".") for part in parts)
    return f"{picker.one(register.leads)}: {clause}."


def _speech_key(facts: Facts) -> str:
    kind: str = facts["kind"]
    return kind if kind in SPEECH else f"{kind} {facts['what']}"


def _can_say(clause: str, facts: Facts) -> bool:
    return all(name in facts for name in re.findall(r"\{(\w+)\}", clause))


def _result(picker: Picker, text: str) -> str:
    sign = "even" if not Decimal(text) else "lost" if text.startswith("-") else "won"
    return picker.one(RESULTS[sign]).format(result=text.lstrip("-"))


def _remark(picker: Picker, register: Register, persona: Persona) -> str:
    """Make a remark in the words of this persona."""
    phrases = _words_of(persona, "catchphrases")
    form = picker.one(QUOTES) if phrases and picker.below(4) == 0 else picker.one(register.remarks)
    said = form.format(
        adjective=picker.one(_words_of(persona, "adjectives") or register.adjectives),
        topic=picker.one(_words_of(persona, "topics") or register.topics),
        catchphrase=picker.one(phrases or ("",)).rstrip(".!?"),
        when=picker.one(WHENS),
    )
    said = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", said)
    return said[:1].upper() + said[1:] + "."


def _words_of(persona: Persona, name: str) -> tuple[str, ...]:
    """Return the persona's own words, without those that hold a number."""
    return tuple(
        word
        for word in persona.get(name) or ()
        if word.strip() and not find_foreign_numbers(word, {})
    )


def _add_emoji(picker: Picker, persona: Persona, sentences: list[str]) -> str:
    """Join the sentences. An emoji goes inside the last one: alone it would count as a sentence
    that repeats.
    """
    emoji = [one for one in persona.get("emoji") or "" if unicodedata.category(one) == "So"]
    if emoji and picker.below(3):
        sentences[-1] = f"{sentences[-1][:-1]} {picker.one(emoji)}."
    return " ".join(sentences)


def default_persona(seed: Seed) -> dict[str, Any]:
    """Make a persona for a bot whose owner chose none."""
    picker = Picker(seed)
    first, second = picker.below(len(ADJECTIVES)), picker.below(len(TOPICS))
    return {
        "tone": picker.one(sorted(REGISTERS)),
        "style": [],
        "adjectives": [ADJECTIVES[first], ADJECTIVES[first - 1]],
        "topics": [TOPICS[second], TOPICS[second - 1]],
        "catchphrases": [picker.one(CATCHPHRASES)],
        "emoji": picker.one(("", "🦊", "🐢", "🌊", "🔭", "🎲", "🪁", "🦉", "🌵")),
    }
