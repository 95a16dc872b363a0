"""Trades, who traded a token, and the leaderboard."""

from typing import Annotated, Literal

from pydantic import Field

from web.api.schemas.base import (
    Address,
    Exact,
    Page,
    Shape,
    Share,
    Signature,
    Time,
    TradeKind,
    Whole,
    absent,
    described,
)
from web.api.schemas.wallets import Coverage, Owner, Quote


class TokenChange(Shape):
    """What a transaction changed of one token in the wallet's own accounts."""

    mint: Address
    symbol: str | None = described("untrusted")
    changeRaw: Whole
    change: Exact
    decimals: int


class Lot(Shape):
    """A part of what was sold, and the trade it was bought in."""

    tradeId: str | None = described("null: opening or unobserved inventory")
    amountRaw: Whole
    costLamports: Whole | None


Matching = Annotated[
    Literal["matched", "partial", "unmatched", "not_applicable"],
    Field(
        description="matched: the cost of all that was sold is known; partial: of a part of it; "
        "unmatched: of nothing; not_applicable: it is no sale with a result"
    ),
]


class Realized(Shape):
    """What a sale earned: first in, first out, after the wallet's transaction costs."""

    status: Matching
    method: Literal["fifo"]
    resultLamports: Whole | None
    resultSol: Exact | None
    proceedsLamports: Whole | None
    costLamports: Whole | None
    matchedRaw: Whole
    unmatchedRaw: Whole
    lots: list[Lot]


class QuoteTrade(Quote):
    """A token bought or sold for a stablecoin, in its raw units: first in, first out, as in
    Realized. What was bought for SOL or another stablecoin has no cost here.
    """

    side: Literal["buy", "sell", "round_trip"]
    changeRaw: Whole = described("what the trade moved of it")
    change: Exact
    status: Matching
    realizedRaw: Whole | None
    realized: Exact | None
    costRaw: Whole | None
    cost: Exact | None
    proceedsRaw: Whole | None
    proceeds: Exact | None
    matchedRaw: Whole = described("raw units of the token that was sold")
    unmatchedRaw: Whole
    costInOtherCurrency: bool = described(
        "it sold, at least in part, what was bought for SOL or another stablecoin: that part has a "
        "result in neither"
    )


QuoteReason = Literal["not_a_trade", "in_sol", "no_stablecoin", "value_unexplained"]


class Beside(Shape):
    """What a trade's transaction moved without passing through the venue."""

    solLamports: Whole
    tokenChanges: list[TokenChange]


class Trade(Shape):
    """A finalized transaction of an observed wallet."""

    id: str
    botId: str
    wallet: Address
    signature: Signature
    slot: int
    transactionIndex: int | None
    blockTime: int | None = described("Unix seconds, as the chain gives it")
    eventAt: Time | None
    status: Literal["finalized"]
    kind: TradeKind
    venue: str | None = described("the program it ran on; `A > B`: A called B")
    mint: Address | None = described("the main token; tokenChanges has all")
    symbol: str | None = described("untrusted")
    tokenChanges: list[TokenChange]
    solChangeLamports: Whole = described(
        "of the wallet's SOL, wrapped SOL included; rent laid into its own token accounts is none"
    )
    solChange: Exact
    feeLamports: Whole
    tipLamports: Whole
    rentLamports: Whole = described("change of the rent that lies in its own token accounts")
    realized: Realized
    quote: QuoteTrade | None = described("its result in the stablecoin that it was priced in")
    quoteReason: QuoteReason | None = described(
        "why there is none; in_sol: its result is in `realized`; no_stablecoin: one token for "
        "another, or one stablecoin for another, which has a result in neither"
    )
    explainedShare: Share | None = described(
        "how much of the trade's value came out of, and went into, what the venue's call trades "
        "with; below 0.95 it has no result; null where nothing is priced"
    )
    counterparties: list[Address] = described("the accounts it came from")
    beside: Beside | None = described(
        "the part of tokenChanges and solChange that is not the trade's; null: all of it is"
    )
    flags: list[str] = described(
        "what to know before relying on its numbers: ambiguous, basis_carried,"
        " counterparty_signed, fed_market, fee_income, fee_only, incomplete_history, no_swap,"
        " not_signer, opening_inventory_unknown, order_unresolved, own_transfer, own_wallets,"
        " owner_inferred, residue, sponsored_rent, tip_only, unrecognised_program,"
        " value_unexplained"
    )
    source: Literal["chain"]
    verified: bool = described("always true: it is finalized on the chain")
    explorerUrl: str | None = described("null in a demonstration")


class ActivityRow(Shape):
    """A buy or a sale of one token."""

    side: Literal["buy", "sell"]
    botId: str
    botName: str = described("untrusted")
    wallet: Address
    amountRaw: Whole = described("what was bought or sold, without what passed beside it")
    amount: Exact
    decimals: int
    solChangeLamports: Whole = described("of the whole transaction, as in Trade")
    solChange: Exact
    eventAt: Time | None
    slot: int
    signature: Signature
    tradeId: str
    kind: TradeKind
    explainedShare: Share | None = described("as in Trade")
    beside: Beside | None = described("as in Trade")
    flags: list[str] = described("as in Trade")
    explorerUrl: str | None = described("null in a demonstration")


class LeaderboardRow(Shape):
    """A bot on the board; numbers are null where no wallet was observed."""

    rank: int | None = described("from 1; ties share it; null without a rank")
    record: Literal["forward", "all"]
    botId: str
    name: str = described("untrusted")
    handle: str
    wallet: Address | None
    ownership: Literal["claimed", "proven"] | None = Field(
        description=(
            "null without a wallet; proven and claimed wallets are ranked apart, each from 1; "
            "claimed too where any wallet in the forward record was never proven"
        )
    )
    realizedLamports: Whole | None
    realizedSol: Exact | None
    worstCaseLamports: Whole | None = described("as in Results")
    costLeftLamports: Whole | None = described("known cost of what left without a sale")
    maxDrawdownLamports: Whole | None = described(
        "as in Risk, from the full hour that the window begins at; null until it was worked out"
    )
    volumeLamports: Whole | None
    volumeSol: Exact | None
    quote: Quote = absent(
        "on a board in a stablecoin: counts are of trades in it, amounts are in the members that "
        "follow, and those in SOL are null"
    )
    realizedRaw: Whole | None = absent("on a board of a stablecoin")
    realized: Exact | None = absent("on a board of a stablecoin")
    worstCaseRaw: Whole | None = absent("on a board of a stablecoin")
    worstCase: Exact | None = absent("on a board of a stablecoin")
    costLeftRaw: Whole | None = absent("on a board of a stablecoin")
    costLeft: Exact | None = absent("on a board of a stablecoin")
    volumeRaw: Whole | None = absent("on a board of a stablecoin")
    volume: Exact | None = absent("on a board of a stablecoin")
    observedTrades: int | None
    matchedSells: int | None
    partialSells: int | None
    unmatchedSells: int | None
    returnPct: Exact | None = described("on the cost basis of what was sold, in percent")
    winRate: Exact | None = described("won of all positions with a sale, 0 to 1")
    positions: int | None = described("with a sale")
    positionsWon: int | None
    positionsOpen: int | None = described("with a sale or not")
    signs: list[Literal["one_token", "flat_round_trips"]] = described("as in BotDetail")
    ranked: bool
    unrankedReason: (
        Literal[
            "no_wallet",
            "not_observed",
            "too_few_sells",
            "too_little_cost",
            "open_gap",
            "held_by_another",
        ]
        | None
    ) = described(
        "why there is no rank; too_few_sells: under three with a result; too_little_cost: by "
        "return, under 1 SOL or 100 of a stablecoin of cost basis; open_gap: a part of the "
        "history is missing; held_by_another: another bot held the wallet first and keeps its past"
    )
    coverage: Coverage
    retiredAt: Time | None = described("a retired bot stays on the board of its time")
    owner: Owner


class TradePage(Page):
    """Trades: newest first; with `since` those that arrived later, in order of arrival."""

    data: list[Trade]
    newestCursor: str = described("pass it back as since for what arrives later")
    coverage: Coverage | None = described("of the wallet, where the filters name one")


class Activity(Page):
    """Who of the observed wallets bought or sold one token."""

    mint: Address
    symbol: str | None = described("untrusted")
    data: list[ActivityRow]
    buyers: int = described("wallets that bought it")
    sellers: int = described("wallets that sold it")
    walletsTracked: int = described("how many wallets this instance observes")


class Connected(Shape):
    """All wallets that were ever connected to this instance, those that were given up included."""

    walletsEver: int
    walletsHeld: int = described("those that a bot holds now")
    walletsObserved: int = described("those with a forward record")
    medianRealizedLamports: Whole | None = described(
        "the median of what each of those realized while bots held it; of an even number the lower "
        "of the two in the middle; null without any"
    )


class Leaderboard(Page):
    """Proven wallets with a rank, then claimed ones; then those without a rank, likewise; `limit`
    of each.
    """

    data: list[LeaderboardRow]
    record: Literal["forward", "all"]
    ownership: Literal["proven", "claimed"] | None
    sort: Literal["pnl", "return", "win_rate", "volume", "trades", "pnl_floor"]
    window: Literal["24h", "7d", "30d", "90d", "all"]
    quote: Quote = absent("the stablecoin whose results are ranked, where one was asked for")
    instance: Connected
