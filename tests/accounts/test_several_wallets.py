"""Several wallets of one bot from outside: proven in the studio, observed, read through the API."""

import html
from dataclasses import replace

import pytest
import several
import story
from lookout import BEGIN
from service import NOW, address
from story import FEE, Story
from test_attachments import KEYS, A, B, C, held
from test_bot_wallets import observe
from test_cli import cli, shown  # noqa: F401  (cli is a fixture)
from test_ledger_store import DONE
from test_studio import challenge, prove

import config
from accounts import wallets
from accounts.auto_posts import update_posts
from chain.stored.store import LedgerStore
from models import Attachment, Bot, Post, Wallet
from observer import Observer
from observing.rebuilding import rebuild
from web.api.wallets import list_held
from web.site.words import short

ADDRESSES = {"ada": A, "eve": B, "pam": C}


@pytest.fixture
def bot(browser):
    """(uid, key) of a bot that proved A."""
    _, uid, key, _ = browser.create("Nell", wallet=A)
    assert prove(browser, uid, challenge(browser, uid), KEYS["a"]).status_code == 302
    return uid, key


def add(browser, uid, name):
    """Prove an additional wallet of a bot; return the resulting page."""
    address = dict(zip(KEYS, (A, B, C), strict=False))[name]
    sent = browser.send(f"/bots/{uid}/challenge", prove=address, action="add")
    page = browser.get(sent.location).text
    assert "It will be added" in page
    text = html.unescape(page.split('id="challenge">')[1].split("<")[0])
    return prove(browser, uid, text, KEYS[name])


# ---- what the chain tells of them ----------------------------------------------------------------
@pytest.fixture
def trip(monkeypatch):
    """Ada buys for 500,000 and sells half for 450,000; eve buys for 300,000 and sells it for
    310,000.
    """
    known = story.address
    monkeypatch.setattr(story, "address", lambda word: ADDRESSES.get(word) or known(word))
    monkeypatch.setattr(several, "PEOPLE", {"ada": A, "eve": B})
    told = Story()
    told.fund("ada", 10**9)
    told.fund("eve", 10**9)
    told.buy("ada", "CAT", 100, 500_000)
    told.sell("ada", "CAT", 50, 450_000)
    told.buy("eve", "CAT", 100, 300_000)
    told.sell("eve", "CAT", 100, 310_000)
    return told


# Each wallet's result: sale proceeds minus cost, with fees.
ADAS = 450_000 - FEE - (500_000 + FEE) // 2
EVES = 310_000 - FEE - (300_000 + FEE)


class Watched:
    """An observer's ledgers for the transactions of a story."""

    def __init__(self):
        self.ledgers = LedgerStore(update_posts)

    def store(self, told, people=("ada", "eve")):
        Wallet.update(backfilled=True, polled_at=BEGIN).execute()
        found = [one for one in several.list_rows(told.rows) if one[0] in people]
        several.store(find_wallets(people), found)

    def publish(self, people=("ada", "eve"), **progress):
        """Publish each wallet; `progress`: by person, if it isn't DONE."""
        for person, wallet in find_wallets(people).items():
            self.ledgers.apply(wallet)
            self.ledgers.publish(wallet, progress.get(person, DONE), BEGIN)


def find_wallets(people):
    return {one: Wallet.get(Wallet.address == ADDRESSES[one]) for one in people}


@pytest.fixture
def watched():
    return Watched()


def read(service, bot):
    uid, key = bot
    return service.get(f"/api/v1/bots/{uid}", key).json


def test_a_bot_proves_two_wallets_and_earns_with_both(service, browser, bot, trip, watched):
    uid, key = bot
    assert add(browser, uid, "b").status_code == 302
    watched.store(trip)
    watched.publish()
    shown = read(service, bot)
    assert [one["address"] for one in shown["wallets"]] == [A, B]
    assert {one["ownership"] for one in shown["wallets"]} == {"proven"}
    assert shown["results"]["realizedLamports"] == str(ADAS + EVES)
    assert (shown["results"]["matchedSells"], shown["results"]["unmatchedSells"]) == (2, 0)
    assert shown["coverage"]["state"] == "complete"
    sale = service.get(f"/api/v1/trades?botId={uid}&kind=sell", key).json["data"]
    assert [(one["wallet"], one["botId"]) for one in sale] == [(B, uid), (A, uid)]
    posted = service.post({"eventId": "1", "body": "Sold.", "signature": sale[0]["signature"]}, key)
    assert posted.json["verified"] is True
    page = browser.get(f"/bots/{uid}?tab=record").text
    assert page.count("Solscan") >= 2 and A in page and B in page
    assert "We have every transaction of its wallets" in html.unescape(page)


def test_the_least_complete_wallet_is_named(service, browser, bot, trip, watched):
    uid, _ = bot
    add(browser, uid, "b")
    watched.store(trip)
    watched.publish(eve=replace(DONE, refused=((7, "nobody has it"),)))
    (entry,) = service.get("/api/v1/leaderboard", bot[1]).json["data"]
    for coverage in (read(service, bot)["coverage"], entry["coverage"]):
        assert (coverage["state"], coverage["wallet"]) == ("partial", B)
    own = {one["address"]: one["coverage"]["state"] for one in read(service, bot)["wallets"]}
    assert own == {A: "complete", B: "partial"}
    page = browser.get(f"/bots/{uid}?tab=record").text
    assert f"of {short(B)} are known, but not its whole history" in html.unescape(page)
    assert "partial history" in page and "complete history" in page


def test_removing_the_leading_wallet_promotes_the_other(service, browser, bot, trip, watched):
    uid, _ = bot
    add(browser, uid, "b")
    watched.store(trip)
    watched.publish()
    asked = browser.get(f"/bots/{uid}/wallet/detach?wallet={A}").text
    assert short(A) in asked and "becomes the main one" in asked and f'value="{A}"' in asked
    browser.send(f"/bots/{uid}/wallet/detach", wallet=A)
    assert held(Bot.get()) == [B]
    watched.publish()
    shown = read(service, bot)
    assert [one["address"] for one in shown["wallets"]] == [B] and shown["formerWallets"] == [A]
    assert shown["results"]["realizedLamports"] == str(EVES)
    assert shown["coverage"]["wallet"] == shown["wallet"]["address"]
    # Sent twice, and for a wallet that the bot never had.
    for one in (A, C):
        assert browser.send(f"/bots/{uid}/wallet/detach", wallet=one).status_code == 302
    assert held(Bot.get()) == [B]
    browser.send(f"/bots/{uid}/wallet/detach", wallet=B)
    assert held(Bot.get()) == []


def test_a_signature_adds_only_its_own_wallet(browser, bot):
    uid, _ = bot
    sent = browser.send(f"/bots/{uid}/challenge", prove=B, action="add")
    page = browser.get(sent.location).text
    text = html.unescape(page.split('id="challenge">')[1].split("<")[0])
    assert prove(browser, uid, text, KEYS["a"]).status_code == 422
    assert held(Bot.get()) == [A]


# ---- the forms -----------------------------------------------------------------------------------
def test_the_tab_lists_each_wallet_with_a_button_and_explains_adding(browser, bot):
    uid, _ = bot
    page = html.unescape(browser.get(f"/bots/{uid}/manage").text)
    assert "unknown cost" in page and 'value="add" checked' in page and 'value="replace"' in page
    assert "Replace wallet" in page
    add(browser, uid, "b")
    page = html.unescape(browser.get(f"/bots/{uid}/manage").text)
    for one in (A, B):
        assert f'aria-label="Disconnect {short(one)}"' in page and one in page
    assert "Replace wallet" not in page and "Disconnect wallet" not in page


# ---- posts ---------------------------------------------------------------------------------------
def test_posts_of_a_removed_wallet_keep_their_label(service, browser, bot, trip, watched):
    uid, key = bot
    add(browser, uid, "b")
    watched.store(trip)
    watched.publish()
    said = {"eventId": "1", "body": "Sold.", "signature": trip.rows[-1].signature}
    assert service.post(said, key).json["verified"]
    browser.send(f"/bots/{uid}/wallet/detach", wallet=B)
    watched.publish()
    assert Post.get().status == "verified"
    late = service.post({**said, "eventId": "2"}, key).json
    assert late["verified"] is False


# ---- the command line ----------------------------------------------------------------------------
def test_the_command_line_lists_and_disconnects_all(cli):  # noqa: F811
    made = shown(cli, "bot", "create", "--name", "Ada", "--wallet", A)
    bot, given = Bot.get(Bot.uid == made["botId"]), config.load()
    wallets.attach_wallet(given, bot, A, NOW, "proven")
    wallets.add_wallet(given, bot, B, Attachment.get().attached_at + 1)
    (row,) = shown(cli, "bot", "list")["data"]
    assert (row["wallet"], row["wallets"]) == (A, [A, B])
    assert f"{A}, {B}" in cli("bot", "list")[1]
    code, _, err = cli("bot", "wallet", made["botId"], C)
    assert code and "several wallets" in err
    freed = shown(cli, "bot", "wallet", made["botId"], "none")
    assert (freed["wallet"], freed["wallets"]) == (None, [])


# ---- by the observer -----------------------------------------------------------------------------
def ms_after(told):
    """UTC ms of the second after a story's last transaction."""
    return (told.rows[-1].receipt["blockTime"] + 1) * 1_000


def test_the_record_continues_under_another_leading_wallet(service, trip):
    """Ada is disconnected with half of her purchase left: that half is cost left. eve's and pam's
    results count throughout.
    """
    made = service.make_bot("Nell")
    bot, told = made.bot, Story()
    wallets.attach_wallet(service.config, bot, A, NOW, "proven")
    wallets.add_wallet(service.config, bot, B, NOW + 1)
    wallets.add_wallet(service.config, bot, C, NOW + 2)
    for person in ("ada", "eve", "pam"):
        told.fund(person, 10**9)
    told.buy("ada", "CAT", 100, 500_000)
    told.sell("ada", "CAT", 50, 450_000)
    told.buy("eve", "CAT", 100, 300_000)
    told.buy("pam", "DOG", 10, 100_000)
    told.sell("pam", "DOG", 10, 160_000)
    removed = ms_after(told)
    told.slot += 60
    told.sell("ada", "CAT", 50, 900_000)
    told.sell("eve", "CAT", 100, 310_000)
    told.buy("eve", "FOX", 10, 90_000)
    told.transact("eve", [("tokens", "FOX", "eve", "pam", 10)])
    told.sell("pam", "FOX", 10, 300_000)
    wallets.remove_wallet(bot, A, removed)
    observe(service, told)
    shown = read(service, (bot.uid, made.publish_key.text))
    assert [one["address"] for one in shown["wallets"]] == [B, C]
    record = shown["record"]
    pams = 160_000 - FEE - (100_000 + FEE)
    assert record["realizedLamports"] == str(ADAS + EVES + pams)
    # Pam's FOX came from eve: its cost left there, and its sale has no known cost.
    assert (record["matchedSells"], record["unmatchedSells"]) == (3, 1)
    left = (500_000 + FEE) // 2 + 90_000 + FEE
    assert record["costLeftLamports"] == str(left)
    people = {"eve": B, "pam": C, "ada": A}
    rows = {one: Wallet.get(Wallet.address == address) for one, address in people.items()}
    assert several.find_differences(service.config, rows) == []
    observer = Observer(service.config)
    assert [one.changes for one in rebuild(observer.state, rows.values(), NOW)] == [0, 0, 0]


def test_wallets_are_listed_leading_first_then_by_age(service):
    """Regardless of their IDs."""
    bot = service.make_bot("Ada", A).bot
    Attachment.update(attached_at=0).execute()
    for name, since in (("late", 9), ("early", -9), ("later", 9)):
        wallet = Wallet.create(bot=bot, address=address(name), created_at=NOW)
        span = {"ownership": "proven", "attached_at": NOW + since}
        Attachment.create(bot=bot, wallet=wallet, **span)
    shown = [one["address"] for one in list_held([bot.id])[bot.id]]
    assert shown == [A, *map(address, ("early", "late", "later"))]
