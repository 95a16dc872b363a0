"""Time, chance, processes and kills, for one thread."""

import contextlib
import secrets
import shutil
import time
from unittest import mock

import apsw
from lookout import BEGIN
from node import FakeClock

import storage


class Violation(AssertionError):
    """An invariant is violated."""


def demand(holds, what):
    if not holds:
        raise Violation(what)


class Killed(BaseException):
    """The process ends here; no `except Exception` of the program catches it."""


class Clock(FakeClock):
    """The machine's monotonic clock, and its wall clock, which can be set."""

    def __init__(self, seconds):
        super().__init__()
        self.time = seconds
        # Seconds by which the wall clock was set.
        self.offset = 0

    def wall(self):
        return BEGIN / 1000 + self.time + self.offset

    def wall_ns(self):
        return 1_000_000 * self.now()

    def now(self):
        """Milliseconds since 1970, as the program sees them."""
        return BEGIN + int(1000 * (self.time + self.offset))


@contextlib.contextmanager
def ruled(clock, dice):
    """Inside, the program uses this clock and seeded random numbers."""
    with (
        mock.patch.multiple(
            time, time=clock.wall, time_ns=clock.wall_ns, monotonic=clock, sleep=clock.sleep
        ),
        mock.patch.multiple(
            secrets,
            token_bytes=lambda count=32: dice.randbytes(count),
            token_hex=lambda count=32: dice.randbytes(count).hex(),
        ),
    ):
        yield


@contextlib.contextmanager
def apart():
    """Inside, this thread acts like another one, with its own connection."""
    database = storage.database.obj
    kept = database._state
    database._state = type(kept)()
    try:
        yield
    finally:
        if not database.is_closed():
            database.close()
        database._state = kept


class Scythe:
    """Kills the process before one of its next commits completes, and copies its files."""

    def __init__(self, database_path, copy_path):
        self._path, self._copy, self._left = database_path, copy_path, 0
        apsw.connection_hooks.append(self._watch)

    def put_away(self):
        apsw.connection_hooks.remove(self._watch)

    def raise_up(self, commits):
        """Kill at the commit after this many; 0: never."""
        self._left = commits

    def restore(self):
        """Restore the database's files as the kill left them."""
        _copy_files(self._copy, self._path)

    def _watch(self, connection):
        if connection.filename == str(self._path):
            connection.set_commit_hook(self._commit)

    def _commit(self):
        self._left -= 1
        if not self._left:
            _copy_files(self._path, self._copy)
            raise Killed
        return False


def _copy_files(source, target):
    for suffix in ("", "-wal", "-shm"):
        old, new = source.with_name(source.name + suffix), target.with_name(target.name + suffix)
        new.unlink(missing_ok=True)
        # The journal's index isn't on disk; it is rebuilt.
        if old.exists() and suffix != "-shm":
            shutil.copyfile(old, new)
