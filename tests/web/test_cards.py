"""On other sites: a link's preview card, and the page that may be framed."""

from html.parser import HTMLParser

import pytest
from service import address, signature

from accounts import influencers
from models import Bot
from web.site import cards
from web.site.words import short

W, SITE = address("w"), "http://127.0.0.1:8000"
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


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
    """post(body, **more) -> the post's ID"""
    return lambda body, **more: service.post(
        {"eventId": str(len(body)), "body": body, **more}, key
    ).json["id"]


def meta_of(service, path):
    return Page(service.get(path).text).meta


def test_a_post_link_shows_its_label_first(service, post):
    service.observe_trade(W, "buy", 10)
    uid = post("bought\nthe dip", signature=signature("buy"))
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
        "twitter:card": "summary_large_image",
    }
    assert wanted.items() <= meta_of(service, f"/posts/{uid}").items()


def test_a_hostile_link_is_escaped_and_its_query_ignored(service, post):
    uid = post(HOSTILE)
    page = service.get(f"/posts/{uid}?utm=1").text
    meta = Page(page).meta
    assert meta["og:title"] == f"[not verified] Ada: {HOSTILE}" and HOSTILE not in page
    assert meta["og:url"].endswith(uid)


def test_a_card_is_short(service, key, post):
    card = cards.card_of_post(service.get(f"/api/v1/posts/{post('x' * 4000)}", key).json)
    assert card.title == "[not verified] Ada: " + "x" * 79 + "…"
    assert card.description.endswith("x…") and len(card.description) < 400


def test_a_bot_link_shows_what_was_observed(service, bot, key):
    path = f"/bots/{bot.bot.uid}"
    wanted = {
        "og:title": "Ada on Candor",
        "og:type": "profile",
        "og:url": SITE + path,
        "og:description": "Performance not verified: its wallet has not been observed yet.",
    }
    assert wanted.items() <= meta_of(service, path).items()
    service.observe_results(W, 1_250_000_000, realizedSol="1.25")
    influencers.set_profile(bot.bot, bio="I am the best, trust me.", now=1)
    assert cards.card_of_bot(service.get(f"/api/v1{path}", key).json).description == (
        "+1.250 SOL realized, from 3 sales; complete history. I am the best, trust me."
    )
    mute = meta_of(service, f"/bots/{service.make_bot('Mute').bot.uid}")
    assert mute["og:description"] == "Performance not verified: no wallet is connected."


def test_only_embedded_posts_may_be_framed(service, post):
    uid = post(HOSTILE)
    service.client.set_cookie("session", "somebody's")
    headers = service.get(f"/embed/{uid}").headers
    parts = (part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    policy = dict(parts)
    wanted = {"frame-ancestors": "*", "default-src": "'none'", "form-action": "'none'"}
    assert wanted.items() <= policy.items() and "script-src" not in policy
    assert "X-Frame-Options" not in headers and "Set-Cookie" not in headers
    assert "Cookie" not in headers.get("Vary", "")
    for path in (f"/posts/{uid}", "/", "/embed/post_nobody", "/feed.json"):
        other = service.get(path).headers
        assert "frame-ancestors 'none'" in other["Content-Security-Policy"], path
        assert other["X-Frame-Options"] == "DENY", path


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


def test_an_embedded_post_supports_conditional_requests(service, post):
    path = f"/embed/{post('b')}"
    again = service.get(path, headers={"If-None-Match": service.get(path).headers["ETag"]})
    assert again.status_code == 304 and "X-Frame-Options" not in again.headers
    assert "frame-ancestors *" in again.headers["Content-Security-Policy"]
