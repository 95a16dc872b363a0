"""A disk, a folder or a file in trouble: responses, how fast they are, health, and recovery."""

import contextlib
import itertools
import logging
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import apsw
import ground
import pytest
from peewee import OperationalError
from service import Service, hide_post

import config
import models
import storage
from operate import backups, instance
from storage import counters, database, files, sqlite, trouble
from storage.trouble import LOCKED_SECONDS
from web.server import logs

pytestmark = ground.sqlite_only
PAGES = ("/", "/market", "/leaderboard", "/status", "/feed.json", "/api/traders")
NUMBERS = itertools.count()


def post(service, key, **more):
    return service.post({"eventId": f"e{next(NUMBERS)}", "body": "words " * 600}, key, **more)


def get_health(service):
    """(health's answer, (HTTP status, `status`, whether counters can be written))"""
    health = service.get("/api/health")
    return health, (health.status_code, health.json["status"], health.json["allowanceOk"])


def check_well(service, key):
    """Check that posts are stored and health has no complaint."""
    assert post(service, key).status_code == 201
    health, told = get_health(service)
    assert told == (200, "ok", True) and health.json["database"]["writable"]


def check_busy(answer):
    assert (answer.status_code, answer.json["code"]) == (503, "busy")
    assert "Retry-After" in answer.headers


def check_pages(service):
    assert {service.get(path).status_code for path in PAGES} == {200}


def check_refused(service, key, problem, down=False, ok=True):
    """Check that posts are refused with this reason, that health names it, and that pages are
    served. `down`: health's status, and `ok`: whether the database is the right one.
    """
    answer, (health, told) = post(service, key), get_health(service)
    check_busy(answer)
    assert answer.json["detail"] == f"{problem}; nothing was stored"
    assert told[:2] == ((503, "down") if down else (200, "degraded"))
    shown = health.json["database"]
    assert (shown["ok"], shown["writable"], shown["problem"]) == (ok, False, problem)
    assert str(service.config.data_dir) not in health.text + answer.text
    check_pages(service)


@pytest.fixture
def clock(monkeypatch):
    """A list with the time of the database and the counters."""
    made = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: made[0])
    return made


# ---- a full disk ---------------------------------------------------------------------------------
@pytest.fixture
def small_disk(tmp_path):
    """A folder on its own three-megabyte disk; `fill` uses up the rest."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount(["-t", "tmpfs", "-o", "size=3m", "tmpfs", folder])
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def mount(options):
    if subprocess.run(["mount", *options], capture_output=True).returncode:
        pytest.skip("only root can mount a disk")


def fill(folder, room=0):
    """Leave this many bytes."""
    with contextlib.suppress(OSError), open(folder / "filler", "wb", buffering=0) as file:
        file.write(bytes(max(0, shutil.disk_usage(folder).free - room)))
        while not room:
            file.write(bytes(4096))


def test_a_full_disk_has_its_own_message(small_disk, caplog):
    with contextlib.closing(Service(small_disk / "data")) as service:
        key = service.make_bot().publish_key.text
        check_well(service, key)
        fill(small_disk)
        ground.until(lambda: post(service, key).status_code == 503)
        check_refused(service, key, "the server disk is full")
        assert "the server disk is full" in service.get("/status").text
        errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert not any(record.exc_info for record in errors)
        (small_disk / "filler").unlink()
        check_well(service, key)


def test_health_says_when_counters_cannot_be_written(service, small_disk):
    """The keyed API is then busy, although counts can be read."""
    key = service.make_bot().publish_key.text
    service.app.allowance.store.path = small_disk / "ratelimit.db"
    assert service.get("/api/v1/feed", key).status_code == 200
    fill(small_disk)
    for number in range(300):
        answer = service.get("/api/v1/feed", key, peer=f"10.0.{number // 250}.{number % 250 + 1}")
    check_busy(answer)
    assert "the server disk" in answer.json["detail"]
    assert get_health(service)[1] == (200, "degraded", False)


def test_a_backup_on_a_full_disk_says_so_in_one_sentence(service, small_disk):
    """With room for nothing, or for its beginning."""
    for room in (0, 65_536):
        fill(small_disk, room)
        with pytest.raises(instance.Refused) as refused:
            backups.store_backup(service.config, small_disk / "one.db")
        assert "is full" in str(refused.value) and "not an error" not in str(refused.value)
        assert [path.name for path in small_disk.iterdir()] == ["filler"]
        (small_disk / "filler").unlink()


@pytest.mark.parametrize("room", [0, 16_384, 262_144])
def test_a_migration_on_a_full_disk_is_refused_in_one_sentence(small_disk, room):
    """With room for nothing, for its beginning, or for most of it."""
    given = config.load({"DATA_DIR": str(small_disk)}, dotenv=None)
    fill(small_disk, room)
    with pytest.raises(instance.Refused, match="full|No space left"):
        backups.migrate(given)
    end_migration()
    (small_disk / "filler").unlink()
    assert backups.migrate(given).names == storage.list_migrations()
    end_migration()


def end_migration():
    storage.database.close_all()
    files.unlock_data_dir()


FLOOR, ROOM = trouble.DISK_FLOOR, trouble.DISK_ROOM


@pytest.mark.parametrize(
    ("free", "failed", "told"),
    [
        # Too little for any write, whatever the result of the last one.
        *((FLOOR - 1, failed, "disk_full") for failed in (None, "read_only")),
        (FLOOR, None, None),
        # A write failed, and there is hardly more room now.
        *((ROOM - 1, "disk_full", "disk_full"), (ROOM, "disk_full", None)),
        # Room doesn't fix other problems.
        (ROOM, "read_only", "read_only"),
    ],
)
def test_free_space_shows_whether_the_disk_is_full(service, monkeypatch, free, failed, told):
    monkeypatch.setattr(sqlite, "find_free", lambda folder: free)
    if failed:
        database.obj.writes.fail(failed)
    assert database.find_trouble() == told


def test_every_cause_of_a_failed_write_is_named(tmp_path):
    named = {
        **{"disk_full": apsw.FullError(), "read_only": apsw.ReadOnlyError()},
        **{"disk_error": apsw.IOError(), "locked": apsw.BusyError(), "unreachable": OSError()},
        "gone": trouble.Unusable("gone"),
    }
    assert named.keys() == trouble.TROUBLES.keys()
    for name, cause in named.items():
        error = OperationalError()
        error.__context__ = cause
        assert trouble.name_trouble(error, tmp_path) == name


# ---- DATA_DIR is gone or read-only ---------------------------------------------------------------
GONE = "the data folder was removed or replaced"


def replace_by_nothing(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def replace_by_copy(folder):
    shutil.copytree(folder, folder.with_name("copy"))
    shutil.rmtree(folder)
    folder.with_name("copy").rename(folder)


def remove_wal(folder):
    (folder / "app.db-wal").unlink()


@pytest.mark.parametrize("change", [shutil.rmtree, replace_by_nothing, replace_by_copy, remove_wal])
def test_nothing_is_acknowledged_unless_data_dir_contains_it(service, key, change):
    check_well(service, key)
    check_pages(service)
    change(service.config.data_dir)
    for _ in range(2):
        check_refused(service, key, GONE, down=True, ok=False)
    with service.get("/static/candor.css") as style:
        assert style.status_code == 200
    # No empty database replaces the missing one.
    assert service.config.database_path.exists() == (change in (replace_by_copy, remove_wal))


def test_an_instance_continues_when_its_folder_returns(service, key):
    folder, away = service.config.data_dir, service.config.data_dir.with_name("away")
    check_well(service, key)
    folder.rename(away)
    check_refused(service, key, GONE, down=True, ok=False)
    away.rename(folder)
    check_well(service, key)
    with contextlib.closing(apsw.Connection(str(service.config.database_path))) as other:
        assert other.execute("SELECT COUNT(*) FROM post").get == 2


def test_a_commit_into_a_removed_folder_is_refused(service):
    """Between the first statement and the commit."""
    service.make_bot()
    refused, write = pytest.raises(OperationalError, match=GONE), models.Owner.update(created_at=1)
    with refused, database.connection_context(), database.atomic():
        write.execute()
        shutil.rmtree(service.config.data_dir)
    with pytest.raises(OperationalError, match=GONE), database.connection_context():
        write.execute()


def test_a_read_only_folder_accepts_no_posts(service, key):
    """Open files could still be written, but new ones couldn't."""
    folder = service.config.data_dir
    check_well(service, key)
    mount(["--bind", folder, folder])
    try:
        mount(["-o", "remount,bind,ro", folder])
        check_refused(service, key, "the database or its disk is read-only", down=True)
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
    check_well(service, key)


# ---- a locked database ---------------------------------------------------------------------------
@contextlib.contextmanager
def locked(path):
    with contextlib.closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


def test_a_database_that_stays_locked_is_not_ok(service, key):
    database.obj.busy_ms = 50
    check_well(service, key)
    with locked(service.config.database_path):
        check_refused(service, key, "another program keeps the database locked")
        assert service.get("/api/v1/feed", key).status_code == 200
    check_well(service, key)


def test_a_lasting_lock_is_reported_even_without_writers(service, clock):
    assert database.find_trouble() is None
    with locked(service.config.database_path):
        # This could be an ordinary write by another process: not waiting for it is no failure.
        with pytest.raises(OperationalError), trouble.impatient():
            service.make_bot()
        assert database.find_trouble() is None
        clock[0] += LOCKED_SECONDS
        assert database.find_trouble() == "locked"
    assert database.find_trouble() is None


def test_hidden_text_a_reader_keeps_in_the_wal_is_reported_and_removed_later(
    service, key, clock, caplog
):
    database.obj.busy_ms = 50
    uid = service.post({"eventId": "a", "body": "gone with the wind"}, key).json["id"]
    path = service.config.database_path
    wal = path.with_name("app.db-wal")
    with contextlib.closing(apsw.Connection(str(path))) as reader:
        reader.execute("BEGIN")
        # Like a backup: this state stays readable during it.
        assert reader.execute("SELECT COUNT(*) FROM post").get == 1
        with database.connection_context():
            hide_post(uid, 1_793_880_000_000)
        assert b"gone with the wind" in wal.read_bytes()
        assert "erased text may remain in app.db-wal" in caplog.text
    clock[0] += sqlite.EMPTY_AGAIN_SECONDS
    service.post({"eventId": "b", "body": "another day"}, key)
    kept = wal.read_bytes() + path.read_bytes()
    assert b"gone with the wind" not in kept and b"another day" in kept


# ---- how long it is waited for -------------------------------------------------------------------
def test_a_writer_waits_until_its_requests_deadline(service, key):
    """Waiting for a slot counts: the server sets the end of the five seconds."""
    database.obj.busy_ms = 20_000
    with locked(service.config.database_path):
        began = time.monotonic()
        check_busy(post(service, key, environ_overrides={"candor.deadline": began + 0.2}))
        assert time.monotonic() - began < 10
    assert service.get("/api/v1/feed", key).json["data"] == []
    # An expired deadline refuses nothing unless it has to wait.
    assert post(service, key, environ_overrides={"candor.deadline": 0.0}).status_code == 201


def take_longest(count, act):
    """The seconds that the slowest of this many simultaneous calls needs."""
    start = threading.Barrier(count)

    def run(_):
        start.wait()
        began = time.monotonic()
        act()
        return time.monotonic() - began

    with ThreadPoolExecutor(count) as pool:
        return max(pool.map(run, range(count)))


def test_all_writes_of_a_request_share_one_deadline(service):
    """Whether another program has the lock, or another thread of this process."""
    database.obj.busy_ms = 20_000

    def fail_to_write():
        trouble.begin_deadline(time.monotonic() + 0.2)
        for _ in range(3):
            with pytest.raises(OperationalError):
                service.make_bot()
        trouble.end_deadline()

    with locked(service.config.database_path):
        assert take_longest(1, fail_to_write) < 5
    with database.connection_context(), database.atomic():
        assert take_longest(1, fail_to_write) < 5


def test_a_deadline_ends_with_its_request(service):
    seen = []
    service.app.before_request(lambda: seen.append(trouble.find_left(60)))
    service.get("/market")
    assert trouble.find_left(60) == 60 and 0 < seen[0] <= trouble.REQUEST_SECONDS


def test_one_deadline_covers_both_kinds_of_waiting(service):
    """A request behind a waiting writer of this process doesn't wait twice as long."""
    database.obj.busy_ms = 3_000

    def write():
        with pytest.raises(OperationalError):
            service.make_bot()

    with locked(service.config.database_path):
        # Together: 3 s. One after another, the second would need 6 s, because its turn comes when
        # its own time is nearly up. The margin is for a busy machine.
        assert take_longest(4, write) < 5.4


# ---- ratelimit.db is locked ----------------------------------------------------------------------
@ground.file_only
def test_a_locked_rate_limit_file_is_waited_for_once(service, key):
    """Pages are served uncounted, keyed requests are refused. Each used to wait two seconds."""
    assert service.get("/api/v1/feed", key).status_code == 200
    with locked(service.config.ratelimit_path):
        began = time.monotonic()
        for _ in range(4):
            check_pages(service)
        for answer in (service.get("/api/v1/feed", key), post(service, key)):
            check_busy(answer)
        assert get_health(service)[1] == (200, "degraded", False)
        # This used to take twenty-seven times two seconds.
        assert time.monotonic() - began < 12
    service.app.allowance.store.rest.until = 0.0
    assert post(service, key).status_code == 201


@ground.file_only
def test_requests_do_not_queue_for_a_locked_rate_limit_file(service):
    def ask():
        assert service.app.test_client().get("/market").status_code == 200

    ask()
    with locked(service.config.ratelimit_path):
        # The last of sixteen used to wait 32 seconds.
        assert take_longest(16, ask) < 8


def test_a_failed_store_is_retried_by_one_request_after_its_pause(clock):
    rest = counters.Rest(apsw.BusyError)

    def check_paused():
        with pytest.raises(apsw.BusyError):
            rest.check()

    rest.check()
    for is_retry in (False, True):
        with contextlib.suppress(apsw.BusyError), rest.trying():
            # Others don't wait for the response of the one that retries.
            if is_retry:
                check_paused()
            raise apsw.BusyError("locked")
        check_paused()
        clock[0] += counters.REST_SECONDS
    with rest.trying():
        check_paused()
    rest.check()


def test_health_requests_are_not_counted(serve):
    service = serve(ip_limit_per_minute=1)
    assert [service.get("/api/health").status_code for _ in range(3)] == [200] * 3


# ---- the log -------------------------------------------------------------------------------------
def count_lines(seconds, **more):
    """[(second, number dropped before it)] of the log lines for one error a second."""
    repeats, said = logs.Repeats(lambda: float(second)), []
    for second in range(seconds):
        line = logging.makeLogRecord({"levelno": logging.ERROR, "msg": "busy: disk full", **more})
        if repeats.filter(line):
            said.append((second, getattr(line, "repeated", 0)))
    return said


def test_a_repeated_error_is_counted_in_the_log_unless_it_has_a_request_id():
    # Hourly afterwards: at 3,780, 7,380, 10,980...
    told = count_lines(20_000, often=True)
    assert told[:4] == [(0, 0), (60, 59), (180, 119), (420, 239)] and len(told) < 13
    assert len(count_lines(5, shown={"requestId": "req_1"})) == 5
