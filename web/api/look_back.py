"""Trades of a kind: searched for among the latest of each wallet, or among those that arrived next,
never among all there are.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple, get_args

from chain.ledger.views import HOUR_SECONDS
from storage.rows import select_value, write_marks
from web.api import queries
from web.api.schemas.base import TradeKind
from web.api.serialize import Json
from web.api.statements import TradePosition, TradeRow, WalletSpan

# Trades of a wallet, a token or the instance that are looked at for one page.
MAX_LOOK_BACK = 2_000
# Arrivals of a kind are looked for among this many at once.
BATCH = 100
TRADE_KINDS: tuple[str, ...] = get_args(TradeKind)


class Wanted(NamedTuple):
    """Which trades: of the wallets' `spans` (None: of all), of any of `mints` (None: of all) and
    of a kind (None: of all).
    """

    spans: Sequence[WalletSpan] | None
    mints: Sequence[str] | None = None
    kind: str | None = None


class Found(NamedTuple):
    """A page of trades, newest first. `position`: where older ones go on, None where there are
    none; `ended_early`: the look-back ended before the page was full.
    """

    rows: Sequence[TradeRow]
    position: TradePosition | None
    ended_early: bool = False


def find_trades(
    wanted: Wanted, limit: int, before: TradePosition | None = None, up_to: int | None = None
) -> Found:
    """Find a page of trades below a position and, with `up_to`, with no id above it."""
    floor = _find_floor(wanted, before) if wanted.kind else None
    rows = {
        row.id: row
        for mint in _list_mints(wanted)
        for row in queries.list_trades(
            limit + 1, before, up_to, wanted.spans, mint, wanted.kind, floor
        )
    }
    newest = sorted(rows.values(), key=attrgetter("position"), reverse=True)
    if len(newest) > limit:
        return Found(newest[:limit], newest[limit - 1].position)
    return Found(newest, floor, floor is not None)


class Arrived(NamedTuple):
    """A page of trades in order of arrival. `arrival`: of the last one that was looked at."""

    rows: Sequence[TradeRow]
    arrival: int


def find_arrived(wanted: Wanted, limit: int, after: int) -> Arrived:
    """Find a page of trades that arrived after this arrival; of a kind among MAX_LOOK_BACK of them.
    `wanted` names one mint at most.
    """
    (mint,) = _list_mints(wanted)
    rows: list[TradeRow] = []
    size, looked = BATCH if wanted.kind else limit, 0
    while looked < MAX_LOOK_BACK:
        arrived = queries.list_trades_since(size, after, wanted.spans, mint)
        looked += size
        for one in arrived:
            after = one.arrival
            if wanted.kind in (None, one.row.kind):
                rows.append(one.row)
            if len(rows) == limit:
                return Arrived(rows, after)
        if len(arrived) < size:
            break
    return Arrived(rows, after)


def _find_floor(wanted: Wanted, before: TradePosition | None) -> TradePosition | None:
    """Return the position down to which everything is looked at, None where that is all."""
    ends = [
        queries.find_trade_position(MAX_LOOK_BACK, before, span, mint)
        for span in (wanted.spans if wanted.spans is not None else (None,))
        for mint in _list_mints(wanted)
    ]
    return max((end for end in ends if end is not None), default=None)


def _list_mints(wanted: Wanted) -> Sequence[str | None]:
    return (None,) if wanted.mints is None else wanted.mints


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
    among = [begins, begins + HOUR_SECONDS, MAX_LOOK_BACK]
    uid: str | None = select_value(sale, [*among, result, *wallets])
    return uid
