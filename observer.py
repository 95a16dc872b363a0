"""The observer job fetches watched wallets' transactions and updates their ledgers.

chain/ decides what a transaction means. A poll of a wallet compares the node's balances with the
ledger, lists new signatures, continues full scans of its history and fetches transactions that are
listed but not yet stored. A notice from a node makes its wallet due now and ends a pass over other
wallets early. Network calls come first, then short writes, so killing the process loses at most the
response in flight.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from peewee import OperationalError

import storage
from chain.ledger.coverage import find_overtaken
from chain.rpc import THROTTLED_SECONDS, Rpc, Unavailable
from chain.stored.attachments import HELD
from chain.stored.derived import read_coverage, show_time
from chain.stored.standings import forget_standings_of, refresh_standings
from chain.stored.trades import to_json
from config import Config
from models import IS_PROGRAM, Post, Wallet
from observing.balances import Balances, is_closing, is_held
from observing.entries import refetch_missing, reread_by_new_rules
from observing.fetching import Fetching, Repair
from observing.listing import (
    Listing,
    count_stored,
    has_pending,
    is_quiet,
    list_awake,
    read_progress,
    wake,
)
from observing.state import IN_WORK, MAX_SLEEP_SECONDS, Attempts, State, ignore_progress

# Consecutive failed passes after which the command line gives up.
MAX_FAILED_PASSES = 3
# Plain SQL for speed: these run in each poll, or for each wallet in it.
ANY_WELL = f"SELECT 1 FROM wallet WHERE id IN {HELD} AND trouble IS NULL LIMIT 1"
COUNT = "SELECT COUNT(*) FROM address WHERE wallet_id IN ({marks})"
BEGIN = f"UPDATE wallet SET due_at = {IN_WORK} WHERE due_at = 0"
PLAN = "UPDATE wallet SET due_at = ? WHERE id = ? AND due_at <> 0"
TELL = """
UPDATE wallet SET coverage = ?, polled_at = ?, observed_to = ?,
    due_at = CASE due_at WHEN 0 THEN 0 ELSE ? END WHERE id = ?"""


class Observer:
    def __init__(
        self,
        config: Config,
        rpc: Rpc | None = None,
        clock: Callable[[], float] = time.monotonic,
        report: Callable[[str], None] = ignore_progress,
        beat: Callable[[], None] | None = None,
    ) -> None:
        self.state = State(config, rpc, clock, report, beat)
        self.notices, self.attempts = self.state.notices, Attempts(self.state)
        self.listing = Listing(self.state)
        self.fetching = Fetching(self.state, self.listing)
        self.balances = Balances(self.state, self.attempts)
        self.repair = Repair(self.state, self.fetching)

    @property
    def rpc(self) -> Rpc:
        return self.state.rpc

    @property
    def problem(self) -> str | None:
        """Why the last pass stopped or nothing is observed, or None."""
        return self.state.problem

    def run_tick(self, now: int) -> bool:
        """Do one pass over the due wallets. Return whether work is left. `now`: ms."""
        self.state.begin_pass(now)
        due = self._begin_polls(now)
        try:
            wallets = self._prepare_due(due, now)
            left = self._poll(wallets, now)
            self._end_polls(wallets, now, left)
            refresh_standings(now)
        except OperationalError:
            # Another process may have had the lock and written since.
            if storage.database.engine != "sqlite":
                self.state.forget()
            raise
        self.state.problem = self.state.problem or _find_common_trouble()
        return bool(left) or len(wallets) < len(due)

    def _begin_polls(self, now: int) -> list[Wallet]:
        storage.database.execute_sql(BEGIN)
        interval = self.state.config.observer_interval_seconds
        # Beyond the longest pause, the time was set when the clock was wrong.
        wrong = Wallet.due_at > now + int(1000 * max(MAX_SLEEP_SECONDS, interval))
        self.state.watched_count = _select_watched(now).count()
        due = _select_watched(now).where((Wallet.due_at <= now) | wrong)
        wallets = list(due.order_by(Wallet.trouble_tries, Wallet.due_at, Wallet.id))
        self.notices.begin_pass(wallet.id for wallet in wallets)
        return wallets

    @property
    def _span_seconds(self) -> float:
        return max(2.0, self.state.config.observer_interval_seconds)

    # ---- a pass ----------------------------------------------------------------------------------
    def _prepare_due(self, due: Sequence[Wallet], now: int) -> list[Wallet]:
        """Return the wallets that are ready, after about one interval. The others stay due.

        Wallets with a ledger in memory come first, because building it takes seconds for a long
        history.
        """
        state, until = self.state, self.state.clock() + self._span_seconds
        wake(state, due, now)
        awake = list_awake(state, due)
        left = {wallet.id for wallet in awake}
        awake.sort(key=lambda w: state.ledger_store.last_time(w.id) is None)
        for wallet in awake:
            self.attempts.attempt(self._prepare, wallet)
            left.remove(wallet.id)
            if state.clock() >= until or self.notices.is_urgent():
                break
        return [wallet for wallet in due if wallet.id not in left]

    def _poll(self, wallets: Sequence[Wallet], now: int) -> set[int]:
        """Poll for about one interval. Return the wallets with work left."""
        state, attempt = self.state, self.attempts.attempt
        begun_at, span_seconds = state.clock(), self._span_seconds
        state.work_until = begun_at + span_seconds
        try:
            counts = storage.read_parts(COUNT, (wallet.id for wallet in wallets))
            state.spare_requests = sum(count for (count,) in counts)
            self.balances.compare(wallets, begun_at + span_seconds / 3)
            self.balances.store_polls(wallets, now)
            for wallet in wallets:
                attempt(self._show_moved, wallet, now)
            self.balances.read_time(wallets)
            self._list_own_heads(wallets, begun_at + span_seconds / 2, now)
            self.balances.store_polls(wallets, now)
            state.work_until = max(state.work_until, state.clock() + span_seconds / 4)
            awake = list_awake(state, wallets)
            left = self._work_through(awake, now)
            opened = [w for w in awake if w.id not in left and attempt(self.balances.is_open, w)]
            self.balances.compare(opened, state.clock() + span_seconds / 4)
            return left
        except Unavailable as error:
            state.problem = str(error)
            return {wallet.id for wallet in wallets}

    def _reread(self, wallet: Wallet) -> None:
        state = self.state

        def tell(done: int) -> None:
            state.show_life()
            state.report(f"{wallet.address}: reread {done} stored transactions under new rules")

        reread_by_new_rules(wallet, state.programs, state.rules, tell)
        # A currency's decimals decide which bots are ranked, but don't change the ledger's rows.
        forget_standings_of(wallet.id)

    def _prepare(self, wallet: Wallet) -> None:
        """Update the ledger in memory from the database, and reread entries if rules changed."""
        state = self.state
        if wallet.rules != state.rules:
            self._reread(wallet)
            state.forget_wallet(wallet.id)
        watch = state.watches[wallet.id]
        if state.is_check_due(wallet.id):
            watch.receipts_checked_at = state.begun_at
            if refetch_missing(wallet):
                state.forget_wallet(wallet.id)
        if count_stored([wallet]).get(wallet.id, 0) != state.apply_entries(wallet).chain.count:
            state.forget_wallet(wallet.id)

    def _show_moved(self, wallet: Wallet, now: int) -> None:
        """List addresses that changed or that a notice named, and publish new transactions."""
        state, watch = self.state, self.state.watches[wallet.id]
        watch.quiet = watch.quiet and all(state.check_balances(wallet).values())
        if watch.quiet:
            return
        moved, fetched = _find_moved(state, wallet), 0
        if wallet.address in moved or self.notices.is_noticed(wallet.id):
            moved, fetched = self._list_own_head(wallet, moved, now)
        self.listing.list_heads(wallet, moved, now)
        if fetched + self.fetching.fetch_urgent(wallet, now):
            self._publish(wallet, now)

    def _list_own_head(self, wallet: Wallet, moved: set[str], now: int) -> tuple[set[str], int]:
        """List and fetch transactions of the wallet's own address.

        Return the accounts that still need listing, and the number of transactions requested. One
        transaction often explains every account that changed. An explained account may still have
        missed an earlier transaction, which shows in its balance before the explained one.
        """
        state = self.state
        seen = dict(state.apply_entries(wallet).chain.seen)
        self.listing.list_heads(wallet, {wallet.address}, now)
        self.attempts.note_done(wallet, "list_heads")
        fetched = self.fetching.fetch_urgent(wallet, now)
        if has_pending(wallet):
            return moved, fetched
        overtaken = find_overtaken(state.watches[wallet.id].new_entries, seen)
        return _find_moved(state, wallet) | overtaken, fetched

    def _list_own_heads(self, wallets: Sequence[Wallet], until: float, now: int) -> None:
        """List signatures of the wallets' own addresses.

        Wallets with a pending post, a last poll or a failed list come first. The others follow as
        time and spare requests allow; those not listed for the longest time come first. Only this
        finds transactions that mention a wallet without changing a balance.
        """
        pending = Post.select(Post.wallet).where(Post.status == "pending")
        watches = self.state.watches
        failed = (w.id for w in wallets if "list_heads" in watches[w.id].postponed)
        closing = (w.id for w in wallets if w.closing_at is not None)
        waiting = {*pending.scalars(), *closing, *failed}

        def rank(wallet: Wallet) -> tuple[bool, float]:
            listed_at = watches[wallet.id].listed_at.get(wallet.address, -math.inf)
            return wallet.id not in waiting, listed_at

        ranked = sorted(wallets, key=rank)
        for wallet in ranked:
            in_time = self.state.spare_requests > 0 and self.state.clock() < until
            in_time = in_time and not self.notices.is_urgent()
            if wallet.id in waiting or (in_time and self.balances.is_head_due(wallet)):
                own = {wallet.address}
                self.attempts.attempt(self.listing.list_heads, wallet, own, now)

    def _work_through(self, wallets: Sequence[Wallet], now: int) -> set[int]:
        """Work on the wallets in turn, so that a long backfill doesn't starve the others.

        Return the IDs of wallets with work left. The least recently worked on come first.
        """
        watches = self.state.watches
        turns = deque(sorted(wallets, key=lambda w: watches[w.id].worked_at))
        while turns and self.state.clock() < self.state.work_until:
            self.state.at_work, wallet = len(turns), turns.popleft()
            watches[wallet.id].worked_at = self.state.clock()
            if self._work_on(wallet, now):
                turns.append(wallet)
            if self.notices.is_urgent():
                break
        return {wallet.id for wallet in turns}

    def _work_on(self, wallet: Wallet, now: int) -> bool:
        """Do one step for a wallet. Return whether there may be more to do now.

        Urgent transactions come first, then a page of a full scan, then the backfill, so that the
        backfill can start with the oldest transaction and never has to rebook one.
        """
        steps: tuple[Callable[[Wallet, int], Any], ...] = (
            self.fetching.fetch_urgent,
            self.listing.scan_page,
            self.fetching.fetch_backlog,
            self.listing.list_token_accounts,
            self.listing.load_deeper,
        )
        worked = any(self.attempts.attempt(step, wallet, now) for step in steps)
        self.attempts.attempt(self.fetching.index_slots, wallet)
        if worked:
            self.attempts.attempt(self._show_work, wallet, now)
        return worked

    def _show_work(self, wallet: Wallet, now: int) -> None:
        self.listing.mark_backfilled(wallet)
        watch, begun_at = self.state.watches[wallet.id], self.state.clock()
        if begun_at >= watch.show_after:
            self._publish(wallet, now)
            watch.rest_from_showing(begun_at, self.state.clock(), self.state.at_work)

    def _end_polls(self, wallets: Sequence[Wallet], now: int, left: set[int]) -> None:
        quiet = [wallet for wallet in wallets if self.state.watches[wallet.id].quiet]
        for wallet in list_awake(self.state, wallets):
            self.attempts.attempt(self._finish, wallet, now, wallet.id in left)
        with storage.writing():
            for wallet in quiet:
                self._tell_quiet(wallet, now)

    def _tell_quiet(self, wallet: Wallet, now: int) -> None:
        self.balances.note_poll(wallet, now)
        last_time = self.state.ledger_store.last_time(wallet.id)
        observed_to = max(filter(None, (wallet.observed_to, last_time)), default=None)
        coverage = read_coverage(wallet.coverage) | {
            "checkedAt": show_time(wallet.polled_at and wallet.polled_at // 1000),
            "observedTo": show_time(observed_to),
        }
        due_at = self.balances.find_due(wallet, now)
        values = to_json(coverage), wallet.polled_at, wallet.observed_to, due_at, wallet.id
        storage.database.execute_sql(TELL, values)

    def _finish(self, wallet: Wallet, now: int, is_left: bool) -> None:
        progress = read_progress(self.state, wallet)
        self.balances.note_poll(wallet, now)
        if wallet.backfilled and progress.pending == progress.stuck:
            self.balances.count_unexplained(wallet)
            try:
                self.attempts.attempt(self.balances.store_untouched, wallet)
                is_left = self.attempts.attempt(self.repair.repair, wallet, now) or is_left
                self.attempts.attempt(self.balances.close, wallet, progress)
            except Unavailable as error:
                self.state.problem = str(error)
        self.attempts.clear(wallet)
        self._publish(wallet, now)
        self.state.watches[wallet.id].quiet = not is_left and is_quiet(self.state, wallet, progress)
        due_at = now if is_left else self.balances.find_due(wallet, now)
        storage.database.execute_sql(PLAN, (due_at, wallet.id))
        is_pending = progress.pending > progress.stuck
        self.notices.end_poll(wallet.id, is_pending)

    def _publish(self, wallet: Wallet, now: int) -> None:
        ledger, progress = self.state.apply_entries(wallet), read_progress(self.state, wallet)
        self.state.ledger_store.publish(wallet, progress, now)
        self.state.report(
            f"{wallet.address}: {ledger.chain.count} receipts, {progress.pending} pending,"
            f" {ledger.totals.trades} trades"
        )


def _find_moved(state: State, wallet: Wallet) -> set[str]:
    checked = state.check_balances(wallet)
    return {address for address, explained in checked.items() if explained is False}


# Wallets that aren't known to be programs.
IS_WALLET = Wallet.trouble.is_null() | (Wallet.trouble != IS_PROGRAM)


def _select_watched(now: int) -> Any:
    return Wallet.select().where(is_held() | is_closing(now), IS_WALLET)


def _find_common_trouble() -> str | None:
    """Return the first wallet's trouble if every wallet has one."""
    if storage.read_rows(ANY_WELL):
        return None
    watched = Wallet.select(Wallet.address, Wallet.trouble).where(is_held(), IS_WALLET)
    first = watched.order_by(Wallet.trouble_at).first()
    return None if first is None else f"{first.address}: {first.trouble}"


# ---- the command line ----------------------------------------------------------------------------
def observe_once(
    observer: Observer, now: int, sleep: Callable[[float], object] = time.sleep
) -> dict[str, Any]:
    """Poll every wallet until no work is left or no node responds. Return coverages by address.

    The caller holds the observer's lock. `now`: ms.
    """
    polls = failures = 0
    # Only the second poll shows whether the full scan explained a balance.
    while polls < 2 and failures < MAX_FAILED_PASSES:
        Wallet.update(due_at=0).where(is_held() | is_closing(now)).execute()
        more = observer.run_tick(now)
        failed = bool(observer.problem or observer.state.troubled)
        polls, failures = polls + (not more and not failed), failures + 1 if failed else 0
        # Wait until a rate-limited endpoint is available again.
        pause_seconds = THROTTLED_SECONDS if failed else 0.0
        sleep(pause_seconds)
        now += 1000 + int(1000 * pause_seconds)
    return {
        wallet.address: read_coverage(wallet.coverage)
        for wallet in Wallet.select()
        if wallet.coverage is not None
    }
