"""A node misbehaves on the wire: the ledger equals the one without faults, and an audit reports no
differences.

The default run samples one wallet. With `--full`: each of the 33 faults separately and all
together, three seeds, three wallets.
"""

import contextlib
import itertools
from dataclasses import replace

import pytest
from auditing import ask_service, make_auditor
from corpus import read_expected, read_history
from lookout import Lookout
from node import FakeClock, ReplayNode
from service import Service

import storage
from accounts import api_keys
from chain import rpc
from chain.reading.programs import table
from chain.rpc import Rpc
from evidence.view import Node, NodeTrouble
from models import Bot

DEADLINE = 0.2
ENDPOINTS, MAX_LOOKS = 3, 3_000
NAMES = (
    "timeout reset 429 429_ra 500 502_html 503 403 truncated not_json html200 wrong_type bad_id"
    " err_-32005 err_-32603 err_-32004 err_-32014 err_-32016 err_429 huge slow_drip nan deep"
    " null_tx wrong_tx missing_meta reorder duplicate lag hole empty short_page null_blocktime"
).split()
# Faults of lists and of transactions.
SUBTLE = (
    "reorder duplicate lag hole empty short_page null_blocktime null_tx wrong_tx missing_meta"
    " bad_id nan deep not_json truncated"
).split()


def pytest_generate_tests(metafunc):
    if "fault_names" in metafunc.fixturenames:
        cases = [(NAMES, 1), (SUBTLE, 3)]
        if metafunc.config.getoption("full"):
            cases = itertools.product([*([one] for one in NAMES), NAMES], (1, 2, 3))
        metafunc.parametrize("fault_names, seed", list(cases))


@pytest.fixture(scope="module")
def trial(tmp_path_factory, full):
    made = Trial(tmp_path_factory.mktemp("trial"), wallets=3 if full else 1)
    with made.undo:
        yield made


def test_a_node_failing_a_fifth_of_calls_gives_the_same_ledger(trial, fault_names, seed):
    """Readers and a poster get no 5xx during the run."""
    assert trial.run(fault_names, seed) == trial.truth
    assert trial.node.stats()["faults"]
    assert max(trial.statuses) < 500


def test_node_failures_accuse_nobody(trial, full):
    """An audit with a misbehaving node finds no difference, or can't tell."""
    trial.run([], 0)
    for names in [[one] for one in NAMES] if full else [SUBTLE]:
        trial.misbehave(names, seed=7)
        assert not [one for one in trial.audit() if one.count]
        assert trial.node.stats()["faults"]


class Trial:
    """A replay node, an empty service for it, and the results without failures."""

    def __init__(self, folder, wallets):
        history, expected = read_history(), read_expected()
        self.own = table((history["venue"],))
        self.wallets, self.statuses, self.truth = history["wallets"][:wallets], set(), None
        self.moving = {wallet: count_moving(expected[wallet]["rows"]) for wallet in self.wallets}
        # If something fails here too, a leftover node and a short deadline would break other tests.
        with contextlib.ExitStack() as undo:
            undo.callback(setattr, rpc, "DEADLINE_SECONDS", rpc.DEADLINE_SECONDS)
            rpc.DEADLINE_SECONDS = DEADLINE
            self.node = undo.enter_context(ReplayNode())
            self.service = Service(
                folder / "data", extra_swap_programs=(history["venue"],), evidence_per_minute=10**8
            )
            undo.callback(self.service.close)
            self.truth = self.run([], 0)
            self.undo = undo.pop_all()

    def misbehave(self, names, seed):
        self.node.control(faults=names, rate=0.2 if names else 0, seed=seed)

    def run(self, names, seed):
        """Observe until the results are the true ones, or, without faults, until nothing is new.
        Return them: the ledger, and each wallet's state.

        The coverage must not say `complete` too early.
        """
        self.misbehave(names, seed)
        storage.database.connect(reuse_if_open=True)
        seen = Lookout.begin(self.service.config, wallets=self.wallets)
        seen.observer.state.rpc = self.connect(seen.clock)
        ask, same = self._ask_and_post(), 0
        for _ in range(MAX_LOOKS):
            more = seen.look()
            self.statuses.add(next(ask).status_code)
            states = list(map(seen.state, self.wallets))
            for wallet, state in zip(self.wallets, states, strict=True):
                if state == "complete":
                    assert seen.coverage(wallet)["receipts"] >= self.moving[wallet]
            if seen.observer.problem:
                # Endpoints rest
                seen.clock.sleep(600)
            is_settled = not more and set(states) <= {"complete", "partial"}
            same = same + 1 if is_settled else 0
            if same >= 3 and (self.truth is None or seen.ledger() == self.truth[0]):
                break
        told = seen.ledger(), states
        storage.database.close()
        return told

    def connect(self, clock):
        urls = [f"{self.node.url}/{n}" for n in range(ENDPOINTS)]
        return Rpc(urls, 1e6, clock=clock, sleep=clock.sleep)

    def _ask_and_post(self):
        """Yield the responses to a reader and a poster that send one request at each step."""
        bot = Bot.select().first()
        key = self.service.make_read_key(bot.owner)
        publish = api_keys.create_key(bot.owner, "publish", 0, bot=bot).text
        lists = ("feed", "trades?limit=50", "leaderboard", "bots")
        paths = [f"/api/v1/{one}" for one in lists] + ["/api/health", "/", f"/bots/{bot.uid}"]
        for n in itertools.count():
            yield self.service.post({"eventId": f"e{n}", "body": "b"}, publish)
            for path in paths:
                yield self.service.get(path, key)

    def audit(self):
        """The reports of an audit, or none if the node stops responding."""
        clock, made = FakeClock(), make_auditor(ask_service(self.service), own=self.own)
        auditor = replace(made, node=Node(self.connect(clock), clock.sleep))
        with contextlib.suppress(NodeTrouble):
            return [auditor.audit(uid) for uid in list(auditor.instance.list_bots())[:1]]
        return []


def count_moving(rows):
    """The number of these transactions that change a wallet's balances."""
    amounts = ("solChangeLamports", "feeLamports", "rentLamports")
    return sum(bool(row["tokenChanges"]) or any(int(row[one]) for one in amounts) for row in rows)
