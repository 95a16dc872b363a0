"""Where the chain of balances breaks: scan again, and ask another node about what it says."""

from chain.receipts import parse_receipt
from chain.rpc import BadAnswer, Refused
from chain.store import (
    pack,
    unpack,
)
from models import Address, Receipt, Wallet, WalletSignature
from observing.balances import Balances
from observing.entries import reread_entries
from observing.fetching import Fetching
from observing.state import MAX_REPAIR_WAIT_MS, MIN_REPAIR_WAIT_MS, SLICE


class Repair(Fetching, Balances):
    """Looks for what is missing or forged around a gap, more rarely while that does not help."""

    def _trouble(self, wallet):
        """How much is wrong: breaks of the chain, and balances it does not lead to."""
        return len(self._ledger(wallet).gaps) + len(self._unexplained(wallet))

    def _repair(self, wallet, now):
        """Where something is wrong, walk everything again and recheck the receipts around it; ever
        more rarely while it does not help.

        Returns whether it was begun.
        """
        watch, ledger = self._watches[wallet.id], self._ledger(wallet)
        if not self._trouble(wallet):
            watch.repair_wait = MIN_REPAIR_WAIT_MS // 2
            return False
        if now < wallet.heal_at <= now + MAX_REPAIR_WAIT_MS:
            return False
        self.say(f"{wallet.address}: walking again, {self._trouble(wallet)} gaps")
        Address.update(walked_at=None).where(Address.wallet == wallet.id).execute()
        slots = [(gap.from_slot, gap.to_slot) for gap in ledger.gaps] + [
            (ledger.seen[a].slot,) for a in self._unexplained(wallet) if a in ledger.seen
        ]
        for around in slots[:SLICE]:
            self._recheck(wallet, around, now)
        watch.repair_wait = min(MAX_REPAIR_WAIT_MS, 2 * watch.repair_wait)
        Wallet.update(heal_at=now + watch.repair_wait).where(Wallet.id == wallet.id).execute()
        return True

    def _recheck(self, wallet, slots, now):
        """A node may have given a wrong receipt: ask another one, and take its answer where the
        ledger then holds better.
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
                # the gap stays, and is rechecked
                continue
            if receipt and receipt != parse_receipt(unpack(row.body)):
                before, old = self._trouble_now(wallet), (row.body, row.endpoint)
                self._replace_receipt(wallet, row, pack(raw), label, now)
                if self._trouble_now(wallet) >= before:
                    self._replace_receipt(wallet, row, *old, now)

    def _trouble_now(self, wallet):
        return len(self._ledger(wallet).gaps) + sum(
            verdict is False for verdict in self._verdicts(wallet).values()
        )

    def _replace_receipt(self, wallet, row, body, label, now):
        Receipt.update(body=body, endpoint=label, stored_at=now).where(
            Receipt.id == row.id
        ).execute()
        reread_entries(wallet, self.programs, [row.signature])
        self._forget_wallet(wallet.id)
        others = WalletSignature.select(WalletSignature.wallet).where(
            WalletSignature.signature == row.signature,
            WalletSignature.state == "stored",
            WalletSignature.wallet != wallet.id,
        )
        # whoever observes them reads them again
        Wallet.update(rules="").where(Wallet.id.in_(others)).execute()
