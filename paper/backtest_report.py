"""A backtest as JSON. It is simulated, of the past, and says so. Pure."""

from collections.abc import Sequence
from typing import Any

from chain.amounts import sol
from chain.summary import show_time
from paper import results
from paper.account import PIPELINE, STARTING_CASH, Close
from paper.backtests import Backtest, Difference, Fold, Player, Recording
from paper.diary import format_line
from paper.fills import MODEL, RECORDED_COSTS
from paper.market import percent
from paper.measured import RECORDED_RECEIPTS, CostsFrom
from paper.strategies import show_settings
from paper.trader import DiaryLine

Json = dict[str, Any]
# The newest ones of a result.
MAX_CLOSES = 500
NOTES = (
    "Simulated on recorded prices. What a strategy would have done says nothing about what it will"
    " do; settings chosen on these days fit these days.",
    "Mint checks, decimals and transfer fees are those known today. Tokens that nobody kept, and"
    " prices between two snapshots, are not in the recording.",
    "Network costs are those that paper traders paid at the time; which venues count, and how far"
    " off the fills there are, is what is known today.",
    "Random entries have the same sizes, exits and costs. Results no better than theirs, or than"
    " holding SOL, show no skill.",
    "Not mixed with the records of paper traders: it is in no comparison and in no profile.",
)
# Of a table of closes.
COLUMNS = (
    *("closedAt", "openedAt", "mint", "symbol", "reason", "grossLamports", "netLamports"),
    *("spentLamports", "returnPct", "excluded", "account"),
)
STRATEGY, RANDOM = "strategy", "random"


def show_backtest(tested: Backtest, family: str, start_mode: str) -> Json:
    """Return a backtest as JSON. `settings` are those that the last fold was played with."""
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
        **_show_player(shown),
        "equity": [{"at": _show_time(at), "sol": sol(equity)} for at, equity in shown.curve],
        "closes": [show_close(close) for close in shown.list_closes()[-MAX_CLOSES:]],
        "randomCloses": [show_close(close, RANDOM) for close in shown.list_random()[-MAX_CLOSES:]],
        "networkCosts": _show_costs(recording),
        "venues": _show_venues(recording),
        "candidates": [
            {"settings": show_settings(one.trader.strategy), **_show_player(one)}
            for one in tested.players
        ],
        "walkForward": [_show_fold(fold, tested) for fold in tested.folds],
        "lookAhead": _show_check(tested),
        "notes": list(NOTES),
    }


def _show_player(player: Player) -> Json:
    account, closes = player.trader.account, player.list_closes()
    return {
        "returnPct": float(percent(account.equity - STARTING_CASH, STARTING_CASH)),
        "maxDrawdownPct": float(percent(player.drawdown_bps, 10_000)),
        "equitySol": sol(account.equity),
        "closeCount": len(closes),
        "openPositions": len(account.positions),
        "reviewed": player.trader.reviewed,
        "comparison": results.compare(closes, STARTING_CASH),
        "controls": _show_controls(player),
    }


def _show_controls(player: Player) -> Json:
    """Return what a result is compared with: holding SOL, and random entries."""
    twin, closes = player.twin, player.list_random()
    equity, moved = twin.player.account.equity, None
    if twin.sol_cents_first and twin.sol_cents_last:
        moved = twin.sol_cents_last - twin.sol_cents_first
    return {
        "holdingSol": {
            "returnPct": 0.0,
            "usdChangePct": None
            if moved is None or not twin.sol_cents_first
            else float(percent(moved, twin.sol_cents_first)),
        },
        "randomEntry": {
            "equitySol": sol(equity),
            "returnPct": float(percent(equity - STARTING_CASH, STARTING_CASH)),
            "closes": len(closes),
            **results.describe(closes, STARTING_CASH),
        },
    }


def _show_costs(recording: Recording) -> list[Json]:
    """Return what the network took, and from when on, as far as it matters to the recording."""
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
    """Return how far off the fills of each measured venue are, and whether its closes count."""
    return [
        {
            "venue": one.venue,
            "receipts": one.receipts,
            "medianBps": one.median_bps,
            "p90Bps": one.p90_bps,
            "source": one.source,
            "eligible": one.is_eligible,
        }
        for one in recording.errors or ()
    ]


def show_close(close: Close, account: str = STRATEGY) -> Json:
    """Return a close of a backtest as JSON, its keys those of COLUMNS."""
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
        "settings": show_settings(tested.players[fold.chosen].trader.strategy),
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
    return {
        "cuts": [_show_time(cut) for cut in tested.cuts],
        "same": tested.difference is None,
        "difference": tested.difference and _show_difference(tested.difference),
    }


def _show_difference(difference: Difference) -> Json:
    return {
        "cut": _show_time(difference.cut),
        "whole": _show_line(difference.whole),
        "ended": _show_line(difference.ended),
    }


def _show_line(line: DiaryLine | None) -> Json | None:
    if line is None:
        return None
    return {"at": _show_time(line.at), "text": format_line(line.kind, line.facts)}


def _show_time(ms: int) -> str | None:
    return show_time(ms // 1000)
