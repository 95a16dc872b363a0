"""What owners' forms have in common: reading what was typed, checking it, showing it again.

A refused form is shown again with what was typed and the reason beside its field. A refused wallet
is emptied, for it may be a secret, and so is every field that looks like one.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from flask import request

from accounts import influencers
from accounts.fields import check_name, holds_secret
from accounts.problem import Problem
from voice import builtin

# Fields that hold a list, with what separates its items.
LISTS = {
    "style": r"[,\n]",
    "adjectives": r"[,\n]",
    "topics": r"[,\n]",
    "catchphrases": r"\n",
}
TONES = ("plain", "dry", "cheerful", "solemn", "bold", "calm")
# Trades that the preview of a voice tells of.
SAMPLES = (
    {"kind": "buy", "symbol": "PINE", "amount": "1200", "paid": "0.5", "currency": "SOL"},
    {
        **{"kind": "sell", "symbol": "PINE", "amount": "1200", "paid": "0.62"},
        **{"currency": "SOL", "result": "0.12"},
    },
)
# An address has 44 letters at most, a secret key 64 or more.
MAX_MISTYPED_ADDRESS = 50
# Offered again from a form whose token is stale. Fields that may hold a pasted secret (wallet,
# prove, signature, code) are left out.
STALE_FIELDS = (
    "name",
    "bio",
    "tone",
    "emoji",
    *LISTS,
    "body",
    "mint",
    "symbol",
    "reason",
    "family",
    "start",
    "label",
    "draft",
    "on",
    "overlap",
)
# Twice the longest field: whoever wrote too much gets it back to shorten it.
MAX_TYPED_TEXT = 8_000
# A body and its reason at their longest.
MAX_STALE_TEXT = 8_500
# What was typed, or what is wrong with it, by field.
Texts = dict[str, str]


# ---- reading -------------------------------------------------------------------------------------
def read_texts(*names: str, form: Mapping[str, str] | None = None) -> Texts:
    """Return the named fields of a form, the present request's by default, with the API's line
    breaks.
    """
    form = request.form if form is None else form
    return {name: form.get(name, "").replace("\r\n", "\n") for name in names}


def read_voice(form: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the voice typed into its fields, as influencers.check_voice takes it."""
    voice: dict[str, Any] = {
        name: text for name, text in read_texts("tone", "emoji", form=form).items() if text.strip()
    }
    for name, text in read_texts(*LISTS, form=form).items():
        voice[name] = [part.strip() for part in re.split(LISTS[name], text) if part.strip()]
    return voice


def read_known_fields(form: Mapping[str, str]) -> Texts:
    """Return the STALE_FIELDS of a form, nothing if they are longer than anybody types.

    This sender has not shown that it was ever here, so the text is measured before it is looked at.
    """
    given = {name: form[name] for name in STALE_FIELDS if name in form}
    return given if sum(map(len, given.values())) <= MAX_STALE_TEXT else {}


def without_secrets(typed: Texts, errors: Texts | None = None) -> Texts:
    """Return the fields as they may be shown again: empty where one looks like a secret, is too
    long to be looked at, or is a refused wallet that is more than a mistyped address.
    """
    refused = "wallet" in (errors or {})
    return {
        name: ""
        if _may_be_secret(text) or (name == "wallet" and refused and not _is_typo(text))
        else text
        for name, text in typed.items()
    }


def _is_typo(text: str) -> bool:
    """Is it short and one word? A phrase has many, and a secret key more letters."""
    return len(text) <= MAX_MISTYPED_ADDRESS and len(text.split()) <= 1


def _may_be_secret(text: str) -> bool:
    return len(text) > MAX_TYPED_TEXT or holds_secret(text)


def write_samples(voice: dict[str, Any]) -> list[str]:
    """Return what this voice might say of SAMPLES; nothing for a voice that would be refused."""
    try:
        persona = orjson.loads(influencers.check_voice(voice))
    except Problem:
        return []
    return [builtin.write(persona, facts, seed=f"{persona}") for facts in SAMPLES]


# ---- refusing ------------------------------------------------------------------------------------
def find_errors(*checks: Callable[[], object]) -> Texts:
    """Run all checks and return {field: message} of those that refuse."""
    errors: Texts = {}
    for check in checks:
        try:
            check()
        except Problem as problem:
            errors.update(list_errors(problem))
    return errors


def find_profile_errors(texts: Texts, present_name: str | None = None) -> Texts:
    """Check name, bio and voice. The present name is accepted even if today's rules refuse it."""
    return find_errors(
        lambda: texts["name"].strip() == present_name or check_name(texts["name"]),
        lambda: influencers.check_bio(texts["bio"]),
        lambda: influencers.check_voice(read_voice()),
    )


def list_errors(problem: Problem) -> Texts:
    """Return {field: message}; a refusal that names no field stands under ''."""
    return {one["field"]: as_sentence(one["message"]) for one in problem.errors} or {
        "": as_sentence(problem.detail)
    }


def first_error(problem: Problem) -> str:
    """Return the message of the first refused field, or of the whole."""
    return next(iter(list_errors(problem).values()))


def as_sentence(message: str) -> str:
    """Return a message with a capital and a full stop."""
    return message[:1].upper() + message[1:] + ("" if message.endswith(".") else ".")
