"""Tables of how people live together on an instance: reports and bans. Units as in models.py."""

from peewee import AutoField, BigIntegerField, Check, ForeignKeyField, TextField

from models import Base, Post
from paper.tables import PaperPost


class Report(Base):
    """A reader's report of a post, by a bot or by a paper trader. Of the reader nothing is stored.

    `about`: a word of accounts.conduct.ABOUT; `dismissed_at`: when the operator set it aside.
    """

    id = AutoField()
    uid = TextField(unique=True)
    post = ForeignKeyField(Post, null=True, backref="reports")
    paper_post = ForeignKeyField(PaperPost, null=True, backref="reports")
    about = TextField()
    note = TextField(default="")
    at = BigIntegerField()
    dismissed_at = BigIntegerField(null=True)

    class Meta:
        constraints = (Check("(post_id IS NULL) <> (paper_post_id IS NULL)"),)

    @property
    def reported(self) -> Post | PaperPost:
        """The post that it is about."""
        found: Post | PaperPost | None = self.post or self.paper_post
        assert found is not None
        return found


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
