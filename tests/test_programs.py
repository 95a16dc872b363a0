"""The program table: what is in it, and what an operator adds to it."""

import csv
import datetime

import pytest
from story import address

import config
from chain.base58 import is_base58
from chain.programs import BUILT_IN, FAMILIES, FOLDER, BadPrograms, table
from chain.store import name_rules

RAYDIUM = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
HEADER, NEW = "id,name,family,source\n", address("a venue of tomorrow")


# ---- the built-in tables -------------------------------------------------------------------------
def test_every_row_is_a_program_of_a_known_family_with_source_and_date():
    """The date is one that has been: nobody looked tomorrow."""
    assert len({one.id for one in BUILT_IN}) == len(BUILT_IN) > 300
    for one in BUILT_IN:
        assert is_base58(one.id, 32), one
        assert one.family in (*FAMILIES, "") and one.name and one.source, one
        assert datetime.date.fromisoformat(one.date) <= datetime.date.today(), one
        assert one.family == "swap" or not one.pool, one


def test_every_tip_account_is_an_address_with_service_source_and_date():
    with open(FOLDER / "tip_accounts.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["address"] for row in rows}) == len(rows) > 100
    for row in rows:
        assert is_base58(row["address"], 32) and row["service"] and row["source"], row
        datetime.date.fromisoformat(row["date"])
    assert not {row["address"] for row in rows} & {one.id for one in BUILT_IN}


# ---- markers -------------------------------------------------------------------------------------
def test_the_operators_swap_programs_are_markers():
    """A venue of the table is none, unless it is configured."""
    marker = address("venue")
    programs = table((marker,))
    assert programs.is_marker(marker) and programs.family(marker) == "swap"
    assert not programs.is_marker(RAYDIUM) and not table().is_marker(marker)
    assert table((RAYDIUM,)).is_marker(RAYDIUM) and table((RAYDIUM,)).is_pool(RAYDIUM)
    assert table((TOKEN,)).family(TOKEN) == "swap" and table((TOKEN,)).name(TOKEN) == "SPL Token"


# ---- DATA_DIR/programs.csv -----------------------------------------------------------------------
def test_the_file_adds_programs_that_are_no_markers():
    text = f'{HEADER}{NEW},"Tomorrow, the venue",swap,https://tomorrow.example/docs\n'
    programs = table((), text)
    assert programs.family(NEW) == "swap" and programs.name(NEW) == "Tomorrow, the venue"
    assert programs.added == {NEW} and not programs.is_marker(NEW)
    assert table().family(NEW) is None


def test_a_row_that_is_known_alike_adds_nothing():
    """Neither one of the built-in table nor the same one twice; the built-in name stays."""
    text = f"{HEADER}{RAYDIUM},Mine,swap,x\n\n{NEW},A,,x\r\n{NEW},B,,x\n"
    programs = table((), text)
    assert programs.name(RAYDIUM) == "Raydium v4" and programs.is_pool(RAYDIUM)
    assert programs.added == {NEW} and programs.name(NEW) == "A" and programs.family(NEW) is None


@pytest.mark.parametrize(
    ("row", "line", "field", "allowed"),
    [
        (f"{NEW},A,swap", 2, "columns", "must be 4"),
        (f"{NEW},A,swap,https://a.example/?a,b", 2, "columns", "not 5"),
        (f"{RAYDIUM},Mine,swap,x\nnot-base58,A,swap,x", 3, "id", "base58 of 32 bytes"),
        (f"{NEW[:-4]},A,swap,x", 2, "id", "base58 of 32 bytes"),
        (f"{NEW},A,casino,x", 2, "family", "swap, order, lending"),
        (f"{NEW},A,Swap,x", 2, "family", "swap, order, lending"),
        (f"{NEW},,swap,x", 2, "name", "1 to 60 printable"),
        (f"{NEW},{'n' * 61},swap,x", 2, "name", "1 to 60 printable"),
        (f"{NEW},a\u202eb,swap,x", 2, "name", "1 to 60 printable"),
        (f"{NEW},A,swap,", 2, "source", "1 to 300 printable"),
        (f"{RAYDIUM},Raydium v4,lending,x", 2, "family", "Raydium v4 of family swap already"),
        (f"{TOKEN},Token,swap,x", 2, "family", "SPL Token of family (named only) already"),
        (f"{NEW},A,swap,x\n{NEW},A,nft,x", 3, "family", "A of family swap already"),
        (f'{NEW},"A,swap,x', 2, "quotes", "must be closed"),
    ],
)
def test_a_wrong_row_is_refused_by_line_and_field(row, line, field, allowed):
    with pytest.raises(BadPrograms) as refused:
        table((), f"{HEADER}{row}\n")
    assert str(refused.value).startswith(f"DATA_DIR/programs.csv, line {line}, {field}: ")
    assert allowed in str(refused.value)


@pytest.mark.parametrize("header", ["", "id,name,family\n", "id;name;family;source\n"])
def test_the_file_begins_with_its_header(header):
    with pytest.raises(BadPrograms, match="line 1, header: must be id,name,family,source"):
        table((), f"{header}{NEW},A,swap,x\n")


def test_an_empty_file_adds_nothing():
    assert table((), "").added == table((), "\n").added == table((), HEADER).added == frozenset()


# ---- read at start -------------------------------------------------------------------------------
def load(folder):
    return config.load({"DATA_DIR": str(folder)}, dotenv=None)


def test_the_file_is_read_at_start(tmp_path):
    """A byte order mark, as spreadsheets write one, does no harm."""
    assert load(tmp_path).added_programs == ""
    (tmp_path / "programs.csv").write_bytes(b"\xef\xbb\xbf" + HEADER.encode())
    assert load(tmp_path).added_programs == HEADER


def test_a_file_that_is_no_text_is_refused_by_line(tmp_path):
    (tmp_path / "programs.csv").write_bytes(HEADER.encode() + b"caf\xe9\n")
    with pytest.raises(config.BadSetting, match=r"programs\.csv, line 2: must be UTF-8"):
        load(tmp_path)


def test_a_huge_file_is_refused(tmp_path):
    (tmp_path / "programs.csv").write_bytes(b"x" * (config.MAX_PROGRAMS_BYTES + 1))
    with pytest.raises(config.BadSetting, match="at most 256000 bytes"):
        load(tmp_path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "programs.csv").mkdir()
    with pytest.raises(config.BadSetting, match="cannot be read: Is a directory"):
        load(tmp_path)


# ---- the rules that entries were read by ---------------------------------------------------------
def test_the_rules_are_named_alike_in_whatever_order_the_programs_come():
    one, other = address("one"), address("other")
    rows = [f"{one},A,swap,x\n", f"{other},B,nft,x\n"]
    assert name_rules(table((one, other))) == name_rules(table((other, one)))
    assert name_rules(table((), HEADER + "".join(rows))) == name_rules(
        table((), HEADER + "".join(rows[::-1]))
    )


def test_what_decides_changes_the_name_of_the_rules_and_nothing_else_does():
    """Not where a row comes from."""
    added = f"{HEADER}{NEW},A,%s,%s\n"
    tables = [
        table(),
        table((NEW,)),
        table((RAYDIUM,)),
        table((), added % ("swap", "x")),
        table((), added % ("nft", "x")),
    ]
    assert len({name_rules(one) for one in tables}) == len(tables)
    assert name_rules(table((), added % ("nft", "y"))) == name_rules(tables[-1])
