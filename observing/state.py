"""What a pass over the wallets knows and remembers: the part that all others share."""

import logging
import math
import time
from collections import defaultdict
from dataclasses import dataclass, field

from accounts.auto_posts import update_posts
from chain.coverage import is_explained
from chain.programs import table
from chain.rpc import Rpc
from chain.store import (
    LedgerStore,
    name_rules,
)

# receipts fetched for one wallet before the next has its turn
SLICE = 20
# ms between full walks
FULL_SCAN_INTERVAL_MS = 86_400_000
MIN_REPAIR_WAIT_MS, MAX_REPAIR_WAIT_MS = 30_000, 6 * 3_600_000
# A rebuild that took a second is not repeated for nine: at most a tenth of the time goes there.
APPLY_SHARE = 9
# seconds: a sleeping wallet is looked at no less often than this
MAX_SLEEP = 300.0
FINALIZED = {"commitment": "finalized"}
# Seconds between two signs of life during a long pass.
BEAT_EVERY = 10.0
log = logging.getLogger("candor.observer")


def quiet(text):
    """Nobody watches."""


@dataclass
class PutOff:
    """A step that failed for a wallet: how often in a row, and when it is tried again."""

    tries: int = 0
    until: float = -math.inf


@dataclass
class Watch:
    """What is remembered of a wallet between looks: a cache, lost without harm. Times are of the
    observer's clock, in seconds.
    """

    # address -> Holding
    holdings: dict = field(default_factory=dict)
    # address -> finished looks in a row whose balance the ledger did not explain
    misses: dict = field(default_factory=dict)
    # entries stored and not applied yet
    new: list = field(default_factory=list)
    apply_after: float = 0.0
    # ms
    repair_wait: int = MIN_REPAIR_WAIT_MS // 2
    compared_at: float = -math.inf
    # when a node last told of its present: of balances, or of the newest of its own signatures
    told_at: float = -math.inf
    # address -> when its balance was last asked for, and when its head was last listed.
    asked: dict = field(default_factory=dict)
    listed: dict = field(default_factory=dict)
    # When a slice of its walks and its backlog was last worked on.
    worked_at: float = -math.inf
    # Name of a step -> PutOff.
    put_off: dict = field(default_factory=lambda: defaultdict(PutOff))
    # when it was last looked whether the receipt of each entry is still there
    receipts_checked_at: float = -math.inf
    # Slot -> signatures stored without their place in it; None: not read yet.
    unplaced: dict | None = None
    # slots of these with several
    crowded: set = field(default_factory=set)
    # Token account without a known owner -> signatures that name it; None: not read yet.
    nameless: dict | None = None


class State:
    """Memory of the observer and of the current pass; what has to last is in the database."""

    def __init__(self, config, rpc=None, clock=time.monotonic, say=quiet, beat=None):
        self.config, self.clock, self.say = config, clock, say
        # `beat` is called now and then while a long pass goes on.
        self._beat, self._beaten = beat, -math.inf
        self.rpc = rpc or Rpc(config.solana_rpc_urls, config.rpc_requests_per_second)
        self.programs = table(config.extra_swap_programs, config.added_programs)
        self.rules = name_rules(self.programs)
        # of the last tick, for health
        self.problem = None
        # ids of wallets that failed in the last tick
        self.troubled = set()
        # how many wallets are observed
        self._watched = 0
        # of this look
        self._begun, self._end, self._now = 0.0, 0.0, 0
        # ids of wallets this look does not touch any more
        self._left = set()
        self._spare = (
            # requests that may still be made in this look where nothing is known to have moved
            0
        )
        self._timed_at = -math.inf
        self._forget()

    def _forget(self):
        self.ledger_store, self._watches = LedgerStore(update_posts), defaultdict(Watch)

    def _forget_wallet(self, wallet_id):
        self.ledger_store.forget(wallet_id)
        self._watches[wallet_id].new.clear()

    def _ledger(self, wallet):
        """The wallet's ledger with all that is stored."""
        watch, begun = self._watches[wallet.id], self.clock()
        new, watch.new = watch.new, []
        ledger = self.ledger_store.apply(wallet, new)
        if new:
            watch.apply_after = self.clock() + APPLY_SHARE * (self.clock() - begun)
        return ledger

    def _verdicts(self, wallet):
        """address -> True (explained), False, or None (the ledger is ahead of the node) as of the
        last comparison.
        """
        holdings = self._watches[wallet.id].holdings
        seen = self._ledger(wallet).seen if holdings else {}
        return {
            a: is_explained(seen.get(a), h.amount, h.lamports, h.slot) for a, h in holdings.items()
        }

    def _tell_life(self):
        if self._beat and self.clock() - self._beaten >= BEAT_EVERY:
            self._beaten = self.clock()
            self._beat()
