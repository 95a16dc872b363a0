"""The pages in a real Chromium: a newcomer's steps, keyboard, no script, narrow and dark,
accessibility, and no requests to other hosts.

Skipped with a message if Debian's chromium isn't installed.
"""

import io
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import ground
import pytest
import sampling
import story
from node import FakeNode, connect
from service import NOW, Service
from werkzeug.serving import WSGIRequestHandler, make_server

import models
import storage
from accounts import admin, traders
from accounts.fields import MAX_NAME
from observer import Observer
from storage.log import append_leaf
from web.site.paper_pages import TABS
from web.site.profiles import CONTENTS

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu"]
HERE = Path(__file__).resolve().parent
AXE = (HERE.parent / "vendor" / "axe-core" / "axe.min.js").read_text()
CHECKS = (HERE / "page_checks.js").read_text()
WALLET, CAT = story.address("nell"), story.address("CAT")
HOSTILE = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1> tail"
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium: apt-get install chromium"),
]


class Quiet(WSGIRequestHandler):
    def log(self, *_):
        pass


class Site(Service):
    """The application on a loopback port, served by threads of this process."""

    def __enter__(self):
        self.server = make_server("127.0.0.1", 0, self.take, threaded=True, request_handler=Quiet)
        self.url = f"http://127.0.0.1:{self.server.port}"
        self.app.config["CANDOR"] = self.config = ground.change(self.config, base_url=self.url)
        # Seconds between checks whether it should stop, because each test waits for that.
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        return self

    def take(self, environ, start_response):
        """Werkzeug's server passes the bare socket, while gunicorn's input ends with the body."""
        environ["wsgi.input"] = io.BytesIO(
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        )
        return self.app(environ, start_response)

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
        self.close()

    def observe(self, told):
        """Observe this story until nothing changes."""
        with storage.database.connection_context():
            observer = Observer(self.config, connect(FakeNode(told.chain())))
            for turn in range(6):
                observer.run_tick(NOW + turn * 120_000)
            assert observer.problem is None


@pytest.fixture
def site(tmp_path):
    with Site(tmp_path / "data") as served:
        yield served


@pytest.fixture(scope="module")
def driver():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def chromium(driver):
    browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
    yield browser
    browser.close()


@pytest.fixture
def open_page(chromium, site):
    """Opens a page in its own context. Afterwards: no console error, no blocked source, no request
    to another host.
    """
    wrong, contexts = [], []

    def check_host(request):
        if not request.url.startswith((site.url, "data:")):
            wrong.append(request.url)

    def open_one(**options):
        context = chromium.new_context(base_url=site.url, **options)
        contexts.append(context)
        page = context.new_page()
        # Generous for a busy machine, because tests wait for conditions.
        page.set_default_timeout(60_000)
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", check_host)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert wrong == []


def press(page, role, name):
    """Click a link or button and wait for the next page."""
    with page.expect_navigation():
        page.get_by_role(role, name=name).click()


def connect_bot(page, name="Nell", wallet=""):
    """Fill in the form as a newcomer would: (publishing key, recovery code)."""
    page.goto("/connect")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Wallet").fill(wallet)
    press(page, "button", "Create bot")
    return page.locator("#publish-key").inner_text(), page.locator("#recovery-code").inner_text()


def tell_story():
    told = story.Story()
    told.fund("nell", 10**10)
    told.buy("nell", "CAT", 5_000_000, 10**9)
    return told, told.sell("nell", "CAT", 2_000_000, 6 * 10**8)


def test_a_newcomer_gets_to_a_verified_post(site, open_page):
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    key, _ = connect_bot(page, wallet=WALLET)
    page.get_by_role("button", name="Copy").first.click()
    assert page.evaluate("navigator.clipboard.readText()") == key
    page.get_by_role("button", name="Send a test post").click()
    page.get_by_role("link", name="It was posted").wait_for()
    told, sale = tell_story()
    claim = {"eventId": "1", "body": "Sold some.", "signature": sale, "mint": CAT}
    assert site.post(claim, key).status_code == 201
    page.goto("/")
    page.get_by_text("waiting for the chain").wait_for()
    site.observe(told)
    page.goto("/")
    post = page.locator("article", has_text="Sold some.")
    post.get_by_text("receipt verified").wait_for()
    post.get_by_role("button", name="Copy").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("Sold some.\n[receipt verified") and "/posts/post_" in copied
    page.get_by_role("link", name="Nell").first.click()
    page.get_by_text("transactions of this wallet since its first").wait_for()
    assert page.get_by_text("receipt verified").count() == 1
    assert page.get_by_text("not verified").count() == 1
    page.get_by_role("link", name="Trades", exact=True).first.click()
    page.locator("details.trade-sell summary").click()
    page.get_by_text("less their cost").wait_for()


def test_reloading_shows_no_key_and_creates_no_second_bot(site, open_page):
    page = open_page()
    secrets = connect_bot(page)
    page.reload()
    assert page.url.endswith("/manage")
    assert not [secret for secret in secrets if secret in page.content()]
    page.go_back()
    assert secrets[0] not in page.content() and models.Bot.select().count() == 1


def test_the_preview_updates_while_typing(open_page):
    page = open_page()
    page.goto("/connect")
    page.get_by_label("Name").fill("Nell the Calm")
    page.get_by_text("Its voice").click()
    page.get_by_label("Tone").fill("solemn")
    page.locator("#preview-name", has_text="Nell the Calm").wait_for()
    page.locator(".sample", has_text="PINE").first.wait_for()


def show_waiting_post(site, page):
    """Open a feed page with a controlled clock and a pending post; return the bot's key, and the
    story in which it is verified.
    """
    page.clock.install()
    key, _ = connect_bot(page, wallet=WALLET)
    told, sale = tell_story()
    site.post({"eventId": "1", "body": "Sold some.", "signature": sale}, key)
    page.goto("/")
    page.get_by_text("waiting for the chain").wait_for()
    return key, told


def test_news_is_announced_and_labels_update_without_scrolling(site, open_page):
    page = open_page()
    key, told = show_waiting_post(site, page)
    site.post({"eventId": "2", "body": "Something new."}, key)
    site.observe(told)
    # In one step, because an article may be replaced between two.
    top = "document.querySelector('article').getBoundingClientRect().y"
    before = page.evaluate(top)
    page.clock.run_for(16_000)
    page.get_by_role("link", name="1 new post").wait_for()
    page.get_by_text("receipt verified").wait_for()
    assert page.evaluate(top) == before and "Something new." not in page.content()
    page.get_by_role("link", name="1 new post").click()
    page.get_by_text("Something new.").wait_for()


def test_a_slow_response_does_not_undo_a_later_one(site, open_page):
    page, held = open_page(), []
    key, told = show_waiting_post(site, page)

    def hold_first(route):
        if held:
            route.continue_()
        else:
            held.append((route, route.fetch()))

    page.route(page.url, hold_first)
    with page.expect_request(page.url):
        site.post({"eventId": "2", "body": "Something new."}, key)
    page.clock.run_for(1_000)
    site.observe(told)
    page.clock.run_for(1_000)
    page.get_by_text("receipt verified").wait_for()
    (route, old) = held[0]
    assert "receipt verified" not in old.text()
    with page.expect_event("requestfinished"):
        route.fulfill(response=old)
    # Received events are processed before the next request to the page.
    page.evaluate("new Promise((done) => queueMicrotask(done))")
    page.get_by_text("receipt verified").wait_for()
    assert page.get_by_text("waiting for the chain").count() == 0


def test_everything_works_by_keyboard(open_page):
    page = open_page()
    page.goto("/connect")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    for _ in range(9):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "name":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).boxShadow") != "none"
    page.keyboard.type("Keyboard Kim")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Keyboard Kim is connected").wait_for()


def test_times_use_the_readers_zone_and_format(site, open_page):
    """Noon in UTC is 9 in the evening in Tokyo; the title keeps UTC."""
    key = site.make_bot("Nell").publish_key.text
    post = f"/posts/{site.post({'eventId': '1', 'body': 'Words.'}, key).json['id']}"
    at = datetime(2026, 11, 26, 12, tzinfo=UTC).timestamp()
    with storage.database.connection_context():
        models.Post.update(created_at=int(at) * 1000).execute()
    for locale, told in (("en-US", "Nov 26, 2026, 9:00 PM"), ("de-DE", "26. Nov. 2026, 21:00")):
        page = open_page(timezone_id="Asia/Tokyo", locale=locale)
        page.clock.set_fixed_time("2027-02-01T00:00:00Z")
        page.goto(post)
        shown = page.locator("dl time").last
        assert shown.inner_text() == told
        assert shown.get_attribute("title") == "Nov 26, 2026, 12:00:00 PM UTC"
    scriptless = open_page(java_script_enabled=False)
    scriptless.goto(post)
    assert "UTC" in scriptless.locator("time[datetime]").last.inner_text()


def test_a_post_comes_over_the_stream_within_seconds(site, open_page):
    page = open_page()
    key, _ = connect_bot(page)
    site.post({"eventId": "1", "body": "First."}, key)
    page.goto("/")
    with page.expect_response(lambda answer: answer.url.endswith("/") and answer.ok):
        site.post({"eventId": "2", "body": "Second."}, key)
    news = page.get_by_role("link", name="1 new post")
    news.wait_for()
    assert page.title().startswith("(1)")
    color, ground = news.evaluate(
        "e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]"
    )
    assert color != ground and "rgba" not in color + ground
    news.click()
    bodies = page.locator("article .body").all_inner_texts()
    assert bodies == ["Second.", "First."] and not page.title().startswith("(")


def test_a_browser_verifies_a_posts_proof_and_detects_a_changed_byte(site, open_page):
    made = site.make_bot("Nell")
    with storage.database.connection_context(), storage.writing():
        for n in range(300):
            append_leaf("test", NOW + n)
    said = {"eventId": "1", "body": 'Zoë said "sold"\n\t\u2028 <b>& 🐕', "reason": "thin"}
    page = open_page()
    page.goto(f"/posts/{site.post(said, made.publish_key.text).json['id']}")
    page.get_by_text("Check this post yourself").click()

    def check(said, *buttons):
        for name in buttons:
            page.get_by_role("button", name=name).click()
        page.get_by_text(said).wait_for()

    check("from this entry to the root of")
    told = page.locator("#proof-verdict").inner_text()
    assert "the entry contains the hash of these words. The log’s key signed that root." in told
    check("Not in the log:", "Change one byte")
    check("from this entry to the root of", "Put it back")
    # The check reads the visible text: a changed word is detected.
    words = page.locator('[data-proof="words"]')
    words.evaluate("(shown) => { shown.textContent = shown.textContent.replace('sold', 'held'); }")
    check("Not what was logged:", "Change one byte", "Put it back")


def test_pages_work_without_javascript(site, open_page):
    page = open_page(java_script_enabled=False)
    key, _ = connect_bot(page)
    site.post({"eventId": "1", "body": "Plain words."}, key)
    page.goto("/")
    page.get_by_text("Plain words.").wait_for()
    page.get_by_role("link", name="Your bots").click()
    page.get_by_role("link", name="Manage").click()
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("button", name="Yes, revoke it").click()
    page.get_by_text("Key revoked.").wait_for()
    assert site.get("/api/v1/me", key).status_code == 401


# ---- every page ----------------------------------------------------------------------------------
@pytest.fixture
def full(site):
    """An instance with some of everything, and the paths of its pages; `own` need the owner's
    browser.
    """
    told, sale = tell_story()
    # The longest names, of the widest letter, without a break opportunity.
    made = site.make_bot("W" * MAX_NAME, WALLET)
    site.observe(told)
    for event, more in (
        ("1", {"signature": sale, "symbol": "W" * 32}),
        ("2", {"signature": told.rows[0].signature}),
        ("3", {"body": HOSTILE}),
        ("4", {"body": "lengthy remarks " * 240, "reason": "Because."}),
    ):
        sent = site.post({"eventId": event, "body": "Said.", **more}, made.publish_key.text)
        assert sent.status_code == 201
    with storage.database.connection_context():
        trader = traders.create_trader("M" * MAX_NAME, "momentum", NOW).trader
        post = models.Post.select().order_by(models.Post.id).first()
    bot, paper = f"/bots/{made.bot.uid}", f"/traders/{trader.uid}"
    return [
        *("/", "/leaderboard", bot, *(f"{bot}?tab={tab}" for tab in CONTENTS if tab)),
        *(f"/posts/{post.uid}", f"/tokens/{CAT}", "/market", "/traders"),
        *(paper, *(f"{paper}?tab={tab}" for tab in TABS if tab)),
        *("/strategies", "/create", "/connect", "/status", "/log/"),
        *("/docs", "/docs/errors", "/docs/fields", "/docs/fields/health"),
    ]


def visit_all(page, paths):
    """Visit each page, then the owner's and the operator's; yield after each."""

    def open_and_press(path, name, role="button"):
        if path:
            page.goto(path)
        press(page, role, name)
        return name

    for path in paths:
        assert page.goto(path).status == 200
        yield path
    connect_bot(page, wallet=story.address("another"))
    yield "created"
    yield open_and_press(None, "Manage it", "link")
    yield open_and_press(None, "Start the proof")
    yield open_and_press("/connect", "Create read key")
    page.goto("/connect")
    yield "account"
    yield open_and_press(None, "Rotate")
    with storage.database.connection_context():
        code = admin.make_login(time.time_ns() // 1_000_000)
        owner = models.Owner.select().order_by(models.Owner.id).get().uid
        bot = models.Bot.select().order_by(models.Bot.id).get().uid
    page.goto(f"/admin/login?code={code}")
    yield "operator's link"
    yield open_and_press(None, "Sign in as the operator")
    lists = ("owners", "bots", "wallets", "keys", "hooks", "posts", "backups", "acts")
    # By default, every second list.
    for path in (*sampling.sample(lists, 4), f"owners/{owner}", f"bots/{bot}/retire"):
        assert page.goto(f"/admin/{path}").status == 200
        yield path
    page.get_by_label("Reason").fill("a complaint")
    press(page, "button", "Yes, retire it")
    page.goto("/admin/acts")
    assert page.get_by_text("a complaint").count() == 1
    yield "acts, full"


# In dark mode the markup is the same, so only colors and widths are checked again.
@pytest.mark.parametrize(
    "scheme, width, rules",
    [("light", 1100, []), ("dark", 360, ["color-contrast", "link-in-text-block", "target-size"])],
    ids=["light-1100", "dark-360"],
)
def test_every_page_fits_is_accessible_shows_focus_and_loads_little(
    site, full, open_page, scheme, width, rules
):
    page = open_page(viewport={"width": width, "height": 740}, color_scheme=scheme)
    # with the debugger, because the page's policy allows no foreign or inline scripts
    page.add_init_script(AXE)
    page.add_init_script(CHECKS)
    page.route("**/candor.js*", answer_slowly)
    # By default, every third or fourth public page.
    for name in visit_all(page, sampling.sample(full, 8 if rules else 11)):
        assert page.evaluate("shift") == 0, name
        assert 1_000 < page.evaluate("findSize()") < 100_000, name
        assert page.evaluate("[...findBroken(), ...findOblong()]") == [], name
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert page.evaluate("findWide()") == [], name
        assert page.evaluate("window.pwned === undefined"), name
        assert page.locator("h1").count() == 1, name
        # After the first key press, focus set by scripts is shown like keyboard focus.
        page.keyboard.press("Tab")
        places, ringless = page.evaluate("findRingless()")
        assert places > 5 and ringless == [], name
        assert page.evaluate("(rules) => findSerious(rules)", rules) == [], name
    page.evaluate("spoil()")
    found = {rule for rule, *_ in page.evaluate("(rules) => findSerious(rules)", rules)}
    assert found == {"color-contrast"} if rules else found >= {"image-alt", "label"}


def answer_slowly(route):
    time.sleep(0.05)
    route.continue_()


def test_doubled_text_scrolls_no_page_sideways(site, full, driver):
    size = "--blink-settings=defaultFontSize=32,defaultFixedFontSize=26"
    browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=[*ARGUMENTS, size])
    page = browser.new_page(base_url=site.url)
    page.add_init_script(CHECKS)
    for path in sampling.sample(full, 12):
        page.goto(path)
        for width in (360, 768):
            page.set_viewport_size({"width": width, "height": 740})
            assert page.evaluate("findWide()") == [], (path, width)
    browser.close()


def test_on_a_phone_the_search_is_complete_and_buttons_do_not_touch(open_page):
    page = open_page(viewport={"width": 360, "height": 740})
    page.add_init_script(CHECKS)
    page.goto("/market")
    needed, room = page.evaluate("measureSearch()")
    # This kind of box reserves about ten for its clear button.
    assert needed + 10 <= room
    connect_bot(page)
    page.goto("/connect")
    gaps = page.evaluate("findGaps()")
    assert len(gaps) >= 7 and min(gaps) >= 8
