"""The worked example of the documentation: the rules of ledger.ledger, applied to four transactions
and drawn step by step. Its numbers are not written down: they are worked out when it is shown.
"""

from collections.abc import Sequence
from typing import NamedTuple

from chain.ledger.ledger import WHOLE, Ledger
from chain.ledger.lots import share
from chain.ledger.sales import Booked
from chain.reading.effects import Balance
from chain.reading.entries import Entry
from web.site.figures import write_exact

WALLET, ACCOUNT, MINT, DECIMALS, WALLET_LAMPORTS = "W", "A", "M", 6, 10**10
# A lot is drawn as wide as its part of all that ever came in.
FULL_WIDTH = 100


class Move(NamedTuple):
    """A transaction: raw units and lamports it changed."""

    kind: str
    title: str
    raw: int
    lamports: int


MOVES = (
    Move("buy", "It buys a token", 1_000_000, -1_000_005_000),
    Move("buy", "It buys more, at a higher price", 500_000, -750_005_000),
    Move("transfer_in", "Somebody sends it tokens", 200_000, 0),
    Move("sell", "It sells most of them", -1_600_000, 2_399_995_000),
)


class LotBar(NamedTuple):
    """A lot as it is drawn: where, how wide (percent), and how much of it was sold; raw units, its
    cost in lamports (None: unknown).
    """

    x: float
    width: float
    sold_width: float
    raw: int
    left: int
    cost: int | None


class Step(NamedTuple):
    """A transaction and the lots after it."""

    move: Move
    bars: list[LotBar]


class SliceRow(NamedTuple):
    """What a sale took of a lot, with how its part of the proceeds is worked out. `result`: None
    where the cost is unknown.
    """

    raw: int
    cost: int | None
    arithmetic: str
    proceeds: int
    result: int | None


class Example(NamedTuple):
    """All of it; `booked`: what the ledger made of the sale."""

    steps: list[Step]
    slices: list[SliceRow]
    booked: Booked
    sum_told: str
    open_raw: int


def make_example() -> Example:
    """Apply the moves one by one and draw the lots after each."""
    ledger, held, lamports = Ledger(), 0, WALLET_LAMPORTS
    booked: list[Booked] = []
    steps = []
    for slot, move in enumerate(MOVES, 1):
        booked.append(ledger.apply(_make_entry(move, slot, held, lamports))[WHOLE])
        held, lamports = held + move.raw, lamports + move.lamports
        steps.append(Step(move, _draw_lots(booked)))
    slices = _list_slices(booked[-1])
    return Example(steps, slices, booked[-1], _tell_sum(slices), held)


def _make_entry(move: Move, slot: int, held: int, lamports: int) -> Entry:
    """Make the Entry of a move. `held`, `lamports`: what the wallet holds before it."""
    balances = (
        Balance(WALLET, None, 9, 0, 0, lamports, lamports + move.lamports),
        Balance(ACCOUNT, MINT, DECIMALS, held, held + move.raw, 1 if held else 0, 1),
    )
    return Entry(
        signature=str(slot),
        slot=slot,
        tx_index=0,
        block_time=None,
        kind=move.kind,
        venue=None,
        mint=MINT,
        flags=(),
        residues=(),
        sol=move.lamports,
        fee=0,
        tip=0,
        rent=0,
        tokens=((MINT, move.raw, DECIMALS),),
        balances=balances,
    )


def _draw_lots(booked: Sequence[Booked]) -> list[LotBar]:
    """Draw the lots that these transactions brought, less what they took."""
    brought = sum(move.raw for move in MOVES if move.raw > 0)
    sold = {origin: raw for one in booked for origin, raw, _ in one.lots}
    bars, x = [], 0.0
    for slot, move in enumerate(MOVES[: len(booked)], 1):
        if move.raw > 0:
            width, taken = FULL_WIDTH * move.raw / brought, sold.get(str(slot), 0)
            cost = -move.lamports if move.kind == "buy" else None
            part = FULL_WIDTH * taken / brought
            bars.append(LotBar(round(x, 3), width, part, move.raw, move.raw - taken, cost))
            x += width
    return bars


def _list_slices(sale: Booked) -> list[SliceRow]:
    """List what the sale took, oldest first, each with its part of the proceeds."""
    amounts = [raw for _, raw, _ in sale.lots]
    total, sold = sale.entry.sol, sum(amounts)
    rows: list[SliceRow] = []
    for (_, raw, cost), proceeds in zip(sale.lots, share(total, amounts), strict=True):
        arithmetic = f"{total:,} × {raw:,} / {sold:,}"
        if total * raw % sold:
            is_last = raw == amounts[-1] and len(rows) == len(amounts) - 1
            arithmetic = "the rest" if is_last else f"{arithmetic}, rounded down"
        rows.append(
            SliceRow(raw, cost, arithmetic, proceeds, None if cost is None else proceeds - cost)
        )
    return rows


def _tell_sum(slices: Sequence[SliceRow]) -> str:
    """Write the sum of the result: `1,499 + 749 − 1,000 − 750`, in lamports."""
    known = [(one.proceeds, one.cost) for one in slices if one.cost is not None]
    gained = " + ".join(f"{proceeds:,}" for proceeds, _ in known)
    return " ".join([gained, *(write_exact(-cost) for _, cost in known)]).replace(" −", " − ")
