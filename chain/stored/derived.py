"""Derive a wallet's rows of totals, and its summary for readers, from its ledger."""

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import orjson

import storage
from chain.amounts import show_fixed, show_raw, sol
from chain.ledger.inventory import SOL, find_lower_median
from chain.ledger.ledger import WHOLE, Ledger
from chain.ledger.totals import NOTHING, Fall, Key, Positions, Sums
from chain.stored.tables import (
    COVERAGE,
    HOLDINGS,
    LINES,
    WALLET_PARTS,
    RiskTotal,
    RunningTotal,
    TokenTotal,
)
from storage.rows import read_stored


# ---- risk of positions ---------------------------------------------------------------------------
class StoredRisk(NamedTuple):
    """Best and worst result of a position, and median holding time in seconds."""

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
    """Combine the columns of several wallets. Return None if they are damaged."""
    if not parts:
        return StoredRisk()
    if len(parts) == 1:
        # The usual case: the median is stored, so thousands of positions needn't be counted.
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
# None deletes a stored row.
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
        names = ", ".join((*self.key, *self.columns))
        return f"SELECT {names} FROM {self.name} WHERE wallet_id = {{wallet}}"

    def read(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[RowKey, Values]]:
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
            stored = dict(one.read(storage.read_rows(one.select.format(wallet=wallet_id))))
            changed = {key: row for key, row in rows.items() if stored.pop(key, None) != row}
            self.rows[one] = changed | dict.fromkeys(stored)


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


# ---- summary -------------------------------------------------------------------------------------
def show_results(ledger: Ledger) -> dict[str, Any]:
    """Return a Bot's results object, with lamports as text and exact SOL."""
    t = ledger.accounts[WHOLE].sums
    return {
        "realizedLamports": str(t.realized),
        "realizedSol": sol(t.realized),
        "worstCaseLamports": str(t.worst_case),
        "worstCaseSol": sol(t.worst_case),
        **show_rates(t),
        "matchedSells": t.matched,
        "partialSells": t.partial,
        "unmatchedSells": t.unmatched,
        "winningSells": t.winning,
        "volumeLamports": str(t.volume),
        "volumeSol": sol(t.volume),
        "observedTrades": t.trades,
        "failedTransactions": t.failed,
        "failedCostLamports": str(t.failed_cost),
        "overheadLamports": str(t.overhead),
        "costLeftLamports": str(t.cost_left),
        "costLeftReceipts": t.cost_left_receipts,
        "carriedLots": t.carried,
        "openPositions": len(ledger.list_positions()),
    }


def show_rates(t: Sums) -> dict[str, Any]:
    """The rates are decimal text, or None if there are no sales."""
    return {
        "returnPct": show_fixed(t.return_points, 2),
        "winRate": show_fixed(t.win_points, 4),
        "positions": t.positions,
        "positionsWon": t.positions_won,
        "positionsOpen": t.held,
    }


def show_positions(ledger: Ledger, money: str = SOL) -> list[dict[str, Any]]:
    """Return [{mint, amountRaw, decimals, costLamports or null, unknownBasisRaw}, ...]."""
    return [
        {
            "mint": one.mint,
            "amountRaw": str(one.amount),
            "decimals": one.decimals,
            "costLamports": show_raw(one.cost),
            "unknownBasisRaw": str(one.unknown),
        }
        for one in ledger.list_positions(money)
    ]


def show_reconciliation(ledger: Ledger, money: str = SOL) -> dict[str, Any] | None:
    """Return the reconciliation, or None until the whole history was listed.

    Lamports are text. `gapLamports` is the part of the difference that gaps explain.
    """
    if not ledger.backfilled:
        return None
    told = ledger.reconcile(money)
    amounts = {f"{line}Lamports": str(getattr(told, name)) for line, name in LINES.items()}
    return {**amounts, "costLeftReceipts": told.cost_left_receipts}


def show_stablecoins(ledger: Ledger) -> dict[str, Any]:
    """Return {mint: results as for SOL}, in `Raw`, with only positions of known cost."""
    return {money: _show_quote(ledger, money) for money in sorted(ledger.inventories) if money}


def _show_quote(ledger: Ledger, money: str) -> dict[str, Any]:
    told = show_reconciliation(ledger, money)
    known = [one for one in show_positions(ledger, money) if one["costLamports"] is not None]
    return {
        "reconciliation": told and _name_raw(told),
        "averageCost": _name_raw(show_average(ledger, money)),
        "positions": [_name_raw(one) for one in known],
    }


def _name_raw(shown: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("Lamports", "Raw"): value for name, value in shown.items()}


def show_average(ledger: Ledger, money: str = SOL) -> dict[str, Any]:
    average = ledger.inventories[money].average
    return {"realizedLamports": str(average.realized), "matchedSells": average.matched}


def show_time(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    # isoformat takes twice as long, and documents contain thousands of times.
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return orjson.dumps(moment, option=orjson.OPT_UTC_Z)[1:-1].decode()


NOT_POLLED: dict[str, Any] = {
    "state": "none",
    **dict.fromkeys(("observedFrom", "observedTo", "firstSlot", "lastSlot", "checkedAt")),
    **{"receipts": 0, "pending": 0, "gaps": [], "openingInventoryUnknown": []},
    "note": "this wallet hasn't been checked yet",
}
UNREADABLE: dict[str, Any] = {
    **NOT_POLLED,
    "note": "The stored coverage can't be read. It will be rebuilt at the wallet's next check.",
}


def read_coverage(text: str | None) -> dict[str, Any]:
    """Return NOT_POLLED if the text is missing, UNREADABLE if it is damaged."""
    if text is None:
        return NOT_POLLED
    told: dict[str, Any] | None = read_stored(text, COVERAGE)
    return UNREADABLE if told is None else told


def list_damaged(coverage: str | None, parts: Iterable[str | None]) -> list[str]:
    """Return the names (as in WALLET_PARTS) of derived columns that can't be read."""
    pairs = zip(WALLET_PARTS.items(), parts, strict=True)
    damaged = [
        name
        for (name, part), text in pairs
        if text is not None and read_stored(text, part.shape) is None
    ]
    return damaged + ["coverage"] * (read_coverage(coverage) is UNREADABLE)
