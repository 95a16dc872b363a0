"""Who may be ranked by what it did, and in which part of a list it stands. Pure."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

# Runs a statement that only reads and returns its rows.
Rows = Callable[[str], Iterable[tuple[Any, ...]]]

# below this, a realized result is luck
MIN_SELLS = 3
# Parts of a list, in order. Proven: the owner has proven each wallet that is counted; unseen:
# nothing was observed.
PROVEN_RANKED, CLAIMED_RANKED, PROVEN, PROVEN_UNSEEN, CLAIMED, CLAIMED_UNSEEN = range(6)
UNATTACHED, UNATTACHED_UNSEEN = 6, 7
ARE_PROVEN = {PROVEN_RANKED, PROVEN, PROVEN_UNSEEN}
ARE_UNSEEN = {PROVEN_UNSEEN, CLAIMED_UNSEEN, UNATTACHED_UNSEEN}
# The records: since its wallets were attached, or all that is known of the wallet it holds.
FORWARD, ALL = "forward", "all"
# The quote of a standing whose amounts are lamports.
IN_SOL = ""
# The `ends` of an all-time standing, which never runs out: a Unix second.
NEVER = 2**40
# The tier that is in no list: a retired bot that did nothing in the time asked for.
HIDDEN = 8


class Totals(NamedTuple):
    """What a bot did: lamports and counts. `winning`: sales with a result above 0; `cost_left`:
    known cost of what left without a sale.
    """

    realized: int = 0
    volume: int = 0
    trades: int = 0
    matched: int = 0
    partial: int = 0
    unmatched: int = 0
    winning: int = 0
    cost_left: int = 0


class StandingRow(NamedTuple):
    """What a bot did in a window of `seconds` (0: all time), as it is ranked: a row of
    `standing_total`, except that the number of the bot is called `bot`.

    `record`: forward | all; `quote`: the mint that its amounts are in, or IN_SOL; `ends`: the Unix
    second from which the window's content may be another.
    """

    bot: int
    record: str
    quote: str
    seconds: int
    ends: int
    result_tier: int
    count_tier: int
    realized: int
    floor: int
    volume: int
    trades: int
    matched: int
    partial: int
    unmatched: int
    winning: int
    cost_left: int

    @property
    def totals(self) -> Totals:
        return Totals(*(getattr(self, name) for name in Totals._fields))


class Ranked(NamedTuple):
    """What decides about the tiers of a bot. `totals`: None where nothing was observed."""

    totals: Totals | None
    has_wallet: bool
    has_gap: bool
    is_proven: bool
    is_retired: bool


def make_standing(bot: int, record: str, seconds: int, ends: int, one: Ranked) -> StandingRow:
    """Rank what a bot did in a window."""
    totals = one.totals or Totals()
    floor = totals.realized - totals.cost_left
    tiers = [_find_tier(one, by_result) for by_result in (True, False)]
    if one.is_retired and not totals.trades:
        tiers = [HIDDEN, HIDDEN]
    shown = {**totals._asdict(), "floor": floor}
    return StandingRow(bot, record, IN_SOL, seconds, ends, *tiers, **shown)


def _find_tier(one: Ranked, by_result: bool) -> int:
    reason = find_reason(one.totals, one.has_wallet, one.has_gap, by_result)
    return find_tier(reason, one.totals is not None, one.is_proven)


def find_reason(
    totals: Totals | None, has_wallet: bool, has_gap: bool, by_result: bool
) -> str | None:
    """Tell why a bot has no rank, or None. `totals`: None where nothing was observed; `by_result`:
    is it ranked by a result, which needs a history without gaps?
    """
    if not has_wallet:
        return "no_wallet"
    if totals is None:
        return "not_observed"
    if by_result and totals.matched + totals.partial < MIN_SELLS:
        return "too_few_sells"
    return "open_gap" if by_result and has_gap else None


def find_tier(reason: str | None, is_seen: bool, is_proven: bool) -> int:
    """Return the part of the list. `is_seen`: was anything of it observed?"""
    if reason == "no_wallet":
        return UNATTACHED if is_seen else UNATTACHED_UNSEEN
    if reason is None:
        return PROVEN_RANKED if is_proven else CLAIMED_RANKED
    if is_seen:
        return PROVEN if is_proven else CLAIMED
    return PROVEN_UNSEEN if is_proven else CLAIMED_UNSEEN
