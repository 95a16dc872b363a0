"""Store a witness's observations: one row per watched instance."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from evidence import log, witness
from evidence.notes import BadNote, Checkpoint, Signer, check_note, parse_checkpoint, parse_note
from evidence.tables import Witnessed
from market.failures import FetchError
from storage import tree, write_rows, writing

logger = logging.getLogger("candor.log")


class Outcome(NamedTuple):
    """The result of observing another instance's log: `verdict` is consistent | alarm |
    cannot_tell.
    """

    url: str
    verdict: str
    text: str


def observe_log(url: str, signer: Signer, now: int, get: witness.Fetch | None = None) -> Outcome:
    """Observe the log of the instance at `url`. If it continues the last checkpoint, store and
    cosign the new one. `now` in ms.
    """
    url = url.rstrip("/")
    row = Witnessed.get_or_none(Witnessed.url == url)
    seen = witness.Seen(row.key, row.note) if row else None
    try:
        found = witness.read_log(get or witness.make_fetch(url), seen)
    except witness.Alarm as alarm:
        _note_trouble(url, str(alarm), now)
        if alarm.seen is not None:
            _keep(url, seen, alarm.seen, signer, now)
        return Outcome(url, "alarm", str(alarm))
    except witness.CannotTell as reason:
        return Outcome(url, "cannot_tell", str(reason))
    _keep(url, seen, found.seen, signer, now)
    return Outcome(url, "consistent", describe(seen, found))


def describe(seen: witness.Seen | None, found: witness.Look) -> str:
    """Say what a log is consistent with; mention a renewed one."""
    told = f"{found.seen.checkpoint.size} leaves, consistent with "
    if seen is None:
        return f"{told}themselves; seen for the first time"
    before = f"the {seen.checkpoint.size} seen before"
    if not found.steps:
        return told + before
    why = ", ".join(step.why for step in reversed(found.steps))
    return (
        f"a NEW LOG ({why}) of {told}{before}: it names the old log, which still begins with them"
    )


def run_tick(urls: Sequence[str], signer: Signer, now: int) -> str | None:
    """Observe each of these instances, and what each saw of our log; return problems in a sentence,
    or None.
    """
    wrong = []
    for url in urls:
        get = witness.make_fetch(url)
        outcomes = (observe_log(url, signer, now, get), ask_about_us(url, signer, get))
        wrong += [f"{one.url}: {one.text}" for one in outcomes if one.verdict == "alarm"]
    for one in wrong:
        logger.error("log witness: %s", one)
    return "; ".join(wrong) or None


def ask_about_us(url: str, signer: Signer, get: witness.Fetch) -> Outcome:
    """Compare another instance's view of our log with the log. A checkpoint that we signed and no
    longer have means that this database isn't the one it saw.
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


def _keep(
    url: str, before: witness.Seen | None, found: witness.Seen, signer: Signer, now: int
) -> None:
    """Replace the checkpoint it was compared with, adding our cosignature; do nothing if another
    process replaced it first.
    """
    text = parse_note(found.note.encode()).text
    # Only the log's own line; other witnesses publish their cosignatures themselves.
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
    """Store a problem; it stays until the operator forgets the instance."""
    with writing():
        Witnessed.update(trouble=text, trouble_at=now).where(
            Witnessed.url == url, Witnessed.trouble.is_null() | (Witnessed.trouble != text)
        ).execute()


def forget(url: str) -> bool:
    """Forget an instance; return whether it was known."""
    with writing():
        return bool(Witnessed.delete().where(Witnessed.url == url.rstrip("/")).execute())
