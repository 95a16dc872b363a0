"""Serve arrivals as server-sent events, at /api/v1/stream for API clients and /stream for pages.

One thread per process polls for arrivals while there are subscribers, and serializes each event
once for all streams. A stream that falls behind the buffer reads from the database until it catches
up. A waiting stream needs only a thread. It doesn't use a web.server.worker slot or a database
connection.
"""

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from flask import Response, request
from peewee import PeeweeException

from accounts.problem import Problem
from notify import messages
from storage import database
from storage.rows import read, select, write_marks
from web.api import paging, v1
from web.api.posts import read_posts_by_id, show_post
from web.api.serialize import Json
from web.api.trades import read_scales, read_trades_by_id, show_trades
from web.api.wallets import show_coverage
from web.server import gate
from web.server.application import find_app
from web.server.gate import ApiCaller

# Streams with a key, per process, and pages' streams, per instance.
MAX_STREAMS, MAX_PAGE_STREAMS = 32, 64
# Per owner and per address. One more stream closes the oldest.
MAX_STREAMS_EACH = 4
# Webhooks send more kinds.
STREAMED = ("post", "trade", "verification")
# Events to read at a time, and events buffered for all streams.
BATCH, MAX_BUFFERED = 100, 1_000
# Between checks for a commit. Without commits, keys are checked at the second interval.
POLL_SECONDS, KEYS_SECONDS = 0.05, 1.0
COMMENT_SECONDS, RETRY_SECONDS, PAGE_RETRY_SECONDS = 15, 5, 60
# One line, because a blank line after it would end an event, and some clients would yield an event
# without data.
COMMENT = b": nothing new\n"
log = logging.getLogger("candor")
# New posts and trades, and changes of a verification or of a wallet's coverage.
ARRIVALS = (
    "SELECT id, kind, post_id, trade_id, wallet_id FROM arrival WHERE id > ? ORDER BY id LIMIT ?"
)


# As JSON, with the wallets' bots.
COVERAGES = """
SELECT w.id, w.address, w.coverage, b.uid AS bot, b.name AS bot_name
FROM wallet w JOIN bot b ON b.id = w.bot_id"""


@v1.route(v1.blueprint, "get", "/stream", None, "since", "Last-Event-ID")
def stream_events() -> Response:
    """Stream new entries as server-sent events: `hello` (`{}`), then `post`, `trade` and
    `verification` (a post whose verification changed); event IDs work as since. The data of an
    event is a Post or Trade on one line. Comments keep an idle stream open. A stream ends when its
    key is revoked or expires.
    """
    args = v1.read_known(request.args, ("since",))
    after = paging.read_since(args, request.headers.get("Last-Event-ID"))
    response = open_stream(after, MAX_STREAMS, gate.find_caller())
    if response is None:
        raise Problem(
            "busy",
            f"all {MAX_STREAMS} streams are in use; try again later, or poll with since",
            headers={"Retry-After": str(RETRY_SECONDS)},
        )
    return response


def open_stream(after: int | None, room: int, caller: ApiCaller | None = None) -> Response | None:
    hub: StreamHub = find_app().stream_hub
    newest = paging.find_last_id("arrival")
    subscriber = hub.subscribe(gate.find_network(), newest, room, caller)
    if subscriber is None:
        return None
    begin = newest if after is None else after
    if subscriber.is_page:
        # A page that is far behind needs only one event, because it reloads itself.
        begin = max(begin, newest - BATCH)
    response = Response(
        hub.read_events(subscriber, begin),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
    response.call_on_close(lambda: hub.unsubscribe(subscriber))
    return response


def find_coverages(ids: Sequence[int]) -> dict[int, Any]:
    return paging.find_rows(f"{COVERAGES} WHERE w.id", ids)


def find_working_keys(ids: Sequence[int], now: int) -> set[int]:
    return set(
        select(
            int,
            f'SELECT id FROM "key" WHERE id IN ({write_marks(ids)}) AND revoked_at IS NULL AND'
            " (expires_at IS NULL OR expires_at > ?) AND owner_id NOT IN (SELECT o.id FROM owner o"
            " JOIN ban ON ban.kind = 'owner' AND ban.target = o.uid)",
            [*ids, now],
        )
    )


@dataclass(frozen=True)
class Event:
    """A serialized event and its arrival.

    `raw` is empty if a rebuild removed the trade, and for kinds that streams don't send. `hidden`:
    whether the post is hidden. `public`: the event for pages, empty for trades.
    """

    arrival: int
    raw: bytes
    hidden: bool
    public: bytes


def read_events(secret: str, base_url: str, after: int, limit: int) -> list[Event]:
    return [
        Event(
            one.arrival,
            write_event(secret, one.arrival, one.kind, one.shown)
            if one.shown and one.kind in STREAMED
            else b"",
            bool(one.shown and one.shown.get("hiddenAt")),
            write_event(secret, one.arrival, one.kind, show_news(one.shown))
            if one.shown and "verification" in one.shown
            else b"",
        )
        for one in list_events(base_url, after, limit)
    ]


def list_events(base_url: str, after: int, limit: int) -> list[messages.Event]:
    arrivals = read(ARRIVALS, (after, limit))
    scales = read_scales()
    posts = read_posts_by_id(sorted({one.post_id for one in arrivals if one.post_id}))
    rows = read_trades_by_id([one.trade_id for one in arrivals if one.trade_id])
    # Unreadable trades are left out.
    shown = {one["id"]: one for one in show_trades(list(rows.values()))}
    trades = {number: shown.get(row.uid) for number, row in rows.items()}
    wallets = find_coverages([one.wallet_id for one in arrivals if one.wallet_id])
    return [
        messages.Event(
            one.id,
            one.kind,
            show_post(posts[one.post_id], base_url, scales)
            if one.post_id
            else show_change(wallets[one.wallet_id])
            if one.wallet_id
            else trades.get(one.trade_id or 0),
        )
        for one in arrivals
    ]


def show_change(row: Any) -> Json:
    """Show webhooks the current state of a wallet whose coverage changed."""
    coverage = show_coverage(row.address, row.coverage)
    return {
        "botId": row.bot,
        "botName": row.bot_name,
        "wallet": row.address,
        "coverage": coverage,
        "eventAt": coverage["checkedAt"],
    }


def show_news(post: Json) -> Json:
    return {
        "id": post["id"],
        "botId": post["botId"],
        "status": post["verification"]["status"],
        "createdAt": post["createdAt"],
    }


def write_event(secret: str, arrival: int, kind: str, shown: Mapping[str, Any]) -> bytes:
    """Serialize an event. JSON doesn't contain raw line breaks, so it is one `data` line."""
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (
        write_id(secret, arrival),
        kind.encode(),
        orjson.dumps(shown),
    )


def write_id(secret: str, arrival: int) -> bytes:
    return paging.write_cursor(paging.ARRIVALS, (arrival,), secret).encode()


@dataclass(eq=False)
class Subscriber:
    """An open stream. `network` is for the limit per address. A page's stream has no key or owner.

    `is_active` becomes False when its key is revoked or expires, its owner or address opens too
    many streams (`is_displaced`), or the process stops.
    """

    key_id: int | None
    owner_id: int | None
    network: str
    is_active: bool = True
    is_displaced: bool = False

    @property
    def is_page(self) -> bool:
        return self.key_id is None


class StreamHub:
    """The state that all streams of this process share: the newest events, and the polling thread.

    `_events` has the events after `_floor`, up to `_reach`.
    """

    def __init__(self, secret: str, base_url: str) -> None:
        self.secret, self.base_url, self.stopping = secret, base_url, False
        # Guards all attributes below, and is notified about new events and ended subscriptions.
        self._news = threading.Condition()
        # The keys of a dict, because they are in order of arrival.
        self._subscribers: dict[Subscriber, None] = {}
        self._is_polled, self._floor, self._reach = False, 0, 0
        self._events: deque[Event] = deque()
        # The database's at the last read.
        self._version: object = None

    # ---- for streams -----------------------------------------------------------------------------
    def subscribe(
        self, network: str, newest: int, room: int, caller: ApiCaller | None = None
    ) -> Subscriber | None:
        """Open a stream (a page's without a caller), or return None if `room` are open already.

        `newest` is the last arrival, where a hub that isn't polling yet starts. An owner and an
        address can each have MAX_STREAMS_EACH. One more ends the oldest, which a restarted bot has
        abandoned.
        """
        made = Subscriber(caller and caller.key_id, caller and caller.owner_id, network)
        with self._news:
            active = [
                one for one in self._subscribers if one.is_active and one.is_page == made.is_page
            ]
            oldest = [] if made.is_page else _list_surplus(active, "owner_id", made)
            rest = [one for one in active if one not in oldest]
            oldest += _list_surplus(rest, "network", made)
            if len(active) - len(oldest) >= room:
                return None
            for one in oldest:
                one.is_displaced = True
            self._end(oldest)
            self._subscribers[made] = None
            if not self._is_polled:
                self._start_polling(newest)
            return made

    def unsubscribe(self, subscriber: Subscriber) -> None:
        with self._news:
            self._subscribers.pop(subscriber, None)

    def read_events(self, subscriber: Subscriber, after: int) -> Iterator[bytes]:
        """Yield the bytes of a stream after this arrival while the subscriber is active.

        The first event, `hello`, has an ID, so that a client can resume from the beginning. Like
        every event, it has data: some clients drop an event without data, and others yield an empty
        message.
        """
        yield b"retry: 2000\nid: %b\nevent: hello\ndata: {}\n\n" % write_id(self.secret, after)
        while subscriber.is_active:
            events = self._wait(subscriber, after)
            if events is None:
                with database.connection_context():
                    events = read_events(self.secret, self.base_url, after, BATCH)
            after = events[-1].arrival if events else after
            if subscriber.is_active:
                shown = (one.public if subscriber.is_page else one.raw for one in events)
                yield b"".join(shown) or COMMENT
        # Many readers can share an address. If every browser reconnected immediately, they would
        # use up the address's requests by displacing each other.
        if subscriber.is_displaced and subscriber.is_page:
            yield b"retry: %d\n\n" % (1000 * PAGE_RETRY_SECONDS)

    def _wait(self, subscriber: Subscriber, after: int) -> list[Event] | None:
        """Wait for events after this arrival. [] after a timeout, None if they left the buffer."""
        with self._news:
            if after < self._floor:
                return None
            self._news.wait_for(
                lambda: self._reach > after or not subscriber.is_active, COMMENT_SECONDS
            )
            if after < self._floor:
                return None
            newer = itertools.takewhile(lambda one: one.arrival > after, reversed(self._events))
            return list(newer)[::-1]

    # ---- the thread that polls -------------------------------------------------------------------
    def stop(self) -> None:
        """Tell all streams to end. It doesn't lock anything, so signal handlers may call it."""
        self.stopping = True

    def _start_polling(self, newest: int) -> None:
        self._is_polled, self._floor, self._reach = True, newest, newest
        self._events.clear()
        threading.Thread(target=self._poll_on, name="stream", daemon=True).start()

    def _poll_on(self) -> None:
        try:
            while (found := self._poll()) is not None:
                if found < BATCH:
                    self._wait_for_commit()
        except Exception:
            # This is a bug, so close all streams. The next subscriber restarts the thread.
            with self._news:
                self._is_polled = False
            self._end_where(lambda subscriber: True)
            raise

    def _wait_for_commit(self) -> None:
        """Wait until any process commits, but not for long, because keys expire."""
        end = time.monotonic() + KEYS_SECONDS
        while True:
            time.sleep(POLL_SECONDS)
            if self.stopping or time.monotonic() >= end or _read_version() != self._version:
                return

    def _poll(self) -> int | None:
        """Read new arrivals, then find which keys still work.

        Returns the number of events, or None once streams are told to end. Keys come last, so that
        nothing is sent that arrived after a revocation.
        """
        with self._news:
            keys = {one.key_id for one in self._subscribers if one.key_id is not None}
            self._is_polled = bool(self._subscribers) and not self.stopping
        if not self._is_polled:
            self._end_where(lambda subscriber: self.stopping)
            return None
        try:
            # Read the version first, so that a commit during the read is noticed next time.
            self._version = _read_version()
            with database.connection_context():
                events = read_events(self.secret, self.base_url, self._reach, BATCH)
                working = find_working_keys(sorted(keys), time.time_ns() // 1_000_000)
        except PeeweeException as error:
            log.warning("the stream couldn't read new events", exc_info=error)
            return 0
        self._end_where(lambda one: one.key_id is not None and one.key_id in keys - working)
        self._buffer(events)
        return len(events)

    def _buffer(self, events: list[Event]) -> None:
        if not events:
            return
        with self._news:
            # The buffer may contain a hidden post's text.
            if any(event.hidden for event in events):
                self._events.clear()
                self._floor = self._reach
            self._events.extend(events)
            self._reach = events[-1].arrival
            while len(self._events) > MAX_BUFFERED:
                self._floor = self._events.popleft().arrival
            self._news.notify_all()

    def _end_where(self, is_ended: Callable[[Subscriber], bool]) -> None:
        with self._news:
            self._end([one for one in self._subscribers if is_ended(one)])

    def _end(self, subscribers: list[Subscriber]) -> None:
        for subscriber in subscribers:
            subscriber.is_active = False
        if subscribers:
            self._news.notify_all()


def _list_surplus(opened: list[Subscriber], name: str, made: Subscriber) -> list[Subscriber]:
    same = [one for one in opened if getattr(one, name) == getattr(made, name)]
    return same[: max(0, len(same) - MAX_STREAMS_EACH + 1)]


def _read_version() -> object:
    """Return a value that changes with every commit, or None if the database can't be read."""
    try:
        with database.connection_context():
            return database.data_version()
    except PeeweeException:
        return None
