"""Attribute a failed step to one wallet, which is postponed, or to all, which stops the pass."""

from collections.abc import Callable
from typing import Any

import orjson

import storage
from chain.ledger.coverage import Progress, add_trouble
from chain.ledger.ledger import Ledger
from chain.rpc import Resting, RpcError, Unavailable
from chain.stored.store import PendingLedger, show_coverage
from chain.stored.summary import read_coverage
from models import IS_PROGRAM, Wallet
from observing.state import MAX_SLEEP_SECONDS, State, log

# Initial delay after a failed step; doubles with each consecutive failure.
MIN_POSTPONE_SECONDS, MAX_POSTPONE_SECONDS = 1.0, 3600.0


class Attempts:
    """Runs steps, and postpones wallets whose steps fail, with backoff."""

    def __init__(self, state: State) -> None:
        self._state = state

    def attempt(self, step: Callable[..., Any], wallet: Wallet, *args: Any) -> Any:
        """Do one step for a wallet and return its result, or False if it failed.

        A step that a node refuses is postponed and the others continue; a bug in Candor postpones
        the whole wallet. Raises only errors that concern all wallets: no node answers, or the
        database fails.
        """
        self._state.show_life()
        name = step.__name__
        if wallet.id in self._state.skipped or self.is_postponed(wallet, name):
            return False
        try:
            done = step(wallet, *args)
        except RpcError as error:
            if self.is_common(error):
                raise
            return self._postpone_step(wallet, name, error)
        except Exception as error:
            # A bug in Candor: log its stack, and name it in the wallet's coverage and health.
            self._state.forget_wallet(wallet.id)
            if storage.is_busy(error):
                raise
            return self._postpone_wallet(wallet, error)
        self.note_done(wallet, name)
        return done

    def note_done(self, wallet: Wallet, name: str) -> None:
        """Clear the failure of this step, because it or an equivalent step succeeded."""
        self._state.watches[wallet.id].postponed.pop(name, None)

    def is_postponed(self, wallet: Wallet, name: str) -> bool:
        """Whether this step failed and its retry isn't due yet."""
        step = self._state.watches[wallet.id].postponed.get(name)
        return step is not None and self._state.clock() < step.until

    def is_common(self, error: RpcError) -> bool:
        """Whether a call failed because of the nodes, not the wallet: they are backing off or not
        responding.
        """
        return isinstance(error, Resting) or (
            isinstance(error, Unavailable) and not self._state.rpc.is_reachable()
        )

    def _postpone_step(self, wallet: Wallet, name: str, error: RpcError) -> bool:
        step = self._state.watches[wallet.id].postponed[name]
        step.postpone(self._state.clock(), MIN_POSTPONE_SECONDS, MAX_POSTPONE_SECONDS)
        if wallet.trouble != str(error):
            log.warning("wallet %s: %s", wallet.address, error)
        self._store_trouble(wallet, str(error))
        return False

    def _postpone_wallet(self, wallet: Wallet, error: Exception) -> bool:
        """Skip this wallet for the rest of the pass, and delay its next polls with backoff."""
        reason = f"internal error: {type(error).__name__}"
        if wallet.trouble != reason:
            log.error("wallet %s failed", wallet.address, exc_info=error)
        self._state.skipped.add(wallet.id)
        self._store_trouble(wallet, reason)
        seconds = min(MAX_SLEEP_SECONDS, MIN_POSTPONE_SECONDS * 2 ** min(wallet.trouble_tries, 12))
        due_at = self._state.now + int(1000 * seconds)
        Wallet.update(due_at=due_at).where(Wallet.id == wallet.id).execute()
        return False

    def _store_trouble(self, wallet: Wallet, reason: str) -> None:
        self._state.note_trouble(wallet.id)
        wallet.trouble, wallet.trouble_at = reason, wallet.trouble_at or self._state.now
        wallet.trouble_tries += 1
        stored = Wallet.select(Wallet.coverage).where(Wallet.id == wallet.id).scalar()
        if stored is None:
            coverage = show_coverage(wallet, PendingLedger(Ledger()), Progress(trouble=reason))
        else:
            coverage = {**read_coverage(stored), "note": add_trouble(None, reason)}
        _update_trouble(wallet, coverage=orjson.dumps(coverage).decode())

    def refuse_program(self, wallet: Wallet) -> None:
        """Stop observing this wallet: its address is a program."""
        self._state.skipped.add(wallet.id)
        self._state.note_trouble(wallet.id)
        wallet.trouble, wallet.trouble_at, wallet.trouble_tries = IS_PROGRAM, self._state.now, 1
        coverage = show_coverage(wallet, PendingLedger(Ledger()), Progress(program=True))
        _update_trouble(wallet, coverage=orjson.dumps(coverage).decode())

    def clear(self, wallet: Wallet) -> None:
        """Clear a wallet's trouble if no step failed in this pass and none is postponed."""
        postponed = self._state.watches[wallet.id].postponed
        if wallet.trouble is None or wallet.id in self._state.troubled or postponed:
            return
        wallet.trouble, wallet.trouble_at, wallet.trouble_tries = None, None, 0
        _update_trouble(wallet)


def _update_trouble(wallet: Wallet, **more: str) -> None:
    Wallet.update(
        trouble=wallet.trouble,
        trouble_at=wallet.trouble_at,
        trouble_tries=wallet.trouble_tries,
        **more,
    ).where(Wallet.id == wallet.id).execute()
