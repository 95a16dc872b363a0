"""Known programs, which determine a receipt's kind, and accounts that receive tips. Pure.

The CSV files are read once, at import. docs/programs.md explains how to add rows. A receipt with a
missing program becomes `other` with the `unrecognised_program` flag, never a guess.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from chain.addresses import NATIVE, SYSVARS, WRAPPED_SOL, is_base58

FAMILIES = ("swap", "order", "lending", "liquidity", "stake", "bridge", "nft")
FOLDER = Path(__file__).parent
ADDED_COLUMNS = ["id", "name", "family", "source"]
MAX_NAME, MAX_SOURCE = 60, 300
MARKER_NAME, MARKER_SOURCE = "(configured swap program)", "EXTRA_SWAP_PROGRAMS"


# ---- rows that an operator adds to a built-in table ----------------------------------------------
class BadTable(ValueError):
    """An operator's file is invalid. The message names file, line, field and allowed values."""


class AddedRows:
    """Rows of an operator's file below its header, as stripped cells.

    Iterating raises BadTable for a wrong header, a wrong number of cells or an open quote.
    """

    def __init__(self, file: str, columns: Sequence[str], text: str) -> None:
        self._file, self._columns = file, list(columns)
        self._reader = csv.reader(io.StringIO(text, newline=""), strict=True)

    def __iter__(self) -> Iterator[list[str]]:
        rows = filter(None, self._reader)
        try:
            if [cell.strip() for cell in next(rows, self._columns)] != self._columns:
                raise self.refuse("header", f"must be {','.join(self._columns)}")
            for cells in rows:
                self._check_count(cells)
                yield [cell.strip() for cell in cells]
        except csv.Error:
            raise self.refuse("quotes", "a quoted cell must be closed") from None

    def _check_count(self, cells: Sequence[str]) -> None:
        count = len(self._columns)
        if len(cells) != count:
            wanted = f"must be {count} ({','.join(self._columns)}), not {len(cells)}"
            raise self.refuse("columns", f"{wanted}; put a cell that contains a comma in quotes")

    def refuse(self, field: str, allowed: str) -> BadTable:
        return BadTable(f"DATA_DIR/{self._file}, line {self._reader.line_num}, {field}: {allowed}")


# ---- programs ------------------------------------------------------------------------------------
class Program(NamedTuple):
    """A known program.

    `family` is "" if only its name is used and its calls decide. `date`: when its source was read,
    "" for the operator's own rows. `pool`: it serves swaps and liquidity under one ID, and mints or
    burns shares, so the effect decides.
    """

    id: str
    name: str
    family: str
    source: str
    date: str = ""
    pool: bool = False


@dataclass(frozen=True)
class Programs:
    """Built-in programs, the operator's, and markers, which make a whole transaction a trade.

    Its repr is the same in every process; it identifies the rules that entries were read with.
    """

    rows: tuple[Program, ...]
    families: dict[str, str]
    names: dict[str, str]
    pools: frozenset[str]
    added: frozenset[str]
    markers: frozenset[str]

    def __repr__(self) -> str:
        decisive = sorted((one.id, one.name, one.family, one.pool) for one in self.rows)
        return f"Programs({decisive!r}, {sorted(self.markers)!r})"

    def family(self, program: str) -> str | None:
        return self.families.get(program)

    def name(self, program: str) -> str:
        return self.names.get(program, "(unknown program)")


def table(extra_swap_programs: Iterable[str] = (), added: str = "") -> Programs:
    """`added`: text of DATA_DIR/programs.csv. Raises BadTable if a row is invalid."""
    return _make_table(frozenset(extra_swap_programs), added)


# A process uses one table, tests several.
@lru_cache(maxsize=8)
def _make_table(markers: frozenset[str], added: str) -> Programs:
    built_in = {one.id: one for one in BUILT_IN}
    mine = _read_added(added, built_in)
    known = built_in | mine
    for program in sorted(markers):
        named = known.get(program, Program(program, MARKER_NAME, "swap", MARKER_SOURCE))
        known[program] = named._replace(family="swap")
    rows = tuple(known.values())
    return Programs(
        rows,
        {one.id: one.family for one in rows if one.family},
        {one.id: one.name for one in rows},
        frozenset(one.id for one in rows if one.pool),
        frozenset(mine),
        markers,
    )


def _read_added(text: str, built_in: Mapping[str, Program]) -> dict[str, Program]:
    rows, added = AddedRows("programs.csv", ADDED_COLUMNS, text), dict[str, Program]()
    for cells in rows:
        program, name, family, source = cells
        one = Program(program, name, family, source)
        _check_row(rows, one)
        _check_family(rows, one, built_in.get(one.id) or added.get(one.id))
        if one.id not in built_in:
            added.setdefault(one.id, one)
    return added


def _check_row(rows: AddedRows, one: Program) -> None:
    if not is_base58(one.id, 32):
        raise rows.refuse("id", "must be a program's address (32 bytes in base58)")
    if one.family and one.family not in FAMILIES:
        allowed = f"must be one of {', '.join(FAMILIES)}, or empty (only the name is used)"
        raise rows.refuse("family", allowed)
    for field, value, most in (("name", one.name, MAX_NAME), ("source", one.source, MAX_SOURCE)):
        if not value or len(value) > most or not value.isprintable():
            raise rows.refuse(field, f"must be 1 to {most} printable characters")


def _check_family(rows: AddedRows, one: Program, before: Program | None) -> None:
    if before and before.family != one.family:
        known = f"{one.id} is already {before.name} in the family {before.family or '(named only)'}"
        raise rows.refuse("family", f"{known}: the file can only add programs, not change them")


def read_table(name: str) -> list[dict[str, str]]:
    with open(FOLDER / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


BUILT_IN = tuple(
    Program(row["id"], row["name"], row["family"], row["source"], row["date"], row["pool"] == "yes")
    for row in read_table("programs.csv")
)
TIP_ACCOUNTS = frozenset(row["address"] for row in read_table("tip_accounts.csv"))


def is_nobodys(address: str, programs: Programs | None = None) -> bool:
    return (
        address in NATIVE
        or address in SYSVARS
        or address == WRAPPED_SOL
        or address in (programs or table()).names
    )
