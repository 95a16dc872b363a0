"""Check what a database tells of its instance: clock, jobs, transactions, quotas."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from accounts import quotas
from chain.ledger.coverage import NEAR_LIMIT_PERCENT
from chain.stored.columns import OBJECT, WALLET_PARTS
from chain.stored.summary import list_damaged
from config import Config
from operate import instance
from operate.findings import CLOCK_MS, SET_CLOCK, Finding, fine, look, show_span, show_time, wrong
from storage.stored import read_stored

# A job may fail for this long before somebody has to do something.
MAX_FAILING_MS = 3_600_000
# A job is late after this many intervals, and at least this many ms, as in health.
LATE_INTERVALS, LATE_MS = 4, 120_000
# A transaction is stuck after this many tries.
STUCK_TRIES = 5
DAY_MS = 86_400_000
# Candor did not exist before: a clock that is earlier is wrong.
FIRST_DAY_MS = 1_790_000_000_000


def check_contents(execute: Callable[..., Any], config: Config, now: int) -> Iterator[Finding]:
    running = instance.is_in_use(config.data_dir)
    yield (
        fine("a server is running here")
        if running
        else look("no server is running here", "`make run` starts one")
    )
    yield from check_clock(execute, now)
    yield from check_jobs(execute, config, now, running)
    yield from check_budgets(execute, now)
    yield from check_receipts(execute)
    yield from check_limits(execute, config)
    yield from check_derived(execute)
    yield from check_sums(execute)
    yield from check_witnessed(execute)
    yield from check_use(execute, config, now)


DATED = (
    *("owner.created_at", "bot.created_at", "key.created_at", "session.seen_at"),
    *("wallet.created_at", "wallet.polled_at", "attachment.attached_at", "post.created_at"),
    "job.heartbeat_at",
)


class JobRow(NamedTuple):
    name: str
    state: str
    heartbeat_at: int | None
    last_success_at: int | None
    last_error: str | None


JOBS = "SELECT name, state, heartbeat_at, last_success_at, last_error FROM job"
SCOUT = "SELECT details FROM job WHERE name = 'scout'"


def check_clock(execute: Callable[..., Any], now: int) -> Iterator[Finding]:
    """Check that no time in the columns DATED is later than `now` (ms), as after a clock was set
    back.
    """
    newest, place = max(
        (execute(f"SELECT MAX({column}) FROM {name}").fetchone()[0] or 0, f"{name}.{column}")
        for name, column in (one.split(".") for one in DATED)
    )
    if now < FIRST_DAY_MS:
        yield wrong(
            f"the clock says {show_time(now)}, at least {show_span(FIRST_DAY_MS - now)} behind:"
            " before this program was",
            f"{SET_CLOCK}, then restart the server",
        )
    elif now < newest - CLOCK_MS:
        yield wrong(
            f"the clock says {show_time(now)}, {show_span(newest - now)} behind the newest time"
            f" that is stored here ({place}: {show_time(newest)})",
            f"compare it with another clock. If it is behind: {SET_CLOCK}. If it is right, it ran"
            " ahead when that was stored: nothing needs to be done, and this ends once that time"
            " has come",
        )
    else:
        yield fine(f"the clock says {show_time(now)}")


def check_jobs(
    execute: Callable[..., Any], config: Config, now: int, running: bool
) -> Iterator[Finding]:
    # Before the first owner no job can have succeeded.
    began = execute("SELECT MIN(created_at) FROM owner").fetchone()[0] or now
    rows = {row.name: row for row in map(JobRow._make, execute(JOBS))}
    for name, seconds in (
        ("observer", config.observer_interval_seconds),
        ("scout", config.scout_interval_seconds),
        ("paper", config.paper_interval_seconds),
    ):
        if seconds:
            yield check_job(name, seconds, rows.get(name), began, now, running)
        else:
            yield look(
                f"the job {name} is switched off",
                f"unset {name.upper()}_INTERVAL_SECONDS to have it run",
            )


def check_budgets(execute: Callable[..., Any], now: int) -> Iterator[Finding]:
    budgets = [
        (name, one)
        for (details,) in execute(SCOUT)
        for name, one in (read_stored(details, OBJECT) or {}).get("budgets", {}).items()
        if one["day"] == now // DAY_MS
    ]
    for name, one in budgets:
        used = f"{name} got {one['requests']:,} of the {one['allowed']:,} requests of a day"
        if one.get("heldBack"):
            yield look(
                f"{used}; its limits made others wait (today: {one['heldBack']:,}, the last at"
                f" {show_time(one['heldBackAt'])}), so prices are older than they should be",
                "a longer SCOUT_INTERVAL_SECONDS asks less; nothing else on this address should ask"
                " the same service",
            )
        else:
            yield fine(used)


def check_job(
    name: str, seconds: float, row: JobRow | None, began: int, now: int, running: bool
) -> Finding:
    if row is None:
        return look(f"the job {name} has not run yet")
    if running and now - (row.heartbeat_at or 0) > max(LATE_MS, LATE_INTERVALS * 1000 * seconds):
        return wrong(
            f"the job {name} has shown no sign of life since {show_time(row.heartbeat_at)}",
            "check the server's log, and restart the server",
        )
    if row.state != "failing":
        if row.last_success_at is None:
            return fine(f"the job {name} has not run yet, or is switched off")
        return fine(f"the job {name} last succeeded at {show_time(row.last_success_at)}")
    last = show_time(row.last_success_at)
    text = f"the job {name} is failing ({row.last_error}); it last succeeded {last}"
    advice = (
        "`doctor --online` asks each endpoint and provider"
        if not (row.last_error or "").startswith("internal")
        else "the server's log has the stack: please report it"
    )
    return (
        wrong(text, advice)
        if now - (row.last_success_at or began) > MAX_FAILING_MS
        else look(text, advice)
    )


def check_receipts(execute: Callable[..., Any]) -> Iterator[Finding]:
    count, problem = execute(
        "SELECT COUNT(*), MAX(problem) FROM sighting WHERE state = 'pending' AND (tries >= ? OR"
        " problem IS NOT NULL)",
        (STUCK_TRIES,),
    ).fetchone()
    if count:
        yield look(
            f"{count} receipts are listed and no endpoint gives a usable"
            f" one{f' ({problem})' if problem else ''}: their wallets stay `partial`",
            "name another endpoint in SOLANA_RPC_URLS; they are asked for again by themselves",
        )
    else:
        yield fine("no receipt is stuck")


NEAR_LIMIT = f"""
SELECT address, filled, history_from FROM wallet
WHERE filled >= {NEAR_LIMIT_PERCENT} ORDER BY filled DESC, id"""


def check_limits(execute: Callable[..., Any], config: Config) -> Iterator[Finding]:
    for address, filled, history_from in execute(NEAR_LIMIT).fetchall():
        what = f"wallet {address} is at {filled}% of the limit on transactions or token accounts"
        if history_from is not None:
            what += f"; transactions before slot {history_from} aren't loaded"
        yield look(
            what,
            f"raise MAX_RECEIPTS_PER_WALLET ({config.max_receipts_per_wallet}) to load more; new"
            " transactions are always loaded",
        )


DERIVED = f"SELECT address, coverage, {', '.join(WALLET_PARTS)} FROM wallet ORDER BY id"


def check_derived(execute: Callable[..., Any]) -> Iterator[Finding]:
    for address, coverage, *texts in execute(DERIVED):
        if damaged := list_damaged(coverage, texts):
            yield wrong(
                f"{', '.join(damaged)} of wallet {address} can't be read, so nobody is shown them",
                "the observer's next poll rebuilds them, and so does `app.py rebuild`; check the"
                " disk",
            )


class ImbalanceRow(NamedTuple):
    """A wallet whose money the ledgers cannot follow, by how many lamports and by how many raw
    units of stablecoins: JSON by mint.
    """

    address: str
    imbalance: int
    quote_imbalance: str


IMBALANCES = """
SELECT address, imbalance, quote_imbalance FROM wallet
WHERE imbalance <> 0 OR quote_imbalance <> '{}' ORDER BY id"""


def check_sums(execute: Callable[..., Any]) -> Iterator[Finding]:
    rows = list(map(ImbalanceRow._make, execute(IMBALANCES)))
    for row in rows:
        # check_derived names damaged JSON.
        left_over = read_stored(row.quote_imbalance, WALLET_PARTS["quote_imbalance"].shape) or {}
        missing = [f"{row.imbalance} lamports"] if row.imbalance else []
        missing += [f"{raw} raw units of {mint}" for mint, raw in left_over.items()]
        if missing:
            yield wrong(
                f"the books of {row.address} do not balance: {' and '.join(missing)} are missing",
                "this is a defect of Candor: run `app.py rebuild`, and report it if it stays",
            )
    if not rows:
        yield fine("the books of every wallet balance to the lamport and to the raw unit")


def check_witnessed(execute: Callable[..., Any]) -> Iterator[Finding]:
    for url, trouble in execute("SELECT url, trouble FROM witnessed ORDER BY url"):
        if trouble:
            yield look(
                f"the log of {url} is not what it was: {trouble}",
                "ask its operator; `app.py witness URL --forget` begins anew",
            )


def check_use(execute: Callable[..., Any], config: Config, now: int) -> Iterator[Finding]:
    uses = quotas.list_use(execute, config, now)
    for use in uses:
        if use.owners_at_limit:
            yield look(
                f"{use.owners_at_limit} of the accounts are at their quota {use.setting}"
                f" ({use.limit})",
                f"they are told so; raise {use.setting}, or act for them on the command line,"
                " which has no quota",
            )
    yield fine(
        "most used by one account: "
        + ", ".join(f"{use.used} of {use.limit} ({use.setting})" for use in uses)
    )
