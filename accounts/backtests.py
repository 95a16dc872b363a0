"""Check backtest requests and run them. `now` is UTC milliseconds."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from math import prod

from accounts.problem import Problem, invalid
from accounts.spreadsheet import disarm, write_lines
from accounts.traders import START_MODES, check_choice, find_strategy
from config import Config
from paper import backtests, recordings
from paper.backtests import COLUMNS, Json, show_backtest
from paper.faults import OwnFault
from paper.own import OwnFiles
from paper.recordings import MAX_SPAN_MS, Span
from paper.strategies import COPY, FAMILIES, BadSetting, Strategy

# Combinations of settings per backtest.
MAX_CANDIDATES = 24
# Used as the scout's interval when the scout is off.
DEFAULT_INTERVAL_MS = 60_000
SETTING = re.compile(r"([A-Za-z0-9]{1,40})=(-?[0-9]{1,12}(?:,-?[0-9]{1,12}){0,23})")
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
EXAMPLE = "such as 2026-11-01 or 2026-11-01T12:00:00Z"


@dataclass(frozen=True)
class BacktestRequest:
    """A backtest to run: the recorded period `span` with each candidate."""

    family: str
    candidates: tuple[Strategy, ...]
    start_mode: str
    span: Span


def check_request(
    family: str,
    settings: Sequence[str],
    since: str = "",
    until: str = "",
    start_mode: str = "standard",
    own: OwnFiles | None = None,
) -> BacktestRequest:
    """Check typed input: settings like `riseBps=600` or `riseBps=400,600`, times like EXAMPLE.

    An empty time means the start or end of the recording. `own`: strategy files that are allowed as
    well. Raises Problem naming the field.
    """
    check_choice("start", start_mode, START_MODES)
    return BacktestRequest(
        family, find_candidates(family, settings, own), start_mode, find_span(since, until)
    )


def find_candidates(
    family: str, settings: Sequence[str], own: OwnFiles | None = None
) -> tuple[Strategy, ...]:
    """Return a strategy for each combination of settings, at most MAX_CANDIDATES."""
    if family == COPY:
        raise invalid("family", f"copy has no backtest; must be one of: {', '.join(FAMILIES)}")
    choices: dict[str, list[int]] = {}
    for text in settings:
        found = SETTING.fullmatch(text.strip())
        if not found:
            raise invalid("set", "must look like riseBps=600, or riseBps=400,600 to try several")
        name, values = found.groups()
        choices[name] = [int(value) for value in values.split(",")]
    # Count before building: a few lists of values can multiply beyond memory.
    if prod(map(len, choices.values())) > MAX_CANDIDATES:
        raise invalid("set", f"must be at most {MAX_CANDIDATES} combinations")
    combinations = [dict(zip(choices, one, strict=True)) for one in product(*choices.values())]
    try:
        return tuple(find_strategy(family, one, own) for one in combinations)
    except BadSetting as error:
        raise invalid("set", f"{error.field} {error}") from None


def find_span(since: str, until: str) -> Span:
    """Return the part of the typed period that is recorded."""
    recorded = recordings.find_recorded()
    if recorded is None:
        raise Problem("not_found", "no prices are recorded yet; the scout hasn't stored any")
    start = max(recorded.start, parse_time("from", since, recorded.start))
    end = min(recorded.end, parse_time("to", until, recorded.end))
    if start >= end:
        raise invalid("to", "must be after the start, and part of the period must be recorded")
    return Span(max(start, end - MAX_SPAN_MS), end)


def parse_time(field: str, text: str, default: int) -> int:
    """Return a time in ms. A date alone means midnight UTC."""
    text = text.strip()
    if not text:
        return default
    try:
        whole = f"{text}T00:00:00Z" if DAY.fullmatch(text) else text
        read = datetime.fromisoformat(whole)
        return int(read.replace(tzinfo=read.tzinfo or UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise invalid(field, f"must be a day or a time, {EXAMPLE}") from None


def run_backtest(
    config: Config, asked: BacktestRequest, now: int, note: backtests.Note = lambda percent: None
) -> Json:
    """Run the backtest with the paper traders' engine and fill model and return the report.

    Stores nothing. `note` is called with the progress in percent.
    """
    interval_ms = int(config.scout_interval_seconds * 1000) or DEFAULT_INTERVAL_MS
    recording = recordings.read_recording(asked.span, interval_ms, now)
    try:
        tested = backtests.run_backtest(recording, asked.candidates, asked.start_mode, note)
    except OwnFault as error:
        raise invalid("family", str(error)) from None
    return show_backtest(tested, asked.family, asked.start_mode)


def write_table(report: Json) -> str:
    """Return a report's closes as CSV: the strategy's first, then the random entries'."""
    closes = [*report["closes"], *report.get("randomCloses", [])]
    told = ({**close, "symbol": disarm(close["symbol"])} for close in closes)
    return write_lines([COLUMNS, *([close[name] for name in COLUMNS] for close in told)])
