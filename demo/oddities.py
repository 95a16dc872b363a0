"""Transactions that the recording lacks: a gift beside a sale, a round trip, a purchase that
somebody else paid for. One wallet makes them and ends as it began: its recorded history goes on.
"""

from demo.receipts import FEE, JsonObject, Plan, Receipts

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
