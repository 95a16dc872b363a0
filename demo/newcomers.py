"""Two wallets that the recording lacks: one whose long history loads slowly while you look, and
one whose bot retired.
"""

from demo.market import BY_SYMBOL, price
from demo.receipts import JsonObject, Plan, Receipts, make_address

# Numbers of the wallets.
SLOW, RETIRED = 4, 5
SOL = 10**9
# Of the slow one: transactions, and seconds its node takes for each; a quarter of an hour in all.
SLOW_COUNT, SLOW_SECONDS = 2_400, 0.4
SLOW_BEGIN, SLOW_APART = -900_000, 360
# Its token is in no list of the market, so nobody prices it.
UNPRICED, UNPRICED_DECIMALS = make_address("unpriced token"), 6
# Of the retired one: times of its trades, and raw units of a trade.
RETIRED_BEGIN, RETIRED_APART, RETIRED_TRADES = -200_000, 9_000, 12
RETIRED_SYMBOL, RETIRED_RAW = "TARN", 400 * 10**6


def add_newcomers(recording: JsonObject, slow_count: int = SLOW_COUNT) -> JsonObject:
    """Return the recording with both wallets and their transactions."""
    slow, retired = make_address("slow wallet"), make_address("retired wallet")
    made = [
        *_make_slow(slow, slow_count),
        *_make_retired(retired, recording["mints"][RETIRED_SYMBOL]),
    ]
    return {
        **recording,
        "wallets": [*recording["wallets"], slow, retired],
        "transactions": sorted([*recording["transactions"], *made], key=lambda row: row["at"]),
    }


def _make_slow(wallet: str, count: int) -> list[JsonObject]:
    """Buy a token nobody prices, in parts, and sell a part of each purchase."""
    made = _begin(Plan(SLOW, wallet, UNPRICED, UNPRICED_DECIMALS, SLOW_BEGIN, SLOW_APART))
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
    made = _begin(
        Plan(RETIRED, wallet, mint, token.decimals, RETIRED_BEGIN, RETIRED_APART),
    )
    for number in range(RETIRED_TRADES):
        whole = RETIRED_RAW / 10**token.decimals
        lamports = int(whole * price(token, made.next_at) * SOL)
        trade = _sell if number % 2 else _buy
        trade(made, RETIRED_RAW, lamports, "sell" if number % 2 else "buy")
    return made.rows


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
