"""A disk that records writes, syncs and renames in a folder, in order, and computes what a power
cut at any moment may leave.

`with Recorder(folder) as tape:` records this process's writes there. It sees SQLite through a VFS,
and everything else through the functions of `os`: before each call it compares files with their
recorded state, so it can't miss a write. `tape.cut(step, keep, dice)` is the folder after a cut.
Only synced data is certain to survive: a file's bytes after a sync of the file, its name after a
sync of its folder.
"""

import functools
import hashlib
import itertools
import os
import random
import secrets
import threading
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import apsw

SECTOR = 512
JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
# Replaces a file's number.
FOLDER = -1
# Checkpoint after fewer pages, so that a short recording has some.
CHECKPOINT_PAGES = 60


class Write(NamedTuple):
    """Bytes written to a file."""

    file: int
    offset: int
    data: bytes


class Size(NamedTuple):
    """A file truncated to this many bytes."""

    file: int
    bytes: int


class Sync(NamedTuple):
    """A file's bytes reached the disk."""

    file: int


class Names(NamedTuple):
    """Names in a folder that now lead to other files; None: to none."""

    folder: str
    changes: tuple[tuple[str, int | None], ...]


class SyncFolder(NamedTuple):
    """A folder's names reached the disk."""

    folder: str


class Event(NamedTuple):
    """The program's report at this moment."""

    said: Any


class Disk:
    """Files by number, and their names relative to the folder."""

    def __init__(self, names=(), contents=()):
        self.names, self.contents = dict(names), dict(contents)

    def copy(self):
        # Bytes are shared until they are written to.
        return Disk(self.names, {file: bytes(data) for file, data in self.contents.items()})

    def apply(self, step):
        if isinstance(step, Names):
            for name, file in step.changes:
                self.names[name] = file
                if file is None:
                    del self.names[name]
        elif isinstance(step, Write):
            data = self._open(step.file)
            data.extend(bytes(max(0, step.offset - len(data))))
            data[step.offset : step.offset + len(step.data)] = step.data
        elif isinstance(step, Size):
            data = self._open(step.file)
            del data[step.bytes :]
            data.extend(bytes(step.bytes - len(data)))

    def _open(self, file):
        data = self.contents.get(file, b"")
        if not isinstance(data, bytearray):
            data = self.contents[file] = bytearray(data)
        return data

    def list_files(self):
        """[(name, bytes)...] of all reachable files."""
        for name, file in sorted(self.names.items()):
            above = {str(one) for one in Path(name).parents} - {"."}
            if file != FOLDER and all(self.names.get(one) == FOLDER for one in above):
                yield name, bytes(self.contents.get(file, b""))

    def write_to(self, folder):
        """Write everything into an empty folder that only this user can access."""
        folder.mkdir(mode=0o700)
        for name in sorted(name for name, file in self.names.items() if file == FOLDER):
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        written = {}
        for name, data in self.list_files():
            path, file = folder / name, self.names[name]
            if file in written:
                os.link(written[file], path)
                continue
            written[file] = path
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as opened:
                opened.write(data)

    def digest(self):
        said = hashlib.sha256()
        for name, data in self.list_files():
            said.update(f"{name} {len(data)} ".encode() + data)
        return said.digest()


# ---- what a disk may keep of what was not synced -------------------------------------------------
def tear(step):
    """The parts of a write that a disk writes in one step: sectors."""
    if not isinstance(step, Write) or not step.data:
        return [step]
    begin, end = step.offset, step.offset + len(step.data)
    marks = [begin, *range(begin - begin % SECTOR + SECTOR, end, SECTOR), end]
    return [
        Write(step.file, low, step.data[low - begin : high - begin])
        for low, high in itertools.pairwise(marks)
    ]


def keep_some(steps, dice):
    share = dice.choice((0.1, 0.5, 0.9))
    return [step for step in steps if dice.random() < share]


KEEPS = {
    "nothing": lambda steps, dice: [],
    "prefix": lambda steps, dice: steps[: dice.randint(0, len(steps))],
    "suffix": lambda steps, dice: steps[dice.randint(0, len(steps)) :],
    "subset": keep_some,
    "torn": lambda steps, dice: keep_some([part for step in steps for part in tear(step)], dice),
    "everything": lambda steps, dice: steps,
}


# ---- recording -----------------------------------------------------------------------------------
class Recorder:
    """Records a folder inside the block. Random bytes are drawn from `seed`, for
    reproducible runs.
    """

    def __init__(self, folder, seed=1):
        self.folder, self.steps, self.lock = Path(folder).resolve(), [], threading.RLock()
        self._dice, self._count = random.Random(seed), 0
        # Files that SQLite has written to. SQLite reports each write itself.
        self._told = set()
        self._now = Disk()
        self._look()
        self._now, self.steps = self._now.copy(), []
        self.begin = self._now.copy()

    def __enter__(self):
        self._vfs = Vfs(self)
        self._patches = [
            mock.patch.object(os, name, functools.partial(watch, self, getattr(os, name)))
            for name, watch in WATCHED.items()
        ]
        for module, name in ((os, "urandom"), (random, "_urandom")):
            self._patches.append(mock.patch.object(module, name, self._draw))
        for patch in self._patches:
            patch.start()
        # SQLite draws a new seed.
        apsw.randomness(0)
        apsw.connection_hooks.append(checkpoint_often)
        return self

    def __exit__(self, kind, *_):
        apsw.connection_hooks.remove(checkpoint_often)
        for patch in reversed(self._patches):
            patch.stop()
        self._vfs.unregister()
        apsw.randomness(0)
        self._look()
        if kind is None:
            self._compare()

    def tell(self, said):
        """Record the program's report."""
        with self.lock:
            self._look()
            self.steps.append(Event(said))

    def told(self, step):
        """Reports before this step."""
        return [one.said for one in self.steps[:step] if isinstance(one, Event)]

    def cut(self, step, keep, dice):
        """The disk after a power failure before this step. `keep`: a key of KEEPS."""
        done, sure, pending = self.steps[:step], [], []
        synced = {
            one[0]: place for place, one in enumerate(done) if isinstance(one, Sync | SyncFolder)
        }
        for place, one in enumerate(done):
            if isinstance(one, Write | Size | Names):
                (sure if place < synced.get(one[0], -1) else pending).append(one)
        disk = self.begin.copy()
        for one in (*sure, *KEEPS[keep](pending, dice)):
            disk.apply(one)
        return disk

    def find_turns(self):
        """Steps other than writes, by kind: few but decisive."""
        found = {}
        for place, step in enumerate(self.steps):
            if not isinstance(step, Write):
                found.setdefault(type(step).__name__, []).append(place)
        return found

    # ---- called while recording ------------------------------------------------------------------
    def add(self, step):
        self.steps.append(step)
        self._now.apply(step)

    def name(self, path):
        """The path's name in this folder, or None if it is elsewhere or in shared memory, which
        isn't on a disk.
        """
        whole = Path(os.path.abspath(path))
        if not whole.is_relative_to(self.folder) or whole.name.endswith("-shm"):
            return None
        return str(whole.relative_to(self.folder))

    def number(self, name):
        return self._now.names[name]

    def rename(self, *changes):
        """The last changed name determines the folder whose sync is required."""
        last, _ = changes[-1]
        self.add(Names(str(Path(last).parent), changes))

    def open(self, name):
        """SQLite opened a file and reports its writes from now on; return its number."""
        self._look()
        self._told.add(self.number(name))
        return self.number(name)

    def _look(self):
        """Record writes by other means than SQLite."""
        for path in sorted(self.folder.rglob("*")):
            name = self.name(path)
            if name is None:
                continue
            if name not in self._now.names:
                self._count += 1
                self.rename((name, FOLDER if path.is_dir() else self._count))
            file = self.number(name)
            if file != FOLDER and file not in self._told:
                self._update(file, path.read_bytes())

    def _update(self, file, data):
        if data != self._now.contents.get(file, b""):
            self.add(Size(file, 0))
            self.add(Write(file, 0, data))

    def _compare(self):
        """Check that nothing was missed: the recorded steps produce the current files."""
        for path in self.folder.rglob("*"):
            name = self.name(path)
            if name is not None and path.is_file():
                known = self._now.contents.get(self.number(name), b"")
                assert path.read_bytes() == known, f"{name} was written unseen"
        gone = [name for name in self._now.names if not (self.folder / name).exists()]
        assert not gone, f"{gone} went unseen"

    def _draw(self, count):
        with self.lock:
            return self._dice.randbytes(count)


def checkpoint_often(connection):
    connection.wal_autocheckpoint(CHECKPOINT_PAGES)


# ---- functions of os -----------------------------------------------------------------------------
def watch_fsync(tape, real, descriptor):
    with tape.lock:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        tape._look()
        real(descriptor)
        name = tape.name(path)
        if name is not None:
            tape.add(SyncFolder(name) if os.path.isdir(path) else Sync(tape.number(name)))


def watch_rename(tape, real, source, target, **more):
    with tape.lock:
        tape._look()
        real(source, target, **more)
        old, new = tape.name(source), tape.name(target)
        if old is not None:
            tape.rename((old, None), (new, tape.number(old)))


def watch_link(tape, real, source, target, **more):
    with tape.lock:
        tape._look()
        real(source, target, **more)
        tape.rename((tape.name(target), tape.number(tape.name(source))))


def watch_unlink(tape, real, path, *, dir_fd=None):
    with tape.lock:
        tape._look()
        real(path, dir_fd=dir_fd)
        # Like shutil.rmtree.
        above = "" if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
        name = tape.name(os.path.join(above, path))
        if name is not None:
            tape.rename((name, None))


WATCHED = {
    **dict.fromkeys(("fsync", "fdatasync"), watch_fsync),
    **dict.fromkeys(("rename", "replace"), watch_rename),
    **dict.fromkeys(("unlink", "remove", "rmdir"), watch_unlink),
    "link": watch_link,
}


# ---- SQLite --------------------------------------------------------------------------------------
class Vfs(apsw.VFS):
    """The default VFS of this process while it is registered."""

    def __init__(self, tape):
        self.tape = tape
        super().__init__(f"recorded-{secrets.token_hex(8)}", "unix", makedefault=True)

    def xOpen(self, path, flags):
        text = path if isinstance(path, str) or path is None else path.filename()
        if text is None or self.tape.name(text) is None:
            return super().xOpen(path, flags)
        with self.tape.lock:
            return File(self.tape, text, path, flags)

    def xDelete(self, path, sync):
        with self.tape.lock:
            super().xDelete(path, sync)
            name = self.tape.name(path)
            if name is not None:
                self.tape.rename((name, None))
            if name is not None and sync:
                self.tape.add(SyncFolder(str(Path(name).parent)))

    def xRandomness(self, count):
        return self.tape._draw(count)


class File(apsw.VFSFile):
    """A SQLite file in the recorded folder."""

    def __init__(self, tape, text, path, flags):
        super().__init__("unix", path, flags)
        self.tape, self.name = tape, tape.name(text)
        self.number = tape.open(self.name)
        wanted, _ = flags
        # SQLite syncs the folder with the first sync of such a file.
        self._is_new = bool(wanted & JOURNALS and wanted & apsw.SQLITE_OPEN_CREATE)

    def xWrite(self, data, offset):
        with self.tape.lock:
            super().xWrite(data, offset)
            self.tape.add(Write(self.number, offset, bytes(data)))

    def xTruncate(self, size):
        with self.tape.lock:
            super().xTruncate(size)
            self.tape.add(Size(self.number, size))

    def xLock(self, level):
        try:
            super().xLock(level)
        except apsw.IOError:
            # A reader's last connection tries this and fails. SQLite ignores that, but apsw
            # wouldn't.
            raise apsw.BusyError from None

    def xSync(self, flags):
        with self.tape.lock:
            super().xSync(flags)
            self.tape.add(Sync(self.number))
            if self._is_new:
                self._is_new = False
                self.tape.add(SyncFolder(str(Path(self.name).parent)))
