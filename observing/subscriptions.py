"""Subscribe to wallets at nodes, and trigger a poll when a notice arrives.

Scheduled polls continue regardless. A connection doesn't store anything, and gives up silently if
the endpoint doesn't support subscriptions. A URL may contain a token, so messages omit it and the
library's own log is off.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson
from peewee import OperationalError
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from chain.rpc import is_number
from chain.stored.attachments import HELD
from config import Config
from models import IS_PROGRAM, Wallet
from observing.state import FINALIZED, Notices, State, Subscription
from storage import database, read_rows

# ---- messages from a node ------------------------------------------------------------------------
NOTICES = "logsNotification", "accountNotification"


class Reply(NamedTuple):
    """`subscription` is None if the node refused it."""

    ident: int
    subscription: int | None


class Notice(NamedTuple):
    subscription: int


def read_message(message: Any) -> Reply | Notice | None:
    """Return None if the message is irrelevant. Raises ValueError if it is malformed."""
    if not isinstance(message, dict):
        raise ValueError("a message is not an object")
    if "method" not in message:
        return _read_reply(message)
    if message["method"] not in NOTICES:
        return None
    params = message.get("params")
    number = params.get("subscription") if isinstance(params, dict) else None
    if not is_number(number):
        raise ValueError("a notice of an unknown subscription")
    return Notice(number)


def _read_reply(message: dict[str, Any]) -> Reply | None:
    ident, result = message.get("id"), message.get("result")
    if not is_number(ident) or (type(result) is bool and "error" not in message):
        return None
    return Reply(ident, result if is_number(result) else None)


# ---- a connection to one endpoint ----------------------------------------------------------------
# Close a silent connection after two unanswered pings.
PING_SECONDS = 20.0
OPEN_SECONDS = 10.0
# Frame size in bytes, and frames buffered per endpoint.
MAX_MESSAGE_BYTES, MAX_FRAMES = 128 * 1024, 16
# Notices read per second. The others wait in the network.
MAX_NOTICES = 500
# Requests awaiting replies, and how long to wait for a reply.
MAX_REQUESTS, REPLY_SECONDS = 50, 30.0
# Seconds between checks for changed subscriptions.
READ_SECONDS = 0.5
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 600.0
# If a connection lasted this long, reconnect soon.
STEADY_SECONDS = 60.0
# How long to mute an endpoint that sends false notices.
MISTRUST_SECONDS = 600.0
SILENT = logging.getLogger("candor.websocket")
SILENT.disabled = True


class Refusal(Exception):
    """The endpoint doesn't support subscriptions, or is muted."""


@dataclass
class Line:
    """A connection and its requests. `limit`: how many subscriptions the endpoint allows."""

    connection: ClientConnection
    limit: int
    # By id, and by number.
    asked: dict[int, Subscription] = field(default_factory=dict)
    numbers: dict[int, Subscription] = field(default_factory=dict)
    last_id: int = 0
    asked_at: float = 0.0
    # The wanted subscriptions when all of them, up to the limit, were last requested.
    done: tuple[Subscription, ...] | None = None
    # Start of the current second, and notices read since then.
    counted_from: float = 0.0
    count: int = 0

    def send(self, method: str, params: list[Any]) -> int:
        self.last_id += 1
        request = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        self.connection.send(orjson.dumps(request).decode())
        return self.last_id


class Listener(threading.Thread):
    """Listens to one endpoint. The thread doesn't keep the process alive."""

    def __init__(
        self,
        url: str,
        label: str,
        notices: Notices,
        max_subscriptions: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name=f"subscriptions {label}", daemon=True)
        self.label, self._url, self._notices, self._clock = label, url, notices, clock
        self._max_subscriptions = max_subscriptions
        # For health. state: connecting | listening | resting. The others are counts, and the time
        # of the last notice (ms).
        self.state, self.subscriptions, self.refused = "connecting", 0, 0
        self.noticed_at: int | None = None
        self._ending = threading.Event()

    def stop(self) -> None:
        """Stop within a few seconds."""
        self._ending.set()

    # ---- connections -----------------------------------------------------------------------------
    def run(self) -> None:
        tries = 0
        while not self._ending.is_set():
            begun_at, least = self._clock(), MIN_PAUSE_SECONDS
            try:
                self._listen()
            except Refusal:
                least = MISTRUST_SECONDS
            # ValueError means that the handshake response isn't HTTP.
            except (OSError, WebSocketException, EOFError, ValueError):
                pass
            except Exception as error:
                # A bug in Candor, but the thread continues. The text and the stack trace may
                # contain the URL.
                log.error("listening to %s failed: %s", self.label, type(error).__name__)
            self.state, self.subscriptions = "resting", 0
            self._notices.cover(self.label, set())
            tries = 0 if self._clock() - begun_at >= STEADY_SECONDS else tries + 1
            seconds = max(least, min(MAX_PAUSE_SECONDS, MIN_PAUSE_SECONDS * 2 ** min(tries, 10)))
            self._ending.wait(seconds * random.uniform(0.5, 1.0))

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
        self._subscribe(line)
        if self._notices.is_false(self.label):
            raise Refusal
        end = self._clock() + READ_SECONDS
        while (left := end - self._clock()) > 0 and not self._ending.is_set():
            try:
                raw = line.connection.recv(left, decode=False)
            except TimeoutError:
                break
            self._pace(line)
            self._take(line, raw)

    def _pace(self, line: Line) -> None:
        now = self._clock()
        if now - line.counted_from >= 1.0:
            line.counted_from, line.count = now, 0
        line.count += 1
        if line.count >= MAX_NOTICES:
            self._ending.wait(max(0.0, line.counted_from + 1.0 - now))

    # ---- subscriptions ---------------------------------------------------------------------------
    def _subscribe(self, line: Line) -> None:
        wanted = self._notices.wanted
        if line.done == wanted:
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
        # The endpoint is at its limit, so it may also refuse other requests.
        line.limit = min(line.limit, len(line.numbers))
        if not line.limit and not line.asked:
            raise Refusal


# ---- subscriptions -------------------------------------------------------------------------------
# More endpoints would only send the same notices.
MAX_LISTENERS = 4
# Per endpoint. Those that allow fewer say so.
MAX_SUBSCRIPTIONS = 1_000
# Seconds between checks for new wallets, and between updates for health.
REFRESH_SECONDS, NOTE_SECONDS = 3.0, 15.0
STEP_SECONDS = 0.5
# After a bug, and while the database is busy.
FAULT_SECONDS, BUSY_SECONDS = 5.0, 1.0
BUSY_MS = 7 * 86_400_000
# One query for all wallets. One per wallet was most of an idle server's load.
ACCOUNTS = f"""
SELECT wallet_id, address FROM (
    SELECT d.wallet_id, d.address, ROW_NUMBER() OVER (
        PARTITION BY d.wallet_id ORDER BY d.head_slot DESC NULLS LAST, d.id) AS place
    FROM address d JOIN wallet w ON w.id = d.wallet_id AND w.address <> d.address
    WHERE d.wallet_id IN {HELD}) ranked
WHERE place <= ? ORDER BY wallet_id, place"""
# Plain SQL for speed: it runs after each write.
WALLETS = f"""
SELECT id, address FROM wallet WHERE id IN {HELD} AND (trouble IS NULL OR trouble <> ?)"""
# A post may cite a trade of any wallet of its bot.
AWAITED = """
SELECT wallet_id FROM post WHERE status = 'pending' AND wallet_id IS NOT NULL
UNION SELECT c.wallet_id FROM post p JOIN attachment c ON c.bot_id = p.bot_id
WHERE p.status = 'pending' AND c.detached_at IS NULL"""
LATELY = "SELECT wallet_id, COUNT(*) FROM trade WHERE block_time >= ? GROUP BY wallet_id"
log = logging.getLogger("candor.subscriptions")


class Subscriptions(threading.Thread):
    """The subscriptions job.

    `wake` starts a pass of the observer. `session` opens a database connection. `note` records the
    status for health. `now` returns the time in ms.
    """

    def __init__(
        self,
        config: Config,
        state: State,
        wake: Callable[[], object],
        session: Callable[[], AbstractContextManager[Any]],
        note: Callable[[str, dict[str, Any]], object],
        now: Callable[[], int],
    ) -> None:
        super().__init__(name="subscriptions", daemon=True)
        self._notices, self._clock, self._now = state.notices, state.clock, now
        self._wake, self._session, self._note = wake, session, note
        urls = list_websockets(config) if config.observer_interval_seconds else ()
        self._listeners = [
            Listener(url, f"endpoint {number}", self._notices, MAX_SUBSCRIPTIONS, self._clock)
            for number, url in enumerate(urls[:MAX_LISTENERS], 1)
        ]
        self._refreshed_at = self._noted_at = float("-inf")
        # Database version when its wallets were last read.
        self._version: object = None
        self._ending = threading.Event()

    def stop(self, seconds: float) -> None:
        """Wait up to this long for a running step."""
        self._ending.set()
        for listener in self._listeners:
            listener.stop()
        self.join(seconds)

    def run(self) -> None:
        begun = False
        while not self._ending.is_set():
            try:
                self._keep_up()
                if not self._listeners:
                    return
                for listener in () if begun else self._listeners:
                    listener.start()
                begun = True
                self._poll_noticed()
            except OperationalError as error:
                # Either the lock is lost, or the database is busy or unreachable.
                log.info("subscriptions paused: %s", type(error).__name__)
                self._ending.wait(BUSY_SECONDS)
            except Exception as error:
                # A bug in Candor, but the thread continues, like that of the jobs.
                log.error("subscriptions failed; restarting", exc_info=error)
                self._ending.wait(FAULT_SECONDS)

    def _keep_up(self) -> None:
        now = self._clock()
        if self._listeners and now - self._refreshed_at >= REFRESH_SECONDS:
            version = database.data_version()
            if version != self._version:
                with self._session():
                    self._notices.want(list_subscriptions(self._now()))
                self._version = version
            self._refreshed_at = self._clock()
        if now - self._noted_at >= NOTE_SECONDS:
            self._note("ok" if self._listeners else "off", self.report())
            self._noted_at = now

    def _poll_noticed(self) -> None:
        due = self._notices.list_due(self._clock, STEP_SECONDS)
        if due and not self._ending.is_set():
            with self._session():
                make_due(due)
            self._notices.hurry(due, self._clock())
            self._wake()

    def report(self) -> dict[str, Any]:
        """Return each endpoint's state, the number of covered wallets, and the last notice (ms)."""
        noticed = [one.noticed_at for one in self._listeners if one.noticed_at is not None]
        return {
            "endpoints": {one.label: one.state for one in self._listeners},
            "subscriptions": sum(one.subscriptions for one in self._listeners),
            "heard": self._notices.count_covered(),
            "refused": sum(one.refused for one in self._listeners),
            "noticedAt": max(noticed, default=None),
        }


def make_due(wallet_ids: Collection[int]) -> None:
    Wallet.update(due_at=0).where(Wallet.id.in_(wallet_ids)).execute()


def list_websockets(config: Config) -> tuple[str, ...]:
    """Return the configured URLs, those derived from the RPC endpoints, or () if turned off."""
    if "off" in config.solana_ws_urls:
        return ()
    return config.solana_ws_urls or tuple(map(_derive_websocket, config.solana_rpc_urls))


def _derive_websocket(url: str) -> str:
    """If the URL has a port, the next port is used, as the validator and its tools do."""
    parts = urlsplit(url)
    credentials, at, place = parts.netloc.rpartition("@")
    if parts.port:
        place = f"{place.removesuffix(f':{parts.port}')}:{min(parts.port + 1, 65_535)}"
    scheme = parts.scheme.replace("http", "ws")
    return parts._replace(scheme=scheme, netloc=f"{credentials}{at}{place}").geturl()


def list_subscriptions(now: int) -> tuple[Subscription, ...]:
    """List the wanted subscriptions, most important first.

    Wallets come before token accounts. Among them, those with pending posts come first, then those
    that trade most. `now`: ms.
    """
    ranks, accounts_of = _rank(now), _list_accounts()
    wallets = read_rows(WALLETS, (IS_PROGRAM,))
    wallets.sort(key=lambda row: (ranks.get(row[0], (False, 0)), -row[0]), reverse=True)
    wanted = [Subscription(*row) for row in wallets]
    for number, address in wallets:
        wanted += [Subscription(number, address, one) for one in accounts_of.get(number, ())]
    return tuple(wanted)


def _rank(now: int) -> dict[int, tuple[bool, int]]:
    waiting = {wallet_id for (wallet_id,) in read_rows(AWAITED)}
    ranks = {one: (True, 0) for one in waiting}
    for wallet_id, count in read_rows(LATELY, ((now - BUSY_MS) // 1000,)):
        ranks[wallet_id] = (wallet_id in waiting, count)
    return ranks


def _list_accounts() -> dict[int, list[str]]:
    """Return token accounts by wallet, most recently active first.

    Each list ends at MAX_SUBSCRIPTIONS, which is enough to show that there are too many.
    """
    found: dict[int, list[str]] = {}
    for wallet_id, address in read_rows(ACCOUNTS, (MAX_SUBSCRIPTIONS,)):
        found.setdefault(wallet_id, []).append(address)
    return found
