"""Rebuild a wallet's ledger from its stored transactions and compare it with the stored rows."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from chain.ledger.coverage import order_entries
from chain.ledger.ledger import Ledger
from chain.ledger.lots import Opening
from chain.reading.entries import Entry
from chain.reading.kinds import TRADES
from chain.stored import store, trade_store
from chain.stored.group_reading import ENTRIES
from chain.stored.summary import UNREADABLE, read_coverage, show_time
from chain.stored.totals import TOTALS, load_totals
from chain.stored.verify import list_moved_mints
from models import Trade
from operate.differences import Difference
from operate.forward_checks import read_forward
from operate.readers import Reader

# So many differing trades of a wallet are reported field by field.
MAX_NAMED = 50
# What is compared of a wallet's coverage.
TOLD = (
    *("state", "receipts", "firstSlot", "lastSlot"),
    *("observedFrom", "openingInventoryUnknown", "gaps"),
)


@dataclass
class Rebuilt:
    """A wallet's rebuilt ledger.

    `digests`: signature -> digest of its trade row; `rows`: the trade rows that were wanted.
    """

    pending: store.PendingLedger
    digests: dict[str, str] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    last_trade_at: int | None = None


class NamedTrade(NamedTuple):
    """A trade that a post names: what verifying the post needs of it."""

    id: int
    kind: str
    flags: list[str]
    mints: set[str]
    explained: int | None
    block_time: int | None


def rebuild(
    reader: Reader, wallet: Any, reread: dict[str, Entry], wanted: frozenset[str] = frozenset()
) -> Rebuilt:
    """Rebuild the wallet's ledger from its first transaction.

    `reread`: entries that replace the stored ones, by signature. Only a digest of each trade is
    kept in memory, and the rows of the signatures in `wanted`.
    """
    ledger = Ledger(_was_backfilled(wallet), untouched=_read_untouched(reader, wallet.id))
    rebuilt = _rebuild_once(reader, wallet, ledger, reread, wanted)
    return (
        _rebuild_once(reader, wallet, rebuilt.pending.ledger.restart(), reread, wanted)
        if rebuilt.pending.is_stale
        else rebuilt
    )


def _was_backfilled(wallet: Any) -> bool:
    """Was the history listed to its end when the wallet was published last? It is listed in one
    transaction and published in a later one.
    """
    if not wallet.backfilled or wallet.reconciliation is not None:
        return bool(wallet.backfilled)
    return bool(read_coverage(wallet.coverage)["state"] != "backfilling")


def count_unpublished(wallet: Any, count: int) -> int:
    """Return how many of these stored receipts were not published yet, for want of time or of a
    server.
    """
    said = read_coverage(wallet.coverage)
    return 0 if said is UNREADABLE else max(0, count - said["receipts"])


def _rebuild_once(
    reader: Reader, wallet: Any, ledger: Any, reread: dict[str, Entry], wanted: frozenset[str]
) -> Rebuilt:
    rebuilt = Rebuilt(store.PendingLedger(ledger, read_forward(reader, wallet.id)))
    for _, group in groupby(_list_entries(reader, wallet.id, reread), key=attrgetter("slot")):
        for entry in order_entries(group, ledger.seen):
            row = store.apply_entry(wallet, rebuilt.pending, entry)
            rebuilt.digests[entry.signature] = row["digest"]
            if entry.signature in wanted:
                rebuilt.rows[entry.signature] = row
            if entry.kind in TRADES:
                rebuilt.last_trade_at = (
                    None if entry.block_time is None else entry.block_time * 1000
                )
    return rebuilt


def _read_untouched(reader: Reader, number: int) -> dict[str, Opening]:
    """The balances of accounts that no transaction touched, by address."""
    rows = map(store.Untouched._make, reader.rows(store.UNTOUCHED.format(wallet=number)))
    return {row.address: store.open_untouched(row) for row in rows}


def _list_entries(reader: Reader, number: int, reread: dict[str, Entry]) -> Iterator[Entry]:
    rows = reader.rows(ENTRIES.format(wallet=number))
    for signature, slot, tx_index, body, seen_at in rows:
        if signature in reread:
            yield reread[signature]._replace(seen_at=seen_at)
        else:
            yield Entry.load(signature, slot, tx_index, body, seen_at)


def check_trades(
    reader: Reader,
    wallet: Any,
    rebuilt: Rebuilt,
    reread: dict[str, Entry],
    signed: set[str],
    trades: dict[str, NamedTrade],
) -> Iterator[Difference]:
    """Compare the trade rows with the rebuilt ledger; trades in `signed` are put into `trades`."""
    mints = _list_moved(reader, wallet.id)
    traded: set[trade_store.Traded] = set()
    differing: dict[str, dict[str, Any]] = {}
    missing = set(rebuilt.digests)
    names = list(Trade._meta.fields)
    columns = ", ".join(f'"{one.column_name}"' for one in Trade._meta.fields.values())
    sql = f"SELECT {columns} FROM trade WHERE wallet_id = {wallet.id} ORDER BY id"
    for values in reader.rows(sql):
        row = dict(zip(names, values, strict=True))
        signature = row["signature"]
        missing.discard(signature)
        if signature not in rebuilt.digests:
            yield Difference("trade", "no stored receipt makes it", wallet.address, signature)
            continue
        digest = trade_store.digest_trade(row)
        if digest != rebuilt.digests[signature]:
            differing[signature] = row
        elif row["digest"] != digest:
            yield Difference("trade", "is not that of the row", wallet.address, signature, "digest")
        if row["uid"] != trade_store.trade_uid(wallet.address, signature):
            yield Difference("trade", f"is {row['uid']}", wallet.address, signature, "uid")
        yield from _check_moved(wallet, row, mints.pop(row["id"], []), traded)
        if signature in signed:
            trades[signature] = _read_trade(row)
    for signature in sorted(missing):
        yield Difference("trade", "is missing", wallet.address, signature)
    yield from _check_traded(reader, wallet, traded)
    yield from _name_fields(reader, wallet, rebuilt, reread, differing)


def _read_trade(row: dict[str, Any]) -> NamedTrade:
    return NamedTrade(
        row["id"],
        row["kind"],
        orjson.loads(row["flags"]),
        list_moved_mints(
            row["kind"],
            row["mint"],
            orjson.loads(row["token_changes"]),
            orjson.loads(row["beside_tokens"]),
        ),
        row["explained"],
        row["block_time"],
    )


def _list_moved(reader: Reader, number: int) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    sql = (
        "SELECT m.trade_id, m.wallet_id, n.address, m.side, m.slot, m.place FROM trade_mint m"
        " JOIN trade t ON t.id = m.trade_id LEFT JOIN mint n ON n.id = m.mint_id"
        f" WHERE t.wallet_id = {number} ORDER BY m.id"
    )
    for trade, *rest in reader.rows(sql):
        found[trade].append(tuple(rest))
    return found


def _check_moved(
    wallet: Any,
    row: dict[str, Any],
    stored: list[tuple[Any, ...]],
    traded: set[trade_store.Traded],
) -> Iterator[Difference]:
    """Compare which tokens a trade moved; what it bought and sold is put into `traded`."""
    right = [(wallet.id, *one) for one in trade_store.list_moved(row)]
    traded |= {trade_store.Traded(mint, side) for _, mint, side, *_ in right if side}
    if stored != right:
        yield Difference(
            "trade_mint",
            f"{len(stored)} rows are not the {len(right)} of the trade",
            wallet.address,
            row["signature"],
        )


def _check_traded(
    reader: Reader, wallet: Any, traded: set[trade_store.Traded]
) -> Iterator[Difference]:
    sql = f"SELECT mint, side FROM token_trader WHERE wallet_id = {wallet.id}"
    for one in sorted(set(map(trade_store.Traded._make, reader.rows(sql))) ^ traded):
        what = "is missing" if one in traded else "no trade of the wallet makes it"
        yield Difference("token_trader", what, wallet.address, field=f"{one.side} {one.mint}")


def _name_fields(
    reader: Reader,
    wallet: Any,
    rebuilt: Rebuilt,
    reread: dict[str, Entry],
    differing: dict[str, dict[str, Any]],
) -> Iterator[Difference]:
    """Report the fields of differing trades, for which a second rebuild keeps their rows, where
    they were not kept.
    """
    wanted = frozenset(sorted(differing)[:MAX_NAMED])
    rows = rebuilt.rows or (rebuild(reader, wallet, reread, wanted).rows if wanted else {})
    for signature, stored in differing.items():
        if signature not in rows:
            yield Difference("trade", "differs", wallet.address, signature)
        for name, right in rows.get(signature, {}).items():
            if name not in ("uid", "wallet", "digest") and stored[name] != right:
                yield Difference(
                    "trade",
                    f"is {stored[name]!r:.80}, a fresh rebuild says {right!r:.80}",
                    wallet.address,
                    signature,
                    name,
                )


def check_totals(reader: Reader, wallet: Any, rebuilt: Rebuilt) -> Iterator[Difference]:
    """Compare the wallet's running totals with the rebuilt ones."""
    stored = dict(load_totals(reader.rows(TOTALS.format(wallet=wallet.id))))
    right = rebuilt.pending.totals.rows
    for key in sorted(stored.keys() | right.keys()):
        if stored.get(key) != right.get(key):
            yield Difference(
                "running_total",
                f"is {stored.get(key)}, a fresh rebuild says {right.get(key)}",
                wallet.address,
                field=str(key),
            )


def check_summary(wallet: Any, rebuilt: Rebuilt) -> Iterator[Difference]:
    """Compare the wallet's derived columns, which are empty before its first publication."""
    ledger = rebuilt.pending.ledger
    if wallet.coverage is None and not ledger.count:
        return
    right = {
        **store.show_summary(ledger),
        "last_trade_at": rebuilt.last_trade_at,
        "forward_realized": rebuilt.pending.forward.sum_realized(),
        **store.show_quote_columns(rebuilt.pending.quotes),
    }
    for name, value in right.items():
        if getattr(wallet, name) != value:
            yield Difference(
                "wallet",
                f"is {getattr(wallet, name)!r:.200}, a fresh rebuild says {value!r:.200}",
                wallet.address,
                field=name,
            )
    if right["imbalance"]:
        what = f"the books do not close: {right['imbalance']} lamports are left over"
        yield Difference("wallet", what, wallet.address, field="reconciliation")
    said = read_coverage(wallet.coverage)
    yield from _check_coverage(wallet, {name: said[name] for name in TOLD}, rebuilt)


def _check_coverage(wallet: Any, told: dict[str, Any], rebuilt: Rebuilt) -> Iterator[Difference]:
    """Compare the coverage with what the ledger knows; whether the node agreed it cannot know."""
    ledger = rebuilt.pending.ledger
    right = {
        "receipts": ledger.count,
        "firstSlot": ledger.first_slot,
        "lastSlot": ledger.last_slot,
        "observedFrom": show_time(rebuilt.pending.first_time),
        "openingInventoryUnknown": sorted(ledger.openings),
    }
    for name, value in right.items():
        if told[name] != value:
            yield Difference(
                "wallet",
                f"is {told[name]!r:.80}, a fresh rebuild says {value!r:.80}",
                wallet.address,
                field=f"coverage.{name}",
            )
    yield from _check_state(wallet, told, rebuilt)


def _check_state(wallet: Any, told: dict[str, Any], rebuilt: Rebuilt) -> Iterator[Difference]:
    """Compare the state and the gaps of the coverage with the rebuilt ledger."""
    ledger = rebuilt.pending.ledger
    if told["state"] not in ("none", "backfilling", "partial", "complete"):
        yield Difference(
            "wallet", f"is {told['state']!r:.40}", wallet.address, field="coverage.state"
        )
    if told["state"] == "complete" and (ledger.gaps or ledger.opened or told["gaps"]):
        yield Difference(
            "wallet",
            "says complete, a fresh rebuild has gaps or begins late",
            wallet.address,
            field="coverage.state",
        )
    said = {(gap["fromSlot"], gap["toSlot"], gap["reason"]) for gap in told["gaps"]}
    if (
        told["state"] == "partial"
        and not {(gap.from_slot, gap.to_slot, gap.reason) for gap in ledger.gaps} <= said
    ):
        yield Difference(
            "wallet", "lacks gaps that a fresh rebuild finds", wallet.address, field="coverage.gaps"
        )
