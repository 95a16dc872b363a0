"""The market while it is played: the recent past of every token, and what simulated trades have
done to its pools. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from paper.fills import RECORDED_COSTS, Fill, remember
from paper.market import (
    MISSING_INTERVALS,
    MOVES,
    SILENCE_MS,
    SKEW_MS,
    WINDOW,
    WINDOW_INTERVALS,
    CheckedSnapshot,
    Flow,
    Snapshot,
    Token,
    View,
    find_flaw,
)
from paper.pools import NEVER_TRADED, Memory, pool_key

# A pool forgets simulated trades after this long without one.
FORGOTTEN_MS = 86_400_000
# A silence that ended longer ago is forgotten.
SILENCES_KEPT_MS = 30 * 86_400_000


class Silence(NamedTuple):
    """A time without a snapshot of any token, in ms."""

    start: int
    end: int


class Market:
    """The recent past of every token. `push` adds the next snapshot; `view` shows a token's usable
    window.

    `awake_since`: start of the last stretch of snapshots without a pause, over all tokens. A token
    without an earlier snapshot isn't missing: the scout was silent.
    """

    def __init__(
        self,
        interval_ms: int,
        tokens: Iterable[Token] = (),
        flows: Mapping[str, tuple[Flow, ...]] | None = None,
    ) -> None:
        self.interval_ms, self.horizon_ms = interval_ms, WINDOW_INTERVALS * interval_ms
        self.windows: dict[str, tuple[Snapshot, ...]] = {}
        # By mint, the last snapshot that had a price.
        self.before: dict[str, Snapshot] = {}
        # What traders did to each pool, by paper.pools.pool_key,
        self.memories: dict[str, Memory] = {}
        # ... and what each twin did to those that it trades in, by its handle.
        self.apart_memories: dict[str, dict[str, Memory]] = {}
        # What a SOL costs, in USD cents.
        self.sol_cents: int | None = None
        self.costs = RECORDED_COSTS
        # Venues whose closes may be compared; None: all that the model fits.
        self.eligible: frozenset[str] | None = None
        # When each token's present quote was first served.
        self.quoted_at: dict[str, int] = {}
        self.awake_since = self.newest_at = 0
        # Oldest first.
        self.silences: list[Silence] = []
        self.follow(tokens, flows or {})

    def follow(self, tokens: Iterable[Token], flows: Mapping[str, tuple[Flow, ...]]) -> None:
        """Follow these tokens from now on, with what observed wallets did in each (by mint). What
        is known of other tokens is forgotten.
        """
        self.tokens, self.flows = {token.mint: token for token in tokens}, flows
        self.windows = {
            mint: window for mint, window in self.windows.items() if mint in self.tokens
        }
        self.before = {
            mint: snapshot for mint, snapshot in self.before.items() if mint in self.tokens
        }

    def copy(self) -> "Market":
        """Return a market that can be played without changing this one."""
        other = Market(self.interval_ms, self.tokens.values(), self.flows)
        other.windows, other.before = dict(self.windows), dict(self.before)
        other.memories, other.costs = dict(self.memories), self.costs
        other.apart_memories = {who: dict(known) for who, known in self.apart_memories.items()}
        other.eligible, other.sol_cents = self.eligible, self.sol_cents
        other.quoted_at = dict(self.quoted_at)
        other.awake_since, other.newest_at = self.awake_since, self.newest_at
        other.silences = list(self.silences)
        return other

    def copy_at(self, now: int) -> "Market | None":
        """Return a market that can be played at `now` (ms); None if this one has seen a later
        snapshot: the clock was set back, and every new snapshot would count as out of date.
        """
        return None if self.newest_at > now + SKEW_MS else self.copy()

    def apart(self, handle: str) -> "Market":
        """Return the same market for a twin, whose trades move only its own pools."""
        # Five times as fast as copy.copy; each twin asks for one in each round.
        other = Market.__new__(Market)
        memories = self.apart_memories.setdefault(handle, {})
        other.__dict__ = {**self.__dict__, "memories": memories}
        return other

    def push(self, snapshot: Snapshot, now: int) -> CheckedSnapshot:
        """Check a snapshot; one without a flaw enters its token's window."""
        flaw = find_flaw(self.before.get(snapshot.mint), snapshot, now, self.horizon_ms)
        if flaw != "clock_skew":
            self._note_time(snapshot.at)
        if flaw in (None, *MOVES):
            last = self.before.get(snapshot.mint)
            if last is None or last.quote != snapshot.quote or last.pair != snapshot.pair:
                self.quoted_at[snapshot.mint] = snapshot.at
            self.before[snapshot.mint] = snapshot
        if flaw == "pair_changed":
            self.windows.pop(snapshot.mint, None)
        if flaw is None:
            self._extend(snapshot)
        return CheckedSnapshot(snapshot, flaw)

    def _extend(self, snapshot: Snapshot) -> None:
        """Add a snapshot to its token's window. One that arrives sooner than the scout's interval,
        like those of held tokens, replaces the newest: windows count intervals.
        """
        kept = self.windows.get(snapshot.mint, ())
        if len(kept) > 1 and (kept[-1].at - kept[-2].at) * 4 < self.interval_ms * 3:
            kept = kept[:-1]
        recent = [one for one in kept[1 - WINDOW :] if one.at >= snapshot.at - self.horizon_ms]
        self.windows[snapshot.mint] = (*recent, snapshot)

    def note_sol(self, seen: Iterable[Snapshot]) -> None:
        """Note what a SOL costs: the middle of what the snapshots of a moment say."""
        prices = sorted(one.sol_cents for one in seen if one.sol_cents)
        if prices:
            self.sol_cents = prices[len(prices) // 2]

    def begin(self, at: int, silences: Sequence[Silence]) -> None:
        """Begin at a time (ms), after these silences."""
        self.awake_since = self.newest_at = at
        self.silences = list(silences)

    def count_awake_ms(self, since: int, until: int) -> int:
        """Return how much of a time was in no silence, as far back as those are known."""
        silent = (min(one.end, until) - max(one.start, since) for one in self.silences)
        return until - since - sum(one for one in silent if one > 0)

    def _note_time(self, at: int) -> None:
        if at - self.newest_at > max(self.patience_ms, SILENCE_MS):
            self.awake_since = at
            if self.newest_at:
                kept = [one for one in self.silences if one.end > at - SILENCES_KEPT_MS]
                self.silences = [*kept, Silence(self.newest_at, at)]
        self.newest_at = max(self.newest_at, at)

    @property
    def patience_ms(self) -> int:
        """How long a held token may be without a usable price before a review opens."""
        return MISSING_INTERVALS * self.interval_ms

    def view(self, mint: str) -> View:
        """Return a token that has a window as strategies see it: nothing of later, and nothing
        that was not known then.
        """
        window = self.windows[mint]
        last = window[-1]
        flows = tuple(
            flow
            for flow in self.flows.get(mint, ())
            if flow.at <= last.at and flow.first_snapshot <= last.id
        )
        return View(self.tokens[mint], window, flows)

    def is_unproven(self, snapshot: Snapshot) -> bool:
        """Tell whether real fills at the snapshot's venue are unknown or far from the model's."""
        if snapshot.pool:
            # It reproduced the fill of the transaction that showed it.
            return False
        return self.eligible is not None and (snapshot.venue or "") not in self.eligible

    def list_observed(self, at: int) -> dict[str, CheckedSnapshot]:
        """Return the snapshots from observed transactions that no newer price replaced, by mint, as
        of `at` (ms).
        """
        return {
            mint: CheckedSnapshot(replace(one, at=at), None)
            for mint, one in self.before.items()
            if one.pool and mint in self.tokens
        }

    # ---- what simulated trades did ---------------------------------------------------------------
    def recall(self, snapshot: Snapshot) -> Memory:
        """Return what the pool of a snapshot remembers; nothing of what was more than a day ago."""
        memory = self.memories.get(pool_key(snapshot), NEVER_TRADED)
        is_old = memory.last is not None and snapshot.at - memory.last.at > FORGOTTEN_MS
        return NEVER_TRADED if is_old else memory

    def remember(self, fill: Fill, snapshot: Snapshot) -> None:
        """Let the pool of a snapshot remember a fill."""
        self.memories[pool_key(snapshot)] = remember(self.recall(snapshot), fill, snapshot)
