"""Upgrading: from every released version to this one, and back to the byte on any doubt."""

import contextlib
import hashlib
import lzma
import shutil
from pathlib import Path

import apsw
import ground
import orjson
import pytest
from service import Service

import config
import storage
from cli.parser import main
from operate import backups, doctor, instance, upgrade
from storage import locks

ROOT = Path(__file__).resolve().parent.parent
RELEASES = sorted((ROOT / "tests" / "data" / "releases").glob("*.db.xz"))
COUNTED = "SELECT (SELECT COUNT(*) FROM post), (SELECT COUNT(*) FROM trade), results FROM wallet"


def place(folder, release=RELEASES[0]):
    """An instance whose database that release wrote."""
    folder.mkdir(mode=0o700)
    path = folder / "app.db"
    path.write_bytes(lzma.decompress(release.read_bytes()))
    path.chmod(0o600)
    return config.load({"DATA_DIR": str(folder)}, dotenv=None)


def leave():
    storage.database.close_all()
    locks.unlock_data_dir()


def read(path, sql):
    with contextlib.closing(apsw.Connection(str(path))) as db:
        return list(db.execute(sql))


def hash_files(folder):
    """{name: SHA-256} of the database and its WAL."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.glob("app.db*")
        if path.stat().st_size and not path.name.endswith("-shm")
    }


def run(monkeypatch, folder, *arguments):
    """`app.py upgrade` there; its exit code."""
    monkeypatch.setenv("DATA_DIR", str(folder))
    monkeypatch.chdir(folder)
    try:
        return main(["upgrade", *arguments])
    finally:
        leave()


@pytest.fixture
def plant(tmp_path, monkeypatch):
    """plant(source): this version has one more migration, with this source."""

    def add(source):
        folder = tmp_path / "migrations"
        shutil.copytree(storage.MIGRATIONS, folder)
        (folder / "9998_more.py").write_text(source)
        monkeypatch.setattr(storage, "MIGRATIONS", folder)

    return add


def test_each_release_has_a_database_and_a_name():
    versions = [path.name.removesuffix(".db.xz") for path in RELEASES]
    told = (ROOT / "CHANGELOG.md").read_text()
    released = [
        line.removeprefix("## ")
        for line in told.splitlines()
        if line.startswith("## ") and "(unreleased)" not in line
    ]
    assert versions == sorted(released) == [version for version, _ in upgrade.RELEASES]


@ground.sqlite_only
@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_a_release_is_upgraded_with_all_that_it_held(tmp_path, monkeypatch, capsys, release):
    place(tmp_path / "data", release)
    path, version = tmp_path / "data" / "app.db", release.name.removesuffix(".db.xz")
    before = read(path, COUNTED)
    assert run(monkeypatch, tmp_path / "data") == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{version} (schema ") and "migration 1 of " in said
    assert "verified: nothing is wrong" in said and config.VERSION in said
    ((posts, trades, old),), ((*counts, new),) = before, read(path, COUNTED)
    assert counts == [posts, trades]
    known = "realizedLamports", "matchedSells", "winningSells", "volumeLamports"
    assert [orjson.loads(old)[name] for name in known] == [
        orjson.loads(new)[name] for name in known
    ]
    (copy,) = (tmp_path / "data").glob("app.db.before-*")
    assert read(copy, COUNTED) == before and copy.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "data" / "upgrade").exists()
    assert run(monkeypatch, tmp_path / "data") == 0
    assert capsys.readouterr().out.endswith("nothing to do\n")


@ground.sqlite_only
@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_an_ordinary_start_migrates_a_release_too(tmp_path, release):
    given = place(tmp_path / "data", release)
    backups.migrate(given)
    leave()
    service = Service(tmp_path / "data")
    try:
        for page in ("/", "/leaderboard", "/bots", "/paper", "/api/health"):
            assert service.get(page).status_code in (200, 308, 404), page
        assert "Bob Ünder" in service.get("/").text
        assert "words that were taken down" not in service.get("/").text
    finally:
        service.close()


@ground.sqlite_only
@pytest.mark.parametrize(
    ("source", "doubt"),
    [
        ("def up(migrator, db):\n    raise ZeroDivisionError('planted')\n", "ZeroDivisionError"),
        ("def up(migrator, db):\n    db.execute_sql('DELETE FROM review')\n    db.execute_sql("
         "\"UPDATE post SET body = 'other' WHERE id = 1\")\n", "the rows of post"),
        ("def up(migrator, db):\n    db.execute_sql(\"UPDATE receipt SET body = x'00'\")\n",
         "the rows of receipt"),
    ],
)  # fmt: skip
def test_any_doubt_leaves_the_database_as_it_was(
    tmp_path, monkeypatch, capsys, plant, source, doubt
):
    place(tmp_path / "data")
    plant(source)
    before = hash_files(tmp_path / "data")
    assert run(monkeypatch, tmp_path / "data") == 3
    said = capsys.readouterr().err
    assert doubt in said and "as it was, byte for byte" in said
    assert hash_files(tmp_path / "data") == before
    assert not (tmp_path / "data" / "upgrade").exists()


@ground.sqlite_only
def test_what_stands_in_a_wal_is_upgraded_and_kept(tmp_path, monkeypatch, plant):
    place(tmp_path / "first")
    with contextlib.closing(apsw.Connection(str(tmp_path / "first" / "app.db"))) as db:
        db.pragma("journal_mode", "wal")
        db.pragma("wal_autocheckpoint", 0)
        db.execute("UPDATE bot SET bio = 'in the WAL' WHERE id = 1")
        shutil.copytree(tmp_path / "first", tmp_path / "data")
    (tmp_path / "data" / "app.db-shm").unlink()
    before = hash_files(tmp_path / "data")
    assert set(before) == {"app.db", "app.db-wal"}
    with monkeypatch.context() as patched:
        patched.setattr(upgrade, "_verify", lambda *_: ["planted"])
        assert run(monkeypatch, tmp_path / "data") == 3
    assert hash_files(tmp_path / "data") == before
    assert run(monkeypatch, tmp_path / "data") == 0
    assert read(tmp_path / "data" / "app.db", "SELECT bio FROM bot WHERE id = 1") == [
        ("in the WAL",)
    ]


@ground.sqlite_only
def test_beside_a_server_nothing_begins(tmp_path, monkeypatch, capsys):
    place(tmp_path / "data")
    before = hash_files(tmp_path / "data")
    with instance.alone(tmp_path / "data"):
        assert run(monkeypatch, tmp_path / "data") == 1
    assert "stop it first" in capsys.readouterr().err
    assert hash_files(tmp_path / "data") == before


@ground.sqlite_only
def test_a_disk_without_room_is_left_alone(tmp_path, monkeypatch, capsys):
    """Two copies of a database of some megabytes, and 200 MB."""
    place(tmp_path / "data")
    before = hash_files(tmp_path / "data")
    size = (tmp_path / "data" / "app.db").stat().st_size
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=20_000_000))
    assert run(monkeypatch, tmp_path / "data") == 1
    said = capsys.readouterr().err
    assert "20 MB free" in said and f"needs {200 + 2 * size / 1e6:,.0f} MB" in said
    assert hash_files(tmp_path / "data") == before


@ground.sqlite_only
def test_a_damaged_a_newer_and_an_empty_instance_are_refused(tmp_path, monkeypatch, capsys):
    assert (tmp_path / "none").mkdir() is None
    assert run(monkeypatch, tmp_path / "none") == 1
    assert "there is no database" in capsys.readouterr().err
    place(tmp_path / "newer")
    with contextlib.closing(apsw.Connection(str(tmp_path / "newer" / "app.db"))) as db:
        db.execute("INSERT INTO schema_migration (name, applied) VALUES ('9999_later', '')")
    assert run(monkeypatch, tmp_path / "newer") == 1
    assert "newer version of Candor (it has 9999_later)" in capsys.readouterr().err
    place(tmp_path / "damaged")
    with open(tmp_path / "damaged" / "app.db", "r+b") as file:
        file.seek(40 * 4096)
        file.write(b"\xa5" * 3 * 4096)
    assert run(monkeypatch, tmp_path / "damaged") == 1
    assert "damaged" in capsys.readouterr().err


@ground.sqlite_only
def test_what_a_killed_upgrade_left_is_named_and_goes(tmp_path):
    given = place(tmp_path / "data")
    (tmp_path / "data" / "upgrade").mkdir()
    (tmp_path / "data" / "upgrade" / "app.db").write_bytes(b"half")
    said = [one.text for one in doctor.examine(given, 0)]
    assert any("left by an interrupted upgrade" in text for text in said)
    backups.migrate(given)
    leave()
    assert not (tmp_path / "data" / "upgrade").exists()


@ground.postgresql_only
def test_a_server_is_upgraded_after_a_dump_alone(tmp_path, monkeypatch, capsys, plant, settings):
    made = storage.make_database(settings)
    storage.migrate(made)
    made.close_all()
    plant("def up(migrator, db):\n    db.execute_sql('CREATE TABLE more (id BIGINT)')\n")
    monkeypatch.setenv("DATABASE_URL", settings.database_url)
    (tmp_path / "data").mkdir(exist_ok=True)
    assert run(monkeypatch, tmp_path / "data") == 1
    assert "pg_dump" in capsys.readouterr().err
    assert run(monkeypatch, tmp_path / "data", "--dumped") == 0
    assert "9998_more" in capsys.readouterr().out
