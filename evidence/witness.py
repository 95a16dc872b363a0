"""Watch other instances' logs, and check that each still contains its previous checkpoint.

The last consistent checkpoint of each log is stored. An instance that can't be reached or sends an
unusable response isn't accused. An instance that signed a checkpoint that doesn't contain the
previous one is accused of a fork or a rollback.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

from evidence import log
from evidence.notes import (
    MAX_SIZE,
    BadNote,
    Checkpoint,
    Note,
    Signer,
    Verifier,
    check_note,
    decode,
    name_origin,
    parse_checkpoint,
    parse_note,
)
from evidence.tables import Witnessed
from market.failures import FetchError
from market.fetch import Limits, fetch, open_session
from storage import tree, write_rows, writing

# Per request.
LIMITS = Limits(connect_seconds=5, read_seconds=10, answer_seconds=20, max_bytes=2_000_000)
# In all, for one log at one URL.
MAX_REQUESTS, MAX_SECONDS = 64, 120.0
# Logs after the last one seen. Each references the one before it.
MAX_STEPS = 20
# Why a new log replaced the previous one.
REASONS = ("restore", "key", "operator")
# Fetches a path below `/log/` of the instance. Raises FetchError.
Fetch = Callable[[str], bytes]


class CannotTell(Exception):
    """There was no usable response. The text says why."""


class Alarm(Exception):
    """The log changed its past. It has a sentence for people, and what to store now."""

    def __init__(self, text: str, seen: "Seen | None" = None) -> None:
        super().__init__(text)
        self.seen = seen


class NewLog(Alarm):
    """The log isn't the one seen before, because of a restore or another key."""


class Seen(NamedTuple):
    key: str
    note: str

    @property
    def checkpoint(self) -> Checkpoint:
        return parse_checkpoint(parse_note(self.note.encode()).text)


class Look(NamedTuple):
    """A log's current checkpoint.

    For a new log, it includes what this log and its predecessors say about the logs before them,
    back to the last one seen.
    """

    seen: Seen
    steps: "list[Previous]"


def make_fetch(url: str) -> Fetch:
    """Return a Fetch with limits on bytes, requests and time."""
    session, end, left = open_session(), time.monotonic() + MAX_SECONDS, [MAX_REQUESTS]

    def get(path: str) -> bytes:
        left[0] -= 1
        if left[0] < 0 or time.monotonic() > end:
            raise FetchError("exceeded the limit on requests or time")
        return fetch(session, "GET", f"{url.rstrip('/')}/log/{path}", LIMITS)

    return get


# ---- looking -------------------------------------------------------------------------------------
def read_log(get: Fetch, seen: Seen | None) -> Look:
    """Read the current checkpoint, and check that it continues `seen` (None at first).

    Raises Alarm for a fork or a rollback, and CannotTell if there is no usable response.
    """
    try:
        raw, key = get("checkpoint"), Verifier.parse(get("key").decode("ascii", "replace").strip())
        note = parse_note(raw)
        checkpoint = parse_checkpoint(note.text)
    except FetchError as error:
        raise CannotTell(f"it {error}") from None
    except BadNote as error:
        raise CannotTell(f"it didn't serve a valid checkpoint: {error}") from None
    now = Seen(str(key), raw.decode())
    same = seen is not None and seen.checkpoint.origin == checkpoint.origin
    _check_signature(note, checkpoint, Verifier.parse(seen.key) if seen and same else key)
    steps: list[Previous] = []
    try:
        if seen is None:
            _check_root(get, "", checkpoint)
        elif same:
            _check_growth(get, "", seen.checkpoint, checkpoint)
        else:
            steps = _follow(get, seen.checkpoint, checkpoint, now)
    except FetchError as error:
        raise CannotTell(f"it failed to serve its tiles: it {error}") from None
    return Look(now, steps)


def _check_signature(note: Note, checkpoint: Checkpoint, key: Verifier) -> None:
    try:
        if key.name != checkpoint.origin:
            raise BadNote("the key belongs to another log")
        check_note(note, key)
    except BadNote as error:
        raise Alarm(f"its checkpoint is not signed with the log's key: {error}") from None


def _read_tiles(get: Fetch, prefix: str, size: int) -> tree.ReadHash:
    def fetch_tile(level: int, number: int, width: int) -> list[bytes]:
        return tree.cut_tile(get(prefix + tree.write_path(level, number, width)), width)

    return tree.read_tiles(size, fetch_tile)


def _check_root(get: Fetch, prefix: str, checkpoint: Checkpoint) -> None:
    if _find_root(get, prefix, checkpoint.size) != checkpoint.root:
        raise Alarm("its tiles don't match the root it signed")


def _find_root(get: Fetch, prefix: str, size: int) -> bytes:
    try:
        return tree.find_root(_read_tiles(get, prefix, size), size)
    except tree.BadProof as error:
        raise Alarm(f"its tiles don't match its checkpoint: {error}") from None


def _check_growth(get: Fetch, prefix: str, old: Checkpoint, new: Checkpoint) -> None:
    if new.size < old.size:
        raise Alarm(f"ROLLBACK: it had {old.size} leaves and now has {new.size}")
    if new.size == old.size:
        if new.root != old.root:
            raise Alarm(f"FORK: two different signed roots for {old.size} leaves")
        return
    try:
        path = tree.prove_consistency(_read_tiles(get, prefix, new.size), old.size, new.size)
        tree.check_consistency(old.size, old.root, new.size, new.root, path)
    except tree.BadProof as error:
        raise Alarm(
            f"FORK: its {new.size} leaves don't begin with the {old.size} seen before ({error})"
        ) from None


# ---- a new log -----------------------------------------------------------------------------------
class Previous(NamedTuple):
    """What a log's first leaf says about the previous log.

    It contains the last checkpoint, why the log ended, and how many of its leaves were kept.
    """

    log: str
    size: int
    root: bytes
    kept: int
    why: str

    @property
    def origin(self) -> str:
        return name_origin(self.log)


def _follow(get: Fetch, old: Checkpoint, new: Checkpoint, now: Seen) -> list[Previous]:
    """Follow the first leaves of the new log and its predecessors back to the last log seen.

    Raises Alarm unless they lead there and nothing that was seen is lost. If a restore lost leaves,
    the Alarm has `seen`, so that the new log is watched from then on.
    """
    steps, prefix, one = list[Previous](), "", new
    while one.origin != old.origin:
        previous = _read_previous(get, prefix, one)
        if previous is None or len(steps) == MAX_STEPS:
            text = "NEW LOG: it serves another log, which doesn't continue the one seen before"
            raise NewLog(text)
        steps.append(previous)
        prefix = f"{previous.log}/"
        if previous.origin == old.origin and previous.kept < old.size:
            raise NewLog(_describe_loss(old, previous), now)
        one = Checkpoint(previous.origin, previous.kept, _find_root(get, prefix, previous.kept))
        is_last = previous.origin == old.origin and previous.size == old.size
        if is_last and previous.root != old.root:
            text = "the new log references a root of the old one that differs from the one seen"
            raise Alarm(f"FORK: {text}", now)
        if previous.kept == previous.size and one.root != previous.root:
            text = "the leaves of an earlier log don't match the root that the new log references"
            raise Alarm(f"FORK: {text}")
    # The kept part of the old log still starts with the leaves seen before.
    _check_growth(get, prefix, old, one)
    return steps


def _describe_loss(old: Checkpoint, previous: Previous) -> str:
    return (
        f"NEW LOG ({previous.why}): of the {old.size} old leaves seen so far, it kept"
        f" {previous.kept}; it says the old log had {previous.size}"
    )


def _read_previous(get: Fetch, prefix: str, one: Checkpoint) -> Previous | None:
    """Return None for the first log. Raises Alarm if the leaf is missing or invalid."""
    width = tree.find_width(one.size, 0, 0)
    try:
        leaf = tree.cut_bundle(get(prefix + tree.write_path("entries", 0, width)), width)[0]
        path = tree.prove_inclusion(_read_tiles(get, prefix, one.size), 0, one.size)
        if tree.follow_inclusion(tree.hash_leaf(leaf), 0, one.size, path) != one.root:
            raise tree.BadProof("the first leaf is not in the tree")
        return parse_previous(orjson.loads(leaf)["previous"])
    except (ValueError, KeyError, TypeError, IndexError):
        raise NewLog("NEW LOG: its first leaf can't be read") from None


def parse_previous(said: dict[str, Any] | None) -> Previous | None:
    """Parse the member `previous`. Raises ValueError, KeyError or TypeError.

    It is untrusted, so only our own words are shown.
    """
    if said is None:
        return None
    told = Previous(said["log"], said["size"], decode(said["root"]), said["kept"], said["why"])
    sizes = (told.size, told.kept)
    if not all(type(size) is int and 0 <= size <= MAX_SIZE for size in sizes):
        raise ValueError("not a number of leaves")
    if not isinstance(told.log, str) or told.why not in REASONS:
        raise ValueError("not a log, or not one of the documented reasons")
    return told


# ---- what was seen -------------------------------------------------------------------------------
logger = logging.getLogger("candor.log")


class Outcome(NamedTuple):
    """`verdict`: consistent | alarm | cannot_tell."""

    url: str
    verdict: str
    text: str


def observe_log(url: str, signer: Signer, now: int, get: Fetch | None = None) -> Outcome:
    """Store and cosign the new checkpoint if it continues the last one. `now`: ms."""
    url = url.rstrip("/")
    row = Witnessed.get_or_none(Witnessed.url == url)
    seen = Seen(row.key, row.note) if row else None
    try:
        found = read_log(get or make_fetch(url), seen)
    except Alarm as alarm:
        _note_trouble(url, str(alarm), now)
        if alarm.seen is not None:
            _keep(url, seen, alarm.seen, signer, now)
        return Outcome(url, "alarm", str(alarm))
    except CannotTell as reason:
        return Outcome(url, "cannot_tell", str(reason))
    _keep(url, seen, found.seen, signer, now)
    return Outcome(url, "consistent", describe(seen, found))


def describe(seen: Seen | None, found: Look) -> str:
    told = f"{found.seen.checkpoint.size} leaves, consistent with "
    if seen is None:
        return f"{told}themselves; seen for the first time"
    before = f"the {seen.checkpoint.size} seen before"
    if not found.steps:
        return told + before
    why = ", ".join(step.why for step in reversed(found.steps))
    return (
        f"a NEW LOG ({why}) of {told}{before}: it references the old log, which still begins"
        " with them"
    )


def run_tick(urls: Sequence[str], signer: Signer, now: int) -> str | None:
    """Observe each instance's log, and what it saw of ours. Return the problems as a sentence."""
    wrong = []
    for url in urls:
        get = make_fetch(url)
        outcomes = (observe_log(url, signer, now, get), ask_about_us(url, signer, get))
        wrong += [f"{one.url}: {one.text}" for one in outcomes if one.verdict == "alarm"]
    for one in wrong:
        logger.error("log witness: %s", one)
    return "; ".join(wrong) or None


def ask_about_us(url: str, signer: Signer, get: Fetch) -> Outcome:
    """Compare another instance's view of our log with the log itself.

    If it has a checkpoint that we signed but no longer have, this database isn't the one that it
    saw.
    """
    one = log.find_log()
    try:
        blocks = get("witness").decode().split("\n\n")[1:]
    except (FetchError, UnicodeDecodeError):
        return Outcome(url, "cannot_tell", "it doesn't say what it has seen of this log")
    for text, lines in zip(blocks[::2], blocks[1::2], strict=False):
        if one and text.split("\n")[0] == one.origin:
            try:
                note = parse_note(f"{text}\n\n{lines.rstrip()}\n".encode())
                check_note(note, signer.verifier(one.origin))
                return _compare(url, one, parse_checkpoint(note.text))
            except BadNote as error:
                return Outcome(url, "cannot_tell", f"its record of this log can't be read: {error}")
    return Outcome(url, "cannot_tell", "it hasn't seen this log")


def _compare(url: str, one: log.LogRow, theirs: Checkpoint) -> Outcome:
    if theirs.size > one.size:
        text = f"it has seen {theirs.size} leaves of this log, which has {one.size}: ROLLBACK here"
        return Outcome(url, "alarm", text)
    root = tree.find_root(log.make_reader(one, theirs.size), theirs.size)
    if root != theirs.root:
        text = f"it has seen another root of {theirs.size} leaves of this log: FORK here"
        return Outcome(url, "alarm", text)
    return Outcome(url, "consistent", f"it has seen {theirs.size} leaves of this log")


def _keep(url: str, before: Seen | None, found: Seen, signer: Signer, now: int) -> None:
    """Store the checkpoint with our cosignature, unless another process replaced it."""
    text = parse_note(found.note.encode()).text
    # Other witnesses publish their cosignatures themselves.
    lines = found.note[len(text) + 1 :].splitlines(keepends=True)
    own = [line for line in lines if line.split(" ")[1] == found.checkpoint.origin][:2]
    note = f"{text}\n{''.join(own)}{signer.cosign(signer.witness_name, text, now // 1000)}"
    with writing():
        row = Witnessed.get_or_none(Witnessed.url == url)
        if (row and row.note) != (before and before.note):
            return
        values = {"url": url, "key": found.key, "note": note, "checked_at": now}
        write_rows(Witnessed, [values], ("url",))


def _note_trouble(url: str, text: str, now: int) -> None:
    """Store a problem. It stays until the operator forgets the instance."""
    with writing():
        Witnessed.update(trouble=text, trouble_at=now).where(
            Witnessed.url == url, Witnessed.trouble.is_null() | (Witnessed.trouble != text)
        ).execute()


def forget(url: str) -> bool:
    with writing():
        return bool(Witnessed.delete().where(Witnessed.url == url.rstrip("/")).execute())
