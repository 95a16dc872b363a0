"""Several wallets of one bot: proven in the studio, observed, read through the API, and audited, at
any time. What they exchange in one transaction has no price, in whatever order it arrives.
"""

import html
import random
from dataclasses import replace

import ground
import orjson
import pytest
import sampling
import several
from auditing import audit
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from lookout import BEGIN, ledger_of
from node import FakeNode, connect
from scene import FEE, Scene
from service import NOW, address
from several import PEOPLE, exchange, find_differences, list_rows, publish, store, two_people
from story import BEGIN_TIME, VENUE, Story
from test_attachments import KEYS, A, B, C, D, check_log, held
from test_cli import cli, shown  # noqa: F401  (cli is a fixture)
from test_ledger_store import DONE
from test_studio import challenge, prove

import config
from accounts import wallets
from accounts.auto_posts import update_posts
from accounts.problem import Problem
from chain.ledger.inventory import SOL
from chain.stored.attachments import OWN_FLAGS
from chain.stored.standings import Board, work_out
from chain.stored.store import LedgerStore
from models import Attachment, Bot, Post, Trade, Wallet, WalletSignature
from observer import Observer
from observing.rebuilding import rebuild
from storage import read_rows
from web.api.wallets import list_held
from web.site.words import short

ADDRESSES = {"ada": A, "eve": B, "pam": C, "joe": D}


@pytest.fixture
def owned(monkeypatch):
    """Give each person an address with a key."""
    for person, wallet in ADDRESSES.items():
        monkeypatch.setitem(Scene.known, person, wallet)


def begin_story():
    told = Story()
    for person in ADDRESSES:
        told.fund(person, 10**10)
    return told


def add_wallets(service, bot, *addresses):
    for place, one in enumerate(addresses):
        wallets.add_wallet(service.config, bot, one, NOW + place)


def observe(service, told):
    """Observe a story until nothing changes anymore."""
    observer = Observer(service.config, connect(FakeNode(told.chain())))
    for turn in range(8):
        observer.run_tick(NOW + 3_600_000 + turn * 120_000)
    assert observer.problem is None


def check_rows(service, rows):
    """Check that stored data matches the chain, and that a rebuild changes nothing."""
    assert find_differences(service.config, rows) == []
    changed = rebuild(Observer(service.config).state, rows.values(), NOW)
    assert [one for one in changed if one.changes] == []


# ---- in the studio -------------------------------------------------------------------------------
class Nell:
    """A bot that proved A and then B in the studio."""

    def __init__(self, service, browser):
        self.service, self.browser = service, browser
        _, self.uid, self.key, _ = browser.create("Nell", wallet=A)
        assert prove(browser, self.uid, challenge(browser, self.uid), KEYS["a"]).status_code == 302
        self.before = html.unescape(self.page("/manage"))
        text = self.ask_to_add(B)
        # The signature of a connected wallet doesn't add another one.
        assert prove(browser, self.uid, text, KEYS["a"]).status_code == 422
        assert held(Bot.get()) == [A]
        assert prove(browser, self.uid, text, KEYS["b"]).status_code == 302

    def ask_to_add(self, wallet):
        """The text to sign for another wallet."""
        path = f"/bots/{self.uid}/challenge"
        page = self.browser.get(self.browser.send(path, prove=wallet, action="add").location).text
        assert "It will be added" in page
        return html.unescape(page.split('id="challenge">')[1].split("<")[0])

    def disconnect(self, wallet):
        return self.browser.send(f"/bots/{self.uid}/wallet/detach", wallet=wallet)

    def page(self, path):
        return self.browser.get(f"/bots/{self.uid}{path}").text

    def read(self):
        return self.service.get(f"/api/v1/bots/{self.uid}", self.key).json

    def say(self, event, signature):
        said = {"eventId": event, "body": "Sold.", "signature": signature}
        return self.service.post(said, self.key).json


@pytest.fixture
def nell(service, browser, owned):
    return Nell(service, browser)


@pytest.fixture
def trip(nell):
    """The story of nell's wallets, observed: ada buys for 500,000 and sells half for 450,000; eve
    buys for 300,000 and sells 60 % of it for 310,000.
    """
    Attachment.update(attached_at=Attachment.id).execute()
    told = begin_story()
    told.buy("ada", "CAT", 100, 500_000)
    told.sell("ada", "CAT", 50, 450_000)
    told.buy("eve", "CAT", 100, 300_000)
    told.sell("eve", "CAT", 60, 310_000)
    observe(nell.service, told)
    return told


# Each wallet's result: sale proceeds minus cost, with fees. And what the unsold tokens cost.
ADAS = 450_000 - FEE - (500_000 + FEE) // 2
EVES = 310_000 - FEE - (300_000 + FEE) * 60 // 100
LEFT = (500_000 + FEE) // 2 + (300_000 + FEE) * 40 // 100


def test_a_bots_results_are_sums_over_its_wallets(nell, trip):
    shown = nell.read()
    held = [(one["address"], one["ownership"]) for one in shown["wallets"]]
    assert held == [(A, "proven"), (B, "proven")]
    assert (shown["wallet"]["address"], shown["coverage"]["state"]) == (A, "complete")
    results, record, books = (shown[name] for name in ("results", "record", "reconciliation"))
    (position,), (token,) = shown["openPositions"], shown["tokens"]
    (listed,) = nell.service.get("/api/v1/bots", nell.key).json["data"]
    for one in (results, record, books, token, listed["results"]):
        assert one["realizedLamports"] == str(ADAS + EVES)
    assert results["volumeLamports"] == record["volumeLamports"]
    sales = results["matchedSells"], shown["averageCost"]["matchedSells"], token["sells"]
    assert (sales, results["observedTrades"]) == ((2, 2, 2), 4)
    assert position["costLamports"] == books["openCostLamports"] == str(LEFT)
    assert (position["amountRaw"], books["differenceLamports"]) == ("90", "0")
    rents = 2 * 2_039_280
    assert int(books["closingLamports"]) == trip.lamports["ada"] + trip.lamports["eve"] + rents


def test_the_trades_of_both_wallets_are_the_bots(nell, trip):
    sold = nell.service.get(f"/api/v1/trades?botId={nell.uid}&kind=sell", nell.key).json["data"]
    assert [(one["wallet"], one["botId"]) for one in sold] == [(B, nell.uid), (A, nell.uid)]
    assert nell.say("1", sold[0]["signature"])["verified"]
    page = html.unescape(nell.page("?tab=record"))
    assert page.count("Solscan") >= 2 and A in page and B in page
    assert "We have every transaction of its wallets" in page
    # The label of a post stays when its wallet is removed, and that wallet verifies no more.
    nell.disconnect(B)
    observe(nell.service, trip)
    assert Post.get().status == "verified"
    assert not nell.say("2", sold[0]["signature"])["verified"]


def test_the_least_complete_wallet_is_named_and_hides_no_results(nell, trip):
    ledgers, eve = LedgerStore(update_posts), Wallet.get(Wallet.address == B)
    ledgers.apply(eve)
    ledgers.publish(eve, replace(DONE, refused=((7, "nobody has it"),)), BEGIN)
    (entry,) = nell.service.get("/api/v1/leaderboard", nell.key).json["data"]
    shown = nell.read()
    for coverage in (shown["coverage"], entry["coverage"]):
        assert (coverage["state"], coverage["wallet"]) == ("partial", B)
    own = {one["address"]: one["coverage"]["state"] for one in shown["wallets"]}
    assert own == {A: "complete", B: "partial"}
    page = html.unescape(nell.page("?tab=record"))
    assert f"of {short(B)} are known, but not its whole history" in page
    assert "partial history" in page and "complete history" in page
    # C was never observed.
    wallets.add_wallet(nell.service.config, Bot.get(), C, NOW)
    shown = nell.read()
    assert shown["results"]["realizedLamports"] == str(ADAS + EVES)
    assert (shown["coverage"]["state"], shown["reconciliationReason"]) == ("none", "not_observed")


def test_removing_the_leading_wallet_promotes_the_other(nell, trip):
    asked = nell.page(f"/wallet/detach?wallet={A}")
    assert all(one in asked for one in (short(A), "becomes the main one", f'value="{A}"'))
    nell.disconnect(A)
    observe(nell.service, trip)
    shown = nell.read()
    assert [one["address"] for one in shown["wallets"]] == [B] and shown["formerWallets"] == [A]
    assert shown["results"]["realizedLamports"] == str(EVES)
    assert shown["coverage"]["wallet"] == shown["wallet"]["address"]
    # Sent twice, and for a wallet that the bot never had.
    for one in (A, C):
        assert nell.disconnect(one).status_code == 302
    assert held(Bot.get()) == [B]
    nell.disconnect(B)
    assert held(Bot.get()) == []


def test_the_tab_lists_each_wallet_with_a_button_and_explains_adding(nell):
    one, page = nell.before, html.unescape(nell.page("/manage"))
    adding = "unknown cost", 'value="add" checked', 'value="replace"', "Replace wallet"
    assert all(words in one for words in adding)
    for wallet in (A, B):
        assert f'aria-label="Disconnect {short(wallet)}"' in page and wallet in page
    assert "Disconnect wallet" not in page and "Replace wallet" not in page


def test_wallets_are_listed_leading_first_then_by_age(service):
    """Regardless of their IDs."""
    bot = service.make_bot("Ada", A).bot
    Attachment.update(attached_at=0).execute()
    for name, since in (("late", 9), ("early", -9), ("later", 9)):
        wallet = Wallet.create(bot=bot, address=address(name), created_at=NOW)
        span = {"ownership": "proven", "attached_at": NOW + since}
        Attachment.create(bot=bot, wallet=wallet, **span)
    listed = [one["address"] for one in list_held([bot.id])[bot.id]]
    assert listed == [A, *map(address, ("early", "late", "later"))]


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


# ---- coming and going ----------------------------------------------------------------------------
def test_the_record_continues_under_another_leading_wallet(service, owned):
    """Ada is disconnected with half of her purchase left: that half is cost left. eve's and pam's
    results count throughout.
    """
    made, told = service.make_bot("Nell"), begin_story()
    add_wallets(service, made.bot, A, B, C)
    told.buy("ada", "CAT", 100, 500_000)
    told.sell("ada", "CAT", 50, 450_000)
    told.buy("eve", "CAT", 100, 300_000)
    told.buy("pam", "DOG", 10, 100_000)
    told.sell("pam", "DOG", 10, 160_000)
    second_after = told.rows[-1].receipt["blockTime"] + 1
    told.slot += 60
    told.sell("ada", "CAT", 50, 900_000)
    told.sell("eve", "CAT", 100, 310_000)
    told.buy("eve", "FOX", 10, 90_000)
    told.transact("eve", [("tokens", "FOX", "eve", "pam", 10)])
    told.sell("pam", "FOX", 10, 300_000)
    wallets.remove_wallet(made.bot, A, second_after * 1_000)
    observe(service, told)
    shown = service.get(f"/api/v1/bots/{made.bot.uid}", made.publish_key.text).json
    assert [one["address"] for one in shown["wallets"]] == [B, C]
    record = shown["record"]
    eves, pams = 310_000 - FEE - (300_000 + FEE), 160_000 - FEE - (100_000 + FEE)
    assert record["realizedLamports"] == str(ADAS + eves + pams)
    # Pam's FOX came from eve: its cost left there, and its sale has no known cost.
    assert (record["matchedSells"], record["unmatchedSells"]) == (3, 1)
    assert record["costLeftLamports"] == str((500_000 + FEE) // 2 + 90_000 + FEE)
    people = {one.address: one for one in Wallet.select()}
    check_rows(service, {person: people[ADDRESSES[person]] for person in ("eve", "pam", "ada")})


class Life:
    """Two bots, four wallets, and an observer that runs occasionally."""

    def __init__(self, service, seed):
        self.service, self.dice, self.done = service, random.Random(seed), set()
        self.told = two_people(seed, 40, tuple(ADDRESSES))
        self.node = FakeNode(self.told.chain(), tip=self.told.rows[0].slot)
        self.observer = Observer(service.config, connect(self.node))
        self.bots = [service.make_bot(name).bot for name in ("Nell", "Otto")]
        add_wallets(service, self.bots[0], A, B)

    def live(self):
        for row in self.told.rows:
            now = row.receipt["blockTime"] * 1_000 + self.dice.randint(0, 999)
            self.node.tip = row.slot
            if self.dice.random() < 0.4:
                self.change(now)
            if self.dice.random() < 0.5:
                self.observer.run_tick(now)
        for turn in range(1, 12):
            self.observer.run_tick(now + turn * 120_000)
        assert self.observer.problem is None

    def change(self, now):
        """Let a bot connect or disconnect a wallet if it can."""
        bot, one = self.dice.choice(self.bots), self.dice.choice(list(ADDRESSES.values()))
        act = self.dice.choice(["add", "add", "add", "remove", "proven", "claimed", "detach"])
        before, config = len(wallets.list_holdings(bot)), self.service.config
        try:
            if act == "add":
                wallets.add_wallet(config, bot, one, now)
            elif act == "remove":
                wallets.remove_wallet(bot, one, now)
            elif act != "detach":
                wallets.attach_wallet(config, bot, one, now, act)
            elif self.dice.random() < 0.3:
                wallets.detach_wallet(bot, now)
        except Problem:
            return
        self.done.add((act, before))


@pytest.mark.parametrize("seed", sampling.sample(range(4), 1))
def test_stored_data_matches_the_chain_after_any_changes_of_wallets(serve, owned, seed):
    service = serve(max_wallet_changes_per_day=10**6)
    life = Life(service, seed)
    life.live()
    assert len(life.done) > 3
    # No wallet is connected twice, and a bot's several wallets are all proven.
    both, still = [one for bot in life.bots for one in held(bot)], Attachment.detached_at.is_null()
    assert len({*both}) == len(both) == Attachment.select().where(still).count()
    for bot in life.bots:
        told = wallets.list_holdings(bot)
        assert len(told) < 2 or {one.ownership for one in told} == {"proven"}
    check_log(service)
    check_rows(service, {row.id: row for row in Wallet.select()})


def ms(seconds):
    """Unix milliseconds of a story's second."""
    return (BEGIN_TIME + seconds) * 1_000


@pytest.fixture
def empty(db):
    ground.hurry()
    return several.begin


@pytest.fixture
def ledgers():
    return LedgerStore(update_posts)


def false_profit():
    """Eve buys for 1,000,000; then ada buys 100 of it from her for 9,000,000, four times, at a
    venue.
    """
    story = Story()
    for person in ("ada", "eve"):
        story.fund(person, 10**10)
    story.buy("eve", "CAT", 400, 1_000_000)
    deals = [exchange(story, "ada", "eve", "CAT", 100, 9_000_000) for _ in range(4)]
    return story, deals


def list_marked():
    """(wallet, signature) of each stored trade with an own-wallet flag."""
    rows = Trade.select(Trade.wallet, Trade.signature, Trade.flags).tuples()
    return [(wallet, tx) for wallet, tx, flags in rows if OWN_FLAGS & {*orjson.loads(flags)}]


def list_earned():
    """Each wallet's realized lamports."""
    return [orjson.loads(one.results)["realizedLamports"] for one in Wallet.select()]


# ---- what two wallets exchange -------------------------------------------------------------------
def test_trades_between_own_wallets_earn_nothing_and_verify_no_post(empty, ledgers):
    (story, deals), wallets = false_profit(), empty()
    store(wallets, list_rows(story.rows))
    lead = wallets["ada"]
    row = {"bot": lead.bot_id, "wallet": lead, "source": "bot", "channel": "api", "body": "b"}
    row |= {"status": "pending", "event_at": BEGIN, "created_at": BEGIN}
    for tx in deals:
        Post.create(**row, uid=tx, event_id=tx, signature=tx)
    publish(ledgers, wallets)
    assert {tx for _, tx in list_marked()} == {*deals} and len(list_marked()) == 8
    assert list_earned() == ["0", "0"]
    for wallet in Wallet.select():
        assert (orjson.loads(wallet.results)["matchedSells"], wallet.imbalance) == (0, 0)
    assert [one.forward_realized for one in Attachment.select()] == [0, 0]
    for record in ("forward", "all"):
        (standing,) = work_out(read_rows, Board(record, SOL, 0), 10**9, [Bot.get().id])
        assert (standing.realized, standing.matched) == (0, 0)
    said = {(one.status, one.status_reason) for one in Post.select()}
    assert said <= {("none", "value_unexplained"), ("mismatch", "not_a_trade")}


@pytest.mark.parametrize("begins, is_marked", [(0, True), (ms(30), False)])
def test_only_trades_while_both_wallets_were_connected_count(empty, begins, is_marked):
    story, _ = false_profit()
    assert story.rows[-1].receipt["blockTime"] < BEGIN_TIME + 30
    several.rebuild(empty(begins), list_rows(story.rows))
    assert bool(list_marked()) == is_marked
    assert ({*list_earned()} == {"0"}) == is_marked


# ---- in whatever order it arrives ----------------------------------------------------------------
@effort(
    max_examples=ground.examples(8),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.generate],
)
@given(seed=st.integers(0, 10**6), later=st.integers(-1, 40), data=st.data())
def test_incremental_and_full_builds_are_equal(empty, settings, seed, later, data):
    found = list_rows(two_people(seed, 24).rows)
    begins = ms(later)
    truth, dice = (
        several.rebuild(empty(begins), found),
        random.Random(data.draw(st.integers(0, 10**6))),
    )
    wallets, ledgers = empty(begins), LedgerStore(update_posts)
    rest = dice.sample(found, len(found)) if data.draw(st.booleans()) else list(found)
    while rest:
        size = dice.randint(1, 9)
        batch, rest = rest[:size], rest[size:]
        new = store(wallets, batch)
        if dice.random() < 0.2:
            ledgers, new = LedgerStore(update_posts), None
        publish(ledgers, wallets, new)
    assert ledger_of(PEOPLE.values()) == truth
    assert find_differences(settings, wallets) == []


def test_exchanges_are_marked_on_both_sides_after_a_later_connection(empty, ledgers):
    """ada's ledger began before eve's wallet was connected. Of each exchange, eve's side is
    published first.
    """
    (story, deals), wallets = false_profit(), empty()
    found, held = list_rows(story.rows), Attachment.get(wallet=wallets["eve"])
    held.delete_instance()
    publish(
        ledgers, wallets, store(wallets, [one for one in found if one[1].signature not in deals])
    )
    held.save(force_insert=True)
    for person in ("eve", "ada"):
        mine = [one for one in found if one[0] == person and one[1].signature in deals]
        ledgers.apply(wallets[person], store(wallets, mine)[person])
        ledgers.publish(wallets[person], None, BEGIN)
    assert len(list_marked()) == 8 and list_earned() == ["0", "0"]


def test_exchanges_with_a_damaged_wallet_are_unknown_until_it_is_repaired(empty, ledgers):
    """ada restarts while eve's entries can't be read, so the exchanges have no price, nor does a
    purchase by both. Once they can be read again, ada's rows match a rebuild.
    """
    (story, deals), wallets = false_profit(), empty()
    both = [("tokens", "CAT", "maker", one, 5) for one in PEOPLE]
    both += [("lamports", one, "maker", 10**6) for one in PEOPLE]
    deals.append(story.transact("ada", both, venue=VENUE))
    truth = several.rebuild(wallets, list_rows(story.rows))
    assert len(list_marked()) == 8
    eve = WalletSignature.wallet == wallets["eve"]
    kept = list(WalletSignature.select().where(eve))
    WalletSignature.update(entry=b"?").where(eve).execute()
    publish(ledgers, {"ada": wallets["ada"]})
    sold = Trade.select().where(Trade.wallet == wallets["ada"], Trade.signature.in_(deals))
    assert ["own_wallets" in one.flags for one in sold] == [True] * 5
    for row in kept:
        row.save()
    publish(ledgers, wallets)
    assert ledger_of(PEOPLE.values()) == truth


def test_a_damaged_entry_does_not_block_the_other_wallets_publication(empty, ledgers):
    """eve's side of the last exchange was published first. Marking it needs eve's other entries,
    one of which is damaged; ada's ledger continues without them.
    """
    (story, deals), wallets = false_profit(), empty()
    found = list_rows(story.rows)
    last = [one for one in found if one[0] == "ada" and one[1].signature == deals[-1]]
    store(wallets, [one for one in found if one not in last])
    publish(ledgers, wallets)
    damaged = (WalletSignature.wallet == wallets["eve"]) & (WalletSignature.signature == deals[0])
    WalletSignature.update(entry=b"?").where(damaged).execute()
    new = store(wallets, last)["ada"]
    ledgers.apply(wallets["ada"], new)
    ledgers.publish(wallets["ada"], None, BEGIN)
    mine = Trade.select().where(Trade.wallet == wallets["ada"])
    assert mine.where(Trade.signature == deals[-1]).exists()
    with pytest.raises(ValueError):
        ledgers.apply(wallets["eve"])


# ---- audits --------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", sampling.sample(range(3), 1))
def test_an_audit_confirms_each_wallet(service, seed):
    told = two_people(seed, 24)
    several.watch_both(ms(6))
    observe(service, told)
    report = audit(service, FakeNode(told.chain()))
    assert (report.verdict, report.differences, report.unknown) == ("same", [], [])
    assert report.receipts == Trade.select().count() > 20


def test_an_audit_names_a_removed_flag(service):
    told, _ = false_profit()
    several.watch_both(ms(6))
    observe(service, told)
    assert list_marked()
    Trade.update(flags="[]").where(Trade.flags.contains("own_wallets")).execute()
    report = audit(service, FakeNode(told.chain()))
    assert report.verdict == "different"
    assert {one.field for one in report.differences} >= {"flags"}
