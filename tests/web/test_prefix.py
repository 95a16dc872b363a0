"""An instance below a path (BASE_URL=https://host/candor): every link, redirect, form and address
stays below it.
"""

import html
import re
import xml.etree.ElementTree as ElementTree
from urllib.parse import urljoin, urlsplit

import pytest
from service import NOW, Service, address, signature
from test_studio import Browser

import config
from accounts import posts, traders
from models import Bot

BASE = "https://candor.example/candor"
LINKS = re.compile(
    r"""(?:\s(?:href|src|action|data-place|data-samples|data-test-post)|content)="([^"]*)\""""
)
SCHEMES = ("https://candor.example", "http://localhost")


@pytest.fixture(params=["passed on", "stripped"])
def below(request, tmp_path):
    """The service behind a proxy of either kind; `.to` is how it asks for a path."""
    settings = config.load({"BASE_URL": BASE}, dotenv=None)
    made = Service(
        tmp_path / "data",
        base_url=BASE,
        allowed_hosts=(*settings.allowed_hosts, "localhost"),
        trusted_proxies=1,
    )
    made.front = "/candor" if request.param == "passed on" else ""
    wallet = address("w")
    bot = made.make_bot("Ada", wallet)
    made.observe_trade(wallet, "t", 7, mint=address("mint"))
    for n in range(25):
        body = posts.PostBody(
            eventId=f"e-{n}", body="words", mint=address("mint"), signature=signature("t")
        )
        posts.publish(bot.bot.id, body, NOW + n)
    traders.create_trader("Paper", "momentum", NOW)
    yield made
    made.close()


class Proxied(Browser):
    """A browser that speaks to the proxy: it knows addresses below /candor only."""

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
    """Addresses a page names, made absolute; those of other hosts left out."""
    found = {
        urljoin(f"https://candor.example{at}", html.unescape(link))
        for link in LINKS.findall(page)
        if "/" in link
    }
    return {link for link in found if link.startswith(SCHEMES)}


def test_every_page_is_reachable_and_no_link_leaves_the_path(below):
    browser = Proxied(below)
    browser.create_page = browser.send("/candor/connect", name="Nell", wallet=address("nell"))
    assert browser.create_page.status_code == 200
    made = re.search(r"bot_\w+", browser.create_page.text)[0]
    queue, seen = (
        [
            "/candor/",
            f"/candor/bots/{made}/manage",
            f"/candor/embed/{below.get('/feed.json').json['items'][0]['_candor']['post']}",
        ],
        set(),
    )
    while queue:
        at = queue.pop()
        if at in seen:
            continue
        seen.add(at)
        assert len(seen) < 400
        page = browser.client.get(at)
        # forms stand where only POST is taken
        assert page.status_code in (200, 204, 302, 304, 405), f"{at}: {page.status_code}"
        if page.status_code == 302:
            assert urlsplit(page.headers["Location"]).path.startswith("/candor"), at
        if page.mimetype != "text/html":
            page.close()
            continue
        for link in list_links(page.text, at):
            parts = urlsplit(link)
            assert parts.path == "/candor" or parts.path.startswith("/candor/"), (
                f"{at} leads to {link}"
            )
            # The board's choices multiply to hundreds of pages; each is linked from the first one.
            if not at.startswith("/candor/leaderboard?") or parts.path != "/candor/leaderboard":
                queue.append(parts.path + (f"?{parts.query}" if parts.query else ""))
    for page in (
        "",
        "/leaderboard",
        "/market",
        "/traders",
        "/strategies",
        "/status",
        "/docs",
        "/docs/errors",
        "/connect",
        f"/bots/{made}",
        "/feed.atom",
        "/feed.json",
        "/openapi.json",
        "/api/health",
        "/traders/new",
    ):
        assert f"/candor{page}" in {one.removesuffix("/") for one in seen}, page


def test_forms_redirect_below_the_path_and_the_cookie_is_limited_to_it(below):
    browser = Proxied(below)
    page = browser.send("/candor/connect", name="Nell")
    cookie = page.headers["Set-Cookie"]
    assert (
        cookie.startswith("__Secure-session=") and "Path=/candor" in cookie and "Secure" in cookie
    )
    bot = Bot.get(Bot.name == "Nell").uid
    saved = browser.send(
        f"/candor/bots/{bot}/profile", page=f"/candor/bots/{bot}/manage", name="Nell II"
    )
    assert (saved.status_code, saved.headers["Location"]) == (302, f"/candor/bots/{bot}/manage")
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
    assert feed["feed_url"].startswith(f"{BASE}/") and all(
        item["url"].startswith(f"{BASE}/") for item in feed["items"]
    )
    atom = ElementTree.fromstring(browser.client.get("/candor/feed.atom").data)
    links = [link.get("href") for link in atom.iter("{http://www.w3.org/2005/Atom}link")]
    assert links and all(
        link.startswith(f"{BASE}/") or "candor.example" not in link for link in links
    )
    for guide in ("/candor/skill.md", "/candor/llms.txt"):
        text = browser.client.get(guide).text
        assert set(re.findall(r"https://candor\.example[^/\s`)]*(/[a-z]+)", text)) == {"/candor"}


def test_a_strangers_prefix_header_is_ignored(below):
    browser = Proxied(below)
    for prefix in ("/evil", "//evil.example"):
        assert (
            "evil"
            not in browser.client.get(
                "/candor/", headers={"X-Forwarded-Prefix": prefix, "X-Script-Name": prefix}
            ).text
        )


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
    """`{{ root }}` stands before each: what is forgotten here leads out of the path."""
    root = config.Path(__file__).resolve().parents[2]
    for path in [*(root / "templates").glob("*.html"), root / "static" / "candor.js"]:
        assert not re.findall(
            r"""(?:href|src|action|data-[a-z]+)=["']/|fetch\(["'`]/|href = ["'`]/""",
            path.read_text(),
        ), path.name
