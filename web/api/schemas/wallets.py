"""What was observed of a wallet: coverage, results, positions."""

from typing import Literal

from web.api.schemas.base import Address, Exact, Shape, Time, Whole, absent, described


class AttachedWallet(Shape):
    """The wallet a bot is observed by."""

    address: Address
    attachedAt: Time
    ownership: Literal["claimed", "proven"] = described("proven: its holder signed for it")


class Gap(Shape):
    """A part of a wallet's history that could not be read."""

    fromSlot: int
    toSlot: int
    reason: str = described("in words")
    wallet: Address = absent("whose history; of a bot that holds several")


class Coverage(Shape):
    """How much of a wallet's history was observed; of a bot that holds several, of the one that is
    known least.
    """

    state: Literal["none", "backfilling", "partial", "complete"] = described(
        "complete: every balance joins the next, from the first transaction to what nodes say now; "
        "partial: something is missing; backfilling: the history is being read"
    )
    observedFrom: Time | None = described("when its first known transaction happened")
    observedTo: Time | None = described("up to when, by the clock of the chain, it was observed")
    firstSlot: int | None
    lastSlot: int | None
    checkedAt: Time | None = described("when it was polled last")
    receipts: int = described("that were read")
    pending: int = described("receipts that are known of and were not read yet")
    gaps: list[Gap]
    openingInventoryUnknown: list[Address] = described("mints held before anything was observed")
    note: str | None = described("why it is not complete")
    worst: list[Address] = absent(
        "of a bot that holds several wallets: those of this state; empty where all are complete"
    )


class Quote(Shape):
    """A stablecoin that results are kept in, apart from SOL and never converted."""

    mint: Address
    symbol: str
    decimals: int


class QuoteResults(Quote):
    """As Results, of purchases and sales for a stablecoin, in its raw units. One stablecoin for
    another is neither.
    """

    realizedRaw: Whole
    realized: Exact
    worstCaseRaw: Whole = described("as in Results")
    worstCase: Exact
    returnPct: Exact | None = described(
        "realized PnL of sales on their cost basis, in percent; null without one"
    )
    winRate: Exact | None = described("won of all positions with a sale, 0 to 1; null without any")
    positions: int = described("with a sale: from the purchase until under 1% of the peak is left")
    positionsWon: int = described("whose proceeds so far exceed their whole known cost")
    positionsOpen: int = described("with a sale or not")
    matchedSells: int = described("sales whose whole cost is known in this stablecoin")
    partialSells: int = described("sales of which a part has a known cost in it")
    unmatchedSells: int = described("sales of unknown cost, which are left out")
    winningSells: int
    crossQuoteSells: int = described(
        "sales that took, at least in part, what was bought for SOL or another stablecoin: that "
        "part has a result in neither"
    )
    volumeRaw: Whole = described("moved by purchases and sales")
    volume: Exact
    observedTrades: int
    feeLamports: Whole = described(
        "network fees and tips of these trades: lamports, so they are in no amount beside them"
    )
    costLeftRaw: Whole = described("known cost of what left without a sale")
    costLeft: Exact
    costLeftReceipts: int = described("transactions with which it left")


class QuoteReconciliation(Quote):
    """As Reconciliation, of the accounts in a stablecoin. Network fees are lamports: no line."""

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
    differenceRaw: Whole = described("0, or what gaps in the history moved")
    gapRaw: Whole = described("moved where transactions are missing")


class QuoteWindow(Shape):
    """Results in stablecoins within a window."""

    results: list[QuoteResults] | None = described("of all the wallet did")
    record: list[QuoteResults] | None = described("since the bot attached its wallets")


class HeldWallet(AttachedWallet):
    """A wallet that a bot holds, and how much of its own history was observed."""

    coverage: Coverage


class Results(Shape):
    """Realized results of sales whose cost was observed, after the wallet's transaction costs."""

    realizedLamports: Whole
    realizedSol: Exact
    worstCaseLamports: Whole = described(
        "realized PnL less the cost that left without a sale and the known cost still held: the "
        "result if nothing unsold is worth anything"
    )
    worstCaseSol: Exact
    returnPct: Exact | None = described(
        "realized PnL of sales on their cost basis, in percent; null without one"
    )
    winRate: Exact | None = described("won of all positions with a sale, 0 to 1; null without any")
    positions: int = described("with a sale: from the purchase until under 1% of the peak is left")
    positionsWon: int = described("whose proceeds so far exceed their whole known cost")
    positionsOpen: int = described("with a sale or not")
    matchedSells: int = described("sales whose whole cost was observed")
    partialSells: int = described("sales of which a part had an observed cost")
    unmatchedSells: int = described("sales of unknown cost, which are left out")
    winningSells: int
    volumeLamports: Whole = described("SOL moved by buys and sells")
    volumeSol: Exact
    observedTrades: int = described("buys, sells and swaps")
    failedTransactions: int
    failedCostLamports: Whole
    overheadLamports: Whole = described("fees and tips outside of trades")
    costLeftLamports: Whole = described("known cost of what left without a sale")
    costLeftReceipts: int = described("transactions with which it left")
    carriedLots: int = described("lots whose cost was carried over from a swap")
    openPositions: int
    byQuote: list[QuoteResults] | None = described(
        "of each stablecoin the wallet ever held; null if what was stored is damaged"
    )


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
    byQuote: list[QuoteReconciliation] | None = described(
        "of each stablecoin the wallet ever held; null if what was stored is damaged"
    )


class AverageCost(Shape):
    """What the same sales earned by the average cost, for comparison; nothing ranks by it."""

    realizedLamports: Whole
    matchedSells: int


class Risk(Shape):
    """What realized results risked."""

    maxDrawdownLamports: Whole = described(
        "the deepest fall of realized PnL from its highest so far, measured at the end of each "
        "hour; it starts at 0, which counts"
    )
    bestLamports: Whole | None = described(
        "the best position with a sale: its results so far, less the cost that left without one"
    )
    worstLamports: Whole | None
    medianHoldingSeconds: int | None = described(
        "from the purchase that begins a position until it ends, rounded down to two significant "
        "digits; of an even number the lower of the two in the middle; null without one"
    )
    daysActive: int = described("UTC days with a trade")


class WindowFigures(Shape):
    """Results in SOL within a window. Positions are those that ended in it or are open now."""

    realizedLamports: Whole
    worstCaseLamports: Whole = described("only a rise of the known cost held counts")
    returnPct: Exact | None = described(
        "realized PnL of sales on their cost basis, in percent; null without one"
    )
    winRate: Exact | None = described("won of all positions with a sale, 0 to 1; null without any")
    positions: int = described("with a sale: from the purchase until under 1% of the peak is left")
    positionsWon: int = described("whose proceeds so far exceed their whole known cost")
    positionsOpen: int = described("with a sale or not")
    maxDrawdownLamports: Whole


class RiskWindow(Shape):
    """Results within a window, which begins at a full hour."""

    window: Literal["24h", "7d", "30d", "90d"]
    since: Time
    risk: WindowFigures | None = described("of all the wallet did; null where the bot's risk is")
    record: WindowFigures | None = described("since the bot attached its wallets")
    byQuote: QuoteWindow


class TokenResult(Shape):
    """What sells of a token earned."""

    mint: Address
    symbol: str | None = described("untrusted")
    realizedLamports: Whole
    sells: int = described("with a result")
    winningSells: int


class TokenSum(Shape):
    """What all sells of a token earned together."""

    mint: Address
    symbol: str | None = described("untrusted")
    realizedLamports: Whole
    sells: int = described("with a result")
    wins: int = described("those of them that gained")


class TokenList(Shape):
    """Results by token: the best and the worst."""

    tokens: int = described("that were sold with a result")
    winning: int = described("those with which all sells together gained")
    best: list[TokenResult] = described("at most 5, the best first")
    worst: list[TokenResult] = described("at most 5, the worst first")


class TokenResults(Shape):
    """Results by token."""

    results: TokenList | None = described("of all the wallet did; null where the bot's risk is")
    record: TokenList | None = described("since the bot attached its wallets")


class Record(Results):
    """The same, of what happened since the bot attached its wallets: by block time, over all
    attachments. What was held before has unknown cost, and what it still held when a wallet was
    detached is cost left.
    """

    since: Time = described("of its first attachment")
    carriedInLamports: Whole = described(
        "known cost of what its wallets held when it attached them, which is left out here"
    )
    risk: Risk | None = described("null until it was worked out")


class Owner(Shape):
    """What the same owner did with all its bots. A new browser is a new owner."""

    influencers: int = described("bots that were made")
    retired: int = described("bots of these")
    walletsTried: int = described("wallets that any of them ever held")
    walletsDetached: int = described("wallets of these that were given up")
    realizedLamportsOfAll: Whole | None = described(
        "realized since attachment by all its bots, to two significant digits; null where it has "
        "one bot that had one wallet"
    )


class Estimate(Shape):
    """What a position may be worth: its whole amount by the scout's last price of the token. No
    result holds any of it; nobody says that so much could be sold at that price.
    """

    valueLamports: Whole
    valueSol: Exact
    priceSol: Exact
    source: str = described("the price service")
    priceAt: Time = described("when the price was taken")
    stale: bool = described("the scout has no newer one, though it should")


class Position(Shape):
    """What a wallet holds of a token by its observed trades."""

    mint: Address
    symbol: str | None = described("untrusted")
    amountRaw: Whole
    decimals: int
    costLamports: Whole | None = described("of the part whose cost is known")
    unknownBasisRaw: Whole = described("the part whose cost is not known")
    estimate: Estimate | None
    estimateReason: Literal["no_price", "price_doubtful"] | None = described(
        "why there is no estimate: the scout has no price in SOL of the token, or one that is hard "
        "to believe"
    )
