"""Rebuilt tables, in a temporary file. They have an instance's tables and columns, so that the same
statements read both.
"""

import sqlite3
from collections.abc import Collection, Iterable
from typing import Any

from chain.stored.derived import DERIVED
from chain.stored.store import LAST_TRADE, PendingLedger, show_summary
from chain.stored.tables import Mint, StandingTotal, TokenTrader, TradeMint
from chain.stored.trades import Row, list_moved
from models import Attachment, Bot, Trade, Wallet

TABLES = (Bot, Wallet, Attachment, Trade, Mint, TradeMint, TokenTrader, StandingTotal)
ADD_MOVED = """
INSERT INTO trade_mint (trade_id, wallet_id, mint_id, side, slot, place)
VALUES (?, ?, (SELECT id FROM mint WHERE address = ?), ?, ?, ?)"""
ADD_TRADER = "INSERT OR IGNORE INTO token_trader (mint, side, wallet_id) VALUES (?, ?, ?)"


class Books:
    """The tables that claims are read from (evidence.claimed), at first without rows."""

    def __init__(self) -> None:
        # An empty name makes a temporary file.
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        for table in (*TABLES, *(one.table for one in DERIVED)):
            self._db.execute(_write_table(table))
        # Never committed: no other connection reads it.
        self._db.execute("BEGIN")

    def close(self) -> None:
        self._db.close()

    def rows(self, sql: str) -> Iterable[tuple[Any, ...]]:
        return self._db.execute(sql)

    def add(self, table: Any, **values: Any) -> int:
        """Insert a row; return its number. Omitted columns are null."""
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        sql = f"INSERT INTO {table._meta.table_name} ({names}) VALUES ({marks})"
        return self._db.execute(sql, tuple(values.values())).lastrowid or 0

    def update(self, table: Any, number: int, **values: Any) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        sql = f"UPDATE {table._meta.table_name} SET {names} WHERE id = ?"
        self._db.execute(sql, (*values.values(), number))

    def find_bot(self, uid: str) -> int:
        """Return the number of a bot, which is inserted if it is new."""
        found = self._db.execute("SELECT id FROM bot WHERE uid = ?", (uid,)).fetchone()
        return int(found[0]) if found else self.add(Bot, uid=uid)

    # ---- a wallet's ledger -----------------------------------------------------------------------
    def add_trade(self, wallet_id: int, row: Row) -> None:
        columns = {name: value for name, value in row.items() if name != "wallet"}
        number = self.add(Trade, wallet_id=wallet_id, **columns)
        for mint, side, slot, place in list_moved(row):
            self._db.execute("INSERT OR IGNORE INTO mint (address) VALUES (?)", (mint,))
            self._db.execute(ADD_MOVED, (number, wallet_id, mint, side, slot, place))
            if side:
                self._db.execute(ADD_TRADER, (mint, side, wallet_id))

    def drop_trades(self, wallet_id: int) -> None:
        for table in ("trade", "trade_mint", "token_trader"):
            self._db.execute(f"DELETE FROM {table} WHERE wallet_id = ?", (wallet_id,))

    def add_ledger(
        self, wallet_id: int, pending: PendingLedger, waiting: Collection[int] = ()
    ) -> None:
        """Insert all other data derived from a wallet's ledger, except for attachments `waiting` to
        be published.
        """
        ledger = pending.ledger
        last = self._db.execute(LAST_TRADE, (wallet_id,)).fetchone()
        last_trade_at = last and last[0] and last[0] * 1000
        self.update(Wallet, wallet_id, **show_summary(ledger), last_trade_at=last_trade_at)
        for derived, rows in pending.derived.take(ledger).items():
            names, view = (*derived.key, *derived.columns), derived.key.index("view")
            marks = ", ".join("?" * (len(names) + 1))
            self._db.executemany(
                f"INSERT INTO {derived.name} (wallet_id, {', '.join(names)}) VALUES ({marks})",
                (
                    (wallet_id, *key, *values)
                    for key, values in rows.items()
                    if values is not None and key[view] not in waiting
                ),
            )
        for number, holdings in ledger.find_holdings().items():
            if number not in waiting:
                self.update(Attachment, number, **holdings._asdict())


def _write_table(table: Any) -> str:
    """Write the statement that creates a table: names and keys, no other constraints."""
    columns = [one.column_name for one in table._meta.sorted_fields]
    key = table._meta.primary_key
    if key.name == "id":
        ends = [f"UNIQUE ({one.column_name})" for one in table._meta.sorted_fields if one.unique]
        parts = ["id INTEGER PRIMARY KEY", *columns[1:], *ends]
    else:
        names = [table._meta.fields[name].column_name for name in key.field_names]
        parts = [*columns, f"PRIMARY KEY ({', '.join(names)})"]
    return f"CREATE TABLE {table._meta.table_name} ({', '.join(parts)})"
