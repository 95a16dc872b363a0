"""Each messenger, simulated by a local receiver with its real behavior and misbehavior: the
messages it gets, and the effects of its responses.
"""

import json

import pytest
from receiver import answer
from service import NOW
from test_hooks import delivering, private, receivers, row, say, until  # noqa: F401  fixtures

from accounts import hooks
from notify.messages import WRITERS
from web.site.manage import HOOK_KINDS

TOKEN = "sEcReT-tOkEn"
# kind -> the path of its addresses, and the service's response to a message: status, type, body.
SERVICES = {
    "discord": (f"/api/webhooks/1234/{TOKEN}", (204, "", b"")),
    "slack": (f"/services/T0/B0/{TOKEN}", (200, "text/html", b"ok")),
    "telegram": (
        f"/bot77:{TOKEN}/sendMessage?chat_id=-100",
        (200, "application/json", b'{"ok":true,"result":{"message_id":1}}'),
    ),
    "ntfy": (f"/{TOKEN}", (200, "application/json", b'{"id":"x","event":"message"}')),
}
# kind -> its error response, according to its documentation.
REFUSALS = {
    "discord": (404, b'{"message":"Unknown Webhook","code":10015}'),
    "slack": (403, b"action_prohibited"),
    "telegram": (400, b'{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}'),
    "ntfy": (507, b'{"code":50701}'),
}
TEXT = "Ada: words of one\nNot verified\nhttp://127.0.0.1:8000/posts/"


def test_every_kind_has_a_writer_a_name_and_a_service_here():
    assert {*WRITERS} == {*hooks.HOSTS} - {"webhook"} | {hooks.APPRISE}
    assert {*HOOK_KINDS} == {*hooks.HOSTS} == {"webhook", *SERVICES}
    assert {*SERVICES} == {*REFUSALS}


@pytest.fixture
def hook(private, receivers, monkeypatch):  # noqa: F811
    """hook(kind) -> (bot, its hook of this kind, the receiver that acts as the service)"""

    def make(kind, name="Ada"):
        [service] = receivers()
        root = service.url.removesuffix("/hook")
        path, (status, content, body) = SERVICES[kind]
        service.behave(answer(status, body, **({"Content-Type": content} if content else {})))
        bot = private.make_bot(name)
        # A test couldn't reach its own host.
        with monkeypatch.context() as patched:
            patched.setitem(hooks.HOSTS, kind, ())
            made = hooks.add_hook(private.config, bot.owner, root + path, NOW, kind)
        return bot, made, service

    return make


def read_text(kind, body):
    """The text shown to a person, from the message to the service."""
    if kind == "ntfy":
        return body.decode()
    sent = json.loads(body)
    return sent["content" if kind == "discord" else "text"]


@pytest.mark.parametrize("kind", SERVICES)
def test_each_messenger_gets_its_format(private, delivering, hook, kind):  # noqa: F811
    """Its first message is the ping that every new hook must answer."""
    bot, made, service = hook(kind)
    say(private, bot, "one")
    delivering()
    until(lambda: len(service.got) == 2)
    texts = [read_text(kind, body) for _, body in service.got]
    assert texts[0] == "This is a test: Candor can reach you." and texts[1].startswith(TEXT)
    until(lambda: row(made).delivered_at)
    assert (row(made).state, row(made).last_error) == ("active", None)
    for headers, body in service.got:
        assert headers["content-type"].startswith(
            "text/plain" if kind == "ntfy" else "application/"
        )
        assert not any(name.startswith("webhook-") for name in headers)
        assert TOKEN.encode() not in body
    if kind == "telegram":
        assert json.loads(service.got[1][1])["chat_id"] == "-100"


@pytest.mark.parametrize("kind, status, said", [(kind, *one) for kind, one in REFUSALS.items()])
def test_refused_messages_are_retried(
    private,  # noqa: F811
    delivering,  # noqa: F811
    hook,
    kind,
    status,
    said,
    caplog,
):
    bot, made, service = hook(kind)
    delivering()
    until(lambda: row(made).state == "active")
    accepting = service._behave
    service.behave(answer(status, said))
    say(private, bot, "one")
    until(lambda: row(made).failures)
    assert row(made).last_error == f"returned HTTP {status}" and row(made).state == "active"
    assert row(made).due_at > NOW // 10**6 and TOKEN not in caplog.text
    # A refused message is kept.
    service.behave(accepting)
    hooks.ask_for_ping(made.uid, 0)
    until(lambda: read_text(kind, service.got[-1][1]).startswith(TEXT))
    until(lambda: row(made).last_error is None)
