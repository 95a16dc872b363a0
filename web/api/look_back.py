"""Search trades by kind or currency, only among the latest of each wallet or among the next
arrivals, never among all trades.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple, get_args

from chain.reading.kinds import TRADES
from web.api import queries
from web.api.queries import TradePosition, TradeRow, WalletSpan
from web.api.shapes import TradeKind
from web.api.trades import is_paid

# Trades of a wallet, a token or the instance to examine for one page.
MAX_LOOK_BACK = 2_000
# Number of arrivals to search at a time.
BATCH = 100
TRADE_KINDS: tuple[str, ...] = get_args(TradeKind)
EVERY_TRADE = "trade"


class Wanted(NamedTuple):
    """Which trades: of the wallets' `spans` (None: all), of any of `mints` (None: all), of `kinds`
    (empty: all) and paid in a ledger currency (None: any or none). Kinds are searched one by one.
    """

    spans: Sequence[WalletSpan] | None
    mints: Sequence[str] | None = None
    kinds: frozenset[str] = frozenset()
    money: str | None = None


class Found(NamedTuple):
    """A page of trades, newest first. `position`: where older ones continue, or None;
    `ended_early`: whether the look-back ended before the page was full.
    """

    rows: Sequence[TradeRow]
    position: TradePosition | None
    ended_early: bool = False


def find_trades(
    wanted: Wanted, limit: int, before: TradePosition | None = None, up_to: int | None = None
) -> Found:
    """Find a page of trades below a position and, with `up_to`, without higher ids."""
    floor = _find_floor(wanted, before) if wanted.kinds else None
    rows = {
        row.id: row
        for mint in _list_mints(wanted)
        for row in queries.list_trades(
            limit + 1, before, up_to, wanted.spans, mint, wanted.kinds, wanted.money, floor
        )
    }
    newest = sorted(rows.values(), key=attrgetter("position"), reverse=True)
    if len(newest) > limit:
        return Found(newest[:limit], newest[limit - 1].position)
    return Found(newest, floor, floor is not None)


class Arrived(NamedTuple):
    """A page of trades in order of arrival. `arrival`: number of the last trade examined."""

    rows: Sequence[TradeRow]
    arrival: int


def find_arrived(wanted: Wanted, limit: int, after: int) -> Arrived:
    """Find a page of trades that arrived after this arrival; searches examine MAX_LOOK_BACK of
    them. `wanted` names at most one mint.
    """
    (mint,) = _list_mints(wanted)
    rows: list[TradeRow] = []
    size, looked = BATCH if wanted.kinds else limit, 0
    while looked < MAX_LOOK_BACK:
        arrived = queries.list_trades_since(size, after, wanted.spans, mint)
        looked += size
        for one in arrived:
            after = one.arrival
            if is_wanted(wanted, one.row):
                rows.append(one.row)
            if len(rows) == limit:
                return Arrived(rows, after)
        if len(arrived) < size:
            break
    return Arrived(rows, after)


def is_wanted(wanted: Wanted, row: TradeRow) -> bool:
    if wanted.kinds and row.kind not in wanted.kinds:
        return False
    if wanted.money is None:
        return True
    return wanted.money == row.currency and is_paid(row.kind, row.realized)


def expand_kinds(words: Sequence[str]) -> frozenset[str]:
    """Replace EVERY_TRADE with the kinds it means."""
    kinds = {kind for word in words for kind in (TRADES if word == EVERY_TRADE else (word,))}
    return frozenset(kinds)


def _find_floor(wanted: Wanted, before: TradePosition | None) -> TradePosition | None:
    """Return the oldest position to examine, or None for no limit."""
    ends = [
        queries.find_trade_position(MAX_LOOK_BACK, before, span, mint)
        for span in (wanted.spans if wanted.spans is not None else (None,))
        for mint in _list_mints(wanted)
    ]
    return max((end for end in ends if end is not None), default=None)


def _list_mints(wanted: Wanted) -> Sequence[str | None]:
    return (None,) if wanted.mints is None else wanted.mints
