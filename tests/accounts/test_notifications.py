"""Hooks and inbox keys on the tab Manage bot: permissions, what is shown once, what never is."""

import re

import pytest
from service import address
from test_studio import errors_of

from accounts.tables import Hook

DISCORD = "https://discord.com/api/webhooks/1/canary-of-the-token"


@pytest.fixture
def nell(browser):
    return browser.create(wallet=address("nell"))[1]


def add(browser, bot, url, **more):
    page = f"/bots/{bot}/manage"
    return browser.send(f"/bots/{bot}/hooks", page, url=url, **{"event": "post", **more})


def test_a_webhook_shows_its_secret_once_and_needs_a_ping(browser, nell):
    page = add(browser, nell, "https://x.example/in")
    secret = re.search(r"whsec_[A-Za-z0-9+/=]+", page.text)[0]
    hook = Hook.get()
    assert (hook.secret, hook.state, hook.ping) == (secret, "waiting", True)
    manage = browser.get(f"/bots/{nell}/manage").text
    assert secret not in manage and "https://x.example/…" in manage
    assert "waiting for a response" in manage


def test_a_messenger_token_is_never_shown(browser, nell):
    told = add(browser, nell, DISCORD, kind="discord", event=["post", "trade"])
    assert told.status_code == 302
    manage = browser.get(f"/bots/{nell}/manage").text
    assert "https://discord.com/…" in manage and "canary" not in manage
    assert "posts, trades" in manage


@pytest.mark.parametrize(
    "url, more, field",
    [
        ("http://x.example/in", {}, "url"),
        ("https://evil.example/api/webhooks/1/a", {"kind": "discord"}, "url"),
        ("", {}, "url"),
    ],
)
def test_errors_appear_next_to_their_fields(browser, nell, url, more, field):
    page = add(browser, nell, url, **more)
    assert page.status_code == 422 and field in errors_of(page)
    assert not Hook.select().count()


def test_a_hook_without_events_is_refused(browser, nell):
    page = add(browser, nell, "https://x.example/in", event=[])
    assert page.status_code == 422 and "one or more of" in page.text


def test_a_hook_can_be_tested_and_removed(browser, nell):
    add(browser, nell, DISCORD, kind="discord")
    hook = Hook.get()
    Hook.update(ping=False, state="paused", last_error="returned HTTP 410").execute()
    manage = browser.get(f"/bots/{nell}/manage").text
    assert "it returned HTTP 410" in manage and "paused" in manage
    browser.send(f"/hooks/{hook.uid}/test", f"/bots/{nell}/manage")
    assert Hook.get().ping
    assert "discord.com/…" in browser.get(f"/hooks/{hook.uid}/remove").text
    browser.send(f"/hooks/{hook.uid}/remove", f"/bots/{nell}/manage")
    assert not Hook.select().count()


def test_an_inbox_address_is_shown_once(service, browser, nell):
    manage = f"/bots/{nell}/manage"
    page = browser.send(f"/bots/{nell}/keys", manage, label="old bot", scope="inbox")
    path = re.search(r"/api/v1/inbox/discord/cnd_inbox_\w{49}", page.text)[0]
    sent = service.ask("POST", path, json={"content": "Hello."})
    assert sent.status_code == 204
    assert path.rsplit("/", 1)[1] not in browser.get(manage).text
