"""Stablecoins as money: what a wallet earned in each that it pays and is paid in, never converted
and never added to SOL. Pure.

There is one set of rules, ledger.ledger. A quote's ledger books a view of each entry, in which the
quote stands where SOL stood; SOL itself is neither money nor a token there.
"""

import copy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from chain.ledger.ledger import Ledger
from chain.ledger.lots import PAID_ELSEWHERE, UNEXPLAINED, Booked, Opening
from chain.ledger.reconciliation import Totals
from chain.ledger.sums import NOTHING, Sums, read_stablecoin_sums
from chain.reading.entries import Entry
from chain.reading.kinds import TRADES
from chain.reading.quotes import MINTS

# Kinds of a view in which the quote was paid or got for a token.
AGAINST = frozenset(("buy", "sell"))


# ---- an entry, seen from a quote -----------------------------------------------------------------
def view_entry(entry: Entry, quote: str) -> Entry:
    """The entry with this mint as its money. What was bought or sold for SOL is no trade there."""
    beside, whole = _find_change(entry.beside_tokens, quote), _find_change(entry.tokens, quote)
    if quote in entry.residues:
        # It passed through and left this behind: part of no price.
        beside = whole
    through = whole - beside
    kind = _find_kind(entry, through)
    return entry._replace(
        kind=kind,
        mint=_find_sold(entry, quote) if kind == "sell" else entry.mint,
        flags=_find_flags(entry),
        sol=whole,
        fee=0,
        tip=0,
        rent=0,
        tokens=_leave_out(entry.tokens, quote),
        others=tuple(
            (address, mint, before, after)
            for address, mint, before, after in entry.others
            if mint != quote
        ),
        sponsored=0,
        beside_sol=beside,
        beside_tokens=_leave_out(entry.beside_tokens, quote),
    )


# (mint, raw change, decimals)...
Changes = tuple[tuple[str, int, int], ...]


def _find_change(changes: Changes, mint: str) -> int:
    return sum(change for of, change, _ in changes if of == mint)


def _leave_out(changes: Changes, mint: str) -> Changes:
    return tuple((of, change, decimals) for of, change, decimals in changes if of != mint)


def _find_kind(entry: Entry, through: int) -> str:
    """Tell the kind with the quote as money. `through`: what of it passed through the venue."""
    if entry.kind == "swap" and through:
        return "buy" if through < 0 else "sell"
    return "other" if entry.kind in TRADES and entry.kind != "swap" else entry.kind


def _find_flags(entry: Entry) -> tuple[str, ...]:
    """Adjust the flags: what was traded for SOL needs no explained value here, and a purchase for
    SOL was paid for elsewhere.
    """
    if entry.kind not in TRADES or entry.kind == "swap":
        return entry.flags
    if UNEXPLAINED in entry.flags:
        return tuple(flag for flag in entry.flags if flag != UNEXPLAINED)
    return (*entry.flags, PAID_ELSEWHERE) if entry.kind == "buy" else entry.flags


def _find_sold(entry: Entry, quote: str) -> str | None:
    return next((m for m, change, _ in entry.venue_tokens if change < 0 and m != quote), None)


# ---- the ledger of a quote -----------------------------------------------------------------------
def begin_ledger(whole: Ledger, quote: str) -> Ledger:
    """Begin the ledger in a quote where `whole`, the one in SOL, stands. Up to here nothing was
    paid in the quote, so that no cost in it is known.
    """
    ledger = copy.deepcopy(whole)
    ledger.quote, ledger.totals = quote, Totals()
    ledger.inventory.turn_costs(quote)
    held = sum(opening.amount for opening in ledger.untouched.values() if opening.mint == quote)
    held += sum(seen.amount for seen in ledger.seen.values() if seen.mint == quote)
    ledger.totals.opening = ledger.totals.closing = held
    ledger.untouched = _keep_lots(ledger.untouched, quote)
    ledger.expected = _keep_lots(ledger.expected, quote)
    ledger.found = _keep_lots(ledger.found, quote)
    ledger.gap_starts = _turn_starts(ledger.gap_starts, quote)
    ledger.found_gap_starts = _turn_starts(ledger.found_gap_starts, quote)
    ledger.turn_gaps(quote)
    return ledger


def _keep_lots(openings: dict[str, Opening], quote: str) -> dict[str, Opening]:
    """Leave out openings of the quote itself, which is money and has no lots."""
    return {address: one for address, one in openings.items() if one.mint != quote}


def _turn_starts(starts: dict[str | None, int], quote: str) -> dict[str | None, int]:
    """Make a gap in the quote's own history one of everything that is paid in it."""
    kept: dict[str | None, int] = {}
    for mint, slot in starts.items():
        whose = None if mint == quote else mint
        kept[whose] = min(slot, kept.get(whose, slot))
    return kept


@dataclass
class QuoteRecord:
    """The ledger in a quote, and its sums."""

    ledger: Ledger
    last: Sums = NOTHING
    # Against the quote: trades, their fees and tips, and sales of what was paid for elsewhere.
    trades: int = 0
    fee_lamports: int = 0
    cross: int = 0

    def count(self, entry: Entry) -> Booked:
        booked = self.ledger.apply(view_entry(entry, self.ledger.quote))
        if booked.entry.kind in AGAINST and booked.counts:
            self.trades += 1
            self.fee_lamports += entry.fee + entry.tip
            self.cross += is_cross(booked)
        self.last = read_stablecoin_sums(
            self.ledger.totals, self.trades, self.fee_lamports, self.cross
        )
        return booked

    def skip(self, entry: Entry) -> None:
        """Book an entry that moves lots and counts for nothing."""
        totals = replace(self.ledger.totals)
        self.ledger.apply(view_entry(entry, self.ledger.quote))
        self.ledger.totals = totals
        self.ledger.inventory.forget_costs(entry.signature)


def is_cross(booked: Booked) -> bool:
    """Did a sale for the quote take lots that were paid for in something else?"""
    return booked.status in ("partial", "unmatched") and PAID_ELSEWHERE in booked.flags


class QuoteSale(NamedTuple):
    """What a trade made in a quote, by the columns of `quote_trade`."""

    kind: str
    change: int
    status: str
    result: int | None
    proceeds: int | None
    cost: int | None
    matched_raw: str
    unmatched_raw: str
    is_cross: bool


def read_sale(booked: Booked) -> QuoteSale | None:
    """Return what is stored of a trade against the quote whose ledger booked it; None for anything
    else.
    """
    if booked.entry.kind not in AGAINST or not booked.counts:
        return None
    return QuoteSale(
        booked.entry.kind,
        booked.entry.venue_sol,
        booked.status,
        booked.result,
        booked.proceeds,
        booked.cost,
        str(booked.matched),
        str(booked.unmatched),
        is_cross(booked),
    )


@dataclass
class QuoteBook:
    """The ledgers in quotes beside one in SOL. A wallet that never holds a quote has none."""

    records: dict[str, QuoteRecord] = field(default_factory=dict)

    @property
    def is_stale(self) -> bool:
        return any(record.ledger.stale for record in self.records.values())

    def list_ledgers(self) -> list[Ledger]:
        """List the ledgers in which something is held, or was."""
        return [record.ledger for record in self.records.values()]

    def find_imbalances(self) -> dict[str, int]:
        """What the books in a quote leave over though nothing is missing, in its raw units, by
        mint. Any is a defect of this program.
        """
        found = {quote: one.ledger.reconcile().imbalance for quote, one in self.records.items()}
        return {quote: raw for quote, raw in sorted(found.items()) if raw}

    def begin(self, entry: Entry, whole: Ledger) -> None:
        """Begin a ledger for each quote that this entry is the first to hold. `whole`: the ledger
        in SOL before it.
        """
        for one in entry.balances:
            if one.mint in MINTS and (one.before or one.after) and one.mint not in self.records:
                assert one.mint is not None
                self.records[one.mint] = QuoteRecord(begin_ledger(whole, one.mint))

    def count(self, entry: Entry) -> dict[str, Booked]:
        """Book an entry in each quote: what each made of it."""
        return {quote: record.count(entry) for quote, record in self.records.items()}

    def skip(self, entry: Entry) -> None:
        """Book an entry that moves lots and counts for nothing."""
        for record in self.records.values():
            record.skip(entry)
