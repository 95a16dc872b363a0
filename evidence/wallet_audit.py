"""Recompute everything an instance claims about one wallet, from the auditor's own node."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson

from chain.ledger.coverage import BalanceChain, is_explained
from chain.ledger.inventory import Opening
from chain.ledger.ledger import Ledger
from chain.ledger.own import OWN_FLAGS, OWN_WALLETS, mark_own
from chain.ledger.sales import UNEXPLAINED
from chain.ledger.views import Span, Spans
from chain.reading.effects import touches
from chain.reading.entries import Entry
from chain.reading.kinds import TRADES
from chain.reading.programs import Programs
from chain.stored.attachments import Holder, Sibling, find_past, is_own_trade
from chain.stored.store import BookedEntry, PendingLedger, rebuild_ledger, show_summary
from chain.stored.summary import show_time
from evidence import claimed, comparing
from evidence.books import Books
from evidence.claims import ClaimedPost, ClaimedWallet, Claims, Nonsense, Scope
from evidence.comparing import OWN_FIELDS, Findings
from evidence.differences import INSTANCE, NODE, Difference, Report, compare
from evidence.lines import make_line
from evidence.memory import KeptEntry, Memory
from evidence.view import View
from models import Attachment, Wallet

if TYPE_CHECKING:
    from evidence.audit import Auditor

# Suspects to request again before reporting them.
MAX_SUSPECTS = 500
# How far the chain's clock may be ahead of an instance's.
MAX_AHEAD_SECONDS = 600
# How long an instance may take to publish a span after checking the wallet.
MAX_WAITING_MS = 600_000
# Sums that don't need block times.
TIMELESS = ("results", "positions", "reconciliation", "averageCost")


@dataclass
class Rebuilt:
    """A wallet's computed ledger; `last_trade`: Unix seconds."""

    pending: PendingLedger
    last_trade: int | None = None


@dataclass
class WalletAudit:
    auditor: "Auditor"
    report: Report
    programs: Programs
    scope: Scope
    claims: Claims
    memory: Memory
    books: Books
    findings: Findings = field(default_factory=Findings)
    # Whether all claimed transactions are available for the rebuild.
    is_whole: bool = False
    _unexplained: set[str] = field(default_factory=set)
    # The bot's other wallets, and when it had both.
    _siblings: "list[tuple[WalletAudit, Sibling]]" = field(default_factory=list)

    def read_claims(self) -> bool:
        if self.wallet.rules.partition("@")[0] != self.claims.rules:
            self._cannot_tell(INSTANCE, "its transactions are being read again under new rules")
            return False
        self.memory.begin()
        self._count = self._read_receipts()
        return True

    def read_node(self) -> None:
        """Read the wallet from the node, and find missing and extra claims."""
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
        """Note an unfinished history: it keeps a bot off the boards, and its cause is unknown."""
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
            raise Nonsense("its evidence names a wallet but doesn't include it")
        return self.claims.wallet

    def _cannot_tell(self, side: str, why: str) -> None:
        self.report.cannot_tell(side, why, self.wallet.address)

    def _differs(self, signature: str | None, name: str, theirs: Any, ours: Any) -> None:
        self.findings.differences.append(Difference(signature, name, theirs, ours))

    def _read_receipts(self) -> int:
        count = early = 0
        for lines in self.auditor.instance.read_receipts(self.scope, self.claims):
            count += len(lines)
            early += sum(map(_is_early, lines))
            if self.memory.add_claims(lines):
                self._differs(None, "receipts", "a signature twice", "each once")
        if early:
            # They count in the forward record from then on; the chain can't confirm that.
            self._cannot_tell(
                INSTANCE,
                f"it claims to have seen {early} transactions more than"
                f" {MAX_AHEAD_SECONDS // 60} minutes before they happened",
            )
        self.report.receipts += count
        return count

    # ---- which transactions ----------------------------------------------------------------------
    def _name_foreign(self) -> None:
        """Report claimed transactions that name none of the wallet's accounts."""
        for signature in sorted(self.view.foreign):
            ours = "the transaction names none of the wallet's accounts"
            self._differs(signature, "signature", signature, ours)
            self.memory.drop_claim(signature)

    def _recheck_suspects(self) -> None:
        """Request differing transactions again: the node may have been wrong once."""
        suspects = []
        for kept in self.memory.list_claimed():
            if kept.line is not None and self._compare_line(kept).differences:
                suspects.append(kept.entry.signature)
            if len(suspects) >= MAX_SUSPECTS:
                break
        for signature in suspects:
            self.view.fetch_again(signature)

    def _compare_line(self, kept: KeptEntry) -> comparing.LineFinding:
        ours = comparing.make_own_line(self.view.wallet, kept.entry, kept.digest)
        return comparing.compare_line(kept.line or {}, ours, OWN_FIELDS)

    def _find_missing(self) -> bool:
        """Check claimed transactions that the node didn't return; return whether there are none, or
        the balances disprove them.
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
            NODE, f"it lacks {len(missing)} of the transactions, slots {first} to {last}"
        )
        return False

    def _disproves(self, missing: list[dict[str, Any]]) -> bool:
        """Whether the balances join without these transactions, from the beginning to the node's
        current ones, although together they would have moved something.
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
        return (kept.entry for kept in self.memory.list_all())

    def _name_left_out(self) -> None:
        """Report transactions that the node lists and the instance doesn't."""
        pending = {one.signature for one in self.claims.pending}
        left_out, excused, seen = [], dict[str, list[int]](), list[int]()
        for kept in self.memory.list_unclaimed():
            entry, why = kept.entry, None
            if self._is_newer(entry):
                if self._says_it_saw(entry):
                    seen.append(entry.slot)
                continue
            if entry.signature in pending or self.claims.pendingCount > len(pending):
                why = "it says it hasn't fetched them yet"
            why = why or comparing.excuse(self._coverage, entry.slot)
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
            # Not a difference: they may appear soon. The reader of `same` should still know.
            self.report.notes.append(
                f"{self.wallet.address}: {len(seen)} transactions, slots {seen[0]} to"
                f" {seen[-1]}, aren't compared: they are newer than the last claimed"
                " transaction, but the instance says it observed the wallet beyond them"
            )

    @property
    def _coverage(self) -> dict[str, Any] | None:
        return self.claims.wallet.coverage if self.claims.wallet else None

    def _is_newer(self, entry: Entry) -> bool:
        """Whether it is newer than the instance's last slot."""
        last = (self._coverage or {}).get("lastSlot")
        return entry.slot > (last if isinstance(last, int) else -1)

    def _says_it_saw(self, entry: Entry) -> bool:
        """Whether it is older than the time up to which the instance claims to have observed."""
        told = (self._coverage or {}).get("observedTo")
        at = show_time(entry.block_time)
        return isinstance(told, str) and at is not None and at <= told

    # ---- comparing -------------------------------------------------------------------------------
    def _compare_own(self) -> None:
        for kept in self.memory.list_claimed():
            if kept.line is not None:
                found = self._compare_line(kept)
                if not self._is_doubtful(kept, found):
                    self.findings.add(found)

    def _is_doubtful(self, kept: KeptEntry, found: comparing.LineFinding) -> bool:
        """Whether the node may be wrong: it lacks inner calls, or the receipts differ."""
        names = {one.field for one in found.differences}
        if not names:
            return False
        if not kept.inner_told or "receipt" in names:
            self._cannot_tell(NODE, f"it returned a different {kept.entry.signature}")
            return True
        return False

    def _compare_all(self) -> None:
        """Rebuild what is claimed and compare everything."""
        before, compared = list(self.findings.differences), Findings()
        number, spans = self._open_books()
        untouched = {
            one.address: Opening.untouched(one.address, one.mint, int(one.amountRaw), one.decimals)
            for one in self.wallet.untouched
        }
        ledger = Ledger(self.wallet.backfilled, Spans(spans), BalanceChain(untouched))

        def make(pending: PendingLedger, booked: Iterable[BookedEntry]) -> Rebuilt:
            compared.clear()
            return self._book(number, compared, Rebuilt(pending), booked)

        rebuilt = rebuild_ledger(ledger, self._list_claimed, make)
        if self._is_disjoint(rebuilt.pending.ledger, compared):
            self.is_whole = False
            return
        if self.wallet.coverage is not None or rebuilt.pending.ledger.chain.count:
            self._fill_books(number, rebuilt)
            self._compare_whole(number, rebuilt, compared)
        self.findings = compared
        self.findings.differences += before
        self._weigh_order()

    def _open_books(self) -> tuple[int, tuple[Span, ...]]:
        """Insert the wallet and its attachments; return its id and the numbered spans."""
        spans, find_bot = self.wallet.spans, self.books.find_bot
        values: dict[str, Any] = {"coverage": orjson.dumps(self.wallet.coverage).decode()}
        if spans:
            # The open one began last, regardless of the clock.
            order = sorted(spans, key=lambda one: one.detachedAtMs is None)
            holders = [
                Holder(one.botId or "", one.ownership or "", one.attachedAtMs) for one in order
            ]
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

    def _book(
        self, number: int, compared: Findings, rebuilt: Rebuilt, booked: Iterable[BookedEntry]
    ) -> Rebuilt:
        holder = SimpleNamespace(id=number, address=self.wallet.address)
        self.books.drop_trades(number)
        for one in booked:
            row, kept = one.make_row(holder), self._kept.pop(one.entry.signature)
            if kept.line is not None:
                ours = make_line(row, kept.digest, kept.entry.seen_at)
                compared.add(comparing.compare_line(kept.line, ours))
            self.books.add_trade(number, row)
            if UNEXPLAINED in row["flags"]:
                self._unexplained.add(one.entry.signature)
            if one.entry.kind in TRADES:
                rebuilt.last_trade = one.entry.block_time
        return rebuilt

    def _fill_books(self, number: int, rebuilt: Rebuilt) -> None:
        """Insert all data derived from the ledger, except spans that may not be published yet."""
        ledger = rebuilt.pending.ledger
        waiting = self._list_waiting(ledger)
        self.books.update(
            Wallet,
            number,
            **show_summary(ledger),
            last_trade_at=rebuilt.last_trade and rebuilt.last_trade * 1000,
        )
        for derived, rows in rebuilt.pending.derived.take(ledger).items():
            names = ("wallet_id", *derived.key, *derived.columns)
            view = derived.key.index("view")
            kept = (
                (number, *key, *values)
                for key, values in rows.items()
                if values is not None and key[view] not in waiting
            )
            self.books.add_many(derived.name, names, kept)
        for span, holdings in ledger.find_holdings().items():
            if span not in waiting:
                self.books.update(Attachment, span, **holdings._asdict())

    def _list_waiting(self, ledger: Ledger) -> set[int]:
        """Return the numbers of spans that are claimed to be unpublished, if that is possible: an
        instance that checked the wallet since they began has published them.
        """
        numbers = sorted(ledger.find_holdings())
        checked_at = parse_time((self._coverage or {}).get("checkedAt"))
        return {
            number
            for number, span in zip(numbers, self.wallet.spans, strict=True)
            if span.openPositions is None
            and (checked_at is None or checked_at * 1000 <= span.attachedAtMs + MAX_WAITING_MS)
        }

    def _list_claimed(self) -> Iterator[Entry]:
        self._kept: dict[str, KeptEntry] = {}
        for kept in self.memory.list_claimed():
            self._kept[kept.entry.signature] = kept
            yield self._mark(kept)

    def _mark(self, kept: KeptEntry) -> Entry:
        """Flag an entry that exchanged something with another wallet of the bot."""
        entry = kept.entry
        held = {id(one): one for one, span in self._siblings if span.is_held_at(entry.block_time)}
        found = [one.memory.find_entry(entry.signature) for one in held.values()]
        marked = mark_own(entry, [one.entry for one in found if one and one.line is not None])
        claimed = OWN_FLAGS.intersection((kept.line or {}).get("flags") or ())
        if marked is entry and claimed and self._is_anothers(entry):
            # The other wallet is another bot's, whose claims aren't read here. The flag can only
            # remove a price.
            more = {UNEXPLAINED} if OWN_WALLETS in claimed else set()
            return entry._replace(flags=tuple(sorted({*entry.flags, *claimed, *more})))
        return marked

    def _mark_booked(self, kept: KeptEntry) -> Entry:
        """Also flag an entry that is unexplained because of earlier ones."""
        entry = self._mark(kept)
        if entry.signature not in self._unexplained:
            return entry
        return entry._replace(flags=tuple(sorted({*entry.flags, UNEXPLAINED})))

    def _is_anothers(self, entry: Entry) -> bool:
        """Whether another bot had the wallet at that time."""
        return any(
            Sibling(0, span.attachedAtMs, span.detachedAtMs).is_held_at(entry.block_time)
            for span in self.wallet.spans
            if span.botId != self.report.bot
        )

    def _is_disjoint(self, ledger: Ledger, compared: Findings) -> bool:
        """Whether receipts differ and their balances don't join: then the node is wrong."""
        others = [one for one in compared.differences if one.field == "receipt"]
        said = comparing.list_gaps(self._coverage)
        broken = [g for g in ledger.chain.gaps if (g.from_slot, g.to_slot) not in said]
        if others and broken:
            gap = f"slots {broken[0].from_slot} to {broken[0].to_slot}"
            self._cannot_tell(NODE, f"its transactions aren't continuous at {gap}")
        return bool(others and broken)

    def _compare_whole(self, number: int, rebuilt: Rebuilt, compared: Findings) -> None:
        wallet, timeless = self.wallet, compared.timeless
        found = compared.differences
        found += comparing.compare_coverage(wallet.coverage or {}, rebuilt.pending, timeless)
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
            return comparing.judge_unsigned(post)
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
            return comparing.judge_claimed(post, entries)
        if any(found is not None and found.line is not None for _, found in kept):
            return comparing.judge_unseen(post, True)
        views = [one.view for one in together]
        if any(post.signature in one.missing for one in views):
            self._cannot_tell(NODE, f"it lacks {post.signature}, which {post.id} names")
            return ()
        is_known = any(one.memory.find_entry(post.signature) for one in views)
        return comparing.judge_unseen(post, False if is_known else self._is_foreign(post, views))

    def _is_foreign(self, post: ClaimedPost, views: Iterable[View]) -> bool | None:
        """Whether the transaction exists and names no account of these wallets; None: unknown."""
        if post.status in ("pending", "not_found") or post.signature is None:
            return None
        receipt = self.memory.find_receipt(post.signature) or self.view.fetch(post.signature)
        if receipt is None:
            return None
        return not any(touches(receipt, one.wallet, one.addresses) for one in views)

    def _is_own(self, entry: Entry, second: int) -> bool:
        """Whether the wallet's action was the bot's own when it posted in this Unix second."""
        spans = self.wallet.spans
        holders = [Holder(one.botId or "", one.ownership or "", one.attachedAtMs) for one in spans]
        at = second * 1000 + 999
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


def find_shared_spans(bot: str, wallet: ClaimedWallet, other: ClaimedWallet) -> Iterator[Sibling]:
    """Yield the times during which the bot claims to have had both wallets."""
    for one in wallet.spans:
        for two in other.spans:
            begins = max(one.attachedAtMs, two.attachedAtMs)
            known = [end for end in (one.detachedAtMs, two.detachedAtMs) if end is not None]
            ends = min(known, default=None)
            if one.botId == two.botId == bot and (ends is None or begins < ends):
                yield Sibling(0, begins, ends)


def parse_time(text: Any) -> int | None:
    """Return the Unix seconds of an RFC 3339 time; None for anything else."""
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (TypeError, ValueError):
        return None


def _book_all(pending: PendingLedger, booked: Iterable[BookedEntry]) -> Ledger:
    for _ in booked:
        pass
    return pending.ledger


def _is_early(line: Mapping[str, Any]) -> bool:
    seen_ms, seconds = line.get("seenAtMs"), line.get("blockTime")
    if not isinstance(seen_ms, int) or not isinstance(seconds, int):
        return False
    return seconds * 1000 - seen_ms > MAX_AHEAD_SECONDS * 1000


def _moves(lines: list[dict[str, Any]]) -> bool:
    """Whether these claimed transactions together would have moved SOL or a token."""
    total: dict[str, int] = {}
    try:
        for line in lines:
            total["SOL"] = total.get("SOL", 0) + int(line["solChangeLamports"])
            for mint, change, _ in line["tokenChanges"]:
                total[mint] = total.get(mint, 0) + int(change)
    except (KeyError, TypeError, ValueError):
        return False
    return any(total.values())
