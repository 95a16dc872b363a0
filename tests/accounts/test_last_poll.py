"""The last poll of a disconnected wallet: a loss in its last second counts like any other."""

import pytest
from lookout import BEGIN, watch
from node import FakeNode
from story import ADA, FEE, Story, address
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
# Bought for 5,000,000 and sold for 2,000,000; each of both cost a fee.
LOSS = 2_000_000 - 5_000_000 - 2 * FEE


class Scene:
    """Ada buys while her bot holds the wallet and sells in the second in which it is given up; the
    node shows the sale as final only later.
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
        """Of the first attachment, and its owner's sum."""
        first = Attachment.select().order_by(Attachment.id).first()
        owner = storage.database.execute_sql(OWNER, [self.bot.id])
        (*_, owner_sum) = owner.fetchone()
        return first.forward_realized, owner_sum

    def is_resting(self, times=5):
        """Whether nothing is asked any more."""
        asked = self.node.calls.copy()
        self.seen.look(times)
        return self.node.calls == asked


@pytest.fixture
def scene(look):
    return Scene(look)


@pytest.mark.parametrize("how", [detach_wallet, retire_bot])
def test_a_loss_of_the_last_second_counts(scene, how):
    assert scene.realized == (0, 0)
    scene.give_up(how)
    scene.look_until(scene.after)
    assert scene.realized == (LOSS, LOSS)
    assert scene.is_resting() and GIVEN_UP not in (scene.seen.coverage()["note"] or "")


def test_it_rests_once_nodes_show_a_later_moment(scene):
    """Before the sale is final a look finds nothing; where the last block is of the very second in
    which it was given up, there may be more.
    """
    scene.give_up()
    scene.look_until(scene.bought)
    assert scene.realized == (0, 0) and not scene.is_resting()
    assert GIVEN_UP in scene.seen.coverage()["note"]
    scene.look_until(scene.sold)
    assert scene.realized == (LOSS, LOSS) and not scene.is_resting()
    scene.look_until(scene.after)
    assert scene.is_resting()


def test_a_restart_forgets_no_last_look(scene):
    scene.give_up()
    scene.seen.restart()
    scene.look_until(scene.after)
    assert scene.realized == (LOSS, LOSS) and scene.is_resting()


@pytest.mark.parametrize(
    "method",
    ["getSignaturesForAddress", "getTransaction", "getMultipleAccounts", "getBlockTime"],
)
def test_where_a_node_fails_it_is_tried_again(scene, method):
    scene.give_up()
    scene.node.fail(method)
    scene.look_until(scene.after, times=6)
    assert Wallet.get().closing_at is not None
    scene.node.restore()
    # Pauses of a failed step double: 64 s are enough after six failures.
    scene.seen.clock.sleep(64)
    scene.look_until(scene.after, times=8)
    assert scene.realized == (LOSS, LOSS) and scene.is_resting()
    assert Wallet.get().trouble is None and GIVEN_UP not in (scene.seen.coverage()["note"] or "")


def test_after_a_day_it_is_left_alone_and_coverage_says_so(scene):
    scene.give_up()
    scene.node.fail("getTransaction")
    scene.look_until(scene.after)
    assert not scene.is_resting()
    scene.node.restore()
    scene.seen.clock.sleep(MAX_CLOSING_MS / 1000)
    assert scene.is_resting()
    rebuild(scene.seen.observer.state, Wallet.select(), scene.seen.now)
    assert scene.realized == (0, 0) and GIVEN_UP in scene.seen.coverage()["note"]


def test_after_a_day_without_power_it_is_looked_at_once(scene):
    scene.give_up()
    scene.seen.clock.sleep(2 * MAX_CLOSING_MS / 1000)
    scene.look_until(scene.bought, times=1)
    assert GIVEN_UP in scene.seen.coverage()["note"]
    assert scene.is_resting()


def test_who_attaches_it_meanwhile_has_nothing_of_the_loss(scene):
    scene.give_up()
    other = watch(address("eve"), 1).bot
    attach_wallet(scene.seen.config, other, ADA, scene.seen.now + 1)
    scene.look_until(scene.after)
    assert scene.realized == (LOSS, LOSS)
    theirs = Attachment.get(bot=other, detached_at=None)
    assert theirs.forward_realized == 0 and Wallet.get(address=ADA).closing_at is None
    assert not scene.is_resting()
