"""Names: allowed characters, names too similar to tell apart, and the handles made from them."""

import pytest
from service import NOW, address, refused

from accounts import influencers, traders
from accounts.fields import check_name, find_trusted
from chain.symbols import LIKE, clean_text, find_skeleton
from models import Bot, Owner
from paper.tables import Trader


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
