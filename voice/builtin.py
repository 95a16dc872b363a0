"""Write posts from facts: the fact first, then at most one clause in the persona's tone.

Pure: the same persona, facts, seed and recent posts always give the same text.

Facts are display texts by name, with a `kind`; a fact that is missing or None is not mentioned:
buy, sell symbol currency amount paid [result] swap fromSymbol fromAmount symbol amount round_trip
symbol currency [result] fill paper: what (bought | reduced) symbol amount sol reason [detail
stopPct sharePct] close paper: symbol [amount sol] resultSol returnPct reason refusal paper: symbol
detail pause paper: numbers effect what (begun | observed | ended | would_have) lesson paper: text
phase paper: what (guarded | standard) why review paper: detail The fact in a paper-mode post says
that the trade is on paper. A post contains only numbers from its facts, in four significant digits
(find_foreign_numbers). A persona's adjectives and topics are for the language model only.
"""

import hashlib
import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import Decimal
from importlib import resources
from typing import Any, TypeVar

from voice.facts import NAMES, Facts, find_foreign_numbers, quote_name, round_number, round_numbers

# Don't repeat clauses from this many recent posts.
RECENT_POSTS = 20
# A catchphrase appears in at most one of this many posts.
CATCHPHRASE_POSTS = 10
# Clauses by event. Results are events by their sign.
EVENTS = {
    "buy": "buy",
    "sell": "sell",
    "swap": "swap",
    "fill bought": "buy",
    "fill reduced": "sell",
    "refusal": "refusal",
    "pause begun": "pause",
    "pause begun pause_family": "pause",
    "lesson": "lesson",
    "phase guarded": "phase",
    "phase standard": "phase",
    "review": "review",
}
Clauses = Mapping[str, Sequence[str]]
DEFAULT_TONE = "plain"


def _read_data(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("voice").joinpath(name).read_text("utf-8"))


TONES: dict[str, Clauses] = _read_data("clauses.toml")
SENTENCES = _read_data("sentences.toml")
SPEECH: dict[str, list[str]] = SENTENCES["speech"]
T = TypeVar("T")
Persona = Mapping[str, Any]
Seed = bytes | str | int


class Picker:
    """Seeded choices that are the same on every machine and Python version."""

    def __init__(self, seed: Seed) -> None:
        self.seed = seed if isinstance(seed, bytes) else str(seed).encode()
        self.count = 0

    def below(self, size: int) -> int:
        self.count += 1
        return int.from_bytes(hashlib.sha256(self.seed + b"|%d" % self.count).digest()[:8]) % size

    def one(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]


def write(persona: Persona, facts: Facts, seed: Seed, recent: Sequence[str] = ()) -> str:
    """Write a post: the fact, then perhaps a clause that isn't in any of the last RECENT_POSTS
    posts.

    `recent`: newest last.
    """
    picker, recent = Picker(seed), recent[-RECENT_POSTS:]
    parts = _tell_fact(picker, facts)
    if "terse" not in persona.get("style", ()):
        parts += _pick_clause(picker, persona, facts, recent)
    return " ".join(parts + _pick_emoji(picker, persona))


# ---- the fact ------------------------------------------------------------------------------------
def _tell_fact(picker: Picker, facts: Facts) -> list[str]:
    shown = {name: _show(name, value) for name, value in facts.items() if value is not None}
    forms = [form for form in SPEECH[_speech_key(facts)] if _can_say(form, shown)]
    # The last form needs the fewest facts, so it is used only if no other fits.
    said = picker.one(forms[:-1] or forms).format(**shown)
    # The figure that triggered a decision says more than its rule's name.
    why = shown["detail"] if "stopPct" in shown else SENTENCES["reasons"].get(facts.get("reason"))
    said += f", {why}" if why else ""
    return [_end(said), *_tell_plan(picker, shown), *_tell_result(picker, facts)]


def _tell_plan(picker: Picker, shown: Mapping[str, str]) -> list[str]:
    can = "stopPct" in shown and "sharePct" in shown
    return [_end(picker.one(SENTENCES["plans"]).format(**shown))] if can else []


def _show(name: str, value: Any) -> str:
    if name in NAMES:
        return quote_name(value)
    text = round_numbers(str(value))
    # The text follows a colon, so it doesn't begin with a capital letter.
    return text[:1].lower() + text[1:] if name == "text" else text


def _speech_key(facts: Facts) -> str:
    kind: str = facts["kind"]
    if kind == "close" and (facts.get("sol") == "0" or facts.get("reason") == "price_gone"):
        return "write-off"
    named = f"{kind} {facts.get('what')} {facts.get('effect')}"
    if named in SPEECH:
        return named
    return kind if kind in SPEECH else f"{kind} {facts['what']}"


def _can_say(form: str, shown: Mapping[str, str]) -> bool:
    return all(name in shown for name in re.findall(r"\{(\w+)\}", form))


def _end(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _tell_result(picker: Picker, facts: Facts) -> list[str]:
    sign = _find_sign(facts)
    if sign is None:
        return []
    result, currency = _find_result(facts)
    said = picker.one(SENTENCES["results"][sign]).format(
        result=round_number(result.lstrip("-")), currency=currency
    )
    share = facts.get("returnPct")
    if share is not None and sign == _name_sign(share) != "even":
        mark = "+" if sign == "gain" else "−"
        said += f" ({mark}{round_number(share.lstrip('-'))}%)"
    return [f"{said}."]


def _find_sign(facts: Facts) -> str | None:
    result, _ = _find_result(facts)
    return _name_sign(result) if result else None


def _find_result(facts: Facts) -> tuple[str, str]:
    if facts["kind"] in ("sell", "round_trip"):
        return facts.get("result") or "", facts.get("currency", "")
    return (facts.get("resultSol") or "") if facts["kind"] == "close" else "", "SOL"


def _name_sign(number: str) -> str:
    return "even" if not Decimal(number) else "loss" if number.startswith("-") else "gain"


# ---- the clause ----------------------------------------------------------------------------------
def _pick_clause(
    picker: Picker, persona: Persona, facts: Facts, recent: Sequence[str]
) -> list[str]:
    """Pick a clause that wasn't used recently, or none. Sometimes none at random."""
    phrases = _list_catchphrases(persona)
    lately = recent[1 - CATCHPHRASE_POSTS :]
    said_lately = any(phrase in post for post in lately for phrase in phrases)
    if phrases and not said_lately and not picker.below(CATCHPHRASE_POSTS):
        return [picker.one(phrases)]
    event = _find_sign(facts) or EVENTS.get(_speech_key(facts), "")
    clauses = find_clauses(persona).get(event, ())
    fresh = [one for one in clauses if not any(one in post for post in recent)]
    # No clause is better than filler.
    return [picker.one(fresh)] if fresh and picker.below(4) else []


def find_clauses(persona: Persona) -> Clauses:
    """Return the clauses of the persona's tone. A custom tone always maps to the same ones."""
    tone = (persona.get("tone") or DEFAULT_TONE).strip().lower()
    return TONES.get(tone) or TONES[Picker(tone).one(sorted(TONES))]


def _list_catchphrases(persona: Persona) -> list[str]:
    return [
        _end(phrase.strip())
        for phrase in persona.get("catchphrases") or ()
        if phrase.strip() and not find_foreign_numbers(phrase, {})
    ]


def _pick_emoji(picker: Picker, persona: Persona) -> list[str]:
    emoji = [one for one in persona.get("emoji") or "" if unicodedata.category(one) == "So"]
    return [picker.one(emoji)] if emoji and not picker.below(3) else []


def default_persona(seed: Seed) -> dict[str, Any]:
    picker = Picker(seed)
    return {
        "tone": picker.one(sorted(TONES)),
        "style": [],
        "adjectives": [],
        "topics": [],
        "catchphrases": [picker.one(SENTENCES["catchphrases"])],
        "emoji": picker.one(("", "🦊", "🐢", "🌊", "🔭", "🎲", "🪁", "🦉", "🌵")),
    }
