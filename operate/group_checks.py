"""Compare the stored books of a bot with several wallets with rebuilt ones."""

from collections.abc import Iterator
from typing import Any

import orjson

from chain.ledger.group_book import Family, Member, PendingGroup
from chain.reading.kinds import TRADES
from chain.reading.programs import Programs
from chain.stored import store
from chain.stored.group_reading import rebuild_family
from chain.stored.verify import list_moved_mints
from operate.derived import NamedTrade, Rebuilt, check_totals, check_trades, count_unpublished
from operate.differences import Difference
from operate.forward_checks import check_forward, check_risk
from operate.judged import check_posts
from operate.quote_checks import check_quotes
from operate.readers import Reader

STAYS = "SELECT carried_in, open_cost FROM companion WHERE id = {stay}"
# Of a trade that two wallets made together, the row that tells comes last.
NAMED = """
SELECT t.signature, t.id, t.kind, t.flags, t.mint, t.token_changes, t.beside_tokens, t.explained,
t.block_time FROM trade t
WHERE t.wallet_id IN ({wallets}) AND t.signature IN (
    SELECT p.signature FROM post p WHERE p.wallet_id = {wallet} AND p.signature IS NOT NULL)
ORDER BY t.kind <> 'transfer_self', t.id DESC"""
EMPTY = ("results", "positions", "last_trade_at", "realized", "cost_left", "reconciliation")


def check_family(
    reader: Reader, wallet: Any, family: Family, programs: Programs
) -> Iterator[Difference]:
    """Differences in what stands under a wallet that leads others, or stands beside one."""
    pending = rebuild_family(reader.rows, family, programs)
    counted = family.members or {family.lead}
    count = sum(pending.ledgers[number].count for number in counted)
    waiting = count_unpublished(wallet, count)
    if waiting:
        what = f"{waiting} stored receipts are not in its books yet: the next poll applies them"
        yield Difference("wallet", what, wallet.address, level="look")
        return
    if wallet.coverage is None:
        return
    rebuilt = Rebuilt(pending)
    for member in sorted(family.members):
        yield from _check_member(reader, family, pending, member)
    yield from check_totals(reader, wallet, rebuilt)
    yield from check_forward(reader, wallet, pending)
    yield from _check_stays(reader, wallet, pending)
    yield from check_risk(reader, wallet, pending)
    yield from check_quotes(reader, wallet, pending)
    yield from _check_summary(wallet, pending)


def _check_member(
    reader: Reader, family: Family, pending: PendingGroup, number: int
) -> Iterator[Difference]:
    """Compare the trades of a member, and what posts of it are called."""
    rows = {s: row for s, row in pending.wallet_rows.get(number, {}).items() if row}
    rebuilt = Rebuilt(pending, {s: row["digest"] for s, row in rows.items()}, rows)
    member = Member(number, family.addresses[number])
    yield from check_trades(reader, member, rebuilt, {}, set(), {})
    yield from check_posts(reader, member, _read_named(reader, family, number))


def _read_named(reader: Reader, family: Family, number: int) -> dict[str, NamedTrade]:
    """The trades of any wallet of the family that posts of one of them name."""
    wallets = ", ".join(map(str, family.wallets))
    found = reader.rows(NAMED.format(wallets=wallets, wallet=number))
    return {
        signature: NamedTrade(
            trade,
            kind,
            orjson.loads(flags),
            list_moved_mints(kind, mint, orjson.loads(changes), orjson.loads(beside)),
            *rest,
        )
        for signature, trade, kind, flags, mint, changes, beside, *rest in found
    }


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
    right |= store.show_quote_columns(pending.quotes)
    right["forward_realized"] = pending.forward.sum_realized()
    for name, value in right.items():
        if getattr(wallet, name) != value:
            what = f"is {getattr(wallet, name)!r:.200}, a fresh rebuild says {value!r:.200}"
            yield Difference("wallet", what, wallet.address, field=name)
