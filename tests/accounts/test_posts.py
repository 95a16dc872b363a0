"""POST /api/v1/posts: one event is always one post, a rejected post stores nothing, and only
observed trades verify a post.
"""

import threading

import ground
import orjson
import pytest
from nacl.signing import SigningKey
from service import NOW, address, hide_post, refused, signature

from accounts import influencers, posts, wallets
from accounts.fields import HOLDS_SECRET
from accounts.problem import Problem
from chain.addresses import b58encode
from models import Arrival, Post
from storage import database, writing

FIRST = {"eventId": "e-1", "body": "bought the dip", "symbol": "DIP", "reason": "momentum"}


@pytest.fixture
def bot(service):
    return service.make_bot("Ada", address("w"))


def test_a_post_is_returned_as_sent(service, bot):
    answer = service.post(FIRST, bot.publish_key.text)
    shown = answer.json
    assert answer.status_code == 201 and "Idempotent-Replayed" not in answer.headers
    assert shown["id"].startswith("post_") and shown["createdAt"].endswith("Z")
    assert shown["eventAt"] == shown["createdAt"]
    assert shown["url"] == f"http://127.0.0.1:8000/posts/{shown['id']}"
    # The log: tests/evidence/test_log.py
    for name in ("id", "eventAt", "createdAt", "url", "logId", "logIndex", "logPromise"):
        del shown[name]
    assert shown == {
        **FIRST,
        **{"botId": bot.bot.uid, "botName": "Ada", "mint": None, "signature": None},
        **{"source": "bot", "simulated": False, "verified": False, "receipt": None},
        "verification": {
            "status": "none",
            "tradeId": None,
            "checkedAt": None,
            "reason": "no_signature",
        },
        "tokenAddresses": [],
        "sanitized": False,
        "hiddenAt": None,
        "provenance": {
            "channel": "api",
            "keyId": bot.publish_key.key.uid,
            "wallet": address("w"),
            "ownership": "claimed",
            "contentTrust": "untrusted",
            "untrustedFields": ["body", "reason", "symbol", "eventId", "botName"],
        },
    }


def test_an_identical_retry_returns_the_same_post(service, bot):
    first = service.post(FIRST, bot.publish_key.text)
    wallets.detach_wallet(bot.bot, NOW)
    influencers.set_profile(bot.bot, name="Eve", now=1)
    again = service.post(
        orjson.dumps(dict(reversed(FIRST.items())), option=orjson.OPT_INDENT_2),
        bot.publish_key.text,
    )
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert again.json == {**first.json, "botName": "Eve"} and Post.select().count() == 1


@pytest.mark.parametrize(
    "change, differing",
    [
        ({"body": "sold"}, ["body"]),
        ({"reason": None, "symbol": "TOP"}, ["reason", "symbol"]),
        ({"mint": address("m")}, ["mint"]),
    ],
)
def test_different_content_under_one_id_is_a_conflict(service, bot, change, differing):
    first = service.post(FIRST, bot.publish_key.text).json
    answer = service.post({**FIRST, **change}, bot.publish_key.text)
    check(answer, 409, "event_conflict")
    assert answer.json["existingPostId"] == first["id"]
    assert sorted(answer.json["differingFields"]) == differing
    assert Post.get().body == "bought the dip"


def test_observer_events_do_not_conflict_with_the_bots_own(service, bot):
    """A post by the observer may have an event ID that the bot uses too."""
    told = {"source": "observer", "channel": "observer", "event_id": FIRST["eventId"]}
    with writing():
        posts.store_post(bot=bot.bot.id, body="told for it", event_at=NOW, created_at=NOW, **told)
    made = service.post(FIRST, bot.publish_key.text)
    again = service.post(FIRST, bot.publish_key.text)
    assert (made.status_code, again.status_code) == (201, 200)
    assert again.json["id"] == made.json["id"] and again.json["body"] == "bought the dip"


def test_event_ids_are_unique_per_bot(service, bot):
    other = service.make_bot("Bob", owner=bot.owner)
    for one in (bot, other):
        assert service.post(FIRST, one.publish_key.text).status_code == 201


def test_concurrent_identical_posts_create_one_row(service, bot):
    body, _ = posts.parse_post(FIRST)
    done, gate = [], threading.Barrier(16)

    def publish():
        with database.connection_context():
            gate.wait()
            done.append(posts.publish(bot.bot.id, body, NOW))

    crew = [threading.Thread(target=publish) for _ in range(16)]
    [thread.start() for thread in crew], [thread.join() for thread in crew]
    assert [one.replayed for one in done].count(False) == len({one.uid for one in done}) == 1
    assert Post.select().count() == 1


@pytest.mark.parametrize(
    "body, header, why",
    [
        ({}, "from header", None),
        ({"eventId": "from header"}, "from header", None),
        ({"eventId": "another"}, "from header", "differs from the Idempotency-Key header"),
        ({}, "h" * 129, "must have 1 to 128 characters"),
    ],
)
def test_the_event_id_may_be_in_the_header(service, bot, body, header, why):
    sent = {**body, "body": "b"}
    answer = service.post(sent, bot.publish_key.text, headers={"Idempotency-Key": header})
    if why is None:
        assert (answer.status_code, answer.json["eventId"]) == (201, header)
    else:
        check(answer, 422, "validation_failed", "eventId")
        assert answer.json["errors"][0]["message"] == why


def check(answer, status, code, field=None):
    """Check a refusal."""
    problem = answer.json
    assert (answer.status_code, problem["code"], problem["status"]) == (status, code, status)
    assert answer.content_type == "application/problem+json"
    assert problem["requestId"] == answer.headers["X-Request-Id"]
    assert field is None or field in [error["field"] for error in problem["errors"]]


@pytest.mark.parametrize(
    "raw",
    [
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
    ],
)
def test_a_body_that_is_not_a_json_object_is_refused(service, bot, raw):
    check(service.post(raw, bot.publish_key.text), 400, "invalid_json")
    assert Post.select().count() == 0


def test_followers_receive_a_post_and_its_hiding(service, bot):
    hide_post(service.post(FIRST, bot.publish_key.text).json["id"], NOW)
    heard = [(arrival.kind, arrival.post) for arrival in Arrival.select().order_by(Arrival.id)]
    assert heard == [("post", Post.get()), ("verification", Post.get())]


# By field.
BAD = {
    "body": (
        *(5, None, True, ["r"], " \n ", "x" * 4001, "\u200b\u202e"),
        *("a\0b", "a\x1bb", "a\x85b", "a\rb"),
    ),
    "eventId": (7, "", "e" * 129, "\u200b"),
    "symbol": ("S" * 33, ""),
    "reason": ("r" * 4001, ["r"]),
    "mint": ("0OIl" * 9, "abc", address("m") + "\n", [address("m")], signature("s")),
    "signature": (address("m"), "1" * 88),
    **{"colour": ("red",), "verified": (True,), "botId": (5,)},
}
GOOD = {"eventId": "v", "body": "b"}


@pytest.mark.parametrize(
    "body, field",
    [
        *(
            ({**GOOD, field: wrong}, field)
            for field, all_wrong in BAD.items()
            for wrong in all_wrong
        ),
        (b'{"eventId": "v", "body": 1e999}', "body"),
    ],
)
def test_an_invalid_field_is_named(service, bot, body, field):
    check(service.post(body, bot.publish_key.text), 422, "validation_failed", field)
    assert Post.select().count() == 0


def test_errors_describe_what_is_allowed(service, bot):
    body = {"eventId": "", "body": 5, "reason": "x" * 4001, "symbol": "y" * 33, "colour": "red"}
    problem = service.post(body, bot.publish_key.text).json
    assert {one["field"]: one["message"] for one in problem["errors"]} == {
        "eventId": "must have 1 to 128 characters",
        "body": "must be text",
        "symbol": "must have 1 to 32 characters",
        "reason": "must have at most 4,000 characters",
        "colour": "must be one of eventId, body, mint, symbol, signature, reason, botId",
    }
    missing = service.post({"eventId": "a"}, bot.publish_key.text).json
    assert missing["detail"] == "body: is required"


def test_every_missing_field_is_named(service, bot):
    """Together with any other errors."""
    event_id = "is required, here or in the Idempotency-Key header"
    both = {"eventId": event_id, "body": "is required"}
    mint = {"mint": "must be base58 of 32 bytes"}
    for body, named in (({}, both), ({"mint": "x"}, {**both, **mint})):
        answer = service.post(body, bot.publish_key.text)
        check(answer, 422, "validation_failed")
        assert {one["field"]: one["message"] for one in answer.json["errors"]} == named
    told = service.post({}, bot.publish_key.text, headers={"Idempotency-Key": "e"}).json
    assert told["detail"] == "body: is required"


def test_text_over_twice_the_limit_is_refused_unread():
    """8,000 characters are checked; 8,001 are only counted."""
    for length, why in ((8_000, "control characters"), (8_001, "1 to 4,000 characters")):
        with pytest.raises(Problem, match=why):
            posts.parse_post({"eventId": "e", "body": "\a" + "x" * (length - 1)})


@pytest.mark.parametrize("field", ["eventId", "body", "reason", "signature"])
def test_a_private_key_is_refused_and_not_repeated(field):
    """In the format of wallet exports: seed and public half in base58."""
    made = SigningKey(bytes(range(32)))
    key = b58encode(bytes(made) + bytes(made.verify_key))
    problem = refused(posts.parse_post, {"eventId": "e", "body": "b", field: key})
    assert problem.errors == [{"field": field, "message": HOLDS_SECRET}]


def test_values_at_the_limits_are_accepted(service, bot):
    body = {
        "eventId": "e" * 128,
        "body": " x\n\t" + "y" * 3997 + " ",
        "symbol": "S" * 32,
        "reason": "",
        "mint": address("m"),
        "botId": bot.bot.uid,
    }
    kind = "application/json; charset=utf-8"
    answer = service.post(body, bot.publish_key.text, content_type=kind)
    assert (answer.status_code, answer.json["tokenAddresses"]) == (201, [address("m")])
    assert answer.json["body"] == "x\n\t" + "y" * 3997


def test_invisible_characters_are_removed_and_reported(service, bot):
    words = "a\u202eb\U000e0041c 👩\u200d🚀"
    answer = service.post({"eventId": "h", "body": words}, bot.publish_key.text)
    assert (answer.json["body"], answer.json["sanitized"]) == ("abc 👩\u200d🚀", True)


@pytest.mark.parametrize("name", ["eventId", "body", "symbol", "reason"])
def test_a_character_removed_from_any_text_is_reported(service, bot, name):
    post = {"eventId": "h", "body": "words", "symbol": "COIN", "reason": "why"}
    answer = service.post({**post, name: f"{post[name]}\u202e"}, bot.publish_key.text)
    assert answer.status_code == 201 and answer.json["sanitized"]
    assert {one: answer.json[one] for one in post} == post


def test_posting_needs_a_publishing_key(service, bot):
    other, key = service.make_bot("Bob").bot.uid, bot.publish_key.text
    check(service.post(FIRST, service.make_read_key(bot.owner)), 403, "insufficient_scope")
    check(service.post({**FIRST, "botId": other}, key), 403, "bot_mismatch")
    check(service.post(FIRST), 401, "missing_key")
    text = service.post(FIRST, key, content_type="text/plain")
    check(text, 415, "unsupported_media_type")
    check(service.post({**GOOD, "body": "x" * 65 * 1024}, key), 413, "body_too_large")
    assert Post.select().count() == 0


# ---- verification at creation --------------------------------------------------------------------
def verification(service, bot, name, **more):
    """(status, reason, verified, trade ID) of a post about a trade."""
    said = {"eventId": f"v-{name}-{len(more)}", "body": "b", "signature": signature(name), **more}
    shown = service.post(said, bot.publish_key.text).json
    told = shown["verification"]
    return told["status"], told["reason"], shown["verified"], told["tradeId"]


def test_an_observed_trade_verifies_immediately(service, bot):
    service.observe_trade(address("w"), "buy", 10, mint=address("m"))
    for more in ({}, {"mint": address("m")}):
        told = verification(service, bot, "buy", **more)
        assert told == ("verified", None, True, "trade_buy")
    told = verification(service, bot, "buy", mint=address("other"), symbol="X")
    assert told == ("mismatch", "mint_not_in_trade", False, "trade_buy")
    shown = service.get("/api/v1/feed?limit=1", bot.publish_key.text).json["data"][0]
    # A mismatch doesn't set the time.
    assert shown["eventAt"] == shown["createdAt"]
    verified = service.get("/api/v1/feed", bot.publish_key.text).json["data"][-1]
    # The block's time is an hour before NOW.
    assert verified["eventAt"] == "2026-11-05T11:00:00Z"
    assert verified["tokenAddresses"] == [address("m")]


def test_a_bots_first_post_about_a_transaction_is_its_claim(service, bot):
    other = service.make_bot("Bob")
    for made, name, event in ((bot, "t", 1), (bot, "t", 2), (bot, "u", 3), (other, "t", 4)):
        said = {"eventId": str(event), "body": "b", "signature": signature(name)}
        service.post(said, made.publish_key.text)
    claims = Post.select(Post.claim).order_by(Post.id).tuples()
    assert [claim for (claim,) in claims] == [True, False, True, True]


def test_other_transactions_do_not_verify(service, bot):
    service.observe_trade(address("w"), "bad", 10, kind="failed")
    service.observe_trade(address("w"), "gift", 11, kind="transfer_in")
    assert verification(service, bot, "bad") == ("mismatch", "failed", False, "trade_bad")
    assert verification(service, bot, "gift") == ("mismatch", "not_a_trade", False, "trade_gift")


def test_a_post_is_pending_until_observed_and_none_without_a_wallet(service, bot):
    assert verification(service, bot, "unseen") == ("pending", "history_loading", False, None)
    mute = service.make_bot("Mute")
    assert verification(service, mute, "unseen") == ("none", "no_wallet", False, None)


def test_another_wallets_trade_does_not_verify(service, bot):
    service.make_bot("Bob", address("other"))
    service.observe_trade(address("other"), "theirs", 10)
    assert verification(service, bot, "theirs")[0] == "pending"


def test_a_conflicting_retry_does_not_change_verification(service, bot):
    service.post({"eventId": "m", "body": "b"}, bot.publish_key.text)
    service.observe_trade(address("w"), "buy", 10)
    more = {"eventId": "m", "body": "b", "signature": signature("buy")}
    check(service.post(more, bot.publish_key.text), 409, "event_conflict")
    assert Post.get().status == "none"


def test_a_hidden_post_keeps_its_record_without_its_text(service, bot):
    uid = service.post(FIRST, bot.publish_key.text).json["id"]
    hide_post(uid, NOW)
    shown = service.get(f"/api/v1/posts/{uid}", bot.publish_key.text).json
    assert shown["body"] is shown["reason"] is shown["symbol"] is None
    assert shown["eventId"] == "e-1" and shown["hiddenAt"].endswith("Z")
    hide_post(uid, NOW + 1000)
    assert service.get(f"/api/v1/posts/{uid}", bot.publish_key.text).json == shown


@ground.sqlite_only
def test_hidden_text_is_on_no_page_and_in_no_file(service, bot):
    """Long enough to fill database pages."""
    words = {"body": "canary-body " * 300, "reason": "canary-reason " * 280}
    words["symbol"] = "CANARYSYMBOL"
    uid = service.post({"eventId": "e-1", **words}, bot.publish_key.text).json["id"]
    files = [service.config.database_path, service.config.database_path.with_name("app.db-wal")]
    assert b"canary-body" in b"".join(file.read_bytes() for file in files)
    hide_post(uid, NOW)
    left = b"".join(file.read_bytes() for file in files)
    assert b"canary" not in left and b"CANARYSYMBOL" not in left
    profile = f"/bots/{bot.bot.uid}"
    for path in ("/", f"/posts/{uid}", profile, "/feed.json", f"{profile}/feed.json"):
        page = service.get(path).text
        assert "removed this text" in page and "canary" not in page.lower(), path


def test_a_hidden_post_still_detects_a_different_retry(service, bot):
    uid = service.post(FIRST, bot.publish_key.text).json["id"]
    hide_post(uid, NOW)
    again = service.post(FIRST, bot.publish_key.text)
    assert (again.status_code, again.json["id"], again.json["body"]) == (200, uid, None)
    assert again.headers["Idempotent-Replayed"] == "true"
    changed = service.post({**FIRST, "body": "other words"}, bot.publish_key.text)
    check(changed, 409, "event_conflict")
    assert (changed.json["existingPostId"], changed.json["differingFields"]) == (uid, [])
    moved = service.post({**FIRST, "mint": address("another")}, bot.publish_key.text)
    check(moved, 409, "event_conflict")
    assert moved.json["differingFields"] == ["mint"]
