"""What nodes are asked to tell of at once, and what they told: it makes a wallet due now.

Nothing here is believed. A notice names a transaction or an account to ask a node about; what is
stored is the node's finalized answer to that, as if a poll had found it. Pure, but for the lock
that lets listeners ring while the observer works. Times are seconds of the observer's clock.
"""

import math
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from chain.reading.answers import Holding

# Between two answers for a wallet; how long one waits for what belongs to the first notice.
MIN_PAUSE_SECONDS, SETTLE_SECONDS = 1.0, 0.2
# Of a wallet, waiting for an answer. Beyond that its newest signatures are listed instead.
MAX_WAITING = 100
# How often a transaction is asked for that no node has yet, and an account listed that lists
# nothing new.
MAX_TRIES = 3
# Notices of an endpoint, in a row, that led to nothing: then it is not listened to for a while.
MAX_FRUITLESS = 50
# A wallet of which a poll found what no notice told of is polled as if nobody listened; but a
# notice may be on its way.
DISTRUST_SECONDS, GRACE_SECONDS = 600.0, 5.0


class Audible(NamedTuple):
    """A wallet to listen for: busier ones have a larger `rank`, those that are waited for too."""

    wallet_id: int
    address: str
    accounts: tuple[str, ...]
    rank: tuple[bool, int]


class Subscription(NamedTuple):
    """What an endpoint is asked to tell: transactions that name a wallet, or, where `account` is
    set, changes of a token account of it.
    """

    wallet_id: int
    wallet: str
    account: str | None = None


def choose_subscriptions(wallets: Iterable[Audible], max_count: int) -> list[Subscription]:
    """Choose what to subscribe to: every wallet before any token account, first those that a post
    waits for, then those that trade most.
    """
    ranked = sorted(wallets, key=lambda one: (one.rank, -one.wallet_id), reverse=True)
    chosen = [Subscription(one.wallet_id, one.address) for one in ranked[:max_count]]
    for one in ranked:
        room = max_count - len(chosen)
        accounts = one.accounts[: max(0, room)]
        chosen += [Subscription(one.wallet_id, one.address, account) for account in accounts]
    return chosen


def list_heard(wanted: Sequence[Audible], confirmed: Collection[Subscription]) -> set[int]:
    """The wallets of which everything is subscribed to."""
    return {
        one.wallet_id
        for one in wanted
        if Subscription(one.wallet_id, one.address) in confirmed
        and all(Subscription(one.wallet_id, one.address, a) in confirmed for a in one.accounts)
    }


class Announced(NamedTuple):
    """A transaction that an endpoint named, and how often it was asked for in vain."""

    signature: str
    endpoint: str
    tries: int = 0


class Changed(NamedTuple):
    """An account that an endpoint says holds this now, and how often it was listed in vain."""

    address: str
    holding: Holding
    endpoint: str
    tries: int = 0


class Found(NamedTuple):
    """Where and when a poll found a transaction that no notice had told of."""

    address: str
    at: float


@dataclass
class Ring:
    """What was told of a wallet since it was last answered for."""

    wallet_id: int
    begun_at: float
    announced: dict[str, Announced] = field(default_factory=dict)
    changed: dict[str, Changed] = field(default_factory=dict)
    # More was told than is kept.
    overflown: bool = False


class Bell:
    """What listeners and the observer share. Silent until somebody listens."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._rings: dict[int, Ring] = {}
        self._asked_at: dict[int, float] = {}
        # By wallet, what polls found and no notice told of yet: by signature, the address that
        # listed it, and when.
        self._unheard: dict[int, dict[str, Found]] = {}
        self._heard: dict[str, set[int]] = {}
        self._fruitless: dict[str, int] = {}
        # What is to be listened for, the same for every endpoint.
        self.wanted: tuple[Audible, ...] = ()

    # ---- for listeners ---------------------------------------------------------------------------
    def announce(self, wallet_id: int, announced: Announced, now: float) -> None:
        """Ring for a wallet that a transaction names."""
        with self._news:
            self._forgive(wallet_id, now, announced.signature)
            ring = self._find_ring(wallet_id, now)
            if len(ring.announced) < MAX_WAITING or announced.signature in ring.announced:
                ring.announced.setdefault(announced.signature, announced)
            else:
                ring.overflown = True

    def note_change(self, wallet_id: int, changed: Changed, now: float) -> None:
        """Ring for a wallet of which a token account changed."""
        with self._news:
            self._forgive(wallet_id, now, changed.address)
            ring = self._find_ring(wallet_id, now)
            if len(ring.changed) < MAX_WAITING or changed.address in ring.changed:
                known = ring.changed.get(changed.address)
                if known is None or known.holding.slot <= changed.holding.slot:
                    ring.changed[changed.address] = changed
            else:
                ring.overflown = True

    def _forgive(self, wallet_id: int, now: float, told: str) -> None:
        """Forget what a poll found just before this notice: it was on its way. `told`: a signature,
        or an account.
        """
        unheard = self._unheard.get(wallet_id, {})
        for signature, found in list(unheard.items()):
            if told in (signature, found.address) and now - found.at < GRACE_SECONDS:
                del unheard[signature]

    def _find_ring(self, wallet_id: int, now: float) -> Ring:
        if wallet_id not in self._rings:
            self._rings[wallet_id] = Ring(wallet_id, now)
            self._news.notify_all()
        return self._rings[wallet_id]

    def note_heard(self, endpoint: str, wallet_ids: set[int]) -> None:
        """Note which wallets an endpoint tells everything of, as far as it says."""
        with self._news:
            self._heard[endpoint] = wallet_ids

    def is_fruitless(self, endpoint: str) -> bool:
        """Whether its last notices led to nothing; asking forgets them where they did."""
        with self._news:
            fruitless = self._fruitless.get(endpoint, 0) >= MAX_FRUITLESS
            if fruitless:
                self._fruitless[endpoint] = 0
                for ring in self._rings.values():
                    _forget_endpoint(ring, endpoint)
            return fruitless

    # ---- for the observer ------------------------------------------------------------------------
    def wait(self, clock: Callable[[], float], seconds: float) -> bool:
        """Wait, at most so long, until a wallet is to be asked about; return whether one is."""
        end = clock() + seconds
        with self._news:
            while True:
                due = min((self._find_due(ring) for ring in self._rings.values()), default=math.inf)
                now = clock()
                if due <= now or end <= now:
                    return due <= now
                self._news.wait(min(due, end) - now)

    def _find_due(self, ring: Ring) -> float:
        asked_at = self._asked_at.get(ring.wallet_id, -math.inf)
        return max(ring.begun_at + SETTLE_SECONDS, asked_at + MIN_PAUSE_SECONDS)

    def take(self, now: float) -> Ring | None:
        """Take what is to be asked about now, the earliest; None: nothing. A wallet has its turn
        once a second at most.
        """
        with self._news:
            due = [ring for ring in self._rings.values() if self._find_due(ring) <= now]
            if not due:
                return None
            first = min(due, key=lambda ring: ring.begun_at)
            del self._rings[first.wallet_id]
            self._asked_at[first.wallet_id] = now
            return first

    def take_early(self, wallet_id: int, now: float) -> Ring | None:
        """Take what was told of a wallet without waiting for what belongs to it; None where nothing
        was, or it was asked about less than a second ago.
        """
        with self._news:
            if now - self._asked_at.get(wallet_id, -math.inf) < MIN_PAUSE_SECONDS:
                return None
            ring = self._rings.pop(wallet_id, None)
            if ring is not None:
                self._asked_at[wallet_id] = now
            return ring

    def try_again(self, wallet_id: int, announced: Announced, now: float) -> bool:
        """Ask later for a transaction that no node has yet, a few times; return whether so."""
        if announced.tries + 1 >= MAX_TRIES:
            self.note_end(announced.endpoint, fruitful=False)
            return False
        self.announce(wallet_id, announced._replace(tries=announced.tries + 1), now)
        return True

    def list_again(self, wallet_id: int, changed: Changed, now: float) -> None:
        """List an account later whose change no node lists yet, a few times."""
        if changed.tries + 1 >= MAX_TRIES:
            self.note_end(changed.endpoint, fruitful=False)
        else:
            self.note_change(wallet_id, changed._replace(tries=changed.tries + 1), now)

    def note_end(self, endpoint: str, fruitful: bool) -> None:
        """Note whether what an endpoint told led to something."""
        with self._news:
            before = self._fruitless.get(endpoint, 0)
            self._fruitless[endpoint] = 0 if fruitful else before + 1

    def note_found(self, wallet_id: int, address: str, signature: str, now: float) -> None:
        """Note what a poll found in the list of an address. Where no notice told of it, nor does
        within some seconds, the wallet passes for unheard for a while.
        """
        with self._news:
            asked_at = self._asked_at.get(wallet_id, -math.inf)
            # Where the wallet rings, or was asked about just before, it may have been told of.
            if wallet_id in self._rings or now - asked_at < 2 * MIN_PAUSE_SECONDS:
                return
            known = self._unheard.get(wallet_id, {})
            young = {s: one for s, one in known.items() if now - one.at < DISTRUST_SECONDS}
            # One is enough to be caught: few are kept.
            if len(young) < MAX_WAITING:
                young[signature] = Found(address, now)
            self._unheard[wallet_id] = young

    def hears(self, wallet_id: int, now: float) -> bool:
        """Whether an endpoint tells everything of a wallet, and none was caught leaving out."""
        with self._news:
            unheard = self._unheard.get(wallet_id, {}).values()
            caught = any(GRACE_SECONDS <= now - one.at < DISTRUST_SECONDS for one in unheard)
            return not caught and any(wallet_id in ids for ids in self._heard.values())

    def count_heard(self) -> int:
        """How many wallets an endpoint tells everything of."""
        with self._news:
            return len(set().union(*self._heard.values()))

    def want(self, wallets: Sequence[Audible]) -> None:
        """Listen for these from now on, and forget what is known of others."""
        ids = {one.wallet_id for one in wallets}
        with self._news:
            # The same tuple where nothing changed: then listeners have nothing to compare.
            self.wanted = self.wanted if self.wanted == tuple(wallets) else tuple(wallets)
            for known in (self._rings, self._asked_at, self._unheard):
                for wallet_id in known.keys() - ids:
                    del known[wallet_id]


def _forget_endpoint(ring: Ring, endpoint: str) -> None:
    ring.announced = {s: one for s, one in ring.announced.items() if one.endpoint != endpoint}
    ring.changed = {a: one for a, one in ring.changed.items() if one.endpoint != endpoint}
