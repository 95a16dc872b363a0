"""Work out again, from the auditor's own node, all that an instance claims of a bot.

A transaction that the node lacks, an order or a time that it does not tell, other rules: none of
these is a difference. What the balances of the chain disprove is one.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from chain.reading.entries import READING
from chain.reading.programs import ADDED_COLUMNS, BadPrograms, Programs, table
from chain.stored.store import name_rules
from config import VERSION
from evidence import comparing
from evidence.claims import (
    MAX_READINGS,
    MAX_WALLETS,
    Changed,
    ClaimedPost,
    Claims,
    Instance,
    Nonsense,
    Scope,
)
from evidence.comparing import Difference
from evidence.log_audit import LogAudit
from evidence.log_holdings import Held, list_held
from evidence.memory import Memory
from evidence.report import Report
from evidence.view import Node
from evidence.wallet_audit import WalletAudit


@dataclass(frozen=True)
class Auditor:
    """Who audits: the instance, the auditor's node, and what is accepted of the operator's word.

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
        for left in reversed(range(MAX_READINGS)):
            report = Report(bot)
            try:
                self._audit_once(report, rereads=left > 0)
            except Changed:
                continue
            except Nonsense as error:
                report.unknown.append(str(error))
            return report
        report = Report(bot)
        report.unknown.append("its evidence changed while it was read, again and again")
        return report

    def audit_unlisted(self, listed: Iterable[str]) -> list[Report]:
        """Report on bots of which there are leaves, and that the instance's list leaves out. Raises
        Nonsense.
        """
        log = LogAudit(self.instance, self.memory.log, self.tell)
        missing = set(log.list_bots() if self.reads_log else ()) - set(listed)
        if missing:
            # They may have come since.
            missing -= set(self.instance.list_bots())
        reports = [Report(bot) for bot in sorted(missing)]
        for report in reports:
            report.add([Difference(None, "log.bot", None, "it is logged, and in no list of bots")])
        return reports

    def _audit_once(self, report: Report, rereads: bool) -> None:
        scope = Scope(report.bot)
        log = LogAudit(self.instance, self.memory.log, self.tell, rereads)
        before = log.measure() if self.reads_log else 0
        claims = self.instance.read_claims(scope)
        programs = self._accept(claims, report)
        if programs is None:
            return
        self._read_posts(scope, claims, report)
        origin = self._check_log(log, before, report) if self.reads_log else None
        wallets = list(dict.fromkeys(claims.wallets))
        held = self._audit_wallets(report, programs, claims, wallets)
        if origin is not None:
            report.add(log.check_held(origin, report.bot, before, held))
            report.notes += log.note_held(origin, held)
        self._check_other_posts(report, wallets)

    def _begin_wallet(
        self, report: Report, programs: Programs, claims: Claims, address: str, memory: Memory
    ) -> WalletAudit:
        is_present = claims.wallet is not None and claims.wallet.address == address
        one = Scope(report.bot, address)
        told = claims if is_present else self.instance.read_claims(one)
        return WalletAudit(self, report, programs, one, told, memory)

    def _audit_wallets(
        self, report: Report, programs: Programs, claims: Claims, wallets: list[str]
    ) -> set[Held]:
        """Audit each wallet of a bot; return when the bot is said to have held them.

        What all of them did is read first: what two exchange has no price.
        """
        if len(wallets) > MAX_WALLETS:
            raise Nonsense(f"its bot held {len(wallets)} wallets, too many to read together")
        audits = [
            self._begin_wallet(report, programs, claims, address, self.memory.open_beside())
            for address in wallets
        ]
        is_readable = all([one.read_claims() for one in audits])
        held = list_held(report.bot, [one.wallet for one in audits])
        if not is_readable:
            return held
        for one in audits if len(audits) > 1 else ():
            # The claims about all wallets must be of the same moment.
            if self.instance.read_claims(one.scope).digest != one.claims.digest:
                raise Changed
        for one in audits:
            one.read_node()
        for one in audits:
            one.compare(audits)
        for one in audits:
            one.finish(audits)
        return held

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
            rows = [(one.id, one.wallet, one.model_dump_json()) for one in page]
            if self.memory.add_posts(rows):
                # Only one of them is judged; a reader may look at the other.
                report.add([Difference(None, "posts", "an id twice", "each once")])

    def _check_log(self, log: LogAudit, before: int, report: Report) -> str | None:
        def list_posts() -> Iterator[ClaimedPost]:
            return map(ClaimedPost.model_validate_json, self.memory.list_all_posts())

        found = log.check(report.bot, before, list_posts, self.memory.has_post)
        report.add(found.differences)
        if report.posts:
            report.unknown += found.unknown
        return found.origin

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


class Accepted(NamedTuple):
    """The table to read by, or None with the reasons; `notes`: what the verdict has to say."""

    programs: Programs | None
    notes: list[str]
    unknown: list[str]


def accept_programs(claims: Claims, own: Programs, accepts: bool) -> Accepted:
    """Decide by which programs to read. `own`: the auditor's; `accepts`: is the operator's word
    taken for what is not among these? Raises BadPrograms.
    """
    if claims.reading != READING or claims.programTable != name_rules(table()):
        told = f"it reads by the rules of version {claims.version}, this is {VERSION}: they differ"
        return Accepted(None, [], [told])
    notes = [
        *(f"the operator added the venue {one.name!r} ({one.id})" for one in claims.addedPrograms),
        *(f"every transaction that calls the marker {one} is a trade" for one in claims.markers),
    ]
    strange = {one.id for one in claims.addedPrograms} - own.added
    strange |= set(claims.markers) - own.markers
    if strange and not accepts:
        told = "its operator decides what some programs are; --accept-programs takes their word"
        return Accepted(None, notes, [told])
    programs = table(claims.markers, _write_added(claims))
    if name_rules(programs) != claims.rules:
        return Accepted(None, notes, ["its rules are not those that it names"])
    return Accepted(programs, notes, [])


def _write_added(claims: Claims) -> str:
    text = io.StringIO()
    rows = [(one.id, one.name, one.family, one.source) for one in claims.addedPrograms]
    csv.writer(text).writerows([ADDED_COLUMNS, *rows])
    return text.getvalue() if rows else ""
