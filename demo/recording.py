"""The recorded chain, and what it lacks: transactions of one wallet, and wallets that load slowly,
retired, or trade in a stablecoin.
"""

import gzip
import json
from pathlib import Path

from chain.reading.quotes import QUOTES
from demo.market import BY_SYMBOL, DAY, SOL_USD, price
from demo.receipts import FEE, JsonObject, Plan, Receipts, make_address

RECORDING = Path(__file__).parent / "chain.json.gz"
# Numbers of the wallets.
SLOW, RETIRED, DOLLARS = 4, 5, 6
SOL = 10**9
# Of the slow one: transactions, and seconds its node takes for each; a quarter of an hour in all.
SLOW_COUNT, SLOW_SECONDS = 2_400, 0.4
SLOW_BEGIN, SLOW_APART = -900_000, 360
# Its token is in no list of the market, so nobody prices it.
UNPRICED, UNPRICED_DECIMALS = make_address("unpriced token"), 6
# Of the retired one: times of its trades, and raw units of a trade.
RETIRED_BEGIN, RETIRED_APART, RETIRED_TRADES = -200_000, 9_000, 12
RETIRED_SYMBOL, RETIRED_RAW = "TARN", 400 * 10**6
# Of the one with a stablecoin: what it was given of it, when it trades, asleep and while somebody
# looks, what it buys and sells in turn, in raw units, and what the pool keeps of each trade.
USDC = QUOTES[0]
GIVEN_USD = 10_000
DOLLAR_TIMES = (*range(-10 * DAY, -3_000, 9_000), *range(-3_000, 9_000, 90))
DOLLAR_SYMBOL, DOLLAR_RAW = "EMBER", (20_000 * 10**6, 10_000 * 10**6, -30_000 * 10**6)
SPREAD = 0.004


def load_recording(slow_count: int = SLOW_COUNT) -> JsonObject:
    """Return the recorded chain, with the wallets and oddities that it lacks.

    A real Solana runtime (Surfpool 1.5.0) executed it: four bots that trade with one maker for
    twelve days, each trade marked by a Memo. `slow_count`: transactions of the wallet whose
    history loads slowly.
    """
    with gzip.open(RECORDING) as file:
        recording: JsonObject = json.load(file)
    return add_newcomers(add_oddities(recording), slow_count)


# ---- wallets that it lacks -----------------------------------------------------------------------
def add_newcomers(recording: JsonObject, slow_count: int = SLOW_COUNT) -> JsonObject:
    """Return the recording with these wallets and their transactions."""
    slow, retired, dollars = (
        make_address(f"{name} wallet") for name in ("slow", "retired", "dollar")
    )
    made = [
        *_make_slow(slow, slow_count),
        *_make_retired(retired, recording["mints"][RETIRED_SYMBOL]),
        *_make_dollars(dollars, recording["mints"][DOLLAR_SYMBOL]),
    ]
    return {
        **recording,
        "wallets": [*recording["wallets"], slow, retired, dollars],
        "transactions": sorted([*recording["transactions"], *made], key=lambda row: row["at"]),
    }


def _make_slow(wallet: str, count: int) -> list[JsonObject]:
    """Buy a token nobody prices, in parts, and sell a part of each purchase."""
    times = range(SLOW_BEGIN, SLOW_BEGIN + count * SLOW_APART, SLOW_APART)
    made = _begin(Plan(SLOW, wallet, UNPRICED, UNPRICED_DECIMALS, times))
    while len(made.rows) < count:
        number = len(made.rows)
        # The first one opened the account.
        if number % 2:
            _buy(made, 1_000_000, SOL // 9, "late")
        else:
            _sell(made, 900_000, SOL // 10 + number % 7 * SOL // 500, "late")
    return made.rows


def _make_retired(wallet: str, mint: str) -> list[JsonObject]:
    """Buy and sell a token of the market in turn, at the market's prices."""
    token = BY_SYMBOL[RETIRED_SYMBOL]
    times = range(RETIRED_BEGIN, 0, RETIRED_APART)
    made = _begin(Plan(RETIRED, wallet, mint, token.decimals, times))
    for number in range(RETIRED_TRADES):
        whole = RETIRED_RAW / 10**token.decimals
        lamports = int(whole * price(token, made.next_at) * SOL)
        trade = _sell if number % 2 else _buy
        trade(made, RETIRED_RAW, lamports, "sell" if number % 2 else "buy")
    return made.rows


def _make_dollars(wallet: str, mint: str) -> list[JsonObject]:
    """Buy a token of the market for a stablecoin, twice, and sell all of it, at the market's
    prices: what comes out comes out.
    """
    token = BY_SYMBOL[DOLLAR_SYMBOL]
    made = _begin(Plan(DOLLARS, wallet, mint, token.decimals, DOLLAR_TIMES, USDC))
    gift = made.give(made.giver, made.purse, _count_units(GIVEN_USD))
    made.add([], [made.open(made.purse), gift], "gift")
    for number in range(len(DOLLAR_TIMES) - len(made.rows)):
        raw = DOLLAR_RAW[number % len(DOLLAR_RAW)]
        worth = abs(raw) / 10**token.decimals * price(token, made.next_at) * SOL_USD
        if raw > 0:
            paid = made.give(made.purse, made.till, _count_units(worth * (1 + SPREAD)))
            made.add([paid, made.give(made.vault, made.own, raw)], kind="swap")
        else:
            got = made.give(made.till, made.purse, _count_units(worth * (1 - SPREAD)))
            made.add([made.give(made.own, made.vault, -raw), got], kind="swap")
    return made.rows


def _count_units(dollars: float) -> int:
    """Return raw units of the stablecoin."""
    return int(dollars * 10**USDC.decimals)


def _begin(plan: Plan) -> Receipts:
    """Fund a wallet that was empty and open its token account."""
    made = Receipts(plan, 0)
    made.lamports[plan.wallet] = 0
    made.add([], [made.pay(made.friend, plan.wallet, 200 * SOL), made.open()], "income")
    return made


def _buy(made: Receipts, raw: int, lamports: int, kind: str) -> None:
    paid = made.pay(made.plan.wallet, made.pool, lamports)
    made.add([paid, made.give(made.vault, made.own, raw)], kind=kind)


def _sell(made: Receipts, raw: int, lamports: int, kind: str) -> None:
    got = made.pay(made.pool, made.plan.wallet, lamports)
    made.add([made.give(made.own, made.vault, raw), got], kind=kind)


# ---- transactions that it lacks ------------------------------------------------------------------
# Number of the wallet; seconds before the start at which it begins; seconds between two.
WHO, BEGIN, APART = 1, -5_000, 61
DECIMALS, WHOLE = 6, 10**6


def add_oddities(recording: JsonObject) -> JsonObject:
    """Return the recording with these transactions in their places."""
    wallet, mint = recording["wallets"][WHO], sorted(recording["accounts"])[0]
    lamports = _find_lamports(recording, wallet)
    plan = Plan(WHO, wallet, mint, DECIMALS, range(BEGIN, 0, APART))
    made = _make_rows(Receipts(plan, lamports), lamports)
    rows = sorted([*recording["transactions"], *made], key=lambda row: row["at"])
    return {**recording, "transactions": rows}


def _find_lamports(recording: JsonObject, wallet: str) -> int:
    """Return what the wallet holds when the first of them begins."""
    held = 0
    for row in recording["transactions"]:
        keys = [one["pubkey"] for one in row["receipt"]["transaction"]["message"]["accountKeys"]]
        if row["at"] < BEGIN and wallet in keys:
            held = row["receipt"]["meta"]["postBalances"][keys.index(wallet)]
    return held


def _make_rows(made: Receipts, lamports: int) -> list[JsonObject]:
    """Make them all. `lamports`: what the wallet holds before them and after them."""
    wallet, pool, own, vault, friend = (
        made.plan.wallet,
        made.pool,
        made.own,
        made.vault,
        made.friend,
    )
    made.add([made.open(), made.pay(wallet, pool, 400_000_000), made.give(vault, own, 4 * WHOLE)])
    gift = [made.pay(friend, wallet, 250_000_000)]
    made.add([made.give(own, vault, 1 * WHOLE), made.pay(pool, wallet, 90_000_000)], gift)
    there = [made.pay(wallet, pool, 200_000_000), made.give(vault, own, 2 * WHOLE)]
    back = [made.give(own, vault, 2 * WHOLE), made.pay(pool, wallet, 203_000_000)]
    made.add([*there, *back])
    paid = [made.pay(wallet, pool, 10_000_000), made.pay(friend, pool, 190_000_000)]
    made.add([*paid, made.give(vault, own, 2 * WHOLE)])
    made.add([], [made.give(own, vault, 5 * WHOLE), made.close()])
    rest = made.lamports[wallet] - FEE - lamports
    payer, target = (wallet, friend) if rest > 0 else (friend, wallet)
    made.add([], [made.pay(payer, target, abs(rest))])
    return made.rows
