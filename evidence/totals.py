"""Digests of running totals: by hour, by second of a span, by stretch of time and by token.

Each is SHA-256, in hex, over a line of JSON for each row, in order; the same over what is stored
and over what was worked out. Stored rows are never held in memory together.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

import orjson

from chain.forward import SpanTotals
from chain.hour_store import RUNNING, RunningTotals
from chain.risk import RiskBook
from chain.risk_store import COLUMNS, TOKEN_COLUMNS, dump_stretch
from storage import database

Row = Sequence[Any]


def digest_rows(rows: Iterable[Row]) -> str:
    """Return the SHA-256, in hex, over rows as lines of JSON."""
    whole = hashlib.sha256()
    for row in rows:
        whole.update(orjson.dumps(list(row)) + b"\n")
    return whole.hexdigest()


# ---- as stored -----------------------------------------------------------------------------------
def digest_stored_hours(wallet_id: int) -> str:
    """Digest the running totals of a wallet at the end of each hour."""
    sql = f"SELECT hour, {', '.join(RUNNING)} FROM hour_total WHERE wallet_id = ? ORDER BY hour"
    return digest_rows(database.execute_sql(sql, (wallet_id,)))


def digest_stored_span(attachment_id: int) -> str:
    """Digest the running totals of a span after each second that changed them."""
    columns = ", ".join(SpanTotals._fields)
    sql = f"SELECT time, {columns} FROM forward_total WHERE attachment_id = ? ORDER BY time"
    return digest_rows(database.execute_sql(sql, (attachment_id,)))


def digest_stored_risk(wallet_id: int, span: int) -> str:
    """Digest the risk of a wallet's results in each stretch of time; `span`: as in RiskTotal."""
    sql = (
        f"SELECT hours, begins, {', '.join(COLUMNS)} FROM risk_total"
        " WHERE wallet_id = ? AND span = ? ORDER BY hours, begins"
    )
    return digest_rows(database.execute_sql(sql, (wallet_id, span)))


def digest_stored_tokens(wallet_id: int, span: int) -> str:
    """Digest what a wallet's sales of each token earned; `span`: as in TokenTotal."""
    sql = (
        f"SELECT mint, {', '.join(TOKEN_COLUMNS)} FROM token_total"
        " WHERE wallet_id = ? AND span = ? ORDER BY mint"
    )
    return digest_rows(database.execute_sql(sql, (wallet_id, span)))


# ---- as worked out -------------------------------------------------------------------------------
def digest_hours(hours: Mapping[int, RunningTotals | None]) -> str:
    """As digest_stored_hours."""
    return digest_rows([hour, *row] for hour, row in sorted(hours.items()) if row is not None)


def digest_span(rows: Mapping[int, SpanTotals | None]) -> str:
    """As digest_stored_span."""
    return digest_rows([time, *row] for time, row in sorted(rows.items()) if row is not None)


def digest_risk(book: RiskBook) -> str:
    """As digest_stored_risk, of a book of which nothing was written yet."""
    rows = ((period, stretch) for period, stretch in sorted(book.rows.items()) if stretch)
    return digest_rows([*period, *dump_stretch(stretch).values()] for period, stretch in rows)


def digest_tokens(book: RiskBook) -> str:
    """As digest_stored_tokens, likewise."""
    rows = ((mint, token) for mint, token in sorted(book.token_rows.items()) if token)
    return digest_rows([mint, *astuple(token)] for mint, token in rows)
