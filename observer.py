"""Job: from watched wallets to receipts to books. It moves data and decides little: what a receipt
means is decided in chain/.

A look at a wallet compares the node's balances with the books, lists what arrived at its head, goes
on with walks over the whole history and fetches receipts that are listed and not yet stored.
Network first, then short writes; a kill at any moment loses no more than the answer that was on its
way.
"""

import functools
import logging
import math
import time
import zlib
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from itertools import groupby

import orjson
from peewee import JOIN, OperationalError, PeeweeException, chunked, fn

import storage
from accounts.auto_posts import update_posts
from chain.answers import (
    check_accounts,
    check_block,
    check_decimals,
    check_holdings,
    check_page,
    check_receipt,
    check_time,
)
from chain.coverage import Progress, add_trouble, is_explained
from chain.effects import touches
from chain.entries import Entry, read_entry
from chain.instructions import TOKEN_PROGRAMS, WRAPPED_SOL
from chain.ledger import Book
from chain.programs import table
from chain.receipts import parse_receipt
from chain.rpc import THROTTLED, BadAnswer, Refused, Resting, Rpc, RpcError, Unavailable
from chain.store import (
    Books,
    PendingLedger,
    distrust_trades,
    name_rules,
    pack,
    read_untouched,
    show_coverage,
    unpack,
)
from models import IS_PROGRAM, Address, Attachment, Post, Receipt, Trade, Wallet, WalletSignature
from storage import in_parts

HEAD_PAGE, FULL_PAGE = 100, 1000
# below the covered head: where something new was, what a lagging node left out is listed again
OVERLAP_SLOTS = 512
# receipts fetched for one wallet before the next has its turn
SLICE = 20
# ms between full walks
WALK_EVERY = 86_400_000
HEAL_FIRST, HEAL_LATEST = 30_000, 6 * 3_600_000
# ms
MAX_PUT_OFF = 3_600_000
# seconds
RECHECK_EVERY = 60.0
FOLD_SHARE = (
    # a fold that took a second is not repeated for nine: at most a tenth of the time goes there
    9
)
# refused receipts that coverage names
MAX_NAMED = 50
# wallets: one call asks for the balances of so many, so up to that number none sleeps
MAX_AWAKE = 100
# seconds: a sleeping wallet is looked at no less often than this
MAX_SLEEP = 300.0
# tries
STUCK_AFTER = 5
ACCOUNTS_A_CALL = 100
# passes in trouble before the command line gives up
PATIENCE = 3
FINALIZED = {"commitment": "finalized"}
# Seconds a step that failed is put off, doubled with each failure in a row.
TROUBLE_FIRST, TROUBLE_LATEST = 1.0, 3600.0
# Seconds between two signs of life during a long pass.
BEAT_EVERY = 10.0
log = logging.getLogger("candor.observer")


def quiet(text):
    """Nobody watches."""


@dataclass
class PutOff:
    """A step that failed for a wallet: how often in a row, and when it is tried again."""

    tries: int = 0
    until: float = -math.inf


@dataclass
class Watch:
    """What is remembered of a wallet between looks: a cache, lost without harm. Times are of the
    observer's clock, in seconds.
    """

    # address -> Holding
    holdings: dict = field(default_factory=dict)
    # address -> finished looks in a row whose balance the books did not explain
    misses: dict = field(default_factory=dict)
    # entries stored and not folded yet
    new: list = field(default_factory=list)
    fold_after: float = 0.0
    # ms
    heal_wait: int = HEAL_FIRST // 2
    compared_at: float = -math.inf
    # when a node last told of its present: of balances, or of the newest of its own signatures
    told_at: float = -math.inf
    # address -> when its balance was last asked for, and when its head was last listed.
    asked: dict = field(default_factory=dict)
    listed: dict = field(default_factory=dict)
    # When a slice of its walks and its backlog was last worked on.
    worked_at: float = -math.inf
    # Name of a step -> PutOff.
    put_off: dict = field(default_factory=lambda: defaultdict(PutOff))
    # when it was last looked whether the receipt of each entry is still there
    receipts_checked_at: float = -math.inf
    unplaced: dict | None = (
        # slot -> signatures stored without their place in it; None: not read yet
        None
    )
    # slots of these with several
    crowded: set = field(default_factory=set)
    nameless: dict | None = (
        # token account that a receipt did not tell the owner of -> signatures; None: not read yet
        None
    )


class Observer:
    """`run_tick` is one pass over the wallets that are due. Its memory is a cache: all it needs to
    go on is in the database.
    """

    def __init__(self, config, rpc=None, clock=time.monotonic, say=quiet, beat=None):
        self.config, self.clock, self.say = config, clock, say
        # `beat` is called now and then while a long pass goes on.
        self._beat, self._beaten = beat, -math.inf
        self.rpc = rpc or Rpc(config.solana_rpc_urls, config.rpc_requests_per_second)
        self.programs = table(config.extra_swap_programs)
        self.rules = name_rules(self.programs)
        # of the last tick, for health
        self.problem = None
        # ids of wallets that failed in the last tick
        self.troubled = set()
        # how many wallets are observed
        self._watched = 0
        # of this look
        self._begun, self._end, self._now = 0.0, 0.0, 0
        # ids of wallets this look does not touch any more
        self._left = set()
        self._spare = (
            # requests that may still be made in this look where nothing is known to have moved
            0
        )
        self._timed_at = -math.inf
        self._forget()

    def _forget(self):
        self.books, self._watches = Books(update_posts), defaultdict(Watch)

    def run_tick(self, now):
        """One pass; `now` in ms. Returns whether work was left for lack of time or answers."""
        self._begun, self._now, self.problem = self.clock(), now, None
        self._left, self.troubled = set(), set()
        wallets = self._list_due(now)
        try:
            more = self._look(wallets, now)
            for wallet in wallets:
                self._attempt(self._finish, wallet, now, more)
        except OperationalError:
            if storage.database.engine != "sqlite":
                # The lock may be gone, and with it others may have written.
                self._forget()
            raise
        self.problem = self.problem or self._find_common_trouble()
        return more

    def _find_common_trouble(self):
        """Where every wallet is in trouble nothing is observed: that of one of them, else None."""
        watched = self._select_watched(Wallet.address, Wallet.trouble)
        if watched.where(Wallet.trouble.is_null()).exists():
            return None
        one = watched.order_by(Wallet.trouble_at).tuples().first()
        return one and f"{one[0]}: {one[1]}"

    def _list_due(self, now):
        """Wallets whose time has come, longest overdue first, those in trouble last. A time further
        ahead than any pause was set by a clock that ran wrong.
        """
        longest = int(1000 * max(MAX_SLEEP, self.config.observer_interval_seconds))
        due = (Wallet.due_at <= now) | (Wallet.due_at > now + longest)
        self._watched = self._select_watched().count()
        return list(self._select_watched().where(due).order_by(Wallet.trouble_tries, Wallet.due_at))

    def _select_watched(self, *columns):
        """The wallets that somebody holds and that are none known to be a program."""
        is_wallet = Wallet.trouble.is_null() | (Wallet.trouble != IS_PROGRAM)
        return (
            Wallet.select(*columns)
            .join(Attachment)
            .where(Attachment.detached_at.is_null(), is_wallet)
        )

    def _look(self, wallets, now):
        span = max(2.0, self.config.observer_interval_seconds)
        self._end = self._begun + span
        try:
            for wallet in wallets:
                self._attempt(self._prepare, wallet)
            self._spare = sum(
                Address.select().where(Address.wallet.in_(part)).count()
                for part in in_parts([w.id for w in wallets])
            )
            worth = [w for w in wallets if self._attempt(self._is_worth_comparing, w)]
            self._compare_balances(worth, self._begun + span / 3)
            self._store_looks(wallets, now)
            for wallet in wallets:
                self._attempt(self._take_news, wallet, now)
            self._tell_time(wallets)
            self._list_heads(wallets, self._begun + span / 2, now)
            self._store_looks(wallets, now)
            self._end = max(self._end, self.clock() + span / 4)
            more = self._work_through(wallets, now)
            opened = [w for w in wallets if not more and self._attempt(self._is_open, w)]
            self._compare_balances(opened, self.clock() + span / 4)
            return more
        except Unavailable as error:
            self.problem = str(error)
            return True

    # ---- trouble of one wallet -----------------------------------------------------------------
    def _attempt(self, work, wallet, *args):
        """Do one step for a wallet. What goes wrong there is that wallet's alone; then False.

        A step that a node refuses is put off and the others go on; a fault of ours puts off the
        whole wallet. Raised is only what is nobody's: that no node answers, or the database.
        """
        self._tell_life()
        step = self._watches[wallet.id].put_off.get(work.__name__)
        if wallet.id in self._left or step and self.clock() < step.until:
            return False
        try:
            done = work(wallet, *args)
        except RpcError as error:
            if self._is_common(error):
                raise
            return self._put_off_step(wallet, work.__name__, error)
        except Exception as error:
            self._forget_wallet(wallet.id)
            if storage.is_busy(error):
                raise
            return self._put_off_wallet(wallet, error)
        self._watches[wallet.id].put_off.pop(work.__name__, None)
        return done

    def _tell_life(self):
        if self._beat and self.clock() - self._beaten >= BEAT_EVERY:
            self._beaten = self.clock()
            self._beat()

    def _is_common(self, error):
        """Whether a failed call is the nodes' trouble, not that of the wallet it asked about: they
        are to be left alone, or answer nothing at all.
        """
        return isinstance(error, Resting) or (
            isinstance(error, Unavailable) and not self.rpc.is_reachable()
        )

    def _put_off_step(self, wallet, name, error):
        step = self._watches[wallet.id].put_off[name]
        step.until = self.clock() + min(TROUBLE_LATEST, TROUBLE_FIRST * 2 ** min(step.tries, 12))
        step.tries += 1
        if wallet.trouble != str(error):
            log.warning("wallet %s: %s", wallet.address, error)
        self._store_trouble(wallet, str(error))
        return False

    def _put_off_wallet(self, wallet, error):
        """Nothing more of this wallet in this look, and the next one later and later."""
        reason = f"internal error: {type(error).__name__}"
        if wallet.trouble != reason:
            log.error("wallet %s failed", wallet.address, exc_info=error)
        self._left.add(wallet.id)
        self._store_trouble(wallet, reason)
        pause = min(MAX_SLEEP, TROUBLE_FIRST * 2 ** min(wallet.trouble_tries, 12))
        Wallet.update(due_at=self._now + int(1000 * pause)).where(Wallet.id == wallet.id).execute()
        return False

    def _store_trouble(self, wallet, reason):
        """Say it in health and in the wallet's coverage."""
        self.troubled.add(wallet.id)
        wallet.trouble, wallet.trouble_at = reason, wallet.trouble_at or self._now
        wallet.trouble_tries += 1
        stored = Wallet.select(Wallet.coverage).where(Wallet.id == wallet.id).scalar()
        if stored is None:
            coverage = show_coverage(wallet, PendingLedger(Book()), Progress(trouble=reason))
        else:
            coverage = {**orjson.loads(stored), "note": add_trouble(None, reason)}
        values = {
            name: getattr(wallet, name) for name in ("trouble", "trouble_at", "trouble_tries")
        }
        Wallet.update(coverage=orjson.dumps(coverage).decode(), **values).where(
            Wallet.id == wallet.id
        ).execute()

    def _refuse_program(self, wallet):
        """What executes is no wallet: it is said in its coverage, and never asked about again."""
        self._left.add(wallet.id)
        self.troubled.add(wallet.id)
        wallet.trouble, wallet.trouble_at, wallet.trouble_tries = IS_PROGRAM, self._now, 1
        coverage = show_coverage(wallet, PendingLedger(Book()), Progress(program=True))
        Wallet.update(
            trouble=IS_PROGRAM,
            trouble_at=self._now,
            trouble_tries=1,
            coverage=orjson.dumps(coverage).decode(),
        ).where(Wallet.id == wallet.id).execute()

    def _clear_trouble(self, wallet):
        """No step of it failed in this look and none is put off: it is well."""
        if wallet.trouble is None or wallet.id in self.troubled or self._watches[wallet.id].put_off:
            return
        wallet.trouble, wallet.trouble_at, wallet.trouble_tries = None, None, 0
        Wallet.update(trouble=None, trouble_at=None, trouble_tries=0).where(
            Wallet.id == wallet.id
        ).execute()

    # ---- slices of work ------------------------------------------------------------------------
    def _work_through(self, wallets, now):
        """Slices of work in turn, so that one long back-fill does not starve the others.

        Who had no turn in the last look has the first one in this.
        """
        turns = deque(sorted(wallets, key=lambda w: self._watches[w.id].worked_at))
        while turns and self.clock() < self._end:
            wallet = turns.popleft()
            self._watches[wallet.id].worked_at = self.clock()
            if self._work_on(wallet, now):
                turns.append(wallet)
        return bool(turns)

    def _work_on(self, wallet, now):
        """One step: what is waited for, else a page of a walk, else the back-fill. Returns whether
        there may be more to do at once.

        Walks come before the back-fill, which then goes from the beginning on: what is folded stays
        folded.
        """
        steps = self._fetch_urgent, self._walk_on, self._fetch_backlog, self._list_token_accounts
        worked = any(self._attempt(step, wallet, now) for step in steps)
        self._attempt(self._index_slots, wallet)
        if worked:
            self._attempt(self._show_work, wallet, now)
        return worked

    def _show_work(self, wallet, now):
        self._latch_whole(wallet)
        if self.clock() >= self._watches[wallet.id].fold_after:
            self._publish(wallet, now)

    # ---- before the look -------------------------------------------------------------------------
    def _prepare(self, wallet):
        """Memory agrees with the database, whoever else worked there; entries are read by the rules
        and the program table that hold now.
        """
        if wallet.rules != self.rules:
            read_entries_again(wallet, self.programs)
            Wallet.update(rules=self.rules).where(Wallet.id == wallet.id).execute()
            wallet.rules = self.rules
            self._forget_wallet(wallet.id)
        watch = self._watches[wallet.id]
        if self._begun - watch.receipts_checked_at >= WALK_EVERY / 1000:
            watch.receipts_checked_at = self._begun
            if fetch_missing(wallet):
                self._forget_wallet(wallet.id)
        stored = (
            WalletSignature.select()
            .where(WalletSignature.wallet == wallet.id, WalletSignature.state == "stored")
            .count()
        )
        if stored != self._book(wallet).count:
            self._forget_wallet(wallet.id)

    def _forget_wallet(self, wallet_id):
        self.books.forget(wallet_id)
        self._watches[wallet_id].new.clear()

    # ---- the node's balances against the books ---------------------------------------------------
    def _is_worth_comparing(self, wallet):
        """Whether its balances are asked for in this look. A wallet without token accounts needs it
        rarely: its own head tells as much, where the last look came to list it.
        """
        watch = self._watches[wallet.id]
        late = self._begun - watch.told_at > self.config.observer_interval_seconds
        walked = Address.select().where(Address.wallet == wallet.id, Address.walks > 0).count()
        return (
            walked != 1
            or late
            or not self._is_head_due(wallet)
            or False in self._verdicts(wallet).values()
            or self._begun - watch.compared_at >= RECHECK_EVERY
        )

    def _is_head_due(self, wallet):
        """Whether its own head is to be listed: at every look, or rarely where nothing moves."""
        listed = self._watches[wallet.id].listed.get(wallet.address, -math.inf)
        return self._begun - listed >= self._rest(wallet, self._now)

    def _is_open(self, wallet):
        """Did the books get ahead of the last comparison? Then another one closes them."""
        verdicts, pending = (
            self._verdicts(wallet),
            WalletSignature.select().where(
                WalletSignature.wallet == wallet.id, WalletSignature.state == "pending"
            ),
        )
        return (
            wallet.whole
            and not all(verdicts.get(a) is not None for a in list_addresses(wallet.id))
            and not pending.exists()
        )

    def _compare_balances(self, wallets, until):
        """One cheap call for each hundred addresses tells which of them moved: those are listed
        now, the others at night.

        Wallets with many addresses come last and, once the time is over, go on in the next look.
        """
        small, large = [], []
        for wallet in wallets:
            put_off = self._watches[wallet.id].put_off.get("_compare_own")
            if put_off is None or self.clock() >= put_off.until:
                rows = [
                    (wallet, a)
                    for (a,) in (
                        Address.select(Address.address)
                        .where(
                            Address.wallet == wallet.id,
                            (Address.walks > 0) | (Address.address == wallet.address),
                        )
                        .tuples()
                    )
                ]
                (small if len(rows) <= ACCOUNTS_A_CALL else large).extend(rows)
        large.sort(key=lambda row: self._watches[row[0].id].asked.get(row[1], -math.inf))
        rows = small + large
        for start in range(0, len(rows), ACCOUNTS_A_CALL):
            if start >= len(small) and start and self.clock() >= until:
                break
            self._compare_part(rows[start : start + ACCOUNTS_A_CALL])

    def _compare_part(self, part):
        """Addresses of several wallets in one call; where that fails, each wallet in its own."""
        try:
            if len({wallet.id for wallet, _ in part}) > 1:
                return self._ask_holdings(part)
        except RpcError as error:
            if self._is_common(error):
                raise
            # one of them has the trouble: asked alone it shows which
        for _, own in groupby(part, key=lambda row: row[0].id):
            own = list(own)
            self._attempt(self._compare_own, own[0][0], own)

    def _compare_own(self, wallet, part):
        self._ask_holdings(part)

    def _ask_holdings(self, part):
        self._spare -= 1
        params = [
            [a for _, a in part],
            {**FINALIZED, "encoding": "base64", "dataSlice": {"offset": 0, "length": 72}},
        ]
        check = functools.partial(check_holdings, owned=[(wallet.address, a) for wallet, a in part])
        (_, holdings), _ = self.rpc.call("getMultipleAccounts", params, check)
        for (wallet, address), holding in zip(part, holdings):
            watch = self._watches[wallet.id]
            watch.holdings[address], watch.compared_at = holding, self.clock()
            watch.asked[address] = watch.told_at = watch.compared_at
            if holding.executable:
                self._refuse_program(wallet)

    def _store_looks(self, wallets, now):
        """When a node last told of these wallets: at once, for the work after it may be long."""
        looked = [wallet for wallet in wallets if self._note_look(wallet, now)]
        for part in in_parts([wallet.id for wallet in looked]):
            Wallet.update(looked_at=max(w.looked_at for w in looked)).where(
                Wallet.id.in_(part)
            ).execute()

    def _note_look(self, wallet, now):
        """Whether a node told of it in this look."""
        watch = self._watches[wallet.id]
        if watch.told_at >= self._begun:
            wallet.looked_at = now + int(1000 * (watch.told_at - self._begun))
        return watch.told_at >= self._begun

    def _tell_time(self, wallets):
        """The block time up to which these wallets were seen, now and then: posts whose signature
        never shows wait for it.
        """
        slots = {
            w.id: min(h.slot for h in self._watches[w.id].holdings.values())
            for w in wallets
            if self._watches[w.id].holdings
        }
        if not slots or self._spare <= 0 or self._begun - self._timed_at < RECHECK_EVERY:
            return
        self._timed_at, self._spare = self._begun, self._spare - 1
        try:
            seconds = self._ask_time(min(slots.values()))
        except Resting:
            raise
        except RpcError:
            # of no wallet, and asked for again in a minute
            return
        for wallet in wallets:
            if seconds and wallet.id in slots:
                wallet.observed_to = max(seconds, wallet.observed_to or 0)

    def _ask_time(self, slot):
        return self.rpc.call("getBlockTime", [slot], check_time)[0]

    def _verdicts(self, wallet):
        """address -> True (explained), False, or None (the books are ahead of the node) as of the
        last comparison.
        """
        holdings = self._watches[wallet.id].holdings
        seen = self._book(wallet).seen if holdings else {}
        return {
            a: is_explained(seen.get(a), h.amount, h.lamports, h.slot) for a, h in holdings.items()
        }

    # ---- listing ---------------------------------------------------------------------------------
    def _page(self, address, before, limit):
        """((signature, slot, transactionIndex or None), ...) newest first, and the endpoint's
        label.
        """
        params = [address, {**FINALIZED, "limit": limit, **({"before": before} if before else {})}]
        return self.rpc.call("getSignaturesForAddress", params, check_page)

    def _take_news(self, wallet, now):
        """List at once what moved, and show it."""
        moved = {a for a, verdict in self._verdicts(wallet).items() if verdict is False}
        self._list_addresses(wallet, moved, now)
        if self._fetch_urgent(wallet, now):
            self._publish(wallet, now)

    def _list_heads(self, wallets, until, now):
        """The wallets' own heads where a post waits; then, as time and thrift allow, the others,
        longest unlisted first.

        A receipt that names a wallet and moves nothing of it shows there alone.
        """
        waiting = {w for (w,) in Post.select(Post.wallet).where(Post.status == "pending").tuples()}
        for wallet in sorted(
            wallets,
            key=lambda w: (
                w.id not in waiting,
                w.trouble_tries,
                self._watches[w.id].listed.get(w.address, -math.inf),
            ),
        ):
            room = self._spare > 0 and self.clock() < until and self._is_head_due(wallet)
            if wallet.id in waiting or room:
                self._attempt(self._list_addresses, wallet, {wallet.address}, now)

    def _list_addresses(self, wallet, addresses, now):
        """List the heads of some of these, longest unlisted first; the others in the next look."""
        listed = self._watches[wallet.id].listed
        waiting = [a for a in addresses if listed.get(a, -math.inf) < self._begun]
        chosen = sorted(waiting, key=lambda a: (listed.get(a, -math.inf), a))[:SLICE]
        rows = list(
            Address.select().where(
                Address.wallet == wallet.id, Address.walks > 0, Address.address.in_(chosen)
            )
        )
        for row in rows:
            if self.clock() >= self._end:
                break
            self._spare -= row.address == wallet.address
            listed[row.address] = self.clock()
            self._list_head(wallet, row, now)

    def _list_head(self, wallet, row, now):
        before, top = None, row.head_slot or 0
        while True:
            page, label = self._page(row.address, before, HEAD_PAGE)
            if before is None and row.address == wallet.address:
                self._watches[wallet.id].told_at = self.clock()
            new = self._store_sightings(wallet, page, now, head=True)
            top = max([top, *(slot for _, slot, _ in page)])
            if not page or (
                not new
                and (
                    before is None
                    or len(page) < HEAD_PAGE
                    or page[-1][1] <= (row.head_slot or 0) - OVERLAP_SLOTS
                )
            ):
                break
            before = page[-1][0]
        if top != row.head_slot:
            Address.update(head_slot=top, endpoint=label).where(Address.id == row.id).execute()

    def _store_sightings(self, wallet, page, now, head):
        """Keep what is new of a page; the rows [(signature, slot, index), ...] that were new."""
        known = {
            s
            for part in in_parts([s for s, _, _ in page])
            for (s,) in (
                WalletSignature.select(WalletSignature.signature)
                .where(WalletSignature.wallet == wallet.id, WalletSignature.signature.in_(part))
                .tuples()
            )
        }
        new = [row for row in page if row[0] not in known]
        if not new:
            return []
        with storage.writing():
            room = (
                self.config.max_receipts_per_wallet
                - WalletSignature.select().where(WalletSignature.wallet == wallet.id).count()
            )
            new = new[: max(0, room)]
            rows = [
                {
                    "wallet": wallet.id,
                    "signature": s,
                    "slot": slot,
                    "tx_index": index,
                    "head": head,
                    "seen_at": now,
                }
                for s, slot, index in new
            ]
            storage.insert_rows(WalletSignature, rows)
        return new

    # ---- walking: over everything an address ever listed -----------------------------------------
    def _walk_on(self, wallet, now):
        """One page of the walk that is due, if one is. A walk under way is kept, so that a restart
        goes on with it.
        """
        row = self._next_walk(wallet, now)
        if row is None:
            return False
        cursor = (
            orjson.loads(row.walk_cursor)
            if row.walk_cursor
            else {"before": None, "new": 0, "top": 0, "listed": 0, "empty": 0}
        )
        try:
            page, label = self._page(row.address, cursor["before"], FULL_PAGE)
        except (BadAnswer, Refused):
            # the place may be gone: begin again
            Address.update(walk_cursor=None).where(Address.id == row.id).execute()
            raise
        new = self._store_sightings(wallet, page, now, head=False)
        cursor["new"] += sum(slot <= (row.head_slot or slot) for _, slot, _ in new)
        cursor["top"] = max([cursor["top"], *(slot for _, slot, _ in page)])
        cursor["listed"] += len(page)
        cursor["empty"] = 0 if page else cursor["empty"] + 1
        if page:
            cursor["before"] = page[-1][0]
        if cursor["empty"] < (1 if cursor["listed"] else 2):
            Address.update(walk_cursor=orjson.dumps(cursor).decode(), endpoint=label).where(
                Address.id == row.id
            ).execute()
            return True
        Address.update(
            walk_cursor=None,
            walks=row.walks + 1,
            walk_new=cursor["new"],
            walked_at=now,
            endpoint=label,
            head_slot=max(row.head_slot or 0, cursor["top"]),
        ).where(Address.id == row.id).execute()
        return True

    def _next_walk(self, wallet, now):
        """The address to walk next: first walks before second ones before the nightly round."""
        due = (
            (Address.walks < 2)
            | (Address.walk_new > 0)
            | Address.walked_at.is_null()
            | ~Address.walked_at.between(now - WALK_EVERY, now)
        )
        return (
            Address.select()
            .where(Address.wallet == wallet.id, due)
            .order_by(Address.walks, Address.id)
            .first()
        )

    def _latch_whole(self, wallet):
        """Once every address was walked to its end, results count."""
        if (
            wallet.whole
            or Address.select().where(Address.wallet == wallet.id, Address.walks == 0).exists()
        ):
            return
        wallet.whole = True
        Wallet.update(whole=True).where(Wallet.id == wallet.id).execute()

    def _list_token_accounts(self, wallet, now):
        """Once a day, accounts that hold something now, even if no receipt ever named the wallet
        itself. Returns whether it was done.
        """
        if wallet.accounts_at is not None and abs(now - wallet.accounts_at) < WALK_EVERY:
            return False
        told = set()
        for program in TOKEN_PROGRAMS:
            params = [
                wallet.address,
                {"programId": program},
                {**FINALIZED, "encoding": "base64", "dataSlice": {"offset": 0, "length": 0}},
            ]
            addresses, _ = self.rpc.call("getTokenAccountsByOwner", params, check_accounts)
            told.update(addresses)
        self._add_addresses(wallet, told)
        wallet.accounts_at, wallet.accounts_left_out = now, len(told - list_addresses(wallet.id))
        Wallet.update(accounts_at=now, accounts_left_out=wallet.accounts_left_out).where(
            Wallet.id == wallet.id
        ).execute()
        return True

    def _add_addresses(self, wallet, addresses, named=False):
        """Watch these accounts too, as many as there is room for.

        `named`: a known transaction names them. They take the place of accounts that none does.
        """
        known = list_addresses(wallet.id)
        fresh = sorted(set(addresses) - known)
        room = self.config.max_addresses_per_wallet - len(known)
        if named and len(fresh) > room:
            room += self._drop_unnamed(wallet, len(fresh) - room)
        fresh = fresh[: max(0, room)]
        if fresh:
            storage.insert_rows(Address, [{"wallet": wallet.id, "address": a} for a in fresh])
            self._read_nameless(wallet, fresh)

    def _drop_unnamed(self, wallet, most):
        """Stop watching accounts for which no transaction was ever listed; how many."""
        unlisted = Address.select(Address.id, Address.address).where(
            Address.wallet == wallet.id,
            Address.walk_cursor.is_null(),
            Address.head_slot.is_null() | (Address.head_slot == 0),
        )
        named = self._book(wallet).seen.keys() | {wallet.address}
        dropped = [
            ident
            for ident, address in unlisted.order_by(Address.id.desc()).tuples()
            if address not in named
        ][:most]
        for part in in_parts(dropped):
            Address.delete().where(Address.id.in_(part)).execute()
        if dropped:
            wallet.accounts_left_out += len(dropped)
            Wallet.update(accounts_left_out=wallet.accounts_left_out).where(
                Wallet.id == wallet.id
            ).execute()
        return len(dropped)

    def _read_nameless(self, wallet, fresh):
        """Receipts of 2021 did not tell owners: those that name these accounts are read again now
        that their owner is known.
        """
        watch = self._watches[wallet.id]
        if watch.nameless is None:
            watch.nameless = defaultdict(set)
            of_2021 = WalletSignature.select(WalletSignature.entry).where(
                WalletSignature.wallet == wallet.id,
                WalletSignature.state == "stored",
                WalletSignature.entry.contains('"owner_inferred"'),
            )
            for (text,) in of_2021.tuples():
                self._note_nameless(wallet, Entry.load(text, None))
        stale = sorted(set().union(*(watch.nameless.get(address, ()) for address in fresh)))
        if stale:
            read_entries_again(wallet, self.programs, stale)
            self._forget_wallet(wallet.id)

    def _note_nameless(self, wallet, entry):
        watch = self._watches[wallet.id]
        for address in entry.unowned if watch.nameless is not None else ():
            watch.nameless[address].add(entry.signature)

    # ---- fetching --------------------------------------------------------------------------------
    def _fetch_urgent(self, wallet, now):
        """A slice of what a post waits for, else of what arrived at the head; how many were asked
        for.
        """
        waiting = Post.select(Post.signature).where(
            Post.wallet == wallet.id,
            Post.status.in_(["pending", "not_found"]),
            Post.signature.is_null(False),
        )
        return self._fetch_slice(
            wallet, now, WalletSignature.signature.in_(waiting)
        ) or self._fetch_slice(wallet, now, WalletSignature.head)

    def _fetch_backlog(self, wallet, now):
        return self._fetch_slice(wallet, now)

    def _fetch_slice(self, wallet, now, *which):
        # the latter: put off by a clock that ran wrong
        due = (WalletSignature.due_at <= now) | (WalletSignature.due_at > now + MAX_PUT_OFF)
        pending = WalletSignature.select().where(
            WalletSignature.wallet == wallet.id, WalletSignature.state == "pending", due, *which
        )
        rows = list(
            pending.order_by(
                WalletSignature.slot,
                WalletSignature.tx_index.asc(nulls="first"),
                WalletSignature.id,
            ).limit(SLICE)
        )
        for count, row in enumerate(rows):
            if count and self.clock() >= self._end:
                return count
            self._fetch_safely(wallet, row, now)
        return len(rows)

    def _fetch_safely(self, wallet, row, now):
        """A receipt that we stumble over is put off like one that is refused: the others go on."""
        try:
            self._fetch(wallet, row, now)
        except (RpcError, PeeweeException):
            raise
        except Exception as error:
            log.exception("wallet %s: receipt %s failed", wallet.address, row.signature)
            self._put_off(row, now, f"internal error: {type(error).__name__}")

    def _fetch(self, wallet, row, now):
        """Store the receipt of one sighting and its Entry, or put it off where the node does not
        give it or what it gives is refused.
        """
        known = list_addresses(wallet.id)
        try:
            receipt = self._find_receipt(row.signature) or self._fetch_receipt(row, now)
        except (BadAnswer, Refused) as error:
            return self._put_off(row, now, str(error))
        if receipt is None:
            return self._put_off(row, now, None)
        if not touches(receipt, wallet.address, known):
            return self._put_off(row, now, "it names none of the wallet's accounts")
        entry = read_entry(receipt, wallet.address, self.programs, known)
        index = receipt.tx_index if receipt.tx_index is not None else row.tx_index
        WalletSignature.update(
            state="stored", entry=entry.dump(), tx_index=index, slot=receipt.slot, problem=None
        ).where(WalletSignature.id == row.id).execute()
        self._watches[wallet.id].new.append(replace(entry, tx_index=index))
        self._note_unplaced(wallet, receipt.slot, index, row.signature)
        self._note_nameless(wallet, entry)
        self._add_addresses(wallet, {b.address for b in entry.balances} - known, named=True)

    def _find_receipt(self, signature):
        body = Receipt.select(Receipt.body).where(Receipt.signature == signature).scalar()
        return None if body is None else parse_receipt(unpack(body), signature)

    def _fetch_receipt(self, row, now):
        """Ask a node for a receipt, and another where it does not have it yet, and store it; None
        where neither does.
        """
        raw, receipt, label = self._ask_receipt(row.signature)
        if receipt is None and len(self.rpc.endpoints) > 1:
            raw, receipt, label = self._ask_receipt(row.signature, avoid=label)
        if receipt is None:
            return None
        values = {
            "slot": receipt.slot,
            "tx_index": receipt.tx_index,
            "block_time": receipt.block_time,
            "body": pack(raw),
            "endpoint": label,
            "stored_at": now,
        }
        Receipt.insert(signature=row.signature, **values).on_conflict_ignore().execute()
        return receipt

    def _ask_receipt(self, signature, avoid=None):
        """(raw JSON, Receipt, endpoint); the first two None for one the node does not have yet."""
        params = [
            signature,
            {**FINALIZED, "encoding": "jsonParsed", "maxSupportedTransactionVersion": 1},
        ]
        (raw, receipt), label = self.rpc.call(
            "getTransaction",
            params,
            functools.partial(check_receipt, signature=signature),
            avoid=avoid,
        )
        return raw, receipt, label

    def _put_off(self, row, now, problem):
        """Not yet here, or refused: kept pending, asked for again after a growing pause, for days."""
        pause = min(MAX_PUT_OFF, 1000 * 2 ** min(row.tries, 12))
        WalletSignature.update(tries=row.tries + 1, due_at=now + pause, problem=problem).where(
            WalletSignature.id == row.id
        ).execute()

    # ---- places inside a slot, where the node does not tell them ---------------------------------
    def _note_unplaced(self, wallet, slot, index, signature):
        watch = self._watches[wallet.id]
        if index is None and watch.unplaced is not None:
            watch.unplaced[slot].add(signature)
            if len(watch.unplaced[slot]) > 1:
                watch.crowded.add(slot)

    def _index_slots(self, wallet):
        """Ask for the block where several receipts of a slot lack their place in it."""
        watch = self._watches[wallet.id]
        if watch.unplaced is None:
            watch.unplaced = defaultdict(set)
            stored = WalletSignature.select(WalletSignature.slot, WalletSignature.signature).where(
                WalletSignature.wallet == wallet.id,
                WalletSignature.state == "stored",
                WalletSignature.tx_index.is_null(),
            )
            for slot, signature in list(stored.tuples()):
                self._note_unplaced(wallet, slot, None, signature)
        for slot in sorted(watch.crowded):
            try:
                self._index_slot(wallet, slot, sorted(watch.unplaced[slot]))
            except (BadAnswer, Refused):
                # no node gives the block: the chain of balances has to tell
                pass
            # no endpoint available: it stays and is asked for again
            watch.crowded.discard(slot)

    def _index_slot(self, wallet, slot, signatures):
        """Where no node gives the block, the chain of balances has to tell the order."""
        config = {
            **FINALIZED,
            "transactionDetails": "signatures",
            "rewards": False,
            "maxSupportedTransactionVersion": 1,
        }
        places, _ = self.rpc.call("getBlock", [slot, config], check_block)
        with storage.writing():
            for signature in signatures:
                WalletSignature.update(tx_index=places.get(signature)).where(
                    WalletSignature.wallet == wallet.id, WalletSignature.signature == signature
                ).execute()
        self._forget_wallet(wallet.id)

    # ---- after the look --------------------------------------------------------------------------
    def _book(self, wallet):
        """The wallet's books with all that is stored."""
        watch, begun = self._watches[wallet.id], self.clock()
        new, watch.new = watch.new, []
        book = self.books.take(wallet, new)
        if new:
            watch.fold_after = self.clock() + FOLD_SHARE * (self.clock() - begun)
        return book

    def _finish(self, wallet, now, more):
        progress = self._progress(wallet)
        self._note_look(wallet, now)
        if wallet.whole and progress.pending == progress.stuck:
            self._count_misses(wallet)
            try:
                self._attempt(self._store_untouched, wallet)
                more = self._attempt(self._heal, wallet, now) or more
            except Unavailable as error:
                self.problem = str(error)
        self._clear_trouble(wallet)
        self._publish(wallet, now)
        Wallet.update(due_at=now + (0 if more else int(1000 * self._pause(wallet, now)))).where(
            Wallet.id == wallet.id
        ).execute()

    def _count_misses(self, wallet):
        watch = self._watches[wallet.id]
        for address, verdict in self._verdicts(wallet).items():
            if watch.asked.get(address, -math.inf) < self._begun:
                continue
            watch.misses[address] = (
                0 if verdict else watch.misses.get(address, 0) + (verdict is False)
            )

    def _unexplained(self, wallet):
        """Addresses whose balance the books did not explain at two looks in a row."""
        return sorted(a for a, n in self._watches[wallet.id].misses.items() if n > 1)

    def _store_untouched(self, wallet):
        """Keep what accounts hold that no known receipt touched: it was there from the beginning.

        It stands in the books until a receipt touches the account, or the node says otherwise.
        """
        seen, stored = self._book(wallet).seen, read_untouched(wallet.id)
        unexplained = set(self._unexplained(wallet))
        holdings = self._watches[wallet.id].holdings
        held = {
            a: h for a, h in holdings.items() if a not in seen and h.mint not in (None, WRAPPED_SOL)
        }
        gone = [a for a in stored if a in seen or (a in holdings and a not in held)]
        fresh = {
            a: h
            for a, h in held.items()
            if a in unexplained
            and (a not in stored or (h.mint, h.amount) != (stored[a].mint, stored[a].amount))
        }
        decimals = self._find_decimals(wallet, sorted({h.mint for h in fresh.values()}))
        told = {a: holding for a, holding in fresh.items() if holding.mint in decimals}
        if not gone and not told:
            return
        with storage.writing():
            for address in gone:
                _store_holding(wallet, address, None, None)
            for address, holding in told.items():
                _store_holding(wallet, address, holding, decimals[holding.mint])
        self._forget_wallet(wallet.id)

    def _find_decimals(self, wallet, mints):
        """{mint: decimals}: from the books, else from a node; without those it does not know."""
        known = self._book(wallet).decimals
        unknown = [mint for mint in mints if mint not in known]
        found = {mint: known[mint] for mint in mints if mint in known}
        for start in range(0, len(unknown), ACCOUNTS_A_CALL):
            part = unknown[start : start + ACCOUNTS_A_CALL]
            params = [
                part,
                {**FINALIZED, "encoding": "base64", "dataSlice": {"offset": 44, "length": 1}},
            ]
            found |= self.rpc.call(
                "getMultipleAccounts", params, functools.partial(check_decimals, mints=part)
            )[0]
        return found

    def _trouble(self, wallet):
        """How much is wrong: breaks of the chain, and balances it does not lead to."""
        return len(self._book(wallet).gaps) + len(self._unexplained(wallet))

    def _pause(self, wallet, now):
        """Seconds until the next look: 0, unless more wallets are watched than one call asks for."""
        return self._rest(wallet, now) if self._watched > MAX_AWAKE else 0

    def _rest(self, wallet, now):
        """Seconds for which its own head need not be listed: 0 where it trades or a post waits, some
        looks where nothing has moved for an hour, more after a day.
        """
        last, interval = self.books.last_time(wallet.id), self.config.observer_interval_seconds
        idle = now / 1000 - last if last else 0
        if (
            wallet.trouble
            or idle < 3600
            or Post.select().where(Post.wallet == wallet.id, Post.status == "pending").exists()
        ):
            return 0
        return min(interval * (1.5 if idle < 86_400 else 3.5), max(MAX_SLEEP, interval))

    def _heal(self, wallet, now):
        """Where something is wrong, walk everything again and doubt the receipts around it; ever
        more rarely while it does not help.

        Returns whether it was begun.
        """
        watch, book = self._watches[wallet.id], self._book(wallet)
        if not self._trouble(wallet):
            watch.heal_wait = HEAL_FIRST // 2
            return False
        if now < wallet.heal_at <= now + HEAL_LATEST:
            return False
        self.say(f"{wallet.address}: walking again, {self._trouble(wallet)} gaps")
        Address.update(walked_at=None).where(Address.wallet == wallet.id).execute()
        slots = [(gap.from_slot, gap.to_slot) for gap in book.gaps] + [
            (book.seen[a].slot,) for a in self._unexplained(wallet) if a in book.seen
        ]
        for around in slots[:SLICE]:
            self._doubt(wallet, around, now)
        watch.heal_wait = min(HEAL_LATEST, 2 * watch.heal_wait)
        Wallet.update(heal_at=now + watch.heal_wait).where(Wallet.id == wallet.id).execute()
        return True

    def _doubt(self, wallet, slots, now):
        """A node may have given a wrong receipt: ask another one, and take its answer where the
        books then hold better.
        """
        rows = (
            Receipt.select()
            .join(WalletSignature, on=Receipt.signature == WalletSignature.signature)
            .where(WalletSignature.wallet == wallet.id, Receipt.slot.in_(slots))
        )
        for row in list(rows):
            try:
                raw, receipt, label = self._ask_receipt(row.signature, avoid=row.endpoint)
            except (BadAnswer, Refused):
                # the gap stays, and is doubted again
                continue
            if receipt and receipt != parse_receipt(unpack(row.body)):
                before, old = self._trouble_now(wallet), (row.body, row.endpoint)
                self._replace_receipt(wallet, row, pack(raw), label, now)
                if self._trouble_now(wallet) >= before:
                    self._replace_receipt(wallet, row, *old, now)

    def _trouble_now(self, wallet):
        return len(self._book(wallet).gaps) + sum(
            verdict is False for verdict in self._verdicts(wallet).values()
        )

    def _replace_receipt(self, wallet, row, body, label, now):
        Receipt.update(body=body, endpoint=label, stored_at=now).where(
            Receipt.id == row.id
        ).execute()
        read_entries_again(wallet, self.programs, [row.signature])
        self._forget_wallet(wallet.id)
        others = WalletSignature.select(WalletSignature.wallet).where(
            WalletSignature.signature == row.signature,
            WalletSignature.state == "stored",
            WalletSignature.wallet != wallet.id,
        )
        # whoever observes them reads them again
        Wallet.update(rules="").where(Wallet.id.in_(others)).execute()

    def _progress(self, wallet):
        columns = Address.address, Address.walks, Address.walk_cursor, Address.walk_new
        addresses = list(Address.select(*columns).where(Address.wallet == wallet.id).namedtuples())
        watch, book = self._watches[wallet.id], self._book(wallet)
        left_out = wallet.accounts_left_out or book.seen.keys() - {a.address for a in addresses}
        mine = WalletSignature.wallet == wallet.id
        pending = mine & (WalletSignature.state == "pending")
        refused = (
            WalletSignature.select(WalletSignature.slot, WalletSignature.problem)
            .where(pending, WalletSignature.problem.is_null(False))
            .order_by(WalletSignature.slot)
            .limit(MAX_NAMED)
        )
        verdicts = self._verdicts(wallet)
        unexplained = tuple(
            (a, book.seen[a].slot if a in book.seen else 0, watch.holdings[a].slot)
            for a in self._unexplained(wallet)
        )
        return Progress(
            looked=any(a.walks or a.walk_cursor for a in addresses),
            listed=wallet.whole and all(a.walks for a in addresses),
            confirmed=wallet.accounts_at is not None
            and all(a.walks > 1 and a.walk_new == 0 for a in addresses),
            closed=all(verdicts.get(a.address) for a in addresses),
            pending=WalletSignature.select().where(pending).count(),
            refused=tuple(refused.tuples()),
            stuck=WalletSignature.select()
            .where(
                pending,
                (WalletSignature.tries >= STUCK_AFTER) | WalletSignature.problem.is_null(False),
            )
            .count(),
            unexplained=unexplained,
            capped=WalletSignature.select().where(mine).count()
            >= self.config.max_receipts_per_wallet,
            accounts_capped=bool(left_out),
            trouble=wallet.trouble,
        )

    def _publish(self, wallet, now):
        book, progress = self._book(wallet), self._progress(wallet)
        self.books.publish(wallet, progress, now)
        self.say(
            f"{wallet.address}: {book.count} receipts, {progress.pending} pending,"
            f" {book.totals.trades} trades"
        )


def list_addresses(wallet_id):
    """The watched addresses of a wallet: itself and every token account it was ever seen to own."""
    return {
        a for (a,) in Address.select(Address.address).where(Address.wallet == wallet_id).tuples()
    }


def _store_holding(wallet, address, holding, decimals):
    """What a node says an untouched account holds; nothing (None) where a receipt tells it now."""
    Address.update(
        held_mint=holding and holding.mint,
        held_amount=holding and str(holding.amount),
        held_decimals=decimals,
        held_slot=holding and holding.slot,
    ).where(Address.wallet == wallet.id, Address.address == address).execute()


def _list_receipts(wallet, signatures):
    """(id of the WalletSignature, signature, entry, body) of the wallet's stored receipts, of all or of
    these, one after another.
    """
    query = WalletSignature.select(
        WalletSignature.id, WalletSignature.signature, WalletSignature.entry, Receipt.body
    ).join(Receipt, JOIN.LEFT_OUTER, on=Receipt.signature == WalletSignature.signature)
    query = query.where(WalletSignature.wallet == wallet.id, WalletSignature.state == "stored")
    if signatures is None:
        yield from query.tuples().iterator()
    for part in in_parts(signatures or ()):
        yield from query.where(WalletSignature.signature.in_(part)).tuples()


# ---- reading again -------------------------------------------------------------------------------
def read_entries_again(wallet, programs, signatures=None):
    """Read a wallet's entries anew from the stored receipts; (how many changed, how many are to be
    fetched again).

    The latter are those whose receipt is gone, damaged, or refused by now.
    """
    known = list_addresses(wallet.id)
    changed, lost = [], []
    for number, signature, entry, body in _list_receipts(wallet, signatures):
        try:
            again = (
                None
                if body is None
                else read_entry(
                    parse_receipt(unpack(body), signature), wallet.address, programs, known
                ).dump()
            )
        except (ValueError, zlib.error):
            again = None
        if again is None:
            lost.append(signature)
        elif again != entry:
            changed.append((number, again))
    with storage.writing():
        for number, entry in changed:
            WalletSignature.update(entry=entry).where(WalletSignature.id == number).execute()
        _fetch_again(lost)
    return len(changed), len(lost)


def _fetch_again(signatures):
    """These receipts are asked for anew, for all wallets that they concern."""
    for part in chunked(signatures, storage.ROWS_A_STATEMENT):
        WalletSignature.update(state="pending", entry=None, due_at=0).where(
            WalletSignature.signature.in_(part)
        ).execute()
        Receipt.delete().where(Receipt.signature.in_(part)).execute()


def fetch_missing(wallet):
    """What is listed as stored and whose receipt is gone is fetched again; how many there are."""
    stored = Receipt.select(Receipt.id).where(Receipt.signature == WalletSignature.signature)
    gone = WalletSignature.select(WalletSignature.signature).where(
        WalletSignature.wallet == wallet.id, WalletSignature.state == "stored", ~fn.EXISTS(stored)
    )
    signatures = [signature for (signature,) in list(gone.tuples())]
    if signatures:
        with storage.writing():
            _fetch_again(signatures)
    return len(signatures)


# ---- the command line's passes -------------------------------------------------------------------
def observe_once(observer, now, sleep=time.sleep):
    """Look at every wallet until nothing is left to do at once, or nobody answers; the caller holds
    the work lock. Each wallet's coverage, by address.
    """
    troubles, looks = 0, 0
    # a balance that walking does not explain is told by a second look
    while looks < 2 and troubles < PATIENCE:
        Wallet.update(due_at=0).execute()
        more = observer.run_tick(now)
        trouble = observer.problem or observer.troubled
        looks, troubles = looks + (not more and not trouble), troubles + 1 if trouble else 0
        # as long as an endpoint rests that was asked too often
        pause = THROTTLED if trouble else 0.0
        sleep(pause)
        now += 1000 + int(1000 * pause)
    return {
        wallet.address: orjson.loads(wallet.coverage)
        for wallet in Wallet.select().where(Wallet.coverage.is_null(False))
    }


def rebuild(observer, wallets, now):
    """Derive everything of these wallets again.

    [(address, entries that changed, receipts to be fetched again, trades that changed, did the sums
    change), ...]
    """
    report = []
    for wallet in list(wallets):
        (entries, lost), sums = read_entries_again(wallet, observer.programs), _list_sums(wallet)
        if entries or lost:
            # whoever observes it has other entries in memory: they are read again
            Wallet.update(rules="").where(Wallet.id == wallet.id).execute()
        distrust_trades(wallet.id)
        before = dict(
            Trade.select(Trade.signature, Trade.digest).where(Trade.wallet == wallet.id).tuples()
        )
        observer.books.forget(wallet.id)
        observer.books.take(wallet)
        observer.books.publish(wallet, None, now)
        after = dict(
            Trade.select(Trade.signature, Trade.digest).where(Trade.wallet == wallet.id).tuples()
        )
        report.append(
            (
                wallet.address,
                entries,
                lost,
                sum(before.get(s) != after.get(s) for s in before.keys() | after.keys()),
                sums != _list_sums(wallet),
            )
        )
    return report


def _list_sums(wallet):
    return (
        Wallet.select(Wallet.results, Wallet.positions, Wallet.realized, Wallet.last_trade_at)
        .where(Wallet.id == wallet.id)
        .tuples()
        .get()
    )
