"""Owners, their bots and their API keys: what creation returns, how profiles change, how long keys
work, and how all of them end.
"""

import functools
import hashlib
import itertools
import json
import re
import time
import zlib

import ground
import pytest
from service import NOW, address, race, refused

from accounts import api_keys, influencers, keys, owners, traders, wallets
from cli import people
from models import Address, Bot, Key, Owner, Wallet
from paper.tables import Trader
from storage import database
from web.server import gate

HOUR = 3_600_000
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


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
    """Each is replaced: the first and third by their use, the second by its owner, the fourth by
    the operator. Neither a session nor another owner's code is enough to replace one.
    """
    (owner, first), (other, foreign) = owners.create_owner(NOW), owners.create_owner(NOW)
    found, second = owners.recover_owner(first.lower().replace("-", " "))
    assert found == owner and owners.recover_owner(first) is None
    assert owners.renew_recovery_code(owner, foreign) is None
    third = owners.renew_recovery_code(owner, second)
    fourth = owners.recover_owner(third).recovery_code
    latest = owners.replace_recovery_code(owner)
    assert not any(map(owners.recover_owner, (first, second, third, fourth, "")))
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


# ---- keys ----------------------------------------------------------------------------------------
@pytest.fixture
def owner(service):
    """An owner with one key: the bot's."""
    return service.make_bot().owner


def create(owner, count=1, **more):
    return [api_keys.create_key(owner, "read", NOW, **more) for _ in range(count)]


def find(key, now=NOW):
    return gate.find_key(key.text, now)


def read_base62(text):
    value = 0
    for letter in text:
        value = value * 62 + ALPHABET.index(letter)
    return value


@pytest.mark.parametrize("scope, prefix", [("read", "cnd_read_"), ("publish", "cnd_pub_")])
def test_a_key_contains_32_random_bytes_and_a_checksum(monkeypatch, scope, prefix):
    """Its 43 letters, read as a base-62 number, are those bytes."""
    drawn = bytes(range(1, 33))
    monkeypatch.setattr(keys.secrets, "token_bytes", lambda count: bytes(range(1, count + 1)))
    key = keys.make_key(scope)
    assert re.fullmatch(prefix + "[0-9A-Za-z]{49}", key) and keys.is_well_formed(key)
    assert read_base62(key.removeprefix(prefix)[:43]).to_bytes(32, "big") == drawn
    assert read_base62(key[-6:]) == zlib.crc32(key[:-6].encode())


def test_a_mistyped_key_needs_no_database_query():
    key = keys.make_key("read")
    wrong = [key[:at] + ("x" if key[at] != "x" else "y") + key[at + 1 :] for at in range(len(key))]
    wrong += [key[:-1], key + "x", key.replace("read", "pub"), "", "cnd_read_", key[:-1] + "é"]
    assert not [text for text in wrong if keys.is_well_formed(text)]


def test_only_the_hash_of_a_key_is_stored_next_to_its_owner_and_bot(bot):
    text, row = bot.publish_key.text, Key.select().dicts().get()
    told = row["prefix"], row["last4"], row["hash"]
    assert told == ("cnd_pub_", text[-4:], keys.hash_secret(text)) and text not in str(row)
    callers = find(bot.publish_key), find(*create(bot.owner))
    told = [(one.scope, one.bot_id, one.bot_uid, one.owner_uid) for one in callers]
    mine = "publish", bot.bot.id, bot.bot.uid, bot.owner.uid
    assert told == [mine, ("read", None, None, bot.owner.uid)]


# ---- lifetime of keys ----------------------------------------------------------------------------
def test_keys_rotate_at_once_or_with_an_overlap(bot):
    old = bot.publish_key
    second = api_keys.rotate_key(old.key, NOW)
    assert find(old) is None and find(second).bot_id == old.key.bot_id is not None
    # It was revoked and didn't expire.
    ended = Key.get(Key.id == old.key.id)
    assert (ended.revoked_at, ended.expires_at) == (NOW, None)
    third = api_keys.rotate_key(second.key, NOW, overlap_ms=HOUR)
    assert find(second, NOW + HOUR - 1) and find(third, NOW + HOUR - 1)
    assert find(second, NOW + HOUR) is None and find(third, NOW + HOUR)


@pytest.mark.parametrize("overlap", [0, 24 * HOUR])
def test_rotation_does_not_extend_a_keys_life(owner, overlap):
    (old,) = create(owner, expires_at=NOW + HOUR)
    new = api_keys.rotate_key(old.key, NOW, overlap)
    assert bool(find(old, NOW + HOUR - 1)) == (overlap > 0)
    assert find(new, NOW + HOUR - 1)
    assert find(old, NOW + HOUR) is find(new, NOW + HOUR) is None


def test_an_ended_key_cannot_be_rotated(owner):
    (expired,), (revoked,) = create(owner, expires_at=NOW + HOUR), create(owner)
    api_keys.revoke_key(revoked.key.uid, NOW)
    before = Key.select().count()
    for key, overlap in itertools.product((expired, revoked), (0, HOUR)):
        problem = refused(api_keys.rotate_key, key.key, NOW + HOUR, overlap)
        told = "this key was revoked or has expired; create a new one"
        assert (problem.code, str(problem)) == ("key_ended", told)
        assert find(key, NOW + HOUR) is None
    assert Key.select().count() == before


# ---- last use ------------------------------------------------------------------------------------
def test_last_use_is_recorded_once_a_minute(service):
    uid, allowance = service.make_bot().publish_key.key.uid, service.app.allowance
    for after, known in ((0, 0), (59_999, 0), (60_000, 60_000), (20_000, 60_000)):
        allowance.note_use(uid, NOW + after)
        assert allowance.find_uses() == {uid: NOW + known}


def test_last_used_is_shown_and_survives_a_restart(service):
    made, uses = service.make_bot(), service.app.allowance.find_uses
    assert people.show_key(api_keys.list_keys(made.owner, uses())[0])["lastUsedAt"] is None
    assert service.get("/api/v1/me", made.publish_key.text).status_code == 200
    service.app.allowance.store.close()
    (shown,) = api_keys.list_keys(made.owner, uses())
    assert abs(shown.last_used_at - time.time_ns() // 1_000_000) < 600_000
    assert people.show_key(shown)["lastUsedAt"].endswith("Z")


def read_main_database():
    """Everything in the main database that using a key could change, and on SQLite also the commit
    counter. (PostgreSQL counts commits of the whole cluster, including other tests.)
    """
    rows = [list(model.select().order_by(model.id).tuples()) for model in (Key, Owner)]
    return rows, None if ground.SERVER else database.data_version()


def test_using_keys_does_not_write_to_the_main_database(service):
    owners = [service.make_bot(f"Bot {n}").owner for n in range(2)]
    texts = [key.text for owner in owners for key in create(owner, 5)]
    before = read_main_database()
    for text in texts:
        assert service.get("/api/v1/feed", text).status_code == 200
    assert read_main_database() == before
    assert len(service.app.allowance.find_uses()) == 10


def test_a_key_works_while_counters_are_unavailable(service, key, monkeypatch):
    allowance = service.app.allowance

    def fail(*_):
        raise allowance.store.unusable[0]

    for name in ("note_use", "find_uses"):
        monkeypatch.setattr(allowance.store, name, fail)
    assert service.get("/api/v1/me", key).status_code == 200
    assert allowance.find_uses() == {}


# ---- who gets a key ------------------------------------------------------------------------------
def test_an_owner_has_at_most_twenty_active_keys(service, owner):
    """The bot's own key, and nineteen others, of which one is revoked and one expires."""
    made, _ = create(owner, 18), create(owner, expires_at=NOW + HOUR)
    problem = refused(create, owner)
    assert problem.code == "key_limit"
    assert str(problem) == "an account can have at most 20 active keys; revoke one first"
    late = refused(service.make_bot, "Late", wallet=address("late"), owner=owner)
    assert (late.code, Bot.select().count()) == ("key_limit", 1)
    api_keys.revoke_key(made[0].key.uid, NOW)
    create(owner)
    assert refused(api_keys.create_key, owner, "read", NOW + HOUR - 1).code == "key_limit"
    # Other owners have twenty keys of their own.
    create(service.make_bot("Bob").owner)
    api_keys.create_key(owner, "read", NOW + HOUR)


def test_only_one_request_wins_the_last_key(owner):
    create(owner, 18)
    outcomes = race(8, lambda _: api_keys.create_key(Owner.get(), "read", NOW).key.scope)
    assert sorted(outcomes) == ["key_limit"] * 7 + ["read"]


def test_a_key_has_a_short_name_and_no_retired_bot(service):
    made = service.make_bot()
    (named,) = create(made.owner, name="n" * 60)
    (error,) = refused(create, made.owner, name="n" * 61).errors
    assert (named.key.name, error["field"]) == ("n" * 60, "name")
    influencers.retire_bot(made.bot, NOW)
    # Once as another request read it earlier, and once as it is now.
    for bot in (made.bot, Bot.get()):
        problem = refused(api_keys.create_key, made.owner, "publish", NOW, bot=bot)
        told = "a retired bot cannot get a new key"
        assert (problem.code, str(problem)) == ("bot_retired", told)
