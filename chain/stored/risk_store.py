"""The risk of a wallet's results, as it is stored: of all it did, and of each of its spans."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import orjson

import storage
from chain.ledger.lots import find_lower_median
from chain.ledger.risk import Period, RiskBook, Stretch, TokenResult, join_stretches
from chain.stored.columns import HOLDINGS
from chain.stored.tables import RiskTotal, TokenTotal
from storage.stored import read_stored

NUMBERS = (
    *("sales", "winning", "best", "worst", "closed", "won", "uncounted"),
    *("days", "first_day", "last_day"),
)
COLUMNS = (*NUMBERS, "median_holding", "holdings")
TOKEN_COLUMNS = ("realized", "sales", "winning")
STRETCHES = f"SELECT span, hours, begins, {', '.join(COLUMNS)} FROM risk_total WHERE wallet_id = ?"
TOKENS = f"SELECT span, mint, {', '.join(TOKEN_COLUMNS)} FROM token_total WHERE wallet_id = ?"


class PeriodKey(NamedTuple):
    """A stored stretch of a wallet."""

    span: int
    hours: int
    begins: int


class TokenKey(NamedTuple):
    """A stored result of a wallet by token."""

    span: int
    mint: str


class StoredRisk(NamedTuple):
    """A stretch without its holdings, and how long the middle sale's was held (seconds)."""

    stretch: Stretch
    median_holding: int | None


def dump_stretch(stretch: Stretch) -> dict[str, Any]:
    """The columns of a Stretch, in the order of COLUMNS."""
    return {
        **{name: getattr(stretch, name) for name in NUMBERS},
        "median_holding": stretch.median_holding,
        "holdings": orjson.dumps(sorted(stretch.holdings.items())).decode(),
    }


def load_risk(parts: Sequence[Mapping[str, Any]]) -> StoredRisk | None:
    """Join the stretches of stored columns, in the order of time; None where they are damaged."""
    joined = join_stretches(Stretch(*(part[name] for name in NUMBERS)) for part in parts)
    if len(parts) == 1:
        # The usual case, for nearly every bot of a list: the median is stored, so thousands of
        # sales need not be counted.
        return StoredRisk(joined, parts[0]["median_holding"])
    # Not a Counter, which takes half as long again: a bot that trades much has thousands.
    holdings: dict[int, int] = {}
    for part in parts:
        stored = read_stored(part["holdings"], HOLDINGS)
        if stored is None:
            return None
        for seconds, count in stored:
            holdings[seconds] = holdings.get(seconds, 0) + count
    return StoredRisk(joined, find_lower_median(sorted(holdings.items())))


def list_stretches(books: Mapping[int, RiskBook]) -> Iterator[tuple[PeriodKey, Stretch | None]]:
    """Yield what is not written yet of the books of a wallet, by span."""
    for span, book in books.items():
        for period, stretch in book.rows.items():
            yield PeriodKey(span, *period), stretch


def list_tokens(books: Mapping[int, RiskBook]) -> Iterator[tuple[TokenKey, TokenResult | None]]:
    """What is not written yet of results by token, by span."""
    for span, book in books.items():
        for mint, token in book.token_rows.items():
            yield TokenKey(span, mint), token


def settle_risk(wallet_id: int, books: dict[int, RiskBook]) -> None:
    """Like stored.store.settle, for the risk. `books` gains an empty one for each span that has
    stored rows and no book.
    """
    execute = storage.database.execute_sql
    for span, hours, begins, *values in execute(STRETCHES, (wallet_id,)):
        rows, period = books.setdefault(span, RiskBook()).rows, Period(hours, begins)
        made = rows.setdefault(period)
        if made and [*dump_stretch(made).values()] == values:
            del rows[period]
    for span, mint, *values in execute(TOKENS, (wallet_id,)):
        token_rows = books.setdefault(span, RiskBook()).token_rows
        if token_rows.setdefault(mint) == TokenResult(*values):
            del token_rows[mint]


def replace_risk(wallet_id: int, books: Mapping[int, RiskBook]) -> None:
    """Write what is not written yet, in the caller's transaction."""
    _replace_rows(
        RiskTotal,
        wallet_id,
        [(key._asdict(), dump_stretch(one) if one else None) for key, one in list_stretches(books)],
    )
    _replace_rows(
        TokenTotal,
        wallet_id,
        [(key._asdict(), asdict(one) if one else None) for key, one in list_tokens(books)],
    )
    for book in books.values():
        book.rows, book.token_rows = {}, {}


def _replace_rows(
    table: Any, wallet_id: int, rows: Sequence[tuple[dict[str, Any], dict[str, Any] | None]]
) -> None:
    """Write rows as (key, columns), and drop those whose columns are None."""
    kept = [{"wallet": wallet_id, **key, **columns} for key, columns in rows if columns]
    storage.write_rows(table, kept, table._meta.primary_key.field_names)
    for key, columns in rows:
        if columns is None:
            same = [getattr(table, name) == value for name, value in key.items()]
            table.delete().where(table.wallet == wallet_id, *same).execute()
