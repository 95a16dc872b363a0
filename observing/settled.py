"""Settled wallets: their last poll left nothing to do, and nothing stored has changed since. The
next poll asks nodes about them and does no more, unless an answer is new.

A few statements a pass read what is stored of all of them, so that what another process wrote is
seen, too.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import orjson

import storage
from accounts.verification import MOVABLE
from chain.ledger.coverage import Progress
from chain.ledger.views import Holdings
from chain.stored.summary import UNREADABLE, read_coverage, show_time
from chain.stored.trades import to_json
from models import Wallet
from observing.listing import IS_DUE
from observing.state import FULL_SCAN_INTERVAL_MS, State, log

# What of a wallet each poll writes anew.
OF_POLLS = frozenset(("polled_at", "due_at", "observed_to", "coverage"))
COLUMNS = [name for name in Wallet._meta.sorted_field_names if name not in OF_POLLS]
TOLD_ANEW = "checkedAt", "observedTo"
# Plain SQL, for up to 200 wallets at once. What is stored:
STORED = (
    """SELECT wallet_id, COUNT(*) FROM sighting
    WHERE wallet_id IN ({marks}) GROUP BY wallet_id""",
    "SELECT wallet_id, COUNT(*) FROM address WHERE wallet_id IN ({marks}) GROUP BY wallet_id",
    f"""SELECT wallet_id, id, bot_id, attached_at, detached_at, {", ".join(Holdings._fields)}
    FROM attachment WHERE wallet_id IN ({{marks}}) ORDER BY id""",
)
# What waits: transactions and posts.
WAITING = (
    "SELECT wallet_id FROM sighting WHERE wallet_id IN ({marks}) AND state <> 'stored'",
    f"""SELECT wallet_id FROM post p
    WHERE wallet_id IN ({{marks}}) AND signature IS NOT NULL AND ({MOVABLE})""",
)
DUE = f"SELECT wallet_id FROM address WHERE ({IS_DUE}) AND wallet_id IN ({{marks}})"
TELL = "UPDATE wallet SET coverage = ?, polled_at = ?, observed_to = ?, due_at = ? WHERE id = ?"


def find_awake(state: State, wallets: Sequence[Wallet], now: int) -> list[Wallet]:
    """The wallets that are to be polled in full: all but those that are settled, of which what is
    stored is what it was at their last poll, and nothing waits or is due.
    """
    waiting, stored = _find_waiting(wallets, now), _read_stored(wallets)
    for wallet in wallets:
        watch = state.watches[wallet.id]
        same = watch.stored == stored[wallet.id] and wallet.id not in waiting
        watch.stored = stored[wallet.id]
        watch.settled = watch.settled and same and not _is_due(state, wallet, now)
    return list_awake(state, wallets)


def list_awake(state: State, wallets: Iterable[Wallet]) -> list[Wallet]:
    """The wallets that are not settled."""
    return [wallet for wallet in wallets if not state.watches[wallet.id].settled]


def is_settled(state: State, wallet: Wallet, progress: Progress) -> bool:
    """Whether a poll in full found nothing more to do for a wallet."""
    watch = state.watches[wallet.id]
    whole = wallet.backfilled and progress.confirmed and progress.closed
    undone = progress.pending or progress.unexplained or watch.ambiguous_slots or watch.postponed
    wrong = wallet.trouble or wallet.id in state.troubled or state.apply_entries(wallet).chain.gaps
    return bool(whole and not undone and not wrong and wallet.closing_at is None)


def tell_polls(state: State, polls: Collection[tuple[Wallet, int]]) -> None:
    """Store when nodes last told of settled wallets, and when each is due again (ms)."""
    if not polls:
        return
    with storage.writing():
        for wallet, due_at in polls:
            coverage = _tell_times(wallet, state.ledger_store.last_time(wallet.id))
            values = coverage, wallet.polled_at, wallet.observed_to, due_at, wallet.id
            storage.database.execute_sql(TELL, values)


def _tell_times(wallet: Wallet, last_time: int | None) -> str:
    observed_to = max(filter(None, (wallet.observed_to, last_time)), default=None)
    times = show_time(wallet.polled_at and wallet.polled_at // 1000), show_time(observed_to)
    return to_json(read_coverage(wallet.coverage) | dict(zip(TOLD_ANEW, times, strict=True)))


def _is_due(state: State, wallet: Wallet, now: int) -> bool:
    return (
        wallet.rules != state.rules
        or abs(now - (wallet.accounts_at or 0)) >= FULL_SCAN_INTERVAL_MS
        or state.is_check_due(wallet.id)
    )


def _find_waiting(wallets: Sequence[Wallet], now: int) -> set[int]:
    due = _ask(DUE, wallets, (now - FULL_SCAN_INTERVAL_MS, now))
    found = {wallet_id for (wallet_id,) in due}
    for sql in WAITING:
        found |= {wallet_id for (wallet_id,) in _ask(sql, wallets)}
    return found


def _read_stored(wallets: Sequence[Wallet]) -> dict[int, bytes]:
    """By wallet, a digest of what is stored of it that may call for work: the text itself may take
    tens of kilobytes.
    """
    found = {wallet.id: _list_own(wallet) for wallet in wallets}
    for sql in STORED:
        for wallet_id, *rest in _ask(sql, wallets):
            found[wallet_id].append(rest)
    return {wallet_id: _digest(stored) for wallet_id, stored in found.items()}


def _digest(stored: list[Any]) -> bytes:
    return hashlib.sha256(orjson.dumps(stored, option=orjson.OPT_SORT_KEYS)).digest()


def _list_own(wallet: Wallet) -> list[Any]:
    told = read_coverage(wallet.coverage)
    if told is UNREADABLE:
        # It differs from what was remembered, so a poll in full rebuilds it.
        log.warning("coverage of wallet %s can't be read; rebuilding it", wallet.address)
    lasting = {name: one for name, one in told.items() if name not in TOLD_ANEW}
    return [lasting, *(wallet.__data__[name] for name in COLUMNS)]


def _ask(sql: str, wallets: Iterable[Wallet], values: Sequence[int] = ()) -> Iterator[Any]:
    for part in storage.in_parts(wallet.id for wallet in wallets):
        asked = sql.format(marks=storage.mark(part))
        yield from storage.database.execute_sql(asked, (*values, *part)).fetchall()
