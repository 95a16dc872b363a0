"""Rows that are derived from a wallet's ledger. All are read, compared and written in the same
way.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import orjson

import storage
from chain.ledger.inventory import find_lower_median
from chain.ledger.ledger import Ledger
from chain.ledger.sums import NOTHING, Fall, Sums
from chain.ledger.views import Key, Positions
from chain.stored.tables import HOLDINGS, RiskTotal, RunningTotal, TokenTotal
from storage.rows import read_stored


# ---- risk of positions ---------------------------------------------------------------------------
class StoredRisk(NamedTuple):
    """The best and worst result of a position, and the median holding time (seconds)."""

    best: int | None = None
    worst: int | None = None
    median_holding: int | None = None


def dump_positions(positions: Positions) -> dict[str, Any]:
    best, worst = positions.find_ends() or (None, None)
    holdings = sorted(positions.holdings.items())
    return {
        "best": best,
        "worst": worst,
        "median_holding": find_lower_median(holdings),
        "holdings": orjson.dumps(holdings).decode(),
    }


def load_risk(parts: Sequence[Mapping[str, Any]]) -> StoredRisk | None:
    """Combine the stored columns of several wallets. Return None if they are damaged."""
    if not parts:
        return StoredRisk()
    if len(parts) == 1:
        # In the usual case of one wallet, the median is stored, so thousands of positions needn't
        # be counted.
        (part,) = parts
        return StoredRisk(part["best"], part["worst"], part["median_holding"])
    holdings: dict[int, int] = {}
    for part in parts:
        stored = read_stored(part["holdings"], HOLDINGS)
        if stored is None:
            return None
        for seconds, count in stored:
            holdings[seconds] = holdings.get(seconds, 0) + count
    best = max((part["best"] for part in parts if part["best"] is not None), default=None)
    worst = min((part["worst"] for part in parts if part["worst"] is not None), default=None)
    return StoredRisk(best, worst, find_lower_median(sorted(holdings.items())))


# ---- derived tables ------------------------------------------------------------------------------
RowKey = tuple[Any, ...]
Values = tuple[Any, ...]
# The values by key. None means that a stored row must be deleted.
Changes = dict[RowKey, Values | None]


class Derived(NamedTuple):
    """A table with rows per wallet. `key` is its primary key without the wallet."""

    table: Any
    key: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(self.table._meta.table_name)

    @property
    def select(self) -> str:
        """Return the SQL that selects the rows of `{wallet}`."""
        names = ", ".join((*self.key, *self.columns))
        return f"SELECT {names} FROM {self.name} WHERE wallet_id = {{wallet}}"

    def read(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[RowKey, Values]]:
        """Split rows from `select` into keys and values."""
        width = len(self.key)
        for row in rows:
            yield tuple(row[:width]), tuple(row[width:])


def _describe(table: Any) -> Derived:
    key = table._meta.primary_key.field_names
    assert key[0] == "wallet"
    names = table._meta.sorted_field_names
    return Derived(table, key[1:], tuple(name for name in names if name not in key))


TOTALS, RISK, TOKENS = map(_describe, (RunningTotal, RiskTotal, TokenTotal))
DERIVED = (TOTALS, RISK, TOKENS)


class Pending:
    """The ledger changes that aren't written yet, by table."""

    def __init__(self) -> None:
        self.rows: dict[Derived, Changes] = {one: {} for one in DERIVED}
        self._last: dict[Key, Sums] = {}
        self._falls: dict[Key, Fall] = {}

    def note(self, ledger: Ledger) -> None:
        totals = self.rows[TOTALS]
        for key, _ in ledger.list_known_costs():
            account = ledger.accounts.get(key)
            sums = account.sums if account else NOTHING
            if sums != self._last.get(key, NOTHING):
                self._last[key] = sums
                fall = self._falls.setdefault(key, Fall()).follow(sums.realized, ledger.hour)
                totals[(*key, ledger.hour)] = (*sums, *fall)

    def take(self, ledger: Ledger) -> dict[Derived, Changes]:
        """Return all unwritten rows and mark them as written."""
        taken, self.rows = self.rows, {one: {} for one in DERIVED}
        for key, account in ledger.accounts.items():
            if account.positions.is_changed:
                taken[RISK][key] = _read(RISK, dump_positions(account.positions))
                account.positions.is_changed = False
            for mint, token in account.token_rows.items():
                taken[TOKENS][*key, mint] = _read(TOKENS, asdict(token))
            account.token_rows = {}
        return taken

    def settle(self, wallet_id: int, ledger: Ledger) -> None:
        """After a rebuild, keep only the rows that differ from the stored ones."""
        for one, rows in self.take(ledger).items():
            stored = storage.database.execute_sql(one.select.format(wallet=wallet_id))
            storage.leave_changes(rows, one.read(stored))
            self.rows[one] = rows


def _read(derived: Derived, values: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple([values[name] for name in derived.columns])


def replace_rows(wallet_id: int, rows: Mapping[Derived, Changes]) -> bool:
    """Write rows in the caller's transaction. Return whether totals changed."""
    for derived, changes in rows.items():
        names = (*derived.key, *derived.columns)
        kept = [
            {"wallet": wallet_id, **dict(zip(names, (*key, *values), strict=True))}
            for key, values in changes.items()
            if values is not None
        ]
        storage.write_rows(derived.table, kept, ("wallet", *derived.key))
        same = " AND ".join(f"{name} = ?" for name in derived.key)
        drop = f"DELETE FROM {derived.name} WHERE wallet_id = ? AND {same}"
        for key, values in changes.items():
            if values is None:
                storage.database.execute_sql(drop, (wallet_id, *key))
    return bool(rows[TOTALS])
