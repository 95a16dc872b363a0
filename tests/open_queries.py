"""Refuse a write while a query's rows are still unread.

In WAL mode such a query pins an old snapshot, and after anyone else's commit the write fails at
once, regardless of busy_timeout.
"""

import contextlib
import weakref

import apsw

from storage.sqlite import WRITES, SQLite


class OpenQuery(RuntimeError):
    """A query was left open before a write or a slow operation."""


is_watched = True
_cursor, _begin, _execute_sql = SQLite.cursor, SQLite.begin, SQLite.execute_sql


def watch():
    SQLite.cursor, SQLite.begin, SQLite.execute_sql = _open_cursor, _begin_watched, _execute_watched


def check_queries(database, what):
    """Raise OpenQuery if this thread has a query open before `what`."""
    for cursor in _list_cursors(database) if is_watched else ():
        with contextlib.suppress(
            apsw.ExecutionCompleteError, apsw.CursorClosedError, apsw.ConnectionClosedError
        ):
            cursor.get_description()
            raise OpenQuery(f"{what[:80]} while a query is open: {cursor.sql}")


def _list_cursors(database):
    return vars(database._mine).setdefault("cursors", weakref.WeakSet())


def _open_cursor(database, named_cursor=None):
    cursor = _cursor(database, named_cursor)
    _list_cursors(database).add(cursor)
    return cursor


def _begin_watched(database, lock_type=None):
    check_queries(database, "a transaction")
    _begin(database, lock_type)


def _execute_watched(database, sql, params=None):
    if WRITES.match(sql):
        check_queries(database, sql)
    return _execute_sql(database, sql, params)
