"""The command programs: show the table that decides which programs count as swaps."""

from argparse import Namespace

from chain.reading.programs import MARKER_SOURCE, Program, Programs, table
from cli import Commands, add_command, print_result
from config import Config

ADDED, MARKER = "DATA_DIR/programs.csv", MARKER_SOURCE
HEADER = ("ID", "FAMILY", "NAME", "DATE", "SOURCE")


def add_commands(commands: Commands) -> None:
    add_command(
        commands,
        "programs",
        run_programs,
        "print the table of known programs, each with its source and date",
    )


def run_programs(config: Config, args: Namespace) -> None:
    """Print this instance's table: built-in programs, DATA_DIR/programs.csv, and
    EXTRA_SWAP_PROGRAMS.
    """
    programs = table(config.extra_swap_programs, config.added_programs)
    shown = {
        "programs": [_show_program(one, programs) for one in programs.rows],
        "markers": sorted(programs.markers),
        "added": len(programs.added),
    }
    lines = [_line(*HEADER), *(_line(*_cells(one, programs)) for one in programs.rows)]
    print_result(args, shown, "\n".join(lines))


def _show_program(one: Program, programs: Programs) -> dict[str, object]:
    return {
        "id": one.id,
        "name": one.name,
        "family": one.family or None,
        "source": one.source,
        "date": one.date or None,
        "pool": one.pool,
        "added": one.id in programs.added,
        "marker": one.id in programs.markers,
    }


def _cells(one: Program, programs: Programs) -> tuple[str, str, str, str, str]:
    origin = ADDED if one.id in programs.added else ""
    if one.id in programs.markers:
        origin = MARKER
    source = one.source if origin in ("", one.source) else f"{one.source} ({origin})"
    return one.id, one.family or "-", one.name, one.date or "-", source


def _line(program: str, family: str, name: str, date: str, source: str) -> str:
    return f"{program:44}  {family:9}  {name:34}  {date:10}  {source}"
