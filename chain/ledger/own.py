"""Combine the actions of a bot's wallets in the same transaction. Pure.

Exchanges between them are never priced, because a bot could sell to itself at any price. Wallets
that only buy, or only sell, in parallel keep their prices.
"""

from collections.abc import Iterable

from chain.ledger.sales import UNEXPLAINED
from chain.reading.entries import Entry
from chain.reading.kinds import DUST, TRADES

# Flags a trade against another wallet of the same bot. It is always set together with UNEXPLAINED,
# so the trade has no price.
OWN_WALLETS = "own_wallets"
OWN_TRANSFER = "own_transfer"
OWN_FLAGS = frozenset((OWN_WALLETS, OWN_TRANSFER))

# A pair (mint or "" for SOL, whether it increased).
Direction = tuple[str, bool]


def mark_own(entry: Entry, others: Iterable[Entry | None]) -> Entry:
    """Return the entry, with a flag if it traded against another wallet of the bot.

    `others` are the entries of the bot's other wallets for the same transaction, or None where one
    is unreadable.
    """
    mine = _list_directions(entry)
    if not any(one is None or _exchange(mine, _list_directions(one)) for one in others):
        return entry
    flags = {OWN_WALLETS, UNEXPLAINED} if _is_trade(entry) else {OWN_TRANSFER}
    return entry._replace(flags=tuple(sorted({*entry.flags, *flags})))


def _is_trade(entry: Entry) -> bool:
    """Return whether it could have a price or verify a post."""
    return entry.kind in TRADES or entry.kind == "order_fill" or "ambiguous" in entry.flags


def _exchange(mine: set[Direction], theirs: set[Direction]) -> bool:
    return any((mint, not rose) in theirs for mint, rose in mine)


def _list_directions(entry: Entry) -> set[Direction]:
    """Return the amounts that increased and decreased in a trade at its venue. Fees and tips don't
    count.
    """
    if entry.kind == "failed":
        return set()
    is_trade = _is_trade(entry)
    sol = (entry.venue_sol if is_trade else entry.sol) + entry.fee + entry.tip
    tokens = entry.venue_tokens if is_trade else entry.tokens
    found = {(mint, change > 0) for mint, change, _ in tokens if mint not in entry.residues}
    if abs(sol) >= DUST:
        found.add(("", sol > 0))
    if entry.kind == "round_trip" and entry.mint:
        # It was bought and sold back, so it both increased and decreased.
        found |= {(entry.mint, True), (entry.mint, False)}
    return found
