"""Compare the tables with the log: bots, posts and attachments with their leaves, as an audit does,
and the tree with its stored hashes.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import orjson

from accounts.season_standings import Terms
from accounts.seasons import show_terms
from evidence.claimed import show_seasons
from evidence.claims import ClaimedPost, ClaimedProfile, ClaimedSeason, Nonsense, check_shape
from evidence.document import show_profile
from evidence.leaves import Held, HeldWallets, compare_bot, compare_held, compare_post
from evidence.lines import POST_LINES, show_post
from evidence.log_memory import LogMemory, Part, Said
from evidence.seasons import compare_seasons
from operate.differences import UNREADABLE, Difference
from operate.readers import Reader
from storage.tree import TILE_WIDTH, hash_leaf, hash_tile

LOGS = "SELECT id, uid, first_leaf FROM log ORDER BY id"
NODES = "SELECT log_id, level, place, hash FROM log_node"
LEAVES = "SELECT id, data FROM log_leaf ORDER BY id"
BOTS = "SELECT id, uid FROM bot ORDER BY id"
ATTACHED = """
SELECT w.address, a.ownership, a.attached_at, a.detached_at
FROM attachment a JOIN wallet w ON w.id = a.wallet_id WHERE a.bot_id = {bot} ORDER BY a.id"""
LOGGED_WALLETS = """
SELECT w.address, g.leaf_id FROM wallet w LEFT JOIN logged_wallet g ON g.wallet_id = w.id
ORDER BY w.id"""
SEASONS = f"""
SELECT uid, CASE WHEN cancelled_at IS NULL THEN 0 ELSE 1 END,
       CASE WHEN frozen_at IS NULL THEN 0 ELSE 1 END, {", ".join(Terms._fields)}
FROM season ORDER BY id"""
# All logs are read as one; a leaf's place is its id, and no leaf is too new.
ALL, MANY = "all", 2**62


def check_log(reader: Reader) -> Iterator[Difference]:
    """Yield all differences between the log and the tables, in one snapshot."""
    with contextlib.closing(sqlite3.connect("", isolation_level=None)) as kept:
        memory = LogMemory(kept)
        kept.execute("BEGIN")
        yield from check_leaves(reader, memory)
        memory.join([Part(ALL, 0, MANY)])
        firsts = {uid: first for _, uid, first in reader.rows(LOGS)}
        bots, seasons = dict(reader.rows(BOTS)), memory.list_seasons()
        for number, uid in bots.items():
            yield from _check_bot(reader, memory, number, uid, seasons)
            yield from _check_posts(reader, memory, firsts, number, uid)
        yield from _check_terms(reader, seasons)
        for uid in sorted(set(memory.list_bots()) - set(bots.values())):
            yield Difference("bot", f"{uid} is in the log but not in the database")
        for address, leaf in reader.rows(LOGGED_WALLETS):
            said = [one for one in memory.list_said(address) if one.leaf["kind"] == "evidence"]
            last = said[-1].place if said else None
            if leaf != last:
                what = f"is leaf {leaf}, but the last leaf of the log is {last}"
                yield Difference("logged_wallet", what, wallet=address)


# ---- bots and posts ------------------------------------------------------------------------------
def _check_bot(
    reader: Reader, memory: LogMemory, number: int, uid: str, seasons: list[Said]
) -> Iterator[Difference]:
    said, held = memory.list_said(uid), HeldWallets()
    try:
        profile = check_shape(ClaimedProfile, show_profile(reader.rows, number))
    except Nonsense:
        yield Difference("bot", f"{uid} cannot be read")
        return
    for one in compare_bot(profile, said, MANY):
        field = one.field.split(".")[-1]
        yield Difference("bot", f"{uid} doesn't match the log", field=field)
    for address, *span in reader.rows(ATTACHED.format(bot=number)):
        held.setdefault(address, []).append(Held(*span))
    for one in compare_held(held, said, MANY):
        what = f"when {uid} had it, and whether it was proven, doesn't match the log"
        yield Difference("attachment", what, wallet=one.field.partition(".")[2])
    try:
        frozen = {
            season: check_shape(ClaimedSeason, one)
            for season, one in show_seasons(reader.rows, number).items()
        }
    except Nonsense:
        yield Difference("season_entry", f"{uid}: a row of a season can't be read")
        return
    for one in compare_seasons(frozen, uid, held, seasons, MANY):
        what = f"{uid}: {one.field.split('.')[1]} doesn't match the log"
        yield Difference("season_entry", what, field=one.field.split(".")[-1])


def _check_terms(reader: Reader, said: list[Said]) -> Iterator[Difference]:
    """Compare the state and the terms of all seasons with their last leaves."""
    last = {one.leaf["season"]: one.leaf for one in said if one.leaf["kind"] == "season"}
    for uid, is_cancelled, is_frozen, *terms in reader.rows(SEASONS):
        state = "cancelled" if is_cancelled else "final" if is_frozen else "open"
        shown = {"state": state, **show_terms(Terms._make(terms))}
        leaf = last.pop(uid, {})
        for name, value in shown.items():
            if leaf.get(name) != value:
                yield Difference("season", f"{uid} doesn't match the log", field=name)
    for uid in sorted(last):
        yield Difference("season", f"{uid} is in the log but not in the database")


def _check_posts(
    reader: Reader, memory: LogMemory, firsts: dict[str, int], number: int, uid: str
) -> Iterator[Difference]:
    known = set()
    for _, *values in reader.rows(POST_LINES.format(owner=number, after=0, most=MANY)):
        line = show_post(values)
        known.add(line["id"])
        try:
            post = check_shape(ClaimedPost, line)
        except Nonsense:
            yield Difference("post", f"{line['id']} cannot be read")
            continue
        place = None
        if post.log is not None and post.logIndex is not None:
            place = firsts[post.log] + post.logIndex
        for one in compare_post(post, uid, place, memory.list_said(post.id), MANY):
            field = one.field.split(".")[-1]
            yield Difference("post", f"{post.id} doesn't match the log", field=field)
    for missing in memory.list_posts(uid, MANY):
        if missing not in known:
            yield Difference("post", f"{missing} is in the log but not in the database")


# ---- the tree ------------------------------------------------------------------------------------
def check_leaves(reader: Reader, memory: LogMemory) -> Iterator[Difference]:
    """Read all leaves in order into `memory`, and compare the stored hashes above full tiles."""
    logs = {first: (number, uid) for number, uid, first in reader.rows(LOGS)}
    nodes = {(log, level, place): bytes(node) for log, level, place, node in reader.rows(NODES)}
    log, first, expected = 0, 0, 0
    levels: list[list[bytes]] = [[]]
    begun = set()
    for number, data in reader.rows(LEAVES):
        for missing in range(expected, min(number, expected + 10)):
            yield Difference("log_leaf", f"leaf {missing} is missing")
        expected = number + 1
        if number in logs:
            (log, uid), first, levels = logs[number], number, [[]]
            begun.add(uid)
        try:
            leaf = orjson.loads(data)
            if number not in logs and leaf["kind"] == "opening":
                what = f"leaf {number} opens {leaf['log']}, which is missing"
                yield Difference("log", what)
            if number in logs and (leaf["kind"], leaf["log"]) != ("opening", uid):
                yield Difference("log", f"{uid} doesn't start with its opening leaf")
            memory.add_leaves(ALL, number, [data.encode()])
        except UNREADABLE:
            yield Difference("log_leaf", f"leaf {number - first} can't be read")
        yield from _add(nodes, log, levels, 0, number - first, hash_leaf(data.encode()))
    for _, uid in logs.values():
        if uid not in begun:
            yield Difference("log", f"{uid}: its first leaf is missing")
    for _, level, place in nodes:
        yield Difference("log_node", f"level {level}, place {place}: no leaves lead to this hash")


def _add(
    nodes: dict[Any, bytes], log: int, levels: list[list[bytes]], level: int, place: int, one: bytes
) -> Iterator[Difference]:
    """Add a hash to the tree; if it fills a tile, compare the hash above it."""
    levels[level].append(one)
    if (place + 1) % TILE_WIDTH or len(levels[level]) != TILE_WIDTH:
        return
    found, parent = hash_tile(levels[level]), place // TILE_WIDTH
    levels[level].clear()
    if nodes.pop((log, level + 1, parent), None) != found:
        yield Difference(
            "log_node",
            f"level {level + 1}, place {parent}: the hash doesn't match the leaves below it; one"
            " of them was changed",
        )
    if level + 1 == len(levels):
        levels.append([])
    yield from _add(nodes, log, levels, level + 1, parent, found)
