"""Compare the log's leaves about bots, posts and wallets with the claims. Pure.

Leaves from `before` on may be newer than the claims, so they can explain a difference, but they
aren't one.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from accounts.influencers import SAID
from evidence.audited_log import Said
from evidence.claims import ClaimedLeaf, ClaimedProfile, ClaimedWallet
from evidence.differences import Difference, compare
from evidence.lines import ClaimedPost
from storage.log import hash_words

# In both a post's leaf and its line.
SAME_NAMES = ("wallet", "source", "channel", "mint", "signature")
VERDICT = {"status": "status", "reason": "statusReason", "eventAtMs": "eventAt"}
Json = dict[str, Any]


def _list(said: Iterable[Said], *kinds: str) -> list[Said]:
    return [one for one in said if one.leaf["kind"] in kinds]


def _settle(claimed: Any, logged: Iterable[tuple[int, Any]], before: int) -> Any:
    """Return the value that was logged last, or the claimed value if it was logged later."""
    known, since = None, list[Any]()
    for place, value in logged:
        if place < before:
            known = value
        else:
            since.append(value)
    return claimed if claimed in since else known


# ---- posts ---------------------------------------------------------------------------------------
def compare_post(
    post: ClaimedPost, bot: str, place: int | None, said: list[Said], before: int
) -> Iterator[Difference]:
    """The post's own leaf is at `place`. `said`: later leaves about it."""
    where = f"posts.{post.id}.logged"
    leaf = next((one.leaf for one in _list(said, "post") if one.place == place), None)
    if leaf is None:
        missing = "the log has no entry for this post"
        yield Difference(post.signature, f"{where}.logIndex", post.logIndex, missing)
        return
    verdict = {name: getattr(post, name) for name in VERDICT}
    moves = [(one.place, _read_verdict(one.leaf)) for one in _list(said, "post", "verification")]
    hidings = [(one.place, one.leaf.get("at")) for one in _list(said, "hiding")]
    hidden = _settle(post.hiddenAtMs, hidings, before)
    theirs: Json = {
        **{name: getattr(post, name) for name in SAME_NAMES},
        **verdict,
        "botId": bot,
        "createdAtMs": post.createdAtMs,
        "hiddenAtMs": post.hiddenAtMs,
    }
    ours: Json = {
        **{name: leaf.get(name) for name in SAME_NAMES},
        **(_settle(verdict, moves, before) or {}),
        "botId": leaf.get("bot"),
        "createdAtMs": leaf.get("at"),
        "hiddenAtMs": hidden,
    }
    if post.hiddenAtMs is None:
        theirs["words"], ours["words"] = _hash_post(post), leaf.get("words")
    yield from compare(theirs, ours, where, post.signature)


def _read_verdict(leaf: Json) -> Json:
    return {name: leaf.get(member) for name, member in VERDICT.items()}


def _hash_post(post: ClaimedPost) -> str | None:
    one = post.words
    if one is None:
        return None
    return hash_words(one.salt or "", one.eventId, one.body, one.symbol, one.reason)


# ---- bots ----------------------------------------------------------------------------------------
def compare_bot(bot: ClaimedProfile, said: list[Said], before: int) -> Iterator[Difference]:
    profiles = _list(said, "profile")
    if not profiles:
        missing = "the log has no entry for this bot"
        yield Difference(None, "bot.logged", bot.said.get("name"), missing)
        return
    words = hash_words(bot.salt, *(bot.said.get(name) for name in SAID))
    shown = {"owner": bot.owner, "words": words}
    logged = [(one.place, {name: one.leaf.get(name) for name in shown}) for one in profiles]
    retired = [(one.place, one.leaf.get("at")) for one in _list(said, "retirement")]
    ours = {
        **(_settle(shown, logged, before) or {}),
        "createdAtMs": profiles[0].leaf.get("at"),
        "retiredAtMs": _settle(bot.retiredAtMs, retired, before),
    }
    theirs = {**shown, "createdAtMs": bot.createdAtMs, "retiredAtMs": bot.retiredAtMs}
    yield from compare(theirs, ours, "bot.logged")


# ---- wallets -------------------------------------------------------------------------------------
def compare_published(wallet: ClaimedWallet, said: list[Said], before: int) -> Iterator[Difference]:
    """Check that every logged record of a wallet was published, and still is."""
    leaves = [one.leaf for one in _list(said, "evidence") if one.place < before]
    logged = [leaf.get("records") for leaf in leaves]
    records = max((count for count in logged if isinstance(count, int)), default=0)
    shown = sum(span.openPositions is not None for span in wallet.spans)
    if shown < records:
        yield Difference(None, "published", f"{shown} records", f"{records} are in the log")
    if leaves and wallet.coverage is None:
        yield Difference(None, "published", "not yet", "its evidence is in the log")


def compare_last_digest(
    claimed: ClaimedLeaf | None, place: int | None, said: list[Said], before: int
) -> Iterator[Difference]:
    shown = claimed and _show_digest(place, claimed.digest, claimed.loggedAtMs)
    logged = [
        (one.place, _show_digest(one.place, one.leaf.get("digest"), one.leaf.get("at")))
        for one in _list(said, "evidence")
    ]
    yield from compare(shown, _settle(shown, logged, before), "log")


def _show_digest(place: int | None, digest: Any, at: Any) -> Json:
    return {"leaf": place, "digest": digest, "loggedAtMs": at}


class Held(NamedTuple):
    """A period (ms) in which a bot had a wallet. `detached_ms` is None if it still has it."""

    ownership: str | None
    attached_ms: int | None
    detached_ms: int | None

    @property
    def is_empty(self) -> bool:
        """Whether it ended when it began, or earlier because a clock was set back."""
        begins, ends = self.attached_ms, self.detached_ms
        return begins is not None and ends is not None and ends <= begins

    def covers(self, at: int) -> bool:
        begins, ends = self.attached_ms, self.detached_ms
        return begins is not None and begins <= at and (ends is None or ends > at)


HeldWallets = dict[str, list[Held]]


def list_held(bot: str, wallets: Iterable[ClaimedWallet]) -> HeldWallets:
    return {
        wallet.address: [
            Held(span.ownership, span.attachedAtMs, span.detachedAtMs)
            for span in wallet.spans
            if span.botId == bot
        ]
        for wallet in wallets
    }


def compare_held(held: HeldWallets, said: list[Said], before: int) -> Iterator[Difference]:
    said = _list(said, "attachment", "detachment")
    ends = [before, *(one.place + 1 for one in said if one.place >= before)]
    moments = [fold_leaves(one for one in said if one.place < end) for end in ends]
    for address in sorted(held.keys() | moments[0].keys()):
        mine = _show_held(held.get(address, []))
        logged = [_show_held(told.get(address, [])) for told in moments]
        if mine not in logged:
            yield Difference(None, f"held.{address}", mine, logged[-1])


def _show_held(spans: Iterable[Held]) -> list[list[Any]]:
    shown = [one for one in spans if not one.is_empty]
    return [list(one) for one in sorted(shown, key=lambda one: one.attached_ms or 0)]


def fold_leaves(said: Iterable[Said]) -> HeldWallets:
    """Return the periods in which a bot had each wallet, from the leaves about it in order."""
    found: HeldWallets = {}
    for one in said:
        address, at = one.leaf.get("wallet"), one.leaf.get("at")
        if not isinstance(address, str) or type(at) is not int:
            continue
        spans = found.setdefault(address, [])
        is_open = bool(spans) and spans[-1].detached_ms is None
        if one.leaf["kind"] == "detachment":
            last = spans.pop() if is_open else Held(None, None, None)
            spans.append(last._replace(detached_ms=at))
            continue
        # If a wallet is attached again before it is detached, this is its proof.
        began = spans.pop().attached_ms if is_open else at
        spans.append(Held(str(one.leaf.get("ownership")), began, None))
    return found
