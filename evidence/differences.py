"""Compare two JSON values member by member, and report an audit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

# Shown in place of a member that one side lacks.
NOTHING_SAID = "(not said)"
MAX_SHOWN = 300


class Difference(NamedTuple):
    """A claim that differs. `signature` is None if it isn't about one transaction."""

    signature: str | None
    field: str
    theirs: Any
    ours: Any


def compare(
    theirs: Any, ours: Any, place: str = "", signature: str | None = None
) -> Iterator[Difference]:
    """Yield each differing member by its path: `sums.results.winningSells`, `spans.1.hours`."""
    if is_same(theirs, ours):
        return
    one, other = _list_members(theirs), _list_members(ours)
    if one is None or other is None:
        yield Difference(signature, place, cut(theirs), cut(ours))
        return
    for name in sorted(one.keys() | other.keys()):
        members = [side.get(name, NOTHING_SAID) for side in (one, other)]
        yield from compare(members[0], members[1], f"{place}.{name:.60}".lstrip("."), signature)


def _list_members(value: Any) -> Mapping[str, Any] | None:
    """Objects in a list are numbered from 1."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Sequence) and value and all(isinstance(one, Mapping) for one in value):
        return {str(number): one for number, one in enumerate(value, 1)}
    return None


def is_same(one: Any, other: Any) -> bool:
    """1 differs from true, and the order of members doesn't matter."""
    if type(one) is type(other) and isinstance(one, str | int):
        return bool(one == other)
    try:
        texts = [orjson.dumps(value, option=orjson.OPT_SORT_KEYS) for value in (one, other)]
    except TypeError:
        return False
    return texts[0] == texts[1]


def cut(value: Any) -> Any:
    """Shorten a value for printing, because an instance may send long values."""
    text = orjson.dumps(value).decode()
    return value if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


# ---- a report ------------------------------------------------------------------------------------
# Differences listed for each bot. Further ones are only counted.
MAX_NAMED = 1_000
SAME, DIFFERENT, CANNOT_TELL = "same", "different", "cannot_tell"
# Who lacks something needed for the verdict.
NODE, INSTANCE, AUDITOR = "your node", "the instance", "this program"


@dataclass
class Report:
    """The result of a bot's audit.

    `unknown` are the reasons why it can't tell. `notes` are remarks about the verdict. `receipts`
    and `posts` are the numbers compared.
    """

    bot: str
    differences: list[Difference] = field(default_factory=list)
    count: int = 0
    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    receipts: int = 0
    posts: int = 0

    @property
    def verdict(self) -> str:
        if self.count:
            return DIFFERENT
        return CANNOT_TELL if self.unknown else SAME

    def cannot_tell(self, side: str, why: str, wallet: str | None = None) -> None:
        """Record which side (NODE, INSTANCE or AUDITOR) lacks something."""
        about = f"{wallet}: " if wallet else ""
        self.unknown.append(f"{side}: {about}{why}")

    def add(self, found: Iterable[Difference]) -> None:
        for one in found:
            self.count += 1
            if len(self.differences) < MAX_NAMED:
                self.differences.append(one)
