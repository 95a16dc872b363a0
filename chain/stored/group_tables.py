"""Which wallets bots hold beside the one that leads, and what follows for each of them."""

from peewee import SQL, AutoField, BigIntegerField, ForeignKeyField, TextField

from models import Base, Bot, Wallet


class Companion(Base):
    """A wallet that a bot held beside the one it was attached to (Attachment), proven, from when to
    when (ms). At most one open row per wallet, and none for one with an open attachment. Each falls
    into one attachment of its bot: where another wallet leads, a new row begins.

    Derived, null before the first publication: known cost (lamports) of what it held when it came,
    and of what it took along when it went.
    """

    id = AutoField()
    bot = ForeignKeyField(Bot, backref="companions")
    bot_id: int
    wallet = ForeignKeyField(Wallet, backref="companions")
    wallet_id: int
    attached_at = BigIntegerField()
    detached_at = BigIntegerField(null=True)
    carried_in = BigIntegerField(null=True)
    open_cost = BigIntegerField(null=True)
    # As of an Attachment; here none is merely claimed.
    ownership = "proven"


Companion.add_index(
    Companion.index(
        Companion.wallet,
        unique=True,
        where=SQL("detached_at IS NULL"),
        name="companion_open_wallet",
    )
)
Companion.add_index(
    Companion.index(
        Companion.detached_at, where=SQL("detached_at IS NOT NULL"), name="companion_given_up"
    )
)


class OwnCoverage(Base):
    """The coverage of a wallet alone, where Wallet.coverage is that of its group. JSON."""

    wallet = ForeignKeyField(Wallet, primary_key=True)
    wallet_id: int
    coverage = TextField()


TABLES = (Companion, OwnCoverage)
