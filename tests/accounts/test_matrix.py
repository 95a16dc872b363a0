"""Permissions: every route, requested by every kind of caller. Add new routes to the table."""

import itertools
import time

import pytest
from service import NOW, address, make_season, write_terms
from test_gate import V1
from test_legacy import closed
from test_studio import Browser

import models
from accounts import api_keys, conduct, hooks, traders
from accounts.tables import AdminAct, Ban, Hook, Report, SeasonEntry
from models import Attachment, Bot, Key, Owner, Post, Session
from paper.account import public_id
from paper.tables import Backtest, Period, Trader

EVERYBODY = {"nobody": 200, "another creator": 200, "a key": 200, "its creator": 200}
ITS_CREATOR = {"nobody": 403, "another creator": 403, "a key": 403, "its creator": 200}
# Key IDs are private.
ITS_KEY = {**ITS_CREATOR, "another creator": 404}
A_CREATOR = {"nobody": 403, "another creator": 200, "a key": 403, "its creator": 200}
NOT_EVEN_ITS_CREATOR = dict.fromkeys(EVERYBODY, 403)
OPERATORS_FORMS = (
    *("/admin/posts/{post}/hide", "/admin/bots/{bot}/retire", "/admin/keys/{key}/revoke"),
    *("/admin/hooks/{hook}/switch", "/admin/hooks/{hook}/test"),
    *("/admin/reports/{report}/dismiss", "/admin/owners/{owner}/ban"),
    *("/admin/wallets/{wallet}/ban", "/admin/registrations/{source}/ban"),
    *("/admin/seasons", "/admin/seasons/{season}", "/admin/seasons/{season}/cancel"),
)
DONE = {"its creator": 302}
# path -> expected status of each caller's GET.
READ = {
    **dict.fromkeys(
        (
            *("/", "/leaderboard", "/market", "/traders", "/traders/new", "/strategies", "/status"),
            *("/about", "/create", "/connect", "/connect/preview", "/claim", "/search", "/stream"),
            *("/docs", "/docs/errors", "/docs/fields", "/docs/fields/{group}"),
            *("/docs/requests/{request}", "/seasons", "/seasons/{season}"),
            *("/posts/{post}", "/posts/{post}/report", "/embed/{post}", "/embed/bots/{bot}"),
            *("/bots/{bot}", "/bots/{bot}/follow", "/bots/{bot}/badge.svg"),
            *("/bots/{bot}/trades.csv", "/bots/{bot}/lots.csv", "/tokens/{mint}"),
            *("/evidence.json", "/bots/{bot}/evidence.json", "/log/", "/log/witness"),
            *("/log/checkpoint", "/log/key", "/log/tile/{level}/{tile}", "/log/{log}/checkpoint"),
            *("/log/{log}/key", "/log/{log}/tile/{level}/{tile}"),
            *("/traders/{trader}", "/traders/{trader}/closes/{close}"),
            *("/feed.json", "/feed.atom", "/bots/{bot}/feed.json", "/bots/{bot}/feed.atom"),
            *("/openapi.json", "/llms.txt", "/skill.md", "/robots.txt", "/favicon.ico"),
            *("/manifest.webmanifest", "/static/{file}", "/api/health", "/api/feed"),
            *("/api/market", "/api/strategies", "/api/traders", "/api/traders/{trader}"),
            *(f"/api/traders/{{trader}}/{name}" for name in ("closes", "diary", "posts")),
        ),
        EVERYBODY,
    ),
    **dict.fromkeys(
        ["/bots/{bot}/manage", "/bots/{bot}/retire", "/bots/{bot}/wallet/detach"], ITS_CREATOR
    ),
    "/bots/{bot}/proof": {**ITS_CREATOR, **DONE},
    "/backtests": EVERYBODY,
    "/account/delete": A_CREATOR,
    "/following": A_CREATOR,
    "/backtests/{backtest}": ITS_KEY,
    **dict.fromkeys(["/backtests/{backtest}.json", "/backtests/{backtest}.csv"], ITS_KEY),
    # Operator pages: tests/web/test_admin_pages.py.
    "/admin/login": EVERYBODY,
    **dict.fromkeys(
        [
            "/admin",
            "/admin/find",
            *(f"/admin/{name}" for name in ("owners", "bots", "wallets", "keys", "hooks")),
            *(f"/admin/{name}" for name in ("posts", "acts", "backups", "owners/{owner}")),
            *(f"/admin/{name}" for name in ("paper-posts", "reports", "registrations", "bans")),
            *OPERATORS_FORMS,
        ],
        NOT_EVEN_ITS_CREATOR,
    ),
    **dict.fromkeys(["/keys/{key}/revoke", "/keys/{key}/rotate", "/hooks/{hook}/remove"], ITS_KEY),
}
# path -> (form, expected status of each caller's POST with a page's token).
WRITE = {
    # Nothing is recorded.
    "/backtests": (
        {"family": "momentum"},
        {**A_CREATOR, "another creator": 422, "its creator": 422},
    ),
    "/connect": ({"name": "New"}, EVERYBODY),
    "/connect/keys": ({"label": "l"}, A_CREATOR),
    "/recovery-code": ({"present": "x"}, {**A_CREATOR, "another creator": 422, "its creator": 422}),
    "/claim": ({"code": "x"}, dict.fromkeys(EVERYBODY, 422)),
    "/bots/{bot}/follow": ({"url": "https://x.example/in", "event": "trade"}, A_CREATOR),
    "/bots/{bot}/unfollow": (
        {"hook": "hook_x"},
        {**A_CREATOR, "another creator": 404, "its creator": 404},
    ),
    "/recover": ({"code": "x"}, dict.fromkeys(EVERYBODY, 422)),
    "/traders/new": (
        {"name": "Wren", "family": "flow", "start": "guarded"},
        {**EVERYBODY, "another creator": 302, "its creator": 302},
    ),
    # The first report is accepted; the address may send four more in this minute.
    "/posts/{post}/report": ({"about": "spam"}, dict.fromkeys(EVERYBODY, 302)),
    "/logout": ({}, dict.fromkeys(EVERYBODY, 302)),
    "/account/export": ({}, A_CREATOR),
    "/account/delete": ({}, {**A_CREATOR, "another creator": 422, "its creator": 422}),
    "/keys/{key}/revoke": ({}, {**ITS_KEY, **DONE}),
    "/keys/{key}/rotate": ({}, ITS_KEY),
    "/hooks/{hook}/test": ({}, {**ITS_KEY, **DONE}),
    "/hooks/{hook}/remove": ({}, {**ITS_KEY, **DONE}),
    "/admin/login": ({"code": "x"}, dict.fromkeys(EVERYBODY, 422)),
    **{
        path: ({"reason": "r"}, NOT_EVEN_ITS_CREATOR)
        for path in (*OPERATORS_FORMS, "/admin/backups", "/admin/logout")
    },
    # Two hours from now, because the suite may run for an hour.
    **{
        path: (
            {"reason": "r", **write_terms(time.time_ns() // 10**6 + 7_200_000)},
            NOT_EVEN_ITS_CREATOR,
        )
        for path in ("/admin/seasons", "/admin/seasons/{season}")
    },
    **{
        f"/bots/{{bot}}/{form}": (typed, {**ITS_CREATOR, "its creator": status})
        for form, typed, status in (
            ("profile", {"name": "Eve"}, 302),
            ("auto-post", {"on": "yes"}, 302),
            ("posts", {"draft": "d", "body": "b"}, 302),
            ("wallet", {"wallet": address("new")}, 302),
            ("wallet/detach", {}, 302),
            ("challenge", {"prove": address("new")}, 302),
            ("proof", {"signature": "x"}, 302),
            ("keys", {"label": "l"}, 200),
            ("hooks", {"url": "https://x.example/in", "event": "post"}, 200),
            ("seasons", {"season": "{season}"}, 302),
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
    """An owner with a browser, a bot, and everything that belongs to them."""

    def __init__(self, service, name):
        self.name, self.browser = name, Browser(service)
        _, self.bot, self.publish, self.code = self.browser.create(name, wallet=address(name))
        stored = Bot.get(Bot.uid == self.bot)
        self.owner, self.key = stored.owner, Key.get(Key.bot == stored).uid
        url = f"https://{name.lower()}.example/in"
        self.hook = hooks.add_hook(service.config, self.owner, url, NOW).uid
        # Only a ping differs after it was requested.
        Hook.update(ping=False).execute()
        result = '{"kind": "replay", "equity": [], "closes": [], "candidates": []}'
        run = {"asked": "{}", "state": "failed", "result": result, "created_at": NOW}
        self.backtest = Backtest.create(uid=f"backtest_{name}", owner=self.owner, **run).uid
        self.post = service.post({"eventId": "e", "body": f"by {name}"}, self.publish).json["id"]


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
    ids = {name: getattr(mine, name) for name in ("bot", "post", "key", "hook", "backtest")}
    report = Report.get().uid
    return {**make_common(service), **ids, "owner": mine.owner.uid, "report": report}, callers


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


# Forms that nobody here may send: they share a scene, because they change nothing.
REFUSED = [path for path, (_, statuses) in WRITE.items() if min(statuses.values()) >= 400]


@pytest.mark.parametrize("paths", [REFUSED, *([path] for path in WRITE if path not in REFUSED)])
def test_every_route_allows_the_listed_writers_only(place, paths):
    """The owner's request comes last: refused requests must not have changed anything."""
    ids, callers = place
    for path, (caller, browser) in itertools.product(paths, callers.items()):
        typed, statuses = WRITE[path]
        token, before = browser.token(), snapshot()
        # A name can be used once.
        own = {"name": f"{typed['name']} of {caller}"} if "name" in typed else {}
        given = {name: text.format(**ids) for name, text in {**typed, **own}.items()}
        answer = browser.client.post(path.format(**ids), data={"csrf_token": token, **given})
        status, where = answer.status_code, (path, caller)
        assert (status, answer.headers["Cache-Control"]) == (statuses[caller], "no-store"), where
        assert (snapshot() == before) == (status >= 400 or where in NOTHING_TO_DO), where
        answer.close()


def test_forms_from_other_sites_are_refused(place):
    """Even the owner's own browser can't be tricked into submitting one."""
    ids, callers = place
    token, before = callers["its creator"].token(), snapshot()
    for path, (typed, _) in WRITE.items():
        for given, headers, status in (
            ("", {}, 400),
            ("made up", {}, 400),
            (token, {"Origin": "https://evil.example"}, 403),
            (token, {"Sec-Fetch-Site": "cross-site"}, 403),
            (token, {"Host": "evil.example"}, 421),
        ):
            answer = callers["its creator"].client.post(
                path.format(**ids), data={"csrf_token": given, **typed}, headers=headers
            )
            assert answer.status_code == status, path
    assert snapshot() == before


def test_a_form_token_works_only_in_its_browser(place):
    ids, callers = place
    before = snapshot()
    answer = callers["its creator"].client.post(
        f"/bots/{ids['bot']}/retire", data={"csrf_token": callers["another creator"].token()}
    )
    assert answer.status_code == 400 and snapshot() == before


def test_the_table_lists_every_route(service, place):
    _ids, _ = place
    known = {
        "GET": {
            *READ,
            *(f"/api/v1/{path.partition('?')[0]}" for method, path in V1 if method == "GET"),
        },
        # The inbox authenticates by its address: see test_inbox.py. Agents: test_mcp_http.py and
        # test_registration.py.
        "POST": {
            *WRITE,
            *("/api/v1/posts", "/api/v1/inbox/discord/{key}", "/mcp"),
            *("/api/v1/bots", "/api/v1/bots/challenge", "/api/v1/seasons/{season}/join"),
        },
    }
    for rule in service.app.url_map.iter_rules():
        for method in rule.methods - {"HEAD", "OPTIONS"}:
            assert any(matches(rule.rule, path) for path in known[method]), (
                f"{method} {rule.rule} is not in the table"
            )


def matches(rule, path):
    ours, theirs = rule.split("/"), path.split("/")
    return len(ours) == len(theirs) and all(
        one == other or (one.startswith("<") and other.startswith("{"))
        for one, other in zip(ours, theirs, strict=False)
    )


def test_other_methods_have_no_effect(place):
    ids, callers = place
    before = snapshot()
    for path in {*READ, *WRITE} - {"/static/{file}"}:
        for method in ("PUT", "DELETE", "OPTIONS", "X"):
            answer = callers["its creator"].client.open(path.format(**ids), method=method)
            assert answer.status_code == 405 and set(answer.headers["Allow"].split(", ")) <= {
                "GET",
                "HEAD",
                "POST",
            }, path
    assert snapshot() == before


def test_revoked_sessions_and_retired_keys_end_everywhere_at_once(service, place):
    """Other processes notice at their next request, because no process caches keys or sessions."""
    ids, callers = place
    api_keys.revoke_key(ids["key"], NOW)
    assert callers["a key"].get("/api/v1/me").status_code == 401
    models.Session.delete().execute()
    assert callers["its creator"].get(f"/bots/{ids['bot']}/manage").status_code == 403
