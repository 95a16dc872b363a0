"""Triggers that drop kept digests (evidence.kept) in the transaction that changes their part of a
document.

Of a page whose lines stay where they are, that one; where lines come or go, all from there on.
"""

from collections.abc import Iterator
from typing import NamedTuple

# {row}: old or new; {kind} and {owner}: of what has pages, and the column of the owner.
LATER = """
DELETE FROM kept_digest WHERE kind = '{kind}' AND owner = {row}.{owner} AND place >= {row}.id"""
SAME = """
DELETE FROM kept_digest WHERE kind = '{kind}' AND owner = {row}.{owner} AND place = (
    SELECT MIN(k.place) FROM kept_digest k
    WHERE k.kind = '{kind}' AND k.owner = {row}.{owner} AND k.place >= {row}.id)"""
# Of the trades of a transaction, whichever wallets list it: in the slot of the trade, or the digest
# of its page is not kept (evidence.receipts).
RECEIPT = """
DELETE FROM kept_digest WHERE kind = 'receipts' AND (owner, place) IN (
    SELECT t.wallet_id, (
        SELECT MIN(k.place) FROM kept_digest k
        WHERE k.kind = 'receipts' AND k.owner = t.wallet_id AND k.place >= t.id)
    FROM sighting s JOIN trade t
    ON t.wallet_id = s.wallet_id AND t.slot = s.slot AND t.signature = s.signature
    WHERE s.signature IN ({signatures}))"""
SIGHTING = """
DELETE FROM kept_digest WHERE kind = 'receipts' AND owner = old.wallet_id AND place = (
    SELECT MIN(k.place) FROM kept_digest k
    WHERE k.kind = 'receipts' AND k.owner = old.wallet_id AND k.place >= (
        SELECT id FROM trade
        WHERE wallet_id = old.wallet_id AND slot = old.slot AND signature = old.signature))"""
ALL_PAGES = "DELETE FROM kept_digest WHERE kind IN ('receipts', 'posts')"
ALL_POSTS = "DELETE FROM kept_digest WHERE kind = 'posts'"
# Where a log begins at a leaf that is there already, the leaf is of another log than before.
LOG_OF_LEAVES = f"""
{ALL_POSTS} AND EXISTS (SELECT 1 FROM log_leaf WHERE id >= new.first_leaf)"""


class Trigger(NamedTuple):
    """What drops digests: after which event, under which condition, and how."""

    name: str
    event: str
    statement: str
    condition: str = ""


def list_triggers() -> Iterator[Trigger]:
    for table, kind, owner in (("trade", "receipts", "wallet_id"), ("post", "posts", "bot_id")):
        for event, row, text in (
            *(("INSERT", "new", LATER), ("DELETE", "old", LATER)),
            ("UPDATE", "old", SAME),
        ):
            statement = text.format(kind=kind, owner=owner, row=row)
            yield Trigger(f"{table}_{event.lower()}", f"{event} ON {table}", statement)
    # What nothing does now. The public id of a trade stands with posts, too.
    yield Trigger(
        *("trade_moved", "UPDATE OF id, uid, wallet_id ON trade", ALL_PAGES),
        "old.id <> new.id OR old.uid <> new.uid OR old.wallet_id <> new.wallet_id",
    )
    yield Trigger(
        *("post_moved", "UPDATE OF id, bot_id ON post", ALL_PAGES),
        "old.id <> new.id OR old.bot_id <> new.bot_id",
    )
    for event, named in (
        ("INSERT", "new.signature"),
        ("DELETE", "old.signature"),
        ("UPDATE", "old.signature, new.signature"),
    ):
        statement = RECEIPT.format(signatures=named)
        yield Trigger(f"receipt_{event.lower()}", f"{event} ON receipt", statement)
    told = "wallet_id, signature, slot, seen_at"
    yield Trigger("sighting_update", f"UPDATE OF {told} ON sighting", SIGHTING)
    yield Trigger("sighting_delete", "DELETE ON sighting", SIGHTING)
    yield Trigger(
        "wallet_moved", "UPDATE OF address ON wallet", ALL_POSTS, "old.address <> new.address"
    )
    yield Trigger("log_insert", "INSERT ON log", LOG_OF_LEAVES)
    yield Trigger("log_update", "UPDATE OF id, uid, first_leaf ON log", ALL_POSTS)
    yield Trigger("log_delete", "DELETE ON log", ALL_POSTS)
    yield Trigger("leaf_delete", "DELETE ON log_leaf", ALL_POSTS)
    yield from list_triggers_of_totals()


def list_triggers_of_totals() -> Iterator[Trigger]:
    for table, kind, owner, place in (
        ("hour_total", "hours", "wallet_id", ""),
        ("forward_total", "seconds", "attachment_id", ""),
        ("risk_total", "risk", "wallet_id", "span"),
        ("token_total", "tokens", "wallet_id", "span"),
    ):
        for event, rows in (("INSERT", ("new",)), ("DELETE", ("old",)), ("UPDATE", ("old", "new"))):
            owners = ", ".join(f"{row}.{owner}" for row in rows)
            statement = f"DELETE FROM kept_digest WHERE kind = '{kind}' AND owner IN ({owners})"
            if place:
                places = ", ".join(f"{row}.{place}" for row in rows)
                statement += f" AND place IN ({places})"
            yield Trigger(f"{table}_{event.lower()}", f"{event} ON {table}", statement)


def make_sqlite(one: Trigger) -> Iterator[str]:
    when = f" WHEN {one.condition}" if one.condition else ""
    yield f"CREATE TRIGGER kept_{one.name} AFTER {one.event}{when} BEGIN {one.statement}; END"


def make_postgresql(one: Trigger) -> Iterator[str]:
    when = f" WHEN ({one.condition})" if one.condition else ""
    yield (
        f"CREATE FUNCTION kept_{one.name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" {one.statement}; RETURN NULL; END $$"
    )
    yield (
        f"CREATE TRIGGER kept_{one.name} AFTER {one.event} FOR EACH ROW{when}"
        f" EXECUTE FUNCTION kept_{one.name}()"
    )


STATEMENTS = {
    "sqlite": [sql for one in list_triggers() for sql in make_sqlite(one)],
    "postgresql": [sql for one in list_triggers() for sql in make_postgresql(one)],
}
