"""Warning signs shown next to a result. They don't affect the rank."""

from collections import Counter
from collections.abc import Collection

from chain.ledger.inventory import SOL
from chain.ledger.sums import NOTHING, list_signs
from chain.stored.attachments import Source, read_totals
from storage import Rows

# The best result of a token in each wallet, found by an index.
BEST = """
SELECT a.bot_id, (SELECT MAX(t.realized) FROM token_total t WHERE t.wallet_id = a.wallet_id
                  AND t.money = '{money}' AND t.view = {view})
FROM attachment a WHERE {which} AND a.bot_id IN ({bots})"""
# The same, over several wallets.
TOGETHER = """
SELECT bot_id, CAST(MAX(realized) AS BIGINT) FROM (
    SELECT a.bot_id, SUM(t.realized) AS realized FROM attachment a JOIN token_total t
    ON t.wallet_id = a.wallet_id AND t.money = '{money}' AND t.view = {view}
    WHERE {which} AND a.bot_id IN ({bots}) GROUP BY a.bot_id, t.mint) by_mint
GROUP BY bot_id"""


def find_signs(
    rows: Rows, source: Source, bots: Collection[int], money: str = SOL
) -> dict[int, list[str]]:
    """Return warning signs by bot, over all its results."""
    found = read_totals(rows, source, bots, [money])
    totals = {bot: found.get((bot, money), NOTHING) for bot in bots}
    gained = [bot for bot, sums in totals.items() if sums.realized > 0]
    best = _find_best(rows, source, gained, money)
    return {bot: list_signs(sums, best.get(bot, 0)) for bot, sums in totals.items()}


def _find_best(rows: Rows, source: Source, bots: Collection[int], money: str) -> dict[int, int]:
    if not bots:
        return {}
    found = list(rows(_write(BEST, source, bots, money)))
    wallets = Counter(bot for bot, _ in found)
    best = {bot: int(realized or 0) for bot, realized in found}
    if several := [bot for bot, count in wallets.items() if count > 1]:
        best |= dict(rows(_write(TOGETHER, source, several, money)))
    return best


def _write(sql: str, source: Source, bots: Collection[int], money: str) -> str:
    listed = ", ".join(map(str, bots))
    return sql.format(**source._asdict(), money=money, bots=listed)
