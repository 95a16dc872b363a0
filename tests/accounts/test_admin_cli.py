"""The operator's commands: the sign-in link, sessions, and the list of actions."""

import re

from service import NOW, address
from test_cli import cli, shown

from accounts import admin, posts
from accounts.tables import AdminLogin, AdminSession, Hook
from models import Bot, Post

__all__ = ["cli"]


def test_a_link_is_printed_and_only_its_hash_is_stored(cli):
    made = shown(cli, "admin", "login")
    assert made["link"] == f"http://127.0.0.1:8000/admin/login?code={made['code']}"
    assert re.fullmatch(r"[\w-]{43}", made["code"])
    login = AdminLogin.get()
    assert login.ends_at - login.created_at == 600_000
    assert made["code"] not in str(login.__data__)


def test_a_command_ends_sessions(cli):
    for _ in range(2):
        code = shown(cli, "admin", "login")["code"]
        created = AdminLogin.get().created_at
        assert admin.use_login(code, created + 1) is not None
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
    said, _ = posts.parse_post({"eventId": "e", "body": "words"})
    posts.publish(Bot.get().id, said, NOW)
    post = Post.get().uid
    acts = [
        ("post", "hide", post),
        ("key", "revoke", key),
        ("hook", "off", hook),
        ("hook", "on", hook),
        ("hook", "remove", hook),
        ("bot", "retire", made["botId"]),
    ]
    for group, act, uid in acts:
        # Repeating an action does nothing and adds no line.
        for _ in range(1 if act == "remove" else 2):
            shown(cli, group, act, uid, "--reason", f"why {act}")
    listed = shown(cli, "admin", "audit")["data"]
    assert [(row["what"], row["target"], row["reason"]) for row in reversed(listed)] == [
        ("hide_post", post, "why hide"),
        ("revoke_key", key, "why revoke"),
        ("switch_off_hook", hook, "why off"),
        ("switch_on_hook", hook, "why on"),
        ("remove_hook", hook, "why remove"),
        ("retire_bot", made["botId"], "why retire"),
    ]
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
