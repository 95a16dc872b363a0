"""Idle, synced wallets: a poll reads and writes almost nothing for them until nodes show something
new, something is pending, or someone makes them due.
"""

from unittest import mock

import pytest
from lookout import store_post
from node import FakeNode
from story import ADA, Story, address, market

import storage
from accounts.wallets import attach_wallet
from models import Address, Attachment, Post, Wallet
from observer import Observer
from observing import state
from observing.subscriptions import make_due


def rest(seen):
    """Poll until full polls are over: one that changes nothing, and one that notices that."""
    seen.settle().look(2)
    return seen


def is_quiet(seen):
    return {wallet.address: seen.observer.state.watches[wallet.id].quiet for wallet in Wallet}


# ---- what it costs -------------------------------------------------------------------------------
def test_a_poll_takes_three_statements_per_wallet(look):
    """One stores when it was polled, two list its head. A full poll needs about forty."""
    counts = []
    for count in (3, 13):
        people = [f"bot {number}" for number in range(count)]
        story = Story(*people)
        for person in people:
            story.buy(person, "CAT", 10, 5_000)
        seen = rest(look(story.chain(), wallets=[*map(address, people)]))
        assert all(is_quiet(seen).values()), "nothing is quiet"
        run = mock.Mock(wraps=storage.database.execute_sql)
        with mock.patch.object(storage.database.obj, "execute_sql", run):
            seen.look()
        counts.append(run.call_count)
    fewer, more = counts
    assert more - fewer <= 3 * (13 - 3), (counts, run.call_args_list)


def test_a_short_poll_reports_the_same_as_a_full_one(seen):
    """An hour of polls, then one by a new process: the same rows, with later times."""
    seen.clock.sleep(3_600)
    seen.look(3)
    assert is_quiet(seen) == {ADA: True}
    told, before, now = seen.coverage(), seen.ledger(), seen.now
    assert Wallet.get().polled_at == now
    seen.restart()
    seen.observer.run_tick(now)
    assert (seen.coverage(), seen.ledger()) == (told, before)


# ---- what wakes it -------------------------------------------------------------------------------
@pytest.fixture
def seen(look, chain):
    """A lookout of ada's quiet wallet."""
    made = rest(look(chain))
    assert is_quiet(made) == {ADA: True}
    return made


def test_another_processs_post_is_checked_by_the_next_poll(seen):
    bought = next(one.signature for one in seen.trades() if one.kind == "buy")
    store_post(seen.wallets[0], bought)
    seen.look()
    assert Post.get().status == "verified"


def test_a_post_whose_transaction_never_comes_is_not_found(seen):
    """Ten minutes after it by the chain's time, which follows the clock here."""
    store_post(seen.wallets[0], "1" * 88)
    seen.look()
    assert Post.get().status == "pending"
    Wallet.update(observed_to=seen.now // 1000 + 601).execute()
    seen.look()
    assert Post.get().status == "not_found"
    seen.look(2)
    assert is_quiet(seen) == {ADA: True}


def test_a_wallet_moved_to_another_bot_starts_a_record_at_the_next_poll(look, chain):
    seen = rest(look(chain, wallets=(ADA, address("eve"))))
    bot = seen.wallets[1].bot
    Attachment.update(detached_at=seen.now).execute()
    attach_wallet(seen.config, bot, ADA, seen.now)
    for started in (False, True):
        record = Attachment.get(Attachment.detached_at.is_null())
        assert (record.open_positions is not None) == started
        seen.look()


CHANGES = {
    "scan": (Address, {"scanned_at": None}),
    "rules": (Wallet, {"rules": "others"}),
    "coverage": (Wallet, {"coverage": "not JSON"}),
    "results": (Wallet, {"results": None, "due_at": 0}),
    "record": (Attachment, {"open_positions": 7}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_the_next_poll_finishes_another_processs_work(seen, what):
    told, before, held = seen.coverage(), seen.ledger(), Attachment.get().open_positions
    table, columns = CHANGES[what]
    table.update(**columns).execute()
    if what == "record":
        make_due([seen.wallets[0].id])
    seen.look()
    assert seen.ledger() == before and Attachment.get().open_positions == held
    assert seen.coverage()["state"] == told["state"]


def test_a_wallet_made_due_during_its_poll_is_polled_again(seen, monkeypatch):
    finish = Observer._finish

    def write_then_finish(self, wallet, *args):
        make_due([wallet.id])
        return finish(self, wallet, *args)

    make_due([seen.wallets[0].id])
    with monkeypatch.context() as patch:
        patch.setattr(Observer, "_finish", write_then_finish)
        seen.look()
    assert Wallet.get().due_at == 0
    seen.look()
    assert seen.now < Wallet.get().due_at < seen.now + 15_000


def test_errors_of_a_quiet_wallet_are_reported(seen):
    """A node refuses only its list: coverage shows it, and no poll overwrites that."""
    (node,) = seen.nodes
    node.fail("getSignaturesForAddress", -32602)
    seen.clock.sleep(3_600)
    seen.look(2)
    assert "getSignaturesForAddress" in seen.coverage()["note"] and Wallet.get().trouble
    node.restore()
    seen.clock.sleep(state.MAX_POSTPONE_SECONDS)
    seen.look(3)
    assert seen.coverage()["note"] is None and is_quiet(seen) == {ADA: True}


def test_a_wallet_with_a_gap_is_never_quiet(look):
    """Each poll looks for the missing part, with backoff."""
    chain = market(5, length=40)
    lost = chain.moving(ADA)[-8].signature
    node = FakeNode(chain)
    node.withhold(lost)
    seen = look(node)
    seen.look(12)
    assert seen.gaps() and is_quiet(seen) == {ADA: False}
