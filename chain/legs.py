"""The legs of an entry: what rose and what fell, and which of it was traded. Pure."""

from collections.abc import Iterable

from chain.entries import Entry

# Raw changes by mint, all above 0.
Amounts = dict[str, int]


def split_changes(tokens: Iterable[tuple[str, int, int]]) -> tuple[Amounts, Amounts]:
    """Part ((mint, raw change, decimals), ...) into (what rose, what fell)."""
    rose: Amounts = {}
    fell: Amounts = {}
    for mint, change, _ in tokens:
        if change > 0:
            rose[mint] = change
        elif change < 0:
            fell[mint] = -change
    return rose, fell


def find_traded(entry: Entry, amounts: Amounts) -> str:
    """The mint of one side of a trade: what is no residue."""
    if entry.mint in amounts:
        return entry.mint
    return next(mint for mint in amounts if mint not in entry.residues)


def add_flags(entry: Entry, *more: str) -> tuple[str, ...]:
    """The flags of an entry with more, in order."""
    return tuple(sorted({*entry.flags, *more}))


def find_escrow(entry: Entry, mint: str) -> tuple[int, str]:
    """What reached the escrow of an order, in raw units of a mint, and its address: the account
    that received most of it. 0 and no address where none did.
    """
    gains = [
        (after - before, address)
        for address, of, before, after in entry.others
        if of == mint and after > before
    ]
    return max(gains, default=(0, ""))
