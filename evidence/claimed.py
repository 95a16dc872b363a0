"""The claims about a bot and its wallets other than receipts and posts: all derived data.

The functions read an instance's or an auditor's tables (Books) and return the same JSON for both. A
new column of a table is claimed and compared automatically.
"""

import hashlib
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import orjson

from accounts.seasons import SeasonRow, Terms, show_terms
from chain.ledger.totals import ALL_HISTORY, HOUR_SECONDS, Holdings, Sums
from chain.stored.attachments import write_last
from chain.stored.derived import DERIVED, Derived
from chain.stored.standings import Board, list_boards, work_out
from chain.stored.store import LAST_TRADE, PendingLedger, list_summary, show_summary
from chain.stored.tables import DelayTotal, Mint, StandingRow, StandingTotal, TradeMint
from chain.stored.trades import Row, list_moved
from evidence.lines import Json, name_member, show_json
from models import Attachment, Bot, Trade, Wallet
from storage import Rows

# Derived from a wallet's ledger.
SUMS = (*list_summary(), "last_trade_at")
WALLET = f"""
SELECT {", ".join(f"w.{name}" for name in SUMS)}, b.uid, e.uid, w.bot_since
FROM wallet w LEFT JOIN bot b ON b.id = w.bot_id LEFT JOIN bot e ON e.id = w.earlier_bot_id
WHERE w.id = {{wallet}}"""
SPAN = {
    "botId": "b.uid",
    "ownership": "a.ownership",
    "attachedAtMs": "a.attached_at",
    "detachedAtMs": "a.detached_at",
}
HELD = (*(f"a.{name}" for name in Holdings._fields), *(f"t.{name}" for name in Sums._fields))
SPANS = f"""
SELECT a.id, {", ".join((*SPAN.values(), *HELD))}
FROM attachment a JOIN bot b ON b.id = a.bot_id
LEFT JOIN running_total t ON {write_last("t", "a.id")}
WHERE a.wallet_id = {{wallet}} ORDER BY a.id"""
# A wallet's trades on the pages of tokens. Some nodes don't report a transaction's place. In that
# case, the place is only compared with the trade's.
TRADE_MINTS = """
SELECT t.slot, t.signature, n.address, m.side, m.slot,
       CASE WHEN m.wallet_id = t.wallet_id AND m.place = t.place THEN 1 ELSE 0 END
FROM trade_mint m JOIN trade t ON t.id = m.trade_id LEFT JOIN mint n ON n.id = m.mint_id
WHERE t.wallet_id = {wallet} ORDER BY t.slot, t.signature, n.address"""
PACE = tuple(name for name in DelayTotal._meta.sorted_field_names if name != "bot")
DELAYS = f"SELECT {', '.join(PACE)} FROM delay_total WHERE bot_id = {{bot}}"
STANDINGS = f"""
SELECT {", ".join(("bot_id", *StandingRow._fields[1:]))} FROM standing_total
WHERE bot_id = {{bot}}"""
SEASONS = f"""
SELECT s.uid, s.frozen_at, s.rules, {", ".join(f"s.{name}" for name in Terms._fields)},
       {", ".join(("e.bot_id", *(f"e.{name}" for name in SeasonRow._fields[1:])))}
FROM season_entry e JOIN season s ON s.id = e.season_id
WHERE e.bot_id = {{bot}} AND s.frozen_at IS NOT NULL ORDER BY s.id"""
PROFILE = "SELECT standing_at FROM bot WHERE id = {bot}"


# ---- a wallet ------------------------------------------------------------------------------------
def show_derived(rows: Rows, wallet_id: int) -> Json:
    (row,) = rows(WALLET.format(wallet=wallet_id))
    bot, earlier, since = row[len(SUMS) :]
    return {
        "sums": {
            **_show_columns(SUMS, row[: len(SUMS)]),
            **digest_view(rows, wallet_id, ALL_HISTORY),
            "tradeMint": digest_rows(rows(TRADE_MINTS.format(wallet=wallet_id))),
        },
        "past": {"botId": bot, "earlierBotId": earlier, "sinceMs": since},
        "spans": [
            _show_span(rows, wallet_id, *one) for one in list(rows(SPANS.format(wallet=wallet_id)))
        ],
    }


def _show_span(rows: Rows, wallet_id: int, number: int, *values: Any) -> Json:
    width = len(SPAN) + len(Holdings._fields)
    return {
        **dict(zip(SPAN, values, strict=False)),
        **_show_columns(Holdings._fields, values[len(SPAN) : width]),
        "totals": _show_columns(Sums._fields, values[width:]),
        **digest_view(rows, wallet_id, number),
    }


def _show_columns(names: Iterable[str], values: Iterable[Any]) -> Json:
    return {
        name_member(name): _show_column(value) for name, value in zip(names, values, strict=True)
    }


def _show_column(value: int | str | None) -> Any:
    """Return integers as text, because not every JSON reader supports 64 bits. Text is JSON."""
    return str(value) if isinstance(value, int) else show_json(value)


# ---- digests of rows -----------------------------------------------------------------------------
def digest_rows(rows: Iterable[Sequence[Any]]) -> str:
    whole = hashlib.sha256()
    for row in rows:
        whole.update(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return whole.hexdigest()


def digest_view(rows: Rows, wallet_id: int, view: int) -> dict[str, str]:
    return {
        name_member(one.name): digest_rows(rows(_select(one, wallet_id, view))) for one in DERIVED
    }


def _select(derived: Derived, wallet_id: int, view: int) -> str:
    key = [name for name in derived.key if name != "view"]
    return f"""
    SELECT {", ".join((*key, *derived.columns))} FROM {derived.name}
    WHERE wallet_id = {wallet_id} AND view = {view} ORDER BY {", ".join(key)}"""


# ---- a bot ---------------------------------------------------------------------------------------
def show_standings(rows: Rows, bot_id: int, hour: int) -> Json:
    """Return a bot's rows on every board and window in an hour (counted from 1970).

    Each row is read from storage or computed, whichever a reader's request would do.
    """
    now = hour * HOUR_SECONDS
    ((standing_at,),) = rows(PROFILE.format(bot=bot_id))
    stored = {
        Board(one.record, one.money, one.seconds): one
        for one in map(StandingRow._make, rows(STANDINGS.format(bot=bot_id)))
        if standing_at is not None
    }
    found: Json = {}
    for board in list_boards():
        one = stored.get(board)
        if standing_at is None or (one and one.ends <= now):
            one = next(iter(work_out(rows, board, now, [bot_id])), None)
        if one:
            # The record, the currency and the window in seconds (0 for all time).
            name = f"{board.record}/{board.money or 'SOL'}/{board.seconds}"
            found[name] = show_row(one, "bot", *Board._fields)
    return found


def show_pace(rows: Rows, bot_id: int) -> Json | None:
    found = list(rows(DELAYS.format(bot=bot_id)))
    return show_delays(dict(zip(PACE, found[0], strict=True))) if found else None


def show_delays(row: Mapping[str, Any]) -> Json | None:
    if not row["posted"]:
        return None
    return _show_columns(PACE, (row[name] for name in PACE))


# ---- seasons -------------------------------------------------------------------------------------
def show_row(row: StandingRow | SeasonRow, *omitted: str) -> Json:
    return show_values({name: one for name, one in row._asdict().items() if name not in omitted})


def show_values(values: Mapping[str, int | str | None]) -> Json:
    return {
        name_member(name): None if value is None else str(value) for name, value in values.items()
    }


def show_seasons(rows: Rows, bot_id: int) -> Json:
    """Return a bot's rows in frozen seasons, by the season's id."""
    width = len(Terms._fields)
    return {
        uid: {
            "terms": show_terms(Terms._make(told[:width])),
            "frozenAtMs": frozen_at,
            "rules": rules,
            "standing": show_row(SeasonRow._make(told[width:]), "bot"),
        }
        for uid, frozen_at, rules, *told in rows(SEASONS.format(bot=bot_id))
    }


# ---- rebuilt tables ------------------------------------------------------------------------------
TABLES = (Bot, Wallet, Attachment, Trade, Mint, TradeMint, StandingTotal)
ADD_MOVED = """
INSERT INTO trade_mint (trade_id, wallet_id, mint_id, side, slot, place)
VALUES (?, ?, (SELECT id FROM mint WHERE address = ?), ?, ?, ?)"""


class Books:
    def __init__(self) -> None:
        # An empty name makes a temporary file.
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        for table in (*TABLES, *(one.table for one in DERIVED)):
            self._db.execute(_write_table(table))
        # Never committed, because no other connection reads it.
        self._db.execute("BEGIN")

    def close(self) -> None:
        self._db.close()

    def rows(self, sql: str) -> Iterable[tuple[Any, ...]]:
        return self._db.execute(sql)

    def add(self, table: Any, **values: Any) -> int:
        """Return the row's number. Omitted columns are null."""
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        sql = f"INSERT INTO {table._meta.table_name} ({names}) VALUES ({marks})"
        return self._db.execute(sql, tuple(values.values())).lastrowid or 0

    def update(self, table: Any, number: int, **values: Any) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        sql = f"UPDATE {table._meta.table_name} SET {names} WHERE id = ?"
        self._db.execute(sql, (*values.values(), number))

    def find_bot(self, uid: str) -> int:
        found = self._db.execute("SELECT id FROM bot WHERE uid = ?", (uid,)).fetchone()
        return int(found[0]) if found else self.add(Bot, uid=uid)

    # ---- a wallet's ledger -----------------------------------------------------------------------
    def add_trade(self, wallet_id: int, row: Row) -> None:
        columns = {name: value for name, value in row.items() if name != "wallet"}
        number = self.add(Trade, wallet_id=wallet_id, **columns)
        for mint, side, slot, place in list_moved(row):
            self._db.execute("INSERT OR IGNORE INTO mint (address) VALUES (?)", (mint,))
            self._db.execute(ADD_MOVED, (number, wallet_id, mint, side, slot, place))

    def drop_trades(self, wallet_id: int) -> None:
        for table in ("trade", "trade_mint"):
            self._db.execute(f"DELETE FROM {table} WHERE wallet_id = ?", (wallet_id,))

    def add_ledger(
        self, wallet_id: int, pending: PendingLedger, waiting: Collection[int] = ()
    ) -> None:
        """Insert a ledger's other data. Attachments in `waiting` aren't published yet."""
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
    """Return the statement that creates a table, with names and keys but no other constraints."""
    columns = [one.column_name for one in table._meta.sorted_fields]
    key = table._meta.primary_key
    if key.name == "id":
        ends = [f"UNIQUE ({one.column_name})" for one in table._meta.sorted_fields if one.unique]
        parts = ["id INTEGER PRIMARY KEY", *columns[1:], *ends]
    else:
        names = [table._meta.fields[name].column_name for name in key.field_names]
        parts = [*columns, f"PRIMARY KEY ({', '.join(names)})"]
    return f"CREATE TABLE {table._meta.table_name} ({', '.join(parts)})"
