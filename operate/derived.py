"""Rebuild a wallet's ledger from its stored transactions and compare it with the stored rows."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import orjson

from chain.ledger.views import Holdings
from chain.reading.entries import Entry
from chain.reading.kinds import TRADES
from chain.stored import store
from chain.stored.attachments import HOLDINGS
from chain.stored.siblings import mark_entries, read_shared, read_siblings
from chain.stored.summary import UNREADABLE, read_coverage
from chain.stored.trades import (
    DIGESTED,
    Traded,
    digest_trade,
    list_moved,
    trade_uid,
)
from chain.stored.verify import list_moved_mints
from models import Trade
from operate.differences import Difference, compare_rows
from operate.readers import Reader

ENTRIES = """
SELECT signature, slot, tx_index, entry, seen_at FROM sighting
WHERE wallet_id = {wallet} AND state = 'stored' AND entry IS NOT NULL ORDER BY slot"""
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
    ledger = store.begin_ledger(reader.rows, wallet.id, _was_backfilled(wallet))

    def make(pending: store.PendingLedger, booked: Iterable[store.BookedEntry]) -> Rebuilt:
        rebuilt = Rebuilt(pending)
        for one in booked:
            row, entry = one.make_row(wallet), one.entry
            rebuilt.digests[entry.signature] = row["digest"]
            if entry.signature in wanted:
                rebuilt.rows[entry.signature] = row
            if entry.kind in TRADES:
                rebuilt.last_trade_at = entry.block_time and entry.block_time * 1000
        return rebuilt

    return store.rebuild_ledger(ledger, lambda: _list_entries(reader, wallet.id, reread), make)


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


def _list_entries(reader: Reader, number: int, reread: dict[str, Entry]) -> Iterator[Entry]:
    siblings = read_siblings(reader.rows, number)
    shared = read_shared(reader.rows, number, siblings)
    yield from mark_entries(_list_own(reader, number, reread), siblings, shared)


def _list_own(reader: Reader, number: int, reread: dict[str, Entry]) -> Iterator[Entry]:
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
    traded: set[Traded] = set()
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
        digest = digest_trade(row)
        if digest != rebuilt.digests[signature]:
            differing[signature] = row
        elif row["digest"] != digest:
            yield Difference("trade", "is not that of the row", wallet.address, signature, "digest")
        if row["uid"] != trade_uid(wallet.address, signature):
            yield Difference("trade", f"is {row['uid']}", wallet.address, signature, "uid")
        yield from _check_moved(wallet, row, mints.pop(row["id"], []), traded)
        if signature in signed:
            trades[signature] = make_named(*(row[name] for name in NAMED))
    for signature in sorted(missing):
        yield Difference("trade", "is missing", wallet.address, signature)
    yield from _check_traded(reader, wallet, traded)
    yield from _name_fields(reader, wallet, rebuilt, reread, differing)


# The columns of a trade that make_named takes.
NAMED = ("id", "kind", "flags", "mint", "token_changes", "beside_tokens", "explained", "block_time")


def make_named(
    number: int,
    kind: str,
    flags: str,
    mint: str | None,
    token_changes: str,
    beside_tokens: str,
    explained: int | None,
    block_time: int | None,
) -> NamedTrade:
    """Make the NamedTrade of the stored columns NAMED."""
    changes, beside = orjson.loads(token_changes), orjson.loads(beside_tokens)
    mints = list_moved_mints(kind, mint, changes, beside)
    return NamedTrade(number, kind, orjson.loads(flags), mints, explained, block_time)


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
    traded: set[Traded],
) -> Iterator[Difference]:
    """Compare which tokens a trade moved; what it bought and sold is put into `traded`."""
    right = [(wallet.id, *one) for one in list_moved(row)]
    traded |= {Traded(mint, side) for _, mint, side, *_ in right if side}
    if stored != right:
        yield Difference(
            "trade_mint",
            f"{len(stored)} rows are not the {len(right)} of the trade",
            wallet.address,
            row["signature"],
        )


def _check_traded(reader: Reader, wallet: Any, traded: set[Traded]) -> Iterator[Difference]:
    sql = f"SELECT mint, side FROM token_trader WHERE wallet_id = {wallet.id}"
    for one in sorted(set(map(Traded._make, reader.rows(sql))) ^ traded):
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
    names = [name for name in DIGESTED if name != "signature"]
    for signature, stored in differing.items():
        right = rows.get(signature)
        if right is None:
            yield Difference("trade", "differs", wallet.address, signature)
            continue
        found = compare_rows(
            "trade",
            wallet.address,
            names,
            {(): [stored[name] for name in names]},
            {(): [right[name] for name in names]},
        )
        for one in found:
            yield replace(one, signature=signature)


def check_rows(reader: Reader, wallet: Any, rebuilt: Rebuilt) -> Iterator[Difference]:
    """Compare the derived tables, which are empty before the wallet's first publication."""
    ledger = rebuilt.pending.ledger
    for one, made in rebuilt.pending.derived.take(ledger).items():
        right = {key: values for key, values in made.items() if values is not None}
        stored = dict(one.read(reader.rows(one.select.format(wallet=wallet.id))))
        yield from compare_rows(one.name, wallet.address, one.columns, stored, right)
    if wallet.coverage is None and not ledger.chain.count:
        return
    held = {(number,): one for number, one in ledger.find_holdings().items()}
    rows = reader.rows(HOLDINGS.format(wallet=wallet.id))
    attached = {(number,): values for number, *values in rows}
    yield from compare_rows("attachment", wallet.address, Holdings._fields, attached, held)


def check_summary(wallet: Any, rebuilt: Rebuilt) -> Iterator[Difference]:
    """Compare the wallet's derived columns, which are empty before its first publication."""
    ledger = rebuilt.pending.ledger
    if wallet.coverage is None and not ledger.chain.count:
        return
    right = {**store.show_summary(ledger), "last_trade_at": rebuilt.last_trade_at}
    stored = [getattr(wallet, name) for name in right]
    yield from compare_rows(
        "wallet", wallet.address, list(right), {(): stored}, {(): list(right.values())}
    )
    if right["imbalance"]:
        what = f"the books do not close: {right['imbalance']} lamports are left over"
        yield Difference("wallet", what, wallet.address, field="reconciliation")
    for money, left_over in ledger.find_imbalances().items():
        what = f"the books in {money} do not close: {left_over} raw units are left over"
        yield Difference("wallet", what, wallet.address, field="by_quote")
    said = read_coverage(wallet.coverage)
    yield from _check_coverage(wallet, {name: said[name] for name in TOLD}, rebuilt)


def _check_coverage(wallet: Any, told: dict[str, Any], rebuilt: Rebuilt) -> Iterator[Difference]:
    """Compare the coverage with what the ledger knows; whether the node agreed it cannot know."""
    right = store.show_extent(rebuilt.pending)
    names = [f"coverage.{name}" for name in right]
    stored, right_values = [told[name] for name in right], list(right.values())
    yield from compare_rows("wallet", wallet.address, names, {(): stored}, {(): right_values})
    yield from _check_state(wallet, told, rebuilt)


def _check_state(wallet: Any, told: dict[str, Any], rebuilt: Rebuilt) -> Iterator[Difference]:
    """Compare the state and the gaps of the coverage with the rebuilt ledger."""
    ledger = rebuilt.pending.ledger
    if told["state"] == "complete" and (ledger.chain.gaps or ledger.chain.opened or told["gaps"]):
        yield Difference(
            "wallet",
            "says complete, a fresh rebuild has gaps or begins late",
            wallet.address,
            field="coverage.state",
        )
    said = {(gap["fromSlot"], gap["toSlot"], gap["reason"]) for gap in told["gaps"]}
    if (
        told["state"] == "partial"
        and not {(gap.from_slot, gap.to_slot, gap.reason) for gap in ledger.chain.gaps} <= said
    ):
        yield Difference(
            "wallet", "lacks gaps that a fresh rebuild finds", wallet.address, field="coverage.gaps"
        )
