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
from web.site import front, profiles

BASE = "https://candor.example/candor"
LINKS = re.compile(
    r"""(?:\s(?:href|src|action|data-place|data-samples|data-test-post)|content)="([^"]*)\""""
)
SCHEMES = ("https://candor.example", "http://localhost")


@pytest.fixture(params=sampling.sample(["stripped", "passed on"], 1))
def below(request, serve, monkeypatch):
    """The service behind either kind of proxy; `.front` is what its paths begin with."""
    for module in (front, profiles):
        monkeypatch.setattr(module, "PAGE_SIZE", 2)
    hosts = (*config.load({"BASE_URL": BASE}, dotenv=None).allowed_hosts, "localhost")
    made = serve(base_url=BASE, allowed_hosts=hosts, trusted_proxies=1)
    made.front = "/candor" if request.param == "passed on" else ""
    bot = made.make_bot("Ada", address("w"))
    made.observe_trade(address("w"), "t", 7, mint=address("mint"))
    cited = {"body": "words", "mint": address("mint"), "signature": signature("t")}
    for n in range(4):
        posts.publish(bot.bot.id, posts.PostBody(eventId=f"e-{n}", **cited), NOW + n)
    traders.create_trader("Paper", "momentum", NOW)
    return made


class Proxied(Browser):
    """A browser that uses the proxy and only knows addresses below /candor."""

    def __init__(self, service):
        self.client, self.cookie = service.app.test_client(use_cookies=False), ""
        ask, front = self.client.open, service.front

        def open_below(path="/", headers=None, **more):
            assert f"{path}/".startswith("/candor/"), f"{path} is not below /candor"
            sent = {"X-Forwarded-Proto": "https", "Cookie": self.cookie, "Referer": f"{BASE}/"}
            sent |= headers or {}
            inner = (front + path.removeprefix("/candor")) or "/"
            answer = ask(inner, base_url="https://candor.example", headers=sent, **more)
            self.cookie = answer.headers.get("Set-Cookie", self.cookie).partition(";")[0]
            return answer

        self.client.open = open_below

    def send(self, path, page="/candor/connect", headers=None, **typed):
        return super().send(path, page, headers, **typed)


@pytest.fixture
def browser(below):
    return Proxied(below)


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


def test_every_page_is_reachable_and_no_link_leaves_the_path(below, browser):
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
    reached = {one.removesuffix("/") for one in seen}
    for page in REACHED.format(bot=made).split():
        assert f"/candor{page}".removesuffix("/") in reached, page


def test_forms_redirect_below_the_path_and_the_cookie_is_limited_to_it(browser):
    cookie = browser.send("/candor/connect", name="Nell").headers["Set-Cookie"]
    assert cookie.startswith("__Secure-session=")
    assert {"Path=/candor", "Secure"} <= set(cookie.split("; "))
    page = f"/candor/bots/{Bot.get(Bot.name == 'Nell').uid}"
    saved = browser.send(f"{page}/profile", page=f"{page}/manage", name="Nell II")
    assert (saved.status_code, saved.headers["Location"]) == (302, f"{page}/manage")
    stale = browser.client.post(f"{page}/profile", data={"name": "x"})
    assert f'action="{page}/profile"' in stale.text


def test_documents_contain_addresses_below_the_path(below, browser):
    def get(path, **headers):
        return browser.client.get(f"/candor{path}", headers=headers)

    key = below.make_read_key(Bot.get().owner)
    bot = get("/api/v1/bots", Authorization=f"Bearer {key}").json["data"][0]
    assert bot["profileUrl"] == f"{BASE}/bots/{bot['id']}"
    assert get("/openapi.json").json["servers"] == [{"url": BASE}]
    assert get("/api/v1/bots").json["type"] == f"{BASE}/docs/errors#missing_key"
    feed = get("/feed.json").json
    atom = ElementTree.fromstring(get("/feed.atom").data)
    links = [link.get("href") for link in atom.iter("{http://www.w3.org/2005/Atom}link")]
    ours = [link for link in links if "candor.example" in link]
    assert ours
    for url in (feed["feed_url"], *(item["url"] for item in feed["items"]), *ours):
        assert url.startswith(f"{BASE}/")
    for guide in ("/skill.md", "/llms.txt"):
        text = get(guide).text
        assert set(re.findall(r"https://candor\.example[^/\s`)]*(/[a-z]+)", text)) == {"/candor"}
    manifest = get("/manifest.webmanifest").json
    assert (manifest["start_url"], manifest["scope"]) == ("/candor/", "/candor/")
    assert manifest["icons"][0]["src"].startswith("/candor/static/")
    assert "Disallow: /candor/api/" in get("/robots.txt").text


def test_a_strangers_prefix_header_is_ignored(browser):
    for prefix in ("/evil", "//evil.example"):
        headers = {"X-Forwarded-Prefix": prefix, "X-Script-Name": prefix}
        assert "evil" not in browser.client.get("/candor/", headers=headers).text


UNUSABLE = """
x.example/a?b x.example/a# x.example//evil.example x.example/../a u:p@x.example/a x.example/a/./b
x.example/"onload
"""


@pytest.mark.parametrize("url", [*UNUSABLE.split(), "x.example/a b"])
def test_an_unusable_path_is_refused_at_startup(url):
    with pytest.raises(config.BadSetting, match="BASE_URL"):
        config.load({"BASE_URL": f"https://{url}"}, dotenv=None)


def test_templates_and_scripts_contain_no_root_addresses():
    """`{{ root }}` precedes each; without it, an address leads out of the path."""
    rooted = r"""(?:href|src|action|data-[a-z]+)=["']/|fetch\(["'`]/|href = ["'`]/"""
    root = config.Path(__file__).resolve().parents[2]
    for path in [*(root / "templates").rglob("*.html"), *(root / "static").glob("*.js")]:
        assert not re.findall(rooted, path.read_text()), path.name
