"""Names: what one may hold, and which two nobody could tell apart."""

# Letters that look like others are what this file is about.

import pytest
from service import NOW, address

from accounts import influencers, traders
from accounts.names import check_name, find_likeness
from accounts.problem import Problem
from models import Bot
from paper.tables import Trader


def refuse(act):
    with pytest.raises(Problem) as caught:
        act()
    assert caught.value.code == "validation_failed" and caught.value.errors[0]["field"] == "name"


@pytest.mark.parametrize(
    "name",
    [
        "[receipt verified] Ada",
        "Ada [owner proven]",
        "【receipt】 Ada",
        "［x］ Ada",
        "✓ Ada",
        "Ada ✅",
        "Ada receipt verified",
        "Verified Ada",
        "Ada · vеrіfіed",
        "ᴠᴇʀɪꜰɪᴇᴅ Ada",
        "ＶＥＲＩＦＩＥＤ",
        "owner proven: Ada",
        "\u2800",
        "Ada\u2800",
        "\u2800\u2800Ada",
        "\u3164",
        "\u115f\u1160",
        "A" + "\u0301\u0302\u0303\u0304",
        "Z" + "a\u0323\u0331" * 9,
        "A" + "\u0336" * 57,
        "\u0301",
    ],
)
def test_a_name_that_could_deceive_is_refused(service, name):
    refuse(lambda: service.make_bot(name))
    refuse(lambda: traders.create_trader(name, "momentum", NOW))
    assert Bot.select().count() == Trader.select().count() == 0


@pytest.mark.parametrize(
    "name",
    [
        "Ada",
        "Äda  Löve",
        "日本",
        "🤖",
        "👩\u200d🚀 Ada",
        "❤\ufe0f",
        "Нина",
        "Ελένη",
        "हिन्दी",
        "ที่นี่",
        "Nguyễn",
        "محمد",
        "Bot 1 (beta)",
        "The mean_reversion one",
        "R2-D2",
        "O'Neill & Co.",
        "1\ufe0f\u20e3 first",
        "Veri",
    ],
)
def test_names_of_all_scripts_are_welcome(name):
    assert check_name(name) == name


@pytest.mark.parametrize(
    "one, other",
    [
        ("Ada", "Ada"),
        ("Ada", "ADA"),
        ("Ada", "  ada "),
        ("Ada", "Аdа"),
        ("Ada Love", "Ada  Love"),
        ("Ada", "Ａｄａ"),
        ("Ada", "A\u200bda"),
        ("Paypal", "PaypaI"),
        ("Bot 1", "Bot l"),
        ("Bot 0", "Bot O"),
        ("Corona", "Соrоnа"),
        ("Nova", "Νονα"),
        ("𝓐𝓭𝓪", "Ada"),
        ("Нина", "НИНА"),
        ("Нина", "нина"),
        ("Coda", "Ꮯꓳᗪꭺ"),
        ("Coda", "🅒🅾🅳🇦"),
        ("Muse", "Ⅿυꜱе"),
        ("Nell 3", "ꓠꓰⳐꓡ Ꝫ"),
    ],
)
def test_a_name_that_looks_like_another_is_refused(service, one, other):
    made = service.make_bot(one)
    for owner in (None, made.owner):
        refuse(lambda owner=owner: service.make_bot(other, owner=owner))
    refuse(lambda: traders.create_trader(other, "momentum", NOW))
    third = service.make_bot("Third")
    refuse(lambda: influencers.set_profile(third.bot, name=other))
    assert Bot.get(Bot.id == third.bot.id).name == "Third"
    influencers.retire_bot(made.bot, NOW)
    refuse(lambda: service.make_bot(other))


@pytest.mark.parametrize(
    "one, other",
    [
        ("Bot 1", "Bot 2"),
        ("Bot 1", "Bot 11"),
        ("Ada", "ada!"),
        ("Ada", "Äda"),
        ("日本", "🤖"),
        ("Нина", "Нино"),
    ],
)
def test_names_that_differ_to_the_eye_live_side_by_side(service, one, other):
    service.make_bot(one), service.make_bot(other)


def test_a_bot_may_respell_its_own_name(service):
    made = service.make_bot("ada")
    influencers.set_profile(made.bot, name="Ada")
    influencers.set_profile(made.bot, name="Nell")
    service.make_bot("Ada")
    assert [bot.name for bot in Bot.select().order_by(Bot.id)] == ["Nell", "Ada"]


def test_a_trader_keeps_its_name_from_bots(service):
    trader = traders.create_trader("Wren", "momentum", NOW).trader
    refuse(lambda: service.make_bot("wren"))
    traders.set_profile(trader, name="WREN")
    refuse(
        lambda: traders.set_profile(
            traders.create_trader("Owl", "momentum", NOW).trader, name="Wren"
        )
    )


def test_names_of_before_stay_and_can_be_kept(service):
    """Their owners can still change all else."""
    bots = [service.make_bot(name, address(name)).bot for name in ("A", "B")]
    Bot.update(name="[ok] Ada", likeness=find_likeness("[ok] Ada")).execute()
    for bot in (Bot.get(Bot.id == one.id) for one in bots):
        influencers.set_profile(bot, name="[ok] Ada", bio="kept")
        assert Bot.get(Bot.id == bot.id).bio == "kept"
