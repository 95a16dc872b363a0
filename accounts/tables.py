"""Tables of what owners have beside bots and keys. Units as in models.py."""

from peewee import (
    SQL,
    AutoField,
    BigIntegerField,
    BooleanField,
    ForeignKeyField,
    IntegerField,
    TextField,
)

from models import Base, Owner


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
TABLES = (Hook,)
