"""Power cuts: the simulated disk finds data that programs forgot to sync, and Candor loses nothing.
For ten thousand cuts: `python -m bench cuts`.
"""

import contextlib
import os
import random
from pathlib import Path
from unittest import mock

import apsw
import cuts
import disk
import ground
import pytest

from operate import backups
from storage import files, sqlite

pytestmark = ground.sqlite_only
SEED = 1


# ---- the disk itself -----------------------------------------------------------------------------
def write(path, text, sync=True):
    with open(path, "w") as file:
        file.write(text)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def replace(folder, tape, forget=""):
    """Write a new file, rename it and report it, leaving out one step."""
    write(folder / "draft", "new", sync=forget != "file")
    os.replace(folder / "draft", folder / "kept")
    if forget == "order":
        tape.tell("done")
    if forget != "folder":
        files.sync(folder)
    tape.tell("done")


def insert(folder, tape, synchronous="FULL", early=False):
    """Insert rows and report each one."""
    with contextlib.closing(apsw.Connection(str(folder / "rows.db"))) as db:
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", synchronous)
        db.execute("CREATE TABLE IF NOT EXISTS kept (n INTEGER)")
        for n in range(3):
            if early:
                tape.tell(n)
            db.execute("INSERT INTO kept VALUES (?)", (n,))
            tape.tell(n)


def find_lost(program, check, **how):
    """Number of cuts out of a hundred after which `check(folder, told)` is false."""
    dice, lost = random.Random(SEED), 0
    with cuts.folder_in_memory() as folder:
        with disk.Recorder(folder) as tape:
            program(folder, tape, **how)
        for number in range(100):
            step = dice.randint(0, len(tape.steps))
            left = tape.cut(step, dice.choice(list(disk.KEEPS)), dice)
            left.write_to(folder / str(number))
            lost += not check(folder / str(number), tape.told(step))
    return lost


def is_replaced(folder, told):
    path = folder / "kept"
    return (path.exists() or not told) and (not path.exists() or path.read_text() == "new")


def are_inserted(folder, told):
    try:
        with contextlib.closing(apsw.Connection(str(folder / "rows.db"))) as db:
            rows = db.execute("SELECT n FROM kept").fetchall() if told else []
            whole = db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    except apsw.Error:
        return False
    return whole and [n for (n,) in rows][: len(set(told))] == sorted(set(told))


def test_synced_writes_are_never_lost():
    assert find_lost(replace, is_replaced) == 0
    assert find_lost(insert, are_inserted) == 0


def test_what_was_not_synced_before_its_acknowledgment_is_lost():
    for step in ("file", "folder", "order"):
        assert find_lost(replace, is_replaced, forget=step) > 0
    for how in ({"synchronous": "OFF"}, {"synchronous": "NORMAL"}, {"early": True}):
        assert find_lost(insert, are_inserted, **how) > 0


def test_a_write_tears_at_sectors():
    parts = disk.tear(disk.Write(1, 500, b"a" * 12 + b"b" * 512 + b"c" * 5))
    told = [(one.offset, one.data[:1], len(one.data)) for one in parts]
    assert told == [(500, b"a", 12), (512, b"b", 512), (1024, b"c", 5)]


def test_every_write_is_recorded(tmp_path):
    with disk.Recorder(tmp_path) as tape:
        (tmp_path / "folder").mkdir()
        write(tmp_path / "folder" / "one", "one", sync=False)
        os.link(tmp_path / "folder" / "one", tmp_path / "two")
        (tmp_path / "folder" / "one").unlink()
    left = tape.cut(len(tape.steps), "everything", random.Random(SEED))
    assert list(left.list_files()) == [("two", b"one")]
    assert list(tape.cut(len(tape.steps), "nothing", None).list_files()) == []

    with contextlib.closing(apsw.Connection(str(tmp_path / "unseen.db"))) as db:
        db.execute("CREATE TABLE t (n)")
        unseen = pytest.raises(AssertionError, match=r"unseen\.db was written unseen")
        with unseen, disk.Recorder(tmp_path) as tape:
            tape.open("unseen.db")
            # With a connection that the recorder doesn't see.
            db.execute("INSERT INTO t VALUES (1)")


# ---- the product ---------------------------------------------------------------------------------
@pytest.mark.parametrize("name", cuts.SCENARIOS)
def test_every_acknowledged_write_survives_a_cut(name, full):
    trial, (most, go_on) = cuts.Trial(name, SEED), (8, 3) if full else (3, 1)
    for number in range(most):
        cut = trial.draw(number)
        assert trial.judge(cut, go_on=number < go_on) == [], f"{cut} of {name}, seed {SEED}"


@pytest.mark.parametrize("name", ["migrating", "restoring"])
def test_no_old_journal_returns_for_another_database(name, monkeypatch):
    """Of all names that changed since a folder was synced, the disk kept only the last."""
    monkeypatch.setitem(disk.KEEPS, "last", lambda steps, dice: steps[-1:])
    trial = cuts.Trial(name, SEED)
    for step in trial.turns["SyncFolder"]:
        assert trial.judge(cuts.Cut(step, step, "last"), go_on=False) == []


def forget(module, name):
    """A bug: this step is skipped."""
    return mock.patch.object(module, name, lambda *_: None)


def hurry(mode):
    """A bug: SQLite syncs less."""
    real = sqlite.SQLite._add_conn_hooks

    def add(self, connection):
        real(self, connection)
        connection.execute(f"PRAGMA synchronous = {mode}")

    return mock.patch.object(sqlite.SQLite, "_add_conn_hooks", add)


class Hasty(cuts.Attaching):
    """Reports success too early."""

    def acts(self, settings):
        return [lambda act=act: None for act in super().acts(settings)]

    def look(self, told):
        done = max((one[1] for one in told if one[0] == "did"), default=0)
        if done and not cuts.Attachment.select().exists():
            yield "the wallet is not attached"


# The bug, the scenario that shows it, and a number of cuts that includes one that finds it.
DEFECTS = {
    "nothing is synced": (hurry("OFF"), "attaching", (0, 4)),
    "commits are not synced": (hurry("NORMAL"), "attaching", (4, 6)),
    "an emptied WAL is not synced": (forget(sqlite, "sync"), "hiding", (21, 33)),
    "a backup is not synced": (forget(backups, "sync"), "backing-up", range(2)),
    "DATA_DIR is not synced": (forget(files, "sync"), "starting", (15, 31)),
    "a restore renames the database away": (
        mock.patch.object(backups, "_link", os.rename),
        "restoring",
        (5, 29),
    ),
    "success is reported early": (
        mock.patch.dict(cuts.SCENARIOS, hasty=Hasty),
        "hasty",
        range(10),
    ),
}


@pytest.mark.parametrize("what", DEFECTS)
def test_a_planted_defect_is_found(what):
    defect, name, numbers = DEFECTS[what]
    with defect:
        trial = cuts.Trial(name, SEED)
        assert any(trial.judge(trial.draw(number), go_on=False) for number in numbers)


def test_the_program_reports_a_cut_that_lost_data(monkeypatch, capsys):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2])
    from bench import cuts as program

    with hurry("OFF"):
        assert program.main(["--cuts", "5", "--seed", "1", "--only", "attaching"]) == 1
    said = capsys.readouterr().out
    assert "again: python -m bench cuts --seed 1 --only attaching --number 0" in said
    assert program.main(["--seed", "1", "--only", "attaching", "--number", "0"]) == 0
