"""Digests of running totals: by hour, by stretch of time and by token.

Each is SHA-256, in hex, over a line of JSON for each row, in order; the same over what is stored
and over what was worked out. Stored rows are never held in memory together.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

import orjson

from chain.ledger.risk import RiskBook
from chain.ledger.sums import Sums
from chain.stored.risk_store import COLUMNS as RISK_COLUMNS
from chain.stored.risk_store import TOKEN_COLUMNS, dump_stretch
from chain.stored.totals import COLUMNS, TotalKey
from storage import database


def digest_rows(rows: Iterable[Sequence[Any]]) -> str:
    """Return the SHA-256, in hex, over rows as lines of JSON."""
    whole = hashlib.sha256()
    for row in rows:
        whole.update(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return whole.hexdigest()


# ---- as stored -----------------------------------------------------------------------------------
# The rows that each is of. `owner`: the number of the wallet; `view`: as in RunningTotal.
STORED = {
    "hours": f"""
        SELECT money, hour, {COLUMNS} FROM running_total
        WHERE wallet_id = {{owner}} AND view = {{view}} ORDER BY money, hour""",
    "risk": f"""
        SELECT hours, begins, {", ".join(RISK_COLUMNS)} FROM risk_total
        WHERE wallet_id = {{owner}} AND span = {{view}} ORDER BY hours, begins""",
    "tokens": f"""
        SELECT mint, {", ".join(TOKEN_COLUMNS)} FROM token_total
        WHERE wallet_id = {{owner}} AND span = {{view}} ORDER BY mint""",
}


def digest_stored(kind: str, owner: int, view: int) -> str:
    """Digest the stored rows of a wallet's view: its running totals by hour in each money, its risk
    in each stretch of time, or what its sales of each token earned. Rows are read one by one.
    """
    return digest_rows(database.execute_sql(STORED[kind].format(owner=owner, view=view)))


# ---- as worked out -------------------------------------------------------------------------------
def digest_hours(rows: Mapping[TotalKey, Sums | None], view: int) -> str:
    """Like digest_stored, of the hours of a view that were worked out."""
    mine = ((key, sums) for key, sums in sorted(rows.items()) if sums is not None)
    return digest_rows([key.money, key.hour, *sums] for key, sums in mine if key.view == view)


def digest_risk(book: RiskBook) -> str:
    """Like digest_stored, of risk: of a book of which nothing was written yet."""
    rows = ((period, stretch) for period, stretch in sorted(book.rows.items()) if stretch)
    return digest_rows([*period, *dump_stretch(stretch).values()] for period, stretch in rows)


def digest_tokens(book: RiskBook) -> str:
    """Like digest_stored, of tokens: of a book of which nothing was written yet."""
    rows = ((mint, token) for mint, token in sorted(book.token_rows.items()) if token)
    return digest_rows([mint, *astuple(token)] for mint, token in rows)
