"""Compare the balances that nodes report for a wallet's accounts with the balances in its ledger.

A disconnected wallet is polled one last time, so that a loss in its last seconds counts, too.
"""

import functools
import math
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from peewee import SQL

import storage
from chain.addresses import WRAPPED_SOL
from chain.ledger.coverage import Progress
from chain.reading.flows import Holding
from chain.rpc import Resting, RpcError, check_decimals, check_holdings, check_time
from chain.stored.attachments import HELD
from chain.stored.store import read_untouched
from models import Wallet
from observing.entries import store_holding
from observing.listing import has_pending
from observing.state import FINALIZED, IN_WORK, MAX_SLEEP_SECONDS, Attempts, State, list_addresses
from storage import in_parts

# Minimum time between two requests for a slot's block time.
TIME_SECONDS = 60.0
ACCOUNTS_A_CALL = 100
# One call covers the balances of this many wallets. With fewer, all are polled at the full rate.
MAX_AWAKE = 100
# Fraction of an interval after which a wallet is due, so that the next pass isn't too early.
DUE_PART = 0.9
HOUR_SECONDS, DAY_SECONDS = 3_600, 86_400
# How long to wait before asking again for decimals that no node knows. Doubles each time.
MIN_DECIMALS_WAIT_SECONDS, MAX_DECIMALS_WAIT_SECONDS = 60.0, 86_400.0
# Plain SQL for speed: it runs for each wallet in each poll.
COMPARED = """
SELECT a.wallet_id, a.address FROM address a JOIN wallet w ON w.id = a.wallet_id
WHERE a.wallet_id IN ({marks}) AND (a.full_scans > 0 OR a.address = w.address) ORDER BY a.id"""
POLLED_AT = "UPDATE wallet SET polled_at = ? WHERE id IN ({marks})"
WAITING = "SELECT 1 FROM post WHERE wallet_id = ? AND status = 'pending' LIMIT 1"


class Asked(NamedTuple):
    wallet: Wallet
    address: str


class Balances:
    """Compares the nodes' balances with the ledger, a hundred accounts per call."""

    def __init__(self, state: State, attempts: Attempts) -> None:
        self._state, self._attempts = state, attempts

    # ---- how often -------------------------------------------------------------------------------
    def is_head_due(self, wallet: Wallet) -> bool:
        state = self._state
        listed_at = state.watches[wallet.id].listed_at.get(wallet.address, -math.inf)
        return state.begun_at - listed_at >= self._find_rest(wallet, state.now)

    def _find_rest(self, wallet: Wallet, now: int) -> float:
        """Return the seconds until the wallet's own signatures must be listed again.

        The result is 0 if the wallet trades or a post is pending. It is larger if nothing changed
        for an hour or a day, and doubles if a subscription covers the wallet.
        """
        state = self._state
        interval = state.config.observer_interval_seconds
        last = state.ledger_store.last_time(wallet.id)
        idle_seconds = now / 1000 - last if last else 0
        covered = state.notices.covers(wallet.id, state.clock())
        trades = idle_seconds < HOUR_SECONDS and not covered
        if wallet.trouble or wallet.closing_at is not None or trades:
            return 0.0
        quiet = state.watches[wallet.id].quiet
        if not quiet and storage.read_rows(WAITING, (wallet.id,)):
            return 0.0
        polls = 1 if idle_seconds < HOUR_SECONDS else 2 if idle_seconds < DAY_SECONDS else 4
        # Subtract half a poll, so that the poll that is due lists the signatures.
        rest = interval * (polls * (1 + covered) - 0.5)
        return min(rest, max(MAX_SLEEP_SECONDS, interval))

    def find_due(self, wallet: Wallet, now: int) -> int:
        """Return when to poll the wallet next (ms): at the next pass that has room for it."""
        seconds = DUE_PART * self._state.config.observer_interval_seconds
        if self._state.watched_count > MAX_AWAKE:
            seconds = max(seconds, self._find_rest(wallet, now))
        return now + int(1000 * seconds)

    def is_open(self, wallet: Wallet) -> bool:
        """Return whether the ledger is ahead of the last comparison, so that another may match."""
        checked = self._state.check_balances(wallet)
        return (
            wallet.backfilled
            and any(checked.get(a) is None for a in list_addresses(wallet.id))
            and not has_pending(wallet)
        )

    # ---- comparing -------------------------------------------------------------------------------
    def compare(self, wallets: Sequence[Wallet], until: float) -> None:
        """Find changed balances by requesting a hundred per call.

        Wallets with many addresses come last. When time is up, they continue in the next poll.
        """
        small: list[Asked] = []
        large: list[Asked] = []
        due = [w for w in wallets if not self._attempts.is_postponed(w, "_compare_own")]
        for asked in _list_asked(due):
            (small if len(asked) <= ACCOUNTS_A_CALL else large).extend(asked)
        large.sort(key=self._get_asked_at)
        rows = small + large
        for start in range(0, len(rows), ACCOUNTS_A_CALL):
            if start >= len(small) and start and self._state.clock() >= until:
                break
            self._compare_part(rows[start : start + ACCOUNTS_A_CALL])

    def _get_asked_at(self, asked: Asked) -> float:
        return self._state.watches[asked.wallet.id].asked_at.get(asked.address, -math.inf)

    def _compare_part(self, part: Sequence[Asked]) -> None:
        wallets = {asked.wallet.id: asked.wallet for asked in part}
        try:
            if len(wallets) > 1:
                self._ask_holdings(part)
                for wallet in wallets.values():
                    self._attempts.note_done(wallet, "_compare_own")
                return
        except RpcError as error:
            if self._attempts.is_common(error):
                raise
            # Separate calls show which of these wallets causes the failure.
        for _, group in groupby(part, key=lambda asked: asked.wallet.id):
            own = list(group)
            self._attempts.attempt(self._compare_own, own[0].wallet, own)

    def _compare_own(self, wallet: Wallet, part: Sequence[Asked]) -> None:
        self._ask_holdings(part)

    def _ask_holdings(self, part: Sequence[Asked]) -> None:
        self._state.spare_requests -= 1
        options = {**FINALIZED, "encoding": "base64", "dataSlice": {"offset": 0, "length": 72}}
        check = functools.partial(
            check_holdings, owned=[(asked.wallet.address, asked.address) for asked in part]
        )
        addresses = [asked.address for asked in part]
        (_, holdings), _ = self._state.rpc.call("getMultipleAccounts", [addresses, options], check)
        for asked, holding in zip(part, holdings, strict=True):
            watch, now = self._state.watches[asked.wallet.id], self._state.clock()
            watch.holdings[asked.address] = holding
            watch.asked_at[asked.address] = watch.answered_at = now
            if holding.executable:
                self._attempts.refuse_program(asked.wallet)

    # ---- what was observed when ------------------------------------------------------------------
    def store_polls(self, wallets: Sequence[Wallet], now: int) -> None:
        polled = {wallet.id: wallet.polled_at for wallet in wallets if self.note_poll(wallet, now)}
        for part in in_parts(polled):
            polled_at = max(at or 0 for at in polled.values())
            sql = POLLED_AT.format(marks=storage.mark(part))
            storage.database.execute_sql(sql, (polled_at, *part))

    def note_poll(self, wallet: Wallet, now: int) -> bool:
        """Update when a node last responded about the wallet. Return whether one just did."""
        state, answered_at = self._state, self._state.watches[wallet.id].answered_at
        if answered_at >= state.begun_at:
            wallet.polled_at = now + int(1000 * (answered_at - state.begun_at))
        return answered_at >= state.begun_at

    def read_time(self, wallets: Sequence[Wallet]) -> None:
        """Read, once a minute, the block time up to which these wallets were observed.

        Posts whose signature doesn't appear wait for this time.
        """
        state = self._state
        slots = {
            wallet.id: min(held.slot for held in state.watches[wallet.id].holdings.values())
            for wallet in wallets
            if state.watches[wallet.id].holdings
        }
        early = state.begun_at - state.time_asked_at < TIME_SECONDS
        if not slots or state.spare_requests <= 0 or early:
            return
        state.time_asked_at = state.begun_at
        state.spare_requests -= 1
        try:
            seconds = self._ask_time(min(slots.values()))
        except Resting:
            raise
        # Not a wallet's trouble. It is retried in a minute.
        except RpcError:
            return
        for wallet in wallets:
            if seconds and wallet.id in slots:
                wallet.observed_to = max(seconds, wallet.observed_to or 0)

    def is_after(self, wallet: Wallet, moment: int) -> bool:
        """Whether the last comparison was later, for all accounts, by the chain's clock."""
        slots = [held.slot for held in self._state.watches[wallet.id].holdings.values()]
        seconds = self._ask_time(min(slots)) if slots else None
        return seconds is not None and seconds * 1000 >= moment

    def _ask_time(self, slot: int) -> int | None:
        seconds: int | None = self._state.rpc.call("getBlockTime", [slot], check_time)[0]
        return seconds

    # ---- the last poll of a disconnected wallet -------------------------------------------------
    def close(self, wallet: Wallet, progress: Progress) -> bool:
        """Stop polling a disconnected wallet if possible, and return whether it was stopped.

        This requires that the nodes' balances from a later block time match its ledger, that its
        own signatures were listed after that, and that every listed transaction is stored. Raises
        RpcError.
        """
        moment = wallet.closing_at
        if moment is None or not self._is_seen(wallet, progress):
            return False
        if not self.is_after(wallet, moment):
            return False
        same = Wallet.id == wallet.id, Wallet.closing_at == moment
        Wallet.update(closing_at=None).where(*same).execute()
        wallet.closing_at = None
        return True

    def _is_seen(self, wallet: Wallet, progress: Progress) -> bool:
        state, watch = self._state, self._state.watches[wallet.id]
        listed_at = watch.listed_at.get(wallet.address, -math.inf)
        whole = wallet.backfilled and progress.closed and not progress.pending
        failed = wallet.id in state.troubled or watch.postponed.keys() - {"close"}
        return bool(whole and listed_at >= state.begun_at and not failed)

    # ---- what no transaction explains ------------------------------------------------------------
    def count_unexplained(self, wallet: Wallet) -> None:
        watch = self._state.watches[wallet.id]
        polls = watch.unexplained_polls
        for address, explained in self._state.check_balances(wallet).items():
            if watch.asked_at.get(address, -math.inf) >= self._state.begun_at:
                missed = polls.get(address, 0) + (explained is False)
                polls[address] = 0 if explained else missed

    def store_untouched(self, wallet: Wallet) -> None:
        """Store the balances of accounts that no known transaction involves.

        They stay in the ledger until a transaction involves the account or a node reports a
        different balance.
        """
        seen = self._state.apply_entries(wallet).chain.seen
        stored = read_untouched(storage.read_rows, wallet.id)
        holdings = self._state.watches[wallet.id].holdings
        held = {
            a: h for a, h in holdings.items() if a not in seen and h.mint not in (None, WRAPPED_SOL)
        }
        gone = [a for a in stored if a in seen or (a in holdings and a not in held)]
        fresh = {
            a: held[a]
            for a in self._state.list_unexplained(wallet)
            if a in held and (a not in stored or not _is_same(held[a], stored[a]))
        }
        decimals = self._find_decimals(wallet, {h.mint for h in fresh.values() if h.mint})
        found = {a: h for a, h in fresh.items() if h.mint in decimals}
        if not gone and not found:
            return
        with storage.writing():
            for address in gone:
                store_holding(wallet, address, None, None)
            for address, holding in found.items():
                store_holding(wallet, address, holding, decimals[holding.mint or ""])
        self._state.forget_wallet(wallet.id)

    def _find_decimals(self, wallet: Wallet, mints: Collection[str]) -> dict[str, int]:
        """Return decimals from the ledger or a node. Mints that no node knows are retried later."""
        if not mints:
            return {}
        known = self._state.apply_entries(wallet).decimals
        postponed = self._state.watches[wallet.id].decimals_postponed
        now = self._state.clock()
        unknown = [m for m in sorted(mints) if m not in known and postponed[m].until <= now]
        found = {mint: known[mint] for mint in mints if mint in known}
        for part in in_parts(unknown, ACCOUNTS_A_CALL):
            found |= self._ask_decimals(part)
        for mint in unknown:
            if mint not in found:
                waits = MIN_DECIMALS_WAIT_SECONDS, MAX_DECIMALS_WAIT_SECONDS
                postponed[mint].postpone(now, *waits)
        return found

    def _ask_decimals(self, mints: list[str]) -> dict[str, int]:
        options = {**FINALIZED, "encoding": "base64", "dataSlice": {"offset": 44, "length": 1}}
        check = functools.partial(check_decimals, mints=mints)
        found: dict[str, int]
        found, _ = self._state.rpc.call("getMultipleAccounts", [mints, options], check)
        return found


def _list_asked(wallets: Iterable[Wallet]) -> list[list[Asked]]:
    found: dict[int, list[Asked]] = {wallet.id: [] for wallet in wallets}
    by_id = {wallet.id: wallet for wallet in wallets}
    for wallet_id, address in storage.read_parts(COMPARED, by_id):
        found[wallet_id].append(Asked(by_id[wallet_id], address))
    return list(found.values())


def _is_same(holding: Holding, opening: Any) -> bool:
    return bool((holding.mint, holding.amount) == (opening.mint, opening.amount))


# ---- the last poll of a disconnected wallet ------------------------------------------------------
# Give up a wallet's last poll after this time. Its coverage says so.
MAX_CLOSING_MS = 86_400_000


def is_held() -> Any:
    return Wallet.id.in_(SQL(HELD))


def is_closing(now: int) -> Any:
    """Return the SQL condition for disconnected wallets whose last poll is due. `now`: ms."""
    # A later time was written while the clock was wrong.
    lately = Wallet.closing_at.between(now - MAX_CLOSING_MS, now + MAX_CLOSING_MS)
    # If no pass finished a wallet, poll it once, no matter how long the service was down, so that
    # its coverage shows how far observation got.
    return lately | (Wallet.closing_at.is_null(False) & (Wallet.due_at <= IN_WORK))
