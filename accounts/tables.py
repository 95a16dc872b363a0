"""Tables for webhooks, registrations, reports, bans and the operator. Units are as in models.py."""

from peewee import (
    SQL,
    BigIntegerField,
    BooleanField,
    Check,
    CompositeKey,
    ForeignKeyField,
    IntegerField,
    TextField,
)

from models import Base, Bot, Owner, Post
from paper.tables import PaperPost

# ---- triggers ------------------------------------------------------------------------------------
APPEND_ONLY = "the audit log is append-only"
STATEMENTS = {
    "sqlite": [
        f"CREATE TRIGGER admin_act_{name} BEFORE {event} ON admin_act"
        f" BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY}'); END"
        for name, event in (("changed", "UPDATE"), ("removed", "DELETE"))
    ],
    "postgresql": [
        "CREATE FUNCTION keep_admin_act() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{APPEND_ONLY}'; END $$",
        "CREATE TRIGGER admin_act_kept BEFORE UPDATE OR DELETE ON admin_act"
        " FOR EACH ROW EXECUTE FUNCTION keep_admin_act()",
    ],
}


# ---- tables --------------------------------------------------------------------------------------
class Hook(Base):
    """A destination for events of an owner's bots, or of all bots if there is no owner.

    Pending events aren't stored per hook. Instead, `delivered` is the id of the last Arrival that
    was delivered. `kind`: one of accounts.hooks.HOSTS, or apprise without an owner (from the
    operator's settings). `url` (a digest for apprise) and `secret` (webhooks only) are
    shown once. `events` and `bots` are JSON lists: words of accounts.hooks.EVENTS, and uids, which
    are empty for all of the owner's bots. `state`: waiting (for the response to a first ping) |
    active | paused | off (by the operator).
    """

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
    # Whether a ping is due, consecutive failures, the time of the first one, and the next try.
    ping = BooleanField(default=False)
    failures = IntegerField(default=0)
    failing_since = BigIntegerField(null=True)
    due_at = BigIntegerField(default=0)
    delivered_at = BigIntegerField(null=True)
    # Our own wording, never the receiver's.
    last_error = TextField(null=True)
    created_at = BigIntegerField()


Owner.add_index(
    Owner.index(Owner.posts_bytes, where=SQL("posts_bytes >= 1000000"), name="owner_of_many_posts")
)


class Registration(Base):
    """A bot that an agent registered. Its account has no owner until `claimed_at`.

    `account` is the one that the registration created, even if the bot has moved to another account
    since. `source` is a keyed hash of the network it came from, which is emptied when the account
    is deleted. `nonce_at` is when the latest registration's nonce was issued. Older ones are used
    up. `claim_hash` is the hash of the claim link's code, or null once it was used.
    """

    bot = ForeignKeyField(Bot, unique=True, backref="registrations")
    account = ForeignKeyField(Owner, index=False)
    account_id: int
    wallet = TextField(unique=True)
    source = TextField(index=True)
    nonce_at = BigIntegerField()
    created_at = BigIntegerField()
    claim_hash = TextField(null=True, unique=True)
    claim_ends_at = BigIntegerField(null=True)
    claimed_at = BigIntegerField(null=True)


class AdminLogin(Base):
    """A sign-in link for the operator, deleted when it is used or after it expires.

    `hash` is the hash of the link's code, which isn't stored.
    """

    hash = TextField(unique=True)
    created_at = BigIntegerField()
    ends_at = BigIntegerField()


class AdminSession(Base):
    """An operator's browser session. Deleting the row signs the browser out.

    The cookie contains a random token, and this table its hash.
    """

    uid = TextField(unique=True)
    hash = TextField(unique=True)
    created_at = BigIntegerField()
    ends_at = BigIntegerField()


class AdminAct(Base):
    """The operator's audit log. Triggers reject updates and deletes.

    `who` is `command line`, or a session's uid. `what` is a word of accounts.acts.ACTS. `target` is
    a public id or a file name. `reason` is as typed.
    """

    at = BigIntegerField()
    who = TextField()
    what = TextField()
    target = TextField(null=True)
    reason = TextField(null=True)


class Report(Base):
    """A reader's report of a bot's or paper trader's post. Nothing about the reader is stored.

    `about` is a word of accounts.conduct.ABOUT. `dismissed_at` is when the operator dismissed it.
    """

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
        found: Post | PaperPost | None = self.post or self.paper_post
        assert found is not None
        return found


class Ban(Base):
    """A banned owner or wallet. Lifting the ban deletes the row.

    `kind`: owner | wallet. `target`: the owner's public id, or the wallet's address. `reason`: as
    typed, shown to the operator and the banned owner.
    """

    kind = TextField()
    target = TextField()
    reason = TextField()
    at = BigIntegerField()

    class Meta:
        indexes = ((("kind", "target"), True),)


class Season(Base):
    """A contest of bots from one full hour to another (ms), by the terms of accounts.seasons.

    `money` is as in RunningTotal. `closing_at` is when the job first noticed that the season was
    over. `rules` are the rules for reading transactions when it was frozen.
    """

    uid = TextField(unique=True)
    name = TextField()
    rule = TextField()
    money = TextField()
    symbol = TextField()
    decimals = IntegerField()
    wallets = TextField()
    min_sales = IntegerField()
    starts_at = BigIntegerField()
    ends_at = BigIntegerField()
    created_at = BigIntegerField()
    cancelled_at = BigIntegerField(null=True)
    closing_at = BigIntegerField(null=True)
    frozen_at = BigIntegerField(null=True)
    rules = TextField(null=True)


class SeasonEntry(Base):
    """A bot that joined a season (`joined_at`), and every bot once standings are frozen.

    The other columns are as in accounts.seasons.SeasonRow. They are null until the bot's history
    covers the season. `rank` is null until the freeze.
    """

    season = ForeignKeyField(Season, index=False)
    bot = ForeignKeyField(Bot)
    joined_at = BigIntegerField(null=True)
    since = BigIntegerField(null=True)
    ownership = TextField(null=True)
    reason = TextField(null=True)
    rank = IntegerField(null=True)
    realized = BigIntegerField(null=True)
    cost = BigIntegerField(null=True)
    return_points = BigIntegerField(null=True)
    worst_case = BigIntegerField(null=True)
    sales = IntegerField(null=True)
    trades = IntegerField(null=True)

    class Meta:
        table_name = "season_entry"
        primary_key = CompositeKey("season", "bot")


TABLES = (
    *(Hook, Registration, AdminLogin, AdminSession, AdminAct, Report, Ban),
    *(Season, SeasonEntry),
)
