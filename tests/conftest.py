"""Shared fixtures: an empty migrated database, recorded receipts and the recorded history."""

import functools
import gc
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import ClassVar

import corpus
import engines
import ground
import hypothesis
import jinja2
import open_queries
import pytest
import requests
import sampling
import story
import werkzeug.routing
from node import Chain, FakeNode

import storage
from chain.rpc import Rpc
from web.server.application import Application

open_queries.watch()
# Regardless of the environment, so that some 300 child processes don't recompile modules.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
if not ground.SERVER:
    # See children/psycopg.py.
    os.environ["PYTHONPATH"] = str(Path(__file__).parent / "children")
# The time for an example or its creation depends on the machine's load.
hypothesis.settings.register_profile(
    "suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="everything that is sampled otherwise")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Two workers per processor, because a third of a run is waiting."""
    return 2 * (os.cpu_count() or 1)


class CompiledTemplates(jinja2.BytecodeCache):
    """Templates compiled once per process, because each test has its own application."""

    def __init__(self):
        self.kept = {}

    def load_bytecode(self, bucket):
        if bucket.key in self.kept:
            bucket.code = self.kept[bucket.key]

    def dump_bytecode(self, bucket):
        self.kept[bucket.key] = bucket.code


class SharedMap(werkzeug.routing.Map):
    """Compiles each set of URL rules once per process. Each application would need 40 ms for it."""

    compiled: ClassVar = {}

    def __init__(self, *args, **options):
        self.added = []
        super().__init__(*args, **options)

    def add(self, rulefactory):
        self.added.append(rulefactory)
        self._remap = True

    def update(self):
        if not self._remap:
            return
        key = (self.strict_slashes, self.merge_slashes, *map(_describe_rule, self.added))
        if key not in self.compiled:
            self.compiled[key] = werkzeug.routing.Map(
                self.added, strict_slashes=self.strict_slashes, merge_slashes=self.merge_slashes
            )
            self.compiled[key].update()
        self._matcher = self.compiled[key]._matcher
        self._rules_by_endpoint = self.compiled[key]._rules_by_endpoint
        self._remap = False


def _describe_rule(rule):
    return rule.rule, rule.endpoint, frozenset(rule.methods or ()), repr(rule.defaults)


Application.jinja_options = {"bytecode_cache": CompiledTemplates()}
Application.url_map_class = SharedMap
# Tests simulate power failures on their own disks, so none waits for this machine's disk.
os.fsync = lambda descriptor: None
DURABLE = storage.SQLite._add_conn_hooks


def _hurry(database, connection):
    DURABLE(database, connection)
    if connection.open_vfs == "unix":
        connection.execute("PRAGMA synchronous = OFF")


storage.SQLite._add_conn_hooks = _hurry


# Files that take 15 seconds or more, longest first, so that no worker starts one last.
LONG = (
    "browser demo worst openapi observer_trouble mcp stream audit inspection"
    " proxies survival observer standings lies cli hostile own_strategies"
    " gaps redis cuts backups ledger_store audit_lies faults simulation rows audit_log"
    " studio scout matrix papertrade worker make"
).split()


def pytest_configure(config):
    """Workers take files in collection order, not those with many tests first."""
    config.option.loadscopereorder = False
    sampling.FULL = config.option.full


def pytest_sessionstart(session):
    """Each worker first imports its share of the test files. In a fresh clone, each file is then
    compiled by one worker and not by all of them.
    """
    given = getattr(session.config, "workerinput", None)
    if given and session.config.args == session.config.getini("testpaths"):
        files = sorted(Path(__file__).parent.rglob("test_*.py"))
        for path in files[int(given["workerid"][2:]) :: given["workercount"]]:
            importlib.import_module(path.stem)


def pytest_collection_modifyitems(config, items):
    """Long files come first. On PostgreSQL, only tests that depend on the engine run."""
    if ground.SERVER:
        alike = [item for item in items if not engines.meets_engine(item)]
        config.hook.pytest_deselected(items=alike)
        items[:] = [item for item in items if engines.meets_engine(item)]
    places = {f"test_{name}": place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONG)))


def pytest_collection_finish():
    """Exclude modules and tests from garbage collection: that took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def full(request):
    """Whether sampling tests try everything."""
    return request.config.getoption("full")


@pytest.fixture(autouse=True)
def databases():
    """Drop a test's databases on the server."""
    before = ground.count()
    yield
    ground.give_back_since(before)
    # `app.py run` turns it off until it serves, and some tests stop it earlier or turn it off.
    gc.enable()


@pytest.fixture
def uncollected():
    """No garbage collection while JSON is parsed up to the recursion limit: finalizers would have
    no stack to run on.
    """
    gc.disable()


@pytest.fixture(autouse=True)
def network_alone(monkeypatch):
    """Fail on network requests inside a transaction or during an open query."""
    for kind, name in ((Rpc, "call"), (requests.Session, "send")):
        monkeypatch.setattr(kind, name, _refusing(getattr(kind, name)))


def _refusing(ask):
    @functools.wraps(ask)
    def checked(self, *args, **more):
        if storage.database.obj is not None:
            ground.check_idle(storage.database.obj, "a request")
        return ask(self, *args, **more)

    return checked


@pytest.fixture
def durable(monkeypatch):
    """Open this test's databases like a server's."""
    monkeypatch.setattr(storage.SQLite, "_add_conn_hooks", DURABLE)


@pytest.fixture
def settings(tmp_path):
    """A Config with the test's own folder and no jobs."""
    return ground.settings_of(tmp_path / "data")


@pytest.fixture
def db(settings):
    """An empty database with all migrations, bound to the models and open on this thread."""
    with ground.opened(settings) as database:
        yield database


@pytest.fixture(scope="session")
def chain():
    """Forty random transactions of ada, the same in every run. Don't change them."""
    return story.market()


@pytest.fixture(scope="module")
def truth(chain, tmp_path_factory):
    """Ada's ledger from an honest node, as bytes."""
    from lookout import Lookout

    settings = ground.settings_of(tmp_path_factory.mktemp("truth"))
    with ground.opened(settings):
        return Lookout.begin(settings, FakeNode(chain), wallets=[story.ADA]).settle().ledger()


@pytest.fixture
def look(settings, db):
    """look(*nodes or chains, wallets=[ada], **settings) -> Lookout over an emptied database"""
    from lookout import Lookout

    def make(*nodes, wallets=(story.ADA,), **changes):
        nodes = [FakeNode(node) if isinstance(node, Chain) else node for node in nodes]
        return Lookout.begin(settings, *nodes, wallets=wallets, **changes)

    return make


@pytest.fixture(scope="session")
def receipts(tmp_path_factory):
    """The folder of the recorded mainnet receipts: truth.csv, json/, mints/, providers/."""
    return corpus.unpack_receipts(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def recorded_rows(receipts):
    """[(row of truth.csv, its receipt as a node gave it), ...], one per recorded wallet."""
    found = []
    for row in corpus.read_truth(receipts):
        path = receipts / "json" / f"{row['signature']}.json"
        found.append((row, json.loads(path.read_text())))
    return found


@pytest.fixture(scope="session")
def history():
    """The recorded history: {"venue", "wallets", "transactions": [...], ...}."""
    return corpus.read_history()


@pytest.fixture(scope="session")
def expected():
    """Each wallet's results in the history, by the oracle that shares no code with us."""
    return corpus.read_expected()


@pytest.fixture
def standing_clock(monkeypatch):
    """Set the request clock to the middle of this minute: windows are aligned to the clock, and a
    test that uses one up could otherwise reach the next.
    """
    now = time.time_ns()
    middle = now - now % (60 * 10**9) + 30 * 10**9
    monkeypatch.setattr("time.time_ns", lambda: middle)


@pytest.fixture
def agreed_clock(monkeypatch):
    """Set the request clock to a minute after the tests' fixed time: with the real clock, test data
    would eventually leave a 30-day window.
    """
    from service import NOW

    monkeypatch.setattr("time.time_ns", lambda: (NOW + 60_000) * 10**6)


@pytest.fixture
def service(tmp_path):
    """The application with an empty database; limits don't interfere."""
    from service import Service

    made = Service(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def serve(tmp_path):
    """serve(**settings) -> an empty service, or one as `fill(settings)` filled it, closed at the
    end.
    """
    from service import Service

    made = []

    def make(fill=None, **settings):
        folder = tmp_path / f"service-{len(made)}"
        if fill:
            ground.copy_filled(ground.settings_of(folder), fill)
        made.append(Service(folder, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def bot(service):
    """A NewBot of the application, with a wallet."""
    from service import address

    return service.make_bot("Ada", address("w"))


@pytest.fixture
def key(bot):
    """The bot's publishing key."""
    return bot.publish_key.text


@pytest.fixture
def get(service, key):
    """get("feed?limit=1") -> the response of /api/v1/feed?limit=1 to the bot's key."""
    return lambda path, **headers: service.get(f"/api/v1/{path}", key, headers=headers)


@pytest.fixture
def browser(service):
    """A browser for the application, with its own cookies."""
    from test_studio import Browser

    return Browser(service)


@pytest.fixture(scope="session")
def redis_server():
    """See redisserver.RedisServer; skipped if Redis is not installed."""
    from redisserver import RedisServer

    made = RedisServer()
    yield made
    made.client.close()
    made.stop()


@pytest.fixture(params=["file", "redis"])
def storage_url(request):
    """RATELIMIT_STORAGE_URL of each store in turn, with empty counters."""
    if request.param == "file":
        return ""
    server = request.getfixturevalue("redis_server")
    server.client.flushdb()
    return server.url


@pytest.fixture(scope="session")
def live(tmp_path_factory):
    """A running server with one bot, shared by tests of external clients; see live.Live."""
    from live import Live

    made = Live(tmp_path_factory.mktemp("live"))
    yield made
    made.stop()
