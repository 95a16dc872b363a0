"""Group a receipt's movements for one wallet by acting call. Pure.

An acting call is an outermost known swap instruction that concerns the wallet, with everything it
called (docs/verified.md). This module also finds the wallet's deposits at, and withdrawals from,
orders, order books and lenders.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from chain.reading.currencies import MONEY
from chain.reading.effects import Effect
from chain.reading.instructions import (
    ASSOCIATED,
    STAKE,
    SYSTEM,
    TOKEN_PROGRAMS,
    VOTE,
    WRAPPED_SOL,
    Operation,
)
from chain.reading.programs import BUILT_IN, TIP_ACCOUNTS, Programs
from chain.reading.receipts import Instruction, Receipt

# ---- moves ---------------------------------------------------------------------------------------
# Programs whose lamport movements are all read. Others may change balances invisibly.
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
LAMPORT_MOVES = frozenset(("transfer", "create", "withdraw"))
TOKEN_MOVES = frozenset(("send", "mint", "burn"))


class Placed(NamedTuple):
    """An instruction. `call` is its index in the list of calls, or None if it is outside all
    calls.
    """

    instruction: Instruction
    call: int | None


class Move(NamedTuple):
    """A movement of lamports or tokens.

    For lamports, `mint` is wrapped SOL. `amount` is in lamports or raw units. `source` is None if
    it was minted, `target` is None if it was burned. `call` is as in Placed. `opens` means that it
    pays for opening `target`.
    """

    mint: str
    source: str | None
    target: str | None
    amount: int
    authority: str | None
    call: int | None
    opens: bool = False


def place_calls(receipt: Receipt, calls: Sequence[Instruction]) -> list[Placed]:
    """Return instructions in order, each with its call.

    Transfer hooks are outside every call, because the token's issuer chose them.
    """
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
    """Return whether the decoded native operations show everything that this instruction can have
    moved.
    """
    operation = instruction.operation
    return instruction.program in READ_PROGRAMS and not (operation and operation.name == "unread")


def list_moves(receipt: Receipt, placed: Sequence[Placed]) -> list[Move]:
    """Return movements in order.

    Closing an account moves all lamports it has at that point.
    """
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
    one: Operation, call: int | None, mints: Mapping[str, str], held: Mapping[str | None, int]
) -> Move | None:
    if one.name in LAMPORT_MOVES:
        opens = one.name == "create"
        return Move(WRAPPED_SOL, one.source, one.target, one.amount, one.source, call, opens)
    if one.name == "close":
        amount = max(0, held[one.source])
        return Move(WRAPPED_SOL, one.source, one.target, amount, one.authority, call)
    if one.name in TOKEN_MOVES:
        mint = one.mint or mints.get(one.source or "") or mints.get(one.target or "")
        return Move(mint, one.source, one.target, one.amount, one.authority, call) if mint else None
    return None


def _mints(receipt: Receipt) -> dict[str, str]:
    """Return mints by token account, including accounts that aren't in a token balance."""
    mints = {
        one.target: one.mint
        for one in receipt.operations
        if one.name in ("initialize", "associate") and one.target and one.mint
    }
    # An account that had another mint before counts as an account of that mint.
    told = ((address, side) for address, sides in receipt.tokens.items() for side in sides[::-1])
    return mints | {address: side.mint for address, side in told if side}


# ---- flows ---------------------------------------------------------------------------------------
# At these venues, one instruction places an order and another settles it.
ORDER_BOOKS = frozenset(
    one.id
    for one in BUILT_IN
    if one.family == "swap" and one.name.startswith(("Serum v", "OpenBook", "Phoenix", "Manifest"))
)
# Lamports (as wrapped SOL) and raw units, by mint.
Amounts = Counter[str]


class Call:
    """The amounts that an acting call moved into and out of the wallet's own accounts, without rent
    for others and tips.

    `paid` are the receivers. `topped_up` are the lamports sent to accounts that the call `opened`
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
    up the trade. `own` are the wallet, its token accounts, and those opened and closed in this
    receipt. `unshown` are the lamports by account that no instruction shows, and `unshown_in` is
    their sum over own accounts.
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
        # Lamports and tokens that arrived or left outside all calls, as (mint, who) -> amount.
        self.came: dict[tuple[str, str | None], int] = defaultdict(int)
        self.went: dict[tuple[str, str | None], int] = defaultdict(int)
        self.trading: frozenset[int] = frozenset()
        self._find_opened()
        self._sort_moves()
        self._add_handed_over()
        # If the wallet opened and closed an account in this receipt, it may have been paid for
        # earlier.
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
            rent = min(sponsored.get(move.source, 0), move.amount) if self._opens(move) else 0
            if rent:
                sponsored[move.source] -= rent
            if call:
                call.got[move.mint] += move.amount - rent
            else:
                self.came[move.mint, move.source] += move.amount - rent

    def _opens(self, move: Move) -> bool:
        """Return whether these lamports may be someone else's rent for an own account opened in
        this receipt.
        """
        sides = self.receipt.tokens.get(move.target or "")
        return move.mint == WRAPPED_SOL and sides is not None and sides[0] is None

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
        """Count an account that became the wallet's as arriving with its whole balance."""
        already = dict(self.effect.sponsors).get(None, 0)
        begun: set[str] = set()
        for balance in self.effect.balances:
            sides = self.receipt.tokens.get(balance.address)
            # If it was reopened, the first balance shows what the wallet had before.
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
        """Keep only the calls that the wallet paid into and received from. Return False if there
        aren't any.
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
        """Return whether a token arrived and left again. The wallet may then have less of every
        token afterward.
        """
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

    def crossed_calls(
        self,
    ) -> tuple[Counter[tuple[str, str | None]], Counter[tuple[str, str | None]]]:
        """Return what own accounts received inside the calls, and what they paid there without
        rent.

        Each is {(mint, who): amount}.
        """
        got: Counter[tuple[str, str | None]] = Counter()
        paid: Counter[tuple[str, str | None]] = Counter()
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
        inside = (move for move in self._inside() if move.mint == mint)
        first = next((move for move in inside if self._crosses(move)), None)
        return first is not None and first.target in self.own

    def _crosses(self, move: Move) -> bool:
        return (move.target in self.own) != (move.source in self.own)

    @cached_property
    def beside(self) -> Amounts:
        """Return the amounts that bypassed the trade.

        These are arrivals beyond what was paid back to the same account, and (negative) payments
        into calls that delivered to someone else.
        """
        total: Amounts = Counter()
        for place, call in enumerate(self.calls):
            if place in self.trading:
                continue
            for mint, change in call.net.items():
                total[mint] += change
            # These lamports are rent for the accounts that the call opened, not a price.
            total[WRAPPED_SOL] += call.topped_up
        for (mint, who), amount in self.came.items():
            arrived = self._after_fee(mint, amount) if mint != WRAPPED_SOL else amount
            total[mint] += max(0, arrived - self.went.get((mint, who), 0))
        return total

    def _after_fee(self, mint: str, amount: int) -> int:
        """Return the amount left after the token's transfer fee."""
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
        """Return how many of the lamports without a visible source were paid back to accounts
        outside the trade.
        """
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
        """Return the accounts to which third parties gave tokens outside the trade, perhaps for
        SOL.
        """
        targets = {
            move.target
            for move in self.moves
            if move.call not in self.trading
            and move.mint != WRAPPED_SOL
            and move.source not in self.own
        }
        return targets | {owner for target in targets for owner in self.owners(target)}

    def unshown_foreign(self) -> bool:
        """Return whether an unknown program could have moved lamports into own accounts without a
        visible instruction.
        """
        return any(not self.programs.family(one.program) for one in self._others_held())

    def _others_held(self) -> list[Instruction]:
        """Return the instructions outside the trade that could move lamports into own accounts."""
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
        """Return the foreign accounts of transfers inside the trade: sources, targets, owners, and
        authorities.
        """
        told = ((move.source, move.target, move.authority) for move in self._inside())
        accounts = {account for three in told for account in three if account}
        accounts |= {owner for account in accounts for owner in self.owners(account)}
        return accounts - self.own

    def owners(self, account: str | None) -> list[str]:
        sides = self.receipt.tokens.get(account or "", (None, None))
        return [side.owner for side in sides if side and side.owner]

    def _inside(self) -> Iterable[Move]:
        return (move for move in self.moves if move.call in self.trading)

    def paid_by_others(self, mint: str) -> int:
        """Return how much of the mint that the wallet gave was paid into the trade by other signers
        or approving owners.
        """
        if self.whole:
            return 0
        signers = self.receipt.signers - {self.effect.wallet}
        spenders = signers | {self.effect.wallet}
        paid = [
            move
            for move in self._inside()
            if move.mint == mint
            and (move.source in signers or move.authority in spenders)
            and not ({move.source, move.target} & self.own)
            and move.target not in TIP_ACCOUNTS
        ]
        if not paid:
            return 0
        opened = {a for a, sides in self.receipt.tokens.items() if sides[0] is None}
        opened |= {move.target or "" for move in self.moves if move.opens}
        return sum(move.amount for move in paid if move.target not in opened)

    def counterparties(self, mints: Iterable[str]) -> tuple[str, ...]:
        """Return the accounts that lost, in the trade, what the wallet gained. The largest loss
        comes first.
        """
        lost: dict[str, int] = defaultdict(int)
        wanted = frozenset(mints)
        for move in self._inside():
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
    """Return the token accounts that were opened and closed here and aren't in a token balance,
    except those that were handed over.
    """
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
# A row (address, mint, raw units before, raw units after).
Row = tuple[str, str, int, int]


class Deposited(NamedTuple):
    """The wallet's deposits, in the format of an Entry."""

    others: tuple[Row, ...] = ()
    parked: tuple[tuple[str, str, int], ...] = ()


def read_deposits(receipt: Receipt, effect: Effect, programs: Programs, kind: str) -> Deposited:
    if kind == "lending" or kind.startswith("order_"):
        family = kind.partition("_")[0]
        calls = list(find_calls(receipt, lambda one: programs.family(one.program) == family))
    elif kind == "failed" or ORDER_BOOKS.isdisjoint(receipt.programs):
        return Deposited()
    else:
        family = ""
        calls = list(find_calls(receipt, lambda one: one.program in ORDER_BOOKS))
    flows = Flows(receipt, effect, calls, programs)
    if family == "order":
        return Deposited((*_list_tokens(flows), *_list_lamports(flows)))
    if family == "lending":
        moves = (m for m in flows.moves if m.call is not None and m.mint in MONEY)
        return Deposited(parked=(*_sum_by_account(flows, moves), *_list_unshown(flows)))
    by_call = _list_one_way(flows)
    settled = _find_settled(flows, by_call)
    exchanged = (move for place in settled for move in by_call[place])
    rest = (move for place in by_call.keys() - settled for move in by_call[place])
    others = _sum_by_account(flows, exchanged)
    return Deposited(
        tuple((address, mint, max(0, -raw), max(0, raw)) for address, mint, raw in others),
        tuple(_sum_by_account(flows, rest)),
    )


def find_calls(receipt: Receipt, wanted: Callable[[Instruction], bool]) -> Iterator[Instruction]:
    """Return the outermost wanted calls. If call heights are unknown, return top-level
    instructions.
    """

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
    """Return whether the wallet made this move.

    A move from another owner's account that lets the wallet spend counts, too.
    """
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
    """Return the indexes of calls that settle orders, and of the earlier calls that placed them in
    the same market.
    """
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


def _sum_by_account(flows: Flows, moves: Iterable[Move]) -> Iterator[tuple[str, str, int]]:
    total: Counter[tuple[str, str]] = Counter()
    for move in moves:
        if _is_given(flows, move):
            total[move.target or "", move.mint] += move.amount
        elif move.target in flows.own and move.source and move.source not in flows.own:
            total[move.source, move.mint] -= move.amount
    for (address, mint), raw in sorted(total.items()):
        yield address, mint, raw


def _list_unshown(flows: Flows) -> Iterator[tuple[str, str, int]]:
    """Return the lamports that the calls' accounts paid to the wallet without a visible
    instruction.
    """
    named = {account for call in flows.calls for account in call.body.named}
    rest = flows.unshown_in
    for address in sorted(named & flows.unshown.keys() - flows.own):
        paid = min(rest, -flows.unshown[address])
        if paid > 0:
            rest -= paid
            yield address, WRAPPED_SOL, -paid


def _list_tokens(flows: Flows) -> Iterator[Row]:
    """Return the foreign token accounts that lost something, or to which the wallet sent tokens in
    calls of order programs.
    """
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
    """Return the lamports, rent and wrapped SOL that the wallet paid into foreign accounts in calls
    of order programs, or that accounts in these calls lost.

    Signers (keepers) are excluded.
    """
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
