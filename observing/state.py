"""The parts' shared state: settings, nodes, notices and data of the current pass.

A failed step either concerns one wallet, which is postponed, or all wallets, which stops the pass.
"""

import logging
import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import storage
from accounts.auto_posts import update_posts
from chain.ledger.coverage import Progress, describe_trouble, is_explained
from chain.ledger.ledger import Ledger
from chain.reading.currencies import list_added
from chain.reading.entries import Entry
from chain.reading.flows import Holding
from chain.reading.programs import table
from chain.rpc import Resting, Rpc, RpcError, Unavailable
from chain.stored.derived import read_coverage
from chain.stored.store import LedgerStore, PendingLedger, name_rules, show_coverage
from chain.stored.trades import to_json
from config import Config
from models import IS_PROGRAM, Wallet

# ---- notices -------------------------------------------------------------------------------------
# The minimum time between polls of a wallet because of notices, and how long the first poll waits
# for other notices about the same transaction.
MIN_PAUSE_SECONDS, SETTLE_SECONDS = 1.0, 0.2
# Polls for a notice until something new is found. The polled node may lag behind.
MAX_TRIES = 3
# A notice that arrives this soon after new transactions may be about them.
LATE_SECONDS = 1.0
# Mute an endpoint after this many consecutive false notices.
MAX_FALSE = 50
# After a poll finds something without a notice, treat the wallet as not covered for a while. Allow
# GRACE_SECONDS for the notice to arrive.
DISTRUST_SECONDS, GRACE_SECONDS = 600.0, 5.0


class Subscription(NamedTuple):
    """Notifies about transactions that mention a wallet, or about changes of a token account."""

    wallet_id: int
    wallet: str
    account: str | None = None


@dataclass
class Call:
    """Notices about a wallet that no poll has answered yet."""

    begun_at: float
    endpoints: set[str] = field(default_factory=set)
    tries: int = 0


class Notices:
    def __init__(self) -> None:
        self._news = threading.Condition()
        # By wallet: those waiting, those of them that are due in the database, and those in the
        # running pass.
        self._waiting: dict[int, Call] = {}
        self._urgent: set[int] = set()
        self._polled: dict[int, Call] = {}
        # By wallet: the last poll because of notices, the last notice, the last poll that found
        # something, and the last find without a notice.
        self._asked_at: dict[int, float] = {}
        self._told_at: dict[int, float] = {}
        self._found_at: dict[int, float] = {}
        self._missed_at: dict[int, float] = {}
        self._covered: dict[str, set[int]] = {}
        self._false: Counter[str] = Counter()
        # Most important first, the same for every endpoint.
        self.wanted: tuple[Subscription, ...] = ()

    # ---- for listeners ---------------------------------------------------------------------------
    def add(self, wallet_id: int, endpoint: str, now: float) -> None:
        with self._news:
            self._told_at[wallet_id] = now
            if now - self._missed_at.get(wallet_id, -math.inf) < GRACE_SECONDS:
                del self._missed_at[wallet_id]
            self._waiting.setdefault(wallet_id, Call(now)).endpoints.add(endpoint)
            self._news.notify_all()

    def note_false(self, endpoint: str) -> None:
        with self._news:
            self._false[endpoint] += 1

    def is_false(self, endpoint: str) -> bool:
        """Return whether to mute an endpoint. If so, drop its notices and reset their count."""
        with self._news:
            if self._false[endpoint] < MAX_FALSE:
                return False
            del self._false[endpoint]
            for call in self._waiting.values():
                call.endpoints.discard(endpoint)
            self._waiting = {key: one for key, one in self._waiting.items() if one.endpoints}
            return True

    def cover(self, endpoint: str, wallet_ids: set[int]) -> None:
        with self._news:
            self._covered[endpoint] = wallet_ids

    # ---- for the job that subscribes -------------------------------------------------------------
    def want(self, wanted: tuple[Subscription, ...]) -> None:
        ids = {one.wallet_id for one in wanted}
        with self._news:
            self.wanted = wanted
            times = (self._asked_at, self._told_at, self._found_at, self._missed_at)
            for known in (self._waiting, *times):
                for wallet_id in known.keys() - ids:
                    del known[wallet_id]

    def list_due(self, clock: Callable[[], float], seconds: float = 0.0) -> list[int]:
        """Return the wallets to poll, as soon as one is due. Waits up to `seconds`."""
        end = clock() + seconds
        with self._news:
            while True:
                waiting = self._waiting.keys() - self._urgent
                now, due_at = clock(), min(map(self._find_due, waiting), default=math.inf)
                if due_at <= now or end <= now:
                    break
                self._news.wait(min(end, due_at) - now)
            return [one for one in waiting if due_at <= now and self._find_free(one) <= now]

    def _find_due(self, wallet_id: int) -> float:
        return max(self._waiting[wallet_id].begun_at + SETTLE_SECONDS, self._find_free(wallet_id))

    def _find_free(self, wallet_id: int) -> float:
        return self._asked_at.get(wallet_id, -math.inf) + MIN_PAUSE_SECONDS

    def hurry(self, wallet_ids: Iterable[int], now: float) -> None:
        """End the running pass early, because these wallets are now due in the database."""
        with self._news:
            self._urgent.update(wallet_ids)
            self._asked_at |= dict.fromkeys(self._urgent, now)

    def count_covered(self) -> int:
        with self._news:
            return len(set().union(*self._covered.values()))

    # ---- for the observer ------------------------------------------------------------------------
    def begin_pass(self, wallet_ids: Iterable[int]) -> None:
        with self._news:
            noticed = self._urgent & self._waiting.keys() & set(wallet_ids)
            self._polled = {one: self._waiting.pop(one) for one in noticed}
            self._urgent.clear()

    def is_urgent(self) -> bool:
        return bool(self._urgent)

    def is_noticed(self, wallet_id: int) -> bool:
        return wallet_id in self._polled

    def note_found(self, wallet_id: int, now: float) -> None:
        """If no notice arrives within a few seconds, the wallet isn't covered for a while."""
        with self._news:
            self._found_at[wallet_id] = now
            told_at = self._told_at.get(wallet_id, -math.inf)
            if now - told_at >= GRACE_SECONDS and wallet_id not in self._polled:
                self._missed_at[wallet_id] = now
            waiting = self._waiting.get(wallet_id)
            if waiting and not waiting.tries:
                self._trust(self._waiting.pop(wallet_id))

    def _trust(self, call: Call) -> None:
        for endpoint in call.endpoints:
            self._false[endpoint] = 0

    def end_poll(self, wallet_id: int, is_pending: bool) -> None:
        """Record a poll. `is_pending`: listed transactions couldn't be fetched yet."""
        with self._news:
            call = self._polled.pop(wallet_id, None)
            if call is None:
                return
            is_true = self._found_at.get(wallet_id, -math.inf) >= call.begun_at - LATE_SECONDS
            if is_true:
                self._trust(call)
            if is_true and not is_pending:
                return
            call.tries += 1
            if call.tries < MAX_TRIES:
                self._waiting.setdefault(wallet_id, call).endpoints.update(call.endpoints)
            elif not is_true:
                self._false.update(call.endpoints)

    def covers(self, wallet_id: int, now: float) -> bool:
        """Whether an endpoint has all subscriptions of a wallet and sent all recent notices."""
        with self._news:
            missed_seconds = now - self._missed_at.get(wallet_id, -math.inf)
            if GRACE_SECONDS <= missed_seconds < DISTRUST_SECONDS:
                return False
            return any(wallet_id in ids for ids in self._covered.values())


# ---- state ---------------------------------------------------------------------------------------
# Transactions fetched for a wallet per turn.
SLICE = 20
FULL_SCAN_INTERVAL_MS = 86_400_000
MIN_REPAIR_WAIT_MS, MAX_REPAIR_WAIT_MS = 30_000, 6 * 3_600_000
# Spend at most 1/SHOW_PARTS of the time on publishing progress. With one wallet in progress, a
# publication that took one second isn't repeated for nine seconds. With two wallets, it isn't
# repeated for nineteen.
SHOW_PARTS = 10
# Longest time between polls of a sleeping wallet.
MAX_SLEEP_SECONDS = 300.0
# `Wallet.due_at` while a pass polls a wallet whose due_at was 0. Writing 0 during the pass triggers
# another poll.
IN_WORK = 1
# Time between heartbeats during a long pass.
HEARTBEAT_SECONDS = 10.0
FINALIZED = {"commitment": "finalized"}
log = logging.getLogger("candor.observer")


def ignore_progress(text: str) -> None:
    pass


@dataclass
class Postponed:
    tries: int = 0
    until: float = -math.inf

    def postpone(self, now: float, first_seconds: float, max_seconds: float) -> None:
        self.until = now + min(max_seconds, first_seconds * 2 ** min(self.tries, 20))
        self.tries += 1


@dataclass
class Watch:
    """A wallet's cache between polls. Times are in seconds of the observer's clock."""

    # Last comparison, by address.
    holdings: dict[str, Holding] = field(default_factory=dict)
    # Consecutive polls with an unexplained balance, by address.
    unexplained_polls: dict[str, int] = field(default_factory=dict)
    # Stored but not applied yet, and when publishing them is worthwhile again.
    new_entries: list[Entry] = field(default_factory=list)
    show_after: float = 0.0
    repair_wait_ms: int = MIN_REPAIR_WAIT_MS // 2
    # When a node last returned balances or the newest signatures of the wallet's own address.
    answered_at: float = -math.inf
    # Last balance request and last head listing, by address.
    asked_at: dict[str, float] = field(default_factory=dict)
    listed_at: dict[str, float] = field(default_factory=dict)
    # Last turn of full scans and backfill.
    worked_at: float = -math.inf
    # Failed steps by name.
    postponed: dict[str, Postponed] = field(default_factory=lambda: defaultdict(Postponed))
    decimals_postponed: dict[str, Postponed] = field(default_factory=lambda: defaultdict(Postponed))
    # The last poll left nothing to do.
    quiet: bool = False
    # Last check that every entry's transaction is still stored.
    receipts_checked_at: float = -math.inf
    # Slots with new transactions whose position is unknown, and whether the stored ones were read.
    unindexed_slots: set[int] = field(default_factory=set)
    is_indexed: bool = False
    # Signatures that mention a token account without a known owner, by account. None until they are
    # read.
    ownerless: dict[str, set[str]] | None = None

    def rest_from_showing(self, begun_at: float, ended_at: float, at_work: int) -> None:
        """Delay the next publication by how long this one took, and how many wallets take turns."""
        self.show_after = ended_at + (SHOW_PARTS * at_work - 1) * (ended_at - begun_at)


class State:
    """The memory of the observer and its current pass. Durable data is in the database.

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
        # Watched wallets, and wallets that take turns.
        self.watched_count, self.at_work = 0, 1
        # Last request for a slot's block time.
        self.time_asked_at = -math.inf
        self.begin_pass(0)
        self.forget()

    def begin_pass(self, now: int) -> None:
        self.now, self.begun_at, self.work_until = now, self.clock(), 0.0
        self.problem: str | None = None
        # IDs of wallets with a failed step, and of wallets skipped for the rest of the pass.
        self.troubled: set[int] = set()
        self.skipped: set[int] = set()
        # Requests left for wallets without known changes.
        self.spare_requests = 0

    def forget(self) -> None:
        """Clear the memory, because others may have written to the database."""
        self.ledger_store = LedgerStore(update_posts)
        self.watches: dict[int, Watch] = defaultdict(Watch)

    def forget_wallet(self, wallet_id: int) -> None:
        self.ledger_store.forget(wallet_id)
        self.watches[wallet_id].new_entries.clear()
        self.watches[wallet_id].quiet = False

    def note_trouble(self, wallet_id: int) -> None:
        self.troubled.add(wallet_id)
        self.watches[wallet_id].quiet = False

    def is_check_due(self, wallet_id: int) -> bool:
        """Whether entries were last checked against stored transactions over a day ago."""
        checked_at = self.watches[wallet_id].receipts_checked_at
        return self.begun_at - checked_at >= FULL_SCAN_INTERVAL_MS / 1000

    def apply_entries(self, wallet: Wallet) -> Ledger:
        watch = self.watches[wallet.id]
        if watch.quiet:
            return self.ledger_store.find(wallet.id)
        new, watch.new_entries = watch.new_entries, []
        return self.ledger_store.apply(wallet, new)

    def check_balances(self, wallet: Wallet) -> dict[str, bool | None]:
        """Return, by address, whether the ledger explains the last compared balance.

        None means that the ledger is ahead of that node.
        """
        holdings = self.watches[wallet.id].holdings
        seen = self.apply_entries(wallet).chain.seen if holdings else {}
        return {
            address: is_explained(seen.get(address), held) for address, held in holdings.items()
        }

    def list_unexplained(self, wallet: Wallet) -> list[str]:
        polls = self.watches[wallet.id].unexplained_polls
        return sorted(address for address, count in polls.items() if count > 1)

    def show_life(self) -> None:
        if self._beat and self.clock() - self._beaten_at >= HEARTBEAT_SECONDS:
            self._beaten_at = self.clock()
            self._beat()


# ---- failed steps --------------------------------------------------------------------------------
# After a failed step. The delay doubles with each consecutive failure.
MIN_POSTPONE_SECONDS, MAX_POSTPONE_SECONDS = 1.0, 3600.0


class Attempts:
    """Runs steps, and backs off from wallets whose steps fail."""

    def __init__(self, state: State) -> None:
        self._state = state

    def attempt(self, step: Callable[..., Any], wallet: Wallet, *args: Any) -> Any:
        """Do one step for a wallet. Return its result, or False if it failed.

        If a node refuses a step, that step is postponed and the others continue. A bug in Candor
        postpones the whole wallet. Errors are raised only if they concern all wallets: no node
        responds, or the database fails.
        """
        self._state.show_life()
        name = step.__name__
        if wallet.id in self._state.skipped or self.is_postponed(wallet, name):
            return False
        try:
            done = step(wallet, *args)
        except RpcError as error:
            if self.is_common(error):
                raise
            return self._postpone_step(wallet, name, error)
        except Exception as error:
            # A bug in Candor, so log the stack trace, and mention it in coverage and health.
            self._state.forget_wallet(wallet.id)
            if storage.is_busy(error):
                raise
            return self._postpone_wallet(wallet, error)
        self.note_done(wallet, name)
        return done

    def note_done(self, wallet: Wallet, name: str) -> None:
        """Clear the failure of this step, because it or an equivalent one succeeded."""
        self._state.watches[wallet.id].postponed.pop(name, None)

    def is_postponed(self, wallet: Wallet, name: str) -> bool:
        step = self._state.watches[wallet.id].postponed.get(name)
        return step is not None and self._state.clock() < step.until

    def is_common(self, error: RpcError) -> bool:
        """Return whether the nodes, not the wallet, caused the error."""
        return isinstance(error, Resting) or (
            isinstance(error, Unavailable) and not self._state.rpc.is_reachable()
        )

    def _postpone_step(self, wallet: Wallet, name: str, error: RpcError) -> bool:
        step = self._state.watches[wallet.id].postponed[name]
        step.postpone(self._state.clock(), MIN_POSTPONE_SECONDS, MAX_POSTPONE_SECONDS)
        if wallet.trouble != str(error):
            log.warning("wallet %s: %s", wallet.address, error)
        self._store_trouble(wallet, str(error))
        return False

    def _postpone_wallet(self, wallet: Wallet, error: Exception) -> bool:
        reason = f"internal error: {type(error).__name__}"
        if wallet.trouble != reason:
            log.error("wallet %s failed", wallet.address, exc_info=error)
        self._state.skipped.add(wallet.id)
        self._store_trouble(wallet, reason)
        seconds = min(MAX_SLEEP_SECONDS, MIN_POSTPONE_SECONDS * 2 ** min(wallet.trouble_tries, 12))
        due_at = self._state.now + int(1000 * seconds)
        update_wallet(wallet, due_at=due_at)
        return False

    def _store_trouble(self, wallet: Wallet, reason: str) -> None:
        self._state.note_trouble(wallet.id)
        stored = Wallet.select(Wallet.coverage).where(Wallet.id == wallet.id).scalar()
        if stored is None:
            coverage = show_coverage(wallet, PendingLedger(Ledger()), Progress(trouble=reason))
        else:
            coverage = {**read_coverage(stored), "note": describe_trouble(reason)}
        trouble_at, tries = wallet.trouble_at or self._state.now, wallet.trouble_tries + 1
        trouble = {"trouble": reason, "trouble_at": trouble_at, "trouble_tries": tries}
        update_wallet(wallet, **trouble, coverage=to_json(coverage))

    def refuse_program(self, wallet: Wallet) -> None:
        self._state.skipped.add(wallet.id)
        self._state.note_trouble(wallet.id)
        coverage = show_coverage(wallet, PendingLedger(Ledger()), Progress(program=True))
        trouble = {"trouble": IS_PROGRAM, "trouble_at": self._state.now, "trouble_tries": 1}
        update_wallet(wallet, **trouble, coverage=to_json(coverage))

    def clear(self, wallet: Wallet) -> None:
        """Clear a wallet's trouble, unless a step failed in this pass or is postponed."""
        postponed = self._state.watches[wallet.id].postponed
        if wallet.trouble and wallet.id not in self._state.troubled and not postponed:
            update_wallet(wallet, trouble=None, trouble_at=None, trouble_tries=0)


def update_wallet(wallet: Wallet, **values: Any) -> None:
    """Change columns of a wallet, in the database and in memory."""
    Wallet.update(**values).where(Wallet.id == wallet.id).execute()
    for name, value in values.items():
        setattr(wallet, name, value)


# ---- watched addresses ---------------------------------------------------------------------------
# Plain SQL for speed: it runs with each slice of transactions, and in each poll.
ADDRESSES = "SELECT address FROM address WHERE wallet_id = ?"


def list_addresses(wallet_id: int) -> set[str]:
    return {address for (address,) in storage.read_rows(ADDRESSES, (wallet_id,))}
