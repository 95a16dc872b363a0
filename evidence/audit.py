"""Recompute everything an instance claims about a bot, from the auditor's own node.

A transaction, order or time that the node lacks is not a difference, and neither is a difference in
rules. Only claims that the chain's balances disprove are differences.
"""

import contextlib
import csv
import io
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from accounts.delays import judge_delays, sum_delays
from chain.ledger.sums import round_down
from chain.ledger.views import HOUR_SECONDS
from chain.reading.added import BadTable
from chain.reading.added_currencies import COLUMNS, read_currencies
from chain.reading.currencies import Currency, list_added, using_currencies
from chain.reading.entries import READING
from chain.reading.programs import ADDED_COLUMNS, Programs, table
from chain.stored.store import name_rules
from config import VERSION
from evidence import claimed, comparing
from evidence.books import Books
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
from evidence.differences import AUDITOR, INSTANCE, Difference, Report, compare
from evidence.leaves import (
    compare_bot,
    compare_held,
    compare_last_digest,
    compare_post,
    compare_published,
    list_held,
)
from evidence.log_audit import LogAudit, Moment
from evidence.memory import Memory
from evidence.seasons import compare_seasons, name_reading, recompute_season
from evidence.view import Node
from evidence.wallet_audit import WalletAudit
from models import Bot

# Posts missing from the evidence that a report names.
MAX_LEFT_OUT = 1_000


class Accepted(NamedTuple):
    """The programs to read with, or None and why. `notes`: remarks about the verdict; `currencies`:
    the currencies that the operator added.
    """

    programs: Programs | None
    notes: list[str]
    why: str = ""
    currencies: tuple[Currency, ...] = ()


@dataclass(frozen=True)
class Auditor:
    """An auditor: the instance, the auditor's node, and whether to trust the operator's programs.

    `own`: the auditor's own programs and markers, which are always trusted.
    """

    instance: Instance
    node: Node
    memory: Memory
    accepts: bool
    own: Programs
    tell: Callable[[str], None]
    # Whether to compare claims with the instance's log, too.
    reads_log: bool = True
    # Unix seconds.
    now: Callable[[], int] = lambda: int(time.time())

    def audit(self, bot: str) -> Report:
        """Audit a bot. Raises NodeTrouble if the node stops answering."""
        for left in reversed(range(MAX_READINGS)):
            report = Report(bot)
            try:
                self._audit_once(report, rereads=left > 0)
            except Changed:
                continue
            except Nonsense as error:
                report.cannot_tell(INSTANCE, str(error))
            return report
        report = Report(bot)
        report.cannot_tell(INSTANCE, "its evidence kept changing during the audit")
        return report

    def audit_unlisted(self, listed: Iterable[str]) -> list[Report]:
        """Report on logged bots that the instance's list lacks. Raises Nonsense."""
        log = LogAudit(self.instance, self.memory.log, self.tell)
        is_read = self.reads_log and log.read(log.measure(), ())
        missing = set(self.memory.log.list_bots() if is_read else ()) - set(listed)
        if missing:
            # They may be newer than the list.
            missing -= set(self.instance.list_bots())
        reports = [Report(bot) for bot in sorted(missing)]
        for report in reports:
            report.add(
                [Difference(None, "log.bot", None, "it is in the log but not in the list of bots")]
            )
        return reports

    def _audit_once(self, report: Report, rereads: bool) -> None:
        scope = Scope(report.bot)
        log = LogAudit(self.instance, self.memory.log, self.tell, rereads)
        before = log.measure() if self.reads_log else None
        claims = self.instance.read_claims(scope)
        accepted = self._accept(claims, report)
        if accepted is None or accepted.programs is None:
            return
        self._check_clock(claims, report)
        self._read_posts(scope, claims, report)
        with contextlib.closing(Books()) as books, using_currencies(accepted.currencies):
            audits = self._begin_wallets(report, accepted.programs, claims, books)
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
            told = (
                f"its boards end in hour {claims.bot.hour} since 1970, but your clock says {hour}"
            )
            report.cannot_tell(INSTANCE, told)

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
                scope := Scope(report.bot, address),
                self._read_claims(scope, claims),
                self.memory.open_beside(),
                books,
            )
            for address in addresses
        ]

    def _read_claims(self, scope: Scope, claims: Claims) -> Claims:
        is_present = claims.wallet is not None and claims.wallet.address == scope.wallet
        return claims if is_present else self.instance.read_claims(scope)

    def _audit_wallets(self, claims: Claims, audits: list[WalletAudit]) -> None:
        """Audit all wallets of a bot. Read all of them first: exchanges between two of them have no
        price.
        """
        for one in audits if len(audits) > 1 else ():
            # The claims about all wallets and the boards must be from the same snapshot.
            again = self.instance.read_claims(one.scope)
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
            # The wallets' audits reported what is unknown.
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
            line: ClaimedPost = post.line
            ours = {
                "isClaim": line.signature is not None and line.id not in repeated,
                "delaySeconds": delay,
            }
            theirs = {name: getattr(line, name) for name in ours}
            yield from compare(theirs, ours, f"posts.{line.id}", line.signature)
            if delay is not None:
                delays[round_down(delay)] += 1
        yield from compare(claims.bot.pace, claimed.show_delays(sum_delays(delays)), "pace")

    def _list_timed(self, audits: list[WalletAudit]) -> Iterator["TimedPost"]:
        for one in self.memory.list_all_posts():
            signature = one.signature or ""
            times = [other.find_time(signature) for other in audits] if one.tradeId else []
            block_time = next((time for time in times if time is not None), None)
            yield TimedPost(one, one.tradeId, one.status, one.createdAtMs, block_time)

    def _accept(self, claims: Claims, report: Report) -> Accepted | None:
        try:
            accepted = accept_programs(claims, self.own, self.accepts)
        except BadTable as error:
            report.cannot_tell(INSTANCE, f"its programs or currencies can't be used: {error}")
            return None
        report.notes += accepted.notes
        if accepted.why:
            report.cannot_tell(AUDITOR, accepted.why)
        return accepted

    # ---- posts and the log -----------------------------------------------------------------------
    def _read_posts(self, scope: Scope, claims: Claims, report: Report) -> None:
        self.memory.begin_posts()
        for page in self.instance.read_posts(scope, claims):
            report.posts += len(page)
            if self.memory.add_posts(page):
                # Only one of them is checked; a reader may see the other.
                report.add([Difference(None, "posts", "an id twice", "each once")])

    def _check_log(
        self,
        log: LogAudit,
        before: Moment,
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
        """Check posts without a wallet, or with one that the bot never had."""
        for post in self.memory.list_posts(None):
            report.add(comparing.judge_unsigned(post))
        for address in sorted(self.memory.list_post_wallets() - wallets):
            for post in self.memory.list_posts(address):
                ours = "the bot never had this wallet"
                place = f"posts.{post.id}.wallet"
                report.add([Difference(post.signature, place, address, ours)])


class TimedPost(NamedTuple):
    """A post for accounts.delays: `trade` is its id, `created_at` in ms."""

    line: ClaimedPost
    trade: str | None
    status: str
    created_at: int
    block_time: int | None
    # All belong to one bot.
    bot: int = 0


def accept_programs(claims: Claims, own: Programs, accepts: bool) -> Accepted:
    """Decide which programs and currencies to read with. `own`: the auditor's programs; its
    currencies are this process's. `accepts`: whether to trust the operator's for the rest. Raises
    BadTable.
    """
    if claims.reading != READING or claims.programTable != name_rules(table(), ()):
        told = (
            f"its reading rules are those of version {claims.version}, but this is version"
            f" {VERSION}"
        )
        return Accepted(None, [], told)
    notes = [
        *(f"the operator added the venue {one.name!r} ({one.id})" for one in claims.addedPrograms),
        *(f"every transaction that calls the marker {one} is a trade" for one in claims.markers),
    ]
    strange = {one.id for one in claims.addedPrograms} - own.added
    strange |= set(claims.markers) - own.markers
    currencies = read_currencies(_write_currencies(claims))
    notes += [f"the operator added the currency {one.symbol} ({one.mint})" for one in currencies]
    if (strange or set(currencies) - set(list_added())) and not accepts:
        told = "its operator added programs or currencies; use --accept-programs to trust them"
        return Accepted(None, notes, told)
    programs = table(claims.markers, _write_added(claims))
    if name_rules(programs, currencies) != claims.rules:
        return Accepted(None, notes, "its rules don't match their digest")
    return Accepted(programs, notes, currencies=currencies)


def _write_added(claims: Claims) -> str:
    text = io.StringIO()
    rows = [(one.id, one.name, one.family, one.source) for one in claims.addedPrograms]
    csv.writer(text).writerows([ADDED_COLUMNS, *rows])
    return text.getvalue() if rows else ""


def _write_currencies(claims: Claims) -> str:
    text = io.StringIO()
    rows = [(one.mint, one.symbol, one.decimals) for one in claims.addedCurrencies]
    csv.writer(text).writerows([COLUMNS, *rows])
    return text.getvalue()
