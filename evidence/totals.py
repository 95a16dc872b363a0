"""Digests of running totals: by hour, by second of a span, by stretch of time and by token.

Each is SHA-256, in hex, over a line of JSON for each row, in order; the same over what is stored
and over what was worked out. Stored rows are never held in memory together.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

import orjson

from chain.ledger.forward import SpanTotals
from chain.ledger.risk import RiskBook
from chain.stored.hour_store import RUNNING, RunningTotals
from chain.stored.risk_store import COLUMNS, TOKEN_COLUMNS, dump_stretch
from storage import database


def digest_rows(rows: Iterable[Sequence[Any]]) -> str:
    """Return the SHA-256, in hex, over rows as lines of JSON."""
    whole = hashlib.sha256()
    for row in rows:
        whole.update(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return whole.hexdigest()


# ---- as stored -----------------------------------------------------------------------------------
# The rows that each is of. `owner`: the number of the wallet; for seconds, of the attachment.
# `place`: the span, as in RiskTotal.
STORED = {
    "hours": f"""
        SELECT hour, {", ".join(RUNNING)} FROM hour_total WHERE wallet_id = {{owner}}
        ORDER BY hour""",
    "seconds": f"""
        SELECT time, {", ".join(SpanTotals._fields)} FROM forward_total
        WHERE attachment_id = {{owner}} ORDER BY time""",
    "risk": f"""
        SELECT hours, begins, {", ".join(COLUMNS)} FROM risk_total
        WHERE wallet_id = {{owner}} AND span = {{place}} ORDER BY hours, begins""",
    "tokens": f"""
        SELECT mint, {", ".join(TOKEN_COLUMNS)} FROM token_total
        WHERE wallet_id = {{owner}} AND span = {{place}} ORDER BY mint""",
}


def digest_stored(kind: str, owner: int, place: int = 0) -> str:
    """Digest the stored rows of an owner: running totals of a wallet at the end of each hour, those
    of a span after each second that changed them, the risk of a wallet's results in each stretch of
    time, or what its sales of each token earned. Rows are read one by one.
    """
    return digest_rows(database.execute_sql(STORED[kind].format(owner=owner, place=place)))


# ---- as worked out -------------------------------------------------------------------------------
def digest_hours(hours: Mapping[int, RunningTotals | None]) -> str:
    """Like digest_stored, of hours that were worked out."""
    return digest_rows([hour, *row] for hour, row in sorted(hours.items()) if row is not None)


def digest_span(rows: Mapping[int, SpanTotals | None]) -> str:
    """Like digest_stored, of seconds that were worked out."""
    return digest_rows([time, *row] for time, row in sorted(rows.items()) if row is not None)


def digest_risk(book: RiskBook) -> str:
    """Like digest_stored, of risk: of a book of which nothing was written yet."""
    rows = ((period, stretch) for period, stretch in sorted(book.rows.items()) if stretch)
    return digest_rows([*period, *dump_stretch(stretch).values()] for period, stretch in rows)


def digest_tokens(book: RiskBook) -> str:
    """Like digest_stored, of tokens: of a book of which nothing was written yet."""
    rows = ((mint, token) for mint, token in sorted(book.token_rows.items()) if token)
    return digest_rows([mint, *astuple(token)] for mint, token in rows)
