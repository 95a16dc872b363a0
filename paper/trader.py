"""One trader while it is played, and its journal of what the rounds bring about. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paper import guard
from paper.book import STARTING_CASH, Book, Close, Position
from paper.fills import Fill, Order
from paper.market import Token
from paper.strategies import Refusal, Strategy

# the same refusal is noted once in this time
REFUSAL_MS = guard.HOUR
# ... and this many different ones
MAX_REFUSALS = 10
# refusals that would be the same for any token
OF_THE_ACCOUNT = {
    "position_limit",
    "no_cash",
    "daily_loss",
}


@dataclass(frozen=True, slots=True)
class DiaryLine:
    """A line of the diary. kind: decision | fill | refusal | pause | lesson | review | phase."""

    kind: str
    at: int
    # what happened, as display texts; `what` is its sort
    facts: Mapping[str, Any]
    mint: str | None = None
    # number
    order: int | None = None


@dataclass(frozen=True, slots=True)
class Alarm:
    """A reason for a review. The same key (code and subject) never opens a second one."""

    key: str
    code: str
    detail: str
    at: int
    symbol: str | None = None


@dataclass
class Journal:
    """What the rounds since the last write brought about."""

    entries: list[DiaryLine] = field(default_factory=list)
    # by number, as they stand
    orders: dict[int, Order] = field(default_factory=dict)
    # each with the number of its position, None before there is one
    fills: list[tuple[Fill, int | None]] = field(default_factory=list)
    positions: dict[int, Position] = field(default_factory=dict)
    alarms: list[Alarm] = field(default_factory=list)


@dataclass
class Trader:
    """A trader with its account, its phase and what it remembers."""

    # the order of traders, and of their claims on a pool
    id: int
    handle: str
    strategy: Strategy
    book: Book
    # off | observe | on
    adaptive: str = "observe"
    phase: guard.Phase = field(default_factory=guard.Phase)
    # under review or upheld
    reviewed: bool = False
    starting_cash: int = STARTING_CASH
    # highest equity since the phase began
    peak: int = STARTING_CASH
    # UTC day of day_equity
    day: int = -1
    day_equity: int = STARTING_CASH
    # begun and not yet looked back on
    pauses: list[guard.Pause] = field(default_factory=list)
    # key -> expires_at
    lessons: dict[str, int] = field(default_factory=dict)
    # of the last two weeks, oldest first
    closes: list[Close] = field(default_factory=list)
    # by refusal_key: when it was last noted
    refused: dict[tuple[str, str | None], int] = field(default_factory=dict)
    # keys of all reasons for a review there ever were
    alarmed: set[str] = field(default_factory=set)
    # what the reasons of the open review are about, see topic_of
    asked: set[str] = field(default_factory=set)
    # mints that are left alone: something went wrong with them lately
    put_off: frozenset[str] = frozenset()
    journal: Journal = field(default_factory=Journal)

    @property
    def held(self) -> list[Position]:
        """The open positions of tokens that are not put off."""
        return [
            position
            for position in self.book.positions.values()
            if position.mint not in self.put_off
        ]

    def say(
        self, kind: str, at: int, mint: str | None = None, order: int | None = None, **facts: Any
    ) -> None:
        """Add a line to the diary."""
        self.journal.entries.append(DiaryLine(kind, at, facts, mint, order))

    def alarm(
        self,
        code: str,
        subject: object,
        detail: str,
        at: int,
        symbol: str | None = None,
        about: str | None = None,
    ) -> None:
        """Open a review, once for its subject; while one is open also once for what it is about.

        about: the position or order, where the subject is one of many moments of its trouble.
        """
        key = ":".join(str(part) for part in (code, about, subject) if part is not None)
        if key in self.alarmed or (
            about is not None and self.reviewed and topic_of(key) in self.asked
        ):
            return
        self.alarmed.add(key)
        self.asked.add(topic_of(key))
        self.reviewed = True
        self.journal.alarms.append(Alarm(key, code, detail, at, symbol))
        self.say("review", at, what="under_review", code=code, detail=detail, symbol=symbol)


def topic_of(key: str) -> str:
    """What a reason for a review is about: its key without the moment."""
    return key.rpartition(":")[0]


def refuse(trader: Trader, token: Token, refusal: Refusal, at: int) -> None:
    """Note a refusal in the diary: the same one once an hour, MAX_REFUSALS at most."""
    key = refusal_key(refusal.reason, token.mint)
    trader.refused = {key: when for key, when in trader.refused.items() if when > at - REFUSAL_MS}
    if key not in trader.refused and len(trader.refused) < MAX_REFUSALS:
        trader.refused[key] = at
        trader.say(
            "refusal",
            at,
            token.mint,
            reason=refusal.reason,
            detail=refusal.detail,
            symbol=token.symbol,
        )


def refusal_key(reason: str, mint: str | None) -> tuple[str, str | None]:
    return reason, None if reason in OF_THE_ACCOUNT else mint
