"""Who acts in the demonstration, and what they post about the recorded trades. Pure: the same
recording gives the same posts.

The bots of wallet mode say what real ones say: most of it true, some of it boasted, some about
nothing on the chain. What is verified is decided by the instance, not here. Times are seconds of
the demonstration.
"""

import hashlib
import random
from dataclasses import dataclass, field
from decimal import Decimal

from demo.market import BY_SYMBOL, DAY, price
from voice import builtin

WORTH_A_POST = ("buy", "sell", "swap")
RECENT = 20  # posts a bot does not repeat itself over
ORLA, ORLA_EVERY = (
    "Orla Margin",
    (10_000, 80),
)  # mean seconds between her remarks, before the bots wake up and since


@dataclass(frozen=True)
class Member:
    """An influencer of wallet mode. `who`: the number of its wallet in the recording, None for one
    without a wallet.
    """

    name: str
    bio: str
    who: int | None
    talks: float  # share of its trades it posts about
    voice: dict = field(default_factory=dict)
    told_by_observer: bool = False  # does the instance write posts about its trades, too?


BOTS = (
    Member(
        "Nell Quickstep",
        "Buys what rises, sells before lunch.",
        0,
        0.7,
        {"tone": "cheerful", "emoji": "🌱", "catchphrases": ["Small steps add up"]},
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
    ),
    Member(
        "Quincy Reed",
        "Was here before anybody was watching: some of what he holds has no known cost.",
        3,
        0.4,
        {"tone": "dry"},
        True,
    ),
    Member(
        ORLA,
        "Talks about markets, holds no wallet: nothing she says can be verified.",
        None,
        0,
        {"tone": "calm"},
    ),
)


@dataclass(frozen=True)
class Trader:
    """An influencer of paper mode."""

    name: str
    bio: str
    family: str
    start: str
    voice: dict = field(default_factory=dict)
    settings: dict = field(default_factory=dict)  # of its family, where they are not the defaults
    doubt: str = ""  # why the operator put its record under review


TRADERS = (
    Trader(
        "Momo Uphill", "Follows what rises.", "momentum", "standard", {"tone": "bold", "emoji": "⛰"}
    ),
    Trader(
        "Rhea Verter",
        "Buys what fell too far.",
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
        "Says that he never loses.",
        "momentum",
        "guarded",
        {"tone": "cheerful"},
        doubt="an example: somebody asked for a second look at this record",
    ),
)


@dataclass(frozen=True)
class Line:
    """One post: when, who says it (a number in BOTS), and the fields of the request."""

    at: int
    bot: int
    fields: dict


def plan_posts(rows, mints):
    """Every Line of the demonstration, in order. `rows`: demo.node.Row in order; `mints`: {symbol:
    address}.
    """
    symbols = {mint: symbol for symbol, mint in mints.items()}
    said = [[] for _ in BOTS]
    lines = []
    for place, row in enumerate(rows):
        if line := _line_about(row, rows[:place], symbols, said[row.who]):
            lines.append(line)
    return sorted(
        [*lines, *_remarks(rows[0].at, rows[-1].at, mints)], key=lambda line: (line.at, line.bot)
    )


# ---- about trades --------------------------------------------------------------------------------
def _line_about(row, before, symbols, said):
    """What its bot posts about a transaction, or None: most of it right, now and then another's
    receipt, a failed one, the wrong token.
    """
    chance, bot = random.Random(row.signature), BOTS[row.who]
    if (row.kind not in WORTH_A_POST and not (row.kind == "failed" and chance.random() < 0.4)) or (
        row.kind != "failed" and chance.random() > bot.talks
    ):
        return None
    facts, mint = _read_facts(row, symbols)
    if facts is None:
        return None
    body = builtin.write(bot.voice, facts, row.signature, said[-RECENT:])
    said.append(body)
    fields = {
        "eventId": f"{row.kind}-{row.signature[:12]}",
        "body": body,
        "mint": mint,
        "symbol": facts["symbol"],
        "signature": row.signature,
    }
    slip = chance.random()
    if slip < 0.04:
        fields["signature"] = next(
            (one.signature for one in reversed(before) if one.who != row.who), row.signature
        )
    elif slip < 0.07:
        fields["mint"] = next(one for one in symbols if one != mint)
    elif slip < 0.15:
        fields["reason"] = chance.choice(["volume", "a feeling", "my model said so", "it was time"])
    return Line(row.at + chance.randrange(3, 40), row.who, fields)


def _read_facts(row, symbols):
    """({kind, symbol, amount, sol}, mint) as its bot knows them from its own receipt; (None, None)
    where no token moved. A failed trade is told as done.
    """
    moved, sol = _moves_of(row)
    if row.kind == "failed":
        mint = next(
            one["mint"] for one in row.receipt["meta"]["preTokenBalances"] if one["mint"] in symbols
        )
        return {"kind": "sell", "symbol": symbols[mint]}, mint
    got, gave = (
        [(mint, raw) for mint, raw in moved.items() if (raw > 0) == up] for up in (True, False)
    )
    if row.kind == "swap" and got and gave:
        return {
            "kind": "swap",
            "symbol": symbols[got[0][0]],
            "amount": _amount(*got[0], symbols),
            "fromSymbol": symbols[gave[0][0]],
            "fromAmount": _amount(*gave[0], symbols),
        }, got[0][0]
    if len(moved) != 1:
        return None, None
    ((mint, raw),) = moved.items()
    return {
        "kind": row.kind,
        "symbol": symbols[mint],
        "amount": _amount(mint, raw, symbols),
        "sol": f"{abs(Decimal(sol)) / 10**9:.3f}",
    }, mint


def _moves_of(row):
    """({mint: raw change}, lamport change) of the bot's own wallet."""
    meta, wallet, moved = row.receipt["meta"], row.keys[0], {}
    for side, sign in (("pre", -1), ("post", 1)):
        for one in meta[f"{side}TokenBalances"]:
            if one["owner"] == wallet:
                moved[one["mint"]] = moved.get(one["mint"], 0) + sign * int(
                    one["uiTokenAmount"]["amount"]
                )
    return {mint: raw for mint, raw in moved.items() if raw}, meta["postBalances"][0] - meta[
        "preBalances"
    ][0]


def _amount(mint, raw, symbols):
    whole = Decimal(abs(raw)).scaleb(-BY_SYMBOL[symbols[mint]].decimals)
    return f"{whole:,.0f}" if whole >= 100 else f"{whole:.2f}"


# ---- about nothing on the chain ------------------------------------------------------------------
REMARKS = (
    (
        "{symbol} stands at {price} SOL, {change} % against this hour yesterday. I have no stake"
        " in it."
    ),
    "If you ask me about {symbol}: {change} % in a day, and still people write essays.",
    "{symbol} {direction} again. {price} SOL. Make of it what you will.",
    "A question for the room: who really needs {symbol} at {price} SOL?",
    "{change} % for {symbol} since yesterday. Charts are weather, not climate.",
    "Watching {symbol} at {price} SOL from a safe distance.",
)


def _remarks(first, last, mints):
    """Orla's posts: about prices, without a wallet and without a receipt."""
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
        yield Line(
            at,
            bot,
            {
                "eventId": f"remark-{ident}",
                "body": chance.choice(REMARKS).format(**facts),
                "mint": mints[token.symbol],
                "symbol": token.symbol,
            },
        )
        following = at + 40 + int(chance.expovariate(1 / ORLA_EVERY[at >= -3_000]))
        at = 8 if at < 0 <= following else following  # she is the first to speak
