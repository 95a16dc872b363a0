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
    return market(seed=5, length=260)


def observe(settings, *nodes):
    return Lookout.begin(settings, *nodes, wallets=[ADA]).settle()


@pytest.fixture(scope="module")
def singly(long_chain):
    """What a lookout without the method tells, once it was asked for."""
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
    assert told["state"] == "complete"
    listed = len(long_chain.touching(ADA))
    assert told["calls"]["getTransaction"] == listed > 200
    # What only the lists of token accounts name, few among many stored ones, is fetched singly.
    assert node.calls[BULK] <= 6 and node.calls["getTransaction"] < listed // 3
    for method in ("getSignaturesForAddress", "getMultipleAccounts"):
        assert node.calls[method] <= told["calls"][method]


def test_a_node_without_the_method_is_asked_once(settings, db, long_chain, singly):
    told = singly(settings)
    assert told["calls"][BULK] == 1 and told["state"] == "complete"


def forge(data):
    """Lamports from nowhere: no receipt that is accepted."""
    data = copy.deepcopy(data)
    for one in data[::2]:
        one["meta"]["postBalances"][0] += 1
    return data


def place(**more):
    """All in other places than the lists say."""
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
        place(slot=1),
        place(slot=-1_000),
        place(slot=10**6),
        place(transactionIndex=1),
        lambda data: [{**a, "slot": b["slot"]} for a, b in zip(data, data[::-1], strict=True)],
    ],
    ids=(
        "order twice nothing third half null malformed none object bare forged"
        " later earlier far index reversed"
    ).split(),
)
def test_a_hostile_answer_changes_nothing(settings, db, long_chain, singly, change):
    told = singly(settings)
    node = FakeNode(long_chain)
    node.offer_bulk(change)
    lookout = observe(settings, node)
    assert (lookout.ledger(), lookout.state()) == (told["ledger"], told["state"])


def test_a_transaction_of_other_wallets_is_not_stored(settings, db, long_chain, singly):
    told = singly(settings)
    foreign = copy.deepcopy([row.receipt for row in long_chain.rows[:20]])
    for number, one in enumerate(foreign):
        one["transaction"]["signatures"][0] = signature(f"foreign {number}")
    node = FakeNode(long_chain)
    node.offer_bulk(lambda data: foreign + data)
    lookout = observe(settings, node)
    assert lookout.ledger() == told["ledger"]
    assert node.calls["getTransaction"] < told["calls"]["getTransaction"] // 3


def test_a_transaction_the_bulk_method_hides_is_found_missing(settings, db, long_chain):
    """It is listed, so it is asked for; a node that drops it keeps the history open."""
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
