"""From stored entries to what readers see: trades, results, positions, coverage. No network here.

A rebuild writes only the rows that differ, in one short transaction, so that the order in which
receipts arrived leaves no trace.
"""

import datetime
import hashlib
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any

import orjson
from peewee import chunked

import storage
from chain.amounts import sol
from chain.coverage import Progress, decide_state, order_entries
from chain.entries import READING, Entry
from chain.kinds import TRADES
from chain.ledger import Ledger
from chain.lots import Booked, Opening
from chain.trade_store import store_trades
from models import (
    Address,
    HourTotal,
    Trade,
    TradeMint,
    Wallet,
    WalletSignature,
)

# A row of the trade table, by column.
Row = dict[str, Any]
FollowUp = Callable[[Wallet, set[str], int], None]
DIGESTED = sorted(Trade._meta.fields.keys() - {"id", "uid", "wallet", "digest"})


@dataclass
class PendingLedger:
    """A folded book and what is not written yet. Each signature and each hour has one fate: it is
    written, or (None) dropped.
    """

    ledger: Ledger
    # signature -> trade row, or None for a stored one that the book no longer has
    rows: dict[str, Row | None] = field(default_factory=dict)
    # hour -> running totals at its end, or None likewise
    hours: dict[int, tuple[int, ...] | None] = field(default_factory=dict)
    first_time: int | None = None
    last_time: int | None = None
    hour: int = 0
    place: tuple[int | None, int] = (None, 0)


class LedgerStore:
    """The ledgers of all wallets, in memory: what arrives at the head costs only itself. Of what
    is stored as it should be, nothing is kept.
    """

    def __init__(self, follow_up: FollowUp | None = None) -> None:
        """`follow_up(wallet, changed signatures, now)` runs in the transaction of each publish."""
        self._pending, self._follow_up = {}, follow_up

    def forget(self, wallet_id: int) -> None:
        self._pending.pop(wallet_id, None)

    def apply(self, wallet: Wallet, new: Sequence[Entry] = ()) -> Ledger:
        """The Ledger of a wallet with these new entries; rebuilt from the start where one is not
        newer than all before.
        """
        pending = self._pending.get(wallet.id)
        if (
            pending is None
            or pending.ledger.backfilled != wallet.whole
            or not _extends(pending.ledger, new)
        ):
            pending = self._pending[wallet.id] = PendingLedger(
                Ledger(backfilled=wallet.whole, untouched=read_untouched(wallet.id))
            )
            _rebuild(wallet, pending)
        else:
            for entry in order_entries(new, pending.ledger.seen):
                pending.rows[entry.signature] = apply_entry(wallet, pending, entry)
        if pending.ledger.stale:
            pending = self._pending[wallet.id] = PendingLedger(pending.ledger.restart())
            _rebuild(wallet, pending)
        return pending.ledger

    def last_time(self, wallet_id: int) -> int | None:
        """Block time of the newest receipt in the ledger of a wallet, or None."""
        pending = self._pending.get(wallet_id)
        return pending and pending.last_time

    def publish(self, wallet: Wallet, progress: Progress | None, now: int) -> None:
        """Write what follows from the ledger: trades, the wallet's derived columns and what
        `follow_up` makes of them, in one transaction.

        `progress`: chain.coverage.Progress; None leaves the coverage as it was said last (nothing
        was looked at).
        """
        pending = self._pending[wallet.id]
        with storage.writing():
            changed = replace_trades(wallet.id, pending.rows)
            replace_hours(wallet.id, pending.hours)
            _replace_summary(wallet, pending, progress)
            if self._follow_up:
                self._follow_up(wallet, changed, now)
        pending.rows, pending.hours = {}, {}


def _extends(ledger: Ledger, new: Iterable[Entry]) -> bool:
    return all(ledger.last_slot is None or entry.slot > ledger.last_slot for entry in new)


def _rebuild(wallet: Wallet, pending: PendingLedger) -> None:
    """Apply all stored entries slot by slot, so that a long past is never held in memory."""
    stored = dict(
        Trade.select(Trade.signature, Trade.digest).where(Trade.wallet == wallet.id).tuples()
    )
    for _, group in groupby(list_entries(wallet.id), key=attrgetter("slot")):
        for row in [
            apply_entry(wallet, pending, entry)
            for entry in order_entries(group, pending.ledger.seen)
        ]:
            if stored.pop(row["signature"], None) != row["digest"]:
                pending.rows[row["signature"]] = row
    pending.rows |= dict.fromkeys(stored)
    hours = read_hours(wallet.id)
    pending.hours = {
        hour: pending.hours.get(hour)
        for hour in pending.hours.keys() | hours.keys()
        if hours.get(hour) != pending.hours.get(hour)
    }


def apply_entry(wallet: Wallet, pending: PendingLedger, entry: Entry) -> Row:
    """Book an entry: its trade row."""
    slot, count = pending.place
    pending.place = (entry.slot, count + 1 if slot == entry.slot else 0)
    if entry.block_time is not None:
        pending.first_time = entry.block_time if pending.first_time is None else pending.first_time
        pending.last_time, pending.hour = (
            entry.block_time,
            max(pending.hour, entry.block_time // 3600),
        )
    row = _trade_row(
        wallet,
        pending.place[1] if entry.tx_index is None else entry.tx_index,
        pending.ledger.apply(entry),
    )
    pending.hours[pending.hour] = read_running(pending.ledger.totals)
    return row


def read_untouched(wallet_id: int) -> Any:
    """{address: Opening} of accounts that hold something and that no known receipt touched."""
    rows = Address.select(
        Address.address, Address.held_mint, Address.held_amount, Address.held_decimals
    ).where(Address.wallet == wallet_id, Address.held_amount.is_null(False))
    return {row.address: open_untouched(row) for row in rows.namedtuples()}


def open_untouched(row: Any) -> Opening:
    """The Opening of a row of `address` that tells what the node says it holds."""
    return Opening.untouched(row.address, row.held_mint, int(row.held_amount), row.held_decimals)


def list_entries(wallet_id: int) -> Iterator[Entry]:
    """All stored entries of a wallet by slot, one after another."""
    rows = (
        WalletSignature.select(WalletSignature.entry, WalletSignature.tx_index)
        .where(WalletSignature.wallet == wallet_id, WalletSignature.state == "stored")
        .order_by(WalletSignature.slot)
        .tuples()
    )
    for text, tx_index in rows.iterator():
        yield Entry.load(text, tx_index)


def name_rules(programs: object) -> str:
    """Names the rules by which entries are read: where they change, entries are read anew."""
    return hashlib.sha256(f"{READING} {programs!r}".encode()).hexdigest()[:16]


def trade_uid(address: str, signature: str) -> str:
    """The public id of a trade: from wallet and signature, so that it survives every rebuild."""
    return "trade_" + hashlib.sha256(f"{address} {signature}".encode()).hexdigest()[:24]


# ---- trades --------------------------------------------------------------------------------------
def _trade_row(wallet: Wallet, place: int, booked: Booked) -> Row:
    entry = booked.entry
    lots = [
        [
            trade_uid(wallet.address, origin) if origin else None,
            str(amount),
            None if cost is None else str(cost),
        ]
        for origin, amount, cost in booked.lots
    ]
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
        "lots": to_json(lots),
        "flags": to_json(booked.flags),
    }
    return {
        "uid": trade_uid(wallet.address, entry.signature),
        "wallet": wallet.id,
        **row,
        "digest": digest_trade(row),
    }


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
        stored = dict(Trade.select(Trade.signature, Trade.digest).where(mine).tuples())
        differing = [row for row in part if stored.get(row["signature"]) != row["digest"]]
        if differing:
            numbers = store_trades(differing)
            _replace_mints(wallet_id, [(numbers[row["signature"]], row) for row in differing])
        changed |= {row["signature"] for row in differing}
    for part in chunked(
        sorted(signature for signature, row in rows.items() if row is None),
        storage.ROWS_A_STATEMENT,
    ):
        Trade.delete().where(Trade.wallet == wallet_id, Trade.signature.in_(part)).execute()
    return changed


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
    """[(mint, side or None, slot, place), ...] of a trade row, in the order of its changes."""
    changes = [(mint, int(change)) for mint, change, _ in orjson.loads(row["token_changes"])]
    return [
        (
            mint,
            ("buy" if change > 0 else "sell") if row["kind"] in TRADES else None,
            row["slot"],
            row["place"],
        )
        for mint, change in changes
    ]


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


# ---- running totals ------------------------------------------------------------------------------
RUNNING = ("realized", "volume", "trades", "matched", "partial", "unmatched", "winning")
# of chain.ledger.Totals
read_running = attrgetter(*RUNNING)


def read_hours(wallet_id: int) -> dict[int, tuple[int, ...]]:
    """The stored ones of a wallet: {hour: totals}."""
    rows = (
        HourTotal.select(HourTotal.hour, *(getattr(HourTotal, name) for name in RUNNING))
        .where(HourTotal.wallet == wallet_id)
        .tuples()
    )
    return {hour: tuple(totals) for hour, *totals in rows.iterator()}


def replace_hours(wallet_id: int, hours: dict[int, tuple[int, ...] | None]) -> None:
    """Write the running totals {hour: totals}, and drop those that are None."""
    rows = [
        {"wallet": wallet_id, "hour": hour, **dict(zip(RUNNING, totals, strict=True))}
        for hour, totals in hours.items()
        if totals is not None
    ]
    for part in chunked(rows, storage.ROWS_A_STATEMENT):
        HourTotal.insert_many(part).on_conflict(
            conflict_target=[HourTotal.wallet, HourTotal.hour],
            preserve=[getattr(HourTotal, name) for name in RUNNING],
        ).execute()
    for part in chunked(
        sorted(hour for hour, totals in hours.items() if totals is None), storage.ROWS_A_STATEMENT
    ):
        HourTotal.delete().where(HourTotal.wallet == wallet_id, HourTotal.hour.in_(part)).execute()


# ---- the wallet's summary ------------------------------------------------------------------------
def _replace_summary(wallet: Wallet, pending: PendingLedger, progress: Progress | None) -> None:
    last = (
        Trade.select(Trade.block_time)
        .where(Trade.wallet == wallet.id, Trade.kind.in_(sorted(TRADES)))
        .order_by(Trade.slot.desc())
        .limit(1)
        .scalar()
    )
    values = {
        "results": to_json(show_results(pending.ledger)),
        "positions": to_json(show_positions(pending.ledger)),
        "realized": pending.ledger.totals.realized,
        "last_trade_at": None if last is None else last * 1000,
        "observed_to": wallet.observed_to,
    }
    if progress is not None:
        values |= {
            "coverage": to_json(show_coverage(wallet, pending, progress)),
            "looked_at": wallet.looked_at,
        }
    Wallet.update(**values).where(Wallet.id == wallet.id).execute()


def show_coverage(wallet: Wallet, pending: PendingLedger, progress: Progress) -> dict[str, Any]:
    """The Coverage object of contract.md section 3."""
    ledger = pending.ledger
    state, gaps, note = decide_state(ledger, progress)
    observed_to = max(
        (t for t in (wallet.observed_to, pending.last_time) if t is not None), default=None
    )
    return {
        "state": state,
        "observedFrom": show_time(pending.first_time),
        "observedTo": show_time(observed_to),
        "firstSlot": ledger.first_slot,
        "lastSlot": ledger.last_slot,
        "checkedAt": show_time(wallet.looked_at and wallet.looked_at // 1000),
        "receipts": ledger.count,
        "pending": progress.pending,
        "gaps": [{"fromSlot": g.from_slot, "toSlot": g.to_slot, "reason": g.reason} for g in gaps],
        "openingInventoryUnknown": sorted(ledger.openings),
        "note": note,
    }


def show_results(ledger: Ledger) -> dict[str, Any]:
    """The results object of a Bot: amounts in lamports as text, beside exact SOL."""
    t = ledger.totals
    return {
        "realizedLamports": str(t.realized),
        "realizedSol": sol(t.realized),
        "matchedSells": t.matched,
        "partialSells": t.partial,
        "unmatchedSells": t.unmatched,
        "winningSells": t.winning,
        "volumeLamports": str(t.volume),
        "volumeSol": sol(t.volume),
        "observedTrades": t.trades,
        "failedTransactions": t.failed,
        "failedCostLamports": str(t.failed_cost),
        "overheadLamports": str(t.overhead),
        "openPositions": len(ledger.positions()),
    }


def show_positions(ledger: Ledger) -> list[dict[str, Any]]:
    """[{mint, amountRaw, decimals, costLamports or null, unknownBasisRaw}, ...]"""
    return [
        {
            "mint": mint,
            "amountRaw": str(amount),
            "decimals": decimals,
            "costLamports": None if cost is None else str(cost),
            "unknownBasisRaw": str(unknown),
        }
        for mint, amount, decimals, cost, unknown in ledger.positions()
    ]


def show_time(seconds: int | None) -> str | None:
    return (
        None
        if seconds is None
        else datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    )


# ---- receipts ------------------------------------------------------------------------------------
def pack(raw: object) -> bytes:
    """A receipt as it is stored: the node's JSON, compressed."""
    return zlib.compress(orjson.dumps(raw), 6)


def unpack(body: bytes) -> Any:
    return orjson.loads(zlib.decompress(body))
