"""POST /api/v1/posts: one event is always one post, a rejected post stores nothing, and only
observed trades verify a post.
"""

import ground
import orjson
import pytest
from nacl.signing import SigningKey
from service import NOW, address, hide_post, race, refused, signature

from accounts import influencers, posts, wallets
from accounts.fields import HOLDS_SECRET
from chain.addresses import b58encode
from models import Arrival, Post
from storage import writing

FIRST = {"eventId": "e-1", "body": "bought the dip", "symbol": "DIP", "reason": "momentum"}
SHORT = {"eventId": "v", "body": "b"}


@pytest.fixture
def send(service, key):
    """send(post) -> the answer to the bot's request"""
    return lambda post, **more: service.post(post, key, **more)


def check(answer, status, code):
    """Check a refusal; return {field: message}."""
    problem = answer.json
    assert (answer.status_code, problem["code"], problem["status"]) == (status, code, status)
    assert answer.content_type == "application/problem+json"
    assert problem["requestId"] == answer.headers["X-Request-Id"]
    return {error["field"]: error["message"] for error in problem.get("errors", ())}


def check_replay(answer, first):
    assert (answer.status_code, answer.headers["Idempotent-Replayed"]) == (200, "true")
    assert answer.json == first


def test_a_post_is_returned_as_sent(bot, send):
    answer = send(FIRST)
    shown = answer.json
    assert answer.status_code == 201 and "Idempotent-Replayed" not in answer.headers
    assert shown["id"].startswith("post_") and shown["createdAt"].endswith("Z")
    assert shown["eventAt"] == shown["createdAt"]
    assert shown["url"] == f"http://127.0.0.1:8000/posts/{shown['id']}"
    # The log: tests/evidence/test_log.py
    for name in ("id", "eventAt", "createdAt", "url", "logId", "logIndex", "logPromise"):
        del shown[name]
    unchecked = {"tradeId": None, "checkedAt": None, "reason": "no_signature"}
    assert shown == {
        **FIRST,
        **{"botId": bot.bot.uid, "botName": "Ada", "mint": None, "signature": None},
        **{"source": "bot", "simulated": False, "verified": False, "receipt": None},
        **{"tokenAddresses": [], "sanitized": False, "hiddenAt": None},
        "verification": {"status": "none", **unchecked},
        "provenance": {
            "channel": "api",
            "keyId": bot.publish_key.key.uid,
            "wallet": address("w"),
            "ownership": "claimed",
            "contentTrust": "untrusted",
            "untrustedFields": ["body", "reason", "symbol", "eventId", "botName"],
        },
    }


# ---- one event is one post -----------------------------------------------------------------------
def test_an_identical_retry_returns_the_same_post(bot, send):
    """However its JSON is written, and whatever the bot has changed since."""
    first = send(FIRST).json
    wallets.detach_wallet(bot.bot, NOW)
    influencers.set_profile(bot.bot, name="Eve", now=1)
    rewritten = orjson.dumps(dict(reversed(FIRST.items())), option=orjson.OPT_INDENT_2)
    check_replay(send(rewritten), {**first, "botName": "Eve"})
    assert Post.select().count() == 1


def test_different_content_under_one_id_is_a_conflict(service, send):
    first, stored = send(FIRST).json["id"], Post.select().dicts().get()
    service.observe_trade(address("w"), "buy", 10)
    changes = ({"body": "sold"}, {"reason": None, "symbol": "TOP"}, {"mint": address("m")})
    for change in (*changes, {"signature": signature("buy")}):
        answer = send({**FIRST, **change})
        check(answer, 409, "event_conflict")
        assert answer.json["existingPostId"] == first
        assert sorted(answer.json["differingFields"]) == sorted(change)
    assert Post.select().dicts().get() == stored


def test_event_ids_are_unique_per_bot_and_source(service, bot, send):
    """The observer may use an event ID of the bot's."""
    told = {"source": "observer", "channel": "observer", "status": "none", "body": "told for it"}
    times = {"event_at": NOW, "created_at": NOW}
    with writing():
        posts.store_post(bot=bot.bot.id, event_id=FIRST["eventId"], **told, **times)
    made = send(FIRST)
    assert made.status_code == 201
    check_replay(send(FIRST), made.json)
    other = service.make_bot("Bob", owner=bot.owner)
    hers = service.post(FIRST, other.publish_key.text)
    assert hers.status_code == 201
    check_replay(service.post(FIRST, other.publish_key.text), hers.json)
    assert [one.kind for one in Arrival.select()] == ["post"] * 3


def test_concurrent_identical_posts_create_one_row(bot):
    body, _ = posts.parse_post(FIRST)
    done = race(16, lambda _: posts.publish(bot.bot.id, body, NOW))
    assert [one.replayed for one in done].count(False) == len({one.uid for one in done}) == 1
    assert Post.select().count() == 1


def test_the_event_id_may_be_in_the_header(send):
    for body in ({}, {"eventId": "from header"}):
        answer = send({**body, "body": "b"}, headers={"Idempotency-Key": "from header"})
        assert answer.json["eventId"] == "from header"
    for body, header, why in (
        ({"eventId": "another"}, "from header", "differs from the Idempotency-Key header"),
        ({}, "h" * 129, "must have 1 to 128 characters"),
    ):
        answer = send({**body, "body": "b"}, headers={"Idempotency-Key": header})
        assert check(answer, 422, "validation_failed") == {"eventId": why}


# ---- what is refused -----------------------------------------------------------------------------
NO_OBJECT = (
    b"",
    b"null",
    b"[1]",
    b'"x"',
    b'{"eventId": "j", "body": ',
    b'{"eventId": "j", "body": NaN}',
    b'{"eventId": "j", "body": -Infinity}',
    b'{"eventId": "j", "body": "a", "body": "b"}',
    b'{"eventId": "j", "body": {"a": 1, "a": 2}}',
    b'{"eventId": "j", "body": "\xff"}',
    b'\xef\xbb\xbf{"eventId": "j", "body": "b"}',
    b'{"eventId": "j", "body": "a\\ud800b"}',
    b'{"eventId": "j", "\\udfff": "b"}',
    b'{"eventId": "j", "body": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    b'{"eventId": "j", "body": "a\nb"}',
    b'{"eventId": "j", "body": ' + b"9" * 5_000 + b"}",
)
# By field.
BAD = {
    "body": (
        *(5, None, True, ["r"], " \n ", "x" * 4001, "\u200b\u202e"),
        *("a\0b", "a\x1bb", "a\x85b", "a\rb", b'{"eventId": "v", "body": 1e999}'),
    ),
    "eventId": (7, "", "e" * 129, "\u200b"),
    "symbol": ("S" * 33, ""),
    "reason": ("r" * 4001, ["r"]),
    "mint": ("0OIl" * 9, "abc", address("m") + "\n", [address("m")], signature("s")),
    "signature": (address("m"), "1" * 88),
    **{"colour": ("red",), "verified": (True,), "botId": (5,)},
}


@pytest.mark.usefixtures("uncollected")
def test_a_body_that_is_not_a_json_object_is_refused(send):
    for raw in NO_OBJECT:
        check(send(raw), 400, "invalid_json")
    assert Post.select().count() == 0


@pytest.mark.parametrize("field", BAD)
def test_an_invalid_field_is_named(send, field):
    for wrong in BAD[field]:
        raw = wrong if isinstance(wrong, bytes) else orjson.dumps({**SHORT, field: wrong})
        assert [field] == [*check(send(raw), 422, "validation_failed")], wrong
    assert Post.select().count() == 0


def test_errors_describe_what_is_allowed(send):
    """All of them at once, also for what is missing."""
    event_id = "is required, here or in the Idempotency-Key header"
    missing = {"eventId": event_id, "body": "is required"}
    wrong = {"eventId": "", "body": 5, "reason": "x" * 4001, "symbol": "y" * 33, "colour": "red"}
    described = {
        "eventId": "must have 1 to 128 characters",
        "body": "must be text",
        "symbol": "must have 1 to 32 characters",
        "reason": "must have at most 4,000 characters",
        "colour": "must be one of eventId, body, mint, symbol, signature, reason, botId",
    }
    for body, errors in (
        ({}, missing),
        ({"mint": "x"}, {**missing, "mint": "must be base58 of 32 bytes"}),
        (wrong, described),
    ):
        assert check(send(body), 422, "validation_failed") == errors
    for body, header in (({"eventId": "a"}, {}), ({}, {"Idempotency-Key": "e"})):
        assert send(body, headers=header).json["detail"] == "body: is required"
    # A text over twice the limit is only counted.
    for length, why in ((8_000, "control characters"), (8_001, "1 to 4,000 characters")):
        assert why in refused(posts.parse_post, {**SHORT, "body": "\a" * length}).detail


@pytest.mark.parametrize("field", ["eventId", "body", "reason", "signature"])
def test_a_private_key_is_refused_and_not_repeated(field):
    """In the format of wallet exports: seed and public half in base58."""
    made = SigningKey(bytes(range(32)))
    key = b58encode(bytes(made) + bytes(made.verify_key))
    problem = refused(posts.parse_post, {**SHORT, field: key})
    assert problem.errors == [{"field": field, "message": HOLDS_SECRET}]


def test_posting_needs_a_publishing_key(service, bot, send):
    other = service.make_bot("Bob").bot.uid
    check(service.post(FIRST, service.make_read_key(bot.owner)), 403, "insufficient_scope")
    check(service.post(FIRST), 401, "missing_key")
    check(send({**FIRST, "botId": other}), 403, "bot_mismatch")
    check(send(FIRST, content_type="text/plain"), 415, "unsupported_media_type")
    check(send({**SHORT, "body": "x" * 65 * 1024}), 413, "body_too_large")
    assert Post.select().count() == 0


# ---- what is accepted ----------------------------------------------------------------------------
def test_values_at_the_limits_are_accepted(bot, send):
    ends = {"eventId": "e" * 128, "symbol": "S" * 32, "reason": "", "mint": address("m")}
    body = {**ends, "body": " x\n\t" + "y" * 3997 + " ", "botId": bot.bot.uid}
    answer = send(body, content_type="application/json; charset=utf-8")
    assert (answer.status_code, answer.json["tokenAddresses"]) == (201, [address("m")])
    assert answer.json["body"] == "x\n\t" + "y" * 3997


@pytest.mark.parametrize("name", ["eventId", "body", "symbol", "reason"])
def test_invisible_characters_are_removed_and_reported(send, name):
    answer = send({**FIRST, name: f"\u202e{FIRST[name]}\U000e0041"})
    assert answer.status_code == 201 and answer.json["sanitized"]
    assert {one: answer.json[one] for one in FIRST} == FIRST


# ---- verification at creation --------------------------------------------------------------------
def test_an_observed_trade_verifies_immediately(service, send, key):
    """See test_verification.py for which trades do."""
    service.observe_trade(address("w"), "buy", 10, mint=address("m"))
    for n, mint in enumerate((None, address("m"), address("other"))):
        send({"eventId": str(n), "body": "b", "signature": signature("buy"), "mint": mint})
    mismatched, *verified = service.get("/api/v1/feed", key).json["data"]

    def judge(post):
        told = post["verification"]
        return post["verified"], told["status"], told["reason"], told["tradeId"], post["eventAt"]

    # A mismatch doesn't set the time; the block's time is an hour before NOW.
    wrong = False, "mismatch", "mint_not_in_trade", "trade_buy", mismatched["createdAt"]
    right = True, "verified", None, "trade_buy", "2026-11-05T11:00:00Z"
    assert [judge(one) for one in (mismatched, *verified)] == [wrong, right, right]
    assert [one["tokenAddresses"] for one in verified] == [[address("m")]] * 2


def test_a_bots_first_post_about_a_transaction_is_its_claim(service, bot):
    other = service.make_bot("Bob")
    for made, name, event in ((bot, "t", 1), (bot, "t", 2), (bot, "u", 3), (other, "t", 4)):
        said = {"eventId": str(event), "body": "b", "signature": signature(name)}
        service.post(said, made.publish_key.text)
    claims = Post.select(Post.claim).order_by(Post.id).tuples()
    assert [claim for (claim,) in claims] == [True, False, True, True]


# ---- hidden --------------------------------------------------------------------------------------
def test_a_hidden_post_keeps_its_record_without_its_text(service, key, send):
    uid = send(FIRST).json["id"]
    hide_post(uid, NOW)
    shown = service.get(f"/api/v1/posts/{uid}", key).json
    assert shown["body"] is shown["reason"] is shown["symbol"] is None
    assert shown["eventId"] == "e-1" and shown["hiddenAt"].endswith("Z")
    hide_post(uid, NOW + 1000)
    assert service.get(f"/api/v1/posts/{uid}", key).json == shown
    again = send(FIRST)
    check_replay(again, again.json)
    assert (again.json["id"], again.json["body"]) == (uid, None)
    # It still detects a different retry. The words are gone, so the answer can't say which field
    # differs.
    for change, differing in (({"body": "other words"}, []), ({"mint": address("m")}, ["mint"])):
        answer = send({**FIRST, **change})
        check(answer, 409, "event_conflict")
        assert (answer.json["existingPostId"], answer.json["differingFields"]) == (uid, differing)


@ground.sqlite_only
def test_hidden_text_is_on_no_page_and_in_no_file(service, bot, send):
    """Long enough to fill database pages."""
    words = {"body": "canary-body " * 300, "reason": "canary-reason " * 280}
    uid = send({"eventId": "e-1", **words, "symbol": "CANARYSYMBOL"}).json["id"]
    files = [service.config.database_path, service.config.database_path.with_name("app.db-wal")]
    assert b"canary-body" in b"".join(file.read_bytes() for file in files)
    hide_post(uid, NOW)
    left = b"".join(file.read_bytes() for file in files)
    assert b"canary" not in left and b"CANARYSYMBOL" not in left
    profile = f"/bots/{bot.bot.uid}"
    for path in ("/", f"/posts/{uid}", profile, "/feed.json", f"{profile}/feed.json"):
        page = service.get(path).text
        assert "removed this text" in page and "canary" not in page.lower(), path
