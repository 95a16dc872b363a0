"""Turn a wallet's entries, in chain order, into lots, results and gaps. Pure.

Each currency in the wallet (SOL and each stablecoin) has an inventory. An entry moves the same
units in all of them (first in, first out, in integers). Then each view of each currency prices the
move (chain.ledger.sales).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from chain.addresses import WRAPPED_SOL
from chain.ledger.coverage import BalanceChain, Seen
from chain.ledger.inventory import (
    SOL,
    UNDATED,
    Cut,
    Escrow,
    Inventory,
    KnownCost,
    Opening,
    Position,
    join_cuts,
)
from chain.ledger.sales import (
    UNEXPLAINED,
    Booked,
    Fill,
    Moved,
    book,
    mark_paid_elsewhere,
    see_side,
)
from chain.ledger.totals import (
    ALL_HISTORY,
    HOUR_SECONDS,
    Account,
    Holdings,
    Key,
    Spans,
    Totals,
)
from chain.reading.currencies import MINTS
from chain.reading.entries import Entry
from chain.reading.flows import Balance
from chain.reading.kinds import TRADES


# ---- deposits ------------------------------------------------------------------------------------
@dataclass
class Deposits:
    """The wallet's deposits at venues, in raw units by (venue's account, mint).

    Lamports are under wrapped SOL. At order books, deposits of any mint count. In orders and at
    lenders, only SOL and stablecoins count.
    """

    held: dict[tuple[str, str], int] = field(default_factory=dict)
    parked: Counter[str] = field(default_factory=Counter)

    def follow(self, entry: Entry) -> Entry:
        """Book an entry. Return it without a price if an order book may have paid out deposits."""
        is_priced = entry.kind in TRADES and UNEXPLAINED not in entry.flags
        if is_priced and any([self.held.get(row[:2], 0) > 0 for row in entry.others]):
            entry = entry._replace(flags=tuple(sorted({*entry.flags, UNEXPLAINED})))
            is_priced = False
        if not is_priced:
            self._follow_others(entry)
        for address, mint, raw in entry.parked:
            self._change((address, mint), raw, entry.kind == "lending")
        return entry

    def _follow_others(self, entry: Entry) -> None:
        is_order = entry.kind.startswith("order_")
        for address, mint, before, after in entry.others:
            is_money = mint == WRAPPED_SOL or mint in MINTS
            if not is_order or (is_money and (entry.kind == "order_open" or after < before)):
                self._change((address, mint), after - before)

    def _change(self, key: tuple[str, str], amount: int, borrowed: bool = False) -> None:
        """With `borrowed`, the deposit may fall below 0, because a loan is repaid later."""
        held = self.held.get(key, 0)
        left = held + amount
        self.parked[key[1]] += max(0, left) - max(0, held)
        if left > 0 or (left and borrowed):
            self.held[key] = left
        else:
            self.held.pop(key, None)

    def read_fill(self, entry: Entry, escrows: Mapping[str, Escrow]) -> Fill | None:
        """Return None if a third party may have paid, or the order's opening wasn't observed."""
        if entry.kind != "order_fill" or UNEXPLAINED in entry.flags:
            return None
        returned: Counter[str] = Counter()
        for address, mint, before, after in entry.others:
            if mint == WRAPPED_SOL:
                is_ours = (address, mint) in self.held
            else:
                # Deposits without an escrow have no lots to sell.
                is_ours = address in escrows and escrows[address].mint == mint
            if before > after and is_ours:
                returned[mint] += before - after
            elif mint == WRAPPED_SOL and not after:
                return None
        gains = {mint: change for mint, change, _ in entry.venue_tokens}
        gains[WRAPPED_SOL] = entry.venue_sol - returned[WRAPPED_SOL]
        return _price_fill(gains, returned, dict(entry.market))


def _price_fill(
    gains: Mapping[str, int], returned: Counter[str], market: Mapping[str, int]
) -> Fill | None:
    """Return a price if swaps paid for everything gained, and used only what left the order."""
    tokens = [mint for mint in gains if mint != WRAPPED_SOL]
    given = [mint for mint in returned if mint != WRAPPED_SOL]
    is_paid = all(gain <= max(0, market.get(mint, 0)) for mint, gain in gains.items())
    is_gain = all(gains[mint] > 0 for mint in tokens) and len(tokens) <= 1 and len(given) <= 1
    took = {mint: -raw for mint, raw in market.items() if raw < 0}
    is_ours = bool(took) and all(raw <= returned[mint] for mint, raw in took.items())
    if not (is_paid and is_gain and is_ours):
        return None
    if tokens and given:
        return Fill("order_fill", returned)
    if tokens and gains[WRAPPED_SOL] < 0:
        return Fill("buy", returned)
    return Fill("sell", returned) if given and gains[WRAPPED_SOL] > 0 else None


# ---- ledger --------------------------------------------------------------------------------------
WHOLE: Key = (SOL, ALL_HISTORY)

Amounts = dict[str, int]


def split_changes(tokens: Iterable[tuple[str, int, int]]) -> tuple[Amounts, Amounts]:
    rose: Amounts = {}
    fell: Amounts = {}
    for mint, change, _ in tokens:
        if change > 0:
            rose[mint] = change
        elif change < 0:
            fell[mint] = -change
    return rose, fell


def find_traded(entry: Entry, amounts: Amounts) -> str:
    """Return the mint on one side of a trade, ignoring residues."""
    if entry.mint in amounts:
        return entry.mint
    return next(mint for mint in amounts if mint not in entry.residues)


def find_escrow(entry: Entry, mint: str) -> tuple[int, str]:
    """Return (raw units, address) of the account that received most, or (0, "")."""
    gains = [
        (after - before, address)
        for address, of, before, after in entry.others
        if of == mint and after > before
    ]
    return max(gains, default=(0, ""))


@dataclass
class Ledger:
    """A wallet's inventories, results and gaps.

    Until the whole history was listed (`backfilled`), every sale is treated as following a gap. If
    the ledger is `stale`, apply the entries again to `restart()`.
    """

    backfilled: bool = True
    spans: Spans = field(default_factory=Spans)
    chain: BalanceChain = field(default_factory=BalanceChain)
    # By currency, in the order of first use.
    inventories: dict[str, Inventory] = field(default_factory=lambda: {SOL: Inventory()})
    accounts: dict[Key, Account] = field(
        default_factory=lambda: defaultdict(Account, {WHOLE: Account()})
    )
    decimals: dict[str, int] = field(default_factory=dict)
    deposits: Deposits = field(default_factory=Deposits)
    # Latest hour so far, counted from 1970.
    hour: int = 0
    # The deposits by currency when the open attachment began.
    _parked_before: dict[str, int] = field(default_factory=dict)
    # The mints whose cost a swap carried over from a mint with a gap, by currency.
    _doubted: dict[str, set[str]] = field(default_factory=lambda: {SOL: set()})

    def __post_init__(self) -> None:
        for opening in (self.chain.untouched | self.chain.expected).values():
            self._lay(opening)

    def restart(self) -> "Ledger":
        return Ledger(self.backfilled, Spans(self.spans.spans), self.chain.restart())

    @property
    def stale(self) -> bool:
        return self.chain.stale

    @property
    def totals(self) -> Totals:
        """In SOL, over all history."""
        return self.accounts[WHOLE].totals

    def list_positions(self, money: str = SOL) -> list[Position]:
        return self.inventories[money].list_positions(self.decimals)

    def reconcile(self, money: str = SOL) -> Totals:
        totals = self.accounts[money, ALL_HISTORY].totals
        return replace(totals, open_cost=self.inventories[money].known_costs[0].cost)

    def find_imbalances(self) -> dict[str, int]:
        found = {money: self.reconcile(money).imbalance for money in self.inventories if money}
        return {money: raw for money, raw in sorted(found.items()) if raw}

    def find_holdings(self) -> dict[int, Holdings]:
        held = self.spans.count_held(self._count_positions)
        return {number: Holdings(n, self._find_realized(number)) for number, n in held.items()}

    def find_forward_realized(self) -> int | None:
        spans = self.spans.spans
        return sum(self._find_realized(span.number) for span in spans) if spans else None

    def _find_realized(self, view: int) -> int:
        account = self.accounts.get((SOL, view))
        return account.totals.realized if account else 0

    def _count_positions(self, begins: int) -> int:
        positions = self.inventories[SOL].list_positions(self.decimals, begins)
        return sum(one.cost is not None for one in positions)

    def apply(self, entry: Entry) -> dict[Key, Booked]:
        """Book one entry, in chain order. Return its results by currency and view."""
        self._turn(entry)
        if entry.block_time is not None:
            self.hour = max(self.hour, entry.block_time // HOUR_SECONDS)
        self._adopt(entry)
        self.chain.begin(entry)
        fill = self.deposits.read_fill(entry, self.inventories[SOL].escrows)
        entry = self.deposits.follow(entry)
        moved = {
            money: Moved(entry, see_side(entry, money, fill), inventory)
            for money, inventory in self.inventories.items()
        }
        for balance in entry.balances:
            self._check_chain(entry, balance, moved.values())
        for mint, _, places in entry.tokens + entry.beside_tokens:
            self.decimals[mint] = places
        for one in moved.values():
            self._move(one, is_priced=fill is not None)
        made = self._book(entry, moved)
        self._spread_doubt(moved[SOL])
        for key, known in self.list_known_costs():
            if key in self.accounts:
                account = self.accounts[key]
                account.open_cost = self._sum_unsold(key, known)
                account.positions.follow(made.get(key), known, entry.block_time)
        return made

    def _sum_unsold(self, key: Key, known: KnownCost) -> int:
        """Return the raw units that the worst case counts as lost.

        These are the known cost of holdings, and deposits at venues and in orders. For an
        attachment, only deposits since it began count.
        """
        money, view = key
        parked = self.deposits.parked[money or WRAPPED_SOL]
        if view != ALL_HISTORY:
            parked = max(0, parked - self._parked_before.get(money, 0))
        return known.cost + parked

    def _turn(self, entry: Entry) -> None:
        before = self.spans.open
        self.spans.turn(entry, self._count_positions)
        span = self.spans.open
        for money, inventory in self.inventories.items():
            if span is not before:
                inventory.watch(span.begins_ms if span else None)
                self._parked_before[money] = self.deposits.parked[money or WRAPPED_SOL]
            for known in inventory.known_costs:
                known.begin()

    def list_known_costs(self) -> Iterator[tuple[Key, KnownCost]]:
        span = self.spans.open
        views = (ALL_HISTORY, span.number) if span else (ALL_HISTORY,)
        for money, inventory in self.inventories.items():
            for view, known in zip(views, inventory.known_costs, strict=True):
                yield (money, view), known

    def _book(self, entry: Entry, moved: dict[str, Moved]) -> dict[Key, Booked]:
        views, made = self.spans.list_views(entry), {}
        for money, some in moved.items():
            doubt = some.side.kind == "sell" and self._is_doubtful(some.cut.mint, money)
            for view, begins in views:
                booked = book(some, begins, doubt)
                if money != SOL:
                    others = [one for other, one in moved.items() if other != money]
                    booked = mark_paid_elsewhere(booked, some, others, begins)
                self.accounts[money, view].add(booked, money, self.hour)
                made[money, view] = booked
            if UNEXPLAINED not in entry.flags:
                self._count_average(some, doubt)
        return made

    @staticmethod
    def _count_average(moved: Moved, doubt: bool) -> None:
        average, side = moved.inventory.average, moved.side
        if side.kind == "sell" and not doubt:
            average.sell(moved.cut.pool, side.through)
        elif side.kind == "round_trip":
            average.count(side.through)

    def _is_doubtful(self, mint: str, money: str) -> bool:
        return (
            not self.backfilled or self.chain.is_broken(mint, money) or mint in self._doubted[money]
        )

    def _spread_doubt(self, moved: Moved) -> None:
        """Mark received mints: after a gap, the carried cost may belong to another lot."""
        if moved.got is None:
            return
        for money, doubted in self._doubted.items():
            if money != moved.got and moved.cut.mint in (doubted | self.chain.broken):
                doubted.add(moved.got)

    def _adopt(self, entry: Entry) -> None:
        """Start an inventory, at unknown cost, for each stablecoin first held in this entry."""
        for balance in entry.balances:
            money = balance.mint
            if money not in MINTS or money in self.inventories:
                continue
            if money and (balance.before or balance.after):
                self.inventories[money] = self.inventories[SOL].convert(money)
                self._doubted[money] = set(self._doubted[SOL])
                untouched = self.chain.untouched.values()
                held = sum(one.amount for one in untouched if one.mint == money)
                held += sum(one.amount for one in self.chain.seen.values() if one.mint == money)
                totals = self.accounts[money, ALL_HISTORY].totals
                totals.opening = totals.closing = held

    def _move(self, moved: Moved, is_priced: bool) -> None:
        """Move units through the venue and outside it: arrivals first, departures last.

        `is_priced`: whether it is an order's fill at a market price.
        """
        arrived, left = split_changes(moved.entry.beside_tokens)
        self._put_unknown(moved, arrived)
        if moved.entry.kind.startswith("order_"):
            self._move_order(moved, is_priced)
        elif moved.entry.kind != "failed":
            self._move_venue(moved)
        self._drop(moved, left)

    def _move_venue(self, moved: Moved) -> None:
        entry = moved.entry
        rose, fell = split_changes(entry.venue_tokens)
        kind = entry.kind if UNEXPLAINED not in entry.flags else "other"
        if kind == "sell":
            given = find_traded(entry, fell)
            moved.cut = self._cut(moved, given, fell.pop(given))
        elif kind == "swap":
            self._exchange(moved, rose, fell)
        elif kind == "buy":
            mint = find_traded(entry, rose)
            paid = -entry.venue_sol if moved.inventory.money == SOL else None
            self._put(moved, mint, rose.pop(mint), paid)
        # Without a price, outgoing units keep their cost and incoming ones have an unknown cost.
        self._drop(moved, fell)
        self._put_unknown(moved, rose)

    def _exchange(self, moved: Moved, rose: Amounts, fell: Amounts) -> None:
        """Exchange one mint for another, perhaps as a purchase or sale in this currency."""
        entry, money = moved.entry, moved.inventory.money
        given, got = find_traded(entry, fell), find_traded(entry, rose)
        amount = fell.pop(given)
        if money == given:
            paid = None if got in MINTS else amount
            self._put(moved, got, rose.pop(got), paid)
        else:
            moved.got, moved.cut = got, self._cut(moved, given, amount)
            self._carry(moved, rose.pop(got), -entry.venue_sol if money == SOL else 0)

    def _carry(self, moved: Moved, amount: int, spent: int) -> None:
        entry, inventory, got = moved.entry, moved.inventory, moved.got
        assert got is not None
        self.chain.moved.add(got)
        if got != inventory.money:
            moved.carried = inventory.carry(
                moved.cut, got, entry.signature, amount, date(entry), spent
            )

    def _move_order(self, moved: Moved, is_priced: bool) -> None:
        entry, inventory = moved.entry, moved.inventory
        rose, fell = split_changes(entry.venue_tokens)
        if entry.kind == "order_open":
            fell = self._fill_escrows(moved, fell)
        self._drop(moved, fell)
        out = _release(entry, inventory)
        for one in out:
            self.chain.taken[one.mint] = entry.slot
        if is_priced:
            return self._move_fill(moved, out, rose)
        for one in out:
            room = rose.get(one.mint, 0) if entry.kind == "order_cancel" else 0
            moved.left.append((one.mint, inventory.put_back(one, room)))
            if returned := min(room, one.amount):
                rose[one.mint] -= returned
        return self._put_unknown(moved, rose)

    def _move_fill(self, moved: Moved, out: list[Cut], rose: Amounts) -> None:
        if out:
            moved.cut = join_cuts(out)
        for got, amount in rose.items():
            if out:
                moved.got = got
                self._carry(moved, amount, 0)
            else:
                paid = -moved.side.through
                is_known = paid > 0 and not (moved.inventory.money and got in MINTS)
                self._put(moved, got, amount, paid if is_known else None)

    def _fill_escrows(self, moved: Moved, fell: Amounts) -> Amounts:
        """Move units into their escrows. Return the remaining decreases."""
        rest = dict(fell)
        for mint, amount in fell.items():
            reached, address = find_escrow(moved.entry, mint)
            if (held := min(amount, reached)) and mint != moved.inventory.money:
                moved.inventory.hold(address, self._cut(moved, mint, held))
                rest[mint] -= held
        return {mint: amount for mint, amount in rest.items() if amount}

    def _lay(self, opening: Opening) -> None:
        self.decimals[opening.mint] = opening.decimals
        for inventory in self.inventories.values():
            inventory.lay(opening)

    def _put(self, moved: Moved, mint: str, amount: int, cost: int | None = None) -> None:
        self.chain.moved.add(mint)
        moved.inventory.put(mint, moved.entry.signature, amount, cost, date(moved.entry))

    def _put_unknown(self, moved: Moved, rose: Amounts) -> None:
        for mint, amount in rose.items():
            self._put(moved, mint, amount)

    def _cut(self, moved: Moved, mint: str, amount: int) -> Cut:
        self.chain.moved.add(mint)
        self.chain.taken[mint] = moved.entry.slot
        return moved.inventory.cut(mint, amount)

    def _drop(self, moved: Moved, fell: Amounts) -> None:
        for mint, amount in fell.items():
            moved.left.append((mint, self._cut(moved, mint, amount).slices))

    def _check_chain(self, entry: Entry, balance: Balance, moved: Iterable[Moved]) -> None:
        last = self.chain.follow(entry, balance)
        joins = last is not None and last.joins(
            balance.mint, balance.before, balance.lamports_before
        )
        for money in self.inventories:
            self._count_money(money, last, balance, joins)
        if joins:
            return
        if last is None:
            opening = self.chain.open_account(entry, balance)
            if opening:
                self._lay(opening)
            return
        for mint, more in self.chain.break_chain(entry, last, balance).items():
            self.decimals.setdefault(mint, balance.decimals)
            for one in moved:
                # Inventory arrived or left unobserved.
                if more > 0:
                    self.chain.moved.add(mint)
                    one.inventory.put(mint, None, more)
                else:
                    self._drop(one, {mint: -more})

    def _count_money(self, money: str, last: Seen | None, balance: Balance, joins: bool) -> None:
        totals = self.accounts[money, ALL_HISTORY].totals
        known = count_money(money, last.mint, last.amount, last.lamports) if last else 0
        after = count_money(money, balance.mint, balance.after, balance.lamports_after)
        totals.closing += after - known
        if not joins:
            before = count_money(money, balance.mint, balance.before, balance.lamports_before)
            if last is None:
                totals.opening += before
            else:
                totals.gaps += before - known


def _release(entry: Entry, inventory: Inventory) -> list[Cut]:
    """Return the units that left the wallet's escrows.

    Units missing from the books leave only in a fill. Otherwise they count as arrivals.
    """
    out = []
    for address, mint, before, after in entry.others:
        if address in inventory.escrows and mint == inventory.escrows[address].mint:
            amount = before - after
            if entry.kind != "order_fill":
                amount = min(amount, inventory.escrows[address].amount)
            out.append(inventory.release(address, amount))
    return [one for one in out if one.slices]


def count_money(money: str, mint: str | None, amount: int, lamports: int) -> int:
    if money == SOL:
        return lamports
    return amount if mint == money else 0


def date(entry: Entry) -> int:
    return UNDATED if entry.happened_at is None else entry.happened_at
