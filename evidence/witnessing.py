"""Keep what a witness saw, in the database: one row for each instance that is watched."""

from typing import NamedTuple

from evidence import witness
from evidence.notes import Signer, parse_note
from evidence.tables import Witnessed
from storage import writing


class Look(NamedTuple):
    """How a look at another instance's log ended: `verdict` is consistent | alarm | cannot_tell."""

    url: str
    verdict: str
    text: str


def look_at(url: str, signer: Signer, now: int, get: witness.Fetch | None = None) -> Look:
    """Look at the log of the instance at `url`; keep and cosign its checkpoint where it continues
    the last one. `now` in ms.
    """
    url = url.rstrip("/")
    row = Witnessed.get_or_none(Witnessed.url == url)
    seen = witness.Seen(row.key, row.note) if row else None
    try:
        found = witness.look(get or witness.make_fetch(url), seen)
    except witness.Alarm as alarm:
        _note_trouble(url, str(alarm), now)
        if alarm.seen is not None:
            _keep(url, seen, alarm.seen, signer, now)
        return Look(url, "alarm", str(alarm))
    except witness.CannotTell as reason:
        return Look(url, "cannot_tell", str(reason))
    size = found.checkpoint.size
    _keep(url, seen, found, signer, now)
    told = f"{size} leaves, consistent with " + (
        f"the {seen.checkpoint.size} seen before" if seen else "themselves; seen for the first time"
    )
    return Look(url, "consistent", told)


def _keep(
    url: str, before: witness.Seen | None, found: witness.Seen, signer: Signer, now: int
) -> None:
    """Store a checkpoint, with our cosignature, in the place of the one that it was compared with;
    nothing where somebody else replaced that meanwhile.
    """
    text = parse_note(found.note.encode()).text
    # The log's own line alone: what others cosigned is theirs to show.
    lines = found.note[len(text) + 1 :].splitlines(keepends=True)
    own = [line for line in lines if line.split(" ")[1] == found.checkpoint.origin][:2]
    note = f"{text}\n{''.join(own)}{signer.cosign(signer.witness_name, text, now // 1000)}"
    with writing():
        row = Witnessed.get_or_none(Witnessed.url == url)
        if (row and row.note) != (before and before.note):
            return
        if row:
            Witnessed.update(key=found.key, note=note, checked_at=now).where(
                Witnessed.url == url
            ).execute()
        else:
            Witnessed.create(url=url, key=found.key, note=note, checked_at=now)


def _note_trouble(url: str, text: str, now: int) -> None:
    """Store what was wrong; it stays until the operator forgets the instance."""
    with writing():
        Witnessed.update(trouble=text, trouble_at=now).where(
            Witnessed.url == url, Witnessed.trouble.is_null() | (Witnessed.trouble != text)
        ).execute()


def forget(url: str) -> bool:
    """Forget what was seen of an instance; return whether anything was."""
    with writing():
        return bool(Witnessed.delete().where(Witnessed.url == url.rstrip("/")).execute())
