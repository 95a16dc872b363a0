"""What a receipt did to one wallet. Pure; amounts in lamports and raw token units.

Movements are grouped by acting call: an outermost known swap instruction that concerns the wallet,
with everything it called (docs/verified.md). They show which part of a trade's value passed through
the venue, and what the wallet deposits and gets back.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from chain.addresses import (
    ASSOCIATED,
    STAKE,
    SYSTEM,
    TOKEN,
    TOKEN_PROGRAMS,
    VOTE,
    WRAPPED_SOL,
    b58decode,
    b58encode,
    is_on_curve,
)
from chain.reading.currencies import MINTS
from chain.reading.programs import BUILT_IN, TIP_ACCOUNTS, Programs
from chain.reading.receipts import LAMPORT_MOVES, Instruction, Operation, Receipt

# ---- effect --------------------------------------------------------------------------------------


class Balance(NamedTuple):
    """One of the wallet's accounts before and after: raw token amounts (or wrapped SOL), lamports.

    On a side where it isn't the wallet's, they are 0. For the wallet itself, `mint` is None and the
    amounts are 0. An account that was closed and reopened for another mint has two consecutive
    balances: down to 0, and up from 0.
    """

    address: str
    mint: str | None
    decimals: int
    before: int
    after: int
    lamports_before: int
    lamports_after: int


@dataclass(frozen=True, slots=True)
class Holding:
    """An account's raw token amount and lamports at a slot.

    Both are 0 if it is closed or someone else's. `mint` is None if the amount is 0.
    """

    slot: int
    amount: int
    lamports: int
    mint: str | None = None
    # Set only for a wallet's own address.
    executable: bool = False


@dataclass(frozen=True)
class Effect:
    """A receipt's effect on one wallet, in lamports and raw units (docs/results.md).

    `lamports` (L), `wrapped` (S, of wrapped SOL) and `rent` (R, in own token accounts) are changes.
    `sol` is L + S + R minus `sponsored`, the rent that others put into own accounts. `fee` is 0
    unless the wallet paid it. `tokens` is ((mint, raw change, decimals), ...), sorted by mint,
    without zeros and wrapped SOL. `own`: the wallet and its token accounts. `sponsors` splits
    `sponsored` into ((who, lamports), ...). `who` is None if the lamports were already at the
    address. `unowned`: token accounts whose owner is neither in the receipt nor inferable.
    `inferred` means that an owner is missing, as in 2021.
    """

    wallet: str
    lamports: int
    fee: int
    wrapped: int
    rent: int
    sponsored: int
    sol: int
    tip: int
    tokens: tuple[tuple[str, int, int], ...]
    balances: tuple[Balance, ...]
    unowned: tuple[str, ...] = ()
    inferred: bool = False
    own: frozenset[str] = frozenset()
    sponsors: tuple[tuple[str | None, int], ...] = ()


@lru_cache(4096)
def associated_address(wallet: str, mint: str, program: str = TOKEN) -> str:
    """Return the program-derived address with the highest bump that is off the curve."""
    seeds = b58decode(wallet) + b58decode(program) + b58decode(mint)
    end = b58decode(ASSOCIATED) + b"ProgramDerivedAddress"
    derived = (hashlib.sha256(seeds + bytes([bump]) + end).digest() for bump in range(255, -1, -1))
    return b58encode(next(address for address in derived if not is_on_curve(address)))


def _named_as_own(receipt: Receipt, wallet: str) -> Iterator[str | None]:
    for one in receipt.operations:
        if one.authority != wallet:
            continue
        if one.name in ("initialize", "associate"):
            yield one.target
        elif one.name in ("send", "approve", "close", "burn"):
            yield one.source


def own_accounts(
    receipt: Receipt, wallet: str, known: Set[str] = frozenset()
) -> tuple[dict[str, tuple[bool, bool]], tuple[str, ...]]:
    """Return ({address: (own before, own after)}, unowned). Missing owners are inferred."""
    own: dict[str, tuple[bool, bool]] = {}
    unowned: set[str] = set()
    named: set[str | None] | None = None
    for address, sides in receipt.tokens.items():
        mine = []
        for side in sides:
            if side is None or side.owner is not None:
                mine.append(side is not None and side.owner == wallet)
                continue
            named = set(_named_as_own(receipt, wallet)) if named is None else named
            mine.append(
                address in known
                or address in named
                or address == associated_address(wallet, side.mint)
            )
            if not mine[-1]:
                unowned.add(address)
        if any(mine):
            own[address] = (mine[0], mine[1])
    return own, tuple(sorted(unowned))


def touches(receipt: Receipt, wallet: str, known: Set[str] = frozenset()) -> bool:
    return (
        wallet in receipt.keys
        or bool(known & set(receipt.keys))
        or bool(own_accounts(receipt, wallet)[0])
    )


def read_effect(receipt: Receipt, wallet: str, known: Set[str] = frozenset()) -> Effect:
    """`known`: own token accounts seen in other receipts."""
    own, unowned = own_accounts(receipt, wallet, known)
    balances = list[Balance]()
    for address, mine in sorted(own.items()):
        balances += _list_balances(receipt, address, mine)
    told, held = receipt.tokens.values(), receipt.lamports(wallet)
    lamports = held[1] - held[0]
    wrapped = sum(b.after - b.before for b in balances if b.mint == WRAPPED_SOL)
    rent = sum(b.lamports_after - b.lamports_before for b in balances) - wrapped
    sponsors = _sponsors(receipt, wallet, own, balances)
    sponsored = sum(sponsors.values())
    if wallet in receipt.keys:
        balances.insert(0, Balance(wallet, None, 9, 0, 0, *held))
    return Effect(
        wallet=wallet,
        lamports=lamports,
        fee=receipt.fee if receipt.keys[0] == wallet else 0,
        wrapped=wrapped,
        rent=rent,
        sponsored=sponsored,
        sol=lamports + wrapped + rent - sponsored,
        tip=0 if receipt.failed else _tips(receipt, wallet),
        tokens=_changes(balances),
        balances=tuple(balances),
        unowned=unowned,
        inferred=any(side and side.owner is None for pair in told for side in pair),
        own=frozenset((*own, wallet)),
        sponsors=tuple(sponsors.items()),
    )


def _tips(receipt: Receipt, wallet: str) -> int:
    return sum(
        one.amount
        for one in receipt.operations
        if one.name == "transfer" and one.source == wallet and one.target in TIP_ACCOUNTS
    )


def _list_balances(receipt: Receipt, address: str, mine: tuple[bool, bool]) -> Iterator[Balance]:
    told = zip(receipt.tokens[address], receipt.lamports(address), mine, strict=True)
    (before, had), (after, has) = (
        (side, lamports) if is_mine else (None, 0) for side, lamports, is_mine in told
    )
    if before and after and before.mint == after.mint:
        yield Balance(address, after.mint, after.decimals, before.amount, after.amount, had, has)
        return
    if before:
        yield Balance(address, before.mint, before.decimals, before.amount, 0, had, 0)
    if after:
        yield Balance(address, after.mint, after.decimals, 0, after.amount, 0, has)


def _changes(balances: list[Balance]) -> tuple[tuple[str, int, int], ...]:
    """Return raw changes by mint, without wrapped SOL, which counts as SOL."""
    changes: dict[str, int] = defaultdict(int)
    decimals = {}
    for one in balances:
        if one.mint is not None and one.mint != WRAPPED_SOL:
            changes[one.mint] += one.after - one.before
            decimals[one.mint] = one.decimals
    return tuple(
        (mint, change, decimals[mint]) for mint, change in sorted(changes.items()) if change
    )


def _sponsors(
    receipt: Receipt, wallet: str, own: Container[str | None], balances: list[Balance]
) -> dict[str | None, int]:
    """Return {who: lamports} of rent that others paid for own accounts opened in this receipt.

    Repayments are subtracted. Lamports that were already at the address are under None.
    """
    paid_back: dict[str | None, int] = defaultdict(int)
    for one in receipt.operations:
        if one.name == "transfer" and one.source == wallet:
            paid_back[one.target] += one.amount
    total: dict[str | None, int] = defaultdict(int)
    for balance in balances:
        deposit = balance.lamports_after - (balance.after if balance.mint == WRAPPED_SOL else 0)
        if balance.address not in receipt.opened or deposit <= 0:
            continue
        for funder, amount in _funders(receipt, wallet, own, balance.address).items():
            given = min(amount, deposit)
            returned = min(given, paid_back[funder]) if funder else 0
            paid_back[funder] -= returned
            deposit -= given
            total[funder] += given - returned
    return total


def _funders(
    receipt: Receipt, wallet: str, own: Container[str | None], address: str
) -> dict[str | None, int]:
    """Return {who: lamports} sent to an account. None has what was already there."""
    funded: dict[str | None, int] = defaultdict(int, {None: receipt.lamports(address)[0]})
    for one in receipt.operations:
        if one.name not in ("transfer", "create") or one.target != address:
            continue
        if one.source not in own and one.source != wallet:
            funded[one.source] += one.amount
    return funded


def find_main_mint(
    receipt: Receipt, own: Set[str], changes: Iterable[tuple[str, int, int]]
) -> str | None:
    """Return the only mint that changed or, in an exchange, the only one that increased.

    Shares and position NFTs minted or burned for `own` accounts don't count. `changes` is ((mint,
    raw change, decimals), ...).
    """
    shares = {one.mint for one in receipt.operations if is_share(one, own)}
    moved = [(m, change) for m, change, _ in changes if m not in shares]
    risen = [m for m, change in moved if change > 0]
    if len(moved) == 1:
        return moved[0][0]
    return risen[0] if len(moved) == 2 and len(risen) == 1 else None


def is_share(one: Operation, own: Set[str]) -> bool:
    """Whether units are minted or burned for `own` accounts."""
    return (one.name == "mint" and one.target in own) or (one.name == "burn" and one.source in own)


# ---- moves ---------------------------------------------------------------------------------------
# All their lamport movements are read. Other programs may change balances invisibly.
READ_PROGRAMS = frozenset(
    (
        SYSTEM,
        STAKE,
        VOTE,
        ASSOCIATED,
        *TOKEN_PROGRAMS,
        "ComputeBudget111111111111111111111111111111",
        "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr",
        "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo",
    )
)
TOKEN_MOVES = frozenset(("send", "mint", "burn"))


class Placed(NamedTuple):
    """`call` is an index into the list of calls, or None outside all calls."""

    instruction: Instruction
    call: int | None


class Move(NamedTuple):
    """A movement of lamports (with wrapped SOL as `mint`) or raw units.

    `source` is None if it was minted, `target` is None if it was burned. `call` is as in Placed.
    `opens` means that it pays for opening `target`.
    """

    mint: str
    source: str | None
    target: str | None
    amount: int
    authority: str | None
    call: int | None
    opens: bool = False


def place_calls(receipt: Receipt, calls: Sequence[Instruction]) -> list[Placed]:
    """Transfer hooks are outside every call, because the token's issuer chose them."""
    places = {id(one): place for place, one in enumerate(calls)}

    def walk(one: Instruction, call: int | None, hook: bool) -> Iterator[Placed]:
        call = None if hook else places.get(id(one), call)
        yield Placed(one, call)
        of_token = one.program in TOKEN_PROGRAMS
        for inner in one.inner:
            foreign = of_token and inner.program not in TOKEN_PROGRAMS
            yield from walk(inner, call, hook or foreign)

    return [placed for top in receipt.instructions for placed in walk(top, None, False)]


def is_read(instruction: Instruction) -> bool:
    """Whether the decoded operations show everything that this instruction can have moved."""
    operation = instruction.operation
    return instruction.program in READ_PROGRAMS and not (operation and operation.name == "unread")


def list_moves(receipt: Receipt, placed: Sequence[Placed]) -> list[Move]:
    """Closing an account moves all lamports it has at that point."""
    mints = _mints(receipt)
    held: dict[str | None, int] = defaultdict(int)
    for address, (before, _) in receipt.balances.items():
        held[address] = before
    opened = {one.target for one in receipt.operations if one.name == "allocate"}
    moves = []
    for instruction, call in placed:
        operation = instruction.operation
        move = operation and _move(operation, call, mints, held)
        if not move:
            continue
        if move.target in opened and move.mint == WRAPPED_SOL:
            move = move._replace(opens=True)
        moves.append(move)
        if move.mint == WRAPPED_SOL:
            held[move.source] -= move.amount
            held[move.target] += move.amount
    return moves


def _move(
    one: Operation,
    call: int | None,
    mints: Mapping[str | None, str],
    held: Mapping[str | None, int],
) -> Move | None:
    if one.name in LAMPORT_MOVES:
        opens = one.name == "create"
        return Move(WRAPPED_SOL, one.source, one.target, one.amount, one.source, call, opens)
    if one.name == "close":
        amount = max(0, held[one.source])
        return Move(WRAPPED_SOL, one.source, one.target, amount, one.authority, call)
    if one.name in TOKEN_MOVES:
        mint = one.mint or mints.get(one.source) or mints.get(one.target)
        return Move(mint, one.source, one.target, one.amount, one.authority, call) if mint else None
    return None


def _mints(receipt: Receipt) -> dict[str | None, str]:
    named = ((one.target, one.mint) for one in receipt.operations if one.target and one.mint)
    return dict([*named, *receipt.mints.items()])


# ---- flows ---------------------------------------------------------------------------------------
# At these venues, one instruction places an order and another settles it.
ORDER_BOOKS = frozenset(
    one.id
    for one in BUILT_IN
    if one.family == "swap" and one.name.startswith(("Serum v", "OpenBook", "Phoenix", "Manifest"))
)
# By mint, and by mint and account; lamports are under wrapped SOL.
Amounts = Counter[str]
ByAccount = Counter[tuple[str, str | None]]


class Call:
    """The amounts that an acting call moved between own accounts and others, without rent and tips.

    `paid`: the receivers. `topped_up` are the lamports sent to accounts that the call `opened`
    or, if it didn't move tokens, to any account.
    """

    def __init__(self, body: Instruction) -> None:
        self.body = body
        self.given: Amounts = Counter()
        self.got: Amounts = Counter()
        self.paid: set[str | None] = set()
        self.opened: set[str | None] = set()
        self.topped_up = 0

    @property
    def gave(self) -> bool:
        return any(self.given.values())

    @property
    def net(self) -> dict[str, int]:
        mints = self.given.keys() | self.got.keys()
        return {mint: self.got[mint] - self.given[mint] for mint in mints}

    @property
    def delivered(self) -> bool:
        return any(change > 0 for change in self.net.values())


class Flows:
    """A receipt's movements for one wallet, grouped by acting call.

    With `whole`, the whole transaction is one call. `trading` are the indexes in `calls` that make
    up the trade. `own`: the wallet, its token accounts, and those opened and closed in this
    receipt. `unshown`: lamports by account that no instruction shows. `unshown_in`: their sum
    over own accounts.
    """

    def __init__(
        self,
        receipt: Receipt,
        effect: Effect,
        bodies: Sequence[Instruction],
        programs: Programs,
        whole: bool = False,
    ) -> None:
        self.receipt, self.effect, self.programs = receipt, effect, programs
        self.whole = whole
        self.calls = [Call(body) for body in bodies]
        self.placed = place_calls(receipt, bodies)
        self.moves = list_moves(receipt, self.placed)
        self.own = effect.own | _opened_inside(receipt, effect.wallet)
        self.unshown = _unshown(receipt, self.moves)
        self.unshown_in = sum(self.unshown.get(account, 0) for account in self.own)
        # Amounts received and sent outside any call, by (mint, who).
        self.came: ByAccount = Counter()
        self.went: ByAccount = Counter()
        self.trading: frozenset[int] = frozenset()
        self._find_opened()
        self._sort_moves()
        self._add_handed_over()
        # An account opened and closed in this receipt may have been paid for earlier.
        for account in self.own - effect.own:
            self.came[WRAPPED_SOL, account] += receipt.lamports(account)[0]

    def _find_opened(self) -> None:
        with_tokens = {move.call for move in self.moves if move.mint != WRAPPED_SOL}
        for place, call in enumerate(self.calls):
            call.opened = {
                move.target
                for move in self.moves
                if move.opens and (move.call == place or place not in with_tokens)
            }

    def _sort_moves(self) -> None:
        sponsored = dict(self.effect.sponsors)
        for move in self.moves:
            if not self._crosses(move):
                continue
            call = None if move.call is None else self.calls[move.call]
            if move.source in self.own:
                self._pay(move, call)
                continue
            # The lamports may be someone else's rent for an own account opened here.
            is_rent = move.mint == WRAPPED_SOL and move.target in self.receipt.opened
            rent = min(sponsored.get(move.source, 0), move.amount) if is_rent else 0
            if rent:
                sponsored[move.source] -= rent
            if call:
                call.got[move.mint] += move.amount - rent
            else:
                self.came[move.mint, move.source] += move.amount - rent

    def _pay(self, move: Move, call: Call | None) -> None:
        if move.target in TIP_ACCOUNTS and move.mint == WRAPPED_SOL:
            return
        if call is None or move.opens:
            self.went[move.mint, move.target] += move.amount
            return
        call.given[move.mint] += move.amount
        if move.mint == WRAPPED_SOL and move.target in call.opened:
            call.topped_up += move.amount
        call.paid.add(move.target)

    def _add_handed_over(self) -> None:
        already = dict(self.effect.sponsors).get(None, 0)
        begun: set[str] = set()
        for balance in self.effect.balances:
            sides = self.receipt.tokens.get(balance.address)
            # If it was reopened, the first balance was the wallet's already.
            if balance.mint is None or sides is None or balance.address in begun:
                continue
            begun.add(balance.address)
            lamports = self.receipt.lamports(balance.address)[0] - balance.lamports_before
            rent = min(already, lamports)
            already -= rent
            self.came[WRAPPED_SOL, balance.address] += lamports - rent
            if sides[0] and sides[0].mint != WRAPPED_SOL:
                self.came[sides[0].mint, balance.address] += sides[0].amount - balance.before

    def choose_trading(self) -> bool:
        """Keep calls that the wallet paid into and received from.

        Return False if there are none.
        """
        trading = set()
        for place, call in enumerate(self.calls):
            if not call.gave:
                if call.delivered:
                    trading |= self._settled(place)
            elif call.delivered or self._passed(call) or self._may_be_paid_unshown(call):
                trading.add(place)
        self.trading = frozenset(trading)
        return bool(trading)

    def choose_all(self) -> None:
        self.trading = frozenset(range(len(self.calls)))

    def choose_fill(self) -> None:
        """Keep all calls except gifts next to an order program's delivery."""
        family = self.programs.family
        orders = {p for p, one in enumerate(self.calls) if family(one.body.program) == "order"}
        gifts = {p for p, one in enumerate(self.calls) if one.delivered and not one.gave} - orders
        self.choose_all()
        if any(self.calls[place].delivered for place in orders):
            self.trading -= gifts

    def _may_be_paid_unshown(self, call: Call) -> bool:
        return self.unshown_in > 0 and call.body.program not in ORDER_BOOKS

    def _passed(self, call: Call) -> bool:
        """The wallet may have less of every token after it passed one on."""
        return any(call.got[mint] for mint in call.given.keys() - {WRAPPED_SOL})

    def _settled(self, place: int) -> set[int]:
        """Return this call and earlier calls whose orders it settles in the same order book."""
        body = self.calls[place].body
        if body.program not in ORDER_BOOKS:
            return set()
        named = body.named
        earlier = {
            before
            for before, call in enumerate(self.calls[:place])
            if call.body.program == body.program and call.paid & named
        }
        return earlier | {place} if earlier else set()

    def crossed_calls(self) -> tuple[ByAccount, ByAccount]:
        """Return what own accounts received and paid in calls."""
        got: ByAccount = Counter()
        paid: ByAccount = Counter()
        for move in self.moves:
            if move.call is None or not self._crosses(move):
                continue
            if move.target in self.own:
                got[move.mint, move.source] += move.amount
            elif not move.opens:
                paid[move.mint, move.target] += move.amount
        return got, paid

    def given(self, mint: str) -> int:
        return sum(self.calls[place].given[mint] for place in self.trading)

    def got(self, mint: str) -> int:
        return sum(self.calls[place].got[mint] for place in self.trading)

    def sol_both_ways(self) -> bool:
        return bool(self.given(WRAPPED_SOL) and (self.got(WRAPPED_SOL) or self.unshown_in > 0))

    def passed_mints(self) -> list[str]:
        mints = {mint for place in self.trading for mint in self.calls[place].given}
        return sorted(m for m in mints - {WRAPPED_SOL} if self.given(m) and self.got(m))

    def came_first(self, mint: str) -> bool:
        inside = (move for move in self.inside() if move.mint == mint)
        first = next((move for move in inside if self._crosses(move)), None)
        return first is not None and first.target in self.own

    def _crosses(self, move: Move) -> bool:
        return (move.target in self.own) != (move.source in self.own)

    @cached_property
    def beside(self) -> Amounts:
        """The amounts that bypassed the trade.

        These are arrivals beyond what was paid back to the same account, and (negative) payments
        into calls that delivered to someone else.
        """
        total: Amounts = Counter()
        for place, call in enumerate(self.calls):
            if place in self.trading:
                continue
            for mint, change in call.net.items():
                total[mint] += change
            # Rent for the accounts that the call opened isn't part of a price.
            total[WRAPPED_SOL] += call.topped_up
        for (mint, who), amount in self.came.items():
            arrived = self._after_fee(mint, amount) if mint != WRAPPED_SOL else amount
            total[mint] += max(0, arrived - self.went.get((mint, who), 0))
        return total

    def _after_fee(self, mint: str, amount: int) -> int:
        sent = sum(n for (of, _), n in self.came.items() if of == mint)
        sent += sum(call.got[mint] for call in self.calls)
        left = sum(n for (of, _), n in self.went.items() if of == mint)
        left += sum(call.given[mint] for call in self.calls)
        change = next((n for of, n, _ in self.effect.tokens if of == mint), 0)
        arrived = change + left
        return amount * arrived // sent if 0 <= arrived < sent else amount

    def unshown_explained(self) -> int:
        """Return how many of the lamports without a visible source came from the venue.

        If nothing else could have moved them, all of them did. Otherwise, at most the amount that
        the calls' parties lost, minus third parties' gains. Order books pay in tokens only, so
        lamports from them are account rent.
        """
        if self.unshown_in <= 0 or self.whole:
            return self.unshown_in
        if all(self.calls[place].body.program in ORDER_BOOKS for place in self.trading):
            return 0
        if not self._others_held():
            return self.unshown_in
        lost = {a: -change for a, change in self.unshown.items() if change < 0}
        partners = self.partners
        bought = self._bought_elsewhere()
        pool = sum(n for a, n in lost.items() if a in partners and a not in bought)
        strangers = sum(n for a, n in self.unshown.items() if n > 0 and a not in self.own)
        return min(self.unshown_in, max(0, pool - strangers) + self.unshown_returned())

    def unshown_returned(self) -> int:
        """Return the lamports without a visible source that were repaid outside the trade."""
        foreign = self.unshown.keys() - self.partners - self.own
        return sum(
            min(-self.unshown[account], self._paid_back(account))
            for account in foreign
            if self.unshown[account] < 0
        )

    def _paid_back(self, account: str) -> int:
        """Return the lamports paid to an account beyond the amount it paid."""
        went, came = (of.get((WRAPPED_SOL, account), 0) for of in (self.went, self.came))
        return max(0, went - came)

    def _bought_elsewhere(self) -> set[str | None]:
        """Accounts that third parties gave tokens outside the trade, perhaps for SOL."""
        targets = {
            move.target
            for move in self.moves
            if move.call not in self.trading
            and move.mint != WRAPPED_SOL
            and move.source not in self.own
        }
        return targets | {owner for target in targets for owner in self.owners(target)}

    def unshown_foreign(self) -> bool:
        """Whether an unknown program could have moved lamports into own accounts invisibly."""
        return any(not self.programs.family(one.program) for one in self._others_held())

    def _others_held(self) -> list[Instruction]:
        own = self.own & self.receipt.writable
        return [
            one.instruction
            for one in self.placed
            if not is_read(one.instruction)
            and not (one.call in self.trading and self.programs.family(one.instruction.program))
            and any(account in own for account in one.instruction.accounts)
        ]

    @cached_property
    def partners(self) -> set[str]:
        """The foreign sources, targets, owners and authorities of transfers inside the trade."""
        told = ((move.source, move.target, move.authority) for move in self.inside())
        accounts = {account for three in told for account in three if account}
        accounts |= {owner for account in accounts for owner in self.owners(account)}
        return accounts - self.own

    def owners(self, account: str | None) -> list[str]:
        return [side.owner for side in self.receipt.sides(account) if side and side.owner]

    def inside(self) -> Iterable[Move]:
        return (move for move in self.moves if move.call in self.trading)

    def paid_by_others(self, mint: str) -> int:
        if self.whole:
            return 0
        signers = self.receipt.signers - {self.effect.wallet}
        spenders = signers | {self.effect.wallet}
        opened = {move.target for move in self.moves if move.opens}
        return sum(
            move.amount
            for move in self.inside()
            if move.mint == mint
            and (move.source in signers or move.authority in spenders)
            and self.own.isdisjoint((move.source, move.target))
            and move.target not in TIP_ACCOUNTS | self.receipt.opened | opened
        )

    def counterparties(self, mints: Iterable[str]) -> tuple[str, ...]:
        """Return the accounts that lost what the wallet gained. Largest loss first."""
        lost: dict[str, int] = defaultdict(int)
        wanted = frozenset(mints)
        for move in self.inside():
            if move.mint not in wanted or move.source in self.own:
                continue
            for account, change in ((move.source or move.authority, -1), (move.target, 1)):
                if account and account not in self.own:
                    lost[account] -= change * move.amount
        if WRAPPED_SOL in wanted and self.unshown_in > 0:
            for partner in self.partners & self.unshown.keys():
                lost[partner] -= min(0, self.unshown[partner])
        rows = sorted((-amount, account) for account, amount in lost.items() if amount > 0)
        return tuple(account for _, account in rows)


def _opened_inside(receipt: Receipt, wallet: str) -> set[str]:
    """Token accounts opened and closed here, unless in a token balance or handed over."""
    operations = receipt.operations
    handed = {one.source for one in operations if one.name == "assign"}
    return {
        one.target
        for one in operations
        if one.name in ("initialize", "associate")
        and one.authority == wallet
        and one.target
        and one.target not in receipt.tokens
        and one.target not in handed
    }


def _unshown(receipt: Receipt, moves: Iterable[Move]) -> dict[str, int]:
    """Return {account: lamports} that instructions, the fee and rent don't explain."""
    shown: dict[str | None, int] = defaultdict(int)
    for move in moves:
        if move.mint == WRAPPED_SOL:
            shown[move.source] -= move.amount
            shown[move.target] += move.amount
    rest = {a: after - before - shown[a] for a, (before, after) in receipt.balances.items()}
    rest[receipt.keys[0]] += receipt.fee
    for account, rent in receipt.rents.items():
        rest[account] += rent
    return rest


# ---- deposits at venues --------------------------------------------------------------------------
# (address, mint, raw units before, raw units after)
Row = tuple[str, str, int, int]
# (address, mint, raw units)
Parked = tuple[str, str, int]


def read_deposits(
    receipt: Receipt, effect: Effect, programs: Programs, kind: str
) -> tuple[tuple[Row, ...], tuple[Parked, ...]]:
    """Return an Entry's (others, parked)."""
    if kind == "lending" or kind.startswith("order_"):
        family = kind.partition("_")[0]
        calls = list(find_calls(receipt, lambda one: programs.family(one.program) == family))
    elif kind == "failed" or ORDER_BOOKS.isdisjoint(receipt.programs):
        return (), ()
    else:
        family = ""
        calls = list(find_calls(receipt, lambda one: one.program in ORDER_BOOKS))
    flows = Flows(receipt, effect, calls, programs)
    if family == "order":
        return (*_list_tokens(flows), *_list_lamports(flows)), ()
    if family == "lending":
        money = {*MINTS, WRAPPED_SOL}
        moves = (m for m in flows.moves if m.call is not None and m.mint in money)
        return (), (*_sum_by_account(flows, moves), *_list_unshown(flows))
    by_call = _list_one_way(flows)
    settled = _find_settled(flows, by_call)
    exchanged = (move for place in settled for move in by_call[place])
    rest = (move for place in by_call.keys() - settled for move in by_call[place])
    others = tuple(
        (address, mint, max(0, -raw), max(0, raw))
        for address, mint, raw in _sum_by_account(flows, exchanged)
    )
    return others, tuple(_sum_by_account(flows, rest))


def find_calls(receipt: Receipt, wanted: Callable[[Instruction], bool]) -> Iterator[Instruction]:
    """Yield the outermost wanted calls, or top-level ones if call heights are unknown."""

    def walk(one: Instruction) -> Iterator[Instruction]:
        if wanted(one):
            yield one
        else:
            for inner in one.inner:
                yield from walk(inner)

    for top in receipt.instructions:
        found = list(walk(top))
        yield from found if top.nested or not found else [top]


def _is_given(flows: Flows, move: Move) -> bool:
    """Moves from another owner's account that lets the wallet spend also count."""
    is_own = move.source in flows.own or move.authority == flows.effect.wallet
    return is_own and move.target is not None and move.target not in flows.own


def _list_one_way(flows: Flows) -> dict[int, list[Move]]:
    """Return deposits or withdrawals by call. A call that exchanges something isn't a deposit."""
    by_call: dict[int, list[Move]] = defaultdict(list)
    for move in flows.moves:
        if move.call is not None:
            by_call[move.call].append(move)
    found = {}
    for place, moves in by_call.items():
        given = [move for move in moves if _is_given(flows, move)]
        got = [move for move in moves if move.target in flows.own]
        if not given or not got:
            found[place] = got or (given if len(given) == len(moves) else [])
    return found


def _find_settled(flows: Flows, by_call: Mapping[int, list[Move]]) -> set[int]:
    """Return calls that settle orders, and the earlier ones that placed them in the same market."""
    settled: set[int] = set()
    for place, moves in by_call.items():
        body = flows.calls[place].body
        if any(move.target in flows.own for move in moves):
            named = body.named
            orders = {
                before
                for before, given in by_call.items()
                if before < place
                and flows.calls[before].body.program == body.program
                and any(_is_given(flows, one) and one.target in named for one in given)
            }
            settled |= {*orders, place} if orders else set()
    return settled


def _sum_by_account(flows: Flows, moves: Iterable[Move]) -> Iterator[Parked]:
    total: Counter[tuple[str, str]] = Counter()
    for move in moves:
        if _is_given(flows, move):
            total[move.target or "", move.mint] += move.amount
        elif move.target in flows.own and move.source and move.source not in flows.own:
            total[move.source, move.mint] -= move.amount
    for (address, mint), raw in sorted(total.items()):
        yield address, mint, raw


def _list_unshown(flows: Flows) -> Iterator[Parked]:
    """Yield lamports that the calls' accounts paid to the wallet without a visible instruction."""
    named = {account for call in flows.calls for account in call.body.named}
    rest = flows.unshown_in
    for address in sorted(named & flows.unshown.keys() - flows.own):
        paid = min(rest, -flows.unshown[address])
        if paid > 0:
            rest -= paid
            yield address, WRAPPED_SOL, -paid


def _list_tokens(flows: Flows) -> Iterator[Row]:
    """Yield foreign token accounts that lost something or received something in order calls."""
    receipt = flows.receipt
    ordered = {m.target for m in flows.moves if m.call is not None and m.source in flows.own}
    for address, (before, after) in sorted(receipt.tokens.items()):
        some = before or after
        if address in flows.own or not some or some.mint == WRAPPED_SOL:
            continue
        amounts = before.amount if before else 0, after.amount if after else 0
        if amounts[1] < amounts[0] or address in ordered or not receipt.inner_told:
            yield address, some.mint, *amounts


def _list_lamports(flows: Flows) -> Iterator[Row]:
    """Yield lamports moved by foreign accounts, except signers (keepers), in order calls."""
    receipt = flows.receipt
    paid: Counter[str] = Counter()
    for move in flows.moves:
        if move.call is not None and move.mint == WRAPPED_SOL and _is_given(flows, move):
            paid[move.target or ""] += move.amount
    named = {account for call in flows.calls for account in call.body.named}
    for address in sorted((named | paid.keys()) - flows.own - receipt.signers):
        before, after = receipt.lamports(address)
        if kept := min(paid[address], after):
            yield address, WRAPPED_SOL, 0, kept
        elif after < before and receipt.signers.isdisjoint(flows.owners(address)):
            yield address, WRAPPED_SOL, before, after


# ---- what passed through the venue ---------------------------------------------------------------
class Change(NamedTuple):
    """Signed raw units."""

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
# An account that receives a smaller percentage of the amounts inside collects a fee and isn't a
# pool.
MIN_POOL_PERCENT = 5

Key = tuple[str, str]


class Feeding:
    """The amounts that foreign accounts gave and took, by (mint, account).

    Lamports are under wrapped SOL. `gave`: the amounts given inside the trade, minus other
    foreign accounts' payments there. `took`: the gains inside the trade, including the wallet's
    payments. `from_wallet`: the wallet's payments anywhere, minus refunds outside the trade.
    """

    def __init__(self, flows: Flows) -> None:
        self.flows = flows
        self.gave: dict[Key, int] = defaultdict(int)
        self.took: dict[Key, int] = defaultdict(int)
        self.from_wallet: dict[Key, int] = defaultdict(int)
        self.outside: list[Move] = []
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
            if move.source in own or (
                move.source is None and move.target in self.flows.receipt.opened
            ):
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
        """Accounts that received something, or paid the wallet something, outside the trade."""
        filled = {move.target for move in self.outside}
        filled |= {account for (_, account), amount in self.from_wallet.items() if amount < 0}
        return filled | {account for account, amount in self.flows.unshown.items() if amount > 0}

    def _paid(self, mint: str) -> int:
        """Return the wallet's gain, or else what it received, or else flows between pools."""
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
        """Owners of token accounts opened here, some of which aren't in a token balance."""
        names = ("initialize", "associate")
        return {o.target: o.authority for o in self.flows.receipt.operations if o.name in names}

    def _lost(self, mint: str, account: str) -> int:
        receipt = self.flows.receipt
        if mint == WRAPPED_SOL:
            before, after = receipt.lamports(account)
        else:
            sides = receipt.sides(account)
            before, after = (one.amount if one and one.mint == mint else 0 for one in sides)
        return before - after + self.from_wallet.get((mint, account), 0)

    def _unshown_fed(self) -> int:
        needed = self.flows.unshown_explained() - self.flows.unshown_returned()
        paid = 0
        for account in self._payers():
            gave = min(-self.flows.unshown[account], needed)
            shown = max(0, self.gave.get((WRAPPED_SOL, account), 0))
            paid += max(0, min(gave, self._lost(WRAPPED_SOL, account) - shown))
        return max(0, needed - paid)

    def _payers(self) -> list[str]:
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
        """Accounts that an unknown program could change outside the trade."""
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
        """Return the largest share of anything inside that went to this account or its owner."""
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
        """Return how much of the given mint others paid into the wallet's calls or its pools."""
        given, got = self.flows.given(mint), self.flows.got(mint)
        if given <= got:
            return 0
        return self._given_along(mint) + self._poured(mint)

    def _given_along(self, mint: str) -> int:
        """Sum what signers, delegating accounts, and accounts that got nothing in return gave
        inside.

        Rent doesn't count, because it isn't part of a price.
        """
        paid: Counter[str] = Counter()
        for move in self.flows.inside():
            if move.mint != mint:
                continue
            if move.source and move.source not in self.flows.own:
                paid[move.source] += 0 if move.target in TIP_ACCOUNTS else move.amount
            if move.target:
                paid[move.target] -= move.amount
                paid[move.source or ""] -= self._rent(move)
        total = self._all_taken[mint]
        return sum(
            amount
            for account, amount in paid.items()
            if amount > 0
            and (account in self._spent or 2 * self._share_taken(account) * total < amount)
        )

    @cached_property
    def _spent(self) -> set[str]:
        """Accounts of signers, and those from which signers or the wallet spent inside."""
        return {
            move.source
            for move in self.flows.inside()
            if move.source and (self._signs(move.source) or move.authority in self._spenders)
        }

    def _rent(self, move: Move) -> int:
        receipt = self.flows.receipt
        if move.mint != WRAPPED_SOL or not (move.opens or move.target in receipt.opened):
            return 0
        return min(move.amount, receipt.find_rent(move.target or ""))

    def _poured(self, mint: str) -> int:
        """Sum direct and unknown transfers to accounts that received what the wallet gave."""
        poured = Counter(
            (m.source, m.target, m.amount)
            for m in self.outside
            if m.mint == mint and self._is_pool(mint, m.target) and not m.opens
        )
        plain = poured - _count_traded(self.flows)
        amount = sum(count * one for (_, _, one), count in plain.items())
        if mint != WRAPPED_SOL:
            return amount
        gains = {a: n for a, n in self.flows.unshown.items() if n > 0 and self._is_pool(mint, a)}
        return amount + sum(gains[a] for a in gains.keys() & self._foreign_held)

    def _is_pool(self, mint: str, account: str | None) -> bool:
        took = self.took.get((mint, account or ""), 0)
        return took > 0 and took * 100 >= MIN_POOL_PERCENT * self._all_taken[mint]


def _count_traded(flows: Flows) -> Counter[tuple[str | None, str | None, int]]:
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
# Applies to what was received, and to what was given.
MIN_EXPLAINED_PERCENT = 95


@dataclass(frozen=True)
class Split:
    """The part of a trade outside its venue, in signed amounts.

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
    """`changes` excludes those outside the venue. `sol` is "got", "both" or "" (only sent)."""
    legs = [(mint, change) for mint, change, _ in changes if mint not in set(residues)]
    beside = flows.beside.copy()
    explained = {mint: _explain_token(flows, mint, change) for mint, change in legs}
    shares = list(explained.values())
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
            beside[mint] += max(0, change - explained[mint][0])
    got = [mint for mint, change in legs if change > 0] + ([WRAPPED_SOL] if sol else [])
    others = flows.counterparties(got)
    signed = _any_signed(flows, others)
    return Split(beside[WRAPPED_SOL], token_rows(flows, beside), percent, others, signed, fed)


def split_fill(flows: Flows) -> Split:
    """Everything received must come from known calls."""
    risen = [row for row in venue_tokens(flows) if row[1] > 0]
    if risen:
        return split_trade(flows, risen, "", explain_feeding=False)
    if any(amount > 0 for amount in flows.beside.values()):
        # Everything arrived by other instructions.
        return split_off(flows, 0)
    if flows.effect.sol + flows.effect.fee > 0:
        return split_trade(flows, (), "got", explain_feeding=False)
    return Split()


def add_market(split: Split, flows: Flows) -> Split:
    """Add what swap calls paid and took. `flows` covers everyone on the fill's side."""
    if not flows.choose_trading():
        return split
    net: Amounts = Counter()
    for call in flows.calls:
        net.update(call.net)
    net[WRAPPED_SOL] += flows.unshown_explained()
    percent, fed = _explain_feeding(flows, net)
    # A direct transfer from the wallet's side to an account in the trade also counts as feeding.
    if fed or any(who in flows.partners for (_, who), paid in flows.went.items() if paid):
        return replace(split, explained_percent=percent, fed=True)
    return replace(split, market=tuple(sorted((m, n) for m, n in net.items() if n)))


def split_off(flows: Flows, explained_percent: int | None = None) -> Split:
    """Return the part outside the venue of a trade whose value isn't explained."""
    beside = flows.beside
    return Split(beside[WRAPPED_SOL], token_rows(flows, beside), explained_percent)


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
    """Return (raw units moved inside the trade, raw change of the balances)."""
    moved = flows.got(mint) - flows.given(mint)
    return (moved, change) if change > 0 else (-moved, -change)


def _explain_sol(flows: Flows, sol: str) -> tuple[int, int]:
    """Return (lamports received from the venue, lamports received)."""
    shown = flows.got(WRAPPED_SOL) - (flows.given(WRAPPED_SOL) if sol == "got" else 0)
    explained = flows.unshown_explained()
    unshown = flows.unshown_in if flows.unshown_foreign() else explained
    return shown + explained, shown + unshown


def _explain_payers(flows: Flows, mint: str) -> tuple[int, int]:
    """Return what the wallet gave, and what everyone gave: others' purchases have no price."""
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
    """Whether a fee went to a wallet that neither signed nor gave anything, and more to others."""
    effect = flows.effect
    gains = {mint: change for mint, change, _ in effect.tokens}
    gains[WRAPPED_SOL] = effect.sol
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
