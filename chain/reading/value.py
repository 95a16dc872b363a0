"""Find which part of a trade's value passed through its venue (docs/verified.md). Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from chain.reading.flows import Amounts, Flows, Move, is_read
from chain.reading.instructions import WRAPPED_SOL
from chain.reading.programs import TIP_ACCOUNTS
from chain.reading.receipts import Instruction


# ---- what passed through the venue ---------------------------------------------------------------
class Change(NamedTuple):
    """The change of a token's balance in signed raw units."""

    mint: str
    raw: int
    decimals: int


def list_venue_changes(
    whole: Iterable[Sequence[Any]], beside: Iterable[Sequence[Any]]
) -> list[Change]:
    """Return a transaction's changes minus those outside its venue, without zeros.

    Rows are (mint, raw change as a number or text, decimals). A token that was bought and sent on
    is only in `beside`, although it passed through the venue.
    """
    raws: dict[str, int] = {}
    places: dict[str, int] = {}
    for sign, rows in ((1, whole), (-1, beside)):
        for mint, raw, decimals in rows:
            raws[mint] = raws.get(mint, 0) + sign * int(raw)
            places.setdefault(mint, decimals)
    return [Change(mint, raw, places[mint]) for mint, raw in raws.items() if raw]


# ---- what others paid into the pools -------------------------------------------------------------
# If an account receives less than this percentage of the amounts inside, it collects a fee and
# isn't a pool.
MIN_POOL_PERCENT = 5

Key = tuple[str, str]


class Feeding:
    """The amounts that foreign accounts gave and took, by (mint, account). Lamports are under
    wrapped SOL.

    `gave` are the amounts given inside the trade, minus other foreign accounts' payments there.
    `took` are the gains inside the trade, including the wallet's payments. `from_wallet` are the
    wallet's payments anywhere, minus refunds outside the trade.
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
                # A token launch mints its supply.
                self.from_wallet[move.mint, move.target] += move.amount
            else:
                self.outside.append(move)
        elif move.source and move.source not in own:
            self.from_wallet[move.mint, move.source] -= move.amount

    def shares_fed(self) -> Iterator[tuple[int, int]]:
        """Yield (the givers' loss, the amount they gave) for each mint that others may have fed."""
        fed: Counter[str] = Counter()
        for (mint, account), gave in self.gave.items():
            # Makers and takers sign, because they pay with their own funds.
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
        """Return the accounts that received something, or from which the wallet received something,
        outside the trade.
        """
        filled = {move.target for move in self.outside}
        filled |= {account for (_, account), amount in self.from_wallet.items() if amount < 0}
        return filled | {account for account, amount in self.flows.unshown.items() if amount > 0}

    def _paid(self, mint: str) -> int:
        """Return the wallet's gain, or else the amount it received, or else the flows from pool to
        pool.
        """
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
        """Return the owners of token accounts opened here. Some of these accounts aren't in a token
        balance.
        """
        names = ("initialize", "associate")
        return {o.target: o.authority for o in self.flows.receipt.operations if o.name in names}

    def _lost(self, mint: str, account: str) -> int:
        """Return the amount an account lost, without counting the wallet's payments into it."""
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
        """Return the accounts that may have paid the wallet without a visible instruction."""
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
        """Return the accounts that an unknown program could change outside the trade."""
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
        accounts, or its owner's other accounts.
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
        """Return how much of the mint that the wallet gave was paid by others into its calls or its
        pools.
        """
        given, got = self.flows.given(mint), self.flows.got(mint)
        if given <= got:
            return 0
        lost = any(took < 0 and of == mint for (of, _), took in self.took.items())
        return (self._given_along(mint) if lost else 0) + self._poured(mint)

    def _given_along(self, mint: str) -> int:
        """Return the amount given inside by signers, by accounts that let the wallet spend, and by
        accounts that got nothing in return.

        Rent doesn't count, because it isn't part of a price.
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
        """Return the part of the lamports paid into an account opened here that is its rent."""
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
        """Return the plain transfers to accounts that received what the wallet gave, and the
        lamports put there by an unknown program.
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


# ---- what explains a trade's value ---------------------------------------------------------------
# The minimum explained percentage of what was received, and of what was given.
MIN_EXPLAINED_PERCENT = 95


@dataclass(frozen=True)
class Split:
    """The part of a trade outside its venue, as the signed amounts `beside_sol` and
    `beside_tokens`.

    `signed` means that an account in `counterparties` belongs to a signer. `fed` means that others
    paid into the trade or its pools. The other fields are as in an Entry.
    """

    beside_sol: int = 0
    beside_tokens: tuple[tuple[str, int, int], ...] = ()
    explained_percent: int | None = None
    counterparties: tuple[str, ...] = ()
    signed: bool = False
    fed: bool = False
    market: tuple[tuple[str, int], ...] = ()

    @property
    def explained(self) -> bool:
        return not self.fed and (self.explained_percent or 0) >= MIN_EXPLAINED_PERCENT


def split_trade(
    flows: Flows,
    changes: Iterable[tuple[str, int, int]],
    sol: str,
    residues: Iterable[str] = (),
    explain_feeding: bool = True,
) -> Split:
    """Split a trade.

    `changes` excludes those outside the venue. `sol` is "got", "both" or "" (only sent).
    """
    legs = [(mint, change) for mint, change, _ in changes if mint not in set(residues)]
    beside = flows.beside.copy()
    shares = [_explain_token(flows, mint, change) for mint, change in legs]
    rest = flows.unshown_in - flows.unshown_explained()
    if sol:
        shares.append(_explain_sol(flows, sol))
    shares += [_explain_payers(flows, mint) for mint in (*dict(legs), WRAPPED_SOL)]
    fed_percent, fed = _explain_feeding(flows, dict(legs)) if explain_feeding else (100, False)
    percent = min(fed_percent, *(_percent(*share) for share in shares))
    whole = percent >= MIN_EXPLAINED_PERCENT and not fed
    if whole or not sol:
        beside[WRAPPED_SOL] += rest
    if whole:
        for mint, change in legs:
            explained, _ = _explain_token(flows, mint, change)
            beside[mint] += max(0, change - explained) if change > 0 else 0
    got = [mint for mint, change in legs if change > 0] + ([WRAPPED_SOL] if sol else [])
    others = flows.counterparties(got)
    signed = _any_signed(flows, others)
    return Split(beside[WRAPPED_SOL], token_rows(flows, beside), percent, others, signed, fed)


def split_fill(flows: Flows) -> Split:
    """Split an order's fill. Everything received must come from known calls."""
    risen = [row for row in venue_tokens(flows) if row[1] > 0]
    if risen:
        return split_trade(flows, risen, "", explain_feeding=False)
    beside = flows.beside
    if any(amount > 0 for amount in beside.values()):
        # Everything arrived by other instructions, so none of the price is explained.
        return Split(beside[WRAPPED_SOL], token_rows(flows, beside), 0)
    if flows.effect.sol + flows.effect.fee > 0:
        return split_trade(flows, (), "got", explain_feeding=False)
    return Split()


def add_market(split: Split, flows: Flows) -> Split:
    """Add to a fill's split the amounts that swap calls paid and took.

    `flows` covers everyone on its side.
    """
    if not flows.choose_trading():
        return split
    net: Amounts = Counter()
    for call in flows.calls:
        net.update(call.net)
    net[WRAPPED_SOL] += flows.unshown_explained()
    percent, fed = _explain_feeding(flows, net)
    # Transfers from the wallet's own side straight to an account in the trade count as feeding,
    # too.
    if fed or any(who in flows.partners for (_, who), paid in flows.went.items() if paid):
        return replace(split, explained_percent=percent, fed=True)
    return replace(split, market=tuple(sorted((m, n) for m, n in net.items() if n)))


def split_unpriced(flows: Flows) -> Split:
    """Split a trade that can be interpreted in more than one way, so none of it is explained."""
    beside = flows.beside
    return Split(beside[WRAPPED_SOL], token_rows(flows, beside))


def venue_tokens(flows: Flows) -> tuple[tuple[str, int, int], ...]:
    """Return ((mint, raw change, decimals), ...) without changes outside the venue."""
    beside = token_rows(flows, flows.beside)
    return tuple(sorted(list_venue_changes(flows.effect.tokens, beside)))


def token_rows(flows: Flows, amounts: Amounts) -> tuple[tuple[str, int, int], ...]:
    """Return rows sorted by mint, without zeros and SOL."""
    told = flows.receipt.tokens.values()
    decimals = {side.mint: side.decimals for sides in told for side in sides if side}
    return tuple(
        (mint, amount, decimals.get(mint, 0))
        for mint, amount in sorted(amounts.items())
        if amount and mint != WRAPPED_SOL
    )


def _explain_token(flows: Flows, mint: str, change: int) -> tuple[int, int]:
    """Return (raw units that moved inside the trade, raw units by which balances changed)."""
    moved = flows.got(mint) - flows.given(mint)
    return (moved, change) if change > 0 else (-moved, -change)


def _explain_sol(flows: Flows, sol: str) -> tuple[int, int]:
    """Return (lamports received from the venue, lamports received)."""
    shown = flows.got(WRAPPED_SOL) - (flows.given(WRAPPED_SOL) if sol == "got" else 0)
    explained = flows.unshown_explained()
    unshown = flows.unshown_in if flows.unshown_foreign() else explained
    return shown + explained, shown + unshown


def _explain_payers(flows: Flows, mint: str) -> tuple[int, int]:
    """Return (the amount that the wallet gave, the amount that everyone gave).

    Others' purchases have no price.
    """
    given = flows.given(mint)
    return (given, given + flows.paid_by_others(mint)) if given else (1, 1)


def _explain_feeding(flows: Flows, legs: Iterable[str]) -> tuple[int, bool]:
    """Return (percentage not paid by third parties, whether a third party paid).

    Any gift of a token that the wallet gives counts. Pools may gain a little from others.
    """
    if flows.whole:
        return 100, False
    feeding = Feeding(flows)
    paid = {mint: feeding.paid_along(mint) for mint in {*legs, WRAPPED_SOL}}
    shares = list(feeding.shares_fed())
    shares += [(flows.given(mint), flows.given(mint) + more) for mint, more in paid.items() if more]
    percent = min((_percent(*share) for share in shares if share[1]), default=100)
    return percent, any(paid.values()) or percent < MIN_EXPLAINED_PERCENT


def _percent(explained: int, total: int) -> int:
    return max(0, min(100, explained * 100 // total)) if total > 0 else 0


def _any_signed(flows: Flows, accounts: Iterable[str]) -> bool:
    signers = flows.receipt.signers - {flows.effect.wallet}
    return any(signers & {account, *flows.owners(account)} for account in accounts)


def is_fee_income(flows: Flows) -> bool:
    """Return whether the trade paid a fee to a wallet that neither signed nor gave anything, and
    paid more to others.
    """
    effect = flows.effect
    gains = {mint: change for mint, change, _ in effect.tokens}
    gains[WRAPPED_SOL] = effect.sol + effect.fee
    arrived = any(call.delivered for call in flows.calls) or flows.unshown_in > 0
    if effect.wallet in flows.receipt.signers or not arrived or min(gains.values()) < 0:
        return False
    risen = [(mint, gain) for mint, gain in gains.items() if gain]
    return bool(risen) and all(2 * gain < _all_gains(flows, mint) for mint, gain in risen)


def _all_gains(flows: Flows, mint: str) -> int:
    if mint == WRAPPED_SOL:
        sides = flows.receipt.balances.values()
        return sum(max(0, after - before) for before, after in sides)
    return sum(
        max(0, after.amount - (before.amount if before else 0))
        for before, after in flows.receipt.tokens.values()
        if after and after.mint == mint
    )
