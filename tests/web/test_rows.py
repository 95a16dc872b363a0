"""The columns of every API statement match its row type."""

import sys
import time
from collections import Counter
from typing import NamedTuple

import apsw
import apsw.ext
import ground
import pytest
from test_demo import chain, recording, show, staged  # noqa: F401  the demonstration, filled
from test_shapes import add_rare_things, list_answers

from accounts.keys import hash_secret
from storage import rows
from web.api import (
    bots,
    health,
    leaderboard,
    market,
    metrics,
    paper,
    paper_closes,
    posts,
    results,
    stream,
    trades,
    wallets,
)
from web.api.serialize import fill
from web.api.shapes import TypedDict
from web.server import gate

MODULES = (gate, bots, health, market, metrics, paper, paper_closes, results, leaderboard, wallets)
# Sort keys, pages, curves and totals are made of rows.
MADE_OF_ROWS = """
SortKey SortedRow Page Point History Order Post Arrived Filter Kind Risk SpanRow Compared Board
Told Totals
"""


def list_row_types():
    own = [(module.__name__, one) for module in MODULES for one in vars(module).values()]
    types = {one for name, one in own if isinstance(one, type) and one.__module__ == name}
    made = tuple(MADE_OF_ROWS.split())
    return {one for one in types if hasattr(one, "_fields") and not one.__name__.endswith(made)}


def spy_on_statements(monkeypatch):
    """[(row type, statement, values), ...] of all selects from now on."""
    asked = []

    def spying(select):
        def spy(row, sql, values=()):
            asked.append((row, sql, values))
            return select(row, sql, values)

        return spy

    for name in ("select", "select_one"):
        select = getattr(rows, name)
        for module in list(sys.modules.values()):
            if getattr(module, name, None) is select:
                monkeypatch.setattr(module, name, spying(select))
    return asked


def read_everything(show):  # noqa: F811
    key = show.keys.read_key
    bots = show.get("/api/v1/bots?limit=9", key).json["data"]
    traders = [one["id"] for one in show.get("/api/traders").json["data"]]
    mint = show.get("/api/v1/trades?limit=9", key).json["data"][0]["mint"]
    paths = ["/", "/leaderboard?window=7d", "/docs/requests/getPost", f"/tokens/{mint}"]
    paths += ["/market", "/status", "/traders", *(f"/traders/{trader}" for trader in traders)]
    for bot in bots:
        tabs = ("", "?tab=trades", "?tab=record", "?tab=copying")
        paths += [f"/bots/{bot['id']}{tab}" for tab in tabs]
    for trader in traders:
        closes = show.get(f"/api/traders/{trader}").json["closes"]
        paths += [f"/traders/{trader}/closes/{close['id']}" for close in closes]
    for path in paths:
        assert show.get(path).status_code == 200, path
    for _ in list_answers(show):
        pass
    with show.app.app_context(), show.database.connection_context():
        stream.read_events("secret", "http://here", 0, 10)
        list(metrics.Instance(show.config, time.time(), True, Counter(), 0).collect())
        gate.read_key(hash_secret(key))
        posts.read_posts_since(1, 0)
        trades.read_trades_since(1, 0)
        stream.find_coverages([1])


class Drawn(NamedTuple):
    """A row that a statement may return."""

    number: int
    text: str | None


@ground.sqlite_only
def test_row_types_match_their_statements(show, monkeypatch):  # noqa: F811
    add_rare_things(show, time.time_ns() // 1_000_000)
    asked = spy_on_statements(monkeypatch)
    read_everything(show)
    typed = [(row, sql, values) for row, sql, values in asked if hasattr(row, "_fields")]
    connection = apsw.Connection(str(show.config.database_path))
    for row, sql, values in typed:
        told = apsw.ext.query_info(connection, sql, bindings=tuple(values)).description
        columns = [column for column, _ in told]
        assert columns == list(row._fields), row.__name__
    connection.close()
    assert list_row_types() - {row for row, _, _ in typed} == set()


# ---- objects from rows ---------------------------------------------------------------------------
class Sold(TypedDict):
    id: str


def test_a_row_is_named_after_its_statements_first_table():
    """A warning about a damaged row names it."""
    sql = 'SELECT k.uid AS "key", MAX(x, (SELECT id FROM bot)) AS top FROM trade k JOIN bot b'
    assert rows.find_columns(sql) == ("trade", "key", "top")


def test_a_field_without_a_column_is_a_bug():
    with pytest.raises(TypeError, match="Drawn has no column for Sold.id"):
        fill(Sold, Drawn(1, None))
