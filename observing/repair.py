"""Repair breaks in the chain of balances: scan again, and get a second node's answer."""

from chain.reading.digests import digest_receipt
from chain.reading.packing import pack, read_stored
from chain.rpc import BadAnswer, Refused
from models import Address, Receipt, Wallet, WalletSignature
from observing.entries import reread_entries
from observing.fetching import Fetching
from observing.state import MAX_REPAIR_WAIT_MS, MIN_REPAIR_WAIT_MS, SLICE, State


class Repair:
    """Searches around a gap for missing or forged transactions, less and less often while it finds
    none.
    """

    def __init__(self, state: State, fetching: Fetching) -> None:
        self._state, self._fetching = state, fetching

    def repair(self, wallet: Wallet, now: int) -> bool:
        """If something is wrong, scan everything again and recheck the transactions around it.
        Return whether it started.
        """
        watch, ledger = self._state.watches[wallet.id], self._state.apply_entries(wallet)
        unexplained = self._state.list_unexplained(wallet)
        wrong = len(ledger.chain.gaps) + len(unexplained)
        if not wrong:
            watch.repair_wait_ms = MIN_REPAIR_WAIT_MS // 2
            return False
        # A due time beyond the longest delay was set while the clock was wrong.
        if now < wallet.repair_at <= now + MAX_REPAIR_WAIT_MS:
            return False
        self._state.report(f"{wallet.address}: scanning again, {wrong} gaps")
        Address.update(scanned_at=None).where(Address.wallet == wallet.id).execute()
        slots = [(gap.from_slot, gap.to_slot) for gap in ledger.chain.gaps]
        slots += [(ledger.chain.seen[a].slot,) * 2 for a in unexplained if a in ledger.chain.seen]
        for around in slots[:SLICE]:
            self._recheck(wallet, around, now)
        watch.repair_wait_ms = min(MAX_REPAIR_WAIT_MS, 2 * watch.repair_wait_ms)
        repair_at = now + watch.repair_wait_ms
        Wallet.update(repair_at=repair_at).where(Wallet.id == wallet.id).execute()
        return True

    def _recheck(self, wallet: Wallet, slots: tuple[int, int], now: int) -> None:
        """Request the transactions of two slots from another node, and keep its answer if the
        ledger then balances better: the first node may have been wrong.
        """
        rows = (
            Receipt.select()
            .join(WalletSignature, on=Receipt.signature == WalletSignature.signature)
            .where(WalletSignature.wallet == wallet.id, Receipt.slot.in_(slots))
        )
        for row in list(rows):
            try:
                answer = self._fetching.ask(row.signature, avoid=row.endpoint)
            except (BadAnswer, Refused):
                # The gap remains and will be rechecked.
                continue
            if answer.receipt and answer.receipt != read_stored(row.body, row.signature):
                before, new = self._count_wrong(wallet), digest_receipt(answer.receipt)
                self._replace_receipt(wallet, row, pack(answer.raw), answer.endpoint, new, now)
                if self._count_wrong(wallet) >= before:
                    self._replace_receipt(wallet, row, row.body, row.endpoint, row.digest, now)

    def _count_wrong(self, wallet: Wallet) -> int:
        """Count gaps, and balances unexplained at the last comparison."""
        gaps = self._state.apply_entries(wallet).chain.gaps
        checked = self._state.check_balances(wallet).values()
        return len(gaps) + sum(explained is False for explained in checked)

    def _replace_receipt(
        self, wallet: Wallet, row: Receipt, body: bytes, endpoint: str, digest: str, now: int
    ) -> None:
        Receipt.update(body=body, endpoint=endpoint, stored_at=now, digest=digest).where(
            Receipt.id == row.id
        ).execute()
        reread_entries(wallet, self._state.programs, [row.signature])
        self._state.forget_wallet(wallet.id)
        others = WalletSignature.select(WalletSignature.wallet).where(
            WalletSignature.signature == row.signature,
            WalletSignature.state == "stored",
            WalletSignature.wallet != wallet.id,
        )
        # The observer rereads their entries.
        Wallet.update(rules="").where(Wallet.id.in_(others)).execute()
