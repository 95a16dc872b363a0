"""getTransactionsForAddress, which some providers offer, only makes a backfill faster: lists of
signatures decide what to fetch, and transactions missing from its responses are fetched one by one.
"""

import copy

import pytest
from lookout import Lookout
from node import FakeNode
from service import signature
from story import ADA, market

BULK = "getTransactionsForAddress"


@pytest.fixture(scope="module")
def long_chain():
    return market(seed=5, length=130)


def observe(settings, *nodes):
    return Lookout.begin(settings, *nodes, wallets=[ADA]).settle()


@pytest.fixture(scope="module")
def singly(long_chain):
    """The result of a lookout without the method, after it was requested once."""
    told = {}

    def tell(settings):
        if not told:
            node = FakeNode(long_chain)
            lookout = observe(settings, node)
            told.update(ledger=lookout.ledger(), state=lookout.state(), calls=node.calls)
        return told

    return tell


def test_a_backfill_takes_a_request_per_hundred_transactions(settings, db, long_chain, singly):
    told = singly(settings)
    node = FakeNode(long_chain)
    node.offer_bulk()
    lookout = observe(settings, node)
    assert (lookout.ledger(), lookout.state()) == (told["ledger"], told["state"])
    # It was requested once where it is missing.
    assert (told["state"], told["calls"][BULK]) == ("complete", 1)
    listed = len(long_chain.touching(ADA))
    assert told["calls"]["getTransaction"] == listed > 100
    # Transactions listed only for token accounts, few among many stored ones, are fetched one by
    # one.
    assert node.calls[BULK] <= 6 and node.calls["getTransaction"] < listed // 3
    for method in ("getSignaturesForAddress", "getMultipleAccounts"):
        assert node.calls[method] <= told["calls"][method]


def forge(data):
    """Create lamports from nothing, so that the receipt isn't accepted."""
    data = copy.deepcopy(data)
    for one in data[::2]:
        one["meta"]["postBalances"][0] += 1
    return data


def add_foreign(data):
    """Begin with copies under other signatures, as if they were other wallets' transactions."""
    foreign = copy.deepcopy(data)
    for number, one in enumerate(foreign):
        one["transaction"]["signatures"][0] = signature(f"foreign {number}")
    return foreign + data


def place(**more):
    """Move all to positions other than listed."""
    return lambda data: [{**one, **{key: one[key] + n for key, n in more.items()}} for one in data]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[::-1],
        lambda data: data + data,
        lambda data: [],
        lambda data: data[: len(data) // 3],
        lambda data: data[1::2],
        lambda data: [None, *data],
        lambda data: [{"transaction": {"signatures": []}}, *data],
        lambda data: None,
        lambda data: {"a": 1},
        lambda data: [{**one, "meta": None} for one in data],
        forge,
        add_foreign,
        place(slot=1),
        place(slot=-1_000),
        place(slot=10**6),
        place(transactionIndex=1),
        lambda data: [{**a, "slot": b["slot"]} for a, b in zip(data, data[::-1], strict=True)],
    ],
    ids=(
        "order twice nothing third half null malformed none object bare forged foreign"
        " later earlier far index reversed"
    ).split(),
)
def test_a_hostile_answer_changes_nothing(settings, db, long_chain, singly, change):
    told = singly(settings)
    node = FakeNode(long_chain)
    node.offer_bulk(change)
    lookout = observe(settings, node)
    assert (lookout.ledger(), lookout.state()) == (told["ledger"], told["state"])


def test_a_transaction_the_bulk_method_hides_is_found_missing(settings, db, long_chain):
    """It is listed, so it is requested; a node that drops it keeps the history open."""
    hidden = long_chain.moving(ADA)[7].signature
    node = FakeNode(long_chain)
    node.drop(hidden)
    node.offer_bulk()
    lookout = Lookout.begin(settings, node, wallets=[ADA])
    lookout.look(6)
    assert lookout.coverage()["pending"] == 1 and lookout.state() != "complete"
    node.give(hidden)
    assert lookout.settle().state() == "complete"


def test_another_endpoint_may_have_the_missing_transaction(settings, db, long_chain, singly):
    told = singly(settings)
    plain, rich = FakeNode(long_chain), FakeNode(long_chain)
    rich.offer_bulk()
    assert observe(settings, plain, rich).ledger() == told["ledger"]
    assert plain.calls[BULK] == 1
    assert rich.calls[BULK] >= 2
