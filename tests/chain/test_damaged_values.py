"""Unreadable JSON text, in any column of any table, as after a disk fault: it shows as null with a
reason, or its row is left out. Every request still gets a response, and other data is unaffected.
"""

import time
from collections import defaultdict
from typing import Annotated, Any, NamedTuple

import ground
import orjson
import pytest
import sampling
from dearest import Reader
from peewee import TextField
from service import address
from test_demo import chain, recording, show, staged  # noqa: F401  the demonstration, filled
from test_shapes import add_rare_things

import models
from accounts.tables import Hook
from chain.stored.tables import CHANGES, LOTS, NAMES, WALLET_PARTS
from operate import schema
from paper.tables import Backtest
from storage import database, rows
from storage.rows import Column, Damaged, Part, Stored, Whole, make_shape, read_stored

# A demonstration is a file, whichever engine the tests use.
pytestmark = ground.sqlite_only
DAMAGES = ("{", "null", "[]", '"x"', "7", "{}")


# ---- how it is read ------------------------------------------------------------------------------
class Counted(Stored):
    n: int
    m: Whole | None


CHANGES, LOTS, NAMES = (one.shape for one in (CHANGES, LOTS, NAMES))
POSITIONS, RECONCILIATION, RESULTS = (
    WALLET_PARTS[one].shape for one in ("positions", "reconciliation", "results")
)
OBJECT, COUNTED, EACH = map(make_shape, (dict[str, Any], Counted, dict[str, Whole]))
DEEP = "[" * 5_000 + "]" * 5_000
INTACT = [
    (NAMES, '["a"]', ["a"]),
    (NAMES, "[]", []),
    (COUNTED, '{"n": 1, "m": null, "more": 2}', {"n": 1, "m": None, "more": 2}),
    (EACH, '{"a": "-7"}', {"a": "-7"}),
    (CHANGES, '[["a", "1", 2]]', [["a", "1", 2]]),
    (LOTS, '[[null, "5", null]]', [[None, "5", None]]),
]
DAMAGED = [
    *((NAMES, text) for text in (None, "", "[7]")),
    *((COUNTED, f'{{"n": {n}, "m": null}}') for n in ("true", "1.0", '"1"', "null")),
    (COUNTED, '{"m": null}'),
    *((EACH, text) for text in ("null", '{"a": "1.5"}', '{"a": "7\\n"}')),
    *((CHANGES, f"[{row}]") for row in ('["a", "1"]', '["a", "NaN", 2]', '["a", "1", 2.5]')),
    *((OBJECT, f'{{"a": {value}}}') for value in ("NaN", DEEP)),
    *((shape, text) for text in DAMAGES for shape in (RESULTS, RECONCILIATION)),
    *((POSITIONS, text) for text in DAMAGES if text != "[]"),
]


@pytest.mark.parametrize(
    ("shape", "text", "value"),
    INTACT + [(*one, None) for one in DAMAGED],
    ids=lambda one: one[:20] if isinstance(one, str) else None,
)
def test_values_are_read_if_they_are_intact(shape, text, value):
    assert read_stored(text, shape) == value


class Filed(NamedTuple):
    """A row with required and optional JSON columns."""

    number: int
    names: Annotated[list[str], Column(list[str])]
    counted: Annotated[dict[str, int], Part(dict[str, int])] | None


def test_damaged_rows_are_skipped_or_lack_a_part(db, caplog):
    stored = [(1, '["a"]', '{"b": 2}'), (2, "[7]", None), (3, "[]", "{"), (4, "[]", None)]
    sql = " UNION ALL ".join(
        "SELECT CAST(? AS BIGINT) AS number, CAST(? AS TEXT) AS names, CAST(? AS TEXT) AS counted"
        for _ in stored
    )
    values = [value for row in stored for value in row]
    found = rows.select(Filed, f"SELECT number, names, counted FROM ({sql}) AS s", values)
    assert [row.number for row in found] == [1, 3, 4]
    assert found[0] == (1, ["a"], {"b": 2}) and found[2] == (4, [], None)
    assert isinstance(found[1].counted, Damaged) and not found[1].counted
    assert [rows.is_damaged(row) for row in found] == [False, True, False]
    assert rows.select_one(Filed, "SELECT 2, '[7]', NULL") is None
    assert "names of Filed 2 can't be read" in caplog.text
    assert "counted of Filed 3 can't be read" in caplog.text


# ---- what is answered ----------------------------------------------------------------------------
def find_first(table, column="id"):
    return database.execute_sql(f"SELECT {column} FROM {table} ORDER BY id").fetchone()[0]


class Damage:
    """Damages the JSON columns of one bot, one paper trader, and shared rows."""

    def __init__(self):
        self.mine = {f"{table}_id": find_first(table) for table in ("wallet", "bot", "trader")}
        self.mine["owner_id"] = find_first("bot", "owner_id")
        self.columns = {one: self.find_rows(*one) for one in list_columns()}

    def find_rows(self, table, column):
        """[(rowid, text), ...] to damage in a column."""
        names = {one.name for one in database.get_columns(table)}
        own = [f"{name} = {one}" for name, one in self.mine.items() if name in names]
        if f"{table}_id" in self.mine:
            own = [f"id = {self.mine[f'{table}_id']}"]
        elif "period_id" in names:
            traders = f"SELECT id FROM period WHERE trader_id = {self.mine['trader_id']}"
            own.append(f"period_id IN ({traders})")
        sql = f"SELECT rowid, {column} FROM {table} WHERE {column} IS NOT NULL"
        mine = database.execute_sql(f"{sql} AND {own[0]}").fetchall() if own else ()
        # Otherwise one that is shared. Review reasons are rare, so use an account that has one.
        return mine or database.execute_sql(f"{sql} ORDER BY rowid LIMIT 1").fetchall()

    def write(self, one, text=None):
        """Write a text to all these rows of a column, or what was there."""
        table, column = one
        with database.connection_context(), database.atomic():
            for number, stored in self.columns[one]:
                values = text or stored, number
                database.execute_sql(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", values)


def list_columns():
    """[(table, column), ...] of text columns with JSON objects or lists."""
    tables, found = {one._meta.table_name: one for one in schema.TABLES}, []
    for table in sorted(tables.keys() & set(database.get_tables())):
        fields = [one for one in tables[table]._meta.sorted_fields if isinstance(one, TextField)]
        for name in [one.column_name for one in fields]:
            like_json = f"WHERE substr({name}, 1, 1) IN ('{{', '[') LIMIT 5"
            texts = database.execute_sql(f"SELECT {name} FROM {table} {like_json}").fetchall()
            if texts and all(is_json(text) for (text,) in texts):
                found.append((table, name))
    return found


def is_json(text):
    try:
        orjson.loads(text)
    except ValueError:
        return False
    return True


def add_what_owners_have(owner, now):
    """Add what a demonstration lacks: a hook and a backtest."""
    hook = {"kind": "discord", "url": "https://discord.com/api/webhooks/1/x", "delivered": 0}
    hook |= {"events": '["post"]', "bots": "[]", "state": "active"}
    Hook.create(uid="hook_x", owner=owner, **hook, created_at=now)
    asked = dict.fromkeys(("family", "set", "from", "to", "start"), "")
    report = {"kind": "backtest", "equity": [], "closes": [], "candidates": []}
    ended = {"state": "failed", "error": "it was interrupted"}
    texts = {"asked": write(asked), "result": write(report)}
    Backtest.create(uid="backtest_x", owner=owner, **texts, **ended, created_at=now)


def write(value):
    return orjson.dumps(value).decode()


@pytest.fixture
def asking(show):  # noqa: F811
    """(Damage, ask): `ask` requests every route and returns the faults in the responses."""
    now = time.time_ns() // 10**6
    add_rare_things(show, now)
    with database.connection_context():
        owner = models.Bot.select().order_by(models.Bot.id).first().owner
        add_what_owners_have(owner, now)
    # Which closes it afterwards.
    database.connect()
    reader = Reader(show.app)
    proof = {"text": "t", "bot": "b", "wallet": address("w"), "endsAt": 1, "action": "add"}
    with database.connection_context():
        models.Session.update(challenge=write(proof)).execute()
        damage, paths = Damage(), defaultdict(list)
        for one in reader.list_requests():
            paths[one.path.partition("?")[0]].append(one)
    # The plain request to each path and the last one; the next one too in full runs.
    first = 2 if sampling.FULL else 1
    asked = dict.fromkeys(one for of in paths.values() for one in (*of[:first], of[-1]))

    def ask(place=0, parts=1):
        """Every request, or those of one place in each `parts`."""
        reader.forget()
        some = list(asked)[place % parts :: parts]
        return {one.path: why for one in some if (why := find_fault(reader.ask(one)))}

    return damage, ask


def find_fault(answer):
    """The fault in a response, or None."""
    with answer:
        # Including streamed bodies.
        body = answer.get_data()
        if answer.status_code >= 500:
            return answer.status_code
        return None if answer.mimetype != "application/json" or is_json(body) else "no JSON"


def tell_others(show, damage):  # noqa: F811
    """The API's responses about everyone else."""
    with database.connection_context():
        bot = models.Bot.get_by_id(damage.mine["bot_id"]).uid
    bots, board, trades = (
        show.get(f"/api/v1/{name}?limit=100", show.keys.read_key).json["data"]
        for name in ("bots", "leaderboard", "trades")
    )
    return (
        [one for one in bots if one["id"] != bot],
        [{**one, "rank": None} for one in board if one["botId"] != bot],
        [one for one in trades if one["botId"] != bot],
    )


def test_a_damaged_column_breaks_no_response_and_no_other_rows(show, asking):  # noqa: F811
    damage, ask = asking
    assert len(damage.columns) >= 30 and ask() == {}
    right = tell_others(show, damage)
    assert len(right[0]) >= 5 and right[1] and right[2]
    # Some columns separately, and one in forty requests of each; everything in full runs.
    parts = 1 if sampling.FULL else 40
    for place, one in enumerate(sampling.sample(damage.columns, 12)):
        damage.write(one, DAMAGES[0])
        assert ask(place, parts) == {}, one
        assert tell_others(show, damage) == right, one
        damage.write(one)
    # All columns at once.
    for text in sampling.sample(DAMAGES[1:], 1):
        for one in damage.columns:
            damage.write(one, text)
        assert ask() == {}, text
        assert tell_others(show, damage) == right, text
