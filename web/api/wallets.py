"""API types and queries for bots' wallets, history coverage and combined holdings."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, cast

from chain.amounts import show_raw, sol
from chain.ledger.coverage import STATES
from chain.reading.currencies import CURRENCIES
from chain.stored.attachments import COUNT_HELD, LEAD
from chain.stored.derived import NOT_POLLED, read_coverage
from storage.rows import Damaged, read, select_value, write_marks
from web.api.paging import STORED
from web.api.serialize import DAMAGED, Json, fill, show_part
from web.api.shapes import (
    Address,
    CurrencySymbol,
    Exact,
    NotRequired,
    Ownership,
    Time,
    TypedDict,
    Untrusted,
    Whole,
    described,
)

CoverageState = Annotated[
    Literal["none", "backfilling", "partial", "complete"],
    described(
        "complete: balances are continuous up to the current one; partial: something is missing;"
        " backfilling: the history is loading"
    ),
]


class Gap(TypedDict):
    """A part of a wallet's history that couldn't be read."""

    fromSlot: int
    toSlot: int
    reason: str


class Coverage(TypedDict):
    """How much of a wallet's history was observed. For several wallets, this is the least complete
    one.
    """

    state: CoverageState
    observedFrom: Annotated[Time | None, described("time of the first known transaction")]
    observedTo: Annotated[Time | None, described("chain time")]
    firstSlot: int | None
    lastSlot: int | None
    checkedAt: Annotated[Time | None, described("when the wallet was last polled")]
    receipts: Annotated[int, described("number of fetched transactions")]
    pending: Annotated[int, described("number of transactions listed but not fetched yet")]
    gaps: list[Gap]
    openingInventoryUnknown: Annotated[
        list[Address], described("mints of tokens held before anything was observed")
    ]
    note: Annotated[str | None, described("reason if the history isn't complete")]
    wallet: Address | None


class Wallet(TypedDict):
    """A wallet through which a bot is observed."""

    address: Address
    attachedAt: Time
    ownership: Ownership
    coverage: NotRequired[Annotated[Coverage, described("in `wallets`")]]


class CurrencyReconciliation(TypedDict):
    """The same as Reconciliation, for the accounts in a stablecoin. Network fees are in lamports,
    so they aren't included.
    """

    currency: CurrencySymbol
    mint: Address
    decimals: int
    openingRaw: Whole
    closingRaw: Whole
    realizedRaw: Whole
    unmatchedProceedsRaw: Whole
    openCostRaw: Whole
    costLeftRaw: Whole
    costLeftReceipts: int
    receivedRaw: Whole
    sentRaw: Whole
    overheadRaw: Whole
    failedCostRaw: Whole
    otherRaw: Whole
    differenceRaw: Whole
    gapRaw: Whole


class Reconciliation(TypedDict):
    """Where the wallet's money went. closing - opening = realized + unmatched proceeds - open cost
    - cost left + received - sent - overhead - failed cost + other + difference.
    """

    openingLamports: Annotated[
        Whole, described("balance of the wallet's accounts before their first transaction")
    ]
    closingLamports: Annotated[
        Whole, described("balance of the wallet's accounts after their last transaction")
    ]
    realizedLamports: Whole
    unmatchedProceedsLamports: Annotated[Whole, described("proceeds of sales of unknown cost")]
    openCostLamports: Annotated[Whole, described("known cost of tokens still held")]
    costLeftLamports: Annotated[Whole, described("known cost of tokens moved out unsold")]
    costLeftReceipts: int
    receivedLamports: Whole
    sentLamports: Whole
    overheadLamports: Annotated[Whole, described("fees and tips outside of trades")]
    failedCostLamports: Whole
    otherLamports: Annotated[
        Whole, described("other changes: not trades or transfers, or unpriced")
    ]
    differenceLamports: Annotated[Whole, described("0, or the amount moved by gaps in the history")]
    gapLamports: Annotated[Whole, described("amount moved by missing transactions")]
    byCurrency: Annotated[
        list[CurrencyReconciliation] | None,
        described("for each stablecoin the wallet ever had; null if stored data is unreadable"),
    ]


class AverageCost(TypedDict):
    """The result of the same sales by average cost, for comparison. It isn't used for ranking."""

    realizedLamports: Whole
    matchedSells: int


class Estimate(TypedDict):
    """A position's value at the scout's last price. It isn't part of any result, and a sale may
    return less.
    """

    valueLamports: Whole
    valueSol: Exact
    priceSol: Exact
    source: Annotated[str, described("the provider of the price")]
    priceAt: Time
    stale: Annotated[bool, described("the scout should have a newer price but doesn't")]


class Position(TypedDict):
    """A wallet's holdings of a token, based on its observed trades."""

    mint: Address
    symbol: Untrusted | None
    amountRaw: Whole
    amount: Annotated[
        Exact | None,
        described("as displayed; null if the mint's multiplier of raw units can't be read"),
    ]
    decimals: int
    costLamports: Annotated[Whole | None, described("cost of the part with a known cost in SOL")]
    unknownBasisRaw: Annotated[Whole, described("the part without a known cost in SOL")]
    unknownBasis: Annotated[Exact | None, described("`unknownBasisRaw` as displayed")]
    currency: Annotated[CurrencySymbol | None, described("currencies with a known cost")]
    estimate: Estimate | None
    estimateReason: Annotated[
        Literal["no_price", "price_doubtful", "multiplier_unknown"] | None,
        described("reason if the estimate is null"),
    ]


# ---- coverage ------------------------------------------------------------------------------------
# Wallets attached to bots, with the primary wallet first. `attached_at` is in ms, and `coverage` is
# JSON.
HELD = """
SELECT a.bot_id, w.address, a.attached_at, a.ownership, w.coverage
FROM attachment a JOIN wallet w ON w.id = a.wallet_id
WHERE a.detached_at IS NULL AND a.bot_id IN ({}) ORDER BY a.attached_at, a.id
"""


def list_held(bot_ids: Sequence[int]) -> dict[int, list[Wallet]]:
    found: defaultdict[int, list[Wallet]] = defaultdict(list)
    rows = read(HELD.format(write_marks(bot_ids)), bot_ids) if bot_ids else []
    for row in rows:
        found[row.bot_id].append(
            fill(Wallet, row, coverage=show_coverage(row.address, row.coverage))
        )
    return found


def show_coverage(address: str | None, stored: str | None) -> Coverage:
    """Return a wallet's Coverage. If there is none, its state is `none`, with the reason."""
    told = read_coverage(stored)
    if address is None and stored is None:
        told = {**NOT_POLLED, "note": "no wallet is connected, so nothing is observed"}
    return cast(Coverage, {**told, "wallet": address})


def find_least(coverages: Iterable[Coverage]) -> Coverage:
    """Return the least complete Coverage. Among equals, prefer one with gaps."""
    told = list(coverages)
    if not told:
        return show_coverage(None, None)
    return min(told, key=lambda one: (STATES.index(one["state"]), not one["gaps"]))


def is_provisional(coverage: Coverage) -> bool:
    return coverage["state"] in ("none", "backfilling") or bool(coverage["gaps"])


# ---- holdings ------------------------------------------------------------------------------------
def find_positions(row: Any) -> list[Json] | None:
    """Return the bot's open positions without symbols and estimates, or None if they are damaged.

    If a wallet is only claimed, its costs aren't the bot's.
    """
    positions: list[Json] | None = show_part([] if row.positions is None else row.positions)[0]
    if positions is None:
        return None
    if row.since is not None:
        nothing = {"costLamports": None, "currency": None}
        return [{**one, **nothing, "unknownBasisRaw": one["amountRaw"]} for one in positions]
    books: Json = show_part(row.by_stablecoin)[0] or {}
    known = {
        held["mint"]: CURRENCIES[money].symbol
        for money, book in books.items()
        for held in book["positions"]
        if money in CURRENCIES
    }
    return [
        {**one, "currency": known.get(one["mint"]) if one["costLamports"] is None else "SOL"}
        for one in positions
    ]


def find_books_reason(row: Any, state: str) -> str | None:
    if row.address is None:
        return "no_wallet"
    if row.since is not None:
        return "held_by_another"
    if row.reconciliation is not None:
        return show_part(row.reconciliation)[1]
    return {"none": "not_observed", "backfilling": "backfilling"}.get(state, DAMAGED)


def show_books(row: Any) -> Any:
    books: Json | None = show_part(row.by_stablecoin)[0]
    return {
        **(row.reconciliation or {}),
        "byCurrency": None
        if books is None
        else [
            {
                "currency": CURRENCIES[money].symbol,
                "mint": money,
                "decimals": CURRENCIES[money].decimals,
                **book["reconciliation"],
            }
            for money, book in books.items()
            if money in CURRENCIES and book["reconciliation"]
        ],
    }


def count_tracked() -> int:
    return int(select_value(f"SELECT {COUNT_HELD}"))


# ---- totals of several wallets -------------------------------------------------------------------
# The derived data, as in BOT, of wallets that aren't the primary one.
PARTS = f"""
SELECT a.bot_id, w.last_trade_at, w.results, w.positions, w.reconciliation, w.average_cost,
       w.by_stablecoin
FROM bot b JOIN attachment a ON a.bot_id = b.id AND a.detached_at IS NULL AND a.id <> {LEAD}
JOIN wallet w ON w.id = a.wallet_id WHERE b.id IN ({{}}) ORDER BY a.attached_at, a.id
"""


def add_wallets(rows: Sequence[Any]) -> list[Any]:
    """Add the totals of the other wallets to those of the primary wallet."""
    if not rows:
        return []
    others = defaultdict(list)
    for part in read(PARTS.format(write_marks(rows)), [row.id for row in rows], **STORED):
        others[part.bot_id].append(part)
    return [_add_parts(row, others[row.id]) if row.id in others else row for row in rows]


def _add_parts(row: Any, others: Sequence[Any]) -> Any:
    parts = [row, *others]
    return row._replace(
        results=_join(lambda found: found[0], [one.results for one in parts]),
        positions=_join(add_positions, [one.positions for one in parts]),
        reconciliation=_join_whole([one.reconciliation for one in parts]),
        average_cost=_join(add_amounts, [one.average_cost for one in parts]),
        by_stablecoin=_join(_add_books, [one.by_stablecoin for one in parts]),
        last_trade_at=max(one.last_trade_at or 0 for one in parts) or None,
    )


def _join(add: Callable[[Sequence[Any]], Any], parts: Sequence[Any]) -> Any:
    """Add up the derived parts. If one part is damaged, the total is damaged."""
    known = [one for one in parts if one is not None]
    damaged = [one for one in known if isinstance(one, Damaged)]
    if damaged or not known:
        return next(iter(damaged), None)
    return add(known)


def _join_whole(parts: Sequence[Any]) -> Any:
    return None if None in parts else _join(add_amounts, parts)


def add_amounts(parts: Sequence[Mapping[str, Any]]) -> Json:
    """Add up members with the same names: counts, and amounts as text. `...Sol` is recomputed."""
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
    by_mint: dict[str, list[Json]] = defaultdict(list)
    for one in (one for part in parts for one in part):
        by_mint[one["mint"]].append(one)
    return [_add_position(found) for _, found in sorted(by_mint.items())]


def _add_position(parts: Sequence[Json]) -> Json:
    costs = [int(one["costLamports"]) for one in parts if one["costLamports"] is not None]
    return {
        **parts[0],
        "amountRaw": _add([one["amountRaw"] for one in parts]),
        "costLamports": show_raw(sum(costs)) if costs else None,
        "unknownBasisRaw": _add([one["unknownBasisRaw"] for one in parts]),
    }


def _add_books(parts: Sequence[Mapping[str, Json]]) -> Json:
    books = defaultdict(list)
    for mint, book in (item for part in parts for item in part.items()):
        books[mint].append(book)
    return {
        mint: {
            "reconciliation": _join_whole([one["reconciliation"] for one in found]),
            "positions": [one for book in found for one in book["positions"]],
        }
        for mint, found in sorted(books.items())
    }
