"""The sales that ended best and worst of all that a bot's wallet did."""

from collections.abc import Sequence

from storage.rows import select_value, write_marks
from web.api import look_back, queries
from web.api.serialize import Json

# The first stretch of this many hours in which a sale had this result, the best or worst of all.
STRETCH = """
SELECT MIN(begins) FROM risk_total WHERE hours = ? AND view = 0 AND begins >= ? AND begins < ?
AND {end} = ? AND wallet_id IN ({marks})"""
DAY_HOURS, NEVER = 24, 2**31 - 1
# Found among the first trades of its hour, by the index of kinds.
SALE = """
SELECT t.uid FROM (
    SELECT uid, currency, result, wallet_id, slot, place FROM trade
    WHERE kind IN ('sell', 'swap', 'round_trip', 'order_fill')
    AND block_time >= ? AND block_time < ? LIMIT ?) t
WHERE t.result = ? AND t.currency = '' AND t.wallet_id IN ({marks})
ORDER BY t.slot, t.place LIMIT 1"""
HOUR_SECONDS = 3_600


def show_ends(bot: Json) -> Json:
    """Make `best` and `worst` of a BotDetail: null without a sale that has a result."""
    wallets = [span.wallet_id for span in queries.find_wallets(bot=bot["id"])]
    risk = bot["risk"] or {}
    return {end: _show_end(end, risk.get(f"{end}Lamports"), wallets) for end in ("best", "worst")}


def _show_end(end: str, result: str | None, wallets: Sequence[int]) -> Json | None:
    if result is None:
        return None
    return {"tradeId": _find_sale(end, int(result), wallets), "resultLamports": result}


def _find_sale(end: str, result: int, wallets: Sequence[int]) -> str | None:
    """Return the public id of the first sale with this result; None where its time is unknown, or
    it is not among the first MAX_LOOK_BACK trades of its hour.
    """
    marks = write_marks(wallets)
    stretch = STRETCH.format(end=end, marks=marks)
    # The day first: there are hours by the thousand.
    day = select_value(stretch, [DAY_HOURS, 0, NEVER, result, *wallets])
    if day is None:
        return None
    hour = select_value(stretch, [1, day, day + DAY_HOURS, result, *wallets])
    if hour is None:
        return None
    begins = hour * HOUR_SECONDS
    sale = SALE.format(marks=marks)
    among = [begins, begins + HOUR_SECONDS, look_back.MAX_LOOK_BACK]
    uid: str | None = select_value(sale, [*among, result, *wallets])
    return uid
