"""Write all that an owner has into one archive (accounts.archives).

Never in it: hashes of keys, of recovery codes and of sessions, secrets and whole addresses of
hooks, salts. It is of one moment, and read a page of rows at a time.
"""

import zipfile
from collections.abc import Iterator, Mapping
from typing import IO, Any, NamedTuple

import orjson

from accounts import hooks
from accounts.archives import (
    BOTS,
    FORMAT,
    HEAD,
    MAX_ROWS,
    POSTS,
    README,
    TRADERS,
    VERSION,
    write_time,
)
from accounts.export_sheets import BOT_ROWS, POST_ROWS, SHEETS, TRADER_ROWS, WALLET_ROWS, Sheet
from accounts.influencers import read_voice
from accounts.spreadsheet import disarm, write_lines
from chain.stored import OBJECT, read_stored
from models import Owner
from storage import database, snapshot

PAGE_ROWS = 500
TOLD = """Everything that this account holds at {instance}, as of {at}.

bots.jsonl, posts.jsonl and traders.jsonl: one JSON value a line; with export.json they are what
`python app.py import FILE` of another instance of Candor reads. The CSV files are for you.
No key, recovery code or secret of a hook is in here. Amounts are integers: lamports (SOL times
10^9) and raw units of tokens. Times are UTC.
"""
Row = dict[str, Any]


class Written(NamedTuple):
    """How many rows each file has, and which were cut at MAX_ROWS."""

    rows: dict[str, int]
    cut: list[str]


def write_archive(owner: Owner, instance: str, software: str, now: int, file: IO[bytes]) -> Written:
    """Write the archive of an owner into `file`; `instance`: this one's address, `now` in ms."""
    written = Written({}, [])
    with snapshot(), zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        told = TOLD.format(instance=instance, at=write_time(now))
        archive.writestr(_name_entry(README), told)
        _write(archive, BOTS, _list_bot_lines(owner), written)
        _write(archive, POSTS, _list_post_lines(owner), written)
        _write(archive, TRADERS, _list_trader_lines(owner), written)
        for name, sheet in SHEETS.items():
            _write(archive, name, _list_csv_lines(sheet, owner), written)
        head = {
            "format": FORMAT,
            "version": VERSION,
            "instance": instance,
            "software": software,
            "exportedAt": write_time(now),
            "owner": {"id": owner.uid, "createdAt": write_time(owner.created_at)},
            "rows": written.rows,
            "cut": written.cut,
        }
        archive.writestr(_name_entry(HEAD), orjson.dumps(head, option=orjson.OPT_INDENT_2))
    return written


def _name_entry(name: str) -> zipfile.ZipInfo:
    # No time of the machine, and nobody's rights.
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _write(archive: zipfile.ZipFile, name: str, lines: Iterator[bytes], written: Written) -> None:
    """Write the lines of a file up to MAX_ROWS. CSV's first names the columns."""
    count = -1 if name.endswith(".csv") else 0
    with archive.open(_name_entry(name), "w", force_zip64=True) as entry:
        for line in lines:
            if count == MAX_ROWS:
                written.cut.append(name)
                break
            entry.write(line)
            count += 1
    written.rows[name] = max(0, count)


# ---- rows ----------------------------------------------------------------------------------------
def list_rows(sheet: Sheet, owner: Owner) -> Iterator[Row]:
    """Yield the rows of a sheet by the names of its columns, PAGE_ROWS at a time."""
    names, last = sheet.names, 0
    page = f"{sheet.sql} AND x.id > ? ORDER BY x.id LIMIT {PAGE_ROWS}"
    while True:
        rows = database.execute_sql(page, (owner.id, last)).fetchall()
        for number, *values in rows:
            yield dict(zip(names, map(_plain, names, values), strict=True))
            last = number
        if len(rows) < PAGE_ROWS:
            return


def _plain(name: str, value: Any) -> Any:
    """A value as it is shown: times as text, flags as such on either engine."""
    if name.endswith("At"):
        return write_time(value)
    if name in ("autoPost", "sanitized", "failed"):
        return bool(value)
    return value


def _list_bot_lines(owner: Owner) -> Iterator[bytes]:
    held: dict[str, list[Row]] = {}
    for row in list_rows(WALLET_ROWS, owner):
        held.setdefault(row.pop("botId"), []).append(row)
    for bot in list_rows(BOT_ROWS, owner):
        bot["voice"] = read_voice(bot["voice"])
        yield _write_json({**bot, "wallets": held.get(bot["id"], [])})


def _list_post_lines(owner: Owner) -> Iterator[bytes]:
    for row in list_rows(POST_ROWS, owner):
        yield _write_json({**row, "body": None if row["hiddenAt"] else row["body"]})


def _list_trader_lines(owner: Owner) -> Iterator[bytes]:
    for row in list_rows(TRADER_ROWS, owner):
        parsed = {
            "voice": read_voice(row["voice"]),
            "settings": read_stored(row["settings"], OBJECT) or {},
        }
        yield _write_json({**row, **parsed})


def _write_json(value: Mapping[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)


def _list_csv_lines(sheet: Sheet, owner: Owner) -> Iterator[bytes]:
    """Yield the names of the columns, then the rows. Text that looks like a formula is quoted."""
    yield write_lines([sheet.names]).encode()
    for row in list_rows(sheet, owner):
        if "host" in row:
            row["host"] = hooks.mask_url(row["host"])
        cells = [disarm(one) if isinstance(one, str) else one for one in row.values()]
        yield write_lines([cells]).encode()
