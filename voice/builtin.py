"""A persona's sentences from facts: a seeded grammar, built in. Pure: the same persona, facts, seed
and recent posts give the same words.

`facts` is a flat dict of display texts with a `kind`; a fact that is missing or None is not spoken
of:
    buy, sell           symbol amount sol [resultSol]
    swap                fromSymbol fromAmount symbol amount
    fill                paper: what (bought | reduced) symbol amount sol reason
    close               paper: symbol resultSol returnPct reason
    refusal             paper: symbol detail
    pause               paper: rule numbers what (begun | observed | ended | would_have)
    lesson              paper: text
    phase               paper: what (guarded | standard) why
    review              paper: detail
Paper posts say in their words that they are simulated. No number stands in a text that is not in
its facts: see find_foreign_numbers.
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

# sentences tried until one was not said lately
MAX_TRIES = 40
# posts whose sentences are not repeated
RECENT_POSTS = 20
T = TypeVar("T")
Persona = Mapping[str, Any]
Seed = bytes | str | int


class Picker:
    """Choices from a seed, the same on every machine and Python."""

    def __init__(self, seed: Seed) -> None:
        self.seed = seed if isinstance(seed, bytes) else str(seed).encode()
        self.count = 0

    def below(self, size: int) -> int:
        """A number from 0 to size - 1."""
        self.count += 1
        return int.from_bytes(hashlib.sha256(self.seed + b"|%d" % self.count).digest()[:8]) % size

    def one(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]


def write(persona: Persona, facts: Facts, seed: Seed, recent: Sequence[str] = ()) -> str:
    """Write a post of one or two sentences, none of which stands in the `recent` posts (newest
    last; the last twenty count).
    """
    picker, register = Picker(seed), find_register(persona)
    known = {
        name: shorten_name(value) if name in NAMES else value
        for name, value in facts.items()
        if value is not None
    }
    said = {sentence for post in recent[-RECENT_POSTS:] for sentence in split_sentences(post)}
    sentences = [_pick_fresh(lambda: _report(picker, register, known), said)]
    if "terse" not in persona.get("style", ()):
        sentences.append(_pick_fresh(lambda: _remark(picker, register, persona), said))
    return _add_emoji(picker, persona, sentences)


def find_register(persona: Persona) -> Register:
    """The register of the persona's tone; a tone the owner made up gets one of them, always the
    same.
    """
    tone = (persona.get("tone") or DEFAULT_TONE).strip().lower()
    return REGISTERS.get(tone) or REGISTERS[Picker(tone).one(sorted(REGISTERS))]


def split_sentences(post: str) -> list[str]:
    """The sentences of a post as they are compared: letters and figures only."""
    parts = re.split(r"(?<=[.!?])\s+|\n", post)
    return [words for part in parts if (words := " ".join(re.findall(r"[\w.%-]*\w", part.lower())))]


def _pick_fresh(make: Callable[[], str], said: set[str]) -> str:
    """A sentence that was not said lately; the last try where the grammar has run out."""
    for _ in range(MAX_TRIES):
        sentence = make()
        if not set(split_sentences(sentence)) & said:
            break
    return sentence


def _report(picker: Picker, register: Register, facts: Facts) -> str:
    """What happened, in one sentence."""
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
    """What this persona would say besides, in words of its own."""
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
    """The persona's own words, without those that speak of a number."""
    return tuple(
        word
        for word in persona.get(name) or ()
        if word.strip() and not find_foreign_numbers(word, {})
    )


def _add_emoji(picker: Picker, persona: Persona, sentences: list[str]) -> str:
    """The sentences as one text. An emoji stands inside the last one: alone it would be a sentence
    that repeats.
    """
    emoji = [one for one in persona.get("emoji") or "" if unicodedata.category(one) == "So"]
    if emoji and picker.below(3):
        sentences[-1] = f"{sentences[-1][:-1]} {picker.one(emoji)}."
    return " ".join(sentences)


def default_persona(seed: Seed) -> dict[str, Any]:
    """A persona for an influencer whose owner chose none: tone and words by seed."""
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
