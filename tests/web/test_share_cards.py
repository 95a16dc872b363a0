"""Pictures of posts and bots for links, the strip of claims, frames and badges."""

import re
import struct
import threading

from service import NOW, address, signature
from test_said_and_did import W, observe, say

from accounts import influencers
from models import Post
from web.site import candor, cards, receipt_image
from web.site.receipt_image import clean, wrap

HOSTILE = "\u202e" + "🌱" * 50 + "<script>" + "W" * 3_000 + "\nمرحبا 你好 e\u0301\u0301"


def size_of(answer):
    assert answer.status_code == 200 and answer.content_type == "image/png"
    assert answer.data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", answer.data[16:24])


# ---- pictures ------------------------------------------------------------------------------------
def test_a_post_link_shows_a_picture(service, key):
    post = say(service, key)
    waiting = service.get(f"/posts/{post}.png")
    assert size_of(waiting) == (1200, 630) and waiting.headers["Cache-Control"] == "no-cache"
    observe(service)
    settled = service.get(f"/posts/{post}.png")
    assert settled.data != waiting.data and "immutable" in settled.headers["Cache-Control"]
    page = service.get(f"/posts/{post}").text
    assert f'og:image" content="http://127.0.0.1:8000/posts/{post}.png"' in page
    assert 'twitter:card" content="summary_large_image"' in page
    assert re.search(r'og:image:alt" content="\[receipt verified[^"]*−0.0146 SOL', page)
    again = service.get(f"/posts/{post}.png", headers={"If-None-Match": settled.headers["ETag"]})
    assert again.status_code == 304


def test_a_hidden_post_has_no_picture(service, key):
    post = say(service, key)
    assert service.get(f"/posts/{post}.png").status_code == 200
    Post.update(hidden_at=NOW).execute()
    assert service.get(f"/posts/{post}.png").status_code == 404
    assert "og:image" not in service.get(f"/posts/{post}").text


def test_other_sites_scripts_can_read_pictures_and_badges(service, bot, key):
    """They are the same for everybody; a frame is shown, not read."""
    post = say(service, key)
    ours = f"/bots/{bot.bot.uid}"
    for path in (f"/posts/{post}.png", f"{ours}.png", f"{ours}/badge.svg"):
        assert service.get(path).headers["Access-Control-Allow-Origin"] == "*", path
    for path in (f"/embed/{post}", f"/posts/{post}"):
        assert "Access-Control-Allow-Origin" not in service.get(path).headers, path


def test_hostile_text_breaks_no_picture(service, bot, key):
    influencers.set_profile(bot.bot, name="🌱 " + "N" * 50, bio="你好" * 100, now=1)
    post = say(service, key, HOSTILE)
    assert size_of(service.get(f"/posts/{post}.png")) == (1200, 630)
    assert size_of(service.get(f"/bots/{bot.bot.uid}.png")) == (1200, 630)
    assert service.get("/bots/bot_nobody.png").status_code == 404


def test_text_uses_glyphs_of_the_font():
    assert clean("a\u202eb\x00 🌱 é\nc") == "ab é c"
    assert clean("مرحبا بالعالم ok") == receipt_image.UNDRAWABLE
    # 100 px at size 10 are 16 letters.
    assert wrap("x" * 40, 100, 10, 2) == ["x" * 16, "x" * 15 + "…"]
    assert wrap("one two three", 100, 10, 2) == ["one two three"]


def test_a_cached_picture_is_not_drawn_again(service, key, monkeypatch):
    post = say(service, key)
    etag = service.get(f"/posts/{post}.png").headers["ETag"]
    monkeypatch.setattr(receipt_image, "draw", lambda content: b"another picture")
    again = service.get(f"/posts/{post}.png", headers={"If-None-Match": etag})
    assert (again.status_code, again.data) == (304, b"")
    observe(service)
    changed = service.get(f"/posts/{post}.png", headers={"If-None-Match": etag})
    assert (changed.status_code, changed.data) == (200, b"another picture")


def test_a_request_that_cannot_queue_is_refused(service, key, monkeypatch):
    monkeypatch.setattr(cards, "_places", threading.Semaphore(0))
    refused = service.get(f"/posts/{say(service, key)}.png")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")


# ---- the strip -----------------------------------------------------------------------------------
def test_the_strip_counts_the_last_sixty_claims(service, bot, key):
    for n in range(61):
        given = {"eventId": f"talk {n}", "body": "talk", "signature": signature(f"talk {n}")}
        service.post(given, key)
    say(service, key)
    observe(service)
    Post.update(status="none").where(Post.status == "pending").execute()
    strip = candor.find_strip(bot.bot.uid)
    # The last 60 of 62: the verified one and 59 before it.
    assert strip.sentence == "1 of 60 claims match a transaction; 59 are not verified."
    assert (strip.total, strip.matching, strip.contradicting, strip.width) == (60, 1, 0, 540)
    # Oldest first: the verified one is in the last of 60 slots of 9 units.
    drawn = {path.status: path.shapes for path in strip.paths}
    assert drawn["verified"] == f"M{59 * 9 + 1} 2h7v14h-7z"
    for path in (f"/bots/{bot.bot.uid}", "/leaderboard", f"/embed/bots/{bot.bot.uid}"):
        assert strip.sentence in service.get(path).text, path


def test_posts_without_a_transaction_are_not_claims(service, bot, key):
    service.post({"eventId": "hello", "body": "hello"}, key)
    strip = candor.find_strip(bot.bot.uid)
    assert (strip.sentence, strip.total, strip.width) == ("No claims yet.", 0, 0)


def test_repeating_a_claim_improves_no_record(service, bot, key):
    service.post({"eventId": "lie", "body": "Sold.", "signature": signature("lie")}, key)
    service.observe_trade(W, "sale", 1)
    for n in range(60):
        service.post({"eventId": f"{n}", "body": "Sold.", "signature": signature("sale")}, key)
    # They repeat the false claim under new event IDs.
    for n in range(3):
        given = {"eventId": f"lie {n}", "body": "Sold.", "signature": signature("lie")}
        service.post(given, key)
    Post.update(status="mismatch").where(Post.event_id == "lie").execute()
    strip = candor.find_strip(bot.bot.uid)
    assert strip.sentence == "1 of 2 claims match a transaction; 1 contradicts one."


def test_a_contradicted_repetition_contradicts_the_claim(service, bot, key):
    """The first post cites no token, the second one a token that wasn't traded."""
    service.observe_trade(W, "sale", 1)
    said = {"body": "Sold.", "signature": signature("sale")}
    service.post({**said, "eventId": "1"}, key)
    service.post({**said, "eventId": "2", "mint": address("another")}, key)
    strip = candor.find_strip(bot.bot.uid)
    assert (strip.total, strip.matching, strip.contradicting) == (1, 0, 1)


def test_a_claim_belongs_to_one_bot(service, bot, key):
    other = service.make_bot("Otto", address("o"))
    for one in (key, other.publish_key.text):
        service.post({"eventId": "1", "body": "Sold.", "signature": signature("sale")}, one)
    assert [candor.find_strip(one.bot.uid).total for one in (bot, other)] == [1, 1]


def test_the_sentence_names_each_status():
    statuses = ["verified", "verified", "mismatch", "pending", "none", "none", "not_found"]
    assert candor.describe_claims(statuses) == (
        "2 of 7 claims match a transaction; 1 contradicts one; 1 is waiting for the chain; 1 cites"
        " a transaction we couldn’t find; 2 are not verified."
    )
    assert candor.describe_claims([]) == "No claims yet."


def test_strips_of_a_list_take_one_query(service, monkeypatch):
    bots = [service.make_bot(name, address(name)).bot.uid for name in ("a", "b", "c")]
    asked, select = [], candor.read
    monkeypatch.setattr(candor, "read", lambda *given: asked.append(given) or select(*given))
    assert {one.total for one in candor.find_strips(bots).values()} == {0}
    assert len(asked) == 1


# ---- frames and badges ---------------------------------------------------------------------------
def test_a_bot_may_be_framed(service, bot):
    answer = service.get(f"/embed/bots/{bot.bot.uid}")
    assert "frame-ancestors *" in answer.headers["Content-Security-Policy"]
    assert "Set-Cookie" not in answer.headers and "X-Frame-Options" not in answer.headers
    assert "Ada" in answer.text and "<script" not in answer.text
    assert service.get("/embed/bots/bot_nobody").status_code == 404


def test_a_badge_shows_the_result_and_matching_claims(service, bot, key):
    service.post({"eventId": "lie", "body": "x", "signature": signature("other")}, key)
    Post.update(status="mismatch").execute()
    service.observe_results(W, 18_000_000_000, realizedSol="18")
    answer = service.get(f"/bots/{bot.bot.uid}/badge.svg")
    assert answer.content_type.startswith("image/svg+xml") and "style=" not in answer.text
    assert "+18.00 SOL · 0 of 1 claims match" in answer.text and "#b3261e" in answer.text
