"""Find what others paid into a trade's pools in the same transaction (docs/verified.md). Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property

from chain.reading.flows import Flows
from chain.reading.instructions import WRAPPED_SOL
from chain.reading.moves import Move, is_read
from chain.reading.programs import TIP_ACCOUNTS
from chain.reading.receipts import Instruction

# An account that receives less than this share of the amounts inside collects a fee; it isn't a
# pool.
MIN_POOL_PERCENT = 5

Key = tuple[str, str]


class Feeding:
    """What foreign accounts gave and took, by (mint, account), wrapped SOL for lamports.

    `gave`: inside the trade, less what other foreign accounts paid in there. `took`: the same with
    the wallet's payments, as a gain. `from_wallet`: what the wallet paid in anywhere, less what it
    got back outside the trade.
    """

    def __init__(self, flows: Flows) -> None:
        self.flows = flows
        self.gave: dict[Key, int] = defaultdict(int)
        self.took: dict[Key, int] = defaultdict(int)
        self.from_wallet: dict[Key, int] = defaultdict(int)
        self.outside: list[Move] = []
        self.spent: set[str] = set()
        self._spenders = flows.receipt.signers | {flows.effect.wallet}
        for move in flows.moves:
            if move.call in flows.trading:
                self._add_inside(move)
            else:
                self._add_outside(move)

    def _add_inside(self, move: Move) -> None:
        own, mint = self.flows.own, move.mint
        if move.source and move.source not in own:
            self.gave[mint, move.source] += move.amount
            self.took[mint, move.source] -= move.amount
        if move.target and move.target not in own:
            self.took[mint, move.target] += move.amount
            side = self.from_wallet if move.source in own else self.gave
            side[mint, move.target] += move.amount if move.source in own else -move.amount

    def _add_outside(self, move: Move) -> None:
        own = self.flows.own
        if move.target and move.target not in own:
            if move.source in own or (move.source is None and self._opens(move.target)):
                # a token launch mints its supply
                self.from_wallet[move.mint, move.target] += move.amount
            else:
                self.outside.append(move)
        elif move.source and move.source not in own:
            self.from_wallet[move.mint, move.source] -= move.amount

    def shares_fed(self) -> Iterator[tuple[int, int]]:
        """Yield (the givers' loss, what they gave) for each mint that others may have fed."""
        fed: Counter[str] = Counter()
        for (mint, account), gave in self.gave.items():
            # Makers and takers sign: they pay with their own funds.
            if gave > 0 and account in self._filled and not self._signs(account):
                fed[mint] += max(0, gave - self._lost(mint, account))
        if self.flows.unshown_in > 0:
            fed[WRAPPED_SOL] += self._unshown_fed()
        for mint, amount in fed.items():
            if amount:
                paid = self._paid(mint)
                yield paid - amount, paid

    @cached_property
    def _filled(self) -> set[str | None]:
        """Return accounts that received something, or that the wallet received from, outside the
        trade.
        """
        filled = {move.target for move in self.outside}
        filled |= {account for (_, account), amount in self.from_wallet.items() if amount < 0}
        return filled | {account for account, amount in self.flows.unshown.items() if amount > 0}

    def _paid(self, mint: str) -> int:
        """Return the wallet's gain, else what it received, else the flows from pool to pool."""
        got, given = self.flows.got(mint), self.flows.given(mint)
        if mint == WRAPPED_SOL:
            got += max(0, self.flows.unshown_in)
        if not got:
            return sum(max(0, gave) for (of, _), gave in self.gave.items() if of == mint)
        return got - given if got > given else got

    def _signs(self, account: str) -> bool:
        owners = (account, self.opened_for.get(account), *self.flows.owners(account))
        return any(owner in self.flows.receipt.signers for owner in owners)

    @cached_property
    def opened_for(self) -> dict[str | None, str | None]:
        """Return owners of token accounts opened here; some are in no token balance."""
        names = ("initialize", "associate")
        return {o.target: o.authority for o in self.flows.receipt.operations if o.name in names}

    def _lost(self, mint: str, account: str) -> int:
        """Return what an account lost, not counting what the wallet paid in."""
        receipt = self.flows.receipt
        if mint == WRAPPED_SOL:
            before, after = receipt.lamports(account)
        else:
            sides = receipt.tokens.get(account, (None, None))
            before, after = (one.amount if one and one.mint == mint else 0 for one in sides)
        return before - after + self.from_wallet.get((mint, account), 0)

    def _unshown_fed(self) -> int:
        """Return the lamports that programs moved to the wallet without costing a pool anything."""
        needed = self.flows.unshown_explained() - self.flows.unshown_returned()
        paid = 0
        for account in self._payers():
            gave = min(-self.flows.unshown[account], needed)
            shown = max(0, self.gave.get((WRAPPED_SOL, account), 0))
            paid += max(0, min(gave, self._lost(WRAPPED_SOL, account) - shown))
        return max(0, needed - paid)

    def _payers(self) -> list[str]:
        """Return accounts that may have paid the wallet without a visible instruction."""
        called = (self.flows.calls[place].body.named for place in self.flows.trading)
        named = self.flows.partners.union(*called)
        return [
            account
            for account in named - self.flows.own
            if self.flows.unshown.get(account, 0) < 0
            and (
                account not in self._foreign_held
                or self._share_taken(account) * 100 >= MIN_POOL_PERCENT
            )
        ]

    @cached_property
    def _foreign_held(self) -> set[str]:
        """Return accounts that an unknown program could change outside the trade."""
        flows = self.flows
        return {
            account
            for placed in flows.placed
            if placed.call not in flows.trading
            and not is_read(placed.instruction)
            and not flows.programs.family(placed.instruction.program)
            for account in placed.instruction.accounts
        }

    def _share_taken(self, account: str) -> float:
        """Return the largest share of anything inside that went to this account, its token
        accounts, or other accounts of its owner.
        """
        people = {account, *self.flows.owners(account)}
        mine: Counter[str] = Counter()
        for (mint, who), took in self.took.items():
            if took > 0 and people & {who, *self.flows.owners(who)}:
                mine[mint] += took
        return max((took / self._all_taken[mint] for mint, took in mine.items()), default=0)

    @cached_property
    def _all_taken(self) -> Counter[str]:
        totals: Counter[str] = Counter()
        for (mint, _), took in self.took.items():
            totals[mint] += max(0, took)
        for mint in totals:
            totals[mint] += self.flows.got(mint)
        return totals

    def paid_along(self, mint: str) -> int:
        """Return how much others paid of what the wallet gave, into its calls or its pools."""
        given, got = self.flows.given(mint), self.flows.got(mint)
        if given <= got:
            return 0
        lost = any(took < 0 and of == mint for (of, _), took in self.took.items())
        return (self._given_along(mint) if lost else 0) + self._poured(mint)

    def _given_along(self, mint: str) -> int:
        """Return what was given inside by signers, by accounts that let the wallet spend, and by
        accounts that got nothing in return. Rent isn't part of a price.
        """
        paid: Counter[str] = Counter()
        for move in self.flows.moves:
            if move.call not in self.flows.trading or move.mint != mint:
                continue
            if move.source and move.source not in self.flows.own:
                paid[move.source] += 0 if move.target in TIP_ACCOUNTS else move.amount
                if self._signs(move.source) or move.authority in self._spenders:
                    self.spent.add(move.source)
            if move.target:
                paid[move.target] -= move.amount
                paid[move.source or ""] -= self._rent(move)
        total = self._all_taken[mint]
        return sum(
            amount
            for account, amount in paid.items()
            if amount > 0
            and (account in self.spent or 2 * self._share_taken(account) * total < amount)
        )

    def _rent(self, move: Move) -> int:
        """Return how many of the lamports paid into an account opened here are its rent."""
        if move.mint != WRAPPED_SOL or not (move.opens or self._opens(move.target)):
            return 0
        side = self.flows.receipt.tokens.get(move.target or "", (None, None))[1]
        wrapped = side.amount if side and side.mint == WRAPPED_SOL else 0
        after = self.flows.receipt.lamports(move.target or "")[1]
        return min(move.amount, max(0, after - wrapped))

    def _opens(self, account: str | None) -> bool:
        sides = self.flows.receipt.tokens.get(account or "")
        return sides is not None and sides[0] is None

    def _poured(self, mint: str) -> int:
        """Return plain transfers to accounts that received what the wallet gave, and lamports put
        there by an unknown program.
        """
        poured = [
            m
            for m in self.outside
            if m.mint == mint and self._is_pool(mint, m.target) and not m.opens
        ]
        amount = 0
        if poured:
            plain = Counter((m.source, m.target, m.amount) for m in poured)
            plain -= _count_traded(self.flows)
            amount = sum(count * one for (_, _, one), count in plain.items())
        if mint != WRAPPED_SOL:
            return amount
        gains = {a: n for a, n in self.flows.unshown.items() if n > 0 and self._is_pool(mint, a)}
        return (
            amount + sum(gains[a] for a in gains.keys() & self._foreign_held) if gains else amount
        )

    def _is_pool(self, mint: str, account: str | None) -> bool:
        took = self.took.get((mint, account or ""), 0)
        return took > 0 and took * 100 >= MIN_POOL_PERCENT * self._all_taken[mint]


def _count_traded(flows: Flows) -> Counter[tuple[str | None, str | None, int]]:
    """Return transfers made by known calls."""
    found: Counter[tuple[str | None, str | None, int]] = Counter()

    def walk(one: Instruction, known: bool) -> None:
        known = known or bool(flows.programs.family(one.program))
        if known and one.operation:
            found[one.operation.source, one.operation.target, one.operation.amount] += 1
        for inner in one.inner:
            walk(inner, known)

    for top in flows.receipt.instructions:
        walk(top, False)
    return found
