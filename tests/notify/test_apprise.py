"""APPRISE_URLS: the messages of the operator's settings, sent by the hooks' outbox."""

import importlib.util
import json
import urllib.parse
import warnings

import ground
import pytest
from receiver import answer
from service import NOW, refused
from test_hooks import delivering, private, receivers, say, until  # noqa: F401  fixtures

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
    return hooks.list_hooks()


def apprise_url(one, scheme="json"):
    """The address at which Apprise posts JSON to a receiver."""
    return f"{scheme}://user:{SECRET}@{urllib.parse.urlsplit(one.url).netloc}/hook"


def read(one):
    return [json.loads(body)["message"] for _, body in one.got]


# ---- delivering ----------------------------------------------------------------------------------
def test_the_operator_gets_every_bots_events_in_order_and_once(
    private,  # noqa: F811
    delivering,  # noqa: F811
    receivers,  # noqa: F811
    caplog,
):
    good, _ = receivers(2)
    change(private, apprise_urls=(apprise_url(good),), hooks_private="off")
    ada, otto = private.make_bot("Ada"), private.make_bot("Otto")
    say(private, ada, "before")
    delivering()
    until(rows)
    say(private, ada, "one")
    say(private, otto, "two @everyone")
    until(lambda: len(good.got) == 2)
    first, second = read(good)
    assert first.startswith("Ada: words of one\nNot verified\nhttp://127.0.0.1:8000/posts/")
    # Untrusted text mentions nobody.
    assert second.startswith("Otto: words of two @\u200beveryone\n")
    assert good.got[0][0]["authorization"].startswith("Basic ")
    # Another pass continues from here, so events in between aren't lost.
    delivering.stop()
    say(private, ada, "three")
    delivering()
    until(lambda: len(good.got) == 3)
    until(lambda: rows()[0].delivered_at)
    (row,) = rows()
    assert (row.kind, row.owner, row.state, row.last_error) == ("apprise", None, "active", None)
    assert SECRET not in caplog.text + row.url + json.dumps(show_hook(row))
    # The test button.
    hooks.ask_for_ping(row.uid, 0)
    until(lambda: read(good)[3:] == ["This is a test: Candor can reach you."])


def test_failed_messages_are_retried_in_order(
    private,  # noqa: F811
    delivering,  # noqa: F811
    receivers,  # noqa: F811
    monkeypatch,
):
    monkeypatch.setattr(plan, "WAITS_SECONDS", (0,))
    bad, good = receivers(2)
    bad.behave(answer(500, b"the words of a stranger"))
    change(private, apprise_urls=(apprise_url(bad), apprise_url(good)))
    ada = private.make_bot("Ada")
    delivering()
    until(rows)
    say(private, ada, "one", "two")
    until(lambda: len(good.got) == 2)
    until(lambda: any(row.last_error for row in rows()))
    told = {row.last_error for row in rows()}
    assert told == {None, "refused it or could not be reached"}
    bad.behave(answer(204))
    until(lambda: any("two" in text for text in read(bad)))
    assert "one" in read(bad)[-2] and "two" in read(bad)[-1]


def send(url):
    return client.send_with_apprise(messages.Message(url, {}, b"x"), "https://candor.example")


def test_a_child_that_hangs_is_ended(monkeypatch):
    # Starting an interpreter alone takes longer.
    monkeypatch.setattr(client, "APPRISE_SECONDS", 0.05)
    assert send("json://127.0.0.1:9/").error == "did not respond in time"


def test_an_unusable_address_or_a_missing_apprise_is_named(monkeypatch):
    assert send("nosuchkind://x").error == "isn't an address that Apprise understands"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert send("nosuchkind://x").error == "needs Apprise, which is not installed"


def test_a_child_process_gets_none_of_our_secrets(monkeypatch):
    monkeypatch.setenv("SECRET_KEY", SECRET)
    start, given = client.start_python, []
    monkeypatch.setattr(client, "start_python", lambda *told: given.extend(told) or start(*told))
    send("nosuchkind://x")
    _, arguments, environment, _ = given
    assert "PATH" in environment and "SECRET_KEY" not in environment and arguments == []


# ---- the hooks that settings make ----------------------------------------------------------------
def test_a_removed_address_is_forgotten(service):
    change(service, apprise_urls=("json://one.example", "ntfy://two.example"))
    outbox.keep_operator_hooks(service.config, NOW)
    Hook.update(delivered=7).execute()
    change(service, apprise_urls=("ntfy://two.example",), apprise_events=("trade",))
    outbox.keep_operator_hooks(service.config, NOW + 1)
    (row,) = hooks.list_hooks()
    assert hooks.mask_url(row.url) == "ntfy://APPRISE_URLS/…" and row.events == '["trade"]'
    assert (row.delivered, row.created_at) == (7, NOW)
    with pytest.raises(Problem, match="APPRISE_URLS"):
        hooks.remove_hook(row.uid)
    change(service, apprise_urls=())
    outbox.keep_operator_hooks(service.config, NOW + 2)
    assert hooks.list_hooks() == []


def test_an_owner_cannot_use_the_operators_kind(service):
    owner = service.make_bot("Ada").owner
    problem = refused(hooks.add_hook, service.config, owner, "https://x.example", NOW, "apprise")
    assert problem.errors[0]["field"] == "kind"


@pytest.mark.parametrize(
    "text, urls",
    [
        ("json://h/a", ("json://h/a",)),
        (
            "mailto://a:b@x.example?to=c@x.example,d@x.example, tgram://1:t/2 ntfy://t",
            ("mailto://a:b@x.example?to=c@x.example,d@x.example", "tgram://1:t/2", "ntfy://t"),
        ),
        ("", ()),
    ],
)
def test_addresses_are_separated_by_commas_or_spaces(text, urls):
    assert settings.load({"APPRISE_URLS": text}, dotenv=None).apprise_urls == urls


@pytest.mark.parametrize(
    "name, text",
    [
        ("APPRISE_URLS", f"x://{SECRET}/a/b/c"),
        ("APPRISE_URLS", f"json://h, mastodon://{SECRET}@h"),
        ("APPRISE_URLS", SECRET),
        ("APPRISE_URLS", f"json://[{SECRET}"),
        ("APPRISE_EVENTS", "posts"),
    ],
)
def test_an_unusable_address_is_refused_without_repeating_it(name, text):
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
