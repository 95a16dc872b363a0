"""The chain of balances: each account must start with its previous balance, or there is a gap."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from chain.ledger.lots import Opening
from chain.reading.effects import Balance
from chain.reading.entries import Entry
from chain.reading.instructions import WRAPPED_SOL
from chain.reading.quotes import MINTS


@dataclass(frozen=True)
class Gap:
    """Slots around a break in the chain of balances (closed interval), and the reason."""

    from_slot: int
    to_slot: int
    reason: str


class Seen(NamedTuple):
    """The latest known state of an own account."""

    slot: int
    mint: str | None
    amount: int
    lamports: int

    @property
    def is_open(self) -> bool:
        return bool(self.amount or self.lamports)

    def joins(self, mint: str | None, amount: int, lamports: int) -> bool:
        """Whether this matches the account's last balance. A closed account may be reopened for any
        mint.
        """
        is_same = self.mint == mint or not self.is_open
        return is_same and (self.amount, self.lamports) == (amount, lamports)


@dataclass
class BalanceChain:
    """The own accounts of a wallet.

    `expected`, `gap_starts`: what an earlier pass found too late: opening inventory by address; by
    mint (None: the whole wallet) the slot after which there is a gap. If `stale`, apply the entries
    again to `restart()`. `untouched`: Opening by address, void once a transaction touches the
    account.
    """

    untouched: dict[str, Opening] = field(default_factory=dict)
    expected: dict[str, Opening] = field(default_factory=dict)
    gap_starts: dict[str | None, int] = field(default_factory=dict)
    # the same two, as these entries show them
    found: dict[str, Opening] = field(default_factory=dict)
    found_gap_starts: dict[str | None, int] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    # mints with holdings older than the observed history
    openings: set[str] = field(default_factory=set)
    # an own account had a balance before its first transaction
    opened: bool = False
    count: int = 0
    first_slot: int | None = None
    last_slot: int | None = None
    # mints whose history has an open gap; None: the whole wallet
    broken: set[str | None] = field(default_factory=set)
    # mints booked so far, and mints that lots left, with the last slot
    moved: set[str] = field(default_factory=set)
    taken: dict[str, int] = field(default_factory=dict)
    # before the first transaction every own balance was 0
    _born: bool = False
    # a discovery that changes what is already booked
    _late: bool = False
    # of the last transaction in its slot
    _place: int = 0

    def __post_init__(self) -> None:
        self.found |= self.untouched
        self.opened = bool(self.untouched)
        self.openings |= {opening.mint for opening in self.untouched.values()}

    def restart(self) -> "BalanceChain":
        """Return an empty chain for the same entries that knows their start."""
        still = {a: opening for a, opening in self.untouched.items() if a not in self.seen}
        return BalanceChain(still, dict(self.found), dict(self.found_gap_starts))

    @property
    def stale(self) -> bool:
        """Whether anything was booked with a different start or different gaps than the entries
        show.
        """
        laid = self.untouched | self.expected
        return (
            self._late
            or any(self.found.get(address) != opening for address, opening in laid.items())
            or any(
                self.found_gap_starts.get(mint) != slot for mint, slot in self.gap_starts.items()
            )
        )

    def is_broken(self, mint: str | None, money: str) -> bool:
        """Whether the history of a mint, or of its currency, has a gap."""
        broken = self.broken
        return bool(broken) and (None in broken or mint in broken or money in broken)

    def begin(self, entry: Entry) -> None:
        slot = entry.slot
        if self.first_slot is None:
            self.first_slot = slot
            self._born = not any(one.before or one.lamports_before for one in entry.balances)
        self._place = self._place + 1 if slot == self.last_slot else 0
        self.last_slot, self.count = slot, self.count + 1
        for mint, begin in self.gap_starts.items():
            if begin < slot:
                self.broken.add(mint)

    def follow(self, entry: Entry, balance: Balance) -> Seen | None:
        """Record an account's new balance. Return its previous state."""
        last = self.seen.get(balance.address)
        self.seen[balance.address] = Seen(
            entry.slot, balance.mint, balance.after, balance.lamports_after
        )
        return last

    def open_account(self, entry: Entry, balance: Balance) -> Opening | None:
        """Record an account's first appearance. Return its opening inventory.

        Earlier bookings stay correct only if nothing of its mint was booked yet.
        """
        self.found.pop(balance.address, None)
        if not balance.before and not balance.lamports_before:
            return None
        self.opened = True
        # the wallet's start was observed, but not this account's
        if self._born:
            first = entry.slot if self.first_slot is None else self.first_slot
            self._break(Gap(first, entry.slot, "opening_balance"), balance.mint)
        if not balance.before or balance.mint is None or not has_lots(balance.mint):
            return None
        rank = (0, entry.slot, self._place, balance.address)
        opening = Opening(rank, balance.mint, balance.before, balance.decimals)
        self.openings.add(opening.mint)
        self.found[balance.address] = opening
        if self.expected.get(balance.address) == opening:
            return None
        self._late = self._late or opening.mint in self.moved
        return opening

    def break_chain(self, entry: Entry, last: Seen, balance: Balance) -> Mapping[str, int]:
        """Record a break. Return the account's unexplained change in raw units by mint."""
        gap = Gap(last.slot, entry.slot, "balance_break")
        # Reopened for another mint without being observed: both histories have a gap.
        more: dict[str | None, int] = {last.mint: -last.amount} if last.is_open else {}
        if balance.before or balance.lamports_before:
            more[balance.mint] = more.get(balance.mint, 0) + balance.before
        for mint in more:
            self._break(gap, mint)
        return {mint: units for mint, units in more.items() if units and mint and has_lots(mint)}

    def _break(self, gap: Gap, mint: str | None) -> None:
        """Open a gap. No sale after its start has a result, even if the gap is found later on
        another account of the mint.

        A gap in a stablecoin affects everything paid in it.
        """
        mint = mint if has_lots(mint) else None
        if gap not in self.gaps:
            self.gaps.append(gap)
        begin = self.found_gap_starts[mint] = min(
            gap.from_slot, self.found_gap_starts.get(mint, gap.from_slot)
        )
        is_money = mint is None or mint in MINTS
        taken = max(self.taken.values(), default=0) if is_money else self.taken.get(mint or "", 0)
        self._late = self._late or (taken > begin and self.gap_starts.get(mint, taken) > begin)
        self.broken.add(mint)


def has_lots(mint: str | None) -> bool:
    return mint not in (None, WRAPPED_SOL)
