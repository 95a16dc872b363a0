"""Attachments: which wallets bots hold now, spans, what is held in them, and their totals."""

from typing import NamedTuple

import storage
from chain.ledger.inventory import SOL
from chain.ledger.views import ALL_HISTORY, Holdings, Span
from storage import Rows

# The numbers of the wallets that bots hold now, each once.
HELD = "(SELECT wallet_id FROM attachment WHERE detached_at IS NULL)"
# Their count, from the index of open rows alone.
COUNT_HELD = "(SELECT COUNT(*) FROM attachment WHERE detached_at IS NULL)"
# Whether a bot holds wallet `w`, for a query of few wallets.
IS_HELD = """EXISTS (
SELECT 1 FROM attachment a WHERE a.wallet_id = w.id AND a.detached_at IS NULL)"""
# The attachment of bot `b` that leads: of those it holds, the first.
LEAD = """(
SELECT l.id FROM attachment l WHERE l.bot_id = b.id AND l.detached_at IS NULL
ORDER BY l.attached_at, l.id LIMIT 1)"""
# The same, where the attachments of a retired bot are those that ended with it.
LAST_LEAD = """(
SELECT l.id FROM attachment l
WHERE l.bot_id = b.id AND (l.detached_at IS NULL OR l.detached_at = b.retired_at)
ORDER BY l.attached_at, l.id LIMIT 1)"""
# Plain SQL: it runs before each step of a poll, faster than peewee could build it.
SPANS = "SELECT id, attached_at, detached_at FROM attachment WHERE wallet_id = {wallet}"
HOLDINGS = f"SELECT id, {', '.join(Holdings._fields)} FROM attachment WHERE wallet_id = {{wallet}}"
REPLACE_HOLDINGS = f"""
UPDATE attachment SET {", ".join(f"{name} = ?" for name in Holdings._fields)} WHERE id = ?"""


def read_spans(rows: Rows, wallet_id: int) -> tuple[Span, ...]:
    """The attachments of a wallet in the order in which they began, then were made."""
    spans = (Span(*row) for row in rows(SPANS.format(wallet=wallet_id)))
    return tuple(sorted(spans, key=lambda span: (span.begins_ms, span.number)))


def replace_holdings(wallet_id: int, right: dict[int, Holdings]) -> bool:
    """Write what spans hold, in the caller's transaction; return whether anything moved."""
    if not right:
        return False
    stored = {
        number: Holdings(*held)
        for number, *held in storage.read_rows(HOLDINGS.format(wallet=wallet_id))
    }
    moved = {number: held for number, held in right.items() if stored.get(number) != held}
    for number, holdings in moved.items():
        storage.database.execute_sql(REPLACE_HOLDINGS, (*holdings, number))
    return bool(moved)


class Source(NamedTuple):
    """Which sums of an attachment are read. `view`, `which`: SQL over `attachment a`."""

    view: str
    which: str


# Of all that the wallets did which bots hold now, or of what happened while they held them.
OF_RESULTS = Source(str(ALL_HISTORY), "a.detached_at IS NULL")
OF_RECORD = Source("a.id", "a.forward_realized IS NOT NULL")


def write_last(name: str, view: str, money: str = f"'{SOL}'", until: int | None = None) -> str:
    """SQL condition that joins the last row of an attachment `a` in `running_total` as `name`.
    `view`, `money`: SQL; `until`: the hour that it is before.
    """
    before = "" if until is None else f" AND l.hour < {until}"
    return f"""{name}.wallet_id = a.wallet_id AND {name}.money = {money}
    AND {name}.view = {view} AND {name}.hour = (
        SELECT MAX(l.hour) FROM running_total l WHERE l.wallet_id = a.wallet_id
        AND l.money = {money} AND l.view = {view}{before})"""
