"""Text from outside: which wallet addresses are accepted, which signatures prove that somebody owns
one, which names are allowed, and the handles made from them.
"""

import base64
import hashlib
import json
import struct

import ground
import pytest
from nacl.signing import SigningKey
from service import NOW, address, refused, signature

from accounts import influencers, traders, wallets
from accounts.fields import NOBODYS, check_name, check_wallet, find_trusted
from chain import addresses
from chain.addresses import NATIVE, SYSVARS, is_on_curve
from chain.reading.programs import table
from chain.symbols import LIKE, clean_text, find_skeleton
from models import Bot, Owner
from paper.tables import Trader

KEY = SigningKey(bytes(range(32)))
WALLET = addresses.b58encode(bytes(KEY.verify_key))
OFF_CURVE = addresses.b58encode(b"\x02" + bytes(31))
# Raydium's "amm authority", a mainnet address that a program derives.
VAULT = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
SECRETS = {
    "a key of 64 bytes": signature("secret"),
    "a byte array": json.dumps(list(range(64))),
    "a byte array without brackets": ", ".join(map(str, range(64))),
    "12 words": "abandon ability able about above absent absorb abstract absurd abuse access acid",
    "24 words over lines": "\n".join(["abandon"] * 24),
    "15 words": " ".join(["zoo"] * 15),
    "hex of 32 bytes": "ab" * 32,
    "hex of 64 bytes": "0x" + "0F" * 64,
}
NO_ADDRESSES = (
    *("", "hello", "name.sol", "0OIl" * 9, "é" * 32, "1" * 31, address("a") + "1" * 20),
    *(addresses.b58encode(bytes(range(1, 32))), "11111111111111111111111111111111"),
    "So11111111111111111111111111111111111111112",
)


# ---- addresses -----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_refused_with_a_warning_and_never_repeated(name):
    problem = refused(check_wallet, SECRETS[name])
    shown = str(problem) + json.dumps(problem.errors)
    assert "seed phrase" in shown
    assert not [part for part in SECRETS[name].split() if len(part) > 8 and part in shown]


def test_an_invalid_wallet_address_is_refused():
    for text in NO_ADDRESSES:
        problem = refused(check_wallet, text)
        assert problem.errors[0]["field"] == "wallet" and "seed" not in str(problem), text
    assert check_wallet(f"  {address('a')}\n") == address("a")


def test_programs_and_sysvars_are_refused_as_wallets(service):
    """A claim of one would show strangers' trades, and nobody could displace it by a proof."""
    for one in (*NATIVE, *SYSVARS, *table().names):
        assert len(addresses.b58decode(one)) == 32, one
        problem = refused(check_wallet, one)
        assert problem.errors == [{"field": "wallet", "message": NOBODYS}]
    rows = f"id,name,family,source\n{address('added')},Tomorrow,swap,https://tomorrow.example\n"
    programs = {"extra_swap_programs": (address("venue"),), "added_programs": rows}
    mine = ground.change(service.config, **programs)
    for name in ("venue", "added"):
        problem = refused(influencers.create_bot, mine, "A", NOW, address(name))
        assert problem.code == "validation_failed"


def test_addresses_off_the_curve_are_recognized_as_derived():
    """Keys made by libsodium are on the curve; addresses derived by programs aren't."""
    for n in range(50):
        key = SigningKey(hashlib.sha256(str(n).encode()).digest()).verify_key.encode()
        assert is_on_curve(key)
    assert not is_on_curve(addresses.b58decode(VAULT))
    # The generator, RFC 8032: y = 4/5.
    assert is_on_curve((4 * pow(5, -1, 2**255 - 19) % (2**255 - 19)).to_bytes(32, "little"))


def test_a_vault_can_be_observed_but_not_proven(service):
    vault, key = service.make_bot("Vault", VAULT).bot, service.make_bot("Z").publish_key.text
    shown = service.get(f"/api/v1/bots/{vault.uid}", key).json
    assert (shown["provable"], shown["wallet"]["ownership"]) == (False, "claimed")
    problem = refused(wallets.attach_wallet, service.config, vault, VAULT, NOW, "proven")
    assert problem.code == "validation_failed"
    assert wallets.find_attachment(vault).ownership == "claimed"
    assert "a program derives it" in service.get(f"/bots/{vault.uid}").text
    for name, wallet, provable in (("Person", WALLET, True), ("Mute", None, None)):
        made = service.make_bot(name, wallet)
        assert service.get(f"/api/v1/bots/{made.bot.uid}", key).json["provable"] is provable


# ---- signatures ----------------------------------------------------------------------------------
NAMED = ("https://candor.example", "bot_1", WALLET, "0f" * 12)
TEXT = wallets.write_challenge(*NAMED, 1_793_880_300_999)
DOMAIN = b"\xffsolana offchain"
LENGTH = struct.pack("<H", len(TEXT))


def sign(message, key=KEY):
    return key.sign(message).signature


def test_the_challenge_names_its_purpose_on_one_printable_line():
    assert all(part in TEXT for part in (*NAMED, "2026-11-05T12:05:00Z"))
    assert TEXT.isascii() and TEXT.isprintable() and len(TEXT) < 1000


FORMATS = {
    "plain text": TEXT.encode(),
    # `solana sign-offchain-message` (solana-offchain-message 2.2): domain, version, format,
    # length, text.
    "CLI, ASCII": DOMAIN + b"\0\0" + LENGTH + TEXT.encode(),
    "CLI, UTF-8": DOMAIN + b"\0\1" + LENGTH + TEXT.encode(),
    # docs.anza.xyz: version, application domain, format, signers, length, text.
    "as documented": b"".join(
        (DOMAIN, b"\0", bytes(32), b"\0\1", bytes(KEY.verify_key), LENGTH, TEXT.encode())
    ),
}
WRONG = {
    "another key": sign(TEXT.encode(), SigningKey(bytes(32))),
    "another text": sign(TEXT.encode() + b" "),
    "another format": sign(DOMAIN + TEXT.encode()),
    "zeros": bytes(64),
    "another bot": sign(TEXT.replace("bot_1", "bot_2").encode()),
}


def test_a_signature_in_each_format_proves_the_wallet_and_no_other_does():
    for name, message in FORMATS.items():
        assert wallets.is_signed(WALLET, sign(message), TEXT), name
    for name, wrong in WRONG.items():
        assert not wallets.is_signed(WALLET, wrong, TEXT), name
        assert not wallets.is_signed(OFF_CURVE, wrong, TEXT), name


def test_a_signature_is_64_bytes_in_any_common_encoding():
    """In 200 characters at most, without surrounding space: 128 hex digits and 72 spaces."""
    raw = sign(TEXT.encode())
    in_base64, spaced = base64.b64encode(raw).decode(), raw.hex()[:2] + " " * 72 + raw.hex()[2:]
    for text in (addresses.b58encode(raw), in_base64, f"  {raw.hex()}\n", " " * 99 + spaced):
        assert wallets.parse_signature(text) == raw
    # Valid base64 if other characters were ignored.
    almost = base64.b64encode(bytes(64)).decode().replace("A", "!*A", 1)
    short, long = base64.b64encode(bytes(63)).decode(), "00" + " " * 73 + "0" * 126
    for text in ("", "abc", "0" * 126, short, "ü" * 88, "[1,2,3]", "\0" * 128, long, almost):
        assert wallets.parse_signature(text) is None, text


# ---- names ---------------------------------------------------------------------------------------
def refuse(act, *given, **more):
    problem = refused(act, *given, **more)
    assert problem.code == "validation_failed" and problem.errors[0]["field"] == "name"


# By what is deceptive about them.
DECEPTIVE = {
    "brackets": ("[receipt verified] Ada", "Ada [owner proven]", "【receipt】 Ada", "［x］ Ada"),
    "check marks": ("✓ Ada", "Ada ✅"),
    "labels": (
        *("Ada receipt verified", "Verified Ada", "owner proven: Ada", "not verified"),
        *("wallet proven", "wallet claimed", "does not match", "doesn't match", "Simulated Sam"),
    ),
    "look-alike letters": (
        *("Ada · vеrіfіed", "ᴠᴇʀɪꜰɪᴇᴅ Ada", "ＶＥＲＩＦＩＥＤ", "vérified", "ⓥⓔⓡⓘⓕⓘⓔⓓ Ada"),
        *("ve̶rified", "Ада admin", "日本admin", "аdmin"),
    ),
    "digits and pairs as letters": (
        *("ver1fied", "v3r!fied verified", "Pr0ven", "4dm1n", "@dmin", "adrnin", "Admin2"),
        "0perator",
    ),
    "spaces": ("receipt_verified", "receiptverified", "v e r i f i e d", "V.E.R.I.F.I.E.D"),
    "capitals": ("VerifiedAda", "AdminAda"),
    "the operator": ("Official Ada", "Candor", "CANDOR Bot", "candor.bot", "admin"),
    "roles": ("Moderator Max", "Support", "The Support Team", "System"),
    "blank": ("\u2800", "Ada\u2800", "\u2800\u2800Ada", "\u3164", "\u115f\u1160", "\u0301"),
    "piled marks": (
        *("A" + "\u0301\u0302\u0303\u0304", "Z" + "a\u0323\u0331" * 9),
        "A" + "\u0336" * 57,
    ),
}
ACCEPTED = (
    *("Ada", "Äda  Löve", "日本", "🤖", "👩\u200d🚀 Ada", "❤\ufe0f", "1\ufe0f\u20e3 first"),
    *("Нина", "Ελένη", "हिन्दी", "ที่นี่", "Nguyễn", "محمد", "Bot 1 (beta)", "R2-D2"),
    *("The mean_reversion one", "O'Neill & Co.", "Veri", "Provenance Pete", "Administer"),
    *("Smooth Operator", "Support Vector", "Turtle System", "Team Rocket", "Officer Kay"),
    *("Candid", "Modern Art", "Sysadmin Sue", "Candorville"),
)
# A name, and others that look like it.
ALIKE = {
    "Ada": ("Ada", "ADA", "  ada ", "Аdа", "Ａｄａ", "A\u200bda", "ada!", "Äda", "A\u0336d\u0336a"),
    "Ada Love": ("Ada  Love",),
    "𝓐𝓭𝓪": ("Ada",),
    "Paypal": ("PaypaI",),
    "Bot 1": ("Bot l",),
    "Bot 0": ("Bot O",),
    "Corona": ("Соrоnа",),
    "Nova": ("Νονα",),
    "Нина": ("НИНА", "нина"),
    "Coda": ("Ꮯꓳᗪꭺ", "🅒🅾🅳🇦"),
    "Muse": ("Ⅿυꜱе",),
    "Nell 3": ("ꓠꓰⳐꓡ Ꝫ",),
    "Nell": (*("Nell.", "N ell", "Ne∣∣", "Ne||", "Ne11", "N-e_l·l", "Nełl", "ℕ𝕖𝕝𝕝", "“Nell”"),),
    "Emma": ("Ernma",),
    "Ewa": ("Evva",),
}


CLEANED = {
    # Bidi override and isolate.
    "a\u202eb\u2066c": "abc",
    "tag\U000e0041\U000e0042": "tag",
    "soft\u00adhyphen": "softhyphen",
    "zero\u200b\ufeffwidth": "zerowidth",
    "filler\u3164\u115f": "filler",
    "smuggled\U000e0101\U000e0102": "smuggled",
    "\ufe0f\ufe0f": "",
    "1\u200d2": "12",
    "a\u200db": "ab",
}
INTACT = (
    *("👩\u200d🚀 👨\u200d👩\u200d👧", "👩🏽\u200d🚀", "❤\ufe0f\u200d🔥", "1\ufe0f\u20e3"),
    *("\u2028kept\u2029", "naïve Ελληνικά 日本語 🙂"),
)


@pytest.mark.parametrize("kind", DECEPTIVE)
def test_deceptive_names_are_refused(kind):
    for name in DECEPTIVE[kind]:
        refuse(check_name, name)


def test_names_in_all_scripts_are_accepted():
    assert [check_name(name) for name in ACCEPTED] == [*ACCEPTED]


@pytest.mark.parametrize("name", ["", "   ", "x" * 61, "line\nbreak", "nul\0", "\u202e"])
def test_an_invalid_name_creates_nothing(service, name):
    refuse(service.make_bot, name)
    assert Owner.select().count() == 0


def test_invisible_characters_are_removed_and_emoji_kept_intact():
    assert {text: clean_text(text) for text in CLEANED} == CLEANED
    assert [clean_text(text) for text in INTACT] == [*INTACT]


def test_handles_are_unique_and_never_empty(service):
    handles = [service.make_bot(name).bot.handle for name in ("Ada", "ada 🌙", "日本", "🤖")]
    assert (handles[0], handles[2], len(set(handles))) == ("ada", "bot", 4)
    assert handles[1].startswith("ada-") and handles[3].startswith("bot-")


@pytest.mark.parametrize("name", ALIKE)
def test_look_alike_names_have_one_likeness(name):
    for other in ALIKE[name]:
        assert find_skeleton(check_name(name)) == find_skeleton(check_name(other)), other


@pytest.mark.parametrize(
    "one, other",
    [
        *(("Bot 1", "Bot 2"), ("Bot 1", "Bot 11"), ("Ada", "Ada 2"), ("Nell", "Nello")),
        *(("Nell", "Neil 5"), ("日本", "🤖"), ("日本", "日木"), ("Нина", "Нино")),
        # Combining marks in other scripts can be vowels and other letters.
        *(("कि", "कु"), ("กี", "กิ"), ("か", "が")),
        *(("!!!", "???"), ("Ada 🚀", "Ada 🌙")),
    ],
)
def test_visibly_different_names_have_different_likenesses(one, other):
    assert find_skeleton(check_name(one)) != find_skeleton(check_name(other))


def test_every_letter_of_the_table_is_recognized():
    for letter, like in LIKE.items():
        assert find_skeleton(f"x{letter}x") == find_skeleton(f"x{like}x"), letter
        assert find_trusted(f"adm{letter}n") == ("admin" if like in "il1" else None), letter


@pytest.fixture
def ada(service):
    """A NewBot, next to the paper trader Wren."""
    traders.create_trader("Wren", "momentum", NOW)
    return service.make_bot("Ada")


def test_deceptive_and_look_alike_names_are_refused(service, ada):
    """Of new bots and traders, of changed ones, and next to retired ones."""
    for owner, name in ((None, "A-d.a"), (ada.owner, "A-d.a"), (None, "wren")):
        refuse(service.make_bot, name, owner=owner)
    refuse(traders.create_trader, "ADA", "momentum", NOW)
    for name in ("wallet proven", "Wr€n admin", "candor", "W.r.e.n"):
        refuse(influencers.set_profile, ada.bot, name=name, now=1)
    for name in ("wallet proven", "Wr€n admin", "candor", "A·d·a"):
        refuse(traders.set_profile, Trader.get(), name=name)
    assert (Bot.get().name, Trader.get().name) == ("Ada", "Wren")
    influencers.retire_bot(ada.bot, NOW)
    refuse(service.make_bot, "ada!")
    # The error names the conflicting word.
    (error,) = refused(service.make_bot, "Ada is vér1fied").errors
    assert "“verified”" in error["message"]


def test_a_name_may_be_respelled_and_is_free_after_a_change(service, ada):
    for name in ("ADA", "Nell"):
        influencers.set_profile(ada.bot, name=name, now=1)
    service.make_bot("Ada")
    assert [bot.name for bot in Bot.select().order_by(Bot.id)] == ["Nell", "Ada"]
    traders.set_profile(Trader.get(), name="WREN")
    owl = traders.create_trader("Owl", "momentum", NOW).trader
    refuse(traders.set_profile, owl, name="Wren")


def test_older_names_may_stay(service):
    """Their owners can still change everything else."""
    bots = [service.make_bot(name, address(name)).bot for name in ("A", "B")]
    Bot.update(name="[ok] Ada", likeness=find_skeleton("[ok] Ada")).execute()
    for bot in (Bot.get(Bot.id == one.id) for one in bots):
        influencers.set_profile(bot, name="[ok] Ada", bio="kept", now=1)
        assert Bot.get(Bot.id == bot.id).bio == "kept"
