"""oEmbed: how sites that are given the address of a page here show it."""

import re
from html import unescape
from urllib.parse import urlencode

import pytest
from service import Service, address

BASE = "http://127.0.0.1:8000"


@pytest.fixture
def bot(service):
    return service.make_bot("Nell", address("w"))


@pytest.fixture
def post(service, bot):
    given = {"eventId": "e", "body": 'a "quoted" <b> word'}
    return service.post(given, bot.publish_key.text).json["id"]


def ask(service, url, **more):
    return service.get("/oembed?" + urlencode({"url": url, **more}))


def test_a_page_leads_to_its_frame(service, bot, post):
    """As a site does it: the page, the link in its head, the frame it names."""
    for path, frame in (
        (f"/posts/{post}", f"/embed/{post}"),
        (f"/bots/{bot.bot.uid}?tab=trades", f"/embed/bots/{bot.bot.uid}"),
    ):
        page = service.get(path).text
        [link] = re.findall(r'<link rel="alternate" type="application/json\+oembed"[^>]*>', page)
        found = unescape(re.search(r'href="([^"]+)"', link)[1])
        answer = service.get(found.removeprefix(BASE))
        told = answer.json
        assert answer.content_type == "application/json"
        assert (told["version"], told["type"], told["provider_name"]) == ("1.0", "rich", "Candor")
        assert (told["width"], told["height"]) == (560, 260)
        assert told["author_name"] == "Nell" and told["author_url"].endswith(bot.bot.uid)
        source = unescape(re.search(r'src="([^"]+)"', told["html"])[1])
        assert source == BASE + frame
        assert "frame-ancestors *" in service.get(frame).headers["Content-Security-Policy"]


def test_words_stay_inside_the_attribute(service, post):
    told = ask(service, f"{BASE}/posts/{post}").json
    assert told["title"] == '[not verified] Nell: a "quoted" <b> word'
    assert "<b>" not in told["html"] and told["html"].count('"') == 12
    assert unescape(re.search(r'title="([^"]*)"', told["html"])[1]) == told["title"]


def test_a_frame_fits_the_room(service, post):
    def size(**room):
        told = ask(service, f"{BASE}/posts/{post}", **room).json
        assert f'width="{told["width"]}" height="{told["height"]}"' in told["html"]
        return told["width"], told["height"]

    assert size(maxwidth=400) == (400, 260)
    assert size(maxwidth=10_000, maxheight=200) == (560, 200)
    # What is smaller than this cannot be read.
    assert size(maxwidth=1, maxheight=0) == (220, 120)


@pytest.mark.parametrize(
    "url",
    [
        *("", "/posts/{}", "https://evil.example/posts/{}", BASE + ".evil.example/posts/{}"),
        *(BASE + path for path in ("/docs", "/posts/post_none", "/posts/{}/x", "/bots/{}")),
    ],
)
def test_other_addresses_have_no_frame(service, post, url):
    answer = ask(service, url.format(post))
    assert (answer.status_code, answer.json["code"]) == (404, "not_found")


def test_what_is_asked_wrongly_is_refused(service, post):
    url = f"{BASE}/posts/{post}"
    assert ask(service, url, format="json").status_code == 200
    for given, field in (({"format": "xml"}, "format"), ({"maxwidth": "wide"}, "maxwidth")):
        answer = ask(service, url, **given)
        assert answer.status_code == 400 and answer.json["detail"].startswith(field)


def test_below_a_path_of_a_site(tmp_path):
    service = Service(tmp_path / "data", base_url="https://x.example/candor")
    with service.database.connection_context():
        made = service.make_bot("Nell")
    page = f"https://x.example/candor/bots/{made.bot.uid}"
    told = service.client.get("/candor/oembed?" + urlencode({"url": page}))
    assert told.status_code == 200, told.text
    assert f'src="https://x.example/candor/embed/bots/{made.bot.uid}"' in told.json["html"]
    service.close()
