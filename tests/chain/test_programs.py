"""The program table: its contents, and an operator's additions."""

import csv
import datetime
import json

import pytest
from service import Service
from story import address

import config
from app import create_app
from chain.addresses import is_base58
from chain.reading.programs import BUILT_IN, FAMILIES, FOLDER, BadTable, table
from chain.stored.store import name_rules
from cli.parser import main
from observer import Observer
from operate import doctor

RAYDIUM = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
HEADER, NEW = "id,name,family,source\n", address("a venue of tomorrow")
BROKEN = f"{HEADER}{NEW},Tomorrow,casino,x\n"


# ---- the built-in tables -------------------------------------------------------------------------
def test_every_row_is_a_program_of_a_known_family_with_source_and_date():
    """The date is in the past."""
    assert len({one.id for one in BUILT_IN}) == len(BUILT_IN) > 300
    for one in BUILT_IN:
        assert is_base58(one.id, 32), one
        assert one.family in (*FAMILIES, "") and one.name and one.source, one
        assert datetime.date.fromisoformat(one.date) <= datetime.date.today(), one
        assert one.family == "swap" or not one.pool, one


def test_every_tip_account_has_a_service_source_and_date():
    with open(FOLDER / "tip_accounts.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["address"] for row in rows}) == len(rows) > 100
    for row in rows:
        assert is_base58(row["address"], 32) and row["service"] and row["source"], row
        datetime.date.fromisoformat(row["date"])
    assert not {row["address"] for row in rows} & {one.id for one in BUILT_IN}


# ---- markers -------------------------------------------------------------------------------------
def test_configured_swap_programs_are_markers():
    """A venue of the table is not a marker unless it is configured."""
    marker = address("venue")
    programs = table((marker,))
    assert marker in programs.markers and programs.family(marker) == "swap"
    assert RAYDIUM not in programs.markers and marker not in table().markers
    assert RAYDIUM in table((RAYDIUM,)).markers and RAYDIUM in table((RAYDIUM,)).pools
    assert table((TOKEN,)).family(TOKEN) == "swap" and table((TOKEN,)).name(TOKEN) == "SPL Token"


# ---- DATA_DIR/programs.csv -----------------------------------------------------------------------
def test_only_new_rows_are_added_and_are_not_markers():
    """Neither a built-in row nor a repeated one; the built-in name stays."""
    rows = [f"{RAYDIUM},Mine,swap,x\n", f'{NEW},"Tomorrow, the venue",swap,x\r', f"{NEW},B,swap,x"]
    programs = table((), HEADER + "\n".join(rows))
    assert programs.added == {NEW} and NEW not in programs.markers
    assert (programs.name(NEW), programs.family(NEW)) == ("Tomorrow, the venue", "swap")
    assert programs.name(RAYDIUM) == "Raydium v4" and RAYDIUM in programs.pools
    assert table().family(NEW) is None


COLUMNS = "must be 4 (id,name,family,source), not {}; put a cell that contains a comma in quotes"
NO_PROGRAM = "must be a program's address (32 bytes in base58)"
NO_FAMILY = (
    "must be one of swap, order, lending, liquidity, stake, bridge, nft, or empty (only the name"
    " is used)"
)
NO_NAME, NO_SOURCE = (f"must be 1 to {most} printable characters" for most in (60, 300))
KNOWN = "{} is already {} in the family {}: the file can only add programs, not change them"


@pytest.mark.parametrize(
    ("row", "line", "field", "allowed"),
    [
        (f"{NEW},A,swap", 2, "columns", COLUMNS.format(3)),
        (f"{NEW},A,swap,https://a.example/?a,b", 2, "columns", COLUMNS.format(5)),
        (f"{RAYDIUM},Mine,swap,x\nnot-base58,A,swap,x", 3, "id", NO_PROGRAM),
        (f"{NEW[:-4]},A,swap,x", 2, "id", NO_PROGRAM),
        *((f"{NEW},A,{family},x", 2, "family", NO_FAMILY) for family in ("casino", "Swap")),
        *((f"{NEW},{name},swap,x", 2, "name", NO_NAME) for name in ("", "n" * 61, "a\u202eb")),
        *((f"{NEW},A,swap,{source}", 2, "source", NO_SOURCE) for source in ("", "s" * 301)),
        (
            *(f"{RAYDIUM},Raydium v4,lending,x", 2, "family"),
            KNOWN.format(RAYDIUM, "Raydium v4", "swap"),
        ),
        (f"{TOKEN},Token,swap,x", 2, "family", KNOWN.format(TOKEN, "SPL Token", "(named only)")),
        (f"{NEW},A,swap,x\n{NEW},A,nft,x", 3, "family", KNOWN.format(NEW, "A", "swap")),
        (f'{NEW},"A,swap,x', 2, "quotes", "a quoted cell must be closed"),
    ],
)
def test_an_invalid_row_is_refused_by_line_and_field(row, line, field, allowed):
    with pytest.raises(BadTable) as refused:
        table((), f"{HEADER}{row}\n")
    assert str(refused.value) == f"DATA_DIR/programs.csv, line {line}, {field}: {allowed}"


def test_names_and_sources_have_documented_limits():
    row = f" {NEW} , {'n' * 60} , swap , {'s' * 300} \n"
    one = next(one for one in table((), HEADER + row).rows if one.id == NEW)
    assert (one.name, one.family, one.source) == ("n" * 60, "swap", "s" * 300)


def test_the_file_must_begin_with_its_header():
    """If there is anything in it."""
    for text in ("", "\n", HEADER):
        assert not table((), text).added
    for header in ("", "id,name,family\n", "id;name;family;source\n"):
        with pytest.raises(BadTable, match="line 1, header: must be id,name,family,source$"):
            table((), f"{header}{NEW},A,swap,x\n")


# ---- read at start -------------------------------------------------------------------------------
def load(folder):
    return config.load({"DATA_DIR": str(folder)}, dotenv=None)


def test_the_file_is_read_at_start(tmp_path):
    """A byte order mark, as written by spreadsheets, does no harm."""
    assert load(tmp_path).added_programs == ""
    (tmp_path / "programs.csv").write_bytes(b"\xef\xbb\xbf" + HEADER.encode())
    assert load(tmp_path).added_programs == HEADER


@pytest.mark.parametrize(
    "content, why",
    [
        (HEADER.encode() + b"caf\xe9\n", r"programs\.csv, line 2: must be UTF-8"),
        (b"x" * (config.MAX_TABLE_BYTES + 1), "at most 256000 bytes"),
        (None, "cannot be read: Is a directory"),
    ],
    ids=["binary", "oversized", "a directory"],
)
def test_an_unusable_file_is_refused(tmp_path, content, why):
    path = tmp_path / "programs.csv"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(config.BadSetting, match=why):
        load(tmp_path)


def test_only_what_decides_a_kind_changes_the_rules_id():
    """Neither the order of rows nor their source matters."""

    def name(markers=(), *rows):
        return name_rules(table(markers, HEADER + "".join(f"{row}\n" for row in rows)), ())

    one, other = f"{NEW},A,nft,x", f"{address('other')},B,swap,x"
    names = [name(), name((NEW,)), name((RAYDIUM,)), name((), one), name((), f"{NEW},A,swap,x")]
    assert len(set(names)) == len(names)
    assert name((), f"{NEW},A,nft,y") == name((), one)
    assert name((), one, other) == name((), other, one)
    assert name((NEW, RAYDIUM)) == name((RAYDIUM, NEW))


# ---- what is told of them ------------------------------------------------------------------------
def test_the_status_page_shows_added_programs(service, tmp_path):
    shown = ("EXTRA_SWAP_PROGRAMS is set", RAYDIUM, "The operator added 2 programs")
    assert not any(text in service.get("/status").text for text in shown)
    rows = f"{HEADER}{NEW},A,swap,x\n{address('another')},B,nft,x\n"
    other = Service(tmp_path / "more", extra_swap_programs=(RAYDIUM,), added_programs=rows)
    try:
        page = other.get("/status").text
    finally:
        other.close()
    assert all(text in page for text in shown)


def test_doctor_reports_markers_and_unusable_rows(service):
    def examine(deep=False, **changes):
        changed = service.config.model_copy(update=changes)
        return [(one.level, one.text) for one in doctor.examine(changed, 0, deep=deep)]

    found = examine(extra_swap_programs=(RAYDIUM,), added_programs=f"{HEADER}{NEW},A,swap,x\n")
    assert ("fine", "DATA_DIR/programs.csv adds 1 to the table of programs") in found
    assert any(level == "look" and RAYDIUM in text for level, text in found)
    # A deep check reads receipts with the table, so it has to wait.
    wrong = [text for level, text in examine(True, added_programs=BROKEN) if level == "wrong"]
    assert any("programs.csv, line 2, family" in text for text in wrong)
    assert not any("programs" in text for level, text in examine() if level != "fine")


def test_nothing_starts_with_an_invalid_row(service):
    broken = service.config.model_copy(update={"added_programs": BROKEN})
    for start in (create_app, Observer):
        with pytest.raises(BadTable, match="line 2, family"):
            start(broken)


# ---- the command ---------------------------------------------------------------------------------
@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command over DATA_DIR tmp_path; (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA_DIR", str(tmp_path))

    def call(*argv):
        return main(argv), *capsys.readouterr()

    return call


def test_the_command_prints_the_table_or_json(run, tmp_path, monkeypatch):
    (tmp_path / "programs.csv").write_text(f"{HEADER}{NEW},Tomorrow,,https://t.example\n")
    code, out, _ = run("programs", "--json")
    shown = json.loads(out)
    assert code == 0 and shown["added"] == 1 and shown["markers"] == []
    assert shown["programs"][-1] == {
        "id": NEW,
        "name": "Tomorrow",
        "family": None,
        "source": "https://t.example",
        "date": None,
        "pool": False,
        "added": True,
        "marker": False,
    }
    assert [one["id"] for one in shown["programs"][:-1]] == [one.id for one in BUILT_IN]
    marker = address("marker")
    monkeypatch.setenv("EXTRA_SWAP_PROGRAMS", marker)
    code, out, _ = run("programs")
    head, *lines, added, last = out.splitlines()
    assert code == 0 and len(lines) == len(BUILT_IN)
    assert head.split() == ["ID", "FAMILY", "NAME", "DATE", "SOURCE"]
    raydium = next(line for line in lines if line.startswith(RAYDIUM))
    assert raydium.split()[1:4] == ["swap", "Raydium", "v4"] and "2026-11-22" in raydium
    assert added.startswith(NEW) and added.endswith("https://t.example (DATA_DIR/programs.csv)")
    assert last.startswith(marker) and last.endswith("EXTRA_SWAP_PROGRAMS")


@pytest.mark.parametrize("command", ["programs", "observe", "run", "rebuild"])
def test_commands_refuse_an_invalid_row_in_one_sentence(run, tmp_path, command):
    """The database is migrated, because `observe` would otherwise stop earlier."""
    run("migrate")
    (tmp_path / "programs.csv").write_text(BROKEN)
    code, _, err = run(command)
    assert (code, err) == (1, f"DATA_DIR/programs.csv, line 2, family: {NO_FAMILY}\n")
