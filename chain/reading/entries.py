"""Read a receipt from the point of view of one wallet, as a line in its ledger. Pure.

Entries are stored as packed JSON.
"""

import json
from collections.abc import Set
from sys import intern
from typing import Any, NamedTuple

from chain.reading.flows import Balance, Split, list_venue_changes, read_deposits, read_effect
from chain.reading.kinds import Kind, decide_kind
from chain.reading.pools import read_pool
from chain.reading.programs import Programs
from chain.reading.receipts import Receipt, pack_text, unpack_text

# Increment this when receipts are read differently, so that stored entries are reread.
READING = 7


class Entry(NamedTuple):
    """The meaning of one transaction for one wallet, in lamports and raw units.

    `tokens` is ((mint, raw change, decimals), ...). `balances` covers its accounts.
    `others` is ((address, mint, before, after), ...) of foreign accounts. In orders, these are
    token accounts that lost something or that the wallet paid into in an order program's call
    (escrows), and for wrapped SOL the lamports of accounts in such calls. At order books, they are
    the amounts that an order gave (0, raw) and its settlement returned (raw, 0).

    `parked` is ((address, mint, raw), ...) that the wallet left at an order book or lender. It is
    negative if it was returned. `market` is ((mint, raw), ...) that known swap calls paid to a
    fill's side. It is negative if they took it. `unowned`: token accounts without a known owner.
    If one turns out to be the wallet's, the entry is read again. `sponsored` is the rent that
    others put into its accounts. `beside_sol` and `beside_tokens` are the parts of `sol` and
    `tokens` outside the venue. `explained_percent` (0 to 100) is how much of the trade left or
    entered `counterparties`, or None if nothing is priced. `pool` is the packed pools.PoolReading
    of a buy or sale, or the reason if there isn't one. `created`: the mints that this
    transaction created, if the wallet signed it. `seen_at` (UTC ms) is when this instance first
    listed the signature.
    """

    signature: str
    slot: int
    tx_index: int | None
    block_time: int | None
    kind: str
    venue: str | None
    mint: str | None
    flags: tuple[str, ...]
    residues: tuple[str, ...]
    sol: int
    fee: int
    tip: int
    rent: int
    tokens: tuple[tuple[str, int, int], ...]
    balances: tuple[Balance, ...]
    others: tuple[tuple[str, str, int, int], ...] = ()
    unowned: tuple[str, ...] = ()
    sponsored: int = 0
    beside_sol: int = 0
    beside_tokens: tuple[tuple[str, int, int], ...] = ()
    explained_percent: int | None = None
    counterparties: tuple[str, ...] = ()
    market: tuple[tuple[str, int], ...] = ()
    parked: tuple[tuple[str, str, int], ...] = ()
    pool: tuple[str | int, ...] = ()
    created: tuple[str, ...] = ()
    seen_at: int | None = None

    @property
    def happened_at(self) -> int | None:
        """Block time in UTC ms, capped by `seen_at` because the chain's clock may be ahead."""
        if self.block_time is None:
            return None
        block_ms = self.block_time * 1000
        return block_ms if self.seen_at is None else min(block_ms, self.seen_at)

    @property
    def venue_sol(self) -> int:
        return self.sol - self.beside_sol

    @property
    def venue_tokens(self) -> tuple[tuple[str, int, int], ...]:
        """((mint, raw change, decimals), ...) that went through the venue, without zeros."""
        if not self.beside_tokens:
            return self.tokens
        return tuple(sorted(list_venue_changes(self.tokens, self.beside_tokens)))

    @property
    def is_idle(self) -> bool:
        return not self.sol and all(
            one.before == one.after and one.lamports_before == one.lamports_after
            for one in self.balances
        )

    def show(self) -> str:
        """Return JSON, without the data in other columns of the row."""
        return json.dumps(self[len(OF_THE_ROW) : -1], separators=(",", ":"))

    def dump(self) -> bytes:
        return pack_text(self.show())

    @staticmethod
    def load(
        signature: str, slot: int, tx_index: int | None, body: bytes, seen_at: int | None = None
    ) -> "Entry":
        """Parse a stored entry. Raises ValueError, TypeError or LookupError if `body` is damaged.

        `tx_index` is from the row, because a block may provide it after the receipt was stored.
        """
        values: list[Any] = _read_json(unpack_text(body))[0]
        # Positional arguments, because keyword arguments take eight times as long.
        for place in OF_WORDS:
            values[place] = tuple(values[place])
        for place in OF_ROWS:
            values[place] = tuple(map(tuple, values[place]))
        # Ledgers keep mints in memory.
        values[MINT] = values[MINT] and intern(values[MINT])
        values[TOKENS] = tuple([(intern(mint), *rest) for mint, *rest in values[TOKENS]])
        values[BALANCES] = tuple(
            [Balance(one, mint and intern(mint), *rest) for one, mint, *rest in values[BALANCES]]
        )
        return Entry._make((signature, slot, tx_index, *values, seen_at))


# Fields with their own column, and fields stored as JSON.
OF_THE_ROW, STORED = Entry._fields[:3], Entry._fields[3:-1]
BALANCES, MINT, TOKENS = map(STORED.index, ("balances", "mint", "tokens"))
OF_WORDS = [
    STORED.index(name)
    for name in ("flags", "residues", "unowned", "counterparties", "pool", "created")
]
OF_ROWS = [STORED.index(name) for name in ("others", "beside_tokens", "market", "parked")]
# Exact for integers of any size, unlike faster parsers. It doesn't skip whitespace.
_read_json = json.JSONDecoder().raw_decode


def read_entry(
    receipt: Receipt,
    wallet: str,
    programs: Programs,
    known: Set[str] = frozenset(),
) -> Entry:
    """`known` is as in flows.read_effect."""
    effect = read_effect(receipt, wallet, known)
    kind = decide_kind(receipt, effect, programs)
    split = kind.split or Split()
    others, parked = read_deposits(receipt, effect, programs, kind.kind)
    flags = (
        set(kind.flags)
        | ({"owner_inferred"} if effect.inferred else set())
        | ({"sponsored_rent"} if effect.sponsored else set())
    )
    return Entry(
        signature=receipt.signature,
        slot=receipt.slot,
        tx_index=receipt.tx_index,
        block_time=receipt.block_time,
        kind=kind.kind,
        venue=kind.venue,
        mint=kind.mint,
        flags=tuple(sorted(flags)),
        residues=kind.residues,
        sol=effect.sol,
        fee=effect.fee,
        tip=effect.tip,
        rent=effect.rent,
        tokens=effect.tokens,
        balances=effect.balances,
        others=others,
        unowned=effect.unowned,
        sponsored=effect.sponsored,
        beside_sol=split.beside_sol,
        beside_tokens=split.beside_tokens,
        explained_percent=split.explained_percent,
        counterparties=split.counterparties,
        market=split.market,
        parked=parked,
        pool=_read_pool(kind),
        created=_list_created(receipt, wallet),
    )


def _read_pool(kind: Kind) -> tuple[str | int, ...]:
    if kind.kind not in ("buy", "sell") or kind.flows is None or kind.mint is None:
        return ()
    found = read_pool(kind.flows, kind.mint)
    return (found,) if isinstance(found, str) else found.pack()


def _list_created(receipt: Receipt, wallet: str) -> tuple[str, ...]:
    if wallet not in receipt.signers:
        return ()
    opened = {one.target for one in receipt.operations if one.name in ("create", "allocate")}
    if not opened:
        return ()
    held = {side.mint for sides in receipt.tokens.values() for side in sides if side}
    return tuple(sorted(held & opened))
