"""Order a wallet's receipts, and decide how complete its history is. Pure.

An account must start each receipt with its previous balance. Otherwise there is a gap.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from chain.addresses import WRAPPED_SOL
from chain.ledger.inventory import Opening
from chain.reading.currencies import MINTS
from chain.reading.entries import Entry
from chain.reading.flows import Balance, Holding


# ---- the chain of balances -----------------------------------------------------------------------
class Gap(NamedTuple):
    from_slot: int
    to_slot: int
    reason: str


class Seen(NamedTuple):
    slot: int
    mint: str | None
    amount: int
    lamports: int

    @property
    def is_open(self) -> bool:
        return bool(self.amount or self.lamports)

    def joins(self, mint: str | None, amount: int, lamports: int) -> bool:
        """A closed account may be reopened for any mint."""
        is_same = self.mint == mint or not self.is_open
        return is_same and (self.amount, self.lamports) == (amount, lamports)


@dataclass
class BalanceChain:
    """The chain of balances of a wallet's accounts.

    `expected` and `gap_starts` were found too late by an earlier pass. `expected` is the opening
    inventory by address. `gap_starts` is the slot after which there is a gap, by mint (None for the
    whole wallet). If the chain is `stale`, apply the entries again to `restart()`. `untouched` is
    an Opening by address, which becomes void once a transaction touches the account.
    """

    untouched: dict[str, Opening] = field(default_factory=dict)
    expected: dict[str, Opening] = field(default_factory=dict)
    gap_starts: dict[str | None, int] = field(default_factory=dict)
    # The same two mappings, derived from these entries.
    found: dict[str, Opening] = field(default_factory=dict)
    found_gap_starts: dict[str | None, int] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    # The mints with holdings older than the observed history.
    openings: set[str] = field(default_factory=set)
    # Whether an account had a balance before its first transaction.
    opened: bool = False
    count: int = 0
    first_slot: int | None = None
    last_slot: int | None = None
    # The mints whose history has an open gap. None means the whole wallet.
    broken: set[str | None] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    taken: dict[str, int] = field(default_factory=dict)
    # Whether every balance was 0 before the first transaction.
    _born: bool = False
    # Whether a discovery changed what was already booked.
    _late: bool = False
    # The place of the last transaction in its slot.
    _place: int = 0

    def __post_init__(self) -> None:
        self.found |= self.untouched
        self.opened = bool(self.untouched)
        self.openings |= {opening.mint for opening in self.untouched.values()}

    def restart(self) -> "BalanceChain":
        """Return an empty chain that knows the opening inventory and gaps of the same entries."""
        still = {a: opening for a, opening in self.untouched.items() if a not in self.seen}
        return BalanceChain(still, dict(self.found), dict(self.found_gap_starts))

    @property
    def stale(self) -> bool:
        """Whether anything was booked with other openings or gaps than the entries show."""
        laid = self.untouched | self.expected
        return (
            self._late
            or any(self.found.get(address) != opening for address, opening in laid.items())
            or any(
                self.found_gap_starts.get(mint) != slot for mint, slot in self.gap_starts.items()
            )
        )

    def is_broken(self, mint: str | None, money: str) -> bool:
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
        last = self.seen.get(balance.address)
        self.seen[balance.address] = Seen(
            entry.slot, balance.mint, balance.after, balance.lamports_after
        )
        return last

    def open_account(self, entry: Entry, balance: Balance) -> Opening | None:
        """Return the opening inventory of an account that appears for the first time.

        Earlier bookings stay correct only if its mint wasn't booked yet.
        """
        self.found.pop(balance.address, None)
        if not balance.before and not balance.lamports_before:
            return None
        self.opened = True
        # The wallet was observed before this account.
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
        """Return the account's unexplained change in raw units by mint."""
        gap = Gap(last.slot, entry.slot, "balance_break")
        # The account was closed and reopened for another mint unobserved, so both mints have a gap.
        more: dict[str | None, int] = {last.mint: -last.amount} if last.is_open else {}
        if balance.before or balance.lamports_before:
            more[balance.mint] = more.get(balance.mint, 0) + balance.before
        for mint in more:
            self._break(gap, mint)
        return {mint: units for mint, units in more.items() if units and mint and has_lots(mint)}

    def _break(self, gap: Gap, mint: str | None) -> None:
        """Open a gap, which removes the results of all sales after its first slot.

        It may be found later, on another account of the mint. A gap in a stablecoin affects
        everything that was paid in it.
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


# ---- coverage ------------------------------------------------------------------------------------
# With more receipts in a slot, don't search for the order.
MAX_TO_ORDER = 7
UNRESOLVED = "order_unresolved"
# The coverage states, worst first.
STATES = ("none", "backfilling", "partial", "complete")


def order_entries(entries: Iterable[Entry], seen: Mapping[str, Seen] | None = None) -> list[Entry]:
    """Sort by slot and transactionIndex, or without an index by the only order in which balances
    match.

    If there isn't one, entries are sorted by signature and flagged `order_unresolved`. `seen`
    contains the accounts' states after the entries already booked.
    """
    listed = list(entries)
    # The usual case in a rebuild. Don't copy all accounts for each transaction.
    if len(listed) < 2:
        return listed
    by_place = sorted(listed, key=lambda e: (e.slot, e.tx_index or 0, e.signature))
    ordered: list[Entry] = []
    held = dict(seen or {})
    for _, one_slot in groupby(by_place, key=attrgetter("slot")):
        group = list(one_slot)
        if len(group) > 1 and any(e.tx_index is None for e in group):
            group = _order_by_balances(group, held)
        for entry in group:
            held.update(_after(entry))
        ordered += group
    return ordered


def _after(entry: Entry) -> dict[str, Seen]:
    return {b.address: Seen(entry.slot, b.mint, b.after, b.lamports_after) for b in entry.balances}


def _begun(entry: Entry) -> Iterable[Balance]:
    """An account may be closed and reopened within an entry."""
    return {balance.address: balance for balance in reversed(entry.balances)}.values()


def _is_joined(balance: Balance, held: Mapping[str, Seen]) -> bool:
    last = held.get(balance.address)
    return last is None or last.joins(balance.mint, balance.before, balance.lamports_before)


def find_overtaken(entries: Iterable[Entry], seen: Mapping[str, Seen]) -> set[str]:
    held, overtaken = dict(seen), set()
    for entry in order_entries(entries, seen):
        overtaken |= {b.address for b in _begun(entry) if not _is_joined(b, held)}
        held.update(_after(entry))
    return overtaken


def _order_by_balances(group: list[Entry], held: Mapping[str, Seen]) -> list[Entry]:
    if len(group) <= MAX_TO_ORDER:
        orders = _search(group, held) or _search(group, {})
        if len(orders) == 1:
            return orders[0]
    return [entry._replace(flags=tuple(sorted({*entry.flags, UNRESOLVED}))) for entry in group]


def _search(
    rest: list[Entry], held: Mapping[str, Seen], path: tuple[Entry, ...] = ()
) -> list[list[Entry]]:
    """Return up to two orders of `rest` in which all balances match. Two mean it's ambiguous."""
    if not rest:
        return [list(path)]
    orders: list[list[Entry]] = []
    for n, entry in enumerate(rest):
        joins = all(_is_joined(balance, held) for balance in _begun(entry))
        if joins and len(orders) < 2:
            orders += _search(rest[:n] + rest[n + 1 :], {**held, **_after(entry)}, (*path, entry))
    return orders[:2]


def is_explained(seen: Seen | None, held: Holding) -> bool | None:
    """Return None if the node is behind the ledger."""
    if seen is None:
        return (held.amount, held.lamports) == (0, 0)
    if held.slot < seen.slot:
        return None
    # A node's response contains the mint only if the balance isn't zero.
    return seen.joins(held.mint or seen.mint, held.amount, held.lamports)


@dataclass(frozen=True)
class Progress:
    """The progress of observing a wallet.

    `listed`: whether every address was scanned to its end once. `confirmed`: whether a second scan
    found nothing new. `closed`: whether the node's balances matched the ledger at the last poll.
    `unexplained`: the balances that scanning didn't explain, as [(address, last known slot, slot of
    the poll), ...].
    """

    polled: bool = False
    listed: bool = False
    confirmed: bool = False
    closed: bool = False
    pending: int = 0
    # How many of the transactions failed repeatedly or were refused.
    stuck: int = 0
    refused: tuple[tuple[int, str], ...] = ()
    unexplained: tuple[tuple[str, int, int], ...] = ()
    capped: bool = False
    accounts_capped: bool = False
    # Percentage of the tighter limit used (transactions or token accounts). Below
    # NEAR_LIMIT_PERCENT, it is an upper bound.
    filled: int = 0
    program: bool = False
    # Disconnected before all its activity was observed.
    given_up: bool = False
    # Why observing fails, as a sentence. It will be retried.
    trouble: str | None = None


def decide_state(chain: BalanceChain, progress: Progress) -> tuple[str, list[Gap], str | None]:
    """Return (state, gaps, note). `complete` requires an unbroken chain of balances."""
    state, gaps, note = _decide_state(chain, progress)
    notes = [note] if note else []
    if progress.given_up:
        notes.append(GIVEN_UP)
    is_capped = progress.capped or progress.accounts_capped
    if progress.filled >= NEAR_LIMIT_PERCENT and not is_capped:
        notes.append(NEAR_LIMIT.format(progress.filled))
    if progress.trouble is not None:
        notes.append(describe_trouble(progress.trouble))
    return state, gaps, " ".join(notes) or None


def describe_trouble(reason: str) -> str:
    return f"Observing this wallet is failing and will be retried: {reason}."


IS_PROGRAM = "This address is a program, not a wallet, so it is not observed."
NOT_POLLED = "This wallet hasn't been checked yet."
FETCHING = (
    "This wallet's activity is still being fetched. Results may be incomplete until it is done."
)
# From this percentage on, the note mentions the limit.
NEAR_LIMIT_PERCENT = 80
# All notes about limits contain this text.
OF_LIMITS = "this service's limit"
NEAR_LIMIT = f"This wallet has used {{}}% of {OF_LIMITS}."
CAPPED = f"This wallet has more transactions than {OF_LIMITS}; the oldest aren't loaded."
ACCOUNTS_CAPPED = (
    f"This wallet has more token accounts than {OF_LIMITS}; accounts it never"
    " traded are left out first."
)
HAS_GAPS = (
    "Some of this wallet's activity is missing. Sales after that point show no result until the"
    " missing activity is found."
)
STUCK = "Some transactions exist but couldn't be fetched yet. They will be retried."
GIVEN_UP = (
    "This wallet was disconnected before all its earlier activity was fetched. The observer"
    " keeps checking it for up to a day."
)
UNCONFIRMED = (
    "Everything found so far has been fetched. A second scan of the whole history will confirm"
    " that nothing is missing."
)
OLDER = (
    "Part of this wallet's history is too old to fetch. Tokens it already held have an unknown"
    " cost."
)


def _decide_state(chain: BalanceChain, progress: Progress) -> tuple[str, list[Gap], str | None]:
    if progress.program:
        return "none", [], IS_PROGRAM
    if not progress.polled:
        return "none", [], NOT_POLLED
    if not progress.listed or progress.pending > progress.stuck:
        return "backfilling", [], FETCHING
    gaps = _list_gaps(chain, progress)
    if progress.capped:
        return "partial", gaps, CAPPED
    if progress.accounts_capped:
        return "partial", gaps, ACCOUNTS_CAPPED
    if gaps:
        return "partial", gaps, HAS_GAPS
    if progress.stuck:
        return "partial", gaps, STUCK
    if not progress.confirmed or not progress.closed:
        return "backfilling", gaps, UNCONFIRMED
    if chain.opened:
        return "partial", gaps, OLDER
    return "complete", gaps, None


def _list_gaps(chain: BalanceChain, progress: Progress) -> list[Gap]:
    gaps = {*chain.gaps}
    gaps |= {Gap(first, last, "closing_balance") for _, first, last in progress.unexplained}
    gaps |= {Gap(slot, slot, f"receipt_refused: {why}") for slot, why in progress.refused}
    return sorted(gaps)
