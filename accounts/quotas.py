"""Quotas per owner: what one owner uses, and the most any owner uses.

A quota refuses new data and never deletes old data. It is checked inside the write transaction, of
which only one runs at a time, so there is no race. The operator's command line is exempt
(config.lift_quotas). 1 MB is 1,000,000 bytes.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from config import Config
from storage import database

MB = 1_000_000
DAY_MS = 86_400_000
# Config settings by quota name (as in API answers).
SETTINGS = {
    "posts_kept_mb": "max_posts_kept_mb",
    "wallet_changes_per_day": "max_wallet_changes_per_day",
    "traders": "max_traders_per_owner",
    "wallets": "max_wallets_per_owner",
    "hooks": "max_hooks_per_owner",
}
POSTS = "SELECT posts_bytes FROM owner WHERE id = (SELECT owner_id FROM bot WHERE id = ?)"
KNOWN = "SELECT 1 FROM post WHERE bot_id = ? AND source = 'bot' AND event_id = ?"
# Wallets disconnected, by detaching, replacing or retiring. Connecting a first wallet is free.
GIVEN_UP = "(SELECT bot_id FROM attachment WHERE detached_at > ?)"
CHANGES = f"SELECT COUNT(*) FROM {GIVEN_UP} a JOIN bot b ON b.id = a.bot_id WHERE b.owner_id = ?"
TRADERS = "SELECT COUNT(*) FROM trader WHERE owner_id = ? AND retired_at IS NULL"
HOOKS = "SELECT COUNT(*) FROM hook WHERE owner_id = ?"
HELD = "attachment a JOIN bot b ON b.id = a.bot_id WHERE a.detached_at IS NULL"
WALLETS = f"SELECT COUNT(*) FROM {HELD} AND b.owner_id = ?"
# The highest use by one owner, and the number of owners at the limit. Owners with less than 1 MB of
# posts count as 0; the partial index covers the rest.
MAX_POSTS = (
    "SELECT COALESCE(MAX(posts_bytes), 0), COUNT(CASE WHEN posts_bytes >= ? THEN 1 END) FROM owner"
    " WHERE posts_bytes >= 1000000"
)
MAX_OF = (
    "SELECT COALESCE(MAX(n), 0), COUNT(CASE WHEN n >= ? THEN 1 END) FROM (SELECT COUNT(*) AS n FROM"
    " {} GROUP BY owner_id) AS by_owner"
)
MAX_CHANGES = MAX_OF.format(f"{GIVEN_UP} a JOIN bot b ON b.id = a.bot_id")
MAX_HOOKS = MAX_OF.format("hook")
MAX_TRADERS = MAX_OF.format("trader WHERE retired_at IS NULL")
# The owner of each attached wallet. Counted in Python, which is faster than SQLite's GROUP BY.
HOLDERS = f"SELECT b.owner_id FROM {HELD}"


class Use(NamedTuple):
    """How much of a quota one owner uses.

    If `owners_at_limit` is set: the most any owner uses, and how many are at the limit.
    """

    quota: str
    limit: int
    used: int
    owners_at_limit: int = 0

    @property
    def setting(self) -> str:
        return SETTINGS[self.quota].upper()

    @property
    def is_full(self) -> bool:
        return self.used >= self.limit


def find_limit(config: Config, quota: str) -> int:
    limit: int = getattr(config, SETTINGS[quota])
    return limit


# ---- what one owner uses -------------------------------------------------------------------------
def find_posts_kept(config: Config, bot_id: int) -> Use:
    """MB of posts of a bot's owner. The post that reaches the limit is still accepted."""
    kept = database.execute_sql(POSTS, (bot_id,)).fetchone()[0]
    return Use("posts_kept_mb", config.max_posts_kept_mb, kept // MB)


def is_known(bot_id: int, event_id: str | None) -> bool:
    """Whether this event already has a post: retries don't count toward the quota."""
    return database.execute_sql(KNOWN, (bot_id, event_id)).fetchone() is not None


def find_wallet_changes(config: Config, owner_id: int, now: int) -> Use:
    """Wallets disconnected in the last 24 hours."""
    since = now - DAY_MS
    changes = database.execute_sql(CHANGES, (since, owner_id)).fetchone()[0]
    return Use("wallet_changes_per_day", config.max_wallet_changes_per_day, changes)


def find_wallets(config: Config, owner_id: int, given_up: int = 0) -> Use:
    """Wallets attached to the owner's bots, minus `given_up`, which make room for a new one."""
    held = database.execute_sql(WALLETS, (owner_id,)).fetchone()[0]
    return Use("wallets", config.max_wallets_per_owner, held - given_up)


def find_traders(config: Config, owner_id: int) -> Use:
    return Use(
        "traders",
        config.max_traders_per_owner,
        database.execute_sql(TRADERS, (owner_id,)).fetchone()[0],
    )


def find_hooks(config: Config, owner_id: int) -> Use:
    return Use(
        "hooks",
        config.max_hooks_per_owner,
        database.execute_sql(HOOKS, (owner_id,)).fetchone()[0],
    )


# ---- what all use --------------------------------------------------------------------------------
def list_use(execute: Callable[..., Any], config: Config, now: int) -> list[Use]:
    """Return the highest use of each quota by one owner, without naming the owner."""
    posts, full = execute(MAX_POSTS, (config.max_posts_kept_mb * MB,)).fetchone()
    day = now - DAY_MS
    return [
        Use("posts_kept_mb", config.max_posts_kept_mb, posts // MB, full),
        _find_most(execute, config, "wallet_changes_per_day", MAX_CHANGES, day),
        _find_most_wallets(execute, config),
        _find_most(execute, config, "traders", MAX_TRADERS),
        _find_most(execute, config, "hooks", MAX_HOOKS),
    ]


def _find_most(
    execute: Callable[..., Any], config: Config, quota: str, sql: str, *values: int
) -> Use:
    limit = find_limit(config, quota)
    most, full = execute(sql, (limit, *values)).fetchone()
    return Use(quota, limit, most, full)


def _find_most_wallets(execute: Callable[..., Any], config: Config) -> Use:
    limit = find_limit(config, "wallets")
    held = Counter(owner_id for (owner_id,) in execute(HOLDERS).fetchall()).values()
    return Use("wallets", limit, max(held, default=0), sum(count >= limit for count in held))
