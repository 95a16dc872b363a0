"""GET /api/health: whether this instance is serving, and the state of its background jobs.

It is public. The status is 503 if the database can't be read, or DATA_DIR is missing or read-only.
"""

from typing import Annotated, Any, Literal, cast

from flask import Blueprint, g
from peewee import PeeweeException
from werkzeug.wrappers import Response

from chain.amounts import exact
from chain.ledger.coverage import NEAR_LIMIT_PERCENT
from chain.reading.currencies import CURRENCIES
from chain.stored.attachments import COUNT_HELD, IS_HELD
from chain.stored.derived import UNREADABLE, read_coverage
from chain.stored.tables import WALLET_PARTS
from config import VERSION, Config
from models import IS_PROGRAM
from storage import counters, database
from storage.rows import read, select_value
from storage.trouble import TROUBLES, name_trouble
from web.api.market import FeedHealth, ProviderBudget, read_details, show_market_health
from web.api.serialize import count_seconds, fill, show_time
from web.api.shapes import (
    Address,
    Exact,
    NotRequired,
    Signature,
    Time,
    TypedDict,
    Whole,
    described,
)
from web.api.v1 import respond, route
from web.server.application import find_app

blueprint = Blueprint("health", __name__)
# Problems that only the operator can fix.
DOWN = ("gone", "read_only")
# A heartbeat is late after four intervals, but never before two minutes.
STALE_INTERVALS, STALE_MS = 4, 120_000


JobState = Literal["ok", "failing", "late", "off", "unknown"]


class JobHealth(TypedDict):
    """A background job. It is `failing` if its passes have failed for 40 seconds longer than its
    interval, or if one failed because of a bug. Before that, only `lastError` and `status` show a
    failure.
    """

    state: JobState
    heartbeatAt: Time | None
    ageSeconds: Annotated[int | None, described("seconds since the heartbeat")]
    lastSuccessAt: Time | None
    lastError: str | None


class WalletNote(TypedDict):
    """A note about a wallet. Each list describes its members."""

    wallet: Address
    lagSeconds: NotRequired[
        Annotated[int | None, described("seconds since the last poll; null before the first poll")]
    ]
    pending: NotRequired[Annotated[int, described("transactions not fetched yet")]]
    signature: NotRequired[Signature]
    slot: NotRequired[int]
    reason: NotRequired[str]
    since: NotRequired[Time]
    tries: NotRequired[
        Annotated[int, described("consecutive failures; the observer retries with backoff")]
    ]
    percent: NotRequired[int]
    differenceLamports: NotRequired[Whole]
    byCurrency: NotRequired[Annotated[dict[str, Exact], described("differences by stablecoin")]]


class BellHealth(TypedDict):
    """Subscriptions to nodes. `silent`: no subscription works, so only polls find transactions.
    `unknown`: the subscription job hasn't reported recently.
    """

    state: Literal["listening", "silent", "off", "unknown"]
    heard: Annotated[int, described("wallets fully covered by a subscription")]
    refused: Annotated[int, described("subscriptions that nodes refused at the last connection")]
    subscriptions: int
    lastNoticeAt: Annotated[Time | None, described("time of the last notice")]
    endpoints: dict[str, Literal["connecting", "listening", "resting"]]


class ObserverHealth(JobHealth):
    """The job that observes wallets, and its backlog."""

    wallets: int
    lagSeconds: Annotated[
        int | None, described("seconds since the least recently polled wallet was polled")
    ]
    pending: int
    byWallet: Annotated[
        list[WalletNote],
        described("the least recently polled wallets, with lagSeconds and pending"),
    ]
    damagedCoverage: Annotated[
        list[Address],
        described("wallets in byWallet with unreadable coverage; the next poll rebuilds it"),
    ]
    refused: Annotated[
        list[WalletNote],
        described("transactions that couldn't be interpreted, with signature, slot and reason"),
    ]
    nearLimit: Annotated[
        list[WalletNote],
        described(
            "wallets at 80% or more of MAX_RECEIPTS_PER_WALLET or of the limit on token"
            " accounts, with percent. At 100%, the oldest transactions or untraded accounts"
            " may be left out"
        ),
    ]
    troubled: Annotated[
        list[WalletNote],
        described("wallets that the observer can't update right now, with reason, since and tries"),
    ]
    troubledWallets: int
    differences: Annotated[
        list[WalletNote],
        described(
            "wallets whose books don't balance although no transaction is missing, with"
            " differenceLamports and byCurrency. Please report this bug"
        ),
    ]
    walletsWithDifference: int
    requestsLastMinute: Annotated[
        int | None, described("requests to nodes; null before the first pass")
    ]
    endpoints: int | None
    resting: Annotated[
        dict[str, float] | None, described("seconds until each paused node is used again")
    ]
    waitingFor: str | None
    bell: BellHealth


class ScoutHealth(JobHealth):
    """The job that discovers and prices tokens."""

    discovery: Annotated[FeedHealth, described("health of token discovery and pricing")]
    safety: Annotated[FeedHealth, described("health of mint account checks")]
    budgets: Annotated[
        dict[str, ProviderBudget], described("budgets by provider; empty before the first pass")
    ]


class DatabaseHealth(TypedDict):
    """The database: its version and journal mode."""

    ok: bool
    sqlite: NotRequired[Annotated[str, described("the version, if the database is SQLite")]]
    postgresql: NotRequired[
        Annotated[str | None, described("the version, if the database is PostgreSQL")]
    ]
    journal: str | None
    writable: Annotated[
        bool,
        described(
            "false if writes fail because the disk is full or another process keeps the database "
            "locked"
        ),
    ]
    problem: Annotated[str | None, described("why the database isn't writable")]


class Health(TypedDict):
    """The status of this instance and its jobs. The jobs are omitted while it is down."""

    status: Literal["ok", "degraded", "down"]
    mode: Annotated[
        Literal["simulated"], described("mode of the engine, which never trades real funds")
    ]
    simulated: Annotated[bool, described("always true: no real trades")]
    engine: NotRequired[Annotated[JobHealth, described("same as strategyEngine")]]
    strategyEngine: NotRequired[Annotated[JobHealth, described("the job that runs paper mode")]]
    walletObserver: NotRequired[
        Annotated[ObserverHealth, described("the job that observes wallets")]
    ]
    scout: NotRequired[Annotated[ScoutHealth, described("the job that checks the market")]]
    database: DatabaseHealth
    allowanceOk: Annotated[
        bool,
        described("whether requests can be counted; if not, every request with a key is refused"),
    ]
    allowanceStore: Literal["file", "redis"]
    version: str


# Times are in ms. `details` is JSON that the jobs wrote.
JOBS = "SELECT name, state, heartbeat_at, last_success_at, last_error, details FROM job"
# Maximum number of wallets listed individually, the least recently polled first.
MAX_WALLETS = 50
# Troubled wallets, wallets that don't balance and refused transactions are rare, so each has its
# own index.
COUNT_OBSERVED = f"""
SELECT {COUNT_HELD} - (SELECT COUNT(*) FROM wallet w
       WHERE w.trouble IS NOT NULL AND w.trouble = ? AND {IS_HELD})"""
# Most wallets are attached, so few are skipped.
LAGGING = f"""
SELECT w.address, w.polled_at, (SELECT COUNT(*) FROM sighting s
       WHERE s.wallet_id = w.id AND s.state = 'pending') AS pending, w.coverage
FROM wallet w WHERE {IS_HELD} AND (w.trouble IS NULL OR w.trouble <> ?)
ORDER BY w.polled_at NULLS FIRST LIMIT ?"""
PENDING = f"""
SELECT CAST(COALESCE(SUM(p.pending), 0) AS BIGINT)
FROM (SELECT wallet_id, COUNT(*) AS pending FROM sighting WHERE state = 'pending'
      GROUP BY wallet_id) p
JOIN wallet w ON w.id = p.wallet_id WHERE {IS_HELD}"""
REFUSED = f"""
SELECT w.address, s.signature, s.slot, s.problem
FROM sighting s CROSS JOIN wallet w
WHERE s.problem IS NOT NULL AND s.state = 'pending' AND w.id = s.wallet_id AND {IS_HELD}
ORDER BY s.id LIMIT ?"""
NEAR_LIMIT = f"""
SELECT w.address, w.filled FROM wallet w
WHERE w.filled >= {NEAR_LIMIT_PERCENT} AND {IS_HELD} ORDER BY w.filled DESC, w.id LIMIT ?"""
IN_TROUBLE = f"FROM wallet w WHERE w.trouble IS NOT NULL AND {IS_HELD}"
COUNT_TROUBLED = f"SELECT COUNT(*) {IN_TROUBLE}"
TROUBLED = f"""
SELECT w.address, w.trouble, w.trouble_at, w.trouble_tries
{IN_TROUBLE} ORDER BY w.trouble_at, w.id LIMIT ?"""

# Wallets whose books don't balance, and by how many lamports and raw units of stablecoins (by
# mint).
DIFFERING = f"""FROM wallet w
WHERE (w.imbalance <> 0 OR w.stablecoin_imbalance <> '{{}}') AND {IS_HELD}"""
COUNT_DIFFERENCES = f"SELECT COUNT(*) {DIFFERING}"
DIFFERENCES = (
    f"SELECT w.address, w.imbalance, w.stablecoin_imbalance {DIFFERING} ORDER BY w.id LIMIT ?"
)


@route(blueprint, "get", "/api/health", Health)
def get_health() -> Response:
    """Status of this instance and its jobs. Returns 503 with the same fields if the database can't
    be read.
    """
    try:
        shown = check_instance()
    except PeeweeException as error:
        trouble = name_trouble(error, find_app().settings.data_dir)
        shown = {
            "status": "down",
            "mode": "simulated",
            "database": show_database(trouble, ok=False, journal=None),
            **show_allowance(),
            "version": VERSION,
        }
    return respond({**shown, "simulated": True}, 503 if shown["status"] == "down" else 200)


def check_instance() -> dict[str, Any]:
    """Return the Health object, with whether requests can be counted."""
    shown, allowance = check_health(find_app().settings, g.now), show_allowance()
    # Pages still work in this case, but requests with a key get 503.
    if not allowance["allowanceOk"] and shown["status"] == "ok":
        shown["status"] = "degraded"
    return {**shown, **allowance}


def show_allowance() -> dict[str, Any]:
    store = find_app().allowance.store
    is_ok = counters.find_problem(store, g.now / 1000) is None
    return {"allowanceOk": is_ok, "allowanceStore": store.name}


def show_database(trouble: str | None, *, ok: bool, journal: str | None) -> dict[str, Any]:
    return {
        "ok": ok,
        database.engine: database.version(),
        "journal": journal,
        "writable": trouble is None,
        "problem": trouble and TROUBLES[trouble],
    }


def check_health(config: Config, now: int) -> dict[str, Any]:
    """Return the Health object: `degraded` if an enabled job is silent or its last pass failed."""
    jobs = {row.name: row for row in read(JOBS)}
    observer = _show_job(jobs.get("observer"), config.observer_interval_seconds, now)
    scout = _show_job(jobs.get("scout"), config.scout_interval_seconds, now)
    engine = _show_job(jobs.get("paper"), config.paper_interval_seconds, now)
    is_unwell, trouble = any(map(_is_unwell, (observer, scout, engine))), database.find_trouble()
    status = "degraded" if trouble or is_unwell else "ok"
    return {
        "status": "down" if trouble in DOWN else status,
        "mode": "simulated",
        "engine": engine,
        "strategyEngine": engine,
        "walletObserver": {
            **observer,
            **_show_backlog(now),
            **_show_trouble(observer["lastError"]),
            **_show_differences(),
            **_show_requests(jobs.get("observer")),
            "bell": _show_bell(jobs.get("bell"), observer["state"], now),
        },
        "scout": {**scout, **show_market_health(now)},
        "database": show_database(trouble, ok=trouble != "gone", journal=database.journal()),
        "version": VERSION,
    }


def show_scout(now: int) -> dict[str, Any]:
    jobs = {row.name: row for row in read(JOBS)}
    seconds = find_app().settings.scout_interval_seconds
    return {**_show_job(jobs.get("scout"), seconds, now), **show_market_health(now)}


def _show_job(row: Any, interval_seconds: float, now: int) -> JobHealth:
    """Show a job: `off`, `unknown` (not run yet), `late` (no heartbeat), or the stored state."""
    if row is None:
        state = "unknown" if interval_seconds else "off"
        nothing: Any = dict.fromkeys(JobHealth.__annotations__)
        return cast(JobHealth, {**nothing, "state": state})
    state, age = row.state, count_seconds(row.heartbeat_at, now)
    if not interval_seconds:
        state = "off"
    elif row.heartbeat_at is not None and now - row.heartbeat_at > max(
        STALE_MS, STALE_INTERVALS * 1000 * interval_seconds
    ):
        state = "late"
    return fill(JobHealth, row, state=state, ageSeconds=age)


def _is_unwell(job: JobHealth) -> bool:
    return job["state"] != "off" and (job["state"] == "late" or job["lastError"] is not None)


def _show_backlog(now: int) -> dict[str, Any]:
    """Show observed wallets, the least recent poll, and transactions that couldn't be processed."""
    lagging = read(LAGGING, (IS_PROGRAM, MAX_WALLETS))
    return {
        "wallets": select_value(COUNT_OBSERVED, (IS_PROGRAM,)),
        "lagSeconds": count_seconds(lagging[0].polled_at, now) if lagging else None,
        "pending": select_value(PENDING),
        "byWallet": [
            {
                "wallet": row.address,
                "lagSeconds": count_seconds(row.polled_at, now),
                "pending": row.pending,
            }
            for row in lagging
        ],
        # The next poll rebuilds it. If an address stays listed, its wallet isn't being polled.
        "damagedCoverage": [
            row.address for row in lagging if read_coverage(row.coverage) is UNREADABLE
        ],
        "refused": _list_notes(REFUSED, "signature", "slot", "reason"),
        "nearLimit": _list_notes(NEAR_LIMIT, "percent"),
    }


def _list_notes(sql: str, *names: str) -> list[dict[str, Any]]:
    """List notes about wallets. `names`: a member for each column after the address."""
    found = database.execute_sql(sql, (MAX_WALLETS,)).fetchall()
    return [dict(zip(("wallet", *names), row, strict=True)) for row in found]


def _show_trouble(error: str | None) -> dict[str, Any]:
    notes = _list_notes(TROUBLED, "reason", "since", "tries")
    if error is None and notes:
        error = f"{notes[-1]['wallet']}: {notes[-1]['reason']}"
    return {
        "lastError": error,
        "troubled": [{**one, "since": show_time(one["since"])} for one in notes],
        "troubledWallets": select_value(COUNT_TROUBLED),
    }


def _show_differences() -> dict[str, Any]:
    """Show wallets whose books don't balance. That's a bug, so the state doesn't change."""
    return {
        "differences": [
            {
                "wallet": row.address,
                "differenceLamports": str(row.imbalance),
                "byCurrency": {
                    CURRENCIES[money].symbol: exact(raw, CURRENCIES[money].decimals)
                    for money, raw in (row.stablecoin_imbalance or {}).items()
                    if money in CURRENCIES
                },
            }
            for row in read(DIFFERENCES, (MAX_WALLETS,), **WALLET_PARTS)
        ],
        "walletsWithDifference": select_value(COUNT_DIFFERENCES),
    }


def _show_requests(row: Any) -> dict[str, Any]:
    """Show the last pass's requests per minute, paused endpoints, and what it is waiting for."""
    details = read_details(row and row.details)
    return {
        name: details.get(name)
        for name in ("requestsLastMinute", "endpoints", "resting", "waitingFor")
    }


def _show_bell(row: Any, observer: str, now: int) -> dict[str, Any]:
    """Show whether subscriptions work, how many wallets they cover, and the last notice.

    Without subscriptions, polls find everything, so their absence isn't a fault.
    """
    details = read_details(row and row.details)
    heartbeat_at = row.heartbeat_at if row else None
    late = heartbeat_at is None or now - heartbeat_at > STALE_MS
    endpoints = details.get("endpoints") or {}
    if observer == "off" or (row is not None and row.state == "off"):
        state = "off"
    elif late:
        state = "unknown"
    else:
        state = "listening" if "listening" in endpoints.values() else "silent"
    listening = state == "listening"
    return {
        "state": state,
        "heard": details.get("heard", 0) if listening else 0,
        "refused": details.get("refused", 0) if listening or state == "silent" else 0,
        "subscriptions": details.get("subscriptions", 0) if listening else 0,
        "lastNoticeAt": show_time(details.get("noticedAt")),
        "endpoints": endpoints if listening or state == "silent" else {},
    }
