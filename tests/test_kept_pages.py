"""Pages kept for readers without a session: drawn once, never another's and never an old one."""

import itertools
import re

import ground
import pytest
from service import address
from test_studio import Browser

from web.site import kept_pages

W, M = address("w"), address("m")


@pytest.fixture
def drawn(monkeypatch):
    """The addresses of pages that were drawn to be kept."""
    found, make = [], kept_pages.make_page

    def note(shown):
        found.append(kept_pages.request.full_path)
        return make(shown)

    monkeypatch.setattr(kept_pages, "make_page", note)
    return found


@pytest.fixture
def bot(service):
    return service.make_bot("Ada", W)


def list_paths(bot):
    return ("/", "/leaderboard", "/market", f"/bots/{bot.bot.uid}", f"/tokens/{M}")


# On PostgreSQL what other databases of the server commit draws a page anew, too.
@ground.sqlite_only
def test_a_page_is_drawn_once_until_something_is_written(service, bot, drawn, standing_clock):
    for path in list_paths(bot):
        first, second = service.get(path), service.get(path)
        assert first.status_code == 200 and first.data == second.data
        assert first.headers["ETag"] == second.headers["ETag"]
    assert len(drawn) == len(list_paths(bot))
    service.observe_trade(W, "one", slot=1, mint=M)
    before = service.get(f"/tokens/{M}").data
    assert len(drawn) == len(list_paths(bot)) + 1 and b"Ada" in before


def test_a_page_is_drawn_anew_each_second(service, bot, drawn, monkeypatch):
    seconds = itertools.count(2_000_000_000)
    monkeypatch.setattr("time.time_ns", lambda: next(seconds) * 10**9)
    for number in range(1, 4):
        service.get("/leaderboard")
        assert len(drawn) == number


def test_what_differs_in_its_address_is_another_page(service, bot, drawn, standing_clock):
    uid = bot.bot.uid
    shown = [
        service.get(path).data
        for path in ("/leaderboard", "/leaderboard?sort=volume", f"/bots/{uid}")
    ]
    shown.append(service.get(f"/bots/{uid}?tab=holdings").data)
    assert len(set(shown)) == len(drawn) == 4


def test_whoever_is_signed_in_has_a_page_of_their_own(service, bot, drawn, standing_clock):
    path, browser = f"/bots/{bot.bot.uid}", Browser(service)
    browser.create("Bea")
    mine = browser.get("/").text
    kept = service.get("/").text
    assert drawn == ["/?"]
    assert "Your bots" in mine and "Your bots" not in kept and "Connect a bot" in kept
    assert service.get(path).headers["Vary"] == "Cookie"


def test_no_kept_page_begins_a_session(service, bot):
    for path in list_paths(bot):
        answer = service.get(path)
        assert "Set-Cookie" not in answer.headers, path
        assert not re.search('method="post"', answer.text), path


@ground.sqlite_only
def test_a_refusal_is_not_kept(service, bot, drawn, standing_clock):
    for _ in range(2):
        assert service.get("/bots/bot_nobody").status_code == 404
        assert service.get("/leaderboard?sort=luck").status_code == 400
        assert service.get("/?label=luck").status_code == 422
    assert drawn == ["/?label=luck"]
    assert len(service.app.page_cache._entries) == 1


def test_a_browser_that_has_the_page_is_sent_nothing(service, bot, standing_clock):
    first = service.get("/leaderboard")
    again = service.get("/leaderboard", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304 and not again.data
    assert first.headers["Cache-Control"] == again.headers["Cache-Control"] == "no-cache"
