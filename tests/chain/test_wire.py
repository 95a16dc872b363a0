"""The fake node's responses have the wire types that another library (solders) declares."""

import json

import pytest
from node import Chain, FakeNode
from solders.rpc import responses
from story import ADA, market


@pytest.mark.parametrize("encoding", ["made up", "json", "jsonParsed"])
def test_fake_nodes_use_the_wire_types(encoding, history):
    """solders' own types parse each response, for the made-up and the recorded chain."""
    is_recorded = encoding != "made up"
    chain = Chain.recorded(history, encoding) if is_recorded else market()
    node, wallet = FakeNode(chain), history["wallets"][0] if is_recorded else ADA

    def typed(kind, method, *params):
        answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": node.answer(method, params)})
        return getattr(responses, kind).from_json(answer).value

    page = typed("GetSignaturesForAddressResp", "getSignaturesForAddress", wallet, {"limit": 1000})
    listed = [row.signature for row in reversed(chain.by_address[wallet])]
    assert [str(one.signature) for one in page] == listed
    for row in chain.touching(wallet):
        got = typed("GetTransactionResp", "getTransaction", row.signature, {})
        assert (got.slot, got.transaction.meta.fee) == (row.slot, row.receipt["meta"]["fee"])
        assert list(got.transaction.meta.pre_balances) == row.receipt["meta"]["preBalances"]
    own = sorted({wallet, *chain.owned[wallet]})
    accounts = typed("GetMultipleAccountsResp", "getMultipleAccounts", own, {})
    lamports = [chain.state(one, chain.rows[-1].slot)[0] for one in own]
    assert [one.lamports if one else 0 for one in accounts] == lamports
    first = chain.rows[0]
    assert typed("GetBlockTimeResp", "getBlockTime", first.slot) == first.receipt["blockTime"]
