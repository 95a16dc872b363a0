"""Compare the stored books of a bot with several wallets with rebuilt ones."""

from collections.abc import Iterator
from typing import Any

import orjson

from chain import store
from chain.group_book import Family, Member, PendingGroup
from chain.group_reading import fold_family
from chain.kinds import TRADES
from chain.programs import Programs
from operate.derived import NamedTrade, Rebuilt, check_hours, check_trades
from operate.differences import UNREADABLE, Difference
from operate.forward_checks import check_forward, check_risk
from operate.judged import check_posts
from operate.readers import Reader

STAYS = "SELECT carried_in, open_cost FROM companion WHERE id = {stay}"
MEMBERS = "SELECT id, address FROM wallet WHERE id IN ({wallets}) ORDER BY id"
SIGNED = "SELECT signature FROM post WHERE signature IS NOT NULL"
EMPTY = ("results", "positions", "last_trade_at", "realized", "cost_left", "reconciliation")


def check_family(
    reader: Reader, wallet: Any, family: Family, programs: Programs
) -> Iterator[Difference]:
    """Differences in what stands under a wallet that leads others, or stands beside one."""
    try:
        pending = fold_family(reader.rows, family, programs)
    except UNREADABLE:
        # What is unreadable is reported where it stands.
        return
    waiting = _count_waiting(wallet, pending)
    if waiting:
        what = f"{waiting} stored receipts are not in its books yet: the next poll applies them"
        yield Difference("wallet", what, wallet.address, level="look")
        return
    if wallet.coverage is None:
        return
    rebuilt = Rebuilt(pending)
    for member in sorted(family.members):
        yield from _check_member(reader, family, pending, member)
    yield from check_hours(reader, wallet, rebuilt)
    yield from check_forward(reader, wallet, pending)
    yield from _check_stays(reader, wallet, pending)
    yield from check_risk(reader, wallet, pending)
    yield from _check_summary(wallet, pending)


def _count_waiting(wallet: Any, pending: PendingGroup) -> int:
    """Receipts of the members that were stored and not published yet."""
    family = pending.family
    counted = family.members or {family.lead}
    count = sum(pending.ledgers[number].count for number in counted)
    try:
        return max(0, count - int(orjson.loads(wallet.coverage)["receipts"]))
    except UNREADABLE:
        return count if wallet.coverage is None else 0


def _check_member(
    reader: Reader, family: Family, pending: PendingGroup, number: int
) -> Iterator[Difference]:
    """Compare the trades of a member, and what posts about them are called."""
    rows = {s: row for s, row in pending.wallet_rows.get(number, {}).items() if row}
    rebuilt = Rebuilt(pending, {s: row["digest"] for s, row in rows.items()}, rows)
    member = Member(number, family.addresses[number])
    signed = {signature for (signature,) in reader.rows(SIGNED)}
    trades: dict[str, NamedTrade] = {}
    yield from check_trades(reader, member, rebuilt, {}, signed & rows.keys(), trades)
    yield from check_posts(reader, member, trades)


def _check_stays(reader: Reader, wallet: Any, pending: PendingGroup) -> Iterator[Difference]:
    for number, right in pending.group_forward.find_stays().items():
        stored = next(reader.rows(STAYS.format(stay=number)))
        if tuple(stored) != tuple(right):
            what = f"is {stored}, a fresh rebuild says {tuple(right)}"
            yield Difference("companion", what, wallet.address, field=f"stay {number}")


def _check_summary(wallet: Any, pending: PendingGroup) -> Iterator[Difference]:
    """Compare the derived columns; a wallet beside another has no sums of its own."""
    right: dict[str, Any] = dict.fromkeys(EMPTY)
    if pending.family.members:
        right = store.show_summary(pending.ledger)
        times = [
            row["block_time"]
            for rows in pending.wallet_rows.values()
            for row in rows.values()
            if row and row["kind"] in TRADES and row["block_time"] is not None
        ]
        right["last_trade_at"] = max(times) * 1000 if times else None
    right["forward_realized"] = pending.forward.sum_realized()
    for name, value in right.items():
        if getattr(wallet, name) != value:
            what = f"is {getattr(wallet, name)!r:.200}, a fresh rebuild says {value!r:.200}"
            yield Difference("wallet", what, wallet.address, field=name)
