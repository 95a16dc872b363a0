"""What a wallet deposits at venues and gets back: orders, order books and lenders. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from chain.reading.effects import Effect
from chain.reading.flows import ORDER_BOOKS, Flows
from chain.reading.instructions import WRAPPED_SOL
from chain.reading.moves import Move
from chain.reading.programs import Programs
from chain.reading.quotes import MONEY
from chain.reading.receipts import Instruction, Receipt

# (address, mint, raw units before, after)
Row = tuple[str, str, int, int]


class Deposited(NamedTuple):
    """As in an Entry."""

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
    """Return the outermost wanted calls; without call heights, whole top-level instructions."""

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
    """Whether a move counts as the wallet's; it also does if another owner's account lets the
    wallet spend from it.
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
    """Return calls that place orders or settle them, at the same market."""
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
    """Return lamports that the calls' accounts paid to the wallet without a visible instruction."""
    named = {account for call in flows.calls for account in call.body.named}
    rest = flows.unshown_in
    for address in sorted(named & flows.unshown.keys() - flows.own):
        paid = min(rest, -flows.unshown[address])
        if paid > 0:
            rest -= paid
            yield address, WRAPPED_SOL, -paid


def _list_tokens(flows: Flows) -> Iterator[Row]:
    """Return foreign token accounts that lost something, or that the wallet sent tokens to in calls
    of order programs.
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
    """Return lamports, rent and wrapped SOL that the wallet paid into foreign accounts in calls of
    order programs, or that accounts named there lost. Excludes signers (keepers).
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
