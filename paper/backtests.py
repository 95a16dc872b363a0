"""Play a recording through the engine that live traders use. Pure.

Each set of settings is played by a trader in a market of its own, all of them moment by moment
beside each other. Some play only the beginning of the recording: what they decided must be what was
decided with the rest to come (the look-ahead check).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from paper import engine
from paper.account import Account, Close
from paper.adaptive import run_heartbeat, summarize
from paper.fills import RECORDED_COSTS, NetworkCosts
from paper.guard import Phase
from paper.market import Flow, Snapshot, Token
from paper.measured import CostsFrom, VenueError, list_eligible
from paper.recent import Market
from paper.strategies import Strategy
from paper.trader import DiaryLine, Trader
from paper.twins import Twin, name_twin

# Parts of a recording, each judged by settings chosen on those before it.
FOLDS = 4
# Shares of the recording, in percent, after which a look-ahead check ends.
CUTS = (25, 50, 75)
# Eligible closes before settings may be chosen for what they brought.
MIN_CHOSEN = 3
MAX_POINTS = 400
# In a SOL invested.
MILLION = 10**6
HANDLE = "backtest"
# Told how much of the recording is played, in percent.
Note = Callable[[int], None]


@dataclass(frozen=True)
class Recording:
    """Stored snapshots taken from `start` to before `end` (ms), in order, and what was known of
    tokens and observed wallets. `interval_ms`: between two snapshots of a token.
    """

    interval_ms: int
    start: int
    end: int
    tokens: Mapping[str, Token]
    flows: Mapping[str, tuple[Flow, ...]]
    snapshots: Iterable[Snapshot]
    # Oldest first; before the first of them what was recorded with the model counts.
    costs: tuple[CostsFrom, ...] = ()
    # How far off the model is at each venue; None: closes at all venues that it fits count.
    errors: tuple[VenueError, ...] | None = None

    def find_costs(self, at: int) -> NetworkCosts:
        """Return what live traders paid the network at a time (ms)."""
        known = bisect_right(self.costs, at, key=lambda one: one.at)
        return self.costs[known - 1].costs if known else RECORDED_COSTS


class Point(NamedTuple):
    """The equity of an account at a time, in lamports and ms."""

    at: int
    equity: int


@dataclass
class Player:
    """A trader that plays a recording alone, until `until` (ms)."""

    market: Market
    trader: Trader
    until: int
    find_costs: Callable[[int], NetworkCosts]
    curve: list[Point] = field(default_factory=list)
    peak: int = 0
    # The deepest fall below a peak, in basis points of that.
    drawdown_bps: int = 0
    spacing_ms: int = 0

    @classmethod
    def prepare(
        cls, recording: Recording, strategy: Strategy, start_mode: str, until: int
    ) -> "Player":
        """Make a player with an account of its own, and random entries beside it, that knows
        nothing of `until` and later.
        """
        flows = {
            mint: tuple(flow for flow in told if flow.at < until)
            for mint, told in recording.flows.items()
        }
        phase = Phase(start_mode, since=recording.start)
        trader = Trader(1, HANDLE, strategy, Account(), phase=phase)
        trader.twin = Twin(Trader(1, name_twin(HANDLE), strategy, Account()))
        market = Market(recording.interval_ms, recording.tokens.values(), flows)
        if recording.errors is not None:
            market.eligible = list_eligible(recording.errors)
        spacing = (recording.end - recording.start) // MAX_POINTS
        return cls(market, trader, until, recording.find_costs, spacing_ms=spacing)

    def play(self, at: int, snapshots: Sequence[Snapshot]) -> None:
        """Play the snapshots of one moment, seen as they were taken."""
        if at >= self.until:
            return
        self.market.costs = self.find_costs(at)
        run_heartbeat(self.trader, at)
        engine.play(self.market, [self.trader], snapshots, at)
        equity = self.trader.account.equity
        self.peak = max(self.peak, equity)
        self.drawdown_bps = max(self.drawdown_bps, (self.peak - equity) * 10_000 // self.peak)
        if not self.curve or at - self.curve[-1].at >= self.spacing_ms:
            self.curve.append(Point(at, equity))

    @property
    def lines(self) -> list[DiaryLine]:
        """Its diary."""
        return self.trader.journal.entries

    def list_closes(self) -> list[Close]:
        """List its closes, oldest first."""
        return _list_closes(self.trader, lambda number: self.trader.reviewed)

    @property
    def twin(self) -> Twin:
        """What entered at random beside it."""
        assert self.trader.twin is not None
        return self.trader.twin

    def list_random(self) -> list[Close]:
        """List the closes of random entries, oldest first."""
        return _list_closes(self.twin.player, lambda number: number in self.twin.doubted)


def _list_closes(trader: Trader, is_doubted: Callable[[int], bool]) -> list[Close]:
    closed = [one for one in trader.journal.positions.values() if one.closed_at]
    closes = [summarize(one, str(one.number), is_doubted(one.number)) for one in closed]
    return sorted(closes, key=lambda close: close.closed_at)


class Fold(NamedTuple):
    """A part of the recording, from `start` to before `end` (ms): what `chosen` (the place of a
    candidate) brought before it, and what in it, beside its random entries.
    """

    start: int
    end: int
    chosen: int
    before: list[Close]
    within: list[Close]
    random: list[Close]


class Difference(NamedTuple):
    """The first line that would have been another one, had the recording ended at `cut` (ms)."""

    cut: int
    whole: DiaryLine | None
    ended: DiaryLine | None


class Backtest(NamedTuple):
    """What came of a recording: a player for each candidate, the folds, and what the look-ahead
    check found.
    """

    recording: Recording
    players: list[Player]
    folds: list[Fold]
    cuts: list[int]
    difference: Difference | None
    snapshots: int

    @property
    def shown(self) -> Player:
        """The candidate that the last fold was played with, chosen without having seen it."""
        return self.players[self.folds[-1].chosen]


def run_backtest(
    recording: Recording,
    candidates: Sequence[Strategy],
    start_mode: str = "standard",
    note: Note = lambda percent: None,
) -> Backtest:
    """Play a recording with each of the candidates, at least one, and judge what came of it."""
    span = max(1, recording.end - recording.start)
    cuts = [recording.start + span * cut // 100 for cut in CUTS]
    players = [Player.prepare(recording, one, start_mode, recording.end) for one in candidates]
    # Beside the first candidate: whether a strategy looks ahead does not depend on its settings.
    ended = [Player.prepare(recording, candidates[0], start_mode, cut) for cut in cuts]
    count, lengths = 0, dict[int, int]()
    for at, group in groupby(recording.snapshots, lambda one: one.at):
        snapshots = list(group)
        for cut in cuts:
            if at >= cut:
                lengths.setdefault(cut, len(players[0].lines))
        for player in (*players, *ended):
            player.play(at, snapshots)
        count += len(snapshots)
        note((at - recording.start) * 100 // span)
    folds = [find_fold(number, recording, players) for number in range(FOLDS)]
    difference = find_difference(players[0].lines, ended, lengths)
    return Backtest(recording, players, folds, cuts, difference, count)


def find_difference(
    whole: Sequence[DiaryLine], ended: Sequence[Player], lengths: Mapping[int, int]
) -> Difference | None:
    """Return where a diary differs from those that ended early, None where it does not.

    `lengths`: how many lines it had at each end.
    """
    for player in ended:
        had = list(whole[: lengths.get(player.until, len(whole))])
        if had != player.lines:
            width = max(len(had), len(player.lines))
            pairs = zip(_fill(had, width), _fill(player.lines, width), strict=True)
            first, second = next(pair for pair in pairs if pair[0] != pair[1])
            return Difference(player.until, first, second)
    return None


def _fill(lines: Sequence[DiaryLine], width: int) -> list[DiaryLine | None]:
    return [*lines, *[None] * (width - len(lines))]


# ---- walk-forward --------------------------------------------------------------------------------
def find_fold(number: int, recording: Recording, players: Sequence[Player]) -> Fold:
    """Return a part of the recording with the candidate that brought most before it."""
    span = recording.end - recording.start
    start = recording.start + span * number // FOLDS
    end = recording.start + span * (number + 1) // FOLDS
    before = [[one for one in player.list_closes() if one.closed_at < start] for player in players]
    chosen = choose(before)
    within, random = (
        [one for one in closes if start <= one.opened_at < end]
        for closes in (players[chosen].list_closes(), players[chosen].list_random())
    )
    return Fold(start, end, chosen, before[chosen], within, random)


def choose(before: Sequence[Sequence[Close]]) -> int:
    """Return the place of the candidate with the highest mean return; the first one where none has
    enough closes, or two have the same.
    """
    means = [find_mean(closes) for closes in before]
    known = [mean for mean in means if mean is not None]
    return means.index(max(known)) if known else 0


def find_mean(closes: Sequence[Close]) -> int | None:
    """Return the mean return of eligible closes in millionths; None for fewer than MIN_CHOSEN."""
    returns = [
        one.net * MILLION // one.spent for one in closes if one.excluded is None and one.spent
    ]
    return sum(returns) // len(returns) if len(returns) >= MIN_CHOSEN else None
