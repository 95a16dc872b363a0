"""What was observed of a wallet: coverage, results, positions."""

from typing import Literal

from web.api.schemas.base import Address, Exact, Shape, Time, Whole, described


class AttachedWallet(Shape):
    """The wallet a bot is observed by."""

    address: Address
    attachedAt: Time
    ownership: Literal["claimed", "proven"] = described("proven: its holder signed for it")


class Gap(Shape):
    """A part of a wallet's history that could not be read."""

    fromSlot: int
    toSlot: int
    reason: str


class Coverage(Shape):
    """How much of a wallet's history was observed."""

    state: Literal["none", "backfilling", "partial", "complete"]
    observedFrom: Time | None
    observedTo: Time | None
    firstSlot: int | None
    lastSlot: int | None
    checkedAt: Time | None
    receipts: int = described("that were read")
    pending: int = described("receipts that are known of and were not read yet")
    gaps: list[Gap]
    openingInventoryUnknown: list[Address] = described("mints held before anything was observed")
    note: str | None = described("why it is not complete")


class Results(Shape):
    """Realized results of sales whose cost was observed, after the wallet's transaction costs."""

    realizedLamports: Whole
    realizedSol: Exact
    matchedSells: int = described("sales whose whole cost was observed")
    partialSells: int = described("sales of which a part had an observed cost")
    unmatchedSells: int = described("sales of unknown cost, which count for nothing")
    winningSells: int
    volumeLamports: Whole = described("SOL moved by buys and sells")
    volumeSol: Exact
    observedTrades: int = described("buys, sells and swaps")
    failedTransactions: int
    failedCostLamports: Whole
    overheadLamports: Whole = described("fees and tips outside of trades")
    costLeftLamports: Whole | None = described(
        "known cost of what left without a sale; null until older entries were read again"
    )
    costLeftReceipts: int | None = described("transactions with which it left")
    carriedLots: int | None = described("lots whose cost was carried over from a swap")
    openPositions: int


class Reconciliation(Shape):
    """What became of the wallet's money. closing - opening = realized + unmatched proceeds - open
    cost - cost left + received - sent - overhead - failed cost + other + difference.
    """

    openingLamports: Whole = described("own accounts before their first transaction")
    closingLamports: Whole = described("own accounts after their last one")
    realizedLamports: Whole
    unmatchedProceedsLamports: Whole = described("what sales of unknown cost brought")
    openCostLamports: Whole = described("known cost of what is still held")
    costLeftLamports: Whole = described("known cost of what left without a sale")
    costLeftReceipts: int = described("transactions with which it left")
    receivedLamports: Whole
    sentLamports: Whole
    overheadLamports: Whole = described("fees and tips outside of trades")
    failedCostLamports: Whole
    otherLamports: Whole = described("moved by what is no trade and no transfer, or has no price")
    differenceLamports: Whole = described("0, or what gaps in the history moved")
    gapLamports: Whole = described("moved where transactions are missing")


class AverageCost(Shape):
    """What the same sales earned by the average cost, for comparison; nothing ranks by it."""

    realizedLamports: Whole
    matchedSells: int


class Record(Results):
    """The same, of what happened since the bot attached its wallets: by block time, over all
    attachments. What was held before has unknown cost, and what it still held when a wallet was
    detached is cost left.
    """

    since: Time = described("of its first attachment")
    carriedInLamports: Whole = described(
        "known cost of what its wallets held when it attached them, which counts for nothing here"
    )


class Owner(Shape):
    """What the same owner did with all its bots. A new browser is a new owner."""

    influencers: int = described("that were made")
    retired: int
    walletsTried: int
    walletsDetached: int
    realizedLamportsOfAll: Whole | None = described(
        "realized since attachment by all its bots, to two significant digits; null where it has "
        "one bot that had one wallet"
    )


class Position(Shape):
    """What a wallet holds of a token by its observed trades."""

    mint: Address
    symbol: str | None = described("untrusted")
    amountRaw: Whole
    decimals: int
    costLamports: Whole | None = described("of the part whose cost is known")
    unknownBasisRaw: Whole = described("the part whose cost is not known")
