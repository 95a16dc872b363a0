"""A node that knows seeded wallets: their accounts' balances, and the last transaction. With a node
that doesn't, every wallet shows gaps, with a reason for each token.
"""

import contextlib
import json
import sys
import time

import models
import storage
from bench import _servers as servers
from chain.stored.store import list_entries

sys.path.append(str(servers.ROOT / "tests"))

from node import Chain, FakeNode, Row


class SeededNode(FakeNode):
    """A FakeNode that uses this machine's clock."""

    def _getBlockTime(self, slot):
        return int(time.time())


@contextlib.contextmanager
def seeded_node(settings):
    """Yield the address of a node for these settings' wallets."""
    node = SeededNode(read_chain(settings))

    def answer(body):
        asked = json.loads(body)
        result = node.answer(asked["method"], asked["params"])
        return json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()

    with servers.calling(answer) as url:
        yield url


def read_chain(settings):
    """Read a Chain with one transaction per wallet: its last, which names all its accounts."""
    database = storage.connect(settings)
    with database.connection_context():
        rows = [read_last(wallet) for wallet in models.Wallet.select().order_by(models.Wallet.id)]
    database.close_all()
    return Chain(rows)


def read_last(wallet):
    """Return the Row of a wallet's last entry, with the balances of all its accounts after it."""
    held = {}
    for entry in list_entries(wallet.id):
        held.update((balance.address, balance) for balance in entry.balances)
    tokens = [
        {
            "accountIndex": place,
            "mint": balance.mint,
            "owner": wallet.address,
            "uiTokenAmount": {"amount": str(balance.after), "decimals": balance.decimals},
        }
        for place, balance in enumerate(held.values())
        if balance.mint
    ]
    receipt = {
        "transaction": {"message": {"accountKeys": list(held)}},
        "blockTime": entry.block_time,
        "meta": {
            "err": None,
            "postBalances": [balance.lamports_after for balance in held.values()],
            "preTokenBalances": [],
            "postTokenBalances": tokens,
        },
    }
    return Row(entry.signature, entry.slot, entry.tx_index, receipt)
