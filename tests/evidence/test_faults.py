"""A node misbehaves on the wire: the ledger equals the one without faults, and an audit reports no
differences.

The default run samples one wallet. With `--full`: each of the 33 faults separately and all
together, three seeds, three wallets.
"""

import contextlib
import itertools
from collections import Counter

import pytest
from auditing import ask_service
from corpus import read_expected, read_history
from lookout import Lookout
from node import FakeClock, ReplayNode
from service import Service

import storage
from accounts import api_keys
from chain import rpc
from chain.reading.programs import table
from chain.rpc import Rpc
from evidence.audit import Auditor
from evidence.claims import Instance
from evidence.memory import Memory
from evidence.view import Node, NodeTrouble
from models import Bot, Owner

DEADLINE = 0.2
ENDPOINTS, MAX_LOOKS = 3, 3_000
NAMES = (
    "timeout reset 429 429_ra 500 502_html 503 403 truncated not_json html200 wrong_type bad_id"
    " err_-32005 err_-32603 err_-32004 err_-32014 err_-32016 err_429 huge slow_drip nan deep"
    " null_tx wrong_tx missing_meta reorder duplicate lag hole empty short_page null_blocktime"
).split()


LISTS = ["reorder", "duplicate", "lag", "hole", "empty", "short_page", "null_blocktime"]
RECEIPTS = ["null_tx", "wrong_tx", "missing_meta", "bad_id", "nan", "deep", "not_json", "truncated"]
SAMPLE = [(NAMES, 1), ([*LISTS, *RECEIPTS], 3)]


def pytest_generate_tests(metafunc):
    if "fault_names" in metafunc.fixturenames:
        full = metafunc.config.getoption("full")
        cases = itertools.product([*([one] for one in NAMES), NAMES], (1, 2, 3))
        metafunc.parametrize("fault_names, seed", list(cases) if full else SAMPLE)


@pytest.fixture(scope="module")
def trial(tmp_path_factory, full):
    made = Trial(tmp_path_factory.mktemp("trial"), wallets=3 if full else 1)
    yield made
    made.close()


def test_a_node_failing_a_fifth_of_calls_gives_the_same_ledger(trial, fault_names, seed):
    """Readers and a poster get no 5xx during the run."""
    assert not trial.try_faults(fault_names, 0.2, seed)
    assert not [status for status in trial.answers if status >= 500]


def test_node_failures_accuse_nobody(trial, full):
    """An audit with a misbehaving node finds no difference, or can't tell."""
    trial.run([], 0, 0, trial.truth)
    for names in [[one] for one in NAMES] if full else [[*LISTS, *RECEIPTS]]:
        verdict, differences = trial.audit(names, 0.2, seed=7)
        assert verdict in ("same", "cannot_tell") and not differences
        assert trial.node.stats()["faults"]


class Trial:
    """A replay node, an empty service for it, and the results without failures."""

    def __init__(self, folder, wallets=3):

        history, expected = read_history(), read_expected()
        self.own = table((history["venue"],))
        self.wallets, self.answers = history["wallets"][:wallets], Counter()
        # If something fails here too, a leftover node and a short deadline would break other tests.
        with contextlib.ExitStack() as undo:
            undo.callback(setattr, rpc, "DEADLINE_SECONDS", rpc.DEADLINE_SECONDS)
            rpc.DEADLINE_SECONDS = DEADLINE
            self.node = undo.enter_context(ReplayNode())
            self.service = Service(
                folder / "data", extra_swap_programs=(history["venue"],), evidence_per_minute=10**8
            )
            undo.callback(self.service.close)
            self._look_without_faults(expected)
            self._undo = undo.pop_all()

    def _look_without_faults(self, expected):
        """Observe everything while nothing misbehaves, for the true results."""
        self.moving = {
            w: sum(
                any(
                    (
                        row["tokenChanges"],
                        int(row["solChangeLamports"]),
                        int(row["feeLamports"]),
                        int(row["rentLamports"]),
                    )
                )
                for row in expected[w]["rows"]
            )
            for w in self.wallets
        }
        seen, _ = self.run([], 0, 0, None)
        self.truth, self.states = seen.ledger(), [seen.state(w) for w in self.wallets]

    def close(self):
        self._undo.close()

    def run(self, names, rate, seed, truth):
        """(Lookout, number of times that coverage said `complete` too early)."""
        self.node.control(faults=names, rate=rate, seed=seed)
        storage.database.connect(reuse_if_open=True)
        seen = Lookout.begin(self.service.config, wallets=self.wallets)
        seen.observer.state.rpc = self.connect(seen.clock)
        ask, early, same = self._asker(), 0, 0
        for _ in range(1, MAX_LOOKS):
            more = seen.look()
            next(ask)
            early += any(
                seen.state(w) == "complete" and seen.coverage(w)["receipts"] < self.moving[w]
                for w in self.wallets
            )
            if seen.observer.problem:
                # Endpoints rest
                seen.clock.sleep(600)
            same = (
                same + 1
                if not more and all(seen.state(w) in ("complete", "partial") for w in self.wallets)
                else 0
            )
            if same >= 3 and (truth is None or seen.ledger() == truth):
                break
        storage.database.close()
        return seen, early

    def connect(self, clock):
        urls = [f"{self.node.url}/{n}" for n in range(ENDPOINTS)]
        return Rpc(urls, 1e6, clock=clock, sleep=clock.sleep)

    def _asker(self):
        """A reader and a poster that send one request at each step."""
        bot = Bot.select().first()
        key, publish = (
            api_keys.create_key(
                Owner.get_by_id(bot.owner_id), scope, 0, bot=bot if scope == "publish" else None
            ).text
            for scope in ("read", "publish")
        )
        paths = [
            "/api/v1/feed",
            "/api/v1/trades?limit=50",
            "/api/v1/leaderboard",
            "/api/v1/bots",
            "/api/health",
            "/",
            f"/bots/{bot.uid}",
        ]
        for n in itertools.count():
            answer = (
                self.service.get(paths[n % len(paths)], key)
                if n % 8
                else self.service.post({"eventId": f"e{n}", "body": "b"}, publish)
            )
            self.answers[answer.status_code] += 1
            yield

    def try_faults(self, names, rate, seed):
        """Run one case; return its problems."""
        seen, early = self.run(names, rate, seed, self.truth)
        found = {
            "another ledger": seen.ledger() != self.truth,
            "other states": [seen.state(w) for w in self.wallets] != self.states,
            "complete too early": early,
            "no faults": not self.node.stats()["faults"],
        }
        return [name for name, is_so in found.items() if is_so]

    def audit(self, names, rate, seed):
        """(verdict, differences) of an audit whose node fails like this."""
        self.node.control(faults=names, rate=rate, seed=seed)
        instance, clock = (
            Instance("http://instance.invalid", ask_service(self.service)),
            FakeClock(),
        )
        memory = Memory(None)
        node = Node(self.connect(clock), clock.sleep)
        auditor = Auditor(instance, node, memory, False, self.own, lambda text: None)
        try:
            with storage.database.connection_context():
                uid = Bot.select().order_by(Bot.id).first().uid
            report = auditor.audit(uid)
        except NodeTrouble:
            return "cannot_tell", []
        finally:
            memory.close()
        return report.verdict, report.differences
