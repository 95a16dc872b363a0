"""Store trades that differ from their digest, and verify posts (docs/verified.md)."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import orjson

import storage
from chain.amounts import show_raw
from chain.ledger.inventory import SOL
from chain.ledger.ledger import WHOLE
from chain.ledger.sales import AGAINST, PAID_ELSEWHERE, UNEXPLAINED, Booked
from chain.ledger.totals import ALL_HISTORY, Key
from chain.reading.entries import Entry
from chain.reading.flows import list_venue_changes
from chain.stored.tables import Mint, TradeMint
from models import Trade
from storage import in_parts, store_trade_arrivals

SIDED = frozenset(("buy", "sell", "swap"))
Row = dict[str, Any]

DIGESTED = sorted(Trade._meta.fields.keys() - {"id", "uid", "wallet", "digest"})
# SQL for a trade `t` and its listed signature `s`. Signatures are too long for an index on trades,
# so find trades with this, or by trade_uid.
LISTED_TRADE = """sighting s JOIN trade t
ON t.wallet_id = s.wallet_id AND t.slot = s.slot AND t.signature = s.signature"""
# Plain SQL for speed: it runs with each publication.
ADDRESS = "SELECT address FROM wallet WHERE id = ?"
FOUND = "SELECT signature, id, digest FROM trade WHERE uid IN"


class StoredTrade(NamedTuple):
    signature: str
    id: int
    digest: str


def trade_uid(address: str, signature: str) -> str:
    """Derive the uid from wallet and signature, so that it survives every rebuild."""
    return "trade_" + hashlib.sha256(f"{address} {signature}".encode()).hexdigest()[:24]


def make_trade_row(wallet: Any, place: int, made: Mapping[Key, Booked]) -> Row:
    columns = _derive_columns(wallet.address, place, made)
    uid = trade_uid(wallet.address, columns["signature"])
    return {"uid": uid, "wallet": wallet.id, **columns, "digest": digest_columns(columns)}


def _derive_columns(address: str, place: int, made: Mapping[Key, Booked]) -> Row:
    """`place` is the place in the slot, `made` the ledger's result."""
    booked = made[WHOLE]
    entry = booked.entry
    currency, priced = find_currency(made)
    return {
        "signature": entry.signature,
        "slot": entry.slot,
        "tx_index": entry.tx_index,
        "place": place,
        "block_time": entry.block_time,
        # A filled order keeps its kind even if a market price makes it count as a sale or purchase.
        "kind": "order_fill" if entry.kind == "order_fill" else priced.side.kind,
        "venue": entry.venue,
        "mint": find_traded_mint(entry, currency),
        "token_changes": to_json([[m, str(c), d] for m, c, d in entry.tokens]),
        "sol_change": entry.sol,
        "fee": entry.fee,
        "tip": entry.tip,
        "rent": entry.rent,
        "currency": currency,
        "realized": priced.status,
        "result": priced.result,
        "proceeds": priced.proceeds,
        "cost": priced.cost,
        "matched_raw": str(priced.matched),
        "unmatched_raw": str(priced.unmatched),
        "lots": to_json([show_lot(address, *lot) for lot in priced.lots]),
        "paid_elsewhere": int(PAID_ELSEWHERE in priced.flags),
        "flags": to_json(booked.flags),
        "beside_sol": entry.beside_sol,
        "beside_tokens": to_json([[m, str(c), d] for m, c, d in entry.beside_tokens]),
        "explained": entry.explained_percent,
        "counterparties": to_json(entry.counterparties),
        "cost_left": booked.cost_left,
    }


def find_currency(made: Mapping[Key, Booked]) -> tuple[str, Booked]:
    """Return (currency, its result): the stablecoin it was paid in, or SOL."""
    for (money, view), booked in made.items():
        if money != SOL and view == ALL_HISTORY and booked.side.kind in AGAINST:
            return money, booked
    return SOL, made[WHOLE]


def find_traded_mint(entry: Entry, currency: str) -> str | None:
    """Return the mint that was traded. If it was paid in a stablecoin, that is the token."""
    if currency == SOL or entry.mint != currency:
        return entry.mint
    sold = (m for m, change, _ in entry.venue_tokens if change < 0 and m not in entry.residues)
    # The tokens that paid for an order's fill already left when the order was opened.
    return next(sold, entry.mint)


def show_lot(address: str, origin: str | None, amount: int, cost: int | None) -> list[str | None]:
    """Return [trade uid or null, raw amount, cost or null]."""
    uid = trade_uid(address, origin) if origin else None
    return [uid, str(amount), show_raw(cost)]


def digest_columns(columns: Row) -> str:
    """Digest the values of DIGESTED, including their types, which disk faults may change."""
    text = orjson.dumps(columns, default=repr, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:24]


def to_json(value: object) -> str:
    return orjson.dumps(value).decode()


def replace_trades(wallet_id: int, rows: dict[str, Row | None]) -> set[str]:
    """Write rows that differ, and delete those that are None. Return the changed signatures."""
    changed = {signature for signature, row in rows.items() if row is None}
    for part in in_parts(row for row in rows.values() if row is not None):
        stored = _read_trades([row["uid"] for row in part])
        differing = [
            row
            for row in part
            if row["signature"] not in stored or stored[row["signature"]].digest != row["digest"]
        ]
        if differing:
            numbers = write_trades(differing, stored)
            _delete_mints([one.id for one in stored.values() if one.signature in numbers])
            _write_mints(wallet_id, [(numbers[row["signature"]], row) for row in differing])
        changed |= {row["signature"] for row in differing}
    for gone in in_parts(sorted(signature for signature, row in rows.items() if row is None)):
        trades = [trade.id for trade in find_trades(wallet_id, gone).values()]
        _delete_mints(trades)
        Trade.delete().where(Trade.id.in_(trades)).execute()
    return changed


def find_trades(wallet_id: int, signatures: Iterable[str]) -> dict[str, StoredTrade]:
    ((address,),) = storage.database.execute_sql(ADDRESS, (wallet_id,)).fetchall()
    found: dict[str, StoredTrade] = {}
    for part in in_parts(trade_uid(address, signature) for signature in signatures):
        found |= _read_trades(part)
    return found


def _read_trades(uids: Sequence[str]) -> dict[str, StoredTrade]:
    rows = storage.database.execute_sql(f"{FOUND} ({storage.mark(uids)})", uids).fetchall()
    return {row.signature: row for row in map(StoredTrade._make, rows)}


# Plain SQL for speed: it runs with each rebuild.
DIGESTS = "SELECT signature, digest FROM trade WHERE wallet_id = ?"


def read_digests(wallet_id: int) -> dict[str, str]:
    return dict(storage.read_rows(DIGESTS, (wallet_id,)))


def _delete_mints(trades: Sequence[int]) -> None:
    if trades:
        sql = f"DELETE FROM trade_mint WHERE trade_id IN ({storage.mark(trades)})"
        storage.database.execute_sql(sql, trades)


def _write_mints(wallet_id: int, numbered: list[tuple[int, Row]]) -> None:
    moved = [(number, *one) for number, row in numbered for one in list_moved(row)]
    numbers = number_mints({mint for _, mint, *_ in moved})
    rows: list[Row] = [
        {
            "trade": number,
            "wallet": wallet_id,
            "mint": numbers[mint],
            "side": side,
            "slot": slot,
            "place": place,
        }
        for number, mint, side, slot, place in moved
    ]
    storage.write_rows(TradeMint, rows)


def number_mints(addresses: set[str]) -> dict[str, int]:
    """Return mint IDs by address. New mints are added."""
    found = _read_numbers(addresses)
    fresh = sorted(addresses - found.keys())
    if fresh:
        storage.write_rows(Mint, ({"address": address} for address in fresh))
        found |= _read_numbers(fresh)
    return found


def _read_numbers(addresses: Iterable[str]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for part in in_parts(addresses):
        sql = f"SELECT address, id FROM mint WHERE address IN ({storage.mark(part)})"
        numbers |= dict(storage.database.execute_sql(sql, part).fetchall())
    return numbers


def list_moved(row: Row) -> list[tuple[str, str | None, int, int]]:
    """Return [(mint, side or None, slot, place), ...]: changes, those outside the venue, own mint.

    Only tokens that passed through the venue of a trade with an explained value count as bought or
    sold. Residues, tokens that a round trip sold back, and stablecoin payments don't.
    """
    whole, beside = orjson.loads(row["token_changes"]), orjson.loads(row["beside_tokens"])
    own, slot, place = row["mint"], row["slot"], row["place"]
    sides = dict[str, str | None].fromkeys(mint for mint, *_ in (*whole, *beside))
    if own:
        sides.setdefault(own, None)
    if row["kind"] in SIDED and UNEXPLAINED not in orjson.loads(row["flags"]):
        for mint, change, _ in list_venue_changes(whole, beside):
            # Another token that increases is a residue, so it doesn't have a price.
            side = "sell" if change < 0 else "buy" if mint == own else None
            sides[mint] = side if mint != row["currency"] else None
    return [(mint, side, slot, place) for mint, side in sides.items()]


# Plain SQL, because a model converts each column of thousands of rows separately.
STORED = f"SELECT id, digest, {', '.join(DIGESTED)} FROM trade WHERE wallet_id = ?"
STORED_MINTS = """
SELECT m.trade_id, n.address, m.side, m.slot, m.place FROM trade_mint m
JOIN trade t ON t.id = m.trade_id LEFT JOIN mint n ON n.id = m.mint_id
WHERE t.wallet_id = ? ORDER BY m.id"""


def mark_differing_trades(wallet_id: int) -> int:
    """Mark rows that don't match their digest to be rewritten. Return their number."""
    mints = defaultdict(list)
    for number, *moved in storage.database.execute_sql(STORED_MINTS, (wallet_id,)):
        mints[number].append(tuple(moved))
    marked = []
    for number, digest, *values in storage.database.execute_sql(STORED, (wallet_id,)):
        row = dict(zip(DIGESTED, values, strict=True))
        if digest != digest_columns(row) or mints[number] != list_moved(row):
            marked.append(number)
    with storage.writing():
        for number in marked:
            Trade.update(digest="").where(Trade.id == number).execute()
    return len(marked)


def write_trades(rows: Sequence[Row], known: Collection[str] = ()) -> dict[str, int]:
    """Insert or update trades, and return {signature: id}. Those not in `known` get arrivals."""
    written = storage.write_rows(Trade, rows, ("uid",), ("signature", "id"))
    ids: dict[str, int] = dict(written)
    fresh = [row["signature"] for row in rows if row["signature"] not in known]
    store_trade_arrivals([ids[signature] for signature in fresh])
    return ids


# ---- whether a trade proves a post ---------------------------------------------------------------
# (status, reason) of a transaction by a wallet that wasn't the bot's at the time.
OTHER_WALLET = ("mismatch", "other_wallet")
# (status, reason, ...) of a post, judged by one of the trades it may cite.
Judgment = TypeVar("Judgment", bound=tuple[Any, ...])
VERIFIED_KINDS = frozenset(("buy", "sell", "swap", "round_trip", "order_fill"))


def judge(
    kind: str,
    flags: Collection[str],
    mints: Collection[str],
    post_mint: str | None,
    explained_percent: int | None,
) -> tuple[str, str | None]:
    """Return (status, reason) of a post that cites a trade.

    `verified` has no reason. `mismatch` has failed | not_a_trade | mint_not_in_trade. `none`, which
    neither verifies nor contradicts the post, has ambiguous | value_unexplained. An order's fill
    counts only if the wallet received something. `mints` are the tokens that the trade moved.
    `explained_percent` is as in an Entry.
    """
    if kind == "failed":
        return "mismatch", "failed"
    if "ambiguous" in flags:
        return "none", "ambiguous"
    if kind not in VERIFIED_KINDS or (kind == "order_fill" and explained_percent is None):
        return "mismatch", "not_a_trade"
    if "value_unexplained" in flags:
        return "none", "value_unexplained"
    if post_mint is not None and post_mint not in mints:
        return "mismatch", "mint_not_in_trade"
    return "verified", None


def choose(judged: Sequence[Judgment]) -> Judgment | None:
    """Return the first judgment that verifies a post, or else the first one.

    There may be several, because several of a bot's wallets may take part in one transaction.
    """
    return next((one for one in judged if one[0] == "verified"), judged[0] if judged else None)


def list_moved_mints(
    kind: str,
    mint: str | None,
    token_changes: Iterable[Sequence[Any]],
    beside_tokens: Iterable[Sequence[Any]],
) -> set[str]:
    """Return the tokens that passed through the venue.

    Rows are (mint, raw change, decimals). An order that sells for SOL or a stablecoin gave up its
    token when it was opened.
    """
    whole, beside = list(token_changes), list(beside_tokens)
    mints = {change.mint for change in list_venue_changes(whole, beside)}
    is_sold = kind == "order_fill" and all(mint != row[0] for row in (*whole, *beside))
    is_named = kind == "round_trip" or is_sold
    return mints | {mint} if mint and is_named else mints
