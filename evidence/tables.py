"""Tables of the append-only log, which storage.arrivals writes."""

from peewee import (
    BigIntegerField,
    BlobField,
    CompositeKey,
    ForeignKeyField,
    IntegerField,
    TextField,
)

from models import Base, Wallet


class Log(Base):
    """A log: its leaves are those from `first_leaf` to before the next log's. The last one grows.

    A restore opens another one. `key`: the verifier key of the key that it is signed with, null
    before the first start.
    """

    uid = TextField(unique=True)
    opened_at = BigIntegerField()
    first_leaf = BigIntegerField(unique=True)
    key = TextField(null=True)


class Leaf(Base):
    """An entry of the log: JSON, of which each byte counts. Ids have no gap, whatever the log."""

    id = BigIntegerField(primary_key=True)
    data = TextField()

    class Meta:
        table_name = "log_leaf"


class Node(Base):
    """The hash above a full tile: `place` counts within the log and the level, 1 and up."""

    log_id = BigIntegerField()
    level = IntegerField()
    place = BigIntegerField()
    hash = BlobField()

    class Meta:
        table_name = "log_node"
        primary_key = CompositeKey("log_id", "level", "place")


class Witnessed(Base):
    """Another instance whose log is watched: `key`, its verifier key, and `note`, its last
    checkpoint that was found consistent, with our cosignature. `trouble`: what was wrong since.
    """

    url = TextField(primary_key=True)
    key = TextField()
    note = TextField()
    checked_at = BigIntegerField()
    trouble = TextField(null=True)
    trouble_at = BigIntegerField(null=True)


class LoggedWallet(Base):
    """The leaf that last held a digest of a wallet's evidence."""

    wallet = ForeignKeyField(Wallet, primary_key=True)
    leaf_id = BigIntegerField()

    class Meta:
        table_name = "logged_wallet"


TABLES = (Log, Leaf, Node, Witnessed, LoggedWallet)
