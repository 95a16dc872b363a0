"""What became of all wallets that were ever connected here, beside those that a list shows."""

from typing import NamedTuple

from chain.amounts import show_lamports
from chain.stored.holdings import COUNT_HELD
from storage.rows import select, select_value
from web.api.serialize import Json


class ConnectedRow(NamedTuple):
    """Counts of wallets: ever connected, held by a bot now, and with a forward record."""

    ever: int
    held: int
    observed: int


# Each by an index alone.
CONNECTED = f"""
SELECT (SELECT COUNT(*) FROM wallet) AS ever,
       {COUNT_HELD} AS held,
       (SELECT COUNT(*) FROM wallet WHERE forward_realized IS NOT NULL) AS observed
"""
NTH = """
SELECT forward_realized FROM wallet WHERE forward_realized IS NOT NULL
ORDER BY forward_realized LIMIT 1 OFFSET ?
"""


def show_connected() -> Json:
    """Make the Connected: counts, and the median of what all observed wallets realized while bots
    held them; of an even number the lower of the two in the middle.
    """
    (row,) = select(ConnectedRow, CONNECTED)
    median = select_value(NTH, [(row.observed - 1) // 2]) if row.observed else None
    return {
        "walletsEver": row.ever,
        "walletsHeld": row.held,
        "walletsObserved": row.observed,
        "medianRealizedLamports": show_lamports(median),
    }
