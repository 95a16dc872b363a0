"""A node that knows seeded wallets: what each account holds, and the last transaction. With one
that does not, every wallet shows gaps, with a reason for each token.
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
    """A FakeNode whose clock is that of this machine."""

    def _getBlockTime(self, slot):
        return int(time.time())


@contextlib.contextmanager
def seeded_node(settings):
    """The address of a node for the wallets of these settings."""
    node = SeededNode(read_chain(settings))

    def answer(body):
        asked = json.loads(body)
        result = node.answer(asked["method"], asked["params"])
        return json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()

    with servers.calling(answer) as url:
        yield url


def read_chain(settings):
    """A Chain with one transaction of each wallet: its last, which names all its accounts."""
    database = storage.connect(settings)
    with database.connection_context():
        rows = [read_last(wallet) for wallet in models.Wallet.select().order_by(models.Wallet.id)]
    database.close_all()
    return Chain(rows)


def read_last(wallet):
    """The Row of a wallet's last entry, of which each seeded one has some, with what every account
    holds after it.
    """
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
