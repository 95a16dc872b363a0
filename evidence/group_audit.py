"""Work out the books of a wallet that is, or was, one of several, from what a node told of each."""

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chain.amounts import show_lamports
from chain.ledger.forward import Span
from chain.ledger.group_book import Family, PendingGroup, begin_group, rebuild_group
from chain.ledger.groups import GroupLedger, LedSpan, Stay, join_coverages, join_parts
from chain.ledger.lots import Opening
from chain.reading.entries import Entry, read_entry
from chain.reading.kinds import TRADES
from chain.reading.programs import Programs
from chain.stored.summary import NOT_POLLED, show_time
from chain.stored.trade_store import trade_uid
from chain.stored.verify import judge, list_moved_mints
from evidence import totals
from evidence.claims import ClaimedGroup, ClaimedPost, ClaimedWallet, Nonsense
from evidence.comparing import (
    Difference,
    Findings,
    LineFinding,
    compare_line,
    compare_spans,
    compare_sums,
    cut,
    is_same,
    show_sums,
)
from evidence.document import drop_polls
from evidence.memory import Memory
from evidence.pages import Line
from evidence.rebuilding import RebuiltLedger, Row
from evidence.receipts import make_line
from evidence.view import View

Tell = Callable[[str, Row], None]


@dataclass(frozen=True)
class Part:
    """A wallet of a bot: what is claimed of it, what the node told, and whether that is whole."""

    claimed: ClaimedWallet
    memory: Memory
    view: View
    is_whole: bool

    @property
    def addresses(self) -> set[str]:
        return self.view.addresses


@dataclass(frozen=True)
class Group:
    """The group of a wallet, as far as the audit of a bot is about it. `is_whole`: its books are
    this bot's alone; `stands_beside`: they are made under another wallet of the bot.
    """

    claimed: ClaimedGroup
    family: Family
    is_whole: bool
    stands_beside: bool


# ---- what is claimed of it -----------------------------------------------------------------------
def read_group(bot: str, wallet: ClaimedWallet) -> Group:
    """What is claimed of the group of a wallet. Raises Nonsense where that cannot be.

    What other bots held together with it is compared with those bots, and left out here.
    """
    group = wallet.group
    assert group is not None
    numbers = {address: number for number, address in enumerate(group.wallets, 1)}
    named = {wallet.address, *group.members, *(one.wallet for one in group.stays)}
    if len(numbers) < len(group.wallets) or not named <= numbers.keys():
        raise Nonsense("its evidence names a wallet of a group that the group lacks")
    is_here, led_spans = group.botId in (None, bot), list[LedSpan]()
    for number, span in enumerate(wallet.spans, 1):
        whole = Span(number, span.attachedAtMs, span.detachedAtMs)
        stays = tuple(_list_stays(group, numbers, span.botId, whole))
        if span.botId == bot or not stays:
            led_spans.append(LedSpan(whole, numbers[wallet.address], stays))
    members = group.members if is_here and group.lead == wallet.address else []
    family = Family(
        numbers[wallet.address],
        frozenset(numbers[one] for one in members),
        tuple(led_spans),
        {number: address for address, number in numbers.items()},
    )
    return Group(
        group,
        family,
        is_here and len(led_spans) == len(wallet.spans),
        is_here and group.lead != wallet.address,
    )


def _list_stays(
    group: ClaimedGroup, numbers: Mapping[str, int], bot: str | None, span: Span
) -> Iterator[Stay]:
    for number, one in enumerate(group.stays, 1):
        stay = Stay(number, numbers[one.wallet], one.attachedAtMs, one.detachedAtMs)
        if one.botId == bot and stay.overlaps(span):
            yield stay


def check_place(bot: str, wallet: ClaimedWallet, parts: Mapping[str, Part]) -> Iterator[Difference]:
    """Name a wallet whose trades are said to stand in books that lack it: nobody would compare
    them.
    """
    group = wallet.group
    assert group is not None
    if group.botId not in (None, bot):
        if _is_held(bot, wallet, parts):
            yield Difference(None, "group.botId", group.botId, bot)
        return
    lead = parts.get(group.lead)
    members = lead.claimed.group.members if lead and lead.claimed.group else []
    if wallet.address not in members:
        ours = f"books of {group.lead} that lack {wallet.address}"
        yield Difference(None, "group.lead", group.lead, ours)


def _is_held(bot: str, wallet: ClaimedWallet, parts: Mapping[str, Part]) -> bool:
    """Is the bot said to hold a wallet now, by anything that it claims?"""
    leads = any(one.botId == bot and one.detachedAtMs is None for one in wallet.spans)
    groups = (part.claimed.group for part in parts.values())
    stays = (one for group in groups if group for one in group.stays)
    return leads or any(
        (one.botId, one.wallet, one.detachedAtMs) == (bot, wallet.address, None) for one in stays
    )


# ---- its books -----------------------------------------------------------------------------------
def rebuild_parts(
    group: Group, parts: Mapping[str, Part], programs: Programs, tell: Tell
) -> tuple[PendingGroup, RebuiltLedger]:
    """Book what the node told of all wallets of a group. `tell` is given the address and each trade
    row of a member, as the books finally have it.
    """
    family, addresses = group.family, group.family.addresses
    mine = {number: parts[addresses[number]] for number in family.wallets}
    begun = begin_group(
        family,
        {number: _begin(part.claimed) for number, part in mine.items()},
        _Reader(mine, programs).join,
    )
    last_trade: list[int] = []

    def take(row: Row) -> None:
        if row["kind"] in TRADES and row["block_time"] is not None:
            last_trade[:] = [max([row["block_time"], *last_trade])]
        tell(addresses[row["wallet"]], row)

    pending = rebuild_group(begun, lambda: _list_entries(mine), take)
    return pending, RebuiltLedger(pending, last_trade[0] if last_trade else None)


def list_untouched(wallet: ClaimedWallet) -> dict[str, Opening]:
    """What accounts are claimed to hold that no known transaction touched."""
    return {
        one.address: Opening.untouched(one.address, one.mint, int(one.amountRaw), one.decimals)
        for one in wallet.untouched
    }


def _begin(wallet: ClaimedWallet) -> GroupLedger:
    return GroupLedger(backfilled=wallet.backfilled, untouched=list_untouched(wallet))


def _list_entries(parts: Mapping[int, Part]) -> Iterator[tuple[int, Entry]]:
    def name(number: int, part: Part) -> Iterator[tuple[int, Entry]]:
        return ((number, kept.entry) for kept in part.memory.list_claimed())

    named = [name(number, part) for number, part in sorted(parts.items())]
    return heapq.merge(*named, key=lambda one: one[1].slot)


class _Reader:
    """Reads transactions as those of an owner of several wallets."""

    def __init__(self, parts: Mapping[int, Part], programs: Programs) -> None:
        self._parts, self._programs = parts, programs

    def join(self, parts: dict[int, Entry]) -> Entry:
        return join_parts(parts, self._read)

    def _read(self, signature: str, wallets: frozenset[int]) -> Entry:
        first, *others = (self._parts[number] for number in sorted(wallets))
        receipt = first.memory.find_receipt(signature)
        if receipt is None:
            raise ValueError("the transaction is not kept")
        return read_entry(
            receipt,
            first.claimed.address,
            self._programs,
            first.addresses.union(*(one.addresses for one in others)),
            frozenset(one.claimed.address for one in others),
        )


# ---- comparing -----------------------------------------------------------------------------------
def compare_group(
    bot: str, wallet: ClaimedWallet, parts: Mapping[str, Part], programs: Programs
) -> tuple[Findings, list[str]]:
    """Compare the books that stand under a wallet and are made of several: what differs, and why
    something cannot be told. Raises Nonsense.
    """
    group, found = read_group(bot, wallet), Findings()
    needed = [group.family.addresses[number] for number in group.family.wallets]
    withheld = [one for one in needed if one not in parts]
    if withheld:
        told = f"{withheld[0]}, which its group names"
        return Findings([Difference(None, "wallets", "(not said)", told)]), []
    lacking = [one for one in needed if not parts[one].is_whole]
    if lacking:
        return found, [f"what it did together with {one} is not compared" for one in lacking]

    def compare(address: str, row: Row) -> None:
        found.add(compare_row(parts[address].memory, row))

    pending, rebuilt = rebuild_parts(group, parts, programs, compare)
    found.differences += compare_group_coverage(group, parts)
    if group.is_whole:
        ours = show_group_sums(group, rebuilt)
        found.differences += compare_sums(wallet.sums, ours, found.timeless)
    if not found.timeless:
        found.differences += compare_spans(wallet.spans, rebuilt)
        found.differences += compare_stays(group, pending)
    return found, []


def compare_row(memory: Memory, row: Row, fields: Collection[str] | None = None) -> LineFinding:
    """Compare a trade row that was worked out with the line that is claimed; `fields`: these."""
    kept = memory.find_entry(row["signature"])
    if kept is None or kept.line is None:
        return LineFinding([], False, False)
    return compare_line(kept.line, make_line(row, kept.digest, kept.entry.seen_at), fields)


def show_group_sums(group: Group, rebuilt: RebuiltLedger) -> dict[str, Any]:
    """The `sums` of its document, worked out. A wallet beside another has none of its own."""
    if not group.stands_beside:
        return show_sums(rebuilt)
    none = totals.digest_rows(())
    forward = rebuilt.pending.forward.sum_realized()
    return {
        **dict.fromkeys(("results", "positions", "realizedLamports", "costLeftLamports")),
        **dict.fromkeys(("lastTradeAt", "reconciliation", "averageCost")),
        "forwardRealizedLamports": show_lamports(forward),
        **dict.fromkeys(("hours", "risk", "tokens"), none),
    }


def compare_stays(group: Group, pending: PendingGroup) -> Iterator[Difference]:
    """Compare what wallets brought and took along that stood beside the one that led."""
    for number, found in pending.group_forward.find_stays().items():
        stay = group.claimed.stays[number - 1]
        ours = {
            "carriedInLamports": str(found.carried_in),
            "openCostLamports": str(found.open_cost),
        }
        for name, value in ours.items():
            # Null: not published since it began.
            if getattr(stay, name) not in (None, value):
                yield Difference(None, f"stays.{number}.{name}", getattr(stay, name), value)


def compare_group_coverage(group: Group, parts: Mapping[str, Part]) -> Iterator[Difference]:
    """Compare the coverage of a group with those that are claimed of its members."""
    members = [group.family.addresses[number] for number in sorted(group.family.members)]
    told = {one: parts[one].claimed.coverage or NOT_POLLED for one in members}
    if not told:
        return
    try:
        ours = join_coverages(told) if len(told) > 1 else next(iter(told.values()))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise Nonsense("its evidence has a coverage that cannot be") from None
    theirs = drop_polls({"coverage": group.claimed.coverage})["coverage"] or {}
    for name, value in drop_polls({"coverage": ours})["coverage"].items():
        if not is_same(theirs.get(name), value):
            yield Difference(None, f"group.coverage.{name}", cut(theirs.get(name)), cut(value))


# ---- posts ---------------------------------------------------------------------------------------
def list_together(bot: str, post: ClaimedPost, parts: Mapping[str, Part]) -> dict[str, Part]:
    """The wallets that may verify a post, by address: its own, and those that its bot held beside
    it when it was made; none where the bot never had several.
    """
    if post.wallet is None or post.wallet not in parts:
        return {}
    begins_ms = _read_second(post.createdAt) * 1000
    groups = (part.claimed.group for part in parts.values())
    beside = {
        one.wallet
        for group in groups
        for one in (group.stays if group else ())
        if one.botId == bot
        and one.attachedAtMs < begins_ms + 1000
        and (one.detachedAtMs is None or one.detachedAtMs >= begins_ms)
    }
    named = [post.wallet, *sorted(beside - {post.wallet})]
    return {address: parts[address] for address in named if address in parts}


def _read_second(text: str | None) -> int:
    try:
        return int(datetime.fromisoformat(text or "").timestamp())
    except ValueError:
        raise Nonsense("its evidence has a post without a time") from None


def find_lines(signature: str, parts: Mapping[str, Part]) -> dict[str, Line]:
    """What is claimed of a transaction, by the address of the wallet."""
    kept = {address: part.memory.find_entry(signature) for address, part in parts.items()}
    return {address: one.line for address, one in kept.items() if one and one.line is not None}


def judge_lines(post: ClaimedPost, lines: Mapping[str, Mapping[str, Any]]) -> Iterator[Difference]:
    """Compare the verification of a post with the lines of the transaction that it names, by the
    address of the wallet: where one verifies it, that decides. The lines are compared elsewhere.
    """
    if post.status == "pending" and post.checkedAt is None:
        return
    found = [_judge_line(post, address, line) for address, line in lines.items()]
    right = [one for one in found if one[0] == "verified"] or found
    said = (post.status, post.reason, post.tradeId, post.eventAt)
    if not any(said[:3] == one[:3] and one[3] in (None, post.eventAt) for one in right):
        yield Difference(post.signature, f"posts.{post.id}.status", cut(said), cut(right[0]))


Verdict = tuple[str, str | None, str, str | None]


def _judge_line(post: ClaimedPost, address: str, line: Mapping[str, Any]) -> Verdict:
    """(status, reason, id of the trade, when it happened where that is told)"""
    try:
        mints = list_moved_mints(
            line["kind"], line["mint"], line["tokenChanges"], line["besideTokens"]
        )
        status, reason = judge(
            line["kind"], line["flags"], mints, post.mint, line["explainedPercent"]
        )
    except (KeyError, TypeError, ValueError):
        raise Nonsense("its evidence has a line that cannot be") from None
    time = line.get("blockTime") if status == "verified" else None
    at = show_time(time) if type(time) is int else None
    return status, reason, trade_uid(address, line["signature"]), at
