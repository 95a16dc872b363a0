"""The demo's bots, and their posts about the recorded trades. Pure: the same recording gives the
same posts.

The wallet bots post like real ones. Most posts are true, some boast, and some aren't about anything
on chain. The instance decides what is verified, not this module. Times are seconds of the demo.
"""

import hashlib
import random
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from demo.market import BY_SYMBOL, DAY, TOKENS, price
from demo.node import RecordedTransaction
from demo.recording import USDC
from voice import builtin

POSTED_KINDS = ("buy", "sell", "swap")
DECIMALS = {one.symbol: one.decimals for one in (*TOKENS, USDC)}
# A bot doesn't repeat a sentence within this many posts.
RECENT_POSTS = 20
ORLA = "Orla Margin"
# From this time on, the bots trade at the rate that visitors see.
AWAKE = -3_000
# The mean seconds between Orla's remarks, before and after AWAKE.
ORLA_ASLEEP_SECONDS, ORLA_AWAKE_SECONDS = 10_000, 80


@dataclass(frozen=True)
class Member:
    """A bot, with or without a wallet."""

    name: str
    bio: str
    # The wallet's number in the recording, or None if the bot has no wallet.
    wallet: int | None
    # The share of trades that the bot posts about.
    post_share: float
    voice: dict[str, object] = field(default_factory=dict)
    # Whether the instance also posts about its trades.
    auto_post: bool = False
    # Whether it claims a profit on sales at a loss.
    boasts: bool = False
    # Whether it connects when the demo starts, not at the recording's start.
    is_new: bool = False
    # When the bot retired, in seconds of the demo.
    retired_at: int | None = None


BOTS = (
    Member(
        "Nell Quickstep",
        "Buys what rises, sells before lunch.",
        0,
        0.7,
        {"tone": "cheerful", "emoji": "🌱", "catchphrases": ["Small steps add up"]},
        boasts=True,
    ),
    Member(
        "Otto Longbow",
        "Few arrows, long flights. Buys what fell.",
        1,
        0.85,
        {"tone": "solemn", "topics": ["long watch", "winter", "harvest"]},
    ),
    Member(
        "Pia Firefly",
        "Fast, loud, pays for priority. Failed transactions are part of the show.",
        2,
        0.55,
        {"tone": "bold", "emoji": "🔥", "style": ["terse"]},
        boasts=True,
    ),
    Member(
        "Quincy Reed",
        "Traded before anyone was watching, so some of his tokens have no known cost.",
        3,
        0.4,
        {"tone": "dry"},
        True,
    ),
    Member(
        "Lena Latecomer",
        "Connected a moment ago, with thousands of past trades. They're loading right now.",
        4,
        0,
        {"tone": "calm"},
        is_new=True,
    ),
    Member(
        "Rufus Gone",
        "Traded one token for a day, posted about every trade, and stopped.",
        5,
        1,
        {"tone": "plain"},
        retired_at=-60_000,
    ),
    Member(
        "Dora Dollar",
        "Buys and sells in USDC. The price of SOL is somebody else's problem.",
        6,
        0.5,
        {"tone": "dry", "topics": ["small change"]},
        boasts=True,
    ),
    Member(
        ORLA,
        "Talks about markets without a wallet, so nothing she says can be verified.",
        None,
        0,
        {"tone": "calm"},
    ),
)


@dataclass(frozen=True)
class Trader:
    """A paper trader."""

    name: str
    bio: str
    family: str
    start: str
    voice: dict[str, object] = field(default_factory=dict)
    # The settings of its family that differ from the defaults.
    settings: dict[str, int] = field(default_factory=dict)
    # Why the operator put its record under review.
    review_reason: str = ""


TRADERS = (
    Trader(
        "Momo Uphill", "Follows what rises.", "momentum", "standard", {"tone": "bold", "emoji": "⛰"}
    ),
    Trader(
        "Rhea Verter",
        "Buys tokens that fell too far.",
        "mean_reversion",
        "standard",
        {"tone": "calm"},
        {"deviationsTenths": 25, "gapBps": 900, "cooldownSeconds": 900},
    ),
    Trader("Brook Outlaw", "Waits for new highs.", "breakout", "guarded", {"tone": "dry"}),
    Trader(
        "Flo Follows",
        "Watches the wallets of this instance.",
        "flow",
        "standard",
        {"tone": "plain"},
    ),
    Trader(
        "Max Toogood",
        "Says he never loses.",
        "momentum",
        "guarded",
        {"tone": "cheerful"},
        review_reason="an example: somebody asked for a second look at this record",
    ),
)


@dataclass(frozen=True)
class PlannedPost:
    """A post: its time, its author (an index in BOTS), and the request's fields."""

    at: int
    bot: int
    fields: dict[str, str]


def plan_posts(
    transactions: Sequence[RecordedTransaction], mints: Mapping[str, str]
) -> list[PlannedPost]:
    """Return all of the demo's posts, in order. `mints` is {symbol: address}."""
    symbols = {**{mint: symbol for symbol, mint in mints.items()}, USDC.mint: USDC.symbol}
    written: list[list[str]] = [[] for _ in BOTS]
    posts, losses = [], find_losses(transactions)
    for place, row in enumerate(transactions):
        boasted = BOTS[row.wallet].boasts and row.signature in losses and _is_told(row)
        past = transactions[:place]
        if post := _plan_post(row, past, symbols, written[row.wallet], boasted):
            posts.append(post)
    remarks = _plan_remarks(transactions[0].at, transactions[-1].at, mints)
    return sorted([*posts, *remarks], key=lambda post: (post.at, post.bot))


# ---- about trades --------------------------------------------------------------------------------
def _plan_post(
    row: RecordedTransaction,
    before: Sequence[RecordedTransaction],
    symbols: Mapping[str, str],
    written: list[str],
    boasted: bool,
) -> PlannedPost | None:
    """Return the bot's post about a transaction, or None.

    Most posts are right. Occasionally one cites another bot's receipt, a failed trade, or the wrong
    token. `written` are the bodies of the bot's posts so far, and the new one is added. `boasted`
    describes a loss as a profit.
    """
    chance, bot = random.Random(row.signature), BOTS[row.wallet]
    trade = _read_facts(row, symbols) if boasted or _is_posted(row, bot, chance) else None
    if trade is None:
        return None
    name = symbols[trade.mint]
    if boasted:
        body = _boast(name, written)
    else:
        body = builtin.write(bot.voice, trade.facts, row.signature, written[-RECENT_POSTS:])
    written.append(body)
    fields = {
        "eventId": f"{row.kind}-{row.signature[:12]}",
        "body": body,
        "mint": trade.mint,
        "symbol": name,
        "signature": row.signature,
    }
    if not boasted:
        _add_slip(fields, chance, row, before, symbols)
    return PlannedPost(row.at + chance.randrange(3, 40), row.wallet, fields)


# ---- boasts --------------------------------------------------------------------------------------
# The share of losses it boasts about.
BOAST_SHARE = 0.12
BOASTS = (
    "Took profit on {symbol}. Easy.",
    "{symbol} paid for dinner again. Profit locked in.",
    "Another win with {symbol}. I don't miss.",
    "Sold {symbol} at the top, in profit as always.",
)


class Lot(NamedTuple):
    """Raw units that arrived together.

    `price` is per unit, in lamports or raw units of the stablecoin, or None if it wasn't a
    purchase.
    """

    raw: int
    price: Fraction | None


def find_losses(transactions: Iterable[RecordedTransaction]) -> set[str]:
    """Return the signatures of sales whose price is below that of every purchase they use, oldest
    first.
    """
    lots: defaultdict[tuple[int, str], deque[Lot]] = defaultdict(deque)
    losses = set()
    for row in transactions:
        moved, lamports = _read_change(row)
        in_dollars = moved.pop(USDC.mint, None)
        paid, is_priced = in_dollars or lamports, in_dollars or row.kind in ("buy", "sell")
        for mint, raw in moved.items():
            held = lots[row.wallet, mint]
            price = Fraction(abs(paid), abs(raw)) if is_priced and len(moved) == 1 else None
            if raw > 0:
                held.append(Lot(raw, price))
                continue
            costs = _take_lots(held, -raw)
            if price is not None and costs and all(cost and price < cost for cost in costs):
                losses.add(row.signature)
    return losses


def _take_lots(held: deque[Lot], raw: int) -> list[Fraction | None]:
    prices = []
    while raw > 0 and held:
        lot = held.popleft()
        prices.append(lot.price)
        if lot.raw > raw:
            held.appendleft(lot._replace(raw=lot.raw - raw))
        raw -= lot.raw
    return prices


def _is_told(row: RecordedTransaction) -> bool:
    return random.Random(f"boast {row.signature}").random() < BOAST_SHARE


def _boast(symbol: str, written: Sequence[str]) -> str:
    told = [text.format(symbol=symbol) for text in BOASTS]
    return next((text for text in told if text not in written[-RECENT_POSTS:]), told[0])


def _is_posted(row: RecordedTransaction, bot: Member, chance: random.Random) -> bool:
    if row.kind == "failed":
        return chance.random() < 0.4
    return row.kind in POSTED_KINDS and chance.random() <= bot.post_share


def _add_slip(
    fields: dict[str, str],
    chance: random.Random,
    row: RecordedTransaction,
    before: Sequence[RecordedTransaction],
    symbols: Mapping[str, str],
) -> None:
    """Add a mistake to a few posts, and a reason to some."""
    slip = chance.random()
    if slip < 0.04:
        fields["signature"] = next(
            (one.signature for one in reversed(before) if one.wallet != row.wallet), row.signature
        )
    elif slip < 0.07:
        fields["mint"] = next(one for one in symbols if one != fields["mint"])
        name = symbols[fields["mint"]]
        fields |= {"body": fields["body"].replace(fields["symbol"], name), "symbol": name}
    elif slip < 0.15:
        fields["reason"] = chance.choice(["volume", "a feeling", "my model said so", "it was time"])


class TradeFacts(NamedTuple):
    """What a bot knows about its own trade: facts for `voice.builtin`, and the mint."""

    facts: dict[str, str]
    mint: str


class WalletChange(NamedTuple):
    """A transaction's changes to the bot's wallet: {mint: raw units}, and lamports."""

    tokens: dict[str, int]
    lamports: int


def _read_facts(row: RecordedTransaction, symbols: Mapping[str, str]) -> TradeFacts | None:
    """Return a trade's facts from its receipt, or None if no token moved.

    The bot describes a failed trade as a completed sale.
    """
    if row.kind == "failed":
        return _read_failure(row, symbols)
    moved, lamports = _read_change(row)
    if USDC.mint in moved and len(moved) == 2:
        return _read_dollar_trade(moved, symbols)
    if row.kind == "swap" and len({raw > 0 for raw in moved.values()}) == 2:
        return _read_swap(moved, symbols)
    if len(moved) != 1:
        return None
    ((mint, raw),) = moved.items()
    facts = {
        "kind": row.kind,
        "symbol": symbols[mint],
        "amount": _format_amount(raw, symbols[mint]),
        "paid": f"{abs(Decimal(lamports)) / 10**9:.3f}",
        "currency": "SOL",
    }
    return TradeFacts(facts, mint)


def _read_failure(row: RecordedTransaction, symbols: Mapping[str, str]) -> TradeFacts:
    balances = row.receipt["meta"]["preTokenBalances"]
    mint = next(one["mint"] for one in balances if one["mint"] in symbols)
    return TradeFacts({"kind": "sell", "symbol": symbols[mint]}, mint)


def _read_dollar_trade(moved: Mapping[str, int], symbols: Mapping[str, str]) -> TradeFacts:
    mint = next(one for one in moved if one != USDC.mint)
    facts = {
        "kind": "buy" if moved[mint] > 0 else "sell",
        "symbol": symbols[mint],
        "amount": _format_amount(moved[mint], symbols[mint]),
        "paid": _format_amount(moved[USDC.mint], symbols[USDC.mint]),
        "currency": symbols[USDC.mint],
    }
    return TradeFacts(facts, mint)


def _read_swap(moved: Mapping[str, int], symbols: Mapping[str, str]) -> TradeFacts:
    got = next(mint for mint, raw in moved.items() if raw > 0)
    gave = next(mint for mint, raw in moved.items() if raw < 0)
    facts = {
        "kind": "swap",
        "symbol": symbols[got],
        "amount": _format_amount(moved[got], symbols[got]),
        "fromSymbol": symbols[gave],
        "fromAmount": _format_amount(moved[gave], symbols[gave]),
    }
    return TradeFacts(facts, got)


def _read_change(row: RecordedTransaction) -> WalletChange:
    meta, wallet = row.receipt["meta"], row.keys[0]
    moved: dict[str, int] = {}
    for side, sign in (("pre", -1), ("post", 1)):
        for one in meta[f"{side}TokenBalances"]:
            if one["owner"] == wallet:
                moved[one["mint"]] = moved.get(one["mint"], 0) + sign * int(
                    one["uiTokenAmount"]["amount"]
                )
    return WalletChange(
        {mint: raw for mint, raw in moved.items() if raw},
        meta["postBalances"][0] - meta["preBalances"][0],
    )


def _format_amount(raw: int, symbol: str) -> str:
    whole = Decimal(abs(raw)).scaleb(-DECIMALS[symbol])
    return f"{whole:,.0f}" if whole >= 100 else f"{whole:.2f}"


# ---- posts without a transaction -----------------------------------------------------------------
REMARKS = (
    (
        "{symbol} trades at {price} SOL, {change}% against this hour yesterday. I have no stake"
        " in it."
    ),
    "Since people keep asking about {symbol}: {change}% in a day, and everyone has a theory.",
    "{symbol} {direction} again. {price} SOL. Make of it what you will.",
    "A question for the room: who really needs {symbol} at {price} SOL?",
    "{change}% for {symbol} since yesterday. Charts are weather, not climate.",
    "Watching {symbol} at {price} SOL from a safe distance.",
)


def _plan_remarks(first: int, last: int, mints: Mapping[str, str]) -> Iterator[PlannedPost]:
    """Yield Orla's posts about prices. She has no wallet and cites no receipt."""
    bot, chance = next(n for n, one in enumerate(BOTS) if one.name == ORLA), random.Random(ORLA)
    at = first + 3_000
    while at < last:
        token = BY_SYMBOL[
            chance.choice(["FERN", "MOTH", "KELP", "EMBER", "PLUM", "TARN", "RUST", "WICK"])
        ]
        now, yesterday = price(token, at), price(token, at - DAY)
        facts = {
            "symbol": token.symbol,
            "price": format(Decimal(f"{now:.3g}"), "f"),
            "change": f"{100 * (now / yesterday - 1):+.1f}",
            "direction": "climbs" if now > yesterday else "slips",
        }
        ident = hashlib.sha256(f"{ORLA} {at}".encode()).hexdigest()[:12]
        yield PlannedPost(
            at,
            bot,
            {
                "eventId": f"remark-{ident}",
                "body": chance.choice(REMARKS).format(**facts),
                "mint": mints[token.symbol],
                "symbol": token.symbol,
            },
        )
        pause = ORLA_AWAKE_SECONDS if at >= AWAKE else ORLA_ASLEEP_SECONDS
        following = at + 40 + int(chance.expovariate(1 / pause))
        # Her post is the first one after the demo starts.
        at = 8 if at < 0 <= following else following
