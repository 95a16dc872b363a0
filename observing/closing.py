"""The last poll at a wallet that was given up: a loss of its last seconds counts, too."""

import math
from typing import Any

from peewee import SQL

from chain.ledger.coverage import Progress
from chain.stored.attachments import HELD
from models import Wallet
from observing.balances import Balances
from observing.state import IN_WORK, State

# A wallet whose last poll comes to no end in this time is left alone; its coverage says so.
MAX_CLOSING_MS = 86_400_000


def is_held() -> Any:
    """Condition: a bot holds the wallet."""
    return Wallet.id.in_(SQL(HELD))


def is_closing(now: int) -> Any:
    """Condition: the wallet was given up and is due for its last poll; `now` in ms."""
    # What was given up further ahead was given up by a clock that ran wrong.
    lately = Wallet.closing_at.between(now - MAX_CLOSING_MS, now + MAX_CLOSING_MS)
    # However long this service stood still: what is due since no pass ended with the wallet is
    # polled once, so that its coverage tells of it.
    return lately | (Wallet.closing_at.is_null(False) & (Wallet.due_at <= IN_WORK))


class Closing:
    """Lets wallets rest once all that happened before they were given up was seen."""

    def __init__(self, state: State, balances: Balances) -> None:
        self._state, self._balances = state, balances

    def close(self, wallet: Wallet, progress: Progress) -> bool:
        """Let a wallet rest that was given up; return whether it does. Raises RpcError.

        The nodes' balances of a later moment, by the chain's clock, are to be those of its ledger,
        its own head is to be listed after them, and whatever was listed is to be stored.
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
