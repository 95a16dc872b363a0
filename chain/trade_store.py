"""The rows of trades: made from what the ledger booked, compared by digest, written where they
differ.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import orjson
from peewee import chunked

import storage
from chain.lots import UNEXPLAINED, Booked
from chain.tables import TradeMint
from models import Trade
from storage import arrivals, in_parts

# Kinds in which something was bought, sold or both.
SIDED = frozenset(("buy", "sell", "swap"))
# A row of the trade table, by column.
Row = dict[str, Any]
DIGESTED = sorted(Trade._meta.fields.keys() - {"id", "uid", "wallet", "digest"})
KEPT = ("id", "uid", "wallet", "signature")
DERIVED = [field for name, field in Trade._meta.fields.items() if name not in KEPT]


def trade_uid(address: str, signature: str) -> str:
    """The public id of a trade: from wallet and signature, so that it survives every rebuild."""
    return "trade_" + hashlib.sha256(f"{address} {signature}".encode()).hexdigest()[:24]


def make_trade_row(wallet: Any, place: int, booked: Booked) -> Row:
    """All columns but the id; `place` sorts inside a slot, `wallet` has an id and an address."""
    entry = booked.entry
    row = {
        "signature": entry.signature,
        "slot": entry.slot,
        "tx_index": entry.tx_index,
        "place": place,
        "block_time": entry.block_time,
        "kind": entry.kind,
        "venue": entry.venue,
        "mint": entry.mint,
        "token_changes": to_json([[m, str(c), d] for m, c, d in entry.tokens]),
        "sol_change": entry.sol,
        "fee": entry.fee,
        "tip": entry.tip,
        "rent": entry.rent,
        "realized": booked.status,
        "result": booked.result,
        "proceeds": booked.proceeds,
        "cost": booked.cost,
        "matched_raw": str(booked.matched),
        "unmatched_raw": str(booked.unmatched),
        "lots": to_json([show_lot(wallet.address, *lot) for lot in booked.lots]),
        "flags": to_json(booked.flags),
        "beside_sol": entry.beside_sol,
        "beside_tokens": to_json([[m, str(c), d] for m, c, d in entry.beside_tokens]),
        "explained": entry.explained_percent,
        "counterparties": to_json(entry.counterparties),
        "cost_left": booked.cost_left,
    }
    return {
        "uid": trade_uid(wallet.address, entry.signature),
        "wallet": wallet.id,
        **row,
        "digest": digest_trade(row),
    }


def show_lot(address: str, origin: str | None, amount: int, cost: int | None) -> list[str | None]:
    """[trade uid or null, raw amount, lamports or null] of a lot that a sale took."""
    uid = trade_uid(address, origin) if origin else None
    return [uid, str(amount), None if cost is None else str(cost)]


def digest_trade(row: Row) -> str:
    """Of all that is derived in a trade row."""
    return hashlib.sha256(orjson.dumps({name: row[name] for name in DIGESTED})).hexdigest()[:24]


def to_json(value: object) -> str:
    return orjson.dumps(value).decode()


def replace_trades(wallet_id: int, rows: dict[str, Row | None]) -> set[str]:
    """Write the rows {signature: row} that differ from the stored ones, and drop those that are
    None. Signatures that changed.
    """
    changed = {signature for signature, row in rows.items() if row is None}
    for part in chunked(
        [row for row in rows.values() if row is not None], storage.ROWS_A_STATEMENT
    ):
        mine = (Trade.wallet == wallet_id) & Trade.signature.in_([row["signature"] for row in part])
        stored = read_digests(mine)
        differing = [row for row in part if stored.get(row["signature"]) != row["digest"]]
        if differing:
            numbers = store_trades(differing)
            _replace_mints(wallet_id, [(numbers[row["signature"]], row) for row in differing])
        changed |= {row["signature"] for row in differing}
    for gone in chunked(
        sorted(signature for signature, row in rows.items() if row is None),
        storage.ROWS_A_STATEMENT,
    ):
        Trade.delete().where(Trade.wallet == wallet_id, Trade.signature.in_(gone)).execute()
    return changed


def read_digests(where: Any) -> dict[str, str]:
    """{signature: digest} of the stored trades that fit a condition."""
    rows: Any = Trade.select(Trade.signature, Trade.digest).where(where).tuples()
    return dict(rows)


def _replace_mints(wallet_id: int, numbered: list[tuple[int, Row]]) -> None:
    """Which tokens these trades moved: [(id, row), ...]."""
    for part in chunked(numbered, storage.ROWS_A_STATEMENT):
        TradeMint.delete().where(TradeMint.trade.in_([number for number, _ in part])).execute()
        rows = [
            {
                "trade": number,
                "wallet": wallet_id,
                "mint": mint,
                "side": side,
                "slot": slot,
                "place": place,
            }
            for number, row in part
            for mint, side, slot, place in list_moved(row)
        ]
        if rows:
            TradeMint.insert_many(rows).execute()


def list_moved(row: Row) -> list[tuple[str, str | None, int, int]]:
    """[(mint, side or None, slot, place), ...] of a trade row, in the order of its changes. Only
    what passed through the venue of a trade of explained value was bought or sold; what a round
    trip left over was neither.
    """
    changes = {mint: int(change) for mint, change, _ in orjson.loads(row["token_changes"])}
    beside = {mint: int(change) for mint, change, _ in orjson.loads(row["beside_tokens"])}
    sided = row["kind"] in SIDED and UNEXPLAINED not in orjson.loads(row["flags"])
    return [
        (
            mint,
            find_side(change - beside.get(mint, 0)) if sided else None,
            row["slot"],
            row["place"],
        )
        for mint, change in changes.items()
    ]


def find_side(change: int) -> str | None:
    """The side of a signed raw amount."""
    return ("buy" if change > 0 else "sell") if change else None


def mark_differing_trades(wallet_id: int) -> int:
    """Mark the stored rows that are not what their digest says, so that the next rebuild writes
    them again; return how many there are.
    """
    mints = defaultdict(list)
    for number, *columns in (
        TradeMint.select(
            TradeMint.trade, TradeMint.mint, TradeMint.side, TradeMint.slot, TradeMint.place
        )
        .join(Trade)
        .where(Trade.wallet == wallet_id)
        .order_by(TradeMint.id)
        .tuples()
        .iterator()
    ):
        mints[number].append(tuple(columns))
    stored = Trade.select().where(Trade.wallet == wallet_id).dicts().iterator()
    marked = [
        row["id"]
        for row in stored
        if row["digest"] != digest_trade(row) or mints[row["id"]] != list_moved(row)
    ]
    with storage.writing():
        for number in marked:
            Trade.update(digest="").where(Trade.id == number).execute()
    return len(marked)


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
