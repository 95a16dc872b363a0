"""Discord webhook messages become posts; the key in the address can't do anything else.

The payloads have the shapes that four public Solana programs send: fortuneofweb3/ks-sidecar (fields
with a masked link), xatxay/solana-wallet-tracker (the title has the link),
Stonks-Luma-Liberty/GuiltySpark (a time in the fields), and one that sends only text.
"""

import io
import time
from datetime import UTC, datetime

import orjson
import pytest
from service import NOW, signature

from accounts import api_keys, discord, influencers

SOLD = signature("sold")
SOLSCAN = f"https://solscan.io/tx/{SOLD}"


def make_embed(title, fields, **more):
    listed = [{"name": name, "value": text, "inline": True} for name, text in fields.items()]
    return {"embeds": [{"title": title, "color": 65535, "fields": listed, **more}]}


FIELDS = make_embed(
    "💰 Rent Reclaimed!",
    {"Items Closed": "3 accounts", "Transaction": f"[View on Solscan]({SOLSCAN})"},
    timestamp="2026-11-05T12:00:00.000Z",
)
TITLE = make_embed(
    "ada swapped 0.5 SOL for 1000 PINE",
    {"Exchange": "PUMP_FUN"},
    url=SOLSCAN,
    author={"name": "Dexscreener", "url": "https://dexscreener.com/search?q=PINE"},
)
TITLE["username"] = "Wallet tracking"
# 1793880000 s is 2026-11-05, noon UTC.
MOMENT = make_embed(
    "NFT SALE",
    {
        "Price": "2.5 SOL (`$400`)",
        "Date": "<t:1793880000>",
        "Explorer": f"[SolScan]({SOLSCAN})",
    },
    description="[Bear 7](https://example.org/bear/7)",
)
WORDS = {
    "content": f"🚨 **SMART MONEY ALERT** 🚨\n\n**Activity:** sold 5 PINE\n**Tx:** `{SOLD}`",
    "tts": False,
}
READ = [
    (FIELDS, "💰 Rent Reclaimed!\nItems Closed: 3 accounts\nTransaction: View on Solscan"),
    (TITLE, "Dexscreener\nada swapped 0.5 SOL for 1000 PINE\nExchange: PUMP_FUN"),
    (
        MOMENT,
        "NFT SALE\nBear 7\nPrice: 2.5 SOL ($400)\nDate: 2026-11-05 12:00 UTC\nExplorer: SolScan",
    ),
    (WORDS, f"🚨 SMART MONEY ALERT 🚨\n\nActivity: sold 5 PINE\nTx: {SOLD}"),
]


@pytest.fixture
def inbox(service):
    """(service, bot, inbox address)"""
    return open_inbox(service)


def open_inbox(service, bot=None):
    bot = bot or service.make_bot()
    made = api_keys.create_key(bot.owner, "inbox", NOW, bot=bot.bot)
    return service, bot, f"/api/v1/inbox/discord/{made.text}"


def send(inbox, payload, query="", **more):
    service, _, path = inbox
    sent = {"data": orjson.dumps(payload), "content_type": "application/json", **more}
    return service.ask("POST", path + query, **sent)


def feed(inbox):
    service, bot, _ = inbox
    return service.get("/api/v1/feed", bot.publish_key.text).json["data"]


@pytest.mark.parametrize("payload, words", READ, ids=["fields", "title", "moment", "words"])
def test_payloads_of_public_bots_become_posts(inbox, payload, words):
    answered = send(inbox, payload)
    assert (answered.status_code, answered.data) == (204, b"")
    (post,) = feed(inbox)
    assert (post["body"], post["signature"]) == (words, SOLD)
    assert post["provenance"]["channel"] == "discord" and not post["verified"]


# discord.py sends 1 and 0, discord-webhook "True", most others "true".
@pytest.mark.parametrize("wait", ["true", "True", "1"])
def test_with_wait_the_response_is_a_discord_message(inbox, wait):
    answered = send(inbox, WORDS, f"?wait={wait}")
    message, (post,) = answered.json, feed(inbox)
    assert answered.status_code == 200 and answered.content_type == "application/json"
    assert message["post"] == post
    assert (message["type"], message["content"]) == (0, WORDS["content"])
    assert message["author"]["username"] == post["botName"] and message["author"]["bot"]
    for name in ("id", "channel_id", "webhook_id"):
        assert isinstance(message[name], str) and 0 < int(message[name]) < 2**63
    # Discord IDs contain their creation time above bit 22: ms since 2015.
    made = datetime.fromtimestamp(((int(message["id"]) >> 22) + 1_420_070_400_000) / 1000, UTC)
    assert made == datetime.fromisoformat(post["createdAt"])
    assert datetime.fromisoformat(message["timestamp"]) == made
    other = send(inbox, TITLE, f"?wait={wait}").json
    assert other["embeds"] == TITLE["embeds"] and other["id"] != message["id"]
    assert other["channel_id"] == message["channel_id"]


@pytest.mark.parametrize("kind", ["multipart/form-data", "application/x-www-form-urlencoded"])
def test_a_form_works_like_json(inbox, kind):
    forms = [{"content": "Sold."}, {"payload_json": '{"content": "Bought."}'}]
    if kind.startswith("multipart"):
        # The attached file is ignored.
        forms[1]["files[0]"] = (io.BytesIO(b"png"), "chart.png")
    for form in forms:
        assert send(inbox, None, data=form, content_type=kind).status_code == 204
    assert [post["body"] for post in feed(inbox)] == ["Bought.", "Sold."]


# ---- one message is one post ---------------------------------------------------------------------
def test_a_repeated_message_about_a_transaction_is_one_post(inbox):
    for wait in ("", "?wait=false", "?wait=False", "?wait=0", "?wait="):
        answered = send(inbox, FIELDS, wait)
        assert (answered.status_code, answered.data) == (204, b"")
    assert len(feed(inbox)) == 1


@pytest.mark.usefixtures("standing_clock")
def test_the_same_text_of_one_key_within_a_minute_is_one_post(inbox, monkeypatch):
    words = {"content": "Still here.", "tts": False}
    turned = dict(reversed(words.items()))
    first = send(inbox, words, "?wait=true").json
    assert send(inbox, turned, "?wait=true").json["id"] == first["id"]
    send(inbox, {"content": "Still here!"})
    send(open_inbox(*inbox[:2]), words)
    # An empty nonce identifies nothing.
    for nonce in (None, ""):
        send(inbox, {**words, "nonce": nonce})
    assert {post["eventId"].partition("-")[0] for post in feed(inbox)} == {"discord"}
    assert len(feed(inbox)) == 5
    later = time.time_ns() + 60 * 10**9
    monkeypatch.setattr("time.time_ns", lambda: later)
    send(inbox, words)
    assert len(feed(inbox)) == 6


@pytest.mark.parametrize("nonce", ["order-17", 2**63 - 1])
def test_a_nonce_identifies_the_message(inbox, monkeypatch, nonce):
    said = {"content": "Sold half.", "nonce": nonce}
    first = send(inbox, said, "?wait=true").json
    later = time.time_ns() + 3600 * 10**9
    monkeypatch.setattr("time.time_ns", lambda: later)
    assert send(inbox, said, "?wait=true").json == first and first["nonce"] == nonce
    assert [post["eventId"] for post in feed(inbox)] == [str(nonce)]
    changed = send(inbox, {**said, "content": "Sold all."})
    assert (changed.status_code, changed.json["code"]) == (409, "event_conflict")


# ---- what is refused -----------------------------------------------------------------------------
def test_an_empty_message_a_secret_and_an_invalid_nonce_are_refused(inbox):
    phrase = "legal winner thank year wave sausage worth useful legal winner thank yellow"
    empty = (
        {},
        {"content": ""},
        {"username": "nobody"},
        {"content": 5, "embeds": "no"},
        {"embeds": [None, 1, {"fields": [None], "author": "x", "footer": 3, "title": {}}]},
    )
    wrong = [{"content": "Sold.", "nonce": one} for one in (True, 1.5, [], {}, " ", "x" * 26)]
    secret = ({"content": phrase},)
    for field, payloads in (("content", empty), ("nonce", wrong), ("body", secret)):
        for payload in payloads:
            answered = send(inbox, payload)
            assert answered.status_code == 422, payload
            assert answered.json["errors"][0]["field"] == field
            assert b"sausage" not in answered.data
    text = send(inbox, None, data=b"content=x", content_type="text/plain")
    assert text.status_code == 415 and feed(inbox) == []


def test_long_text_is_cut_and_embeds_beyond_discords_limit_are_ignored():
    read = discord.read_message({"content": "x" * 5000})
    assert len(read["body"]) == 4000 and read["body"].endswith("x…")
    read = discord.read_message({"embeds": [{"title": f"n{n}"} for n in range(12)]})
    assert read["body"].split("\n") == [f"n{n}" for n in range(10)]


def assert_unknown_webhook(answered):
    """Check for Discord's response: clients use the code and only read JSON of this type."""
    assert answered.status_code == 404 and answered.content_type == "application/json"
    assert answered.json == {"message": "Unknown Webhook", "code": 10015}


def test_an_inbox_opens_with_its_own_key_only_until_the_bot_retires(inbox):
    service, bot, path = inbox
    own = path.rsplit("/", 1)[1]
    answers = [service.get(f"/api/v1/{one}", own) for one in ("feed", "me")]
    answers.append(service.post({"eventId": "e", "body": "x"}, own))
    assert {answered.status_code for answered in answers} == {403}
    keys = bot.publish_key.text, service.make_read_key(bot.owner)
    for key in (*keys, "cnd_inbox_" + "x" * 49, "%20"):
        assert_unknown_webhook(send((service, bot, f"/api/v1/inbox/discord/{key}"), WORDS))
    assert feed(inbox) == []
    influencers.retire_bot(bot.bot, NOW)
    assert_unknown_webhook(send(inbox, WORDS))


@pytest.mark.usefixtures("standing_clock")
def test_a_wrong_key_counts_as_failed_authentication(serve):
    service = serve(failed_auth_per_minute=2)
    bot = service.make_bot()
    tried = (service, bot, f"/api/v1/inbox/discord/{bot.publish_key.text}")
    for _ in range(2):
        assert_unknown_webhook(send(tried, WORDS))
    assert send(tried, WORDS).status_code == 429
    assert service.get("/api/v1/me", "cnd_read_wrong").status_code == 429


def test_logs_never_contain_the_key(inbox, caplog):
    caplog.set_level(0)
    send(inbox, WORDS)
    send(inbox, {})
    key = inbox[2].rsplit("/", 1)[1]
    assert caplog.records and key not in caplog.text
    assert all(key not in repr(vars(record)) for record in caplog.records)


@pytest.mark.usefixtures("standing_clock")
def test_requests_count_toward_the_owners_allowance(serve):
    service = serve(posts_per_minute=2)
    inbox = open_inbox(service)
    *sent, refused = [send(inbox, {"content": "x"}) for _ in range(3)]
    assert [one.status_code for one in (*sent, refused)] == [204, 204, 429]
    # The clock is at second 30 of a minute, because Discord clients wait up to that long if they
    # suspect a proxy.
    told = {"retry_after": 30.0, "global": False, "window": "posts_minute"}
    assert refused.json == {"message": "You are being rate limited.", **told}
    assert refused.headers["Retry-After"] == "30" and "Via" in refused.headers
    assert refused.content_type == "application/json"
    key = inbox[1].publish_key.text
    assert service.post({"eventId": "e", "body": "x"}, key).status_code == 429
