"""Read both sides of a trade's pool, before and after, from the transaction itself. Pure.

Amounts are in lamports and raw units. A pool is read only if its formula reproduces the wallet's
own fill from the state before, within MAX_ERROR_BPS. That check catches wrong accounts, hidden
reserves, concentrated liquidity and venues that changed their rules.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from chain.addresses import WRAPPED_SOL, b58decode, b58encode
from chain.reading.flows import Flows
from chain.reading.programs import Programs
from chain.reading.receipts import MAX_LAMPORTS, U64, Instruction, Receipt, read_u64

ONE = 10_000
MAX_ERROR_BPS = 20
PUMP = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
PUMPSWAP = "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA"
LAUNCHLAB = "LanMV9sAd7wArD4vJFi2qDdfnVhFxYSUg6eADduJ3uj"
# Basis points of the input to a pool that is priced by its two vaults. Transactions don't show
# CPMM's tier, so the one that reproduces the fill best is used.
PRODUCT_FEES = {
    "Raydium v4": (25,),
    "Raydium CPMM": (25, 100, 200, 400),
    "Orca v1": (30,),
    "Orca v2": (30,),
    "SPL Token Swap": (30,),
    "Saros": (30,),
}
# Applies to pump.fun events without fee fields.
OLD_CURVE_FEE_BPS = 100
# First 8 bytes of a self-call that records an event. The event's name (8 bytes) follows.
EVENT = bytes.fromhex("e445a52e51cb9a1d")


def name_event(name: str) -> bytes:
    return EVENT + sha256(f"event:{name}".encode()).digest()[:8]


TRADE_EVENT, BUY_EVENT, SELL_EVENT = map(name_event, ("TradeEvent", "BuyEvent", "SellEvent"))


class State(NamedTuple):
    """The two sides that price the next trade, and the most that the pool can pay and give."""

    sol: int
    raw: int
    payable: int
    buyable: int


class PoolReading(NamedTuple):
    """A pool before and after a whole transaction.

    `fee_kind` says what the fee is part of. on_top: a buyer pays it in addition to the pool's
    input, a seller from the proceeds (pump.fun, PumpSwap). gross: it is part of the SOL that a
    buyer pays, and of a seller's proceeds (LaunchLab). input: it is part of any input. `is_curve`
    means that a buyer pays one lamport more than the formula says.
    """

    venue: str
    pool: str
    fee_bps: int
    fee_kind: str
    is_curve: bool
    before: State
    after: State

    @property
    def is_possible(self) -> bool:
        """A lying node can put any values in an event."""
        return 0 <= self.fee_bps <= ONE and all(
            min(one) >= 0 and max(one.sol, one.payable) < MAX_LAMPORTS and max(one) < U64
            for one in (self.before, self.after)
        )

    def pack(self) -> tuple[str | int, ...]:
        return (*self[:4], int(self.is_curve), *self.before, *self.after)


def unpack_pool(stored: Sequence[str | int]) -> PoolReading | str:
    """Return the reading in an Entry's `pool`, or the reason if there isn't one."""
    if len(stored) < 2:
        return str(stored[0]) if stored else "no_pool"
    venue, pool, fee_bps, fee_kind, is_curve, *sides = stored
    numbers = list(map(int, sides))
    before, after = State(*numbers[:4]), State(*numbers[4:])
    return PoolReading(
        str(venue), str(pool), int(fee_bps), str(fee_kind), bool(is_curve), before, after
    )


def find_fee(amount: int, bps: int) -> int:
    return -(-amount * bps // ONE)


class _Hop(NamedTuple):
    program: str
    sends: tuple[tuple[str, str, int], ...]
    events: tuple[bytes, ...]

    def find_event(self, *names: bytes) -> bytes:
        return next((one for one in self.events[::-1] if one[:16] in names), b"")


class _Fill(NamedTuple):
    """`lamports` and `raw` are exchanged by the pool's formula, without fees."""

    reading: PoolReading
    is_buy: bool
    lamports: int
    raw: int
    creator: bytes = b""

    @property
    def error_bps(self) -> int:
        """Error of the formula, in either direction. One unit is rounding."""
        sol, raw = self.reading.before[:2]
        if self.is_buy:
            expected, real = self.lamports * raw // max(1, sol + self.lamports), self.raw
        else:
            expected, real = self.raw * sol // max(1, raw + self.raw), self.lamports
        missed = abs(expected - real)
        return missed * ONE // max(1, real) if missed > 1 else 0


def read_pool(flows: Flows, mint: str) -> PoolReading | str:
    """Read the only pool that the wallet traded `mint` with, or return why it can't be read.

    In `flows`, the trade's calls must be chosen.
    """
    receipt, programs = flows.receipt, flows.programs
    if not flows.trading:
        return "no_call"
    bodies = [flows.calls[place].body for place in sorted(flows.trading)]
    hops = [hop for body in bodies for hop in _list_hops(body, programs)]
    keys = {_find_key(hop) for hop in hops}
    if not hops:
        return "no_pool"
    if None in keys:
        return "venue_unreadable"
    if len(keys) > 1:
        return "route"
    if _withholds(receipt, mint):
        return "transfer_fee"
    if _ran_elsewhere(flows, hops[0].program):
        every = (hop for top in receipt.instructions for hop in _list_hops(top, programs))
        hops = [hop for hop in every if _find_key(hop) in keys]
    fills = _read_fills(receipt, mint, hops, programs)
    return fills if isinstance(fills, str) else _join(fills, _read_address(flows.effect.wallet))


def _ran_elsewhere(flows: Flows, program: str) -> bool:
    return any(
        one.instruction.program == program and one.call not in flows.trading for one in flows.placed
    )


def _join(fills: Sequence[_Fill], wallet: bytes) -> PoolReading | str:
    if any(one.creator == wallet for one in fills):
        return "own_token"
    if any(one.error_bps > MAX_ERROR_BPS or not one.reading.is_possible for one in fills):
        return "not_reproduced"
    # A transaction is atomic, so a follower trades with the pool as its last call left it.
    return fills[-1].reading._replace(before=fills[0].reading.before)


def _withholds(receipt: Receipt, mint: str) -> bool:
    change = sum(
        sign * side.amount
        for sides in receipt.tokens.values()
        for sign, side in zip((-1, 1), sides, strict=True)
        if side and side.mint == mint
    )
    signs = {"mint": 1, "burn": -1}
    made = sum(o.amount * signs.get(o.name, 0) for o in receipt.operations if o.mint == mint)
    return change < made


# ---- calls of pools ------------------------------------------------------------------------------
def _list_hops(body: Instruction, programs: Programs) -> Iterator[_Hop]:
    """List the innermost calls of known swap programs that sent something.

    If call heights are unknown, a send belongs to the last known program before it.
    """
    if not body.nested:
        yield from _list_flat(body, programs)
        return
    below = [hop for one in body.inner if one.inner for hop in _list_hops(one, programs)]
    if below:
        yield from below
    elif programs.family(body.program) == "swap":
        yield from _make_hop(list(body.tree()))


def _list_flat(body: Instruction, programs: Programs) -> Iterator[_Hop]:
    part: list[Instruction] = []
    for one in body.tree():
        if programs.family(one.program) == "swap" and one.data[:8] != EVENT:
            yield from _make_hop(part)
            part = [one]
        elif part:
            part.append(one)
    yield from _make_hop(part)


def _make_hop(inside: Sequence[Instruction]) -> Iterator[_Hop]:
    sends = tuple(
        (o.source, o.target, o.amount)
        for one in inside
        if (o := one.operation) and o.name == "send" and o.amount and o.source and o.target
    )
    if sends:
        program = inside[0].program
        events = (one.data for one in inside if one.program == program)
        yield _Hop(program, sends, tuple(data for data in events if data[:8] == EVENT))


def _find_key(hop: _Hop) -> str | bytes | None:
    """Identify the pool by the curve's mint, its own address, or both vaults."""
    if hop.program in (PUMP, LAUNCHLAB):
        return hop.find_event(TRADE_EVENT)[16:48]
    if hop.program == PUMPSWAP:
        return hop.find_event(BUY_EVENT, SELL_EVENT)[128:160]
    if len(hop.sends) < 2:
        return None
    # Both directions have the same key.
    return "/".join(sorted((hop.sends[0][1], _find_answer(hop)[0])))


def _find_answer(hop: _Hop) -> tuple[str, str, int]:
    """Return the first later send from neither of the first one's accounts, or the last send."""
    first = hop.sends[0]
    return next((one for one in hop.sends[1:] if one[0] not in first[:2]), hop.sends[-1])


def _read_fills(
    receipt: Receipt, mint: str, hops: Iterable[_Hop], programs: Programs
) -> list[_Fill] | str:
    fills, moved = list[_Fill](), defaultdict[str, int](int)
    for hop in hops:
        venue = programs.name(hop.program)
        if hop.program == PUMP:
            found = _read_curve(hop, mint, venue)
        elif hop.program == PUMPSWAP:
            found = _read_pumpswap(receipt, hop, mint, venue)
        elif hop.program == LAUNCHLAB:
            found = _read_launchlab(receipt, hop, mint, venue)
        elif venue in PRODUCT_FEES:
            found = _read_product(receipt, hop, mint, venue, moved)
        else:
            return "venue_unreadable"
        if isinstance(found, str):
            return found
        fills.append(found)
    return fills or "venue_unreadable"


# ---- venues --------------------------------------------------------------------------------------
# Wallets and mints of recent trades.
_read_address = lru_cache(4096)(b58decode)


def _read_curve(hop: _Hop, mint: str, venue: str) -> _Fill | str:
    """pump.fun's event has virtual and real reserves after each trade."""
    data = hop.find_event(TRADE_EVENT)[16:]
    if len(data) < 121 or data[:32] != _read_address(mint):
        return "no_event"
    lamports, raw, is_buy = read_u64(data, 32), read_u64(data, 40), bool(data[48])
    after = State(*(read_u64(data, at) for at in (89, 97, 105, 113)))
    if not (lamports and raw and after.sol and after.raw):
        return "quote_not_sol"
    paid, got = (lamports, -raw) if is_buy else (-lamports, raw)
    before = State(after.sol - paid, after.raw - got, after.payable - paid, after.buyable - got)
    reading = PoolReading(venue, mint, _find_curve_fee(data), "on_top", True, before, after)
    # A buyer specifies the token amount, and pays one lamport more than the formula gives.
    return _Fill(reading, is_buy, lamports - is_buy, raw, data[169:201])


def _find_curve_fee(data: bytes) -> int:
    """Sum all fees (basis points) in a TradeEvent. Fields were appended over the years."""
    if len(data) < 217:
        return OLD_CURVE_FEE_BPS
    # Fields that an event doesn't have are read as 0.
    at = 255 + _read_length(data, 250)
    last = at + 92 + _read_length(data, at + 32) * 34
    return sum(read_u64(data, place) for place in (153, 201, at, last))


def _read_length(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _read_appended(data: bytes, is_buy: bool) -> tuple[int, int]:
    """Return a PumpSwap event's (cashback and holders' fees, virtual reserves)."""
    at = 352
    if is_buy:
        at += 45 + _read_length(data, at + 41)
    virtual = int.from_bytes(data[at + 32 : at + 48], "little", signed=True)
    return read_u64(data, at) + read_u64(data, at + 57), virtual


def _read_pumpswap(receipt: Receipt, hop: _Hop, mint: str, venue: str) -> _Fill | str:
    """The event has both vaults before the trade, and signed amounts priced in addition to them.

    The vaults alone don't determine the price, because fees may wait in them and boosted pools
    price more.
    """
    event = hop.find_event(BUY_EVENT, SELL_EVENT)
    is_buy, data = event[:16] == BUY_EVENT, event[16:]
    if len(data) < 304:
        return "no_event"
    pool = b58encode(data[112:144])
    raw, base, vault, quote, fee_lp, lp, fee = (
        read_u64(data, at) for at in (8, 40, 48, 56, 64, 72, 80)
    )
    if not _is_priced_in_sol(receipt, pool, mint, vault):
        return "quote_not_sol"
    appended, virtual = _read_appended(data, is_buy)
    fees = fee_lp + fee + read_u64(data, 336) + appended
    before = State(vault + virtual, base, vault, base)
    paid, got = (quote + lp, -raw) if is_buy else (lp - quote, raw)
    after = State(before.sol + paid, base + got, vault + paid, base + got)
    reading = PoolReading(venue, pool, fees, "on_top", False, before, after)
    return _Fill(reading, is_buy, quote, raw, data[304:336])


def _is_priced_in_sol(receipt: Receipt, pool: str, mint: str, vault: int) -> bool:
    begun = [sides[0] for sides in receipt.tokens.values() if sides[0]]
    held = [one for one in begun if one.owner == pool]
    quotes = [one for one in held if one.mint == WRAPPED_SOL and one.amount == vault]
    return bool(quotes) and {one.mint for one in held} == {mint, WRAPPED_SOL}


def _read_launchlab(receipt: Receipt, hop: _Hop, mint: str, venue: str) -> _Fill | str:
    """LaunchLab's event has virtual reserves, and real reserves before and after."""
    data = hop.find_event(TRADE_EVENT)[16:]
    if len(data) < 137:
        return "no_event"
    accounts = {account for send in hop.sends for account in send[:2]}
    sides = (receipt.sides(account)[1] for account in accounts)
    if {side.mint for side in sides if side} != {mint, WRAPPED_SOL}:
        return "quote_not_sol"
    total, base, quote, sold, paid, sold_after, paid_after, given, got = (
        read_u64(data, 32 + 8 * place) for place in range(9)
    )
    fees = sum(read_u64(data, 104 + 8 * place) for place in range(4))
    is_buy = data[136] == 0
    whole = given if is_buy else got + fees
    bps = (fees * ONE + whole // 2) // max(1, whole)
    before = State(quote + paid, base - sold, paid, total - sold)
    after = State(quote + paid_after, base - sold_after, paid_after, total - sold_after)
    reading = PoolReading(venue, mint, bps, "gross", False, before, after)
    lamports, raw = (given - fees, got) if is_buy else (whole, given)
    return _Fill(reading, is_buy, lamports, raw)


class _Vault(NamedTuple):
    before: int
    after: int
    end: int


def _read_product(
    receipt: Receipt, hop: _Hop, mint: str, venue: str, moved: defaultdict[str, int]
) -> _Fill | str:
    """Read a fill from the balances of the pool's two vaults. `moved`: earlier calls' effects."""
    vaults = _read_vaults(receipt, hop, moved)
    if vaults is None:
        return "vault_not_told"
    if vaults.keys() != {mint, WRAPPED_SOL}:
        return "quote_not_sol"
    sol, raw = vaults[WRAPPED_SOL], vaults[mint]
    before = State(sol.before, raw.before, sol.before, raw.before)
    after = State(sol.end, raw.end, sol.end, raw.end)
    is_buy = sol.after > sol.before
    lamports, units = abs(sol.after - sol.before), abs(raw.after - raw.before)
    fills, pool = [], str(_find_key(hop))
    for bps in PRODUCT_FEES[venue]:
        reading = PoolReading(venue, pool, bps, "input", False, before, after)
        paid = lamports - find_fee(lamports, bps) if is_buy else lamports
        given = units if is_buy else units - find_fee(units, bps)
        fills.append(_Fill(reading, is_buy, paid, given))
    return min(fills, key=lambda fill: fill.error_bps)


def _read_vaults(
    receipt: Receipt, hop: _Hop, moved: defaultdict[str, int]
) -> Mapping[str, _Vault] | None:
    """Return vaults by mint: the target of the first send, and the source of the answer."""
    vaults = {}
    (_, into, paid), (out_of, _, given) = hop.sends[0], _find_answer(hop)
    for account, change in ((into, paid), (out_of, -given)):
        before, end = receipt.sides(account)
        if not before or not end:
            return None
        begun = before.amount + moved[account]
        vaults[before.mint] = _Vault(begun, begun + change, end.amount)
        moved[account] += change
    return vaults
