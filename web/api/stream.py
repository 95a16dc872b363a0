"""GET /api/v1/stream: what arrives here, as server-sent events; and the same for pages (/stream).

One thread of the process polls for arrivals, only while somebody subscribes, and writes each event
once for all streams; a stream that is further behind than the buffer reaches reads its own way up.
A waiting stream holds a thread of its own and nothing else: no turn of web.server.worker, no
database connection.
"""

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from flask import Response, request
from peewee import PeeweeException

from accounts.problem import Problem
from notify import messages
from storage import database
from web.api import paging, queries, v1
from web.api.posts import show_post
from web.api.queries import CoverageRow
from web.api.scaled import read_scales
from web.api.serialize import Json
from web.api.trades import show_trades
from web.api.wallets import show_coverage
from web.server import gate
from web.server.application import find_app
from web.server.auth import ApiCaller

# Of one process with keys; of the whole instance for pages.
MAX_STREAMS, MAX_PAGE_STREAMS = 32, 64
# Of one owner, and of one address; one more closes the oldest.
MAX_STREAMS_EACH = 4
# What streams tell; hooks are told more.
STREAMED = ("post", "trade", "verification")
# Events read at once, events buffered for all.
BATCH, MAX_BUFFERED = 100, 1_000
# Seconds between two checks for a commit; without a commit keys are checked this often.
POLL_SECONDS, KEYS_SECONDS = 0.05, 1.0
COMMENT_SECONDS, RETRY_SECONDS, PAGE_RETRY_SECONDS = 15, 5, 60
# One line: an empty one after it would end an event, and some clients yield that one, without data.
COMMENT = b": nothing new\n"
log = logging.getLogger("candor")


@v1.blueprint.get("/stream")
def open_stream() -> Response:
    """Answer with events until the client hangs up or its subscription ends."""
    app = find_app()
    args = v1.read_known(request.args, ("since",))
    after = v1.read_since(args, request.headers.get("Last-Event-ID"))
    newest, hub = queries.find_last_id("arrival"), app.stream_hub
    subscriber = hub.subscribe(gate.find_caller(), gate.find_network(), newest)
    response = Response(
        hub.read_events(subscriber, newest if after is None else after),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
    response.call_on_close(lambda: hub.unsubscribe(subscriber))
    return response


@dataclass(frozen=True)
class Event:
    """An event as it is sent, and its arrival. `raw` is empty where a rebuild took the trade back,
    and for what streams do not tell; `hidden`: of a post whose words were taken down; `public`:
    what pages get, empty for trades.
    """

    arrival: int
    raw: bytes
    hidden: bool
    public: bytes


def read_events(secret: str, base_url: str, after: int, limit: int) -> list[Event]:
    """Return the events of what arrived after this arrival, in order."""
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
    arrivals = queries.list_arrivals(limit, after)
    scales = read_scales()
    posts = queries.find_posts(sorted({one.post_id for one in arrivals if one.post_id}))
    rows = queries.find_trades([one.trade_id for one in arrivals if one.trade_id])
    # Without those that cannot be read.
    shown = {one["id"]: one for one in show_trades(list(rows.values()))}
    trades = {number: shown.get(row.uid) for number, row in rows.items()}
    wallets = queries.find_coverages([one.wallet_id for one in arrivals if one.wallet_id])
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


def show_change(row: CoverageRow) -> Json:
    """Show a wallet whose coverage changed, as it is now, to webhooks."""
    coverage = show_coverage(row.address, row.coverage)
    return {
        "botId": row.bot,
        "botName": row.bot_name,
        "wallet": row.address,
        "coverage": coverage,
        "eventAt": coverage["checkedAt"],
    }


def show_news(post: Json) -> Json:
    """Show a new or changed post to pages."""
    return {
        "id": post["id"],
        "botId": post["botId"],
        "status": post["verification"]["status"],
        "createdAt": post["createdAt"],
    }


def write_event(secret: str, arrival: int, kind: str, shown: Mapping[str, Any]) -> bytes:
    """Write one event. JSON has no line breaks of its own, so it is one `data` line."""
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (
        write_id(secret, arrival),
        kind.encode(),
        orjson.dumps(shown),
    )


def write_id(secret: str, arrival: int) -> bytes:
    return paging.write_cursor(secret, paging.ARRIVALS, (arrival,)).encode()


@dataclass(eq=False)
class Subscriber:
    """One open stream from `network`, the address as limits count it; a page's has no key and no
    owner. `is_active` ends when its key is revoked or expires, its owner or address opens too many
    (`is_displaced`), or the process stops.
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
    """What all streams of this process share: the newest events, and the thread that reads them.

    `_events` holds what arrived after `_floor`, up to `_reach`.
    """

    def __init__(self, secret: str, base_url: str) -> None:
        self.secret, self.base_url, self.stopping = secret, base_url, False
        # Guards all that follows; notified of new events and of subscriptions that end.
        self._news = threading.Condition()
        # The keys of a dict: in the order in which they came.
        self._subscribers: dict[Subscriber, None] = {}
        self._is_polled, self._floor, self._reach = False, 0, 0
        self._events: deque[Event] = deque()
        # The version of the database that was read last.
        self._version: object = None

    # ---- for streams -----------------------------------------------------------------------------
    def subscribe(self, caller: ApiCaller, network: str, newest: int) -> Subscriber:
        """Open a stream; Problem if this process has no room for another one.

        `newest`: the last arrival there is, from which on the hub polls if it does not yet. An
        owner and an address each have at most MAX_STREAMS_EACH: one more ends the oldest, which a
        bot that was restarted has forgotten.
        """
        with self._news:
            active = [one for one in self._subscribers if one.is_active and not one.is_page]
            own = [one for one in active if one.owner_id == caller.owner_id]
            oldest = _list_surplus(own)
            near = [one for one in active if one.network == network and one not in oldest]
            oldest += _list_surplus(near)
            if len(active) - len(oldest) >= MAX_STREAMS:
                raise Problem(
                    "busy",
                    f"all {MAX_STREAMS} streams are taken; try again later, or poll with since",
                    headers={"Retry-After": str(RETRY_SECONDS)},
                )
            self._displace(oldest)
            return self._add(Subscriber(caller.key_id, caller.owner_id, network), newest)

    def subscribe_page(self, network: str, newest: int, room: int) -> Subscriber | None:
        """Open the stream of a page; None if `room` are open in this process. An address has at
        most MAX_STREAMS_EACH: one more ends its oldest.
        """
        with self._news:
            pages = [one for one in self._subscribers if one.is_active and one.is_page]
            oldest = _list_surplus([one for one in pages if one.network == network])
            if len(pages) - len(oldest) >= room:
                return None
            self._displace(oldest)
            return self._add(Subscriber(None, None, network), newest)

    def _displace(self, oldest: list[Subscriber]) -> None:
        for subscriber in oldest:
            subscriber.is_displaced = True
        self._end(oldest)

    def _add(self, subscriber: Subscriber, newest: int) -> Subscriber:
        self._subscribers[subscriber] = None
        if not self._is_polled:
            self._start_polling(newest)
        return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        with self._news:
            self._subscribers.pop(subscriber, None)

    def read_events(self, subscriber: Subscriber, after: int) -> Iterator[bytes]:
        """Yield the bytes of a stream from this arrival on, for as long as the subscriber is
        active.

        The first event, `hello`, holds nothing but an id, so that no cut comes too early to resume.
        It has data like any other: clients yield an event without data as an empty message, or not
        at all.
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
        # Many readers can share an address: if each browser came back at once, they would spend the
        # requests of that address on displacing each other.
        if subscriber.is_displaced and subscriber.is_page:
            yield b"retry: %d\n\n" % (1000 * PAGE_RETRY_SECONDS)

    def _wait(self, subscriber: Subscriber, after: int) -> list[Event] | None:
        """Return the events after this arrival once there are some, none after a while without;
        None where they are not buffered any more.
        """
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
        """End all streams soon. Takes no lock: a signal handler may call it."""
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
            # A bug: close all streams. The next subscriber restarts the thread.
            with self._news:
                self._is_polled = False
            self._end_where(lambda subscriber: True)
            raise

    def _wait_for_commit(self) -> None:
        """Wait until anybody commits, whichever process, but not for long: keys expire."""
        end = time.monotonic() + KEYS_SECONDS
        while True:
            time.sleep(POLL_SECONDS)
            if self.stopping or time.monotonic() >= end or _read_version() != self._version:
                return

    def _poll(self) -> int | None:
        """Read once what arrived, and whose key still works (last, so that nothing is sent that
        came after a revocation). Return how many events; None at the end.
        """
        with self._news:
            keys = {one.key_id for one in self._subscribers if one.key_id is not None}
            self._is_polled = bool(self._subscribers) and not self.stopping
        if not self._is_polled:
            self._end_where(lambda subscriber: self.stopping)
            return None
        try:
            # Read the version first, so that a commit during the read is seen next time.
            self._version = _read_version()
            with database.connection_context():
                events = read_events(self.secret, self.base_url, self._reach, BATCH)
                working = queries.find_working_keys(sorted(keys), time.time_ns() // 1_000_000)
        except PeeweeException as error:
            log.warning("the stream could not read", exc_info=error)
            return 0
        self._end_where(lambda one: one.key_id is not None and one.key_id in keys - working)
        self._buffer(events)
        return len(events)

    def _buffer(self, events: list[Event]) -> None:
        if not events:
            return
        with self._news:
            # The buffer may hold the words of a post that was hidden.
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


def _list_surplus(opened: list[Subscriber]) -> list[Subscriber]:
    """Return the oldest of these streams that have to end for one more to be opened."""
    return opened[: max(0, len(opened) - MAX_STREAMS_EACH + 1)]


def _read_version() -> object:
    """A value that changes with every commit; None where the database cannot be asked."""
    try:
        with database.connection_context():
            return database.data_version()
    except PeeweeException:
        return None
