"""Scenarios on a disk with simulated power failures (disk.py), and what must be true afterwards.

A scenario prepares a folder, runs in it while a Recorder sees each write, and reports what was
acknowledged: a 201 response, a page, a backup's name. `judge` checks the remains of a cut: the
doctor finds nothing, everything acknowledged is there once, and the same run continues to its end.
"""

import atexit
import contextlib
import functools
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import apsw
import disk
import ground
import lookout
import orjson
import story
from node import FakeNode
from service import Service, hide_post

import config
import storage
from accounts import api_keys, hooks, influencers, posts, wallets
from accounts.tables import Hook
from evidence import log
from evidence.notes import Signer
from models import Attachment, Bot, Key, Post
from notify import client, outbox
from operate import backups, doctor, schema
from storage import files, tree
from web.site import facts

# Memory instead of a disk, if available.
FAST = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
NOW = 1_793_880_000_000
PRIVATE_URL = "http://127.0.0.1:9/hook"


class Cut(NamedTuple):
    """A cut of a recorded run: its number, the step it precedes, and the disk's state."""

    number: int
    step: int
    keep: str


def settings_of(folder):
    return ground.change(_load(), data_dir=folder / "data")


@functools.cache
def _load():
    """Shared settings, read once, because these folders contain none."""
    return config.load({"DATA_DIR": "/nowhere", "HOOKS_PRIVATE": "on"}, dotenv=None)


@contextlib.contextmanager
def opened(settings):
    """Bind the models to this instance inside; close it afterwards."""
    with storage.connect(settings).connection_context():
        yield
    leave()


def leave():
    storage.database.close_all()
    files.unlock_data_dir()


def examine(settings):
    """The doctor's `wrong` findings, including its deep check."""
    now = time.time_ns() // 1_000_000
    found = doctor.examine(settings, now, deep=True)
    return [f"doctor: {one.text}" for one in found if one.level == "wrong"]


# ---- what readers see ----------------------------------------------------------------------------
ARRIVALS = """
SELECT a.id, a.kind, p.uid, t.uid FROM arrival a
LEFT JOIN post p ON p.id = a.post_id LEFT JOIN trade t ON t.id = a.trade_id ORDER BY a.id"""


def tell_seen(tell):
    """Record what a follower has received and a witness has seen so far."""
    arrivals = storage.database.execute_sql(ARRIVALS).fetchall()
    one = log.find_log()
    if one is not None:
        tell(("arrivals", tuple(arrivals)))
        tell(("checkpoint", one.uid, one.size, log.make_checkpoint(one).root))


def check_seen(told):
    """Check that each arrival keeps its number and each tree begins the log."""
    said = {kind: rest for kind, *rest in told if kind in ("arrivals", "checkpoint")}
    if "arrivals" in said:
        (seen,) = said["arrivals"]
        now = storage.database.execute_sql(ARRIVALS).fetchall()
        if tuple(now[: len(seen)]) != seen:
            yield "a follower was told of arrivals that are gone"
    if "checkpoint" in said:
        uid, size, root = said["checkpoint"]
        one = log.find_log(uid)
        if one is None or one.size < size:
            yield "a witness saw more leaves than the log has"
        elif tree.find_root(log.make_reader(one, size), size) != root:
            yield "a witness saw another log"


# ---- scenarios -----------------------------------------------------------------------------------
class Scenario:
    """Call `prepare` once, `run` while recording and again after a cut, and `check` for the remains
    of a cut.
    """

    # A number of posts, or the available ones.
    size = 8

    def prepare(self, folder):
        """Create an empty instance with a bot: `self.bot` is its uid and `self.key` its publishing
        key.
        """
        settings = settings_of(folder)
        ground.copy_empty(settings)
        with opened(settings):
            made = influencers.create_bot(settings, "Ada", NOW)
            self.bot, self.key = made.bot.uid, made.publish_key.text
            self.fill(settings, made.bot)
        self.keep_keys(settings)

    def fill(self, settings, bot):
        """Additional initial data."""

    def keep_keys(self, settings):
        files.secret_key(settings), files.log_key(settings)

    def version(self):
        """Make this process the running version inside."""
        return contextlib.nullcontext()

    def run(self, folder, tell):
        raise NotImplementedError

    def check(self, folder, told):
        """Sentences about reported facts that aren't true."""
        with opened(settings_of(folder)):
            yield from check_seen(told)
            yield from self.look(told)

    def look(self, told):
        """Like `check`, with the database open."""
        return ()


def publish(bot, event, words="some words"):
    return posts.publish(bot.id, posts.PostBody(eventId=event, body=words), NOW).uid


def list_published():
    return Post.select(Post.event_id, Post.uid).order_by(Post.id).tuples()


class Posting(Scenario):
    """Posts over HTTP, with retries, across a tile border of the log."""

    def fill(self, settings, bot):
        storage.database.execute_sql("PRAGMA synchronous = OFF")
        for n in range(tree.TILE_WIDTH - 4):
            publish(bot, f"old-{n}")

    def run(self, folder, tell):
        service = Service(folder / "data")
        try:
            for n in range(self.size):
                self.post(service, n - n % 3 // 2, tell)
                with storage.database.connection_context():
                    tell_seen(tell)
        finally:
            service.close()
            files.unlock_data_dir()

    def post(self, service, number, tell):
        event = f"e-{number}"
        answer = service.post({"eventId": event, "body": "some words"}, self.key)
        assert answer.status_code in (200, 201), answer.text
        tell(("posted", event, answer.json["id"]))

    def look(self, told):
        there = list(list_published())
        for event, uid in {one[1:] for one in told if one[0] == "posted"}:
            if [number for name, number in there if name == event] != [uid]:
                yield f"{event} was acknowledged and is not there once"


class Hiding(Scenario):
    """Posts, some of which get hidden."""

    def fill(self, settings, bot):
        self.posts = {f"abracadabra{n}": publish(bot, f"old-{n}", f"abracadabra{n}") for n in "abc"}

    def run(self, folder, tell):
        with opened(settings_of(folder)):
            bot = influencers.find_bot(self.bot)
            for word, uid in self.posts.items():
                hide_post(uid, NOW)
                tell(("hidden", word, uid))
                publish(bot, f"e-{uid}")
                tell_seen(tell)

    def check(self, folder, told):
        hidden = [one[1:] for one in told if one[0] == "hidden"]
        # Before the database is opened, because that writes to its files.
        for word, _ in hidden:
            for path in folder.rglob("*"):
                if path.is_file() and word.encode() in path.read_bytes():
                    yield f"a word that was taken down stands in {path.name}"
        yield from super().check(folder, told)
        with opened(settings_of(folder)):
            for word, uid in hidden:
                if Post.get(Post.uid == uid).hidden_at is None:
                    yield f"{word} was taken down and is shown again"


class Attaching(Scenario):
    """A bot connects and disconnects wallets, changes keys, adds a hook, and retires."""

    def prepare(self, folder):
        super().prepare(folder)
        # Observations after each action, in order.
        self.states = []

    def acts(self, settings):
        bot = influencers.find_bot(self.bot)
        first, second = story.address("ada"), story.address("eve")
        return [
            lambda: wallets.attach_wallet(settings, bot, first, NOW),
            lambda: wallets.attach_wallet(settings, bot, first, NOW + 1, "proven"),
            lambda: wallets.attach_wallet(settings, bot, second, NOW + 2),
            lambda: wallets.detach_wallet(bot, NOW + 3),
            lambda: api_keys.create_key(bot.owner, "read", NOW + 4),
            lambda: api_keys.revoke_key(Key.get(Key.scope == "read").uid, NOW + 5),
            lambda: hooks.add_hook(settings, bot.owner, PRIVATE_URL, NOW, trusted=True),
            lambda: influencers.set_profile(bot, name="Ada the Second", now=NOW),
            lambda: influencers.retire_bot(bot, NOW + 6),
        ]

    def run(self, folder, tell):
        settings = settings_of(folder)
        with opened(settings):
            acts = self.acts(settings)
            state = self.read()
            begin = self.states.index(state) if state in self.states else 0
            self.states = self.states or [state]
            for place in range(begin, len(acts)):
                acts[place]()
                if place + 1 == len(self.states):
                    self.states.append(self.read())
                tell(("did", place + 1))
                tell_seen(tell)

    def read(self):
        held = Attachment.select(Attachment.ownership, Attachment.detached_at).tuples()
        keys = Key.select(Key.scope, Key.revoked_at).order_by(Key.id).tuples()
        bots = Bot.select(Bot.name, Bot.retired_at).tuples()
        return [list(rows) for rows in (held, keys, bots, Hook.select(Hook.state).tuples())]

    def look(self, told):
        done = max((one[1] for one in told if one[0] == "did"), default=0)
        if self.read() not in self.states[done : done + 2]:
            yield f"what act {done} changed is not there whole"


class Rebuilding(Scenario):
    """A wallet's transactions are observed; a post waits for one of them."""

    def prepare(self, folder):
        self.chain, settings = story.market(5, ("ada",), 16), settings_of(folder)
        ground.copy_empty(settings)
        with opened(settings):
            bot = lookout.watch(story.ADA).bot
            self.named = next(
                row.signature for row in self.chain.rows[4:] if row.receipt["meta"]["err"] is None
            )
            body = posts.PostBody(eventId="e-0", body="bought", signature=self.named)
            posts.publish(bot.id, body, lookout.BEGIN)
        self.keep_keys(settings)
        self.truth = None

    def run(self, folder, tell):
        settings = settings_of(folder)
        with opened(settings), mock.patch.object(ground, "hurry", lambda: None):
            seen = lookout.Lookout(settings, FakeNode(self.chain))
            for _ in range(5):
                seen.look()
                tell_seen(tell)
            tell(("ledger", seen.settle().ledger()))

    def look(self, told):
        for _, ledger in (one for one in told if one[0] == "ledger"):
            self.truth = self.truth or ledger
            if ledger != self.truth:
                yield "observing went on to another ledger"
        trades = [row for row in storage.database.execute_sql(ARRIVALS).fetchall() if row[-1]]
        told_of = [uid for _, kind, _, uid in trades if kind == "trade"]
        if len(set(told_of)) != len(told_of):
            yield "a trade arrived twice"


class Delivering(Scenario):
    """Events are sent to a hook; accepted events are reported."""

    def fill(self, settings, bot):
        hooks.add_hook(settings, bot.owner, PRIVATE_URL, NOW, trusted=True)
        self.events = [f"e-{n}" for n in range(self.size)]
        self.ids = {}
        for event in self.events:
            publish(bot, event)

    def run(self, folder, tell):
        settings = settings_of(folder)

        def send(message, private):
            event = orjson.loads(message.body)["data"]["eventId"]
            tell(("received", event, message.headers["webhook-id"]))
            return client.Answer(204, None)

        with opened(settings), mock.patch.object(outbox, "HOST_SECONDS", 0.0):
            made = outbox.Outbox(settings, lambda *a: facts.list_notices("http://x", *a), send)
            made._load()
            while not self.is_done():
                made._dispatch(NOW * 2)
                made._note(made._answers.get(timeout=60))
                # Without pauses, two may be answered in one millisecond, which a single one isn't.
                made._store(everything=True)

    def is_done(self):
        ((newest,),) = storage.database.execute_sql("SELECT MAX(id) FROM arrival").fetchall()
        return Hook.get().delivered >= newest

    def look(self, told):
        got = [one[1:] for one in told if one[0] == "received"]
        for event, number in got:
            if self.ids.setdefault(event, number) != number:
                yield f"{event} was sent again with another id"
        names = list(dict.fromkeys(event for event, _ in got))
        if names != self.events[: len(names)]:
            yield f"the receiver was told {names}"
        if self.is_done() and len(names) < len(self.events):
            yield "the hook counts as told and its receiver was not"


class Starting(Scenario):
    """The very first start, without a folder."""

    def prepare(self, folder):
        """Nothing."""

    def run(self, folder, tell):
        settings = settings_of(folder)
        backups.migrate(settings)
        with opened(settings):
            bot = Bot.get_or_none() or influencers.create_bot(settings, "Ada", NOW).bot
            tell(("started", bot.uid, *self.read(settings)))
            tell_seen(tell)

    def read(self, settings):
        one = log.find_log()
        signer = Signer(files.log_key(settings))
        return one.uid, one.key, str(signer.verifier(one.origin)), files.secret_key(settings)

    def check(self, folder, told):
        said = [one[1:] for one in told if one[0] == "started"]
        settings = settings_of(folder)
        if said and not settings.database_path.exists():
            yield "the instance is gone"
        elif said:
            with opened(settings):
                bot = Bot.get_or_none()
                if (bot and bot.uid, *self.read(settings)) != said[0]:
                    yield "a bot, or a key, is not what it was"
                yield from check_seen(told)


@functools.cache
def add_step():
    """The migrations folder with an invented second step."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    shutil.copytree(storage.MIGRATIONS, folder, dirs_exist_ok=True)
    step = "def up(migrator, db):\n    db.execute_sql('UPDATE post SET sanitized = TRUE')\n"
    (folder / "0002_more.py").write_text(step)
    return folder


class Migrating(Scenario):
    """The first start of a version with one more migration; a killed server left a WAL."""

    def prepare(self, folder):
        super().prepare(folder)
        leave_wal(settings_of(folder).database_path)

    def fill(self, settings, bot):
        for n in range(self.size):
            publish(bot, f"e-{n}")

    def version(self):
        return mock.patch.object(storage, "MIGRATIONS", add_step())

    def run(self, folder, tell):
        settings = settings_of(folder)
        kept = backups.migrate(settings).copy
        with opened(settings):
            tell(("migrated", kept and kept.name))
            tell_seen(tell)

    def check(self, folder, told):
        settings = settings_of(folder)
        yield from check_copies(settings.data_dir.glob("app.db*"), self.size)
        for _, name in (one for one in told if one[0] == "migrated"):
            if name and not (settings.data_dir / name).exists():
                yield f"{name} is gone"
            with opened(settings):
                if storage.list_applied(storage.database) != storage.list_migrations():
                    yield "a migration came undone"
                yield from check_seen(told)


def leave_wal(path):
    """Leave the database as a killed server does."""
    side = path.with_name("app.db-wal")
    with contextlib.closing(apsw.Connection(str(path))) as db:
        # A column that isn't in the log.
        db.execute("UPDATE owner SET created_at = created_at + 1")
        held = side.read_bytes()
    side.write_bytes(held)


def check_copies(paths, least):
    """Check that each named database file is complete and has at least this many posts."""
    for path in paths:
        if not path.name.endswith(("-wal", "-shm", "-journal", ".restored")):
            try:
                found = backups.check_database(path).posts
                if found < least:
                    yield f"{path.name} has {found} posts of {least}"
            except backups.Refused as refusal:
                yield str(refusal)


class BackingUp(Scenario):
    """Backups by the command and on the operator's page, between posts."""

    def fill(self, settings, bot):
        for n in range(self.size):
            publish(bot, f"old-{n}")

    def run(self, folder, tell):
        settings = settings_of(folder)
        with opened(settings):
            bot = influencers.find_bot(self.bot)
            for n in range(2):
                publish(bot, f"e-{n}")
                least = Post.select().count()
                backups.store_backup(settings, folder / "backup.db")
                tell(("stored", "backup.db", least))
                tell_seen(tell)
            name = backups.begin_backup(settings, time.time_ns() // 10**6, mock.Mock())
            while backups.is_at_work(settings):
                time.sleep(0.002)
            tell(("stored", f"data/backups/{name}", least))

    def check(self, folder, told):
        yield from check_copies([*folder.glob("*.db"), *folder.glob("data/backups/*.db")], 0)
        for _, name, least in (one for one in told if one[0] == "stored"):
            if not (folder / name).exists():
                yield f"{name} was made and is gone"
            else:
                yield from check_copies([folder / name], least)
        yield from super().check(folder, told)


class Restoring(Scenario):
    """A backup replaces a newer database, which is kept aside."""

    def fill(self, settings, bot):
        for n in range(self.size):
            publish(bot, f"old-{n}")
        backups.store_backup(settings, settings.data_dir.parent / "backup.db")
        publish(bot, "newest")

    def prepare(self, folder):
        super().prepare(folder)
        leave_wal(settings_of(folder).database_path)

    def run(self, folder, tell):
        settings, now = settings_of(folder), time.time_ns() // 10**6
        aside = backups.restore_backup(settings, folder / "backup.db", True, now).kept_aside
        tell(("restored", aside and aside.name))
        with opened(settings):
            tell_seen(tell)

    def check(self, folder, told):
        data = folder / "data"
        if not (data / "app.db").exists():
            yield "there is no database any more"
            return
        yield from check_copies([data / "app.db", *data.glob("app.db.replaced-*")], self.size)
        kept = [*data.glob("app.db.replaced-*.???Z"), data / "app.db"]
        if not any(has_newest(path) for path in kept):
            yield "what was replaced is not kept"
        for _, aside in (one for one in told if one[0] == "restored"):
            if has_newest(data / "app.db") or (aside and not (data / aside).exists()):
                yield "the restore came undone"
        with opened(settings_of(folder)):
            yield from check_seen(told)


def has_newest(path):
    with contextlib.closing(backups.open_reading(path)) as db:
        return bool(db.execute("SELECT 1 FROM post WHERE event_id = 'newest'").fetchall())


class Copying(Posting):
    """The file's side of a copy to PostgreSQL: a killed server left a WAL, which is read
    completely.
    """

    def fill(self, settings, bot):
        self.posts = [("posted", f"old-{n}", publish(bot, f"old-{n}")) for n in range(self.size)]

    def prepare(self, folder):
        super().prepare(folder)
        leave_wal(settings_of(folder).database_path)

    def run(self, folder, tell):
        server = mock.patch.object(storage, "open_postgresql", mock.MagicMock())
        with server, mock.patch.object(backups, "_move", self.read):
            backups.move(settings_of(folder), "postgresql://h/d")
        for one in self.posts:
            tell(one)

    def read(self, source, target):
        return [list(backups._list_rows(source, table)) for table in schema.TABLES]


SCENARIOS = {
    "posting": Posting,
    "hiding": Hiding,
    "attaching": Attaching,
    "rebuilding": Rebuilding,
    "delivering": Delivering,
    "starting": Starting,
    "migrating": Migrating,
    "backing-up": BackingUp,
    "restoring": Restoring,
    "copying": Copying,
}


# ---- recording and cutting -----------------------------------------------------------------------
class Trial:
    """A scenario, recorded once, and its cuts."""

    def __init__(self, name, seed=1):
        self.name, self.seed, self.scenario = name, seed, SCENARIOS[name]()
        # Verdicts by remains and reports: many cuts leave the same state.
        self._known = {}
        with folder_in_memory() as folder:
            self.scenario.prepare(folder)
            with disk.Recorder(folder, seed) as self.tape, self.scenario.version():
                self.scenario.run(folder, self.tape.tell)
        self.turns = self.tape.find_turns()

    def draw(self, number):
        """The cut with this number: every second one is at a step other than a write."""
        dice = random.Random(f"{self.seed} {self.name} {number}")
        step = dice.randint(0, len(self.tape.steps))
        if number % 2:
            step = dice.choice(self.turns[dice.choice(sorted(self.turns))]) + dice.randint(0, 1)
        return Cut(number, step, list(disk.KEEPS)[number // 2 % len(disk.KEEPS)])

    def left(self, cut):
        """The disk after a cut."""
        dice = random.Random(f"{self.seed} {self.name} {cut.number} kept")
        return self.tape.cut(cut.step, cut.keep, dice)

    def judge(self, cut, go_on=True):
        """Problems after a cut, in sentences. `go_on`: also after continuing."""
        left, told = self.left(cut), self.tape.told(cut.step)
        key = left.digest(), len(told), go_on
        if key not in self._known:
            with folder_in_memory() as folder, self.scenario.version():
                left.write_to(folder / "left")
                self._known[key] = list(self._find_wrong(folder / "left", told, go_on))
        return self._known[key]

    def _find_wrong(self, folder, told, go_on):
        try:
            yield from self._look(folder, told)
            if go_on:
                more = list(told)
                self.scenario.run(folder, more.append)
                yield from self._look(folder, more)
        except Exception as error:
            yield f"{type(error).__name__}: {error}"
        finally:
            leave()

    def _look(self, folder, told):
        # A copy of the remains, because the doctor opens files.
        yield from self.scenario.check(folder, told)
        if settings_of(folder).database_path.exists():
            yield from examine(settings_of(folder))

    @property
    def verdicts(self):
        """The number of different disks examined."""
        return len(self._known)


@contextlib.contextmanager
def folder_in_memory():
    folder = Path(tempfile.mkdtemp(dir=FAST))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
