"""The most expensive response of each route costs the same with any amount of data, counted in
SQLite's steps and pages read, which don't depend on the machine's load.
"""

import re
import time
from functools import partial

import apsw
import ground
import pytest
from dearest import Reader
from dearest_posts import Sender, Undoing
from sampling import sample
from service import Service
from test_legacy import closed, said

from accounts import conduct, traders
from accounts.acts import store_act
from bench._seed import fill
from models import Post
from paper.tables import Period
from storage import database, writing
from storage.log import append_leaf
from web.api import trades
from web.site import exports, front

BOTS, ROWS, LISTED, LEAVES = 2, 1_500, 120, 300
# Steps of SQLite's virtual machine are counted in hundreds.
STEPS = 100
# Copies of each row before the first measurement, and again before the second.
FEW, MANY = 2, 9
# Allowed growth in the second measurement with four times the data: almost none in steps; in pages,
# one level per index.
MAX_GROWTH, SLACK = (1.15, 2.2), (60, 150)
# Requests about everything: a database copy, an owner's archive, a bot's evidence
# (web.server.application.Places limits their number, and the gate counts their pages).
WHOLE = {"admin.make_backup", "studio.export_account", "evidence.show_evidence"}
# Tables that grow over the years, and the columns that distinguish a copy (`n` times NEXT is above
# all IDs) from its row.
COPIED = {
    "trade": {"uid": "uid || '-' || n", "signature": "signature || n", "slot": "slot + n"},
    "trade_mint": {"trade_id": "trade_id + n * NEXT(trade)", "slot": "slot + n"},
    "sighting": {"signature": "signature || n", "slot": "slot + n"},
    "post": {"uid": "uid || '-' || n", "event_id": "event_id || '-' || n"},
    "arrival": {
        "trade_id": "trade_id + n * NEXT(trade)",
        "post_id": "post_id + n * NEXT(post)",
    },
    "admin_act": {},
    "diary_entry": {},
    "paper_post": {"uid": "uid || '-' || n", "entry_id": "entry_id + n * NEXT(diary_entry)"},
}


class Growing:
    """The current COPIED tables; each row is copied repeatedly."""

    def __init__(self):
        self.copies = 0
        self.highest = {
            name: database.execute_sql(f"SELECT MAX(id) FROM {name}").fetchone()[0]
            for name in COPIED
        }

    def grow(self, copies):
        """Add this many copies of each row, and leaves to the log."""
        with writing():
            for table, changes in COPIED.items():
                self._copy(table, changes, copies)
            for number in range(LEAVES * copies):
                append_leaf("digest", number)
        self.copies += copies

    def _copy(self, table, changes, copies):
        columns = [row[1] for row in database.execute_sql(f"PRAGMA table_info({table})")]
        told = {"id": f"id + n * NEXT({table})", **changes}
        chosen = ", ".join(told.get(name, f'"{name}"') for name in columns)
        chosen = re.sub(r"NEXT\((\w+)\)", lambda found: str(self.highest[found[1]]), chosen)
        numbers = ", ".join(f"({self.copies + n})" for n in range(1, copies + 1))
        database.execute_sql(
            f"WITH copies (n) AS (VALUES {numbers}) INSERT INTO {table}"
            f" SELECT {chosen} FROM {table}, copies WHERE id <= ? ORDER BY n, id",
            (self.highest[table],),
        )


class Meter:
    """Counts the steps and pages of all connections from now on."""

    def __init__(self, monkeypatch):
        self.connections, self.steps = [], 0
        hooks = type(database.obj)._add_conn_hooks

        def open_watched(owner, connection):
            hooks(owner, connection)
            connection.set_progress_handler(self.note, STEPS)
            self.connections.append(connection)

        monkeypatch.setattr(type(database.obj), "_add_conn_hooks", open_watched)
        # Open or pooled connections were opened without it.
        database.close_all()

    def note(self):
        self.steps += 1
        return False

    def read(self):
        """Hundreds of steps so far, and pages."""
        kinds = (apsw.SQLITE_DBSTATUS_CACHE_HIT, apsw.SQLITE_DBSTATUS_CACHE_MISS)
        pages = sum(one.status(kind)[0] for one in self.connections for kind in kinds)
        return self.steps, pages


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A Reader for an instance with something of everything."""
    service = Service(tmp_path / "data")
    now = time.time_ns() // 10**6
    fill(service.config, ROWS, ROWS, BOTS)
    trader = traders.create_trader("Penny", "momentum", now).trader
    for number in range(LISTED):
        said(trader, number)
        store_act("login_link", "somebody", now)
    closed(trader, 1, 5)
    Period.update(next_position=2).execute()
    post = Post.select().order_by(Post.id.desc()).get()
    conduct.report_post(post.uid, "spam", "", now)
    # So that a little data reaches the limits.
    monkeypatch.setattr(trades, "MAX_LOOK_BACK", 60)
    monkeypatch.setattr(front, "MAX_RECENT", 20)
    monkeypatch.setattr(exports, "PAGE_SIZE", 100)
    yield Reader(service.app)
    service.close()


@ground.sqlite_only
def test_response_cost_does_not_grow_with_the_data(reader, monkeypatch, standing_clock):
    growing, meter = Growing(), Meter(monkeypatch)
    growing.grow(FEW)
    few = measure_asked(reader, meter)
    growing.grow(MANY)
    compare(few, measure_asked(reader, meter))


@ground.sqlite_only
def test_write_cost_does_not_grow_with_the_data(reader, monkeypatch, standing_clock):
    sender = Sender(reader, time.time_ns() // 10**6)
    growing, meter = Growing(), Meter(monkeypatch)
    growing.grow(FEW)
    few = measure_sent(sender, meter)
    growing.grow(MANY)
    compare(few, measure_sent(sender, meter))


def compare(few, many):
    """Check that the second measurement is at most slightly larger."""
    assert sum(steps for steps, _ in few.values()) > 0 < sum(pages for _, pages in few.values())
    worse = [
        f"{asked}: {before} and {after}"
        for (asked, before), after in zip(few.items(), many.values(), strict=True)
        for one, other, most, slack in zip(before, after, MAX_GROWTH, SLACK, strict=True)
        if other > one * most + slack
    ]
    assert not worse, "\n".join(worse)


def measure_asked(reader, meter):
    """Measure each GET. For paths with many queries, some are used."""
    by_path = {}
    for asked in reader.list_requests(WHOLE):
        by_path.setdefault(asked.path.partition("?")[0], []).append(asked)
    return {
        asked: measure(reader, meter, partial(reader.ask, asked))
        for same in by_path.values()
        for asked in sample(same, -(-len(same) // 6))
    }


def measure_sent(sender, meter):
    """Measure each POST, with the database restored before each."""
    undoing, found = Undoing(sender.app), {}
    for sent in sender.list_sent(WHOLE):
        meter.connections.clear()
        found[sent] = measure(sender.reader, meter, partial(sender.send, sent))
        undoing.undo()
    meter.connections.clear()
    return found


def measure(reader, meter, ask):
    """Measure a response; for streamed ones, the first three parts."""
    reader.forget()
    before = meter.read()
    response = ask()
    assert response.status_code < 500, response.request.path
    for _ in zip(range(3), response.response, strict=False):
        pass
    response.close()
    return tuple(after - then for after, then in zip(meter.read(), before, strict=True))
