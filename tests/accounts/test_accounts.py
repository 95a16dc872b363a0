"""Owners and their bots: what creation returns, how profiles change, and how they end."""

import functools
import hashlib
import json
import re

import pytest
from service import NOW, address, refused

from accounts import influencers, owners, traders, wallets
from models import Address, Bot, Key, Owner, Wallet
from paper.tables import Trader


def test_creating_a_bot_returns_its_owner_key_and_watched_wallet(service):
    made = service.make_bot("Äda  Löve", address("w"))
    wallet = Wallet.get()
    assert (made.bot.handle, made.bot.name) == ("ada-love", "Äda  Löve")
    assert (wallet.address, wallet.bot_id, wallet.due_at) == (address("w"), made.bot.id, 0)
    assert [row.address for row in Address.select()] == [address("w")]
    assert wallets.find_attachment(made.bot).ownership == "claimed"


def test_retiring_revokes_the_keys_once(bot):
    """Its wallets: test_attachments.py."""
    for now in (NOW + 1, NOW + 2):
        influencers.retire_bot(bot.bot, now)
    assert Bot.get().retired_at == Key.get().revoked_at == NOW + 1


# ---- recovery codes ------------------------------------------------------------------------------
def test_only_an_owners_latest_recovery_code_works_however_it_is_typed(db):
    """Each is replaced: the first by its use, the second by its owner, the third by the operator.
    Neither a session nor another owner's code is enough to replace one.
    """
    (owner, first), (other, foreign) = owners.create_owner(NOW), owners.create_owner(NOW)
    found, second = owners.recover_owner(first.lower().replace("-", " "))
    assert found == owner
    assert owners.renew_recovery_code(owner, foreign) is None
    third = owners.renew_recovery_code(owner, second)
    latest = owners.replace_recovery_code(owner)
    assert not any(map(owners.recover_owner, (first, second, third, "")))
    found = [owners.recover_owner(code).owner for code in (latest, foreign)]
    assert found == [owner, other]


def test_recovery_codes_are_stored_as_hashes_that_no_key_has(service):
    """128 bits in base32. The prefix keeps any other hashed value from passing for a code."""
    code = service.make_bot().recovery_code
    assert re.fullmatch("([A-Z2-7]{5}-){5}[A-Z2-7]", code)
    assert code not in str(Owner.select().dicts().get())
    kept = hashlib.sha256(b"recovery:ABCDEFGH").hexdigest()
    assert owners.hash_recovery_code("abcd e-FGH") == kept


# ---- profiles ------------------------------------------------------------------------------------
def test_only_known_voice_words_are_accepted(service):
    bot = service.make_bot().bot
    told = {"tone": "wry", "topics": ["mev", "memes"]}
    influencers.set_profile(bot, voice=told, bio="hello\nthere", now=1)
    rest = {"style": [], "adjectives": [], "catchphrases": [], "emoji": ""}
    assert json.loads(Bot.get().voice) == {**told, **rest}
    assert Bot.get().bio == "hello there"
    for voice in ({"loud": "x"}, {"tone": "x" * 61}, {"topics": ["a"] * 13}, {"topics": ["\0"]}):
        assert refused(influencers.set_profile, bot, voice=voice, now=1).code == "validation_failed"
    assert json.loads(Bot.get().voice)["tone"] == "wry"


@pytest.mark.parametrize("table", [Bot, Trader])
def test_two_concurrent_profile_edits_lose_nothing(service, table):
    """Both read the profile before either wrote."""
    if table is Bot:
        made, change = service.make_bot().bot, functools.partial(influencers.set_profile, now=NOW)
    else:
        made = traders.create_trader("Ada", "momentum", NOW).trader
        change = traders.set_profile
    first, second = table.get_by_id(made.id), table.get_by_id(made.id)
    change(first, voice={"tone": "dry"}, bio="new")
    change(second, voice={"emoji": "x"}, name="Ada B")
    change(first, name="Ada")
    stored = table.get_by_id(made.id)
    voice = json.loads(stored.voice)
    assert (voice["tone"], voice["emoji"], stored.bio, stored.name) == ("dry", "x", "new", "Ada")


def test_auto_post_starts_with_later_trades(service):
    bot = service.make_bot().bot
    influencers.set_profile(bot, auto_post=True, now=NOW + 7)
    influencers.set_profile(bot, auto_post=True, now=NOW + 9)
    assert (Bot.get().auto_post, Bot.get().auto_post_since) == (True, NOW + 7)
    influencers.set_profile(bot, auto_post=False, now=1)
    assert (Bot.get().auto_post, Bot.get().auto_post_since) == (False, None)
