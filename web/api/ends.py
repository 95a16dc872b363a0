"""The sales that ended best and worst of all that a bot's wallet did."""

from collections.abc import Sequence

from web.api import queries
from web.api.serialize import Json
from web.server.rows import select_value, write_marks

# The hour of a result: that of the first sale that had it.
HOUR = """
SELECT MIN(begins) FROM risk_total
WHERE hours = 1 AND span = 0 AND {end} = ? AND wallet_id IN ({marks})"""
# Found among the sales of its hour, by the index of kinds.
SALE = """
SELECT t.uid FROM trade t WHERE t.kind IN ('sell', 'swap', 'round_trip', 'order_fill')
AND t.block_time >= ? AND t.block_time < ? AND t.result = ? AND t.wallet_id IN ({marks})
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
    """Return the public id of the first sale with this result; None where its time is unknown."""
    marks = write_marks(wallets)
    hour = select_value(HOUR.format(end=end, marks=marks), [result, *wallets])
    if hour is None:
        return None
    begins = hour * HOUR_SECONDS
    sale = SALE.format(marks=marks)
    uid: str | None = select_value(sale, [begins, begins + HOUR_SECONDS, result, *wallets])
    return uid
