"""What the parts of the observer share: the settings, the nodes, and the memory of a pass."""

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from accounts.auto_posts import update_posts
from chain.ledger.coverage import is_explained
from chain.ledger.ledger import Ledger
from chain.reading.answers import Holding
from chain.reading.entries import Entry
from chain.reading.programs import table
from chain.rpc import Rpc
from chain.stored.store import LedgerStore, name_rules
from config import Config
from models import Wallet
from observing.notices import Notices

# Transactions fetched for one wallet before the next one has its turn.
SLICE = 20
FULL_SCAN_INTERVAL_MS = 86_400_000
MIN_REPAIR_WAIT_MS, MAX_REPAIR_WAIT_MS = 30_000, 6 * 3_600_000
# At most one part in this many of the time goes into showing work: what took a second is not
# repeated for nine where one wallet is worked on, for nineteen where two are.
SHOW_PARTS = 10
# A sleeping wallet is polled no less often than this.
MAX_SLEEP_SECONDS = 300.0
# `Wallet.due_at` while a pass polls a wallet that was due with 0: writing 0 during the pass has it
# polled again.
IN_WORK = 1
# Between two signs of life during a long pass.
HEARTBEAT_SECONDS = 10.0
FINALIZED = {"commitment": "finalized"}
log = logging.getLogger("candor.observer")


def ignore_progress(text: str) -> None:
    """Discard progress reports."""


@dataclass
class Postponed:
    """Consecutive failures of a step, and when to retry it."""

    tries: int = 0
    until: float = -math.inf

    def postpone(self, now: float, first_seconds: float, max_seconds: float) -> None:
        """Try again later; the pause doubles with each failure."""
        self.until = now + min(max_seconds, first_seconds * 2 ** min(self.tries, 20))
        self.tries += 1


@dataclass
class Watch:
    """What is remembered of a wallet between polls: a cache, lost without harm. Times are seconds
    of the observer's clock.
    """

    # By address, the node's answer to the last comparison.
    holdings: dict[str, Holding] = field(default_factory=dict)
    # By address, polls in a row whose balance the ledger did not explain.
    unexplained_polls: dict[str, int] = field(default_factory=dict)
    # Entries stored and not applied yet, and when showing them is worth its time again.
    new_entries: list[Entry] = field(default_factory=list)
    show_after: float = 0.0
    repair_wait_ms: int = MIN_REPAIR_WAIT_MS // 2
    # When a node last answered with balances or with the newest of the wallet's own signatures.
    answered_at: float = -math.inf
    # By address, when its balance was last asked for, and when its head was last listed.
    asked_at: dict[str, float] = field(default_factory=dict)
    listed_at: dict[str, float] = field(default_factory=dict)
    # When a slice of its full scans and its backfill was last worked on.
    worked_at: float = -math.inf
    # By name, the steps that failed.
    postponed: dict[str, Postponed] = field(default_factory=lambda: defaultdict(Postponed))
    # By mint, those whose decimals no node knows.
    decimals_postponed: dict[str, Postponed] = field(default_factory=lambda: defaultdict(Postponed))
    # Whether its last poll left nothing to do.
    quiet: bool = False
    # When it was last checked whether the transaction of each entry is still stored.
    receipts_checked_at: float = -math.inf
    # By slot, signatures stored without their place in it; None: not read yet.
    unindexed: dict[int, set[str]] | None = None
    # The slots that hold several of these.
    ambiguous_slots: set[int] = field(default_factory=set)
    # By token account without a known owner, signatures that name it; None: not read yet.
    ownerless: dict[str, set[str]] | None = None

    def rest_from_showing(self, begun_at: float, ended_at: float, at_work: int) -> None:
        """Note how long showing what is done took, and when it is worth its time again, where so
        many wallets are worked on in turn.
        """
        self.show_after = ended_at + (SHOW_PARTS * at_work - 1) * (ended_at - begun_at)


class State:
    """Memory of the observer and of the current pass. Everything durable is in the database.

    `report` is called with a sentence about each step of progress, `beat` every few seconds during
    a long pass.
    """

    def __init__(
        self,
        config: Config,
        rpc: Rpc | None = None,
        clock: Callable[[], float] = time.monotonic,
        report: Callable[[str], None] = ignore_progress,
        beat: Callable[[], None] | None = None,
    ) -> None:
        self.config, self.clock, self.report = config, clock, report
        self._beat, self._beaten_at = beat, -math.inf
        self.notices = Notices()
        self.rpc = rpc or Rpc(config.solana_rpc_urls, config.rpc_requests_per_second)
        self.programs = table(config.extra_swap_programs, config.added_programs)
        self.rules = name_rules(self.programs)
        # How many wallets are watched, and how many of them are worked on in turn.
        self.watched_count, self.at_work = 0, 1
        # When the block time of a slot was last asked for.
        self.time_asked_at = -math.inf
        self.begin_pass(0)
        self.forget()

    def begin_pass(self, now: int) -> None:
        """Start a pass over the wallets; `now` in ms."""
        self.now, self.begun_at, self.work_until = now, self.clock(), 0.0
        # Of this pass, for health: why it could not go on.
        self.problem: str | None = None
        # Ids of wallets of which a step failed, and of those that are not touched any more.
        self.troubled: set[int] = set()
        self.skipped: set[int] = set()
        # Requests that may still be made where nothing is known to have moved.
        self.spare_requests = 0

    def forget(self) -> None:
        """Read everything from the database again: others may have written to it."""
        self.ledger_store = LedgerStore(update_posts)
        self.watches: dict[int, Watch] = defaultdict(Watch)

    def forget_wallet(self, wallet_id: int) -> None:
        """Read the ledger of a wallet from the database again."""
        self.ledger_store.forget(wallet_id)
        self.watches[wallet_id].new_entries.clear()
        self.watches[wallet_id].quiet = False

    def note_trouble(self, wallet_id: int) -> None:
        """Remember that a step of this wallet failed, for health."""
        self.troubled.add(wallet_id)
        self.watches[wallet_id].quiet = False

    def is_check_due(self, wallet_id: int) -> bool:
        """Whether a day has passed since its entries were last compared with what is stored."""
        checked_at = self.watches[wallet_id].receipts_checked_at
        return self.begun_at - checked_at >= FULL_SCAN_INTERVAL_MS / 1000

    def apply_entries(self, wallet: Wallet) -> Ledger:
        """Apply all stored entries to the wallet's ledger, and return it."""
        watch = self.watches[wallet.id]
        if watch.quiet:
            return self.ledger_store.find(wallet.id)
        new, watch.new_entries = watch.new_entries, []
        return self.ledger_store.apply(wallet, new)

    def check_balances(self, wallet: Wallet) -> dict[str, bool | None]:
        """By address, whether the ledger explains the balance of the last comparison; None where
        the ledger is ahead of that node.
        """
        holdings = self.watches[wallet.id].holdings
        seen = self.apply_entries(wallet).chain.seen if holdings else {}
        return {
            address: is_explained(seen.get(address), held) for address, held in holdings.items()
        }

    def list_unexplained(self, wallet: Wallet) -> list[str]:
        """Addresses whose balance the ledger did not explain in two polls in a row."""
        polls = self.watches[wallet.id].unexplained_polls
        return sorted(address for address, count in polls.items() if count > 1)

    def show_life(self) -> None:
        if self._beat and self.clock() - self._beaten_at >= HEARTBEAT_SECONDS:
            self._beaten_at = self.clock()
            self._beat()
