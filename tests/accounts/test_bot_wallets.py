"""The ledgers of one bot's wallets: exchanges between them in one transaction have no price, in
whatever order the transactions arrive.
"""

import random

import ground
import orjson
import pytest
import sampling
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from lookout import BEGIN, ledger_of
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
from story import BEGIN_TIME, Story

from accounts.auto_posts import update_posts
from chain.ledger.inventory import SOL
from chain.stored.attachments import OWN_FLAGS
from chain.stored.standings import Board, work_out
from chain.stored.store import LedgerStore
from models import Attachment, Bot, Post, Trade, Wallet, WalletSignature
from storage import read_rows


def ms(seconds):
    """Unix milliseconds of a story's second."""
    return (BEGIN_TIME + seconds) * 1_000


@pytest.fixture
def empty(db):
    ground.hurry()
    return begin


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
    rebuild(empty(begins), list_rows(story.rows))
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
def test_connecting_order_of_the_other_wallet_changes_nothing(empty, ledgers, settings, seed):
    """Eve's wallet is connected after or before all entries were applied: the rows are equal."""
    found, eves = list_rows(two_people(seed, 30).rows), Attachment.attached_at == ms(10)
    wallets = empty(ms(10))
    Attachment.update(detached_at=ms(40)).where(eves).execute()
    truth = rebuild(wallets, found)
    wallets = empty(ms(10))
    eve = Attachment.get(eves)
    Attachment.delete().where(Attachment.id == eve.id).execute()
    publish(ledgers, wallets, store(wallets, found))
    assert ledger_of(PEOPLE.values()) != truth
    columns = {"bot": eve.bot_id, "wallet": eve.wallet_id, "ownership": "proven"}
    Attachment.create(**columns, attached_at=ms(10), detached_at=None)
    publish(ledgers, wallets)
    Attachment.update(detached_at=ms(40)).where(eves).execute()
    publish(ledgers, wallets)
    assert ledger_of(PEOPLE.values()) == truth
    assert find_differences(settings, wallets) == []


@pytest.mark.parametrize("first", ["ada", "eve"])
def test_a_new_exchange_rebuilds_the_other_wallet(empty, ledgers, first):
    (story, _), wallets = false_profit(), empty()
    found = list_rows(story.rows)
    for person in sorted(PEOPLE, key=lambda one: one != first):
        new = store(wallets, [one for one in found if one[0] == person])
        ledgers.apply(wallets[person], new[person])
        ledgers.publish(wallets[person], None, BEGIN)
    assert len(list_marked()) == 8 and list_earned() == ["0", "0"]


def test_exchanges_with_a_damaged_wallet_are_unknown_until_it_is_repaired(empty, ledgers):
    """ada restarts while eve's entries can't be read, so the exchanges have no price. Once they can
    be read again, ada's rows match a rebuild.
    """
    (story, deals), wallets = false_profit(), empty()
    truth = rebuild(wallets, list_rows(story.rows))
    eve = WalletSignature.wallet == wallets["eve"]
    kept = list(WalletSignature.select().where(eve))
    WalletSignature.update(entry=b"?").where(eve).execute()
    publish(ledgers, {"ada": wallets["ada"]})
    sold = Trade.select().where(Trade.wallet == wallets["ada"], Trade.signature.in_(deals))
    assert ["own_wallets" in one.flags for one in sold] == [True] * 4
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
