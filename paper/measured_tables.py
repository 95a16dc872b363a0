"""Tables of what real swaps told about the fill model."""

from peewee import AutoField, BigIntegerField, IntegerField, TextField

from models import Base


class RealFill(Base):
    """A swap of an observed wallet beside what the model said of it. Rows are never changed."""

    id = AutoField()
    # Of the trade.
    uid = TextField(unique=True)
    at = BigIntegerField()
    # The provider's id.
    venue = TextField()
    # buy | sell
    side = TextField()
    mint = TextField()
    # What passed through the venue.
    lamports = BigIntegerField()
    # Raw units of a purchase, lamports of a sale.
    predicted = TextField()
    real = TextField()
    # By how much less it got than predicted.
    bps = IntegerField()
    # Id of the snapshot before it, and how old that was.
    snapshot = BigIntegerField()
    age_ms = BigIntegerField()
    model = TextField()

    class Meta:
        indexes = ((("venue", "at"), False),)


class NetworkCost(Base):
    """What swaps of observed wallets paid the network, worked out once a day. Lamports; rows are
    never changed.
    """

    id = AutoField()
    at = BigIntegerField()
    p50 = BigIntegerField()
    p75 = BigIntegerField()
    p90 = BigIntegerField()
    # Middle of what new token accounts held; null where none was opened.
    rent = BigIntegerField(null=True)
    receipts = IntegerField()
    since = BigIntegerField()


TABLES = (RealFill, NetworkCost)
