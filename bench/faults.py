"""Each fault of the replay node alone at 20 % of the calls, then all together, for each seed: is
the ledger the fault-free one, byte for byte?

    python -m bench faults [--seeds 1,2,3] [--rate 0.2] [--faults all|NAME,NAME] [--wallets 3]

Rests and pauses pass on a clock of our own, answers take their time on the wire. Between the looks
readers and a poster ask the interface. Exit 1 where a ledger differs, coverage says `complete` too
early, or an answer is a 5xx.
"""

import argparse
import contextlib
import itertools
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))
HANG, DEADLINE, HUGE = 0.1, 0.2, 17_000_000
ENDPOINTS, MAX_LOOKS = 3, 3_000
NAMES = [
    "timeout",
    "reset",
    "429",
    "429_ra",
    "500",
    "502_html",
    "503",
    "403",
    "truncated",
    "not_json",
    "html200",
    "wrong_type",
    "bad_id",
    "err_-32005",
    "err_-32603",
    "err_-32004",
    "err_-32014",
    "err_-32016",
    "err_429",
    "huge",
    "slow_drip",
    "nan",
    "deep",
    "null_tx",
    "wrong_tx",
    "missing_meta",
    "reorder",
    "duplicate",
    "lag",
    "hole",
    "empty",
    "short_page",
    "null_blocktime",
]


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench faults")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--rate", type=float, default=0.2)
    parser.add_argument(
        "--faults", default="all", help="names with commas; all: each alone, then all together"
    )
    parser.add_argument("--wallets", type=int, default=3, help="how many of the three")
    given = parser.parse_args(arguments)
    cases = (
        [[name] for name in NAMES] + [NAMES] if given.faults == "all" else [given.faults.split(",")]
    )
    with tempfile.TemporaryDirectory() as folder, Trial(Path(folder), given.wallets) as trial:
        short = 0
        for names, seed in itertools.product(cases, map(int, given.seeds.split(","))):
            short += trial.tell(names, given.rate, seed)
    print(
        f"{len(cases) * len(given.seeds.split(','))} runs, {short} not as they should be; the"
        f" interface answered {sum(trial.answers.values())} times: {dict(trial.answers)}"
    )
    return int(bool(short) or any(status >= 500 for status in trial.answers))


class Trial:
    """A replay node, an empty service over it, and what the node told without faults."""

    def __init__(self, folder, wallets=3):
        from corpus import read_expected, read_history
        from node import ReplayNode
        from service import Service

        from chain import rpc

        history, expected = read_history(), read_expected()
        self.wallets, self.answers = history["wallets"][:wallets], Counter()
        # Where something fails in here, too: a node left behind and a short deadline would fail
        # others.
        with contextlib.ExitStack() as undo:
            undo.callback(setattr, rpc, "DEADLINE_SECONDS", rpc.DEADLINE_SECONDS)
            rpc.DEADLINE_SECONDS = DEADLINE
            self.node = undo.enter_context(ReplayNode(folder, "--hang", HANG, "--huge", HUGE))
            self.service = Service(folder / "data", extra_swap_programs=(history["venue"],))
            undo.callback(self.service.close)
            self._look_without_faults(expected)
            self._undo = undo.pop_all()

    def _look_without_faults(self, expected):
        """What is true: a look at everything while nothing misbehaves."""
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
        seen, looks, _ = self.run([], 0, 0, None)
        self.truth, self.states, self.looks = (
            seen.ledger(),
            [seen.state(w) for w in self.wallets],
            looks,
        )

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._undo.close()

    def run(self, names, rate, seed, truth):
        """(Lookout, looks it took, how often coverage said `complete` too early)."""
        from lookout import Lookout

        import storage
        from chain.rpc import Rpc

        self.node.control(faults=names, rate=rate, seed=seed, reset=True)
        storage.database.connect(reuse_if_open=True)
        seen = Lookout.begin(self.service.config, wallets=self.wallets)
        seen.observer.state.rpc = Rpc(
            [f"{self.node.url}/{n}" for n in range(ENDPOINTS)],
            1e6,
            clock=seen.clock,
            sleep=seen.clock.sleep,
        )
        ask, early, same = self._asker(), 0, 0
        for looks in range(1, MAX_LOOKS):
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
        return seen, looks, early

    def _asker(self):
        """A reader and a poster, one request at each step."""
        from accounts import api_keys
        from models import Bot, Owner

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

    def tell(self, names, rate, seed):
        """Run one case and print its figures; whether it fell short."""
        begun = time.monotonic()
        seen, looks, early = self.run(names, rate, seed, self.truth)
        stats = self.node.stats()
        same, states = (
            seen.ledger() == self.truth,
            [seen.state(w) for w in self.wallets] == self.states,
        )
        print(
            f"{names[0] if len(names) == 1 else 'all together':16} seed {seed}:"
            f" {'same ledger' if same else 'OTHER LEDGER'}, {sum(stats['faults'].values())} faults"
            f" of {len(stats['faults'])} kinds in {stats['requests']} requests, {looks} looks,"
            f" {early} too early complete{'' if states else ', OTHER STATES'},"
            f" {time.monotonic() - begun:.1f} s",
            flush=True,
        )
        return not (same and states and not early and stats["faults"])
