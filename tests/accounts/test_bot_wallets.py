"""Several wallets of one bot: each has its own ledger, the bot's numbers are their sums, and
exchanges between them in one transaction aren't priced.
"""

import random

import ground
import orjson
import pytest
import sampling
from auditing import audit
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from lookout import BEGIN, ledger_of, watch
from node import FakeNode, connect
from service import NOW
from several import (
    PEOPLE,
    begin,
    exchange,
    find_differences,
    list_rows,
    publish,
    rebuild,
    store,
    two_people,
)
from story import BEGIN_TIME, FEE, Story, address

from accounts.auto_posts import update_posts
from chain.ledger.inventory import SOL
from chain.stored.attachments import OWN_FLAGS
from chain.stored.standings import Board, work_out
from chain.stored.store import LedgerStore
from models import Address, Attachment, Bot, Post, Trade, Wallet, WalletSignature
from observer import Observer
from storage import read_rows

MOST = 10**9


def ms(seconds):
    """Unix milliseconds of a story's second."""
    return (BEGIN_TIME + seconds) * 1_000


@pytest.fixture
def empty(db):
    ground.hurry()
    return begin


def funded():
    story = Story()
    for person in ("ada", "eve", "pam"):
        story.fund(person, 10**10)
    return story


def flags():
    """The own-wallet flags of stored trades: {(person, signature): flags}."""
    people = {one: person for person, one in PEOPLE.items()}
    rows = Trade.select(Trade.signature, Trade.flags, Wallet.address).join(Wallet).tuples()
    found = {(people[one], tx): OWN_FLAGS & set(orjson.loads(text)) for tx, text, one in rows}
    return {key: marks for key, marks in found.items() if marks}


# ---- what two wallets exchange -------------------------------------------------------------------
def false_profit():
    """Eve buys for 1,000,000; then ada buys 100 of it from her for 9,000,000, four times, at a
    venue.
    """
    story = funded()
    story.buy("eve", "CAT", 400, 1_000_000)
    deals = [exchange(story, "ada", "eve", "CAT", 100, 9_000_000) for _ in range(4)]
    return story, deals


def test_trades_between_own_wallets_earn_nothing_and_give_no_rank(empty):
    (story, deals), wallets = false_profit(), empty()
    rebuild(wallets, list_rows(story.rows))
    marks = flags()
    assert {tx for _, tx in marks} == set(deals) and len(marks) == 8
    for wallet in map(Wallet.get_by_id, [one.id for one in wallets.values()]):
        results = orjson.loads(wallet.results)
        assert (results["realizedLamports"], results["matchedSells"]) == ("0", 0)
        assert wallet.imbalance == 0
    assert [one.forward_realized for one in Attachment.select()] == [0, 0]
    bots = [Bot.get().id]
    for record in ("forward", "all"):
        (row,) = work_out(read_rows, Board(record, SOL, 0), MOST, bots)
        assert (row.realized, row.matched) == (0, 0)


def test_trades_between_own_wallets_verify_no_post(empty):
    (story, deals), wallets = false_profit(), empty()
    store(wallets, list_rows(story.rows))
    lead = wallets["ada"]
    row = {"source": "bot", "channel": "api", "body": "b", "status": "pending"}
    times = {"event_at": BEGIN, "created_at": BEGIN}
    for number, signature in enumerate(deals):
        named = {"uid": f"p{number}", "event_id": f"e{number}", "signature": signature}
        Post.create(**row, **times, **named, bot=lead.bot_id, wallet=lead)
    publish(LedgerStore(update_posts), wallets)
    said = {(one.status, one.status_reason) for one in Post.select()}
    assert said <= {("none", "value_unexplained"), ("mismatch", "not_a_trade")}


@pytest.mark.parametrize("begins, is_marked", [(0, True), (ms(30), False)])
def test_only_trades_while_both_wallets_were_connected_count(empty, begins, is_marked):
    story, _ = false_profit()
    assert story.rows[-1].receipt["blockTime"] < BEGIN_TIME + 30
    rebuild(empty(begins), list_rows(story.rows))
    assert bool(flags()) == is_marked
    earned = [orjson.loads(one.results)["realizedLamports"] for one in Wallet.select()]
    assert (set(earned) == {"0"}) == is_marked


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
    truth, dice = rebuild(empty(begins), found), random.Random(data.draw(st.integers(0, 10**6)))
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


@pytest.mark.parametrize("seed", sampling.sample(range(3), 1))
def test_connecting_order_of_the_other_wallet_changes_nothing(empty, settings, seed):
    """Eve's wallet is connected after or before all entries were applied: the rows are equal."""
    found = list_rows(two_people(seed, 30).rows)
    wallets = empty(ms(10))
    Attachment.update(detached_at=ms(40)).where(Attachment.attached_at == ms(10)).execute()
    truth = rebuild(wallets, found)
    wallets, ledgers = empty(ms(10)), LedgerStore(update_posts)
    eve = Attachment.get(Attachment.attached_at == ms(10))
    Attachment.delete().where(Attachment.id == eve.id).execute()
    publish(ledgers, wallets, store(wallets, found))
    assert ledger_of(PEOPLE.values()) != truth
    columns = {"bot": eve.bot_id, "wallet": eve.wallet_id, "ownership": "proven"}
    Attachment.create(**columns, attached_at=ms(10), detached_at=None)
    publish(ledgers, wallets)
    Attachment.update(detached_at=ms(40)).where(Attachment.attached_at == ms(10)).execute()
    publish(ledgers, wallets)
    assert ledger_of(PEOPLE.values()) == truth
    assert find_differences(settings, wallets) == []


@pytest.mark.parametrize("first", ["ada", "eve"])
def test_a_new_exchange_rebuilds_the_other_wallet(empty, first):
    (story, _), wallets = false_profit(), empty()
    found, ledgers = list_rows(story.rows), LedgerStore(update_posts)
    for person in sorted(PEOPLE, key=lambda one: one != first):
        new = store(wallets, [one for one in found if one[0] == person])
        ledgers.apply(wallets[person], new[person])
        ledgers.publish(wallets[person], None, BEGIN)
    assert len(flags()) == 8
    earned = [orjson.loads(one.results)["realizedLamports"] for one in Wallet.select()]
    assert earned == ["0", "0"]


def test_exchanges_with_a_damaged_wallet_are_unknown_until_it_is_repaired(empty):
    """ada restarts while eve's entries can't be read, so the exchanges have no price. Once they can
    be read again, ada's rows match a rebuild.
    """
    (story, deals), wallets = false_profit(), empty()
    truth = rebuild(wallets, list_rows(story.rows))
    eve = WalletSignature.wallet == wallets["eve"]
    kept = list(WalletSignature.select().where(eve))
    WalletSignature.update(entry=b"?").where(eve).execute()
    ledgers = LedgerStore(update_posts)
    publish(ledgers, {"ada": wallets["ada"]})
    sold = Trade.select().where(Trade.wallet == wallets["ada"], Trade.signature.in_(deals))
    assert ["own_wallets" in one.flags for one in sold] == [True] * 4
    for row in kept:
        row.save()
    publish(ledgers, wallets)
    assert ledger_of(PEOPLE.values()) == truth


def test_a_damaged_entry_does_not_block_the_other_wallets_publication(empty):
    """eve's side of the last exchange was published first. Marking it needs eve's other entries,
    one of which is damaged; ada's ledger continues without them.
    """
    (story, deals), wallets = false_profit(), empty()
    found = list_rows(story.rows)
    last = [one for one in found if one[0] == "ada" and one[1].signature == deals[-1]]
    store(wallets, [one for one in found if one not in last])
    ledgers = LedgerStore(update_posts)
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


# ---- from outside --------------------------------------------------------------------------------
PAM = address("pam")


def observe(service, story):
    """Observe a story until nothing changes anymore."""
    observer = Observer(service.config, connect(FakeNode(story.chain())))
    for turn in range(8):
        observer.run_tick(NOW + 3_600_000 + turn * 120_000)
    assert observer.problem is None


@pytest.fixture
def three(service):
    """(bot, story): ada, eve and pam trade separately, eve sells tokens from ada, and eve is
    disconnected.
    """
    made, story = service.make_bot("Nell", PEOPLE["ada"]), funded()
    Attachment.update(attached_at=0, ownership="proven").execute()
    for place, one in enumerate((PEOPLE["eve"], PAM), 1):
        wallet = Wallet.create(address=one, bot=made.bot, created_at=NOW)
        Address.create(wallet=wallet, address=one)
        times = {"attached_at": place}
        Attachment.create(bot=made.bot, wallet=wallet, ownership="proven", **times)
    story.buy("ada", "CAT", 100, 500_000)
    story.sell("ada", "CAT", 50, 400_000)
    story.buy("eve", "CAT", 10, 100_000)
    story.sell("eve", "CAT", 5, 40_000)
    story.buy("pam", "CAT", 30, 300_000)
    story.sell("pam", "CAT", 30, 310_000)
    observe(service, story)
    return made, story


# Each wallet's result: sale proceeds minus cost, including fees.
ADA = 400_000 - FEE - (500_000 + FEE) // 2
EVE = 40_000 - FEE - (100_000 + FEE) // 2
PAMS = 310_000 - FEE - (300_000 + FEE)


def test_bot_results_are_sums_over_its_wallets(service, three):
    made, story = three
    shown = service.get(f"/api/v1/bots/{made.bot.uid}", made.publish_key.text).json
    assert [one["address"] for one in shown["wallets"]] == [PEOPLE["ada"], PEOPLE["eve"], PAM]
    assert shown["wallet"]["address"] == PEOPLE["ada"]
    results = shown["results"]
    assert results["realizedLamports"] == str(ADA + EVE + PAMS)
    assert (results["matchedSells"], results["observedTrades"]) == (3, 6)
    assert results["volumeLamports"] == shown["record"]["volumeLamports"]
    assert results["openPositions"] == 1
    (position,) = shown["openPositions"]
    left = (500_000 + FEE) // 2 + (100_000 + FEE) // 2
    assert (position["amountRaw"], position["costLamports"]) == ("55", str(left))
    assert shown["record"]["realizedLamports"] == str(ADA + EVE + PAMS)
    books = shown["reconciliation"]
    assert books["realizedLamports"] == results["realizedLamports"]
    assert books["openCostLamports"] == str(left) and books["differenceLamports"] == "0"
    money = [story.lamports[one] for one in ("ada", "eve", "pam")]
    rents = 3 * 2_039_280
    assert books["closingLamports"] == str(sum(money) + rents)
    assert shown["coverage"]["state"] == "complete"
    assert shown["averageCost"]["matchedSells"] == 3
    (token,) = shown["tokens"]
    assert (token["sells"], token["realizedLamports"]) == (3, str(ADA + EVE + PAMS))
    listed = service.get("/api/v1/bots", made.publish_key.text).json["data"]
    assert [one["results"]["realizedLamports"] for one in listed] == [str(ADA + EVE + PAMS)]


def test_an_unobserved_second_wallet_hides_no_results(service, three):
    made, _ = three
    wallet = Wallet.create(address=address("new"), bot=made.bot, created_at=NOW)
    Attachment.create(bot=made.bot, wallet=wallet, ownership="proven", attached_at=NOW)
    shown = service.get(f"/api/v1/bots/{made.bot.uid}", made.publish_key.text).json
    assert shown["results"]["realizedLamports"] == str(ADA + EVE + PAMS)
    assert (shown["coverage"]["state"], shown["reconciliation"]) == ("none", None)
    assert shown["reconciliationReason"] == "not_observed"


# ---- the audit -----------------------------------------------------------------------------------
def observed(service, story):
    """A bot with both wallets, observed until the histories are complete."""
    watch(PEOPLE["ada"])
    bot = Bot.get()
    eve = Wallet.create(address=PEOPLE["eve"], bot=bot, created_at=BEGIN)
    Address.create(wallet=eve, address=eve.address)
    Attachment.create(bot=bot, wallet=eve, attached_at=ms(6))
    Attachment.update(ownership="proven").execute()
    Attachment.update(attached_at=0).where(Attachment.wallet != eve).execute()
    observe(service, story)
    return bot


@pytest.mark.parametrize("seed", sampling.sample(range(3), 1))
def test_an_audit_confirms_each_wallet(service, seed):
    story = two_people(seed, 24)
    observed(service, story)
    report = audit(service, FakeNode(story.chain()))
    assert (report.verdict, report.differences, report.unknown) == ("same", [], [])
    assert report.receipts == Trade.select().count() > 20


def test_an_audit_names_a_removed_flag(service):
    story, _ = false_profit()
    observed(service, story)
    assert flags()
    Trade.update(flags="[]").where(Trade.flags.contains("own_wallets")).execute()
    report = audit(service, FakeNode(story.chain()))
    assert report.verdict == "different"
    assert {one.field for one in report.differences} >= {"flags"}
