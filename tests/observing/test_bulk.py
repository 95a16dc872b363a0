"""getTransactionsForAddress, which some providers offer, only makes a backfill faster: lists of
signatures decide what to fetch, and transactions missing from its responses are fetched one by one.
"""

import copy

import pytest
from node import FakeNode
from service import signature
from story import ADA, market

BULK = "getTransactionsForAddress"


def offer(chain, *change):
    node = FakeNode(chain)
    node.offer_bulk(*change)
    return node


def read(seen):
    return seen.ledger(), seen.state()


def test_a_backfill_takes_a_request_per_hundred_transactions(look):
    chain = market(seed=5, length=130)
    plain, rich = FakeNode(chain), offer(chain)
    truth, told = (read(look(node).settle()) for node in (plain, rich))
    assert told == truth and told[1] == "complete"
    # It was requested once where it is missing.
    listed = len(chain.touching(ADA))
    assert plain.calls[BULK] == 1 and plain.calls["getTransaction"] == listed > 100
    # Transactions listed only for token accounts, few among many stored ones, are fetched one by
    # one.
    assert rich.calls[BULK] <= 6 and rich.calls["getTransaction"] < listed // 3
    for method in ("getSignaturesForAddress", "getMultipleAccounts"):
        assert rich.calls[method] <= plain.calls[method]
    # Another endpoint may offer it.
    plain.calls.clear()
    rich.calls.clear()
    assert read(look(plain, rich).settle()) == truth
    assert plain.calls[BULK] == 1 and rich.calls[BULK] >= 2


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


HOSTILE = {
    "honest": lambda data: data,
    "order": lambda data: data[::-1],
    "twice": lambda data: data + data,
    "nothing": lambda data: [],
    "third": lambda data: data[: len(data) // 3],
    "half": lambda data: data[1::2],
    "null": lambda data: [None, *data],
    "malformed": lambda data: [{"transaction": {"signatures": []}}, *data],
    "none": lambda data: None,
    "object": lambda data: {"a": 1},
    "bare": lambda data: [{**one, "meta": None} for one in data],
    "forged": forge,
    "foreign": add_foreign,
    "later": place(slot=1),
    "earlier": place(slot=-1_000),
    "far": place(slot=10**6),
    "index": place(transactionIndex=1),
    "reversed": lambda data: [
        {**a, "slot": b["slot"]} for a, b in zip(data, data[::-1], strict=True)
    ],
}


@pytest.mark.parametrize("change", HOSTILE)
def test_a_hostile_answer_changes_nothing(look, chain, truth, change):
    node = offer(chain, HOSTILE[change])
    seen = look(node).settle()
    assert (seen.ledger(), seen.state()) == (truth, "complete") and node.calls[BULK]
