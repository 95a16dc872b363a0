"""GET /api/health: whether this instance serves, and how its background jobs are. Public; 503 only
when the database cannot be read.
"""

import time
from typing import Any

import orjson
from flask import Blueprint, current_app
from peewee import PeeweeException

from accounts import quotas
from config import VERSION, Config
from storage import counters, database
from storage.trouble import TROUBLES
from web.api.legacy import respond
from web.api.market import show_market_health
from web.api.serialize import show_time
from web.server import connections

blueprint = Blueprint("health", __name__)
# a heartbeat is late after four intervals, but never before two minutes
STALE_INTERVALS, STALE_MS = (
    4,
    120_000,
)
JOBS = "SELECT name, state, heartbeat_at, last_success_at, last_error, details FROM job"
# named one by one, the ones looked at longest ago first
MAX_WALLETS = 50
WALLETS = """
SELECT COUNT(*), MIN(w.looked_at), COUNT(*) - COUNT(w.looked_at) FROM attachment a JOIN wallet w ON w.id = a.wallet_id WHERE a.detached_at IS NULL"""
LAGGING = """
SELECT w.address, w.looked_at, (SELECT COUNT(*) FROM sighting s WHERE s.wallet_id = w.id AND s.state = 'pending') FROM wallet w
JOIN attachment a ON a.wallet_id = w.id AND a.detached_at IS NULL ORDER BY w.looked_at NULLS FIRST LIMIT ?"""
# Wallet by wallet (SQLite keeps the order of a CROSS JOIN): nearly all sightings are not pending.
PENDING = """
SELECT COUNT(*) FROM attachment a CROSS JOIN sighting s WHERE s.wallet_id = a.wallet_id AND s.state = 'pending' AND a.detached_at IS NULL"""
REFUSED = """
SELECT w.address, s.signature, s.slot, s.problem FROM attachment a CROSS JOIN wallet w CROSS JOIN sighting s
WHERE w.id = a.wallet_id AND s.wallet_id = w.id AND s.state = 'pending' AND a.detached_at IS NULL AND s.problem IS NOT NULL ORDER BY s.id LIMIT ?"""


COUNT_TROUBLED = """
SELECT COUNT(*) FROM attachment a JOIN wallet w ON w.id = a.wallet_id
WHERE a.detached_at IS NULL AND w.trouble IS NOT NULL"""
TROUBLED = """
SELECT w.address, w.trouble, w.trouble_at, w.trouble_tries FROM attachment a
JOIN wallet w ON w.id = a.wallet_id WHERE a.detached_at IS NULL AND w.trouble IS NOT NULL
ORDER BY w.trouble_at, w.id LIMIT ?"""


@blueprint.get("/api/health")
def show_health():
    """One is made at a time, and who waits for it takes the next: counting what is behind and
    trying to write cost something.
    """
    now = time.time_ns() // 1_000_000
    return respond(*current_app.health_cache.find("health", object(), lambda: read_health(now)))


def read_health(now: int) -> tuple[dict[str, Any], int]:
    """(what is shown, status); `now` in ms."""
    config, store = current_app.config["CANDOR"], current_app.allowance.store
    try:
        shown, status = check_health(config, now), 200
    except PeeweeException:
        known = {
            "ok": False,
            database.engine: database.version(),
            "journal": None,
            **show_writing("unreachable"),
        }
        shown, status = (
            {"status": "down", "mode": "simulated", "database": known, "version": VERSION},
            503,
        )
    counting = counters.find_problem(store, now / 1000) is None
    # pages are served; the keyed interface answers 503
    if not counting and shown["status"] == "ok":
        shown["status"] = "degraded"
    told = {
        "allowance": {"ok": counting, "store": store.name},
        "connections": show_connections(config),
        "simulated": True,
    }
    return {**shown, **told}, status


def show_connections(config: Config) -> dict[str, Any]:
    """How many connections an address may have (in each worker), and how many were closed for it."""
    most = None if config.trusted_proxies else config.max_connections_per_address
    return {"maxPerAddress": most, "closed": connections.closed.total()}


def show_writing(trouble: str | None) -> dict[str, Any]:
    """Whether the database can be written, and why not, in a sentence."""
    return {"writable": trouble is None, "problem": trouble and TROUBLES[trouble]}


def check_health(config, now):
    """The health object; `degraded` where a job that is switched on is failing or silent."""
    jobs = {row[0]: row for row in database.execute_sql(JOBS)}
    observer = _show_job(jobs.get("observer"), config.observer_interval_seconds, now)
    scout = _show_job(jobs.get("scout"), config.scout_interval_seconds, now)
    engine = _show_job(jobs.get("paper"), config.paper_interval_seconds, now)
    states, trouble = {job["state"] for job in (observer, scout, engine)}, database.find_trouble()
    return {
        "status": "degraded" if trouble or states & {"failing", "late"} else "ok",
        "mode": "simulated",
        "engine": {name: engine[name] for name in ("heartbeatAt", "ageSeconds", "state")},
        "strategyEngine": engine,
        "walletObserver": {
            **observer,
            **_show_backlog(now),
            **_show_trouble(observer["lastError"]),
            **_show_requests(jobs.get("observer")),
        },
        "scout": {**scout, **show_market_health(now)},
        "database": {
            "ok": True,
            database.engine: database.version(),
            "journal": database.journal(),
            **show_writing(trouble),
        },
        "use": show_use(config, now),
        "version": VERSION,
    }


def show_use(config: Config, now: int) -> dict[str, Any]:
    """Bytes of the database, and of each quota the most that one owner uses; no owner is named."""
    uses = quotas.list_use(database.execute_sql, config, now)
    return {
        "databaseBytes": sum(size for _, size in database.list_sizes()),
        "quotas": [
            {
                "quota": use.quota,
                "setting": use.setting,
                "limit": use.limit,
                "mostUsed": use.used,
                "ownersAtLimit": use.owners_at_limit,
            }
            for use in uses
        ],
    }


def _show_job(row, interval_seconds, now):
    """One job: `off` (switched off), `unknown` (not run yet), `late` (its heartbeat stopped), else
    what it said of itself.
    """
    _, state, heartbeat_at, last_success_at, last_error, _ = row or (
        None,
        "unknown",
        None,
        None,
        None,
        None,
    )
    age = None if heartbeat_at is None else max(0, now - heartbeat_at)
    if not interval_seconds:
        state = "off"
    elif age is not None and age > max(STALE_MS, STALE_INTERVALS * 1000 * interval_seconds):
        state = "late"
    return {
        "state": state,
        "heartbeatAt": show_time(heartbeat_at),
        "ageSeconds": None if age is None else age // 1000,
        "lastSuccessAt": show_time(last_success_at),
        "lastError": last_error,
    }


def _show_backlog(now):
    """What is observed and how far behind it is: the wallet looked at longest ago, null while one
    was never looked at; receipts nothing could be derived from.
    """
    wallets, oldest, never = database.execute_sql(WALLETS).fetchone()
    lag = None if never or oldest is None else max(0, now - oldest) // 1000
    each = [
        {
            "wallet": address,
            "lagSeconds": None if looked_at is None else max(0, now - looked_at) // 1000,
            "pending": pending,
        }
        for address, looked_at, pending in database.execute_sql(LAGGING, (MAX_WALLETS,))
    ]
    refused = [
        {"wallet": address, "signature": signature, "slot": slot, "reason": problem}
        for address, signature, slot, problem in database.execute_sql(REFUSED, (MAX_WALLETS,))
    ]
    return {
        "wallets": wallets,
        "lagSeconds": lag,
        "pending": database.execute_sql(PENDING).fetchone()[0],
        "byWallet": each,
        "refused": refused,
    }


def _show_trouble(error):
    """The wallets that observing fails for at present, longest first, and what was said last."""
    rows = database.execute_sql(TROUBLED, (MAX_WALLETS,)).fetchall()
    count = database.execute_sql(COUNT_TROUBLED).fetchone()[0]
    troubled = [
        {"wallet": address, "reason": reason, "since": show_time(since), "tries": tries}
        for address, reason, since, tries in rows
    ]
    if error is None and troubled:
        error = f"{troubled[-1]['wallet']}: {troubled[-1]['reason']}"
    return {"lastError": error, "troubled": troubled, "troubledWallets": count}


def _show_requests(row):
    """What the last pass said of the nodes: requests in a minute, endpoints that rest, what is
    being waited for.
    """
    details = orjson.loads(row[5]) if row else {}
    return {
        name: details.get(name)
        for name in ("requestsLastMinute", "endpoints", "resting", "waitingFor")
    }
