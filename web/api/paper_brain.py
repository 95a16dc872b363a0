"""A paper trader's diary, and the lessons from its closes. All of it is simulated."""

from typing import Annotated, Any, Literal

from paper import brain, rules
from paper.account import Close, public_id
from storage.rows import Column, read
from web.api.serialize import fill, show_time
from web.api.shapes import Address, NotRequired, Simulation, Time, TypedDict, Whole, described

Json = dict[str, Any]
FACTS = Column(Json)
TIMES = ("until", "expiresAt")
PRIVATE = ("key", "evidence")


class AtCosts(TypedDict):
    """The results if every cost had been multiplied."""

    costs: Annotated[int, described("multiple of the costs")]
    meanReturnPct: float | None
    winRate: float | None


class Rates(TypedDict):
    """The win rate and mean return of eligible closes, each with a 95% interval (Student t over
    days). Null without closes. Lessons omit `maxDrawdownPct` and `atCosts`.
    """

    eligibleCloses: int
    clusters: Annotated[int, described("closes of one token entered within an hour count as one")]
    days: Annotated[int, described("UTC days on which clusters began")]
    sample: Annotated[
        Literal["none", "thin", "some", "enough"], described("sample size, by number of clusters")
    ]
    intervalReason: Annotated[str | None, described("reason if the intervals are null")]
    meanReturnPct: float | None
    meanReturnInterval: Annotated[list[float] | None, described("lower and upper bound")]
    winRate: float | None
    winRateInterval: Annotated[list[float] | None, described("lower and upper bound")]
    maxDrawdownPct: NotRequired[
        Annotated[float | None, described("largest drawdown of cumulative realized PnL")]
    ]
    atCosts: NotRequired[
        Annotated[list[AtCosts], described("the same closes at 1, 2 and 3 times the costs")]
    ]
    randomEntry: NotRequired[
        Annotated[
            "Rates",
            described(
                "for a lesson or family: positions of the same size and holding time, entered at"
                " random"
            ),
        ]
    ]
    accounts: NotRequired[Annotated[int, described("hidden accounts with random entries")]]
    returnPct: NotRequired[Annotated[float | None, described("mean return of these accounts")]]
    closes: NotRequired[
        Annotated[int, described("closes of these accounts, including those that don't count")]
    ]
    simulated: NotRequired[Annotated[bool, described("always true; omitted from lessons")]]


class DiaryLine(TypedDict):
    """A line of a trader's diary. A trader's detail omits the optional members."""

    id: str
    at: Time
    kind: Annotated[str, described("decision, fill, refusal, pause, lesson, review or phase")]
    mint: NotRequired[Address | None]
    symbol: NotRequired[Annotated[str | None, described("untrusted")]]
    text: str
    facts: NotRequired[
        Annotated[dict[str, object], described("the entry's values; their names depend on `kind`")]
    ]
    period: NotRequired[int]
    closeId: Annotated[str | None, described("ID of the closed position that the line is about")]
    simulated: Simulation


class Reviewed(TypedDict):
    """The totals of a trader's eligible closes. They are null if there aren't any."""

    closes: int
    eligibleCloses: int
    excluded: Annotated[dict[str, int], described("number of excluded closes, by reason")]
    wins: int | None
    netLamports: Whole | None
    simulated: Simulation


class Lesson(TypedDict):
    """A pattern in a trader's own closes, shown until it expires."""

    text: str
    n: Annotated[int, described("number of closes it is based on")]
    window: str
    createdAt: Time
    expiresAt: Time
    evidence: Rates
    simulated: Simulation
    closeIds: NotRequired[Annotated[list[str], described("lessons only, not patterns")]]


class Pause(TypedDict):
    """A rule that temporarily keeps a trader from entering positions."""

    rule: str
    effect: Annotated[str, described("pause_family, pause_mint, half_size or long_cooldown")]
    mint: Address | None
    applied: Annotated[bool, described("false if the rule is only observed")]
    n: int
    window: str
    text: str
    createdAt: Time
    expiresAt: Time
    simulated: Simulation


class Brain(TypedDict):
    """A trader's lessons and pauses (read-only)."""

    asOf: Time
    reviewed: Reviewed
    patterns: list[Lesson]
    pauses: list[Pause]
    lessons: list[Lesson]
    simulated: Simulation


# ---- statements ----------------------------------------------------------------------------------
# The number of the closed position that a diary line is about.
CLOSE_OF_LINE = """
(SELECT c.number FROM position c WHERE c.period_id = d.period_id AND c.closed_at IS NOT NULL
 AND c.number = (SELECT MAX(f.position) FROM paper_fill f JOIN paper_order o ON o.id = f.order_id
                 WHERE o.period_id = d.period_id AND o.number = d.order_number))"""
# `period` is its number. `closed` is the number of the closed position that the line is about.
LINE = f"""
SELECT d.id, d.at, d.kind, d.mint, d.facts, p.number AS period, {CLOSE_OF_LINE} AS closed
FROM diary_entry d JOIN period p ON p.id = d.period_id WHERE p.trader_id = ? AND p.twin = 0"""
DIARY = f"{LINE} AND d.id < ? ORDER BY d.id DESC LIMIT ?"
# The decisions at these times. {{}} are their marks.
DECISIONS = f"{LINE} AND d.kind = 'decision' AND d.at IN ({{}}) ORDER BY d.id"
# Without lessons of accounts under review, or whose review was upheld: they come from its closes.
PAUSES_AND_LESSONS = """
SELECT d.id, d.at, d.kind, d.mint, d.facts, p.number AS period, NULL AS closed
FROM diary_entry d JOIN period p ON p.id = d.period_id
LEFT JOIN review r ON r.id = (SELECT MAX(id) FROM review WHERE period_id = p.id)
WHERE p.trader_id = ? AND p.twin = 0 AND d.kind IN ('pause', 'lesson') AND d.at >= ?
AND (d.kind = 'pause' OR r.state IS NULL OR r.state NOT IN ('under_review', 'upheld'))
ORDER BY d.id"""


# ---- JSON ----------------------------------------------------------------------------------------
def read_lines(sql: str, *values: Any) -> list[Any]:
    return read(sql, values, facts=FACTS)


def show_line(handle: str, row: Any) -> DiaryLine:
    return fill(
        DiaryLine,
        row,
        id=public_id(handle, "line", row.id),
        symbol=row.facts.get("symbol"),
        text=brain.format_line(row.kind, row.facts),
        facts=_show_facts(row.facts),
        closeId=find_close_id(handle, row.closed),
    )


def find_close_id(handle: str, number: int | None) -> str | None:
    return None if number is None else public_id(handle, "close", number)


def _show_facts(facts: Json) -> Json:
    return {
        name: show_time(value) if name in TIMES else value
        for name, value in facts.items()
        if name not in PRIVATE
    }


def show_brain(trader_id: int, closes: list[Close], control: list[Close], now: int) -> Brain:
    """`closes` are in order, oldest first. `control`: its twins' closes."""
    pauses, lessons = _list_notes(trader_id, now)
    ended = {note.facts.get("ends") for note in pauses}
    open_pauses = [note for note in pauses if note.facts.get("until", 0) > now]
    # Patterns have the date of the newest close, because they change with closes, not with the
    # clock.
    newest = closes[-1].closed_at if closes else 0
    shown = [note for note in lessons if note.facts.get("expiresAt", 0) > now]
    in_force = {note.facts.get("key") for note in shown}
    patterns = [
        _show_pattern(one)
        for one in brain.find_lessons(closes, newest, control)
        if one.is_pattern and one.key not in in_force
    ]
    reviewed: Any = {**brain.review_results(closes), "simulated": True}
    return {
        "asOf": show_time(now),
        "reviewed": reviewed,
        "patterns": patterns,
        "pauses": [_show_pause(one) for one in open_pauses if one.facts["id"] not in ended],
        "lessons": list(map(_show_lesson, shown)),
        "simulated": True,
    }


def _list_notes(trader_id: int, now: int) -> tuple[list[Any], list[Any]]:
    found: dict[str, list[Any]] = {"pause": [], "lesson": []}
    for row in read_lines(PAUSES_AND_LESSONS, trader_id, now - rules.LOOK_BACK_MS):
        found[row.kind].append(row)
    return found["pause"], found["lesson"]


def _show_pattern(one: brain.Lesson) -> Lesson:
    shown = fill(Lesson, one, window=_count_days(one.window_ms))
    # Only a lesson names its closes.
    del shown["closeIds"]
    return shown


def _show_lesson(note: Any) -> Lesson:
    facts = note.facts
    return fill(
        Lesson,
        note,
        text=facts["text"],
        n=facts["n"],
        window=_count_days(facts["windowMs"]),
        createdAt=show_time(note.at),
        expiresAt=show_time(facts["expiresAt"]),
        evidence=facts.get("evidence"),
        closeIds=facts["closeIds"],
    )


def _count_days(window_ms: int) -> str:
    return f"{window_ms // rules.DAY_MS}d"


def _show_pause(note: Any) -> Pause:
    facts = note.facts
    return fill(
        Pause,
        note,
        rule=facts["rule"],
        effect=facts["effect"],
        applied=facts["what"] == "begun",
        n=facts["n"],
        window=f"{facts['windowMs'] // rules.HOUR_MS}h",
        text=brain.format_line("pause", facts),
        createdAt=show_time(note.at),
        expiresAt=show_time(facts["until"]),
    )
