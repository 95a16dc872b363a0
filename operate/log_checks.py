"""Does the log agree with the tables? Each post, verification, hiding, attachment and retirement is
compared with its leaf, and the tree with its stored hashes.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from operate.differences import UNREADABLE, Difference
from operate.readers import Reader
from storage.arrivals import hash_words
from storage.tree import TILE_WIDTH, hash_leaf, hash_tile

LOGS = "SELECT id, uid, first_leaf FROM log ORDER BY id"
NODES = "SELECT log_id, level, place, hash FROM log_node"
LEAVES = "SELECT id, data FROM log_leaf ORDER BY id"
POSTS = """
SELECT p.uid, b.uid, w.address, p.source, p.channel, p.mint, p.signature, p.status,
       p.status_reason, p.event_at, p.created_at, p.hidden_at, p.salt, p.event_id, p.body,
       p.symbol, p.reason, l.data
FROM post p JOIN bot b ON b.id = p.bot_id LEFT JOIN wallet w ON w.id = p.wallet_id
LEFT JOIN log_leaf l ON l.id = p.leaf_id ORDER BY p.id"""
POST_LEAVES = "SELECT leaf_id FROM post WHERE leaf_id IS NOT NULL ORDER BY leaf_id"
ATTACHED = """
SELECT b.uid, w.address, a.ownership, a.attached_at, a.detached_at
FROM attachment a JOIN bot b ON b.id = a.bot_id JOIN wallet w ON w.id = a.wallet_id ORDER BY a.id"""
RETIRED = "SELECT uid, retired_at FROM bot WHERE retired_at IS NOT NULL ORDER BY id"
LOGGED_WALLETS = """
SELECT w.address, g.leaf_id FROM wallet w LEFT JOIN logged_wallet g ON g.wallet_id = w.id
ORDER BY w.id"""


class PostRow(NamedTuple):
    """A post as the tables have it, and its leaf."""

    uid: str
    bot: str
    wallet: str | None
    source: str
    channel: str
    mint: str | None
    signature: str | None
    status: str
    status_reason: str | None
    event_at: int
    created_at: int
    hidden_at: int | None
    salt: str | None
    event_id: str
    body: str
    symbol: str | None
    reason: str | None
    leaf: str | None


class Verdict(NamedTuple):
    """What a leaf says of a post's verification."""

    status: str
    reason: str | None
    event_at: int


class Span(NamedTuple):
    """For how long a bot held a wallet; times in ms."""

    ownership: str
    attached_at: int
    detached_at: int | None


class Told:
    """What all leaves say together, as far as the post's own leaf does not."""

    def __init__(self) -> None:
        self.verdicts: dict[str, Verdict] = {}
        self.hidden: dict[str, int] = {}
        self.retired: dict[str, int] = {}
        # By bot and wallet.
        self.spans: dict[tuple[str, str], list[Span]] = {}
        # Ids of the leaves of posts.
        self.posts: list[int] = []
        # By wallet, the id of the last leaf with a digest of its evidence.
        self.digests: dict[str, int] = {}

    def take(self, number: int, leaf: dict[str, Any]) -> None:
        """Add what a leaf says. Raises one of UNREADABLE."""
        kind = leaf["kind"]
        if kind == "post":
            self.posts.append(number)
        elif kind == "verification":
            verdict = Verdict(leaf["status"], leaf["statusReason"], leaf["eventAt"])
            self.verdicts[leaf["post"]] = verdict
        elif kind == "hiding":
            self.hidden[leaf["post"]] = leaf["at"]
        elif kind == "retirement":
            self.retired[leaf["bot"]] = leaf["at"]
        elif kind == "attachment":
            self._attach(leaf)
        elif kind == "evidence":
            self.digests[leaf["wallet"]] = number
        elif kind == "detachment":
            spans = self.spans[leaf["bot"], leaf["wallet"]]
            spans[-1] = spans[-1]._replace(detached_at=leaf["at"])

    def _attach(self, leaf: dict[str, Any]) -> None:
        spans = self.spans.setdefault((leaf["bot"], leaf["wallet"]), [])
        if spans and spans[-1].detached_at is None:
            spans[-1] = spans[-1]._replace(ownership=leaf["ownership"])
        else:
            spans.append(Span(leaf["ownership"], leaf["at"], None))


def check_log(reader: Reader) -> Iterator[Difference]:
    """Yield every difference between the log and the tables, in one snapshot."""
    told = Told()
    yield from check_leaves(reader, told)
    yield from check_posts(reader, told)
    yield from _check_missing(reader, told)
    yield from check_attachments(reader, told)
    for bot, at in reader.rows(RETIRED):
        if told.retired.pop(bot, None) != at:
            yield Difference("bot", f"{bot}: the log does not have this retirement")
    for bot in told.retired:
        yield Difference("bot", f"{bot}: the log says that it was retired")
    for address, leaf in reader.rows(LOGGED_WALLETS):
        if leaf != told.digests.get(address):
            what = f"is leaf {leaf}, the last of the log is {told.digests.get(address)}"
            yield Difference("logged_wallet", what, wallet=address)


# ---- the tree ------------------------------------------------------------------------------------
def check_leaves(reader: Reader, told: Told) -> Iterator[Difference]:
    """Read all leaves in order; compare the hashes above full tiles with the stored ones."""
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
                what = f"leaf {number} opens {leaf['log']}, which is not there"
                yield Difference("log", what)
            if number in logs and (leaf["kind"], leaf["log"]) != ("opening", uid):
                yield Difference("log", f"{uid} does not begin with its opening")
            told.take(number, leaf)
        except UNREADABLE:
            yield Difference("log_leaf", f"leaf {number - first} cannot be read")
        yield from _add(nodes, log, levels, 0, number - first, hash_leaf(data.encode()))
    for _, uid in logs.values():
        if uid not in begun:
            yield Difference("log", f"{uid}: its first leaf is not there")
    for _, level, place in nodes:
        yield Difference("log_node", f"level {level}, place {place}: no leaves lead to this hash")


def _add(
    nodes: dict[Any, bytes], log: int, levels: list[list[bytes]], level: int, place: int, one: bytes
) -> Iterator[Difference]:
    """Add a hash to the tree; where a tile is full, compare what stands above it."""
    levels[level].append(one)
    if (place + 1) % TILE_WIDTH or len(levels[level]) != TILE_WIDTH:
        return
    found, parent = hash_tile(levels[level]), place // TILE_WIDTH
    levels[level].clear()
    if nodes.pop((log, level + 1, parent), None) != found:
        yield Difference(
            "log_node",
            f"level {level + 1}, place {parent}: the hash is not that of the leaves below; one of"
            " them was changed",
        )
    if level + 1 == len(levels):
        levels.append([])
    yield from _add(nodes, log, levels, level + 1, parent, found)


# ---- posts ---------------------------------------------------------------------------------------
def check_posts(reader: Reader, told: Told) -> Iterator[Difference]:
    """Compare each post with its leaf, and with what was logged of it since."""
    for row in reader.rows(POSTS):
        post = PostRow(*row)
        try:
            for field in _list_different(post, told):
                yield Difference("post", f"{post.uid} is not as the log has it", field=field)
        except UNREADABLE:
            yield Difference("post", f"{post.uid}: its leaf cannot be read")
    for uid in {**told.verdicts, **told.hidden}:
        yield Difference("post", f"the log tells of {uid}, which is not there")


def _list_different(post: PostRow, told: Told) -> Iterator[str]:
    """Name the columns of a post that differ. Takes what was told of it."""
    verdict, hidden = told.verdicts.pop(post.uid, None), told.hidden.pop(post.uid, None)
    if post.leaf is None:
        yield "leaf_id"
        return
    leaf = orjson.loads(post.leaf)
    verdict = verdict or Verdict(leaf["status"], leaf["statusReason"], leaf["eventAt"])
    pairs = {
        "uid": (post.uid, leaf["post"]),
        "bot": (post.bot, leaf["bot"]),
        "wallet": (post.wallet, leaf["wallet"]),
        "source": (post.source, leaf["source"]),
        "channel": (post.channel, leaf["channel"]),
        "mint": (post.mint, leaf["mint"]),
        "signature": (post.signature, leaf["signature"]),
        "created_at": (post.created_at, leaf["at"]),
        "status": (post.status, verdict.status),
        "status_reason": (post.status_reason, verdict.reason),
        "event_at": (post.event_at, verdict.event_at),
        "hidden_at": (post.hidden_at, hidden),
    }
    yield from (field for field, (ours, logged) in pairs.items() if ours != logged)
    if hidden is None and not _is_said(post, leaf["words"]):
        yield "body, event_id, symbol, reason or salt"


def _is_said(post: PostRow, words: str | None) -> bool:
    texts = (post.event_id, post.body, post.symbol, post.reason)
    return post.salt is not None and hash_words(post.salt, *texts) == words


def _check_missing(reader: Reader, told: Told) -> Iterator[Difference]:
    """Name leaves of posts that no post has, by going through both in order."""
    held = iter(reader.rows(POST_LEAVES))
    (one,) = next(held, (None,))
    for number in told.posts:
        while one is not None and one < number:
            (one,) = next(held, (None,))
        if one != number:
            yield Difference("post", f"the post of leaf id {number} is not there")


# ---- wallets -------------------------------------------------------------------------------------
def check_attachments(reader: Reader, told: Told) -> Iterator[Difference]:
    """Compare which bot held which wallet, and when, with what was logged."""
    found: dict[tuple[str, str], list[Span]] = {}
    for bot, address, *span in reader.rows(ATTACHED):
        found.setdefault((bot, address), []).append(Span(*span))
    for bot, address in sorted({**found, **told.spans}):
        if found.get((bot, address)) != told.spans.get((bot, address)):
            yield Difference(
                "attachment",
                f"when {bot} held it, and whether proven, is not as the log has it",
                wallet=address,
            )
