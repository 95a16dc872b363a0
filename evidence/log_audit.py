"""Compare what is claimed of a bot's posts and wallets with the instance's log, whose leaves are
all fetched and must lead to the root that it signed.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chain.stored.summary import show_time
from evidence import witness
from evidence.claims import Changed, ClaimedPost, Instance, Nonsense
from evidence.comparing import Difference
from evidence.log import name_origin
from evidence.log_holdings import Held, compare_held
from evidence.log_memory import LogMemory, Said
from evidence.notes import BadNote, Checkpoint, parse_checkpoint, parse_note
from market.failures import FetchError
from storage import tree
from storage.arrivals import hash_words

# Of a log that is read at all, and of one run: what was read is kept, the next run goes on.
MAX_LEAVES, MAX_SECONDS = 4_000_000, 900.0
# Posts of a bot that the evidence lacks and that are named.
MAX_LEFT_OUT = 1_000
TELL_EVERY = 100
LAST_MS = 253_402_300_799_000
# Members of a post's leaf that its line has under the same name.
SAME_NAMES = ("wallet", "source", "channel", "mint", "signature")


@dataclass
class LogFindings:
    """What differs from the log, and why something cannot be told by it. `origin`: of the log, None
    where it could not be read.
    """

    origin: str | None = None
    differences: list[Difference] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


class Verdict(NamedTuple):
    """The verification of a post: UTC in whole seconds."""

    status: Any
    reason: Any
    eventAt: str | None


@dataclass(frozen=True)
class LogAudit:
    """The audit of an instance's log. `rereads`: may the evidence be read once more?"""

    instance: Instance
    memory: LogMemory
    tell: Callable[[str], None]
    rereads: bool = False

    def measure(self) -> int:
        """How many leaves there are before the evidence is read; 0 where that cannot be told."""
        seen = self.memory.find_seen()
        try:
            shown = parse_checkpoint(parse_note(self._get("checkpoint")).text)
        except (BadNote, FetchError):
            return 0
        if seen and seen.checkpoint.origin == shown.origin:
            return max(shown.size, seen.checkpoint.size)
        return shown.size

    def check(
        self,
        bot: str,
        before: int,
        list_posts: Callable[[], Iterable[ClaimedPost]],
        knows: Callable[[str], bool],
    ) -> LogFindings:
        """Compare the posts of a bot; `before`: from `measure`; `knows(id)`: is a post claimed?

        Raises Changed where they fit only if leaves are younger than what is claimed.
        """
        found = LogFindings()
        checkpoint = self._try_log(before, found)
        if checkpoint is None:
            return found

        def compare(before: int) -> LogFindings:
            told = LogFindings(checkpoint.origin)
            self._compare(told, checkpoint, min(before, checkpoint.size), bot, list_posts())
            left_out = self.memory.list_posts(checkpoint.origin, bot, before)
            for post in [one for one in left_out if not knows(one)][:MAX_LEFT_OUT]:
                told.differences.append(Difference(None, f"posts.{post}", None, "it is logged"))
            return told

        return self._weigh_age(before, checkpoint.size, compare)

    def _weigh_age(
        self, before: int, size: int, compare: Callable[[int], LogFindings]
    ) -> LogFindings:
        """Compare with what was logged before; Changed where what is in the log now differs more.

        The instance says how many leaves there were before, and may say too few: by the next
        reading its log was read, and as many are known.
        """
        found = compare(before)
        if self.rereads and before < size and compare(size).differences != found.differences:
            raise Changed
        return found

    def check_held(self, origin: str, bot: str, before: int, held: set[Held]) -> list[Difference]:
        """Compare when a bot is said to have held which wallets with a log that was read. Raises
        Changed as `check` does.
        """
        again, begins_ms = LogFindings(), self._find_begin(origin)

        def compare(before: int) -> LogFindings:
            said = self.memory.list_held(origin, bot)
            return LogFindings(origin, list(compare_held(held, said, before, begins_ms)))

        # What happened since the log was read may be claimed, and is logged by now.
        if compare(before).differences and self._try_log(before, again) is None:
            return again.differences
        seen = self.memory.find_seen()
        size = seen.checkpoint.size if seen else before
        return self._weigh_age(before, size, compare).differences

    def list_bots(self) -> list[str]:
        """The ids of all bots that the log tells of; none where it cannot be read."""
        checkpoint = self._try_log(self.measure(), LogFindings())
        return [] if checkpoint is None else self.memory.list_bots(checkpoint.origin)

    def note_held(self, origin: str, held: set[Held]) -> list[str]:
        """Say how much of when a bot is said to have held wallets the log cannot show."""
        begins_ms = self._find_begin(origin)
        count = sum(one.attached_ms < begins_ms for one in held)
        if not count:
            return []
        began = _show_ms(begins_ms) or "a time that cannot be"
        return [f"its log began at {began}; {count} times with a wallet began earlier: its word"]

    def _find_begin(self, origin: str) -> int:
        """When a log began that continues an earlier one, in ms; 0 of a first one."""
        opening = self.memory.find_opening(origin)
        at = opening.get("at") if opening.get("previous") else 0
        return at if isinstance(at, int) else 0

    def _try_log(self, before: int, found: LogFindings) -> Checkpoint | None:
        try:
            if not before:
                raise witness.CannotTell("it showed no checkpoint before its evidence was read")
            return self._read_log()
        except witness.NewLog as error:
            found.unknown.append(f"its log: {error}")
        except (witness.Alarm, tree.BadProof) as error:
            ours = "a log that begins with what was seen, and leads to its root"
            found.differences.append(Difference(None, "log", str(error), ours))
        except (witness.CannotTell, BadNote) as error:
            found.unknown.append(f"its log cannot be read: {error}")
        return None

    # ---- reading ---------------------------------------------------------------------------------
    def _get(self, path: str) -> bytes:
        try:
            return self.instance.read_log(path)
        except Nonsense as error:
            raise FetchError(str(error)) from None

    def _read_log(self) -> Checkpoint:
        try:
            seen = witness.read_log(self._get, self.memory.find_seen())
        except witness.Alarm as error:
            if error.seen is not None:
                self.memory.keep_seen(error.seen)
            raise
        checkpoint = seen.checkpoint
        if checkpoint.size > MAX_LEAVES:
            raise witness.CannotTell(f"it has {checkpoint.size} leaves, too many to read")
        self.memory.keep_seen(seen)
        for _ in range(2):
            if self._read_leaves(checkpoint) == checkpoint.root:
                return checkpoint
            # What was kept may be of an answer that nobody signed.
            self.memory.forget(checkpoint.origin)
        raise tree.BadProof("its leaves do not lead to the root that it signed")

    def _read_leaves(self, checkpoint: Checkpoint) -> bytes:
        """Fetch the leaves that are not kept; return the root that all lead to."""
        origin, size = checkpoint.origin, checkpoint.size
        full, rest = divmod(size, tree.TILE_WIDTH)
        hashes, end = self.memory.list_bundles(origin, full), time.monotonic() + MAX_SECONDS
        for number in range(len(hashes), full):
            if time.monotonic() > end:
                raise witness.CannotTell(f"{number} of {full} parts are read; run it again")
            if number % TELL_EVERY == TELL_EVERY - 1:
                self.tell(f"log: {number + 1} of {full} parts")
            leaves = self._fetch_bundle(number, tree.TILE_WIDTH)
            hashes.append(tree.hash_tile([tree.hash_leaf(one) for one in leaves]))
            self.memory.keep_bundle(origin, number, leaves, hashes[-1])
        last = self._fetch_bundle(full, rest) if rest else []
        self.memory.keep_bundle(origin, full, last, None)
        return tree.find_root(_make_reader(hashes, [tree.hash_leaf(one) for one in last]), size)

    def _fetch_bundle(self, number: int, width: int) -> list[bytes]:
        try:
            bundle = self._get(tree.write_path("entries", number, width))
        except FetchError as error:
            raise witness.CannotTell(f"of its leaves {error}") from None
        return tree.cut_bundle(bundle, width)

    # ---- comparing -------------------------------------------------------------------------------
    def _compare(
        self,
        found: LogFindings,
        checkpoint: Checkpoint,
        before: int,
        bot: str,
        posts: Iterable[ClaimedPost],
    ) -> None:
        unknown = Counter[str]()
        for post in posts:
            why = excuse(post, checkpoint)
            if why:
                unknown[why] += 1
                continue
            said = self.memory.list_said(checkpoint.origin, post.id)
            for name, theirs, ours in compare_post(post, bot, said, before):
                place = f"posts.{post.id}.logged.{name}"
                found.differences.append(Difference(post.signature, place, theirs, ours))
        found.unknown += [f"{count} of its posts {why}" for why, count in unknown.items()]


def _make_reader(bundles: list[bytes], last: list[bytes]) -> tree.ReadHash:
    """Return a reader of the tree above these full bundles and the leaves after them."""

    def read(level: int, index: int) -> bytes:
        if level == 0:
            return last[index - len(bundles) * tree.TILE_WIDTH]
        if level == 1:
            return bundles[index]
        begin = index * tree.TILE_WIDTH
        return tree.hash_tile([read(level - 1, begin + n) for n in range(tree.TILE_WIDTH)])

    return read


def excuse(post: ClaimedPost, checkpoint: Checkpoint) -> str | None:
    """Why a post cannot be compared with the log of this checkpoint; None where it can."""
    if post.log is None or post.logIndex is None:
        return "are said to be in no log"
    if name_origin(post.log) != checkpoint.origin:
        return "are in an earlier log, from before a restore or another key"
    if post.logIndex >= checkpoint.size:
        return "are younger than the log's checkpoint"
    return None


def compare_post(
    post: ClaimedPost, bot: str, said: list[Said], before: int
) -> Iterator[tuple[str, Any, Any]]:
    """Yield (field, theirs, the log's) where a post is not as the leaves about it say.

    A leaf from the place `before` on may be younger than what was claimed.
    """
    leaf = next((one.leaf for one in said if one.place == post.logIndex), None)
    if leaf is None or leaf["kind"] != "post":
        yield "logIndex", post.logIndex, "no leaf of this post"
        return
    pairs = {name: (getattr(post, name), leaf.get(name)) for name in SAME_NAMES}
    pairs["botId"] = (bot, leaf.get("bot"))
    pairs["createdAt"] = (post.createdAt, _show_ms(leaf.get("at")))
    pairs |= _compare_verdict(post, leaf, said, before)
    pairs["hidden"] = (post.hidden, _find_hidden(post, said, before))
    for name, (theirs, ours) in pairs.items():
        if theirs != ours:
            yield name, theirs, ours
    if not post.hidden and not _is_said(post, leaf.get("words")):
        yield "words", post.words and post.words.body, "words of another hash"


def _compare_verdict(
    post: ClaimedPost, leaf: dict[str, Any], said: list[Said], before: int
) -> dict[str, tuple[Any, Any]]:
    """The verification as it is claimed and as it was logged, by field."""
    claimed = Verdict(post.status, post.reason, post.eventAt)
    moves = [one for one in said if one.leaf["kind"] == "verification"]
    known = [_read_verdict(one.leaf) for one in moves if one.place < before]
    last = known[-1] if known else _read_verdict(leaf)
    since = [_read_verdict(one.leaf) for one in moves if one.place >= before]
    logged = claimed if claimed in since else last
    return {name: (getattr(claimed, name), getattr(logged, name)) for name in Verdict._fields}


def _read_verdict(leaf: dict[str, Any]) -> Verdict:
    return Verdict(leaf.get("status"), leaf.get("statusReason"), _show_ms(leaf.get("eventAt")))


def _find_hidden(post: ClaimedPost, said: list[Said], before: int) -> bool:
    hidings = [one.place for one in said if one.leaf["kind"] == "hiding"]
    return any(place < before for place in hidings) or (post.hidden and bool(hidings))


def _is_said(post: ClaimedPost, words: Any) -> bool:
    if post.words is None:
        return False
    one = post.words
    found = hash_words(one.salt or "", one.eventId, one.body, one.symbol, one.reason)
    return bool(found == words)


def _show_ms(ms: Any) -> str | None:
    if not isinstance(ms, int) or not 0 <= ms <= LAST_MS:
        return None
    return show_time(ms // 1000)
