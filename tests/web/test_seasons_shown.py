"""Seasons as owners, the operator, readers and programs see them."""

import pytest
from service import NOW
from test_admin_pages import log_in
from test_cli import cli, shown
from test_pages import HOSTILE
from test_seasons import EARLIER, TEXTS, Field, freeze

from accounts import influencers, seasons
from accounts.tables import AdminAct, Season
from models import Bot

__all__ = ["cli"]
pytestmark = pytest.mark.usefixtures("agreed_clock")


@pytest.fixture
def cup(service):
    """A season that began a minute ago; ada and bob have results."""
    season = seasons.create_season(TEXTS, "me", EARLIER)
    field = Field(service.config)
    for number, name in enumerate(("ada", "bob")):
        field.add(name)
        field.earn(name, 5 * 10**9 + number, hour=0)
    service.key = service.make_read_key(Bot.get().owner)
    return season


# ---- programs ------------------------------------------------------------------------------------
def test_standings_have_pages_and_fields(service, cup):
    path = f"/api/v1/seasons/{cup.uid}"
    rows = service.pages(path, service.key, 1)
    assert [(row["rank"], row["name"], row["realized"]) for row in rows] == [
        (1, "bob", "5.000000001"),
        (2, "ada", "5"),
    ]
    first = service.get(f"{path}?limit=1&fields=rank,name", service.key).json
    assert first["data"] == [{"rank": 1, "name": "bob"}]
    assert first["season"]["state"] == "running" and first["season"]["entrants"] == 2
    other = service.get("/api/v1/seasons?limit=1", service.key).json
    assert other["data"][0]["id"] == cup.uid and other["nextCursor"] is None
    wrong = service.get(f"/api/v1/seasons?cursor={first['nextCursor']}", service.key)
    assert wrong.json["code"] == "invalid_cursor"
    for query in ("limit=0", "fields=x", "wallet=x", "cursor=x"):
        assert service.get(f"{path}?{query}", service.key).status_code == 400
    assert service.get("/api/v1/seasons/season_x", service.key).status_code == 404


def test_a_bot_joins_once_with_its_own_key(service, cup):
    late = service.make_bot("Late")
    path, key = f"/api/v1/seasons/{cup.uid}", late.publish_key.text
    assert service.ask("POST", f"{path}/join").status_code == 401
    refused = service.ask("POST", f"{path}/join", service.key)
    assert refused.json["code"] == "insufficient_scope"
    answers = [service.ask("POST", f"{path}/join", key) for _ in range(2)]
    assert [one.status_code for one in answers] == [201, 200]
    assert answers[0].headers["Location"] == path
    rows = {row["botId"]: row for row in service.get(path, service.key).json["data"]}
    row = rows[late.bot.uid]
    assert (row["unrankedReason"], row["countsFrom"]) == ("no_wallet", "2026-11-05T13:00:00Z")
    assert service.ask("POST", "/api/v1/seasons/x/join", key).status_code == 404
    seasons.cancel_season(cup.uid, "me", "", NOW)
    assert service.ask("POST", f"{path}/join", key).json["code"] == "season_closed"


# ---- readers -------------------------------------------------------------------------------------
def test_pages_show_standings_state_and_a_badge(service, cup):
    path, uid = f"/seasons/{cup.uid}", Bot.get(Bot.name == "ada").uid
    badge, page = f'href="{path}"', service.get(path).text
    assert "running" in page and page.index(">bob<") < page.index(">ada<")
    assert cup.uid in service.get("/seasons").text
    profile = service.get(f"/bots/{uid}").text
    assert badge in profile and "Takes part in" in profile
    freeze(service.config)
    page, profile = service.get(path).text, service.get(f"/bots/{uid}").text
    assert "Final since" in page and "Provisional" not in page
    assert badge in profile and "No. 2 in" in profile
    assert badge not in service.get(f"/bots/{service.make_bot('Late').bot.uid}").text
    assert service.get("/seasons/season_x").status_code == 404
    assert service.get(f"{path}?after=x").status_code == 400


def test_hostile_names_are_escaped(service, cup):
    Season.update(name=HOSTILE).execute()
    influencers.set_profile(Bot.get(), name=HOSTILE[:60], now=NOW)
    for path in ("/seasons", f"/seasons/{cup.uid}", f"/bots/{Bot.get().uid}"):
        page = service.get(path).text
        assert "<script>window" not in page and "\u202e" not in page
        assert "{{7*7}}" in page


# ---- owners and the operator ---------------------------------------------------------------------
def test_an_owner_joins_on_the_manage_page(browser, cup):
    uid = browser.create("Nell").uid
    page = f"/bots/{uid}/manage"
    assert ">Join<" in browser.get(page).text
    for told in ("Joined.", "already taking part"):
        sent = browser.send(f"/bots/{uid}/seasons", season=cup.uid)
        assert sent.status_code == 302 and told in browser.get(page).text
    assert "This bot is taking part" in browser.get(page).text
    assert browser.send(f"/bots/{uid}/seasons", season="season_x").status_code == 404


def test_the_operator_creates_changes_and_cancels_a_season(service):
    operator, page = log_in(service), "/admin/seasons"
    assert "No seasons yet" in service.get("/seasons").text
    typed = {**seasons.DEFAULTS, **TEXTS, "starts_at": "2026-11-05T13:00Z"}
    wrong = operator.send(page, page=page, **{**typed, "min_trades": "0"})
    assert wrong.status_code == 422 and "whole number from 1 to 10000" in wrong.text
    assert operator.send(page, page=page, **typed).status_code == 302
    one = f"{page}/{Season.get().uid}"
    assert 'value="2026-11-05T13:00Z"' in operator.get(one).text
    # A change needs a reason.
    assert operator.send(one, page=one, **typed).status_code == 422
    changed = {**typed, "name": "Cup", "reason": "typo"}
    assert operator.send(one, page=one, **changed).status_code == 302
    assert Season.get().name == "Cup" and "Cup" in operator.get(page).text
    cancel = f"{one}/cancel"
    assert operator.send(cancel, page=cancel, reason="no prize").status_code == 302
    assert seasons.find_state(Season.get(), NOW) == "cancelled"
    done = [act.what for act in AdminAct.select() if "season" in act.what]
    assert done == ["create_season", "change_season", "cancel_season"]


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
