"""Lengths are checked first: overlong input is rejected unread, and no shorter input is expensive
to read. Work is counted, not timed.
"""

import random

import pytest
from mnemonic import Mnemonic
from service import refused

from accounts import fields, influencers, posts
from web.site import forms, pages

PHRASES = Mnemonic("english")
# A cycle of thirty three-letter words in which no window of any size has a valid checksum.
CYCLE = (
    "fun fog raw now nut job win air mom fee joy kid spy day hub "
    "own sun ice bar law oak box cup off way toe net aim mix all"
).split()
WORST = (" ".join(CYCLE) + " ") * 200
LONG = (WORST * 4)[:60_000]
# The maximum for a field of 4,000 characters with invisible ones.
MAX_READ = 8_500


# ---- the detector ------------------------------------------------------------------------------
@pytest.fixture
def checks(monkeypatch):
    """Sizes of the windows whose checksums were computed."""
    done, check = [], fields._is_checked

    def note_and_check(bits, size):
        done.append(size)
        return check(bits, size)

    monkeypatch.setattr(fields, "_is_checked", note_and_check)
    return done


def test_the_worst_text_costs_one_hash_per_word_and_size(checks):
    text = WORST[:16_000]
    windows = [(CYCLE * 3)[at : at + size] for size in fields.SEED_LENGTHS for at in range(30)]
    assert not any(PHRASES.check(" ".join(window)) for window in windows)
    assert not fields.holds_secret(text)
    words = len(text.split())
    assert 4_000 <= words <= 4_100 and len(checks) <= 5 * words


def test_short_runs_cost_no_hash(checks):
    assert not fields.holds_secret((" ".join(CYCLE[:11]) + " and, ") * 100)
    assert checks == []


@pytest.mark.parametrize("size", fields.SEED_LENGTHS)
def test_a_seed_phrase_is_found_anywhere(size):
    """From BIP39's reference code: 12 words are 128 bits of entropy, and each three more words are
    32 more.
    """
    dice = random.Random(size)
    for _ in range(20):
        phrase = PHRASES.to_mnemonic(dice.randbytes(size // 3 * 4))
        for text in (phrase, phrase.upper(), f"all day {phrase} sun sun", f"Mine: {phrase}."):
            assert fields.holds_secret(text)


def test_the_twelve_word_check_matches_the_reference(checks):
    dice, said = random.Random(39), []
    for _ in range(300):
        words = " ".join(dice.sample(PHRASES.wordlist, 12))
        said.append(PHRASES.check(words))
        assert fields.holds_secret(words) == said[-1]
    # One in sixteen passes by chance: 300 / 16 = 18.75.
    assert 5 < sum(said) < 40 and len(checks) == 300


def test_a_seed_phrase_may_repeat_words():
    """BIP-39's first test vector."""
    assert fields.holds_secret("My key: " + "abandon " * 11 + "about.")
    assert not fields.holds_secret("abandon " * 12)


# ---- lengths before contents -------------------------------------------------------------------
@pytest.fixture
def read(monkeypatch):
    """Lengths of all texts that were examined during a request."""
    lengths = []

    def noting(look):
        return lambda text: lengths.append(len(text)) or look(text)

    for module in (fields, influencers, posts, forms, pages):
        for name in ("holds_secret", "looks_secret", "has_control", "clean_text"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, noting(getattr(module, name)))
    return lengths


def test_an_oversized_post_field_is_refused_unread(service, key, read):
    read.clear()
    for field in "eventId body mint symbol signature reason botId unknown".split():
        answer = service.post({"eventId": "1", "body": "b", field: LONG}, key)
        assert answer.status_code in (403, 422) and max(read, default=0) <= MAX_READ, field


def test_thousands_of_unknown_fields_are_refused_after_a_few(service, key):
    answer = service.post({"eventId": "1", "body": "b", **{f"f{n}": 1 for n in range(5_000)}}, key)
    assert answer.status_code == 422 and len(answer.json["errors"]) == 20


def test_a_form_with_a_wrong_token_is_refused_before_parsing(service, read):
    for fill in (WORST, "\u200b" * 20_000, "1, " * 20_000, "[" * 60_000):
        read.clear()
        large = {"csrf_token": "x" * 9_000, "name": fill[:15_000], "bio": fill[:15_000]}
        answer = service.client.post("/connect", data={**large, "unknown": fill[:9_000]})
        assert answer.status_code in (400, 413) and sum(read) == 0
        small = {"csrf_token": "x", "bio": fill[:4_000], "unknown": fill[:9_000]}
        service.client.post("/connect", data=small)
        assert sum(read) <= MAX_READ


def test_an_oversized_profile_field_is_refused_unread(service, read):
    for check, given in (
        (influencers.check_bio, LONG),
        (influencers.check_voice, {"tone": LONG}),
        (influencers.check_voice, {"topics": [LONG]}),
        (lambda text: fields.check_line("name", text, 60), LONG),
        (fields.check_wallet, LONG),
    ):
        assert refused(check, given).code == "validation_failed"
    for field in ("tone", "topics"):
        answer = service.client.get("/connect/preview", query_string={field: WORST[:3_900]})
        assert answer.status_code == 204
    assert max(read, default=0) <= 10


def test_invisible_characters_are_removed_before_measuring(service, key):
    said = {"eventId": "1", "body": "b" * 4_000 + "\u200b" * 1_000}
    answer = service.post(said, key)
    assert (answer.status_code, len(answer.json["body"])) == (201, 4_000)
    assert answer.json["sanitized"]
    assert service.post({"eventId": "2", "body": "b" * 4_001}, key).status_code == 422
