"""Job: from watched wallets to transactions to ledgers. It moves data and decides little: chain/
decides what a transaction means.

A poll of a wallet compares the node's balances with the ledger, lists what arrived at its head,
goes on with full scans of its history and fetches receipts that are listed and not yet stored.
Network first, then short writes; a kill at any moment loses no more than the answer that was on its
way.
"""

import math
import time
from collections import deque

import orjson
from peewee import OperationalError

import storage
from chain.coverage import Progress
from chain.rpc import THROTTLED_SECONDS, Unavailable
from chain.store import (
    mark_differing_trades,
)
from models import IS_PROGRAM, Address, Attachment, Post, Trade, Wallet, WalletSignature
from observing.entries import fetch_missing, reread_entries
from observing.repair import Repair
from observing.state import FULL_SCAN_INTERVAL_MS, MAX_SLEEP
from storage import in_parts

# refused receipts that coverage names
MAX_NAMED = 50
# tries
STUCK_AFTER = 5
# passes in trouble before the command line gives up
PATIENCE = 3


class Observer(Repair):
    """The job: `run_tick` is one pass over the wallets that are due."""

    def run_tick(self, now):
        """One pass; `now` in ms. Returns whether work was left for lack of time or answers."""
        self._begun, self._now, self.problem = self.clock(), now, None
        self._left, self.troubled = set(), set()
        wallets = self._list_due(now)
        try:
            more = self._poll(wallets, now)
            for wallet in wallets:
                self._attempt(self._finish, wallet, now, more)
        except OperationalError:
            if storage.database.engine != "sqlite":
                # The lock may be gone, and with it others may have written.
                self._forget()
            raise
        self.problem = self.problem or self._find_common_trouble()
        return more

    def _find_common_trouble(self):
        """Where every wallet is in trouble nothing is observed: that of one of them, else None."""
        watched = self._select_watched(Wallet.address, Wallet.trouble)
        if watched.where(Wallet.trouble.is_null()).exists():
            return None
        one = watched.order_by(Wallet.trouble_at).tuples().first()
        return one and f"{one[0]}: {one[1]}"

    def _list_due(self, now):
        """Wallets whose time has come, longest overdue first, those in trouble last. A time further
        ahead than any pause was set by a clock that ran wrong.
        """
        longest = int(1000 * max(MAX_SLEEP, self.config.observer_interval_seconds))
        due = (Wallet.due_at <= now) | (Wallet.due_at > now + longest)
        self._watched = self._select_watched().count()
        return list(self._select_watched().where(due).order_by(Wallet.trouble_tries, Wallet.due_at))

    def _select_watched(self, *columns):
        """The wallets that somebody holds and that are none known to be a program."""
        is_wallet = Wallet.trouble.is_null() | (Wallet.trouble != IS_PROGRAM)
        return (
            Wallet.select(*columns)
            .join(Attachment)
            .where(Attachment.detached_at.is_null(), is_wallet)
        )

    def _poll(self, wallets, now):
        span = max(2.0, self.config.observer_interval_seconds)
        self._end = self._begun + span
        try:
            for wallet in wallets:
                self._attempt(self._prepare, wallet)
            self._spare = sum(
                Address.select().where(Address.wallet.in_(part)).count()
                for part in in_parts([w.id for w in wallets])
            )
            worth = [w for w in wallets if self._attempt(self._is_worth_comparing, w)]
            self._compare_balances(worth, self._begun + span / 3)
            self._store_polls(wallets, now)
            for wallet in wallets:
                self._attempt(self._take_news, wallet, now)
            self._tell_time(wallets)
            self._list_heads(wallets, self._begun + span / 2, now)
            self._store_polls(wallets, now)
            self._end = max(self._end, self.clock() + span / 4)
            more = self._work_through(wallets, now)
            opened = [w for w in wallets if not more and self._attempt(self._is_open, w)]
            self._compare_balances(opened, self.clock() + span / 4)
            return more
        except Unavailable as error:
            self.problem = str(error)
            return True

    def _work_through(self, wallets, now):
        """Slices of work in turn, so that one long back-fill does not starve the others.

        Who had no turn in the last look has the first one in this.
        """
        turns = deque(sorted(wallets, key=lambda w: self._watches[w.id].worked_at))
        while turns and self.clock() < self._end:
            wallet = turns.popleft()
            self._watches[wallet.id].worked_at = self.clock()
            if self._work_on(wallet, now):
                turns.append(wallet)
        return bool(turns)

    def _work_on(self, wallet, now):
        """One step: what is waited for, else a page of a walk, else the back-fill. Returns whether
        there may be more to do at once.

        Full scans come before the backfill, which then goes from the beginning on: what is applied
        stays applied.
        """
        steps = self._fetch_urgent, self._full_scan, self._fetch_backlog, self._list_token_accounts
        worked = any(self._attempt(step, wallet, now) for step in steps)
        self._attempt(self._index_slots, wallet)
        if worked:
            self._attempt(self._show_work, wallet, now)
        return worked

    def _show_work(self, wallet, now):
        self._mark_backfilled(wallet)
        if self.clock() >= self._watches[wallet.id].apply_after:
            self._publish(wallet, now)

    def _prepare(self, wallet):
        """Memory agrees with the database, whoever else worked there; entries are read by the rules
        and the program table that hold now.
        """
        if wallet.rules != self.rules:
            reread_entries(wallet, self.programs)
            Wallet.update(rules=self.rules).where(Wallet.id == wallet.id).execute()
            wallet.rules = self.rules
            self._forget_wallet(wallet.id)
        watch = self._watches[wallet.id]
        if self._begun - watch.receipts_checked_at >= FULL_SCAN_INTERVAL_MS / 1000:
            watch.receipts_checked_at = self._begun
            if fetch_missing(wallet):
                self._forget_wallet(wallet.id)
        stored = (
            WalletSignature.select()
            .where(WalletSignature.wallet == wallet.id, WalletSignature.state == "stored")
            .count()
        )
        if stored != self._ledger(wallet).count:
            self._forget_wallet(wallet.id)

    def _take_news(self, wallet, now):
        """List at once what moved, and show it."""
        moved = {a for a, verdict in self._verdicts(wallet).items() if verdict is False}
        self._list_addresses(wallet, moved, now)
        if self._fetch_urgent(wallet, now):
            self._publish(wallet, now)

    def _list_heads(self, wallets, until, now):
        """The wallets' own heads where a post waits; then, as time and thrift allow, the others,
        longest unlisted first.

        A receipt that names a wallet and moves nothing of it shows there alone.
        """
        waiting = {w for (w,) in Post.select(Post.wallet).where(Post.status == "pending").tuples()}
        for wallet in sorted(
            wallets,
            key=lambda w: (
                w.id not in waiting,
                w.trouble_tries,
                self._watches[w.id].listed.get(w.address, -math.inf),
            ),
        ):
            room = self._spare > 0 and self.clock() < until and self._is_head_due(wallet)
            if wallet.id in waiting or room:
                self._attempt(self._list_addresses, wallet, {wallet.address}, now)

    def _finish(self, wallet, now, more):
        progress = self._progress(wallet)
        self._note_poll(wallet, now)
        if wallet.whole and progress.pending == progress.stuck:
            self._count_misses(wallet)
            try:
                self._attempt(self._store_untouched, wallet)
                more = self._attempt(self._repair, wallet, now) or more
            except Unavailable as error:
                self.problem = str(error)
        self._clear_trouble(wallet)
        self._publish(wallet, now)
        Wallet.update(due_at=now + (0 if more else int(1000 * self._pause(wallet, now)))).where(
            Wallet.id == wallet.id
        ).execute()

    def _progress(self, wallet):
        columns = Address.address, Address.walks, Address.walk_cursor, Address.walk_new
        addresses = list(Address.select(*columns).where(Address.wallet == wallet.id).namedtuples())
        watch, ledger = self._watches[wallet.id], self._ledger(wallet)
        left_out = wallet.accounts_left_out or ledger.seen.keys() - {a.address for a in addresses}
        mine = WalletSignature.wallet == wallet.id
        pending = mine & (WalletSignature.state == "pending")
        refused = (
            WalletSignature.select(WalletSignature.slot, WalletSignature.problem)
            .where(pending, WalletSignature.problem.is_null(False))
            .order_by(WalletSignature.slot)
            .limit(MAX_NAMED)
        )
        verdicts = self._verdicts(wallet)
        unexplained = tuple(
            (a, ledger.seen[a].slot if a in ledger.seen else 0, watch.holdings[a].slot)
            for a in self._unexplained(wallet)
        )
        return Progress(
            looked=any(a.walks or a.walk_cursor for a in addresses),
            listed=wallet.whole and all(a.walks for a in addresses),
            confirmed=wallet.accounts_at is not None
            and all(a.walks > 1 and a.walk_new == 0 for a in addresses),
            closed=all(verdicts.get(a.address) for a in addresses),
            pending=WalletSignature.select().where(pending).count(),
            refused=tuple(refused.tuples()),
            stuck=WalletSignature.select()
            .where(
                pending,
                (WalletSignature.tries >= STUCK_AFTER) | WalletSignature.problem.is_null(False),
            )
            .count(),
            unexplained=unexplained,
            capped=WalletSignature.select().where(mine).count()
            >= self.config.max_receipts_per_wallet,
            accounts_capped=bool(left_out),
            trouble=wallet.trouble,
        )

    def _publish(self, wallet, now):
        ledger, progress = self._ledger(wallet), self._progress(wallet)
        self.ledger_store.publish(wallet, progress, now)
        self.say(
            f"{wallet.address}: {ledger.count} receipts, {progress.pending} pending,"
            f" {ledger.totals.trades} trades"
        )


def observe_once(observer, now, sleep=time.sleep):
    """Look at every wallet until nothing is left to do at once, or nobody answers; the caller holds
    the work lock. Each wallet's coverage, by address.
    """
    troubles, polls = 0, 0
    # a balance that walking does not explain is told by a second look
    while polls < 2 and troubles < PATIENCE:
        Wallet.update(due_at=0).execute()
        more = observer.run_tick(now)
        trouble = observer.problem or observer.troubled
        polls, troubles = polls + (not more and not trouble), troubles + 1 if trouble else 0
        # as long as an endpoint rests that was asked too often
        pause = THROTTLED_SECONDS if trouble else 0.0
        sleep(pause)
        now += 1000 + int(1000 * pause)
    return {
        wallet.address: orjson.loads(wallet.coverage)
        for wallet in Wallet.select().where(Wallet.coverage.is_null(False))
    }


def rebuild(observer, wallets, now):
    """Derive everything of these wallets again.

    [(address, entries that changed, receipts to be fetched again, trades that changed, did the sums
    change), ...]
    """
    report = []
    for wallet in list(wallets):
        (entries, lost), sums = reread_entries(wallet, observer.programs), _list_sums(wallet)
        if entries or lost:
            # whoever observes it has other entries in memory: they are read again
            Wallet.update(rules="").where(Wallet.id == wallet.id).execute()
        mark_differing_trades(wallet.id)
        before = dict(
            Trade.select(Trade.signature, Trade.digest).where(Trade.wallet == wallet.id).tuples()
        )
        observer.ledger_store.forget(wallet.id)
        observer.ledger_store.apply(wallet)
        observer.ledger_store.publish(wallet, None, now)
        after = dict(
            Trade.select(Trade.signature, Trade.digest).where(Trade.wallet == wallet.id).tuples()
        )
        report.append(
            (
                wallet.address,
                entries,
                lost,
                sum(before.get(s) != after.get(s) for s in before.keys() | after.keys()),
                sums != _list_sums(wallet),
            )
        )
    return report


def _list_sums(wallet):
    return (
        Wallet.select(Wallet.results, Wallet.positions, Wallet.realized, Wallet.last_trade_at)
        .where(Wallet.id == wallet.id)
        .tuples()
        .get()
    )
