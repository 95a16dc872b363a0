"""Operator actions: each happens once, and its log line says who did it, when and why."""

import re

import pytest
from service import NOW, address, refused
from test_cli import cli, shown

from accounts import acts, admin, conduct, hooks, influencers, posts
from accounts.tables import AdminAct, AdminLogin, AdminSession, Hook, Report
from models import Bot, Post
from storage import database

__all__ = ["cli"]
WHO, WHY = "sess_1", "as told"


@pytest.fixture
def made(db, settings):
    """A bot with a publishing key."""
    return influencers.create_bot(settings, "Ada", NOW)


def list_lines():
    rows = AdminAct.select().order_by(AdminAct.id)
    return [(act.what, act.target, act.who, act.reason, act.at) for act in rows]


def test_each_action_takes_effect_once_and_adds_a_line(made, settings):
    """Bans of wallets: test_conduct.py."""
    hook = hooks.add_hook(settings, made.owner, "https://hooks.example/h", NOW).uid
    post = posts.publish(made.bot.id, posts.PostBody(eventId="e", body="words"), NOW).uid
    conduct.report_post(post, "spam", "", NOW)
    owner, report = made.owner.uid, Report.get().uid
    # The target in the line, if there is one.
    done = [
        (acts.ping_hook, [hook], "ping_hook", hook),
        (acts.switch_hook, [hook, False], "switch_off_hook", hook),
        (acts.switch_hook, [hook, False], None, None),
        # A hook that is off gets nothing.
        (acts.ping_hook, [hook], None, None),
        (acts.switch_hook, [hook, True], "switch_on_hook", hook),
        (acts.dismiss_report, [report], "dismiss_report", post),
        (acts.dismiss_report, [report], None, None),
        (acts.ban_owner, [owner], "ban_owner", owner),
        (acts.ban_owner, [owner], None, None),
        (acts.lift_ban, ["owner", owner], "unban_owner", owner),
        (acts.lift_ban, ["owner", owner], None, None),
    ]
    for at, (act, given, what, _) in enumerate(done):
        assert act(*given, WHO, WHY, at) == bool(what)
    # A missing reason is null, not an empty string.
    acts.remove_hook(hook, WHO, "", NOW)
    told = [(what, target, WHO, WHY, at) for at, (*_, what, target) in enumerate(done) if what]
    assert list_lines() == [*told, ("remove_hook", hook, WHO, None, NOW)]
    assert hooks.list_hooks() == [] and conduct.count_open() == 0
    assert conduct.find_ban("owner", owner) is None


def test_an_unknown_target_is_named_and_not_recorded(db):
    for act, noun in (
        (acts.hide_post, "post"),
        (acts.retire_bot, "bot"),
        (acts.revoke_key, "key"),
        (acts.ping_hook, "hook"),
        (acts.ban_owner, "owner"),
    ):
        problem = refused(act, "nobody", WHO, WHY, NOW)
        assert (problem.code, problem.detail) == ("not_found", f"there is no such {noun}")
    assert list_lines() == []


def test_the_list_contains_known_actions_only_and_pages_back(db):
    with pytest.raises(AssertionError):
        acts.store_act("unheard_of", WHO, NOW)
    with database.atomic():
        for number in range(4):
            acts.store_act("login", WHO, NOW + number)
    newest = acts.list_acts(2)
    assert [act.at - NOW for act in newest] == [3, 2]
    assert [act.at - NOW for act in acts.list_acts(2, newest[-1].id)] == [1, 0]
    assert (newest[0].target, newest[0].reason) == (None, None)
    assert acts.list_acts(2, 1) == []


def test_a_reason_is_limited_to_300_characters():
    assert acts.check_reason("x" * 300) == "x" * 300
    assert acts.check_reason("") == ""
    for text, shortest in (("x" * 301, 0), ("", 1)):
        problem = refused(acts.check_reason, text, shortest)
        assert problem.errors[0]["field"] == "reason"


# ---- on the command line -------------------------------------------------------------------------
def test_a_command_prints_sign_in_links_and_another_ends_sessions(cli):
    """Only the hash of a link is stored, for ten minutes."""
    for _ in range(2):
        made, login = shown(cli, "admin", "login"), AdminLogin.get()
        code = made["code"]
        assert made["link"] == f"http://127.0.0.1:8000/admin/login?code={code}"
        assert re.fullmatch(r"[\w-]{43}", code) and code not in str(login.__data__)
        assert login.ends_at - login.created_at == 600_000
        assert admin.use_login(code, login.created_at + 1) is not None
    first = AdminSession.select().order_by(AdminSession.id).get().uid
    assert shown(cli, "admin", "logout", "--session", first) == {"ended": 1}
    assert cli("admin", "logout", "--session", first)[0] == 1
    shown(cli, "admin", "login")
    # The other session, and the unused link.
    assert shown(cli, "admin", "logout", "--all") == {"ended": 2}
    assert cli("admin", "logout")[0] == 2


def test_commands_are_listed_with_their_reasons(cli):
    made = shown(cli, "bot", "create", "--name", "Ada", "--wallet", address("w"))
    key = shown(cli, "key", "create", "--owner", made["ownerId"], "--scope", "read")["keyId"]
    hook = shown(cli, "hook", "add", made["ownerId"], "https://x.example/in")["hookId"]
    post = posts.publish(Bot.get().id, posts.PostBody(eventId="e", body="words"), NOW).uid
    done = [
        ("hide_post", "post hide", post),
        ("revoke_key", "key revoke", key),
        ("switch_off_hook", "hook off", hook),
        ("switch_on_hook", "hook on", hook),
        ("remove_hook", "hook remove", hook),
        ("retire_bot", "bot retire", made["botId"]),
    ]
    for what, command, uid in done:
        # Repeating an action does nothing and adds no line.
        for _ in range(1 if what == "remove_hook" else 2):
            shown(cli, *command.split(), uid, "--reason", f"why {command}")
    listed = shown(cli, "admin", "audit")["data"]
    told = [(row["what"], row["reason"].removeprefix("why "), row["target"]) for row in listed]
    assert told[::-1] == done
    assert {row["who"] for row in listed} == {"command line"}
    older = shown(cli, "admin", "audit", "--limit", "2", "--before", str(listed[1]["number"]))
    assert older["data"] == listed[2:4]
    assert Post.get().body == "" and Hook.select().count() == 0


def test_a_reason_with_line_breaks_is_refused_first(cli):
    made = shown(cli, "bot", "create", "--name", "Ada")
    assert cli("bot", "retire", made["botId"], "--reason", "a\nb")[0] == 1
    assert cli("admin", "audit", "--limit", "0")[0] == 1
    assert Bot.get().retired_at is None
    assert shown(cli, "admin", "audit") == {"data": []}
