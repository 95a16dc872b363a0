"""Writing trades, new ones and those that a rebuild changed."""

from collections.abc import Sequence
from typing import Any

from models import Trade
from storage import arrivals, in_parts

KEPT = ("id", "uid", "wallet", "signature")
DERIVED = [field for name, field in Trade._meta.fields.items() if name not in KEPT]


def store_trades(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Insert or update trades of one wallet, each a dict of all columns but the id: {signature:
    id}. A row keeps its id for ever; a new one arrives with it.
    """
    ids: dict[str, int] = {}
    for part in in_parts(rows):
        signatures = [row["signature"] for row in part]
        mine = (Trade.wallet == part[0]["wallet"]) & Trade.signature.in_(signatures)
        known = {one for (one,) in _rows(Trade.select(Trade.signature).where(mine))}
        Trade.insert_many(part).on_conflict(
            conflict_target=[Trade.wallet, Trade.signature], preserve=DERIVED
        ).execute()
        stored: dict[str, int] = dict(_rows(Trade.select(Trade.signature, Trade.id).where(mine)))
        arrivals.store_trade_arrivals(
            [stored[signature] for signature in signatures if signature not in known]
        )
        ids |= stored
    return ids


def _rows(query: Any) -> Any:
    return query.tuples()
