"""The quotas of owners: how much an owner uses, and the highest use by any owner.

A quota rejects new data and never deletes old data. It is checked inside the write transaction.
Only one of these runs at a time, so there aren't any races. The operator's command line is exempt
(config.lift_quotas). 1 MB is 1,000,000 bytes.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from config import Config
from storage import database

MB = 1_000_000
DAY_MS = 86_400_000
# Settings by the quota's name in API responses.
SETTINGS = {
    "posts_kept_mb": "max_posts_kept_mb",
    "wallet_changes_per_day": "max_wallet_changes_per_day",
    "traders": "max_traders_per_owner",
    "wallets": "max_wallets_per_owner",
    "hooks": "max_hooks_per_owner",
}
# Rows that count toward a quota, by owner_id. Disconnecting a wallet by detaching, replacing or
# retiring counts as a change. Connecting a first wallet doesn't.
COUNTED = {
    "wallet_changes_per_day": "(SELECT bot_id FROM attachment WHERE detached_at > {since}) a"
    " JOIN bot b ON b.id = a.bot_id WHERE TRUE",
    "wallets": "attachment a JOIN bot b ON b.id = a.bot_id WHERE a.detached_at IS NULL",
    "traders": "trader WHERE retired_at IS NULL",
    "hooks": "hook WHERE TRUE",
}
# The highest use by one owner, and how many are at the limit. Owners with less than 1 MB of posts
# count as 0. The partial index covers all others.
MAX_POSTS = (
    "SELECT COALESCE(MAX(posts_bytes), 0), COUNT(CASE WHEN posts_bytes >= ? THEN 1 END) FROM owner"
    " WHERE posts_bytes >= 1000000"
)
MAX_OF = (
    "SELECT COALESCE(MAX(n), 0), COUNT(CASE WHEN n >= ? THEN 1 END) FROM (SELECT COUNT(*) AS n FROM"
    " {} GROUP BY owner_id) AS by_owner"
)


class Use(NamedTuple):
    """How much of a quota one owner uses, or the most that any owner uses.

    If set, `owners_at_limit` counts owners at the limit.
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

    def add(self, count: int) -> "Use":
        return self._replace(used=self.used + count)


# ---- what one owner uses -------------------------------------------------------------------------
def find_use(config: Config, quota: str, owner_id: int, now: int = 0) -> Use:
    """Any quota except posts. `now` is for the changes of the last day."""
    sql = f"SELECT COUNT(*) FROM {_write_counted(quota, now)} AND owner_id = ?"
    ((used,),) = database.execute_sql(sql, (owner_id,)).fetchall()
    return Use(quota, getattr(config, SETTINGS[quota]), used)


def _write_counted(quota: str, now: int) -> str:
    return COUNTED[quota].format(since=now - DAY_MS)


# ---- what all use --------------------------------------------------------------------------------
def list_use(execute: Callable[..., Any], config: Config, now: int) -> list[Use]:
    """Return the highest use of each quota by one owner, without saying which owner."""
    posts, full = execute(MAX_POSTS, (config.max_posts_kept_mb * MB,)).fetchone()
    found = [Use("posts_kept_mb", config.max_posts_kept_mb, posts // MB, full)]
    for quota in COUNTED:
        limit, counted = getattr(config, SETTINGS[quota]), _write_counted(quota, now)
        if quota == "wallets":
            # Faster than SQLite's GROUP BY.
            held = Counter(execute(f"SELECT owner_id FROM {counted}").fetchall()).values()
            most, full = max(held, default=0), sum(count >= limit for count in held)
        else:
            most, full = execute(MAX_OF.format(counted), (limit,)).fetchone()
        found.append(Use(quota, limit, most, full))
    return found
