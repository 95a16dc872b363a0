"""First in, first out, in integers: from a wallet's entries in chain order to lots, results and
gaps. Pure.

A `Ledger` applies entries one after another; applying them again from the start gives the same
ledger.
"""

from bisect import insort
from dataclasses import dataclass, field

from chain.effects import Balance
from chain.entries import Entry
from chain.instructions import WRAPPED_SOL
from chain.kinds import TRADES
from chain.lots import Booked, Gap, Lot, Opening, Seen, Slice, Totals, share


@dataclass
class Ledger:
    """The ledger of one wallet.

    `backfilled`: has the whole history been listed? Until then every sale stands after an open gap.
    `gaps` are the breaks of the chain of balances. `expected`, `gap_starts`: what an earlier pass
    over these entries found out too late, so that it holds from the beginning on: opening inventory
    by address; by mint (None: the whole wallet) the slot after which its history has a gap. Where
    `stale`, the entries are to be applied again to `restart()`. `untouched`: Opening by address of
    accounts that hold something and that no receipt touched so far; one that does makes it void.
    """

    backfilled: bool = True
    untouched: dict = field(default_factory=dict)
    expected: dict = field(default_factory=dict)
    gap_starts: dict = field(default_factory=dict)
    # the same two, as these entries tell
    found: dict = field(default_factory=dict)
    found_gap_starts: dict = field(default_factory=dict)
    # mint -> [Lot, ...] with something left, oldest first
    lots: dict = field(default_factory=dict)
    decimals: dict = field(default_factory=dict)
    # escrow token account -> [Slice, ...]
    escrows: dict = field(default_factory=dict)
    # own address -> Seen
    seen: dict = field(default_factory=dict)
    gaps: list = field(default_factory=list)
    # mints with inventory older than what was observed
    openings: set = field(default_factory=set)
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
    _broken: set = field(default_factory=set)
    # mints of which something was booked
    _moved: set = field(default_factory=set)
    # mint -> slot in which lots of it were taken last
    _taken: dict = field(default_factory=dict)
    # something was found that what is booked already lacks
    _late: bool = False
    # of the last receipt in its slot
    _place: int = 0
    _lots: int = 0

    def __post_init__(self) -> None:
        self.found |= self.untouched
        self.opened = self.opened or bool(self.untouched)
        self.openings |= {opening.mint for opening in self.untouched.values()}
        for opening in (self.untouched | self.expected).values():
            self._lay(opening)

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
        """Was anything booked by another beginning, or with fewer or more gaps, than the entries
        tell?
        """
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

    # ---- one entry -------------------------------------------------------------------------------
    def apply(self, entry: Entry) -> Booked:
        """Book one entry; entries must come in chain order. Returns Booked."""
        if self.first_slot is None:
            self.first_slot = entry.slot
            self._born = not any(b.before or b.lamports_before for b in entry.balances)
        self._place = self._place + 1 if entry.slot == self.last_slot else 0
        self.last_slot, self.count = entry.slot, self.count + 1
        for mint, slot in self.gap_starts.items():
            if slot < entry.slot:
                self._mark_broken(mint)
        for balance in entry.balances:
            self._check_chain(entry, balance)
        for mint, _, decimals in entry.tokens:
            self.decimals[mint] = decimals
        booked = self._book(entry)
        self._count_in(booked)
        return booked

    def _book(self, entry: Entry) -> Booked:
        rose = {m: c for m, c, _ in entry.tokens if c > 0}
        fell = {m: -c for m, c, _ in entry.tokens if c < 0}
        if entry.kind == "sell":
            return self._book_sale(entry, *fell.popitem(), rose)
        if entry.kind == "swap":
            return self._book_swap(entry, fell, rose)
        if entry.kind == "buy":
            self._put(entry.mint, entry.signature, rose.pop(entry.mint), -entry.sol)
        elif entry.kind.startswith("order_"):
            return self._book_order(entry, fell, rose)
        elif entry.kind == "failed":
            return Booked(entry, entry.flags)
        for mint, amount in fell.items():
            self._cut(mint, amount)
        self._put_unknown(entry, rose)
        return Booked(entry, entry.flags)

    def _book_sale(self, entry: Entry, mint: str, amount: int, residues: dict[str, int]) -> Booked:
        slices = self._cut(mint, amount)
        self._put_unknown(entry, residues)
        if not self.backfilled or self._broken_all or mint in self._broken:
            return Booked(entry, _flags(entry, "incomplete_history"), "unmatched", unmatched=amount)
        flags = _flags(
            entry,
            *(["opening_inventory_unknown"] if any(s.lot.origin is None for s in slices) else []),
        )
        lots = tuple((s.lot.origin, s.amount, s.cost) for s in slices)
        known = [
            (s, p)
            for s, p in zip(slices, share(entry.sol, [s.amount for s in slices]), strict=False)
            if s.cost is not None
        ]
        if not known:
            return Booked(entry, flags, "unmatched", unmatched=amount, lots=lots)
        matched, proceeds, cost = (
            sum(s.amount for s, _ in known),
            sum(p for _, p in known),
            sum(s.cost for s, _ in known),
        )
        return Booked(
            entry,
            flags,
            "matched" if matched == amount else "partial",
            proceeds - cost,
            proceeds,
            cost,
            matched,
            amount - matched,
            lots,
        )

    def _book_swap(self, entry: Entry, fell: dict[str, int], rose: dict[str, int]) -> Booked:
        ((given_mint, given),) = fell.items()
        slices = self._cut(given_mint, given)
        if given_mint in self._broken:
            # the cost it carries over may be another lot's
            self._broken.add(entry.mint)
        carried = self._carry(entry, entry.mint, slices, rose.pop(entry.mint), -entry.sol)
        self._put_unknown(entry, rose)
        return Booked(entry, _flags(entry, *(["basis_carried"] if carried else [])))

    def _carry(self, entry: Entry, mint: str, slices: list[Slice], amount: int, spent: int) -> bool:
        """Lots of `mint` that carry the cost of the slices given for them, and their share of the
        SOL spent.
        """
        groups, whole = [[]], sum(s.amount for s in slices)
        for one in slices:
            groups[-1].append(one)
            if amount * sum(s.amount for s in groups[-1]) // whole:
                # enough for a unit; else it joins the next
                groups.append([])
        groups = [g for g in groups if g]
        if len(groups) > 1 and not amount * sum(s.amount for s in groups[-1]) // whole:
            groups[-2:] = [groups[-2] + groups[-1]]
        sizes = [sum(s.amount for s in group) for group in groups]
        carried = False
        for group, got, part in zip(
            groups, share(amount, sizes), share(spent, sizes), strict=False
        ):
            cost = None if any(s.cost is None for s in group) else sum(s.cost for s in group) + part
            carried = carried or cost is not None
            self._put(mint, entry.signature, got, cost)
        return carried

    # ---- orders: an escrow keeps its lots --------------------------------------------------------
    def _book_order(self, entry: Entry, fell: dict[str, int], rose: dict[str, int]) -> Booked:
        for mint, amount in fell.items():
            slices, address = self._cut(mint, amount), _escrow_of(entry, mint)
            if entry.kind == "order_open" and address:
                self.escrows.setdefault(address, []).extend(slices)
        left = [
            (mint, s)
            for address, mint, before, after in entry.others
            if address in self.escrows
            for s in self._release(address, before - after)
        ]
        self._taken |= {mint: entry.slot for mint, _ in left}
        if entry.kind == "order_cancel":
            self._put_back(left, rose)
        elif entry.kind == "order_fill" and left and len(rose) == 1:
            ((mint, amount),) = rose.items()
            if self._broken & {given for given, _ in left}:
                self._broken.add(mint)
            carried = self._carry(entry, mint, [s for _, s in left], amount, 0)
            return Booked(entry, _flags(entry, *(["basis_carried"] if carried else [])))
        self._put_unknown(entry, rose)
        return Booked(entry, entry.flags)

    def _release(self, address: str, quantity: int) -> list[Slice]:
        """Slices that left an escrow, oldest first."""
        kept, out = self.escrows.pop(address), []
        for one in kept:
            part = min(one.amount, max(0, quantity))
            quantity -= part
            first = None if one.cost is None else one.cost * part // one.amount
            if part:
                out.append(Slice(one.lot, part, first))
            if part < one.amount:
                rest = Slice(
                    one.lot, one.amount - part, None if first is None else one.cost - first
                )
                self.escrows.setdefault(address, []).append(rest)
        return out

    def _put_back(self, slices: list[tuple[str, Slice]], rose: dict[str, int]) -> None:
        """What comes back keeps its cost and its place in the queue; more than that is of unknown
        cost.
        """
        for mint, one in slices:
            # a withheld transfer fee does not come back
            amount = min(one.amount, rose.get(mint, 0))
            if amount:
                cost = None if one.cost is None else one.cost * amount // one.amount
                insort(
                    self.lots.setdefault(mint, []),
                    Lot(one.lot.number, one.lot.origin, amount, cost, amount, cost),
                )
                rose[mint] -= amount

    # ---- lots ------------------------------------------------------------------------------------
    def _put(self, mint: str, origin: str | None, amount: int, cost: int | None) -> None:
        self._moved.add(mint)
        if amount:
            self._lots += 1
            self.lots.setdefault(mint, []).append(
                Lot((1, self._lots), origin, amount, cost, amount, cost)
            )

    def _put_unknown(self, entry: Entry, rose: dict[str, int]) -> None:
        for mint, amount in rose.items():
            self._put(mint, entry.signature, amount, None)

    def _cut(self, mint: str, amount: int) -> list[Slice]:
        """Slices of the oldest lots. More than there is cannot happen where the chain holds;
        elsewhere it is of unknown origin.
        """
        lots, slices = self.lots.get(mint, []), []
        self._moved.add(mint)
        self._taken[mint] = self.last_slot or 0
        while amount and lots:
            part = min(lots[0].left, amount)
            slices.append(lots[0].cut(part))
            amount -= part
            if not lots[0].left:
                lots.pop(0)
        if amount:
            slices.append(Slice(Lot((0,), None, amount, None, 0, None), amount, None))
        return slices

    # ---- the chain of balances -------------------------------------------------------------------
    def _check_chain(self, entry: Entry, balance: Balance) -> None:
        """What an account held before this receipt must be what the last one left it with."""
        last = self.seen.get(balance.address)
        self.seen[balance.address] = Seen(
            entry.slot, balance.mint, balance.after, balance.lamports_after
        )
        if last is None:
            self.found.pop(balance.address, None)
            self._open(entry, balance)
            return
        if (last.amount, last.lamports) == (balance.before, balance.lamports_before):
            return
        self._break(Gap(last.slot, entry.slot, "balance_break"), balance.mint)
        self._adjust(balance, balance.before - last.amount)

    def _open(self, entry: Entry, balance: Balance) -> None:
        if not balance.before and not balance.lamports_before:
            return
        self.opened = True
        # the wallet's beginning was seen, this account's was not
        if self._born:
            self._break(Gap(self.first_slot, entry.slot, "opening_balance"), balance.mint)
        if balance.before and balance.mint not in (None, WRAPPED_SOL):
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
        """Opening inventory stands before all lots, whenever it is found: in time only where
        nothing of its mint was booked yet.
        """
        self.openings.add(opening.mint)
        self.found[address] = opening
        if self.expected.get(address) != opening:
            self._late = self._late or opening.mint in self._moved
            self._lay(opening)

    def _lay(self, opening: Opening) -> None:
        self.decimals[opening.mint] = opening.decimals
        insort(
            self.lots.setdefault(opening.mint, []),
            Lot(opening.rank, None, opening.amount, None, opening.amount, None),
        )

    def _adjust(self, balance: Balance, more: int) -> None:
        """Inventory that arrived or left unobserved. Wrapped SOL has no lots."""
        if balance.mint in (None, WRAPPED_SOL) or not more:
            return
        self.decimals[balance.mint] = balance.decimals
        if more > 0:
            self._put(balance.mint, None, more, None)
        else:
            self._cut(balance.mint, -more)

    def _break(self, gap: Gap, mint: str | None) -> None:
        """No sale after the beginning of a gap has a result, also where the gap shows only later,
        on another account of the mint.
        """
        mint = None if mint == WRAPPED_SOL else mint
        if gap not in self.gaps:
            self.gaps.append(gap)
        begin = self.found_gap_starts[mint] = min(
            gap.from_slot, self.found_gap_starts.get(mint, gap.from_slot)
        )
        taken = max(self._taken.values(), default=0) if mint is None else self._taken.get(mint, 0)
        self._late = self._late or (taken > begin and self.gap_starts.get(mint, taken) > begin)
        self._mark_broken(mint)

    def _mark_broken(self, mint: str | None) -> None:
        if mint is None:
            self._broken_all = True
        else:
            self._broken.add(mint)

    # ---- sums ------------------------------------------------------------------------------------
    def _count_in(self, booked: Booked) -> None:
        totals, entry = self.totals, booked.entry
        if entry.kind == "failed":
            totals.failed += 1
            totals.failed_cost += entry.fee
        elif entry.kind in TRADES:
            totals.trades += 1
            totals.volume += abs(entry.sol) if entry.kind != "swap" else 0
        else:
            totals.overhead += entry.fee
        if booked.status == "not_applicable" or "incomplete_history" in booked.flags:
            return
        setattr(totals, booked.status, getattr(totals, booked.status) + 1)
        totals.realized += booked.result or 0
        totals.winning += (booked.result or 0) > 0

    def positions(self) -> list[tuple[str, int, int, int | None, int]]:
        """[(mint, raw amount, decimals, cost of the part whose cost is known or None, raw amount of
        unknown cost), ...] by mint.
        """
        rows = []
        for mint in sorted(m for m, lots in self.lots.items() if lots):
            known = [lot for lot in self.lots[mint] if lot.cost is not None]
            amount = sum(lot.left for lot in self.lots[mint])
            rows.append(
                (
                    mint,
                    amount,
                    self.decimals[mint],
                    sum(lot.left_cost for lot in known) if known else None,
                    amount - sum(lot.left for lot in known),
                )
            )
        return rows


def _flags(entry: Entry, *more: str) -> tuple[str, ...]:
    return tuple(sorted({*entry.flags, *more}))


def _escrow_of(entry: Entry, mint: str) -> str | None:
    """The token account, not the wallet's, that received most of this mint."""
    gains = [
        (after - before, address)
        for address, of, before, after in entry.others
        if of == mint and after > before
    ]
    return max(gains)[1] if gains else None
