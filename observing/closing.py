"""The last poll of a disconnected wallet, so that a loss in its last seconds counts too."""

import math
from typing import Any

from peewee import SQL

from chain.ledger.coverage import Progress
from chain.stored.attachments import HELD
from models import Wallet
from observing.balances import Balances
from observing.state import IN_WORK, State

# Give up the last poll of a wallet after this time; its coverage says so.
MAX_CLOSING_MS = 86_400_000


def is_held() -> Any:
    """SQL condition: a bot has the wallet."""
    return Wallet.id.in_(SQL(HELD))


def is_closing(now: int) -> Any:
    """SQL condition: the wallet was disconnected and its last poll is due. `now` in ms."""
    # A time further ahead was written while the clock was wrong.
    lately = Wallet.closing_at.between(now - MAX_CLOSING_MS, now + MAX_CLOSING_MS)
    # Poll a wallet that no pass finished once, however long the service was down, so that its
    # coverage shows how far observation got.
    return lately | (Wallet.closing_at.is_null(False) & (Wallet.due_at <= IN_WORK))


class Closing:
    """Stops polling a disconnected wallet once its activity up to that time was observed."""

    def __init__(self, state: State, balances: Balances) -> None:
        self._state, self._balances = state, balances

    def close(self, wallet: Wallet, progress: Progress) -> bool:
        """Stop polling a disconnected wallet if possible. Return whether it stopped. Raises
        RpcError.

        Node balances from a later block time must match its ledger, its own signatures must have
        been listed after that, and every listed transaction must be stored.
        """
        moment = wallet.closing_at
        if moment is None or not self._is_seen(wallet, progress):
            return False
        if not self._balances.is_after(wallet, moment):
            return False
        same = Wallet.id == wallet.id, Wallet.closing_at == moment
        Wallet.update(closing_at=None).where(*same).execute()
        wallet.closing_at = None
        return True

    def _is_seen(self, wallet: Wallet, progress: Progress) -> bool:
        state, watch = self._state, self._state.watches[wallet.id]
        listed_at = watch.listed_at.get(wallet.address, -math.inf)
        whole = wallet.backfilled and progress.closed and not progress.pending
        failed = wallet.id in state.troubled or watch.postponed.keys() - {"close"}
        return bool(whole and listed_at >= state.begun_at and not failed)
