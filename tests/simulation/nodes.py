"""A world's nodes: they lag, lie, forget, fail and are slow, until they are healed."""

from node import FakeNode

# Duration of a request to a slow node.
SLOW_SECONDS = 6.0
CODES = (-32603, -32005, 429, -32004, -32601)
METHODS = ("getTransaction", "getSignaturesForAddress", "getMultipleAccounts")


class Node(FakeNode):
    """A node that follows the chain with a lag."""

    def __init__(self, world):
        super().__init__(world.tale.chain)
        self._world = world

    def restore(self):
        super().restore()
        self.lag, self.seconds = 0, 0.0

    def answer(self, method, params):
        self._world.clock.sleep(self.seconds)
        self._world.go_beside()
        return super().answer(method, params)

    def _now(self):
        return max(self.chain.rows[0].slot, self._world.tip - self.lag)

    def misbehave(self, kind, place, row):
        """Start to misbehave, about this transaction or as `place` chooses."""
        {
            "withhold": lambda: self.withhold(row.signature),
            "drop": lambda: self.drop(row.signature),
            "forge": lambda: self.forge(row.signature, skim),
            "unindex": lambda: self.hide_index(blocks=place % 2 == 0),
            "fail": lambda: self.fail(METHODS[place % 3], CODES[place % 5]),
            "lag": lambda: setattr(self, "lag", place % 20),
            "slow": lambda: setattr(self, "seconds", SLOW_SECONDS),
            "forget": lambda: self.prune(row.slot),
        }[kind]()


def skim(receipt):
    """Take a thousand lamports from the payer and give them to another account."""
    receipt["meta"]["postBalances"][0] -= 1_000
    receipt["meta"]["postBalances"][-1] += 1_000
