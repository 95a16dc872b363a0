"""An audit by a node that misbehaves in each of the replay node's ways, one at a time and all
together: never an accusation.

    python -m bench audit [--rate R ...] [--seed N]

Right is: the verdict is `same` or `cannot_tell`. Then ten thousand posts that name transactions are
audited, in under a minute beside their fetching. Exit 1 where not.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))
# Seconds: of a call that hangs, and until it is given up.
HANG, DEADLINE = 0.3, 0.25
# Above what a node may answer.
HUGE = 17 * 2**20
POSTS, MAX_SECONDS = 10_000, 60


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench audit")
    parser.add_argument("--rate", type=float, nargs="+", default=[0.1, 0.5])
    parser.add_argument("--seed", type=int, default=3)
    given = parser.parse_args(arguments)
    from corpus import REPLAY

    sys.path.append(str(REPLAY.parent))
    from replay import FAULTS

    with tempfile.TemporaryDirectory() as folder, Trial(Path(folder)) as trial:
        cases = [
            (names, rate) for names in [[one] for one in FAULTS] + [FAULTS] for rate in given.rate
        ]
        short = sum(trial.tell(names, rate, given.seed) for names, rate in cases)
        print(f"{len(cases)} cases, {short} fell short", flush=True)
        return int(bool(short) or trial.time_posts() > MAX_SECONDS)


class Trial:
    """An instance that observed the first wallet of the recorded history, and a replay node."""

    def __init__(self, folder):
        from corpus import read_history
        from lookout import Lookout
        from node import Chain, FakeNode, ReplayNode
        from service import Service

        from chain import rpc
        from chain.reading.programs import table
        from models import Bot

        history = read_history()
        self._deadline, rpc.DEADLINE_SECONDS = rpc.DEADLINE_SECONDS, DEADLINE
        self.own, self.honest = table((history["venue"],)), FakeNode(Chain.recorded(history))
        self.service = Service(
            folder / "data", extra_swap_programs=(history["venue"],), evidence_per_minute=10**8
        )
        self.lookout = Lookout.begin(
            self.service.config, self.honest, wallets=history["wallets"][:1]
        ).settle()
        self.bot = Bot.get()
        self.node = ReplayNode(folder, "--hang", HANG, "--huge", HUGE)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        from chain import rpc

        rpc.DEADLINE_SECONDS = self._deadline
        self.service.close()
        self.node.__exit__()

    def audit(self, names, rate, seed):
        """(verdict, why, differences) of an audit whose node has these faults."""
        from auditing import ask_service
        from node import FakeClock

        from chain.rpc import Rpc
        from evidence.audit import Auditor
        from evidence.claims import Instance
        from evidence.memory import Memory
        from evidence.view import Node, NodeTrouble

        self.node.control(faults=names, rate=rate, seed=seed, reset=True)
        clock = FakeClock()
        line = Rpc([self.node.url], 1e6, clock=clock, sleep=clock.sleep)
        instance = Instance("http://instance.invalid", ask_service(self.service))
        auditor = Auditor(
            instance, Node(line, clock.sleep), Memory(None), False, self.own, lambda text: None
        )
        try:
            report = auditor.audit(self.bot.uid)
        except NodeTrouble as trouble:
            return "cannot_tell", str(trouble), []
        finally:
            auditor.memory.close()
        return report.verdict, "; ".join(report.unknown), report.differences

    def tell(self, names, rate, seed):
        """Run one case and print it; whether it fell short."""
        begun = time.monotonic()
        verdict, why, differences = self.audit(names, rate, seed)
        faults = sum(self.node.stats()["faults"].values())
        name = names[0] if len(names) == 1 else "all together"
        print(
            f"{name:16} {rate}: {verdict}, {faults} faults, {time.monotonic() - begun:.1f} s"
            f" {why[:80]} {differences[:2] or ''}",
            flush=True,
        )
        return verdict == "different"

    def time_posts(self):
        """Seconds that an audit takes for the posts, its transactions fetched before."""
        from auditing import audit
        from lookout import BEGIN

        from evidence.memory import Memory
        from models import Post, Trade, Wallet
        from storage import writing

        memory = Memory(None)
        audit(self.service, self.honest, own=self.own, memory=memory)
        trades, wallet = list(Trade.select()), Wallet.get()
        with writing():
            for number in range(POSTS):
                Post.create(
                    uid=f"post_{number:024}",
                    bot=self.bot,
                    source="bot",
                    channel="api",
                    event_id=f"e{number}",
                    body="Words",
                    signature=trades[number % len(trades)].signature,
                    wallet=wallet,
                    status="pending",
                    event_at=BEGIN,
                    created_at=BEGIN,
                )
        self.lookout.look(2)
        begun = time.monotonic()
        report = audit(self.service, self.honest, own=self.own, memory=memory)
        seconds = time.monotonic() - begun
        print(f"{report.posts} posts audited in {seconds:.1f} s: {report.verdict}", flush=True)
        return seconds if report.verdict == "same" else MAX_SECONDS + 1
