"""Run a recording of stored snapshots through the engine that live traders use.

Each candidate has its own trader and market, and all advance together. Some run only on the first
part of the recording: their decisions must match those on the whole (the look-ahead check).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from typing import Any, NamedTuple

import storage
from chain.amounts import sol
from chain.stored.derived import show_time
from market.rules import KEPT, SHORTEST_MS
from paper import engine, measured, results, store
from paper.account import PIPELINE, STARTING_CASH, Account, Close, read_close
from paper.brain import format_line
from paper.engine import TWINS, Market, name_twin, run_heartbeat
from paper.fills import MODEL, RECORDED_COSTS, NetworkCosts
from paper.market import Flow, Snapshot, SnapshotRow, Token, parse_snapshot, percent
from paper.measured import RECORDED_RECEIPTS, CostsFrom, VenueError, list_eligible
from paper.player import DiaryLine, Faults, Player
from paper.rules import DAY_MS, HOUR_MS, Phase
from paper.store import find_tokens
from paper.strategies import Strategy, show_settings
from storage.rows import select

# Parts of a recording. Each is evaluated with settings chosen on the earlier parts.
FOLDS = 4
# Percentages of the recording at which look-ahead checks end.
CUTS = (25, 50, 75)
# Eligible closes needed to choose settings by their result.
MIN_CHOSEN = 3
MAX_POINTS = 400
# Means are in millionths of the invested SOL.
MILLION = 10**6
HANDLE = "backtest"
# Called with the progress in percent.
Note = Callable[[int], None]


@dataclass(frozen=True)
class Recording:
    """Stored snapshots in order, from `start` to before `end` (ms), one per token and interval."""

    interval_ms: int
    start: int
    end: int
    tokens: Mapping[str, Token]
    flows: Mapping[str, tuple[Flow, ...]]
    snapshots: Iterable[Snapshot]
    # Oldest first. Before them, the recorded costs apply.
    costs: tuple[CostsFrom, ...] = ()
    # The model's errors by venue. If None, closes count at all venues that the model supports.
    errors: tuple[VenueError, ...] | None = None

    def find_costs(self, at: int) -> NetworkCosts:
        known = bisect_right(self.costs, at, key=lambda one: one.at)
        return self.costs[known - 1].costs if known else RECORDED_COSTS


# ---- stored snapshots ----------------------------------------------------------------------------
MAX_SPAN_MS = 31 * DAY_MS
PAGE = 5_000
# IDs increase with time.
ENDS = """
SELECT (SELECT taken_at FROM snapshot ORDER BY id LIMIT 1),
       (SELECT taken_at FROM snapshot ORDER BY id DESC LIMIT 1)"""
PAGE_OF_SNAPSHOTS = f"""{store.NAMED_SNAPSHOT}
WHERE s.id > ? AND s.taken_at >= ? ORDER BY s.id LIMIT {PAGE}"""


def read_recording(times: range, interval_ms: int, now: int) -> Recording:
    """Return the recording of a period (ms), at the interval at which all of its snapshots are
    kept.

    `interval_ms` is the scout's. Data about tokens is current, not from that time.
    """
    grain = find_grain(times.start, interval_ms, now)
    found = find_tokens(Faults(), store.RECORDED_TOKENS)
    tokens = {token.mint: token for token in found.values()}
    known = store.list_flows(times.start - DAY_MS, times.stop)
    return Recording(
        grain,
        times.start,
        times.stop,
        tokens,
        known,
        _thin(_list_snapshots(times, tokens), grain),
        tuple(measured.list_costs()),
        tuple(measured.list_errors(now)),
    )


def find_grain(start: int, interval_ms: int, now: int) -> int:
    """Return the interval (ms) at which every snapshot since `start` is still kept."""
    kept = (one.interval_ms for one in sorted(KEPT) if start >= now - one.age_ms)
    least = 0 if start >= now - SHORTEST_MS else next(kept, HOUR_MS)
    return max(interval_ms, least)


def find_recorded() -> range | None:
    ((first, last),) = storage.read_rows(ENDS)
    return None if first is None else range(first, last + 1)


def _thin(snapshots: Iterator[Snapshot], grain: int) -> Iterator[Snapshot]:
    newest: dict[str, int] = {}
    for one in snapshots:
        if newest.get(one.mint) != one.at // grain:
            newest[one.mint] = one.at // grain
            yield one


def _list_snapshots(times: range, tokens: Mapping[str, Token]) -> Iterator[Snapshot]:
    last = 0
    while page := select(SnapshotRow, PAGE_OF_SNAPSHOTS, (last, times.start)):
        for row in page:
            if row.taken_at >= times.stop:
                return
            if row.mint in tokens:
                yield parse_snapshot(row)
        last = page[-1].id


# ---- trials --------------------------------------------------------------------------------------
class Point(NamedTuple):
    at: int
    equity: int


@dataclass
class Trial:
    """A trader alone on a recording until `until` (ms)."""

    market: Market
    trader: Player
    until: int
    find_costs: Callable[[int], NetworkCosts]
    curve: list[Point] = field(default_factory=list)
    peak: int = 0
    # In basis points.
    drawdown_bps: int = 0
    spacing_ms: int = 0
    sol_cents_first: int | None = None

    @classmethod
    def prepare(
        cls, recording: Recording, strategy: Strategy, start_mode: str, until: int
    ) -> "Trial":
        """Create a trial with its own account and twins.

        It can't be reviewed, so a doubtful price excludes the position.
        """
        flows = {
            mint: tuple(flow for flow in all_flows if flow.at < until)
            for mint, all_flows in recording.flows.items()
        }
        phase = Phase(start_mode, since=recording.start)
        trader = Player(1, HANDLE, strategy, Account(), phase=phase, reviewable=False)
        trader.twins = [
            Player(1, name_twin(HANDLE, number), strategy, Account(), reviewable=False)
            for number in range(1, TWINS + 1)
        ]
        market = Market(recording.interval_ms, recording.tokens.values(), flows)
        if recording.errors is not None:
            market.eligible = list_eligible(recording.errors)
        spacing = (recording.end - recording.start) // MAX_POINTS
        return cls(market, trader, until, recording.find_costs, spacing_ms=spacing)

    def play(self, at: int, snapshots: Sequence[Snapshot]) -> None:
        if at >= self.until:
            return
        self.market.costs = self.find_costs(at)
        run_heartbeat(self.trader, at)
        engine.play(self.market, [self.trader], snapshots, at)
        self.sol_cents_first = self.sol_cents_first or self.market.sol_cents
        equity = self.trader.account.equity
        self.peak = max(self.peak, equity)
        self.drawdown_bps = max(self.drawdown_bps, (self.peak - equity) * 10_000 // self.peak)
        if not self.curve or at - self.curve[-1].at >= self.spacing_ms:
            self.curve.append(Point(at, equity))

    @property
    def lines(self) -> list[DiaryLine]:
        return self.trader.journal.entries

    def list_closes(self) -> list[Close]:
        return _list_closes([self.trader])

    def list_random(self) -> list[Close]:
        return _list_closes(self.trader.twins)


def _list_closes(players: Sequence[Player]) -> list[Close]:
    closes = [
        read_close(str(one.number), one, one.marks, reviewed=player.reviewed)
        for player in players
        for one in player.journal.positions.values()
        if one.closed_at
    ]
    return sorted(closes, key=lambda close: close.closed_at)


class Fold(NamedTuple):
    """A part of the recording, from `start` to before `end` (ms).

    It has the results of the `chosen` candidate (an index) before and within this part, and the
    random entries within it.
    """

    start: int
    end: int
    chosen: int
    before: list[Close]
    within: list[Close]
    random: list[Close]


class Difference(NamedTuple):
    """The first diary line that would differ if the recording ended at `cut` (ms)."""

    cut: int
    whole: DiaryLine | None
    ended: DiaryLine | None


class Backtest(NamedTuple):
    recording: Recording
    trials: list[Trial]
    folds: list[Fold]
    cuts: list[int]
    difference: Difference | None
    snapshots: int

    @property
    def shown(self) -> Trial:
        """The candidate chosen for the last part. That part's data wasn't used to choose it."""
        return self.trials[self.folds[-1].chosen]


def run_backtest(
    recording: Recording,
    candidates: Sequence[Strategy],
    start_mode: str = "standard",
    note: Note = lambda percent: None,
) -> Backtest:
    length = max(1, recording.end - recording.start)
    cuts = [recording.start + length * cut // 100 for cut in CUTS]
    trials = [Trial.prepare(recording, one, start_mode, recording.end) for one in candidates]
    # Any candidate will do: settings don't decide whether a strategy looks ahead.
    ended = [Trial.prepare(recording, candidates[0], start_mode, cut) for cut in cuts]
    count, lengths = 0, dict[int, int]()
    for at, group in groupby(recording.snapshots, lambda one: one.at):
        snapshots = list(group)
        for cut in cuts:
            if at >= cut:
                lengths.setdefault(cut, len(trials[0].lines))
        for trial in (*trials, *ended):
            trial.play(at, snapshots)
        count += len(snapshots)
        note((at - recording.start) * 100 // length)
    folds = [find_fold(number, recording, trials) for number in range(FOLDS)]
    difference = find_difference(trials[0].lines, ended, lengths)
    return Backtest(recording, trials, folds, cuts, difference, count)


def find_difference(
    whole: Sequence[DiaryLine], ended: Sequence[Trial], lengths: Mapping[int, int]
) -> Difference | None:
    for trial in ended:
        had = whole[: lengths.get(trial.until, len(whole))]
        for first, second in zip_longest(had, trial.lines):
            if first != second:
                return Difference(trial.until, first, second)
    return None


# ---- walk-forward --------------------------------------------------------------------------------
def find_fold(number: int, recording: Recording, trials: Sequence[Trial]) -> Fold:
    length = recording.end - recording.start
    start = recording.start + length * number // FOLDS
    end = recording.start + length * (number + 1) // FOLDS
    before = [[one for one in trial.list_closes() if one.closed_at < start] for trial in trials]
    chosen = choose(before)
    within, random = (
        [one for one in closes if start <= one.opened_at < end]
        for closes in (trials[chosen].list_closes(), trials[chosen].list_random())
    )
    return Fold(start, end, chosen, before[chosen], within, random)


def choose(before: Sequence[Sequence[Close]]) -> int:
    """Return the index of the candidate with the highest mean return, or 0 if none is known."""
    means = [find_mean(closes) for closes in before]
    known = [mean for mean in means if mean is not None]
    return means.index(max(known)) if known else 0


def find_mean(closes: Sequence[Close]) -> int | None:
    """Return the mean return in millionths, or None with fewer than MIN_CHOSEN eligible closes."""
    returns = [
        one.net * MILLION // one.spent for one in closes if one.excluded is None and one.spent
    ]
    return sum(returns) // len(returns) if len(returns) >= MIN_CHOSEN else None


# ---- the report ----------------------------------------------------------------------------------
Json = dict[str, Any]
# Maximum number of closes in a result, which contains the newest.
MAX_CLOSES = 500
NOTES = (
    "Simulated on recorded prices. Past results don't predict future ones, and settings chosen"
    " on these days are tuned to these days.",
    "Mint checks, decimals and transfer fees are the current ones. The recording doesn't"
    " contain untracked tokens or prices between two snapshots.",
    "Network costs are the amounts that paper traders paid at the time. The list of venues that"
    " count, and their fill errors, are current.",
    "Random entries have the same sizes, exits and costs. Results no better than these, or than"
    " holding SOL, show no skill.",
    "This result is separate from paper traders' records. It doesn't appear in "
    "comparisons or on profiles.",
)
COLUMNS = (
    *("closedAt", "openedAt", "mint", "symbol", "reason", "grossLamports", "netLamports"),
    *("spentLamports", "returnPct", "excluded", "account"),
)
STRATEGY, RANDOM = "strategy", "random"


def show_backtest(tested: Backtest, family: str, start_mode: str) -> Json:
    recording, shown = tested.recording, tested.shown
    return {
        "simulated": True,
        "kind": "backtest",
        "family": family,
        "startMode": start_mode,
        "settings": show_settings(shown.trader.strategy),
        "pipeline": PIPELINE,
        "model": MODEL,
        "from": _show_time(recording.start),
        "to": _show_time(recording.end),
        "intervalSeconds": recording.interval_ms // 1000,
        "snapshots": tested.snapshots,
        "tokens": len(recording.tokens),
        **_show_trial(shown),
        "equity": [{"at": _show_time(at), "sol": sol(equity)} for at, equity in shown.curve],
        "closes": [show_close(close) for close in shown.list_closes()[-MAX_CLOSES:]],
        "randomCloses": [show_close(close, RANDOM) for close in shown.list_random()[-MAX_CLOSES:]],
        "networkCosts": _show_costs(recording),
        "venues": _show_venues(recording),
        "candidates": [
            {"settings": show_settings(one.trader.strategy), **_show_trial(one)}
            for one in tested.trials
        ],
        "walkForward": [_show_fold(fold, tested) for fold in tested.folds],
        "lookAhead": _show_check(tested),
        "notes": list(NOTES),
    }


def _show_trial(trial: Trial) -> Json:
    account, closes = trial.trader.account, trial.list_closes()
    return {
        "returnPct": float(percent(account.equity - STARTING_CASH, STARTING_CASH)),
        "maxDrawdownPct": float(percent(trial.drawdown_bps, 10_000)),
        "equitySol": sol(account.equity),
        "closeCount": len(closes),
        "openPositions": len(account.positions),
        "reviewed": trial.trader.reviewed,
        "comparison": results.compare(closes, STARTING_CASH),
        "controls": _show_controls(trial),
    }


def _show_controls(trial: Trial) -> Json:
    closes, first, last = trial.list_random(), trial.sol_cents_first, trial.market.sol_cents
    equity = sum(twin.account.equity for twin in trial.trader.twins) // TWINS
    moved = float(percent(last - first, first)) if first and last else None
    return {
        "holdingSol": {"returnPct": 0.0, "usdChangePct": moved},
        "randomEntry": {
            "equitySol": sol(equity),
            "returnPct": float(percent(equity - STARTING_CASH, STARTING_CASH)),
            "accounts": TWINS,
            "closes": len(closes),
            **results.describe(closes, TWINS * STARTING_CASH),
        },
    }


def _show_costs(recording: Recording) -> list[Json]:
    known = [one for one in recording.costs if one.at < recording.end]
    first = max((one.at for one in known if one.at <= recording.start), default=None)
    used = [one for one in known if first is None or one.at >= first]
    if first is None:
        used.insert(0, CostsFrom(recording.start, RECORDED_COSTS, 0))
    return [
        {
            "from": _show_time(max(one.at, recording.start)),
            **{f"{name}Lamports": str(value) for name, value in one.costs._asdict().items()},
            "receipts": one.receipts or RECORDED_RECEIPTS,
            "source": "own" if one.receipts else "recorded",
        }
        for one in used
    ]


def _show_venues(recording: Recording) -> list[Json]:
    return [
        {
            "venue": one.venue,
            "receipts": one.receipts,
            "medianBps": one.median_error_bps,
            "p90Bps": one.p90_error_bps,
            "source": one.source,
            "eligible": one.eligible,
        }
        for one in recording.errors or ()
    ]


def show_close(close: Close, account: str = STRATEGY) -> Json:
    return {
        "closedAt": _show_time(close.closed_at),
        "openedAt": _show_time(close.opened_at),
        "mint": close.mint,
        "symbol": close.symbol,
        "reason": close.reason,
        "grossLamports": str(close.gross),
        "netLamports": str(close.net),
        "spentLamports": str(close.spent),
        "returnPct": float(percent(close.net, close.spent)) if close.spent else None,
        "excluded": close.excluded,
        "account": account,
    }


def _show_fold(fold: Fold, tested: Backtest) -> Json:
    return {
        "from": _show_time(fold.start),
        "to": _show_time(fold.end),
        "settings": show_settings(tested.trials[fold.chosen].trader.strategy),
        "before": _sum_up(fold.before),
        "within": _sum_up(fold.within),
        "random": _sum_up(fold.random),
    }


def _sum_up(closes: Sequence[Close]) -> Json:
    found = results.compare(closes, STARTING_CASH)
    return {
        name: found[name] for name in ("eligibleCloses", "clusters", "meanReturnPct", "winRate")
    }


def _show_check(tested: Backtest) -> Json:
    found = tested.difference
    return {
        "cuts": [_show_time(cut) for cut in tested.cuts],
        "same": found is None,
        "difference": found
        and {
            "cut": _show_time(found.cut),
            "whole": _show_line(found.whole),
            "ended": _show_line(found.ended),
        },
    }


def _show_line(line: DiaryLine | None) -> Json | None:
    if line is None:
        return None
    return {"at": _show_time(line.at), "text": format_line(line.kind, line.facts)}


def _show_time(ms: int) -> str | None:
    return show_time(ms // 1000)
