"""Files that another program locks or removes while the server runs: its responses, and how fast
they are.
"""

import contextlib
import shutil
import subprocess
import threading
import time

import apsw
import ground
import pytest
from peewee import OperationalError
from service import Service

import models
from storage import counters, database, trouble

pytestmark = ground.sqlite_only
GONE = "the data folder was removed or replaced"
PAGES = ("/", "/market", "/leaderboard", "/status", "/feed.json", "/api/traders")


@contextlib.contextmanager
def lock(path):
    with contextlib.closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


def post(service, key, number, **more):
    return service.post({"eventId": f"e{number}", "body": "words"}, key, **more)


# ---- ratelimit.db is locked ----------------------------------------------------------------------
@ground.file_only
def test_a_locked_rate_limit_file_is_waited_for_once(service):
    """Pages are served uncounted, keyed requests are refused. Each used to wait two seconds."""
    key = service.make_bot().publish_key.text
    assert service.get("/api/v1/feed", key).status_code == 200
    with lock(service.config.ratelimit_path):
        began = time.monotonic()
        assert {service.get(path).status_code for path in PAGES * 4} == {200}
        for answer in (service.get("/api/v1/feed", key), post(service, key, 1)):
            assert (answer.status_code, answer.json["code"]) == (503, "busy")
            assert answer.headers["Retry-After"] == "2"
        health = service.get("/api/health")
        assert (health.status_code, health.json["allowanceOk"]) == (200, False)
        # This used to take twenty-seven times two seconds.
        assert time.monotonic() - began < 12
    service.app.allowance.store.rest.until = 0.0
    assert post(service, key, 1).status_code == 201


@ground.file_only
def test_requests_do_not_queue_for_a_locked_rate_limit_file(service):
    service.get("/market")
    took, start = [], threading.Barrier(16)

    def ask():
        start.wait()
        began = time.monotonic()
        assert service.app.test_client().get("/market").status_code == 200
        took.append(time.monotonic() - began)

    with lock(service.config.ratelimit_path):
        crew = [threading.Thread(target=ask) for _ in range(16)]
        [thread.start() for thread in crew], [thread.join() for thread in crew]
    # The last of sixteen used to wait 32 seconds.
    assert len(took) == 16 and max(took) < 8


def test_a_failed_store_is_retried_by_one_request_after_its_pause(monkeypatch):
    clock, tried = [100.0], []
    monkeypatch.setattr(counters.time, "monotonic", lambda: clock[0])
    rest = counters.Rest(apsw.BusyError)

    def use(fails):
        try:
            with rest.trying():
                tried.append(clock[0])
                if fails:
                    raise apsw.BusyError("locked")
        except apsw.BusyError:
            return "busy"
        return "counted"

    assert [use(False), use(True), use(False)] == ["counted", "busy", "busy"]
    clock[0] += counters.REST_SECONDS
    with contextlib.suppress(apsw.BusyError), rest.trying():
        # Others don't wait for the response.
        assert use(False) == "busy"
        raise apsw.BusyError("still locked")
    assert use(False) == "busy" and tried == [100.0, 100.0]
    clock[0] += counters.REST_SECONDS
    assert [use(False), use(False)] == ["counted", "counted"]


def test_health_requests_are_not_counted(tmp_path):
    service = Service(tmp_path / "data", ip_limit_per_minute=1)
    assert [service.get("/api/health").status_code for _ in range(3)] == [200] * 3
    service.close()


# ---- app.db is locked ----------------------------------------------------------------------------
def test_a_writer_waits_until_its_requests_deadline(service):
    """Waiting for a slot counts: the server sets the end of the five seconds."""
    key = service.make_bot().publish_key.text
    database.obj.busy_ms = 20_000
    with lock(service.config.database_path):
        began = time.monotonic()
        answer = service.client.post(
            "/api/v1/posts",
            json={"eventId": "e1", "body": "words"},
            headers={"Authorization": f"Bearer {key}"},
            environ_base={"candor.deadline": time.monotonic() + 0.2},
        )
        assert time.monotonic() - began < 10
        assert (answer.status_code, answer.json["code"]) == (503, "busy")
        assert "Retry-After" in answer.headers
        assert {service.get(path).status_code for path in PAGES} == {200}
    assert service.get("/api/v1/feed", key).json["data"] == []
    answer = post(service, key, 1, environ_overrides={"candor.deadline": 0.0})
    # An expired deadline refuses nothing unless it has to wait.
    assert answer.status_code == 201


def test_all_writes_of_a_request_share_one_deadline(service):
    database.obj.busy_ms = 20_000
    with lock(service.config.database_path):
        began = time.monotonic()
        trouble.begin_deadline(began + 0.2)
        try:
            for _ in range(3):
                with pytest.raises(OperationalError):
                    service.make_bot()
        finally:
            trouble.end_deadline()
        assert time.monotonic() - began < 10


def test_a_writer_queued_in_this_process_keeps_its_deadline(service):
    database.obj.busy_ms = 20_000
    with database.connection_context(), database.atomic():
        failed = []

        def write():
            trouble.begin_deadline(time.monotonic() + 0.2)
            try:
                service.make_bot()
            except OperationalError as error:
                failed.append(error)

        began, thread = time.monotonic(), threading.Thread(target=write)
        thread.start()
        thread.join(60)
        assert len(failed) == 1 and time.monotonic() - began < 10


def test_a_deadline_ends_with_its_request(service):
    seen = []
    service.app.before_request(lambda: seen.append(trouble.find_left(60)))
    service.get("/market")
    assert trouble.find_left(60) == 60 and 0 < seen[0] <= trouble.REQUEST_SECONDS


# ---- DATA_DIR is gone ----------------------------------------------------------------------------
def remove(folder):
    shutil.rmtree(folder)


def replace_by_nothing(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def replace_by_copy(folder):
    shutil.copytree(folder, folder.with_name("copy"))
    shutil.rmtree(folder)
    folder.with_name("copy").rename(folder)


def remove_wal(folder):
    (folder / "app.db-wal").unlink()


@pytest.mark.parametrize("change", [remove, replace_by_nothing, replace_by_copy, remove_wal])
def test_nothing_is_acknowledged_unless_data_dir_contains_it(service, change):
    key = service.make_bot().publish_key.text
    assert post(service, key, 1).status_code == 201
    assert {service.get(path).status_code for path in PAGES} == {200}
    change(service.config.data_dir)
    answers = [post(service, key, 2), post(service, key, 3)]
    assert [(one.status_code, one.json["code"]) for one in answers] == [(503, "busy")] * 2
    assert all(GONE in one.json["detail"] for one in answers)
    assert "Retry-After" in answers[0].headers
    health = service.get("/api/health")
    shown = health.json["database"]
    assert (health.status_code, health.json["status"]) == (503, "down")
    assert (shown["ok"], shown["writable"], shown["problem"]) == (False, False, GONE)
    assert str(service.config.data_dir) not in health.text + answers[0].text
    assert {service.get(path).status_code for path in PAGES} == {200}
    with service.get("/static/candor.css") as style:
        assert style.status_code == 200
    path = service.config.database_path
    # No empty database replaces the missing one.
    assert path.exists() == (change not in (remove, replace_by_nothing))


def test_an_instance_continues_when_its_folder_returns(service):
    folder, away = service.config.data_dir, service.config.data_dir.with_name("away")
    key = service.make_bot().publish_key.text
    assert post(service, key, 1).status_code == 201
    folder.rename(away)
    assert (post(service, key, 2).status_code, service.get("/api/health").status_code) == (503, 503)
    away.rename(folder)
    assert post(service, key, 3).status_code == 201
    health = service.get("/api/health")
    assert (health.status_code, health.json["status"]) == (200, "ok")
    with contextlib.closing(apsw.Connection(str(service.config.database_path))) as other:
        assert sorted(other.execute("SELECT event_id FROM post")) == [("e1",), ("e3",)]


def test_a_commit_into_a_removed_folder_is_refused(service):
    """Between the first statement and the commit."""
    service.make_bot()
    refused, write = pytest.raises(OperationalError, match=GONE), models.Owner.update(created_at=1)
    with refused, database.connection_context(), database.atomic():
        write.execute()
        shutil.rmtree(service.config.data_dir)
    with pytest.raises(OperationalError, match=GONE), database.connection_context():
        write.execute()


def test_a_read_only_folder_accepts_no_posts(service):
    """Open files could still be written, but new ones couldn't."""
    folder = service.config.data_dir
    key = service.make_bot().publish_key.text
    assert post(service, key, 1).status_code == 201
    for options in (["--bind", folder, folder], ["-o", "remount,bind,ro", folder]):
        if subprocess.run(["mount", *options], capture_output=True).returncode:
            pytest.skip("only root can make a folder read-only for root")
    try:
        answer, health = post(service, key, 2), service.get("/api/health")
        assert (answer.status_code, answer.json["code"]) == (503, "busy")
        assert "read-only" in answer.json["detail"]
        assert (health.status_code, health.json["status"]) == (503, "down")
        assert health.json["database"]["problem"] == "the database or its disk is read-only"
        assert {service.get(path).status_code for path in PAGES} == {200}
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
    assert post(service, key, 2).status_code == 201
    assert service.get("/api/health").json["status"] == "ok"
