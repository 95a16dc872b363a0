"""Finality times vary: 13 s, 150 ms, or a ten-minute stall and then a jump. All statements stay
true, and doctor reports which chain it is.
"""

import pytest
from node import FakeNode, connect
from story import BEGIN, BEGIN_TIME, Story

from models import Bot, Post
from operate.doctor import check_finality
from web.api.health import check_health

# Ten minutes of polls each 15 s; slots that become final at once after them.
POLLS, JUMP_SLOTS = 40, 5_000


def write_post(seen, uid, signature):
    Post.create(
        uid=uid,
        bot=Bot.get(),
        source="bot",
        channel="api",
        event_id=uid,
        body="b",
        signature=signature,
        wallet=seen.wallets[0],
        status="pending",
        event_at=seen.now,
        created_at=seen.now,
    )


def states():
    return {post.uid: post.status for post in Post.select()}


def test_finality_can_stall_for_ten_minutes_and_jump(look):
    story = Story()
    story.fund("ada", 10**10)
    story.buy("ada", "CAT", 1_000, 250_000)
    node = FakeNode(story.chain())
    seen = look(node).settle()
    node.tip = story.slot
    # It happens now, and is not final.
    story.slot = BEGIN + seen.now // 1000 - BEGIN_TIME
    sold = story.sell("ada", "CAT", 400, 300_000)
    node.chain = story.chain()
    write_post(seen, "of a sale", sold)
    write_post(seen, "of nothing", "5" * 88)
    before = node.calls["getTransaction"]
    for _ in range(POLLS):
        seen.look()
        health = check_health(seen.config, seen.now)["walletObserver"]
        assert (health["lagSeconds"], health["troubled"], health["pending"]) == (0, [], 0)
        assert (seen.state(), seen.coverage()["receipts"]) == ("complete", 2)
        assert states() == {"of a sale": "pending", "of nothing": "pending"}
    assert node.calls["getTransaction"] == before
    seen.observer.notices.add(1, "endpoint 1", seen.clock())
    story.slot += JUMP_SLOTS
    story.buy("ada", "CAT", 50, 40_000)
    node.chain, node.tip = story.chain(), None
    seen.look(6)
    assert [trade.signature for trade in seen.trades()] == [row.signature for row in story.rows]
    assert (seen.state(), seen.gaps()) == ("complete", [])
    assert states() == {"of a sale": "verified", "of nothing": "not_found"}


@pytest.mark.parametrize(
    "answer, told",
    [
        ({"slot": 5, "bitmap": "AA=="}, "its chain runs Alpenglow"),
        (None, "its chain does not run Alpenglow yet"),
        (-32601, "doesn't say whether its chain runs Alpenglow"),
    ],
)
def test_doctor_reports_whether_a_chain_runs_alpenglow(answer, told):
    node = FakeNode(Story().chain())
    if isinstance(answer, int):
        node.fail("getAgGenesisCert", answer)
    node._getAgGenesisCert = lambda: answer
    assert told in check_finality(connect(node), 1).text
