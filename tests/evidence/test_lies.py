"""Nodes that lie: forged transactions are rejected, or caught by the chain of balances."""

import pytest
from node import Chain, FakeNode
from sampling import sample
from story import ADA, market

from models import Receipt, Trade
from web.api.health import check_health


# ---- lies ----------------------------------------------------------------------------------------
def skim(receipt):
    """A thousand lamports less for ada, a thousand more for whoever else is there: still
    conserved.
    """
    meta, keys = (
        receipt["meta"],
        [key["pubkey"] for key in receipt["transaction"]["message"]["accountKeys"]],
    )
    other = next(n for n, key in enumerate(keys) if key != ADA)
    meta["postBalances"][keys.index(ADA)] -= 1_000
    meta["postBalances"][other] += 1_000


def inflate(receipt):
    """Five units more on ada's token account than there are."""
    row = next(b for b in receipt["meta"]["postTokenBalances"] if b["owner"] == ADA)
    row["uiTokenAmount"]["amount"] = str(int(row["uiTokenAmount"]["amount"]) + 5)


def shift(receipt):
    """A thousand lamports more for ada before and after: the receipt itself is consistent in
    everything.
    """
    meta, keys = (
        receipt["meta"],
        [key["pubkey"] for key in receipt["transaction"]["message"]["accountKeys"]],
    )
    for side in ("preBalances", "postBalances"):
        meta[side][keys.index(ADA)] += 1_000


def trades_of(chain):
    return [row for row in chain.moving(ADA) if ADA in row.keys and row.list_mints(ADA)]


@pytest.mark.parametrize("lie", [skim, inflate, shift])
@pytest.mark.parametrize("place", sample([7, 0, -1], 2))
def test_a_forged_receipt_that_conserves_lamports_is_detected(look, chain, lie, place):
    """By the chain of balances, or if it is the last one by the closing balances."""
    row = trades_of(chain)[place]
    node = FakeNode(chain)
    node.forge(row.signature, lie)
    seen = look(node).settle()
    assert seen.state() == "partial" and any(
        first <= row.slot <= last for first, last, _ in seen.gaps()
    )
    node.restore()
    seen.clock.sleep(3_600)
    # Asked again, it told the truth.
    assert seen.settle().state() == "complete"


@pytest.mark.parametrize("liar", [0, 1])
@pytest.mark.parametrize("lie", [skim, inflate, shift])
@pytest.mark.parametrize("place", sample([7, 0, -1], 1))
def test_the_true_receipt_comes_from_the_other_endpoint(look, chain, lie, place, liar):
    """Whichever lies. A second endpoint that lies spoils nothing, by night neither."""
    row = trades_of(chain)[place]
    nodes = [FakeNode(chain), FakeNode(chain)]
    nodes[liar].forge(row.signature, lie)
    seen = look(*nodes).settle()
    seen.clock.sleep(86_400)
    assert seen.settle().state() == "complete"


def test_a_lying_node_is_not_believed_about_a_real_gap(look, chain):
    """A receipt is withheld by both; asked about its neighbours, the second endpoint lies. The
    ledger keeps what holds better.
    """
    rows = trades_of(chain)
    nodes = [FakeNode(chain), FakeNode(chain)]
    for node in nodes:
        node.withhold(rows[5].signature)
    honest = look(*nodes).settle()
    honest.look(20)
    truth = honest.settle().ledger()
    for row in rows:
        nodes[1].forge(row.signature, skim)
    seen = look(*nodes).settle()
    seen.look(20)
    assert seen.settle().ledger() == truth


@pytest.mark.parametrize(
    "why, lie",
    [
        ("lamports are not conserved", lambda r: r["meta"]["postBalances"].__setitem__(0, 5)),
        ("no meta", lambda r: r.__setitem__("meta", None)),
        ("unequal", lambda r: r["meta"]["preBalances"].append(1)),
        ("another", lambda r: r["transaction"].__setitem__("signatures", ["5" * 88])),
    ],
)
def test_an_impossible_receipt_is_refused_and_named(look, chain, why, lie):
    row = chain.moving(ADA)[4]
    node = FakeNode(chain)
    node.forge(row.signature, lie)
    seen = look(node).settle()
    assert seen.state() == "partial" and (row.slot, row.slot) in {
        (first, last) for first, last, reason in seen.gaps() if why in reason
    }
    assert (
        not Receipt.select().where(Receipt.signature == row.signature).exists()
        and not Trade.select().where(Trade.signature == row.signature).exists()
    )
    assert seen.coverage()["pending"] == 1
    refused = check_health(seen.config, seen.now)["walletObserver"]["refused"]
    assert [(r["wallet"], r["signature"], r["slot"]) for r in refused] == [
        (ADA, row.signature, row.slot)
    ] and why in refused[0]["reason"]
    node.restore()
    seen.clock.sleep(3_600)
    assert (
        seen.settle().state() == "complete"
        and check_health(seen.config, seen.now)["walletObserver"]["refused"] == []
    )


def test_a_receipt_of_other_wallets_is_not_stored(look, chain):
    """A node that lists for ada what does not name her: kept pending, nothing derived."""
    stranger = next(
        row for row in market(3, ("eve",), 10).rows if ADA not in row.keys and len(row.keys) > 2
    )
    node = FakeNode(Chain([*chain.rows, stranger]))
    node.chain.by_address[ADA].insert(5, stranger)
    seen = look(node).settle()
    assert (
        stranger.signature not in {t.signature for t in seen.trades()}
        and seen.state() == "partial"
        and "doesn't involve" in seen.gaps()[0][2]
    )
