"""First in, first out, in integers: from a wallet's entries in chain order to lots, results and
gaps. Pure.

A `Ledger` applies entries one after another; applying them again from the start gives the same
ledger.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from chain.ledger.average import is_dust
from chain.ledger.inventory import Cut, Inventory, Position, Released, join_released, sum_known
from chain.ledger.lots import (
    PAID_ELSEWHERE,
    PAID_IN_SOL,
    UNEXPLAINED,
    Booked,
    Gap,
    Lot,
    Opening,
    Seen,
    Slice,
    find_holding_seconds,
    share,
)
from chain.ledger.reconciliation import Reconciliation, Totals
from chain.reading.effects import Balance
from chain.reading.entries import Entry
from chain.reading.instructions import WRAPPED_SOL
from chain.reading.quotes import MINTS

# ---- what a transaction changed ------------------------------------------------------------------
# Raw changes by mint, all above 0.
Amounts = dict[str, int]


def split_changes(tokens: Iterable[tuple[str, int, int]]) -> tuple[Amounts, Amounts]:
    """Part ((mint, raw change, decimals), ...) into (what rose, what fell)."""
    rose: Amounts = {}
    fell: Amounts = {}
    for mint, change, _ in tokens:
        if change > 0:
            rose[mint] = change
        elif change < 0:
            fell[mint] = -change
    return rose, fell


def find_traded(entry: Entry, amounts: Amounts) -> str:
    """The mint of one side of a trade: what is no residue."""
    if entry.mint in amounts:
        return entry.mint
    return next(mint for mint in amounts if mint not in entry.residues)


def add_flags(entry: Entry, *more: str) -> tuple[str, ...]:
    """The flags of an entry with more, in order."""
    return tuple(sorted({*entry.flags, *more}))


def find_escrow(entry: Entry, mint: str) -> tuple[int, str]:
    """What reached the escrow of an order, in raw units of a mint, and its address: the account
    that received most of it. 0 and no address where none did.
    """
    gains = [
        (after - before, address)
        for address, of, before, after in entry.others
        if of == mint and after > before
    ]
    return max(gains, default=(0, ""))


# ---- what a sale earned --------------------------------------------------------------------------
class Price(NamedTuple):
    """What a sale earned, in lamports and raw units, as a Booked has it."""

    status: str
    result: int | None
    proceeds: int | None
    cost: int | None
    matched: int
    unmatched: int
    unmatched_proceeds: int


def price_sale(slices: list[Slice], amount: int, proceeds: int) -> Price:
    """Price a sale: proceeds are shared by quantity, and only lots of known cost have a result."""
    matched = gross = cost = 0
    shares = share(proceeds, [one.amount for one in slices])
    for (_, quantity, spent), part in zip(slices, shares, strict=True):
        if spent is not None:
            matched, gross, cost = matched + quantity, gross + part, cost + spent
    if not matched:
        return Price("unmatched", None, None, None, 0, amount, proceeds)
    status, rest = "matched" if is_dust(amount - matched, amount) else "partial", amount - matched
    return Price(status, gross - cost, gross, cost, matched, rest, proceeds - gross)


# ---- the ledger ----------------------------------------------------------------------------------
@dataclass
class Ledger:
    """The ledger of one wallet, in SOL or in a `quote`.

    `quote`: the mint whose raw units its money is in, wherever lamports are spoken of here, and
    whose entries were made by chain.ledger.quote_book.view_entry; empty: SOL.
    `backfilled`: has the whole history been listed? Until then every sale stands after an open gap.
    `gaps` are the breaks of the chain of balances. `expected`, `gap_starts`: what an earlier pass
    over these entries found out too late, so that it holds from the beginning on: opening inventory
    by address; by mint (None: the whole wallet) the slot after which its history has a gap. Where
    `stale`, the entries are to be applied again to `restart()`. `untouched`: Opening by address of
    accounts that hold something and that no receipt touched so far; one that does makes it void.
    """

    backfilled: bool = True
    quote: str = ""
    untouched: dict[str, Opening] = field(default_factory=dict)
    expected: dict[str, Opening] = field(default_factory=dict)
    gap_starts: dict[str | None, int] = field(default_factory=dict)
    # the same two, as these entries tell
    found: dict[str, Opening] = field(default_factory=dict)
    found_gap_starts: dict[str | None, int] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=Inventory)
    # own address -> Seen
    seen: dict[str, Seen] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    # mints with inventory older than what was observed
    openings: set[str] = field(default_factory=set)
    # some own account held something before its first receipt
    opened: bool = False
    totals: Totals = field(default_factory=Totals)
    # receipts taken
    count: int = 0
    first_slot: int | None = None
    last_slot: int | None = None
    # before the first receipt every own balance was 0
    _born: bool = False
    _broken_all: bool = False
    # mints whose history has an open gap
    _broken: set[str] = field(default_factory=set)
    # something was found that what is booked already lacks
    _late: bool = False
    # of the last receipt in its slot
    _place: int = 0
    # known cost of lots that left in a gap before the current entry
    _lost: int = 0
    # mints of which lots left in a gap before the current entry
    _lapsed: tuple[str, ...] = ()
    # known cost of all that left with the current entry without a sale, by mint
    _left: dict[str, int] = field(default_factory=dict)
    # block time of the current entry
    _time: int | None = None

    def __post_init__(self) -> None:
        self.found |= self.untouched
        self.opened = self.opened or bool(self.untouched)
        self.openings |= {opening.mint for opening in self.untouched.values()}
        for opening in (self.untouched | self.expected).values():
            self.inventory.lay(opening)

    def restart(self) -> "Ledger":
        """An empty Ledger for the same entries, which knows what this one found out about the
        beginning.
        """
        still = {a: opening for a, opening in self.untouched.items() if a not in self.seen}
        return Ledger(
            backfilled=self.backfilled,
            untouched=still,
            expected=dict(self.found),
            gap_starts=dict(self.found_gap_starts),
        )

    @property
    def stale(self) -> bool:
        """Was anything booked with another beginning, or other gaps, than the entries show?"""
        return (
            self._late
            or any(
                self.found.get(address) != opening
                for address, opening in (self.untouched | self.expected).items()
            )
            or any(
                self.found_gap_starts.get(mint) != slot for mint, slot in self.gap_starts.items()
            )
        )

    @property
    def lots(self) -> dict[str, list[Lot]]:
        """Mint -> lots with something left, oldest first."""
        return self.inventory.lots

    @property
    def decimals(self) -> dict[str, int]:
        return self.inventory.decimals

    def positions(self) -> list[Position]:
        """What is held now, by mint."""
        return self.inventory.list_positions()

    def reconcile(self) -> Reconciliation:
        """What became of the wallet's money, so far."""
        return self.totals.reconcile(self.inventory.sum_open_cost())

    # ---- one entry -------------------------------------------------------------------------------
    def apply(self, entry: Entry) -> Booked:
        """Book one entry; entries must come in chain order. Returns Booked."""
        slot = entry.slot
        if self.first_slot is None:
            self.first_slot = slot
            self._born = not any(b.before or b.lamports_before for b in entry.balances)
        self._place = self._place + 1 if slot == self.last_slot else 0
        self.last_slot, self.count, self._lost = slot, self.count + 1, 0
        self._left, self._lapsed, self._time = {}, (), entry.block_time
        for mint, begin in self.gap_starts.items():
            if begin < slot:
                self._mark_broken(mint)
        for balance in entry.balances:
            self._check_chain(entry, balance)
        decimals = self.inventory.decimals
        touched = {balance.mint for balance in entry.balances}.union(self._lapsed)
        for mint, _, places in entry.tokens + entry.beside_tokens:
            decimals[mint] = places
            touched.add(mint)
        booked = self._book(entry)
        self.totals.add(booked)
        if entry.kind.startswith("order_"):
            touched |= {mint for _, mint, _, _ in entry.others}
        emptied = [mint for mint in touched if mint and not self.inventory.is_held(mint)]
        if not emptied and not self._left:
            return booked
        return booked._replace(left=tuple(self._left.items()), emptied=tuple(sorted(emptied)))

    def _book(self, entry: Entry) -> Booked:
        """Book the trade, and what passed beside its venue: what arrived before it, what left after
        it.
        """
        arrived, left = split_changes(entry.beside_tokens)
        self._put_unknown(entry, arrived)
        booked = self._book_venue(entry, *split_changes(entry.venue_tokens))
        lost = self._lost + (self._drop(left) if left else 0)
        return booked._replace(cost_left=booked.cost_left + lost) if lost else booked

    def _book_venue(self, entry: Entry, rose: Amounts, fell: Amounts) -> Booked:
        kind = entry.kind
        if kind.startswith("order_"):
            return self._book_order(entry, rose, fell)
        if kind == "failed":
            return Booked(entry, entry.flags)
        if UNEXPLAINED in entry.flags:
            return self._book_rest(entry, rose, fell, other=entry.venue_sol)
        if kind == "sell":
            return self._book_sale(entry, rose, fell)
        if kind == "swap":
            return self._book_swap(entry, rose, fell)
        if kind == "round_trip":
            return self._book_round_trip(entry, rose, fell)
        if kind == "buy":
            mint = find_traded(entry, rose)
            self._put(mint, entry.signature, rose.pop(mint), -entry.venue_sol)
        return self._book_rest(entry, rose, fell)

    def _book_rest(self, entry: Entry, rose: Amounts, fell: Amounts, other: int = 0) -> Booked:
        """Without a price: what fell took its cost along, what rose has an unknown one."""
        lost = self._move_rest(entry, rose, fell)
        return Booked(entry, entry.flags, cost_left=lost, other=other)

    def _move_rest(self, entry: Entry, rose: Amounts, fell: Amounts) -> int:
        """Move lots without a price; return the known cost that left."""
        lost = self._drop(fell) if fell else 0
        if rose:
            self._put_unknown(entry, rose, PAID_IN_SOL if PAID_ELSEWHERE in entry.flags else "")
        return lost

    # ---- sales and swaps -------------------------------------------------------------------------
    def _book_sale(self, entry: Entry, rose: Amounts, fell: Amounts) -> Booked:
        mint = find_traded(entry, fell)
        amount = fell.pop(mint)
        slices, portion = self._cut(mint, amount)
        lost, proceeds = self._move_rest(entry, rose, fell), entry.venue_sol
        if not self.backfilled or self._broken_all or mint in self._broken:
            return Booked(
                entry,
                add_flags(entry, "incomplete_history"),
                status="unmatched",
                unmatched=amount,
                cost_left=lost,
                other=proceeds - sum_known(slices),
                sold=mint,
            )
        self.inventory.average.sell(portion, proceeds)
        lots = tuple([(lot.origin, part, cost) for lot, part, cost in slices])
        told = ["opening_inventory_unknown"] * any([origin is None for origin, _, _ in lots])
        told += [PAID_ELSEWHERE] * self._is_cross(slices)
        price = price_sale(slices, amount, proceeds)
        return Booked(
            entry,
            add_flags(entry, *told),
            status=price.status,
            result=price.result,
            proceeds=price.proceeds,
            cost=price.cost,
            matched=price.matched,
            unmatched=price.unmatched,
            lots=lots,
            unmatched_proceeds=price.unmatched_proceeds,
            cost_left=lost,
            sold=mint,
            holding=find_holding_seconds(slices, entry.block_time),
        )

    def _book_swap(self, entry: Entry, rose: Amounts, fell: Amounts) -> Booked:
        """Realize nothing: the lots of what came take over the cost of what was given."""
        given, mint = find_traded(entry, fell), find_traded(entry, rose)
        cut = self._cut(given, fell.pop(given))
        if given in self._broken:
            # the cost it carries over may be another lot's
            self._broken.add(mint)
        amount, spent, paid_in = rose.pop(mint), -entry.venue_sol, given if given in MINTS else ""
        carried = self.inventory.carry(
            cut, mint, entry.signature, amount, spent, self._time, paid_in
        )
        self._leave(given, carried.cost_left)
        rest = self._book_rest(entry, rose, fell, other=-carried.spent_unknown)
        return rest._replace(
            flags=add_flags(entry, *["basis_carried"] * bool(carried.lots)),
            cost_left=rest.cost_left + carried.cost_left,
            carried=carried.lots,
        )

    def _book_round_trip(self, entry: Entry, rose: Amounts, fell: Amounts) -> Booked:
        """Bought and sold back at once: its cost and its proceeds stand in the same transaction, so
        no lot is touched and no gap matters.
        """
        result = entry.venue_sol
        self.inventory.average.count(result)
        rest = self._book_rest(entry, rose, fell)
        return rest._replace(status="matched", result=result, sold=entry.mint, holding=0)

    # ---- orders: an escrow keeps its lots --------------------------------------------------------
    def _book_order(self, entry: Entry, rose: Amounts, fell: Amounts) -> Booked:
        if entry.kind == "order_open":
            fell = self._fill_escrows(entry, fell)
        lost = self._drop(fell)
        left = [
            self.inventory.release(address, mint, before - after, entry.slot)
            for address, mint, before, after in entry.others
            if address in self.inventory.escrows
        ]
        left = [one for one in left if one.slices]
        is_priced = entry.kind == "order_fill" and UNEXPLAINED not in entry.flags
        if is_priced and left and len(rose) == 1:
            return self._book_fill(entry, left, *rose.popitem(), lost)
        for one in left:
            room = rose.get(one.mint, 0) if entry.kind == "order_cancel" else 0
            returned = min(room, sum(s.amount for s in one.slices))
            lost += self._leave(one.mint, self.inventory.put_back(one, room))
            if returned:
                rose[one.mint] -= returned
        self._put_unknown(entry, rose)
        return Booked(entry, entry.flags, cost_left=lost)

    def _fill_escrows(self, entry: Entry, fell: Amounts) -> Amounts:
        """Move into the escrow of each mint what reached it; return the rest of what fell."""
        rest = dict(fell)
        for mint, amount in fell.items():
            reached, address = find_escrow(entry, mint)
            if held := min(amount, reached):
                self.inventory.hold(address, mint, self._cut(mint, held))
                rest[mint] -= held
        return {mint: amount for mint, amount in rest.items() if amount}

    def _book_fill(
        self, entry: Entry, left: list[Released], mint: str, amount: int, lost: int
    ) -> Booked:
        """Book what an order brought: it takes over the cost of what left its escrow."""
        if self._broken & {one.mint for one in left}:
            self._broken.add(mint)
        carried = self.inventory.carry(
            join_released(left), mint, entry.signature, amount, 0, self._time
        )
        self._leave(left[0].mint, carried.cost_left)
        return Booked(
            entry,
            add_flags(entry, *["basis_carried"] * bool(carried.lots)),
            cost_left=lost + carried.cost_left,
            carried=carried.lots,
        )

    # ---- lots ------------------------------------------------------------------------------------
    def _put(self, mint: str, origin: str | None, amount: int, cost: int | None) -> None:
        self.inventory.put(mint, origin, amount, cost, self._time)

    def _put_unknown(self, entry: Entry, rose: Amounts, paid_in: str = "") -> None:
        for mint, amount in rose.items():
            self.inventory.put(mint, entry.signature, amount, None, self._time, paid_in)

    def _cut(self, mint: str, amount: int) -> Cut:
        return self.inventory.cut(mint, amount, self.last_slot or 0)

    def _drop(self, fell: Amounts) -> int:
        """Take lots out without a sale; return the known cost in lamports that left with them."""
        lost = 0
        for mint, amount in fell.items():
            lost += self._leave(mint, sum_known(self._cut(mint, amount).slices))
        return lost

    def _leave(self, mint: str, cost: int) -> int:
        """Note known cost of a mint that left without a sale, and return it."""
        if cost:
            self._left[mint] = self._left.get(mint, 0) + cost
        return cost

    # ---- the chain of balances -------------------------------------------------------------------
    def _check_chain(self, entry: Entry, balance: Balance) -> None:
        """What an account held before this receipt must be what the last one left it with."""
        last = self.seen.get(balance.address)
        now = Seen(entry.slot, balance.mint, balance.after, balance.lamports_after)
        self.seen[balance.address] = now
        known = self._count_money(last.mint, last.amount, last.lamports) if last else 0
        self.totals.closing += self._count_money(now.mint, now.amount, now.lamports) - known
        if last and last.joins(balance.mint, balance.before, balance.lamports_before):
            return
        before = self._count_money(balance.mint, balance.before, balance.lamports_before)
        if last is None:
            self.totals.opening += before
            self.found.pop(balance.address, None)
            self._open(entry, balance)
            return
        self.totals.gaps += before - known
        gap = Gap(last.slot, entry.slot, "balance_break")
        # Opened for another mint unobserved, both histories lack what happened between.
        more: dict[str | None, int] = {last.mint: -last.amount} if last.is_open else {}
        if balance.before or balance.lamports_before:
            more[balance.mint] = more.get(balance.mint, 0) + balance.before
        for mint, change in more.items():
            self._break(gap, mint)
            self._adjust(mint, change, balance.decimals)

    def _count_money(self, mint: str | None, amount: int, lamports: int) -> int:
        """Return how much of what an account holds is money in this ledger."""
        if not self.quote:
            return lamports
        return amount if mint == self.quote else 0

    def _has_lots(self, mint: str | None) -> bool:
        """Are there lots of it? It may be money of this ledger, or SOL."""
        return mint not in (None, WRAPPED_SOL, self.quote)

    def _open(self, entry: Entry, balance: Balance) -> None:
        if not balance.before and not balance.lamports_before:
            return
        self.opened = True
        # the wallet's beginning was seen, this account's was not
        if self._born:
            first = self.first_slot if self.first_slot is not None else entry.slot
            self._break(Gap(first, entry.slot, "opening_balance"), balance.mint)
        if balance.before and balance.mint and self._has_lots(balance.mint):
            self._find(
                balance.address,
                Opening(
                    (0, entry.slot, self._place, balance.address),
                    balance.mint,
                    balance.before,
                    balance.decimals,
                ),
            )

    def _find(self, address: str, opening: Opening) -> None:
        """Lay opening inventory before all lots, whenever it is found. What is booked stays right
        only where nothing of its mint was booked yet.
        """
        self.openings.add(opening.mint)
        self.found[address] = opening
        if self.expected.get(address) != opening:
            self._late = self._late or opening.mint in self.inventory.moved
            self.inventory.lay(opening)

    def _adjust(self, mint: str | None, more: int, decimals: int) -> None:
        """Book inventory that arrived or left unobserved. `decimals`: where none of it was seen."""
        if not mint or not self._has_lots(mint) or not more:
            return
        self.decimals.setdefault(mint, decimals)
        if more > 0:
            self._put(mint, None, more, None)
        else:
            self._lost += self._drop({mint: -more})
            self._lapsed = (*self._lapsed, mint)

    def _break(self, gap: Gap, mint: str | None) -> None:
        """Note a gap: no sale after its beginning has a result, even where it shows only later, on
        another account of the mint.
        """
        mint = mint if self._has_lots(mint) else None
        if gap not in self.gaps:
            self.gaps.append(gap)
        begin = self.found_gap_starts[mint] = min(
            gap.from_slot, self.found_gap_starts.get(mint, gap.from_slot)
        )
        slots = self.inventory.taken
        taken = max(slots.values(), default=0) if mint is None else slots.get(mint, 0)
        self._late = self._late or (taken > begin and self.gap_starts.get(mint, taken) > begin)
        self._mark_broken(mint)

    def _is_cross(self, slices: list[Slice]) -> bool:
        """Does a sale for a quote take lots that were paid for in something else?"""
        own = ("", self.quote)
        return bool(self.quote) and any(s.cost is None and s.lot.paid_in not in own for s in slices)

    def turn_gaps(self, quote: str) -> None:
        """Continue with this mint as the money: after a gap of it nothing has a result."""
        self._broken_all = self._broken_all or quote in self._broken

    def _mark_broken(self, mint: str | None) -> None:
        if mint is None:
            self._broken_all = True
        else:
            self._broken.add(mint)
