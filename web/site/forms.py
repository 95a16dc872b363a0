"""What forms of creators hold: reading what was typed, checking it, showing it again.

A refused form is shown again with what was typed and the reason beside its field; a refused wallet
is emptied, for it may be a secret, and so is what holds one.
"""

import re

import orjson
from flask import current_app, request

from accounts import influencers
from accounts.fields import holds_secret
from accounts.names import check_name
from accounts.problem import Problem
from voice import builtin as speech

# how each is written in its field
LISTS = {
    "style": r"[,\n]",
    "adjectives": r"[,\n]",
    "topics": r"[,\n]",
    "catchphrases": r"\n",
}
TONES = ("plain", "dry", "cheerful", "solemn", "bold", "calm")
SAMPLES = (
    {"kind": "buy", "symbol": "PINE", "amount": "1200", "sol": "0.5"},
    {"kind": "sell", "symbol": "PINE", "amount": "1200", "sol": "0.62", "resultSol": "0.12"},
)
# Of a form whose token is stale: fields that may hold a pasted secret (wallet, prove, signature,
# code) are left out.
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


def settings():
    return current_app.config["CANDOR"]


def check_registration():
    if settings().registration == "closed":
        raise Problem(
            "registration_closed", "this instance takes new influencers from its operator only"
        )


def read_known_fields(form):
    """{name: text} of fields that forms here have, as long as they are not longer in all than what
    anybody types: nobody has shown yet that this sender was ever here, so its text is measured
    before it is read.
    """
    given = {name: form[name] for name in STALE_FIELDS if name in form}
    return given if sum(map(len, given.values())) <= MAX_STALE_TEXT else {}


def read_texts(*names, form=None):
    """What was typed, with the line breaks of the interface."""
    form = request.form if form is None else form
    return {name: form.get(name, "").replace("\r\n", "\n") for name in names}


def without_secrets(typed, errors=None):
    """What may be shown in a form again. What is longer than any field takes is not looked into,
    and not shown.
    """
    return {
        name: (
            ""
            if (name == "wallet" and name in (errors or {}))
            or len(text) > MAX_TYPED_TEXT
            or holds_secret(text)
            else text
        )
        for name, text in typed.items()
    }


def read_voice(form=None):
    """The voice as typed in its fields, as accounts.check_voice takes it."""
    lists = {
        name: [part.strip() for part in re.split(LISTS[name], text) if part.strip()]
        for name, text in read_texts(*LISTS, form=form).items()
    }
    return {
        **{
            name: text
            for name, text in read_texts("tone", "emoji", form=form).items()
            if text.strip()
        },
        **lists,
    }


def write_samples(voice):
    """What this voice might say of SAMPLES; nothing while it is one that would be refused."""
    try:
        persona = orjson.loads(influencers.check_voice(voice))
    except Problem:
        return []
    return [speech.write(persona, facts, seed=f"{persona}") for facts in SAMPLES]


def find_errors(**checks):
    """{field: message} of the checks that refuse; the check of `field` may also name another field
    of its own.
    """
    errors = {}
    for check in checks.values():
        try:
            check()
        except Problem as problem:
            errors.update(list_errors(problem))
    return errors


def list_errors(problem):
    """{field: message}; a refusal that names no field stands above the form, under ''."""
    return {one["field"]: as_sentence(one["message"]) for one in problem.errors} or {
        "": as_sentence(problem.detail)
    }


def first_error(problem):
    """The message of the first field that was refused, or of the whole."""
    return next(iter(list_errors(problem).values()))


def as_sentence(message):
    return message[:1].upper() + message[1:] + ("" if message.endswith(".") else ".")


def find_profile_errors(texts, present=None):
    """`present`: the name it has, which may be one of before today's rules."""
    return find_errors(
        name=lambda: texts["name"].strip() == present or check_name(texts["name"]),
        bio=lambda: influencers.check_bio(texts["bio"]),
        voice=lambda: influencers.check_voice(read_voice()),
    )
