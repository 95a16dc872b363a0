"""Account periods, positions, orders, closes and fills of paper mode, as JSON. All simulated."""

import hashlib
from collections import defaultdict
from typing import Any

from chain.amounts import exact
from paper import account, rules
from paper.account import Close, public_id
from paper.fills import ASSUMPTIONS, MODEL, MODEL_HASH
from paper.market import ALL_SOL, SCALE, percent, value_of
from paper.store import SUSPECT
from storage.rows import select
from web.api.paper_statements import (
    FILLS,
    CloseRow,
    ComparedRow,
    FillRow,
    OrderRow,
    PeriodRow,
    PositionRow,
)
from web.api.serialize import show_time

Json = dict[str, Any]
WARNINGS = {
    "under_review": (
        "Under review: returns and rates are withheld. Cash and records are simulated and are not"
        " demonstrated performance."
    ),
    "upheld": (
        "A review of this record was upheld, so it does not count. Cash and records are simulated "
        "and"
        " are not demonstrated performance."
    ),
}


def show_period(row: PeriodRow) -> Json:
    """An account from its opening to its reset."""
    return {
        "number": row.number,
        "startingCashLamports": str(row.starting_cash),
        "cashLamports": str(row.cash),
        "openedAt": show_time(row.opened_at),
        "closedAt": show_time(row.closed_at),
        "reason": row.reason,
        "review": row.state or "clean",
        "warning": WARNINGS.get(row.state or ""),
        "simulated": True,
    }


# ---- positions and orders ------------------------------------------------------------------------
def find_value(row: PositionRow) -> int:
    """Return the lamports that the position's pool would pay at the mark; 0 if it can't be read."""
    if row.worth is not None:
        return row.worth
    try:
        return int(min(ALL_SOL, value_of(int(row.raw), int(row.price), row.decimals)))
    except ValueError:
        return 0


def show_position(handle: str, row: PositionRow, now: int) -> Json:
    """`now`: ms."""
    model = find_model(row.pipeline)
    return {
        "id": public_id(handle, "close", row.number),
        "mint": row.mint,
        "symbol": row.symbol,
        "openedAt": show_time(row.opened_at),
        "amountRaw": row.raw,
        "amount": exact(int(row.raw), row.decimals),
        "decimals": row.decimals,
        "spentLamports": str(row.spent),
        "cashFlowLamports": str(row.cash),
        "valueLamports": str(find_value(row)),
        "markPriceSol": exact(int(row.price), len(str(SCALE)) - 1),
        "markedAt": show_time(row.marked_at),
        "markAgeSeconds": max(0, now - row.marked_at) // 1000,
        "heldSnapshots": row.held,
        "assumptions": [model, *(row.marks or ())],
        "model": model,
        "pipeline": row.pipeline,
        "simulated": True,
    }


def show_models() -> list[Json]:
    return [{"model": MODEL, "hash": MODEL_HASH, "assumptions": list(ASSUMPTIONS)}]


def find_model(pipeline: str) -> str:
    """Return the fill model that opened a position. The pipeline ends with the model's ID."""
    return pipeline.split(" ")[-1]


def show_order(row: OrderRow) -> Json:
    """Amounts are lamports for a purchase, raw units for a sale."""
    amounts = (
        {"amountRaw": row.amount, "filledRaw": row.done}
        if row.side == "sell"
        else {"solLamports": row.amount, "filledLamports": row.done}
    )
    return {
        "side": row.side,
        "mint": row.mint,
        "symbol": row.symbol,
        "decimals": row.decimals,
        **amounts,
        "reason": row.reason,
        "decidedAt": show_time(row.decided_at),
        "expiresAt": show_time(row.expires_at),
        "simulated": True,
    }


# ---- closes and fills ----------------------------------------------------------------------------
def show_closes(trader_id: int, handle: str, rows: list[CloseRow]) -> list[Json]:
    """Show a trader's closes with their fills."""
    if not rows:
        return []
    fills: dict[int | None, list[Json]] = defaultdict(list)
    # An order's first attempt isn't long before its position.
    since = min(row.opened_at for row in rows) - rules.DAY_MS
    for fill in select(FillRow, FILLS, (trader_id, since)):
        fills[fill.position].append(show_fill(fill))
    return [show_close(handle, row, fills[row.number]) for row in rows]


def show_close(handle: str, row: CloseRow, fills: list[Json]) -> Json:
    ident, marks = public_id(handle, "close", row.number), row.marks or []
    excluded = read_close(ident, row).excluded
    model = fills[-1]["model"] if fills else find_model(row.pipeline)
    return {
        "id": ident,
        "mint": row.mint,
        "symbol": row.symbol,
        "decimals": row.decimals,
        "period": row.period,
        "openedAt": show_time(row.opened_at),
        "closedAt": show_time(row.closed_at),
        "reason": row.reason,
        "grossLamports": str(row.gross),
        "slippageLamports": str(row.slippage),
        "feesLamports": str(row.fees),
        "rentLamports": str(row.rent),
        "netLamports": str(row.net),
        "returnPct": find_percentage(row.net, row.spent),
        "latencyMs": row.latency_ms,
        "model": model,
        "pipeline": row.pipeline,
        "assumptions": [model, *marks],
        "fills": fills,
        "eligible": excluded is None,
        "excludedReason": excluded,
        "reviewOpenedAt": show_time(row.reviewed_at) if row.state in SUSPECT else None,
        "simulated": True,
    }


def find_percentage(part: int, whole: int) -> float | None:
    """Return a percentage with two decimals, rounded toward zero; None if `whole` is zero."""
    return float(percent(part, whole)) if whole else None


def show_fill(row: FillRow) -> Json:
    """`solLamports`: into or out of the pool, before its fee, without network fee and rent."""
    moved = row.mid + row.slippage if row.side == "buy" else row.mid - row.slippage
    return {
        "side": row.side,
        "decidedAt": show_time(row.decided_at),
        "filledAt": show_time(row.at),
        "decidedSnapshotId": show_snapshot_id(row.decided_on),
        "filledSnapshotId": show_snapshot_id(row.snapshot),
        "amountRaw": row.raw,
        "solLamports": str(moved),
        "slippageLamports": str(row.slippage),
        "feesLamports": str(row.pool_fee + row.network_fee),
        "rentLamports": str(row.rent),
        "failed": bool(row.failed),
        "reason": row.reason,
        "model": row.model,
        "simulated": True,
    }


def show_snapshot_id(number: int) -> str:
    return f"snap_{hashlib.sha256(b'snapshot %d' % number).hexdigest()[:12]}"


def read_close(ident: str, row: CloseRow | ComparedRow) -> Close:
    """Convert a close for rules and lessons."""
    reviewed = row.state in SUSPECT
    return account.read_close(ident, row, row.marks or (), reviewed=reviewed)
