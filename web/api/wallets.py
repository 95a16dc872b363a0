"""API types and queries for bots' wallets, history coverage and combined holdings."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, cast

from chain.ledger.coverage import STATES
from chain.reading.currencies import CURRENCIES
from chain.stored.derived import NOT_POLLED, read_coverage
from storage.rows import read, write_marks
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
