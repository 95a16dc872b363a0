"""Wallets shared out over several observers: who holds the lease of a wallet looks at it, and
nobody else writes what was seen.

Every process is a Watcher with a name of its own. Its leases hold while it is heard of: it says so
with each round and with whatever it writes. Once it was silent for too long, by the database's
clock, the others take its wallets over; what it still had on its way is refused.
"""

from peewee import OperationalError

from models import Attachment, Wallet, Watcher
from storage import database, in_parts, new_uid, writing

# seconds, beside two rounds
SILENCE = 20.0


class Share:
    """One process's share of the wallets; `seconds` between its rounds."""

    def __init__(self, seconds):
        self.name, self._lease = new_uid("watcher"), int(1000 * (2 * seconds + SILENCE))

    def renew(self):
        """Say that we are here, and hold as many wallets as is fair: their ids."""
        with writing():
            now = database.clock()
            Watcher.delete().where(Watcher.until <= now).execute()
            Watcher.insert(name=self.name, until=now + self._lease).on_conflict(
                conflict_target=[Watcher.name], update={"until": now + self._lease}
            ).execute()
            Wallet.update(watcher=None).where(
                Wallet.watcher.not_in(Watcher.select(Watcher.name))
            ).execute()
            return self._level(Watcher.select().count())

    def _level(self, watchers):
        """Take free wallets, or give up some, until we hold our part of them."""
        attached = [
            (ident, holder)
            for ident, holder in Wallet.select(Wallet.id, Wallet.watcher)
            .join(Attachment)
            .where(Attachment.detached_at.is_null())
            .order_by(Wallet.id)
            .tuples()
        ]
        fair = -(-len(attached) // watchers)
        mine, free = (
            [ident for ident, holder in attached if holder == name] for name in (self.name, None)
        )
        taken, given = free[: max(0, fair - len(mine))], mine[fair:]
        for watcher, wallets in ((self.name, taken), (None, given)):
            for part in in_parts(wallets):
                Wallet.update(watcher=watcher).where(Wallet.id.in_(part)).execute()
        return {*mine, *taken} - {*given}

    def check(self):
        """Raises OperationalError where our leases have ended; a renewal, where half their time is
        over. Inside the transaction they guard.
        """
        now = database.clock()
        until = Watcher.select(Watcher.until).where(Watcher.name == self.name).scalar()
        if until is None or until <= now:
            raise OperationalError("the leases of this observer have ended")
        if until - now < self._lease // 2:
            Watcher.update(until=now + self._lease).where(Watcher.name == self.name).execute()

    def leave(self):
        """Give everything up."""
        with writing():
            Wallet.update(watcher=None).where(Wallet.watcher == self.name).execute()
            Watcher.delete().where(Watcher.name == self.name).execute()
