"""Job: from watched wallets to transactions to ledgers. It moves data and decides little: chain/
decides what a transaction means.

A poll of a wallet compares the node's balances with the ledger, lists what arrived at its head,
goes on with full scans of its history and fetches transactions that are listed and not yet stored.
Network first, then short writes; a kill at any moment loses no more than the answer that was on its
way.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from peewee import OperationalError

import storage
from chain.ledger.coverage import find_overtaken
from chain.rpc import THROTTLED_SECONDS, Rpc, RpcError, Unavailable
from chain.stored.attachments import HELD
from chain.stored.standings import refresh_standings
from chain.stored.summary import read_coverage
from config import Config
from models import IS_PROGRAM, Post, Wallet, WalletSignature
from observing.answering import MAX_ANSWER_SECONDS, Answering
from observing.balances import Balances
from observing.bell import Bell, Ring
from observing.closing import Closing, is_closing, is_held
from observing.entries import refetch_missing, reread_by_new_rules
from observing.fetching import Fetching
from observing.listing import Listing
from observing.progress import read_progress
from observing.repair import Repair
from observing.settled import find_awake, is_settled, list_awake, tell_polls
from observing.state import MAX_SLEEP_SECONDS, State, ignore_progress
from observing.trouble import Attempts
from storage import in_parts

# Passes in trouble, in a row, after which the command line gives up.
MAX_FAILED_PASSES = 3
# Plain SQL: it runs in each poll, or for each wallet in it.
ANY_WELL = f"SELECT 1 FROM wallet WHERE id IN {HELD} AND trouble IS NULL LIMIT 1"
COUNT = "SELECT COUNT(*) FROM address WHERE wallet_id IN ({marks})"
STORED = "SELECT COUNT(*) FROM sighting WHERE wallet_id = ? AND state = 'stored'"
PLAN = "UPDATE wallet SET due_at = ? WHERE id = ?"


class Observer:
    """The job: `run_tick` is one pass over the wallets that are due. See State for arguments."""

    def __init__(
        self,
        config: Config,
        rpc: Rpc | None = None,
        clock: Callable[[], float] = time.monotonic,
        report: Callable[[str], None] = ignore_progress,
        beat: Callable[[], None] | None = None,
    ) -> None:
        self.state = State(config, rpc, clock, report, beat)
        self.attempts = Attempts(self.state)
        self.listing = Listing(self.state)
        self.fetching = Fetching(self.state, self.listing)
        self.balances = Balances(self.state, self.attempts)
        self.closing = Closing(self.state, self.balances)
        self.repair = Repair(self.state, self.fetching)
        self.answering = Answering(self.state, self.listing, self.fetching, self.balances)

    @property
    def bell(self) -> Bell:
        """What makes a wallet due at once."""
        return self.state.bell

    @property
    def rpc(self) -> Rpc:
        """The nodes that it asks."""
        return self.state.rpc

    @property
    def problem(self) -> str | None:
        """Why the last pass could not go on, or nothing is observed; None: all is well."""
        return self.state.problem

    def run_tick(self, now: int) -> bool:
        """Do one pass; `now` in ms. Return whether work was left for lack of time or answers."""
        self.state.begin_pass(now)
        due = self._list_due(now)
        try:
            wallets = self._prepare_due(due, now)
            more = self._poll(wallets, now)
            self._end_polls(wallets, now, more)
            refresh_standings(now)
        except OperationalError:
            # The lock may be gone, and with it others may have written.
            if storage.database.engine != "sqlite":
                self.state.forget()
            raise
        self.state.problem = self.state.problem or _find_common_trouble()
        return more or len(wallets) < len(due)

    def answer_bell(self, now: int) -> None:
        """Look at the wallets that were rung for, in a pass of their own; `now` in ms."""
        self.state.begin_pass(now)
        try:
            self._answer_bell()
        except OperationalError:
            if storage.database.engine != "sqlite":
                self.state.forget()
            raise

    def _answer_bell(self) -> None:
        """Look at the wallets that were rung for, between two steps of whatever goes on, for no
        longer than one answer may take.
        """
        state, end = self.state, self.state.clock() + MAX_ANSWER_SECONDS
        while state.clock() < end and (ring := state.bell.take(state.clock())):
            # A wallet that is to be read by new rules first is left to its poll.
            of_ring = Wallet.id == ring.wallet_id, Wallet.rules == state.rules
            wallet = _select_watched(state.now).where(*of_ring).first()
            if wallet is not None and not self.attempts.attempt(self._answer, wallet, ring):
                return

    def _answer(self, wallet: Wallet, ring: Ring) -> bool:
        """Look at a wallet that was rung for; return whether nodes answer. Where they do not, the
        next poll finds what there is, and tells of the trouble.
        """
        state = self.state
        now = state.now + int(1000 * (state.clock() - state.begun_at))
        try:
            self._prepare(wallet)
            self.answering.answer(wallet, ring, now)
        except RpcError:
            return False
        return True

    def _in_turn(self, wallets: Iterable[Wallet]) -> Iterator[Wallet]:
        """Yield these wallets; before each, answer those that were rung for."""
        for wallet in wallets:
            self._answer_bell()
            yield wallet

    def _list_due(self, now: int) -> list[Wallet]:
        interval = self.state.config.observer_interval_seconds
        # A time further ahead than any pause was set by a clock that ran wrong.
        wrong = Wallet.due_at > now + int(1000 * max(MAX_SLEEP_SECONDS, interval))
        self.state.watched_count = _select_watched(now).count()
        due = _select_watched(now).where((Wallet.due_at <= now) | wrong)
        return list(due.order_by(Wallet.trouble_tries, Wallet.due_at, Wallet.id))

    @property
    def _span_seconds(self) -> float:
        return max(2.0, self.state.config.observer_interval_seconds)

    # ---- a pass ----------------------------------------------------------------------------------
    def _prepare_due(self, due: Sequence[Wallet], now: int) -> list[Wallet]:
        """Prepare wallets for about an interval, those with a ledger in memory first, and return
        all that are ready; the others stay due. A ledger of a long history takes seconds to make.
        """
        state, until = self.state, self.state.clock() + self._span_seconds
        awake = find_awake(state, due, now)
        left = {wallet.id for wallet in awake}
        awake.sort(key=lambda w: state.ledger_store.last_time(w.id) is None)
        for wallet in self._in_turn(awake):
            self.attempts.attempt(self._prepare, wallet)
            left.remove(wallet.id)
            if state.clock() >= until:
                break
        return [wallet for wallet in due if wallet.id not in left]

    def _poll(self, wallets: Sequence[Wallet], now: int) -> bool:
        """Poll these wallets within about an interval; return whether work was left."""
        state, attempt = self.state, self.attempts.attempt
        begun_at, span_seconds = state.clock(), self._span_seconds
        state.work_until = begun_at + span_seconds
        try:
            state.spare_requests = _count_addresses(wallets)
            worth = [w for w in wallets if attempt(self.balances.is_worth_comparing, w)]
            self.balances.compare(worth, begun_at + span_seconds / 3)
            self.balances.store_polls(wallets, now)
            for wallet in self._in_turn(wallets):
                attempt(self._show_moved, wallet, now)
            self.balances.read_time(wallets)
            self._list_own_heads(wallets, begun_at + span_seconds / 2, now)
            self.balances.store_polls(wallets, now)
            state.work_until = max(state.work_until, state.clock() + span_seconds / 4)
            awake = list_awake(state, wallets)
            more = self._work_through(awake, now)
            opened = [w for w in awake if not more and attempt(self.balances.is_open, w)]
            self.balances.compare(opened, state.clock() + span_seconds / 4)
            return more
        except Unavailable as error:
            state.problem = str(error)
            return True

    def _reread(self, wallet: Wallet) -> None:
        """Read the wallet's entries by the rules that hold now, telling how far it has come."""
        state = self.state

        def tell(done: int) -> None:
            state.show_life()
            state.report(f"{wallet.address}: {done} stored transactions read again by new rules")

        reread_by_new_rules(wallet, state.programs, state.rules, tell)

    def _prepare(self, wallet: Wallet) -> None:
        """Bring memory in line with the database, whoever else worked there, and entries with the
        rules and the program table that hold now.
        """
        state = self.state
        if wallet.rules != state.rules:
            self._reread(wallet)
            state.forget_wallet(wallet.id)
        watch = state.watches[wallet.id]
        watch.settled = False
        if state.is_check_due(wallet.id):
            watch.receipts_checked_at = state.begun_at
            if refetch_missing(wallet):
                state.forget_wallet(wallet.id)
        ((stored,),) = storage.database.execute_sql(STORED, (wallet.id,)).fetchall()
        if stored != state.apply_entries(wallet).chain.count:
            state.forget_wallet(wallet.id)

    def _show_moved(self, wallet: Wallet, now: int) -> None:
        """List at once the addresses whose balance moved, and publish what is new there.

        What a notice tells of already needs no list.
        """
        state, watch = self.state, self.state.watches[wallet.id]
        watch.settled = watch.settled and all(state.check_balances(wallet).values())
        if watch.settled:
            return
        moved, fetched = _find_moved(state, wallet), 0
        if moved and (ring := state.bell.take_early(wallet.id, state.clock())):
            self._answer(wallet, ring)
            moved = _find_moved(state, wallet)
        if wallet.address in moved:
            moved, fetched = self._list_own_head(wallet, moved, now)
        self.listing.list_heads(wallet, moved, now)
        if fetched + self.fetching.fetch_urgent(wallet, now):
            self._publish(wallet, now)

    def _list_own_head(self, wallet: Wallet, moved: set[str], now: int) -> tuple[set[str], int]:
        """List what names the wallet and fetch it. Return the accounts that still have to be
        listed, and how many transactions were asked for.

        One transaction often explains all accounts that moved. An account it explains may still
        have missed one before it, which shows in what the account held when it began.
        """
        state = self.state
        seen = dict(state.apply_entries(wallet).chain.seen)
        self.listing.list_heads(wallet, {wallet.address}, now)
        self.attempts.note_done(wallet, "list_heads")
        fetched = self.fetching.fetch_urgent(wallet, now)
        if _has_pending(wallet):
            return moved, fetched
        overtaken = find_overtaken(state.watches[wallet.id].new_entries, seen)
        return _find_moved(state, wallet) | overtaken, fetched

    def _list_own_heads(self, wallets: Sequence[Wallet], until: float, now: int) -> None:
        """List the wallets' own heads: where a post or a last poll waits, or the last list failed;
        then, as time and spare requests allow, the others, longest unlisted first.

        A transaction that names a wallet and moves nothing of it shows there alone.
        """
        pending = Post.select(Post.wallet).where(Post.status == "pending")
        watches = self.state.watches
        failed = (w.id for w in wallets if "list_heads" in watches[w.id].postponed)
        closing = (w.id for w in wallets if w.closing_at is not None)
        waiting = {*pending.scalars(), *closing, *failed}
        ranked = sorted(wallets, key=lambda w: (w.id not in waiting, *self._rank_head(w)))
        for wallet in self._in_turn(ranked):
            in_time = self.state.spare_requests > 0 and self.state.clock() < until
            if wallet.id in waiting or (in_time and self.balances.is_head_due(wallet)):
                own = {wallet.address}
                self.attempts.attempt(self.listing.list_heads, wallet, own, now)

    def _rank_head(self, wallet: Wallet) -> tuple[bool, float]:
        """Before others those of which no node told anything in this pass: they would lag."""
        watch = self.state.watches[wallet.id]
        told = watch.answered_at >= self.state.begun_at
        return told, watch.listed_at.get(wallet.address, -math.inf)

    def _work_through(self, wallets: Sequence[Wallet], now: int) -> bool:
        """Work on the wallets in turn, so that one long backfill does not starve the others; return
        whether work was left.

        Wallets that had no turn in the last pass come first in this one.
        """
        watches = self.state.watches
        turns = deque(sorted(wallets, key=lambda w: watches[w.id].worked_at))
        while turns and self.state.clock() < self.state.work_until:
            self._answer_bell()
            self.state.at_work, wallet = len(turns), turns.popleft()
            watches[wallet.id].worked_at = self.state.clock()
            if self._work_on(wallet, now):
                turns.append(wallet)
        return bool(turns)

    def _work_on(self, wallet: Wallet, now: int) -> bool:
        """Do one step: what is waited for, else a page of a full scan, else the backfill. Return
        whether there may be more to do at once.

        Full scans come before the backfill, which then goes from the beginning on: what is applied
        stays applied.
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
        """Publish what a step of a long pass did, now and then; its end publishes all."""
        self.listing.mark_backfilled(wallet)
        watch, begun_at = self.state.watches[wallet.id], self.state.clock()
        if begun_at >= watch.show_after:
            self._publish(wallet, now)
            watch.rest_from_showing(begun_at, self.state.clock(), self.state.at_work)

    def _end_polls(self, wallets: Sequence[Wallet], now: int, more: bool) -> None:
        """End the poll of each wallet; of settled ones, store when nodes told of them."""
        polls: list[tuple[Wallet, int]] = []
        for wallet in self._in_turn(wallets):
            if not self.state.watches[wallet.id].settled:
                self.attempts.attempt(self._finish, wallet, now, more)
                continue
            pause_ms = 0 if more else int(1000 * self.balances.find_pause(wallet, now))
            if self.balances.note_poll(wallet, now) or pause_ms:
                polls.append((wallet, now + pause_ms))
        # An answer to the bell meanwhile told of what it found.
        tell_polls(self.state, [one for one in polls if self.state.watches[one[0].id].settled])

    def _finish(self, wallet: Wallet, now: int, more: bool) -> None:
        """End the poll of a wallet: repair where something is wrong, publish, plan the next."""
        progress = read_progress(self.state, wallet)
        self.balances.note_poll(wallet, now)
        if wallet.backfilled and progress.pending == progress.stuck:
            self.balances.count_unexplained(wallet)
            try:
                self.attempts.attempt(self.balances.store_untouched, wallet)
                more = self.attempts.attempt(self.repair.repair, wallet, now) or more
                self.attempts.attempt(self.closing.close, wallet, progress)
            except Unavailable as error:
                self.state.problem = str(error)
        self.attempts.clear(wallet)
        self._publish(wallet, now)
        settled = not more and is_settled(self.state, wallet, progress)
        self.state.watches[wallet.id].settled = settled
        pause_ms = 0 if more else int(1000 * self.balances.find_pause(wallet, now))
        storage.database.execute_sql(PLAN, (now + pause_ms, wallet.id))

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


def _has_pending(wallet: Wallet) -> bool:
    pending = WalletSignature.select().where(
        WalletSignature.wallet == wallet.id, WalletSignature.state == "pending"
    )
    return bool(pending.exists())


# Not known to be a program.
IS_WALLET = Wallet.trouble.is_null() | (Wallet.trouble != IS_PROGRAM)


def _select_watched(now: int) -> Any:
    return Wallet.select().where(is_held() | is_closing(now), IS_WALLET)


def _find_common_trouble() -> str | None:
    """Where every wallet is in trouble nothing is observed: the trouble of the first, else None."""
    if storage.database.execute_sql(ANY_WELL).fetchone():
        return None
    watched = Wallet.select(Wallet.address, Wallet.trouble).where(is_held(), IS_WALLET)
    first = watched.order_by(Wallet.trouble_at).first()
    return None if first is None else f"{first.address}: {first.trouble}"


def _count_addresses(wallets: Sequence[Wallet]) -> int:
    parts = in_parts([wallet.id for wallet in wallets])
    execute = storage.database.execute_sql
    found = (execute(COUNT.format(marks=storage.mark(part)), part).fetchone() for part in parts)
    return sum(count for (count,) in found)


# ---- the command line ----------------------------------------------------------------------------
def observe_once(
    observer: Observer, now: int, sleep: Callable[[float], object] = time.sleep
) -> dict[str, Any]:
    """Poll every wallet until nothing is left to do at once, or nobody answers; the caller holds
    the observer's lock. Return each wallet's coverage, by address. `now` in ms.
    """
    polls = failures = 0
    # That a full scan does not explain a balance shows in the second poll.
    while polls < 2 and failures < MAX_FAILED_PASSES:
        Wallet.update(due_at=0).where(is_held() | is_closing(now)).execute()
        more = observer.run_tick(now)
        failed = bool(observer.problem or observer.state.troubled)
        polls, failures = polls + (not more and not failed), failures + 1 if failed else 0
        # As long as an endpoint rests that was asked too often.
        pause_seconds = THROTTLED_SECONDS if failed else 0.0
        sleep(pause_seconds)
        now += 1000 + int(1000 * pause_seconds)
    return {
        wallet.address: read_coverage(wallet.coverage)
        for wallet in Wallet.select()
        if wallet.coverage is not None
    }
