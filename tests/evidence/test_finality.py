"""Finality times vary: 13 s, 150 ms, or a ten-minute stall and then a jump. All statements stay
true, and doctor reports which chain it is.
"""

import pytest
from lookout import store_post
from node import FakeNode, connect
from story import BEGIN, BEGIN_TIME, Story

from models import Post
from operate.doctor import check_finality
from web.api.health import check_health

# Ten minutes of polls every 15 s; all these slots then become final at once.
POLLS, JUMP_SLOTS = 40, 5_000


def list_states():
    return [post.status for post in Post.select().order_by(Post.id)]


def test_finality_can_stall_for_ten_minutes_and_jump(look):
    story = Story()
    story.fund("ada", 10**10)
    story.buy("ada", "CAT", 1_000, 250_000)
    node = FakeNode(story.chain())
    seen = look(node).settle()
    node.tip = story.slot
    # It has happened but isn't final.
    story.slot = BEGIN + seen.now // 1000 - BEGIN_TIME
    sold = story.sell("ada", "CAT", 400, 300_000)
    node.chain = story.chain()
    # The second one cites a transaction that doesn't exist.
    for number, signature in enumerate((sold, "5" * 88)):
        store_post(seen.wallets[0], signature, number)
    Post.update(created_at=seen.now).execute()
    before = node.calls["getTransaction"]
    for _ in range(POLLS):
        seen.look()
        health = check_health(seen.config, seen.now)["walletObserver"]
        assert (health["lagSeconds"], health["troubled"], health["pending"]) == (0, [], 0)
        assert (seen.state(), seen.coverage()["receipts"]) == ("complete", 2)
        assert list_states() == ["pending", "pending"]
    assert node.calls["getTransaction"] == before
    seen.observer.notices.add(1, "endpoint 1", seen.clock())
    story.slot += JUMP_SLOTS
    story.buy("ada", "CAT", 50, 40_000)
    node.chain, node.tip = story.chain(), None
    seen.look(6)
    assert [trade.signature for trade in seen.trades()] == [row.signature for row in story.rows]
    assert (seen.state(), seen.gaps()) == ("complete", [])
    assert list_states() == ["verified", "not_found"]


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
