"""Rows of the operator's lists, and the statements that read them: one page at a time, newest
first, by row number. Times are in ms.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from chain.stored.attachments import LEAD
from storage.rows import select, write_marks

MAX_BODY = 240
# Higher than every row's number.
NEWEST = 2**62


class NamedOwner(NamedTuple):
    """An owner, identified by its bots' names. If it has no bots, the names are empty."""

    uid: str
    name: str

    def __str__(self) -> str:
        return self.uid


OWNER_NAMES = """
SELECT o.uid, string_agg(b.name, ', ' ORDER BY b.id) AS name FROM owner o
JOIN bot b ON b.owner_id = o.id WHERE o.uid IN ({marks}) GROUP BY o.uid"""


def name_owners(uids: Iterable[str]) -> dict[str, NamedOwner]:
    asked = sorted(set(uids))
    sql = OWNER_NAMES.format(marks=write_marks(asked))
    found = {row.uid: row for row in select(NamedOwner, sql, asked)} if asked else {}
    return {uid: found.get(uid, NamedOwner(uid, "")) for uid in asked}


class OwnerRow(NamedTuple):
    """An owner with its current counts."""

    id: int
    uid: str
    created_at: int
    posts_bytes: int
    bots: int
    keys: int
    wallets: int
    hooks: int
    traders: int


class BotRow(NamedTuple):
    """A bot, its owner, and its current wallet."""

    id: int
    uid: str
    name: str
    handle: str
    created_at: int
    retired_at: int | None
    owner_uid: str
    wallet: str | None
    ownership: str | None


class WalletRow(NamedTuple):
    """A wallet, its current or last bot, and the state of its observation.

    `attached_at` is None if no bot has it. `backfilled` means that its whole history is listed.
    """

    id: int
    address: str
    polled_at: int | None
    backfilled: bool
    trouble: str | None
    bot_uid: str
    bot_name: str
    owner_uid: str
    attached_at: int | None
    ownership: str | None


class KeyRow(NamedTuple):
    """A key without its hash. `bot_*` is None for a read key. `last_used_at` is from the rate-limit
    counters.
    """

    id: int
    uid: str
    scope: str
    name: str
    prefix: str
    last4: str
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    last_used_at: int | None
    owner_uid: str
    bot_uid: str | None
    bot_name: str | None


class HookRow(NamedTuple):
    """A hook without its secret. Mask `url` before showing it.

    `owner_uid` is None if the operator's settings define the hook.
    """

    id: int
    uid: str
    kind: str
    url: str
    state: str
    failures: int
    delivered_at: int | None
    last_error: str | None
    created_at: int
    owner_uid: str | None


class PostRow(NamedTuple):
    """A post. `body` contains its first MAX_BODY characters."""

    id: int
    uid: str
    body: str
    status: str
    channel: str
    created_at: int
    hidden_at: int | None
    bot_uid: str
    bot_name: str


class PaperPostRow(NamedTuple):
    """A paper trader's post. `body` contains its first MAX_BODY characters."""

    id: int
    uid: str
    body: str
    writer: str
    created_at: int
    hidden_at: int | None
    trader_uid: str
    trader_name: str
    owner_uid: str


class ActRow(NamedTuple):
    """An action by the operator."""

    id: int
    at: int
    who: str
    what: str
    target: str | None
    reason: str | None


class ReportRow(NamedTuple):
    """A report of a post.

    `body` contains the post's first MAX_BODY characters. `author_uid` is that of a bot or a paper
    trader.
    """

    id: int
    uid: str
    about: str
    note: str
    at: int
    dismissed_at: int | None
    post_uid: str
    body: str
    hidden_at: int | None
    author_uid: str
    author_name: str
    simulated: bool
    owner_uid: str


class BanRow(NamedTuple):
    """A ban. `kind`: owner | wallet."""

    id: int
    kind: str
    target: str
    reason: str
    at: int


class RegistrationRow(NamedTuple):
    """A bot that an agent registered. `source` is the network from which it was registered."""

    id: int
    wallet: str
    source: str
    created_at: int
    claim_ends_at: int | None
    claimed_at: int | None
    bot_uid: str
    bot_name: str
    owner_uid: str
    ban_reason: str | None


class Listing(NamedTuple):
    """The definition of a list.

    It has the row type, the statement with `{where}` for conditions, the number column, and the
    condition of each filter.
    """

    row: Any
    sql: str
    number: str
    filters: dict[str, str]


OF_OWNER = "{} = (SELECT id FROM owner WHERE uid = ?)"
OF_BOT = "{} = (SELECT id FROM bot WHERE uid = ?)"
OF_TRADER = "{} = (SELECT id FROM trader WHERE uid = ?)"
LISTINGS = {
    "owners": Listing(
        OwnerRow,
        """SELECT o.id, o.uid, o.created_at, o.posts_bytes,
       (SELECT COUNT(*) FROM bot b WHERE b.owner_id = o.id) AS bots,
       (SELECT COUNT(*) FROM "key" k WHERE k.owner_id = o.id AND k.revoked_at IS NULL) AS keys,
       (SELECT COUNT(*) FROM attachment a JOIN bot b ON b.id = a.bot_id
        WHERE b.owner_id = o.id AND a.detached_at IS NULL) AS wallets,
       (SELECT COUNT(*) FROM hook h WHERE h.owner_id = o.id) AS hooks,
       (SELECT COUNT(*) FROM trader t WHERE t.owner_id = o.id AND t.retired_at IS NULL) AS traders
FROM owner o {where}""",
        "o.id",
        {"owner": "o.uid = ?"},
    ),
    "bots": Listing(
        BotRow,
        f"""SELECT b.id, b.uid, b.name, b.handle, b.created_at, b.retired_at,
       o.uid AS owner_uid, w.address AS wallet, a.ownership
FROM bot b JOIN owner o ON o.id = b.owner_id
LEFT JOIN attachment a ON a.id = {LEAD}
LEFT JOIN wallet w ON w.id = a.wallet_id {{where}}""",
        "b.id",
        {"owner": OF_OWNER.format("b.owner_id"), "bot": "b.uid = ?"},
    ),
    "wallets": Listing(
        WalletRow,
        """SELECT w.id, w.address, w.polled_at, w.backfilled, w.trouble, b.uid AS bot_uid,
       b.name AS bot_name, o.uid AS owner_uid,
       a.attached_at, a.ownership
FROM wallet w JOIN bot b ON b.id = w.bot_id JOIN owner o ON o.id = b.owner_id
LEFT JOIN attachment a ON a.wallet_id = w.id AND a.detached_at IS NULL {where}""",
        "w.id",
        {
            "owner": OF_OWNER.format("b.owner_id"),
            "bot": OF_BOT.format("w.bot_id"),
            "wallet": "w.address = ?",
        },
    ),
    "keys": Listing(
        KeyRow,
        """SELECT k.id, k.uid, k.scope, k.name, k.prefix, k.last4, k.created_at, k.expires_at,
       k.revoked_at, NULL AS last_used_at, o.uid AS owner_uid, b.uid AS bot_uid, b.name AS bot_name
FROM "key" k JOIN owner o ON o.id = k.owner_id LEFT JOIN bot b ON b.id = k.bot_id {where}""",
        "k.id",
        {"owner": OF_OWNER.format("k.owner_id"), "bot": OF_BOT.format("k.bot_id")},
    ),
    "hooks": Listing(
        HookRow,
        """SELECT h.id, h.uid, h.kind, h.url, h.state, h.failures, h.delivered_at, h.last_error,
       h.created_at, o.uid AS owner_uid
FROM hook h LEFT JOIN owner o ON o.id = h.owner_id {where}""",
        "h.id",
        {"owner": OF_OWNER.format("h.owner_id")},
    ),
    "posts": Listing(
        PostRow,
        f"""SELECT p.id, p.uid, SUBSTR(p.body, 1, {MAX_BODY}) AS body, p.status, p.channel,
       p.created_at, p.hidden_at, b.uid AS bot_uid, b.name AS bot_name
FROM post p JOIN bot b ON b.id = p.bot_id {{where}}""",
        "p.id",
        {"bot": OF_BOT.format("p.bot_id"), "post": "p.uid = ?"},
    ),
    "paper-posts": Listing(
        PaperPostRow,
        f"""SELECT p.id, p.uid, SUBSTR(p.body, 1, {MAX_BODY}) AS body, p.writer, p.created_at,
       p.hidden_at, t.uid AS trader_uid, t.name AS trader_name, o.uid AS owner_uid
FROM paper_post p JOIN trader t ON t.id = p.trader_id JOIN owner o ON o.id = t.owner_id
{{where}}""",
        "p.id",
        {"trader": OF_TRADER.format("p.trader_id"), "post": "p.uid = ?"},
    ),
    "reports": Listing(
        ReportRow,
        f"""SELECT r.id, r.uid, r.about, r.note, r.at, r.dismissed_at,
       COALESCE(p.uid, s.uid) AS post_uid,
       SUBSTR(COALESCE(p.body, s.body), 1, {MAX_BODY}) AS body,
       COALESCE(p.hidden_at, s.hidden_at) AS hidden_at, COALESCE(b.uid, t.uid) AS author_uid,
       COALESCE(b.name, t.name) AS author_name, s.id IS NOT NULL AS simulated, o.uid AS owner_uid
FROM report r LEFT JOIN post p ON p.id = r.post_id LEFT JOIN bot b ON b.id = p.bot_id
LEFT JOIN paper_post s ON s.id = r.paper_post_id LEFT JOIN trader t ON t.id = s.trader_id
JOIN owner o ON o.id = COALESCE(b.owner_id, t.owner_id) {{where}}""",
        "r.id",
        {"post": "? IN (p.uid, s.uid)"},
    ),
    "registrations": Listing(
        RegistrationRow,
        """SELECT g.id, g.wallet, g.source, g.created_at, g.claim_ends_at, g.claimed_at,
       b.uid AS bot_uid, b.name AS bot_name, o.uid AS owner_uid,
       (SELECT reason FROM ban WHERE kind = 'owner' AND target = o.uid) AS ban_reason
FROM registration g JOIN bot b ON b.id = g.bot_id JOIN owner o ON o.id = b.owner_id {where}""",
        "g.id",
        {"source": "g.source = ?", "owner": OF_OWNER.format("b.owner_id")},
    ),
    "bans": Listing(
        BanRow, "SELECT n.id, n.kind, n.target, n.reason, n.at FROM ban n {where}", "n.id", {}
    ),
    "acts": Listing(
        ActRow,
        "SELECT c.id, c.at, c.who, c.what, c.target, c.reason FROM admin_act c {where}",
        "c.id",
        {},
    ),
}


def read_list(
    name: str, limit: int, filters: dict[str, str] | None = None, before: int | None = None
) -> list[Any]:
    """Return rows of the list `name`, newest first.

    With `before`, only rows with a lower number are returned. `filters` is {one of the list's
    filters: a public ID}.
    """
    listing = LISTINGS[name]
    parts: list[tuple[str, str | int]] = [
        (listing.filters[one], text) for one, text in (filters or {}).items()
    ]
    # Add this condition on the first page, too, so that the statement always uses the number's
    # index and never scans a table.
    parts.append((f"{listing.number} < ?", NEWEST if before is None else before))
    where = "WHERE " + " AND ".join(part for part, _ in parts)
    sql = f"{listing.sql.format(where=where)} ORDER BY {listing.number} DESC LIMIT {limit:d}"
    return select(listing.row, sql, [value for _, value in parts])
