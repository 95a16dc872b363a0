"""Which wallets to poll now because a node sent a notice, and which are covered by subscriptions.

A notice only makes a wallet due; its content isn't read. Shared by listeners and the observer, so
protected by a lock. Times are seconds of the observer's clock.
"""

import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

# Minimum time between polls of a wallet because of notices, and how long the first one waits for
# other notices about the same transaction.
MIN_PAUSE_SECONDS, SETTLE_SECONDS = 1.0, 0.2
# Polls per notice until something new is found: the polled node may lag.
MAX_TRIES = 3
# A notice that arrives this soon after a find may be about that find.
LATE_SECONDS = 1.0
# Mute an endpoint after this many consecutive false notices.
MAX_FALSE = 50
# After a poll finds something without a notice, treat the wallet as not covered for a while.
DISTRUST_SECONDS, GRACE_SECONDS = 600.0, 5.0


class Subscription(NamedTuple):
    """Transactions that name a wallet or, if `account` is set, changes of its token account."""

    wallet_id: int
    wallet: str
    account: str | None = None


@dataclass
class Call:
    """Notices about a wallet that haven't led to a poll yet."""

    begun_at: float
    endpoints: set[str] = field(default_factory=set)
    tries: int = 0
    # A pass started without the wallet, perhaps because it wasn't due in the database yet.
    is_missed: bool = False


class Notices:
    def __init__(self) -> None:
        self._news = threading.Condition()
        # By wallet: waiting, taken for the next pass, and in the running pass.
        self._waiting: dict[int, Call] = {}
        self._taken: dict[int, Call] = {}
        self._polled: dict[int, Call] = {}
        # Times by wallet: last poll because of notices, last notice, last poll that found
        # something, last find without a notice.
        self._asked_at: dict[int, float] = {}
        self._told_at: dict[int, float] = {}
        self._found_at: dict[int, float] = {}
        self._missed_at: dict[int, float] = {}
        self._covered: dict[str, set[int]] = {}
        self._false: dict[str, int] = {}
        # Wanted subscriptions, most important first; the same for every endpoint.
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
        """Count a false or malformed notice."""
        with self._news:
            self._false[endpoint] = self._false.get(endpoint, 0) + 1

    def is_false(self, endpoint: str) -> bool:
        """Whether to mute an endpoint. If so, drop its notices and their count."""
        with self._news:
            if self._false.get(endpoint, 0) < MAX_FALSE:
                return False
            del self._false[endpoint]
            for call in self._waiting.values():
                call.endpoints.discard(endpoint)
            self._waiting = {key: one for key, one in self._waiting.items() if one.endpoints}
            return True

    def cover(self, endpoint: str, wallet_ids: set[int]) -> None:
        """Record the wallets for which an endpoint confirmed all subscriptions."""
        with self._news:
            self._covered[endpoint] = wallet_ids

    # ---- for the job that subscribes -------------------------------------------------------------
    def want(self, wanted: tuple[Subscription, ...]) -> None:
        """Set the wanted subscriptions and forget all other wallets."""
        ids = {one.wallet_id for one in wanted}
        with self._news:
            # Keep the same tuple if nothing changed: listeners compare by identity.
            self.wanted = self.wanted if self.wanted == wanted else wanted
            times = (self._asked_at, self._told_at, self._found_at, self._missed_at)
            for known in (self._waiting, *times):
                for wallet_id in known.keys() - ids:
                    del known[wallet_id]

    def take(self, clock: Callable[[], float], seconds: float = 0.0) -> list[int]:
        """Return the wallets to poll in the next pass, once one is due. Waits up to `seconds`."""
        end = clock() + seconds
        with self._news:
            while True:
                self._drop_answered()
                now, due_at = clock(), min(map(self._find_due, self._waiting), default=math.inf)
                if due_at <= now or end <= now:
                    break
                self._news.wait(min(end, due_at) - now)
            if due_at > now:
                return []
            taken = [one for one in self._waiting if self._find_free(one) <= now]
            for wallet_id in taken:
                self._taken[wallet_id] = self._waiting.pop(wallet_id)
                self._asked_at[wallet_id] = now
            return taken

    def _find_due(self, wallet_id: int) -> float:
        return max(self._waiting[wallet_id].begun_at + SETTLE_SECONDS, self._find_free(wallet_id))

    def _find_free(self, wallet_id: int) -> float:
        return self._asked_at.get(wallet_id, -math.inf) + MIN_PAUSE_SECONDS

    def _drop_answered(self) -> None:
        """Drop notices that arrived before a pass found something new."""
        for wallet_id, call in list(self._waiting.items()):
            if not call.tries and self._found_at.get(wallet_id, -math.inf) > call.begun_at:
                self._false |= dict.fromkeys(call.endpoints, 0)
                del self._waiting[wallet_id]

    def count_covered(self) -> int:
        with self._news:
            return len(set().union(*self._covered.values()))

    # ---- for the observer ------------------------------------------------------------------------
    def begin_pass(self, wallet_ids: Iterable[int]) -> None:
        with self._news:
            self._polled = {one: self._taken.pop(one) for one in wallet_ids if one in self._taken}
            self._taken = {key: one for key, one in self._taken.items() if not one.is_missed}
            for call in self._taken.values():
                call.is_missed = True

    def is_urgent(self) -> bool:
        """Whether wallets wait for the next pass, so the running one should end."""
        return bool(self._taken)

    def is_noticed(self, wallet_id: int) -> bool:
        """Whether the running pass polls the wallet because of a notice."""
        return wallet_id in self._polled

    def note_found(self, wallet_id: int, now: float) -> None:
        """Record that a poll found something new for a wallet.

        If no notice arrives within a few seconds, the wallet isn't covered for a while.
        """
        with self._news:
            self._found_at[wallet_id] = now
            told_at = self._told_at.get(wallet_id, -math.inf)
            if now - told_at >= GRACE_SECONDS and wallet_id not in self._polled:
                self._missed_at[wallet_id] = now

    def end_poll(self, wallet_id: int, is_pending: bool) -> None:
        """Record that a wallet was polled. `is_pending`: listed transactions couldn't be fetched
        yet.
        """
        with self._news:
            call = self._polled.pop(wallet_id, None)
            if call is None:
                return
            is_true = self._found_at.get(wallet_id, -math.inf) >= call.begun_at - LATE_SECONDS
            if is_true:
                self._false |= dict.fromkeys(call.endpoints, 0)
            if is_true and not is_pending:
                return
            call.tries += 1
            if call.tries < MAX_TRIES:
                self._waiting.setdefault(wallet_id, call).endpoints.update(call.endpoints)
            elif not is_true:
                for endpoint in call.endpoints:
                    self._false[endpoint] = self._false.get(endpoint, 0) + 1

    def covers(self, wallet_id: int, now: float) -> bool:
        """Whether an endpoint has all subscriptions of a wallet and missed no recent notice."""
        with self._news:
            missed_seconds = now - self._missed_at.get(wallet_id, -math.inf)
            if GRACE_SECONDS <= missed_seconds < DISTRUST_SECONDS:
                return False
            return any(wallet_id in ids for ids in self._covered.values())
