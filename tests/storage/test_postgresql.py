"""One database for several machines: one writer, locks that end with their session, jobs in one
place, shared wallets, and recovery.
"""

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import ground
import orjson
import peewee
import pytest
import requests
from events import Connection
from peewee import OperationalError
from service import NOW
from test_worker import Server

import config
import jobs
import storage
from accounts import influencers
from market.tables import Token
from models import Arrival, Job
from operate import backups, doctor, instance
from storage import database, store_arrival, trouble

pytestmark = ground.postgresql_only
ROOT = Path(__file__).resolve().parents[2]
NOWHERE = "postgresql://candor:canary@127.0.0.1:1/nothing"
ARRIVAL = "INSERT INTO arrival (kind) VALUES ('restore')"


@pytest.fixture
def other(settings, db):
    """Another machine's connection to the same database."""
    made = storage.make_database(settings)
    yield made
    made.close_all()


def start(*command, **environ):
    """Start a command of app.py; its messages are in its output."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    argv = [sys.executable, "app.py", *command]
    return subprocess.Popen(argv, cwd=ROOT, env={**os.environ, **environ}, **pipes)


def end_sessions(holding=None):
    """End every other session, or those with this lock; return their number."""
    sql = """SELECT COUNT(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()"""
    if holding is not None:
        sql += f""" AND pid IN (SELECT pid FROM pg_locks
            WHERE locktype = 'advisory' AND objid = {holding} AND granted)"""
    return database.execute_sql(sql).fetchone()[0]


# ---- the database --------------------------------------------------------------------------------
COLUMNS = """
SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"""


def test_text_compares_by_bytes(db):
    # Like most servers.
    assert db.execute_sql("SELECT 'a' < 'B' COLLATE \"en-x-icu\"").fetchone() == (True,)
    other = f"{COLUMNS} AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'"
    assert db.execute_sql(other).fetchall() == []
    for name in ("b", "B", "_", "Ä"):
        Token.create(mint=name)
    assert [*Token.select(Token.mint).order_by(Token.mint).scalars()] == ["B", "_", "b", "Ä"]


def test_integers_have_64_bits(db):
    narrow = "data_type IN ('integer', 'smallint') AND table_name <> 'schema_migration'"
    assert db.execute_sql(f"{COLUMNS} AND {narrow}").fetchall() == []
    Token.create(mint="m", asked_at=2**63 - 1)
    assert db.execute_sql("SELECT SUM(asked_at) * 2 FROM token").fetchone() == (2**64 - 2,)


def test_values_and_letters_are_distinguished(db):
    Token.create(mint="m", name="100 % ?", symbol="a\0b")
    sql = "SELECT name FROM token WHERE name LIKE '%%' AND mint = ?"
    assert db.execute_sql(sql, ("m",)).fetchone() == ("100 % ?",)
    assert db.execute_sql("SELECT COUNT(*) FROM token WHERE name LIKE '100 %'").fetchone() == (1,)
    sql = "SELECT COUNT(*) FROM token WHERE symbol = ?"
    assert db.execute_sql(sql, ("a\0b",)).fetchone() == (1,)
    assert Token.get().symbol == "a\N{REPLACEMENT CHARACTER}b"


def test_one_writer_at_a_time_and_ids_become_visible_in_order(db, other):
    """A process takes an ID without committing: all other writers wait, and readers don't."""
    insert = partial(store_arrival, "restore")
    update = partial(db.execute_sql, "UPDATE job SET state = 'ok' WHERE name = ?", ("x",))
    with other.connection_context(), other.atomic():
        taken = other.execute_sql(f"{ARRIVAL} RETURNING id")
        # Not waiting, as when a page updates `seen_at` during another process's ordinary write.
        with pytest.raises(OperationalError), trouble.impatient():
            update()
        assert database.find_trouble() is None
        ground.wait_no_longer(50)
        for write in (insert, Arrival.delete().execute, update):
            with pytest.raises(OperationalError) as refused:
                write()
            assert storage.is_busy(refused.value)
        assert Arrival.select().count() == 0 and not db.in_transaction()
        assert database.find_trouble() == "locked"
    insert()
    assert database.find_trouble() is None
    first, second = Arrival.select(Arrival.id).order_by(Arrival.id).scalars()
    assert taken.fetchone() == (first,) and first < second


def test_a_silent_writer_does_not_block_others_forever(other, monkeypatch):
    """It hangs or its machine vanished: the server ends its transaction."""
    monkeypatch.setattr("storage.postgresql.HUNG_MS", 300)
    other.connect()
    other.begin()
    began = time.monotonic()
    store_arrival("restore")
    assert time.monotonic() - began > 0.2
    with pytest.raises(peewee.PeeweeException) as refused:
        other.execute_sql(ARRIVAL)
    assert storage.is_busy(refused.value) and Arrival.select().count() == 1


def test_the_data_version_changes_with_every_commit(db):
    """Whatever begins or ends in between, and in savepoints with their own IDs."""
    # It counts commits of the whole server, where other tests may be running.
    assert any(db.data_version() == db.data_version() for _ in range(100))
    writers, seen = [db.open() for _ in range(3)], []
    for writer in writers:
        for sql in ("BEGIN", ARRIVAL, "SAVEPOINT s", ARRIVAL):
            writer.execute(sql)
        seen.append(db.data_version())
    for writer in (writers[1], writers[2], writers[0]):
        writer.execute("COMMIT")
        assert db.data_version() not in seen
        seen.append(db.data_version())
        writer.close()
    assert Arrival.select().count() == 6


# ---- away, and back again ------------------------------------------------------------------------
def test_sessions_ended_by_the_server_are_replaced(service, key):
    """Closed idle connections are detected before use, as after a restart."""
    assert service.post({"eventId": "a", "body": "b"}, key).status_code == 201
    database.close()
    with ground.speaking_to(service.config):
        assert end_sessions()
    answers = [service.post({"eventId": f"e{n}", "body": "b"}, key) for n in range(3)]
    assert [answer.status_code for answer in answers] == [201] * 3


def test_a_database_that_is_down_is_busy(service, key):
    post = {"eventId": "e", "body": "b"}
    with ground.speaking_to(ground.change(service.config, database_url=NOWHERE)):
        answers = [service.get("/api/v1/feed", key), service.post(post, key), service.get("/")]
        health = service.get("/api/health")
    assert [answer.status_code for answer in answers] == [503] * 3
    assert answers[0].json["code"] == "busy" and answers[0].headers["Retry-After"]
    assert (health.status_code, health.json["status"]) == (503, "down")
    assert not any("canary" in answer.text for answer in (*answers, health))
    assert service.post(post, key).status_code == 201


def test_commands_report_in_one_sentence_that_it_is_down(tmp_path):
    given = {"DATA_DIR": str(tmp_path), "DATABASE_URL": NOWHERE}
    for started in [start(command, **given) for command in ("migrate", "run", "doctor")]:
        said, _ = started.communicate(timeout=60)
        assert started.returncode == 1 and "DATABASE_URL" in said, said
        assert "Traceback" not in said and "canary" not in said, said


def test_health_metrics_and_doctor_name_the_engine(serve):
    service = serve(metrics="on")
    told, version = service.get("/api/health").json["database"], database.version()
    fine = {"ok": True, "writable": True, "problem": None, "journal": "wal"}
    assert told == {**fine, "postgresql": version} and version.startswith("15.")
    shown = service.get("/metrics").text
    assert f'candor_info{{postgresql="{version}",version="{config.VERSION}"}} 1.0' in shown
    assert 'candor_database_bytes{file="postgresql"}' in shown
    assert "PostgreSQL 15." in service.get("/status").text
    found = doctor.examine(service.config, int(time.time() * 1000))
    assert any(one.text.startswith("PostgreSQL 15.") for one in found)
    assert not any(one.level == "wrong" for one in found)


# ---- migrating -----------------------------------------------------------------------------------
def test_a_newer_schema_is_refused(settings, db):
    db.execute_sql("INSERT INTO schema_migration (name, applied) VALUES ('9999_later', now())")
    with pytest.raises(instance.Refused, match="9999_later"):
        backups.migrate(settings)


def test_a_user_who_may_not_create_tables_is_told_so(tmp_path):
    """Since PostgreSQL 15, only the schema's owner may."""
    given = config.load(ground.environ(tmp_path / "data", migrated=False), dotenv=None)
    name = f"plain_{os.getpid()}"
    url = given.database_url.replace(given.database_url.split("//")[1].split("@")[0], name)
    made = storage.make_database(given)
    with made.connection_context():
        made.execute_sql(f"CREATE ROLE {name} LOGIN")
        try:
            with pytest.raises(instance.Refused, match="permission denied for schema public"):
                backups.migrate(ground.change(given, database_url=url))
        finally:
            database.close_all()
            made.execute_sql(f"DROP ROLE {name}")
    made.close_all()


def test_a_session_shared_by_several_connections_is_refused(settings, db, monkeypatch):
    """As in PgBouncer's transaction pooling (`bench drill pooled` uses a real one)."""
    database, shared = storage.database.obj, storage.database.obj.open()
    database.check_sessions()
    monkeypatch.setattr(type(database), "open", lambda _: shared)
    with pytest.raises(backups.Refused, match="pool_mode = session"):
        backups._migrate_server(database)


def test_two_starts_migrate_once(tmp_path):
    url = ground.url_of(tmp_path / "new", migrated=False)
    given = {"DATA_DIR": str(tmp_path), "DATABASE_URL": url}
    starts = [start("migrate", "--json", **given) for _ in range(3)]
    said = [one.communicate(timeout=60)[0] for one in starts]
    assert not any(one.returncode for one in starts)
    assert sum('"applied": []' in one for one in said) == 2


def test_without_the_driver_the_setting_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "storage.postgresql")
    with pytest.raises(config.BadSetting, match=r"'\.\[postgres\]'"):
        storage.open_postgresql("postgresql://candor:canary@h/d")


# ---- several machines ----------------------------------------------------------------------------
@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """Two Servers that share the database, SECRET_KEY and LOG_KEY, each with an owner's bot."""
    folder, made = tmp_path_factory.mktemp("machines"), []
    shared = {**ground.environ(folder / "data"), "SECRET_KEY": "of both", "LOG_KEY": "0b" * 32}
    for name in ("one", "two"):
        (folder / name).mkdir()
        own = {"DATA_DIR": str(folder / name / "data")}
        made.append(Server(folder / name, **{**shared, **own}))
    one, two = made
    settings = ground.settings_of(folder / "data")
    with ground.opened(settings):
        one.bot = influencers.create_bot(settings, "One", NOW)
        two.bot = influencers.create_bot(settings, "Two", NOW, owner=one.bot.owner)
    yield made
    for machine in made:
        machine.stop()


def authorize(machine):
    return {"Authorization": f"Bearer {machine.bot.publish_key.text}"}


def publish(machine, number):
    """Publish a post on the machine; return its ID."""
    url = f"http://127.0.0.1:{machine.port}/api/v1/posts"
    post = {"eventId": f"e{number}", "body": f"word{number}"}
    answer = requests.post(url, json=post, headers=authorize(machine), timeout=60)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def read(machine, path):
    status, body = machine.get(f"/api/v1/{path}", **authorize(machine))
    assert status == 200
    return orjson.loads(body)


def test_writes_on_one_machine_are_visible_on_the_other_at_once(machines):
    """Whatever either has cached."""
    for number in range(30):
        writer, reader = machines[number % 2], machines[1 - number % 2]
        read(reader, "feed?limit=1")
        uid = publish(writer, number)
        assert read(reader, "feed?limit=1")["data"][0]["id"] == uid
        bot = writer.bot.bot.uid
        for path in ("/", f"/bots/{bot}"):
            assert f"word{number}<" in reader.get(path)[1].decode()
        assert read(reader, f"bots/{bot}")["feed"][0]["id"] == uid


def test_followers_of_two_writing_machines_miss_nothing(machines):
    """One reads streams and switches machines at every disconnect, one polls both in turn."""
    since = read(machines[0], "feed?limit=1")["newestCursor"]

    def write(machine):
        return [publish(machine, 100 + number) for number in range(100)]

    def stream():
        found, last_id, turns = [], since, itertools.cycle(machines)
        while len(found) < 200:
            machine = next(turns)
            line = Connection(machine.port, machine.bot.publish_key.text, last_id)
            events = itertools.islice(line.events, min(9, 200 - len(found)))
            found += [shown["id"] for _, shown in events]
            last_id = line.events.last_id
            line.cut()
        return found

    def poll():
        found, place, turns = [], since, itertools.cycle(machines)
        while len(found) < 200:
            page = read(next(turns), f"feed?since={place}&limit=7")
            found += [row["id"] for row in page["data"]]
            place = page["newestCursor"]
        return found

    with ThreadPoolExecutor() as pool:
        written = [pool.submit(write, machine) for machine in machines]
        streamed, polled = (each.result() for each in (pool.submit(stream), pool.submit(poll)))
    assert streamed == polled
    for published in (each.result() for each in written):
        assert [uid for uid in polled if uid in published] == published


# ---- locks ---------------------------------------------------------------------------------------
@pytest.fixture
def locks(db, other):
    """This machine's lock on the jobs, which it has, and another's."""
    mine, theirs = db.lock("jobs"), other.lock("jobs")
    assert mine.take() and not theirs.take()
    yield mine, theirs
    theirs.release()
    mine.release()


def test_a_lock_ends_with_its_session_and_guarded_writes_are_refused(db, locks):
    mine, theirs = locks
    with db.guarding(mine.check):
        jobs.note_job("a", "ok", 1)
        assert end_sessions(holding=2) == 1 and theirs.take()
        with pytest.raises(OperationalError):
            jobs.note_job("a", "failing", 2)
        with pytest.raises(OperationalError), storage.writing():
            raise AssertionError("it began to write")
    assert Job.get().state == "ok" and not db.in_transaction()
    # Unguarded, it may.
    jobs.note_job("a", "off", 3)


def test_a_lock_is_taken_only_after_its_last_holder_stopped_writing(db, locks):
    """A lost leader's pending writes end before the next one reads."""
    (mine, theirs), order = locks, []

    def follow():
        ground.until(theirs.take)
        order.append("taken")

    thread = threading.Thread(target=follow)
    with db.guarding(mine.check), storage.writing():
        thread.start()
        end_sessions(holding=2)
        time.sleep(0.3)
        order.append("written")
    thread.join(60)
    assert order == ["written", "taken"]


# ---- the jobs are in one place -------------------------------------------------------------------
class Crew:
    """Processes that run the jobs on one database, and note who leads and who writes in it."""

    def __init__(self, settings):
        self.settings, self.pids = settings, []

    def start(self):
        pid = os.fork()
        if pid:
            self.pids.append(pid)
            return
        try:
            storage.connect(self.settings)
            jobs.TAKEOVER_SECONDS = 0.05
            made = jobs.Jobs(self.settings)
            lead, made._lead = made._lead, lambda: (self._note("leads"), lead())
            made._list_jobs = lambda: [jobs.Work("job", 0.01, self._run_tick)]
            made.start()
            time.sleep(600)
        finally:
            os._exit(1)

    def _run_tick(self, now):
        for _ in range(20):
            self._note("writes")
            time.sleep(0.005)
        return None, "{}"

    def _note(self, what):
        with database.connection_context(), storage.writing():
            store_arrival(f"{os.getpid()} {what}")

    def read(self):
        """[(PID, what it did), ...]"""
        with ground.opened(self.settings):
            rows = Arrival.select(Arrival.kind).order_by(Arrival.id).scalars()
            return [(int(pid), what) for pid, what in map(str.split, rows)]

    def count_leads(self):
        return sum(what == "leads" for _, what in self.read())

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.pids.remove(pid)


@pytest.fixture
def crew(settings):
    made = Crew(settings)
    yield made
    for pid in list(made.pids):
        made.kill(pid)


def test_after_each_kill_or_lost_session_another_leads(crew):
    """Within five seconds, and no other one writes. (test_survival.py kills the observer.)"""
    dice = random.Random(20)
    for _ in range(3):
        crew.start()
    ground.until(crew.count_leads)
    for number in range(30):
        time.sleep(dice.uniform(0, 0.3))
        leads = crew.count_leads()
        if number % 3:
            crew.kill(crew.read()[-1][0])
            crew.start()
        else:
            with ground.opened(crew.settings):
                end_sessions(holding=2)
        ground.until(lambda before=leads: crew.count_leads() > before, 5)
    leader = None
    for pid, what in crew.read():
        leader = pid if what == "leads" else leader
        assert pid == leader
