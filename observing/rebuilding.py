"""Rebuild wallets' derived data from stored transactions, and report what changed."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import storage
from accounts.verification import count_delays
from chain.stored.attachments import read_siblings
from chain.stored.derived import UNREADABLE, read_coverage
from chain.stored.store import list_summary
from chain.stored.trades import mark_differing_trades
from models import Post, Trade, Wallet
from observing.entries import Reread, reread_entries
from observing.listing import read_progress
from observing.state import State
from storage import read_rows

SUMS = [getattr(Wallet, name) for name in (*list_summary(), "last_trade_at", "coverage")]


class RebuiltWallet(NamedTuple):
    address: str
    entries_changed: int
    receipts_lost: int
    trades_changed: int
    sums_changed: bool

    @property
    def changes(self) -> int:
        return self.entries_changed + self.receipts_lost + self.trades_changed + self.sums_changed


def rebuild(state: State, wallets: Iterable[Wallet], now: int) -> list[RebuiltWallet]:
    """Derive all data of these wallets again from stored transactions. `now`: ms."""
    return [one for kin in _list_together(wallets) for one in _rebuild_kin(state, kin, now)]


def _list_together(wallets: Iterable[Wallet]) -> Iterator[list[Wallet]]:
    """Yield each bot's wallets together: the entries of one may mark those of the others."""
    left = {wallet.id: wallet for wallet in wallets}
    while left:
        todo, kin = {next(iter(left))}, set[int]()
        while todo:
            number = todo.pop()
            kin.add(number)
            todo |= {one.wallet for one in read_siblings(read_rows, number)} - kin
        yield [left.pop(number) for number in sorted(kin) if number in left]


def _rebuild_kin(state: State, kin: list[Wallet], now: int) -> list[RebuiltWallet]:
    entries, before = {}, {}
    for wallet in kin:
        entries[wallet.id] = reread_entries(wallet, state.programs)
        mark_differing_trades(wallet.id)
        before[wallet.id] = _read_derived(wallet)
        state.ledger_store.forget(wallet.id)
    if any(one.changed or one.lost for one in entries.values()):
        # A running observer has older entries in memory, or sibling wallets marked by them, so make
        # it reread them.
        Wallet.update(rules="").where(Wallet.id.in_([wallet.id for wallet in kin])).execute()
    for wallet in kin:
        state.ledger_store.apply(wallet)
        # Only a poll knows the latest reports from nodes, so leave a readable coverage unchanged.
        is_damaged = read_coverage(wallet.coverage) is UNREADABLE
        progress = read_progress(state, wallet) if is_damaged else None
        state.ledger_store.publish(wallet, progress, now)
        with storage.writing():
            for post in list(Post.select(Post.bot).where(Post.wallet == wallet.id).distinct()):
                count_delays(post.bot_id)
    return [_compare(wallet, before[wallet.id], entries[wallet.id]) for wallet in kin]


def _compare(wallet: Wallet, before: Any, entries: Reread) -> RebuiltWallet:
    (old_trades, old_sums), (trades, sums) = before, _read_derived(wallet)
    differing = {signature for signature, _ in old_trades ^ trades}
    return RebuiltWallet(wallet.address, *entries, len(differing), old_sums != sums)


def _read_derived(wallet: Wallet) -> tuple[set[Any], Any]:
    """Return (signature, digest) of each trade, and the wallet's sums."""
    trades = Trade.select(Trade.signature, Trade.digest).where(Trade.wallet == wallet.id)
    return {*trades.tuples()}, Wallet.select(*SUMS).where(Wallet.id == wallet.id).tuples().get()
