"""Separate tokens that strangers sent from those that a bot chose to hold."""

from collections.abc import Sequence
from typing import NamedTuple

from chain.symbols import find_own
from storage.rows import select, write_marks
from web.api.serialize import Json

# The mints that the bot ever bought or sold.
TRADED = """
SELECT DISTINCT m.address FROM mint m JOIN trade_mint t ON t.mint_id = m.id
JOIN attachment a ON a.wallet_id = t.wallet_id JOIN bot b ON b.id = a.bot_id
WHERE b.uid = ? AND t.side IS NOT NULL AND m.address IN """


class Held(NamedTuple):
    """A bot's open positions: those to show, and unknown tokens that arrived unasked."""

    chosen: list[Json]
    unasked: list[Json]


class MintRow(NamedTuple):
    mint: str


def split_positions(uid: str, positions: Sequence[Json]) -> Held:
    """Split a bot's positions. A token is unasked if the wallet didn't buy any of it, the bot never
    traded it, it isn't well known and the scout doesn't have a price for it.
    """
    strange = [one["mint"] for one in positions if _is_strange(one)]
    unasked = set(strange) - _find_traded(uid, strange)
    return Held(
        [one for one in positions if one["mint"] not in unasked],
        [one for one in positions if one["mint"] in unasked],
    )


def _find_traded(uid: str, mints: Sequence[str]) -> set[str]:
    if not mints:
        return set()
    sql = f"{TRADED}({write_marks(mints)})"
    return {row.mint for row in select(MintRow, sql, (uid, *mints))}


def _is_strange(position: Json) -> bool:
    is_bought = position["costLamports"] is not None or position["currency"] is not None
    return not (is_bought or position["estimate"] or find_own(position["mint"]))
