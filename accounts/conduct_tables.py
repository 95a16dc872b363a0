"""Tables of how people live together on an instance: reports and bans. Units as in models.py."""

from peewee import AutoField, BigIntegerField, ForeignKeyField, TextField

from models import Base, Post


class Report(Base):
    """A reader's report of a post. Of the reader nothing is stored.

    `about`: a word of accounts.conduct.ABOUT; `dismissed_at`: when the operator set it aside.
    """

    id = AutoField()
    uid = TextField(unique=True)
    post = ForeignKeyField(Post, backref="reports")
    about = TextField()
    note = TextField(default="")
    at = BigIntegerField()
    dismissed_at = BigIntegerField(null=True)


class Ban(Base):
    """An owner or a wallet that the operator keeps out; lifting the ban deletes the row.

    `kind`: owner | wallet; `target`: the owner's public id, or the wallet's address; `reason`: as
    it was typed, for the operator and for who is banned.
    """

    id = AutoField()
    kind = TextField()
    target = TextField()
    reason = TextField()
    at = BigIntegerField()

    class Meta:
        indexes = ((("kind", "target"), True),)


TABLES = (Report, Ban)
