"""The fake node's responses have the wire types that another library (solders) declares."""

import json

import pytest
from node import Chain, FakeNode
from solders.rpc import responses
from story import address, market


@pytest.mark.parametrize("encoding", ["made up", "json", "jsonParsed"])
def test_fake_nodes_use_the_wire_types(encoding, request):
    """solders' own types parse each response of the fake node, for the made-up and the recorded
    chain.
    """
    chain = (
        market()
        if encoding == "made up"
        else Chain.recorded(request.getfixturevalue("history"), encoding)
    )
    node, wallet = (
        FakeNode(chain),
        (
            address("ada")
            if encoding == "made up"
            else request.getfixturevalue("history")["wallets"][0]
        ),
    )

    def typed(kind, method, *params):
        answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": node.answer(method, params)})
        return getattr(responses, kind).from_json(answer).value

    page = typed("GetSignaturesForAddressResp", "getSignaturesForAddress", wallet, {"limit": 1000})
    assert [str(one.signature) for one in page] == [
        row.signature for row in reversed(chain.by_address[wallet])
    ]
    for row in chain.touching(wallet):
        got = typed("GetTransactionResp", "getTransaction", row.signature, {})
        assert (got.slot, got.transaction.meta.fee) == (row.slot, row.receipt["meta"]["fee"])
        assert list(got.transaction.meta.pre_balances) == row.receipt["meta"]["preBalances"]
    accounts = typed(
        "GetMultipleAccountsResp", "getMultipleAccounts", sorted({wallet, *chain.owned[wallet]}), {}
    )
    assert [a.lamports if a else 0 for a in accounts] == [
        chain.state(a, chain.rows[-1].slot)[0] for a in sorted({wallet, *chain.owned[wallet]})
    ]
    assert (
        typed("GetBlockTimeResp", "getBlockTime", chain.rows[0].slot)
        == chain.rows[0].receipt["blockTime"]
    )
