"""An instance below a path (BASE_URL=https://host/candor): every link, redirect, form and address
stays below it.
"""

import html
import re
import xml.etree.ElementTree as ElementTree
from urllib.parse import urljoin, urlsplit

import pytest
import sampling
from service import NOW, address, signature
from test_studio import Browser

import config
from accounts import posts, traders
from models import Bot

BASE = "https://candor.example/candor"
LINKS = re.compile(
    r"""(?:\s(?:href|src|action|data-place|data-samples|data-test-post)|content)="([^"]*)\""""
)
SCHEMES = ("https://candor.example", "http://localhost")


@pytest.fixture(params=sampling.sample(["stripped", "passed on"], 1))
def below(request, serve):
    """The service behind either kind of proxy; `.front` is what its paths begin with."""
    hosts = (*config.load({"BASE_URL": BASE}, dotenv=None).allowed_hosts, "localhost")
    made = serve(base_url=BASE, allowed_hosts=hosts, trusted_proxies=1)
    made.front = "/candor" if request.param == "passed on" else ""
    bot = made.make_bot("Ada", address("w"))
    made.observe_trade(address("w"), "t", 7, mint=address("mint"))
    cited = {"body": "words", "mint": address("mint"), "signature": signature("t")}
    for n in range(25):
        posts.publish(bot.bot.id, posts.PostBody(eventId=f"e-{n}", **cited), NOW + n)
    traders.create_trader("Paper", "momentum", NOW)
    return made


class Proxied(Browser):
    """A browser that uses the proxy and only knows addresses below /candor."""

    def __init__(self, service):
        self.client, self.cookie = service.app.test_client(use_cookies=False), ""
        asked, front = self.client.open, service.front

        def open_below(path="/", **more):
            assert path.startswith("/candor/") or path == "/candor", f"{path} is not below /candor"
            inner = front + path.removeprefix("/candor")
            headers = {
                "X-Forwarded-Proto": "https",
                "Cookie": self.cookie,
                "Referer": "https://candor.example/candor/",
                **(more.pop("headers", None) or {}),
            }
            answer = asked(inner or "/", base_url="https://candor.example", headers=headers, **more)
            self.cookie = answer.headers.get("Set-Cookie", self.cookie).partition(";")[0]
            return answer

        self.client.open = open_below

    def send(self, path, page="/candor/connect", headers=None, **typed):
        return super().send(path, page, headers, **typed)


def list_links(page, at):
    """Absolute addresses of a page's links, without other hosts."""
    found = {
        urljoin(f"https://candor.example{at}", html.unescape(link))
        for link in LINKS.findall(page)
        if "/" in link
    }
    return {link for link in found if link.startswith(SCHEMES)}


REACHED = """
/ /leaderboard /market /traders /traders/new /strategies /status /docs /docs/errors /connect
/bots/{bot} /feed.atom /feed.json /openapi.json /api/health
"""


def test_every_page_is_reachable_and_no_link_leaves_the_path(below):
    browser = Proxied(below)
    page = browser.send("/candor/connect", name="Nell", wallet=address("nell"))
    made = re.search(r"/bots/(bot_\w+)", page.text)[1]
    post = below.get("/feed.json").json["items"][0]["_candor"]["post"]
    queue, seen = ["/candor/", f"/candor/bots/{made}/manage", f"/candor/embed/{post}"], set()
    while queue:
        at = queue.pop()
        if at in seen:
            continue
        seen.add(at)
        assert len(seen) < 400
        page = browser.client.get(at)
        # forms for routes that accept only POST
        assert page.status_code in (200, 204, 302, 304, 405), f"{at}: {page.status_code}"
        if page.status_code == 302:
            assert urlsplit(page.headers["Location"]).path.startswith("/candor"), at
        if page.mimetype != "text/html":
            page.close()
            continue
        for link in list_links(page.text, at):
            parts = urlsplit(link)
            assert f"{parts.path}/".startswith("/candor/"), f"{at} leads to {link}"
            # The board's choices multiply to hundreds of pages, each linked from the first one.
            if not at.startswith("/candor/leaderboard?") or parts.path != "/candor/leaderboard":
                queue.append(parts.path + (f"?{parts.query}" if parts.query else ""))
    for page in REACHED.format(bot=made).split():
        assert f"/candor{page}".removesuffix("/") in {one.removesuffix("/") for one in seen}, page


def test_forms_redirect_below_the_path_and_the_cookie_is_limited_to_it(below):
    browser = Proxied(below)
    page = browser.send("/candor/connect", name="Nell")
    cookie = page.headers["Set-Cookie"]
    assert cookie.startswith("__Secure-session=")
    assert {"Path=/candor", "Secure"} <= set(cookie.split("; "))
    bot = Bot.get(Bot.name == "Nell").uid
    manage = f"/candor/bots/{bot}/manage"
    saved = browser.send(f"/candor/bots/{bot}/profile", page=manage, name="Nell II")
    assert (saved.status_code, saved.headers["Location"]) == (302, manage)
    stale = browser.client.post(f"/candor/bots/{bot}/profile", data={"name": "x"})
    assert f'action="/candor/bots/{bot}/profile"' in stale.text


def test_documents_contain_addresses_below_the_path(below):
    browser = Proxied(below)
    key = below.make_read_key(Bot.get().owner)
    asked = {"Authorization": f"Bearer {key}"}
    bot = browser.client.get("/candor/api/v1/bots", headers=asked).json["data"][0]
    assert bot["profileUrl"] == f"{BASE}/bots/{bot['id']}"
    assert browser.client.get("/candor/openapi.json").json["servers"] == [{"url": BASE}]
    refused = browser.client.get("/candor/api/v1/bots").json
    assert refused["type"] == f"{BASE}/docs/errors#missing_key"
    feed = browser.client.get("/candor/feed.json").json
    for url in (feed["feed_url"], *(item["url"] for item in feed["items"])):
        assert url.startswith(f"{BASE}/")
    atom = ElementTree.fromstring(browser.client.get("/candor/feed.atom").data)
    links = [link.get("href") for link in atom.iter("{http://www.w3.org/2005/Atom}link")]
    ours = [link for link in links if "candor.example" in link]
    assert ours and all(link.startswith(f"{BASE}/") for link in ours)
    for guide in ("/candor/skill.md", "/candor/llms.txt"):
        text = browser.client.get(guide).text
        assert set(re.findall(r"https://candor\.example[^/\s`)]*(/[a-z]+)", text)) == {"/candor"}


def test_a_strangers_prefix_header_is_ignored(below):
    browser = Proxied(below)
    for prefix in ("/evil", "//evil.example"):
        headers = {"X-Forwarded-Prefix": prefix, "X-Script-Name": prefix}
        assert "evil" not in browser.client.get("/candor/", headers=headers).text


@pytest.mark.parametrize(
    "url",
    [
        "https://x.example/a b",
        "https://x.example/a?b",
        "https://x.example/a#",
        "https://x.example//evil.example",
        "https://x.example/../a",
        "https://u:p@x.example/a",
        "https://x.example/a/./b",
        'https://x.example/"onload',
    ],
)
def test_an_unusable_path_is_refused_at_startup(url):
    with pytest.raises(config.BadSetting, match="BASE_URL"):
        config.load({"BASE_URL": url}, dotenv=None)


def test_templates_and_scripts_contain_no_root_addresses():
    """`{{ root }}` precedes each; without it, an address leads out of the path."""
    root = config.Path(__file__).resolve().parents[2]
    for path in [*(root / "templates").glob("*.html"), root / "static" / "candor.js"]:
        assert not re.findall(
            r"""(?:href|src|action|data-[a-z]+)=["']/|fetch\(["'`]/|href = ["'`]/""",
            path.read_text(),
        ), path.name
