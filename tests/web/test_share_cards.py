"""Posts and bots on other sites: previews, pictures, the strip of claims, frames and badges."""

import itertools
import re
import struct
import threading
from html.parser import HTMLParser

import pytest
from service import NOW, address, signature
from test_said_and_did import observe, say

from accounts import influencers
from models import Bot, Post
from web.site import candor, cards, receipt_image
from web.site.receipt_image import clean, wrap
from web.site.words import short

W, SITE = address("w"), "http://127.0.0.1:8000"
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
UNDRAWABLE = "\u202e" + "🌱" * 50 + "<script>" + "W" * 3_000 + "\nمرحبا 你好 e\u0301\u0301"


class Page(HTMLParser):
    """Meta tags by name, and all elements."""

    def __init__(self, html):
        super().__init__()
        self.meta, self.elements, self.text = {}, [], ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.elements.append((tag, given))
        if tag == "meta" and (given.get("property") or given.get("name")):
            self.meta[given.get("property") or given["name"]] = given["content"]

    def handle_data(self, text):
        self.text += text


@pytest.fixture
def post(service, key):
    """post(body, trade, **more) -> the ID of a new post, which cites this trade"""
    events = itertools.count()

    def send(body="Sold.", trade=None, **more):
        cited = {"signature": signature(trade)} if trade else {}
        said = {"eventId": str(next(events)), "body": body, **cited, **more}
        return service.post(said, key).json["id"]

    return send


@pytest.fixture
def path(bot):
    return f"/bots/{bot.bot.uid}"


# ---- link previews -------------------------------------------------------------------------------
def test_a_post_link_shows_its_label_first(service, post):
    service.observe_trade(W, "buy", 10)
    uid = post("bought\nthe dip", "buy")
    label = "eceipt verified · wallet claimed, not proven"
    # 1,000 raw units with 3 decimals, 5,000 lamports, an hour before NOW
    trade = (
        f"Bought 1 {short(address('mint'))} for 0.000005 SOL · Nov 5, 2026, 11:00 AM UTC, before"
        " connecting."
    )
    wanted = {
        "og:title": f"[r{label}] Ada: bought the dip",
        "og:type": "article",
        "og:site_name": "Candor",
        "og:url": f"{SITE}/posts/{uid}",
        "og:description": f"R{label}. {trade} bought the dip",
        "og:image": f"{SITE}/posts/{uid}.png",
        "twitter:card": "summary_large_image",
    }
    assert wanted.items() <= Page(service.get(f"/posts/{uid}").text).meta.items()


def test_a_preview_is_short_and_escaped_and_a_query_is_ignored(service, key, post):
    uid = post(HOSTILE)
    page = service.get(f"/posts/{uid}?utm=1").text
    meta = Page(page).meta
    assert meta["og:title"] == f"[not verified] Ada: {HOSTILE}" and HOSTILE not in page
    assert meta["og:url"].endswith(uid)
    card = cards.card_of_post(service.get(f"/api/v1/posts/{post('x' * 4000)}", key).json)
    assert card.title == "[not verified] Ada: " + "x" * 79 + "…"
    assert card.description.endswith("x…") and len(card.description) < 400


def test_a_bot_link_shows_what_was_observed(service, bot, path):
    def find(path):
        return Page(service.get(path).text).meta

    wanted = {"og:title": "Ada on Candor", "og:type": "profile", "og:url": SITE + path}
    said = "Performance not verified: its wallet has not been observed yet."
    assert {**wanted, "og:description": said}.items() <= find(path).items()
    service.observe_results(W, 1_250_000_000, realizedSol="1.25", volumeSol="2")
    influencers.set_profile(bot.bot, bio="I am the best, trust me.", now=1)
    assert find(path)["og:description"] == (
        "+1.250 SOL realized, from 3 sales; complete history. I am the best, trust me."
    )
    mute = find(f"/bots/{service.make_bot('Mute').bot.uid}")
    assert mute["og:description"] == "Performance not verified: no wallet is connected."


# ---- pictures ------------------------------------------------------------------------------------
def size_of(answer):
    assert answer.status_code == 200 and answer.content_type == "image/png"
    assert answer.data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", answer.data[16:24])


def test_a_picture_is_drawn_again_when_its_post_changes(service, key, monkeypatch):
    post = say(service, key)
    waiting = service.get(f"/posts/{post}.png")
    assert size_of(waiting) == (1200, 630) and waiting.headers["Cache-Control"] == "no-cache"
    known = {"If-None-Match": waiting.headers["ETag"]}
    with monkeypatch.context() as patch:
        patch.setattr(receipt_image, "draw", lambda content: b"another picture")
        again = service.get(f"/posts/{post}.png", headers=known)
        assert (again.status_code, again.data) == (304, b"")
    observe(service)
    settled = service.get(f"/posts/{post}.png", headers=known)
    assert size_of(settled) == (1200, 630) and settled.data != waiting.data
    assert "immutable" in settled.headers["Cache-Control"]
    page = service.get(f"/posts/{post}").text
    assert re.search(r'og:image:alt" content="\[receipt verified[^"]*−0.0146 SOL', page)
    # A hidden post has none.
    Post.update(hidden_at=NOW).execute()
    assert service.get(f"/posts/{post}.png").status_code == 404
    assert "og:image" not in service.get(f"/posts/{post}").text


def test_hostile_text_breaks_no_picture(service, bot, key, path):
    influencers.set_profile(bot.bot, name="🌱 " + "N" * 50, bio="你好" * 100, now=1)
    post = say(service, key, UNDRAWABLE)
    assert size_of(service.get(f"/posts/{post}.png")) == (1200, 630)
    assert size_of(service.get(f"{path}.png")) == (1200, 630)
    assert service.get("/bots/bot_nobody.png").status_code == 404


def test_text_uses_glyphs_of_the_font():
    assert clean("a\u202eb\x00 🌱 é\nc") == "ab é c"
    assert clean("مرحبا بالعالم ok") == receipt_image.UNDRAWABLE
    # 100 px at size 10 are 16 letters.
    assert wrap("x" * 40, 100, 10, 2) == ["x" * 16, "x" * 15 + "…"]
    assert wrap("one two three", 100, 10, 2) == ["one two three"]


def test_a_request_that_cannot_queue_is_refused(service, key, monkeypatch):
    monkeypatch.setattr(cards, "_places", threading.Semaphore(0))
    refused = service.get(f"/posts/{say(service, key)}.png")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")


# ---- the strip -----------------------------------------------------------------------------------
@pytest.fixture
def strip(bot):
    """strip() -> the bot's strip"""
    return lambda: candor.find_strip(bot.bot.uid)


def test_the_strip_counts_the_last_sixty_claims(service, key, post, path, strip):
    for n in range(61):
        post(trade=f"talk {n}")
    say(service, key)
    observe(service)
    Post.update(status="none").where(Post.status == "pending").execute()
    shown = strip()
    # The last 60 of 62: the verified one and 59 before it.
    assert shown.sentence == "1 of 60 claims match a transaction; 59 are not verified."
    assert (shown.total, shown.matching, shown.contradicting, shown.width) == (60, 1, 0, 540)
    # Oldest first: the verified one is in the last of 60 slots of 9 units.
    assert shown.paths["verified"] == f"M{59 * 9 + 1} 2h7v14h-7z"
    for page in (path, "/leaderboard", f"/embed{path}"):
        assert shown.sentence in service.get(page).text, page


def test_only_a_bots_own_posts_about_a_transaction_are_claims(service, post, strip):
    post("hello")
    shown = strip()
    assert (shown.sentence, shown.total, shown.width) == ("No claims yet.", 0, 0)
    post(trade="sale")
    other = service.make_bot("Otto", address("o"))
    said = {"eventId": "1", "body": "Sold.", "signature": signature("sale")}
    service.post(said, other.publish_key.text)
    Post.update(status="mismatch").where(Post.bot == other.bot).execute()
    strips = strip(), candor.find_strip(other.bot.uid)
    assert [(one.total, one.contradicting) for one in strips] == [(1, 0), (1, 1)]


def test_repeating_a_claim_improves_no_record(service, post, strip):
    lie = post(trade="lie")
    service.observe_trade(W, "sale", 1)
    # Both are repeated under new event IDs.
    for trade in ("sale",) * 5 + ("lie",) * 3:
        post(trade=trade)
    Post.update(status="mismatch").where(Post.uid == lie).execute()
    assert strip().sentence == "1 of 2 claims match a transaction; 1 contradicts one."
    # A repetition that cites a token that wasn't traded contradicts the claim.
    post(trade="sale", mint=address("another"))
    assert strip().sentence == "0 of 2 claims match a transaction; 2 contradict one."


def test_the_sentence_names_each_status():
    statuses = ["verified", "verified", "mismatch", "pending", "none", "none", "not_found"]
    assert candor.describe_claims(statuses) == (
        "2 of 7 claims match a transaction; 1 contradicts one; 1 is waiting for the chain; 1 cites"
        " a transaction we couldn’t find; 2 are not verified."
    )


# ---- frames and badges ---------------------------------------------------------------------------
def test_only_embedded_posts_and_bots_may_be_framed(service, post, path):
    uid = post(HOSTILE)
    service.client.set_cookie("session", "somebody's")
    for framed in (f"/embed/{uid}", f"/embed{path}"):
        answer = service.get(framed)
        assert re.search(r"<main>.*<article.*</article>\s*</main>", answer.text, re.S)
        known = {"If-None-Match": answer.headers["ETag"]}
        again = service.get(framed, headers=known)
        assert again.status_code == 304
        for headers in (answer.headers, again.headers):
            parts = headers["Content-Security-Policy"].split("; ")
            policy = dict(part.split(" ", 1) for part in parts)
            wanted = {"frame-ancestors": "*", "default-src": "'none'", "form-action": "'none'"}
            assert wanted.items() <= policy.items() and "script-src" not in policy
            assert "X-Frame-Options" not in headers and "Set-Cookie" not in headers
            assert "Cookie" not in headers.get("Vary", "")
    for other in (f"/posts/{uid}", "/", "/embed/post_nobody", "/embed/bots/bot_no", "/feed.json"):
        headers = service.get(other).headers
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"], other
        assert headers["X-Frame-Options"] == "DENY", other


HARMLESS = """
html head meta title link main body article header h1 bdi time span div svg symbol path circle use
p footer a
""".split()


def test_an_embedded_post_shows_its_label(service, post):
    Bot.update(name="Ada \u202e<b>").execute()
    uid = post(HOSTILE)
    page = Page(service.get(f"/embed/{uid}").text)
    assert {tag for tag, _ in page.elements} <= set(HARMLESS)
    for said in (HOSTILE, "not verified", "Ada <b>"):
        assert said in page.text
    links = [given for tag, given in page.elements if tag == "a"]
    assert links == [{"href": f"{SITE}/posts/{uid}", "target": "_blank", "rel": "noopener"}]
    names = {name for _, given in page.elements for name in given}
    assert not [name for name in names if name.startswith("on") or name == "style"]


def test_a_badge_and_a_frame_show_the_result_and_matching_claims(service, post, path):
    post(trade="other")
    Post.update(status="mismatch").execute()
    service.observe_results(W, 18_000_000_000, realizedSol="18", volumeSol="20")
    answer = service.get(f"{path}/badge.svg")
    assert answer.content_type.startswith("image/svg+xml") and "style=" not in answer.text
    assert "+18.00 SOL · 0 of 1 claims match" in answer.text and "#b3261e" in answer.text
    embedded = " ".join(Page(service.get(f"/embed{path}").text).text.split())
    assert "Ada" in embedded
    assert "Realized PnL, all known history, from 3 sales +18.00 SOL" in embedded


def test_other_sites_scripts_can_read_pictures_and_badges(service, key, path):
    """They are the same for everybody; a frame is shown, not read."""
    post = say(service, key)
    for public in (f"/posts/{post}.png", f"{path}.png", f"{path}/badge.svg"):
        assert service.get(public).headers["Access-Control-Allow-Origin"] == "*", public
    for other in (f"/embed/{post}", f"/posts/{post}"):
        assert "Access-Control-Allow-Origin" not in service.get(other).headers, other
