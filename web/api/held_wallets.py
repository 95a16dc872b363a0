"""The wallets that a bot holds: each with how much of its history was observed, and their numbers
added up.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from chain.amounts import show_lamports, sol
from chain.ledger.coverage import STATES
from chain.ledger.sums import NOTHING, Sums
from chain.stored.attachments import LAST_LEAD, LEAD, OF_RESULTS, read_totals
from chain.stored.columns import WALLET_PARTS
from chain.stored.summary import read_coverage, show_sums
from chain.stored.trades import to_json
from storage import read_rows
from storage.rows import select, write_marks
from storage.stored import Damaged
from web.api.serialize import Json, show_coverage, show_time
from web.api.statements import BotRow


class HeldRow(NamedTuple):
    """A wallet that a bot holds; `attached_at` in ms, `coverage` as JSON."""

    address: str
    attached_at: int
    ownership: str
    coverage: str | None


# The one that leads first.
HELD = """
SELECT w.address, a.attached_at, a.ownership, w.coverage
FROM attachment a JOIN wallet w ON w.id = a.wallet_id
WHERE a.bot_id = ? AND a.detached_at IS NULL ORDER BY a.attached_at, a.id
"""


class PartRow(NamedTuple):
    """What was derived of a wallet that a bot holds besides the one that leads, as in BotRow."""

    bot_id: int
    address: str
    coverage: str | None
    last_trade_at: int | None
    results: Annotated[Json | None, WALLET_PARTS["results"]]
    positions: Annotated[list[Json] | None, WALLET_PARTS["positions"]]
    reconciliation: Annotated[Json | None, WALLET_PARTS["reconciliation"]]
    average_cost: Annotated[Json | None, WALLET_PARTS["average_cost"]]
    by_quote: Annotated[Json | None, WALLET_PARTS["by_quote"]]


PARTS = f"""
SELECT a.bot_id, w.address, w.coverage, w.last_trade_at, w.results, w.positions, w.reconciliation,
       w.average_cost, w.by_quote
FROM bot b JOIN attachment a ON a.bot_id = b.id AND a.detached_at IS NULL AND a.id <> {LEAD}
JOIN wallet w ON w.id = a.wallet_id WHERE b.id IN ({{}}) ORDER BY a.attached_at, a.id
"""


class CoverageRow(NamedTuple):
    """The coverage of such a wallet, also of one that a bot held when it was retired, as JSON."""

    bot_id: int
    address: str
    coverage: str | None


COVERAGES = f"""
SELECT a.bot_id, w.address, w.coverage
FROM bot b JOIN attachment a ON a.bot_id = b.id AND a.id <> {LAST_LEAD}
    AND (a.detached_at IS NULL OR a.detached_at = b.retired_at)
JOIN wallet w ON w.id = a.wallet_id WHERE b.id IN ({{}}) ORDER BY a.attached_at, a.id
"""


def list_wallets(bot_id: int) -> list[Json]:
    """Return the HeldWallets of a bot, the one that leads first."""
    return [
        {
            "address": row.address,
            "attachedAt": show_time(row.attached_at),
            "ownership": row.ownership,
            "coverage": show_coverage(row.address, row.coverage),
        }
        for row in select(HeldRow, HELD, (bot_id,))
    ]


# ---- added up ------------------------------------------------------------------------------------
def add_wallets(rows: Sequence[BotRow]) -> list[BotRow]:
    """Return bots with the numbers of all the wallets they hold; `rows` have those of the lead."""
    if not rows:
        return []
    others = defaultdict(list)
    for part in select(PartRow, PARTS.format(write_marks(rows)), [row.id for row in rows]):
        others[part.bot_id].append(part)
    totals = read_totals(read_rows, OF_RESULTS, list(others))
    return [
        _add_parts(row, others[row.id], totals.get(row.id, NOTHING)) if row.id in others else row
        for row in rows
    ]


def _add_parts(row: BotRow, others: Sequence[PartRow], sums: Sums) -> BotRow:
    parts: list[BotRow | PartRow] = [row, *others]
    results = _join(lambda _: show_sums(sums), [one.results for one in parts])
    positions = _join(add_positions, [one.positions for one in parts])
    if isinstance(results, dict) and isinstance(positions, list):
        results = {**results, "openPositions": len(positions)}
    return row._replace(
        results=results,
        positions=positions,
        reconciliation=_join_whole([one.reconciliation for one in parts]),
        average_cost=_join(add_amounts, [one.average_cost for one in parts]),
        by_quote=_join(_add_quotes, [one.by_quote for one in parts]),
        coverage=to_json(join_coverages({one.address or "": one.coverage for one in parts})),
        last_trade_at=max(one.last_trade_at or 0 for one in parts) or None,
    )


def _join(add: Callable[[Sequence[Any]], Any], parts: Sequence[Any]) -> Any:
    """Add up the parts that were derived; a damaged one damages the whole."""
    known = [one for one in parts if one is not None]
    damaged = [one for one in known if isinstance(one, Damaged)]
    if damaged or not known:
        return next(iter(damaged), None)
    return add(known)


def _join_whole(parts: Sequence[Any]) -> Any:
    """Add up parts; None if one is missing."""
    return None if None in parts else _join(add_amounts, parts)


def add_amounts(parts: Sequence[Mapping[str, Any]]) -> Json:
    """Add up members of the same names: counts, and amounts as text. `...Sol` is shown again."""
    told: Json = {
        name: _add([one[name] for one in parts]) for name in parts[0] if not name.endswith("Sol")
    }
    return {
        name: sol(int(told[name.replace("Sol", "Lamports")]))
        if name.endswith("Sol")
        else told[name]
        for name in parts[0]
    }


def _add(values: Sequence[Any]) -> Any:
    return sum(values) if isinstance(values[0], int) else str(sum(map(int, values)))


def add_positions(parts: Iterable[Iterable[Json]]) -> list[Json]:
    """Add up positions by mint."""
    by_mint: dict[str, list[Json]] = defaultdict(list)
    for one in (one for part in parts for one in part):
        by_mint[one["mint"]].append(one)
    return [_add_position(found) for _, found in sorted(by_mint.items())]


def _add_position(parts: Sequence[Json]) -> Json:
    costs = [int(one["costLamports"]) for one in parts if one["costLamports"] is not None]
    return {
        **parts[0],
        "amountRaw": _add([one["amountRaw"] for one in parts]),
        "costLamports": show_lamports(sum(costs)) if costs else None,
        "unknownBasisRaw": _add([one["unknownBasisRaw"] for one in parts]),
    }


def _add_quotes(parts: Sequence[Mapping[str, Json]]) -> Json:
    """Add up the reconciliations in each stablecoin."""
    books = defaultdict(list)
    for mint, book in (item for part in parts for item in part.items()):
        books[mint].append(book)
    return {
        mint: {"reconciliation": _join_whole([one["reconciliation"] for one in found])}
        for mint, found in sorted(books.items())
    }


# ---- coverage ------------------------------------------------------------------------------------
def find_coverages(bot_ids: Sequence[int]) -> dict[int, dict[str, str | None]]:
    """Return {bot: {address: coverage}} of the wallets of bots besides the lead."""
    found: dict[int, dict[str, str | None]] = defaultdict(dict)
    if bot_ids:
        for row in select(CoverageRow, COVERAGES.format(write_marks(bot_ids)), bot_ids):
            found[row.bot_id][row.address] = row.coverage
    return found


def join_coverages(stored: Mapping[str, str | None]) -> Json:
    """Make the Coverage of several wallets by address: the worst state, and the gaps of all."""
    told = {address: read_coverage(text) for address, text in stored.items()}
    state = min((one["state"] for one in told.values()), key=STATES.index)
    worst = {} if state == STATES[-1] else {a: c for a, c in told.items() if c["state"] == state}
    notes = [f"{address}: {one['note']}" for address, one in worst.items() if one["note"]]
    return {
        "state": state,
        **{name: _pick(min, told, name) for name in ("observedFrom", "observedTo", "firstSlot")},
        "lastSlot": _pick(max, told, "lastSlot"),
        "checkedAt": _pick(min, told, "checkedAt"),
        **{name: sum(one[name] for one in told.values()) for name in ("receipts", "pending")},
        "gaps": [
            {**gap, "wallet": address} for address, one in told.items() for gap in one["gaps"]
        ],
        "openingInventoryUnknown": sorted(
            {mint for one in told.values() for mint in one["openingInventoryUnknown"]}
        ),
        "note": " ".join(notes) or None,
        "worst": list(worst),
    }


def _pick(choose: Callable[..., Any], told: Mapping[str, Json], name: str) -> Any:
    return choose((one[name] for one in told.values() if one[name] is not None), default=None)
