"""The balances that nodes tell, against those that the ledger leads to."""

import functools
import math
from itertools import groupby

import storage
from chain.answers import (
    check_decimals,
    check_holdings,
    check_time,
)
from chain.instructions import WRAPPED_SOL
from chain.rpc import Resting, RpcError
from chain.store import (
    read_untouched,
)
from models import Address, Post, Wallet, WalletSignature
from observing.entries import list_addresses, store_holding
from observing.state import FINALIZED, MAX_SLEEP
from observing.trouble import Troubles
from storage import in_parts

# seconds
RECHECK_EVERY = 60.0
# wallets: one call asks for the balances of so many, so up to that number none sleeps
MAX_AWAKE = 100
ACCOUNTS_A_CALL = 100


class Balances(Troubles):
    """Compares the balances that nodes tell with the ledger, a hundred accounts a call."""

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

    def _rest(self, wallet, now):
        """Seconds for which its own head need not be listed: 0 where it trades or a post waits,
        some looks where nothing has moved for an hour, more after a day.
        """
        last, interval = (
            self.ledger_store.last_time(wallet.id),
            self.config.observer_interval_seconds,
        )
        idle = now / 1000 - last if last else 0
        if (
            wallet.trouble
            or idle < 3600
            or Post.select().where(Post.wallet == wallet.id, Post.status == "pending").exists()
        ):
            return 0
        return min(interval * (1.5 if idle < 86_400 else 3.5), max(MAX_SLEEP, interval))

    def _pause(self, wallet, now):
        """Seconds until the next look: 0 unless there are more wallets than one call asks for."""
        return self._rest(wallet, now) if self._watched > MAX_AWAKE else 0

    def _is_open(self, wallet):
        """Did the ledger get ahead of the last comparison? Then another one closes them."""
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
        for (wallet, address), holding in zip(part, holdings, strict=True):
            watch = self._watches[wallet.id]
            watch.holdings[address], watch.compared_at = holding, self.clock()
            watch.asked[address] = watch.told_at = watch.compared_at
            if holding.executable:
                self._refuse_program(wallet)

    def _store_polls(self, wallets, now):
        """When a node last told of these wallets: at once, for the work after it may be long."""
        looked = [wallet for wallet in wallets if self._note_poll(wallet, now)]
        for part in in_parts([wallet.id for wallet in looked]):
            Wallet.update(looked_at=max(w.looked_at for w in looked)).where(
                Wallet.id.in_(part)
            ).execute()

    def _note_poll(self, wallet, now):
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

    def _count_misses(self, wallet):
        watch = self._watches[wallet.id]
        for address, verdict in self._verdicts(wallet).items():
            if watch.asked.get(address, -math.inf) < self._begun:
                continue
            watch.misses[address] = (
                0 if verdict else watch.misses.get(address, 0) + (verdict is False)
            )

    def _unexplained(self, wallet):
        """Addresses whose balance the ledger did not explain at two looks in a row."""
        return sorted(a for a, n in self._watches[wallet.id].misses.items() if n > 1)

    def _store_untouched(self, wallet):
        """Keep what accounts hold that no known receipt touched: it was there from the beginning.

        It stands in the ledger until a receipt touches the account, or the node says otherwise.
        """
        seen, stored = self._ledger(wallet).seen, read_untouched(wallet.id)
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
                store_holding(wallet, address, None, None)
            for address, holding in told.items():
                store_holding(wallet, address, holding, decimals[holding.mint])
        self._forget_wallet(wallet.id)

    def _find_decimals(self, wallet, mints):
        """{mint: decimals}: from the ledger, else from a node; without those it does not know."""
        known = self._ledger(wallet).decimals
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
