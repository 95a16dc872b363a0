"""Job: from watched wallets to receipts to books. It moves data and decides little: what a receipt means is decided in chain/.

A look at a wallet lists what arrived at its head, compares the node's balances with the books, goes on with walks over the whole
history and fetches receipts that are listed and not yet stored. Network first, then short writes; a kill at any moment loses no more
than the answer that was on its way.
"""
import base64
import functools
import hashlib
import time
from collections import defaultdict, deque
from dataclasses import dataclass, replace

import orjson
from base58 import b58encode
from peewee import fn

import models
from books import Books, pack, unpack
from chain.coverage import Progress, is_explained
from chain.entries import Entry, read_entry
from chain.programs import table
from chain.receipts import ADDRESS, SIGNATURE, TOKEN_PROGRAMS, parse_receipt
from chain.rpc import BadAnswer, Refused, Rpc, RpcError, Unavailable
from models import Address, Attachment, Post, Receipt, Sighting, Trade, Wallet

HEAD_PAGE, FULL_PAGE = 100, 1000
OVERLAP_SLOTS = 512                    # below the covered head: what a lagging node left out is listed again
SLICE = 20                             # receipts fetched for one wallet before the next has its turn
WALK_EVERY = 86_400_000                # ms between full walks
HEAL_FIRST, HEAL_LATEST = 30_000, 6 * 3_600_000
RECHECK_EVERY = 60_000                 # ms
FOLD_SHARE = 9                         # a fold that took a second is not repeated for nine: at most a tenth of the time goes there
MOST_NAMED = 50                        # refused receipts that coverage names
LONGEST_SLEEP = 300.0                  # seconds: a sleeping wallet is looked at no less often than this
STUCK_AFTER = 5                        # tries
ACCOUNTS_A_CALL = 100
FINALIZED = {"commitment": "finalized"}


@dataclass(frozen=True)
class Holding:
    """What the node says an own account holds at a slot; zeros where it is gone or another's."""

    slot: int
    amount: int
    lamports: int


def quiet(text):
    """Nobody watches."""


class Observer:
    """`run_tick` is one pass over the wallets that are due. Its memory is a cache: all it needs to go on is in the database."""

    def __init__(self, config, rpc=None, clock=time.monotonic, say=quiet):
        self.config, self.clock, self.say = config, clock, say
        self.rpc = rpc or Rpc(config.solana_rpc_urls, config.rpc_requests_per_second)
        self.programs = table(config.extra_swap_programs)
        self.rules = hashlib.sha256(repr(self.programs).encode()).hexdigest()[:16]
        self.books = Books()
        self.problem = None                               # of the last tick, for health
        self._holdings = defaultdict(dict)                # wallet id -> address -> Holding
        self._misses = defaultdict(dict)                  # wallet id -> address -> finished looks in a row that did not explain it
        self._new = defaultdict(list)                     # wallet id -> entries stored and not folded yet
        self._fold_after, self._heal_wait = {}, {}
        self._compared_at, self._timed_at = {}, 0
        self._blocks_untold = set()                       # slots whose block no node would give

    def run_tick(self, now):
        """One pass; `now` in ms. Returns whether work was left for lack of time or answers."""
        end = self.clock() + max(2.0, self.config.observer_interval_seconds)
        wallets, self.problem = self._list_due(now), None
        try:
            more = self._look(wallets, end, now)
            for wallet in wallets:
                self._finish(wallet, now, more)
            return more
        except BaseException:
            self.books = Books()                          # the database may not hold what memory does: fold again from there
            raise

    def _list_due(self, now):
        query = Wallet.select().join(Attachment).where(Attachment.detached_at.is_null(), Wallet.due_at <= now).order_by(Wallet.due_at)
        return list(query)

    def _look(self, wallets, end, now):
        try:
            for wallet in wallets:
                self._attempt(self._prepare, wallet, now)
            self._compare_balances(wallets, now)
            for wallet in wallets:
                self._attempt(self._list_heads, wallet, now)
            return self._work_through(wallets, end, now)
        except Unavailable as error:
            self.problem = str(error)
            return True

    def _attempt(self, work, wallet, now):
        """One wallet's trouble must not keep the others waiting; only when no endpoint answers the pass is over."""
        try:
            return work(wallet, now)
        except Unavailable:
            raise
        except RpcError as error:
            self.problem = str(error)
            return False

    def _work_through(self, wallets, end, now):
        """Slices of work in turn, so that one long back-fill does not starve the others."""
        turns = deque(wallets)
        while turns and self.clock() < end:
            wallet = turns.popleft()
            if self._attempt(self._work_on, wallet, now):
                turns.append(wallet)
        return bool(turns)

    def _work_on(self, wallet, now):
        """One slice: receipts that are listed, else a page of a walk. Returns whether there is more to do at once."""
        if not self._fetch_slice(wallet, now) and not self._walk_on(wallet, now):
            return False
        self._index_slots(wallet)
        self._latch_whole(wallet)
        if self.clock() >= self._fold_after.get(wallet.id, 0):
            self._publish(wallet, now)
        return True

    # ---- before the look ---------------------------------------------------------------------------------------------------
    def _prepare(self, wallet, now):
        if wallet.rules != self.rules:
            self._read_again(wallet)
        if wallet.accounts_at is None or now - wallet.accounts_at > WALK_EVERY:
            self._list_token_accounts(wallet, now)

    def _read_again(self, wallet):
        """The program table changed: what was read with the old one is read anew from the stored receipts."""
        read_entries_again(wallet, self.programs)
        Wallet.update(rules=self.rules).where(Wallet.id == wallet.id).execute()
        wallet.rules = self.rules
        self.books.forget(wallet.id)

    def _list_token_accounts(self, wallet, now):
        """Accounts that hold something now, even if no receipt ever named the wallet itself."""
        for program in TOKEN_PROGRAMS:
            params = [wallet.address, {"programId": program}, {**FINALIZED, "encoding": "base64", "dataSlice": {"offset": 0, "length": 0}}]
            rows, _ = self.rpc.call("getTokenAccountsByOwner", params, _check_accounts)
            self._add_addresses(wallet, rows)
        Wallet.update(accounts_at=now).where(Wallet.id == wallet.id).execute()
        wallet.accounts_at = now

    def _add_addresses(self, wallet, addresses):
        fresh = sorted(set(addresses) - list_addresses(wallet.id))
        if fresh:
            Address.insert_many([{"wallet": wallet.id, "address": a} for a in fresh]).on_conflict_ignore().execute()
            self._read_unowned(wallet, fresh)

    def _read_unowned(self, wallet, fresh):
        """Entries of 2021 receipts that did not know whose these accounts were."""
        for address in fresh:
            rows = list(Sighting.select().where(Sighting.wallet == wallet.id, Sighting.state == "stored", Sighting.entry.contains(address)))
            stale = [row for row in rows if address in Entry.load(row.entry, None).unowned]
            if stale:
                read_entries_again(wallet, self.programs, [row.signature for row in stale])
                self.books.forget(wallet.id)

    # ---- listing -------------------------------------------------------------------------------------------------------------
    def _page(self, address, before, limit):
        """((signature, slot, transactionIndex or None), ...) newest first, and the endpoint's label."""
        params = [address, {**FINALIZED, "limit": limit, **({"before": before} if before else {})}]
        return self.rpc.call("getSignaturesForAddress", params, _check_page)

    def _list_heads(self, wallet, now):
        """The wallet's own head at every look; of the token accounts, those whose balance the books do not explain."""
        moved = {a for a, verdict in self._verdicts(wallet).items() if verdict is False}
        for row in Address.select().where(Address.wallet == wallet.id, Address.walks > 0):
            if row.address == wallet.address or row.address in moved:
                self._list_head(wallet, row, now)

    def _list_head(self, wallet, row, now):
        before, top = None, row.head_slot or 0
        while True:
            page, label = self._page(row.address, before, HEAD_PAGE)
            new = self._store_sightings(wallet, page, now, head=True)
            top = max([top, *(slot for _, slot, _ in page)])
            if not page or (not new and (len(page) < HEAD_PAGE or page[-1][1] <= (row.head_slot or 0) - OVERLAP_SLOTS)):
                break
            before = page[-1][0]
        if top != row.head_slot:
            Address.update(head_slot=top, endpoint=label).where(Address.id == row.id).execute()

    def _store_sightings(self, wallet, page, now, head):
        """Keep what is new of a page; the rows [(signature, slot, index), ...] that were new."""
        known = {s for s, in Sighting.select(Sighting.signature).where(Sighting.wallet == wallet.id, Sighting.signature.in_([s for s, _, _ in page])).tuples()}
        new = list({row[0]: row for row in page if row[0] not in known}.values())
        if not new:
            return []
        with models.writing():
            room = self.config.max_receipts_per_wallet - Sighting.select().where(Sighting.wallet == wallet.id).count()
            rows = [{"wallet": wallet.id, "signature": s, "slot": slot, "tx_index": index, "head": head, "seen_at": now} for s, slot, index in new[:max(0, room)]]
            if rows:
                Sighting.insert_many(rows).on_conflict_ignore().execute()
        return new[:max(0, room)]

    # ---- walking: over everything an address ever listed ---------------------------------------------------------------------------
    def _walk_on(self, wallet, now):
        """One page of the walk that is due, if one is. A walk under way is kept, so that a restart goes on with it."""
        row = self._next_walk(wallet, now)
        if row is None:
            return False
        cursor = orjson.loads(row.walk_cursor) if row.walk_cursor else {"before": None, "new": 0, "top": 0, "listed": 0, "empty": 0}
        try:
            page, label = self._page(row.address, cursor["before"], FULL_PAGE)
        except RpcError:
            Address.update(walk_cursor=None).where(Address.id == row.id).execute()  # the place may be gone: begin again
            raise
        new = self._store_sightings(wallet, page, now, head=False)
        cursor["new"] += sum(slot <= (row.head_slot or slot) for _, slot, _ in new)
        cursor["top"] = max([cursor["top"], *(slot for _, slot, _ in page)])
        cursor["listed"] += len(page)
        cursor["empty"] = 0 if page else cursor["empty"] + 1
        if page:
            cursor["before"] = page[-1][0]
        if cursor["empty"] < (1 if cursor["listed"] else 2):
            Address.update(walk_cursor=orjson.dumps(cursor).decode(), endpoint=label).where(Address.id == row.id).execute()
            return True
        Address.update(walk_cursor=None, walks=row.walks + 1, walk_new=cursor["new"], walked_at=now, endpoint=label,
                       head_slot=max(row.head_slot or 0, cursor["top"])).where(Address.id == row.id).execute()
        return True

    def _next_walk(self, wallet, now):
        """The address to walk next: first walks before second ones before the nightly round."""
        due = (Address.walks < 2) | (Address.walk_new > 0) | Address.walked_at.is_null() | (Address.walked_at < now - WALK_EVERY)
        return Address.select().where(Address.wallet == wallet.id, due).order_by(Address.walks, Address.id).first()

    def _latch_whole(self, wallet):
        """Once every address was walked to its end and all of it is stored, results count."""
        if wallet.whole or Address.select().where(Address.wallet == wallet.id, Address.walks == 0).exists():
            return
        wallet.whole = True
        Wallet.update(whole=True).where(Wallet.id == wallet.id).execute()

    # ---- fetching ------------------------------------------------------------------------------------------------------------------
    def _fetch_slice(self, wallet, now):
        """Fetch what a post waits for first, then the head, then the back-fill from its beginning; how many were asked for."""
        waiting = Post.select(Post.signature).where(Post.wallet == wallet.id, Post.status.in_(["pending", "not_found"]), Post.signature.is_null(False))
        pending = (Sighting.wallet == wallet.id) & (Sighting.state == "pending") & (Sighting.due_at <= now)
        rows = list(Sighting.select().where(pending, Sighting.signature.in_(waiting)).limit(SLICE))
        if not rows:
            rows = list(Sighting.select().where(pending).order_by(Sighting.head.desc(), Sighting.slot, Sighting.tx_index, Sighting.id).limit(SLICE))
        for row in rows:
            self._fetch(wallet, row, now)
        return len(rows)

    def _fetch(self, wallet, row, now):
        """Store the receipt of one sighting and its Entry, or put it off where the node does not give it or what it gives is refused."""
        try:
            receipt = self._find_receipt(row.signature) or self._fetch_receipt(row.signature, now)
        except BadAnswer as error:
            return self._put_off(row, now, str(error))
        if receipt is None:
            return self._put_off(row, now, None)
        known = list_addresses(wallet.id)
        entry = read_entry(receipt, wallet.address, self.programs, known)
        index = receipt.tx_index if receipt.tx_index is not None else row.tx_index
        Sighting.update(state="stored", entry=entry.dump(), tx_index=index, slot=receipt.slot, problem=None).where(Sighting.id == row.id).execute()
        self._new[wallet.id].append(replace(entry, tx_index=index))
        self._add_addresses(wallet, {b.address for b in entry.balances} - known)

    def _find_receipt(self, signature):
        body = Receipt.select(Receipt.body).where(Receipt.signature == signature).scalar()
        return None if body is None else parse_receipt(unpack(body), signature)

    def _fetch_receipt(self, signature, now):
        """Ask a node for a receipt and store it; None for one it does not have yet."""
        raw, receipt, label = self._ask_receipt(signature)
        if receipt is None:
            return None
        row = {"slot": receipt.slot, "tx_index": receipt.tx_index, "block_time": receipt.block_time, "body": pack(raw), "endpoint": label, "stored_at": now}
        Receipt.insert(signature=signature, **row).on_conflict_ignore().execute()
        return receipt

    def _ask_receipt(self, signature, avoid=None):
        """(raw JSON, Receipt, endpoint); the first two None for one the node does not have yet."""
        params = [signature, {**FINALIZED, "encoding": "jsonParsed", "maxSupportedTransactionVersion": 1}]
        (raw, receipt), label = self.rpc.call("getTransaction", params, lambda raw: _check_receipt(raw, signature), avoid=avoid)
        return raw, receipt, label

    def _put_off(self, row, now, problem):
        """Not yet here, or refused: kept pending, asked for again after a growing pause, for days."""
        pause = min(3600, 2 ** row.tries) * 1000
        Sighting.update(tries=row.tries + 1, due_at=now + pause, problem=problem).where(Sighting.id == row.id).execute()

    def _index_slots(self, wallet):
        """Ask for the block where several receipts of a slot lack their place in it."""
        for slot in {entry.slot for entry in self._new[wallet.id] if entry.tx_index is None} - self._blocks_untold:
            same = Sighting.select(Sighting.tx_index).where(Sighting.wallet == wallet.id, Sighting.slot == slot, Sighting.state == "stored")
            if same.count() > 1:
                self._index_slot(slot)

    def _index_slot(self, slot):
        config = {**FINALIZED, "transactionDetails": "signatures", "rewards": False, "maxSupportedTransactionVersion": 1}
        try:
            places, _ = self.rpc.call("getBlock", [slot, config], _check_block)
        except (BadAnswer, Refused):
            self._blocks_untold.add(slot)                 # the chain of balances then has to tell the order
            return
        for row in Sighting.select().where(Sighting.slot == slot, Sighting.tx_index.is_null()):
            Sighting.update(tx_index=places.get(row.signature)).where(Sighting.id == row.id).execute()
            self.books.forget(row.wallet_id)

    # ---- the node's balances against the books ------------------------------------------------------------------------------------------
    def _compare_balances(self, wallets, now):
        """One cheap call for each hundred addresses tells which of them moved: those are listed now, the others at night.

        A wallet without token accounts needs it rarely: its own head is listed at every look anyway.
        """
        rows = []
        for wallet in wallets:
            addresses = [a for a, in Address.select(Address.address).where(Address.wallet == wallet.id, Address.walks > 0).tuples()]
            if len(addresses) > 1 or False in self._verdicts(wallet).values() or now - self._compared_at.get(wallet.id, 0) >= RECHECK_EVERY:
                rows += [(wallet, a) for a in addresses]
        for start in range(0, len(rows), ACCOUNTS_A_CALL):
            slot = self._compare_part(rows[start:start + ACCOUNTS_A_CALL], now)
            self._tell_time(wallets, slot, now)

    def _compare_part(self, part, now):
        params = [[a for _, a in part], {**FINALIZED, "encoding": "base64", "dataSlice": {"offset": 0, "length": 72}}]
        read = functools.partial(_check_holdings, owned=[(wallet.address, a) for wallet, a in part])
        try:
            (slot, holdings), _ = self.rpc.call("getMultipleAccounts", params, read)
        except (BadAnswer, Refused) as error:
            self.problem = str(error)
            return None
        for (wallet, address), holding in zip(part, holdings):
            self._holdings[wallet.id][address] = holding
            self._compared_at[wallet.id] = now
        return slot

    def _tell_time(self, wallets, slot, now):
        """The block time up to which the chain was seen, now and then: posts whose signature never shows wait for it."""
        if slot is None or now - self._timed_at < RECHECK_EVERY:
            return
        self._timed_at = now
        try:
            seconds, _ = self.rpc.call("getBlockTime", [slot], _check_time)
        except (BadAnswer, Refused):
            return                                        # a skipped slot has none: the next look tells
        for wallet in wallets:
            if seconds and self._compared_at.get(wallet.id) == now:
                wallet.observed_to = max(seconds, wallet.observed_to or 0)

    def _verdicts(self, wallet):
        """address -> True (explained), False, or None (the node is behind the books) as of the last look."""
        holdings = self._holdings.get(wallet.id)
        if not holdings:
            return {}
        seen = self._book(wallet).seen
        return {a: is_explained(seen.get(a), h.amount, h.lamports, h.slot) for a, h in holdings.items()}

    def _book(self, wallet):
        """The wallet's books with all that is stored."""
        begun = self.clock()
        book = self.books.take(wallet, self._new.pop(wallet.id, ()))
        self._fold_after[wallet.id] = self.clock() + FOLD_SHARE * (self.clock() - begun)
        return book

    # ---- after the look -----------------------------------------------------------------------------------------------------------------
    def _finish(self, wallet, now, more):
        book = self._book(wallet)
        self._count_misses(wallet)
        if book.gaps or any(n > 1 for n in self._misses[wallet.id].values()):
            self._heal(wallet, book, now)
        else:
            self._heal_wait.pop(wallet.id, None)
        self._publish(wallet, now)
        Wallet.update(due_at=now + (0 if more else int(1000 * self._pause(wallet, now)))).where(Wallet.id == wallet.id).execute()

    def _count_misses(self, wallet):
        if Sighting.select().where(Sighting.wallet == wallet.id, Sighting.state == "pending").exists():
            return
        misses = self._misses[wallet.id]
        for address, verdict in self._verdicts(wallet).items():
            misses[address] = 0 if verdict else misses.get(address, 0) + (verdict is False)

    def _pause(self, wallet, now):
        """Seconds to leave a wallet alone: none while it trades or a post waits, at most LONGEST_SLEEP when it sleeps."""
        last = Trade.select(fn.MAX(Trade.block_time)).where(Trade.wallet == wallet.id).scalar()
        idle = now / 1000 - last if last else 0
        if idle < 3600 or Post.select().where(Post.wallet == wallet.id, Post.status == "pending").exists():
            return 0
        interval = self.config.observer_interval_seconds
        return min(interval * (1 if idle < 86_400 else 3), max(LONGEST_SLEEP, interval))

    def _heal(self, wallet, book, now):
        """Walk everything again and fetch the receipts around each gap from another endpoint; ever more rarely while it does not help."""
        if wallet.heal_at > now:
            return
        self.say(f"{wallet.address}: walking again, {len(book.gaps)} gaps")
        Address.update(walked_at=None).where(Address.wallet == wallet.id).execute()
        for gap in book.gaps[:SLICE]:
            self._doubt(wallet, (gap.from_slot, gap.to_slot), now)
        wait = self._heal_wait[wallet.id] = min(HEAL_LATEST, 2 * self._heal_wait.get(wallet.id, HEAL_FIRST // 2))
        Wallet.update(heal_at=now + wait).where(Wallet.id == wallet.id).execute()

    def _doubt(self, wallet, slots, now):
        """A node may have given a wrong receipt: ask another one, and take its answer where they differ."""
        if len(self.rpc.endpoints) < 2:
            return
        rows = Receipt.select().join(Sighting, on=Receipt.signature == Sighting.signature).where(Sighting.wallet == wallet.id, Receipt.slot.in_(slots))
        for row in rows:
            try:
                raw, receipt, label = self._ask_receipt(row.signature, avoid=row.endpoint)
            except RpcError:
                continue                                  # the gap stays, and is doubted again
            if receipt and receipt != parse_receipt(unpack(row.body)):
                Receipt.update(body=pack(raw), endpoint=label, stored_at=now).where(Receipt.id == row.id).execute()
                for sighting in Sighting.select().where(Sighting.signature == row.signature):
                    read_entries_again(Wallet.get_by_id(sighting.wallet_id), self.programs, [row.signature])
                    self.books.forget(sighting.wallet_id)

    def _progress(self, wallet):
        addresses = list(Address.select().where(Address.wallet == wallet.id))
        mine = Sighting.wallet == wallet.id
        pending = mine & (Sighting.state == "pending")
        refused = Sighting.select(Sighting.slot, Sighting.problem).where(pending, Sighting.problem.is_null(False)).order_by(Sighting.slot).limit(MOST_NAMED)
        holdings, misses, seen = self._holdings[wallet.id], self._misses[wallet.id], self._book(wallet).seen
        return Progress(looked=any(a.walks or a.walk_cursor for a in addresses), listed=wallet.whole and all(a.walks for a in addresses),
                        confirmed=all(a.walks > 1 and a.walk_new == 0 for a in addresses), closed=self._is_closed(wallet, addresses),
                        pending=Sighting.select().where(pending).count(), refused=tuple(refused.tuples()),
                        stuck=Sighting.select().where(pending, (Sighting.tries >= STUCK_AFTER) | Sighting.problem.is_null(False)).count(),
                        unexplained=tuple((a, seen[a].slot if a in seen else 0, holdings[a].slot) for a, n in sorted(misses.items()) if n > 1),
                        capped=Sighting.select().where(mine).count() >= self.config.max_receipts_per_wallet)

    def _is_closed(self, wallet, addresses):
        """Were the node's balances those of the books at the last look? An account that appeared after it has no say yet."""
        verdicts, seen, holdings = self._verdicts(wallet), self._book(wallet).seen, self._holdings[wallet.id]
        if not verdicts or False in verdicts.values():
            return False
        looked = max(h.slot for h in holdings.values())
        return all(a.address in verdicts or (a.address in seen and seen[a.address].slot > looked) for a in addresses)

    def _publish(self, wallet, now):
        book, progress = self._book(wallet), self._progress(wallet)
        self.books.publish(wallet, progress, now)
        self.say(f"{wallet.address}: {book.count} receipts, {progress.pending} pending, {book.totals.trades} trades")


def list_addresses(wallet_id):
    """The watched addresses of a wallet: itself and every token account it was ever seen to own."""
    return {a for a, in Address.select(Address.address).where(Address.wallet == wallet_id).tuples()}


# ---- reading again -------------------------------------------------------------------------------------------------------------------------
def read_entries_again(wallet, programs, signatures=None):
    """Read a wallet's entries anew from the stored receipts; how many changed."""
    known = list_addresses(wallet.id)
    query = Sighting.select(Sighting, Receipt.body).join(Receipt, on=Receipt.signature == Sighting.signature).where(Sighting.wallet == wallet.id, Sighting.state == "stored")
    changed = []
    for row in (query if signatures is None else query.where(Sighting.signature.in_(signatures))):
        entry = read_entry(parse_receipt(unpack(row.receipt.body), row.signature), wallet.address, programs, known).dump()
        if entry != row.entry:
            changed.append((row.id, entry))
    with models.writing():
        for number, entry in changed:
            Sighting.update(entry=entry).where(Sighting.id == number).execute()
    return len(changed)


# ---- what a usable answer is -------------------------------------------------------------------------------------------------------------------
def _check_page(result):
    if not isinstance(result, list):
        raise ValueError("no list of signatures")
    rows = {}
    for one in result:
        signature, slot, index = (one.get(name) for name in ("signature", "slot", "transactionIndex")) if isinstance(one, dict) else (None, None, None)
        if not (isinstance(signature, str) and SIGNATURE.fullmatch(signature) and type(slot) is int and slot >= 0 and (index is None or type(index) is int)):
            raise ValueError("a malformed signature entry")
        rows[signature] = (signature, slot, index)
    return sorted(rows.values(), key=lambda row: (-row[1], -(row[2] or 0)))


def _check_receipt(raw, signature):
    return (None, None) if raw is None else (raw, parse_receipt(raw, signature))


def _check_accounts(result):
    try:
        return [row["pubkey"] for row in result["value"]]
    except (TypeError, KeyError) as error:
        raise ValueError("no list of token accounts") from error


def _check_holdings(result, owned):
    """(slot, [Holding, ...]) for `owned`: [(wallet, address), ...]."""
    try:
        slot, accounts = result["context"]["slot"], result["value"]
        if type(slot) is not int or len(accounts) != len(owned):
            raise ValueError("not one answer for each account")
        return slot, [_read_holding(account, *pair, slot) for pair, account in zip(owned, accounts)]
    except (TypeError, KeyError, IndexError) as error:
        raise ValueError("no list of accounts") from error


def _check_block(result):
    try:
        return {signature: place for place, signature in enumerate(result["signatures"])}
    except (TypeError, KeyError) as error:
        raise ValueError("no list of signatures") from error


def _check_time(result):
    if result is not None and type(result) is not int:
        raise ValueError("no block time")
    return result


def _read_holding(account, wallet, address, slot):
    """Holding of an own address by its account: the first 72 bytes of a token account are mint, owner and amount."""
    if account is None:
        return Holding(slot, 0, 0)
    if address == wallet:
        return Holding(slot, 0, account["lamports"])
    data = base64.b64decode(account["data"][0])
    if account["owner"] not in TOKEN_PROGRAMS or len(data) < 72 or b58encode(data[32:64]).decode() != wallet:
        return Holding(slot, 0, 0)
    return Holding(slot, int.from_bytes(data[64:72], "little"), account["lamports"])


# ---- the command line's passes ---------------------------------------------------------------------------------------------------------------------
def observe_once(observer, now, clock=time.monotonic):
    """Look until nothing is left to do at once; the caller holds the work lock. Returns the coverage of each wallet, by address."""
    while observer.run_tick(now) and observer.problem is None:
        now += 1000
    observer.run_tick(now + 1000)                         # the closing check follows what the first looks fetched
    return {wallet.address: orjson.loads(wallet.coverage) for wallet in Wallet.select().where(Wallet.coverage.is_null(False))}


def rebuild(observer, wallets, now):
    """Derive everything of these wallets again from the stored receipts: [(address, entries that changed, trades that changed), ...]."""
    report = []
    for wallet in wallets:
        entries = read_entries_again(wallet, observer.programs)
        before = dict(Trade.select(Trade.signature, Trade.digest).where(Trade.wallet == wallet.id).tuples())
        observer.books.forget(wallet.id)
        observer.books.take(wallet)
        observer.books.publish(wallet, None, now)
        after = dict(Trade.select(Trade.signature, Trade.digest).where(Trade.wallet == wallet.id).tuples())
        report.append((wallet.address, entries, sum(before.get(s) != after.get(s) for s in before.keys() | after.keys())))
    return report
