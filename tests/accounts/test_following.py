"""Webhooks on the site: an owner's own, and those that follow other owners' bots, which receive
public facts and nothing private.
"""

import json
import re

import orjson
import pytest
from service import NOW, address, hide_post, refused, signature
from test_hooks import add, delivering, private, receivers, say, until
from test_studio import Browser, errors_of

import storage
from accounts import acts, departures, hooks, influencers, posts
from accounts.tables import Hook
from chain.stored.derived import NOT_POLLED
from models import Bot, Wallet
from storage import store_arrival

__all__ = ["delivering", "private", "receivers"]
ALL = hooks.EVENTS
URL = "https://example.org/in"


@pytest.fixture
def ada(private):
    """The bot to follow, with a wallet."""
    return private.make_bot("Ada", address("ada"))


@pytest.fixture
def bea(private):
    """Who follows."""
    return private.make_bot("Bea")


def told(one):
    """[(type, data)] that the receiver got, without pings."""
    got = [json.loads(body) for _, body in one.got]
    return [(event["type"], event["data"]) for event in got if event["type"] != "ping"]


def publish(made, event, name=None, body="words"):
    given = {"eventId": event, "body": body, **({"signature": signature(name)} if name else {})}
    parsed, _ = posts.parse_post(given)
    return posts.publish(made.bot.id, parsed, NOW, key_id=made.publish_key.key.id)


def trade(service, name, **more):
    at = {"slot": more.pop("slot", 1), "block_time": NOW // 1000 + 1}
    return service.observe_trade(address("ada"), name, **at, **more)


def cover(state):
    with storage.writing():
        row = Wallet.get(Wallet.address == address("ada"))
        gaps = [{"fromSlot": 1, "toSlot": 2, "reason": "x"}] if state == "partial" else []
        coverage = {**orjson.loads(row.coverage or "{}"), "state": state, "gaps": gaps}
        row.coverage = orjson.dumps({**NOT_POLLED, **coverage}).decode()
        row.save()
        store_arrival("coverage", wallet=row)


# ---- what is sent --------------------------------------------------------------------------------
def test_a_follower_gets_only_verified_trades_labels_and_gaps(
    private, delivering, receivers, ada, bea
):
    (receiver,) = receivers()
    add(private, bea, receiver.url, events=ALL, bots=[ada.bot.uid])
    publish(ada, "hello")
    publish(ada, "waits", "unseen")
    trade(private, "bought", explained=100)
    trade(private, "gift", kind="transfer_in", slot=2)
    trade(private, "unclear", slot=3, flags='["value_unexplained"]')
    trade(private, "failed", kind="failed", slot=4)
    hide_post(publish(ada, "hidden", "bought").uid, NOW)
    publish(ada, "sure", "bought")
    publish(ada, "wrong", "gift")
    for state in ("backfilling", "partial", "complete"):
        cover(state)
    delivering()
    until(lambda: len(told(receiver)) >= 6)
    publish(ada, "late")
    publish(ada, "last", "bought")
    until(lambda: len(told(receiver)) >= 7)
    got = told(receiver)
    first = [(kind, data.get("eventId") or data.get("id")) for kind, data in got[:3]]
    labels = ("verification", "sure"), ("verification", "wrong")
    assert first == [("trade", "trade_bought"), *labels]
    assert {data["botId"] for _, data in got} == {ada.bot.uid}
    # Coverage is sent with its value at sending time.
    states = [data["coverage"]["state"] for kind, data in got if kind == "coverage"]
    assert states == ["complete"] * 3
    assert got[-1][1]["eventId"] == "last"
    sent = b"".join(body for _, body in receiver.got).decode()
    assert ada.publish_key.key.uid not in sent and ada.owner.uid not in sent


NOON, LATER = "2026-11-05T12:00:00Z", "2026-11-05T12:09:00Z"
# The kinds of events that are shared with a post whose label is this, without the bot's key.
LABELED = {
    "none": (),
    "pending": (),
    "not_found": (),
    "verified": ("post", "verification"),
    "mismatch": ("post", "verification"),
    # The label changed after the post, which is a separate event.
    "verified later": ("verification",),
    "verified and hidden": (),
}


@pytest.mark.parametrize("label", LABELED)
def test_followers_get_final_labels_of_visible_posts_once(label):
    status, later, hidden = label.split()[0], "later" in label, "hidden" in label
    shown = {"createdAt": NOON, "hiddenAt": LATER if hidden else None}
    shown["verification"] = {"status": status, "checkedAt": LATER if later else NOON}
    shown["provenance"] = {"keyId": "key_1"}
    found = {kind: hooks.share(kind, shown) for kind in ("post", "verification")}
    shared = {kind: one for kind, one in found.items() if one}
    assert (*shared,) == LABELED[label]
    for one in shared.values():
        assert (one.kind, one.shown["provenance"]["keyId"]) == ("verification", None)


def test_coverage_is_shared_only_when_a_gap_opens_or_closes():
    states = (None, "none", "backfilling", "partial", "complete")
    shown = {state: {"botId": "b", "coverage": state and {"state": state}} for state in states}
    shared = [state for state in states if hooks.share("coverage", shown[state])]
    assert shared == ["partial", "complete"]


# ---- banned, retired, hidden, deleted ------------------------------------------------------------
@pytest.mark.parametrize("banned", [None, "ada", "bea"])
def test_a_hook_reports_its_listed_bots_until_one_side_is_banned(
    private, delivering, receivers, ada, bea, banned
):
    """Without a list, all own ones: tests/notify/test_hooks.py."""
    (receiver,) = receivers()
    add(private, bea, receiver.url, events=ALL, bots=[ada.bot.uid, bea.bot.uid])
    if banned:
        owner = {"ada": ada, "bea": bea}[banned].owner
        acts.ban_owner(owner.uid, "me", "spam", NOW)
    publish(ada, "foreign")
    trade(private, "bought", explained=100)
    say(private, bea, "own")
    expected = ["own"] if banned else ["trade_bought", "own"]
    delivering()
    until(lambda: len(told(receiver)) >= len(expected))
    assert [data.get("eventId") or data["id"] for _, data in told(receiver)] == expected


def test_only_50_present_bots_can_be_followed_and_only_shared_events(private, ada, bea):
    retired, banned, deleted = gone = [private.make_bot(name) for name in ("Flo", "Eve", "Cleo")]
    influencers.retire_bot(retired.bot, NOW)
    acts.ban_owner(banned.owner.uid, "me", "spam", NOW)
    departures.delete_owner(deleted.owner, NOW)
    wrong = {made.bot.uid: "neither retired nor banned" for made in gone}
    wrong |= {"bot_x": "bots on this instance", " ".join(map(str, range(51))): "at most 50"}
    for uids, why in wrong.items():
        problem = refused(add, private, bea, URL, events=("trade",), bots=uids.split())
        assert problem.errors[0]["field"] == "bots" and why in problem.detail, uids
    problem = refused(add, private, bea, URL, events=("post",), bots=[ada.bot.uid])
    assert problem.errors[0]["field"] == "events"


def test_a_followed_bot_that_changes_owners_becomes_own(private, ada, bea):
    add(private, bea, URL, events=ALL, bots=[ada.bot.uid])
    (row,) = Hook.select()
    assert hooks.find_followed([row]) == {row.id: frozenset({ada.bot.uid})}
    Bot.update(owner=bea.owner).where(Bot.id == ada.bot.id).execute()
    assert hooks.find_followed([row]) == {row.id: frozenset()}


# ---- the form ------------------------------------------------------------------------------------
def test_the_profile_form_creates_a_hook_and_adds_a_bot_to_it(service):
    other, browser = service.make_bot("Ada"), Browser(service)
    more = service.make_bot("Cleo")
    browser.create("Bea")
    page = f"/bots/{other.bot.uid}/follow"
    assert f'href="{page}"' in browser.get(f"/bots/{other.bot.uid}").text
    secret = browser.send(page, page=page, kind="webhook", url=URL, event=["trade", "coverage"])
    assert secret.status_code == 200 and "whsec_" in secret.text
    hook = Hook.get()
    assert hooks.read_list(hook.bots) == [other.bot.uid] and hook.state == "waiting"
    second = f"/bots/{more.bot.uid}/follow"
    assert browser.send(second, page=second, hook=hook.uid).status_code == 302
    assert hooks.read_list(Hook.get().bots) == [other.bot.uid, more.bot.uid]
    overview = browser.get("/following").text
    assert "Ada" in overview and "Cleo" in overview and "example.org/…" in overview
    assert "Unfollow" in browser.get(page).text
    # After a test, the owner returns to the list of hooks.
    tested = browser.send(f"/hooks/{hook.uid}/test", page="/following")
    assert tested.headers["Location"] == "/following"
    for one in (other, more):
        browser.send(f"/bots/{one.bot.uid}/unfollow", page="/following", hook=hook.uid)
    assert Hook.select().count() == 0


def test_only_the_owner_can_change_a_hook(service):
    ada, bea, mallory = Browser(service), Browser(service), Browser(service)
    uid = ada.create("Ada")[1]
    bea.create("Bea")
    mallory.create("Mallory")
    page = f"/bots/{uid}/follow"
    bea.send(page, page=page, kind="ntfy", url="https://ntfy.sh/bea", event="trade")
    hook = Hook.get().uid
    for path in (page, f"/bots/{uid}/unfollow"):
        assert mallory.send(path, page=page, hook=hook).status_code == 404
        assert Browser(service).send(path, page="/connect", hook=hook).status_code == 403
    assert Hook.select().count() == 1
    assert "ntfy.sh" not in mallory.get(page).text
    assert "yours" in ada.get(page).text


def test_a_reader_without_an_account_sees_what_needs_none(service):
    made = service.make_bot("Ada")
    page = service.get(f"/bots/{made.bot.uid}/follow")
    assert page.status_code == 200 and "feed.atom" in page.text and "Sign in" in page.text
    assert service.get("/bots/bot_x/follow").status_code == 404
    assert service.get("/following").status_code == 403


# ---- the tab Manage bot --------------------------------------------------------------------------
DISCORD = "https://discord.com/api/webhooks/1/canary-of-the-token"


@pytest.fixture
def nell(browser):
    return browser.create(wallet=address("nell"))[1]


def add_own(browser, bot, url, **more):
    page = f"/bots/{bot}/manage"
    return browser.send(f"/bots/{bot}/hooks", page, url=url, **{"event": "post", **more})


def test_a_webhook_shows_its_secret_once_and_needs_a_ping(browser, nell):
    page = add_own(browser, nell, "https://x.example/in")
    hook, manage = Hook.get(), browser.get(f"/bots/{nell}/manage").text
    assert (hook.state, hook.ping) == ("waiting", True) and f">{hook.secret}<" in page.text
    assert hook.secret not in manage and "https://x.example/…" in manage
    assert "waiting for a response" in manage


@pytest.mark.parametrize("form", ["hooks", "follow"])
def test_both_forms_enforce_limits_and_explain_errors(service, browser, nell, form):
    bot = nell if form == "hooks" else service.make_bot("Ada").bot.uid
    page = f"/bots/{bot}/" + ("manage" if form == "hooks" else "follow")

    def add(url, kind="webhook", event="trade"):
        return browser.send(f"/bots/{bot}/{form}", page, url=url, kind=kind, event=event)

    for url in ("http://x.example/in", "", "http://127.0.0.1/"):
        wrong = add(url)
        assert wrong.status_code == 422 and "url" in errors_of(wrong), url
    assert "url" in errors_of(add("https://evil.example/api/webhooks/1/a", "discord"))
    none = add(URL, event=[])
    assert none.status_code == 422 and "one or more of" in none.text
    assert not Hook.select().count()
    for n in range(5):
        assert add(f"https://ntfy.sh/x{n}", "ntfy").status_code == 302
    full = add("https://ntfy.sh/y", "ntfy")
    assert full.status_code == 409 and "5 webhooks" in full.text


def test_a_messengers_token_is_never_shown_and_its_hook_is_tested_and_removed(browser, nell):
    sent = add_own(browser, nell, DISCORD, kind="discord", event=["post", "trade"])
    assert sent.status_code == 302
    hook, page = Hook.get(), f"/bots/{nell}/manage"
    Hook.update(ping=False, state="paused", last_error="returned HTTP 410").execute()
    manage = browser.get(page).text
    assert "https://discord.com/…" in manage and "canary" not in manage
    assert "posts, trades" in manage
    assert "it returned HTTP 410" in manage and "paused" in manage
    browser.send(f"/hooks/{hook.uid}/test", page)
    assert Hook.get().ping
    assert "discord.com/…" in browser.get(f"/hooks/{hook.uid}/remove").text
    browser.send(f"/hooks/{hook.uid}/remove", page)
    assert not Hook.select().count()


def test_an_inbox_address_is_shown_once(service, browser, nell):
    manage = f"/bots/{nell}/manage"
    page = browser.send(f"/bots/{nell}/keys", manage, label="old bot", scope="inbox")
    path = re.search(r"/api/v1/inbox/discord/cnd_inbox_\w{49}", page.text)[0]
    sent = service.ask("POST", path, json={"content": "Hello."})
    assert sent.status_code == 204
    assert path.rsplit("/", 1)[1] not in browser.get(manage).text
