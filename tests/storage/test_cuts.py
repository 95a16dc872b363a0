"""Power cuts: Candor loses nothing, and the simulated disk finds data that it forgets to sync. For
ten thousand cuts: `python -m bench cuts`.
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
def test_a_write_tears_at_sectors():
    parts = disk.tear(disk.Write(1, 500, b"a" * 12 + b"b" * 512 + b"c" * 5))
    told = [(one.offset, one.data[:1], len(one.data)) for one in parts]
    assert told == [(500, b"a", 12), (512, b"b", 512), (1024, b"c", 5)]


def test_every_write_is_recorded(tmp_path):
    with disk.Recorder(tmp_path) as tape:
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "one").write_text("one")
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
    "success is reported early": (mock.patch.dict(cuts.SCENARIOS, hasty=Hasty), "hasty", range(10)),
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
