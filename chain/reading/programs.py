"""Known programs, which determine a receipt's kind, and accounts that receive tips.

`programs.csv` and `tip_accounts.csv` are read once, at import. docs/programs.md explains how to add
rows. If a program is missing, its receipts aren't guessed: they are `other` with the flag
`unrecognised_program`.
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from chain.base58 import is_base58
from chain.reading.added import AddedRows

FAMILIES = ("swap", "order", "lending", "liquidity", "stake", "bridge", "nft")
FOLDER = Path(__file__).parent
ADDED_COLUMNS = ["id", "name", "family", "source"]
MAX_NAME, MAX_SOURCE = 60, 300
MARKER_NAME, MARKER_SOURCE = "(configured swap program)", "EXTRA_SWAP_PROGRAMS"


class Program(NamedTuple):
    """A known program.

    If `family` is "", only the name is used, and the program's calls decide. `date` is when its
    source was read, or "" for the operator's own rows. `pool` means that it serves swaps and
    liquidity under one id and mints or burns shares, so the effect decides.
    """

    id: str
    name: str
    family: str
    source: str
    date: str = ""
    pool: bool = False


@dataclass(frozen=True)
class Programs:
    """The table of programs: built-in ones, those added by the operator, and markers, which make a
    whole transaction a trade (EXTRA_SWAP_PROGRAMS).

    Its repr is the same in every process and identifies the rules with which entries were read.
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
    """Return the table. Raises BadTable if a row is invalid.

    `added` is the text of DATA_DIR/programs.csv.
    """
    return _make_table(frozenset(extra_swap_programs), added)


# A process has only one table. Tests use several.
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
        raise rows.refuse("id", "must be a program's address, base58 of 32 bytes")
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


def _read(name: str) -> list[dict[str, str]]:
    with open(FOLDER / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


BUILT_IN = tuple(
    Program(row["id"], row["name"], row["family"], row["source"], row["date"], row["pool"] == "yes")
    for row in _read("programs.csv")
)
TIP_ACCOUNTS = frozenset(row["address"] for row in _read("tip_accounts.csv"))
