"""GET /api/v1/stream: what arrives here, as server-sent events.

One thread of the process looks for arrivals, only while somebody listens, and writes each once for
all streams; a stream that is further behind than what is kept reads its own way up. A waiting
stream holds a thread of the server and nothing else: no place of web.admission, no database
connection.
"""

import itertools
import logging
import threading
import time
from collections import deque
from dataclasses import dataclass

import orjson
from flask import Response, current_app, g, request
from peewee import PeeweeException

from accounts.problem import Problem
from storage import database
from web.api import paging, queries, v1
from web.api.serialize import show_post

# the cursors of GET /feed?since= and of the stream are the same
SCOPE = ("feed",)
# of one process
PLACES = 32
# events read at once, events kept for all
BATCH, KEPT = 100, 1_000
LOOK_SECONDS, COMMENT_SECONDS, RETRY_SECONDS = 0.2, 15, 5
# One line: an empty one after it would end an event, and some clients yield that one, without data.
COMMENT = b": nothing new\n"
log = logging.getLogger("candor")


@v1.blueprint.get("/stream")
def open_stream():
    after = v1.read_since(
        v1.Asked.by(current_app, request, g.now),
        SCOPE,
        queries.find_post_arrival,
        request.headers.get("Last-Event-ID"),
    )
    newest = queries.find_last_id("arrival")
    tail = current_app.tail
    listener = tail.join(g.visit.caller, newest, current_app.config["CANDOR"].max_streams_per_owner)
    frames = tail.follow(listener, newest if after is None else after)
    response = Response(
        frames,
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
    response.call_on_close(lambda: tail.leave(listener))
    return response


@dataclass(frozen=True)
class Frame:
    """One event as it is sent, and the arrival it tells. `hidden`: of a post whose words were taken
    down.
    """

    arrival: int
    raw: bytes
    hidden: bool


def read_frames(secret, after, limit):
    """[Frame, ...] of what arrived after this; one without content where a refold took the trade
    back.
    """
    arrivals = queries.list_arrivals(limit, after)
    posts = queries.find_posts(sorted({one.post_id for one in arrivals if one.post_id}))
    rows = queries.find_trades([one.trade_id for one in arrivals if one.trade_id])
    trades = dict(zip(rows, v1.show_trades(list(rows.values())), strict=True))
    shown = [
        show_post(posts[one.post_id]) if one.post_id else trades.get(one.trade_id)
        for one in arrivals
    ]
    return [
        Frame(
            arrival.id,
            write_event(secret, arrival.id, arrival.kind, one) if one else b"",
            bool(one and one.get("hiddenAt")),
        )
        for arrival, one in zip(arrivals, shown, strict=True)
    ]


def write_event(secret, arrival, kind, shown):
    """JSON has no line breaks of its own, so it is one `data` line."""
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (
        write_id(secret, arrival),
        kind.encode(),
        orjson.dumps(shown),
    )


def write_id(secret, arrival):
    return paging.write_cursor(secret, ("since", *SCOPE), (arrival,)).encode()


@dataclass(eq=False)
class Listener:
    """One open stream; not `welcome` once its key is revoked or expired, its owner opens too many,
    or the process stops.
    """

    key_id: int
    owner_id: int
    welcome: bool = True


class Tail:
    """The end of the order of arrival, shared by all streams of this process. `_frames` holds what
    arrived after `_floor`, up to `_reach`.
    """

    def __init__(self, secret):
        self.secret, self.stopping = secret, False
        # The listeners are the keys of a dict: in the order in which they came.
        self._news, self._listeners, self._watched = threading.Condition(), {}, False
        self._frames, self._floor, self._reach = deque(), 0, 0

    # ---- for streams -----------------------------------------------------------------------------
    def join(self, caller, newest, most):
        """A Listener, or Problem where all places are taken. `newest`: the last arrival there is,
        where looking begins if nobody does yet.

        An owner has at most so many: one more ends its oldest, which a bot that was started anew
        has forgotten.
        """
        with self._news:
            welcome = [listener for listener in self._listeners if listener.welcome]
            own = [listener for listener in welcome if listener.owner_id == caller.owner_id]
            oldest = own[: max(0, len(own) - most + 1)]
            if len(welcome) - len(oldest) >= PLACES:
                raise Problem(
                    "busy",
                    f"all {PLACES} streams are taken; try again later, or poll with since",
                    headers={"Retry-After": str(RETRY_SECONDS)},
                )
            for ended in oldest:
                ended.welcome = False
            if oldest:
                self._news.notify_all()
            listener = Listener(caller.key_id, caller.owner_id)
            self._listeners[listener] = None
            if not self._watched:
                self._watched, self._floor, self._reach = True, newest, newest
                self._frames.clear()
                threading.Thread(target=self._watch, name="stream", daemon=True).start()
            return listener

    def leave(self, listener):
        with self._news:
            self._listeners.pop(listener, None)

    def follow(self, listener, after):
        """The bytes of a stream from this arrival on, for as long as the listener is welcome.

        The first event, `hello`, tells nothing but an id, so that no cut comes too early to resume.
        It has data like any other: clients yield an event without data as an empty message, or not
        at all.
        """
        yield b"retry: 2000\nid: %b\nevent: hello\ndata: {}\n\n" % write_id(self.secret, after)
        while listener.welcome:
            frames = self._wait(listener, after)
            if frames is None:
                with database.connection_context():
                    frames = read_frames(self.secret, after, BATCH)
            after = frames[-1].arrival if frames else after
            if listener.welcome:
                yield b"".join(frame.raw for frame in frames) or COMMENT

    def _wait(self, listener, after):
        """The frames after this arrival once there are some; none after a while without; None where
        they are not kept any more.
        """
        with self._news:
            if after < self._floor:
                return None
            self._news.wait_for(
                lambda: self._reach > after or not listener.welcome, COMMENT_SECONDS
            )
            if after < self._floor:
                return None
            return list(
                itertools.takewhile(lambda frame: frame.arrival > after, reversed(self._frames))
            )[::-1]

    # ---- the one that looks ----------------------------------------------------------------------
    def stop(self):
        """End all streams soon. Takes no lock: a signal handler may call it."""
        self.stopping = True

    def _watch(self):
        try:
            while (found := self._look()) is not None:
                time.sleep(0 if found == BATCH else LOOK_SECONDS)
        except Exception:
            # a fault of ours: the streams end, the next one begins anew
            with self._news:
                self._watched = False
            self._close(lambda listener: True)
            raise

    def _look(self):
        """Once: what arrived, and whose key still works (asked last, so that nothing is told that
        came after a revocation). How many; None at the end.
        """
        with self._news:
            keys = {listener.key_id for listener in self._listeners}
            self._watched = bool(keys) and not self.stopping
        if not self._watched:
            self._close(lambda listener: self.stopping)
            return None
        try:
            with database.connection_context():
                frames = read_frames(self.secret, self._reach, BATCH)
                working = queries.find_working_keys(sorted(keys), time.time_ns() // 1_000_000)
        except PeeweeException as error:
            log.warning("the stream could not read", exc_info=error)
            return 0
        self._close(lambda listener: listener.key_id in keys - working)
        self._keep(frames)
        return len(frames)

    def _keep(self, frames):
        if not frames:
            return
        with self._news:
            # what is kept may hold its words
            if any(frame.hidden for frame in frames):
                self._frames.clear()
                self._floor = self._reach
            self._frames.extend(frames)
            self._reach = frames[-1].arrival
            while len(self._frames) > KEPT:
                self._floor = self._frames.popleft().arrival
            self._news.notify_all()

    def _close(self, is_unwelcome):
        with self._news:
            unwelcome = [listener for listener in self._listeners if is_unwelcome(listener)]
            for listener in unwelcome:
                listener.welcome = False
            if unwelcome:
                self._news.notify_all()
