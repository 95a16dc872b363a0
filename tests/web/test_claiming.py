"""Claim links: a person becomes the owner of a bot that an agent registered."""

import json

import ground
import pytest
from service import NOW, address
from test_leaving import list_wrong
from test_registration import clock, code_of, opened, register
from test_studio import Browser, shown

import storage
from accounts import acts, departures, influencers, registration, wallets
from accounts.tables import Ban, Registration
from evidence.tables import Leaf
from models import Attachment, Bot, Key, Owner, Session
from storage.log import mark_owner

__all__ = ["clock", "opened"]
DAY_MS = 86_400_000


@pytest.fixture
def made(opened):
    """The response to Nell's registration."""
    return register(opened)


@pytest.fixture
def browser(opened):
    return Browser(opened)


def claim(browser, code, **more):
    return browser.send("/claim", page="/claim", code=code, **{"sure": "yes", **more})


def test_a_new_person_gets_an_account_with_the_bot(opened, made, browser):
    uid, code = made.json["bot"]["id"], code_of(made)
    assert made.json["claimUrl"] == f"{opened.config.base_url}/claim#{code}"
    # Its script passes the code to the form.
    page = browser.get("/claim")
    assert page.headers["Cache-Control"] == "no-store" and "/claim.js" in page.text
    assert "noindex" in page.text
    # Viewing the page doesn't use up the link, and explains what will happen.
    asked = claim(browser, code, sure="")
    assert asked.status_code == 200 and "Become the owner of Nell?" in asked.text
    assert "new account" in asked.text and "rotate" in asked.text
    page = claim(browser, code)
    assert page.status_code == 200 and "Nell is yours" in page.text
    assert browser.get(f"/bots/{uid}/manage").status_code == 200
    other = Browser(opened)
    assert other.send("/recover", code=shown(page, "recovery-code")).status_code == 200
    assert other.get(f"/bots/{uid}/manage").status_code == 200
    # The agent continues.
    assert opened.post({"eventId": "1", "body": "b"}, made.json["publishKey"]).status_code == 201
    # The link works once, and the wallet can't register again.
    assert claim(Browser(opened), code).status_code == 422
    assert register(opened).json["code"] == "wallet_taken"


def test_an_export_names_the_wallet_that_registered_a_bot(opened, made):
    claimed = registration.claim(opened.config, code_of(made), None, NOW)
    (row,) = departures.list_rows(departures.SHEETS["registrations.csv"], claimed.owner)
    assert (row["botId"], row["wallet"]) == (claimed.bot.uid, made.json["bot"]["wallet"]["address"])
    assert row["registeredAt"] == row["claimedAt"] == "2026-11-05T12:00:00.000Z"


def test_a_signed_in_owner_adds_the_bot_to_the_account(opened, made, browser):
    own, uid, key = browser.create("Ada").uid, made.json["bot"]["id"], made.json["publishKey"]
    source = Registration.get().bot.owner
    opened.post({"eventId": "1", "body": "b" * 50}, key)
    kept = Owner.get_by_id(source.id).posts_bytes
    assert list_wrong(opened) == []
    assert "moves to your account" in claim(browser, code_of(made), sure="").text
    answer = claim(browser, code_of(made))
    assert answer.status_code == 302 and answer.headers["Location"].endswith(f"{uid}/manage")
    ada, left = Bot.get(Bot.uid == own).owner, Owner.get_by_id(source.id)
    assert {bot.name for bot in ada.bots} == {"Ada", "Nell"}
    assert Key.select().where(Key.owner == ada).count() == 2
    assert kept > 50 and ada.posts_bytes == kept
    assert left.recovery_hash is None and left.posts_bytes == 0
    me = opened.get("/api/v1/me", key).json
    assert (me["ownerId"], me["botId"]) == (ada.uid, uid)
    assert opened.post({"eventId": "2", "body": "b"}, key).status_code == 201
    # The log shows the change, and the doctor finds nothing.
    logged = [json.loads(row.data) for row in Leaf.select()]
    marks = [one["owner"] for one in logged if (one["kind"], one.get("bot")) == ("profile", uid)]
    assert marks == [mark_owner(uid, source.uid), mark_owner(uid, ada.uid)]
    assert list_wrong(opened) == []


def test_claiming_respects_the_accounts_limits(opened, made, browser):
    def refuse():
        answer = claim(browser, code_of(made))
        assert answer.status_code == 409 and Registration.get().claimed_at is None
        return answer.text

    _, own, _, _ = browser.create("Ada", wallet=address("ada"))
    with storage.database.connection_context():
        owner = Bot.get(Bot.uid == own).owner
        for n in range(4):
            opened.make_bot(f"Bot {'abcd'[n] * 3}", address(f"w{n}"), owner)
    assert "observed wallets" in refuse()
    with storage.database.connection_context():
        wallets.detach_wallet(Bot.get(Bot.uid == own), NOW)
        for _ in range(20 - Key.select().where(Key.owner == owner).count()):
            opened.make_read_key(owner)
    assert "active keys" in refuse()
    Key.update(revoked_at=NOW).where(Key.owner == owner, Key.scope == "read").execute()
    assert claim(browser, code_of(made)).status_code == 302


WRONG = ("", "x", "cnd_claim_" + "0" * 49, "cnd_pub_" + "0" * 49, "é" * 300)


def test_a_wrong_code_explains_how_to_get_a_new_one(opened, made, browser):
    for code in (*WRONG, made.json["publishKey"]):
        answer = claim(browser, code)
        assert answer.status_code == 422 and "registering again" in answer.text
        assert len(code) < 9 or code not in answer.text
    assert opened.get("/api/v1/me", code_of(made)).status_code == 401
    with storage.database.connection_context():
        influencers.retire_bot(Registration.get().bot, NOW)
    assert claim(browser, code_of(made)).status_code == 422


@pytest.mark.usefixtures("clock")
def test_wrong_codes_are_limited(serve):
    browser = Browser(serve(failed_auth_per_minute=2))
    assert [claim(browser, "x").status_code for _ in range(3)] == [422, 422, 429]


def test_a_link_expires_after_thirty_days_and_registering_again_replaces_it(
    opened, made, browser, clock
):
    clock.now = NOW + 30 * DAY_MS
    assert claim(browser, code_of(made)).status_code == 422
    fresh = register(opened)
    assert fresh.status_code == 200 and claim(browser, code_of(fresh)).status_code == 200


def test_claiming_does_not_unban_a_bot(opened, made, browser):
    with storage.database.connection_context():
        acts.ban_owner(Registration.get().bot.owner.uid, "me", "spam", NOW)
    browser.create("Ada")
    for one in (browser, Browser(opened)):
        answer = claim(one, code_of(made))
        assert answer.status_code == 403 and "spam" in answer.text
    assert Registration.get().claimed_at is None and Ban.select().count() == 1


# The database file is searched.
@ground.sqlite_only
def test_secrets_reach_no_log_table_or_post(opened, made, browser, caplog):
    caplog.set_level("DEBUG")
    key, code = made.json["publishKey"], code_of(made)
    claim(browser, code, sure="")
    claim(browser, code)
    for words in (f"My owner's link: /claim#{code}", f"My key: {key}"):
        assert opened.post({"eventId": words[:5], "body": words}, key).status_code == 422
    told = caplog.text + "".join(str(vars(record)) for record in caplog.records)
    assert code not in told and key not in told
    stored = opened.config.database_path.read_bytes()
    assert code.encode() not in stored and key.encode() not in stored


def test_a_deleted_accounts_remains_do_not_show_its_source(opened, made, browser):
    claim(browser, code_of(made))
    with storage.database.connection_context():
        departures.delete_owner(Registration.get().bot.owner, NOW)
    row = Registration.get()
    assert row.source == "" and row.claim_hash is None
    # The wallet is free for others, but can't register a second bot.
    assert register(opened).json["code"] == "wallet_taken"
    assert Attachment.get().detached_at is not None and Session.select().count() == 0
