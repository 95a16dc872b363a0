"""Messages for people: their text, what each messenger makes of it, and a delivery to each one,
simulated by a local receiver with its real behavior.
"""

import json

import pytest
from ground import until
from receiver import answer
from service import NOW
from test_hooks import delivering, private, receivers, row, say  # noqa: F401  fixtures

from accounts import hooks
from notify import messages
from web.site.manage import HOOK_KINDS

TOKEN = "sEcReT-tOkEn"
# kind -> the path of its addresses, its response to a message, and one that refuses it, according
# to its documentation.
SERVICES = {
    "discord": (f"/api/webhooks/1234/{TOKEN}", (204,), (404, b'{"message":"Unknown Webhook"}')),
    "slack": (f"/services/T0/B0/{TOKEN}", (200, b"ok"), (403, b"action_prohibited")),
    "telegram": (
        f"/bot77:{TOKEN}/sendMessage?chat_id=-100",
        (200, b'{"ok":true,"result":{"message_id":1}}'),
        (400, b'{"ok":false,"description":"Bad Request: chat not found"}'),
    ),
    "ntfy": (f"/{TOKEN}", (200, b'{"id":"x","event":"message"}'), (507, b'{"code":50701}')),
}
POST = {
    "id": "post_1",
    "botId": "bot_1",
    "botName": "Nell",
    "body": "Took profit.",
    "createdAt": "2026-11-05T12:00:00Z",
    "verification": {"status": "verified"},
    "provenance": {"ownership": "proven"},
}


def test_every_kind_has_a_writer_a_name_and_a_service_here():
    assert {*messages.WRITERS} == {*hooks.HOSTS} - {"webhook"} | {hooks.APPRISE}
    assert {*HOOK_KINDS} == {*hooks.HOSTS} == {"webhook", *SERVICES}


def read_text(kind, body):
    """The text shown to a person, from the message to the service."""
    if kind == "ntfy":
        return body.decode()
    return json.loads(body)["content" if kind == "discord" else "text"]


# ---- the text ------------------------------------------------------------------------------------
def write(kind, fact="", **changes):
    """A message to a messenger about a post, and the text in it."""
    to = messages.Receiver("hook_1", kind, f"https://x.example{SERVICES[kind][0]}", None)
    event = messages.Event(1, "post", {**POST, **changes}, fact)
    sent = messages.write_message(to, event, 0, "https://c.example")
    return sent, read_text(kind, sent.body)


VERIFIED, LINK = "Verified by a finalized transaction", "https://c.example/posts/post_1"


def test_messages_contain_text_and_label():
    claimed = f"{VERIFIED} of a wallet that is claimed, not proven"
    for ownership, label in (("proven", VERIFIED), ("claimed", claimed)):
        _, text = write("ntfy", provenance={"ownership": ownership})
        assert text == f"Nell: Took profit.\n{label}\n{LINK}"


@pytest.mark.parametrize("kind", ["ntfy", "discord", "telegram"])
def test_long_text_fits_each_messengers_limit(kind):
    """ntfy accepts 4,096 bytes, and turns longer text into a file; 1,800 of these characters have
    up to 7,200. Discord accepts 2,000 characters, including the backslashes for escaping.
    """
    assert len(write(kind, body="x" * 4000)[1]) == messages.MAX_TEXT
    for part in ("字", "😀", "*", "\\", "字*"):
        _, text = write(kind, body=part * 2_000)
        # The text isn't cut more than necessary, and the lines below it are complete.
        assert 900 <= len(text) <= 2_000 and len(text.encode()) <= 4_096, part
        assert text.endswith(f"…\n{VERIFIED}\n{LINK}"), part


def test_hostile_text_formats_nothing():
    """Markup for Discord and Slack is shown as typed."""
    body = "# [sure](https://evil.example) **x** _y_ `z` ||s|| <@1>\n>>> all https://a.example/b_c"
    fact = "Sold 1 [FERN](https://evil.example) for 2 SOL"
    # A backslash precedes each Discord Markdown character; addresses stay unchanged.
    _, text = write("discord", fact, botName="N*ll", body=body)
    assert text.splitlines() == [
        r"N\*ll: \# \[sure\](https://evil.example) \*\*x\*\* \_y\_ \`z\` \|\|s\|\| \<@1\>",
        r"\>\>\> all https://a.example/b_c",
        "Verified by a finalized transaction",
        r"Sold 1 \[FERN\](https://evil.example) for 2 SOL",
        "https://c.example/posts/post_1",
    ]
    slack, text = write("slack", fact, body=body)
    assert json.loads(slack.body)["mrkdwn"] is False and "*x*" in text


def test_hostile_text_mentions_nobody_and_links_nothing():
    body = "<!channel> @everyone <https://evil.example|win> & more"
    sent = {kind: write(kind, body=body) for kind in SERVICES}
    discord, telegram = (json.loads(sent[kind][0].body) for kind in ("discord", "telegram"))
    assert discord["allowed_mentions"] == {"parse": []} and "parse_mode" not in telegram
    assert "<" not in sent["slack"][1] and "&lt;!channel&gt;" in sent["slack"][1]
    # Telegram mentions a name after this character.
    assert "@everyone" not in sent["telegram"][1] and "everyone" in sent["telegram"][1]
    assert sent["ntfy"][1].startswith("Nell: <!channel> @everyone")


def test_signatures_match_the_specification():
    """The example from Standard Webhooks' reference libraries."""
    signed = messages.sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        b'{"test": 2432232314}',
    )
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


# ---- deliveries ----------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", SERVICES)
def test_each_messenger_gets_its_format_and_refused_messages_are_retried(
    private,  # noqa: F811
    delivering,  # noqa: F811
    receivers,  # noqa: F811
    monkeypatch,
    caplog,
    kind,
):
    """Its first message is the ping that every new hook must answer."""
    path, accept, refuse = SERVICES[kind]
    (service,), bot = receivers(), private.make_bot("Ada")
    service.behave(answer(*accept))
    # A test couldn't reach its own host.
    with monkeypatch.context() as patched:
        patched.setitem(hooks.HOSTS, kind, ())
        url = service.url.removesuffix("/hook") + path
        made = hooks.add_hook(private.config, bot.owner, url, NOW, kind)
    delivering()
    until(lambda: row(made).state == "active")
    service.behave(answer(*refuse))
    say(private, bot, "one")
    until(lambda: row(made).failures)
    refused = row(made)
    assert (refused.state, refused.last_error) == ("active", f"returned HTTP {refuse[0]}")
    assert refused.due_at > NOW // 10**6 and TOKEN not in caplog.text
    service.behave(answer(*accept))
    hooks.ask_for_ping(made.uid, 0)
    until(lambda: len(service.got) == 4 and row(made).last_error is None)
    ping, text = "This is a test: Candor can reach you.", "Ada: words of one\nNot verified\nhttp"
    told = [read_text(kind, body) for _, body in service.got]
    assert [one[: len(text)] for one in told] == [ping[: len(text)], text] * 2
    for headers, body in service.got:
        plain = "text/plain" if kind == "ntfy" else "application/"
        assert headers["content-type"].startswith(plain) and TOKEN.encode() not in body
        assert not any(name.startswith("webhook-") for name in headers)
    if kind == "telegram":
        assert json.loads(service.got[1][1])["chat_id"] == "-100"
