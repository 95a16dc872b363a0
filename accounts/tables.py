"""Tables of hooks, reports and bans, and of the operator. Units as in models.py."""

from peewee import (
    SQL,
    AutoField,
    BigIntegerField,
    BooleanField,
    Check,
    ForeignKeyField,
    IntegerField,
    TextField,
)

from models import Base, Owner, Post
from paper.tables import PaperPost
from storage.triggers import refuse_changes


class Hook(Base):
    """An address that is told what the bots of an owner do, or of all owners where it has none: it
    comes from the operator's settings. What remains to be told stands in Arrival: a hook keeps the
    last one that was delivered to it, so nothing is stored twice.

    `kind`: webhook | discord | slack | telegram | ntfy, and without an owner apprise;
    `url` (of apprise a digest) and `secret` (of a webhook alone) are shown once. `events`: words of
    accounts.hooks.EVENTS, `bots`: uids, or empty for all of the owner's; both JSON lists. `state`:
    waiting (for the answer to a first ping) | active | paused | off (by the operator).
    """

    id = AutoField()
    uid = TextField(unique=True)
    owner = ForeignKeyField(Owner, null=True, backref="hooks")
    owner_id: int | None
    kind = TextField()
    url = TextField()
    secret = TextField(null=True)
    events = TextField()
    bots = TextField(default="[]")
    state = TextField()
    delivered = BigIntegerField()
    # A ping is asked for; failures in a row, the first of them, when it is tried again.
    ping = BooleanField(default=False)
    failures = IntegerField(default=0)
    failing_since = BigIntegerField(null=True)
    due_at = BigIntegerField(default=0)
    delivered_at = BigIntegerField(null=True)
    # A sentence of ours, never the receiver's words.
    last_error = TextField(null=True)
    created_at = BigIntegerField()


Owner.add_index(
    Owner.index(Owner.posts_bytes, where=SQL("posts_bytes >= 1000000"), name="owner_of_many_posts")
)


class AdminLogin(Base):
    """A link that lets the operator in once. Its row goes when it is used, or later once it ended.

    `hash` is of the code in the link, which is stored nowhere.
    """

    id = AutoField()
    hash = TextField(unique=True)
    created_at = BigIntegerField()
    ends_at = BigIntegerField()


class AdminSession(Base):
    """A browser of the operator: its cookie has a random text, this table the hash; deleting the
    row logs it out.
    """

    id = AutoField()
    uid = TextField(unique=True)
    hash = TextField(unique=True)
    created_at = BigIntegerField()
    ends_at = BigIntegerField()


class AdminAct(Base):
    """What the operator did. Rows are only ever added: triggers refuse to change or delete one.

    `who`: `command line`, or the uid of a session; `what`: a word of accounts.acts.ACTS; `target`:
    the public id of what it was done to, or the name of a file; `reason`: as it was typed.
    """

    id = AutoField()
    at = BigIntegerField()
    who = TextField()
    what = TextField()
    target = TextField(null=True)
    reason = TextField(null=True)


STATEMENTS = refuse_changes("admin_act", "what the operator did is kept as it was written")


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


TABLES = (Hook, AdminLogin, AdminSession, AdminAct, Report, Ban)
