"""The job that subscribes to wallets at nodes and has them polled when a notice arrives. Scheduled
polls continue regardless.
"""

import logging
import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlsplit

from peewee import OperationalError

from chain.stored.attachments import HELD
from config import Config
from models import IS_PROGRAM, Wallet
from observing.listening import Listener
from observing.notices import Subscription
from observing.state import State
from storage import database

# More endpoints would send the same notices.
MAX_LISTENERS = 4
# Per endpoint. If one allows fewer, it says so and gets fewer.
MAX_SUBSCRIPTIONS = 1_000
# Between checks for new wallets, and between updates for health.
REFRESH_SECONDS, NOTE_SECONDS = 3.0, 15.0
STEP_SECONDS = 0.5
# Delay after a bug, or while the database is busy.
FAULT_SECONDS, BUSY_SECONDS = 5.0, 1.0
BUSY_MS = 7 * 86_400_000
# One query for all wallets: a query per wallet was most of an idle server's load.
ACCOUNTS = f"""
SELECT wallet_id, address FROM (
    SELECT d.wallet_id, d.address, ROW_NUMBER() OVER (
        PARTITION BY d.wallet_id ORDER BY d.head_slot DESC NULLS LAST, d.id) AS place
    FROM address d JOIN wallet w ON w.id = d.wallet_id AND w.address <> d.address
    WHERE d.wallet_id IN {HELD}) ranked
WHERE place <= ? ORDER BY wallet_id, place"""
# Plain SQL: it runs after each write, and peewee would take longer to build it than SQLite to run
# it.
WALLETS = f"""
SELECT id, address FROM wallet WHERE id IN {HELD} AND (trouble IS NULL OR trouble <> ?)"""
# A post may cite a trade of any wallet of its bot.
AWAITED = """
SELECT wallet_id FROM post WHERE status = 'pending' AND wallet_id IS NOT NULL
UNION SELECT c.wallet_id FROM post p JOIN attachment c ON c.bot_id = p.bot_id
WHERE p.status = 'pending' AND c.detached_at IS NULL"""
LATELY = "SELECT wallet_id, COUNT(*) FROM trade WHERE block_time >= ? GROUP BY wallet_id"
log = logging.getLogger("candor.subscriptions")


Session = Callable[[], AbstractContextManager[Any]]


class Subscriptions:
    """Runs in its own thread.

    `wake` starts a pass of the observer, `session` opens a database connection, `note` records the
    status for health, `now` returns the time in ms.
    """

    def __init__(
        self,
        config: Config,
        state: State,
        wake: Callable[[], object],
        session: Session,
        note: Callable[[str, dict[str, Any]], object],
        now: Callable[[], int],
    ) -> None:
        self._notices, self._clock, self._now = state.notices, state.clock, now
        self._wake, self._session, self._note = wake, session, note
        urls = list_websockets(config) if config.observer_interval_seconds else ()
        self._listeners = [
            Listener(url, f"endpoint {number}", self._notices, MAX_SUBSCRIPTIONS, self._clock)
            for number, url in enumerate(urls[:MAX_LISTENERS], 1)
        ]
        self._refreshed_at = self._noted_at = float("-inf")
        # The database version when its wallets were last read.
        self._version: object = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="subscriptions", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Stop. Waits up to this long for a running step."""
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
                for listener in () if begun else self._listeners:
                    listener.start()
                begun = True
                self._poll_noticed()
            except OperationalError as error:
                # The lock is lost, or the database is busy or unreachable.
                log.info("subscriptions paused: %s", type(error).__name__)
                self._ending.wait(BUSY_SECONDS)
            except Exception as error:
                # A bug in Candor; the thread continues, like that of the jobs.
                log.error("subscriptions failed; restarting", exc_info=error)
                self._ending.wait(FAULT_SECONDS)

    def _keep_up(self) -> None:
        """Update the wanted subscriptions, and record for health what is covered."""
        now = self._clock()
        if self._listeners and now - self._refreshed_at >= REFRESH_SECONDS:
            self._refresh(database.data_version())
            self._refreshed_at = self._clock()
        if now - self._noted_at >= NOTE_SECONDS:
            self._note("ok" if self._listeners else "off", self.report())
            self._noted_at = now

    def _refresh(self, version: object) -> None:
        if version != self._version:
            with self._session():
                self._notices.want(list_subscriptions(self._now()))
            self._version = version

    def _poll_noticed(self) -> None:
        due = self._notices.take(self._clock, STEP_SECONDS)
        if due and not self._ending.is_set():
            with self._session():
                make_due(due)
            self._wake()

    def report(self) -> dict[str, Any]:
        """Return the status for health: each endpoint's state, the number of covered wallets, and
        when a notice last arrived (ms).
        """
        noticed = [one.noticed_at for one in self._listeners if one.noticed_at is not None]
        return {
            "endpoints": {one.label: one.state for one in self._listeners},
            "subscriptions": sum(one.subscriptions for one in self._listeners),
            "heard": self._notices.count_covered(),
            "refused": sum(one.refused for one in self._listeners),
            "noticedAt": max(noticed, default=None),
        }


def make_due(wallet_ids: Collection[int]) -> None:
    """Make the next pass poll these wallets fully."""
    Wallet.update(due_at=0).where(Wallet.id.in_(wallet_ids)).execute()


def list_websockets(config: Config) -> tuple[str, ...]:
    """Return the configured WebSocket URLs, or those derived from the RPC endpoints; none if turned
    off.
    """
    if "off" in config.solana_ws_urls:
        return ()
    return config.solana_ws_urls or tuple(map(_derive_websocket, config.solana_rpc_urls))


def _derive_websocket(url: str) -> str:
    """Return the same URL or, if it has a port, with the next port, as the validator and its tools
    do.
    """
    parts = urlsplit(url)
    credentials, at, place = parts.netloc.rpartition("@")
    if parts.port:
        place = f"{place.removesuffix(f':{parts.port}')}:{min(parts.port + 1, 65_535)}"
    scheme = parts.scheme.replace("http", "ws")
    return parts._replace(scheme=scheme, netloc=f"{credentials}{at}{place}").geturl()


def list_subscriptions(now: int) -> tuple[Subscription, ...]:
    """List subscriptions: wallets before token accounts, those with pending posts first, then those
    that trade most. `now` in ms.
    """
    ranks, accounts_of = _rank(now), _list_accounts()
    wallets: list[tuple[int, str]] = database.execute_sql(WALLETS, (IS_PROGRAM,)).fetchall()
    wallets.sort(key=lambda row: (ranks.get(row[0], (False, 0)), -row[0]), reverse=True)
    wanted = [Subscription(*row) for row in wallets]
    for number, address in wallets:
        wanted += [Subscription(number, address, one) for one in accounts_of.get(number, ())]
    return tuple(wanted)


def _rank(now: int) -> dict[int, tuple[bool, int]]:
    waiting = {wallet_id for (wallet_id,) in database.execute_sql(AWAITED).fetchall()}
    lately = database.execute_sql(LATELY, ((now - BUSY_MS) // 1000,)).fetchall()
    ranks = {one: (True, 0) for one in waiting}
    for wallet_id, count in lately:
        ranks[wallet_id] = (wallet_id in waiting, count)
    return ranks


def _list_accounts() -> dict[int, list[str]]:
    """Return token accounts by wallet, most recently active first. If a wallet has too many to
    subscribe to, return just enough to show that.
    """
    found: dict[int, list[str]] = {}
    for wallet_id, address in database.execute_sql(ACCOUNTS, (MAX_SUBSCRIPTIONS,)).fetchall():
        found.setdefault(wallet_id, []).append(address)
    return found
