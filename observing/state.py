"""State shared by the parts of the observer: settings, nodes, and the memory of a pass."""

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
from chain.reading.quotes import list_added
from chain.rpc import Rpc
from chain.stored.store import LedgerStore, name_rules
from config import Config
from models import Wallet
from observing.notices import Notices

# Transactions fetched for a wallet per turn.
SLICE = 20
FULL_SCAN_INTERVAL_MS = 86_400_000
MIN_REPAIR_WAIT_MS, MAX_REPAIR_WAIT_MS = 30_000, 6 * 3_600_000
# Spend at most one part in this many of the time on publishing progress: with one wallet in
# progress, publishing that took a second isn't repeated for nine; with two, for nineteen.
SHOW_PARTS = 10
# Poll a sleeping wallet at least this often.
MAX_SLEEP_SECONDS = 300.0
# `Wallet.due_at` while a pass polls a wallet that was due with 0. Writing 0 during the pass
# triggers another poll.
IN_WORK = 1
# Between heartbeats during a long pass.
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
        """Schedule a retry. The delay doubles with each failure."""
        self.until = now + min(max_seconds, first_seconds * 2 ** min(self.tries, 20))
        self.tries += 1


@dataclass
class Watch:
    """A wallet's in-memory state between polls: a cache that can be lost. Times are seconds of the
    observer's clock.
    """

    # By address: the node's answer in the last comparison.
    holdings: dict[str, Holding] = field(default_factory=dict)
    # By address: consecutive polls with an unexplained balance.
    unexplained_polls: dict[str, int] = field(default_factory=dict)
    # Entries stored but not applied yet, and when publishing them is worthwhile again.
    new_entries: list[Entry] = field(default_factory=list)
    show_after: float = 0.0
    repair_wait_ms: int = MIN_REPAIR_WAIT_MS // 2
    # When a node last returned balances or the newest of the wallet's own signatures.
    answered_at: float = -math.inf
    # By address: when its balance was last requested, and when its head was last listed.
    asked_at: dict[str, float] = field(default_factory=dict)
    listed_at: dict[str, float] = field(default_factory=dict)
    # When its full scans and backfill last had a turn.
    worked_at: float = -math.inf
    # Failed steps, by name.
    postponed: dict[str, Postponed] = field(default_factory=lambda: defaultdict(Postponed))
    # Mints whose decimals no node knows.
    decimals_postponed: dict[str, Postponed] = field(default_factory=lambda: defaultdict(Postponed))
    # Whether the last poll left nothing to do.
    quiet: bool = False
    # When we last checked that every entry's transaction is still stored.
    receipts_checked_at: float = -math.inf
    # By slot: stored signatures with an unknown position in it; None: not read yet.
    unindexed: dict[int, set[str]] | None = None
    # Slots with several of these.
    ambiguous_slots: set[int] = field(default_factory=set)
    # By token account without a known owner: signatures that name it; None: not read yet.
    ownerless: dict[str, set[str]] | None = None

    def rest_from_showing(self, begun_at: float, ended_at: float, at_work: int) -> None:
        """Schedule the next publication, based on how long this one took and how many wallets take
        turns.
        """
        self.show_after = ended_at + (SHOW_PARTS * at_work - 1) * (ended_at - begun_at)


class State:
    """Memory of the observer and of the current pass. Anything durable is in the database.

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
        self.rules = name_rules(self.programs, list_added())
        # The number of watched wallets, and of those taking turns.
        self.watched_count, self.at_work = 0, 1
        # When a slot's block time was last requested.
        self.time_asked_at = -math.inf
        self.begin_pass(0)
        self.forget()

    def begin_pass(self, now: int) -> None:
        """Start a pass over the wallets. `now` in ms."""
        self.now, self.begun_at, self.work_until = now, self.clock(), 0.0
        # Why this pass stopped, for health.
        self.problem: str | None = None
        # Ids of wallets with a failed step, and of those skipped for the rest of the pass.
        self.troubled: set[int] = set()
        self.skipped: set[int] = set()
        # Requests left for wallets without known changes.
        self.spare_requests = 0

    def forget(self) -> None:
        """Reread everything from the database, because others may have written to it."""
        self.ledger_store = LedgerStore(update_posts)
        self.watches: dict[int, Watch] = defaultdict(Watch)

    def forget_wallet(self, wallet_id: int) -> None:
        """Reread a wallet's ledger from the database."""
        self.ledger_store.forget(wallet_id)
        self.watches[wallet_id].new_entries.clear()
        self.watches[wallet_id].quiet = False

    def note_trouble(self, wallet_id: int) -> None:
        """Record for health that a step of this wallet failed."""
        self.troubled.add(wallet_id)
        self.watches[wallet_id].quiet = False

    def is_check_due(self, wallet_id: int) -> bool:
        """Whether its entries were last checked against stored transactions over a day ago."""
        checked_at = self.watches[wallet_id].receipts_checked_at
        return self.begun_at - checked_at >= FULL_SCAN_INTERVAL_MS / 1000

    def apply_entries(self, wallet: Wallet) -> Ledger:
        """Apply all stored entries to the wallet's ledger and return it."""
        watch = self.watches[wallet.id]
        if watch.quiet:
            return self.ledger_store.find(wallet.id)
        new, watch.new_entries = watch.new_entries, []
        return self.ledger_store.apply(wallet, new)

    def check_balances(self, wallet: Wallet) -> dict[str, bool | None]:
        """Return, by address, whether the ledger explains the balance in the last comparison; None
        if the ledger is ahead of that node.
        """
        holdings = self.watches[wallet.id].holdings
        seen = self.apply_entries(wallet).chain.seen if holdings else {}
        return {
            address: is_explained(seen.get(address), held) for address, held in holdings.items()
        }

    def list_unexplained(self, wallet: Wallet) -> list[str]:
        """Return addresses whose balance was unexplained in two consecutive polls."""
        polls = self.watches[wallet.id].unexplained_polls
        return sorted(address for address, count in polls.items() if count > 1)

    def show_life(self) -> None:
        if self._beat and self.clock() - self._beaten_at >= HEARTBEAT_SECONDS:
            self._beaten_at = self.clock()
            self._beat()
