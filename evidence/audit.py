"""Recompute everything that an instance claims about a bot, using the auditor's own node.

If the node lacks a transaction, an order or a time, or if the rules differ, that isn't a
difference. Only claims that the chain's balances disprove are differences.
"""

import contextlib
import csv
import io
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import orjson

from accounts.fields import parse_moment
from accounts.verification import TimedPost, judge_delays, sum_delays
from chain.ledger.coverage import (
    ACCOUNTS_CAPPED,
    CAPPED,
    UNRESOLVED,
    BalanceChain,
    is_explained,
)
from chain.ledger.inventory import SOL, Opening
from chain.ledger.ledger import WHOLE, Ledger
from chain.ledger.sales import UNEXPLAINED, Booked, see_side
from chain.ledger.totals import HOUR_SECONDS, Span, Spans, round_down
from chain.reading.added_currencies import COLUMNS, read_currencies
from chain.reading.currencies import Currency, list_added, using_currencies
from chain.reading.entries import READING, Entry
from chain.reading.flows import touches
from chain.reading.programs import ADDED_COLUMNS, BadTable, Programs, table
from chain.stored.attachments import (
    OWN_FLAGS,
    OWN_WALLETS,
    Holder,
    Sibling,
    find_past,
    is_own_trade,
    mark_own,
)
from chain.stored.derived import show_time
from chain.stored.store import (
    BookedEntry,
    PendingLedger,
    name_rules,
    rebuild_ledger,
    show_extent,
)
from chain.stored.trades import OTHER_WALLET, judge, list_moved_mints, make_trade_row, trade_uid
from config import VERSION
from evidence import claimed
from evidence.audited_log import LogAudit
from evidence.claimed import Books
from evidence.claims import (
    MAX_READINGS,
    MAX_WALLETS,
    Changed,
    ClaimedSpan,
    ClaimedWallet,
    Claims,
    Instance,
    Nonsense,
)
from evidence.differences import (
    AUDITOR,
    INSTANCE,
    NODE,
    NOTHING_SAID,
    Difference,
    Report,
    compare,
    cut,
    is_same,
)
from evidence.leaves import (
    compare_bot,
    compare_held,
    compare_last_digest,
    compare_post,
    compare_published,
    list_held,
)
from evidence.lines import ClaimedPost, Line, make_line
from evidence.memory import KeptEntry, Memory
from evidence.notes import Checkpoint
from evidence.seasons import compare_seasons, name_reading, recompute_season
from evidence.view import Node, View
from models import Attachment, Bot, Wallet

# Posts missing from the evidence that a report lists.
MAX_LEFT_OUT = 1_000
# Suspects that are requested again before they are reported.
MAX_SUSPECTS = 500
# How far the chain's clock may be ahead of an instance's clock.
MAX_AHEAD_SECONDS = 600
# How long an instance may take to publish a span after checking the wallet.
MAX_WAITING_MS = 600_000
# Sums that don't depend on block times.
TIMELESS = ("results", "positions", "reconciliation", "averageCost")
# Depend only on the transaction. The others also depend on earlier transactions.
OWN_FIELDS = frozenset(
    (
        *("tradeId", "signature", "slot", "transactionIndex", "blockTime", "receipt", "kind"),
        *("venue", "mint", "explainedPercent", "solChangeLamports", "feeLamports", "tipLamports"),
        *("rentLamports", "besideLamports", "tokenChanges", "besideTokens", "counterparties"),
    )
)
# Members to ignore if one side lacks this one, because some nodes don't report it.
UNTOLD = {
    "transactionIndex": "transactionIndex",
    "place": "transactionIndex",
    "blockTime": "blockTime",
}


@dataclass
class Findings:
    """Findings about a wallet or a line.

    `timeless` means that only one side knows a block time. `unresolved` means that at least one
    side doesn't know an order inside a slot.
    """

    differences: list[Difference] = field(default_factory=list)
    timeless: bool = False
    unresolved: bool = False

    def add(self, found: "Findings") -> None:
        self.differences += found.differences
        self.timeless = self.timeless or found.timeless
        self.unresolved = self.unresolved or found.unresolved


# ---- lines ---------------------------------------------------------------------------------------
def make_own_line(wallet: str, entry: Entry, digest: str) -> Line:
    """Return only the members that don't depend on other transactions (OWN_FIELDS)."""
    holder = SimpleNamespace(id=0, address=wallet)
    booked = Booked(entry, see_side(entry, SOL), entry.flags)
    row = make_trade_row(holder, entry.tx_index or 0, {WHOLE: booked})
    return make_line(row, digest, entry.seen_at)


def compare_line(
    theirs: Mapping[str, Any], ours: Line, fields: Collection[str] | None = None
) -> Findings:
    found, timeless = [], False
    for name, value in ours.items():
        if name == "seenAtMs" or (fields is not None and name not in fields):
            continue
        claimed = theirs.get(name, NOTHING_SAID)
        if name in UNTOLD and None in (theirs.get(UNTOLD[name]), ours[UNTOLD[name]]):
            timeless = timeless or (name == "blockTime" and claimed is not value)
        elif not is_same(claimed, value):
            found.append(Difference(ours["signature"], name, cut(claimed), cut(value)))
    said = [flags for flags in (theirs.get("flags"), ours["flags"]) if isinstance(flags, list)]
    return Findings(found, timeless, any(UNRESOLVED in flags for flags in said))


# ---- coverage ------------------------------------------------------------------------------------
def compare_coverage(
    coverage: Mapping[str, Any], pending: PendingLedger, timeless: bool
) -> Iterator[Difference]:
    ledger, worked_out = pending.ledger, show_extent(pending)
    if timeless:
        worked_out.pop("observedFrom")
    yield from compare({name: coverage.get(name) for name in worked_out}, worked_out, "coverage")
    said = list_gaps(coverage)
    hidden = [gap for gap in ledger.chain.gaps if not _is_in(said, gap.from_slot, gap.to_slot)]
    if hidden and coverage.get("state") in ("partial", "complete"):
        ours = f"a gap from slot {hidden[0].from_slot} to {hidden[0].to_slot}"
        yield Difference(None, "coverage.gaps", len(said), ours)
    if coverage.get("state") == "complete" and (ledger.chain.opened or said):
        yield Difference(None, "coverage.state", "complete", "its history begins late or has gaps")


def list_gaps(coverage: Mapping[str, Any] | None) -> list[tuple[int, int]]:
    gaps = (coverage or {}).get("gaps")
    found = []
    for gap in gaps if isinstance(gaps, list) else []:
        match gap:
            case {"fromSlot": int(first), "toSlot": int(last)}:
                found.append((first, last))
    return found


def _is_in(gaps: Collection[tuple[int, int]], first: int, last: int) -> bool:
    return any(begin <= first and last <= end for begin, end in gaps)


def excuse(coverage: Mapping[str, Any] | None, slot: int) -> str | None:
    """Return why an instance's own coverage lets it lack transactions in this slot, if it does."""
    state = (coverage or {}).get("state")
    if coverage is None or state not in ("partial", "complete"):
        return "the instance says it's still fetching"
    if _is_in(list_gaps(coverage), slot, slot):
        return "the instance reports a gap there"
    note = coverage.get("note")
    if isinstance(note, str) and note.startswith((CAPPED, ACCOUNTS_CAPPED)):
        return "the instance says it reached this wallet's limit"
    first = coverage.get("firstSlot")
    if state == "partial" and type(first) is int and slot < first:
        return "the instance says its history starts later"
    return None


# ---- posts ---------------------------------------------------------------------------------------
def judge_claimed(post: ClaimedPost, entries: Mapping[str, Entry]) -> Iterator[Difference]:
    """Compare a post's verification with the transaction it cites. `entries` is by wallet.

    One wallet for which the post is verified is enough.
    """
    if post.status == "pending" and post.checkedAtMs is None:
        # The post is newer than the wallet's last publication.
        return
    found = [_judge_entry(post, address, entry) for address, entry in entries.items()]
    right = [one for one in found if one["status"] == "verified"] or found
    differing = [
        [name for name, value in ours.items() if getattr(post, name) != value] for ours in right
    ]
    if all(differing):
        for name in differing[0]:
            place, said = f"posts.{post.id}.{name}", getattr(post, name)
            yield Difference(post.signature, place, said, right[0][name])


def _judge_entry(post: ClaimedPost, address: str, entry: Entry) -> dict[str, Any]:
    mints = list_moved_mints(entry.kind, entry.mint, entry.tokens, entry.beside_tokens)
    status, reason = judge(entry.kind, entry.flags, mints, post.mint, entry.explained_percent)
    ours: dict[str, Any] = {
        "status": status,
        "reason": reason,
        "tradeId": trade_uid(address, entry.signature),
    }
    if status == "verified" and entry.block_time is not None:
        ours["eventAtMs"] = entry.block_time * 1000
    return ours


def judge_unseen(post: ClaimedPost, is_foreign: bool | None) -> Iterator[Difference]:
    """Compare a post's verification if its transaction isn't among its wallet's.

    `is_foreign` is whether the transaction exists but doesn't involve the wallet's accounts, or was
    another bot's. None means unknown.
    """
    status, reason, told = (
        (*OTHER_WALLET, "mismatch (other_wallet)")
        if is_foreign
        else ("pending", None, "not a trade of this wallet")
    )
    undecided = post.status in ("pending", "not_found") and post.reason is None
    fits = (post.status, post.reason) == (status, reason) or undecided
    if (not fits and is_foreign is not None) or post.status == "verified":
        yield Difference(post.signature, f"posts.{post.id}.status", post.status, told)
    elif post.tradeId is not None:
        yield Difference(post.signature, f"posts.{post.id}.tradeId", post.tradeId, None)


def judge_unsigned(post: ClaimedPost) -> Iterator[Difference]:
    for name, value in (("status", "none"), ("reason", None), ("tradeId", None)):
        if getattr(post, name) != value:
            yield Difference(post.signature, f"posts.{post.id}.{name}", getattr(post, name), value)


# ---- a wallet ---------------------------------------------------------------------------------
@dataclass
class WalletAudit:
    auditor: "Auditor"
    report: Report
    programs: Programs
    claims: Claims
    memory: Memory
    books: Books
    findings: Findings = field(default_factory=Findings)
    # All claimed transactions are available for the rebuild.
    is_whole: bool = False
    _unexplained: set[str] = field(default_factory=set)
    # The bot's other wallets, and the times when it had both.
    _siblings: "list[tuple[WalletAudit, Sibling]]" = field(default_factory=list)

    def read_claims(self) -> bool:
        if self.wallet.rules.partition("@")[0] != self.claims.rules:
            self._cannot_tell(INSTANCE, "its transactions are being read again under new rules")
            return False
        self._count = self._read_receipts()
        return True

    def read_node(self) -> None:
        wallet = self.wallet
        self.view = View(
            self.auditor.node, self.memory, self.programs, wallet.address, self.auditor.tell
        )
        self.view.read(self._count, wallet.addresses)
        self._name_foreign()
        self._recheck_suspects()
        self.is_whole = self._find_missing()
        self._name_left_out()
        self._note_state()

    def _note_state(self) -> None:
        """An unfinished history excludes a bot from the boards, and its cause is unknown."""
        state = (self._coverage or {"state": "complete"}).get("state")
        if state != "complete":
            self.report.notes.append(f"{self.wallet.address}: its history is {state!a:.40}")

    def compare(self, audits: "Sequence[WalletAudit]") -> None:
        self._siblings = [
            (other, span)
            for other in audits
            if other is not self
            for span in find_shared_spans(self.report.bot, self.wallet, other.wallet)
        ]
        if self.is_whole:
            self._compare_all()
        else:
            self._compare_own()

    def finish(self, audits: "Sequence[WalletAudit]") -> None:
        for post in self.auditor.memory.list_posts(self.wallet.address):
            self.findings.differences += self._check_post(post, audits)
        self.report.add(self.findings.differences)

    def find_time(self, signature: str) -> int | None:
        kept = self.memory.find_entry(signature)
        return kept.entry.block_time if kept else None

    @property
    def wallet(self) -> ClaimedWallet:
        if self.claims.wallet is None:
            raise Nonsense("its evidence lists a wallet but doesn't include it")
        return self.claims.wallet

    def _cannot_tell(self, side: str, why: str) -> None:
        self.report.cannot_tell(side, why, self.wallet.address)

    def _differs(self, signature: str | None, name: str, theirs: Any, ours: Any) -> None:
        self.findings.differences.append(Difference(signature, name, theirs, ours))

    def _read_receipts(self) -> int:
        count = early = 0
        pages = self.auditor.instance.read_receipts(self.report.bot, self.wallet, self.claims)
        for lines in pages:
            count += len(lines)
            early += sum(map(_is_early, lines))
            if self.memory.add_claims(lines):
                self._differs(None, "receipts", "a signature twice", "each once")
        if early:
            # These count in the forward record, but the chain can't confirm when they were seen.
            self._cannot_tell(
                INSTANCE,
                f"it claims to have seen {early} transactions more than"
                f" {MAX_AHEAD_SECONDS // 60} minutes before they happened",
            )
        self.report.receipts += count
        return count

    # ---- which transactions ----------------------------------------------------------------------
    def _name_foreign(self) -> None:
        for signature in sorted(self.view.foreign):
            ours = "the transaction doesn't involve any of the wallet's accounts"
            self._differs(signature, "signature", signature, ours)
            self.memory.drop_claim(signature)

    def _recheck_suspects(self) -> None:
        """Request differing transactions again, because the node may have been wrong once."""
        suspects = []
        for kept in self.memory.list_entries(taken=True):
            if kept.line is not None and self._compare_line(kept).differences:
                suspects.append(kept.entry.signature)
            if len(suspects) >= MAX_SUSPECTS:
                break
        for signature in suspects:
            self.view.fetch_again(signature)

    def _compare_line(self, kept: KeptEntry) -> Findings:
        ours = make_own_line(self.view.wallet, kept.entry, kept.digest)
        return compare_line(kept.line or {}, ours, OWN_FIELDS)

    def _find_missing(self) -> bool:
        """Check claimed transactions that the node didn't return.

        Returns whether there aren't any, or the balances disprove them.
        """
        missing = self.memory.list_missing()
        if not missing:
            return True
        if self._disproves(missing):
            for line in missing:
                ours = "no such transaction: the balances before and after are continuous"
                self._differs(line["signature"], "signature", line.get("kind"), ours)
                self.memory.drop_claim(line["signature"])
            return True
        first, last = missing[0]["slot"], missing[-1]["slot"]
        self._cannot_tell(
            NODE, f"it doesn't have {len(missing)} of the transactions, in slots {first} to {last}"
        )
        return False

    def _disproves(self, missing: list[dict[str, Any]]) -> bool:
        """Return whether the balances disprove these transactions.

        They do if the balances join without the transactions, from the first to the node's current
        ones, although together the transactions would have moved something.
        """
        if not _moves(missing):
            return False
        whole = rebuild_ledger(Ledger(True, Spans(), BalanceChain({})), self._list_all, _book_all)
        holdings = self.view.ask_holdings()
        if not holdings or whole.chain.gaps or whole.chain.first_slot is None:
            return False
        joined = all(
            is_explained(whole.chain.seen.get(address), held) for address, held in holdings.items()
        )
        known_to = min(held.slot for held in holdings.values())
        first, last = missing[0]["slot"], missing[-1]["slot"]
        begins = not whole.chain.opened or first > whole.chain.first_slot
        return joined and begins and last <= known_to

    def _list_all(self) -> Iterator[Entry]:
        return (kept.entry for kept in self.memory.list_entries())

    def _name_left_out(self) -> None:
        pending = {one.signature for one in self.claims.pending}
        left_out, excused, seen = [], dict[str, list[int]](), list[int]()
        for kept in self.memory.list_entries(taken=False):
            entry, why = kept.entry, None
            if self._is_newer(entry):
                if self._says_it_saw(entry):
                    seen.append(entry.slot)
                continue
            if entry.signature in pending or self.claims.pendingCount > len(pending):
                why = "it says it hasn't fetched them yet"
            why = why or excuse(self._coverage, entry.slot)
            if why:
                excused.setdefault(why, []).append(entry.slot)
            else:
                left_out.append(entry.signature)
                self._differs(entry.signature, "receipt", None, f"left out: {entry.kind}")
        self.memory.add_left_out(left_out)
        for why, slots in excused.items():
            told = f"{len(slots)} transactions, slots {slots[0]} to {slots[-1]}, are not claimed"
            self._cannot_tell(INSTANCE, f"{told}: {why}")
        if seen:
            # Not a difference, because they may appear soon. `same` mentions it.
            self.report.notes.append(
                f"{self.wallet.address}: {len(seen)} transactions, slots {seen[0]} to"
                f" {seen[-1]}, aren't compared, because they are newer than the last claimed"
                " transaction, although the instance says it observed the wallet beyond them"
            )

    @property
    def _coverage(self) -> dict[str, Any] | None:
        return self.claims.wallet.coverage if self.claims.wallet else None

    def _is_newer(self, entry: Entry) -> bool:
        last = (self._coverage or {}).get("lastSlot")
        return entry.slot > (last if isinstance(last, int) else -1)

    def _says_it_saw(self, entry: Entry) -> bool:
        """Whether it is older than the instance's `observedTo`."""
        told = (self._coverage or {}).get("observedTo")
        at = show_time(entry.block_time)
        return isinstance(told, str) and at is not None and at <= told

    # ---- comparing -------------------------------------------------------------------------------
    def _compare_own(self) -> None:
        for kept in self.memory.list_entries(taken=True):
            if kept.line is not None:
                found = self._compare_line(kept)
                if not self._is_doubtful(kept, found):
                    self.findings.add(found)

    def _is_doubtful(self, kept: KeptEntry, found: Findings) -> bool:
        names = {one.field for one in found.differences}
        if not names:
            return False
        if not kept.inner_told or "receipt" in names:
            self._cannot_tell(NODE, f"it returned a different {kept.entry.signature}")
            return True
        return False

    def _compare_all(self) -> None:
        number, spans = self._open_books()
        untouched = {
            one.address: Opening.untouched(one.address, one.mint, int(one.amountRaw), one.decimals)
            for one in self.wallet.untouched
        }
        ledger = Ledger(self.wallet.backfilled, Spans(spans), BalanceChain(untouched))

        def make(
            pending: PendingLedger, booked: Iterable[BookedEntry]
        ) -> tuple[PendingLedger, Findings]:
            return pending, self._book(number, booked)

        pending, compared = rebuild_ledger(ledger, self._list_claimed, make)
        if self._is_disjoint(pending.ledger, compared):
            self.is_whole = False
            return
        if self.wallet.coverage is not None or pending.ledger.chain.count:
            self.books.add_ledger(number, pending, self._list_waiting(pending.ledger))
            self._compare_whole(number, pending, compared)
        compared.add(self.findings)
        self.findings = compared
        self._weigh_order()

    def _open_books(self) -> tuple[int, tuple[Span, ...]]:
        spans, find_bot = self.wallet.spans, self.books.find_bot
        values: dict[str, Any] = {"coverage": orjson.dumps(self.wallet.coverage).decode()}
        if spans:
            # The open attachment began last, regardless of the clock.
            order = sorted(spans, key=lambda one: one.detachedAtMs is None)
            holders = list_holders(order)
            past = find_past(holders, holders[-1].bot)
            values["bot_id"] = find_bot(str(holders[-1].bot))
            if past:
                values |= {"earlier_bot_id": find_bot(str(past.bot)), "bot_since": past.until}
        number = self.books.add(Wallet, address=self.wallet.address, **values)
        numbers = [
            self.books.add(
                Attachment,
                bot_id=find_bot(one.botId or ""),
                wallet_id=number,
                ownership=one.ownership,
                attached_at=one.attachedAtMs,
                detached_at=one.detachedAtMs,
            )
            for one in spans
        ]
        made = (
            Span(place, one.attachedAtMs, one.detachedAtMs)
            for place, one in zip(numbers, spans, strict=True)
        )
        return number, tuple(sorted(made, key=lambda one: (one.begins_ms, one.number)))

    def _book(self, number: int, booked: Iterable[BookedEntry]) -> Findings:
        compared, holder = Findings(), SimpleNamespace(id=number, address=self.wallet.address)
        self.books.drop_trades(number)
        for one in booked:
            row, kept = one.make_row(holder), self._kept.pop(one.entry.signature)
            if kept.line is not None:
                ours = make_line(row, kept.digest, kept.entry.seen_at)
                compared.add(compare_line(kept.line, ours))
            self.books.add_trade(number, row)
            if UNEXPLAINED in row["flags"]:
                self._unexplained.add(one.entry.signature)
        return compared

    def _list_waiting(self, ledger: Ledger) -> set[int]:
        """Return the spans that may be unpublished, as claimed.

        If an instance checked the wallet after a span began, it has published the span.
        """
        numbers = sorted(ledger.find_holdings())
        checked_at = parse_moment((self._coverage or {}).get("checkedAt"))
        return {
            number
            for number, span in zip(numbers, self.wallet.spans, strict=True)
            if span.openPositions is None
            and (checked_at is None or checked_at <= span.attachedAtMs + MAX_WAITING_MS)
        }

    def _list_claimed(self) -> Iterator[Entry]:
        self._kept: dict[str, KeptEntry] = {}
        for kept in self.memory.list_entries(taken=True):
            self._kept[kept.entry.signature] = kept
            yield self._mark(kept)

    def _mark(self, kept: KeptEntry) -> Entry:
        entry = kept.entry
        held = {id(one): one for one, span in self._siblings if span.is_held_at(entry.block_time)}
        found = [one.memory.find_entry(entry.signature) for one in held.values()]
        marked = mark_own(entry, [one.entry for one in found if one and one.line is not None])
        claimed = OWN_FLAGS.intersection((kept.line or {}).get("flags") or ())
        if marked is entry and claimed and self._is_anothers(entry):
            # The other wallet belongs to another bot, whose claims aren't read here. The flag can
            # only remove a price.
            more = {UNEXPLAINED} if OWN_WALLETS in claimed else set()
            return entry._replace(flags=tuple(sorted({*entry.flags, *claimed, *more})))
        return marked

    def _mark_booked(self, kept: KeptEntry) -> Entry:
        entry = self._mark(kept)
        if entry.signature not in self._unexplained:
            return entry
        return entry._replace(flags=tuple(sorted({*entry.flags, UNEXPLAINED})))

    def _is_anothers(self, entry: Entry) -> bool:
        return any(
            Sibling(0, span.attachedAtMs, span.detachedAtMs).is_held_at(entry.block_time)
            for span in self.wallet.spans
            if span.botId != self.report.bot
        )

    def _is_disjoint(self, ledger: Ledger, compared: Findings) -> bool:
        others = [one for one in compared.differences if one.field == "receipt"]
        said = list_gaps(self._coverage)
        broken = [g for g in ledger.chain.gaps if (g.from_slot, g.to_slot) not in said]
        if others and broken:
            gap = f"slots {broken[0].from_slot} to {broken[0].to_slot}"
            self._cannot_tell(NODE, f"its transactions aren't continuous at {gap}")
        return bool(others and broken)

    def _compare_whole(self, number: int, pending: PendingLedger, compared: Findings) -> None:
        wallet, timeless = self.wallet, compared.timeless
        found = compared.differences
        found += compare_coverage(wallet.coverage or {}, pending, timeless)
        theirs = wallet.model_dump(include={"sums", "past", "spans"})
        ours = claimed.show_derived(self.books.rows, number)
        if timeless:
            self._cannot_tell(NODE, "only one side has some of the block times")
            for told in (theirs, ours):
                told.pop("spans")
                told["sums"] = {name: told["sums"].get(name) for name in TIMELESS}
        for name in ours:
            place = "" if name == "sums" else name
            found += compare(theirs[name], ours[name], place)

    def _weigh_order(self) -> None:
        """Drop differences that depend on an unknown order inside a slot."""
        if not self.findings.unresolved:
            return
        kept = [one for one in self.findings.differences if one.field in OWN_FIELDS]
        if len(kept) < len(self.findings.differences):
            self._cannot_tell(NODE, "the order of some transactions in their slot is unknown")
        self.findings.differences = kept

    # ---- posts -----------------------------------------------------------------------------------
    def _check_post(
        self, post: ClaimedPost, audits: "Sequence[WalletAudit]"
    ) -> Iterable[Difference]:
        if post.signature is None:
            return judge_unsigned(post)
        second = post.createdAtMs // 1000
        others = [one for one in audits if one is not self and one.is_proven_at(second)]
        together = [self, *others]
        kept = [(one, one.memory.find_entry(post.signature)) for one in together]
        entries = {
            one.wallet.address: one._mark_booked(found)
            for one, found in kept
            if found is not None and found.line is not None
            if one is not self or self._is_own(found.entry, second)
        }
        if entries:
            return judge_claimed(post, entries)
        if any(found is not None and found.line is not None for _, found in kept):
            return judge_unseen(post, True)
        views = [one.view for one in together]
        if any(post.signature in one.missing for one in views):
            self._cannot_tell(NODE, f"it lacks {post.signature}, which {post.id} cites")
            return ()
        is_known = any(one.memory.find_entry(post.signature) for one in views)
        return judge_unseen(post, False if is_known else self._is_foreign(post, views))

    def _is_foreign(self, post: ClaimedPost, views: Iterable[View]) -> bool | None:
        if post.status in ("pending", "not_found") or post.signature is None:
            return None
        receipt = self.memory.find_receipt(post.signature) or self.view.fetch(post.signature)
        if receipt is None:
            return None
        return not any(touches(receipt, one.wallet, one.addresses) for one in views)

    def _is_own(self, entry: Entry, second: int) -> bool:
        """Whether the wallet's action was the bot's own when the bot posted in this Unix second."""
        at = second * 1000 + 999
        holders = list_holders(self.wallet.spans)
        return is_own_trade(holders, self.report.bot, at, entry.block_time)

    def is_proven_at(self, second: int) -> bool:
        """Whether the bot claims to have had the wallet, proven, in this Unix second."""
        return any(
            span.botId == self.report.bot
            and span.ownership == "proven"
            and span.attachedAtMs < second * 1000 + 1000
            and (span.detachedAtMs is None or span.detachedAtMs >= second * 1000)
            for span in self.wallet.spans
        )


def list_holders(spans: Iterable[ClaimedSpan]) -> list[Holder]:
    return [Holder(one.botId or "", one.ownership or "", one.attachedAtMs) for one in spans]


def find_shared_spans(bot: str, wallet: ClaimedWallet, other: ClaimedWallet) -> Iterator[Sibling]:
    for one in wallet.spans:
        for two in other.spans:
            begins = max(one.attachedAtMs, two.attachedAtMs)
            known = [end for end in (one.detachedAtMs, two.detachedAtMs) if end is not None]
            ends = min(known, default=None)
            if one.botId == two.botId == bot and (ends is None or begins < ends):
                yield Sibling(0, begins, ends)


def _book_all(pending: PendingLedger, booked: Iterable[BookedEntry]) -> Ledger:
    for _ in booked:
        pass
    return pending.ledger


def _is_early(line: Mapping[str, Any]) -> bool:
    match line:
        case {"seenAtMs": int(seen_ms), "blockTime": int(seconds)}:
            return seconds * 1000 - seen_ms > MAX_AHEAD_SECONDS * 1000
    return False


def _moves(lines: list[dict[str, Any]]) -> bool:
    total: dict[str, int] = {}
    try:
        for line in lines:
            total["SOL"] = total.get("SOL", 0) + int(line["solChangeLamports"])
            for mint, change, _ in line["tokenChanges"]:
                total[mint] = total.get(mint, 0) + int(change)
    except (KeyError, TypeError, ValueError):
        return False
    return any(total.values())


# ---- a bot ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Auditor:
    """Audits an instance with its own node.

    `own`: the auditor's programs and markers, which are always trusted. Another field says
    whether to trust the operator's programs.
    """

    instance: Instance
    node: Node
    memory: Memory
    accepts: bool
    own: Programs
    tell: Callable[[str], None]
    # Whether to also compare claims with the instance's log.
    reads_log: bool = True
    # Unix seconds.
    now: Callable[[], int] = lambda: int(time.time())

    def audit(self, bot: str) -> Report:
        """Raises NodeTrouble if the node stops responding."""
        for left in reversed(range(MAX_READINGS)):
            report = Report(bot)
            try:
                self._audit_once(report, rereads=left > 0)
            except Changed:
                continue
            except Nonsense as error:
                report.cannot_tell(INSTANCE, str(error))
            except BadTable as error:
                told = f"its programs or currencies can't be used: {error}"
                report.cannot_tell(INSTANCE, told)
            return report
        report = Report(bot)
        report.cannot_tell(INSTANCE, "its evidence kept changing during the audit")
        return report

    def audit_unlisted(self, listed: Iterable[str]) -> list[Report]:
        """Report on logged bots that the instance's list omits. Raises Nonsense."""
        log = LogAudit(self.instance, self.memory.log, self.tell)
        is_read = self.reads_log and log.read(log.measure(), ())
        missing = set(self.memory.log.list_bots() if is_read else ()) - set(listed)
        if missing:
            # A bot missing from the list may be newer than the list.
            missing -= set(self.instance.list_bots())
        left_out = Difference(None, "log.bot", None, "it is in the log but not in the list of bots")
        return [Report(bot, [left_out], count=1) for bot in sorted(missing)]

    def _audit_once(self, report: Report, rereads: bool) -> None:
        log = LogAudit(self.instance, self.memory.log, self.tell, rereads)
        before = log.measure() if self.reads_log else None
        claims = self.instance.read_claims(report.bot)
        accepted = accept_programs(claims, self.own, self.accepts, report)
        if accepted is None:
            return
        programs, currencies = accepted
        self._check_clock(claims, report)
        self._read_posts(claims, report)
        with contextlib.closing(Books()) as books, using_currencies(currencies):
            audits = self._begin_wallets(report, programs, claims, books)
            is_readable = all([one.read_claims() for one in audits])
            if before is not None:
                self._check_log(log, before, claims, audits, report)
            if is_readable:
                self._audit_wallets(claims, audits)
                self._compare_bot(claims, audits, books, report)
        self._check_other_posts(report, set(claims.wallets))

    def _check_clock(self, claims: Claims, report: Report) -> None:
        hour = self.now() // HOUR_SECONDS
        if abs(claims.bot.hour - hour) > 1:
            told = f"its boards end in hour {claims.bot.hour} since 1970"
            report.cannot_tell(INSTANCE, f"{told}, but your clock says {hour}")

    # ---- wallets ---------------------------------------------------------------------------------
    def _begin_wallets(
        self, report: Report, programs: Programs, claims: Claims, books: Books
    ) -> list[WalletAudit]:
        addresses = list(dict.fromkeys(claims.wallets))
        if len(addresses) > MAX_WALLETS:
            raise Nonsense(f"its bot had {len(addresses)} wallets, too many to audit together")
        return [
            WalletAudit(
                self,
                report,
                programs,
                self._read_claims(report.bot, address, claims),
                self.memory.open_beside(),
                books,
            )
            for address in addresses
        ]

    def _read_claims(self, bot: str, address: str, claims: Claims) -> Claims:
        is_present = claims.wallet is not None and claims.wallet.address == address
        return claims if is_present else self.instance.read_claims(bot, address)

    def _audit_wallets(self, claims: Claims, audits: list[WalletAudit]) -> None:
        """Read all wallets first, because exchanges between two of them have no price."""
        for one in audits if len(audits) > 1 else ():
            # The claims about all wallets and the boards must be from the same snapshot.
            again = self.instance.read_claims(one.report.bot, one.wallet.address)
            if (again.digest, again.bot) != (one.claims.digest, claims.bot):
                raise Changed
        for one in audits:
            one.read_node()
        for one in audits:
            one.compare(audits)
        for one in audits:
            one.finish(audits)

    # ---- the bot ---------------------------------------------------------------------------------
    def _compare_bot(
        self, claims: Claims, audits: list[WalletAudit], books: Books, report: Report
    ) -> None:
        unclear = [one for one in audits if one.findings.timeless or one.findings.unresolved]
        if unclear or not all(one.is_whole for one in audits):
            # The wallet audits have already reported the unknowns.
            return
        number = books.find_bot(report.bot)
        books.update(Bot, number, retired_at=claims.bot.retiredAtMs)
        ours = claimed.show_standings(books.rows, number, claims.bot.hour)
        report.add(compare(claims.bot.standings, ours, "standings"))
        report.add(self._compare_pace(claims, audits))
        self._recompute_seasons(claims, books, number, report)

    @staticmethod
    def _recompute_seasons(claims: Claims, books: Books, number: int, report: Report) -> None:
        for uid, claim in claims.bot.seasons.items():
            if claim.rules == name_reading(claims.rules, claims.reading):
                report.add(recompute_season(books.rows, number, uid, claim))
            else:
                told = "was frozen under other rules, so its numbers are only compared with the log"
                report.notes.append(f"{uid} {told}")

    def _compare_pace(self, claims: Claims, audits: list[WalletAudit]) -> Iterator[Difference]:
        repeated, delays = self.memory.list_repeated(), Counter[int]()
        for post, delay in judge_delays(self._list_timed(audits)):
            line: ClaimedPost = post.id
            ours = {
                "isClaim": line.signature is not None and line.id not in repeated,
                "delaySeconds": delay,
            }
            theirs = {name: getattr(line, name) for name in ours}
            yield from compare(theirs, ours, f"posts.{line.id}", line.signature)
            if delay is not None:
                delays[round_down(delay)] += 1
        yield from compare(claims.bot.pace, claimed.show_delays(sum_delays(delays)), "pace")

    def _list_timed(self, audits: list[WalletAudit]) -> Iterator[TimedPost]:
        for one in self.memory.list_all_posts():
            signature = one.signature or ""
            times = [other.find_time(signature) for other in audits] if one.tradeId else []
            block_time = next((time for time in times if time is not None), None)
            yield TimedPost(one, 0, one.tradeId, None, one.status, one.createdAtMs, block_time)

    # ---- posts and the log -----------------------------------------------------------------------
    def _read_posts(self, claims: Claims, report: Report) -> None:
        self.memory.begin_posts()
        for page in self.instance.read_posts(report.bot, claims):
            report.posts += len(page)
            if self.memory.add_posts(page):
                # Only one of the posts is checked, but a reader may see the other one.
                report.add([Difference(None, "posts", "an id twice", "each once")])

    def _check_log(
        self,
        log: LogAudit,
        before: Checkpoint,
        claims: Claims,
        audits: list[WalletAudit],
        report: Report,
    ) -> None:
        named = {one.claims.log.log for one in audits if one.claims.log}
        is_read = log.read(before, self.memory.list_logs() | named)
        report.add(log.differences)
        for why in log.unknown:
            report.cannot_tell(INSTANCE, why)
        if not is_read:
            return
        bot = report.bot
        report.add(log.weigh(lambda before: self._compare_leaves(log, bot, claims, audits, before)))
        for reason, count in Counter(map(log.excuse, self.memory.list_all_posts())).items():
            if reason:
                report.cannot_tell(INSTANCE, f"{count} of its posts {reason}")

    def _compare_leaves(
        self, log: LogAudit, bot: str, claims: Claims, audits: list[WalletAudit], before: int
    ) -> Iterator[Difference]:
        said, wallets = log.memory.list_said(bot), [one.wallet for one in audits]
        yield from compare_bot(claims.bot, said, before)
        held, seasons = list_held(bot, wallets), log.memory.list_seasons()
        yield from compare_held(held, said, before)
        yield from compare_seasons(claims.bot.seasons, bot, held, seasons, before)
        for one in audits:
            leaves = log.memory.list_said(one.wallet.address)
            last = one.claims.log
            place = log.find_place(last.log, last.leaf) if last else None
            yield from compare_published(one.wallet, leaves, before)
            yield from compare_last_digest(last, place, leaves, before)
        yield from self._compare_posts(log, bot, before)

    def _compare_posts(self, log: LogAudit, bot: str, before: int) -> Iterator[Difference]:
        for post in self.memory.list_all_posts():
            if log.excuse(post) is None:
                said, place = log.memory.list_said(post.id), log.find_place(post.log, post.logIndex)
                yield from compare_post(post, bot, place, said, before)
        left_out = [
            one for one in log.memory.list_posts(bot, before) if not self.memory.has_post(one)
        ]
        for uid in left_out[:MAX_LEFT_OUT]:
            yield Difference(None, f"posts.{uid}", None, "it is logged")

    def _check_other_posts(self, report: Report, wallets: set[str]) -> None:
        for post in self.memory.list_posts(None):
            report.add(judge_unsigned(post))
        for address in sorted(self.memory.list_post_wallets() - wallets):
            for post in self.memory.list_posts(address):
                ours = "the bot never had this wallet"
                place = f"posts.{post.id}.wallet"
                report.add([Difference(post.signature, place, address, ours)])


def accept_programs(
    claims: Claims, own: Programs, accepts: bool, report: Report
) -> tuple[Programs, tuple[Currency, ...]] | None:
    """Return the programs, and the operator's currencies, to read with. Raises BadTable.

    If this program can't read by the instance's rules, None is returned, and the reason is
    reported. `own`: the auditor's programs. Its currencies are this process's. `accepts` is
    whether to trust the operator's programs and currencies as well.
    """
    if claims.reading != READING or claims.programTable != name_rules(table(), ()):
        told = f"its reading rules are from version {claims.version}, but this is version {VERSION}"
        report.cannot_tell(AUDITOR, told)
        return None
    currencies = read_currencies(_write_csv(COLUMNS, claims.addedCurrencies))
    report.notes += [
        *(f"the operator added the venue {one.name!r} ({one.id})" for one in claims.addedPrograms),
        *(f"every transaction that calls the marker {one} is a trade" for one in claims.markers),
        *(f"the operator added the currency {one.symbol} ({one.mint})" for one in currencies),
    ]
    strange = {one.id for one in claims.addedPrograms} - own.added
    strange |= set(claims.markers) - own.markers
    if (strange or set(currencies) - set(list_added())) and not accepts:
        told = "its operator added programs or currencies; use --accept-programs to trust them"
        report.cannot_tell(AUDITOR, told)
        return None
    programs = table(claims.markers, _write_csv(ADDED_COLUMNS, claims.addedPrograms))
    if name_rules(programs, currencies) != claims.rules:
        report.cannot_tell(AUDITOR, "its rules don't match their digest")
        return None
    return programs, currencies


def _write_csv(columns: Sequence[str], rows: Iterable[Any]) -> str:
    text = io.StringIO()
    cells = ([getattr(one, name) for name in columns] for one in rows)
    csv.writer(text).writerows([columns, *cells])
    return text.getvalue()
