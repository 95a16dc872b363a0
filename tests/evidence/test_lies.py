"""Nodes that lie: forged transactions are rejected, or caught by the chain of balances. Finality
that stalls and jumps isn't a lie.
"""

import itertools

import pytest
from lookout import store_post
from node import Chain, FakeNode, connect
from sampling import sample
from story import ADA, BEGIN, BEGIN_TIME, Story, market

from models import Post, Receipt, Trade
from operate.doctor import check_finality
from web.api.health import check_health


def list_keys(receipt):
    return [key["pubkey"] for key in receipt["transaction"]["message"]["accountKeys"]]


def skim(receipt):
    """Take a thousand lamports from ada and give them to another account: still conserved."""
    keys, after = list_keys(receipt), receipt["meta"]["postBalances"]
    other = next(n for n, key in enumerate(keys) if key != ADA)
    after[keys.index(ADA)] -= 1_000
    after[other] += 1_000


def inflate(receipt):
    """Add five units to ada's token account that don't exist."""
    row = next(b for b in receipt["meta"]["postTokenBalances"] if b["owner"] == ADA)
    row["uiTokenAmount"]["amount"] = str(int(row["uiTokenAmount"]["amount"]) + 5)


def shift(receipt):
    """Add a thousand lamports to ada before and after: the receipt stays consistent."""
    for side in ("preBalances", "postBalances"):
        receipt["meta"][side][list_keys(receipt).index(ADA)] += 1_000


def trades_of(chain):
    return [row for row in chain.moving(ADA) if ADA in row.keys and row.list_mints(ADA)]


# With the place of the trade that each is about.
LIES = list(itertools.product([inflate, skim, shift], [7, 0, -1]))


@pytest.mark.parametrize(("lie", "place"), sample(LIES, 5))
def test_a_forged_receipt_that_conserves_lamports_is_detected(look, chain, lie, place):
    """By the chain of balances or, for the last receipt, by the closing balances."""
    row, node = trades_of(chain)[place], FakeNode(chain)
    node.forge(row.signature, lie)
    seen = look(node).settle()
    assert seen.state() == "partial"
    assert any(first <= row.slot <= last for first, last, _ in seen.gaps())
    check_recovery(seen, node)


def check_recovery(seen, node):
    """Check that the history is complete once the node tells the truth."""
    node.restore()
    seen.clock.sleep(3_600)
    assert seen.settle().state() == "complete"


@pytest.mark.parametrize("liar", [0, 1])
@pytest.mark.parametrize(("lie", "place"), sample(LIES, 2))
def test_the_true_receipt_comes_from_the_other_endpoint(look, chain, lie, place, liar):
    """Whichever endpoint lies. A second endpoint that lies does no harm, not even in the nightly
    scan.
    """
    nodes = [FakeNode(chain), FakeNode(chain)]
    nodes[liar].forge(trades_of(chain)[place].signature, lie)
    seen = look(*nodes).settle()
    seen.clock.sleep(86_400)
    assert seen.settle().state() == "complete"


def test_a_lying_node_is_not_believed_about_a_real_gap(look, chain):
    """Both endpoints withhold a receipt; asked about its neighbors, the second one lies. The ledger
    keeps the version that balances better.
    """
    rows, nodes = trades_of(chain), [FakeNode(chain), FakeNode(chain)]
    for node in nodes:
        node.withhold(rows[5].signature)

    def observe():
        seen = look(*nodes).settle()
        seen.look(20)
        return seen.settle().ledger()

    truth = observe()
    for row in rows:
        nodes[1].forge(row.signature, skim)
    assert observe() == truth


IMPOSSIBLE = {
    "lamports are not conserved": lambda receipt: receipt["meta"]["postBalances"].__setitem__(0, 5),
    "no meta": lambda receipt: receipt.update(meta=None),
    "unequal": lambda receipt: receipt["meta"]["preBalances"].append(1),
    "another": lambda receipt: receipt["transaction"].update(signatures=["5" * 88]),
}


@pytest.mark.parametrize("why", IMPOSSIBLE)
def test_an_impossible_receipt_is_refused_and_named(look, chain, why):
    row, node = chain.moving(ADA)[4], FakeNode(chain)
    node.forge(row.signature, IMPOSSIBLE[why])
    seen = look(node).settle()

    assert seen.state() == "partial" and seen.coverage()["pending"] == 1
    assert [gap[:2] for gap in seen.gaps() if why in gap[2]] == [(row.slot, row.slot)]
    for table in (Receipt, Trade):
        assert not table.select().where(table.signature == row.signature).exists()
    (refused,) = check_health(seen.config, seen.now)["walletObserver"]["refused"]
    named = (refused["wallet"], refused["signature"], refused["slot"])
    assert named == (ADA, row.signature, row.slot) and why in refused["reason"]
    check_recovery(seen, node)
    assert check_health(seen.config, seen.now)["walletObserver"]["refused"] == []


def test_a_listed_receipt_of_other_wallets_stays_pending_and_derives_nothing(look, chain):
    others = market(3, ("eve",), 10).rows
    stranger = next(row for row in others if ADA not in row.keys and len(row.keys) > 2)
    node = FakeNode(Chain([*chain.rows, stranger]))
    node.chain.by_address[ADA].insert(5, stranger)
    seen = look(node).settle()
    assert stranger.signature not in {trade.signature for trade in seen.trades()}
    assert seen.state() == "partial"
    assert "any of the wallet's accounts" in seen.gaps()[0][2]


# ---- finality ------------------------------------------------------------------------------------
# Ten minutes of polls every 15 s; all these slots then become final at once.
POLLS, JUMP_SLOTS = 40, 5_000


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
        assert {post.status for post in Post.select()} == {"pending"}
    assert node.calls["getTransaction"] == before
    seen.observer.notices.add(1, "endpoint 1", seen.clock())
    story.slot += JUMP_SLOTS
    story.buy("ada", "CAT", 50, 40_000)
    node.chain, node.tip = story.chain(), None
    seen.look(6)
    assert [trade.signature for trade in seen.trades()] == [row.signature for row in story.rows]
    assert (seen.state(), seen.gaps()) == ("complete", [])
    statuses = [post.status for post in Post.select().order_by(Post.id)]
    assert statuses == ["verified", "not_found"]


def test_doctor_reports_whether_a_chain_runs_alpenglow():
    node, answers = FakeNode(Story().chain()), iter([{"slot": 5, "bitmap": "AA=="}, None])
    node._getAgGenesisCert = lambda: next(answers)
    assert "its chain runs Alpenglow, with finality" in check_finality(connect(node), 1).text
    assert "its chain does not run Alpenglow yet" in check_finality(connect(node), 1).text
    node.fail("getAgGenesisCert", -32601)
    assert "doesn't say whether its chain runs" in check_finality(connect(node), 1).text
