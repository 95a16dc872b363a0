"""The job that delivers arrivals to every hook, in order, at least once.

One thread reads and writes the database and makes the decisions. Other threads send messages, one
at a time per hook. A hook's progress is stored within a second. A message that is sent again after
a crash has the same ID.
"""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import orjson

from accounts import hooks
from accounts.hooks import OFF
from accounts.tables import Hook
from config import Config
from models import Bot
from notify import client, plan
from notify.messages import Event, Message, Receiver, write_message
from notify.plan import Progress
from storage import database, files, writing

# Maximum number of messages in flight, each in its own thread. A receiver that took SLOW_SECONDS to
# respond, or didn't respond, is in the slow lane for SLOW_LANE_SECONDS. At most MAX_SLOW messages
# are in flight in the slow lane. All others are sent immediately, so a slow receiver doesn't delay
# anyone else.
MAX_BUSY, MAX_SLOW = 256, 16
SLOW_SECONDS, SLOW_LANE_SECONDS = 2.0, 600.0
POLL_SECONDS, STORE_SECONDS = 0.3, 1.0
# Seconds between checks for a commit, so that a hook is notified within 250 ms. Most of a check's
# cost is waking up.
COMMIT_SECONDS = 0.15
# The length of a pass. Health is reported after each pass.
PASS_SECONDS = 60.0
# Send at most one message to a host in this many seconds.
HOST_SECONDS = 1.0
DEFAULT_PORTS = {"http": 80, "https": 443}
# Events to read at a time for a hook: first FEW, because only one is sent. If none of them concerns
# the hook, then up to MAX_BATCHES batches.
FEW, BATCH, MAX_BATCHES = 4, 50, 20
# Skipped events are stored only once there are this many. After a crash, they are skipped again.
MAX_UNSTORED = 1_000
# Returns up to a limit of events after an arrival, in order.
Reader = Callable[[int, int], list[Event]]
Send = Callable[[Message, bool], client.Answer]
log = logging.getLogger("candor.hooks")
# Runs a function that sends a message in a new thread.
Start = Callable[[Callable[[], None]], None]


class Target(NamedTuple):
    """A hook as stored, without its progress.

    `bots` are its owner's bots, or None for all bots (only for the operator's hooks). `followed`
    are other owners' bots.
    """

    row_id: int
    receiver: Receiver
    events: frozenset[str]
    bots: frozenset[str] | None
    created_at: int
    followed: frozenset[str] = frozenset()

    @property
    def is_operators(self) -> bool:
        return self.bots is None


class Sent(NamedTuple):
    """A message whose response arrived after `seconds`. If it has no `arrival`, it was a ping."""

    row_id: int
    arrival: int | None
    answer: client.Answer
    seconds: float


def start_thread(work: Callable[[], None]) -> None:
    """The thread doesn't delay the process's exit."""
    threading.Thread(target=work, name="hook", daemon=True).start()


class Outbox:
    """Delivers to all hooks. `read_events` returns arrivals in the API's format."""

    def __init__(
        self,
        config: Config,
        read_events: Reader,
        send: Send = client.post,
        start: Start = start_thread,
    ) -> None:
        self.config, self._read_events, self._send = config, read_events, send
        self._start = start
        # APPRISE_URLS by their names in the database, or None until they are read.
        self._urls: Mapping[str, str] | None = None
        self._stopping = threading.Event()
        self._answers: queue.SimpleQueue[Sent] = queue.SimpleQueue()
        self._targets: dict[int, Target] = {}
        # Each hook's current and stored progress.
        self._progress: dict[int, Progress] = {}
        self._stored: dict[int, Progress] = {}
        self._busy: set[int] = set()
        # When each slow receiver leaves the slow lane.
        self._slow_until: dict[int, float] = {}
        # The hook that has waited longest since its last message is next.
        self._sent_at: dict[int, float] = {}
        self._host_free_at: dict[str, float] = {}
        # Database version when hooks and events were last read.
        self._version: object = None
        self._seen: object = None
        # Database version when a hook had nothing left to send.
        self._looked: dict[int, object] = {}

    def stop(self) -> None:
        self._stopping.set()

    def run_tick(self, now: int) -> tuple[str | None, str | None]:
        """Deliver for PASS_SECONDS. Return (None, details for health)."""
        if self._urls is None:
            self._urls = keep_operator_hooks(self.config, now)
        end, store_at = time.monotonic() + PASS_SECONDS, 0.0
        while time.monotonic() < end and not self._stopping.is_set():
            if time.monotonic() >= store_at:
                self.synchronize()
                store_at = time.monotonic() + STORE_SECONDS
            self.deliver()
            self._wait()
        self._store(everything=True)
        return None, orjson.dumps(self._count()).decode()

    def synchronize(self) -> None:
        self._store()
        self._load()

    def deliver(self) -> None:
        self._take_answers()
        self._seen = database.data_version() if self._targets else None
        self._dispatch(time.time_ns() // 1_000_000)

    def _wait(self) -> None:
        end = time.monotonic() + POLL_SECONDS
        while time.monotonic() < end and not self._stopping.is_set():
            with contextlib.suppress(queue.Empty):
                return self._note(self._answers.get(timeout=COMMIT_SECONDS))
            if self._targets and database.data_version() != self._seen:
                return None
        return None

    # ---- the database ----------------------------------------------------------------------------
    def _load(self) -> None:
        version = database.data_version()
        if version == self._version:
            return
        self._version = version
        self._looked.clear()
        urls = self._urls or {}
        # Ignore hooks of other settings.
        rows = [row for row in Hook.select() if row.kind != hooks.APPRISE or row.url in urls]
        bots: dict[int | None, set[str]] = {}
        for bot in Bot.select(Bot.owner, Bot.uid).where(
            Bot.owner.in_({row.owner_id for row in rows})
        ):
            bots.setdefault(bot.owner_id, set()).add(bot.uid)
        followed = hooks.find_followed(rows)
        targets = [
            (row, _read_target(row, bots.get(row.owner_id, set()), followed.get(row.id), urls))
            for row in rows
        ]
        self._targets = {row.id: target for row, target in targets if target}
        for row in (row for row in rows if row.id in self._targets):
            self._merge(row.id, _read_progress(row))
        for gone in self._progress.keys() - self._targets.keys():
            del self._progress[gone], self._stored[gone]
            self._sent_at.pop(gone, None)
            self._slow_until.pop(gone, None)

    def _merge(self, row_id: int, stored: Progress) -> None:
        """Apply other processes' changes: a requested ping, a new hook, or a switched hook."""
        known = self._progress.get(row_id)
        if known is None or OFF in (known.state, stored.state) or self._stored[row_id] == known:
            self._progress[row_id] = self._stored[row_id] = stored
        elif stored.ping and not self._stored[row_id].ping:
            self._progress[row_id] = known._replace(ping=True, due_at=stored.due_at)

    def _store(self, everything: bool = False) -> None:
        """`everything` includes skipped events."""
        changed = {
            row_id: progress
            for row_id, progress in self._progress.items()
            if is_news(progress, self._stored[row_id], 1 if everything else MAX_UNSTORED)
        }
        if not changed:
            return
        with writing():
            for row_id, progress in changed.items():
                before = self._stored[row_id]._asdict()
                news = {
                    name: one for name, one in progress._asdict().items() if one != before[name]
                }
                # This must not turn on a hook that the operator turned off, nor lose a requested
                # ping.
                Hook.update(**news).where(Hook.id == row_id, Hook.state != OFF).execute()
        self._stored.update(changed)

    # ---- messages --------------------------------------------------------------------------------
    def _dispatch(self, now: int) -> None:
        """Send the next message of each hook that is due.

        Many hooks share a host, which gets one message a second, so the hook that was served last
        waits longest.
        """
        read: dict[int, list[Event]] = {}
        slow_places = MAX_SLOW - sum(map(self._is_slow, self._busy))
        in_turn = sorted(self._targets.items(), key=lambda one: self._sent_at.get(one[0], 0.0))
        for row_id, target in in_turn:
            if not self._may_send(row_id, target, now):
                continue
            is_slow, is_ping = self._is_slow(row_id), self._progress[row_id].ping
            if is_slow and slow_places <= 0:
                continue
            event = None if is_ping else self._find_next(target, read)
            if is_ping or (event is not None and not self._is_off(row_id)):
                self._send_soon(target, event, now)
                slow_places -= is_slow

    def _is_off(self, row_id: int) -> bool:
        """Whether the hook was switched off or removed since hooks were last read."""
        state = Hook.select(Hook.state).where(Hook.id == row_id).scalar()
        if state in (None, OFF):
            self._progress[row_id] = self._progress[row_id]._replace(state=OFF)
            return True
        return False

    def _may_send(self, row_id: int, target: Target, now: int) -> bool:
        progress = self._progress[row_id]
        if row_id in self._busy or not plan.is_due(progress, now):
            return False
        if not progress.ping and progress.state != "active":
            return False
        if len(self._busy) >= MAX_BUSY and not target.is_operators:
            return False
        return self._host_free_at.get(host_of(target), 0.0) <= time.monotonic()

    def _is_slow(self, row_id: int) -> bool:
        return time.monotonic() < self._slow_until.get(row_id, 0.0)

    def _find_next(self, target: Target, read: dict[int, list[Event]]) -> Event | None:
        """Return the next event for a hook. `read` has the events after each arrival."""
        if self._seen is not None and self._looked.get(target.row_id) == self._seen:
            # Nothing was written since then.
            return None
        for size in (FEW, *[BATCH] * MAX_BATCHES):
            progress = self._progress[target.row_id]
            after = progress.delivered
            if after not in read:
                read[after] = self._read_events(after, size)
            found = next(filter(None, (choose(target, one) for one in read[after])), None)
            if not found and not read[after]:
                self._looked[target.row_id] = self._seen
            if found or not read[after]:
                return found
            self._progress[target.row_id] = progress._replace(delivered=read[after][-1].arrival)
        return None

    def _send_soon(self, target: Target, event: Event | None, now: int) -> None:
        message = write_message(target.receiver, event, now, self.config.base_url)
        # The operator chose where the hooks in the settings are sent, so any address is allowed.
        private = self.config.hooks_private == "on" or target.is_operators
        is_apprise = target.receiver.kind == hooks.APPRISE
        self._busy.add(target.row_id)
        began = self._sent_at[target.row_id] = time.monotonic()
        self._host_free_at[host_of(target)] = began + HOST_SECONDS
        arrival = event.arrival if event else None

        def send() -> None:
            # A bug ends the thread, but it must not make the hook wait forever.
            answer = client.Answer(None, "could not be sent")
            try:
                answer = (
                    client.send_with_apprise(message, self.config.base_url)
                    if is_apprise
                    else self._send(message, private)
                )
            finally:
                seconds = time.monotonic() - began
                self._answers.put(Sent(target.row_id, arrival, answer, seconds))

        self._start(send)

    def _take_answers(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._note(self._answers.get_nowait())

    def _note(self, sent: Sent) -> None:
        self._busy.discard(sent.row_id)
        progress = self._progress.get(sent.row_id)
        if progress is None or progress.state == OFF:
            return
        # The operator has only a few hooks, so they skip the slow lane.
        if sent.seconds >= SLOW_SECONDS and not self._targets[sent.row_id].is_operators:
            self._slow_until[sent.row_id] = time.monotonic() + SLOW_LANE_SECONDS
        now = time.time_ns() // 1_000_000
        answer, is_ping = sent.answer, sent.arrival is None
        self._progress[sent.row_id] = (
            plan.after_success(progress, now, sent.arrival)
            if answer.error is None
            else plan.after_failure(
                progress, now, answer.status, answer.error, answer.wait_seconds, is_ping
            )
        )

    def _count(self) -> dict[str, int]:
        states = [progress.state for progress in self._progress.values()]
        failing = sum(progress.failures > 0 for progress in self._progress.values())
        return {
            "hooks": len(states),
            "failing": failing,
            **{state: states.count(state) for state in ("waiting", "paused")},
        }


def keep_operator_hooks(config: Config, now: int) -> dict[str, str]:
    """Store the settings' hooks. Return the APPRISE_URLS by their names. `now`: ms."""
    secret = files.secret_key(config) if config.apprise_urls else ""
    urls = {client.name_url(url, secret): url for url in config.apprise_urls}
    hooks.keep_operator_hooks(urls, config.apprise_events, now)
    return urls


def _read_target(
    row: Hook, own: set[str], followed: frozenset[str] | None, urls: Mapping[str, str]
) -> Target | None:
    """Return None if a hook's events or bots can't be read, so that only this hook waits.

    `own`: the uids of its owner's bots. `urls` are as in keep_operator_hooks.
    """
    events, named = hooks.read_list(row.events), hooks.read_list(row.bots)
    if events is None or named is None:
        log.error("hook %s is paused: its events or bots can't be read", row.uid)
        return None
    chosen = set(named)
    bots = None if row.owner_id is None else frozenset(chosen & own if chosen else own)
    return Target(
        row.id,
        Receiver(row.uid, row.kind, urls.get(row.url, row.url), row.secret),
        frozenset(events),
        bots,
        row.created_at,
        followed or frozenset(),
    )


def _read_progress(row: Hook) -> Progress:
    return Progress(*(getattr(row, name) for name in Progress._fields))


def is_news(progress: Progress, stored: Progress, far: int) -> bool:
    """Whether to store the progress: more than the position changed, or it moved by `far`."""
    moved = progress.delivered - stored.delivered
    return moved >= far or progress._replace(delivered=0) != stored._replace(delivered=0)


def choose(target: Target, event: Event) -> Event | None:
    """Return the event as this hook should receive it, or None.

    Only trades after the hook's creation are sent, because an older history may still be arriving.
    """
    if event.shown is None:
        return None
    told, bot = event, event.shown["botId"]
    if target.bots is not None and bot not in target.bots:
        shared = hooks.share(event.kind, event.shown) if bot in target.followed else None
        if shared is None:
            return None
        told = event._replace(kind=shared.kind, shown=shared.shown)
    if told.kind not in target.events:
        return None
    seconds = event.shown.get("blockTime")
    is_news = seconds is not None and seconds * 1000 >= target.created_at
    return told if told.kind != "trade" or is_news else None


def host_of(target: Target) -> str:
    parts = urlsplit(target.receiver.url)
    if parts.scheme not in DEFAULT_PORTS:
        # An Apprise URL may contain anything in place of a port.
        return parts.netloc.lower()
    host = (parts.hostname or "").rstrip(".")
    return f"{host}:{parts.port or DEFAULT_PORTS[parts.scheme]}"
