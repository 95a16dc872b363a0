"""Seasons as owners, the operator, readers and programs see them."""

import pytest
from service import NOW
from test_admin_pages import log_in
from test_cli import cli, shown
from test_pages import HOSTILE
from test_seasons import EARLIER, START, TEXTS, Field, freeze
from test_studio import Browser

from accounts import influencers, seasons
from accounts.tables import AdminAct, Season
from models import Bot

__all__ = ["cli"]
pytestmark = pytest.mark.usefixtures("agreed_clock")


@pytest.fixture
def cup(service):
    """A season that began a minute ago; ada and bob have results, late may join."""
    assert START == NOW
    season = seasons.create_season(TEXTS, "me", EARLIER)
    field = Field(service.config)
    for number, name in enumerate(("ada", "bob")):
        field.add(name)
        field.earn(name, 5 * 10**9 + number, hour=0)
    service.key = service.make_read_key(Bot.get().owner)
    return season


def make_late(service):
    made = service.make_bot("Late")
    return made.bot, made.publish_key.text


def make_final(service):
    freeze(service.config)


# ---- programs ------------------------------------------------------------------------------------
def test_reading_needs_a_key_and_joining_a_publishing_key(service, cup):
    for path in ("/api/v1/seasons", f"/api/v1/seasons/{cup.uid}"):
        assert service.get(path).status_code == 401
        assert service.get(path, service.key).status_code == 200
    path = f"/api/v1/seasons/{cup.uid}/join"
    assert service.ask("POST", path).status_code == 401
    assert service.ask("POST", path, service.key).get_json()["code"] == "insufficient_scope"


def test_standings_have_pages_and_fields(service, cup):
    path = f"/api/v1/seasons/{cup.uid}"
    rows = service.pages(path, service.key, 1)
    assert [(row["rank"], row["name"], row["realized"]) for row in rows] == [
        (1, "bob", "5.000000001"),
        (2, "ada", "5"),
    ]
    first = service.get(f"{path}?limit=1&fields=rank,name", service.key).get_json()
    assert first["data"] == [{"rank": 1, "name": "bob"}]
    assert first["season"]["state"] == "running" and first["season"]["entrants"] == 2
    other = service.get("/api/v1/seasons?limit=1", service.key).get_json()
    assert other["data"][0]["id"] == cup.uid and other["nextCursor"] is None
    wrong = service.get(f"/api/v1/seasons?cursor={first['nextCursor']}", service.key)
    assert wrong.get_json()["code"] == "invalid_cursor"
    for query in ("limit=0", "fields=x", "wallet=x", "cursor=x"):
        assert service.get(f"{path}?{query}", service.key).status_code == 400
    assert service.get("/api/v1/seasons/season_x", service.key).status_code == 404


def test_a_bot_joins_once_with_its_own_key(service, cup):
    bot, key = make_late(service)
    path = f"/api/v1/seasons/{cup.uid}/join"
    answers = [service.ask("POST", path, key) for _ in range(2)]
    assert [one.status_code for one in answers] == [201, 200]
    assert answers[0].headers["Location"] == f"/api/v1/seasons/{cup.uid}"
    rows = service.get(f"/api/v1/seasons/{cup.uid}", service.key).get_json()["data"]
    (row,) = [row for row in rows if row["botId"] == bot.uid]
    assert (row["unrankedReason"], row["countsFrom"]) == ("no_wallet", "2026-11-05T13:00:00Z")
    assert service.ask("POST", "/api/v1/seasons/x/join", key).status_code == 404
    seasons.cancel_season(cup.uid, "me", "", NOW)
    assert service.ask("POST", path, key).get_json()["code"] == "season_closed"


# ---- readers -------------------------------------------------------------------------------------
def test_the_page_shows_standings_and_state(service, cup):
    page = service.get(f"/seasons/{cup.uid}").text
    assert "running" in page and page.index(">bob<") < page.index(">ada<")
    assert cup.uid in service.get("/seasons").text
    make_final(service)
    page = service.get(f"/seasons/{cup.uid}").text
    assert "Final since" in page and "Provisional" not in page
    assert service.get("/seasons/season_x").status_code == 404
    assert service.get(f"/seasons/{cup.uid}?after=x").status_code == 400


def test_a_profile_has_a_badge(service, cup):
    uid = Bot.get(Bot.name == "ada").uid
    link = f'href="/seasons/{cup.uid}"'
    assert link in (page := service.get(f"/bots/{uid}").text) and "Takes part in" in page
    make_final(service)
    page = service.get(f"/bots/{uid}").text
    assert link in page and "No. 2 in" in page
    bot, _ = make_late(service)
    assert link not in service.get(f"/bots/{bot.uid}").text


def test_hostile_names_are_escaped(service, cup):
    Season.update(name=HOSTILE).execute()
    influencers.set_profile(Bot.get(), name=HOSTILE[:60], now=NOW)
    uid = Bot.get().uid
    for path in ("/seasons", f"/seasons/{cup.uid}", f"/bots/{uid}"):
        page = service.get(path).text
        assert "<script>window" not in page and "\u202e" not in page
        assert "{{7*7}}" in page


def test_an_empty_list_says_who_creates_seasons(service):
    assert "No seasons yet" in service.get("/seasons").text


# ---- owners and the operator ---------------------------------------------------------------------
def test_an_owner_joins_on_the_manage_page(service, cup):
    browser = Browser(service)
    _, uid, *_ = browser.create("Nell")
    page = f"/bots/{uid}/manage"
    assert ">Join<" in browser.get(page).text
    for told in ("Joined.", "already taking part"):
        sent = browser.send(f"/bots/{uid}/seasons", page=page, season=cup.uid)
        assert sent.status_code == 302 and told in browser.get(page).text
    assert "This bot is taking part" in browser.get(page).text
    missing = browser.send(f"/bots/{uid}/seasons", page=page, season="season_x")
    assert missing.status_code == 404
    other = Browser(service)
    assert other.send(f"/bots/{uid}/seasons", season=cup.uid).status_code == 403


def test_the_operator_creates_changes_and_cancels_a_season(service):
    operator = log_in(service)
    page = "/admin/seasons"
    typed = {**seasons.DEFAULTS, **TEXTS, "starts_at": "2026-11-05T13:00Z"}
    wrong = operator.send(page, page=page, **{**typed, "min_trades": "0"})
    assert wrong.status_code == 422 and "whole number from 1 to 10000" in wrong.text
    assert operator.send(page, page=page, **typed).status_code == 302
    made = Season.get()
    one = f"{page}/{made.uid}"
    assert 'value="2026-11-05T13:00Z"' in operator.get(one).text
    assert operator.send(one, page=one, **typed).status_code == 422
    changed = {**typed, "name": "Cup", "reason": "typo"}
    assert operator.send(one, page=one, **changed).status_code == 302
    assert Season.get().name == "Cup" and "Cup" in operator.get(page).text
    cancel = f"{one}/cancel"
    assert operator.send(cancel, page=cancel, reason="no prize").status_code == 302
    assert seasons.find_state(Season.get(), NOW) == "cancelled"
    done = [act.what for act in AdminAct.select() if "season" in act.what]
    assert done == ["create_season", "change_season", "cancel_season"]
    assert service.get(page).status_code == 403


def test_the_command_line_runs_a_season(cli):
    given = ("--name", "Cup", "--start", "2026-11-05T13:00Z", "--end", "2026-11-06T13:00Z")
    made = shown(cli, "season", "create", *given)
    assert (made["state"], made["wallets"], made["minTrades"]) == ("upcoming", "proven", 3)
    changed = shown(
        cli, "season", "change", made["seasonId"], "--name", "Other", "--reason", "typo"
    )
    assert changed["name"] == "Other" and changed["endsAt"] == "2026-11-06T13:00:00Z"
    assert shown(cli, "season", "list")["data"][0]["name"] == "Other"
    code, _, told = cli("season", "create", *given[:-1], "2026-11-05T13:30Z")
    assert code == 1 and "--end: must be a full hour" in told
    assert shown(cli, "season", "cancel", made["seasonId"])["state"] == "cancelled"
    assert cli("season", "cancel", "season_x")[0] == 1
