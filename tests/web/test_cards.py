"""On other sites: a link's preview card, and the page that may be framed."""

from html.parser import HTMLParser

from service import address, signature

from accounts import influencers
from models import Bot
from web.site import cards
from web.site.words import short

W = address("w")
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


class Page(HTMLParser):
    """Meta tags by name, and every element there is."""

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


def post(service, bot, body, **more):
    return service.post(
        {"eventId": str(len(body)), "body": body, **more}, bot.publish_key.text
    ).json["id"]


def test_a_post_link_shows_its_label_first(service, bot):
    service.observe_trade(W, "buy", 10)
    verified, plain = (
        post(service, bot, "bought\nthe dip", signature=signature("buy")),
        post(service, bot, HOSTILE),
    )
    meta = Page(service.get(f"/posts/{verified}").text).meta
    assert (
        meta["og:title"] == "[receipt verified · wallet claimed, not proven] Ada: bought the dip"
        and meta["og:type"] == "article"
        and meta["og:site_name"] == "Candor"
    )
    assert (
        meta["og:url"] == f"http://127.0.0.1:8000/posts/{verified}"
        and meta["twitter:card"] == "summary_large_image"
    )
    assert (
        meta["og:description"]
        == f"Receipt verified · wallet claimed, not proven. Bought 1 {short(address('mint'))}"
        # 1,000 raw units with 3 decimals, 5,000 lamports, an hour before NOW
        " for 0.000005 SOL · Nov 5, 2026, 11:00 AM UTC, before connecting. bought the dip"
    )
    hostile = service.get(f"/posts/{plain}?utm=1")
    assert Page(hostile.text).meta["og:title"] == f"[not verified] Ada: {HOSTILE}" and Page(
        hostile.text
    ).meta["og:url"].endswith(plain)
    assert HOSTILE not in hostile.text


def test_a_card_is_short(service, bot):
    card = cards.card_of_post(
        service.get(f"/api/v1/posts/{post(service, bot, 'x' * 4000)}", bot.publish_key.text).json
    )
    assert (
        card.title == "[not verified] Ada: " + "x" * 79 + "…"
        and card.description.endswith("x…")
        and len(card.description) < 400
    )


def test_a_bot_link_shows_what_was_observed(service, bot):
    meta = Page(service.get(f"/bots/{bot.bot.uid}").text).meta
    assert (
        meta["og:title"] == "Ada on Candor"
        and meta["og:type"] == "profile"
        and meta["og:url"] == f"http://127.0.0.1:8000/bots/{bot.bot.uid}"
    )
    assert (
        meta["og:description"] == "Performance not verified: its wallet has not been observed yet."
    )
    service.observe_results(W, 1_250_000_000, realizedSol="1.25")
    influencers.set_profile(bot.bot, bio="I am the best, trust me.", now=1)
    card = cards.card_of_bot(service.get(f"/api/v1/bots/{bot.bot.uid}", bot.publish_key.text).json)
    assert (
        card.description == "+1.250 SOL realized, from 3 sales; complete history. I am the"
        " best, trust me."
    )
    mute = service.make_bot("Mute")
    assert (
        Page(service.get(f"/bots/{mute.bot.uid}").text).meta["og:description"]
        == "Performance not verified: no wallet is connected."
    )


def test_only_embedded_posts_may_be_framed(service, bot):
    uid = post(service, bot, HOSTILE)
    service.client.set_cookie("session", "somebody's")
    answer = service.get(f"/embed/{uid}")
    policy = dict(
        part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";")
    )
    assert (
        policy["frame-ancestors"] == "*"
        and policy["default-src"] == "'none'"
        and "script-src" not in policy
        and policy["form-action"] == "'none'"
    )
    assert (
        "X-Frame-Options" not in answer.headers
        and "Set-Cookie" not in answer.headers
        and "Cookie" not in answer.headers.get("Vary", "")
    )
    for path in (f"/posts/{uid}", "/", "/embed/post_nobody", "/feed.json"):
        other = service.get(path)
        assert (
            "frame-ancestors 'none'" in other.headers["Content-Security-Policy"]
            and other.headers["X-Frame-Options"] == "DENY"
        )


def test_an_embedded_post_shows_its_label(service, bot):
    Bot.update(name="Ada \u202e<b>").execute()
    uid = post(service, bot, HOSTILE)
    page = Page(service.get(f"/embed/{uid}").text)
    assert {tag for tag, _ in page.elements} <= {
        "html",
        "head",
        "meta",
        "title",
        "link",
        "main",
        "body",
        "article",
        "header",
        "h1",
        "bdi",
        "time",
        "span",
        "div",
        *("svg", "symbol", "path", "circle", "use"),
        "p",
        "footer",
        "a",
    }
    assert HOSTILE in page.text and "not verified" in page.text and "Ada <b>" in page.text
    assert [given for tag, given in page.elements if tag == "a"] == [
        {"href": f"http://127.0.0.1:8000/posts/{uid}", "target": "_blank", "rel": "noopener"}
    ]
    assert not [
        given
        for _, given in page.elements
        if any(name.startswith("on") or name == "style" for name in given)
    ]


def test_an_embedded_post_supports_conditional_requests(service, bot):
    path = f"/embed/{post(service, bot, 'b')}"
    again = service.get(path, headers={"If-None-Match": service.get(path).headers["ETag"]})
    assert (
        again.status_code == 304
        and "frame-ancestors *" in again.headers["Content-Security-Policy"]
        and "X-Frame-Options" not in again.headers
    )
