"""Tables of the append-only log, which storage.log writes."""

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
    """A log has the leaves from `first_leaf` up to the next log's first leaf. The last log grows.

    A restore opens a new log. `key` is the verifier key, or null before the first start.
    """

    uid = TextField(unique=True)
    opened_at = BigIntegerField()
    first_leaf = BigIntegerField(unique=True)
    key = TextField(null=True)


class Leaf(Base):
    """The exact bytes of a leaf's JSON. IDs don't have gaps, even across logs."""

    id = BigIntegerField(primary_key=True)
    data = TextField()

    class Meta:
        table_name = "log_leaf"


class Node(Base):
    """The hash above a full tile. `place` counts within the log and level (from 1)."""

    log_id = BigIntegerField()
    level = IntegerField()
    place = BigIntegerField()
    hash = BlobField()

    class Meta:
        table_name = "log_node"
        primary_key = CompositeKey("log_id", "level", "place")


class Witnessed(Base):
    """Another instance whose log is watched.

    `key` is its verifier key. `note` is its last consistent checkpoint with our cosignature.
    `trouble` is what went wrong since.
    """

    url = TextField(primary_key=True)
    key = TextField()
    note = TextField()
    checked_at = BigIntegerField()
    trouble = TextField(null=True)
    trouble_at = BigIntegerField(null=True)


class LoggedWallet(Base):
    wallet = ForeignKeyField(Wallet, primary_key=True)
    leaf_id = BigIntegerField()

    class Meta:
        table_name = "logged_wallet"


TABLES = (Log, Leaf, Node, Witnessed, LoggedWallet)
