"""Written histories as the observer sees them: attacks and their honest twins, and every gap."""

import re

import orjson
import pytest
from histories import TextHistory, read_file
from lookout import BEGIN
from node import Chain, FakeNode

from accounts import posts
from chain.ledger.totals import ALL_HISTORY
from models import Attachment, Post, Trade, Wallet


@pytest.fixture
def observed(look, full):
    """(some attacks and their twins, and every gap; their node; the Lookout over it)."""
    hidden = [one for one in read_file("ordinary.txt") if "\nhidden" in f"\n{one[1]}"]
    first = [one for one in read_file("attacks.txt") if not re.search(r" ([2-9]|\d\d)$", one[0])]
    told = [TextHistory(text, title) for title, text in [*first[:: 2 if full else 6], *hidden]]
    node = FakeNode(Chain([row for one in told for row in one.listed]))
    node.withhold(*(signature for one in told for signature in one.hidden))
    seen = look(node, wallets=[one.address("ada") for one in told])
    Attachment.update(attached_at=0).execute()
    seen.look(8)
    return told, node, seen


def test_observer_and_posts_agree(observed):
    """Every transaction is posted, and exactly those that the text marks are verified. A history is
    complete unless the node hides part of it.
    """
    told, node, seen = observed
    for one in told:
        assert_stored(one)
        assert seen.state(one.address("ada")) == ("partial" if one.hidden else "complete")
        publish_all(one)
    seen.look(2)
    verified = set(Post.select(Post.signature).where(Post.status == "verified").tuples())
    for one in told:
        expected = {
            row for row, text in one.checks if "post verified" in text.partition(" bob: ")[0]
        }
        refused = {
            row for row, text in one.checks if re.search("unverified|post (none|mism)", text)
        }
        found = {row for (row,) in verified} & {row.signature for row in one.listed}
        assert expected <= found and not refused & found, one.name
    for one in told:
        node.give(*one.hidden)
        one.hidden.clear()
    seen.clock.sleep(3_600)
    seen.look(10)
    for one in told:
        assert_stored(one)
        assert seen.state(one.address("ada")) == "complete"


def assert_stored(history):
    """Check that the stored rows match the ledger of the history."""
    wallet = Wallet.get(Wallet.address == history.address("ada"))
    told = history.read()
    rows = {row.signature: row for row in Trade.select().where(Trade.wallet == wallet)}
    assert rows.keys() == told.booked.keys()
    for one in told.entries:
        row, result = rows[one.signature], find_result(told.booked[one.signature])
        # A trade against a stablecoin is stored as a purchase or sale.
        assert one.kind in (row.kind, "swap") and row.result == result, history.name
    stored = orjson.loads(wallet.results)["realizedLamports"]
    assert stored == str(told.ledger.totals.realized) and wallet.imbalance == 0


def find_result(booked):
    """The result in the trade's currency."""
    known = [one.result for (_, view), one in booked.items() if view == ALL_HISTORY]
    return next((one for one in known if one is not None), None)


def publish_all(history):
    """Post every transaction of the bot's wallet."""
    wallet = Wallet.get(Wallet.address == history.address("ada"))
    for number, row in enumerate(history.listed):
        body = posts.PostBody(eventId=f"e{number}", body="Mine.", signature=row.signature)
        posts.publish(wallet.bot_id, body, BEGIN + 3_600_000 + number, "api")
