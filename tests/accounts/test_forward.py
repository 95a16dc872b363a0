"""The stored forward record: what a wallet did since a bot attached it, until the last poll of a
disconnected wallet, so that a loss in its last second counts like any other.
"""

import random

import ground
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from lookout import BEGIN, ledger_of, watch
from node import FakeNode
from scene import FEE
from story import BEGIN as FIRST_SLOT
from story import BEGIN_TIME as FIRST_SECOND
from story import Story, address, market
from teller import Teller
from test_ledger_store import ADA, DONE, empty, entries_of, rebuild, store

import storage
from accounts.auto_posts import update_posts
from accounts.influencers import retire_bot
from accounts.wallets import attach_wallet, detach_wallet
from chain.ledger.coverage import GIVEN_UP
from chain.ledger.totals import ALL_HISTORY
from chain.stored.store import LedgerStore
from chain.stored.tables import RunningTotal
from models import Attachment, Bot, Wallet, WalletSignature
from observing import rebuilding
from observing.balances import MAX_CLOSING_MS
from web.api.bots import OWNER

# a fixture
assert empty


def after(teller):
    """The Unix second after the last transaction."""
    return teller.entries[-1].block_time + 1


def list_since():
    """The running totals of attachments, in order."""
    mine = RunningTotal.view != ALL_HISTORY
    return list(RunningTotal.select().where(mine).order_by(RunningTotal.hour))


def find_last():
    return list_since()[-1]


def attach_at(wallet, *spans):
    """Replace its attachment with these: (begin, end or None) in Unix seconds."""
    RunningTotal.delete().where(RunningTotal.view != ALL_HISTORY).execute()
    Attachment.delete().execute()
    for begin, end in spans:
        span = {"attached_at": begin * 1000, "detached_at": end and end * 1000}
        Attachment.create(bot=wallet.bot_id, wallet=wallet, **span)


@effort(
    max_examples=ground.examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_arrival_order_does_not_matter(empty, seed, data):
    """Spans begin and end anywhere and are added between transactions in any order and batches; the
    rows match one rebuild.
    """
    entries = entries_of(market(seed, length=30))
    times = st.sampled_from(sorted({entry.block_time for entry in entries}))
    first, end, second = sorted(data.draw(st.lists(times, min_size=3, max_size=3)))
    spans = (first, end), (second, None)
    wallet = empty()
    attach_at(wallet, *spans)
    truth = rebuild(wallet, entries), read_holdings()
    dice, wallet, ledger_store = random.Random(seed), empty(), LedgerStore(update_posts)
    rest, told = dice.sample(entries, len(entries)), False
    while rest or not told:
        size = dice.randint(1, 12)
        batch, rest = rest[:size], rest[size:]
        store(wallet, batch)
        ledger_store.apply(wallet, batch)
        if not told and (dice.random() < 0.2 or not rest):
            attach_at(wallet, *spans)
            told = True
        ledger_store.apply(wallet)
        ledger_store.publish(wallet, DONE, BEGIN)
    assert (ledger_of([ADA]), read_holdings()) == truth


def read_holdings():
    columns = Attachment.open_positions, Attachment.forward_realized
    return list(Attachment.select(*columns).order_by(Attachment.attached_at).tuples())


def test_a_rebuild_repairs_the_stored_record(empty):
    """10@100 sold for 150: 50. Wrong, missing and extra rows are repaired."""
    t = Teller().gain("B", 1)
    wallet = empty()
    attach_at(wallet, (after(t), None))
    t.buy("A", 10, 100)
    t.slot += 3_600
    t.sell("A", 10, 150)
    t.slot += 3_600
    t.buy("A", 1, 7)
    truth = rebuild(wallet, t.entries)
    bought, sold, _ = list_since()
    assert (bought.realized, sold.realized, read_holdings()) == (0, 50, [(1, 50)])
    mine = RunningTotal.view != ALL_HISTORY
    RunningTotal.update(realized=1).where(mine, RunningTotal.hour == bought.hour).execute()
    RunningTotal.update(hour=9).where(mine, RunningTotal.hour == sold.hour).execute()
    Attachment.update(open_positions=None).execute()
    assert rebuild(wallet, []) == truth
    assert read_holdings() == [(1, 50)]


def test_a_rebuild_writes_nothing_when_the_chain_clock_runs_ahead(empty):
    """All entries were seen in the second they happened; hours follow block times."""
    t = Teller().gain("B", 1)
    wallet = empty()
    attach_at(wallet, (after(t), None))
    t.buy("A", 10, 100).sell("A", 10, 150).buy("A", 1, 7)
    store(wallet, t.entries)
    WalletSignature.update(seen_at=t.entries[0].block_time * 1000).execute()
    Attachment.update(attached_at=0).execute()
    rebuild(wallet, [])
    assert find_last().hour == t.entries[-1].block_time // 3_600
    again = LedgerStore()
    again.apply(wallet)
    assert not any(again._pending[wallet.id].derived.rows.values())


def test_trades_count_by_block_time_for_the_attachment_of_that_time(empty):
    """10@100 sold for 150 within the span, and 10@100 sold for 90 after it; both were found after
    it ended.
    """
    t = Teller().gain("B", 1)
    begin = after(t)
    t.buy("A", 10, 100).sell("A", 10, 150)
    end = after(t)
    t.buy("A", 10, 100).sell("A", 10, 90)
    wallet, ledger_store = empty(), LedgerStore(update_posts)
    attach_at(wallet, (begin, None))
    store(wallet, t.entries)
    assert WalletSignature.select().where(WalletSignature.seen_at < after(t) * 1000).count() == 0
    realized = []
    for _ in range(2):
        ledger_store.apply(wallet)
        ledger_store.publish(wallet, DONE, BEGIN)
        realized.append(find_last().realized)
        Attachment.update(detached_at=end * 1000).execute()
    assert realized == [40, 50]


def test_a_trade_seen_before_the_attachment_ended_counts(empty):
    """10@100 sold for 40 after the span by block time; the same after a rebuild."""
    t = Teller().gain("B", 1)
    begin = after(t)
    t.buy("A", 10, 100)
    end = after(t)
    t.sell("A", 10, 40)
    wallet = empty()
    attach_at(wallet, (begin, end))
    rebuild(wallet, t.entries)
    assert find_last().realized == 0
    WalletSignature.update(seen_at=end * 1000 - 1).execute()
    rebuild(wallet, [])
    assert find_last().realized == -60


# ---- the last poll -------------------------------------------------------------------------------
SOLD_AT_SECOND = FIRST_SECOND + 3_000
# Bought for 5,000,000 and sold for 2,000,000, each plus a fee.
LOSS = 2_000_000 - 5_000_000 - 2 * FEE


class Scene:
    """Ada buys while connected and sells in the second in which her bot disconnects; the node
    finalizes the sale later.
    """

    def __init__(self, look):
        story = Story()
        story.fund("ada", 10**9)
        story.buy("ada", "CAT", 100, 5_000_000)
        self.bought = story.slot
        story.slot = FIRST_SLOT + SOLD_AT_SECOND - FIRST_SECOND - 2
        story.sell("ada", "CAT", 100, 2_000_000)
        self.sold = story.slot
        story.fund("eve", 1)
        self.after = story.slot
        self.node = FakeNode(story.chain(), tip=self.bought)
        self.seen = look(self.node)
        Attachment.update(attached_at=FIRST_SECOND * 1000).execute()
        self.seen.settle()
        self.seen.clock.time = SOLD_AT_SECOND - BEGIN / 1000 + 0.999
        self.bot = Bot.get()

    def give_up(self, how=detach_wallet):
        how(self.bot, self.seen.now)

    def look_until(self, slot, times=4):
        self.node.tip = slot
        self.seen.look(times)

    @property
    def realized(self):
        """The first attachment's result, and its owner's total."""
        first = Attachment.select().order_by(Attachment.id).first()
        owner = storage.database.execute_sql(OWNER, [self.bot.id])
        (*_, owner_sum) = owner.fetchone()
        return first.forward_realized, owner_sum

    def is_resting(self, times=5):
        """Whether polling has stopped."""
        asked = self.node.calls.copy()
        self.seen.look(times)
        return self.node.calls == asked


@pytest.fixture
def scene(look):
    return Scene(look)


@pytest.mark.parametrize("how", [detach_wallet, retire_bot])
def test_polling_stops_once_nodes_are_past_the_disconnection(scene, how):
    """A poll before the sale is final finds nothing. While the last block is in the second of the
    disconnection, more may follow. A restart in between loses nothing.
    """
    scene.give_up(how)
    if how is detach_wallet:
        scene.seen.restart()
    scene.look_until(scene.bought)
    assert scene.realized == (0, 0) and not scene.is_resting()
    assert GIVEN_UP in scene.seen.coverage()["note"]
    scene.look_until(scene.sold)
    assert scene.realized == (LOSS, LOSS) and not scene.is_resting()
    scene.look_until(scene.after)
    assert scene.is_resting() and GIVEN_UP not in (scene.seen.coverage()["note"] or "")


@pytest.mark.parametrize(
    "method", ["getSignaturesForAddress", "getTransaction", "getMultipleAccounts", "getBlockTime"]
)
def test_the_last_poll_is_retried_after_a_node_failure(scene, method):
    scene.give_up()
    scene.node.fail(method)
    scene.look_until(scene.after, times=6)
    assert Wallet.get().closing_at is not None
    scene.node.restore()
    # A failed step's backoff doubles: 64 s cover six failures.
    scene.seen.clock.sleep(64)
    scene.look_until(scene.after, times=8)
    assert scene.realized == (LOSS, LOSS) and scene.is_resting()
    assert Wallet.get().trouble is None and GIVEN_UP not in (scene.seen.coverage()["note"] or "")


def test_polling_stops_after_a_day_and_coverage_says_so(scene):
    scene.give_up()
    scene.node.fail("getTransaction")
    scene.look_until(scene.after)
    assert not scene.is_resting()
    scene.node.restore()
    scene.seen.clock.sleep(MAX_CLOSING_MS / 1000)
    assert scene.is_resting()
    rebuilding.rebuild(scene.seen.observer.state, Wallet.select(), scene.seen.now)
    assert scene.realized == (0, 0) and GIVEN_UP in scene.seen.coverage()["note"]


def test_after_a_day_offline_the_wallet_is_polled_once(scene):
    scene.give_up()
    scene.seen.clock.sleep(2 * MAX_CLOSING_MS / 1000)
    scene.look_until(scene.bought, times=1)
    assert GIVEN_UP in scene.seen.coverage()["note"]
    assert scene.is_resting()


def test_a_bot_that_connects_the_wallet_later_does_not_get_the_loss(scene):
    scene.give_up()
    other = watch(address("eve"), 1).bot
    attach_wallet(scene.seen.config, other, ADA, scene.seen.now + 1)
    scene.look_until(scene.after)
    assert scene.realized == (LOSS, LOSS)
    theirs = Attachment.get(bot=other, detached_at=None)
    assert theirs.forward_realized == 0 and Wallet.get(address=ADA).closing_at is None
    assert not scene.is_resting()
