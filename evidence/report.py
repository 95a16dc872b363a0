"""What an audit of a bot found."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from evidence.differences import Difference

# Differences of a bot that are named one by one; the others are counted.
MAX_NAMED = 1_000
SAME, DIFFERENT, CANNOT_TELL = "same", "different", "cannot_tell"
# The side that lacks what a verdict needs.
NODE, INSTANCE, AUDITOR = "your node", "the instance", "this program"


@dataclass
class Report:
    """What an audit of a bot found. `unknown`: why it cannot tell; `notes`: what a reader of the
    verdict should know; `receipts`, `posts`: how many were compared.
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
        """same | different | cannot_tell"""
        if self.count:
            return DIFFERENT
        return CANNOT_TELL if self.unknown else SAME

    def cannot_tell(self, side: str, why: str, wallet: str | None = None) -> None:
        """Note which side lacks what. `side`: NODE, INSTANCE or AUDITOR."""
        about = f"{wallet}: " if wallet else ""
        self.unknown.append(f"{side}: {about}{why}")

    def add(self, found: Iterable[Difference]) -> None:
        for one in found:
            self.count += 1
            if len(self.differences) < MAX_NAMED:
                self.differences.append(one)
