"""A backtest as JSON and as CSV. It is simulated, of the past, and says so. Pure."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from chain.amounts import sol
from chain.summary import show_time
from paper import results
from paper.account import PIPELINE, STARTING_CASH, Close
from paper.backtests import Backtest, Difference, Fold, Player
from paper.diary import format_line
from paper.fills import MODEL
from paper.market import percent
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
    "Not mixed with the records of paper traders: it is in no comparison and in no profile.",
)
COLUMNS = (
    *("closedAt", "openedAt", "mint", "symbol", "reason", "grossLamports", "netLamports"),
    *("spentLamports", "returnPct", "excluded"),
)


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
    }


def show_close(close: Close) -> Json:
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
    }


def _show_fold(fold: Fold, tested: Backtest) -> Json:
    return {
        "from": _show_time(fold.start),
        "to": _show_time(fold.end),
        "settings": show_settings(tested.players[fold.chosen].trader.strategy),
        "before": _sum_up(fold.before),
        "within": _sum_up(fold.within),
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


def write_csv(closes: Sequence[Json]) -> str:
    """Return closes, as show_close shows them, as CSV by RFC 4180. Text that a spreadsheet would
    take for a formula begins with an apostrophe.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    for close in closes:
        writer.writerow({**close, "symbol": _disarm(close["symbol"])})
    return text.getvalue()


def _disarm(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
