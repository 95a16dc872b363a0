"""The job that listens: a WebSocket to each endpoint, and asks about wallets as soon as one rings.

The observer's polls go on beside it as they would without it.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from peewee import OperationalError

from chain.stored.attachments import HELD
from config import Config
from models import IS_PROGRAM
from observing.bell import Audible
from observing.listening import Listener
from observing.state import State
from storage import database

# Endpoints listened to at once: more would say the same.
MAX_LISTENERS = 4
# Of each endpoint; one that allows fewer says so, and gets fewer.
MAX_SUBSCRIPTIONS = 1_000
# Between two checks of which wallets there are, and between two notes for health.
REFRESH_SECONDS, NOTE_SECONDS = 3.0, 15.0
STEP_SECONDS = 0.5
# After a fault of ours it begins again so late.
FAULT_SECONDS = 5.0
# After an answer polls have a chance to take the observer's lock.
REST_SECONDS = 0.02
BUSY_MS = 7 * 86_400_000
# Of all wallets at once: one question each took most of what an idle server does.
ACCOUNTS = f"""
SELECT wallet_id, address FROM (
    SELECT d.wallet_id, d.address, ROW_NUMBER() OVER (
        PARTITION BY d.wallet_id ORDER BY d.head_slot DESC NULLS LAST, d.id) AS place
    FROM address d JOIN wallet w ON w.id = d.wallet_id AND w.address <> d.address
    WHERE d.wallet_id IN {HELD}) ranked
WHERE place <= ? ORDER BY wallet_id, place"""
# Plain SQL: it runs after whatever anybody writes, and peewee would take longer to build it than
# SQLite to run it.
WALLETS = f"""
SELECT id, address FROM wallet WHERE id IN {HELD} AND (trouble IS NULL OR trouble <> ?)"""
# A post may name a trade of any wallet of its bot.
AWAITED = """
SELECT wallet_id FROM post WHERE status = 'pending' AND wallet_id IS NOT NULL
UNION SELECT c.wallet_id FROM post p JOIN attachment c ON c.bot_id = p.bot_id
WHERE p.status = 'pending' AND c.detached_at IS NULL"""
LATELY = "SELECT wallet_id, COUNT(*) FROM trade WHERE block_time >= ? GROUP BY wallet_id"
log = logging.getLogger("candor.bell")


class WalletRow(NamedTuple):
    """A row of WALLETS."""

    id: int
    address: str


Session = Callable[[], AbstractContextManager[Any]]


class Ringing:
    """Listens while it runs. `working` gives a database connection and the observer's lock,
    `reading` the connection alone; `note` stores what health shows; `clock` in ms.
    """

    def __init__(
        self,
        config: Config,
        state: State,
        answer: Callable[[int], None],
        working: Session,
        reading: Session,
        note: Callable[[str, dict[str, Any]], object],
        now: Callable[[], int],
    ) -> None:
        self._bell, self._clock = state.bell, state.clock
        self._answer, self._working, self._reading = answer, working, reading
        self._note, self._now = note, now
        urls = list_websockets(config) if config.observer_interval_seconds else ()
        self._listeners = [
            Listener(url, f"endpoint {number}", self._bell, MAX_SUBSCRIPTIONS, self._clock)
            for number, url in enumerate(urls[:MAX_LISTENERS], 1)
        ]
        self._refreshed_at = self._noted_at = float("-inf")
        # The database when it was last read for wallets.
        self._version: object = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bell", daemon=True)

    def start(self) -> None:
        """Listen from now on; where nobody is to be listened to, say so to health."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Listen no more; wait up to so many seconds for what goes on."""
        self._ending.set()
        for listener in self._listeners:
            listener.stop()
        self._thread.join(seconds)

    def _run(self) -> None:
        begun = False
        while not self._ending.is_set():
            try:
                self._keep_up()
                if not self._listeners:
                    return
                if not begun:
                    for listener in self._listeners:
                        listener.start()
                    begun = True
                self._answer_next()
            except OperationalError as error:
                # The lock is lost, or the database busy or away: polls tell of it.
                log.info("the bell rests: %s", type(error).__name__)
                self._ending.wait(1.0)
            except Exception as error:
                # Whatever it was: this thread dies with the process alone, as that of the jobs.
                log.error("the bell stopped by a fault, and begins again", exc_info=error)
                self._ending.wait(FAULT_SECONDS)

    def _keep_up(self) -> None:
        """Read which wallets there are, and let health know who listens."""
        now = self._clock()
        if self._listeners and now - self._refreshed_at >= REFRESH_SECONDS:
            self._refresh(database.data_version())
            self._refreshed_at = self._clock()
        if now - self._noted_at >= NOTE_SECONDS:
            self._note(self._name_state(), self.report())
            self._noted_at = now

    def _refresh(self, version: object) -> None:
        if version != self._version:
            with self._reading():
                self._bell.want(list_audible(MAX_SUBSCRIPTIONS, self._now()))
            self._version = version

    def _answer_next(self) -> None:
        """Wait for the next answer that is due, at most until it is time to keep up, and do it."""
        if not self._bell.wait(self._clock, STEP_SECONDS):
            return
        with self._working():
            if not self._ending.is_set():
                self._answer(self._now())
        self._ending.wait(REST_SECONDS)

    # ---- for health ------------------------------------------------------------------------------
    def _name_state(self) -> str:
        return "ok" if self._listeners else "off"

    def report(self) -> dict[str, Any]:
        """What health shows: who listens to how much, how many wallets are heard, and when
        something was last told (ms).
        """
        told = [one.noticed_at for one in self._listeners if one.noticed_at is not None]
        return {
            "endpoints": {one.label: one.state for one in self._listeners},
            "subscriptions": sum(one.subscriptions for one in self._listeners),
            "heard": self._bell.count_heard(),
            "refused": sum(one.refused for one in self._listeners),
            "noticedAt": max(told, default=None),
        }


def list_websockets(config: Config) -> tuple[str, ...]:
    """Where nodes tell of transactions by themselves: as set, or of each RPC endpoint; nowhere
    where that is off.
    """
    if "off" in config.solana_ws_urls:
        return ()
    return config.solana_ws_urls or tuple(map(_derive_websocket, config.solana_rpc_urls))


def _derive_websocket(url: str) -> str:
    """The WebSocket of an RPC endpoint: the same URL, or the next port where it names one, as the
    validator and its tools have it.
    """
    parts = urlsplit(url)
    credentials, at, place = parts.netloc.rpartition("@")
    if parts.port:
        place = f"{place.removesuffix(f':{parts.port}')}:{min(parts.port + 1, 65_535)}"
    scheme = parts.scheme.replace("http", "ws")
    return parts._replace(scheme=scheme, netloc=f"{credentials}{at}{place}").geturl()


def list_audible(max_count: int, now: int) -> list[Audible]:
    """List the wallets to listen for and their token accounts, no more than can be subscribed to;
    `now` in ms.
    """
    wallets, ranks, accounts_of = _list_wallets(), _rank(now), _list_accounts(max_count)
    ranked = sorted(wallets, key=lambda one: (ranks.get(one.id, (False, 0)), -one.id), reverse=True)
    found, room = [], max_count
    for wallet in ranked:
        accounts = tuple(accounts_of.get(wallet.id, ())[: room + 1]) if room > 0 else ()
        room -= 1 + len(accounts)
        rank = ranks.get(wallet.id, (False, 0))
        found.append(Audible(wallet.id, wallet.address, accounts, rank))
    return found


def _list_wallets() -> list[WalletRow]:
    return [WalletRow._make(row) for row in database.execute_sql(WALLETS, (IS_PROGRAM,)).fetchall()]


def _rank(now: int) -> dict[int, tuple[bool, int]]:
    waiting = {wallet_id for (wallet_id,) in database.execute_sql(AWAITED).fetchall()}
    lately = database.execute_sql(LATELY, ((now - BUSY_MS) // 1000,)).fetchall()
    ranks = {one: (True, 0) for one in waiting}
    for wallet_id, count in lately:
        ranks[wallet_id] = (wallet_id in waiting, count)
    return ranks


def _list_accounts(max_count: int) -> dict[int, list[str]]:
    """The token accounts of each wallet that somebody holds, those first that moved last; one more
    than there can be room for, where there are more, so that the wallet does not pass for heard.
    """
    found: dict[int, list[str]] = {}
    for wallet_id, address in database.execute_sql(ACCOUNTS, (max_count + 1,)).fetchall():
        found.setdefault(wallet_id, []).append(address)
    return found
