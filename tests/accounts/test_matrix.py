"""Permissions: every route, requested by every kind of caller. Add new routes to the table. And
privacy: no response contains another reader's data.
"""

import itertools
import re
import time

import pytest
import sampling
from service import NOW, address, make_season, write_terms
from test_gate import V1
from test_legacy import closed
from test_studio import Browser

from accounts import api_keys, conduct, hooks, traders
from accounts.tables import AdminAct, Ban, Hook, Report, SeasonEntry
from models import Attachment, Bot, Key, Owner, Post, Session
from paper.account import public_id
from paper.tables import Backtest, Period, Trader

EVERYBODY = {"nobody": 200, "another creator": 200, "a key": 200, "its creator": 200}
NOBODY = dict.fromkeys(EVERYBODY, 403)
ITS_CREATOR = {**NOBODY, "its creator": 200}
# Key IDs are private.
ITS_KEY = {**ITS_CREATOR, "another creator": 404}
A_CREATOR = {**ITS_CREATOR, "another creator": 200}
DONE = {"its creator": 302}


def change(statuses, status):
    """The same, with this status for creators who are allowed to."""
    return {
        who: status if old == 200 and "creator" in who else old for who, old in statuses.items()
    }


OPERATORS_FORMS = """
/admin/posts/{post}/hide /admin/bots/{bot}/retire /admin/keys/{key}/revoke
/admin/hooks/{hook}/switch /admin/hooks/{hook}/test /admin/reports/{report}/dismiss
/admin/owners/{owner}/ban /admin/wallets/{wallet}/ban /admin/registrations/{source}/ban
/admin/seasons /admin/seasons/{season} /admin/seasons/{season}/cancel
""".split()
# Tests of the operator's pages: tests/web/test_admin_pages.py.
OPERATORS_PAGES = """
/admin /admin/find /admin/owners /admin/bots /admin/wallets /admin/keys /admin/hooks /admin/posts
/admin/acts /admin/backups /admin/owners/{owner} /admin/paper-posts /admin/reports
/admin/registrations /admin/bans
""".split()
PUBLIC = """
/ /leaderboard /market /traders /traders/new /strategies /status /about /create /connect
/connect/preview /claim /search /stream /docs /docs/errors /docs/fields /docs/fields/{group}
/docs/requests/{request} /seasons /seasons/{season} /posts/{post} /posts/{post}/report
/embed/{post} /embed/bots/{bot} /bots/{bot} /bots/{bot}/follow /bots/{bot}/badge.svg
/bots/{bot}/trades.csv /bots/{bot}/lots.csv /tokens/{mint} /evidence.json /bots/{bot}/evidence.json
/log/ /log/witness /log/checkpoint /log/key /log/tile/{level}/{tile} /log/{log}/checkpoint
/log/{log}/key /log/{log}/tile/{level}/{tile} /traders/{trader} /traders/{trader}/closes/{close}
/feed.json /feed.atom /bots/{bot}/feed.json /bots/{bot}/feed.atom /openapi.json /llms.txt /skill.md
/robots.txt /favicon.ico /manifest.webmanifest /static/{file} /api/health /api/feed /api/market
/api/strategies /api/traders /api/traders/{trader} /api/traders/{trader}/closes
/api/traders/{trader}/diary /api/traders/{trader}/posts /backtests /admin/login
""".split()
OWN_BACKTEST = "/backtests/{backtest} /backtests/{backtest}.json /backtests/{backtest}.csv".split()
OWN_KEY = "/keys/{key}/revoke /keys/{key}/rotate /hooks/{hook}/remove".split()
# path -> expected status of each caller's GET.
READ = {
    **dict.fromkeys(PUBLIC, EVERYBODY),
    **dict.fromkeys("/account/delete /following".split(), A_CREATOR),
    **dict.fromkeys(
        "/bots/{bot}/manage /bots/{bot}/retire /bots/{bot}/wallet/detach".split(), ITS_CREATOR
    ),
    "/bots/{bot}/proof": {**ITS_CREATOR, **DONE},
    **dict.fromkeys([*OWN_BACKTEST, *OWN_KEY], ITS_KEY),
    **dict.fromkeys([*OPERATORS_PAGES, *OPERATORS_FORMS], NOBODY),
}
URL = {"url": "https://x.example/in"}
# Two hours from now, because the suite may run for an hour.
TERMS = write_terms(time.time_ns() // 10**6 + 7_200_000)
# path -> (form, expected status of each caller's POST with a page's token).
WRITE = {
    # Nothing is recorded.
    "/backtests": ({"family": "momentum"}, change(A_CREATOR, 422)),
    "/connect": ({"name": "New"}, EVERYBODY),
    "/connect/keys": ({"label": "l"}, A_CREATOR),
    "/recovery-code": ({"present": "x"}, change(A_CREATOR, 422)),
    "/claim": ({"code": "x"}, dict.fromkeys(EVERYBODY, 422)),
    "/bots/{bot}/follow": ({**URL, "event": "trade"}, A_CREATOR),
    "/bots/{bot}/unfollow": ({"hook": "hook_x"}, change(A_CREATOR, 404)),
    "/recover": ({"code": "x"}, dict.fromkeys(EVERYBODY, 422)),
    "/traders/new": (
        {"name": "Wren", "family": "flow", "start": "guarded"},
        change(EVERYBODY, 302),
    ),
    # The first report is accepted; the address may send four more in this minute.
    "/posts/{post}/report": ({"about": "spam"}, dict.fromkeys(EVERYBODY, 302)),
    "/logout": ({}, dict.fromkeys(EVERYBODY, 302)),
    "/account/export": ({}, A_CREATOR),
    "/account/delete": ({}, change(A_CREATOR, 422)),
    "/keys/{key}/revoke": ({}, {**ITS_KEY, **DONE}),
    "/keys/{key}/rotate": ({}, ITS_KEY),
    "/hooks/{hook}/test": ({}, {**ITS_KEY, **DONE}),
    "/hooks/{hook}/remove": ({}, {**ITS_KEY, **DONE}),
    "/admin/login": ({"code": "x"}, dict.fromkeys(EVERYBODY, 422)),
    **{
        path: ({"reason": "r", **TERMS}, NOBODY)
        for path in (*OPERATORS_FORMS, "/admin/backups", "/admin/logout")
    },
    **{
        f"/bots/{{bot}}/{form}": (typed, change(ITS_CREATOR, status))
        for form, typed, status in (
            ("profile", {"name": "Eve"}, 302),
            ("auto-post", {"on": "yes"}, 302),
            ("posts", {"draft": "d", "body": "b"}, 302),
            ("wallet", {"wallet": address("new")}, 302),
            ("proof", {"signature": "x"}, 302),
            ("challenge", {"prove": address("new")}, 302),
            ("keys", {"label": "l"}, 200),
            ("hooks", {**URL, "event": "post"}, 200),
            ("seasons", {"season": "{season}"}, 302),
            ("wallet/detach", {}, 302),
            ("retire", {}, 302),
        )
    },
}
# Without a session there is no challenge; an archive is read-only.
NOTHING_TO_DO = {
    ("/logout", "nobody"),
    ("/logout", "a key"),
    ("/bots/{bot}/proof", "its creator"),
    ("/account/export", "another creator"),
    ("/account/export", "its creator"),
}


class Estate:
    """An owner with a browser, a bot, and everything that belongs to them. `shown`: texts on this
    owner's pages and in responses to this owner's keys.
    """

    def __init__(self, service, name):
        self.name, self.browser = name, Browser(service)
        _, self.bot, self.publish, self.code = self.browser.create(name, wallet=address(name))
        stored = Bot.get(Bot.uid == self.bot)
        self.owner = stored.owner
        read = api_keys.create_key(self.owner, "read", NOW, name=f"reading for {name}")
        self.read, self.key = read.text, read.key.uid
        url = f"https://{name.lower()}.example/in"
        self.hook = hooks.add_hook(service.config, self.owner, url, NOW).uid
        # Only a ping differs after it was requested.
        Hook.update(ping=False).execute()
        result = '{"kind": "replay", "equity": [], "closes": [], "candidates": []}'
        run = {"asked": "{}", "state": "failed", "result": result, "created_at": NOW}
        self.backtest = Backtest.create(uid=f"backtest_{name}", owner=self.owner, **run).uid
        self.post = service.post({"eventId": "e", "body": f"by {name}"}, self.publish).json["id"]
        self.secrets = self.publish, self.read, self.code
        ids = (self.owner.uid, self.key, self.hook, self.backtest)
        named = (f"reading for {name}", f"{name.lower()}.example", f"/bots/{self.bot}/manage")
        self.shown = (*ids, *named)

    def list_ids(self):
        """{name in the table: id}"""
        names = ("bot", "post", "key", "hook", "backtest")
        return {"owner": self.owner.uid, **{name: getattr(self, name) for name in names}}


def make_common(service):
    """{name in the table: id} of what belongs to nobody here."""
    trader = traders.create_trader("Penny", "momentum", NOW).trader
    closed(trader, 1, 5)
    Period.update(next_position=2).execute()
    return {
        "trader": trader.uid,
        "close": public_id(trader.handle, "close", 1),
        "mint": address("mint"),
        "wallet": address("banned"),
        "source": "0" * 12,
        "request": "listBots",
        "log": service.get("/log/checkpoint").text.split("\n")[0].rsplit("/", 1)[1],
        "level": "0",
        "tile": "000.p/1",
        "file": "candor.css",
        "group": "posts",
        "season": make_season().uid,
        "report": "report_1",
    }


@pytest.fixture
def place(service):
    """A bot with everything that belongs to it: {name in the table: id}, and the callers."""
    mine, other, keyed = Estate(service, "Nell"), Browser(service), Browser(service)
    other.create("Otto")
    conduct.report_post(mine.post, "spam", "", NOW)
    keyed.client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {mine.publish}"
    callers = {
        "nobody": Browser(service),
        "another creator": other,
        "a key": keyed,
        "its creator": mine.browser,
    }
    return {**make_common(service), **mine.list_ids(), "report": Report.get().uid}, callers


SNAPSHOT = (
    *(Owner, Bot, Key, Hook, Post, Attachment, Trader, Session, AdminAct, Report, Ban, SeasonEntry),
)


def snapshot():
    return [
        list(model.select().order_by(model._meta.sorted_fields[0]).dicts()) for model in SNAPSHOT
    ]


def test_every_route_allows_the_listed_readers_only(place):
    ids, callers = place
    before = snapshot()
    for path, statuses in READ.items():
        found = {}
        for caller, browser in callers.items():
            # Closed before the next request, because an address has few CSV slots.
            with browser.get(path.format(**ids)) as answer:
                found[caller] = answer.status_code
        assert found == statuses, path
    assert snapshot() == before


# These change who the callers are, or end what others need. The rest shares a scene.
ALONE = """
/connect /traders/new /logout /keys/{key}/revoke /keys/{key}/rotate /hooks/{hook}/remove
/bots/{bot}/retire
""".split()
TOGETHER = [path for path in WRITE if path not in ALONE]


@pytest.mark.parametrize("paths", [TOGETHER, *([path] for path in ALONE)], ids=["most", *ALONE])
def test_every_route_allows_the_listed_writers_only(place, paths):
    """The owner's request comes last: refused requests must not have changed anything."""
    ids, callers = place
    tokens = {caller: browser.token() for caller, browser in callers.items()}
    after = snapshot()
    for path, (caller, browser) in itertools.product(paths, callers.items()):
        (typed, statuses), before = WRITE[path], after
        # A name can be used once.
        own = {"name": f"{typed['name']} of {caller}"} if "name" in typed else {}
        given = {name: text.format(**ids) for name, text in {**typed, **own}.items()}
        data = {"csrf_token": tokens[caller], **given}
        with browser.client.post(path.format(**ids), data=data) as answer:
            status, where = answer.status_code, (path, caller)
            assert status == statuses[caller], where
            assert answer.headers["Cache-Control"] == "no-store", where
        after = snapshot()
        assert (after == before) == (status >= 400 or where in NOTHING_TO_DO), where


def test_forms_from_other_sites_are_refused(place):
    """Even the owner's own browser can't be tricked into submitting one."""
    ids, callers = place
    token, foreign = (callers[one].token() for one in ("its creator", "another creator"))
    before = snapshot()
    for path, (typed, _) in WRITE.items():
        for given, headers, status in (
            ("", {}, 400),
            ("made up", {}, 400),
            (foreign, {}, 400),
            (token, {"Origin": "https://evil.example"}, 403),
            (token, {"Sec-Fetch-Site": "cross-site"}, 403),
            (token, {"Host": "evil.example"}, 421),
        ):
            answer = callers["its creator"].client.post(
                path.format(**ids), data={"csrf_token": given, **typed}, headers=headers
            )
            assert answer.status_code == status, path
    assert snapshot() == before


def test_the_table_lists_every_route(service):
    # The inbox authenticates by its address: see test_inbox.py. Agents: test_mcp.py and
    # test_registration.py.
    others = """
    /api/v1/posts /api/v1/inbox/discord/{key} /mcp /api/v1/bots /api/v1/bots/challenge
    /api/v1/seasons/{season}/join
    """.split()
    api = [f"/api/v1/{path.partition('?')[0]}" for method, path in V1 if method == "GET"]
    known = {
        "GET": {*map(name_shape, (*READ, *api))},
        "POST": {*map(name_shape, (*WRITE, *others))},
    }
    unlisted = [
        (method, rule.rule)
        for rule in service.app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
        if name_shape(rule.rule) not in known[method]
    ]
    assert unlisted == []


def name_shape(path):
    """The path with `{}` for each variable part."""
    return re.sub("[<{][^/]*", "{}", path)


def test_other_methods_have_no_effect(place):
    ids, callers = place
    before = snapshot()
    for path in {*READ, *WRITE} - {"/static/{file}"}:
        for method in ("PUT", "DELETE", "OPTIONS", "X"):
            answer = callers["its creator"].client.open(path.format(**ids), method=method)
            allowed = {*answer.headers["Allow"].split(", ")}
            assert answer.status_code == 405 and allowed <= {"GET", "HEAD", "POST"}, path
    assert snapshot() == before


# ---- privacy -------------------------------------------------------------------------------------
ALBA, BRUNO = "Alba", "Bruno"
CSRF = re.compile(r'name="csrf_token" value="([^"]+)"')
STREAMS = ("/stream", "/api/v1/stream")
# In full runs, each one is answered between answers to others, twice.
TURNS = (ALBA, None, BRUNO, f"{ALBA}'s key", f"{BRUNO}'s key", BRUNO, None, ALBA)
TURNS = TURNS if sampling.FULL else TURNS[:5]


@pytest.fixture
def places(service, standing_clock):
    return {name: Estate(service, name) for name in (ALBA, BRUNO)}


@pytest.fixture
def readers(service, places):
    """{name: a function that requests a path}; None: without a session."""
    keys = {
        f"{name}'s key": (lambda path, key=place.read: service.get(path, key))
        for name, place in places.items()
    }
    browsers = {name: place.browser.get for name, place in places.items()}
    return {**browsers, **keys, None: Browser(service).get}


def list_paths(service, places):
    """Every GET route, with each owner's IDs."""
    common = make_common(service)
    tabs = [f"/bots/{{bot}}?tab={tab}" for tab in ("trades", "record")]
    for path in (*READ, *tabs, *(f"/api/v1/{path}" for method, path in V1 if method == "GET")):
        yield from (path.format(**common, **place.list_ids()) for place in places.values())


def test_no_response_contains_another_readers_data(service, places, readers):
    """Every GET route, requested in turn by two owners, a program with each owner's key, and a
    reader without a session. Nothing is written between requests, so a cache that ignores the
    reader would return another reader's page.
    """
    answers, tokens = {reader: [] for reader in readers}, {reader: set() for reader in readers}
    for path in dict.fromkeys(list_paths(service, places)):
        for reader in TURNS:
            answer = readers[reader](path)
            text = str(answer.headers) + ("" if path in STREAMS else answer.data.decode("latin-1"))
            answer.close()
            answers[reader].append(text)
            tokens[reader] |= set(CSRF.findall(text))
            for name, place in places.items():
                if reader is None or not reader.startswith(name):
                    # A response may repeat the requested ID.
                    found = [one for one in place.shown if one in text and one not in path]
                    assert not found, (path, reader, found)
                assert not [one for one in place.secrets if one in text], (path, reader)
    for one, other in ((ALBA, BRUNO), (ALBA, None), (BRUNO, None)):
        assert not tokens[one] & tokens[other]
    # The owner does see the texts searched for above.
    for name, place in places.items():
        mine = "".join(answers[name] + answers[f"{name}'s key"])
        assert [one for one in place.shown if one not in mine] == []
        assert tokens[name]
