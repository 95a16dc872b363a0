"""A full disk, and a database that stays locked: responses, health and the log."""

import contextlib
import logging
import shutil
import subprocess
import threading
import time

import apsw
import ground
import pytest
from peewee import OperationalError
from service import Service, address, hide_post

import config
import storage
from operate import backups, instance
from storage import database, files, sqlite, trouble
from storage.trouble import LOCKED_SECONDS
from web.api.health import get_health
from web.server import logs

pytestmark = ground.sqlite_only
NOW = 1_793_880_000_000


@pytest.fixture
def small_disk(tmp_path):
    """A folder on its own three-megabyte disk; `fill` uses up the rest."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder):
    with contextlib.suppress(OSError), open(folder / "filler", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def look(service):
    """The current (status of the response, content of health)."""
    with service.app.test_request_context(), storage.database.connection_context():
        answer = get_health()
    return answer.status_code, answer.get_json()


def assert_well(service):
    status, shown = look(service)
    assert (status, shown["status"]) == (200, "ok")
    assert shown["database"]["writable"] and shown["allowanceOk"]


def post_words(service, key, number):
    return service.post({"eventId": f"e{number}", "body": "words " * 600}, key)


# ---- a full disk ---------------------------------------------------------------------------------
def test_a_full_disk_has_its_own_message(small_disk, caplog):
    service = Service(small_disk / "data")
    key = service.make_bot("Ada", address("w")).publish_key.text
    assert post_words(service, key, 0).status_code == 201
    assert_well(service)
    fill(small_disk)
    for number in range(1, 30):
        answer = post_words(service, key, number)
        if answer.status_code == 503:
            break
    assert (answer.status_code, answer.json["code"]) == (503, "busy")
    assert "the server disk is full" in answer.json["detail"]
    assert "nothing was stored" in answer.json["detail"]
    assert not any(record.exc_info for record in caplog.records if record.levelno >= logging.ERROR)
    status, shown = look(service)
    assert (status, shown["status"]) == (200, "degraded")
    assert (shown["database"]["ok"], shown["database"]["writable"]) == (True, False)
    assert shown["database"]["problem"] == "the server disk is full"
    page = service.get("/status")
    assert page.status_code == 200 and "the server disk is full" in page.text
    (small_disk / "filler").unlink()
    assert post_words(service, key, 50).status_code == 201
    assert_well(service)
    service.close()


def test_health_says_when_counters_cannot_be_written(small_disk, tmp_path):
    """The keyed API is then busy, although counts can be read."""
    service = Service(tmp_path / "data")
    key = service.make_bot().publish_key.text
    store = service.app.allowance.store
    store.path = small_disk / "ratelimit.db"
    assert service.get("/api/v1/feed", key).status_code == 200
    fill(small_disk)
    answers = [
        service.get("/api/v1/feed", key, peer=f"10.0.{number // 250}.{number % 250 + 1}")
        for number in range(300)
    ]
    assert (answers[-1].status_code, answers[-1].json["code"]) == (503, "busy")
    assert "the server disk" in answers[-1].json["detail"]
    status, shown = look(service)
    assert (status, shown["status"], shown["allowanceOk"]) == (200, "degraded", False)
    service.close()


def test_a_backup_on_a_full_disk_says_so_in_one_sentence(small_disk, tmp_path):
    service = Service(tmp_path / "data")
    service.make_bot()
    for target in (small_disk / "one.db", small_disk / "two.db"):
        fill(small_disk)
        with pytest.raises(instance.Refused) as refused:
            backups.store_backup(service.config, target)
        assert "is full" in str(refused.value) and "not an error" not in str(refused.value)
        assert [path.name for path in small_disk.iterdir()] == ["filler"]
        # the second time there is room for the beginning
        (small_disk / "filler").unlink()
        with open(small_disk / "filler", "wb") as file:
            file.write(bytes(shutil.disk_usage(small_disk).free - 65_536))
    service.close()


@pytest.mark.parametrize("room", [0, 16_384, 262_144])
def test_a_migration_on_a_full_disk_is_refused_in_one_sentence(small_disk, room):
    """With room for nothing, for its beginning, or for most of it."""
    given = config.load({"DATA_DIR": str(small_disk)}, dotenv=None)
    with open(small_disk / "filler", "wb") as file:
        file.write(bytes(shutil.disk_usage(small_disk).free - room))
    with pytest.raises(instance.Refused) as refused:
        backups.migrate(given)
    assert "full" in str(refused.value) or "No space left" in str(refused.value)
    storage.database.close_all()
    files.unlock_data_dir()
    (small_disk / "filler").unlink()
    assert backups.migrate(given).names == storage.list_migrations()
    storage.database.close_all()
    files.unlock_data_dir()


# ---- a locked database ---------------------------------------------------------------------------
@contextlib.contextmanager
def locked(service):
    with contextlib.closing(apsw.Connection(str(service.config.database_path))) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_a_database_that_stays_locked_is_not_ok(service):
    key = service.make_bot().publish_key.text
    database.obj.busy_ms = 50
    assert look(service)[1]["status"] == "ok"
    with locked(service):
        answer = post_words(service, key, 1)
        assert (answer.status_code, answer.json["code"]) == (503, "busy")
        detail = "another program keeps the database locked; nothing was stored"
        assert answer.json["detail"] == detail
        status, shown = look(service)
        assert (status, shown["status"], shown["database"]["writable"]) == (200, "degraded", False)
        assert service.get("/api/v1/feed", key).status_code == 200
    assert look(service)[1]["status"] == "ok"
    assert post_words(service, key, 1).status_code == 201


def test_a_lasting_lock_is_reported_even_without_writers(service, monkeypatch):
    clock = [time.monotonic()]
    monkeypatch.setattr(sqlite.time, "monotonic", lambda: clock[0])
    assert database.find_trouble() is None
    with locked(service):
        # This could be an ordinary write by another process.
        assert database.find_trouble() is None
        clock[0] += LOCKED_SECONDS
        assert database.find_trouble() == "locked"
    assert database.find_trouble() is None


def test_hidden_text_a_reader_keeps_in_the_wal_is_reported_and_removed_later(
    service, monkeypatch, caplog
):
    clock = [time.monotonic()]
    monkeypatch.setattr(sqlite.time, "monotonic", lambda: clock[0])
    key = service.make_bot().publish_key.text
    database.obj.busy_ms = 50
    uid = service.post({"eventId": "e1", "body": "gone with the wind"}, key).json["id"]
    wal = service.config.database_path.with_name("app.db-wal")
    with contextlib.closing(apsw.Connection(str(service.config.database_path))) as reader:
        reader.execute("BEGIN")
        # Like a backup: this state stays readable meanwhile.
        assert reader.execute("SELECT COUNT(*) FROM post").get == 1
        with database.connection_context():
            hide_post(uid, NOW)
        assert b"gone with the wind" in wal.read_bytes()
        assert "erased text may remain in app.db-wal" in caplog.text
    clock[0] += sqlite.EMPTY_AGAIN_SECONDS
    service.post({"eventId": "e2", "body": "another day"}, key)
    kept = wal.read_bytes() + service.config.database_path.read_bytes()
    assert b"gone with the wind" not in kept and b"another day" in kept


def test_one_deadline_covers_both_kinds_of_waiting(service):
    """A request behind a waiting writer of this process doesn't wait twice as long."""
    database.obj.busy_ms = 3_000
    took = []

    def write():
        began = time.monotonic()
        with contextlib.suppress(OperationalError):
            service.make_bot()
        took.append(time.monotonic() - began)

    with locked(service):
        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    # Together: 3 s. One after another, the second would need 6 s, because its turn comes when its
    # own time is nearly up. The margin is for a busy machine.
    assert len(took) == 4 and max(took) < 5.4


@pytest.mark.parametrize(
    ("free", "failed", "told"),
    [
        # Too little for any write, whatever the result of the last one.
        (trouble.DISK_FLOOR - 1, None, "disk_full"),
        (trouble.DISK_FLOOR, None, None),
        # A write failed, and there is hardly more room now.
        (trouble.DISK_ROOM - 1, "disk_full", "disk_full"),
        (trouble.DISK_ROOM, "disk_full", None),
        # Room doesn't fix other problems.
        (trouble.DISK_ROOM, "read_only", "read_only"),
        (trouble.DISK_FLOOR - 1, "read_only", "disk_full"),
    ],
)
def test_free_space_shows_whether_the_disk_is_full(service, monkeypatch, free, failed, told):
    monkeypatch.setattr(sqlite, "find_free", lambda folder: free)
    if failed:
        database.obj.writes.fail(failed)
    assert database.find_trouble() == told


@pytest.mark.parametrize(
    "error, named",
    [
        (apsw.FullError(), "disk_full"),
        (apsw.ReadOnlyError(), "read_only"),
        (apsw.IOError(), "disk_error"),
        (apsw.BusyError(), "locked"),
        (OSError(), "unreachable"),
        (trouble.Unusable("gone"), "gone"),
    ],
    ids=repr,
)
def test_every_cause_of_a_failed_write_is_named(tmp_path, error, named):
    wrapped = OperationalError()
    wrapped.__context__ = error
    assert trouble.name_trouble(wrapped, tmp_path) == named and named in trouble.TROUBLES


# ---- the log -------------------------------------------------------------------------------------
def count_lines(seconds, **more):
    """[(second, number dropped before it)] of the log lines for one error a second."""
    clock = [0.0]
    repeats, said = logs.Repeats(lambda: clock[0]), []
    for second in range(seconds):
        clock[0] = float(second)
        record = logging.makeLogRecord({"levelno": logging.ERROR, "msg": "busy: disk full", **more})
        if repeats.filter(record):
            said.append((second, getattr(record, "repeated", 0)))
    return said


def test_a_repeated_error_is_counted_in_the_log():
    assert count_lines(500, often=True) == [(0, 0), (60, 59), (180, 119), (420, 239)]
    # Hourly afterwards: at 3,780, 7,380, 10,980...
    assert len(count_lines(20_000, often=True)) < 13


def test_an_error_with_a_request_id_is_logged_every_time():
    assert len(count_lines(5, shown={"requestId": "req_1"})) == 5


def test_config_is_what_the_server_logs_with():
    assert logs.CONFIG["handlers"]["stderr"]["filters"] == ["repeats"]
