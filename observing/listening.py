"""A WebSocket to one endpoint: subscribes to wallets and reports when a notice arrives.

It stores nothing, and gives up silently if the endpoint doesn't support subscriptions. The URL may
contain a token, so messages omit it and the library's own log is off.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from chain.notices import Notice, Reply, read_message
from observing.notices import Notices, Subscription
from observing.state import FINALIZED

# Two unanswered pings end a silent connection.
PING_SECONDS = 20.0
OPEN_SECONDS = 10.0
# Frames buffered per endpoint, and their maximum size in bytes.
MAX_MESSAGE_BYTES, MAX_FRAMES = 128 * 1024, 16
# Notices read per second; the rest wait in the network.
MAX_NOTICES = 500
# Requests awaiting replies, and for how long.
MAX_REQUESTS, REPLY_SECONDS = 50, 30.0
# Seconds between checks for changed subscriptions.
STEP_SECONDS = 0.5
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 600.0
# Retry soon after a connection that lasted this long.
STEADY_SECONDS = 60.0
# How long to mute an endpoint that sends false notices.
MISTRUST_SECONDS = 600.0
SILENT = logging.getLogger("candor.websocket")
log = logging.getLogger("candor.subscriptions")
SILENT.disabled = True


class Refusal(Exception):
    """The endpoint doesn't support subscriptions, or it is muted."""


@dataclass
class Line:
    """A connection and its requests. `limit`: subscriptions that the endpoint allows."""

    connection: ClientConnection
    limit: int
    # Requests by id, and subscriptions by number.
    asked: dict[int, Subscription] = field(default_factory=dict)
    numbers: dict[int, Subscription] = field(default_factory=dict)
    last_id: int = 0
    asked_at: float = 0.0
    # The wanted subscriptions when all of them, up to the limit, were last requested.
    done: tuple[Subscription, ...] | None = None
    # Start of the current second, and notices read in it.
    counted_from: float = 0.0
    count: int = 0

    def send(self, method: str, params: list[Any]) -> int:
        """Send a request and return its id."""
        self.last_id += 1
        request = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        self.connection.send(orjson.dumps(request).decode())
        return self.last_id


class Listener:
    """Listens to one endpoint in its own thread until stopped."""

    def __init__(
        self,
        url: str,
        label: str,
        notices: Notices,
        max_subscriptions: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.label, self._url, self._notices, self._clock = label, url, notices, clock
        self._max_subscriptions = max_subscriptions
        # For health: state (connecting | listening | resting), subscriptions, how many were
        # refused, and when the last notice arrived (ms).
        self.state, self.subscriptions, self.refused = "connecting", 0, 0
        self.noticed_at: int | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"subscriptions {label}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop within a few seconds. The thread doesn't keep the process alive."""
        self._ending.set()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    # ---- connections -----------------------------------------------------------------------------
    def _run(self) -> None:
        tries = 0
        while not self._ending.is_set():
            begun_at, least = self._clock(), MIN_PAUSE_SECONDS
            try:
                self._listen()
            except Refusal:
                least = MISTRUST_SECONDS
            # ValueError: the handshake response isn't HTTP.
            except (OSError, WebSocketException, EOFError, ValueError):
                pass
            except Exception as error:
                # A bug in Candor; the thread continues. Don't log the text and stack, which may
                # contain the URL.
                log.error("listening to %s failed: %s", self.label, type(error).__name__)
            self._note_end()
            tries = 0 if self._clock() - begun_at >= STEADY_SECONDS else tries + 1
            seconds = max(least, min(MAX_PAUSE_SECONDS, MIN_PAUSE_SECONDS * 2 ** min(tries, 10)))
            self._ending.wait(seconds * random.uniform(0.5, 1.0))

    def _note_end(self) -> None:
        self.state, self.subscriptions = "resting", 0
        self._notices.cover(self.label, set())

    def _listen(self) -> None:
        with connect(
            self._url,
            open_timeout=OPEN_SECONDS,
            ping_interval=PING_SECONDS,
            ping_timeout=PING_SECONDS,
            close_timeout=1.0,
            max_size=MAX_MESSAGE_BYTES,
            max_queue=MAX_FRAMES,
            compression=None,
            proxy=None,
            user_agent_header="candor",
            logger=SILENT,
        ) as connection:
            line, self.refused = Line(connection, self._max_subscriptions), 0
            while not self._ending.is_set():
                self._step(line)

    def _step(self, line: Line) -> None:
        """Update the subscriptions, then read messages for a while."""
        self._subscribe(line)
        if self._notices.is_false(self.label):
            raise Refusal
        end = self._clock() + STEP_SECONDS
        while (left := end - self._clock()) > 0 and not self._ending.is_set():
            try:
                raw = line.connection.recv(left, decode=False)
            except TimeoutError:
                break
            self._pace(line)
            self._take(line, raw)

    def _pace(self, line: Line) -> None:
        """Limit how many notices are read per second."""
        now = self._clock()
        if now - line.counted_from >= 1.0:
            line.counted_from, line.count = now, 0
        line.count += 1
        if line.count >= MAX_NOTICES:
            self._ending.wait(max(0.0, line.counted_from + 1.0 - now))

    # ---- subscriptions ---------------------------------------------------------------------------
    def _subscribe(self, line: Line) -> None:
        wanted = self._notices.wanted
        if line.done is wanted:
            return
        chosen = wanted[: line.limit]
        self._drop_unwanted(line, set(chosen))
        confirmed = set(line.numbers.values())
        known = confirmed.union(line.asked.values())
        for one in chosen:
            if len(line.asked) >= MAX_REQUESTS:
                break
            if one not in known:
                line.asked[self._ask_for(line, one)] = one
                line.asked_at = self._clock()
        if line.asked and self._clock() - line.asked_at > REPLY_SECONDS:
            raise Refusal
        self.subscriptions = len(line.numbers)
        self.state = "listening" if line.numbers else "connecting"
        missing = {one.wallet_id for one in wanted if one not in confirmed}
        self._notices.cover(self.label, {one.wallet_id for one in wanted} - missing)
        line.done = None if line.asked else wanted

    @staticmethod
    def _ask_for(line: Line, one: Subscription) -> int:
        if one.account is None:
            return line.send("logsSubscribe", [{"mentions": [one.wallet]}, FINALIZED])
        options = {**FINALIZED, "encoding": "base64", "dataSlice": {"offset": 0, "length": 0}}
        return line.send("accountSubscribe", [one.account, options])

    @staticmethod
    def _drop_unwanted(line: Line, chosen: set[Subscription]) -> None:
        for number, one in list(line.numbers.items()):
            if one not in chosen:
                del line.numbers[number]
                method = "logsUnsubscribe" if one.account is None else "accountUnsubscribe"
                line.send(method, [number])

    # ---- messages --------------------------------------------------------------------------------
    def _take(self, line: Line, raw: bytes) -> None:
        """Handle a message; ignore a malformed one."""
        try:
            message = read_message(orjson.loads(raw))
        except ValueError:
            return self._notices.note_false(self.label)
        if isinstance(message, Reply):
            self._take_reply(line, message)
        elif isinstance(message, Notice) and (about := line.numbers.get(message.subscription)):
            self.noticed_at = time.time_ns() // 1_000_000
            self._notices.add(about.wallet_id, self.label, self._clock())
        return None

    def _take_reply(self, line: Line, reply: Reply) -> None:
        one = line.asked.pop(reply.ident, None)
        if one is None:
            return
        if reply.subscription is not None:
            line.numbers[reply.subscription] = one
            return
        self.refused += 1
        # The endpoint is at its limit, so it may refuse other requests too.
        line.limit = min(line.limit, len(line.numbers))
        if not line.limit and not line.asked:
            raise Refusal
