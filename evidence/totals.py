"""Digests of running totals: by hour, by stretch of time and by token.

Each is SHA-256, in hex, over a line of JSON for each row, in order; the same over what is stored
and over what was worked out. Stored rows are never held in memory together.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from chain.stored.derived import RISK, TOKENS, TOTALS, Changes, Derived
from storage import database

# What each digest is of.
DIGESTED = {"hours": TOTALS, "risk": RISK, "tokens": TOKENS}


def digest_rows(rows: Iterable[Sequence[Any]]) -> str:
    """Return the SHA-256, in hex, over rows as lines of JSON."""
    whole = hashlib.sha256()
    for row in rows:
        whole.update(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return whole.hexdigest()


def digest_stored(wallet_id: int, view: int) -> dict[str, str]:
    """Digest the stored rows of a wallet's view: its running totals by hour in each money, its risk
    in each stretch of time, and what its sales of each token earned. Rows are read one by one.
    """
    return {
        name: digest_rows(database.execute_sql(_select(one, wallet_id, view)))
        for name, one in DIGESTED.items()
    }


def _select(derived: Derived, wallet_id: int, view: int) -> str:
    key = [name for name in derived.key if name != "view"]
    return f"""
    SELECT {", ".join((*key, *derived.columns))} FROM {derived.name}
    WHERE wallet_id = {wallet_id} AND view = {view} ORDER BY {", ".join(key)}"""


def digest_made(rows: dict[Derived, Changes], view: int) -> dict[str, str]:
    """Like digest_stored, of rows that were worked out."""
    return {name: _digest(one, rows[one], view) for name, one in DIGESTED.items()}


def _digest(derived: Derived, rows: Changes, view: int) -> str:
    place = derived.key.index("view")
    mine = sorted((key, values) for key, values in rows.items() if key[place] == view and values)
    return digest_rows([*key[:place], *key[place + 1 :], *values] for key, values in mine)
