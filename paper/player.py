"""Traders in memory, the journal of their rounds, and the faults of a pass. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from paper import rules
from paper.account import Account, Close, Position
from paper.fills import Fill, Order
from paper.market import Token
from paper.strategies import Refusal, Strategy

# ---- traders -------------------------------------------------------------------------------------
# The same refusal is noted once in this time.
REFUSAL_MS = rules.HOUR_MS
# Maximum number of different refusals noted per hour.
MAX_REFUSALS = 10
# Refusals that don't depend on the token.
ACCOUNT_REFUSALS = {"position_limit", "no_cash", "daily_loss"}


# The reason and the mint. The mint is None if the refusal doesn't depend on it.
RefusalKey = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class DiaryLine:
    """A line of the diary. `kind`: decision | fill | refusal | pause | lesson | review | phase."""

    kind: str
    at: int
    # Display texts by name. `what` is the subkind.
    facts: Mapping[str, Any]
    mint: str | None = None
    order_number: int | None = None


@dataclass(frozen=True, slots=True)
class ReviewReason:
    """A reason for a review. Only the first one with a key (code and subject) counts."""

    key: str
    code: str
    detail: str
    at: int
    symbol: str | None = None


# A fill or failed attempt, and its position's number; None if there is no position yet.
JournalFill = tuple[Fill, int | None]


@dataclass(frozen=True, slots=True)
class Leg:
    """A trader's sale: ms since its purchase, and its share of the position in basis points."""

    after_ms: int
    share: int
    reason: str


@dataclass(frozen=True, slots=True)
class Ticket:
    """A purchase that a twin may make, as large as a position that its trader opened."""

    position: int
    lamports: int
    due_at: int
    expires_at: int
    # The trader's sales that the twin hasn't made yet.
    legs: tuple[Leg, ...] = ()
    # What the twin ordered, and when.
    mint: str | None = None
    ordered_at: int = 0


@dataclass
class Journal:
    entries: list[DiaryLine] = field(default_factory=list)
    # Orders by number, in their latest state.
    orders: dict[int, Order] = field(default_factory=dict)
    fills: list[JournalFill] = field(default_factory=list)
    positions: dict[int, Position] = field(default_factory=dict)
    review_reasons: list[ReviewReason] = field(default_factory=list)
    # How many fills the twins have followed.
    followed: int = 0


@dataclass
class Player:
    # Decides the order of traders and their claims on a pool.
    id: int
    handle: str
    strategy: Strategy
    account: Account
    # off | observe | on
    adaptive: str = "observe"
    phase: rules.Phase = field(default_factory=rules.Phase)
    # Whether its account is under review, or a review was upheld.
    reviewed: bool = False
    # Pauses whose end wasn't noted yet.
    pauses: list[rules.Pause] = field(default_factory=list)
    # The last two weeks, oldest first.
    closes: list[Close] = field(default_factory=list)
    # When each was last noted, by refusal_key.
    refused: dict[RefusalKey, int] = field(default_factory=dict)
    # The keys of all reasons so far.
    review_keys: set[str] = field(default_factory=set)
    # The topics of the open review's reasons (topic_of).
    review_topics: set[str] = field(default_factory=set)
    # Mints that are suspended after an internal error.
    put_off: frozenset[str] = frozenset()
    journal: Journal = field(default_factory=Journal)
    twins: "list[Player]" = field(default_factory=list)
    # Twins only: tickets for purchases that it may still make or has open.
    tickets: list[Ticket] = field(default_factory=list)
    # If False, no operator decides its reviews, so a doubtful price excludes the position.
    reviewable: bool = True
    # Its paper.store.TraderRow, if it is stored.
    row: Any = None

    @property
    def held(self) -> list[Position]:
        return [
            position
            for position in self.account.positions.values()
            if position.mint not in self.put_off
        ]

    def add_line(
        self, kind: str, at: int, mint: str | None = None, order: int | None = None, **facts: Any
    ) -> None:
        self.journal.entries.append(DiaryLine(kind, at, facts, mint, order))

    def open_review(
        self,
        code: str,
        subject: object,
        detail: str,
        at: int,
        symbol: str | None = None,
        about: str | None = None,
    ) -> None:
        """Open a review, or add a reason to the open one, once.

        `subject` is the snapshot or order. `about`, the position or order, is for reasons that
        recur: an open review gets them only once.
        """
        key = ":".join(str(part) for part in (code, about, subject) if part is not None)
        if key in self.review_keys or (
            about is not None and self.reviewed and topic_of(key) in self.review_topics
        ):
            return
        self.review_keys.add(key)
        self.review_topics.add(topic_of(key))
        self.reviewed = True
        self.journal.review_reasons.append(ReviewReason(key, code, detail, at, symbol))
        self.add_line("review", at, what="under_review", code=code, detail=detail, symbol=symbol)


def topic_of(key: str) -> str:
    return key.rpartition(":")[0]


def refuse(trader: Player, token: Token, refusal: Refusal, at: int) -> None:
    """Note a refusal in the diary, unless it or MAX_REFUSALS others were noted in the last hour."""
    key = refusal_key(refusal.reason, token.mint)
    trader.refused = {key: when for key, when in trader.refused.items() if when > at - REFUSAL_MS}
    if key not in trader.refused and len(trader.refused) < MAX_REFUSALS:
        trader.refused[key] = at
        trader.add_line(
            "refusal",
            at,
            token.mint,
            reason=refusal.reason,
            detail=refusal.detail,
            symbol=token.symbol,
        )


def refusal_key(reason: str, mint: str | None) -> RefusalKey:
    return reason, None if reason in ACCOUNT_REFUSALS else mint


# ---- faults --------------------------------------------------------------------------------------
class OwnFault(Exception):
    """The operator's strategy file failed. The message is a sentence for a diary."""


class FaultKey(NamedTuple):
    """What a fault is about: a trader, a token, or one trader's token."""

    trader: int | None
    mint: str | None


class Faults:
    """The exceptions in one pass, by trader and token.

    A trader with a fault is skipped. Its changes, including those in pools, are in doubt, so the
    caller discards the pass and replays it without the trader or the trader's token. With
    `raising`, exceptions are raised instead.
    """

    def __init__(self, raising: bool = False) -> None:
        self.found: dict[FaultKey, Exception] = {}
        self.mint: str | None = None
        self._raising = raising

    @contextmanager
    def isolate(self, trader: int | None = None, mint: str | None = None) -> Iterator[None]:
        """Store an exception raised inside as a fault of the trader and of the token `mint`."""
        self.mint = mint
        try:
            yield
        except Exception as error:
            # The caller logs it with its stack trace, and mentions it in the diary and in health.
            if self._raising:
                raise
            self.found[FaultKey(trader, self.mint)] = error

    def has(self, trader: int) -> bool:
        return any(key.trader == trader for key in self.found)

    def skip_faulty(self, traders: Sequence[Player]) -> Sequence[Player]:
        return [trader for trader in traders if not self.has(trader.id)] if self.found else traders
