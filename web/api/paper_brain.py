"""A paper trader's diary and the lessons from its closes, as JSON. All simulated."""

from collections.abc import Mapping
from typing import Any

from paper import brain, rules
from paper.account import Close, public_id
from storage.rows import select
from web.api.paper_statements import PAUSES_AND_LESSONS, DiaryRow
from web.api.serialize import show_time

Json = dict[str, Any]
TIMES = ("until", "expiresAt")
# Internal keys.
PRIVATE = ("key", "evidence")


def show_line(handle: str, row: DiaryRow) -> Json:
    facts = row.facts
    return {
        "id": public_id(handle, "line", row.id),
        "at": show_time(row.at),
        "kind": row.kind,
        "mint": row.mint,
        "symbol": facts.get("symbol"),
        "text": brain.format_line(row.kind, facts),
        "facts": _show_facts(facts),
        "period": row.period,
        "closeId": find_close_id(handle, row.closed),
        "simulated": True,
    }


def find_close_id(handle: str, number: int | None) -> str | None:
    return None if number is None else public_id(handle, "close", number)


def _show_facts(facts: Json) -> Json:
    return {
        name: show_time(value) if name in TIMES else value
        for name, value in facts.items()
        if name not in PRIVATE
    }


def show_brain(trader_id: int, closes: list[Close], control: list[Close], now: int) -> Json:
    """`closes`: oldest first; `control`: closes of its twins."""
    pauses, lessons = _list_notes(trader_id, now)
    ended = {note.facts.get("ends") for note in pauses}
    open_pauses = [note for note in pauses if note.facts.get("until", 0) > now]
    # Patterns are dated by the newest close: they change with closes, not with the clock.
    newest = closes[-1].closed_at if closes else 0
    shown = [note for note in lessons if note.facts.get("expiresAt", 0) > now]
    in_force = {note.facts.get("key") for note in shown}
    patterns = [
        _show_lesson(
            one.text,
            one.n,
            one.window_ms,
            one.created_at,
            one.expires_at,
            one.evidence,
        )
        for one in brain.find_lessons(closes, newest, control)
        if one.is_pattern and one.key not in in_force
    ]
    return {
        "asOf": show_time(now),
        "reviewed": {**brain.review_results(closes), "simulated": True},
        "patterns": patterns,
        "pauses": [_show_pause(one) for one in open_pauses if one.facts["id"] not in ended],
        "lessons": list(map(_show_noted_lesson, shown)),
        "simulated": True,
    }


def _list_notes(trader_id: int, now: int) -> tuple[list[DiaryRow], list[DiaryRow]]:
    found: dict[str, list[DiaryRow]] = {"pause": [], "lesson": []}
    for row in select(DiaryRow, PAUSES_AND_LESSONS, (trader_id, now - rules.LOOK_BACK_MS)):
        found[row.kind].append(row)
    return found["pause"], found["lesson"]


def _show_noted_lesson(note: DiaryRow) -> Json:
    facts = note.facts
    shown = _show_lesson(
        facts["text"],
        facts["n"],
        facts["windowMs"],
        note.at,
        facts["expiresAt"],
        facts.get("evidence"),
    )
    return {**shown, "closeIds": facts["closeIds"]}


def _show_lesson(
    text: str,
    n: int,
    window_ms: int,
    created_at: int,
    expires_at: int,
    evidence: Mapping[str, Any] | None,
) -> Json:
    return {
        "text": text,
        "n": n,
        "window": f"{window_ms // rules.DAY_MS}d",
        "createdAt": show_time(created_at),
        "expiresAt": show_time(expires_at),
        "evidence": evidence,
        "simulated": True,
    }


def _show_pause(note: DiaryRow) -> Json:
    facts = note.facts
    return {
        "rule": facts["rule"],
        "effect": facts["effect"],
        "mint": note.mint,
        "applied": facts["what"] == "begun",
        "n": facts["n"],
        "window": f"{facts['windowMs'] // rules.HOUR_MS}h",
        "text": brain.format_line("pause", facts),
        "createdAt": show_time(note.at),
        "expiresAt": show_time(facts["until"]),
        "simulated": True,
    }
