"""All that is known of what bots' wallets did, of all time or in windows, also before they were
attached.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from chain.ledger.forward import HOUR_SECONDS
from chain.stored.columns import RESULTS
from chain.stored.holdings import LAST_LEAD
from chain.stored.ranks import ALL, NEVER, Ranked, Rows, StandingRow, Totals, make_standing
from chain.stored.summary import read_coverage
from storage.stored import read_stored

END_OF_TIME = 2**31


class Facts(NamedTuple):
    """A bot and the wallet it holds, or held when it was retired (ms). `coverage` and `results` are
    JSON; `holder`: own, earlier (another one merely claims the wallet now), or None
    where the wallet's past is another's, as it is for a mere claim of a wallet proven elsewhere.
    """

    bot: int
    retired_at: int | None
    ownership: str | None
    wallet: int | None
    coverage: str | None
    results: str | None
    holder: str | None


FACTS = f"""
SELECT b.id, b.retired_at, a.ownership, w.id, w.coverage, w.results,
       CASE WHEN w.bot_id = b.id THEN CASE WHEN w.bot_since IS NULL THEN 'own' END
            WHEN w.earlier_bot_id = b.id THEN 'earlier' END
FROM bot b LEFT JOIN attachment a ON a.id = {LAST_LEAD}
LEFT JOIN wallet w ON w.id = a.wallet_id WHERE b.id IN ({{bots}}) ORDER BY b.id
"""
RUNNING = f"""
SELECT h.wallet_id, {", ".join(f"h.{name}" for name in Totals._fields)} FROM hour_total h
WHERE h.wallet_id IN ({{wallets}}) AND h.hour = (
    SELECT MAX(l.hour) FROM hour_total l WHERE l.wallet_id = h.wallet_id AND l.hour < {{hour}})
"""
# Trades, and whether their value came from the venue: else they are in no total.
PRICED_KINDS = "('buy', 'sell', 'swap', 'round_trip')"
IS_EXPLAINED = """t.flags NOT LIKE '%"value_unexplained"%'"""
# Every kind can hold a cost that left, also a failed transaction that shows a gap before it. Each
# is named, so that the index by kind and time is used.
ALL_KINDS = """('buy', 'sell', 'swap', 'round_trip', 'transfer_in', 'transfer_out',
    'transfer_self', 'native_transfer', 'order_open', 'order_fill', 'order_cancel', 'liquidity',
    'lending', 'stake', 'bridge', 'nft', 'account_open', 'account_close', 'other', 'failed')"""
# Not by the index of wallets: a window's few trades, not all of a wallet's past.
BETWEEN = """
FROM trade t WHERE t.kind IN {kinds} AND t.block_time >= {first} AND t.block_time < {end}
AND t.wallet_id IN ({wallets}) GROUP BY t.wallet_id
"""
TOTALS_BETWEEN = f"""
SELECT t.wallet_id, CAST(COALESCE(SUM(t.result), 0) AS BIGINT),
       CAST(COALESCE(SUM(CASE WHEN t.kind IN ('buy', 'sell') AND {IS_EXPLAINED}
                         THEN ABS(t.sol_change - t.beside_sol) END), 0) AS BIGINT),
       COUNT(CASE WHEN t.kind IN {PRICED_KINDS} AND {IS_EXPLAINED} THEN 1 END),
       COUNT(CASE WHEN t.realized = 'matched' THEN 1 END),
       COUNT(CASE WHEN t.realized = 'partial' THEN 1 END),
       COUNT(CASE WHEN t.realized = 'unmatched' AND {IS_EXPLAINED}
             AND t.flags NOT LIKE '%"incomplete_history"%' THEN 1 END),
       COUNT(CASE WHEN t.result > 0 THEN 1 END),
       CAST(COALESCE(SUM(t.cost_left), 0) AS BIGINT)
{BETWEEN}"""
FIRST_BETWEEN = f"SELECT t.wallet_id, MIN(t.block_time) {BETWEEN}"
FIRST_HOUR = """
SELECT h.wallet_id, MIN(h.hour) FROM hour_total h
WHERE h.wallet_id IN ({wallets}) AND h.hour >= {hour} GROUP BY h.wallet_id
"""


def work_out(rows: Rows, seconds: int, now: int, bots: Sequence[int]) -> list[StandingRow]:
    """The standings of these bots in a window that ends now (Unix second)."""
    facts = list(map(Facts._make, rows(FACTS.format(bots=", ".join(map(str, bots))))))
    wallets = sorted({one.wallet for one in facts if one.wallet is not None and one.holder})
    since = now - seconds if seconds else None
    ends = {} if since is None else _find_ends(rows, wallets, since)
    found = {} if since is None else find_totals_since(rows, wallets, since)
    standings = []
    for one in facts:
        results = read_stored(one.results, RESULTS) or {}
        end = ends[one.wallet] + seconds if one.wallet in ends else NEVER
        totals = _find_own(rows, one, results, since, found)
        standings.append(make_whole(one, seconds, end, totals))
    return standings


def make_whole(facts: Facts, seconds: int, ends: int, totals: Totals | None) -> StandingRow:
    """Rank all that is known of what a bot's wallet did in a window."""
    ranked = Ranked(
        totals=totals,
        has_wallet=facts.wallet is not None,
        has_gap=bool(read_coverage(facts.coverage)["gaps"]),
        is_proven=facts.ownership == "proven",
        is_retired=facts.retired_at is not None,
    )
    return make_standing(facts.bot, ALL, seconds, ends, ranked)


def _find_own(
    rows: Rows,
    facts: Facts,
    results: dict[str, Any],
    since: int | None,
    found: Mapping[int, Totals],
) -> Totals | None:
    """What the bot's wallet did; None without an observed wallet. Of a retired bot whose proven
    wallet another one claims now: what it did until then.
    """
    if facts.results is None or facts.wallet is None or facts.holder is None:
        return None
    if facts.holder == "earlier" and facts.retired_at is not None:
        end = find_totals_until(rows, [facts.wallet], facts.retired_at // 1000)
        begin = {} if since is None else find_totals_until(rows, [facts.wallet], since)
        return subtract(end.get(facts.wallet, Totals()), begin.get(facts.wallet, Totals()))
    return _parse(results) if since is None else found.get(facts.wallet, Totals())


def _parse(results: dict[str, Any]) -> Totals:
    """The all-time totals out of a wallet's stored results."""
    return Totals(
        int(results["realizedLamports"]),
        int(results["volumeLamports"]),
        results["observedTrades"],
        results["matchedSells"],
        results["partialSells"],
        results["unmatchedSells"],
        results["winningSells"],
        int(results["costLeftLamports"]),
    )


def find_totals_since(rows: Rows, wallets: Sequence[int], since: int) -> dict[int, Totals]:
    """Return {wallet: totals} since this Unix second."""
    now = _find_running(rows, wallets, END_OF_TIME)
    before = find_totals_until(rows, wallets, since)
    return {one: subtract(totals, before.get(one, Totals())) for one, totals in now.items()}


def find_totals_until(rows: Rows, wallets: Sequence[int], second: int) -> dict[int, Totals]:
    """Return {wallet: totals} of what happened before this Unix second: running totals at the full
    hour before it, and the trades since.
    """
    hour = second // HOUR_SECONDS
    running = _find_running(rows, wallets, hour)
    sql = TOTALS_BETWEEN.format(**_span(wallets, hour * HOUR_SECONDS, second))
    between = {wallet: Totals._make(totals) for wallet, *totals in rows(sql)}
    return {
        wallet: Totals._make(
            map(sum, zip(running.get(wallet, Totals()), between.get(wallet, Totals()), strict=True))
        )
        for wallet in running.keys() | between.keys()
    }


def _find_running(rows: Rows, wallets: Sequence[int], hour: int) -> dict[int, Totals]:
    """Return {wallet: totals} at the end of the last hour before this one."""
    sql = RUNNING.format(wallets=_list(wallets), hour=hour)
    return {wallet: Totals._make(totals) for wallet, *totals in rows(sql)}


def subtract(totals: Totals, before: Totals) -> Totals:
    return Totals._make(one - other for one, other in zip(totals, before, strict=True))


def _find_ends(rows: Rows, wallets: Sequence[int], since: int) -> dict[int, int]:
    """Return {wallet: the `since` from which the count may differ}: exact within the hour; of a
    later hour its begin. When an hour with trades ends, it is looked at again: one of them may have
    a block time from before.
    """
    hour = since // HOUR_SECONDS
    later = rows(FIRST_HOUR.format(wallets=_list(wallets), hour=hour))
    soon = rows(FIRST_BETWEEN.format(**_span(wallets, since, (hour + 1) * HOUR_SECONDS)))
    return {
        **{wallet: max(first, hour + 1) * HOUR_SECONDS for wallet, first in later},
        **{wallet: first + 1 for wallet, first in soon},
    }


def _span(wallets: Sequence[int], first: int, end: int) -> dict[str, Any]:
    return {"kinds": ALL_KINDS, "first": first, "end": end, "wallets": _list(wallets)}


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "NULL"
