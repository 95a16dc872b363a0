"""What a trader's or a family's results are compared with: holding SOL, and random entries."""

from collections import Counter
from typing import Annotated, Any, NamedTuple

from paper import guard, results
from paper.account import STARTING_CASH, Close
from paper.twin_closes import OF_PERIOD, SINCE, TwinCloseRow, read_twin_close
from storage.rows import select, select_many
from storage.stored import Part, read_stored
from web.api.paper_figures import name_interval
from web.api.paper_statements import MARKS, Facts
from web.api.serialize import show_sol, show_time

Json = dict[str, Any]
NOTE = (
    "What random entries of the same sizes, exits and costs earned, and what holding SOL did."
    " Results no better than these show no skill."
)


class TwinRow(NamedTuple):
    """The twin of an account period. Money is in lamports, a SOL in USD cents."""

    period: int
    fired: Annotated[dict[str, int], Part(dict[str, int])]
    lessons: int
    cash: int
    worth: int
    sol_cents_first: int | None
    sol_cents_last: int | None
    started_at: int


TWIN = """
SELECT period_id AS period, fired, lessons, cash, worth, sol_cents_first, sol_cents_last, started_at
FROM twin_state WHERE period_id = ?"""


class FiredRow(NamedTuple):
    """A pause that a rule found reason for."""

    facts: Facts


FIRED = """
SELECT facts FROM diary_entry WHERE period_id = ? AND kind = 'pause' ORDER BY id"""


def show_controls(period: int, starting_cash: int, *, withheld: bool) -> Json:
    """Make the Controls of an account period. withheld: its headline is, and so is what it would be
    compared with.
    """
    found = select(TwinRow, TWIN, (period,))
    row = found[0] if found else None
    closes = list_twin_closes(period)
    return {
        "holdSol": show_holding(row, withheld=withheld),
        "randomEntry": None
        if row is None or withheld
        else show_random_entry(row, closes, starting_cash),
        "rules": show_rules(period, (row and row.fired) or {}),
        "note": NOTE,
        "simulated": True,
    }


def show_holding(row: TwinRow | None, *, withheld: bool) -> Json:
    """Make the HoldingSol: nothing earned in SOL, and what a SOL did in USD meanwhile."""
    moved = None
    if row and row.sol_cents_first and row.sol_cents_last:
        moved = round(100 * (row.sol_cents_last - row.sol_cents_first) / row.sol_cents_first, 2)
    return {"returnPct": None if withheld else 0.0, "usdChangePct": moved}


def show_random_entry(row: TwinRow, closes: list[Close], starting_cash: int) -> Json:
    """Make the RandomEntry: the twin's account, and what its closes add up to."""
    equity = row.cash + row.worth
    return {
        "since": show_time(row.started_at),
        "equitySol": show_sol(equity),
        "returnPct": round(100 * (equity - starting_cash) / starting_cash, 2),
        "closes": len(closes),
        "lessons": row.lessons,
        **name_interval(results.describe(closes, starting_cash)),
        "simulated": True,
    }


def show_rules(period: int, on_twin: dict[str, int]) -> list[Json]:
    """Return how often each adaptive rule fired, for the trader and for its twin."""
    fired = Counter[str]()
    for row in select(FiredRow, FIRED, (period,)):
        facts = row.facts
        fired[facts.get("rule", "")] += facts.get("what") in ("begun", "observed")
    return [
        {"rule": rule.name, "fired": fired[rule.name], "firedOnTwin": on_twin.get(rule.name, 0)}
        for rule in guard.RULES
    ]


def _read_close(row: TwinCloseRow) -> Close:
    """Return what comparisons count of a close, whose id is the trader's."""
    return read_twin_close(str(row.trader_id), row, read_stored(row.marks, MARKS.shape) or [])


def list_twin_closes(period: int) -> list[Close]:
    """Return the closes of an account period's twin, oldest first."""
    return [_read_close(row) for row in select(TwinCloseRow, OF_PERIOD, (period,))]


def list_compared(since: int) -> dict[str, list[Close]]:
    """Return the closes of all twins since (ms), by family."""
    found: dict[str, list[Close]] = {}
    for row in select_many(TwinCloseRow, SINCE, (since,)):
        found.setdefault(row.family, []).append(_read_close(row))
    return found


def show_family_controls(closes: list[Close]) -> Json:
    """Make the FamilyControls: what the twins of a family's traders closed."""
    accounts = len({close.id for close in closes})
    return {
        "holdSol": {"returnPct": 0.0},
        "randomEntry": {
            **name_interval(results.describe(closes, accounts * STARTING_CASH)),
            "simulated": True,
        },
    }
