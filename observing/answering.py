"""Answers the bell: what was announced of a wallet is asked of a node, and taken in as if a poll
had found it.
"""

from collections.abc import Iterable
from dataclasses import replace

from chain.ledger.coverage import find_overtaken, is_explained
from chain.rpc import BadAnswer, Refused
from chain.stored.summary import read_coverage
from models import Wallet
from observing.balances import Balances
from observing.bell import Changed, Ring
from observing.fetching import Fetching
from observing.listing import Listing
from observing.progress import read_progress
from observing.state import State

# An answer takes no longer, so that every other wallet has its turn.
MAX_ANSWER_SECONDS = 5.0


class Answering:
    """Answers the bell."""

    def __init__(
        self, state: State, listing: Listing, fetching: Fetching, balances: Balances
    ) -> None:
        self._state, self._listing = state, listing
        self._fetching, self._balances = fetching, balances

    def answer(self, wallet: Wallet, ring: Ring, now: int) -> None:
        """Ask for what was announced of a wallet and publish what is new; `now` in ms."""
        state, until = self._state, self._state.work_until
        state.work_until = max(until, state.clock() + MAX_ANSWER_SECONDS)
        try:
            ledger = state.apply_entries(wallet)
            before, seen = ledger.chain.count, dict(ledger.chain.seen)
            listed: list[Changed] = []
            if self._fetch_announced(wallet, ring, now):
                # What such an account holds by now does not show what is missing.
                new = state.watches[wallet.id].new_entries
                overtaken = find_overtaken(new, seen)
                listed = self._list_changed(wallet, ring, overtaken, now)
            self._fetching.fetch_urgent(wallet, now)
            self._list_again(wallet, listed)
            self._listing.scan_new(wallet, now)
            if state.apply_entries(wallet).chain.count != before:
                self._publish(wallet, now)
        finally:
            state.work_until = until

    def _fetch_announced(self, wallet: Wallet, ring: Ring, now: int) -> bool:
        """Ask for the transactions that were named. Where no node has one yet it is asked for
        again, and what it may explain waits; return whether all are there.
        """
        known, bell, late = self._listing.find_known(wallet, ring.announced), self._state.bell, 0
        for announced in ring.announced.values():
            if announced.signature in known:
                continue
            if self._state.clock() >= self._state.work_until:
                ring.overflown = True
                break
            found = self._fetch(wallet, announced.signature, now)
            if found is not None:
                bell.note_end(announced.endpoint, fruitful=found)
                self._note_told(wallet, found)
            elif bell.try_again(wallet.id, announced, self._state.clock()):
                late += 1
        for changed in ring.changed.values() if late else ():
            bell.note_change(wallet.id, changed, self._state.clock())
        return not late

    def _note_told(self, wallet: Wallet, found: bool) -> None:
        """What was told was new and true: its own list may rest longer."""
        if found:
            self._state.watches[wallet.id].told_at = self._state.clock()

    def _fetch(self, wallet: Wallet, signature: str, now: int) -> bool | None:
        try:
            return self._fetching.fetch_announced(wallet, signature, now)
        except (BadAnswer, Refused):
            return None

    def _list_changed(
        self, wallet: Wallet, ring: Ring, overtaken: set[str], now: int
    ) -> list[Changed]:
        """List the newest signatures of accounts whose balance the ledger does not explain, which
        are returned, of those a fetched transaction of which overtook another, and of the wallet
        where too much was told to ask for each.
        """
        unexplained = self._find_unexplained(wallet, ring.changed.values())
        addresses = overtaken | {one.address for one in unexplained}
        if ring.overflown:
            addresses.add(wallet.address)
        for address in sorted(addresses):
            self._listing.list_newest(wallet, address, now)
        return unexplained

    def _list_again(self, wallet: Wallet, listed: list[Changed]) -> None:
        """Have them listed again soon where that explains nothing: the node lags behind the one
        that told of the change, and the next poll may be far off.
        """
        bell, unexplained = self._state.bell, self._find_unexplained(wallet, listed)
        for changed in listed:
            if changed in unexplained:
                bell.list_again(wallet.id, changed, self._state.clock())
            else:
                bell.note_end(changed.endpoint, fruitful=True)

    def _find_unexplained(self, wallet: Wallet, told: Iterable[Changed]) -> list[Changed]:
        seen = self._state.apply_entries(wallet).chain.seen
        return [one for one in told if is_explained(seen.get(one.address), one.holding) is False]

    def _publish(self, wallet: Wallet, now: int) -> None:
        """Publish; where the last poll found the node's balances to be the ledger's, a ledger that
        went on since without a gap is as whole as it was.
        """
        if self._balances.is_open(wallet) and not self._is_compared(wallet):
            self._balances.compare([wallet], self._state.work_until)
        progress = read_progress(self._state, wallet)
        checked = self._state.check_balances(wallet)
        if self._was_closed(wallet) and self._is_compared(wallet):
            progress = replace(progress, closed=False not in checked.values())
        self._state.ledger_store.publish(wallet, progress, now)

    def _is_compared(self, wallet: Wallet) -> bool:
        """Whether a node told the balance of every address of the wallet."""
        return self._listing.find_scanned(wallet) <= self._state.check_balances(wallet).keys()

    @staticmethod
    def _was_closed(wallet: Wallet) -> bool:
        return read_coverage(wallet.coverage)["state"] in ("complete", "partial")
