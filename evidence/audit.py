"""Work out again, from the auditor's own node, all that an instance claims of a bot.

A transaction that the node lacks, an order or a time that it does not tell, other rules: none of
these is a difference. What the balances of the chain disprove is one.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from chain.coverage import is_explained
from chain.effects import touches
from chain.entries import Entry
from chain.lots import Opening
from chain.programs import BadPrograms, Programs
from evidence import comparing
from evidence.claims import MAX_READINGS, Changed, ClaimedPost, Claims, Instance, Nonsense, Scope
from evidence.comparing import OWN_FIELDS, Difference, Findings
from evidence.folding import Begin, Folded, fold
from evidence.log_audit import LogAudit
from evidence.memory import KeptEntry, Memory
from evidence.receipts import make_line
from evidence.rules import accept_programs
from evidence.view import Node, View

# Differences of a bot that are named one by one; the others are counted.
MAX_NAMED = 1_000
# Suspects that are asked for again before anything is said of them.
MAX_SUSPECTS = 500
SAME, DIFFERENT, CANNOT_TELL = "same", "different", "cannot_tell"


@dataclass
class Report:
    """What an audit of a bot found. `unknown`: why it cannot tell; `notes`: what a reader of the
    verdict should know; `receipts`, `posts`: how many were compared.
    """

    bot: str
    differences: list[Difference] = field(default_factory=list)
    count: int = 0
    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    receipts: int = 0
    posts: int = 0

    @property
    def verdict(self) -> str:
        """same | different | cannot_tell"""
        if self.count:
            return DIFFERENT
        return CANNOT_TELL if self.unknown else SAME

    def add(self, found: Iterable[Difference]) -> None:
        for one in found:
            self.count += 1
            if len(self.differences) < MAX_NAMED:
                self.differences.append(one)


@dataclass(frozen=True)
class Auditor:
    """Who audits: the instance, the auditor's node, and what he accepts of the operator's word.

    `own`: the auditor's own programs and markers, which need no acceptance.
    """

    instance: Instance
    node: Node
    memory: Memory
    accepts: bool
    own: Programs
    tell: Callable[[str], None]
    # Whether posts are compared with the instance's log too.
    reads_log: bool = True

    def audit(self, bot: str) -> Report:
        """Audit a bot. Raises NodeTrouble where the node stops answering."""
        for _ in range(MAX_READINGS):
            report = Report(bot)
            try:
                self._audit_once(report)
            except Changed:
                continue
            except Nonsense as error:
                report.unknown.append(str(error))
            return report
        report = Report(bot)
        report.unknown.append("its evidence changed while it was read, again and again")
        return report

    def _audit_once(self, report: Report) -> None:
        scope, log = Scope(report.bot), LogAudit(self.instance, self.memory.log, self.tell)
        before = log.measure() if self.reads_log else 0
        claims = self.instance.read_claims(scope)
        programs = self._accept(claims, report)
        if programs is None:
            return
        self._read_posts(scope, claims, report)
        if self.reads_log:
            self._check_log(log, before, report)
        wallets = list(dict.fromkeys(claims.wallets))
        for address in wallets:
            is_present = claims.wallet is not None and claims.wallet.address == address
            one = Scope(report.bot, address)
            told = claims if is_present else self.instance.read_claims(one)
            WalletAudit(self, report, programs, one, told).run()
        self._check_other_posts(report, wallets)

    def _accept(self, claims: Claims, report: Report) -> Programs | None:
        """The table of programs to read by; None where that cannot be told, with the reason."""
        try:
            accepted = accept_programs(claims, self.own, self.accepts)
        except BadPrograms as error:
            report.unknown.append(f"its programs cannot be used: {error}")
            return None
        report.notes += accepted.notes
        report.unknown += accepted.unknown
        return accepted.programs

    # ---- posts -----------------------------------------------------------------------------------
    def _read_posts(self, scope: Scope, claims: Claims, report: Report) -> None:
        self.memory.begin_posts()
        for page in self.instance.read_posts(scope, claims):
            report.posts += len(page)
            self.memory.add_posts([(one.id, one.wallet, one.model_dump_json()) for one in page])

    def _check_log(self, log: LogAudit, before: int, report: Report) -> None:
        """Compare the posts with the log."""
        lines = map(ClaimedPost.model_validate_json, self.memory.list_all_posts())
        found = log.check(report.bot, before, lines, self.memory.has_post)
        report.add(found.differences)
        if report.posts:
            report.unknown += found.unknown

    def _check_other_posts(self, report: Report, wallets: list[str]) -> None:
        """Posts that are judged against no wallet, or against one that the bot never held."""
        for text in self.memory.list_posts(None):
            report.add(comparing.judge_unsigned(ClaimedPost.model_validate_json(text)))
        strange = self.memory.list_post_wallets() - set(wallets)
        for address in sorted(strange):
            for text in self.memory.list_posts(address):
                post = ClaimedPost.model_validate_json(text)
                place = f"posts.{post.id}.wallet"
                report.add([Difference(post.signature, place, address, "the bot never held it")])


@dataclass
class WalletAudit:
    """The audit of one wallet of a bot."""

    auditor: Auditor
    report: Report
    programs: Programs
    scope: Scope
    claims: Claims
    findings: Findings = field(default_factory=Findings)

    def run(self) -> None:
        """Read what is claimed and what the node tells, and compare."""
        wallet, memory = self.claims.wallet, self.auditor.memory
        if wallet is None:
            raise Nonsense("its evidence lacks a wallet that it names")
        if wallet.rules.partition("@")[0] != self.claims.rules:
            self._cannot_tell("its transactions are being read again by new rules")
            return
        memory.begin()
        count = self._read_claims()
        self.view = View(
            self.auditor.node, memory, self.programs, wallet.address, self.auditor.tell
        )
        self.view.read(count, wallet.addresses)
        self._name_foreign()
        self._recheck_suspects()
        whole = self._find_missing()
        self._name_left_out()
        if whole:
            self._compare_all()
        else:
            self._compare_own()
        self._check_posts(wallet.address)
        self.report.add(self.findings.differences)

    def _cannot_tell(self, why: str) -> None:
        address = self.claims.wallet.address if self.claims.wallet else "no wallet"
        self.report.unknown.append(f"{address}: {why}")

    def _differs(self, signature: str | None, name: str, theirs: Any, ours: Any) -> None:
        self.findings.differences.append(Difference(signature, name, theirs, ours))

    def _read_claims(self) -> int:
        count = 0
        for lines in self.auditor.instance.read_receipts(self.scope, self.claims):
            count += len(lines)
            if self.auditor.memory.add_claims(lines):
                self._differs(None, "receipts", "a signature twice", "each once")
        self.report.receipts += count
        return count

    # ---- which transactions ----------------------------------------------------------------------
    def _name_foreign(self) -> None:
        """Name claimed transactions that name none of the wallet's accounts."""
        for signature in sorted(self.view.foreign):
            ours = "it names none of the wallet's accounts"
            self._differs(signature, "signature", signature, ours)
            self.auditor.memory.drop_claim(signature)

    def _recheck_suspects(self) -> None:
        """Ask the node again for what differs: it may have been wrong once."""
        suspects = []
        for kept in self.auditor.memory.list_claimed():
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
        """Look at claimed transactions that the node does not give; return whether there are none
        left that may be true.
        """
        missing = self.auditor.memory.list_missing()
        if not missing:
            return True
        if self._disproves(missing):
            for line in missing:
                ours = "no such transaction: the balances join without it"
                self._differs(line["signature"], "signature", line.get("kind"), ours)
                self.auditor.memory.drop_claim(line["signature"])
            return True
        first, last = missing[0]["slot"], missing[-1]["slot"]
        self._cannot_tell(
            f"your node lacks {len(missing)} of the transactions, slots {first} to {last}"
        )
        return False

    def _disproves(self, missing: list[dict[str, Any]]) -> bool:
        """Whether the balances join from the beginning to what the node says now without these,
        though together they would have moved something.
        """
        if not _moves(missing):
            return False
        whole = fold(Begin(self.view.wallet), self._list_all, lambda row: None).ledger
        holdings = self.view.ask_holdings()
        if not holdings or whole.gaps or whole.first_slot is None:
            return False
        joined = all(
            is_explained(whole.seen.get(address), held.amount, held.lamports, held.slot)
            for address, held in holdings.items()
        )
        known_to = min(held.slot for held in holdings.values())
        first, last = missing[0]["slot"], missing[-1]["slot"]
        begins = not whole.opened or first > whole.first_slot
        return joined and begins and last <= known_to

    def _list_all(self) -> Iterator[Entry]:
        return (kept.entry for kept in self.auditor.memory.list_all())

    def _name_left_out(self) -> None:
        """Name transactions that the node lists and that the instance leaves out."""
        pending = {one.signature for one in self.claims.pending}
        left_out, excused = [], dict[str, list[int]]()
        for kept in self.auditor.memory.list_unclaimed():
            entry, why = kept.entry, None
            if self._is_newer(entry):
                continue
            if entry.signature in pending or self.claims.pendingCount > len(pending):
                why = "it says that it has not fetched them yet"
            why = why or comparing.excuse(self._coverage, entry.slot)
            if why:
                excused.setdefault(why, []).append(entry.slot)
            else:
                left_out.append(entry.signature)
                self._differs(entry.signature, "receipt", None, f"left out: {entry.kind}")
        self.auditor.memory.add_left_out(left_out)
        for why, slots in excused.items():
            told = f"{len(slots)} transactions, slots {slots[0]} to {slots[-1]}, are not claimed"
            self._cannot_tell(f"{told}: {why}")

    @property
    def _coverage(self) -> dict[str, Any] | None:
        return self.claims.wallet.coverage if self.claims.wallet else None

    def _is_newer(self, entry: Entry) -> bool:
        """Did it happen after what the instance has looked at?"""
        last = (self._coverage or {}).get("lastSlot")
        return entry.slot > (last if isinstance(last, int) else -1)

    # ---- comparing -------------------------------------------------------------------------------
    def _compare_own(self) -> None:
        """Compare what follows from each transaction alone."""
        for kept in self.auditor.memory.list_claimed():
            if kept.line is not None:
                found = self._compare_line(kept)
                if not self._is_doubtful(kept, found):
                    self.findings.add(found)

    def _is_doubtful(self, kept: KeptEntry, found: comparing.LineFinding) -> bool:
        """Is it the node that may be wrong: without inner calls, or where nothing joins?"""
        names = {one.field for one in found.differences}
        if not names:
            return False
        if not kept.inner_told or "receipt" in names:
            self._cannot_tell(f"your node tells another {kept.entry.signature}")
            return True
        return False

    def _compare_all(self) -> None:
        """Fold what is claimed and compare everything."""
        memory, before = self.auditor.memory, list(self.findings.differences)
        assert self.claims.wallet is not None
        wallet, compared = self.claims.wallet, Findings()

        def compare(row: dict[str, Any]) -> None:
            kept = memory.find_entry(row["signature"])
            if kept is not None and kept.line is not None:
                ours = make_line(row, kept.digest, kept.entry.seen_at)
                compared.add(comparing.compare_line(kept.line, ours))

        folded = fold(self._begin(), self._list_claimed, compare)
        if self._is_disjoint(folded, compared):
            return
        if wallet.coverage is not None or folded.ledger.count:
            self._compare_whole(folded, compared)
        self.findings = compared
        self.findings.differences += before
        self._weigh_order()

    def _begin(self) -> Begin:
        assert self.claims.wallet is not None
        wallet = self.claims.wallet
        untouched = tuple(
            (o.address, Opening.untouched(o.address, o.mint, int(o.amountRaw), o.decimals))
            for o in wallet.untouched
        )
        spans = comparing.number_spans(wallet.spans)
        return Begin(wallet.address, wallet.backfilled, untouched, spans)

    def _list_claimed(self) -> Iterator[Entry]:
        return (kept.entry for kept in self.auditor.memory.list_claimed())

    def _is_disjoint(self, folded: Folded, compared: Findings) -> bool:
        """Does the node tell other transactions, whose balances do not join? Then it is wrong."""
        others = [one for one in compared.differences if one.field == "receipt"]
        said = comparing.list_gaps(self._coverage)
        broken = [g for g in folded.ledger.gaps if (g.from_slot, g.to_slot) not in said]
        if others and broken:
            gap = f"slots {broken[0].from_slot} to {broken[0].to_slot}"
            self._cannot_tell(f"your node's transactions do not join at {gap}")
        return bool(others and broken)

    def _compare_whole(self, folded: Folded, compared: Findings) -> None:
        assert self.claims.wallet is not None
        wallet, timeless = self.claims.wallet, compared.timeless
        found = compared.differences
        found += comparing.compare_sums(wallet.sums, folded, timeless)
        found += comparing.compare_coverage(wallet.coverage or {}, folded, timeless)
        if timeless:
            self._cannot_tell("some block times are known to one side only")
        else:
            found += comparing.compare_spans(wallet.spans, folded)

    def _weigh_order(self) -> None:
        """Without an order inside a slot, what follows from it is no difference."""
        if not self.findings.unresolved:
            return
        kept = [one for one in self.findings.differences if one.field in OWN_FIELDS]
        if len(kept) < len(self.findings.differences):
            self._cannot_tell("the order of some transactions inside their slot is not known")
        self.findings.differences = kept

    # ---- posts -----------------------------------------------------------------------------------
    def _check_posts(self, wallet: str) -> None:
        for text in self.auditor.memory.list_posts(wallet):
            self.findings.differences += self._check_post(ClaimedPost.model_validate_json(text))

    def _check_post(self, post: ClaimedPost) -> Iterable[Difference]:
        if post.signature is None:
            return comparing.judge_unsigned(post)
        kept = self.auditor.memory.find_entry(post.signature)
        if kept is not None and kept.line is not None:
            return comparing.judge_claimed(post, kept.entry)
        if post.signature in self.view.missing:
            self._cannot_tell(f"your node lacks {post.signature}, which {post.id} names")
            return ()
        return comparing.judge_unseen(post, False if kept else self._is_foreign(post))

    def _is_foreign(self, post: ClaimedPost) -> bool | None:
        """Does the transaction exist and name none of the wallet's accounts? None: who knows."""
        if post.status in ("pending", "not_found") or post.signature is None:
            return None
        memory = self.auditor.memory
        receipt = memory.find_receipt(post.signature) or self.view.fetch(post.signature)
        if receipt is None:
            return None
        return not touches(receipt, self.view.wallet, self.view.addresses)


def _moves(lines: list[dict[str, Any]]) -> bool:
    """Would these claimed transactions together have moved SOL or a token?"""
    total: dict[str, int] = {}
    try:
        for line in lines:
            total["SOL"] = total.get("SOL", 0) + int(line["solChangeLamports"])
            for mint, change, _ in line["tokenChanges"]:
                total[mint] = total.get(mint, 0) + int(change)
    except (KeyError, TypeError, ValueError):
        return False
    return any(total.values())
