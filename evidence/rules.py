"""By which rules and programs an instance read its transactions, and whether an auditor can."""

import csv
import io
from typing import NamedTuple

from chain.reading.entries import READING
from chain.reading.programs import ADDED_COLUMNS, Programs, table
from chain.stored.store import name_rules
from config import VERSION
from evidence.claims import Claims


class Accepted(NamedTuple):
    """The table to read by, or None with the reasons; `notes`: what the verdict has to say."""

    programs: Programs | None
    notes: list[str]
    unknown: list[str]


def accept_programs(claims: Claims, own: Programs, accepts: bool) -> Accepted:
    """Decide by which programs to read. `own`: the auditor's; `accepts`: is the operator's word
    taken for what is not among these? Raises BadPrograms.
    """
    if claims.reading != READING or claims.programTable != name_rules(table()):
        told = f"it reads by the rules of version {claims.version}, this is {VERSION}: they differ"
        return Accepted(None, [], [told])
    notes = [
        *(f"the operator added the venue {one.name!r} ({one.id})" for one in claims.addedPrograms),
        *(f"every transaction that calls the marker {one} is a trade" for one in claims.markers),
    ]
    strange = {one.id for one in claims.addedPrograms} - own.added
    strange |= set(claims.markers) - own.markers
    if strange and not accepts:
        told = "its operator decides what some programs are; --accept-programs takes their word"
        return Accepted(None, notes, [told])
    programs = table(claims.markers, _write_added(claims))
    if name_rules(programs) != claims.rules:
        return Accepted(None, notes, ["its rules are not those that it names"])
    return Accepted(programs, notes, [])


def _write_added(claims: Claims) -> str:
    text = io.StringIO()
    rows = [(one.id, one.name, one.family, one.source) for one in claims.addedPrograms]
    csv.writer(text).writerows([ADDED_COLUMNS, *rows])
    return text.getvalue() if rows else ""
