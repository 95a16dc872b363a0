"""The last poll of a disconnected wallet: a loss in its last second counts like any other."""

import pytest
from lookout import BEGIN, watch
from node import FakeNode
from scene import FEE
from story import ADA, Story, address
from story import BEGIN as FIRST_SLOT
from story import BEGIN_TIME as FIRST_SECOND

import storage
from accounts.influencers import retire_bot
from accounts.wallets import attach_wallet, detach_wallet
from chain.ledger.coverage import GIVEN_UP
from models import Attachment, Bot, Wallet
from observing.balances import MAX_CLOSING_MS
from observing.rebuilding import rebuild
from web.api.bots import OWNER

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
    rebuild(scene.seen.observer.state, Wallet.select(), scene.seen.now)
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
