"""Tables and constraints.

Units: `*_at` are UTC milliseconds, `block_time` is UTC seconds as the chain gives it, lamports are
integers (they fit a signed 64-bit column); raw token amounts are u64 and do not, so they are
decimal text inside JSON or zero-padded text columns. JSON columns hold text made by `orjson`; who
writes a column names its shape beside the field.
"""

from peewee import (
    SQL,
    AutoField,
    BigIntegerField,
    BlobField,
    BooleanField,
    CompositeKey,
    ForeignKeyField,
    IntegerField,
    Model,
    TextField,
    chunked,
)

from storage import ROWS_A_STATEMENT, database


class Base(Model):
    class Meta:
        database = database
        legacy_table_names = False
        strict_tables = True


# ---- people, personas, keys ----------------------------------------------------------------------
class Owner(Base):
    id = AutoField()
    uid = TextField(unique=True)
    # SHA-256 of the recovery code
    recovery_hash = TextField(null=True, unique=True)
    created_at = BigIntegerField()
    # what its posts take, as accounts.posts.measure_post says
    posts_bytes = BigIntegerField(default=0)


class Bot(Base):
    """An influencer of wallet mode."""

    id = AutoField()
    uid = TextField(unique=True)
    owner = ForeignKeyField(Owner, backref="bots")
    # lower case, derived from the name
    handle = TextField(unique=True)
    name = TextField()
    # What it shares with names that look like it; see web.names.
    likeness = TextField(default="", index=True)
    bio = TextField(default="")
    # JSON {tone, style[], adjectives[], topics[], catchphrases[], emoji}
    voice = TextField()
    avatar_url = TextField(null=True)
    auto_post = BooleanField(default=False)
    # only trades that happened later are posted
    auto_post_since = BigIntegerField(null=True)
    created_at = BigIntegerField()
    retired_at = BigIntegerField(null=True)


class Key(Base):
    """An API key: only its hash is kept. A publishing key (scope `publish`) is bound to one bot."""

    id = AutoField()
    uid = TextField(unique=True)
    owner = ForeignKeyField(Owner, backref="keys")
    bot = ForeignKeyField(Bot, null=True, backref="keys")
    # read | publish
    scope = TextField()
    name = TextField(default="")
    # cnd_read_ | cnd_pub_
    prefix = TextField()
    last4 = TextField()
    # SHA-256, hex
    hash = TextField(unique=True)
    created_at = BigIntegerField()
    expires_at = BigIntegerField(null=True)
    # Of the first edition: later uses are kept where requests are counted (ratelimit.Allowance),
    # which changes no list.
    last_used_at = BigIntegerField(null=True)
    revoked_at = BigIntegerField(null=True)


class Session(Base):
    """A creator's browser. The signed cookie carries a random id, this table its hash: a row that
    is gone has ended.
    """

    id = AutoField()
    owner = ForeignKeyField(Owner, backref="sessions")
    # SHA-256, hex
    hash = TextField(unique=True)
    created_at = BigIntegerField()
    # coarse: written at most once an hour
    seen_at = BigIntegerField()
    # JSON {text, bot, wallet, endsAt} of a proof under way; works once
    challenge = TextField(null=True)


# ---- what is watched -----------------------------------------------------------------------------
class Wallet(Base):
    """A public address that is or was observed, and what observation made of it. The five columns
    before the last are derived by the fold.
    """

    id = AutoField()
    address = TextField(unique=True)
    # Who holds it now, else who held it last. See BOT_OF_TRADE for whose its trades are.
    bot = ForeignKeyField(Bot, backref="wallets")
    # Where `bot` merely claimed it after another had proven it: that other, and since when (ms)
    # trades are `bot`'s. Else both null, and all trades are `bot`'s.
    prover = ForeignKeyField(Bot, null=True, backref="proven_wallets")
    bot_since = BigIntegerField(null=True)
    created_at = BigIntegerField()
    # when a node last told of it, and when the next look is due
    looked_at = BigIntegerField(null=True)
    due_at = BigIntegerField(default=0)
    # when its token accounts were last listed
    accounts_at = BigIntegerField(null=True)
    # every address was walked to its end at least once
    whole = BooleanField(default=False)
    # not before: walk and fetch again around a gap
    heal_at = BigIntegerField(default=0)
    # of the program table its entries were read with
    rules = TextField(default="")
    # block time up to which the node's view was seen
    observed_to = BigIntegerField(null=True)
    # JSON, the Coverage object of the interface
    coverage = TextField(null=True)
    # JSON, the results object of Bot
    results = TextField(null=True)
    # JSON, the openPositions list of Bot
    positions = TextField(null=True)
    # ms; buys, sells and swaps
    last_trade_at = BigIntegerField(null=True)
    # lamports; the leaderboard sorts by it
    realized = BigIntegerField(null=True)
    # Why observing it fails now (a sentence; null: it does not), since when, how often in a row.
    trouble = TextField(null=True)
    trouble_at = BigIntegerField(null=True)
    trouble_tries = IntegerField(default=0)
    # How many token accounts the last list of them named beyond MAX_ADDRESSES_PER_WALLET.
    accounts_left_out = IntegerField(default=0)


# Whose a trade `t` of a wallet `w` is, as SQL: the one place that decides. What a bot had proven
# stays with it until another proof; a trade without a block time is not given to a claim.
BOT_OF_TRADE = """CASE WHEN w.bot_since IS NULL OR t.block_time * 1000 >= w.bot_since THEN w.bot_id
                  ELSE w.prover_id END"""


class Attachment(Base):
    """Which bot held which wallet from when to when. At most one open row per wallet and per bot."""

    id = AutoField()
    bot = ForeignKeyField(Bot, backref="attachments")
    wallet = ForeignKeyField(Wallet, backref="attachments")
    # claimed | proven
    ownership = TextField(default="claimed")
    attached_at = BigIntegerField()
    detached_at = BigIntegerField(null=True)

    class Meta:
        indexes = ()


Attachment.add_index(
    Attachment.index(
        Attachment.wallet,
        unique=True,
        where=SQL("detached_at IS NULL"),
        name="attachment_open_wallet",
    )
)
Attachment.add_index(
    Attachment.index(
        Attachment.bot, unique=True, where=SQL("detached_at IS NULL"), name="attachment_open_bot"
    )
)


class Address(Base):
    """One watched address of a wallet: itself or a token account it ever owned. The coverage ledger
    of accounting.md section 4.
    """

    id = AutoField()
    wallet = ForeignKeyField(Wallet, backref="addresses")
    address = TextField()
    # everything listed up to here has been seen at least once
    head_slot = BigIntegerField(null=True)
    # full walks ended so far
    walks = IntegerField(default=0)
    # what the last full walk listed that was not known
    walk_new = IntegerField(null=True)
    walked_at = BigIntegerField(null=True)
    # JSON of a full walk under way, so that a restart goes on
    walk_cursor = TextField(null=True)
    # label of the endpoint that served the last walk
    endpoint = TextField(null=True)

    class Meta:
        indexes = ((("wallet", "address"), True), (("address",), False))


class Receipt(Base):
    """A finalized receipt as the node gave it (zlib of the JSON), stored once for all wallets it
    names.
    """

    id = AutoField()
    signature = TextField(unique=True)
    slot = BigIntegerField()
    # place in the block
    tx_index = IntegerField(null=True)
    block_time = BigIntegerField(null=True)
    body = BlobField()
    endpoint = TextField()
    stored_at = BigIntegerField()


class WalletSignature(Base):
    """A signature listed for a wallet. `pending` until its receipt is stored; `refused` says why it
    could not be taken in.
    """

    id = AutoField()
    wallet = ForeignKeyField(Wallet, backref="sightings", index=False)
    signature = TextField()
    slot = BigIntegerField()
    tx_index = IntegerField(null=True)
    # arrived after the first walk: fetched before the back-fill
    head = BooleanField(default=False)
    # pending | stored
    state = TextField(default="pending")
    # JSON of chain.entries.Entry, once stored
    entry = TextField(null=True)
    tries = IntegerField(default=0)
    due_at = BigIntegerField(default=0)
    problem = TextField(null=True)
    seen_at = BigIntegerField()

    class Meta:
        # The name it had in the first edition.
        table_name = "sighting"
        indexes = (
            (("wallet", "signature"), True),
            (("wallet", "state", "due_at"), False),
            (("signature",), False),
        )


# ---- what was derived ----------------------------------------------------------------------------
class Trade(Base):
    """One receipt as it concerns one wallet. Derived: `rebuild` makes the same rows from the stored
    receipts.
    """

    # order of arrival: followers page by it
    id = AutoField()
    # from wallet and signature: survives every refold
    uid = TextField(unique=True)
    wallet = ForeignKeyField(Wallet, backref="trades", index=False)
    signature = TextField()
    slot = BigIntegerField()
    tx_index = IntegerField(null=True)
    # sorts inside a slot: tx_index, or 0
    place = IntegerField(default=0)
    block_time = BigIntegerField(null=True)
    kind = TextField()
    venue = TextField(null=True)
    mint = TextField(null=True)
    # JSON [[mint, raw change, decimals]...], by mint
    token_changes = TextField()
    # lamports
    sol_change = BigIntegerField()
    fee = BigIntegerField()
    tip = BigIntegerField()
    rent = BigIntegerField()
    # matched | partial | unmatched | not_applicable
    realized = TextField()
    result = BigIntegerField(null=True)
    proceeds = BigIntegerField(null=True)
    cost = BigIntegerField(null=True)
    matched_raw = TextField()
    unmatched_raw = TextField()
    # JSON [[trade uid or null, raw amount, lamports or null]...]
    lots = TextField()
    # JSON list of words, sorted
    flags = TextField()
    # of all derived columns: a refold writes only what differs
    digest = TextField()

    class Meta:
        indexes = (
            (("wallet", "signature"), True),
            (("slot", "place", "id"), False),
            (("wallet", "slot", "place", "id"), False),
            (("kind", "block_time"), False),
            (("wallet", "id"), False),
        )


class TradeMint(Base):
    """Which tokens a trade moved: the filter by mint and the activity of a token read this."""

    id = AutoField()
    trade = ForeignKeyField(Trade, backref="mints", on_delete="CASCADE")
    # the trade's own
    wallet = ForeignKeyField(Wallet, index=False)
    mint = TextField()
    # buy | sell, for buys, sells and swaps
    side = TextField(null=True)
    slot = BigIntegerField()
    place = IntegerField(default=0)

    class Meta:
        indexes = (
            (("mint", "slot", "place", "trade", "side"), False),
            (("wallet", "mint", "slot", "place", "trade"), False),
            (("mint", "side", "wallet"), False),
            (("mint", "trade"), False),
            (("wallet", "mint", "trade"), False),
        )


class HourTotal(Base):
    """A wallet's running totals at the end of each hour in which something was booked: what a span
    of time saw is a difference of two. Derived.
    """

    wallet = ForeignKeyField(Wallet, index=False)
    # since 1970; never before that of the receipt before
    hour = IntegerField()
    # lamports, as volume
    realized = BigIntegerField()
    volume = BigIntegerField()
    trades = IntegerField()
    matched = IntegerField()
    partial = IntegerField()
    unmatched = IntegerField()
    winning = IntegerField()

    class Meta:
        primary_key = CompositeKey("wallet", "hour")


class Post(Base):
    """What an influencer said. The words stay as they were; only `status` and what belongs to it
    moves, by observation alone.
    """

    id = AutoField()
    uid = TextField(unique=True)
    bot = ForeignKeyField(Bot, backref="posts")
    # bot | observer
    source = TextField()
    # api | studio | observer
    channel = TextField()
    key = ForeignKeyField(Key, null=True)
    event_id = TextField()
    body = TextField()
    mint = TextField(null=True)
    symbol = TextField(null=True)
    signature = TextField(null=True)
    reason = TextField(null=True)
    sanitized = BooleanField(default=False)
    # the wallet it is judged against, for ever
    wallet = ForeignKeyField(Wallet, null=True)
    # none | pending | verified | mismatch | not_found
    status = TextField(default="none")
    status_reason = TextField(null=True)
    trade = ForeignKeyField(Trade, null=True, on_delete="SET NULL")
    checked_at = BigIntegerField(null=True)
    event_at = BigIntegerField()
    created_at = BigIntegerField()
    hidden_at = BigIntegerField(null=True)
    # SHA-256 of what a retry is compared with, once the words are gone
    hidden_hash = TextField(null=True)

    class Meta:
        indexes = (
            (("bot", "source", "event_id"), True),
            (("bot", "id"), False),
            (("wallet", "status"), False),
            (("mint", "id"), False),
            (("source", "id"), False),
            (("mint", "source", "id"), False),
        )


class Arrival(Base):
    """What followers are told, in the order it became true here: a post, a trade, a post whose
    verification moved.

    A row is written in the transaction of what it tells and stays for ever, so that no id is used
    twice; a follower's cursor is one of them. There is one writer at a time, on every engine: so
    ids appear in their order.
    """

    id = AutoField()
    # post | trade | verification | restore (nothing to tell, but numbers begin anew above it)
    kind = TextField()
    post = ForeignKeyField(Post, null=True)
    # null: a refold took the trade back
    trade = ForeignKeyField(Trade, null=True, on_delete="SET NULL")

    class Meta:
        indexes = ((("kind", "id"), False),)


Arrival.add_index(
    Arrival.index(
        Arrival.id, Arrival.trade, where=SQL("trade_id IS NOT NULL"), name="arrival_of_trade"
    )
)


# ---- the market ----------------------------------------------------------------------------------
class Quote(Base):
    """What a provider said about a token at one moment. Amounts are exact decimal text, null where
    it said nothing.
    """

    # dexscreener | geckoterminal
    source = TextField(null=True)
    # DexScreener: only of pairs quoted in SOL
    price_sol = TextField(null=True)
    price_usd = TextField(null=True)
    liquidity_usd = TextField(null=True)
    # the SOL side of the pool, in SOL
    pool_sol = TextField(null=True)
    volume24h_usd = TextField(null=True)
    # why not to believe the price: not_positive | jump
    absurd = TextField(null=True)


class Token(Quote):
    """A mint that was discovered or that an observed wallet moved, with its last quote. Symbol and
    name are hostile text.
    """

    id = AutoField()
    mint = TextField(unique=True)
    symbol = TextField(null=True)
    name = TextField(null=True)
    decimals = IntegerField(null=True)
    # dexscreener | geckoterminal | wallets; null: known only because a trade moved it
    found_by = TextField(null=True)
    discovered_at = BigIntegerField(null=True)
    # priced and listed since then; null: not any more, or never
    tracked_at = BigIntegerField(null=True)
    # a paper position is open in it: it stays tracked
    held = BooleanField(default=False)
    # when a price provider was last asked about it
    asked_at = BigIntegerField(default=0)
    # when the quote above was taken
    quoted_at = BigIntegerField(null=True)
    pair_url = TextField(null=True)
    pair_created_at = BigIntegerField(null=True)
    # JSON [{key, label, status, detail, checkedAt}...]
    checks = TextField(null=True)
    checked_at = BigIntegerField(null=True)

    class Meta:
        indexes = ((("tracked_at",), False),)


Token.add_index(
    Token.index(
        Token.discovered_at, Token.id, where=SQL("tracked_at IS NOT NULL"), name="token_listed"
    )
)


class Snapshot(Quote):
    """One quote, kept for paper mode until `expires_at`, which is decided when it is taken; see
    scout.keep_until.
    """

    # rises with taken_at
    id = AutoField()
    token = ForeignKeyField(Token, backref="snapshots", index=False)
    taken_at = BigIntegerField()
    # null: pinned, a decision or a fill names it, never thinned
    expires_at = BigIntegerField(null=True, index=True)

    class Meta:
        indexes = ((("token", "taken_at"), False),)


# ---- the jobs ------------------------------------------------------------------------------------
class Job(Base):
    """One row per background job: what health tells about it."""

    # observer | scout | paper
    name = TextField(primary_key=True)
    # ok | failing | off
    state = TextField()
    heartbeat_at = BigIntegerField(null=True)
    last_success_at = BigIntegerField(null=True)
    last_error = TextField(null=True)
    # JSON, the job's own
    details = TextField(default="{}")


TABLES = (
    Owner,
    Bot,
    Key,
    Session,
    Wallet,
    Attachment,
    Address,
    Receipt,
    WalletSignature,
    Trade,
    TradeMint,
    HourTotal,
    Post,
    Arrival,
    Job,
    Token,
    Snapshot,
)


# ---- lists in statements ---------------------------------------------------------------------


# ---- short named writes --------------------------------------------------------------------------


def store_trades(rows):
    """Trade rows, each a dict of all columns but the id, new ones or again: {signature: id}. A row
    keeps its id for ever; a new one arrives with it.
    """
    numbers, derived = (
        {},
        [
            field
            for name, field in Trade._meta.fields.items()
            if name not in ("id", "uid", "wallet", "signature")
        ],
    )
    for part in chunked(rows, ROWS_A_STATEMENT):
        mine = (Trade.wallet == part[0]["wallet"]) & Trade.signature.in_(
            [row["signature"] for row in part]
        )
        known = {signature for (signature,) in Trade.select(Trade.signature).where(mine).tuples()}
        Trade.insert_many(part).on_conflict(
            conflict_target=[Trade.wallet, Trade.signature], preserve=derived
        ).execute()
        stored = dict(Trade.select(Trade.signature, Trade.id).where(mine).tuples())
        fresh = [
            {"kind": "trade", "trade": stored[row["signature"]]}
            for row in part
            if row["signature"] not in known
        ]
        if fresh:
            Arrival.insert_many(fresh).execute()
        numbers |= stored
    return numbers


def note_heartbeat(name, now):
    """A long pass of this job goes on; `now` in ms."""
    Job.update(heartbeat_at=now).where(Job.name == name).execute()


def note_job(name, state, now, problem=None, details=None):
    """Keep what health tells of a job; `now` in ms. Without `details` the last ones stay."""
    row = {"state": state, "heartbeat_at": now, "last_error": problem}
    if state == "ok":
        row["last_success_at"] = now
    if details is not None:
        row["details"] = details
    Job.insert(name=name, **row).on_conflict(conflict_target=[Job.name], update=row).execute()
