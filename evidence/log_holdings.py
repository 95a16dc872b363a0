"""Compare when a bot is said to have held which wallets with what was logged of it. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from evidence.claims import ClaimedWallet
from evidence.comparing import Difference
from evidence.log_memory import Said


class Held(NamedTuple):
    """A wallet that a bot is said to have held, from when to when in ms (None: until now)."""

    wallet: str
    ownership: str | None
    attached_ms: int
    detached_ms: int | None


class Logged(NamedTuple):
    """A time a bot held a wallet, by the log; None: logged before this log began, or not yet."""

    ownership: str | None = None
    attached_ms: int | None = None
    detached_ms: int | None = None


def list_held(bot: str, wallets: Iterable[ClaimedWallet]) -> set[Held]:
    """What the evidence of these wallets says of when the bot held them."""
    return {
        Held(wallet.address, span.ownership, span.attachedAtMs, span.detachedAtMs)
        for wallet in wallets
        for span in wallet.spans
        if span.botId == bot
    }


def compare_held(
    held: set[Held], said: list[Said], before: int, begins_ms: int
) -> Iterator[Difference]:
    """Name the wallets of which the log says something else. `said`: the leaves about the bot; any
    from the place `before` on may be younger than what was claimed. `begins_ms`: what happened
    earlier stands in another log.
    """
    ends = [before, *(one.place + 1 for one in said if one.place >= before)]
    moments = [fold_leaves(one for one in said if one.place < end) for end in ends]
    for address in sorted({one.wallet for one in held} | moments[0].keys()):
        mine = [one for one in held if one.wallet == address]
        if not any(_agrees(mine, told.get(address, []), begins_ms) for told in moments):
            theirs = [list(one[1:]) for one in sorted(mine, key=lambda one: one.attached_ms)]
            ours = [list(one) for one in moments[-1].get(address, [])]
            yield Difference(None, f"held.{address}", theirs, ours)


def fold_leaves(said: Iterable[Said]) -> dict[str, list[Logged]]:
    """When a bot held each wallet, by the leaves about it, in their order."""
    found: dict[str, list[Logged]] = {}
    for one in said:
        address, at = one.leaf.get("wallet"), one.leaf.get("at")
        if not isinstance(address, str) or type(at) is not int:
            continue
        spans = found.setdefault(address, [])
        is_open = bool(spans) and spans[-1].detached_ms is None
        if not is_open:
            spans.append(Logged())
        spans[-1] = _add_leaf(spans[-1], one.leaf, at, is_open)
    return found


def _add_leaf(span: Logged, leaf: dict[str, Any], at: int, is_open: bool) -> Logged:
    if leaf["kind"] == "detachment":
        return span._replace(detached_ms=at)
    ownership = str(leaf.get("ownership"))
    # A second one while it is held tells of its proof.
    return span._replace(ownership=ownership, attached_ms=span.attached_ms if is_open else at)


def _agrees(held: list[Held], logged: list[Logged], begins_ms: int) -> bool:
    """Does each logged time fit a claimed one, and the other way round?"""
    must = [one for one in held if _is_logged_here(one, begins_ms)]
    shown = [span for span in logged if not _is_empty(span)]
    return all(any(_fits(one, span, begins_ms) for one in held) for span in shown) and all(
        any(_fits(one, span, begins_ms) for span in logged) for one in must
    )


def _is_empty(span: Logged) -> bool:
    """Did it end as it began, or before, by a clock that was set? Then no books know of it."""
    begins, ends = span.attached_ms, span.detached_ms
    return begins is not None and ends is not None and ends <= begins


def _is_logged_here(one: Held, begins_ms: int) -> bool:
    return one.attached_ms >= begins_ms or (one.detached_ms or 0) >= begins_ms > 0


def _fits(one: Held, span: Logged, begins_ms: int) -> bool:
    if one.detached_ms != span.detached_ms:
        return False
    if one.attached_ms < begins_ms:
        # At most its proof is logged here.
        return span.attached_ms is None or span.attached_ms >= one.attached_ms
    return (one.ownership, one.attached_ms) == (span.ownership, span.attached_ms)
