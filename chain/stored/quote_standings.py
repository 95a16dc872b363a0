"""What bots did against a stablecoin, as the boards rank it: by the rules for SOL, over the running
totals of that stablecoin's ledgers. A bot that never had such a ledger has no standing.
"""

from collections.abc import Collection, Mapping, Sequence

from chain.stored import forward_standings, whole_standings
from chain.stored.ranks import NEVER, Rows, StandingRow, Totals
from chain.stored.whole_standings import subtract

# Later than any time that occurs, in Unix seconds.
END_OF_TIME = 2**40


def _last(name: str, wallet: str, span: str) -> str:
    """SQL of the last running totals of a ledger before a Unix second, the value `{name}_until`."""
    return f"""{name}.wallet_id = {wallet} AND {name}.span = {span} AND {name}.quote = '{{mint}}'
    AND {name}.time = (SELECT MAX(l.time) FROM quote_total l WHERE l.wallet_id = {wallet}
        AND l.span = {span} AND l.quote = '{{mint}}' AND l.time < {{{name}_until}})"""


# Like forward_standings.RECORDS, without what was still held when a wallet was given up.
RECORDS = f"""
SELECT a.bot_id,
       MAX(CASE WHEN e.trades > 0 AND NOT EXISTS (
           SELECT 1 FROM attachment p WHERE p.bot_id = a.bot_id AND p.wallet_id = a.wallet_id
           AND p.ownership = 'proven') THEN 1 ELSE 0 END),
       MIN((SELECT MIN(n.time) FROM quote_total n WHERE n.wallet_id = a.wallet_id
            AND n.span = a.id AND n.quote = '{{mint}}' AND n.time >= {{s_until}})),
       CAST(NULL AS BIGINT),
       {
    ", ".join(f"CAST(SUM(e.{name} - COALESCE(s.{name}, 0)) AS BIGINT)" for name in Totals._fields)
}
FROM attachment a JOIN quote_total e ON {_last("e", "a.wallet_id", "a.id")}
LEFT JOIN quote_total s ON {_last("s", "a.wallet_id", "a.id")}
WHERE a.bot_id IN ({{bots}}) GROUP BY a.bot_id
"""
RUNNING = f"""
SELECT w.id, {", ".join(f"e.{name}" for name in Totals._fields)}
FROM wallet w JOIN quote_total e ON {_last("e", "w.id", "0")} WHERE w.id IN ({{wallets}})
"""
FIRST = """
SELECT w.id, (SELECT MIN(n.time) FROM quote_total n WHERE n.wallet_id = w.id AND n.span = 0
              AND n.quote = '{mint}' AND n.time >= {since})
FROM wallet w WHERE w.id IN ({wallets})
"""


def work_out_forward(
    rows: Rows, mint: str, seconds: int, now: int, bots: Sequence[int]
) -> list[StandingRow]:
    """The standings by forward record of those of these bots that have a ledger in it."""
    since = now - seconds if seconds else 0
    sql = RECORDS.format(mint=mint, e_until=END_OF_TIME, s_until=since, bots=_list(bots))
    records = {one.bot: one for one in map(forward_standings.Record._make, rows(sql))}
    facts = rows(forward_standings.FACTS.format(bots=_list(sorted(records)))) if records else ()
    return [
        forward_standings.make_forward(one, records[one.bot], seconds)._replace(quote=mint)
        for one in map(forward_standings.Facts._make, facts)
    ]


def work_out_whole(
    rows: Rows, mint: str, seconds: int, now: int, bots: Sequence[int]
) -> list[StandingRow]:
    """The standings by all that is known of their wallets of those of these bots whose wallet has
    a ledger in it.
    """
    sql = whole_standings.FACTS.format(bots=_list(bots))
    facts = [whole_standings.Facts._make(row) for row in rows(sql)]
    wallets = {one.wallet for one in facts if one.wallet is not None}
    found = _find_running(rows, mint, wallets, END_OF_TIME)
    since = now - seconds if seconds else 0
    before = _find_running(rows, mint, found, since)
    ends = _find_ends(rows, mint, found, seconds, since)
    standings = []
    for one in facts:
        if one.wallet in found:
            totals = _find_own(rows, mint, one, found, before)
            end = ends.get(one.wallet, NEVER)
            standing = whole_standings.make_whole(one, seconds, end, totals)
            standings.append(standing._replace(quote=mint))
    return standings


def _find_running(rows: Rows, mint: str, wallets: Collection[int], until: int) -> dict[int, Totals]:
    """Return {wallet: its running totals} before this Unix second, of those that have any."""
    sql = RUNNING.format(mint=mint, wallets=_list(wallets), e_until=until)
    return {wallet: Totals._make(totals) for wallet, *totals in rows(sql)} if wallets else {}


def _find_ends(
    rows: Rows, mint: str, wallets: Collection[int], seconds: int, since: int
) -> dict[int, int]:
    """Return {wallet: the Unix second from which the content of its window is another}."""
    if not seconds or not wallets:
        return {}
    firsts = rows(FIRST.format(mint=mint, since=since, wallets=_list(wallets)))
    return {wallet: first + seconds + 1 for wallet, first in firsts if first is not None}


def _find_own(
    rows: Rows,
    mint: str,
    facts: whole_standings.Facts,
    found: Mapping[int, Totals],
    before: Mapping[int, Totals],
) -> Totals | None:
    """What the bot's wallet did, as in whole_standings; None where its past is another's."""
    if facts.results is None or facts.wallet is None or facts.holder is None:
        return None
    end = found[facts.wallet]
    if facts.holder == "earlier" and facts.retired_at is not None:
        until = _find_running(rows, mint, [facts.wallet], facts.retired_at // 1000)
        end = until.get(facts.wallet, Totals())
    return subtract(end, before.get(facts.wallet, Totals()))


def _list(numbers: Collection[int]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "NULL"
