"""Tables of the append-only log. storage.arrivals writes them."""

from peewee import BigIntegerField, BlobField, CompositeKey, IntegerField, TextField

from models import Base


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


TABLES = (Log, Leaf, Node, Witnessed)
