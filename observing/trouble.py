"""Whose trouble a failed step is: one wallet's, which is put off alone, or everybody's."""

import orjson

import storage
from chain.coverage import Progress, add_trouble
from chain.ledger import Ledger
from chain.rpc import Resting, RpcError, Unavailable
from chain.store import (
    PendingLedger,
    show_coverage,
)
from models import IS_PROGRAM, Wallet
from observing.state import MAX_SLEEP, State, log

# Seconds a step that failed is put off, doubled with each failure in a row.
TROUBLE_FIRST, TROUBLE_LATEST = 1.0, 3600.0


class Troubles(State):
    """Attempts steps; a wallet whose step fails is put off for longer and longer."""

    def _attempt(self, work, wallet, *args):
        """Do one step for a wallet. What goes wrong there is that wallet's alone; then False.

        A step that a node refuses is put off and the others go on; a fault of ours puts off the
        whole wallet. Raised is only what is nobody's: that no node answers, or the database.
        """
        self._tell_life()
        step = self._watches[wallet.id].put_off.get(work.__name__)
        if wallet.id in self._left or (step and self.clock() < step.until):
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
            coverage = show_coverage(wallet, PendingLedger(Ledger()), Progress(trouble=reason))
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
        coverage = show_coverage(wallet, PendingLedger(Ledger()), Progress(program=True))
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
