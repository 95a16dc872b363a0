"""Owners, bots and wallets: who has what, and what a wallet field rejects."""

import functools
import hashlib
import json
import re

import ground
import pytest
from nacl.signing import SigningKey
from service import NOW, Service, address, hide_post, refused, signature

from accounts import acts, api_keys, influencers, owners, traders, wallets
from accounts.fields import NOBODYS, check_wallet
from chain import addresses
from chain.addresses import NATIVE, SYSVARS, is_on_curve
from chain.reading.programs import table
from chain.symbols import clean_text
from models import Address, Attachment, Bot, Key, Owner, Wallet
from paper.tables import Trader

# Raydium's "amm authority" (a derived mainnet address), and an address with a key.
VAULT = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
PERSON = addresses.b58encode(SigningKey(bytes(32)).verify_key.encode())
SECRETS = {
    "a key of 64 bytes": signature("secret"),
    "a byte array": json.dumps(list(range(64))),
    "a byte array without brackets": ", ".join(map(str, range(64))),
    "12 words": (
        "abandon ability able about above absent absorb abstract absurd abuse access accident"
    ),
    "24 words over lines": "\n".join(["abandon"] * 24),
    "15 words": " ".join(["zoo"] * 15),
    "hex of 32 bytes": "ab" * 32,
    "hex of 64 bytes": "0x" + "0F" * 64,
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_refused_with_a_warning_and_never_repeated(name):
    problem = refused(check_wallet, SECRETS[name])
    shown = str(problem) + json.dumps(problem.errors)
    assert "seed phrase" in shown and not any(
        part in shown for part in SECRETS[name].split() if len(part) > 8
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "hello", "name.sol", "0OIl" * 9, "é" * 32, "1" * 31, address("a") + "1" * 20),
        *(addresses.b58encode(bytes(range(1, 32))), "11111111111111111111111111111111"),
        "So11111111111111111111111111111111111111112",
    ],
)
def test_an_invalid_wallet_address_is_refused(text):
    problem = refused(check_wallet, text)
    assert problem.errors[0]["field"] == "wallet" and "seed" not in str(problem)


def test_programs_and_sysvars_are_refused_as_wallets(service):
    """A claim of one would show strangers' trades, and nobody could displace it by a proof."""
    for one in (*NATIVE, *SYSVARS, *table().names):
        assert len(addresses.b58decode(one)) == 32, one
        problem = refused(check_wallet, one)
        assert problem.errors == [{"field": "wallet", "message": NOBODYS}]
    rows = f"id,name,family,source\n{address('added')},Tomorrow,swap,https://tomorrow.example\n"
    mine = ground.change(
        service.config, extra_swap_programs=(address("venue"),), added_programs=rows
    )
    for name in ("venue", "added"):
        problem = refused(influencers.create_bot, mine, "A", NOW, address(name))
        assert problem.code == "validation_failed"


def test_addresses_off_the_curve_are_recognized_as_derived():
    """Keys made by libsodium are on the curve; addresses derived by programs aren't (mainnet
    examples).
    """
    for n in range(50):
        key = SigningKey(hashlib.sha256(str(n).encode()).digest()).verify_key.encode()
        assert is_on_curve(key)
    assert not is_on_curve(addresses.b58decode(VAULT))
    # The generator, RFC 8032: y = 4/5.
    assert is_on_curve((4 * pow(5, -1, 2**255 - 19) % (2**255 - 19)).to_bytes(32, "little"))


def test_a_vault_can_be_observed_but_not_proven(service):
    made = service.make_bot("Vault", VAULT)
    key = made.publish_key.text
    shown = service.get(f"/api/v1/bots/{made.bot.uid}", key).json
    assert (shown["provable"], shown["wallet"]["ownership"]) == (False, "claimed")
    problem = refused(
        wallets.attach_wallet, service.config, made.bot, VAULT, NOW, ownership="proven"
    )
    assert problem.code == "validation_failed"
    assert wallets.find_attachment(made.bot).ownership == "claimed"
    assert "a program derives it" in service.get(f"/bots/{made.bot.uid}").text
    person = service.make_bot("Person", PERSON)
    assert service.get(f"/api/v1/bots/{person.bot.uid}", key).json["provable"] is True
    mute = service.make_bot("Mute")
    assert service.get(f"/api/v1/bots/{mute.bot.uid}", key).json["provable"] is None


def test_spaces_around_an_address_are_ignored():
    assert check_wallet(f"  {address('a')}\n") == address("a")


@pytest.mark.parametrize(
    "text, cleaned",
    [
        # Bidi override and isolate.
        ("a\u202eb\u2066c", "abc"),
        ("tag\U000e0041\U000e0042", "tag"),
        ("soft\u00adhyphen", "softhyphen"),
        ("zero\u200b\ufeffwidth", "zerowidth"),
        ("filler\u3164\u115f", "filler"),
        ("smuggled\U000e0101\U000e0102", "smuggled"),
        ("\ufe0f\ufe0f", ""),
        ("👩\u200d🚀 👨\u200d👩\u200d👧", "👩\u200d🚀 👨\u200d👩\u200d👧"),
        ("👩🏽\u200d🚀", "👩🏽\u200d🚀"),
        ("❤\ufe0f\u200d🔥", "❤\ufe0f\u200d🔥"),
        ("1\ufe0f\u20e3", "1\ufe0f\u20e3"),
        ("1\u200d2", "12"),
        ("a\u200db", "ab"),
        ("\u2028kept\u2029", "\u2028kept\u2029"),
        ("naïve Ελληνικά 日本語 🙂", "naïve Ελληνικά 日本語 🙂"),
    ],
)
def test_invisible_characters_are_removed_and_emoji_kept_intact(text, cleaned):
    assert clean_text(text) == cleaned


def test_creating_a_bot_returns_its_owner_key_and_watched_wallet(service):
    made = service.make_bot("Äda  Löve", address("w"))
    wallet = Wallet.get()
    assert (made.bot.handle, made.bot.name) == ("ada-love", "Äda  Löve")
    assert (wallet.address, wallet.bot_id, wallet.due_at) == (address("w"), made.bot.id, 0)
    assert [row.address for row in Address.select()] == [address("w")]
    assert wallets.find_attachment(made.bot).ownership == "claimed"
    # 128 bits in base32.
    assert len(made.recovery_code.replace("-", "")) == 26
    assert made.recovery_code not in str(Owner.select().dicts().get())


def test_handles_are_unique_and_never_empty(service):
    handles = [service.make_bot(name).bot.handle for name in ("Ada", "ada 🌙", "日本", "🤖")]
    assert (handles[0], handles[2], len(set(handles))) == ("ada", "bot", 4)
    assert handles[1].startswith("ada-") and handles[3].startswith("bot-")


@pytest.mark.parametrize("name", ["", "   ", "x" * 61, "line\nbreak", "nul\0", "\u202e"])
def test_invalid_names_are_refused(service, name):
    problem = refused(service.make_bot, name)
    assert problem.errors[0]["field"] == "name" and Owner.select().count() == 0


def test_a_wallet_belongs_to_one_bot_at_a_time(service):
    ada, bob = service.make_bot("Ada", address("w")), service.make_bot("Bob")
    problem = refused(wallets.attach_wallet, service.config, bob.bot, address("w"), NOW)
    assert problem.code == "wallet_taken"
    assert refused(service.make_bot, "Eve", address("w")).code == "wallet_taken"
    assert Bot.select().count() == 2 and Owner.select().count() == 2
    wallets.detach_wallet(ada.bot, NOW + 1)
    # Until another bot connects the wallet, its trades stay with her bot.
    assert Wallet.get().bot_id == ada.bot.id
    wallets.attach_wallet(service.config, bob.bot, address("w"), NOW + 2)
    assert Wallet.get().bot_id == bob.bot.id and wallets.find_attachment(ada.bot) is None


def test_proof_displaces_a_claim_but_not_a_proof(service):
    ada, bob = service.make_bot("Ada", address("w")), service.make_bot("Bob")
    wallets.attach_wallet(service.config, bob.bot, address("w"), NOW + 1, ownership="proven")
    assert wallets.find_attachment(ada.bot) is None
    assert wallets.find_attachment(bob.bot).ownership == "proven"
    problem = refused(
        wallets.attach_wallet, service.config, ada.bot, address("w"), NOW + 2, ownership="proven"
    )
    assert problem.code == "wallet_taken"
    wallets.detach_wallet(bob.bot, NOW + 3)
    wallets.attach_wallet(service.config, bob.bot, address("w"), NOW + 4)
    # Disconnecting removed the badge.
    assert wallets.find_attachment(bob.bot).ownership == "claimed"


def test_replacing_a_wallet_keeps_the_attachment_history(service):
    bot = service.make_bot("Ada", address("one")).bot
    wallets.attach_wallet(service.config, bot, address("two"), NOW + 5)
    # Again: nothing changes.
    wallets.attach_wallet(service.config, bot, address("two"), NOW + 6)
    rows = [
        (row.wallet.address, row.attached_at, row.detached_at)
        for row in Attachment.select().order_by(Attachment.id)
    ]
    assert rows == [(address("one"), NOW, NOW + 5), (address("two"), NOW + 5, None)]


def test_an_owner_at_the_limit_moves_a_wallet_to_another_bot_by_proof(tmp_path):
    service = Service(tmp_path / "data", max_wallets_per_owner=2)
    first = service.make_bot("A", address("w"))
    second = service.make_bot("B", address("e"), first.owner)
    third, stranger = service.make_bot("C", None, first.owner), service.make_bot("D", address("i"))

    def prove(bot, name):
        wallets.attach_wallet(service.config, bot, address(name), NOW, ownership="proven")

    # Two before, two after.
    prove(third.bot, "w")
    assert wallets.find_attachment(first.bot) is None
    # A third wallet, from a stranger.
    assert refused(prove, first.bot, "i").code == "wallet_limit"
    # Replacing its wallet: two before, one after.
    prove(third.bot, "e")
    assert [wallets.find_attachment(one.bot) for one in (first, second)] == [None, None]
    # One wallet is free now.
    prove(first.bot, "i")
    assert wallets.find_attachment(stranger.bot) is None
    assert refused(prove, second.bot, "w").code == "wallet_limit"
    service.close()


def test_retiring_revokes_keys_and_frees_the_wallet(service):
    made = service.make_bot("Ada", address("w"))
    influencers.retire_bot(made.bot, NOW + 1)
    influencers.retire_bot(made.bot, NOW + 2)
    retired = Bot.get()
    assert retired.retired_at == Key.get().revoked_at == NOW + 1
    assert wallets.find_attachment(retired) is None
    problem = refused(wallets.attach_wallet, service.config, retired, address("w"), NOW + 3)
    assert problem.code == "bot_retired"
    problem = refused(api_keys.create_key, made.owner, "publish", NOW + 3, bot=retired)
    assert problem.code == "bot_retired"
    service.make_bot("Bob", address("w"))


def test_a_recovery_code_works_once_however_it_is_typed(service):
    made = service.make_bot()
    owner, code = owners.recover_owner(made.recovery_code.lower().replace("-", " "))
    assert owner == made.owner and code != made.recovery_code
    assert owners.recover_owner(made.recovery_code) is None
    assert owners.recover_owner(code)[0] == made.owner
    assert owners.recover_owner("") is None


def test_recovery_codes_are_hashed_differently_from_keys():
    """So that neither a key nor any other hashed value can pass for a recovery code."""
    kept = hashlib.sha256(b"recovery:ABCDEFGH").hexdigest()
    assert owners.hash_recovery_code("abcd e-FGH") == kept
    assert re.fullmatch("([A-Z2-7]{5}-){5}[A-Z2-7]", owners.make_recovery_code())


@pytest.mark.parametrize(
    ("noun", "find"),
    [
        ("owner", owners.find_owner),
        ("key", api_keys.find_key),
        ("post", lambda uid: hide_post(uid, NOW)),
        ("post", lambda uid: acts.hide_post(uid, "operator", "spam", NOW)),
    ],
)
def test_unknown_ids_are_named_in_the_error(service, noun, find):
    problem = refused(find, "nobody")
    assert (problem.code, problem.detail) == ("not_found", f"there is no such {noun}")


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


@pytest.mark.parametrize(
    ("change", "table"),
    [(functools.partial(influencers.set_profile, now=NOW), Bot), (traders.set_profile, Trader)],
)
def test_two_concurrent_profile_edits_lose_nothing(service, change, table):
    """Both read the profile before either wrote."""
    if table is Bot:
        made = service.make_bot().bot
    else:
        made = traders.create_trader("Ada", "momentum", NOW).trader
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
