"""Transactions that a node withheld or lost: the gap is reported, nothing false is shown, and it is
repaired later.
"""

from unittest import mock

import orjson
import pytest
from node import Chain, FakeNode
from sampling import sample
from story import ADA, RENT, Story, account_of, address, market

from models import Address, Wallet
from observing.listing import HEAD_PAGE
from operate.inspection import inspect

# Number of the chain's transactions that move something of ada's.
MOVING = len(market().moving(ADA))


# ---- what was withheld ---------------------------------------------------------------------------
def withhold(look, chain, wallet, signature, **changes):
    node = FakeNode(chain)
    node.withhold(signature)
    return node, look(node, wallets=[wallet], **changes).settle()


@pytest.mark.parametrize("place", sample(range(MOVING), 4))
def test_a_withheld_transaction_is_a_gap_until_returned(look, chain, truth, place):
    row = chain.moving(ADA)[place]
    node, seen = withhold(look, chain, ADA, row.signature)
    assert seen.state() == "partial"
    # Before the first one, no break can show: the wallet is older than its history.
    if not place:
        assert seen.gaps() == [] and "too old to fetch" in seen.coverage()["note"]
    else:
        assert any(first <= row.slot <= last for first, last, _ in seen.gaps()), row.slot
        last = max(last for _, last, _ in seen.gaps())
        later = [t for t in seen.trades() if t.kind == "sell" and t.slot > last]
        assert all(t.result is None for t in later if t.mint in row.list_mints(ADA))
    node.give(row.signature)
    # Repaired within minutes, if anything shows that it is missing.
    if not place:
        seen.clock.sleep(3_600)
    seen.look(20)
    assert seen.ledger() == truth and seen.state() == "complete"


@pytest.mark.parametrize("place", sample(range(237), 1))
@pytest.mark.parametrize("number", [0, 1])
def test_a_withheld_recorded_transaction_leaves_only_true_results(look, history, number, place):
    """What it moved is unknown until the wallet's next transaction with it."""
    wallet, chain = history["wallets"][number], Chain.recorded(history)
    told = {"wallets": [wallet], "extra_swap_programs": (history["venue"],)}
    # Everything has happened by then.
    last = chain.rows[-1].receipt["blockTime"]

    def begin(node):
        seen = look(node, **told)
        seen.clock.sleep(last - seen.now // 1000)
        return seen.settle()

    sound, node = begin(FakeNode(chain)), FakeNode(chain)
    truth, results = sound.ledger(), {t.signature: t.result for t in sound.trades()}
    row = chain.moving(wallet)[place]
    node.withhold(row.signature)
    seen, mints = begin(node), row.list_mints(wallet)
    ends = [end for begin, end, _ in seen.gaps() if begin <= row.slot <= end]
    unknown = mints.intersection(seen.coverage()["openingInventoryUnknown"])
    assert seen.state() == "partial" and (ends or unknown or not seen.gaps())
    shown = [t for t in seen.trades() if t.result is not None] if ends else []
    assert all(t.result == results[t.signature] for t in shown)
    assert not [t for t in shown if t.kind == "sell" and t.slot > max(ends) and t.mint in mints]
    node.give(row.signature)
    seen.clock.sleep(86_400)
    seen.look(6)
    assert seen.settle().ledger() == truth


def test_a_transaction_without_a_balance_change_is_found_by_the_nightly_full_scan(look):
    """No balance shows another person's transaction that only mentions ada."""
    story = Story("ada")
    story.buy("ada", "CAT", 5, 5_000)
    quiet_one = story.mention("ada")
    # So that it is below the part that the head lists again.
    for _ in range(2 * HEAD_PAGE):
        story.buy("ada", "CAT", 5, 5_000)
    node, seen = withhold(look, story.chain(), ADA, quiet_one)
    # Nothing can reveal it.
    assert seen.state() == "complete"
    node.give(quiet_one)
    seen.look(10)
    assert quiet_one not in {t.signature for t in seen.trades()}
    seen.clock.sleep(86_400)
    seen.look(2)
    assert quiet_one in {t.signature for t in seen.trades()} and seen.settle().state() == "complete"


@pytest.mark.parametrize("place", [5, -1])
def test_a_listed_but_withheld_receipt_is_waited_for(look, chain, place):
    """The closing balances reveal the last one."""
    row = chain.moving(ADA)[place]
    node = FakeNode(chain)
    node.drop(row.signature)
    seen = look(node)
    seen.look(2)
    assert (seen.state(), seen.coverage()["pending"]) == ("backfilling", 1)
    seen.look(10)
    assert (seen.state(), seen.coverage()["pending"]) == ("partial", 1)
    around = [why for first, last, why in seen.gaps() if first <= row.slot <= last]
    assert around and (place != -1 or "closing_balance" in around)
    node.give(row.signature)
    seen.clock.sleep(3_600)
    assert seen.settle().state() == "complete" and len(seen.trades()) == len(chain.touching(ADA))


def test_a_second_endpoint_provides_what_the_first_lacks(look, chain, truth):
    first, second = FakeNode(chain), FakeNode(chain)
    first.drop(*(row.signature for row in chain.touching(ADA)[3:9]))
    seen = look(first, second).settle()
    assert (seen.state(), seen.ledger()) == ("complete", truth)


def open_second_account(story, mint, raw):
    """A stranger opens another account of the mint for ada and fills it; return its name."""
    word = account_of("ada, too", mint)
    story.tokens[word] = [mint, "ada", 0]
    moves = [("lamports", "maker", word, RENT), ("tokens", mint, "maker", "ada, too", raw)]
    story.transact("maker", moves)
    return word


def test_an_untouched_account_balance_was_there_from_the_beginning(look):
    """Ada's second account of CAT got 4 in a time that the node has forgotten.

    Then 10 are bought for 1,000,000 and a fee of 5,000, and sold for 2,000,000 minus a fee. The
    oldest are sold first: 4 of unknown cost, and 6 that cost 603,000 and sell for 6/10 of 1,995,000
    = 1,197,000: 594,000 instead of 990,000.
    """
    story = Story("ada")
    second = open_second_account(story, "CAT", 4)
    story.buy("ada", "CAT", 10, 1_000_000)
    first = story.rows[-1].slot
    story.sell("ada", "CAT", 10, 2_000_000)
    node = FakeNode(story.chain())
    node.prune(first)
    seen = look(node).settle()
    sale = seen.trades()[-1]
    assert (sale.realized, sale.result, sale.unmatched_raw) == ("partial", 594_000, "4")
    assert orjson.loads(sale.flags) == ["opening_inventory_unknown"]
    assert seen.state() == "partial"
    assert seen.coverage()["openingInventoryUnknown"] == [address("CAT")]
    row = Address.get(Address.address == address(second))
    assert (row.held_mint, row.held_amount, row.held_decimals) == (address("CAT"), "4", 6)
    before = seen.ledger()
    seen.restart()
    assert seen.settle().ledger() == before
    assert [one for one in inspect(seen.config, seen.now, running=False) if one.wallet] == []
    node.restore()
    seen.clock.sleep(3_600)
    sale = seen.settle().trades()[-1]
    assert (sale.realized, sale.result, sale.flags) == ("partial", 594_000, "[]")
    assert Address.get(Address.address == address(second)).held_amount is None


def test_an_unknown_mint_is_requested_with_backoff(look):
    """At once, then after 60, 120, 240... seconds: in ten minutes at most 4.5 times."""
    story = Story("ada")
    open_second_account(story, "DOG", 4)
    story.buy("ada", "CAT", 10, 1_000_000)
    cat, dog = address("CAT"), address("DOG")
    node = FakeNode(story.chain())
    node.prune(story.rows[-1].slot)
    node.lose(dog)

    def list_positions():
        rows = orjson.loads(Wallet.get().positions)
        return sorted((row["mint"], row["amountRaw"], row["decimals"]) for row in rows)

    node._getMultipleAccounts = mock.Mock(wraps=node._getMultipleAccounts)
    seen = look(node)
    seen.look(40)
    asked = [call.args[0] for call in node._getMultipleAccounts.call_args_list]
    assert 3 <= asked.count([dog]) <= 4 and list_positions() == [(cat, "10", 6)]
    node.restore()
    node.prune(story.rows[-1].slot)
    seen.clock.sleep(3_600)
    seen.settle()
    assert list_positions() == sorted([(cat, "10", 6), (dog, "4", 6)])
