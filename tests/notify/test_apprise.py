"""APPRISE_URLS: the messages of the operator's settings, sent by the hooks' outbox."""

import importlib.util
import json
import threading
import urllib.parse
import warnings

import ground
import pytest
from ground import until
from receiver import answer
from service import NOW
from test_hooks import add_many, delivering, private, receivers, say  # noqa: F401  fixtures

import config as settings
from accounts import hooks
from accounts.problem import Problem
from accounts.tables import Hook
from cli.people import show_hook
from notify import client, messages, outbox, plan

SECRET = "pAsSwOrD"


def change(service, **named):
    """Use other settings from now on, keeping those of hooks."""
    service.config = ground.change(service.config, **named)


def rows():
    return Hook.select().where(Hook.kind == hooks.APPRISE).order_by(Hook.id)


def apprise_url(one):
    """The address at which Apprise posts JSON to a receiver."""
    return f"json://user:{SECRET}@{urllib.parse.urlsplit(one.url).netloc}/hook"


def read(one):
    return [json.loads(body)["message"] for _, body in one.got]


# ---- delivering ----------------------------------------------------------------------------------
def test_the_operator_gets_every_bots_events_in_order_and_once(
    private,  # noqa: F811
    delivering,  # noqa: F811
    receivers,  # noqa: F811
    monkeypatch,
    caplog,
):
    """Another receiver fails at first; then it gets what it missed, in order."""
    monkeypatch.setattr(plan, "WAITS_SECONDS", (0,))
    good, bad = receivers(2)
    bad.behave(answer(500, b"the words of a stranger"))
    urls = (apprise_url(good), apprise_url(bad))
    change(private, apprise_urls=urls, hooks_private="off")
    ada, otto = private.make_bot("Ada"), private.make_bot("Otto")
    say(private, ada, "before")
    delivering()
    until(rows().exists)
    say(private, ada, "one")
    say(private, otto, "two @everyone")
    until(lambda: rows()[0].delivered == hooks.find_newest_arrival() and rows()[1].last_error)
    first, second = read(good)
    assert first.startswith("Ada: words of one\nNot verified\nhttp://127.0.0.1:8000/posts/")
    # Untrusted text mentions nobody.
    assert second.startswith("Otto: words of two @\u200beveryone\n")
    assert good.got[0][0]["authorization"].startswith("Basic ")
    told = [(row.kind, row.owner, row.state, row.last_error) for row in rows()]
    unreached = "refused it or could not be reached"
    assert told == [("apprise", None, "active", None), ("apprise", None, "active", unreached)]
    shown = json.dumps([show_hook(row) for row in rows()])
    assert SECRET not in caplog.text + shown + rows()[0].url
    # Another pass continues from here, so events in between aren't lost.
    delivering.stop()
    bad.behave(answer(204))
    say(private, ada, "three")
    delivering()
    until(lambda: len(good.got) == 3 and "three" in read(bad)[-1])
    assert [text.split()[3] for text in read(bad)[-3:]] == ["one", "two", "three"]
    # The test button.
    hooks.ask_for_ping(rows()[0].uid, 0)
    until(lambda: read(good)[3:] == ["This is a test: Candor can reach you."])


def test_the_operators_own_receivers_never_wait(private, delivering, monkeypatch):  # noqa: F811
    """Even if messages to others use all slots."""
    monkeypatch.setattr(outbox, "MAX_BUSY", 2)
    change(private, apprise_urls=("json://127.0.0.1/in",))
    told, held, hanging = [], threading.Event(), []

    def send(message, site):
        told.append(message.body.decode())
        return client.Answer(None, None)

    def hang(message, is_private):
        hanging.append(message)
        held.wait(60)
        return client.Answer(204, None)

    monkeypatch.setattr(client, "send_with_apprise", send)
    bot = private.make_bot()
    add_many(private, bot, 3)
    monkeypatch.setattr(delivering(), "_send", hang)
    until(rows().exists)
    say(private, bot, "one")
    until(lambda: len(hanging) >= 2)
    say(private, bot, "two")
    until(lambda: len(told) == 2)
    assert "words of two" in told[1] and len(hanging) == 2
    held.set()


def send(url):
    return client.send_with_apprise(messages.Message(url, {}, b"x"), "https://candor.example")


def test_a_child_that_hangs_is_ended(monkeypatch):
    # Starting an interpreter alone takes longer.
    monkeypatch.setattr(client, "APPRISE_SECONDS", 0.05)
    assert send("json://127.0.0.1:9/").error == "did not respond in time"


def test_an_unusable_address_or_a_missing_apprise_is_named(monkeypatch):
    """The child process gets none of our secrets."""
    monkeypatch.setenv("SECRET_KEY", SECRET)
    start, given = client.start_python, []
    monkeypatch.setattr(client, "start_python", lambda *told: given.extend(told) or start(*told))
    assert send("nosuchkind://x").error == "isn't an address that Apprise understands"
    _, arguments, environment, _ = given
    assert "PATH" in environment and "SECRET_KEY" not in environment and arguments == []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert send("nosuchkind://x").error == "needs Apprise, which is not installed"


# ---- the hooks that settings make ----------------------------------------------------------------
def test_a_removed_address_is_forgotten(service):
    change(service, apprise_urls=("json://one.example", "ntfy://two.example"))
    outbox.keep_operator_hooks(service.config, NOW)
    Hook.update(delivered=7).execute()
    change(service, apprise_urls=("ntfy://two.example",), apprise_events=("trade",))
    outbox.keep_operator_hooks(service.config, NOW + 1)
    (row,) = hooks.list_hooks()
    told = (hooks.mask_url(row.url), row.events, row.delivered, row.created_at)
    assert told == ("ntfy://APPRISE_URLS/…", '["trade"]', 7, NOW)
    with pytest.raises(Problem, match="APPRISE_URLS"):
        hooks.remove_hook(row.uid)
    change(service, apprise_urls=())
    outbox.keep_operator_hooks(service.config, NOW + 2)
    assert hooks.list_hooks() == []


MAIL = "mailto://a:b@x.example?to=c@x.example,d@x.example"


def test_addresses_are_separated_by_commas_or_spaces():
    three = (MAIL, "tgram://1:t/2", "ntfy://t")
    for text, urls in ((f"{three[0]}, {three[1]} {three[2]}", three), ("", ())):
        assert settings.load({"APPRISE_URLS": text}, dotenv=None).apprise_urls == urls


def test_an_unusable_address_is_refused_without_repeating_it():
    urls = f"x://{SECRET}/a/b/c json://h,mastodon://{SECRET}@h {SECRET} json://[{SECRET}".split()
    for name, text in (*(("APPRISE_URLS", url) for url in urls), ("APPRISE_EVENTS", "posts")):
        with pytest.raises(settings.BadSetting, match=name) as refused:
            settings.load({name: text}, dotenv=None)
        assert SECRET not in str(refused.value)


def test_apprises_social_networks_are_refused():
    """Those of the installed version, by their own names."""
    from apprise.manager_plugins import NotificationManager

    # This imports all plugins, some of which use deprecated modules.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known, plugins = set(NotificationManager().schemas()), NotificationManager().plugins()
    assert known >= settings.SOCIAL
    names = ("bluesky", "humhub", "mastodon", "misskey", "nostr", "reddit", "twitter")
    social = [one for one in plugins if any(name in one.__name__.lower() for name in names)]
    assert len(social) == len(names)
    for plugin in social:
        for attribute in ("protocol", "secure_protocol"):
            given = getattr(plugin, attribute) or ()
            assert {given} if isinstance(given, str) else set(given) <= settings.SOCIAL
