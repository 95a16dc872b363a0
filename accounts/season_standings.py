"""The bots in a season, with their numbers and ranks. Reads running totals and writes nothing.

Amounts are raw units of the season's currency, times UTC milliseconds.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import storage
from chain.ledger.inventory import SOL
from chain.ledger.sums import NOTHING, Sums
from chain.ledger.views import HOUR_MS
from chain.stored.attachments import OF_RECORD, read_totals
from chain.stored.summary import read_coverage
from storage import Rows

# Ranking criteria and their sort columns.
RULES = {"pnl": "realized", "return": "return_points", "pnl_floor": "worst_case"}
PROVEN, ALL = "proven", "all"
# Why a history doesn't prove a result, the worst first.
UNPROVEN = ("not_observed", "backfilling", "gap")


class Terms(NamedTuple):
    """The columns of a season that decide its standings, and its name."""

    name: str
    rule: str
    money: str
    symbol: str
    decimals: int
    wallets: str
    min_sales: int
    starts_at: int
    ends_at: int

    @property
    def min_cost(self) -> int:
        """The cost basis required for a rank by return: 1 SOL, or 100 of a stablecoin."""
        return int(10**self.decimals) * (1 if self.money == SOL else 100)


class SeasonRow(NamedTuple):
    """A bot's row. Numbers are None before the start, and after the freeze if they aren't proven.

    `since`: when its results begin to count; `sales`: with a known cost; `reason`: why it has no
    rank.
    """

    bot: int
    joined_at: int | None
    since: int
    ownership: str | None
    reason: str | None
    rank: int | None = None
    realized: int | None = None
    cost: int | None = None
    return_points: int | None = None
    worst_case: int | None = None
    sales: int | None = None
    trades: int | None = None

    @property
    def is_unproven(self) -> bool:
        return self.reason in UNPROVEN


class Place(NamedTuple):
    """A row's sort key: ranked rows first, best first, ties by the bot's age."""

    group: int
    score: int
    bot: int


def find_place(rule: str, row: SeasonRow) -> Place:
    if row.reason:
        return Place(1, 0, row.bot)
    return Place(0, -getattr(row, RULES[rule]), row.bot)


def rank(rule: str, rows: Iterable[SeasonRow]) -> list[SeasonRow]:
    """Sort rows and rank those without a reason. Ties share one."""
    listed, ranked = sorted(rows, key=lambda row: find_place(rule, row)), []
    last: tuple[int, int] | None = None
    for place, row in enumerate(listed, 1):
        score = getattr(row, RULES[rule])
        if not row.reason and (last is None or score != last[1]):
            last = place, score
        ranked.append(row._replace(rank=last[0] if last and not row.reason else None))
    return ranked


def measure(terms: Terms, sums: Sums) -> dict[str, int | None]:
    """Return a row's numbers. Below the cost required for a rank, the return could overflow its
    column, so there is none.
    """
    is_enough = sums.cost >= terms.min_cost
    return {
        "realized": sums.realized,
        "cost": sums.cost,
        "return_points": sums.return_points if is_enough else None,
        "worst_case": sums.worst_case,
        "sales": sums.matched + sums.partial,
        "trades": sums.trades,
    }


def find_reason(terms: Terms, ownership: str | None, sums: Sums) -> str | None:
    """Return why complete results have no rank, or None."""
    if ownership is None:
        return "no_wallet"
    if terms.wallets == PROVEN and ownership != PROVEN:
        return "not_proven"
    if sums.matched + sums.partial < terms.min_sales:
        return "too_few_sells"
    if terms.rule == "return" and sums.cost < terms.min_cost:
        return "too_little_cost"
    return None


# ---- who takes part ------------------------------------------------------------------------------
# Bots with a wallet at the start, and those that joined. {at}: the start, or now if it is earlier.
IS_ENTRANT = """(e.bot_id IS NOT NULL OR EXISTS (
    SELECT 1 FROM attachment s WHERE s.bot_id = b.id AND s.attached_at <= {at}
    AND (s.detached_at IS NULL OR s.detached_at > {at})))"""
ENTRANTS = """
FROM bot b LEFT JOIN season_entry e ON e.bot_id = b.id AND e.season_id = {season}"""
COUNT = f"SELECT COUNT(*) {ENTRANTS} WHERE {IS_ENTRANT}"
HOLDINGS = f"""
SELECT b.id, e.joined_at, CASE WHEN x.target IS NULL THEN 0 ELSE 1 END, a.ownership, a.attached_at,
       a.detached_at, a.forward_realized, w.coverage, w.observed_to,
       CASE WHEN w.closing_at IS NULL AND NOT EXISTS (
           SELECT 1 FROM attachment h WHERE h.wallet_id = w.id AND h.detached_at IS NULL)
       THEN 1 ELSE 0 END
{ENTRANTS}
JOIN owner o ON o.id = b.owner_id LEFT JOIN ban x ON x.kind = 'owner' AND x.target = o.uid
LEFT JOIN attachment a ON a.bot_id = b.id AND a.attached_at < {{ends}}
    AND (a.detached_at IS NULL OR a.detached_at > {{at}})
LEFT JOIN wallet w ON w.id = a.wallet_id
WHERE {IS_ENTRANT} ORDER BY b.id"""


class Holding(NamedTuple):
    """One of an entrant's wallets during the season, or no wallet. `is_closed`: no bot has it, and
    all its activity was observed.
    """

    bot: int
    joined_at: int | None
    is_banned: int
    ownership: str | None
    attached_at: int | None
    detached_at: int | None
    forward_realized: int | None
    coverage: str | None
    observed_to: int | None
    is_closed: int


class Entrant(NamedTuple):
    bot: int
    joined_at: int | None
    since: int
    ownership: str | None
    # Reasons that rule out a rank regardless of results.
    reason: str | None


def count_entrants(rows: Rows, season: int, terms: Terms, now: int) -> int:
    """Return how many bots take part, or would if the season began now."""
    ((count,),) = rows(COUNT.format(season=season, at=min(now, terms.starts_at)))
    return int(count)


def is_entrant(rows: Rows, season: int, terms: Terms, bot: int) -> bool:
    """Whether a bot joined, or had a wallet at the start, which must be over."""
    sql = f"{COUNT} AND b.id = {{bot}}"
    ((count,),) = rows(sql.format(season=season, at=terms.starts_at, bot=bot))
    return bool(count)


def list_entrants(rows: Rows, season: int, terms: Terms, now: int) -> Iterator[Entrant]:
    at = min(now, terms.starts_at)
    sql = HOLDINGS.format(season=season, at=at, ends=terms.ends_at)
    for _, found in groupby(map(Holding._make, rows(sql)), attrgetter("bot")):
        yield _make_entrant(terms, at, now, list(found))


def _make_entrant(terms: Terms, at: int, now: int, found: Sequence[Holding]) -> Entrant:
    first, held = found[0], [one for one in found if one.attached_at is not None]
    # A wallet disconnected right at the start has no time in the season.
    since = terms.starts_at
    if not any((one.attached_at or 0) <= at for one in held):
        since = find_since(terms, first.joined_at)
    proven = all(one.ownership == PROVEN for one in held)
    ownership = (PROVEN if proven else "claimed") if held else None
    problems = {_find_problem(terms, one, now) for one in held}
    reason = next((one for one in UNPROVEN if one in problems), None)
    if now < terms.starts_at:
        reason = "not_started"
    return Entrant(
        first.bot, first.joined_at, since, ownership, "excluded" if first.is_banned else reason
    )


def find_since(terms: Terms, joined_at: int | None) -> int:
    """Return when the results of a bot that joined count: from the next full hour."""
    if joined_at is None or joined_at <= terms.starts_at:
        return terms.starts_at
    return -(-joined_at // HOUR_MS) * HOUR_MS


def _find_problem(terms: Terms, one: Holding, now: int) -> str | None:
    """Return why a wallet's history doesn't prove its results so far, or None."""
    coverage = read_coverage(one.coverage)
    if one.forward_realized is None or coverage["state"] == "none":
        return "not_observed"
    is_over = now >= terms.ends_at
    if coverage["state"] == "backfilling" or (is_over and coverage["pending"]):
        return "backfilling"
    if coverage["gaps"]:
        return "gap"
    until = min(terms.ends_at, one.detached_at or terms.ends_at)
    is_seen = one.is_closed or (one.observed_to or 0) * 1000 >= until
    return "not_observed" if is_over and not is_seen else None


# ---- standings -----------------------------------------------------------------------------------
def read_sums(rows: Rows, terms: Terms, since: Mapping[int, int]) -> dict[int, Sums]:
    """Return each bot's totals from its `since` to the end, while it had each wallet."""
    ends, begun = _read(rows, terms, terms.ends_at, since), dict[int, Sums]()
    by_hour: dict[int, list[int]] = defaultdict(list)
    for bot, begins_at in since.items():
        by_hour[begins_at].append(bot)
    for begins_at, bots in by_hour.items():
        begun |= _read(rows, terms, begins_at, bots)
    return {bot: ends.get(bot, NOTHING).minus(begun.get(bot, NOTHING)) for bot in since}


def _read(rows: Rows, terms: Terms, until: int, bots: Iterable[int]) -> dict[int, Sums]:
    found: dict[int, Sums] = {}
    for part in storage.in_parts(bots):
        told = read_totals(rows, OF_RECORD, part, [terms.money], until // HOUR_MS)
        found |= {bot: sums for (bot, _), sums in told.items()}
    return found


def work_out(rows: Rows, season: int, terms: Terms, now: int) -> list[SeasonRow]:
    """Return the standings as they are now, the best first."""
    entrants = list(list_entrants(rows, season, terms, now))
    is_begun = now >= terms.starts_at
    sums = read_sums(rows, terms, {one.bot: one.since for one in entrants}) if is_begun else {}
    return rank(terms.rule, (_make_standing(terms, one, sums.get(one.bot)) for one in entrants))


def _make_standing(terms: Terms, one: Entrant, sums: Sums | None) -> SeasonRow:
    numbers: dict[str, Any] = measure(terms, sums) if sums else {}
    settled = find_reason(terms, one.ownership, sums or NOTHING)
    # Nothing needs proof if the bot can't be ranked anyway.
    reason = settled if settled in ("no_wallet", "not_proven") and one.reason in UNPROVEN else None
    return SeasonRow(
        one.bot, one.joined_at, one.since, one.ownership, reason or one.reason or settled, **numbers
    )


FROZEN = f"""
SELECT {", ".join(("bot_id", *SeasonRow._fields[1:]))} FROM season_entry
WHERE season_id = {{season}} AND since IS NOT NULL"""


def read_frozen(rows: Rows, season: int, rule: str) -> list[SeasonRow]:
    """Return frozen standings, best first; before the freeze, the rows proven so far."""
    found = map(SeasonRow._make, rows(FROZEN.format(season=season)))
    return sorted(found, key=lambda row: find_place(rule, row))
