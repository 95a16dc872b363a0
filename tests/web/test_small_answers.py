"""Small responses: 304s, compression, and the `fields` of a query."""

import gzip

import orjson
import pytest
from service import address

W, M = address("w"), address("mint")


def post(service, key, count=1):
    for n in range(count):
        service.post({"eventId": f"e{n}", "body": "Hello."}, key)


def test_fields_keeps_only_the_listed_ones(service, bot, key):
    post(service, key, 2)
    page = service.get("/api/v1/feed?fields=id,body", key).json
    same = service.get("/api/v1/feed?fields=body,id,body", key)
    assert same.headers["ETag"] == service.get("/api/v1/feed?fields=id,body", key).headers["ETag"]
    assert [list(row) for row in page["data"]] == [["id", "body"]] * 2
    assert {"nextCursor", "limit", "asOf", "newestCursor"} <= page.keys()
    path = f"/api/v1/bots/{bot.bot.uid}"
    assert service.get(f"{path}?fields=name,pace", key).json.keys() == {"name", "pace"}
    refused = service.get("/api/v1/feed?fields=id,colour", key)
    assert (refused.status_code, refused.json["errors"][0]["field"]) == (400, "fields")
    assert "body, mint, symbol" in refused.json["detail"]


def test_a_detail_can_leave_out_trades_and_feed(service, bot, key):
    path = f"/api/v1/bots/{bot.bot.uid}"
    whole = service.get(path, key).json
    small = service.get(f"{path}?trades=0&feed=0", key).json
    assert whole.keys() - small.keys() == {"latestTrades", "feed"}
    assert service.get(f"{path}?trades=no", key).status_code == 400


@pytest.mark.parametrize(
    "path",
    ["feed", "bots", "trades", "leaderboard", "market", "me", f"activity?mint={M}", "search?q=a"],
)
def test_a_client_with_the_current_version_gets_304(service, key, path):
    first = service.get(f"/api/v1/{path}", key)
    again = service.get(f"/api/v1/{path}", key, headers={"If-None-Match": first.headers["ETag"]})
    if path == "me":
        # Its windows change on their own.
        assert first.headers["ETag"] and again.status_code in (200, 304)
        return
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"] and "RateLimit-Limit" in again.headers
    if path == "feed":
        post(service, key)
        changed = service.get("/api/v1/feed", key, headers={"If-None-Match": first.headers["ETag"]})
        assert changed.status_code == 200 and changed.headers["ETag"] != first.headers["ETag"]


def test_a_list_is_compressed_for_clients_that_accept_it(service, key):
    post(service, key, 5)
    plain = service.get("/api/v1/feed", key)
    assert "Content-Encoding" not in plain.headers
    for _ in range(2):
        packed = service.get("/api/v1/feed", key, headers={"Accept-Encoding": "gzip"})
        assert packed.headers["Content-Encoding"] == "gzip"
        assert len(packed.data) < len(plain.data) / 2
        told = orjson.loads(gzip.decompress(packed.data))
        assert {**told, "asOf": ""} == {**plain.json, "asOf": ""}
    refused = service.get("/api/v1/feed", key, headers={"Accept-Encoding": "gzip;q=0"})
    assert "Content-Encoding" not in refused.headers


def test_another_lists_field_name_is_refused(service, bot, key):
    answer = service.get(f"/api/v1/feed?wallet={W}", key)
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_parameter")
    told = "wallet is not a parameter of this request, which accepts: limit, cursor, since, botId"
    assert answer.json["detail"].startswith(told)
    assert service.get("/api/v1/feed?colour=red", key).status_code == 200


def test_a_feed_can_be_limited_to_one_bot(service, bot, key):
    other = service.make_bot("Bob")
    post(service, key)
    post(service, other.publish_key.text)
    data = service.get(f"/api/v1/feed?botId={bot.bot.uid}", key).json["data"]
    assert [row["botName"] for row in data] == ["Ada"]


def test_a_new_post_has_its_location(service, key):
    made = service.post({"eventId": "1", "body": "Hello."}, key)
    assert (made.status_code, made.headers["Location"]) == (201, f"/api/v1/posts/{made.json['id']}")
    assert "Location" not in service.post({"eventId": "1", "body": "Hello."}, key).headers


def test_policies_name_every_window_that_counts(service, key):
    owner = ", ".join(
        f'"{name}";q={most};w={seconds}'
        for (name, most), seconds in zip(service.config.allowance, (60, 3_600, 86_400), strict=True)
    )
    posts = f'"posts_minute";q={service.config.posts_per_minute};w=60'
    for path, told in (("feed", owner), ("nothing", owner)):
        answer = service.get(f"/api/v1/{path}", key)
        assert answer.headers["RateLimit-Policy"] == told and answer.headers["RateLimit-Limit"]
    made = service.post({"eventId": "1", "body": "Hello."}, key)
    assert made.headers["RateLimit-Policy"] == f"{owner}, {posts}"
    wrong = service.ask("DELETE", "/api/v1/feed", key)
    assert wrong.status_code == 405 and wrong.headers["RateLimit-Policy"] == owner
    address_policy = f'"address";q={service.config.ip_limit_per_minute};w=60'
    assert service.get("/api/traders").headers["RateLimit-Policy"] == address_policy
    assert "RateLimit-Policy" not in service.get("/api/health").headers


def test_a_pending_post_has_a_reason(service, bot, key):
    reasons = {}
    mute = service.make_bot("Mute").publish_key.text
    signature = "5" * 88
    for name, sender, more in (
        ("no_signature", key, {}),
        ("no_wallet", mute, {"signature": signature}),
        ("history_loading", key, {"signature": signature}),
    ):
        answer = service.post({"eventId": name, "body": "b", **more}, sender)
        reasons[name] = answer.json.get("verification", answer.json)
    assert {name: one["reason"] for name, one in reasons.items()} == {
        name: name for name in reasons
    }


def test_a_seed_phrase_with_repeated_words_is_refused(service, key):
    """BIP-39's first test vector, anywhere in the text."""
    phrase = " ".join(["abandon"] * 11 + ["about"])
    refused = service.post({"eventId": "1", "body": f"My key: {phrase}."}, key)
    assert (refused.status_code, refused.json["errors"][0]["field"]) == (422, "body")
    said = {"eventId": "2", "body": " ".join(["abandon"] * 12)}
    assert service.post(said, key).status_code == 201
