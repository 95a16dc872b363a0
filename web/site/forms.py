"""Code that owners' forms share: read the typed text, check it, and show it again.

A rejected form shows the typed text, with the reason next to the field. A rejected wallet is
cleared, because it may be a secret. So is every field that looks like a secret.
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

# Fields that contain a list, and its separator.
LISTS = {
    "style": r"[,\n]",
    "adjectives": r"[,\n]",
    "topics": r"[,\n]",
    "catchphrases": r"\n",
}
TONES = ("plain", "dry", "cheerful", "solemn", "bold", "calm")
# The trades in the preview of a voice.
SAMPLES = (
    {"kind": "buy", "symbol": "PINE", "amount": "1200", "paid": "0.5", "currency": "SOL"},
    {
        **{"kind": "sell", "symbol": "PINE", "amount": "1200", "paid": "0.62"},
        **{"currency": "SOL", "result": "0.12"},
    },
)
# An address has up to 44 letters. A secret key has 64 or more.
MAX_MISTYPED_ADDRESS = 50
# Fields to show again if the form's token was stale. Fields that may contain a pasted secret
# (wallet, prove, signature, code) are left out.
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
# Twice the longest field, so that overlong text is shown again and can be shortened.
MAX_TYPED_TEXT = 8_000
# A body and its reason together.
MAX_STALE_TEXT = 8_500
# Typed text, or errors, by field.
Texts = dict[str, str]


# ---- reading -------------------------------------------------------------------------------------
def read_texts(*names: str, form: Mapping[str, str] | None = None) -> Texts:
    """Return these fields of a form (by default the request's), with the API's line breaks."""
    form = request.form if form is None else form
    return {name: form.get(name, "").replace("\r\n", "\n") for name in names}


def read_voice(form: Mapping[str, str] | None = None) -> dict[str, Any]:
    voice: dict[str, Any] = {
        name: text for name, text in read_texts("tone", "emoji", form=form).items() if text.strip()
    }
    for name, text in read_texts(*LISTS, form=form).items():
        voice[name] = [part.strip() for part in re.split(LISTS[name], text) if part.strip()]
    return voice


def read_known_fields(form: Mapping[str, str]) -> Texts:
    """Return the form's STALE_FIELDS, or nothing if they are longer than anyone would type.

    The sender may never have opened the form, so check the length before reading the text.
    """
    given = {name: form[name] for name in STALE_FIELDS if name in form}
    return given if sum(map(len, given.values())) <= MAX_STALE_TEXT else {}


def without_secrets(typed: Texts, errors: Texts | None = None) -> Texts:
    """Return the fields, with unsafe ones cleared.

    A field is unsafe if it looks like a secret, is too long to check, or is a rejected wallet that
    isn't just a mistyped address.
    """
    refused = "wallet" in (errors or {})
    return {
        name: ""
        if _may_be_secret(text) or (name == "wallet" and refused and not _is_typo(text))
        else text
        for name, text in typed.items()
    }


def _is_typo(text: str) -> bool:
    """Return whether the text is one short word. A phrase has several, a secret key is longer."""
    return len(text) <= MAX_MISTYPED_ADDRESS and len(text.split()) <= 1


def _may_be_secret(text: str) -> bool:
    return len(text) > MAX_TYPED_TEXT or holds_secret(text)


def write_samples(voice: dict[str, Any]) -> list[str]:
    try:
        persona = orjson.loads(influencers.check_voice(voice))
    except Problem:
        return []
    return [builtin.write(persona, facts, seed=f"{persona}") for facts in SAMPLES]


# ---- refusing ------------------------------------------------------------------------------------
def check_all(*checks: Callable[[], object]) -> None:
    """Run all checks. Raises one Problem, which names every rejected field."""
    errors: list[dict[str, str]] = []
    for check in checks:
        try:
            check()
        except Problem as problem:
            errors += problem.errors or [{"field": "", "message": problem.detail}]
    if errors:
        raise Problem("validation_failed", "the form is invalid", errors)


def check_profile(
    texts: Texts, present_name: str | None = None, *more: Callable[[], object]
) -> None:
    """Check name, bio and voice. The current name is accepted even under newer rules."""
    check_all(
        lambda: texts["name"].strip() == present_name or check_name(texts["name"]),
        lambda: influencers.check_bio(texts["bio"]),
        lambda: influencers.check_voice(read_voice()),
        *more,
    )


def list_errors(problem: Problem) -> Texts:
    """Return {field: message}. Errors without a field use the key ''."""
    return {one["field"]: as_sentence(one["message"]) for one in problem.errors} or {
        "": as_sentence(problem.detail)
    }


def list_errors_of(form: str, problem: Problem) -> Texts:
    """Return list_errors for one of several forms on a page, with keys such as `hook.url`."""
    return {
        f"{form}.{field}" if field else form: message
        for field, message in list_errors(problem).items()
    }


def first_error(problem: Problem) -> str:
    return next(iter(list_errors(problem).values()))


def as_sentence(message: str) -> str:
    """Return a message that begins with a capital letter and ends with a period."""
    return message[:1].upper() + message[1:] + ("" if message.endswith(".") else ".")
